"""What `tipple sniff` finds out about a file, without the command around it."""

from __future__ import annotations

from pathlib import Path

from tipple.plan.sniff_columns import column_types
from tipple.plan.sniff_profile import Decision, Given
from tipple.run.sniff import Sniffed, Sniffer


def sniff(path: Path, expected_fields: int | None = None, **given: str) -> Sniffed:
    """Looks at the file, with those options `given`, and a table of so many columns in mind."""
    return Sniffer([str(path)], "auto", Given(**given)).look(expected_fields)


def types(sniffed: Sniffed, *, unbounded_numeric: bool = True) -> list[str]:
    """The types of the columns, as CREATE TABLE would have them."""
    found = column_types(sniffed.profile, sniffed.dialect.null_text, unbounded_numeric=unbounded_numeric)
    return [type_text for type_text, _ in found]


def decision(sniffed: Sniffed, option: str) -> Decision:
    """What was decided for an option, and why."""
    return next(decision for decision in sniffed.decisions if decision.option == option)
