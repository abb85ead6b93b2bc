"""Tables that publish together while the server fails under them: all of them appear once, or none does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tipple
from big import TABLE, BigFile
from command import start_tipple
from servers.postgres import PostgresServer
from targets import PostgresTarget, write

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
