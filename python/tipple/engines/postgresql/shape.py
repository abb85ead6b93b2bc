"""What a table is, in one text: taken when something is made like it, and compared when that takes its place.

Whatever others change meanwhile would be undone otherwise, without a word.
"""

from __future__ import annotations

from typing import Any

import psycopg

from tipple.engines.postgresql import key_work
from tipple.plan.url import TableName

__all__ = ["changed_since", "of"]

# Keys and foreign keys are not in it: those that came are made, and those that went are looked for.
_SHAPE = """
SELECT md5(string_agg(part, E'\\n' ORDER BY part)) FROM (
    SELECT format('table %%s %%s %%s %%s', oid, relpersistence, relam, reltablespace) FROM pg_class
    WHERE oid = to_regclass(%(table)s)
    UNION ALL
    -- Not those that lie where all do that nobody has placed: of these some may come, and are made here too.
    SELECT format('index %%I %%s', relname, reltablespace) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE indrelid = to_regclass(%(table)s) AND reltablespace <> 0
    UNION ALL
    SELECT format('column %%s %%s %%I %%s %%s %%s %%s %%s %%s %%s %%s', attnum, attisdropped, attname, atttypid,
                  atttypmod, attcollation, attnotnull, attgenerated, attstorage, attcompression,
                  pg_get_expr(adbin, adrelid))
    FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE attrelid = to_regclass(%(table)s) AND attnum > 0
    UNION ALL
    SELECT format('constraint %%I %%s', conname, pg_get_constraintdef(oid)) FROM pg_constraint
    WHERE conrelid = to_regclass(%(table)s) AND contype NOT IN ('p', 'u', 'x', 'f')
    UNION ALL
    SELECT format('statistics %%s', oid) FROM pg_statistic_ext WHERE stxrelid = to_regclass(%(table)s)
) parts (part)
"""

_FOREIGN_KEYS = "SELECT conname FROM pg_constraint WHERE conrelid = to_regclass(%s) AND contype = 'f'"
_INDEXES = "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE indrelid = to_regclass(%s)"


def of(connection: psycopg.Connection[Any], table: TableName) -> str:
    """The shape of a table."""
    found = connection.execute(_SHAPE, {"table": table.sql}).fetchone()
    return str(found[0]) if found is not None else ""


def changed_since(
    connection: psycopg.Connection[Any],
    before: str | None,
    staging: TableName,
    table: TableName,
    *,
    has_own_indexes: bool,
) -> str | None:
    """What others have changed of `table` since it had the shape `before` and `staging` was made like it, or None.

    A structure gives what is staged indexes of its own: with these, none is taken for one that `table` had.
    """
    if before is not None and of(connection, table) != before:
        return f"{table} was changed meanwhile"
    wanted = {own for own, _ in key_work.missing(connection, staging, table).renames}
    gone = _names(connection, _FOREIGN_KEYS, staging) - _names(connection, _FOREIGN_KEYS, table)
    if not has_own_indexes:
        gone |= _names(connection, _INDEXES, staging) - wanted
    return f"an index or a foreign key of {table} was dropped meanwhile" if gone else None


def _names(connection: psycopg.Connection[Any], query: str, table: TableName) -> set[str]:
    return {name for (name,) in connection.execute(query, (table.sql,)).fetchall()}
