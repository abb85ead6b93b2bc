"""`--commit-every`: transactions of so many rows at most, still exactly once."""

from __future__ import annotations

import gzip
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from command import start_tipple
from conftest import version_parameter
from loading import load_here, load_words
from servers.postgres import PostgresServer
from targets import DuckdbTarget, PostgresTarget, Target, lines, write

ROWS = 5_000
TABLE = "CREATE TABLE t (id integer NOT NULL, note varchar)"


def records(first: int, count: int) -> str:
    """CSV whose quoted fields hold newlines, so that no line count finds the records."""
    return "".join(f'{n},"line{chr(10) * (n % 3)}{n}"\n' for n in range(first, first + count))


def largest_transaction(target: Target) -> int:
    """Rows of the largest transaction that stored any; where the engine hides it, of the largest slice."""
    if target.engine == "postgresql":
        return int(target.value("SELECT max(n) FROM (SELECT count(*) AS n FROM t GROUP BY xmin) x"))
    return int(target.value("SELECT max(rows) FROM tipple.slice"))


def check(target: Target, rows: int) -> None:
    assert target.rows("SELECT count(*), count(DISTINCT id), min(id), max(id) FROM t") == [(rows, rows, 0, rows - 1)]
    assert target.value("SELECT sum(rows) FROM tipple.slice") == rows
    assert target.value("SELECT count(*) FROM tipple.slice WHERE state <> 'done'") == 0


@pytest.mark.parametrize("every", [1, 7, 999, ROWS, 10 * ROWS])
def test_no_transaction_is_larger(engine_target: Target, tmp_path: Path, every: int) -> None:
    engine_target.execute(TABLE)
    rows = min(ROWS, 60 * every)
    path = write(tmp_path / "in.csv", records(0, rows))
    load_here(engine_target, path, no_atomic=True, commit_every=every, jobs=2)
    check(engine_target, rows)
    assert largest_transaction(engine_target) <= every


def test_many_files(engine_target: Target, tmp_path: Path) -> None:
    """Small files share no slice then, which could be divided between them only."""
    engine_target.execute(TABLE)
    for part in range(10):
        write(tmp_path / f"in{part}.csv", records(part * 100, 100))
    load_here(engine_target, tmp_path / "in*.csv", no_atomic=True, commit_every=40, jobs=2)
    check(engine_target, 1000)
    assert largest_transaction(engine_target) <= 40


@pytest.mark.parametrize("atomic", [True, False])
def test_packed_and_plain_files(postgres_target: PostgresTarget, tmp_path: Path, atomic: bool) -> None:
    """Staging is in transactions of that size too, and what is unpacked while it is read is cut so."""
    postgres_target.execute(TABLE)
    write(tmp_path / "a.csv", records(0, ROWS))
    for part in range(3):
        text = records(ROWS + part * 500, 500).removesuffix("\n")
        (tmp_path / f"b{part}.csv.gz").write_bytes(gzip.compress(text.encode()))
    run = load_here(postgres_target, tmp_path / "*", no_atomic=not atomic, commit_every=300, jobs=2, verify="checksum")
    assert run.summary is not None
    assert run.summary["strategy"] == ("swap" if atomic else "incremental")
    assert run.summary["verify"]["ok"]
    assert run.summary["settings"]["commit_every"] == "300 rows"
    check(postgres_target, ROWS + 1500)
    assert largest_transaction(postgres_target) <= 300


def test_partitions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Rows of a transaction go into several partitions."""
    postgres_target.execute("CREATE TABLE t (id integer NOT NULL, note varchar) PARTITION BY RANGE (id)")
    path = write(tmp_path / "in.csv", records(0, ROWS))
    run = load_here(
        postgres_target, path, commit_every=400, partition_by="range(id, every=900)", jobs=2, verify="checksum"
    )
    assert run.summary is not None
    assert run.summary["strategy"] == "partition"
    check(postgres_target, ROWS)
    assert largest_transaction(postgres_target) <= 400


def test_upsert(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Of two records with one key the later counts, in whichever transactions they were staged."""
    postgres_target.execute(TABLE)
    path = write(tmp_path / "in.csv", lines([(n % 500, n) for n in range(3000)]))
    run = load_here(postgres_target, path, commit_every=300, mode="upsert", key="id", jobs=2)
    assert run.summary is not None
    assert run.summary["strategy"] == "merge"
    assert postgres_target.rows("SELECT count(*), min(note::integer), max(note::integer) FROM t") == [(500, 2500, 2999)]
    assert postgres_target.value("SELECT max(rows) FROM tipple.slice") <= 300


def test_record_numbers_of_rejects(engine_target: Target, tmp_path: Path) -> None:
    """A divided slice numbers its records as a whole one does."""
    engine_target.execute(TABLE)
    bad = sorted(random.Random(1).sample(range(3000), 25))
    text = lines([("x" if n in bad else n, "y") for n in range(3000)])
    path = write(tmp_path / "in.csv", text)
    reject_file = tmp_path / "rejects"
    run = load_here(
        engine_target,
        path,
        no_atomic=True,
        commit_every=70,
        on_error="skip",
        max_rejects=100,
        rejects=reject_file,
        check=3,
    )
    assert run.summary is not None
    assert (run.summary["rows"], run.summary["rejects"]) == (2975, 25)
    reasons = Path(f"{reject_file}.reasons.csv").read_text().splitlines()[1:]
    assert [int(line.split(",")[1]) for line in reasons] == [n + 1 for n in bad]


def test_an_error_in_the_middle(engine_target: Target, tmp_path: Path) -> None:
    """What was committed before it stays, and the message says so."""
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", lines([(n if n != 700 else "x", "y") for n in range(1000)]))
    run = load_here(engine_target, path, no_atomic=True, commit_every=100, jobs=1, check=1)
    assert "stored" in run.stderr
    assert engine_target.count("t") == 700


@pytest.mark.timeout(600)
@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("version", [version_parameter(18)])
def test_killed_postgresql(
    server_of: Callable[[int], PostgresServer], tmp_path: Path, version: int, atomic: bool
) -> None:
    target = PostgresTarget(server_of(version))
    try:
        target.execute(TABLE)
        kill_and_finish(target, tmp_path, atomic=atomic)
        check(target, 100_000)
        assert largest_transaction(target) <= 900
    finally:
        target.close()


@pytest.mark.timeout(600)
def test_killed_duckdb(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "target.duckdb")
    target.execute(TABLE)
    kill_and_finish(target, tmp_path, atomic=False)
    check(target, 100_000)


def kill_and_finish(target: Target, tmp_path: Path, *, atomic: bool) -> None:
    """Kill the load again and again, and run it to its end."""
    path = write(tmp_path / "in.csv", lines([(n, f"row {n}") for n in range(100_000)]))
    options = {"no_atomic": not atomic, "commit_every": 900, "jobs": 2}
    done = 0
    for seconds in (0.9, 1.3):
        command = start_tipple(*load_words(target.url, (path,), "t", options))
        time.sleep(seconds)
        command.signal(signal.SIGKILL)
        command.wait()
        exists = "tipple.slice" in target.tables()
        now = int(target.value("SELECT count(*) FROM tipple.slice WHERE state = 'done'")) if exists else 0
        assert now >= done
        done = now
    load_here(target, path, **options)
    again = load_here(target, path, **options)
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"


@pytest.mark.timeout(300)
def test_a_file_that_grows_during_the_load(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What slices have stored is in the table: it has to go before a load is begun anew, and every message says so."""
    target = postgres_target
    target.execute(TABLE)
    path = write(tmp_path / "in.csv", lines([(n, "x" * 100) for n in range(200_000)]))
    options = {"no_atomic": True, "commit_every": 2000, "jobs": 1, "header": "no"}
    command = start_tipple(*load_words(target.url, (path,), "t", options))
    while not target.count("t") and command.process.poll() is None:
        time.sleep(0.01)
    with path.open("a") as file:
        file.write("200000,more\n")
    run = command.wait()
    assert run.exit_code == 1
    assert "changed while it was being loaded" in run.stderr
    assert "delete their rows before --restart" in run.stderr
    again = load_here(target, path, **options, check=1)
    assert "rows in the table already (--no-atomic): delete them before --restart" in again.stderr
    target.execute("TRUNCATE t")
    load_here(target, path, **options, restart=True)
    check_rows = target.rows("SELECT count(*), count(DISTINCT id) FROM t")
    assert check_rows == [(200_001, 200_001)]


def test_where_it_is_not_possible(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    engine_target.execute("INSERT INTO t VALUES (-1, 'old')")
    path = write(tmp_path / "in.csv", "1,x\n")
    run = load_here(engine_target, path, commit_every=10, check=2)
    assert "--commit-every" in run.stderr
    assert "--no-atomic" in run.stderr
    run = load_here(engine_target, path, commit_every=10, no_atomic=True, no_ledger=True, check=2)
    assert "ledger" in run.stderr
    assert engine_target.count("t") == 1


def test_the_first_record_with_a_key_is_stored(engine_target: Target, tmp_path: Path) -> None:
    """Whatever the transactions are, keys judge in the order in which the files are named."""
    (tmp_path / "1.csv.gz").write_bytes(gzip.compress(b"1,packed\n"))
    write(tmp_path / "2.csv", "1,plain\n2,first\n3,first\n4,first\n")
    write(tmp_path / "3.csv", "4,second\n3,second\n2,second\n")
    options = {"header": "no", "on_error": "skip", "max_rejects": 9, "rejects": tmp_path / "bad", "no_atomic": True}
    sources = [tmp_path / name for name in ("1.csv.gz", "2.csv", "3.csv")]
    for given, expected in (
        ({}, [(1, "packed"), (2, "first"), (3, "first"), (4, "first")]),
        ({"commit_every": 2}, [(1, "plain"), (2, "first"), (3, "first"), (4, "first")]),
    ):
        engine_target.execute("CREATE TABLE t (n integer PRIMARY KEY, c varchar)")
        load_here(engine_target, *sources[len(given) :], jobs=2, check=3, **given, **options)
        assert engine_target.sorted_rows("t") == expected
        engine_target.execute("DROP TABLE t")
