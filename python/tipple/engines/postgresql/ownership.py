"""Whether a job is still this run's: another one takes over what seems to be left.

Its rows and its ledger change in transactions that look at the epoch themselves. An index takes hours, and a lock on
the job's row for as long would keep whoever takes the job over, or cancels it, waiting: so sessions beside the control
session look at the epoch before each statement, without a lock, and whoever raises it ends them afterwards. Those that
have looked before are ended; those that look later are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from tipple.engines import core
from tipple.engines.postgresql import connection as connections
from tipple.engines.postgresql import ledger
from tipple.errors import BadRecord, ConnectionFailed, Interrupted, TippleError

if TYPE_CHECKING:
    from tipple.engines.postgresql.job import OwnedJob
    from tipple.engines.postgresql.session import PostgresSession
    from tipple.plan.url import Target

__all__ = ["Sessions", "refuse_lost"]

LOOKUP_SECONDS = 5
"""How long a server may take for the question why a load has failed."""


class Sessions:
    """Makes sessions that work for a job, beside the control session."""

    def __init__(self, session: PostgresSession, owned: OwnedJob, *, has_ledger: bool) -> None:
        self._session = session
        self._owned = owned
        self._has_ledger = has_ledger

    def another(self) -> psycopg.Connection[Any]:
        """A further session, which whoever takes the job over finds by its name.

        Raises:
            ConnectionFailed: the server gives none.
        """
        name = ledger.session_name(self._owned.job_id)
        made = self._session.another(name)
        connections.add_name(made, name)
        return made

    def require_own(self, connection: psycopg.Connection[Any]) -> None:
        """Finds out before a statement on one of these sessions whether the job is still this run's.

        Raises:
            TakenOver: it is not.
        """
        facts = (self._owned.job_id, self._owned.epoch)
        if self._has_ledger and connection.execute(ledger.OWNED, facts).rowcount != 1:
            raise core.TakenOver


def refuse_lost(target: Target, owned: OwnedJob, error: BaseException, *, is_atomic: bool) -> None:
    """Says of the failure of a load with a ledger that its job is not its own any more: what is staged is gone, and its
    sessions are ended, by `tipple jobs URL cancel` or by another run that has taken the job over or begun anew.

    Raises:
        TakenOver: another run has.
        TippleError: the job was cancelled, or is not in the ledger as it was.
    """
    if owned.is_given_up or not isinstance(error, Exception) or isinstance(error, (BadRecord, Interrupted)):
        return
    try:
        # By a session that is bounded: the one that there is may wait for a server which does not answer any more.
        with connections.connect(target, "tipple", LOOKUP_SECONDS) as connection:
            job = ledger.find_by_id(connection, owned.job_id)
    except (psycopg.Error, ConnectionFailed):
        # Without a server nobody can tell; it is the failure itself that counts.
        return
    if job is not None and job.state == "cancelled":
        stored = "" if is_atomic else "; slices that were done before are stored"
        raise TippleError(
            f"job {owned.job_id} was cancelled by tipple jobs", hint=f"the same command begins anew{stored}"
        ) from None
    if job is not None and job.epoch != owned.epoch:
        raise core.TakenOver from None
    if isinstance(error, core.TakenOver) and (job is None or job.state == "loading"):
        stored = (
            "this run has published nothing"
            if is_atomic
            else "slices that were done before are stored, and have to be deleted before they are loaded again"
        )
        raise TippleError(
            f"somebody has deleted what the ledger had of job {owned.job_id}, or some of it",
            hint=f"{stored}; look at the table, and run the same command again, with --restart if it asks for it",
        ) from None
