"""What in a DuckDB database would slow a load down or break it, each with its effect and its remedy."""

from __future__ import annotations

import os
from collections.abc import Iterator

import duckdb

from tipple.engines.base import LoadTask
from tipple.engines.duckdb import columns, ledger, parquet
from tipple.engines.duckdb.connection import first_row, make_writable
from tipple.engines.findings import Finding, disk_finding, graded, is_small, missing, refused
from tipple.errors import UsageError
from tipple.plan.size import format_bytes
from tipple.plan.url import TableName

LARGE_WAL_BYTES = 64 << 20


def examine(
    connection: duckdb.DuckDBPyConnection, path: str | None, table: TableName | None, source_bytes: int = 0
) -> list[Finding]:
    """Everything that is worth telling, the target's table too where one is named.

    Args:
        connection: of the database.
        path: its file; None for a database in memory.
        table: the table that is to be loaded.
        source_bytes: size of what is to be loaded; 0 where that is not known.
    """
    findings = [Finding(level="ok", subject="version", found=f"DuckDB {duckdb.__version__}")]
    findings += _settings(connection)
    findings += _memory_database() if path is None else _file(path, source_bytes)
    findings += _jobs(connection)
    if table is not None:
        findings += _table(connection, path, table)
    return findings


def before_load(
    connection: duckdb.DuckDBPyConnection, path: str | None, table: TableName, source_bytes: int
) -> list[Finding]:
    """What this load should know: a few quick looks, at what can hurt it only."""
    told = ("broken",) if is_small(source_bytes) else ("broken", "slow")
    findings = [finding for finding in _table(connection, path, table) if finding.level in told]
    if path is not None:
        findings += [finding for finding in _file(path, source_bytes) if finding.level in ("broken", "slow")]
    return findings


def _setting(connection: duckdb.DuckDBPyConnection, name: str) -> str:
    row = first_row(connection, "SELECT current_setting(?)::VARCHAR", [name])
    return str(row[0]) if row is not None else ""


def _settings(connection: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    threads, cores = int(_setting(connection, "threads")), len(os.sched_getaffinity(0))
    yield graded(
        threads >= cores,
        "slow",
        subject="threads",
        found=f"{threads} on {cores} cores",
        effect="DuckDB stores rows with fewer threads than there are cores",
        remedy="leave the setting out of the configuration",
    )
    yield Finding(level="ok", subject="memory_limit", found=_setting(connection, "memory_limit"))
    yield Finding(level="ok", subject="TimeZone", found=f"{_setting(connection, 'TimeZone')}")


def _memory_database() -> Iterator[Finding]:
    yield Finding(
        level="note",
        subject="database",
        found="in memory",
        effect="everything is gone when the process ends",
        remedy="name a file: duckdb:///path/to/file.duckdb",
    )


_LOCKS = "/proc/locks"
"""`proc_locks`(5): per lock its number, kind, mode, access, process, device and inode, and the range."""


def _holders(path: str) -> list[int]:
    """The other processes that have locked a file, by their numbers; what the system does not tell is none.

    DuckDB itself says so only to one who wants to write. And to ask by way of the file (`F_GETLK`) is to open and close
    it, upon which the system takes away the locks of this process, which may have the database open.
    """
    try:
        inode = os.stat(path).st_ino
        with open(_LOCKS, encoding="ascii", errors="replace") as file:
            locks = [line.split() for line in file]
    except OSError:
        return []
    # The device is not compared: some file systems tell another one here.
    held = [lock for lock in locks if len(lock) == 8 and lock[1] == "POSIX" and lock[5].endswith(f":{inode}")]
    return sorted({int(lock[4]) for lock in held if lock[4].isdigit()} - {0, os.getpid()})


def _file(path: str, source_bytes: int) -> Iterator[Finding]:
    if os.path.exists(path):
        # The write-ahead log stands beside the file.
        place = path if not os.access(path, os.W_OK) else os.path.dirname(os.path.abspath(path))
        writable = os.access(place, os.W_OK)
        yield graded(
            writable,
            "broken",
            subject=path,
            found="this user may write it" if writable else f"this user may only read {place}",
            effect="the load is refused",
            remedy=make_writable(place),
        )
        holders = _holders(path)
        if holders:
            yield Finding(
                level="broken",
                subject=path,
                found=f"it is open in process {', '.join(str(pid) for pid in holders)}",
                effect="the load is refused for as long as it is",
                remedy="close it there: while a process writes a file, DuckDB lets no other one have it",
            )
    # What a load writes lies in the file first, and what does not fit into memory beside it.
    yield disk_finding(os.path.dirname(os.path.abspath(path)), source_bytes)
    wal = f"{path}.wal"
    if os.path.exists(wal) and os.path.getsize(wal) >= LARGE_WAL_BYTES:
        yield Finding(
            level="slow",
            subject=wal,
            found=f"{format_bytes(os.path.getsize(wal))} that no checkpoint has taken over",
            effect="it is read when the file is opened",
            remedy="CHECKPOINT;",
        )


def _jobs(connection: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    for job in ledger.records(connection) if ledger.exists(connection) else ():
        if job.state == "loading":
            yield Finding(
                level="note",
                subject=f"job {job.job_id}",
                found=f"left unfinished: {job.slices_done} of {job.slices} slices into {job.table}",
                effect="a load of other files into the table does not go on with it",
                remedy="run its command again, or: tipple jobs URL clean",
            )


def _table(connection: duckdb.DuckDBPyConnection, path: str | None, table: TableName) -> Iterator[Finding]:
    subject = f"table {table}"
    where = (
        "WHERE database_name = current_database() AND lower(schema_name) = lower(coalesce(?, current_schema())) "
        "AND lower(table_name) = lower(?)"
    )
    files = parquet.find(connection, table)
    if files is not None:
        yield _files(subject, files, parquet.missing(files, path) if path is not None else [])
        return
    if first_row(connection, f"SELECT 1 FROM duckdb_tables() {where}", [table.schema, table.name]) is None:
        try:
            columns.refuse_view(connection, table)
            columns.place_of_new(connection, table)
        except UsageError as error:
            yield refused(subject, error)
            return
        yield missing(table)
        return
    kinds = connection.execute(
        f"SELECT constraint_type, count(*) FROM duckdb_constraints() {where} AND constraint_type <> 'NOT NULL' "
        "GROUP BY 1 ORDER BY 1",
        [table.schema, table.name],
    ).fetchall()
    indexes = first_row(connection, f"SELECT count(*) FROM duckdb_indexes() {where}", [table.schema, table.name])
    found = [f"{count} × {kind}" for kind, count in kinds]
    if indexes is not None and indexes[0]:
        found.append(f"{indexes[0]} × index")
    if found:
        yield Finding(
            level="slow",
            subject=subject,
            found=", ".join(found),
            effect="each row is looked up in an index kept in memory, and one bad record ends the load or, with "
            "--on-error skip, costs a second look at the sources",
            remedy="--mode append with --indexes rebuild, for those that are no keys; or load into a table without "
            "them, and check keys by a query",
        )


def _files(subject: str, table: parquet.FileTable, missing: list[str]) -> Finding:
    return graded(
        not missing,
        "broken",
        subject=subject,
        found=f"directories of its Parquet files are gone: {', '.join(missing)}"
        if missing
        else f"Parquet files of {len(table.directories)} loads (--structure parquet)",
        effect="nothing can be appended, and no query reads the table",
        remedy="bring them back from a backup or from where the database was; or --mode replace, which makes all anew",
    )


def not_durable(task: LoadTask) -> list[Finding]:
    """Says of `--structure memory` what is lost, and when."""
    if task.structure is None or task.structure.structure != "memory":
        return []
    return [
        Finding(
            level="broken",
            subject=f"table {task.table}",
            found="it is in memory, and in no file",
            effect="its rows are lost when this process ends, in whatever way",
            remedy="load --into duckdb:///FILE, or write it out before: COPY … TO 'file.parquet';",
        )
    ]
