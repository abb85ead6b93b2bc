"""What tests with many rounds counted: shown at the end of the run, whichever process the test ran in."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

COUNTS: list[str] = []
"""Of the test that runs now."""

PROPERTY = "faults injected"


def attach(report: pytest.TestReport) -> None:
    """Have the test's report carry its counts: reports are all that a worker hands back."""
    if report.when == "call":
        report.user_properties.extend((PROPERTY, text) for text in COUNTS)
        COUNTS.clear()


def attached(reports: Iterable[object]) -> list[str]:
    """The counts of all reports."""
    return [
        str(text)
        for report in reports
        for name, text in getattr(report, "user_properties", ())
        if name == PROPERTY and getattr(report, "when", "") == "call"
    ]
