"""Tables that publish together while the server fails under them: all of them appear once, or none does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tipple
from big import TABLE, BigFile
from command import start_tipple
from servers.postgres import PostgresServer
from targets import PostgresTarget, write
from tipple.engines.postgresql import indexes, together
from tipple.engines.postgresql.job import JobOwner, OwnedJob
from tipple.run.job import _TableRun

NAMES = ("t", "u", "small")


@pytest.fixture
def target(fresh_server: Callable[..., PostgresServer]) -> Iterator[PostgresTarget]:
    found = PostgresTarget(fresh_server(settings={"fsync": "on"}))
    yield found
    found.close()


def make_job(target: PostgresTarget, tmp_path: Path, big_file: BigFile) -> Path:
    for name in ("t", "u"):
        target.execute(TABLE.replace("TABLE t", f"TABLE {name}"))
        # Built while the others still load; a run that is resumed must find it.
        target.execute(f"CREATE INDEX {name}_day ON {name} (day)")
    target.execute("CREATE TABLE small (a integer)")
    write(tmp_path / "small.csv", "1\n2\n")
    return write(
        tmp_path / "job.toml",
        f"publish='together'\n[defaults]\ninto='{target.url}'\n[tables.t]\nsources='{big_file.path}'\n"
        f"[tables.u]\nsources='{big_file.path}'\n[tables.small]\nsources='${{here}}/small.csv'\n",
    )


def check(target: PostgresTarget, big_file: BigFile) -> None:
    assert big_file.held_by(target, "t") == big_file.expected
    assert big_file.held_by(target, "u") == big_file.expected
    assert target.count("small") == 2
    assert target.leftovers(*NAMES) == set()
    indexes = target.rows("SELECT indexname FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1")
    assert indexes == [("t_day",), ("u_day",)]


@pytest.mark.parametrize("how", ["sessions", "crash"])
def test_the_server_fails_while_tables_wait(
    target: PostgresTarget, tmp_path: Path, big_file: BigFile, how: str
) -> None:
    """Sessions of tables that are staged are lost, or the server crashes: the run goes on and publishes all."""
    job = make_job(target, tmp_path, big_file)
    failed = threading.Event()

    def fail(snapshot: Mapping[str, Any]) -> None:
        waiting = [table for table in snapshot["tables"] if table["phase"] == "publish together"]
        loading = [table for table in snapshot["tables"] if table["phase"] == "load" and table["rows"] > 0]
        if waiting and loading and not failed.is_set():
            failed.set()
            if how == "crash":
                target.server.crash()
                target.server.start()
            else:
                target.server.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    f"WHERE datname = '{target.database}' AND application_name LIKE 'tipple%'"
                )

    report = tipple.run(job, jobs=1, progress=fail)
    assert failed.is_set(), "no table waited for another"
    assert {table.status for table in report.tables} == {"loaded"}
    check(target, big_file)


def kill(target: PostgresTarget, connection: psycopg.Connection[Any]) -> None:
    target.server.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid}, 5000)")


@pytest.mark.parametrize("when", ["build", "analyze"])
@pytest.mark.parametrize("how", ["session", "crash"])
def test_a_load_is_cut_off_behind_its_last_row(
    target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, how: str
) -> None:
    """It goes on where it was, as one that publishes by itself does, and the others wait for it."""
    for name in ("a", "b"):
        target.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY)")
        write(tmp_path / f"{name}.csv", "1\n2\n")
    job = write(
        tmp_path / "job.toml",
        f"publish='together'\n[defaults]\ninto='{target.url}'\nheader='no'\nmode='replace'\n"
        "[tables.a]\nsources='${here}/a.csv'\n[tables.b]\nsources='${here}/b.csv'\n",
    )
    carry_out, cut_off = getattr(indexes, when), threading.Lock()
    is_wanted, is_back = threading.Event(), threading.Event()

    def lose(runner: Any, connection: psycopg.Connection[Any], *others: Any) -> None:
        # Of two that come here at once it is one.
        if cut_off.acquire(blocking=False):
            if how == "crash":
                is_wanted.set()
                assert is_back.wait(60)
            else:
                kill(target, connection)
        carry_out(runner, connection, *others)

    def crash(snapshot: Mapping[str, Any]) -> None:
        # A server ends with the thread that has started it.
        if is_wanted.is_set() and not is_back.is_set():
            target.server.crash()
            target.server.start()
            is_back.set()

    monkeypatch.setattr(indexes, when, lose)
    report = tipple.run(job, progress=crash)
    assert cut_off.locked()
    assert {table.status for table in report.tables} == {"loaded"}
    assert (target.count("a"), target.count("b")) == (2, 2)
    assert any("the load went on where it was" in note for table in report.reports for note in table.notes)
    assert target.leftovers("a", "b") == set()


def test_the_publish_of_all_is_cut_off_again_and_again(
    target: PostgresTarget, tmp_path: Path, big_file: BigFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it, while it is made sure that all sessions are there, and at last between COMMIT and its answer."""
    job = make_job(target, tmp_path, big_file)
    publish, ensure, lost = together._publish, JobOwner.ensure_connection, list[str]()

    def lose(staged: Sequence[together.Staged], *others: Any, **named: Any) -> list[together.Staged]:
        connection = staged[0].publish.connection
        if lost.count("publish") < 2:
            lost.append("publish")
            kill(target, connection)
        found = publish(staged, *others, **named)
        lost.append("answer")
        kill(target, connection)
        connection.execute("SELECT 1")
        return found

    def lose_there(owner: JobOwner, owned: OwnedJob) -> None:
        ensure(owner, owned)
        if "publish" in lost and "session" not in lost:
            lost.append("session")
            kill(target, owner.connection)
            owner.connection.execute("SELECT 1")

    monkeypatch.setattr(together, "_publish", lose)
    monkeypatch.setattr(JobOwner, "ensure_connection", lose_there)
    report = tipple.run(job)
    assert lost == ["publish", "session", "publish", "answer"]
    assert {table.status for table in report.tables} == {"loaded"}
    check(target, big_file)


def test_an_index_comes_while_tables_wait(target: PostgresTarget, tmp_path: Path, big_file: BigFile) -> None:
    """Staged partitions get it too, and all tables are still published at once."""
    target.execute(TABLE)
    target.execute(
        "CREATE TABLE p (a integer) PARTITION BY RANGE (a); CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (9);"
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (9) TO (99)"
    )
    write(tmp_path / "p.csv", "1\n20\n")
    # The small one first, so that it waits for the large one.
    job = write(
        tmp_path / "job.toml",
        f"publish='together'\n[defaults]\ninto='{target.url}'\n[tables.p]\nsources='${{here}}/p.csv'\n"
        f"[tables.t]\nsources='{big_file.path}'\nafter='p'\n",
    )
    made = threading.Event()

    def make_index(snapshot: Mapping[str, Any]) -> None:
        phases = {table["table"]: table["phase"] for table in snapshot["tables"]}
        if phases.get("p") == "publish together" and phases.get("t") == "load" and not made.is_set():
            made.set()
            target.execute("CREATE INDEX p_a ON p (a)")

    report = tipple.run(job, jobs=1, progress=make_index)
    assert made.is_set(), "the partitions did not wait"
    assert {table.status for table in report.tables} == {"loaded"}
    assert (target.count("p1"), target.count("p2"), target.count("t")) == (1, 1, big_file.rows)
    indexed = target.value("SELECT count(*) FROM pg_index WHERE indrelid IN ('p1'::regclass, 'p2'::regclass)")
    assert indexed == 2
    assert target.leftovers("t", "p", "p1", "p2") == set()


def test_readers_see_all_or_nothing(target: PostgresTarget, tmp_path: Path, big_file: BigFile) -> None:
    """Killed in the middle, then run to its end; a reader that looks all the time never sees a part.

    Nor does it come to grief: it takes its locks in another order than the publishing transaction.
    """
    job = make_job(target, tmp_path, big_file)
    seen: set[tuple[int, ...]] = set()
    ended = threading.Event()

    def look() -> None:
        with psycopg.connect(target.url, autocommit=True) as reader:
            while not ended.is_set():
                row = reader.execute(
                    "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u), (SELECT count(*) FROM small)"
                ).fetchone()
                assert row is not None
                seen.add(row)
                time.sleep(0.02)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        command = start_tipple("run", job, "--progress", "none")
        time.sleep(1.2)
        command.process.kill()
        command.wait()
        tipple.run(job)
    finally:
        ended.set()
        thread.join()
    assert seen <= {(0, 0, 0), (big_file.rows, big_file.rows, 2)}
    check(target, big_file)


def _run_to_its_end(job: Path) -> tipple.JobReport:
    try:
        return tipple.run(job)
    except tipple.JobFailed as error:
        return error.report


@pytest.mark.parametrize(("seconds", "status"), [(30, "loaded"), (0, "failed")])
def test_the_server_restarts_between_two_tables(
    target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, status: str
) -> None:
    """It is waited for, as long as in the midst of a table."""
    target.execute("CREATE TABLE a (n integer); CREATE TABLE b (n integer)")
    job = write(
        tmp_path / "job.toml",
        f"[defaults]\ninto='{target.url}'\nsources='${{here}}/in.csv'\nretry-for={seconds}\n"
        "[tables.a]\n[tables.b]\nafter='a'\n",
    )
    write(tmp_path / "in.csv", "1\n2\n")
    start, stopped = _TableRun.start, threading.Event()

    def without_a_server(table: _TableRun, streams: int) -> None:
        if table.entry.name == "b":
            target.server.stop("fast")
            stopped.set()
        start(table, streams)

    with monkeypatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(_TableRun, "start", without_a_server)
        run = pool.submit(_run_to_its_end, job)
        stopped.wait()
        time.sleep(2)
        # It ends with the thread that has started it.
        target.server.start()
        report = run.result()
    assert [table.status for table in report.tables] == ["loaded", status], report.tables[1].error
    assert (target.count("a"), target.count("b")) == (2, 2 if status == "loaded" else 0)
