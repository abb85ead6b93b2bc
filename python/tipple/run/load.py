"""The verb `load`: files into a table, in parallel, exactly once."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import resource
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, cast

import msgspec

from tipple.engines import find_engine
from tipple.engines.base import (
    STDIN,
    Identity,
    LoadResult,
    LoadTask,
    Mode,
    OnConflict,
    Session,
    Table,
    TableColumn,
    Verify,
    for_batches,
)
from tipple.errors import BadRecord, TippleError, UsageError
from tipple.plan import tpch
from tipple.plan.columnar import new_table, pick_fields, plan_of, refuse_text_options
from tipple.plan.rejects import RejectPolicy, parse_limit
from tipple.plan.schema import TableDefinition, find_table, parse_schema
from tipple.plan.sniff import Given
from tipple.plan.sources import MINIMUM_SLICE_BYTES, plan_slices
from tipple.plan.url import TableName, Target, fold_identifier, parse_table_name, parse_target
from tipple.report.model import (
    LoadReport,
    PhaseTime,
    SniffReport,
    SourceReport,
    VerifyReport,
    mb_per_second,
    rows_per_second,
)
from tipple.report.progress import ProgressForm, open_progress
from tipple.run.columnar import Columnar, is_stream, open_stream, read_fields, recognise
from tipple.run.guess import AUTO, Guess
from tipple.run.rejects import check_writable, write_rejects
from tipple.run.runner import JobRunner
from tipple.run.sniff import Sniffer
from tipple.run.sources import find_sources, identify, read_header, with_encoding

DEFAULT_TARGET = "duckdb:///tipple.duckdb"
WINDOW_BYTES = 256 * 1024
"""What a stream parses at a time: text, field list and output together stay in a core's second-level cache."""
BLOCK_BYTES = 8 * 1024 * 1024
"""The least text of a slice that is cut while it is read: as small as slices of files get; two and a half of them per
stream are in memory."""
MAX_RECORD_BYTES = 16 * 1024 * 1024
MINIMUM_COLUMNAR_SLICE_BYTES = 1024 * 1024
"""Columnar files are compressed: this much is as many rows as several times as much text."""
RETRY_SECONDS = 60
STALL_SECONDS = 600


class ArrowStreamSource(Protocol):
    """An object with rows: a pyarrow table or record batch reader, a polars or pandas frame (PyCapsule interface)."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows as a capsule."""


class _Silent:
    """A progress display that shows nothing."""

    def update(self, snapshot: Mapping[str, Any]) -> None:
        return

    def close(self) -> None:
        return


def load(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | ArrowStreamSource,
    *,
    into: str | None = None,
    table: str,
    schema: str | os.PathLike[str] | None = None,
    format: str = "auto",
    delimiter: str | None = None,
    quote: str | None = None,
    escape: str | None = None,
    header: Literal["yes", "no", "match"] | None = None,
    null: str | None = None,
    encoding: str | None = None,
    trailing_delimiter: bool | None = None,
    skip_lines: int = 0,
    comment: str | None = None,
    force_null: Sequence[str] = (),
    force_not_null: Sequence[str] = (),
    field_widths: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    mode: Mode | None = None,
    key: Sequence[str] | None = None,
    on_conflict: OnConflict = "update",
    jobs: int | None = None,
    write_path: str = "auto",
    atomic: bool = True,
    ledger: bool = True,
    preserve_order: bool = False,
    verify: Verify = "count",
    on_error: Literal["stop", "skip"] = "stop",
    max_rejects: int | str = 0,
    rejects: str | os.PathLike[str] | None = None,
    replay: bool = False,
    resume: str | None = None,
    restart: bool = False,
    dry_run: bool = False,
    memory_limit: int | None = None,
    max_record_size: int = MAX_RECORD_BYTES,
    retry_seconds: int = RETRY_SECONDS,
    stall_timeout: int = STALL_SECONDS,
    progress: ProgressForm | Callable[[Mapping[str, Any]], None] = "none",
) -> LoadReport:
    """Loads files, or a table in memory, into a table, in parallel, exactly once.

    Args:
        sources: files, patterns or directories, one or several; `-` is standard input (file descriptor 0). Files
            compressed by gzip, zstd, bzip2 or xz are told by their content. Or an object with `__arrow_c_stream__`: a
            pyarrow table or record batch reader, a polars or pandas frame. Such a load cannot be resumed, and is never
            "already loaded".
        into: the target's URL, such as `postgresql://user@host/db` or `duckdb:///file.duckdb`. Default: the
            environment's `TIPPLE_TARGET`, else `duckdb:///tipple.duckdb`.
        table: `[SCHEMA.]NAME`, as SQL spells it.
        schema: a file with the CREATE TABLE statement, `tpch`, or `auto`: names and types from a sample of the files;
            used when the table is missing.
        format: `csv`, `tbl`, `text`, `fixed`, `parquet`, `arrow`, or `auto`: by the files' names and a sample of
            their content.
        delimiter, quote, escape, null, encoding: as COPY's options of these names. Default encoding: UTF-8, or what
            a byte order mark says.
        trailing_delimiter: whether a delimiter stands behind the last field too. Default: in `tbl` only.
        skip_lines: lines to leave out at the beginning of every file, before the header.
        comment: a character; lines that begin with it are left out.
        header: `yes`: skip each file's first record; `match`: it names the columns. Default: it is a header where
            it holds nothing but the names of columns.
        force_null, force_not_null: columns (or `*` for all) of `csv` where the NULL text means NULL in quotes too, or
            is a value without quotes; as COPY's options of these names.
        field_widths: the fields' widths in characters, for `fixed`.
        columns: the columns in the order of the files' fields. Default: all of the table's own. Of Parquet and Arrow,
            whose fields have names: the fields to load.
        mode: `append`, `replace`, `upsert` or `create`. Default: `append`, or `create` where the table is missing.
        key: the columns that tell rows apart, for `upsert`. Of several records with the same key the last one counts.
        on_conflict: what `upsert` does with a record whose key the table has: `update` the row, `ignore` the record,
            or end with an `error`.
        jobs: the number of streams. Default: the cores that this process may use.
        write_path: how rows enter the engine; `auto` takes the fastest that fits.
        atomic: whether all rows become visible in one commit.
        ledger: whether the job is kept in the target's ledger, which makes it exactly once.
        preserve_order: whether rows are stored in the order of the files, where the engine has an order.
        verify: `none`, `count` or `checksum`: what is compared before the rows are published.
        on_error: what a record that cannot be stored does: `stop` ends the load with nothing published, `skip`
            keeps it apart as a reject, as long as `max_rejects` allows.
        max_rejects: the most rejects, as a number, or as a share of all records such as `"0.5%"`.
        rejects: the file for the raw records of the rejects; their reasons go to this name with `.reasons.csv`
            behind it. Default: the table's name with `.rejects`.
        replay: load the records in the file of rejects, which were mended, instead of the sources; what is still
            wrong stays in the file.
        resume: the job that this call must go on with.
        restart: load again although this was loaded before, or was begun and left.
        dry_run: plan only.
        memory_limit: cap of the embedded engine's own memory, in bytes.
        max_record_size: the longest record, in bytes.
        retry_seconds: for how long a lost server is waited for.
        stall_timeout: seconds without an answer after which a server is given up.
        progress: a form of display on stderr, or a function that gets the snapshots.

    Returns:
        What was done.

    Raises:
        UsageError: wrong arguments; nothing was started.
        ConnectionFailed: no connection to the target; nothing was started.
        BadRecord: a record that the target cannot store; nothing was published.
        TooManyRejects: more of them than `max_rejects` allows; nothing was published.
        JobBusy: another job holds the table.
        SourceChanged: a file is not what it was when the job began.
        VerifyFailed: source and target disagree; nothing was published.
        Interrupted: Ctrl-C; can be resumed.
        TippleError: anything else; nothing was published.
    """
    started_at = _utc_now()
    target = parse_target(into or os.environ.get("TIPPLE_TARGET") or DEFAULT_TARGET)
    name = parse_table_name(table)
    names: list[Any] = []
    if isinstance(sources, (str, os.PathLike)):
        names = [sources]
    elif not is_stream(sources):
        names = list(cast("Sequence[str | os.PathLike[str]]", sources))
    if jobs is not None and jobs < 1:
        raise UsageError("the number of streams must be at least 1", hint="leave out -j for one per core")
    if resume is not None and restart:
        raise UsageError("--resume and --restart exclude each other", hint="leave one of them out")
    policy = _reject_policy(name, on_error, max_rejects, rejects, replay=replay)
    if (mode == "upsert") != bool(key):
        raise UsageError(
            "--mode upsert needs --key" if mode == "upsert" else "--key has no meaning without --mode upsert",
            hint="name the columns that tell rows apart: --mode upsert --key a,b",
        )
    stream_identity: Identity | None = None
    columnar: Columnar | None
    if is_stream(sources):
        columnar, stream_identity = open_stream(sources)
        paths = [stream_identity.path]
    else:
        paths = find_sources([os.fspath(source) for source in names])
        columnar = recognise(paths, format)
    options = Given(
        delimiter=delimiter,
        quote=quote,
        escape=escape,
        null_text=null,
        header=header,
        encoding=encoding,
        trailing_delimiter=trailing_delimiter,
        skip_lines=skip_lines,
        comment=comment,
        force_null=tuple(force_null),
        force_not_null=tuple(force_not_null),
        field_widths=None if field_widths is None else tuple(field_widths),
    )
    if columnar is not None:
        refuse_text_options(columnar.format, msgspec.structs.asdict(options))
        if policy is not None:
            raise UsageError(
                "--on-error skip is for delimited text: a record of a columnar source has no text to keep",
                hint="leave it out: the first record that cannot be stored is named, and nothing is published",
            )
        format = "text"
    sniffer = Sniffer(paths, format, options)
    if resume is not None and STDIN in paths:
        raise UsageError("standard input cannot be resumed: it can be read only once", hint="leave out --resume")
    display = open_progress(progress, _stderr()) if isinstance(progress, str) else _Called(progress)
    runner = JobRunner(display)
    spool = tempfile.TemporaryDirectory(prefix="tipple-rejects-") if policy is not None else None
    loaded = [policy.path] if replay and policy is not None else paths
    try:
        with runner.phase("prepare"):
            if policy is not None and not dry_run:
                check_writable(policy)
            # Where bad records may be skipped, their number decides whether this is text.
            if stream_identity is not None:
                identities = [stream_identity]
            else:
                known = sniffer.dialect if columnar is None else None
                identities = [identify(path, known, refuse=policy is None) for path in paths]
                if columnar is not None:
                    read_fields(columnar, identities, all_needed=columns is None)
            session = find_engine(target.engine).connect(target, read_only=dry_run)
        try:
            with runner.phase("prepare"):
                request = _Request(
                    session=session,
                    name=name,
                    schema=schema,
                    mode=mode,
                    sniffer=sniffer,
                    header_given=header is not None,
                    columns=columns,
                    sources=identities,
                    columnar=columnar,
                )
                request.resolve()
                identities = list(request.sources)
                if replay:
                    request.replay()
                    # Rejects are kept as text that was unpacked, decoded and cleared of comments.
                    kept = msgspec.structs.replace(request.dialect, encoding=None, skip_lines=0, comment=None)
                    identities = [identify(path, kept, refuse=False) for path in loaded]
                if key:
                    request.choose_key(key)
                streams = jobs or len(os.sched_getaffinity(0))
                facts = {
                    "target": request.table.sql,
                    # The mode as it was asked for: a table that the first run created is there in the second.
                    "mode": mode or "auto",
                    "columns": [[column.name, column.type_text] for column in request.columns],
                    "dialect": request.dialect_json if columnar is None else request.columnar_plan,
                    "header": request.header,
                    "sources": [msgspec.to_builtins(identity) for identity in identities],
                }
                if policy is not None:
                    # A load that skips must not be resumed as one that does not, or the other way round.
                    facts["on_error"] = "replay" if replay else "skip"
                if key:
                    facts["key"], facts["on_conflict"] = list(request.key), on_conflict
                if key and columnar is not None and columnar.stream is not None:
                    # Of two records with one key the later one counts: streams must not share the batches.
                    streams = 1
                slice_plan = plan_slices(
                    [(s.path, s.size) for s in identities],
                    streams,
                    minimum_slice_bytes=MINIMUM_SLICE_BYTES if columnar is None else MINIMUM_COLUMNAR_SLICE_BYTES,
                )
                task = LoadTask(
                    table=request.table,
                    definition=request.definition,
                    mode=request.mode,
                    atomic=atomic,
                    columns=request.columns,
                    sources=identities,
                    dialect=request.dialect_json,
                    header=request.header,
                    streams=streams,
                    slice_bytes=slice_plan.slice_bytes,
                    block_bytes=BLOCK_BYTES,
                    window_bytes=WINDOW_BYTES,
                    max_record_bytes=max_record_size,
                    write_path=write_path,
                    preserve_order=preserve_order,
                    verify=verify,
                    ledger=ledger,
                    request_key=hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).digest(),
                    request=facts,
                    resume=resume,
                    restart=restart,
                    retry_seconds=retry_seconds,
                    stall_seconds=stall_timeout,
                    memory_limit_bytes=memory_limit,
                    key=request.key,
                    on_conflict=on_conflict,
                    rejects=policy,
                    spool=spool.name if spool is not None else None,
                    columnar=request.columnar_plan,
                    stream=columnar.stream if columnar is not None else None,
                )
            result = session.plan(task) if dry_run else session.load(task, runner)
            if policy is not None and result.reject_rows is not None and (result.rejects or replay):
                write_rejects(policy, result.reject_rows(), [identity.path for identity in identities])
        finally:
            session.close()
    except BadRecord as error:
        remedy = request.guess.remedy(error) or error.remedy
        raise error.with_remedy(
            f"{remedy}; nothing was published"
            if atomic
            else f"{remedy}; slices that were done before are stored, and are not stored twice"
        ) from None
    finally:
        display.close()
        if spool is not None:
            spool.cleanup()
    if not ledger:
        request.notes.append("--no-ledger: this load cannot be resumed, and nothing keeps it from being loaded twice")
    result.notes[:0] = request.notes
    return _report(
        target,
        task,
        loaded,
        result,
        runner.elapsed_seconds,
        runner.phases,
        started_at,
        verify_seconds=_phase_seconds(runner, "verify"),
        sniff=request.guess.report(),
    )


def _reject_policy(
    table: TableName,
    on_error: str,
    max_rejects: int | str,
    path: str | os.PathLike[str] | None,
    *,
    replay: bool,
) -> RejectPolicy | None:
    count, percent = parse_limit(str(max_rejects))
    if on_error == "stop" and not replay:
        if path is not None or count != 0:
            raise UsageError(
                "--rejects and --max-rejects have no meaning without --on-error skip",
                hint="add --on-error skip, or leave them out",
            )
        return None
    chosen = os.fspath(path) if path is not None else f"{table.name}.rejects"
    if replay and not os.path.isfile(chosen):
        raise UsageError(
            f"there is no file of rejects {chosen}", hint="give the one of the earlier load: --rejects FILE"
        )
    return RejectPolicy(max_count=count, max_percent=percent, path=chosen)


class _Request:
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
    ) -> None:
        self.columnar = columnar
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
        self.header = sniffer.dialect.header != "no"
        self.key: tuple[str, ...] = ()
        self.null_rules: list[dict[str, bool]] = []

    def resolve(self) -> None:
        """Finds out all of it."""
        if self.wanted_mode is not None and self.wanted_mode not in self.session.capabilities.modes:
            raise UsageError(
                f"--mode {self.wanted_mode} is not available for {self.session.capabilities.engine}",
                hint=f"modes here: {', '.join(self.session.capabilities.modes)}",
            )
        found = self.session.describe(self.name)
        guesses_table = (
            found is None and self.schema is not None and os.fspath(self.schema) == AUTO and self.columnar is None
        )
        if found is not None:
            self.table = found.name
            self._check_existing()
        elif not guesses_table:
            found = self._new_table()
        if self.sniffer.auto or guesses_table:
            self._sniff(found)
        if found is None:
            found = self._new_table()
        self.columns = self._choose_columns(found)
        self.dialect = self.guess.settle(self.dialect, self.header, self.columns, self.notes)
        widths = self.dialect.widths
        if widths and len(widths) != len(self.columns):
            raise UsageError(
                f"--field-widths has {len(widths)} widths for {len(self.columns)} columns",
                hint=f"the columns are {', '.join(column.name for column in self.columns)}; choose others by --columns",
            )
        self.null_rules = self._null_rules()

    def _sniff(self, found: Table | None) -> None:
        """Looks at the sources; `found` is the table, where it is known."""
        expected = None
        if self.wanted_columns is not None:
            expected = len(self.wanted_columns)
        elif found is not None:
            expected = sum(not column.generated for column in found.columns)
        self.guess = Guess(self.sniffer, self.sniffer.look(expected, self.sources))
        self.dialect = self.guess.sniffed.dialect
        if self.sniffer.dialect.encoding is None:
            self.sources = [with_encoding(source, self.dialect.encoding) for source in self.sources]

    def _null_rules(self) -> list[dict[str, bool]]:
        """The codec's `NullRule` of every column, or none where no column has one."""
        if not self.dialect.force_null and not self.dialect.force_not_null:
            return []
        forced: list[set[str]] = []
        for option, names in (
            ("--force-null", self.dialect.force_null),
            ("--force-not-null", self.dialect.force_not_null),
        ):
            loaded = {column.name: column for column in self.columns}
            chosen = self.columns if "*" in names else self._named(names, loaded, set(), option) if names else []
            forced.append({column.name for column in chosen})
        return [
            {"quoted_is_null": column.name in forced[0], "unquoted_is_value": column.name in forced[1]}
            for column in self.columns
        ]

    def replay(self) -> None:
        """The file of rejects has neither a header nor the sources' encoding, and its rows come on top of others."""
        self.header = False
        if self.mode != "upsert":
            self.mode = "append"

    def choose_key(self, names: Sequence[str]) -> None:
        """The key of an upsert: columns that are loaded, and that refuse NULL, which no row could be told by."""
        by_name = {column.name: column for column in self.columns}
        chosen = self._named(names, by_name, set(by_name), "--key")
        self.key = tuple(column.name for column in chosen)
        self.columns = [
            msgspec.structs.replace(column, not_null=True) if column.name in self.key else column
            for column in self.columns
        ]

    def _check_existing(self) -> None:
        if self.wanted_mode == "create":
            # An earlier run of this same command may have made it: the ledger will know.
            self.mode = "create"

    def _new_table(self) -> Table:
        if self.schema is None:
            raise UsageError(
                f"there is no table {self.name} in the target",
                hint="create it, check its name (unquoted names are folded to lower case), or give --schema FILE.sql, "
                "or --schema auto, which guesses the columns from the files",
            )
        if self.wanted_mode in ("append", "replace", "upsert"):
            self.notes.append(f"the table {self.name} was missing and was created")
        self.mode = self.wanted_mode or "create"
        self.table = self.session.resolve_new(self.name)
        if self.columnar is not None and os.fspath(self.schema) == "auto":
            self.definition = new_table(self.name, self.columnar.fields)
        elif os.fspath(self.schema) == AUTO:
            self.header = self.guess.has_header
            self.definition = self.guess.table(
                self.name,
                head=self._common_header() if self.header else None,
                names=self.wanted_columns,
                unbounded_numeric=self.session.capabilities.unbounded_numeric,
            )
        else:
            self.definition = find_table(parse_schema(_schema_text(self.schema)), self.name)
        return self.session.columns_of(self.definition)

    def _choose_columns(self, table: Table) -> list[TableColumn]:
        loadable = {column.name: column for column in table.columns if not column.generated}
        all_names = {column.name for column in table.columns}
        if self.columnar is not None:
            return self._choose_columnar(self.columnar, loadable, all_names)
        if self.guess.columns:
            return list(loadable.values())
        if self.wanted_columns is not None:
            self._skip_sniffed_header(loadable)
            chosen = self._named(self.wanted_columns, loadable, all_names, "--columns")
            if self.dialect.header == "match":
                named = self._named(self._common_header(), loadable, all_names, self._header_place(), exact=True)
                if named != chosen:
                    raise UsageError(
                        f"{self._header_place()} names {', '.join(column.name for column in named)}, "
                        f"but --columns {', '.join(column.name for column in chosen)}",
                        hint="leave out --columns: the header names the columns already",
                    )
            return chosen
        if self.dialect.header == "match":
            names = self._common_header()
            if self.schema is not None and os.fspath(self.schema) == AUTO:
                names = self.guess.as_columns(names, loadable) or names
            return self._named(names, loadable, all_names, self._header_place(), exact=True)
        if not self.header_given and self.dialect.format == "csv":
            found = self._header_if_any(loadable)
            if found is not None:
                self.header = True
                self.notes.append("the first record of each file holds column names: taken as a header")
                columns = self._named(found, loadable, all_names, self._header_place())
                self.guess.named_columns = [column.name for column in columns]
                return columns
        self._skip_sniffed_header(loadable)
        return list(loadable.values())

    def _choose_columnar(
        self, columnar: Columnar, loadable: Mapping[str, TableColumn], all_names: set[str]
    ) -> list[TableColumn]:
        """The columns for the fields of columnar sources, which have names."""
        if self.wanted_columns is not None:
            chosen = self._named(self.wanted_columns, loadable, all_names, "--columns")
            names = pick_fields(
                columnar.names, self.wanted_columns, [column.name for column in chosen], self.sources[0].path
            )
        else:
            names = columnar.names
            try:
                chosen = self._named(names, loadable, all_names, self.sources[0].path)
            except UsageError as error:
                hint = f"{error.hint}; to load some of the source's columns, or in another order: --columns a,b"
                raise UsageError(str(error), hint=hint) from None
        self.columnar_plan = plan_of(columnar.format, names, [column.type_text for column in chosen])
        moments = {field.name for field in columnar.fields if field.is_moment}
        for name, column in zip(names, chosen, strict=True):
            if name in moments and isinstance(column.codec_type, dict) and "timestamp" in column.codec_type:
                self.notes.append(f"{name} holds moments: the column without time zone stores their UTC time")
        return [for_batches(column) for column in chosen]

    def _skip_sniffed_header(self, loadable: Mapping[str, TableColumn]) -> None:
        """Skips a header whose names are not those of the columns, where it is one beyond doubt."""
        if self.header_given or not self.guess.surely_has_header:
            return
        try:
            names = self._common_header()
        except TippleError:
            # A file that was not sampled begins with something else: so these are records.
            return
        known = [name for name in names if self.guess.as_columns([name], loadable)]
        if known and self.wanted_columns is None:
            unknown = next(name for name in names if name not in known)
            raise UsageError(
                f"{self._header_place()} names the column {known[0]!r}, but also {unknown!r}, "
                "which the table does not have",
                hint="--header yes skips it and takes the fields in the table's order, --columns says which they are; "
                "--header no if it is a record",
            )
        self.header = True
        self.notes.append(
            f"the first record of each file ({', '.join(names[:5])}{', …' if len(names) > 5 else ''}) is taken as a "
            "header: no field of it is a value, but those below are; --header no if it is a record"
        )

    def _header_place(self) -> str:
        return f"the header of {self.sources[0].path}"

    def _common_header(self) -> list[str]:
        first: list[str] | None = None
        for source in self.sources:
            names = read_header(source, self.dialect, self.dialect_json)
            if first is None:
                first = names
            elif names != first:
                raise TippleError(
                    f"{source.path} has another header than {self.sources[0].path}: {', '.join(names)}",
                    hint="load files with different headers by commands of their own",
                )
        return first or []

    def _header_if_any(self, loadable: Mapping[str, TableColumn]) -> list[str] | None:
        """The header, where every file's first record holds nothing but names of columns."""
        known = {name.lower() for name in loadable}
        first: list[str] | None = None
        for source in self.sources:
            if source.size == 0 and source.path != STDIN:
                continue
            try:
                names = read_header(source, self.dialect, self.dialect_json)
            except TippleError:
                return None
            if not names or any(name.strip().lower() not in known for name in names):
                names = self.guess.as_columns(names, loadable) or []
            if not names:
                return None
            if first is not None and names != first:
                return None
            first = names
        return first

    def _named(
        self,
        names: Sequence[str],
        loadable: Mapping[str, TableColumn],
        all_names: set[str],
        where: str,
        *,
        exact: bool = False,
    ) -> list[TableColumn]:
        """The columns with these names: as they are, else folded as SQL folds them."""
        chosen: list[TableColumn] = []
        folded = {name.lower(): name for name in loadable}
        for given in names:
            given = given.strip()
            name = given if given in loadable or exact else fold_identifier(given)
            if name not in loadable and not exact and not given.startswith('"'):
                name = folded.get(name.lower(), name)
            if name not in loadable:
                reason = "is a generated column" if name in all_names else "is not a column of the table"
                raise UsageError(
                    f"{where} names {given!r}, which {reason}", hint=f"columns to load: {', '.join(loadable)}"
                )
            if loadable[name] in chosen:
                raise UsageError(f"{where} names the column {name} twice", hint="name every column once")
            chosen.append(loadable[name])
        if not chosen:
            raise UsageError(f"{where} names no column", hint="name at least one")
        return chosen

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
        if dialect.widths:
            plan["widths"] = dialect.widths
        return plan


class _Called(_Silent):
    """Hands snapshots to a function."""

    def __init__(self, function: Callable[[Mapping[str, Any]], None]) -> None:
        self._function = function

    def update(self, snapshot: Mapping[str, Any]) -> None:
        self._function(snapshot)


def _schema_text(schema: str | os.PathLike[str]) -> str:
    if os.fspath(schema) == "tpch":
        return ";\n".join(tpch.CREATE_TABLE.values())
    try:
        with open(schema, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the schema file {os.fspath(schema)}: {error}", hint="check the path") from None


def _phase_seconds(runner: JobRunner, name: str) -> float:
    return next((phase.seconds for phase in runner.phases if phase.name == name), 0.0)


def _report(
    target: Target,
    task: LoadTask,
    paths: Sequence[str],
    result: LoadResult,
    seconds: float,
    phases: list[PhaseTime],
    started_at: str,
    *,
    verify_seconds: float,
    sniff: SniffReport | None,
) -> LoadReport:
    outcomes = result.source_outcomes or [{}] * len(paths)
    sizes = [
        outcome.get("file_bytes", 0) if source.path == STDIN else source.size
        for source, outcome in zip(task.sources, outcomes, strict=True)
    ]
    source_bytes = sum(sizes)
    rows_by_source: Sequence[int | None] = result.source_rows or [None] * len(paths)
    verified = result.verified
    verify = None
    if verified is not None:
        verify = VerifyReport(
            kind=verified.kind,
            ok=verified.ok,
            rows_source=verified.rows_source,
            rows_target=verified.rows_target,
            digest_source=verified.digest_source,
            digest_target=verified.digest_target,
            seconds=verify_seconds,
        )
    return LoadReport(
        job_id=result.job_id,
        status=result.status,
        target=target.display,
        table=str(task.table),
        mode=task.mode,
        write_path=result.write_path,
        write_path_reason=result.write_path_reason,
        strategy=result.strategy,
        strategy_reason=result.strategy_reason,
        streams=task.streams,
        slices=result.slices,
        slices_resumed=result.slices_resumed,
        retries=result.retries,
        fallback_windows=result.fallback_windows,
        rows=result.rows,
        bytes=source_bytes,
        rejects=result.rejects,
        rows_inserted=result.merged.inserted if result.merged else None,
        rows_updated=result.merged.updated if result.merged else None,
        rows_ignored=result.merged.ignored if result.merged else None,
        rows_superseded=result.merged.superseded if result.merged else None,
        rejects_file=task.rejects.path if task.rejects is not None and result.rejects else None,
        reasons_file=task.rejects.reasons_path if task.rejects is not None and result.rejects else None,
        seconds=round(seconds, 6),
        mb_per_second=round(mb_per_second(source_bytes, seconds), 3),
        rows_per_second=round(rows_per_second(result.rows, seconds), 3),
        peak_memory_bytes=_peak_memory_bytes(),
        phases=phases,
        sources=[
            SourceReport(
                path=path,
                bytes=size,
                text_bytes=outcome.get("bytes") if task.columnar is None else None,
                rows=rows,
            )
            for path, size, outcome, rows in zip(paths, sizes, outcomes, rows_by_source, strict=True)
        ],
        verify=verify,
        settings=result.settings,
        notes=result.notes,
        sniff=sniff,
        started_at=started_at,
        finished_at=_utc_now(),
    )


def _utc_now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _peak_memory_bytes() -> int:
    """Highest resident memory of this process (`getrusage` would also count what its parent had before `exec`)."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _stderr() -> Any:
    import sys

    return cast(Any, sys.stderr)
