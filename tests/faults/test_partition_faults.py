"""Partitioned loading under faults: the partitions of an undisturbed load, or the ones that were there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from big import BigFile
from command import run_tipple, start_tipple
from conformance.test_partitions import check_tidy, per_partition
from faults.oracle import LONG, assert_no_sessions, moments, record_count, wait_for
from faults.test_kill import kill_after
from loading import load_here as load
from loading import load_words
from servers.postgres import PostgresServer
from targets import PostgresTarget, write

TABLE = """
CREATE TABLE t (id bigint NOT NULL, amount numeric(12,2), day date, note varchar, PRIMARY KEY (id))
    PARTITION BY RANGE (id);
CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (MINVALUE) TO (90000);
CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (90000) TO (180000);
CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (180000) TO (MAXVALUE);
"""
SMALL = """
CREATE TABLE t (a integer NOT NULL, b text) PARTITION BY RANGE (a);
CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10);
CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (10) TO (20);
"""


BLOCKED = "SELECT FROM pg_locks WHERE NOT granted AND mode IN ('ShareRowExclusiveLock', 'AccessExclusiveLock')"
"""Somebody waits for the lock with which publishing begins."""


def check_rows(target: PostgresTarget, big: BigFile) -> None:
    assert big.held_by(target, "t") == big.expected
    for name, low, high in (("t0", 0, 90_000), ("t1", 90_000, 180_000), ("t2", 180_000, 10**12)):
        assert target.value(f"SELECT count(*) FROM {name} WHERE id < {low} OR id >= {high}") == 0
    assert (
        target.value("SELECT count(*) FROM pg_index WHERE indrelid IN ('t0'::regclass, 't1'::regclass, 't2'::regclass)")
        == 3
    )


@pytest.mark.timeout(3600)
def test_client_killed(server_of: Callable[[int], PostgresServer], big_file: BigFile) -> None:
    """At random moments, in the load as in publish; the next run ends it."""
    target = PostgresTarget(server_of(18))
    killed = 0
    try:
        target.execute(TABLE)
        seconds = load(target, big_file.path, jobs=2).seconds
        check_rows(target, big_file)
        for moment in moments(11, 60 if LONG else 3, seconds):
            # A table that was made anew by the same name is the same one to the ledger.
            target.execute("DELETE FROM tipple.job; DROP TABLE t; " + TABLE)
            command = start_tipple(*load_words(target.url, (big_file.path,), "t", {"jobs": 2}))
            killed += kill_after(command, moment)
            assert target.count("t") in (0, big_file.rows)
            load(target, big_file.path, jobs=2)
            check_rows(target, big_file)
            check_tidy(target)
            assert_no_sessions(target)
    finally:
        target.close()
    record_count(f"SIGKILL of a partitioned load: {killed} times; each time the rows of an undisturbed one")
    assert killed


def test_killed_when_all_is_ready(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Hidden partitions are detached already; the next run finds them, and `jobs clean` drops them."""
    postgres_target.execute(SMALL)
    path = write(tmp_path / "in.csv", "1,x\n11,y\n")
    for clean in (False, True):
        other = psycopg.connect(postgres_target.url)
        other.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE")
        command = start_tipple(*load_words(postgres_target.url, (path,), "t", {"restart": clean}))
        assert wait_for(lambda: postgres_target.rows(BLOCKED))
        kill_after(command, 0)
        other.rollback()
        other.close()
        if clean:
            run_tipple("jobs", postgres_target.url, "clean")
            check_tidy(postgres_target)
        # A restart that was killed is not the job of its command yet: the plain one has loaded this already.
        run = load(postgres_target, path, restart=clean)
        assert run.summary["slices_resumed"] == (0 if clean else 1)
        assert per_partition(postgres_target) == {"t0": 1 + clean, "t1": 1 + clean}
        check_tidy(postgres_target)


MEANWHILE: dict[str, tuple[str, int, str]] = {
    # what somebody does while the load runs: statements, exit status, word in notes or message
    "another partition with these keys": (
        "DROP TABLE t1; CREATE TABLE tx PARTITION OF t FOR VALUES FROM (5000) TO (6000); "
        "CREATE TABLE ty PARTITION OF t FOR VALUES FROM (10) TO (5000)", 0, "other partitions meanwhile"),
    "the partition is gone": ("DROP TABLE t1", 0, "1 attached"),
    "rows came": ("INSERT INTO t VALUES (12, 'theirs')", 0, ""),
    "an index came": ("CREATE INDEX late ON t (b)", 0, ""),
    "a column came": ("ALTER TABLE t ADD c integer", 1, "column c"),
    "a column changed": ("ALTER TABLE t ALTER b TYPE varchar(50)", 1, "column b"),
    "the table is another one": ("DROP TABLE t; CREATE TABLE t (a integer, b text)", 1, "not a partitioned table"),
}  # fmt: skip


@pytest.mark.parametrize("what", MEANWHILE)
def test_meanwhile(postgres_target: PostgresTarget, tmp_path: Path, what: str) -> None:
    """DDL between the last slice and publish."""
    statements, status, word = MEANWHILE[what]
    postgres_target.execute(SMALL)
    path = write(tmp_path / "in.csv", "".join(f"{n},{'x' * 40}\n" for n in range(20)) * 20_000)
    command = start_tipple(*load_words(postgres_target.url, (path,), "t", {"jobs": 1}))
    started = "SELECT FROM pg_stat_progress_copy"
    assert wait_for(lambda: postgres_target.server.rows(started)), "the load never began"
    postgres_target.execute(statements)
    run = command.wait()
    assert run.exit_code == status, str(run)
    if status:
        assert word in run.stderr
        assert "nothing was published" in run.stderr
        assert postgres_target.count("t") == 0
    else:
        assert word in " ".join(run.summary["notes"])
        assert postgres_target.count("t") == 400_000 + ("theirs" in statements)
        if "late" in statements:
            assert postgres_target.value("SELECT count(*) FROM pg_indexes WHERE tablename IN ('t0', 't1')") == 2
    check_tidy(postgres_target)


def test_an_index_that_comes_at_the_last_moment(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Publishing waits for a lock while somebody who holds it creates an index: it is built before the next try."""
    postgres_target.execute(SMALL)
    path = write(tmp_path / "in.csv", "1,x\n11,y\n")
    with psycopg.connect(postgres_target.url) as other:
        other.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE")
        command = start_tipple(*load_words(postgres_target.url, (path,), "t", {}))
        assert wait_for(lambda: postgres_target.rows(BLOCKED))
        other.execute("CREATE INDEX late ON t (b)")
        other.commit()
    run = command.wait()
    assert run.exit_code == 0, str(run)
    assert "meanwhile" in " ".join(run.summary["notes"])
    assert postgres_target.value("SELECT count(*) FROM pg_indexes WHERE tablename IN ('t0', 't1')") == 2
    check_tidy(postgres_target)


def test_a_default_partition_in_the_way(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Its scan is seen coming and said; rows of a new partition in it end the load, and nothing is lost."""
    postgres_target.execute(SMALL)
    postgres_target.execute("CREATE TABLE t_rest PARTITION OF t DEFAULT; INSERT INTO t VALUES (25, 'old'), (99, 'old')")
    path = write(tmp_path / "in.csv", "1,x\n11,x\n31,x\n32,x\n")
    asked = {"partition_by": "range(a, bounds=[20, 30, 40])"}
    run = load(postgres_target, path, check=1, **asked)
    assert "t_rest" in run.stderr
    assert postgres_target.count("t") == 2
    check_tidy(postgres_target)
    run = load(postgres_target, path, partition_by="range(a, bounds=[30, 40])", check=1)
    postgres_target.execute("DELETE FROM t WHERE a = 25")
    run = load(postgres_target, path, partition_by="range(a, bounds=[30, 40, 90])", check=1)
    assert "default partition" in run.stderr
    assert postgres_target.rows("SELECT * FROM t") == [(99, "old")]
    check_tidy(postgres_target)
    # Where no new partition wants its rows, it is scanned once, and gets rows itself.
    run = load(postgres_target, path)
    assert "scan" in " ".join(run.summary["notes"])
    assert per_partition(postgres_target) == {"t0": 1, "t1": 1, "t_rest": 3}
    check_tidy(postgres_target)


def test_an_old_snapshot_sees_the_old_rows(
    postgres_target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--mode replace under a transaction that goes on reading what was there."""
    postgres_target.execute(SMALL)
    postgres_target.execute("INSERT INTO t VALUES (1, 'old'), (11, 'old'); CREATE TABLE any_table (a integer)")
    path = write(tmp_path / "in.csv", "2,new\n")
    monkeypatch.setattr("tipple.engines.postgresql.publish.SNAPSHOT_WAIT_SECONDS", 1)
    with psycopg.connect(postgres_target.url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT * FROM any_table")
        run = load(postgres_target, path, mode="replace")
        assert "a transaction began before" in " ".join(run.summary["notes"])
        big = write(tmp_path / "big.csv", "".join(f"{n % 20},{'x' * 40}\n" for n in range(20_000)))
        run = load(postgres_target, big)
        assert "filled by INSERT" in " ".join(run.summary["notes"])
        assert sorted(reader.execute("SELECT a FROM t").fetchall()) == [(1,), (11,)]
    assert postgres_target.rows("SELECT * FROM t WHERE b NOT LIKE 'x%'") == [(2, "new")]
    assert postgres_target.count("t") == 20_001
    check_tidy(postgres_target)
