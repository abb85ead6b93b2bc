"""Reports of loads by pages that were interrupted: they tell what the job has done, in this run or an earlier one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from extension.pages import ready_target
from extension.test_write_path import NUMBERS, numbers, path_of
from loading import load
from servers.postgres import PostgresServer
from targets import PostgresTarget, write

STOP = """
CREATE OR REPLACE FUNCTION stop() RETURNS event_trigger LANGUAGE plpgsql AS
    $$ BEGIN IF current_query() LIKE '%stage_%' THEN RAISE 'no index now' USING ERRCODE = '57000'; END IF; END $$;
CREATE EVENT TRIGGER stop ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION stop();
"""
"""Ends a load when its rows are stored, in a way that may pass."""
GO_ON = "DROP EVENT TRIGGER stop"
INTERRUPTED = """
CREATE OR REPLACE FUNCTION tipple_direct.finish(OUT pages bigint, OUT rows bigint) LANGUAGE plpgsql AS
    $$ BEGIN RAISE '{}' USING ERRCODE = '{}'; END $$
"""
APPENDED = ("direct", "the job's rows are pages that the server's extension tipple_direct appends")


@pytest.fixture
def target(postgres_server: PostgresServer) -> Iterator[PostgresTarget]:
    for target in ready_target(postgres_server):
        target.execute(NUMBERS + "; CREATE INDEX ON t (id)")
        yield target


def test_pages_of_an_earlier_run(target: PostgresTarget, tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", numbers(3000))
    target.server.execute(STOP, target.database)
    assert "no index now" in load(target, source, write_path="direct", check=1).stderr
    target.server.execute(GO_ON, target.database)
    assert path_of(load(target, source, dry_run=True)) == APPENDED
    run = load(target, source, write_path="direct")
    assert run.summary["slices_resumed"] == 1
    assert path_of(run) == APPENDED
    assert target.count("t") == 3000
    for options in ({}, {"dry_run": True}):
        assert path_of(load(target, source, **options)) == APPENDED
    target.execute("TRUNCATE t")
    run = load(target, source, write_path="direct", mode="replace")
    assert path_of(run)[1] == "pages are built here, and appended by the server's extension tipple_direct"


def test_what_was_begun_with_pages_and_went_on_by_copy(target: PostgresTarget, tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", numbers(3000))
    target.server.execute(INTERRUPTED.format("no pages now", "57000") + ";" + STOP, target.database)
    assert "no pages now" in load(target, source, write_path="direct", check=1).stderr
    assert "no index now" in load(target, source, write_path="binary", check=1).stderr
    target.server.execute(GO_ON, target.database)
    for _ in range(2):
        run = load(target, source)
        assert path_of(run)[0] == "binary"
    assert target.count("t") == 3000


def test_a_file_that_may_not_be_written_is_none_for_copy_either(target: PostgresTarget, tmp_path: Path) -> None:
    """The code is that of a right that is taken away, for which COPY would do."""
    said = 'could not open file "base/5/16384": Read-only file system'
    target.server.execute(INTERRUPTED.format(said, "42501"), target.database)
    source = write(tmp_path / "in.csv", numbers(3000))
    for options in ({}, {"write_path": "direct"}):
        failed = load(target, source, check=1, **options)
        assert said in failed.stderr
        assert "its disk is mounted read-only" in failed.stderr
    assert target.rows("SELECT state, count(*) FROM tipple.job GROUP BY 1") == [("loading", 1)]


def test_a_row_that_is_refused(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute("ALTER TABLE t ADD CHECK (id <> 1700)")
    source = write(tmp_path / "in.csv", numbers(3000))
    failed = load(target, source, write_path="direct", check=1)
    assert (
        "nothing was published; without the option Tipple takes another path, which names the record" in failed.stderr
    )
    assert "1,701, which begins at byte" in load(target, source, check=1).stderr
