"""A link of so many bytes a second to a server: what a network between two machines carries, on one."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import threading
import time
from collections.abc import Iterator

CHUNK_BYTES = 128 * 1024
HOST = "127.0.0.2"
"""Of this machine, but not one of the addresses by which Tipple knows its own."""


class _Limit:
    """Makes senders wait, so that all of them together send no more than so many bytes a second."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._free_at = 0.0
        self._lock = threading.Lock()

    def pass_on(self, count: int) -> None:
        if self._rate is None:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + count / self._rate
            wait = self._free_at - now
        if wait > 0.001:
            time.sleep(wait)


def _copy(source: socket.socket, sink: socket.socket, limit: _Limit) -> None:
    buffer = memoryview(bytearray(CHUNK_BYTES))
    with contextlib.suppress(OSError):
        while count := source.recv_into(buffer):
            limit.pass_on(count)
            sink.sendall(buffer[:count])
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, server_port: int, rate: float | None) -> None:
    there, back = _Limit(rate), _Limit(None)
    while True:
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", server_port))
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for arguments in ((client, server, there), (server, client, back)):
            threading.Thread(target=_copy, args=arguments, daemon=True).start()


@contextlib.contextmanager
def narrow_link(server_port: int, rate: float | None) -> Iterator[int]:
    """The port, on `HOST`, behind which a process of its own sends `rate` bytes a second to a server of this machine;
    None: as many as it can."""
    with socket.create_server((HOST, 0), backlog=64) as listener:
        process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(listener, server_port, rate), daemon=True
        )
        process.start()
        try:
            yield listener.getsockname()[1]
        finally:
            process.kill()
            process.join()
