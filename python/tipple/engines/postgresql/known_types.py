"""The types that values are encoded for, and whether columns still have them.

They are read before anything is locked. Whoever changes one meanwhile (ALTER COLUMN … TYPE of a large table takes long,
and a load waits for it) may leave bytes that are a value of the new type too, and another one: int4 and float4 have
four each. So each transaction that stores rows, or makes what rows are staged in, looks once more under a lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from tipple.engines.base import TableColumn
from tipple.engines.postgresql.place import shape
from tipple.plan.url import TableName

__all__ = ["core_plan", "hold"]

_TYPES = """
SELECT attname, format_type(atttypid, atttypmod), atttypid::bigint, atttypmod FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attname = ANY (%s) AND attnum > 0 AND NOT attisdropped
"""
_CHANGED = """
SELECT known.name FROM (VALUES {known}) known (name, type, typmod) WHERE NOT EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = to_regclass({table}) AND attname = known.name AND NOT attisdropped
        AND atttypid = known.type AND atttypmod = known.typmod)
"""


def hold(connection: psycopg.Connection[Any], table: TableName, columns: Sequence[TableColumn]) -> None:
    """Has whoever changes the table wait for the end of this transaction.

    Raises:
        TippleError: somebody has changed the type of one of `columns` since they were read.
    """
    connection.execute(f"LOCK TABLE ONLY {table.sql} IN ACCESS SHARE MODE".encode())
    _read(connection, table, columns)


def _read(
    connection: psycopg.Connection[Any], table: TableName, columns: Sequence[TableColumn]
) -> list[tuple[str, int, int]]:
    """Names, types and their modifiers."""
    wanted = {column.name: column.type_text for column in columns}
    found = connection.execute(_TYPES, (table.sql, list(wanted))).fetchall()
    changed = wanted.keys() - {name for name, type_text, _, _ in found if wanted[name] == type_text}
    if changed:
        raise shape.changed_meanwhile(table, sorted(changed))
    return [(name, oid, typmod) for name, _, oid, typmod in found]


def core_plan(
    connection: psycopg.Connection[Any], table: TableName, columns: Sequence[TableColumn], *, locks: bool
) -> dict[str, Any]:
    """The core's `KnownTypes` of a table that rows go into; `locks`: whether its transactions are to lock the table.

    Raises:
        TippleError: as for `hold`.
    """
    known = sql.SQL(", ").join(
        sql.SQL("({}::text, {}::oid, {})").format(sql.Literal(name), sql.Literal(oid), sql.Literal(typmod))
        for name, oid, typmod in _read(connection, table, columns)
    )
    changed = sql.SQL(_CHANGED).format(known=known, table=sql.Literal(table.sql))
    return {
        "lock": f"LOCK TABLE ONLY {table.sql} IN ROW EXCLUSIVE MODE" if locks else None,
        "changed": changed.as_string(connection),
    }
