"""How much room tables, partitions and indexes take in a PostgreSQL database."""

from __future__ import annotations

import re
from typing import Any

import psycopg

from tipple.plan.storage import StorageSize, as_tree
from tipple.plan.url import TableName

_KEYS = r"(?:'(?:[^']|'')*'|[^()'])*"
_RANGE = re.compile(rf"FOR VALUES FROM \((?P<lower>{_KEYS})\) TO \((?P<upper>{_KEYS})\)")
"""A range partition's bounds, as `pg_get_expr` writes them."""


def sizes(connection: psycopg.Connection[Any], table: TableName | None) -> list[StorageSize]:
    """Tables, partitions and indexes with their bounds, pages, bytes and rows."""
    rows = connection.execute(
        """
        SELECT c.oid::regclass::text, c.relkind::text, c.relispartition,
               coalesce(i.indrelid, h.inhparent)::regclass::text, pg_get_expr(c.relpartbound, c.oid),
               pg_relation_size(c.oid) / current_setting('block_size')::bigint,
               CASE WHEN c.relkind = 'i' THEN pg_relation_size(c.oid) ELSE pg_table_size(c.oid) END,
               -- Of a table that nobody has counted, an index has no count either, though the server says 0.
               CASE WHEN least(c.reltuples, t.reltuples) < 0 THEN NULL ELSE c.reltuples::bigint END
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_index i ON i.indexrelid = c.oid
        LEFT JOIN pg_class t ON t.oid = i.indrelid
        LEFT JOIN pg_inherits h ON h.inhrelid = c.oid AND c.relispartition
        WHERE c.relkind IN ('r', 'p', 'i', 'm')
          AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'tipple')
          AND (%(table)s::text IS NULL OR coalesce(i.indrelid, c.oid) = to_regclass(%(table)s)
               OR coalesce(i.indrelid, c.oid) IN (SELECT relid FROM pg_partition_tree(to_regclass(%(table)s))))
        ORDER BY c.oid
        """,
        {"table": table.sql if table is not None else None},
    ).fetchall()
    kinds = {"r": "table", "p": "partitioned table", "i": "index", "m": "materialized view"}
    found = []
    for name, kind, is_partition, parent, bound, pages, size, count in rows:
        range_ = _RANGE.fullmatch(bound or "")
        found.append(
            StorageSize(
                name=name,
                kind="partition" if is_partition and kind in "rp" else kinds[kind],
                parent=parent,
                bound=bound,
                lower_bound=range_["lower"] if range_ else None,
                upper_bound=range_["upper"] if range_ else None,
                pages=pages,
                bytes=size,
                rows=count,
            )
        )
    return as_tree(found)
