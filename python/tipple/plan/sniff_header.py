"""Whether the first record of a sample names its columns.

A record that is taken for a header is lost where it is none, and a header that is taken for a record is stored as a
row: of two answers that are as likely, the second does less harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from tipple.plan.sniff_labels import MANY_LABELS, begins_blank, counted_from
from tipple.plan.sniff_names import snake
from tipple.plan.sniff_notations import NUMBERS
from tipple.plan.sniff_profile import ColumnProfile, Decision, HeadField, Profile
from tipple.plan.url import LONGEST_NAME_BYTES

__all__ = ["decide_header", "folded_names", "have_different_headers", "headers_of_some", "heads_differ"]

_NAMES = frozenset({"text", "boolean_letter"})
"""Kinds of which a name in a header may be."""
_DATES = frozenset({"date", "local_date", "doubtful_date", "timestamp"})
"""Kinds of which a name in a header may be where numbers are below: a table with a column for each month."""
_NULLS = frozenset({"\\N", "NULL", "null", "NA", "N/A", "None", "-", "?"})
_HEADER_WORDS = """
id key code no nr number num name first last title type kind status state city country region street address zip
email mail phone url date day month year time timestamp at ts created updated amount price cost total sum qty
quantity count value val rate unit currency category group class label description comment note notes text user
username customer product item order lat lon latitude longitude flag active data source target size weight
height width score rank age gender sex color colour version language lang
"""
_USUAL_WORDS = frozenset(_HEADER_WORDS.split())
"""Words that names of columns are often made of, in many tables that have nothing but texts."""
_NOT_IN_NAMES = frozenset("@=")
_ROWS_BY_NAME = 100
"""Of so many values one may be a name of a column by chance."""
_ROWS_BY_HEADER = 10
"""Of so many records one may be a header of a file that others were put behind."""
_EMPTY_FIELDS = "the first record has empty fields"


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
    rows = sum(column.empty + column.quoted_empty + _values(column) for column in profile.columns[:1])
    if years := [index for index, field in enumerate(head) if _is_year(field)]:
        if _count_up_over_numbers(head, profile.columns, years):
            reason = f"{texts[years[0]]!r} and the fields beside it are years in a row, and below are none"
            return _header("yes", 0.9 if rows > 1 else 0.6, reason)
        # Over years it is one of them; over other numbers it may be the name of a column.
        over_years = all(_holds_years(profile.columns[index]) for index in years)
        others = [text for index, text in enumerate(texts) if index not in years]
        if not over_years and others and all(map(_is_usual_name, others)):
            return _header("yes", 0.8, f"{others[0]!r} is a usual name of a column, and years stand beside it")
        if over_years or not narrow:
            confidence = 0.95 if over_years and not narrow else 0.55
            return _header("no", confidence, f"{texts[years[0]]!r} in the first record is a value, or a year as a name")
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
    text, alike = _numbered_as_below(texts, profile.columns)
    # Of several files that begin with it, one such text below is chance.
    if text and (alike or len(heads) == 1):
        return _header("no", 0.8 if alike else 0.6, f"{text!r} is like texts below it, but for the number in it")
    usual = [text for text in texts if _is_usual_name(text)]
    # A single word may as well be the first value of its column.
    named = 2 * len(usual) > len(texts) or (2 * len(usual) == len(texts) and all(map(_has_usual_word, texts)))
    if named and len(texts) > 1 and _seldom_again(profile.columns):
        reason = f"{usual[0]!r} is a usual name of a column, but texts of the first record occur again below"
        return _header("yes", 0.6, reason)
    if any(column.like_head for column in profile.columns):
        # Of several files that begin with it, it may still be the header.
        return _header("no", 0.8 if len(heads) == 1 else 0.6, "texts of the first record occur again below")
    if len(heads) > 1 and rows:
        return _header("yes", 0.9, f"all {len(heads)} sampled files begin with it")
    if named:
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


def _seldom_again(columns: Sequence[ColumnProfile]) -> bool:
    """Whether texts of a first record occur again below, but hardly ever: files with headers were put together, or a
    name is a value as well.
    """
    again = [column.like_head for column in columns]
    seldom = all(_ROWS_BY_NAME * column.like_head <= _values(column) for column in columns)
    # As often in every column, in whole records most likely.
    together = min(again, default=0) == max(again, default=0)
    few = all(_ROWS_BY_HEADER * column.like_head <= _values(column) for column in columns)
    return any(again) and (seldom or (together and few))


def _numbered_as_below(texts: Sequence[str], columns: Sequence[ColumnProfile]) -> tuple[str, bool]:
    """A text that only its number tells from texts below it, and whether most of those are such: `order-1`, `user1`;
    an empty one where there is none."""
    found = [(text, c) for text, c in zip(texts, columns, strict=False) if c.numbered_like_head > c.like_head]
    if not found:
        return "", False
    text, column = max(found, key=lambda it: it[1].numbered_like_head)
    return text, 2 * column.numbered_like_head > _values(column)


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


def _count_up_over_numbers(head: Sequence[HeadField], columns: Sequence[ColumnProfile], years: Sequence[int]) -> bool:
    """Whether years name columns of other values, as in tables with a column for each year: they follow one another,
    behind texts that do not occur again, three of them at least, or all fields but the texts.

    Args:
        years: which fields of the first record may be years.
    """
    first, last = years[0], years[-1]
    if list(years) != list(range(first, last + 1)) or first == 0:
        return False
    steps = {int(later.text) - int(earlier.text) for earlier, later in pairwise(head[first : last + 1])}
    texts = [field.text for field in head]
    again = any(column.like_head for column in columns[:first]) or _numbered_as_below(texts[:first], columns)[0]
    if steps not in ({1}, {-1}) or all(map(_is_no_name, texts[:first])) or again:
        return False
    below = [column for column in columns[first : last + 1] if column.kinds]
    others = [column for column in below if not _holds_years(column)]
    if len(years) > 2:
        return 2 * len(others) > len(below)
    numbers = all(column.kinds.keys() <= NUMBERS for column in below)
    return last == len(head) - 1 and numbers and len(others) == len(years)


def _is_usual_name(text: str) -> bool:
    """Whether nothing but words that names of columns are made of is in a text, which is no address and no setting."""
    words = _words(text)
    return bool(words) and words <= _USUAL_WORDS and not set(text) & _NOT_IN_NAMES


def _has_usual_word(text: str) -> bool:
    return bool(_words(text) & _USUAL_WORDS)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]+", snake(text)))


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
    # As many may be blank, or more beside a usual name, but not a word for NULL.
    enough = missing == named or any(map(_is_usual_name, narrow))
    few = 2 * missing < len(texts) and (missing < named or (enough and _NULLS.isdisjoint(filter(None, texts))))
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
