"""A connection pool in front of a server, as PgBouncer is one: it knows its clients by itself, and lends them sessions
of the server for a statement or a transaction each, or for as long as they stay.

What it does with a session that is given back is what PgBouncer does between transactions: nothing.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
from typing import Any, Literal

import psycopg

_REQUESTS_BEFORE_STARTUP = {80877103, 80877104}  # SSLRequest, GSSENCRequest: answered with one byte
_AUTHENTICATED = b"R\0\0\0\x08\0\0\0\0"
_KEY = b"K\0\0\0\x0c" + (77).to_bytes(4, "big") + b"key!"
"""BackendKeyData with a process number of the pool's own."""
_READY = b"Z\0\0\0\x05I"
_TOLD = (b"server_version", b"client_encoding", b"DateStyle", b"TimeZone", b"standard_conforming_strings")
_ANSWERED = {b"Q", b"S"}
"""Messages after which the server says when it is ready: Query and Sync."""
_REFUSAL = b"SFATAL\0C08P01\0Mtransaction blocks not allowed in statement pooling mode\0\0"
_REFUSED = b"E" + (len(_REFUSAL) + 4).to_bytes(4, "big") + _REFUSAL
CHUNK_BYTES = 1 << 16
SESSIONS = 3
"""So many are lent for transactions."""


class Pooler:
    """Listens on a port of its own until it is closed.

    Args:
        url: where the sessions are opened.
        mode: for how long a client keeps one.
    """

    def __init__(self, url: str, mode: Literal["statement", "transaction", "session"]) -> None:
        self._url = url
        self._mode = mode
        self._connections: list[psycopg.Connection[Any]] = []
        self._sessions: list[socket.socket] = []
        self._free: queue.LifoQueue[socket.socket] = queue.LifoQueue()
        for _ in range(SESSIONS):
            self._free.put(self._open())
        status = self._connections[0].pgconn.parameter_status
        told = [_message(b"S", name + b"\0" + (status(name) or b"") + b"\0") for name in _TOLD]
        self._greeting = b"".join([_AUTHENTICATED, *told, _KEY, _READY])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._clients: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def _open(self) -> socket.socket:
        connection = psycopg.connect(self._url, autocommit=True)
        self._connections.append(connection)
        session = socket.socket(fileno=os.dup(connection.pgconn.socket))
        session.setblocking(True)
        self._sessions.append(session)
        return session

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                serve = self._give if self._mode == "session" else self._lend
                thread = threading.Thread(target=serve, args=(client,), daemon=True)
                self._clients.append(client)
                self._threads.append(thread)
                thread.start()

    def _greet(self, client: socket.socket) -> None:
        while True:
            body = _exactly(client, int.from_bytes(_exactly(client, 4), "big") - 4)
            if int.from_bytes(body[:4], "big") not in _REQUESTS_BEFORE_STARTUP:
                break
            client.sendall(b"N")
        client.sendall(self._greeting)

    def _give(self, client: socket.socket) -> None:
        """A session for this client alone."""
        with contextlib.suppress(OSError, EOFError), client:
            self._greet(client)
            with self._open() as session:
                back = threading.Thread(target=_hand_on, args=(session, client), daemon=True)
                back.start()
                _hand_on(client, session)
                back.join()

    def _lend(self, client: socket.socket) -> None:
        """A session for each transaction, or none for those of several statements. COPY is not understood."""
        session: socket.socket | None = None
        with contextlib.suppress(OSError, EOFError), client:
            self._greet(client)
            asked = b""
            while True:
                kind, body = _read(client)
                if kind == b"X":
                    break
                asked += _message(kind, body)
                if kind not in _ANSWERED:
                    continue
                session = session or self._free.get()
                if self._mode == "statement" and b"BEGIN" in asked:
                    client.sendall(_REFUSED)
                    break
                session.sendall(asked)
                asked = b""
                while True:
                    kind, body = _read(session)
                    client.sendall(_message(kind, body))
                    if kind == b"Z":
                        break
                if body == b"I":
                    self._free.put(session)
                    session = None
        if session is not None:
            self._free.put(self._open())

    def close(self) -> None:
        """Ends all sessions, once no thread is left that would open another one."""
        _shut(self._listener)
        self._acceptor.join()
        self._listener.close()
        for client in self._clients:
            _shut(client)
        for thread in self._threads:
            thread.join()
        for opened in (*self._sessions, *self._connections):
            opened.close()


def _hand_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _shut(end: socket.socket) -> None:
    """Wakes whoever waits for it, which closing does not."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def _read(source: socket.socket) -> tuple[bytes, bytes]:
    kind = _exactly(source, 1)
    return kind, _exactly(source, int.from_bytes(_exactly(source, 4), "big") - 4)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        got = source.recv(size - len(data))
        if not got:
            raise EOFError
        data += got
    return data
