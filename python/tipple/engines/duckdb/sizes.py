"""How much room the tables of a DuckDB database take."""

from __future__ import annotations

import duckdb

from tipple.engines.duckdb.connection import first_row, qualified
from tipple.plan.storage import StorageSize
from tipple.plan.url import TableName, quote_literal


def sizes(connection: duckdb.DuckDBPyConnection, table: TableName | None) -> list[StorageSize]:
    """Tables with their blocks, bytes and rows; rows in memory or in the WAL take no block yet."""
    rows = connection.execute(
        "SELECT schema_name, table_name, estimated_size FROM duckdb_tables() "
        "WHERE database_name = current_database() AND schema_name <> 'tipple' "
        "AND (? IS NULL OR (lower(schema_name) = lower(coalesce(?, current_schema())) "
        "AND lower(table_name) = lower(?))) "
        "ORDER BY 1, 2",
        [table.name if table else None, table.schema if table else None, table.name if table else None],
    ).fetchall()
    block = first_row(
        connection, "SELECT block_size FROM pragma_database_size() WHERE database_name = current_database()"
    )
    block_bytes = int(block[0]) if block is not None else 0
    found = []
    for schema, name, count in rows:
        full = qualified(connection, TableName(schema, name))
        used = first_row(
            connection,
            f"SELECT count(DISTINCT block_id) FROM pragma_storage_info({quote_literal(full)}) WHERE block_id >= 0",
        )
        pages = int(used[0]) if used is not None else 0
        found.append(
            StorageSize(
                name=f"{schema}.{name}",
                kind="table",
                pages=pages,
                bytes=pages * block_bytes,
                rows=count,
            )
        )
    return found
