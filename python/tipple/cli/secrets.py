"""Keeps passwords out of the process list.

Whoever writes a password into a URL on the command line shows it to every user of the machine for as long as the
command runs. So such a command writes over the place that the process list is read from. Where the system does not
allow that, it starts itself once more, with the URL in an environment variable, which only its own user can read.
"""

from __future__ import annotations

import os
import re
import sys

from tipple.plan.url import redact_postgresql_url

_PROCESS = "/proc/self"
_ARG_START = 45
"""Where the arguments lie in memory: which field of /proc/PID/stat behind the name (proc_pid_stat(5), field 48)."""

_VARIABLE = "TIPPLE_URL_{}"
_BEFORE = r"(?P<before>(?:--[a-z]+=)?(?:[A-Za-z_][\w-]*=)?)"
"""An option (`--into=URL`), a variable (`--set into=URL`), or both."""
_MARK = re.compile(rf"^{_BEFORE}\$TIPPLE_URL_(?P<number>\d+)$")
_URL = re.compile(rf"^{_BEFORE}\s*(?P<url>(?:postgres(?:ql)?|mssql)://.*)", re.IGNORECASE | re.DOTALL)


def hide(arguments: list[str]) -> None:
    """Takes the passwords in `arguments` out of the process list; may start the command again without them."""
    shown = [_redacted(argument) for argument in arguments]
    if shown != arguments and not _write_over(arguments, shown):
        _start_again(arguments)


def _redacted(argument: str) -> str:
    found = _URL.match(argument)
    return argument if found is None else argument[: found.start("url")] + redact_postgresql_url(found["url"])


def _write_over(arguments: list[str], shown: list[str]) -> bool:
    """Writes what may be shown over the arguments in memory; False where that cannot be done."""
    words = [(os.fsencode(old), os.fsencode(new)) for old, new in zip(arguments, shown, strict=True)]
    before = b"".join(old + b"\0" for old, _ in words)
    after = b"".join(new[: len(old)].ljust(len(old) + 1, b"\0") for old, new in words)
    try:
        held = _read("cmdline")
        if not held.endswith(before):
            return False
        begin = int(_read("stat").rpartition(b")")[2].split()[_ARG_START])
        with open(f"{_PROCESS}/mem", "r+b", buffering=0) as memory:
            memory.seek(begin + len(held) - len(before))
            memory.write(after)
        return _read("cmdline").endswith(after)
    except (OSError, ValueError, IndexError):
        return False


def _read(name: str) -> bytes:
    with open(f"{_PROCESS}/{name}", "rb") as file:
        return file.read()


def _start_again(arguments: list[str]) -> None:
    hidden = list(arguments)
    environment = dict(os.environ)
    for index, argument in enumerate(arguments):
        found = _URL.match(argument)
        if found is None or _redacted(argument) == argument:
            continue
        environment[_VARIABLE.format(index)] = argument.removeprefix(found["before"])
        hidden[index] = f"{found['before']}${_VARIABLE.format(index)}"
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *_beginning(arguments), *hidden], environment)


def _beginning(arguments: list[str]) -> list[str]:
    """What stands before the arguments: the interpreter's own options, and the script or module as it was called.

    `-m tipple` in place of the script would have Python look for its modules in the working directory first.
    """
    started = sys.orig_argv[1:]
    if started[-len(arguments) :] == arguments:
        return started[: -len(arguments)]
    # Somebody calls the command line from a program of theirs.
    return ["-P", "-m", "tipple"]


def reveal(arguments: list[str]) -> list[str]:
    """The arguments as they were typed."""
    revealed = []
    for argument in arguments:
        mark = _MARK.match(argument)
        url = os.environ.pop(_VARIABLE.format(mark["number"]), None) if mark else None
        revealed.append(argument if mark is None or url is None else f"{mark['before']}{url}")
    return revealed
