"""Promise 5: peak memory is bounded and does not grow with the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from big import TABLE, BigFile
from conftest import LONG
from loading import load
from targets import Target

FIXED_BYTES = 200_000_000
STREAM_BYTES = 48_000_000
DUCKDB_LIMIT = "300MB"
TIMES = 120 if LONG else 20


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory, big_file: BigFile) -> Iterator[Path]:
    """The big file's records over and over, several hundred megabytes: what the bound is for is their number."""
    path = tmp_path_factory.mktemp("huge") / "in.csv"
    records = big_file.path.read_bytes()
    with path.open("wb") as file:
        for _ in range(TIMES):
            file.write(records)
    yield path
    path.unlink()


@pytest.mark.client_only
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("jobs", [1, 4])
def test_peak_memory(engine_target: Target, big_file: BigFile, huge: Path, jobs: int) -> None:
    """A file of several hundred megabytes, more than the bound, on one and on four streams."""
    engine_target.execute(TABLE)
    limit = DUCKDB_LIMIT if engine_target.engine == "duckdb" else None
    run = load(engine_target, huge, jobs=jobs, memory_limit=limit, timeout=1800)
    assert run.summary is not None
    assert run.summary["rows"] == TIMES * big_file.rows
    bound = FIXED_BYTES + jobs * STREAM_BYTES + (300_000_000 if limit else 0)
    assert run.summary["peak_memory_bytes"] <= bound
