"""How the fields of delimited text are written, by column, and whether the target reads what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tipple.engines.base import TableColumn
from tipple.plan.notation import MONEY, notations, refuse_numbers
from tipple.plan.sources import Dialect


def notations_of(columns: Sequence[TableColumn], dialect: Dialect) -> list[Any]:
    """The codec's `Notation` of columns; none where all are plain.

    Raises:
        UsageError: the target would make another number of one that is written anew.
    """
    found = notations(
        [(column.codec_type, MONEY if column.is_money else column.type_text) for column in columns],
        date_style=dialect.date_style,
        decimal_separator=dialect.decimal_separator,
        thousands=dialect.thousands,
    )
    for column, notation in zip(columns, found, strict=False):
        if notation != "plain" and column.misreading is not None:
            separator = dialect.decimal_separator or "."
            options = (
                f"--decimal-separator {separator}"
                if dialect.thousands is None
                else (f"--decimal-separator {separator} --thousands {dialect.thousands}")
            )
            refuse_numbers(column.name, column.type_text, f"numbers as {options} has them", column.misreading)
    return found
