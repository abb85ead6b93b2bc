"""How a sample writes dates and numbers: the order of day and month, what stands before fractions, and in thousands.

An order or a separator says something of a whole file, so it is taken only where nothing speaks against it: a wrong one
would store other values and say nothing. A tenth of the dates have to show the order (a single one may be a mistake),
with all digits of the year. A decimal comma is taken where commas do not separate fields, no number has a point that
cannot stand between thousands, and all that is doubtful becomes a number by it. Commas between thousands are never
taken by themselves: `101,102` may be two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from tipple.plan.notation import number_notation
from tipple.plan.sniff_profile import ColumnProfile, Decision, Given, Profile

__all__ = ["NUMBERS", "Notations", "Noted", "decide_notations", "local_dates", "notations_of"]

_MOMENTS = frozenset({"date", "timestamp", "timestamptz"})
_LOCAL = frozenset({"local_date", "doubtful_date"})
NUMBERS = frozenset({"integer", "long_integer", "decimal", "float", "not_finite"})
"""Kinds of values that types of numbers read as they are."""
_WITH_COMMAS = frozenset({"decimal_comma", "thousands"})
_ALL_NUMBERS = NUMBERS | _WITH_COMMAS
_WITH_POINTS = frozenset({"decimal", "float"})
_SHARE = 0.1
"""So many of the values have to show an order, or a comma."""

Notations = Mapping[int, Any]
"""The codec's `Notation` of columns by their index; the others are plain."""


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """What a sample shows of notations."""

    date_style: Decision | None = None
    decimal_separator: Decision | None = None
    thousands: Decision | None = None

    @property
    def decisions(self) -> list[Decision]:
        """All of them."""
        found = (self.date_style, self.decimal_separator, self.thousands)
        return [decision for decision in found if decision is not None]

    def added_to(self, given: Given) -> Given:
        """What the user says, and else what is shown."""
        return msgspec.structs.replace(
            given, **{decision.option.replace("-", "_"): decision.value for decision in self.decisions}
        )


def local_dates(column: ColumnProfile) -> bool:
    """Whether a column holds dates only, and some in an order that only settings decide."""
    return not column.kinds.keys().isdisjoint(_LOCAL) and column.kinds.keys() <= _LOCAL | _MOMENTS


def decide_notations(
    profile: Profile,
    given: Given,
    again: Callable[[Notations], Profile],
    *,
    delimiter: str,
    dates: Collection[int] | None = None,
    numbers: Collection[int] | None = None,
) -> Noted:
    """What was found out.

    Args:
        profile: of the sample, everything read as plain.
        given: what the user says; it is not decided once more.
        again: gives the profile of the sample with columns read in notations.
        delimiter: what separates fields.
        dates, numbers: the columns that are to hold such values, where a table says which; others show nothing.
    """
    style = separators = None
    if given.date_style is None:
        wanted = [c for i, c in enumerate(profile.columns) if dates is None or i in dates]
        # Of two digits each, nobody can tell the year.
        if not any(local_dates(column) and "doubtful_date" in column.kinds for column in wanted):
            style = _date_style(wanted)
    if given.decimal_separator is None and given.thousands is None and delimiter != ",":
        indexes = _numbers(profile) if numbers is None else [i for i in numbers if i < len(profile.columns)]
        separators = _separators(profile, indexes, again)
    decimal_separator, thousands, doubt = separators or (None, None, "")
    confidence = 0.6 if doubt else 0.95
    return Noted(
        date_style=style,
        decimal_separator=_decided(
            "decimal-separator", decimal_separator, doubt or "columns are numbers with it, and none without", confidence
        ),
        thousands=_decided(
            "thousands", thousands, doubt or "columns are numbers without it, and none with it", confidence
        ),
    )


def notations_of(profile: Profile, given: Given, again: Callable[[Notations], Profile]) -> Notations:
    """How columns are to be read to see what they hold: by what the user says, and what was decided.

    Args:
        profile: of the sample, everything read as plain.
        given: the options.
        again: as for `decide_notations`.
    """
    found: dict[int, Any] = {}
    everywhere = range(len(profile.columns))
    if given.decimal_separator is not None or given.thousands is not None:
        notation = number_notation(given.decimal_separator or ".", given.thousands)
        seen = again(dict.fromkeys(everywhere, notation)).columns
        known = set(_numbers(profile))
        found |= {index: notation for index in everywhere if index in known or _holds(seen[index], NUMBERS)}
    if given.date_style is not None:
        order = {"date": given.date_style.lower()}
        seen = again(dict.fromkeys(everywhere, order)).columns
        found |= {
            index: order
            for index in everywhere
            # With the year first, most are not known for dates as they stand; else codes such as 24-01-0001 are none.
            if _holds(seen[index], _MOMENTS) and (given.date_style == "YMD" or local_dates(profile.columns[index]))
        }
    return found


def _holds(column: ColumnProfile, kinds: Collection[str]) -> bool:
    return bool(column.kinds) and column.kinds.keys() <= set(kinds)


def _date_style(columns: Sequence[ColumnProfile]) -> Decision | None:
    local = [column for column in columns if local_dates(column)]
    days_first = sum(column.first_over_12 for column in local)
    days_second = sum(column.second_over_12 for column in local)
    dates = sum(column.kinds.get("local_date", 0) for column in local)
    shown = days_first + days_second
    if bool(days_first) == bool(days_second) or shown < _SHARE * dates:
        return None
    value, place = ("DMY", "first") if days_first else ("MDY", "second")
    reason, confidence = f"in {shown:,} of {dates:,} dates the {place} number is above 12", 0.95
    # Who writes 13.02.2024 in one column may have got 02/06/2024 in another one from somebody else.
    known = {separator for column in local if _shows_order(column) for separator in column.date_separators}
    unknown = {separator for column in local if not _shows_order(column) for separator in column.date_separators}
    if unknown - known:
        reason += f", but none shows the order of those with {' or '.join(sorted(unknown - known))} in them"
        confidence = 0.6
    return _decided("date-style", value, reason, confidence)


def _shows_order(column: ColumnProfile) -> bool:
    return bool(column.first_over_12 or column.second_over_12)


def _numbers(profile: Profile) -> list[int]:
    """The columns that hold numbers only, in whatever notation."""
    return [index for index, column in enumerate(profile.columns) if _holds(column, _ALL_NUMBERS)]


def _separators(
    profile: Profile, indexes: Sequence[int], again: Callable[[Notations], Profile]
) -> tuple[str, str | None, str] | None:
    """A decimal comma, what separates thousands, and what is to be doubted of it, where some columns are numbers with
    these only.

    Beside a decimal comma `1.234` is taken for thousands, if all numbers with points are such.
    """
    columns = {index: profile.columns[index] for index in indexes}
    with_points = [i for i, column in columns.items() if not column.kinds.keys().isdisjoint(_WITH_POINTS)]
    doubtful = [
        i for i, c in columns.items() if _holds(c, _ALL_NUMBERS) and not c.kinds.keys().isdisjoint(_WITH_COMMAS)
    ]
    if not any(_share(columns[index], "decimal_comma") >= _SHARE for index in doubtful):
        return None
    doubt = "numbers such as 1.234 are taken for thousands, because other columns have decimal commas"
    for thousands in (".",) if with_points else (None, "."):
        seen = again(dict.fromkeys(indexes, number_notation(",", thousands))).columns
        if all(_holds(seen[index], NUMBERS) for index in (*doubtful, *with_points)):
            return ",", thousands, doubt if with_points else ""
    return None


def _share(column: ColumnProfile, kind: str) -> float:
    return column.kinds.get(kind, 0) / sum(column.kinds.values())


def _decided(option: str, value: str | None, reason: str, confidence: float = 0.95) -> Decision | None:
    return None if value is None else Decision(option=option, value=value, confidence=confidence, reason=reason)
