"""Publications: what is filled unseen must not be sent to subscribers, who have no such tables and would stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tipple
from servers.postgres import PostgresServer
from targets import PostgresTarget, write

SCHEMA = "CREATE TABLE t (id integer PRIMARY KEY, v text);"


def load(target: PostgresTarget, source: Path, table: str, **options: Any) -> Any:
    return tipple.load(str(source), into=target.url, table=table, format="csv", header="no", ledger=False, **options)


def changes(target: PostgresTarget) -> list[str]:
    """The messages of the publication p since the slot of a database was last asked; the first letter is the kind."""
    with psycopg.connect(target.server.url(dbname=target.database)) as superuser:
        found = superuser.execute(
            "SELECT encode(data, 'escape') FROM pg_replication_slots, pg_logical_slot_get_binary_changes(slot_name, "
            "NULL, NULL, 'proto_version', '1', 'publication_names', 'p') WHERE database = current_database()"
        ).fetchall()
    return [message for (message,) in found]


def inserted(target: PostgresTarget) -> int:
    """How many rows are sent."""
    return sum(message.startswith("I") for message in changes(target))


@pytest.mark.parametrize("version", [15, 18])
def test_a_publication_of_all_tables(fresh_server: Callable[..., PostgresServer], tmp_path: Path, version: int) -> None:
    """Rows of a new table go into it under its name; new partitions, which cannot, are refused."""
    server = fresh_server(version, {"wal_level": "logical"})
    here, there = (PostgresTarget(server) for _ in range(2))
    server.execute("CREATE PUBLICATION everything FOR ALL TABLES", here.database)
    server.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')", here.database)
    there.execute(SCHEMA)
    connection = f"host={server.socket_directory} port={server.port} dbname={here.database} user=postgres"
    server.execute(
        f"CREATE SUBSCRIPTION s CONNECTION '{connection}' PUBLICATION everything "
        "WITH (create_slot = false, slot_name = 's', copy_data = false)",
        there.database,
    )
    try:
        schema, source = write(tmp_path / "t.sql", SCHEMA), write(tmp_path / "in.csv", "1,a\n2,b\n")
        report = load(here, source, "t", schema=str(schema))
        assert report.strategy == "single"
        assert "everything covers all tables" in report.strategy_reason
        server.execute("ALTER SUBSCRIPTION s REFRESH PUBLICATION WITH (copy_data = false)", there.database)
        load(here, write(tmp_path / "more.csv", "3,c\n"), "t")
        until = time.monotonic() + 20
        while not there.count("t") and time.monotonic() < until:
            time.sleep(0.1)
        assert (3, "c") in there.sorted_rows("t")
        schema = write(tmp_path / "p.sql", "CREATE TABLE p (id integer, v text);")
        with pytest.raises(tipple.UsageError, match="covers all tables"):
            load(here, source, "p", schema=str(schema), partition_by="range(id, bounds=[5])")
        assert here.leftovers("t") == set()
        assert "does not exist" not in server.log_text()
    finally:
        server.execute("ALTER SUBSCRIPTION s DISABLE", there.database)
        server.execute("ALTER SUBSCRIPTION s SET (slot_name = NONE)", there.database)
        server.execute("DROP SUBSCRIPTION s", there.database)
        here.close()
        there.close()


@pytest.mark.parametrize("scope", ["ALL TABLES", "TABLES IN SCHEMA public"])
@pytest.mark.parametrize("ledger", [True, False])
def test_what_an_upsert_stages_is_not_published(
    fresh_server: Callable[..., PostgresServer], tmp_path: Path, scope: str, ledger: bool
) -> None:
    """And what the ledger has of rejects can be forgotten, which asks for a replica identity."""
    server = fresh_server(18, {"wal_level": "logical"})
    here = PostgresTarget(server)
    here.execute(SCHEMA)
    server.execute(f"CREATE PUBLICATION p FOR {scope}", here.database)
    server.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')", here.database)
    source = write(tmp_path / "in.csv", "1,a\nx,b\n")
    options: dict[str, Any] = {"on_error": "skip", "max_rejects": 1, "rejects": str(tmp_path / "bad")}
    tipple.load(
        str(source),
        into=here.url,
        table="t",
        format="csv",
        header="no",
        ledger=ledger,
        mode="upsert",
        key=["id"],
        **options,
    )
    sent = changes(here)
    # The name of a relation; the ledger's rows, which are sent where all tables are, have it too.
    assert r"\\000stage_" not in str(sent)
    assert "public" in str(sent)
    if ledger:
        here.execute("DELETE FROM tipple.reject")
    here.close()


NUMBER = '"n %s"'
"""A column whose sequence has a name that psycopg takes for a parameter, where it is not told otherwise."""
DRESSED = f"""
CREATE TABLE t (
    id integer PRIMARY KEY, v text DEFAULT 'none', {NUMBER} integer GENERATED ALWAYS AS IDENTITY,
    r integer REFERENCES other, k bigserial, twice integer GENERATED ALWAYS AS (id * 2) STORED,
    CONSTRAINT few CHECK (id < 10), UNIQUE (v, id)
) WITH (fillfactor = 70, autovacuum_enabled = false);
"""
RECORDS = "".join(f"{n},row {n},{40 + n},1\n" for n in range(1, 6))
COLUMNS = ["id", "v", NUMBER, "r"]


def published_database(server: PostgresServer, *publications: str) -> PostgresTarget:
    """A database of which a slot keeps what is sent."""
    target = PostgresTarget(server)
    target.execute("CREATE TABLE other (id integer PRIMARY KEY); INSERT INTO other VALUES (1); CREATE SCHEMA elsewhere")
    server.execute(f"SELECT pg_create_logical_replication_slot('{target.database}', 'pgoutput')", target.database)
    for publication in publications:
        server.execute(f"CREATE PUBLICATION {publication}", target.database)
    return target


def drop(target: PostgresTarget) -> None:
    target.server.execute(f"SELECT pg_drop_replication_slot('{target.database}')", target.database)
    target.close()


def rest(target: PostgresTarget) -> list[tuple[Any, ...]]:
    """What a table is, beside its rows."""
    return target.rows(
        "SELECT reloptions, relacl, pg_get_serial_sequence('t', 'n %s'), (SELECT array_agg(pg_get_constraintdef(oid) "
        "|| conname ORDER BY conname) FROM pg_constraint WHERE conrelid = c.oid) FROM pg_class c WHERE relname = 't'"
    )


@pytest.mark.parametrize("version", [15, 18])
def test_new_tables_of_a_published_schema(
    fresh_server: Callable[..., PostgresServer], tmp_path: Path, version: int
) -> None:
    """Subscribers get the rows that come into the table itself: what is filled unseen is no table of that schema."""
    server = fresh_server(version, {"wal_level": "logical"})
    schema, source = write(tmp_path / "t.sql", DRESSED), write(tmp_path / "in.csv", RECORDS)
    divided = write(tmp_path / "p.sql", f"CREATE TABLE p (id integer, v text, {NUMBER} integer, r integer);")
    options: dict[str, Any] = {"format": "csv", "header": "no", "columns": COLUMNS}
    for publications, strategy, sent in (
        (["p FOR TABLES IN SCHEMA public"], "single", 5),
        (["q FOR ALL TABLES WITH (publish = 'delete')", "p FOR TABLES IN SCHEMA elsewhere, public"], "single", 5),
        # Where no inserted row is sent, nothing is lost.
        (["p FOR TABLES IN SCHEMA public WITH (publish = 'update')"], "swap", 0),
        (["p FOR TABLES IN SCHEMA elsewhere"], "swap", 0),
    ):
        target = published_database(server, *publications)
        report = tipple.load(str(source), into=target.url, table="t", schema=str(schema), **options)
        assert report.strategy == strategy
        assert inserted(target) == sent
        assert target.rows(f"SELECT id, {NUMBER} FROM t ORDER BY id") == [(n, 40 + n) for n in range(1, 6)]
        if sent:
            assert "the publication p covers its schema" in report.strategy_reason
            with pytest.raises(tipple.UsageError, match="cannot be made with partitions here: the publication p"):
                tipple.load(
                    str(source),
                    into=target.url,
                    table="p",
                    schema=str(divided),
                    partition_by="range(id, bounds=[3])",
                    **options,
                )
            assert target.leftovers("t", "other") == set()
        drop(target)


STOP = """
CREATE FUNCTION stop() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
    IF current_query() LIKE '%SET SCHEMA%' THEN RAISE 'not now' USING ERRCODE = '57000'; END IF;
END $$;
CREATE EVENT TRIGGER stop ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION stop();
"""


@pytest.mark.parametrize("divided", [False, True])
def test_a_publication_that_comes_while_a_new_table_is_loaded(
    fresh_server: Callable[..., PostgresServer], tmp_path: Path, divided: bool
) -> None:
    """What was filled unseen is copied into the table, which then is what it would have been; partitions are not, and
    that is said."""
    server = fresh_server(18, {"wal_level": "logical"})
    statement = f"CREATE TABLE t (id integer, v text, {NUMBER} integer, r integer);" if divided else DRESSED
    schema, source = write(tmp_path / "t.sql", statement), write(tmp_path / "in.csv", RECORDS)
    options: dict[str, Any] = {"format": "csv", "header": "no", "columns": COLUMNS, "schema": str(schema)}
    options |= {"partition_by": "range(id, bounds=[3])"} if divided else {}
    made = []
    for publishes in (False, True):
        target = published_database(server)
        server.execute(STOP, target.database)
        with pytest.raises(tipple.TippleError, match="not now"):
            tipple.load(str(source), into=target.url, table="t", **options)
        server.execute("DROP EVENT TRIGGER stop", target.database)
        if publishes:
            server.execute("CREATE PUBLICATION p FOR TABLES IN SCHEMA public", target.database)
        report = tipple.load(str(source), into=target.url, table="t", **options)
        assert report.slices_resumed == 1
        told = [note for note in report.notes if "the publication p covers its schema" in note]
        assert len(told) == publishes
        assert target.rows(f"SELECT id, {NUMBER} FROM t ORDER BY id") == [(n, 40 + n) for n in range(1, 6)]
        if publishes:
            assert inserted(target) == (0 if divided else 5)
            assert ("REFRESH PUBLICATION copies them" in told[0]) == divided
        if not divided:
            made.append(rest(target))
            target.execute("INSERT INTO t (id) VALUES (9)")
            assert target.rows(f"SELECT {NUMBER}, k FROM t WHERE id = 9") == [(1, 6)]
            assert target.leftovers("t", "other") == set()
        drop(target)
    assert divided or made[0] == made[1]
