"""Promise 5: peak memory is bounded and does not grow with the file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import tipple
from big import TABLE, BigFile
from conftest import LONG
from loading import load, load_stdin
from targets import PostgresTarget, Target, write

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


@pytest.mark.client_only
@pytest.mark.parametrize("packed", [False, True])
def test_what_is_read_from_beginning_to_end(postgres_target: PostgresTarget, tmp_path: Path, packed: bool) -> None:
    """Standard input and a packed file, of which one thread makes blocks for the stream: more than the bound, too."""
    postgres_target.execute("CREATE UNLOGGED TABLE t (id integer, note text)")
    block = "".join(f"{number},{'plain text ' * 130}\n" for number in range(10_000)).encode()
    bound = FIXED_BYTES + STREAM_BYTES
    times = int(1.2 * bound) // len(block)
    summary = tmp_path / "summary.json"
    if packed:
        path = write(tmp_path / "in.csv.gz", gzip.compress(block, 1) * times)
        load(postgres_target, path, header="no", jobs=1, summary=summary)
    else:
        done = load_stdin(postgres_target, block * times, header="no", jobs=1, summary=summary)
        assert done.returncode == 0, done.stderr
    said = json.loads(summary.read_text())
    assert (said["rows"], said["sources"][0]["text_bytes"]) == (10_000 * times, times * len(block))
    assert said["peak_memory_bytes"] <= bound


@pytest.mark.parametrize("limit", ["100KB", "1MB"])
def test_want_of_memory_in_the_library(tmp_path: Path, limit: str) -> None:
    """DuckDB's own error comes up wherever it is asked something, and is one of Tipple's with its remedy."""
    path = write(tmp_path / "in.csv", "1\n" * 1000)
    target = tmp_path / "t.duckdb"
    with duckdb.connect(str(target)) as connection:
        connection.execute(f"SET memory_limit = '{limit}'")
        with pytest.raises(tipple.TippleError, match=r"^out of memory: ") as caught:
            tipple.load(path, into=f"duckdb:///{target}", table="t", schema="auto")
    assert "--memory-limit" in str(caught.value.hint)
    assert tipple.load(path, into=f"duckdb:///{target}", table="t", schema="auto").rows == 1000
