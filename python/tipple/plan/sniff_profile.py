"""What a sample looks like, what the user said of it, and what was decided: the words in which sniffing speaks."""

from __future__ import annotations

from typing import Any

import msgspec

from tipple.plan.decodable import decodable

__all__ = ["LOW_CONFIDENCE", "Chunk", "ColumnProfile", "Decision", "Given", "HeadField", "Layout", "Profile"]

LOW_CONFIDENCE = 0.7
"""Below this, a decision is one that the user should look at."""


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a source, in UTF-8."""

    file: int
    """Which of the sampled sources."""
    begins: bool
    """Whether it begins where the source begins."""
    ends: bool
    """Whether it ends where the source ends."""
    data: bytes


class HeadField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a source's first record."""

    text: str
    kind: str
    marked: bool


class ColumnProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What the fields of a column look like; the core's struct of this name says what each figure counts."""

    empty: int
    quoted_empty: int
    null_words: dict[str, int]
    kinds: dict[str, int]
    wrapped: tuple[int, int]
    delimiters_inside: int
    longest: int
    shortest: int
    scale_min: int
    scale_max: int
    whole_digits: int
    inexact: int
    first_over_12: int
    second_over_12: int
    date_separators: set[str] = set()
    letters: tuple[bool, bool]
    like_head: int
    numbered_like_head: int = 0
    years: int = 0
    numbered: int = 0
    quoted_null_words: dict[str, int] = {}


@decodable
class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A sample as it looks in one dialect; made by the core."""

    line_end: str | None
    records: int
    field_counts: dict[int, int]
    fields: int
    last_empty: int
    unterminated: int
    stray_quotes: int
    quoted_fields: int
    enclosed_fields: int
    files: dict[int, tuple[int, int]]
    heads: dict[int, list[HeadField]]
    columns: list[ColumnProfile]
    """Without the first record of each file."""
    columns_with_heads: list[ColumnProfile]
    """With it."""

    @property
    def regularity(self) -> float:
        """The share of records with the usual number of fields."""
        return self.field_counts.get(self.fields, 0) / self.records if self.records and self.fields else 0.0


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What separates and quotes fields: as much of a dialect as has to be known to see the fields."""

    format: str
    """`csv`, `text` or `tbl`."""
    delimiter: str
    quote: str | None = None
    escape: str | None = None
    trailing: bool = False
    """Whether a delimiter stands after the last field too; in `tbl` it always does."""

    @property
    def trails(self) -> bool:
        return self.trailing or self.format == "tbl"

    @property
    def codec(self) -> dict[str, Any]:
        """The codec's `Dialect`."""
        return {
            "family": {"csv": "csv", "text": "text", "tbl": "plain"}[self.format],
            "delimiter": ord(self.delimiter),
            "quote": ord(self.quote or '"'),
            "escape": ord(self.escape or self.quote or '"'),
            "null_text": "",
            "trailing_delimiter": self.trails,
            "line_end": "lf",
        }


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What the user said; it is never sniffed. Characters are resolved ones."""

    delimiter: str | None = None
    quote: str | None = None
    escape: str | None = None
    null_text: str | None = None
    header: str | None = None
    encoding: str | None = None
    trailing_delimiter: bool | None = None
    skip_lines: int = 0
    comment: str | None = None
    force_null: tuple[str, ...] = ()
    force_not_null: tuple[str, ...] = ()
    field_widths: tuple[int, ...] | None = None
    date_style: str | None = None
    decimal_separator: str | None = None
    thousands: str | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found out."""

    option: str
    """The option that would say the same."""
    value: str
    confidence: float
    """0 to 1."""
    reason: str
    alternatives: tuple[str, ...] = ()
    """Other values."""
    alternative_reasons: tuple[str, ...] = ()
    """What speaks for them, where that was counted."""
