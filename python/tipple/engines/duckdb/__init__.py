"""DuckDB: embedded, the default; rows go in as Arrow batches."""

from __future__ import annotations

from tipple.engines.base import Session
from tipple.engines.duckdb.capabilities import CAPABILITIES as capabilities
from tipple.plan.url import Target


def connect(target: Target, *, read_only: bool = False, must_exist: bool = False) -> Session:
    """Opens the database; a missing one is not created with `read_only` or `must_exist`.

    Raises:
        ConnectionFailed: it cannot be opened.
    """
    from tipple.engines.duckdb.session import DuckSession

    return DuckSession(target, read_only=read_only, must_exist=must_exist)


__all__ = ["capabilities", "connect"]
