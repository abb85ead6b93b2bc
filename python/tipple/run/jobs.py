"""The verb `jobs`: what a target's ledger says, and tidying up after jobs that were left."""

from __future__ import annotations

from tipple.engines import find_engine
from tipple.engines.base import JobRecord, Session
from tipple.errors import UsageError
from tipple.run.target import choose_target

LISTED = "tipple jobs URL lists them"


def list_jobs(url: str | None = None) -> list[JobRecord]:
    """All jobs in the target's ledger, newest first."""
    session = _connect(url)
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


def cancel_job(url: str | None, job_id: str) -> None:
    """Stops a running job, or gives up one that was left unfinished; its staged rows are dropped.

    Raises:
        UsageError: there is no such unfinished job.
    """
    beginning = _beginning(job_id)
    session = _connect(url)
    try:
        session.cancel_job(beginning)
    finally:
        session.close()


def clean_jobs(url: str | None = None, job_id: str | None = None) -> list[str]:
    """Gives up jobs that nobody runs and drops what they had staged; says what was done.

    Args:
        url: the target; without it the environment's `TIPPLE_TARGET` counts.
        job_id: the beginning of the id of the only one that is meant. Default: all of them, and staging tables that
            belong to no job.

    Raises:
        UsageError: there is no such job, or it is running, or finished.
    """
    beginning = None if job_id is None else _beginning(job_id)
    session = _connect(url)
    try:
        return session.clean_jobs() if beginning is None else [_clean_one(session, beginning)]
    finally:
        session.close()


def _clean_one(session: Session, beginning: str) -> str:
    found = [record for record in session.jobs() if record.job_id.startswith(beginning)]
    if len(found) != 1:
        raise UsageError(f"there is no single job {beginning}", hint=LISTED)
    (record,) = found
    if record.running:
        raise UsageError(
            f"the job {record.job_id} is running", hint=f"stop it by: tipple jobs URL cancel {record.job_id[:8]}"
        )
    session.cancel_job(record.job_id)
    return f"gave up job {record.job_id} into {record.table}, {record.slices_done} slices done"


def _beginning(job_id: str) -> str:
    """What a job's id must begin with. Nothing at all, most likely a variable without a value, would be any job's."""
    if not job_id.strip():
        raise UsageError("the job's id is empty", hint=LISTED)
    return job_id.strip().lower()


def _connect(url: str | None) -> Session:
    target = choose_target(url)
    return find_engine(target.engine).connect(target, read_only=False, must_exist=True)
