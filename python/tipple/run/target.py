"""Which target is meant: the URL that was given, else the environment's, else a file in the working directory."""

from __future__ import annotations

import os

from tipple.engines import find_engine
from tipple.engines.base import Session
from tipple.errors import ConnectionFailed, UsageError
from tipple.plan.url import Target, parse_target
from tipple.report.progress import log_warning

__all__ = ["DEFAULT_TARGET", "TARGET_VARIABLE", "choose_target", "connect_existing"]

DEFAULT_TARGET = "duckdb:///tipple.duckdb"
TARGET_VARIABLE = "TIPPLE_TARGET"


def choose_target(url: str | None) -> Target:
    """The target of a verb.

    Raises:
        UsageError: the URL is not well, or empty: most likely a variable that has no value, and then the default would
            be the wrong place.
    """
    if url is not None and not url.strip():
        raise UsageError(
            "the target's URL is empty", hint=f"give one, or leave it out for ${TARGET_VARIABLE}, else {DEFAULT_TARGET}"
        )
    return parse_target(url or os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET)


def connect_existing(url: str | None, *, read_only: bool = False) -> Session:
    """A session with the target of a verb that makes no database. Whom it waits for is told to the logger.

    Raises:
        UsageError: the URL is not well.
        ConnectionFailed: there is no connection.
    """
    target = choose_target(url)
    try:
        session = find_engine(target.engine).connect(target, read_only=read_only, must_exist=True)
    except ConnectionFailed as error:
        if url is None and not os.environ.get(TARGET_VARIABLE):
            error.hint = f"no URL was given, nor ${TARGET_VARIABLE}, and this is the default: give the target's URL"
        raise
    session.tell_waits(log_warning)
    return session
