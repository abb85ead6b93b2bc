"""What the server does when the client is gone: statements that take long end, and keep no lock."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from command import start_tipple
from faults.oracle import sessions_of, wait_for
from loading import load_words
from targets import PostgresTarget, write

SLOW = """
CREATE FUNCTION slow(integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql
    AS 'BEGIN PERFORM pg_sleep(30); RETURN $1; END';
"""
WHERE = {
    "an index": "CREATE TABLE t (a integer); CREATE INDEX ON t (slow(a))",
    "a copy": "CREATE TABLE t (a integer CHECK (slow(a) > 0))",
    "a copy beside others": "CREATE TABLE t (a integer); INSERT INTO t VALUES (1);"
    "ALTER TABLE t ADD CHECK (slow(a) > 0) NOT VALID",
}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("where", WHERE)
def test_a_long_statement_ends(
    postgres_target: PostgresTarget, tmp_path: Path, where: str, how: signal.Signals
) -> None:
    target = postgres_target
    target.execute(SLOW + WHERE[where])
    path = write(tmp_path / "in.csv", "1\n2\n3\n")
    command = start_tipple(*load_words(target.url, (path,), "t", {"header": "no"}))
    slow = f"SELECT FROM pg_stat_activity WHERE datname = '{target.database}' AND wait_event = 'PgSleep'"
    assert wait_for(lambda: bool(target.server.rows(slow)) or not command.running)
    assert command.running, command.wait()
    command.signal(how)
    command.wait()
    since = time.monotonic()
    assert wait_for(lambda: not sessions_of(target))
    assert time.monotonic() - since < 15
