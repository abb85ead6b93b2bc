"""What attempts that failed have staged takes no room for good."""

from __future__ import annotations

import signal
from pathlib import Path

import psycopg

from command import start_tipple
from faults.oracle import wait_for
from loading import load, load_words
from servers.postgres import LOADER
from targets import PostgresTarget, write


def test_rows_of_a_killed_attempt(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Where no slice is done, the next run empties what is staged: nobody vacuums there."""
    path = write(tmp_path / "in.csv", "".join(f"{number},x\n" for number in range(100_000)))
    options: dict[str, object] = {"jobs": 1, "header": "no"}
    for name in ("undisturbed", "t"):
        postgres_target.execute(f"CREATE TABLE {name} (a integer, b text)")
    load(postgres_target, path, table="undisturbed", **options)
    # A slice's rows are all there when its transaction waits for this.
    postgres_target.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';"
        "CREATE TRIGGER wait AFTER UPDATE ON tipple.slice FOR EACH STATEMENT EXECUTE FUNCTION wait()"
    )
    waiting = "SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"
    with psycopg.connect(postgres_target.server.url(LOADER, postgres_target.database)) as other:
        other.execute("SELECT pg_advisory_xact_lock(1)")
        command = start_tipple(*load_words(postgres_target.url, (path,), "t", options))
        assert wait_for(lambda: postgres_target.rows(waiting) != [])
        command.signal(signal.SIGKILL)
        command.wait()
        postgres_target.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name LIKE 'tipple%'"
        )
    load(postgres_target, path, **options)
    sizes = "SELECT pg_relation_size('t'), pg_relation_size('undisturbed')"
    ((size, expected),) = postgres_target.rows(sizes)
    assert (size, postgres_target.count("t")) == (expected, 100_000)
