"""Runs the command line as its users do: as a process of its own, with an environment of its own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warm import Forked, forker

TIMEOUT_SECONDS = 120.0
"""Longest run of a command before the test fails: nothing hangs for ever."""

VERBS_WITH_SUMMARY = {"load", "run"}

SUMMARY_PREFIX = "tipple-summary-"
"""What the names of our own summary files begin with; they are removed when they are read."""

FOREIGN_VARIABLES = ("PG", "TIPPLE_")
"""Variables with these prefixes change what a command does and so must not leak in from outside."""


@dataclass
class Run:
    """One finished command."""

    arguments: list[str]
    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    summary: dict[str, Any] | None = None
    """What --summary wrote, parsed; None where it wrote nothing."""

    @property
    def output(self) -> str:
        """Everything that was printed."""
        return self.stdout + self.stderr

    def __str__(self) -> str:
        return (
            f"$ tipple {shlex.join(self.arguments)}\nexit {self.exit_code} after {self.seconds:.1f} s\n"
            f"--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}\n--- summary\n{self.summary}"
        )


def environment(extra: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """This process's environment without PG* and TIPPLE_*, then `extra` (None removes a variable)."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN_VARIABLES)}
    variables["PGPASSFILE"] = "/nonexistent/pgpass"
    variables["PGSERVICEFILE"] = "/nonexistent/pg_service.conf"
    for name, value in (extra or {}).items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    return variables


under_way: list[Command] = []
"""Every command that nobody has waited for yet."""


@dataclass(eq=False)
class Command:
    """A command that is running. `wait` ends it in any case."""

    arguments: list[str]
    process: subprocess.Popen[bytes] | Forked
    started: float
    summary_file: Path | None
    _out: Any = field(repr=False)
    _err: Any = field(repr=False)
    _run: Run | None = field(default=None, repr=False)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the command, as a terminal or `kill` would."""
        self.process.send_signal(number)

    def stderr_so_far(self) -> str:
        return _read(self._err)

    def wait(self, timeout: float = TIMEOUT_SECONDS) -> Run:
        """Wait for the end; again, if need be.

        Raises:
            AssertionError: it did not end in time; it is killed then.
        """
        if self._run is not None:
            return self._run
        late = False
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            late = True
            self.process.kill()
            self.process.wait()
        seconds = time.monotonic() - self.started
        summary = None
        if self.summary_file is not None and self.summary_file.exists():
            text = self.summary_file.read_text()
            summary = json.loads(text) if text else None
            if isinstance(summary, dict) and "tipple_failure_version" in summary:
                # It says why there is none.
                summary = None
            if self.summary_file.name.startswith(SUMMARY_PREFIX):
                self.summary_file.unlink()
        self._run = Run(self.arguments, self.process.returncode, _read(self._out), _read(self._err), seconds, summary)
        self._out.close()
        self._err.close()
        under_way.remove(self)
        assert not late, f"still running after {timeout} s:\n{self._run}"
        return self._run

    def kill(self) -> Run:
        """End it now, unless it has ended."""
        self.process.kill()
        return self.wait()


def start_tipple(
    *arguments: object,
    env: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
    new_session: bool = False,
    **popen: Any,
) -> Command:
    """Start `tipple ARGUMENTS` without waiting. `--summary` is added to the verbs that have it."""
    prepared = _Prepared(arguments, cwd)
    return prepared.started(prepared.start(env, start_new_session=new_session, **popen))


class _Prepared:
    """A command that is about to be started: its words, and where its output goes."""

    def __init__(self, arguments: tuple[object, ...], cwd: Path | None) -> None:
        words = [str(argument) for argument in arguments]
        self.summary_file: Path | None = None
        if words and words[0] in VERBS_WITH_SUMMARY and "--help" not in words:
            if "--summary" in words:
                self.summary_file = (cwd or Path.cwd()) / words[words.index("--summary") + 1]
            else:
                handle, name = tempfile.mkstemp(prefix=SUMMARY_PREFIX, suffix=".json")
                os.close(handle)
                self.summary_file = Path(name)
                self.summary_file.unlink()
                words += ["--summary", name]
        self.words = words
        self.directory = cwd
        # Files and not pipes: nothing blocks, whatever is printed, and it can be read while the command runs.
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115

    def start(self, env: Mapping[str, str | None] | None, **popen: Any) -> subprocess.Popen[bytes]:
        """Starts it as a user does."""
        return subprocess.Popen(
            [sys.executable, "-m", "tipple", *self.words],
            stdout=self.out,
            stderr=self.err,
            env=environment(env),
            cwd=self.directory,
            **{"stdin": subprocess.DEVNULL, **popen},
        )

    def fork(self, env: Mapping[str, str | None] | None) -> Forked | None:
        """Starts it in a fraction of the time; None while another one runs."""
        return forker().start(self.words, environment(env), self.directory, self.out, self.err)

    def started(self, process: subprocess.Popen[bytes] | Forked) -> Command:
        command = Command(self.words, process, time.monotonic(), self.summary_file, self.out, self.err)
        under_way.append(command)
        return command


def run_tipple(
    *arguments: object,
    env: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
    timeout: float = TIMEOUT_SECONDS,
    check: bool | int = True,
    **popen: Any,
) -> Run:
    """Run `tipple ARGUMENTS` to its end.

    Args:
        arguments: words of the command line; paths and numbers are turned into text.
        env: changes to the environment; None removes a variable.
        cwd: working directory.
        timeout: seconds after which the test fails.
        check: True expects exit status 0, a number expects that one, False expects nothing.
        popen: further arguments of subprocess.Popen.
    """
    prepared = _Prepared(arguments, cwd)
    # What Python and the C library look at when they start cannot be changed in a process that has.
    at_start = popen or any(not name.startswith(FOREIGN_VARIABLES) for name in env or {})
    forked = None if at_start else prepared.fork(env)
    command = prepared.started(forked or prepared.start(env, **popen))
    run = command.wait(timeout)
    if check is not False:
        expected = 0 if check is True else check
        assert run.exit_code == expected, f"expected exit status {expected}\n{run}"
        assert "Traceback (most recent call last)" not in run.stderr, str(run)
    return run


def _read(file: Any) -> str:
    file.seek(0, os.SEEK_END)
    size = file.tell()
    return os.pread(file.fileno(), size, 0).decode(errors="replace")
