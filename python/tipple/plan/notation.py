"""How dates and numbers are written that only a session's settings, or nobody, would read: words in, the codec's
`Notation` of each column out.

`DateStyle` is PostgreSQL's word for the order of day, month and year; `decimal_separator` and `thousands` are those of
DuckDB's `read_csv`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn

from tipple.errors import UsageError

__all__ = [
    "DATES",
    "DATE_STYLES",
    "MONEY",
    "NUMBERS",
    "TWO_DIGITS",
    "check_separators",
    "date_style_of",
    "kind_name",
    "notations",
    "number_notation",
    "refuse_numbers",
]

TWO_DIGITS = "has two digits, and the order of its numbers was guessed"
"""What the core says of a year, with the remedy for it."""
DATE_STYLES = ("DMY", "MDY", "YMD")
_DECIMAL_SEPARATORS = ".,"
_THOUSANDS = ".,' _"
NUMBERS = frozenset({"int2", "int4", "int8", "float4", "float8", "decimal", "numeric", "integer"})
DATES = frozenset({"date", "timestamp", "timestamptz"})
"""The codec's names of types."""
MONEY = "money"
"""PostgreSQL's name of the type that only the server reads, and whose values are numbers."""


def kind_name(codec_type: Any) -> str:
    """The codec's name of a type, without its modifiers."""
    return codec_type if isinstance(codec_type, str) else next(iter(codec_type))


def date_style_of(text: str) -> str:
    """The order that a text names, as `DateStyle` has it; what stands before a comma is about output.

    Raises:
        UsageError: there is no such order.
    """
    order = text.rpartition(",")[2].strip().upper()
    if order not in DATE_STYLES:
        raise UsageError(
            f"--date-style must be DMY, MDY or YMD, and not {text!r}",
            hint="DMY reads 31/12/2024 (and 31.12.24), MDY 12/31/2024; dates that begin with all digits of the year "
            "need none",
        )
    return order


def check_separators(decimal_separator: str, thousands: str | None) -> None:
    """Checks what stands before the fraction of a number, and between its groups of three digits.

    Raises:
        UsageError: they are no such characters, or the same one.
    """
    if len(decimal_separator) != 1 or decimal_separator not in _DECIMAL_SEPARATORS:
        raise UsageError(
            f"--decimal-separator must be a point or a comma, and not {decimal_separator!r}",
            hint="leave it out, or ','",
        )
    if thousands is not None and (len(thousands) != 1 or thousands not in _THOUSANDS):
        raise UsageError(
            f"--thousands must be one of the characters {_THOUSANDS}, and not {thousands!r}",
            hint="for example --thousands ',' reads 1,234.50",
        )
    if thousands == decimal_separator:
        raise UsageError(
            f"--thousands and --decimal-separator must be different, and both are {thousands!r}",
            hint="1.234,50 is --thousands . --decimal-separator , and 1,234.50 is --thousands , --decimal-separator .",
        )


def number_notation(decimal_separator: str, thousands: str | None) -> Any:
    """The codec's `Notation` of numbers with these separators."""
    return {
        "number": {"decimal": ord(decimal_separator), "thousands": None if thousands is None else ord(thousands)},
    }


def notations(
    columns: Sequence[tuple[Any, str]], *, date_style: str | None, decimal_separator: str | None, thousands: str | None
) -> list[Any]:
    """The codec's `Notation` of columns of these types (the codec's and the target's); none where all are plain."""
    dates = "plain" if date_style is None else {"date": date_style.lower()}
    plain_numbers = decimal_separator in (None, ".") and thousands is None
    numbers = "plain" if plain_numbers else number_notation(decimal_separator or ".", thousands)
    kinds = [_as_own(type_text) if kind_name(kind) == "opaque" else kind_name(kind) for kind, type_text in columns]
    found = [dates if kind in DATES else numbers if kind in NUMBERS else "plain" for kind in kinds]
    return found if any(notation != "plain" for notation in found) else []


def _as_own(type_text: str) -> str:
    """The codec's type that is written as one is that only the target reads; the rest is not of these kinds."""
    if re.fullmatch(r"(timestamp|datetime).*[^]]", type_text, re.IGNORECASE | re.DOTALL):
        return "timestamp"
    return "numeric" if type_text == MONEY else "opaque"


def refuse_numbers(column: str, type_text: str, source: str, misreading: tuple[str, str]) -> NoReturn:
    """Refuses numbers of whose text the target would make others.

    Args:
        column: the column's name, and `type_text` its type.
        source: what would be loaded into it.
        misreading: why, and what to do.

    Raises:
        UsageError: always.
    """
    why, remedy = misreading
    raise UsageError(f"the column {column} of type {type_text} cannot be loaded from {source}: {why}", hint=remedy)
