"""Rows that are updated or deleted in a published table need what subscribers tell them by: a replica identity."""

from __future__ import annotations

from typing import Any

import psycopg

from tipple.engines.postgresql.connection import make_ready
from tipple.errors import TippleError, UsageError
from tipple.plan.url import TableName, quote_identifier

__all__ = ["explain", "require"]

_REFUSED = {
    "55000": "ALTER TABLE … REPLICA IDENTITY FULL (or USING INDEX …) for the table that is named, or change the "
    "publication",
    "42P10": "change the publication: its row filter may ask for columns of the replica identity (the primary key) "
    "only, and its column list must have all of them; or have it send no {}s: ALTER PUBLICATION … SET (publish = …)",
}
"""No replica identity; a column list or a row filter that it does not fit."""

_OF_FOREIGN_TABLES = "CheckValidResultRel"
"""Where the server says, with the same SQLSTATE, that a foreign table takes no such command."""

_FIRST_COLUMN = """
SELECT attname FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attidentity <> 'a'
ORDER BY attnum LIMIT 1
"""


def require(connection: psycopg.Connection[Any], table: TableName, command: str) -> None:
    """Asks the server whether it would carry out an UPDATE or a DELETE, before a load whose last step is one.

    The server says it of the table and of each partition when it makes ready for the command, so EXPLAIN does; column
    lists and row filters of publications are judged as well.

    Raises:
        UsageError: it would not; with the server's words and hint.
    """
    if connection.execute("SELECT FROM pg_publication LIMIT 1").fetchone() is None:
        return
    statement = f"DELETE FROM {table.sql}"
    if command == "UPDATE":
        found = connection.execute(_FIRST_COLUMN, (table.sql,)).fetchone()
        if found is None:
            return
        column = quote_identifier(found[0])
        statement = f"UPDATE {table.sql} SET {column} = {column}"
    try:
        make_ready(connection, statement)
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise
        if error.sqlstate not in _REFUSED or error.diag.source_function == _OF_FOREIGN_TABLES:
            # A missing right, somebody's lock, no room for those on all partitions: if it counts, the load will say so.
            return
        raise UsageError(
            f"the server would not {command} rows of {table}: {_said(error)}",
            hint=_REFUSED[error.sqlstate].format(command),
        ) from None


def explain(error: psycopg.Error, table: TableName, command: str) -> TippleError | None:
    """What to say of a statement that a publication did not allow at the end of a load, or None of another failure."""
    remedy = _REFUSED.get(error.sqlstate or "")
    if remedy is None:
        return None
    return TippleError(
        f"the server does not {command} rows of {table}: {_said(error)}",
        hint=f"nothing was published; {remedy.format(command)}; then run the command again",
        detail={"sqlstate": error.sqlstate},
    )


def _said(error: psycopg.Error) -> str:
    return ". ".join(text for text in (error.diag.message_primary, error.diag.message_detail) if text)
