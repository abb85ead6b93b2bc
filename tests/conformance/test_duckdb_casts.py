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
    ("TIMETZ", "12:34:56 +02"): "12:34:56+02",
    ("TIMETZ", "12:34:56-0230"): "12:34:56-02:30",
    ("TIMETZ", "12:34:56+05:30:15"): "12:34:56+05:30:15",
    ("TIME_NS", "12:34:56.123456789"): "12:34:56.123456789",
    ("UHUGEINT", "340282366920938463463374607431768211455"): "340282366920938463463374607431768211455",
}
REFUSED = [
    ("TIMESTAMP_NS", "1970-01-01 12:00 foo"),
    ("TIMESTAMP_NS", "2024-01-01 13:00 PM"),
    ("TIMESTAMP_NS", "2024-01-01 10:00:00.1234567899"),
    ("TIMETZ", "12:34:56.1234567"),
    *(("TIMETZ", f"12:34:56{zone}") for zone in ("+123", "-123", "+12345", "+053015", "+05:60", "+0560", "+05:30:60")),
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


@pytest.mark.parametrize("of_type", ["TIMESTAMP", "TIMESTAMPTZ"])
@pytest.mark.parametrize("digits", ["54.775807", "54.7758066"])
def test_a_moment_that_would_be_infinity(tmp_path: Path, of_type: str, digits: str) -> None:
    """The greatest count of microseconds stands for it; what is written is a moment, and DuckDB has none there."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute(f"CREATE TABLE t (v {of_type})")
    zone = "+00" if of_type == "TIMESTAMPTZ" else ""
    path = write(
        tmp_path / "in.csv", f"294247-01-10 04:00:{digits}{zone}\n294247-01-10 04:00:54.775806{zone}\ninfinity\n"
    )
    report = tipple.load(
        path, into=target.url, table="t", header="no", on_error="skip", max_rejects=1, rejects=tmp_path / "bad.csv"
    )
    assert (report.rows, report.rejects) == (2, 1)
    assert target.rows("SELECT count(*) FILTER (isinf(v)), count(*) FROM t") == [(1, 2)]


def test_fields_of_a_struct_with_one_name(tmp_path: Path) -> None:
    """DuckDB stores the first of them."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (s STRUCT(a INTEGER))")
    for names in (["a", "A"], ["a", "a"]):
        values = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([None, 3])], names=names)
        with pytest.raises(tipple.BadRecord) as caught:
            tipple.load(pa.table({"s": values}), into=target.url, table="t")
        assert caught.value.record_number == 2
    assert target.count("t") == 0


@pytest.mark.parametrize("of_type", ["JSON", "VARCHAR[]"])
def test_texts_within_lists_are_texts(tmp_path: Path, of_type: str) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute(f"CREATE TABLE t (v {of_type})")
    texts = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0"), pa.py_buffer(b"x\xff\xfe")]
    )
    rows = pa.table({"v": pa.ListArray.from_arrays([0, 1, 2], texts)})
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load(rows, into=target.url, table="t")
    assert (caught.value.record_number, caught.value.sqlstate) == (2, "22021")


@pytest.mark.parametrize("of_type", ["UUID", "UUID[]", "STRUCT(u UUID)"])
def test_words_of_duckdb_that_are_no_text(tmp_path: Path, of_type: str) -> None:
    """It quotes the value that it refuses; Python cannot read that."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute(f"CREATE TABLE t (v {of_type})")
    value: Any = {"UUID": b"\xff", "UUID[]": [b"\xff"]}.get(of_type, {"u": b"\xff"})
    kind = {"UUID": pa.binary(), "UUID[]": pa.list_(pa.binary())}.get(of_type, pa.struct([("u", pa.binary())]))
    rows = pa.table({"v": pa.array([value], kind)})
    with pytest.raises(tipple.TippleError) as caught:
        tipple.load(rows, into=target.url, table="t")
    assert "internal error" not in str(caught.value)
    report = tipple.load(rows, into=target.url, table="t", on_error="skip", max_rejects=1, rejects=tmp_path / "bad.csv")
    assert (report.rows, report.rejects) == (0, 1)


def test_a_checksum_beside_types_that_arrow_lacks(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (n integer, v VARIANT)")
    rows = pa.table({"n": [1, 2], "v": pa.array([12345678901234567890, None], pa.uint64())})
    report = tipple.load(rows, into=target.url, table="t", verify="checksum")
    assert report.rows == 2
    assert target.rows("SELECT n, v::varchar FROM t ORDER BY n") == [(1, "12345678901234567890"), (2, None)]


def test_a_shape_that_duckdb_reads_from_text(tmp_path: Path) -> None:
    """What it cannot read is a bad record like any other."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (n integer, v GEOMETRY)")
    path = write(tmp_path / "in.csv", "1,POINT(1 2)\n2,x\n")
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load(path, into=target.url, table="t", header="no")
    assert caught.value.record_number == 2
    report = tipple.load(
        path, into=target.url, table="t", header="no", on_error="skip", max_rejects=1, rejects=tmp_path / "bad.csv"
    )
    assert (report.rows, report.rejects) == (1, 1)


def test_lists_for_types_that_hold_none(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    for number, of_type in enumerate(["TIMESTAMP_NS", "TIMETZ", "TIME_NS"]):
        target.execute(f"CREATE TABLE t{number} (v {of_type})")
        with pytest.raises(tipple.BadRecord) as caught:
            tipple.load(pa.table({"v": [["x"]]}), into=target.url, table=f"t{number}")
        assert caught.value.record_number == 1
        assert "invalid input syntax for type TIM" in str(caught.value)
        assert "SELECT" not in str(caught.value)
        assert "not written as a value" not in str(caught.value)
