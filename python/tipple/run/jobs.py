"""The verb `jobs`: what a target's ledger says, and tidying up after jobs that were left."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tipple.engines.base import JobRecord, Session
from tipple.errors import UsageError
from tipple.report.model import LoadReport
from tipple.report.progress import ProgressForm
from tipple.run.arguments import checked
from tipple.run.target import connect_existing

LISTED = "tipple jobs URL lists them"


@checked
def list_jobs(url: str | None = None) -> list[JobRecord]:
    """All jobs in the target's ledger, newest first."""
    session = connect_existing(url)
    try:
        return session.jobs()
    finally:
        session.close()


def show_jobs(url: str | None, job_id: str) -> list[JobRecord]:
    """The jobs whose id begins like this.

    Raises:
        UsageError: there is none.
    """
    beginning = _beginning(job_id)
    found = [record for record in list_jobs(url) if record.job_id.startswith(beginning)]
    if not found:
        raise UsageError(f"there is no job {job_id}", hint=LISTED)
    return found


@checked
def resume_job(
    url: str | None,
    job_id: str,
    *,
    progress: ProgressForm | Callable[[Mapping[str, Any]], None] = "none",
) -> LoadReport:
    """Goes on with an unfinished job, with the sources and options that the ledger has of its command.

    Args:
        url: the target; without it the environment's `TIPPLE_TARGET` counts.
        job_id: the beginning of the job's id.
        progress: as for `load`.

    Returns:
        What `load` returns.

    Raises:
        UsageError: there is no single such job, it is not unfinished, or the ledger does not have its command: of a
            job file's tables, of standard input and frames, and of a load with `replay`.
        TippleError: as by `load`.
    """
    # The other actions need none of it, and are there at once.
    from tipple.run.load import load

    beginning = _beginning(job_id)
    record = _single(list_jobs(url), beginning)
    if record.running:
        raise UsageError(f"the job {record.job_id} is running", hint="wait for it")
    if record.state != "loading":
        raise UsageError(
            f"the job {record.job_id} is {record.state}",
            hint="only an unfinished job can be resumed; to load again, run its command",
        )
    if record.options is None:
        raise UsageError(
            f"the ledger does not have the command of job {record.job_id}",
            hint="run that command again (`tipple run` of the job file, where it is one of its tables), which goes on "
            f"where it stopped; or give the job up: tipple jobs URL cancel {record.job_id[:8]}",
        )
    missing = [path for path in record.sources if not os.path.exists(path)]
    if missing:
        raise UsageError(
            f"a source of job {record.job_id} is not there: {missing[0]}",
            hint="bring it back, or resume the job on the machine that it was begun on",
        )
    return load(list(record.sources), into=url, resume=record.job_id, progress=progress, **record.options)


@checked
def cancel_job(url: str | None, job_id: str, *, force: bool = False) -> str:
    """Stops a running job, or gives up one that was left unfinished; its staged rows are dropped. Says what was done.

    Args:
        url: the target; without it the environment's `TIPPLE_TARGET` counts.
        job_id: the beginning of the job's id.
        force: also one of `--no-atomic` that has stored rows, which its command would store once more.

    Raises:
        UsageError: there is no such unfinished job, or it has stored rows.
    """
    beginning = _beginning(job_id)
    session = connect_existing(url)
    try:
        found = [record for record in session.jobs() if record.job_id.startswith(beginning)]
        if len(found) == 1 and found[0].state == "loading" and not force:
            _require_no_rows(found[0])
        session.cancel_job(beginning)
        # What it had stored until then.
        record = next(record for record in session.jobs() if record.job_id.startswith(beginning))
        return f"cancelled job {record.job_id}{_what_stays(record)}"
    finally:
        session.close()


@checked
def clean_jobs(url: str | None = None, job_id: str | None = None, *, force: bool = False) -> list[str]:
    """Gives up jobs that nobody runs and drops what they had staged; says what was done.

    A job of `--no-atomic` whose rows are in the table already is kept: its command would store them once more.

    Args:
        url: the target; without it the environment's `TIPPLE_TARGET` counts.
        job_id: the beginning of the id of the only one that is meant. Default: all of them, and staging tables that
            belong to no job.
        force: give up those too that have stored rows.

    Raises:
        UsageError: there is no such job, or it is running, or finished, or it has stored rows.
    """
    beginning = None if job_id is None else _beginning(job_id)
    session = connect_existing(url)
    try:
        if beginning is not None:
            return [_clean_one(session, beginning, force=force)]
        abandoned = [record for record in session.jobs() if record.state == "loading" and not record.running]
        done = [
            _kept(record) if record.visible_rows and not force else _give_up_own(session, record)
            for record in abandoned
        ]
        return [*done, *session.drop_leftovers()]
    finally:
        session.close()


def _clean_one(session: Session, beginning: str, *, force: bool) -> str:
    record = _single(session.jobs(), beginning)
    if record.running:
        raise UsageError(
            f"the job {record.job_id} is running", hint=f"stop it by: tipple jobs URL cancel {record.job_id[:8]}"
        )
    if not force:
        _require_no_rows(record)
    return _give_up(session, record)


def _single(records: Sequence[JobRecord], beginning: str) -> JobRecord:
    """The only job whose id begins like this."""
    found = [record for record in records if record.job_id.startswith(beginning)]
    if len(found) != 1:
        raise UsageError(f"there is no single job {beginning}", hint=LISTED)
    return found[0]


def _require_no_rows(record: JobRecord) -> None:
    if record.visible_rows:
        raise UsageError(
            f"the job {record.job_id} has stored {record.visible_rows:,} rows in {record.table} already (--no-atomic): "
            "given up, its command would store them once more",
            hint="stop its command by Ctrl-C, so that it can go on later; or repeat this with --force"
            if record.running
            else "run its command again, which goes on behind them; or delete them, and repeat this with --force",
        )


def _give_up_own(session: Session, record: JobRecord) -> str:
    """Gives the job up, unless it is another role's."""
    try:
        return _give_up(session, record)
    except UsageError as error:
        return f"kept: {error}; {error.hint}"


def _give_up(session: Session, record: JobRecord) -> str:
    session.cancel_job(record.job_id)
    return f"gave up job {record.job_id} into {record.table}, {record.slices_done} slices done{_what_stays(record)}"


def _what_stays(record: JobRecord) -> str:
    if not record.visible_rows:
        return ""
    return f": {record.visible_rows:,} rows stay in {record.table}, and its command would store them once more"


def _kept(record: JobRecord) -> str:
    return (
        f"kept job {record.job_id} into {record.table}: {record.visible_rows:,} rows are in the table already "
        "(--no-atomic), and without the job its command would store them once more; --force gives it up"
    )


def _beginning(job_id: str) -> str:
    """What a job's id must begin with. Nothing at all, most likely a variable without a value, would be any job's."""
    if not job_id.strip():
        raise UsageError("the job's id is empty", hint=LISTED)
    return job_id.strip().lower()
