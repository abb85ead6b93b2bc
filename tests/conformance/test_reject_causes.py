"""Reports and errors say why records were rejected, column by column."""

from __future__ import annotations

import re
from pathlib import Path

import tipple
from command import run_tipple
from loading import load
from targets import PostgresTarget, Target, write
from tipple.plan.rejects import RejectPolicy
from tipple.report.model import RejectCause
from tipple.run.rejects import removed_rejects

CONTENT = "1,2024-01-01\nx,2024-01-02\n3,never\n,2024-01-04\n5\ny,2024-01-06\n7,2024-01-07\n"


def test_causes_in_the_report(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer NOT NULL, d date)")
    path = write(tmp_path / "in.csv", CONTENT)
    options = {"header": "no", "on_error": "skip", "max_rejects": 10, "rejects": tmp_path / "bad"}
    for run in (load(engine_target, path, check=3, **options), load(engine_target, path, check=3, **options)):
        assert run.summary is not None
        causes = run.summary["reject_causes"]
        told = [
            (cause["column"], cause["sqlstate"], cause["rejects"], cause["first_record_number"]) for cause in causes
        ]
        assert told[0] == ("a", "22P02", 2, 2)
        assert sorted(told[1:], key=lambda cause: cause[3]) == [
            ("d", "22007", 1, 3),
            ("a", "23502", 1, 4),
            ("d", "22P04", 1, 5),
        ]
        assert sum(cause["rejects"] for cause in causes) == run.summary["rejects"]
        assert {cause["first_file"] for cause in causes} == {str(path)}
        assert causes[0]["first_reason"] == 'invalid input syntax for type integer: "x"'


def test_constraints_are_causes_of_their_own(engine_target: Target, tmp_path: Path) -> None:
    """Their SQLSTATE is the same, and so is the column, which they do not have."""
    engine_target.execute("CREATE TABLE t (a integer, CONSTRAINT low CHECK (a > 0), CONSTRAINT high CHECK (a < 9))")
    path = write(tmp_path / "in.csv", "10\n1\n-2\n-3\n11\n-4\n")
    run = load(engine_target, path, header="no", on_error="skip", max_rejects=5, rejects=tmp_path / "bad", check=3)
    assert run.summary is not None
    told = [(cause["rejects"], cause["first_record_number"]) for cause in run.summary["reject_causes"]]
    assert told == [(3, 3), (2, 1)]
    reasons = [cause["first_reason"] for cause in run.summary["reject_causes"]]
    # DuckDB keeps no names of them.
    assert re.search('"low"|> 0', reasons[0])
    assert re.search('"high"|< 9', reasons[1])


def test_causes_where_there_are_too_many(engine_target: Target, tmp_path: Path) -> None:
    """A load that ends by its limit says what it has found, and leaves no file of rejects that could be replayed."""
    engine_target.execute("CREATE TABLE t (a integer NOT NULL, d date)")
    path = write(tmp_path / "in.csv", CONTENT)
    options = {"header": "no", "on_error": "skip", "max_rejects": 4, "rejects": tmp_path / "bad", "jobs": 1}
    run = load(engine_target, path, check=1, **options)
    assert "more records than --max-rejects 4 allows" in run.stderr
    assert f'rejected  1 x column a, 22P02: invalid input syntax for type integer: "x" ({path})' in run.stderr
    assert "rejected  1 x column d, 22007" in run.stderr
    assert not (tmp_path / "bad").exists()
    assert engine_target.count("t") == 0
    assert "rejected  " in load(engine_target, path, check=1, **{**options, "max_rejects": "10%"}).stderr


def test_files_that_have_other_rejects_than_the_load(tmp_path: Path) -> None:
    """Fewer can be told again from the sources alone; more would be stored twice."""
    policy = RejectPolicy(max_count=9, max_percent=None, path=str(tmp_path / "bad"))
    cause = RejectCause(
        column=None, sqlstate=None, rejects=4, first_file="in.csv", first_record_number=1, first_reason="one field"
    )
    assert removed_rejects(policy, [cause], 4) == []
    assert "4 of the 5 rejects" in removed_rejects(policy, [cause], 5)[0]
    assert "do not replay it" in removed_rejects(policy, [cause], 2)[0]


def test_too_many_rejects_name_the_table(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """And not what is staged for it, neither in the last one's reason nor in those of all."""
    postgres_target.execute("CREATE TABLE t (a integer CHECK (a > 0))")
    path = write(tmp_path / "in.csv", "1\n-2\n-3\n-4\n")
    run = load(postgres_target, path, header="no", on_error="skip", max_rejects=1, rejects=tmp_path / "bad", check=1)
    assert run.stderr.count('new row for relation "t" violates') == 2
    assert "stage_" not in run.stderr


def test_jobs_have_their_rejects(engine_target: Target, tmp_path: Path) -> None:
    """The list counts them, and a replay says whose they are."""
    engine_target.execute("CREATE TABLE t (a integer NOT NULL, d date)")
    path = write(tmp_path / "in.csv", CONTENT)
    options = {"header": "no", "on_error": "skip", "max_rejects": 10, "rejects": tmp_path / "bad"}
    load(engine_target, path, check=3, **options)
    write(tmp_path / "bad", "9,2024-01-09\nx,2024-01-02\n")
    load(engine_target, path, check=3, replay=True, **options)
    replay, first = tipple.list_jobs(engine_target.url)
    assert (first.rejects, replay.rejects) == (5, 1)
    assert (first.replays, replay.replays) == (None, first.job_id)
    shown = run_tipple("jobs", engine_target.url, "show", replay.job_id).stdout
    assert f"rejects   1\nreplays   the rejects of job {first.job_id}\n" in shown
    assert re.search(rf"{first.job_id} +published +\S+ +1/1 +2 +5 ", run_tipple("jobs", engine_target.url).stdout)


def test_clean_forgets_the_rejects_of_jobs_that_were_given_up(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer NOT NULL, d date)")
    path = write(tmp_path / "in.csv", CONTENT)
    options = {"header": "no", "on_error": "skip", "max_rejects": 10, "rejects": tmp_path / "bad"}
    load(engine_target, path, check=3, **options)
    load(engine_target, path, check=3, restart=True, **options)
    assert engine_target.value("SELECT count(*) FROM tipple.reject") == 10
    assert "removed 5 rejects" in run_tipple("jobs", engine_target.url, "clean").stdout
    assert engine_target.value("SELECT count(*) FROM tipple.reject") == 5
    assert "nothing to clean up" in run_tipple("jobs", engine_target.url, "clean").stdout
    (tmp_path / "bad").unlink()
    # Those of a job that counts are still written again.
    load(engine_target, path, check=3, **options)
    assert (tmp_path / "bad").read_text().count("\n") == 5


def test_causes_where_keys_are_one_too_many(engine_target: Target, tmp_path: Path) -> None:
    """The limit is met when keys judge, after all values were read: what those were rejected for is told too."""
    engine_target.execute("CREATE TABLE t (a integer PRIMARY KEY, d date)")
    path = write(tmp_path / "in.csv", "1,2024-01-01\nx,2024-01-02\n3,never\n3,2024-01-03\n5\n3,2024-01-04\n")
    for limit in ("3", "50%"):
        run = load(
            engine_target, path, header="no", on_error="skip", max_rejects=limit, rejects=tmp_path / "bad", check=1
        )
        for cause in ("22P02", "22007", "22P04"):
            assert cause in run.stderr
    assert engine_target.count("t") == 0
