"""The locks on all tables that one transaction publishes, taken so that nobody's query is ended for it.

A reader of two of the tables may hold the one that is still to be locked, and wait for one that is locked already. Each
server process that waits looks once, `deadlock_timeout` after it began, whether it is one of such a circle, and then
ends itself: that would be the reader. So another session looks several times in that time, and has the publish give
everything back. The next attempt waits first for the table that could not be had, while it holds nothing: whoever reads
the tables in one order, which is how programs do, then waits for that table too, and holds none of the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any

import psycopg
from psycopg import errors

from tipple.errors import ConnectionFailed

__all__ = ["LOCKS_MILLISECONDS", "LONGEST_LOCK_MILLISECONDS", "Beside", "GaveWay", "Locks", "avoiding_deadlocks"]

LOCKS_MILLISECONDS = 600
"""How long locks are waited for at first; `deadlock_timeout`, after which the server ends somebody, is a second by
default."""
LONGEST_LOCK_MILLISECONDS = 8000
"""How long whoever comes later may wait behind a publish that waits for a lock, before it lets him through."""
LOOKS = 10
"""So often in `deadlock_timeout` is it looked whether somebody waits for what is held."""

# Each partition by itself: to lock a table locks them too, one after the other. What may not be locked by itself, as
# foreign tables may not, comes with its table.
_PARTITIONS = """
SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_partition_tree(to_regclass(%s)) t
JOIN pg_class c ON c.oid = t.relid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE t.level > 0 AND c.relkind IN ('r', 'p') AND has_table_privilege(c.oid, 'UPDATE, DELETE, TRUNCATE')
ORDER BY t.level, 1
"""
_IS_HELD_BY_WAITERS = """
WITH RECURSIVE others AS (
    SELECT pid FROM pg_locks WHERE locktype = 'relation' AND relation = to_regclass(%s) AND pid <> pg_backend_pid()
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION SELECT unnest(pg_blocking_pids(pid)) FROM others)
SELECT EXISTS (SELECT FROM others WHERE pid = pg_backend_pid())
"""
_CANCEL_CIRCLE = """
WITH RECURSIVE others AS (
    SELECT unnest(pg_blocking_pids(%(pid)s)) AS pid UNION SELECT unnest(pg_blocking_pids(pid)) FROM others)
SELECT pg_cancel_backend(%(pid)s) WHERE EXISTS (SELECT FROM others WHERE pid = %(pid)s)
"""


class GaveWay(errors.LockNotAvailable):
    """A lock was not waited for any longer, so that nobody's query is ended: worth another try, however often."""


Beside = Callable[[], AbstractContextManager[psycopg.Connection[Any]]]


class Locks:
    """What is learnt of the locks from attempt to attempt."""

    def __init__(self) -> None:
        self._turn = 0
        self._first: str | None = None
        """The table that could not be had."""

    def take(
        self,
        connection: psycopg.Connection[Any],
        beside: Beside,
        tables: Sequence[str],
        *,
        holds: bool,
        is_patient: bool,
    ) -> None:
        """Locks tables and their partitions against readers; or none, or not all.

        Args:
            connection: in the transaction that publishes.
            beside: gives another session of the same role, which looks meanwhile.
            tables: their names, quoted.
            holds: whether the transaction has such locks already.
            is_patient: whether they are waited for however long it takes, unless somebody waits for this transaction.

        Raises:
            psycopg.errors.LockNotAvailable: others have them: the transaction must be begun again.
        """
        milliseconds = min(LOCKS_MILLISECONDS << self._turn, LONGEST_LOCK_MILLISECONDS)
        self._turn += 1
        until = None if is_patient else time.monotonic() + milliseconds / 1000
        everything = f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE NOWAIT"
        with suppress(errors.LockNotAvailable), connection.transaction():
            connection.execute(everything.encode())
            return
        partitions = [name for table in tables for (name,) in connection.execute(_PARTITIONS, (table,)).fetchall()]
        # In one order everywhere: two jobs must not wait for each other's tables.
        for table in sorted([*tables, *partitions], key=lambda name: name != self._first):
            before, self._first = self._first, table
            try:
                self._take_one(connection, beside, table, holds=holds, until=until)
            except errors.UndefinedTable:
                if table in tables:
                    raise
                raise errors.LockNotAvailable("a partition was dropped meanwhile") from None
            self._first, holds = before, True
        # With whatever was not there yet, or may not be locked by itself.
        connection.execute(everything.encode())

    def _take_one(
        self,
        connection: psycopg.Connection[Any],
        beside: Beside,
        table: str,
        *,
        holds: bool,
        until: float | None,
    ) -> None:
        lock = f"LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE"
        if holds:
            with suppress(errors.LockNotAvailable), connection.transaction():
                connection.execute(f"{lock} NOWAIT".encode())
                return
            found = connection.execute(_IS_HELD_BY_WAITERS, (table,)).fetchone()
            if found is None or found[0]:
                # Who waits already may look at any moment.
                raise errors.LockNotAvailable("whoever has the lock waits for another one that is held here")
        milliseconds = 0 if until is None else max(1, int(1000 * (until - time.monotonic())))
        connection.execute(f"SET LOCAL lock_timeout = {milliseconds}".encode())
        with avoiding_deadlocks(connection, beside) if holds else nullcontext():
            connection.execute(lock.encode())


@contextmanager
def avoiding_deadlocks(connection: psycopg.Connection[Any], beside: Beside) -> Iterator[None]:
    """Cancels the statement that waits for a lock before anybody who waits for this transaction would be ended.

    Where no session can be had that looks for that, locks are waited for no longer than `LOCKS_MILLISECONDS`.

    Raises:
        GaveWay: it was canceled, or has waited for so long.
    """
    with ExitStack() as held:
        looking = None
        with suppress(ConnectionFailed):
            looking = held.enter_context(beside())
        if looking is None:
            connection.execute(f"SET LOCAL lock_timeout = {LOCKS_MILLISECONDS}".encode())
            try:
                yield
            except errors.LockNotAvailable as error:
                # What the server has not said has a reason of its own.
                if error.diag.sqlstate is None:
                    raise
                raise GaveWay(str(error)) from None
        else:
            with _looked_after(connection, looking):
                yield


@contextmanager
def _looked_after(connection: psycopg.Connection[Any], beside: psycopg.Connection[Any]) -> Iterator[None]:
    found = connection.execute(
        "SELECT pg_backend_pid(), setting::float8 / 1000 FROM pg_settings WHERE name = 'deadlock_timeout'"
    ).fetchone()
    pid, seconds = found if found is not None else (0, 1.0)
    ended, has_given_way = threading.Event(), threading.Event()

    def look() -> None:
        try:
            while not ended.wait(seconds / LOOKS):
                if beside.execute(_CANCEL_CIRCLE, {"pid": pid}).fetchone() is not None:
                    has_given_way.set()
                    return
        except psycopg.Error:
            # Without anybody who looks nothing is waited for; the session is made anew before the next attempt.
            has_given_way.set()
            with suppress(psycopg.Error):
                connection.cancel_safe()

    thread = threading.Thread(target=look, name="tipple locks", daemon=True)
    thread.start()
    canceled: errors.QueryCanceled | None = None
    try:
        yield
    except errors.QueryCanceled as error:
        canceled = error
    finally:
        ended.set()
        thread.join()
    if has_given_way.is_set():
        raise GaveWay("whoever has the lock waits for another one that is held here")
    if canceled is not None:
        raise canceled
