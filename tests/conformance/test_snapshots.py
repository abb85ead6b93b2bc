"""Transactions that began before a load ended: whatever they look at first afterwards, it is none of the job or all."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from command import run_tipple, start_tipple
from loading import load, load_words
from targets import PostgresTarget, write

NEW = 300


@contextmanager
def snapshot(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A transaction that keeps its snapshot, and has looked at nothing yet."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        yield connection
        connection.rollback()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "in.csv", "".join(f"{n},new\n" for n in range(NEW)))


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_reader_of_another_role_sees_the_old_rows(
    postgres_target: PostgresTarget, path: Path, *, partitioned: bool
) -> None:
    """What a role may not see of others' sessions must not make them count for nothing."""
    divided = " PARTITION BY RANGE (a)" if partitioned else ""
    postgres_target.execute(f"CREATE TABLE t (a integer, b text){divided}")
    if partitioned:
        postgres_target.execute("CREATE TABLE t_a PARTITION OF t FOR VALUES FROM (0) TO (1000)")
    postgres_target.execute("INSERT INTO t VALUES (1, 'old'); GRANT SELECT ON t TO PUBLIC")
    if not partitioned:
        # Whose rights are told apart from none is no table that another could take the place of.
        postgres_target.execute("REVOKE SELECT ON t FROM PUBLIC")
    server, database = postgres_target.server, postgres_target.database
    with snapshot(server.url(dbname=database)) as reader:
        load(postgres_target, path, mode="replace")
        assert reader.execute("SELECT b, count(*) FROM t GROUP BY b").fetchall() == [("old", 1)]
    assert postgres_target.rows("SELECT b, count(*) FROM t GROUP BY b") == [("new", NEW)]


@pytest.mark.parametrize("seconds", [0.0, 0.4])
@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_snapshot_from_while_the_lock_was_waited_for(
    postgres_target: PostgresTarget, path: Path, mode: str, seconds: float
) -> None:
    """Of one partition the staged table takes the place, into the other rows are copied, or old ones beside."""
    postgres_target.execute(
        "CREATE TABLE t (a integer, b text) PARTITION BY RANGE (a);"
        "CREATE TABLE t_a PARTITION OF t FOR VALUES FROM (0) TO (150);"
        "CREATE TABLE t_b PARTITION OF t FOR VALUES FROM (150) TO (5000);"
        "INSERT INTO t SELECT n, 'old' FROM generate_series(140, 159) n"
    )
    if mode == "replace":
        postgres_target.execute("CREATE VIEW v AS SELECT * FROM t_b")
    blocker = psycopg.connect(postgres_target.url)
    blocker.execute("LOCK TABLE t IN ACCESS SHARE MODE")
    command = start_tipple(*load_words(postgres_target.url, (path,), "t", {"mode": mode}))
    wait_for_lock(postgres_target, command)
    # It begins when the first lock is held, or when rows are copied and the last one is waited for.
    time.sleep(seconds)
    with snapshot(postgres_target.url) as reader:
        blocker.rollback()
        done = command.wait()
        assert done.exit_code == 0, str(done)
        seen = dict(reader.execute("SELECT b, count(*) FROM t GROUP BY b").fetchall())
        # All of it, where nothing had to wait for the lock.
        assert seen in ({"old": 20}, {"old": 20, "new": NEW} if mode == "append" else {"new": NEW})
    blocker.close()
    found = dict(postgres_target.rows("SELECT b, count(*) FROM t GROUP BY b"))
    assert found == ({"new": NEW, "old": 20} if mode == "append" else {"new": NEW})
    assert postgres_target.leftovers("t", "v") <= {"public.t_a", "public.t_b"}


def wait_for_lock(target: PostgresTarget, command: object) -> None:
    """Until a session asks for a lock on a user's table, and does not get it."""
    until = time.monotonic() + 60
    waits = (
        "SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE nspname = 'public' AND mode LIKE '%Exclusive%' AND l.database = "
        "(SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    while not target.rows(waits):
        assert time.monotonic() < until, str(command)
        time.sleep(0.005)


@pytest.mark.parametrize("moment", ["waiting", "merging"])
def test_tables_published_together(postgres_target: PostgresTarget, tmp_path: Path, moment: str) -> None:
    """One is replaced, the other merged: whoever began while they waited, or in the middle, sees neither, or both."""
    for name in ("a", "c"):
        postgres_target.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY, b text)")
        postgres_target.execute(f"INSERT INTO {name} SELECT n, 'old' FROM generate_series(1, 10) n")
    write(tmp_path / "in.csv", "".join(f"{n},new\n" for n in range(1, 11)))
    job = write(
        tmp_path / "job.toml",
        f"publish = 'together'\n[defaults]\ninto = '{postgres_target.url}'\nsources = '${{here}}/in.csv'\n"
        "[tables.a]\nmode = 'replace'\n[tables.c]\nmode = 'upsert'\nkey = ['id']\n",
    )
    blocker = psycopg.connect(postgres_target.url)
    if moment == "waiting":
        blocker.execute("LOCK TABLE a IN ACCESS SHARE MODE")
    else:
        postgres_target.execute(
            "CREATE FUNCTION rest() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2); RETURN NULL; END';"
            "CREATE TRIGGER rest AFTER INSERT OR UPDATE ON c FOR EACH STATEMENT EXECUTE FUNCTION rest()"
        )
    command = start_tipple("run", job, "--progress", "none")
    if moment == "waiting":
        wait_for_lock(postgres_target, command)
    else:
        until = time.monotonic() + 60
        while not postgres_target.rows("SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'"):
            assert time.monotonic() < until, str(command)
            time.sleep(0.02)
    with snapshot(postgres_target.url) as reader:
        if moment == "waiting":
            assert reader.execute("SELECT DISTINCT b FROM c").fetchall() == [("old",)]
        threading.Timer(0.3, blocker.rollback).start()
        done = command.wait()
        assert done.exit_code == 0, str(done)
        assert reader.execute("SELECT DISTINCT b FROM a").fetchall() == [("old",)]
        assert reader.execute("SELECT DISTINCT b FROM c").fetchall() == [("old",)]
    blocker.close()
    assert postgres_target.rows("SELECT DISTINCT b FROM a UNION ALL SELECT DISTINCT b FROM c") == [("new",), ("new",)]


UPSERT = "mode = 'upsert'\nkey = ['id']\n"


@pytest.mark.parametrize("others", [None, "", UPSERT], ids=["alone", "beside new tables", "beside merged ones"])
def test_readers_that_come_all_the_time(postgres_target: PostgresTarget, tmp_path: Path, others: str | None) -> None:
    """They look at what is published only, one transaction after the other: each sees none of the new rows or all, also
    where some partitions have rows and get more, and others are empty."""
    target = postgres_target
    target.execute("CREATE TABLE a (id integer, g integer, PRIMARY KEY (id, g)) PARTITION BY RANGE (g)")
    for number in range(4):
        target.execute(
            f"CREATE TABLE a_{number} PARTITION OF a FOR VALUES FROM ({number * 10}) TO ({number * 10 + 10})"
        )
    target.execute("CREATE TABLE c (id integer PRIMARY KEY, g integer)")
    if others is None:
        target.execute("INSERT INTO a SELECT -n, 1 FROM generate_series(1, 60000) n; ANALYZE a")
    if others == UPSERT:
        target.execute("CREATE TABLE b (id integer PRIMARY KEY, g integer)")
    write(tmp_path / "s.sql", "CREATE TABLE b (id integer, g integer);")
    rows = 20_000
    write(tmp_path / "in.csv", "".join(f"{n},{n % 40}\n" for n in range(rows)))
    also = f"[tables.c]\n[tables.b]\nschema = '${{here}}/s.sql'\n{others}"
    job = write(
        tmp_path / "job.toml",
        f"publish = 'together'\n[defaults]\ninto = '{target.url}'\nsources = '${{here}}/in.csv'\nheader = 'no'\n"
        f"[tables.a]\n{'' if others is None else also}",
    )
    looks = "(SELECT count(*) FROM a WHERE id >= 0 AND g < 10), (SELECT count(*) FROM a WHERE id >= 0 AND g >= 10)"
    looks += "" if others is None else ", (SELECT count(*) FROM c)"
    seen, ended = set(), threading.Event()

    def read() -> None:
        with psycopg.connect(target.url) as reader:
            reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            while not ended.wait(0.003):
                seen.add(reader.execute(f"SELECT {looks}").fetchone())  # type: ignore[arg-type]
                reader.rollback()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        run = run_tipple("run", job, "--progress", "none")
    finally:
        ended.set()
        thread.join()
    whole = (rows // 4, rows * 3 // 4, *(() if others is None else (rows,)))
    assert seen <= {(0,) * len(whole), whole}, str(run)
    assert target.rows(f"SELECT {looks}") == [whole]
