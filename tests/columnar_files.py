"""Columnar files of a pyarrow table, in every way in which Tipple takes one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq

from big import BigFile


def write_parquet(path: Path, table: pa.Table, **options: object) -> Path:
    """A Parquet file."""
    pq.write_table(table, path, **options)
    return path


def write_arrow_file(path: Path, table: pa.Table, batch_rows: int = 1000) -> Path:
    """An Arrow IPC file."""
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return path


def write_arrow_stream(path: Path, table: pa.Table, batch_rows: int = 1000) -> Path:
    """An Arrow IPC stream."""
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return path


WRITERS: dict[str, Callable[[Path, pa.Table], Path]] = {
    "parquet": lambda path, table: write_parquet(path.with_suffix(".parquet"), table, row_group_size=1000),
    "arrow": lambda path, table: write_arrow_file(path.with_suffix(".arrow"), table),
    "stream": lambda path, table: write_arrow_stream(path.with_suffix(".arrows"), table),
}


def write_csv(path: Path, table: pa.Table) -> Path:
    """The same rows as CSV: NULL is nothing, empty text is in quotes."""
    pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(include_header=False))
    return path


BIG_SCHEMA = pa.schema(
    [("id", pa.int64()), ("amount", pa.decimal128(12, 2)), ("day", pa.date32()), ("note", pa.string())]
)


def columnar_twin(big: BigFile, path: Path, row_group_rows: int = 20_000) -> BigFile:
    """The rows of a big CSV file as Parquet, in many row groups."""
    table = pyarrow.csv.read_csv(
        big.path,
        # One block: between two, pyarrow 26 loses half of a CR LF that stands in quotes.
        pyarrow.csv.ReadOptions(column_names=BIG_SCHEMA.names, block_size=1 << 30),
        pyarrow.csv.ParseOptions(newlines_in_values=True),
        pyarrow.csv.ConvertOptions(
            column_types=BIG_SCHEMA, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
        ),
    )
    # Without compression it is large enough for several slices.
    pq.write_table(table, path, row_group_size=row_group_rows, compression="none", use_dictionary=False)
    return BigFile(path, big.rows, big.md5)
