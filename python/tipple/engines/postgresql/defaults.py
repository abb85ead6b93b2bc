"""Defaults of columns that are not loaded: one that cannot be computed refuses all rows, and is no record's fault."""

from __future__ import annotations

from typing import Any

import psycopg

from tipple.engines.base import LoadTask
from tipple.errors import TippleError
from tipple.plan.url import TableName

__all__ = ["check"]

_NOT_LOADED = """
SELECT attname::text, coalesce(pg_get_expr(adbin, adrelid), pg_get_expr(typdefaultbin, 0)) FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass(%s) AND attnum > 0 AND attgenerated = '' AND attname <> ALL (%s::text[])
  AND (adbin IS NOT NULL OR typdefaultbin IS NOT NULL) ORDER BY attnum
"""


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
