"""Times of jobs and loads as they are told: to programs in UTC, to people as this machine's clocks show them."""

from __future__ import annotations

import datetime


def in_utc(moment: datetime.datetime) -> str:
    """ISO 8601 in UTC, to the millisecond; a time without a zone is UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def for_people(text: str) -> str:
    """What `in_utc` has written, by this machine's zone, which is named."""
    return _by_this_machine(datetime.datetime.fromisoformat(text)).strftime("%Y-%m-%d %H:%M:%S %Z")


def now() -> datetime.datetime:
    """The time of day, with this machine's zone."""
    return _by_this_machine(datetime.datetime.now(datetime.UTC))


def _by_this_machine(moment: datetime.datetime) -> datetime.datetime:
    try:
        return moment.astimezone()
    except ValueError:
        # TZ may lie further from UTC than Python's zones do: a day, or more.
        return moment.astimezone(datetime.UTC)
