"""The first records of sources: which columns of the table they name, and that all files begin with the same ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

from tipple.engines.base import STDIN, Identity, TableColumn
from tipple.errors import TippleError, UsageError
from tipple.plan.sniff_header import folded_names
from tipple.plan.sources import Dialect
from tipple.plan.url import cut_name, is_utf8
from tipple.run.sources import read_first_record, read_header, readable

__all__ = ["Heads", "columns_by_name", "listed", "may_hold"]

_SHOWN = 5
"""Fields of a record that a message shows."""
_SHOWN_CHARACTERS = 100
"""Characters of a field that a message shows."""


class Heads:
    """The first records of the sources, in their order; sources without any record have none."""

    def __init__(self, sources: Sequence[Identity], dialect: Dialect, dialect_plan: dict[str, Any]) -> None:
        self._sources = [source for source in sources if source.size or source.path == STDIN]
        self._named_first = sources[0].path
        self._dialect = dialect
        self._dialect_plan = dialect_plan

    def of(self, path: str) -> list[str]:
        """The fields of one source's first record; none where it cannot be read any more."""
        source = next((source for source in self._sources if source.path == path and path != STDIN), None)
        with suppress(TippleError):
            return [] if source is None else read_first_record(source, self._dialect, self._dialect_plan)
        return []

    def common(self, *, exact: bool, hint: str = "") -> list[str]:
        """The names that every source begins with.

        Args:
            exact: whether upper and lower case count, and spaces around names.
            hint: what else can be done where they differ.

        Raises:
            UsageError: the sources begin with different ones, or with none.
        """
        first: tuple[str, list[str]] | None = None
        for source in self._sources:
            names = read_header(source, self._dialect, self._dialect_plan)
            if not names:
                continue
            if first is None:
                first = source.path, names
            elif names != first[1] and (exact or folded_names(names) != folded_names(first[1])):
                raise _different(source.path, names, *first, hint)
        if first is None:
            raise UsageError(
                f"{self._named_first} is empty: it has no header", hint="check the file, or leave out --header"
            )
        return first[1]

    def columns(self, columns_of: Callable[[Sequence[str]], list[str] | None], hint: str) -> list[str] | None:
        """The columns that the first records name, where they hold nothing else.

        Args:
            columns_of: the columns for the fields of a record, or None where not all of them name one.
            hint: what else can be done where sources differ.

        Raises:
            UsageError: some sources begin with such a record, and others with another one.
        """
        heads: list[tuple[str, list[str], list[str] | None]] = []
        for source in self._sources:
            fields = read_first_record(source, self._dialect, self._dialect_plan)
            if fields:
                heads.append((source.path, fields, columns_of(fields)))
        found = next((head for head in heads if head[2] is not None), None)
        if found is None:
            return None
        for path, fields, columns in heads:
            if columns is None:
                raise UsageError(
                    f"{found[0]} begins with a header ({listed(found[1])}), but {path} does not: {listed(fields)}",
                    hint=f"load files with and without a header by commands of their own{hint}",
                )
            if columns != found[2]:
                raise _different(path, fields, found[0], found[1], hint)
        return found[2]


def columns_by_name(fields: Sequence[str], loadable: Collection[str]) -> list[str | None]:
    """The column that each field names, None where there is none: upper and lower case apart if need be, and without
    what PostgreSQL has cut off of a name that was too long for it.
    """
    folded = {name.lower(): name for name in loadable}

    def column_of(name: str) -> str | None:
        return name if name in loadable else folded.get(name.lower())

    names = [field.strip() for field in fields]
    return [column_of(name) or (column_of(cut_name(name)) if is_utf8(name) else None) for name in names]


def _different(path: str, names: Sequence[str], first_path: str, first_names: Sequence[str], hint: str) -> UsageError:
    return UsageError(
        f"{path} has another header than {first_path}: {listed(names)}, and not {listed(first_names)}",
        hint=f"load files with different headers by commands of their own{hint}",
    )


def listed(fields: Sequence[str]) -> str:
    """Fields of a record, as a message shows them."""
    shown = [
        readable(field[:_SHOWN_CHARACTERS]) + "…" * (len(field) > _SHOWN_CHARACTERS) if field else "''"
        for field in fields[:_SHOWN]
    ]
    return ", ".join(shown) + (", …" if len(fields) > _SHOWN else "")


_NUMBERS = frozenset({"int2", "int4", "int8", "integer", "float4", "float8", "numeric", "decimal"})
_MOMENTS = frozenset({"date", "time", "timetz", "timestamp", "timestamptz"})
_TRUTHS = frozenset({"t", "true", "y", "yes", "on", "1", "f", "false", "n", "no", "off", "0"})


def may_hold(column: TableColumn, text: str) -> bool:
    """Whether the column could hold this field of a first record; False only where that is beyond doubt."""
    kind = column.codec_type if isinstance(column.codec_type, str) else next(iter(column.codec_type))
    text = text.strip()
    if not text:
        return True
    if kind in _NUMBERS:
        try:
            Decimal(text)
        except InvalidOperation:
            return False
        return True
    if kind in _MOMENTS:
        return any(sign.isdigit() for sign in text)
    return kind != "bool" or text.lower() in _TRUTHS
