"""Frames of polars and pandas, and whatever else hands out rows through the Arrow PyCapsule interface."""

from __future__ import annotations

import csv
import datetime
import io
import struct
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tipple
from targets import DuckdbTarget, Target

UTC = datetime.UTC
COLUMNS: dict[str, list[Any]] = {
    "i": [1, 2, 3],
    "f": [1.5, None, -0.25],
    "s": ["x", None, 'ü "quoted"\n'],
    "b": [True, False, None],
    "d": [datetime.date(2020, 2, 29), None, datetime.date(1969, 12, 31)],
    "ts": [datetime.datetime(2020, 1, 1, 12, 30, 0, 123456), None, datetime.datetime(1960, 1, 1)],
    "n": [Decimal("1.50"), None, Decimal("-99999999.99")],
    "c": ["red", "green", None],
    "l": [[1, 2], None, []],
}
TABLE = (
    "CREATE TABLE t (i integer, f double precision, s text, b boolean, d date, ts timestamp, n numeric(12,2), "
    "c varchar(9), l bigint[])"
)


def polars_frame() -> pl.DataFrame:
    return pl.DataFrame(COLUMNS, schema_overrides={"c": pl.Categorical, "n": pl.Decimal(12, 2), "l": pl.List(pl.Int64)})


def pandas_frame() -> pd.DataFrame:
    """With pandas' own types."""
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in COLUMNS.items()})
    kinds = {"i": "int64", "f": "float64", "s": "str", "b": "boolean", "ts": "datetime64[us]", "c": "category"}
    return frame.astype(kinds)


def arrow_table() -> pa.Table:
    kinds = {"n": pa.decimal128(12, 2), "c": pa.dictionary(pa.int8(), pa.string()), "l": pa.large_list(pa.int64())}
    return pa.table({name: pa.array(values, kinds.get(name)) for name, values in COLUMNS.items()})


class Exporter:
    """Knows nothing but the interface."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


MAKERS = {
    "polars": polars_frame,
    "pandas": pandas_frame,
    "pyarrow": arrow_table,
    "reader": lambda: arrow_table().to_reader(max_chunksize=1),
    "exporter": lambda: Exporter(arrow_table()),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_every_type(engine_target: Target, maker: str) -> None:
    engine_target.execute(TABLE)
    report = tipple.load(MAKERS[maker](), into=engine_target.url, table="t")
    assert report.rows == 3
    expected = sorted(zip(*COLUMNS.values(), strict=True), key=repr)
    assert sorted(engine_target.rows("SELECT i, f, s, b, d, ts, n, c, l FROM t"), key=repr) == expected


@pytest.mark.parametrize("maker", ["polars", "pandas"])
def test_a_table_after_the_frame(engine_target: Target, maker: str) -> None:
    """Moments keep their zone's instant; --schema auto finds the types."""
    moments = [datetime.datetime(2020, 7, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))]
    if maker == "polars":
        frame: Any = pl.DataFrame(
            {"a": [2**40], "m": moments}, schema_overrides={"m": pl.Datetime("ms", "Europe/Berlin")}
        )
    else:
        frame = pd.DataFrame({"a": [2**40], "m": pd.Series(moments).astype("datetime64[ms, Europe/Berlin]")})
    tipple.load(frame, into=engine_target.url, table="t", schema="auto")
    moment = "CAST(m AT TIME ZONE 'UTC' AS varchar)"
    assert engine_target.rows(f"SELECT a, {moment} FROM t") == [(2**40, "2020-07-01 10:00:00")]


def test_a_column_without_values(engine_target: Target) -> None:
    """polars hands one out with a buffer that its type has not."""
    nested = pl.Series("c", [{"x": None}, {"x": None}], dtype=pl.Struct({"x": pl.Null}))
    frame = pl.DataFrame({"a": [1, 2], "b": [None, None], "c": nested})
    tipple.load(frame, into=engine_target.url, table="t", schema="auto")
    assert sorted(engine_target.rows("SELECT a, b, CAST(c AS varchar) FROM t")) == [
        (1, None, '{"x":null}'),
        (2, None, '{"x":null}'),
    ]


@pytest.mark.parametrize("kind", [pl.Int128, pl.UInt128, pl.List(pl.Int128)])
def test_integers_that_arrow_has_not(tmp_path: Path, kind: Any) -> None:
    """They are told as what they are; the remedy keeps them as they are."""
    target = DuckdbTarget(tmp_path / "t.duckdb")
    target.execute("CREATE TABLE t (a hugeint)")
    number = 10**37
    frame = pl.DataFrame({"a": pl.Series([[number] if kind == pl.List(pl.Int128) else number], dtype=kind)})
    with pytest.raises(tipple.UsageError, match="has integers of 128 bits, of which Arrow has none") as caught:
        tipple.load(frame, into=target.url, table="t")
    assert "pl.Decimal(38, 0)" in str(caught.value.hint)
    if kind != pl.List(pl.Int128):
        tipple.load(frame.with_columns(pl.col("a").cast(pl.Decimal(38, 0))), into=target.url, table="t")
        assert target.rows("SELECT a FROM t") == [(number,)]


def test_python_objects_are_refused(tmp_path: Path) -> None:
    """They are addresses in memory."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    frame = pl.DataFrame({"a": [1], "b": [object()]}, schema={"a": pl.Int64, "b": pl.Object})
    with pytest.raises(tipple.UsageError, match="the column b holds Python objects"):
        tipple.load(frame, into=target.url, table="t", schema="auto")


@pytest.mark.parametrize("maker", ["polars", "pandas"])
def test_bad_values_are_rejects(engine_target: Target, tmp_path: Path, maker: str) -> None:
    engine_target.execute("CREATE TABLE t (a smallint NOT NULL, b integer)")
    values = {"a": [1, None, 3, 40_000] * 5_000, "b": list(range(20_000))}
    frame = pl.DataFrame(values) if maker == "polars" else pd.DataFrame(values).astype({"a": "Int64"})
    rejects = tmp_path / "bad.csv"
    report = tipple.load(
        frame, into=engine_target.url, table="t", on_error="skip", max_rejects="50%", rejects=rejects, jobs=2
    )
    assert (report.rows, report.rejects, engine_target.count("t")) == (10_000, 10_000, 10_000)
    lines = rejects.read_text().splitlines()
    assert lines[:2] == [",1", "40000,3"]
    with Path(f"{rejects}.reasons.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(int(row["record_number"]), row["sqlstate"]) for row in rows[:2]] == [(2, "23502"), (4, "22003")]
    assert [int(row["record_number"]) for row in rows] == list(range(2, 20_001, 2))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (pl.Series("a", [1, 2]), "not a single column"),
        (pa.chunked_array([[1, 2]]), "not a single column"),
        (pd.Series([1], name="a"), "not a single column"),
        (pl.LazyFrame({"a": [1]}), "collect()"),
        (pa.array([1]), "a reader"),
        (io.StringIO("1\n"), "give paths"),
        ({"a": [1]}, "give paths"),
        (pd.DataFrame({"a": [1]}, index=[7]), "reset_index"),
        (pd.DataFrame({"a": [1]}).rename_axis("b"), "reset_index"),
        (pd.DataFrame({"a": [1, "x"]}), "values of one type"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "a name of its own"),
    ],
    ids=[
        "polars.Series",
        "ChunkedArray",
        "pandas.Series",
        "LazyFrame",
        "Array",
        "file",
        "dict",
        "index",
        "named_range",
        "mixed",
        "twice",
    ],
)
def test_what_are_no_rows(tmp_path: Path, source: Any, said: str) -> None:
    target = DuckdbTarget(tmp_path / "target.duckdb")
    target.execute("CREATE TABLE t (a integer)")
    with pytest.raises(tipple.UsageError) as caught:
        tipple.load(source, into=target.url, table="t")
    assert said in str(caught.value.hint)
    assert target.count("t") == 0


SURROGATE = "a\ud800"
"""As `errors="surrogatepass"` leaves it: no UTF-8 has it."""


@pytest.mark.parametrize(
    ("frame", "said", "hint"),
    [
        ({"n": [1, 2], "a": pd.Series(["x", SURROGATE], dtype=object)}, "column a, record 2: ", "frame['a'].str"),
        ({"a": pd.Categorical(pd.Series(["x", SURROGATE], dtype=object))}, "column a, record 2: ", "frame['a'].str"),
        ({"a": pd.Series([["x"], [SURROGATE]], dtype=object)}, "the text ", "text.encode("),
        (pd.DataFrame([[1]], columns=pd.Index([SURROGATE], dtype=object)), "the name of a column: ", "another name"),
    ],
    ids=["texts", "labels", "lists", "name"],
)
def test_a_lone_surrogate(tmp_path: Path, frame: Any, said: str, hint: str) -> None:
    """What is said of it can be printed."""
    with pytest.raises(tipple.UsageError, match="has a lone surrogate") as caught:
        tipple.load(pd.DataFrame(frame), into=f"duckdb:///{tmp_path}/x.duckdb", table="t", schema="auto")
    assert said in str(caught.value)
    assert "'a\\ud800'" in str(caught.value)
    assert hint in str(caught.value.hint)
    assert str(caught.value).encode()


@pytest.mark.parametrize("first", ["batch", "paths"])
def test_a_generator_of_batches(tmp_path: Path, first: str) -> None:
    """It is no stream, and does not run on for nothing; with its schema it makes one."""
    batch = pa.record_batch({"a": [1]})

    def rows() -> Iterator[Any]:
        if first == "paths":
            yield tmp_path / "a.csv"
        yield batch
        raise AssertionError

    with pytest.raises(tipple.UsageError, match="builtins generator: neither") as caught:
        tipple.load(rows(), into=f"duckdb:///{tmp_path}/x.duckdb", table="t")
    assert "RecordBatchReader.from_batches(schema, batches)" in str(caught.value.hint)


def test_a_stream_that_cannot_be_asked_for(tmp_path: Path) -> None:
    class Rows:
        @property
        def __arrow_c_stream__(self) -> Any:
            raise ValueError("gone away")

    with pytest.raises(tipple.UsageError, match="gives no Arrow stream of rows: gone away"):
        tipple.load(Rows(), into=f"duckdb:///{tmp_path}/x.duckdb", table="t")


def in_small_batches(records: list[tuple[int, int]]) -> pa.RecordBatchReader:
    """Three rows a batch, and slowly at first, so that all streams are there and take turns."""
    keys, values = zip(*records, strict=True)
    whole = pa.table({"a": pa.array(keys, pa.int32()), "b": pa.array(values, pa.int32())})

    def batches() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(whole.to_batches(max_chunksize=3)):
            if number < 100:
                time.sleep(0.005)
            yield batch

    return pa.RecordBatchReader.from_batches(whole.schema, batches())


@pytest.mark.parametrize("mode", ["append", "create", "upsert"])
def test_which_of_two_rows_does_not_depend_on_the_streams(engine_target: Target, tmp_path: Path, mode: str) -> None:
    """Skipping stores the first one with a key, an upsert the last, whichever stream took which batch."""
    keys = 4_000
    records = [(number // 2, number) for number in range(2 * keys)]
    if mode != "create":
        engine_target.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer)")
    if mode == "append":
        engine_target.execute("INSERT INTO t VALUES (-1, -1)")
    options: dict[str, Any] = {"on_error": "skip", "max_rejects": keys, "rejects": tmp_path / "bad.csv"}
    if mode == "upsert":
        options = {"key": ["a"]}
    if mode == "create":
        schema = tmp_path / "t.sql"
        schema.write_text("CREATE TABLE t (a integer PRIMARY KEY, b integer);")
        options["schema"] = schema
    report = tipple.load(in_small_batches(records), into=engine_target.url, table="t", mode=mode, jobs=3, **options)
    kept = 1 if mode == "upsert" else 0
    assert engine_target.rows("SELECT a, b FROM t WHERE a >= 0 ORDER BY a") == [
        (key, 2 * key + kept) for key in range(keys)
    ]
    assert report.rows == (2 * keys if mode == "upsert" else keys)
    if mode == "upsert":
        assert report.rows_superseded == keys
    else:
        assert report.rejects == keys
        rejected = (tmp_path / "bad.csv").read_text()
        assert rejected == "".join(f"{key},{2 * key + 1}\n" for key in range(keys))


def test_rows_in_the_order_of_the_stream(engine_target: Target) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b integer)")
    records = [(number % 7, number) for number in range(9_000)]
    tipple.load(in_small_batches(records), into=engine_target.url, table="t", jobs=3, preserve_order=True)
    place = "rowid" if isinstance(engine_target, DuckdbTarget) else "ctid"
    assert engine_target.rows(f"SELECT a, b FROM t ORDER BY {place}") == records


def drifting(columns: dict[str, list[Any]], second: pa.RecordBatch) -> pa.RecordBatchReader:
    """A reader whose second batch is not what its schema says."""
    first = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
    return pa.RecordBatchReader.from_batches(first.schema, iter([first, second]))


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (pa.record_batch({"i": [2.0, 6.0], "s": ["b", "c"]}), "i double in place of i int64"),
        (pa.record_batch({"i": pa.array([2, 6], pa.int32()), "s": ["b", "c"]}), "i int32 in place of i int64"),
        (pa.record_batch({"s": ["b", "c"], "i": [2, 6]}), "s string in place of i int64; i int64 in place of s string"),
        (pa.record_batch({"i": [2, 6]}), "1 columns in place of 2"),
    ],
)
def test_a_reader_whose_batches_are_of_other_types(engine_target: Target, second: pa.RecordBatch, said: str) -> None:
    """Chunks of a CSV file by pandas are so, where a column is empty in one of them."""
    engine_target.execute("CREATE TABLE t (i bigint, s text)")
    reader = drifting({"i": [1], "s": ["a"]}, second)
    with pytest.raises(tipple.TippleError, match="batch 2 is not as the reader's schema says") as caught:
        tipple.load(reader, into=engine_target.url, table="t", progress="none")
    assert said in str(caught.value)
    assert engine_target.count("t") == 0


TEXT_WITH_FALLING_OFFSETS = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(struct.pack("<3i", 0, 2, 1)), pa.py_buffer(b"xxab")]
)
KEY_WITHOUT_A_VALUE = pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array(["x"]), safe=False)


@pytest.mark.parametrize("values", [TEXT_WITH_FALLING_OFFSETS, KEY_WITHOUT_A_VALUE], ids=["offsets", "key"])
def test_arrays_that_are_none(engine_target: Target, values: pa.Array) -> None:
    """What a library has spoilt ends the load; it ended the process, or blamed another record."""
    with pytest.raises(tipple.TippleError, match="the column a: "):
        tipple.load(pa.table({"a": values}), into=engine_target.url, table="t", schema="auto")


@pytest.mark.parametrize("wrap", [lambda reader: reader, Exporter], ids=["reader", "exporter"])
def test_a_reader_that_fails(engine_target: Target, wrap: Any) -> None:
    """The message is what was raised, and not the way there through pyarrow and Tipple."""
    engine_target.execute("CREATE TABLE t (i bigint)")

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"i": [1]})
        try:
            raise ZeroDivisionError("the first")
        except ZeroDivisionError:
            raise RuntimeError("the page is\n  gone") from None

    reader = pa.RecordBatchReader.from_batches(pa.schema({"i": pa.int64()}), batches())
    with pytest.raises(tipple.TippleError) as caught:
        tipple.load(wrap(reader), into=engine_target.url, table="t")
    assert caught.value.message == "the stream failed: RuntimeError: the page is gone"
    assert "what hands out the rows has failed" in str(caught.value.hint)
    assert engine_target.count("t") == 0


def test_ranges_of_a_relation(engine_target: Target) -> None:
    """A query has no second stream beside the first, and perhaps other rows: DuckDB said so by an error of its own."""
    with duckdb.connect() as connection:
        relation = connection.sql("SELECT i AS a FROM range(100) t(i)")
        rows = relation.to_arrow_table()
        options: dict[str, Any] = {"table": "t", "schema": "auto", "partition_by": "range(a, every=30)"}
        if isinstance(engine_target, DuckdbTarget):
            options["structure"] = "parquet"
            assert tipple.load(relation, into=engine_target.url, **options).rows == 100
            return
        with pytest.raises(tipple.UsageError, match="rows in memory that can be read only once") as caught:
            tipple.load(relation, into=engine_target.url, **options)
        assert "give a table or a frame" in str(caught.value.hint)
        assert tipple.load(rows, into=engine_target.url, **options).rows == 100


def test_a_closed_relation(tmp_path: Path) -> None:
    connection = duckdb.connect()
    relation = connection.sql("SELECT 1 AS i")
    connection.close()
    with pytest.raises(tipple.UsageError, match="gives no Arrow stream of rows"):
        tipple.load(relation, into=f"duckdb:///{tmp_path}/d.duckdb", table="t", progress="none")


def test_a_relation_of_a_connection_that_is_at_work(tmp_path: Path) -> None:
    into = f"duckdb:///{tmp_path}/x.duckdb"
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("FROM range(300000)").fetchone()
        with pytest.raises(tipple.UsageError) as refused:
            tipple.load(connection.sql("SELECT 1 AS a"), into=into, table="t", schema="auto")
        assert "connection.cursor()" in str(refused.value.hint)
        apart = connection.cursor().sql("SELECT 1 AS a")
        assert tipple.load(apart, into=into, table="u", schema="auto").rows == 1


def test_a_relation_of_a_connection_that_hands_out_another(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        handed_out = connection.sql("FROM range(300000)").__arrow_c_stream__()
        with pytest.raises(tipple.UsageError) as refused:
            tipple.load(connection.sql("SELECT 1 AS a"), into=f"duckdb:///{tmp_path}/x.duckdb", table="t")
        assert "connection.cursor()" in str(refused.value.hint)
        del handed_out


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("SELECT 1 AS a", {"commit_every": 5}),
        ("SELECT 1 AS a", {"skip_lines": 1}),
        ("SELECT 1 AS a", {"schema": "/nowhere/t.sql"}),
        ("SELECT 1 AS a", {"on_error": "skip"}),
        ("SELECT '1'::BIT AS a", {}),
    ],
)
def test_a_connection_whose_relation_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, options: dict[str, Any]
) -> None:
    """It has no query open, though somebody keeps the error, and what led to it, as a notebook does."""
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with duckdb.connect() as connection:
        with pytest.raises(tipple.UsageError) as kept:
            tipple.load(connection.sql(query), into=f"duckdb:///{tmp_path}/x.duckdb", table="t", **options)
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
        assert kept.value.__traceback__ is not None


def test_rows_that_are_null(engine_target: Target) -> None:
    """A column of structs is a table of their fields; where a struct is NULL, each of them is."""
    structs = pa.array([{"a": 1, "b": "x", "c": [1]}, None, {"a": 3, "b": None, "c": None}, None])
    for number, source in enumerate((pa.chunked_array([structs]), pa.chunked_array([structs[1:3], structs[3:]]))):
        tipple.load(source, into=engine_target.url, table=f"n{number}", schema="auto", verify="checksum")
    rows = engine_target.rows("SELECT a, b, c IS NULL FROM n0")
    assert sorted(map(str, rows)) == sorted(
        map(str, [(1, "x", False), (None, None, True), (3, None, True), (None, None, True)])
    )
    assert engine_target.value("SELECT count(*) FROM n1 WHERE a IS NULL AND b IS NULL AND c IS NULL") == 2
    # A field that is never NULL in a row is a column that refuses rows that are none.
    strict = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    engine_target.execute("CREATE TABLE n2 (a bigint)")
    tipple.load(pa.chunked_array([pa.array([{"a": 1}, None], strict)]), into=engine_target.url, table="n2")
    assert sorted(engine_target.rows("SELECT a IS NULL FROM n2")) == [(False,), (True,)]
