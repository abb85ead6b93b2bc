"""`--structure parquet`: files beside the database, by partition, and a view that shows a load's files all at once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from command import run_tipple
from loading import load_here
from targets import DuckdbTarget, lines, write
from tipple.engines.duckdb.parquet import ParquetWork

SCHEMA = "CREATE TABLE t (id bigint NOT NULL, day date, kind varchar, amount decimal(12,2));"
KINDS = ("A", "b/c", "", "ä=%", " x ", "..")


@pytest.fixture
def target(tmp_path: Path) -> DuckdbTarget:
    return DuckdbTarget(tmp_path / "target.duckdb")


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    return write(tmp_path / "schema.sql", SCHEMA)


def text(first: int, count: int) -> str:
    """Records with a NULL date in every seventh, and kinds that no plain directory could be called."""
    rows = []
    for n in range(first, first + count):
        day = f"{1992 + n % 5}-{1 + n % 12:02}-{1 + n % 28:02}" if n % 7 else ""
        rows.append((n, day, f'"{KINDS[n % len(KINDS)]}"', f"{n}.5"))
    return lines(rows)


def files_of(target: DuckdbTarget) -> Path:
    return Path(f"{target.path}.tables") / "main.t"


def partitions(target: DuckdbTarget) -> set[str]:
    """The names of the directories that hold files, without the jobs'."""
    return {file.parent.name for file in files_of(target).rglob("*.parquet")}


def jobs(target: DuckdbTarget) -> list[str]:
    return sorted(entry.name for entry in files_of(target).iterdir())


@pytest.mark.parametrize(
    ("partition_by", "expected"),
    [
        ("range(day, every=year)", {f"day_year={year}" for year in range(1992, 1997)}),
        ("range(day, every=quarter)", {f"day_quarter={y}-Q{q}" for y in range(1992, 1997) for q in range(1, 5)}),
        ("range(day, every=month)", {f"day_month={y}-{m:02}" for y in range(1992, 1997) for m in range(1, 13)}),
        ("range(id, every=250)", {f"id_from={n}" for n in (-250, 0, 250, 500, 750)}),
        ("range(amount, every=500)", {f"amount_from={n}" for n in (-500, 0, 500)}),
        ("range(id, bounds=[100, 500])", {"id_from=min", "id_from=100", "id_from=500"}),
        ("list(kind)", {"kind=A", "kind=b%2Fc", "kind=", "kind=%C3%A4%3D%25", "kind=%20x%20", "kind=.."}),
        (None, set()),
    ],
)
def test_partitions(
    target: DuckdbTarget, tmp_path: Path, schema: Path, partition_by: str | None, expected: set[str]
) -> None:
    path = write(tmp_path / "in.csv", text(0, 1000) + "-1,1995-01-01,A,-1.5\n")
    run = load_here(
        target, path, schema=schema, structure="parquet", partition_by=partition_by, jobs=2, verify="checksum"
    )
    assert run.summary is not None
    assert run.summary["structure"]["structure"] == "parquet"
    assert run.summary["strategy"] == "parquet"
    assert run.summary["verify"]["ok"]
    null = {name for name in partitions(target) if name.endswith("=__HIVE_DEFAULT_PARTITION__")}
    assert len(null) == (partition_by is not None and "day" in partition_by)
    if partition_by is not None:
        assert partitions(target) - null == expected
    assert run.summary["storage"][0]["rows"] == (None if partition_by else 1001)
    # The view is what a table of the same schema would be.
    table = DuckdbTarget(tmp_path / "table.duckdb")
    load_here(table, path, schema=schema, jobs=2)
    assert target.sorted_rows("t") == table.sorted_rows("t")
    described = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 't' ORDER BY column_index"
    assert target.rows(described) == table.rows(described)


def test_directories_are_pruned(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    path = write(tmp_path / "in.csv", text(0, 1000))
    load_here(target, path, schema=schema, structure="parquet", partition_by="list(kind)")
    plan = str(target.rows("EXPLAIN ANALYZE SELECT count(*) FROM t WHERE kind = 'A'"))
    assert "1/6" in plan


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("k decimal(10,2)", ["1.50", "-2.00", "99999999.99", ""]),
        ("k enum('a b','c/d')", ["a b", "c/d", ""]),
        *(
            (f'"{name}" varchar', ["a b", "é%", ""])
            for name in ("a b", "a=b", "a/b", "a%b", "it's", 'x""y', "é", "a+b")
        ),
        # A column is called what the directories are called.
        ('"a b" varchar, "a%20b" varchar', ["a b,other", ",x"]),
    ],
)
def test_columns_and_types_of_lists(target: DuckdbTarget, tmp_path: Path, column: str, values: list[str]) -> None:
    """Whatever a directory may be called, and of types with parameters; and readers leave directories out."""
    schema = write(tmp_path / "schema.sql", f"CREATE TABLE t ({column}, v integer);")
    name = column.partition(" ")[0] if column.startswith("k") else column[: column.index('" ') + 1]
    records = [f"{value},{n}" for n, value in enumerate(values * 2)]
    options = {"schema": schema, "partition_by": f"list({name})", "header": "no", "format": "csv"}
    path = write(tmp_path / "in.csv", "\n".join(records) + "\n")
    load_here(target, path, **options, structure="parquet", verify="checksum")
    more = write(tmp_path / "more.csv", "\n".join(records[:1]) + "\n")
    load_here(target, more, header="no", format="csv", mode="append")
    table = DuckdbTarget(tmp_path / "table.duckdb")
    load_here(table, path, more, schema=schema, header="no", format="csv")
    assert target.sorted_rows("t") == table.sorted_rows("t")
    described = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 't' ORDER BY column_index"
    assert target.rows(described) == table.rows(described)
    assert len(partitions(target)) == len(values)
    if "%20" not in column:
        plan = str(target.rows(f"EXPLAIN ANALYZE SELECT * FROM t WHERE {name} = '{values[0]}'"))
        assert f"2/{len(values) + 1}" in plan


@pytest.mark.parametrize(
    ("kind", "every", "keys"),
    [
        ("decimal(9,2)", "0.05", {"0.14": "0.1", "0.15": "0.15", "0.35": "0.35", "-0.01": "-0.05", "2.00": "2"}),
        ("double", "0.1", {"0.3": "0.3", "0.7": "0.7", "-0.1": "-0.1", "-1e-300": "-0.1", "1e300": "1e%2B300"}),
        ("float", "0.05", {"0.15": "0.15", "0.35": "0.35", "1.1499999": "1.1"}),
        ("double", "10", {"9.9999999": "0", "-0.0000001": "-10", "1e33": "1e%2B33", "10": "10"}),
        ("decimal(20,10)", "10", {"9.9999999999": "0", "-0.0000000001": "-10"}),
        ("decimal(38,2)", "10", {"123456789012345678901234567890123456.78": "123456789012345678901234567890123450"}),
        ("decimal(4,2)", "1000", {"1.5": "0", "-99.99": "-1000"}),
        ("bigint", "2.5", {"-9223372036854775808": "-9223372036854775810", "7": "5"}),
    ],
)
def test_ranges_are_exact(target: DuckdbTarget, tmp_path: Path, kind: str, every: str, keys: dict[str, str]) -> None:
    """Neither a double's 0.05 nor one that is rounded before it is divided may file a row elsewhere."""
    schema = write(tmp_path / "schema.sql", f"CREATE TABLE t (k {kind}, v integer);")
    path = write(tmp_path / "in.csv", lines((key, n) for n, key in enumerate([*keys, ""])))
    load_here(target, path, schema=schema, structure="parquet", partition_by=f"range(k, every={every})")
    found = {}
    for place in files_of(target).rglob("*.parquet"):
        for (row,) in duckdb.sql(f"SELECT v FROM read_parquet('{place}', hive_partitioning = false)").fetchall():
            found[row] = place.parent.name.removeprefix("k_from=")
    assert found == dict(enumerate([*keys.values(), "__HIVE_DEFAULT_PARTITION__"]))


@pytest.mark.parametrize(
    ("kind", "every", "good", "value"),
    [
        ("double", "10", "1", "nan"),
        ("double", "10", "1", "-Infinity"),
        ("date", "year", "2024-02-29", "infinity"),
        ("date", "quarter", "2024-02-29", "-infinity"),
        ("timestamp", "month", "2024-02-29 00:00:00", "infinity"),
        ("timestamptz", "week", "2024-02-29 00:00:00+00", "-infinity"),
        ("date", "day", "2024-02-29", "infinity"),
    ],
)
def test_values_that_belong_to_no_range(
    target: DuckdbTarget, tmp_path: Path, kind: str, every: str, good: str, value: str
) -> None:
    """They are bad records, in the first load and in one into a table that is there."""
    schema = write(tmp_path / "schema.sql", f"CREATE TABLE t (k {kind}, v integer);")
    options = {"structure": "parquet", "partition_by": f"range(k, every={every})", "header": "no", "format": "csv"}
    path = write(tmp_path / "in.csv", f"{good},1\n{value},2\n,3\n")
    run = load_here(target, path, schema=schema, **options, check=1)
    assert "column k: the value" in run.stderr
    assert "--on-error skip leaves such records out" in run.stderr
    for count in (1, 2):
        rejects = tmp_path / f"bad{count}.csv"
        skip = {"on_error": "skip", "max_rejects": 1, "rejects": rejects, "mode": "append", "restart": True}
        load_here(target, path, schema=schema, **options, **skip, check=3)
        assert rejects.read_text() == f"{value},2\n"
        reason = f'no partition of relation ""t"" found for row: ""{value}""'
        assert reason in (tmp_path / f"bad{count}.csv.reasons.csv").read_text()
        assert target.rows("SELECT v FROM t ORDER BY v") == [(1,)] * count + [(3,)] * count


def test_columns_of_ranges(target: DuckdbTarget, tmp_path: Path) -> None:
    schema = write(tmp_path / "schema.sql", 'CREATE TABLE t ("a b" integer, v integer);')
    path = write(tmp_path / "in.csv", "1,1\n11,2\n,3\n")
    load_here(target, path, schema=schema, structure="parquet", partition_by='range("a b", every=10)')
    assert target.sorted_rows("t") == sorted([(1, 1), (11, 2), (None, 3)], key=str)
    assert {"a%20b_from=0", "a%20b_from=10"} < partitions(target)


@pytest.mark.parametrize(("letter", "most"), [("x", 253), ("é", 42)])
def test_values_that_name_no_directory(target: DuckdbTarget, tmp_path: Path, letter: str, most: int) -> None:
    """Up to the length that a directory's name may have; then column, value and remedy are told."""
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (k varchar, v integer);")
    options = {"schema": schema, "structure": "parquet", "partition_by": "list(k)"}
    load_here(target, write(tmp_path / "in.csv", f"{letter * most},1\n"), **options)
    assert target.rows("SELECT k FROM t") == [(letter * most,)]
    run = load_here(target, write(tmp_path / "long.csv", f"a,1\n{letter * (most + 1)},2\n"), mode="append", check=1)
    assert f"column k: the value {letter * 40}… is too long to name a directory" in run.stderr
    assert "bounds=" in run.stderr
    assert target.rows("SELECT v FROM t") == [(1,)]
    options["partition_by"] = f"range(k, bounds=[{'y' * 300}])"
    refused = load_here(target, tmp_path / "in.csv", **options, mode="replace", restart=True, check=2)
    assert "too long" in refused.stderr


@pytest.mark.parametrize(
    ("kind", "bounds", "refused"),
    [
        ("integer", "'10', '9'", True),
        ("integer", "'9', '09'", True),
        ("varchar", "'10', '9'", False),
        ("date", "'2024-05-05', 2023-01-01", True),
        ("date", "'2023-01-01', '2024-05-05'", False),
    ],
)
def test_boundaries_in_the_order_of_the_column(
    target: DuckdbTarget, tmp_path: Path, kind: str, bounds: str, refused: bool
) -> None:
    schema = write(tmp_path / "schema.sql", f"CREATE TABLE t (k {kind}, v integer);")
    options = {"schema": schema, "structure": "parquet", "partition_by": f"range(k, bounds=[{bounds}])"}
    run = load_here(
        target, write(tmp_path / "in.csv", "2023-02-02,1\n"), header="no", dry_run=True, check=False, **options
    )
    assert run.exit_code == (2 if refused else 0), run
    assert ("partitions would overlap" in run.stderr) == refused


def test_append_and_replace(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    """Appending adds a directory; replacing leaves only its own; both know the table without --structure."""
    options = {"schema": schema, "structure": "parquet", "partition_by": "range(day, every=year)"}
    first = write(tmp_path / "a.csv", text(0, 100))
    second = write(tmp_path / "b.csv", text(100, 50))
    load_here(target, first, **options)
    again = load_here(target, first, **options)
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"
    appended = load_here(target, second, mode="append")
    assert appended.summary is not None
    assert appended.summary["structure"]["structure"] == "parquet"
    assert target.rows("SELECT count(*), count(DISTINCT id) FROM t") == [(150, 150)]
    assert len(jobs(target)) == 2
    load_here(target, second, mode="replace", partition_by="list(kind)", structure="parquet")
    assert target.rows("SELECT count(*), min(id) FROM t") == [(50, 100)]
    assert len(jobs(target)) == 1
    assert all(name.startswith("kind=") for name in partitions(target))
    refused = load_here(
        target, first, mode="append", structure="parquet", partition_by="range(day, every=year)", check=2
    )
    assert "--mode replace" in refused.stderr


def test_some_columns_and_sizes(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    """Columns that are not loaded are NULL, and doctor counts files like tables."""
    path = write(tmp_path / "in.csv", "1,A\n2,B\n")
    load_here(target, path, schema=schema, structure="parquet", partition_by="list(kind)", columns="id,kind")
    assert target.sorted_rows("t") == [(1, None, "A", None), (2, None, "B", None)]
    sizes = run_tipple("doctor", target.url, "--sizes").stdout
    assert "kind=A" in sizes
    refused = load_here(target, write(tmp_path / "in2.csv", "C\n"), columns="kind", check=2)
    assert "id refuses NULL" in refused.stderr


def test_defaults_of_columns_that_are_not_loaded(target: DuckdbTarget, tmp_path: Path) -> None:
    """As in a table: a later load, too, gets them; a NULL that is loaded stays NULL."""
    columns = (
        "id integer, s varchar DEFAULT 'it''s', n decimal(4,1) DEFAULT (1 + 0.5) NOT NULL, d date, f float DEFAULT 1"
    )
    schema = write(tmp_path / "schema.sql", f"CREATE TABLE t ({columns});")
    options = {"schema": schema, "columns": "id,f", "verify": "checksum"}
    table = DuckdbTarget(tmp_path / "table.duckdb")
    for into, structure in ((target, {"structure": "parquet", "partition_by": "list(s)"}), (table, {})):
        load_here(into, write(tmp_path / "a.csv", "1,2.5\n2,\n"), **options, **structure)
        load_here(into, write(tmp_path / "b.csv", "3,\n"), columns="id,s", mode="append")
        load_here(into, write(tmp_path / "c.csv", "4\n"), columns="id", mode="append")
    assert target.sorted_rows("t") == table.sorted_rows("t")
    assert target.value("SELECT s FROM t WHERE id = 4") == "it's"


def test_defaults_of_null(target: DuckdbTarget, tmp_path: Path) -> None:
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (id integer, s varchar DEFAULT NULL NOT NULL);")
    path = write(tmp_path / "a.csv", "1\n")
    assert "s refuses NULL" in load_here(target, path, schema=schema, structure="parquet", columns="id", check=2).stderr


@pytest.mark.parametrize("generated", ["GENERATED ALWAYS AS (id + 1)", "AS (id + 1) VIRTUAL"])
def test_generated_columns(target: DuckdbTarget, tmp_path: Path, generated: str) -> None:
    schema = write(tmp_path / "schema.sql", f"CREATE TABLE t (id integer, g integer {generated});")
    run = load_here(target, write(tmp_path / "a.csv", "1\n"), schema=schema, structure="parquet", columns="id", check=2)
    assert f"column g is {generated}" in run.stderr
    assert not files_of(target).exists()


def test_no_rows(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    empty = write(tmp_path / "empty.csv", "")
    for partition_by in ("list(kind)", None):
        load_here(target, empty, schema=schema, structure="parquet", partition_by=partition_by, mode="replace")
        assert target.rows("SELECT * FROM t") == []
    load_here(target, write(tmp_path / "in.csv", text(0, 10)))
    assert target.count("t") == 10


def test_a_bad_record(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    """Nothing is left of a load that fails, and what was there stays."""
    load_here(target, write(tmp_path / "a.csv", text(0, 100)), schema=schema, structure="parquet")
    kept = jobs(target)
    bad = write(tmp_path / "bad.csv", text(100, 5000) + "x,,,\n")
    run = load_here(target, bad, mode="replace", check=1)
    assert "nothing was published" in run.stderr
    assert target.count("t") == 100
    assert jobs(target) == kept


def test_a_value_of_no_partition(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    path = write(tmp_path / "in.csv", text(0, 10))
    run = load_here(
        target, path, schema=schema, structure="parquet", partition_by="list(kind, values=[A, [x, y]])", check=1
    )
    assert "no partition takes kind" in run.stderr
    assert "add the value to values=[…]" in run.stderr
    assert target.rows("SELECT * FROM duckdb_views() WHERE view_name = 't'") == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partition_by": "hash(id, 4)"}, "one column"),
        ({"partition_by": "range(id, day, bounds=[(1, '2000-01-01')])"}, "one column"),
        ({"partition_by": "range(kind, every=year)"}, "VARCHAR"),
        ({"partition_by": "range(day, every=10)"}, "DATE"),
        ({"partition_by": "list(nothing)"}, "nothing"),
        ({"no_atomic": True}, "--no-atomic"),
        ({"load_as": "heap"}, "--load-as"),
    ],
)
def test_wrong_usage(
    target: DuckdbTarget, tmp_path: Path, schema: Path, options: dict[str, object], words: str
) -> None:
    path = write(tmp_path / "in.csv", text(0, 10))
    run = load_here(target, path, schema=schema, structure="parquet", check=2, **options)
    assert words in run.stderr
    assert not files_of(target).exists()


def test_where_files_are_not_possible(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    path = write(tmp_path / "in.csv", text(0, 10))
    assert "in memory" in load_here("duckdb:///:memory:", path, schema=schema, structure="parquet", check=2).stderr
    assert "--structure" in load_here(target, path, schema=schema, partition_by="list(kind)", check=2).stderr
    wide = write(tmp_path / "wide.sql", "CREATE TABLE t (id hugeint, day date, kind varchar, amount interval);")
    assert "id of type HUGEINT" in load_here(target, path, schema=wide, structure="parquet", check=2).stderr
    target.execute(SCHEMA)
    assert "table in the database" in load_here(target, path, structure="parquet", check=2).stderr
    load_here(
        target, path, schema=write(tmp_path / "u.sql", SCHEMA.replace(" t ", " u ")), structure="parquet", table="u"
    )
    assert "upsert" in load_here(target, path, table="u", mode="upsert", key="id", check=2).stderr
    assert "sorted" in load_here(target, path, table="u", structure="sorted", key="id", check=2).stderr


def shown(target: DuckdbTarget) -> int:
    """Rows that a reader sees; 0 where there is no table yet."""
    if not target.path.exists():
        return 0
    try:
        return target.count("t")
    except duckdb.CatalogException:
        return 0


def test_what_is_nobodys_job_stays(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    """Only directories that this database lists are tidied, and not what somebody else has put beside them."""
    path = write(tmp_path / "in.csv", text(0, 100))
    options = {"schema": schema, "structure": "parquet"}
    load_here(target, path, **options)
    beside = files_of(target) / "backup"
    beside.mkdir()
    (beside / "precious.parquet").write_text("x")
    foreign = files_of(target) / ".0b0e7a5c-7c1e-4b0c-9f5e-2a3b4c5d6e7f"
    foreign.mkdir()
    left = files_of(target) / ".7d1c2b3a-7c1e-4b0c-9f5e-2a3b4c5d6e7f"
    left.mkdir()
    target.execute(f"INSERT INTO tipple.parquet_directory VALUES ('main', 't', '{left.name[1:]}', NULL)")
    run_tipple("jobs", target.url, "clean")
    assert not left.exists()
    run = load_here(target, path, **options, mode="replace", restart=True)
    assert (beside / "precious.parquet").exists()
    assert foreign.exists()
    assert run.summary is not None
    assert any("holds directories of jobs that this database did not run (1)" in note for note in run.summary["notes"])
    assert shown(target) == 100


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_new_database_under_an_old_path(target: DuckdbTarget, tmp_path: Path, schema: Path, mode: str) -> None:
    """A database that was moved away reads on from where it was; who comes after it removes only its own files."""
    options = {"schema": schema, "structure": "parquet", "mode": mode}
    load_here(target, write(tmp_path / "a.csv", text(0, 100)), **options)
    moved = DuckdbTarget(target.path.rename(tmp_path / "moved.duckdb"))
    target.execute("CREATE TABLE other (id integer)")
    run_tipple("jobs", target.url, "clean")
    assert shown(moved) == 100
    load_here(target, write(tmp_path / "b.csv", text(100, 50)), **options)
    assert shown(moved) == 100
    load_here(target, write(tmp_path / "c.csv", text(200, 20)), **{**options, "mode": "replace"})
    assert (shown(target), shown(moved)) == (20, 100)
    assert len(jobs(target)) == 2
    # The moved one has no files under its new path, so it is replaced or nothing; the others' stay either way.
    run_tipple("jobs", moved.url, "clean")
    load_here(moved, tmp_path / "b.csv", **{**options, "mode": "replace"})
    assert (shown(target), shown(moved)) == (20, 50)
    assert len(jobs(target)) == 2


def test_a_copy_leaves_the_files_of_its_original(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    """Beside it, and also where it has taken the original's place."""
    options = {"schema": schema, "structure": "parquet", "mode": "replace"}
    load_here(target, write(tmp_path / "a.csv", text(0, 100)), **options)
    beside = DuckdbTarget(tmp_path / "beside.duckdb")
    shutil.copy(target.path, beside.path)
    load_here(beside, write(tmp_path / "b.csv", text(100, 50)), **options)
    assert (shown(target), shown(beside)) == (100, 50)
    moved = DuckdbTarget(target.path.rename(tmp_path / "moved.duckdb"))
    shutil.copy(moved.path, target.path)
    for number in range(2):
        more = write(tmp_path / f"{number}.csv", text(200 + number, 20))
        run = load_here(target, more, **options)
        run_tipple("jobs", target.url, "clean")
    assert run.summary is not None
    assert any("moved away or copied" in note for note in run.summary["notes"])
    assert (shown(target), shown(moved)) == (20, 100)
    assert len(jobs(target)) == 2


def test_directories_listed_by_an_earlier_version(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    options = {"schema": schema, "structure": "parquet", "mode": "replace"}
    load_here(target, write(tmp_path / "a.csv", text(0, 100)), **options)
    target.execute("ALTER TABLE tipple.parquet_directory DROP COLUMN database_inode")
    run_tipple("jobs", target.url, "clean")
    assert shown(target) == 100
    target.execute("ALTER TABLE tipple.parquet_directory DROP COLUMN database_inode")
    load_here(target, write(tmp_path / "b.csv", text(100, 50)), **options)
    assert (shown(target), len(jobs(target))) == (50, 1)


@pytest.mark.parametrize("structure", ["parquet", "columnstore"])
@pytest.mark.parametrize("mode", [None, "append", "replace", "create"])
def test_a_view_of_the_users_own(
    target: DuckdbTarget, tmp_path: Path, schema: Path, mode: str | None, structure: str
) -> None:
    """It is no table to load into, and nothing takes its place."""
    target.execute("CREATE TABLE base (a integer)")
    target.execute('CREATE VIEW "T" AS SELECT a + 1 AS b FROM base')
    path = write(tmp_path / "a.csv", text(0, 100))
    for options in ({"schema": schema, "structure": structure}, {}):
        run = load_here(target, path, mode=mode, **options, check=2)
        assert "t is a view" in run.stderr
    assert "a + 1" in target.rows("SELECT sql FROM duckdb_views() WHERE view_name = 'T'")[0][0]


def test_a_renamed_view_keeps_its_files(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    options = {"schema": schema, "structure": "parquet"}
    load_here(target, write(tmp_path / "a.csv", text(0, 100)), **options)
    target.execute("ALTER VIEW t RENAME TO old")
    load_here(target, write(tmp_path / "b.csv", text(100, 50)), **options)
    run_tipple("jobs", target.url, "clean")
    assert (shown(target), target.count("old")) == (50, 100)


def test_reached_by_a_link(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    """The files are beside the database itself, by whatever path it is reached."""
    options = {"schema": schema, "structure": "parquet"}
    load_here(target, write(tmp_path / "a.csv", text(0, 100)), **options)
    (tmp_path / "elsewhere").mkdir()
    link = DuckdbTarget(tmp_path / "elsewhere" / "link.duckdb")
    link.path.symlink_to(target.path)
    load_here(link, write(tmp_path / "b.csv", text(100, 50)), mode="append")
    assert shown(target) == 150
    assert len(jobs(target)) == 2
    assert not files_of(link).exists()


def test_moved_without_its_files(target: DuckdbTarget, tmp_path: Path, schema: Path) -> None:
    """Appending is refused where it would lose the rows of files that are not there; replacing is not."""
    options = {"schema": schema, "structure": "parquet", "verify": "checksum"}
    load_here(target, write(tmp_path / "a.csv", text(0, 100)), **options)
    moved = DuckdbTarget(target.path.rename(tmp_path / "moved.duckdb"))
    more = write(tmp_path / "b.csv", text(100, 50))
    refused = load_here(moved, more, **options, check=2)
    assert "1 of its 1 directories of Parquet files are not in" in refused.stderr
    assert (
        f"copy its FILE.tables to {files_of(moved).parent}; or write all rows anew with --mode replace"
        in refused.stderr
    )
    assert shown(moved) == 100
    files_of(target).parent.rename(files_of(moved).parent)
    load_here(moved, more, **options)
    assert shown(moved) == 150
    shutil.rmtree(files_of(moved) / jobs(moved)[0])
    assert "1 of its 2 directories" in load_here(moved, more, **options, restart=True, check=2).stderr
    load_here(moved, more, **options, mode="replace")
    assert shown(moved) == 50


def test_files_that_vanish_while_loading(
    target: DuckdbTarget, tmp_path: Path, schema: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_here(target, write(tmp_path / "a.csv", text(0, 100)), schema=schema, structure="parquet")
    away = tmp_path / "away"
    begins = ParquetWork.begin

    def begins_and_loses(work: ParquetWork, job_id: str) -> None:
        begins(work, job_id)
        assert work.before is not None
        (work.directory / work.before.directories[0]).rename(away)

    monkeypatch.setattr(ParquetWork, "begin", begins_and_loses)
    run = load_here(target, write(tmp_path / "b.csv", text(100, 50)), mode="append", check=1)
    assert "appending would lose rows" in run.stderr
    assert target.value("SELECT count(*) FROM tipple.job WHERE state = 'published'") == 1


def test_killed_while_tidying(
    target: DuckdbTarget, tmp_path: Path, schema: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command run again finds its rows published, and removes what is left of the replaced files."""

    removes_all = shutil.rmtree

    def removes_some(directory: Path, **options: Any) -> None:
        if files_of(target) not in Path(directory).parents:
            return removes_all(directory, **options)
        next(directory.rglob("*.parquet")).unlink()
        raise OSError("killed")

    options = {"schema": schema, "structure": "parquet", "partition_by": "list(kind)"}
    load_here(target, write(tmp_path / "a.csv", text(0, 100)), **options)
    path = write(tmp_path / "b.csv", text(100, 50))
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", removes_some)
        load_here(target, path, **options, mode="replace")
    assert len(jobs(target)) == 2
    again = load_here(target, path, **options, mode="replace")
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"
    assert len(jobs(target)) == 1
    assert shown(target) == 50
