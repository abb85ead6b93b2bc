"""The verb `jobs`: what a target's ledger says, and tidying up after jobs that were left."""

from __future__ import annotations

import os

from tipple.engines import find_engine
from tipple.engines.base import JobRecord, Session
from tipple.plan.url import parse_target
from tipple.run.load import DEFAULT_TARGET


def list_jobs(url: str | None = None) -> list[JobRecord]:
    """All jobs in the target's ledger, newest first."""
    session = _connect(url)
    try:
        return session.jobs()
    finally:
        session.close()


def cancel_job(url: str | None, job_id: str) -> None:
    """Stops a running job, or gives up one that was left unfinished; its staged rows are dropped.

    Raises:
        UsageError: there is no such unfinished job.
    """
    session = _connect(url)
    try:
        session.cancel_job(job_id)
    finally:
        session.close()


def clean_jobs(url: str | None = None) -> list[str]:
    """Gives up all jobs that nobody runs and drops what they had staged; says what was done."""
    session = _connect(url)
    try:
        return session.clean_jobs()
    finally:
        session.close()


def _connect(url: str | None) -> Session:
    target = parse_target(url or os.environ.get("TIPPLE_TARGET") or DEFAULT_TARGET)
    return find_engine(target.engine).connect(target, read_only=False, must_exist=True)
