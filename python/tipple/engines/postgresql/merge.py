"""Upserts into PostgreSQL: streams fill a staging table slice by slice, one MERGE takes its rows over.

The staging table keeps each row's place in the sources without the streams' help: by defaults that give the slice
(a number in the order of the sources) and a number that grows within it.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from tipple.engines.base import LoadTask
from tipple.engines.postgresql.merge_refusals import Merged, Merger
from tipple.plan.url import TableName, quote_identifier

SLICE_SETTING = "tipple.slice"
"""The setting in which a stream tells the staging table which slice its rows come from."""


def create_staging(connection: psycopg.Connection[Any], task: LoadTask, staging: TableName, like: TableName) -> None:
    """A table with the columns to load, of the types that they have in `like`, and the rows' place in the sources."""
    names = ", ".join(quote_identifier(column.name) for column in task.columns)
    connection.execute(
        f"CREATE TABLE {staging.sql} WITH (autovacuum_enabled = false) AS SELECT {names} FROM {like.sql} WITH NO DATA"
    )
    connection.execute(
        f"ALTER TABLE {staging.sql} "
        f"ADD tipple_slice bigint NOT NULL DEFAULT current_setting('{SLICE_SETTING}', true)::bigint, "
        # Each stream takes numbers by the thousand: within a slice, which one session loads, they only grow.
        "ADD tipple_row bigint GENERATED ALWAYS AS IDENTITY (CACHE 10000)"
    )


def merge(
    connection: psycopg.Connection[Any],
    task: LoadTask,
    staging: TableName,
    target: TableName,
    *,
    read: int,
    most: int | None,
) -> Merged:
    """Takes the staged rows over into `target`, in the transaction that is open. Readers go on; writers wait.

    Where the table refuses a row, at most `most` of them (None: any number) are left out, and told with the one that
    is one too many.

    Raises:
        TippleError: a key is there already, and `--on-conflict error` was asked for.
    """
    connection.execute(f"LOCK TABLE {target.sql} IN SHARE ROW EXCLUSIVE MODE")
    connection.execute(f"ANALYZE {staging.sql}")
    extra = _key_range(connection, task, staging)
    return Merger(connection, task, staging, target, most=most, extra=extra).run(read)


def _key_range(connection: psycopg.Connection[Any], task: LoadTask, staging: TableName) -> str:
    """What all staged keys lie between, as constants: by them the planner leaves partitions out.

    Types without an order, and a table without rows, give no condition.
    """
    conditions = []
    for name in map(quote_identifier, task.key):
        try:
            with connection.transaction():
                found = connection.execute(
                    f"SELECT min({name})::text, max({name})::text, pg_typeof(min({name}))::text FROM {staging.sql}"
                ).fetchone()
        except psycopg.errors.UndefinedFunction:
            continue
        if found is not None and found[0] is not None:
            low, high, type_name = found
            low, high = (sql.Literal(bound).as_string(connection) for bound in (low, high))
            conditions.append(f" AND t.{name} >= {low}::{type_name} AND t.{name} <= {high}::{type_name}")
    return "".join(conditions)
