"""Tables that are Parquet files, whose loads are killed or end by a bad record."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from command import Command, run_tipple, start_tipple
from conformance.test_duckdb_parquet import SCHEMA, files_of, jobs, shown, text
from faults.oracle import FIRST_SEED
from loading import load, load_here, load_words
from targets import DuckdbTarget, write


@pytest.fixture
def target(tmp_path: Path) -> DuckdbTarget:
    return DuckdbTarget(tmp_path / "target.duckdb")


def kill_at(target: DuckdbTarget, command: Command, moment: float | str) -> None:
    """Kill the load after so many seconds, or once a directory of its own is there: hidden, or in its place."""
    before = set(jobs(target)) if files_of(target).exists() else set()
    while command.running and isinstance(moment, str):
        new = set(jobs(target)) - before if files_of(target).exists() else set()
        if any(name.startswith(".") == (moment == "hidden") for name in new):
            break
    if isinstance(moment, float):
        time.sleep(moment)
    command.signal(signal.SIGKILL)
    command.wait()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["append", "replace"])
def test_killed(target: DuckdbTarget, tmp_path: Path, mode: str) -> None:
    """At any moment a reader sees all of the load's rows or none, and nobody else's files are left."""
    schema = write(tmp_path / "schema.sql", SCHEMA)
    rows, old = 60_000, 100
    done = rows + old if mode == "append" else rows
    path = write(tmp_path / "in.csv", text(1000, rows))
    options = {"schema": schema, "structure": "parquet", "partition_by": "range(day, every=year)", "jobs": 2}
    before = write(tmp_path / "old.csv", text(0, old))
    random_moment = random.Random(FIRST_SEED).uniform(0.4, 0.9)
    for moment in ("hidden", "in place", random_moment):
        load_here(target, before, restart=True, **{**options, "mode": "replace"})
        command = start_tipple(*load_words(target.url, (path,), "t", {**options, "mode": mode, "restart": True}))
        kill_at(target, command, moment)
        count = shown(target)
        assert count in (old, done)
        if moment == "hidden":
            run_tipple("jobs", target.url, "clean")
            assert shown(target) == count
            assert len(jobs(target)) == (2 if mode == "append" and count == done else 1)
    load_here(target, path, **{**options, "mode": mode})
    assert shown(target) == done
    assert target.value("SELECT count(DISTINCT id) FROM t") == done
    assert len(jobs(target)) == (2 if mode == "append" else 1)


@pytest.mark.parametrize("partition_by", [None, "list(kind)"])
def test_a_record_that_ends_the_load(target: DuckdbTarget, tmp_path: Path, partition_by: str | None) -> None:
    """DuckDB crashes or hangs, now and then, where a COPY into Parquet files fails: it must never learn of it."""
    schema = write(tmp_path / "s.sql", SCHEMA)
    records = "".join(f"{n},2024-01-0{n % 9 + 1},kind {n % 10},{n}.5\n" for n in range(300_000))
    path = write(tmp_path / "in.csv", records + "x,y\n")
    options = {"schema": schema, "structure": "parquet", "partition_by": partition_by, "header": "no"}
    for _ in range(8 if partition_by is None else 1):
        run = load(target, path, **options, check=1)
        assert "record    300,001" in run.stderr
    assert not list(tmp_path.rglob("*.parquet"))
    write(path, records)
    load(target, path, **options)
    assert target.count("t") == 300_000
