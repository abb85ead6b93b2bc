"""Several loads into one PostgreSQL database, published in one transaction.

Each has staged and verified its rows on a session of its own, which holds the lock of its table. One of the sessions
carries out the transaction for all; the others do nothing meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
from psycopg import errors

from tipple.engines import core
from tipple.engines.base import NotPublished
from tipple.engines.postgresql import connection as connections
from tipple.engines.postgresql import ledger, stage
from tipple.engines.postgresql.job import OwnedJob
from tipple.engines.postgresql.partitioned.partition_publish import Incomplete
from tipple.engines.postgresql.together_locks import LOCKS_MILLISECONDS, Beside, Locks, avoiding_deadlocks

if TYPE_CHECKING:
    from tipple.engines.postgresql.publish import Publish

__all__ = ["Staged", "publish"]

PAUSE_SECONDS = 0.2
_MOVED = ("simple_heap_update", "simple_heap_delete")
"""Functions of the server that say `tuple concurrently updated`, which has no SQLSTATE of its own."""
QUIET_SECONDS = 2.0
"""Locks that come sooner are nobody's business."""
PATIENCE_SECONDS = 60
"""After that locks are waited for, however long it takes: new readers then wait too, so that it comes to an end."""
GIVING_WAY_SECONDS = 120
"""After that rows are copied, where every attempt stands in the way of readers that stand in its own."""


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
    begun = tried = time.monotonic()
    locks = Locks()
    lost_since: float | None = None
    is_in_doubt = False
    said: list[int] = []
    while True:
        try:
            if is_in_doubt and _are_published(staged):
                return []
            if is_in_doubt:
                _unsay(staged, said)
            is_in_doubt = False
            for one in staged:
                one.publish.job.ensure_connection(one.owned)
            said = [len(one.publish.notes) for one in staged]
            tried, is_in_doubt = time.monotonic(), True
            return _publish(staged, locks, is_patient=tried >= begun + PATIENCE_SECONDS)
        except psycopg.Error as error:
            if connections.is_lost(error):
                lost_since = lost_since or time.monotonic()
                if time.monotonic() >= lost_since + staged[0].publish.task.retry_seconds:
                    raise
                time.sleep(PAUSE_SECONDS)
                continue
            lost_since, is_in_doubt = None, False
            if not is_in_the_way(error):
                raise
            _unsay(staged, said)
            if isinstance(error, stage.SnapshotsOpen):
                # Once more, and all rows are copied then.
                for one in staged:
                    one.publish.may_mix = False
                for one in _seen_apart(staged):
                    one.publish.may_swap = False
            elif (now := time.monotonic()) >= begun + QUIET_SECONDS:
                _say_who_is_in_the_way(staged, now - tried)
            if time.monotonic() >= begun + GIVING_WAY_SECONDS and not any(one.publish.is_strict for one in staged):
                for one in staged:
                    one.publish.give_way()
            time.sleep(PAUSE_SECONDS)


def _unsay(staged: Sequence[Staged], said: Sequence[int]) -> None:
    """Takes back what was said of an attempt that is undone: all but so many notes of each load."""
    for one, count in zip(staged, said, strict=True):
        del one.publish.notes[count:]


def _say_who_is_in_the_way(staged: Sequence[Staged], waited_seconds: float) -> None:
    asked = staged[0].publish.connection
    # If the connection is lost by now, the next attempt will tell.
    with suppress(psycopg.Error):
        for one in staged:
            one.publish.session.blockers.say_of_table(asked, one.publish.table.sql, waited_seconds)


def _publish(staged: Sequence[Staged], locks: Locks, *, is_patient: bool) -> list[Staged]:
    connection = staged[0].publish.connection
    lost: list[Staged] = []

    def beside() -> AbstractContextManager[psycopg.Connection[Any]]:
        return _beside(staged)

    with connection.transaction() as transaction:
        _lock(connection, staged, locks, beside, is_patient=is_patient)
        apart = _seen_apart(staged)
        if apart and not stage.wait_for_snapshots(connection):
            for one in apart:
                one.publish.may_swap = one.publish.may_mix = False
        for one in staged:
            one.publish.may_copy = is_patient
            with _blaming(one), one.publish.borrowing(connection), avoiding_deadlocks(connection, beside):
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
            with _blaming(one), one.publish.borrowing(connection), avoiding_deadlocks(connection, beside):
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


def _lock(
    connection: psycopg.Connection[Any], staged: Sequence[Staged], locks: Locks, beside: Beside, *, is_patient: bool
) -> None:
    """Takes the locks on all tables whose place, or whose partitions' place, others will take; or none."""
    for one in staged:
        one.publish.views.begin(may_move=not is_patient)
    moving = [one for one in staged if one.owned.strategy in ("swap", "partition") and one.choice.exists]
    moving = sorted((one for one in moving if not one.publish.gives_way), key=lambda one: one.publish.table.sql)
    if not moving:
        return
    swapped = [one for one in moving if one.owned.strategy == "swap"]
    milliseconds = max(LOCKS_MILLISECONDS // (len(moving) + len(swapped)), 10)
    connection.execute(f"SET LOCAL lock_timeout = {milliseconds}")
    for one in swapped:
        one.publish.views.set_aside(connection, one.publish.table)
    tables = [one.publish.table.sql for one in moving]
    holds_views = any(one.publish.views.aside for one in swapped)
    locks.take(connection, beside, tables, holds=holds_views, is_patient=is_patient)
    connection.execute("SET LOCAL lock_timeout = 0")


@contextmanager
def _beside(staged: Sequence[Staged]) -> Iterator[psycopg.Connection[Any]]:
    """A session beside the one that publishes: another load's, which has nothing to do, or one that is made for it."""
    first, *others = (one.publish.session for one in staged)
    if others:
        yield others[0].connection
    else:
        with first.another("tipple") as made:
            yield made


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
    # The lock of whose session has published is free when that has ended, and no COMMIT is under way any more.
    staged[0].publish.job.reconnect(staged[0].owned)
    if one is not staged[0]:
        one.publish.job.reconnect(one.owned)
    job = ledger.find_by_id(one.publish.connection, one.owned.job_id)
    return job is not None and job.state == "published"
