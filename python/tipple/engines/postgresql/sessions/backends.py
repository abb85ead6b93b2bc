"""Sessions of the server, told apart from others that have had, or get, the same number."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import psycopg
from psycopg import errors

from tipple.engines.postgresql import ledger
from tipple.plan.url import TableName, parse_table_name

__all__ = ["Backend", "end", "end_if_stuck", "holders", "named", "own", "owner"]

STUCK_SECONDS = 1.0
"""A run that works notices sooner that its job was cancelled."""


class Backend(NamedTuple):
    """A session of a server."""

    pid: int
    started_at: str
    """In seconds since 1970, to the microsecond."""


_BACKENDS = "SELECT pid, extract(epoch FROM backend_start)::text FROM pg_stat_activity WHERE pid = "


def own(connection: psycopg.Connection[Any]) -> Backend | None:
    """The session itself; None where the server does not tell."""
    with _as_login(connection):
        found = connection.execute(f"{_BACKENDS} pg_backend_pid()".encode()).fetchone()
    return None if found is None or found[1] is None else Backend(*found)


def holders(connection: psycopg.Connection[Any], table: TableName) -> set[Backend]:
    """The sessions that hold the lock of `table`: one, or none."""
    pids = [pid for pid, lock in ledger.locks(connection) if lock == ledger.table_lock(table)]
    with _as_login(connection):
        return {Backend(*found) for found in connection.execute(f"{_BACKENDS} ANY (%s)".encode(), (pids,)).fetchall()}


def named(connection: psycopg.Connection[Any], part: str) -> list[int]:
    """The other sessions of who has logged in that have this in their application_name."""
    # Not the role whose rights count: whichever a session assumes, it is listed under the one that has logged in.
    found = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE strpos(application_name, %s) > 0 AND pid <> pg_backend_pid() "
        "AND usename = session_user",
        (part,),
    ).fetchall()
    return [pid for (pid,) in found]


def owner(connection: psycopg.Connection[Any], job_id: str) -> tuple[TableName, Backend] | None:
    """The session that holds a job's table for it, and the table; None where nobody works on the job."""
    found = connection.execute("SELECT target, owner_pid FROM tipple.job WHERE job_id = %s", (job_id,)).fetchone()
    if found is None or found[1] is None:
        return None
    table = parse_table_name(found[0])
    return next(((table, holder) for holder in holders(connection, table) if holder.pid == found[1]), None)


def end_if_stuck(connection: psycopg.Connection[Any], table: TableName, session: Backend) -> None:
    """Ends the session of a cancelled job where it does not let go of the table: its process may be stopped."""
    until = time.monotonic() + STUCK_SECONDS
    while session in holders(connection, table):
        if time.monotonic() > until:
            end(connection, [session.pid])
            return
        time.sleep(0.1)


def end(connection: psycopg.Connection[Any], pids: Collection[int]) -> None:
    """Ends sessions, as either of this one's roles may; what those hold that may not be ended is told by whoever wants
    it."""
    for pid in pids:
        for acting in (connection.transaction, partial(_as_login, connection)):
            with suppress(errors.InsufficientPrivilege), acting():
                connection.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
                break


@contextmanager
def _as_login(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """With the rights of the role that has logged in, to which sessions belong, not of one that it assumes."""
    # Nothing is written, and the setting must not outlive a transaction around this one.
    with connection.transaction(force_rollback=True):
        connection.execute("SET LOCAL ROLE NONE")
        yield
