"""`tipple.load`: the verb of the command line, with the same names, from Python."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tipple
from big import TABLE, BigFile
from command import environment
from targets import DuckdbTarget, Target, write


def test_load(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    report = tipple.load([path], into=engine_target.url, table="t", jobs=2, verify="checksum")
    assert report.rows == 2
    assert report.status == "loaded"
    assert report.verify is not None
    assert report.verify.ok
    assert engine_target.count("t") == 2
    again = tipple.load(str(path), into=engine_target.url, table="t")
    assert again.status == "already loaded"
    assert engine_target.count("t") == 2


def test_names_are_those_of_the_command_line() -> None:
    parameters = inspect.signature(tipple.load).parameters
    for name in (
        "sources", "into", "table", "schema", "format", "delimiter", "quote", "escape", "header", "null",
        "encoding", "columns", "mode", "jobs", "write_path", "atomic", "verify", "resume", "restart",
        "dry_run",
    ):  # fmt: skip
        assert name in parameters, name
    assert tipple.load.__doc__


def test_errors_are_exceptions(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    bad = write(tmp_path / "bad.csv", "1,x\nz,y\n")
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load(bad, into=engine_target.url, table="t")
    error = caught.value
    assert (error.record_number, error.byte_offset, error.column, error.text) == (2, 4, "a", "z")
    assert error.file.endswith("bad.csv")
    with pytest.raises(tipple.UsageError):
        tipple.load(tmp_path / "missing.csv", into=engine_target.url, table="t")
    with pytest.raises(tipple.TippleError):
        tipple.load(bad, into=engine_target.url, table="nope")
    assert engine_target.count("t") == 0


SCRIPT = """
import sys, tipple
print("ready", flush=True)
try:
    tipple.load(sys.argv[1], into=sys.argv[2], table="t", jobs=2)
except KeyboardInterrupt:
    print("interrupted")
except tipple.Interrupted:
    print("interrupted")
"""


def test_ctrl_c(engine_target: Target, big_file: BigFile, tmp_path: Path) -> None:
    """Ctrl-C ends the call within seconds, the interpreter lives on, and the load can be resumed."""
    engine_target.execute(TABLE)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(big_file.path), engine_target.url],
        stdout=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.25)
    os.kill(process.pid, signal.SIGINT)
    started = time.monotonic()
    out, _ = process.communicate(timeout=30)
    assert time.monotonic() - started < 5
    if out.strip() == b"interrupted":
        # Ctrl-C behind the publishing COMMIT, while the report is made, comes too late.
        assert engine_target.count("t") in (0, big_file.rows)
    assert tipple.load(big_file.path, into=engine_target.url, table="t").rows == big_file.rows
    assert big_file.held_by(engine_target) == big_file.expected


def test_ctrl_c_is_the_same_error_in_every_phase(engine_target: Target, tmp_path: Path) -> None:
    """DuckDB has a word of its own for it, in the middle of a statement."""
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    for phase in ("prepare", "split", "load", "verify", "publish"):
        for how in (KeyboardInterrupt(), RuntimeError("Query interrupted")):

            def interrupt(
                snapshot: Mapping[str, Any], phase: str = phase, how: KeyboardInterrupt | RuntimeError = how
            ) -> None:
                if snapshot["phase"] == phase:
                    raise how

            with pytest.raises(tipple.Interrupted) as caught:
                tipple.load(path, into=engine_target.url, table="t", progress=interrupt)
            assert "run the same command again" in str(caught.value.hint)
    assert tipple.load(path, into=engine_target.url, table="t").rows == 1
    assert engine_target.count("t") == 1


def test_ctrl_c_while_a_job_is_planned(tmp_path: Path) -> None:
    write(tmp_path / "in.csv", "1\n")
    schema = write(tmp_path / "s.sql", "CREATE TABLE t (a integer);")
    job = f"[tables.t]\nsources = '${{here}}/in.csv'\nschema = '{schema}'\ninto = 'duckdb:///{tmp_path}/x.duckdb'\n"

    def interrupt(_snapshot: Mapping[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(tipple.Interrupted):
        tipple.run(write(tmp_path / "job.toml", job), progress=interrupt)


def test_memory_database(tmp_path: Path) -> None:
    """A database in memory ends with the load; it can be tried nevertheless."""
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (a integer);")
    path = write(tmp_path / "in.csv", "1\n")
    report = tipple.load(path, into="duckdb:///:memory:", table="t", schema=str(schema), mode="create")
    assert report.rows == 1


def test_threads(tmp_path: Path) -> None:
    """Two loads into two targets at once from two threads of one interpreter."""
    targets = [DuckdbTarget(tmp_path / f"{i}.duckdb") for i in range(2)]
    path = write(tmp_path / "in.csv", "".join(f"{i}\n" for i in range(100_000)))
    for target in targets:
        target.execute("CREATE TABLE t (a integer)")
    threads = [
        threading.Thread(target=tipple.load, args=(path,), kwargs={"into": target.url, "table": "t"})
        for target in targets
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [target.count("t") for target in targets] == [100_000, 100_000]


def test_threads_into_one_new_database(tmp_path: Path) -> None:
    """The first loads into a DuckDB file all find it without a ledger; those into one table exclude each other."""
    names = [f"t{i}" for i in range(6)] + ["t0"]
    schema = write(tmp_path / "s.sql", "".join(f"CREATE TABLE {name} (a integer);" for name in names[:6]))
    url = f"duckdb:///{tmp_path}/x.duckdb"
    ready = threading.Barrier(len(names))
    failures: list[BaseException] = []

    def load(number: int) -> None:
        path = write(tmp_path / f"{number}.csv", "1\n2\n")
        ready.wait()
        try:
            tipple.load(path, into=url, table=names[number], schema=schema)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=load, args=(number,)) for number in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) <= 1, failures
    for failure in failures:
        assert isinstance(failure, tipple.TippleError)
        assert "run this one again" in str(failure.hint), failure
    counts = {record.table: record.rows for record in tipple.list_jobs(url)}
    assert set(counts) == {f"main.{name}" for name in names}
    assert len(tipple.list_jobs(url)) == len(names) - len(failures)
