"""--structure and --load-as on PostgreSQL: what a table is in the end is looked up in the server's own catalog."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tipple
from conformance.test_partitions import check_tidy
from faults.oracle import assert_no_sessions
from loading import load_here as load
from loading import load_text_here as load_text
from targets import PostgresTarget, write
from tipple.errors import UsageError
from tipple.plan.schema import parse_schema
from tipple.plan.structure import FORMS, KEYED, LOAD_AS, STRUCTURES, parse_structure
from tipple.report.render import plain_text

SCHEMA = "CREATE TABLE t (a integer NOT NULL, day date NOT NULL, b text);"
KEYED_SCHEMA = "CREATE TABLE t (a integer PRIMARY KEY, day date NOT NULL, b text, UNIQUE (a, day), CHECK (a >= 0));"
ROWS = 12_000


def text_of(count: int = ROWS, seed: int = 1, first: int = 0) -> str:
    """Unique numbers in no order, with days of three years."""
    keys = list(range(first, first + count))
    random.Random(seed).shuffle(keys)
    return "".join(f"{a},{1995 + a % 3}-{a % 12 + 1:02}-{a % 28 + 1:02},x{a}\n" for a in keys)


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    return write(tmp_path / "schema.sql", SCHEMA)


@pytest.fixture
def keyed(tmp_path: Path) -> Path:
    return write(tmp_path / "keyed.sql", KEYED_SCHEMA)


@pytest.fixture
def access_method(postgres_target: PostgresTarget) -> Iterator[str]:
    """The server's heap by another name: whatever converts into it really converts."""
    postgres_target.server.execute(
        "CREATE ACCESS METHOD my_am TYPE TABLE HANDLER heap_tableam_handler", postgres_target.database
    )
    yield "my_am"
    postgres_target.execute("DROP TABLE IF EXISTS t")


def forms(target: PostgresTarget, table: str = "t") -> set[tuple[str, str]]:
    """Persistence and access method of a table, or of all its partitions."""
    return set(
        target.rows(
            "SELECT relpersistence::text, amname::text FROM pg_class c JOIN pg_am m ON m.oid = c.relam "
            f"WHERE c.relkind = 'r' AND (c.oid = '{table}'::regclass OR c.oid IN "
            f"(SELECT relid FROM pg_partition_tree('{table}'::regclass)))"
        )
    )


def indexes(target: PostgresTarget) -> list[tuple[str, str]]:
    """Name and access method of all indexes."""
    return target.rows(
        "SELECT c.relname::text, amname::text FROM pg_class c JOIN pg_am m ON m.oid = c.relam "
        "WHERE relkind IN ('i', 'I') AND relnamespace = 'public'::regnamespace ORDER BY 1"
    )  # type: ignore[return-value]


def is_in_order(target: PostgresTarget, key: str, table: str = "t") -> bool:
    """Whether the rows lie in the table's file in the order of the key."""
    earlier = f"SELECT lag({key}) OVER (ORDER BY ctid) <= {key} AS fits FROM {table}"
    return bool(target.value(f"SELECT bool_and(coalesce(fits, true)) FROM ({earlier}) x"))


PARTITIONED = "range(day, every=year)"


@pytest.mark.parametrize(("load_as", "partition_by"), [("auto", None), ("memory", None), ("memory", PARTITIONED)])
def test_heap(
    postgres_target: PostgresTarget, tmp_path: Path, schema: Path, load_as: str, partition_by: str | None
) -> None:
    run = load_text(
        postgres_target, tmp_path / "in.csv", text_of(), schema=schema, structure="heap", load_as=load_as,
        partition_by=partition_by, verify="checksum",
    )  # fmt: skip
    assert forms(postgres_target) == {("p", "heap")}
    assert postgres_target.count("t") == ROWS
    applied = run.summary["structure"]
    assert (applied["structure"], applied["load_as"]) == ("heap", "memory" if load_as == "memory" else "heap")
    assert applied["durable"]
    assert run.summary["verify"]["kind"] == "checksum"
    assert not any("LOST" in note for note in run.summary["notes"])
    assert load(
        postgres_target, tmp_path / "in.csv", schema=schema, structure="heap", load_as=load_as,
        partition_by=partition_by,
    ).summary["status"] == "already loaded"  # fmt: skip
    check_tidy(postgres_target)


@pytest.mark.parametrize("partition_by", [None, PARTITIONED])
def test_memory(postgres_target: PostgresTarget, tmp_path: Path, schema: Path, partition_by: str | None) -> None:
    options = {"schema": schema, "structure": "memory", "partition_by": partition_by}
    run = load_text(postgres_target, tmp_path / "in.csv", text_of(), **options)
    assert forms(postgres_target) == {("u", "heap")}
    assert run.summary["structure"]["durable"] is False
    assert sum("ALL ITS ROWS ARE LOST" in note for note in run.summary["notes"]) == 1
    assert load(postgres_target, tmp_path / "in.csv", **options).summary["status"] == "already loaded"
    # It has rows, and is what is asked for: rows go in beside them.
    more = load_text(postgres_target, tmp_path / "more.csv", text_of(100, first=ROWS), **options)
    assert postgres_target.count("t") == ROWS + 100
    assert forms(postgres_target) == {("u", "heap")}
    assert more.summary["structure"]["reason"].startswith("the table is so already")
    # Made anew it can become another.
    load(postgres_target, tmp_path / "in.csv", structure="heap", mode="replace")
    assert forms(postgres_target) == {("p", "heap")}
    assert postgres_target.count("t") == ROWS
    check_tidy(postgres_target)


@pytest.mark.parametrize("load_as", ["auto", "memory"])
def test_sorted(postgres_target: PostgresTarget, tmp_path: Path, schema: Path, load_as: str) -> None:
    run = load_text(
        postgres_target, tmp_path / "in.csv", text_of(), schema=schema, structure="sorted", key="a", load_as=load_as,
        verify="checksum",
    )  # fmt: skip
    assert is_in_order(postgres_target, "a")
    assert forms(postgres_target) == {("p", "heap")}
    assert indexes(postgres_target) == [("t_a_brin", "brin")]
    assert postgres_target.value("SELECT pg_relation_size('t_a_brin') * 5 < pg_relation_size('t')")
    postgres_target.execute("ANALYZE t; SET enable_seqscan = off")
    plan = "\n".join(
        line for (line,) in postgres_target.rows("EXPLAIN (ANALYZE) SELECT * FROM t WHERE a BETWEEN 100 AND 120")
    )
    assert "Bitmap Index Scan on t_a_brin" in plan
    assert run.summary["structure"]["key"] == ["a"]
    assert {"maintenance_work_mem", "synchronous_commit"} <= set(run.summary["settings"])
    check_tidy(postgres_target)


def test_sorted_sorts_on_disk(
    postgres_target: PostgresTarget, tmp_path: Path, schema: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With less memory than rows (half of the page cache, 16 MB), by several columns, one of them with NULLs."""
    monkeypatch.setattr("tipple.engines.postgresql.indexes.LEAST_MEMORY_BYTES", 1 << 20)
    # By that setting a server sorts as one with large tables does, and does not read them in the order of an index.
    for setting in ("maintenance_work_mem = '1MB'", "enable_indexscan = off"):
        postgres_target.execute(f"ALTER DATABASE {postgres_target.database} SET {setting}")
    text = text_of(30_000).replace(",x1", ",").replace(",x", f",{'x' * 1500}")
    load_text(postgres_target, tmp_path / "in.csv", text, schema=schema, structure="sorted", key="day,b", null="")
    assert (is_in_order(postgres_target, "day"), postgres_target.count("t")) == (True, 30_000)
    assert_no_sessions(postgres_target)
    spilt = "SELECT temp_bytes > 16 * 1024 ^ 2 FROM pg_stat_database WHERE datname = current_database()"
    assert postgres_target.value(spilt)


def test_sorted_partitions(postgres_target: PostgresTarget, tmp_path: Path, schema: Path) -> None:
    options: dict[str, Any] = {"structure": "sorted", "key": "a", "partition_by": PARTITIONED}
    load_text(postgres_target, tmp_path / "in.csv", text_of(), schema=schema, **options)
    years = [f"t_{year}_01_01" for year in (1995, 1996, 1997)]
    for year in years:
        assert is_in_order(postgres_target, "a", year)
    expected = sorted([("t_a_brin", "brin"), *((f"{year}_a_brin", "brin") for year in years)])
    assert indexes(postgres_target) == expected
    assert postgres_target.value("SELECT indisvalid FROM pg_index WHERE indexrelid = 't_a_brin'::regclass")
    check_tidy(postgres_target)
    # All anew, and only the year that the source has.
    load_text(postgres_target, tmp_path / "again.csv", text_of(seed=2), mode="replace", **options)
    one = "".join(line for line in text_of(seed=3).splitlines(True) if ",1996" in line)
    run = load_text(postgres_target, tmp_path / "one.csv", one, mode="replace", replace_scope="partitions", **options)
    assert run.summary["rows"] == ROWS // 3
    assert postgres_target.count("t") == ROWS
    for year in years:
        assert is_in_order(postgres_target, "a", year)
    assert indexes(postgres_target) == expected
    check_tidy(postgres_target)
    run = load_text(postgres_target, tmp_path / "more.csv", text_of(5, first=ROWS), check=2, **options)
    assert "cannot become sorted" in run.stderr
    assert "--mode replace" in run.stderr


@pytest.mark.parametrize(
    ("load_as", "key", "expected"),
    [
        ("auto", None, ["t_a_day_key", "t_pkey"]),
        ("btree", None, ["t_a_day_key", "t_pkey"]),
        ("btree", "day,a", ["t_a_day_key", "t_day_a_key", "t_pkey"]),
        ("memory", "day,a", ["t_a_day_key", "t_day_a_key", "t_pkey"]),
    ],
)
def test_btree_of_a_schema(
    postgres_target: PostgresTarget, tmp_path: Path, keyed: Path, load_as: str, key: str | None, expected: list[str]
) -> None:
    run = load_text(
        postgres_target, tmp_path / "in.csv", text_of(), schema=keyed, structure="btree", load_as=load_as, key=key,
        verify="checksum",
    )  # fmt: skip
    assert [name for name, _ in indexes(postgres_target)] == expected
    assert postgres_target.value("SELECT count(*) FROM pg_constraint WHERE conrelid = 't'::regclass AND contype = 'c'")
    assert forms(postgres_target) == {("p", "heap")}
    assert run.summary["structure"]["key"] == (["day", "a"] if key else ["a"])
    check_tidy(postgres_target)


@pytest.mark.parametrize("load_as", ["auto", "btree"])
def test_btree_of_a_table(postgres_target: PostgresTarget, tmp_path: Path, load_as: str) -> None:
    postgres_target.execute("CREATE TABLE t (a integer NOT NULL, day date, b text, CONSTRAINT mine UNIQUE (a, b))")
    text = text_of(1000)
    load_text(postgres_target, tmp_path / "in.csv", text, structure="btree", key="a", load_as=load_as)
    assert indexes(postgres_target) == [("mine", "btree"), ("t_pkey", "btree")]
    # Now it has that key: more rows may come, and a key that accepts NULL is a unique one.
    load_text(postgres_target, tmp_path / "more.csv", text_of(10, first=1000), structure="btree", key="a")
    load_text(postgres_target, tmp_path / "in.csv", text, structure="btree", key="b,day", mode="replace")
    load_text(postgres_target, tmp_path / "n.csv", text, structure="btree", key="a,b", mode="replace", load_as=load_as)
    assert indexes(postgres_target) == [("mine", "btree"), ("t_b_day_key", "btree"), ("t_pkey", "btree")]
    assert postgres_target.count("t") == 1000
    check_tidy(postgres_target)


@pytest.mark.parametrize("load_as", ["btree", "heap"])
@pytest.mark.parametrize("mode", ["append", "replace"])
def test_btree_keeps_how_the_index_is_stored(
    postgres_target: PostgresTarget, tmp_path: Path, mode: str, load_as: str
) -> None:
    kept = (
        "UNIQUE (a) WITH (fillfactor='50') DEFERRABLE",
        "CREATE UNIQUE INDEX k ON public.t USING btree (a) WITH (fillfactor='50')",
    )
    postgres_target.execute(f"CREATE TABLE t (a integer NOT NULL, day date, b text, CONSTRAINT k {kept[0]})")
    load_text(postgres_target, tmp_path / "in.csv", text_of(), structure="btree", key="a", mode=mode, load_as=load_as)
    assert postgres_target.rows(
        "SELECT pg_get_indexdef('k'::regclass), condeferrable FROM pg_constraint WHERE conname = 'k'"
    ) == [(kept[1], True)]


@pytest.mark.parametrize("load_as", ["heap", "btree"])
def test_btree_with_the_same_key_twice(
    postgres_target: PostgresTarget, tmp_path: Path, schema: Path, load_as: str
) -> None:
    run = load_text(
        postgres_target, tmp_path / "in.csv", "1,2000-01-01,x\n1,2000-01-02,y\n", schema=schema, structure="btree",
        key="a", load_as=load_as, check=1,
    )  # fmt: skip
    assert "(a)=(1)" in run.stderr
    assert postgres_target.leftovers() == set()


@pytest.mark.parametrize("load_as", ["heap", "btree"])
def test_btree_partitions(postgres_target: PostgresTarget, tmp_path: Path, schema: Path, load_as: str) -> None:
    options: dict[str, Any] = {"structure": "btree", "partition_by": PARTITIONED}
    load_text(postgres_target, tmp_path / "in.csv", text_of(), schema=schema, key="a,day", load_as=load_as, **options)
    names = [name for name, _ in indexes(postgres_target)]
    assert names == ["t_1995_01_01_pkey", "t_1996_01_01_pkey", "t_1997_01_01_pkey", "t_pkey"]
    load_text(postgres_target, tmp_path / "more.csv", text_of(50, first=ROWS), key="a,day", **options)
    assert postgres_target.count("t") == ROWS + 50
    run = load_text(postgres_target, tmp_path / "n.csv", text_of(50), key="day,b", mode="replace", check=2, **options)
    assert "no key day, b" in run.stderr
    check_tidy(postgres_target)


@pytest.mark.parametrize("partition_by", [None, PARTITIONED])
def test_columnstore(
    postgres_target: PostgresTarget, tmp_path: Path, schema: Path, access_method: str, partition_by: str | None
) -> None:
    options: dict[str, Any] = {
        "structure": "columnstore", "access_method": access_method, "schema": schema, "partition_by": partition_by,
    }  # fmt: skip
    run = load_text(postgres_target, tmp_path / "in.csv", text_of(), verify="checksum", **options)
    assert forms(postgres_target) == {("p", access_method)}
    assert postgres_target.count("t") == ROWS
    assert run.summary["structure"]["access_method"] == access_method
    assert run.summary["structure"]["load_as"] == "heap"
    # Rows go in beside others, and back it goes.
    load_text(postgres_target, tmp_path / "more.csv", text_of(10, first=ROWS), **options)
    assert postgres_target.count("t") == ROWS + 10
    assert forms(postgres_target) == {("p", access_method)}
    load(postgres_target, tmp_path / "in.csv", structure="heap", mode="replace")
    assert forms(postgres_target) == {("p", "heap")}
    check_tidy(postgres_target)


def test_no_columnar_access_method(postgres_target: PostgresTarget, tmp_path: Path, schema: Path) -> None:
    run = load_text(postgres_target, tmp_path / "in.csv", "", schema=schema, structure="columnstore", check=2)
    for word in ("--access-method", "--structure sorted", "BRIN", "DuckDB"):
        assert word in run.stderr
    run = load(
        postgres_target, tmp_path / "in.csv", schema=schema, structure="columnstore", access_method="btree", check=2
    )
    assert "no table access method btree" in run.stderr
    run = load(
        postgres_target, tmp_path / "in.csv", schema=schema, structure="columnstore", access_method="heap", check=2
    )
    assert "stores rows" in run.stderr
    assert postgres_target.tables() == set()


@pytest.mark.parametrize(
    ("statements", "options", "words"),
    [
        (SCHEMA, {"structure": "sorted"}, "needs a key, and public.t has no primary key --key a,b"),
        (SCHEMA, {"structure": "sorted", "key": "c"}, "--key names 'c'"),
        (SCHEMA + "INSERT INTO t VALUES (1, '2000-01-01', 'x')", {"structure": "memory"}, "cannot become memory"),
        (
            SCHEMA + "CREATE MATERIALIZED VIEW v AS SELECT * FROM t",
            {"structure": "memory", "mode": "replace"},
            "depend on it",
        ),
        (SCHEMA, {"structure": "memory", "no_atomic": True}, "cannot become memory"),
        ("CREATE TABLE t (a int, b date, c text) PARTITION BY RANGE (a); CREATE TABLE t0 (c text, b date, a int);"
         "ALTER TABLE t ATTACH PARTITION t0 FOR VALUES FROM (0) TO (9); INSERT INTO t VALUES (1, '2000-01-01', 'x')",
         {"structure": "sorted", "key": "a", "mode": "replace"}, "another order"),
        ("CREATE TABLE t (a integer, day date, b json)", {"structure": "sorted", "key": "b"}, "sorted by b"),
        ("CREATE TABLE t (a integer, day date, b boolean)", {"structure": "sorted", "key": "b"}, "BRIN index on b"),
        ("CREATE TABLE t (a integer, day date, b text) PARTITION BY RANGE (a); CREATE TABLE t0 PARTITION OF t DEFAULT",
         {"structure": "btree", "key": "a", "load_as": "btree"}, "partitions of a table that exists"),
        ("CREATE TABLE t (a integer, day date, b text) PARTITION BY RANGE (a); "
         "CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (9); INSERT INTO t VALUES (1, NULL, 'x')",
         {"structure": "sorted", "key": "a"}, "cannot become sorted: it already has rows --mode replace"),
        # What --mode replace would not do either is not advised.
        ("CREATE TABLE t (a int, b date, c text) PARTITION BY RANGE (a); CREATE TABLE t0 (c text, b date, a int);"
         "ALTER TABLE t ATTACH PARTITION t0 FOR VALUES FROM (0) TO (9); INSERT INTO t VALUES (1, '2000-01-01', 'x')",
         {"structure": "sorted", "key": "a"}, "hint: leave out"),
        ("CREATE TABLE t (a integer, day date, b text) PARTITION BY RANGE (a); "
         "CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (9)",
         {"structure": "btree", "key": "day"}, 'ADD PRIMARY KEY ("day", "a"); and --key day,a'),
    ],
)  # fmt: skip
def test_refused_with_a_remedy(
    postgres_target: PostgresTarget, tmp_path: Path, statements: str, options: dict[str, Any], words: str
) -> None:
    postgres_target.execute(statements)
    before = postgres_target.count("t")
    run = load_text(postgres_target, tmp_path / "in.csv", "5,2000-01-01,\n", check=2, null="", **options)
    for word in words.split(" --"):
        assert word in run.stderr, run.stderr
    assert postgres_target.count("t") == before
    assert postgres_target.leftovers("t", "v", "t0") == set()


def test_an_older_reader_keeps_the_structure_away(
    postgres_target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are copied would not be sorted: the load stops, and goes on when the reader is gone."""
    monkeypatch.setattr("tipple.engines.postgresql.publish.SNAPSHOT_WAIT_SECONDS", 0.2)
    postgres_target.execute(SCHEMA + "INSERT INTO t VALUES (1, '2000-01-01', 'old')")
    options: dict[str, Any] = {"structure": "sorted", "key": "a", "mode": "replace"}
    with psycopg.connect(postgres_target.url) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM pg_class")
        run = load_text(postgres_target, tmp_path / "in.csv", text_of(1000), check=False, **options)
        assert run.exit_code not in (0, 2)
        assert "cannot take its structure now" in run.stderr
        assert postgres_target.count("t") == 1
    run = load(postgres_target, tmp_path / "in.csv", **options)
    assert run.summary["slices_resumed"] == 1
    assert is_in_order(postgres_target, "a")
    assert postgres_target.count("t") == 1000
    check_tidy(postgres_target)


def test_load_and_processing_time_are_reported_apart(
    postgres_target: PostgresTarget, tmp_path: Path, schema: Path
) -> None:
    write(tmp_path / "in.csv", text_of())
    report = tipple.load(
        tmp_path / "in.csv", into=postgres_target.url, table="t", schema=schema, structure="sorted", key=["a"]
    )
    seconds = {phase.name: phase.seconds for phase in report.phases}
    assert report.load_seconds == pytest.approx(seconds["load"])
    after = ("convert", "index", "analyze", "publish")
    assert report.processing_seconds == pytest.approx(sum(seconds[name] for name in after))
    assert report.processing_seconds > 0
    assert "processing" in plain_text([report])
    assert "sorted by a, loaded as heap" in plain_text([report])
    heading = next(line for line in plain_text([report], 120).splitlines() if "Processing s" in line)
    assert "Load s" in heading


def test_a_dry_run_says_the_structure(postgres_target: PostgresTarget, tmp_path: Path, schema: Path) -> None:
    run = load_text(
        postgres_target, tmp_path / "in.csv", text_of(10), schema=schema, structure="btree", key="a", dry_run=True
    )
    assert "btree by a, loaded as heap" in run.stdout
    assert postgres_target.tables() == set()


# ---- tablespaces ---------------------------------------------------------------------------------------


def places(target: PostgresTarget) -> dict[str, str]:
    """Tablespace by table and index; of none but those that lie in one of their own."""
    return dict(
        target.rows(
            "SELECT relname::text, spcname::text FROM pg_class c JOIN pg_tablespace s ON s.oid = c.reltablespace "
            "WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')"
        )
    )


@pytest.fixture
def spaces(postgres_target: PostgresTarget) -> list[str]:
    names = ["space_one", "space_two"]
    for name in names:
        postgres_target.server.create_tablespace(name)
    return names


def test_partitions_are_laid_in_turn(postgres_target: PostgresTarget, tmp_path: Path, spaces: list[str]) -> None:
    schema = write(tmp_path / "s.sql", KEYED_SCHEMA.replace("a integer PRIMARY KEY", "a integer"))
    path = write(tmp_path / "in.csv", text_of())
    options: dict[str, Any] = {"into": postgres_target.url, "table": "t", "partition_by": PARTITIONED}
    tipple.load(path, schema=schema, tablespace=spaces, **options)
    in_turn = {f"t_{1995 + n}_01_01": spaces[n % 2] for n in range(3)}
    assert places(postgres_target) == in_turn | {f"{name}_a_day_key": place for name, place in in_turn.items()}
    # Made anew they move; with another structure too.
    tipple.load(path, mode="replace", tablespace=[spaces[1], "pg_default"], structure="sorted", key=["a"], **options)
    # A key that is there before the rows lies with its partition too.
    tipple.load(
        path, into=postgres_target.url, table="u", schema=write(tmp_path / "u.sql", SCHEMA.replace(" t ", " u ")),
        partition_by=PARTITIONED, tablespace=spaces, structure="btree", key=["a", "day"], load_as="btree",
    )  # fmt: skip
    assert {places(postgres_target)[f"u_1995_01_01{ending}"] for ending in ("", "_pkey")} == {spaces[0]}
    assert {places(postgres_target)[f"u_1996_01_01{ending}"] for ending in ("", "_pkey")} == {spaces[1]}
    moved = {name: place for name, place in places(postgres_target).items() if name in in_turn}
    assert moved == {"t_1995_01_01": spaces[1], "t_1997_01_01": spaces[1]}
    assert places(postgres_target)["t_1997_01_01_a_brin"] == spaces[1]
    tipple.load(path, mode="replace", restart=True, structure="sorted", key=["day"], **options)
    assert places(postgres_target)["t_1997_01_01_day_brin"] == spaces[1]
    assert postgres_target.count("t") == ROWS
    check_tidy(postgres_target)


@pytest.mark.parametrize(
    ("structure", "load_as"), [(None, "auto"), ("sorted", "auto"), ("btree", "btree"), ("memory", "auto")]
)
def test_a_whole_table_and_its_indexes(
    postgres_target: PostgresTarget, tmp_path: Path, keyed: Path, spaces: list[str], structure: Any, load_as: Any
) -> None:
    path = write(tmp_path / "in.csv", text_of(1000))
    report = tipple.load(
        path, into=postgres_target.url, table="t", schema=keyed, tablespace=spaces, structure=structure,
        load_as=load_as,
    )  # fmt: skip
    found = places(postgres_target)
    assert set(found.values()) == {spaces[0]}
    assert {"t", "t_pkey", "t_a_day_key"} <= set(found)
    assert report.strategy == "swap"
    assert report.settings["tablespace"] == "space_one, space_two"
    # An existing one moves when it is replaced.
    lasting = structure if structure == "memory" else None
    tipple.load(path, into=postgres_target.url, table="t", mode="replace", tablespace=spaces[1], structure=lasting)
    assert set(places(postgres_target).values()) == {spaces[1]}
    check_tidy(postgres_target)


def test_partitions_that_are_made_while_rows_come_in(
    postgres_target: PostgresTarget, tmp_path: Path, spaces: list[str]
) -> None:
    """What no sample has shown gets its place and its structure too."""
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (a bigint, note text);")
    lines = [f"{n * 7 % 1000},{'x' * 60}\n" for n in range(40_000)]
    lines[20_001] = "5555,far\n"
    report = tipple.load(
        write(tmp_path / "in.csv", "".join(lines)), into=postgres_target.url, table="t", schema=schema,
        partition_by="range(a, every=1000)", tablespace=spaces, structure="sorted", key=["a"], load_as="memory",
    )  # fmt: skip
    assert any("no sample had shown" in note for note in report.notes)
    assert postgres_target.count("t") == 40_000
    assert {places(postgres_target)[name] for name in ("t_0", "t_0_a_brin")} == {spaces[0]}
    assert {places(postgres_target)[name] for name in ("t_5000", "t_5000_a_brin")} == {spaces[1]}
    assert forms(postgres_target) == {("p", "heap")}
    assert is_in_order(postgres_target, "a", "t_0")


@pytest.mark.parametrize("default", ["space_one", "pg_default"])
def test_the_session_has_a_default_tablespace(
    postgres_target: PostgresTarget, tmp_path: Path, spaces: list[str], default: str
) -> None:
    """It is for new tables: what is there stays where it is, indexes of partitions too."""
    target = postgres_target
    target.execute(
        "CREATE TABLE plain (a integer PRIMARY KEY); CREATE TABLE t (a integer PRIMARY KEY) PARTITION BY RANGE (a); "
        f"CREATE TABLE low PARTITION OF t FOR VALUES FROM (MINVALUE) TO (10) TABLESPACE {spaces[0]}; "
        f"CREATE TABLE high PARTITION OF t DEFAULT; ALTER INDEX high_pkey SET TABLESPACE {spaces[1]}"
    )
    before = places(target)
    target.execute(f"ALTER DATABASE {target.database} SET default_tablespace = '{default}'")
    for table in ("plain", "t"):
        for mode in ("append", "replace"):
            load_text(target, tmp_path / f"{mode}.csv", "1\n20\n", table=table, mode=mode)
    assert places(target) == before
    schema = write(tmp_path / "s.sql", "CREATE TABLE new (a integer PRIMARY KEY); CREATE TABLE parts (a integer);")
    load(target, tmp_path / "append.csv", table="new", schema=schema)
    load(target, tmp_path / "append.csv", table="parts", schema=schema, partition_by="hash(a, 2)")
    new = dict.fromkeys(("new", "new_pkey", "parts_h_0", "parts_h_1"), default) if default in spaces else {}
    assert places(target) == before | new


def test_a_default_tablespace_and_partitions_that_come_up(
    postgres_target: PostgresTarget, tmp_path: Path, spaces: list[str]
) -> None:
    """Those that rows are found to need lie where those lie that a sample has shown."""
    target = postgres_target
    target.execute(
        "CREATE TABLE t (a bigint, note text) PARTITION BY RANGE (a); "
        f"ALTER DATABASE {target.database} SET default_tablespace = '{spaces[0]}'"
    )
    rows = [f"{n * 7 % 1000},{'x' * 60}\n" for n in range(40_000)]
    rows[20_001] = "5555,far\n"
    run = load_text(target, tmp_path / "in.csv", "".join(rows), partition_by="range(a, every=1000)")
    assert "no sample had shown" in run.stdout + run.stderr
    assert target.count("t_5000") == 1
    assert places(target) == {}


def test_tablespaces_that_cannot_be(postgres_target: PostgresTarget, tmp_path: Path, schema: Path) -> None:
    name = f"theirs_{uuid.uuid4().hex[:8]}"
    postgres_target.server.create_tablespace(name, owner="postgres")
    for wanted, word, remedy in (
        ("nowhere", "no tablespace nowhere", "CREATE TABLESPACE"),
        ("pg_global", "for tables that all databases share", "one that this role may use: "),
        ("pg_fast", "is not there, and only the server", "one that this role may use: "),
        (name, "may not create tables", f'GRANT CREATE ON TABLESPACE "{name}"'),
    ):
        run = load_text(postgres_target, tmp_path / "in.csv", text_of(10), schema=schema, tablespace=wanted, check=2)
        assert word in run.stderr
        assert remedy in run.stderr
    assert postgres_target.tables() == set()
    postgres_target.execute(SCHEMA + "INSERT INTO t VALUES (1, '2000-01-01', 'old')")
    run = load(postgres_target, tmp_path / "in.csv", tablespace="pg_default", check=2)
    assert "it already has rows" in run.stderr
    assert "--mode replace" in run.stderr


# ---- the options themselves ----------------------------------------------------------------------------


def test_which_options_go_together() -> None:
    """All pairs of structure and form: those of FORMS, and no others."""
    for structure in STRUCTURES:
        for load_as in LOAD_AS:
            if load_as == "auto" or load_as in FORMS[structure]:
                parse_structure(structure, load_as, key=(), access_method=None, mode=None)
                continue
            with pytest.raises(UsageError, match="--load-as"):
                parse_structure(structure, load_as, key=(), access_method=None, mode=None)
    for options in (
        {"structure": None, "load_as": "heap"},
        {"structure": None, "access_method": "x"},
        {"structure": "heap", "access_method": "x"},
        {"structure": "btree", "mode": "upsert"},
        *({"structure": structure, "key": ("a",)} for structure in STRUCTURES if structure not in KEYED),
    ):
        given: dict[str, Any] = {"load_as": "auto", "key": (), "access_method": None, "mode": None, **options}
        with pytest.raises(UsageError) as caught:
            parse_structure(**given)
        assert caught.value.hint


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("a integer PRIMARY KEY, b text", ("a",)),
        ('a integer, "B c" text, CONSTRAINT "x y" PRIMARY KEY ("B c", A) INCLUDE (d)', ("B c", "a")),
        ("a integer UNIQUE, b text, CHECK (a > 0)", ()),
    ],
)
def test_the_primary_key_of_a_schema(constraint: str, expected: tuple[str, ...]) -> None:
    (table,) = parse_schema(f"CREATE TABLE t ({constraint});")
    assert table.primary_key == expected


@pytest.mark.parametrize("has_rows", [True, False])
@pytest.mark.parametrize("structure", ["sorted", "heap"])
def test_a_partition_that_cannot_be_swapped(
    postgres_target: PostgresTarget, tmp_path: Path, structure: str, *, has_rows: bool
) -> None:
    """It is refused before anything is loaded; where nothing has to be made of it, its rows are copied."""
    postgres_target.execute(
        "CREATE TABLE t (a integer NOT NULL) PARTITION BY RANGE (a);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100);"
        "CREATE VIEW v AS SELECT * FROM t1"
    )
    if has_rows:
        postgres_target.execute("INSERT INTO t VALUES (7)")
    key = {"key": "a"} if structure == "sorted" else {}
    refused = structure == "sorted"
    run = load_text(
        postgres_target, tmp_path / "in.csv", "2\n1\n", header="no", mode="replace", structure=structure,
        check=2 if refused else True, **key,
    )  # fmt: skip
    assert not refused or "t1: other objects depend on it" in run.stderr
    assert postgres_target.sorted_rows("t") == ([(7,)] * has_rows if refused else [(1,), (2,)])
    assert postgres_target.leftovers("t", "t1") == set()
