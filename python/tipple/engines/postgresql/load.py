"""A load into PostgreSQL from plan to publish.

Five ways in, chosen by what the target allows (`choice.py`); ARCHITECTURE.md has the figures that chose them:

`swap`: streams fill one hidden staging table, slice by slice, each with its ledger row; it then takes the target's
place. `partition`: the same for the partitions of the target (`partitions.py`). `single`: one session stores
everything in one transaction, streams parse for it. `incremental`: as `swap`, but straight into the target, visible
slice by slice (`--no-atomic`). `merge`: as `swap`, but the staged rows are merged into the target by key (`--mode
upsert`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import psycopg

from tipple.engines import core, spool
from tipple.engines.base import CONVERT, Cut, LoadResult, LoadTask, Runner, Verified, table_exists
from tipple.engines.postgresql import connection as connections
from tipple.engines.postgresql import (
    history,
    indexes,
    ledger,
    missing,
    read_back,
    remedies,
    stage,
    structure,
    tablespaces,
    telling,
)
from tipple.engines.postgresql.choice import Choice, Chooser
from tipple.engines.postgresql.core_plans import CorePlans
from tipple.engines.postgresql.direct import giving_way, has_stored
from tipple.engines.postgresql.failure import INPUT_AGAIN, LOOK, failure
from tipple.engines.postgresql.job import JobOwner, OwnedJob
from tipple.engines.postgresql.keys import culprit, late_keys, repeated, unique_keys
from tipple.engines.postgresql.keys.refused import Sources, StagedSlice
from tipple.engines.postgresql.other_way import OtherWay
from tipple.engines.postgresql.partitioned import partitions
from tipple.engines.postgresql.place import filling
from tipple.engines.postgresql.publish import Publish
from tipple.engines.server_errors import ServerError
from tipple.errors import BadRecord, TippleError, TooManyRejects, UsageError
from tipple.plan import quotes
from tipple.plan.url import TableName

if TYPE_CHECKING:
    from tipple.engines.postgresql.session import PostgresSession

MOST_HOPELESS_KEYS = 20_000
"""Of keys for which no partition can be made, so many are told to the core; of more, the load is ended."""


class PostgresLoad:
    """One load."""

    def __init__(self, session: PostgresSession, task: LoadTask) -> None:
        self.session = session
        self.given = task
        self.owned: OwnedJob | None = None
        """The job, once it has begun."""
        task = tablespaces.named(session.connection, structure.adapt(structure.keep_method(session.connection, task)))
        # Of this load alone, which may find out more of it.
        self.task = task = msgspec.structs.replace(task, keys_at_end=False)
        self.exists = task.definition is None
        self.table = task.table
        self.notes: list[str] = []
        self.job = JobOwner(session, task, self.notes)
        self.chooser = Chooser(session, task, self.notes, self.job)
        self.plans = CorePlans(session, task, self.notes, self.chooser)
        self.publish = Publish(session, task, self.notes, self.job)
        self.other_way = OtherWay(task, self.notes, self.job, self.chooser, self._in_users_words)

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The control connection; another one after the server was gone."""
        return self.session.connection

    # The verb

    def plan(self) -> LoadResult:
        """What `run` would do."""
        known = self.job.foreseen()
        if known is None:
            if self.exists and self.task.mode == "create":
                raise table_exists(self.table)
            choice = self.chooser.choose()
            self.chooser.require_rights(choice)
            known = choice.strategy, choice.reason
            if self.task.write_path in ("auto", "direct"):
                self.chooser.foresee_direct(choice)
        slices = len(core.cut(self.task).slices) if self.task.counts_slices else 0
        return self._result("planned", "-", *known, slices=slices)

    def foreseen_strategy(self) -> str:
        """The strategy of the load, as the ledger and the table are now."""
        known = self.job.foreseen()
        return known[0] if known is not None else self.chooser.choose().strategy

    def run(self, runner: Runner) -> LoadResult:
        """Loads, verifies and publishes."""
        load, until = self, None
        lost: TippleError
        while True:
            try:
                result = load._run(runner)
                load.job.unlock_table()
                return result
            except BadRecord as error:
                raise load.plans.explained(error.with_reason(load._in_users_words(error.reason))) from None
            except TooManyRejects as error:
                raise error.in_words(load._in_users_words) from None
            except core.ServerRefused as error:
                told = ServerError.of_facts(error.detail)
                is_at_end = error.detail["doing"] == core.COMMITTING
                error.hint = (
                    ledger.rights_hint(load.connection, told)
                    or remedies.of(load.connection, load.table, told, is_at_end=is_at_end)
                    or error.hint
                )
                raise missing.explain(self.task, told) or error.in_words(load._in_users_words) from None
            except core.ConnectionLost as error:
                error.hint = error.hint if self.task.ledger else LOOK
                if not isinstance(error, indexes.NoSession):
                    raise
                lost = core.ConnectionLost(str(error), hint=error.hint)
            except TippleError as error:
                filling.name_triggers(load.connection, load.table, error)
                raise
            except psycopg.Error as error:
                words = load._in_users_words
                lost = failure(self.session.target, error, self.task, words, connection=load.connection)
                if not connections.is_lost(error):
                    raise lost from None
            until = until or time.monotonic() + self.task.retry_seconds
            if not load.can_go_on or time.monotonic() >= until:
                if self.task.reads_once and self.task.ledger:
                    lost.hint = INPUT_AGAIN
                raise lost
            load = load._anew(until, lost)

    @property
    def can_go_on(self) -> bool:
        """Whether a run that was cut off can be taken up again, as the same command would; the other loads count a load
        that has come to be published with them, and do not wait for another one."""
        return self.task.ledger and not self.task.reads_once and not self.publish.has_met

    def _anew(self, until: float, lost: TippleError) -> PostgresLoad:
        """This load, to be taken up again with a new connection, as the ledger has it."""
        self.session.reconnect(max(1, int(until - time.monotonic())))
        began = self.owned is not None
        load = PostgresLoad(self.session, msgspec.structs.replace(self.given, restart=self.given.restart and not began))
        load.job.replaces = self.job.replaces
        load.job.going_on = self.owned.job_id if self.owned is not None else None
        load.notes[:] = [*self.notes, "the connection to the server was lost: the load went on where it was"]
        if self.owned is not None:
            load.job.refuse_lost(self.owned, lost)
        load.job.lock_again()
        return load

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
            self.chooser.goes_on = earlier is not None and earlier.plan.get("strategy") != "single"
            choice = self.chooser.choose()
            owned = self.job.take_over(earlier) if earlier is not None else None
            if owned is None and self.chooser.goes_on:
                self.chooser.goes_on = False
                choice = self.chooser.choose()
            self.chooser.require_together(choice, choice.strategy if owned is None else owned.strategy)
        if owned is None:
            self.chooser.require_rights(choice)
            with runner.phase("split"):
                cut = self.chooser.cut(choice)
            with runner.phase("prepare"):
                owned = self.chooser.begin(choice, cut)
        else:
            choice = Choice(owned.strategy, "as the interrupted run had begun it", self.exists)
            task.keys_at_end = late_keys.are_of_job(owned.plan)
            self.job.forget_if_emptied(owned)
            self.job.give_back_room(owned)
            cut = self.job.left(owned)
            self.chooser.resume_direct(owned)
        self.owned = owned
        try:
            return self._load_and_publish(runner, owned, choice, cut)
        except BaseException as error:
            owned = self.owned
            self.job.refuse_lost(owned, error)
            self.job.tidy(owned, error)
            refusal = culprit.of_error(error)
            if refusal is not None:
                refusal = refusal._replace(message=self._in_users_words(refusal.message))
                record = culprit.find(self.connection, task, self.plans, owned, runner, refusal)
                if record is not None:
                    raise record from None
            raise

    def _load_and_publish(self, runner: Runner, owned: OwnedJob, choice: Choice, cut: Cut) -> LoadResult:
        """Goes the way that was chosen, and another one where that turns out to be none."""
        while True:
            self.owned = owned
            try:
                if owned.strategy == "single":
                    return self._run_single(runner, owned, choice, cut)
                return self._run_slices(runner, owned, choice, cut)
            except core.Unsuited as error:
                owned, cut = self.other_way.without_pages(runner, owned, choice, error)
            except core.OnlyServerReads as error:
                owned, choice, cut = self.other_way.by_text(runner, owned, error)
            except core.UnreadableKeys as error:
                reason = late_keys.told(error, owned.plan, self.task)
                owned, choice, cut = self.other_way.judging_at_once(runner, owned, reason)
            except psycopg.Error as error:
                # An index cannot take a row that repeats no key: with the index in place, its record is known.
                staged = owned.strategy in ("swap", "partition") and not self.chooser.keys_judge_at_once
                if not staged or self.task.reads_once or not unique_keys.is_records_fault(error.sqlstate):
                    raise
                reason = error.diag.message_primary or str(error)
                owned, choice, cut = self.other_way.judging_at_once(runner, owned, reason)

    def _in_users_words(self, text: str) -> str:
        """What the server says, with the names that a user knows tables and indexes by."""
        if stage.PREFIX not in text:
            return text
        for own, name in self.publish.index_names.items():
            text = quotes.renamed(text, own, name)
        return stage.in_public(text, self.table, structure.key_names(self.task))

    def _already_loaded(self, job: ledger.LedgerJob) -> LoadResult:
        self.job.came_by_pages = has_stored(job.plan)
        result = self._result("already loaded", job.job_id, "-", "-")
        result.rows = job.rows or 0
        result.rejects = ledger.done_totals(self.connection, job.job_id).rejects
        self._note_rejects(result, [], {})
        result.notes.extend(history.said_of_published(self.connection, job))
        return result

    # Slices, each a transaction

    def _run_slices(self, runner: Runner, owned: OwnedJob, choice: Choice, cut: Cut) -> LoadResult:
        result = self._result("loaded", owned.job_id, choice.strategy, choice.reason)
        into = owned.staging or self.table
        result.slices_resumed = self.job.done_slices(owned) if owned.resumed else 0
        planned_slices = cut.slices
        before = ledger.done_totals(self.connection, owned.job_id).rejects if self.task.ledger else 0
        rounds = 0
        while True:
            rounds += 1
            plan = self.plans.slices(owned, into, cut, before)
            try:
                if self.chooser.write_path == "direct":
                    with giving_way():
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
            digest = None if outcome["digest"] is None else int(outcome["digest"], 16)
            result.slices = len(outcome["slices"])
            lost = 0
            if self.task.ledger:
                self.job.ensure_connection(owned)
                expected = self._expected(cut, outcome)
                self.job.forget_if_emptied(owned)
                cut = self.job.left(owned)
                lost = len(cut.slices) + expected - len(cut.done)
                totals = ledger.done_totals(self.connection, owned.job_id)
                result.slices, rows, digest = totals.slices, totals.rows, totals.digest
                result.rejects = totals.rejects
            if not lost:
                self.publish.sources = sources = Sources(
                    runner=runner, plans=self.plans, cut=cut, unlisted=partial(self._unlisted, planned_slices, outcome)
                )
                owned.plan |= late_keys.of_staged(self.connection, self.task, owned.plan)
                if late_keys.of_job(owned.plan):
                    afresh = rounds > 1 or bool(result.slices_resumed)
                    with runner.phase("keys"):
                        refused = repeated.refuse(self.connection, self.task, owned, sources, afresh=afresh)
                    rows, digest = refused.settle(result, rows, digest)
                result.rows = rows
                core.require_share(self.task, result.rejects, rows)
                self._note_rejects(result, planned_slices, outcome)
                self._convert(runner, owned, result)
                with runner.phase("verify"):
                    disturbed = bool(result.retries or result.slices_resumed or result.structure)
                    result.verified = self._verify_slices(runner, owned, into, rows, digest, disturbed=disturbed)
                if self.publish.run(runner, owned, choice, rows, digest):
                    self._note_merge(result)
                    return result
                expected = len(cut.done)
                self.job.forget_if_emptied(owned)
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

    def _convert(self, runner: Runner, owned: OwnedJob, result: LoadResult) -> None:
        """Turns what was loaded into what was asked for. Verifying comes after it, and so covers it."""
        wanted = self.job.structure
        if wanted is None or owned.staging is None:
            return
        with runner.phase(CONVERT):
            self.job.ensure_connection(owned)
            works = structure.conversion(self.connection, self.task, wanted, owned.staging)
            if any(not work.is_done for work in works):
                memory = indexes.memory_bytes(self.connection)
                result.settings["maintenance_work_mem"] = f"{memory >> 20} MB for all sessions that convert"
                indexes.build(runner, self.connection, self.job.sessions(owned), works, self.task.streams)

    def _grow(self, owned: OwnedJob, staging: TableName, missing: core.NoPartition) -> tuple[Cut, int]:
        """Makes the partitions that rows were found to need; gives what is left to load, and the rejects so far."""
        if not self.task.ledger or self.task.reads_once:
            raise missing
        self.job.ensure_connection(owned)
        with self.connection.transaction():
            made = partitions.grow(self.connection, self.task, staging, missing, self.plans.left_out)
            self.job.furnish(staging)
        if made:
            self.plans.grown += made
        elif len(self.plans.hopeless) < MOST_HOPELESS_KEYS:
            # Infinity belongs to no month: records with such keys are bad ones, and told or kept apart as such.
            self.plans.hopeless.update(missing.keys)
        else:
            raise missing
        return self.job.left(owned), ledger.done_totals(self.connection, owned.job_id).rejects

    def _expected(self, cut: Cut, outcome: dict[str, Any]) -> int:
        """How many slices of feeds the ledger must have as done."""
        return len(cut.done) + len(outcome["cut"])

    def _note_rejects(self, result: LoadResult, slices: list[dict[str, Any]], outcome: dict[str, Any]) -> None:
        words = self._in_users_words
        result.tell_rejects = telling.teller(self.session, self.task, result.job_id, words, slices, outcome)

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
        elif task.verify == "checksum" and digest is not None and self.chooser.write_path != "text":
            held = read_back.digest(self.connection, runner, self.plans, owned, into)
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
                # A resumed job may have detached partitions from `into` already.
                divided = owned.strategy == "partition"
                tables = [leaf.name for leaf in partitions.staged(self.connection, into)] if divided else [into]
                stored = sum(stage.count(self.connection, table) for table in tables)
            verified = Verified(kind="count", rows_source=rows, rows_target=stored)
        verified.require()
        return verified

    def _unlisted(self, planned: list[dict[str, Any]], outcome: dict[str, Any]) -> list[StagedSlice]:
        """The staged slices of a load without a ledger."""
        pieces = {part["n"]: part["pieces"] for part in [*planned, *outcome["cut"]]}
        slices = {n: StagedSlice(n=n, pieces=pieces[n], rows=rows) for n, rows, _ in outcome["slices"]}
        for n, source, offset in spool.places(self.task):
            slices[n].rejected.append((source, offset))
        return list(slices.values())

    def _note_merge(self, result: LoadResult) -> None:
        """What became of the staged rows; those that the table has refused are rejects now."""
        result.merged = self.publish.merged
        refused = self.publish.refused
        result.rows -= sum(refused)
        result.rejects += sum(refused)
        if refused and result.source_rows is not None:
            result.source_rows = [rows - count for rows, count in zip(result.source_rows, refused, strict=True)]

    def _note_no_digest(self) -> None:
        self.notes.append(
            "some rows have no digest (the server itself read values of theirs, or a run without --verify checksum had "
            "stored them): verified by count"
        )

    # One transaction

    def _run_single(self, runner: Runner, owned: OwnedJob, choice: Choice, cut: Cut) -> LoadResult:
        digest = self.task.verify == "checksum" and self.chooser.write_path == "binary" and self.plans.reads_back
        plan = self.plans.single(owned, cut, digest=digest)
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
            result.verified.require()
        elif self.task.verify != "none":
            # The server's own count of every COPY was compared with what was sent.
            result.verified = Verified(kind="count", rows_source=outcome["rows"], rows_target=outcome["rows"])
            if self.task.verify == "checksum" and not self.plans.reads_back:
                self.notes.append("the table's access method does not tell new rows from old ones: verified by count")
            elif self.task.verify == "checksum":
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
        retries = rounds = 0
        while True:
            try:
                with runner.phase("load"):
                    outcome = runner.run(core.start_load(self.task, plan), publishes=find == self._find_published)
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
                spool.discard(self.task, whole=True)
                retries += len(cut.slices)
                rounds += 1
                told = f"the transaction was lost and done again: {error}"
                self.notes += [told] if told not in self.notes else []
                # A server that refuses streams, and not this session, is not to be asked without end.
                time.sleep(min(rounds, 5))

    def _find_published(self, owned: OwnedJob) -> dict[str, Any] | None:
        job = ledger.find_by_id(self.connection, owned.job_id)
        if job is None or job.state != "published":
            return None
        return ledger.done_totals(self.connection, owned.job_id).as_outcome(cut=0)

    def _find_done(self, owned: OwnedJob) -> dict[str, Any] | None:
        totals = ledger.done_totals(self.connection, owned.job_id)
        return totals.as_outcome(cut=len(self.job.left(owned).done)) if totals.slices else None

    # What both have in common

    def _note_outcome(self, result: LoadResult, outcome: dict[str, Any]) -> None:
        result.retries += outcome["retries"]
        result.fallback_windows += outcome["fallback_windows"]
        self.notes += telling.core_notes(outcome)
        if result.strategy == "partition":
            self.notes += self.plans.route_notes(outcome["routes"], rejected=outcome["rejects"] > 0)
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
        write_path, write_path_reason = self.chooser.told_path
        return LoadResult(
            job_id=job_id,
            status=status,
            write_path=write_path,
            write_path_reason=write_path_reason,
            strategy=strategy,
            strategy_reason=reason,
            slices=slices,
            settings=self.plans.settings,
            structure=self.chooser.structure,
            notes=self.notes,
        )
