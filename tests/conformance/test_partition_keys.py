"""`--partition-by` with `every=` over columnar sources: the keys are known before the first row is stored."""

from __future__ import annotations

import datetime
import decimal
import itertools
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

import tipple
from conformance.test_partition_by import bounds_of
from conformance.test_partitions import check_tidy
from loading import load_here as load
from targets import PostgresTarget, write

MONTHS, STEP = 1200, 50
"""Some months of a century: a partition for each of them would be more than are made without a look at the keys."""


def table_of(keys: list[object], kind: pyarrow.DataType) -> pyarrow.Table:
    """Rows with these keys and their numbers."""
    return pyarrow.table({"k": pyarrow.array(keys, kind), "n": pyarrow.array(range(len(keys)), pyarrow.int32())})


def days(count: int) -> list[object]:
    """The last day of the month and the first of the next, from 1850 on."""
    first = [datetime.date(1850 + month // 12, month % 12 + 1, 1) for month in range(0, count, STEP)]
    return [day for month in first for day in (month, month - datetime.timedelta(days=1))]


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    return write(tmp_path / "s.sql", "CREATE TABLE t (k {type}, n integer);")


@pytest.mark.parametrize(
    ("form", "kind", "type_text", "keys", "every", "partitions"),
    [
        ("parquet", pyarrow.date32(), "date", [*days(MONTHS), None], "month", 2 * MONTHS // STEP),
        ("arrow", pyarrow.date32(), "date", [*days(MONTHS), None], "month", 2 * MONTHS // STEP),
        ("table", pyarrow.date32(), "date", [*days(MONTHS), None], "month", 2 * MONTHS // STEP),
        (
            "table",
            pyarrow.timestamp("ns", "UTC"),
            "timestamptz",
            [datetime.datetime(2024, 1, 31, 18, minute, tzinfo=datetime.UTC) for minute in range(10, 20)],
            "month",
            2,  # the servers' sessions are in Kathmandu, where February begins at a quarter past six in Greenwich
        ),
        ("parquet", pyarrow.int64(), "bigint", [-(10**12), -1, 0, 999, 1000, 5 * 10**12], "1000", 5),
        ("parquet", pyarrow.float64(), "numeric", [0.25, 0.5, 7.75, -0.25], "0.5", 17),
        (
            "parquet",
            pyarrow.decimal128(10, 2),
            "numeric(10,2)",
            [*map(decimal.Decimal, ("1.99", "2.00", "9.5"))],
            "2",
            5,
        ),
        ("parquet", pyarrow.string(), "date", ["2024-01-31", "1999-02-03", "2024-02-01"], "year", 26),
        ("parquet", pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), "integer", ["5", "15", "-5"], "10", 3),
    ],
)
def test_partitions_are_made_for_all_keys(
    postgres_target: PostgresTarget, tmp_path: Path, schema: Path, form: str,
    kind: pyarrow.DataType, type_text: str, keys: list[object], every: str, partitions: int,
) -> None:  # fmt: skip
    if kind == pyarrow.dictionary(pyarrow.int8(), pyarrow.string()):
        table = table_of(keys, pyarrow.string())
        table = table.set_column(0, "k", table["k"].dictionary_encode())
    else:
        table = table_of(keys, kind)
    path = write(schema, schema.read_text().format(type=type_text))
    options = {"schema": path, "partition_by": f"range(k, every={every})"}
    # NULL is in no range: that record is a reject.
    bad = sum(key is None for key in keys)
    if bad:
        options |= {"on_error": "skip", "max_rejects": bad}
    if form == "table":
        options |= {"rejects": tmp_path / "r"} if bad else {}
        report = tipple.load(table, into=postgres_target.url, table="t", **options)
        assert report.rows == len(keys) - bad
    else:
        source = tmp_path / f"in.{form}"
        if form == "parquet":
            pyarrow.parquet.write_table(table, source, row_group_size=100)
        else:
            with pyarrow.ipc.new_file(source, table.schema) as writer:
                writer.write_table(table, max_chunksize=100)
        load(postgres_target, source, cwd=tmp_path, check=3 if bad else 0, **options)
    assert postgres_target.count("t") == len(keys) - bad
    assert len(bounds_of(postgres_target)) == partitions
    check_tidy(postgres_target)


def test_rows_that_can_be_read_only_once(postgres_target: PostgresTarget, schema: Path) -> None:
    """Nobody may look at their keys first; so the partitions have to be named, or be there."""
    write(schema, schema.read_text().format(type="integer"))
    table = table_of([1, 11, 21], pyarrow.int32())
    options = {"into": postgres_target.url, "table": "t", "schema": schema}
    with pytest.raises(tipple.UsageError, match="only once") as caught:
        tipple.load(table.to_reader(), partition_by="range(k, every=10)", **options)
    assert "bounds=" in str(caught.value.hint)
    assert postgres_target.value("SELECT to_regclass('t')") is None
    tipple.load(table.to_reader(), partition_by="range(k, bounds=[10, 20])", **options)
    assert postgres_target.count("t") == 3
    check_tidy(postgres_target)


def test_ctrl_c_while_the_keys_are_read(postgres_target: PostgresTarget) -> None:
    """A stream that never ends by itself: the look at its keys does."""
    batch = pyarrow.record_batch({"k": pyarrow.array(range(1000), pyarrow.int32())})
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])

    def first() -> Iterator[pyarrow.RecordBatch]:
        timer.start()
        yield batch

    class Endless:
        def __len__(self) -> int:
            return 1 << 40

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            batches = itertools.chain(first(), itertools.repeat(batch))
            return pyarrow.RecordBatchReader.from_batches(batch.schema, batches).__arrow_c_stream__(requested_schema)

    postgres_target.execute("CREATE TABLE t (k integer) PARTITION BY RANGE (k)")
    with pytest.raises(tipple.Interrupted):
        tipple.load(Endless(), into=postgres_target.url, table="t", partition_by="range(k, every=10)")
    timer.join()
    assert bounds_of(postgres_target) == []
    check_tidy(postgres_target)
