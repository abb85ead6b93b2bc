"""A load into PostgreSQL from plan to publish.

Five ways in, chosen by what the target allows (`_choose`); ARCHITECTURE.md has the figures that chose them:

`swap`: streams fill one hidden staging table, slice by slice, each with its ledger row; it then takes the target's
place. `partition`: the same for the partitions of the target (`partitions.py`). `single`: one session stores
everything in one transaction, streams parse for it. `incremental`: as `swap`, but straight into the target, visible
slice by slice (`--no-atomic`). `merge`: as `swap`, but the staged rows are merged into the target by key (`--mode
upsert`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import psycopg

from tipple import _core
from tipple.engines import core, spool
from tipple.engines.base import Cut, LoadResult, LoadTask, Runner, Verified, table_exists
from tipple.engines.merge import MergeCounts
from tipple.engines.postgresql import connection as connections
from tipple.engines.postgresql import direct, indexes, ledger, merge, partitions, stage, together
from tipple.engines.postgresql.job import JobOwner, OwnedJob, Strategy
from tipple.engines.postgresql.partition_publish import MOST_ROUNDS, Incomplete, PartitionPublish
from tipple.errors import JobBusy, TippleError, UsageError, VerifyFailed
from tipple.plan.url import TableName, quote_identifier

if TYPE_CHECKING:
    from tipple.engines.postgresql.session import PostgresSession

SNAPSHOT_WAIT_SECONDS = 10
"""How long publishing waits for transactions that must go on seeing the old rows, before it copies instead."""


class _Choice(msgspec.Struct):
    """How rows become visible, and why."""

    strategy: Strategy
    reason: str
    exists: bool


class PostgresLoad:
    """One load."""

    def __init__(self, session: PostgresSession, task: LoadTask) -> None:
        self.session = session
        self.borrowed: psycopg.Connection[Any] | None = None
        self.task = task
        self.exists = task.definition is None
        self.table = task.table
        self.write_path, self.write_path_reason = self._choose_write_path()
        self.notes: list[str] = []
        self.job = JobOwner(session, task, self.notes)
        self.may_swap = True
        self.is_incomplete = False
        """Whether publishing together has found that the target has got an index or partition that staging lacks."""
        self.server_routes = ""
        self.merged: MergeCounts | None = None
        self.settings: dict[str, str] = {}

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The control connection; another one after the server was gone."""
        return self.borrowed or self.session.connection

    @contextmanager
    def borrowing(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Has another load's connection, and so its transaction, be this one's."""
        self.borrowed = connection
        try:
            yield
        finally:
            self.borrowed = None

    # Choices

    def _choose_write_path(self) -> tuple[str, str]:
        if self.task.write_path not in ("auto", "direct", "binary", "text"):
            raise UsageError(
                f"--write-path {self.task.write_path} is not available for PostgreSQL",
                hint="write paths here: auto, direct, binary, text",
            )
        opaque = [column for column in self.task.columns if column.codec_type == "opaque"]
        if opaque:
            named = ", ".join(f"{column.name} {column.type_text}" for column in opaque[:3])
            if self.task.write_path in ("binary", "direct"):
                raise UsageError(
                    f"--write-path {self.task.write_path} is not possible: only the server can read {named}",
                    hint="leave it out",
                )
            return "text", f"only the server can read {named}"
        if self.task.write_path == "text":
            return "text", "as asked"
        return "binary", "every column's type can be encoded by Tipple"

    def _choose(self) -> _Choice:
        task, exists = self.task, self.exists
        if task.partition_by is not None:
            partitions.check_request(self.connection, task)
        if not task.atomic:
            if task.mode in ("replace", "upsert"):
                raise UsageError(
                    f"--no-atomic cannot {task.mode} rows",
                    hint="leave out --no-atomic, or empty the table and append",
                )
            return _Choice("incremental", "asked for by --no-atomic: every slice is visible once it is done", exists)
        if task.mode == "upsert":
            return _Choice("merge", "rows are staged, and merged by key in one transaction", exists)
        if not exists and task.partition_by is not None:
            if task.rejects is not None and task.definition is not None and task.definition.constraints:
                self.notes.append("constraints of the new table are checked when all rows are in, and end the load")
            return _Choice("partition", "the table is new and partitioned: its partitions appear together", exists)
        if not exists:
            if task.rejects is not None and task.definition is not None and task.definition.constraints:
                return _Choice("single", "the table is new, and its constraints say which records are rejects", exists)
            return _Choice("swap", "the table is new: it is filled unseen, and appears whole", exists)
        if partitions.is_partitioned(self.connection, self.table):
            return self._choose_partitioned()
        obstacle = stage.obstacle(self.connection, self.table) or stage.missing_right(self.connection, self.table)
        if task.mode == "append" and obstacle is None and not stage.is_empty(self.connection, self.table):
            obstacle = "it already has rows"
        if obstacle is None and task.rejects is not None and stage.has_keys(self.connection, self.table):
            obstacle = "its keys say which records are rejects"
        if obstacle is None:
            reason = "the table is empty" if task.mode == "append" else "nothing depends on the table"
            return _Choice("swap", f"{reason}: a copy is filled unseen, and takes its place", exists)
        return _Choice("single", f"no other table can take the place of {self.table}: {obstacle}", exists)

    def _why_not_direct(self, choice: _Choice) -> str | None:
        """Why pages are not the way, as far as it is known before there is a staging table."""
        if self.write_path == "text":
            return self.write_path_reason
        if choice.strategy != "swap":
            return f"pages need a table of their own: {choice.reason}"
        if self.task.rejects is not None and choice.exists and stage.has_checks(self.connection, self.table):
            return "its CHECK constraints say which records are rejects"
        return direct.unavailable(self.connection, self.task)

    def _go_direct(self) -> None:
        self.write_path = "direct"
        self.write_path_reason = "pages are built here, and appended by the server's extension tipple_direct"

    def _leave_direct(self, reason: str) -> None:
        """Goes on by the write path that was chosen at first, and says why."""
        if self.task.write_path == "direct":
            raise UsageError(f"--write-path direct is not possible: {reason}", hint="leave it out")
        if self.write_path == "direct":
            self.write_path, self.write_path_reason = self._choose_write_path()
        if self.task.write_path == "auto" and self.write_path != "text":
            self.write_path_reason += f"; not direct: {reason}"

    def _begin(self, choice: _Choice, cut: Cut) -> OwnedJob:
        """Begins the job, by pages where that is possible."""
        obstacle = self._why_not_direct(choice) if self.task.write_path in ("auto", "direct") else "not asked for"
        if obstacle is not None:
            self._leave_direct(obstacle)
            return self.job.begin(choice.strategy, cut)

        def takes_pages(staging: TableName) -> bool:
            misfit = direct.misfit(self.connection, self.task, staging)
            if misfit is None:
                self._go_direct()
            else:
                self._leave_direct(misfit)
            return misfit is None

        return self.job.begin(choice.strategy, cut, takes_pages=takes_pages)

    def _resume_direct(self, owned: OwnedJob) -> None:
        """Pages are appended to an empty table only; what has begun otherwise goes on otherwise."""
        if owned.direct and not self.job.done_slices(owned) and direct.unavailable(self.connection, self.task) is None:
            self._go_direct()

    def _choose_partitioned(self) -> _Choice:
        obstacle = partitions.obstacle(self.connection, self.task)
        if obstacle is None:
            self.notes.extend(partitions.warnings(self.connection, self.task))
            return _Choice("partition", "each partition is filled unseen, and takes its place", self.exists)
        if self.task.partition_by is not None or self.task.replace_scope == "partitions":
            raise UsageError(
                f"{self.table} cannot be loaded partition by partition: {obstacle}",
                hint="leave out --partition-by and --replace-scope: the server then routes the rows",
            )
        return _Choice("single", f"its partitions cannot be loaded apart: {obstacle}", self.exists)

    # The verb

    def plan(self) -> LoadResult:
        """What `run` would do."""
        known = self.job.foreseen()
        if known is None:
            choice = self._choose()
            known = choice.strategy, choice.reason
            if self.task.write_path in ("auto", "direct"):
                self._foresee_direct(choice)
        slices = len(core.cut(self.task).slices) if self.task.counts_slices else 0
        return self._result("planned", "-", *known, slices=slices)

    def _foresee_direct(self, choice: _Choice) -> None:
        obstacle = self._why_not_direct(choice)
        if obstacle is None and choice.exists:
            obstacle = direct.misfit(self.connection, self.task, self.table)
        if obstacle is None:
            self._go_direct()
        else:
            self._leave_direct(obstacle)

    def foreseen_strategy(self) -> str:
        """The strategy of the load, as the ledger and the table are now."""
        known = self.job.foreseen()
        return known[0] if known is not None else self._choose().strategy

    def run(self, runner: Runner) -> LoadResult:
        """Loads, verifies and publishes."""
        try:
            return self._run(runner)
        except psycopg.Error as error:
            if connections.is_lost(error):
                raise core.ConnectionLost(
                    f"the connection to the server was lost: {' '.join(str(error).split())}",
                    hint="run the same command again: what is stored stays stored, and nothing is stored twice",
                ) from None
            raise _refused(error, self.session.target.display) from None

    def _run(self, runner: Runner) -> LoadResult:
        task = self.task
        with runner.phase("prepare"):
            self.job.lock_table()
            if task.ledger:
                ledger.ensure(self.connection)
                earlier = self.job.earlier_job()
                if earlier is not None and earlier.state == "published":
                    return self._already_loaded(earlier)
            else:
                earlier = None
                if task.resume:
                    raise UsageError("--resume needs the ledger", hint="leave out --no-ledger")
            if self.exists and task.mode == "create" and earlier is None:
                raise table_exists(self.table)
            choice = self._choose()
            owned = self.job.take_over(earlier) if earlier is not None else None
        if owned is None:
            with runner.phase("split"):
                partitioned = choice.strategy == "partition"
                cut = core.cut(partitions.with_larger_slices(self.connection, task) if partitioned else task)
            with runner.phase("prepare"):
                owned = self._begin(choice, cut)
        else:
            choice = _Choice(owned.strategy, "as the interrupted run had begun it", self.exists)
            cut = self.job.left(owned)
            self._resume_direct(owned)
        try:
            if owned.strategy == "single":
                return self._run_single(runner, owned, choice, cut)
            try:
                return self._run_slices(runner, owned, choice, cut)
            except core.Unsuited as error:
                owned = self._begin_otherwise(owned, choice, cut, str(error))
                return self._run_slices(runner, owned, choice, cut)
        except BaseException as error:
            self.job.tidy(owned, error)
            raise

    def _begin_otherwise(self, owned: OwnedJob, choice: _Choice, cut: Cut, reason: str) -> OwnedJob:
        """Begins anew where pages turn out not to be the way; nothing is stored yet."""
        if self.task.reads_stdin:
            raise TippleError(
                f"--write-path direct is not the way for this input: {reason}",
                hint="nothing was published; run the command again with --write-path binary and the same input",
            )
        self.job.give_up(owned)
        spool.discard(self.task)
        self._leave_direct(reason)
        self.notes.append(f"begun anew without ready-made pages: {reason}")
        return self.job.begin(choice.strategy, cut)

    def _already_loaded(self, job: ledger.LedgerJob) -> LoadResult:
        result = self._result("already loaded", job.job_id, "-", "-")
        result.rows = job.rows or 0
        result.rejects = ledger.done_totals(self.connection, job.job_id).rejects
        self._note_rejects(result, [], {})
        result.notes.append(
            f"job {job.job_id} published these rows at {job.finished_at}; nothing was changed. "
            "To load them once more: --restart"
        )
        return result

    # Slices, each a transaction

    def _run_slices(self, runner: Runner, owned: OwnedJob, choice: _Choice, cut: Cut) -> LoadResult:
        result = self._result("loaded", owned.job_id, choice.strategy, choice.reason)
        into = owned.staging or self.table
        result.slices_resumed = self.job.done_slices(owned) if owned.resumed else 0
        planned_slices = cut.slices
        before = ledger.done_totals(self.connection, owned.job_id).rejects if self.task.ledger else 0
        while True:
            plan = self._slices_plan(owned, into, cut, before)
            try:
                if self.write_path == "direct":
                    outcome = self._run_whole(runner, owned, plan, cut, self._find_done)
                else:
                    with runner.phase("load"):
                        outcome = runner.run(core.start_load(self.task, plan))
            except core.NoPartition as missing:
                cut, before = self._grow(owned, into, missing)
                continue
            self._note_outcome(result, outcome)
            rows: int = outcome["rows"]
            result.rejects = outcome["rejects"]
            digest: int | None = int(outcome["digest"] or "0", 16)
            result.slices = len(outcome["slices"])
            lost = 0
            if self.task.ledger:
                self.job.ensure_connection(owned)
                expected = self._expected(cut, outcome)
                cut = self.job.left(owned)
                lost = len(cut.slices) + expected - len(cut.done)
                totals = ledger.done_totals(self.connection, owned.job_id)
                result.slices, rows, digest = totals.slices, totals.rows, totals.digest
                result.rejects = totals.rejects
            if not lost:
                result.rows = rows
                core.require_share(self.task, result.rejects, rows)
                self._note_rejects(result, planned_slices, outcome)
                with runner.phase("verify"):
                    disturbed = bool(result.retries or result.slices_resumed)
                    result.verified = self._verify_slices(runner, owned, into, rows, digest, disturbed=disturbed)
                if self._publish_complete(runner, owned, choice, rows, digest):
                    result.merged = self.merged
                    return result
                expected = len(cut.done)
                cut = self.job.left(owned)
                lost = len(cut.slices) + expected - len(cut.done)
            if self.task.reads_stdin:
                raise TippleError(
                    f"the server lost {lost} slices in a crash, and standard input cannot be read again",
                    hint="nothing was published; run the command again with the same input",
                )
            before = result.rejects
            if self.task.stream is not None:
                raise core.ConnectionLost(
                    "the server crashed and lost rows that the stream cannot give again",
                    hint="make the stream anew and load it again: nothing was published",
                )
            # A server that crashed took slices with it whose commit it had not flushed, rows and ledger together.
            self.notes.append(f"the server lost {lost} slices in a crash: they were loaded again")

    def _grow(self, owned: OwnedJob, staging: TableName, missing: core.NoPartition) -> tuple[Cut, int]:
        """Makes the partitions that rows were found to need; gives what is left to load, and the rejects so far."""
        if not self.task.ledger or self.task.reads_stdin:
            raise missing
        self.job.ensure_connection(owned)
        made = partitions.grow(self.connection, self.task, staging, missing)
        self.notes.append(f"{made} more partitions were made for keys that no sample had shown")
        return self.job.left(owned), ledger.done_totals(self.connection, owned.job_id).rejects

    def _expected(self, cut: Cut, outcome: dict[str, Any]) -> int:
        """How many slices of feeds the ledger must have as done."""
        return len(cut.done) + len(outcome["cut"])

    def _slices_plan(self, owned: OwnedJob, into: TableName, cut: Cut, rejects_before: int) -> str:
        target = self._target(owned, into, {"name": "slices"})
        if self.write_path == "direct":
            # What does not go by pages is read by the server itself.
            target["write_path"] = "text"
            target["strategy"] = {
                "name": "direct",
                "pages": direct.plan(self.connection, self.task, into, target["connection"]["host"]),
                "before": [f"TRUNCATE {into.sql}"],
                "after": self._owner_proof(owned) + self._slices_done(owned),
            }
        return core.load_plan(
            self.task,
            owned.job_id,
            cut,
            target,
            digest=self.task.verify == "checksum",
            rejects_before=rejects_before,
        )

    def _note_rejects(self, result: LoadResult, slices: list[dict[str, Any]], outcome: dict[str, Any]) -> None:
        if self.task.ledger:
            result.reject_rows = lambda: ledger.rejects(self.connection, result.job_id)
        else:
            result.reject_rows = lambda: spool.rejects(self.task, slices, outcome["slices"])

    def _verify_slices(
        self, runner: Runner, owned: OwnedJob, into: TableName, rows: int, digest: int | None, *, disturbed: bool
    ) -> Verified | None:
        task = self.task
        if task.verify == "none":
            return None
        if owned.strategy == "incremental" and self.exists:
            # Other rows are in the table too, and no transaction is this job's alone.
            if task.verify == "checksum":
                self.notes.append("--no-atomic into a table that had rows: verified by the ledger's counts only")
            verified = Verified(kind="count", rows_source=rows, rows_target=rows)
        elif task.verify == "checksum" and digest is not None and self.write_path != "text":
            names = self._digested_list()
            tables = [into]
            if owned.strategy == "partition":
                tables = [leaf.name for leaf in partitions.staged(self.connection, into)]
            parts = max(1, 8 * task.streams // len(tables)) if tables else 1
            queries = [
                f"SELECT {names} FROM {table.sql} WHERE {condition}"
                for table in tables
                for condition in stage.ctid_ranges(self.connection, table, parts)
            ]
            held = runner.run(_core.VerifyJob.start(self._verify_plan(owned, queries)))
            verified = Verified(
                kind="checksum",
                rows_source=rows,
                rows_target=held["rows"],
                digest_source=f"{digest:032x}",
                digest_target=held["digest"],
            )
        else:
            if task.verify == "checksum":
                self._note_no_digest()
            stored = rows
            # Undisturbed, the server's own count of every COPY was compared with what was sent, slice by slice.
            if disturbed:
                stored = self._count_staged(owned, into)
            verified = Verified(kind="count", rows_source=rows, rows_target=stored)
        _require(verified)
        return verified

    def _count_staged(self, owned: OwnedJob, into: TableName) -> int:
        tables = [into]
        if owned.strategy == "partition":
            # A resumed job may have detached some of them from `into` already.
            tables = [leaf.name for leaf in partitions.staged(self.connection, into)]
        count = 0
        for table in tables:
            found = self.connection.execute(f"SELECT count(*) FROM {table.sql}").fetchone()
            count += found[0] if found else 0
        return count

    def _note_no_digest(self) -> None:
        self.notes.append("the server itself read some values, which have no digest: verified by count")

    def _verify_plan(self, owned: OwnedJob, queries: list[str]) -> str:
        return json.dumps(
            {
                "connection": self._stream_connection(owned),
                "session": connections.stream_session(self.connection, slices=False),
                "queries": queries,
                "streams": self.task.streams,
                "stall_seconds": self.task.stall_seconds,
            }
        )

    def _publish_complete(
        self, runner: Runner, owned: OwnedJob, choice: _Choice, rows: int, digest: int | None
    ) -> bool:
        """Gives what is staged its indexes and publishes it, again where the target has got new ones meanwhile."""
        for _ in range(MOST_ROUNDS):
            try:
                with runner.phase("index"):
                    self._finish_staging(runner, owned, choice)
                with runner.phase(self.task.publish_phase):
                    return self._publish(owned, choice, rows, digest)
            except Incomplete:
                self.notes.append(f"{self.table} got an index or a partition meanwhile: staged partitions got it too")
        raise TippleError(
            f"indexes or partitions of {self.table} change while it is published, again and again",
            hint="nothing was published; when that has ended, run the same command again",
        )

    def _finish_staging(self, runner: Runner, owned: OwnedJob, choice: _Choice) -> None:
        """Builds the indexes and constraints of what is staged."""
        staging = owned.staging
        if staging is None:
            return
        name = ledger.session_name(owned.job_id)

        def connect() -> psycopg.Connection[Any]:
            return connections.connect(self.session.target, name)

        if owned.strategy == "partition":
            PartitionPublish(self.connection, self.task, staging, self.notes).prepare(runner, connect)
        elif owned.strategy == "swap" and choice.exists:
            work = indexes.missing(self.connection, staging, self.table, same_names=True)
            try:
                indexes.build(runner, self.connection, connect, [work], self.task.streams)
            except psycopg.errors.CheckViolation as error:
                if not owned.direct:
                    raise
                # The server has not named a record; COPY will.
                raise core.Unsuited(error.diag.message_primary or str(error)) from None

    def _publish(self, owned: OwnedJob, choice: _Choice, rows: int, digest: int | None) -> bool:
        """Makes the rows visible and says so in the ledger, in one transaction; False where slices were lost."""
        try:
            if owned.strategy in ("swap", "partition") and choice.exists and self.task.mode == "replace":
                self.may_swap = stage.wait_for_old_snapshots(self.connection, SNAPSHOT_WAIT_SECONDS)
            elif owned.strategy == "partition":
                # What is appended can go beside the rows that are there: not worth waiting for.
                self.may_swap = stage.wait_for_old_snapshots(self.connection, 0)
            if self.task.together is not None:
                if self.task.together.meet(together.Staged(self, owned, choice, rows, digest), together.publish):
                    return True
                if self.is_incomplete:
                    self.is_incomplete = False
                    raise Incomplete
                return False
            with self.connection.transaction():
                return self.make_visible(owned, choice, rows, digest)
        except psycopg.Error as error:
            if not connections.is_lost(error):
                raise
            return self._settle_doubt(owned, choice, rows, digest)

    def make_visible(self, owned: OwnedJob, choice: _Choice, rows: int, digest: int | None) -> bool:
        """What publishing does in its transaction; False where slices were lost, and so nothing was done."""
        staging = owned.staging
        if self.task.ledger and ledger.done_totals(self.connection, owned.job_id).rows != rows:
            return False
        if owned.strategy == "merge" and staging is not None:
            if self.task.definition is not None:
                self.connection.execute(self.task.definition.create_sql(self.table.sql, with_constraints=True))
            self.merged = merge.merge(self.connection, self.task, staging, self.table, rows)
            self.connection.execute(f"DROP TABLE {staging.sql}")
        elif owned.strategy == "partition" and staging is not None:
            PartitionPublish(self.connection, self.task, staging, self.notes).publish(may_swap=self.may_swap)
        elif staging is not None:
            self._put_in_place(staging, exists=choice.exists)
        if self.task.ledger:
            text = None if digest is None else f"{digest:032x}"
            if self.connection.execute(ledger.PUBLISH, (rows, text, owned.job_id, owned.epoch)).rowcount != 1:
                raise JobBusy("another run has taken this job over", hint="see: tipple jobs URL")
        return True

    def _settle_doubt(self, owned: OwnedJob, choice: _Choice, rows: int, digest: int | None) -> bool:
        """COMMIT's answer may be lost: the ledger's state is the answer."""
        if not self.task.ledger:
            raise core.CommitInDoubt(
                "the connection was lost while publishing, and without a ledger nobody can tell the outcome",
                hint=f"look whether {self.table} has the rows",
            )
        self.job.reconnect(owned)
        job = ledger.find_by_id(self.connection, owned.job_id)
        if job is not None and job.state == "published":
            return True
        return self._publish(owned, choice, rows, digest)

    def _put_in_place(self, staging: TableName, *, exists: bool) -> None:
        if not exists:
            stage.swap(self.connection, staging, self.table, exists=False)
            for constraint in self.task.definition.constraints if self.task.definition else ():
                self.connection.execute(f"ALTER TABLE {self.table.sql} ADD {constraint}")
            return
        # Whoever reads the table now finishes first; whoever comes later waits the moment that this takes.
        self.connection.execute(f"LOCK TABLE {self.table.sql} IN ACCESS EXCLUSIVE MODE")
        obstacle = stage.obstacle(self.connection, self.table)
        if not self.may_swap:
            obstacle = "a transaction began before the load ended and is still open"
        if obstacle is None and (self.task.mode == "replace" or stage.is_empty(self.connection, self.table)):
            stage.swap(self.connection, staging, self.table, exists=True)
            return
        # Not what it was when the strategy was chosen: the rows are copied, which is slower but always right.
        self.notes.append(
            f"the staged rows were copied, not swapped in: {obstacle or f'{self.table} got rows meanwhile'}"
        )
        names = self._column_list()
        if self.task.mode == "replace":
            self.connection.execute(f"DELETE FROM {self.table.sql}")
        self.connection.execute(f"INSERT INTO {self.table.sql} ({names}) SELECT {names} FROM {staging.sql}")
        self.connection.execute(f"DROP TABLE {staging.sql}")

    # One transaction

    def _run_single(self, runner: Runner, owned: OwnedJob, choice: _Choice, cut: Cut) -> LoadResult:
        target = self._target(owned, self.table, self._single_strategy(owned))
        digest = self.task.verify == "checksum" and self.write_path == "binary"
        plan = core.load_plan(self.task, owned.job_id, cut, target, digest=digest)
        outcome = self._run_whole(runner, owned, plan, cut, self._find_published)
        result = self._result("loaded", owned.job_id, choice.strategy, choice.reason, slices=len(outcome["slices"]))
        self._note_outcome(result, outcome)
        result.rows, result.rejects = outcome["rows"], outcome["rejects"]
        self._note_rejects(result, cut.slices, outcome)
        if outcome.get("target_rows") is not None:
            result.verified = Verified(
                kind="checksum" if digest else "count",
                rows_source=outcome["rows"],
                rows_target=outcome["target_rows"],
                digest_source=outcome["digest"],
                digest_target=outcome["target_digest"] if digest else None,
            )
            _require(result.verified)
        elif self.task.verify != "none":
            # The server's own count of every COPY was compared with what was sent.
            result.verified = Verified(kind="count", rows_source=outcome["rows"], rows_target=outcome["rows"])
            if self.task.verify == "checksum":
                self._note_no_digest()
        return result

    def _run_whole(
        self,
        runner: Runner,
        owned: OwnedJob,
        plan: str,
        cut: Cut,
        find: Callable[[OwnedJob], dict[str, Any] | None],
    ) -> dict[str, Any]:
        """Runs what is one transaction, and once more where the server was lost meanwhile.

        `find` gives the outcome of a transaction that did commit, though the answer was lost.
        """
        lost_since: float | None = None
        retries = 0
        while True:
            try:
                with runner.phase("load"):
                    outcome = runner.run(core.start_load(self.task, plan))
                    outcome["retries"] += retries
                    return outcome
            except (core.ConnectionLost, core.CommitInDoubt) as error:
                if not self.task.ledger or self.task.stream is not None:
                    raise
                lost_since = lost_since or time.monotonic()
                if time.monotonic() - lost_since >= self.task.retry_seconds:
                    raise
                self.job.reconnect(owned)
                found = find(owned)
                if found is not None:
                    return found
                if self.task.reads_stdin:
                    raise core.ConnectionLost(
                        f"{error}; standard input cannot be read again",
                        hint="nothing was published; run the command again with the same input",
                    ) from None
                spool.discard(self.task)
                retries += len(cut.slices)
                self.notes.append(f"the transaction was lost and done again: {error}")

    def _find_published(self, owned: OwnedJob) -> dict[str, Any] | None:
        job = ledger.find_by_id(self.connection, owned.job_id)
        if job is None or job.state != "published":
            return None
        return _lost_outcome(ledger.done_totals(self.connection, owned.job_id), cut=0)

    def _find_done(self, owned: OwnedJob) -> dict[str, Any] | None:
        totals = ledger.done_totals(self.connection, owned.job_id)
        return _lost_outcome(totals, cut=len(self.job.left(owned).done)) if totals.slices else None

    def _single_strategy(self, owned: OwnedJob) -> dict[str, Any]:
        before = [f"LOCK TABLE {self.table.sql} IN ROW EXCLUSIVE MODE"]
        if not self.exists and self.task.definition is not None:
            before = [self.task.definition.create_sql(self.table.sql, with_constraints=True)]
        if self.task.mode == "replace":
            before.append(f"DELETE FROM {self.table.sql}")
        after = []
        if self.task.ledger:
            after = [
                {
                    "sql": "UPDATE tipple.job SET state = 'published', rows = :rows, row_digest = :digest, "
                    f"owner_pid = NULL, finished_at = clock_timestamp() WHERE {_owned_by(owned)} RETURNING 1",
                    "proves_ownership": True,
                },
                *self._slices_done(owned),
            ]
        verify = None
        if self.task.verify == "checksum" and self.write_path == "binary":
            # In this transaction every new row has its xmin; no subtransaction stores rows.
            verify = f"SELECT {self._digested_list()} FROM ONLY {self.table.sql} WHERE xmin = pg_current_xact_id()::xid"
        return {
            "name": "single",
            "before": before,
            # Which of two records with the same key is stored must not depend on which came first by chance.
            "keep_order": self.task.preserve_order or self.task.rejects is not None,
            "verify_query": verify,
            "after": after,
        }

    # What both have in common

    def _owner_proof(self, owned: OwnedJob) -> list[dict[str, Any]]:
        """A statement that finds out, in the transaction that stores all rows, whether the job is still this run's."""
        if not self.task.ledger:
            return []
        return [{"sql": f"SELECT FROM tipple.job WHERE {_owned_by(owned)} FOR SHARE", "proves_ownership": True}]

    def _slices_done(self, owned: OwnedJob) -> list[dict[str, Any]]:
        """A statement that marks all slices as done, in the transaction that stores all rows."""
        if not self.task.ledger:
            return []
        sql = (
            "UPDATE tipple.slice SET state = 'done', attempt = attempt + 1, rows = v.rows, rejects = v.rejects, "
            "row_digest = v.digest, xid = pg_current_xact_id()::text, finished_at = clock_timestamp() "
            f"FROM (VALUES :slices) v (n, rows, rejects, digest) WHERE job_id = '{owned.job_id}' AND slice.n = v.n "
            "RETURNING 1"
        )
        return [{"sql": sql, "proves_ownership": False}]

    def _column_list(self) -> str:
        return ", ".join(quote_identifier(column.name) for column in self.task.columns)

    def _digested_list(self) -> str:
        left_out = [column.name for column in self.task.columns if not column.digested]
        note = f"PostgreSQL keeps {', '.join(left_out)} in a form of its own: not part of the checksum"
        if left_out and note not in self.notes:
            self.notes.append(note)
        return ", ".join(quote_identifier(column.name) for column in self.task.columns if column.digested)

    def _stream_connection(self, owned: OwnedJob) -> dict[str, Any]:
        return connections.stream_parameters(self.connection, ledger.session_name(owned.job_id))

    def _target(self, owned: OwnedJob, into: TableName, strategy: dict[str, Any]) -> dict[str, Any]:
        # What came from standard input is gone once it is stored: a crash of the server must not take it back.
        sliced = owned.strategy != "single" and self.write_path != "direct" and not self.task.reads_stdin
        self.settings = {"synchronous_commit": "off for slices, on for publish" if sliced else "on"}
        return {
            "kind": "postgres",
            "connection": self._stream_connection(owned),
            "session": connections.stream_session(self.connection, slices=sliced),
            "strategy": strategy,
            "table": into.sql,
            "routing": self._routing(owned, into),
            "slice_setting": merge.SLICE_SETTING if owned.strategy == "merge" else None,
            "column_list": self._column_list(),
            "write_path": self.write_path,
            "server_version": self.session.version,
            "ledger": {"job_id": owned.job_id, "epoch": owned.epoch} if self.task.ledger else None,
            "retry_seconds": self.task.retry_seconds,
            "stall_seconds": self.task.stall_seconds,
        }

    def _routing(self, owned: OwnedJob, into: TableName) -> dict[str, Any] | None:
        """The core's `Routing`."""
        if owned.strategy != "partition":
            return None
        routed = partitions.routing(self.connection, self.task, into, binary=self.write_path == "binary")
        self.server_routes = routed.reason
        return routed.plan

    def _note_outcome(self, result: LoadResult, outcome: dict[str, Any]) -> None:
        result.retries += outcome["retries"]
        result.fallback_windows += outcome["fallback_windows"]
        if outcome.get("fallback_example"):
            self.notes.append(f"the server itself read some values, such as {outcome['fallback_example']}")
        if result.strategy == "partition":
            self.notes.extend(partitions.route_notes(self.server_routes, outcome["routes"]))
        result.source_outcomes = outcome["sources"]
        if not result.slices_resumed and outcome["sources"]:
            result.source_rows = [source["rows"] for source in outcome["sources"]]

    def _result(
        self,
        status: Literal["loaded", "already loaded", "planned"],
        job_id: str,
        strategy: str,
        reason: str,
        *,
        slices: int = 0,
    ) -> LoadResult:
        return LoadResult(
            job_id=job_id,
            status=status,
            write_path=self.write_path,
            write_path_reason=self.write_path_reason,
            strategy=strategy,
            strategy_reason=reason,
            slices=slices,
            settings=self.settings,
            notes=self.notes,
        )


def _owned_by(owned: OwnedJob) -> str:
    """The condition on `tipple.job` that a job is loading, and nobody has taken it over."""
    return f"job_id = '{owned.job_id}' AND epoch = {owned.epoch} AND state = 'loading'"


def _lost_outcome(totals: ledger.Totals, *, cut: int) -> dict[str, Any]:
    """The outcome of a transaction that has committed, but whose answer was lost, as the ledger knows it."""
    return {
        "rows": totals.rows,
        "rejects": totals.rejects,
        "digest": None if totals.digest is None else f"{totals.digest:032x}",
        "retries": 0,
        "fallback_windows": 0,
        "sources": [],
        "slices": [],
        "cut": [None] * cut,
    }


def _require(verified: Verified) -> None:
    if not verified.ok:
        raise VerifyFailed(
            f"the target holds {verified.rows_target:,} rows (digest {verified.digest_target}), "
            f"but {verified.rows_source:,} were read (digest {verified.digest_source})",
            hint="nothing was published; please report this with the command",
        )


def _refused(error: psycopg.Error, target: str) -> TippleError:
    text = " ".join(part for part in (error.diag.message_primary, error.diag.message_detail) if part)
    hint = error.diag.message_hint or "nothing was published; mend the cause and run the same command again"
    return TippleError(
        f"the server at {target} refused (SQLSTATE {error.sqlstate}): {text or error}",
        hint=core.rights_hint(error.sqlstate) or hint,
        detail={"sqlstate": error.sqlstate},
    )
