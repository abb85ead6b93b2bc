"""Tables, columns and schemas by any name that SQL allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from loading import load, load_text, load_text_here
from targets import PostgresTarget, Target, write


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
