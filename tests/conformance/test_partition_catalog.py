"""What the catalog says of partitions after a load: what it said before, and of new ones what it says of any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tipple
from conformance.test_nothing_lost import during
from conformance.test_partitions import check_tidy
from loading import load
from loading import load_text_here as load_text
from servers.postgres import LOADER
from targets import PostgresTarget, write

TENS = """
CREATE TABLE t (k integer NOT NULL, v text) PARTITION BY RANGE (k);
CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10);
CREATE TABLE t1 (k integer CONSTRAINT mine NOT NULL, v text);
ALTER TABLE t ATTACH PARTITION t1 FOR VALUES FROM (10) TO (20);
CREATE INDEX every ON t (v);
"""
INDEXES = """
SELECT x.indrelid::regclass::text, c.relname::text, x.indisvalid, inhparent::regclass::text, k.conname::text
FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid LEFT JOIN pg_inherits ON inhrelid = c.oid
LEFT JOIN pg_constraint k ON k.conindid = c.oid AND k.contype IN ('p', 'u')
WHERE x.indrelid IN (SELECT relid FROM pg_partition_tree('t')) ORDER BY 1, 2
"""
NAMES = """
SELECT conrelid::regclass::text, conname::text FROM pg_constraint
WHERE contype = 'n' AND conrelid IN (SELECT relid FROM pg_partition_tree('t')) ORDER BY 1, 2
"""
TRIGGERS = """
SELECT tgrelid::regclass::text, tgfoid, tgenabled::text FROM pg_trigger
WHERE tgrelid IN (SELECT relid FROM pg_partition_tree('t')) ORDER BY 1, 2
"""


def load_tens(target: PostgresTarget, path: Path, **options: Any) -> list[str]:
    """Loads 20 rows over whatever there is, and gives the report's notes."""
    target.execute("INSERT INTO t VALUES (5, 'old')")
    text = "".join(f"{n},new {n}\n" for n in range(20))
    run = load_text(target, path / "in.csv", text, header="no", mode="replace", **options)
    assert run.summary["strategy"] == "partition"
    assert target.rows("SELECT tableoid::regclass::text, count(*) FROM t GROUP BY 1 ORDER BY 1") == [
        ("t0", 10),
        ("t1", 10),
    ]
    check_tidy(target)
    return list(run.summary["notes"])


def test_not_null_keeps_a_name_of_its_own(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """18 keeps NOT NULL as a constraint, with a name that a partition may have from before it was one."""
    postgres_target.execute(TENS)
    before = postgres_target.rows(NAMES)
    assert not any("INSERT" in note for note in load_tens(postgres_target, tmp_path))
    assert postgres_target.rows(NAMES) == before


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        pytest.param("CREATE INDEX aaa ON t0 (v)", "its index aaa may be taken for another", id="twin"),
        pytest.param("CREATE INDEX aaa ON t0 (v DESC)", "its index aaa may be taken for another", id="order"),
        pytest.param(
            "ALTER TABLE t ADD PRIMARY KEY (k); CREATE UNIQUE INDEX other ON t (k)",
            "may be taken for another",
            id="keys",
        ),
        pytest.param("CREATE INDEX part ON ONLY t (k)", "lacks the index part of its table", id="only"),
        pytest.param("CREATE UNIQUE INDEX broken ON t0 ((k / 5))", "its index broken is not valid", id="invalid"),
    ],
)
def test_indexes_stay_what_they_are(postgres_target: PostgresTarget, tmp_path: Path, statements: str, why: str) -> None:
    """The server pairs the indexes of an attached partition with those of the table by what they are, not by name."""
    postgres_target.execute(f"{TENS}; {statements}")
    with postgres_target.server.connect(postgres_target.database) as superuser:
        # As CREATE INDEX CONCURRENTLY leaves it that has failed.
        superuser.execute(
            "UPDATE pg_index SET indisvalid = false, indisready = false WHERE indexrelid = to_regclass('broken')"
        )
    before = postgres_target.rows(INDEXES)
    notes = load_tens(postgres_target, tmp_path)
    assert any(why in note for note in notes), notes
    assert postgres_target.rows(INDEXES) == before


def test_a_foreign_key_that_is_switched_off(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """COPY stores rows that violate it, and nobody finds it switched on afterwards."""
    postgres_target.execute(
        f"{TENS}; CREATE TABLE r (k integer PRIMARY KEY); ALTER TABLE t ADD FOREIGN KEY (k) REFERENCES r"
    )
    with postgres_target.server.connect(postgres_target.database) as superuser:
        superuser.execute("ALTER TABLE t DISABLE TRIGGER ALL")
    before = postgres_target.rows(TRIGGERS)
    notes = load_tens(postgres_target, tmp_path)
    assert any("its foreign key t_k_fkey is switched off" in note for note in notes), notes
    assert postgres_target.rows(TRIGGERS) == before


def test_new_partitions_lie_where_the_table_says(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    for name in ("tables", "indexes"):
        postgres_target.server.create_tablespace(name)
    postgres_target.execute(
        "CREATE TABLE t (k integer, v text) PARTITION BY RANGE (k) TABLESPACE tables; "
        "CREATE INDEX ON t (v) TABLESPACE indexes; CREATE TABLE plain PARTITION OF t FOR VALUES FROM (-5) TO (0)"
    )
    load_text(postgres_target, tmp_path / "in.csv", "1,a\n11,b\n", header="no", partition_by="range(k, every=10)")
    found = postgres_target.rows(
        "SELECT relkind::text, spcname::text, count(*) FROM pg_class JOIN pg_tablespace s ON s.oid = reltablespace "
        "WHERE relispartition GROUP BY 1, 2 ORDER BY 1"
    )
    assert found == [("i", "indexes", 3), ("r", "tables", 3)]
    check_tidy(postgres_target)


COLD = """
CREATE TABLE t (k integer PRIMARY KEY, v text) PARTITION BY RANGE (k);
CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10);
CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (10) TO (20);
"""
IN_TABLESPACES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND reltablespace <> 0"


def lay_cold(target: PostgresTarget, what: str, *, right: str) -> Callable[[str], None]:
    """Moves something of COLD to a tablespace where the loader then has a right, or none; gives what changes that."""
    server = target.server
    server.create_tablespace("cold", owner="postgres")

    def change(right: str) -> None:
        server.execute(f"{right} CREATE ON TABLESPACE cold {'TO' if right == 'GRANT' else 'FROM'} {LOADER}")

    change("GRANT")
    target.execute(f"{COLD}; ALTER {what} SET TABLESPACE cold")
    change(right)
    return change


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("TABLE t0", "t0: it lies in the tablespace cold, where this role may make none"),
        ("INDEX t0_pkey", "t0: its index t0_pkey lies in the tablespace cold, where this role may make none"),
    ],
)
def test_a_place_that_is_forbidden(postgres_target: PostgresTarget, tmp_path: Path, what: str, why: str) -> None:
    """COPY would store rows there, and so does INSERT; --tablespace takes the partition away from it."""
    lay_cold(postgres_target, what, right="REVOKE")
    path = tmp_path / "in.csv"
    assert load_text(postgres_target, path, "11,a\n", header="no", dry_run=True).summary["strategy"] == "partition"
    told = []
    for text, options in (
        ("11,a\n", {}),
        ("1,a\n", {"write_path": "text"}),
        ("2,b\n12,b\n", {"mode": "replace"}),
        ("3,c\n", {"mode": "replace", "replace_scope": "partitions"}),
    ):
        run = load_text(postgres_target, path, text, header="no", **options)
        assert run.summary["strategy"] == "partition"
        told.append(any(why in note for note in run.summary["notes"]))
        assert postgres_target.rows(IN_TABLESPACES) == [(what.split()[1],)]
    assert told == [False, True, True, True]
    assert postgres_target.rows("SELECT k, v FROM t ORDER BY k") == [(3, "c"), (12, "b")]
    load_text(postgres_target, path, "4,d\n", header="no", mode="replace", tablespace="pg_default")
    assert postgres_target.rows(IN_TABLESPACES) == []
    assert postgres_target.rows("SELECT k, v FROM t") == [(4, "d")]
    check_tidy(postgres_target)


@pytest.mark.parametrize("what", ["TABLE t0", "INDEX t0_pkey"])
@pytest.mark.parametrize(("first", "then"), [("REVOKE", "GRANT"), ("GRANT", "REVOKE")])
def test_a_place_is_forbidden_or_not_in_mid_load(
    postgres_target: PostgresTarget, tmp_path: Path, what: str, first: str, then: str
) -> None:
    change = lay_cold(postgres_target, what, right=first)
    tipple.load(
        write(tmp_path / "in.csv", "1,a\n11,a\n"), into=postgres_target.url, table="t", format="csv", header="no",
        mode="replace", progress=during("verify", lambda: change(then)),
    )  # fmt: skip
    assert postgres_target.rows(IN_TABLESPACES) == [(what.split()[1],)]
    assert postgres_target.count("t") == 2
    check_tidy(postgres_target)


def test_a_partition_is_moved_in_mid_load(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """It stays where somebody has moved it."""
    postgres_target.server.create_tablespace("tables")
    postgres_target.execute(COLD)
    tipple.load(
        write(tmp_path / "in.csv", "1,a\n11,a\n"), into=postgres_target.url, table="t", format="csv", header="no",
        progress=during("verify", lambda: postgres_target.execute("ALTER TABLE t0 SET TABLESPACE tables")),
    )  # fmt: skip
    assert postgres_target.rows(IN_TABLESPACES) == [("t0",)]
    assert postgres_target.count("t") == 2
    check_tidy(postgres_target)


def test_a_default_partition_keeps_its_indexes(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """It is detached while others are attached, so that it is scanned once."""
    postgres_target.execute(
        "CREATE TABLE t (k integer, v text) PARTITION BY RANGE (k); CREATE TABLE rest PARTITION OF t DEFAULT; "
        "CREATE INDEX aaa ON rest (v); INSERT INTO t VALUES (-5, 'old')"
    )
    postgres_target.execute("CREATE INDEX twin ON ONLY t (v); CREATE INDEX zzz ON rest (v)")
    postgres_target.execute("ALTER INDEX twin ATTACH PARTITION zzz")
    ours = INDEXES.replace("ORDER BY", "AND x.indrelid IN ('t'::regclass, 'rest'::regclass) ORDER BY")
    before = postgres_target.rows(ours)
    load_text(postgres_target, tmp_path / "in.csv", "1,a\n11,b\n", header="no", partition_by="range(k, every=10)")
    assert postgres_target.rows(ours) == before
    assert postgres_target.count("t") == 3
    check_tidy(postgres_target)


BOUNDS = """
SELECT c.relname::text, pg_get_expr(c.relpartbound, c.oid), pg_get_expr(x.indpred, x.indrelid)
FROM pg_class c LEFT JOIN pg_index x ON x.indrelid = c.oid WHERE c.relname ~ '^[pu][0-9]$' ORDER BY 1
"""


@pytest.mark.parametrize(
    "settings",
    [
        "-c extra_float_digits=0",
        "-c quote_all_identifiers=on",
        "-c TimeZone=Asia/Shanghai -c DateStyle=SQL,DMY",
        "-c TimeZone=Asia/Kolkata -c DateStyle=German -c extra_float_digits=-3",
        "-c IntervalStyle=sql_standard -c bytea_output=escape",
    ],
)
def test_no_setting_changes_what_is_made_again(postgres_target: PostgresTarget, tmp_path: Path, settings: str) -> None:
    """Bounds and predicates are what they were: the server shows them by the session's settings."""
    postgres_target.execute("""
        CREATE TABLE t (f float8, m timestamptz, v integer) PARTITION BY RANGE (f, m);
        CREATE TABLE p1 PARTITION OF t
            FOR VALUES FROM (0, MINVALUE) TO (0.1::float8 + 0.2::float8, '2024-01-01 00:00+08');
        CREATE TABLE p2 PARTITION OF t
            FOR VALUES FROM (0.1::float8 + 0.2::float8, '2024-01-01 00:00+08') TO (0.9, '2024-06-01 00:00+08');
        CREATE TABLE u1 (f float8, m timestamptz, v integer);
        CREATE UNIQUE INDEX ON u1 (v) WHERE f < 0.1::float8 + 0.2::float8 AND m < '2024-01-01 00:00+08'::timestamptz;
    """)
    before = postgres_target.rows(BOUNDS)
    text = "0.05,2024-01-15 05:00:00+08,1\n0.30000000000000004,2023-12-31 23:59:59+08,5\n0.5,2024-03-05 00:00+08,2\n"
    for table in ("t", "u1"):
        path = write(tmp_path / f"{table}.csv", text)
        run = load(postgres_target, path, table=table, header="no", env={"PGOPTIONS": settings})
        assert run.summary is not None
        assert run.summary["strategy"] == ("partition" if table == "t" else "swap")
        assert postgres_target.rows(f"SELECT v FROM {table} ORDER BY f") == [(1,), (5,), (2,)]
    assert postgres_target.rows("SELECT tableoid::regclass::text FROM t ORDER BY f") == [("p1",), ("p1",), ("p2",)]
    assert postgres_target.rows(BOUNDS) == before


def test_replacing_partitions_is_not_replacing_the_table(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The remedy, where partitions cannot be loaded apart, must not take the rows of all of them away."""
    postgres_target.execute(TENS)
    postgres_target.execute("""
        CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
        CREATE TRIGGER seen BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION seen();
        INSERT INTO t VALUES (5, 'old'), (15, 'old');
    """)
    run = load_text(
        postgres_target,
        tmp_path / "in.csv",
        "6,new\n",
        header="no",
        mode="replace",
        replace_scope="partitions",
        check=2,
    )
    assert "delete the rows that are to be replaced, and load with --mode append" in run.stderr
    assert postgres_target.count("t") == 2
