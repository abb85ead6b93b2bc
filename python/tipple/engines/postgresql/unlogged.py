"""Rows that are not in the write-ahead log: how the ledger, which is, learns that a crash has taken them.

A crash empties every unlogged table, and nothing in the catalog says so afterwards. So there is a table that shares
their fate, `tipple.unlogged_job`: it names the jobs whose rows are in unlogged tables. A job that should stand there
and does not has lost its rows, be they staged or published.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors

from tipple.engines.base import LoadTask
from tipple.engines.findings import Finding
from tipple.engines.postgresql import stage
from tipple.engines.postgresql.connection import current_role
from tipple.engines.postgresql.diagnostics import server_error
from tipple.engines.postgresql.partitioned import partitions
from tipple.engines.server_errors import files_hint
from tipple.errors import TippleError, UsageError
from tipple.plan.structure import AppliedStructure
from tipple.plan.url import TableName

_CREATE = """
CREATE UNLOGGED TABLE IF NOT EXISTS tipple.unlogged_job (
    job_id uuid PRIMARY KEY REFERENCES tipple.job ON DELETE CASCADE
)
"""

_OWN = """
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'tipple' AND c.relname = 'unlogged_job'
"""

# By the catalog itself: to_regclass fails for a role that may not use the schema, and who lists jobs need not.
_IS_UNLOGGED = """
WITH named AS (SELECT CASE WHEN %(schema)s::text IS NULL THEN to_regclass(%(table)s)::oid ELSE (
    SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = %(name)s) END AS oid)
SELECT EXISTS (
    SELECT FROM pg_class c, named WHERE c.relpersistence = 'u' AND c.relkind = 'r'
        AND (c.oid = named.oid OR c.oid IN (SELECT relid FROM pg_partition_tree(named.oid))))
"""

SPOILT = "the ledger's table tipple.unlogged_job has become a logged one"
UNSPOIL = (
    "as its owner: ALTER TABLE tipple.unlogged_job SET UNLOGGED; and where the server may have crashed since it became "
    "a logged one: TRUNCATE tipple.unlogged_job; so that jobs of unlogged tables are done again by the same commands"
)
"""No job comes into it while it is a logged one, so that all that are there are from before."""

INSERT = "INSERT INTO tipple.unlogged_job VALUES ('{job_id}') ON CONFLICT DO NOTHING"
"""Says that a job's rows are there, and unlogged."""


def is_unlogged(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether a crash would empty the table, or a partition of it."""
    names = {"schema": table.schema, "name": table.name, "table": table.sql}
    found = connection.execute(_IS_UNLOGGED, names).fetchone()
    return found is not None and bool(found[0])


def is_spoilt(connection: psycopg.Connection[Any]) -> bool:
    """Whether somebody has made the table that is to share the fate of unlogged ones a logged one."""
    return _persistence(connection) not in (None, "u")


def _require_unspoilt(connection: psycopg.Connection[Any]) -> None:
    """Raises:
    TippleError: nobody knows what a crash has taken.
    """
    if is_spoilt(connection):
        raise TippleError(f"{SPOILT}: it does not tell any more what a crash has taken", hint=UNSPOIL)


def remember(connection: psycopg.Connection[Any], job_id: str) -> None:
    """Says that a job's rows are there; call it in the transaction that begins the job, or publishes it."""
    _require_unspoilt(connection)
    if _persistence(connection) is None:
        role = current_role(connection)
        try:
            connection.execute(_CREATE)
        except errors.InsufficientPrivilege as error:
            if files_hint(server_error(error)) is not None:
                raise
            raise UsageError(
                f"the role {role} may not note in the ledger which rows a crash would take",
                hint=f"as its owner, once: GRANT REFERENCES ON tipple.job TO {role};",
            ) from None
    with _naming_rights(connection):
        connection.execute(INSERT.format(job_id=job_id))


def forget(connection: psycopg.Connection[Any], job_id: str) -> None:
    """A crash does not touch the job's rows any more."""
    with _naming_rights(connection):
        connection.execute("DELETE FROM tipple.unlogged_job WHERE job_id = %s", (job_id,))


@contextmanager
def _naming_rights(connection: psycopg.Connection[Any]) -> Iterator[None]:
    # Afterwards the transaction has failed, and tells nothing.
    role = current_role(connection)
    try:
        yield
    except errors.InsufficientPrivilege as error:
        if files_hint(server_error(error)) is not None:
            raise
        raise _may_not_use(role) from None


def _may_not_use(role: str) -> UsageError:
    return UsageError(
        f"the role {role} may not use tipple.unlogged_job, which says what unlogged tables still have",
        hint=f"as its owner: GRANT SELECT, INSERT, DELETE ON tipple.unlogged_job TO {role};",
    )


def check_rights(connection: psycopg.Connection[Any]) -> None:
    """Whether the role may do with the ledger's table, where there is one, what loads into unlogged tables do.

    Raises:
        UsageError: it may not; says what to grant.
    """
    if not all(_allowed(connection, right) for right in ("SELECT", "INSERT", "DELETE")):
        raise _may_not_use(current_role(connection))


def kept(connection: psycopg.Connection[Any], table: TableName) -> list[TableName]:
    """The logged partitions of a table that have rows: a crash leaves them alone."""
    logged = connection.execute(
        "SELECT n.nspname, c.relname FROM pg_partition_tree(to_regclass(%s)) JOIN pg_class c ON c.oid = relid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND c.relpersistence = 'p' ORDER BY 2",
        (table.sql,),
    ).fetchall()
    names = [TableName(schema, name) for schema, name in logged]
    filled = stage.having_rows(connection, names)
    return [name for name in names if name in filled]


def require_whole(connection: psycopg.Connection[Any], job_id: str, table: TableName) -> None:
    """Refuses to load again what a crash has taken from some partitions only: others would have it twice.

    Raises:
        TippleError: there are such partitions.
    """
    if rest := kept(connection, table):
        names = ", ".join(str(name) for name in rest[:3]) + (", …" if len(rest) > 3 else "")
        raise TippleError(
            f"the server has crashed since job {job_id} loaded this, and emptied the partitions of {table} that are "
            f"not logged; there still are rows in {names}, which may be this job's",
            hint="delete this job's rows there, and load all of them again with --restart; or use --mode replace",
        )


def has_survived(connection: psycopg.Connection[Any], job_id: str) -> bool:
    """Whether no crash has emptied unlogged tables since `remember`.

    Raises:
        TippleError: nobody knows.
    """
    if _persistence(connection) is None:
        return False
    _require_unspoilt(connection)
    with _naming_rights(connection):
        found = connection.execute("SELECT FROM tipple.unlogged_job WHERE job_id = %s", (job_id,)).fetchone()
    return found is not None


def is_lost(connection: psycopg.Connection[Any], job_id: str, table: TableName) -> bool:
    """Whether a crash has taken the rows of a published job; a standby, which has no unlogged tables, cannot tell.

    A table that somebody has made a logged one before the crash still has them.

    Raises:
        TippleError: nobody knows.
    """
    standby = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    if standby is not None and standby[0]:
        return False
    return is_unlogged(connection, table) and not has_survived(connection, job_id)


def is_surely_lost(connection: psycopg.Connection[Any], job_id: str, table: TableName) -> bool:
    """Like `is_lost`, for a list: what nobody knows, or the role may not know, is not said there."""
    return not is_spoilt(connection) and _allowed(connection, "SELECT") and is_lost(connection, job_id, table)


def warnings(connection: psycopg.Connection[Any], task: LoadTask, wanted: AppliedStructure | None) -> list[Finding]:
    """Says loudly what a crash does to the table that the load leaves behind."""
    if wanted is not None:
        lasts = wanted.durable
    elif task.definition is not None:
        lasts = not task.definition.unlogged
    else:
        lasts = not is_unlogged(connection, task.table)
    if lasts:
        return []
    # What is said of a partitioned table itself changes none of its partitions.
    divided = task.partition_by is not None or partitions.is_partitioned(connection, task.table)
    statement = "ALTER TABLE ... SET LOGGED for each partition" if divided else f"ALTER TABLE {task.table} SET LOGGED"
    in_part = divided and _has_logged_partition(connection, task.table)
    whose = "THEIR" if in_part else "ITS"
    return [
        Finding(
            level="broken",
            subject=f"table {task.table}",
            found="some of its partitions are not written to the log" if in_part else "not written to the log",
            effect=f"ALL {whose} ROWS ARE LOST when the server crashes, and a standby never has any",
            remedy=f"{statement} makes it durable",
        )
    ]


def _has_logged_partition(connection: psycopg.Connection[Any], table: TableName) -> bool:
    found = connection.execute(
        "SELECT FROM pg_partition_tree(to_regclass(%s)) JOIN pg_class c ON c.oid = relid "
        "WHERE c.relkind = 'r' AND c.relpersistence = 'p' LIMIT 1",
        (table.sql,),
    ).fetchone()
    return found is not None


def forget_slices(connection: psycopg.Connection[Any], job_id: str, first_cut: int | None) -> None:
    """Has all slices be loaded again, since none of their rows are left; call it in a transaction.

    Args:
        connection: to the server.
        job_id: whose slices.
        first_cut: from this number on slices were cut while their source was read, and will be again.
    """
    connection.execute("DELETE FROM tipple.reject WHERE job_id = %s", (job_id,))
    if first_cut is not None:
        connection.execute("DELETE FROM tipple.slice WHERE job_id = %s AND n >= %s", (job_id, first_cut))
    connection.execute(
        "UPDATE tipple.slice SET state = 'planned', rows = NULL, rejects = 0, row_digest = NULL, xid = NULL, "
        "finished_at = NULL WHERE job_id = %s",
        (job_id,),
    )


def _persistence(connection: psycopg.Connection[Any]) -> str | None:
    """`u` of the table as it was made, None where there is none."""
    found = connection.execute(f"SELECT relpersistence::text {_OWN}").fetchone()
    return None if found is None else str(found[0])


def _allowed(connection: psycopg.Connection[Any], right: str) -> bool:
    """Whether the role has the right to the table; also where there is none."""
    found = connection.execute(f"SELECT has_table_privilege(c.oid, %s) {_OWN}", (right,)).fetchone()
    return found is None or bool(found[0])
