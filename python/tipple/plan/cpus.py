"""`--pin-cpus`: which processors the streams' threads run on. Pure text."""

from __future__ import annotations

import re
from collections.abc import Collection

from tipple.errors import UsageError

__all__ = ["format_cpus", "parse_cpus"]

_PART = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?", re.ASCII)


def parse_cpus(text: str, allowed: Collection[int]) -> tuple[int, ...]:
    """The processors of a list such as `0-3,8`, in its order: as taskset and the kernel's cpu lists write them.

    Args:
        text: the list.
        allowed: the processors that this process may use.

    Raises:
        UsageError: no list of processors, or one that names the same twice or one that is not allowed.
    """
    cpus: list[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if first > last:
            raise UsageError(f"--pin-cpus: {text!r} is not a list of CPUs", hint="for example --pin-cpus 0-3,8")
        # Not expanded before it is known to be sensible: 0-999999 would be a long list.
        refused = next((cpu for cpu in range(first, last + 1) if cpu not in allowed), None)
        if refused is not None:
            raise UsageError(
                f"--pin-cpus: this process may not use CPU {refused}",
                hint=f"it may use {format_cpus(allowed)}; see taskset -p and the container's cpuset",
            )
        cpus.extend(range(first, last + 1))
    repeated = next((cpu for cpu in cpus if cpus.count(cpu) > 1), None)
    if repeated is not None:
        raise UsageError(f"--pin-cpus: CPU {repeated} is named twice", hint="name each CPU once")
    return tuple(cpus)


def format_cpus(cpus: Collection[int]) -> str:
    """`0-3,8`: the shortest list of these processors, in their order of number."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
