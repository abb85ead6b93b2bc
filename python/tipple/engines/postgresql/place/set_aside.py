"""Tables that nobody needs any more and that refer to others: set aside empty, and dropped when nobody reads those.

To drop a foreign key locks the table that it refers to, against all its readers too. That may be the one that every
query of a warehouse reads: a transaction that publishes would wait for the moment when none does, and everybody behind
it. So the table leaves its name in that transaction, and is gone a moment or an hour later.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg

from tipple.engines.postgresql import connection as connections
from tipple.plan.url import TableName, quote_identifier

__all__ = ["drop_all", "leave", "put", "refers_to_others", "why_kept"]

REMARK = "tipple: nobody needs this table any more"
"""The comment of such a table: whoever comes by drops it."""
LOCK_MILLISECONDS = 300
"""How long readers of the other tables wait at most: a query takes longer, as a rule."""
PAUSE_SECONDS = 0.2
PATIENCE_SECONDS = 3.0
"""How long a load tries to drop what it has set aside itself."""

_REFERS = "SELECT FROM pg_constraint WHERE conrelid = to_regclass(%s) AND contype = 'f' LIMIT 1"
# What refers to a partitioned table has a constraint for each partition of it too (`conparentid`).
_LEFT = """
SELECT format('%%I.%%I', n.nspname, c.relname), (
    SELECT string_agg(DISTINCT format('%%I.%%I', s.nspname, o.relname), ', ') FROM pg_constraint k
    JOIN pg_class o ON o.oid = k.confrelid JOIN pg_namespace s ON s.oid = o.relnamespace
    WHERE k.conrelid = c.oid AND k.contype = 'f' AND k.conparentid = 0)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_class'::regclass AND d.objsubid = 0
WHERE c.relkind = 'r' AND starts_with(c.relname, 'stage_') AND d.description = %(remark)s
    AND pg_has_role(c.relowner, 'USAGE') AND has_schema_privilege(n.oid, 'USAGE')
ORDER BY c.oid
"""


def refers_to_others(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether it has a foreign key, so that to drop it locks another table."""
    return connection.execute(_REFERS, (table.sql,)).fetchone() is not None


def leave(connection: psycopg.Connection[Any], staging: TableName) -> None:
    """Leaves a staging table, empty, to whoever comes by."""
    remark = psycopg.sql.Literal(REMARK).as_string(connection)
    connection.execute(f"TRUNCATE {staging.sql}; COMMENT ON TABLE {staging.sql} IS {remark}".encode())


def put(connection: psycopg.Connection[Any], table: TableName, staging: TableName) -> None:
    """Has a table leave its name, and its indexes and statistics objects theirs, to the one that was `staging` for it.

    Call it in the transaction that publishes, which has locked the table.
    """
    facts = {"table": table.sql}
    for (statement,) in connection.execute(_BELONGINGS.encode(), facts).fetchall():
        connection.execute(str(statement).encode())
    aside = TableName(staging.schema, f"{staging.name}_0")
    if staging.schema != table.schema and staging.schema is not None:
        connection.execute(f"ALTER TABLE {table.sql} SET SCHEMA {quote_identifier(staging.schema)}".encode())
    moved = TableName(staging.schema, table.name)
    connection.execute(f"ALTER TABLE {moved.sql} RENAME TO {quote_identifier(aside.name)}".encode())
    leave(connection, aside)


# Whatever has a name beside other tables' of the schema, or depends on what somebody may want to drop.
_BELONGINGS = """
SELECT format('ALTER TABLE %%s DROP CONSTRAINT %%I', %(table)s::text, conname) FROM pg_constraint
WHERE conrelid = to_regclass(%(table)s) AND contype IN ('p', 'u', 'x', 'c')
UNION ALL
SELECT format('ALTER TABLE %%s ALTER %%I DROP DEFAULT', %(table)s::text, attname) FROM pg_attribute
WHERE attrelid = to_regclass(%(table)s) AND atthasdef AND attgenerated = '' AND NOT attisdropped
UNION ALL
SELECT format('DROP INDEX %%I.%%I', n.nspname, c.relname) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE i.indrelid = to_regclass(%(table)s) AND NOT EXISTS (
    SELECT FROM pg_constraint WHERE conindid = i.indexrelid AND conrelid = i.indrelid AND contype IN ('p', 'u', 'x'))
UNION ALL
SELECT format('DROP STATISTICS %%I.%%I', n.nspname, stxname) FROM pg_statistic_ext
JOIN pg_namespace n ON n.oid = stxnamespace WHERE stxrelid = to_regclass(%(table)s)
"""


def drop_all(connection: psycopg.Connection[Any], patience_seconds: float = 0.0) -> list[str]:
    """Drops what this role's loads have set aside, as far as the tables that it refers to can be locked for a moment.

    Args:
        connection: to the server, in no transaction.
        patience_seconds: for so long it is tried again.

    Returns:
        What is left, in sentences for the user.
    """
    until = time.monotonic() + patience_seconds
    while True:
        left = connection.execute(_LEFT, {"remark": REMARK}).fetchall()
        kept = [(name, others, why) for name, others in left if (why := why_kept(connection, name)) is not None]
        if not kept or time.monotonic() >= until:
            break
        time.sleep(PAUSE_SECONDS)
    return [
        f"the table {name}, which is empty and which nobody needs any more, could not be dropped ({why}); it refers to "
        f"{others or 'others'}; the next load drops it, or tipple jobs URL clean"
        for name, others, why in kept
    ]


def why_kept(connection: psycopg.Connection[Any], name: str) -> str | None:
    """Drops a table, by its quoted name; says why that cannot be now, or None."""
    try:
        with connection.transaction():
            before = connection.execute(
                "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"
            ).fetchone()
            # The one is for each of the tables that it refers to.
            connection.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}".encode())
            connection.execute(f"SET LOCAL statement_timeout = {2 * LOCK_MILLISECONDS}".encode())
            connection.execute(f"DROP TABLE IF EXISTS {name}".encode())
            # It may be a part of a larger transaction.
            connection.execute(
                "SELECT set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true)", before
            )
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.QueryCanceled):
        return "others use a table that it refers to"
    except psycopg.Error as error:
        if connections.is_lost(error):
            raise
        return str(error.diag.message_primary or error)
    return None
