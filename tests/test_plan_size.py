"""Sizes as typed, and amounts as shown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipple.errors import UsageError
from tipple.plan.size import format_bytes, format_count, format_duration, format_rate, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("4096", 4096),
        ("4096B", 4096),
        ("64MB", 64_000_000),
        ("64m", 64_000_000),
        ("64 MiB", 64 * 2**20),
        ("64mi", 64 * 2**20),
        ("1.5GiB", 3 * 2**29),
        ("2g", 2_000_000_000),
        (".5kB", 500),
        ("1TB", 10**12),
        ("1PiB", 2**50),
        (" 1k ", 1000),
        ("0.0005kB", 1),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_parse_size(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "MB",
        "-1",
        "+1",
        "1,5GB",
        "1iB",
        "1i",
        "1e3",
        "1 2",
        "1XB",
        "0x10",
        "٣",
        "1.",
        "9223372036854775808",
        "9PB " * 2,
    ],
)
def test_refused_size(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_size(text)
    assert caught.value.hint


@given(
    st.integers(0, 2**40),
    st.sampled_from([("", 1), ("k", 10**3), ("M", 10**6), ("Ki", 2**10), ("Gi", 2**30)]),
)
def test_whole_sizes_are_exact(number: int, unit: tuple[str, int]) -> None:
    name, factor = unit
    if number * factor < 2**63:
        assert parse_size(f"{number}{name}B") == parse_size(f"{number}{name.lower()}") == number * factor


@given(st.integers(0, 2**62))
def test_shown_size_is_within_half_a_digit(size_bytes: int) -> None:
    shown = format_bytes(size_bytes)
    number, unit = shown.split()
    assert len(number.replace(".", "").replace(",", "")) <= 4
    assert abs(parse_size(shown.replace(",", "")) - size_bytes) <= size_bytes * 0.0051
    assert unit in ("B", "kB", "MB", "GB", "TB", "PB")


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9994, "9.99 kB"),
        (9996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_499, "999 kB"),
        (999_600, "1.00 MB"),
        (312_000_000, "312 MB"),
        (7_720_000_000, "7.72 GB"),
        (10_400_000_000_000_000, "10.4 PB"),
        (4_600_000_000_000_000_000, "4,600 PB"),
        (-1000, "-1.00 kB"),
    ],
)
def test_format_bytes(size_bytes: int, shown: str) -> None:
    assert format_bytes(size_bytes) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.00 s"),
        (0.42, "0.42 s"),
        (0.996, "1.0 s"),
        (3.7, "3.7 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.6, "1 h 00 min"),
        (11_000, "3 h 03 min"),
        (187_200, "2 d 04 h"),
        (-3.7, "-3.7 s"),
    ],
)
def test_format_duration(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown


@given(st.floats(0, 1e7))
def test_shown_duration_is_near_and_never_has_sixty(seconds: float) -> None:
    shown = format_duration(seconds)
    factors = {"s": 1, "min": 60, "h": 3600, "d": 86400}
    parts = re.findall(r"([0-9.]+) (\w+)", shown)
    value = sum(float(number) * factors[unit] for number, unit in parts)
    # Half of the smallest unit that is shown.
    half = 0.0051 if seconds < 0.995 else 0.051 if seconds < 9.95 else factors[parts[-1][1]] / 2
    assert abs(value - seconds) <= half
    assert " 60 " not in shown


def test_rate_and_count() -> None:
    assert format_rate(204_800_000.0) == "205 MB/s"
    assert format_count(6_001_215) == "6,001,215"
