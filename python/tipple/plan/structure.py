"""`--structure` and `--load-as`: what a table is once it is loaded, and what it is while rows come in. Pure data.

    heap          rows as they come, without an order
    btree         rows with a primary key, or another unique key (`--key`)
    sorted        rows stored in the order of a key, so that small summaries of ranges of rows replace an index
    columnstore   column by column
    memory        not written to the log: fast, and lost when the server crashes
    parquet       files beside the database

Without `--structure` nothing is changed: a new table is what its schema says, others stay what they are.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from tipple.errors import UsageError

__all__ = ["LOAD_AS", "STRUCTURES", "AppliedStructure", "LoadAs", "Structure", "StructureRequest", "parse_structure"]

Structure = Literal["heap", "btree", "sorted", "columnstore", "memory", "parquet"]
LoadAs = Literal["auto", "heap", "btree", "memory"]

STRUCTURES: tuple[Structure, ...] = get_args(Structure)
LOAD_AS: tuple[LoadAs, ...] = get_args(LoadAs)

KEYED: frozenset[Structure] = frozenset({"btree", "sorted"})
"""The structures that have a key."""

FORMS: dict[Structure, tuple[LoadAs, ...]] = {
    "heap": ("heap", "memory"),
    "btree": ("heap", "btree", "memory"),
    "sorted": ("heap", "memory"),
    "columnstore": ("heap", "memory"),
    "memory": ("memory",),
    "parquet": (),
}
"""What each can be made of, besides what `auto` chooses."""


class StructureRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What `--structure` asks for."""

    structure: Structure
    load_as: LoadAs = "auto"
    key: tuple[str, ...] = ()
    """Of KEYED: the columns as `--key` names them; none: the table's primary key."""
    access_method: str | None = None
    """Of `columnstore`, where the engine has several."""


class AppliedStructure(msgspec.Struct, frozen=True, kw_only=True):
    """What the table is now, and what it was while it was loaded."""

    structure: Annotated[str, Meta(description="heap, btree, sorted, columnstore, memory or parquet.")]
    load_as: Annotated[str, Meta(description="What the table was while rows came in: heap, btree, memory or the same.")]
    reason: Annotated[str, Meta(description="Why it was loaded like that.")]
    key: Annotated[list[str], Meta(description="The columns of the key, of btree and sorted; else none.")] = []
    access_method: Annotated[
        str | None, Meta(description="The access method of a columnstore on PostgreSQL; else null.")
    ] = None
    durable: Annotated[bool, Meta(description="Whether the rows survive a crash of the server.")] = True


def parse_structure(
    structure: Structure | None,
    load_as: LoadAs,
    *,
    key: tuple[str, ...],
    access_method: str | None,
    mode: str | None,
) -> StructureRequest | None:
    """What the options ask for; None where they ask for nothing.

    Args:
        structure, load_as, access_method: as the options of these names have them.
        key: the columns of `--key`, which an upsert has for itself.
        mode: as `--mode` has it.

    Raises:
        UsageError: options that do not go together.
    """
    if structure is None:
        if load_as != "auto":
            raise UsageError(
                "--load-as has no meaning without --structure",
                hint="say what the table becomes afterwards: "
                f"--structure {'btree' if load_as == 'btree' else 'heap'} --load-as {load_as}",
            )
        if access_method is not None:
            raise UsageError(
                "--access-method has no meaning without --structure columnstore", hint="add it, or leave both out"
            )
        return None
    for name, value, known in (("--structure", structure, STRUCTURES), ("--load-as", load_as, LOAD_AS)):
        if value not in known:
            raise UsageError(f"there is no {name} {value}", hint=f"there are: {', '.join(known)}")
    if mode == "upsert":
        raise UsageError(
            "--structure does not go with --mode upsert, which keeps the table",
            hint="leave --structure out, or make the table anew by --mode replace",
        )
    if access_method is not None and structure != "columnstore":
        raise UsageError(
            f"--access-method is for --structure columnstore, and not for {structure}", hint="leave it out"
        )
    if key and structure not in KEYED:
        raise UsageError(
            f"--key has no meaning for --structure {structure}", hint="it is for btree, sorted and --mode upsert"
        )
    if load_as not in ("auto", *FORMS[structure]):
        forms = ", ".join(("auto", *FORMS[structure]))
        raise UsageError(
            f"--load-as {load_as} does not go with --structure {structure}", hint=f"with {structure} go: {forms}"
        )
    return StructureRequest(structure=structure, load_as=load_as, key=key, access_method=access_method)
