"""What the server says, as one of Tipple's errors, and whether that may pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from tipple.engines import core, server_errors
from tipple.engines.base import LoadTask
from tipple.engines.postgresql import connection as connections
from tipple.engines.postgresql import missing, remedies
from tipple.engines.postgresql.diagnostics import server_error
from tipple.engines.server_errors import ServerError
from tipple.errors import ConnectionFailed, Interrupted, JobBusy, TippleError
from tipple.plan.quotes import table_lacking_key
from tipple.plan.url import Target

__all__ = ["INPUT_AGAIN", "LOOK", "REPEATED", "failure", "may_pass"]

REPEATED = ("23505", "23P01")
"""Unique and exclusion violations: of two records with the key, the second is to blame."""

LOOK = (
    "without a ledger nobody can tell whether the rows were published: look at the table before the command is run "
    "again; tipple jobs URL clean drops what was staged"
)
INPUT_AGAIN = (
    "what was read of the input cannot be read again: unless tipple jobs URL shows the job as published, run the "
    "command again with the same input"
)


def failure(
    target: Target,
    error: psycopg.Error,
    task: LoadTask | None = None,
    in_users_words: Callable[[str], str] = str,
    *,
    connection: psycopg.Connection[Any],
) -> TippleError:
    """What has failed, in the load `task` where it was one; `in_users_words` tells otherwise what the server says, and
    by `connection` it is asked what it means where it speaks another language than English."""
    if connections.is_lost(error):
        return core.ConnectionLost(
            f"the connection to the server was lost: {' '.join(str(error).split())}",
            hint=core.AGAIN if task is None or task.ledger else LOOK,
        )
    told = server_error(error)
    text = in_users_words(told.text)
    absent = None if task is None else missing.explain(task, told)
    if absent is not None:
        return absent
    come = _constraint(error) if task is not None and task.definition is None else None
    if task is not None and come is not None:
        return TippleError(
            f"{come} came to {task.table} while it was loaded, and what was loaded violates it (SQLSTATE "
            f"{error.sqlstate}): {text}",
            hint="nothing was published; run the command again: it then names the record, or makes a reject of it with "
            "--on-error skip; or drop the constraint",
            detail=told.facts,
        )
    hint = error.diag.message_hint or "nothing was published; mend the cause and run the same command again"
    of_rows = error.sqlstate in REPEATED and error.diag.schema_name != "pg_catalog"
    if task is not None and task.rejects is None and of_rows:
        # Of an expression, say, nobody can look for the record; with the index in place the server names it.
        hint = (
            "nothing was published; mend the record that repeats the key, and run the same command again: with "
            "--on-error skip it is named, and kept apart as a reject"
        )
    if task is not None and task.rejects is None and error.sqlstate == "23503":
        # A record may spell a value otherwise than the server does, and what is read once is not searched.
        refers_to_itself = table_lacking_key(f"{told.message} ({told.detail})") == task.table.name
        first = "" if refers_to_itself else "load the referenced table first, or "
        hint = f"nothing was published; {first}mend the record, and run the same command again"
        if task.partition_by is None and task.replace_scope != "partitions" and not refers_to_itself:
            hint += ": with --on-error skip it is named, and kept apart as a reject"
    if error.sqlstate == "2BP01":
        # The server's own would take what somebody has made meanwhile, such as a view of a partition.
        hint = (
            "nothing was published; run the same command again: where that was made meanwhile, it goes another way now"
        )
    return TippleError(
        f"the server at {target.display} refused (SQLSTATE {error.sqlstate}): {text or error}",
        hint=remedies.of(connection, None if task is None else task.table, told) or server_errors.hint(told) or hint,
        detail=told.facts,
    )


def _constraint(error: psycopg.Error) -> str | None:
    """The constraint that staged rows violate. They have met all those that were there when they came in, and were
    named by their records."""
    match error:
        case psycopg.errors.CheckViolation() if error.diag.constraint_name and error.diag.table_name:
            # A bound of partitions, which is none, has no name, and a domain's has no table.
            return f"the constraint {error.diag.constraint_name}"
        case psycopg.errors.NotNullViolation() if error.diag.column_name:
            return f"NOT NULL of the column {error.diag.column_name}"
        case _:
            return None


def may_pass(error: BaseException) -> bool:
    """Whether the same load may succeed another time: what has ended it is no fault of its records or its table."""
    if isinstance(error, psycopg.Error):
        return connections.is_lost(error) or server_errors.may_pass(server_error(error))
    if isinstance(error, (KeyboardInterrupt, Interrupted, JobBusy, ConnectionFailed, core.CommitInDoubt)):
        return True
    return isinstance(error, TippleError) and (
        server_errors.may_pass(ServerError.of_facts(error.detail)) or core.lacks_room(error.detail.get("message"))
    )
