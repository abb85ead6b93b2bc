"""Tables that publish together under readers who keep their locks: no query is ended, and the job comes through."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

import tipple
from faults.oracle import wait_for
from targets import PostgresTarget, write
from tipple.engines.postgresql import together

OLD, NEW = 7, 3
HELD_SECONDS = 0.6
"""So long a reader's transaction reads one table before it comes to the other: twice the `deadlock_timeout`."""
READERS = 3
CROSSWISE = "others read the tables of the job all the time"


@pytest.fixture
def target(postgres_target: PostgresTarget) -> PostgresTarget:
    # So that the server calls a deadlock what would else be one after a second.
    postgres_target.server.execute(f"ALTER DATABASE {postgres_target.database} SET deadlock_timeout = '300ms'")
    return postgres_target


@contextmanager
def reading(target: PostgresTarget, orders: list[tuple[str, str]]) -> Iterator[list[str]]:
    """Transactions that read two tables in these orders, one after the other, at any time one that has not ended.

    Gives what the server has refused them.
    """
    ended, refused = threading.Event(), list[str]()
    begun = threading.Semaphore(0)

    def read(number: int) -> None:
        order = itertools.cycle(orders if number % 2 else orders[::-1])
        with psycopg.connect(target.url, autocommit=True) as reader:
            ended.wait(number * HELD_SECONDS / READERS)
            while not ended.is_set():
                first, second = next(order)
                try:
                    with reader.transaction():
                        one = reader.execute(f"SELECT count(*) FROM {first}").fetchone()
                        begun.release()
                        reader.execute("SELECT pg_sleep(%s)", (HELD_SECONDS,))
                        other = reader.execute(f"SELECT count(*) FROM {second}").fetchone()
                except psycopg.Error as error:
                    refused.append(str(error))
                else:
                    if {one, other} - {(OLD,), (NEW,)}:
                        refused.append(f"{one} and {other} rows were seen")

    threads = [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            assert begun.acquire(timeout=30)
        yield refused
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def make_job(target: PostgresTarget, tmp_path: Path, *, partitioned: bool = False) -> Path:
    for name in ("a", "b"):
        divided = partitioned and name == "b"
        target.execute(f"CREATE TABLE {name} (id integer){' PARTITION BY RANGE (id)' if divided else ''}")
        if divided:
            target.execute("CREATE TABLE b1 PARTITION OF b FOR VALUES FROM (0) TO (100)")
        target.execute(f"INSERT INTO {name} SELECT generate_series(1, {OLD})")
        write(tmp_path / f"{name}.csv", "".join(f"{number}\n" for number in range(NEW)))
    return write(
        tmp_path / "job.toml",
        f"publish='together'\n[defaults]\ninto='{target.url}'\nheader='no'\nmode='replace'\n"
        "[tables.a]\nsources='${here}/a.csv'\n[tables.b]\nsources='${here}/b.csv'\n",
    )


def check(target: PostgresTarget, refused: list[str], *names: str) -> None:
    assert refused == []
    assert {target.count(name) for name in ("a", "b")} == {NEW}
    assert target.leftovers("a", "b", *names) == set()


@pytest.mark.parametrize("patience", [0, 60], ids=["patient", "by_turns"])
@pytest.mark.parametrize("partitioned", [False, True], ids=["tables", "partitions"])
def test_no_reader_is_ended_for_the_locks(
    target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: int, partitioned: bool
) -> None:
    """They read the tables in another order than the publish locks them, and there is no moment without one."""
    monkeypatch.setattr(together, "PATIENCE_SECONDS", patience)
    job = make_job(target, tmp_path, partitioned=partitioned)
    # A reader of a partition by itself holds what comes with its table.
    first = "b1" if partitioned else "b"
    with reading(target, [(first, "a")]) as refused:
        report = tipple.run(job)
    check(target, refused, "b1")
    assert not any(CROSSWISE in note for table in report.reports for note in table.notes)


def test_rows_are_copied_where_readers_come_crosswise(
    target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some read the one table first and some the other: whatever is locked, somebody who waits for it has the rest."""
    monkeypatch.setattr(together, "PATIENCE_SECONDS", 1)
    monkeypatch.setattr(together, "GIVING_WAY_SECONDS", 2)
    job = make_job(target, tmp_path)
    with reading(target, [("a", "b"), ("b", "a")]) as refused:
        tipple.run(job)
    check(target, refused)


def test_readers_of_one_table_each_are_waited_for(
    target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for two tables, so the one is kept while the other is waited for: longer than `deadlock_timeout`."""
    monkeypatch.setattr(together, "GIVING_WAY_SECONDS", 0)
    job = make_job(target, tmp_path)
    with reading(target, [("a", "a"), ("b", "b")]) as refused:
        report = tipple.run(job)
    check(target, refused)
    assert [table.strategy for table in report.reports] == ["swap", "swap"]


def test_what_is_held_is_given_back_to_whoever_comes_later(
    target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of the second table comes to the first one, which is locked by then: he gets it, and not an error."""
    monkeypatch.setattr(together, "PATIENCE_SECONDS", 0)
    job = make_job(target, tmp_path)
    with psycopg.connect(target.url) as reader:
        assert reader.execute("SELECT count(*) FROM b").fetchone() == (OLD,)
        thread = threading.Thread(target=tipple.run, args=(job,))
        thread.start()
        held = "SELECT count(*) FROM pg_locks WHERE relation = 'a'::regclass AND mode = 'AccessExclusiveLock'"
        assert wait_for(lambda: bool(target.value(held)), 30)
        # By then the publish itself has looked for a circle, and looks no more.
        reader.execute("SELECT pg_sleep(%s)", (HELD_SECONDS,))
        assert reader.execute("SELECT count(*) FROM a").fetchone() == (OLD,)
        reader.rollback()
    thread.join()
    check(target, [])


def test_a_writer_into_a_table_that_is_merged_into_is_not_ended(target: PostgresTarget, tmp_path: Path) -> None:
    """He has written into the one before he reads the other, whose place is taken before rows are merged into his."""
    target.execute("CREATE TABLE a (id integer); CREATE TABLE b (id integer PRIMARY KEY)")
    write(tmp_path / "a.csv", "1\n2\n3\n")
    write(tmp_path / "b.csv", "1\n2\n3\n")
    job = write(
        tmp_path / "job.toml",
        f"publish='together'\n[defaults]\ninto='{target.url}'\nheader='no'\n"
        "[tables.a]\nsources='${here}/a.csv'\nmode='replace'\n"
        "[tables.b]\nsources='${here}/b.csv'\nmode='upsert'\nkey=['id']\nafter=['a']\n",
    )
    with psycopg.connect(target.url) as writer:
        writer.execute("INSERT INTO b VALUES (7)")
        thread = threading.Thread(target=tipple.run, args=(job,))
        thread.start()
        waits = "SELECT count(*) FROM pg_locks WHERE relation = 'b'::regclass AND NOT granted"
        assert wait_for(lambda: bool(target.value(waits)), 30)
        # By then the publish itself has looked for a circle, and looks no more.
        writer.execute("SELECT pg_sleep(%s)", (HELD_SECONDS,))
        assert writer.execute("SELECT count(*) FROM a").fetchone() == (0,)
        writer.commit()
    thread.join()
    assert [target.count(name) for name in ("a", "b")] == [NEW, NEW + 1]
    assert target.leftovers("a", "b") == set()


def test_no_reader_is_ended_for_a_table_that_is_published_alone(
    target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They read a partition by itself, and then its table; there is no moment without one, so rows are copied."""
    monkeypatch.setattr(together, "PATIENCE_SECONDS", 0)
    monkeypatch.setattr(together, "GIVING_WAY_SECONDS", 1)
    make_job(target, tmp_path, partitioned=True)
    with reading(target, [("b1", "b")]) as refused:
        tipple.load(tmp_path / "b.csv", table="b", into=target.url, header="no", mode="replace")
    assert refused == []
    assert target.count("b") == NEW
    assert target.leftovers("a", "b", "b1") == set()


def test_publishing_goes_on_where_no_session_can_be_had_that_looks(
    target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader goes: then nothing is in the way, and a connection more is not needed."""
    monkeypatch.setattr(together, "PATIENCE_SECONDS", 1)
    make_job(target, tmp_path, partitioned=True)
    options = {"table": "b", "into": target.url, "header": "no", "mode": "replace"}
    limit = f"ALTER DATABASE {target.database} CONNECTION LIMIT"
    with target.server.connect() as superuser, psycopg.connect(target.url) as reader:
        reader.execute("SELECT count(*) FROM b")
        thread = threading.Thread(target=tipple.load, args=(tmp_path / "b.csv",), kwargs=options)
        thread.start()
        waits = "SELECT count(*) FROM pg_locks WHERE relation = 'b'::regclass AND NOT granted"
        assert wait_for(lambda: bool(target.value(waits)), 30)
        superuser.execute(f"{limit} 0".encode())
        try:
            reader.execute("SELECT pg_sleep(3)")
            reader.commit()
            thread.join(60)
            assert not thread.is_alive()
        finally:
            superuser.execute(f"{limit} -1".encode())
    assert target.count("b") == NEW
