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
    with psycopg.connect(server.url(dbname=here.database)) as superuser:
        sent = superuser.execute(
            "SELECT encode(data, 'escape') FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, "
            "'proto_version', '1', 'publication_names', 'p')"
        ).fetchall()
    # The name of a relation; the ledger's rows, which are sent where all tables are, have it too.
    assert r"\\000stage_" not in str(sent)
    assert "public" in str(sent)
    if ledger:
        here.execute("DELETE FROM tipple.reject")
    here.close()
