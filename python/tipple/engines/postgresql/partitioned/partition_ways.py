"""Whether the rows of a partitioned table can be loaded partition by partition, and whether they had better be."""

from __future__ import annotations

from typing import Any

import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.postgresql.partitioned import partition_bounds
from tipple.engines.postgresql.place import obstacles
from tipple.engines.postgresql.sessions import lock_room
from tipple.plan.url import TableName

__all__ = ["obstacle", "preference", "table_obstacle"]

FEW_BYTES_PER_PARTITION = 1024 * 1024
"""Where there are many: a hidden partition costs as much time as one session takes to store so many bytes through the
table itself."""
MANY_PARTITIONS = 100

# What a partition does with values otherwise than the table whose partition it is.
_OWN_VALUES = """
SELECT format('its partition %%s has a default or an expression of its own for the column %%I',
              l.oid::regclass, a.attname)
FROM unnest(%(leaves)s::bigint[]) leaf (oid) JOIN pg_class l ON l.oid = leaf.oid
JOIN pg_attribute a ON a.attrelid = l.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
JOIN pg_attribute r ON r.attrelid = to_regclass(%(table)s) AND r.attname = a.attname AND NOT r.attisdropped
LEFT JOIN pg_attrdef e ON e.adrelid = r.attrelid AND e.adnum = r.attnum
WHERE a.attgenerated <> r.attgenerated
    OR pg_get_expr(d.adbin, d.adrelid) IS DISTINCT FROM pg_get_expr(e.adbin, e.adrelid)
LIMIT 1
"""

# Triggers that see a row before NOT NULL, a CHECK or a key judges it (pg_trigger.h, `tgtype`), and may mend it. Hidden
# partitions judge without them. Those of the table itself are a detour already.
_JUDGE_AFTER_TRIGGERS = """
SELECT tgrelid::regclass::text, tgname::text FROM pg_trigger
WHERE tgrelid = ANY (%s::bigint[]) AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 7 = 7
    AND (EXISTS (SELECT FROM pg_attribute WHERE attrelid = tgrelid AND attnum > 0 AND attnotnull)
         OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = tgrelid AND contype = 'c')
         OR EXISTS (SELECT FROM pg_index WHERE indrelid = tgrelid AND indisunique))
ORDER BY 1, 2 LIMIT 1
"""


def table_obstacle(connection: psycopg.Connection[Any], table: TableName) -> str | None:
    """Why rows must go through the partitioned table itself, whichever they are, or None."""
    lasting = obstacles.detour(connection, table)
    if lasting is not None:
        return lasting
    partitioning = partition_bounds.read(connection, table)
    if partitioning is None:
        return "it is not partitioned"
    excluding = connection.execute(
        # A foreign key's index is that of the table that it refers to.
        "SELECT conname FROM pg_constraint JOIN pg_index ON indexrelid = conindid AND indrelid = conrelid "
        "WHERE conrelid = to_regclass(%s) AND indisexclusion LIMIT 1",
        (table.sql,),
    ).fetchone()
    if excluding is not None:
        return f"it has the exclusion constraint {excluding[0]}, which no partition can bring along"
    leaves = [leaf.oid for leaf in partitioning.leaves]
    found = connection.execute(_OWN_VALUES, {"leaves": leaves, "table": table.sql}).fetchone()
    return str(found[0]) if found is not None else None


def obstacle(connection: psycopg.Connection[Any], task: LoadTask) -> str | None:
    """Why rows must go through the partitioned table itself, or None."""
    lasting = table_obstacle(connection, task.table) or obstacles.missing_right(connection, task.table)
    if lasting is not None:
        return lasting
    partitioning = partition_bounds.read(connection, task.table)
    if partitioning is None:
        return "it is not partitioned"
    if not partitioning.partitions and task.partition_by is None:
        return "it has no partition"
    found = connection.execute(
        "SELECT count(*) FROM pg_index WHERE indrelid = to_regclass(%s)", (task.table.sql,)
    ).fetchone()
    indexes = int(found[0]) if found is not None else 0
    each = lock_room.SWAPPED + lock_room.FOR_EACH_INDEX * indexes
    if task.replace_scope == "partitions" or task.partition_by is not None:
        # Nobody knows yet how many get rows, and there is no other way for them.
        each = lock_room.DROPPED
    grows = task.partition_by is not None and task.partition_by.grows
    return lock_room.shortage(connection, len(partitioning.leaves), each=each, more_may_come=grows)


def preference(connection: psycopg.Connection[Any], task: LoadTask) -> str | None:
    """Why rows had better go through the partitioned table itself, or None."""
    partitioning = partition_bounds.read(connection, task.table)
    count = len(partitioning.leaves) if partitioning is not None else 0
    size_bytes = sum(source.size for source in task.sources)
    if count > MANY_PARTITIONS and size_bytes < count * FEW_BYTES_PER_PARTITION and task.stream is None:
        return f"the sources are small for its {count} partitions"
    leaves = [leaf.oid for leaf in partitioning.leaves] if partitioning is not None else []
    found = connection.execute(_JUDGE_AFTER_TRIGGERS, (leaves,)).fetchone()
    if found is not None:
        return f"the trigger {found[1]} of its partition {found[0]} may mend rows before they are judged"
    return None
