"""Which type a remedy names where a value does not fit the one that was guessed."""

from __future__ import annotations

import pytest

from tipple.plan.sniff_columns import wider_type


@pytest.mark.parametrize(
    ("guessed", "value", "wider"),
    [
        ("bigint", "1.5", "numeric"),
        ("bigint", "99999999999999999999", "numeric"),
        ("bigint", "1e5", "text"),
        ("bigint", "1.5e5", "double precision"),
        ("bigint", "x", "text"),
        ("numeric", "1e5", "double precision"),
        ("date", "2024-01-01 12:00", "timestamp"),
        ("timestamp", "2024-01-01 12:00:00+02", "timestamp with time zone"),
        ("date", "31.12.2024", "text"),
        ("boolean", "maybe", "text"),
        ("uuid", None, "text"),
        ("bigint", "00123", "text"),
        ("bigint", "+5", "text"),
        ("bigint", "12\u00a0", "text"),
        ("date", "2024-01-01 12:00:00.1234567", "text"),
        ("timestamp", "2024-01-01 12:00:00.1234567", "text"),
    ],
)
def test_wider_types(guessed: str, value: str | None, wider: str) -> None:
    assert wider_type(guessed, value, unbounded_numeric=True) == wider
    # There is no `numeric` without limits then, and a double would lose digits of the long integer.
    expected = {"1.5": "double precision", "99999999999999999999": "decimal(38,0)"}.get(value or "", wider)
    assert wider_type(guessed, value, unbounded_numeric=False) == expected


@pytest.mark.parametrize(
    ("guessed", "value", "wider"),
    [
        ("decimal(18,1)", "123456789012345678.123", "decimal(38,3)"),
        ("decimal(18,4)", "1234567890123456.5", "decimal(38,4)"),
        ("decimal(18,2)", "0.12345", "decimal(38,5)"),
        ("decimal(38,10)", "12345678901234567890123456789.5", "text"),
        ("decimal(18,2)", "1e5", "text"),
    ],
)
def test_wider_decimals(guessed: str, value: str, wider: str) -> None:
    """A double would store other numbers."""
    assert wider_type(guessed, value, unbounded_numeric=False) == wider
