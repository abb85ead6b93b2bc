"""Rows that are replaced in partitions which a DELETE of their own would not take, as one from the table does."""

from __future__ import annotations

from pathlib import Path

import pytest

from loading import load
from targets import PostgresTarget, write

TABLE = """
CREATE TABLE t (a integer, b text) PARTITION BY RANGE (a);
CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10);
CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20);
INSERT INTO t SELECT i, 'old' FROM generate_series(0, 19) i
"""
CLOSED = {
    "row security": "ALTER TABLE t1 ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
    "a policy": "ALTER TABLE t1 ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; "
    "CREATE POLICY p ON t1 USING (a < 5)",
    "no right": "REVOKE DELETE ON t1 FROM CURRENT_USER",
}


@pytest.mark.parametrize("scope", ["table", "partitions"])
@pytest.mark.parametrize("closed", CLOSED)
def test_all_rows_are_replaced(postgres_target: PostgresTarget, tmp_path: Path, closed: str, scope: str) -> None:
    postgres_target.execute(TABLE)
    postgres_target.execute(CLOSED[closed])
    path = write(tmp_path / "in.csv", "".join(f"{i},new\n" for i in range(0, 20, 2)))
    load(postgres_target, path, mode="replace", replace_scope=scope)
    found = postgres_target.server.rows("SELECT a, b FROM t ORDER BY a", postgres_target.database)
    assert found == [(i, "new") for i in range(0, 20, 2)]


@pytest.mark.parametrize("of", ["t1", "t"])
def test_rows_that_are_referred_to(postgres_target: PostgresTarget, tmp_path: Path, of: str) -> None:
    postgres_target.execute(TABLE)
    postgres_target.execute(
        f"ALTER TABLE {of} ADD PRIMARY KEY (a); CREATE TABLE r (a integer REFERENCES {of} DEFERRABLE); "
        "INSERT INTO r VALUES (5)"
    )
    path = write(tmp_path / "in.csv", "".join(f"{i},new\n" for i in range(20)))
    load(postgres_target, path, mode="replace")
    assert postgres_target.rows("SELECT DISTINCT b FROM t") == [("new",)]
    # No record of the file is to blame, with the row or without it.
    postgres_target.execute("ALTER TABLE r ALTER CONSTRAINT r_a_fkey NOT DEFERRABLE")
    for number in (5, 6):
        write(path, "".join(f"{i},newer\n" for i in range(20) if i != number))
        run = load(postgres_target, path, mode="replace", check=1)
        assert "is still referenced from table" in run.stderr
        assert "DEFERRABLE" in run.stderr
        assert "cannot be stored" not in run.stderr
    assert postgres_target.rows("SELECT DISTINCT b FROM t") == [("new",)]
