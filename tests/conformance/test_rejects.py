"""Records that cannot be stored are kept apart: the raw records in one file, their reasons in another, no row lost."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from loading import load
from spoilt import TABLE, Spoilt, spoil, told
from targets import PostgresTarget, Target, write

SEED = int(os.environ.get("TIPPLE_SEED", "0"))


def check(target: Target, made: Spoilt, rejects: Path, run: Any) -> None:
    """Every record is a row or a reject, and each reject is told of where it stands."""
    assert run.exit_code == (3 if made.bad else 0), str(run)
    assert run.summary["rejects"] == len(made.bad)
    assert run.summary["rows"] == len(made.good) == target.count("t")
    assert sorted(target.rows("SELECT a, d FROM t")) == sorted(made.good)
    if made.bad:
        assert told(rejects) == made.bad
        assert rejects.read_bytes() == made.raw
        assert run.summary["rejects_file"] == str(rejects)
    assert target.leftovers("t") == set()


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("share", [0.001, 0.2, 1.0])
def test_bad_records_are_kept_apart(engine_target: Target, tmp_path: Path, share: float, jobs: int) -> None:
    engine_target.execute(TABLE)
    made = spoil(20_000 if share < 1 else 3_000, share, seed=jobs)
    rejects = tmp_path / "bad.csv"
    path = write(tmp_path / "in.csv", made.data)
    run = load(engine_target, path, on_error="skip", max_rejects="100%", rejects=rejects, jobs=jobs, check=False)
    check(engine_target, made, rejects, run)
    again = load(engine_target, path, on_error="skip", max_rejects="100%", rejects=rejects, jobs=jobs, check=False)
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"
    check(engine_target, made, rejects, again)


def test_several_slices_and_a_header(engine_target: Target, tmp_path: Path) -> None:
    """Record numbers count on through the slices of a file, and files are told apart."""
    engine_target.execute(TABLE)
    large = spoil(420_000, 0.0005, seed=7, header=b"a,b,c,d\n")
    small = spoil(50, 0.2, seed=8, header=b"a,b,c,d\n")
    paths = [write(tmp_path / "large.csv", large.data), write(tmp_path / "small.csv", small.data)]
    rejects = tmp_path / "bad.csv"
    run = load(
        engine_target, *paths, header="match", on_error="skip", max_rejects=2000, rejects=rejects, jobs=2, check=3
    )
    assert run.summary is not None
    assert run.summary["slices"] > 1
    assert told(rejects) == large.bad + small.bad
    assert rejects.read_bytes() == large.raw + small.raw
    assert engine_target.count("t") == len(large.good) + len(small.good)


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_other_record_ends(engine_target: Target, tmp_path: Path, end: bytes) -> None:
    engine_target.execute(TABLE)
    made = spoil(2_000, 0.1, seed=3, end=end)
    rejects = tmp_path / "bad.csv"
    path = write(tmp_path / "in.csv", made.data)
    check(
        engine_target,
        made,
        rejects,
        load(engine_target, path, on_error="skip", max_rejects="50%", rejects=rejects, check=False),
    )


def test_an_unclosed_quote_takes_the_rest(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b'1,,,x\n2,,,"open\n3,,,y\n')
    rejects = tmp_path / "bad.csv"
    load(engine_target, path, on_error="skip", max_rejects=1, rejects=rejects, check=3)
    assert engine_target.rows("SELECT a FROM t") == [(1,)]
    assert rejects.read_bytes().startswith(b'2,,,"open\n3,,,y\n')
    assert told(rejects) == [(2, 6, "", "22P04")]


def test_the_limit(engine_target: Target, tmp_path: Path) -> None:
    """As many as allowed is well, one more publishes nothing; 0 is the default."""
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\nbad,,,\n2,,,y\nworse,,,\n")
    rejects = tmp_path / "bad.csv"
    for limit in (1, 0, "49%", None):
        run = load(engine_target, path, on_error="skip", max_rejects=limit, rejects=rejects, check=1)
        assert "cannot be stored" in run.stderr
        assert engine_target.count("t") == 0
        assert engine_target.leftovers("t") == set()
    load(engine_target, path, on_error="skip", max_rejects="50%", rejects=rejects, check=3)
    assert engine_target.count("t") == 2
    load(engine_target, path, on_error="skip", max_rejects=2, rejects=rejects, restart=True, check=3)
    assert engine_target.count("t") == 4


@pytest.mark.parametrize("limit", ["x", "-1", "101%", "1.5", ""])
def test_a_limit_that_is_none(engine_target: Target, tmp_path: Path, limit: str) -> None:
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\n")
    assert "--max-rejects" in load(engine_target, path, on_error="skip", max_rejects=limit, check=2).stderr


def test_rejects_without_skipping_are_a_mistake(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\n")
    assert "--on-error skip" in load(engine_target, path, rejects=tmp_path / "bad.csv", check=2).stderr


def test_an_unwritable_file_of_rejects_is_found_before_the_load(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\n")
    run = load(engine_target, path, on_error="skip", max_rejects=1, rejects=tmp_path / "no" / "bad.csv", check=2)
    assert "bad.csv" in run.stderr
    assert engine_target.count("t") == 0


@pytest.mark.parametrize("option", ["no_ledger", "no_atomic"])
def test_without_ledger_and_without_atomicity(engine_target: Target, tmp_path: Path, option: str) -> None:
    engine_target.execute(TABLE)
    made = spoil(200_000, 0.002, seed=11)
    rejects = tmp_path / "bad.csv"
    path = write(tmp_path / "in.csv", made.data)
    options = {option: True, "on_error": "skip", "max_rejects": 2_000, "rejects": rejects, "jobs": 2}
    check(engine_target, made, rejects, load(engine_target, path, check=False, **options))


@pytest.mark.parametrize("mode", ["append", "replace", "create"])
def test_modes(engine_target: Target, tmp_path: Path, mode: str) -> None:
    schema = write(tmp_path / "schema.sql", TABLE)
    if mode != "create":
        engine_target.execute(TABLE)
        engine_target.execute("INSERT INTO t VALUES (-1, NULL, NULL, 'old')")
    made = spoil(2_000, 0.01, seed=5)
    rejects = tmp_path / "bad.csv"
    path = write(tmp_path / "in.csv", made.data)
    run = load(
        engine_target, path, mode=mode, schema=schema, on_error="skip", max_rejects=500, rejects=rejects, check=3
    )
    if mode == "append":
        engine_target.execute("DELETE FROM t WHERE a = -1")
    check(engine_target, made, rejects, run)


def test_mended_rejects_are_replayed(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"a,b,c,d\n1,,,x\nbad,,,y\n3,1,z\n4,,nodate,v\n")
    rejects = tmp_path / "bad.csv"
    options: dict[str, object] = {"on_error": "skip", "max_rejects": 3, "rejects": rejects, "header": "match"}
    load(engine_target, path, check=3, **options)
    raw = rejects.read_bytes()
    assert raw == b"bad,,,y\n3,1,z\n4,,nodate,v\n"
    rejects.write_bytes(raw.replace(b"bad", b"2").replace(b"3,1,z", b"3,1,,z"))
    run = load(engine_target, path, replay=True, check=3, **options)
    assert run.summary is not None
    assert (run.summary["rows"], run.summary["rejects"]) == (2, 1)
    assert sorted(engine_target.rows("SELECT a FROM t")) == [(1,), (2,), (3,)]
    assert rejects.read_bytes() == b"4,,nodate,v\n"
    rejects.write_bytes(b"4,,2020-01-01,v\n")
    load(engine_target, path, replay=True, check=0, **options)
    assert rejects.read_bytes() == b""
    assert engine_target.count("t") == 4
    # What was replayed stays loaded, and the first load is still known.
    again = load(engine_target, path, check=3, **options)
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"
    assert engine_target.count("t") == 4


def test_a_replay_needs_its_file(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\n")
    run = load(engine_target, path, on_error="skip", rejects=tmp_path / "none.csv", replay=True, check=2)
    assert "none.csv" in run.stderr


def test_values_that_only_the_server_reads(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Values go to the server's own input function, and what it refuses is a reject as any other."""
    postgres_target.execute("CREATE TABLE t (a integer, b date, c pg_lsn)")
    lines = [f"{i},{i % 28 + 1}-Jan-2020,0/16B3748\n" for i in range(20_000)]
    bad = {17: "17,32-Jan-2020,0/1\n", 9_000: "9000,1-Jan-2020,here\n", 19_999: "x,1-Jan-2020,0/1\n"}
    for number, line in bad.items():
        lines[number] = line
    path = write(tmp_path / "in.csv", "".join(lines))
    rejects = tmp_path / "bad.csv"
    load(postgres_target, path, on_error="skip", max_rejects=3, rejects=rejects, jobs=2, check=3)
    assert postgres_target.count("t") == 20_000 - 3
    assert rejects.read_text() == "".join(bad.values())
    assert [(number, column) for number, _, column, _ in told(rejects)] == [(18, "b"), (9_001, "c"), (20_000, "a")]


KEYED = """
CREATE TABLE p (id integer PRIMARY KEY);
INSERT INTO p SELECT i FROM generate_series(0, 9) i;
CREATE TABLE t (a integer PRIMARY KEY, b integer CHECK (b > 0), c integer REFERENCES p, d varchar UNIQUE)
"""


@pytest.mark.parametrize("old_rows", [0, 1])
def test_constraints(postgres_target: PostgresTarget, tmp_path: Path, old_rows: int) -> None:
    """Unique, CHECK and foreign-key violations: the record alone is rejected, the first one with a key is stored."""
    postgres_target.execute(KEYED)
    if old_rows:
        postgres_target.execute("INSERT INTO t VALUES (5, 1, NULL, 'old')")
    r = random.Random(SEED)
    keys = {5} if old_rows else set()
    texts = {"old"} if old_rows else set()
    lines, bad = [], []
    for number in range(1, 30_001):
        a = r.randrange(number) if r.random() < 0.003 else number
        b = -1 if r.random() < 0.002 else 1
        c = 77 if r.random() < 0.001 else number % 10
        d = f"n{number - 1}" if r.random() < 0.001 else f"n{number}"
        lines.append(f"{a},{b},{c},{d}\n")
        if b < 0 or a in keys or d in texts or c == 77:
            bad.append(number)
        else:
            keys.add(a)
            texts.add(d)
    path = write(tmp_path / "in.csv", "".join(lines))
    rejects = tmp_path / "bad.csv"
    run = load(postgres_target, path, on_error="skip", max_rejects=1000, rejects=rejects, jobs=2, check=3)
    assert run.summary is not None
    assert [number for number, *_ in told(rejects)] == bad
    assert rejects.read_text() == "".join(lines[number - 1] for number in bad)
    assert {sqlstate for *_, sqlstate in told(rejects)} == {"23505", "23514", "23503"}
    assert postgres_target.count("t") == 30_000 - len(bad) + old_rows
    assert run.summary["rows"] == 30_000 - len(bad)


def test_deferred_constraints_and_triggers(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(
        """
        CREATE TABLE t (a integer UNIQUE DEFERRABLE INITIALLY DEFERRED, b integer);
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF new.b = 13 THEN RAISE 'unlucky %', new.a; END IF; RETURN new; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION refuse();
        """
    )
    lines = [f"{i},{13 if i == 700 else 1}\n" for i in range(1000)] + ["5,1\n"]
    path = write(tmp_path / "in.csv", "".join(lines))
    rejects = tmp_path / "bad.csv"
    load(postgres_target, path, on_error="skip", max_rejects=2, rejects=rejects, check=3)
    assert told(rejects)[0][::3] == (701, "P0001")
    assert [number for number, *_ in told(rejects)] == [701, 1001]
    assert postgres_target.count("t") == 999


def test_the_library(engine_target: Target, tmp_path: Path) -> None:
    import tipple

    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\nbad,,,\n")
    with pytest.raises(tipple.BadRecord):
        tipple.load(path, into=engine_target.url, table="t", on_error="skip")
    report = tipple.load(
        path, into=engine_target.url, table="t", on_error="skip", max_rejects=1, rejects=tmp_path / "bad.csv"
    )
    assert (report.rows, report.rejects) == (1, 1)
    assert engine_target.count("t") == 1
