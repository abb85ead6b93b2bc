"""Keys of a table that may be built when all rows are stored, though records that repeat one are rejects.

The core then notes the keys of what it stores, and tells which records repeat one (`crates/pipeline/src/load/unique`).
It judges by the bytes of COPY binary: that is as good as the server's own judgement for indexes over plain columns of
types whose equal values it knows.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg

from tipple.engines.base import LoadTask, TableColumn
from tipple.engines.postgresql import checks, stage
from tipple.engines.postgresql.partition_bounds import key_kind
from tipple.plan import constraints
from tipple.plan.url import TableName

__all__ = ["UniqueKey", "of_definition", "of_plan", "of_table"]

# In the order in which the server looks at them. `_pattern_ops` differ from the default operators in order alone.
_UNIQUE = r"""
SELECT (SELECT relname::text FROM pg_class WHERE oid = i.indexrelid),
       ARRAY(SELECT a.attname::text FROM unnest(i.indkey::smallint[]) WITH ORDINALITY k (n, place)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n
             WHERE place <= i.indnkeyatts ORDER BY place),
       i.indexprs IS NULL AND i.indpred IS NULL AND NOT i.indisexclusion AND NOT i.indnullsnotdistinct
       AND (SELECT amname = 'btree' FROM pg_am a JOIN pg_class c ON c.relam = a.oid WHERE c.oid = i.indexrelid)
       AND NOT EXISTS (SELECT FROM unnest(i.indclass::oid[]) o (oid) JOIN pg_opclass USING (oid)
                       WHERE NOT opcdefault AND opcname NOT LIKE '%%\_pattern\_ops')
       AND NOT EXISTS (SELECT FROM unnest(i.indcollation::oid[]) o (oid) JOIN pg_collation USING (oid)
                       WHERE NOT collisdeterministic)
FROM pg_index i WHERE i.indrelid = to_regclass(%s) AND (i.indisunique OR i.indisexclusion) ORDER BY i.indexrelid
"""


class UniqueKey(msgspec.Struct, frozen=True):
    """A unique index."""

    name: str
    columns: list[str]


def of_table(
    connection: psycopg.Connection[Any], table: TableName, columns: Sequence[TableColumn]
) -> list[UniqueKey] | None:
    """The keys of a table into which `columns` are loaded; None where one of them must judge while rows are stored."""
    kinds = {column.name: key_kind(column) for column in columns}
    found = []
    for name, names, is_plain in connection.execute(_UNIQUE, (table.sql,)):
        if not is_plain or not all(kinds.get(column) for column in names):
            return None
        found.append(UniqueKey(name, names))
    return found


def of_definition(connection: psycopg.Connection[Any], task: LoadTask) -> list[UniqueKey] | None:
    """The same of a new table, which is made for a moment; None also where other constraints judge by other rows or
    tables, or a CHECK cannot be there from the first row on.
    """
    definition = task.definition
    if definition is None or not all(
        constraints.is_unique(constraint) or constraints.is_check(constraint) for constraint in definition.constraints
    ):
        return None
    bare = TableName(task.table.schema, f"{stage.PREFIX}{uuid.uuid4().hex}")
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("SET LOCAL lock_timeout = 500")
            connection.execute(definition.create_sql(bare.sql, with_constraints=False))
            if len(checks.add(connection, task, bare)) < len(checks.of_task(task)):
                return None
            connection.execute(definition.create_sql(task.table.sql, with_constraints=True))
            return of_table(connection, task.table, task.columns)
    except psycopg.Error:
        # Whoever makes the table for good says what is wrong with it.
        return None


def of_plan(job: dict[str, Any], task: LoadTask) -> dict[str, Any] | None:
    """The core's `UniqueKeys`, as the plan of a job has them; None where keys judge while rows are stored."""
    if not job.get("unique"):
        return None
    places = {column.name: place for place, column in enumerate(task.columns)}

    def of_key(key: UniqueKey) -> dict[str, Any]:
        at = [places[name] for name in key.columns]
        return {
            "columns": [{"column": place, "kind": key_kind(task.columns[place])} for place in at],
            "constraint": {
                "reason": f'duplicate key value violates unique constraint "{key.name}"',
                "columns": at,
                # What a columnar source has is no text of the record.
                "about_key": "already exists." if task.columnar is None else None,
                "sqlstate": "23505",
            },
        }

    keys = msgspec.convert(job["unique"], list[UniqueKey])
    return {"keys": [of_key(key) for key in keys], "spool": task.spool}
