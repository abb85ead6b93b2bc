"""How a table is partitioned, read from the catalog: its key, its partitions, and their bounds in the form in which
the core compares them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import psycopg

from tipple.engines.base import TableColumn
from tipple.plan.url import TableName

Method = Literal["range", "list", "hash"]

_METHODS: dict[str, Method] = {"r": "range", "l": "list", "h": "hash"}

# PARTITION_MAX_KEYS is 32; a column number of 0 is an expression. A collation compares by bytes where it is C, POSIX
# or the built-in C.UTF-8, which is in the order of code points.
_KEY_QUERY = """
SELECT p.partstrat, pg_get_partkeydef(p.partrelid), a.attname, format_type(a.atttypid, a.atttypmod),
       t.typsend::regproc::text, o.opcdefault, k.number = 0,
       l.oid IS NULL OR (l.collprovider = 'c' AND l.collcollate IN ('C', 'POSIX')) OR l.collprovider = 'b'
           OR (l.collprovider = 'd' AND d.datlocprovider = 'b')
           OR (l.collprovider = 'd' AND d.datlocprovider = 'c' AND d.datcollate IN ('C', 'POSIX')),
       coalesce(l.collisdeterministic, true)
FROM pg_partitioned_table p
CROSS JOIN LATERAL unnest(p.partattrs::smallint[], p.partclass::oid[], p.partcollation::oid[])
    WITH ORDINALITY AS k (number, opclass, collation_oid, n)
LEFT JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = k.number AND k.number <> 0
LEFT JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_opclass o ON o.oid = k.opclass
LEFT JOIN pg_collation l ON l.oid = k.collation_oid
JOIN pg_database d ON d.datname = current_database()
WHERE p.partrelid = to_regclass(%s)
ORDER BY k.n
"""

# One of which a DETACH CONCURRENTLY was begun and not finished is none any more: its rows are not the table's.
_PARTITIONS_QUERY = """
WITH RECURSIVE tree (oid, parent, depth) AS (
    SELECT inhrelid, inhparent, 1 FROM pg_inherits WHERE inhparent = to_regclass(%s) AND NOT inhdetachpending
    UNION ALL
    SELECT i.inhrelid, i.inhparent, tree.depth + 1 FROM tree
    JOIN pg_inherits i ON i.inhparent = tree.oid WHERE NOT i.inhdetachpending
)
SELECT c.oid::bigint, n.nspname, c.relname, tree.parent::bigint, c.relkind, pg_get_expr(c.relpartbound, c.oid),
       tree.depth, coalesce(s.spcname, '')
FROM tree JOIN pg_class c ON c.oid = tree.oid JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace AND has_tablespace_privilege(s.oid, 'CREATE')
ORDER BY tree.depth, c.oid
"""

_PLAIN_SETTINGS = (
    "SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO, YMD'; SET LOCAL intervalstyle = 'postgres'; "
    "SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = 'hex'"
)

DEFAULT = "DEFAULT"
"""The bound of the partition that takes what no other one does."""


class KeyPart(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the key."""

    name: str | None
    """None where it is an expression."""
    type_text: str
    send_function: str
    default_order: bool
    """Whether its operator class is the type's own."""
    by_bytes: bool
    """Whether texts compare byte by byte."""
    deterministic: bool
    """Whether only equal bytes are equal texts."""


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition, on any level."""

    oid: int
    name: TableName
    parent: int
    """OID of the table that it is a partition of."""
    kind: str
    """`relkind`: r is a table, p one that is partitioned further, f a foreign table."""
    bound: str
    """As `ALTER TABLE ... ATTACH PARTITION` takes it: `FOR VALUES FROM (1) TO (10)`, `DEFAULT`."""
    identity: str
    """The same in settings of its own: `bound` depends on the session's time zone and date style, for one."""
    depth: int
    tablespace: str
    """One of its own, in which this role may make tables, or empty."""

    @property
    def is_default(self) -> bool:
        """Whether it takes what no other partition does."""
        return self.bound == DEFAULT


class Partitioning(msgspec.Struct, frozen=True, kw_only=True):
    """How a table is partitioned."""

    oid: int
    method: Method
    key_definition: str
    """As after PARTITION BY."""
    key: tuple[KeyPart, ...]
    partitions: tuple[Partition, ...]
    """Parents before their partitions."""

    @property
    def leaves(self) -> list[Partition]:
        """The partitions that hold rows."""
        return [partition for partition in self.partitions if partition.kind != "p"]

    @property
    def is_flat(self) -> bool:
        """Whether no partition is partitioned further."""
        return all(partition.kind != "p" for partition in self.partitions)


def read(connection: psycopg.Connection[Any], table: TableName) -> Partitioning | None:
    """How `table` is partitioned; None where it is not."""
    rows = connection.execute(_KEY_QUERY, (table.sql,)).fetchall()
    if not rows:
        return None
    found = connection.execute("SELECT to_regclass(%s)::oid::bigint", (table.sql,)).fetchone()
    partitions = connection.execute(_PARTITIONS_QUERY, (table.sql,)).fetchall()
    identities = _identities(connection, table)
    return Partitioning(
        oid=found[0] if found is not None else 0,
        method=_METHODS[rows[0][0]],
        key_definition=rows[0][1],
        key=tuple(
            KeyPart(
                name=None if expression else name,
                type_text=type_text or "",
                send_function=send or "",
                default_order=default_order,
                by_bytes=by_bytes,
                deterministic=deterministic,
            )
            for _, _, name, type_text, send, default_order, expression, by_bytes, deterministic in rows
        ),
        partitions=tuple(
            Partition(
                oid=oid,
                name=TableName(schema, name),
                parent=parent,
                kind=kind,
                bound=bound,
                identity=identities.get(oid, bound),
                depth=depth,
                tablespace=tablespace,
            )
            for oid, schema, name, parent, kind, bound, depth, tablespace in partitions
        ),
    )


def half_detached(connection: psycopg.Connection[Any], table: TableName) -> TableName | None:
    """A partition of which a DETACH CONCURRENTLY was begun and not finished: no other one can have its keys yet."""
    found = connection.execute(
        "SELECT n.nspname, c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE i.inhparent = to_regclass(%s) AND i.inhdetachpending",
        (table.sql,),
    ).fetchone()
    return TableName(*found) if found is not None else None


def _identities(connection: psycopg.Connection[Any], table: TableName) -> dict[int, str]:
    with connection.transaction(force_rollback=True):
        connection.execute(_PLAIN_SETTINGS)
        return {row[0]: row[5] for row in connection.execute(_PARTITIONS_QUERY, (table.sql,)).fetchall()}


def bounds_of(connection: psycopg.Connection[Any], partitions: Sequence[TableName]) -> dict[TableName, str]:
    """The bounds of partitions as [Partition.bound][] has them; empty where one is none."""
    rows = connection.execute(
        "SELECT coalesce(pg_get_expr(relpartbound, oid), '') FROM unnest(%s::text[]) WITH ORDINALITY AS t (name, n) "
        "LEFT JOIN pg_class ON oid = to_regclass(t.name) ORDER BY n",
        ([partition.sql for partition in partitions],),
    ).fetchall()
    return {partition: bound for partition, (bound,) in zip(partitions, rows, strict=True)}


def identities_of(connection: psycopg.Connection[Any], partitions: Sequence[TableName]) -> dict[TableName, str]:
    """The bounds of partitions as [Partition.identity][] has them; empty where one is none."""
    with connection.transaction(force_rollback=True):
        connection.execute(_PLAIN_SETTINGS)
        return bounds_of(connection, partitions)


_INTEGERS = ("bool", "int2", "int4", "int8", "date", "timestamp", "timestamptz", "time")
_KINDS = {
    **dict.fromkeys(_INTEGERS, "integer"),
    **dict.fromkeys(("float4", "float8"), "float"),
    **dict.fromkeys(("numeric", "decimal"), "numeric"),
    **dict.fromkeys(("text", "varchar", "uuid", "bytea", "enum"), "bytes"),
    "char": "padded",
}
_TEXTS = ("text", "varchar", "char")


def unroutable(partitioning: Partitioning, columns: Sequence[TableColumn], *, may_be_none: bool = False) -> str | None:
    """Why only the server can find the partition of a record, or None where the core can."""
    if not partitioning.is_flat:
        return "partitions are partitioned further"
    if not partitioning.partitions and not may_be_none:
        return "there is no partition"
    by_name = {column.name: column for column in columns}
    for part in partitioning.key:
        if part.name is None:
            return "an expression divides the table"
        column = by_name.get(part.name)
        if column is None:
            return f"{part.name} divides the table and is none of the loaded columns"
        kind = _codec_kind(column)
        if kind not in _KINDS:
            return f"only the server can compare {column.type_text}"
        if not part.default_order:
            return f"{part.name} is compared by an operator class of its own"
        if kind in _TEXTS and not part.deterministic:
            return f"the collation of {part.name} takes different texts for equal"
        if partitioning.method == "range" and (kind == "enum" or (kind in _TEXTS and not part.by_bytes)):
            return f"only the server knows the order of {part.name}"
        if partitioning.method == "hash" and (_KINDS[kind] in ("float", "numeric") or kind in ("bool", "enum")):
            return f"only the server knows the hash of {column.type_text}"
    return None


def key_kind(column: TableColumn) -> str | None:
    """How the core compares values of a column (its `KeyKind`); None where only the server can."""
    return _KINDS.get(_codec_kind(column))


def _codec_kind(column: TableColumn) -> str:
    return column.codec_type if isinstance(column.codec_type, str) else str(next(iter(column.codec_type)))


def route_plan(
    connection: psycopg.Connection[Any], partitioning: Partitioning, columns: Sequence[TableColumn]
) -> dict[str, Any]:
    """The core's `RoutePlan`; partitions are numbered as in `partitioning.partitions`."""
    names = [column.name for column in columns]
    key = [
        {
            "column": names.index(part.name or ""),
            "kind": _KINDS[_codec_kind(columns[names.index(part.name or "")])],
        }
        for part in partitioning.key
    ]
    default = next((n for n, partition in enumerate(partitioning.partitions) if partition.is_default), None)
    bounds = [(n, partition.bound) for n, partition in enumerate(partitioning.partitions) if not partition.is_default]
    if partitioning.method == "hash":
        remainders = [[*map(int, re.findall(r"\d+", bound)), n] for n, bound in bounds]
        return {"key": key, "bounds": {"method": "hash", "remainders": remainders}}
    if partitioning.method == "list":
        listed = [(n, literal) for n, bound in bounds for literal in literals(bound)]
        hexes = _send(connection, [(literal, partitioning.key[0]) for _, literal in listed])
        values = [[value, n] for (n, _), value in zip(listed, hexes, strict=True)]
        return {"key": key, "bounds": {"method": "list", "values": values, "default": default}}
    width = len(partitioning.key)
    cells = [(literal, part) for _, bound in bounds for literal, part in _cells(bound, partitioning.key)]
    edges: list[Any] = [
        {"MINVALUE": "min", "MAXVALUE": "max"}.get(literal) or {"value": value}
        for (literal, _), value in zip(cells, _send(connection, cells), strict=True)
    ]
    ranges = []
    for place, (n, _) in enumerate(bounds):
        first = 2 * width * place
        ranges.append([edges[first : first + width], edges[first + width : first + 2 * width], n])
    return {"key": key, "bounds": {"method": "range", "ranges": ranges, "default": default}}


def _cells(bound: str, key: Sequence[KeyPart]) -> list[tuple[str, KeyPart]]:
    found = literals(bound)
    return list(zip(found, [*key, *key], strict=True))


_LITERAL = re.compile(r"E?'(?:[^']|'')*'|[^\s(),']+")


def literals(bound: str) -> list[str]:
    """The literals of a bound as pg_get_expr spells it, in their order: `FOR VALUES FROM (1, 'x') TO (MAXVALUE, …)`."""
    return [word for word in _LITERAL.findall(bound.partition("VALUES ")[2]) if word not in ("FROM", "TO", "IN")]


def _send(connection: psycopg.Connection[Any], cells: Sequence[tuple[str, KeyPart]]) -> list[str | None]:
    """Each literal as the type's send function gives it, in hexadecimal digits; None for NULL and what is no value."""
    values: list[str | None] = [None] * len(cells)
    wanted = [n for n, (literal, _) in enumerate(cells) if literal not in ("MINVALUE", "MAXVALUE", "NULL")]
    # The server has spelled these literals itself.
    pieces = [
        f"({n}, encode({cells[n][1].send_function}(CAST({cells[n][0]} AS {cells[n][1].type_text})), 'hex'))"
        for n in wanted
    ]
    for start in range(0, len(pieces), 1000):
        statement = "VALUES " + ", ".join(pieces[start : start + 1000])
        for n, value in connection.execute(statement.encode()):
            values[n] = value
    return values
