"""Rejects are exactly-once too: a job that is killed and resumed has the rejects of one that was not."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from command import start_tipple
from faults.oracle import LONG, duckdb_target, moments, record_count
from loading import load_words
from servers.postgres import PostgresServer
from spoilt import SEED, TABLE, spoil, told
from targets import PostgresTarget, Target, write

KEYED = TABLE.replace("NOT NULL", "PRIMARY KEY")
PARTITIONS = "range(a, every=100000)"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("engine", "table", "partition_by"),
    [
        ("duckdb", TABLE, None),
        ("duckdb", KEYED, None),
        ("postgresql", TABLE, None),
        ("postgresql", KEYED, None),
        ("postgresql", KEYED, PARTITIONS),
    ],
)
def test_killed_with_rejects(
    tmp_path: Path, server_of: Callable[[int], PostgresServer], engine: str, table: str, partition_by: str | None
) -> None:
    """With `partition_by` the table is new, and some slices are done and others not when the client dies."""
    made = spoil(900_000, 0.0005, seed=31)
    path = write(tmp_path / "in.csv", made.data)
    schema = write(tmp_path / "schema.sql", table) if partition_by is not None else None
    rejects = tmp_path / "bad.csv"
    rounds = 40 if LONG else 4
    options = {"jobs": 2, "on_error": "skip", "max_rejects": 1000, "rejects": rejects, "schema": schema,
               "partition_by": partition_by}  # fmt: skip
    seconds, killed, resumed = 0.0, 0, 0
    for number, part in enumerate([2.0, *moments(31, rounds, 1.0)]):
        target: Target
        target = duckdb_target(tmp_path, f"round{number}") if engine == "duckdb" else PostgresTarget(server_of(18))
        try:
            if schema is None:
                target.execute(table)
            words = load_words(target.url, (path,), "t", options)
            started = time.monotonic()
            command = start_tipple(*words)
            if number > 0:
                time.sleep(part * seconds)
                killed += command.running
                command.signal(signal.SIGKILL)
            run = command.wait()
            seconds = seconds or time.monotonic() - started
            if schema is None:
                assert target.count("t") in (0, len(made.good))
            if number > 0:
                rejects.unlink(missing_ok=True)
                run = start_tipple(*words).wait()
            assert run.exit_code == 3, str(run)
            assert run.summary is not None
            resumed += run.summary["slices_resumed"]
            assert told(rejects) == made.bad
            assert rejects.read_bytes() == made.raw
            assert target.count("t") == len(made.good)
            assert target.leftovers("t") == set()
        finally:
            target.close()
    kind = ("with a key" if table == KEYED else "without a key") + (", partitioned" if partition_by else "")
    record_count(
        f"SIGKILL of a load with rejects, {engine}, {kind}: {rounds} rounds, {killed} while it ran, {resumed} slices "
        "taken over; each time the rejects of an undisturbed load"
    )


@pytest.mark.timeout(3600)
def test_killed_between_transactions_with_violations(tmp_path: Path) -> None:
    """DuckDB with --no-atomic: keys that were stored before the kill count as they would have without it."""
    r = random.Random(SEED)
    text = "x" * 100
    path = tmp_path / "in.csv"
    with path.open("w") as file:
        # Two transactions of eight slices each.
        for number in range(1, 1_300_001):
            key = r.randrange(1, number) if number > 1 and r.random() < 0.0005 else number
            file.write(f"{key},{-1 if r.random() < 0.0003 else 1},{text}\n")
    options = {"no_atomic": True, "jobs": 2, "on_error": "skip", "max_rejects": 5000, "format": "csv", "header": "no"}
    undisturbed: list[bytes] = []
    seconds, between = 0.0, 0
    moments = [0.0, 0.9, *([0.5, 0.6, 0.7, 0.8, 0.95] if LONG else [])]
    for number, part in enumerate(moments):
        target = duckdb_target(tmp_path, f"round{number}")
        target.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer CHECK (b > 0), c varchar)")
        rejects = tmp_path / f"bad{number}.csv"
        words = load_words(target.url, (path,), "t", {**options, "rejects": rejects})
        started = time.monotonic()
        command = start_tipple(*words)
        if number > 0:
            time.sleep(part * seconds)
            command.signal(signal.SIGKILL)
        run = command.wait()
        seconds = seconds or time.monotonic() - started
        if number > 0:
            between += target.count("t") > 0
            run = start_tipple(*words).wait()
        assert run.exit_code == 3, str(run)
        files = [rejects.read_bytes(), Path(f"{rejects}.reasons.csv").read_bytes()]
        undisturbed = undisturbed or files
        assert files == undisturbed
        assert target.count("t") == 1_300_000 - files[0].count(b"\n")
        target.close()
    record_count(
        f"SIGKILL of a load with violations into DuckDB, --no-atomic: {len(moments) - 1} rounds, {between} after a "
        "transaction; each time the rejects of an undisturbed load"
    )
