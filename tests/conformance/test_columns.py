"""Which columns a file fills, and what becomes of the others: as COPY's column list has it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from loading import load_text
from targets import DuckdbTarget, PostgresTarget, Target, write
from tipple.engines.duckdb.columns import describe
from tipple.plan.url import TableName

GENERATED = "GENERATED ALWAYS AS (a * 2)"


def test_subset_in_another_order(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar, c integer DEFAULT 7, d varchar)")
    load_text(engine_target, tmp_path / "in.csv", "x,1\ny,2\n", columns="b,a")
    rows = engine_target.rows("SELECT a, b, c, d FROM t ORDER BY a")
    assert rows == [(1, "x", 7, None), (2, "y", 7, None)]


def test_columns_fold_as_in_sql(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    load_text(engine_target, tmp_path / "in.csv", "x,1\n", columns="B, A")
    assert engine_target.rows("SELECT a, b FROM t") == [(1, "x")]


def test_header_matches_the_column_list(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar, c integer)")
    load_text(engine_target, tmp_path / "in.csv", "c,b\n1,x\n", columns="c,b", header="match")
    assert engine_target.rows("SELECT a, b, c FROM t") == [(None, "x", 1)]


def test_null_in_the_file_is_not_the_default(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b integer DEFAULT 7)")
    load_text(engine_target, tmp_path / "in.csv", "1,\n")
    assert engine_target.rows("SELECT a, b FROM t") == [(1, None)]


def test_generated_column_is_left_out(engine_target: Target, tmp_path: Path) -> None:
    stored = "STORED" if engine_target.engine == "postgresql" else "VIRTUAL"
    engine_target.execute(f"CREATE TABLE t (a integer, b integer {GENERATED} {stored}, c varchar)")
    load_text(engine_target, tmp_path / "in.csv", "1,x\n2,y\n")
    assert engine_target.rows("SELECT a, b, c FROM t ORDER BY a") == [(1, 2, "x"), (2, 4, "y")]


def test_generated_column_cannot_be_named(engine_target: Target, tmp_path: Path) -> None:
    stored = "STORED" if engine_target.engine == "postgresql" else "VIRTUAL"
    engine_target.execute(f"CREATE TABLE t (a integer, b integer {GENERATED} {stored})")
    run = load_text(engine_target, tmp_path / "in.csv", "1,2\n", columns="a,b", check=False)
    assert run.exit_code in (1, 2), str(run)
    assert "generated" in run.stderr
    assert engine_target.count("t") == 0


GENERATED_COLUMNS = {
    "of a type with two numbers": ("a INTEGER, d DECIMAL(10,2) GENERATED ALWAYS AS (a*2)", ["d"]),
    "the first one": ("g INTEGER GENERATED ALWAYS AS (a+1), a INTEGER", ["g"]),
    "without the words": ("a INTEGER, g AS (a || ',')", ["g"]),
    "quoted, of nested parentheses": (
        """a INTEGER DEFAULT (1), "g "", (AS" INTEGER /* , b */ AS (greatest(a, 2) + length('), "')), "B" INT AS (a)""",
        ['g ", (AS', "B"],
    ),
    "one after many types": (
        """a INTEGER, e ENUM('GENERATED ALWAYS AS', ','), t STRUCT(x INTEGER, "generated" INTEGER), m INTEGER[2],
           g INTEGER AS (a), CHECK (a > 0 AND a < greatest(5, 6)), UNIQUE (a)""",
        ["g"],
    ),
    "none but in a default": ("a INTEGER, s VARCHAR DEFAULT 'b GENERATED ALWAYS AS'", []),
    "none but in names": ('a INTEGER, generated INTEGER, always INTEGER, "GENERATED ALWAYS AS" INTEGER', []),
}


@pytest.mark.parametrize("case", GENERATED_COLUMNS)
def test_generated_columns_of_duckdb(case: str, tmp_path: Path) -> None:
    """Its catalog lists them as others; they must be left out, and no others."""
    definition, expected = GENERATED_COLUMNS[case]
    target = DuckdbTarget(tmp_path / "target.duckdb")
    target.execute(f"CREATE TABLE t ({definition})")
    with duckdb.connect(str(target.path)) as connection:
        table = describe(connection, TableName(None, "t"))
    assert table is not None
    assert [column.name for column in table.columns if column.generated] == expected
    fields = [column.name for column in table.columns if not column.generated]
    load_text(target, tmp_path / "in.csv", f"1{',' * (len(fields) - 1)}\n", trailing_delimiter="no")
    assert target.rows("SELECT a FROM t") == [(1,)]


def test_defaults_that_number_rows(engine_target: Target, tmp_path: Path) -> None:
    if not engine_target.has_identity_columns:
        engine_target.execute("CREATE SEQUENCE numbers")
    engine_target.execute(f"CREATE TABLE t (id {engine_target.serial}, b varchar)")
    data = "".join(f"r{i}\n" for i in range(1000))
    load_text(engine_target, tmp_path / "in.csv", data, columns="b")
    assert engine_target.rows("SELECT count(DISTINCT id), count(id), count(*) FROM t") == [(1000, 1000, 1000)]


def test_volatile_defaults(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(
        "CREATE TABLE t (a integer, u uuid DEFAULT gen_random_uuid(), w timestamptz DEFAULT now(), "
        "x text DEFAULT current_user)"
    )
    load_text(postgres_target, tmp_path / "in.csv", "1\n2\n", columns="a")
    query = "SELECT count(DISTINCT u), count(DISTINCT w), min(x) FROM t WHERE w IS NOT NULL"
    assert postgres_target.rows(query) == [(2, 1, "loader")]


@pytest.mark.parametrize("kind", ["ALWAYS", "BY DEFAULT"])
def test_identity_columns(postgres_target: PostgresTarget, tmp_path: Path, kind: str) -> None:
    """COPY stores what the file says in an identity column, of either kind; left out, it counts."""
    postgres_target.execute(f"CREATE TABLE t (id bigint GENERATED {kind} AS IDENTITY, b text)")
    load_text(postgres_target, tmp_path / "1.csv", "100,x\n")
    load_text(postgres_target, tmp_path / "2.csv", "y\nz\n", columns="b")
    assert postgres_target.sorted_rows("t") == [(1, "y"), (100, "x"), (2, "z")]


def test_dropped_columns(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A dropped column leaves a hole in the table that a file knows nothing of."""
    postgres_target.execute(
        "CREATE TABLE t (gone1 integer, a integer, gone2 text, b text, gone3 date); "
        "ALTER TABLE t DROP gone1, DROP gone2, DROP gone3, ADD c integer DEFAULT 5"
    )
    load_text(postgres_target, tmp_path / "in.csv", "1,x,9\n")
    load_text(postgres_target, tmp_path / "in2.csv", "2,y\n", columns="a,b")
    assert postgres_target.sorted_rows("t") == [(1, "x", 9), (2, "y", 5)]


@pytest.mark.parametrize("columns", ["a,nope", "a,a", "a,,b", '"A",b', "ctid,a"])
def test_wrong_column_lists(engine_target: Target, tmp_path: Path, columns: str) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    run = load_text(engine_target, tmp_path / "in.csv", "1,2\n", columns=columns, check=2)
    assert engine_target.count("t") == 0
    assert run.stderr.strip()


@pytest.mark.parametrize("data", ["1\n", "1,2,3\n", "1,a\n\n", "1,a\n2\n", "1,a\n2,b,\n"])
def test_wrong_number_of_fields(engine_target: Target, tmp_path: Path, data: str) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    run = load_text(engine_target, tmp_path / "in.csv", data, check=1)
    assert engine_target.count("t") == 0
    assert "in.csv" in run.stderr


def test_not_null_column_left_out(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar NOT NULL)")
    run = load_text(engine_target, tmp_path / "in.csv", "1\n", columns="a", check=False)
    assert run.exit_code in (1, 2), str(run)
    assert engine_target.count("t") == 0
    assert "b" in run.stderr


def test_not_null_column_of_duckdb_left_out(tmp_path: Path) -> None:
    """No record of the file is to blame."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (a integer, b varchar NOT NULL)")
    run = load_text(target, tmp_path / "in.csv", "1\n", columns="a", check=1)
    assert "a column that is not loaded needs a value" in run.stderr
    assert target.count("t") == 0


def made(target: PostgresTarget, tmp_path: Path, statement: str, kind: str) -> dict[str, object]:
    """Makes the table t by a statement, or gives the options by which a load makes it."""
    if kind == "new":
        return {"schema": write(tmp_path / "t.sql", f"{statement};")}
    divided = " PARTITION BY LIST (a); CREATE TABLE t1 PARTITION OF t DEFAULT" if kind == "partitioned" else ""
    target.execute(statement + divided)
    return {}


@pytest.mark.parametrize("on_error", ["stop", "skip"])
@pytest.mark.parametrize("table", ["empty", "with rows", "partitioned", "new"])
def test_not_null_column_of_postgresql_left_out(
    postgres_target: PostgresTarget, tmp_path: Path, table: str, on_error: str
) -> None:
    """No record is to blame, and no number of rejects would do: told by a dry run, and before the first row is read."""
    statement = "CREATE TABLE t (a integer, b varchar, extra integer NOT NULL)"
    options = {"on_error": on_error, "check": 2, **made(postgres_target, tmp_path, statement, table)}
    if on_error == "skip":
        options |= {"max_rejects": 2, "rejects": tmp_path / "bad"}
    if table == "new":
        options["columns"] = "a,b"
    if table == "with rows":
        postgres_target.execute("INSERT INTO t VALUES (0, 'x', 0)")
    for dry_run in (True, False) if table != "new" else (False,):
        run = load_text(postgres_target, tmp_path / "in.csv", "a,b\n1,x\n2,y\n", dry_run=dry_run, **options)
        assert "the column extra, NOT NULL and without a default, would get no value" in run.stderr
        assert "load it too, or give it a DEFAULT" in run.stderr
        assert "record" not in run.stderr
    assert postgres_target.leftovers("t", "t1") == set()
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize("content", ["", "a,b\n", "a,b\r\n"])
def test_not_null_column_left_out_by_no_record(postgres_target: PostgresTarget, tmp_path: Path, content: str) -> None:
    """A delivery without rows is none that fails."""
    postgres_target.execute("CREATE TABLE t (a integer, b varchar, extra integer NOT NULL)")
    load_text(postgres_target, tmp_path / "in.csv", content, columns="a,b", header="yes", format="csv")
    assert postgres_target.count("t") == 0


def test_not_null_columns_that_get_a_value_otherwise(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """From the server, a domain, a trigger."""
    postgres_target.execute(
        "CREATE DOMAIN seven AS integer DEFAULT 7;"
        "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.e := 8; RETURN NEW; END';"
        "CREATE TABLE t (a integer PRIMARY KEY, b integer NOT NULL DEFAULT 5, c seven NOT NULL, "
        "d integer NOT NULL GENERATED ALWAYS AS IDENTITY, g integer NOT NULL GENERATED ALWAYS AS (a + 1) STORED)"
    )
    load_text(postgres_target, tmp_path / "in.csv", "1\n", columns="a")
    assert postgres_target.rows("SELECT a, b, c, d, g FROM t") == [(1, 5, 7, 1, 2)]
    postgres_target.execute("CREATE TABLE u (a integer, e integer NOT NULL)")
    postgres_target.execute("CREATE TRIGGER f BEFORE INSERT ON u FOR EACH ROW EXECUTE FUNCTION fill()")
    load_text(postgres_target, tmp_path / "in.csv", "1\n", columns="a", table="u")
    assert postgres_target.rows("SELECT a, e FROM u") == [(1, 8)]


def test_not_null_column_of_rows_that_are_merged(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Those that the table has keep their value; the remedy for others is about the column."""
    postgres_target.execute("CREATE TABLE t (a integer PRIMARY KEY, b text, extra integer NOT NULL)")
    postgres_target.execute("INSERT INTO t VALUES (1, 'old', 9)")
    load_text(postgres_target, tmp_path / "in.csv", "1,new\n", columns="a,b", mode="upsert", key="a")
    assert postgres_target.rows("SELECT a, b, extra FROM t") == [(1, "new", 9)]
    run = load_text(postgres_target, tmp_path / "in.csv", "2,new\n", columns="a,b", mode="upsert", key="a", check=1)
    assert "a column that is not loaded needs a value: load it too, or give it a DEFAULT" in run.stderr
    assert "--null" not in run.stderr


@pytest.mark.parametrize("table", ["new", "empty", "with rows", "of a domain", "partitioned"])
def test_a_default_that_fails(postgres_target: PostgresTarget, tmp_path: Path, table: str) -> None:
    """It refuses every row, so that no record is to blame: told with its column, before anything is loaded."""
    of_type = "broken" if table == "of a domain" else "integer DEFAULT 1 / 0"
    statement = f"CREATE TABLE t (a integer PRIMARY KEY, b {of_type}, c date DEFAULT now())"
    postgres_target.execute("CREATE DOMAIN broken AS integer DEFAULT 1 / 0")
    options = made(postgres_target, tmp_path, statement, table)
    if table == "with rows":
        postgres_target.execute("INSERT INTO t VALUES (0, 0)")
    run = load_text(
        postgres_target, tmp_path / "in.csv", "1\n1\n", columns="a", on_error="skip", max_rejects=2,
        rejects=tmp_path / "bad", retry_for=1, check=1, **options,
    )  # fmt: skip
    assert "the default of the column b, (1 / 0), cannot be computed: division by zero" in run.stderr
    assert postgres_target.leftovers("t", "t1") == set()
