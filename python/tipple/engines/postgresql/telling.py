"""What the user gets to know of a load that is published: its rejects, and what the core did on its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psycopg

from tipple._core import RejectFiles
from tipple.engines import spool
from tipple.engines.base import LoadTask
from tipple.engines.postgresql import connection as connections
from tipple.engines.postgresql import direct, ledger, stage
from tipple.errors import ConnectionFailed, TippleError

if TYPE_CHECKING:
    from tipple.engines.postgresql.session import PostgresSession

__all__ = ["core_notes", "teller"]


def core_notes(outcome: dict[str, Any]) -> list[str]:
    """Notes about what the core did; `outcome` is its own."""
    notes = []
    if outcome.get("fallback_example"):
        notes.append(f"the server itself read some values, such as {outcome['fallback_example']}")
    # A job that was found done has no such figures.
    return notes + direct.sending_notes(*outcome.get("sent_pages", (0, 0)))


def teller(
    session: PostgresSession,
    task: LoadTask,
    job_id: str,
    say: Callable[[str], str],
    slices: list[dict[str, Any]],
    outcome: dict[str, Any],
) -> Callable[[RejectFiles], None]:
    """What tells the rejects of a job.

    Args:
        session: with the ledger.
        task: the load.
        job_id: its job.
        say: puts what speaks of staged tables in the user's words.
        slices: those that were planned, and
        outcome: what the core said of the load, with those that it cut; for one without a ledger.
    """

    def tell(told: RejectFiles) -> None:
        told.rephrase(stage.PREFIX, say)
        if not task.ledger:
            spool.tell(task, told, spool.first_records([*slices, *outcome["cut"]], outcome["slices"]))
            return
        try:
            _from_ledger(session, task, job_id, told)
        except (psycopg.Error, ConnectionFailed) as error:
            raise TippleError(
                f"the rows were published, but the rejects could not be read: {' '.join(str(error).split())}",
                hint="run the same command again: it loads nothing twice and writes the rejects",
            ) from None

    return tell


def _from_ledger(session: PostgresSession, task: LoadTask, job_id: str, told: RejectFiles) -> None:
    """Reads them, once more where the connection was lost before the first: what was told cannot be taken back."""
    may_go_on = True
    while True:
        try:
            # Complete before the first is told: the end of a transaction may be lost too.
            before, expected = ledger.reject_places(session.connection, job_id)
            if spool.tell(task, told, before, expected):
                return
            with session.connection.transaction():
                for rows in ledger.rejects(session.connection, job_id):
                    may_go_on = False
                    told.add(rows)
            return
        except psycopg.Error as error:
            if not may_go_on or not connections.is_lost(error):
                raise
            may_go_on = False
            session.reconnect(task.retry_seconds)
