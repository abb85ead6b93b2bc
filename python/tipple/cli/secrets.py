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
_MARK = re.compile(r"^(?P<option>--[a-z]+=)?\$TIPPLE_URL_(?P<number>\d+)$")
_SECRET_URL = re.compile(
    r"^(--[a-z]+=)?(postgres(?:ql)?|mssql)://([^/?#]*:[^/?#]*@|.*[?&](ssl)?password=)", re.IGNORECASE
)


def hide(arguments: list[str]) -> None:
    """Starts the command again without the passwords in `arguments`; returns where there are none."""
    hidden = list(arguments)
    environment = dict(os.environ)
    for index, argument in enumerate(arguments):
        if _SECRET_URL.match(argument) is None:
            continue
        option, separator, url = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        environment[_VARIABLE.format(index)] = url
        hidden[index] = f"{option}{separator}${_VARIABLE.format(index)}"
    if hidden != arguments:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, [sys.executable, "-m", "tipple", *hidden], environment)


def reveal(arguments: list[str]) -> list[str]:
    """The arguments as they were typed."""
    revealed = []
    for argument in arguments:
        mark = _MARK.match(argument)
        url = os.environ.pop(_VARIABLE.format(mark.group("number")), None) if mark else None
        revealed.append(argument if mark is None or url is None else f"{mark.group('option') or ''}{url}")
    return revealed
