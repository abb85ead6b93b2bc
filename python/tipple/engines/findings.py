"""What `tipple doctor` finds in a target, and `tipple load` warns of; the same form for every engine."""

from __future__ import annotations

import os
from typing import Literal

import msgspec

from tipple.errors import TippleError
from tipple.plan.size import format_bytes
from tipple.plan.url import TableName

Level = Literal["ok", "note", "slow", "broken"]
"""ok: as it should be. note: worth knowing. slow: a load takes longer than it has to. broken: a load would fail, or
what it stores would not be safe."""

LEVELS: tuple[Level, ...] = ("broken", "slow", "note", "ok")
"""The worst first."""


WORTH_ADVICE_BYTES = 4 << 20
"""A load of less is over before advice on its speed could pay, and many of them come every night."""


def is_small(source_bytes: int) -> bool:
    """Whether a load is not worth advice on its speed; one of unknown size (0) is."""
    return 0 < source_bytes < WORTH_ADVICE_BYTES


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    level: Level
    subject: str
    """What was looked at: a setting, a table, the disk."""
    found: str
    """How it is."""
    effect: str = ""
    """What that does to a load."""
    remedy: str = ""
    """What to do about it, as a statement or command where there is one."""


def graded(ok: bool, level: Level, *, subject: str, found: str, effect: str, remedy: str) -> Finding:
    """What was looked at: in order, or at this level with its effect and remedy."""
    if ok:
        return Finding(level="ok", subject=subject, found=found)
    return Finding(level=level, subject=subject, found=found, effect=effect, remedy=remedy)


def refused(subject: str, error: TippleError) -> Finding:
    """What was looked at: the load would be refused because of it, and say so."""
    return Finding(
        level="broken", subject=subject, found=str(error), effect="the load is refused", remedy=error.hint or ""
    )


def missing(table: TableName) -> Finding:
    """That a table is not there, where a load can make it."""
    return Finding(
        level="note", subject=f"table {table}", found="it does not exist", remedy="tipple load … --schema FILE.sql"
    )


def disk_finding(directory: str, source_bytes: int = 0, *, subject: str | None = None) -> Finding:
    """How much room is left on the disk of a directory on this machine.

    Args:
        directory: where the rows will lie.
        source_bytes: size of what is to be loaded; 0 where that is not known.
        subject: what the directory is called; itself where that is None.
    """
    status = os.statvfs(directory)
    free, size = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    subject = subject or f"disk of {directory}"
    found = f"{format_bytes(free)} free of {format_bytes(size)}"
    if source_bytes > free:
        return Finding(
            level="broken",
            subject=subject,
            found=f"{found}, and the sources have {format_bytes(source_bytes)}",
            effect="the disk will be full before the load is done",
            remedy="free some, or load into another tablespace or disk",
        )
    return graded(
        free >= (2 * source_bytes or size // 10),
        "slow",
        subject=subject,
        found=f"{found}, and the sources have {format_bytes(source_bytes)}" if source_bytes else found,
        effect="a load needs about the size of its files; indexes, WAL, and old rows to be replaced come on top",
        remedy="free some, or move the target to another disk",
    )


def short(finding: Finding) -> str:
    """A finding in a line, for whoever is about to load."""
    remedy = f" ({finding.remedy})" if finding.remedy else ""
    return f"{finding.subject}: {finding.found}: {finding.effect}{remedy}"
