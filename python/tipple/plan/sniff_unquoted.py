"""Files in which nothing is quoted, although quotes stand in them: inch marks, nicknames, titles.

Read as quotes, two such marks make one record of all that stands between them, and a number of fields that is right
again. So it is lines that tell: where each of them has the right number of fields by itself, nothing needs a quote. A
file that quotes has fields that do need them, or columns in which all are quoted; a single quote too many in it is a
broken record, and no reason to store the quotes of all the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tipple.plan.sniff_profile import Layout, Profile
from tipple.plan.sniff_quotes import wrapped_columns

__all__ = ["doubt_of_quotes_as_data", "is_unquoted", "quotes_are_data", "unquoted_layout"]

_UNUSED_QUOTES = "\x02\x03\x04\x05"
"""A quote that does not occur is how `csv` says that nothing is quoted."""


def unquoted_layout(delimiter: str, data: Sequence[bytes]) -> Layout:
    """The layout in which nothing of the sample is quoted."""
    quote = next((q for q in _UNUSED_QUOTES if not any(q.encode() in d for d in data)), _UNUSED_QUOTES[0])
    return Layout(format="csv", delimiter=delimiter, quote=quote, escape=quote)


def is_unquoted(layout: Layout) -> bool:
    """Whether a layout is one of these."""
    return layout.format == "csv" and (layout.quote or '"') in _UNUSED_QUOTES


def quotes_are_data(quoted: Profile, lines: Profile, data: Sequence[bytes]) -> bool:
    """Whether double quotes that stand around some fields are data, as those inside others are.

    Args:
        quoted: the sample with double quotes as quotes.
        lines: the same with none.
        data: the sample.
    """
    if not quoted.stray_quotes or not holds_line_ends(quoted, lines):
        return False
    if lines.regularity < 1.0 or lines.fields != quoted.fields or wrapped_columns(lines, 0):
        return False
    # What writes quotes around fields doubles those inside, or escapes them.
    if any(b'""' in d or b'\\"' in d for d in data):
        return False
    heads = lines.heads.values()
    if any(all(len(field.text) > 1 and field.text[0] == field.text[-1] == '"' for field in head) for head in heads):
        return False
    around = _wrapped(lines)
    return sum(d.count(b'"') for d in data) - 2 * around >= around


def holds_line_ends(quoted: Profile, lines: Profile) -> bool:
    """Whether there are line ends within records, so that there are fewer of these than lines."""
    return lines.records > quoted.records


def doubt_of_quotes_as_data(layout: Layout, profile: Profile, profile_of: Callable[[Layout], Profile]) -> str:
    """Why quotes that were taken for data may be such, or an empty text."""
    if not is_unquoted(layout) or not _wrapped(profile):
        return ""
    quoted = profile_of(
        Layout(format="csv", delimiter=layout.delimiter, quote='"', escape='"', trailing=layout.trailing)
    )
    if not quoted.stray_quotes or not quoted.enclosed_fields:
        return ""
    return "quotes around some fields are taken for part of the values, as those inside others are"


def _wrapped(profile: Profile) -> int:
    return sum(column.wrapped[0] for column in profile.columns_with_heads)
