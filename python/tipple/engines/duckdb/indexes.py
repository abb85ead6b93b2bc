"""A table's indexes that are no keys, taken away before rows come and made again when all are in.

DuckDB's ART indexes grow row by row, on one thread: with the index away an INSERT of two million rows into one million
took 2.3 s instead of 7.8. To build it again costs about half as much for each row that the table then has.
"""

from __future__ import annotations

import duckdb

from tipple.engines.base import LoadTask
from tipple.engines.duckdb.connection import qualified, requalified
from tipple.errors import UsageError
from tipple.plan.url import TableName, quote_literal

__all__ = ["Rebuilding", "names_of", "statements_of"]

_INDEXES = """
SELECT index_name, sql, comment, is_unique FROM duckdb_indexes()
WHERE database_name = current_database() AND schema_name = coalesce(?, current_schema()) AND table_name = ?
    AND sql IS NOT NULL
ORDER BY index_name
"""


def names_of(connection: duckdb.DuckDBPyConnection, table: TableName, *, unique: bool = False) -> list[str]:
    """The table's indexes that are no constraints, or those of them that are unique."""
    rows = connection.execute(_INDEXES, [table.schema, table.name]).fetchall()
    return [str(name) for name, _, _, is_unique in rows if is_unique or not unique]


def statements_of(connection: duckdb.DuckDBPyConnection, table: TableName) -> list[str]:
    """Statements that make these indexes, each with its comment."""
    statements = []
    for name, sql, comment, _ in connection.execute(_INDEXES, [table.schema, table.name]).fetchall():
        statements.append(requalified(connection, str(sql), table))
        if comment is not None:
            index = qualified(connection, TableName(table.schema, name))
            statements.append(f"COMMENT ON INDEX {index} IS {quote_literal(comment)}")
    return statements


class Rebuilding:
    """`--indexes rebuild` of one load, in the load's transaction."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, task: LoadTask) -> None:
        """
        Raises:
            UsageError: the indexes must stay, because they say which records are rejects.
        """
        self.connection = connection
        self.task = task
        self.wanted = task.indexes == "rebuild" and task.definition is None
        self.afterwards: list[str] = []
        """What makes the indexes again."""
        judges = names_of(connection, task.table, unique=True) if self.wanted and task.rejects is not None else []
        if judges:
            raise UsageError(
                f"--indexes rebuild is not possible: the unique index {judges[0]} says which records are rejects",
                hint="leave it out, or --on-error skip",
            )

    def keep(self) -> bool:
        """Has the indexes stay after all; False where they do anyway."""
        were_away = bool(self.afterwards)
        self.wanted, self.afterwards = False, []
        return were_away

    def begin(self) -> None:
        """Takes the indexes away."""
        if not self.wanted:
            return
        table = self.task.table
        names, self.afterwards = names_of(self.connection, table), statements_of(self.connection, table)
        for name in names:
            self.connection.execute(f"DROP INDEX {qualified(self.connection, TableName(table.schema, name))}")

    def finish(self) -> None:
        """Makes them again."""
        for statement in self.afterwards:
            self.connection.execute(statement)
