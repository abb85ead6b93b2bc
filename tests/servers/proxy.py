"""A TCP proxy that breaks a PostgreSQL connection in a chosen way at a chosen moment.

Each connection has two threads, one per direction. What to break is set before or while traffic flows:

    cut_after(n)          reset the connection that carries the n-th byte from clients, counted over all
    blackhole_after(n)    from that byte on read nothing more, in either direction, but keep the sockets open
    drop_commit_reply(k)  let the k-th COMMIT reach the server and be executed, then reset instead of replying
    forget()              end the server's side of every open connection, and leave the client's silent
    refuse(True)          reset every new connection at once

Only plain connections are understood where COMMITs are to be found: not TLS.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType

CHUNK_BYTES = 64 * 1024
KEPT_BODY_BYTES = 4096
"""As much of a Query or Parse message as is looked at."""

POLL_SECONDS = 0.2

_COMMIT = re.compile(rb"(?:^|;)\s*(?:COMMIT|END)\b", re.IGNORECASE)
_COMMIT_DONE = b"C\x00\x00\x00\x0bCOMMIT\x00"
_REQUESTS_BEFORE_STARTUP = {80877103, 80877104}  # SSLRequest, GSSENCRequest: answered with one byte
_LINGER_RESET = struct.pack("ii", 1, 0)


class ClientMessages:
    """Follows the frontend's side of the protocol (PostgreSQL documentation, 55.7) and finds its COMMITs."""

    def __init__(self) -> None:
        self._started = False
        self._header = b""
        self._body = b""
        self._kind = b""
        self._left = 0
        self._commit_statements: set[bytes] = set()

    def feed(self, data: bytes) -> int:
        """How many COMMITs end within `data`."""
        commits = 0
        position = 0
        while position < len(data):
            if self._left == 0:
                need = (5 if self._started else 4) - len(self._header)
                self._header += data[position : position + need]
                position += need
                if len(self._header) < (5 if self._started else 4):
                    break
                self._kind = self._header[:-4]
                self._left = int.from_bytes(self._header[-4:], "big") - 4
                self._header = self._body = b""
            take = min(self._left, len(data) - position)
            if len(self._body) < KEPT_BODY_BYTES:
                self._body += data[position : position + min(take, KEPT_BODY_BYTES)]
            position += take
            self._left -= take
            if self._left == 0:
                commits += self._message()
        return commits

    def _message(self) -> int:
        if not self._started:
            self._started = int.from_bytes(self._body[:4], "big") not in _REQUESTS_BEFORE_STARTUP
            return 0
        if self._kind == b"Q":
            return int(_COMMIT.search(self._body.rstrip(b"\0")) is not None)
        if self._kind == b"P":
            name, _, rest = self._body.partition(b"\0")
            self._commit_statements.discard(name)
            if _COMMIT.search(rest.partition(b"\0")[0]):
                self._commit_statements.add(name)
            return 0
        if self._kind == b"B":
            statement = self._body.partition(b"\0")[2].partition(b"\0")[0]
            return int(statement in self._commit_statements)
        return 0


class _Connection:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.awaits_commit = threading.Event()
        self.closed = threading.Event()
        self.forgotten = threading.Event()
        self.messages = ClientMessages()
        self.threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._running = 2

    def reset(self) -> None:
        """Make both threads leave; the last one's close then sends the peers a reset."""
        self.closed.set()
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)

    def leave(self) -> None:
        """What each of the two threads does last. Closing sooner could give its number to another socket."""
        with self._lock:
            self._running -= 1
            last = self._running == 0
        if last:
            self.client.close()
            self.server.close()


class Proxy:
    """Listens on `host` and forwards to `upstream`; see the module for what it can break."""

    def __init__(self, upstream_port: int, upstream_host: str = "127.0.0.1", *, host: str = "127.0.0.1") -> None:
        self.upstream = (upstream_host, upstream_port)
        self._lock = threading.Lock()
        self._listener = socket.create_server((host, 0), backlog=64)
        self._listener.settimeout(POLL_SECONDS)
        self.port: int = self._listener.getsockname()[1]
        self._stopped = threading.Event()
        self._connections: list[_Connection] = []
        self._cut_at: int | None = None
        self._blackhole_at: int | None = None
        self._drop_commits: set[int] = set()
        self._refuse = False
        self.bytes_from_clients = 0
        self.connections = 0
        self.commits = 0
        self.broken = 0
        """How often something was cut, swallowed or dropped."""
        self.black = threading.Event()
        self._acceptor = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._acceptor.start()

    # ---- what to break -------------------------------------------------------------------------------------

    def cut_after(self, bytes_from_now: int | None) -> None:
        """Reset one connection after so many more bytes from clients; None takes that back."""
        with self._lock:
            self._cut_at = None if bytes_from_now is None else self.bytes_from_clients + bytes_from_now

    def blackhole_after(self, bytes_from_now: int | None) -> None:
        """Go silent after so many more bytes from clients; None makes traffic flow again."""
        with self._lock:
            self._blackhole_at = None if bytes_from_now is None else self.bytes_from_clients + bytes_from_now
            if bytes_from_now is None:
                self.black.clear()

    def drop_commit_reply(self, *ordinals: int) -> None:
        """Lose the reply to these COMMITs, counted from 1 over all connections from now on."""
        with self._lock:
            self._drop_commits = {self.commits + ordinal for ordinal in ordinals}

    def refuse(self, refused: bool) -> None:
        """Whether new connections are reset."""
        self._refuse = refused

    def forget(self, *, noticed: bool = True) -> None:
        """Do as a firewall that forgets what is open now, and a server that has `noticed` it: new connections work."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.forgotten.set()
            with contextlib.suppress(OSError):
                if noticed:
                    connection.server.shutdown(socket.SHUT_RDWR)

    def reset_all(self) -> None:
        """Reset every open connection now."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.reset()

    def close(self) -> None:
        """Reset everything and wait for the threads."""
        self._stopped.set()
        self._acceptor.join()
        self._listener.close()
        self.reset_all()
        for connection in self._connections:
            for thread in connection.threads:
                thread.join()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- traffic -------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            if self._refuse:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
                client.close()
                continue
            try:
                server = socket.create_connection(self.upstream, timeout=5)
            except OSError:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
                client.close()
                continue
            for end in (client, server):
                end.settimeout(POLL_SECONDS)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = _Connection(client, server)
            with self._lock:
                self.connections += 1
                self._connections.append(connection)
            for target in (self._upwards, self._downwards):
                thread = threading.Thread(target=_then_leave, args=(target, connection), name="proxy", daemon=True)
                connection.threads.append(thread)
            for thread in connection.threads:
                thread.start()

    def _upwards(self, connection: _Connection) -> None:
        while True:
            data = self._receive(connection, connection.client)
            if not data:
                connection.reset() if data is None else _half_close(connection.server)
                return
            commits = connection.messages.feed(data)
            with self._lock:
                before = self.bytes_from_clients
                self.bytes_from_clients += len(data)
                cut = self._cut_at is not None and self.bytes_from_clients > self._cut_at
                if cut:
                    assert self._cut_at is not None
                    data = data[: max(0, self._cut_at - before)]
                    self._cut_at = None
                    self.broken += 1
                if self._blackhole_at is not None and self.bytes_from_clients > self._blackhole_at:
                    if not self.black.is_set():
                        self.broken += 1
                    self.black.set()
                for _ in range(commits):
                    self.commits += 1
                    if self.commits in self._drop_commits:
                        connection.awaits_commit.set()
            if self.black.is_set():
                self._wait_while_black(connection)
            if not self._send(connection, connection.server, data) or cut:
                connection.reset()
                return

    def _downwards(self, connection: _Connection) -> None:
        swallowed = b""
        while True:
            data = self._receive(connection, connection.server)
            if connection.forgotten.is_set() and not connection.closed.is_set():
                continue
            if not data:
                # A server that goes away is seen by the client as it happens: a closed or a reset connection.
                connection.reset() if data is None else _half_close(connection.client)
                return
            if self.black.is_set():
                self._wait_while_black(connection)
            if connection.awaits_commit.is_set():
                swallowed += data
                if _COMMIT_DONE in swallowed or b"ROLLBACK\x00" in swallowed or swallowed.startswith(b"E"):
                    with self._lock:
                        self.broken += 1
                    connection.reset()
                    return
                continue
            if not self._send(connection, connection.client, data):
                connection.reset()
                return

    def _wait_while_black(self, connection: _Connection) -> None:
        while self.black.is_set() and not connection.closed.is_set() and not self._stopped.is_set():
            connection.closed.wait(POLL_SECONDS)

    def _receive(self, connection: _Connection, end: socket.socket) -> bytes | None:
        """The next bytes; empty when the peer closed; None when it was reset or we are closing."""
        while not connection.closed.is_set():
            if connection.forgotten.is_set():
                connection.closed.wait(POLL_SECONDS)
                continue
            if self.black.is_set():
                self._wait_while_black(connection)
                continue
            try:
                return end.recv(CHUNK_BYTES)
            except TimeoutError:
                continue
            except OSError:
                return None
        return None

    def _send(self, connection: _Connection, end: socket.socket, data: bytes) -> bool:
        view = memoryview(data)
        while view and not connection.closed.is_set():
            try:
                view = view[end.send(view) :]
            except TimeoutError:
                continue
            except OSError:
                return False
        return not connection.closed.is_set()


def _then_leave(pump: Callable[[_Connection], None], connection: _Connection) -> None:
    try:
        pump(connection)
    finally:
        connection.leave()


def _half_close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_WR)
