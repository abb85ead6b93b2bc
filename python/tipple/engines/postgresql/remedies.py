"""What helps against a server's error where only its words say what it is about, and they are in its own language.

The words name a schema, a tablespace or a constraint, and the catalog knows the rest.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from tipple.engines import server_errors
from tipple.engines.server_errors import ServerError
from tipple.plan.quotes import has_word
from tipple.plan.url import TableName

__all__ = ["can_be_asked", "of", "of_tablespace"]

# Where they are checked at the end, rights are those of the owners of the tables that foreign keys are of.
_DENIED = """
SELECT kind, name FROM (
    SELECT 'schema', nspname::text, CASE WHEN %(is_at_end)s THEN EXISTS (
        SELECT FROM pg_constraint f JOIN pg_class c ON c.oid IN (f.conrelid, f.confrelid)
        WHERE f.contype = 'f' AND c.relnamespace = n.oid AND NOT has_schema_privilege(c.relowner, n.oid, 'USAGE'))
        ELSE NOT (has_schema_privilege(n.oid, 'USAGE') AND has_schema_privilege(n.oid, 'CREATE')) END
    FROM pg_namespace n WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
    UNION ALL SELECT 'tablespace', spcname::text, NOT has_tablespace_privilege(oid, 'CREATE') FROM pg_tablespace
) AS found (kind, name, is_denied)
WHERE is_denied AND strpos(%(said)s, name) > 0 AND NOT EXISTS (SELECT FROM pg_class WHERE relname = name)
"""
_IS_OF_OTHERS = """
WITH own AS (
    SELECT to_regclass(%(table)s)::oid AS oid UNION SELECT relid FROM pg_partition_tree(to_regclass(%(table)s)))
SELECT FROM pg_constraint WHERE contype = 'f' AND conname = %(constraint)s
    AND confrelid IN (SELECT oid FROM own) AND conrelid NOT IN (SELECT oid FROM own) LIMIT 1
"""


def of(
    connection: psycopg.Connection[Any], table: TableName | None, error: ServerError, *, is_at_end: bool = False
) -> str | None:
    """What to do about an error of the server's; None where there is no more to be said of it than it says itself.

    Args:
        connection: to that server; nothing is asked where it is lost, or in a transaction that has failed.
        table: the one that is loaded, if any.
        error: what the server says.
        is_at_end: whether that was at COMMIT.
    """
    kind, name = _denied(connection, error, is_at_end=is_at_end) or ("", "")
    if kind == "schema":
        return server_errors.schema_hint(name, is_at_end=is_at_end)
    if kind == "tablespace":
        return server_errors.tablespace_hint(name)
    return server_errors.rights_hint(error, is_at_end=is_at_end) or server_errors.reference_hint(
        error, is_of_others=table is not None and _is_of_others(connection, table, error)
    )


def of_tablespace(connection: psycopg.Connection[Any], error: ServerError) -> str | None:
    """What to do where this role may make no tables in a tablespace; None of all else."""
    kind, name = _denied(connection, error) or ("", "")
    return server_errors.tablespace_hint(name) if kind == "tablespace" else server_errors.tablespace_hint_of(error)


def _denied(
    connection: psycopg.Connection[Any], error: ServerError, *, is_at_end: bool = False
) -> tuple[str, str] | None:
    """The kind and the name of what the server refuses, where an English one would say both."""
    is_told = server_errors.is_english(error) or server_errors.files_hint(error) is not None
    if is_told or not server_errors.lacks_right(error) or not can_be_asked(connection):
        return None
    with suppress(psycopg.Error):
        asked = {"said": error.message, "is_at_end": is_at_end}
        named = [
            (str(kind), str(name))
            for kind, name in connection.execute(_DENIED, asked).fetchall()
            if has_word(error.message, name)
        ]
        return named[0] if len(named) == 1 else None
    return None


def _is_of_others(connection: psycopg.Connection[Any], table: TableName, error: ServerError) -> bool:
    """Whether a foreign key that is violated is that of a table which refers to this one."""
    if error.sqlstate != server_errors.FOREIGN_KEY or error.constraint is None or not can_be_asked(connection):
        return False
    with suppress(psycopg.Error):
        asked = {"table": table.sql, "constraint": error.constraint}
        return connection.execute(_IS_OF_OTHERS, asked).fetchone() is not None
    return False


def can_be_asked(connection: psycopg.Connection[Any]) -> bool:
    """Whether a session is there, and not in a transaction that has failed."""
    status = connection.info.transaction_status
    return not connection.closed and status in (TransactionStatus.IDLE, TransactionStatus.INTRANS)
