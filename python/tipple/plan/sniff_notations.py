"""How a sample writes dates and numbers: the order of day and month, what stands before fractions, and in thousands.

A notation is taken only where the sample leaves no doubt: a day above the twelfth shows the order, and separators have
to make numbers of all that a column holds, where no others do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tipple.plan.notation import number_notation
from tipple.plan.sniff_profile import ColumnProfile, Decision, Given, Profile

__all__ = ["Notations", "Noted", "decide_notations", "local_dates"]

_DATES = frozenset({"local_date", "date", "timestamp"})
_NUMBERS = frozenset({"integer", "long_integer", "decimal"})
_OTHER_NUMBERS = frozenset({"decimal_comma", "thousands"})
_CANDIDATES = ((",", None), (",", "."), (".", ","))
_THOUSANDTHS = 3
"""Digits behind a point that may separate thousands as well."""

Notations = Mapping[int, Any]
"""The codec's `Notation` of columns by their index; the others are plain."""


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """What a sample shows of notations."""

    date_style: Decision | None = None
    decimal_separator: Decision | None = None
    thousands: Decision | None = None
    dates: list[int] = []
    """The columns that show the order of dates."""
    numbers: list[int] = []
    """The columns that would be no numbers without these separators."""

    @property
    def decisions(self) -> list[Decision]:
        """All of them."""
        found = (self.date_style, self.decimal_separator, self.thousands)
        return [decision for decision in found if decision is not None]


def local_dates(column: ColumnProfile) -> bool:
    """Whether a column holds dates only, and some in an order that only settings decide."""
    return "local_date" in column.kinds and column.kinds.keys() <= _DATES


def decide_notations(profile: Profile, given: Given, again: Callable[[Notations], Profile]) -> tuple[Noted, Notations]:
    """What was found out, and how columns are to be read by it.

    Args:
        profile: of the sample, everything read as plain.
        given: what the user says; it is not decided once more.
        again: gives the profile of the sample with columns read in notations.
    """
    found: dict[int, Any] = {}
    dates = [index for index, column in enumerate(profile.columns) if local_dates(column)]
    noted = Noted(dates=dates)
    order = given.date_style
    if order is None and (style := _date_style([profile.columns[index] for index in dates])) is not None:
        noted = msgspec.structs.replace(noted, date_style=style)
        order = style.value
    if order is not None:
        found |= {index: {"date": order.lower()} for index in dates}
    if given.decimal_separator is not None or given.thousands is not None:
        separators: tuple[str, str | None] | None = given.decimal_separator or ".", given.thousands
    else:
        numbers = _numbers(profile)
        doubtful = [index for index in numbers if profile.columns[index].kinds.keys() & _OTHER_NUMBERS]
        separators = _separators(profile, numbers, doubtful, again)
        if separators is not None:
            decimal_separator, thousands = _of_separators(*separators)
            noted = msgspec.structs.replace(
                noted, decimal_separator=decimal_separator, thousands=thousands, numbers=doubtful
            )
    if separators is not None and separators != (".", None):
        found |= dict.fromkeys(_numbers(profile), number_notation(*separators))
    return noted, found


def _date_style(columns: Sequence[ColumnProfile]) -> Decision | None:
    days_first = sum(column.first_over_12 for column in columns)
    days_second = sum(column.second_over_12 for column in columns)
    if bool(days_first) == bool(days_second):
        return None
    value, place = ("DMY", "first") if days_first else ("MDY", "second")
    reason = f"in {days_first or days_second:,} dates the {place} number is above 12"
    return Decision(option="date-style", value=value, confidence=0.97, reason=reason)


def _numbers(profile: Profile) -> list[int]:
    """The columns that hold numbers only, in whatever notation."""
    kinds = _NUMBERS | _OTHER_NUMBERS
    return [index for index, column in enumerate(profile.columns) if column.kinds and column.kinds.keys() <= kinds]


def _separators(
    profile: Profile, indexes: Sequence[int], doubtful: Sequence[int], again: Callable[[Notations], Profile]
) -> tuple[str, str | None] | None:
    """The decimal separator and what separates thousands, where some columns are numbers with these only."""
    if not doubtful:
        return None
    plain = [profile.columns[index] for index in indexes if index not in doubtful]
    has_points = any("decimal" in c.kinds and (c.scale_min, c.scale_max) != (_THOUSANDTHS,) * 2 for c in plain)
    works: dict[tuple[str, str | None], set[int]] = {}
    for separators in _CANDIDATES:
        if separators[0] == "," and has_points:
            # Numbers with a point before their fraction are there too.
            continue
        seen = again(dict.fromkeys(indexes, number_notation(*separators)))
        works[separators] = {index for index in doubtful if seen.columns[index].kinds.keys() <= _NUMBERS}
    most = max(map(len, works.values()))
    best = [separators for separators, columns in works.items() if len(columns) == most]
    # With and without thousands, the simpler is enough; with the other comma, nobody can tell.
    if not most or {decimal for decimal, _ in best} != {best[0][0]}:
        return None
    return best[0]


def _of_separators(decimal_separator: str, thousands: str | None) -> tuple[Decision | None, Decision | None]:
    def decided(option: str, value: str, reason: str) -> Decision:
        return Decision(option=option, value=value, confidence=0.9, reason=reason)

    comma = decimal_separator != "."
    return (
        decided("decimal-separator", decimal_separator, "columns are numbers with it, and none without")
        if comma
        else None,
        decided("thousands", thousands, "columns are numbers without it, and none with it") if thousands else None,
    )
