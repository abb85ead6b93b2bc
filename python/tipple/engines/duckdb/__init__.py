"""DuckDB: embedded, the default; rows go in as Arrow batches."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tipple.engines.base import Session
from tipple.engines.duckdb.capabilities import CAPABILITIES as capabilities
from tipple.engines.duckdb.processor import require_processor
from tipple.importing import uninterrupted
from tipple.plan.url import MEMORY, Target


def connect(target: Target, *, read_only: bool = False, must_exist: bool = False) -> Session:
    """Opens the database; a missing one is not created with `read_only` or `must_exist`.

    Raises:
        ConnectionFailed: it cannot be opened.
        TippleError: the library cannot run on this processor.
    """
    require_processor()
    with uninterrupted():
        from tipple.engines.duckdb.session import DuckSession

    return DuckSession(target, read_only=read_only, must_exist=must_exist)


def database_file(target: Target) -> str | None:
    """The database's file; None for one in memory."""
    return None if target.location == MEMORY else os.path.expanduser(target.location)


def files(target: Target) -> Sequence[str]:
    """The database and its write-ahead log; none where it is in memory."""
    path = database_file(target)
    return () if path is None else (path, f"{path}.wal")


__all__ = ["capabilities", "connect", "database_file", "files"]
