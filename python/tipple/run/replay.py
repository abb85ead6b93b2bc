"""How a load has read its sources, kept beside its rejects: `--replay` reads and judges them the same way.

Looking at the sources once more would not tell: the table is there by then, so its columns are no guess any more, and
a value that a guessed type had refused would be stored changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tipple.engines.base import TableColumn
from tipple.errors import TippleError, UsageError
from tipple.plan.decodable import decodable
from tipple.plan.rejects import RejectPolicy
from tipple.plan.sniff_profile import Given
from tipple.plan.sources import Dialect, plan_dialect

__all__ = ["Reading", "find_reading", "read_reading"]


@decodable
class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How records become rows of a table."""

    job: str = ""
    """The job whose rejects they are; empty where that is not known."""
    written_by: str = ""
    """The job that has written the files: that one, or the last replay; empty where that is not known."""
    table: str
    """Its name, as SQL spells it."""
    dialect: Dialect
    columns: list[str]
    """Those of the records' fields, in their order."""
    guessed: dict[str, Any]
    """The core's `Guessed` of columns whose types were guessed."""
    open_ended: list[bytes] = []
    """What the rejects begin with, the first thousand, that end inside quotes, and would take the record behind them
    with them."""

    @property
    def json(self) -> bytes:
        """As it is kept."""
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"

    def dialect_with(self, options: Given) -> Dialect:
        """The dialect, where `--format auto` is asked for beside these options."""
        kept = self.dialect
        return plan_dialect(
            kept.format,
            delimiter=options.delimiter or kept.delimiter,
            quote=options.quote or kept.quote,
            escape=options.escape or options.quote or kept.escape,
            null_text=kept.null_text if options.null_text is None else options.null_text,
            trailing_delimiter=(
                kept.trailing_delimiter if options.trailing_delimiter is None else options.trailing_delimiter
            ),
            force_null=options.force_null or kept.force_null,
            force_not_null=options.force_not_null or kept.force_not_null,
            field_widths=options.field_widths or kept.widths or None,
            date_style=options.date_style or kept.date_style,
            decimal_separator=options.decimal_separator or kept.decimal_separator,
            thousands=options.thousands or kept.thousands,
        )

    def kinds(self, columns: Sequence[TableColumn]) -> list[tuple[int, Any]]:
        """Which of the columns have guessed types, and the core's `Guessed` of each."""
        return [
            (index, self.guessed[column.name]) for index, column in enumerate(columns) if column.name in self.guessed
        ]


def find_reading(policy: RejectPolicy) -> Reading | None:
    """What was kept beside the rejects that are to be replayed; None where there is nothing.

    Raises:
        TippleError: it cannot be read.
        UsageError: a record that is not mended would be read together with the one behind it.
    """
    reading = read_reading(policy)
    if reading is not None and reading.open_ended:
        _refuse_open_ended(policy, reading.open_ended)
    return reading


def read_reading(policy: RejectPolicy) -> Reading | None:
    """What was kept beside rejects; None where there is nothing, as of rejects that somebody has put together.

    Raises:
        TippleError: it cannot be read.
    """
    with suppress(FileNotFoundError):
        try:
            with open(policy.reading_path, "rb") as file:
                return msgspec.json.decode(file.read(), type=Reading)
        except (msgspec.DecodeError, IsADirectoryError, PermissionError) as error:
            raise TippleError(
                f"cannot read {policy.reading_path}, which says how the rejects are to be read: {error}",
                hint="load the sources again by the same command without --replay, which loads nothing twice and "
                "writes it; without that file the options are found out from the sources",
            ) from None
    return None


def _refuse_open_ended(policy: RejectPolicy, records: Sequence[bytes]) -> None:
    """Refuses a file in which another record stands behind one that ends inside quotes, and was not mended."""
    with open(policy.path, "rb") as file:
        rejects = file.read()
    for record in records:
        found = re.search(rb"(?:\A|[\r\n])" + re.escape(record), rejects)
        if found is not None and rejects[found.end() :].strip():
            line = record.splitlines()[0].decode(errors="replace")
            raise UsageError(
                f"{policy.path}: a quote is missing or too many in {line}; the records behind it would go with it",
                hint="mend that record, or take it out of the file",
            )
