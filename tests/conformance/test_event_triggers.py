"""A site may give something to every new table; tables that are loaded are not new, and do not get it by a load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from command import run_tipple
from loading import load
from targets import PostgresTarget, write

DOES = {
    "row security": "ALTER TABLE %s ENABLE ROW LEVEL SECURITY",
    "an owner": "ALTER TABLE %s OWNER TO site",
    "a replica identity": "ALTER TABLE %s REPLICA IDENTITY FULL",
    "a trigger": "CREATE TRIGGER g BEFORE UPDATE ON %s FOR EACH ROW "
    "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "a policy": "CREATE POLICY p ON %s USING (false)",
    "a comment": "COMMENT ON TABLE %s IS 'new'",
    "a column": "ALTER TABLE %s ADD made timestamptz DEFAULT now()",
}
ORDERS = {
    "flat": "CREATE TABLE t (a integer PRIMARY KEY, b text)",
    "partitioned": "CREATE TABLE t (a integer PRIMARY KEY, b text) PARTITION BY RANGE (a); "
    "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)",
}
STATE = (
    "SELECT relname, pg_get_userbyid(relowner), relrowsecurity, relreplident, obj_description(c.oid, 'pg_class'), "
    "(SELECT count(*) FROM pg_trigger WHERE tgrelid = c.oid), (SELECT count(*) FROM pg_policy WHERE polrelid = c.oid), "
    "(SELECT array_agg(attname) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0) "
    "FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1"
)


@pytest.fixture
def site(postgres_target: PostgresTarget) -> Iterator[PostgresTarget]:
    """A database in which `site_does(text)` can be made to run for every new table."""
    server, database = postgres_target.server, postgres_target.database
    server.execute("DROP ROLE IF EXISTS site; CREATE ROLE site; GRANT site TO loader")
    server.execute("GRANT ALL ON SCHEMA public TO site", database)
    yield postgres_target
    server.execute("DROP OWNED BY site CASCADE", database)
    server.execute("DROP ROLE site")


def each_new_table(target: PostgresTarget, statement: str) -> None:
    target.server.execute(
        "CREATE FUNCTION site_does() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ "
        "DECLARE t record; BEGIN FOR t IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table' "
        f"LOOP EXECUTE format($s${statement}$s$, t.object_identity); END LOOP; END $$; "
        "CREATE EVENT TRIGGER site ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION site_does()",
        target.database,
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("does", DOES)
def test_a_load_gives_a_table_nothing(site: PostgresTarget, tmp_path: Path, does: str, order: str) -> None:
    if does == "a column" and order == "partitioned":
        pytest.skip("partitions of a table with another column than the hidden one: the load ends, and says which")
    if does == "a trigger" and order == "partitioned":
        pytest.skip(
            "the trigger of this name comes to a new partition from its table: the site's CREATE TABLE fails too"
        )
    site.execute(ORDERS[order])
    # The ledger is there from an earlier night.
    load(site, write(tmp_path / "first.csv", "1,x\n"))
    each_new_table(site, DOES[does])
    before = site.server.rows(STATE, site.database)
    for mode in ("replace", "append", "replace"):
        site.execute("TRUNCATE t")
        run = load(site, write(tmp_path / "in.csv", "".join(f"{i},x\n" for i in range(10))), mode=mode, restart=True)
        assert site.server.rows(STATE, site.database) == before
        assert site.server.rows("SELECT count(*) FROM t", site.database) == [(10,)]
        if (does, order) != ("a comment", "partitioned"):
            assert any("an event trigger has given " in note for note in run.summary["notes"])
    assert "CREATE TABLE runs site" in run_tipple("doctor", site.url, check=False).stdout


WITHHOLDS = {
    "gives new tables to the role site": "ALTER TABLE %s OWNER TO site",
    "refuses new tables: no": "DO 'BEGIN RAISE ''no %s''; END'",
}
STAGED = "SELECT relname FROM pg_class WHERE relname ~ '^stage_'"


@pytest.fixture
def strange(site: PostgresTarget, tmp_path: Path) -> PostgresTarget:
    """The same, where the site's role is not one that loads have; the ledger is there from an earlier night."""
    site.execute("CREATE TABLE early (a integer)")
    load(site, write(tmp_path / "first.csv", "1\n"), table="early")
    site.server.execute("REVOKE site FROM loader")
    return site


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("does", WITHHOLDS)
def test_rows_go_into_the_table_where_what_is_staged_would_be_lost(
    strange: PostgresTarget, tmp_path: Path, does: str, order: str
) -> None:
    strange.execute(ORDERS[order])
    each_new_table(strange, WITHHOLDS[does])
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    for options in ({}, {"mode": "replace", "restart": True}, {"mode": "replace", "no_ledger": True}):
        summary = load(strange, path, **options).summary
        assert summary["strategy"] == "single"
        assert f"the event trigger site {does.partition(':')[0]}" in summary["strategy_reason"]
        assert strange.rows("SELECT a, b FROM t ORDER BY a") == [(1, "x"), (2, "y")]
        assert strange.rows(STAGED) == []


@pytest.mark.parametrize("does", WITHHOLDS)
def test_what_cannot_be_staged_is_told_before_the_load(strange: PostgresTarget, tmp_path: Path, does: str) -> None:
    strange.execute(ORDERS["flat"])
    each_new_table(strange, WITHHOLDS[does])
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    schema = write(tmp_path / "new.sql", "CREATE TABLE new (a integer, b text);")
    divided = {"partition_by": "range(a, every=10)"}
    for table, options in (
        ("t", {"mode": "upsert", "key": "a"}),
        ("new", {}),
        ("new", divided),
        ("new", {"mode": "upsert", "key": "a"}),
    ):
        run = load(strange, path, table=table, schema=schema if table == "new" else None, check=2, **options)
        assert f"the event trigger site {does.partition(':')[0]}" in run.stderr
        assert strange.rows(STAGED) == []
        assert strange.rows("SELECT count(*) FROM tipple.job") == [(1,)]


def leave_out_the_ledger(target: PostgresTarget) -> None:
    ((text,),) = target.server.rows("SELECT pg_get_functiondef('site_does'::regproc)", target.database)
    left_out = "object_type = 'table' AND schema_name <> 'tipple'"
    target.server.execute(text.replace("object_type = 'table'", left_out), target.database)


def test_a_new_table_that_a_trigger_refuses_is_no_fault_of_its_definition(
    strange: PostgresTarget, tmp_path: Path
) -> None:
    each_new_table(strange, WITHHOLDS["refuses new tables: no"])
    leave_out_the_ledger(strange)
    schema = write(tmp_path / "t.sql", ORDERS["flat"] + ";")
    run = load(strange, write(tmp_path / "in.csv", "1,x\n"), schema=schema, check=2)
    assert "t cannot be made: the event trigger site refuses new tables: no " in run.stderr
    assert "hint: have the trigger let this role make tables\n" in run.stderr


def test_a_schema_that_a_trigger_leaves_out(strange: PostgresTarget, tmp_path: Path) -> None:
    each_new_table(strange, WITHHOLDS["gives new tables to the role site"])
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    schema = write(tmp_path / "t.sql", ORDERS["flat"] + ";")
    run = load(strange, path, schema=schema, check=2)
    assert "hint: have the trigger leave out the schema tipple\n" in run.stderr
    leave_out_the_ledger(strange)
    assert load(strange, path, schema=schema).summary["strategy"] == "swap"
    # What is staged beside the table is given away.
    run = load(strange, path, mode="replace", no_ledger=True, check=1)
    assert "the event trigger site gives new tables to the role site" in run.stderr
    assert strange.rows(STAGED) == []


REFUSES_DROPS = (
    "CREATE FUNCTION keeps() RETURNS event_trigger LANGUAGE plpgsql AS $$ DECLARE d record; BEGIN "
    "FOR d IN SELECT * FROM pg_event_trigger_dropped_objects() WHERE object_type = 'table' AND {which} LOOP "
    "RAISE 'no drop of %', d.object_name; END LOOP; END $$; "
    "CREATE EVENT TRIGGER keeper ON sql_drop {when} EXECUTE FUNCTION keeps()"
)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("schema", ["tipple", "public"])
def test_a_trigger_that_refuses_to_drop_tables(
    strange: PostgresTarget, tmp_path: Path, order: str, schema: str
) -> None:
    """COPY drops none, so rows go into the table itself."""
    strange.execute(ORDERS[order])
    refuses = REFUSES_DROPS.format(which=f"schema_name = '{schema}'", when="WHEN TAG IN ('DROP TABLE')")
    strange.server.execute(refuses, strange.database)
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    for options in ({}, {"mode": "replace", "restart": True}):
        summary = load(strange, path, **options).summary
        assert summary["strategy"] == "single"
        assert "the event trigger keeper refuses to drop tables: no drop of stage_" in summary["strategy_reason"]
        assert strange.rows("SELECT a, b FROM t ORDER BY a") == [(1, "x"), (2, "y")]
        assert strange.rows(STAGED) == []
    if schema == "tipple":
        run = load(strange, path, mode="upsert", key="a", check=2)
        assert "records for public.t cannot be staged: the event trigger keeper refuses to drop tables" in run.stderr


def test_a_trigger_that_refuses_to_drop_one_table(strange: PostgresTarget, tmp_path: Path) -> None:
    """That shows when another one is to take its place: its rows are copied."""
    strange.execute(ORDERS["flat"])
    strange.server.execute(REFUSES_DROPS.format(which="object_name = 't'", when=""), strange.database)
    for mode in ("append", "replace"):
        run = load(strange, write(tmp_path / "in.csv", "1,x\n2,y\n"), mode=mode, restart=True)
        assert any("not swapped in: the event trigger keeper refuses" in note for note in run.summary["notes"])
        assert strange.rows("SELECT a, b FROM t ORDER BY a") == [(1, "x"), (2, "y")]
        assert strange.rows(STAGED) == []


def test_a_new_table_where_none_may_be_dropped(strange: PostgresTarget, tmp_path: Path) -> None:
    strange.server.execute(REFUSES_DROPS.format(which="true", when=""), strange.database)
    schema = write(tmp_path / "t.sql", ORDERS["flat"] + ";")
    assert load(strange, write(tmp_path / "in.csv", "1,x\n"), schema=schema).summary["strategy"] == "swap"
    assert strange.rows("SELECT a, b FROM t") == [(1, "x")]


@pytest.mark.parametrize("does", WITHHOLDS)
def test_a_ledger_that_would_be_lost(site: PostgresTarget, tmp_path: Path, does: str) -> None:
    site.server.execute("REVOKE site FROM loader")
    site.execute(ORDERS["flat"])
    each_new_table(site, WITHHOLDS[does])
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    run = load(site, path, check=2)
    assert (
        f'may not create the ledger (schema tipple) in the database "{site.database}": the event trigger site'
        in run.stderr
    )
    assert "--no-ledger" in run.stderr
    assert load(site, path, no_ledger=True).summary["strategy"] == "single"
