"""Which fields of delimited text go into which columns, and which ones are left out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from tipple.engines.base import TableColumn
from tipple.errors import UsageError
from tipple.plan.sniff_names import clean_names
from tipple.plan.url import cut_name, fold_identifier, quote_identifier
from tipple.run.header import columns_by_name

__all__ = [
    "LEFT_OUT",
    "by_field",
    "head_of_match",
    "head_of_wanted",
    "left_out_of",
    "named_columns",
    "names_of",
    "option_for",
    "places_in",
]

LEFT_OUT = "-"
"""What stands in `--columns` for a field that no column takes."""


def names_of(wanted: Sequence[str]) -> list[str]:
    """The columns among what `--columns` says."""
    return [name for name in wanted if name.strip() != LEFT_OUT]


def left_out_of(wanted: Sequence[str]) -> tuple[int, ...]:
    """The fields, by index, that `--columns` leaves out by their place."""
    return tuple(index for index, name in enumerate(wanted) if name.strip() == LEFT_OUT)


def places_in(head: Sequence[str]) -> tuple[int, ...]:
    """The fields that `head_of_wanted` has found to be left out."""
    return tuple(index for index, name in enumerate(head) if not name)


def head_of_wanted(
    fields: Sequence[str], known: Mapping[str, TableColumn], wanted: Sequence[str], columns: Sequence[str]
) -> list[str] | None:
    """By field of a first record the column that takes it, an empty text where none does; None where it names not all.

    Args:
        fields: the record's.
        known: the table's columns.
        wanted: what `--columns` says.
        columns: the names of the columns that it means.
    """
    places = left_out_of(wanted)
    # A table that was made for such a header has its names as `--schema auto` writes them.
    cleaned = clean_names(fields)
    named = [
        name or (made if made in columns else None)
        for name, made in zip(columns_by_name(fields, known), cleaned, strict=True)
    ]
    if places:
        head = ["" if index in places else name or "" for index, name in enumerate(named)]
        return head if [name for index, name in enumerate(head) if index not in places] == list(columns) else None
    head = [name if name is not None and name in columns else "" for name in named]
    return head if sorted(filter(None, head)) == sorted(columns) else None


def head_of_match(
    fields: Sequence[str],
    known: Mapping[str, TableColumn],
    wanted: Sequence[str],
    columns: Sequence[str],
    where: str,
) -> list[str]:
    """What `head_of_wanted` finds for a header that is to be gone by.

    Args:
        where: the header, for a message.

    Raises:
        UsageError: it does not name every column that `--columns` does, or one of them twice.
    """
    head = head_of_wanted(fields, known, wanted, columns)
    if head is not None:
        return head
    named = columns_by_name(fields, known)
    lacking = next((name for name in columns if name not in named), None)
    shown = f"{where} names {', '.join(fields[:8])}{', …' if len(fields) > 8 else ''}, but"
    if lacking is not None:
        raise UsageError(
            f"{shown} no column {lacking}, which is in --columns",
            hint="name columns of the header; those of other fields are left out",
        )
    twice = next((name for name in columns if named.count(name) > 1), None)
    if twice is None or left_out_of(wanted):
        raise UsageError(
            f"{shown} --columns {','.join(wanted)}",
            hint="where --columns has -, it says for each field in turn what becomes of it: name the columns in the "
            "order of the header, or leave out -",
        )
    taken = [name if name in columns and name not in named[:place] else None for place, name in enumerate(named)]
    raise UsageError(
        f"{where} names the column {twice} twice",
        hint=f"say by their places which fields are loaded: {option_for(taken, header='yes')}",
    )


def option_for(names: Sequence[str | None], *, header: str = "match") -> str:
    """`--header` and `--columns` for fields in their order, None for one that is left out; ready for a shell."""
    quoted = [
        LEFT_OUT if name is None else name if re.fullmatch("[a-z_][a-z0-9_]*", name) else quote_identifier(name)
        for name in names
    ]
    return f"--header {header} --columns {shlex.quote(','.join(quoted))}"


def by_field(columns: Sequence[TableColumn], left_out: Sequence[int]) -> list[TableColumn | None]:
    """The column of each field, None where it has none."""
    found: list[TableColumn | None] = list(columns)
    for index in left_out:
        found.insert(index, None)
    return found


def named_columns(
    names: Sequence[str],
    loadable: Mapping[str, TableColumn],
    all_names: set[str],
    where: str,
    *,
    exact: bool = False,
    missing: str = "is not a column of the table",
    remedy: Callable[[str], str] | None = None,
) -> list[TableColumn]:
    """The columns with these names: as they are, else folded as SQL folds them.

    Args:
        names: what somebody has named.
        loadable: the columns that may be.
        all_names: those of the whole table.
        where: who says the names.
        exact: whether nothing is folded.
        missing: what is said of a name that there is not.
        remedy: what else can be done about such a name.

    Raises:
        UsageError: a name is unknown, or there twice, or there is none.
    """
    chosen: dict[str, TableColumn] = {}
    folded = {name.lower(): name for name in loadable}
    for given in names:
        given = given if given in loadable else given.strip()
        name = given if given in loadable or exact else fold_identifier(given)
        if name not in loadable and not exact and not given.startswith('"'):
            name = folded.get(name.lower(), name)
        if name not in loadable and not exact:
            name = next((cut for cut in (cut_name(given), cut_name(name)) if cut in loadable), name)
        if name not in loadable:
            reason = "is a generated column" if name in all_names else missing
            hint = f"columns to load: {', '.join(loadable)}"
            if given and remedy is not None and reason == missing:
                hint += f"; {remedy(given)}"
            raise UsageError(f"{where} names {given!r}, which {reason}", hint=hint)
        if name in chosen:
            raise UsageError(f"{where} names the column {name} twice", hint="name every column once")
        chosen[name] = loadable[name]
    if not chosen:
        raise UsageError(f"{where} names no column", hint="name at least one")
    return list(chosen.values())
