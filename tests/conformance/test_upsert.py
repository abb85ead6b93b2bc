"""`--mode upsert`: rows are told apart by their key, and the last record of the files wins."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from faults.oracle import assert_no_sessions
from loading import load, load_here
from targets import DuckdbTarget, PostgresTarget, Target, write

SEED = int(os.environ.get("TIPPLE_SEED", "0"))
COLUMNS = "a integer NOT NULL, b varchar NOT NULL, c integer, d varchar"
OLD = {(i, f"k{i % 3}"): (i, "old") for i in range(100)}


def create(target: Target, constraint: str) -> None:
    target.execute(f"CREATE TABLE t ({COLUMNS}{', ' + constraint if constraint else ''})")
    values = ", ".join(f"({a}, '{b}', {c}, '{d}')" for (a, b), (c, d) in OLD.items())
    target.execute(f"INSERT INTO t VALUES {values}")


def held(target: Target) -> dict[tuple[int, str], tuple[int, str]]:
    rows = target.rows("SELECT a, b, c, d FROM t")
    found = {(a, b): (c, d) for a, b, c, d in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


@pytest.mark.parametrize("constraint", ["PRIMARY KEY (a, b)", ""])
@pytest.mark.parametrize("on_conflict", ["update", "ignore"])
def test_updated_and_inserted(engine_target: Target, tmp_path: Path, on_conflict: str, constraint: str) -> None:
    """Over several files and slices, with keys that come again within and between them."""
    create(engine_target, constraint)
    r = random.Random(SEED)
    staged: dict[tuple[int, str], tuple[int, str]] = {}
    files, read = [], 0
    for number, count in enumerate((250_000, 10, 2_000)):
        lines = []
        for i in range(count):
            key = r.randrange(50, 150_000)
            value = number * 1_000_000 + i
            lines.append(f'{key},k{key % 3},{value},"new {"x" * (i % 40)}"\n')
            staged[(key, f"k{key % 3}")] = (value, f"new {'x' * (i % 40)}")
        read += count
        files.append(write(tmp_path / f"part{number}.csv", "".join(lines)))
    run = load(engine_target, *files, mode="upsert", key="a,b", on_conflict=on_conflict, jobs=2)
    expected = {**OLD, **staged} if on_conflict == "update" else {**staged, **OLD}
    assert held(engine_target) == expected
    matched = len(OLD.keys() & staged.keys())
    assert run.summary is not None
    assert run.summary["slices"] > 1
    assert run.summary["rows_inserted"] == len(staged) - matched
    assert run.summary["rows_updated"] == (matched if on_conflict == "update" else 0)
    assert run.summary["rows_ignored"] == (0 if on_conflict == "update" else matched)
    assert run.summary["rows_superseded"] == read - len(staged)
    assert engine_target.leftovers("t") == set()
    again = load(engine_target, *files, mode="upsert", key="a,b", on_conflict=on_conflict, jobs=2)
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"


@pytest.mark.parametrize("data", ["1,k1,5,x\n", "500,k0,1,x\n500,k0,2,y\n"])
def test_error_on_conflict(engine_target: Target, tmp_path: Path, data: str) -> None:
    create(engine_target, "PRIMARY KEY (a, b)")
    path = write(tmp_path / "in.csv", "700,k1,1,z\n" + data)
    run = load(engine_target, path, mode="upsert", key="a,b", on_conflict="error", check=1)
    assert data.split(",")[0] in run.stderr
    assert held(engine_target) == OLD
    assert engine_target.leftovers("t") == set()
    load(engine_target, path, mode="upsert", key="a,b", on_conflict="update")


def test_a_subset_of_columns(engine_target: Target, tmp_path: Path) -> None:
    """Columns that the files do not have keep their values, or get their defaults."""
    engine_target.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer DEFAULT 7, c varchar)")
    engine_target.execute("INSERT INTO t VALUES (1, 1, 'one')")
    path = write(tmp_path / "in.csv", "c,a\neins,1\nzwei,2\n")
    load(engine_target, path, mode="upsert", key="a", header="match")
    assert sorted(engine_target.rows("SELECT * FROM t")) == [(1, 1, "eins"), (2, 7, "zwei")]


def test_only_keys(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer PRIMARY KEY)")
    engine_target.execute("INSERT INTO t VALUES (1)")
    run = load(engine_target, write(tmp_path / "in.csv", "1\n2\n2\n"), mode="upsert", key="a")
    assert sorted(engine_target.rows("SELECT a FROM t")) == [(1,), (2,)]
    assert run.summary is not None
    assert (run.summary["rows_inserted"], run.summary["rows_ignored"], run.summary["rows_superseded"]) == (1, 1, 1)


@pytest.mark.parametrize("unique", ["", ", UNIQUE (a)"])
def test_a_key_is_never_null(engine_target: Target, tmp_path: Path, unique: str) -> None:
    """Also where the table itself would take it, and no constraint is to blame."""
    engine_target.execute(f"CREATE TABLE t (a integer, b integer{unique})")
    if unique and engine_target.engine == "postgresql":
        engine_target.execute("DROP TABLE t; CREATE TABLE t (a integer, b integer, UNIQUE NULLS NOT DISTINCT (a))")
    path = write(tmp_path / "in.csv", "1,1\n,2\n")
    said = load(engine_target, path, mode="upsert", key="a", check=1).stderr
    for part in ("23502", "record    2", "column    a", "a key column of an upsert takes no NULL", "out of --key"):
        assert part in said
    assert "constraint" not in said
    rejects = tmp_path / "bad.csv"
    load(engine_target, path, mode="upsert", key="a", on_error="skip", max_rejects=1, rejects=rejects, check=3)
    assert engine_target.rows("SELECT * FROM t") == [(1, 1)]
    reasons = Path(f"{rejects}.reasons.csv").read_text()
    assert "takes no NULL" in reasons
    assert "constraint" not in reasons


def test_a_key_that_a_constraint_keeps_from_being_null(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer NOT NULL, b integer)")
    path = write(tmp_path / "in.csv", "1,1\n,2\n")
    assert "violates not-null constraint" in load(engine_target, path, mode="upsert", key="a", check=1).stderr


def test_a_new_table(engine_target: Target, tmp_path: Path) -> None:
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (a integer PRIMARY KEY, b integer)")
    path = write(tmp_path / "in.csv", "1,1\n1,2\n3,3\n")
    load(engine_target, path, mode="upsert", key="a", schema=schema)
    assert sorted(engine_target.rows("SELECT * FROM t")) == [(1, 2), (3, 3)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "upsert"}, "--key"),
        ({"key": "a"}, "--mode upsert"),
        ({"mode": "upsert", "key": "nowhere"}, "nowhere"),
        ({"mode": "upsert", "key": "a", "no_atomic": True}, "--no-atomic"),
    ],
)
def test_mistakes(engine_target: Target, tmp_path: Path, options: dict[str, object], said: str) -> None:
    create(engine_target, "")
    run = load(engine_target, write(tmp_path / "in.csv", "1,k1,1,x\n"), check=2, **options)  # type: ignore[arg-type]
    assert said in run.stderr


def test_partitions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Rows go to their partitions, and partitions without a staged key are not read to find those that they update."""
    postgres_target.execute(
        """
        CREATE TABLE t (a integer, day date, v integer, PRIMARY KEY (a, day)) PARTITION BY RANGE (day);
        CREATE TABLE t1 PARTITION OF t FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
        CREATE TABLE t2 PARTITION OF t FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');
        CREATE TABLE t3 PARTITION OF t FOR VALUES FROM ('2022-01-01') TO ('2023-01-01');
        INSERT INTO t VALUES (1, '2020-05-05', 1), (2, '2021-05-05', 1), (3, '2022-05-05', 1);
        """
    )
    # Without indexes nothing but the range of the keys, which is known when the query is planned, keeps one from
    # being read.
    for way in ("indexscan", "indexonlyscan", "bitmapscan"):
        postgres_target.execute(f"ALTER DATABASE {postgres_target.database} SET enable_{way} = off")
    postgres_target.execute("SELECT pg_stat_force_next_flush()")
    reads = "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname LIKE 't_' ORDER BY 1"
    before = dict(postgres_target.rows(reads))
    path = write(tmp_path / "in.csv", "1,2020-05-05,10\n2,2021-05-05,20\n9,2021-05-06,90\n")
    run = load(postgres_target, path, mode="upsert", key="a,day")
    # Sessions tell what they have read when they end.
    assert_no_sessions(postgres_target)
    read = {name: times - before[name] for name, times in postgres_target.rows(reads)}
    assert read["t1"] == read["t2"] > read["t3"] == 0
    assert sorted(postgres_target.rows("SELECT a, v FROM t")) == [(1, 10), (2, 20), (3, 1), (9, 90)]
    assert run.summary is not None
    assert (run.summary["rows_inserted"], run.summary["rows_updated"]) == (1, 2)


def test_a_constraint_of_the_table(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What the merge itself violates ends the load, and leaves nothing behind."""
    postgres_target.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer CHECK (b > 0))")
    run = load(postgres_target, write(tmp_path / "in.csv", "1,1\n2,-1\n"), mode="upsert", key="a", check=1)
    assert "23514" in run.stderr
    assert postgres_target.count("t") == 0
    assert postgres_target.leftovers("t") == set()


@pytest.mark.parametrize("on_conflict", ["update", "ignore"])
def test_a_key_that_the_table_has_twice(tmp_path: Path, on_conflict: str) -> None:
    """Where nothing makes it unique, all its rows are updated, and each of them is counted."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    target.execute("CREATE TABLE t (k integer, v integer); INSERT INTO t VALUES (1, 1), (1, 2), (2, 3)")
    path = write(tmp_path / "in.csv", "1,5\n3,4\n3,6\n")
    run = load_here(target, path, mode="upsert", key="k", on_conflict=on_conflict)
    updates = on_conflict == "update"
    kept = [(1, 5), (1, 5), (2, 3), (3, 6)] if updates else [(1, 1), (1, 2), (2, 3), (3, 6)]
    assert sorted(target.rows("SELECT k, v FROM t")) == kept
    assert run.summary is not None
    counts = {name: run.summary[f"rows_{name}"] for name in ("inserted", "updated", "ignored", "superseded")}
    assert counts == {"inserted": 1, "updated": 2 * updates, "ignored": int(not updates), "superseded": 1}


@pytest.mark.parametrize(
    ("kind", "equal"), [("double", ["-0", "0"]), ("double", ["0", "-0"]), ("interval", ["1 month", "30 days"])]
)
def test_the_last_record_gives_the_key_too(tmp_path: Path, kind: str, equal: list[str]) -> None:
    """Keys that are equal and not the same, among records that are all new."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    target.execute(f"CREATE TABLE t (k {kind}, v integer)")
    path = write(tmp_path / "in.csv", f"{equal[0]},1\n{equal[1]},2\n")
    load_here(target, path, mode="upsert", key="k", format="csv", header="no")
    stored = target.rows("SELECT CAST(k AS varchar), v FROM t")
    assert stored == target.rows(f"SELECT CAST(CAST('{equal[1]}' AS {kind}) AS varchar), 2")


@pytest.mark.parametrize("name", ["rowid", "RowId"])
def test_a_column_that_hides_the_order(tmp_path: Path, name: str) -> None:
    """DuckDB's `rowid` says which record is the last: a column of that name is refused, never a wrong record stored."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute(f'CREATE TABLE t (k integer, "{name}" integer, v varchar)')
    path = write(tmp_path / "in.csv", "1,5,first\n1,3,last\n")
    run = load(target, path, mode="upsert", key="k", header="no", check=2)
    assert "rowid" in run.output
    assert target.count("t") == 0
    write(path, "1,first\n1,last\n")
    load(target, path, mode="upsert", key="k", header="no", columns="k,v")
    assert target.rows("SELECT k, v FROM t") == [(1, "last")]
