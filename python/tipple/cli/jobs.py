"""`tipple jobs`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import msgspec
from rich.table import Table

from tipple.cli.output import after_the_deed, console, print_json, show_log
from tipple.engines.base import JobRecord
from tipple.engines.moments import for_people
from tipple.errors import UsageError, printable_text
from tipple.plan.size import format_count
from tipple.run.jobs import cancel_job, clean_jobs, list_jobs, resume_job, show_jobs

__all__ = ["jobs"]

LIST_WIDTH = 140
ACTIONS = ("list", "show", "resume", "cancel", "clean")


@click.command(
    epilog="""\b
Examples:
  tipple jobs postgresql:///warehouse
  tipple jobs postgresql:///warehouse show 3f2a
  tipple jobs postgresql:///warehouse resume 3f2a
  tipple jobs postgresql:///warehouse clean
  TIPPLE_TARGET=postgresql:///warehouse tipple jobs clean 3f2a
"""
)
@click.argument("words", nargs=-1, metavar=f"[URL] [{'|'.join(ACTIONS)}] [JOB]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
@click.option(
    "--force", is_flag=True, help="cancel, clean: give up jobs too whose rows are in the table already (--no-atomic)."
)
def jobs(words: Sequence[str], as_json: bool, force: bool) -> None:
    """List, show, resume, cancel and clean up the jobs recorded in a target.

    URL is the target; without it $TIPPLE_TARGET counts. JOB is a job's id or its beginning. `resume` goes on with an
    unfinished load as its own command would, on the machine that has its sources. `cancel` stops a job or
    gives up an unfinished one; `clean` gives up all jobs that nobody runs, or only JOB, and drops what they had staged.
    A job of --no-atomic that has stored rows is kept, because its command would store them once more.
    """
    url, action, job = _meaning(words)
    show_log()
    if force and action not in ("cancel", "clean"):
        raise UsageError(f"--force has no meaning for {action}", hint="leave it out")
    if action == "clean":
        _print_lines(clean_jobs(url, job, force=force), as_json)
        return
    if action == "resume" and job is not None:
        _resume(url, job, as_json=as_json)
        return
    if action == "cancel" and job is not None:
        _print_lines([cancel_job(url, job, force=force)], as_json)
        return
    records = show_jobs(url, job) if action == "show" and job is not None else list_jobs(url)
    if as_json:
        print_json(msgspec.json.format(msgspec.json.encode(records)).decode())
    elif action == "show":
        _show(records)
    else:
        _list(records)


def _meaning(words: Sequence[str]) -> tuple[str | None, str, str | None]:
    """URL, action and job. No URL is a word like the actions, so it can be left out; it may stand behind them too."""
    left = sorted(words, key=lambda word: "://" not in word)
    url = left.pop(0) if left and left[0] not in ACTIONS else None
    action = left.pop(0) if left else "list"
    job = left.pop(0) if left else None
    if action not in ACTIONS:
        raise UsageError(f"{action!r} is none of {', '.join(ACTIONS)}", hint="tipple jobs [URL] [ACTION] [JOB]")
    if left:
        raise UsageError(f"{left[0]!r} is a word too many", hint="tipple jobs [URL] [ACTION] [JOB]")
    if action == "list" and job is not None:
        raise UsageError(
            f"list shows all jobs, and takes no job such as {job!r}", hint=f"tipple jobs URL show {job or 'JOB'}"
        )
    if action in ("show", "resume", "cancel") and job is None:
        raise UsageError(f"tipple jobs URL {action} needs a job", hint="tipple jobs URL lists them")
    return url, action, job


def _resume(url: str | None, job: str, *, as_json: bool) -> None:
    from tipple.cli.load import PUBLISHED_WITH_REJECTS, show_report
    from tipple.run.interrupt import too_late

    report = resume_job(url, job, progress="auto")
    with too_late(), after_the_deed("the rows are published"):
        show_report(report, as_json=as_json)
    if report.rejects:
        sys.exit(PUBLISHED_WITH_REJECTS)


def _print_lines(lines: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json(msgspec.json.encode(list(lines)).decode())
        return
    for line in lines or ["nothing to clean up"]:
        click.echo(line)


def _list(records: Sequence[JobRecord]) -> None:
    if not records:
        click.echo("no jobs")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("job", no_wrap=True)
    for heading in ("state", "table"):
        table.add_column(heading, overflow="fold")
    for heading in ("slices done", "rows", "rejects"):
        table.add_column(heading, justify="right")
    table.add_column("started", overflow="fold")
    for record in records:
        table.add_row(
            record.job_id,
            _state(record),
            record.table,
            f"{record.slices_done}/{record.slices}",
            format_count(record.rows),
            format_count(record.rejects),
            for_people(record.started_at),
        )
    # A job's id is there to be copied: rather a long line than a folded one.
    console(LIST_WIDTH).print(table)


def _show(records: Sequence[JobRecord]) -> None:
    for record in records:
        click.echo(f"job       {record.job_id}")
        click.echo(f"state     {_state(record)}")
        click.echo(f"table     {record.table}")
        click.echo(f"mode      {record.mode}")
        click.echo(f"slices    {record.slices_done} of {record.slices} done")
        click.echo(f"rows      {format_count(record.rows)}")
        click.echo(f"rejects   {format_count(record.rejects)}")
        if record.replays:
            click.echo(f"replays   the rejects of job {record.replays}")
        if record.visible_rows:
            click.echo(f"visible   {format_count(record.visible_rows)} rows are in the table already (--no-atomic)")
        click.echo(f"started   {for_people(record.started_at)}")
        click.echo(f"finished  {for_people(record.finished_at) if record.finished_at else '-'}")
        if record.staging:
            click.echo(f"staging   {record.staging}")
        for source in record.sources:
            click.echo(f"source    {printable_text(source)}")


def _state(record: JobRecord) -> str:
    if record.state != "loading":
        return record.state
    return "loading" if record.running else "unfinished"
