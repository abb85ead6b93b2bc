"""What `tipple doctor` finds in a target; the same form for every engine."""

from __future__ import annotations

import os
from typing import Literal

import msgspec

from tipple.plan.size import format_bytes

Level = Literal["ok", "note", "slow", "broken"]
"""ok: as it should be. note: worth knowing. slow: a load takes longer than it has to. broken: a load would fail, or
what it stores would not be safe."""

LEVELS: tuple[Level, ...] = ("broken", "slow", "note", "ok")
"""The worst first."""


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


class StorageSize(msgspec.Struct, frozen=True, kw_only=True):
    """The room that a table, a partition or an index takes."""

    name: str
    kind: str
    """table, partitioned table, partition, index, view of the engine's own words."""
    parent: str | None
    """The table that a partition or an index belongs to."""
    bound: str | None
    """A partition's bounds, as the engine writes them."""
    pages: int
    bytes: int
    rows: int | None
    """As the engine's statistics have it; None where it does not know."""


def disk_finding(directory: str) -> Finding:
    """How much room is left on the disk of a directory on this machine."""
    status = os.statvfs(directory)
    free, size = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    tight = free < size // 10
    return Finding(
        level="slow" if tight else "ok",
        subject=f"disk of {directory}",
        found=f"{format_bytes(free)} free of {format_bytes(size)}",
        effect="a load needs about the size of its files, a server as much again for WAL" if tight else "",
        remedy="free some, or move the target to another disk" if tight else "",
    )
