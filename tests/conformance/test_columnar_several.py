"""Columnar files whose columns differ in type: every value is the one that its file has, or nothing is loaded."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import columnar_targets
from columnar_files import write_arrow_file
from loading import load_here
from targets import DuckdbTarget, Target

engine_target = columnar_targets.engine_target
postgres_target = columnar_targets.postgres_target

NOON = datetime.datetime(2024, 6, 6, 12)


def files(directory: Path, *arrays: pa.Array) -> list[Path]:
    return [
        write_arrow_file(directory / f"{number}.arrow", pa.table({"v": array})) for number, array in enumerate(arrays)
    ]


def test_a_clock_and_a_moment(engine_target: Target, tmp_path: Path) -> None:
    """Of a column with a zone the session says what a clock without one means, and a moment says it itself."""
    engine_target.execute("CREATE TABLE t (v timestamptz)")
    clock, moment = files(tmp_path, pa.array([NOON]), pa.array([NOON.replace(tzinfo=datetime.UTC)]))
    for first, second in ((clock, moment), (moment, clock)):
        load_here(engine_target, first, second, check=False)
        # Refused, where they are not both read exactly.
        stored = engine_target.rows("SELECT v AT TIME ZONE 'UTC' FROM t")
        assert stored == [] or (NOON,) in stored
        engine_target.execute("DELETE FROM t")
    load_here(engine_target, moment)
    assert engine_target.rows("SELECT v AT TIME ZONE 'UTC' FROM t") == [(NOON,)]


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.array([Decimal("2.50")], pa.decimal128(5, 2)), pa.array([Decimal("1.12345678")], pa.decimal128(30, 18))),
        (pa.array([0.25], pa.float32()), pa.array([0.1], pa.float64())),
    ],
    ids=["decimals", "floats"],
)
def test_numbers_of_fewer_digits_in_the_first_file(
    engine_target: Target, tmp_path: Path, narrow: pa.Array, wide: pa.Array
) -> None:
    engine_target.execute("CREATE TABLE t (v json)")
    run = load_here(engine_target, *files(tmp_path, narrow, wide), check=False)
    if run.exit_code:
        assert "in this file, but" in run.stderr
        assert engine_target.count("t") == 0
    else:
        texts = {float(text) for (text,) in engine_target.rows("SELECT CAST(v AS varchar) FROM t")}
        assert texts == {float(narrow[0].as_py()), float(wide[0].as_py())}


ALL_NULL: dict[str, tuple[str, pa.Array, Any]] = {
    "bytes": ("bytea", pa.array([b"a\\b\xff"]), b"a\\b\xff"),
    "list": ("integer[]", pa.array([[1, 2]]), [1, 2]),
    "interval": ("interval", pa.array([datetime.timedelta(days=1)]), datetime.timedelta(days=1)),
    "text": ("varchar", pa.array(["x"]), "x"),
}


@pytest.mark.parametrize("is_made", [False, True])
@pytest.mark.parametrize("kind", ALL_NULL)
def test_a_first_file_that_is_null_everywhere(engine_target: Target, tmp_path: Path, kind: str, is_made: bool) -> None:
    """The type is that of the first file that says one."""
    type_text, array, value = ALL_NULL[kind]
    if not is_made:
        engine_target.execute(f"CREATE TABLE t (v {type_text})")
    options = {"schema": "auto"} if is_made else {}
    load_here(engine_target, *files(tmp_path, pa.nulls(1), array, pa.nulls(2)), verify="checksum", **options)
    assert engine_target.rows("SELECT v FROM t WHERE v IS NOT NULL") == [(value,)]
    assert engine_target.count("t") == 4


@pytest.mark.parametrize("shape", ["list", "struct", "map", "fixed list"])
@pytest.mark.parametrize("kind", [pa.decimal128(5, 2), pa.decimal64(5, 2), pa.decimal32(5, 2)], ids=str)
def test_more_digits_than_a_decimal_within_another_value_has(tmp_path: Path, shape: str, kind: pa.DataType) -> None:
    """DuckDB stores whatever lies beside them in memory."""
    target = DuckdbTarget(tmp_path / "t.duckdb")
    target.execute("CREATE TABLE t (v decimal(5, 2)[])" if "list" in shape else "CREATE TABLE t (v json)")
    numbers = {5: 99_999, 6: 100_000}
    for digits, number in numbers.items():
        size = kind.bit_width // 8
        buffers = [None, pa.py_buffer(number.to_bytes(size, "little", signed=True))]
        item = pa.Array.from_buffers(kind, 1, buffers)
        array = {
            "list": lambda item=item: pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), item),
            "fixed list": lambda item=item: pa.FixedSizeListArray.from_arrays(item, 1),
            "struct": lambda item=item: pa.StructArray.from_arrays([item], ["a"]),
            "map": lambda item=item: pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["k"]), item),
        }[shape]()
        (tmp_path / str(digits)).mkdir()
        run = load_here(target, *files(tmp_path / str(digits), array), check=1 if digits > 5 else 0)
        assert ("out of range" in run.stderr) is (digits > 5)
    assert "999.99" in str(target.rows("SELECT CAST(v AS varchar) FROM t"))
    assert target.count("t") == 1
