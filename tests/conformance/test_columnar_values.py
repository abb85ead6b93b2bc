"""Values of Parquet and Arrow files, and of tables in memory, in columns of other types: exactly, or refused."""

from __future__ import annotations

import datetime
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import columnar_targets
import tipple
from columnar_files import write_arrow_file, write_arrow_stream, write_parquet
from loading import load, load_stdin
from targets import Target

D = Decimal
DAY = datetime.date
MOMENT = datetime.datetime

engine_target = columnar_targets.engine_target
postgres_target = columnar_targets.postgres_target


# The values of a column, the type of the column and what it holds afterwards.
CONVERSIONS: list[tuple[str, pa.DataType, list[Any], str, list[Any]]] = [
    ("int8", pa.int8(), [-128, 127, None], "smallint", [-128, 127, None]),
    ("uint8", pa.uint8(), [0, 255, None], "bigint", [0, 255, None]),
    ("uint16", pa.uint16(), [65535], "integer", [65535]),
    ("uint32", pa.uint32(), [2**32 - 1], "bigint", [2**32 - 1]),
    ("uint64", pa.uint64(), [2**64 - 1, 0], "numeric(20,0)", [D(2**64 - 1), D(0)]),
    ("narrow", pa.int64(), [32767, -32768, None], "smallint", [32767, -32768, None]),
    ("int to numeric", pa.int32(), [5, -7], "numeric(10,3)", [D("5.000"), D("-7.000")]),
    ("int to double", pa.int64(), [2**53, -3], "double precision", [float(2**53), -3.0]),
    ("int to text", pa.int64(), [12, -3], "text", ["12", "-3"]),
    ("float16", pa.float16(), [1.5, None], "real", [1.5, None]),
    ("float32 widens", pa.float32(), [0.5, 1e30], "double precision", [0.5, 1.0000000150474662e30]),
    ("whole floats", pa.float64(), [3.0, -1e15, None, 0.0], "bigint", [3, -(10**15), None, 0]),
    ("every digit of float32", pa.float32(), [123456792.0, -(2.0**30) - 128], "integer", [123456792, -(2**30) - 128]),
    ("every digit of float64", pa.float64(), [2.0**62, -(2.0**63), None], "bigint", [2**62, -(2**63), None]),
    ("every digit of numeric", pa.float64(), [2.0**62, 2.0**100], "numeric(38,0)", [D(2**62), D(2**100)]),
    ("whole decimals", pa.decimal128(20, 2), [D("3.00"), D("-7.00"), None], "integer", [3, -7, None]),
    ("float to numeric", pa.float64(), [0.1, -2.5, 1e-7], "numeric(12,7)", [D("0.1"), D("-2.5"), D("1e-7")]),
    ("numeric to double", pa.decimal128(10, 2), [D("1.25")], "double precision", [1.25]),
    ("more places", pa.decimal128(5, 1), [D("1.5"), D("-999.9")], "numeric(10,4)", [D("1.5"), D("-999.9")]),
    ("rounded as text is", pa.decimal128(6, 3), [D("1.005"), D("-1.005"), D("1.004")], "numeric(5,2)",
     [D("1.01"), D("-1.01"), D("1.00")]),
    ("negative scale", pa.decimal128(3, -2), [D("12300"), D("-100")], "numeric(8,1)", [D(12300), D(-100)]),
    ("decimal256", pa.decimal256(60, 2), [D("123456789012345678901234567890.12")], "numeric(38,2)",
     [D("123456789012345678901234567890.12")]),
    ("date64", pa.date64(), [DAY(2024, 2, 29), DAY(1, 1, 1)], "date", [DAY(2024, 2, 29), DAY(1, 1, 1)]),
    ("date to timestamp", pa.date32(), [DAY(1969, 12, 31)], "timestamp", [MOMENT(1969, 12, 31)]),
    ("midnight to date", pa.timestamp("ns"), [MOMENT(2024, 2, 29), MOMENT(1960, 1, 1)], "date",
     [DAY(2024, 2, 29), DAY(1960, 1, 1)]),
    ("midnight UTC to date", pa.timestamp("us", "UTC"), [MOMENT(2024, 2, 29), None], "date", [DAY(2024, 2, 29), None]),
    ("seconds", pa.timestamp("s"), [MOMENT(1900, 1, 1, 1, 2, 3)], "timestamp", [MOMENT(1900, 1, 1, 1, 2, 3)]),
    ("millis", pa.timestamp("ms"), [MOMENT(2024, 1, 1, 0, 0, 0, 123000)], "timestamp",
     [MOMENT(2024, 1, 1, 0, 0, 0, 123000)]),
    ("whole micros", pa.timestamp("ns"), [MOMENT(1969, 12, 31, 23, 59, 59, 999999), None], "timestamp",
     [MOMENT(1969, 12, 31, 23, 59, 59, 999999), None]),
    ("moments", pa.timestamp("us", "Europe/Berlin"), [MOMENT(2024, 7, 1, 10)], "timestamp", [MOMENT(2024, 7, 1, 10)]),
    ("large text", pa.large_string(), ["x", "", None, "漢字"], "text", ["x", "", None, "漢字"]),
    ("text view", pa.string_view(), ["x", "", None, "a text longer than twelve bytes"], "varchar(40)",
     ["x", "", None, "a text longer than twelve bytes"]),
    ("dictionary", pa.dictionary(pa.int8(), pa.string()), ["x", None, "x", "y"], "text", ["x", None, "x", "y"]),
    ("dictionary of ints", pa.dictionary(pa.int32(), pa.int64()), [5, None, 5], "integer", [5, None, 5]),
    ("text to int", pa.string(), [" 12", None, "-3"], "integer", [12, None, -3]),
    ("text to date", pa.string(), ["2024-02-29", None], "date", [DAY(2024, 2, 29), None]),
    ("text to numeric", pa.string(), ["1.005", "1e2"], "numeric(8,2)", [D("1.01"), D("100")]),
    ("nulls", pa.null(), [None, None], "integer", [None, None]),
    ("nulls to text", pa.null(), [None, None], "text", [None, None]),
    ("bool to text", pa.bool_(), [True, False, None], "text", ["true", "false", None]),
    ("bytes that are text", pa.binary(), [b"abc", "ü".encode(), None], "text", ["abc", "ü", None]),
    ("nested to text", pa.list_(pa.int32()), [[1, None, 3], [], None], "text", ["[1,null,3]", "[]", None]),
    ("struct to text", pa.struct([("a", pa.int8()), ("b", pa.string())]), [{"a": 1, "b": 'x"\\\n'}, None], "text",
     ['{"a":1,"b":"x\\"\\\\\\n"}', None]),
    ("map to text", pa.map_(pa.string(), pa.float64()), [[("k", 1.5), ("n", float("nan"))]], "text",
     ['{"k":1.5,"n":"NaN"}']),
    ("nanoseconds as text", pa.timestamp("ns"), [1], "text", ["1970-01-01 00:00:00.000000001"]),
    ("time as text", pa.time64("us"), [datetime.time(1, 2, 3, 4)], "text", ["01:02:03.000004"]),
    ("bytes", pa.binary(), [b"\x00\xff", b"", None], "bytea", [b"\x00\xff", b"", None]),
    ("uuid", pa.binary(16), [bytes(range(16))], "uuid", ["00010203-0405-0607-0809-0a0b0c0d0e0f"]),
    ("time", pa.time32("ms"), [datetime.time(23, 59, 59, 999000), None], "time",
     [datetime.time(23, 59, 59, 999000), None]),
    ("array", pa.list_(pa.int32()), [[1, None, 3], [], None], "integer[]", [[1, None, 3], [], None]),
    ("array of bytes", pa.list_(pa.binary(16)), [[b"0123456789abcdef", None], None], "bytea[]",
     [[b"0123456789abcdef", None], None]),
    ("array of bytes that are UUIDs", pa.list_(pa.list_(pa.binary(16))), [[[bytes(range(16))]]], "uuid[][]",
     [[["00010203-0405-0607-0809-0a0b0c0d0e0f"]]]),
    ("array of text", pa.list_(pa.string()), [['a"b\\', "NULL", "", "x,y"]], "text[]", [['a"b\\', "NULL", "", "x,y"]]),
    ("moment", pa.timestamp("us", "UTC"), [MOMENT(2024, 7, 1, 10)], "timestamptz",
     [MOMENT(2024, 7, 1, 10)]),
]  # fmt: skip


def plain(value: Any) -> Any:
    """Values as Python compares them, whatever the driver made of them."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, uuid.UUID) else value


ONLY_THE_TARGET_READS = (
    "bytea", "bytea[]", "uuid", "uuid[]", "uuid[][]", "time", "integer[]", "text[]", "timestamptz",
)  # fmt: skip
"""With one of these a load into PostgreSQL goes as text; the other columns must be the same on either way."""


@pytest.mark.parametrize("way", ["file", "file without them", "memory"])
def test_conversions(engine_target: Target, tmp_path: Path, way: str) -> None:
    """Each by itself in one column of one table, whose rows are numbered: what comes out is known."""
    failures = []
    cases = [case for case in CONVERSIONS if way != "file without them" or case[3] not in ONLY_THE_TARGET_READS]
    length = max(len(values) for _, _, values, _, _ in cases)
    fields, clauses, arrays = [pa.field("n", pa.int32())], ["n integer"], [pa.array(range(length), pa.int32())]
    for number, (_, kind, values, sql_type, _) in enumerate(cases):
        # Behind an offset, so that a buffer that is read from its start is found out.
        array = pa.array([None, None, None, *values, *[None] * (length - len(values))], kind).slice(3)
        fields.append(pa.field(f"c{number}", kind))
        clauses.append(f"c{number} {sql_type}")
        arrays.append(array)
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    engine_target.execute(f"CREATE TABLE t ({', '.join(clauses)})")
    if way == "memory":
        tipple.load(table, into=engine_target.url, table="t")
    else:
        load(engine_target, write_arrow_file(tmp_path / "in.arrow", table))
    selected = ", ".join(
        f"c{number}" + (" AT TIME ZONE 'UTC'" if sql_type == "timestamptz" else "")
        for number, (_, _, _, sql_type, _) in enumerate(cases)
    )
    rows = engine_target.rows(f"SELECT n, {selected} FROM t ORDER BY n")
    for number, (name, _, values, _, expected) in enumerate(cases):
        found = [plain(row[number + 1]) for row in rows[: len(values)]]
        if found != expected and [str(value) for value in found] != [str(value) for value in expected]:
            failures.append(f"{name}: {found}, not {expected}")
    assert not failures, "\n".join(failures)


REFUSED: list[tuple[pa.DataType, list[Any], str, str, str]] = [
    (pa.int64(), [1, 32768], "smallint", "out of range", "32768"),
    (pa.uint64(), [1, 2**63], "bigint", "out of range", str(2**63)),
    (pa.float64(), [1.0, 1.5], "integer", "invalid input syntax", "1.5"),
    (pa.decimal128(9, 2), [D("1.00"), D("1.50")], "integer", "invalid input syntax", "1.50"),
    (pa.float64(), [1.0, float("nan")], "integer", "invalid input syntax", "NaN"),
    (pa.float64(), [1.0, 1e39], "real", "out of range", "1e39"),
    (pa.decimal128(8, 2), [D(1), D("1000.00")], "numeric(5,2)", "overflow", "1000.00"),
    (pa.timestamp("ns"), [0, 1001], "timestamp", "nanoseconds", "1970-01-01 00:00:00.000001001"),
    (pa.timestamp("us"), [0, 1], "date", "time of day", "1970-01-01 00:00:00.000001"),
    (pa.timestamp("us", "UTC"), [0, 1], "date", "time of day", "1970-01-01 00:00:00.000001+00"),
    (pa.timestamp("ms", "Europe/Berlin"), [0, 82_800_000], "date", "time of day", "1970-01-01 23:00:00+00"),
    (pa.timestamp("us"), [0, -(2**63)], "timestamp", "out of range", "290309-12-21 19:59:05.224192 BC"),
    (pa.timestamp("us", "UTC"), [0, -(2**63) + 2], "timestamptz", "out of range", "290309-12-21 19:59:05.224194+00 BC"),
    (pa.timestamp("ms"), [0, 2**62], "timestamp", "out of range", "146140482-04-24 15:36:27.904"),
    (pa.time64("us"), [0, -1], "time", "out of range", "00:00:-1.999999"),
    (pa.time64("us"), [0, 86_400_000_001], "time", "out of range", "24:00:00.000001"),
    (pa.time32("ms"), [0, -1], "time", "out of range", "00:00:-1.999"),
    (pa.date32(), [0, -(2**31)], "date", "out of range", "5877642-06-23 BC"),
    (pa.string(), ["1", "z"], "integer", "invalid input syntax", "z"),
    (pa.string(), ["ok", "a\0b"], "text", "NUL", r"a\x00b"),
    (pa.binary(), [b"ok", b"\xff"], "text", "UTF-8", "\ufffd"),
    (pa.int32(), [1, None], "integer NOT NULL", "not-null", "NULL"),
    (pa.string(), ["1", None], "text NOT NULL", "not-null", "NULL"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]} to {case[2]}")
def test_refused_values(engine_target: Target, tmp_path: Path, case: Any) -> None:
    """Nothing is stored, and the error names the file, the record, the column, the value and what to do."""
    kind, values, sql_type, reason, text = case
    engine_target.execute(f"CREATE TABLE t (a {sql_type})")
    # In the second row group, so that records are counted across groups.
    table = pa.table({"a": pa.array([values[0]] * 1000 + values, kind)})
    path = write_parquet(tmp_path / "in.parquet", table, row_group_size=1000, coerce_timestamps=None)
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load(path, into=engine_target.url, table="t", jobs=1)
    error = caught.value
    assert error.file == str(path)
    assert error.record_number == 1002
    assert error.column == "a"
    assert error.text == text
    assert reason in error.reason
    assert error.remedy
    assert engine_target.count("t") == 0


def test_varchar_limits(postgres_target: Target, tmp_path: Path) -> None:
    """As COPY has them: spaces beyond the limit are cut, anything else is refused; char(n) is padded."""
    postgres_target.execute("CREATE TABLE t (v varchar(3), c char(4))")
    table = pa.table({"v": ["abc", "ab   ", "äöü"], "c": ["a", "abcd  ", "äö"]})
    load(postgres_target, write_parquet(tmp_path / "in.parquet", table), verify="checksum")
    assert postgres_target.sorted_rows("t") == sorted([("abc", "a   "), ("ab ", "abcd"), ("äöü", "äö  ")], key=repr)
    run = load(postgres_target, write_parquet(tmp_path / "bad.parquet", pa.table({"v": ["abcd"], "c": ["x"]})), check=1)
    assert "too long" in run.stderr


def test_numbers_without_size(postgres_target: Target, tmp_path: Path) -> None:
    """`numeric` without precision keeps every digit, NaN and the infinities."""
    postgres_target.execute("CREATE TABLE t (n integer, a numeric, b numeric, c numeric, d numeric(60,5))")
    table = pa.table(
        {
            "n": [1, 2],
            "a": pa.array([D("1.50"), None], pa.decimal128(10, 2)),
            "b": pa.array([float("nan"), 0.1], pa.float64()),
            "c": pa.array([2**64 - 1, 0], pa.uint64()),
            "d": pa.array([D("12345.67891"), D("-0.00001")], pa.decimal128(38, 5)),
        }
    )
    load(postgres_target, write_parquet(tmp_path / "in.parquet", table), verify="checksum")
    rows = postgres_target.rows("SELECT a::text, b::text, c::text, d::text FROM t ORDER BY n")
    assert rows == [("1.50", "NaN", "18446744073709551615", "12345.67891"), (None, "0.1", "0", "-0.00001")]


def test_infinities(engine_target: Target, tmp_path: Path) -> None:
    """What DuckDB writes for infinity is infinity again."""
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "in.parquet"
    duckdb.sql(
        "SELECT 1 n, 'infinity'::date d, '-infinity'::timestamp t UNION ALL SELECT 2, '-infinity', 'infinity'"
    ).write_parquet(str(path))
    engine_target.execute("CREATE TABLE t (n integer, d date, t timestamp)")
    load(engine_target, path)
    rows = engine_target.rows("SELECT CAST(d AS varchar), CAST(t AS varchar) FROM t ORDER BY n")
    assert rows == [("infinity", "-infinity"), ("-infinity", "infinity")]


def test_numbers_into_a_date(engine_target: Target, tmp_path: Path) -> None:
    """Those of ISO 8601 without dashes are dates; what others count, nobody knows."""
    engine_target.execute("CREATE TABLE t (d date)")
    load(engine_target, write_parquet(tmp_path / "iso.parquet", pa.table({"d": [20240131]})))
    assert engine_target.value("SELECT d FROM t") == DAY(2024, 1, 31)
    run = load(engine_target, write_parquet(tmp_path / "days.parquet", pa.table({"d": [19723]})), check=1)
    assert "a number does not say what it counts, or from when: make it a date where the source is made" in run.stderr
    run = load(engine_target, write_parquet(tmp_path / "text.parquet", pa.table({"d": ["19723"]})), check=1)
    # PostgreSQL has read it itself.
    said = "ISO form" if engine_target.engine == "duckdb" else 'invalid input syntax for type date: "19723"'
    assert said in run.stderr


def test_a_time_beyond_the_day(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a time)")
    hours = pa.array([25 * 3600 * 10**6], pa.int64()).view(pa.time64("us"))
    run = load(engine_target, write_arrow_file(tmp_path / "in.arrow", pa.table({"a": hours})), check=1)
    assert "25:00:00" in run.stderr
    assert "type the column's type" not in run.stderr


@pytest.mark.parametrize("form", ["arrow", "parquet", "auto"])
def test_not_from_standard_input(engine_target: Target, tmp_path: Path, form: str) -> None:
    engine_target.execute("CREATE TABLE t (a bigint)")
    writer = write_parquet if form == "parquet" else write_arrow_stream
    data = writer(tmp_path / "in", pa.table({"a": [1]})).read_bytes()
    done = load_stdin(engine_target, data, format=form)
    assert done.returncode == 2
    assert b"write it to a file first" in done.stderr
    assert b"pyarrow.ipc.open_stream" in done.stderr


def test_uuids_within_lists(engine_target: Target, tmp_path: Path) -> None:
    """They are bytes where the column has bytes, whatever the file calls them."""
    value = bytes(range(16))
    items = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([value, None], pa.binary(16)))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), items)
    engine_target.execute("CREATE TABLE t (n integer, b bytea[], u uuid[])")
    table = pa.table({"n": pa.array([1, 2], pa.int32()), "b": lists, "u": lists})
    load(engine_target, write_arrow_file(tmp_path / "in.arrow", table))
    rows = engine_target.rows("SELECT b, u FROM t ORDER BY n")
    assert [[plain(list(cell)) for cell in row] for row in rows] == [
        [[value], ["00010203-0405-0607-0809-0a0b0c0d0e0f"]],
        [[None], [None]],
    ]


def test_json_within_lists(engine_target: Target, tmp_path: Path) -> None:
    """A NULL among it is JSON's."""
    items = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":1}', None, "[1]"]))
    table = pa.table({"v": pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), items)})
    load(engine_target, write_parquet(tmp_path / "in.parquet", table), schema="auto")
    assert json.loads(engine_target.value("SELECT CAST(v AS text) FROM t")) == [{"a": 1}, None, [1]]


def test_dictionaries_below_nulls(engine_target: Target, tmp_path: Path) -> None:
    """A field that says it has no NULL has none to show where what it belongs to is NULL."""
    label = pa.field("x", pa.dictionary(pa.int32(), pa.string()), nullable=False)
    kind = pa.struct([pa.field("n", pa.struct([label]), nullable=False)])
    values = [{"n": {"x": "d"}}, None]
    for number, array in enumerate((pa.array(values, kind), pa.array([values, None], pa.list_(kind)))):
        path = write_arrow_file(tmp_path / f"{number}.arrow", pa.table({"v": array}))
        load(engine_target, path, schema="auto", table=f"t{number}", on_error="skip", rejects=tmp_path / "rejects")
        assert engine_target.rows(f"SELECT count(*), count(v) FROM t{number}") == [(2, 1)]
