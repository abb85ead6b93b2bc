"""Upserts into DuckDB: a table takes the rows in the order of the sources, MERGE takes them over; both live and end
in the transaction of the load.

It is created by its columns, not by CREATE TABLE AS … LIMIT 0: in the transaction that did so DuckDB 2.0 does not
see the rows that an INSERT in insertion order adds. Its columns have the collations of the table's, so that the same
keys are equal among staged rows and between those and the table's.
"""

from __future__ import annotations

import duckdb
import msgspec

from tipple.engines.base import LoadTask
from tipple.engines.duckdb.collations import collated_types
from tipple.engines.duckdb.connection import first_row, qualified
from tipple.engines.duckdb.constraints import triggers_of
from tipple.engines.duckdb.pull import duckdb_error
from tipple.engines.merge import Merge, MergeCounts, refuse_conflicts
from tipple.errors import UsageError
from tipple.plan.url import TableName, quote_identifier

EXCHANGED = (
    "where records exchange values of another unique key, load those that give one up first: DuckDB looks at keys "
    "after every 2,048 rows"
)
"""What may have been refused where no record violates a constraint."""


class DuckDBMerge(Merge, frozen=True, kw_only=True):
    """The statements as DuckDB takes them."""

    @property
    def latest(self) -> str:
        """By `DISTINCT ON` a key would be that of any of the equal rows: -0 or 0, a month or 30 days."""
        names, key = (", ".join(map(quote_identifier, columns)) for columns in (self.columns, self.key))
        last = f"SELECT max(rowid) FROM {self.staging} GROUP BY {key}"
        return f"SELECT {names} FROM {self.staging} WHERE rowid IN ({last}) ORDER BY {key}"


def staging(connection: duckdb.DuckDBPyConnection, task: LoadTask) -> str:
    """The table for the rows, beside the one that they go to; nobody else sees it, or has one of its name."""
    name = f"tipple_stage_{task.request_key.hex()[:16]}"
    return qualified(connection, TableName(task.table.schema, name))


def create_staging(connection: duckdb.DuckDBPyConnection, task: LoadTask) -> None:
    """Creates the table for the rows; the one that they go to is there."""
    types = {column.name: column.type_text for column in task.columns}
    if any(name.lower() == "rowid" for name in types):
        # It would hide DuckDB's own, which tells which record is the last.
        raise UsageError(
            f"--mode upsert: {task.table} has a column named rowid, which hides the order of the records from DuckDB",
            hint="give the column another name"
            + ("" if any(name.lower() == "rowid" for name in task.key) else ", or leave it out with --columns"),
        )
    if triggers := triggers_of(connection, task.table):
        raise UsageError(
            f"--mode upsert: DuckDB merges no rows into a table with triggers: {', '.join(triggers)}",
            hint="drop them, and create them again after the load",
        )
    collated = collated_types(connection, qualified(connection, task.table), types)
    columns = ", ".join(f"{quote_identifier(name)} {type_text}" for name, type_text in collated.items())
    connection.execute(f"CREATE TABLE {staging(connection, task)} ({columns})")


def merge(connection: duckdb.DuckDBPyConnection, task: LoadTask, into: str, read: int) -> MergeCounts:
    """Takes the staged rows over into the table, in the transaction that is open.

    Raises:
        RecordRefused: DuckDB refuses a row.
        TippleError: a key is there already, and `--on-conflict error` was asked for.
    """
    statements = DuckDBMerge(
        target=into,
        staging=staging(connection, task),
        columns=[column.name for column in task.columns],
        key=task.key,
        on_conflict=task.on_conflict,
    )
    if task.on_conflict == "error":
        refuse_conflicts(task.table, task.key, connection.execute(statements.conflicts()).fetchall())
    latest, matched = (
        int((first_row(connection, query) or (0,))[0])
        for query in (statements.count_latest(), statements.count_matched())
    )
    try:
        stored = int((first_row(connection, statements.merge()) or (0,))[0])
        connection.execute(f"DROP TABLE {statements.staging}")
    except duckdb.Error as error:
        raise duckdb_error(error, "merging rows") from None
    counts = statements.counts(read=read, latest=latest, matched=matched)
    # Where nothing makes the key unique, a record may update several rows.
    return msgspec.structs.replace(counts, updated=stored - counts.inserted)
