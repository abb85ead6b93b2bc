"""Texts that are equal by a collation of DuckDB: keys of an upsert, and constraints, which know bytes only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from command import Run
from conformance.test_upsert_violations import numbered
from loading import load_here
from targets import DuckdbTarget, write
from tipple.engines.duckdb.collations import by_bytes, collated_types

UPSERT: dict[str, Any] = {"table": "ux", "mode": "upsert", "key": "k", "header": "no", "format": "csv"}
SKIP: dict[str, Any] = {"on_error": "skip", "max_rejects": "100%"}


@pytest.fixture
def target(tmp_path: Path) -> DuckdbTarget:
    return DuckdbTarget(tmp_path / "target.duckdb")


def counts(run: Run) -> tuple[int, int, int, int]:
    """Rows inserted and updated, records ignored and superseded."""
    assert run.summary is not None
    inserted, updated, ignored, superseded = (
        run.summary[f"rows_{what}"] for what in ("inserted", "updated", "ignored", "superseded")
    )
    return inserted, updated, ignored, superseded


@pytest.mark.parametrize(
    ("collation", "one", "other"),
    [
        ("nocase", "xyz", "XYZ"),
        ("noaccent", "é", "e"),
        ("nocase.noaccent", "É", "e"),
        ("nfc", "é", "e\N{COMBINING ACUTE ACCENT}"),
        ("nocase.noaccent.nfc", "É", "e\N{COMBINING ACUTE ACCENT}"),
    ],
)
@pytest.mark.parametrize("constraint", ["", " PRIMARY KEY", " UNIQUE"])
def test_keys_that_are_equal(
    target: DuckdbTarget, tmp_path: Path, collation: str, one: str, other: str, constraint: str
) -> None:
    """Among the records, and between them and the table's rows; the last record wins."""
    target.execute(f"CREATE TABLE ux (k varchar COLLATE {collation}{constraint}, v integer)")
    path = write(tmp_path / "in.csv", f"{one},4\n{other},5\nother,6\n")
    conflicting = load_here(target, path, **UPSERT, on_conflict="error", check=1)
    assert one in conflicting.stderr or other in conflicting.stderr
    assert counts(load_here(target, path, **UPSERT)) == (2, 0, 0, 1)
    assert sorted(target.rows("SELECT k, v FROM ux")) == sorted([(other, 5), ("other", 6)])

    path = write(tmp_path / "more.csv", f"{one},7\n{other},8\n{one},9\n")
    assert counts(load_here(target, path, **UPSERT, on_conflict="ignore")) == (0, 0, 1, 2)
    load_here(target, path, **UPSERT, on_conflict="error", check=1)
    assert counts(load_here(target, path, **UPSERT)) == (0, 1, 0, 2)
    # The row keeps its key as it was written.
    assert sorted(target.rows("SELECT k, v FROM ux")) == sorted([(other, 9), ("other", 6)])


def test_a_key_of_several_columns(target: DuckdbTarget, tmp_path: Path) -> None:
    """Of which not all have a collation."""
    target.execute('CREATE TABLE ux ("a COLLATE b" varchar, k varchar COLLATE "nocase", v integer)')
    target.execute("INSERT INTO ux VALUES ('x', 'Abc', 1), ('X', 'abc', 2)")
    path = write(tmp_path / "in.csv", "x,ABC,3\nx,abc,4\n")
    run = load_here(target, path, **UPSERT | {"key": "k,a COLLATE b"})
    assert counts(run) == (0, 1, 0, 1)
    assert sorted(target.rows("SELECT * FROM ux")) == [("X", "abc", 2), ("x", "Abc", 4)]


def test_a_new_table(target: DuckdbTarget, tmp_path: Path) -> None:
    schema = write(tmp_path / "schema.sql", "CREATE TABLE ux (k varchar COLLATE nocase, v integer)")
    path = write(tmp_path / "in.csv", "xyz,4\nXYZ,5\n")
    assert counts(load_here(target, path, **UPSERT, schema=schema)) == (1, 0, 0, 1)
    assert target.rows("SELECT k, v FROM ux") == [("XYZ", 5)]


@pytest.mark.parametrize("collation", ["", " COLLATE nocase"])
def test_a_unique_index_knows_bytes_only(target: DuckdbTarget, tmp_path: Path, collation: str) -> None:
    """So what is equal by the collation alone is no reject; also of a foreign key, and of an index on an expression."""
    target.execute(
        f"CREATE TABLE p (k varchar COLLATE nocase PRIMARY KEY); INSERT INTO p VALUES ('p'), ('P');"
        f"CREATE TABLE t (k varchar{collation} PRIMARY KEY, u varchar{collation}, r varchar REFERENCES p);"
        "CREATE UNIQUE INDEX i ON t (trim(u)); INSERT INTO t VALUES ('a', 'a', 'p')"
    )
    lines = ["A,A,P\n", "a,1,p\n", "b, A ,p\n", "B,b,p\n", "b,B,P\n", "c,B,p\n", "d,d,q\n"]
    rejects = tmp_path / "bad.csv"
    load_here(target, write(tmp_path / "in.csv", "".join(lines)), **SKIP, rejects=rejects, check=3)
    assert numbered(rejects) == [(2, "23505"), (3, "23505"), (6, "23505"), (7, "23503")]
    kept = [("A", "A", "P"), ("B", "b", "p"), ("a", "a", "p"), ("b", "B", "P")]
    assert sorted(target.rows("SELECT * FROM t")) == kept


def test_a_check_goes_by_the_collation(target: DuckdbTarget, tmp_path: Path) -> None:
    target.execute("CREATE TABLE t (k varchar COLLATE nocase CHECK (k <> 'no'), v integer)")
    rejects = tmp_path / "bad.csv"
    load_here(target, write(tmp_path / "in.csv", "yes,1\nNO,2\nno,3\n"), **SKIP, rejects=rejects, check=3)
    assert numbered(rejects) == [(2, "23514"), (3, "23514")]
    assert target.rows("SELECT * FROM t") == [("yes", 1)]


@pytest.mark.parametrize("on_conflict", ["update", "ignore"])
def test_rejects_of_an_upsert(target: DuckdbTarget, tmp_path: Path, on_conflict: str) -> None:
    """Whose record it is says the collation of the key; what else must be unique is so by its bytes."""
    target.execute(
        "CREATE TABLE ux (k varchar COLLATE nocase, u varchar COLLATE nocase UNIQUE, v integer CHECK (v > 0));"
        "INSERT INTO ux VALUES ('Abc', 'one', 1), ('def', 'two', 1)"
    )
    lines = [
        "ABC,one,2\n",  # has it itself
        "abc,ONE,3\n",  # another text than the one that it had
        "ghi,two,4\n",  # which def has
        "JKL,TWO,5\n",  # which nobody has
        "jkl,six,-6\n",
        "mno,one,7\n",  # which abc has given up, if it is updated
    ]
    rejects = tmp_path / "bad.csv"
    path = write(tmp_path / "in.csv", "".join(lines))
    run = load_here(target, path, **UPSERT, **SKIP, on_conflict=on_conflict, rejects=rejects, check=3)
    held = sorted(target.rows("SELECT * FROM ux"))
    if on_conflict == "update":
        assert numbered(rejects) == [(3, "23505"), (5, "23514")]
        assert held == [("Abc", "ONE", 3), ("JKL", "TWO", 5), ("def", "two", 1), ("mno", "one", 7)]
        assert counts(run) == (2, 1, 0, 1)
    else:
        assert numbered(rejects) == [(3, "23505"), (5, "23514"), (6, "23505")]
        assert held == [("Abc", "one", 1), ("JKL", "TWO", 5), ("def", "two", 1)]
        assert counts(run) == (1, 0, 1, 1)


def test_a_default_collation() -> None:
    """It belongs to a database in memory, not to any of its tables, and is no matter of indexes either."""
    with duckdb.connect() as connection:
        connection.execute("SET default_collation = 'nocase'; CREATE TABLE t (k varchar, l varchar[], v integer)")
        assert by_bytes(connection, "t", ["k", "l", "v", "trim(k)"]) == (
            '(k COLLATE "binary")',
            "l",
            "v",
            '(trim(k) COLLATE "binary")',
        )
        assert collated_types(connection, "t", {"k": "VARCHAR"}) == {"k": "VARCHAR"}
