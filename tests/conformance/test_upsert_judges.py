"""What an upsert rejects is what the server would refuse, also where a query over all staged rows cannot tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tipple
from servers.postgres import LOADER
from targets import PostgresTarget, write

PARTITIONED = (
    "CREATE TABLE p (k int PRIMARY KEY) PARTITION BY HASH (k);"
    "CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
    "CREATE TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1);"
    "INSERT INTO p SELECT generate_series(1, 4);"
)
TRIGGER = (
    "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN new; END $$;"
    "CREATE TRIGGER b BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()"
)
CASES: dict[str, tuple[str, str, list[int]]] = {
    "a foreign key to a partitioned table": (
        f"{PARTITIONED} CREATE TABLE t (id int PRIMARY KEY, k int REFERENCES p)", "1,1\n2,2\n3,3\n4,4\n5,5\n", [5],
    ),
    "and from one": (
        f"{PARTITIONED} CREATE TABLE t (id int PRIMARY KEY, k int REFERENCES p) PARTITION BY RANGE (id);"
        "CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (3); CREATE TABLE t1 PARTITION OF t DEFAULT",
        "1,1\n2,9\n3,3\n5,5\n", [2, 5],
    ),
    "keys of other collations": (
        'CREATE TABLE p (k text COLLATE "C" PRIMARY KEY); INSERT INTO p VALUES (\'a\'), (\'b\');'
        'CREATE TABLE t (id int PRIMARY KEY, k text COLLATE "POSIX" REFERENCES p)', "1,a\n2,b\n3,c\n", [3],
    ),
    "a trigger that mends values": (
        "CREATE TABLE t (id int PRIMARY KEY, k int CHECK (k > 0));" + TRIGGER.format(body="new.k := abs(new.k)"),
        "1,-1\n2,2\n3,0\n", [3],
    ),
    "a trigger that makes keys differ": (
        "CREATE TABLE t (id int PRIMARY KEY, k text UNIQUE);" + TRIGGER.format(body="new.k := new.k || new.id"),
        "1,x\n2,x\n3,y\n", [],
    ),
    "whole rows": (
        "CREATE TABLE t (id int PRIMARY KEY, k text, CHECK (id > 0 AND t IS NOT NULL));"
        "CREATE UNIQUE INDEX ON t (k) WHERE t IS NOT NULL", "1,x\n2,x\n3,\n4,y\n", [2, 3],
    ),
}  # fmt: skip


def upsert(target: PostgresTarget, tmp_path: Path, text: str, **options: Any) -> tuple[list[int], int]:
    """The ids that are stored, and the number of rejects."""
    options = {"on_error": "skip", "max_rejects": "100%", "rejects": tmp_path / "bad.csv", "key": ["id"], **options}
    path = write(tmp_path / "in.csv", text)
    report = tipple.load(path, into=target.url, table="t", format="csv", header="no", mode="upsert", **options)
    return [row[0] for row in target.rows("SELECT id FROM t ORDER BY id")], report.rejects


@pytest.mark.parametrize("case", CASES)
def test_rows_that_the_server_takes_are_stored(postgres_target: PostgresTarget, tmp_path: Path, case: str) -> None:
    setup, text, bad = CASES[case]
    postgres_target.execute(setup)
    ids = [int(line.partition(",")[0]) for line in text.splitlines()]
    assert upsert(postgres_target, tmp_path, text) == ([n for n in ids if n not in bad], len(bad))


def test_a_referenced_table_whose_policies_hide_rows(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Of a foreign key the server looks at all of them."""
    postgres_target.server.execute(
        "CREATE TABLE p (k text PRIMARY KEY); INSERT INTO p VALUES ('a'), ('b');"
        f"ALTER TABLE p ENABLE ROW LEVEL SECURITY; GRANT SELECT, REFERENCES ON p TO {LOADER}",
        postgres_target.database,
    )
    postgres_target.execute("CREATE TABLE t (id int PRIMARY KEY, k text REFERENCES p)")
    assert upsert(postgres_target, tmp_path, "1,a\n2,b\n3,c\n") == ([1, 2], 1)


def test_a_foreign_key_over_periods(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    if postgres_target.server.version < 18:
        pytest.skip("version 18 has them")
    postgres_target.execute(
        "CREATE TABLE p (k int4range, v daterange, PRIMARY KEY (k, v WITHOUT OVERLAPS));"
        "INSERT INTO p VALUES ('[1,2)', '[2024-01-01,2024-06-01)'), ('[1,2)', '[2024-06-01,2025-01-01)');"
        "CREATE TABLE t (id int PRIMARY KEY, k int4range, v daterange, FOREIGN KEY (k, PERIOD v) "
        "REFERENCES p (k, PERIOD v))"
    )
    text = (
        '1,"[1,2)","[2024-02-01,2024-03-01)"\n2,"[1,2)","[2024-05-01,2024-07-01)"\n'
        '3,"[1,2)","[2024-05-01,2026-07-01)"\n'
    )
    assert upsert(postgres_target, tmp_path, text) == ([1, 2], 1)


def test_a_key_of_a_domain_that_allows_no_null(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE DOMAIN d AS text NOT NULL; CREATE TABLE t (id int, b d)")
    upsert(postgres_target, tmp_path, "1,x\n3,z\n4,x\n", key=["b"])
    assert postgres_target.sorted_rows("t") == [(3, "z"), (4, "x")]
