"""Several loads into one PostgreSQL database, published in one transaction.

Each has staged and verified its rows on a session of its own, which holds the lock of its table. One of the sessions
carries out the transaction for all; the others do nothing meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg

from tipple.engines import core
from tipple.engines.postgresql import connection as connections
from tipple.engines.postgresql import ledger
from tipple.engines.postgresql.job import OwnedJob

if TYPE_CHECKING:
    from tipple.engines.postgresql.load import PostgresLoad

__all__ = ["Staged", "publish"]


class Staged(msgspec.Struct, frozen=True, eq=False):
    """A load whose rows are staged and verified."""

    load: PostgresLoad
    owned: OwnedJob
    choice: Any
    rows: int
    digest: int | None


def publish(staged: Sequence[Staged]) -> list[Staged]:
    """Makes the rows of all loads visible, and says so in the ledger, in one transaction.

    Returns:
        The loads of which the server has lost slices in a crash; if there are any, nothing was published.

    Raises:
        CommitInDoubt: the connection was lost while committing, and a load has no ledger that would know.
    """
    # In one order everywhere: two jobs must not wait for each other's tables.
    staged = sorted(staged, key=lambda one: one.load.table.sql)
    while True:
        for one in staged:
            one.load.job.ensure_connection(one.owned)
        try:
            return _publish(staged)
        except psycopg.Error as error:
            if not connections.is_lost(error):
                raise
            if _are_published(staged):
                return []


def _publish(staged: Sequence[Staged]) -> list[Staged]:
    connection = staged[0].load.connection
    lost: list[Staged] = []
    with connection.transaction() as transaction:
        for one in staged:
            with one.load.borrowing(connection):
                if not one.load.make_visible(one.owned, one.choice, one.rows, one.digest):
                    lost.append(one)
        if lost:
            raise psycopg.Rollback(transaction)
    return lost


def _are_published(staged: Sequence[Staged]) -> bool:
    """COMMIT's answer is lost: the ledger's state is the answer, for one load as for all."""
    one = next((one for one in staged if one.load.task.ledger), None)
    if one is None:
        raise core.CommitInDoubt(
            "the connection was lost while publishing, and without a ledger nobody can tell the outcome",
            hint=f"look whether {', '.join(str(one.load.table) for one in staged)} have the rows",
        )
    one.load.job.reconnect(one.owned)
    job = ledger.find_by_id(one.load.connection, one.owned.job_id)
    return job is not None and job.state == "published"
