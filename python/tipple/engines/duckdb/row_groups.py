"""Which of a load's batches are whole row groups.

Each of DuckDB's threads fills row groups of its own and ends with one that is not full. Where few full ones lie between
two of them, closing the file joins and stores up to three row groups once more, and their first place in the file stays
empty. A thread that is given whole row groups has none to join; behind three for each thread nothing is joined.

Of rows that are stored in their order, DuckDB copies and joins what makes a row group, unless it comes as one batch.
"""

from __future__ import annotations

from typing import Any

import duckdb

from tipple.engines.duckdb.connection import first_row
from tipple.errors import UsageError
from tipple.plan.size import parse_size

ROW_GROUP_ROWS = 122_880
"""DuckDB's own size of a row group."""
JOINED = 3
"""DuckDB joins up to so many full row groups with what is left over on both sides of them."""
MEMORY_SHARE = 16
"""What batches may have of DuckDB's memory: a sixteenth. They are in memory beside the row groups made of them."""


def whole(connection: duckdb.DuckDBPyConnection, *, in_order: bool) -> dict[str, Any] | None:
    """The core's `WholeRowGroups`, for rows that are stored in their order or in any; None where none need be whole."""
    found = first_row(connection, "SELECT current_setting('threads')::BIGINT, current_setting('memory_limit')")
    return None if found is None else planned(int(found[0]), str(found[1]), in_order=in_order)


def planned(threads: int, memory_limit: str, *, in_order: bool) -> dict[str, Any] | None:
    """The same by DuckDB's settings; a memory limit as DuckDB shows it."""
    if threads == 1 and not in_order:
        return None
    try:
        memory_bytes = parse_size(memory_limit)
    except UsageError:
        return None
    # One in each thread, and one that is being put together.
    most_bytes = memory_bytes // MEMORY_SHARE // (threads + 1)
    return {"rows": ROW_GROUP_ROWS, "count": None if in_order else JOINED * threads, "most_bytes": most_bytes}
