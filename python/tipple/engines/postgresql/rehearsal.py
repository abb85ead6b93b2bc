"""Makes a new table for a moment, so that what the server refuses of it is told before the load."""

from __future__ import annotations

from itertools import filterfalse
from typing import Any

import msgspec
import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.postgresql import defaults
from tipple.plan import constraints
from tipple.plan.schema import TableDefinition
from tipple.plan.url import quote_identifier

__all__ = ["create_by_itself", "rehearse", "rehearse_references"]

LOCK_MILLISECONDS = 500
"""How long it is waited for who makes a table of the same name."""
REFERENCE_MILLISECONDS = 50
"""How long who writes into a table that is referred to may be kept waiting."""


def rehearse(
    connection: psycopg.Connection[Any], task: LoadTask, definition: TableDefinition, method: str | None
) -> None:
    """Makes the table by itself; `method`: the access method that was asked for.

    Raises:
        psycopg.Error: the server refuses it.
        TippleError: a default cannot be computed.
    """
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}".encode())
            if method is not None:
                connection.execute(f"SET LOCAL default_table_access_method = {quote_identifier(method)}".encode())
            create_by_itself(connection, task, definition)
            defaults.check(connection, task, task.table)
    except psycopg.errors.LockNotAvailable:
        # Somebody else is making a table of this name, and may take it back.
        return


def rehearse_references(connection: psycopg.Connection[Any], task: LoadTask, definition: TableDefinition) -> None:
    """Has the table refer to those others that the same job does not make.

    Raises:
        psycopg.Error: there is no such table, or the server refuses that.
    """
    given = {definition.name.name, *task.beside}
    foreign = [key for key in definition.constraints if constraints.is_foreign_key(key)]
    others = [key for key in foreign if constraints.refers_to(key) not in given]
    if not others:
        return
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(f"SET LOCAL lock_timeout = {REFERENCE_MILLISECONDS}".encode())
            connection.execute(definition.create_sql(task.table.sql, with_constraints=False).encode())
            for key in others:
                connection.execute(f"ALTER TABLE {task.table.sql} ADD {key}".encode())
    except psycopg.errors.LockNotAvailable:
        # Somebody writes into one of them, which is there.
        return


def create_by_itself(connection: psycopg.Connection[Any], task: LoadTask, definition: TableDefinition) -> None:
    """Makes the table without its foreign keys: what they refer to may be published together with it."""
    own = tuple(filterfalse(constraints.is_foreign_key, definition.constraints))
    bare = msgspec.structs.replace(definition, constraints=own)
    connection.execute(bare.create_sql(task.table.sql, with_constraints=True).encode())
