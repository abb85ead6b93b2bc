"""Structures under faults: what is not logged is lost as it was said, and known to be lost; the rest goes on."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
import pytest

from big import TABLE, BigFile
from command import Command, run_tipple, start_tipple
from conformance.test_partitions import check_tidy
from conformance.test_structures import forms, is_in_order
from faults.oracle import LONG, record_count, wait_for
from faults.test_kill import kill_after
from loading import load, load_words
from servers.postgres import PostgresServer
from targets import PostgresTarget, write

SMALL = "CREATE TABLE t (a integer NOT NULL, b text)"
PARTITIONED = "range(a, bounds=[10])"


def states(target: PostgresTarget) -> list[str]:
    """What `tipple jobs` says of the jobs, newest first."""
    output = run_tipple("jobs", target.url).stdout
    words = ("published", "lost", "superseded")
    return [word for line in output.splitlines() for word in words if word in line.split()]


def test_a_crash_empties_a_memory_table_and_the_ledger_knows(
    fresh_server: Callable[..., PostgresServer], tmp_path: Path
) -> None:
    target = PostgresTarget(fresh_server())
    path = write(tmp_path / "in.csv", "1,x\n11,y\n")
    schema = write(tmp_path / "schema.sql", SMALL + ";")
    options = {"schema": schema, "structure": "memory", "partition_by": PARTITIONED}
    first = load(target, path, progress="plain", **options)
    assert "ALL ITS ROWS ARE LOST" in first.stderr
    target.server.restart()
    # A restart in order takes nothing.
    assert target.count("t") == 2
    assert load(target, path, **options).summary["status"] == "already loaded"
    assert states(target) == ["published"]
    target.server.crash()
    target.server.start()
    assert target.count("t") == 0
    assert states(target) == ["lost"]
    again = load(target, path, **options)
    assert again.summary["status"] == "loaded"
    assert "its rows are lost" in " ".join(again.summary["notes"])
    assert target.count("t") == 2
    assert states(target) == ["published", "superseded"]
    # Made durable by hand, the rows survive, and the ledger does not deny them.
    for table in ("t_min", "t_10"):
        target.execute(f"ALTER TABLE {table} SET LOGGED")
    target.server.crash()
    target.server.start()
    assert target.count("t") == 2
    assert states(target)[0] == "published"
    assert load(target, path, **options).summary["status"] == "already loaded"
    target.close()


def test_a_crash_when_all_is_ready(fresh_server: Callable[..., PostgresServer], tmp_path: Path) -> None:
    """Hidden partitions are detached already when the crash empties them: they are filled again."""
    target = PostgresTarget(fresh_server())
    target.execute(
        SMALL + " PARTITION BY RANGE (a); CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10); "
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (10) TO (20); CREATE TABLE t_rest PARTITION OF t DEFAULT"
    )
    path = write(tmp_path / "in.csv", "1,x\n11,y\n")
    blocked = "SELECT FROM pg_locks WHERE NOT granted AND mode IN ('ShareRowExclusiveLock', 'AccessExclusiveLock')"
    other = psycopg.connect(target.url)
    other.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE")
    command = start_tipple(*load_words(target.url, (path,), "t", {"structure": "memory"}))
    assert wait_for(lambda: target.rows(blocked))
    kill_after(command, 0)
    target.server.crash()
    other.close()
    target.server.start()
    run = load(target, path, structure="memory")
    assert "emptied" in " ".join(run.summary["notes"])
    assert sorted(target.rows("SELECT tableoid::regclass::text, a FROM t")) == [("t0", 1), ("t1", 11)]
    check_tidy(target)
    target.close()


def test_a_ledger_that_was_made_to_survive_what_its_rows_do_not(
    fresh_server: Callable[..., PostgresServer], tmp_path: Path
) -> None:
    """What tells of crashes by being emptied is made a logged table: what it says is not believed any more."""
    target = PostgresTarget(fresh_server())
    path, other = write(tmp_path / "in.csv", "1,x\n11,y\n"), write(tmp_path / "other.csv", "2,z\n")
    options = {"schema": write(tmp_path / "schema.sql", SMALL + ";"), "structure": "memory"}
    load(target, path, **options)
    assert "tipple.unlogged_job" not in run_tipple("doctor", target.url, check=False).stdout
    target.execute("ALTER TABLE tipple.unlogged_job SET LOGGED")
    target.server.crash()
    target.server.start()
    assert target.count("t") == 0
    for source in (path, other):
        run = load(target, source, check=1, **options)
        assert "tipple.unlogged_job has become a logged one" in run.stderr
    assert target.leftovers("t") == set()
    # A list is given all the same.
    assert states(target) == ["published"]
    assert (
        "broken  ledger: the ledger's table tipple.unlogged_job" in run_tipple("doctor", target.url, check=False).stdout
    )
    # The remedy, literally.
    for statement in re.findall(r"((?:ALTER|TRUNCATE)[^;]*);", run.stderr):
        target.execute(statement)
    for source in (path, other):
        assert load(target, source, **options).summary["status"] == "loaded"
    assert target.count("t") == 3
    target.close()


def test_rows_that_went_straight_into_an_unlogged_table(
    fresh_server: Callable[..., PostgresServer], tmp_path: Path
) -> None:
    """Without any --structure: a table that was unlogged before, with rows in it."""
    target = PostgresTarget(fresh_server())
    target.execute(SMALL.replace("TABLE", "UNLOGGED TABLE") + "; INSERT INTO t VALUES (0, 'old')")
    path = write(tmp_path / "in.csv", "1,x\n11,y\n")
    run = load(target, path, progress="plain")
    assert run.summary["strategy"] == "single"
    assert "ALL ITS ROWS ARE LOST" in run.stderr
    target.server.crash()
    target.server.start()
    assert load(target, path).summary["status"] == "loaded"
    assert target.count("t") == 2
    target.close()


def test_a_crash_before_rows_went_into_an_unlogged_table(
    fresh_server: Callable[..., PostgresServer], tmp_path: Path
) -> None:
    """Nothing of them was lost, for nothing was there."""
    target = PostgresTarget(fresh_server())
    target.execute(SMALL.replace("TABLE", "UNLOGGED TABLE") + "; INSERT INTO t VALUES (0, 'old')")
    path = write(tmp_path / "in.csv", "1,x\n11,y\n")
    other = psycopg.connect(target.url)
    other.execute("LOCK TABLE t IN SHARE MODE")
    command = start_tipple(*load_words(target.url, (path,), "t", {}))
    assert wait_for(lambda: target.rows("SELECT FROM pg_locks WHERE NOT granted"))
    kill_after(command, 0)
    target.server.crash()
    other.close()
    target.server.start()
    assert load(target, path).summary["status"] == "loaded"
    assert target.count("t") == 2
    target.close()


CONVERTING = "SET LOGGED", "_order", "CLUSTER", "brin"
"""What statements of a conversion hold, in their order."""

LOADING = "COPY"

PARTITIONS = ("t_min", "t_90000", "t_180000")
IN_PARTITIONS: dict[str, object] = {
    "structure": "sorted", "key": "id", "load_as": "memory", "partition_by": "range(id, bounds=[90000, 180000])",
}  # fmt: skip


def wait_for_statement(target: PostgresTarget, command: Command, word: str) -> None:
    query = (
        f"SELECT FROM pg_stat_activity WHERE query LIKE '%{word}%' AND application_name LIKE 'tipple %' "
        "AND state = 'active'"
    )
    assert wait_for(lambda: target.server.rows(query) or not command.running)


def check(target: PostgresTarget, big_file: BigFile, options: Mapping[str, object]) -> None:
    """The rows of an undisturbed load, once, in their structure."""
    assert big_file.held_by(target, "t") == big_file.expected
    assert forms(target) == {("u" if options["structure"] == "memory" else "p", "heap")}
    for table in PARTITIONS if "partition_by" in options else ("t",):
        assert options["structure"] != "sorted" or is_in_order(target, "id", table)
    check_tidy(target)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("word", "options"), [
    (LOADING, {"structure": "memory"}),
    (LOADING, IN_PARTITIONS),
    ("CLUSTER", {"structure": "sorted", "key": "id"}),
], ids=["memory", "loading", "sorting"])  # fmt: skip
def test_the_server_crashes(
    fresh_server: Callable[..., PostgresServer],
    big_file: BigFile,
    tmp_path: Path,
    word: str,
    options: dict[str, object],
) -> None:
    """While rows come in, and while they are converted."""
    target = PostgresTarget(fresh_server(settings={"fsync": "on", "wal_level": "minimal", "max_wal_senders": "0"}))
    given = {"schema": write(tmp_path / "schema.sql", TABLE + ";"), "jobs": 2, "retry_for": 60, **options}
    rounds = 5 if LONG else 1
    for _ in range(rounds):
        command = start_tipple(*load_words(target.url, (big_file.path,), "t", given))
        wait_for_statement(target, command, word)
        target.server.crash()
        time.sleep(0.5)
        target.server.start()
        run = command.wait()
        assert run.exit_code in (0, 1, 2), str(run)
        assert "Traceback" not in run.stderr
        load(target, big_file.path, **given)
        check(target, big_file, options)
        target.execute("DELETE FROM tipple.job; DROP TABLE t")
    record_count(f"crash of the server, --structure {options['structure']}, at {word}: {rounds} rounds")
    target.close()


@pytest.mark.timeout(3600)
def test_the_client_is_killed_while_it_converts(
    server_of: Callable[[int], PostgresServer], big_file: BigFile, tmp_path: Path
) -> None:
    """The next run reads from the catalog what is left to do, and loads no row again."""
    target = PostgresTarget(server_of(18))
    given = {"schema": write(tmp_path / "schema.sql", TABLE + ";"), "jobs": 2, **IN_PARTITIONS}
    for word in CONVERTING if LONG else CONVERTING[::2]:
        command = start_tipple(*load_words(target.url, (big_file.path,), "t", given))
        wait_for_statement(target, command, word)
        kill_after(command, 0)
        run = load(target, big_file.path, **given)
        if run.summary["status"] == "loaded":
            assert run.summary["slices_resumed"] == run.summary["slices"]
        check(target, big_file, IN_PARTITIONS)
        target.execute("DELETE FROM tipple.job; DROP TABLE t")
    target.close()


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_partitions_that_are_not_logged(fresh_server: Callable[..., PostgresServer], tmp_path: Path, mode: str) -> None:
    """Without any --structure: what a crash takes from them is not called loaded, and nothing is stored twice."""
    target = PostgresTarget(fresh_server())
    target.execute(
        "CREATE TABLE t (a integer, b text) PARTITION BY RANGE (a);"
        "CREATE UNLOGGED TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (10) TO (20)"
    )
    path = write(tmp_path / "in.csv", "1,x\n11,y\n")
    run = load(target, path, mode=mode)
    assert run.summary["strategy"] == "partition"
    target.server.crash()
    target.server.start()
    assert target.rows("SELECT a FROM t") == [(11,)]
    assert "lost" in run_tipple("jobs", target.url).stdout
    if mode == "replace":
        assert "crashed" in " ".join(load(target, path, mode=mode).summary["notes"])
    else:
        for dry_run in (True, False):
            refused = load(target, path, mode=mode, dry_run=dry_run, check=1)
            assert "still are rows in public.t1, which" in refused.stderr
        target.execute("DELETE FROM t")
        # With nothing left, there is nothing to be stored twice.
        assert "crashed" in " ".join(load(target, path, mode=mode).summary["notes"])
    assert target.sorted_rows("t") == [(1, "x"), (11, "y")]
    check_tidy(target)
    target.close()
