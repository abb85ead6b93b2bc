"""Records of an upsert that the table refuses: rejects like any others, and whatever is left is merged."""

from __future__ import annotations

import csv
import gzip
import os
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import duckdb
import pytest

from command import Run
from loading import load, load_here, load_stdin
from servers.postgres import LOADER
from targets import PostgresTarget, Target, write
from tipple.engines.base import LoadTask
from tipple.engines.duckdb import merge_violations
from tipple.engines.duckdb.constraints import Constraint

SEED = int(os.environ.get("TIPPLE_SEED", "0"))
TABLES = (
    "CREATE TABLE p (id integer PRIMARY KEY)",
    "INSERT INTO p VALUES (1), (2), (3), (4), (5)",
    "CREATE TABLE t (id integer PRIMARY KEY, email varchar UNIQUE, pid integer REFERENCES p, v integer CHECK (v > 0))",
)
SKIP: dict[str, Any] = {"on_error": "skip", "max_rejects": "100%", "key": "id", "mode": "upsert"}


class Record(NamedTuple):
    """A row of the table, or a record of a file."""

    id: int
    email: str | None
    pid: int | None
    v: int

    @property
    def text(self) -> str:
        return ",".join("" if value is None else str(value) for value in self) + "\n"


def make(target: Target, *held: Record) -> None:
    for statement in TABLES:
        target.execute(statement)
    for row in held:
        values = ", ".join("NULL" if value is None else repr(value) for value in row)
        target.execute(f"INSERT INTO t VALUES ({values})")


def upserted(
    held: list[Record], records: list[Record], *, ignore: bool
) -> tuple[dict[int, Record], list[tuple[int, str]]]:
    """What the table has then, and number and SQLSTATE of each reject, by going from key to key."""
    table = {row.id: row for row in held}
    refused: dict[int, str] = {}
    left: dict[int, list[int]] = {}
    for number, record in enumerate(records, 1):
        if ignore and record.id in table:
            continue
        if record.v <= 0:
            refused[number] = "23514"
        elif record.pid is not None and not 1 <= record.pid <= 5:
            refused[number] = "23503"
        else:
            left.setdefault(record.id, []).append(number)
    for numbers in sorted(left.values(), key=lambda numbers: numbers[-1]):
        for number in reversed(numbers):
            record = records[number - 1]
            others = {row.email for row in table.values() if row.id != record.id}
            if record.email is not None and record.email in others:
                refused[number] = "23505"
                continue
            table[record.id] = record
            break
    return table, sorted(refused.items())


def numbered(rejects: Path) -> list[tuple[int, str]]:
    """Record number and SQLSTATE of each reject."""
    with Path(f"{rejects}.reasons.csv").open(encoding="utf-8", newline="") as file:
        return [(int(row["record_number"]), row["sqlstate"]) for row in csv.DictReader(file)]


def check(
    target: Target,
    run: Run,
    rejects: Path,
    records: list[Record],
    expected: tuple[dict[int, Record], list[tuple[int, str]]],
) -> None:
    table, refused = expected
    assert {row[0]: Record(*row) for row in target.rows("SELECT id, email, pid, v FROM t")} == table
    assert (numbered(rejects) if refused else []) == refused
    if refused:
        assert rejects.read_text() == "".join(records[number - 1].text for number, _ in refused)
    summary = run.summary
    assert summary is not None
    assert summary["rejects"] == len(refused)
    assert summary["rows"] == len(records) - len(refused)
    counts = ("rows_inserted", "rows_updated", "rows_ignored", "rows_superseded")
    assert sum(summary[name] for name in counts) == summary["rows"]
    assert target.leftovers("t", "p") == set()


HELD = [Record(1, "a@x", 1, 1), Record(2, "b@x", 2, 2)]
RECORDS = [
    Record(1, "a1@x", 1, 5),
    Record(3, "c@x", 3, -1),
    Record(4, "b@x", 4, 4),  # 2 still has it
    Record(5, "e@x", 500, 5),
    Record(2, "b2@x", 2, 3),
    Record(6, "a1@x", 5, 6),
    Record(7, "g@x", 5, 7),
    Record(7, "g2@x", 5, -7),  # the one before it counts
    Record(8, "b@x", 3, 8),  # 2 has given it up
    Record(9, None, None, 9),
]


@pytest.mark.parametrize("on_conflict", ["update", "ignore"])
@pytest.mark.parametrize("form", ["csv", "gz", "parquet", "no ledger"])
def test_rejects(engine_target: Target, tmp_path: Path, form: str, on_conflict: str) -> None:
    make(engine_target, *HELD)
    path = write(tmp_path / "in.csv", "".join(record.text for record in RECORDS))
    if form == "gz":
        path = write(tmp_path / "in.csv.gz", gzip.compress(path.read_bytes()))
    if form == "parquet":
        values = ", ".join(str(tuple(record)).replace("None", "NULL") for record in RECORDS)
        path = tmp_path / "in.parquet"
        duckdb.sql(f"COPY (FROM (VALUES {values}) t (id, email, pid, v)) TO '{path}' (FORMAT parquet)")
    rejects = tmp_path / "bad.csv"
    expected = upserted(HELD, RECORDS, ignore=on_conflict == "ignore")
    options = {**SKIP, "rejects": rejects, "on_conflict": on_conflict, "no_ledger": form == "no ledger"}
    run = load(engine_target, path, **options, check=3)
    check(engine_target, run, rejects, RECORDS, expected)
    if form != "no ledger":
        rejects.unlink()
        again = load(engine_target, path, **options, check=3)
        assert again.summary is not None
        assert again.summary["status"] == "already loaded"
        assert [number for number, _ in numbered(rejects)] == [number for number, _ in expected[1]]


@pytest.mark.parametrize("seed", range(SEED, SEED + 12))
def test_any_records(engine_target: Target, tmp_path: Path, seed: int) -> None:
    """Few keys and few addresses, so that everything meets everything."""
    r = random.Random(seed)

    def record() -> Record:
        email = r.choice([None, *(f"{letter}@x" for letter in "abcdefgh"[: r.randrange(2, 9)])])
        return Record(r.randrange(12), email, r.choice([None, 1, 2, 3, 9]), r.choice([-1, 1, 2, 3]))

    held: list[Record] = []
    for _ in range(r.randrange(8)):
        row = record()
        if row.v > 0 and row.pid != 9 and row.id not in {old.id for old in held}:
            row = row._replace(email=None if row.email in {old.email for old in held} else row.email)
            held.append(row)
    make(engine_target, *held)
    records = [record() for _ in range(r.randrange(1, 40))]
    on_conflict = r.choice(["update", "update", "ignore"])
    path = write(tmp_path / "in.csv", "".join(record.text for record in records))
    rejects = tmp_path / "bad.csv"
    expected = upserted(held, records, ignore=on_conflict == "ignore")
    run = load_here(engine_target, path, **SKIP, rejects=rejects, on_conflict=on_conflict, header="no", check=False)
    assert run.exit_code == (3 if expected[1] else 0), run
    check(engine_target, run, rejects, records, expected)


def test_many_slices(engine_target: Target, tmp_path: Path) -> None:
    """Record numbers count on through slices and files, beside records that cannot be read at all."""
    make(engine_target, *HELD)
    bad = {1_000: "x", 150_000: "9,9", 299_999: "4,d@x,1,-1"}
    foreign = {77: 9, 200_001: 8}
    host = "x" * 60
    lines = [bad.get(n, f"{n + 10},m{n}@{host},{foreign.get(n, n % 5 + 1)},{n + 1}") + "\n" for n in range(300_000)]
    last = f"9,m5@{host},1,1\n10,m5@{host},1,1\n"
    files = [write(tmp_path / "0.csv", "".join(lines)), write(tmp_path / "1.csv", last)]
    rejects = tmp_path / "bad.csv"
    options = {**SKIP, "max_rejects": 7, "rejects": rejects, "header": "no", "jobs": 2}
    run = load(engine_target, *files, **options, check=3)
    assert run.summary is not None
    assert run.summary["slices"] > 2
    # 10 is there first and last: its last record wants what 15 has, and its first one counts.
    expected = sorted([*bad, *foreign])
    assert [number for number, _ in numbered(rejects)] == [*(n + 1 for n in expected), 1, 2]
    assert rejects.read_text() == "".join(lines[n] for n in expected) + files[1].read_text()
    assert run.summary["rows"] + run.summary["rejects"] == len(lines) + 2
    assert engine_target.count("t") == len(HELD) + len(lines) - len(expected)
    assert engine_target.rows("SELECT email FROM t WHERE id = 10") == [(f"m0@{host}",)]


def test_the_first_one_is_named(engine_target: Target, tmp_path: Path) -> None:
    """Where nothing is skipped: file, record, reason, and nothing published."""
    make(engine_target, *HELD)
    for number, (record, sqlstate) in enumerate(
        [(Record(5, "e@x", 1, -5), "23514"), (Record(5, "e@x", 9, 5), "23503"), (Record(5, "b@x", 1, 5), "23505")]
    ):
        path = write(tmp_path / f"{number}.csv", Record(4, "f@x", 1, 1).text + record.text)
        run = load(engine_target, path, mode="upsert", key="id", check=1)
        assert path.name in run.stderr
        assert sqlstate in run.stderr
        assert "record    2" in run.stderr
        assert engine_target.count("t") == len(HELD)
        assert engine_target.leftovers("t", "p") == set()


def test_the_limit(engine_target: Target, tmp_path: Path) -> None:
    """One more than allowed publishes nothing; with a higher limit the same command goes on."""
    make(engine_target, *HELD)
    path = write(tmp_path / "in.csv", "".join(record.text for record in RECORDS))
    options = {**SKIP, "rejects": tmp_path / "bad.csv", "header": "no"}
    most = len(upserted(HELD, RECORDS, ignore=False)[1])
    run = load(engine_target, path, **{**options, "max_rejects": most - 1}, check=1)
    assert "cannot be stored" in run.stderr
    assert run.stderr.count("Traceback") == 0
    run = load(engine_target, path, **{**options, "max_rejects": "20%"}, check=1)
    assert engine_target.count("t") == len(HELD)
    assert engine_target.leftovers("t", "p") == set()
    load(engine_target, path, **{**options, "max_rejects": most}, check=3)


def test_what_comes_once(engine_target: Target) -> None:
    """Standard input cannot be read again to find the record: nothing is published, and the reason is told."""
    make(engine_target, *HELD)
    text = "".join(record.text for record in RECORDS)
    for options in (SKIP, {"mode": "upsert", "key": "id"}):
        run = load_stdin(engine_target, text.encode(), **options, header="no")
        assert run.returncode == 1
        assert b"constraint" in run.stderr
        assert engine_target.count("t") == len(HELD)
        assert engine_target.leftovers("t", "p") == set()


@pytest.mark.parametrize("on_conflict", ["update", "ignore"])
def test_constraints_over_columns_that_are_not_loaded(engine_target: Target, tmp_path: Path, on_conflict: str) -> None:
    """New rows get their defaults, and those that are updated keep what they have."""
    engine_target.execute(
        "CREATE TABLE t (id integer PRIMARY KEY, v integer, w integer DEFAULT 7 UNIQUE, most integer DEFAULT 5, "
        "g integer DEFAULT 0, CHECK (v < most), UNIQUE (v, g))"
    )
    held = [(1, 1, 1, 100, 0), (2, 2, 2, 5, 1), (3, 3, None, 5, 0)]
    for row in held:
        engine_target.execute(f"INSERT INTO t VALUES {str(row).replace('None', 'NULL')}")
    lines = ["1,50", "2,4", "4,2", "5,4", "2,9", "3,2", "6,6", "1,60"]
    path = write(tmp_path / "in.csv", "".join(f"{line}\n" for line in lines))
    rejects = tmp_path / "bad.csv"
    options = {"rejects": rejects, "columns": "id,v", "header": "no", "on_conflict": on_conflict}
    load(engine_target, path, **SKIP, **options, check=3)
    refused, stored = [(4, "23505"), (7, "23514")], held
    if on_conflict == "update":
        refused, stored = [(4, "23505"), (5, "23514"), (6, "23505"), (7, "23514")], [(1, 60, 1, 100, 0)]
        stored += [(2, 4, 2, 5, 1), (3, 3, None, 5, 0)]
    assert numbered(rejects) == refused
    assert engine_target.rows("SELECT * FROM t ORDER BY id") == [*stored, (4, 2, 7, 5, 0)]


@pytest.mark.parametrize("columns", ["a", "a,b"])
def test_a_default_that_repeats_a_key(engine_target: Target, tmp_path: Path, columns: str) -> None:
    """Where the key is all that is loaded, too; the record is named where nothing is skipped."""
    engine_target.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer, w integer DEFAULT 7 UNIQUE)")
    path = write(tmp_path / "in.csv", "".join(columns.replace("a", n).replace("b", n) + "\n" for n in "123"))
    options = {"mode": "upsert", "key": "a", "header": "no", "format": "csv", "columns": columns}
    assert "record    2" in load(engine_target, path, **options, check=1).stderr
    skip = {"on_error": "skip", "max_rejects": 2, "rejects": tmp_path / "bad.csv"}
    load(engine_target, path, **options, **skip, check=3)
    assert numbered(tmp_path / "bad.csv") == [(2, "23505"), (3, "23505")]
    assert engine_target.rows("SELECT a, w FROM t") == [(1, 7)]


# What only PostgreSQL has


def test_a_role_without_temporary_tables(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Many servers allow nobody to make them."""
    make(postgres_target, *HELD)
    database = postgres_target.database
    postgres_target.server.execute(f'REVOKE TEMPORARY ON DATABASE "{database}" FROM PUBLIC, {LOADER}')
    assert postgres_target.value("SELECT has_database_privilege(current_database(), 'TEMPORARY')") is False
    path = write(tmp_path / "in.csv", "".join(record.text for record in RECORDS))
    rejects = tmp_path / "bad.csv"
    run = load(postgres_target, path, **SKIP, rejects=rejects, header="no", check=3)
    check(postgres_target, run, rejects, RECORDS, upserted(HELD, RECORDS, ignore=False))


def test_what_only_trying_finds(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Triggers, exclusion constraints, and constraints over columns that the files do not have."""
    postgres_target.execute(
        """
        CREATE TABLE t (id integer PRIMARY KEY, span int4range, v integer, other integer DEFAULT 5,
                        EXCLUDE USING gist (span WITH &&), CHECK (v < other));
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN IF NEW.v = 3 THEN RAISE EXCEPTION 'three is not wanted'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION refuse();
        INSERT INTO t VALUES (1, '[1,5)', 1, 5), (2, '[10,20)', 1, 100);
        """
    )
    lines = [
        "1;[1,5);2",
        "3;[4,8);1",
        "4;[30,40);3",
        "2;[10,20);50",
        "5;[50,60);50",
        "6;[30,31);1",
        "7;;1",
        "6;[12,13);1",
    ]
    path = write(tmp_path / "in.csv", "".join(f"{line}\n" for line in lines))
    rejects = tmp_path / "bad.csv"
    options = {**SKIP, "rejects": rejects, "columns": "id,span,v", "delimiter": ";", "header": "no"}
    run = load(postgres_target, path, **options, check=3)
    assert numbered(rejects) == [
        (2, "23P01"),
        (3, "P0001"),
        (5, "23514"),
        (8, "23P01"),
    ]
    rows = postgres_target.rows("SELECT id, span::text, v FROM t ORDER BY id")
    assert rows == [(1, "[1,5)", 2), (2, "[10,20)", 50), (6, "[30,31)", 1), (7, None, 1)]
    assert run.summary is not None
    assert (run.summary["rows_inserted"], run.summary["rows_updated"], run.summary["rows_superseded"]) == (2, 2, 0)


def test_what_a_refused_record_would_have_had_is_free(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The trigger shows only when rows are merged, when it was said already who gets what is unique."""
    postgres_target.execute(
        """
        CREATE TABLE t (id integer PRIMARY KEY, u text UNIQUE, v integer);
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN IF NEW.v = 3 THEN RAISE EXCEPTION 'three is not wanted'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION refuse();
        INSERT INTO t VALUES (9, 'held', 1);
        """
    )
    # 1 would have a, and 9 would give up what it has; then 1 has b, for which 4 gets its earlier record.
    lines = ["4,d,1", "1,b,1", "1,a,3", "9,given,3", "2,a,1", "3,held,1", "4,b,1"]
    path = write(tmp_path / "in.csv", "".join(f"{line}\n" for line in lines))
    rejects = tmp_path / "bad.csv"
    load(postgres_target, path, **SKIP, rejects=rejects, header="no", check=3)
    assert numbered(rejects) == [(3, "P0001"), (4, "P0001"), (6, "23505"), (7, "23505")]
    rows = postgres_target.rows("SELECT id, u FROM t ORDER BY id")
    assert rows == [(1, "b"), (2, "a"), (4, "d"), (9, "held")]


def test_what_is_free_again_counts_for_no_limit(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(
        """
        CREATE TABLE t (id integer PRIMARY KEY, a integer UNIQUE, b integer UNIQUE, c integer UNIQUE);
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN IF NEW.a = 3 THEN RAISE EXCEPTION 'three is not wanted'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION refuse();
        """
    )
    path = write(tmp_path / "in.csv", "1,3,3,3\n2,2,3,2\n3,1,1,3\n")
    options = {**SKIP, "max_rejects": 1, "rejects": tmp_path / "bad.csv", "header": "no"}
    load(postgres_target, path, **options, check=3)
    assert numbered(tmp_path / "bad.csv") == [(1, "P0001")]
    assert [id for (id,) in postgres_target.rows("SELECT id FROM t ORDER BY id")] == [2, 3]


@pytest.mark.parametrize("on_error", ["skip", "stop"])
def test_an_index_that_cannot_be_computed(postgres_target: PostgresTarget, tmp_path: Path, on_error: str) -> None:
    postgres_target.execute(
        """
        CREATE TABLE t (id integer PRIMARY KEY, n integer, u integer UNIQUE);
        CREATE UNIQUE INDEX ON t ((12 / n));
        INSERT INTO t VALUES (1, 1, 1);
        """
    )
    rejects = tmp_path / "bad.csv"
    if on_error == "stop":
        path = write(tmp_path / "in.csv", "2,2,2\n3,0,3\n")
        run = load(postgres_target, path, mode="upsert", key="id", header="no", check=1)
        assert "record    2" in run.stderr
        assert "division by zero" in run.stderr
        assert postgres_target.count("t") == 1
        return
    path = write(tmp_path / "in.csv", "2,2,2\n3,0,3\n4,4,2\n5,2,5\n")
    load(postgres_target, path, **SKIP, rejects=rejects, header="no", check=3)
    assert numbered(rejects) == [(2, "22012"), (3, "23505"), (4, "23505")]
    assert postgres_target.rows("SELECT id FROM t ORDER BY id") == [(1,), (2,)]


def test_indexes_of_many_kinds(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Expressions, parts of a table, NULLs that are equal, constraints that are checked at the end."""
    postgres_target.execute(
        """
        CREATE TABLE t (id integer PRIMARY KEY, "E mail" text, n integer, up integer REFERENCES t,
                        d integer UNIQUE DEFERRABLE INITIALLY DEFERRED);
        CREATE UNIQUE INDEX ON t (lower("E mail")) WHERE id < 100;
        CREATE UNIQUE INDEX odd ON t (n) NULLS NOT DISTINCT;
        INSERT INTO t VALUES (1, 'A@x', NULL, 1, 1);
        """
    )
    lines = [
        "2,a@X,2,1,2",  # as 1 but for the case
        "3,c@x,,1,3",  # a second NULL
        "4,d@x,4,5,4",  # refers to the next one
        "5,e@x,5,1,5",
        "6,f@x,6,99,6",  # to nobody
        "7,g@x,7,6,7",  # to a record that is refused
        "8,h@x,8,1,1",  # at the end
        "200,A@x,200,1,200",  # not in the index
    ]
    path = write(tmp_path / "in.csv", "".join(f"{line}\n" for line in lines))
    rejects = tmp_path / "bad.csv"
    load(postgres_target, path, **SKIP, rejects=rejects, header="no", check=3)
    assert numbered(rejects) == [
        (1, "23505"),
        (2, "23505"),
        (5, "23503"),
        (6, "23503"),
        (7, "23505"),
    ]
    assert [id for (id,) in postgres_target.rows("SELECT id FROM t ORDER BY id")] == [1, 4, 5, 200]


def test_a_new_table(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    schema = write(
        tmp_path / "s.sql", "CREATE TABLE t (id integer PRIMARY KEY, u integer UNIQUE, v integer CHECK (v > 0))"
    )
    path = write(tmp_path / "in.csv", "1,1,1\n2,1,1\n3,3,0\n1,5,1\n4,1,1\n")
    rejects = tmp_path / "bad.csv"
    load(postgres_target, path, **SKIP, rejects=rejects, header="no", schema=schema, check=3)
    assert numbered(rejects) == [(3, "23514"), (5, "23505")]
    assert sorted(postgres_target.rows("SELECT * FROM t")) == [(1, 5, 1), (2, 1, 1)]


def test_partitions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A row that no partition takes is a reject; the parent's constraints count."""
    postgres_target.execute(
        """
        CREATE TABLE t (id integer PRIMARY KEY, v integer CHECK (v > 0)) PARTITION BY RANGE (id);
        CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10);
        CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20);
        """
    )
    path = write(tmp_path / "in.csv", "1,1\n11,-1\n25,1\n12,2\n")
    rejects = tmp_path / "bad.csv"
    load(postgres_target, path, **SKIP, rejects=rejects, header="no", check=3)
    assert numbered(rejects) == [(2, "23514"), (3, "23514")]
    assert sorted(postgres_target.rows("SELECT * FROM t")) == [(1, 1), (12, 2)]


@pytest.mark.parametrize(
    ("divided", "parts", "missing"),
    [
        (
            'BY RANGE ("D x", id)',
            ["FOR VALUES FROM ('2024-01-01', MINVALUE) TO ('2024-02-01', MINVALUE)"],
            '("D x", id) = (2024-05-01, 3)',
        ),
        ('BY LIST ("D x")', ["FOR VALUES IN ('2024-01-01', '2024-01-02')"], '("D x") = (2024-05-01)'),
        ("BY HASH (id)", ["FOR VALUES WITH (MODULUS 1, REMAINDER 0)"], None),
        ('BY LIST ("D x")', ["FOR VALUES IN ('2024-01-01')", "DEFAULT"], None),
        ('BY LIST ("D x")', ["DEFAULT"], None),
        ("BY RANGE (abs(id))", ["FOR VALUES FROM (0) TO (3)"], "(abs(id)) = (3)"),
    ],
)
def test_rows_without_a_partition_are_found_by_a_query(
    postgres_target: PostgresTarget, tmp_path: Path, divided: str, parts: list[str], missing: str | None
) -> None:
    """They are told as the server tells them, whether they are asked for or tried."""
    postgres_target.execute(f'CREATE TABLE t (id integer NOT NULL, "D x" date NOT NULL) PARTITION {divided}')
    for number, part in enumerate(parts):
        postgres_target.execute(f"CREATE TABLE t{number} PARTITION OF t {part}")
    path = write(tmp_path / "in.csv", "1,2024-01-01\n2,2024-01-02\n3,2024-05-01\n")
    rejects = tmp_path / "bad.csv"
    load(postgres_target, path, **SKIP, rejects=rejects, header="no", check=3 if missing else 0)
    assert rejects.exists() == bool(missing)
    assert sorted(postgres_target.rows("SELECT id FROM t")) == ([(1,), (2,)] if missing else [(1,), (2,), (3,)])
    if missing:
        assert numbered(rejects) == [(3, "23514")]
        reason = f'no partition of relation "t" found for row (Partition key of the failing row contains {missing}.)'
        assert reason.replace('"', '""') in (tmp_path / "bad.csv.reasons.csv").read_text()


@pytest.mark.parametrize("index", ["(a)", '(A, "b c")', "(b c, a)"])
def test_a_unique_index_that_is_no_constraint(engine_target: Target, tmp_path: Path, index: str) -> None:
    """Its violations are rejects like those of a UNIQUE constraint."""
    quoted = index.replace("(b c,", '("b c",')
    engine_target.execute(f'CREATE TABLE t (id integer, a integer, "b c" integer); CREATE UNIQUE INDEX u ON t {quoted}')
    engine_target.execute("INSERT INTO t VALUES (9, 9, 9)")
    path = write(tmp_path / "in.csv", "1,5,0\n2,5,0\n3,6,0\n4,9,9\n")
    rejects = tmp_path / "bad"
    load(
        engine_target,
        path,
        mode="upsert",
        key="id",
        on_error="skip",
        max_rejects=2,
        rejects=rejects,
        header="no",
        check=3,
    )
    assert rejects.read_text() == "2,5,0\n4,9,9\n"
    assert engine_target.rows("SELECT id FROM t ORDER BY 1") == [(1,), (3,), (9,)]
    run = load(engine_target, path, mode="upsert", key="id", header="no", restart=True, check=1)
    assert "record    2" in run.stderr


def test_a_unique_index_over_an_expression(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (id integer PRIMARY KEY, u varchar, n varchar, v integer)")
    for number, expression in enumerate(("lower(u)", "CAST(n AS integer)", "id + 2147483638")):
        engine_target.execute(f"CREATE UNIQUE INDEX i{number} ON t (({expression}))")
    engine_target.execute("INSERT INTO t VALUES (1, 'A', '1', 7)")
    path = write(tmp_path / "in.csv", "2,a,2\n3,b,3\n4,B,4\n1,c,1\n5,A,5\n6,f,x\n7,g,03\n10,h,8\n")
    rejects = tmp_path / "bad"
    options = {"header": "no", "columns": "id,u,n"}
    load(engine_target, path, **SKIP, **options, rejects=rejects, check=3)
    assert rejects.read_text() == "2,a,2\n4,B,4\n6,f,x\n7,g,03\n10,h,8\n"
    assert engine_target.rows("SELECT id, u, v FROM t ORDER BY 1") == [(1, "c", 7), (3, "b", None), (5, "A", None)]
    for record in ("8,B,8", "8,h,x", "10,z,0"):
        path = write(tmp_path / "one.csv", f"9,i,9\n{record}\n")
        run = load(engine_target, path, mode="upsert", key="id", **options, check=1)
        assert "record    2" in run.stderr


def test_a_refused_record_among_those_with_its_key(engine_target: Target, tmp_path: Path) -> None:
    """`--on-conflict error`: what is refused by itself is no record with the key; what another row keeps out is one."""
    make(engine_target, *HELD)
    options = {**SKIP, "on_conflict": "error", "header": "no", "rejects": tmp_path / "bad"}
    twice = write(tmp_path / "twice.csv", "5,e@x,1,5\n5,b@x,1,5\n")
    run = load(engine_target, twice, **options, check=1)
    assert "twice in the sources: 5" in run.stderr
    assert engine_target.count("t") == len(HELD)
    once = write(tmp_path / "once.csv", "5,e@x,1,5\n5,f@x,1,-5\n")
    load(engine_target, once, **options, check=3)
    assert numbered(tmp_path / "bad") == [(2, "23514")]


def test_a_key_of_several_rows_that_would_be_unique(engine_target: Target, tmp_path: Path) -> None:
    """No record can give two rows of the table what is unique; one that gives them nothing counts."""
    engine_target.execute("CREATE TABLE t (id integer, u varchar UNIQUE, v integer)")
    engine_target.execute("INSERT INTO t VALUES (1, 'a', 1), (1, 'b', 1), (2, 'c', 2)")
    path = write(tmp_path / "in.csv", "1,z,0\n1,,3\n1,y,4\n2,y,5\n3,a,6\n3,x,7\n3,c,8\n")
    rejects = tmp_path / "bad"
    run = load(engine_target, path, **SKIP, header="no", rejects=rejects, check=3)
    assert rejects.read_text() == "1,y,4\n"
    assert engine_target.sorted_rows("t") == [(1, None, 3), (1, None, 3), (2, "y", 5), (3, "c", 8)]
    assert run.summary is not None
    assert (run.summary["rows_inserted"], run.summary["rows_updated"], run.summary["rows_superseded"]) == (1, 3, 3)


@pytest.mark.parametrize("mode", ["upsert", "append"])
@pytest.mark.parametrize(
    ("key", "code"), [("key", "code"), ("c0", "u0"), ("u0", "c0"), ("k1", "k0"), ("violated", "e"), ("t", "s")]
)
def test_columns_of_any_name(engine_target: Target, tmp_path: Path, mode: str, key: str, code: str) -> None:
    """What is asked about records has names of its own, which are none of the user's."""
    engine_target.execute(f'CREATE TABLE k ("{key}" varchar, "{code}" integer UNIQUE, PRIMARY KEY ("{key}"))')
    engine_target.execute("INSERT INTO k VALUES ('a', 1), ('b', 2)")
    path, rejects = write(tmp_path / "in.csv", "a,2\nc,3\nd,3\n"), tmp_path / "bad"
    options = {**SKIP, "mode": mode, "key": key if mode == "upsert" else None, "rejects": rejects, "header": "no"}
    load(engine_target, path, table="k", **options, check=3)
    assert rejects.read_text() == "a,2\nd,3\n"
    assert engine_target.sorted_rows("k") == [("a", 1), ("b", 2), ("c", 3)]


def test_a_text_too_long_for_an_index(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """It is the record's fault: named where it ends the load, else a reject."""
    target = postgres_target
    target.execute(
        "CREATE TABLE t (k integer PRIMARY KEY, t text); CREATE INDEX ON t (t); INSERT INTO t VALUES (1, 'a')"
    )
    letters = "".join(random.Random(2).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=9000))
    path = write(tmp_path / "in.csv", f"1,b\n2,{letters}\n3,c\n")
    options = {"mode": "upsert", "key": "k", "header": "no"}
    run = load(target, path, **options, check=1)
    assert "record    2" in run.stderr
    assert "index row" in run.stderr
    rejects = tmp_path / "bad"
    load(target, path, **{**SKIP, **options}, rejects=rejects, check=3)
    assert rejects.read_text() == f"2,{letters}\n"
    assert target.sorted_rows("t") == [(1, "b"), (3, "c")]


def test_an_error_among_keys_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nothing can be tidied up in the transaction that has failed by it."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (id integer, code integer)")
        connection.begin()

        def fails(*_: object) -> None:
            connection.execute("SELECT error('the cause')")

        monkeypatch.setattr(merge_violations, "judged", fails)
        task = cast(LoadTask, SimpleNamespace(key=["id"], columns=[], on_conflict="update"))
        unique = Constraint(kind="unique", name="u", columns=("code",), terms=("code",))
        with pytest.raises(duckdb.Error, match="the cause"):
            list(merge_violations.among_keys(connection, task, [(0, unique)], "t", "t", "1, 2"))
        with pytest.raises(duckdb.Error, match="aborted"):
            connection.execute("SELECT 1")
