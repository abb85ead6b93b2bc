"""What is staged gets the constraints of its table, also where an earlier run has given it some of them."""

from __future__ import annotations

import psycopg

from targets import PostgresTarget
from tipple.engines.postgresql import key_work
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
