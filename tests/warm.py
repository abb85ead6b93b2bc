"""Starts commands by forking a process that has imported everything already.

More than half of what a small load takes is Python's start and its imports, DuckDB's above all, and a test run starts
thousands. A forked command is still a process of its own, with its own files, directory and variables; what it does
not show is the start itself, so tests that signal, watch or limit a command start it as a user does
(`command.start_tipple`).
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MESSAGE_BYTES = 1 << 18
"""No request or answer is longer: the words and variables of a command."""
GONE = "the process that forks commands has ended"

_TESTS = Path(__file__).parent


class Forked:
    """A command that was forked: as much of `subprocess.Popen` as `command.Command` needs."""

    def __init__(self, channel: socket.socket, lock: threading.Lock, pid: int) -> None:
        self._channel, self._lock = channel, lock
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self._channel.settimeout(timeout)
            try:
                answer = self._channel.recv(MESSAGE_BYTES)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("tipple", timeout or 0) from None
            assert answer, GONE
            self.returncode = int(answer)
            self._lock.release()
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        # It is waited for by the process that forked it, and that one answers us at once: the number is not another's.
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forker:
    """The process that forks commands, one at a time."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with tempfile.TemporaryFile() as output:
            # Files, as a command's own are: Python buffers what goes to a terminal otherwise.
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
            )
        theirs.close()

    def start(
        self, words: list[str], variables: Mapping[str, str], directory: Path | None, out: Any, err: Any
    ) -> Forked | None:
        """Forks `tipple WORDS`; None while another one runs."""
        if not self._lock.acquire(blocking=False):
            return None
        request = {"words": words, "variables": dict(variables), "directory": str(directory or Path.cwd())}
        self._channel.settimeout(None)
        socket.send_fds(self._channel, [json.dumps(request).encode()], [out.fileno(), err.fileno()])
        answer = self._channel.recv(MESSAGE_BYTES)
        assert answer, GONE
        return Forked(self._channel, self._lock, int(answer))


_forker: tuple[int, Forker] | None = None


def forker() -> Forker:
    """This process's, made at first use: two test workers, or one that was forked, share none."""
    global _forker
    if _forker is None or _forker[0] != os.getpid():
        _forker = os.getpid(), Forker()
    return _forker[1]


def _serve(channel: socket.socket) -> None:
    """Forks what is asked for, until nobody is there to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 2)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            channel.close()
            _become(json.loads(message), files)
        for file in files:
            os.close(file)
        channel.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: dict[str, Any], files: list[int]) -> None:
    """Turns this process into a command, as exec would, and runs it to its end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for standard, file in enumerate(files, start=1):
        os.dup2(file, standard)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["variables"])
    os.chdir(request["directory"])
    from tipple.cli import main

    main(request["words"])


def _import_all() -> None:
    """Everything that a command may import on its way."""
    tipple = importlib.import_module("tipple")
    own = [module.name for module in pkgutil.walk_packages(tipple.__path__, "tipple.")]
    for name in ("duckdb", "psycopg", "rich.live", *own):
        if not name.endswith("__main__"):
            importlib.import_module(name)


if __name__ == "__main__":
    # As `python -m tipple` has it: what is beside this file is no module of a command.
    sys.path.remove(str(_TESTS))
    _import_all()
    _serve(socket.socket(fileno=int(sys.argv[1])))
