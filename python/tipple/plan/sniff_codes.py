"""Codes that a number's input function would take: `12E5` is the number of a part, of a grant, of a commit.

Hardly a program prints a number like that: they write a point, or a sign behind the `E`. As a `double precision` the
code is lost, as a text nothing is.
"""

from __future__ import annotations

import re

import msgspec

from tipple.plan.sniff_profile import Chunk, ColumnProfile, Profile

__all__ = ["CODE", "is_code", "mark_codes", "masked"]

CODE = "code"
"""The kind of such values, beside the core's ones."""
_CODE_ALONE = re.compile(r"\d+[eE]\d+", re.ASCII)
_CODE_IN_TEXT = re.compile(rb"(?<![\w.+-])(\d+)[eE](\d+)(?![\w.+-])")
_BESIDE_CODES = frozenset({"integer", "long_integer", "float"})


def is_code(value: str) -> bool:
    """Whether a value is digits, an `E`, and digits."""
    return _CODE_ALONE.fullmatch(value.strip()) is not None


def masked(chunk: Chunk) -> Chunk:
    """The chunk with texts of the same length in place of codes."""
    return msgspec.structs.replace(chunk, data=_CODE_IN_TEXT.sub(rb"\1x\2", chunk.data))


def mark_codes(profile: Profile, without_codes: Profile) -> Profile:
    """The profile, with codes where a column's only floats are such.

    Args:
        profile: of the sample.
        without_codes: of the sample that is `masked`.
    """
    return msgspec.structs.replace(
        profile,
        columns=list(map(_mark, profile.columns, without_codes.columns)),
        columns_with_heads=list(map(_mark, profile.columns_with_heads, without_codes.columns_with_heads)),
    )


def _mark(column: ColumnProfile, without_codes: ColumnProfile) -> ColumnProfile:
    kinds = dict(column.kinds)
    if not kinds.keys() <= _BESIDE_CODES or "float" in without_codes.kinds or "float" not in kinds:
        return column
    return msgspec.structs.replace(column, kinds={(CODE if kind == "float" else kind): n for kind, n in kinds.items()})
