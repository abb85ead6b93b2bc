"""Rejects are exactly-once too: a job that is killed and resumed has the rejects of one that was not."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import psycopg
import pytest

from command import environment, start_tipple
from conformance.test_partitions import check_tidy
from faults.oracle import LONG, duckdb_target, moments, record_count, wait_for
from faults.test_kill import kill_after
from loading import load, load_words
from servers.postgres import PostgresServer
from spoilt import SEED, TABLE, Spoilt, spoil, told
from targets import DuckdbTarget, PostgresTarget, Target, write

KEYED = TABLE.replace("NOT NULL", "PRIMARY KEY")


@cache
def spoilt_once() -> Spoilt:
    """Some 18 MB, which are several slices; making them takes as long as loading them some times."""
    return spoil(550_000, 0.0008, seed=31)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("engine", "table"), [("duckdb", TABLE), ("duckdb", KEYED), ("postgresql", TABLE), ("postgresql", KEYED)]
)
def test_killed_with_rejects(
    tmp_path: Path, server_of: Callable[[int], PostgresServer], engine: str, table: str
) -> None:
    made = spoilt_once()
    path = write(tmp_path / "in.csv", made.data)
    rejects = tmp_path / "bad.csv"
    rounds = 40 if LONG else 4
    options = {"jobs": 2, "on_error": "skip", "max_rejects": 1000, "rejects": rejects}
    seconds, killed, resumed = 0.0, 0, 0
    for number, part in enumerate([2.0, *moments(31, rounds, 1.0)]):
        target: Target
        target = duckdb_target(tmp_path, f"round{number}") if engine == "duckdb" else PostgresTarget(server_of(18))
        try:
            target.execute(table)
            words = load_words(target.url, (path,), "t", options)
            started = time.monotonic()
            command = start_tipple(*words)
            if number > 0:
                time.sleep(part * seconds)
                killed += command.running
                command.signal(signal.SIGKILL)
            run = command.wait()
            seconds = seconds or time.monotonic() - started
            assert target.count("t") in (0, len(made.good))
            if number > 0:
                rejects.unlink(missing_ok=True)
                run = start_tipple(*words).wait()
            assert run.exit_code == 3, str(run)
            assert run.summary is not None
            resumed += run.summary["slices_resumed"]
            assert told(rejects) == made.bad
            assert rejects.read_bytes() == made.raw
            assert target.count("t") == len(made.good)
            assert target.leftovers("t") == set()
        finally:
            target.close()
    kind = "with a key" if table == KEYED else "without a key"
    record_count(
        f"SIGKILL of a load with rejects, {engine}, {kind}: {rounds} rounds, {killed} while it ran, {resumed} slices "
        "taken over; each time the rejects of an undisturbed load"
    )


def test_rejects_of_what_is_unpacked(tmp_path: Path, server_of: Callable[[int], PostgresServer]) -> None:
    """Where its slices begin is found out again, and which records come before them."""
    made = spoilt_once()
    path = write(tmp_path / "in.csv", gzip.compress(made.data, 1))
    rejects = tmp_path / "bad.csv"
    target = PostgresTarget(server_of(18))
    try:
        target.execute(TABLE)
        words = load_words(target.url, (path,), "t", {"on_error": "skip", "max_rejects": 1000, "rejects": rejects})
        command = start_tipple(*words)
        ledger = "SELECT count(*) FROM pg_tables WHERE schemaname = 'tipple' AND tablename = 'slice'"
        done = "SELECT count(*) FROM tipple.slice WHERE state = 'done'"
        assert wait_for(lambda: target.value(ledger) and target.value(done) >= 1)
        command.signal(signal.SIGKILL)
        command.wait()
        rejects.unlink(missing_ok=True)
        run = start_tipple(*words).wait()
        assert run.exit_code == 3, str(run)
        assert run.summary is not None
        assert run.summary["slices_resumed"] >= 1
        assert told(rejects) == made.bad
        assert rejects.read_bytes() == made.raw
        assert target.count("t") == len(made.good)
    finally:
        target.close()


@pytest.mark.timeout(3600)
@pytest.mark.client_only
def test_killed_with_equal_keys(tmp_path: Path, server_of: Callable[[int], PostgresServer]) -> None:
    """Of records with one key the first is stored, whichever slices were done when the client died."""
    r = random.Random(SEED * 1000 + 37)
    records = [f"{n},1.5,2020-01-01,{n}" for n in range(600_000)]
    first: dict[str, str] = {}
    for _ in range(200):
        twin = r.randrange(600_000)
        records.insert(r.randrange(len(records)), f"{twin},1.5,2020-01-01,twin of {twin}")
    refused = [record for record in records if first.setdefault(record.partition(",")[0], record) is not record]
    path = write(tmp_path / "in.csv", "".join(f"{record}\n" for record in records))
    rejects, schema = tmp_path / "bad.csv", write(tmp_path / "schema.sql", KEYED)
    options = {"jobs": 2, "on_error": "skip", "max_rejects": 500, "rejects": rejects, "schema": schema,
               "partition_by": "range(a, every=100000)"}  # fmt: skip
    rounds = 40 if LONG else 3
    seconds, killed, resumed = 0.0, 0, 0
    for part in [2.0, *moments(37, rounds, 1.0)]:
        target = PostgresTarget(server_of(18))
        try:
            command = start_tipple(*load_words(target.url, (path,), "t", options))
            if seconds:
                killed += kill_after(command, part * seconds)
                rejects.unlink(missing_ok=True)
                command = start_tipple(*load_words(target.url, (path,), "t", options))
            run = command.wait()
            assert run.exit_code == 3, str(run)
            assert run.summary is not None
            seconds = seconds or run.seconds
            resumed += run.summary["slices_resumed"]
            assert rejects.read_text().splitlines() == refused
            assert sorted(target.rows("SELECT a, d FROM t")) == sorted(
                (int(key), record.rpartition(",")[2]) for key, record in first.items()
            )
            check_tidy(target)
        finally:
            target.close()
    record_count(
        f"SIGKILL of a load with equal keys, partitioned: {rounds} rounds, {killed} while it ran, {resumed} slices "
        "taken over; each time the rejects of an undisturbed load"
    )


@pytest.mark.timeout(3600)
def test_killed_between_transactions_with_violations(tmp_path: Path) -> None:
    """DuckDB with --no-atomic: keys that were stored before the kill count as they would have without it."""
    r = random.Random(SEED)
    text = "x" * 100
    path = tmp_path / "in.csv"
    with path.open("w") as file:
        # Two transactions of eight slices each.
        for number in range(1, 1_300_001):
            key = r.randrange(1, number) if number > 1 and r.random() < 0.0005 else number
            file.write(f"{key},{-1 if r.random() < 0.0003 else 1},{text}\n")
    options = {"no_atomic": True, "jobs": 2, "on_error": "skip", "max_rejects": 5000, "format": "csv", "header": "no"}
    undisturbed: list[bytes] = []
    seconds, between = 0.0, 0
    moments = [0.0, 0.9, *([0.5, 0.6, 0.7, 0.8, 0.95] if LONG else [])]
    for number, part in enumerate(moments):
        target = duckdb_target(tmp_path, f"round{number}")
        target.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer CHECK (b > 0), c varchar)")
        rejects = tmp_path / f"bad{number}.csv"
        words = load_words(target.url, (path,), "t", {**options, "rejects": rejects})
        started = time.monotonic()
        command = start_tipple(*words)
        if number > 0:
            time.sleep(part * seconds)
            command.signal(signal.SIGKILL)
        run = command.wait()
        seconds = seconds or time.monotonic() - started
        if number > 0:
            between += target.count("t") > 0
            run = start_tipple(*words).wait()
        assert run.exit_code == 3, str(run)
        files = [rejects.read_bytes(), Path(f"{rejects}.reasons.csv").read_bytes()]
        undisturbed = undisturbed or files
        assert files == undisturbed
        assert target.count("t") == 1_300_000 - files[0].count(b"\n")
        target.close()
    record_count(
        f"SIGKILL of a load with violations into DuckDB, --no-atomic: {len(moments) - 1} rounds, {between} after a "
        "transaction; each time the rejects of an undisturbed load"
    )


def kill_at_publish(target: PostgresTarget, path: Path, options: dict[str, object]) -> None:
    """Begins a load, and kills it when all is staged."""
    blocked = "SELECT FROM pg_locks WHERE NOT granted AND relation = 't'::regclass"
    with psycopg.connect(target.server.url(dbname=target.database)) as holder:
        holder.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE")
        command = start_tipple(*load_words(target.url, (path,), "t", options))
        assert wait_for(lambda: target.server.rows(blocked, target.database))
        command.kill()


@pytest.mark.parametrize("skips", [True, False])
def test_a_column_that_refuses_null_before_an_upsert_goes_on(
    postgres_target: PostgresTarget, tmp_path: Path, *, skips: bool
) -> None:
    """What was staged before has more rows than the sources have now, by what the column takes."""
    postgres_target.execute("CREATE TABLE t (k integer PRIMARY KEY, v text); INSERT INTO t VALUES (9, 'old')")
    path = write(tmp_path / "in.csv", "1,a\nbad,a\n2,\n3,c\n" if skips else "1,a\n2,\n3,c\n")
    options: dict[str, object] = {"header": "no", "mode": "upsert", "key": "k"}
    if skips:
        options |= {"on_error": "skip", "max_rejects": 2, "rejects": tmp_path / "bad.csv"}
    kill_at_publish(postgres_target, path, options)
    postgres_target.execute("ALTER TABLE t ALTER v SET NOT NULL")
    run = load(postgres_target, path, check=3 if skips else 1, **options)
    if skips:
        assert (tmp_path / "bad.csv").read_text() == "bad,a\n2,\n"
        assert postgres_target.sorted_rows("t") == [(1, "a"), (3, "c"), (9, "old")]
    else:
        assert "record    2" in run.stderr
        assert "not-null" in run.stderr
        assert postgres_target.sorted_rows("t") == [(9, "old")]


@pytest.mark.parametrize("has_key", [True, False])
def test_rejects_that_somebody_removes_before_a_load_goes_on(
    postgres_target: PostgresTarget, tmp_path: Path, *, has_key: bool
) -> None:
    """A record that was never stored is not to be taken for the first one of its key."""
    key = "PRIMARY KEY" if has_key else "NOT NULL"
    postgres_target.execute(f"CREATE TABLE t (k integer {key}, v text CHECK (v <> 'bad'))")
    path = write(tmp_path / "in.csv", "1,a\n2,bad\n2,b\n3,c\n")
    rejects = tmp_path / "bad.csv"
    options: dict[str, object] = {"header": "no", "on_error": "skip", "max_rejects": 3, "rejects": rejects}
    kill_at_publish(postgres_target, path, options)
    postgres_target.execute("DELETE FROM tipple.reject")
    if has_key:
        run = load(postgres_target, path, check=1, **options)
        assert "are gone from the ledger (tipple.reject)" in run.stderr
        assert postgres_target.count("t") == 0
    run = load(postgres_target, path, check=3, **options)
    assert run.summary is not None
    assert run.summary["rejects"] == 1
    assert rejects.read_text() == ("2,bad\n" if has_key else "")
    assert has_key or any("bad.csv has 0 of the 1 rejects" in note for note in run.summary["notes"])
    assert postgres_target.sorted_rows("t") == [(1, "a"), (2, "b"), (3, "c")]


def killed_at_each_name(place: Path, words: list[str]) -> Iterator[None]:
    """Has a command killed when it is about to change a name of the rejects: the first, the second, and so on, each
    time with the directory as it is now."""
    script = (
        "import os, signal, sys, tipple.cli\n"
        "left = int(sys.argv.pop(1))\n"
        "def watch(event, words):\n"
        "    global left\n"
        "    if event in ('os.link', 'os.rename', 'os.remove') and 'bad.csv' in str(words[0]):\n"
        "        left -= 1\n"
        "        if left == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.addaudithook(watch)\n"
        "tipple.cli.main(sys.argv[1:])\n"
    )
    made = place.with_name("made")
    shutil.copytree(place, made)
    for number in itertools.count(1):
        if number > 1:
            shutil.rmtree(place)
            shutil.copytree(made, place)
        command = [sys.executable, "-c", script, str(number), *words]
        run = subprocess.run(command, cwd=place, env=environment(), capture_output=True, timeout=60, check=False)
        if run.returncode != -signal.SIGKILL:
            assert run.returncode == 3, run.stderr
            assert number > 3
            return
        yield


def test_killed_while_earlier_rejects_are_put_aside(tmp_path: Path) -> None:
    """At no moment are there records without what says how they are read, or beside that of others."""
    place = tmp_path / "place"
    place.mkdir()
    url = "duckdb:///d.duckdb"
    DuckdbTarget(place / "d.duckdb").execute("CREATE TABLE t (a integer, b text); CREATE TABLE u (a integer)")
    write(place / "t.csv", "1|x\nbad|y\n")
    write(place / "u.csv", "1\nworse\n")
    options: dict[str, object] = {"header": "no", "on_error": "skip", "max_rejects": 1, "rejects": "bad.csv"}
    load(url, "t.csv", cwd=place, check=3, delimiter="|", **options)
    of_table = {"bad|y\n": '"main"."t"', "worse\n": '"main"."u"'}

    def check(*names: str) -> None:
        found = [
            name for name in place.glob("bad.csv*") if name.suffix != ".unfinished" and name.read_text() in of_table
        ]
        for name in found:
            assert json.loads(Path(f"{name}.replay.json").read_text())["table"] == of_table[name.read_text()]
        assert any(name.read_text() == "bad|y\n" for name in found)
        assert not names or {name.name for name in place.glob("bad.csv*")} == set(names)

    every = {name + kind for name in ("bad.csv", "bad.csv.before-1") for kind in ("", ".reasons.csv", ".replay.json")}
    for _ in killed_at_each_name(place, load_words(url, ("u.csv",), "u", options)):
        check()
        load(url, "u.csv", table="u", cwd=place, check=3, **options)
        check(*every)
        aside = place / "bad.csv.before-1"
        assert "bad" in Path(f"{aside}.reasons.csv").read_text()
        assert "worse" in (place / "bad.csv.reasons.csv").read_text()
        write(aside, "2|y\n")
        load(url, "t.csv", cwd=place, replay=True, **(options | {"rejects": aside.name}))
        target = DuckdbTarget(place / "d.duckdb")
        assert target.sorted_rows("t") == [(1, "x"), (2, "y")]
        assert target.rows("SELECT * FROM u") == [(1,)]


def test_a_replay_that_is_killed_while_it_names_its_files(tmp_path: Path) -> None:
    """The same command without --replay tells what has become of the rejects."""
    place = tmp_path / "place"
    place.mkdir()
    url = "duckdb:///d.duckdb"
    DuckdbTarget(place / "d.duckdb").execute("CREATE TABLE t (a integer)")
    write(place / "t.csv", "1\nbad\nworse\n")
    options: dict[str, object] = {"header": "no", "on_error": "skip", "max_rejects": 2, "rejects": "bad.csv"}
    load(url, "t.csv", cwd=place, check=3, **options)
    write(place / "bad.csv", "2\nworse\n")
    for _ in killed_at_each_name(place, load_words(url, ("t.csv",), "t", {**options, "replay": True})):
        is_written = (place / "bad.csv").read_text() == "worse\n"
        run = load(url, "t.csv", cwd=place, check=3, **options)
        assert run.summary is not None
        assert any("do not change the file" in note for note in run.summary["notes"]) == (not is_written)
        assert any("what it could not store is in bad.csv" in note for note in run.summary["notes"])
        load(url, "t.csv", cwd=place, replay=True, check=3, **options)
        assert (place / "bad.csv").read_text() == "worse\n"
        assert DuckdbTarget(place / "d.duckdb").sorted_rows("t") == [(1,), (2,)]
