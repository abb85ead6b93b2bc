"""`tipple jobs URL resume JOB`: an unfinished load is gone on with from somewhere else, as its own command would."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import tipple
from big import BigFile
from command import run_tipple, start_tipple
from faults.oracle import Disturbed, assert_no_sessions, wait_for
from loading import load_here
from targets import PostgresTarget, Target, write
from tipple.errors import UsageError

SCHEMA = "CREATE TABLE t (k integer PRIMARY KEY, v varchar(3), day date);"
ROWS = "k;v;day\n1;a;31.12.2024\n2;NIL;01.02.2024\n3;c;03.04.2023\n"
STORED = [(1, "a", "2024-12-31"), (2, None, "2024-02-01"), (3, "c", "2023-04-03")]
READ = {"delimiter": ";", "null": "NIL", "date_style": "DMY", "header": "yes", "format": "csv"}


class _Stop:
    """Ends a load where all is staged, as Ctrl-C does."""

    def __call__(self, snapshot: Mapping[str, Any]) -> None:
        if snapshot["phase"] == "verify":
            raise KeyboardInterrupt


def _interrupted(*sources: object, into: str, **options: Any) -> str:
    """A load of `t` that is interrupted; its job."""
    with pytest.raises((tipple.Interrupted, KeyboardInterrupt)):
        tipple.load([str(source) for source in sources], into=into, table="t", progress=_Stop(), **options)
    # The server ends sessions when it sees that their client has gone.
    assert wait_for(lambda: not tipple.list_jobs(into)[0].running)
    record = tipple.list_jobs(into)[0]
    assert record.state == "loading"
    return record.job_id


@pytest.mark.parametrize(
    "options",
    [
        {"schema": "t.sql"},
        {"mode": "replace"},
        {"mode": "append", "columns": ["k", "v", "day"], "jobs": 1, "commit_every": 1, "verify": "checksum"},
        {"mode": "upsert", "key": ["k"], "on_conflict": "ignore"},
        {"schema": "t.sql", "partition_by": "hash(k, 3)"},
        {"schema": "t.sql", "structure": "sorted", "key": ["k"]},
        {"on_error": "skip", "max_rejects": "10%", "write_path": "binary", "verify": "checksum"},
    ],
    ids=lambda options: "-".join(options),
)
def test_resumed_elsewhere(
    postgres_target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """Every option of the first command holds: the rows can be read only with all of them."""
    here = tmp_path / "here"
    here.mkdir()
    write(here / "in.csv", ROWS)
    write(here / "t.sql", SCHEMA)
    if "schema" not in options:
        postgres_target.execute(SCHEMA)
    monkeypatch.chdir(here)
    job = _interrupted("in.csv", into=postgres_target.url, **READ, **options)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run = run_tipple("jobs", postgres_target.url, "resume", job[:8], "--json", cwd=elsewhere)
    report = json.loads(run.stdout)
    assert (report["status"], report["job_id"], report["rows"]) == ("loaded", job, 3)
    assert report["slices_resumed"] > 0
    assert postgres_target.rows("SELECT k, v, day::text FROM t ORDER BY k") == STORED
    # It is the same load: its command, and resuming it once more, change nothing.
    assert load_here(postgres_target, "in.csv", **_as_words(READ, options)).summary["status"] == "already loaded"  # type: ignore[index]
    with pytest.raises(UsageError, match=f"the job {job} is published"):
        tipple.resume_job(postgres_target.url, job)
    assert list(elsewhere.iterdir()) == []


def _as_words(*options: Mapping[str, Any]) -> dict[str, Any]:
    merged = {name: value for given in options for name, value in given.items()}
    return {name: ",".join(value) if isinstance(value, list) else value for name, value in merged.items()}


def test_the_file_of_rejects_is_the_first_ones(
    engine_target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by its default name, which is relative to where the load was begun."""
    here = tmp_path / "here"
    here.mkdir()
    engine_target.execute("CREATE TABLE t (k integer)")
    write(here / "1.csv", "0000001\n" * 2_500_000)
    bad = write(here / "2.csv", "x\ny\n")
    monkeypatch.chdir(here)
    options: dict[str, Any] = {"header": "no", "jobs": 1, "atomic": False, "commit_every": 100_000}
    with pytest.raises(tipple.TooManyRejects):
        tipple.load(["1.csv", str(bad)], into=engine_target.url, table="t", on_error="skip", max_rejects=1, **options)
    (record,) = tipple.list_jobs(engine_target.url)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tipple.TooManyRejects):
        tipple.resume_job(engine_target.url, record.job_id)
    assert record.options is not None
    assert record.options["rejects"] == str(here / "t.rejects")
    assert tipple.list_jobs(engine_target.url)[0].job_id == record.job_id


def test_a_killed_load_is_resumed(postgres_target: PostgresTarget, big_file: BigFile) -> None:
    """SIGKILL in the middle; resumed while the command is not at hand, all rows are there once."""
    job = Disturbed(postgres_target, big_file)
    command = job.start()
    while not any(record.slices for record in tipple.list_jobs(postgres_target.url)):
        assert command.running
    command.signal(signal.SIGKILL)
    command.wait()
    assert_no_sessions(postgres_target)
    record = tipple.list_jobs(postgres_target.url)[0]
    assert record.state == "loading"
    run = run_tipple("jobs", "resume", record.job_id[:8], postgres_target.url)
    assert record.job_id in run.stdout
    job.check_rows()
    job.finish()


def _stdin(target: PostgresTarget, tmp_path: Path) -> str:
    with _standard_input(tmp_path / "in.csv"), pytest.raises((tipple.Interrupted, KeyboardInterrupt)):
        tipple.load("-", into=target.url, table="t", progress=_Stop(), **READ)  # type: ignore[arg-type]
    return "the job .* is failed"


@contextlib.contextmanager
def _standard_input(path: Path) -> Iterator[None]:
    saved = os.dup(0)
    with path.open() as file:
        os.dup2(file.fileno(), 0)
    try:
        yield
    finally:
        os.dup2(saved, 0)
        os.close(saved)


def _job_file(target: PostgresTarget, tmp_path: Path) -> str:
    words = "\n".join(f'{name.replace("_", "-")} = "{value}"' for name, value in READ.items())
    job = write(tmp_path / "job.toml", f'[tables.t]\ninto = "{target.url}"\nsources = "${{here}}/in.csv"\n{words}\n')
    with target.server.connect(target.database) as reader, reader.transaction():
        reader.execute("SELECT FROM t")  # publish waits for its end
        command = start_tipple("run", job)
        while not any(record.slices_done for record in tipple.list_jobs(target.url)):
            assert command.running
        command.kill()
    assert_no_sessions(target)
    return "the ledger does not have the command of job"


def _moved(target: PostgresTarget, tmp_path: Path) -> str:
    _interrupted(tmp_path / "in.csv", into=target.url, **READ)
    (tmp_path / "in.csv").rename(tmp_path / "moved.csv")
    return f"a source of job .* is not there: {tmp_path}/in.csv"


def _changed(target: PostgresTarget, tmp_path: Path) -> str:
    _interrupted(tmp_path / "in.csv", into=target.url, **READ)
    write(tmp_path / "in.csv", ROWS + "4;d;01.01.2024\n")
    return "has changed since job"


@pytest.mark.parametrize("cause", [_job_file, _stdin, _moved, _changed])
def test_what_cannot_be_resumed(
    postgres_target: PostgresTarget, tmp_path: Path, cause: Callable[[PostgresTarget, Path], str]
) -> None:
    """It is said why, and the job stays as it was."""
    postgres_target.execute(SCHEMA)
    write(tmp_path / "in.csv", ROWS)
    said = cause(postgres_target, tmp_path)
    (record,) = tipple.list_jobs(postgres_target.url)
    with pytest.raises(tipple.TippleError, match=said) as caught:
        tipple.resume_job(postgres_target.url, record.job_id)
    assert caught.value.hint
    assert tipple.list_jobs(postgres_target.url) == [record]
    assert postgres_target.count("t") == 0


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO t VALUES (100, 'z', '2020-01-01')",
        "CREATE TABLE r (k integer PRIMARY KEY REFERENCES t)",
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM t",
    ],
)
@pytest.mark.parametrize("options", [{"commit_every": 1, "jobs": 1}, {}], ids=["now and then", "at once"])
def test_what_comes_between_does_not_keep_a_job_from_its_end(
    postgres_target: PostgresTarget, tmp_path: Path, change: str, options: dict[str, Any]
) -> None:
    """A load could not be begun like this any more, but one that was begun goes on, as its dry run says."""
    postgres_target.execute(SCHEMA)
    path = write(tmp_path / "in.csv", ROWS)
    job = _interrupted(path, into=postgres_target.url, **READ, **options)
    postgres_target.execute(change)
    assert load_here(postgres_target, path, dry_run=True, **READ, **options).exit_code == 0
    run = load_here(postgres_target, path, **READ, **options)
    assert run.summary is not None
    assert (run.summary["status"], run.summary["job_id"]) == ("loaded", job)
    assert postgres_target.rows("SELECT k, v, day::text FROM t WHERE k < 100 ORDER BY k") == STORED


def test_columns_that_have_changed_are_named(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(SCHEMA)
    path = write(tmp_path / "in.csv", ROWS)
    job = _interrupted(path, into=postgres_target.url, **READ)
    postgres_target.execute("ALTER TABLE t ALTER k TYPE bigint")
    run = load_here(postgres_target, path, check=2, **READ)
    assert f"the columns of public.t have changed since job {job}" in run.output
    assert "--columns" not in run.output
    postgres_target.execute("ALTER TABLE t ALTER k TYPE integer")
    load_here(postgres_target, path, **READ)
    assert postgres_target.count("t") == 3


def test_the_job_of_another_role(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """It is left as it is, and its role goes on with it."""
    postgres_target.execute(SCHEMA)
    path = write(tmp_path / "in.csv", ROWS)
    job = _interrupted(path, into=postgres_target.url, **READ)
    server, database = postgres_target.server, postgres_target.database
    role = f"other_{database}"
    server.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'; GRANT ALL ON SCHEMA tipple, public TO {role}; "
        f"GRANT ALL ON ALL TABLES IN SCHEMA tipple TO {role}; GRANT ALL ON t TO {role}",
        database,
    )
    try:
        theirs = server.url(role, database, password="x")
        run = load_here(theirs, path, check=2, **READ)
        assert f"job {job}, which this command would go on with, belongs to the role loader" in run.output
        anew = load_here(theirs, path, restart=True, check=2, **READ)
        assert f"job {job}, which would be given up, belongs to the role loader" in anew.output
        assert load_here(postgres_target, path, **READ).summary["job_id"] == job  # type: ignore[index]
    finally:
        server.execute(f"DROP OWNED BY {role}; DROP ROLE {role}", database)


@pytest.mark.parametrize(
    "damage",
    ["DELETE FROM tipple.slice", "UPDATE tipple.job SET plan = '{}'", "DELETE FROM tipple.slice WHERE n = 0"],
)
def test_a_ledger_with_holes_is_not_gone_on_with(postgres_target: PostgresTarget, tmp_path: Path, damage: str) -> None:
    """What is not in it would be neither read nor missed: an empty table would be published."""
    postgres_target.execute(f"{SCHEMA} INSERT INTO t VALUES (0, 'old', NULL)")
    path = write(tmp_path / "in.csv", "1,a,2024-12-31\n")
    _interrupted(path, into=postgres_target.url, mode="replace")
    postgres_target.execute(damage)
    for _ in range(2):
        with pytest.raises(UsageError, match="is not complete") as caught:
            tipple.load(path, into=postgres_target.url, table="t", mode="replace")
        assert "--restart" in str(caught.value.hint)
    assert postgres_target.count("t") == 1
    assert tipple.load(path, into=postgres_target.url, table="t", mode="replace", restart=True).rows == 1
    assert postgres_target.rows("SELECT k FROM t") == [(1,)]
