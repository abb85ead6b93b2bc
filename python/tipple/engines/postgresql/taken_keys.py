"""Keys of staged rows that rows of the table have already: the records are rejects, as if they had met these rows.

They are asked for when all is staged, by a join with what the table holds then. Who stores such a key afterwards is in
the way of publish, which ends the load; the same command then finds that row here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from tipple.engines import core
from tipple.engines.base import LoadTask
from tipple.engines.postgresql import partition_steps, stage
from tipple.engines.postgresql.job import OwnedJob
from tipple.plan.url import TableName, quote_identifier

__all__ = ["note"]

MOST_TAKEN = 4_000_000
"""As many as the core looks for (`unique/repeated.rs`)."""
_HEADER_BYTES = 19
"""Of a binary COPY, as servers send it: signature, flags and the length of an extension, which is 0."""
_TRAILER = b"\xff\xff"


def note(connection: psycopg.Connection[Any], task: LoadTask, owned: OwnedJob) -> None:
    """Writes them down for the core, which reads `taken-N.keys` of the spool for the key N.

    Raises:
        core.UnreadableKeys: they are too many to be told apart in memory.
    """
    directory, count = Path(task.spool or ""), 0
    pairs = list(_pairs(connection, task, owned))
    for number, key in enumerate(owned.plan["unique"]):
        path = directory / f"taken-{number}.keys"
        path.unlink(missing_ok=True)
        columns = [quote_identifier(name) for name in key["columns"]]
        for staged, table in pairs:
            with path.open("ab") as file:
                for piece in _in_both(connection, staged, table, columns):
                    file.write(piece)
                    count += 1
            if count > MOST_TAKEN:
                raise core.UnreadableKeys(f"more than {MOST_TAKEN:,} keys are those of rows that are there")


def _pairs(
    connection: psycopg.Connection[Any], task: LoadTask, owned: OwnedJob
) -> Iterator[tuple[TableName, TableName]]:
    """Staged tables with rows, and the tables whose rows they will be among."""
    if task.mode != "append" or task.definition is not None or owned.staging is None:
        return
    if owned.strategy == "partition":
        yield from partition_steps.beside(connection, task, owned.staging)
    elif not stage.is_empty(connection, task.table):
        yield owned.staging, task.table


def _in_both(
    connection: psycopg.Connection[Any], staged: TableName, table: TableName, columns: list[str]
) -> Iterator[bytes]:
    same = " AND ".join(f"t.{column} = s.{column}" for column in columns)
    names = ", ".join(f"s.{column}" for column in columns)
    query = f"SELECT {names} FROM ONLY {staged.sql} s JOIN {table.sql} t ON {same} LIMIT {MOST_TAKEN + 1}"
    with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT binary)".encode()) as copy:
        for number, message in enumerate(copy):
            rows = bytes(message)[_HEADER_BYTES if number == 0 else 0 :]
            if rows != _TRAILER:
                yield rows
