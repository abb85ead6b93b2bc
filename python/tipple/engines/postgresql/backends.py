"""Sessions of the server, told apart from others that have had, or get, the same number."""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg

from tipple.engines.postgresql import ledger
from tipple.plan.url import TableName

__all__ = ["Backend", "holders", "own"]


class Backend(NamedTuple):
    """A session of a server."""

    pid: int
    started_at: str
    """In seconds since 1970, to the microsecond."""


_BACKENDS = "SELECT pid, extract(epoch FROM backend_start)::text FROM pg_stat_activity WHERE pid = "


def own(connection: psycopg.Connection[Any]) -> Backend | None:
    """The session itself; None where the server does not tell."""
    found = connection.execute(f"{_BACKENDS} pg_backend_pid()".encode()).fetchone()
    return None if found is None or found[1] is None else Backend(*found)


def holders(connection: psycopg.Connection[Any], table: TableName) -> set[Backend]:
    """The sessions that hold the lock of `table`: one, or none."""
    pids = [pid for pid, lock in ledger.locks(connection) if lock == ledger.table_lock(table)]
    return {Backend(*found) for found in connection.execute(f"{_BACKENDS} ANY (%s)".encode(), (pids,)).fetchall()}
