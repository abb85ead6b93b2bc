"""Tables, columns and schemas by any name that SQL allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from loading import load, load_text
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


@pytest.mark.parametrize("file_name", ["with space.csv", "quote'\".csv", "ünï🚂.csv", "-dash.csv", "per%cent.csv"])
def test_odd_file_names(engine_target: Target, tmp_path: Path, file_name: str) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    load(engine_target, write(tmp_path / file_name, "1\n"))
    assert engine_target.count("t") == 1
