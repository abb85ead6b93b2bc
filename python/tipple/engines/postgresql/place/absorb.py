"""Rows that a table has, copied to those that were staged for it: together they take the table's place.

Whichever side is smaller moves: to append much to little, one session that stores it all, with every index in place,
takes many times as long as streams that fill another table unseen. A partition of the target is treated the same way
(`partition_steps.py`).
"""

from __future__ import annotations

import time
from typing import Any

import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.postgresql import indexes, stage, tablespaces
from tipple.engines.postgresql.place import filling, set_aside
from tipple.engines.postgresql.place.key_work import KeyWork
from tipple.engines.postgresql.place.views import OwnViews
from tipple.errors import UsageError
from tipple.plan.url import TableName

__all__ = ["builds_last", "lock_out", "require", "rows_move", "take_over_rows", "why_rows_stay"]

LEAST_BYTES = 64 * 1024 * 1024
"""Of sources: with less, nobody notices the difference."""
BUILDS_LAST_SHARE = 4
"""Indexes are built behind the copied rows where these are more than a quarter of the new ones: to put a row into an
index takes several times as long as to sort it into one that is built."""
MOST_COPIES = 2
"""So often are rows copied, where others are in the way; each copy that is taken back leaves its room in the file."""
LOCK_SECONDS = 10
"""How long the last locks are tried for: what was copied is not to be copied again for one long query."""
LOCK_MILLISECONDS = 300
"""How long they are waited for at a time, views and table: together less than what the server calls a deadlock."""
LOCK_PAUSE_SECONDS = 0.2


def why_rows_stay(connection: psycopg.Connection[Any], task: LoadTask) -> str | None:
    """Why the rows that the table has stay where they are, and those of the sources come to them; else None."""
    if task.together is not None:
        return "it already has rows, and is published together with other tables"
    if task.structure is not None or task.tablespaces:
        return "it already has rows"
    if task.indexes == "rebuild":
        return None
    moves = task.source_bytes >= LEAST_BYTES and _size(connection, task.table) <= task.source_bytes
    return None if moves else "it already has rows"


def require(task: LoadTask, obstacle: str | None) -> None:
    """Refuses to build indexes anew where the table must stay what it is.

    Raises:
        UsageError: it must, and `--indexes rebuild` was asked for.
    """
    if obstacle is not None and task.indexes == "rebuild":
        raise UsageError(
            f"--indexes rebuild is not possible: no other table can take the place of {task.table}: {obstacle}",
            hint="leave it out: rows then go into the table with its indexes in place",
        )


def rows_move(connection: psycopg.Connection[Any], task: LoadTask, staging: TableName) -> bool:
    """Whether the rows that the table has now are to be copied to the staged ones, and not the other way round."""
    if task.mode != "append" or task.structure is not None or task.together is not None:
        return False
    if stage.is_empty(connection, task.table):
        return False
    has_keys = stage.has_keys(connection, task.table) or set_aside.refers_to_others(connection, task.table)
    if task.rejects is not None and not task.keys_at_end and has_keys:
        return False
    return task.indexes == "rebuild" or _size(connection, task.table) <= _size(connection, staging)


def builds_last(connection: psycopg.Connection[Any], task: LoadTask, staging: TableName) -> bool:
    """Whether the indexes of what is staged are built when the table's rows have come to it."""
    share = BUILDS_LAST_SHARE * _size(connection, task.table)
    return rows_move(connection, task, staging) and share > _size(connection, staging)


def take_over_rows(connection: psycopg.Connection[Any], task: LoadTask, staging: TableName, work: KeyWork) -> None:
    """Copies the table's rows to the staged ones, and does the `work`: what indexes and constraints these lack.

    Call it in a transaction that keeps writers away from the table.
    """
    columns = stage.stored_columns(connection, task.table)
    filling.fill(connection, task, staging, task.table, columns)
    stage.judge_now(connection, [staging])
    if not work.is_done:
        work.tablespace = tablespaces.of_indexes(connection, task, staging, like=task.table)
        indexes.build_here(connection, work)
    if task.analyze:
        connection.execute(f"ANALYZE {staging.sql}")


def lock_out(connection: psycopg.Connection[Any], table: TableName, views: OwnViews, *, may_move: bool) -> None:
    """Takes the last locks, on the table and its views, without standing in their queues for long.

    Whoever has read the table and wants to write waits for this transaction: if that waited for him too, the server
    would end one of both.

    Raises:
        psycopg.errors.LockNotAvailable: somebody reads one of them all the time.
    """
    until = time.monotonic() + LOCK_SECONDS
    while True:
        views.begin(may_move=may_move)
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}".encode())
                views.lock(connection, table)
            return
        except psycopg.errors.LockNotAvailable:
            if time.monotonic() >= until:
                raise
        time.sleep(LOCK_PAUSE_SECONDS)


def _size(connection: psycopg.Connection[Any], table: TableName) -> int:
    found = connection.execute("SELECT pg_relation_size(to_regclass(%s))", (table.sql,)).fetchone()
    return int(found[0] or 0) if found is not None else 0
