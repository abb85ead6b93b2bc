"""Partitioned loading: rows land in the partition that the server itself would choose, and all appear at once."""

from __future__ import annotations

import random
from pathlib import Path

import psycopg
import pytest

from loading import load, load_text
from servers.postgres import LOADER
from targets import PostgresTarget, write

RANGES = """
CREATE TABLE t (a integer NOT NULL, b text) PARTITION BY RANGE (a);
CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (MINVALUE) TO (0);
CREATE TABLE t_mid PARTITION OF t FOR VALUES FROM (0) TO (1000);
CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (1000) TO (2000);
"""


def per_partition(target: PostgresTarget, table: str = "t") -> dict[str, int]:
    """Rows by partition."""
    return dict(target.rows(f"SELECT tableoid::regclass::text, count(*) FROM {table} GROUP BY 1 ORDER BY 1"))


def partition_names(target: PostgresTarget, table: str = "t") -> list[str]:
    return [
        name
        for (name,) in target.rows(
            f"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = '{table}'::regclass ORDER BY 1"
        )
    ]


def check_tidy(target: PostgresTarget) -> None:
    """Nothing of Tipple's is left: no table, no constraint, no comment, no storage parameter."""
    assert not [name for name in target.tables() if "stage_" in name]
    assert target.rows("SELECT conname FROM pg_constraint WHERE conname LIKE 'stage%'") == []
    assert target.rows("SELECT relname FROM pg_class WHERE relname LIKE 'stage%'") == []
    assert target.rows("SELECT description FROM pg_description WHERE description LIKE '{%'") == []
    assert target.rows("SELECT relname FROM pg_class WHERE array_to_string(reloptions, ',') LIKE '%autovacuum%'") == []


def numbers(seed: int, count: int, low: int, high: int) -> list[int]:
    r = random.Random(seed)
    return [r.randrange(low, high) for _ in range(count)]


def text_of(keys: list[int]) -> str:
    return "".join(f"{key},x{key}\n" for key in keys)


def test_mixed_rows_into_range_partitions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(RANGES)
    postgres_target.execute("CREATE INDEX t_b ON t (b)")
    keys = numbers(1, 20_000, -1000, 2000)
    run = load_text(postgres_target, tmp_path / "in.csv", text_of(keys), verify="checksum")
    assert run.summary["strategy"] == "partition"
    assert postgres_target.count("t") == len(keys)
    expected = {
        "t_high": sum(key >= 1000 for key in keys),
        "t_low": sum(key < 0 for key in keys),
        "t_mid": sum(0 <= key < 1000 for key in keys),
    }
    assert per_partition(postgres_target) == expected
    assert any("routed one by one" in note for note in run.summary["notes"])
    check_tidy(postgres_target)
    # The index is the table's own, under the names that it had.
    rows = postgres_target.rows("SELECT indexname FROM pg_indexes WHERE tablename LIKE 't\\_%' ORDER BY 1")
    assert [name for (name,) in rows] == ["t_high_b_idx", "t_low_b_idx", "t_mid_b_idx"]
    assert postgres_target.value("SELECT indisvalid FROM pg_index WHERE indexrelid = 't_b'::regclass")
    assert load(postgres_target, tmp_path / "in.csv").summary["status"] == "already loaded"


def test_a_file_per_partition_goes_straight(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(RANGES)
    files = [
        write(tmp_path / f"{n}.csv", text_of(numbers(n, 5000, *bounds)))
        for n, bounds in enumerate([(-1000, 0), (0, 1000), (1000, 2000)])
    ]
    run = load(postgres_target, *files)
    assert per_partition(postgres_target) == {"t_low": 5000, "t_mid": 5000, "t_high": 5000}
    assert any("went straight" in note for note in run.summary["notes"])
    check_tidy(postgres_target)


def test_a_record_without_a_partition(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(RANGES)
    run = load_text(postgres_target, tmp_path / "in.csv", "1,a\n1999,b\n2000,c\n5,d\n", check=1)
    assert "record 3" in run.stderr and "2000" in run.stderr and "partition" in run.stderr
    assert postgres_target.count("t") == 0
    check_tidy(postgres_target)
    run = load(postgres_target, tmp_path / "in.csv", on_error="skip", max_rejects=5, check=3, cwd=tmp_path)
    assert per_partition(postgres_target) == {"t_high": 1, "t_mid": 2}
    assert (tmp_path / "t.rejects").read_text() == "2000,c\n"
    reasons = (tmp_path / "t.rejects.reasons.csv").read_text()
    assert "23514" in reasons and "no partition" in reasons


def test_a_null_key(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (a integer, b text) PARTITION BY RANGE (a)")
    postgres_target.execute("CREATE TABLE t_mid PARTITION OF t FOR VALUES FROM (0) TO (1000)")
    run = load_text(postgres_target, tmp_path / "in.csv", "1,a\n,b\n", check=1)
    assert "record 2" in run.stderr and "NULL" in run.stderr
    postgres_target.execute("CREATE TABLE t_rest PARTITION OF t DEFAULT")
    load(postgres_target, tmp_path / "in.csv")
    assert per_partition(postgres_target) == {"t_mid": 1, "t_rest": 1}
    check_tidy(postgres_target)
