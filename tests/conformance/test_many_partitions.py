"""Tables of many partitions: what becomes of all of them together, and where they are too many for one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from loading import load, load_here, load_text
from servers.postgres import PostgresServer
from targets import PostgresTarget, write
from tipple.engines.postgresql.partitioned import partition_growth
from tipple.plan.partitioning import parse_partition_by

MANY = 130
"""More than are sent, or asked for, together."""

FEW_LOCKS = {
    "max_locks_per_transaction": "10",
    "max_connections": "20",
    "max_worker_processes": "2",
    "max_wal_senders": "2",
}


def make_table(target: PostgresTarget, count: int, columns: str = "k integer, v text") -> None:
    parts = "".join(
        f"CREATE TABLE t_{n} PARTITION OF t FOR VALUES FROM ({n * 10}) TO ({n * 10 + 10});" for n in range(count)
    )
    target.execute(f"CREATE TABLE t ({columns}) PARTITION BY RANGE (k); {parts}")


@pytest.fixture
def no_size_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that these few rows go into hidden partitions."""
    monkeypatch.setattr("tipple.engines.postgresql.partitioned.partition_ways.FEW_BYTES_PER_PARTITION", 0)


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_each_partition_gets_what_is_its_own(
    postgres_target: PostgresTarget, tmp_path: Path, mode: str, no_size_counts: None
) -> None:
    """Some are empty, some have rows, some cannot be swapped, some have refusals and columns of their own."""
    make_table(postgres_target, MANY, "k integer PRIMARY KEY, v text")
    postgres_target.execute(
        "INSERT INTO t SELECT n * 10 + 9, 'old' FROM generate_series(0, 129, 3) n;"
        "ALTER TABLE t_4 ADD CHECK (v <> 'no'); ALTER TABLE t_5 ALTER v SET NOT NULL; CREATE INDEX own ON t_6 (v);"
        "COMMENT ON TABLE t_7 IS 'mine'; GRANT SELECT ON t_8 TO PUBLIC;"
        "CREATE TABLE x (v text, k integer PRIMARY KEY);"
        "ALTER TABLE t DETACH PARTITION t_10; DROP TABLE t_10;"
        "ALTER TABLE t ATTACH PARTITION x FOR VALUES FROM (100) TO (110)"
    )
    keys = [n * 10 + 1 for n in range(MANY) if n % 7]
    path = write(tmp_path / "in.csv", "".join(f"{key},new\n" for key in keys))
    result = load_here(postgres_target, path, mode=mode, header="no")
    assert result.summary is not None
    assert result.summary["strategy"] == "partition"
    kept = [] if mode == "replace" else [(n * 10 + 9, "old") for n in range(0, MANY, 3)]
    assert postgres_target.rows("SELECT k, v FROM t ORDER BY k") == sorted([*((key, "new") for key in keys), *kept])
    own = postgres_target.rows(
        "SELECT obj_description('t_7'::regclass), has_table_privilege('pg_monitor', 't_8', 'SELECT')"
    )
    assert own == [("mine", True)]
    assert (
        postgres_target.value("SELECT indrelid::regclass::text FROM pg_index WHERE indexrelid = 'own'::regclass")
        == "t_6"
    )
    with pytest.raises(Exception, match="t_4"):
        postgres_target.execute("INSERT INTO t VALUES (42, 'no')")
    with pytest.raises(Exception, match="t_5"):
        postgres_target.execute("INSERT INTO t VALUES (52, NULL)")
    assert postgres_target.value("SELECT count(*) FROM pg_inherits WHERE inhparent = 't'::regclass") == MANY


@pytest.mark.parametrize(("kind", "every"), [("date", "day"), ("integer", "1")])
@pytest.mark.parametrize(("step", "filled"), [(2, True), (10, False)])
def test_gaps_of_a_dense_sample(
    postgres_target: PostgresTarget, kind: str, every: str, step: int, filled: bool
) -> None:
    """Where it has shown every other day, no load has to begin anew for the others; a few days are too few for that."""
    asked = parse_partition_by(f"range(k, every={every})")
    numbers = range(0, 2001, step)
    keys = [str(date(2000, 1, 1) + timedelta(n)) if kind == "date" else str(n) for n in numbers]
    bounds = partition_growth.bounds_for(postgres_target.connection, asked, kind, keys, fill=True)
    assert len(set(bounds)) == (2001 if filled else len(keys))


def test_more_locks_than_the_server_has_room_for(
    fresh_server: Callable[..., PostgresServer], tmp_path: Path, no_size_counts: None
) -> None:
    """Known before rows are loaded, and not when all of them are."""
    server = fresh_server(settings=FEW_LOCKS)
    target = PostgresTarget(server)
    make_table(target, 50)
    path = write(tmp_path / "in.csv", "".join(f"{n},x\n" for n in range(500)))
    run = load_here(target, path, header="no")
    assert run.summary is not None
    assert run.summary["strategy"] == "single"
    assert "max_locks_per_transaction = 32 would do, instead of 10" in run.summary["strategy_reason"]
    assert target.count("t") == 500
    target.close()


def test_one_day_of_many(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """However small the file: only partition by partition can a part of the table be replaced."""
    make_table(postgres_target, MANY, "k integer PRIMARY KEY, v text")
    postgres_target.execute("INSERT INTO t SELECT n, 'old' FROM generate_series(0, 1299) n")
    path = write(tmp_path / "in.csv", "500,new\n")
    run = load(postgres_target, path, mode="replace", replace_scope="partitions", header="no")
    assert run.summary is not None
    assert run.summary["strategy"] == "partition"
    assert postgres_target.rows("SELECT v, count(*) FROM t GROUP BY v ORDER BY v") == [("new", 1), ("old", 1290)]
    assert load(postgres_target, path, mode="replace", header="no").summary["strategy"] == "single"
    assert postgres_target.rows("SELECT k, v FROM t") == [(500, "new")]


def test_more_locks_for_new_partitions_than_there_is_room_for(
    fresh_server: Callable[..., PostgresServer], tmp_path: Path
) -> None:
    target = PostgresTarget(fresh_server(settings=FEW_LOCKS))
    schema = write(tmp_path / "n.sql", "CREATE TABLE n (k integer PRIMARY KEY, v text)")
    path = write(tmp_path / "in.csv", "".join(f"{n},x\n" for n in range(100)))
    run = load(target, path, table="n", schema=schema, partition_by="range(k, every=1)", header="no", check=False)
    assert run.exit_code == 2, run
    assert "max_locks_per_transaction must be at least 16, instead of 10, and more keys may come" in run.stderr
    assert target.value("SELECT to_regclass('n')") is None
    by_hash = load(target, path, table="n", schema=schema, partition_by="hash(k, 100)", header="no", check=False)
    assert by_hash.exit_code == 2, by_hash
    assert "max_locks_per_transaction = 16 would do, instead of 10" in by_hash.stderr
    target.close()


def test_room_for_a_partition_that_is_made_later(fresh_server: Callable[..., PostgresServer], tmp_path: Path) -> None:
    """What making one locks beside it is locked once, and not again for each of those that there are."""
    target = PostgresTarget(fresh_server(settings=FEW_LOCKS))
    schema = write(tmp_path / "n.sql", "CREATE TABLE n (k integer, v text)")
    rows = [f"{n % 60},{'x' * 100}\n" for n in range(100_000)]
    rows[43_210] = "1000,late\n"
    options: dict[str, Any] = {"table": "n", "schema": schema, "partition_by": "range(k, every=1)", "header": "no"}
    run = load_text(target, tmp_path / "in.csv", "".join(rows), **options)
    assert any("1 more partition was made" in note for note in (run.summary or {})["notes"])
    assert target.value("SELECT count(*) FROM pg_inherits WHERE inhparent = 'n'::regclass") == 61
    target.execute("DROP TABLE n")
    # What is found out in the middle of a load is no wrong usage.
    rows[43_210:43_310] = [f"{1000 + n},late\n" for n in range(100)]
    summary = tmp_path / "summary.json"
    load_text(target, tmp_path / "more.csv", "".join(rows), check=1, summary=summary, **options)
    failure = json.loads(summary.read_text())
    assert (failure["status"], failure["hint"]) == ("failed", "choose a larger every, or raise it")
    assert "must be at least" in failure["error"]
    assert target.leftovers() == set()
    target.close()
