"""PostgreSQL 15 to 18: streams of COPY, control by psycopg."""

from __future__ import annotations

from collections.abc import Sequence

from tipple.engines.base import Session
from tipple.engines.postgresql.capabilities import CAPABILITIES as capabilities
from tipple.importing import uninterrupted
from tipple.plan.url import Target


def connect(target: Target, *, read_only: bool = False, must_exist: bool = False) -> Session:
    """Connects for control; a server creates no database, and a plan writes nothing anyway.

    Raises:
        ConnectionFailed: no connection comes about.
    """
    with uninterrupted():
        from tipple.engines.postgresql.session import PostgresSession

    return PostgresSession(target)


def files(target: Target) -> Sequence[str]:
    """A server's files are its own."""
    return ()


__all__ = ["capabilities", "connect", "files"]
