"""Values of keys that make a staged row a reject: rows of the table have that key already, or no row of the table that
a foreign key refers to has it.

They are asked for when all is staged, by a join with what the tables hold then. Who changes them afterwards is in the
way of publish, which ends the load; the same command then finds that here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg

from tipple.engines import core
from tipple.engines.base import LoadTask
from tipple.engines.postgresql import connection as connections
from tipple.engines.postgresql import direct, indexes, stage
from tipple.engines.postgresql.job import OwnedJob
from tipple.engines.postgresql.keys import late_keys
from tipple.engines.postgresql.partitioned import partition_steps, partitions
from tipple.plan.url import TableName, quote_identifier

__all__ = ["apart", "compare_values", "copy", "look_through", "note"]

MOST_BARRED = 4_000_000
"""As many as the core looks for (`unique/repeated.rs`)."""
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""Of a binary COPY, as servers send it: signature, flags and the length of an extension, which is 0."""
_TRAILER = b"\xff\xff"

# The planner has no statistics of what is staged, and takes far more rows for found than there are.
_SCAN_SETTINGS = ("max_parallel_workers_per_gather = {workers}", "parallel_setup_cost = 0", "parallel_tuple_cost = 0")
MOST_WORKERS = 1024
"""Of a query: more is no value of the setting."""
LEAST_JOIN_KILOBYTES = 4096
"""The server's own default of `work_mem`."""


def note(connection: psycopg.Connection[Any], task: LoadTask, owned: OwnedJob) -> None:
    """Writes them down for the core, which reads `barred-N.keys` of the spool for the key N.

    Raises:
        core.UnreadableKeys: they are too many to be told apart in memory.
    """
    keys, pairs = late_keys.of_job(owned.plan), list(_pairs(connection, task, owned))
    for number, key in enumerate(keys.unique):
        columns = [quote_identifier(name) for name in key.columns]
        queries = [_in_both(staged, table, columns) for staged, table in pairs]
        _write(connection, task, number, queries)
    if not keys.foreign or owned.staging is None:
        return
    with connection.transaction():
        look_through(connection, task, owned, owned.staging)
        # As the server does it when it adds a foreign key (`RI_Initial_Check`), but for all workers together.
        kilobytes = indexes.memory_bytes(connection) // 1024 // (min(task.streams, MOST_WORKERS) + 1)
        connection.execute(f"SET LOCAL work_mem = {max(kilobytes, LEAST_JOIN_KILOBYTES)}".encode())
        connection.execute("SET LOCAL hash_mem_multiplier = 1")
        tables = apart(connection, owned)
        for number, foreign in enumerate(keys.foreign, len(keys.unique)):
            _write(connection, task, number, [foreign.missing(table) for table in tables])


def apart(connection: psycopg.Connection[Any], owned: OwnedJob) -> list[TableName]:
    """The tables in which all that is staged lies: publish may have detached some of its partitions already."""
    if owned.staging is None or owned.strategy != "partition":
        return [] if owned.staging is None else [owned.staging]
    detached = [leaf.name for leaf in partitions.staged(connection, owned.staging) if leaf.hidden_parent is None]
    return [owned.staging, *detached]


def compare_values(connection: psycopg.Connection[Any]) -> None:
    """Makes the transaction read and compare values as the load does."""
    for setting in connections.value_settings(connection):
        connection.execute(f"SET LOCAL {setting}".encode())


def look_through(connection: psycopg.Connection[Any], task: LoadTask, owned: OwnedJob, staging: TableName) -> None:
    """Makes the transaction ready for queries that go through all that is staged, and compare values."""
    compare_values(connection)
    for setting in _SCAN_SETTINGS:
        scanning = setting.format(workers=min(task.streams, MOST_WORKERS))
        connection.execute(f"SET LOCAL {scanning}".encode())
    for statement in direct.reading_all_ahead(connection, staging) if owned.direct else []:
        connection.execute(statement.encode())


def copy(connection: psycopg.Connection[Any], task: LoadTask, number: int, table: TableName) -> None:
    """Stores the values that were noted of the key `number` in a table of its columns."""
    with connection.cursor() as cursor, cursor.copy(f"COPY {table.sql} FROM STDIN (FORMAT binary)".encode()) as into:
        into.write(_HEADER)
        with _file(task, number).open("rb") as file:
            while piece := file.read(1 << 18):
                into.write(piece)
        into.write(_TRAILER)


def _file(task: LoadTask, number: int) -> Path:
    return Path(task.spool or "") / f"barred-{number}.keys"


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


def _in_both(staged: TableName, table: TableName, columns: Sequence[str]) -> str:
    same = " AND ".join(f"t.{column} = s.{column}" for column in columns)
    names = ", ".join(f"s.{column}" for column in columns)
    return f"SELECT {names} FROM ONLY {staged.sql} s JOIN {table.sql} t ON {same}"


def _write(connection: psycopg.Connection[Any], task: LoadTask, number: int, queries: Sequence[str]) -> None:
    """Notes the rows of these queries for the key `number`: each is that of a reject, so one too many is enough."""
    allowed = task.rejects.max_count if task.rejects is not None else None
    most = MOST_BARRED if allowed is None else min(allowed, MOST_BARRED)
    count = 0
    with _file(task, number).open("wb") as file:
        for query in queries:
            for piece in _rows(connection, f"{query} LIMIT {most + 1}"):
                file.write(piece)
                count += 1
            if count > MOST_BARRED:
                raise core.UnreadableKeys(
                    f"more than {MOST_BARRED:,} keys are those of rows that are there, or missing"
                )


def _rows(connection: psycopg.Connection[Any], query: str) -> Iterator[bytes]:
    with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT binary)".encode()) as copy:
        for number, message in enumerate(copy):
            rows = bytes(message)[len(_HEADER) if number == 0 else 0 :]
            if rows != _TRAILER:
                yield rows
