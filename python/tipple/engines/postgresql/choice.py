"""Which way a load takes: how its rows become visible, and by which write path they enter the server.

`load.py` says what the strategies are; ARCHITECTURE.md has the figures behind the choice.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg

from tipple.engines import core
from tipple.engines.base import Cut, LoadTask
from tipple.engines.postgresql import (
    checks,
    columns,
    defaults,
    direct,
    ledger,
    privileges,
    stage,
    structure,
    tablespaces,
    unlogged,
)
from tipple.engines.postgresql.capabilities import CAPABILITIES
from tipple.engines.postgresql.job import JobOwner, OwnedJob, Strategy
from tipple.engines.postgresql.keys import late_keys
from tipple.engines.postgresql.partitioned import partition_replays, partition_steps, partition_ways, partitions
from tipple.engines.postgresql.place import absorb, emptying, obstacles, replica_identity, set_aside
from tipple.engines.postgresql.upsert import merge_checks
from tipple.errors import JobBusy, UsageError
from tipple.plan.partitioning import INSTEAD_OF_SCOPE
from tipple.plan.structure import AppliedStructure
from tipple.plan.url import TableName

if TYPE_CHECKING:
    from tipple.engines.postgresql.session import PostgresSession

ONE_TRANSACTION = "--commit-every: pages are appended in one transaction"
"""Why a load that is to commit now and then is not made of pages."""


class Choice(msgspec.Struct):
    """How rows become visible, and why."""

    strategy: Strategy
    reason: str
    exists: bool


class Chooser:
    """Chooses for one load."""

    def __init__(self, session: PostgresSession, task: LoadTask, notes: list[str], job: JobOwner) -> None:
        """`notes` gets remarks for the user."""
        self.session = session
        self.task = task
        self.notes = notes
        self.job = job
        self.exists = task.definition is None
        self.table = task.table
        self.write_path, self.write_path_reason = self._choose_write_path()
        self.structure: AppliedStructure | None = None
        """What the table is to be, as `choose` has found it."""
        self.goes_on = False
        """Whether the way was chosen before, by the run that began the job: what would keep rows from it now, publish
        finds a way around."""
        self.keys_judge_at_once = False
        """Whether it has turned out that keys cannot judge records when all are stored."""

        self.is_foreign = self.exists and columns.relation_kind(self.connection, self.table) == "f"

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The control connection; another one after the server was gone."""
        return self.session.connection

    def _choose_write_path(self) -> tuple[str, str]:
        if self.task.write_path not in ("auto", "direct", "binary", "text"):
            raise UsageError(
                f"--write-path {self.task.write_path} is not available for PostgreSQL",
                hint="write paths here: auto, direct, binary, text",
            )
        opaque = [column for column in self.task.columns if column.codec_type == "opaque"]
        if opaque:
            named = ", ".join(f"{column.name} {column.type_text}" for column in opaque[:3])
            named += " of a columnar source" if self.task.columnar is not None else ""
            if self.task.write_path in ("binary", "direct"):
                raise UsageError(
                    f"--write-path {self.task.write_path} is not possible: only the server can read {named}",
                    hint="leave it out",
                )
            return "text", f"only the server can read {named}"
        if self.task.write_path == "text":
            return "text", "as asked"
        counted = direct.counted_in_bytes(self.connection, self.task)
        if counted is not None and self.task.write_path != "direct" and self.task.columnar is None:
            if self.task.write_path == "binary":
                raise UsageError(f"--write-path binary is not possible: {counted}", hint="leave it out")
            return "text", counted
        return "binary", "every column's type can be encoded by Tipple"

    @property
    def told_path(self) -> tuple[str, str]:
        """The write path of the job's rows, and why, for the report."""
        if self.job.came_by_pages:
            return "direct", "the job's rows are pages that the server's extension tipple_direct appends"
        return self.write_path, self.write_path_reason

    def choose(self) -> Choice:
        """How rows become visible, and what the table is to be.

        Raises:
            UsageError: the options ask for what the table does not allow.
        """
        tablespaces.check(self.connection, self.task.tablespaces)
        self.structure = structure.resolve(self.connection, self.task)
        choice = self._choose()
        self._settle_structure(choice)
        self._require_place(choice)
        self.job.structure = self.structure
        self._tell(choice)
        if choice.strategy == "single" and choice.exists and self.task.mode == "replace":
            emptying.require(self.connection, self.table)
            self._tell_heirs()
        if choice.strategy == "single" and self.task.commit_every is not None and not self.goes_on:
            raise UsageError(
                f"--commit-every is not possible: all rows are one transaction, because {choice.reason}",
                hint="leave it out, or give up the one commit with --no-atomic",
            )
        return choice

    def _tell_heirs(self) -> None:
        """Notes whose rows are replaced too, as far as their own names were not asked for."""
        if found := emptying.heirs(self.connection, self.table):
            more = f" and {len(found) - 3:,} more" if len(found) > 3 else ""
            remark = (
                f"--mode replace deletes the rows of what inherits from {self.table} too: {', '.join(found[:3])}{more}"
            )
            self.notes += [remark] if remark not in self.notes else []

    def _tell(self, choice: Choice) -> None:
        """Notes what the table is going to be that was not asked for in so many words, and what cannot be promised."""
        remark = (
            f"{self.table} is a foreign table: another server commits its rows, a moment before this one notes it. "
            "After a crash between the two, look at the table before the command is run again"
        )
        if self.is_foreign and remark not in self.notes:
            self.notes.append(remark)
        if self.task.rejects is not None and choice.strategy == "single" and choice.exists:
            remarks = privileges.of_references(self.connection, self.table)
            self.notes.extend(remark for remark in remarks if remark not in self.notes)
        hidden = choice.strategy in ("swap", "partition")
        if self.task.preserve_order and hidden and self.task.streams > 1:
            self.notes.append(
                "--preserve-order: PostgreSQL has no order of rows, and several streams store them as they come; one "
                "stream (-j 1) stores them as the files have them"
            )
        if self.structure is None or self.structure.structure == "memory" or not hidden or not choice.exists:
            return
        if unlogged.is_unlogged(self.connection, self.table):
            self.notes.append(
                f"{self.table} is unlogged: as {self.structure.structure} it will be logged, and survive a crash "
                "(--structure memory keeps it as it is)"
            )

    def require_rights(self, choice: Choice) -> None:
        """Refuses what the server would refuse once the load has begun, and without saying what to grant.

        Raises:
            UsageError: a right is missing; says what to grant.
        """
        if self.task.ledger:
            ledger.foresee(self.connection)
        # Whoever has another table take its place owns it.
        if choice.exists and choice.strategy != "swap":
            more = {"replace": ["DELETE"] if choice.strategy == "single" else [], "upsert": ["SELECT"]}
            rights = ["INSERT", *more.get(self.task.mode, [])]
            if self.task.mode == "upsert" and self.task.on_conflict == "update":
                rights.append("UPDATE")
            if self.task.verify == "checksum" and choice.strategy == "single" and self.write_path != "text":
                rights.append("SELECT")
            privileges.require(self.connection, self.table, rights)
            loaded = [column.name for column in self.task.columns]
            privileges.require_sequences(self.connection, self.table, loaded)
        if choice.exists and choice.strategy != "merge":
            # Rows that are merged may all be there already.
            defaults.require(self.connection, self.task)
        if choice.exists and self.task.mode == "replace" and choice.strategy in ("single", "partition"):
            self._require_identity_to_delete()
        if choice.exists and choice.strategy == "merge" and self._updates:
            replica_identity.require(self.connection, self.table, "UPDATE")
        if choice.exists and choice.strategy in ("single", "incremental"):
            privileges.require_copy(self.connection, self.table)

    def _require_identity_to_delete(self) -> None:
        """Refuses to delete rows that a publication holds fast.

        Partitions that a publication sends are not swapped but emptied; which of them get rows is not known yet.
        """
        try:
            replica_identity.require(self.connection, self.table, "DELETE")
        except UsageError as error:
            if self.task.replace_scope == "table":
                raise
            remark = f"{error}: the load fails where rows come for that partition ({error.hint})"
            self.notes.extend([] if remark in self.notes else [remark])

    @property
    def _updates(self) -> bool:
        """Whether an upsert changes rows."""
        return self.task.on_conflict == "update" and any(one.name not in self.task.key for one in self.task.columns)

    def _settle_structure(self, choice: Choice) -> None:
        """Refuses a structure for a table that keeps what it is, unless it is so already."""
        wanted = self.structure
        if wanted is None:
            return
        appends = choice.exists and self.task.mode == "append" and not stage.is_empty(self.connection, self.table)
        if choice.strategy in ("swap", "partition") and not appends:
            # Where rows have to be copied after all, a table that is so already stays so.
            self.job.keeps_structure = choice.exists and structure.is_already(self.connection, self.task, wanted)
            if choice.strategy == "partition":
                structure.check_partitioned(self.connection, self.task, wanted)
                self._require_swappable_partitions(choice, wanted)
            return
        if not structure.is_already(self.connection, self.task, wanted):
            hint = "leave out --structure"
            if choice.exists and self.task.mode == "append" and self.task.atomic and not self._obstacles(choice):
                hint = f"--mode replace makes a table anew, in one commit and where nothing depends on it; or {hint}"
            # A partitioned table is loaded in the same way whether it has rows or not.
            why = "it already has rows" if appends and choice.strategy == "partition" else choice.reason
            raise UsageError(f"{self.table} cannot become {wanted.structure}: {why}", hint=hint)
        if choice.strategy == "partition":
            structure.check_partitioned(self.connection, self.task, wanted)
            form = "memory" if wanted.structure == "memory" else "heap"
            self.structure = msgspec.structs.replace(wanted, load_as=form, reason="the table is so already")
            self.job.keeps_structure = True
            return
        self.structure = msgspec.structs.replace(
            wanted, load_as=wanted.structure, reason="the table is so already, and rows go into it as it is"
        )

    def _obstacles(self, choice: Choice) -> dict[TableName, str]:
        """Why other tables cannot take the place of this one, or of its partitions; by table."""
        if choice.strategy != "partition":
            return obstacles.of_all(self.connection, [self.table], self.task)
        leaves = partitions.leaves(self.connection, self.table)
        found = partition_steps.of_another_order(self.connection, self.table, leaves)
        return found | obstacles.of_all(self.connection, leaves, self.task, partition=True)

    def _require_swappable_partitions(self, choice: Choice, wanted: AppliedStructure) -> None:
        """Refuses to fill partitions that others could not take the place of, when all is loaded."""
        if not choice.exists or self.job.keeps_structure or self.task.replace_scope == "partitions":
            return
        for leaf, obstacle in self._obstacles(choice).items():
            raise UsageError(
                f"{self.table} cannot become {wanted.structure}: no other table can take the place of {leaf}: "
                f"{obstacle}",
                hint="leave out --structure",
            )

    def _require_place(self, choice: Choice) -> None:
        if self.task.tablespaces and choice.strategy not in ("swap", "partition"):
            raise UsageError(
                f"--tablespace is for tables that are made: {choice.reason}",
                hint="--mode replace makes a table anew; or leave out --tablespace, or move it: ALTER TABLE … SET "
                "TABLESPACE",
            )

    def _choose(self) -> Choice:
        task, exists = self.task, self.exists
        if task.partition_by is not None:
            partitions.check_request(self.connection, task)
        if task.rejects is not None and task.mode != "upsert":
            self._require_no_reference_to_itself()
        if not task.atomic:
            if task.mode in ("replace", "upsert") or task.replace_scope == "partitions":
                raise UsageError(
                    f"--no-atomic cannot {'upsert' if task.mode == 'upsert' else 'replace'} rows",
                    hint="leave out --no-atomic, or empty the table and append",
                )
            return Choice("incremental", "asked for by --no-atomic: every slice is visible once it is done", exists)
        if task.mode == "upsert":
            merge_checks.check(self.connection, task)
            return Choice("merge", "rows are staged, and merged by key in one transaction", exists)
        if task.replace_scope == "partitions" and not partitions.is_partitioned(self.connection, self.table):
            raise UsageError(
                f"{self.table} has no partitions that --replace-scope partitions could replace",
                hint="leave it out: --mode replace then replaces all rows of the table",
            )
        partition_replays.require_known(self.connection, task)
        # What is filled unseen has another name, and mostly another schema: its rows are sent as those of a table that
        # no subscriber has, or not at all.
        published = None
        if not exists and not self.goes_on:
            published = obstacles.publication_of_new(self.connection, self.table.schema)
        if published is not None and task.partition_by is not None:
            raise UsageError(
                f"{self.table} cannot be made with partitions here: {published}, and would not send the rows of hidden "
                "partitions as its own",
                hint="make the partitioned table first, here and on the subscribers; rows then go through it",
            )
        if published is not None:
            return Choice("single", f"the table is new, and {published}: rows go into it under its name", exists)
        if not exists and task.partition_by is not None:
            task.keys_at_end = False
            judges = structure.judges_by_rows(task) and not self._judges_afterwards()
            if judges and task.together is not None and structure.has_foreign_key(task):
                raise UsageError(
                    f"{self.table}: its foreign keys say which records are rejects, and what they refer to is "
                    "published together with it",
                    hint='write publish = "each", or leave out on-error = "skip"',
                )
            if judges and structure.needs_order(task):
                self.notes.append("one stream stores the records in their order: keys say which of them are rejects")
            return Choice("partition", "the table is new and partitioned: its partitions appear together", exists)
        if not exists:
            judged = task.rejects is not None or self.keys_judge_at_once
            constrained = judged and task.definition is not None and task.definition.constraints
            if constrained and not self._judges_afterwards():
                return Choice("single", "the table is new, and its constraints say which records are rejects", exists)
            return Choice("swap", "the table is new: it is filled unseen, and appears whole", exists)
        if task.indexes == "keep":
            return Choice("single", "--indexes keep: rows go into the table with its indexes in place", exists)
        if partitions.is_partitioned(self.connection, self.table):
            return self._choose_partitioned()
        obstacle = obstacles.of(self.connection, self.table, task)
        obstacle = obstacle or obstacles.missing_right(self.connection, self.table) or self._of_indexes
        moves = False
        if task.mode == "append" and obstacle is None and not stage.is_empty(self.connection, self.table):
            obstacle = absorb.why_rows_stay(self.connection, task)
            if obstacle is None and self._keys_judge:
                stays = "it already has rows, and its keys say which records are rejects"
                obstacle = None if self._judges_afterwards() else stays
            moves = obstacle is None
        absorb.require(task, None if self.goes_on else obstacle)
        if moves:
            reason = "a copy is filled unseen, gets the rows that are there, and takes the table's place"
            return Choice("swap", reason, exists)
        if obstacle is None and self._keys_judge:
            obstacle = None if self._judges_afterwards() else "its keys say which records are rejects"
        if obstacle is None:
            reason = "the table is empty" if task.mode == "append" else "nothing depends on the table"
            return Choice("swap", f"{reason}: a copy is filled unseen, and takes its place", exists)
        return Choice("single", f"no other table can take the place of {self.table}: {obstacle}", exists)

    @property
    def _keys_judge(self) -> bool:
        """Whether keys of the table, or the one that it is to get, say which records are rejects."""
        if self.task.rejects is None:
            return False
        ask = (stage.has_keys, set_aside.refers_to_others)
        return self._missing_key is not None or any(has(self.connection, self.table) for has in ask)

    @property
    def _of_indexes(self) -> str | None:
        """Why rows are not staged where an index has refused one of them when it was built."""
        return "its indexes say which records they refuse" if self.keys_judge_at_once else None

    def _judges_afterwards(self, *, references: bool = True) -> bool:
        """Whether the keys, and foreign keys if these are to (`references`), can say which records are rejects when all
        are stored."""
        task = self.task
        self.job.late_keys, task.keys_at_end = late_keys.LateKeys(), False
        of_structure = self.structure is not None and self.structure.load_as != "heap"
        # Rows that are stored again come behind all others.
        if self.keys_judge_at_once or task.preserve_order or task.reads_once or of_structure:
            return False
        if self.write_path == "text":
            return False
        if self.exists:
            found = late_keys.of_table(self.connection, task, self._missing_key, references=references)
        else:
            found = late_keys.of_definition(self.connection, task)
        self.job.late_keys, task.keys_at_end = found or late_keys.LateKeys(), found is not None
        return task.keys_at_end

    @property
    def _missing_key(self) -> list[str] | None:
        """The key that the structure gives to a table that is there without it."""
        wanted = self.structure
        if not self.exists or wanted is None or wanted.structure != "btree" or wanted.load_as == "btree":
            return None
        return None if structure.has_key(self.connection, self.table, wanted.key) else wanted.key

    def _require_no_reference_to_itself(self) -> None:
        """Refuses to judge by batches what is right or wrong only when all records are in.

        Raises:
            UsageError: a foreign key of the table refers to the table itself.
        """
        if self.exists or self.task.definition is None:
            key = stage.reference_to_itself(self.connection, self.table)
        else:
            key = self.task.definition.reference_to_itself
        if key is not None:
            raise UsageError(
                f"--on-error skip cannot tell which records violate the foreign key {key}: it refers to "
                f"{self.table} itself, and a record may refer to one that comes later",
                hint="use --mode upsert with the key that it refers to, which judges all records together; or leave "
                "out --on-error skip; or add the foreign key after the load",
            )

    def _choose_partitioned(self) -> Choice:
        obstacle = partition_ways.obstacle(self.connection, self.task) or self._of_indexes
        by_partition = self.task.partition_by is not None or self.task.replace_scope == "partitions"
        if obstacle is None and not by_partition and self.task.structure is None:
            obstacle = partition_ways.preference(self.connection, self.task)
        # A replay's few records have their partitions, most likely, and may go through the table if they replace none.
        if self.task.request.get("on_error") == "replay" and self.task.replace_scope == "table":
            by_partition = False
        if obstacle is None and self.task.rejects is not None:
            obstacle = self._why_keys_judge_at_once(by_partition=by_partition)
        if obstacle is None:
            self.notes.extend(partitions.warnings(self.connection, self.task))
            return Choice("partition", "each partition is filled unseen, and takes its place", self.exists)
        if by_partition and not self.goes_on:
            replaces = self.task.replace_scope == "partitions"
            routed = "leave out --partition-by: the server then routes the rows, to partitions that were made before"
            raise UsageError(
                f"{self.table} cannot be loaded partition by partition: {obstacle}",
                hint=INSTEAD_OF_SCOPE if replaces else routed,
            )
        absorb.require(self.task, None if self.goes_on else obstacle)
        return Choice("single", f"its partitions cannot be loaded apart: {obstacle}", self.exists)

    def _why_keys_judge_at_once(self, *, by_partition: bool) -> str | None:
        """Why a key of a partitioned table must say while rows are stored which of them are rejects, or None.

        Where the rows have to come `by_partition`, a foreign key ends the load when it is added, if nothing else does.
        """
        tables = [self.table, *partitions.leaves(self.connection, self.table)]
        has_references = any(set_aside.refers_to_others(self.connection, table) for table in tables)
        has_keys = any(stage.has_keys(self.connection, table) for table in tables)
        if not (has_references or has_keys) or self._judges_afterwards():
            return None
        if has_references and not by_partition:
            return "its foreign keys say which records are rejects"
        if has_keys and not (has_references and self._judges_afterwards(references=False)):
            return "its keys say which records are rejects"
        return None

    def _why_not_direct(self, choice: Choice) -> str | None:
        """Why pages are not the way, as far as it is known before there is a staging table."""
        if self.write_path == "text":
            return self.write_path_reason
        if self.task.commit_every is not None:
            return ONE_TRANSACTION
        if self.structure is not None and self.structure.load_as in ("memory", "btree"):
            return f"pages are for bare tables that are logged, and not for --load-as {self.structure.load_as}"
        if choice.strategy not in ("swap", "partition"):
            return f"pages need a table of their own: {choice.reason}"
        if self.job.late_keys.unique and self.task.columnar is not None:
            return "keys of columnar sources are noted as COPY takes them"
        if choice.strategy == "partition" and self.task.columnar is not None:
            return "rows of columnar sources find their partitions by COPY"
        if structure.judges_records(self.task) and self.task.definition and self.task.definition.constraints:
            return "its constraints say which records are rejects"
        if self.task.rejects is not None and (checks.of_task(self.task) or self._has_checks()):
            return "its CHECK constraints say which records are rejects"
        if self.task.reads_once and (checks.of_task(self.task) or self._has_checks()):
            return "its CHECK constraints are to name their records, and the input can be read only once"
        return direct.unavailable(self.connection, self.task)

    def _has_checks(self) -> bool:
        """Whether a CHECK of the table that is there, or of one of its partitions, may refuse records."""
        if not self.exists:
            return False
        tables = [self.table, *partitions.leaves(self.connection, self.table)]
        return any(stage.has_checks(self.connection, table) for table in tables)

    def _misfit(self, choice: Choice, table: TableName) -> str | None:
        """Why `table`, or one like it, takes no pages."""
        of_what = direct.misfit_of_partitions if choice.strategy == "partition" else direct.misfit
        return of_what(self.connection, self.task, table)

    def _go_direct(self) -> None:
        self.write_path = "direct"
        self.write_path_reason = "pages are built here, and appended by the server's extension tipple_direct"

    def leave_direct(self, reason: str) -> None:
        """Goes on by the write path that was chosen at first, and says why."""
        if self.task.write_path == "direct":
            raise UsageError(f"--write-path direct is not possible: {reason}", hint="leave it out")
        if self.write_path == "direct":
            self.write_path, self.write_path_reason = self._choose_write_path()
        if self.task.write_path == "auto" and self.write_path != "text":
            self.write_path_reason += f"; not direct: {reason}"

    def begin(self, choice: Choice, cut: Cut) -> OwnedJob:
        """Begins the job, by pages where that is possible."""
        self.job.came_by_pages = False
        obstacle = self._why_not_direct(choice) if self.task.write_path in ("auto", "direct") else "not asked for"
        if obstacle is not None:
            self.leave_direct(obstacle)
            return self.job.begin(choice.strategy, cut)

        def takes_pages(staging: TableName) -> bool:
            misfit = self._misfit(choice, staging)
            if misfit is None:
                self._go_direct()
            else:
                self.leave_direct(misfit)
            return misfit is None

        return self.job.begin(choice.strategy, cut, takes_pages=takes_pages)

    def resume_direct(self, owned: OwnedJob) -> None:
        """Pages are appended to an empty table only; what has begun otherwise, or is asked for otherwise now, goes on
        otherwise."""
        task = self.task
        if not owned.direct:
            return
        if self.job.done_slices(owned):
            self.job.came_by_pages = direct.has_stored(owned.plan)
            return
        may_go = task.write_path in ("auto", "direct")
        obstacle = ONE_TRANSACTION if task.commit_every is not None else None
        if may_go and obstacle is None:
            obstacle = direct.unavailable(self.connection, task)
            if obstacle is None:
                self._note_copies(owned, copies=False)
                self._go_direct()
                return
        if owned.staging is not None:
            # Several sessions commit one after the other: some partitions may have rows that the ledger does not know.
            self.connection.execute(f"TRUNCATE {owned.staging.sql}".encode())
        if obstacle is not None and may_go:
            self.leave_direct(obstacle)
        self._note_copies(owned, copies=True)

    def _note_copies(self, owned: OwnedJob, *, copies: bool) -> None:
        """Says in the ledger whether a job that was begun with pages goes on by COPY, before it stores rows."""
        if bool(owned.plan.get("copies")) == copies:
            return
        owned.plan["copies"] = copies
        facts = (json.dumps({"copies": copies}), owned.job_id, owned.epoch)
        if self.connection.execute(ledger.ADD_TO_PLAN, facts).rowcount != 1:
            raise core.TakenOver

    def leave_to_server(self, reason: str) -> None:
        """Goes on as COPY text."""
        self.write_path, self.write_path_reason = "text", reason

    def cut(self, choice: Choice) -> Cut:
        """All that there is to load."""
        task = self.task
        return core.cut(
            partitions.with_larger_slices(self.connection, task) if choice.strategy == "partition" else task
        )

    def require_together(self, choice: Choice, strategy: str) -> None:
        """Refuses to publish alone what was to be published with others: the table has changed since.

        Raises:
            JobBusy: it has.
        """
        if self.task.together is not None and strategy not in CAPABILITIES.together:
            raise JobBusy(
                f"{self.table} cannot be published together with the other tables any more: {choice.reason}",
                hint="nothing was published; run the job again: it says then what stands against it",
            )

    def foresee_direct(self, choice: Choice) -> None:
        """Chooses the write path as `begin` would, without making anything."""
        obstacle = self._why_not_direct(choice)
        if obstacle is None and choice.exists:
            obstacle = self._misfit(choice, self.table)
        if obstacle is None:
            self._go_direct()
        else:
            self.leave_direct(obstacle)
