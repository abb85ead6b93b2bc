"""Loads of this process into one DuckDB database take turns: its settings, and the table for staged rows, are one each.

No other process has the file open meanwhile, so a lock of this process is enough. A load waits while another one goes
into another table; into a table that another load has taken already it does not go at all. Loads that publish together
have one session, and share its turn. A load that is called from inside the one whose turn it is would wait for what
waits for it: it does not go either.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tipple.engines import inside
from tipple.engines.base import Runner
from tipple.errors import JobBusy
from tipple.plan.url import MEMORY, TableName

if TYPE_CHECKING:
    from tipple.engines.duckdb.session import DuckSession

_changed = threading.Condition()
_tables: set[tuple[str, str]] = set()
"""Database and table of each load that has begun or waits."""
_turns: dict[str, _Turn] = {}
"""Whose turn it is, by database."""


class _Turn:
    """A session whose loads are under way, or that has a transaction open."""

    def __init__(self, session: DuckSession) -> None:
        self.session = session
        self.threads: list[int] = []
        """Those of the loads that are under way."""


@contextmanager
def turn(session: DuckSession, table: TableName, runner: Runner) -> Iterator[None]:
    """Around a load: waits until no other session loads into the database.

    Raises:
        JobBusy: another load into the table has begun, or waits for its turn; or the one whose turn it is waits for
            what this one is called by.
        Interrupted: Ctrl-C while it waited.
    """
    database = _database(session)
    claim = (database, table.sql.lower())
    waiting = _Waiting(database, session)
    with _changed:
        _refuse_inside(database, table)
        if claim in _tables:
            raise busy(table)
        _tables.add(claim)
    try:
        if not waiting.wait(0):
            with runner.phase("prepare"):
                runner.run(waiting)
        yield
    finally:
        with _changed:
            _tables.remove(claim)
            if waiting.turn is not None:
                waiting.turn.threads.remove(waiting.thread)
                if not waiting.turn.threads and not session.in_transaction:
                    _end(database, session)


def end(session: DuckSession) -> None:
    """Ends a session's turn: it is closed, and nothing of it is open any more."""
    with _changed:
        _end(_database(session), session)


def _begin_anew() -> None:
    """In a process that was forked: no load is its own, and the lock may be held for ever."""
    global _changed, _tables, _turns
    _changed, _tables, _turns = threading.Condition(), set(), {}


os.register_at_fork(after_in_child=_begin_anew)


def busy(table: TableName) -> JobBusy:
    """What to say where two loads want one table."""
    return JobBusy(
        f"another load in this process is going into {table} right now",
        hint="wait until it has ended, then run this one again",
    )


def _refuse_inside(database: str, table: TableName) -> None:
    """Refuses a load that is called by the progress function, or the reader, of the one whose turn it is.

    Raises:
        JobBusy: it is.
    """
    turn = _turns.get(database)
    if turn is not None and not inside.callers().isdisjoint(turn.threads):
        raise JobBusy(
            f"this load into {table} is called from inside another one, which waits for it and has the database "
            f"{database} until it has ended itself",
            hint="load when that one has ended, or into another database",
        )


def _end(database: str, session: DuckSession) -> None:
    session.settings.restore()
    if database in _turns and _turns[database].session is session:
        del _turns[database]
        _changed.notify_all()


class _Waiting:
    """The wait for a session's turn, as a job that a `Runner` can wait for and end."""

    def __init__(self, database: str, session: DuckSession) -> None:
        self.database = database
        self.session = session
        self.thread = threading.get_ident()
        self.turn: _Turn | None = None
        """The turn, once it has come."""
        self.cancelled = False

    def wait(self, timeout_seconds: float) -> bool:
        with _changed:
            return _changed.wait_for(self._take, timeout_seconds)

    def _take(self) -> bool:
        if self.turn is None and not self.cancelled:
            turn = _turns.setdefault(self.database, _Turn(self.session))
            if turn.session is self.session:
                turn.threads.append(self.thread)
                self.turn = turn
        return self.turn is not None or self.cancelled

    def cancel(self) -> None:
        with _changed:
            self.cancelled = True
            _changed.notify_all()

    def result(self) -> str | None:
        return None


def _database(session: DuckSession) -> str:
    return MEMORY if session.path is None else os.path.realpath(session.path)
