"""What engines can do."""

from __future__ import annotations

from typing import Literal

import msgspec

from tipple.plan.structure import Structure

Mode = Literal["append", "replace", "upsert", "create"]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine can do, so that callers ask data and not the engine's name."""

    engine: str
    write_paths: tuple[str, ...]
    """Best first."""
    modes: tuple[Mode, ...]
    parallel_sessions: bool
    """Whether streams have sessions of their own, or hand their rows to one."""
    resumes_slices: bool
    """Whether an interrupted atomic job keeps the slices that it has done."""
    preserves_order: bool
    """Whether rows can be stored in the order of the sources."""
    unbounded_numeric: bool
    """Whether `numeric` without a precision keeps any number of digits."""
    uneven_lists: bool
    """Whether lists in a list may have different lengths, or be NULL."""
    in_process: bool = False
    """Whether the engine runs in this process, and has memory of its own in it."""
    names_refused_records: bool
    """Whether its own refusal of a value says which record it stands in."""
    partitions: bool = False
    """Whether tables have partitions that can be loaded apart and replaced."""
    structures: tuple[Structure, ...] = ()
    """What `--structure` can make of a table."""
    tablespaces: bool = False
    """Whether tables can be laid into places that the server knows by name."""
    system_columns: frozenset[str] = frozenset()
    """Names of columns that every table has already."""
    own_schemas: str
    """A regular expression: the schemas of the engine's own, in which no user's table belongs."""
    together: frozenset[str]
    """The strategies by which several loads can be published in one transaction."""
