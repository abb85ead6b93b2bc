"""The directories of tables of files: where they are, which of them this database has written, and their removal.

    FILE.tables/SCHEMA.TABLE/.JOB       while it is written
    FILE.tables/SCHEMA.TABLE/JOB        from its publishing on

A place says nothing about who wrote there: views have whole paths, so a database that was moved away reads on from
where it was, and another one may since have been made under the old path. So each database lists the directories that
it begins to write, in `tipple.parquet_directory`, and commits that before there is the first file. What it has not
listed itself it never removes. A copy of a database's file has the same list: so what has listed a directory is noted
too, by the file's inode, and a copy, also one that has taken the place of its original, leaves those directories alone.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Collection, Iterable
from pathlib import Path

import duckdb

from tipple.engines.duckdb.connection import catalog, has_own_tables
from tipple.errors import UsageError
from tipple.plan.url import TableName

CREATE = """
CREATE TABLE IF NOT EXISTS {catalog}.tipple.parquet_directory (
    schema_name VARCHAR NOT NULL,
    table_name VARCHAR NOT NULL,
    job_id VARCHAR PRIMARY KEY,
    database_inode BIGINT
)
"""
ADD_INODE = "ALTER TABLE {catalog}.tipple.parquet_directory ADD COLUMN IF NOT EXISTS database_inode BIGINT"
"""An earlier version noted none: there the list alone counts."""


def table_directory(path: str | None, table: TableName) -> Path:
    """Where the files of a table are.

    Raises:
        UsageError: there is no place for files, or none that DuckDB could be told of.
    """
    if path is None:
        raise UsageError(
            "--structure parquet needs a place for files, and this database is in memory",
            hint="load --into duckdb:///FILE; the files then go into FILE.tables",
        )
    whole = os.path.realpath(path)
    schema = table.schema or "main"
    named = f"{schema}.{table.name}"
    # A name of the directory has to say which table it belongs to, and DuckDB takes paths as patterns.
    if any(sign in whole + named for sign in "*?[]=") or any(sign in schema + table.name for sign in "./\0"):
        raise UsageError(
            f"--structure parquet: no directory can be called {whole}.tables/{named}",
            hint="use names for database and table without * ? [ ] =, and for schema and table without . and / too",
        )
    return Path(f"{whole}.tables") / named


def has_files(directory: Path) -> bool:
    """Whether there is anything to be read in a directory."""
    return next(directory.rglob("*.parquet"), None) is not None


def database_inode(path: str) -> int:
    """The inode of a database's file, which a copy does not have."""
    # DuckDB's numbers are signed.
    return os.stat(path).st_ino & (2**63 - 1)


def claim(connection: duckdb.DuckDBPyConnection, table: TableName, names: Iterable[str], inode: int) -> None:
    """Lists directories of a table as written by this database; committed at once, whatever transaction is open."""
    apart = connection.cursor()
    try:
        for name in names:
            apart.execute(
                f"INSERT OR IGNORE INTO {_listed(apart)} VALUES (?, ?, ?, ?)", [table.schema, table.name, name, inode]
            )
    finally:
        apart.close()


def claimed_tables(connection: duckdb.DuckDBPyConnection) -> list[TableName]:
    """The tables of which this database lists directories."""
    if not has_own_tables(connection, "parquet_directory"):
        return []
    rows = connection.execute(f"SELECT DISTINCT schema_name, table_name FROM {_listed(connection)} ORDER BY ALL")
    return [TableName(schema, name) for schema, name in rows.fetchall()]


def clean(
    connection: duckdb.DuckDBPyConnection, directory: Path, table: TableName, kept: Collection[str], inode: int
) -> list[str]:
    """Removes the directories that this database has written for a table and that no view of it reads.

    One process at a time has a DuckDB file open for writing, so nobody else is writing into them.

    Args:
        connection: to the database.
        directory: of the table.
        table: with its schema.
        kept: names of directories that are part of the table.
        inode: of the database's file.

    Returns:
        The names of those that were removed.
    """
    if not has_own_tables(connection, "parquet_directory"):
        return []
    apart = connection.cursor()
    removed = []
    try:
        # A view that was renamed, or that the user has made, reads them as well as the table's own.
        unread = apart.execute(
            f"SELECT job_id FROM {_listed(apart)} d WHERE schema_name = $1 AND table_name = $2 "
            "AND coalesce(database_inode, $3) = $3 AND NOT EXISTS (FROM duckdb_views() v "
            "WHERE v.database_name = current_database() AND contains(v.sql, d.job_id)) ORDER BY ALL",
            [table.schema, table.name, inode],
        ).fetchall()
        for (name,) in unread:
            if name in kept:
                continue
            for place in (directory / f".{name}", directory / name):
                if place.is_dir():
                    shutil.rmtree(place)
                    removed.append(place.name)
            apart.execute(f"DELETE FROM {_listed(apart)} WHERE job_id = ?", [name])
    finally:
        apart.close()
    return removed


def count_of_others(connection: duckdb.DuckDBPyConnection, directory: Path, kept: Collection[str], inode: int) -> int:
    """How many directories are no part of the table, and of jobs that this database has not listed."""
    listed = connection.execute(
        f"SELECT job_id FROM {_listed(connection)} WHERE coalesce(database_inode, $1) = $1", [inode]
    )
    own = {name for (name,) in listed.fetchall()}.union(kept)
    places = (entry for entry in directory.iterdir() if entry.is_dir())
    return sum(_is_of_job(place.name) and place.name.removeprefix(".") not in own for place in places)


def _is_of_job(name: str) -> bool:
    try:
        return str(uuid.UUID(name.removeprefix("."))) == name.removeprefix(".")
    except ValueError:
        return False


def _listed(connection: duckdb.DuckDBPyConnection) -> str:
    return f"{catalog(connection)}.tipple.parquet_directory"
