"""`--memory-limit`: the process keeps to it, or the load ends with nothing published and says what to do."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pytest

from big import TABLE, BigFile
from loading import load, load_here, load_text
from targets import PostgresTarget, Target, write

# A process without streams, and each stream, as the message says.
FIXED_MB = 140
STREAM_MB = 8


@pytest.mark.parametrize("packed", [False, True])
def test_the_least_limit_is_enough(engine_target: Target, big_file: BigFile, tmp_path: Path, packed: bool) -> None:
    """The least number that the refusal names is one that the load keeps to."""
    engine_target.execute(TABLE)
    path = big_file.path
    if packed:
        path = tmp_path / "big.csv.gz"
        path.write_bytes(gzip.compress(big_file.path.read_bytes(), 1))
    least = FIXED_MB + 4 * STREAM_MB
    refused = load_here(engine_target, path, jobs=4, memory_limit=f"{least - 1}MB", check=2)
    assert f"{least}MB" in refused.stderr
    assert "-j 3" in refused.stderr
    assert engine_target.count("t") == 0
    run = load(engine_target, path, jobs=4, memory_limit=f"{least}MB", verify="checksum")
    assert run.summary is not None
    pool = least if engine_target.engine == "duckdb" else 0
    assert run.summary["peak_memory_bytes"] <= (least + pool) * 1e6
    assert run.summary["settings"]["memory_limit"] == f"{least} MB"
    assert big_file.held_by(engine_target) == big_file.expected


def test_a_batch_that_does_not_fit(engine_target: Target, tmp_path: Path) -> None:
    """Nobody knows how large a record batch is before it is there, and it is read whole."""
    engine_target.execute("CREATE TABLE t (id bigint, note varchar)")
    values = [os.urandom(1500).hex() for _ in range(60_000)]
    path = tmp_path / "in.arrow"
    table = pa.table({"id": range(len(values)), "note": pa.array(values)})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=len(values))
    run = load(engine_target, path, jobs=1, memory_limit="150MB", check=1)
    assert "--memory-limit" in run.stderr
    assert "hint" in run.stderr
    assert engine_target.count("t") == 0


def test_a_record_that_does_not_fit(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (note varchar)")
    path = write(tmp_path / "in.csv", "x" * 5_000_000 + "\n")
    run = load_here(engine_target, path, jobs=1, memory_limit="150MB", check=1)
    assert "--memory-limit" in run.stderr
    assert engine_target.count("t") == 0
    load_here(engine_target, path, jobs=1, memory_limit="1GB")
    assert engine_target.count("t") == 1


def test_long_rejects_take_little_memory(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (a integer, b text)")
    text = "".join(f"x,{'y' * 60_000}\n" for _ in range(2_500)) + "1,z\n"
    run = load_text(
        postgres_target, tmp_path / "in.csv", text, header="no", on_error="skip", max_rejects=2500,
        rejects=tmp_path / "bad", memory_limit="160MB", jobs=2, check=3,
    )  # fmt: skip
    assert run.summary is not None
    assert run.summary["peak_memory_bytes"] < 200_000_000
