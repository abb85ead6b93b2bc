"""Makes a new table for a moment, so that what the server refuses of it is told before the load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import filterfalse
from typing import Any

import msgspec
import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.postgresql import defaults
from tipple.engines.postgresql.diagnostics import server_error
from tipple.errors import TippleError
from tipple.plan import constraints
from tipple.plan.schema import TableDefinition
from tipple.plan.url import TableName, quote_identifier

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
        TippleError: a default cannot be computed, or is missing.
    """
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}".encode())
            if method is not None:
                connection.execute(f"SET LOCAL default_table_access_method = {quote_identifier(method)}".encode())
            create_by_itself(connection, task, definition)
            defaults.check(connection, task, task.table)
            defaults.require(connection, task)
    except psycopg.errors.LockNotAvailable:
        # Somebody else is making a table of this name, and may take it back.
        return


def rehearse_references(connection: psycopg.Connection[Any], task: LoadTask, definition: TableDefinition) -> None:
    """Has the table refer to those others that the same job does not make.

    Raises:
        psycopg.Error: there is no such table, or the server refuses that.
        TippleError: this role may not.
    """
    others = {
        key: other
        for key in definition.constraints
        if (other := constraints.referred_table(key)) is not None and not _is_made(task, other)
    }
    if not others:
        return
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(f"SET LOCAL lock_timeout = {REFERENCE_MILLISECONDS}".encode())
            connection.execute(definition.create_sql(task.table.sql, with_constraints=False).encode())
            for key, other in others.items():
                with _naming_the_right(other):
                    connection.execute(f"ALTER TABLE {task.table.sql} ADD {key}".encode())
    except psycopg.errors.LockNotAvailable:
        # Somebody writes into one of them, which is there.
        return


def _is_made(task: LoadTask, other: TableName) -> bool:
    """Whether it is the new table, or one that the same job makes."""
    own = {task.table.name} if task.definition is None else {task.table.name, task.definition.name.name}
    is_own = other.name in own and other.schema in (None, task.table.schema or "public")
    return is_own or other.name in task.beside


@contextmanager
def _naming_the_right(other: TableName) -> Iterator[None]:
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        told = server_error(error)
        raise TippleError(
            f"the new table may not refer to {other}: {told.message}",
            hint=f"as its owner: GRANT REFERENCES ON {other.sql} TO this role; or leave out its REFERENCES in the "
            "schema file",
            detail=told.facts,
        ) from None


def create_by_itself(connection: psycopg.Connection[Any], task: LoadTask, definition: TableDefinition) -> None:
    """Makes the table without its foreign keys: what they refer to may be published together with it."""
    own = tuple(filterfalse(constraints.is_foreign_key, definition.constraints))
    bare = msgspec.structs.replace(definition, constraints=own)
    connection.execute(bare.create_sql(task.table.sql, with_constraints=True).encode())
