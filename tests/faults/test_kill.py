"""SIGKILL of the client at random moments: the next run ends in the rows of an undisturbed load.

Eight rounds for each engine in the normal run, 150 with TIPPLE_LONG=1.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from big import BigFile
from command import Command, run_tipple, start_tipple
from conftest import version_parameter
from faults.oracle import LONG, OLD_ROWS, Disturbed, duckdb_target, frozen, moments, record_count, wait_for
from loading import load, load_words
from servers.postgres import PostgresServer
from targets import PostgresTarget, Target

ROUNDS = 150 if LONG else 8


def kill_after(command: Command, seconds: float) -> bool:
    """Kill the client at that moment; False where it had ended by then."""
    time.sleep(seconds)
    running = command.running
    command.signal(signal.SIGKILL)
    command.wait()
    return running


def report(engine: str, rounds: int, killed: int, resumed: int) -> None:
    record_count(
        f"SIGKILL of the client, {engine}: {rounds} rounds, {killed} while it ran, "
        f"{resumed} slices taken over by later runs; each time the rows of an undisturbed load"
    )


@pytest.mark.timeout(7200)
def test_client_killed_duckdb(tmp_path: Path, big_file: BigFile, duckdb_seconds: float) -> None:
    killed = 0
    for number, moment in enumerate(moments(1, ROUNDS, duckdb_seconds)):
        target = duckdb_target(tmp_path, f"round{number}")
        job = Disturbed(target, big_file, old_rows=OLD_ROWS * (number % 2))
        killed += kill_after(job.start(), moment)
        job.finish()
        target.path.unlink()
    report("DuckDB", ROUNDS, killed, 0)
    assert killed > 0


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "version", [version_parameter(18), *([version_parameter(v) for v in (15, 16)] if LONG else [])]
)
@pytest.mark.parametrize("mode", ["append"])
def test_client_killed_postgresql(
    server_of: Callable[[int], PostgresServer],
    big_file: BigFile,
    postgres_seconds: float,
    version: int,
    mode: str,
) -> None:
    target = PostgresTarget(server_of(version))
    killed = resumed = 0
    try:
        for number, moment in enumerate(moments(2, ROUNDS, postgres_seconds)):
            job = Disturbed(target, big_file, table=f"t{number}", mode=mode, old_rows=OLD_ROWS * (number % 2))
            killed += kill_after(job.start(), moment)
            runs = job.finish()
            resumed += sum(run.summary["slices_resumed"] for run in runs if run.summary)
            job.drop()
    finally:
        target.close()
    report(f"PostgreSQL {version}", ROUNDS, killed, resumed)
    assert killed > 0


@pytest.mark.timeout(7200)
def test_client_killed_again_and_again(
    server_of: Callable[[int], PostgresServer], big_file: BigFile, postgres_seconds: float, old_rows: int
) -> None:
    """One job that is killed in every run but the last."""
    target = PostgresTarget(server_of(18))
    try:
        job = Disturbed(target, big_file, old_rows=old_rows)
        for moment in moments(3, 30 if LONG else 6, postgres_seconds * 0.9):
            kill_after(job.start(), moment)
            job.visible()
        job.finish()
    finally:
        target.close()


@pytest.mark.parametrize("mode", ["replace", "create"])
def test_client_killed_in_other_modes(
    engine_target: Target, big_file: BigFile, seconds: float, tmp_path: Path, mode: str
) -> None:
    schema = tmp_path / "schema.sql"
    for number, moment in enumerate(moments(4, 30 if LONG else 2, seconds)):
        table = f"t{number}"
        schema.write_text(f"CREATE TABLE {table} (id bigint NOT NULL, amount numeric(12,2), day date, note varchar);")
        job = Disturbed(engine_target, big_file, table=table, mode=mode, schema=schema)
        if mode == "create":
            job.drop()
        kill_after(job.start(), moment)
        if mode == "create":
            there = any(name.endswith(f".{table}") for name in engine_target.tables())
            assert not there or engine_target.count(table) == big_file.rows
        else:
            assert engine_target.count(table) in (3, big_file.rows)
        run = job.run()
        assert run.exit_code == 0, str(run)
        assert big_file.held_by(engine_target, table) == big_file.expected
        job.check_tidy()
        job.drop()


def test_clean_after_a_kill(engine_target: Target, big_file: BigFile, seconds: float, old_rows: int) -> None:
    """`tipple jobs clean` tidies what a killed run left, and the job can be run from the start."""
    for number, part in enumerate((0.7, 0.6, 0.5, 0.4, 0.2, 0.0)):
        job = Disturbed(engine_target, big_file, table=f"t{number}", old_rows=old_rows)
        kill_after(job.start(), seconds * part)
        if not job.visible():
            break
        job.drop()
    assert not job.visible()
    run_tipple("jobs", engine_target.url, "list")
    run_tipple("jobs", engine_target.url, "clean")
    assert engine_target.leftovers(job.table) == set()
    assert job.visible() == 0
    job.finish()


START_SECONDS = 0.3
"""Of an undisturbed run, before there is anything to interrupt."""


def has_begun(command: Command) -> bool:
    """Whether Tipple's own code is at work."""
    return not command.running or "tipple/_core" in Path(f"/proc/{command.pid}/maps").read_text()


@pytest.mark.client_only
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_interrupted(
    engine_target: Target, big_file: BigFile, seconds: float, number: signal.Signals, part: float
) -> None:
    """Ctrl-C: exit status 130 within seconds, nothing visible, and the next run goes on."""
    job = Disturbed(engine_target, big_file, old_rows=0 if part == 0.6 else OLD_ROWS)
    command = job.start()
    # While Python itself is starting, Ctrl-C is Python's.
    assert wait_for(lambda: has_begun(command))
    time.sleep(max(seconds - START_SECONDS, 0) * part)
    running = command.running
    command.signal(number)
    started = time.monotonic()
    run = command.wait()
    if running and run.exit_code != 0:
        assert time.monotonic() - started < 5
        assert "Traceback" not in run.stderr
        # Whoever interrupts after the publishing COMMIT, while the process ends, finds the rows in.
        late = job.visible() == big_file.rows
        expected = {130} if number == signal.SIGINT else {130, 143, -signal.SIGTERM}
        assert run.exit_code in (expected | {-number} if late else expected), str(run)
        if number == signal.SIGINT and not late:
            assert "again" in run.stderr or "resume" in run.stderr, "the way to go on is not said"
    job.finish()


def test_interrupted_twice(engine_target: Target, big_file: BigFile, seconds: float) -> None:
    """The impatient press Ctrl-C many times."""
    job = Disturbed(engine_target, big_file)
    command = job.start()
    time.sleep(seconds * 0.5)
    for _ in range(5):
        if command.running:
            command.signal(signal.SIGINT)
        time.sleep(0.05)
    run = command.wait()
    assert run.exit_code in (0, 130, -signal.SIGINT), str(run)
    job.finish()


# ---- two at once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 4])
def test_the_same_job_started_at_once(engine_target: Target, big_file: BigFile, count: int) -> None:
    """One wins, the others say so; whoever comes later finds it already loaded."""
    job = Disturbed(engine_target, big_file, old_rows=0 if count == 2 else OLD_ROWS)
    commands = [job.start() for _ in range(count)]
    runs = [command.wait() for command in commands]
    assert any(run.exit_code == 0 for run in runs), "\n".join(map(str, runs))
    for run in runs:
        assert run.exit_code in (0, 1, 2), str(run)
        assert "Traceback" not in run.stderr
        if run.exit_code != 0:
            assert run.stderr.strip()
    assert sum(run.summary["status"] == "loaded" for run in runs if run.summary) == 1
    assert job.visible() == big_file.rows
    job.finish()


def test_two_jobs_into_one_table(engine_target: Target, big_file: BigFile, tmp_path: Path) -> None:
    """Other files into the same table at the same time: each is in once, at the latest after another run."""
    job = Disturbed(engine_target, big_file)
    other = tmp_path / "other.csv"
    other.write_text("".join(f"{-i},1.00,,other\n" for i in range(100, 200_100)))
    command = job.start()
    second = load(engine_target, other, check=False)
    first = command.wait()
    assert 0 in (first.exit_code, second.exit_code), f"{first}\n{second}"
    for run in (first, second):
        assert run.exit_code in (0, 1, 2), str(run)
        assert "Traceback" not in run.stderr
    assert job.run().exit_code == 0
    assert load(engine_target, other).exit_code == 0
    assert engine_target.value("SELECT count(*) FROM t WHERE note = 'other'") == 200_000
    assert engine_target.count("t") == 3 + 200_000 + big_file.rows
    engine_target.execute("DELETE FROM t WHERE note = 'other'")
    job.check_rows()
    job.check_tidy()


def test_two_replacements_at_once(engine_target: Target, tmp_path: Path) -> None:
    """The table ends with the rows of one of them, never with a mixture."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    files = []
    for name in "xy":
        files.append(tmp_path / f"{name}.csv")
        files[-1].write_text("".join(f"{i},{name}\n" for i in range(300_000)))
    commands = [
        start_tipple(*load_words(engine_target.url, (path,), "t", {"mode": "replace", "jobs": 2})) for path in files
    ]
    runs = [command.wait() for command in commands]
    assert any(run.exit_code == 0 for run in runs), "\n".join(map(str, runs))
    ((count, kinds),) = engine_target.rows("SELECT count(*), count(DISTINCT b) FROM t")
    assert (count, kinds) == (300_000, 1)
    assert engine_target.leftovers("t") == set()


def test_a_frozen_run_that_wakes_up(
    postgres_target: PostgresTarget, big_file: BigFile, postgres_seconds: float, old_rows: int
) -> None:
    """A run that was stopped for a while and taken over must not add rows when it goes on."""
    job = Disturbed(postgres_target, big_file, old_rows=old_rows)
    command = job.start()
    try:
        with frozen(command, postgres_seconds * 0.5):
            second = job.run()
            assert second.exit_code in (0, 1, 2), str(second)
    finally:
        first = command.wait()
    assert first.exit_code in (0, 1), str(first)
    assert 0 in (first.exit_code, second.exit_code)
    assert job.visible() == big_file.rows
    job.finish()
