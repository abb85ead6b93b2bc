"""Who loads into a table: its lock, the jobs that the ledger knows, and the one that this process owns.

The table's advisory lock says that its owner lives; the job's epoch shuts out an owner that only seemed to be dead.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import psycopg

from tipple.engines import core
from tipple.engines.base import BESIDE_KEY, NOTHING_TO_DO, OPTIONS, STDIN, Cut, LoadTask
from tipple.engines.postgresql import (
    checks,
    defaults,
    direct,
    history,
    known_types,
    ledger,
    rehearsal,
    stage,
    structure,
    tablespaces,
    unlogged,
)
from tipple.engines.postgresql.failure import may_pass
from tipple.engines.postgresql.keys import late_keys
from tipple.engines.postgresql.ownership import Sessions, refuse_lost
from tipple.engines.postgresql.partitioned import partitions
from tipple.engines.postgresql.place import estranged, sequences, shape
from tipple.engines.postgresql.sessions.processes import this_process
from tipple.engines.postgresql.upsert import merge
from tipple.engines.server_errors import room_hint
from tipple.errors import JobBusy, SourceChanged, TippleError, UsageError
from tipple.plan.structure import AppliedStructure
from tipple.plan.url import TableName, parse_table_name, quote_identifier

if TYPE_CHECKING:
    from tipple.engines.postgresql.session import PostgresSession

Strategy = Literal["swap", "single", "incremental", "merge", "partition"]
"""How rows become visible; `load.py` says what each of them is."""


class OwnedJob(msgspec.Struct):
    """A job that this process owns."""

    job_id: str
    epoch: int
    staging: TableName | None
    strategy: Strategy
    plan: dict[str, Any]
    """As the ledger has it."""
    resumed: bool
    is_given_up: bool = False
    """Whether this run itself has given it up, to begin anew by another way."""

    @property
    def direct(self) -> bool:
        """Whether pages are appended to the staging table, which then has no constraints yet."""
        return bool(self.plan.get("direct"))

    @property
    def unlogged(self) -> bool:
        """Whether a crash of the server takes rows that the ledger has as stored."""
        return bool(self.plan.get("unlogged"))


class JobOwner:
    """Finds, begins and keeps the job of one load."""

    def __init__(self, session: PostgresSession, task: LoadTask, notes: list[str]) -> None:
        """`notes` gets remarks for the user."""
        self.session = session
        self.task = task
        self.notes = notes
        self.exists = task.definition is None
        self.table = task.table
        self.structure: AppliedStructure | None = None
        """What the table is to be."""
        self.late_keys = late_keys.LateKeys()
        """Keys that judge records when all are stored."""
        self.replaces: str | None = None
        """A published job of the same command, which is superseded when this one is published, and not before."""
        self.going_on: str | None = None
        """The job that this load had begun before it lost its connection."""
        self.came_by_pages = False
        """Whether the job was begun before with pages: there may be nothing left that could go by them."""
        self.keeps_structure = False
        """Whether it is so already, and rows may go in beside others."""

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The control connection; another one after the server was gone."""
        return self.session.connection

    def lock_table(self) -> None:
        """Takes the table's lock, from an owner that is dead if need be; JobBusy where it lives."""
        got = self.connection.execute("SELECT pg_try_advisory_lock(%s)", (ledger.table_lock(self.table),)).fetchone()
        if got is not None and not got[0] and self.session.end_dead_owner(self.table):
            got = self.connection.execute(
                "SELECT pg_try_advisory_lock(%s)", (ledger.table_lock(self.table),)
            ).fetchone()
        if got is None or not got[0]:
            raise JobBusy(
                f"another Tipple job is loading into {self.table} right now",
                hint="wait until it has ended (tipple jobs URL shows it), then run this command again; where its "
                "process is gone, and its session still there, tipple jobs URL cancel ends it",
            )

    def unlock_table(self) -> None:
        """Gives the lock back when all is done: the server takes a moment to see that a session has ended, and the next
        load into the table may be quicker."""
        with suppress(psycopg.Error):
            # A load that was taken up again has taken it twice.
            self.connection.execute("SELECT pg_advisory_unlock_all()")

    def lock_again(self) -> None:
        """The lock went with the old connection, whose backend may need a moment to notice."""
        until = time.monotonic() + self.task.retry_seconds
        while True:
            try:
                return self.lock_table()
            except JobBusy:
                if time.monotonic() > until:
                    raise
            time.sleep(0.2)

    def foreseen(self) -> tuple[str, str] | None:
        """Strategy and reason of a load that the ledger knows already; None where it will begin anew."""
        task = self.task
        if not task.ledger or task.restart:
            return None
        if not ledger.exists(self.connection):
            if task.resume is not None:
                raise ledger.no_such_job(task.resume)
            return None
        try:
            found = ledger.find_by_key(self.connection, task.request_key)
            self._require_resumable(found)
            if found is None:
                for other in ledger.find_unfinished(self.connection, self.table):
                    if not _read_stdin(other) and self._has_same_sources(other):
                        self._refuse_other(other)
                return None
            if found.state == "loading":
                self.came_by_pages = direct.has_stored(found.plan)
                history.require_stored(self.connection, found, self.table)
                return found.plan.get("strategy", "single"), f"job {found.job_id}, which was interrupted, goes on"
            undone = not self.exists or self._why_gone(found) is not None
        except psycopg.errors.InsufficientPrivilege:
            # The load itself will say which right is missing.
            return None
        self.came_by_pages = not undone and direct.has_stored(found.plan)
        return None if undone else (NOTHING_TO_DO, f"job {found.job_id} has loaded this already")

    def _require_resumable(self, found: ledger.LedgerJob | None) -> None:
        """Refuses --resume of another job than the one of this command."""
        if self.task.resume is None:
            return
        if (wanted := ledger.find_by_id(self.connection, self.task.resume)) is None:
            raise ledger.no_such_job(self.task.resume)
        if wanted.state not in ("loading", "published"):
            raise UsageError(f"the job {wanted.job_id} is {wanted.state}", hint="there is nothing to resume")
        if found is None or wanted.job_id != found.job_id:
            self._refuse_other(wanted)

    def earlier_job(self) -> ledger.LedgerJob | None:
        """The job that this command began before, or None. With --restart it is given up."""
        task = self.task
        own = ledger.find_by_id(self.connection, self.going_on) if self.going_on is not None else None
        if own is not None and own.state in ("loading", "published"):
            return own
        found = ledger.find_by_key(self.connection, task.request_key)
        self._require_resumable(found)
        if found is not None and found.state == "published":
            why = self._why_gone(found)
            if why is not None:
                self.notes.append(f"job {found.job_id} had loaded this before, but {why}: loaded again")
                self._supersede(found)
                return None
        if found is None or (task.restart and found.state == "published"):
            for other in ledger.find_unfinished(self.connection, self.table):
                if task.restart or _read_stdin(other):
                    if not task.restart:
                        self.notes.append(
                            f"job {other.job_id} was loading from standard input, which cannot be read again: given up"
                            + self._duplicates_warning(other)
                        )
                    self._supersede(other)
                elif self._has_same_sources(other):
                    self._refuse_other(other)
                else:
                    self.notes.append(
                        f"job {other.job_id} into this table was left unfinished: run its command again, "
                        "or tipple jobs URL clean"
                    )
        if found is None or not task.restart:
            return found
        if found.state == "published" and task.atomic:
            # Until the new rows are there, the old ones are those of this command.
            self.replaces = found.job_id
        else:
            self._supersede(found)
        return None

    def _why_gone(self, job: ledger.LedgerJob) -> str | None:
        """Why the rows of a published job are not there any more, or None."""
        if not self.exists:
            return "the table is gone"
        if history.was_undone(self.connection, job, self.task.followers):
            history.require_unfollowed(self.connection, job, () if self.task.restart else self.task.followers)
            return "another job has changed the table since"
        if job.plan.get("unlogged") and unlogged.is_lost(self.connection, job.job_id, self.table):
            if self.task.mode != "replace" and not self.task.restart:
                unlogged.require_whole(self.connection, job.job_id, self.table)
            return "the server has crashed since, and the table is not logged: its rows are lost"
        if self.task.mode == "replace" and self.is_emptied(job):
            return "the table has been emptied since"
        return None

    def is_emptied(self, job: ledger.LedgerJob) -> bool:
        """Whether somebody has removed all rows since a job stored some."""
        return bool(job.rows) and self.exists and stage.is_surely_empty(self.connection, self.table)

    def _has_same_sources(self, other: ledger.LedgerJob) -> bool:
        """Whether a job reads the files that this one does, as they are or were."""
        return {s["path"] for s in other.request["sources"]} == {s.path for s in self.task.sources}

    def _refuse_other(self, other: ledger.LedgerJob) -> None:
        """Refuses to go on with a job that was begun with other sources or options."""
        theirs, ours = other.request, self.task.request
        begun = {source["path"]: source for source in theirs["sources"]}
        for source in ours["sources"]:
            before = begun.get(source["path"])
            if before is not None and before != source:
                raise SourceChanged(
                    f"{source['path']} has changed since job {other.job_id} began to load it",
                    hint="bring the file back and run the command again, or load it anew with --restart"
                    + self._duplicates_warning(other),
                )
        if ours["columns"] != theirs["columns"] and "columns" not in ours.get(OPTIONS, ("columns",)):
            raise UsageError(
                f"the columns of {self.table} have changed since job {other.job_id}, which is unfinished, began",
                hint="change them back and run the command again, or begin anew with --restart"
                + self._duplicates_warning(other),
            )
        differing = [history.shown(key) for key in ours if key not in BESIDE_KEY and ours[key] != theirs.get(key)]
        raise UsageError(
            f"job {other.job_id}, which is unfinished, was begun with other {' and '.join(differing) or 'options'}",
            hint="repeat its command exactly, or begin anew with --restart",
        )

    def _duplicates_warning(self, other: ledger.LedgerJob) -> str:
        done = ledger.done_totals(self.connection, other.job_id).rows
        if other.plan.get("strategy") != "incremental" or not done:
            return ""
        return f"; that job has stored {done:,} rows in the table already (--no-atomic): delete them before --restart"

    def give_up(self, owned: OwnedJob) -> None:
        """Gives up a job of which nothing is stored, so that another way can be begun."""
        self.session.terminate_streams(owned.job_id)
        with self.connection.transaction():
            if self.task.ledger:
                self.connection.execute(ledger.SUPERSEDE, (owned.job_id,))
            if owned.staging is not None:
                stage.drop(self.connection, owned.staging)
        owned.is_given_up = True

    def _supersede(self, job: ledger.LedgerJob) -> None:
        staging = parse_table_name(job.staging) if job.staging else None
        if staging is not None:
            stage.require_own(self.connection, staging, f"job {job.job_id}, which would be given up,")
        if job.state == "loading":
            self._shut_out_owner(job.job_id)
        with self.connection.transaction():
            self.connection.execute(ledger.SUPERSEDE, (job.job_id,))
            if staging is not None:
                stage.drop(self.connection, staging)

    def take_over(self, job: ledger.LedgerJob) -> OwnedJob | None:
        """Makes an interrupted job this process's own, or gives it up where its staging table is gone."""
        if "strategy" not in job.plan or ledger.lacks_slices(self.connection, job.job_id, job.plan):
            raise UsageError(
                f"what the ledger has of job {job.job_id}, which this command would go on with, is not complete",
                hint="begin anew with --restart" + self._duplicates_warning(job),
            )
        strategy: Strategy = job.plan["strategy"]
        if (strategy == "incremental") == self.task.atomic:
            how = "with" if self.task.atomic else "without"
            raise UsageError(
                f"job {job.job_id}, which this command would go on with, was begun {how} --no-atomic",
                hint="repeat its command exactly, or begin anew with --restart" + self._duplicates_warning(job),
            )
        staging = TableName(*job.plan["staging"]) if job.plan["staging"] else None
        if staging is not None:
            stage.require_own(self.connection, staging, f"job {job.job_id}, which this command would go on with,")
        history.require_stored(self.connection, job, self.table)
        epoch = self._shut_out_owner(job.job_id)
        reason = self._why_anew(job, staging)
        if reason is not None:
            self._supersede(job)
            self.notes.append(f"{reason}: began anew")
            return None
        return OwnedJob(job.job_id, epoch, staging, strategy, job.plan, True)

    def _why_anew(self, job: ledger.LedgerJob, staging: TableName | None) -> str | None:
        staged = []
        if staging is not None:
            if not self._relation_exists(staging):
                return f"the staging table of job {job.job_id} is gone"
            staged = [TableName(staging.schema, name) for name in stage.members(self.connection, staging, kinds="r")]
        elif job.plan["strategy"] == "single" and self.task.indexes == "rebuild":
            # It would begin with its first record in any case.
            return f"job {job.job_id} was begun without --indexes rebuild"
        if sequences.is_numbered_anew(self.connection, job.plan, self.table, self.task.columns, staged):
            return f"what numbers the rows of {self.table} was restarted or changed since job {job.job_id}"
        return None

    def _shut_out_owner(self, job_id: str) -> int:
        """Makes a job this process's own, whose owner may only seem to be dead; gives its new epoch."""
        # Transactions that are open may hold the job's row.
        self.session.terminate_streams(job_id)
        epoch = ledger.take_over(self.connection, job_id, this_process())
        # A session that was made meanwhile may have found the old epoch.
        self.session.terminate_streams(job_id)
        return epoch

    def _relation_exists(self, table: TableName) -> bool:
        found = self.connection.execute("SELECT to_regclass(%s)", (table.sql,)).fetchone()
        return found is not None and found[0] is not None

    def begin(
        self, strategy: Strategy, cut: Cut, *, takes_pages: Callable[[TableName], bool] | None = None
    ) -> OwnedJob:
        """Writes the job and creates what it stages into, in one transaction.

        Where pages might be appended, `takes_pages` is asked whether the staging table, bare at first, or its
        partitions take them.
        """
        task = self.task
        job_id = str(uuid.uuid4())
        staging = None
        if strategy in ("swap", "merge", "partition"):
            schema = "tipple" if task.ledger else self.table.schema
            staging = TableName(schema, f"{stage.PREFIX}{job_id.replace('-', '')}")
        plan: dict[str, Any] = {
            "strategy": strategy,
            "staging": [staging.schema, staging.name] if staging else None,
            "line_end": cut.line_end,
            "planned": len(cut.slices),
        } | ({"creates": True} if task.definition is not None else {})
        plan |= late_keys.plan_of(self.late_keys, task, strategy)
        plan |= cut.feeding()
        # COPY takes such a refusal for a record's, where records may be rejects.
        judges = task.rejects is not None and strategy in ("single", "incremental", "swap", "partition")
        if task.definition is not None and strategy != "partition" and (strategy == "swap" or judges):
            method = None if self.structure is None else self.structure.access_method or "heap"
            rehearsal.rehearse(self.connection, task, task.definition, method)
        elif judges:
            defaults.check(self.connection, task, self.table)
        if task.definition is not None and strategy in ("swap", "merge", "partition"):
            # Only when all is stored does the table refer to others.
            rehearsal.rehearse_references(self.connection, task, task.definition)
        with self.connection.transaction():
            if task.definition is None and self.structure is None:
                # What is staged is as the table is, whatever the database's own default is.
                method = "heap" if strategy == "merge" else structure.method_of(self.connection, self.table)
                self.connection.execute(f"SET LOCAL default_table_access_method = {quote_identifier(method)}")
            if strategy in ("swap", "partition"):
                tablespaces.restrict_default(self.connection, exists=task.definition is None)
            if staging is not None and task.definition is None:
                # What is staged is made like the table.
                known_types.hold(self.connection, self.table, task.columns)
                if strategy == "swap":
                    plan["shape"] = shape.of(self.connection, self.table)
                if strategy in ("swap", "partition"):
                    numbers = sequences.numbering(self.connection, self.table, task.columns)
                    plan |= {"numbers": numbers} if numbers else {}
            if strategy == "merge" and staging is not None:
                self._create_merge_staging(staging)
            elif strategy == "partition" and staging is not None:
                plan |= partitions.create_staging(self.connection, task, staging, cut)
                self.furnish(staging, is_new=True)
                if takes_pages is not None and takes_pages(staging):
                    plan["direct"] = True
            elif staging is not None:
                if takes_pages is not None:
                    # Not dropped: an event trigger may refuse that.
                    with self.connection.transaction() as trial:
                        self._create_staging(staging, bare=True)
                        if not takes_pages(staging):
                            raise psycopg.Rollback(trial)
                        plan["direct"] = True
                if "direct" not in plan:
                    plan["checks"] = self._create_staging(staging, bare=False)
            elif task.definition is not None and strategy != "single":
                self.connection.execute(task.definition.create_sql(self.table.sql, with_constraints=True))
            if staging is not None:
                estranged.require_kept(self.connection, staging)
            if task.ledger and self._is_unlogged(strategy, staging):
                plan["unlogged"] = True
            if task.ledger:
                ledger.insert_job(
                    self.connection,
                    job_id=job_id,
                    request_key=task.request_key if self.replaces is None else None,
                    table=self.table,
                    mode=history.kept_mode(task),
                    request=task.request,
                    plan=plan,
                    staging=staging.sql if staging else None,
                    slices=cut.slices,
                    owner=this_process(),
                )
                if "unlogged" in plan:
                    unlogged.remember(self.connection, job_id)
        return OwnedJob(job_id, 1, staging, strategy, plan, False)

    def _create_merge_staging(self, staging: TableName) -> None:
        """A table that is missing is there for a moment, which nobody sees, to be like; it comes with its rows."""
        definition = self.task.definition
        if definition is not None:
            rehearsal.create_by_itself(self.connection, self.task, definition)
        merge.create_staging(self.connection, self.task, staging, self.table)
        if definition is not None:
            self.connection.execute(f"DROP TABLE {self.table.sql}")

    def _create_staging(self, staging: TableName, *, bare: bool) -> list[str]:
        """Gives the CHECK constraints of a new table that it has already."""
        given: list[str] = []
        if self.task.definition is None:
            place = tablespaces.clause_beside(self.connection, self.table)
            stage.create_like(self.connection, staging, self.table, place=place, bare=bare)
        else:
            if self.structure is not None:
                # Whatever the database's own default is; the structure may come afterwards.
                self.connection.execute("SET LOCAL default_table_access_method = heap")
            self.connection.execute(self.task.definition.create_sql(staging.sql, with_constraints=False))
            self.connection.execute(f"ALTER TABLE {staging.sql} SET (autovacuum_enabled = false)")
            if not bare:
                given = checks.add(self.connection, self.task, staging)
        self.furnish(staging, is_new=True)
        return given

    def _is_unlogged(self, strategy: Strategy, staging: TableName | None) -> bool:
        """Whether a crash of the server takes rows, before they are published or later."""
        if staging is not None and unlogged.is_unlogged(self.connection, staging):
            return True
        # What is inserted into partitions that are is noted when it is published.
        if strategy in ("swap", "partition"):
            return False
        if self.task.definition is not None:
            return self.task.definition.unlogged
        return unlogged.is_unlogged(self.connection, self.table)

    def furnish(self, staging: TableName, *, is_new: bool = False) -> None:
        """Makes what is staged what it is to be while rows come in, and lays it in its place.

        With `is_new` all of it was made just now, else some partitions were.
        """
        if self.structure is not None:
            structure.furnish(self.connection, self.structure, staging)
            if is_new:
                structure.prepare_key(self.connection, self.task, self.structure, staging)
        tablespaces.lay(self.connection, self.task, staging)

    def forget_if_emptied(self, owned: OwnedJob) -> bool:
        """Where a crash has emptied what is staged, has all of it be loaded again; says whether it was so.

        Raises:
            TippleError: the rows were in the table itself, beside others.
        """
        if not owned.unlogged or unlogged.has_survived(self.connection, owned.job_id):
            return False
        if owned.staging is None:
            if not self.done_slices(owned):
                # None of its rows was committed.
                unlogged.remember(self.connection, owned.job_id)
                return False
            raise TippleError(
                f"the server has crashed, and the table {self.table} is not logged: the rows that job {owned.job_id} "
                "had stored are lost",
                hint="empty the table and begin anew with --restart",
            )
        with self.connection.transaction():
            stage.empty(self.connection, owned.staging)
            structure.unsort(self.connection, owned.staging)
            unlogged.forget_slices(self.connection, owned.job_id, owned.plan.get("first_n"))
            unlogged.remember(self.connection, owned.job_id)
            if owned.strategy == "partition":
                partitions.reattach(self.connection, owned.staging)
        self.notes.append("the server has crashed and emptied what was loaded unlogged: all of it was loaded again")
        return True

    def give_back_room(self, owned: OwnedJob) -> None:
        """Removes what attempts that failed have left in what is staged, where no slice is done.

        Nobody vacuums there, and on a full disk those rows would take whatever is freed.
        """
        begun = owned.plan.get("planned") or owned.plan.get("feeds")
        if owned.staging is not None and begun and not self.done_slices(owned):
            stage.empty(self.connection, owned.staging)

    def left(self, owned: OwnedJob) -> Cut:
        """What the ledger does not have as done."""
        feeds = owned.plan.get("feeds", [])
        done = ledger.cut_slices(self.connection, owned.job_id, owned.plan["first_n"]) if feeds else []
        return Cut(
            slices=ledger.slices(self.connection, owned.job_id, "planned"),
            feeds=feeds,
            line_end=owned.plan["line_end"],
            done=[(source, offset) for _, source, offset in done],
            first_n=max((n + 1 for n, _, _ in done), default=owned.plan.get("first_n", 0)),
            block_bytes=owned.plan.get("block_bytes", self.task.block_bytes),
            block_records=owned.plan.get("block_records", 0),
            resyncs=owned.plan.get("resyncs", False),
            first_part_n=ledger.next_part_n(self.connection, owned.job_id),
        )

    def done_slices(self, owned: OwnedJob) -> int:
        return ledger.done_totals(self.connection, owned.job_id).slices if self.task.ledger else 0

    def sessions(self, owned: OwnedJob) -> Sessions:
        """Those that work for the job beside the control session."""
        return Sessions(self.session, owned, has_ledger=self.task.ledger)

    def ensure_connection(self, owned: OwnedJob) -> None:
        try:
            self.connection.execute("SELECT 1")
        except psycopg.Error:
            self.reconnect(owned)

    def reconnect(self, owned: OwnedJob) -> None:
        self.session.reconnect(self.task.retry_seconds)
        self.lock_again()
        job = ledger.find_by_id(self.connection, owned.job_id) if self.task.ledger else None
        if job is not None and job.epoch != owned.epoch:
            raise core.TakenOver
        if job is not None:
            self.connection.execute(ledger.OWN_AGAIN, (owned.job_id, owned.epoch))

    def refuse_lost(self, owned: OwnedJob, error: BaseException) -> None:
        """Says of a failure that the job is not this run's any more: see `ownership.refuse_lost`."""
        if self.task.ledger:
            refuse_lost(self.session.target, owned, error, is_atomic=self.task.atomic)

    def tidy(self, owned: OwnedJob, error: BaseException) -> None:
        """After a failure that would only come again, drops what was staged; after any other, leaves it to resume. What
        another run owns is that one's.
        """
        if isinstance(error, core.TakenOver):
            return
        resumable = not self.task.reads_once
        if self.task.ledger and not self.task.atomic and not resumable:
            self._give_up_unread(owned)
            return
        if self.task.ledger and resumable and (may_pass(error) or not self.task.atomic):
            if isinstance(error, TippleError) and room_hint(error.detail.get("sqlstate")) is not None:
                with suppress(psycopg.Error):
                    self.session.terminate_streams(owned.job_id)
                    self.give_back_room(owned)
            return
        # The failure that brought us here is the one to report; what cannot be dropped now, `tipple jobs clean` will.
        try:
            self.session.terminate_streams(owned.job_id)
            is_own = not self.task.ledger or self._give_up_own(owned)
            if is_own and owned.staging is not None:
                stage.drop(self.connection, owned.staging)
        except psycopg.Error:
            self.notes.append(f"what job {owned.job_id} staged could not be dropped: tipple jobs URL clean")

    def _give_up_unread(self, owned: OwnedJob) -> None:
        """What came from standard input or from memory cannot be read again: the job can never go on."""
        try:
            self._give_up_own(owned)
        except psycopg.Error:
            self.notes.append(f"job {owned.job_id} could not be given up: tipple jobs URL clean")

    def _give_up_own(self, owned: OwnedJob) -> bool:
        """Says in the ledger that the job has failed; False where it is not this run's any more."""
        facts = ("failed", owned.job_id, owned.epoch)
        return self.connection.execute(f"{ledger.GIVE_UP} AND epoch = %s", facts).rowcount == 1


def _read_stdin(job: ledger.LedgerJob) -> bool:
    return any(source["path"] == STDIN for source in job.request["sources"])
