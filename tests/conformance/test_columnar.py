"""Parquet and Arrow files, and tables in memory: the same rows as the same values in CSV."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import columnar_targets
import tipple
from columnar_files import (
    COLUMNS,
    WRITERS,
    random_table,
    write_arrow_file,
    write_arrow_stream,
    write_csv,
    write_parquet,
)
from loading import load
from targets import Target, write
from tipple.errors import TippleError

D = Decimal
DAY = datetime.date
MOMENT = datetime.datetime


engine_target = columnar_targets.engine_target
postgres_target = columnar_targets.postgres_target


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Several row groups and batches, the last one not full."""
    return random_table(7, 3501)


def expect_same(target: Target, name: str, like: str) -> None:
    assert target.count(name) == target.count(like)
    assert target.digest(name) == target.digest(like)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("verify", ["checksum"])
def test_the_rows_of_the_csv_load(
    engine_target: Target, tmp_path: Path, table: pa.Table, writer: str, verify: str
) -> None:
    for name in ("t_csv", "t"):
        engine_target.execute(f"CREATE TABLE {name} ({COLUMNS})")
    load(engine_target, write_csv(tmp_path / "in.csv", table), table="t_csv", header="no")
    path = WRITERS[writer](tmp_path / "in", table)
    run = load(engine_target, path, verify=verify, jobs=2)
    assert run.summary is not None
    assert run.summary["rows"] == 3501
    assert run.summary["verify"]["kind"] == "checksum"
    assert run.summary["sources"][0]["rows"] == 3501
    expect_same(engine_target, "t", "t_csv")
    assert load(engine_target, path, verify=verify, jobs=2).summary["status"] == "already loaded"  # type: ignore[index]


def test_into_rows_that_are_there(engine_target: Target, tmp_path: Path, table: pa.Table) -> None:
    """The way into a table with rows, slice by slice and with replacing: the same rows each time."""
    for name in ("t_csv", "t"):
        engine_target.execute(f"CREATE TABLE {name} ({COLUMNS})")
    load(engine_target, write_csv(tmp_path / "in.csv", table), table="t_csv", header="no")
    path = write_parquet(tmp_path / "in.parquet", table, row_group_size=500)
    engine_target.execute("INSERT INTO t (s) VALUES ('old')")
    load(engine_target, path, verify="checksum")
    assert engine_target.count("t") == 3502
    load(engine_target, path, mode="replace", restart=True)
    expect_same(engine_target, "t", "t_csv")
    engine_target.execute("DELETE FROM t")
    load(engine_target, path, restart=True, no_atomic=True)
    expect_same(engine_target, "t", "t_csv")


# ---- columns ---------------------------------------------------------------------------------------------------


def test_columns_go_by_name(engine_target: Target, tmp_path: Path) -> None:
    """In any order and case; the columns that are missing get their defaults."""
    engine_target.execute("CREATE TABLE t (a integer, b text DEFAULT 'none', c date, \"D d\" integer)")
    path = write_parquet(tmp_path / "in.parquet", pa.table({"C": [DAY(2024, 1, 1)], "A": [1], "D d": [4]}))
    load(engine_target, path)
    assert engine_target.rows("SELECT * FROM t") == [(1, "none", DAY(2024, 1, 1), 4)]


def test_blanks_around_a_name(engine_target: Target, tmp_path: Path) -> None:
    """They are a part of it, as in any other place where names are quoted."""
    load(engine_target, write_parquet(tmp_path / "in.parquet", pa.table({" a ": [1], "b": [2]})), schema="auto")
    assert engine_target.rows('SELECT " a ", b FROM t') == [(1, 2)]


def test_names_that_are_too_long(engine_target: Target, tmp_path: Path) -> None:
    """A name that PostgreSQL cuts where the table is made is that column's in the next load too."""
    name = "How satisfied are you with everything that we did in the last twelve months? (" + "ä" * 40 + ")"
    path = write_parquet(tmp_path / "in.parquet", pa.table({"id": [1, 2], name: [5, 4]}))
    load(engine_target, path, schema="auto")
    load(engine_target, write_parquet(tmp_path / "more.parquet", pa.table({name: [3], "id": [7]})))
    assert engine_target.sorted_rows("t") == [(1, 5), (2, 4), (7, 3)]


def test_files_in_different_order(engine_target: Target, tmp_path: Path) -> None:
    """Every file is read by its own names, and by its own types."""
    engine_target.execute("CREATE TABLE t (a bigint, b text)")
    write_parquet(tmp_path / "1.parquet", pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}))
    write_parquet(tmp_path / "2.parquet", pa.table({"b": pa.array(["y"], pa.large_string()), "a": pa.array(["2"])}))
    load(engine_target, tmp_path / "1.parquet", tmp_path / "2.parquet")
    assert engine_target.sorted_rows("t") == [(1, "x"), (2, "y")]


def test_extra_columns_are_named(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b text)")
    path = write_parquet(tmp_path / "in.parquet", pa.table({"a": [1], "more": ["x"], "b": ["y"]}))
    run = load(engine_target, path, check=2)
    assert "more" in run.stderr
    assert "--columns" in run.stderr
    load(engine_target, path, columns="b,a")
    assert engine_target.rows("SELECT * FROM t") == [(1, "y")]
    load(engine_target, path, columns="A")
    assert engine_target.sorted_rows("t") == [(1, "y"), (1, None)]


def test_columns_in_their_order(engine_target: Target, tmp_path: Path) -> None:
    """Where the names are others: as many columns as fields, in the order of the fields."""
    engine_target.execute("CREATE TABLE t (a integer, b text)")
    path = write_parquet(tmp_path / "in.parquet", pa.table({"x": ["y"], "z": [1]}))
    load(engine_target, path, columns="b,a")
    assert engine_target.rows("SELECT * FROM t") == [(1, "y")]
    assert "none named" in load(engine_target, path, columns="a", check=2).stderr


def test_other_columns_in_another_file(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b text)")
    write_parquet(tmp_path / "1.parquet", pa.table({"a": [1], "b": ["x"]}))
    write_parquet(tmp_path / "2.parquet", pa.table({"a": [1]}))
    run = load(engine_target, tmp_path / "1.parquet", tmp_path / "2.parquet", check=2)
    assert "2.parquet has other columns" in run.stderr
    assert "--columns" in run.stderr
    write_parquet(tmp_path / "2.parquet", pa.table({"A": [1], "b": ["x"]}))
    run = load(engine_target, tmp_path / "1.parquet", tmp_path / "2.parquet", check=2)
    assert "2.parquet has other columns than" in run.stderr
    assert "differ in upper and lower case" in run.stderr
    assert "--columns" not in run.stderr
    load(engine_target, tmp_path / "1.parquet")
    load(engine_target, tmp_path / "2.parquet")
    assert engine_target.rows("SELECT a, b FROM t") == [(1, "x"), (1, "x")]


def test_a_table_made_after_the_file(engine_target: Target, tmp_path: Path) -> None:
    """`--schema auto` makes columns that hold every value."""
    table = pa.table(
        {
            "u": pa.array([2**64 - 1], pa.uint64()),
            "n": pa.array([D("1.25")], pa.decimal128(9, 2)),
            "t": pa.array([MOMENT(2024, 1, 1)], pa.timestamp("us")),
            "Mixed Case": ["x"],
            "l": pa.array([[1, 2]], pa.list_(pa.int32())),
            "y": [b"\x00"],
        },
        schema=pa.schema(
            [
                pa.field("u", pa.uint64(), nullable=False), ("n", pa.decimal128(9, 2)), ("t", pa.timestamp("us")),
                ("Mixed Case", pa.string()), ("l", pa.list_(pa.int32())), ("y", pa.binary()),
            ]
        ),
    )  # fmt: skip
    load(engine_target, write_parquet(tmp_path / "in.parquet", table), schema="auto")
    assert engine_target.rows('SELECT u, n, t, "Mixed Case", l, y FROM t') == [
        (D(2**64 - 1), D("1.25"), MOMENT(2024, 1, 1), "x", [1, 2], b"\x00")
    ]
    with pytest.raises(Exception, match=r"(?i)null"):
        engine_target.execute("INSERT INTO t (n) VALUES (1)")


# ---- files -----------------------------------------------------------------------------------------------------


def table_of(values: list[Any], arrow_type: pa.DataType) -> pa.Table:
    return pa.table({"x": pa.array(values, arrow_type)})


WIDENED: list[tuple[str, list[pa.Table], list[str]]] = [
    ("integers", [table_of([1], pa.int16()), table_of([2**40], pa.int64())], ["1", str(2**40)]),
    ("nulls", [table_of([None], pa.null()), table_of([7], pa.int32())], ["7", "None"]),
    (
        "decimals",
        [table_of([Decimal("12.5")], pa.decimal128(3, 1)), table_of([Decimal("1.555")], pa.decimal128(4, 3))],
        ["1.555", "12.500"],
    ),
    (
        "moments",
        [table_of([0], pa.date32()), table_of([5], pa.timestamp("s"))],
        ["1970-01-01 00:00:00", "1970-01-01 00:00:05"],
    ),
    ("texts", [table_of([1], pa.int32()), table_of(["a"], pa.string())], ["1", "a"]),
]  # fmt: skip


@pytest.mark.parametrize(("tables", "expected"), [case[1:] for case in WIDENED], ids=[case[0] for case in WIDENED])
def test_a_table_made_after_files_of_different_types(
    engine_target: Target, tmp_path: Path, tables: list[pa.Table], expected: list[str]
) -> None:
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    load(engine_target, tmp_path / "*.parquet", schema="auto")
    assert sorted(str(row[0]) for row in engine_target.rows("SELECT CAST(x AS varchar) FROM t")) == expected


def test_files_whose_types_no_column_holds(engine_target: Target, tmp_path: Path) -> None:
    """As a double, the integer would be another one; as a timestamp, the moment would lose its zone."""
    moment = table_of([0], pa.timestamp("s", tz="UTC"))
    for first, second in (
        (table_of([1.5], pa.float64()), table_of([2**60 + 1], pa.int64())),
        (table_of([0], pa.timestamp("s")), moment),
    ):
        pq.write_table(first, tmp_path / "0.parquet")
        pq.write_table(second, tmp_path / "1.parquet")
        run = load(engine_target, tmp_path / "*.parquet", schema="auto", check=2)
        assert "no column type holds the values of x as they are" in run.stderr
    engine_target.execute("CREATE TABLE t (x timestamp)")
    run = load(engine_target, tmp_path / "*.parquet")
    assert run.summary is not None
    assert any("x holds moments" in note for note in run.summary["notes"])


ITEM, ELEMENT = pa.field("item", pa.int64()), pa.field("element", pa.int64(), nullable=False)
XY = pa.struct([("x", pa.int64()), ("y", pa.string())])
YX = pa.struct([("y", pa.large_string()), pa.field("x", pa.int32(), nullable=False)])


@pytest.mark.parametrize(
    ("kinds", "value"),
    [
        ([pa.list_(ITEM), pa.large_list(ELEMENT), pa.list_(pa.int32())], [1, 2]),
        ([XY, YX], {"x": 1, "y": "b"}),
        ([pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int16())], [("k", 7)]),
        ([pa.list_(XY), pa.list_(YX)], [{"x": 1, "y": "b"}]),
    ],
    ids=["lists", "structs", "maps", "structs within"],
)
@pytest.mark.parametrize("writer", ["parquet", "arrow"])
def test_nested_values_whose_writers_say_other_things_of_them(
    engine_target: Target, tmp_path: Path, kinds: list[pa.DataType], value: object, writer: str
) -> None:
    """Names of items, widths, the order of fields: the same values all the same."""
    for number, kind in enumerate(kinds):
        field = pa.field("a", kind)
        table = pa.Table.from_arrays([pa.array([value, None], kind)], schema=pa.schema([field]))
        WRITERS[writer](tmp_path / str(number), table)
    load(engine_target, *sorted(tmp_path.iterdir()), schema="auto", verify="checksum")
    texts = engine_target.rows("SELECT CAST(a AS varchar), count(*) FROM t GROUP BY 1 ORDER BY 2")
    assert [count for _, count in texts] == [len(kinds)] * 2


def test_a_file_whose_nested_values_the_first_one_cannot_hold(engine_target: Target, tmp_path: Path) -> None:
    for number, kind in enumerate((pa.int32(), pa.int64())):
        table = pa.table({"a": pa.array([{"x": number}], pa.struct([("x", kind)]))})
        write_arrow_file(tmp_path / f"{number}.arrow", table)
    narrow, wide = tmp_path / "0.arrow", tmp_path / "1.arrow"
    run = load(engine_target, narrow, wide, schema="auto", check=1)
    assert "load this file before that one" in run.stderr
    load(engine_target, wide, narrow, schema="auto")
    assert engine_target.count("t") == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.list_(pa.float64()), pa.list_(pa.float32())),
        (pa.map_(pa.string(), pa.int64(), keys_sorted=True), pa.map_(pa.string(), pa.int64())),
        (pa.list_(pa.binary(16)), pa.list_(pa.binary())),
    ],
    ids=["floats of other digits", "maps in order", "bytes of one length"],
)
def test_nested_values_that_are_others_in_the_first_file(
    engine_target: Target, tmp_path: Path, first: pa.DataType, second: pa.DataType
) -> None:
    """They are loaded from each file by itself, or together in columns of texts; nothing is a reject for it."""
    for number, kind in enumerate((first, second)):
        write_arrow_file(tmp_path / f"{number}.arrow", pa.table({"a": pa.array([None], kind)}))
    run = load(engine_target, tmp_path / "*.arrow", schema="auto", on_error="skip", rejects=tmp_path / "r", check=False)
    assert run.exit_code in (1, 2)
    assert not (tmp_path / "r").exists()
    assert "UUID" not in run.stderr


def test_what_writers_note_beside_items(engine_target: Target, tmp_path: Path) -> None:
    """Iceberg numbers them; that says nothing of their values. A NULL of the second file is one."""
    noted = pa.field("element", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "7"})
    for number, (kind, values) in enumerate(((noted, [[1]]), (pa.field("item", pa.int64()), [[2, None]]))):
        write_parquet(tmp_path / f"{number}.parquet", pa.table({"a": pa.array(values, pa.list_(kind))}))
    engine_target.execute("CREATE TABLE t (a text)")
    load(engine_target, tmp_path / "*.parquet", write_path="text" if engine_target.name != "duckdb" else None)
    assert engine_target.sorted_rows("t") == [("[1]",), ("[2,null]",)]


def test_no_rows(engine_target: Target, tmp_path: Path) -> None:
    """A file without rows, without row groups, and one among others."""
    engine_target.execute("CREATE TABLE t (a integer)")
    empty = pa.table({"a": pa.array([], pa.int32())})
    for number, writer in enumerate(WRITERS.values()):
        run = load(engine_target, writer(tmp_path / f"empty{number}", empty), verify="checksum")
        assert run.summary is not None
        assert run.summary["rows"] == 0
    with pq.ParquetWriter(tmp_path / "none.parquet", empty.schema):
        pass
    write_parquet(tmp_path / "one.parquet", pa.table({"a": pa.array([1], pa.int32())}))
    load(engine_target, tmp_path / "none.parquet", tmp_path / "one.parquet")
    assert engine_target.rows("SELECT * FROM t") == [(1,)]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "lz4", "zstd"])
def test_compressed_pages(engine_target: Target, tmp_path: Path, codec: str) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b text)")
    table = pa.table({"a": pa.array(range(5000), pa.int32()), "b": [f"text {n % 7}" for n in range(5000)]})
    load(engine_target, write_parquet(tmp_path / "in.parquet", table, compression=codec, row_group_size=1234))
    assert engine_target.rows("SELECT count(*), sum(a) FROM t") == [(5000, 12497500)]
    if codec in ("lz4", "zstd"):
        pa.feather.write_feather(table, tmp_path / "in.feather", compression=codec, chunksize=999)
        load(engine_target, tmp_path / "in.feather")
        assert engine_target.rows("SELECT count(*), sum(a) FROM t") == [(10000, 2 * 12497500)]


@pytest.mark.parametrize("says_itself", [False, True])
def test_int96(engine_target: Target, tmp_path: Path, says_itself: bool) -> None:
    """What Spark writes: years that nanoseconds in 64 bits do not reach are the same years, in lists too."""
    engine_target.execute("CREATE TABLE t (n integer, a timestamp, b timestamp[])")
    moments = [MOMENT(1, 1, 1), MOMENT(2024, 5, 6, 7, 8, 9, 123456), MOMENT(9999, 12, 31, 23, 59, 59, 999999), None]
    many = [moments, [], None, [moments[0]]]
    kind = pa.timestamp("us")
    table = pa.table({"n": range(4), "a": pa.array(moments, kind), "b": pa.array(many, pa.list_(kind))})
    options = {"use_deprecated_int96_timestamps": True, "store_schema": says_itself}
    load(engine_target, write_parquet(tmp_path / "in.parquet", table, **options), verify="checksum")
    assert engine_target.rows("SELECT a, b FROM t ORDER BY n") == list(zip(moments, many, strict=True))


def test_dictionaries_that_change(engine_target: Target, tmp_path: Path) -> None:
    """A stream may replace a dictionary between two batches, or add to it."""
    engine_target.execute("CREATE TABLE t (a text)")
    kind = pa.dictionary(pa.int8(), pa.string())
    path = tmp_path / "in.arrows"
    batches = [pa.record_batch({"a": pa.array(values, kind)}) for values in (["x", "y"], ["z"], ["z", "w", None])]
    with pa.ipc.new_stream(path, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    load(engine_target, path)
    assert [row[0] for row in engine_target.sorted_rows("t")] == ["w", "x", "y", "z", "z", None]


def test_what_stands_behind_a_stream(engine_target: Target, tmp_path: Path) -> None:
    """Another stream would be rows that nobody reads; zeros are what is left of a page."""
    engine_target.execute("CREATE TABLE t (a integer)")
    data = write_arrow_stream(tmp_path / "one.arrows", pa.table({"a": pa.array([1, 2], pa.int32())})).read_bytes()
    path = tmp_path / "in.arrows"
    for spoilt, complaint in (
        (data + data, f"its stream ends at byte {len(data)}, and something else follows it"),
        (data + bytes(5000) + b"x", "something else follows it"),
        *((data[:-left], "it ends within a message") for left in range(1, 8)),
    ):
        path.write_bytes(spoilt)
        assert complaint in load(engine_target, path, check=1).stderr
    assert engine_target.count("t") == 0
    for whole in (data, data[:-8], data + bytes(5000)):
        path.write_bytes(whole)
        run = load(engine_target, path, restart=True)
        assert run.summary is not None
        noted = [note for note in run.summary["notes"] if "no mark of its end" in note]
        assert len(noted) == (whole == data[:-8])
    assert engine_target.count("t") == 6


def test_a_footer_with_an_impossible_place(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a bigint)")
    path = tmp_path / "in.parquet"
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False, "store_schema": False}
    data = bytearray(write_parquet(path, pa.table({"a": [1]}), **plain).read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    found = False
    # Thrift writes the offset 4 as 8, and -4 as 7.
    for at in (at for at in range(footer, len(data) - 8) if data[at] == 8):
        path.write_bytes(data[:at] + b"\x07" + data[at + 1 :])
        run = load(engine_target, path, check=False)
        assert "Traceback" not in run.stderr
        assert "panicked" not in run.stderr
        found = found or (run.exit_code == 1 and "cannot be read" in run.stderr)
    assert found


def test_a_type_that_is_not_read(tmp_path: Path) -> None:
    """The file is as good as any: the remedy is not to write it again."""
    path = tmp_path / "in.parquet"
    polars.DataFrame({"a": polars.Series([2**100], dtype=polars.Int128)}).write_parquet(path)
    with pytest.raises(TippleError, match="128") as caught:
        tipple.load(path, into=f"duckdb:///{tmp_path / 't.duckdb'}", table="t", schema="auto")
    assert "cast that column" in str(caught.value.hint)


@pytest.mark.parametrize("writer", WRITERS)
def test_damaged_files(tmp_path: Path, table: pa.Table, writer: str) -> None:
    """Cut off anywhere, or with bytes overwritten: a short error that names the file, or the rows; never a hang."""
    path = WRITERS[writer](tmp_path / "in", table.select(["i8", "s"]).slice(0, 1500))
    data = path.read_bytes()
    rng = random.Random(5)
    cut = [data[:length] for length in (0, 3, 8, 20, len(data) // 2, len(data) - 1, len(data) - 9)]
    broken = []
    for _ in range(25):
        bytes_ = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            bytes_[rng.randrange(8, len(bytes_))] = rng.randrange(256)
        broken.append(bytes(bytes_))
    bad = write(tmp_path / f"bad{path.suffix}", b"")
    duckdb_file = tmp_path / "t.duckdb"
    url = f"duckdb:///{duckdb_file}"
    import duckdb

    with duckdb.connect(str(duckdb_file)) as connection:
        connection.execute("CREATE TABLE t (i8 bigint, s text)")
    complaints = []
    for number, contents in enumerate([*cut, *broken]):
        bad.write_bytes(contents)
        try:
            tipple.load(bad, into=url, table="t", restart=True)
        except tipple.TippleError as error:
            if "internal" in str(error) or (number < len(cut) and "bad." not in str(error)):
                complaints.append(f"{number}: {error}")
            continue
        # An end marker of a stream may be missing; other bytes may be in a value, or in nothing that is read.
        if number < len(cut) and writer != "stream":
            complaints.append(f"{number}: cut to {len(contents)} bytes, and loaded")
    assert not complaints, "\n".join(complaints)


def test_not_what_it_seems(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    csv = write(tmp_path / "in.csv", "1\n")
    parquet = write_parquet(tmp_path / "in.dat", pa.table({"a": [2]}))
    assert "neither Parquet nor Arrow" in load(engine_target, csv, format="parquet", check=2).stderr
    assert "not --format arrow" in load(engine_target, parquet, format="arrow", check=2).stderr
    assert "is a Parquet file" in load(engine_target, parquet, format="csv", check=2).stderr
    assert "different formats" in load(engine_target, parquet, csv, check=2).stderr
    assert "--delimiter" in load(engine_target, parquet, delimiter=";", check=2).stderr
    named = write(tmp_path / "in.parquet", "1\n")
    assert "does not begin" in load(engine_target, named, check=2).stderr
    for magic, found in (("PARE", "an encrypted Parquet file"), ("FEA1", "a Feather file of version 1")):
        assert found in load(engine_target, write(tmp_path / "in.pq", magic + "x" * 100), check=2).stderr
    load(engine_target, parquet)
    load(engine_target, csv)
    assert engine_target.sorted_rows("t") == [(1,), (2,)]


def test_no_type_for_it(engine_target: Target, tmp_path: Path) -> None:
    """A type that cannot be read is refused before anything is loaded."""
    engine_target.execute("CREATE TABLE t (a text)")
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    run = load(engine_target, write_arrow_file(tmp_path / "in.arrow", pa.table({"a": union})), check=1)
    assert "cannot be read" in run.stderr
    assert "--columns" in run.stderr


def test_duplicate_key_is_named(postgres_target: Target, tmp_path: Path) -> None:
    """What the server refuses is traced back to its record."""
    postgres_target.execute("CREATE TABLE t (a integer PRIMARY KEY)")
    postgres_target.execute("INSERT INTO t VALUES (-1)")
    values = pa.table({"a": pa.array([*range(2000), 7], pa.int32())})
    path = write_parquet(tmp_path / "in.parquet", values, row_group_size=900)
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load(path, into=postgres_target.url, table="t", jobs=1)
    assert caught.value.sqlstate == "23505"
    assert caught.value.record_number in (8, 2001)


def test_text_write_path(postgres_target: Target, tmp_path: Path, table: pa.Table) -> None:
    """The server reads every value from its text: the same rows."""
    for name in ("t_csv", "t"):
        postgres_target.execute(f"CREATE TABLE {name} ({COLUMNS})")
    load(postgres_target, write_csv(tmp_path / "in.csv", table), table="t_csv", header="no")
    load(postgres_target, write_parquet(tmp_path / "in.parquet", table), write_path="text")
    expect_same(postgres_target, "t", "t_csv")


# ---- memory ----------------------------------------------------------------------------------------------------


def test_table_in_memory(engine_target: Target, tmp_path: Path, table: pa.Table) -> None:
    """Loaded each time it is given: who can say that it is the same?"""
    for name in ("t_csv", "t"):
        engine_target.execute(f"CREATE TABLE {name} ({COLUMNS})")
    load(engine_target, write_csv(tmp_path / "in.csv", table), table="t_csv", header="no")
    report = tipple.load(table, into=engine_target.url, table="t", jobs=2, verify="checksum")
    assert report.rows == 3501
    assert report.sources[0].path.startswith("<pyarrow Table")
    expect_same(engine_target, "t", "t_csv")
    again = tipple.load(table, into=engine_target.url, table="t", jobs=2, verify="checksum")
    assert again.status == "loaded"
    assert engine_target.count("t") == 7002
    tipple.load(table, into=engine_target.url, table="t", mode="replace", atomic=True)
    expect_same(engine_target, "t", "t_csv")
    assert engine_target.leftovers("t", "t_csv") == set()


def test_reader_in_memory(engine_target: Target) -> None:
    """Batches that are made while they are loaded, and a producer that fails half-way."""
    engine_target.execute("CREATE TABLE t (a bigint)")
    schema = pa.schema([("a", pa.int64())])

    def batches(fail: bool) -> Any:
        for start in range(0, 100_000, 10_000):
            if fail and start == 50_000:
                raise ValueError("the producer gave up")
            yield pa.record_batch({"a": pa.array(range(start, start + 10_000), pa.int64())})

    with pytest.raises(tipple.TippleError, match="the producer gave up") as caught:
        tipple.load(pa.RecordBatchReader.from_batches(schema, batches(True)), into=engine_target.url, table="t")
    assert not isinstance(caught.value, tipple.UsageError)
    assert caught.value.hint
    assert engine_target.count("t") == 0
    tipple.load(pa.RecordBatchReader.from_batches(schema, batches(False)), into=engine_target.url, table="t", jobs=2)
    assert engine_target.rows("SELECT count(*), sum(a) FROM t") == [(100_000, 4999950000)]


def test_bad_value_in_memory(engine_target: Target) -> None:
    engine_target.execute("CREATE TABLE t (a smallint)")
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load(pa.table({"a": [1] * 40_000 + [99_999]}), into=engine_target.url, table="t")
    assert (caught.value.record_number, caught.value.column, caught.value.text) == (40_001, "a", "99999")
    assert engine_target.count("t") == 0
    assert engine_target.leftovers("t") == set()


def test_stream_file_in_slices(engine_target: Target, tmp_path: Path) -> None:
    """A large stream is cut between its batches."""
    engine_target.execute("CREATE TABLE t (a bigint)")
    table = pa.table({"a": pa.array(range(1_000_000), pa.int64())})
    run = load(engine_target, write_arrow_stream(tmp_path / "in.arrows", table, 50_000), jobs=2)
    assert run.summary is not None
    assert run.summary["slices"] > 2
    assert engine_target.rows("SELECT count(*), sum(a) FROM t") == [(1_000_000, 499999500000)]


def test_upsert(engine_target: Target, tmp_path: Path) -> None:
    """Of two records with one key the later one counts, in memory too, where streams would share the batches."""
    engine_target.execute("CREATE TABLE t (k integer PRIMARY KEY, v text)")
    engine_target.execute("INSERT INTO t VALUES (1, 'old'), (9, 'kept')")
    table = pa.table({"k": pa.array([1, 2, 2], pa.int32()), "v": ["a", "b", "c"]})
    load(engine_target, write_parquet(tmp_path / "in.parquet", table), mode="upsert", key="k")
    assert engine_target.sorted_rows("t") == [(1, "a"), (2, "c"), (9, "kept")]
    many = pa.table({"k": [1] * 100_000, "v": [str(number) for number in range(100_000)]})
    tipple.load(many, into=engine_target.url, table="t", mode="upsert", key=["k"], jobs=2)
    assert engine_target.sorted_rows("t") == [(1, "99999"), (2, "c"), (9, "kept")]


def test_what_parquet_itself_says_of_a_type(engine_target: Target, tmp_path: Path) -> None:
    """UUID and JSON are types of Parquet; a writer that notes no Arrow schema beside them means them all the same."""
    path, value = tmp_path / "in.parquet", "61616161-6161-4161-6161-616161616161"
    duckdb.sql(f"COPY (SELECT '{value}'::uuid AS u, '{{\"a\": [1]}}'::json AS j) TO '{path}'")
    load(engine_target, path, schema="auto")
    assert engine_target.rows("SELECT u::text, j::text FROM t") == [(value, '{"a": [1]}')]
    types = engine_target.rows(
        "SELECT lower(data_type) FROM information_schema.columns WHERE table_name = 't' ORDER BY 1"
    )
    assert types == [("json",), ("uuid",)]
    engine_target.execute("CREATE TABLE u (u text, j text)")
    load(engine_target, path, table="u")
    assert engine_target.rows("SELECT u, j FROM u") == [(value, '{"a": [1]}')]
