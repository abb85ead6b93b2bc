"""Watches over `--memory-limit` while a job of the core runs.

The sizes of all buffers come from the limit (`plan/memory.py`), but some things have a size that nobody knows before
they are there: a row group of a Parquet file, a batch of a producer. What was promised is measured, therefore.
"""

from __future__ import annotations

import os

from tipple.errors import TippleError
from tipple.plan.memory import LEAST_FIXED_BYTES
from tipple.plan.size import format_bytes

__all__ = ["POLL_SECONDS", "MemoryWatch"]

POLL_SECONDS = 0.02
"""How often to look: often enough for a core that fills a gigabyte in a second."""
OUT_OF_MEMORY = "53200"
"""SQLSTATE out_of_memory: what is stored is kept, for a run with a larger limit to go on with."""


class MemoryWatch:
    """Compares what this process has in memory with its limit."""

    def __init__(self, limit_bytes: int, *, engine_bytes: int) -> None:
        """`engine_bytes` is what an engine within this process may have besides."""
        self.limit_bytes = limit_bytes
        # What the caller of the library had in memory before is not the load's.
        before = max(0, resident_bytes() - LEAST_FIXED_BYTES)
        self._allowed_bytes = limit_bytes + engine_bytes + before

    def excess(self) -> TippleError | None:
        """The failure of a load that has outgrown its limit; None where it has not."""
        used = resident_bytes()
        if used <= self._allowed_bytes:
            return None
        return TippleError(
            f"the load does not fit --memory-limit: {format_bytes(self._allowed_bytes)} are allowed, and "
            f"{format_bytes(used)} are in use",
            hint="raise --memory-limit, load with fewer streams (-j), or write smaller row groups, and run the command "
            "again: nothing is stored twice",
            detail={"sqlstate": OUT_OF_MEMORY},
        )


def resident_bytes() -> int:
    """What this process has in memory; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
