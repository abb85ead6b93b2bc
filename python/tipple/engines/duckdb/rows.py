"""The rows of a load into DuckDB, as one statement stores them: without those that violate constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import duckdb

from tipple.engines import core, spool
from tipple.engines.base import CONVERT, Cut, LoadTask, Runner, TableColumn
from tipple.engines.duckdb import merge, row_groups, staged, unread, violations
from tipple.engines.duckdb.connection import qualified
from tipple.engines.duckdb.parquet import ParquetWork
from tipple.engines.duckdb.pull import STREAM, Both, Insert, Pulled, RecordRefused, duckdb_error
from tipple.engines.duckdb.structure import StructureWork
from tipple.errors import TippleError
from tipple.plan.url import quote_identifier


class Reading(NamedTuple):
    """What is read, once or again."""

    runner: Runner
    job_id: str
    cut: Cut
    rejects_before: int
    commit_records: int | None
    """The most records that are stored of a slice."""


class Rows:
    """Stores rows in the transaction that is open."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        task: LoadTask,
        structure: StructureWork,
        files: ParquetWork | None,
    ) -> None:
        """`files` are where the rows go, where that is not the table."""
        self.connection = connection
        self.task = task
        self.structure = structure
        self.files = files
        self.into = qualified(connection, task.table)
        self._stream_is_used = False

    @property
    def stored_in(self) -> str:
        """Where rows go: into the table, or beside it where they are merged into it."""
        return merge.staging(self.connection, self.task) if self.task.mode == "upsert" else self.into

    @property
    def keep_order(self) -> bool:
        """Whether rows must be stored in the order of the sources: an upsert's last record wins."""
        return self.task.preserve_order or self.task.mode == "upsert"

    @property
    def inserted_in_order(self) -> bool:
        """Whether DuckDB must store rows as its statement gives them: in the order of the sources, or sorted."""
        return self.keep_order or bool(self.structure.order_by)

    @property
    def readable_again(self) -> bool:
        """Whether the sources can be read more than once.

        A table in memory gives its stream anew to name a record. Where records are skipped it is read once all the
        same, for a stream may cost much.
        """
        task = self.task
        if task.stream is not None:
            return task.stream_again is not None and task.rejects is None and task.atomic
        return not task.reads_stdin

    def insert(self, reading: Reading, begin_anew: Callable[[], None]) -> dict[str, Any]:
        """Stores the slices' rows, or so many of each, without records that violate constraints or cannot be read.

        Where one transaction holds all rows of a table with constraints, it is looked for such records first, and the
        cost does not depend on whether there are any. Otherwise, and where the first one is to be named, that is done
        once DuckDB refuses; `begin_anew` then takes the transaction back and begins another one.
        """
        task = self.task
        # What can be read but once is stored, or not, as it comes.
        readable_again = self.readable_again
        if self.files is not None and (task.rejects is None or not readable_again):
            return self._store(reading, {})
        if readable_again and task.rejects is not None and self._looks_first():
            return self._store(reading, self.find_violations(reading))
        # An upsert's rows do not go into the table itself.
        if task.rejects is not None and task.mode != "upsert" and not readable_again:
            what = violations.examination(self.connection, task, whole=True)
            if what is not None:
                return self._store_staged(reading, what)
        try:
            return self._store(reading, {})
        except RecordRefused as error:
            if not readable_again or task.together is not None:
                if task.rejects is None and task.mode != "upsert" and not readable_again:
                    error.hint = f"--on-error skip names the record; {error.hint}"
                raise
            begin_anew()
            found = self.find_violations(reading)
            if not found:
                raise
            spool.discard(task)
            return self._store(reading, found)

    def _looks_first(self) -> bool:
        """Whether bad records are looked for before anything is stored."""
        if self.files is not None or not self.task.atomic:
            return self.files is not None
        # Values that cannot be read are rare: where nothing else is looked for, a second reading would be for nothing.
        what = violations.examination(self.connection, self.task)
        has_others = what is not None and any(constraint.kind != "value" for constraint in what.constraints)
        return has_others or self.task.together is not None

    def find_violations(self, reading: Reading) -> dict[str, Any]:
        """The records that violate constraints, as the core's plan of the load takes them; empty where there are none.

        Raises:
            BadRecord, TooManyRejects: there are more of them than may be rejected.
        """
        task = self.task
        of_files = self.files.constraints if self.files is not None else ()
        what = violations.examination(self.connection, task, of_files=of_files)
        if what is None:
            return {}

        def read(statement: str, columns: list[int]) -> None:
            target = {"kind": "arrow", "preserve_order": False, "examined": columns}
            self._pull(reading, f"{statement} FROM {STREAM}", target, phase="check")
            spool.discard(task)

        most = 0 if task.rejects is None else task.rejects.max_count
        try:
            found = violations.find(self.connection, task, what, read, None if most is None else most + 1)
        except duckdb.Error as error:
            raise duckdb_error(error, "checking constraints") from None
        count = sum(len(source["offsets"]) for source in found["sources"])
        if most is not None and count > most:
            # Whoever reads them knows what is to be said of the record that is one too many.
            target = {"kind": "arrow", "preserve_order": False}
            self._pull(reading, f"SELECT count(*) FROM {STREAM}", target, phase="check", violations=found)
        return found if count else {}

    def _store(self, reading: Reading, violating: dict[str, Any]) -> dict[str, Any]:
        """Stores the rows, but those of the records that are known to violate constraints."""
        target = {"kind": "arrow", "preserve_order": self.keep_order}
        # To sort rows, and to write them to files in any order, DuckDB takes them as they come.
        if self.keep_order or not (self.files is not None or self.structure.order_by):
            target["row_groups"] = row_groups.whole(self.connection, in_order=self.keep_order)
        # DuckDB 2.0 crashes or hangs for ever where a COPY into Parquet files ends by an error or an interrupt.
        target["ends_quietly"] = self.files is not None
        stored, outcome = self._pull(reading, self._insert_statement(), target, phase="load", violations=violating)
        if stored != outcome["rows"]:
            raise TippleError(
                f"internal error: {outcome['rows']} rows were read, but DuckDB stored {stored}",
                hint="nothing was published; please report this with the command",
            )
        return outcome

    def _store_staged(self, reading: Reading, what: violations.Examination) -> dict[str, Any]:
        """Stores what can be read but once, where constraints may refuse some of it."""

        def read(statement: str, columns: list[int]) -> dict[str, Any]:
            target = {"kind": "arrow", "preserve_order": False, "examined": columns, "with_records": True}
            return self._pull(reading, f"{statement} FROM {STREAM}", target, phase="load")[1]

        try:
            order = self.structure.order_by
            return staged.store(self.connection, self.task, what, read, self.into, reading.job_id, order)
        except duckdb.Error as error:
            raise duckdb_error(error, "storing rows") from None

    def _pull(
        self,
        reading: Reading,
        statement: str,
        target: dict[str, Any],
        *,
        phase: str,
        violations: Mapping[str, Any] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """Carries out a statement that takes what the core reads; the number that it gives, and the core's outcome."""
        if self._stream_is_used and self.task.stream_again is not None:
            self.task.stream = self.task.stream_again()
        self._stream_is_used = True
        plan = core.load_plan(
            self.task,
            reading.job_id,
            reading.cut,
            target,
            digest=phase == "load" and self.task.verify == "checksum" and self.task.atomic,
            rejects_before=reading.rejects_before,
            commit_records=reading.commit_records if phase == "load" else None,
            violations=violations,
            in_order=target["preserve_order"],
        )
        job = core.start_load(self.task, plan)
        insert = Insert(self.connection, statement, job, may_interrupt=not target.get("ends_quietly", False))
        # Once all rows are read, what is left is to sort and to write them.
        sorts = phase == "load" and bool(self.structure.order_by)
        try:
            with reading.runner.phase(phase):
                insert.start()
                outcome = reading.runner.run(Pulled(job, insert) if sorts else Both(job, insert))
            if sorts:
                with reading.runner.phase(CONVERT):
                    outcome = reading.runner.run(Both(job, insert))
        except BaseException:
            insert.interrupt()
            raise
        return insert.rows, outcome

    def _insert_statement(self) -> str:
        if self.files is not None:
            return self.files.copy_statement(STREAM, in_order=self.keep_order)
        names = ", ".join(quote_identifier(column.name) for column in self.task.columns)
        values = ", ".join(map(self._value, self.task.columns))
        return f"INSERT INTO {self.stored_in} ({names}) SELECT {values} FROM {STREAM}{self.structure.order_by}"

    def _value(self, column: TableColumn) -> str:
        value = unread.cast(column)
        key = self.structure.key
        if not self.structure.order_by or key is None or column.name not in key.columns:
            return value
        # Sorted is by what is stored, which takes the name of what is read: a HUGEINT comes as text.
        return f"CAST({value} AS {column.type_text}) AS {quote_identifier(column.name)}"
