"""`tipple load`."""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from typing import Literal

import click

from tipple.cli.output import StdoutFailed, after_the_deed, console, print_json
from tipple.cli.summary import telling_failure, write_summary
from tipple.errors import TippleError, UsageError
from tipple.plan.structure import LOAD_AS, STRUCTURES, LoadAs, Structure
from tipple.report.model import LoadReport
from tipple.report.progress import PROGRESS_FORMS, ProgressForm
from tipple.report.schema import encode_summary
from tipple.run.interrupt import too_late
from tipple.run.load import MAX_RECORD_BYTES, RETRY_SECONDS, STALL_SECONDS
from tipple.run.load import load as run_load
from tipple.run.outputs import no_stale_summary
from tipple.run.part import Part
from tipple.run.target import DEFAULT_TARGET

__all__ = ["PUBLISHED_WITH_REJECTS", "load", "show_report"]

PUBLISHED_WITH_REJECTS = 3


@click.command(
    epilog="""\b
Examples:
  tipple load data/lineitem.tbl --table lineitem --schema tpch
  tipple load 'logs/*.csv' --into postgresql://etl@db/warehouse --table staging.log --header match -j 8
  tipple load day.csv --into postgresql:///shop --table orders --mode replace --verify checksum
  tipple load 'lineitem.tbl.*' --into postgresql:///tpch --table lineitem --schema tpch \\
      --partition-by 'range(l_orderkey, every=250000000)'
  tipple load day.csv --table orders --dry-run
  tipple load export.txt --table people --schema auto --dry-run --json
"""
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--into",
    metavar="URL",
    help=f"The target: duckdb:///file.duckdb, duckdb:///:memory:, postgresql://… (all libpq parameters; PG* "
    f"variables, .pgpass and service files count). Default: $TIPPLE_TARGET, else {DEFAULT_TARGET}.",
)
@click.option("--table", metavar="[SCHEMA.]NAME", required=True, help="The table to load into.")
@click.option(
    "--schema",
    metavar="FILE.sql|tpch|auto",
    help="Where the table is missing: create it from this file's CREATE TABLE, as TPC-H has it, or with names and "
    "types guessed from a sample of the sources.",
)
@click.option(
    "--mode",
    type=click.Choice(("append", "replace", "upsert", "create")),
    help="append: keep the rows that are there. replace: the old rows stay visible until the new ones are in. "
    "upsert: rows with a key that is there are updated, others inserted. create: the table must be new. Default: "
    "append; create where the table is missing.",
)
@click.option(
    "--key",
    metavar="A,B,...",
    help="With --mode upsert: the columns that tell rows apart. Of several records with the same key the last counts. "
    "With --structure btree or sorted: its key; default: the primary key.",
)
@click.option(
    "--on-conflict",
    type=click.Choice(("update", "ignore", "error")),
    default="update",
    show_default=True,
    help="With --mode upsert: what becomes of a record whose key the table has already.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(("auto", "csv", "tbl", "text", "fixed", "parquet", "arrow")),
    default="auto",
    show_default=True,
    help="csv: RFC 4180. tbl: | after every field, as dbgen writes. text: tabs and backslashes, as COPY writes. "
    "fixed: fields of --field-widths. "
    "parquet, arrow: Parquet files, Arrow IPC files and streams. auto: as the files' names say, unless their content "
    "contradicts; it finds out the options below that are not given, and says so.",
)
@click.option("--delimiter", metavar="C", help="The byte between fields.")
@click.option("--quote", metavar="C", help="The quote of csv.")
@click.option("--escape", metavar="C", help="What makes a quote inside quotes literal. Default: the quote.")
@click.option(
    "--header",
    type=click.Choice(("yes", "no", "match")),
    help="yes: skip each file's first record. match: it names the columns. Default: match where it holds nothing "
    "but names of columns, else no.",
)
@click.option("--null", "null_text", metavar="TEXT", help="The unquoted text that means NULL.")
@click.option("--encoding", metavar="NAME", help="The files' encoding. Default: UTF-8, or what a BOM says.")
@click.option(
    "--trailing-delimiter", type=click.Choice(("yes", "no")), help="Whether a delimiter also follows the last field."
)
@click.option(
    "--skip-lines",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Leave out so many lines at the beginning of each file, before the header.",
)
@click.option("--comment", metavar="C", help="Leave out lines that begin with this character.")
@click.option("--force-null", metavar="A,B,...|*", help="Columns where the NULL text means NULL in quotes too.")
@click.option("--force-not-null", metavar="A,B,...|*", help="Columns where the unquoted NULL text is a value.")
@click.option("--field-widths", metavar="N,N,...", help="The fields' widths in characters, for --format fixed.")
@click.option(
    "--date-style",
    metavar="DMY|MDY|YMD",
    help="The order of day, month and year in dates such as 31/12/2024. Default: as --format auto sees it.",
)
@click.option(
    "--decimal-separator",
    metavar="C",
    help="What stands before the fraction of a number: . or , . Default: a point, or as the sample shows it.",
)
@click.option("--thousands", metavar="C", help="A character between groups of three digits, as in 1,234.50.")
@click.option(
    "--columns",
    metavar="A,B,...",
    help="The columns in the order of the fields, with - for a field to leave out (a,-,b); of parquet, arrow and a "
    "header that names more, the fields to load. Default: all.",
)
@click.option(
    "--partition-by",
    metavar="HOW",
    help="Divide a table into the partitions that it lacks: 'range(COLUMN, every=1000000)' (or day, week, month, "
    "quarter, year), 'range(COLUMN, bounds=[…])', 'list(COLUMN, values=[a, [b, c]])', 'hash(COLUMN, 8)'.",
)
@click.option(
    "--replace-scope",
    type=click.Choice(("table", "partitions")),
    default="table",
    show_default=True,
    help="With --mode replace: replace the whole table, or only the partitions that the sources have rows for.",
)
@click.option(
    "--structure",
    type=click.Choice(STRUCTURES),
    help="What the table is to be. heap: rows as they come. btree: with a primary or unique key. sorted: stored in the "
    "order of the key. columnstore: column by column. memory: not logged, lost when the server crashes. parquet: "
    "files. Default: as the schema says, or as the table is.",
)
@click.option(
    "--load-as",
    type=click.Choice(LOAD_AS),
    default="auto",
    show_default=True,
    help="With --structure: what the table is while rows come in; then it is converted. auto: as is fastest.",
)
@click.option(
    "--access-method",
    metavar="NAME",
    help="With --structure columnstore on PostgreSQL: the table access method. Default: the columnar one installed.",
)
@click.option(
    "--tablespace",
    metavar="NAME",
    multiple=True,
    help="PostgreSQL: where a table that is made goes, and its indexes. Given several times, partitions are laid into "
    "them in turn; a table without partitions goes into the first.",
)
@click.option(
    "-j",
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Streams. Default: the cores of this process.",
)
@click.option(
    "--write-path",
    type=click.Choice(("auto", "direct", "binary", "text", "arrow")),
    default="auto",
    show_default=True,
    help="How rows enter the engine. auto: the fastest that fits. direct: ready-made pages, for PostgreSQL with "
    "the extension tipple_direct. binary: COPY binary. text: the server itself reads every value.",
)
@click.option(
    "--indexes",
    type=click.Choice(("auto", "keep", "rebuild")),
    default="auto",
    show_default=True,
    help="Where rows are appended to others: keep: they go into the table's indexes as they come. rebuild: all of its "
    "indexes are built when all rows are in. auto: as is faster, by the sizes of the sources and the table.",
)
@click.option(
    "--atomic/--no-atomic",
    default=True,
    show_default=True,
    help="atomic: one commit makes all rows visible. no-atomic: slice by slice, still exactly once.",
)
@click.option(
    "--ledger/--no-ledger",
    default=True,
    show_default=True,
    help="no-ledger: keep no record in the target; gives up resuming and the protection against loading twice.",
)
@click.option(
    "--analyze/--no-analyze",
    default=True,
    show_default=True,
    help="Gather the planner's statistics before rows appear (PostgreSQL, where a table is made).",
)
@click.option(
    "--preserve-order",
    is_flag=True,
    help="Store rows in the order of the files, where the engine has an order.",
)
@click.option(
    "--verify",
    type=click.Choice(("none", "count", "checksum")),
    default="count",
    show_default=True,
    help="What to compare before publishing. checksum: every value of every row, read back.",
)
@click.option(
    "--on-error",
    type=click.Choice(("stop", "skip")),
    default="stop",
    show_default=True,
    help="stop: the first record that cannot be stored ends the load, and nothing is published. skip: such records "
    "are kept apart as rejects, up to --max-rejects.",
)
@click.option(
    "--max-rejects",
    metavar="N|P%",
    default="0",
    show_default=True,
    help="With --on-error skip: the most rejects, as a number or as a share of all records (0.5%). One more ends the "
    "load, and nothing is published.",
)
@click.option(
    "--rejects",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Where the raw records of the rejects go; FILE.reasons.csv says file, record, byte, column, reason and "
    "SQLSTATE of each. Default: the table's name with .rejects.",
)
@click.option(
    "--replay",
    is_flag=True,
    help="Load the records in the file of rejects, mended, instead of the sources; what is still wrong stays in it.",
)
@click.option("--resume", metavar="JOB", help="Go on with this job, or fail. (The same command resumes by itself.)")
@click.option("--restart", is_flag=True, help="Load again although this was loaded, or begun, before.")
@click.option("--dry-run", is_flag=True, help="Show the plan and do nothing.")
@click.option(
    "--memory-limit",
    metavar="SIZE",
    help="The most memory of this process, such as 500MB: buffers shrink to it, and a load that does not fit ends with "
    "nothing published. DuckDB's own buffers come on top, and get the same limit.",
)
@click.option("--pin-cpus", metavar="LIST", help="Pin the streams' threads to these CPUs, in turn, such as 0-3,8.")
@click.option(
    "--commit-every",
    metavar="ROWS",
    type=click.IntRange(min=1),
    help="The most rows that a transaction stores, where a load is more than one: with --no-atomic, and for staging.",
)
@click.option(
    "--max-record-size",
    metavar="SIZE",
    default=str(MAX_RECORD_BYTES),
    show_default="16 MiB",
    help="The longest record; a longer one is most likely an unclosed quote.",
)
@click.option(
    "--retry-for",
    metavar="SECONDS",
    type=click.IntRange(min=0),
    default=RETRY_SECONDS,
    show_default=True,
    help="How long to wait for a server that went away.",
)
@click.option(
    "--stall-timeout",
    metavar="SECONDS",
    type=click.IntRange(min=1),
    default=STALL_SECONDS,
    show_default=True,
    help="Give a server up that has not answered for so long.",
)
@click.option(
    "--progress",
    type=click.Choice(PROGRESS_FORMS),
    default="auto",
    show_default=True,
    help="How to show progress on stderr. auto: a bar on a terminal, else lines.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout.")
@click.option("--summary", metavar="FILE.json", type=click.Path(dir_okay=False), help="Write the summary as JSON.")
def load(
    sources: tuple[str, ...],
    *,
    into: str | None,
    table: str,
    schema: str | None,
    mode: Literal["append", "replace", "upsert", "create"] | None,
    key: str | None,
    on_conflict: Literal["update", "ignore", "error"],
    format_name: str,
    delimiter: str | None,
    quote: str | None,
    escape: str | None,
    header: Literal["yes", "no", "match"] | None,
    null_text: str | None,
    encoding: str | None,
    trailing_delimiter: Literal["yes", "no"] | None,
    skip_lines: int,
    comment: str | None,
    force_null: str | None,
    force_not_null: str | None,
    field_widths: str | None,
    date_style: str | None,
    decimal_separator: str | None,
    thousands: str | None,
    columns: str | None,
    partition_by: str | None,
    replace_scope: Literal["table", "partitions"],
    structure: Structure | None,
    load_as: LoadAs,
    access_method: str | None,
    tablespace: tuple[str, ...],
    jobs: int | None,
    write_path: str,
    indexes: Literal["auto", "keep", "rebuild"],
    atomic: bool,
    ledger: bool,
    preserve_order: bool,
    analyze: bool,
    verify: Literal["none", "count", "checksum"],
    on_error: Literal["stop", "skip"],
    max_rejects: str,
    rejects: str | None,
    replay: bool,
    resume: str | None,
    restart: bool,
    dry_run: bool,
    memory_limit: str | None,
    pin_cpus: str | None,
    commit_every: int | None,
    max_record_size: str,
    retry_for: int,
    stall_timeout: int,
    progress: ProgressForm,
    as_json: bool,
    summary: str | None,
) -> None:
    """Load files into a table, in parallel, exactly once.

    SOURCE is a file, a pattern, a directory, or - for standard input. All rows become visible in one commit, or none
    does. Running the same command again after an interruption goes on where it stopped; after a success it changes
    nothing.
    """
    inputs = [*sources, *([schema] if schema else [])]
    with telling_failure(summary), no_stale_summary(summary, lambda: inputs):
        report = run_load(
            sources,
            into=into,
            table=table,
            schema=schema,
            format=format_name,
            delimiter=delimiter,
            quote=quote,
            escape=escape,
            header=header,
            null=null_text,
            encoding=encoding,
            trailing_delimiter=None if trailing_delimiter is None else trailing_delimiter == "yes",
            skip_lines=skip_lines,
            comment=comment,
            force_null=split_names(force_null) if force_null is not None else (),
            force_not_null=split_names(force_not_null) if force_not_null is not None else (),
            field_widths=_widths(field_widths) if field_widths is not None else None,
            date_style=date_style,
            decimal_separator=decimal_separator,
            thousands=thousands,
            columns=split_names(columns) if columns is not None else None,
            mode=mode,
            key=split_names(key) if key is not None else None,
            on_conflict=on_conflict,
            partition_by=partition_by,
            replace_scope=replace_scope,
            structure=structure,
            load_as=load_as,
            access_method=access_method,
            tablespace=tablespace,
            jobs=jobs,
            write_path=write_path,
            indexes=indexes,
            atomic=atomic,
            ledger=ledger,
            preserve_order=preserve_order,
            analyze=analyze,
            verify=verify,
            on_error=on_error,
            max_rejects=max_rejects,
            rejects=rejects,
            replay=replay,
            resume=resume,
            restart=restart,
            dry_run=dry_run,
            memory_limit=memory_limit,
            pin_cpus=pin_cpus,
            commit_every=commit_every,
            max_record_size=max_record_size,
            retry_for=retry_for,
            stall_timeout=stall_timeout,
            progress=progress,
            _part=Part(summary, meanwhile=None if as_json else _prepare_report),
        )
    if report.status == "planned":
        _conclude(report, summary, as_json=as_json, done="nothing was loaded", repeats=False)
    else:
        with too_late(), after_the_deed("the rows are published"):
            repeats = restart or not ledger
            _conclude(report, summary, as_json=as_json, done="the rows are published", repeats=repeats)
    if report.rejects:
        sys.exit(PUBLISHED_WITH_REJECTS)


def _prepare_report() -> None:
    """Loads what draws tables."""
    importlib.import_module("tipple.report.render")


def _conclude(report: LoadReport, summary: str | None, *, as_json: bool, done: str, repeats: bool) -> None:
    if summary is not None:
        try:
            write_summary(summary, encode_summary(report), done=done, repeats=repeats)
        except TippleError:
            # What was done is told all the same.
            with suppress(StdoutFailed):
                show_report(report, as_json=as_json)
            raise
    show_report(report, as_json=as_json)


def show_report(report: LoadReport, *, as_json: bool) -> None:
    """Prints what was done: tables, or the summary as JSON."""
    if as_json:
        print_json(encode_summary(report))
    else:
        from tipple.report.render import render_report

        render_report(report, console())


def _widths(text: str) -> list[int]:
    try:
        return [int(width) for width in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--field-widths must be numbers, and not {text!r}", hint="for example --field-widths 5,3,10"
        ) from None


def split_names(text: str) -> list[str]:
    """`a,"b,c",d` at its commas, but not at those inside quotes."""
    names: list[str] = []
    name, quoted = "", False
    for character in text:
        if character == '"':
            quoted = not quoted
        if character == "," and not quoted:
            names.append(name)
            name = ""
        else:
            name += character
    return [*names, name]
