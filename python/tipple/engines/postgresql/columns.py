"""Tables and columns of a PostgreSQL database in the codec's terms."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import errors

from tipple.engines.base import UTC_NAMES, Table, TableColumn
from tipple.engines.postgresql import amounts
from tipple.engines.postgresql.connection import current_role
from tipple.errors import UsageError
from tipple.plan.url import TableName, quote_identifier

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
    "uuid": "uuid",
    "bytea": "bytea",
    "json": "json",
    "jsonb": "jsonb",
    "inet": "inet",
    "cidr": "cidr",
}

_NOT_FROM_FLOATS = frozenset({"money", "interval"})
_FULL_INTERVAL = 0x7FFF
"""timestamp.h, INTERVAL_FULL_RANGE: an interval that is not declared as `DAY TO SECOND` or the like."""

_TABLE_QUERY = """
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%s)
"""

# Triggers for each row before INSERT (pg_trigger.h, `tgtype`) see a row before NOT NULL judges it, and may fill it.
FILLED_BEFORE = """
EXISTS (SELECT FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 7 = 7
        AND tgrelid IN (SELECT %(table)s::oid UNION ALL SELECT relid FROM pg_partition_tree(%(table)s::oid::regclass)))
"""

# A domain is what is under it; an array is known by its element, which may be a domain again. The base type of each is
# the end of a chain, as domains may be made of domains; the last modifier on the way holds.
_COLUMNS_QUERY = f"""
WITH RECURSIVE base (attnum, type, typmod, element_oid) AS (
    SELECT attnum, atttypid, atttypmod, NULL::oid FROM pg_attribute
    WHERE attrelid = %(table)s AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT b.attnum, CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.typelem END,
           CASE WHEN t.typtype = 'd' AND t.typtypmod >= 0 THEN t.typtypmod ELSE b.typmod END,
           CASE WHEN t.typtype = 'd' THEN b.element_oid ELSE t.typelem END
    FROM base b JOIN pg_type t ON t.oid = b.type LEFT JOIN pg_type e ON e.oid = t.typelem
    WHERE t.typtype = 'd' OR (e.typarray = t.oid AND b.element_oid IS NULL)
)
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull AND NOT {FILLED_BEFORE}, a.attgenerated <> '',
       t.typname, t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype = 'b', b.typmod,
       coalesce(b.element_oid, 0)::bigint, t.typdelim = ',',
       CASE WHEN t.typtype = 'e' THEN ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid) END,
       current_setting('TimeZone')
FROM pg_attribute a JOIN base b ON b.attnum = a.attnum JOIN pg_type t ON t.oid = b.type
WHERE a.attrelid = %(table)s AND t.typtype <> 'd' AND NOT EXISTS (
    SELECT FROM pg_type e WHERE e.oid = t.typelem AND e.typarray = t.oid AND b.element_oid IS NULL)
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
    """`relkind` of the relation `name` (r table, p partitioned, v view, f foreign, ...), or None.

    Raises:
        UsageError: the role may not use its schema.
    """
    try:
        found = connection.execute(_TABLE_QUERY, (name.sql,)).fetchone()
    except (errors.UndefinedObject, errors.InvalidSchemaName):
        return None
    except errors.InsufficientPrivilege as error:
        role, schema = current_role(connection), quote_identifier(name.schema or "")
        raise UsageError(
            f"this role may not use {name}: {error.diag.message_primary}",
            hint=f"as the schema's owner: GRANT USAGE ON SCHEMA {schema} TO {role};",
        ) from None
    return None if found is None else str(found[3])


def require_table(connection: psycopg.Connection[Any], name: TableName) -> None:
    """Refuses what no rows can be loaded into; that there may be nothing of this name is no matter.

    Raises:
        UsageError: it is something else than a table, or the role may not use it.
    """
    kind = relation_kind(connection, name)
    if kind is not None and kind not in "rpf":
        raise UsageError(
            f"{name} is not a table",
            hint="name a table; to load into a view, load into the table under it",
        )


def _columns(connection: psycopg.Connection[Any], oid: int) -> tuple[TableColumn, ...]:
    columns = []
    rows = connection.execute(_COLUMNS_QUERY, {"table": oid}).fetchall()
    of_money = [in_catalog and type_name == "money" for _, _, _, _, type_name, in_catalog, *_ in rows]
    misreading = amounts.misreading(connection) if any(of_money) else None
    for (
        name, type_text, not_null, generated, type_name, in_catalog, typmod, element_oid, comma, labels, time_zone
    ), is_money in zip(rows, of_money, strict=True):  # fmt: skip
        codec_type: Any = "opaque"
        if labels is not None:
            codec_type = {"enum": {"labels": sorted(labels)}}
        elif in_catalog:
            codec_type = _codec_type(type_name, typmod, utc=time_zone in UTC_NAMES)
        if element_oid and codec_type != "opaque":
            array = {"element": codec_type, "element_oid": element_oid}
            codec_type = {"array": array} if comma else "opaque"
        columns.append(
            TableColumn(
                name=name,
                type_text=type_text,
                codec_type=codec_type,
                not_null=not_null,
                generated=generated,
                refuses_floats=in_catalog and type_name in _NOT_FROM_FLOATS,
                is_money=is_money and not element_oid,
                misreading=misreading if is_money else None,
            )
        )
    return tuple(columns)


def _codec_type(type_name: str, typmod: int, *, utc: bool) -> Any:
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
    precision = 6 if typmod < 0 else typmod
    if type_name in ("timestamp", "time", "timetz"):
        return {type_name: {"precision": precision}}
    if type_name == "timestamptz":
        return {"timestamptz": {"precision": precision, "utc": utc}}
    if type_name == "interval" and (typmod < 0 or typmod >> 16 == _FULL_INTERVAL):
        return {"interval": {"precision": 6 if typmod < 0 else min(typmod & 0xFFFF, 6)}}
    return "opaque"
