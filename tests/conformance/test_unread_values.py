"""Values that only PostgreSQL reads, and refuses: records like any other that cannot be stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loading import load
from spoilt import told
from targets import PostgresTarget, write

ERRORS_OF_STATEMENTS = [
    ("tsquery", "'a' & 'b'", "a &"),
    ("jsonpath", "$.a", "$.["),
    ("regclass", "pg_class", "no_such_table"),
    ("regclass", "pg_class", "no_such_schema.t"),
    ("regclass", "pg_class", "other.public.t"),
    ("regrole", "postgres", "no_such_role"),
]
"""A type, a value of it, and one that is none, which the server refuses with a code of statements."""


@pytest.mark.parametrize("case", ERRORS_OF_STATEMENTS, ids=" ".join)
@pytest.mark.parametrize("options", [{}, {"no_atomic": True}, {"mode": "replace"}], ids=str)
def test_a_value_with_a_statements_error_is_a_reject(
    postgres_target: PostgresTarget, tmp_path: Path, case: tuple[str, str, str], options: dict[str, Any]
) -> None:
    """The server has codes of class 42 for values too; with line and column it says that it was reading one."""
    of_type, good, bad = case
    with pytest.raises(psycopg.Error) as caught:
        postgres_target.execute(f"SELECT '{bad}'::{of_type}")
    sqlstate = str(caught.value.sqlstate)
    assert sqlstate[:2] in ("0A", "3F", "42")
    postgres_target.execute(f"CREATE TABLE t (n integer, a {of_type}); INSERT INTO t VALUES (-1, NULL)")
    lines = [f"{n}|{bad if n in (3, 700) else good}\n" for n in range(1000)]
    rejects = tmp_path / "bad"
    options |= {"delimiter": "|", "on_error": "skip", "max_rejects": 2, "rejects": rejects, "header": "no"}
    load(postgres_target, write(tmp_path / "in.csv", "".join(lines)), check=3, **options)
    assert [(number, column, code) for number, _, column, code in told(rejects)] == [
        (4, "a", sqlstate),
        (701, "a", sqlstate),
    ]
    assert postgres_target.value("SELECT count(*) FROM t WHERE n >= 0") == 998


@pytest.mark.parametrize("sources", ["csv", "parquet"])
def test_in_partitions(postgres_target: PostgresTarget, tmp_path: Path, sources: str) -> None:
    """Whether they are filled directly, or the server finds them."""
    postgres_target.execute("CREATE TABLE t (n integer, a tsquery) PARTITION BY RANGE (n)")
    for part in range(4):
        bounds = f"FROM ({part * 250}) TO ({part * 250 + 250})"
        postgres_target.execute(f"CREATE TABLE t{part} PARTITION OF t FOR VALUES {bounds}")
    texts = ["a &" if n in (3, 700) else "a" for n in range(1000)]
    path = tmp_path / f"in.{sources}"
    if sources == "csv":
        write(path, "".join(f"{n},{text}\n" for n, text in enumerate(texts)))
    else:
        pq.write_table(pa.table({"n": range(1000), "a": texts}), path)
    run = load(postgres_target, path, on_error="skip", max_rejects=2, rejects=tmp_path / "bad", check=3)
    assert run.summary is not None
    assert run.summary["rejects"] == 2
    assert postgres_target.count("t") == 998


def test_a_statements_own_error_ends_the_load(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """It is no record's fault, though it has the same class."""
    postgres_target.execute(
        "CREATE TABLE t (a tsquery); INSERT INTO t VALUES ('x');"
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM 1 FROM no_such_table; RETURN NEW; END';"
        "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"
    )
    path = write(tmp_path / "in.csv", "a\nb\n")
    run = load(
        postgres_target, path, on_error="skip", max_rejects="100%", rejects=tmp_path / "bad", header="no", check=1
    )
    assert "no_such_table" in run.stderr
    assert postgres_target.count("t") == 1
