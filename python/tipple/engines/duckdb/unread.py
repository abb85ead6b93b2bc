"""Values that only DuckDB reads, by its casts: MAP, BIT, STRUCT, UNION and others.

A cast that fails ends its statement and names no record. So where records may be rejected, the casts are tried beside
the other looks for bad records (`violations.py`): a value that cannot be read is a violation like any other.
"""

from __future__ import annotations

from collections.abc import Iterator

from tipple.engines.base import LoadTask, TableColumn
from tipple.engines.duckdb.constraints import Constraint
from tipple.plan.url import quote_identifier

OF_VALUES = ("value", "partition")
"""The kinds of constraints that look at a value as it is read."""

_CLOCK = r"[0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]{0,%s})?)?"
_ZONE = r"(\s*(Z|UTC|[+-][0-9]{2}(:[0-5][0-9](:[0-5][0-9])?|[0-5][0-9])?))?"
_GRAMMARS = {
    "TIMESTAMP_NS": rf"\s*([0-9]{{4}}[-/][0-9]{{1,2}}[-/][0-9]{{1,2}}([T\s]+{_CLOCK % 9}{_ZONE})?|-?infinity|epoch)\s*",
    "TIME WITH TIME ZONE": rf"\s*{_CLOCK % 6}{_ZONE}\s*",
    "TIME_NS": rf"\s*{_CLOCK % 9}{_ZONE}\s*",
}
"""Of types whose casts read the beginning of a text and leave out the rest, such as `PM`: what they read whole."""
_TWELVE_HOURS = [f"'%Y-%m-%d %I:%M{seconds} %p'" for seconds in ("", ":%S", ":%S.%n")]


def cast(column: TableColumn, *, tried: bool = False) -> str:
    """The value of a loaded column for a SELECT; with `tried`, NULL for it or for a part of it that cannot be read."""
    quoted = quote_identifier(column.name)
    if column.codec_type != "opaque":
        return quoted
    casts = "TRY_CAST" if tried else "CAST"
    value = f"{casts}({quoted} AS {column.type_text})"
    if column.type_text == "JSON":
        # A list of JSON is cast like one of texts, with NULL in capitals.
        return f"CASE WHEN starts_with(typeof({quoted}), 'JSON[') THEN to_json({quoted}) ELSE {value} END"
    grammar = _GRAMMARS.get(column.type_text)
    if grammar is None:
        return value
    # What the type is from which it is cast is known when the statement is planned, and the other branch left out.
    refused = f"{casts}('not written as a value: ' || {quoted}::VARCHAR AS {column.type_text})"
    is_read = (
        f"typeof({quoted}) <> 'VARCHAR' OR {quoted} IS NULL OR regexp_full_match({quoted}::VARCHAR, '{grammar}', 'i')"
    )
    if column.type_text == "TIMESTAMP_NS":
        refused = f"coalesce(try_strptime(trim({quoted}::VARCHAR), [{', '.join(_TWELVE_HOURS)}]), {refused})"
    return f"CASE WHEN {is_read} THEN {value} ELSE {refused} END"


def constraints(task: LoadTask) -> list[Constraint]:
    """That DuckDB can read the values of its own types, a constraint for each column."""
    columns = [column for column in task.columns if column.codec_type == "opaque"]
    return [
        Constraint(kind="value", name=column.type_text, columns=(column.name,), terms=(f"tipple_unread_{number}",))
        for number, column in enumerate(columns)
    ]


def texts(task: LoadTask, found: list[Constraint]) -> Iterator[tuple[str, str]]:
    """The columns that hold the values which cannot be read, or have no partition, and what they are.

    Both are for a SELECT from what is loaded.
    """
    by_name = {column.name: column for column in task.columns}
    for constraint in found:
        if constraint.kind not in OF_VALUES:
            continue
        (name,), (term,) = constraint.columns or (), constraint.terms
        fails = f"NOT ({constraint.condition})"
        if constraint.kind == "value":
            # TRY_CAST makes NULLs of parts that cannot be read. The same CAST must not stand elsewhere in the
            # statement: DuckDB would take it out of TRY, to do it once.
            fails = f"TRY({cast(by_name[name])} IS NULL) IS NULL"
        yield term, f"CASE WHEN {fails} THEN CAST({quote_identifier(name)} AS VARCHAR) END"
