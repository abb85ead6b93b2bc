"""Loads of what is read from beginning to end, killed and resumed."""

from __future__ import annotations

import dataclasses
import gzip
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from big import TABLE, BigFile
from command import environment, run_tipple
from faults.oracle import LONG, OLD_ROWS, Disturbed, moments, record_count, wait_for
from faults.test_kill import kill_after
from loading import load_words
from servers.postgres import PostgresServer
from targets import PostgresTarget

ROUNDS = 40 if LONG else 3


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, big_file: BigFile) -> BigFile:
    """The big file, packed."""
    path = tmp_path_factory.mktemp("packed") / "big.csv.gz"
    path.write_bytes(gzip.compress(big_file.path.read_bytes(), 1))
    return dataclasses.replace(big_file, path=path)


@pytest.fixture
def target(server_of: Callable[[int], PostgresServer]) -> PostgresTarget:
    return PostgresTarget(server_of(18))


def test_client_killed(target: PostgresTarget, packed: BigFile, postgres_seconds: float) -> None:
    """The next run unpacks again and stores what the ledger does not have."""
    killed = resumed = 0
    for number, moment in enumerate(moments(11, ROUNDS, postgres_seconds)):
        job = Disturbed(target, packed, table=f"t{number}", old_rows=OLD_ROWS * (number % 2))
        killed += kill_after(job.start(), moment)
        runs = job.finish()
        resumed += sum(run.summary["slices_resumed"] for run in runs if run.summary)
        job.drop()
    target.close()
    record_count(f"SIGKILL of the client, a compressed file: {ROUNDS} rounds, {killed} while it ran, {resumed} resumed")


def test_slices_are_resumed(target: PostgresTarget, packed: BigFile) -> None:
    """Killed once the first slices are in: they are not stored again."""
    job = Disturbed(target, packed, old_rows=0)
    command = job.start()
    done = "SELECT count(*) FROM tipple.slice WHERE state = 'done'"
    ledger = "SELECT count(*) FROM pg_tables WHERE schemaname = 'tipple' AND tablename = 'slice'"
    assert wait_for(lambda: target.value(ledger) and target.value(done) >= 1)
    command.signal(signal.SIGKILL)
    command.wait()
    runs = job.finish()
    assert runs[-1].summary is not None
    assert runs[-1].summary["slices_resumed"] >= 1
    assert runs[-1].summary["slices"] == target.value(done)
    target.close()


def test_standard_input_is_given_up(target: PostgresTarget, big_file: BigFile) -> None:
    """After a kill the next run says that the job is gone, and loads what it is given."""
    target.execute(TABLE)
    words = [*load_words(target.url, ("-",), "t", {"format": "csv", "header": "no"})]
    command = [sys.executable, "-m", "tipple", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdin is not None
        process.stdin.write(big_file.path.read_bytes()[:20_000_000])
        process.stdin.flush()
        time.sleep(0.5)
        process.kill()
    data = big_file.path.read_bytes()
    run = subprocess.run(command, input=data, capture_output=True, timeout=120, env=environment(), check=False)
    assert run.returncode == 0, run.stderr
    assert "standard input, which cannot be read again: given up" in " ".join(run.stdout.decode().split())
    assert big_file.held_by(target) == big_file.expected
    assert target.leftovers("t") == set()
    assert "superseded" in run_tipple("jobs", target.url).stdout
    target.close()


def test_interrupted_while_standard_input_is_silent(target: PostgresTarget) -> None:
    """Ctrl-C ends a run whose input has not begun, and one whose input has stopped."""
    target.execute(TABLE)
    for head in (b"", b"1,2,,\n" * 100_000):
        command = [sys.executable, "-m", "tipple", *load_words(target.url, ("-",), "t", {"format": "csv"})]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
            assert process.stdin is not None
            process.stdin.write(head)
            process.stdin.flush()
            time.sleep(1.5)
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 130
        assert target.count("t") == 0
    target.close()
