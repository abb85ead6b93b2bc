"""A load that publishes while somebody waits for what it has locked, and has locked what it needs."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from command import Command, start_tipple
from faults.oracle import wait_for
from loading import load_here, load_words
from targets import PostgresTarget, write
from tipple.engines.postgresql.publish import DEADLOCK, MOST_DEADLOCKS

WAITS = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 'tipple%'"


def lock_crosswise(other: psycopg.Connection, command: Command, target: PostgresTarget, times: int) -> None:
    """Locks `t` while a load has it and waits for a row of `r`, which `other` keeps until its transaction ends.

    The server ends the one that looks for deadlocks, and each looks once: `other` later.
    """
    other.execute("SET deadlock_timeout = '1min'")
    other.execute("SELECT FROM r WHERE k = 3 FOR UPDATE")
    for _ in range(times):
        assert wait_for(lambda: target.server.rows(WAITS) or not command.running)
        with other.transaction(force_rollback=True):
            other.execute("LOCK TABLE t")


@pytest.mark.parametrize("times", [1, 3, 4])
def test_an_upsert_is_begun_again_where_the_server_ends_it(
    postgres_target: PostgresTarget, tmp_path: Path, times: int
) -> None:
    target = postgres_target
    target.server.execute(f"ALTER DATABASE {target.database} SET deadlock_timeout = '2s'")
    target.execute(
        "CREATE TABLE r (k integer PRIMARY KEY); INSERT INTO r SELECT generate_series(1, 9); "
        "CREATE TABLE t (n integer PRIMARY KEY, k integer REFERENCES r); INSERT INTO t VALUES (1, 1)"
    )
    path = write(tmp_path / "in.csv", "1,2\n2,3\n")
    options = {"mode": "upsert", "key": "n", "header": "no"}
    with psycopg.connect(target.server.url(dbname=target.database)) as other:
        command = start_tipple(*load_words(target.url, (path,), "t", options))
        lock_crosswise(other, command, target, times)
        other.rollback()
        run = command.wait()
    told = " ".join((run.stdout + run.stderr).split())
    if times > MOST_DEADLOCKS:
        assert (run.exit_code, "deadlock detected" in told) == (1, True), run
        assert "so that the server ended one of them; run the same command again" in told, run
        assert target.sorted_rows("t") == [(1, 1)]
        load_here(target, path, **options)
    else:
        assert (run.exit_code, told.count(DEADLOCK)) == (0, 1), run
    assert target.sorted_rows("t") == [(1, 2), (2, 3)]
    assert target.leftovers("t", "r") == set()
