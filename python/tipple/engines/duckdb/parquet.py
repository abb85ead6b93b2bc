"""`--structure parquet`: a table whose rows are Parquet files beside the database, and a view that reads them.

    FILE.tables/SCHEMA.TABLE/JOB/NAME=VALUE/….parquet       FILE is the database's own file

Each load writes a directory of its own, under a hidden name. It is synced to the disk and renamed; then one transaction
makes a view that reads this directory too, notes it in `tipple.parquet_table`, and says in the ledger that the job is
done. So a directory counts from that commit on, and only if it is noted: what a killed load has left counts for nobody,
and the next load, or `tipple jobs clean`, removes it (`parquet_directories`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import duckdb
import msgspec

from tipple.engines.base import LoadTask, Table, TableColumn
from tipple.engines.duckdb.connection import catalog, create_once, first_row, has_own_tables, qualified
from tipple.engines.duckdb.constraints import Constraint
from tipple.engines.duckdb.parquet_directories import (
    ADD_INODE,
    claim,
    claimed_tables,
    clean,
    count_of_others,
    database_inode,
    has_files,
    table_directory,
)
from tipple.engines.duckdb.parquet_directories import CREATE as CREATE_DIRECTORY
from tipple.errors import TippleError, UsageError
from tipple.plan.decodable import decodable
from tipple.plan.hive import HiveColumn, hive_column
from tipple.plan.partitioning import PartitionBy
from tipple.plan.schema import ColumnDefinition
from tipple.plan.storage import StorageSize
from tipple.plan.structure import AppliedStructure
from tipple.plan.url import TableName, quote_identifier, quote_literal

_CREATE = """
CREATE TABLE IF NOT EXISTS {catalog}.tipple.parquet_table (
    schema_name VARCHAR NOT NULL,
    table_name VARCHAR NOT NULL,
    columns JSON NOT NULL,
    partition_by JSON,
    directories JSON NOT NULL,
    PRIMARY KEY (schema_name, table_name)
)
"""

_EXACT_TYPES = frozenset(
    {
        "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT",
        "DOUBLE", "VARCHAR", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID", "BLOB", "JSON",
    }
)  # fmt: skip
"""Types whose values Parquet gives back unchanged, besides DECIMAL, ENUM and lists of these."""


@decodable
class FileColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column of a table of files."""

    name: str
    type_text: str
    not_null: bool
    default_text: str | None = None
    """The expression whose value a column gets that is not loaded."""

    def value(self, *, is_loaded: bool) -> str:
        """The column for a SELECT from the rows that are loaded."""
        name = quote_identifier(self.name)
        source = name if is_loaded else f"({self.default_text or 'NULL'})"
        return f"CAST({source} AS {self.type_text}) AS {name}"


class FileTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of files, as the database knows it."""

    name: TableName
    columns: tuple[FileColumn, ...]
    partition_by: PartitionBy | None
    directories: tuple[str, ...]
    """The names of the directories that the view reads."""

    @property
    def hive(self) -> HiveColumn | None:
        """What its directories are divided by."""
        if self.partition_by is None:
            return None
        return hive_column(self.partition_by, {column.name: column.type_text for column in self.columns})


def find(connection: duckdb.DuckDBPyConnection, name: TableName) -> FileTable | None:
    """The table of files with this name, found in the named schema or else in the current one."""
    if not has_own_tables(connection, "parquet_table"):
        return None
    row = first_row(
        connection,
        "SELECT f.schema_name, f.table_name, f.columns::VARCHAR, f.partition_by::VARCHAR, f.directories::VARCHAR "
        f"FROM {catalog(connection)}.tipple.parquet_table f JOIN duckdb_views() v "
        "ON v.database_name = current_database() AND v.schema_name = f.schema_name AND v.view_name = f.table_name "
        "WHERE lower(f.schema_name) = lower(coalesce(?, current_schema())) AND lower(f.table_name) = lower(?)",
        [name.schema, name.name],
    )
    if row is None:
        return None
    return FileTable(
        name=TableName(row[0], row[1]),
        columns=msgspec.json.decode(row[2], type=tuple[FileColumn, ...]),
        partition_by=None if row[3] is None else msgspec.convert(json.loads(row[3]), PartitionBy),
        directories=tuple(json.loads(row[4])),
    )


def find_all(connection: duckdb.DuckDBPyConnection) -> list[FileTable]:
    """All tables of files."""
    if not has_own_tables(connection, "parquet_table"):
        return []
    names = connection.execute(
        f"SELECT schema_name, table_name FROM {catalog(connection)}.tipple.parquet_table ORDER BY ALL"
    ).fetchall()
    found = (find(connection, TableName(schema, name)) for schema, name in names)
    return [table for table in found if table is not None]


def ensure(connection: duckdb.DuckDBPyConnection) -> None:
    """Creates the lists of tables and directories where they are missing; call it before a load's transaction."""
    statements = ("CREATE SCHEMA IF NOT EXISTS {catalog}.tipple", _CREATE, CREATE_DIRECTORY, ADD_INODE)
    create_once(connection, _is_complete, statements)


def _is_complete(connection: duckdb.DuckDBPyConnection) -> bool:
    found = first_row(
        connection,
        "SELECT count(*) FROM duckdb_columns() WHERE database_name = current_database() AND schema_name = 'tipple' "
        "AND (table_name, column_name) IN (('parquet_table', 'columns'), ('parquet_directory', 'database_inode'))",
    )
    return found is not None and found[0] == 2


class ParquetWork:
    """The files of one load."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, task: LoadTask, columns: list[TableColumn], path: str | None
    ) -> None:
        """Settles what the options leave open.

        Args:
            connection: to the database.
            task: the load.
            columns: of the table, those too that are not loaded.
            path: the database's file.

        Raises:
            UsageError: the options ask for what files do not allow.
        """
        self.connection = connection
        self.task = task
        self.into = qualified(connection, task.table)
        self.before = find(connection, task.table)
        self.directory = table_directory(path, task.table)
        self._path = path or ""
        divided = task.partition_by
        if self.before is not None and divided is None:
            divided = self.before.partition_by
        self.table = FileTable(
            name=task.table,
            columns=self._columns(columns),
            partition_by=divided,
            directories=(),
        )
        self.hive = self.table.hive
        self._job_id = ""
        self._check()
        reason = "rows are files, and never in the database"
        if self.task.structure is None:
            reason = "the table is one of files already"
        self.applied = AppliedStructure(structure="parquet", load_as="parquet", reason=reason)

    def _columns(self, columns: list[TableColumn]) -> tuple[FileColumn, ...]:
        known: tuple[ColumnDefinition | FileColumn, ...] = self.before.columns if self.before is not None else ()
        if self.task.definition is not None:
            known = self.task.definition.columns
        defaults = {column.name: column.default_text for column in known}
        return tuple(
            FileColumn(column.name, column.type_text, column.not_null, defaults.get(column.name)) for column in columns
        )

    def _check(self) -> None:
        task, before = self.task, self.before
        if task.mode == "upsert" or not task.atomic:
            what = "--mode upsert" if task.mode == "upsert" else "--no-atomic"
            raise UsageError(
                f"{what} is not possible: {task.table} is made of Parquet files, which are written whole",
                hint="leave it out, or load into a table of the database",
            )
        if task.definition is None and before is None:
            raise UsageError(
                f"{task.table} is a table in the database, and cannot become one of files",
                hint="drop it first and give --schema; or load into another database, or another schema",
            )
        if before is not None and task.mode != "replace" and before.partition_by != self.table.partition_by:
            raise UsageError(
                f"the files of {task.table} are divided in another way than --partition-by says",
                hint="leave it out, or write all files anew with --mode replace",
            )
        self._require_rising()
        self._require_files()
        loaded = {column.name for column in task.columns}
        for defined in task.definition.columns if task.definition is not None else ():
            if defined.generated_text is not None:
                raise UsageError(
                    f"column {defined.name} is {defined.generated_text}, and Parquet files hold only what is loaded",
                    hint="leave it out of the schema (a view over the table can compute it), or leave out "
                    "--structure parquet",
                )
        for column in self.table.columns:
            if not _is_exact(column.type_text):
                raise UsageError(
                    f"column {column.name} of type {column.type_text} cannot be kept in Parquet files without loss",
                    hint="give it another type (varchar holds any value), or leave out --structure parquet",
                )
            if column.not_null and column.name not in loaded and (column.default_text or "NULL").upper() == "NULL":
                raise UsageError(f"column {column.name} refuses NULL, and no value is loaded", hint="see --columns")

    def _require_rising(self) -> None:
        """Refuses boundaries that do not rise as the column's type has them: some directories would get no row."""
        asked = self.task.partition_by
        if asked is None or not asked.boundaries:
            return
        type_text = next(column.type_text for column in self.table.columns if column.name == asked.columns[0])
        test = f"SELECT TRY_CAST(? AS {type_text}) < TRY_CAST(? AS {type_text})"
        for (low,), (high,) in pairwise(asked.boundaries):
            if first_row(self.connection, test, [low, high]) == (False,):
                raise UsageError(
                    f"--partition-by has the boundary {high} behind {low}: partitions would overlap",
                    hint=f"give each boundary once, in rising order: as the column's type, {type_text}, has them",
                )

    @property
    def _kept(self) -> tuple[str, ...]:
        """The directories that are part of the table before this load, and stay part of it."""
        return self.before.directories if self.before is not None and self.task.mode != "replace" else ()

    def _require_files(self, error: type[TippleError] = UsageError) -> None:
        missing = [name for name in self._kept if not has_files(self.directory / name)]
        if missing:
            raise error(
                f"{self.task.table}: {len(missing)} of its {len(self._kept)} directories of Parquet files are not in "
                f"{self.directory}, so appending would lose rows (the first one is {missing[0]})",
                hint=f"if the database was moved, copy its FILE.tables to {self.directory.parent}; or write all rows "
                "anew with --mode replace",
            )

    # The rows

    def begin(self, job_id: str) -> None:
        """Prepares a directory for the files of a job."""
        self._job_id = job_id
        self.tidy()
        # Noted ones may be of an earlier version of Tipple, which listed none.
        noted = self.before.directories if self.before is not None else ()
        claim(self.connection, self.task.table, [*noted, job_id], database_inode(self._path))
        self.directory.mkdir(parents=True, exist_ok=True)

    def notes(self) -> list[str]:
        """What a user should know of the place, once the load has begun."""
        inode = database_inode(self._path)
        others = count_of_others(self.connection, self.directory, self._directories_read(), inode)
        if not others:
            return []
        return [
            f"{self.directory} holds directories of jobs that this database did not run ({others}): left as they are, "
            "because another database may read them (one that was moved away or copied, say); remove them if none does"
        ]

    @property
    def constraints(self) -> list[Constraint]:
        """What is asked of records that are read once more, to leave out those that no directory takes."""
        hive = self.hive
        if hive is None or hive.condition is None or self.table.partition_by is None:
            return []
        columns = self.table.partition_by.columns
        if not {column.name for column in self.task.columns}.issuperset(columns):
            return []
        terms = ("tipple_without_partition",)
        return [Constraint(kind="partition", name=hive.name, columns=columns, terms=terms, condition=hive.condition)]

    def copy_statement(self, stream: str, *, in_order: bool) -> str:
        """The statement that writes the rows of a stream of batches."""
        loaded = {column.name for column in self.task.columns}
        values = ", ".join(column.value(is_loaded=column.name in loaded) for column in self.table.columns)
        rows = f"SELECT {values} FROM {stream}"
        options = ["FORMAT parquet"]
        if self.hive is not None:
            name = quote_identifier(self.hive.name)
            change = f"REPLACE ({self.hive.expression} AS {name})" if self.hive.is_own else ""
            more = "" if self.hive.is_own else f", {self.hive.expression} AS {name}"
            rows = f"SELECT * {change}{more} FROM ({rows})"
            keeps = str(self.hive.is_own).lower()
            options += [f"PARTITION_BY ({name})", f"WRITE_PARTITION_COLUMNS {keeps}"]
        else:
            options.append(f"PER_THREAD_OUTPUT {str(not in_order).lower()}")
        place = self._hidden
        if self.hive is None and in_order:
            self._hidden.mkdir()
            place = self._hidden / "data_0.parquet"
        return f"COPY ({rows}) TO {quote_literal(str(place))} ({', '.join(options)})"

    def written_query(self) -> str:
        """The rows of this load, as they will be read."""
        return self._query([self._hidden] if has_files(self._hidden) else [])

    # Publish

    def publish(self) -> None:
        """Puts the directory into its place, and a view over all of them into the transaction that is open.

        Raises:
            TippleError: files of earlier loads are not in their place any more.
        """
        self._require_files(TippleError)
        directories = [*self._kept]
        if has_files(self._hidden):
            _sync_tree(self._hidden)
            os.rename(self._hidden, self.directory / self._job_id)
            directories.append(self._job_id)
        for directory in (self.directory, self.directory.parent, self.directory.parent.parent):
            _sync(directory)
        query = self._query([self.directory / name for name in directories])
        self.connection.execute(f"CREATE OR REPLACE VIEW {self.into} AS {query}")
        divided = self.table.partition_by
        self.connection.execute(
            f"INSERT OR REPLACE INTO {catalog(self.connection)}.tipple.parquet_table VALUES (?, ?, ?, ?, ?)",
            [
                self.task.table.schema,
                self.task.table.name,
                msgspec.json.encode(self.table.columns).decode(),
                None if divided is None else json.dumps(msgspec.to_builtins(divided)),
                json.dumps(directories),
            ],
        )

    def tidy(self) -> None:
        """Removes, after the transaction, what is not part of the table: replaced files, or those of a failed load."""
        inode = database_inode(self._path)
        clean(self.connection, self.directory, self.task.table, self._directories_read(), inode)

    def _directories_read(self) -> tuple[str, ...]:
        table = find(self.connection, self.task.table)
        return table.directories if table is not None else ()

    @property
    def _hidden(self) -> Path:
        return self.directory / f".{self._job_id}"

    def _query(self, directories: list[Path]) -> str:
        columns = [(quote_identifier(column.name), column.type_text) for column in self.table.columns]
        if not directories:
            return "SELECT " + ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in columns) + " WHERE false"
        places = ", ".join(quote_literal(f"{directory}/**/*.parquet") for directory in directories)
        options = ", hive_partitioning = false"
        read_as: dict[str, str] = {}
        if self._reads_directories and self.hive is not None:
            # As text, which the CAST makes what it was: `hive_types` knows no type with parameters, and a condition on
            # the column still leaves directories out.
            options = f", hive_partitioning = true, hive_types = {{{quote_literal(self.hive.encoded_name)}: VARCHAR}}"
            read_as[quote_identifier(self.hive.name)] = quote_identifier(self.hive.encoded_name)
        values = ", ".join(f"CAST({read_as.get(name, name)} AS {kind}) AS {name}" for name, kind in columns)
        return f"SELECT {values} FROM read_parquet([{places}]{options})"

    @property
    def _reads_directories(self) -> bool:
        """Whether the names of the directories give a column of the table; the files have it too."""
        if self.hive is None or not self.hive.is_own:
            return False
        others = {column.name.lower() for column in self.table.columns if column.name != self.hive.name}
        return self.hive.encoded_name.lower() not in others


def describe(
    connection: duckdb.DuckDBPyConnection, name: TableName, column_of: Callable[[str, str, bool], TableColumn]
) -> Table | None:
    """The columns of a table of files; `column_of` makes one of its name, its type, and whether it refuses NULL."""
    found = find(connection, name)
    if found is None:
        return None
    return Table(
        name=found.name,
        columns=tuple(column_of(column.name, column.type_text, column.not_null) for column in found.columns),
    )


def missing(table: FileTable, path: str) -> list[str]:
    """The directories that the view reads, and that are not there."""
    directory = table_directory(path, table.name)
    return [str(directory / name) for name in table.directories if not has_files(directory / name)]


def sizes(connection: duckdb.DuckDBPyConnection, table: FileTable, path: str) -> list[StorageSize]:
    """The room that the files take, by partition."""
    directory = table_directory(path, table.name)
    files: dict[str, list[Path]] = {}
    for name in table.directories:
        for file in sorted((directory / name).rglob("*.parquet")):
            files.setdefault("/".join(file.relative_to(directory / name).parts[:-1]), []).append(file)
    found = []
    for partition, paths in sorted(files.items()):
        places = ", ".join(quote_literal(str(file)) for file in paths)
        rows = first_row(connection, f"SELECT sum(num_rows) FROM parquet_file_metadata([{places}])")
        found.append(
            StorageSize(
                name=f"{table.name}/{partition}" if partition else f"{table.name} (Parquet)",
                kind="partition" if partition else "table",
                parent=str(table.name) if partition else None,
                bound=partition or None,
                pages=0,
                bytes=sum(file.stat().st_size for file in paths),
                rows=int(rows[0] or 0) if rows is not None else None,
            )
        )
    if table.partition_by is not None:
        found.insert(0, StorageSize(name=str(table.name), kind="partitioned table", pages=0, bytes=0, rows=None))
    return found


def clean_all(connection: duckdb.DuckDBPyConnection, path: str) -> list[str]:
    """Removes the files of jobs that are not part of any table; gives the names of their directories."""
    removed = []
    names = claimed_tables(connection)
    if names:
        ensure(connection)
    for name in names:
        table = find(connection, name)
        kept = table.directories if table is not None else ()
        removed += clean(connection, table_directory(path, name), name, kept, database_inode(path))
    return removed


def _sync_tree(directory: Path) -> None:
    for place, _, files in os.walk(directory, topdown=False):
        for name in files:
            _sync(Path(place) / name)
        _sync(Path(place))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_exact(type_text: str) -> bool:
    element = type_text
    while element.endswith("[]"):
        element = element[:-2]
    return element in _EXACT_TYPES or element.startswith(("DECIMAL(", "ENUM("))
