"""Running the same job again, forcing it, planning it only; and what `tipple jobs` says of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import tipple
from big import TABLE, BigFile
from command import run_tipple
from loading import load, load_here, load_text
from targets import PostgresTarget, Target, write
from tipple.run.job import _Run


@pytest.mark.parametrize("mode", ["append", "replace", "create"])
def test_the_same_job_again_changes_nothing(engine_target: Target, tmp_path: Path, mode: str) -> None:
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (a integer);")
    path = write(tmp_path / "in.csv", "1\n2\n")
    options = {"mode": mode, "schema": schema, "jobs": 2}
    first = load(engine_target, path, **options)
    before = engine_target.sorted_rows("t"), engine_target.tables()
    for _ in range(2):
        again = load(engine_target, path, **options)
        assert "already loaded" in again.output
        assert again.summary is not None
        assert first.summary is not None
        assert again.summary["status"] == "already loaded"
        assert again.summary["job_id"] == first.summary["job_id"]
        assert (engine_target.sorted_rows("t"), engine_target.tables()) == before


@pytest.mark.parametrize("mode", ["append", "replace", "upsert"])
def test_a_table_that_was_emptied_since(engine_target: Target, tmp_path: Path, mode: str) -> None:
    """The rows may have been taken out on purpose, so this is told; but `replace` means that the table is the file."""
    engine_target.execute("CREATE TABLE t (a integer PRIMARY KEY)")
    path = write(tmp_path / "in.csv", "1\n2\n")
    options = {"mode": mode} | ({"key": "a"} if mode == "upsert" else {})
    load(engine_target, path, **options)
    again = load(engine_target, path, **options)
    assert again.summary is not None
    assert not any("no rows now" in note for note in again.summary["notes"])
    engine_target.execute("DELETE FROM t")
    again = load(engine_target, path, **options)
    assert again.summary is not None
    if mode == "replace":
        assert again.summary["status"] == "loaded"
        assert any("the table has been emptied since: loaded again" in note for note in again.summary["notes"])
        assert engine_target.sorted_rows("t") == [(1,), (2,)]
    else:
        assert again.summary["status"] == "already loaded"
        assert any("it has no rows now, though job" in note for note in again.summary["notes"])
        assert engine_target.count("t") == 0
        load(engine_target, path, **options, restart=True)
        assert engine_target.sorted_rows("t") == [(1,), (2,)]


def test_other_streams_are_the_same_job(engine_target: Target, big_file: BigFile) -> None:
    engine_target.execute(TABLE)
    load(engine_target, big_file.path, jobs=1)
    again = load(engine_target, big_file.path, jobs=2)
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"
    assert big_file.held_by(engine_target) == big_file.expected


def test_other_files_are_another_job(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    load(engine_target, write(tmp_path / "1.csv", "1\n"))
    load(engine_target, write(tmp_path / "2.csv", "2\n"))
    # The same name with other content of the same length.
    load(engine_target, write(tmp_path / "1.csv", "3\n"))
    assert engine_target.sorted_rows("t") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("change", ["ALTER TABLE t ALTER a TYPE bigint", "ALTER TABLE t RENAME COLUMN b TO d"])
def test_the_same_job_after_the_columns_have_changed(engine_target: Target, tmp_path: Path, change: str) -> None:
    """The rows were changed with the table: they are there, and the command is the one that has stored them."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    path = write(tmp_path / "in.csv", "a,b\n1,x\n2,y\n")
    options = {"header": "yes"}
    first = load(engine_target, path, **options)
    engine_target.execute(change)
    for _ in range(2):
        again = load(engine_target, path, **options)
        assert first.summary is not None
        assert again.summary is not None
        assert again.summary["status"] == "already loaded"
        assert again.summary["job_id"] == first.summary["job_id"]
        assert any("the columns of" in note and "have changed" in note for note in again.summary["notes"])
        assert not any("twice" in note for note in again.summary["notes"])
        assert engine_target.sorted_rows("t") == [(1, "x"), (2, "y")]
    # With other options it is another command, and a restart is one that means it.
    load(engine_target, path, **options, skip_lines=1)
    assert engine_target.count("t") == 3
    load(engine_target, path, **options, restart=True)
    assert engine_target.count("t") == 5
    load(engine_target, path, **options)
    assert engine_target.count("t") == 5


def test_columns_that_are_named_anew_are_another_job(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b integer)")
    path = write(tmp_path / "in.csv", "1,2\n")
    load(engine_target, path, columns="a,b")
    load(engine_target, path, columns="b,a")
    assert engine_target.sorted_rows("t") == [(1, 2), (2, 1)]


def test_a_table_that_was_made_anew_with_other_columns_is_loaded(engine_target: Target, tmp_path: Path) -> None:
    """Whoever has chosen wrong types at first drops the table, and expects the rows in the next one."""
    path = write(tmp_path / "in.csv", "1\n2\n")
    for kind in ("integer", "bigint"):
        engine_target.execute("DROP TABLE IF EXISTS t")
        engine_target.execute(f"CREATE TABLE t (a {kind})")
        loaded = load(engine_target, path)
        assert loaded.summary is not None
        assert loaded.summary["status"] == "loaded"
        assert engine_target.sorted_rows("t") == [(1,), (2,)]


def test_restart_forces_it(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    load(engine_target, path)
    again = load(engine_target, path, restart=True)
    assert again.summary is not None
    assert again.summary["status"] == "loaded"
    assert engine_target.count("t") == 2
    # The latest of the two is the one that is already loaded now.
    load(engine_target, path)
    assert engine_target.count("t") == 2


def test_a_failed_job_can_be_run_again(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\nx\n")
    for _ in range(2):
        load(engine_target, path, check=1)
        assert engine_target.count("t") == 0
    write(path, "1\n2\n")
    load(engine_target, path)
    assert engine_target.count("t") == 2
    assert engine_target.leftovers("t") == set()


@pytest.mark.parametrize("mode", [None, "append", "create"])
def test_two_commands_after_the_table_was_dropped(engine_target: Target, tmp_path: Path, mode: str | None) -> None:
    """The first one makes it anew, and the second sees that its rows cannot be in that."""
    options = {"schema": write(tmp_path / "t.sql", "CREATE TABLE t (a integer)")}
    first, second = (write(tmp_path / f"{n}.csv", f"{n}\n") for n in (1, 2))
    for _ in range(2):
        load(engine_target, first, mode=mode, **options)
        load(engine_target, second, mode=None if mode == "create" else mode, **options)
        assert engine_target.sorted_rows("t") == [(1,), (2,)]
        # And both are there, as they say.
        assert (
            "already loaded" in load(engine_target, second, mode=None if mode == "create" else mode, **options).output
        )
        engine_target.execute("DROP TABLE t")


def test_resume_of_a_finished_or_unknown_job(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    load(engine_target, path, resume="nonsense", dry_run=True, check=2)
    first = load(engine_target, path)
    assert first.summary is not None
    again = load(engine_target, path, resume=first.summary["job_id"])
    assert "already loaded" in again.output
    unknown = load(engine_target, path, resume="00000000-0000-0000-0000-000000000000", check=False)
    assert unknown.exit_code in (1, 2)
    load(engine_target, path, resume="nonsense", check=2)
    assert engine_target.count("t") == 1
    load(engine_target, path, resume="nonsense", dry_run=True, check=2)
    dry = load(engine_target, path, resume=first.summary["job_id"], dry_run=True)
    assert "has loaded this already" in dry.output


def test_resume_and_restart_exclude_each_other(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    load_text(engine_target, tmp_path / "in.csv", "1\n", resume="x", restart=True, check=2)


@pytest.mark.parametrize("table", ["missing", "there"])
def test_dry_run_changes_nothing(engine_target: Target, tmp_path: Path, big_file: BigFile, table: str) -> None:
    schema = write(tmp_path / "schema.sql", TABLE + ";")
    if table == "there":
        engine_target.execute(TABLE)
    before = engine_target.tables()
    path = getattr(engine_target, "path", None)
    existed = path is not None and path.exists()
    run = load(engine_target, big_file.path, dry_run=True, schema=schema, mode="append", jobs=2)
    assert run.summary is not None
    assert run.summary["status"] == "planned"
    assert run.summary["slices"] > 0
    assert "big.csv" in run.output
    assert engine_target.tables() == before
    if path is not None:
        assert path.exists() == existed
    # It finds what a load would find before it starts.
    load(engine_target, big_file.path, dry_run=True, columns="nope", schema=schema, check=2)
    load(engine_target, tmp_path / "missing.csv", dry_run=True, schema=schema, check=2)
    assert load(engine_target, big_file.path, schema=schema).summary["status"] == "loaded"  # type: ignore[index]


def test_jobs_lists_what_was_done(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    first = load_text(engine_target, tmp_path / "1.csv", "1\n2\n")
    assert first.summary is not None
    job = first.summary["job_id"]
    listed = run_tipple("jobs", engine_target.url, "list")
    assert job[:8] in listed.stdout
    assert "published" in listed.stdout
    shown = run_tipple("jobs", engine_target.url, "show", job)
    assert "1.csv" in shown.stdout
    assert job[:8] in run_tipple("jobs", engine_target.url).stdout
    text = run_tipple("jobs", engine_target.url, "list", "--json").stdout
    assert job in json.dumps(json.loads(text))
    run_tipple("jobs", engine_target.url, "clean")
    assert engine_target.count("t") == 2
    again = load(engine_target, tmp_path / "1.csv")
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"


def test_jobs_of_a_target_without_any(engine_target: Target) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    run_tipple("jobs", engine_target.url, "list")
    run_tipple("jobs", engine_target.url, "clean")
    assert engine_target.leftovers("t") == set()


def test_ledger_holds_the_job_and_its_slices(engine_target: Target, big_file: BigFile) -> None:
    engine_target.execute(TABLE)
    run = load(engine_target, big_file.path, jobs=2)
    assert run.summary is not None
    jobs = engine_target.rows("SELECT CAST(job_id AS varchar), state FROM tipple.job")
    assert jobs == [(run.summary["job_id"], "published")]
    slices = engine_target.rows("SELECT n, byte_offset, byte_length, rows FROM tipple.slice ORDER BY byte_offset")
    assert len(slices) == run.summary["slices"]
    assert sum(row[3] for row in slices) == big_file.rows
    position = 0
    for _, offset, length, _ in slices:
        assert offset == position
        position += length
    assert position == os.path.getsize(big_file.path)


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_restart_that_fails_leaves_what_is_there(engine_target: Target, tmp_path: Path, mode: str) -> None:
    """The plain command still knows that it has loaded these rows."""
    target = engine_target
    target.execute("CREATE TABLE t (a integer, b integer)")
    path = write(tmp_path / "in.csv", "1,1\n2,1\n")
    first = load(target, path, mode=mode, header="no")
    unique = "a" if mode == "append" else "b"
    if mode == "replace":
        target.execute("DELETE FROM t WHERE a = 2")
    target.execute(f"CREATE UNIQUE INDEX i ON t ({unique})")
    load(target, path, mode=mode, header="no", restart=True, check=1)
    target.execute("DROP INDEX i")
    before = target.sorted_rows("t")
    again = load(target, path, mode=mode, header="no")
    assert again.summary is not None
    assert first.summary is not None
    assert (again.summary["status"], again.summary["job_id"]) == ("already loaded", first.summary["job_id"])
    assert target.sorted_rows("t") == before
    # One that succeeds is the command's job from then on.
    second = load(target, path, mode=mode, header="no", restart=True)
    assert target.count("t") == (2 if mode == "replace" else 4)
    again = load(target, path, mode=mode, header="no")
    assert again.summary is not None
    assert second.summary is not None
    assert (again.summary["status"], again.summary["job_id"]) == ("already loaded", second.summary["job_id"])
    assert target.leftovers("t") == set()


def test_a_job_goes_on_as_it_began(engine_target: Target, tmp_path: Path) -> None:
    """What was begun without one commit for all has rows in the table, of which an atomic load knows nothing."""
    target = engine_target
    target.execute("CREATE TABLE t (a integer CHECK (a > 0), b varchar)")
    good = write(tmp_path / "a.csv", "1,x\n" * 500_000)
    bad = write(tmp_path / "b.csv", "0,x\n")
    options = {"header": "no", "jobs": 1}
    load(target, good, bad, no_atomic=True, check=1, **options)
    stored = target.count("t")
    run = load(target, good, bad, check=False, **options)
    if stored:
        assert run.exit_code == 2, run
        assert "--no-atomic" in run.output
    assert run.exit_code != 0
    assert target.count("t") == stored


def test_a_load_is_not_published_alone(
    postgres_target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that has got rows since the job was planned could only be loaded in a transaction of its own."""
    target = postgres_target
    target.execute("CREATE TABLE b (a integer); CREATE TABLE c (a integer)")
    for name in "bc":
        write(tmp_path / f"{name}.csv", "1\n2\n")
    job = write(
        tmp_path / "job.toml",
        f'publish = "together"\n[defaults]\ninto = "{target.url}"\nheader = "no"\n'
        'sources = "${here}/${table}.csv"\n'
        '[tables.c]\n[tables.b]\nafter = "c"\n',
    )
    load_all = _Run._load_all

    def after_somebody(run: _Run) -> None:
        target.execute("INSERT INTO b VALUES (99)")
        load_all(run)

    monkeypatch.setattr(_Run, "_load_all", after_somebody)
    with pytest.raises(tipple.TippleError, match="were not loaded"):
        tipple.run(job)
    assert (target.count("b"), target.count("c")) == (1, 0)
    monkeypatch.undo()
    with pytest.raises(tipple.TippleError, match="already has rows"):
        tipple.run(job)


@pytest.mark.parametrize("statement", ["DELETE FROM tipple.job", "TRUNCATE tipple.job CASCADE"])
def test_a_ledger_that_is_emptied_keeps_no_rejects(
    postgres_target: PostgresTarget, tmp_path: Path, statement: str
) -> None:
    postgres_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\nx\n")
    options = {"header": "no", "on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad"}
    load_here(postgres_target, path, check=3, **options)
    assert postgres_target.count("tipple.reject") == 1
    postgres_target.execute(statement)
    assert postgres_target.count("tipple.reject") == 0
    load_here(postgres_target, path, check=3, **options)
    assert postgres_target.count("t") == 2
