"""Promise 5: peak memory is bounded and does not grow with the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from big import TABLE, write_big_file
from conftest import LONG
from loading import load
from targets import Target

FIXED_BYTES = 200_000_000
STREAM_BYTES = 48_000_000
DUCKDB_LIMIT = "300MB"


@pytest.mark.client_only
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("jobs", [1, 4])
def test_peak_memory(engine_target: Target, tmp_path: Path, jobs: int) -> None:
    """A file of several hundred megabytes, more than the bound, on one and on four streams."""
    big = write_big_file(tmp_path / "in.csv", rows=30_000_000 if LONG else 5_000_000)
    engine_target.execute(TABLE)
    limit = DUCKDB_LIMIT if engine_target.engine == "duckdb" else None
    run = load(engine_target, big.path, jobs=jobs, memory_limit=limit, timeout=1800)
    assert run.summary is not None
    assert run.summary["rows"] == big.rows
    bound = FIXED_BYTES + jobs * STREAM_BYTES + (300_000_000 if limit else 0)
    assert run.summary["peak_memory_bytes"] <= bound
    big.path.unlink()
