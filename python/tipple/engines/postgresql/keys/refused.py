"""Staged rows that the table has refused become rejects: the core finds their records again, the ledger takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec

from tipple._core import OFFSET_BITS, around_spooled
from tipple.engines import core, spool
from tipple.engines.base import Cut, LoadTask, Runner
from tipple.engines.postgresql.core_plans import CorePlans
from tipple.engines.postgresql.job import OwnedJob
from tipple.engines.postgresql.upsert.merge_refusals import Refused
from tipple.errors import TippleError
from tipple.plan.rejects import RejectPolicy

if TYPE_CHECKING:
    import psycopg

__all__ = ["Sources", "StagedSlice", "keep_rejects", "reject", "stored_slices"]


class StagedSlice(msgspec.Struct, kw_only=True):
    """A slice whose rows are staged."""

    n: int
    pieces: list[dict[str, int]]
    rows: int
    rejected: list[tuple[int, int]] = []
    """Source and offset of its rejects."""

    @property
    def place(self) -> tuple[int, int]:
        """Where its first record stands: source and offset."""
        return self.pieces[0]["source"], self.pieces[0]["offset"]


class Sources(msgspec.Struct, kw_only=True):
    """What was read, as it must be read again."""

    runner: Runner
    plans: CorePlans
    cut: Cut
    """As it was planned at first, with all its feeds."""
    unlisted: Callable[[], list[StagedSlice]]
    """The slices of a load without a ledger."""


def reject(
    connection: psycopg.Connection[Any], task: LoadTask, owned: OwnedJob, given: Sources, refused: Sequence[Refused]
) -> list[int]:
    """Makes the records of refused rows rejects, in the transaction that is open; says how many of each source.

    Raises:
        BadRecord, TooManyRejects: they are more than may be rejected.
        TippleError: the same, or any at all, of sources that cannot be read again.
    """
    if task.reads_once:
        what = "standard input" if task.reads_stdin else "a stream in memory"
        raise TippleError(
            f"{task.table} refuses staged rows, at least {len(refused)}; the first one: {refused[0].reason}",
            hint=f"nothing was published; {what} cannot be read again to name the records: load them from a file",
            detail={"sqlstate": refused[0].sqlstate},
        )
    if task.rejects is None:
        with closing(spool.Directory()) as place:
            policy = RejectPolicy(max_count=0, max_percent=None, path="")
            naming = msgspec.structs.replace(task, rejects=policy, spool=place.name)
            _find(connection, naming, owned, given, refused[:1])
        raise TippleError(
            f"{task.table} refuses a row: {refused[0].reason}", hint="nothing was published; mend the record"
        )
    return _find(connection, task, owned, given, refused)


def _find(
    connection: psycopg.Connection[Any], task: LoadTask, owned: OwnedJob, given: Sources, refused: Sequence[Refused]
) -> list[int]:
    by_place: dict[tuple[int, int], list[Refused]] = {}
    for one in refused:
        by_place.setdefault((one.slice_order >> OFFSET_BITS, one.slice_order & ((1 << OFFSET_BITS) - 1)), []).append(
            one
        )
    listed = stored_slices(connection, owned.job_id) if task.ledger else given.unlisted()
    known = {part.place: part for part in listed if part.rows}
    wanted = [
        {
            "n": known[place].n,
            "source": place[0],
            "offset": place[1],
            "rows": known[place].rows,
            "rejected": known[place].rejected,
            "refused": [{"index": one.row, "reason": one.reason, "sqlstate": one.sqlstate} for one in rows],
        }
        for place, rows in sorted(by_place.items())
    ]
    fed = {source for feed in given.cut.feeds for source in feed}
    needed = {place[0] for place in by_place}
    cut = msgspec.structs.replace(
        given.cut,
        slices=[
            {"n": known[place].n, "pieces": known[place].pieces} for place in sorted(by_place) if place[0] not in fed
        ],
        feeds=[feed for feed in given.cut.feeds if needed.intersection(feed)],
        done=[place for place in known if place[0] in fed and place not in by_place],
    )
    spool.settle(task)
    so_far = sum(len(part.rejected) for part in listed)
    given.runner.run(core.start_load(task, given.plans.refused(task, owned, cut, wanted, so_far)))
    counts = [0] * len(task.sources)
    by_slice: dict[int, int] = {}
    for n, source, _ in spool.places(task, spool.REFUSED):
        counts[source] += 1
        by_slice[n] = by_slice.get(n, 0) + 1
    if task.ledger:
        keep_rejects(connection, task, owned.job_id, by_slice)
    return counts


def stored_slices(connection: psycopg.Connection[Any], job_id: str) -> list[StagedSlice]:
    """The slices that a job has stored, as the ledger has them.

    Raises:
        TippleError: the ledger has lost rejects of theirs, which are not to be taken for rows.
    """
    slices, counts = {}, {}
    for n, pieces, rows, rejects in connection.execute(
        "SELECT n, pieces, rows, rejects FROM tipple.slice WHERE job_id = %s AND state = 'done'", (job_id,)
    ):
        slices[n], counts[n] = StagedSlice(n=n, pieces=pieces, rows=rows), rejects
    for n, source, offset in connection.execute(
        "SELECT n, source, byte_offset FROM tipple.reject WHERE job_id = %s", (job_id,)
    ):
        slices[n].rejected.append((source, offset))
    lost = sum(max(counts[n] - len(part.rejected), 0) for n, part in slices.items())
    if lost:
        raise TippleError(
            f"{lost:,} rejects of job {job_id} are gone from the ledger (tipple.reject): without them nobody knows "
            "which records its rows come from",
            hint="nothing was published; run the same command again: it loads from the beginning",
        )
    return list(slices.values())


def keep_rejects(connection: psycopg.Connection[Any], task: LoadTask, job_id: str, by_slice: dict[int, int]) -> None:
    """Writes into the ledger which rows of its slices were refused: `by_slice` says how many."""
    with connection.cursor() as cursor:
        statement = f"COPY tipple.reject ({spool.COLUMNS}) FROM STDIN (FORMAT binary)"
        header, trailer = around_spooled()
        for path in spool.files(task, spool.REFUSED):
            with cursor.copy(statement.encode()) as copy, path.open("rb") as file:
                copy.write(header)
                while piece := file.read(1 << 16):
                    copy.write(piece)
                copy.write(trailer)
        cursor.executemany(
            "UPDATE tipple.slice SET rows = rows - %s, rejects = rejects + %s, row_digest = NULL "
            "WHERE job_id = %s AND n = %s",
            [(count, count, job_id, n) for n, count in by_slice.items()],
        )
