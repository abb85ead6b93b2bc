"""A load into DuckDB from plan to publish: one transaction holds the rows and the ledger.

The core makes Arrow batches on its own threads; one INSERT pulls them through the Arrow C stream interface, and
DuckDB's threads store them. With `--no-atomic` groups of slices are transactions of their own, and can be resumed.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import duckdb

from tipple import _core
from tipple._core import RejectFiles
from tipple.engines import core, spool
from tipple.engines.base import CONVERT, NOTHING_TO_DO, STDIN, Cut, LoadResult, LoadTask, Runner, Verified, table_exists
from tipple.engines.duckdb import ledger, merge, parquet, turns
from tipple.engines.duckdb.connection import first_row, is_empty, qualified
from tipple.engines.duckdb.constraints import constraints_of
from tipple.engines.duckdb.indexes import Rebuilding
from tipple.engines.duckdb.parquet import ParquetWork
from tipple.engines.duckdb.pull import ConstraintViolated, RecordRefused, duckdb_error
from tipple.engines.duckdb.rows import Reading, Rows
from tipple.engines.duckdb.structure import StructureWork
from tipple.engines.duckdb.transactions import SLICES_PER_COMMIT, Transactions, require_slices
from tipple.engines.loaded_before import nothing_changed
from tipple.errors import SourceChanged, TippleError, UsageError
from tipple.plan.url import quote_identifier

if TYPE_CHECKING:
    from tipple.engines.duckdb.session import DuckSession


class DuckLoad:
    """One load."""

    def __init__(self, session: DuckSession, task: LoadTask) -> None:
        self.session = session
        self.connection = session.connection
        self.task = task
        self.exists = task.definition is None
        self.table = task.table
        self.into = qualified(self.connection, self.table)
        self.notes: list[str] = []
        self.has_met = False
        self.superseded: str | None = None
        """A published job of the same command, whose place this one takes."""
        self.files = self._files()
        self.structure = StructureWork(self.connection, task, in_memory=session.path is None)
        self.indexes = Rebuilding(self.connection, task)
        self.rows = Rows(self.connection, task, self.structure, self.files)
        if task.write_path not in ("auto", "arrow"):
            raise UsageError(
                f"--write-path {task.write_path} is not available for DuckDB",
                hint="write paths here: auto, arrow",
            )
        if task.mode in ("replace", "upsert") and not task.atomic:
            raise UsageError(
                f"--no-atomic cannot {task.mode} rows", hint="leave out --no-atomic, or empty the table and append"
            )
        if task.commit_every is not None and task.atomic:
            raise UsageError(
                "--commit-every is not possible: a load into DuckDB is one transaction",
                hint="leave it out, or give up the one commit with --no-atomic",
            )

    def _files(self) -> ParquetWork | None:
        """The work on a table whose rows are files; None where they are in the database."""
        task = self.task
        asked = task.structure.structure if task.structure is not None else None
        known = parquet.find(self.connection, task.table) if self.exists else None
        if known is not None and asked not in (None, "parquet"):
            raise UsageError(
                f"{self.table} is made of Parquet files, and cannot become {asked}",
                hint="leave --structure out, or drop the view and load with --schema",
            )
        if known is None and asked != "parquet":
            return None
        columns = list(task.columns)
        if known is not None or task.definition is not None:
            table = self.session.describe(task.table) if known is not None else None
            table = table or (self.session.columns_of(task.definition) if task.definition is not None else None)
            columns = list(table.columns) if table is not None else columns
        if task.definition is not None and task.definition.constraints:
            self.notes.append("constraints of the schema other than NOT NULL mean nothing to Parquet files: left out")
        return ParquetWork(self.connection, task, columns, self.session.path)

    # The verb

    def plan(self) -> LoadResult:
        """What `run` would do."""
        cut = core.cut(self.task) if self.task.counts_slices else None
        result = self._result("planned", "-", slices=len(cut.slices) if cut is not None else 0)
        known = self.done_before()
        unfinished = ledger.unfinished(self.connection, self.task)
        ledger.require_resumable(self.task, known or unfinished)
        if known is not None:
            result.strategy, result.strategy_reason = NOTHING_TO_DO, f"job {known} has loaded this already"
        else:
            if self.exists and self.task.mode == "create" and unfinished is None:
                raise table_exists(self.table)
            self.structure.require_empty()
            require_slices(self.task, cut)
        return result

    def done_before(self) -> str | None:
        """The job that has loaded the same already, so that nothing is to be done."""
        task = self.task
        if not task.ledger or task.restart or not self.exists or not ledger.exists(self.connection):
            return None
        found = ledger.find_by_key(self.connection, task.request_key)
        if found is None or found["state"] != "published" or self._why_undone(found) is not None:
            return None
        return str(found["job_id"])

    def is_emptied(self) -> bool:
        """Whether somebody has removed all rows since the job that has loaded the same stored some."""
        found = ledger.find_by_key(self.connection, self.task.request_key)
        if found is None or not found["rows"] or not self.exists:
            return False
        return is_empty(self.connection, self.table)

    def _why_undone(self, job: dict[str, Any]) -> str | None:
        """Why the rows of a published job are not there any more, or None."""
        if not self.exists:
            return "the table is gone"
        if ledger.was_undone(self.connection, job, self.task.followers):
            return "another job has changed the table since"
        if self.task.mode == "replace" and self.is_emptied():
            return "the table has been emptied since"
        return None

    def run(self, runner: Runner) -> LoadResult:
        """Loads, verifies and publishes."""
        try:
            return self._run(runner)
        except duckdb.Error as error:
            raise duckdb_error(error, "loading") from None

    def _run(self, runner: Runner) -> LoadResult:
        task = self.task
        with runner.phase("prepare"):
            if not self.exists and self.session.describe(self.table) is not None:
                # It was made since the load was planned: nobody has asked the ledger for that table.
                raise turns.busy(self.table)
            earlier = self._earlier_job() if task.ledger and ledger.exists(self.connection) else None
            ledger.require_resumable(task, earlier["job_id"] if earlier is not None else None)
            if earlier is not None and earlier["state"] == "published":
                return self._already_loaded(earlier)
            if earlier is not None and task.atomic:
                raise UsageError(
                    f"job {earlier['job_id']}, which this command would go on with, was begun with --no-atomic",
                    hint="repeat its command exactly, or begin anew with --restart"
                    + ledger.duplicates_warning(self.connection, earlier["job_id"]),
                )
            if self.exists and task.mode == "create" and earlier is None:
                raise table_exists(self.table)
            self.structure.require_empty()
            self._settings()
        if earlier is not None:
            job_id = earlier["job_id"]
            cut = self._left(job_id, earlier["plan"])
        else:
            job_id = str(uuid.uuid4())
            with runner.phase("split"):
                cut = core.cut(task)
        with runner.phase("prepare"):
            result = self._result("loaded", job_id, slices=len(cut.slices))
            if task.ledger:
                ledger.ensure(self.connection)
            if self.files is not None:
                parquet.ensure(self.connection)
        if task.atomic:
            try:
                self._run_atomic(runner, result, cut)
            except ConstraintViolated:
                # A key that is made at the end names no record: with it in place, the one that it refuses is found.
                again = task.together is None and self.rows.readable_again
                if not again or not (self.structure.put_key_first() or self.indexes.keep()):
                    raise
                spool.discard(task)
                self._run_atomic(runner, result, cut)
        else:
            self._run_incremental(runner, result, cut, begun=earlier is not None)
        return result

    def _left(self, job_id: str, plan: dict[str, Any]) -> Cut:
        """What the ledger does not have as done. A feed is one transaction: all of it is stored, or nothing."""
        done = ledger.cut_slices(self.connection, job_id, plan.get("first_n", 0))
        stored = {source for _, source in done}
        return Cut(
            slices=ledger.planned_slices(self.connection, job_id),
            feeds=[feed for feed in plan.get("feeds", []) if stored.isdisjoint(feed)],
            line_end=plan["line_end"],
            first_n=max((n + 1 for n, _ in done), default=plan.get("first_n", 0)),
            block_bytes=plan.get("block_bytes", self.task.block_bytes),
            resyncs=plan.get("resyncs", False),
            first_part_n=ledger.next_part_n(self.connection, job_id),
        )

    def _run_atomic(self, runner: Runner, result: LoadResult, cut: Cut) -> None:
        task, connection = self.task, self.connection
        self._begin()
        try:
            with runner.phase("prepare"):
                self._begin_atomic(result.job_id, cut)
                before = self._held_before() if task.verify != "none" else None
            reading = Reading(runner, result.job_id, cut, 0, None)
            outcome = self.rows.insert(reading, partial(self._begin_anew, result.job_id, cut))
            core.require_share(task, outcome["rejects"], outcome["rows"])
            result.rows, result.rejects = outcome["rows"], outcome["rejects"]
            result.slices = len(outcome["slices"])
            self._note_rejects(result, [*cut.slices, *outcome["cut"]], outcome["slices"])
            result.source_outcomes = outcome["sources"]
            result.source_rows = [source["rows"] for source in outcome["sources"]]
            if task.structure is not None and self.files is None:
                with runner.phase(CONVERT):
                    self._finish_structure()
            if self.indexes.afterwards:
                with runner.phase("index"):
                    self._rebuild_indexes()
            with runner.phase("verify"):
                if before is not None:
                    result.verified = self._verify(outcome, before)
            with runner.phase(task.publish_phase):
                if task.mode == "upsert":
                    self._merge(reading, result)
                if self.files is not None:
                    self._publish_files(self.files)
                if task.ledger:
                    self._mark_done(result.job_id, outcome)
                    ledger.publish(connection, result.job_id, outcome["digest"], _now())
                if task.together is None:
                    runner.settle()
                    self._commit()
                else:
                    # From here on the transaction is in the hands of whoever publishes.
                    self.has_met = True
                    task.together.meet(self, _commit_all)
        except BaseException:
            self._rollback()
            raise
        finally:
            self._tidy_files()

    def _merge(self, reading: Reading, result: LoadResult) -> None:
        """Takes what is staged over into the table.

        Raises:
            BadRecord: the first record that the table refuses.
            RecordRefused: the table refuses one, and DuckDB does not say which.
        """
        try:
            result.merged = merge.merge(self.connection, self.task, self.into, result.rows)
        except RecordRefused as error:
            if self.task.rejects is None and self.rows.readable_again and self.task.together is None:
                self._begin_anew(result.job_id, reading.cut)
                self.rows.find_violations(reading)
            if isinstance(error, ConstraintViolated) and "uplicate key" in str(error):
                error.hint = f"{merge.EXCHANGED}; {error.hint}"
            raise

    def _run_incremental(
        self,
        runner: Runner,
        result: LoadResult,
        cut: Cut,
        *,
        begun: bool,
    ) -> None:
        task, connection = self.task, self.connection
        if task.verify == "checksum":
            self.notes.append("--no-atomic: verified by the counts of every transaction, not by checksum")
        require_slices(task, cut)
        if not begun:
            self.session.begin()
            try:
                self.structure.prepare()
                if task.ledger:
                    self._begin_job(result.job_id, cut)
                self._commit()
            except BaseException:
                self._rollback()
                raise
        slices, counts = list(cut.slices), list[tuple[int, int, int]]()
        result.rejects = ledger.reject_count(connection, result.job_id) if task.ledger else 0
        result.slices = 0
        first_n = cut.first_n
        transactions = Transactions(task, cut, in_order=task.preserve_order or self._judges_by_keys())
        while (group := transactions.next()) is not None:
            group.first_n = first_n
            self.session.begin()
            try:
                most = transactions.records_per_slice(group)
                reading = Reading(runner, result.job_id, group, result.rejects, most)
                outcome = self.rows.insert(reading, partial(self._begin_anew, result.job_id, cut))
                transactions.add(outcome["parts"])
                if task.ledger:
                    self._mark_done(result.job_id, outcome)
                self._commit()
            except BaseException:
                self._rollback()
                raise
            result.rows += outcome["rows"]
            result.rejects += outcome["rejects"]
            result.slices += len(outcome["slices"])
            first_n += len(outcome["cut"])
            slices += outcome["cut"]
            counts += outcome["slices"]
            if not begun:
                result.add_sources(outcome["sources"])
            spool.settle(task)
        self._note_rejects(result, slices, counts)
        if task.ledger:
            result.rows = ledger.rows_done(connection, result.job_id)
        core.require_share(task, result.rejects, result.rows)
        if task.ledger:
            with runner.phase("publish"):
                ledger.publish(connection, result.job_id, None, _now())
        if task.verify != "none":
            result.verified = Verified(kind="count", rows_source=result.rows, rows_target=result.rows)

    def _judges_by_keys(self) -> bool:
        """Whether keys say which records are rejects: of two with the same one, the first of the files is stored."""
        if self.task.rejects is None or self.files is not None:
            return False
        return any(constraint.kind == "unique" for constraint in constraints_of(self.connection, self.table))

    def _mark_done(self, job_id: str, outcome: dict[str, Any]) -> None:
        ledger.insert_slices(self.connection, job_id, outcome["cut"])
        ledger.divide(self.connection, job_id, outcome["parts"])
        ledger.mark_done(self.connection, job_id, outcome["slices"])
        ledger.add_rows(self.connection, job_id, outcome["rows"])
        if outcome["rejects"]:
            ledger.add_rejects(self.connection, job_id, spool.places(self.task))

    def _note_rejects(
        self, result: LoadResult, slices: Sequence[dict[str, Any]], counts: Sequence[tuple[int, int, int]]
    ) -> None:
        def tell(told: RejectFiles) -> None:
            if self.task.ledger:
                ledger.tell_rejects(self.connection, self.task, result.job_id, told)
            else:
                spool.tell(self.task, told, spool.first_records(slices, counts))

        result.tell_rejects = tell

    # Jobs

    def _earlier_job(self) -> dict[str, Any] | None:
        """The job that this command began before, or None. With --restart it is given up."""
        task = self.task
        found = ledger.find_by_key(self.connection, task.request_key)
        why = self._why_undone(found) if found is not None and found["state"] == "published" else None
        if found is not None and (task.restart or why is not None):
            if not task.restart:
                self.notes.append(f"job {found['job_id']} had loaded this before, but {why}: loaded again")
            if task.atomic:
                # In the transaction of the new rows: until then the old ones are those of this command.
                self.superseded = found["job_id"]
            else:
                ledger.give_up(self.connection, found["job_id"], "superseded")
            return None
        if found is None:
            for other in ledger.find_unfinished(self.connection, self.table):
                if task.restart or any(s["path"] == STDIN for s in other["request"]["sources"]):
                    ledger.give_up(self.connection, other["job_id"], "superseded")
                elif {s["path"] for s in other["request"]["sources"]} == {s.path for s in task.sources}:
                    raise SourceChanged(
                        f"the sources or options have changed since job {other['job_id']} began to load them",
                        hint="bring them back and run the command again, or load anew with --restart"
                        + ledger.duplicates_warning(self.connection, other["job_id"]),
                    )
        return found

    def _already_loaded(self, job: dict[str, Any]) -> LoadResult:
        # A process that was killed just after its commit has left the files that it had replaced.
        self._tidy_files()
        result = self._result("already loaded", job["job_id"])
        result.rows = job["rows"] or 0
        result.rejects = ledger.reject_count(self.connection, job["job_id"])
        self._note_rejects(result, [], [])
        result.notes.append(nothing_changed(job["job_id"], job["finished_at"]))
        return result

    def _begin_job(self, job_id: str, cut: Cut) -> None:
        task = self.task
        if self.superseded is not None:
            ledger.give_up(self.connection, self.superseded, "superseded")
        ledger.insert_job(
            self.connection,
            job_id=job_id,
            request_key=task.request_key,
            table=self.table,
            mode=task.mode,
            request=task.request,
            plan={"line_end": cut.line_end}
            | ({"creates": True} if task.definition is not None else {})
            | cut.feeding(),
            started_at=_now(),
            slices=cut.slices,
        )

    def _publish_files(self, files: ParquetWork) -> None:
        try:
            files.publish()
        except duckdb.Error as error:
            raise duckdb_error(error, "publishing files") from None
        except OSError as error:
            raise TippleError(
                f"the files could not be put into their place: {error}",
                hint="nothing was published; mend the cause and run the same command again",
            ) from None

    def _tidy_files(self) -> None:
        """Removes files that belong to nobody; what cannot be removed now the next load, or `jobs clean`, will."""
        if self.files is None:
            return
        try:
            self.files.tidy()
        except (duckdb.Error, OSError) as error:
            self.notes.append(f"files that are not part of the table are left: {error} (tipple jobs URL clean)")

    def _finish_structure(self) -> None:
        try:
            self.structure.finish()
        except duckdb.Error as error:
            raise duckdb_error(error, "making its structure") from None

    def _rebuild_indexes(self) -> None:
        try:
            self.indexes.finish()
        except duckdb.Error as error:
            raise duckdb_error(error, "building its indexes") from None

    # Rows

    def _settings(self) -> None:
        settings = self.session.settings
        settings.set("preserve_insertion_order", str(self.rows.inserted_in_order).lower())
        # Row groups are compressed and written one by one while they are still in the cache (default: five together).
        settings.set("write_buffer_row_group_count", "1")
        if self.task.memory_limit_bytes is not None:
            settings.set("memory_limit", f"{self.task.memory_limit_bytes} bytes")

    def _make_room(self, job_id: str) -> None:
        """Creates the table that is missing, or takes the rows away that are to be replaced."""
        if self.files is None:
            self.structure.prepare()
        else:
            self.files.begin(job_id)
            self.notes += self.files.notes()

    # Proof

    def _digested(self) -> list[bool]:
        return [column.digested for column in self.task.columns]

    def _held_before(self) -> dict[str, Any]:
        """What the place for the rows holds before they come; a directory for files is new."""
        if self.files is None:
            return self._held()
        return {"rows": 0, "digest": None if self.task.verify == "count" else "0"}

    def _held(self) -> dict[str, Any]:
        """Rows of the table, and their digest where a checksum is asked for."""
        stored_in = self.rows.stored_in if self.files is None else f"({self.files.written_query()})"
        if self.task.verify == "count":
            found = first_row(self.connection, f"SELECT count(*) FROM {stored_in}")
            return {"rows": found[0] if found else 0, "digest": None}
        # What is no part of the digest need not be of a type that Arrow has.
        names = ", ".join(quote_identifier(one.name) if one.digested else "NULL" for one in self.task.columns)
        reading = self.connection.sql(f"SELECT {names} FROM {stored_in}")
        held: dict[str, Any] = json.loads(_core.digest_arrow_stream(reading, self._digested()))
        return held

    def _verify(self, outcome: dict[str, Any], before: dict[str, Any]) -> Verified:
        after = self._held()
        rows = after["rows"] - before["rows"]
        if self.task.verify == "count":
            verified = Verified(kind="count", rows_source=outcome["rows"], rows_target=rows)
        else:
            difference = (int(after["digest"], 16) - int(before["digest"], 16)) % (1 << 128)
            verified = Verified(
                kind="checksum",
                rows_source=outcome["rows"],
                rows_target=rows,
                digest_source=outcome["digest"],
                digest_target=f"{difference:032x}",
            )
            left_out = [column.name for column in self.task.columns if not column.digested]
            if left_out:
                self.notes.append(f"DuckDB itself read {', '.join(left_out)}: not part of the checksum")
        verified.require()
        return verified

    # Transactions

    def _begin(self) -> None:
        """Begins a transaction, or goes on in the one that other loads have begun which publish with this one."""
        if self.session.in_transaction:
            return
        self.session.begin()
        self.session.in_transaction = self.task.together is not None

    def _begin_anew(self, job_id: str, cut: Cut) -> None:
        """Takes the transaction back, and begins one like it."""
        self._rollback()
        self._begin()
        if self.task.atomic:
            self._begin_atomic(job_id, cut)

    def _begin_atomic(self, job_id: str, cut: Cut) -> None:
        """What precedes the rows in the transaction that holds everything."""
        self._make_room(job_id)
        self.indexes.begin()
        if self.task.ledger:
            self._begin_job(job_id, cut)
        if self.task.mode == "upsert":
            merge.create_staging(self.connection, self.task)

    def _commit(self) -> None:
        try:
            self.session.commit()
        except duckdb.Error as error:
            raise duckdb_error(error, "committing") from None

    def _rollback(self) -> None:
        if self.has_met:
            # Another load may be at work in the transaction; it ends, with the session at the latest.
            return
        self.session.in_transaction = False
        try:
            self.connection.execute("ROLLBACK")
        except duckdb.Error:
            # A failed statement has already ended the transaction; the failure itself is being reported.
            return

    def _shown_settings(self) -> dict[str, str]:
        settings = {"preserve_insertion_order": str(self.rows.inserted_in_order).lower()}
        if self.structure.order_by:
            # The load's own limit is shown by its option's name.
            for name in ("memory_limit", "temp_directory"):
                found = first_row(self.connection, f"SELECT current_setting('{name}')")
                settings[f"duckdb_{name}"] = str(found[0]) if found is not None else ""
        return settings

    def _result(
        self, status: Literal["loaded", "already loaded", "planned"], job_id: str, *, slices: int = 0
    ) -> LoadResult:
        opaque = [f"{c.name} {c.type_text}" for c in self.task.columns if c.codec_type == "opaque"]
        reason = "DuckDB takes Arrow batches fastest"
        if opaque:
            reason += f"; it reads {', '.join(opaque[:3])} from text itself"
        atomic = self.task.atomic
        return LoadResult(
            job_id=job_id,
            status=status,
            write_path="arrow",
            write_path_reason=reason,
            strategy="parquet"
            if self.files is not None
            else "merge"
            if self.task.mode == "upsert"
            else "transaction"
            if atomic
            else "incremental",
            strategy_reason="files are written beside the database, and one transaction shows all of them"
            if self.files is not None
            else "rows are staged, and merged by key in the transaction that holds the ledger"
            if self.task.mode == "upsert"
            else "one transaction holds all rows and the ledger"
            if atomic
            else f"asked for by --no-atomic: every {SLICES_PER_COMMIT} slices are visible once they are done",
            slices=slices,
            structure=self.files.applied if self.files is not None else self.structure.applied,
            settings=self._shown_settings(),
            notes=self.notes,
        )


def _commit_all(loads: Sequence[DuckLoad]) -> list[DuckLoad]:
    """Commits the transaction that holds all of these."""
    loads[0]._commit()
    loads[0].session.in_transaction = False
    return []


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None).isoformat(sep=" ")
