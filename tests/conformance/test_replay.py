"""`--replay`: rejects that were mended are stored, and the others are rejected again as they were before."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command import environment, run_tipple
from extension.pages import make_ready
from loading import load, load_words
from spoilt import TABLE
from targets import DuckdbTarget, PostgresTarget, Target, write


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
    assert (again.summary["rejects"], again.summary["rejects_file"], again.summary["reasons_file"]) == (3, None, None)
    assert engine_target.count("t") == 4
    # Its rejects do not come back, to be stored once more.
    assert rejects.read_bytes() == b""
    assert "has loaded them by --replay" in " ".join(again.summary["notes"])


def test_rejects_that_somebody_mends_are_not_lost(engine_target: Target, tmp_path: Path) -> None:
    """Neither by the same command, nor by another load that writes its rejects there."""
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"a,b,c,d\n1,,,x\nbad,,,y\n4,,nodate,v\n")
    rejects = write(tmp_path / "bad.csv", b"notes of somebody\n")
    options: dict[str, object] = {"on_error": "skip", "max_rejects": 3, "rejects": rejects, "header": "match"}
    first = load(engine_target, path, check=3, **options)
    assert first.summary is not None
    assert any("bad.csv.before-1" in note for note in first.summary["notes"])
    assert (tmp_path / "bad.csv.before-1").read_bytes() == b"notes of somebody\n"
    raw = rejects.read_bytes()
    load(engine_target, path, check=3, **options)
    assert not (tmp_path / "bad.csv.before-2").exists()
    mended = raw.replace(b"bad", b"2")
    rejects.write_bytes(mended)
    load(engine_target, path, check=3, **options)
    assert rejects.read_bytes() == raw
    assert (tmp_path / "bad.csv.before-2").read_bytes() == mended
    other = write(tmp_path / "other.csv", b"a,b,c,d\n5,,,x\nworse,,,y\n")
    load(engine_target, other, check=3, **options)
    assert rejects.read_bytes() == b"worse,,,y\n"
    aside = {**options, "rejects": tmp_path / "bad.csv.before-2"}
    run = load(engine_target, path, replay=True, check=3, **aside)
    assert run.summary is not None
    assert (run.summary["rows"], run.summary["rejects"]) == (1, 1)
    assert sorted(engine_target.rows("SELECT a FROM t")) == [(1,), (2,), (5,)]


def test_rejects_that_somebody_removes_from_the_ledger(engine_target: Target, tmp_path: Path) -> None:
    """What is told of them and what the file has are not the same any more."""
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"a,b,c,d\n1,,,x\nbad,,,y\n4,,nodate,v\n")
    rejects = tmp_path / "bad.csv"
    options: dict[str, object] = {"on_error": "skip", "max_rejects": 3, "rejects": rejects, "header": "match"}
    load(engine_target, path, check=3, **options)
    for left, condition in ((1, "column_name = 'a'"), (0, "true")):
        engine_target.execute(f"DELETE FROM tipple.reject WHERE {condition}")
        again = load(engine_target, path, check=3, **options)
        assert again.summary is not None
        assert again.summary["rejects"] == 2
        assert len(rejects.read_text().splitlines()) == left
        assert f"bad.csv has {left} of the 2 rejects" in " ".join(again.summary["notes"])


def test_what_a_replay_leaves_is_told_by_where_it_stands(engine_target: Target, tmp_path: Path) -> None:
    """The file that was read is no more: its place has the one that was written."""
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"a,b,c,d\n1,,,x\nbad,,,y\n3,1,z\n4,,nodate,v\n")
    rejects = tmp_path / "bad.csv"
    options: dict[str, object] = {"on_error": "skip", "max_rejects": 3, "rejects": rejects, "header": "match"}
    load(engine_target, path, check=3, **options)
    rejects.write_bytes(rejects.read_bytes().replace(b"bad", b"2"))
    run = load(engine_target, path, replay=True, check=3, **options)
    raw = rejects.read_bytes()
    with (tmp_path / "bad.csv.reasons.csv").open() as file:
        told = [(int(row["record_number"]), int(row["byte_offset"])) for row in csv.DictReader(file)]
    assert told == [(1, 0), (2, raw.index(b"4"))]
    assert run.summary is not None
    assert {cause["first_record_number"] for cause in run.summary["reject_causes"]} == {1, 2}
    again = load(engine_target, path, check=3, **options)
    assert again.summary is not None
    assert f"what it could not store is in {rejects}" in " ".join(again.summary["notes"])


def test_the_rejects_of_another_load_are_not_taken_for_replayed(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    first = write(tmp_path / "first.csv", b"a,b,c,d\n1,,,x\nbad,,,y\n")
    second = write(tmp_path / "second.csv", b"a,b,c,d\n2,,,x\nworse,,,y\n")
    rejects = tmp_path / "bad.csv"
    options: dict[str, object] = {"on_error": "skip", "max_rejects": 1, "rejects": rejects, "header": "match"}
    load(engine_target, first, check=3, **options)
    load(engine_target, second, check=3, **options)
    rejects.write_bytes(b"3,,,y\n")
    load(engine_target, second, replay=True, check=0, **options)
    load(engine_target, first, check=3, **options)
    assert rejects.read_bytes() == b"bad,,,y\n"
    load(engine_target, second, check=3, **options)
    assert rejects.read_bytes() == b"bad,,,y\n"


def test_a_replay_does_not_advise_what_it_leaves_out_of_account(engine_target: Target, tmp_path: Path) -> None:
    """All of its lines are records, whatever they begin with."""
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\n2,1,z\n")
    options: dict[str, object] = {"on_error": "skip", "rejects": tmp_path / "bad.csv", "header": "no"}
    load(engine_target, path, check=3, max_rejects=1, **options)
    failed = load(engine_target, path, check=1, max_rejects=0, replay=True, **options)
    assert "--skip-lines" not in failed.stderr
    assert "mend the record" in failed.stderr
    assert "--replay allows no reject without --max-rejects" in failed.stderr


def test_a_share_of_all_records_is_no_limit_of_a_replay(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    records = b"".join(b"%d,,,x\n" % number for number in range(200))
    path = write(tmp_path / "in.csv", b"a,b,c,d\n" + records + b"bad,,,y\n4,,nodate,v\n")
    options: dict[str, object] = {
        "on_error": "skip",
        "max_rejects": "1%",
        "rejects": tmp_path / "bad",
        "header": "match",
    }
    load(engine_target, path, check=3, **options)
    run = load(engine_target, path, replay=True, check=3, **options)
    assert run.summary is not None
    assert (run.summary["rows"], run.summary["rejects"]) == (0, 2)


def test_a_replay_needs_its_file(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\n")
    run = load(engine_target, path, on_error="skip", rejects=tmp_path / "none.csv", replay=True, check=2)
    assert "none.csv" in run.stderr


def guessed_rejects(directory: Path) -> tuple[Path, dict[str, Any]]:
    """A file whose sample shows numbers, but not the codes among them; and the options to load it."""
    lines = [f"{number};{number % 97 + 1}" for number in range(700_000)]
    lines[350_001] = "350001;007"
    lines[350_003] = "350003;08"
    path = write(directory / "in.csv", "id;code\n" + "\n".join(lines) + "\n")
    return path, {"schema": "auto", "on_error": "skip", "max_rejects": 5, "rejects": directory / "bad"}


def test_rejects_of_guessed_types_stay_rejects(engine_target: Target, tmp_path: Path) -> None:
    """What a guessed type would have changed is not stored changed when it is replayed, and so for the same reason."""
    path, options = guessed_rejects(tmp_path)
    load(engine_target, path, **options, check=3)
    reasons = (tmp_path / "bad.reasons.csv").read_text()
    assert reasons.count("would be changed by the type bigint") == 2
    raw = (tmp_path / "bad").read_text()
    # What follows does not look at the sources again: they may be others by now.
    write(path, "a|b|c\n1|2|3\n")
    write(tmp_path / "bad", raw.replace("08", "8"))
    run = load(engine_target, path, **options, replay=True, check=3)
    assert run.summary is not None
    assert (run.summary["rows"], run.summary["rejects"]) == (1, 1)
    assert (tmp_path / "bad").read_text() == "350001;007\n"
    assert '""007"" would be changed by the type bigint' in (tmp_path / "bad.reasons.csv").read_text()
    assert engine_target.rows("SELECT id FROM t WHERE id BETWEEN 350001 AND 350003 ORDER BY id") == [
        (350002,),
        (350003,),
    ]


def test_rejects_of_guessed_types_that_are_written_again(engine_target: Target, tmp_path: Path) -> None:
    path, options = guessed_rejects(tmp_path)
    load(engine_target, path, **options, check=3)
    kept = (tmp_path / "bad.replay.json").read_text()
    assert '"code"' in kept
    (tmp_path / "bad.replay.json").unlink()
    load(engine_target, path, **options, check=3)
    assert (tmp_path / "bad.replay.json").read_text() == kept
    write(tmp_path / "bad.replay.json", "{")
    run = load(engine_target, path, **options, replay=True, check=1)
    assert "bad.replay.json" in run.stderr
    assert "without --replay" in run.stderr


def test_open_quotes_are_not_replayed_together(engine_target: Target, tmp_path: Path) -> None:
    """Rejects of two files, each with a quote that is missing, would be one record when they stand side by side."""
    engine_target.execute("CREATE TABLE t (a integer, b text)")
    for name, bad in ("1", '3,"abc'), ("2", '7,"def'):
        write(tmp_path / f"{name}.csv", f"a,b\n1,x\n{bad}\n4,y\n5,z\n6,z\n")
    paths = (tmp_path / "1.csv", tmp_path / "2.csv")
    options: dict[str, object] = {"on_error": "skip", "max_rejects": 3, "rejects": tmp_path / "bad"}
    load(engine_target, *paths, **options, check=3)
    raw = (tmp_path / "bad").read_text()
    assert raw == '3,"abc\n7,"def\n'
    run = load(engine_target, *paths, **options, replay=True, check=2)
    assert '3,"abc' in run.stderr
    write(tmp_path / "bad", raw.replace('3,"abc', '3,"abc"'))
    load(engine_target, *paths, **options, replay=True, check=3)
    assert (tmp_path / "bad").read_text() == '7,"def\n'
    write(tmp_path / "bad", '7,"def"\n')
    load(engine_target, *paths, **options, replay=True)
    assert engine_target.rows("SELECT a, b FROM t WHERE b LIKE '%e%' OR b LIKE 'a%' ORDER BY a") == [
        (3, "abc"),
        (7, "def"),
    ]


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_the_same_command_after_a_replay(engine_target: Target, tmp_path: Path, mode: str) -> None:
    """What was replayed is a part of what the command has loaded, and no change by somebody else."""
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\nbad,,,y\n4,,nodate,v\n")
    rejects = tmp_path / "bad.csv"
    options: dict[str, object] = {
        "on_error": "skip",
        "max_rejects": 3,
        "rejects": rejects,
        "header": "no",
        "mode": mode,
    }
    load(engine_target, path, check=3, **options)
    rejects.write_bytes(b"2,,,y\n4,,nodate,v\n")
    load(engine_target, path, replay=True, check=3, **options)
    run = load(engine_target, path, check=3, **options)
    assert run.summary is not None
    assert run.summary["status"] == "already loaded"
    assert sorted(engine_target.rows("SELECT a FROM t")) == [(1,), (2,)]
    assert rejects.read_bytes() == b"4,,nodate,v\n"


@pytest.mark.parametrize(
    "options",
    [{"write_path": "direct"}, {"commit_every": 1000}, {"structure": "sorted", "key": "a"}, {"structure": "memory"}],
    ids=str,
)
def test_options_for_a_new_table_do_not_stop_a_replay(
    postgres_target: PostgresTarget, tmp_path: Path, options: dict[str, object]
) -> None:
    """The same command with --replay, though the table has rows by then."""
    if "write_path" in options:
        make_ready(postgres_target.server, postgres_target.database)
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (a integer, b varchar)")
    path = write(tmp_path / "in.csv", b"1,x\nbad,y\n3,z\n")
    rejects = tmp_path / "bad.csv"
    options = {**options, "schema": schema, "on_error": "skip", "max_rejects": 3, "rejects": rejects, "header": "no"}
    load(postgres_target, path, check=3, **options)
    rejects.write_bytes(b"2,y\n")
    load(postgres_target, path, replay=True, **options)
    assert sorted(postgres_target.rows("SELECT * FROM t")) == [(1, "x"), (2, "y"), (3, "z")]


def test_a_replay_that_has_not_written_what_is_left(engine_target: Target, tmp_path: Path) -> None:
    """It was killed after its commit: to mend the file further would load what is in it twice."""
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\nbad,,,y\n4,,nodate,v\n")
    rejects = tmp_path / "bad.csv"
    options: dict[str, object] = {"on_error": "skip", "max_rejects": 3, "rejects": rejects, "header": "no"}
    load(engine_target, path, check=3, **options)
    rejects.write_bytes(b"2,,,y\n4,,nodate,v\n")
    before = {name: name.read_bytes() for name in tmp_path.iterdir() if name.name.startswith("bad.csv")}
    times = rejects.stat()
    load(engine_target, path, replay=True, check=3, **options)
    for name, content in before.items():
        name.write_bytes(content)
    os.utime(rejects, ns=(times.st_atime_ns, times.st_mtime_ns))
    run = load(engine_target, path, check=3, **options)
    assert run.summary is not None
    assert any("do not change the file" in note for note in run.summary["notes"])
    load(engine_target, path, replay=True, check=3, **options)
    assert rejects.read_bytes() == b"4,,nodate,v\n"
    assert engine_target.count("t") == 2
    again = load(engine_target, path, check=3, **options)
    assert again.summary is not None
    assert not any("do not change the file" in note for note in again.summary["notes"])


def test_two_loads_with_one_name_for_their_rejects(tmp_path: Path) -> None:
    """Each writes complete files; what the first has written is put aside."""
    commands = []
    for number in (1, 2):
        target = DuckdbTarget(tmp_path / f"{number}.duckdb")
        target.execute("CREATE TABLE t (a integer)")
        path = write(tmp_path / f"{number}.csv", f"x{number}{'y' * 50}\n" * 60_000)
        options = {"on_error": "skip", "max_rejects": "100%", "rejects": tmp_path / "bad", "header": "no"}
        commands.append([sys.executable, "-m", "tipple", *load_words(target.url, (path,), "t", options)])
    for _ in range(3):
        running = [subprocess.Popen([*command, "--restart"], env=environment()) for command in commands]
        assert [process.wait(timeout=120) for process in running] == [3, 3]
        found = {path.read_bytes() for path in tmp_path.glob("bad*") if re.fullmatch(r"bad(\.before-\d+)?", path.name)}
        assert found == {(tmp_path / f"{number}.csv").read_bytes() for number in (1, 2)}
    assert not list(tmp_path.glob("*.unfinished"))


def test_the_rejects_of_another_table_are_not_replayed(engine_target: Target, tmp_path: Path) -> None:
    """Two loads with one file for their rejects: the second moves those of the first away."""
    engine_target.execute("CREATE TABLE t (id integer, v integer); CREATE TABLE u (id integer, v integer)")
    first, second = write(tmp_path / "a.csv", "1,10\n2,x\n"), write(tmp_path / "b.csv", "7,70\n8,y\n")
    rejects = tmp_path / "bad.csv"
    options: dict[str, object] = {"on_error": "skip", "max_rejects": 1, "rejects": rejects}
    load(engine_target, first, table="t", check=3, **options)
    load(engine_target, second, table="u", check=3, **options)
    rejects.write_text("8,80\n")
    run = load(engine_target, first, table="t", replay=True, check=2, **options)
    assert "the rejects are those of" in run.stderr
    assert "before-1" in run.stderr
    assert engine_target.rows("SELECT * FROM t") == [(1, 10)]
    load(engine_target, second, table="u", replay=True, **options)
    (tmp_path / "bad.csv.before-1").write_text("2,20\n")
    load(engine_target, first, table="t", replay=True, **(options | {"rejects": tmp_path / "bad.csv.before-1"}))
    assert engine_target.sorted_rows("t") == [(1, 10), (2, 20)]
    assert engine_target.sorted_rows("u") == [(7, 70), (8, 80)]


def test_rejects_of_a_job_in_another_target(engine_target: Target, tmp_path: Path) -> None:
    """They may be meant; a note says so."""
    other = DuckdbTarget(tmp_path / "other.duckdb")
    path, rejects = write(tmp_path / "a.csv", "1,10\n2,x\n"), tmp_path / "bad.csv"
    options: dict[str, object] = {"on_error": "skip", "max_rejects": 1, "rejects": rejects, "table": "s.t"}
    for target in (other, engine_target):
        target.execute("CREATE SCHEMA s; CREATE TABLE s.t (id integer, v integer)")
    load(other, path, check=3, **options)
    rejects.write_text("2,20\n")
    run = load(engine_target, path, replay=True, **options)
    assert run.summary is not None
    assert any("which this target's ledger does not have" in note for note in run.summary["notes"])
    assert engine_target.rows("SELECT * FROM s.t") == [(2, 20)]


def test_what_a_replay_left_and_whose_file_is_gone(engine_target: Target, tmp_path: Path) -> None:
    """The ledger still has it, and the same command says where."""
    engine_target.execute("CREATE TABLE t (id integer, v integer)")
    path, rejects = write(tmp_path / "a.csv", "1,10\nx,20\ny,30\n"), tmp_path / "bad.csv"
    options: dict[str, object] = {"on_error": "skip", "max_rejects": 9, "rejects": rejects}
    load(engine_target, path, check=3, **options)
    rejects.write_text("2,20\ny,30\n")
    load(engine_target, path, replay=True, check=3, **options)
    assert rejects.read_text() == "y,30\n"
    for left in tmp_path.glob("bad.csv*"):
        left.unlink()
    run = load(engine_target, path, check=3, **options)
    assert run.summary is not None
    assert run.summary["rejects_file"] is None
    (query,) = re.findall(
        r"SELECT reason, record FROM tipple\.reject WHERE job_id = '[-0-9a-f]+'", str(run.summary["notes"])
    )
    ((reason, record),) = engine_target.rows(query)
    assert "integer" in reason
    assert bytes(record).startswith(b"y,30")


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "replace", "replace_scope": "partitions"},
        {"partition_by": "range(id, every=10)"},
        {"mode": "replace", "tablespace": "pg_default"},
    ],
    ids=str,
)
def test_the_same_command_replays_into_partitions(
    postgres_target: PostgresTarget, tmp_path: Path, options: dict[str, object]
) -> None:
    """Mended records come on top of the good ones."""
    divided = "" if "tablespace" in options else " PARTITION BY RANGE (id)"
    postgres_target.execute(f"CREATE TABLE t (id integer PRIMARY KEY, v integer){divided}")
    if options.get("mode") == "replace" and divided:
        postgres_target.execute("CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    path, rejects = write(tmp_path / "a.csv", "1,10\n2,x\n"), tmp_path / "bad.csv"
    options |= {"header": "no", "on_error": "skip", "max_rejects": 9, "rejects": rejects}
    load(postgres_target, path, check=3, **options)
    rejects.write_text("2,y\n")
    still = load(postgres_target, path, replay=True, check=3, **options)
    assert still.summary is not None
    assert not any("empty" in note for note in still.summary["notes"])
    rejects.write_text("2,20\n")
    load(postgres_target, path, replay=True, **options)
    assert postgres_target.sorted_rows("t") == [(1, 10), (2, 20)]


@pytest.mark.parametrize("on_conflict", ["update", "ignore"])
def test_a_replay_that_goes_over_later_records(engine_target: Target, tmp_path: Path, on_conflict: str) -> None:
    """Of records with one key the last counts, and the replay comes last: a note says so where that changes rows."""
    engine_target.execute("CREATE TABLE t (a integer PRIMARY KEY, v integer)")
    path, rejects = write(tmp_path / "in.csv", "2,q\n2,5\n"), tmp_path / "bad.csv"
    options: dict[str, object] = {"header": "no", "mode": "upsert", "key": "a", "on_conflict": on_conflict}
    options |= {"on_error": "skip", "max_rejects": 1, "rejects": rejects}
    load(engine_target, path, check=3, **options)
    rejects.write_text("2,4\n")
    run = load(engine_target, path, replay=True, **options)
    assert run.summary is not None
    told = [note for note in run.summary["notes"] if "where the sources have later records" in note]
    assert bool(told) == (on_conflict == "update")
    assert engine_target.rows("SELECT * FROM t") == [(2, 4 if on_conflict == "update" else 5)]


def test_replays_replace_partitions_that_the_load_has_left(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A partition of which all records were rejects has its old rows still; the replay gives what the mended file would
    have given, and what is replayed later comes on top."""
    postgres_target.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer) PARTITION BY RANGE (id)")
    for low in (0, 10, 20, 30):
        postgres_target.execute(f"CREATE TABLE t{low} PARTITION OF t FOR VALUES FROM ({low}) TO ({low + 10})")
        postgres_target.execute(f"INSERT INTO t VALUES ({low}, -1), ({low + 1}, -1)")
    path = write(tmp_path / "a.csv", "1,10\n2,x\n10,x\n11,x\n21,x\n")
    rejects = tmp_path / "bad.csv"
    options: dict[str, object] = {"header": "no", "mode": "replace", "replace_scope": "partitions"}
    options |= {"on_error": "skip", "max_rejects": 9, "rejects": rejects}
    load(postgres_target, path, check=3, **options)
    rejects.write_text("2,20\n10,100\n11,x\n21,x\n")
    load(postgres_target, path, replay=True, check=3, **options)
    rejects.write_text("11,110\n21,210\n")
    load(postgres_target, path, replay=True, **options)
    kept = [(30, -1), (31, -1)]
    assert sorted(postgres_target.rows("SELECT * FROM t")) == [(1, 10), (2, 20), (10, 100), (11, 110), (21, 210), *kept]
    run = load(postgres_target, path, check=3, **options)
    assert run.summary is not None
    assert run.summary["status"] == "already loaded"


def test_a_replay_replaces_no_rows_of_others(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Where another load has come in between, it goes on top of the load's own rows, and is refused elsewhere."""
    postgres_target.execute("CREATE TABLE t (id integer, v integer) PARTITION BY RANGE (id)")
    for low in (0, 10):
        postgres_target.execute(f"CREATE TABLE t{low} PARTITION OF t FOR VALUES FROM ({low}) TO ({low + 10})")
    path, other = write(tmp_path / "a.csv", "1,10\n2,x\n10,x\n"), write(tmp_path / "b.csv", "12,120\n")
    rejects = tmp_path / "bad.csv"
    options: dict[str, object] = {"header": "no", "mode": "replace", "replace_scope": "partitions"}
    options |= {"on_error": "skip", "max_rejects": 9, "rejects": rejects}
    load(postgres_target, path, check=3, **options)
    load(postgres_target, other, header="no")
    rejects.write_text("2,20\n10,100\n")
    refused = load(postgres_target, path, replay=True, check=1, **options)
    assert "all records of public.t10 were rejects" in " ".join(refused.stderr.split())
    rejects.write_text("2,20\n")
    load(postgres_target, path, replay=True, **options)
    assert sorted(postgres_target.rows("SELECT * FROM t")) == [(1, 10), (2, 20), (12, 120)]


@pytest.mark.parametrize("options", [{"no_ledger": True}, {}], ids=str)
def test_a_replay_into_partitions_of_which_nothing_is_known(
    postgres_target: PostgresTarget, tmp_path: Path, options: dict[str, object]
) -> None:
    """It might put rows beside those that they were to replace."""
    postgres_target.execute("CREATE TABLE t (id integer, v integer) PARTITION BY RANGE (id)")
    postgres_target.execute("CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    path, rejects = write(tmp_path / "a.csv", "1,10\n2,x\n"), tmp_path / "bad.csv"
    options = options | {"header": "no", "on_error": "skip", "max_rejects": 9, "rejects": rejects}
    scope: dict[str, object] = {"mode": "replace", "replace_scope": "partitions"}
    load(postgres_target, path, check=3, **options, **scope)
    rejects.write_text("2,20\n")
    if "no_ledger" not in options:
        (tmp_path / "bad.csv.replay.json").unlink()
    refused = load(postgres_target, path, replay=True, check=2, **options, **scope)
    assert "the ledger does not have which partitions" in " ".join(refused.stderr.split())
    load(postgres_target, path, replay=True, **options, mode="append")
    assert postgres_target.sorted_rows("t") == [(1, 10), (2, 20)]


REPLAYS = """
[defaults]
into = "${into}"
sources = "${here}/${table}.csv"
header = "no"
rejects = "${here}/${table}.bad"
on-error = "skip"
replay = true
[tables.parent]
[tables.middle]
after = "parent"
[tables.child]
after = "middle"
"""


def test_a_job_of_which_one_table_has_no_rejects(engine_target: Target, tmp_path: Path) -> None:
    """There is nothing to replay of it, and the others are replayed in their order."""
    for name in ("parent", "middle", "child"):
        key = "PRIMARY KEY" if name == "parent" else "REFERENCES parent" if name == "child" else ""
        engine_target.execute(f"CREATE TABLE {name} (a integer {key})")
        path = write(tmp_path / f"{name}.csv", "x\n" if name != "middle" else "3\n")
        skip = {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / f"{name}.bad", "header": "no"}
        load(engine_target, path, table=name, check=3 if name != "middle" else 0, **skip)
    assert not (tmp_path / "middle.bad").exists()
    job = write(tmp_path / "job.toml", REPLAYS)
    command: list[Any] = ["run", job, "--set", f"into={engine_target.url}", "--progress", "none"]
    for name in ("parent", "child"):
        write(tmp_path / f"{name}.bad", "7\n")
    for words, status in ((["--dry-run"], "planned"), ([], "loaded"), ([], "loaded")):
        run = run_tipple(*command, *words)
        assert run.summary is not None
        found = {table["name"]: table["status"] for table in run.summary["tables"]}
        assert found == {"parent": status, "middle": "nothing to replay", "child": status}
        (note,) = [table["note"] for table in run.summary["tables"] if table["name"] == "middle"]
        assert note == f"there is no {tmp_path}/middle.bad"
    assert engine_target.rows("SELECT a FROM child") == [(7,)]
    for name in ("parent", "child"):
        os.unlink(tmp_path / f"{name}.bad")
    assert "nothing to replay" in run_tipple(*command).stdout
    # Who asks for one table has most likely mistaken its name.
    write(job, REPLAYS.replace("replay = true\n", "") + "replay = true\n")
    assert "there is no file of rejects" in run_tipple(*command, check=2).stderr
