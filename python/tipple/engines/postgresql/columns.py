"""Tables and columns of a PostgreSQL database in the codec's terms."""

from __future__ import annotations

from typing import Any

import psycopg

from tipple.engines.base import Table, TableColumn
from tipple.plan.url import TableName

# The types are looked up by OID in pg_catalog: a user's own type named "text" is not taken for the real one.
_PLAIN_TYPES = {
    "bool": "bool",
    "int2": "int2",
    "int4": "int4",
    "int8": "int8",
    "float4": "float4",
    "float8": "float8",
    "text": "text",
    "date": "date",
}

_TABLE_QUERY = """
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%s)
"""

_COLUMNS_QUERY = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typname, a.atttypmod, a.attnotnull,
       a.attgenerated <> '', t.typnamespace = 'pg_catalog'::regnamespace
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""


def describe(connection: psycopg.Connection[Any], name: TableName) -> Table | None:
    """The table `name`, found as the search path finds it, or None."""
    found = connection.execute(_TABLE_QUERY, (name.sql,)).fetchone()
    if found is None:
        return None
    oid, schema, relation, _, _ = found
    return Table(name=TableName(schema, relation), columns=_columns(connection, oid))


def relation_kind(connection: psycopg.Connection[Any], name: TableName) -> str | None:
    """`relkind` of the relation `name` (r table, p partitioned, v view, f foreign, ...), or None."""
    found = connection.execute(_TABLE_QUERY, (name.sql,)).fetchone()
    return None if found is None else str(found[3])


def _columns(connection: psycopg.Connection[Any], oid: int) -> tuple[TableColumn, ...]:
    return tuple(
        TableColumn(
            name=name,
            type_text=type_text,
            codec_type=_codec_type(type_name, typmod) if in_catalog else "opaque",
            not_null=not_null,
            generated=generated,
        )
        for name, type_text, type_name, typmod, not_null, generated, in_catalog in connection.execute(
            _COLUMNS_QUERY, (oid,)
        )
    )


def _codec_type(type_name: str, typmod: int) -> Any:
    """The codec's `ColumnType`, in JSON form, for a type of pg_catalog."""
    if type_name in _PLAIN_TYPES:
        return _PLAIN_TYPES[type_name]
    if type_name == "numeric":
        if typmod < 0:
            return "decimal"
        # numeric.c: precision in the high 16 bits, scale as a signed 11-bit number in the low ones, both after
        # VARHDRSZ is taken off.
        packed = typmod - 4
        scale = ((packed & 0x7FF) ^ 1024) - 1024
        return {"numeric": {"precision": (packed >> 16) & 0xFFFF, "scale": scale}}
    if type_name == "varchar":
        return "text" if typmod < 0 else {"varchar": {"limit": typmod - 4}}
    if type_name == "bpchar":
        return "text" if typmod < 0 else {"char": {"limit": typmod - 4}}
    if type_name == "timestamp":
        return {"timestamp": {"precision": 6 if typmod < 0 else typmod}}
    return "opaque"
