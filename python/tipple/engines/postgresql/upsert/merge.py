"""Upserts into PostgreSQL: streams fill a staging table slice by slice, one MERGE takes its rows over.

The staging table keeps each row's place in the sources without the streams' help: by defaults that give the slice
(a number in the order of the sources) and a number that grows within it.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from tipple.engines.base import LoadTask
from tipple.engines.postgresql.place import obstacles, shape
from tipple.engines.postgresql.upsert import merge_checks
from tipple.engines.postgresql.upsert.merge_refusals import Merged, Merger
from tipple.errors import TippleError
from tipple.plan.url import TableName, quote_identifier

SLICE_SETTING = "tipple.slice"
"""The setting in which a stream tells the staging table which slice its rows come from."""


def create_staging(connection: psycopg.Connection[Any], task: LoadTask, staging: TableName, like: TableName) -> None:
    """A table with the columns to load, of the types that they have in `like`, and the rows' place in the sources."""
    names = ", ".join(quote_identifier(column.name) for column in task.columns)
    # What is published for subscribers that have no such table would stop them; what is not logged is not published.
    kind = "TABLE" if obstacles.publication_of_new(connection, staging.schema) is None else "UNLOGGED TABLE"
    connection.execute(
        f"CREATE {kind} {staging.sql} WITH (autovacuum_enabled = false) AS SELECT {names} FROM {like.sql} WITH NO DATA"
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
        TippleError: a key is there already, and `--on-conflict error` was asked for; or may lie in a foreign table.
    """
    connection.execute(f"LOCK TABLE {target.sql} IN SHARE ROW EXCLUSIVE MODE")
    shape.require_same_columns(connection, staging, target, task.columns)
    connection.execute(f"ANALYZE {staging.sql}")
    extra = _key_range(connection, task, staging)
    foreign = merge_checks.foreign_below(connection, task)
    try:
        return Merger(connection, task, staging, target, most=most, extra=extra).run(read)
    except psycopg.errors.FeatureNotSupported as error:
        if not foreign:
            raise
        raise TippleError(
            f"PostgreSQL merges no rows into foreign tables, such as the partition {foreign[0][0]}: "
            f"{error.diag.message_primary}",
            hint="nothing was published; load without the records of such partitions, and beside them: the server "
            "looks into all that lie between the lowest key and the highest one; or with --mode append",
            detail={"sqlstate": error.sqlstate, "message": error.diag.message_primary},
        ) from None


# `format_type` with the modifier -1 writes the types whose bare names mean a length of 1 (character, bit) otherwise.
# A bound of the catalog's own types is not taken for a type that comes with its own equality, which may find more.
_RANGE = """
SELECT low::text, high::text, format_type(type, -1)
FROM (SELECT min({key}) AS low, max({key}) AS high, pg_typeof(min({key})) AS type FROM {staging}) bounds,
     pg_type t
WHERE t.oid = bounds.type AND t.typtype <> 'p' AND low IS NOT NULL AND (
    t.typnamespace <> 'pg_catalog'::regnamespace OR EXISTS (
        SELECT FROM pg_attribute a JOIN pg_type own ON own.oid = a.atttypid
        WHERE a.attrelid = to_regclass({name}) AND a.attname = {column}
          AND (own.typnamespace = 'pg_catalog'::regnamespace OR own.typtype = 'd')))
"""


def _key_range(connection: psycopg.Connection[Any], task: LoadTask, staging: TableName) -> str:
    """What all staged keys lie between, as constants: by them the planner leaves partitions out.

    Types without an order, and a table without rows, give no condition.
    """
    conditions = []
    for column in task.key:
        name = quote_identifier(column)
        query = sql.SQL(_RANGE).format(
            key=sql.Identifier(column),
            staging=sql.SQL(staging.sql),
            name=sql.Literal(staging.sql),
            column=sql.Literal(column),
        )
        try:
            with connection.transaction():
                found = connection.execute(query).fetchone()
        except psycopg.errors.UndefinedFunction:
            continue
        if found is not None:
            low, high = (sql.Literal(bound).as_string(connection) for bound in found[:2])
            conditions.append(f" AND t.{name} >= {low}::{found[2]} AND t.{name} <= {high}::{found[2]}")
    return "".join(conditions)
