"""What hangs on a table is carried over to the one that takes its place; where it cannot be, the table itself stays."""

from __future__ import annotations

from pathlib import Path

import pytest

import tipple
from command import run_tipple
from conformance.test_nothing_lost import during, load, two
from servers.postgres import LOADER
from targets import PostgresTarget, write

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
    "rights of columns of the system": (
        "GRANT SELECT (v, xmin), UPDATE (id) ON t TO \"a reader\"; GRANT SELECT (tableoid) ON t TO PUBLIC",
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
    "serial column": (
        "CREATE SEQUENCE \"my s\"; ALTER TABLE t ADD s bigint DEFAULT nextval('\"my s\"');"
        "ALTER SEQUENCE \"my s\" OWNED BY t.s; SELECT setval('\"my s\"', 41); GRANT USAGE ON \"my s\" TO PUBLIC",
        "SELECT pg_get_serial_sequence('t', 's'), relacl::text, oid FROM pg_class WHERE relname = 'my s'",
    ),
    "identity column": (
        "ALTER TABLE t ADD n smallint GENERATED BY DEFAULT AS IDENTITY (START 5 INCREMENT 3 CACHE 4 MAXVALUE 9999 "
        "MINVALUE 2 CYCLE); ALTER SEQUENCE t_n_seq RENAME TO \"my n\"; COMMENT ON SEQUENCE \"my n\" IS 'it''s n';"
        "GRANT USAGE ON \"my n\" TO PUBLIC; GRANT SELECT ON \"my n\" TO \"a reader\" WITH GRANT OPTION",
        "SELECT attidentity::text, attnotnull, pg_get_serial_sequence('t', 'n'), format_type(seqtypid, -1), seqstart, "
        "seqincrement, seqmin, seqmax, seqcache, seqcycle, (SELECT array_agg(r::text ORDER BY r::text) FROM "
        "unnest(relacl) r), relowner::regrole::text, obj_description(s.oid, 'pg_class') FROM pg_sequence "
        "JOIN pg_class s ON s.oid = seqrelid JOIN pg_attribute a ON a.attrelid = 't'::regclass AND attname = 'n' "
        "WHERE s.relname = 'my n'",
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
    "constraint over whole rows": (
        "ALTER TABLE t ADD CONSTRAINT d CHECK (id > -2 AND t IS NOT NULL)",
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'd'",
    ),
    "unique index over whole rows": (
        "CREATE UNIQUE INDEX d ON t (id) WHERE t IS NOT NULL", "SELECT pg_get_indexdef('d'::regclass)"
    ),
    "index over whole rows": ("CREATE INDEX d ON t (hash_record(t))", "SELECT pg_get_indexdef('d'::regclass)"),
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


@pytest.mark.parametrize(
    "given", ["ALTER TABLE t ADD CONSTRAINT d CHECK (t IS NOT NULL)", "CREATE INDEX d ON t (hash_record(t))"]
)
def test_whole_row_references_are_told_before(postgres_target: PostgresTarget, tmp_path: Path, given: str) -> None:
    """No other table can have them, which the server says when one is made."""
    postgres_target.execute("CREATE TABLE t (id integer, v text)")
    postgres_target.execute(given)
    why = f"its {'constraint' if 'CHECK' in given else 'index'} d has a whole-row reference"
    assert why in run_tipple("doctor", postgres_target.url, "--table", "t", check=False).stdout
    planned = load(postgres_target, two(tmp_path), dry_run=True)
    assert planned.strategy == "single"
    assert why in planned.strategy_reason
    with pytest.raises(tipple.UsageError, match=why):
        load(postgres_target, two(tmp_path), indexes="rebuild")


OF_TABLES = ("comment of a constraint", "foreign key", "identity column", "serial column", "statistics")
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


def test_a_replica_identity_whose_index_is_gone(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """There is none any more, for the server too."""
    postgres_target.execute(
        "CREATE TABLE t (id integer NOT NULL, v text); CREATE UNIQUE INDEX i ON t (id);"
        "ALTER TABLE t REPLICA IDENTITY USING INDEX i; DROP INDEX i"
    )
    report = load(postgres_target, two(tmp_path), mode="replace")
    assert report.strategy == "swap"
    assert postgres_target.value("SELECT relreplident FROM pg_class WHERE oid = 't'::regclass") in ("n", b"n")


def test_a_tablespace_that_is_changed_in_mid_load(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.server.create_tablespace("other")
    postgres_target.execute("CREATE TABLE t (id integer, v text); CREATE INDEX i ON t (id)")

    def change() -> None:
        postgres_target.execute("ALTER TABLE t SET TABLESPACE other; ALTER INDEX i SET TABLESPACE other")

    load(postgres_target, two(tmp_path), mode="replace", progress=during("verify", change))
    places = "SELECT count(*) FROM pg_class WHERE relname IN ('t', 'i') AND reltablespace <> 0"
    assert postgres_target.value(places) == 2
    assert postgres_target.count("t") == 2
