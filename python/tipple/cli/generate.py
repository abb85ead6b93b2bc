"""`tipple generate tpch`."""

from __future__ import annotations

import sys
from typing import Literal

import click
import msgspec
from rich.table import Table

from tipple.cli.output import after_the_deed, console, print_json
from tipple.engines import moments
from tipple.plan.size import format_bytes, format_count, format_duration, format_rate
from tipple.plan.tpch import TABLES
from tipple.report.progress import PROGRESS_FORMS, ProgressForm, open_progress
from tipple.run.generate import GenerateReport
from tipple.run.generate import generate as run_generate

__all__ = ["generate"]


@click.group()
def generate() -> None:
    """Make data to load: the tables of a benchmark as files."""


@generate.command(
    epilog="""\b
Examples:
  tipple generate tpch --scale 1 --out data
  tipple generate tpch --scale 100 --table lineitem --parts 48 --out data
  tipple generate tpch --scale 100 --table lineitem --parts 48 --part 7 --out data
"""
)
@click.option(
    "--scale",
    metavar="SF",
    type=float,
    default=1.0,
    show_default=True,
    help="Scale factor; 1 is about 1 GB of text and 8.7 million rows. From 0.001 to 10000.",
)
@click.option(
    "--table",
    "tables",
    type=click.Choice(TABLES),
    multiple=True,
    help="Generate only this table; may be given several times. Default: all eight.",
)
@click.option(
    "--parts",
    metavar="N",
    type=click.IntRange(min=1),
    help="Divide each table into N files with the rows of dbgen -C N. region and nation stay whole.",
)
@click.option(
    "--part",
    metavar="I",
    type=click.IntRange(min=1),
    help="Generate only part I of N, as dbgen -S I does.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("tbl", "csv", "parquet")),
    default="tbl",
    show_default=True,
    help="tbl: byte for byte as dbgen writes it. csv: RFC 4180 with a header line.",
)
@click.option(
    "--compression",
    type=click.Choice(("zstd", "snappy", "none")),
    help="Compression of parquet files. Default: zstd.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False),
    required=True,
    help="Directory for the files; made when it is missing.",
)
@click.option(
    "-j",
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Threads. Default: the cores that this process may use.",
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.option("--fsync", is_flag=True, help="Have the files on disk before they get their names.")
@click.option(
    "--progress",
    "progress_form",
    type=click.Choice(PROGRESS_FORMS),
    default="auto",
    show_default=True,
    help="How to show progress on stderr. auto: a bar on a terminal, else lines.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
def tpch(
    scale: float,
    tables: tuple[str, ...],
    parts: int | None,
    part: int | None,
    form: Literal["tbl", "csv", "parquet"],
    compression: Literal["zstd", "snappy", "none"] | None,
    out: str,
    jobs: int | None,
    force: bool,
    fsync: bool,
    progress_form: ProgressForm,
    as_json: bool,
) -> None:
    """Generate TPC-H tables, whole or as part I of N, so that files match partitions.

    Files are named as dbgen names them: lineitem.tbl, and with parts lineitem.tbl.1 to lineitem.tbl.N
    (lineitem.1.csv in the other formats). All of them appear at once, at the end, or none does.
    """
    progress = open_progress(progress_form, sys.stderr, now=moments.now)
    try:
        report = run_generate(
            out=out,
            scale=scale,
            table=tables or None,
            parts=parts,
            part=part,
            format=form,
            compression=compression,
            jobs=jobs,
            force=force,
            fsync=fsync,
            on_progress=progress.update,
        )
    finally:
        progress.close()
    with after_the_deed("the files are written"):
        if as_json:
            print_json(msgspec.json.format(msgspec.json.encode(report)).decode())
        else:
            console().print(_summary(report))


def _summary(report: GenerateReport) -> Table:
    """A line for each table and one for all."""
    summary = Table(box=None, show_footer=len(report.files) > 1, pad_edge=False, footer_style="bold")
    total_rows, total_bytes = format_count(report.rows), format_bytes(report.bytes)
    summary.add_column("table", footer="all")
    summary.add_column("files", justify="right", footer=format_count(len(report.files)))
    summary.add_column("rows", justify="right", footer=total_rows)
    summary.add_column("size", justify="right", footer=total_bytes)
    for table in TABLES:
        files = [file for file in report.files if file.table == table]
        if files:
            summary.add_row(
                table,
                format_count(len(files)),
                format_count(sum(file.rows for file in files)),
                format_bytes(sum(file.bytes for file in files)),
            )
    rate = format_rate(report.bytes / report.seconds) if report.seconds > 0 else "-"
    summary.caption = f"{format_duration(report.seconds)}, {rate}, {report.jobs} jobs"
    summary.caption_justify = "left"
    return summary
