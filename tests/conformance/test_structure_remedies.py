"""What is advised where the key of a structure cannot be made: the advice can be followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from loading import load
from targets import PostgresTarget, Target, write


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    return write(tmp_path / "schema.sql", "CREATE TABLE t (x integer, id integer);")


def test_a_key_of_a_new_table_that_records_share(engine_target: Target, tmp_path: Path, schema: Path) -> None:
    path = write(tmp_path / "in.csv", "1,2\n1,3\n2,4\n")
    run = load(engine_target, path, schema=schema, structure="btree", key="x", check=1)
    assert "23505" in run.stderr
    # There is no constraint to be dropped.
    assert "drop the constraint" not in run.stderr
    assert "choose another --key, or leave out --structure; --on-error skip" in run.stderr
    ways: list[tuple[int, dict[str, object], int]] = [
        (0, {"structure": "btree", "key": "id"}, 3),
        (0, {}, 3),
        (
            3,
            {"structure": "btree", "key": "x", "on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "rejects"},
            2,
        ),
    ]
    for status, options, rows in ways:
        load(engine_target, path, schema=schema, check=status, **options)
        assert engine_target.count("t") == rows
        engine_target.execute("DROP TABLE t")


def test_a_key_that_lacks_what_divides_the_table(postgres_target: PostgresTarget, tmp_path: Path, schema: Path) -> None:
    path = write(tmp_path / "in.csv", "1,2\n1,3\n2,4\n")
    options = {"schema": schema, "structure": "btree", "partition_by": "hash(id, 3)"}
    for dry_run in (True, False):
        run = load(postgres_target, path, key="x", dry_run=dry_run, check=2, **options)
        assert "--key x lacks id" in run.stderr
        assert "hint: --key x,id; or --structure sorted" in run.stderr
    load(postgres_target, path, key="x,id", **options)
    assert postgres_target.count("t") == 3


def test_a_key_of_a_schema_that_lacks_what_divides_the_table(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "1,2\n3,3\n2,4\n")
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (x integer PRIMARY KEY, id integer);")
    run = load(postgres_target, path, schema=schema, partition_by="hash(id, 3)", check=2)
    assert "hint: add id, which divides the table, to each PRIMARY KEY and UNIQUE in the schema file" in run.stderr
    write(schema, "CREATE TABLE t (x integer, id integer, PRIMARY KEY (x, id));")
    load(postgres_target, path, schema=schema, partition_by="hash(id, 3)")
    assert postgres_target.count("t") == 3
