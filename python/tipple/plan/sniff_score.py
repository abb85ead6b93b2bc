"""How convincing a sample is in a layout: records of equal length, and fields that look like values of some type."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tipple.plan.sniff_profile import ColumnProfile, HeadField, Layout, Profile

__all__ = ["DELIMITERS", "NEVER_IN_TEXT", "RARE_DELIMITERS", "is_empty", "padding", "score"]

DELIMITERS: Mapping[str, float] = {
    ",": 1.0, ";": 1.0, "\t": 1.0, "|": 1.0, "\x01": 1.5, "\x1f": 1.5, "^": 0.95, "~": 0.8, ":": 0.55, " ": 0.45,
}  # fmt: skip
"""What separates fields, and how usual that is."""
NEVER_IN_TEXT = frozenset("\t\x01\x1f")
"""Hardly anybody has these in a field without quotes."""
RARE_DELIMITERS = frozenset(": ~")
"""They stand in times and sentences too: taken only where they make at least three fields, one of them typed. Spaces
that align fields make none."""
_HAS_COLONS = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}(:[0-9]{2}){1,2}([.,Z+-].*)?"
    r"|(?=.*[a-f]|.*::)(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|(?=.*::)[0-9a-f]{0,4}(:[0-9a-f]{0,4}){2,7}",
    re.IGNORECASE,
)
"""Moments of any number of digits, and addresses of IPv6: one value, however it is typed."""
_CELL_SCORES = {"text": 0.75, "boolean_letter": 0.75, "leading_zero": 0.9, "not_finite": 0.9}
_NOT_TYPED = frozenset({"text", "boolean_letter", "leading_zero"})
_CELL_SCORE_DELIMITERS_INSIDE = 0.45
_CELL_SCORE_WRAPPED = 0.2
_SINGLE_COLUMN_PATTERN = 0.1
_SINGLE_TYPED_PATTERN = 0.45


def score(layout: Layout, profile: Profile) -> tuple[float, float]:
    """How convincing the sample is in this layout, and the share of fields that are values of a type."""
    if not profile.records or not profile.fields:
        return 0.0, 0.0
    total, points, typed, known = 0, 0.0, 0, 0
    for column in profile.columns:
        for kind, count in column.kinds.items():
            points += _CELL_SCORES.get(kind, 1.0) * count
            total += count
            typed += 0 if kind in _NOT_TYPED else count
        points -= (_CELL_SCORES["text"] - _CELL_SCORE_DELIMITERS_INSIDE) * column.delimiters_inside
        points -= (_CELL_SCORES["text"] - _CELL_SCORE_WRAPPED) * sum(column.wrapped)
        nulls = column.empty + column.quoted_empty + sum(column.null_words.values())
        points += 0.9 * nulls
        total += nulls
        known += nulls
    if not total:
        # Nothing but first records.
        fields = [field for head in profile.heads.values() for field in head]
        total = max(1, len(fields))
        points = sum(_head_score(field) for field in fields)
        typed = sum(field.kind not in _NOT_TYPED for field in fields)
    meaning, typed_share = points / total, typed / total
    if profile.fields == 1 and not layout.trails:
        # What stands for NULL is no sign that values were cut the wrong way.
        pattern = _SINGLE_TYPED_PATTERN if 0 < typed == total - known else _SINGLE_COLUMN_PATTERN
    else:
        pattern = max(0.5, 1 - 1 / profile.fields)
    pattern *= profile.regularity**4
    weight = DELIMITERS.get(layout.delimiter, 1.0)
    filled = profile.fields - len(padding(layout, profile))
    if layout.delimiter in RARE_DELIMITERS and (filled < 3 or not typed or _divides_values(layout, profile)):
        weight *= 0.2
    quoting = 1 / (1 + 3 * profile.stray_quotes / profile.records)
    if profile.unterminated:
        quoting *= 0.3
    elif profile.quoted_fields and not profile.stray_quotes:
        quoting *= 1.1
    return pattern * meaning * weight * quoting, typed_share


def _divides_values(layout: Layout, profile: Profile) -> bool:
    """Whether the first records are such values."""
    if layout.delimiter != ":" or not profile.heads:
        return False
    firsts = (":".join(field.text for field in head) for head in profile.heads.values())
    return all(_HAS_COLONS.fullmatch(first.strip()) for first in firsts)


def padding(layout: Layout, profile: Profile) -> list[int]:
    """The columns that are nothing but spaces which align other fields, where spaces divide fields."""
    if layout.delimiter != " ":
        return []
    return [index for index, column in enumerate(profile.columns_with_heads) if is_empty(column)]


def is_empty(column: ColumnProfile) -> bool:
    """Whether all fields of a column are empty, and none of them is in quotes."""
    return bool(column.empty) and not (column.kinds or column.null_words or column.quoted_empty)


def _head_score(field: HeadField) -> float:
    if field.kind == "text" and not field.marked and any(c in field.text for c in ",;|\t"):
        return _CELL_SCORE_DELIMITERS_INSIDE
    return _CELL_SCORES.get(field.kind, 1.0)
