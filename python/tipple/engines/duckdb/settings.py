"""Settings of a DuckDB database that a load changes, and gives back.

They hold for all connections of this process to the database, and not only for that of the load.
"""

from __future__ import annotations

import duckdb

from tipple.engines.duckdb.connection import first_row


class Settings:
    """What loads over one connection have changed."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self.before: dict[str, str] = {}

    def set(self, name: str, value: str) -> None:
        """Changes a setting until `restore`."""
        self.before.setdefault(name, _current(self.connection, name))
        self.connection.execute(f"SET {name} = '{value}'")

    def restore(self) -> None:
        """Makes all settings what they were."""
        before, self.before = self.before, {}
        if not before:
            return
        try:
            # Of its own: in a transaction that has failed nothing can be set.
            restoring = self.connection.cursor()
        except duckdb.Error:
            # The connection was closed meanwhile, by whoever waits for its load no longer.
            return
        try:
            for name, value in before.items():
                _restore(restoring, name, value)
        finally:
            restoring.close()


def _current(connection: duckdb.DuckDBPyConnection, name: str) -> str:
    found = first_row(connection, f"SELECT current_setting('{name}')::VARCHAR")
    return str(found[0]) if found is not None else ""


def _restore(connection: duckdb.DuckDBPyConnection, name: str, value: str) -> None:
    try:
        # Sizes are told rounded: where it was the default, that is the exact one.
        connection.execute(f"RESET {name}")
        if _current(connection, name) != value:
            connection.execute(f"SET {name} = '{value}'")
    except duckdb.Error:
        # A memory limit below what others hold right now; the load itself has ended, well or not.
        return
