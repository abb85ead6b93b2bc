"""The table as a constant, `'t'::regclass`, which the table that takes its place would not be."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.test_nothing_lost import load, two
from targets import PostgresTarget

USES = {
    "default of another table": "CREATE TABLE o (x regclass DEFAULT 't'::regclass)",
    "check of another table": "CREATE TABLE o (x regclass CHECK (x <> 't'::regclass))",
    "check of a domain": "CREATE DOMAIN o AS regclass CHECK (VALUE <> 't'::regclass)",
    "default of a domain": "CREATE DOMAIN o AS regclass DEFAULT 't'::regclass",
    "its own default": "ALTER TABLE t ADD o regclass DEFAULT 't'::regclass",
    "its own check": "ALTER TABLE t ADD CHECK (id <> 't'::regclass::bigint)",
    "an index of an extension": "CREATE INDEX o ON t (v); ALTER INDEX o DEPENDS ON EXTENSION plpgsql",
}


@pytest.mark.parametrize("mode", ["append", "replace"])
@pytest.mark.parametrize("name", USES)
def test_what_would_be_lost_keeps_the_table(
    postgres_target: PostgresTarget, tmp_path: Path, name: str, mode: str
) -> None:
    postgres_target.execute("CREATE TABLE t (id integer, v text)")
    postgres_target.execute(USES[name])
    before = postgres_target.value("SELECT 't'::regclass::oid::bigint")
    assert load(postgres_target, two(tmp_path), mode=mode, columns=["id", "v"]).rows == 2
    assert postgres_target.value("SELECT 't'::regclass::oid::bigint") == before
    assert postgres_target.count("t") == 2


def test_a_partition_as_a_constant(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(
        "CREATE TABLE t (id integer, v text) PARTITION BY RANGE (id);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE o (x regclass DEFAULT 't1'::regclass)"
    )
    for _ in range(2):
        assert load(postgres_target, two(tmp_path), mode="replace", restart=True).rows == 2
    assert postgres_target.count("t") == 2
