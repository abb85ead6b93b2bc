"""Tables, columns and schemas by any name that SQL allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command import run_tipple
from loading import load, load_here, load_text, load_text_here
from targets import DuckdbTarget, PostgresTarget, Target, write
from tipple.engines.base import NOTHING_TO_DO
from tipple.plan.url import TableName, cut_name


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


NAMES = [
    "select",
    "Upper Case",
    'with "quotes"',
    "it's",
    "a.b",
    "a,b",
    "semi;colon--comment/*",
    "per%cent %s {brace}",
    "back\\slash",
    "Ünïcödé 漢字 🚂",
    "$1",
    "1st",
    " leading and trailing ",
    "tab\tand\nnewline",
    "x" * 63,
]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names(engine_target: Target, tmp_path: Path, name: str) -> None:
    """The same odd name for schema, table and column at once."""
    place = f"{quoted(name)}.{quoted(name)}"
    engine_target.execute(f"CREATE SCHEMA {quoted(name)}")
    engine_target.execute(f"CREATE TABLE {place} (a integer, {quoted(name)} varchar)")
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    for mode in ("append", "replace"):
        load(engine_target, path, table=place, mode=mode)
        assert engine_target.sorted_rows(place) == [(1, "x"), (2, "y")]
        assert engine_target.leftovers(f"{name}.{name}") == set()
    other = write(tmp_path / "other.csv", "z\n")
    load(engine_target, other, table=place, columns=quoted(name))
    assert engine_target.count(place) == 3


@pytest.mark.parametrize("name", ["x" * 70, "é" * 40, "x" * 62 + "漢字"], ids=["ascii", "two_bytes", "three_bytes"])
def test_a_new_table_whose_name_is_longer_than_the_database_keeps(
    engine_target: Target, tmp_path: Path, name: str
) -> None:
    """PostgreSQL cuts it: the load does so from the start, so that the same command finds what it has done."""
    kept = name if isinstance(engine_target, DuckdbTarget) else cut_name(name)
    engine_target.execute(f"CREATE SCHEMA {quoted(name)}")
    load_long_name_twice(engine_target, tmp_path, TableName(name, name), TableName(kept, kept))


def test_a_new_partitioned_table_whose_name_is_cut(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    asked, kept = TableName(None, "x" * 70), TableName("public", "x" * 63)
    divided = {"mode": "replace", "partition_by": "range(a, every=1)"}
    load_long_name_twice(postgres_target, tmp_path, asked, kept, **divided)


def load_long_name_twice(target: Target, tmp_path: Path, asked: TableName, kept: TableName, **options: object) -> None:
    """The same load of a table that is missing, twice; the second one finds what the first one did."""
    source = write(tmp_path / "in.csv", "a,b\n1,x\n2,y\n")
    runs = [load_here(target, source, table=asked.sql, schema="auto", **options) for _ in "12"]
    summaries = [run.summary for run in runs if run.summary is not None]
    assert [summary["status"] for summary in summaries] == ["loaded", "already loaded"]
    assert {summary["table"] for summary in summaries} == {str(kept)}
    noted = [any("bytes that are kept of it" in note for note in summary["notes"]) for summary in summaries]
    assert noted == 2 * [kept.name != asked.name]
    assert target.sorted_rows(kept.sql) == [(1, "x"), (2, "y")]


def test_new_tables_of_a_job_whose_names_are_cut_to_one(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    write(tmp_path / "in.csv", "a,b\n1,x\n")
    head = f"[defaults]\ninto = {json.dumps(postgres_target.url)}\nschema = 'auto'\nsources = '${{here}}/in.csv'\n"
    job = write(tmp_path / "job.toml", head + "".join(f"[tables.{'x' * 63}{end}]\n" for end in "yz"))
    run = run_tipple("run", job, "--progress", "none", check=2)
    assert "go into the same table at once" in run.stderr


def test_case_folds(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE lower_case (a integer)")
    load_text(engine_target, tmp_path / "in.csv", "1\n", table="Lower_CASE")
    assert engine_target.count("lower_case") == 1


def test_quoted_case_does_not_fold(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute('CREATE TABLE t (a integer); CREATE TABLE "T" (a integer)')
    load_text(postgres_target, tmp_path / "in.csv", "1\n", table='"T"')
    assert (postgres_target.count("t"), postgres_target.count('"T"')) == (0, 1)


def test_tablespaces(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """By SQL's rules, or just as one is called."""
    for name in ('"Far away"', "near"):
        postgres_target.server.create_tablespace(name)
    postgres_target.execute("CREATE TABLE t (a integer)")
    found = "SELECT spcname FROM pg_class c JOIN pg_tablespace s ON s.oid = reltablespace WHERE relname = 't'"
    for n, space in enumerate(['"Far away"', "near", "Far away", "NEAR", "Far away", '"near"']):
        load_text_here(postgres_target, tmp_path / f"{n}.csv", "1\n", header="no", mode="replace", tablespace=space)
        assert postgres_target.value(found) == ("near" if "near" in space.lower() else "Far away")


def test_a_tablespace_that_is_not_there(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    run = load_text_here(
        postgres_target, tmp_path / "in.csv", "1\n", header="no", schema="auto", tablespace='"No where"', check=2
    )
    assert 'CREATE TABLESPACE "No where" LOCATION \'' in run.stderr


def test_schema_is_used(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE SCHEMA other")
    engine_target.execute("CREATE TABLE t (a integer)")
    engine_target.execute("CREATE TABLE other.t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    load(engine_target, path, table="other.t")
    assert (engine_target.count("t"), engine_target.count("other.t")) == (0, 1)
    # The same file into the other table is another job.
    load(engine_target, path, table="t")
    assert (engine_target.count("t"), engine_target.count("other.t")) == (1, 1)


def test_search_path(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A table without a schema is the one that the user's own search path finds."""
    postgres_target.execute("CREATE SCHEMA first; CREATE TABLE first.t (a integer); CREATE TABLE public.t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    load(postgres_target, path, env={"PGOPTIONS": "-c search_path=first,public"})
    assert (postgres_target.count("first.t"), postgres_target.count("public.t")) == (1, 0)


@pytest.mark.parametrize("names", ["", "nowhere"])
def test_a_search_path_that_names_no_schema(postgres_target: PostgresTarget, tmp_path: Path, names: str) -> None:
    path, schema = write(tmp_path / "in.csv", "1\n"), write(tmp_path / "t.sql", "CREATE TABLE t (a integer);")
    where = {"PGOPTIONS": f"-c search_path={names}"}
    run = load(postgres_target, path, schema=schema, check=2, env=where)
    assert "search_path names none that is there" in run.stderr
    assert "hint: name the schema, as in --table public.t;" in run.stderr
    load(postgres_target, path, table="public.t", schema=schema, env=where)
    assert postgres_target.count("public.t") == 1


@pytest.mark.parametrize("file_name", ["with space.csv", "quote'\".csv", "ünï🚂.csv", "-dash.csv", "per%cent.csv"])
def test_odd_file_names(engine_target: Target, tmp_path: Path, file_name: str) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    load(engine_target, write(tmp_path / file_name, "1\n"))
    assert engine_target.count("t") == 1


OWN_TABLES = ("tipple_stage", "tipple_source", "tipple_batches")
OWN_COLUMNS = ("tipple_slice", "tipple_row", "tipple_u0", "tipple_source", "tipple_key_0", "TIPPLE_OFFSET")
WAYS: tuple[dict[str, object], ...] = (
    {},
    {"on_error": "skip", "max_rejects": 2},
    {"mode": "upsert"},
    {"mode": "upsert", "on_error": "skip", "max_rejects": 2},
)


@pytest.mark.parametrize("name", OWN_TABLES)
@pytest.mark.parametrize("options", WAYS, ids=str)
def test_tables_that_are_named_like_tipples_own(
    engine_target: Target, tmp_path: Path, name: str, options: dict[str, object]
) -> None:
    key = {"key": "a"} if "mode" in options else {}
    rejects = {"rejects": tmp_path / "bad"} if "on_error" in options else {}
    for table in (name, "t"):
        engine_target.execute(f"CREATE TABLE {table} (a integer PRIMARY KEY, b integer UNIQUE, CHECK (b > 0))")
        given = {"table": table, "header": "no", **options, **key, **rejects}
        load_text_here(engine_target, tmp_path / "in.csv", "1,1\n2,2\n", **given)
        assert engine_target.sorted_rows(table) == [(1, 1), (2, 2)]
    assert engine_target.leftovers(name, "t") == set()


@pytest.mark.parametrize("name", OWN_COLUMNS)
@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("spoilt", [False, True])
def test_columns_that_are_named_like_tipples_own(
    engine_target: Target, tmp_path: Path, name: str, options: dict[str, object], spoilt: bool
) -> None:
    """They are loaded, or the error says which column it is, whatever there is to refuse."""
    key = {"key": quoted(name)} if "mode" in options else {}
    rejects = {"rejects": tmp_path / "bad"} if "on_error" in options else {}
    engine_target.execute(f"CREATE TABLE t ({quoted(name)} integer PRIMARY KEY, b integer UNIQUE, CHECK (b > 0))")
    data = "1,1\n2,2\n3,0\n4,1\n" if spoilt else "1,1\n2,2\n"
    given = {"header": "no", **options, **key, **rejects}
    run = load_text_here(engine_target, tmp_path / "in.csv", data, check=False, **given)
    if run.exit_code == 2:
        assert f"has a column named {name}, as Tipple calls one of its own" in run.output
        assert key or "on_error" in options
    elif not spoilt or "on_error" in options:
        assert run.exit_code == (3 if spoilt else 0)
        assert engine_target.sorted_rows("t") == [(1, 1), (2, 2)]
    else:
        assert run.exit_code == 1
        assert "onstraint" in run.output
    assert run.exit_code != 2 or engine_target.count("t") == 0
    assert engine_target.leftovers("t") == set()


@pytest.mark.parametrize(("database", "schema"), [("main", "main"), ("sales", "sales"), ("sales", "temp")])
def test_a_duckdb_database_that_has_the_name_of_a_schema(tmp_path: Path, database: str, schema: str) -> None:
    """DuckDB then takes no name of two parts: what is before the dot may be either. It lists statements with such."""
    target = DuckdbTarget(tmp_path / f"{database}.duckdb")
    catalog = target.value("SELECT current_database()")
    place = f"{catalog}.{schema}.t"
    target.execute(f"CREATE SCHEMA IF NOT EXISTS {catalog}.{schema}")
    target.execute(f"CREATE TABLE {place} (a integer, b varchar COLLATE nocase); CREATE INDEX i ON {place} (b)")
    table: dict[str, Any] = {"table": f"{schema}.t", "header": "no"}
    source = write(tmp_path / "in.csv", "1,x\n2,y\n")
    load_here(target, source, **table)
    planned, again = load_here(target, source, **table, dry_run=True), load_here(target, source, **table)
    other = load_here(target, source, **table, null="NULL")
    assert planned.summary is not None
    assert again.summary is not None
    assert other.summary is not None
    assert planned.summary["strategy"] == NOTHING_TO_DO
    assert again.summary["status"] == "already loaded"
    assert any("the same content was loaded into this table before" in note for note in other.summary["notes"])
    load_text_here(target, tmp_path / "more.csv", "3,z\n", **table, indexes="rebuild")
    assert target.count(place) == 5
    for _ in "12":
        load_here(target, source, **table, mode="replace")
    target.execute(f"DELETE FROM {place}")
    load_here(target, source, **table, mode="replace", structure="btree", key="a")
    changed = write(tmp_path / "changed.csv", "2,Y\n3,Z\n4,x\n")
    skips: dict[str, Any] = {"on_error": "skip", "max_rejects": 1, "check": 3}
    target.execute(f"CREATE UNIQUE INDEX j ON {place} (b)")
    load_here(target, changed, **table, mode="upsert", key="a", rejects=tmp_path / "bad", **skips)
    assert target.sorted_rows(place) == [(1, "x"), (2, "Y"), (3, "Z")]
    load_text_here(target, tmp_path / "again.csv", "3,w\n5,v\n", **table, rejects=tmp_path / "worse", **skips)
    assert target.count(place) == 4
    run_tipple("doctor", target.url, "--table", f"{schema}.t", check=0)
    assert run_tipple("jobs", target.url, check=0).stdout.count("published") == 7


@pytest.mark.parametrize("name", ["Sales.Orders", "sales.orders", "SALES.ORDERS"])
def test_duckdb_knows_no_case_of_schemas(tmp_path: Path, name: str) -> None:
    target = DuckdbTarget(tmp_path / "t.duckdb")
    target.execute("CREATE SCHEMA Sales; CREATE TABLE Sales.Orders (Id integer)")
    load_text_here(target, tmp_path / "a.csv", "1\n", table=name)
    load_text_here(target, tmp_path / "b.csv", "x\n2\n", table=f"{name}_more", schema="auto")
    assert target.rows("SELECT * FROM Sales.Orders") == [(1,)]
    assert target.rows("SELECT count(*) FROM duckdb_schemas() WHERE lower(schema_name) = 'sales'") == [(1,)]
    assert run_tipple("doctor", target.url, "--table", name, check=False).exit_code == 0
