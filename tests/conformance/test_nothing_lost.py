"""What a table has, and a copy that takes its place might not: it stays, whichever way the load goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tipple
from servers.postgres import LOADER
from targets import PostgresTarget, write


def during(phase: str, action: Callable[[], None]) -> Callable[[Mapping[str, Any]], None]:
    """A progress callback that does something once, when a phase has begun."""
    done: list[str] = []

    def seen(snapshot: Mapping[str, Any]) -> None:
        if snapshot.get("phase") == phase and not done:
            done.append(phase)
            action()

    return seen


def two(tmp_path: Path) -> str:
    return str(write(tmp_path / "two.csv", "1,a\n2,b\n"))


def load(target: PostgresTarget, source: str, table: str = "t", **options: Any) -> Any:
    return tipple.load(source, into=target.url, table=table, **{"format": "csv", "header": "no", **options})


OPTIONS = "SELECT reloptions FROM pg_class WHERE oid = 't'::regclass"
RIGHTS = "SELECT r::text FROM pg_class c CROSS JOIN LATERAL unnest(relacl) r WHERE c.oid = 't'::regclass ORDER BY 1"
ROLE = 'DO $$ BEGIN CREATE ROLE "a reader"; EXCEPTION WHEN duplicate_object THEN NULL; END $$;'

CARRIED = {
    "comment": ("COMMENT ON TABLE t IS 'team A''s'", "SELECT obj_description('t'::regclass, 'pg_class')"),
    "comment of a column": ("COMMENT ON COLUMN t.v IS 'v'", "SELECT col_description('t'::regclass, 2)"),
    "comment of an index": ("COMMENT ON INDEX i IS 'x'", "SELECT obj_description('i'::regclass, 'pg_class')"),
    "comment of a constraint": (
        "COMMENT ON CONSTRAINT c ON t IS 'x'",
        "SELECT obj_description(oid, 'pg_constraint') FROM pg_constraint WHERE conname = 'c'",
    ),
    "comment of a key": (
        "ALTER TABLE t ADD CONSTRAINT \"a key\" UNIQUE (id); COMMENT ON CONSTRAINT \"a key\" ON t IS 'x'",
        "SELECT obj_description(oid, 'pg_constraint') FROM pg_constraint WHERE conname = 'a key'",
    ),
    "statistics target": (
        "ALTER TABLE t ALTER v SET STATISTICS 1000",
        "SELECT attstattarget FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'v'",
    ),
    "column options": (
        "ALTER TABLE t ALTER v SET (n_distinct = -0.5, n_distinct_inherited = 7)",
        "SELECT o FROM pg_attribute CROSS JOIN LATERAL unnest(attoptions) o "
        "WHERE attrelid = 't'::regclass AND attnum = 2 AND NOT starts_with(o, 'pg_attver=') ORDER BY 1",
    ),
    "storage parameters": ("ALTER TABLE t SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01)", OPTIONS),
    "autovacuum": ("ALTER TABLE t SET (autovacuum_enabled = false)", OPTIONS),
    "toast options": (
        "ALTER TABLE t SET (toast.autovacuum_enabled = false)",
        "SELECT reloptions FROM pg_class WHERE oid = (SELECT reltoastrelid FROM pg_class WHERE oid = 't'::regclass)",
    ),
    "rights": (
        "GRANT SELECT ON t TO PUBLIC; GRANT INSERT, UPDATE ON t TO \"a reader\" WITH GRANT OPTION;"
        "GRANT DELETE ON t TO \"a reader\"",
        RIGHTS,
    ),
    "rights that the owner has not": ("REVOKE TRIGGER, REFERENCES ON t FROM CURRENT_USER", RIGHTS),
    "rights of columns": (
        "GRANT SELECT (v), UPDATE (v, id) ON t TO \"a reader\" WITH GRANT OPTION; GRANT SELECT (id) ON t TO PUBLIC",
        "SELECT attname, r::text FROM pg_attribute CROSS JOIN LATERAL unnest(attacl) r "
        "WHERE attrelid = 't'::regclass ORDER BY 1, 2",
    ),
    "replica identity": ("ALTER TABLE t REPLICA IDENTITY FULL",
                         "SELECT relreplident FROM pg_class WHERE oid = 't'::regclass"),
    "replica identity by an index": (
        "ALTER TABLE t ALTER id SET NOT NULL; CREATE UNIQUE INDEX \"u i\" ON t (id);"
        "ALTER TABLE t REPLICA IDENTITY USING INDEX \"u i\"",
        "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 't'::regclass AND indisreplident",
    ),
    "order by an index": (
        "ALTER TABLE t CLUSTER ON i",
        "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 't'::regclass AND indisclustered",
    ),
    "serial column": (
        "CREATE SEQUENCE \"my s\"; ALTER TABLE t ADD s bigint DEFAULT nextval('\"my s\"');"
        "ALTER SEQUENCE \"my s\" OWNED BY t.s; SELECT setval('\"my s\"', 41); GRANT USAGE ON \"my s\" TO PUBLIC",
        "SELECT pg_get_serial_sequence('t', 's'), relacl::text, oid FROM pg_class WHERE relname = 'my s'",
    ),
    "statistics": (
        "CREATE STATISTICS st (ndistinct) ON id, v FROM t; ALTER STATISTICS st SET STATISTICS 50;"
        "CREATE SCHEMA away; CREATE STATISTICS away.\"s t\" ON (id + 1), (lower(v)) FROM t;"
        "CREATE STATISTICS mcv (mcv) ON v, id FROM t; COMMENT ON STATISTICS mcv IS 'it''s'",
        "SELECT stxrelid::regclass::text, stxnamespace::regnamespace::text, stxname, pg_get_statisticsobjdef(oid), "
        "stxstattarget, obj_description(oid, 'pg_statistic_ext') FROM pg_statistic_ext ORDER BY stxname",
    ),
    "foreign key": (
        "CREATE TABLE r (id integer PRIMARY KEY); INSERT INTO r VALUES (1), (2);"
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES r ON DELETE CASCADE DEFERRABLE",
        "SELECT conname, convalidated, pg_get_constraintdef(oid), confrelid::regclass::text, "
        "(SELECT count(*) FROM pg_trigger WHERE tgconstraint = k.oid) "
        "FROM pg_constraint k WHERE conrelid = 't'::regclass AND contype = 'f'",
    ),
}  # fmt: skip
"""What `belongings` gives to the table that takes the place, or is made again."""
KEPT = {
    "statistics target of an index": (
        "CREATE INDEX e ON t ((id + 1)); ALTER INDEX e ALTER 1 SET STATISTICS 7",
        "SELECT attstattarget FROM pg_attribute WHERE attrelid = 'e'::regclass",
    ),
    "forced row security": (
        "ALTER TABLE t FORCE ROW LEVEL SECURITY",
        "SELECT relforcerowsecurity FROM pg_class WHERE oid = 't'::regclass",
    ),
    "constraint that is not valid": (
        "INSERT INTO t VALUES (-5, 'old'); ALTER TABLE t ADD CONSTRAINT d CHECK (id > -2) NOT VALID; DELETE FROM t",
        "SELECT convalidated FROM pg_constraint WHERE conname = 'd'",
    ),
    "foreign key that is not valid": (
        "CREATE TABLE r (id integer PRIMARY KEY); INSERT INTO r VALUES (1), (2);"
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES r NOT VALID",
        "SELECT convalidated FROM pg_constraint WHERE conname = 'f'",
    ),
    "constraint that asks for the table": (
        "ALTER TABLE t ADD CONSTRAINT d CHECK (tableoid = 't'::regclass)",
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'd'",
    ),
    "array of its rows": ("CREATE TABLE other (a t[])", "SELECT format_type(atttypid, -1) FROM pg_attribute "
                          "WHERE attrelid = 'other'::regclass AND attname = 'a'"),
}  # fmt: skip
"""What rules out that another table takes the place."""


@pytest.mark.parametrize("name", KEPT | CARRIED)
def test_swap_keeps(postgres_target: PostgresTarget, tmp_path: Path, name: str) -> None:
    given, query = (KEPT | CARRIED)[name]
    with postgres_target.server.connect(postgres_target.database) as connection:
        connection.execute(ROLE)
    postgres_target.execute(
        "CREATE TABLE t (id integer CONSTRAINT c CHECK (id > -10), v text); CREATE INDEX i ON t (v)"
    )
    postgres_target.execute(given)
    before = postgres_target.rows(query)
    assert before
    assert before[0][0] is not None
    oid = postgres_target.value("SELECT 't'::regclass::oid")
    for mode in ("append", "replace"):
        report = load(postgres_target, two(tmp_path), mode=mode, restart=True, columns=["id", "v"])
        assert (report.strategy == "swap") == (name in CARRIED)
        assert postgres_target.rows(query) == before
        assert postgres_target.count("t") == 2
        assert "copied" not in " ".join(report.notes)
    assert (postgres_target.value("SELECT 't'::regclass::oid") != oid) == (name in CARRIED)
    assert postgres_target.leftovers("t", "r", "other") == set()


OF_TABLES = ("foreign key", "comment of a constraint", "serial column", "statistics")
CARRIED_BY_PARTITIONS = [name for name in CARRIED if name not in OF_TABLES]


@pytest.mark.parametrize("name", CARRIED_BY_PARTITIONS)
def test_partitions_keep(postgres_target: PostgresTarget, tmp_path: Path, name: str) -> None:
    """What a partition has of its own."""
    given, query = CARRIED[name]
    with postgres_target.server.connect(postgres_target.database) as connection:
        connection.execute(ROLE)
    postgres_target.execute("CREATE TABLE p (id integer, v text) PARTITION BY RANGE (id); CREATE INDEX ON p (v)")
    postgres_target.execute("CREATE TABLE t PARTITION OF p FOR VALUES FROM (0) TO (100)")
    postgres_target.execute("ALTER INDEX t_v_idx RENAME TO i")
    postgres_target.execute(given)
    before = postgres_target.rows(query)
    assert before[0][0] is not None
    for mode in ("append", "replace"):
        report = load(postgres_target, two(tmp_path), "p", mode=mode, restart=True)
        assert "1 swapped in" in " ".join(report.notes), report.notes
        assert postgres_target.rows(query) == before
        assert postgres_target.count("p") == 2
    assert postgres_target.leftovers("p", "t") == set()


def test_what_is_changed_in_mid_load_is_carried(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What somebody gives, takes or changes while rows are staged is so afterwards, and nothing is copied for it."""
    with postgres_target.server.connect(postgres_target.database) as connection:
        connection.execute(ROLE)
    postgres_target.execute(
        "CREATE TABLE t (id integer, v text) WITH (fillfactor = 50); GRANT SELECT ON t TO PUBLIC;"
        "ALTER TABLE t ALTER v SET STATISTICS 7; ALTER TABLE t ALTER v SET (n_distinct = 5)"
    )

    def change() -> None:
        postgres_target.execute(
            "ALTER TABLE t SET (fillfactor = 90, autovacuum_enabled = false); REVOKE SELECT ON t FROM PUBLIC;"
            'GRANT INSERT ON t TO "a reader"; ALTER TABLE t ALTER v SET STATISTICS -1;'
            "ALTER TABLE t ALTER v RESET (n_distinct); COMMENT ON COLUMN t.v IS 'late'"
        )

    report = load(postgres_target, two(tmp_path), mode="replace", progress=during("verify", change))
    assert (report.strategy, "copied" in " ".join(report.notes)) == ("swap", False)
    assert postgres_target.rows(OPTIONS) == [(["fillfactor=90", "autovacuum_enabled=false"],)]
    rights = [row for (row,) in postgres_target.rows(RIGHTS) if not row.startswith(f"{LOADER}=")]
    assert rights == [f'"a reader"=a/{LOADER}']
    assert postgres_target.value("SELECT col_description('t'::regclass, 2)") == "late"
    left = (
        "SELECT coalesce(attstattarget, -1), attoptions FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum = 2"
    )
    ((target, options),) = postgres_target.rows(left)
    assert target == -1
    assert not [option for option in options or [] if not option.startswith("pg_attver=")]


def test_pages_are_as_full_as_the_table_has_them(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Storage parameters count while rows come in."""
    postgres_target.execute("CREATE TABLE t (id integer, v text) WITH (fillfactor = 20)")
    source = str(write(tmp_path / "many.csv", "".join(f"{i},some text\n" for i in range(5000))))
    load(postgres_target, source)
    pages = postgres_target.value("SELECT pg_relation_size('t')") / 8192
    postgres_target.execute("CREATE TABLE u (LIKE t); INSERT INTO u SELECT * FROM t")
    assert pages > 4 * postgres_target.value("SELECT pg_relation_size('u')") / 8192


def test_rights_given_by_another_role(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Nobody can give them in its name: the table itself stays."""
    with postgres_target.server.connect(postgres_target.database) as connection:
        connection.execute(ROLE)
        connection.execute(f"CREATE TABLE t (id integer, v text); ALTER TABLE t OWNER TO {LOADER}".encode())
        connection.execute(
            f'SET ROLE {LOADER}; GRANT SELECT ON t TO "a reader" WITH GRANT OPTION;'
            'SET ROLE "a reader"; GRANT SELECT ON t TO PUBLIC'.encode()
        )
    before = postgres_target.rows(RIGHTS)
    report = load(postgres_target, two(tmp_path), mode="replace")
    assert report.strategy == "single"
    assert "grants by a reader" in report.strategy_reason
    assert postgres_target.rows(RIGHTS) == before


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_record_that_violates_a_foreign_key(postgres_target: PostgresTarget, tmp_path: Path, mode: str) -> None:
    """It is named, though the key is judged when all rows are there; where records are skipped, it is a reject."""
    postgres_target.execute(
        "CREATE TABLE r (id integer PRIMARY KEY); INSERT INTO r VALUES (1), (3);"
        "CREATE TABLE t (id integer CONSTRAINT f REFERENCES r, v text)"
    )
    source = str(write(tmp_path / "in.csv", "1,a\n2,b\n3,c\n,d\n"))
    with pytest.raises(tipple.BadRecord) as caught:
        load(postgres_target, source, mode=mode)
    assert (caught.value.record_number, caught.value.sqlstate) == (2, "23503")
    assert '"f"' in caught.value.reason
    assert postgres_target.count("t") == 0
    report = load(postgres_target, source, mode=mode, on_error="skip", max_rejects=1, rejects=str(tmp_path / "rejects"))
    assert report.rejects == 1
    assert postgres_target.rows("SELECT id, v FROM t ORDER BY v") == [(1, "a"), (3, "c"), (None, "d")]
    assert postgres_target.leftovers("t", "r") == set()


def test_default_privileges(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A table that takes another one's place gets nobody's rights; one that is new gets those of its schema."""
    postgres_target.execute("CREATE TABLE t (id integer, v text); CREATE SCHEMA sales")
    postgres_target.execute(
        "CREATE TABLE p (id integer, v text) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p DEFAULT"
    )
    postgres_target.execute(f"ALTER DEFAULT PRIVILEGES FOR ROLE {LOADER} GRANT SELECT ON TABLES TO public")
    postgres_target.execute(
        f"ALTER DEFAULT PRIVILEGES FOR ROLE {LOADER} IN SCHEMA sales GRANT INSERT ON TABLES TO public"
    )

    def rights(table: str) -> list[str]:
        query = (
            "SELECT a.privilege_type FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a "
            f"WHERE c.oid = '{table}'::regclass AND a.grantee = 0"
        )
        return sorted(right for (right,) in postgres_target.rows(query))

    source = two(tmp_path)
    load(postgres_target, source)
    load(postgres_target, source, mode="replace", restart=True)
    assert rights("t") == []
    schema = write(tmp_path / "s.sql", "CREATE TABLE n (id integer, v text)")
    load(postgres_target, source, "sales.n", schema=str(schema))
    assert rights("sales.n") == ["INSERT", "SELECT"]
    schema = write(tmp_path / "s.sql", "CREATE TABLE q (id integer, v text)")
    load(postgres_target, source, "sales.q", schema=str(schema), partition_by="range(id, bounds=[0, 10])")
    parts = postgres_target.rows("SELECT relid::regclass::text FROM pg_partition_tree('sales.q')")
    assert len(parts) > 1
    assert {part: rights(part) for (part,) in parts} == {part: ["INSERT", "SELECT"] for (part,) in parts}
    load(postgres_target, source, "p", mode="replace")
    assert rights("p1") == []


@pytest.mark.parametrize("partition_by", [None, "range(id, bounds=[0, 10])"])
def test_default_privileges_of_sequences(
    postgres_target: PostgresTarget, tmp_path: Path, partition_by: str | None
) -> None:
    """Those of a new table's serial and identity columns: whoever may insert must get numbers too."""
    columns = "(id integer, v text, s serial, g bigint GENERATED BY DEFAULT AS IDENTITY)"
    postgres_target.execute("CREATE SCHEMA sales")
    postgres_target.execute(
        f"ALTER DEFAULT PRIVILEGES FOR ROLE {LOADER} IN SCHEMA sales GRANT USAGE ON SEQUENCES TO public"
    )
    postgres_target.execute(f"CREATE TABLE sales.own {columns}")
    schema = write(tmp_path / "s.sql", f"CREATE TABLE n {columns}")
    load(postgres_target, two(tmp_path), "sales.n", schema=str(schema), columns=["id", "v"], partition_by=partition_by)

    def rights(table: str) -> list[str]:
        query = (
            "SELECT a.privilege_type FROM pg_depend d JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'S' "
            "CROSS JOIN LATERAL aclexplode(c.relacl) a "
            f"WHERE d.refobjid = '{table}'::regclass AND a.grantee = 0"
        )
        return sorted(right for (right,) in postgres_target.rows(query))

    assert rights("sales.n") == rights("sales.own") == ["USAGE", "USAGE"]


CHANGES = {
    "column": "ALTER TABLE t ADD extra integer NOT NULL DEFAULT 42",
    "type": "ALTER TABLE t ALTER id TYPE bigint",
    "not null": "ALTER TABLE t ALTER v SET NOT NULL",
    "default": "ALTER TABLE t ALTER w SET DEFAULT 9",
    "check": "ALTER TABLE t DROP CONSTRAINT c",
    "index": "DROP INDEX i",
    "renamed": "ALTER TABLE t RENAME TO old; CREATE TABLE t (id integer, v text, w integer DEFAULT 7)",
}


@pytest.mark.parametrize("mode", ["append", "replace"])
@pytest.mark.parametrize("name", CHANGES)
def test_ddl_in_mid_load(postgres_target: PostgresTarget, tmp_path: Path, name: str, mode: str) -> None:
    """What others change while rows are staged is there afterwards."""
    table = (
        "CREATE TABLE t (id integer CONSTRAINT c CHECK (id > 0), v text, w integer DEFAULT 1); CREATE INDEX i ON t (v)"
    )
    postgres_target.execute(table)
    shape = (
        "SELECT a.attname, format_type(a.atttypid, -1), a.attnotnull, pg_get_expr(d.adbin, d.adrelid) "
        "FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum "
        "WHERE a.attrelid = 't'::regclass AND a.attnum > 0 "
        "UNION ALL SELECT conname, pg_get_constraintdef(oid), NULL, NULL FROM pg_constraint "
        "WHERE conrelid = 't'::regclass "
        "UNION ALL SELECT relname, 'index', NULL, NULL FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
        "WHERE indrelid = 't'::regclass ORDER BY 1, 2"
    )
    wanted: list[Any] = []

    def change() -> None:
        postgres_target.execute(CHANGES[name])
        wanted.extend(postgres_target.rows(shape))

    # An index that goes before any is built is not built.
    seen = during("analyze" if name == "index" else "verify", change)
    report = load(postgres_target, two(tmp_path), columns=["id", "v"], mode=mode, progress=seen)
    assert report.strategy == "swap"
    assert postgres_target.rows(shape) == wanted
    assert sorted(postgres_target.rows("SELECT id, v FROM t")) == [(1, "a"), (2, "b")]
    assert "copied, not swapped in" in " ".join(report.notes)
    assert postgres_target.leftovers("t", "old") == set()


class TestPartitions:
    """What a partition has of its own."""

    ROOT = "CREATE TABLE t (id integer, n integer) PARTITION BY RANGE (id);"
    PART = "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100);"

    @pytest.mark.parametrize("write_path", ["auto", "text"])
    @pytest.mark.parametrize("mode", ["append", "replace"])
    def test_not_null(self, postgres_target: PostgresTarget, tmp_path: Path, mode: str, write_path: str) -> None:
        postgres_target.execute(self.ROOT + self.PART + "ALTER TABLE t1 ALTER n SET NOT NULL")
        source = str(write(tmp_path / "in.csv", "1,5\n2,\n3,6\n"))
        with pytest.raises(tipple.BadRecord) as caught:
            load(postgres_target, source, mode=mode, write_path=write_path)
        assert (caught.value.record_number, caught.value.sqlstate) == (2, "23502")
        report = load(
            postgres_target, source, mode=mode, write_path=write_path, on_error="skip", max_rejects=1,
            rejects=str(tmp_path / "rejects"),
        )  # fmt: skip
        assert report.rejects == 1
        assert postgres_target.sorted_rows("t") == [(1, 5), (3, 6)]
        query = "SELECT attnotnull FROM pg_attribute WHERE attrelid = 't1'::regclass AND attname = 'n'"
        assert postgres_target.value(query) is True

    @pytest.mark.parametrize(
        ("own", "second", "sqlstate"),
        [
            ("ALTER TABLE t1 ADD CONSTRAINT own CHECK (n > 0)", "2,-1", "23514"),
            ("CREATE UNIQUE INDEX own ON t1 (n)", "2,5", "23505"),
        ],
    )
    def test_refusals(
        self, postgres_target: PostgresTarget, tmp_path: Path, own: str, second: str, sqlstate: str
    ) -> None:
        postgres_target.execute(self.ROOT + self.PART + own)
        source = str(write(tmp_path / "in.csv", f"1,5\n{second}\n3,6\n"))
        with pytest.raises(tipple.BadRecord) as caught:
            load(postgres_target, source)
        assert (caught.value.record_number, caught.value.sqlstate) == (2, sqlstate)
        assert '"own"' in caught.value.reason
        load(postgres_target, source, on_error="skip", max_rejects=1, rejects=str(tmp_path / "rejects"))
        assert postgres_target.sorted_rows("t") == [(1, 5), (3, 6)]
        kept = "SELECT conname FROM pg_constraint UNION ALL SELECT relname FROM pg_class"
        assert ("own",) in postgres_target.rows(kept)

    def test_values(self, postgres_target: PostgresTarget, tmp_path: Path) -> None:
        """Before 16, expressions of generated columns cannot differ."""
        factor = 100 if postgres_target.server.version >= 16 else 1
        made = "id integer NOT NULL, g integer GENERATED ALWAYS AS (id * {}) STORED, w integer DEFAULT {}"
        postgres_target.execute(
            f"CREATE TABLE t ({made.format(1, 7)}) PARTITION BY RANGE (id); CREATE TABLE t1 ({made.format(factor, 9)});"
            "ALTER TABLE t ATTACH PARTITION t1 FOR VALUES FROM (0) TO (100)"
        )
        load(postgres_target, str(write(tmp_path / "in.csv", "5\n")), columns=["id"])
        assert postgres_target.rows("SELECT g, w FROM t") == [(5 * factor, 7)]
        query = "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 't1'::regclass AND adnum = 3"
        assert postgres_target.value(query) == "9"

    def test_order_of_columns(self, postgres_target: PostgresTarget, tmp_path: Path) -> None:
        postgres_target.execute(
            self.ROOT + "CREATE TABLE t1 (n integer, id integer); ALTER TABLE t ATTACH PARTITION t1 DEFAULT"
        )
        postgres_target.execute("CREATE TABLE t2 (n integer, id integer)")
        postgres_target.execute("ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (0) TO (10)")
        load(postgres_target, str(write(tmp_path / "in.csv", "1,5\n20,6\n")), mode="replace")
        assert postgres_target.rows("SELECT * FROM t2") == [(5, 1)]
        assert postgres_target.rows("SELECT * FROM t1") == [(6, 20)]

    def test_comment(self, postgres_target: PostgresTarget, tmp_path: Path) -> None:
        postgres_target.execute(self.ROOT + self.PART + "COMMENT ON COLUMN t1.n IS 'own'")
        load(postgres_target, str(write(tmp_path / "in.csv", "1,5\n")), mode="replace")
        assert postgres_target.value("SELECT col_description('t1'::regclass, 2)") == "own"
        assert postgres_target.count("t1") == 1


def test_a_null_key_of_a_partition_that_is_made(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """No partition can be made for it: a bad record like others."""
    postgres_target.execute("CREATE TABLE t (id integer, v text) PARTITION BY RANGE (id)")
    source = str(write(tmp_path / "in.csv", "1,a\n,b\n25,c\n"))
    with pytest.raises(tipple.BadRecord) as caught:
        load(postgres_target, source, partition_by="range(id, every=10)")
    assert (caught.value.record_number, caught.value.column) == (2, "id")
    report = load(
        postgres_target, source, partition_by="range(id, every=10)", on_error="skip", max_rejects=1,
        rejects=str(tmp_path / "rejects"),
    )  # fmt: skip
    assert report.rejects == 1
    assert postgres_target.sorted_rows("t") == [(1, "a"), (25, "c")]


FILTER = (
    "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS "
    "'BEGIN IF NEW.id > 1 THEN RETURN NULL; END IF; RETURN NEW; END';"
    "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"
)


@pytest.mark.parametrize("options", [{"mode": "upsert", "key": ["id"]}, {}, {"atomic": False}, {"write_path": "text"}])
def test_a_trigger_that_keeps_rows_out(
    postgres_target: PostgresTarget, tmp_path: Path, options: dict[str, Any]
) -> None:
    postgres_target.execute("CREATE TABLE t (id integer, v text)")
    postgres_target.execute(FILTER)
    with pytest.raises(tipple.TippleError, match="trigger") as caught:
        load(postgres_target, two(tmp_path), **options)
    assert "internal" not in str(caught.value)
    assert "DISABLE TRIGGER" in f"{caught.value} {caught.value.hint}"
    assert postgres_target.count("t") == 0


@pytest.mark.parametrize("parted", [False, True])
def test_a_trigger_that_changes_values(postgres_target: PostgresTarget, tmp_path: Path, parted: bool) -> None:
    """What differs from the source is the trigger's work, and no fault to report."""
    if parted:
        postgres_target.execute("CREATE TABLE t (id integer, v text) PARTITION BY RANGE (id)")
        postgres_target.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (9)")
    else:
        postgres_target.execute("CREATE TABLE t (id integer, v text)")
    postgres_target.execute(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.v := upper(NEW.v); RETURN NEW; END';"
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"
    )
    with pytest.raises(tipple.VerifyFailed) as caught:
        load(postgres_target, two(tmp_path), verify="checksum")
    hint = str(caught.value.hint)
    assert "the trigger g may have changed" in hint
    assert "--verify count" in hint
    assert "report" not in hint
    assert postgres_target.count("t") == 0
    load(postgres_target, two(tmp_path), verify="count")
    assert postgres_target.sorted_rows("t") == [(1, "A"), (2, "B")]


def test_no_right_to_use_the_schema(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    server, database = postgres_target.server, postgres_target.database
    with server.connect(database) as connection:
        connection.execute("CREATE SCHEMA closed; CREATE TABLE closed.t (id integer, v text)")
    for options in ({}, {"mode": "replace"}, {"mode": "upsert", "key": ["id"]}):
        with pytest.raises(tipple.UsageError, match="permission denied") as caught:
            load(postgres_target, two(tmp_path), "closed.t", **options)
        assert 'GRANT USAGE ON SCHEMA "closed"' in (caught.value.hint or "")


SLOW_INDEX = (
    "CREATE FUNCTION slow(i integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS "
    "'BEGIN PERFORM pg_sleep(0.004); RETURN i; END';"
    "CREATE TABLE t (id integer, v text); CREATE INDEX i ON t (slow(id))"
)


def test_a_session_that_is_ended_while_it_builds_an_index(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The load goes on where it was, as one whose streams lose their sessions does."""
    postgres_target.execute(SLOW_INDEX)
    source = str(write(tmp_path / "in.csv", "".join(f"{i},x\n" for i in range(300))))
    ended: list[int] = []

    def end() -> None:
        until = time.monotonic() + 20
        while not ended and time.monotonic() < until:
            found = postgres_target.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE query LIKE 'CREATE%INDEX%' AND state = 'active' AND datname = current_database() "
                "AND pid <> pg_backend_pid()"
            )
            ended.extend(1 for _ in found)
            time.sleep(0.02)

    helper = threading.Thread(target=end)
    helper.start()
    report = load(postgres_target, source)
    helper.join()
    assert ended
    assert report.rows == 300
    assert postgres_target.count("t") == 300
    assert "went on" in " ".join(report.notes)
    assert postgres_target.leftovers("t") == set()


def test_partitions_are_published_beside_readers_who_write(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Somebody reads the partitions and then writes into their table: nobody is ended as a deadlock."""
    postgres_target.execute(
        "CREATE TABLE t (id integer, v text) PARTITION BY RANGE (id);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100);"
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (100) TO (200)"
    )
    source = str(write(tmp_path / "in.csv", "".join(f"{i},x\n" for i in range(200))))
    reading, failures = threading.Event(), []

    def read_and_write() -> None:
        try:
            with psycopg.connect(postgres_target.url) as connection:
                connection.execute("SELECT count(*) FROM t")
                reading.set()
                time.sleep(1.5)
                connection.execute("INSERT INTO t VALUES (150, 'other')")
        except psycopg.Error as error:
            failures.append(error)

    helper = threading.Thread(target=read_and_write)
    helper.start()
    reading.wait(10)
    load(postgres_target, source)
    helper.join()
    assert failures == []
    assert postgres_target.count("t") == 201


def test_few_sessions_for_indexes(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Indexes are built by as many sessions as the server gives."""
    postgres_target.execute("CREATE TABLE t (id integer, v text)")
    for number in range(5):
        postgres_target.execute(f"CREATE INDEX ON t (v, (id + {number}))")
    server, database = postgres_target.server, postgres_target.database
    limit = "ALTER DATABASE {} CONNECTION LIMIT {}"
    with server.connect() as connection:
        # The test's own, the load's, and two more.
        connection.execute(limit.format(database, 4).encode())
        try:
            report = load(postgres_target, two(tmp_path), jobs=4)
        finally:
            connection.execute(limit.format(database, -1).encode())
    assert report.rows == 2
    assert postgres_target.value("SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass AND indisvalid") == 5


def test_a_table_in_a_tablespace(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """It stays where it is, and so do its indexes."""
    for name in ("fast", "slow"):
        postgres_target.server.create_tablespace(name)
    postgres_target.execute(
        "CREATE TABLE t (id integer, v text) TABLESPACE fast; CREATE INDEX i ON t (v) TABLESPACE slow;"
        "ALTER TABLE t ADD CONSTRAINT k PRIMARY KEY (id) USING INDEX TABLESPACE slow"
    )
    places = (
        "SELECT relname, spcname FROM pg_class c JOIN pg_tablespace s ON s.oid = reltablespace "
        "WHERE relname IN ('t', 'i', 'k') ORDER BY 1"
    )
    before = postgres_target.rows(places)
    assert before == [("i", "slow"), ("k", "slow"), ("t", "fast")]
    report = load(postgres_target, two(tmp_path), mode="replace")
    assert report.strategy == "swap", report.strategy_reason
    assert postgres_target.rows(places) == before
    postgres_target.execute("ALTER INDEX i SET TABLESPACE fast")
    report = load(postgres_target, two(tmp_path), mode="replace", restart=True)
    assert (report.strategy, "different tablespaces" in report.strategy_reason) == ("single", True)


def test_a_serial_column_counts_on(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (s serial PRIMARY KEY, id integer, v text)")
    for number in range(3):
        report = load(postgres_target, two(tmp_path), columns=["id", "v"], mode="replace", restart=True)
        assert report.strategy == "swap"
        assert postgres_target.value("SELECT min(s) FROM t") == 1 + 2 * number
    postgres_target.execute("INSERT INTO t (id) VALUES (7)")
    assert postgres_target.value("SELECT max(s) FROM t") == 7
    postgres_target.execute("DROP TABLE t")
    assert postgres_target.value("SELECT count(*) FROM pg_class WHERE relkind = 'S' AND relname LIKE 't%'") == 0
