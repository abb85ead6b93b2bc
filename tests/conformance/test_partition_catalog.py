"""What the catalog says of partitions after a load: what it said before, and of new ones what it says of any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.test_partitions import check_tidy
from loading import load_text_here as load_text
from targets import PostgresTarget

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
