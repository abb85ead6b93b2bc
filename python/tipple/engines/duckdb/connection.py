"""Opening a DuckDB database, with errors that say what to do."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import duckdb

from tipple.engines.duckdb import database_file
from tipple.engines.duckdb.new_file import begins_like_a_database, is_inherited, is_unfinished, remove
from tipple.engines.duckdb.same_file import require_same_file
from tipple.errors import ConnectionFailed, TippleError
from tipple.plan.url import (
    MEMORY,
    QUOTED_IDENTIFIER,
    UNQUOTED_IDENTIFIER,
    TableName,
    Target,
    quote_identifier,
)

DISK_FULL = re.compile(r"no space left|disk quota|disk full|disk space|space on the disk|file too large", re.IGNORECASE)
"""What DuckDB says of a disk without room."""
FREE_SPACE = (
    "free space on the disk of the database file (or allow larger files: ulimit -f), and run the same command again; "
    "nothing was published"
)

_shared_memory: duckdb.DuckDBPyConnection | None = None
_opening = threading.Lock()
"""Around the making of that one: first loads on several threads must find the same."""


def connect(target: Target, *, read_only: bool = False, must_exist: bool = False) -> duckdb.DuckDBPyConnection:
    """A connection to the database in `target`.

    `:memory:` is one database for the whole process, as DuckDB's own `duckdb.connect(":default:")` is: what one call
    loads, the next one finds.

    Raises:
        ConnectionFailed: the file cannot be opened.
        TippleError: there is no room for a new one, or its file was removed while this process has it open.
    """
    path = database_file(target)
    if path is None:
        return memory_connection()
    if is_inherited(path):
        raise ConnectionFailed(
            f"cannot open {target.display}: the process that this one was forked from had it open, and what would be "
            "written here is lost",
            hint="start processes by multiprocessing's spawn or forkserver, or before the load begins",
        )
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory):
        raise ConnectionFailed(
            f"cannot open {target.display}: the directory {directory} does not exist",
            hint=_absolute(path) or f"mkdir -p {shlex.quote(directory)}",
        )
    if os.path.exists(path) and not os.path.isfile(path):
        # A pipe would be waited for.
        raise ConnectionFailed(f"cannot open {target.display}: it is no file", hint="check the path")
    if not os.path.exists(path):
        if must_exist:
            raise ConnectionFailed(f"there is no database {target.display}", hint=_absolute(path) or "check the path")
        if read_only:
            # A plan for a database that does not exist yet is made against an empty one.
            return duckdb.connect(MEMORY)
    if os.path.exists(path) and not read_only and not os.access(path, os.W_OK):
        raise ConnectionFailed(
            f"cannot open {target.display}: the file is read-only for this user", hint=make_writable(path)
        )
    # The write-ahead log stands beside the file.
    if not read_only and not os.access(directory, os.W_OK):
        raise ConnectionFailed(
            f"cannot open {target.display}: this user may not write to {directory}",
            hint="choose another directory, or grant the right to write",
        )
    is_new = not os.path.exists(path)
    try:
        connection = _open(path, read_only=read_only)
    except duckdb.Error as error:
        message = " ".join(str(error).split())
        unfinished = is_unfinished(path)
        not_written = isinstance(error, duckdb.IOException) and "Conflicting lock" not in message
        if is_new and unfinished and not_written:
            # DuckDB leaves it as it is, and would refuse it ever after.
            remove(path)
        if not_written and DISK_FULL.search(message):
            raise TippleError(f"cannot make {target.display}: {message}", hint=FREE_SPACE) from None
        if _NO_FILE in message:
            raise _not_kept(target) from None
        holder = re.search(r"Conflicting lock is held in (.*?)\(PID (\d+)\)", message)
        if holder is not None:
            raise ConnectionFailed(
                f"cannot open {target.display}: it is locked by another process, "
                f"{holder.group(1).strip()} (PID {holder.group(2)})",
                hint="end that process, or wait for it: one process at a time can write a DuckDB file",
            ) from None
        for said, problem, remedy in _HELD_HERE:
            if said in message:
                raise ConnectionFailed(f"cannot open {target.display}: this process {problem}", hint=remedy) from None
        hint = "check that the file is a DuckDB database, written by this version of DuckDB or an older one"
        if unfinished and not is_new and begins_like_a_database(path):
            hint = f"it is smaller than an empty database: where nothing else needs it, rm {shlex.quote(path)}"
        raise ConnectionFailed(f"cannot open {target.display}: {message}", hint=hint) from None
    try:
        found = first_row(connection, "SELECT path FROM duckdb_databases() WHERE database_name = current_database()")
        if found is None or found[0] is None:
            raise _not_kept(target)
        if not read_only:
            require_same_file(path)
    except BaseException:
        # Whoever keeps the error, and with it all that led to it, keeps no database open.
        connection.close()
        raise
    return connection


def make_writable(path: str) -> str:
    """The command that lets this user write a file."""
    return f"chmod u+w {shlex.quote(path)}"


def _absolute(path: str) -> str | None:
    """A hint for a path that is relative, but stands for a directory only if it is absolute."""
    if os.path.isabs(path) or not os.path.isdir(os.path.dirname(f"/{path}")) or "/" not in path:
        return None
    return f"three slashes begin a relative path; for /{path} write duckdb:////{path}"


_NO_FILE = "Cannot launch in-memory database in read-only mode"


def _not_kept(target: Target) -> ConnectionFailed:
    """DuckDB opens a CSV, JSON or Parquet file too, to show its rows by a view: in memory, where all else is lost."""
    return ConnectionFailed(
        f"cannot open {target.display}: DuckDB would keep the database in memory only, and nothing in the file",
        hint=f"name a DuckDB database, such as duckdb:///file.duckdb, or duckdb:///{MEMORY} where that is meant",
    )


_OTHER_CONFIGURATION = "different configuration than existing connections"
_HELD_HERE = (
    (
        _OTHER_CONFIGURATION,
        "has a connection to it with another configuration",
        "close that connection, or open it by duckdb.connect(FILE) without read_only and config: SET changes settings "
        "too",
    ),
    (
        "Unique file handle conflict",
        "has attached it to another database",
        "DETACH it there first, or close that connection; duckdb.connect(FILE) may stay open beside a load",
    ),
)
"""What DuckDB says where the file is open in this very process, what that means, and what to do."""


def _open(path: str, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(path, read_only=read_only)
    except duckdb.ConnectionException as error:
        if not read_only or _OTHER_CONFIGURATION not in str(error):
            raise
        # The caller may have it open for writing: DuckDB then gives no other kind of connection.
        return duckdb.connect(path)


def first_row(
    connection: duckdb.DuckDBPyConnection, statement: str, parameters: Sequence[object] = ()
) -> tuple[Any, ...] | None:
    """The first row of a statement's result, which is read to its end: an unfinished one blocks the connection."""
    rows = connection.execute(statement, list(parameters)).fetchall()
    return rows[0] if rows else None


def is_empty(connection: duckdb.DuckDBPyConnection, table: TableName) -> bool:
    """Whether a table or view has no rows."""
    return first_row(connection, f"SELECT 1 FROM {qualified(connection, table)} LIMIT 1") is None


def has_own_tables(connection: duckdb.DuckDBPyConnection, *names: str) -> bool:
    """Whether the database has all of these tables of Tipple's own.

    Each is asked for by its name: `duckdb_tables()` looks at all that there are. A relation that cannot be made ends no
    transaction, as a statement would.
    """
    schema = f"{catalog(connection)}.tipple"
    try:
        for name in names:
            connection.table(f"{schema}.{name}")
    except duckdb.CatalogException:
        return False
    return True


_creation = threading.Lock()


def create_once(
    connection: duckdb.DuckDBPyConnection,
    is_complete: Callable[[duckdb.DuckDBPyConnection], bool],
    statements: Iterable[str],
) -> None:
    """Creates what is missing, in a transaction of its own; call it before that of the rows begins.

    DuckDB refuses the second of two transactions that create the same, and loads on several threads of this process
    (no other one has the database open) would all create it: only one at a time does, and none keeps others waiting.

    Args:
        connection: to the database.
        is_complete: whether all of it is there.
        statements: that create it, with `{catalog}` for the database's name.
    """
    with _creation:
        if is_complete(connection):
            return
        creating = connection.cursor()
        try:
            creating.execute("BEGIN")
            for statement in statements:
                creating.execute(statement.format(catalog=catalog(connection)))
            creating.execute("COMMIT")
        finally:
            # What is not committed is rolled back.
            creating.close()


def memory_connection() -> duckdb.DuckDBPyConnection:
    """A connection to this process's DuckDB database in memory, to query what was loaded into `duckdb:///:memory:`.

    Each call gives another connection to the same database; it lives as long as the process, and not as long as they.
    A process that is forked has one of its own, which is empty.
    """
    global _shared_memory
    with _opening:
        if _shared_memory is None:
            _shared_memory = duckdb.connect(MEMORY)
        return _shared_memory.cursor()


def _begin_anew() -> None:
    """In a process that was forked: the database's threads are not there, and locks may be held for ever."""
    global _shared_memory, _opening, _creation
    _opening, _creation = threading.Lock(), threading.Lock()
    if _shared_memory is not None:
        # Whoever closes it waits for those threads, and so would the end of this process: it is never let go.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_shared_memory))
        _shared_memory = None


os.register_at_fork(after_in_child=_begin_anew)


def catalog(connection: duckdb.DuckDBPyConnection) -> str:
    """The database's own name, quoted: a file `tipple.duckdb` is a catalog of the same name as the ledger's schema."""
    found = first_row(connection, "SELECT current_database()")
    return quote_identifier(str(found[0]) if found else "memory")


def qualified(connection: duckdb.DuckDBPyConnection, table: TableName) -> str:
    """A table's name for a statement, behind the database's own: DuckDB refuses `sales.t` in a file `sales.duckdb`,
    where `sales` may be the database or a schema."""
    return f"{catalog(connection)}.{table.sql}"


_NAME = rf"(?:{QUOTED_IDENTIFIER}|{UNQUOTED_IDENTIFIER})"
_PLACE = re.compile(rf"^(CREATE (?:TABLE|(?:UNIQUE )?INDEX {_NAME} ON) )(?:{_NAME}\.)*{_NAME}")


def requalified(connection: duckdb.DuckDBPyConnection, statement: str, table: TableName) -> str:
    """A statement of DuckDB's catalog that makes a table, or an index of it: there it has no database's name."""
    return _PLACE.sub(lambda found: found[1] + qualified(connection, table), statement, count=1)
