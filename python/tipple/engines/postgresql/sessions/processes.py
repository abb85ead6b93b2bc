"""Which process owns a job, and whether it is surely dead.

Its number alone says little: in a container, or on another machine of the same name, it is another process's, and who
may not see a process must not take it for one that has ended. So the ledger has of each what makes the number
unmistakable, and the system is asked by a signal, which finds also what `/proc` hides (`hidepid` of proc(5),
`ProtectProc` of systemd.exec(5)). Where anything is not known, the process is alive.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

__all__ = ["is_surely_dead", "this_process"]

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACES = ("pid", "time")
"""By these a process is numbered, and its beginning is told (namespaces(7))."""
_STARTED_AT = 19
"""Field 22 of proc_pid_stat(5), counted from behind the name, which may hold anything."""


def this_process() -> str:
    """What the ledger has of this process: `host:number:numbered_where:started_at`, or the first two, where the system
    does not tell more."""
    note = [socket.gethostname(), str(os.getpid())]
    with suppress(OSError):
        note += [_numbered_where(), _started_at("self")]
    return ":".join(note)


def is_surely_dead(note: str) -> bool:
    """Whether the process of which the ledger has this note has ended."""
    host, *facts = note.rsplit(":", 3)
    if len(facts) != 3 or host != socket.gethostname():
        return False
    number, numbered_where, started_at = facts
    try:
        if numbered_where != _numbered_where():
            return False
        with suppress(PermissionError):
            os.kill(int(number), 0)
        # Else another one has the number by now.
        return _started_at(number) != started_at
    except ProcessLookupError:
        return True
    except OSError:
        # It is there, and its beginning is hidden.
        return False


def _numbered_where() -> str:
    """The start of the machine and the namespaces within which numbers of processes are this one's.

    Raises:
        OSError: the system does not tell.
    """
    if os.readlink("/proc/self") != str(os.getpid()):
        raise OSError("/proc shows the processes of another namespace")
    namespaces = (str(os.stat(f"/proc/self/ns/{kind}").st_ino) for kind in _NAMESPACES)
    return "/".join([_BOOT.read_text().strip(), *namespaces])


def _started_at(number: str) -> str:
    """When a process was started, in ticks since the machine was."""
    return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[_STARTED_AT]
