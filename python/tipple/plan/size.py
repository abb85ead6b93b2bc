"""Amounts as people write and read them: sizes, rates, durations, counts.

One rule for units, everywhere: an `i` makes a unit binary, all others are decimal. So `64MB` and `64m` are
64,000,000 bytes, `64MiB` and `64mi` are 67,108,864. Figures are shown in decimal units only (MB = 10^6
bytes).
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from tipple.errors import UsageError

__all__ = [
    "format_bytes",
    "format_count",
    "format_duration",
    "format_rate",
    "parse_size",
]

_UNITS = ("", "k", "m", "g", "t", "p")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)[ ]*([kmgtp]?)(i?)(b?)", re.IGNORECASE | re.ASCII)
LARGEST_BYTES = 2**63 - 1


def parse_size(text: str) -> int:
    """Bytes from `64MB`, `1.5GiB`, `2g`, `4096`. Case does not matter; a space before the unit may stand.

    A fraction of a byte is rounded to the nearest byte.

    Raises:
        UsageError: not a size, or more than 2^63 - 1 bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or (match[3] and not match[2]):
        raise UsageError(f"{text!r} is not a size", hint="write a number and a unit, for example 64MB, 1.5GiB or 2g")
    number, unit, binary, _ = match.groups()
    factor: int = (1024 if binary else 1000) ** _UNITS.index(unit.lower())
    size_bytes = math.floor(Fraction(number) * factor + Fraction(1, 2))
    if size_bytes > LARGEST_BYTES:
        raise UsageError(f"the size {text!r} is too large", hint="the largest size is 9223372036854775807 bytes")
    return size_bytes


def _scaled(amount: float) -> str:
    """Three significant digits and a unit prefix: `312 M`, `7.72 G`; whole numbers below 1000."""
    if amount < 999.5:
        return f"{amount:.0f} "
    for prefix in ("k", "M", "G", "T", "P"):
        amount /= 1000
        # The limits are where rounding would give one digit more: 9.996 is 10.0 and not 10.00.
        if amount < 9.995:
            return f"{amount:.2f} {prefix}"
        if amount < 99.95:
            return f"{amount:.1f} {prefix}"
        if amount < 999.5:
            break
    return f"{amount:,.0f} {prefix}"


def format_bytes(size_bytes: float) -> str:
    """`999 B`, `1.00 kB`, `312 MB`, `7.72 GB`: decimal units, three significant digits."""
    if size_bytes < 0:
        return f"-{format_bytes(-size_bytes)}"
    return f"{_scaled(size_bytes)}B"


def format_rate(bytes_per_second: float) -> str:
    """`205 MB/s`."""
    return f"{format_bytes(bytes_per_second)}/s"


def format_count(count: int) -> str:
    """`6,001,215`."""
    return f"{count:,}"


def format_duration(seconds: float) -> str:
    """`0.42 s`, `3.7 s`, `42 s`, `2 min 05 s`, `1 h 03 min`, `2 d 04 h`: never more than two units."""
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if seconds < 0.995:
        return f"{seconds:.2f} s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole_seconds = math.floor(seconds + 0.5)
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    minutes, rest_seconds = divmod(whole_seconds, 60)
    if minutes < 60:
        return f"{minutes} min {rest_seconds:02} s"
    hours, rest_minutes = divmod(math.floor(seconds / 60 + 0.5), 60)
    if hours < 24:
        return f"{hours} h {rest_minutes:02} min"
    days, rest_hours = divmod(math.floor(seconds / 3600 + 0.5), 24)
    return f"{days} d {rest_hours:02} h"
