"""How `--partition-by` divides files into directories: Hive's `name=value`, with the value as an SQL expression. Pure.

    list(l_returnflag)                    l_returnflag=A, l_returnflag=N ...
    list(region, values=[EU, US])         the same; any other value ends the load
    range(l_shipdate, every=year)         l_shipdate_year=1994; quarter: 1994-Q1, month: 1994-03
    range(l_shipdate, every=week)         l_shipdate_week=1994-03-07, the Monday; day: l_shipdate_day=1994-03-07
    range(l_orderkey, every=1000000)      l_orderkey_from=3000000, the least key that it may hold
    range(l_orderkey, bounds=[10, 20])    l_orderkey_from=min, =10, =20

NULL goes into `__HIVE_DEFAULT_PARTITION__`, as everywhere in Hive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from urllib.parse import quote

import msgspec

from tipple.errors import UsageError
from tipple.plan.partitioning import CALENDAR_UNITS, PartitionBy
from tipple.plan.path_columns import HIVE_NULL
from tipple.plan.url import quote_identifier, quote_literal

__all__ = ["IN_NO_RANGE", "TOO_LONG", "HiveColumn", "hive_column"]

IN_NO_RANGE = "belongs to no range"
"""What is said of NaN and the infinities."""

TOO_LONG = "is too long to name a directory"
"""What is said of a value; DuckDB would say that it cannot create one."""
_MAX_NAME_BYTES = 255
"""Linux's NAME_MAX, of nearly all file systems."""

_TIME_TYPES = ("DATE", "TIMESTAMP")
_NUMBER_TYPE = re.compile(r"U?(TINY|SMALL|BIG)?INT(EGER)?|DECIMAL\(.*\)|FLOAT|DOUBLE")
_FLOATS = {"FLOAT": 39, "DOUBLE": 309}
"""By type: how many digits the greatest value has."""
_MOST_DIGITS = 38
"""Of a DECIMAL in DuckDB."""
_COUNT_DIGITS = 17
"""Of 2^53, and one to spare."""
_INTEGER_DIGITS = 20
"""Of an UBIGINT."""
_LIST_TYPE = re.compile(r"BOOLEAN|VARCHAR|DATE|UUID|ENUM\(.*\)|U?(TINY|SMALL|BIG)?INT(EGER)?|DECIMAL\(.*\)", re.DOTALL)
"""Types whose values a directory's name gives back unchanged."""

_UNITS = {
    "year": "CAST(year({0}) AS VARCHAR)",
    "quarter": "year({0}) || '-Q' || quarter({0})",
    "month": "strftime({0}, '%Y-%m')",
    "week": "CAST(CAST(date_trunc('week', {0}) AS DATE) AS VARCHAR)",
    "day": "CAST(CAST({0} AS DATE) AS VARCHAR)",
}


class HiveColumn(msgspec.Struct, frozen=True, kw_only=True):
    """What the directories are named by."""

    name: str
    expression: str
    """Its value, of a row of the table."""
    is_own: bool
    """Whether it is a column of the table, which the files have too."""
    condition: str | None = None
    """What a row must fulfil to have a directory at all."""

    @property
    def encoded_name(self) -> str:
        """As directories are named: RFC 3986 with nothing reserved, as DuckDB writes names and values.

        DuckDB decodes the values when it reads them, and not the names.
        """
        return quote(self.name, safe="")


def hive_column(divided: PartitionBy, types: dict[str, str]) -> HiveColumn:
    """What divides the rows.

    Args:
        divided: as `--partition-by` says it.
        types: the table's columns and their types, as DuckDB spells them.

    Raises:
        UsageError: directories cannot divide rows like that.
    """
    if len(divided.columns) > 1 or divided.method == "hash":
        raise UsageError(
            "directories are divided by the values or ranges of one column",
            hint="for example 'range(l_shipdate, every=year)' or 'list(l_returnflag)'",
        )
    (column,) = divided.columns
    if column not in types:
        raise UsageError(f"--partition-by: there is no column {column}", hint=f"the columns are {', '.join(types)}")
    type_text, own = types[column], quote_identifier(column)
    if divided.method == "list":
        _require_short(column, [])
        return _by_value(divided, column, type_text)
    if divided.every in CALENDAR_UNITS:
        _require(type_text.startswith(_TIME_TYPES), column, type_text, f"every={divided.every}")
        name, expression = f"{column}_{divided.every}", _of_finite(column, _UNITS[divided.every].format(own))
    elif divided.every is not None:
        _require(_NUMBER_TYPE.fullmatch(type_text) is not None, column, type_text, f"every={divided.every}")
        name, expression = f"{column}_from", _by_width(divided.every, column, type_text)
    else:
        name, expression = f"{column}_from", _by_bounds(divided, own, type_text)
    if name in types:
        raise UsageError(f"--partition-by: the table has a column {name} already", hint="divide it by another column")
    _require_short(name, [*(bound[0] for bound in divided.boundaries), f"-{divided.every or ''}"])
    may_be_infinite = type_text in _FLOATS or type_text.startswith(_TIME_TYPES)
    condition = f"isfinite({own})" if divided.every is not None and may_be_infinite else None
    return HiveColumn(name=name, expression=expression, is_own=False, condition=condition)


def _by_value(divided: PartitionBy, column: str, type_text: str) -> HiveColumn:
    _require(_LIST_TYPE.fullmatch(type_text) is not None, column, type_text, "list")
    own = quote_identifier(column)
    expression = own
    values = [value for group in divided.values for value in group]
    if values:
        known = ", ".join(_literal(value, type_text) for value in values if value is not None) or "NULL"
        test = f"{own} IN ({known})" + (f" OR {own} IS NULL" if None in values else "")
        refusal = _literal(f"no partition takes {column} = ", "VARCHAR")
        message = f"{refusal} || coalesce({own}::VARCHAR, 'NULL')"
        expression = f"CASE WHEN {test} THEN {own} ELSE error({message}) END"
    if type_text == "VARCHAR" or type_text.startswith("ENUM"):
        text = f"CAST({own} AS VARCHAR)"
        room = _MAX_NAME_BYTES - len(quote(column, safe="")) - len("=")
        # No byte becomes more than three, so that hardly a value has to be encoded to know.
        test = f"strlen({text}) > {room // 3} AND strlen(url_encode({text})) > {room}"
        message = f"{_literal(f'column {column}: the value ', 'VARCHAR')} || left({text}, 40) || '… {TOO_LONG}'"
        expression = f"CASE WHEN {test} THEN error({message}) ELSE {expression} END"
    return HiveColumn(name=column, expression=expression, is_own=True)


def _by_width(every: str, column: str, type_text: str) -> str:
    """The least multiple of a width that its range may hold: exactly, since a double has no 0.05."""
    own = quote_identifier(column)
    text = every.rstrip("0").rstrip(".") if "." in every else every
    scale = len(text.partition(".")[2])
    whole_digits, own_scale = _digits(type_text)
    if Decimal(text) >= Decimal(10) ** whole_digits:
        least = f"CASE WHEN {own} < 0 THEN '-{text}' WHEN {own} >= 0 THEN '0' END"
    else:
        digits = len(text.partition(".")[0]) + scale
        # With more of them DuckDB reckons by doubles, without a word.
        most = digits + _COUNT_DIGITS if type_text in _FLOATS else whole_digits + max(scale, own_scale)
        _require(most <= _MOST_DIGITS, column, type_text, f"every={text}")
        step = f"CAST('{text}' AS DECIMAL({digits}, {scale}))"
        least = (
            _of_float(own, type_text, step, scale) if type_text in _FLOATS else _of_exact(own, type_text, step, scale)
        )
    return _of_finite(column, least) if type_text in _FLOATS else least


def _of_finite(column: str, least: str) -> str:
    """The part that a value belongs to, where only finite ones do."""
    own = quote_identifier(column)
    message = f"{_literal(f'column {column}: the value ', 'VARCHAR')} || {own} || ' {IN_NO_RANGE}'"
    return f"CASE WHEN NOT isfinite({own}) THEN error({message}) ELSE {least} END"


def _digits(type_text: str) -> tuple[int, int]:
    """How many digits the values of a type have at most, before the point and behind it."""
    if type_text in _FLOATS:
        return _FLOATS[type_text], 0
    if type_text.startswith("DECIMAL"):
        digits, scale = map(int, type_text.removeprefix("DECIMAL(").removesuffix(")").split(","))
        return digits - scale, scale
    return _INTEGER_DIGITS, 0


def _of_exact(own: str, type_text: str, step: str, scale: int) -> str:
    if not type_text.startswith("DECIMAL"):
        own = f"CAST({own} AS DECIMAL({_INTEGER_DIGITS}, 0))"
    rest, kind = f"{own} % {step}", f"DECIMAL({_MOST_DIGITS}, {scale})"
    below = f"CASE WHEN {rest} < 0 THEN CAST({step} AS {kind}) ELSE 0 END"
    return _plain(f"CAST({own} - {rest} AS {kind}) - {below}", scale)


def _of_float(own: str, type_text: str, step: str, scale: int) -> str:
    """By the count of widths that division gives, or the next one: as the multiples, read as that type, compare.

    From 2^53 on each value is farther than a width from the next, and the only one of its range.
    """
    count = f"CAST({own} AS DOUBLE) / CAST({step} AS DOUBLE)"

    def least(more: int) -> str:
        return f"(TRY_CAST(floor({count}) AS DECIMAL({_COUNT_DIGITS - 1}, 0)) + {more}) * {step}"

    cases = [f"WHEN {own} >= CAST(CAST({least(more)} AS VARCHAR) AS {type_text}) THEN {least(more)}" for more in (1, 0)]
    counted = _plain(f"CASE {' '.join(cases)} ELSE {least(-1)} END", scale)
    return f"CASE WHEN abs({count}) >= {2**53} THEN CAST({own} AS VARCHAR) ELSE {counted} END"


def _plain(number: str, scale: int) -> str:
    text = f"CAST({number} AS VARCHAR)"
    return f"rtrim(rtrim({text}, '0'), '.')" if scale else text


def _by_bounds(divided: PartitionBy, own: str, type_text: str) -> str:
    bounds = [bound[0] for bound in divided.boundaries]
    cases = [f"WHEN {own} IS NULL THEN NULL"]
    for name, upper in zip(["min", *bounds], bounds, strict=False):
        cases.append(f"WHEN {own} < {_literal(upper, type_text)} THEN {_literal(name, 'VARCHAR')}")
    return f"CASE {' '.join(cases)} ELSE {_literal(bounds[-1], 'VARCHAR')} END"


def _literal(text: str, type_text: str) -> str:
    return f"CAST({quote_literal(text)} AS {type_text})"


def _require(possible: bool, column: str, type_text: str, how: str) -> None:
    if not possible:
        raise UsageError(
            f"--partition-by: {column} is of type {type_text}, which {how} cannot divide",
            hint="divide by a column of another type, or by bounds=[…]",
        )


def _require_short(name: str, values: Iterable[str]) -> None:
    """That directories can be called by these values, and by the least that any may need."""
    for value in (HIVE_NULL, *(str(value) for value in values)):
        if len(quote(f"{name}{value}", safe="")) + len("=") > _MAX_NAME_BYTES:
            raise UsageError(
                f"--partition-by: {name} with the value {value[:40]} {TOO_LONG}",
                hint="divide by a column with a shorter name, or by shorter values",
            )
