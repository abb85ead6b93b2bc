"""Errors of psycopg's as they are judged: the server's own, whatever language it speaks."""

from __future__ import annotations

import psycopg

from tipple.engines.server_errors import ServerError

__all__ = ["server_error"]


def server_error(error: psycopg.Error) -> ServerError:
    """The server's error behind one of psycopg's; with no code where it is none."""
    told = error.diag
    return ServerError(
        error.sqlstate,
        told.message_primary or "",
        told.message_detail or "",
        told.source_function,
        told.constraint_name,
    )
