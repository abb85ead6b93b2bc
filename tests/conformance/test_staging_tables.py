"""Staging tables, while rows come into them: the server's own work must not wait for them, nor they for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tipple
from conformance.test_nothing_lost import during
from targets import PostgresTarget, write

TREE = "CREATE TABLE t (a integer, b text) PARTITION BY RANGE (a); CREATE TABLE t_0 PARTITION OF t DEFAULT"
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "swap": ("CREATE TABLE t (a integer, b text)", {}),
    "new": ("", {"schema": "s.sql"}),
    "upsert": ("CREATE TABLE t (a integer, b text)", {"mode": "upsert", "key": ["a"]}),
    "partitions": (TREE, {}),
    "new partitions": ("", {"schema": "s.sql", "partition_by": "range(a, every=10)"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_autovacuum_leaves_them_alone(postgres_target: PostgresTarget, tmp_path: Path, way: str) -> None:
    """It would read what is only to be read again; what is published has it as any other table."""
    table, options = WAYS[way]
    postgres_target.execute(table)
    if "schema" in options:
        options = {**options, "schema": write(tmp_path / "s.sql", "CREATE TABLE t (a integer, b text);")}
    settings = "SELECT DISTINCT reloptions FROM pg_class WHERE relkind = 'r' AND relname LIKE '{}%'"
    seen = []
    look = during("verify", lambda: seen.extend(postgres_target.rows(settings.format("stage"))))
    path = write(tmp_path / "in.csv", "1,x\n11,y\n")
    tipple.load(path, into=postgres_target.url, table="t", header="no", progress=look, **options)
    assert seen == [(["autovacuum_enabled=false"],)]
    assert postgres_target.rows(settings.format("t")) == [(None,)]
