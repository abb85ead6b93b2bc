"""Which partitions `--partition-by` asks for: fixed ones from its boundaries, others as the keys need them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import psycopg

from tipple import _core
from tipple.engines import core
from tipple.engines.base import Cut, LoadTask
from tipple.engines.postgresql.partitioned import partition_bounds
from tipple.engines.postgresql.partitioned.partition_bounds import DEFAULT, Partitioning
from tipple.errors import BadRecord, UsageError
from tipple.plan.partitioning import CALENDAR_UNITS, PartitionBy
from tipple.plan.url import TableName, quote_identifier, quote_literal

MAX_PARTITIONS = 4000
"""More than this is most likely an `every` that is too small: each partition is a table with indexes of its own."""
FILLED_GAP = 1000
"""Between the least and the greatest key of a sample, so many partitions are made without asking for keys of each."""
DENSE = 4
"""As many times those that a sample shows are made, too: more rows will show most of them, and each time that they do,
the load has to begin again where it was."""

_DIGITS = 150_000
"""More than any `numeric` has: 131,072 before the point and 16,383 behind it."""

_TOLD_BYTES, _LEFT_OUT = 64, "..."
"""Of a key, in the server's error (its `ExecBuildSlotPartitionKeyDescription`)."""

_LACKS_PARTITION = "add a partition for it"
"""What the core advises for a record that no partition takes."""

_INTEGER_LIMITS = {"smallint": 1 << 15, "integer": 1 << 31, "bigint": 1 << 63}
_STEPS = {"quarter": "3 months"}


def key_sql(asked: PartitionBy) -> str:
    """What stands after PARTITION BY."""
    return f"{asked.method.upper()} ({', '.join(map(quote_identifier, asked.columns))})"


def require_same_key(table: TableName, asked: PartitionBy, real: Partitioning) -> None:
    """Refuses to divide a table otherwise than it is.

    Raises:
        UsageError: --partition-by names another method or key.
    """
    if asked.method != real.method or list(asked.columns) != [part.name for part in real.key]:
        raise UsageError(
            f"{table} is partitioned by {real.key_definition}, and not by {key_sql(asked)}",
            hint="leave --partition-by out, or give it the table's own key",
        )


def fixed_bounds(asked: PartitionBy) -> list[str]:
    """The bounds of the partitions that do not depend on the rows."""
    if asked.method == "hash":
        return [f"FOR VALUES WITH (MODULUS {asked.count}, REMAINDER {n})" for n in range(asked.count)]
    if asked.method == "list":
        groups = (
            ", ".join("NULL" if value is None else quote_literal(value) for value in group) for group in asked.values
        )
        return [f"FOR VALUES IN ({group})" for group in groups]
    if asked.grows:
        return []
    width = len(asked.columns)
    edges = [", ".join(map(quote_literal, boundary)) for boundary in asked.boundaries]
    lows = [", ".join(["MINVALUE"] * width), *edges]
    highs = [*edges, ", ".join(["MAXVALUE"] * width)]
    return [f"FOR VALUES FROM ({low}) TO ({high})" for low, high in zip(lows, highs, strict=True)]


def sampled_keys(task: LoadTask, asked: PartitionBy, cut: Cut) -> list[str]:
    """Keys from the beginning and the end of every slice, of columnar sources all that need a partition; none of
    text that can be read only once.

    Raises:
        TippleError: a source cannot be read or has changed.
    """
    if task.columnar is not None:
        return _columnar_keys(task, task.columnar, asked)
    if not cut.slices:
        return []
    names = [column.name for column in task.columns]
    plan = {
        "sources": [core.source_plan(source) for source in task.sources],
        "dialect": {**task.dialect, "line_end": cut.line_end},
        "columns": len(names),
        "column": names.index(asked.columns[0]),
        "slices": cut.slices,
        "window_bytes": task.window_bytes,
    }
    try:
        found: list[str] = json.loads(_core.sample_keys(json.dumps(plan)))
    except _core.CoreError as error:
        raise core.core_error(error) from None
    return found


def _columnar_keys(task: LoadTask, columnar: dict[str, Any], asked: PartitionBy) -> list[str]:
    place = [column.name for column in task.columns].index(asked.columns[0])
    plan = {
        "sources": [core.source_plan(source) for source in task.sources],
        "format": columnar["format"],
        "field": columnar["fields"][place],
        "column": core.column_plan(task.columns[place]),
        "every": _width(asked),
    }
    try:
        found: list[str] = json.loads(_core.column_keys(json.dumps(plan), task.stream_again and task.stream_again()))
    except _core.CoreError as error:
        raise core.core_error(error) from None
    return found


def _width(asked: PartitionBy) -> tuple[int, int] | None:
    """The width as a number: its digits, and how many are behind the point; None where the core cannot count by it."""
    if asked.every is None or asked.every in CALENDAR_UNITS:
        return None
    whole, _, fraction = f"{Decimal(asked.every):f}".partition(".")
    digits = int(whole + fraction)
    return (digits, len(fraction)) if digits < 1 << 63 else None


def key_type(task: LoadTask, asked: PartitionBy) -> str:
    """The type of the first key column; all key columns must be loaded.

    Raises:
        UsageError: --partition-by names a column that is not loaded.
    """
    types = {column.name: column.type_text for column in task.columns}
    missing = [name for name in asked.columns if name not in types]
    if missing:
        raise UsageError(
            f"--partition-by names {missing[0]}, which is none of the columns to load",
            hint=f"columns: {', '.join(types)}",
        )
    type_text = types[asked.columns[0]].partition("(")[0]
    if asked.every in CALENDAR_UNITS:
        if type_text.split()[0] not in ("date", "timestamp"):
            raise UsageError(
                f"--partition-by divides {asked.columns[0]} by {asked.every}, and it is {types[asked.columns[0]]}",
                hint="every=year and the like are for dates and timestamps; give a number or bounds=[…]",
            )
    elif asked.every is not None and type_text not in (*_INTEGER_LIMITS, "numeric"):
        raise UsageError(
            f"--partition-by divides {asked.columns[0]} by numbers, and it is {types[asked.columns[0]]}",
            hint="give every=year or the like for dates, bounds=[…] for other types",
        )
    elif asked.every is not None:
        _require_boundaries(asked, types[asked.columns[0]])
    return types[asked.columns[0]]


def _require_boundaries(asked: PartitionBy, type_text: str) -> None:
    """Refuses a width whose multiples are not all values of the column's type."""
    typmod = _typmod(type_text)
    if typmod is None and type_text not in _INTEGER_LIMITS:
        return
    with localcontext(prec=_DIGITS):
        unit = Decimal(1).scaleb(-typmod[1] if typmod is not None else 0)
        if Decimal(asked.every or 1) % unit == 0:
            return
    raise UsageError(
        f"--partition-by divides {asked.columns[0]} by {asked.every}, and the boundaries would be no {type_text}",
        hint=f"give a multiple of {unit:f}",
    )


def _typmod(type_text: str) -> tuple[int, int] | None:
    """Precision and scale of a `numeric` that has them."""
    found = re.fullmatch(r"numeric\((\d+),(-?\d+)\)", type_text)
    return (int(found[1]), int(found[2])) if found is not None else None


class _Ends(NamedTuple):
    """Where the values of a number type end: what is a bound from there on."""

    limit: Decimal
    least: str
    greatest: str


def _ends(type_text: str) -> _Ends | None:
    if type_text in _INTEGER_LIMITS:
        return _Ends(Decimal(_INTEGER_LIMITS[type_text]), "MINVALUE", "MAXVALUE")
    typmod = _typmod(type_text)
    # Above all others there is NaN, which belongs to no part.
    return None if typmod is None else _Ends(Decimal(1).scaleb(typmod[0] - typmod[1]), "MINVALUE", "'NaN'")


def bounds_for(
    connection: psycopg.Connection[Any],
    asked: PartitionBy,
    type_text: str,
    keys: Iterable[str],
    *,
    fill: bool,
    there: int = 0,
) -> list[str]:
    """Bounds of partitions that take these keys; texts that are no plain values are passed over.

    Args:
        connection: to the server, which knows the calendar.
        asked: a range with `every`.
        type_text: the key's type.
        keys: texts of the key.
        fill: whether partitions between them are wanted too.
        there: so many have been made for this load already.

    Raises:
        UsageError: they would be too many.
    """
    distinct = sorted(set(keys))
    if asked.every in CALENDAR_UNITS:
        bounds = _calendar_bounds(connection, asked, type_text, distinct, fill=fill)
    else:
        bounds = _number_bounds(connection, asked, type_text, distinct, fill=fill)
    _require_few(asked, there + len(bounds))
    return bounds


def _number_bounds(
    connection: psycopg.Connection[Any], asked: PartitionBy, type_text: str, keys: Sequence[str], *, fill: bool
) -> list[str]:
    stored = _stored(connection, type_text, keys)
    with localcontext(prec=_DIGITS):
        every = Decimal(asked.every or 1)
        if every == int(every):
            # An integer's bound has no decimal point.
            every = Decimal(int(every))
        values = [value for value in map(Decimal, stored) if value.is_finite()]
        numbers = {int(value // every) - (value % every < 0) for value in values}
        if fill and numbers and _is_filled(max(numbers) - min(numbers) + 1, len(numbers)):
            numbers = set(range(min(numbers), max(numbers) + 1))
        ends = _ends(type_text)
        _require_few(asked, len(numbers))  # before there are texts of them
        return [
            f"FOR VALUES FROM ({_low(n * every, ends)}) TO ({_high((n + 1) * every, ends)})" for n in sorted(numbers)
        ]


# Where a gap begins, another partition ends, or the one that could not be made would begin.
_GAPS = """
WITH there (low, high) AS (VALUES {there}), asked (n, low, high) AS (VALUES {asked}),
     place (n, key) AS (SELECT n, low FROM asked UNION SELECT n, there.high FROM asked, there
                        WHERE there.high > asked.low AND (asked.high IS NULL OR there.high < asked.high))
SELECT DISTINCT n FROM place WHERE NOT EXISTS (
    SELECT FROM there WHERE (low IS NULL OR key >= low) AND (high IS NULL OR key < high)) ORDER BY n
"""


def gaps(
    connection: psycopg.Connection[Any], task: LoadTask, staging: TableName, refused: dict[str, TableName | None]
) -> dict[str, str]:
    """Bounds of partitions that could not be made, between which there are keys that no partition takes: each with the
    partition that is in the way.

    Args:
        connection: to the server, which knows the order of keys.
        task: the load; its table grows.
        staging: the hidden table, which has all partitions that there are to be.
        refused: the bounds of those that could not be made, as [bounds_for][] gives them, each with the hidden
            partition that is in the way.
    """
    hidden = partition_bounds.read(connection, staging) if refused else None
    if hidden is None or task.partition_by is None:
        return {}
    there = [partition.bound for partition in hidden.partitions if partition.parent == hidden.oid]
    if DEFAULT in there:
        return {}
    type_text = key_type(task, task.partition_by)

    def ends(bound: str) -> str:
        of_type = (
            f"{'NULL' if end.endswith('VALUE') else end}::{type_text}" for end in partition_bounds.literals(bound)
        )
        return ", ".join(of_type)

    bounds = list(refused)
    query = _GAPS.format(
        there=", ".join(f"({ends(bound)})" for bound in there),
        asked=", ".join(f"({n}, {ends(bound)})" for n, bound in enumerate(bounds)),
    )
    found = connection.execute(query.encode()).fetchall()
    return {bounds[n]: shown(connection, task.table, refused[bounds[n]]) for (n,) in found}


def shown(connection: psycopg.Connection[Any], table: TableName, hidden: TableName | None) -> str:
    """The partition of a table that a hidden one stands for, and its bound; of one that is new the bound alone."""
    if hidden is None:
        return "none"
    found = connection.execute(
        "SELECT pg_get_expr(h.relpartbound, h.oid), (SELECT min(c.oid::regclass::text) FROM pg_inherits "
        "JOIN pg_class c ON c.oid = inhrelid WHERE inhparent = to_regclass(%s) "
        "AND pg_get_expr(c.relpartbound, c.oid) = pg_get_expr(h.relpartbound, h.oid)) "
        "FROM pg_class h WHERE h.oid = to_regclass(%s)",
        (table.sql, hidden.sql),
    ).fetchone()
    bound, name = found if found is not None else ("", None)
    return f"{name or 'a partition'} {str(bound).removeprefix('FOR VALUES ')}"


def of_left_out(left_out: dict[str, str]) -> str:
    """What to say of partitions that could not be made for the keys of some records."""
    bound, other = next(iter(left_out.items()))
    more = f" (and {len(left_out) - 1:,} more)" if len(left_out) > 1 else ""
    return (
        f"--partition-by made no partition {bound.removeprefix('FOR VALUES ')}, which would overlap {other}{more}: "
        "create one for the rest beforehand"
    )


def explained(error: BadRecord, left_out: dict[str, str]) -> BadRecord:
    """The complaint of a record whose key no partition takes says so too."""
    if not left_out or error.sqlstate != "23514" or _LACKS_PARTITION not in error.remedy:
        return error
    return error.with_remedy(f"{of_left_out(left_out)}, or mend the value")


def completed(asked: PartitionBy, key: str) -> list[str]:
    """Numbers of which one is in the partition of a key that the server tells: it leaves out what is behind 64 bytes.

    There are none where even the digits before the point are not all told.
    """
    told = key.removesuffix(_LEFT_OUT)
    if told == key or len(told) != _TOLD_BYTES:
        return [key]
    digits_told = len(told.partition(".")[2])
    # What is left out is less than a unit of the last digit, and so less than what is between any two bounds.
    if digits_told == 0 or asked.every is None or digits_told < len(asked.every.partition(".")[2]):
        return []
    if not told.startswith("-"):
        return [told]
    # Below zero it may be just beyond the bound that the rest looks like.
    with localcontext(prec=2 * _TOLD_BYTES):
        return [told, f"{Decimal(told) - Decimal(1).scaleb(-digits_told):f}"]


def _is_filled(between: int, shown: int) -> bool:
    """Whether all partitions from the least to the greatest key of a sample are made, or those it shows."""
    return between <= FILLED_GAP or between <= min(DENSE * shown, MAX_PARTITIONS)


def _low(value: Decimal, ends: _Ends | None) -> str:
    return ends.least if ends is not None and value <= -ends.limit else f"'{value:f}'"


def _high(value: Decimal, ends: _Ends | None) -> str:
    return ends.greatest if ends is not None and value >= ends.limit else f"'{value:f}'"


def _calendar_bounds(
    connection: psycopg.Connection[Any], asked: PartitionBy, type_text: str, keys: Sequence[str], *, fill: bool
) -> list[str]:
    zoned = "with time zone" in type_text
    base = "timestamp with time zone" if zoned else type_text.partition("(")[0]
    unit, step = asked.every, _STEPS.get(asked.every or "", f"1 {asked.every}")
    # Moments are divided by the zone's calendar: where clocks are put forward at midnight, a day begins at one o'clock,
    # and the next at midnight again.
    start = f"date_trunc('{unit}', key::{type_text}::timestamp)"
    if zoned:
        # Where they are put back to midnight, the hour that comes twice belongs to the day before, the first time.
        early = f"key::{type_text} < {start}::{base}"
        start = f"{start} - CASE WHEN {early} THEN interval '{step}' ELSE interval '0' END"
    # A date may be beyond all timestamps, and either end of the part that a timestamp belongs to.
    ends = f"ROW(({start})::{base}, ({start} + interval '{step}')::{base})"
    valid = [key for key in _stored(connection, type_text, keys, also=ends) if "infinity" not in key]
    if not valid:
        return []
    starts = f"SELECT DISTINCT {start} AS start FROM unnest(%(keys)s::text[]) AS key"
    if fill:
        gap = f"SELECT min(start) AS low, max(start) AS high, count(*) AS shown FROM ({starts}) s"
        # Not counted further: between years of five digits there may be millions of hours.
        steps = f"SELECT generate_series(low, high, interval '{step}'), shown FROM ({gap}) g LIMIT {MAX_PARTITIONS + 1}"
        filled = connection.execute(
            f"SELECT count(*), max(shown) FROM ({steps}) s".encode(), {"keys": valid}
        ).fetchone()
        if filled is not None and _is_filled(*filled):
            starts = f"SELECT start FROM ({gap}) g, generate_series(low, high, interval '{step}') AS start"
    rows = connection.execute(
        f"SELECT start::{base}::text, (start + interval '{step}')::{base}::text "
        f"FROM ({starts}) s ORDER BY start".encode(),
        {"keys": valid},
    ).fetchall()
    return [f"FOR VALUES FROM ('{low}') TO ('{high}')" for low, high in rows]


def _stored(
    connection: psycopg.Connection[Any], type_text: str, keys: Sequence[str], *, also: str = "NULL"
) -> list[str]:
    """What the column makes of these texts, as texts; without those that are no values of its type, or for which `also`
    (an expression of `key`) has none."""
    if not keys:
        return []
    try:
        with connection.transaction():
            query = f"SELECT DISTINCT key::{type_text}::text, ({also})::text FROM unnest(%s::text[]) AS key"
            return [text for text, _ in connection.execute(query.encode(), (list(keys),)) if text is not None]
    except psycopg.DataError:
        half = len(keys) // 2
        if half == 0:
            return []
        parts = (keys[:half], keys[half:])
        return [text for part in parts for text in _stored(connection, type_text, part, also=also)]


def _require_few(asked: PartitionBy, count: int) -> None:
    if count > MAX_PARTITIONS:
        raise UsageError(
            f"--partition-by with every={asked.every} would make more than {MAX_PARTITIONS:,} partitions",
            hint="choose a larger every, or give bounds=[…]",
        )
