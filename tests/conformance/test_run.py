"""`tipple run`: the tables of a job file, each or all in one commit, on every engine."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tipple
from big import TABLE, BigFile
from columnar_files import write_parquet
from command import Run, run_tipple, start_tipple
from loading import load
from targets import DuckdbTarget, PostgresTarget, Target, write
from tipple.engines.base import NOTHING_TO_DO
from tipple.run import job as run_of_jobs

JOB = """
[variables]
publish = "each"
[defaults]
into = "${into}"
sources = "${here}/${table}.csv"
header = "no"
[tables.parent]
[tables.child]
after = ["parent"]
[tables.other]
"""
TABLES = ("parent", "child", "other")
PUBLISH = pytest.mark.parametrize("publish", ["each", "together"])


def prepare(target: Target, tmp_path: Path, *, publish: str = "each", job: str = JOB) -> Path:
    """Three empty tables, a file for each, and the job."""
    for number, name in enumerate(TABLES):
        target.execute(f"CREATE TABLE {name} (a integer, b varchar)")
        write(tmp_path / f"{name}.csv", "".join(f"{i},{name}\n" for i in range(10 * (number + 1))))
    return write(tmp_path / "job.toml", f'publish = "{publish}"\n{job}')


def run(target: Target, job: Path, *words: object, check: bool | int = True, **options: Any) -> Run:
    return run_tipple("run", job, "--set", f"into={target.url}", "--progress", "none", *words, check=check, **options)


def statuses(done: Run) -> dict[str, str]:
    assert done.summary is not None, str(done)
    return {table["name"]: table["status"] for table in done.summary["tables"]}


def counts(target: Target) -> list[int]:
    return [target.count(name) for name in TABLES]


@PUBLISH
def test_tables_and_once_more(engine_target: Target, tmp_path: Path, publish: str) -> None:
    job = prepare(engine_target, tmp_path, publish=publish)
    done = run(engine_target, job)
    assert set(statuses(done).values()) == {"loaded"}
    assert counts(engine_target) == [10, 20, 30]
    assert done.summary is not None
    assert (done.summary["rows"], done.summary["exit_status"], done.summary["publish"]) == (60, 0, publish)
    assert [table["report"]["rows"] for table in done.summary["tables"]] == [10, 20, 30]
    assert "parent" in done.stdout
    if isinstance(engine_target, PostgresTarget):
        transactions = engine_target.value(
            "SELECT count(DISTINCT xmin::text) FROM tipple.job WHERE state = 'published'"
        )
        assert transactions == (1 if publish == "together" else 3)
    again = run(engine_target, job)
    assert set(statuses(again).values()) == {"already loaded"}
    assert counts(engine_target) == [10, 20, 30]
    assert engine_target.leftovers(*TABLES) == set()


@pytest.mark.parametrize("modes", [("replace", "append"), ("append", "replace"), ("replace", "upsert")])
def test_a_table_in_two_parts_and_once_more(engine_target: Target, tmp_path: Path, modes: tuple[str, str]) -> None:
    """What the second part did to the first is no change; what anybody else does is one."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    for name in "xyz":
        write(tmp_path / f"{name}.csv", f"1,{name}\n2,{name}\n")
    keys = ["key = ['a', 'b']\n" if mode == "upsert" else "" for mode in modes]
    job = write(
        tmp_path / "job.toml",
        f"[defaults]\ninto = '${{into}}'\ntable = 't'\nheader = 'no'\nsources = '${{here}}/${{table}}.csv'\n"
        f"[tables.x]\nmode = '{modes[0]}'\n{keys[0]}[tables.y]\nmode = '{modes[1]}'\nafter = 'x'\n{keys[1]}",
    )
    held = [(1, "y"), (2, "y")] if modes[1] == "replace" else [(1, "x"), (1, "y"), (2, "x"), (2, "y")]
    assert statuses(run(engine_target, job)) == {"x": "loaded", "y": "loaded"}
    planned = run(engine_target, job, "--dry-run").summary
    assert planned is not None
    assert {table["report"]["strategy"] for table in planned["tables"]} == {NOTHING_TO_DO}
    for _ in range(2):
        assert statuses(run(engine_target, job)) == {"x": "already loaded", "y": "already loaded"}
        assert engine_target.sorted_rows("t") == held
    load(engine_target, tmp_path / "z.csv", header="no")
    assert statuses(run(engine_target, job))["y"] == "loaded"
    assert engine_target.sorted_rows("t") == held
    write(tmp_path / "y.csv", "3,y\n")
    assert statuses(run(engine_target, job))["y"] == "loaded"
    assert engine_target.count("t") == {"append": 3, "replace": 1, "upsert": 3}[modes[1]]


def test_new_tables(engine_target: Target, tmp_path: Path) -> None:
    """All eight tables of TPC-H, which are created in the transaction that fills them."""
    run_tipple("generate", "tpch", "--scale", "0.002", "--out", tmp_path)
    job = write(
        tmp_path / "job.toml",
        "publish = 'together'\n[defaults]\ninto='${into}'\nsources='${here}/${table}.tbl'\nschema='tpch'\n"
        "verify='checksum'\n"
        + "".join(f"[tables.{name}]\n" for name in ("region", "nation", "supplier", "customer", "part"))
        + "[tables.orders]\nafter='customer'\n[tables.lineitem]\nafter=['orders','part']\n[tables.partsupp]\n",
    )
    done = run(engine_target, job)
    assert set(statuses(done).values()) == {"loaded"}
    assert done.summary is not None
    for table in done.summary["tables"]:
        assert table["report"]["verify"]["kind"] == "checksum"
        assert engine_target.count(table["name"]) == table["report"]["rows"] > 0


def test_a_table_fails(engine_target: Target, tmp_path: Path) -> None:
    """What comes after it is not started, all else is loaded; the next run loads what is missing."""
    job = prepare(engine_target, tmp_path)
    write(tmp_path / "parent.csv", "1,x\nz,y\n")
    failed = run(engine_target, job, check=1)
    assert statuses(failed) == {"parent": "failed", "child": "not started", "other": "loaded"}
    assert "invalid input syntax" in failed.stderr
    assert "2 of 3 tables" in failed.stderr
    assert counts(engine_target) == [0, 0, 30]
    write(tmp_path / "parent.csv", "1,x\n2,y\n")
    assert statuses(run(engine_target, job)) == {"parent": "loaded", "child": "loaded", "other": "already loaded"}
    assert counts(engine_target) == [2, 20, 30]


def test_together_none_or_all(engine_target: Target, tmp_path: Path) -> None:
    """A table fails: nothing of the others is visible, and the next run publishes all."""
    job = prepare(engine_target, tmp_path, publish="together")
    write(tmp_path / "child.csv", "1,x\nz,y\n")
    failed = run(engine_target, job, check=1)
    assert statuses(failed)["child"] == "failed"
    assert set(statuses(failed).values()) <= {"failed", "not published", "not started"}
    assert counts(engine_target) == [0, 0, 0]
    write(tmp_path / "child.csv", "1,x\n2,y\n")
    assert set(statuses(run(engine_target, job)).values()) == {"loaded"}
    assert counts(engine_target) == [10, 2, 30]
    assert engine_target.leftovers(*TABLES) == set()


def test_rejects_and_exit_status(engine_target: Target, tmp_path: Path) -> None:
    job = prepare(engine_target, tmp_path, job=JOB + 'on-error = "skip"\nmax-rejects = 1\nrejects = "${here}/bad"\n')
    write(tmp_path / "other.csv", "1,x\nz,y\n")
    done = run(engine_target, job, check=3)
    assert done.summary is not None
    assert [table["exit_status"] for table in done.summary["tables"]] == [0, 0, 3]
    assert counts(engine_target) == [10, 20, 1]
    assert (tmp_path / "bad").read_text() == "z,y\n"


def test_dry_run(engine_target: Target, tmp_path: Path) -> None:
    job = prepare(engine_target, tmp_path)
    before = engine_target.tables()
    done = run(engine_target, job, "--dry-run")
    assert set(statuses(done).values()) == {"planned"}
    assert all(name in done.stdout for name in TABLES)
    assert engine_target.tables() == before
    assert json.loads(run(engine_target, job, "--dry-run", "--json").stdout)["tables"][2]["report"]["slices"] == 1


def test_a_job_that_is_refused_says_why_as_json(tmp_path: Path) -> None:
    """And so does one whose tables cannot be planned; stdout would be empty for whoever reads it."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    broken = write(tmp_path / "broken.toml", "[tables.t]\nmood = 1\n")
    done = run(target, broken, "--json", check=2)
    failure = json.loads(done.stdout)
    assert (failure["status"], failure["exit_status"], failure["kind"]) == ("refused", 2, "UsageError")
    assert failure["error"] in done.stderr
    missing = json.loads(run(target, tmp_path / "none.toml", "--json", check=2).stdout)
    assert "none.toml" in missing["error"]


@pytest.mark.parametrize("sequence", ["numbers", "main.numbers"])
def test_plans_know_what_the_database_has(tmp_path: Path, sequence: str) -> None:
    """A plan opens a DuckDB file for reading; its types and sequences are known all the same."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    target.execute("CREATE TYPE mood AS ENUM ('calm', 'glad'); CREATE SEQUENCE numbers; CREATE SCHEMA other")
    target.execute("CREATE TYPE other.size AS ENUM ('small'); CREATE MACRO twice(x) AS 2 * x")
    schema = write(
        tmp_path / "s.sql",
        f"CREATE TABLE m (x mood, s other.size, n integer DEFAULT nextval('{sequence}') NOT NULL,"
        " d integer DEFAULT twice(2), g integer GENERATED ALWAYS AS (d + 1), PRIMARY KEY (n));",
    )
    path = write(tmp_path / "in.csv", "glad,small\ncalm,small\n")
    options: dict[str, Any] = {"table": "m", "schema": schema, "columns": ["x", "s"]}
    assert tipple.load(path, into=target.url, **options, dry_run=True).status == "planned"
    job = write(
        tmp_path / "job.toml",
        f"[tables.m]\nsources='{path}'\ninto='{target.url}'\nschema='{schema}'\ncolumns=['x','s']\n",
    )
    assert tipple.run(job).tables[0].status == "loaded"
    assert target.sorted_rows("m") == [("calm", "small", 2, 4, 5), ("glad", "small", 1, 4, 5)]
    for wrong in ("CREATE TABLE w (x nothing);", "CREATE TABLE w (x mood, n integer DEFAULT nextval('nothing'));"):
        write(schema, wrong)
        with pytest.raises(tipple.UsageError, match="nothing"):
            tipple.load(path, into=target.url, table="w", schema=schema, dry_run=True)
    assert target.leftovers("m") == set()


@pytest.mark.parametrize(
    ("addition", "said", "place"),
    [
        ('sources = "${here}/none.csv"\n', "no such file", "line 12: other: "),
        ('mode = "upsert"\n', "needs --key", "line 13: tables.other.mode: "),
        ('table = "nowhere"\n', "no table nowhere", "line 12: other: "),
        ('columns = ["a", "z"]\n', "z", "line 13: tables.other.columns: "),
        ('into = "postgresql://localhost:1/x"\n', "cannot connect", "line 12: other: "),
        ('format = "cvs"\n', "cvs", "line 13: tables.other.format: "),
        ("ledger = false\ncommit-every = 5\n", "the ledger", "line 14: tables.other.commit-every: "),
    ],
)
def test_nothing_is_started_where_a_table_cannot_be_loaded(
    tmp_path: Path, addition: str, said: str, place: str
) -> None:
    """Mistakes of the last table are found before the first one is loaded, with the line where it, or the option that
    is told, stands."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    job = prepare(target, tmp_path, job=JOB + addition)
    failed = run(target, job, check=2)
    assert said in failed.stderr
    assert f"job.toml, {place}" in failed.stderr
    assert counts(target) == [0, 0, 0]


def test_rejects_that_cannot_be_written_keep_all_tables_from_being_begun(engine_target: Target, tmp_path: Path) -> None:
    more = 'on-error = "skip"\nmax-rejects = 1\nrejects = "${here}/missing/other"\n'
    path = prepare(engine_target, tmp_path, job=JOB + more)
    line = path.read_text().splitlines().index('rejects = "${here}/missing/other"') + 1
    for words in ((), ("--dry-run",)):
        done = run(engine_target, path, *words, check=2)
        assert f"job.toml, line {line}: tables.other.rejects: --rejects" in done.stderr
        assert "missing/other cannot be written" in done.stderr
    assert counts(engine_target) == [0, 0, 0]
    (tmp_path / "missing").mkdir()
    run(engine_target, path, "--dry-run")
    assert not list((tmp_path / "missing").iterdir())


def test_together_is_refused(engine_target: Target, tmp_path: Path) -> None:
    job = prepare(engine_target, tmp_path, publish="together", job=JOB + "atomic = false\n")
    failed = run(engine_target, job, check=2)
    assert 'strategy "incremental"' in failed.stderr
    assert 'publish = "each"' in failed.stderr
    assert counts(engine_target) == [0, 0, 0]


def test_together_is_refused_where_one_session_must_store(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    job = prepare(postgres_target, tmp_path, publish="together")
    postgres_target.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM other")
    failed = run(postgres_target, job, check=2)
    assert "other: it cannot be published together" in failed.stderr
    assert "depend" in failed.stderr
    assert counts(postgres_target) == [0, 0, 0]


def test_upsert_and_replace(engine_target: Target, tmp_path: Path) -> None:
    job = prepare(
        engine_target,
        tmp_path,
        publish="together",
        job=JOB.replace("[tables.child]\n", "mode='upsert'\nkey=['a']\n[tables.child]\nmode='upsert'\nkey=['a']\n")
        + "mode='replace'\n",
    )
    for name in TABLES:
        engine_target.execute(f"INSERT INTO {name} VALUES (1, 'old'), (1000, 'old')")
    done = run(engine_target, job)
    assert set(statuses(done).values()) == {"loaded"}
    assert counts(engine_target) == [11, 21, 30]
    assert engine_target.value("SELECT b FROM parent WHERE a = 1") == "parent"
    assert engine_target.leftovers(*TABLES) == set()


def big_job(target: Target, tmp_path: Path, big_file: BigFile, publish: str) -> Path:
    for name in ("t", "u"):
        target.execute(TABLE.replace("TABLE t", f"TABLE {name}"))
    write(tmp_path / "small.csv", "1\n2\n")
    target.execute("CREATE TABLE small (a integer)")
    return write(
        tmp_path / "job.toml",
        f"publish='{publish}'\n[defaults]\ninto='${{into}}'\n[tables.t]\nsources='{big_file.path}'\n"
        f"[tables.u]\nsources='{big_file.path}'\n[tables.small]\nsources='${{here}}/small.csv'\n",
    )


@pytest.mark.parametrize(
    ("publish", "how"), [("each", signal.SIGINT), ("together", signal.SIGINT), ("together", signal.SIGKILL)]
)
def test_interrupted(
    engine_target: Target, tmp_path: Path, big_file: BigFile, publish: str, how: signal.Signals
) -> None:
    """Ctrl-C or a kill in the middle: whole tables or none are there; the next run loads what is missing."""
    job = big_job(engine_target, tmp_path, big_file, publish)
    command = start_tipple("run", job, "--set", f"into={engine_target.url}", "--progress", "json")
    while command.running and '"phase":"run"' not in command.stderr_so_far():
        time.sleep(0.01)
    time.sleep(0.15)
    command.signal(how)
    began = time.monotonic()
    ended = command.wait()
    assert time.monotonic() - began < 10
    if how == signal.SIGINT:
        assert ended.exit_code == 130, str(ended)
        assert "run the same command again" in ended.stderr
        assert set(statuses(ended)) == {"t", "u", "small"}
        assert ended.summary is not None
        assert ended.summary["exit_status"] == 130
    sizes = {name: engine_target.count(name) for name in ("t", "u", "small")}
    assert sizes["t"] in (0, big_file.rows)
    assert sizes["u"] in (0, big_file.rows)
    if publish == "together":
        assert set(sizes.values()) == {0}
    done = run(engine_target, job)
    assert set(statuses(done).values()) <= {"loaded", "already loaded"}
    assert [engine_target.count(name) for name in ("t", "u", "small")] == [big_file.rows, big_file.rows, 2]
    assert engine_target.leftovers("t", "u", "small") == set()


def test_streams_by_what_the_bytes_stand_for(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A table of a job has as many as its file would get alone: where text is one row, compressed bytes are several."""
    rng = random.Random(1)
    values = [base64.b64encode(rng.randbytes(66)).decode() for _ in range(20_000)]
    write_parquet(tmp_path / "columnar.parquet", pa.table({"v": values}), compression="NONE", use_dictionary=False)
    text = "".join(f"{value}\n" for value in values)
    write(tmp_path / "packed.csv.gz", gzip.compress(text.encode(), 1))
    write(tmp_path / "plain.csv", text)
    entries = ""
    for name, file in (("columnar", "columnar.parquet"), ("packed", "packed.csv.gz"), ("plain", "plain.csv")):
        postgres_target.execute(f"CREATE TABLE {name} (v text)")
        entries += f"[tables.{name}]\nsources = '${{here}}/{file}'\n"
    job = write(tmp_path / "job.toml", f"[defaults]\ninto = '${{into}}'\n{entries}")
    report = tipple.run(job, settings={"into": postgres_target.url}, jobs=2)
    streams = {table.name: table.report.streams for table in report.tables if table.report is not None}
    assert streams == {"columnar": 2, "packed": 2, "plain": 1}
    assert [postgres_target.count(name) for name in streams] == [len(values)] * 3


def test_side_by_side(postgres_target: PostgresTarget, tmp_path: Path, big_file: BigFile) -> None:
    """The budget of streams is kept, and tables that need less than all of it are loaded at the same time."""
    job = big_job(postgres_target, tmp_path, big_file, "each")
    names = "".join(f"[tables.small{i}]\nsources='${{here}}/small.csv'\ntable='small{i}'\n" for i in range(6))
    job.write_text(job.read_text() + names)
    for i in range(6):
        postgres_target.execute(f"CREATE TABLE small{i} (a integer)")
    snapshots: list[dict[str, Any]] = []
    report = tipple.run(
        job, settings={"into": postgres_target.url}, jobs=3, progress=lambda s: snapshots.append(dict(s))
    )
    assert {table.status for table in report.tables} == {"loaded"}
    assert report.streams == 3
    assert all(table.report is not None and table.report.streams <= 3 for table in report.tables)
    loading = [[t["table"] for t in s["tables"] if t["phase"] not in ("publish",)] for s in snapshots]
    assert max(map(len, loading)) <= 3
    assert snapshots[-1]["tables_total"] == 9


MEETING = """
CREATE SEQUENCE t_came; CREATE SEQUENCE u_came;
CREATE FUNCTION meet(one text, other text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE came boolean;
BEGIN
    -- What is drawn from a sequence is seen by everybody at once.
    PERFORM nextval(one);
    FOR turn IN 1 .. 2000 LOOP
        EXECUTE 'SELECT is_called FROM ' || other INTO came;
        EXIT WHEN came;
        PERFORM pg_sleep(0.01);
    END LOOP;
    RETURN came;
END $$;
CREATE TABLE t (a integer CHECK (meet('t_came', 'u_came')));
CREATE TABLE u (a integer CHECK (meet('u_came', 't_came')));
"""


@PUBLISH
def test_tables_that_wait_for_each_other(postgres_target: PostgresTarget, tmp_path: Path, publish: str) -> None:
    """Each takes its row only when the other one is given its own: both are being loaded at the same time."""
    postgres_target.execute(MEETING)
    write(tmp_path / "a.csv", "1\n")
    job = write(
        tmp_path / "job.toml",
        f"publish = '{publish}'\njobs = 2\n[defaults]\ninto = '${{into}}'\nsources = '${{here}}/a.csv'\nheader = 'no'\n"
        "[tables.t]\n[tables.u]\n",
    )
    assert set(statuses(run(postgres_target, job)).values()) == {"loaded"}
    assert (postgres_target.count("t"), postgres_target.count("u")) == (1, 1)


@PUBLISH
def test_progress_never_goes_back(engine_target: Target, tmp_path: Path, big_file: BigFile, publish: str) -> None:
    """Bytes and rows are those of the files: other phases count their own work, and are none of them."""
    job = big_job(engine_target, tmp_path, big_file, publish)
    for name in ("t", "u"):
        engine_target.execute(f"CREATE INDEX {name}_amount ON {name} (amount)")
    snapshots: list[dict[str, Any]] = []
    tipple.run(job, settings={"into": engine_target.url}, progress=lambda s: snapshots.append(dict(s)))
    for figure in ("bytes_done", "rows", "tables_done"):
        shown = [snapshot[figure] for snapshot in snapshots if snapshot["phase"] == "run"]
        assert shown == sorted(shown), figure
    last = snapshots[-1]
    assert (last["tables_done"], last["bytes_done"]) == (3, last["bytes_total"])
    assert last["rows"] == 2 * big_file.rows + 2


def test_a_display_that_fails_ends_the_job(tmp_path: Path) -> None:
    """An error of the caller's own function stops the loads, and is what the caller gets."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    job = prepare(target, tmp_path)

    def fail(snapshot: Any) -> None:
        if snapshot["phase"] == "run":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tipple.run(job, settings={"into": target.url}, progress=fail)
    assert all(count in (0, 10 * (number + 1)) for number, count in enumerate(counts(target)))


def test_library(engine_target: Target, tmp_path: Path) -> None:
    job = prepare(engine_target, tmp_path)
    write(tmp_path / "parent.csv", "z,y\n")
    with pytest.raises(tipple.JobFailed) as caught:
        tipple.run(job, settings={"into": engine_target.url})
    assert [table.status for table in caught.value.report.tables] == ["failed", "not started", "loaded"]
    assert isinstance(caught.value.errors[0], tipple.BadRecord)
    with pytest.raises(tipple.UsageError, match="into has no value"):
        tipple.run(job)


@PUBLISH
def test_an_interrupted_run_has_a_report(tmp_path: Path, publish: str) -> None:
    target = DuckdbTarget(tmp_path / "target.duckdb")
    job = prepare(target, tmp_path, publish=publish)

    pressed = []

    def interrupt(snapshot: Any) -> None:
        if snapshot["phase"] == "run" and not pressed:
            pressed.append(True)
            raise KeyboardInterrupt

    with pytest.raises(tipple.Interrupted) as caught:
        tipple.run(job, settings={"into": target.url}, progress=interrupt)
    report = caught.value.report
    assert report.exit_status == 130
    assert {table.status for table in report.tables} <= {"loaded", "interrupted", "not started", "not published"}
    assert "not started" in {table.status for table in report.tables}


@PUBLISH
def test_a_signal_that_comes_when_all_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, publish: str) -> None:
    """It is too late, and the job is no failed one; nor when it had nothing left to do."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    job = prepare(target, tmp_path, publish=publish)
    close = run_of_jobs._Run._close

    def stopped(self: run_of_jobs._Run) -> None:
        self.stop.set()
        close(self)

    monkeypatch.setattr(run_of_jobs._Run, "_close", stopped)
    for status in ("loaded", "already loaded"):
        report = tipple.run(job, settings={"into": target.url})
        assert report.exit_status == 0
        assert {table.status for table in report.tables} == {status}


def test_an_interrupt_while_it_plans(tmp_path: Path) -> None:
    """It is no mistake in the file."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    job = prepare(target, tmp_path)

    def interrupt(snapshot: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(tipple.Interrupted) as caught:
        tipple.run(job, settings={"into": target.url}, progress=interrupt)
    assert caught.value.exit_status == 130


def test_one_table_by_two_names(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Only the target knows that they are the same."""
    job = prepare(postgres_target, tmp_path, job=JOB + 'table = "public.parent"\n')
    failed = run(postgres_target, job, check=2)
    assert "other and parent" in failed.stderr
    assert "go into the same table at once" in failed.stderr
    assert counts(postgres_target) == [0, 0, 0]


@pytest.mark.parametrize("after", ["", "after = 'x'\n"])
def test_one_file_by_two_names(tmp_path: Path, after: str) -> None:
    """A table of a DuckDB file that has several paths is one table."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (a integer)")
    (tmp_path / "link").symlink_to(tmp_path)
    write(tmp_path / "x.csv", "1\n")
    write(tmp_path / "y.csv", "2\n")
    job = write(
        tmp_path / "job.toml",
        "[defaults]\ntable = 't'\nheader = 'no'\nsources = '${here}/${table}.csv'\n"
        f"[tables.x]\nmode = 'replace'\ninto = '{target.url}'\n"
        f"[tables.y]\n{after}into = 'duckdb:///{tmp_path}/link/x.duckdb'\n",
    )
    if not after:
        failed = run_tipple("run", job, "--progress", "none", check=2)
        assert "go into the same table at once" in failed.stderr
        return
    for status in ("loaded", "already loaded"):
        assert set(statuses(run_tipple("run", job, "--progress", "none")).values()) == {status}
        assert target.sorted_rows("t") == [(1,), (2,)]


def test_a_password_in_a_setting_is_not_in_the_process_list(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    job = prepare(postgres_target, tmp_path)
    fifo = tmp_path / "include.toml"
    os.mkfifo(fifo)
    job.write_text("include = 'include.toml'\n" + job.read_text())
    command = start_tipple("run", job, "--set", "into=postgresql://me:geheim@localhost:1/x")
    until = time.monotonic() + 20
    words = b""
    # The second where the system does not let a process write over its arguments.
    hidden = re.compile(rb"into=(postgresql://me:\*\*\*@localhost:1/x|\$TIPPLE_URL)")
    while not hidden.search(words) and time.monotonic() < until:
        time.sleep(0.01)
        words = Path(f"/proc/{command.pid}/cmdline").read_bytes()
    fifo.write_text("")
    ended = command.wait()
    assert b"geheim" not in words
    assert hidden.search(words)
    assert ended.exit_code == 2
    assert "geheim" not in ended.output


def test_partitions_are_not_replaced_under_rows_that_came_with_them(
    postgres_target: PostgresTarget, tmp_path: Path
) -> None:
    """They are another entry's, which the ledger has as loaded: running the job again would take them away."""
    postgres_target.execute(
        "CREATE TABLE t (a integer, b varchar) PARTITION BY RANGE (a); "
        "CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10); "
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (10) TO (20); INSERT INTO t VALUES (9, 'old')"
    )
    write(tmp_path / "first.csv", "1,x\n2,x\n")
    write(tmp_path / "more.csv", "3,y\n")
    job = write(
        tmp_path / "job.toml",
        '[defaults]\ninto = "${into}"\ntable = "t"\nheader = "no"\nsources = "${here}/${table}.csv"\n'
        '[tables.first]\nsources = "${here}/first.csv"\nmode = "replace"\nreplace-scope = "partitions"\n'
        '[tables.more]\nsources = "${here}/more.csv"\nafter = ["first"]\n',
    )
    run(postgres_target, job)
    rows = [(1, "x"), (2, "x"), (3, "y")]
    assert postgres_target.sorted_rows("t") == rows
    assert set(statuses(run(postgres_target, job)).values()) == {"already loaded"}
    load(postgres_target, write(tmp_path / "other.csv", "11,z\n"), header="no")
    refused = run(postgres_target, job, check=2)
    assert "would take those rows away" in refused.stderr
    assert sorted(postgres_target.rows("SELECT * FROM t")) == [*rows, (11, "z")]
    # A job of one such entry replaces them again, as it did.
    alone = write(tmp_path / "alone.toml", job.read_text().partition("[tables.more]")[0])
    run(postgres_target, alone)
    assert sorted(postgres_target.rows("SELECT * FROM t")) == [(1, "x"), (2, "x"), (11, "z")]
