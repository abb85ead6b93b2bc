"""What every engine offers to the verbs: one set of names, so that a second engine is a second folder.

An engine is a folder with the same files: `capabilities.py` (what it can do, as data), `connection.py`, `columns.py`
(its types in the codec's terms), `ledger.py`, `session.py`, `load.py`. Nothing here imports a driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import msgspec

from tipple._core import FIRST_PART_N, RejectFiles
from tipple.engines.capabilities import Capabilities, Mode
from tipple.engines.findings import Finding
from tipple.engines.merge import MergeCounts
from tipple.errors import UsageError, VerifyFailed
from tipple.plan.partitioning import PartitionBy
from tipple.plan.rejects import RejectPolicy
from tipple.plan.schema import TableDefinition
from tipple.plan.storage import StorageSize
from tipple.plan.structure import AppliedStructure, StructureRequest
from tipple.plan.url import TableName, Target, quote_identifier

STDIN = "-"
"""The path that means standard input."""
OPTIONS = "options"
"""Where a job's request has the options of its load, for whoever goes on with it."""
CHOSEN = "chosen"
"""Where a job's request has the columns as the user named them; None where that was left to table and sources."""
BESIDE_KEY = frozenset({OPTIONS, CHOSEN})
"""What of a job's request is no part of its key."""

NOTHING_TO_DO = "-"
"""The strategy of a load that an earlier job has done already."""
LOAD_OR_DEFAULT = "a column that is not loaded needs a value: load it too, or give it a DEFAULT"
"""What to do where such a column takes no NULL."""

OnConflict = Literal["update", "ignore", "error"]
Verify = Literal["none", "count", "checksum"]
ReplaceScope = Literal["table", "partitions"]
"""What `replace` replaces: all rows, or those of the partitions that the sources have rows for."""
IndexPlan = Literal["auto", "keep", "rebuild"]

PUBLISH_TOGETHER = "publish together"
CONVERT = "convert"
"""The phase in which what was loaded is turned into the structure that was asked for."""
ANALYZE = "analyze"
"""The phase in which the planner's statistics are gathered."""
PROCESSING_PHASES = frozenset({CONVERT, "index", ANALYZE, "publish"})
"""The work after the load, until the table is ready for queries; publishing together is waiting, and none."""

UTC_NAMES = frozenset(
    prefix + name for prefix in ("", "Etc/") for name in ("UTC", "UCT", "GMT", "Zulu", "Universal", "Greenwich")
)
"""Time zones in which a time without a zone means the same everywhere."""


class TableColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of an existing table."""

    name: str
    type_text: str
    """As the engine spells it."""
    codec_type: Any
    """The codec's `ColumnType` in its JSON form: `"int8"`, `{"varchar": {"limit": 44}}`, or `"opaque"`."""
    not_null: bool
    generated: bool
    """Computed by the engine: no value can be loaded."""
    nanoseconds: bool = False
    """Whether values keep nanoseconds where the engine itself converts them."""
    parts: Any = None
    """What the engine stores of values that it casts itself, where that is not all: the codec's `Part`."""
    doubles: bool = False
    """Whether the engine itself makes floats of 64 bits of smaller ones."""
    without_zone: bool = False
    """Whether the engine itself would store moments by the clock of the machine's own zone."""
    refuses_floats: bool = False
    """Whether the engine has no cast from floats: of their text it makes what other digits would mean."""
    is_money: bool = False
    """Whether it is PostgreSQL's `money`, or a domain of it."""
    misreading: tuple[str, str] | None = None
    """Why the engine makes another number of the text of one with a fraction, and what to do; None: it does not."""

    @property
    def casting(self) -> dict[str, Any]:
        """What the engine makes of the values of a columnar source, as the codec's `Casting` has it."""
        element = self.codec_type["array"]["element"] if _is_array(self.codec_type) else self.codec_type
        kind = element if isinstance(element, str) else next(iter(element))
        part = {"date": "day", "time": "time", "timetz": "time"}.get(kind, self.parts)
        found = {"part": part, "doubles": self.doubles or None, "without_zone": self.without_zone or None}
        return {name: what for name, what in found.items() if what is not None}

    @property
    def digested(self) -> bool:
        """Whether the engine hands values back as it got them, so that a checksum can cover them.

        The core says the same of its `ColumnType` (`is_digestible`).
        """
        element = self.codec_type["array"]["element"] if _is_array(self.codec_type) else self.codec_type
        wide = isinstance(element, dict) and element.get("integer", {}).get("bits") == 128
        return element not in ("opaque", "jsonb") and not wide


BATCH_TYPES = frozenset(
    {
        "bool", "int2", "int4", "int8", "float4", "float8", "numeric", "decimal", "text", "varchar", "char", "date",
        "timestamp",
    }
)  # fmt: skip
"""Codec types whose values the core takes from Arrow batches without their text."""


def for_batches(column: TableColumn) -> TableColumn:
    """The column as columnar sources are loaded into it: the target itself converts what is not in BATCH_TYPES."""
    kind = column.codec_type if isinstance(column.codec_type, str) else next(iter(column.codec_type))
    return column if kind in BATCH_TYPES else msgspec.structs.replace(column, codec_type="opaque")


def _is_array(codec_type: Any) -> bool:
    return isinstance(codec_type, dict) and "array" in codec_type


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """An existing table."""

    name: TableName
    """With its schema, as the engine found it."""
    columns: tuple[TableColumn, ...]


class StreamForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the bytes of a source that is read from beginning to end become text: the core's struct of this name."""

    compression: Literal["gzip", "zstd", "bzip2", "xz"] | None = None
    encoding: str | None = None
    """None: UTF-8, or what a byte order mark says."""
    skip_lines: int = 0
    comment: int | None = None


class Cut(msgspec.Struct, kw_only=True):
    """What there is to load, as the core takes it."""

    slices: list[dict[str, Any]]
    """What is known beforehand."""
    feeds: list[list[int]]
    """Indexes of sources that are cut into slices while they are read."""
    line_end: str
    done: list[tuple[int, int]] = []
    """What an earlier run has stored of the feeds: first source and offset of each slice."""
    first_n: int = 0
    """The number of the first slice that is cut."""
    block_bytes: int
    """The least text of a slice that is cut while it is read."""
    block_records: int = 0
    """The most records of such a slice; 0: no limit."""
    resyncs: bool = False
    """Whether the quotes behind a cut count too, and a slice that holds a part of a source holds nothing else: records
    are numbered by slice then. Jobs of earlier versions were cut in the other way."""
    first_part_n: int = FIRST_PART_N
    """The number of the first slice that is the rest of another one."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left."""
        return not self.slices and not self.feeds

    def feeding(self) -> dict[str, Any]:
        """What the plan of a job keeps of the way in which feeds are cut, so that the same slices are found again."""
        if not self.feeds:
            return {}
        kept = {"feeds": self.feeds, "first_n": self.first_n, "block_bytes": self.block_bytes}
        limited = {"block_records": self.block_records} if self.block_records else {}
        return kept | limited | ({"resyncs": True} if self.resyncs else {})


class Identity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A source file as it was when the job was planned."""

    path: str
    size: int
    mtime_ns: int
    content: str
    """A digest of its head and tail."""
    form: StreamForm | None = None
    """How its bytes become text; None where they are the text, and can be read from any place."""
    path_columns: tuple[tuple[str, str | None], ...] = ()
    """Of a columnar file: names and values of the columns that are loaded from the names of its directories."""

    @property
    def is_packed(self) -> bool:
        """Whether it is compressed text."""
        return self.form is not None and self.form.compression is not None


class NotPublished(Exception):
    """One of the loads that are published together cannot be."""

    def __init__(self, load: Any, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.load = load
        self.cause = cause


class Together(Protocol):
    """Loads that become visible in one transaction. Each calls `meet` from a thread of its own when it has staged."""

    def meet(self, load: Any, publish: Callable[[Sequence[Any]], Sequence[Any]]) -> bool:
        """Waits for all loads, and has one of them publish all.

        Args:
            load: the engine's own, ready to be published.
            publish: publishes the loads of this engine in one transaction, or gives those that have to load something
                again before that can be done; it is called once, on the thread of any of them. NotPublished says which
                of them has failed, and why.

        Returns:
            Whether the load is published; if not, it has to load something again.

        Raises:
            Interrupted: another load has failed, so nothing will be published.
        """


class LoadTask(msgspec.Struct, kw_only=True):
    """A load that is ready to be carried out: everything is known but the slices."""

    table: TableName
    definition: TableDefinition | None
    """From which the table is created; None where it exists."""
    mode: Mode
    atomic: bool
    columns: Sequence[TableColumn]
    """The columns to load, in the order of the sources' fields."""
    guessed: Sequence[tuple[int, Any]]
    """Those of them, by index, whose types were guessed from a sample, and the core's `Guessed` of each."""
    sources: Sequence[Identity]
    dialect: dict[str, Any]
    """The codec's `Dialect` in its JSON form; the record end is filled in by cutting."""
    header: bool
    streams: int
    slice_bytes: int
    block_bytes: int
    """The least text of a slice that is cut while its source is read."""
    window_bytes: int
    max_record_bytes: int
    write_path: str
    """`auto`, or one of the engine's write paths."""
    preserve_order: bool
    verify: Verify
    ledger: bool
    request_key: bytes
    request: dict[str, Any]
    """What the key digests, in a form for people; goes into the ledger."""
    resume: str | None
    restart: bool
    retry_seconds: int
    stall_seconds: int
    memory_limit_bytes: int | None
    routing_bytes: int
    """What a stream keeps back of records for other partitions than the one whose COPY is open."""
    run_bytes: int
    """Ready-made pages that are handed over at a time."""
    cpus: tuple[int, ...] = ()
    """The processors that the streams' threads are pinned to, in turn; none: the kernel places them."""
    commit_every: int | None = None
    """The most records that a transaction stores; None: a slice each, or all, as the strategy has it."""
    key: tuple[str, ...] = ()
    """The columns that tell rows apart, for `upsert`."""
    on_conflict: OnConflict = "update"
    partition_by: PartitionBy | None = None
    """How the table is to be divided where it lacks partitions."""
    structure: StructureRequest | None = None
    """What the table is to be; None: as its schema says, or as it is."""
    tablespaces: tuple[str, ...] = ()
    """Where a table that is made goes: its partitions in turn, or the whole table into the first."""
    analyze: bool = True
    """Whether a table that is made gets the planner's statistics, where the engine does not keep them by itself."""
    replace_scope: ReplaceScope = "table"
    indexes: IndexPlan = "auto"
    """What becomes of the indexes of a table with rows while others are appended."""
    rejects: RejectPolicy | None = None
    """What to do with records that cannot be stored; without it the first one ends the job."""
    spool: str | None = None
    """A directory of this run alone, where the core keeps rejects until they are in the ledger."""
    columnar: dict[str, Any] | None = None
    """The core's `ColumnarPlan`, where the sources are columnar."""
    stream: Any = None
    """The core's `ArrowStream`, where the source is one in memory: it can be read once."""
    stream_again: Callable[[], Any] | None = None
    """Another `ArrowStream` of the same rows, where there is one: some things have to be known before the first row,
    and of an engine's refusal which row it was."""
    together: Together | None = None
    """The loads that this one publishes with, in one transaction; None: it publishes alone."""
    counts_slices: bool = True
    """Whether a plan cuts the sources, to say how many slices they make."""
    keys_at_end: bool = False
    """Whether keys judge records when all are stored; what is staged has none until then."""
    followers: Sequence[bytes] = ()
    """Keys of loads that come after this one in the same job, into the same table: none of them undoes it."""
    beside: frozenset[str] = frozenset()
    """Tables that the same job loads, without their schemas: what a new table refers to may be made meanwhile."""

    @property
    def publish_phase(self) -> str:
        """The name of the phase in which rows become visible; together with others it is mostly waiting for them."""
        return "publish" if self.together is None else PUBLISH_TOGETHER

    @property
    def source_bytes(self) -> int:
        """Size of the sources, as far as it is known."""
        return sum(source.size for source in self.sources)

    @property
    def column_list(self) -> str:
        """The columns to load, quoted, with commas between them."""
        return ", ".join(quote_identifier(column.name) for column in self.columns)

    @property
    def reads_stdin(self) -> bool:
        """Whether a source is standard input, which can be read only once."""
        return any(source.path == STDIN for source in self.sources)

    @property
    def reads_once(self) -> bool:
        """Whether a source is standard input, or a stream in memory: nothing of it can be read again."""
        return self.reads_stdin or self.stream is not None


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was compared."""

    kind: Literal["count", "checksum"]
    rows_source: int
    rows_target: int
    digest_source: str | None = None
    digest_target: str | None = None

    @property
    def ok(self) -> bool:
        """Whether both sides agree."""
        return self.rows_source == self.rows_target and self.digest_source == self.digest_target

    def require(self) -> None:
        """Refuses to go on where they do not.

        Raises:
            VerifyFailed: nothing is published.
        """
        if not self.ok:
            target, source = (
                "" if digest is None else f" (digest {digest})" for digest in (self.digest_target, self.digest_source)
            )
            raise VerifyFailed(
                f"the target holds {self.rows_target:,} rows{target}, but {self.rows_source:,} were read{source}",
                hint="nothing was published; begin anew with --restart; if nobody has changed the table or what is "
                "staged meanwhile, please report this with the command",
            )


class LoadResult(msgspec.Struct, kw_only=True):
    """What an engine's load did."""

    job_id: str
    status: Literal["loaded", "already loaded", "planned"]
    write_path: str
    write_path_reason: str
    strategy: str
    strategy_reason: str
    slices: int = 0
    slices_resumed: int = 0
    retries: int = 0
    fallback_windows: int = 0
    rows: int = 0
    rejects: int = 0
    tell_rejects: Callable[[RejectFiles], None] | None = None
    """Adds the rejects to files in the order of the sources, while the session is open."""
    merged: MergeCounts | None = None
    """What became of the records of an upsert."""
    structure: AppliedStructure | None = None
    """What the table has become, where that was asked for."""
    source_rows: list[int] | None = None
    source_outcomes: list[dict[str, int]] = []
    """Rows, bytes of text and bytes of the file, by source, as far as this run has read them."""
    verified: Verified | None = None
    settings: dict[str, str] = {}
    notes: list[str] = []

    def add_sources(self, outcomes: Sequence[Mapping[str, int]]) -> None:
        """Adds what one transaction of several has read of each source."""
        before = self.source_outcomes or [{}] * len(outcomes)
        self.source_outcomes = [
            {name: known.get(name, 0) + count for name, count in more.items()}
            for known, more in zip(before, outcomes, strict=True)
        ]
        self.source_rows = [source["rows"] for source in self.source_outcomes]


class CoreJob(Protocol):
    """A job of the core that runs on threads of its own."""

    def wait(self, timeout_seconds: float) -> bool:
        """Waits for the end, at most so long; says whether it has come."""

    def cancel(self) -> None:
        """Asks the job to stop."""

    def result(self) -> str | None:
        """The outcome as JSON, None while the job runs; raises `CoreError`."""


class Runner(Protocol):
    """What the verb lends to an engine while it works: phases, progress, interruption."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Times a phase and shows it."""

    def run(self, job: CoreJob, *, publishes: bool = False) -> dict[str, Any]:
        """Shows a job's progress until it ends; on Ctrl-C cancels it and raises `Interrupted`.

        One that `publishes` may have done so all the same: then it was not interrupted.
        """

    def warn(self, text: str) -> None:
        """Says something to the user at once; may be called from any thread."""

    def settle(self) -> None:
        """Says that rows are being published: Ctrl-C comes too late from here on."""

    def unsettle(self) -> None:
        """Says that they were not, or that nobody knows: Ctrl-C ends what comes now, as before."""


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose rows are in its table."""

    job_id: str
    request_key: bytes
    request: dict[str, Any]
    """As in `LoadTask.request`."""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the ledger knows it."""

    job_id: str
    state: str
    """loading, published, failed, cancelled, superseded, or lost: published into a table that is not logged, which a
    crash of the server has emptied since."""
    table: str
    mode: str
    slices: int
    slices_done: int
    rows: int
    """Of an unfinished job those of the slices that are done; of one that was given up those that are in the table."""
    started_at: str
    """When the job began: ISO 8601, UTC."""
    finished_at: str | None
    """When it was published or given up: ISO 8601, UTC."""
    running: bool
    """Whether somebody holds it right now."""
    staging: str | None
    """Its staging table, where it still exists."""
    sources: tuple[str, ...]
    rejects: int = 0
    """Records that its slices which are done have rejected."""
    replays: str | None = None
    """The job whose rejects it loads, of a load with `--replay`."""
    visible_rows: int = 0
    """Of a job that was not published as a whole: rows that are in the table already (`--no-atomic`)."""
    options: dict[str, Any] | None = None
    """The options of its load, as `tipple.load` has them; None of one that only its own command can go on with."""


class Session(Protocol):
    """A connection to a target for control; rows go by other ways."""

    capabilities: Capabilities

    def tell_waits(self, warn: Callable[[str], None]) -> None:
        """From now on, until a load begins, `warn` is told whom the session waits for, from any thread."""

    def describe(self, table: TableName) -> Table | None:
        """The table as it is, or None where there is none."""

    def columns_of(self, definition: TableDefinition) -> Table:
        """The columns that a definition would make."""

    def resolve_new(self, table: TableName) -> TableName:
        """The name as the database would keep it, with the schema in which an unqualified table would be created."""

    def in_other_case(self, table: TableName) -> TableName | None:
        """A table whose name is this one but for upper and lower case, where the target tells them apart."""

    def use_date_style(self, order: str) -> None:
        """Dates that only the target reads have day, month and year in this order: `DMY`, `MDY` or `YMD`."""

    def plan(self, task: LoadTask) -> LoadResult:
        """What `load` would do."""

    def load(self, task: LoadTask, runner: Runner) -> LoadResult:
        """Loads, verifies and publishes."""

    def examine(self, table: TableName | None, source_bytes: int = 0) -> list[Finding]:
        """What would slow a load down or break it, the table's part too where one is named.

        Args:
            table: the table that is to be loaded.
            source_bytes: size of what is to be loaded; 0 where that is not known.
        """

    def published_with(self, table: TableName, content: str) -> Sequence[Published]:
        """A few jobs that have loaded, into this table, sources of which the first has this content, the newest first.

        None where the table is empty or gone, so that nothing of theirs can be there. Never fails.

        Args:
            content: a digest, as in `Identity.content`.
        """

    def examine_for(self, task: LoadTask) -> list[Finding]:
        """What this load should know before it begins: the slow and the broken only, found quickly.

        Nothing where a look at the target fails.

        Raises:
            UsageError: the load would be refused.
            ConnectionFailed: the server is gone, and did not come back in time.
        """

    def sizes(self, table: TableName | None) -> list[StorageSize]:
        """The room that tables, partitions and indexes take; only those of `table` where one is named."""

    def sizes_after(self, table: TableName) -> list[StorageSize]:
        """The same of a table that was just loaded; nothing where it cannot be told. Never fails."""

    def interrupt(self) -> None:
        """Cancels the statement that another thread is waiting for, if there is one."""

    def jobs(self) -> list[JobRecord]:
        """All jobs of the ledger, newest first."""

    def cancel_job(self, job_id: str) -> None:
        """Stops a job that runs elsewhere, or gives up one that was left unfinished."""

    def drop_leftovers(self) -> list[str]:
        """Drops what belongs to no job any more; says what."""

    def close(self) -> None:
        """Ends the session."""


class Engine(Protocol):
    """An engine's entry."""

    capabilities: Capabilities

    def files(self, target: Target) -> Sequence[str]:
        """The files of this machine that a target is made of, whether they are there or not."""

    def connect(self, target: Target, *, read_only: bool = False, must_exist: bool = False) -> Session:
        """Connects for control; with `read_only` nothing will be written, with `must_exist` nothing is created.

        Raises:
            ConnectionFailed: no connection comes about.
        """


def table_exists(table: TableName) -> UsageError:
    """The refusal of `--mode create` where the table is there, and not by an earlier run of the same command."""
    return UsageError(
        f"the table {table} exists already",
        hint="use --mode append or --mode replace, or drop the table first",
    )
