"""Watches the control sessions of a load while they wait for an answer.

An answer may take hours, an index's for example, and libpq waits for it without end: also where the server stands
still, a firewall has forgotten the connection, or somebody else's lock is in the way. So a thread asks the server by
another connection how it is. A server that answers nobody within the time allowed has its connections given up, and the
load takes that as it takes any lost connection.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus

from tipple.engines.postgresql.connection import open_session
from tipple.engines.postgresql.sessions.blockers import OF_SESSIONS, Blockers
from tipple.plan.url import Target

__all__ = ["Watch"]

POLL_SECONDS = 0.5
QUIET_SECONDS = 3.0
"""Answers that come sooner are nobody's business."""
ASK_SECONDS = 5.0
"""Between two questions; each time that the server has answered, twice as long as the time before."""
MOST_ASK_SECONDS = 60.0
"""An index may take hours, and every question is a line in a server's log."""
SHORTEST_SECONDS = 2
"""libpq takes no shorter time for connecting."""
LONGEST_SECONDS = 10
"""So long a question to the server may take before it is put again."""
FORGOTTEN_SECONDS = 30.0
"""A session that has done nothing for so long, while it is waited for, has sent an answer that was lost."""


class Watch:
    """A thread, from `__enter__` to `__exit__`."""

    def __init__(self, target: Target, stall_seconds: float, blockers: Blockers) -> None:
        """
        Args:
            target: the server.
            stall_seconds: after which a server that answers nobody is given up.
            blockers: is told whom the server says that they wait for, from a thread of its own.
        """
        self._target = target
        self._stall_seconds = stall_seconds
        self._blockers = blockers
        self._connections: weakref.WeakKeyDictionary[psycopg.Connection[Any], int] = weakref.WeakKeyDictionary()
        """Those that are watched, with the numbers of their sessions."""
        self._started_at = ""
        """When their server was: behind one address there may be several."""
        self._waiting_since: dict[int, float] = {}
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="tipple-watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # It may be in the middle of a question to a server that does not answer: it ends by itself.
        self._ended.set()

    def add(self, connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
        """Watches a connection, which is at rest, too; gives it back. If it is lost, its next statement will tell."""
        with contextlib.suppress(psycopg.Error):
            # A pool in between has numbers of its own.
            found = connection.execute("SELECT pg_backend_pid(), pg_postmaster_start_time()::text").fetchone()
            if found is not None:
                with self._lock:
                    self._connections[connection], self._started_at = found
        return connection

    def _run(self) -> None:
        asked, pause = 0.0, ASK_SECONDS
        silent_since: float | None = None
        while not self._ended.wait(POLL_SECONDS):
            now = time.monotonic()
            waiting = self._waiting(now)
            if not waiting:
                pause, silent_since = ASK_SECONDS, None
                continue
            if now - asked < pause:
                continue
            found = self._ask(waiting)
            asked = time.monotonic()
            if self._ended.is_set():
                return
            if found is not None:
                pause, silent_since = min(2 * pause, MOST_ASK_SECONDS), None
                self._look_at(found, waiting)
                continue
            pause, silent_since = ASK_SECONDS, silent_since or now
            silent_seconds = asked - silent_since
            if silent_seconds >= self._stall_seconds:
                self._blockers.warn(f"the server has answered nobody for {silent_seconds:.0f} s: no longer waited for")
                for connection in waiting.values():
                    _sever(connection)
                silent_since = None

    def _waiting(self, now: float) -> dict[int, psycopg.Connection[Any]]:
        """Those that have waited for an answer for a while, by the numbers of their sessions."""
        with self._lock:
            connections = {pid: connection for connection, pid in self._connections.items()}
        active = {pid for pid, connection in connections.items() if _is_waiting(connection)}
        self._waiting_since = {pid: self._waiting_since.get(pid, now) for pid in active}
        return {pid: connections[pid] for pid, since in self._waiting_since.items() if now - since >= QUIET_SECONDS}

    def _ask(self, waiting: dict[int, psycopg.Connection[Any]]) -> list[tuple[Any, ...]] | None:
        """What the server says of these sessions, nothing where it lets nobody in; None without an answer."""
        seconds = min(max(int(self._stall_seconds / 3), SHORTEST_SECONDS), LONGEST_SECONDS)
        try:
            with contextlib.closing(_another(self._target, next(iter(waiting.values())), seconds)) as connection:
                return _answer(connection, OF_SESSIONS % ", ".join(map(str, waiting)), seconds)
        except psycopg.Error as error:
            # What the server itself says is that, whatever it is: `FATAL:  sorry, too many clients already`.
            return [] if ":  " in str(error) else None

    def _look_at(self, found: Sequence[tuple[Any, ...]], waiting: dict[int, psycopg.Connection[Any]]) -> None:
        for pid, started_at, is_lacking, state, seconds, event, *holder in found:
            if started_at != self._started_at:
                # Another server, which knows nothing of them.
                return
            is_forgotten = str(state).startswith("idle") and seconds is not None and seconds > FORGOTTEN_SECONDS
            if (is_lacking or is_forgotten) and _is_waiting(waiting[pid]):
                self._blockers.warn(
                    f"the server knows nothing of what session {pid} is asked: its connection is given up"
                )
                _sever(waiting[pid])
            else:
                self._blockers.say_of_event(event)
                if holder[0] not in waiting:
                    self._blockers.say([holder])


def _another(target: Target, like: psycopg.Connection[Any], seconds: int) -> psycopg.Connection[Any]:
    """A connection to the very server that `like` has, of several in the URL."""
    info = like.info
    place: dict[str, Any] = {"host": info.host, "hostaddr": info.hostaddr, "port": info.port, "password": info.password}
    return open_session(
        target.location,
        connect_timeout=seconds,
        application_name="tipple",
        **{key: value for key, value in place.items() if value},
    )


def _answer(connection: psycopg.Connection[Any], query: str, seconds: float) -> list[tuple[Any, ...]] | None:
    """The rows of a query; None where they do not come in time."""
    server, until = connection.pgconn, time.monotonic() + seconds
    server.send_query(query.encode())
    poll = select.poll()
    poll.register(server.socket, select.POLLIN)
    while server.is_busy():
        if not poll.poll(max(until - time.monotonic(), 0) * 1000):
            return None
        server.consume_input()
    result = server.get_result()
    if result is None or result.status != ExecStatus.TUPLES_OK:
        return []
    loader = psycopg.adapt.Transformer(connection)
    loader.set_pgresult(result)
    return loader.load_rows(0, result.ntuples, tuple)


def _is_waiting(connection: psycopg.Connection[Any]) -> bool:
    return not connection.closed and connection.pgconn.transaction_status == TransactionStatus.ACTIVE


def _sever(connection: psycopg.Connection[Any]) -> None:
    """Has whoever waits for an answer learn that none will come."""
    with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as copy:
        copy.shutdown(socket.SHUT_RDWR)
