"""Whether the first record of a sample names its columns.

A record that is taken for a header is lost where it is none, and a header that is taken for a record is stored as a
row: of two answers that are as likely, the second does less harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from tipple.plan.null_words import means_nothing
from tipple.plan.sniff_labels import MANY_LABELS, begins_blank, counted_from
from tipple.plan.sniff_names import snake
from tipple.plan.sniff_notations import NUMBERS
from tipple.plan.sniff_profile import LOW_CONFIDENCE, ColumnProfile, Decision, HeadField, Profile
from tipple.plan.url import LONGEST_NAME_BYTES

__all__ = [
    "decide_header",
    "folded_names",
    "have_different_headers",
    "headers_of_some",
    "heads_differ",
    "is_narrow",
    "ruled_header",
]

_NAMES = frozenset({"text", "boolean_letter"})
"""Kinds of which a name in a header may be."""
_WORDS = frozenset({"not_finite", "boolean"})
"""Kinds of values that are words: one of them (`inf`, `true`) may be a name where names stand beside it."""
_DATES = frozenset({"date", "local_date", "doubtful_date", "timestamp"})
"""Kinds of which a name in a header may be where numbers are below: a table with a column for each month."""
_NAMES_TOO = frozenset({"na", "none", "nil", "unknown", "Unknown"})
"""Words for NULL of which each may be the name of a column as well."""
_SODIUM = "Na"
"""Nobody writes so for NULL."""
_PERIOD = re.compile(r"(19|20)\d\d ?[-/–] ?\d{1,4}")
"""A season, or a month: over numbers a name, as years are."""
_YEAR = re.compile(r"(19|20)\d\d")
_ANY_YEAR = re.compile(r"1[5-9]\d\d|2[01]\d\d")
"""One of several that follow one another; as the core's `may_be_year`, which counts those below."""
_FEWEST_YEARS = 3
_YEAR_STEPS = (1, -1, 5, -5, 10, -10)
"""From one year of a table to the next; the first two also where nothing beside them is a usual name."""
_NUMBER_IN_TEXT = re.compile(r"\d+(?:\.\d+)?")
_FEWEST_CLASSES = 3
_MANY_CLASSES = 10
"""So many that are all different are no chance, in whatever order."""
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
_FEW_ROWS = 5
"""With fewer, what all of them have in common may be chance."""
_ROWS_BY_HEADER = 10
"""Of so many records one may be a header of a file that others were put behind."""
_EMPTY_FIELDS = "the first record has empty fields"
_OR_A_NAME = ", or the name of a column"
"""How reasons end that leave it open."""


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
    if 1 < len(head) == len(profile.columns) - 1:
        # R writes none for the names of rows, and others end records with a delimiter, but not the header.
        for columns in (profile.columns[1:], profile.columns[:-1]):
            rest = decide_header(msgspec.structs.replace(profile, columns=columns))
            if rest.value == "yes" and rest.confidence > 0.6:
                return _header("yes", 0.6, f"{rest.reason}, though it lacks one")
    if len(head) != len(profile.columns):
        return _header("no", 0.5, "the first record has another number of fields than the others")
    if _are_places(head, profile.columns):
        return _header("no", 0.6, "the first record counts up from 0, as names that were never given do")
    names = _which_are_names(head, profile.columns)
    narrow = _over_values(head, profile.columns)
    # A record without a value begins as a header over row labels does. Read as a header it would be lost.
    blank = bool(narrow) and not any(texts[index].strip() for index in narrow)
    counted, many = counted_from(labels), len(labels) >= MANY_LABELS
    if blank and counted != 0 and not (many and counted == 1):
        narrow = []
    against = _no_names(head, profile.columns, [] if blank and not many else narrow)
    if against == _EMPTY_FIELDS and not narrow and any(map(_hides_a_header, profile.columns)):
        return _header("no", 0.6, f"{against}, and a text stands among values below: --skip-lines leaves a title out")
    usual_narrow = any(_is_usual_name(texts[index]) for index in narrow)
    if against:
        missing = sum(not text.strip() or _is_null_word(text) for text in texts)
        balanced = 0 < missing <= sum(names[index] for index in narrow)
        unsure = balanced or (blank and narrow) or usual_narrow or against.endswith(_OR_A_NAME)
        if _is_quoted_apart(head, profile):
            return _header("yes", 0.6, "all fields of the first record are in quotes, and hardly any below it")
        return _header("no", 0.6 if unsure or _may_name_most(texts, profile.columns) else 0.95, against)
    rows = sum(column.empty + column.quoted_empty + _values(column) for column in profile.columns[:1])
    if years := _years(head):
        others = [text for index, text in enumerate(texts) if index not in years]
        beside_usual = bool(others) and all(map(_is_usual_name, others))
        if _count_up_over_numbers(head, profile.columns, years, beside_usual=beside_usual):
            reason = f"{texts[years[0]]!r} and the fields beside it are years in a row, and below are none"
            return _header("yes", 0.9 if rows > 1 else 0.6, reason)
        # Over years it is one of them; over other numbers it may be the name of a column.
        over_years = all(_holds_years(profile.columns[index]) for index in years)
        as_long = all(_is_as_long_as_years(profile.columns[index]) for index in years)
        if not as_long and beside_usual:
            return _header("yes", 0.8, f"{others[0]!r} is a usual name of a column, and years stand beside it")
        if as_long or not narrow:
            confidence = 0.95 if over_years and not narrow else 0.55
            return _header("no", confidence, f"{texts[years[0]]!r} in the first record is a value, or a year as a name")
    if blank and narrow:
        reason = f"only the first field of the first record is empty, and those below it count up from {counted}"
        return _header("yes", 0.95 if many else 0.6, reason)
    if narrow:
        unnamed = sum(bool(text.strip()) and not is_name for text, is_name in zip(texts, names, strict=True))
        doubtful = (
            any(not text.strip() for text in texts[1:])
            or (2 * unnamed > sum(names[index] for index in narrow) and not usual_narrow)
            or any(field.kind in _DATES | _WORDS for field in head)
            or (begins_blank(head) and _has_gaps(profile.columns[0]))
        )
        confidence = 0.6 if rows < 2 or doubtful else 0.75 if rows < 3 else 0.9 if rows < 10 else 0.97
        name = next(texts[index] for index in narrow if texts[index].strip())
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
        # Of several files that begin with it, it may still be the header, and so where one of its names is a value
        # once among many: `English` among those of languages.
        once = sum(column.like_head for column in profile.columns) == 1 and rows >= _FEW_ROWS
        sure = len(heads) == 1 and not once
        return _header("no", 0.8 if sure else 0.6, "texts of the first record occur again below")
    if len(heads) > 1 and rows:
        return _header("yes", 0.9, f"all {len(heads)} sampled files begin with it")
    if named:
        confidence = 0.8 if rows and len(texts) > 1 and not (blank and _has_gaps(profile.columns[0])) else 0.6
        return _header("yes", confidence, f"{usual[0]!r} is a usual name of a column")
    if not blank and (numbered := _over_numbered(head, profile.columns)):
        return _header("yes", 0.6, f"{numbered[0]!r} holds no digit, and all below it do")
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


def ruled_header() -> Decision:
    """That of a first record with a line of dashes below it."""
    return _header("yes", 0.9, "a line of dashes stands below the first record")


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
    if any(begins_blank(head) for head in profile.heads.values()):
        return _header("no", 0.5, "the files begin with different records")
    # A file that was cut into parts has its header in one of them.
    for number in profile.heads:
        alone = decide_header(_with_one_head(profile, number, by_source))
        if alone.value == "yes" or alone.confidence < LOW_CONFIDENCE:
            return _header("no", 0.55, f"the files begin with different records; of one of them: {alone.reason}")
    return _header("no", 0.9, "the files begin with different records")


def _with_one_head(profile: Profile, number: int, by_source: Sequence[Profile]) -> Profile:
    """The profile as if one source alone began with a record that may be a header."""
    own = next((own for own in by_source if number in own.heads), profile)
    columns = [
        msgspec.structs.replace(column, like_head=like.like_head, numbered_like_head=like.numbered_like_head)
        for column, like in zip(profile.columns, own.columns, strict=False)
    ]
    return msgspec.structs.replace(profile, heads={number: profile.heads[number]}, columns=columns)


def _apart(profile: Profile, by_source: Sequence[Profile]) -> list[str]:
    """A text of every first record that is one of texts only where below, in all sources or its own, are values."""
    found = []
    for number, head in profile.heads.items():
        own = next((own.columns for own in by_source if number in own.heads), [])
        found += next(filter(None, (_is_apart(head, columns) for columns in (profile.columns, own))), [])[:1]
    return found


def _is_apart(head: Sequence[HeadField], columns: Sequence[ColumnProfile]) -> list[str]:
    """The texts of a first record that is one of texts only where values are below."""
    narrow = [index for index in _over_values(head, columns) if head[index].text.strip()]
    if not narrow or _no_names(head, columns, narrow) or _years(head):
        return []
    return [head[index].text for index in narrow]


def _over_values(head: Sequence[HeadField], columns: Sequence[ColumnProfile]) -> list[int]:
    """Fields of a first record, by index, that are of no kind of value below, where there are values only."""
    if len(head) != len(columns):
        return []
    return [
        index
        for index, (field, column) in enumerate(zip(head, columns, strict=True))
        if is_narrow(column)
        and (field.kind in _NAMES or _is_date_over_numbers(field, column))
        and field.kind not in column.kinds
    ]


def _has_gaps(column: ColumnProfile) -> bool:
    # Among texts a point or a hyphen is one of them.
    return bool(column.empty or column.quoted_empty or (column.null_words and "text" not in column.kinds))


def _over_values_and_again(head: Sequence[HeadField], columns: Sequence[ColumnProfile]) -> list[str]:
    """Names that occur again below, as the only texts there: files with headers were put together."""
    found = []
    for field, column in zip(head, columns, strict=False):
        again = column.kinds.get(field.kind, 0)
        values = msgspec.structs.replace(column, kinds={k: n for k, n in column.kinds.items() if k != field.kind})
        if field.kind == "text" and again and again == column.like_head and is_narrow(values):
            found.append(field.text)
    return found


def _over_numbered(head: Sequence[HeadField], columns: Sequence[ColumnProfile]) -> list[str]:
    """Names over texts that all have digits, as shares (`70.86%`) and amounts of other notations (`1,42,782`) do."""
    if any(column.like_head for column in columns):
        return []
    return [
        field.text
        for field, column in zip(head, columns, strict=False)
        if field.kind == "text" and field.text.strip() and not any(map(str.isdigit, field.text))
        if column.numbered >= _FEW_ROWS and column.numbered == sum(column.kinds.values())
    ]


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


def _may_name_most(texts: Sequence[str], columns: Sequence[ColumnProfile]) -> bool:
    """Whether what is no header by its other fields looks like one: half of its texts are usual names, or two of them
    stand there twice, or one beside a usual name, and none of them occurs again below."""
    filled = [text.strip() for text in texts if text.strip()]
    usual = sum(map(_is_usual_name, filled))
    twice = len(filled) - len(set(filled)) > 1
    half = 2 * usual >= len(filled) > 0 or (usual and len(filled) > len(set(filled)))
    return (half or twice) and not any(column.like_head for column in columns)


def _is_quoted_apart(head: Sequence[HeadField], profile: Profile) -> bool:
    """Whether all fields of a first record are in quotes, the first an empty text, and at most one of each other
    record: R writes matrices so."""
    below = profile.quoted_fields - len(head) * len(profile.heads)
    blank, *others = (field.text.strip() for field in head)
    few = len(head) > 2 and below <= profile.records - len(profile.heads)
    return few and all(field.marked for field in head) and not blank and all(others)


def _is_date_over_numbers(field: HeadField, column: ColumnProfile) -> bool:
    """Whether a field of a first record is a date where all below are numbers."""
    return field.kind in _DATES and bool(column.kinds) and column.kinds.keys() <= NUMBERS


def _hides_a_header(column: ColumnProfile) -> bool:
    """Whether one text stands among several values of a kind, as a name does below the title of a report."""
    values = {kind: count for kind, count in column.kinds.items() if kind != "text"}
    return column.kinds.get("text") == 1 < sum(values.values()) and is_narrow(
        msgspec.structs.replace(column, kinds=values)
    )


def _which_are_names(head: Sequence[HeadField], columns: Sequence[ColumnProfile]) -> list[bool]:
    """Whether each field of a first record may be a name: it is not empty, no word for NULL, and more than signs and
    digits, which values are made of as well (`<0.5`, `(5.00)`, `5%`)."""
    return [
        bool(field.text.strip())
        and not _means_nothing(field.text)
        and not (_is_marked(field) and not (_PERIOD.fullmatch(field.text.strip()) and column.kinds.keys() <= NUMBERS))
        for field, column in zip(head, columns, strict=False)
    ]


def _means_nothing(text: str) -> bool:
    return means_nothing(text) and text.strip() != _SODIUM


def _is_null_word(text: str) -> bool:
    """Whether a text means NULL, and can hardly be the name of a column."""
    return _means_nothing(text) and text.strip() not in _NAMES_TOO


def _is_marked(field: HeadField) -> bool:
    """Whether a text is made of signs and digits."""
    text = field.text
    return field.kind == "text" and any(map(str.isdigit, text)) and not any(map(str.isalpha, text))


def _are_classes(texts: Sequence[str]) -> bool:
    """Whether texts are classes of values in their order, as a table with a column for each has them: `<18`, `18-25`,
    `26+`; `25%`, `50%`, `75%`."""
    numbers = [float(found[0]) for text in texts if (found := _NUMBER_IN_TEXT.search(text))]
    if len(set(texts)) < len(texts) or len(numbers) < len(texts):
        return False
    return len(texts) >= (_FEWEST_CLASSES if numbers == sorted(numbers) else _MANY_CLASSES)


def _are_places(head: Sequence[HeadField], columns: Sequence[ColumnProfile]) -> bool:
    """Whether the fields of a first record count up from 0, and below are columns of other values: pandas names columns
    so that have no name."""
    if [field.text for field in head] != [str(place) for place in range(len(head))]:
        return False
    filled = [column.kinds.keys() for column in columns if column.kinds]
    # A record of decimals may be one of whole numbers for once.
    return any(not kinds & NUMBERS for kinds in filled) or (
        len(head) > 1 and any("integer" not in kinds for kinds in filled)
    )


def _years(head: Sequence[HeadField]) -> list[int]:
    """Fields of a first record, by index, that may be years: of two centuries, or several that follow one another."""
    texts = [field.text.strip() if field.kind == "integer" else "" for field in head]
    numbers = [int(text) if _ANY_YEAR.fullmatch(text) else 0 for text in texts]
    years = {index for index, text in enumerate(texts) if _YEAR.fullmatch(text)}
    for step in _YEAR_STEPS:
        begin = 0
        for index in range(1, len(head) + 1):
            if index < len(head) and numbers[index] == numbers[index - 1] + step and numbers[index - 1] > 0:
                continue
            if index - begin >= _FEWEST_YEARS:
                years.update(range(begin, index))
            begin = index
    return sorted(years)


def _holds_years(column: ColumnProfile) -> bool:
    """Whether all values of a column may be years."""
    return 0 < column.years == sum(column.kinds.values())


def _is_as_long_as_years(column: ColumnProfile) -> bool:
    return column.kinds.keys() <= {"integer"} and column.shortest == column.longest == 4


def _count_up_over_numbers(
    head: Sequence[HeadField], columns: Sequence[ColumnProfile], years: Sequence[int], *, beside_usual: bool
) -> bool:
    """Whether years name columns of other values, as in tables with a column for each year: they follow one another,
    behind texts that do not occur again, three of them at least, or all fields but the texts.

    Args:
        years: which fields of the first record may be years.
        beside_usual: whether all others are usual names: prices and ports are numbers of four digits too.
    """
    first, last = years[0], years[-1]
    if list(years) != list(range(first, last + 1)) or first == 0:
        return False
    steps = {int(later.text) - int(earlier.text) for earlier, later in pairwise(head[first : last + 1])}
    texts = [field.text for field in head]
    again = any(column.like_head for column in columns[:first]) or _numbered_as_below(texts[:first], columns)[0]
    if (
        len(steps) != 1
        or not steps <= set(_YEAR_STEPS if beside_usual else _YEAR_STEPS[:2])
        or not any(_which_are_names(head[:first], columns))
        or again
    ):
        return False
    below = [column for column in columns[first : last + 1] if column.kinds]
    of_years = _holds_years if beside_usual else _is_as_long_as_years
    others = [column for column in below if not of_years(column)]
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


def is_narrow(column: ColumnProfile) -> bool:
    """Whether the column holds values of a kind, and not words."""
    if not column.kinds or column.kinds.keys() <= {"leading_zero"}:
        return False
    return "text" not in column.kinds and ("boolean_letter" not in column.kinds or all(column.letters))


def _header(value: str, confidence: float, reason: str) -> Decision:
    return Decision(option="header", value=value, confidence=confidence, reason=reason)


def _no_names(head: Sequence[HeadField], columns: Sequence[ColumnProfile], narrow: Sequence[int]) -> str:
    """Why a record cannot be a header.

    Args:
        head: the fields of the record.
        columns: what is below.
        narrow: the fields that stand over values that they are none of.
    """
    texts = [field.text.strip() for field in head]
    others = {*_years(head), *_words_beside_names(head, columns, narrow)}
    for index, (field, column) in enumerate(zip(head, columns, strict=False)):
        if field.kind not in _NAMES and index not in others and not _is_date_over_numbers(field, column):
            return f"{field.text!r} in the first record is a value"
    # Sheets have columns without a name, and one may be called NA: a few are, beside more that are names for certain.
    # And they end in columns that hold nothing at all.
    names = _which_are_names(head, columns)
    further = [index for index in range(1, len(names)) if texts[index] or _values(columns[index])]
    missing = sum(not names[index] for index in further)
    named = sum(names[index] for index in narrow)
    has_null = any(map(_is_null_word, texts))
    # As many may be blank, or more beside a usual name, but not a word for NULL.
    has_usual = any(_is_usual_name(texts[index]) for index in narrow)
    enough = missing == named or has_usual
    few = 2 * missing < len(texts) and (missing < named or (enough and not has_null))
    if not any(texts) or (not few and not all(texts[index] for index in further)):
        return _EMPTY_FIELDS
    if not narrow and len({text.lower() for text in texts}) < len(texts):
        return "the first record has a text twice"
    # Over values they are names all the same: questions of a survey, cells of a sheet with a line break.
    if not narrow and any(len(text) > 2 * LONGEST_NAME_BYTES or "\n" in text for text in texts):
        return "the first record has a text too long for a name"
    if not few and has_null:
        return "the first record has a text that means NULL"
    unnamed = [texts[index] for index in narrow if not names[index]]
    if not few and unnamed and not has_usual and not _are_classes(unnamed):
        return f"{unnamed[0]!r} in the first record is a value that is missing or marked{_OR_A_NAME}"
    return ""


def _words_beside_names(
    head: Sequence[HeadField], columns: Sequence[ColumnProfile], narrow: Sequence[int]
) -> list[int]:
    """Fields of a first record, by index, whose words would be values elsewhere, but are none as those below: no more
    than there are names over values."""
    words = [
        index
        for index, (field, column) in enumerate(zip(head, columns, strict=False))
        if field.kind in _WORDS and field.text.strip().isalpha() and column.kinds and column.kinds.keys() <= NUMBERS
        if field.kind not in column.kinds
    ]
    return words if len(words) <= len(narrow) else []


def _values(column: ColumnProfile) -> int:
    return sum(column.kinds.values()) + sum(column.null_words.values())
