"""Whether DuckDB packs rows better in the order in which they come in, though nobody asked for that order.

Without it, each of DuckDB's threads fills row groups of its own and ends with one that is not full. Where a thread has
only a few, closing the file joins and stores them once more, and the place of the first ones stays empty in the file:
half as much space again. In order, threads fill row groups together, which costs more than it saves as soon as
there are more of them, or wider ones: it keeps rows in memory, and copies them.
"""

from __future__ import annotations

import os

import duckdb

from tipple.engines.base import LoadTask
from tipple.engines.duckdb.connection import first_row

ROW_GROUP_ROWS = 122_880
"""DuckDB's own size of a row group."""
FEW_ROW_GROUPS = 3
"""Of each thread: up to there, order was as fast or faster."""
MOST_BYTES = 256 * 1024 * 1024
"""Of text: half a million rows were as fast in order with 62 and 188 MB, and took a quarter more time with 622."""
SAMPLE_BYTES = 256 * 1024


def packs_better(connection: duckdb.DuckDBPyConnection, task: LoadTask) -> bool:
    """Whether the rows of a load are few for DuckDB's threads."""
    found = first_row(connection, "SELECT current_setting('threads')::BIGINT")
    rows = _estimated_rows(task)
    few = found is not None and rows is not None and are_few(rows, int(found[0]))
    return few and task.source_bytes <= MOST_BYTES


def are_few(rows: float, threads: int) -> bool:
    """Whether so many rows make more than one row group, but few for each thread."""
    return threads > 1 and ROW_GROUP_ROWS < rows <= FEW_ROW_GROUPS * threads * ROW_GROUP_ROWS


def _estimated_rows(task: LoadTask) -> float | None:
    """About how many rows the sources have, by the lines that one of them begins with; None: they do not say."""
    if task.reads_once or task.columnar is not None or any(source.form is not None for source in task.sources):
        return None
    largest = max(task.sources, key=lambda source: source.size, default=None)
    if largest is None or not os.path.isfile(largest.path):
        return None
    try:
        with open(largest.path, "rb") as file:
            sample = file.read(SAMPLE_BYTES)
    except OSError:
        # Whoever reads the source for its rows says what is wrong with it.
        return None
    lines = sample.count(b"\n") or sample.count(b"\r")
    return task.source_bytes * lines / len(sample) if sample else None
