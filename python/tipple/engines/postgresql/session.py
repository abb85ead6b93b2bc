"""A control session with a PostgreSQL server: looking at tables, carrying out loads, keeping jobs."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

import psycopg

from tipple.engines import core, loaded_before
from tipple.engines.base import NOTHING_TO_DO, JobRecord, LoadResult, LoadTask, Published, Runner, Table
from tipple.engines.findings import Finding
from tipple.engines.postgresql import (
    columns,
    connection,
    doctor,
    history,
    ledger,
    new_table,
    remedies,
    sizes,
    stage,
    unlogged,
)
from tipple.engines.postgresql.capabilities import CAPABILITIES, OLDEST_VERSION
from tipple.engines.postgresql.diagnostics import server_error
from tipple.engines.postgresql.failure import failure
from tipple.engines.postgresql.load import PostgresLoad
from tipple.engines.postgresql.place import estranged, set_aside
from tipple.engines.postgresql.sessions import backends
from tipple.engines.postgresql.sessions.backends import Backend
from tipple.engines.postgresql.sessions.blockers import Blockers
from tipple.engines.postgresql.sessions.processes import is_surely_dead
from tipple.engines.postgresql.sessions.watch import Watch
from tipple.engines.server_errors import is_of_circumstances
from tipple.errors import ConnectionFailed, TippleError, UsageError, VerifyFailed
from tipple.plan.schema import TableDefinition
from tipple.plan.storage import StorageSize
from tipple.plan.url import TableName, Target, parse_table_name

CANCEL_SECONDS = 5
NEVER_SECONDS = 1e9
"""Before a load begins no server is given up."""
_TOO_MANY_COLUMNS = "54011"

# pg_trigger.h: 1 is FOR EACH ROW, 4 is INSERT.
_TRIGGER_OF_ROWS = """
SELECT tgname FROM pg_trigger
WHERE (tgrelid = to_regclass(%(table)s) OR tgrelid IN (SELECT relid FROM pg_partition_tree(to_regclass(%(table)s))))
  AND tgtype & 5 = 5 AND NOT tgisinternal AND tgenabled <> 'D' ORDER BY tgname LIMIT 1
"""

# Not everybody may make temporary tables. What is not kept may lie anywhere else.
_PLACE_OF_PROBES = """
SELECT CASE WHEN has_database_privilege(current_database(), 'TEMPORARY') THEN 'pg_temp' ELSE (
    SELECT nspname FROM pg_namespace WHERE has_schema_privilege(oid, 'CREATE') AND nspname !~ '^pg_'
    ORDER BY nspname LIMIT 1) END
"""


P = ParamSpec("P")
R = TypeVar("R")


def _told(
    method: Callable[Concatenate[PostgresSession, P], R],
) -> Callable[Concatenate[PostgresSession, P], R]:
    """Has what the server says in the middle of a method be an error of Tipple's, with its remedy."""

    @functools.wraps(method)
    def telling(session: PostgresSession, /, *arguments: P.args, **named: P.kwargs) -> R:
        try:
            return method(session, *arguments, **named)
        except psycopg.Error as error:
            raise failure(session.target, error, connection=session.connection) from None

    return telling


class PostgresSession:
    """A control session."""

    capabilities = CAPABILITIES

    def __init__(self, target: Target) -> None:
        self.target = target
        self.blockers = Blockers()
        self.watch: Watch | None = None
        """Of the load that runs."""
        self._planning: Watch | None = None
        """Until one does."""
        self.backend: Backend | None = None
        """The session, once a load runs."""
        self.date_style = ""
        """The order of dates that the user has named."""
        self.connection = connection.connect(target, "tipple")
        self.lost: set[Backend] = set()
        """Sessions of earlier control connections: the server may not have noticed that they are gone."""
        self.version = self.connection.info.server_version // 10000
        if self.version < OLDEST_VERSION:
            self.connection.close()
            raise UsageError(
                f"{target.display} is PostgreSQL {self.version}",
                hint=f"Tipple needs {OLDEST_VERSION} or later",
            )

    def tell_waits(self, warn: Callable[[str], None]) -> None:
        """From now on, until a load begins, `warn` is told whom the session waits for, from any thread."""
        if self._planning is None:
            self._planning = Watch(self.target, NEVER_SECONDS, Blockers(warn))
            self._planning.__enter__().add(self.connection)

    def _planned(self) -> None:
        planning, self._planning = self._planning, None
        if planning is not None:
            planning.__exit__(None, None, None)

    @_told
    def describe(self, table: TableName) -> Table | None:
        """The table as it is, or None where there is none.

        Raises:
            UsageError: the name is that of something that cannot be loaded into, or nothing can be written.
        """
        connection.require_writable(self.connection, self.target)
        columns.require_table(self.connection, table)
        return columns.describe(self.connection, table)

    @_told
    def columns_of(self, definition: TableDefinition) -> Table:
        """The columns that a definition would make: the server itself is asked, by a table that is not kept."""
        found = self.connection.execute(_PLACE_OF_PROBES).fetchone()
        probe = TableName(found[0] if found is not None else None, f"tipple_probe_{uuid.uuid4().hex[:8]}")
        try:
            with self.connection.transaction(force_rollback=True):
                statement = definition.create_sql(probe.sql, with_constraints=False).replace(
                    "CREATE UNLOGGED TABLE", "CREATE TABLE", 1
                )
                self.connection.execute(statement)
                made = columns.describe(self.connection, probe)
        except psycopg.Error as error:
            # A connection that is lost has no code.
            if error.sqlstate is None or is_of_circumstances(error.sqlstate):
                raise
            refusal = estranged.refusal(self.connection, error)
            if refusal is not None:
                raise UsageError(f"{definition.name} cannot be made: {refusal.why}", hint=refusal.remedy) from None
            told = server_error(error)
            hint = remedies.of_tablespace(self.connection, told)
            if error.sqlstate == _TOO_MANY_COLUMNS and definition.is_guessed:
                hint = "name the columns to load by --columns, at most so many; the others can go into another table"
            raise definition.refused("the server", told.message, hint=hint) from None
        if made is None:
            raise TippleError(f"the table {definition.name} could not be examined")
        return made

    @_told
    def resolve_new(self, table: TableName) -> TableName:
        """The name as the server would keep it, with the schema in which an unqualified table would be created.

        Raises:
            UsageError: there is no such schema, or the role may not create tables in it, or cannot use them.
        """
        return new_table.place_of(self.connection, table)

    @_told
    def in_other_case(self, table: TableName) -> TableName | None:
        """A table whose name is this one but for upper and lower case."""
        return new_table.in_other_case(self.connection, table)

    @_told
    def use_date_style(self, order: str) -> None:
        """Dates that only the server reads have day, month and year in this order; streams take it over from here."""
        self.date_style = order
        self.connection.execute("SELECT set_config('DateStyle', %s, false)", (order,))

    @_told
    def plan(self, task: LoadTask) -> LoadResult:
        """What `load` would do."""
        self._ensure_connection(task)
        return PostgresLoad(self, task).plan()

    @_told
    def load(self, task: LoadTask, runner: Runner) -> LoadResult:
        """Loads, verifies and publishes."""
        self._ensure_connection(task)
        self._planned()
        try:
            self.blockers = Blockers(runner.warn)
            with Watch(self.target, task.stall_seconds, self.blockers) as self.watch:
                self.watch.add(self.connection)
                self.backend = backends.own(self.connection)
                # What other loads have left may be in the way; whoever comes by next will try again.
                with suppress(psycopg.Error):
                    set_aside.drop_all(self.connection)
                return PostgresLoad(self, task).run(runner)
        except VerifyFailed as error:
            trigger = self._trigger_of_rows(task.table)
            if trigger is not None:
                published = "nothing was published; " if task.atomic else ""
                error.hint = (
                    f"{published}the trigger {trigger} may have changed the values: --verify count compares the "
                    "numbers of rows only"
                )
            raise

    def _trigger_of_rows(self, table: TableName) -> str | None:
        """A trigger that is called for each row that goes into the table, or into a partition of it."""
        try:
            found = self.connection.execute(_TRIGGER_OF_ROWS, {"table": table.sql}).fetchone()
        except psycopg.Error:
            # There is an error to report already, and it is not this one.
            return None
        return None if found is None else str(found[0])

    def another(self, name: str) -> psycopg.Connection[Any]:
        """A further connection, watched like the first; `name` is its application_name."""
        made = connection.connect(self.target, name)
        return self.watch.add(made) if self.watch is not None else made

    def _ensure_connection(self, task: LoadTask) -> None:
        """A new control connection, if the server is to be waited for, where the one that there was is lost: before a
        load nothing hangs on it, and it may have been idle for long while the sources were looked at."""
        try:
            self.connection.execute("SELECT 1")
        except psycopg.Error as error:
            if not connection.is_lost(error) or not task.retry_seconds:
                raise
            self.reconnect(task.retry_seconds)

    def reconnect(self, retry_seconds: float) -> None:
        """A new control connection in place of a lost one.

        Raises:
            ConnectionLost: the server did not come back in time.
        """
        try:
            self.connection.close()
        finally:
            self.lost |= {self.backend} if self.backend is not None else set()
            try:
                self.connection = connection.reconnect(self.target, "tipple", retry_seconds)
            except core.LoginRefused as error:
                raise core.ConnectionLost(
                    str(error), hint=f"{error.hint}; then run the same command again: nothing is stored twice"
                ) from None
            except ConnectionFailed as error:
                raise core.ConnectionLost(
                    f"the server did not come back within {retry_seconds} seconds: {error}",
                    hint="run the same command again when it is back: nothing is stored twice",
                ) from None
            self.backend = backends.own(self.connection)
            if self.watch is not None:
                self.watch.add(self.connection)
            if self.date_style:
                self.use_date_style(self.date_style)

    @_told
    def examine(self, table: TableName | None, source_bytes: int = 0) -> list[Finding]:
        """What would slow a load down or break it."""
        return doctor.examine(self.connection, table, source_bytes)

    def published_with(self, table: TableName, content: str) -> list[Published]:
        """A few jobs that have loaded, into this table, sources of which the first has this content."""
        try:
            return history.published_with(self.connection, table, content)
        except psycopg.Error:
            # Without the ledger, or the connection, the load itself will say what is missing.
            return []

    @_told
    def examine_for(self, task: LoadTask) -> list[Finding]:
        """What this load should know; a few quick looks."""
        self._ensure_connection(task)
        load = PostgresLoad(self, task)
        try:
            strategy = load.foreseen_strategy()
            if strategy == NOTHING_TO_DO:
                earlier = ledger.find_by_key(self.connection, task.request_key)
                if earlier is None or not load.job.is_emptied(earlier):
                    return []
                return [loaded_before.emptied(task.table, earlier.job_id)]
            swaps = strategy in ("swap", "partition")
            findings = doctor.before_load(self.connection, load.task, swaps=swaps)
            return [
                *unlogged.warnings(self.connection, load.task, load.chooser.structure),
                *loaded_before.warnings(load.task, functools.partial(history.loaded_before, self.connection)),
                *findings,
            ]
        except psycopg.Error:
            # Advice is no reason to fail; if the server is gone, the load itself will say so.
            return []

    @_told
    def sizes(self, table: TableName | None) -> list[StorageSize]:
        """The room that tables, partitions and indexes take.

        Raises:
            UsageError: the role may not look at the table.
        """
        if table is not None:
            columns.relation_kind(self.connection, table)
        return sizes.sizes(self.connection, table)

    def sizes_after(self, table: TableName) -> list[StorageSize]:
        """The room that a table takes which was just loaded."""
        try:
            return sizes.sizes(self.connection, table)
        except psycopg.Error:
            # The rows are published: that their room cannot be told is no failure.
            return []

    def interrupt(self) -> None:
        """Cancels the statement that another thread is waiting for, if there is one."""
        try:
            self.connection.cancel_safe(timeout=CANCEL_SECONDS)
        except psycopg.Error:
            # Without a connection nobody waits for a statement.
            return

    @_told
    def jobs(self) -> list[JobRecord]:
        """All jobs of the ledger, newest first."""
        try:
            return ledger.records(self.connection) if ledger.exists(self.connection) else []
        except psycopg.errors.InsufficientPrivilege:
            ledger.require_reading(self.connection)
            raise

    @_told
    def cancel_job(self, job_id: str) -> None:
        """Stops a job that runs elsewhere, or gives up one that was left unfinished.

        Raises:
            UsageError: there is no such job, or it is not unfinished.
        """
        connection.require_writable(self.connection, self.target)
        job = ledger.find_by_id(self.connection, job_id) if ledger.exists(self.connection) else None
        if job is None:
            raise ledger.no_such_job(job_id)
        ledger.check_rights(self.connection)
        if job.staging:
            stage.require_own(self.connection, parse_table_name(job.staging), f"the job {job.job_id}")
        owner = backends.owner(self.connection, job.job_id)
        try:
            self._give_up(job, "2s")
        except psycopg.errors.LockNotAvailable:
            # A process that is stopped has a transaction open that proves, and so locks, the job's ownership.
            self.terminate_streams(job.job_id)
            if owner is not None:
                backends.end(self.connection, [owner[1].pid])
            self._give_up(job, "0")
        self.terminate_streams(job.job_id)
        if job.staging:
            stage.drop(self.connection, parse_table_name(job.staging))
        if owner is not None:
            backends.end_if_stuck(self.connection, *owner)

    def _give_up(self, job: ledger.LedgerJob, patience: str) -> None:
        """Says in the ledger that a job is cancelled; `patience`: how long locks are waited for ("0": for ever)."""
        with self.connection.transaction():
            self.connection.execute("SELECT set_config('lock_timeout', %s, true)", (patience,))
            if self.connection.execute(ledger.GIVE_UP, ("cancelled", job.job_id)).rowcount == 0:
                raise UsageError(f"the job {job.job_id} is {job.state}", hint="only an unfinished job can be cancelled")

    @_told
    def drop_leftovers(self) -> list[str]:
        """Drops the staging tables of jobs that are no more, and the rejects of those given up; says which."""
        connection.require_writable(self.connection, self.target)
        if not ledger.exists(self.connection):
            return stage.drop_unlisted(self.connection)
        ledger.check_rights(self.connection)
        unlisted = stage.drop_unlisted(self.connection)
        rows = self.connection.execute(
            "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'tipple' AND c.relkind IN ('r', 'p') AND c.relname ~ '^stage_[0-9a-f]{32}(_[0-9]+)?$' "
            "AND NOT EXISTS (SELECT FROM tipple.job j WHERE j.state = 'loading' AND j.staging = "
            "'\"tipple\".\"' || substring(c.relname FROM '^stage_[0-9a-f]{32}') || '\"') "
            "AND pg_has_role(c.relowner, 'USAGE') ORDER BY length(c.relname)"
        ).fetchall()
        set_aside.drop_all(self.connection, set_aside.PATIENCE_SECONDS)
        done = [stage.dropped(self.connection, name) for (name,) in rows]
        forgotten = self.connection.execute(ledger.FORGET_REJECTS).rowcount
        return [
            *done,
            *unlisted,
            *([f"removed {forgotten:,} rejects of jobs that were given up"] if forgotten else []),
        ]

    def end_dead_owner(self, table: TableName) -> bool:
        """Ends the session that holds a table's lock for a process of this machine that is no more, or one that this
        process has lost.

        A server behind a dead network keeps the session of a killed client until it notices; the ledger says which
        process it belonged to.
        """
        found = self.lost & backends.holders(self.connection, table)
        self.lost -= found
        dead = {backend.pid for backend in found}
        if ledger.exists(self.connection):
            for pid, owner in ledger.owners(self.connection, table):
                if is_surely_dead(owner):
                    dead.add(pid)
        backends.end(self.connection, dead)
        return bool(dead)

    def terminate_streams(self, job_id: str) -> None:
        """Ends the sessions that an earlier owner of the job left behind, so that their locks go."""
        backends.end(self.connection, backends.named(self.connection, ledger.session_name(job_id)))

    def close(self) -> None:
        """Ends the session."""
        self._planned()
        self.connection.close()
