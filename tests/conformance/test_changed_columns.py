"""Columns that others give another type while a table is loaded: no value is rounded or cut on its way into them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from command import Command, start_tipple
from faults.oracle import wait_for
from loading import load_here, load_words
from servers.postgres import LOADER
from targets import PostgresTarget, write

BLOCKED = "SELECT FROM pg_locks WHERE NOT granted AND relation = 't'::regclass"
HOLD = f"SET deadlock_timeout = '1min'; SET ROLE {LOADER}; LOCK TABLE t IN ROW EXCLUSIVE MODE"


def change_between(holder: psycopg.Connection, statements: str) -> None:
    """Changes the table while the load waits for it, between two of its attempts: during one it is a deadlock."""

    def changes() -> bool:
        try:
            with holder.transaction():
                holder.execute(statements.encode())
        except psycopg.errors.DeadlockDetected:
            return False
        return True

    assert wait_for(changes)
    holder.commit()


@pytest.mark.parametrize("change", ["TYPE integer", "TYPE numeric(5, 0)", "RENAME"])
@pytest.mark.parametrize("mode", ["replace", "upsert", "append"])
def test_another_type(postgres_target: PostgresTarget, tmp_path: Path, mode: str, change: str) -> None:
    target = postgres_target
    target.execute("CREATE TABLE t (k integer PRIMARY KEY, v numeric)")
    if mode != "append":
        target.execute("INSERT INTO t VALUES (1, 0), (7, 0)")
    path = write(tmp_path / "in.csv", "1,1.5\n2,1234567.25\n")
    options = {"header": "no", "mode": mode, "key": "k" if mode == "upsert" else None, "verify": "checksum"}
    with psycopg.connect(target.server.url(dbname=target.database)) as holder:
        holder.execute(HOLD)
        command = start_tipple(*load_words(target.url, (path,), "t", options))
        try:
            assert wait_for(lambda: target.rows(BLOCKED))
            change_between(holder, f"ALTER TABLE t {'RENAME v TO w' if change == 'RENAME' else f'ALTER v {change}'}")
            run = command.wait()
        finally:
            command.kill()
    assert run.exit_code == 1, str(run)
    assert "was changed while it was loaded: column v" in run.stderr
    assert "--restart" in run.stderr
    assert target.count("t") == (0 if mode == "append" else 2)
    # What the column would not have taken if it had been loaded into it is refused then too.
    if change == "TYPE integer":
        run = load_here(target, path, restart=True, check=1, **options)
        assert 'invalid input syntax for type integer: "1.5"' in run.stderr
    elif change == "RENAME":
        load_here(target, path, restart=True, **options)
        assert target.value("SELECT w FROM t WHERE k = 1") is not None
    assert not any("stage_" in name for name in target.tables())


SLICES: dict[str, object] = {"header": "no", "no_atomic": True, "commit_every": 300}
WAYS: dict[str, dict[str, object]] = {
    "append": {},
    "skip": {"on_error": "skip", "max_rejects": 1},
    "upsert": {"mode": "upsert", "key": "k"},
    "replace": {"mode": "replace"},
    "rebuild": {"indexes": "rebuild"},
    "partitions": {},
    "slices": {"no_atomic": True},
}


@pytest.mark.parametrize("to", ["real", "bigint", "timestamptz"])
@pytest.mark.parametrize("way", WAYS)
def test_before_the_load_has_its_lock(postgres_target: PostgresTarget, tmp_path: Path, way: str, to: str) -> None:
    """Bytes of the old type, of which some are values of the new one too, are not stored in it."""
    target = postgres_target
    before, value = ("timestamp", "2024-01-01 00:00:00") if to == "timestamptz" else ("integer", "7")
    divided = " PARTITION BY RANGE (k); CREATE TABLE t1 PARTITION OF t DEFAULT" if way == "partitions" else ""
    target.execute(
        f"CREATE TABLE t (k integer PRIMARY KEY, v {before}){divided}; INSERT INTO t VALUES (-1, NULL), (-2, NULL)"
    )
    path = write(tmp_path / "in.csv", "".join(f"{n},{value}\n" for n in range(20)))
    options = {"header": "no", "verify": "checksum", **WAYS[way]}
    if way == "skip":
        options["rejects"] = tmp_path / "bad.csv"
    with psycopg.connect(target.url) as changing:
        changing.execute(f"ALTER TABLE t ALTER v TYPE {to}")
        command = start_tipple(*load_words(target.url, (path,), "t", options))
        try:
            assert wait_for(lambda: target.rows("SELECT FROM pg_locks WHERE NOT granted"))
            changing.commit()
            run = command.wait()
        finally:
            command.kill()
    assert run.exit_code == 1, str(run)
    assert "was changed while it was loaded: column v" in run.stderr
    assert target.count("t") == 2
    load_here(target, path, restart=True, **options)
    meant = f"{value} Asia/Kathmandu" if to == "timestamptz" else value
    assert target.value(f"SELECT count(*) FROM t WHERE v = '{meant}'::{to}") == 20


@contextmanager
def storing_slices(target: PostgresTarget, path: Path) -> Iterator[Command]:
    """A load that has stored some of its slices, and not all; it is killed at the end, if it still runs."""
    target.execute("CREATE TABLE t (k integer, v integer)")
    write(path, "".join(f"{n},{n % 10}\n" for n in range(150_000)))
    command = start_tipple(*load_words(target.url, (path,), "t", SLICES))
    try:
        assert wait_for(lambda: target.count("t") > 0)
        yield command
    finally:
        command.kill()


def test_between_two_slices(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    target, path = postgres_target, tmp_path / "in.csv"
    with storing_slices(target, path) as command:
        target.execute("ALTER TABLE t ALTER v TYPE real")
        run = command.wait()
    assert run.exit_code == 1, str(run)
    assert "was changed while it was loaded: column v" in run.stderr
    assert target.value("SELECT count(*) FROM t WHERE v <> k % 10") == 0
    run = load_here(target, path, check=2, **SLICES)
    assert "change them back" in run.stderr


def test_emptied_between_two_runs(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What --no-atomic had stored before it was killed is gone, and nobody calls the rest all of it."""
    target, path = postgres_target, tmp_path / "in.csv"
    with storing_slices(target, path):
        pass
    options = {**SLICES, "schema": write(tmp_path / "t.sql", "CREATE TABLE t (k integer, v integer)")}
    for statement, words in (("TRUNCATE t", "and now it has none"), ("DROP TABLE t", "which is gone")):
        target.execute(statement)
        for more in ({"dry_run": True}, {}):
            run = load_here(target, path, check=2, **options, **more)
            assert words in run.stderr
            assert "--restart" in run.stderr
    load_here(target, path, restart=True, **options)
    assert target.count("t") == 150_000


@pytest.mark.parametrize("mode", ["replace", "upsert"])
def test_a_wider_type(postgres_target: PostgresTarget, tmp_path: Path, mode: str) -> None:
    """It takes all values as they are: nothing is lost, and nothing is in the way."""
    target = postgres_target
    target.execute("CREATE TABLE t (k integer PRIMARY KEY, v numeric(4, 1), w varchar(5)); INSERT INTO t VALUES (1, 0)")
    path = write(tmp_path / "in.csv", "1,1.5,abcde\n2,-999.9,x\n")
    options = {"header": "no", "mode": mode, "key": "k" if mode == "upsert" else None}
    with psycopg.connect(target.server.url(dbname=target.database)) as holder:
        holder.execute(HOLD)
        command = start_tipple(*load_words(target.url, (path,), "t", options))
        try:
            assert wait_for(lambda: target.rows(BLOCKED))
            wider = "ALTER k TYPE bigint, ALTER v TYPE numeric(8, 3), ALTER w TYPE text"
            change_between(holder, f"ALTER TABLE t {wider}")
            run = command.wait()
        finally:
            command.kill()
    assert run.exit_code == 0, str(run)
    assert target.rows("SELECT k, v::text, w FROM t ORDER BY k") == [(1, "1.500", "abcde"), (2, "-999.900", "x")]


def test_other_changes_are_none(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A column that is not loaded, a default: rows are merged into the table as it is now."""
    target = postgres_target
    target.execute("CREATE TABLE t (k integer PRIMARY KEY, v numeric); INSERT INTO t VALUES (1, 0)")
    path = write(tmp_path / "in.csv", "1,1.5\n2,2.5\n")
    with psycopg.connect(target.server.url(dbname=target.database)) as holder:
        holder.execute(HOLD)
        words = load_words(target.url, (path,), "t", {"header": "no", "mode": "upsert", "key": "k"})
        command = start_tipple(*words)
        try:
            assert wait_for(lambda: target.rows(BLOCKED))
            change_between(holder, "ALTER TABLE t ADD w integer DEFAULT 3; ALTER TABLE t ALTER v SET DEFAULT 9")
            run = command.wait()
        finally:
            command.kill()
    assert run.exit_code == 0, str(run)
    assert [tuple(map(str, row)) for row in target.rows("SELECT * FROM t ORDER BY k")] == [
        ("1", "1.5", "3"),
        ("2", "2.5", "3"),
    ]
