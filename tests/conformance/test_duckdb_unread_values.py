"""Values that only DuckDB reads, and refuses: records like any other that cannot be stored."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tipple
from loading import load, load_here, load_stdin
from spoilt import told
from targets import DuckdbTarget, write
from tipple.errors import BadRecord

OF_DUCKDB = [
    ("MAP(VARCHAR, INTEGER)", "{a=1}", "{a=x}"),
    ("BIT", "0101", "012"),
    ("STRUCT(a INTEGER, b VARCHAR)", "{'a': 1, 'b': x}", "{'a': x, 'b': y}"),
    ("INTEGER[2]", "[1, 2]", "[1, 2, 3]"),
    ("TIMESTAMP_NS", "2020-01-01", "yesterday"),
    ("JSON", '"\\ud83d\\ude00"', '"\\ud800"'),
]
"""A type, a value of it, and one that is none."""


@pytest.fixture
def target(tmp_path: Path) -> DuckdbTarget:
    return DuckdbTarget(tmp_path / "x.duckdb")


def lines_of(good: str, bad: str) -> bytes:
    return "".join(f"{n}|{bad if n in (3, 700) else good}\n" for n in range(1000)).encode()


@pytest.mark.parametrize("case", OF_DUCKDB, ids=lambda case: case[0])
@pytest.mark.parametrize("how", ["file", "keyed", "no_atomic", "stdin", "upsert"])
def test_what_duckdb_cannot_read_is_a_reject(
    target: DuckdbTarget, tmp_path: Path, case: tuple[str, str, str], how: str
) -> None:
    of_type, good, bad = case
    target.execute(f"CREATE TABLE t (n integer{' PRIMARY KEY' * (how in ('keyed', 'upsert'))}, a {of_type})")
    rejects = tmp_path / "bad"
    options: dict[str, Any] = {"delimiter": "|", "quote": "~", "header": "no"}
    options |= {"on_error": "skip", "max_rejects": 2, "rejects": rejects}
    if how == "stdin":
        assert load_stdin(target, lines_of(good, bad), **options).returncode == 3
    else:
        options |= {"no_atomic": {"no_atomic": True}, "upsert": {"mode": "upsert", "key": "n"}}.get(how, {})
        load(target, write(tmp_path / "in.csv", lines_of(good, bad)), check=3, **options)
    assert [(number, column, code) for number, _, column, code in told(rejects)] == [
        (4, "a", "22P02"),
        (701, "a", "22P02"),
    ]
    assert rejects.read_text() == f"3|{bad}\n700|{bad}\n"
    assert bad in Path(f"{rejects}.reasons.csv").read_text().replace('""', '"')
    assert (target.count("t"), target.value("SELECT count(a) FROM t")) == (998, 998)
    assert target.leftovers("t") == set()


def test_parts_and_nulls(target: DuckdbTarget, tmp_path: Path) -> None:
    """A part that cannot be read is told apart from one that is NULL."""
    target.execute("CREATE TABLE t (n integer, a INTEGER[2])")
    path = write(tmp_path / "in.csv", "1|\n2|[1,x]\n3|[1,NULL]\n4|[x,NULL]\n")
    options: dict[str, Any] = {"delimiter": "|", "header": "no", "on_error": "skip", "rejects": tmp_path / "bad"}
    load(target, path, check=3, max_rejects=2, **options)
    assert target.rows("SELECT n, a::varchar FROM t ORDER BY n") == [(1, None), (3, "[1, NULL]")]


def test_too_many_of_them_are_told(target: DuckdbTarget, tmp_path: Path) -> None:
    target.execute("CREATE TABLE t (n integer, a BIT)")
    path = write(tmp_path / "in.csv", lines_of("01", "x"))
    options: dict[str, Any] = {"delimiter": "|", "header": "no", "on_error": "skip", "rejects": tmp_path / "bad"}
    run = load(target, path, check=1, max_rejects=1, **options)
    assert "--max-rejects 1" in run.stderr
    assert target.count("t") == 0


def test_without_skipping_its_record_is_named(target: DuckdbTarget, tmp_path: Path) -> None:
    target.execute("CREATE TABLE t (n integer, a MAP(VARCHAR, INTEGER))")
    path = write(tmp_path / "in.csv", lines_of("{}", "{a=x}"))
    with pytest.raises(BadRecord) as caught:
        tipple.load(path, into=target.url, table="t", delimiter="|", header="no")
    assert (caught.value.record_number, caught.value.column, caught.value.text) == (4, "a", "{a=x}")
    assert target.count("t") == 0


def test_columns_of_batches(target: DuckdbTarget, tmp_path: Path) -> None:
    """Of a file, and of a table in memory, which is read once."""
    target.execute("CREATE TABLE t (n integer, a BIT, b STRUCT(x TINYINT))")
    texts = ["01"] * 1000
    texts[3] = "x"
    small = [{"x": 1}] * 1000
    small[700] = {"x": 1000}
    table = pa.table({"n": range(1000), "a": texts, "b": small})
    rejects = tmp_path / "bad"
    report = tipple.load(table, into=target.url, table="t", on_error="skip", max_rejects=2, rejects=rejects)
    assert report.rejects == 2
    with Path(f"{rejects}.reasons.csv").open(encoding="utf-8", newline="") as file:
        assert [(row["record_number"], row["column"]) for row in csv.DictReader(file)] == [("4", "a"), ("701", "b")]
    assert json.loads(rejects.read_text().splitlines()[1].split(",", 2)[2].strip('"').replace('""', '"')) == {"x": 1000}
    assert target.count("t") == 998


def test_a_table_of_files(target: DuckdbTarget, tmp_path: Path) -> None:
    """Where the session's time zone is not UTC, moments are DuckDB's to read."""
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (n integer, a timestamptz)")
    path = write(tmp_path / "in.csv", lines_of("2020-01-01 10:00:00", "yesterday"))
    rejects = tmp_path / "bad"
    options: dict[str, Any] = {"delimiter": "|", "header": "no", "schema": schema, "structure": "parquet"}
    load(target, path, check=3, on_error="skip", max_rejects=2, rejects=rejects, env={"TZ": "Asia/Kolkata"}, **options)
    assert [number for number, *_ in told(rejects)] == [4, 701]
    assert target.count("t") == 998
    # And once the table is there.
    load(target, write(tmp_path / "more.csv", lines_of("2020-01-01 10:00:00", "x")), check=3, on_error="skip",
         max_rejects=2, rejects=rejects, env={"TZ": "Asia/Kolkata"}, delimiter="|", header="no")  # fmt: skip
    assert target.count("t") == 2 * 998


CHECKED = "CREATE TABLE t (n integer, a varchar, CHECK (CAST(a AS integer) > 0 AND CAST(a AS integer) < 9))"
UNSTEADY = "CREATE TABLE t (n integer, a varchar, CHECK (TRY_CAST(a AS integer) BETWEEN 1 AND 8 AND random() < 2))"
INDEXED = "CREATE TABLE t (n integer, a varchar); CREATE UNIQUE INDEX i ON t ((CAST(a AS integer)), n)"


@pytest.mark.parametrize(
    ("table", "bad", "sqlstates", "how"),
    [
        *((CHECKED, "x", ["23514", "23514"], how) for how in ("file", "no_atomic", "stdin", "upsert")),
        *((UNSTEADY, "9", ["23514", "23514"], how) for how in ("file", "no_atomic", "stdin", "upsert")),
        *((INDEXED, "x", ["22000", "23505"], how) for how in ("file", "no_atomic", "stdin")),
    ],
)
def test_constraints_that_cannot_be_computed(
    target: DuckdbTarget, tmp_path: Path, table: str, bad: str, sqlstates: list[str], how: str
) -> None:
    """A record for which a CHECK or an index fails is one that violates it, and no end of the load."""
    target.execute(table)
    again = "01" if table == INDEXED else "-1"
    data = f"1,1\n2,{bad}\n1,{again}\n4,\n"
    rejects = tmp_path / "bad.csv"
    options: dict[str, Any] = {"header": "no", "on_error": "skip", "max_rejects": 2, "rejects": rejects}
    expected = [(2, sqlstates[0]), (3, sqlstates[1])]
    if how == "stdin":
        assert load_stdin(target, data.encode(), **options).returncode == 3
    else:
        path = write(tmp_path / "in.csv", data)
        given: dict[str, Any] = {"mode": "upsert", "key": "n"} if how == "upsert" else {}
        run = load_here(target, path, header="no", **given, check=1)
        assert "record    2" in run.stderr
        load_here(target, path, no_atomic=how == "no_atomic", **given, **options, restart=True, check=3)
    assert [(number, sqlstate) for number, *_, sqlstate in told(rejects)] == expected
    assert target.sorted_rows("t") == [(1, "1"), (4, None)]
