"""Whether apostrophes quote fields: they stand in texts as well, where double quotes hardly do.

They quote only where nothing contradicts, so that every one of them opens a field, closes it, or is doubled or escaped
in between. Beyond that there has to be a reason: what they would have to be data for otherwise. Numbers do not stand in
apostrophes for their own sake; titles and nicknames may.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tipple.plan.sniff_profile import ColumnProfile, Layout, Profile

__all__ = ["apostrophes_may_quote", "apostrophes_quote", "doubt_of_apostrophes", "wrapped_columns"]

_NO_REASON, _WEAK_REASON, _REASON = range(3)


def apostrophes_may_quote(plain: Profile, data: Sequence[bytes]) -> bool:
    """Whether it is worth a try: apostrophes are there, and double quotes quote nothing or make no sense."""
    broken = plain.stray_quotes or plain.unterminated
    return any(b"'" in d for d in data) and bool(broken or not plain.quoted_fields)


def apostrophes_quote(single: Profile, plain: Profile, data: Sequence[bytes], *, escaped: bool) -> bool:
    """Whether apostrophes are quotes, be it beyond doubt or not.

    Args:
        single: the sample with apostrophes as quotes.
        plain: the sample with double quotes as quotes.
        data: the sample.
        escaped: whether backslashes make sense of apostrophes inside quotes.
    """
    return _reason(single, plain, data, escaped=escaped) > _NO_REASON


def doubt_of_apostrophes(
    layout: Layout, profile: Profile, profile_of: Callable[[Layout], Profile], data: Sequence[bytes]
) -> str:
    """Why apostrophes around fields may be quotes, or data, where they were taken for the other; or an empty text."""
    if layout.quote == "'":
        plain = profile_of(msgspec.structs.replace(layout, quote='"', escape='"'))
        weak = _reason(profile, plain, data, escaped=layout.escape == "\\") == _WEAK_REASON
        return "some texts are in apostrophes, which may be quotes, or part of the values" if weak else ""
    if layout.quote != '"' or profile.quoted_fields or not _wrapped(profile):
        return ""
    single = profile_of(msgspec.structs.replace(layout, quote="'", escape="'"))
    if not _makes_sense(single, profile):
        return ""
    return "some texts of a column are in apostrophes, which may be quotes, or part of the values"


def wrapped_columns(profile: Profile, which: int) -> int:
    """Columns in which every text begins and ends with a quote that the layout does not know."""
    return sum(
        1 for column in profile.columns if column.wrapped[which] and column.kinds == {"text": column.wrapped[which]}
    )


def _reason(single: Profile, plain: Profile, data: Sequence[bytes], *, escaped: bool) -> int:
    if not single.quoted_fields or single.stray_quotes or single.unterminated:
        return _NO_REASON
    if single.regularity > plain.regularity or wrapped_columns(plain, 1) or plain.stray_quotes or plain.unterminated:
        return _REASON
    if single.quoted_fields >= max(2, single.records):
        return _REASON
    heads = [[field.text for field in head] for head in plain.heads.values()]
    # One doubled inside a field that has them around it.
    wrapped = any(column.wrapped[1] for column in plain.columns) or any(
        _is_wrapped(text) for head in heads for text in head
    )
    if wrapped and any(b"''" in d for d in data):
        return _REASON
    if not _makes_sense(single, plain):
        return _NO_REASON
    # Of a first record nobody knows yet whether it is a header.
    values = _become_values(single.columns, plain.columns) or _become_values(
        single.columns_with_heads, plain.columns_with_heads
    )
    if escaped or values or any(len(head) > 1 and all(map(_is_wrapped, head)) for head in heads):
        return _REASON
    columns = sum(bool(column.wrapped[1]) for column in plain.columns_with_heads)
    return _WEAK_REASON if columns > 1 else _NO_REASON


def _makes_sense(single: Profile, plain: Profile) -> bool:
    """Whether apostrophes stand around fields only, and around none that others divide."""
    if single.stray_quotes or single.unterminated or single.field_counts != plain.field_counts:
        return False
    return 0 < single.quoted_fields == _wrapped(plain)


def _become_values(single: Sequence[ColumnProfile], plain: Sequence[ColumnProfile]) -> bool:
    """Whether a column holds nothing but values of a type, if apostrophes around some of them are quotes."""
    return any(
        before.wrapped[1] and before.kinds["text"] == before.wrapped[1] and "text" not in after.kinds
        for before, after in zip(plain, single, strict=False)
    )


def _wrapped(profile: Profile) -> int:
    return sum(column.wrapped[1] for column in profile.columns_with_heads)


def _is_wrapped(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] == "'"
