"""What staged tables refuse before the first row comes in: the CHECK constraints of a new table, as far as they mean
the same there, and what partitions that are there refuse by themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.postgresql import stage
from tipple.plan import constraints
from tipple.plan.url import TableName, quote_identifier

# Rows are judged alike under any name, unless their table is asked for, or a function looks for it.
_DEPENDS_ON_NAME = """
SELECT coalesce(-6 = ANY (conkey), false) OR EXISTS (SELECT FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid
    WHERE d.classid = 'pg_constraint'::regclass AND d.objid = k.oid AND d.refclassid = 'pg_proc'::regclass
        AND p.provolatile <> 'i' AND strpos(lower(p.prosrc), lower(%(name)s)) > 0)
FROM pg_constraint k WHERE conrelid = to_regclass(%(staging)s) AND contype = 'c' ORDER BY oid DESC LIMIT 1
"""

# What they refuse and their table does not. A name for NOT NULL, and what it may be beside, is known from 18 on.
_OF_PARTITIONS = """
SELECT a.attrelid::bigint, coalesce((
    SELECT format('ADD CONSTRAINT %%I %%s', conname, pg_get_constraintdef(n.oid)) FROM pg_constraint n
    WHERE n.conrelid = a.attrelid AND contype = 'n' AND conkey = ARRAY[a.attnum] AND connoinherit
), format('ALTER COLUMN %%I SET NOT NULL', a.attname))
FROM pg_attribute a JOIN pg_attribute r ON r.attrelid = to_regclass(%(table)s) AND r.attname = a.attname
WHERE a.attrelid = ANY (%(leaves)s::oid[]) AND a.attnum > 0 AND a.attnotnull AND NOT r.attnotnull
    AND NOT a.attisdropped
UNION ALL
SELECT conrelid, format('ADD CONSTRAINT %%I %%s', conname, pg_get_constraintdef(oid)) FROM pg_constraint c
WHERE conrelid = ANY (%(leaves)s::oid[]) AND contype = 'c' AND NOT EXISTS (
    SELECT FROM pg_constraint r WHERE r.conrelid = to_regclass(%(table)s) AND r.contype = 'c' AND r.conname = c.conname)
"""


def of_partitions(
    connection: psycopg.Connection[Any], table: TableName, leaves: Sequence[int]
) -> defaultdict[int, list[str]]:
    """What ALTER TABLE gives to a table that is like a partition of `table`, for it to refuse what that does by itself;
    by the partitions' OIDs, `leaves`."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for oid, change in connection.execute(_OF_PARTITIONS, {"table": table.sql, "leaves": list(leaves)}).fetchall():
        found[oid].append(change)
    return found


def of_task(task: LoadTask) -> list[str]:
    """The CHECK constraints of a new table."""
    return [] if task.definition is None else list(filter(constraints.is_check, task.definition.constraints))


def add(connection: psycopg.Connection[Any], task: LoadTask, staging: TableName) -> list[str]:
    """Gives a new table its CHECK constraints before the first row, so that the server names the record.

    Gives those that it has now. Of the others only the table itself, once it has its name, can say what they mean.
    """
    return [check for check in of_task(task) if _add_if_same(connection, task, staging, check)]


def _add_if_same(connection: psycopg.Connection[Any], task: LoadTask, staging: TableName, check: str) -> bool:
    try:
        with connection.transaction():
            _add_by_either_name(connection, task.table, staging, check)
            facts = {"staging": staging.sql, "name": task.table.name}
            if connection.execute(_DEPENDS_ON_NAME, facts).fetchone() == (False,):
                return True
            raise psycopg.Rollback()
    except psycopg.ProgrammingError:
        pass
    return False


def _add_by_either_name(connection: psycopg.Connection[Any], table: TableName, staging: TableName, check: str) -> None:
    """A condition may call columns by the table's name."""
    try:
        with connection.transaction():
            connection.execute(f"ALTER TABLE {staging.sql} ADD {check}".encode())
    except psycopg.errors.UndefinedTable:
        renamed = TableName(staging.schema, table.name)
        connection.execute(f"ALTER TABLE {staging.sql} RENAME TO {quote_identifier(table.name)}")
        connection.execute(f"ALTER TABLE {renamed.sql} ADD {check}".encode())
        connection.execute(f"ALTER TABLE {renamed.sql} RENAME TO {quote_identifier(staging.name)}")
        if constraints.name_of(check) is None:
            stage.name_last_check(connection, staging)
