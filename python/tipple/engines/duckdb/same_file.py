"""Whether what is stored goes into the file that has the database's name.

DuckDB hands out one database of a process for a path. While a connection to it is open, it does so too where the file
was removed or replaced since: what is committed then is in a file that has no name, and gone with the last connection.
"""

from __future__ import annotations

import os
from contextlib import suppress

from tipple.errors import TippleError

__all__ = ["require_same_file"]

_OPEN_FILES = "/proc/self/fd"


def require_same_file(path: str) -> None:
    """Refuses a path whose file is not the one that is open. It is not opened for that, which would end DuckDB's lock.

    Where the system does not tell which files are open, a file that was replaced is not noticed.

    Raises:
        TippleError: it was removed or replaced.
    """
    named = None
    try:
        named = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        # Who may not look cannot tell.
        return
    if named is not None and _is_open(named):
        return
    raise TippleError(
        f"the file {path} was removed or replaced while this process has it open: what is stored would be lost with it",
        hint="close all connections to it (duckdb.connect), so that the path is opened anew, and load again; nothing "
        "was published",
    )


def _is_open(named: os.stat_result) -> bool:
    try:
        numbers = os.listdir(_OPEN_FILES)
    except OSError:
        return True
    for number in numbers:
        # The one that lists them is closed by now.
        with suppress(OSError):
            if os.path.samestat(named, os.stat(f"{_OPEN_FILES}/{number}")):
                return True
    return False
