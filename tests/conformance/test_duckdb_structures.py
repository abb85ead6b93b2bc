"""`--structure` on DuckDB, seen with DuckDB's own eyes."""

from __future__ import annotations

import gzip
import itertools
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tipple
from loading import load, load_here
from targets import DuckdbTarget, Row, lines, write
from tipple.engines.base import NOTHING_TO_DO
from tipple.engines.duckdb.row_groups import ROW_GROUP_ROWS, planned

ROWS = 400_000
SCHEMA = "CREATE TABLE t (id integer NOT NULL, day date, note varchar);"


@pytest.fixture
def target(tmp_path: Path) -> DuckdbTarget:
    return DuckdbTarget(tmp_path / "target.duckdb")


@pytest.fixture(scope="module")
def shuffled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each id once, in no order."""
    ids = list(range(ROWS))
    random.Random(1).shuffle(ids)
    text = lines([(n, f"{1990 + n % 10}-01-{1 + n % 28:02}", f"note {n}") for n in ids])
    return write(tmp_path_factory.mktemp("shuffled") / "in.csv", text)


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    return write(tmp_path / "schema.sql", SCHEMA)


def row_groups(target: DuckdbTarget, column: str = "id") -> list[tuple[int, int]]:
    """Least and largest value of each segment, in the order in which they are stored."""
    rows = target.rows(
        "SELECT CAST(stats.min AS integer), CAST(stats.max AS integer) FROM pragma_storage_info('t') "
        f"WHERE column_name = '{column}' AND segment_type <> 'VALIDITY' ORDER BY row_group_id, start"
    )
    return [(low, high) for low, high in rows]


def constraints(target: DuckdbTarget) -> list[Row]:
    return target.rows(
        "SELECT constraint_type, constraint_column_names FROM duckdb_constraints() "
        "WHERE table_name = 't' AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')"
    )


@pytest.mark.parametrize("mode", ["create", "replace"])
def test_sorted(target: DuckdbTarget, shuffled: Path, schema: Path, mode: str) -> None:
    """Rows lie in the order of the key, so that what DuckDB keeps of row groups tells them apart."""
    if mode == "replace":
        target.execute(SCHEMA + "INSERT INTO t SELECT i, NULL, 'old' FROM range(1000) r (i)")
    run = load(
        target, shuffled, schema=schema, mode=mode, structure="sorted", key="id", jobs=2, verify="checksum",
        memory_limit="160MB",
    )  # fmt: skip
    assert run.summary is not None
    assert run.summary["structure"]["structure"] == "sorted"
    assert run.summary["structure"]["key"] == ["id"]
    assert run.summary["processing_seconds"] > 0
    assert {"duckdb_memory_limit", "duckdb_temp_directory"} <= run.summary["settings"].keys()
    assert target.value("SELECT list(id ORDER BY rowid) = list(id ORDER BY id) FROM t")
    groups = row_groups(target)
    assert len(groups) >= 3
    assert all(before[1] < after[0] for before, after in itertools.pairwise(groups)), groups
    assert target.count("t") == ROWS


def test_unsorted_row_groups_overlap(target: DuckdbTarget, shuffled: Path, schema: Path) -> None:
    """What the test before this one would find without sorting."""
    load(target, shuffled, schema=schema, structure="columnstore", jobs=2)
    groups = row_groups(target)
    assert any(before[1] >= after[0] for before, after in itertools.pairwise(groups)), groups


def test_sorted_by_several_columns(target: DuckdbTarget, shuffled: Path, schema: Path) -> None:
    load(target, shuffled, schema=schema, structure="sorted", key="day,id", jobs=2)
    assert target.value("SELECT list((day, id) ORDER BY rowid) = list((day, id) ORDER BY day, id) FROM t")


def test_sorted_table_with_rows(target: DuckdbTarget, shuffled: Path) -> None:
    target.execute(SCHEMA + "INSERT INTO t VALUES (1, NULL, NULL)")
    run = load_here(target, shuffled, structure="sorted", key="id", check=2)
    assert "--mode replace" in run.stderr
    assert target.count("t") == 1


@pytest.mark.parametrize("load_as", ["auto", "heap", "btree"])
@pytest.mark.parametrize("before", ["missing", "empty", "old rows"])
def test_btree(target: DuckdbTarget, tmp_path: Path, schema: Path, load_as: str, before: str) -> None:
    if before != "missing":
        target.execute(SCHEMA + "CREATE INDEX t_note ON t (note)")
    if before == "old rows":
        target.execute("INSERT INTO t SELECT i, NULL, 'old' FROM range(100) r (i)")
    path = write(tmp_path / "in.csv", lines([(n, "2000-01-01", "x") for n in range(1000)]))
    options: dict[str, Any] = {"mode": "replace"} if before == "old rows" else {}
    run = load_here(target, path, schema=schema, structure="btree", load_as=load_as, key="id", **options)
    assert run.summary is not None
    assert run.summary["structure"]["load_as"] == ("btree" if load_as == "btree" else "heap")
    assert constraints(target) == [("PRIMARY KEY", ["id"])]
    assert target.rows("SELECT count(*), min(note) FROM t") == [(1000, "x")]
    if before != "missing":
        assert target.value("SELECT count(*) FROM duckdb_indexes() WHERE index_name = 't_note'") == 1
    # The table has the key now: more rows go into it as it is.
    more = write(tmp_path / "more.csv", "5000,2000-01-01,x\n")
    again = load_here(target, more, structure="btree", key="id")
    assert again.summary is not None
    assert again.summary["structure"]["load_as"] == "btree"


def test_btree_of_the_schema(target: DuckdbTarget, tmp_path: Path) -> None:
    """The schema's primary key, which is left out while rows come in; its other constraints are not."""
    schema = write(
        tmp_path / "schema.sql", "CREATE TABLE t (id integer PRIMARY KEY, n integer CHECK (n > 0), UNIQUE (n));"
    )
    path = write(tmp_path / "in.csv", lines([(n, n + 1) for n in range(1000)]))
    load_here(target, path, schema=schema, structure="btree")
    assert sorted(constraints(target)) == [("PRIMARY KEY", ["id"]), ("UNIQUE", ["n"])]
    bad = write(tmp_path / "bad.csv", "2000,-1\n")
    assert load_here(target, bad, check=1).stderr


def test_btree_with_nulls_is_unique(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    """A column that takes NULL makes no primary key."""
    path = write(tmp_path / "in.csv", lines([(n, "", f"x{n}") for n in range(10)]))
    load_here(target, path, schema=schema, structure="btree", key="note")
    assert constraints(target) == []
    assert target.value("SELECT is_unique FROM duckdb_indexes() WHERE table_name = 't'")


@pytest.mark.parametrize(
    ("structure", "key"), [("sorted", "id"), ("sorted", "note"), ("btree", "id"), ("btree", "note")]
)
def test_the_same_command_twice(target: DuckdbTarget, tmp_path: Path, schema: Path, structure: str, key: str) -> None:
    path = write(tmp_path / "in.csv", lines([(n, "", f"x{n}") for n in range(10)]))
    options: dict[str, Any] = {"schema": schema, "structure": structure, "key": key}
    statuses = []
    for _ in range(2):
        done = load_here(target, path, **options)
        assert done.summary is not None
        statuses.append(done.summary["status"])
    assert statuses == ["loaded", "already loaded"]
    plan = load_here(target, path, dry_run=True, **options)
    assert plan.summary is not None
    assert plan.summary["strategy"] == NOTHING_TO_DO
    job = write(
        tmp_path / "job.toml",
        f"[tables.t]\nsources='{path}'\ninto='{target.url}'\nschema='{schema}'\n"
        f"structure='{structure}'\nkey=['{key}']\n",
    )
    assert tipple.run(job).tables[0].status == "already loaded"
    assert target.count("t") == 10
    if structure == "sorted":
        for more in ({}, {"dry_run": True}):
            refused = load_here(target, path, restart=True, **options, **more, check=2)
            assert "already has rows" in refused.stderr


@pytest.mark.parametrize("key", ["id", "note"])
def test_btree_that_is_there_takes_more_rows(target: DuckdbTarget, tmp_path: Path, schema: Path, key: str) -> None:
    """A unique index is the key of a column that takes NULL, and stays the only one."""
    first = write(tmp_path / "in.csv", lines([(n, "", f"x{n}") for n in range(10)]))
    second = write(tmp_path / "more.csv", lines([(n, "", f"x{n}") for n in range(10, 15)]))
    options: dict[str, Any] = {"structure": "btree", "key": key}
    load_here(target, first, schema=schema, **options)
    load_here(target, second, **options)
    assert target.count("t") == 15
    load_here(target, second, mode="replace", **options)
    assert target.count("t") == 5
    indexes = target.value("SELECT count(*) FROM duckdb_indexes() WHERE table_name = 't'")
    assert (len(constraints(target)), indexes) == ((1, 0) if key == "id" else (0, 1))


@pytest.mark.parametrize("load_as", ["heap", "btree"])
def test_btree_keeps_comments(target: DuckdbTarget, tmp_path: Path, load_as: str) -> None:
    """A table that had rows is made anew for its key."""
    target.execute(
        SCHEMA + "INSERT INTO t VALUES (1, NULL, 'old'); CREATE INDEX t_note ON t (note);"
        "COMMENT ON TABLE t IS 'Ann''s table'; COMMENT ON COLUMN t.note IS 'a note'; COMMENT ON INDEX t_note IS 'i'"
    )
    path = write(tmp_path / "in.csv", lines([(n, "2000-01-01", f"x{n}") for n in range(10)]))
    load_here(target, path, mode="replace", structure="btree", load_as=load_as, key="id")
    assert constraints(target) == [("PRIMARY KEY", ["id"])]
    assert target.value("SELECT comment FROM duckdb_tables() WHERE table_name = 't'") == "Ann's table"
    commented = "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 't' AND comment IS NOT NULL"
    assert target.rows(commented) == [("note", "a note")]
    assert target.value("SELECT comment FROM duckdb_indexes() WHERE index_name = 't_note'") == "i"


def test_btree_with_duplicates(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    path = write(tmp_path / "in.csv", "1,,\n2,,\n1,,\n")
    for load_as in ("heap", "btree"):
        run = load_here(target, path, schema=schema, structure="btree", load_as=load_as, key="id", check=1)
        assert "nothing was published" in run.stderr
        assert "constraint" in run.stderr
        assert target.leftovers() == set()


def test_no_key(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    path = write(tmp_path / "in.csv", "1,,\n")
    for structure in ("btree", "sorted"):
        run = load_here(target, path, schema=schema, structure=structure, check=2)
        assert "--key" in run.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"structure": "heap"}, "columnstore"),
        ({"structure": "memory"}, "duckdb:///:memory:"),
        ({"structure": "sorted", "key": "id", "no_atomic": True}, "--no-atomic"),
        ({"structure": "sorted", "key": "id", "load_as": "heap"}, "auto"),
        ({"structure": "btree", "key": "id", "load_as": "memory"}, "heap"),
        ({"structure": "sorted", "key": "nothing"}, "nothing"),
    ],
)
def test_wrong_usage(
    target: DuckdbTarget, tmp_path: Path, schema: Path, options: dict[str, object], words: str
) -> None:
    run = load_here(target, write(tmp_path / "in.csv", "1,,\n"), schema=schema, check=2, **options)
    assert words in run.stderr
    assert target.leftovers() == set()


def test_memory(tmp_path: Path, schema: Path) -> None:
    """In a database in memory everything is; the loss is said in the report, and loudly where people look."""
    path = write(tmp_path / "in.csv", "1,,x\n")
    report = tipple.load(path, into="duckdb:///:memory:", table="in_memory", schema=_named(schema), structure="memory")
    assert report.structure is not None
    assert not report.structure.durable
    assert any("lost when this process ends" in note for note in report.notes)
    assert tipple.memory_connection().execute("SELECT count(*) FROM in_memory").fetchall() == [(1,)]
    run = load(
        "duckdb:///:memory:", path, table="in_memory", schema=_named(schema), structure="memory", progress="plain"
    )
    assert "lost when this process ends" in run.stderr


def _named(schema: Path) -> Path:
    return write(schema.with_name("memory.sql"), SCHEMA.replace("TABLE t", "TABLE in_memory"))


@pytest.mark.parametrize("form", ["csv", "gz", "parquet"])
def test_few_rows_are_stored_once(tmp_path: Path, target: DuckdbTarget, form: str) -> None:
    """Threads that end with a row group that is not full have them joined, which leaves a hole in the file."""
    rows = 4 * ROW_GROUP_ROWS + 5_000
    table = pa.table({"a": range(rows), "b": [f"{random.getrandbits(80):x}" for _ in range(rows)]})
    path = tmp_path / f"in.{form}"
    if form == "parquet":
        pq.write_table(table, path, row_group_size=rows // 7)
    else:
        text = lines(zip(*(column.to_pylist() for column in table.columns), strict=True)).encode()
        path.write_bytes(gzip.compress(text, 1) if form == "gz" else text)
    target.execute("CREATE TABLE t (a integer, b varchar)")
    run = load_here(target, path, verify="checksum")
    assert run.summary is not None
    assert run.summary["settings"]["preserve_insertion_order"] == "false"
    assert target.count("t") == rows
    assert len(row_groups(target, "a")) == 5
    [(blocks, free_blocks)] = target.rows("SELECT total_blocks, free_blocks FROM pragma_database_size()")
    assert free_blocks < blocks // 10


def test_which_batches_are_whole_row_groups() -> None:
    few = {"rows": ROW_GROUP_ROWS, "count": 12, "most_bytes": 2**30 // 5}
    assert planned(4, "16.0 GiB", in_order=False) == few
    assert planned(4, "16.0 GiB", in_order=True) == few | {"count": None}
    assert planned(1, "16.0 GiB", in_order=False) is None
    assert planned(4, "no limit at all", in_order=False) is None


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_record_that_repeats_the_key_of_a_btree(target: DuckdbTarget, tmp_path: Path, mode: str) -> None:
    """The key is made when all rows are in, and DuckDB then names no record."""
    target.execute("CREATE TABLE t (id integer NOT NULL, v varchar); CREATE INDEX i ON t (v)")
    if mode == "replace":
        target.execute("INSERT INTO t VALUES (9, 'old')")
    before = target.rows("SELECT * FROM t")
    path = write(tmp_path / "in.csv", "1,a\n2,b\n1,c\n")
    options = {"structure": "btree", "key": ["id"], "header": "no", "mode": mode}
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load(path, into=target.url, table="t", **options)
    assert (caught.value.record_number, caught.value.sqlstate) == (3, "23505")
    assert target.rows("SELECT * FROM t") == before
    write(path, "1,a\n2,b\n")
    report = tipple.load(path, into=target.url, table="t", **options)
    assert report.structure is not None
    assert target.sorted_rows("t") == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("column_type", "values"),
    [
        ("HUGEINT", ["-100", "9", "10"]),
        ("INTEGER[2]", ["[-5, 1]", "[9, 1]", "[10, 1]"]),
        ("ENUM ('low', 'high')", ["low", "low", "high"]),
        ("TIMETZ", ["10:00:00+05", "09:00:00+00", "10:00:00+00"]),
    ],
)
def test_sorted_is_by_what_is_stored(target: DuckdbTarget, tmp_path: Path, column_type: str, values: list[str]) -> None:
    """Not by how it is written."""
    write(tmp_path / "t.sql", f"CREATE TABLE t (e {column_type});")
    write(tmp_path / "in.tsv", "".join(f"{value}\n" for value in reversed(values)))
    load(
        target, tmp_path / "in.tsv", table="t", schema=tmp_path / "t.sql", format="text", header="no",
        structure="sorted", key="e",
    )  # fmt: skip
    assert target.rows("SELECT e::VARCHAR FROM t ORDER BY rowid") == target.rows("SELECT e::VARCHAR FROM t ORDER BY e")
    assert target.rows("SELECT e::VARCHAR FROM t ORDER BY rowid") != [(value,) for value in reversed(values)]


def test_sorted_where_records_are_judged_from_a_stream(target: DuckdbTarget) -> None:
    """What can be read but once is stored beside the table first, and goes from there in its order."""
    target.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    rows = pa.table({"id": [*range(99, 0, -1), 7], "v": [1] * 100})
    report = tipple.load(
        rows.to_reader(), into=target.url, table="t", structure="sorted", key=["id"], on_error="skip", max_rejects=1,
        rejects=target.path.with_name("bad"), progress="none",
    )  # fmt: skip
    assert report.rejects == 1
    assert target.rows("SELECT id FROM t ORDER BY rowid") == [(number,) for number in range(1, 100)]


def test_a_key_takes_no_triggers_away(target: DuckdbTarget, tmp_path: Path) -> None:
    target.execute("CREATE TABLE t (id integer); CREATE TABLE seen (id integer)")
    target.execute(
        "CREATE TRIGGER sees AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH STATEMENT "
        "INSERT INTO seen SELECT id FROM n"
    )
    path = write(tmp_path / "a.csv", "1\n2\n")
    refused = load_here(target, path, structure="btree", key="id", check=2)
    assert "would lose its triggers: sees" in " ".join(refused.stderr.split())
    refused = load_here(target, path, mode="upsert", key="id", check=2)
    assert "DuckDB merges no rows into a table with triggers: sees" in " ".join(refused.stderr.split())
    load_here(target, path, structure="sorted", key="id", mode="replace")
    assert target.rows("SELECT trigger_name FROM duckdb_triggers()") == [("sees",)]
    assert target.sorted_rows("seen") == [(1,), (2,)]
