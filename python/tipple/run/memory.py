"""The database in memory that loads of this process go into."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

__all__ = ["memory_connection"]


def memory_connection() -> duckdb.DuckDBPyConnection:
    """A connection to this process's DuckDB database in memory, to query what was loaded into `duckdb:///:memory:`.

    Each call gives another connection to the same database; it lives as long as the process, and not as long as they.
    """
    from tipple.engines.duckdb import connection

    return connection.memory_connection()
