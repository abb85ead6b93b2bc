"""Rows of columnar sources that cannot be stored are rejects too: kept as CSV, with the number of the row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tipple
from loading import load
from spoilt import told
from targets import DuckdbTarget, PostgresTarget, Target

TABLE = {
    "duckdb": "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t (a integer PRIMARY KEY, b smallint NOT NULL, "
    "c varchar(4), d mood, e timestamp, f uuid, CHECK (b <> 13))",
    "postgresql": "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t (a integer PRIMARY KEY, b smallint NOT NULL, "
    "c varchar(4), d mood, e timestamp, f uuid, CHECK (b <> 13))",
}
GOOD_UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
ROWS = 40_000

# Of a row that is changed in this way: its text, the column and the SQLSTATE that have to be told.
WRONG: dict[int, tuple[dict[str, Any], str, str, str]] = {
    0: ({"b": 40_000}, f'0,40000,"x,""y",ok,2020-01-01 00:00:00,{GOOD_UUID}', "b", "22003"),
    17: ({"b": None}, f'17,,"x,""y",ok,2020-01-01 00:00:00,{GOOD_UUID}', "b", "23502"),
    18: ({"d": "glad"}, f'18,1,"x,""y",glad,2020-01-01 00:00:00,{GOOD_UUID}', "d", "22P02"),
    16_384: ({"a": 5}, f'5,1,"x,""y",ok,2020-01-01 00:00:00,{GOOD_UUID}', "", "23505"),
    20_000: ({"e": 1}, f'20000,1,"x,""y",ok,1970-01-01 00:00:00.000000001,{GOOD_UUID}', "e", ""),
    20_001: ({"b": 13}, f'20001,13,"x,""y",ok,2020-01-01 00:00:00,{GOOD_UUID}', "", "23514"),
    39_999: ({"f": "nobody"}, '39999,1,"x,""y",ok,2020-01-01 00:00:00,nobody', "f", "22P02"),
}
LONG = {"c": "too long"}


def table() -> pa.Table:
    values: dict[str, list[Any]] = {
        "a": list(range(ROWS)),
        "b": [1] * ROWS,
        "c": ['x,"y'] * ROWS,
        "d": ["ok"] * ROWS,
        "e": [1_577_836_800_000_000_000] * ROWS,
        "f": [GOOD_UUID] * ROWS,
    }
    for row, (changes, *_) in WRONG.items():
        for column, value in changes.items():
            values[column][row] = value
    kinds = {"a": pa.int64(), "b": pa.int32(), "c": pa.string(), "d": pa.string(), "e": pa.timestamp("ns")}
    arrays = {name: pa.array(column, kinds.get(name, pa.string())) for name, column in values.items()}
    return pa.table(arrays)


def check(target: Target, rejects: Path, rows: int, count: int) -> None:
    assert [(row + 1, column, code) for row, (_, _, column, code) in WRONG.items()] == [
        (number, column, code) for number, _, column, code in told(rejects)
    ]
    assert {offset for _, offset, *_ in told(rejects)} == {None}
    assert rejects.read_text() == "".join(text + "\n" for _, text, _, _ in WRONG.values())
    assert (rows, count) == (ROWS - len(WRONG), len(WRONG))
    assert target.count("t") == ROWS - len(WRONG)
    assert target.leftovers("t") == set()


@pytest.mark.parametrize("options", [{}, {"no_ledger": True}, {"jobs": 3}], ids=str)
def test_parquet(engine_target: Target, tmp_path: Path, options: dict[str, object]) -> None:
    engine_target.execute(TABLE[engine_target.engine])
    path = tmp_path / "in.parquet"
    pq.write_table(table(), path, row_group_size=9_000)
    rejects = tmp_path / "bad.csv"
    run = load(engine_target, path, on_error="skip", max_rejects=10, rejects=rejects, check=3, **options)
    assert run.summary is not None
    check(engine_target, rejects, run.summary["rows"], run.summary["rejects"])
    if options:
        return
    # Mended, they are loaded by the same command.
    mended = [
        f"{row + 100_000},1,z,sad,2021-01-01,{GOOD_UUID}" if row != 18 else f'18,1,"",glad,,{GOOD_UUID}'
        for row in WRONG
    ]
    rejects.write_text("".join(line + "\n" for line in mended))
    run = load(engine_target, path, on_error="skip", max_rejects=10, rejects=rejects, replay=True, check=3)
    assert run.summary is not None
    assert (run.summary["rows"], run.summary["rejects"]) == (len(WRONG) - 1, 1)
    assert rejects.read_text() == mended[2] + "\n"
    assert engine_target.count("t") == ROWS - 1


@pytest.mark.parametrize("kind", ["arrow", "memory"])
def test_arrow_and_streams_in_memory(engine_target: Target, tmp_path: Path, kind: str) -> None:
    engine_target.execute(TABLE[engine_target.engine])
    source: Any = table()
    if kind == "arrow":
        source = tmp_path / "in.arrow"
        with pa.OSFile(str(source), "wb") as file, pa.ipc.new_file(file, table().schema) as writer:
            writer.write_table(table(), max_chunksize=7_000)
    rejects = tmp_path / "bad.csv"
    report = tipple.load(
        source, into=engine_target.url, table="t", on_error="skip", max_rejects="1%", rejects=rejects, jobs=2
    )
    check(engine_target, rejects, report.rows, report.rejects)


def test_overlong_strings(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Every second row is bad."""
    postgres_target.execute("CREATE TABLE t (a integer, c char(4))")
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"a": pa.array(range(1000)), "c": pa.array(["four", "fives"] * 500)}), path)
    rejects = tmp_path / "bad.csv"
    load(postgres_target, path, on_error="skip", max_rejects=500, rejects=rejects, check=3)
    assert rejects.read_text() == "".join(f"{number},fives\n" for number in range(1, 1000, 2))
    assert {sqlstate for *_, sqlstate in told(rejects)} == {"22001"}
    run = load(postgres_target, path, on_error="skip", max_rejects=499, rejects=rejects, restart=True, check=1)
    assert "--max-rejects 499" in run.stderr
    assert "more than 4 characters" in run.stderr
    assert postgres_target.count("t") == 500


def test_without_skipping_the_row_is_named(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "target.duckdb")
    target.execute("CREATE TABLE t (a integer PRIMARY KEY)")
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"a": pa.array([1, 2, 3, 2])}), path)
    run = load(target, path, check=1)
    assert "23505" in run.stderr
    assert str(path) in run.stderr
    assert "record    4" in run.stderr


def test_bytes_are_replayed_as_they_were(tmp_path: Path) -> None:
    """Also those that look like an escape, or are no text."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (k integer PRIMARY KEY, a blob); INSERT INTO t VALUES (0, 'z'), (1, 'z'), (2, 'z')")
    values = [b"\\x41", b"\xff\x00a", b"abc"]
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"k": range(3), "a": pa.array(values, pa.binary())}), path)
    options = {"on_error": "skip", "max_rejects": 3, "rejects": tmp_path / "bad"}
    load(target, path, check=3, **options)
    target.execute("DELETE FROM t")
    load(target, path, replay=True, **options)
    assert [a for (a,) in target.rows("SELECT a FROM t ORDER BY k")] == values


FLOATS = [0.1, -1e-40, 3.4028234663852886e38, 16_777_216.0, float("nan"), float("-inf"), -0.0]


def replayed_and_loaded(target: Target, tmp_path: Path, of_type: str, values: pa.Array) -> tuple[list[Any], list[Any]]:
    """What a column holds of values that were rejects first, and of such that were not."""
    count = len(values)
    target.execute(f"CREATE TABLE d (k integer, a {of_type}); CREATE TABLE t (k integer PRIMARY KEY, a {of_type})")
    target.execute(f"INSERT INTO t (k) VALUES {', '.join(f'({k})' for k in range(count))}")
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"k": range(count), "a": values}), path)
    load(target, path, table="d")
    options = {"on_error": "skip", "max_rejects": "100%", "rejects": tmp_path / "bad"}
    load(target, path, check=3, **options)
    target.execute("DELETE FROM t")
    load(target, path, replay=True, **options)
    replayed, loaded = (target.rows(f"SELECT k, a::varchar FROM {table} ORDER BY k") for table in ("t", "d"))
    return replayed, loaded


@pytest.mark.parametrize("of_type", ["double precision", "real", "numeric(20,10)", "varchar"])
@pytest.mark.parametrize("bits", [16, 32])
def test_floats_are_replayed_as_they_would_have_been_loaded(
    engine_target: Target, tmp_path: Path, of_type: str, bits: int
) -> None:
    """What a float of fewer bits becomes in a wider column is not what its shortest text says."""
    values = (
        [0.1, 0.3, -2.7] if of_type.startswith("numeric") else [value for value in FLOATS if bits > 16 or value < 1]
    )
    floats = np.array(values).astype(f"float{bits}")
    replayed, loaded = replayed_and_loaded(engine_target, tmp_path, of_type, pa.array(floats))
    assert len(replayed) == len(values)
    assert replayed == loaded


@pytest.mark.parametrize(
    ("of_type", "kind", "values"),
    [
        ("DOUBLE[]", pa.list_(pa.float32()), [[0.1], [None, 2.7]]),
        ("STRUCT(x DOUBLE)", pa.struct([("x", pa.float32())]), [{"x": 0.1}, {"x": None}]),
    ],
    ids=str,
)
def test_floats_within_others_are_replayed(tmp_path: Path, of_type: str, kind: pa.DataType, values: list[Any]) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    replayed, loaded = replayed_and_loaded(target, tmp_path, of_type, pa.array(values, kind))
    assert replayed == loaded
    assert "0.10000000149011612" in loaded[0][1]


# A type that only the engine itself reads, with a good value and a bad one.
ONLY_THERE = {"duckdb": ("BIT", "0101", "01x,1"), "postgresql": ("tsquery", "a & b", "a, & (")}


@pytest.mark.parametrize("kind", ["parquet", "memory", "reader"])
@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_value_that_only_the_engine_refuses_is_told(
    engine_target: Target, tmp_path: Path, kind: str, on_error: str
) -> None:
    """By its own text, and not by none or by the record's."""
    of_type, good, bad = ONLY_THERE[engine_target.engine]
    engine_target.execute(f"CREATE TABLE t (a integer, q {of_type})")
    values = [good] * 30_000
    values[20_000] = bad
    source: Any = pa.table({"a": pa.array(range(30_000)), "q": pa.array(values)})
    if kind == "parquet":
        pq.write_table(source, tmp_path / "in.parquet", row_group_size=9_000)
        source = tmp_path / "in.parquet"
    elif kind == "reader":
        source = source.to_reader()
    with pytest.raises(tipple.TippleError) as failure:
        tipple.load(source, into=engine_target.url, table="t", on_error=on_error, max_rejects=0)
    error: Any = failure.value.last if isinstance(failure.value, tipple.TooManyRejects) else failure.value
    if kind == "reader" and engine_target.engine == "duckdb" and on_error == "stop":
        # DuckDB does not tell the record, and a reader cannot be read again.
        assert "bit conversion: 'x'" in str(error)
        assert "--on-error skip names the record" in error.hint
        return
    assert (error.record_number, error.column, error.text) == (20_001, "q", bad)


@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("PRIMARY KEY", {}),
        ("CHECK (a <> 20000 OR b = 'x')", {}),
        ("PRIMARY KEY CHECK (a <> 20000 OR b = 'x')", {"mode": "upsert", "key": ["a"]}),
        ("", {"structure": "btree", "key": ["a"]}),
    ],
)
@pytest.mark.parametrize("library", ["pyarrow", "pandas"])
def test_a_table_in_memory_is_read_again_for_the_row(
    tmp_path: Path, library: str, key: str, options: dict[str, Any]
) -> None:
    """DuckDB names none."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute(f"CREATE TABLE t (a integer {key}, b text)")
    numbers = list(range(30_000))
    if "CHECK" not in key:
        numbers[25_000] = 20_000
    table = pa.Table.from_batches(pa.table({"a": numbers, "b": ["x,y"] * 30_000}).to_batches(max_chunksize=7_000))
    source = table if library == "pyarrow" else table.to_pandas()
    with pytest.raises(tipple.BadRecord) as failure:
        tipple.load(source, into=target.url, table="t", jobs=2, **options)
    wanted = 20_001 if "CHECK" in key else 25_001
    assert (failure.value.record_number, failure.value.text) == (wanted, '20000,"x,y"')
    assert target.count("t") == 0


@pytest.mark.parametrize("kind", ["parquet", "memory"])
def test_a_row_that_a_key_refuses_is_told(postgres_target: PostgresTarget, tmp_path: Path, kind: str) -> None:
    """As CSV, where one session stores rows into a table that has its key already."""
    postgres_target.execute("CREATE TABLE t (a integer PRIMARY KEY, b text); INSERT INTO t VALUES (20000, 'x')")
    source: Any = pa.table({"a": pa.array(range(30_000)), "b": pa.array(["x,y"] * 30_000)})
    if kind == "parquet":
        pq.write_table(source, tmp_path / "in.parquet", row_group_size=9_000)
        source = tmp_path / "in.parquet"
    with pytest.raises(tipple.BadRecord) as failure:
        tipple.load(source, into=postgres_target.url, table="t", mode="append", indexes="keep")
    assert (failure.value.record_number, failure.value.text) == (20_001, '20000,"x,y"')
