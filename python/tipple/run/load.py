"""The verb `load`: files into a table, in parallel, exactly once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal, Protocol, cast

import msgspec

from tipple.engines import find_engine, loaded_before, moments, spool
from tipple.engines.base import (
    CHOSEN,
    NOTHING_TO_DO,
    OPTIONS,
    PUBLISH_TOGETHER,
    STDIN,
    Identity,
    IndexPlan,
    LoadTask,
    OnConflict,
    ReplaceScope,
    Verify,
)
from tipple.engines.capabilities import Mode
from tipple.engines.findings import short
from tipple.errors import BadRecord, SourceChanged, TippleError, TooManyRejects, UsageError
from tipple.plan import memory
from tipple.plan.columnar import refuse_text_options
from tipple.plan.cpus import parse_cpus
from tipple.plan.sniff_profile import Given
from tipple.plan.sources import least_slice_bytes, plan_slices, useful_streams
from tipple.plan.structure import KEYED, LoadAs, Structure, parse_structure
from tipple.plan.url import Target, note_of_cut, parse_table_name
from tipple.report.causes import cause_lines
from tipple.report.model import LoadReport, RejectCause
from tipple.report.progress import ProgressForm, open_progress
from tipple.run.arguments import checked, size_of
from tipple.run.columnar import Columnar, is_stream, open_stream, paths_of, read_fields, recognise
from tipple.run.destination import refuse_schema, require_index_plan, require_partitions, require_structures
from tipple.run.guess import AUTO
from tipple.run.interrupt import interruptible
from tipple.run.memory_watch import MemoryWatch
from tipple.run.missing_table import TPCH
from tipple.run.outputs import Files, NamedFile
from tipple.run.part import ALONE, Part
from tipple.run.rejects import (
    Telling,
    causes_so_far,
    check_writable,
    earlier_rejects,
    of_replay,
    of_updates,
    outputs_of,
    reject_policy,
    removed_rejects,
    replayed_by,
    unwritten_replay,
    where_kept,
    write_rejects,
)
from tipple.run.remedy import core_remedy, seen_remedy
from tipple.run.replay import read_reading
from tipple.run.request import Request
from tipple.run.resume import options_to_keep
from tipple.run.sniff import Sniffer
from tipple.run.sources import find_sources, identify
from tipple.run.summary import make_report, phase_seconds, utc_now
from tipple.run.target import choose_target

MAX_RECORD_BYTES = memory.DEFAULTS.max_record_bytes
PUBLISHING_PHASES = ("publish", PUBLISH_TOGETHER)
"""The phases in which a load needs no streams any more."""
NOTHING_PUBLISHED = "nothing was published"
"""What hints say of a load that has one transaction."""
RETRY_SECONDS = 60
STALL_SECONDS = 600


class ArrowStreamSource(Protocol):
    """An object with rows: a pyarrow table or record batch reader, a polars or pandas frame (PyCapsule interface)."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows as a capsule."""


@checked
@interruptible
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
    date_style: str | None = None,
    decimal_separator: str | None = None,
    thousands: str | None = None,
    columns: Sequence[str] | None = None,
    mode: Mode | None = None,
    key: Sequence[str] | None = None,
    on_conflict: OnConflict = "update",
    partition_by: str | None = None,
    replace_scope: ReplaceScope = "table",
    structure: Structure | None = None,
    load_as: LoadAs = "auto",
    access_method: str | None = None,
    tablespace: str | Sequence[str] = (),
    jobs: int | None = None,
    write_path: str = "auto",
    indexes: IndexPlan = "auto",
    atomic: bool = True,
    ledger: bool = True,
    preserve_order: bool = False,
    analyze: bool = True,
    verify: Verify = "count",
    on_error: Literal["stop", "skip"] = "stop",
    max_rejects: int | str = 0,
    rejects: str | os.PathLike[str] | None = None,
    replay: bool = False,
    resume: str | None = None,
    restart: bool = False,
    dry_run: bool = False,
    memory_limit: int | str | None = None,
    pin_cpus: str | None = None,
    commit_every: int | None = None,
    max_record_size: int | str = MAX_RECORD_BYTES,
    retry_for: int = RETRY_SECONDS,
    stall_timeout: int = STALL_SECONDS,
    progress: ProgressForm | Callable[[Mapping[str, Any]], None] = "none",
    _part: Part = ALONE,
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
        force_null, force_not_null: columns (`["*"]`: all) of `csv` where the NULL text means NULL in quotes too, or is
            a value without quotes; as COPY's options of these names.
        field_widths: the fields' widths in characters, for `fixed`.
        date_style: the order of day, month and year in dates such as `31/12/2024`: `DMY`, `MDY` or `YMD`. Default: as
            the sample shows it with `auto`; else PostgreSQL has the order of its `DateStyle`, and DuckDB none.
        decimal_separator: what stands before the fraction of a number: `.` or `,`. Default: `.`, or with `auto` as the
            sample shows it.
        thousands: a character that stands between a number's groups of three digits, and is left out.
        columns: the columns in the order of the files' fields, `-` for a field to leave out. Default: all of the
            table's own. Of Parquet and Arrow, and with `header="match"`: the fields to load, by their names.
        mode: `append`, `replace`, `upsert` or `create`. Default: `append`, or `create` where the table is missing.
        key: the columns that tell rows apart, for `upsert`. Of several records with the same key the last one counts.
            Also the key of the structures `btree` and `sorted`; default there: the primary key.
        on_conflict: what `upsert` does with a record whose key the table has: `update` the row, `ignore` the record,
            or end with an `error`.
        partition_by: how a table is divided into partitions that it lacks: `range(column, every=1000000)` (or `day`,
            `week`, `month`, `quarter`, `year`), `range(column, bounds=[…])`, `list(column, values=[a, [b, c]])`,
            `hash(column, 8)`.
        replace_scope: what `replace` replaces: the whole `table`, or only the `partitions` that the sources have rows
            for.
        structure: what the table is to be: `heap`, `btree`, `sorted`, `columnstore`, `memory`, `parquet`, as far as
            the engine knows them. Default: as the schema says, or as the table is.
        load_as: what it is while rows come in, and until it is turned into `structure`: `heap`, `btree`, `memory`, or
            `auto`, which chooses.
        access_method: the table access method of a `columnstore` on PostgreSQL. Default: the columnar one that is
            installed.
        tablespace: where a table that is made goes: its partitions in turn into several of them, or the whole table
            into the first; indexes with it.
        jobs: the number of streams. Default: the cores that this process may use.
        write_path: how rows enter the engine; `auto` takes the fastest that fits.
        indexes: what becomes of the indexes of a table with rows while others are appended: `keep`: rows go into them
            as they come. `rebuild`: all are built when all rows are in. `auto`: as is faster, by the sizes of both.
        atomic: whether all rows become visible in one commit.
        ledger: whether the job is kept in the target's ledger, which makes it exactly once.
        analyze: whether the planner's statistics are gathered before rows appear, where the engine does not keep them
            by itself (PostgreSQL: ANALYZE of what is staged).
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
        memory_limit: the most memory of this process, in bytes, or as a text such as `"4GB"`; a load that does not fit
            ends with nothing published. An embedded engine's own buffers come on top, and get the same limit.
        pin_cpus: the CPUs that the streams' threads are pinned to, in turn, such as `"0-3,8"`.
        commit_every: the most rows that a transaction stores, where a load is more than one. With `atomic` that is
            about staging, and readers see no difference.
        max_record_size: the longest record, likewise.
        retry_for: seconds that a lost server is waited for.
        stall_timeout: seconds without an answer after which a server is given up.
        progress: a form of display on stderr, or a function that gets the snapshots.

    Returns:
        What was done.

    Raises:
        UsageError: wrong arguments; nothing was started.
        ConnectionFailed: no connection to the target; nothing was started.
        BadRecord: a record that the target cannot store; nothing was published.
        TooManyRejects: more of them than `max_rejects` allows, if any; with `atomic` nothing was published.
        JobBusy: another job holds the table.
        SourceChanged: a file is not what it was when the job began.
        VerifyFailed: source and target disagree; nothing was published.
        Interrupted: Ctrl-C; can be resumed.
        TippleError: anything else; nothing was published.
    """
    given = dict(locals())
    started_at = utc_now()
    target = choose_target(into)
    name = parse_table_name(table)
    refuse_schema(name, target.engine)
    names = [] if is_stream(sources) else paths_of(sources)
    if resume is not None and not resume.strip():
        raise UsageError("--resume names no job", hint="tipple jobs URL lists them; or leave it out")
    if resume is not None and restart:
        raise UsageError("--resume and --restart exclude each other", hint="leave one of them out")
    memory_limit_bytes = None if memory_limit is None else size_of("--memory-limit", memory_limit)
    max_record_bytes = size_of("--max-record-size", max_record_size)
    cores = os.sched_getaffinity(0)
    streams = jobs or len(cores)
    sizes = memory.plan_memory(memory_limit_bytes, streams, max_record_bytes)
    cpus = parse_cpus(pin_cpus, cores) if pin_cpus is not None else ()
    policy = reject_policy(name, on_error, max_rejects, rejects, replay=replay)
    asked_structure = parse_structure(structure, load_as, key=tuple(key or ()), access_method=access_method, mode=mode)
    if replay and structure != "parquet":
        # What is for tables that are new or empty: these rows come on top of others.
        asked_structure, commit_every, indexes = None, None, "auto"
        write_path = "auto" if write_path == "direct" else write_path
    tablespaces = (tablespace,) if isinstance(tablespace, str) else tuple(tablespace)
    require_structures(target.engine, asked_structure, tablespaces)
    if (mode == "upsert") != bool(key) and structure not in KEYED:
        raise UsageError(
            "--mode upsert needs --key"
            if mode == "upsert"
            else f"--key has no meaning without --mode upsert or --structure {'|'.join(sorted(KEYED))}",
            hint="name the columns that tell rows apart: --mode upsert --key a,b",
        )
    if commit_every is not None and not ledger:
        raise UsageError(
            "--commit-every needs the ledger, which knows how far a slice has come", hint="leave out --no-ledger"
        )
    upserts = mode == "upsert"
    if on_conflict != "update" and not upserts:
        raise UsageError("--on-conflict has no meaning without --mode upsert", hint="leave it out")
    require_index_plan(indexes, mode, asked_structure, partition_by, atomic=atomic)
    divided = require_partitions(target.engine, partition_by, replace_scope, mode=mode, files=structure == "parquet")
    if replay:
        tablespaces = ()
    stream_identity: Identity | None = None
    columnar: Columnar | None
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
        date_style=date_style,
        decimal_separator=decimal_separator,
        thousands=thousands,
    )
    with ExitStack() as opening:
        if is_stream(sources):
            columnar, stream_identity = open_stream(sources, format)
            opening.callback(columnar.close)
            paths = [stream_identity.path]
        else:
            paths = find_sources(names)
            columnar = recognise(paths, format)
        if columnar is not None:
            refuse_text_options(columnar.format, msgspec.structs.asdict(options))
            if commit_every is not None:
                raise UsageError(
                    "--commit-every is for delimited text: row groups of a columnar source are stored whole",
                    hint="leave it out, and write smaller row groups if transactions are too large",
                )
            format = "text"
        sniffer = Sniffer(paths, format, options)
        if resume is not None and STDIN in paths:
            raise UsageError("standard input cannot be resumed: it can be read only once", hint="leave out --resume")
        _part.claim(Files(inputs=_inputs([] if stream_identity else paths, schema, target), outputs=outputs_of(policy)))
        display = (
            open_progress(progress, stderr(), now=moments.now)
            if isinstance(progress, str)
            else _Called(progress, _part.warn)
        )
        runner = _part.runner(display)
        if memory_limit_bytes is not None and _part.alone:
            # Of tables side by side nobody can tell whose memory it is.
            in_process = find_engine(target.engine).capabilities.in_process
            runner.memory = MemoryWatch(memory_limit_bytes, engine_bytes=memory_limit_bytes if in_process else 0)
        place = spool.Directory() if policy is not None else None
        if place is not None:
            opening.callback(place.close)
        # From here on it is closed at the end.
        opened = opening.pop_all()
    loaded = [policy.path] if replay and policy is not None else paths
    held = ExitStack()
    try:
        with runner.phase("prepare"):
            if policy is not None:
                check_writable(policy)
            # Where bad records may be skipped, their number decides whether this is text.
            if stream_identity is not None:
                identities = [stream_identity]
            else:
                known = sniffer.dialect if columnar is None else None
                identities = [identify(path, known, refuse=policy is None) for path in paths]
                if columnar is not None:
                    read_fields(columnar, identities, all_needed=columns is None)
            session = held.enter_context(_part.session(target, read_only=dry_run))
            session.tell_waits(display.warn)
        with held:
            with runner.phase("prepare"):
                replayed = read_reading(policy.reading_path) if replay and policy is not None else None
                request = Request(
                    session=session,
                    name=name,
                    schema=schema,
                    mode=mode,
                    sniffer=sniffer,
                    header_given=header is not None,
                    columns=columns,
                    sources=identities,
                    columnar=columnar,
                    reading=replayed,
                )
                request.resolve()
                # Without a schema, the name may have been found in one.
                refuse_schema(request.table, target.engine)
                if (cut := note_of_cut(name, request.table)) is not None:
                    request.notes.append(cut)
                identities = list(request.sources)
                request.read_every_value(judges=policy is not None)
                if replay and policy is not None:
                    request.replay(policy.path)
                    request.notes += of_updates(policy, updates=upserts and on_conflict == "update")
                    # Rejects are kept as text that was unpacked, decoded and cleared of comments; rows as CSV.
                    kept = msgspec.structs.replace(request.dialect, encoding=None, skip_lines=0, comment=None)
                    identities = [identify(path, kept, refuse=False) for path in loaded]
                if key and upserts:
                    request.choose_key(key)
                elif asked_structure is not None and key:
                    asked_structure = msgspec.structs.replace(asked_structure, key=request.structure_key(key))
                facts = {
                    "target": request.table.sql,
                    # The mode as it was asked for: a table that the first run created is there in the second.
                    "mode": mode or "auto",
                    "columns": [[column.name, column.type_text] for column in request.columns],
                    "dialect": request.columnar_plan or request.dialect_json,
                    "header": request.header,
                    "sources": [msgspec.to_builtins(identity) for identity in identities],
                }
                if policy is not None:
                    # A load that skips must not be resumed as one that does not, or the other way round.
                    facts["on_error"] = "replay" if replay else "skip"
                if replayed is not None and replayed.job:
                    facts["replays"] = replayed.job
                if divided is not None:
                    facts["partition_by"] = msgspec.to_builtins(divided)
                if replace_scope != "table":
                    facts["replace_scope"] = replace_scope
                if asked_structure is not None:
                    facts["structure"] = msgspec.to_builtins(asked_structure)
                if tablespaces:
                    facts["tablespaces"] = list(tablespaces)
                if upserts:
                    facts["key"], facts["on_conflict"] = list(request.key), on_conflict
                if upserts and request.columnar_plan and columnar is not None and columnar.stream is not None:
                    # Of two records with one key the later one counts: streams must not share the batches.
                    streams = 1
                request_key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).digest()
                changed = None
                facts[CHOSEN] = list(columns) if columns is not None else None
                if ledger and not restart and request.mode == "append" and request.definition is None:
                    published = session.published_with(request.table, identities[0].content)
                    earlier = loaded_before.by_same_command(facts, published)
                    if earlier is not None and earlier.request_key != request_key:
                        request_key = earlier.request_key
                        changed = loaded_before.columns_changed(request.table, earlier.job_id)
                if _part.alone and stream_identity is None and STDIN not in paths and not replay:
                    # No part of the key: the same rows may be asked for with other streams.
                    where = policy.path if policy is not None else None
                    facts[OPTIONS] = options_to_keep(load, given, rejects=where)
                is_columnar = request.columnar_plan is not None
                slice_plan = plan_slices(
                    [(s.path, s.size) for s in identities],
                    streams,
                    # Packed text is cut while it is read, by the bytes of its text.
                    minimum_slice_bytes=least_slice_bytes(packed=is_columnar),
                )
                _part.find_useful(useful_streams((s.size, is_columnar or s.is_packed) for s in identities))
                task = LoadTask(
                    table=request.table,
                    definition=request.definition,
                    mode=request.mode,
                    atomic=atomic,
                    columns=request.columns,
                    guessed=request.guessed,
                    sources=identities,
                    dialect=request.dialect_json,
                    header=request.header,
                    streams=streams,
                    slice_bytes=slice_plan.slice_bytes,
                    block_bytes=sizes.block_bytes,
                    window_bytes=sizes.window_bytes,
                    max_record_bytes=sizes.max_record_bytes,
                    write_path=write_path,
                    preserve_order=preserve_order,
                    analyze=analyze,
                    verify=verify,
                    ledger=ledger,
                    request_key=request_key,
                    followers=_part.followers(request_key),
                    beside=_part.beside,
                    request=facts,
                    resume=resume,
                    restart=restart,
                    retry_seconds=retry_for,
                    stall_seconds=stall_timeout,
                    memory_limit_bytes=memory_limit_bytes,
                    routing_bytes=sizes.routing_bytes,
                    run_bytes=sizes.run_bytes,
                    cpus=cpus,
                    commit_every=commit_every,
                    key=request.key,
                    on_conflict=on_conflict,
                    partition_by=divided,
                    structure=asked_structure,
                    tablespaces=tablespaces,
                    replace_scope=replace_scope,
                    indexes=indexes,
                    rejects=policy,
                    spool=place.name if place is not None else None,
                    columnar=request.columnar_plan,
                    stream=columnar.stream if columnar is not None and not replay else None,
                    stream_again=columnar.again if columnar is not None and not replay else None,
                    together=_part.together,
                    counts_slices=_part.counts_slices,
                )
                for finding in session.examine_for(task):
                    request.notes.append(short(finding))
                    display.warn(short(finding))
            result = session.plan(task) if dry_run else session.load(task, runner)
            runner.settle()
            if changed is not None and (result.status == "already loaded" or result.strategy == NOTHING_TO_DO):
                result.notes.append(changed)
            if result.status == "loaded" and task.mode == "replace" and replace_scope == "table" and not result.rows:
                result.notes.append(f"no record was stored: --mode replace has left {table} empty")
            with _part.finishing():
                causes: list[RejectCause] = []
                loaded_by = None
                if policy is not None and result.status == "already loaded" and result.rejects and not replay:
                    loaded_by = replayed_by(session.jobs(), result.job_id)
                if policy is not None and loaded_by is not None:
                    result.notes.append(of_replay(policy, loaded_by))
                    result.notes += unwritten_replay(policy, result.job_id, loaded_by.job_id)
                elif policy is not None and result.tell_rejects is not None and (result.rejects or replay):
                    remedy = where_kept(result.job_id, ledger=ledger, reads_once=task.reads_once)
                    telling = Telling.of(request, remedy)
                    names = [identity.path for identity in identities]
                    whose = replayed.job if replayed is not None and replayed.job else result.job_id
                    again = result.status == "already loaded" and not replay
                    reading = request.as_read(whose, result.job_id, again=again)
                    written = write_rejects(policy, result.tell_rejects, names, reading, telling, replay=replay)
                    causes = written.causes
                    result.notes += [*written.notes, *removed_rejects(policy, causes, result.rejects)]
                elif policy is not None and not dry_run:
                    result.notes += earlier_rejects(policy)
                storage = [] if dry_run else session.sizes_after(task.table)
    except BadRecord as error:
        if (reason := request.null_in_key(error.column, error.sqlstate)) is not None:
            error = error.with_reason(reason).with_remedy("mend the record, or leave the column out of --key")
        names = [column.name for column in request.columns]
        error = error.with_remedy(seen_remedy(error, names, identities, request.dialect))
        made_key = asked_structure.key if asked_structure is not None and request.definition is not None else ()
        remedy = request.first_remedy(error, replay=replay) + (
            request.guess.remedy(error)
            or core_remedy(error, request.dialect, task.table.name, made_key=made_key, beside=_part.beside)
        )
        if policy is not None and policy.max_count == 0:
            asked = "--replay" if replay else "--on-error skip"
            remedy += f"; {asked} allows no reject without --max-rejects above 0, a number or a share"
        elif policy is not None and replace_scope == "partitions" and error.sqlstate == _FOREIGN_KEY:
            remedy += "; partitions that are replaced are judged as a whole: --on-error skip leaves out no such record"
        raise error.with_remedy(f"{remedy}; {_what_is_stored(atomic=atomic, ledger=ledger)}") from None
    except TooManyRejects as error:
        error.hint = f"{error.hint}; {_what_is_stored(atomic=atomic, ledger=ledger)}"
        error.causes = [
            error.words(line) for line in cause_lines(causes_so_far(task, Telling.of(request), request.dialect))
        ]
        raise
    except TippleError as error:
        if not atomic and error.hint is not None:
            # Whoever has failed knows of its own transaction only, and those before it are visible.
            stored = _what_is_stored(atomic=atomic, ledger=ledger)
            if isinstance(error, SourceChanged):
                stored = "slices that were done before are stored: delete their rows before --restart"
            error.hint = error.hint.replace(NOTHING_PUBLISHED, stored)
        raise
    finally:
        display.close()
        opened.close()
        runner.close()
    if not ledger:
        request.notes.append("--no-ledger: this load cannot be resumed, and nothing keeps it from being loaded twice")
    result.notes[:0] = request.notes
    return make_report(
        target,
        task,
        loaded,
        result,
        runner.elapsed_seconds,
        runner.phases,
        started_at,
        verify_seconds=phase_seconds(runner, "verify"),
        causes=causes,
        sniff=request.guess.report(),
        storage=storage,
    )


def _inputs(paths: Sequence[str], schema: str | os.PathLike[str] | None, target: Target) -> list[NamedFile]:
    """The files that a load needs, and that nothing may be written over."""
    found = [NamedFile("the source", path) for path in paths if path != STDIN]
    if schema is not None and os.fspath(schema) not in (TPCH, AUTO):
        found.append(NamedFile("the schema file", os.fspath(schema)))
    return [*found, *(NamedFile("the target", path) for path in find_engine(target.engine).files(target))]


_FOREIGN_KEY = "23503"
"""SQLSTATE `foreign_key_violation`."""


class _Called:
    """Hands snapshots to a function, and what is said at once to another."""

    def __init__(self, update: Callable[[Mapping[str, Any]], None], warn: Callable[[str], None]) -> None:
        self.update, self.warn = update, warn

    def close(self) -> None:
        return


def _what_is_stored(*, atomic: bool, ledger: bool) -> str:
    """What a load that ended with an error has left in the table."""
    if atomic:
        return NOTHING_PUBLISHED
    if not ledger:
        return "slices that were done before are stored, and without a ledger the same command stores them once more"
    return "slices that were done before are stored, and are not stored twice"


def stderr() -> Any:
    """Where progress is shown: what is stderr now, and not what it was at the start."""
    import sys

    return cast(Any, sys.stderr)
