"""A database file that a session makes, and removes again where nothing came into it: a refused load leaves nothing."""

from __future__ import annotations

import fcntl
import os
import threading
from collections import Counter
from contextlib import suppress

import duckdb

__all__ = ["NewFile", "begins_like_a_database", "is_inherited", "is_unfinished", "remove"]

_EMPTY_DATABASE_BYTES = 3 * 4096
"""Its three headers."""

_CONTENT = """
SELECT (SELECT count(*) FROM duckdb_tables() WHERE database_name = current_database() AND NOT internal)
    + (SELECT count(*) FROM duckdb_views() WHERE database_name = current_database() AND NOT internal)
    + (SELECT count(*) FROM duckdb_sequences() WHERE database_name = current_database())
    + (SELECT count(*) FROM duckdb_types() WHERE database_name = current_database() AND NOT internal)
    + (SELECT count(*) FROM duckdb_schemas() WHERE database_name = current_database() AND NOT internal
           AND schema_name <> 'main')
"""
_lock = threading.Lock()
_sessions: Counter[str] = Counter()
"""How many sessions of this process have a file open."""
_inherited: frozenset[str] = frozenset()
"""Files that sessions had open when this process was forked."""


def is_inherited(path: str) -> bool:
    """Whether a file was open when this process was forked.

    DuckDB gives the same database again, as it was then and without a lock of the file: what is written there is lost.
    """
    return os.path.abspath(path) in _inherited


def _begin_anew() -> None:
    """In a process that was forked: no session is its own, and the lock may be held for ever."""
    global _lock, _sessions, _inherited
    _inherited |= frozenset(_sessions)
    _lock, _sessions = threading.Lock(), Counter()


os.register_at_fork(after_in_child=_begin_anew)


class NewFile:
    """The file of one session; make it before the session connects."""

    def __init__(self, path: str | None) -> None:
        """`path` is None of a database in memory, and of one that is only read."""
        self.path = None if path is None else os.path.abspath(path)
        self.is_new = self.path is not None and not os.path.exists(self.path)
        if self.path is not None:
            with _lock:
                _sessions[self.path] += 1

    def close(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Closes the session's connection, and removes the file if it was made for nothing."""
        with _lock:
            for_nothing = self._leave() and self.is_new and _is_empty(connection)
            connection.close()
            if for_nothing and self.path is not None:
                remove(self.path)

    def leave(self) -> None:
        """There was no connection."""
        with _lock:
            self._leave()

    def _leave(self) -> bool:
        """Whether no other session of this process has the file open."""
        if self.path is None:
            return False
        _sessions[self.path] -= 1
        if _sessions[self.path]:
            return False
        del _sessions[self.path]
        return True


def _is_empty(connection: duckdb.DuckDBPyConnection) -> bool:
    try:
        return connection.execute(_CONTENT).fetchall() == [(0,)]
    except duckdb.Error:
        return False


def is_unfinished(path: str) -> bool:
    """Whether a file is shorter than a database without tables, as one is that DuckDB could not finish making."""
    try:
        return os.path.getsize(path) < _EMPTY_DATABASE_BYTES
    except OSError:
        return False


def begins_like_a_database(path: str) -> bool:
    """Whether a file begins as DuckDB's do (the word DUCK behind a checksum), or has nothing in it yet."""
    try:
        with open(path, "rb") as file:
            head = file.read(12)
    except OSError:
        return False
    return not head or head[8:] in (b"DUCK", bytes(4))


def remove(path: str) -> None:
    """Removes a database's file, unless somebody has it open."""
    # Another process that has it open by now holds DuckDB's lock of it.
    with suppress(OSError), open(path, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
