"""A load that publishes while somebody waits for what it has locked, and has locked what it needs."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg

from command import start_tipple
from faults.oracle import wait_for
from loading import load_here, load_words
from targets import PostgresTarget, write

WAITS = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 'tipple%'"


def test_the_one_that_the_server_ends_says_what_to_do(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The server ends the one that looks for deadlocks, and each looks once: here the other one later."""
    target = postgres_target
    target.server.execute(f"ALTER DATABASE {target.database} SET deadlock_timeout = '4s'")
    target.execute(
        "CREATE TABLE r (k integer PRIMARY KEY); INSERT INTO r SELECT generate_series(1, 9); "
        "CREATE TABLE t (n integer PRIMARY KEY, k integer REFERENCES r); INSERT INTO t VALUES (1, 1)"
    )
    path = write(tmp_path / "in.csv", "1,2\n2,3\n")
    options = {"mode": "upsert", "key": "n", "header": "no"}
    with psycopg.connect(target.server.url(dbname=target.database)) as other:
        other.execute("SET deadlock_timeout = '1min'")
        other.execute("SELECT FROM r WHERE k = 3 FOR UPDATE")
        command = start_tipple(*load_words(target.url, (path,), "t", options))
        assert wait_for(lambda: target.server.rows(WAITS) or not command.running)
        locking = threading.Thread(target=lambda: other.execute("LOCK TABLE t"))
        locking.start()
        run = command.wait()
        locking.join()
        other.rollback()
    assert (run.exit_code, "deadlock detected" in run.stderr) == (1, True), run
    assert "so that the server ended one of them; run the same command again" in " ".join(run.stderr.split()), run
    assert target.sorted_rows("t") == [(1, 1)]
    load_here(target, path, **options)
    assert target.sorted_rows("t") == [(1, 2), (2, 3)]
    assert target.leftovers("t", "r") == set()
