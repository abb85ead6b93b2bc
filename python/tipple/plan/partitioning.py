"""`--partition-by`: how a table is to be divided, in words that are the same for every engine. Pure text.

    range(l_orderkey, every=250000000)     partitions of that many keys each, as the rows need them
    range(l_shipdate, every=year)          or day, week, month, quarter
    range(l_orderkey, bounds=[100, 200])   two boundaries make three partitions: below 100, 100 to 199, from 200 on
    range(a, b, bounds=[(1, 'x'), (2, 'a')])
    list(l_returnflag, values=[A, [N, R]]) a partition for A, and one for N and R
    list(l_returnflag)                     a partition for each value; of files only (--structure parquet)
    hash(l_orderkey, 8)

A boundary belongs to the partition above it. Values are written as they are or in single quotes: those in quotes the
column's type puts in order, and as texts 10 is below 9.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Literal, NamedTuple

import msgspec

from tipple.errors import UsageError
from tipple.plan.decodable import decodable
from tipple.plan.url import LONGEST_NAME_BYTES, cut_name, fold_identifier

__all__ = ["CALENDAR_UNITS", "PartitionBy", "parse_partition_by", "partition_name"]

CALENDAR_UNITS = ("day", "week", "month", "quarter", "year")
EXAMPLE = "for example 'range(l_shipdate, every=year)', 'list(region, values=[EU, US])' or 'hash(id, 8)'"
LARGEST_HASH_COUNT = 10_000
LARGEST_EXPONENT = 1000
"""Of a width, either way: it is written out, and no key in use is as large or as small."""


@decodable
class PartitionBy(msgspec.Struct, frozen=True, kw_only=True):
    """How a table is to be divided."""

    method: Literal["range", "list", "hash"]
    columns: tuple[str, ...]
    every: str | None = None
    """Of `range`: a number, or one of CALENDAR_UNITS; partitions are made as the rows need them."""
    boundaries: tuple[tuple[str, ...], ...] = ()
    """Of `range`: the keys at which a new partition begins, as they were written, without quotes."""
    values: tuple[tuple[str | None, ...], ...] = ()
    """Of `list`: the keys of each partition; None is NULL. Empty: each value has one of its own."""
    count: int = 0
    """Of `hash`: how many partitions."""

    @property
    def grows(self) -> bool:
        """Whether the rows decide which partitions there are."""
        return self.every is not None


_TOKEN = re.compile(
    r"\s*(?:(?P<string>'(?:[^']|'')*')|(?P<name>\"(?:[^\"]|\"\")*\")"
    r"|(?P<sign>[(),=\[\]])|(?P<word>[^\s(),=\[\]'\"]+))"
)


class _Value(NamedTuple):
    """A value without its quotes."""

    text: str | None
    """None for NULL."""
    quoted: bool


class _Reader:
    """The tokens of the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        place = 0
        stripped = text.rstrip()
        while place < len(stripped):
            match = _TOKEN.match(stripped, place)
            if match is None:
                raise self.error(f"cannot be read from {stripped[place:]!r} on")
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind]))
            place = match.end()

    def error(self, reason: str) -> UsageError:
        return UsageError(f"--partition-by {self.text!r} {reason}", hint=EXAMPLE)

    @property
    def next(self) -> str:
        return self.tokens[0][1] if self.tokens else ""

    def take(self, sign: str) -> None:
        if not self.tokens or self.tokens[0] != ("sign", sign):
            raise self.error(f"lacks {sign!r} before {self.next!r}" if self.tokens else f"lacks {sign!r} at its end")
        self.tokens.pop(0)

    def word(self, what: str) -> tuple[str, str]:
        if not self.tokens or self.tokens[0][0] == "sign":
            raise self.error(f"lacks {what}")
        return self.tokens.pop(0)

    def value(self) -> _Value:
        kind, text = self.word("a value")
        if kind == "string":
            return _Value(text[1:-1].replace("''", "'"), quoted=True)
        if kind == "name":
            raise self.error(f"has {text} in double quotes: a value stands in single quotes")
        return _Value(None if text.lower() == "null" else text, quoted=False)

    def column(self) -> str:
        kind, text = self.word("a column")
        return text[1:-1].replace('""', '"') if kind == "name" else fold_identifier(text)

    def values(self, opening: str, closing: str) -> tuple[_Value, ...]:
        self.take(opening)
        found = [self.value()]
        while self.next == ",":
            self.take(",")
            found.append(self.value())
        self.take(closing)
        return tuple(found)


def parse_partition_by(text: str) -> PartitionBy:
    """What `--partition-by` says.

    Raises:
        UsageError: it cannot be read, or its boundaries are not in order, or a value belongs to two partitions.
    """
    reader = _Reader(text)
    _, method = reader.word("range, list or hash")
    if method.lower() not in ("range", "list", "hash"):
        raise reader.error(f"begins with {method!r}, and not with range, list or hash")
    reader.take("(")
    columns = [reader.column()]
    option = ""
    while not option:
        if reader.next == ")" and method.lower() == "list" and len(columns) == 1:
            option = "each value"
            break
        if reader.next != ",":
            raise reader.error("does not say which partitions there are")
        reader.take(",")
        following = reader.tokens[1] if len(reader.tokens) > 1 else ("", "")
        if following == ("sign", "=") or (method.lower() == "hash" and reader.next.isdigit()):
            option = reader.next if following == ("sign", "=") else "count"
        else:
            columns.append(reader.column())
    if len(set(columns)) < len(columns):
        raise reader.error("names a column twice")
    match method.lower(), option.lower():
        case "range", "every":
            found = _every(reader, columns)
        case "range", "bounds":
            found = _bounds(reader, columns)
        case "list", "each value":
            found = PartitionBy(method="list", columns=tuple(columns))
        case "list", "values":
            found = _list(reader, columns)
        case "hash", "count":
            found = _hash(reader, columns, named=following == ("sign", "="))
        case _:
            wanted = {"range": "every= or bounds=", "list": "values=", "hash": "a number"}[method.lower()]
            raise reader.error(f"has {option}=, where {wanted} belongs")
    reader.take(")")
    if reader.tokens:
        raise reader.error(f"goes on with {reader.next!r} behind its end")
    return found


def _option(reader: _Reader) -> None:
    reader.word("an option")
    reader.take("=")


def _every(reader: _Reader, columns: list[str]) -> PartitionBy:
    _option(reader)
    if len(columns) > 1:
        raise reader.error("has every= with several columns: only bounds= can divide by several")
    every = (reader.value().text or "").lower()
    if every not in CALENDAR_UNITS:
        try:
            width = Decimal(every.replace("_", ""))
        except InvalidOperation:
            raise reader.error(f"has every={every}, and not a number or one of {', '.join(CALENDAR_UNITS)}") from None
        if not width.is_finite() or width <= 0:
            raise reader.error(f"has every={every}, which is not above 0")
        if abs(width.adjusted()) > LARGEST_EXPONENT:
            raise reader.error(f"has every={every}, which no key is as large or as small as")
        every = format(width, "f")
    return PartitionBy(method="range", columns=tuple(columns), every=every)


def _bounds(reader: _Reader, columns: list[str]) -> PartitionBy:
    _option(reader)
    reader.take("[")
    boundaries: list[tuple[str, ...]] = []
    below: tuple[_Value, ...] = ()
    while True:
        cells = reader.values("(", ")") if reader.next == "(" else (reader.value(),)
        if len(cells) != len(columns):
            raise reader.error(f"has a boundary of {len(cells)} values for {len(columns)} columns")
        boundary = tuple(cell.text for cell in cells if cell.text is not None)
        if len(boundary) < len(cells):
            raise reader.error("has NULL as a boundary: NULL belongs to no range")
        if below and _is_ordered(below, cells) is False:
            raise reader.error(
                f"has the boundary {', '.join(boundary)} behind {', '.join(boundaries[-1])}: partitions would overlap"
            )
        if boundary in boundaries:
            raise reader.error(f"has the boundary {', '.join(boundary)} twice")
        boundaries.append(boundary)
        below = cells
        if reader.next != ",":
            break
        reader.take(",")
    reader.take("]")
    return PartitionBy(method="range", columns=tuple(columns), boundaries=tuple(boundaries))


def _is_ordered(one: tuple[_Value, ...], other: tuple[_Value, ...]) -> bool | None:
    """Whether boundaries rise, as far as that can be told without their types: plain numbers can be compared."""
    if any(cell.quoted for cell in (*one, *other)):
        # They may be texts, of which nobody knows the order but the server.
        return None
    try:
        return [Decimal(cell.text or "") for cell in one] < [Decimal(cell.text or "") for cell in other]
    except InvalidOperation:
        return None


def _list(reader: _Reader, columns: list[str]) -> PartitionBy:
    _option(reader)
    if len(columns) > 1:
        raise reader.error("divides by values of several columns: a list has one")
    reader.take("[")
    groups: list[tuple[str | None, ...]] = []
    while True:
        cells = reader.values("[", "]") if reader.next == "[" else (reader.value(),)
        group = tuple(cell.text for cell in cells)
        for value in group:
            if group.count(value) > 1 or any(value in other for other in groups):
                shown = "NULL" if value is None else value
                raise reader.error(f"has the value {shown} twice: a value belongs to one partition")
        groups.append(group)
        if reader.next != ",":
            break
        reader.take(",")
    reader.take("]")
    return PartitionBy(method="list", columns=tuple(columns), values=tuple(groups))


def _hash(reader: _Reader, columns: list[str], *, named: bool) -> PartitionBy:
    if named:
        _option(reader)
    count = reader.value().text or ""
    # Other digits than these are none to a server, and some are none to Python either.
    if not re.fullmatch("[0-9]{1,5}", count) or not 1 <= int(count) <= LARGEST_HASH_COUNT:
        raise reader.error(f"has {count} partitions, and not 1 to {LARGEST_HASH_COUNT}")
    return PartitionBy(method="hash", columns=tuple(columns), count=int(count))


LONGEST_ENDING_BYTES = 40
INSTEAD_OF_SCOPE = (
    "delete the rows that are to be replaced, and load with --mode append (those of Parquet files cannot be deleted); "
    "without --replace-scope, --mode replace takes all rows of the table away"
)
"""The remedy where partitions cannot be replaced by themselves."""


def partition_name(table: str, bound: str, taken: set[str]) -> str:
    """A name for a new partition of `table` that says where it begins: `lineitem_1992_01_01`, `t_min`, `t_default`.

    Args:
        table: the partitioned table's name.
        bound: its bound as `ALTER TABLE ... ATTACH PARTITION` takes it.
        taken: names that are not free.
    """
    text = bound.removeprefix("FOR VALUES ")
    if text.startswith("FROM"):
        text = text.removeprefix("FROM").partition(" TO ")[0].replace("MINVALUE", "min")
    elif text.startswith("WITH"):
        text = "h" + text.rpartition("remainder")[2]
    text = re.sub(r"( 00:00:00)?(\+00)?'", "", text.removeprefix("IN"))
    ending = re.sub(r"[^0-9a-z]+", "_", text.replace("-", "_" if text.count("-") > 1 else "m").lower()).strip("_")
    ending = "_" + (ending or "p")
    return free_name(table, ending, taken, "_")


def free_name(beginning: str, ending: str, taken: set[str], separator: str = "") -> str:
    """A name of these parts that is not `taken`: shortened where it is too long, numbered where it is not free."""
    name, number = _cut(beginning, ending), 1
    while name in taken:
        number += 1
        name = _cut(beginning, ending, f"{separator}{number}")
    return name


def _cut(beginning: str, ending: str, number: str = "") -> str:
    ending = cut_name(ending, LONGEST_ENDING_BYTES - len(number)) + number
    return cut_name(beginning, LONGEST_NAME_BYTES - len(ending.encode())) + ending
