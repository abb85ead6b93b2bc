"""What the columns of a sample are: the text that means NULL, and types.

A type is only guessed as far as the sample goes, so it is the widest of its family (`bigint`, exact decimals), and
whatever would lose something as a number stays text: leading zeros, codes such as `12E5`; and so do dates and numbers
in a notation that the sample does not show beyond doubt (`sniff_notations.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from tipple.plan.schema import TableDefinition, plain_table
from tipple.plan.sniff_codes import CODE, is_code
from tipple.plan.sniff_notations import NUMBERS, local_dates
from tipple.plan.sniff_profile import ColumnProfile, Decision, Profile
from tipple.plan.url import TableName

__all__ = [
    "SniffedColumn",
    "column_types",
    "decide_null",
    "define_table",
    "describe_dates",
    "guessed_kind",
    "is_code_among_codes",
    "wider_type",
]

_EXACT = frozenset({"integer", "long_integer", "decimal"})
_DOUBLE_DIGITS = 15
"""Decimal digits that a double holds for certain."""
_DECIMAL_DIGITS = 38
_SMALL_DECIMAL_DIGITS = 18


class SniffedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column as the sample shows it."""

    name: str
    type_text: str
    reason: str


# ---- NULL --------------------------------------------------------------------------------------------------


def is_code_among_codes(word: str, column: ColumnProfile) -> bool:
    """Whether a word for NULL is as long as all texts of a column, as `NA` is among the codes of countries: Namibia."""
    return word.isalpha() and column.kinds.keys() == {"text"} and column.shortest == column.longest == len(word)


def decide_null(
    profile: Profile, format: str, *, tabs: bool = False, keeps_texts: bool = False
) -> tuple[Decision, list[int]]:
    """The text that means NULL, and the columns that say so: those that hold nothing else but values of a type.

    Args:
        profile: of the whole sample.
        format: `csv`, `text` or `tbl`.
        tabs: whether tabs divide fields.
        keeps_texts: whether the user says in which columns it is a text.
    """
    usual = "\\N" if format == "text" else ""
    if format == "text" and any(column.null_words.get("\\N") for column in profile.columns):
        return Decision(option="null", value=usual, confidence=0.98, reason="\\N is there"), []
    columns_by_word: dict[str, list[int]] = {}
    needs_empty: list[int] = []
    for index, column in enumerate(profile.columns):
        if not _type_of_kinds(column, unbounded_numeric=True):
            continue
        if column.empty:
            needs_empty.append(index)
        if len(column.null_words) == 1 and not column.empty:
            columns_by_word.setdefault(next(iter(column.null_words)), []).append(index)
    if format == "text" and needs_empty:
        columns_by_word[""] = needs_empty
        needs_empty = []
    among_tabs = tabs and any(column.null_words.get("\\N") for column in profile.columns)
    if among_tabs and columns_by_word.keys() <= {"\\N"} and not needs_empty:
        # Who divides fields by tabs knows COPY's text format.
        return Decision(option="null", value="\\N", confidence=0.9, reason="\\N is there, among tabs"), []
    if not columns_by_word:
        confidence = 0.95 if needs_empty else 0.8
        reason = "empty fields stand among values of a type" if needs_empty else "no other text stands for NULL"
        return Decision(option="null", value=usual, confidence=confidence, reason=reason), []
    words = sorted(columns_by_word, key=lambda word: (-len(columns_by_word[word]), word))
    if needs_empty:
        reason = f"empty fields stand among values of a type; {words[0]!r} does so in other columns, which stay text"
        return Decision(option="null", value=usual, confidence=0.6, reason=reason, alternatives=tuple(words)), []
    word = words[0]
    count = len(columns_by_word[word])
    reason = f"{word!r} is all that is no value in {count} column{'s' if count > 1 else ''} of a type"
    if word and any(column.empty for column in profile.columns):
        reason += "; empty fields of other columns are then empty texts"
    texts = sum(
        "text" in column.kinds and not is_code_among_codes(word, column)
        for column in profile.columns
        if word and column.null_words.get(word) and not keeps_texts
    )
    if texts:
        reason += f"; it stands among texts too, in {texts} column{'s' if texts > 1 else ''}, and becomes NULL there"
        reason += ", where --force-not-null keeps it"
    return (
        Decision(
            option="null",
            value=word,
            confidence=0.6 if len(words) > 1 or texts else 0.85,
            reason=reason,
            alternatives=(usual, *words[1:]),
        ),
        columns_by_word[word],
    )


# ---- types -------------------------------------------------------------------------------------------------


def column_types(
    profile: Profile,
    null_text: str,
    *,
    unbounded_numeric: bool,
    force_null: Collection[int] = (),
    force_not_null: Collection[int] = (),
) -> list[tuple[str, str]]:
    """Type and reason of each column.

    Args:
        profile: of the whole sample.
        null_text: what means NULL; any other text has to be a value.
        unbounded_numeric: whether the engine has a `numeric` that keeps any number of digits.
        force_null: the columns, by index, in which it means NULL in quotes too.
        force_not_null: those in which it is a value, unless it stands in quotes and `force_null` has them too.
    """
    columns = []
    for index, column in enumerate(profile.columns):
        if index in force_null:
            column = _with_quoted_nulls(column, null_text)
        columns.append((column, None if index in force_not_null else null_text))
    return [_column_type(column, null, unbounded_numeric) for column, null in columns]


def _with_quoted_nulls(column: ColumnProfile, null_text: str) -> ColumnProfile:
    """The column without the values in quotes that mean NULL."""
    if null_text == "":
        return msgspec.structs.replace(column, quoted_empty=0)
    count = column.quoted_null_words.get(null_text, 0)
    kinds = {**column.kinds, "text": column.kinds.get("text", 0) - count}
    return msgspec.structs.replace(column, kinds={kind: number for kind, number in kinds.items() if number > 0})


def _column_type(column: ColumnProfile, null_text: str | None, unbounded_numeric: bool) -> tuple[str, str]:
    values = sum(column.kinds.values())
    others = {word: count for word, count in column.null_words.items() if word != null_text}
    if not values and not others:
        return "text", "no value in the sample"
    guessed = _type_of_kinds(column, unbounded_numeric=unbounded_numeric)
    if not guessed:
        return "text", _why_text(column)
    if others:
        return "text", f"{next(iter(others))!r} is no value of {guessed}"
    if column.quoted_empty or (column.empty and null_text != ""):
        return "text", f"empty texts are no values of {guessed}"
    return guessed, f"all {values:,} sampled values"


def _type_of_kinds(column: ColumnProfile, *, unbounded_numeric: bool) -> str:
    """The type that all values have, or an empty text."""
    kinds = set(column.kinds)
    if not kinds:
        return ""
    if kinds == {"boolean"} or (kinds <= {"boolean", "boolean_letter"} and all(column.letters)):
        return "boolean"
    if kinds == {"integer"}:
        return "bigint"
    if kinds <= NUMBERS and kinds != {"not_finite"}:
        return _number_type(column, kinds, unbounded_numeric)
    if kinds == {"date"}:
        return "date"
    if kinds <= {"date", "timestamp"}:
        return "timestamp"
    return {
        frozenset({"timestamptz"}): "timestamp with time zone",
        frozenset({"time"}): "time",
        frozenset({"uuid"}): "uuid",
    }.get(frozenset(kinds), "")


def _number_type(column: ColumnProfile, kinds: set[str], unbounded_numeric: bool) -> str:
    digits = column.whole_digits + (column.scale_max if "decimal" in kinds else 0)
    # As many decimals everywhere: written by a program from a decimal type, and not measured.
    fixed = kinds & _EXACT == {"decimal"} and column.scale_min == column.scale_max
    if kinds & {"float", "not_finite"}:
        # What a program prints of a double has up to 17 digits, and another number of them in every value.
        loses = "long_integer" in kinds or column.inexact or (fixed and digits > _DOUBLE_DIGITS)
        return "" if loses else "double precision"
    if unbounded_numeric:
        return "numeric"
    if "decimal" not in kinds:
        return f"decimal({_DECIMAL_DIGITS},0)" if digits <= _DECIMAL_DIGITS else ""
    # Programs print a double by up to 17 digits, and by another number of them each time.
    if not fixed and (digits <= _DOUBLE_DIGITS or not (column.inexact or "long_integer" in kinds)):
        return "double precision"
    if digits > _DECIMAL_DIGITS:
        return ""
    small = digits <= _SMALL_DECIMAL_DIGITS - 2
    return f"decimal({_SMALL_DECIMAL_DIGITS if small else _DECIMAL_DIGITS},{column.scale_max})"


def guessed_kind(type_text: str) -> Any:
    """The core's `Guessed` of a guessed type; None where the type keeps every text that it takes."""
    family, _, modifiers = type_text.partition("(")
    if family in ("numeric", "decimal"):
        return {"decimal": {"scale": int(modifiers.rstrip(")").split(",")[1]) if modifiers else None}}
    return {
        "boolean": "boolean",
        "bigint": "integer",
        "double precision": "double",
        "date": "date",
        "timestamp": "timestamp",
        "timestamp with time zone": "timestamptz",
        "time": "time",
        "uuid": "uuid",
    }.get(family)


def _why_text(column: ColumnProfile) -> str:
    kinds = set(column.kinds)
    if "text" in kinds:
        return "texts"
    if "leading_zero" in kinds:
        return "numbers with leading zeros or signs, which a number would lose"
    if CODE in kinds:
        return "codes such as 12E5, of which a number would be another text"
    if "decimal_comma" in kinds:
        return "decimal commas, which --decimal-separator , reads"
    if "thousands" in kinds:
        return "thousands separators, which --thousands , reads, or decimal commas (--decimal-separator ,)"
    if "local_date" in kinds or "doubtful_date" in kinds:
        return "dates that no order of day and month reads, or one that is not known (--date-style)"
    if not kinds:
        return "only texts such as NULL or -"
    if kinds <= NUMBERS and (column.inexact or kinds & {"float", "not_finite"}):
        return "numbers with more digits than a double precision keeps"
    if kinds <= NUMBERS:
        return f"numbers of more than {_DECIMAL_DIGITS} digits"
    return "values of different types: " + ", ".join(sorted(kind.replace("_", " ") for kind in kinds))


def describe_dates(profile: Profile, names: Sequence[str | None], date_style: str | None) -> list[str]:
    """Notes on columns with dates whose order of day and month is not known; those without a name do not matter."""
    notes = []
    for name, column in zip(names, profile.columns, strict=False):
        if name is None or not local_dates(column):
            continue
        if date_style:
            why, remedy = f"that are none in the order {date_style}", "mend them, or check --date-style"
        elif column.first_over_12 and column.second_over_12:
            why, remedy = "that differ in the order of day and month", "no one order reads all of them"
        elif "doubtful_date" in column.kinds:
            why = "with years of two digits, whose order is not guessed"
            remedy = "--date-style DMY says that the day comes first, MDY the month, YMD the year"
        else:
            why = "whose order of day and month the sample does not show"
            remedy = "--date-style DMY says that the day comes first, MDY the month"
        notes.append(f"the column {name} holds dates {why}; {remedy}")
    return notes


_NUMBER = r"\s*-?((0|[1-9]\d*)(\.\d*)?|\.\d+)"
"""Without what a number would lose: leading zeros, a plus. No-break spaces are none to types of numbers."""
_DATE_AND_TIME = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
_WIDER_BY_SHAPE = (
    (
        re.compile(rf"{_NUMBER}\s*", re.ASCII),
        {"bigint": "numeric", "decimal": "numeric"},
    ),
    (
        re.compile(rf"{_NUMBER}([eE][-+]?\d+)?\s*", re.ASCII),
        {"bigint": "double precision", "numeric": "double precision"},
    ),
    (re.compile(rf"{_DATE_AND_TIME}", re.ASCII), {"date": "timestamp"}),
    (
        re.compile(rf"{_DATE_AND_TIME}(Z|[-+]\d\d(:?\d\d)?)", re.ASCII),
        {"date": "timestamp with time zone", "timestamp": "timestamp with time zone"},
    ),
)  # fmt: skip


def wider_type(type_text: str, value: str | None, *, unbounded_numeric: bool) -> str:
    """The type to give a column, guessed as `type_text`, so that this value fits too."""
    family = type_text.partition("(")[0]
    if family == "bigint" and value is not None and is_code(value):
        return "text"
    for shape, wider in _WIDER_BY_SHAPE:
        if value is not None and shape.fullmatch(value) and family in wider:
            found = wider[family]
            return found if found != "numeric" or unbounded_numeric else _wider_number(value, type_text)
    return "text"


def _wider_number(value: str, type_text: str) -> str:
    """The type of integers, or of a decimal type, and this number too, for an engine whose decimals have a limit."""
    whole, _, fraction = value.strip().lstrip("+-").partition(".")
    guessed = re.fullmatch(r"decimal\(\d+,(\d+)\)", type_text)
    if guessed is None and len(whole) + len(fraction) <= _DOUBLE_DIGITS and fraction:
        return "double precision"
    # A double would lose digits of others.
    scale = max(len(fraction), int(guessed[1]) if guessed is not None else 0)
    return f"decimal({_DECIMAL_DIGITS},{scale})" if len(whole) + scale <= _DECIMAL_DIGITS else "text"


def define_table(name: TableName, columns: Sequence[SniffedColumn]) -> TableDefinition:
    """The table of `--schema auto`."""
    return plain_table(name, [(column.name, column.type_text, False) for column in columns])
