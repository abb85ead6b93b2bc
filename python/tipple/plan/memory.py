"""`--memory-limit`: one number, from which the sizes of all buffers come. Pure arithmetic.

A process has a part that does not depend on the load (the interpreter, libraries, the plan) and a part for each stream.
Sizes are those of the defaults, or smaller in proportion where a stream gets less.
"""

from __future__ import annotations

import msgspec

from tipple.errors import UsageError
from tipple.plan.size import format_bytes

__all__ = ["FIXED_BYTES", "LEAST_STREAM_BYTES", "STREAM_BYTES", "MemoryPlan", "plan_memory"]

FIXED_BYTES = 200_000_000
"""What is promised for the whole process without its streams."""
STREAM_BYTES = 48_000_000
"""What is promised for each stream."""
LEAST_FIXED_BYTES = 140_000_000
"""What a process needs at least: `benchmarks/memory.py` finds 90 to 120 MB with one stream of the least size."""
LEAST_STREAM_BYTES = 8_000_000
"""With less a stream's blocks and COPYs get so short that their beginning and end count."""


class MemoryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a load's buffers, in bytes."""

    limit_bytes: int | None
    """What the process may have; None where nobody has said so."""
    block_bytes: int
    """The least text of a slice that is cut while it is read; two and a half of them per stream are in memory."""
    window_bytes: int
    """What a stream parses at a time."""
    routing_bytes: int
    """What a stream keeps back of records for other partitions than the one whose COPY is open."""
    run_bytes: int
    """Ready-made pages that a server appends at a time; as many wait for it."""
    max_record_bytes: int
    """The longest record."""


DEFAULTS = MemoryPlan(
    limit_bytes=None,
    # As small as slices of files get.
    block_bytes=8 * 1024 * 1024,
    # Text, field list and output together stay in a core's second-level cache.
    window_bytes=256 * 1024,
    routing_bytes=36 * 1024 * 1024,
    # 1 and 2 MiB took 20 and 10 % longer than 4, 8 MiB 5 % less, 16 MiB no less.
    run_bytes=8 * 1024 * 1024,
    max_record_bytes=16 * 1024 * 1024,
)


def plan_memory(limit_bytes: int | None, streams: int, max_record_bytes: int) -> MemoryPlan:
    """The sizes of the buffers of a load with so many streams.

    Raises:
        UsageError: the limit is too small for them.
    """
    # The longer the COPY of a partition, the less its beginning and end count: what is to spare is for that.
    spare_bytes = (FIXED_BYTES - LEAST_FIXED_BYTES) // streams
    if limit_bytes is None:
        routing_bytes = DEFAULTS.routing_bytes + spare_bytes
        return msgspec.structs.replace(DEFAULTS, routing_bytes=routing_bytes, max_record_bytes=max_record_bytes)
    least = LEAST_FIXED_BYTES + streams * LEAST_STREAM_BYTES
    if limit_bytes < least:
        fewer = (limit_bytes - LEAST_FIXED_BYTES) // LEAST_STREAM_BYTES
        shown = f"{limit_bytes / 1e6:g}MB" if limit_bytes >= 100_000 else format_bytes(limit_bytes)
        raise UsageError(
            f"--memory-limit {shown} is too small for {streams} streams: they need {least / 1e6:g}MB at least",
            hint=f"raise it to {least / 1e6:g}MB" + (f", or load with fewer streams: -j {fewer}" if fewer > 0 else ""),
        )
    available_bytes = (limit_bytes - LEAST_FIXED_BYTES) // streams
    stream_bytes = min(STREAM_BYTES, available_bytes)
    spare_bytes = min(spare_bytes, available_bytes - stream_bytes)

    def share(size_bytes: int, least_bytes: int) -> int:
        return max(least_bytes, size_bytes * stream_bytes // STREAM_BYTES)

    return MemoryPlan(
        limit_bytes=limit_bytes,
        block_bytes=share(DEFAULTS.block_bytes, 1024 * 1024),
        window_bytes=share(DEFAULTS.window_bytes, 64 * 1024),
        routing_bytes=share(DEFAULTS.routing_bytes, 2 * 1024 * 1024) + spare_bytes,
        run_bytes=share(DEFAULTS.run_bytes, 512 * 1024),
        # A window that has to hold a whole record is in memory up to four times: text, its double, and what is sent.
        max_record_bytes=min(max_record_bytes, max(stream_bytes // 4, DEFAULTS.window_bytes)),
    )
