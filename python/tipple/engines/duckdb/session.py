"""A control session with a DuckDB database: looking at tables, carrying out loads, keeping jobs."""

from __future__ import annotations

import functools
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress

import duckdb
import msgspec

from tipple.engines import loaded_before
from tipple.engines.base import JobRecord, LoadResult, LoadTask, Published, Runner, Table
from tipple.engines.duckdb import columns, connection, database_file, doctor, ledger, parquet, sizes, turns
from tipple.engines.duckdb.capabilities import CAPABILITIES
from tipple.engines.duckdb.load import DuckLoad
from tipple.engines.duckdb.new_file import NewFile
from tipple.engines.duckdb.same_file import require_same_file
from tipple.engines.duckdb.settings import Settings
from tipple.engines.findings import Finding
from tipple.errors import TippleError, UsageError
from tipple.plan.schema import TableDefinition
from tipple.plan.storage import StorageSize
from tipple.plan.url import TableName, Target, quote_identifier


class DuckSession:
    """A control session."""

    capabilities = CAPABILITIES

    def __init__(self, target: Target, *, read_only: bool, must_exist: bool) -> None:
        self.target = target
        self.read_only = read_only
        self.in_transaction = False
        """Whether loads that publish together have begun their transaction."""
        self.file = NewFile(None if read_only else database_file(target))
        try:
            self.connection = connection.connect(target, read_only=read_only, must_exist=must_exist)
        except BaseException:
            self.file.leave()
            raise
        self.settings = Settings(self.connection)
        self._interrupting = threading.Lock()
        self._is_committed = False
        """Whether the last transaction was committed, or is about to be."""

    def begin(self) -> None:
        """Begins a transaction."""
        with self._interrupting:
            self._is_committed = False
        self.connection.execute("BEGIN")

    def commit(self) -> None:
        """Commits; for what comes then, until the next transaction, `interrupt` comes too late.

        Raises:
            duckdb.TransactionException: DuckDB has given the transaction up before; its COMMIT would say nothing of it.
            TippleError: the file was removed or replaced meanwhile.
        """
        self.connection.execute("SELECT 1")
        if self.path is not None:
            require_same_file(self.path)
        with self._interrupting:
            self._is_committed = True
        self.connection.execute("COMMIT")

    def tell_waits(self, warn: Callable[[str], None]) -> None:
        """Nothing to tell: who cannot have the file at once is refused."""

    def describe(self, table: TableName) -> Table | None:
        """The table as it is, or None where there is none.

        Raises:
            UsageError: it is a view of the user's own.
        """
        found = columns.describe(self.connection, table)
        if found is None:
            columns.refuse_view(self.connection, table)
        return found

    def columns_of(self, definition: TableDefinition) -> Table:
        """The columns that a definition would make: DuckDB itself is asked, by a table that is not kept."""
        # A temporary one: it can be made where the database is open for reading, and knows the database's own types.
        probe = TableName("main", f"tipple_probe_{uuid.uuid4().hex[:8]}")
        # On a connection of its own: a transaction of loads that publish together may be open already.
        prober = self.connection.cursor()
        prober.execute("BEGIN")
        try:
            _create_probe(prober, definition, quote_identifier(probe.name))
            found = columns.describe(prober, probe, temporary=True)
        except duckdb.OutOfMemoryException:
            # No fault of the definition's.
            raise
        except duckdb.Error as error:
            raise definition.refused("DuckDB", str(error)) from None
        finally:
            prober.execute("ROLLBACK")
            prober.close()
        if found is None:
            raise TippleError(f"the table {definition.name} could not be examined")
        return found

    def resolve_new(self, table: TableName) -> TableName:
        """The name with the schema in which an unqualified table would be created.

        Raises:
            UsageError: there is no such schema.
        """
        return columns.place_of_new(self.connection, table)

    def in_other_case(self, table: TableName) -> TableName | None:
        """None: DuckDB finds a table in any case."""
        return None

    def plan(self, task: LoadTask) -> LoadResult:
        """What `load` would do."""
        return DuckLoad(self, task).plan()

    def load(self, task: LoadTask, runner: Runner) -> LoadResult:
        """Loads, verifies and publishes; JobBusy where another load into the table is under way."""
        with turns.turn(self, task.table, runner):
            return DuckLoad(self, task).run(runner)

    @property
    def path(self) -> str | None:
        """The database's file; None for one in memory."""
        return database_file(self.target)

    def examine(self, table: TableName | None, source_bytes: int = 0) -> list[Finding]:
        """What would slow a load down or break it."""
        return doctor.examine(self.connection, self.path, table, source_bytes)

    def published_with(self, table: TableName, content: str) -> list[Published]:
        """A few jobs that have loaded, into this table, sources of which the first has this content."""
        try:
            return ledger.published_with(self.connection, table, content)
        except duckdb.Error:
            # The load itself will say what is wrong.
            return []

    def examine_for(self, task: LoadTask) -> list[Finding]:
        """What this load should know; a few quick looks."""
        load = DuckLoad(self, task)
        try:
            done = load.done_before()
            if done is not None:
                return [loaded_before.emptied(task.table, done)] if load.is_emptied() else []
            found = doctor.before_load(self.connection, self.path, task.table, task.source_bytes)
            known = loaded_before.warnings(task, functools.partial(ledger.loaded_before, self.connection))
            return [*known, *found, *doctor.not_durable(task)]
        except (duckdb.Error, OSError):
            # Advice is no reason to fail.
            return []

    def sizes(self, table: TableName | None) -> list[StorageSize]:
        """The room that tables take."""
        found = sizes.sizes(self.connection, table)
        if self.path is None:
            return found
        named = parquet.find(self.connection, table) if table is not None else None
        files = parquet.find_all(self.connection) if table is None else [named] if named is not None else []
        return found + [size for file in files for size in parquet.sizes(self.connection, file, self.path)]

    def sizes_after(self, table: TableName) -> list[StorageSize]:
        """The room that a table takes which was just loaded."""
        try:
            if self.path is not None:
                # Small tables are in the WAL until the file is closed, which would do this too.
                # By a connection of its own: in a transaction that is open, as where tables are published together,
                # DuckDB refuses it and gives the whole transaction up.
                with suppress(duckdb.TransactionException), self.connection.cursor() as other:
                    other.execute("CHECKPOINT")
            return self.sizes(table)
        except (duckdb.Error, OSError):
            # The rows are published: that their room cannot be told is no failure.
            return []

    def use_date_style(self, order: str) -> None:
        """It reads no such dates itself."""

    def interrupt(self) -> None:
        """Cancels the statement that another thread is waiting for, if there is one."""
        # DuckDB says of a COMMIT that it was interrupted, and carries it out.
        with self._interrupting, suppress(duckdb.Error):
            # A connection that is closed waits for nothing.
            if not self._is_committed:
                self.connection.interrupt()

    def jobs(self) -> list[JobRecord]:
        """All jobs of the ledger, newest first."""
        return ledger.records(self.connection) if ledger.exists(self.connection) else []

    def cancel_job(self, job_id: str) -> None:
        """Gives up a job that was left unfinished.

        Raises:
            UsageError: there is no such job, or it is not unfinished.
        """
        found = [record for record in self.jobs() if record.job_id.startswith(job_id.lower())]
        if len(found) != 1:
            raise UsageError(f"there is no single job {job_id}", hint="tipple jobs URL lists them")
        if found[0].state != "loading":
            raise UsageError(
                f"the job {found[0].job_id} is {found[0].state}",
                hint="only an unfinished job can be cancelled",
            )
        ledger.give_up(self.connection, found[0].job_id, "cancelled")

    def drop_leftovers(self) -> list[str]:
        """Removes files of jobs that are no more; says which."""
        removed = parquet.clean_all(self.connection, self.path) if self.path is not None else []
        forgotten = ledger.forget_rejects(self.connection) if ledger.exists(self.connection) else 0
        return [
            *(f"removed the files of job {name.removeprefix('.')}" for name in removed),
            *([f"removed {forgotten:,} rejects of jobs that were given up"] if forgotten else []),
        ]

    def close(self) -> None:
        """Ends the session."""
        # With the last connection the database's settings are gone, but others may have it open.
        self.settings.restore()
        self.file.close(self.connection)
        turns.end(self)


def _create_probe(prober: duckdb.DuckDBPyConnection, definition: TableDefinition, name: str) -> None:
    """Creates a temporary table as the definition says, in the transaction that is open."""
    try:
        prober.execute(definition.create_sql(name, with_constraints=False, temporary=True))
    except duckdb.InvalidInputException as error:
        if "read-only mode" not in str(error):
            raise
        # All names are known, and the default of a column is a sequence, which nothing may depend on here.
        plain = [msgspec.structs.replace(column, default_text=None) for column in definition.columns]
        without = msgspec.structs.replace(definition, columns=tuple(plain))
        prober.execute("ROLLBACK")
        prober.execute("BEGIN")
        prober.execute(without.create_sql(name, with_constraints=False, temporary=True))
