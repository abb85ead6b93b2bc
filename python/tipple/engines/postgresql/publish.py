"""What is staged gets its indexes and constraints, and becomes visible in one transaction with its ledger."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import filterfalse
from typing import TYPE_CHECKING, Any

import psycopg

from tipple.engines import core, spool
from tipple.engines.base import ANALYZE, LoadTask, Runner, Verified
from tipple.engines.merge import MergeCounts
from tipple.engines.postgresql import (
    checks,
    direct,
    indexes,
    ledger,
    stage,
    structure,
    tablespaces,
    together,
    together_locks,
    unlogged,
)
from tipple.engines.postgresql import connection as connections
from tipple.engines.postgresql.choice import Choice
from tipple.engines.postgresql.diagnostics import server_error
from tipple.engines.postgresql.job import JobOwner, OwnedJob
from tipple.engines.postgresql.keys import refused
from tipple.engines.postgresql.keys.refused import Sources
from tipple.engines.postgresql.partitioned import partition_replays
from tipple.engines.postgresql.partitioned.partition_publish import MOST_ROUNDS, Incomplete, PartitionPublish
from tipple.engines.postgresql.place import (
    absorb,
    emptying,
    estranged,
    filling,
    key_work,
    obstacles,
    sequences,
    set_aside,
    shape,
)
from tipple.engines.postgresql.place.views import NotRestored, OwnViews
from tipple.engines.postgresql.upsert import merge
from tipple.errors import TippleError
from tipple.plan import constraints
from tipple.plan.url import TableName

if TYPE_CHECKING:
    from tipple.engines.postgresql.session import PostgresSession

LONGEST_REASON = 200
"""Of the server's own words so many characters stand in a note: they may repeat a value of any length."""
LOCKED_CROSSWISE = "others read the tables of the job all the time, some in one order and some in another"
DEADLOCK = "the server ended a deadlock with another session, and publishing was begun again"
SNAPSHOT_WAIT_SECONDS = 10
"""How long publishing waits for transactions that must go on seeing the old rows, before it copies instead."""
MOST_DEADLOCKS = 3
"""So often an upsert is begun again that the server has ended for a deadlock."""


class Publish:
    """Publishes one load."""

    def __init__(self, session: PostgresSession, task: LoadTask, notes: list[str], job: JobOwner) -> None:
        """`notes` gets remarks for the user."""
        self.session = session
        self.borrowed: psycopg.Connection[Any] | None = None
        self.task = task
        self.notes = notes
        self.job = job
        self.table = task.table
        self.may_swap = True
        self.may_mix = True
        """Whether some rows may be copied and others take their place with a partition."""
        self.mixes = False
        """Whether the transaction that publishes has done so: a snapshot from before its end shows a part of them."""
        self.is_patient = True
        """Whether locks are waited for, however long it takes."""
        self.may_copy = True
        """Whether others have been in the way for so long that rows are to be copied."""
        self.gives_way = False
        """Whether they are copied without as much as trying to lock readers out."""
        self.views = OwnViews()
        self.copies = 0
        """How often rows of the table were copied to the staged ones."""
        self.index_names: dict[str, str] = {}
        """Indexes of what is staged, and the names that a user knows them by."""
        self.is_incomplete = False
        """Whether publishing together has found that the target has got an index or partition that staging lacks."""
        self.has_met = False
        """Whether it is among those that are published together, or would have been."""
        self.merged: MergeCounts | None = None
        self.sources: Sources | None = None
        """What an upsert has read, for the records of rows that the table refuses."""
        self.refused: list[int] = []
        """How many of these there were, by source."""

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The control connection, or the one of another load that publishes for this one too."""
        return self.borrowed or self.session.connection

    def give_way(self) -> None:
        """From now on nothing takes another one's place, where readers would have to be locked out."""
        self.gives_way, self.is_patient = True, False
        self.may_swap = self.may_mix = False

    @contextmanager
    def borrowing(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Has another load's connection, and so its transaction, be this one's."""
        self.borrowed = connection
        try:
            yield
        finally:
            self.borrowed = None

    def run(self, runner: Runner, owned: OwnedJob, choice: Choice, rows: int, digest: int | None) -> bool:
        """Gives what is staged its indexes and publishes it, again where the target has got new ones meanwhile."""
        for _ in range(MOST_ROUNDS):
            try:
                with runner.phase("index"):
                    self._finish_staging(runner, owned, choice)
                if self.task.analyze:
                    with runner.phase(ANALYZE):
                        self._analyze(runner, owned, choice)
                with runner.phase(self.task.publish_phase):
                    is_visible = self._publish(runner, owned, choice, rows, digest)
                    if is_visible and owned.strategy == "swap":
                        self._drop_set_aside()
                    return is_visible
            except Incomplete:
                self.notes.append(f"{self.table} got an index or a partition meanwhile: staged partitions got it too")
        raise TippleError(
            f"indexes or partitions of {self.table} change while it is published, again and again",
            hint="nothing was published; when that has ended, run the same command again",
        )

    def _drop_set_aside(self) -> None:
        """Drops the table whose place the staged one has taken."""
        # The rows are there; whoever comes by next will drop it.
        with suppress(psycopg.Error):
            if set_aside.refers_to_others(self.connection, self.table):
                self.notes += set_aside.drop_all(self.connection, set_aside.PATIENCE_SECONDS)

    @contextmanager
    def _naming_records(self, owned: OwnedJob, *, checks: bool) -> Iterator[None]:
        """Where CHECK constraints are made over pages, the server names no record that they refuse: COPY will.

        Not in the transaction that publishes others too: they do not wait for a load that begins anew.
        """
        try:
            yield
        except psycopg.Error as error:
            of_row = direct.blames_a_row(server_error(error))
            if not checks or not of_row or not owned.direct or self.borrowed is not None:
                raise
            said = error.diag.message_primary or str(error)
            raise core.Unsuited(said, hint=direct.NAMED_OTHERWISE) from None

    def _finish_staging(self, runner: Runner, owned: OwnedJob, choice: Choice) -> None:
        """Builds the indexes and constraints of what is staged."""
        staging = owned.staging
        if staging is None:
            return
        sessions = self.job.sessions(owned)
        if owned.strategy == "partition":
            partitions = self._partitions(owned, staging)
            try:
                partitions.prepare(runner, sessions)
            finally:
                self.index_names.update(partitions.index_names)
        elif sequences.is_numbered_anew(self.connection, owned.plan, self.table, self.task.columns):
            # Rows will be copied, and get other numbers.
            return
        elif owned.strategy == "swap" and choice.exists and not absorb.builds_last(self.connection, self.task, staging):
            work = key_work.missing(self.connection, staging, self.table)
            self.index_names.update(work.renames)
            work.tablespace = tablespaces.of_indexes(self.connection, self.task, staging, like=self.table)
            with self._naming_records(owned, checks=stage.has_checks(self.connection, self.table)):
                indexes.build(runner, self.connection, sessions, [work], self.task.streams)
        elif owned.strategy == "swap" and owned.direct:
            with self._naming_records(owned, checks=True):
                self._give_checks(owned, staging)

    def _give_checks(self, owned: OwnedJob, staging: TableName) -> None:
        """A new table of pages gets its CHECK constraints before it is published, while it can still begin anew."""
        if "checks" in owned.plan:
            return
        with self.connection.transaction():
            given = checks.add(self.connection, self.task, staging)
            facts = (json.dumps({"checks": given}), owned.job_id, owned.epoch)
            if self.task.ledger and self.connection.execute(ledger.ADD_TO_PLAN, facts).rowcount != 1:
                raise core.TakenOver
        owned.plan["checks"] = given

    def _analyze(self, runner: Runner, owned: OwnedJob, choice: Choice) -> None:
        """Gathers the statistics of what is staged and becomes the table: queries need them from the first one on."""
        staging = owned.staging
        if staging is None or owned.strategy not in ("swap", "partition"):
            return
        if choice.exists and owned.strategy == "swap" and absorb.rows_move(self.connection, self.task, staging):
            # Other rows are to come.
            return
        tables = self._partitions(owned, staging).moving() if owned.strategy == "partition" else [staging]

        def before(table: TableName) -> list[str]:
            return direct.reading_ahead(self.connection, table) if owned.direct else []

        try:
            indexes.analyze(runner, self.connection, self.job.sessions(owned), tables, self.task.streams, before)
        except psycopg.DataError as error:
            # Some values can be stored, and not be counted: numrange has bounds that no float reaches.
            why = str(error.diag.message_primary)
            why = why if len(why) <= LONGEST_REASON else f"{why[:LONGEST_REASON]}…"
            self.notes.append(f"the server could not gather statistics of {self.table}: {why}")

    def _publish(self, runner: Runner, owned: OwnedJob, choice: Choice, rows: int, digest: int | None) -> bool:
        """Makes the rows visible and says so in the ledger, in one transaction; False where slices were lost."""
        try:
            if owned.strategy in ("swap", "partition") and choice.exists and self.task.mode == "replace":
                self.may_swap = stage.wait_for_old_snapshots(self.connection, SNAPSHOT_WAIT_SECONDS)
            elif owned.strategy == "swap" and choice.exists and stage.has_pages(self.connection, self.table):
                # Empty it is, but an older transaction may still see the rows that were deleted.
                self.may_swap = stage.wait_for_old_snapshots(self.connection, SNAPSHOT_WAIT_SECONDS)
            elif owned.strategy == "partition":
                # What is appended can go beside the rows that are there: not worth waiting for, but for a structure.
                wait_seconds = SNAPSHOT_WAIT_SECONDS if self.is_strict else 0
                self.may_swap = stage.wait_for_old_snapshots(self.connection, wait_seconds)
            if self.task.together is None:
                return self._publish_alone(runner, owned, choice, rows, digest)
        except psycopg.Error as error:
            if not connections.is_lost(error):
                raise
            return self._settle_doubt(runner, owned, choice, rows, digest)
        # Whoever publishes for all settles what a lost connection leaves in doubt.
        self.has_met = True
        if self.task.together.meet(together.Staged(self, owned, choice, rows, digest), together.publish):
            return True
        self.has_met = False
        if self.is_incomplete:
            self.is_incomplete = False
            raise Incomplete
        return False

    def _publish_alone(self, runner: Runner, owned: OwnedJob, choice: Choice, rows: int, digest: int | None) -> bool:
        """One transaction, begun again where it waits for a reader: who comes after it would wait with it.

        Somebody who reads partitions, and then writes through their table, holds what publishing needs while he waits
        for what it has: no lock is waited for as long as the server would take to end his query for it. So it is with
        readers of a table and its views, but rows can be copied without a lock on these. An upsert, which may be in a
        deadlock with whoever writes what its rows refer to, is nobody's loss but its own, and is begun again too.
        """
        begun = time.monotonic()
        turn = 0
        while True:
            seconds = time.monotonic() - begun
            self.views.begin(may_move=seconds < SNAPSHOT_WAIT_SECONDS)
            has_views = owned.strategy == "swap" and choice.exists and self.views.exist(self.connection, self.table)
            absorbs = owned.strategy == "swap" and choice.exists and self._rows_move(owned)
            takes_turns = owned.strategy in ("swap", "partition") and choice.exists
            self.is_patient = self.may_copy = not takes_turns or seconds >= together.PATIENCE_SECONDS
            self.mixes, said = False, len(self.notes)
            waits = takes_turns and self.is_patient
            try:
                with self.connection.transaction(), self._avoiding_deadlocks() if waits else nullcontext():
                    if not self.is_patient:
                        milliseconds = together_locks.LOCKS_MILLISECONDS // (2 if has_views else 1)
                        if owned.strategy == "swap" and not has_views and not absorbs:
                            # A lock on one table alone ends in no deadlock, and may take as long as others' queries.
                            milliseconds = min(milliseconds << turn, together_locks.LONGEST_LOCK_MILLISECONDS)
                        self.connection.execute(f"SET LOCAL lock_timeout = {milliseconds}")
                    is_visible = self.make_visible(owned, choice, rows, digest)
                    if is_visible:
                        self.add_references(owned, choice)
                        if self.mixes and not self.is_patient:
                            stage.require_nobody_waits(self.connection)
                        runner.settle()
                    return is_visible
            except psycopg.Error as error:
                runner.unsettle()
                may_try_again = not self.is_patient or isinstance(error, together_locks.GaveWay)
                is_deadlock = isinstance(error, psycopg.errors.DeadlockDetected) and turn < MOST_DEADLOCKS
                # Who has set a limit of his own to waiting for locks gets its error.
                if not (may_try_again and together.is_in_the_way(error)) and not is_deadlock:
                    raise
                # What was said of it is undone too.
                del self.notes[said:]
                if is_deadlock and self.is_patient:
                    self.notes += [] if DEADLOCK in self.notes else [DEADLOCK]
                elif isinstance(error, stage.SnapshotsOpen):
                    self.may_mix = False
                elif seconds >= together.QUIET_SECONDS:
                    waited_seconds = time.monotonic() - begun - seconds
                    self.session.blockers.say_of_table(self.connection, self.table.sql, waited_seconds)
                if seconds >= together.GIVING_WAY_SECONDS and not self.is_strict:
                    self.give_way()
                turn += 1
                time.sleep(together.PAUSE_SECONDS)

    def _avoiding_deadlocks(self) -> AbstractContextManager[None]:
        return together_locks.avoiding_deadlocks(self.connection, lambda: self.session.another("tipple"))

    def make_visible(self, owned: OwnedJob, choice: Choice, rows: int, digest: int | None) -> bool:
        """What publishing does in its transaction; False where slices were lost, and so nothing was done."""
        staging = owned.staging
        compares = self.task.verify == "checksum" and digest is not None
        if owned.unlogged:
            if owned.strategy == "merge" and staging is not None and not unlogged.is_unlogged(self.connection, staging):
                unlogged.remember(self.connection, owned.job_id)
            elif not unlogged.has_survived(self.connection, owned.job_id):
                return False
        if self.task.ledger and ledger.done_totals(self.connection, owned.job_id).rows != rows:
            return False
        if owned.strategy in ("swap", "merge") and staging is not None and rows:
            self._require_rows(staging, rows)
        if owned.strategy == "merge" and staging is not None:
            if self.task.definition is not None:
                self.connection.execute(self.task.definition.create_sql(self.table.sql, with_constraints=True))
            rows = self._merge(owned, staging, rows)
            if compares:
                self.notes += filling.remarks(self.connection, self.table)
            digest = None if any(self.refused) else digest
            self.connection.execute(f"DROP TABLE {staging.sql}")
        elif owned.strategy == "partition" and staging is not None:
            tablespaces.restrict_default(self.connection, exists=choice.exists)
            partitions = self._partitions(owned, staging, compares=compares)
            takes_unlogged = partitions.publish(
                may_swap=self.may_swap, may_mix=self.may_mix, is_patient=self.is_patient
            )
            if takes_unlogged and self.task.ledger:
                self._note(owned, {"unlogged": True})
                unlogged.remember(self.connection, owned.job_id)
            if self.task.replace_scope == "partitions" and self.task.rejects is not None and self.task.ledger:
                self._note(owned, {partition_replays.PLAN_KEY: partitions.replaced})
            self.mixes = partitions.mixes
            # Other tables may follow in this transaction.
            self.connection.execute("SET LOCAL default_tablespace TO DEFAULT")
        elif staging is not None:
            self._put_in_place(owned, staging, exists=choice.exists, compares=compares)
        if owned.unlogged and not unlogged.is_unlogged(self.connection, self.table):
            unlogged.forget(self.connection, owned.job_id)
        if self.task.ledger:
            if self.job.replaces is not None:
                self.connection.execute(ledger.SUPERSEDE, (self.job.replaces,))
                self.connection.execute(ledger.SET_KEY, (self.task.request_key, owned.job_id))
            text = None if digest is None else f"{digest:032x}"
            if self.connection.execute(ledger.PUBLISH, (rows, text, owned.job_id, owned.epoch)).rowcount != 1:
                raise core.TakenOver
        return True

    def _require_rows(self, staging: TableName, rows: int) -> None:
        """Refuses what somebody has emptied meanwhile, as TRUNCATE with CASCADE of a table does that it refers to.

        Raises:
            VerifyFailed: it has no rows any more.
        """
        if self.connection.execute(f"SELECT FROM {staging.sql} LIMIT 1".encode()).fetchone() is None:
            Verified(kind="count", rows_source=rows, rows_target=0).require()

    def _note(self, owned: OwnedJob, facts: dict[str, Any]) -> None:
        """Adds to what the ledger has of the job: that a crash takes rows of it from partitions that are not logged, or
        which partitions it has replaced."""
        if self.connection.execute(ledger.ADD_TO_PLAN, (json.dumps(facts), owned.job_id, owned.epoch)).rowcount != 1:
            raise core.TakenOver

    def add_references(self, owned: OwnedJob, choice: Choice) -> None:
        """Gives a new table its foreign keys, when the tables are there which they refer to."""
        if choice.exists or owned.strategy not in ("swap", "partition"):
            return
        for constraint in filter(constraints.is_foreign_key, self._constraints_left(owned.plan.get("checks", []))):
            self.connection.execute(f"ALTER TABLE {self.table.sql} ADD {constraint}".encode())

    def _constraints_left(self, given: Sequence[str]) -> list[str]:
        """Those of the new table's definition beside the `given` ones."""
        return structure.constraints_left(self.connection, self.task, self.job.structure, self.table, given)

    def _merge(self, owned: OwnedJob, staging: TableName, rows: int) -> int:
        """Merges what is staged, and makes rejects of what the table refuses; gives the number of rows without them."""
        policy = self.task.rejects
        most: int | None = 0
        before = 0
        if policy is not None:
            if self.task.ledger:
                before = ledger.done_totals(self.connection, owned.job_id).rejects
            else:
                before = sum(1 for _ in spool.places(self.task))
            most = None if policy.max_count is None else max(policy.max_count - before, 0)
        done = merge.merge(self.connection, self.task, staging, self.table, read=rows, most=most)
        self.merged, self.refused = done.counts, []
        if done.refused:
            if self.sources is None:
                raise TippleError(
                    f"internal error: {len(done.refused)} rows were refused, and nobody knows their records"
                )
            self.refused = refused.reject(self.connection, self.task, owned, self.sources, done.refused)
            rows -= len(done.refused)
            core.require_share(self.task, before + len(done.refused), rows)
        return rows

    @property
    def is_strict(self) -> bool:
        """Whether rows that go in beside others would not have the structure that was asked for."""
        return self.job.structure is not None and not self.job.keeps_structure

    def _partitions(self, owned: OwnedJob, staging: TableName, *, compares: bool = False) -> PartitionPublish:
        return PartitionPublish(
            self.connection,
            self.task,
            staging,
            self.notes,
            structure=self.job.structure,
            plan=owned.plan,
            is_strict=self.is_strict,
            compares=compares,
        )

    def _settle_doubt(self, runner: Runner, owned: OwnedJob, choice: Choice, rows: int, digest: int | None) -> bool:
        """COMMIT's answer may be lost: the ledger's state is the answer."""
        if not self.task.ledger:
            raise core.CommitInDoubt(
                "the connection was lost while publishing, and without a ledger nobody can tell the outcome",
                hint=f"look whether {self.table} has the rows; tipple jobs URL clean drops what was staged",
            )
        self.job.reconnect(owned)
        job = ledger.find_by_id(self.connection, owned.job_id)
        if job is not None and job.state == "published":
            return True
        return self._publish(runner, owned, choice, rows, digest)

    def _put_in_place(self, owned: OwnedJob, staging: TableName, *, exists: bool, compares: bool) -> None:
        """`compares`: whether the values of rows that are copied must arrive as they were verified."""
        if not exists:
            self._put_new(owned, staging, compares=compares)
            return
        takes_place = self._absorb if self._rows_move(owned) else self._take_place
        obstacle = LOCKED_CROSSWISE if self.gives_way else takes_place(owned, staging)
        if obstacle is None:
            return
        self.connection.execute("SET LOCAL lock_timeout TO DEFAULT")
        if self.is_strict:
            raise structure.not_now(self.table, obstacle)
        # Not what it was when the strategy was chosen: the rows are copied, which is slower but always right.
        self.notes.append(f"the staged rows were copied, not swapped in: {obstacle}")
        shape.require_same_columns(self.connection, staging, self.table, self.task.columns)
        names = self.task.column_list
        if self.task.mode == "replace":
            emptying.empty(self.connection, self.table)
        filling.fill(self.connection, self.task, self.table, staging, names, compares=compares, overrides=True)
        if set_aside.refers_to_others(self.connection, staging):
            set_aside.leave(self.connection, staging)
        else:
            self.connection.execute(f"DROP TABLE {staging.sql}")

    def _put_new(self, owned: OwnedJob, staging: TableName, *, compares: bool) -> None:
        """Makes a new table of what is staged; where a publication has come meanwhile, it sends rows that come into the
        table itself."""
        given: Sequence[str] = owned.plan.get("checks", [])
        definition = self.task.definition
        place = tablespaces.of(self.connection, staging) if self.task.tablespaces else None
        published = obstacles.publication_of_new(self.connection, self.table.schema)
        if place is not None:
            self.connection.execute("SELECT set_config('default_tablespace', %s, true)", (place,))
        if published is None or definition is None:
            self._swap(staging, exists=False)
        elif self.is_strict:
            raise structure.not_now(self.table, published)
        else:
            given = []
            self.notes.append(f"the staged rows were copied into the new table: {published}")
            self.connection.execute(definition.create_sql(self.table.sql, with_constraints=False))
            names = stage.stored_columns(self.connection, staging)
            filling.fill(self.connection, self.task, self.table, staging, names, compares=compares, overrides=True)
            stage.advance_sequences(self.connection, self.table, staging)
            self.connection.execute(f"DROP TABLE {staging.sql}")
        if definition is not None:
            stage.give_autovacuum(self.connection, self.table, definition.options_text)
        for constraint in filterfalse(constraints.is_foreign_key, self._constraints_left(given)):
            with self._naming_records(owned, checks=constraints.is_check(constraint)):
                self.connection.execute(f"ALTER TABLE {self.table.sql} ADD {constraint}")
        if place is not None:
            # Other tables may follow in this transaction.
            self.connection.execute("SET LOCAL default_tablespace TO DEFAULT")

    def _rows_move(self, owned: OwnedJob) -> bool:
        """Whether the table's rows are to be copied to the staged ones, and not the other way round."""
        return owned.staging is not None and absorb.rows_move(self.connection, self.task, owned.staging)

    def _obstacle(self, owned: OwnedJob, staging: TableName) -> str | None:
        """Why what is staged cannot take the table's place now, but for the sake of its views."""
        if not self.may_swap:
            return "a transaction began before the load ended and is still open"
        own = self.job.structure is not None
        return (
            obstacles.of(self.connection, self.table, self.task)
            or sequences.obstacle(self.connection, staging, self.table)
            # Before what others have made of the staging table: it is as the table was.
            or shape.changed_since(self.connection, owned.plan.get("shape"), staging, self.table, has_own_indexes=own)
            or estranged.of(self.connection, staging, self.table)
        )

    def _take_place(self, owned: OwnedJob, staging: TableName) -> str | None:
        """Swaps the staged table in; gives the reason where that cannot be."""
        # Whoever reads the table now finishes first; whoever comes later waits the moment that this takes.
        self.views.lock(self.connection, self.table)
        obstacle = self._obstacle(owned, staging) or self.views.obstacle(self.connection, self.table)
        if obstacle is None and self.task.mode != "replace" and not stage.is_empty(self.connection, self.table):
            obstacle = f"{self.table} got rows meanwhile"
        if obstacle is None:
            work = key_work.missing(self.connection, staging, self.table)
            if not work.is_done:
                raise Incomplete
            try:
                with self.connection.transaction():
                    self._swap(staging, exists=True, renames=work.renames)
                    self.views.restore(self.connection)
                return None
            except NotRestored as error:
                obstacle = f"a view of it cannot be made again ({error})"
            except psycopg.errors.LockNotAvailable:
                if not self.may_copy:
                    raise
                obstacle = "others draw numbers from a sequence of it all the time"
            except psycopg.Error as error:
                # A trigger that came meanwhile, or that is for this table only.
                refusal = estranged.refusal_to_drop(self.connection, error)
                if refusal is None:
                    raise
                obstacle = refusal.why
        self.views.restore(self.connection)
        return obstacle

    def _absorb(self, owned: OwnedJob, staging: TableName) -> str | None:
        """Copies the table's rows to the staged ones, and swaps these in; gives the reason where that cannot be.

        Writers wait from the beginning of it, readers when nothing is left to be copied.
        """
        may_move = self.views.may_move
        self.connection.execute(f"LOCK TABLE {self.table.sql} IN SHARE ROW EXCLUSIVE MODE")
        obstacle = self._obstacle(owned, staging)
        if obstacle is None and (self.is_patient or self.copies == absorb.MOST_COPIES):
            obstacle = f"others read {self.table}, or have transactions open that may"
        if obstacle is not None:
            return obstacle
        self.copies += 1
        try:
            with self.connection.transaction() as copying:
                work = key_work.missing(self.connection, staging, self.table)
                # Before anything is refused in their names.
                self.index_names.update(work.renames)
                absorb.take_over_rows(self.connection, self.task, staging, work)
                absorb.lock_out(self.connection, self.table, self.views, may_move=may_move)
                # Another load may have staged its rows meanwhile, as a reader.
                obstacle = sequences.obstacle(self.connection, staging, self.table) or self.views.obstacle(
                    self.connection, self.table
                )
                if obstacle is not None:
                    raise psycopg.Rollback(copying)
                stage.require_new_snapshots(self.connection)
                self._swap(staging, exists=True, renames=work.renames)
                self.views.restore(self.connection)
        except NotRestored as error:
            obstacle = f"a view of it cannot be made again ({error})"
        if obstacle is None:
            self.mixes = True
            self.notes.append(f"the rows that {self.table} had were copied to the new ones, which took its place")
        # Else what was copied, and set aside, is as it was.
        return obstacle

    def _swap(self, staging: TableName, *, exists: bool, renames: Sequence[tuple[str, str]] = ()) -> None:
        keeps = self.job.structure is None
        stage.swap(self.connection, staging, self.table, exists=exists, renames=renames, keeps_indexes=keeps)
        if self.job.structure is not None:
            structure.settle_names(self.connection, self.job.structure, staging, self.table)
