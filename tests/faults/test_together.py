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
