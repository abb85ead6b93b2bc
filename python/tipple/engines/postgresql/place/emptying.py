"""Removing the rows that are replaced where no other table can take theirs: by DELETE, and nothing but them."""

from __future__ import annotations

from typing import Any

import psycopg

from tipple.engines.postgresql import stage
from tipple.errors import UsageError
from tipple.plan.url import TableName, quote_literal

__all__ = ["empty", "heirs", "require", "statements"]

# Foreign keys of other tables by which a DELETE changes those; of a partition those of its table count too.
_CHANGED_TOO = f"""
WITH RECURSIVE {stage.BELOW}, own AS (
    SELECT oid FROM below UNION SELECT relid FROM pg_partition_ancestors(to_regclass(%(table)s))
)
SELECT format('%%I.%%I', n.nspname, c.relname), k.conname,
    CASE k.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' ELSE 'SET DEFAULT' END
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype = 'f' AND k.confdeltype IN ('c', 'n', 'd') AND k.confrelid IN (SELECT oid FROM own)
    AND k.conrelid NOT IN (SELECT oid FROM own) AND k.conparentid = 0
LIMIT 1
"""

# What can keep a row from being deleted: to look for one costs a scan of all that was.
_KEEPERS = f"""
WITH RECURSIVE {stage.BELOW}
SELECT FROM pg_rewrite WHERE ev_class IN (SELECT oid FROM below) AND ev_type = '4'
UNION ALL SELECT FROM pg_trigger
WHERE tgrelid IN (SELECT oid FROM below) AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 11 = 11
LIMIT 1
"""

_HEIRS = f"""
WITH RECURSIVE {stage.BELOW}
SELECT format('%%I.%%I', nspname, relname) FROM below
JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT relispartition AND c.oid <> to_regclass(%(table)s) ORDER BY 1
"""

# As the server tells it: the role may have the right to DELETE and not to look.
_STILL_THERE = """BEGIN
IF has_table_privilege({name}, 'SELECT') THEN IF EXISTS (SELECT FROM {rows}) THEN
RAISE EXCEPTION 'rows that are to be replaced are still there after DELETE' USING
HINT = 'a rule or a trigger keeps them: disable it for the load, or remove the rows first; nothing was published';
END IF; END IF; END"""


def require(connection: psycopg.Connection[Any], table: TableName) -> None:
    """Refuses to delete rows with which rows of other tables would go, or change, without a word.

    Raises:
        UsageError: the table has rows, and such a foreign key refers to it.
    """
    found = connection.execute(_CHANGED_TOO, {"table": table.sql}).fetchone()
    if found is None or not _has_rows(connection, table):
        return
    other, key, action = found
    raise UsageError(
        f"--mode replace deletes the rows of {table}, and the foreign key {key} of {other} would change that table too "
        f"(ON DELETE {action})",
        hint="--mode upsert keeps rows that others refer to; or empty the table yourself first, if that is meant",
    )


def heirs(connection: psycopg.Connection[Any], table: TableName) -> list[str]:
    """The tables that inherit from it without being its partitions: a DELETE takes their rows too."""
    return [str(name) for (name,) in connection.execute(_HEIRS, {"table": table.sql})]


def statements(
    connection: psycopg.Connection[Any], table: TableName, partitioned: TableName | None = None
) -> list[str]:
    """What deletes the rows, and looks whether they are gone where a rule or a trigger may have kept some.

    Args:
        connection: to the server.
        table: whose rows.
        partitioned: the table that it is a partition of, where that is the one which is loaded.
    """
    deferring = stage.deferring_references(connection, table)
    asked, rows = table, table.sql
    if partitioned is not None:
        deferring += stage.deferring_references(connection, partitioned)
        if _is_closed(connection, table):
            asked, rows = partitioned, f"{partitioned.sql} WHERE tableoid = {quote_literal(table.sql)}::regclass"
    delete = [*deferring, f"DELETE FROM {rows}"]
    if connection.execute(_KEEPERS, {"table": table.sql}).fetchone() is None:
        return delete
    looking = _STILL_THERE.format(name=quote_literal(asked.sql), rows=rows)
    return [*delete, f"DO {quote_literal(looking)}"]


def empty(connection: psycopg.Connection[Any], table: TableName, partitioned: TableName | None = None) -> None:
    """Deletes the rows; see `statements`.

    Raises:
        UsageError: as `require`.
    """
    require(connection, table)
    for statement in statements(connection, table, partitioned):
        connection.execute(statement.encode())


def _is_closed(connection: psycopg.Connection[Any], partition: TableName) -> bool:
    """Whether its policies or rights keep from this role what a DELETE from the table takes, which asks for neither.

    A rule is left in force, and ends the load: somebody has made it to keep these rows.
    """
    found = connection.execute(
        "SELECT row_security_active(oid) OR NOT has_table_privilege(oid, 'DELETE') FROM pg_class "
        "WHERE oid = to_regclass(%s)",
        (partition.sql,),
    ).fetchone()
    return found is not None and bool(found[0])


def _has_rows(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether there may be some: who may not look, or not at all of them, cannot know."""
    allowed = connection.execute(
        "SELECT has_table_privilege(oid, 'SELECT') AND NOT row_security_active(oid) FROM pg_class "
        "WHERE oid = to_regclass(%s)",
        (table.sql,),
    ).fetchone()
    if allowed is None or not allowed[0]:
        return True
    return not stage.is_empty(connection, table)
