"""A layout that a sample may have, what the sample looks like in it, and what that says of it."""

from __future__ import annotations

import msgspec

from tipple.plan.sniff_profile import Layout, Profile

__all__ = ["Candidate"]

_ENCLOSED_BY_STRAY = 100
"""So many fields in quotes make a broken record of one whose quotes are out of place."""


class Candidate(msgspec.Struct, frozen=True):
    """A layout that is tried on a sample."""

    layout: Layout
    profile: Profile
    score: float
    typed: float
    """The share of fields that are values of a type."""

    @property
    def healthy(self) -> bool:
        """Whether all records have the same fields, several of them, and no quote is out of place."""
        profile = self.profile
        several = profile.fields > 1 or self.layout.trails
        return several and profile.regularity == 1.0 and not profile.unterminated and not profile.stray_quotes

    @property
    def is_single(self) -> bool:
        """Whether all records are one field each."""
        profile = self.profile
        return profile.fields == 1 == profile.regularity and not profile.stray_quotes and not profile.unterminated

    @property
    def has_nulls(self) -> bool:
        """Whether `\\N` stands for NULL."""
        return any(column.null_words.get("\\N") for column in self.profile.columns_with_heads)

    @property
    def makes_sense_of_quotes(self) -> bool:
        """Whether some fields are in quotes, and hardly a quote is anything else."""
        profile = self.profile
        few_strays = _ENCLOSED_BY_STRAY * profile.stray_quotes <= profile.enclosed_fields
        return bool(profile.quoted_fields) and few_strays and not profile.unterminated

    def quotes_instead_of(self, text: Candidate) -> bool:
        """Whether this makes sense of quotes that are data in COPY's text format, and of as many records."""
        formats = self.layout.format == "csv" and text.layout.format == "text"
        # Of a single column that is not all in quotes, they may as well be those of titles.
        return (
            formats
            and self.profile.fields > 1
            and self.makes_sense_of_quotes
            and self.profile.regularity >= text.profile.regularity
        )

    @property
    def quotes_every_value(self) -> bool:
        """Whether this is a single column of which all is in quotes but what is empty."""
        profile = self.profile
        if profile.fields != 1 or not self.makes_sense_of_quotes:
            return False
        empty = sum(column.empty for column in profile.columns_with_heads)
        return profile.regularity == 1.0 and profile.quoted_fields + empty >= profile.records
