"""`--structure` on DuckDB: what the table is when the transaction of the load commits.

DuckDB's tables are columnstores. `sorted` is one whose INSERT sorts: DuckDB sorts outside of memory where its
`memory_limit` does not hold the rows, and the least and the largest value that it keeps of every row group then tell
most of them apart. `btree` is one with a key, which DuckDB keeps in an ART index; ARCHITECTURE.md has the figures for
when it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import duckdb
import msgspec

from tipple.engines.base import LoadTask
from tipple.engines.duckdb import indexes
from tipple.engines.duckdb.connection import first_row, is_empty, qualified, requalified
from tipple.engines.duckdb.constraints import triggers_of, unique_indexes
from tipple.errors import UsageError
from tipple.plan.structure import AppliedStructure, StructureRequest
from tipple.plan.url import TableName, quote_identifier, quote_literal

if TYPE_CHECKING:
    from tipple.plan.schema import TableDefinition

_KEYS = """
SELECT constraint_type, constraint_column_names FROM duckdb_constraints()
WHERE database_name = current_database() AND schema_name = coalesce(?, current_schema()) AND table_name = ?
    AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')
ORDER BY constraint_type
"""

_OWN_SQL = """
SELECT sql FROM duckdb_tables()
WHERE database_name = current_database() AND schema_name = coalesce(?, current_schema()) AND table_name = ?
"""

_COMMENTS = """
SELECT NULL, comment, -1 AS place FROM duckdb_tables()
WHERE database_name = current_database() AND schema_name = $schema AND table_name = $name AND comment IS NOT NULL
UNION ALL
SELECT column_name, comment, column_index FROM duckdb_columns()
WHERE database_name = current_database() AND schema_name = $schema AND table_name = $name AND comment IS NOT NULL
ORDER BY place
"""


class Key(msgspec.Struct, frozen=True):
    """A primary key, or columns that are unique."""

    columns: tuple[str, ...]
    is_primary: bool

    @property
    def column_list(self) -> str:
        """The columns for an SQL statement."""
        return ", ".join(map(quote_identifier, self.columns))


class StructureWork:
    """Makes the table of one load what it is to be, in the load's transaction."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, task: LoadTask, *, in_memory: bool) -> None:
        """Settles what the options leave open; `in_memory` says of the database that it has no file.

        Raises:
            UsageError: the options ask for what DuckDB, or this table, does not allow.
        """
        self.connection = connection
        self.task = task
        self.into = qualified(connection, task.table)
        self.keys = [] if task.definition is not None else _keys(connection, task.table)
        self.key: Key | None = None
        self.afterwards: list[str] = []
        """Of a table that is made anew: the statements for its indexes and comments."""
        self.applied: AppliedStructure | None = None
        if task.structure is not None and task.structure.structure != "parquet":
            self.applied = self._resolve(task.structure, in_memory=in_memory)

    @property
    def order_by(self) -> str:
        """The clause by which an INSERT sorts its rows; empty where their order does not matter."""
        sorts = self.task.structure is not None and self.task.structure.structure == "sorted"
        return f" ORDER BY {self.key.column_list}" if sorts and self.key is not None else ""

    @property
    def _makes_key(self) -> bool:
        """Whether the table gets a key that it has not."""
        if self.key is None or self.task.structure is None or self.task.structure.structure != "btree":
            return False
        return all(key.columns != self.key.columns for key in self.keys)

    @property
    def _makes_key_before(self) -> bool:
        return self._makes_key and self.applied is not None and self.applied.load_as == "btree"

    def put_key_first(self) -> bool:
        """Has the key be there before the rows; False where none is made behind them."""
        if self.applied is None or not self._makes_key or self._makes_key_before:
            return False
        self.applied = msgspec.structs.replace(self.applied, load_as="btree", reason="the key says which record it is")
        return True

    # Before and after the rows

    def require_empty(self) -> None:
        """Refuses to make a structure of a table whose rows stay; not where the same load was done before.

        Raises:
            UsageError: the table has rows, which the structure would leave as they are.
        """
        asked = self.task.structure
        if asked is None or self.task.definition is not None or self.task.mode == "replace":
            return
        if not (self.order_by or self._makes_key):
            return
        if not is_empty(self.connection, self.task.table):
            raise UsageError(
                f"{self.task.table} cannot become {asked.structure}: it already has rows",
                hint="--mode replace makes its content anew; or leave out --structure",
            )

    def prepare(self) -> None:
        """Creates the table, or empties it for a `replace`."""
        definition = self.task.definition
        if definition is not None:
            self.connection.execute(self._without_key(definition).create_sql(self.into, with_constraints=True))
        elif self._makes_key:
            self._make_anew()
        elif self.task.mode == "replace":
            self.connection.execute(f"DELETE FROM {self.into}")
        if self._makes_key_before:
            self._add_key()

    def finish(self) -> None:
        """Makes what is made when all rows are in."""
        if self._makes_key and not self._makes_key_before:
            self._add_key()
        for statement in self.afterwards:
            self.connection.execute(statement)

    def _without_key(self, definition: TableDefinition) -> TableDefinition:
        """The definition without the primary key that is added by itself."""
        if not self._makes_key or self.key is None or definition.primary_key != self.key.columns:
            return definition
        others = [text for text in definition.constraints if not _is_primary(definition, text)]
        return msgspec.structs.replace(definition, constraints=tuple(others))

    def _make_anew(self) -> None:
        """DuckDB adds no key to a table that has an index, or that had rows when the transaction began."""
        name = [self.task.table.schema, self.task.table.name]
        own = first_row(self.connection, _OWN_SQL, name)
        self.afterwards = [*indexes.statements_of(self.connection, self.task.table), *self._comments()]
        self.connection.execute(f"DROP TABLE {self.into}")
        if own is not None:
            self.connection.execute(requalified(self.connection, str(own[0]), self.task.table))

    def _comments(self) -> list[str]:
        """Statements for the comments on the table and its columns."""
        table = self.task.table
        found = self.connection.execute(_COMMENTS, {"schema": table.schema, "name": table.name}).fetchall()
        return [
            f"COMMENT ON TABLE {self.into} IS {quote_literal(comment)}"
            if column is None
            else f"COMMENT ON COLUMN {self.into}.{quote_identifier(column)} IS {quote_literal(comment)}"
            for column, comment, _ in found
        ]

    def _add_key(self) -> None:
        if self.key is None:
            return
        if self.key.is_primary:
            self.connection.execute(f"ALTER TABLE {self.into} ADD PRIMARY KEY ({self.key.column_list})")
            return
        name = quote_identifier("_".join((self.task.table.name, *self.key.columns, "key")))
        self.connection.execute(f"CREATE UNIQUE INDEX {name} ON {self.into} ({self.key.column_list})")

    # Which one, and how

    def _resolve(self, asked: StructureRequest, *, in_memory: bool) -> AppliedStructure:
        task = self.task
        if asked.structure in ("btree", "sorted"):
            self.key = self._resolve_key(asked)
            if not task.atomic:
                raise UsageError(
                    f"--structure {asked.structure} is made in one transaction with the rows",
                    hint="leave out --no-atomic, or --structure",
                )
        if asked.structure == "memory" and not in_memory:
            raise UsageError(
                "--structure memory is for a database in memory, and this one is a file",
                hint="load --into duckdb:///:memory: (from Python: it lives as long as the process), or leave it out",
            )
        allowed = ("auto", "heap", "btree") if asked.structure == "btree" else ("auto",)
        if asked.load_as not in allowed and asked.structure != asked.load_as:
            raise UsageError(
                f"--load-as {asked.load_as} does not go with --structure {asked.structure} on DuckDB",
                hint=f"there are: {', '.join(allowed)}",
            )
        if self._makes_key and task.definition is None:
            self._refuse_triggers(asked)
        load_as, reason = self._choose_form(asked)
        return AppliedStructure(
            structure=asked.structure,
            load_as=load_as,
            reason=reason,
            key=list(self.key.columns) if self.key is not None else [],
            durable=not in_memory,
        )

    def _refuse_triggers(self, asked: StructureRequest) -> None:
        """Of a table that is made anew they would be gone, and not have seen its rows."""
        if triggers := triggers_of(self.connection, self.task.table):
            raise UsageError(
                f"--structure {asked.structure} makes {self.task.table} anew, which would lose its triggers: "
                f"{', '.join(triggers)}",
                hint="drop them, and create them again after the load; or leave out --structure",
            )

    def _choose_form(self, asked: StructureRequest) -> tuple[str, str]:
        match asked.structure:
            case "columnstore":
                return "columnstore", "DuckDB's tables are columnstores"
            case "memory":
                return "memory", "the database is in memory"
            case "sorted":
                return "sorted", "DuckDB sorts rows on their way in, on disk where its memory does not hold them"
        if not self._makes_key:
            return "btree", "the table has the key already, and rows go into it as it is"
        if asked.load_as == "btree":
            return "btree", "as asked"
        if self.task.rejects is not None:
            return "btree", "the key says which records are rejects"
        return "heap", "building an index once over all rows is faster than growing it row by row"

    def _resolve_key(self, asked: StructureRequest) -> Key:
        definition = self.task.definition
        primary = definition.primary_key if definition is not None else ()
        primary = primary or next((key.columns for key in self.keys if key.is_primary), ())
        columns = asked.key or primary
        if not columns:
            raise UsageError(
                f"--structure {asked.structure} needs a key, and {self.task.table} has no primary key",
                hint="name its columns: --key a,b",
            )
        not_null = {column.name for column in self.task.columns if column.not_null}
        is_primary = columns == primary or (not primary and not_null.issuperset(columns))
        return Key(tuple(columns), is_primary)


def _keys(connection: duckdb.DuckDBPyConnection, table: TableName) -> list[Key]:
    """The keys of a table, its primary key first, and those that are unique indexes and no constraints last."""
    found: Sequence[tuple[str, list[str]]] = connection.execute(_KEYS, [table.schema, table.name]).fetchall()
    indexed = (columns for _, _, columns in unique_indexes(connection, table))
    return [
        *(Key(tuple(columns), kind == "PRIMARY KEY") for kind, columns in found),
        *(Key(columns, is_primary=False) for columns in indexed if columns is not None),
    ]


def _is_primary(definition: TableDefinition, constraint: str) -> bool:
    """Whether this one of the definition's constraints is its primary key."""
    return bool(msgspec.structs.replace(definition, constraints=(constraint,)).primary_key)
