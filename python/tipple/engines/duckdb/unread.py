"""Values that only DuckDB reads, by its casts: MAP, BIT, STRUCT, UNION and others.

A cast that fails ends its statement and names no record. So where records may be rejected, the casts are tried beside
the other looks for bad records (`violations.py`): a value that cannot be read is a violation like any other.
"""

from __future__ import annotations

from collections.abc import Iterator

from tipple.engines.base import LoadTask
from tipple.engines.duckdb.constraints import Constraint
from tipple.plan.url import quote_identifier


def cast(task: LoadTask, name: str, *, tried: bool = False) -> str:
    """The value of a loaded column for a SELECT; with `tried`, NULL for it or for a part of it that cannot be read."""
    column = next(column for column in task.columns if column.name == name)
    quoted = quote_identifier(name)
    if column.codec_type != "opaque":
        return quoted
    return f"{'TRY_CAST' if tried else 'CAST'}({quoted} AS {column.type_text})"


def constraints(task: LoadTask) -> list[Constraint]:
    """That DuckDB can read the values of its own types, a constraint for each column."""
    columns = [column for column in task.columns if column.codec_type == "opaque"]
    return [
        Constraint(kind="value", name=column.type_text, columns=(column.name,), terms=(f"tipple_unread_{number}",))
        for number, column in enumerate(columns)
    ]


def texts(task: LoadTask, found: list[Constraint]) -> Iterator[tuple[str, str]]:
    """The columns that hold the values which cannot be read, and what they are, for a SELECT from what is loaded."""
    for constraint in found:
        if constraint.kind == "value":
            (name,), (term,) = constraint.columns or (), constraint.terms
            # TRY_CAST makes NULLs of parts that cannot be read. The same CAST must not stand elsewhere in the
            # statement: DuckDB would take it out of TRY, to do it once.
            fails = f"TRY({cast(task, name)} IS NULL) IS NULL"
            yield term, f"CASE WHEN {fails} THEN CAST({quote_identifier(name)} AS VARCHAR) END"
