"""append, replace and create; and that a table stays what it was but for its rows."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from big import COLUMNS, TABLE, BigFile
from command import start_tipple
from loading import load, load_here, load_text, load_words
from servers.postgres import LOADER
from targets import PostgresTarget, Target, write

SCHEMA_FILE = """
-- What the nightly batch creates.
CREATE TABLE other (x integer);
CREATE TABLE t (
    a integer PRIMARY KEY,   -- the key; "quoted; text"
    b varchar(20) DEFAULT 'none' NOT NULL,
    c numeric(10,2) CHECK (c >= 0)
);
"""


@pytest.mark.parametrize("mode", [None, "append"])
def test_append_adds(engine_target: Target, tmp_path: Path, mode: str | None) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    engine_target.execute("INSERT INTO t VALUES (1), (2)")
    load_text(engine_target, tmp_path / "in.csv", "3\n4\n", mode=mode)
    assert engine_target.sorted_rows("t") == [(1,), (2,), (3,), (4,)]


def test_replace_replaces(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    engine_target.execute("INSERT INTO t VALUES (1), (2)")
    load_text(engine_target, tmp_path / "in.csv", "3\n4\n", mode="replace")
    assert engine_target.sorted_rows("t") == [(3,), (4,)]
    run = load_text(engine_target, tmp_path / "empty.csv", "", mode="replace")
    assert engine_target.count("t") == 0
    assert "--mode replace has left t empty" in " ".join(run.summary["notes"])


def test_replace_that_fails_keeps_the_old_rows(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    engine_target.execute("INSERT INTO t VALUES (1), (2)")
    load_text(engine_target, tmp_path / "in.csv", "3\nx\n", mode="replace", check=1)
    assert engine_target.sorted_rows("t") == [(1,), (2,)]
    assert engine_target.leftovers("t") == set()


@pytest.mark.parametrize("mode", ["create", "append", "replace"])
def test_schema_creates_a_missing_table(engine_target: Target, tmp_path: Path, mode: str) -> None:
    schema = write(tmp_path / "schema.sql", SCHEMA_FILE)
    load_text(engine_target, tmp_path / "in.csv", "1,x,1.5\n2,y,\n", schema=schema, mode=mode)
    rows = engine_target.rows("SELECT a, b, CAST(c AS varchar) FROM t ORDER BY a")
    assert rows == [(1, "x", "1.50"), (2, "y", None)]
    assert engine_target.leftovers("t") == set()
    # Its constraints and defaults are there as well.
    engine_target.execute("INSERT INTO t (a) VALUES (3)")
    assert engine_target.value("SELECT b FROM t WHERE a = 3") == "none"
    for bad in ("(1, 'z', 1)", "(4, NULL, 1)", "(5, 'z', -1)", "(NULL, 'z', 1)"):
        with pytest.raises(Exception, match=r"(?i)constraint|null"):
            engine_target.execute(f"INSERT INTO t VALUES {bad}")


def test_create_in_another_schema(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE SCHEMA warehouse")
    schema = write(tmp_path / "schema.sql", SCHEMA_FILE)
    path = write(tmp_path / "in.csv", "1,x,1.5\n")
    load(engine_target, path, table="warehouse.t", schema=schema, mode="create")
    assert engine_target.count("warehouse.t") == 1


def test_create_refuses_an_existing_table(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    engine_target.execute("INSERT INTO t VALUES (1)")
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (a integer);")
    for dry_run in (True, False):
        run = load_text(
            engine_target, tmp_path / "in.csv", "2\n", schema=schema, mode="create", dry_run=dry_run, check=2
        )
        assert engine_target.sorted_rows("t") == [(1,)]
        assert "exists" in run.stderr


def test_create_that_fails_leaves_no_table(engine_target: Target, tmp_path: Path) -> None:
    schema = write(tmp_path / "schema.sql", SCHEMA_FILE)
    path = tmp_path / "in.csv"
    for data in ("1,x,1.5\n1,y,2\n", "1,x,-1\n", "1,,1\n", "1,x,abc\n"):
        load_text(engine_target, path, data, schema=schema, mode="create", check=1)
        assert engine_target.leftovers() == set(), data


def test_missing_table_without_schema(engine_target: Target, tmp_path: Path) -> None:
    run = load_text(engine_target, tmp_path / "in.csv", "1\n", check=2)
    assert engine_target.leftovers() == set()
    assert "--schema" in run.stderr


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("missing.sql", "cannot read the schema file"),
        ("other.sql", "the schema file has no CREATE TABLE for t"),
        ("broken.sql", "line 1: ')' was expected, but the statement ends"),
    ],
)
def test_schema_that_does_not_help(engine_target: Target, tmp_path: Path, schema: str, said: str) -> None:
    write(tmp_path / "other.sql", "CREATE TABLE another (a integer);")
    write(tmp_path / "broken.sql", "CREATE TABLE t (a integer")
    run = load_text(engine_target, tmp_path / "in.csv", "1\n", schema=tmp_path / schema, mode="create", check=2)
    assert said in run.stderr
    assert engine_target.leftovers() == set()


def test_tpch_schema(engine_target: Target, tmp_path: Path) -> None:
    load_text(
        engine_target, tmp_path / "region.tbl", "0|AFRICA|x|\n1|AMERICA|y|\n",
        table="region", schema="tpch", mode="create",
    )  # fmt: skip
    rows = engine_target.rows("SELECT r_regionkey, rtrim(r_name), r_comment FROM region ORDER BY 1")
    assert rows == [(0, "AFRICA", "x"), (1, "AMERICA", "y")]


# ---- what a reader sees --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "replace", "create"])
def test_readers_see_all_or_nothing(
    postgres_target: PostgresTarget, tmp_path: Path, big_file: BigFile, mode: str
) -> None:
    """A reader that looks all the time sees the old rows, then the new ones, and no state in between."""
    options: dict[str, object] = {"mode": mode, "jobs": 2}
    if mode == "create":
        options["schema"] = write(tmp_path / "schema.sql", f"CREATE TABLE t ({COLUMNS});")
        before, after = None, big_file.rows
    else:
        postgres_target.execute(f"{TABLE}; INSERT INTO t SELECT -g, g FROM generate_series(1, 1000) g")
        before, after = 1000, big_file.rows + (1000 if mode == "append" else 0)
    seen: set[int | None] = set()
    longest = 0.0
    stop = threading.Event()

    def watch() -> None:
        nonlocal longest
        url = postgres_target.server.url(LOADER, postgres_target.database)
        with psycopg.connect(url, autocommit=True) as connection:
            while not stop.wait(0.01):
                started = time.monotonic()
                try:
                    row = connection.execute("SELECT count(*) FROM t").fetchone()
                except psycopg.errors.UndefinedTable:
                    row = (None,)
                assert row is not None
                seen.add(row[0])
                longest = max(longest, time.monotonic() - started)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        load(postgres_target, big_file.path, **options)
        time.sleep(0.1)
    finally:
        stop.set()
        watcher.join()
    assert before in seen
    assert seen <= {before, after}
    assert postgres_target.count("t") == after
    # Publishing may lock readers out, but not for the length of a load.
    assert longest < 30


def test_a_reader_with_an_old_snapshot(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Replace makes no rows vanish for a transaction that began before it; it may have to wait for it."""
    postgres_target.execute("CREATE TABLE t (a integer); INSERT INTO t VALUES (1), (2); CREATE TABLE u (a integer)")
    path = write(tmp_path / "in.csv", "3\n")
    url = postgres_target.server.url(LOADER, postgres_target.database)
    with psycopg.connect(url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT * FROM u").fetchall()
        command = start_tipple(*load_words(postgres_target.url, (path,), "t", {"mode": "replace"}))
        try:
            time.sleep(1.5)
            assert reader.execute("SELECT count(*) FROM t").fetchone() == (2,)
            reader.rollback()
        finally:
            run = command.wait()
    assert run.exit_code == 0, str(run)
    assert postgres_target.sorted_rows("t") == [(3,)]


# ---- what must not change ------------------------------------------------------------------------------

DRESSED = """
CREATE TABLE parent (a integer PRIMARY KEY);
INSERT INTO parent SELECT g FROM generate_series(1, 100) g;
CREATE TABLE t (
    a integer PRIMARY KEY REFERENCES parent,
    b text NOT NULL DEFAULT 'x' COLLATE "C" CHECK (length(b) < 10),
    c numeric(10,2),
    id integer GENERATED ALWAYS AS IDENTITY,
    e integer GENERATED ALWAYS AS (a * 2) STORED,
    UNIQUE (b)
) WITH (fillfactor = 70);
CREATE INDEX t_c ON t (c) WHERE c > 0;
CREATE INDEX t_lower ON t (lower(b));
COMMENT ON TABLE t IS 'a table';
COMMENT ON COLUMN t.a IS 'a column';
CREATE VIEW v AS SELECT a, b FROM t;
CREATE TABLE child (a integer REFERENCES t DEFERRABLE INITIALLY DEFERRED);
GRANT SELECT ON t TO postgres;
GRANT SELECT ON t TO PUBLIC;
ALTER TABLE t ALTER b SET STATISTICS 500;
CREATE STATISTICS t_stats ON a, b FROM t;
ALTER TABLE t REPLICA IDENTITY USING INDEX t_pkey;
ALTER TABLE t CLUSTER ON t_pkey;
INSERT INTO t (a, b, c) VALUES (1, 'one', 1), (2, 'two', 2);
"""

SHAPE = (
    "SELECT 'a', attname::text, format_type(atttypid, atttypmod), attnotnull::text, attstattarget::text, "
    "attidentity::text || attgenerated::text, coalesce(col_description(attrelid, attnum), '') "
    "FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT attisdropped",
    "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid), indisvalid, indisclustered, "
    "indisreplident FROM pg_index WHERE indrelid = 't'::regclass",
    "SELECT conname::text, pg_get_constraintdef(oid), convalidated FROM pg_constraint "
    "WHERE conrelid = 't'::regclass OR confrelid = 't'::regclass",
    "SELECT tgname::text, tgenabled::text FROM pg_trigger WHERE tgrelid = 't'::regclass AND NOT tgisinternal",
    "SELECT relacl::text, relowner::regrole::text, reloptions::text, relpersistence::text, "
    "relreplident::text, relrowsecurity, obj_description(oid) FROM pg_class WHERE oid = 't'::regclass",
    "SELECT pg_get_viewdef('v'::regclass)",
    "SELECT stxname::text FROM pg_statistic_ext WHERE stxrelid = 't'::regclass",
    "SELECT pg_get_serial_sequence('t', 'id')",
)


def shape(target: PostgresTarget) -> list[list[str]]:
    return [sorted(map(repr, target.rows(query))) for query in SHAPE]


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_the_table_stays_what_it_was(postgres_target: PostgresTarget, tmp_path: Path, mode: str) -> None:
    postgres_target.execute(DRESSED)
    before = shape(postgres_target)
    data = "".join(f"{i},r{i},{i}.5\n" for i in range(3, 100))
    load_text(postgres_target, tmp_path / "in.csv", data, mode=mode, columns="a,b,c", jobs=2)
    assert shape(postgres_target) == before
    expected = 97 + (2 if mode == "append" else 0)
    assert postgres_target.count("t") == postgres_target.count("v") == expected
    assert postgres_target.rows("SELECT b, e FROM t WHERE a = 50") == [("r50", 100)]
    assert postgres_target.value("SELECT count(DISTINCT id) FROM t") == expected
    # Indexes hold the rows, and constraints still hold.
    postgres_target.execute("SET enable_seqscan = off")
    assert postgres_target.value("SELECT count(*) FROM t WHERE lower(b) = 'r77'") == 1
    with pytest.raises(psycopg.errors.UniqueViolation):
        postgres_target.execute("INSERT INTO t (a, b) VALUES (50, 'new')")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        postgres_target.execute("INSERT INTO t (a, b) VALUES (1000, 'new')")
    postgres_target.execute("INSERT INTO child VALUES (50)")


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_table_of_an_extension(postgres_target: PostgresTarget, tmp_path: Path, mode: str) -> None:
    """The server does not let it be dropped."""
    postgres_target.execute("CREATE TABLE t (a integer PRIMARY KEY, b text)")
    postgres_target.execute("CREATE TABLE u (a integer, b text) PARTITION BY RANGE (a)")
    postgres_target.execute("CREATE TABLE u0 PARTITION OF u FOR VALUES FROM (0) TO (10)")
    for table in ("t", "u0"):
        postgres_target.server.execute(f"ALTER EXTENSION plpgsql ADD TABLE {table}", postgres_target.database)
    for table in ("t", "u"):
        run = load_text(postgres_target, tmp_path / f"{table}.csv", "1,x\n2,y\n", table=table, mode=mode)
        assert "the extension plpgsql owns it" in str([run.summary["strategy_reason"], run.summary["notes"]])
        assert postgres_target.sorted_rows(table) == [(1, "x"), (2, "y")]


def test_replace_of_rows_that_others_refer_to(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A row that another table refers to cannot go: nothing changes, or the reference still holds."""
    postgres_target.execute(DRESSED + "INSERT INTO child VALUES (1);")
    run = load_text(postgres_target, tmp_path / "in.csv", "5,five,5\n", mode="replace", columns="a,b,c", check=False)
    dangling = "SELECT count(*) FROM child LEFT JOIN t USING (a) WHERE t.a IS NULL"
    assert postgres_target.rows(dangling) == [(0,)], str(run)
    assert run.exit_code in (1, 2)
    assert postgres_target.count("t") == 2


@pytest.mark.parametrize(
    ("data", "sqlstate"),
    [
        ("1,new,1\n", "23505"),  # primary key, against a row that is there
        ("5,five,1\n5,six,1\n", "23505"),  # primary key, within the file
        ("5,one,1\n", "23505"),  # unique
        ("5,much too long for the check,1\n", "23514"),
        ("500,five,1\n", "23503"),  # foreign key
        ("5,,1\n", "23502"),  # not null
    ],
)
def test_constraints_hold(postgres_target: PostgresTarget, tmp_path: Path, data: str, sqlstate: str) -> None:
    postgres_target.execute(DRESSED)
    good = "".join(f"{i},r{i},1\n" for i in range(10, 20))
    run = load_text(postgres_target, tmp_path / "in.csv", good + data, columns="a,b,c", jobs=2, check=1)
    assert postgres_target.count("t") == 2
    assert sqlstate in run.stderr
    assert postgres_target.leftovers("t", "parent", "child") == set()


def test_row_triggers_fire(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """As with COPY: a BEFORE trigger may change or drop a row, an AFTER trigger sees it."""
    postgres_target.execute(
        "CREATE TABLE t (a integer, b text); CREATE TABLE seen (a integer);"
        "CREATE FUNCTION before() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN NEW.b := upper(NEW.b); RETURN NEW; END$$;"
        "CREATE FUNCTION after() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN INSERT INTO seen VALUES (NEW.a); RETURN NULL; END$$;"
        "CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION before();"
        "CREATE TRIGGER a AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION after();"
    )
    load_text(postgres_target, tmp_path / "in.csv", "1,x\n2,y\n", jobs=2)
    assert postgres_target.sorted_rows("t") == [(1, "X"), (2, "Y")]
    assert postgres_target.sorted_rows("seen") == [(1,), (2,)]


@pytest.mark.parametrize("mode", ["append", "replace", "upsert"])
def test_row_triggers_fill_what_may_not_be_null(postgres_target: PostgresTarget, tmp_path: Path, mode: str) -> None:
    """The server judges a row behind the triggers; and what they have not filled is still refused."""
    postgres_target.execute(
        "CREATE TABLE t (a integer PRIMARY KEY, b text NOT NULL, c text NOT NULL);"
        "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN NEW.b := coalesce(NEW.b, 'filled'); RETURN NEW; END$$;"
        "CREATE TRIGGER b BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION fill()"
    )
    options = {"mode": mode, "jobs": 2} | ({"key": "a"} if mode == "upsert" else {})
    text = "1,,x\n2,b,\n3,,z\n"
    run = load_text(postgres_target, tmp_path / "in.csv", text, **options, check=1)
    assert "23502" in run.stderr
    assert '"c"' in run.stderr
    options |= {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad"}
    load_text(postgres_target, tmp_path / "in.csv", text, **options, check=3)
    assert postgres_target.sorted_rows("t") == [(1, "filled", "x"), (3, "filled", "z")]


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_partitioned_table(postgres_target: PostgresTarget, tmp_path: Path, mode: str) -> None:
    postgres_target.execute(
        "CREATE TABLE t (a integer, b text) PARTITION BY RANGE (a);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (50);"
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (50) TO (100);"
        "INSERT INTO t VALUES (7, 'old')"
    )
    data = "".join(f"{i},x\n" for i in range(100))
    load_text(postgres_target, tmp_path / "in.csv", data, mode=mode, jobs=2)
    expected = 50 + (1 if mode == "append" else 0)
    assert (postgres_target.count("t1"), postgres_target.count("t2")) == (expected, 50)
    run = load_text(postgres_target, tmp_path / "bad.csv", "1,x\n100,y\n", mode=mode, check=1)
    assert postgres_target.count("t") == expected + 50
    assert "23514" in run.stderr


def test_unlogged_table(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE UNLOGGED TABLE t (a integer)")
    load_text(postgres_target, tmp_path / "in.csv", "1\n", mode="replace")
    assert postgres_target.count("t") == 1
    assert postgres_target.value("SELECT relpersistence::text FROM pg_class WHERE oid = 't'::regclass") == "u"


@pytest.mark.parametrize("kind", ["VIEW t AS SELECT 1 AS a", "MATERIALIZED VIEW t AS SELECT 1 AS a", "SEQUENCE t"])
def test_what_is_no_table(postgres_target: PostgresTarget, tmp_path: Path, kind: str) -> None:
    postgres_target.execute(f"CREATE {kind}")
    run = load_text(postgres_target, tmp_path / "in.csv", "1\n", check=2)
    assert "t" in run.stderr


@pytest.mark.parametrize("partitioned", [False, True])
def test_statistics_are_there_with_the_rows(postgres_target: PostgresTarget, tmp_path: Path, partitioned: bool) -> None:
    """A table that is made has the planner's statistics from the first query on, unless they are not wanted."""
    tail = "PARTITION BY RANGE (a); CREATE TABLE {0}_1 PARTITION OF {0} FOR VALUES FROM (0) TO (9000)"
    for table, wanted in (("t", True), ("u", False)):
        postgres_target.execute(f"CREATE TABLE {table} (a integer, b text) " + tail.format(table) * partitioned)
        options = {} if wanted else {"no_analyze": True}
        run = load_text(
            postgres_target, tmp_path / "a.csv", "".join(f"{n},x\n" for n in range(500)), table=table, **options
        )
        assert run.summary is not None
        assert ("analyze" in {phase["name"] for phase in run.summary["phases"]}) is wanted
        leaf = f"{table}_1" if partitioned else table
        found = postgres_target.rows(f"SELECT count(*) FROM pg_stats WHERE tablename = '{leaf}'")
        assert found == [(2 if wanted else 0,)]


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("partitions", ["", "PARTITION BY RANGE (a)"])
def test_replace_what_other_rows_refer_to(
    postgres_target: PostgresTarget, tmp_path: Path, partitions: str, skip: bool
) -> None:
    """Foreign keys that can wait judge what is there at the end, also where records may be rejects."""
    postgres_target.execute(f"CREATE TABLE t (a integer PRIMARY KEY, b text) {partitions}")
    if partitions:
        postgres_target.execute("CREATE TABLE t_all PARTITION OF t DEFAULT")
    postgres_target.execute('CREATE TABLE child (a integer CONSTRAINT "of t" REFERENCES t DEFERRABLE)')
    postgres_target.execute("INSERT INTO t VALUES (1, 'old'), (2, 'old'); INSERT INTO child VALUES (2)")
    given: dict[str, Any] = {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad"} if skip else {}
    path = write(tmp_path / "in.csv", "2,new\n3,new\n" + "3,newer\n" * skip)
    load_here(postgres_target, path, mode="replace", header="no", check=3 if skip else True, **given)
    assert postgres_target.sorted_rows("t") == [(2, "new"), (3, "new")]
    path = write(tmp_path / "lacking.csv", "3,newest\n")
    run = load_here(postgres_target, path, mode="replace", header="no", check=1, **given)
    assert "is still referenced from" in run.stderr
    assert "--mode upsert" in run.stderr
    assert postgres_target.sorted_rows("t") == [(2, "new"), (3, "new")]
