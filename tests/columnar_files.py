"""Columnar files of a pyarrow table, in every way in which Tipple takes one."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

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


D = Decimal
DAY = datetime.date
MOMENT = datetime.datetime

COLUMNS = (
    "b boolean, i2 smallint, i4 integer, i8 bigint, f4 real, f8 double precision, "
    "n15 numeric(15,2), n38 numeric(38,10), s text, v varchar(20), d date, t timestamp"
)


def random_table(seed: int, rows: int) -> pa.Table:
    """Random values of every column of `COLUMNS`, with NULLs, in the Arrow types nearest to them."""
    rng = random.Random(seed)
    words = [
        "",
        "x",
        "a,b",
        'say "hi"',
        "two\nlines",
        "tab\there",
        "ümläut",
        "漢字🚂",
        "\\N",
        "NULL",
        " lead",
        "trail ",
    ]

    def column(make: Any, share: float = 0.1) -> list[Any]:
        return [None if rng.random() < share else make() for _ in range(rows)]

    def edge(bits: int) -> int:
        return rng.choice([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, -1, rng.randrange(1000)])

    return pa.table(
        {
            "b": pa.array(column(lambda: rng.random() < 0.5), pa.bool_()),
            "i2": pa.array(column(lambda: edge(16)), pa.int16()),
            "i4": pa.array(column(lambda: edge(32)), pa.int32()),
            "i8": pa.array(column(lambda: edge(64)), pa.int64()),
            "f4": pa.array(column(lambda: rng.choice([0.0, -1.5, 0.1, 3e38, 1e-30])), pa.float32()),
            "f8": pa.array(column(lambda: rng.choice([0.0, 0.1, -1e300, 5e-324, rng.random()])), pa.float64()),
            "n15": pa.array(column(lambda: D(rng.randrange(-(10**15) + 1, 10**15)).scaleb(-2)), pa.decimal128(15, 2)),
            "n38": pa.array(
                column(lambda: rng.choice([-1, 1]) * D(rng.randrange(10 ** rng.randrange(1, 38))).scaleb(-10)),
                pa.decimal128(38, 10),
            ),
            "s": pa.array(column(lambda: rng.choice(words) * rng.randrange(4)), pa.string()),
            "v": pa.array(column(lambda: rng.choice(words)), pa.string()),
            "d": pa.array(column(lambda: DAY.fromordinal(rng.randrange(1, DAY.max.toordinal()))), pa.date32()),
            "t": pa.array(
                column(lambda: MOMENT(1, 1, 1) + datetime.timedelta(microseconds=rng.randrange(3 * 10**17))),
                pa.timestamp("us"),
            ),
        }
    )
