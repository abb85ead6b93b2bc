"""`tipple run`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from tipple.cli.output import after_the_deed, console, print_json, say
from tipple.cli.summary import telling_failure, write_summary
from tipple.errors import BadRecord, Interrupted, JobFailed, TippleError, UsageError
from tipple.report.job import JobReport
from tipple.report.progress import PROGRESS_FORMS, ProgressForm
from tipple.report.render import render_job
from tipple.report.schema import encode_summary
from tipple.run.job import job_inputs
from tipple.run.job import run as run_job
from tipple.run.outputs import no_stale_summary

__all__ = ["run"]


@click.command(
    epilog="""\b
Examples:
  tipple run tpch.toml --set data=/data/tpch --set streams=4
  tipple run nightly.toml --dry-run
  tipple run nightly.toml --set day=2026-11-21 --summary nightly.json
"""
)
@click.argument("file", metavar="JOB.toml")
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="A value for a variable of the job; counts more than the file's own. Can be given several times.",
)
@click.option(
    "-j",
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Streams of all tables together. Default: what the file says, else the cores of this process.",
)
@click.option("--restart", is_flag=True, help="Load again what was loaded, or begun, before.")
@click.option("--dry-run", is_flag=True, help="Show each table's plan and do nothing.")
@click.option(
    "--progress",
    type=click.Choice(PROGRESS_FORMS),
    default="auto",
    show_default=True,
    help="How to show progress on stderr. auto: a bar on a terminal, else lines.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout.")
@click.option("--summary", metavar="FILE.json", type=click.Path(dir_okay=False), help="Write the summary as JSON.")
def run(
    file: str,
    *,
    settings: Sequence[str],
    jobs: int | None,
    restart: bool,
    dry_run: bool,
    progress: ProgressForm,
    as_json: bool,
    summary: str | None,
) -> None:
    """Run a job file: load its tables, side by side where cores allow.

    JOB.toml names tables, their files and options, and what comes after what. Running the same job again loads what is
    missing, and nothing twice. The exit status is 1 where a table was not loaded, else 3 where one has rejects.
    """
    ended: JobFailed | Interrupted | None = None
    try:
        values = dict(_setting(text) for text in settings)
        with no_stale_summary(summary, lambda: job_inputs(file, values)):
            report: JobReport = run_job(
                file,
                settings=values,
                jobs=jobs,
                restart=restart,
                dry_run=dry_run,
                progress=progress,
                _summary=summary,
            )
    except TippleError as error:
        if not isinstance(error, (JobFailed, Interrupted)) or error.report is None:
            with telling_failure(summary):
                raise
        ended, report = error, error.report
    unwritten: TippleError | None = None
    if summary is not None:
        try:
            done = f"what the exit status {report.exit_status} says is done"
            write_summary(summary, encode_summary(report), done=done, repeats=restart)
        except TippleError as error:
            # Why a table was not loaded is said all the same.
            unwritten = error
    if dry_run:
        _show(report, as_json=as_json)
    else:
        with after_the_deed("what the exit status says is done"):
            _show(report, as_json=as_json)
    if isinstance(ended, JobFailed):
        _show_failure(ended)
    elif ended is not None:
        raise ended
    if unwritten is not None:
        raise unwritten
    sys.exit(report.exit_status)


def _show(report: JobReport, *, as_json: bool) -> None:
    if as_json:
        print_json(encode_summary(report))
    else:
        render_job(report, console())


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UsageError("--set needs KEY=VALUE", hint="for example --set data=/data/tpch")
    return key.strip(), value


def _show_failure(failed: JobFailed) -> None:
    for table in failed.report.tables:
        if table.error is not None:
            say(f"tipple: {table.name}: {table.error}")
            if table.hint and not any(
                isinstance(error, BadRecord) and str(error) == table.error for error in failed.errors
            ):
                say(f"  hint: {table.hint}")
    say(f"tipple: {failed}")
    say(f"  hint: {failed.hint}")
