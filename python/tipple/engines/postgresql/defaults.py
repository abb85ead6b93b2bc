"""Columns that are not loaded: a default that cannot be computed refuses all rows, and so does NOT NULL without one. No
record is at fault."""

from __future__ import annotations

from typing import Any

import psycopg

from tipple.engines.base import LOAD_OR_DEFAULT, Identity, LoadTask
from tipple.engines.postgresql.columns import FILLED_BEFORE
from tipple.errors import TippleError, UsageError
from tipple.plan.url import TableName, quote_identifier

__all__ = ["check", "require"]

_LONGEST_HEADER = 64 * 1024

_NOT_LOADED = """
SELECT attname::text, coalesce(pg_get_expr(adbin, adrelid), pg_get_expr(typdefaultbin, 0)) FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass(%s) AND attnum > 0 AND attgenerated = '' AND attname <> ALL (%s::text[])
  AND (adbin IS NOT NULL OR typdefaultbin IS NOT NULL) ORDER BY attnum
"""

# Whether a foreign table takes NULL is its server's to say. COPY into a table minds no defaults of its partitions; but
# where they have some, it is left to the server.
_UNFILLED = f"""
SELECT attname::text FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid JOIN pg_type t ON t.oid = atttypid
WHERE attrelid = %(table)s AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped AND attnotnull
  AND NOT atthasdef AND attidentity = '' AND typdefault IS NULL AND attname <> ALL (%(loaded)s::text[])
  AND NOT {FILLED_BEFORE} AND NOT EXISTS (
    SELECT FROM pg_partition_tree(%(table)s::oid::regclass) JOIN pg_class o ON o.oid = relid
    LEFT JOIN pg_attribute p ON p.attrelid = relid AND p.attname = a.attname
    WHERE o.relkind = 'f' OR p.atthasdef OR p.attidentity <> '')
ORDER BY attnum
"""


def require(connection: psycopg.Connection[Any], task: LoadTask) -> None:
    """Looks whether each column that takes no NULL is loaded, or gets a value otherwise. Of sources that surely have no
    row nothing is asked.

    Raises:
        UsageError: one does not, so that no row could be stored.
    """
    if task.columnar is None and all(source.form is None and _is_header_alone(source, task) for source in task.sources):
        return
    oid = connection.execute("SELECT to_regclass(%s)::oid", (task.table.sql,)).fetchone()
    asked = {"table": oid[0] if oid is not None else None, "loaded": [column.name for column in task.columns]}
    unfilled = [name for (name,) in connection.execute(_UNFILLED, asked).fetchall()]
    if unfilled:
        them = "the column" if len(unfilled) == 1 else "the columns"
        statement = f"ALTER TABLE {task.table.sql} ALTER {quote_identifier(unfilled[0])} SET DEFAULT …"
        raise UsageError(
            f"no row can be stored in {task.table}: {them} {', '.join(unfilled)}, NOT NULL and without a default, "
            "would get no value",
            hint=LOAD_OR_DEFAULT + (f" ({statement})" if task.definition is None else ""),
        )


def _is_header_alone(source: Identity, task: LoadTask) -> bool:
    if source.size == 0 or not task.header or source.size > _LONGEST_HEADER:
        return source.size == 0
    try:
        with open(source.path, "rb") as file:
            return len(file.read(_LONGEST_HEADER).splitlines()) <= 1
    except OSError:
        # Whoever loads it says so.
        return False


def check(connection: psycopg.Connection[Any], task: LoadTask, table: TableName) -> None:
    """Has the server plan the defaults, as COPY does before it takes the first row; nothing is carried out.

    Raises:
        TippleError: one of them fails whatever the record is, as `1/0` does.
    """
    loaded = [column.name for column in task.columns]
    for name, expression in connection.execute(_NOT_LOADED, (table.sql, loaded)).fetchall():
        try:
            with connection.transaction():
                connection.execute(f"EXPLAIN SELECT {expression}".encode())
        except psycopg.DataError as error:
            raise TippleError(
                f"{task.table}: the default of the column {name}, {expression}, cannot be computed: "
                f"{error.diag.message_primary}",
                hint="give the column another default, or load it: --columns",
                detail={"sqlstate": error.sqlstate},
            ) from None
