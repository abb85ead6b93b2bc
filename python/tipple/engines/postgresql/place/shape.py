"""What a table is, in one text: taken when something is made like it, and compared when that takes its place.

Whatever others change meanwhile would be undone otherwise, without a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import psycopg

from tipple.engines.base import TableColumn
from tipple.engines.postgresql.place import key_work, sequences
from tipple.errors import TippleError
from tipple.plan.url import TableName

__all__ = ["changed_meanwhile", "changed_since", "of", "require_same_columns"]

# Keys and foreign keys are not in it: those that came are made, and those that went are looked for.
_SHAPE = f"""
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
    SELECT format('identity %%s %%s', attnum, attidentity) FROM pg_attribute
    WHERE attrelid = to_regclass(%(table)s) AND attidentity <> '' AND NOT attisdropped
    UNION ALL
    {sequences.NUMBERING}
    UNION ALL
    SELECT format('statistics %%s', oid) FROM pg_statistic_ext WHERE stxrelid = to_regclass(%(table)s)
) parts (part)
"""

_FOREIGN_KEYS = """
SELECT format('%%I %%s', conname, pg_get_constraintdef(oid)) FROM pg_constraint
WHERE conrelid = to_regclass(%s) AND contype = 'f' AND conparentid = 0
"""
_INDEXES = "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE indrelid = to_regclass(%s)"


def of(connection: psycopg.Connection[Any], table: TableName) -> str:
    """The shape of a table."""
    found = connection.execute(_SHAPE.encode(), {"table": table.sql, "given": []}).fetchone()
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


_TYPES = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attname = ANY (%s) AND attnum > 0 AND NOT attisdropped
"""


def require_same_columns(
    connection: psycopg.Connection[Any], staging: TableName, table: TableName, columns: Sequence[TableColumn]
) -> None:
    """Refuses to copy staged rows into columns that have other types than they had, unless these are wider: the server
    would round or cut values that it refuses where they are loaded.

    Raises:
        TippleError: somebody has changed one of `columns` meanwhile, or dropped or renamed it.
    """
    names = [column.name for column in columns]
    ours, theirs = (dict(connection.execute(_TYPES, (name.sql, names)).fetchall()) for name in (staging, table))
    changed = sorted(name for name in ours if name not in theirs or not _takes_all(theirs[name], ours[name]))
    if changed:
        raise changed_meanwhile(table, changed)


_INTEGERS = ("smallint", "integer", "bigint")
_LIMITED = re.compile(r"character varying\((\d+)\)")
_DECIMAL = re.compile(r"numeric\((\d+),(\d+)\)")


def _takes_all(new: str, old: str) -> bool:
    """Whether the one type (as `format_type` has it) surely takes all values of the other one as they are."""
    if new == old:
        return True
    if new in _INTEGERS and old in _INTEGERS:
        return _INTEGERS.index(new) > _INTEGERS.index(old)
    was_limited, limited = _LIMITED.fullmatch(old), _LIMITED.fullmatch(new)
    if was_limited or old == "character varying":
        longer = was_limited and limited and int(limited[1]) > int(was_limited[1])
        return bool(longer) or new in ("character varying", "text")
    was_decimal, decimal = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if was_decimal and decimal:
        (digits, scale), (more_digits, more) = map(int, was_decimal.groups()), map(int, decimal.groups())
        return more >= scale and more_digits - more >= digits - scale
    return new == "numeric" and (was_decimal is not None or old in _INTEGERS)


def changed_meanwhile(table: TableName, columns: Sequence[str]) -> TippleError:
    """What to say where others have changed `columns` of a table while it was loaded."""
    return TippleError(
        f"the table {table} was changed while it was loaded: column {', '.join(columns)}",
        hint="nothing was published; run the command again with --restart",
    )


def _names(connection: psycopg.Connection[Any], query: str, table: TableName) -> set[str]:
    return {name for (name,) in connection.execute(query, (table.sql,)).fetchall()}
