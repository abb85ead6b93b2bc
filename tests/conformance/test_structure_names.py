"""Names of what `--structure` makes, beside names that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import run_tipple
from targets import PostgresTarget, write


@pytest.mark.parametrize("name", ["long_but_ordinary_name_of_a_fact_table_in_a_warehouse", "t"])
def test_a_name_that_an_index_would_have_is_taken(postgres_target: PostgresTarget, tmp_path: Path, name: str) -> None:
    """By an index of a partition, whose name is cut, or by somebody else's."""
    key = "l_shipdate_of_line"
    postgres_target.execute(f"CREATE TABLE other (a integer); CREATE INDEX t_{key}_brin ON other (a)")
    schema = write(tmp_path / "s.sql", f"CREATE TABLE {name} (k integer, {key} integer);")
    run_tipple(
        "load", write(tmp_path / "in.csv", "1,1\n50,2\n5000,3\n"), "--into", postgres_target.url, "--table", name,
        "--schema", schema, "--format", "csv", "--header", "no", "--partition-by", "range(k, bounds=[10,1000])",
        "--structure", "sorted", "--key", key,
    )  # fmt: skip
    assert postgres_target.count(name) == 3
    query = f"SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relname LIKE '{name[:8]}%'"
    assert postgres_target.value(query) == 4
