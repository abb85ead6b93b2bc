"""A statement of DuckDB that takes what the core reads, batch by batch, and the two waited for as one."""

from __future__ import annotations

import json
import re
import threading

import duckdb

from tipple import _core
from tipple.engines.base import LOAD_OR_DEFAULT
from tipple.engines.core import more_memory
from tipple.engines.duckdb.connection import DISK_FULL, FREE_SPACE, first_row
from tipple.errors import TippleError
from tipple.plan.hive import IN_NO_RANGE, TOO_LONG

STREAM = "tipple_batches"
"""The name by which the statement reads from the core."""
INTERRUPT_SECONDS = 0.1

_WRITING = (duckdb.IOException, duckdb.TransactionException, duckdb.FatalException)
"""What fails while a file is written or a transaction committed; messages of other kinds may quote any value."""


class RecordRefused(TippleError):
    """A record cannot be stored; DuckDB does not say which."""


class ConstraintViolated(RecordRefused):
    """It violates a constraint."""


class Insert(threading.Thread):
    """The INSERT on a thread of its own, so that the main thread can show progress and take Ctrl-C."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, statement: str, job: _core.LoadJob, *, may_interrupt: bool = True
    ) -> None:
        """`may_interrupt`: whether DuckDB survives that; otherwise its batches end when the job is cancelled."""
        super().__init__(name="tipple insert", daemon=True)
        self.connection = connection
        self.statement = statement
        self.job = job
        self.may_interrupt = may_interrupt
        self.rows = 0
        self.error: Exception | None = None
        # Not `join` and `is_alive`: after Ctrl-C in the middle of a `join`, Python takes the thread for ended.
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            self._insert()
        finally:
            self.ended.set()

    def _insert(self) -> None:
        try:
            self.connection.register(STREAM, self.job)
            found = first_row(self.connection, self.statement)
            self.rows = found[0] if found else 0
            self.connection.unregister(STREAM)
        except Exception as error:
            # The view stays: in a failed transaction nothing can be dropped, and rolling back takes it away.
            self.error = error
            # Nobody takes batches any more: the streams must not wait for room.
            self.job.cancel()

    def interrupt(self) -> None:
        """Stops the statement and waits for its end."""
        self.job.cancel()
        if self.ident is None:
            # It never began, so it will not end.
            return
        while not self.ended.wait(INTERRUPT_SECONDS):
            if not self.may_interrupt:
                continue
            try:
                self.connection.interrupt()
            except duckdb.Error:
                # Between two statements there is nothing to interrupt; the next look finds the thread's end.
                continue


class Both:
    """The core's job and the INSERT that pulls from it, waited for as one."""

    def __init__(self, job: _core.LoadJob, insert: Insert) -> None:
        self.job = job
        self.insert = insert

    def progress(self) -> str:
        return self.job.progress()

    def wait(self, timeout_seconds: float) -> bool:
        return self.insert.ended.wait(timeout_seconds) and self.job.wait(timeout_seconds)

    def cancel(self) -> None:
        self.job.cancel()

    def result(self) -> str | None:
        failure = self.insert.error
        try:
            outcome = self.job.result()
        except _core.CoreError as error:
            # Cancelled only because the INSERT had failed: its reason is the cause.
            if failure is not None and json.loads(str(error))["kind"] == "cancelled":
                raise duckdb_error(failure, "storing rows") from None
            raise
        if failure is not None:
            raise duckdb_error(failure, "storing rows")
        return outcome


class Pulled(Both):
    """The same until the INSERT has taken all rows."""

    def wait(self, timeout_seconds: float) -> bool:
        return self.insert.ended.is_set() or self.job.wait(timeout_seconds)

    def result(self) -> str | None:
        return None


def duckdb_error(error: Exception, doing: str) -> TippleError:
    """What DuckDB says, with a remedy for the usual causes."""
    if isinstance(error, UnicodeDecodeError):
        # Its words quote a value that is no text, and that is what it refuses.
        error = duckdb.ConversionException(bytes(error.object).decode(errors="backslashreplace"))
    if not isinstance(error, duckdb.Error):
        return TippleError(f"internal error ({doing}): {type(error).__name__}: {error}", detail={"doing": doing})
    # Behind its words it shows a piece of the statement, which nobody but Tipple has written.
    message = " ".join(str(error).split("\n\nLINE ")[0].split())
    hint = "nothing was published; mend the cause and run the same command again"
    if isinstance(error, duckdb.OutOfMemoryException):
        hint = f"{more_memory(error)}; nothing was published"
    elif isinstance(error, duckdb.ConstraintException) or (
        isinstance(error, _WRITING) and "constraint violation" in message
    ):
        hint = "remove the record that violates the constraint, or make the table without it; nothing was published"
        if "NOT NULL constraint failed" in message:
            # NULL in a column that is loaded never comes so far.
            hint = f"{LOAD_OR_DEFAULT}; nothing was published"
        elif "still referenced by a foreign key" in message:
            hint = (
                "rows of another table refer to what would be replaced or changed, which DuckDB does not do: remove "
                "those first; nothing was published"
            )
        return ConstraintViolated(f"DuckDB refused ({doing}): {message}", hint=hint, detail={"doing": doing})
    elif isinstance(error, _WRITING) and DISK_FULL.search(message):
        hint = FREE_SPACE
    elif isinstance(error, duckdb.TransactionException) and "onflict" in message:
        hint = (
            "another connection of this process changes the same table: commit what it has begun, or wait for its end, "
            "and run this one again; nothing was published"
        )
    elif isinstance(error, duckdb.CatalogException) and re.search(r"Table with name .* already exists", message):
        # This load found none when it began.
        hint = "another load in this process has just made the table: run this one again; nothing was published"
    elif isinstance(error, duckdb.CatalogException) and re.search(r"Table with name .* does not exist", message):
        hint = (
            "where the schema file refers to it: make that table first, or leave its REFERENCES out; nothing was "
            "published"
        )
    elif "no partition takes " in message:
        hint = (
            "add the value to values=[…], or leave values out: then each has a directory of its own; nothing was "
            "published, and --on-error skip does not skip such records"
        )
    elif IN_NO_RANGE in message:
        hint = (
            "--on-error skip leaves such records out, unless they come from standard input or a frame; or correct the "
            "value; nothing was published"
        )
    elif TOO_LONG in message:
        hint = "divide by another column, or by ranges of this one (bounds=[…]); nothing was published"
    elif isinstance(error, duckdb.ConversionException | duckdb.OutOfRangeException | duckdb.InvalidInputException):
        hint = "mend the value, or give the column another type; nothing was published"
        return RecordRefused(f"DuckDB refused ({doing}): {message}", hint=hint, detail={"doing": doing})
    return TippleError(f"DuckDB refused ({doing}): {message}", hint=hint, detail={"doing": doing})
