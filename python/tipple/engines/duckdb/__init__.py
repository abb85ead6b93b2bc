"""DuckDB: embedded, the default; rows go in as Arrow batches."""

from __future__ import annotations

from collections.abc import Mapping

from tipple.engines.base import Session
from tipple.engines.duckdb.capabilities import CAPABILITIES as capabilities
from tipple.plan.url import Target


def connect(target: Target, settings: Mapping[str, str]) -> Session:
    """Opens the database.

    Raises:
        ConnectionFailed: it cannot be opened.
    """
    from tipple.engines.duckdb.session import DuckSession

    return DuckSession(target, settings)


__all__ = ["capabilities", "connect"]
