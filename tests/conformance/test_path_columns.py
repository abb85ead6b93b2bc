"""Columns of Parquet and Arrow files that only the names of their directories hold: `day=2024-01-31`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tipple
from columnar_files import write_arrow_file
from loading import load, load_here
from targets import DuckdbTarget, PostgresTarget, Target

TABLE = "CREATE TABLE t (n integer, day date, region text, year integer DEFAULT 7)"


def lake(root: Path, *directories: str, rows: int = 3, suffix: str = "parquet") -> Path:
    """A file in each of these directories, each with other numbers."""
    for number, directory in enumerate(directories):
        place = root / directory
        place.mkdir(parents=True)
        table = pa.table({"n": pa.array(range(number * rows, (number + 1) * rows), pa.int32())})
        path = place / f"part-0.{suffix}"
        if suffix == "parquet":
            pq.write_table(table, path, row_group_size=2)
        else:
            write_arrow_file(path, table)
    return root


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("write_path", ["auto", "text"])
def test_their_values_are_loaded(engine_target: Target, tmp_path: Path, suffix: str, write_path: str) -> None:
    if write_path == "text" and isinstance(engine_target, DuckdbTarget):
        pytest.skip("DuckDB has one write path")
    root = lake(
        tmp_path / "lake", "day=2024-01-31/region=a%20b%2Fc", "day=2024-02-01/region=__HIVE_DEFAULT_PARTITION__",
        suffix=suffix,
    )  # fmt: skip
    engine_target.execute(TABLE)
    checked = "checksum" if write_path == "auto" else "count"
    run = load_here(engine_target, root, write_path=write_path, verify=checked)
    assert run.summary["verify"]["kind"] == checked
    first, second = date(2024, 1, 31), date(2024, 2, 1)
    assert engine_target.rows("SELECT * FROM t ORDER BY n") == [
        *((n, first, "a b/c", 7) for n in range(3)),
        *((n, second, None, 7) for n in range(3, 6)),
    ]
    assert load_here(engine_target, root, write_path=write_path).summary["status"] == "already loaded"


def test_a_new_table_has_them(engine_target: Target, tmp_path: Path) -> None:
    """As DuckDB has it, but that 01 is no number: it would come back as 1."""
    root = lake(tmp_path / "lake", "Year=2024/month=01/day=2024-01-31", "Year=2025/month=12/day=2025-12-01")
    load(engine_target, root, schema="auto")
    assert engine_target.rows("SELECT * FROM t ORDER BY n")[::3] == [
        (0, 2024, "01", date(2024, 1, 31)),
        (3, 2025, "12", date(2025, 12, 1)),
    ]


def test_what_duckdb_has_written(engine_target: Target, tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT i AS n, DATE '2024-01-30' + (i % 3)::integer AS day, 'r =' || i % 2 AS region "
            f"FROM range(30) r(i)) "
            f"TO '{tmp_path / 'lake'}' (FORMAT parquet, PARTITION_BY (day, region))"
        )
        wanted = connection.execute(
            f"SELECT n, day, region FROM '{tmp_path / 'lake'}/*/*/*.parquet' ORDER BY n"
        ).fetchall()
    engine_target.execute(TABLE)
    load(engine_target, tmp_path / "lake")
    assert engine_target.rows("SELECT n, day, region FROM t ORDER BY n") == wanted


def test_columns_chooses_among_them(engine_target: Target, tmp_path: Path) -> None:
    root = lake(tmp_path / "lake", "year=2024/day=2024-01-31", "year=2025/day=2024-02-01")
    engine_target.execute(TABLE)
    load(engine_target, root, columns="year,n")
    load(engine_target, root, columns="n")
    # None of the file's own: their number still is.
    load(engine_target, root, columns="day")
    assert engine_target.rows("SELECT n, day, year, count(*) FROM t GROUP BY 1, 2, 3 ORDER BY 3, 1, 2") == [
        *((n, None, 7, 1) for n in range(6)),
        (None, date(2024, 1, 31), 7, 3),
        (None, date(2024, 2, 1), 7, 3),
        *((n, None, 2024, 1) for n in range(3)),
        *((n, None, 2025, 1) for n in range(3, 6)),
    ]


def test_what_the_file_has_counts_more(engine_target: Target, tmp_path: Path) -> None:
    place = tmp_path / "N=5" / "year=2024"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"n": pa.array([1], pa.int32())}), place / "a.parquet")
    engine_target.execute(TABLE)
    load(engine_target, place / "a.parquet")
    assert engine_target.rows("SELECT n, year FROM t") == [(1, 2024)]


@pytest.mark.parametrize("directories", [("year=2024", "other"), ("hour=1", "hour=2")])
def test_what_is_not_loaded_is_told(engine_target: Target, tmp_path: Path, directories: tuple[str, ...]) -> None:
    """Where not all files have it, or the table has no such column."""
    root = lake(tmp_path / "lake", *directories)
    engine_target.execute(TABLE)
    run = load_here(engine_target, root / "*" / "*.parquet")
    assert any(f"hold {directories[0].partition('=')[0]} " in note for note in run.summary["notes"])
    assert engine_target.rows("SELECT DISTINCT year FROM t") == [(7,)]


def test_values_that_cannot_be_stored(engine_target: Target, tmp_path: Path) -> None:
    root = lake(tmp_path / "lake", "year=2024", "year=soon")
    engine_target.execute(TABLE)
    with pytest.raises(tipple.BadRecord, match="soon") as caught:
        tipple.load(root, into=engine_target.url, table="t")
    assert (caught.value.column, caught.value.record_number) == ("year", 1)
    assert caught.value.file.endswith("year=soon/part-0.parquet")
    assert engine_target.count("t") == 0
    rejects = tmp_path / "bad.csv"
    skipping: dict[str, Any] = {"on_error": "skip", "max_rejects": 3, "rejects": rejects}
    assert tipple.load(root, into=engine_target.url, table="t", **skipping).rejects == 3
    assert rejects.read_text() == "3,soon\n4,soon\n5,soon\n"
    rejects.write_text(rejects.read_text().replace("soon", "2025"))
    tipple.load(root, into=engine_target.url, table="t", replay=True, **skipping)
    assert engine_target.rows("SELECT n, year FROM t ORDER BY n") == [
        *((n, 2024) for n in range(3)),
        *((n, 2025) for n in range(3, 6)),
    ]


def test_partitions_are_made_of_them(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    root = lake(tmp_path / "lake", "day=2024-01-31", "day=2024-03-01")
    load(postgres_target, root, schema="auto", partition_by="range(day, every=month)")
    assert postgres_target.rows("SELECT tableoid::regclass::text, count(*) FROM t GROUP BY 1 ORDER BY 1") == [
        ("t_2024_01_01", 3),
        ("t_2024_03_01", 3),
    ]
