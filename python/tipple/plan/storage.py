"""The room that a table, its partitions and its indexes take, as data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["StorageSize", "as_tree", "depths"]


class StorageSize(msgspec.Struct, frozen=True, kw_only=True):
    """The room that a table, a partition or an index takes."""

    name: Annotated[str, Meta(description="Its name, as the engine writes it.")]
    kind: Annotated[str, Meta(description="table, partitioned table, partition, index, materialized view.")]
    parent: Annotated[str | None, Meta(description="The table that a partition or an index belongs to.")] = None
    bound: Annotated[str | None, Meta(description="A partition's bounds, as the engine writes them.")] = None
    lower_bound: Annotated[
        str | None, Meta(description="The least key of a range partition, as SQL; null for anything else.")
    ] = None
    upper_bound: Annotated[
        str | None, Meta(description="The key at which the next range partition begins; null for anything else.")
    ] = None
    pages: Annotated[int, Meta(description="Pages (PostgreSQL) or blocks (DuckDB) of rows or keys.", ge=0)]
    bytes: Annotated[int, Meta(description="Bytes on disk, large values and free space map included.", ge=0)]
    rows: Annotated[
        int | None, Meta(description="Rows as the engine's statistics have them; null where they do not say.")
    ]


def as_tree(sizes: Sequence[StorageSize]) -> list[StorageSize]:
    """The same in the order in which they belong together: each table with its indexes, then its partitions by bound.

    Partitioned tables, which have no rows of their own, get what their partitions have together.
    """
    children: dict[str, list[StorageSize]] = {}
    for size in sizes:
        if size.parent is not None:
            children.setdefault(size.parent, []).append(size)
    # Of a partition that is asked for alone, the table is not there.
    names = {size.name for size in sizes}
    return [row for size in sizes if size.parent not in names for row in _branch(size, children)]


def depths(sizes: Sequence[StorageSize]) -> list[int]:
    """How many others each belongs to, one to the next, in the order of `as_tree`."""
    known: dict[str | None, int] = {}
    found = []
    for size in sizes:
        found.append(known.get(size.parent, -1) + 1)
        # In DuckDB, an index may have the name of its table.
        known.setdefault(size.name, found[-1])
    return found


def _branch(size: StorageSize, children: dict[str, list[StorageSize]]) -> list[StorageSize]:
    below = children.get(size.name, [])
    indexes = [child for child in below if child.kind != "partition"]
    branches = [_branch(child, children) for child in sorted(below, key=_order) if child.kind == "partition"]
    if branches:
        parts = [branch[0] for branch in branches]
        rows = [part.rows for part in parts]
        size = msgspec.structs.replace(
            size,
            pages=sum(part.pages for part in parts),
            bytes=sum(part.bytes for part in parts),
            rows=None if None in rows else sum(count or 0 for count in rows),
        )
    return [size, *indexes, *(row for branch in branches for row in branch)]


def _order(size: StorageSize) -> tuple[int, float, str]:
    """Where a partition stands: numbers as numbers, other keys as text, the default partition last."""
    lower = size.lower_bound
    if lower is None:
        return (3, 0, "") if size.bound == "DEFAULT" else (2, 0, _with_whole_numbers(size.bound or ""))
    if lower.startswith("MINVALUE"):
        return 0, 0, ""
    try:
        return 1, float(lower.strip("'")), ""
    except ValueError:
        return 1, 0, _with_whole_numbers(lower)


def _with_whole_numbers(text: str) -> str:
    """A text by which numbers in it, such as remainders, come in their order."""
    return re.sub(r"\d+", lambda found: found[0].rjust(20, "0"), text)
