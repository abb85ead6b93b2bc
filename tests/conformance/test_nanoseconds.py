"""Nanoseconds of columnar sources: kept where the column keeps them, refused where it counts microseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tipple
from targets import DuckdbTarget, Target

NANOSECONDS: list[tuple[pa.DataType, list[Any], str]] = [
    (pa.timestamp("ns", "UTC"), [1_700_000_000_123_456_000, 1_700_000_000_123_456_789], "timestamptz"),
    (pa.time64("ns"), [86_399_999_999_000, 86_399_999_999_999], "time"),
    (pa.duration("ns"), [1_000, 1_001], "interval"),
    (pa.month_day_nano_interval(), [(1, 2, 3_000), (1, 2, 3_001)], "interval"),
    (pa.list_(pa.timestamp("ns")), [[0, None], [], [1_000, 1_001]], "timestamp[]"),
    (pa.large_list(pa.time64("ns")), [[0], [1_001]], "time[]"),
    (pa.list_view(pa.timestamp("ns")), [[0, None], [], [1_000, 1_001]], "timestamp[]"),
    (pa.large_list_view(pa.duration("ns")), [[0], [-1_000], [-1_001]], "interval[]"),
    (pa.list_(pa.duration("ns")), [[0], [1_000], [999]], "interval[]"),
]


@pytest.mark.parametrize("case", NANOSECONDS, ids=lambda case: f"{case[0]} to {case[2]}")
def test_nanoseconds_are_never_rounded(engine_target: Target, case: Any) -> None:
    """Whoever converts them: what counts microseconds is refused the rest, and only that."""
    kind, values, sql_type = case
    engine_target.execute(f"CREATE TABLE t (a {sql_type})")
    array = pa.array([None, *values, None], kind)
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load(pa.table({"a": array}), into=engine_target.url, table="t")
    assert caught.value.record_number == 1 + len(values)
    assert caught.value.byte_offset is None
    assert "begins at byte" not in str(caught.value)
    assert "nanoseconds" in caught.value.reason
    tipple.load(pa.table({"a": array[: len(values)]}), into=engine_target.url, table="t")
    assert engine_target.count("t") == len(values)


def test_what_keeps_nanoseconds_gets_them(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "target.duckdb")
    target.execute("CREATE TABLE t (a timestamp_ns, b time_ns, c varchar, d timestamp_ns[], e STRUCT(x timestamp))")
    table = pa.table(
        {
            "a": pa.array([1_001], pa.timestamp("ns")),
            "b": pa.array([1_001], pa.time64("ns")),
            "c": pa.array([1_001], pa.timestamp("ns")),
            "d": pa.array([[1_001]], pa.list_(pa.timestamp("ns"))),
            "e": pa.array([{"x": 1_000}], pa.struct([("x", pa.timestamp("ns"))])),
        }
    )
    tipple.load(table, into=target.url, table="t")
    (row,) = target.rows("SELECT CAST(COLUMNS(*) AS varchar) FROM t")
    assert [".000001001" in text for text in row] == [True, True, True, True, False]
    lossy = table.set_column(4, "e", pa.array([{"x": 1_001}], table.schema.field("e").type))
    with pytest.raises(tipple.BadRecord, match="nanoseconds"):
        tipple.load(lossy, into=target.url, table="t")


def test_views_of_lists(engine_target: Target) -> None:
    """They are lists that may overlap, and are taken as such, within others too."""
    engine_target.execute("CREATE TABLE t (a integer[], b varchar)")
    view = pa.ListViewArray.from_arrays([2, 0, 1], [2, 1, 2], pa.array([7, 8, None, 9]))
    nested = pa.StructArray.from_arrays([view], ["x"])
    tipple.load(pa.table({"a": view, "b": nested}), into=engine_target.url, table="t")
    assert engine_target.rows("SELECT a, b FROM t") == [
        ([None, 9], '{"x":[null,9]}'),
        ([7], '{"x":[7]}'),
        ([8, None], '{"x":[8,null]}'),
    ]


def test_a_moment_that_a_view_of_a_list_cannot_hold(tmp_path: Path) -> None:
    """DuckDB stores it, and fails when it is read."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    target.execute("CREATE TABLE t (a timestamp[])")
    table = pa.table({"a": pa.array([[0], [-(2**63)]], pa.list_view(pa.timestamp("us")))})
    with pytest.raises(tipple.BadRecord, match="out of range"):
        tipple.load(table, into=target.url, table="t")
    tipple.load(table.slice(0, 1), into=target.url, table="t")
    assert target.count("t") == 1
