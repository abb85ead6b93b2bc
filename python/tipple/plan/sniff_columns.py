"""What the columns of a sample are: header, the text that means NULL, types and names.

A type is only guessed as far as the sample goes, so it is the widest of its family (`bigint`, exact decimals), and
whatever would lose something as a number stays text: leading zeros, codes such as `12E5`; and so do dates and numbers
in a notation that the sample does not show beyond doubt (`sniff_notations.py`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from tipple.plan.schema import TableDefinition, plain_table
from tipple.plan.sniff_codes import CODE, is_code
from tipple.plan.sniff_labels import MANY_LABELS, begins_blank, counted_from
from tipple.plan.sniff_notations import NUMBERS, local_dates
from tipple.plan.sniff_profile import ColumnProfile, Decision, HeadField, Profile
from tipple.plan.url import LONGEST_NAME_BYTES, TableName, cut_name

__all__ = [
    "SniffedColumn",
    "clean_names",
    "column_types",
    "decide_header",
    "decide_null",
    "define_table",
    "describe_dates",
    "folded_names",
    "guessed_kind",
    "have_different_headers",
    "headers_of_some",
    "heads_differ",
    "is_name",
    "wider_type",
]

_NAMES = frozenset({"text", "boolean_letter"})
"""Kinds of which a name in a header may be."""
_DATES = frozenset({"date", "local_date", "doubtful_date", "timestamp"})
"""Kinds of which a name in a header may be where numbers are below: a table with a column for each month."""
_NULLS = frozenset({"\\N", "NULL", "null", "NA", "N/A", "None", "-", "?"})
_EXACT = frozenset({"integer", "long_integer", "decimal"})
_DOUBLE_DIGITS = 15
"""Decimal digits that a double holds for certain."""
_DECIMAL_DIGITS = 38
_SMALL_DECIMAL_DIGITS = 18
_HEADER_WORDS = """
id key code no nr number num name first last title type kind status state city country region street address zip
email mail phone url date day month year time timestamp at ts created updated amount price cost total sum qty
quantity count value val rate unit currency category group class label description comment note notes text user
username customer product item order lat lon latitude longitude flag active data source target size weight
height width score rank age gender sex color colour version language lang
"""
_USUAL_WORDS = frozenset(_HEADER_WORDS.split())
"""Words that names of columns are often made of, in many tables that have nothing but texts."""


_EMPTY_FIELDS = "the first record has empty fields"


class SniffedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column as the sample shows it."""

    name: str
    type_text: str
    reason: str


# ---- header ------------------------------------------------------------------------------------------------


def decide_header(profile: Profile, by_source: Sequence[Profile] = (), labels: Sequence[str] = ()) -> Decision:
    """Whether the first record of each source names the columns; `yes` or `no`.

    Args:
        profile: of all sources together.
        by_source: each source by itself, where `heads_differ`.
        labels: the first fields below one that is empty.
    """
    heads = list(profile.heads.values())
    if not heads:
        return _header("no", 0.5, "there is no record")
    if heads_differ(profile):
        return _of_different_heads(profile, by_source)
    head = heads[0]
    texts = [field.text for field in head]
    if len(head) != len(profile.columns):
        return _header("no", 0.5, "the first record has another number of fields than the others")
    narrow = _over_values(head, profile.columns)
    # A record without a value begins as a header over row labels does. Read as a header it would be lost.
    blank = bool(narrow) and not any(map(str.strip, narrow))
    counted, many = counted_from(labels), len(labels) >= MANY_LABELS
    if blank and counted != 0 and not (many and counted == 1):
        narrow = []
    against = _no_names(head, profile.columns, [] if blank and not many else narrow)
    if against == _EMPTY_FIELDS and not narrow and any(map(_hides_a_header, profile.columns)):
        return _header("no", 0.6, f"{against}, and a text stands among values below: --skip-lines leaves a title out")
    if against:
        balanced = 0 < sum(map(_is_no_name, texts)) <= sum(not _is_no_name(text) for text in narrow)
        unsure = balanced or (blank and narrow) or any(map(_is_usual_name, narrow))
        return _header("no", 0.6 if unsure else 0.95, against)
    if years := [index for index, field in enumerate(head) if _is_year(field)]:
        # Over years it is one of them; over other numbers it may be the name of a column.
        over_years = all(_holds_years(profile.columns[index]) for index in years)
        others = [text for index, text in enumerate(texts) if index not in years]
        if not over_years and others and all(map(_is_usual_name, others)):
            return _header("yes", 0.8, f"{others[0]!r} is a usual name of a column, and years stand beside it")
        if over_years or not narrow:
            confidence = 0.95 if over_years and not narrow else 0.55
            return _header("no", confidence, f"{texts[years[0]]!r} in the first record is a value, or a year as a name")
    rows = sum(column.empty + column.quoted_empty + _values(column) for column in profile.columns[:1])
    if blank and narrow:
        reason = f"only the first field of the first record is empty, and those below it count up from {counted}"
        return _header("yes", 0.95 if many else 0.6, reason)
    if narrow:
        doubtful = any(map(_is_no_name, texts[1:])) or any(field.kind in _DATES for field in head)
        doubtful = doubtful or (begins_blank(head) and _has_gaps(profile.columns[0]))
        confidence = 0.6 if rows < 2 or doubtful else 0.75 if rows < 3 else 0.9 if rows < 10 else 0.97
        name = next(filter(str.strip, narrow))
        return _header("yes", confidence, f"no field of the first record is a value, but all below {name!r} are")
    if repeated := _over_values_and_again(head, profile.columns):
        reason = f"{repeated[0]!r} stands over values, and again among them: repeated header lines are stored as rows"
        return _header("yes", 0.6, reason)
    if any(column.like_head for column in profile.columns):
        # Of several files that begin with it, it may still be the header.
        return _header("no", 0.8 if len(heads) == 1 else 0.6, "texts of the first record occur again below")
    if len(heads) > 1 and rows:
        return _header("yes", 0.9, f"all {len(heads)} sampled files begin with it")
    usual = [text for text in texts if _is_usual_name(text)]
    # A single word may as well be the first value of its column.
    if 2 * len(usual) > len(texts) or (2 * len(usual) == len(texts) and all(map(_has_usual_word, texts))):
        confidence = 0.8 if rows and len(texts) > 1 and not (blank and _has_gaps(profile.columns[0])) else 0.6
        return _header("yes", confidence, f"{usual[0]!r} is a usual name of a column")
    odd = [
        text
        for text, column in zip(texts, profile.columns, strict=False)
        if _values(column) and not column.shortest <= len(text.encode()) <= column.longest
    ]
    if rows >= 5 and 2 * len(odd) > len(texts) and all(re.fullmatch(r"[A-Za-z_]\w*", text) for text in texts):
        return _header(
            "yes", 0.6, "the first record looks like names, and its fields are of other lengths than those below"
        )
    partly = next(filter(_has_usual_word, texts), None)
    if blank and partly is None and _has_gaps(profile.columns[0]):
        return _header("no", 0.8, "the first field of the first record is empty, and so are fields below it")
    if blank:
        return _header("no", 0.6, "it begins with an empty field: a record without a value, or names over row labels")
    if partly is not None:
        return _header("no", 0.5, f"all fields are texts; {partly!r} may be the name of a column, or a value")
    return _header("no", 0.55, "all fields are texts; nothing sets the first record apart")


def heads_differ(profile: Profile) -> bool:
    """Whether sources begin with different records."""
    names = [folded_names(field.text for field in head) for head in profile.heads.values()]
    return any(other != names[0] for other in names[1:])


def have_different_headers(profile: Profile, by_source: Sequence[Profile]) -> bool:
    """Whether every source begins with a header beyond doubt, but not with the same one; as for `decide_header`."""
    return heads_differ(profile) and len(_apart(profile, by_source)) == len(profile.heads)


def headers_of_some(profile: Profile) -> list[list[str]]:
    """The folded names of headers beyond doubt, where some sources begin with one, and others do not."""
    heads = profile.heads.values()
    found = [folded_names(field.text for field in head) for head in heads if _is_apart(head, profile.columns)]
    return found if len(found) < len(heads) else []


def folded_names(names: Iterable[str]) -> list[str]:
    """The names of a header as they are compared: spaces around them, upper and lower case do not count."""
    return [name.strip().lower() for name in names]


def _of_different_heads(profile: Profile, by_source: Sequence[Profile]) -> Decision:
    if apart := _apart(profile, by_source):
        return _header(
            "no", 0.4, f"the files begin with different records; one of them, with {apart[0]!r}, may be a header"
        )
    usual = [head for head in profile.heads.values() if all(_is_usual_name(field.text) for field in head)]
    if usual:
        return _header("no", 0.5, f"the files begin with different records; {usual[0][0].text!r} may name a column")
    blank = any(begins_blank(head) for head in profile.heads.values())
    return _header("no", 0.5 if blank else 0.9, "the files begin with different records")


def _apart(profile: Profile, by_source: Sequence[Profile]) -> list[str]:
    """A text of every first record that is one of texts only where below, in all sources or its own, are values."""
    found = []
    for number, head in profile.heads.items():
        own = next((own.columns for own in by_source if number in own.heads), [])
        found += next(filter(None, (_is_apart(head, columns) for columns in (profile.columns, own))), [])[:1]
    return found


def _is_apart(head: Sequence[HeadField], columns: Sequence[ColumnProfile]) -> list[str]:
    """The texts of a first record that is one of texts only where values are below."""
    texts = [text for text in _over_values(head, columns) if text.strip()]
    return texts if texts and not _no_names(head, columns, texts) and not any(map(_is_year, head)) else []


def _over_values(head: Sequence[HeadField], columns: Sequence[ColumnProfile]) -> list[str]:
    """Fields of a first record that are of no kind of value below, where there are values only."""
    if len(head) != len(columns):
        return []
    return [
        field.text
        for field, column in zip(head, columns, strict=True)
        if _is_narrow(column)
        and (field.kind in _NAMES or _is_date_over_numbers(field, column))
        and field.kind not in column.kinds
    ]


def _has_gaps(column: ColumnProfile) -> bool:
    return bool(column.empty or column.quoted_empty or column.null_words)


def _over_values_and_again(head: Sequence[HeadField], columns: Sequence[ColumnProfile]) -> list[str]:
    """Names that occur again below, as the only texts there: files with headers were put together."""
    found = []
    for field, column in zip(head, columns, strict=False):
        again = column.kinds.get(field.kind, 0)
        values = msgspec.structs.replace(column, kinds={k: n for k, n in column.kinds.items() if k != field.kind})
        if field.kind == "text" and again and again == column.like_head and _is_narrow(values):
            found.append(field.text)
    return found


def _is_date_over_numbers(field: HeadField, column: ColumnProfile) -> bool:
    """Whether a field of a first record is a date where all below are numbers."""
    return field.kind in _DATES and bool(column.kinds) and column.kinds.keys() <= NUMBERS


def _hides_a_header(column: ColumnProfile) -> bool:
    """Whether one text stands among several values of a kind, as a name does below the title of a report."""
    values = {kind: count for kind, count in column.kinds.items() if kind != "text"}
    return column.kinds.get("text") == 1 < sum(values.values()) and _is_narrow(
        msgspec.structs.replace(column, kinds=values)
    )


def _is_no_name(text: str) -> bool:
    return not text.strip() or text.strip() in _NULLS


def _is_year(field: HeadField) -> bool:
    return field.kind == "integer" and re.fullmatch(r"(19|20)\d\d", field.text.strip()) is not None


def _holds_years(column: ColumnProfile) -> bool:
    """Whether the values of a column are as long as years."""
    return column.shortest == column.longest == 4


def _is_usual_name(text: str) -> bool:
    """Whether nothing but words that names of columns are made of is in a text."""
    words = _words(text)
    return bool(words) and words <= _USUAL_WORDS


def _has_usual_word(text: str) -> bool:
    return bool(_words(text) & _USUAL_WORDS)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]+", _snake(text)))


def _is_narrow(column: ColumnProfile) -> bool:
    """Whether the column holds values of a kind, and not words."""
    if not column.kinds or column.kinds.keys() <= {"leading_zero"}:
        return False
    return "text" not in column.kinds and ("boolean_letter" not in column.kinds or all(column.letters))


def _header(value: str, confidence: float, reason: str) -> Decision:
    return Decision(option="header", value=value, confidence=confidence, reason=reason)


def _no_names(head: Sequence[HeadField], columns: Sequence[ColumnProfile], narrow: Sequence[str]) -> str:
    """Why a record cannot be a header.

    Args:
        head: the fields of the record.
        columns: what is below.
        narrow: the fields that stand over values that they are none of.
    """
    texts = [field.text.strip() for field in head]
    for field, column in zip(head, columns, strict=False):
        if field.kind not in _NAMES and not _is_year(field) and not _is_date_over_numbers(field, column):
            return f"{field.text!r} in the first record is a value"
    # Sheets have columns without a name, and one may be called NA: a few are, beside more that are names for certain.
    # And they end in columns that hold nothing at all.
    further = [text for text, column in zip(texts[1:], columns[1:], strict=False) if text or _values(column)]
    missing = sum(map(_is_no_name, further))
    named = sum(not _is_no_name(text) for text in narrow)
    # As many may be blank, but not a word for NULL.
    few = 2 * missing < len(texts) and (
        missing < named or (missing == named and _NULLS.isdisjoint(filter(None, texts)))
    )
    if not any(texts) or (not few and not all(further)):
        return _EMPTY_FIELDS
    if not narrow and len({text.lower() for text in texts}) < len(texts):
        return "the first record has a text twice"
    # Over values they are names all the same: questions of a survey, cells of a sheet with a line break.
    if not narrow and any(len(text) > 2 * LONGEST_NAME_BYTES or "\n" in text for text in texts):
        return "the first record has a text too long for a name"
    if not few and not _NULLS.isdisjoint(texts):
        return "the first record has a text that means NULL"
    return ""


def _values(column: ColumnProfile) -> int:
    return sum(column.kinds.values()) + sum(column.null_words.values())


# ---- NULL --------------------------------------------------------------------------------------------------


def decide_null(profile: Profile, format: str, *, tabs: bool = False) -> tuple[Decision, list[int]]:
    """The text that means NULL, and the columns that say so: those that hold nothing else but values of a type."""
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
    among_texts = tabs and any(column.null_words.get("\\N") for column in profile.columns)
    if among_texts and not columns_by_word and not needs_empty:
        # Who divides fields by tabs knows COPY's text format.
        return Decision(option="null", value="\\N", confidence=0.9, reason="\\N is there, among texts"), []
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
    # As the code of Namibia among the codes of countries.
    texts = sum(bool(word and column.null_words.get(word) and "text" in column.kinds) for column in profile.columns)
    if texts:
        reason += f"; it stands among texts too, in {texts} column{'s' if texts > 1 else ''}, and becomes NULL there"
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
    if not fixed and digits <= _DOUBLE_DIGITS:
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
        else:
            why = "whose order of day and month the sample does not show"
            remedy = "--date-style DMY says that the day comes first, MDY the month"
        notes.append(f"the column {name} holds dates {why}; {remedy}")
    return notes


_NUMBER = r"\s*-?((0|[1-9]\d*)(\.\d*)?|\.\d+)"
"""Without what a number would lose: leading zeros, a plus."""
_DATE_AND_TIME = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
_WIDER_BY_SHAPE = (
    (
        re.compile(rf"{_NUMBER}\s*"),
        {"bigint": "numeric"},
    ),
    (
        re.compile(rf"{_NUMBER}([eE][-+]?\d+)?\s*"),
        {"bigint": "double precision", "numeric": "double precision", "decimal": "double precision"},
    ),
    (re.compile(rf"{_DATE_AND_TIME}"), {"date": "timestamp"}),
    (
        re.compile(rf"{_DATE_AND_TIME}(Z|[-+]\d\d(:?\d\d)?)"),
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
            return found if found != "numeric" or unbounded_numeric else _wider_number(value)
    return "text"


def _wider_number(value: str) -> str:
    """The type of integers and this number too, for an engine whose decimals have a limit."""
    whole, _, fraction = value.strip().lstrip("+-").partition(".")
    if len(whole) + len(fraction) <= _DOUBLE_DIGITS and fraction:
        return "double precision"
    return f"decimal({_DECIMAL_DIGITS},{len(fraction)})" if len(whole) + len(fraction) <= _DECIMAL_DIGITS else "text"


# ---- names -------------------------------------------------------------------------------------------------


def clean_names(names: Sequence[str]) -> list[str]:
    """Names for columns, from a header's texts: lower case, letters, digits and underscores, each of them once."""
    cleaned: dict[str, None] = {}
    taken: dict[str, int] = {}  # up to which number: a wide file may repeat a text in each of its columns
    for number, name in enumerate(names, start=1):
        base = cut_name(_snake(name) or f"column{number}")
        unique, count = base, taken.get(base, 1)
        while unique in cleaned:
            count += 1
            unique = f"{cut_name(base, LONGEST_NAME_BYTES - 1 - len(str(count)))}_{count}"
        cleaned[unique], taken[base] = None, count
    return list(cleaned)


def is_name(text: str) -> bool:
    """Whether there is anything in a text that a column could be called."""
    return bool(_snake(text))


def _snake(name: str) -> str:
    """`First Name` as `first_name`, `orderID` as `order_id`, `Größe (m²)` as `größe_m2`."""
    text = unicodedata.normalize("NFKC", name).strip()
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text)
    text = re.sub(r"\W+", "_", text.lower()).strip("_")
    text = re.sub(r"_{2,}", "_", text)
    return f"_{text}" if text[:1].isdigit() else text


def define_table(name: TableName, columns: Sequence[SniffedColumn]) -> TableDefinition:
    """The table of `--schema auto`."""
    return plain_table(name, [(column.name, column.type_text, False) for column in columns])
