"""Whether a connection is one session for as long as it lives.

A pool between client and server (PgBouncer, and what clouds offer under a port of its own) may give each transaction
another of the server's sessions. What Tipple keeps in a session would then stay in one that is somebody else's next:
its settings, and the lock that says that a load lives, which nobody could take back. And two loads could believe that
they are alone.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
from psycopg.pq import ExecStatus

Connection = psycopg.Connection[Any]

TRIES = 5
WAIT_SECONDS = 5.0
"""How long another transaction may take to begin: it waits where each client keeps a session, and all are taken."""


def keeps_its_session(connection: Connection, another: Callable[[], Connection]) -> bool:
    """Whether all statements of `connection` reach the same session of the server.

    Where nothing is in between, the server's own process number tells so, and costs one question. A pool has numbers of
    its own; there, a transaction of another connection is begun, which gets the session that this one should have, or
    leaves it another one.

    Args:
        connection: in autocommit mode, with no transaction open.
        another: makes one more connection like it.

    Raises:
        psycopg.Error: `connection` is lost.
    """
    own = _process(connection)
    if own == connection.info.backend_pid:
        return True
    try:
        second = another()
    except psycopg.Error:
        return True  # there is no room for the load's streams either, which will be told
    with closing(second):
        for _ in range(TRIES):
            status, process = _begin(second)
            if status == ExecStatus.FATAL_ERROR:
                return False  # no transactions at all: each statement goes its own way
            if process is None:
                return True
            is_another = process == own or _process(connection) != own
            second.pgconn.exec_(b"ROLLBACK")
            if is_another:
                return False
            own = _process(connection)
    return True


def _process(connection: Connection) -> int | None:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return None if row is None else int(row[0])


def _begin(connection: Connection) -> tuple[ExecStatus | None, int | None]:
    """Begins a transaction: how that ended, and in which process of the server; nothing where it does not answer."""
    until = time.monotonic() + WAIT_SECONDS
    raw = connection.pgconn
    raw.send_query(b"BEGIN; SELECT pg_backend_pid()")
    status, process = None, None
    while True:
        while raw.is_busy():
            if not select.select([raw.socket], [], [], max(0.0, until - time.monotonic()))[0]:
                return None, None
            try:
                raw.consume_input()
            except psycopg.Error:
                return status, None  # who refuses may hang up too
        result = raw.get_result()
        if result is None:
            return status, process
        status = ExecStatus(result.status)
        if status == ExecStatus.TUPLES_OK:
            process = int(result.get_value(0, 0) or 0)
