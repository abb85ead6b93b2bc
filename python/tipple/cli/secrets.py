"""Keeps passwords out of the process list.

Whoever writes a password into a URL on the command line shows it to every user of the machine for as long as the
command runs. So such a command starts itself once more, with the password in an environment variable, which only its
own user can read, and a URL without it in its arguments.
"""

from __future__ import annotations

import os
import re
import sys

from tipple.plan.url import redact_postgresql_url

_VARIABLE = "TIPPLE_URL_{}"
_BEFORE = r"(?P<before>(?:--[a-z]+=)?(?:[A-Za-z_][\w-]*=)?)"
"""An option (`--into=URL`), a variable (`--set into=URL`), or both."""
_MARK = re.compile(rf"^{_BEFORE}\$TIPPLE_URL_(?P<number>\d+)$")
_URL = re.compile(rf"^{_BEFORE}\s*(?P<url>(?:postgres(?:ql)?|mssql)://.*)", re.IGNORECASE | re.DOTALL)


def hide(arguments: list[str]) -> None:
    """Starts the command again without the passwords in `arguments`; returns where there are none."""
    hidden = list(arguments)
    environment = dict(os.environ)
    for index, argument in enumerate(arguments):
        found = _URL.match(argument)
        if found is None or redact_postgresql_url(found["url"]) == found["url"]:
            continue
        environment[_VARIABLE.format(index)] = argument.removeprefix(found["before"])
        hidden[index] = f"{found['before']}${_VARIABLE.format(index)}"
    if hidden != arguments:
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
