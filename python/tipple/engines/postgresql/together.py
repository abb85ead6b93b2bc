"""Several loads into one PostgreSQL database, published in one transaction.

Each has staged and verified its rows on a session of its own, which holds the lock of its table. One of the sessions
carries out the transaction for all; the others do nothing meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
from psycopg import errors

from tipple.engines import core
from tipple.engines.base import NotPublished
from tipple.engines.postgresql import connection as connections
from tipple.engines.postgresql import ledger, stage
from tipple.engines.postgresql.job import OwnedJob
from tipple.engines.postgresql.partition_publish import Incomplete

if TYPE_CHECKING:
    from tipple.engines.postgresql.publish import Publish

__all__ = ["Staged", "publish"]

LOCKS_MILLISECONDS = 600
"""For all tables together; `deadlock_timeout`, after which the server ends somebody, is a second by default."""
PAUSE_SECONDS = 0.2
_MOVED = ("simple_heap_update", "simple_heap_delete")
"""Functions of the server that say `tuple concurrently updated`, which has no SQLSTATE of its own."""
QUIET_SECONDS = 2.0
"""Locks that come sooner are nobody's business."""
PATIENCE_SECONDS = 60
"""After that locks are waited for, however long it takes: new readers then wait too, so that it comes to an end."""


class Staged(msgspec.Struct, frozen=True, eq=False):
    """A load whose rows are staged and verified."""

    publish: Publish
    owned: OwnedJob
    choice: Any
    rows: int
    digest: int | None


def is_in_the_way(error: psycopg.Error) -> bool:
    """Whether others hold locks, or were quicker to change what the catalog has of a table: worth another try."""
    return isinstance(error, (errors.LockNotAvailable, errors.DeadlockDetected)) or (
        isinstance(error, errors.InternalError_) and error.diag.source_function in _MOVED
    )


def publish(staged: Sequence[Staged]) -> list[Staged]:
    """Makes the rows of all loads visible, and says so in the ledger, in one transaction.

    Args:
        staged: each behind those that it comes after.

    Returns:
        The loads of which the server has lost slices in a crash, or that lack an index; if there are any, nothing was
        published.

    Raises:
        CommitInDoubt: the connection was lost while committing, and a load has no ledger that would know.
    """
    begun = time.monotonic()
    while True:
        for one in staged:
            one.publish.job.ensure_connection(one.owned)
        said = [len(one.publish.notes) for one in staged]
        tried = time.monotonic()
        try:
            return _publish(staged, is_patient=tried >= begun + PATIENCE_SECONDS)
        except psycopg.Error as error:
            if connections.is_lost(error):
                if _are_published(staged):
                    return []
                continue
            if not is_in_the_way(error):
                raise
            # What was said of it is undone too.
            for one, count in zip(staged, said, strict=True):
                del one.publish.notes[count:]
            if isinstance(error, stage.SnapshotsOpen):
                # Once more, and all rows are copied then.
                for one in staged:
                    one.publish.may_mix = False
                for one in _seen_apart(staged):
                    one.publish.may_swap = False
            elif (now := time.monotonic()) >= begun + QUIET_SECONDS:
                asked = staged[0].publish.connection
                for one in staged:
                    one.publish.session.blockers.say_of_table(asked, one.publish.table.sql, now - tried)
            time.sleep(PAUSE_SECONDS)


def _publish(staged: Sequence[Staged], *, is_patient: bool) -> list[Staged]:
    connection = staged[0].publish.connection
    lost: list[Staged] = []
    with connection.transaction() as transaction:
        _lock(connection, staged, is_patient=is_patient)
        apart = _seen_apart(staged)
        if apart and not stage.wait_for_snapshots(connection):
            for one in apart:
                one.publish.may_swap = one.publish.may_mix = False
        for one in staged:
            one.publish.may_copy = is_patient
            with _blaming(one), one.publish.borrowing(connection):
                try:
                    done = one.publish.make_visible(one.owned, one.choice, one.rows, one.digest)
                except Incomplete:
                    done, one.publish.is_incomplete = False, True
                if not done:
                    lost.append(one)
        if lost:
            raise psycopg.Rollback(transaction)
        may_swap = any(one.publish.may_swap for one in apart)
        if may_swap and not is_patient:
            # Somebody may have begun while rows were merged.
            stage.require_new_snapshots(connection)
        for one in staged:
            with _blaming(one), one.publish.borrowing(connection):
                one.publish.add_references(one.owned, one.choice)
        if not is_patient and (may_swap or any(one.publish.mixes for one in staged)):
            stage.require_nobody_waits(connection)
    return lost


@contextmanager
def _blaming(one: Staged) -> Iterator[None]:
    """What fails here is this load's failure, unless it is the connection's, or a lock's that is waited for again."""
    try:
        yield
    except Exception as error:
        if isinstance(error, psycopg.Error) and (is_in_the_way(error) or connections.is_lost(error)):
            raise
        raise NotPublished(one, error) from error


def _lock(connection: psycopg.Connection[Any], staged: Sequence[Staged], *, is_patient: bool) -> None:
    """Takes the locks on all tables whose place, or whose partitions' place, others will take; or none.

    A reader of two of them may hold the first and wait for the second, just the other way round: so no lock is waited
    for as long as it takes the server to call that a deadlock and to end the reader's query.
    """
    # In one order everywhere: two jobs must not wait for each other's tables.
    for one in staged:
        one.publish.views.begin(may_move=not is_patient)
    tables = sorted(
        one.publish.table.sql for one in staged if one.owned.strategy in ("swap", "partition") and one.choice.exists
    )
    swapped = [one for one in staged if one.owned.strategy == "swap" and one.choice.exists]
    if tables:
        milliseconds = 0 if is_patient else max(LOCKS_MILLISECONDS // (len(tables) + len(swapped)), 10)
        connection.execute(f"SET LOCAL lock_timeout = {milliseconds}")
        for one in sorted(swapped, key=lambda one: one.publish.table.sql):
            one.publish.views.set_aside(connection, one.publish.table)
        connection.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
        connection.execute("SET LOCAL lock_timeout = 0")


def _seen_apart(staged: Sequence[Staged]) -> list[Staged]:
    """Those whose tables take others' place, where rows of other loads are merged: a snapshot from before the end would
    show the ones and not the others."""
    moving = [one for one in staged if one.owned.strategy in ("swap", "partition")]
    return [one for one in moving if one.choice.exists] if len(moving) < len(staged) else []


def _are_published(staged: Sequence[Staged]) -> bool:
    """COMMIT's answer is lost: the ledger's state is the answer, for one load as for all."""
    one = next((one for one in staged if one.publish.task.ledger), None)
    if one is None:
        raise core.CommitInDoubt(
            "the connection was lost while publishing, and without a ledger nobody can tell the outcome",
            hint=f"look whether {', '.join(str(one.publish.table) for one in staged)} have the rows",
        )
    one.publish.job.reconnect(one.owned)
    job = ledger.find_by_id(one.publish.connection, one.owned.job_id)
    return job is not None and job.state == "published"
