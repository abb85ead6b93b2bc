"""Runs commands and says what they cost: wall time, CPU of clients, of the server, and of everybody else.

What everybody else used is there to judge a result by: a figure from a machine that was busy with other work
is worth nothing.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_FOREIGN_VARIABLES = ("PG", "TIPPLE_", "PYTHONDONTWRITEBYTECODE")

Command = list[str]


class BenchmarkError(Exception):
    """Something that makes the benchmark's figures impossible or wrong."""


@dataclass
class Sample:
    """One run of one contestant. CPU is in seconds."""

    seconds: float
    client_cpu: float
    server_cpu: float | None = None
    other_cpu: float = 0.0
    """What neither client nor server used: other programs, and the kernel's own threads."""
    phases: dict[str, float] = field(default_factory=dict)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def tipple_command(*words: str) -> Command:
    """The words that start the `tipple` of this environment."""
    return [str(Path(sys.executable).parent / "tipple"), *words]


def on_core(cpus: Iterable[int], command: Command) -> Command:
    """The same command, on some cores only."""
    return ["taskset", "--cpu-list", ",".join(map(str, cpus)), *command]


def environment() -> dict[str, str]:
    """This environment without the variables that change what psql or Tipple do.

    What is installed has its bytecode beside it, so Tipple has it here.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN_VARIABLES)}
    return kept | {"PGPASSFILE": "/nonexistent", "PSQLRC": "/nonexistent"}


def run_together(
    commands: Sequence[Command], *, postmaster: int | None = None, accepted: Sequence[int] = (0,)
) -> Sample:
    """Start all commands at once and wait for all.

    Args:
        commands: what to run.
        postmaster: process whose children are the server; its CPU is counted apart.
        accepted: exit statuses that mean success.

    Raises:
        BenchmarkError: one of them failed; the message has what it printed.
    """
    with tempfile.TemporaryFile() as output:
        busy = _busy_cpu()
        server = server_cpu(postmaster) if postmaster else None
        variables = environment()
        begun = time.monotonic()
        children = [
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=variables)
            for command in commands
        ]
        client_cpu = 0.0
        failed = []
        for child in children:
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            client_cpu += usage.ru_utime + usage.ru_stime
            if child.returncode not in accepted:
                failed.append(child)
        seconds = time.monotonic() - begun
        if failed:
            output.seek(0)
            text = output.read()[-3000:].decode(errors="replace")
            raise BenchmarkError(f"exit status {failed[0].returncode} of {failed[0].args!r}:\n{text}")
        sample = Sample(seconds, client_cpu)
        if postmaster and server is not None:
            sample.server_cpu = server_cpu(postmaster) - server
        sample.other_cpu = max(0.0, _busy_cpu() - busy - client_cpu - (sample.server_cpu or 0.0))
        return sample


@contextlib.contextmanager
def confined(number: int | None, postmaster: int | None) -> Iterator[None]:
    """Has what is started meanwhile, and a server, run on so many cores only; on all with None."""
    if number is None:
        yield
        return
    all_cores = os.sched_getaffinity(0)
    some = set(sorted(all_cores)[:number])
    _confine(some, postmaster)
    try:
        yield
    finally:
        _confine(all_cores, postmaster)


def _confine(cpus: set[int], postmaster: int | None) -> None:
    os.sched_setaffinity(0, cpus)
    if postmaster is not None:
        keep_server_on(cpus, postmaster)


def keep_server_on(cpus: Iterable[int], postmaster: int) -> None:
    """Has a server run on some cores only; what it starts later does too."""
    for pid in (postmaster, *_children(postmaster)):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(pid, cpus)


def median_of(samples: Sequence[Sample], value: Callable[[Sample], float | None]) -> float | None:
    """The median of one property; None where a sample lacks it."""
    values = [value(sample) for sample in samples]
    known = [entry for entry in values if entry is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def server_cpu(postmaster: int) -> float:
    """CPU seconds that a PostgreSQL server has used so far, in processes that run and in those that ended."""
    while True:
        before = _stat(postmaster)
        living = 0
        for child in _children(postmaster):
            fields = _stat(child)
            living += int(fields[11]) + int(fields[12]) if fields else 0
        after = _stat(postmaster)
        if not after:
            raise BenchmarkError("the server is gone")
        # Times of an ended child move to its parent. Had one ended meanwhile it could be missing, or be twice here.
        if before and before[13:15] == after[13:15]:
            return (living + sum(map(int, after[11:15]))) / _TICKS


def _children(pid: int) -> list[int]:
    numbers = [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]
    return [number for number in numbers if (_stat(number) or ["", "0"])[1] == str(pid)]


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty where the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _busy_cpu() -> float:
    """CPU seconds that this machine has been busy, without idling and waiting for disks."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _wait, interrupt, soft, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + interrupt + soft + steal) / _TICKS
