"""An UPDATE or DELETE that a publication does not allow is told before the load, not when everything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

import tipple
from command import run_tipple
from servers.postgres import LOADER
from targets import PostgresTarget, write

TABLE = "CREATE TABLE t (id integer NOT NULL, v text); INSERT INTO t VALUES (1, 'a');"
PARTS = (
    "CREATE TABLE t (id integer NOT NULL, v text) PARTITION BY RANGE (id); "
    "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10); "
    "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20); ALTER TABLE t1 ADD PRIMARY KEY (id); "
    "INSERT INTO t VALUES (1, 'a'), (11, 'b');"
)


def publish(target: PostgresTarget, what: str) -> None:
    target.server.execute(f"GRANT CREATE ON DATABASE {target.database} TO {LOADER}", target.database)
    target.execute(f"CREATE PUBLICATION p FOR {what}")


def load(target: PostgresTarget, path: Path, **options: Any) -> Any:
    return tipple.load(path, into=target.url, table="t", format="csv", header="no", **options)


CASES = {
    "an upsert": (TABLE, "TABLE t", {"mode": "upsert", "key": ["id"]}, "UPDATE", "t"),
    "an upsert into partitions": (PARTS, "TABLE t", {"mode": "upsert", "key": ["id"]}, "UPDATE", "t2"),
    "a replace": (TABLE, "TABLE t", {"mode": "replace"}, "DELETE", "t"),
    "a replace of partitions": (PARTS, "TABLE t", {"mode": "replace"}, "DELETE", "t2"),
    "a replace of partitions of which one is published": (PARTS, "TABLE t2", {"mode": "replace"}, "DELETE", "t2"),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_before_the_load(postgres_target: PostgresTarget, tmp_path: Path, case: str) -> None:
    setup, published, options, command, named = CASES[case]
    postgres_target.execute(setup)
    publish(postgres_target, published)
    before, there = postgres_target.sorted_rows("t"), postgres_target.leftovers("t")
    source = write(tmp_path / "in.csv", "1,x\n2,y\n")
    for dry_run in (True, False):
        with pytest.raises(
            tipple.UsageError, match=f'would not {command} rows of public.t: cannot .* "{named}"'
        ) as caught:
            load(postgres_target, source, dry_run=dry_run, **options)
        assert "REPLICA IDENTITY FULL" in str(caught.value.hint)
    assert postgres_target.sorted_rows("t") == before
    assert postgres_target.leftovers("t") == there
    # The remedy, literally.
    postgres_target.execute(f"ALTER TABLE {named} REPLICA IDENTITY FULL")
    load(postgres_target, source, **options)
    assert (1, "x") in postgres_target.sorted_rows("t")


@pytest.mark.parametrize("columns", ["", " (v)"])
def test_partitions_that_are_replaced_by_themselves(
    postgres_target: PostgresTarget, tmp_path: Path, columns: str
) -> None:
    """Which of them get rows is known at the end only: it is said before, and refused then."""
    postgres_target.execute(f"{PARTS} ALTER TABLE t2 ADD PRIMARY KEY (id)")
    publish(postgres_target, f"TABLE t2{columns}")
    if not columns:
        postgres_target.execute("ALTER TABLE t2 REPLICA IDENTITY NOTHING")
    found = run_tipple("doctor", postgres_target.url, "--table", "t", check=False).stdout
    assert "1 publication: p" in found
    assert "would not DELETE rows of t:" in found
    options = {"mode": "replace", "replace_scope": "partitions"}
    spares, touches = write(tmp_path / "a.csv", "1,x\n"), write(tmp_path / "b.csv", "2,x\n12,y\n")
    for dry_run in (True, False):
        report = load(postgres_target, spares, dry_run=dry_run, **options)
        assert any("the load fails where rows come for that partition" in note for note in report.notes)
    before = postgres_target.sorted_rows("t")
    assert before == [(1, "x"), (11, "b")]
    with pytest.raises(tipple.TippleError, match=r"does not DELETE rows of public\.t2: cannot ") as caught:
        load(postgres_target, touches, **options)
    assert ("column list" if columns else "REPLICA IDENTITY FULL") in str(caught.value.hint)
    assert postgres_target.sorted_rows("t") == before
    # The remedy, literally.
    remedy = "ALTER PUBLICATION p SET TABLE t2 (id, v)" if columns else "ALTER TABLE t2 REPLICA IDENTITY FULL"
    postgres_target.execute(remedy)
    load(postgres_target, touches, **options)
    assert postgres_target.sorted_rows("t") == [(12, "y"), (2, "x")]


def test_column_lists_and_row_filters(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(f"{TABLE} ALTER TABLE t ADD PRIMARY KEY (id)")
    publish(postgres_target, "TABLE t WHERE (v <> 'b')")
    source = write(tmp_path / "in.csv", "1,x\n2,y\n")
    with pytest.raises(
        tipple.UsageError, match=r"would not UPDATE rows of public.t: .*WHERE expression is not part of"
    ):
        load(postgres_target, source, mode="upsert", key=["id"])
    # Nothing is updated, or what is published are rows that come.
    load(postgres_target, source, mode="upsert", key=["id"], on_conflict="ignore")
    assert postgres_target.sorted_rows("t") == [(1, "a"), (2, "y")]
    postgres_target.execute("ALTER PUBLICATION p SET (publish = 'insert')")
    load(postgres_target, source, mode="upsert", key=["id"])
    assert postgres_target.sorted_rows("t") == [(1, "x"), (2, "y")]


def test_a_column_list_that_lacks_the_key(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(f"{TABLE} ALTER TABLE t ADD PRIMARY KEY (id)")
    publish(postgres_target, "TABLE t (v)")
    source = write(tmp_path / "in.csv", "1,x\n2,y\n")
    with pytest.raises(tipple.UsageError, match=r"would not UPDATE rows of public.t: ") as caught:
        load(postgres_target, source, mode="upsert", key=["id"])
    assert "its column list must have all of them" in str(caught.value.hint)
    # The remedy, literally.
    postgres_target.execute("ALTER PUBLICATION p SET TABLE t (id, v)")
    load(postgres_target, source, mode="upsert", key=["id"])
    assert postgres_target.sorted_rows("t") == [(1, "x"), (2, "y")]


def test_nobody_is_waited_for(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A plan says what it can, and stands in no queue."""
    postgres_target.execute(f"{TABLE} ALTER TABLE t ADD PRIMARY KEY (id)")
    publish(postgres_target, "TABLE t")
    source = write(tmp_path / "in.csv", "1,x\n")
    with psycopg.connect(postgres_target.url) as other:
        other.execute("LOCK TABLE t IN SHARE MODE")
        load(postgres_target, source, mode="upsert", key=["id"], dry_run=True)
