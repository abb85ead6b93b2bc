"""What a load that is visible bit by bit stores in each of its transactions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import msgspec

from tipple.engines.base import Cut, LoadTask
from tipple.errors import UsageError

SLICES_PER_COMMIT = 8
"""With --no-atomic: enough rows for whole row groups in each transaction, few enough to lose little."""


def require_slices(task: LoadTask, cut: Cut | None) -> None:
    """Refuses to store a part of what has no slices.

    Raises:
        UsageError: `--commit-every` is asked for, and a source is read from beginning to end.
    """
    if task.commit_every is not None and cut is not None and cut.feeds:
        named = task.sources[cut.feeds[0][0]].path
        raise UsageError(
            f"--commit-every is not possible for {named}: what is read from beginning to end goes into DuckDB in "
            "one transaction",
            hint="leave it out, or bring the file into a form that can be cut: unpacked, in UTF-8, without comments "
            "and lines to be skipped",
        )


class Transactions:
    """What --no-atomic stores in a transaction each: some slices, or one feed, which is read but once."""

    def __init__(self, task: LoadTask, cut: Cut, *, in_order: bool) -> None:
        """`in_order` where it counts which of two records is stored first."""
        self.cut = cut
        self.rows = task.commit_every
        self.in_order = in_order
        # Of an interrupted job, what is left of a divided slice comes last.
        self.slices = sorted(cut.slices, key=_place) if in_order else list(cut.slices)
        self.feeds = sorted(cut.feeds) if in_order else list(cut.feeds)
        self.next_part_n = cut.first_part_n
        # A stream in memory is read once: its slices go together.
        self.slices_at_once = SLICES_PER_COMMIT if task.stream is None else max(1, len(cut.slices))
        if self.rows is not None:
            self.slices_at_once = 1 if in_order else min(task.streams, self.rows)

    def next(self) -> Cut | None:
        """What the next transaction stores; None where nothing is left."""
        taken = self.slices[: self.slices_at_once]
        if self.in_order and self.feeds:
            (first, *_), *_ = self.feeds
            taken = list(takewhile(lambda part: _place(part)[0] < first, taken))
        if taken:
            self.slices = self.slices[len(taken) :]
            return msgspec.structs.replace(self.cut, slices=taken, feeds=[], first_part_n=self.next_part_n)
        if self.feeds:
            return msgspec.structs.replace(self.cut, slices=[], feeds=[self.feeds.pop(0)])
        return None

    def records_per_slice(self, group: Cut) -> int | None:
        """The most records of each slice of a transaction."""
        return None if self.rows is None else self.rows // len(group.slices)

    def add(self, parts: Sequence[dict[str, Any]]) -> None:
        """What a transaction has left of its slices comes next."""
        self.slices[:0] = [part["rest"] for part in parts]
        self.next_part_n += len(parts)


def _place(part: dict[str, Any]) -> tuple[int, int]:
    """Where a slice begins: source and offset."""
    first = part["pieces"][0]
    return first["source"], first["offset"]
