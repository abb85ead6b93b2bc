"""Keeps passwords out of the process list.

Whoever writes a password into a URL on the command line shows it to every user of the machine for as long as the
command runs. So such a command starts itself once more, with the password in an environment variable, which only its
own user can read, and a URL without it in its arguments.
"""

from __future__ import annotations

import os
import re
import sys

_VARIABLE = "TIPPLE_URL_{}"
_BEFORE = r"(?P<before>(?:--[a-z]+=)?(?:[A-Za-z_][\w-]*=)?)"
"""An option (`--into=URL`), a variable (`--set into=URL`), or both."""
_MARK = re.compile(rf"^{_BEFORE}\$TIPPLE_URL_(?P<number>\d+)$")
_SECRET_URL = re.compile(
    rf"^{_BEFORE}(postgres(?:ql)?|mssql)://([^/?#]*:[^/?#]*@|.*[?&](ssl)?password=)", re.IGNORECASE
)


def hide(arguments: list[str]) -> None:
    """Starts the command again without the passwords in `arguments`; returns where there are none."""
    hidden = list(arguments)
    environment = dict(os.environ)
    for index, argument in enumerate(arguments):
        found = _SECRET_URL.match(argument)
        if found is None:
            continue
        environment[_VARIABLE.format(index)] = argument.removeprefix(found["before"])
        hidden[index] = f"{found['before']}${_VARIABLE.format(index)}"
    if hidden != arguments:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, [sys.executable, "-m", "tipple", *hidden], environment)


def reveal(arguments: list[str]) -> list[str]:
    """The arguments as they were typed."""
    revealed = []
    for argument in arguments:
        mark = _MARK.match(argument)
        url = os.environ.pop(_VARIABLE.format(mark["number"]), None) if mark else None
        revealed.append(argument if mark is None or url is None else f"{mark['before']}{url}")
    return revealed
