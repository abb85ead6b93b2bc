"""`--indexes`: rows that come to others find the indexes in place, or have them built when all rows are in."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tipple
from command import start_tipple
from loading import load_words
from targets import DuckdbTarget, PostgresTarget, Target, write
from tipple.engines.postgresql.place import absorb, views
from tipple.errors import BadRecord, UsageError

OLD, NEW = 2000, 3000

TABLE = f"""
CREATE TABLE t (
    gone integer, a integer, b text NOT NULL DEFAULT 'x', c numeric(10, 2), d text DEFAULT 'none',
    g integer GENERATED ALWAYS AS (a * 2) STORED, PRIMARY KEY (a), UNIQUE (b, c) DEFERRABLE, CHECK (a > 0)
);
ALTER TABLE t DROP COLUMN gone;
INSERT INTO t (a, b, c, d) SELECT i, 'old' || i, i / 4.0, 'kept' FROM generate_series(1, {OLD}) i;
CREATE INDEX t_part ON t (lower(b) DESC) INCLUDE (c) WHERE a > 5;
CREATE INDEX t_brin ON t USING brin (a);
COMMENT ON TABLE t IS 'ours'; COMMENT ON INDEX t_part IS 'some';
GRANT SELECT ON t TO PUBLIC;
CREATE VIEW v AS SELECT a, b FROM t WHERE c IS NOT NULL;
"""

SHAPE = """
SELECT indexdef, indisvalid, obj_description(indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = indexrelid
JOIN pg_indexes x ON x.indexname = c.relname AND x.tablename = 't' WHERE indrelid = 't'::regclass
UNION ALL SELECT pg_get_constraintdef(oid), convalidated, conname FROM pg_constraint WHERE conrelid = 't'::regclass
UNION ALL SELECT relacl::text, relhasindex, obj_description(oid) FROM pg_class WHERE oid = 't'::regclass
UNION ALL SELECT pg_get_viewdef('v'::regclass), true, NULL ORDER BY 1
"""


def lines(first: int, last: int) -> str:
    return "".join(f"{i},new{i},{i}.5\n" for i in range(first, last + 1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "new.csv", lines(OLD + 1, OLD + NEW))


def append(target: Target, path: Path, **options: Any) -> Any:
    given = {"format": "csv", "header": "no", "columns": ["a", "b", "c"], "verify": "checksum"}
    return tipple.load(str(path), into=target.url, table="t", **{**given, **options})


def expected() -> list[tuple[Any, ...]]:
    old = [(i, f"old{i}", i / 4, "kept", 2 * i) for i in range(1, OLD + 1)]
    return [*old, *((i, f"new{i}", i + 0.5, "none", 2 * i) for i in range(OLD + 1, OLD + NEW + 1))]


def found(target: Target) -> list[tuple[Any, ...]]:
    return target.rows("SELECT a, b, c::float8, d, g FROM t ORDER BY a")


@pytest.mark.parametrize("plan", ["auto", "keep", "rebuild"])
def test_rows_and_indexes(postgres_target: PostgresTarget, path: Path, plan: str) -> None:
    """Nothing of the table, and of what hangs on it, is another; nor are the rows that it had."""
    target = postgres_target
    target.execute(TABLE)
    before, oid = target.rows(SHAPE), target.value("SELECT 't'::regclass::oid")
    report = append(target, path, indexes=plan)
    # Less than 64 MB are not worth it by themselves.
    assert report.strategy == ("swap" if plan == "rebuild" else "single"), report.strategy_reason
    assert report.verify is not None
    assert (target.value("SELECT 't'::regclass::oid") != oid) == (plan == "rebuild")
    assert found(target) == expected()
    assert target.rows(SHAPE) == before
    target.execute("SET enable_seqscan = off")
    assert target.value("SELECT a FROM t WHERE lower(b) = 'old77' AND a > 5") == 77
    with pytest.raises(psycopg.errors.UniqueViolation):
        target.execute("INSERT INTO t (a) VALUES (7)")
    assert append(target, path, indexes=plan).status == "already loaded"
    assert target.leftovers("t") == set()


def test_duckdb(path: Path) -> None:
    target = DuckdbTarget(path.with_name("t.duckdb"))
    target.execute(
        "CREATE TABLE t (a integer, b text, c double); CREATE SCHEMA s; CREATE TABLE s.t (a integer);"
        f"INSERT INTO t SELECT i, 'old' || i, 0 FROM range(1, {OLD + 1}) r (i);"
        'CREATE UNIQUE INDEX "u ""x" ON t (a); CREATE INDEX i ON t (b, (a + 1)); COMMENT ON INDEX i IS \'some\';'
        "CREATE INDEX j ON s.t (a)"
    )
    indexes = "SELECT index_name, sql, is_unique, comment FROM duckdb_indexes() ORDER BY ALL"
    before = target.rows(indexes)
    report = append(target, path, indexes="rebuild")
    assert "index" in {phase.name for phase in report.phases}
    assert target.rows("SELECT count(*), count(DISTINCT a), max(a) FROM t") == [(OLD + NEW, OLD + NEW, OLD + NEW)]
    assert target.rows(indexes) == before
    # A record that repeats a key is named though no index stood in its way, and nothing has changed.
    for repeated in (7, OLD + NEW + 1):
        more = write(path.with_name("more.csv"), lines(OLD + NEW + 1, OLD + NEW + 9) + f"{repeated},again,1\n")
        with pytest.raises(BadRecord) as failure:
            append(target, more, indexes="rebuild")
        assert (failure.value.record_number, failure.value.sqlstate) == (10, "23505")
        assert target.count("t") == OLD + NEW
        assert target.rows(indexes) == before
    with pytest.raises(UsageError, match="says which records are rejects"):
        append(target, more, indexes="rebuild", on_error="skip", max_rejects=1)


def test_a_record_that_repeats_a_row_of_the_table(postgres_target: PostgresTarget, path: Path) -> None:
    target = postgres_target
    target.execute(TABLE)
    write(path, lines(OLD + 1, OLD + 99) + "77,again,1\n" + lines(OLD + 100, OLD + NEW))
    with pytest.raises(BadRecord) as failure:
        append(target, path, indexes="rebuild")
    assert failure.value.record_number == 100
    assert failure.value.sqlstate == "23505"
    assert '"t_pkey"' in failure.value.reason
    assert target.count("t") == OLD
    write(path, lines(OLD + 1, OLD + NEW))
    append(target, path, indexes="rebuild", restart=True)
    assert found(target) == expected()
    assert target.leftovers("t") == set()


def test_what_is_in_the_way(postgres_target: PostgresTarget, path: Path) -> None:
    target = postgres_target
    target.execute(TABLE)
    for options in (
        {"mode": "replace"},
        {"mode": "upsert", "key": ["a"]},
        {"atomic": False},
        {"structure": "btree"},
    ):
        with pytest.raises(UsageError, match="--indexes rebuild"):
            append(target, path, indexes="rebuild", **options)
    with pytest.raises(UsageError, match="--indexes keep has rows go through the table itself"):
        append(target, path, indexes="keep", partition_by="range(a, every=1000)")
    with pytest.raises(UsageError, match="its keys say which records are rejects"):
        append(target, path, indexes="rebuild", on_error="skip", max_rejects=1)
    target.execute("CREATE TABLE o (t integer REFERENCES t)")
    for dry_run in (True, False):
        with pytest.raises(UsageError, match="the foreign key o_t_fkey"):
            append(target, path, indexes="rebuild", dry_run=dry_run)
    assert append(target, path).strategy == "single"
    assert found(target) == expected()


def test_the_smaller_side_moves(postgres_target: PostgresTarget, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself where the sources are large, and as long as the table is not larger."""
    target = postgres_target
    monkeypatch.setattr(absorb, "LEAST_BYTES", 10_000)
    target.execute("CREATE TABLE t (a integer, b text, c numeric); INSERT INTO t VALUES (1, 'old', 1)")
    report = append(target, path, verify="count")
    assert report.strategy == "swap"
    assert "were copied to the new ones" in " ".join(report.notes)
    more = write(path.with_name("more.csv"), lines(1, 1000))
    report = append(target, more)
    assert report.strategy == "single"
    assert "it already has rows" in report.strategy_reason
    assert target.rows("SELECT count(*), sum(a) FROM t") == [
        (1 + NEW + 1000, 1 + sum(range(OLD + 1, OLD + NEW + 1)) + sum(range(1, 1001)))
    ]
    # What cannot be told beforehand has no size.
    with pytest.raises(UsageError, match="already has rows"):
        append(target, more, structure="sorted", key=["a"], restart=True)


def waiting(target: PostgresTarget, change: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not change():
        assert time.monotonic() < until
        time.sleep(0.02)


def copies(target: PostgresTarget) -> bool:
    """Whether a load keeps writers away from the table."""
    locks = target.rows("SELECT mode FROM pg_locks WHERE relation = 't'::regclass AND granted")
    return ("ShareRowExclusiveLock",) in locks


def in_background(target: PostgresTarget, path: Path) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(append(target, path, indexes="rebuild"))
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


def test_readers_see_all_or_nothing(postgres_target: PostgresTarget, path: Path) -> None:
    """Nor does whoever takes a snapshot while rows are copied, and looks at the table when that is over."""
    target = postgres_target
    target.execute(TABLE)
    reader, late = (target.server.connect(target.database) for _ in range(2))
    with reader, late:
        reader.autocommit = late.autocommit = False
        reader.execute("SELECT count(*) FROM t")
        thread, results = in_background(target, path)
        try:
            waiting(target, lambda: copies(target))
            late.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            late.execute("SELECT 1")
            reader.commit()
            until = time.monotonic() + 4
            seen = {(OLD,)}
            while time.monotonic() < until:
                seen.add(reader.execute("SELECT count(*) FROM t").fetchone() or ())
                reader.commit()
                time.sleep(0.05)
            assert seen <= {(OLD,), (OLD + NEW,)}
            assert late.execute("SELECT count(*), max(a) FROM t").fetchone() == (OLD, OLD)
            late.commit()
        finally:
            reader.rollback()
            late.rollback()
            thread.join(60)
    assert [result.status for result in results] == ["loaded"], results
    assert found(target) == expected()
    assert target.value("SELECT count(*) FROM v") == OLD + NEW
    assert target.leftovers("t") == set()


def test_a_transaction_that_is_older(postgres_target: PostgresTarget, path: Path) -> None:
    """It would not see the rows any more that it knows: they stay, and new ones are copied to them."""
    target = postgres_target
    target.execute(TABLE)
    with target.server.connect(target.database) as old:
        old.autocommit = False
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT 1")
        report = append(target, path, indexes="rebuild")
        assert old.execute("SELECT count(*) FROM t").fetchone() == (OLD,)
        old.rollback()
    assert "copied, not swapped in: a transaction began" in " ".join(report.notes)
    assert found(target) == expected()


def test_a_view_that_cannot_be_made_again(
    postgres_target: PostgresTarget, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows when rows have been copied: these go, and the staged ones come to those that the table has."""
    target = postgres_target
    target.execute(TABLE)
    before = target.rows(SHAPE)

    def refuse(*_: object) -> list[Any]:
        raise psycopg.errors.FeatureNotSupported("no")

    monkeypatch.setattr(views, "_set_aside", refuse)
    report = append(target, path, indexes="rebuild")
    assert "the staged rows were copied, not swapped in: a view of it cannot be made again (no)" in report.notes
    assert found(target) == expected()
    assert target.rows(SHAPE) == before
    assert target.leftovers("t") == set()


def test_rows_of_others_stay(postgres_target: PostgresTarget, path: Path) -> None:
    """What is written while the load runs is copied with the rest, or waits until the rows have moved."""
    target = postgres_target
    target.execute(TABLE + "DELETE FROM t WHERE a <= 10; UPDATE t SET d = 'other' WHERE a = 11;")
    reader = target.server.connect(target.database)
    with reader, target.server.connect(target.database) as writer:
        reader.autocommit = writer.autocommit = False
        reader.execute("SELECT count(*) FROM t")
        thread, results = in_background(target, path)
        try:
            waiting(target, lambda: copies(target))
            reader.rollback()
            # Waits for the transaction that copies, and then writes into the table that has the place.
            writer.execute("INSERT INTO t (a, b) VALUES (1, 'late')")
            writer.commit()
        finally:
            reader.rollback()
            thread.join(60)
    assert [result.status for result in results] == ["loaded"], results
    rows = found(target)
    assert len(rows) == OLD - 10 + 1 + NEW
    assert rows[:2] == [(1, "late", None, "none", 2), (11, "old11", 2.75, "other", 22)]


def test_a_kill_while_rows_are_copied(postgres_target: PostgresTarget, path: Path) -> None:
    target = postgres_target
    target.execute(TABLE)
    options = {"format": "csv", "header": "no", "columns": "a,b,c", "indexes": "rebuild"}
    with target.server.connect(target.database) as reader:
        reader.autocommit = False
        reader.execute("SELECT count(*) FROM t")
        process = start_tipple(*load_words(target.url, (path,), "t", options))
        waiting(target, lambda: copies(target))
        process.signal(signal.SIGKILL)
        process.wait(30)
        reader.rollback()
    waiting(target, lambda: not copies(target))
    assert target.count("t") == OLD
    report = tipple.load(
        str(path), into=target.url, table="t", format="csv", header="no", columns=["a", "b", "c"], indexes="rebuild"
    )
    assert report.status == "loaded"
    assert found(target) == expected()
    assert target.leftovers("t") == set()


@pytest.mark.parametrize("plan", ["auto", "keep", "rebuild"])
def test_partitions(postgres_target: PostgresTarget, path: Path, plan: str) -> None:
    """With more rows than come, a partition stays where it is, unless its indexes are to be built anew."""
    target = postgres_target
    target.execute(
        "CREATE TABLE t (a integer PRIMARY KEY, b text, c numeric) PARTITION BY RANGE (a);"
        f"CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO ({OLD + 200});"
        f"CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM ({OLD + 200}) TO (MAXVALUE);"
        f"INSERT INTO t SELECT i, 'old', 0 FROM generate_series(1, {OLD}) i"
    )
    oids = "SELECT 't_1'::regclass::oid, 't_2'::regclass::oid"
    (before,) = target.rows(oids)
    report = append(target, path, indexes=plan)
    assert report.strategy == ("single" if plan == "keep" else "partition")
    (after,) = target.rows(oids)
    assert [after[n] != before[n] for n in range(2)] == [plan == "rebuild", plan != "keep"]
    assert target.rows("SELECT count(*), count(DISTINCT a), max(a) FROM t") == [(OLD + NEW, OLD + NEW, OLD + NEW)]
    assert target.rows("SELECT count(*) FROM pg_index WHERE indrelid IN ('t_1'::regclass, 't_2'::regclass)") == [(2,)]


def test_a_load_that_has_stored_nothing_is_begun_anew(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """One that goes through the table itself, and was ended there: it would read all from the beginning anyway."""
    target = postgres_target
    target.execute("CREATE TABLE t (a integer PRIMARY KEY); INSERT INTO t VALUES (0)")
    path = write(tmp_path / "in.csv", "1\n2\n")
    with psycopg.connect(target.server.url(dbname=target.database)) as other:
        other.execute("INSERT INTO t VALUES (2)")
        options = {"header": "no", "indexes": "keep"}
        command = start_tipple(*load_words(target.url, (path,), "t", options))
        waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 'tipple%'"
        waiting(target, lambda: bool(target.server.rows(waits)))
        command.signal(signal.SIGINT)
        assert command.wait().exit_code == 130
        other.rollback()
    report = append(target, path, columns=["a"], indexes="rebuild", verify="count")
    assert report.strategy == "swap", report.strategy_reason
    assert [note for note in report.notes if "was begun without --indexes rebuild: began anew" in note]
    assert target.rows("SELECT a FROM t ORDER BY a") == [(0,), (1,), (2,)]
    assert target.leftovers("t") == set()
