"""What a load asks for, settled: the table, its columns, the dialect and the header, as target and files have them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from tipple.engines.base import (
    STDIN,
    Identity,
    Session,
    Table,
    TableColumn,
)
from tipple.engines.capabilities import Mode
from tipple.errors import BadRecord, UsageError
from tipple.plan.columnar import new_table
from tipple.plan.path_columns import note_of_paths
from tipple.plan.schema import TableDefinition, find_table
from tipple.plan.sources import plan_dialect
from tipple.plan.url import TableName
from tipple.run.columnar import Columnar, take_from_paths
from tipple.run.columnar_fields import choose_columnar, remedy_for_twins, wanted_fields
from tipple.run.fields import (
    by_field,
    head_of_match,
    head_of_wanted,
    left_out_of,
    named_columns,
    names_of,
    option_for,
    places_in,
)
from tipple.run.guess import AUTO, Guess
from tipple.run.header import Heads, columns_by_name, may_hold
from tipple.run.missing_table import no_table, schema_tables
from tipple.run.notations import notations_of
from tipple.run.remedy import first_remedy, new_column
from tipple.run.replay import Reading, refuse_misread
from tipple.run.sniff import Sniffer
from tipple.run.sources import with_encoding

_IF_RECORDS = "; --header no if their first records are rows"

_NOT_LOADED = "is none of the columns to load"
NOT_NULL_VIOLATION = "23502"
"""SQLSTATE of a NULL that may not be."""


class Request:
    """The table, its columns and the header: what the target and the files say of each other."""

    def __init__(
        self,
        *,
        session: Session,
        name: TableName,
        schema: str | os.PathLike[str] | None,
        mode: Mode | None,
        sniffer: Sniffer,
        header_given: bool,
        columns: Sequence[str] | None,
        sources: Sequence[Identity],
        columnar: Columnar | None,
        reading: Reading | None = None,
    ) -> None:
        self.columnar = columnar
        self.reading = reading
        """How the first load has read its sources, where its rejects are replayed."""
        self.columnar_plan: dict[str, Any] | None = None
        self.session = session
        self.name = name
        self.schema = schema
        self.wanted_mode = mode
        self.dialect = sniffer.dialect
        self.sniffer = sniffer
        self.guess = Guess()
        self.header_given = header_given
        self.wanted_columns = columns
        self.sources = sources
        self.notes: list[str] = []
        self.mode: Mode = mode or "append"
        self.definition: TableDefinition | None = None
        self.table = name
        self.columns: list[TableColumn] = []
        self.left_out: tuple[int, ...] = ()
        """The fields of delimited text that no column takes, by index, in ascending order."""
        self.text_columns: list[TableColumn] = []
        """Those of a columnar source as text is loaded into them."""
        self.header = sniffer.dialect.header != "no"
        self.key: tuple[str, ...] = ()
        self.nullable_key: frozenset[str] = frozenset()
        """Columns of an upsert's key that no constraint keeps from being NULL."""
        self.null_rules: list[dict[str, bool]] = []
        self.notations: list[Any] = []

    def resolve(self) -> None:
        """Finds out all of it."""
        if self.wanted_mode is not None and self.wanted_mode not in self.session.capabilities.modes:
            raise UsageError(
                f"--mode {self.wanted_mode} is not available for {self.session.capabilities.engine}",
                hint=f"modes here: {', '.join(self.session.capabilities.modes)}",
            )
        found = self.session.describe(self.name)
        if found is None:
            self.reading = None
        elif self.reading is not None:
            self._require_own_rejects(self.reading, found)
            if self.columnar is None:
                self._read_as_before(found, self.reading)
                return
        guesses_table = found is None and self._schema_is_guessed
        if found is not None:
            self.table = found.name
            self._settle_mode()
        elif not guesses_table:
            found = self._new_table()
        if self.sniffer.auto or guesses_table:
            self._sniff(found)
        if found is None:
            found = self._new_table()
        self.columns = self._choose_columns(found)
        self.dialect = msgspec.structs.replace(self.dialect, left_out=self.left_out)
        self._tell_missing(found)
        self.dialect = self.guess.settle(self.dialect, self.header, self.columns, self.notes)
        widths = self.dialect.widths
        fields = len(self.columns) + len(self.left_out)
        if widths and len(widths) != fields:
            raise UsageError(
                f"--field-widths has {len(widths)} widths for {fields} {'fields' if self.left_out else 'columns'}",
                hint=f"the columns are {', '.join(column.name for column in self.columns)}; choose others by "
                "--columns, where - leaves a field out",
            )
        self._rule_columns()

    def _require_own_rejects(self, reading: Reading, found: Table) -> None:
        """Refuses to replay what another table has refused, and tells where another target has."""
        if found.name.sql != reading.table:
            raise UsageError(
                f"the rejects are those of {reading.table}, and not of {found.name.sql}",
                hint="a load that finds others in its way leaves them in FILE.before-1 or so: --rejects can name that; "
                "to load them into this table all the same, give them as the source, with their format",
            )
        if reading.job and all(job.job_id != reading.job for job in self.session.jobs()):
            self.notes.append(f"the rejects are those of job {reading.job}, which this target's ledger does not have")

    def _sniff(self, found: Table | None) -> None:
        """Looks at the sources; `found` is the table, where it is known."""
        expected = None
        if self.wanted_columns is not None:
            expected = len(self.wanted_columns)
        elif found is not None:
            expected = sum(not column.generated for column in found.columns)
        self.guess = self._guessed(expected)
        self.dialect = self.guess.sniffed.dialect
        if self.sniffer.dialect.encoding is None:
            self.sources = [with_encoding(source, self.dialect.encoding) for source in self.sources]

    def _read_as_before(self, found: Table, reading: Reading) -> None:
        """Takes over how the sources were read, but for what the user says now."""
        self.table = found.name
        if self.sniffer.auto:
            self.dialect = reading.dialect_with(self.sniffer.options)
        loadable = {column.name: column for column in found.columns if not column.generated}
        all_names = {column.name for column in found.columns}
        read = named_columns(reading.columns, loadable, all_names, "the load before", exact=True)
        self.columns, self.left_out = read, reading.dialect.left_out
        if self.wanted_columns is not None:
            chosen = named_columns(names_of(self.wanted_columns), loadable, all_names, "--columns")
            by_place = left_out_of(self.wanted_columns)
            # Of a header's names it said which ones are loaded, and not where they stand.
            if by_place or {column.name for column in chosen} != {column.name for column in read}:
                self.columns, self.left_out = chosen, by_place
        self.dialect = msgspec.structs.replace(self.dialect, left_out=self.left_out)
        self._rule_columns()

    @property
    def _schema_is_guessed(self) -> bool:
        return self.schema is not None and os.fspath(self.schema) == AUTO and self.columnar is None

    @cached_property
    def guessed(self) -> list[tuple[int, Any]]:
        """Which columns have guessed types, and the core's `Guessed` of each."""
        if self.reading is not None:
            return self.reading.kinds(self.columns)
        if self._schema_is_guessed and self.definition is None and self._was_begun():
            return self._guessed_before()
        return self.guess.kinds(self.columns)

    def _was_begun(self) -> bool:
        """Whether an unfinished job has made the table for these sources, and has judged some of the rows."""
        paths = {source.path for source in self.sources}
        return any(
            job.state == "loading"
            and job.mode == "create"
            and job.table == str(self.table)
            and paths == set(job.sources)
            for job in self.session.jobs()
        )

    def as_read(self, job: str, written_by: str, *, again: bool) -> Reading:
        """How the sources were read.

        Args:
            job: whose rejects are kept.
            written_by: the job that keeps them: a replay, if not that one.
            again: whether it was an earlier run of this command that has read them.
        """
        guessed = self.guessed
        if again and self._schema_is_guessed and all(source.path != STDIN for source in self.sources):
            guessed = self._guessed_before()
        return Reading(
            job=job,
            written_by=written_by,
            table=self.table.sql,
            # Rows of columnar sources are kept as CSV.
            dialect=self.dialect if self.columnar_plan is None else plan_dialect("csv"),
            columns=[column.name for column in self.columns],
            guessed={self.columns[index].name: kind for index, kind in guessed},
        )

    def _guessed(self, expected_fields: int | None) -> Guess:
        sniffed = self.sniffer.look(expected_fields, self.sources)
        return Guess(self.sniffer, sniffed, self.session.capabilities.system_columns)

    def _guessed_before(self) -> list[tuple[int, Any]]:
        """What an earlier run guessed of the same sources, where the table was missing."""
        guess = self._guessed(None)
        guess.table(
            self.name,
            head=self._common_header() if self.header else None,
            names=self.wanted_columns,
            unbounded_numeric=self.session.capabilities.unbounded_numeric,
        )
        return guess.kinds(self.columns)

    def _rule_columns(self) -> None:
        """What the dialect means for each of the columns, and for a session that reads values itself."""
        self.null_rules = self._null_rules()
        if self.columnar is None:
            self.notations = notations_of(self.columns, self.dialect)
        if self.dialect.date_style is not None:
            self.session.use_date_style(self.dialect.date_style)

    def _null_rules(self) -> list[dict[str, bool]]:
        """The codec's `NullRule` of every column, or none where no column has one."""
        if not self.dialect.force_null and not self.dialect.force_not_null:
            return []
        forced: list[set[str]] = []
        for option, names in (
            ("--force-null", self.dialect.force_null),
            ("--force-not-null", self.dialect.force_not_null),
        ):
            chosen = self.columns if "*" in names else self._loaded(names, option)
            forced.append({column.name for column in chosen})
        return [
            {"quoted_is_null": column.name in forced[0], "unquoted_is_value": column.name in forced[1]}
            for column in self.columns
        ]

    def _loaded(self, names: Sequence[str], option: str) -> list[TableColumn]:
        loaded = {column.name: column for column in self.columns}
        return named_columns(names, loaded, set(), option, missing=_NOT_LOADED) if names else []

    def replay(self, rejects: str) -> None:
        """The file of rejects has neither a header nor the sources' encoding, and its rows come on top of others.

        Raises:
            UsageError: what is read in it would not be its records.
        """
        self.header = False
        if self.columnar_plan is not None:
            # Rows of columnar sources are kept as CSV, in the order of the columns.
            self.columnar_plan = None
            self.dialect = plan_dialect("csv")
            self.columns = self.text_columns
        if self.mode != "upsert":
            self.mode = "append"
        refuse_misread(rejects, self.dialect, [] if self.reading is None else self.reading.open_ended)

    def read_every_value(self, *, judges: bool) -> None:
        """Has the core read what an engine would cast by itself: that would round numbers, and where records are judged
        (`judges`), it would name no value that it refuses.
        """
        if self.columnar_plan is None or self.session.capabilities.names_refused_records:
            return
        for field, column, as_text in zip(self.columnar_plan["fields"], self.columns, self.text_columns, strict=True):
            kind = as_text.codec_type
            rounds = isinstance(kind, dict) and "integer" in kind
            if column.codec_type == "opaque" and kind != "opaque" and (judges or rounds):
                field["read_as"] = as_text.codec_type

    def choose_key(self, names: Sequence[str]) -> None:
        """The key of an upsert: columns that are loaded, and that refuse NULL, which no row could be told by."""
        by_name = {column.name: column for column in self.columns}
        chosen = named_columns(names, by_name, set(by_name), "--key", missing=_NOT_LOADED)
        self.key = tuple(column.name for column in chosen)
        self.nullable_key = frozenset(column.name for column in chosen if not column.not_null)
        self.columns = [
            msgspec.structs.replace(column, not_null=True) if column.name in self.key else column
            for column in self.columns
        ]

    @property
    def null_reasons(self) -> dict[str, str]:
        """By column: what to say of a NULL in place of a refusal that blames a constraint which is not there."""
        return {
            column: f'null value in column "{column}": a key column of an upsert takes no NULL'
            for column in self.nullable_key
        }

    def null_in_key(self, column: str | None, sqlstate: str | None) -> str | None:
        """Such a reason for one record."""
        return self.null_reasons.get(column or "") if sqlstate == NOT_NULL_VIOLATION else None

    def structure_key(self, names: Sequence[str]) -> tuple[str, ...]:
        """The key of a structure: columns that are loaded."""
        by_name = {column.name: column for column in self.columns}
        return tuple(
            column.name for column in named_columns(names, by_name, set(by_name), "--key", missing=_NOT_LOADED)
        )

    def _settle_mode(self) -> None:
        if self.wanted_mode == "create":
            # An earlier run of this same command may have made it: the ledger will know.
            self.mode = "create"

    def _new_table(self) -> Table:
        if self.schema is None:
            raise no_table(self.session, self.name)
        if self.wanted_mode in ("append", "replace", "upsert"):
            self.notes.append(f"there was no table {self.name}: this load makes it")
        self.mode = self.wanted_mode or "create"
        self.table = self.session.resolve_new(self.name)
        if self.columnar is not None and os.fspath(self.schema) == AUTO:
            self.definition = new_table(
                self.name,
                wanted_fields([*self.columnar.fields, *self.columnar.in_paths], self.wanted_columns),
                unbounded_numeric=self.session.capabilities.unbounded_numeric,
                uneven_lists=self.session.capabilities.uneven_lists,
                reads_arrow=self.session.capabilities.in_process,
            )
        elif os.fspath(self.schema) == AUTO:
            self._refuse_different_headers()
            if not self.header_given:
                self.heads.columns(self.guess.header_of_some, _IF_RECORDS)
            self.header = self.guess.has_header
            self.definition = self.guess.table(
                self.name,
                head=self._common_header() if self.header else None,
                names=self.wanted_columns,
                unbounded_numeric=self.session.capabilities.unbounded_numeric,
            )
        else:
            self.definition = find_table(schema_tables(self.schema, self.name), self.name)
        try:
            return self.session.columns_of(self.definition)
        except UsageError as error:
            if self.columnar is not None and self.definition.is_guessed:
                error.hint = remedy_for_twins([column.name for column in self.definition.columns]) or error.hint
            raise

    def _choose_columns(self, table: Table) -> list[TableColumn]:
        loadable = {column.name: column for column in table.columns if not column.generated}
        if not loadable:
            raise UsageError(
                f"{table.name} has no column that values could be loaded into",
                hint="ALTER TABLE … ADD COLUMN makes one",
            )
        all_names = {column.name for column in table.columns}
        if self.columnar is not None:
            return self._choose_columnar(self.columnar, loadable, all_names)
        if self.guess.columns:
            self.left_out = self.guess.left_out
            return list(loadable.values())
        if self.wanted_columns is not None:
            return self._choose_wanted(self.wanted_columns, table, loadable)
        if self.dialect.header == "match":
            names = self._common_header()
            if self.schema is not None and os.fspath(self.schema) == AUTO:
                names = self.guess.as_columns(names, loadable) or names
            return self._named_by_header(names, loadable, all_names)
        found = self._found_header(table, self._columns_of_head)
        if found is not None:
            self.guess.named_columns = found
            return self._named_by_header(found, loadable, all_names)
        self._skip_sniffed_header(loadable, list(loadable.values()))
        return list(loadable.values())

    def _choose_wanted(
        self, wanted: Sequence[str], table: Table, loadable: Mapping[str, TableColumn]
    ) -> list[TableColumn]:
        """The columns that `--columns` names: those of a header's fields, else of the fields in their order."""
        all_names = {column.name for column in table.columns}
        chosen = named_columns(names_of(wanted), loadable, all_names, "--columns")
        names = [column.name for column in chosen]
        self.left_out = left_out_of(wanted)

        def columns_of_head(fields: Sequence[str], known: Mapping[str, TableColumn]) -> list[str] | None:
            return head_of_wanted(fields, known, wanted, names) or self._columns_of_head(fields, known)

        if self.dialect.header != "match":
            head = self._found_header(table, columns_of_head)
            if head is None:
                self._skip_sniffed_header(loadable, chosen)
                return chosen
            if "" not in head and head != names:
                raise UsageError(
                    f"{self._header_place()} names {', '.join(head)}, but --columns {', '.join(wanted)}",
                    hint="leave out --columns: the header names the columns already; --header match loads those that "
                    "--columns names; or say --header yes, which skips it whatever it names, or --header no, which "
                    "loads it",
                )
        else:
            head = head_of_match(self._common_header(), loadable, wanted, names, self._header_place())
        left_out = places_in(head)
        if left_out:
            self.left_out = left_out
            self.guess.named_columns = head
        return [loadable[name] for name in head if name]

    def _named_by_header(
        self, names: Sequence[str], loadable: Mapping[str, TableColumn], all_names: set[str]
    ) -> list[TableColumn]:
        def remedy(name: str) -> str:
            return new_column(self.table, name, names, loadable, csv=self.dialect.format == "csv")

        return named_columns(names, loadable, all_names, self._header_place(), exact=True, remedy=remedy)

    def _found_header(
        self, table: Table, columns_of_head: Callable[[Sequence[str], Mapping[str, TableColumn]], list[str] | None]
    ) -> list[str] | None:
        """The names in the first record of every file, if nobody said whether it is a header, and it holds no more."""
        if self.header_given or not (self.dialect.format == "csv" or self.sniffer.auto):
            return None
        # Generated ones too: a header with one is a header, and refused as such.
        known = {column.name: column for column in table.columns}
        found = self.heads.columns(lambda fields: columns_of_head(fields, known), _IF_RECORDS)
        if found is None:
            self.guess.names_no_columns = True
            return None
        self.header = True
        self.notes.append("the first record of each file holds column names: taken as a header")
        return found

    def _tell_missing(self, table: Table) -> None:
        """Notes columns that names in the sources leave out, and fields that --columns does, unless by their places."""
        if self.wanted_columns is not None:
            if self.left_out and not left_out_of(self.wanted_columns):
                fields = len(self.columns) + len(self.left_out)
                self.notes.append(f"the header has {fields} fields: those that --columns does not name are left out")
            return
        chosen = {column.name for column in self.columns}
        missing = [column.name for column in table.columns if not column.generated and column.name not in chosen]
        if missing:
            more = f", and {len(missing) - 8} more" if len(missing) > 8 else ""
            get = "which keep their values in rows that are updated, and get" if self.mode == "upsert" else "which get"
            self.notes.append(
                f"the sources do not have these columns, {get} their defaults: {', '.join(missing[:8])}{more}"
            )
        left_out = note_of_paths([source.path for source in self.sources], chosen, columnar=self.columnar is not None)
        if left_out is not None:
            self.notes.append(left_out)

    def _choose_columnar(
        self, columnar: Columnar, loadable: Mapping[str, TableColumn], all_names: set[str]
    ) -> list[TableColumn]:
        """The columns for the fields of columnar sources, which have names."""
        chosen = choose_columnar(
            columnar,
            loadable,
            all_names,
            self.wanted_columns,
            self.sources[0].path,
            takes_arrow=self.session.capabilities.in_process,
        )
        self.sources = [take_from_paths(source, chosen.in_paths) for source in self.sources]
        self.columnar_plan = chosen.plan
        self.notes += chosen.notes
        self.text_columns = chosen.text_columns
        return chosen.columns

    def _skip_sniffed_header(self, loadable: Mapping[str, TableColumn], chosen: Sequence[TableColumn]) -> None:
        """Skips a header whose names are not those of the columns, where it is one beyond doubt.

        Args:
            loadable: the table's columns.
            chosen: those of the fields that are not left out.

        Raises:
            TippleError: files begin with different records, of which some or all are headers beyond doubt.
            UsageError: it names some of the columns.
        """
        if self.header_given:
            return
        self._refuse_different_headers()
        if not self.guess.surely_has_header:
            return
        names = self._common_header()
        known = [name for name in names if self.guess.as_columns([name], loadable)]
        if known and self.wanted_columns is None:
            unknown = [name for name in names if name not in known]
            found = f"but also {unknown[0]!r}, which the table does not have" if unknown else "and another name of it"
            raise UsageError(
                f"{self._header_place()} names the column {known[0]!r}, {found}",
                hint="--header yes skips it and takes the fields in the table's order, --columns says which they are, "
                f"with - for one to leave out; {option_for(known)} loads these and leaves "
                "out the others; --header no if it is a record",
            )
        if all(
            column is None or may_hold(column, name)
            for column, name in zip(by_field(chosen, self.left_out), names, strict=False)
        ):
            raise UsageError(
                f"the first record of {self.sources[0].path} ({', '.join(names[:5])}) may be a header or a record: "
                f"it is unlike those below, but the columns of {self.name} can hold it",
                hint="--header yes skips it, --header no stores it",
            )
        self.header = True
        self.notes.append(
            f"the first record of each file ({', '.join(names[:5])}{', …' if len(names) > 5 else ''}) is taken as a "
            "header: no field of it is a value, but those below are; --header no if it is a record"
        )

    def _refuse_different_headers(self) -> None:
        """Refuses files with headers that differ, each of which would be loaded as a row.

        Raises:
            TippleError: there are such files.
        """
        if not self.header_given and self.guess.has_different_headers:
            self._common_header()

    def _header_place(self) -> str:
        return f"the header of {self.sources[0].path}"

    @property
    def heads(self) -> Heads:
        """The first records of the sources."""
        return Heads(self.sources, self.dialect, self.dialect_json)

    def _common_header(self) -> list[str]:
        return self.heads.common(exact=self.dialect.header == "match", hint="" if self.header_given else _IF_RECORDS)

    def _columns_of_head(self, fields: Sequence[str], loadable: Mapping[str, TableColumn]) -> list[str] | None:
        """The columns that the fields of a first record name, where all of them name one."""
        found = [name for name in columns_by_name(fields, loadable) if name is not None]
        if len(found) == len(fields) == len(set(found)):
            return found
        # A name that is there twice is one that `--schema auto` made two of, or an error.
        return self.guess.as_columns(fields, loadable) or (found if len(found) == len(fields) else None)

    def first_remedy(self, error: BadRecord, *, replay: bool) -> str:
        """What to try before anything else about a bad record, or about one of rejects that are read by a `replay`."""
        if self.columnar_plan is not None:
            return ""
        return first_remedy(
            error,
            self.dialect,
            [column.name for column in self.columns],
            self.heads.of,
            header=self.header,
            replay=replay,
            is_new=bool(self.guess.columns),
            lines_below_header=self.guess.lines_below_header,
        )

    @property
    def dialect_json(self) -> dict[str, Any]:
        """The codec's `Dialect`."""
        dialect = self.dialect
        family = {"csv": "csv", "text": "text", "tbl": "plain", "fixed": "fixed"}[dialect.format]
        plan: dict[str, Any] = {
            "family": family,
            "delimiter": ord(dialect.delimiter),
            "quote": ord(dialect.quote or '"'),
            "escape": ord(dialect.escape or '"'),
            "null_text": dialect.null_text,
            "trailing_delimiter": dialect.trailing_delimiter,
            "line_end": "lf",
        }
        # What is not used is not named, so that a job keeps its key.
        if self.null_rules:
            plan["null_rules"] = self.null_rules
        if self.notations:
            plan["notations"] = self.notations
        if dialect.widths:
            plan["widths"] = dialect.widths
        if dialect.left_out:
            plan["left_out"] = dialect.left_out
        return plan
