"""What is staged gets the constraints of its table, also where an earlier run has given it some of them."""

from __future__ import annotations

import psycopg
import pytest

from targets import PostgresTarget
from tipple.engines.postgresql.place import key_work
from tipple.plan.url import TableName

OWN, LIKE = TableName("public", "own"), TableName("public", "t")


def _work(target: PostgresTarget) -> list[str]:
    with psycopg.connect(target.url, autocommit=True) as connection:
        return key_work.missing_of_all(connection, [(OWN, LIKE)], drops=True)[0].after


def test_a_foreign_key_that_nobody_has_validated(postgres_target: PostgresTarget) -> None:
    """It is added by one statement and validated by another: who is killed between them has judged no row."""
    postgres_target.execute(
        "CREATE TABLE other (a integer PRIMARY KEY); CREATE TABLE own (a integer); CREATE TABLE t (a integer);"
        "ALTER TABLE t ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES other;"
        "ALTER TABLE own ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES other NOT VALID"
    )
    validate = 'ALTER TABLE "public"."own" VALIDATE CONSTRAINT "k"'
    assert _work(postgres_target) == [validate]
    postgres_target.execute(validate)
    assert _work(postgres_target) == []
    postgres_target.execute("ALTER TABLE own DROP CONSTRAINT k")
    added, validated = _work(postgres_target)
    assert added.endswith("NOT VALID")
    assert validated == validate


def test_a_foreign_key_over_periods(postgres_target: PostgresTarget) -> None:
    """VALIDATE CONSTRAINT does not see all that violates it: one that is not valid has judged nothing, and goes."""
    if postgres_target.server.version < 18:
        pytest.skip("version 18 has them")
    key = "FOREIGN KEY (k, PERIOD v) REFERENCES other (k, PERIOD v)"
    postgres_target.execute(
        "CREATE TABLE other (k int4range, v daterange, PRIMARY KEY (k, v WITHOUT OVERLAPS));"
        "CREATE TABLE own (k int4range, v daterange); CREATE TABLE t (LIKE own);"
        f"ALTER TABLE t ADD CONSTRAINT k {key}; ALTER TABLE own ADD CONSTRAINT k {key} NOT VALID"
    )
    drop, add = _work(postgres_target)
    assert drop == 'ALTER TABLE "public"."own" DROP CONSTRAINT "k"'
    assert add.startswith('ALTER TABLE "public"."own" ADD CONSTRAINT "k" FOREIGN KEY (k, PERIOD v)')
    assert "NOT VALID" not in add
    postgres_target.execute(drop)
    assert _work(postgres_target) == [add]
    postgres_target.execute(add)
    assert _work(postgres_target) == []


def test_a_check_that_has_become_another_one(postgres_target: PostgresTarget) -> None:
    postgres_target.execute(
        "CREATE TABLE own (a integer CONSTRAINT c CHECK (a < 1000)); CREATE TABLE t (LIKE own INCLUDING ALL)"
    )
    assert _work(postgres_target) == []
    postgres_target.execute("ALTER TABLE t DROP CONSTRAINT c, ADD CONSTRAINT c CHECK (a < 50)")
    for statement in _work(postgres_target):
        postgres_target.execute(statement)
    definition = (
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'c' AND conrelid = 'own'::regclass"
    )
    assert postgres_target.rows(definition) == [("CHECK ((a < 50))",)]
    assert _work(postgres_target) == []
