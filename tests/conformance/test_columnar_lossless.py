"""Values of columnar sources are stored as they are, or refused: none is rounded, cut or put elsewhere in silence."""

from __future__ import annotations

import ctypes
import json
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tipple
from columnar_files import write_arrow_file, write_parquet
from loading import load, load_here
from targets import DuckdbTarget, Target


@pytest.mark.parametrize("verify", ["count", "checksum"])
def test_infinite_days_as_moments_and_back(engine_target: Target, tmp_path: Path, verify: str) -> None:
    engine_target.execute("CREATE TABLE t (id integer, m timestamp, d date)")
    days = pa.array([2**31 - 1, -(2**31) + 1, 0, 20_000], pa.int32()).cast(pa.date32())
    moments = pa.array([2**63 - 1, -(2**63) + 1, 0, 86_400_000_000], pa.int64()).cast(pa.timestamp("us"))
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": range(4), "m": days, "d": moments}), path)
    load(engine_target, path, verify=verify)
    stored = [
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
        ("1970-01-01 00:00:00", "1970-01-01"),
        ("2024-10-04 00:00:00", "1970-01-02"),
    ]
    assert engine_target.rows("SELECT m::varchar, d::varchar FROM t ORDER BY id") == stored


@pytest.mark.parametrize("days", [200_000_000, -200_000_000])
def test_a_day_beyond_all_moments(engine_target: Target, tmp_path: Path, days: int) -> None:
    engine_target.execute("CREATE TABLE t (m timestamp)")
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"m": pa.array([days], pa.int32()).cast(pa.date32())}), path)
    load(engine_target, path, check=1)
    assert engine_target.count("t") == 0


def test_columns_that_the_file_knows_are_not_taken_by_place(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b integer, c integer, d integer)")
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"a": [1], "b": [2], "c": [3]}), path)
    run = load(engine_target, path, columns="a,c,d", check=2)
    assert "none named d" in run.output
    pq.write_table(pa.table({"x": [1], "y": [2], "z": [3]}), path)
    load(engine_target, path, columns="a,c,d")
    assert engine_target.sorted_rows("t") == [(1, None, 2, 3)]


@pytest.mark.parametrize("of_type", ["UTINYINT", "TINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT", "INTEGER"])
@pytest.mark.parametrize("value", [1.5, Decimal("2.50"), "1.7", float("nan")], ids=str)
def test_a_fraction_is_no_integer(tmp_path: Path, of_type: str, value: object) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute(f"CREATE TABLE t (a {of_type})")
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"a": [value]}), path)
    load(target, path, check=1)
    assert target.count("t") == 0
    whole = {float: 3.0, Decimal: Decimal(3), str: "3"}[type(value)]
    pq.write_table(pa.table({"a": [whole]}), path)
    load(target, path)
    assert target.rows("SELECT a::varchar FROM t") == [("3",)]


STRUCT = pa.struct({"a": pa.float64(), "b": pa.string()})
MAP = pa.map_(pa.string(), pa.float64())
WITHIN = {
    # The column's type, the source's, a value that is stored whole and how DuckDB shows it, and one that would not be.
    "list": ("INTEGER[]", pa.list_(pa.float64()), [1.0, None], "[1, NULL]", [2.0, 1.5]),
    "list of wide ones": ("HUGEINT[]", pa.list_(pa.float32()), [4.0], "[4]", [0.5]),
    "array": ("TINYINT[2]", pa.list_(pa.float64(), 2), [1.0, 2.0], "[1, 2]", [1.0, 2.5]),
    "list of lists": ("BIGINT[][]", pa.list_(pa.list_(pa.float64())), [[1.0], []], "[[1], []]", [[1.0], [0.1]]),
    "decimals": ("BIGINT[]", pa.list_(pa.decimal128(5, 1)), [Decimal("2.0")], "[2]", [Decimal("1.5")]),
    "texts": ("INTEGER[]", pa.list_(pa.string()), ["1", "2.0"], "[1, 2]", ["1.5"]),
    "booleans": ("BOOLEAN[]", pa.list_(pa.int8()), [1, 0], "[true, false]", [2, 0]),
    "struct": ("STRUCT(A INTEGER, b VARCHAR)", STRUCT, {"a": 1.0, "b": "x"}, "{'A': 1, 'b': x}", {"a": 1.5, "b": "x"}),
    "field that is not there": (
        "STRUCT(a INTEGER)", STRUCT, {"a": 1.0, "b": None}, "{'a': 1}", {"a": 1.0, "b": "lost"},
    ),
    "structs in a list": (
        "STRUCT(a TINYINT)[]", pa.list_(STRUCT), [{"a": 1.0, "b": None}], "[{'a': 1}]", [{"a": 7.25, "b": None}],
    ),
    "map": ("MAP(VARCHAR, INTEGER)", MAP, [("k", 1.0)], "{k=1}", [("k", 1.5)]),
    "keys": ("MAP(INTEGER, VARCHAR)", pa.map_(pa.string(), pa.string()), [("1", "v")], "{1=v}", [("1.5", "v")]),
    "bignum": ("BIGNUM", pa.float64(), 3.0, "3", 1.5),
}  # fmt: skip


@pytest.mark.parametrize("case", WITHIN)
@pytest.mark.parametrize("source", ["parquet", "memory"])
def test_nothing_within_others_is_rounded_or_left_out(tmp_path: Path, case: str, source: str) -> None:
    """DuckDB itself casts what lies in lists, structs and maps."""
    of_type, kind, whole, shown, lossy = WITHIN[case]
    target = DuckdbTarget(tmp_path / "x.duckdb")

    def give(*values: Any) -> Any:
        rows = pa.table({"n": range(len(values)), "a": pa.array(values, kind)})
        if source == "memory":
            return rows
        pq.write_table(rows, tmp_path / "in.parquet")
        return str(tmp_path / "in.parquet")

    target.execute(f"CREATE TABLE t (n integer, a {of_type})")
    tipple.load(give(whole, None, whole), into=target.url, table="t")
    stored = [(0, shown), (1, None), (2, shown)]
    assert target.rows("SELECT n, a::varchar FROM t ORDER BY n") == stored
    with pytest.raises(tipple.BadRecord) as failure:
        tipple.load(give(whole, None, lossy, lossy), into=target.url, table="t", restart=True)
    assert (failure.value.record_number, failure.value.column) == (3, "a")
    report = tipple.load(
        give(lossy, whole), into=target.url, table="t", mode="replace", on_error="skip", max_rejects=1,
        rejects=tmp_path / "bad",
    )  # fmt: skip
    assert (report.rows, report.rejects) == (1, 1)
    assert target.rows("SELECT n, a::varchar FROM t") == [(1, shown)]


@pytest.mark.parametrize("of_type", ["TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP"])
def test_moments_of_fewer_digits_have_a_checksum(tmp_path: Path, of_type: str) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute(f"CREATE TABLE t (id integer, a {of_type})")
    micros = [0, 1, 499_999, 500_000, 1_700_000_000_123_456, -1, -500_001, 2**63 - 1, -(2**63) + 1]
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": range(len(micros)), "a": pa.array(micros).cast(pa.timestamp("us"))}), path)
    load(target, path, verify="checksum")
    ours = target.rows("SELECT a::varchar FROM t ORDER BY id")
    text = tmp_path / "in.csv"
    with text.open("w") as file:
        for number, (moment,) in enumerate(target.rows(f"SELECT a::varchar FROM read_parquet('{path}') ORDER BY id")):
            file.write(f"{number},{moment}\n")
    target.execute("DELETE FROM t")
    load(target, text, header="no", verify="checksum")
    assert ours == target.rows("SELECT a::varchar FROM t ORDER BY id")


DAY = 86_400_000_000
MOMENT = pa.timestamp("us")

CUT: list[tuple[str, pa.DataType, list[Any], Any, str]] = [
    ("time", MOMENT, [None], 1_001, "has a day"),
    ("timetz", MOMENT, [None], 1_001, "has a day"),
    ("timetz", pa.timestamp("ns", "UTC"), [None], 0, "has a day"),
    ("time", pa.timestamp("s"), [], DAY // 1_000_000, "has a day"),
    ("time", pa.dictionary(pa.int8(), MOMENT), [None], 1_001, "has a day"),
    ("date[]", pa.list_(MOMENT), [[0, None, DAY], [], None], [DAY, 1], "has a time of day"),
    ("date[]", pa.large_list(pa.timestamp("ms")), [[0]], [1], "has a time of day"),
    ("date[]", pa.list_(pa.date64()), [[0]], [1], "has a time of day"),
    ("time[]", pa.list_(MOMENT), [[None]], [0], "has a day"),
    ("time[]", pa.list_(pa.date32()), [[None]], [0], "has a day"),
]
"""A column's type, a field's, values that it stores whole, one that it does not, and why."""

CUT_BY_DUCKDB: list[tuple[str, pa.DataType, list[Any], Any, str]] = [
    (
        "STRUCT(a DATE, b TIMESTAMP)",
        pa.struct([("a", MOMENT), ("b", MOMENT)]),
        [{"a": 0, "b": 1}],
        {"a": 1, "b": 1},
        "",
    ),
    ("STRUCT(a TIME)", pa.struct([("A", MOMENT)]), [{"A": None}, None], {"A": 0}, "has a day"),
    ("STRUCT(x TIME_NS, y DATE)[]", pa.list_(pa.struct([("y", MOMENT)])), [[{"y": DAY}, None]], [{"y": 1}], ""),
    ("MAP(VARCHAR, DATE)", pa.map_(pa.string(), MOMENT), [[("k", 0)]], [("k", 1)], "has a time of day"),
    ("MAP(DATE, VARCHAR)", pa.map_(MOMENT, pa.string()), [[(0, "v")]], [(1, "v")], "has a time of day"),
    ("DATE[2]", pa.list_(MOMENT, 2), [[0, DAY]], [0, 1], "has a time of day"),
    ("DATE[][]", pa.list_(pa.list_(MOMENT)), [[[0], None]], [[0], [1]], "has a time of day"),
    ("time_ns", pa.timestamp("ns"), [None], 0, "has a day"),
]


def refused_and_stored(target: Target, case: tuple[str, pa.DataType, list[Any], Any, str], rejects: Path) -> None:
    of_type, kind, whole, lossy, why = case
    target.execute(f"CREATE TABLE t (n integer, a {of_type})")
    values = [*whole, lossy, *whole]
    array = pa.array(values, kind.value_type if pa.types.is_dictionary(kind) else kind)
    array = array.dictionary_encode() if pa.types.is_dictionary(kind) else array
    table = pa.table({"n": range(len(values)), "a": array})
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load(table, into=target.url, table="t")
    assert (caught.value.record_number, caught.value.column) == (len(whole) + 1, "a")
    assert why in caught.value.reason
    assert target.count("t") == 0
    report = tipple.load(table, into=target.url, table="t", on_error="skip", max_rejects=1, rejects=rejects)
    assert (report.rows, report.rejects) == (2 * len(whole), 1)
    assert sorted(n for (n,) in target.rows("SELECT n FROM t")) == [n for n in range(len(values)) if n != len(whole)]


@pytest.mark.parametrize("case", CUT, ids=lambda case: f"{case[1]} to {case[0]}")
def test_moments_are_not_cut(engine_target: Target, tmp_path: Path, case: Any) -> None:
    """What would lose its day or its time of day is a bad record, and what is whole is stored."""
    refused_and_stored(engine_target, case, tmp_path / "bad")


@pytest.mark.parametrize("case", CUT_BY_DUCKDB, ids=lambda case: f"{case[1]} to {case[0]}")
def test_moments_are_not_cut_within_others(tmp_path: Path, case: Any) -> None:
    refused_and_stored(DuckdbTarget(tmp_path / "x.duckdb"), case, tmp_path / "bad")


LISTS_OF_LISTS: list[Any] = [[[1], [2, 3]], [[]], [None], None, [], [[None]]]


def test_lists_of_lists_in_a_table_made_after_them(engine_target: Target, tmp_path: Path) -> None:
    """Of any lengths: PostgreSQL's arrays would refuse some, and take others for empty."""
    kind = pa.list_(pa.list_(pa.int32()))
    table = pa.table({"n": range(len(LISTS_OF_LISTS)), "l": pa.array(LISTS_OF_LISTS, kind)})
    load(engine_target, write_parquet(tmp_path / "in.parquet", table), schema="auto")
    assert [row[0] for row in engine_target.rows("SELECT l FROM t ORDER BY n")] == LISTS_OF_LISTS


HALVES = pa.array([[1.5, None], [], None], pa.list_(pa.float16()))
WIDE = pa.array([Decimal("1.50"), Decimal(10) ** 40, None], pa.decimal256(50, 2))


def test_types_that_duckdb_does_not_read_from_arrow(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "t.duckdb")
    wides = pa.array([[value] for value in WIDE], pa.list_(WIDE.type))
    structs = pa.array([{"h": 1.5}, None, {"h": None}], pa.struct([("h", pa.float16())]))
    hundreds = pa.array([[Decimal("12E2")], None, []], pa.list_(pa.decimal128(5, -2)))
    table = pa.table({"n": range(3), "h": HALVES, "w": WIDE, "ws": wides, "s": structs, "t": hundreds})
    path = write_arrow_file(tmp_path / "in.arrow", table)
    rows = [
        (0, "[1.5,null]", "1.50", "[1.50]", '{"h":1.5}', "[1200]"),
        (1, "[]", f"{10**40}.00", f"[{10**40}.00]", None, None),
        (2, None, None, "[null]", '{"h":null}', "[]"),
    ]
    load_here(target, path, schema="auto", verify="checksum")
    assert target.rows("SELECT * FROM t ORDER BY n") == rows
    target.execute("CREATE TABLE u (n int, h json, w json, ws json, s json, t json)")
    load_here(target, path, table="u")
    assert target.rows("SELECT * FROM u ORDER BY n") == rows


@pytest.mark.parametrize(("values", "of_type"), [(HALVES, "FLOAT[]"), (WIDE, "TIME")])
def test_what_duckdb_cannot_read_names_its_column(tmp_path: Path, values: pa.Array, of_type: str) -> None:
    target = DuckdbTarget(tmp_path / "t.duckdb")
    target.execute(f"CREATE TABLE t (n int, v {of_type})")
    path = write_parquet(tmp_path / "in.parquet", pa.table({"n": range(3), "v": values}))
    run = load_here(target, path, check=2)
    assert f"the column v of type {of_type} cannot be loaded from" in run.stderr
    assert "JSON" in run.stderr


def test_integers_of_wide_decimals(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "t.duckdb")
    target.execute("CREATE TABLE t (v HUGEINT)")
    table = pa.table({"v": pa.array([Decimal(10) ** 30], pa.decimal256(50, 0))})
    load_here(target, write_parquet(tmp_path / "in.parquet", table))
    assert target.rows("FROM t") == [(10**30,)]


def test_labels_under_a_null(engine_target: Target) -> None:
    """What stands under a NULL is no value: pyarrow writes the key 0 there, and the dictionary may be empty."""
    labels = pa.dictionary(pa.int16(), pa.string())
    kinds = [pa.struct([("x", labels)]), pa.list_(labels, 1)]
    for number, (kind, value) in enumerate(zip(kinds, ({"x": "b"}, ["b"]), strict=True)):
        for values in ([None], [None, value, None]):
            table = pa.table({"a": pa.array(values, kind)})
            result = tipple.load(table, into=engine_target.url, table=f"t{number}_{len(values)}", schema="auto")
            assert result.rows == len(values)
            assert engine_target.value(f"SELECT count(a) FROM t{number}_{len(values)}") == len(values) // 2


INTERVALS = ["1 month 2 days 00:00:03", "1 day", "00:00:00.001", "700:00:00", "14 months"]


def parquet_of_duckdb(path: Path, query: str) -> Path:
    """Parquet as DuckDB writes it: without the Arrow schema that Arrow's own writers leave in a file."""
    duckdb.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return path


def test_intervals_of_parquet_have_all_their_parts(engine_target: Target, tmp_path: Path) -> None:
    rows = ", ".join(f"({number}, INTERVAL '{text}')" for number, text in enumerate(INTERVALS))
    query = f"SELECT a.n AS id, i, 'x' AS t FROM (VALUES {rows}, (9, NULL)) a(n, i)"
    engine_target.execute("CREATE TABLE t (t text, i interval, id integer)")
    load(engine_target, parquet_of_duckdb(tmp_path / "in.parquet", query))
    expected = [(number, True) for number in range(len(INTERVALS))] + [(9, None)]
    compared = " ".join(f"WHEN {number} THEN i = interval '{text}'" for number, text in enumerate(INTERVALS))
    assert engine_target.rows(f"SELECT id, CASE id {compared} END FROM t WHERE t = 'x' ORDER BY id") == expected


@pytest.mark.parametrize("schema", [None, "auto"])
def test_intervals_of_parquet_within_others(tmp_path: Path, schema: str | None) -> None:
    parts = "INTERVAL '1 month 2 days 3 seconds'"
    columns = f"[{parts}, NULL, INTERVAL '1 day'] AS l, {{'i': {parts}, 'n': 1}} AS s, map {{'k': {parts}}} AS m"
    path = parquet_of_duckdb(tmp_path / "in.parquet", f"SELECT range AS id, {columns} FROM range(50000)")
    target = DuckdbTarget(tmp_path / "x.duckdb")
    if schema is None:
        target.execute(
            "CREATE TABLE t (id bigint, l interval[], s STRUCT(i interval, n integer), m MAP(VARCHAR, interval))"
        )
    load(target, path, **({} if schema is None else {"schema": schema}))
    shown = "1 month 2 days 00:00:03"
    found = target.rows("SELECT DISTINCT l::varchar, s::varchar, m::varchar FROM t")
    assert len(found) == 1
    assert [text.count(shown) for text in found[0]] == [1, 1, 1]
    assert "1 day" in found[0][0].replace(shown, "")


class CSchema(ctypes.Structure):
    """The beginning of an ArrowSchema."""

    _fields_: ClassVar = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_char_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.POINTER(ctypes.POINTER(ctypes.c_char_p))),
    ]


class DayTimeIntervals:
    """A stream of one column with intervals of days and milliseconds, which pyarrow has no type for."""

    def __init__(self, values: list[tuple[int, int]]) -> None:
        packed = pa.py_buffer(b"".join(struct.pack("<ii", *value) for value in values))
        self.table = pa.table({"i": pa.Array.from_buffers(pa.int64(), len(values), [None, packed])})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        capsule = self.table.__arrow_c_stream__()
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        get_schema = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(CSchema))
        # The first member of an ArrowArrayStream.
        member = ctypes.cast(pointer_of(capsule, b"arrow_array_stream"), ctypes.POINTER(get_schema))
        given = get_schema(ctypes.cast(member[0], ctypes.c_void_p).value)

        def of_intervals(stream: int, schema: Any) -> int:
            status: int = given(stream, schema)
            schema.contents.children[0][0] = b"tiD"
            return status

        self.kept = get_schema(of_intervals)
        member[0] = self.kept
        return capsule


def test_intervals_of_days_and_milliseconds(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (i interval)")
    rows: Any = DayTimeIntervals([(1, 0), (2, 3000), (-1, -5)])
    tipple.load(rows, into=target.url, table="t", verify="checksum")
    assert target.rows("SELECT i::varchar FROM t ORDER BY i") == [
        ("-1 day -00:00:00.005",),
        ("1 day",),
        ("2 days 00:00:03",),
    ]


def test_variants_are_refused(engine_target: Target, tmp_path: Path) -> None:
    path = parquet_of_duckdb(tmp_path / "in.parquet", "SELECT 1::variant AS v, 1 AS n")
    engine_target.execute("CREATE TABLE t (n integer, v json)")
    run = load(engine_target, path, check=2)
    assert "arrow.parquet.variant" in run.output
    load(engine_target, path, columns="n")
    assert "arrow.parquet.variant" in load(engine_target, path, table="u", schema="auto", check=2).output


@pytest.mark.parametrize(
    "value",
    [
        "'101'::bit",
        "'12:00:00+02'::timetz",
        "340282366920938463463374607431768211455::uhugeint",
        "[{'a': '1'::bit}]",
        "12345678901234567890123456789012345678901234567890::bignum",
        "1::variant",
    ],
)
def test_what_duckdb_hands_out_as_other_values(tmp_path: Path, value: str) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    with duckdb.connect() as connection:
        rows = connection.sql(f"SELECT 1 AS n, {value} AS v")
        with pytest.raises(tipple.UsageError, match=r"the column v|values of v"):
            tipple.load(rows, into=target.url, table="t", schema="auto")


def test_json_within_others_is_json(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a json, b json, c json)")
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": [1]}', "7"]))
    lists = pa.ListArray.from_arrays(pa.array([0, 2]), texts)
    structs = pa.StructArray.from_arrays([texts[:1]], names=["u"])
    maps = pa.MapArray.from_arrays(pa.array([0, 1]), pa.array(["k"]), texts[1:2])
    path = write_parquet(tmp_path / "in.parquet", pa.table({"a": lists, "b": structs, "c": maps}))
    load(engine_target, path)
    stored = [
        json.loads(value) for row in engine_target.rows("SELECT a::text, b::text, c::text FROM t") for value in row
    ]
    assert stored == [[{"a": [1]}, 7], {"u": {"a": [1]}}, {"k": 7}]


@pytest.mark.parametrize("values", [[True, False, None], [Decimal("1.50"), None, Decimal("-2.25")], [1.5, None, 2.0]])
def test_dictionaries_that_parquet_only_notes(engine_target: Target, tmp_path: Path, values: list[Any]) -> None:
    plain = pa.array(values, pa.float16() if isinstance(values[0], float) else None)
    indices = pa.array([None if value is None else number for number, value in enumerate(values)], pa.int32())
    dictionary = pa.DictionaryArray.from_arrays(indices, plain.fill_null(plain[0]))
    table = pa.table({"id": range(3), "v": dictionary, "l": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3]), plain)})
    run = load(engine_target, write_parquet(tmp_path / "in.parquet", table), schema="auto", verify="checksum")
    assert "panicked" not in run.stderr
    assert engine_target.rows("SELECT v FROM t ORDER BY id") == [(value,) for value in values]


def test_long_durations_keep_their_microseconds(engine_target: Target, tmp_path: Path) -> None:
    counts = [0, -1, 3_600_000_000, -5_400_000_001, 9 * 10**15 + 7, 10**17 + 1, -(10**18) - 3, 2**63 - 1, None]
    engine_target.execute("CREATE TABLE t (id integer, v interval)")
    table = pa.table({"id": range(len(counts)), "v": pa.array(counts, pa.int64()).cast(pa.duration("us"))})
    load(engine_target, write_parquet(tmp_path / "in.parquet", table))
    micros = "epoch_us(v)" if isinstance(engine_target, DuckdbTarget) else "(extract(epoch FROM v) * 1000000)::bigint"
    assert engine_target.rows(f"SELECT {micros} FROM t ORDER BY id") == [(count,) for count in counts]


TEXT_TO_INT = pa.map_(pa.string(), pa.int32())
ONCE, TWICE = [("a", 1), ("b", 2)], [("a", 1), ("b", 2), ("a", 3)]
MAPS = [
    ("MAP(VARCHAR, INTEGER)", TEXT_TO_INT, [None, [], ONCE], TWICE, "the same key twice"),
    ("JSON", TEXT_TO_INT, [ONCE, None], TWICE, "the same key twice"),
    ("MAP(VARCHAR, INTEGER)[]", pa.list_(TEXT_TO_INT), [[ONCE, ONCE], [], [None]], [ONCE, TWICE], "the same key twice"),
    ("MAP(VARCHAR, MAP(VARCHAR, INTEGER))", pa.map_(pa.string(), TEXT_TO_INT), [[("x", ONCE), ("y", ONCE)]],
     [("x", ONCE), ("y", TWICE)], "the same key twice"),
    ("STRUCT(m MAP(VARCHAR, INTEGER))", pa.struct({"m": TEXT_TO_INT}), [{"m": ONCE}, {"m": None}], {"m": TWICE},
     "the same key twice"),
    ("MAP(DATE, INTEGER)", pa.map_(pa.date32(), pa.int32()), [[(0, 1), (1, 1)]], [(7, 1), (8, 1), (7, 1)],
     "the same key twice"),
]  # fmt: skip


@pytest.mark.parametrize("case", MAPS, ids=lambda case: case[0])
def test_a_map_with_a_key_twice_is_a_bad_record(tmp_path: Path, case: Any) -> None:
    refused_and_stored(DuckdbTarget(tmp_path / "x.duckdb"), case, tmp_path / "bad.csv")


def test_a_map_with_a_key_twice_is_a_text(engine_target: Target) -> None:
    engine_target.execute("CREATE TABLE t (a text)")
    table = pa.table({"a": pa.array([TWICE], TEXT_TO_INT)})
    tipple.load(table, into=engine_target.url, table="t")
    assert engine_target.rows("SELECT replace(a, ' ', '') FROM t") == [('{"a":1,"b":2,"a":3}',)]


def test_periods_are_refused(engine_target: Target) -> None:
    """Arrow has them as the number of months since 1970, which nobody means."""
    frame = pd.DataFrame({"month": pd.period_range("2024-01", periods=2, freq="M")})
    engine_target.execute("CREATE TABLE t (month text)")
    with pytest.raises(tipple.UsageError, match=r"pandas\.period"):
        tipple.load(frame, into=engine_target.url, table="t")
    frame["month"] = frame["month"].astype(str)
    tipple.load(frame, into=engine_target.url, table="t")
    assert sorted(engine_target.rows("SELECT month FROM t")) == [("2024-01",), ("2024-02",)]


PERIODS = pd.period_range("2024-01", periods=2, freq="M")
LABELS = pd.DataFrame({"n": [1, 2], "month": pd.Categorical(PERIODS)})
IN_DICTIONARIES: dict[str, Callable[[], Any]] = {
    "categorical": lambda: LABELS,
    "index": lambda: LABELS.set_index("month"),
    "indexes": lambda: LABELS.assign(m=[1, 2]).set_index(["m", "month"]),
    "table": lambda: pa.Table.from_pandas(LABELS),
    "reader": lambda: pa.Table.from_pandas(LABELS).to_reader(),
    "list": lambda: pa.table(
        {"n": [1, 2], "month": pa.ListArray.from_arrays([0, 1, 2], pa.array(LABELS["month"]))}
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", IN_DICTIONARIES)
def test_periods_of_a_dictionary_are_refused(engine_target: Target, kind: str) -> None:
    """A stream does not tell what the values of a dictionary are, but for their numbers."""
    with pytest.raises(tipple.UsageError, match=r"the values of month are encoded .* of pandas\.period"):
        tipple.load(IN_DICTIONARIES[kind](), into=engine_target.url, table="t", schema="auto")
    engine_target.execute("CREATE TABLE t (n integer, month text)")
    with pytest.raises(tipple.UsageError, match=r"the values of month are encoded .* of pandas\.period"):
        tipple.load(IN_DICTIONARIES[kind](), into=engine_target.url, table="t", columns=["n", "month"])
    tipple.load(IN_DICTIONARIES[kind](), into=engine_target.url, table="t", columns=["n"])
    assert sorted(engine_target.rows("SELECT n, month FROM t")) == [(1, None), (2, None)]
