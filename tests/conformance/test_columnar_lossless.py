"""Values of columnar sources are stored as they are, or refused: none is rounded, cut or put elsewhere in silence."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tipple
from loading import load
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


def refused_and_stored(target: Target, case: tuple[str, pa.DataType, list[Any], Any, str]) -> None:
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
    report = tipple.load(table, into=target.url, table="t", on_error="skip", max_rejects=1)
    assert (report.rows, report.rejects) == (2 * len(whole), 1)
    assert sorted(n for (n,) in target.rows("SELECT n FROM t")) == [n for n in range(len(values)) if n != len(whole)]


@pytest.mark.parametrize("case", CUT, ids=lambda case: f"{case[1]} to {case[0]}")
def test_moments_are_not_cut(engine_target: Target, case: Any) -> None:
    """What would lose its day or its time of day is a bad record, and what is whole is stored."""
    refused_and_stored(engine_target, case)


@pytest.mark.parametrize("case", CUT_BY_DUCKDB, ids=lambda case: f"{case[1]} to {case[0]}")
def test_moments_are_not_cut_within_others(tmp_path: Path, case: Any) -> None:
    refused_and_stored(DuckdbTarget(tmp_path / "x.duckdb"), case)
