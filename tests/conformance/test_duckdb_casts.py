"""Values that DuckDB's casts would store as others, without a word: they are bad records, or what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tipple
from command import run_tipple
from loading import load
from targets import DuckdbTarget, write

READ = {
    ("TIMESTAMP_NS", "2024-02-01 10:00:00.123456789"): "2024-02-01 10:00:00.123456789",
    ("TIMESTAMP_NS", " 2024-2-1T1:2 "): "2024-02-01 01:02:00",
    ("TIMESTAMP_NS", "2024-02-01 9:05 PM"): "2024-02-01 21:05:00",
    ("TIMESTAMP_NS", "2024-02-01 12:05:06.123456789 am"): "2024-02-01 00:05:06.123456789",
    ("TIMESTAMP_NS", "infinity"): "infinity",
    ("TIMETZ", "12:34:56.123456-02:30"): "12:34:56.123456-02:30",
    ("TIMETZ", "12:34"): "12:34:00+00",
    ("TIME_NS", "12:34:56.123456789"): "12:34:56.123456789",
    ("UHUGEINT", "340282366920938463463374607431768211455"): "340282366920938463463374607431768211455",
}
REFUSED = [
    ("TIMESTAMP_NS", "1970-01-01 12:00 foo"),
    ("TIMESTAMP_NS", "2024-01-01 13:00 PM"),
    ("TIMESTAMP_NS", "2024-01-01 10:00:00.1234567899"),
    ("TIMETZ", "12:34:56.1234567"),
    ("TIMETZ", "epoch"),
    ("TIME_NS", "epoch"),
    ("UHUGEINT", "340282366920938463463374607431768211456"),
    ("UHUGEINT", "3402823669209384634633746074317682114565"),
    ("UHUGEINT[]", "{340282366920938463463374607431768211459}"),
]


@pytest.mark.parametrize(("of_type", "text"), READ)
def test_texts_that_are_read(tmp_path: Path, of_type: str, text: str) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute(f"CREATE TABLE t (n integer, v {of_type})")
    load(target, write(tmp_path / "in.csv", f'1,"{text}"\n2,\n'))
    assert target.rows("SELECT n, v::varchar FROM t ORDER BY n") == [(1, READ[of_type, text]), (2, None)]


@pytest.mark.parametrize(("of_type", "text"), REFUSED)
@pytest.mark.parametrize("source", ["text", "frame"])
def test_texts_that_are_refused(tmp_path: Path, of_type: str, text: str, source: str) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute(f"CREATE TABLE t (n integer, v {of_type})")
    rows: Any = write(tmp_path / "in.csv", f'1,\n2,"{text}"\n')
    if source == "frame":
        if of_type.endswith("[]"):
            pytest.skip("a list is no text there")
        rows = pa.table({"n": [1, 2], "v": [None, text]})
    with pytest.raises(tipple.TippleError):
        tipple.load(rows, into=target.url, table="t")
    rejects = tmp_path / "bad.csv"
    report = tipple.load(rows, into=target.url, table="t", on_error="skip", max_rejects=1, rejects=rejects)
    assert (report.rows, report.rejects) == (1, 1)
    assert target.rows("SELECT * FROM t") == [(1, None)]
    assert text in rejects.read_text()


def test_twelve_hours_in_another_order(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (v TIMESTAMP_NS)")
    load(target, write(tmp_path / "in.csv", "1-2-2024 9:05 PM\n"), date_style="DMY")
    assert target.rows("SELECT v::varchar FROM t") == [("2024-02-01 21:05:00",)]


@pytest.mark.parametrize("of_type", ["TIMESTAMP_NS", "TIMESTAMPTZ", "DATE"])
def test_days_that_have_a_time(tmp_path: Path, of_type: str) -> None:
    """Arrow's date64 counts milliseconds; DuckDB reads the days."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute(f"CREATE TABLE t (v {of_type})")
    table = pa.table({"v": pa.array([86_400_000, 43_200_000], pa.int64()).view(pa.date64())})
    options: dict[str, Any] = {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad.csv"}
    run = tipple.load(table, into=target.url, table="t", **options)
    if of_type == "TIMESTAMPTZ" and run.rejects == 0:
        # Read by the core where the session's zone is UTC.
        assert target.rows("SELECT epoch_ms(v) FROM t ORDER BY 1") == [(43_200_000,), (86_400_000,)]
        return
    assert (run.rows, run.rejects) == (1, 1)


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_durations_that_no_interval_holds(tmp_path: Path, unit: str) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (v INTERVAL)")
    table = pa.table({"v": pa.array([1, 2**62], pa.int64()).view(pa.duration(unit))})
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load(table, into=target.url, table="t")
    assert (caught.value.record_number, caught.value.column) == (2, "v")


def test_a_new_kind_of_header_is_doubted(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    run = run_tipple(
        "load", write(tmp_path / "in.csv", "wert\nAlpha\nBeta\nGamma\n"), "--into", target.url, "--table", "t",
        "--schema", "auto",
    )  # fmt: skip
    assert "not sure of --header no" in run.output
