"""Tables of another server, which a load goes through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loading import load
from servers.postgres import LOADER, PostgresServer
from targets import PostgresTarget, write


@pytest.fixture
def target(server_of: Callable[[int], PostgresServer]) -> Iterator[PostgresTarget]:
    """A database of version 15, the one whose package has postgres_fdw, with a foreign table `f` for its own `t`."""
    target = PostgresTarget(server_of(15))
    try:
        target.execute("CREATE TABLE t (a integer, b text CHECK (b <> 'bad'))")
        asked = "SELECT current_setting('port'), split_part(current_setting('unix_socket_directories'), ',', 1)"
        ((port, host),) = target.server.rows(asked)
        target.server.execute(
            f"CREATE EXTENSION postgres_fdw; GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO {LOADER};"
            f"CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw "
            f"OPTIONS (host '{host}', port '{port}', dbname '{target.database}');"
            f"CREATE USER MAPPING FOR {LOADER} SERVER s OPTIONS (user 'postgres', password_required 'false');"
            f"GRANT USAGE ON FOREIGN SERVER s TO {LOADER}",
            target.database,
        )
        target.execute("CREATE FOREIGN TABLE f (a integer, b text) SERVER s OPTIONS (table_name 't')")
        yield target
    finally:
        target.close()


@pytest.mark.parametrize("options", [{}, {"no_atomic": True}, {"verify": "checksum"}, {"mode": "replace"}])
def test_rows_go_through(target: PostgresTarget, tmp_path: Path, options: dict[str, object]) -> None:
    target.execute("INSERT INTO t VALUES (9, 'old')")
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    run = load(target, path, table="f", **options)
    assert any("is a foreign table" in note for note in run.summary["notes"])
    old = [] if "mode" in options else [(9, "old")]
    assert target.sorted_rows("t") == [(1, "x"), (2, "y"), *old]
    again = load(target, path, table="f", **options)
    assert again.summary["status"] == "already loaded"


def test_a_record_that_it_refuses(target: PostgresTarget, tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "1,x\n2,bad\n")
    run = load(target, path, table="f", check=1)
    assert "violates check constraint" in run.stderr
    assert target.count("t") == 0


PARTITIONED = """
ALTER TABLE t DROP CONSTRAINT t_b_check;
CREATE TABLE p (a integer, b text) PARTITION BY RANGE (a);
CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE FOREIGN TABLE p1 PARTITION OF p FOR VALUES FROM (10) TO (20) SERVER s OPTIONS (table_name 't');
"""


def test_an_upsert_with_a_partition_that_is_one(target: PostgresTarget, tmp_path: Path) -> None:
    """The server refuses it when all is staged, and only then knows which partitions it can leave out."""
    target.execute(PARTITIONED)
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    for dry_run in (True, False):
        run = load(target, path, table="p", mode="upsert", key="b", dry_run=dry_run, check=2)
        assert "public.p1, which belongs to it, is a foreign table" in run.stderr
    assert target.rows("SELECT count(*) FROM pg_namespace WHERE nspname = 'tipple'") == [(0,)]
    load(target, path, table="p", mode="upsert", key="a")
    assert target.sorted_rows("p") == [(1, "x"), (2, "y")]
    path = write(tmp_path / "more.csv", "1,z\n12,z\n")
    run = load(target, path, table="p", mode="upsert", key="a", check=1)
    assert "such as the partition public.p1" in run.stderr
    assert "between the lowest key and the highest one" in run.stderr
    assert target.sorted_rows("p") == [(1, "x"), (2, "y")]
