"""Why records were rejected, in lines for people."""

from __future__ import annotations

from collections.abc import Sequence

from tipple.errors import printable_text, shorten_text
from tipple.plan.size import format_count
from tipple.report.model import RejectCause

__all__ = ["cause_lines"]

MOST_CAUSES_SHOWN = 5


def cause_lines(causes: Sequence[RejectCause]) -> list[str]:
    """A line for each of the most frequent causes, and one for the rest."""
    lines = list(map(_line, causes[:MOST_CAUSES_SHOWN]))
    if rest := causes[MOST_CAUSES_SHOWN:]:
        others = "other causes" if len(rest) > 1 else "another cause"
        lines.append(f"{format_count(sum(cause.rejects for cause in rest))} by {others}")
    return lines


def _line(cause: RejectCause) -> str:
    column = None if cause.column is None else f"column {cause.column}"
    what = ", ".join(filter(None, (column, cause.sqlstate)))
    number = "" if cause.first_record_number is None else f", record {cause.first_record_number:,}"
    first = f"{shorten_text(cause.first_reason)} ({cause.first_file}{number})"
    return printable_text(f"{format_count(cause.rejects)} x {what or 'record'}: {first}")
