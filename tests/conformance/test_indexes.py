"""Indexes and constraints of a table that was filled without them: the same as before, built side by side."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from faults.oracle import wait_for
from loading import load_text_here as load_text
from targets import PostgresTarget
from tipple.engines.postgresql.indexes import Build
from tipple.engines.postgresql.job import OwnedJob
from tipple.engines.postgresql.ownership import Sessions
from tipple.engines.postgresql.place.key_work import KeyWork
from tipple.engines.postgresql.session import PostgresSession
from tipple.plan.url import TableName, parse_target

TABLE = """
CREATE TABLE t (
    a integer CONSTRAINT "the Key" PRIMARY KEY,
    b integer NOT NULL,
    c text CHECK (c <> 'never'),
    d int4range,
    CONSTRAINT late UNIQUE (b) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT apart EXCLUDE USING gist (d WITH &&)
);
CREATE UNIQUE INDEX "on USING x" ON t (lower(c) text_pattern_ops, a DESC NULLS LAST) INCLUDE (b) WHERE a > 0;
CREATE INDEX t_c ON t USING hash (c);
CREATE INDEX t_brin ON t USING brin (a) WITH (pages_per_range = 7);
CREATE UNIQUE INDEX t_nulls ON t (c, b) NULLS NOT DISTINCT;
"""
CATALOG = (
    "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 't' ORDER BY 1",
    "SELECT conname, contype, pg_get_constraintdef(oid), condeferrable, condeferred, convalidated FROM pg_constraint "
    "WHERE conrelid = 't'::regclass ORDER BY 1",
    "SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass AND indisvalid AND indisready",
)


def rows(count: int) -> str:
    return "".join(f'{n},{n * 2},x{n},"[{n},{n + 1})"\n' for n in range(1, count))


def test_all_of_them_come_back(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(TABLE)
    before = [postgres_target.rows(query) for query in CATALOG]
    run = load_text(postgres_target, tmp_path / "in.csv", rows(3000), jobs=3)
    assert run.summary["strategy"] == "swap"
    assert "index" in [phase["name"] for phase in run.summary["phases"]]
    assert [postgres_target.rows(query) for query in CATALOG] == before
    assert postgres_target.count("t") == 2999


def test_what_they_refuse_is_not_published(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(TABLE)
    for bad, name in (('1,7,y,"[9999,9999]"\n', "the Key"), ('7777,2,y,"[9999,9999]"\n', "late"),
                      ('7777,7,y,"[5,5]"\n', "apart")):  # fmt: skip
        run = load_text(postgres_target, tmp_path / "in.csv", rows(3000) + bad, check=1)
        assert name in run.stderr
        assert postgres_target.count("t") == 0
        assert postgres_target.leftovers("t") == set()


def test_an_index_of_that_name_is_staged_already(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Two tables of two schemas may have indexes of the same name, and be loaded at the same time."""
    postgres_target.execute("CREATE TABLE t (a integer); CREATE INDEX t_a ON t (a)")
    load_text(postgres_target, tmp_path / "in.csv", "1\n", mode="replace")
    postgres_target.execute("CREATE TABLE tipple.other (a integer); CREATE INDEX t_a ON tipple.other (a)")
    load_text(postgres_target, tmp_path / "in.csv", "1\n2\n", mode="replace")
    assert postgres_target.count("t") == 2
    assert postgres_target.rows(
        "SELECT indexname FROM pg_indexes WHERE tablename = 't' AND schemaname = current_schema()"
    ) == [("t_a",)]


def test_ctrl_c_while_they_are_built(postgres_target: PostgresTarget) -> None:
    """Python 3.11 and 3.12 take a thread for ended whose `join` was interrupted."""
    sleep = "SELECT pg_sleep(600)"
    works = [KeyWork(table=TableName(None, "t"), size_bytes=0, indexes=[sleep], after=[], renames=[])]
    asleep = f"SELECT count(*) FROM pg_stat_activity WHERE query = '{sleep}' AND datname = current_database()"

    def interrupt() -> None:
        with connect() as looking:
            wait_for(lambda: looking.execute(asleep).fetchall() == [(1,)])
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def connect() -> psycopg.Connection[Any]:
        return psycopg.connect(postgres_target.url, autocommit=True)

    owned = OwnedJob("0" * 32, epoch=1, staging=None, strategy="swap", plan={}, resumed=False)
    with closing(PostgresSession(parse_target(postgres_target.url))) as session, connect() as control:
        job = Build(control, Sessions(session, owned, has_ledger=False), works, workers=1, memory_bytes=1 << 20)
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                job.wait(60)
            assert not job.wait(0)
        finally:
            interrupting.join()
            job.cancel()
        assert job.wait(60)
        with pytest.raises(psycopg.errors.QueryCanceled):
            job.result()
        assert control.execute(asleep).fetchall() == [(0,)]
