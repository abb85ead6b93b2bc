"""A file whose content an earlier command has loaded is told of, though another command stores it once more."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import tipple
from command import Run, run_tipple
from loading import load
from targets import Target, write


def warned(run: Run) -> list[str]:
    assert run.summary is not None
    return [note for note in run.summary["notes"] if "was loaded into this table before" in note]


def touch(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


def test_a_touched_file(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n2\n")
    first = load(engine_target, path)
    assert warned(first) == []
    assert first.summary is not None
    assert warned(load(engine_target, path)) == []
    touch(path, 1)
    again = load(engine_target, path, progress="plain")
    (note,) = warned(again)
    # Whoever waits for the report has loaded it already.
    assert f"tipple: warning: {note}\n" in again.stderr
    assert first.summary["job_id"] in note
    assert str(path) in note
    assert engine_target.count("t") == 4
    touch(path, 2)
    assert warned(load(engine_target, path, mode="replace")) == []
    assert engine_target.count("t") == 2
    touch(path, 3)
    assert len(warned(load(engine_target, path, dry_run=True))) == 1
    assert warned(load(engine_target, path, restart=True)) == []
    assert warned(load(engine_target, path, no_ledger=True)) == []


def test_times_of_jobs(engine_target: Target, tmp_path: Path) -> None:
    """They are one and the same moment for all readers: UTC for programs, with the zone named for people."""
    env = {"TZ": "Asia/Kathmandu", "PGTZ": "America/Caracas"}
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    began = datetime.now(UTC).replace(microsecond=0)
    assert load(engine_target, path, env=env).exit_code == 0
    (job,) = tipple.list_jobs(engine_target.url)
    assert job.finished_at is not None
    assert all(
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told) for told in (job.started_at, job.finished_at)
    )
    finished = datetime.fromisoformat(job.finished_at)
    assert began <= datetime.fromisoformat(job.started_at) <= finished <= datetime.now(UTC)
    shown = finished.astimezone(ZoneInfo(env["TZ"])).strftime("%Y-%m-%d %H:%M:%S +0545")
    again = load(engine_target, path, env=env)
    assert again.summary is not None
    assert f"job {job.job_id} published these rows at {shown}; nothing" in " ".join(again.summary["notes"])
    touch(path, 1)
    (note,) = warned(load(engine_target, path, env=env))
    assert f"by job {job.job_id} on {shown}" in note
    # One that is given up.
    load(engine_target, write(tmp_path / "bad.csv", "1\nx\n"), no_atomic=True, env=env, check=1)
    run_tipple("jobs", engine_target.url, "clean", "--force", env=env)
    assert [job.state for job in tipple.list_jobs(engine_target.url)].count("published") == 2
    for job in tipple.list_jobs(engine_target.url):
        assert job.finished_at is not None
        assert began <= datetime.fromisoformat(job.finished_at) <= datetime.now(UTC)


def test_a_directory_with_one_more_file(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    engine_target.execute("CREATE TABLE u (a integer)")
    days = tmp_path / "days"
    days.mkdir()
    for day in range(3):
        write(days / f"{day}.csv", f"{day}\n" * (day + 1))
    write(days / "empty.csv", "")
    load(engine_target, days)
    write(days / "3.csv", "3\n")
    (note,) = warned(load(engine_target, days))
    assert note.startswith(f"{days / '0.csv'} and 2 more: ")
    assert warned(load(engine_target, days, table="u")) == []
    # As many bytes of something else are another content.
    assert warned(load(engine_target, write(tmp_path / "other.csv", "4\n"))) == []


def test_other_rows_of_the_same_content_stay(engine_target: Target, tmp_path: Path) -> None:
    """Where a replace came since, only what was loaded with it or behind it counts."""
    engine_target.execute("CREATE TABLE t (a integer)")
    one, other = write(tmp_path / "one.csv", "1\n"), write(tmp_path / "other.csv", "2\n")
    load(engine_target, one)
    load(engine_target, other, mode="replace")
    touch(one, 1)
    assert warned(load(engine_target, one)) == []
    touch(other, 1)
    assert len(warned(load(engine_target, other))) == 1


def test_a_key_that_is_merged_is_not_there_twice(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer PRIMARY KEY)")
    path = write(tmp_path / "in.csv", "1\n")
    load(engine_target, path, mode="upsert", key="a")
    touch(path, 1)
    assert warned(load(engine_target, path, mode="upsert", key="a")) == []
