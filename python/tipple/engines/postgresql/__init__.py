"""PostgreSQL 15 to 18: streams of COPY, control by psycopg."""

from __future__ import annotations

from collections.abc import Mapping

from tipple.engines.base import Session
from tipple.engines.postgresql.capabilities import CAPABILITIES as capabilities
from tipple.plan.url import Target


def connect(target: Target, settings: Mapping[str, str]) -> Session:
    """Connects for control.

    Raises:
        ConnectionFailed: no connection comes about.
    """
    from tipple.engines.postgresql.session import PostgresSession

    return PostgresSession(target, settings)


__all__ = ["capabilities", "connect"]
