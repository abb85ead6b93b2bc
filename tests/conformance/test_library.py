"""`tipple.load`: the verb of the command line, with the same names, from Python."""

from __future__ import annotations

import ast
import inspect
import io
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest

import tipple
from big import TABLE, BigFile
from command import environment
from targets import DuckdbTarget, Target, write
from tipple.engines.base import LoadResult, LoadTask, Runner
from tipple.engines.duckdb.load import DuckLoad
from tipple.engines.duckdb.session import DuckSession
from tipple.plan.url import parse_target


def test_load(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    report = tipple.load([path], into=engine_target.url, table="t", jobs=2, verify="checksum")
    assert report.rows == 2
    assert report.status == "loaded"
    assert report.verify is not None
    assert report.verify.ok
    assert engine_target.count("t") == 2
    again = tipple.load(str(path), into=engine_target.url, table="t")
    assert again.status == "already loaded"
    assert engine_target.count("t") == 2


def test_names_are_those_of_the_command_line() -> None:
    parameters = inspect.signature(tipple.load).parameters
    for name in (
        "sources", "into", "table", "schema", "format", "delimiter", "quote", "escape", "header", "null",
        "encoding", "columns", "mode", "jobs", "write_path", "atomic", "verify", "resume", "restart",
        "dry_run",
    ):  # fmt: skip
        assert name in parameters, name
    assert tipple.load.__doc__


def test_a_prompt_can_complete_the_names() -> None:
    """Also before anything is imported."""
    script = "import tipple; print(set(tipple.__all__) <= set(dir(tipple)), 'duckdb' in __import__('sys').modules)"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=True)
    assert out.stdout.split() == ["True", "False"]


def test_errors_are_exceptions(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    bad = write(tmp_path / "bad.csv", "1,x\nz,y\n")
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load(bad, into=engine_target.url, table="t")
    error = caught.value
    assert (error.record_number, error.byte_offset, error.column, error.text) == (2, 4, "a", "z")
    assert error.file.endswith("bad.csv")
    with pytest.raises(tipple.UsageError):
        tipple.load(tmp_path / "missing.csv", into=engine_target.url, table="t")
    with pytest.raises(tipple.TippleError):
        tipple.load(bad, into=engine_target.url, table="nope")
    assert engine_target.count("t") == 0


def test_what_type_checkers_see_is_what_there_is() -> None:
    """Types that the verbs return can be named, and nothing that there is not."""
    lines = ast.parse(Path(str(tipple.__file__)).read_text()).body
    seen = {
        alias.name
        for line in lines
        if isinstance(line, ast.If) and ast.unparse(line.test) == "TYPE_CHECKING"
        for imported in line.body
        if isinstance(imported, ast.ImportFrom)
        for alias in imported.names
    }
    assert {*seen, "__version__"} == set(tipple.__all__)
    assert not any(isinstance(line, ast.FunctionDef) and line.name == "__getattr__" for line in lines)
    for name in sorted(seen):
        verb = getattr(tipple, name)
        if not isinstance(verb, type):
            returned = inspect.signature(verb).return_annotation
            own = set(re.findall(r"\w+", returned)) - {"list", "str", "duckdb", "DuckDBPyConnection"}
            assert own <= seen, (name, returned)


SCRIPT = """
import sys, tipple
print("ready", flush=True)
try:
    tipple.load(sys.argv[1], into=sys.argv[2], table="t", jobs=2)
except KeyboardInterrupt:
    print("interrupted")
except tipple.Interrupted:
    print("interrupted")
"""


def test_ctrl_c(engine_target: Target, big_file: BigFile) -> None:
    """Ctrl-C ends the call within seconds, the interpreter lives on, and the load can be resumed."""
    engine_target.execute(TABLE)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(big_file.path), engine_target.url],
        stdout=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.25)
    os.kill(process.pid, signal.SIGINT)
    started = time.monotonic()
    out, _ = process.communicate(timeout=30)
    assert time.monotonic() - started < 5
    if out.strip() == b"interrupted":
        # Ctrl-C behind the publishing COMMIT, while the report is made, comes too late.
        assert engine_target.count("t") in (0, big_file.rows)
    assert tipple.load(big_file.path, into=engine_target.url, table="t").rows == big_file.rows
    assert big_file.held_by(engine_target) == big_file.expected


def test_ctrl_c_is_the_same_error_in_every_phase(engine_target: Target, tmp_path: Path) -> None:
    """DuckDB has a word of its own for it, in the middle of a statement."""
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    for phase in ("prepare", "split", "load", "verify", "publish"):
        for how in (KeyboardInterrupt(), RuntimeError("Query interrupted")):

            def interrupt(
                snapshot: Mapping[str, Any], phase: str = phase, how: KeyboardInterrupt | RuntimeError = how
            ) -> None:
                if snapshot["phase"] == phase:
                    raise how

            with pytest.raises(tipple.Interrupted) as caught:
                tipple.load(path, into=engine_target.url, table="t", progress=interrupt)
            assert "run the same command again" in str(caught.value.hint)
    assert tipple.load(path, into=engine_target.url, table="t").rows == 1
    assert engine_target.count("t") == 1


WITHOUT_GOING_ON: dict[str, dict[str, Any]] = {
    "run the same command again: without a ledger it loads from the beginning": {"ledger": False},
    "run the same command without --restart to go on where the ledger has rows": {"restart": True},
    "delete what is stored, and run the same command again": {"atomic": False, "ledger": False},
}


@pytest.mark.parametrize(("hint", "options"), WITHOUT_GOING_ON.items())
def test_ctrl_c_and_what_next(engine_target: Target, tmp_path: Path, hint: str, options: dict[str, Any]) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")

    def interrupt(snapshot: Mapping[str, Any]) -> None:
        if snapshot["phase"] == "load":
            raise KeyboardInterrupt

    with pytest.raises(tipple.Interrupted) as caught:
        tipple.load(write(tmp_path / "in.csv", "1\n"), into=engine_target.url, table="t", progress=interrupt, **options)
    assert str(caught.value.hint).startswith(hint)


@pytest.mark.parametrize("place", [(DuckLoad, "_commit"), (DuckSession, "close")], ids=["commit", "close"])
def test_ctrl_c_that_comes_too_late(tmp_path: Path, place: tuple[type, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB says of a COMMIT that it was interrupted, and carries it out; what can be read once would come twice."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (a integer)")
    original = getattr(*place)

    def late(self: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        original(self)

    monkeypatch.setattr(*place, late)
    report = tipple.load(pa.table({"a": [1, 2]}), into=target.url, table="t")
    assert (report.status, report.rows, target.count("t")) == ("loaded", 2, 2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_no_commit_is_interrupted(tmp_path: Path) -> None:
    """`tipple run` cancels what its loads wait for; of a COMMIT DuckDB would say so, and carry it out."""

    class Slow:
        """A connection on which Ctrl-C comes during each statement."""

        def __init__(self) -> None:
            self.connection, self.running, self.cancelled = session.connection, "", list[str]()

        def execute(self, statement: str) -> None:
            self.running = statement
            session.interrupt()
            self.connection.execute(statement)

        def interrupt(self) -> None:
            self.cancelled.append(self.running)

    session = DuckSession(parse_target(f"duckdb:///{tmp_path}/x.duckdb"), read_only=False, must_exist=False)
    slow = Slow()
    session.connection = cast(Any, slow)
    for statement in ("CREATE TABLE t (a integer)", "INSERT INTO t VALUES (1)"):
        session.begin()
        slow.execute(statement)
        session.commit()
        slow.execute("FROM t")
    session.connection = slow.connection
    session.close()
    alive = "SELECT 1"
    assert slow.cancelled == ["BEGIN", "CREATE TABLE t (a integer)", alive, "BEGIN", "INSERT INTO t VALUES (1)", alive]


def test_a_handler_of_the_callers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (a integer)")
    commit, got = DuckLoad._commit, []

    def late(self: DuckLoad) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        commit(self)

    monkeypatch.setattr(DuckLoad, "_commit", late)
    before = signal.signal(signal.SIGINT, lambda number, _: got.append(number))
    try:
        assert tipple.load(pa.table({"a": [1]}), into=target.url, table="t").status == "loaded"
    finally:
        signal.signal(signal.SIGINT, before)
    assert got == [signal.SIGINT]


def test_ctrl_c_while_a_job_is_planned(tmp_path: Path) -> None:
    write(tmp_path / "in.csv", "1\n")
    schema = write(tmp_path / "s.sql", "CREATE TABLE t (a integer);")
    job = f"[tables.t]\nsources = '${{here}}/in.csv'\nschema = '{schema}'\ninto = 'duckdb:///{tmp_path}/x.duckdb'\n"

    def interrupt(_snapshot: Mapping[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(tipple.Interrupted):
        tipple.run(write(tmp_path / "job.toml", job), progress=interrupt)


def test_memory_database(tmp_path: Path) -> None:
    """A database in memory ends with the load; it can be tried nevertheless."""
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (a integer);")
    path = write(tmp_path / "in.csv", "1\n")
    report = tipple.load(path, into="duckdb:///:memory:", table="t", schema=str(schema), mode="create")
    assert report.rows == 1


def test_threads(tmp_path: Path) -> None:
    """Two loads into two targets at once from two threads of one interpreter."""
    targets = [DuckdbTarget(tmp_path / f"{i}.duckdb") for i in range(2)]
    path = write(tmp_path / "in.csv", "".join(f"{i}\n" for i in range(100_000)))
    for target in targets:
        target.execute("CREATE TABLE t (a integer)")
    threads = [
        threading.Thread(target=tipple.load, args=(path,), kwargs={"into": target.url, "table": "t"})
        for target in targets
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [target.count("t") for target in targets] == [100_000, 100_000]


def test_threads_into_one_new_database(tmp_path: Path) -> None:
    """The first loads into a DuckDB file all find it without a ledger; those into one table exclude each other."""
    names = [f"t{i}" for i in range(6)] + ["t0"]
    schema = write(tmp_path / "s.sql", "".join(f"CREATE TABLE {name} (a integer);" for name in names[:6]))
    url = f"duckdb:///{tmp_path}/x.duckdb"
    ready = threading.Barrier(len(names))
    failures: list[BaseException] = []

    def load(number: int) -> None:
        path = write(tmp_path / f"{number}.csv", "1\n2\n")
        ready.wait()
        try:
            tipple.load(path, into=url, table=names[number], schema=schema)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=load, args=(number,)) for number in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) <= 1, failures
    for failure in failures:
        assert isinstance(failure, tipple.TippleError)
        assert "run this one again" in str(failure.hint), failure
    counts = {record.table: record.rows for record in tipple.list_jobs(url)}
    assert set(counts) == {f"main.{name}" for name in names}
    assert len(tipple.list_jobs(url)) == len(names) - len(failures)


class Loads:
    """Loads on threads of their own, and what became of each."""

    def __init__(self, *loads: dict[str, Any]) -> None:
        self.errors: list[BaseException] = []
        self.reports: list[tipple.LoadReport] = []
        self.threads = [threading.Thread(target=self._load, kwargs=options) for options in loads]

    def _load(self, **options: Any) -> None:
        try:
            self.reports.append(tipple.load(**options))
        except BaseException as error:
            self.errors.append(error)

    def __enter__(self) -> Loads:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self.threads:
            thread.join()


class Held:
    """A function for progress that holds its load in a phase until another thread says so."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.reached, self.released = threading.Event(), threading.Event()

    def __call__(self, snapshot: Mapping[str, Any]) -> None:
        if snapshot["phase"] == self.phase:
            self.reached.set()
            assert self.released.wait(20)


@pytest.mark.parametrize("spelled", ["x.duckdb", "./x.duckdb", "link.duckdb"])
def test_a_table_of_duckdb_takes_one_load_at_a_time(tmp_path: Path, spelled: str) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (a integer)")
    (tmp_path / "link.duckdb").symlink_to("x.duckdb")
    path = write(tmp_path / "in.csv", "1\n2\n")
    held = Held("split")
    with Loads({"sources": path, "into": target.url, "table": "t", "progress": held}) as first:
        assert held.reached.wait(20)
        with pytest.raises(tipple.JobBusy, match=r"main\.t right now") as caught:
            tipple.load(path, into=f"duckdb:///{tmp_path}/{spelled}", table="T")
        held.released.set()
    assert "run this one again" in str(caught.value.hint)
    assert (first.errors, len(first.reports)) == ([], 1)
    assert tipple.load(path, into=target.url, table="t").status == "already loaded"
    assert target.count("t") == 2


def test_a_table_of_files_keeps_the_rows_of_both(tmp_path: Path) -> None:
    """Which files it has is looked up when nobody else can add some."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    schema = write(tmp_path / "s.sql", "CREATE TABLE t (a integer);")
    paths = [write(tmp_path / f"{number}.csv", f"{number}\n") for number in range(3)]
    options: dict[str, Any] = {"into": target.url, "table": "t", "structure": "parquet"}
    tipple.load(paths[0], schema=schema, **options)
    held = Held("split")
    with Loads({"sources": paths[1], "progress": held, **options}):
        assert held.reached.wait(20)
        with pytest.raises(tipple.JobBusy):
            tipple.load(paths[2], **options)
        held.released.set()
    tipple.load(paths[2], **options)
    assert target.sorted_rows("t") == [(0,), (1,), (2,)]


def test_the_memory_database_takes_one_load_into_a_table_at_a_time(tmp_path: Path) -> None:
    schema = write(tmp_path / "s.sql", "CREATE TABLE busy (a integer);")
    path = write(tmp_path / "in.csv", "1\n")
    held = Held("split")
    options: dict[str, Any] = {"sources": path, "into": "duckdb:///:memory:", "table": "busy", "schema": schema}
    with Loads({**options, "progress": held}):
        assert held.reached.wait(20)
        with pytest.raises(tipple.JobBusy):
            tipple.load(**options)
        held.released.set()
    assert tipple.load(**options).status == "already loaded"


def test_a_table_that_was_made_since_the_load_was_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its load has not asked the ledger for that table, which may know that there is nothing left to do."""
    schema = write(tmp_path / "s.sql", "CREATE TABLE t (a integer);")
    path = write(tmp_path / "in.csv", "1\n")
    target = DuckdbTarget(tmp_path / "x.duckdb")
    options: dict[str, Any] = {"sources": path, "into": target.url, "table": "t", "schema": schema}
    load = DuckSession.load

    def load_late(session: DuckSession, task: LoadTask, runner: Runner) -> LoadResult:
        monkeypatch.setattr(DuckSession, "load", load)
        assert tipple.load(**options).status == "loaded"
        return load(session, task, runner)

    monkeypatch.setattr(DuckSession, "load", load_late)
    with pytest.raises(tipple.JobBusy):
        tipple.load(**options)
    assert tipple.load(**options).status == "already loaded"
    assert target.count("t") == 1


def test_loads_into_one_duckdb_file_take_turns(tmp_path: Path) -> None:
    """An upsert needs the order of its source, which another load gives up for all; both stage beside their tables."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute(
        "CREATE TABLE t (a integer, b integer); CREATE TABLE u (a integer, b integer); CREATE TABLE v (a int)"
    )
    rows = write(tmp_path / "in.csv", "".join(f"{i % 1000},{i}\n" for i in range(200_000)))
    plain = write(tmp_path / "plain.csv", "1\n")
    upsert: dict[str, Any] = {"sources": rows, "into": target.url, "mode": "upsert", "key": ["a"]}
    held = Held("load")
    with Loads({**upsert, "table": "t", "progress": held}) as first:
        assert held.reached.wait(20)
        with Loads({**upsert, "table": "u"}, {"sources": plain, "into": target.url, "table": "v"}) as others:
            time.sleep(0.5)
            assert all(thread.is_alive() for thread in others.threads)
            held.released.set()
    assert first.errors + others.errors == []
    for table in ("t", "u"):
        assert target.rows(f"SELECT count(*), min(b), max(b) FROM {table}") == [(1000, 199_000, 199_999)]
    assert target.count("v") == 1


def test_ctrl_c_while_it_waits_for_its_turn(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (a integer); CREATE TABLE u (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    held = Held("split")

    def press(_snapshot: Mapping[str, Any]) -> None:
        if held.reached.is_set():
            signal.raise_signal(signal.SIGINT)

    with Loads({"sources": path, "into": target.url, "table": "t", "progress": held}) as first:
        assert held.reached.wait(20)
        try:
            with pytest.raises(tipple.Interrupted):
                tipple.load(path, into=target.url, table="u", progress=press)
        finally:
            held.released.set()
    assert first.errors == []
    assert tipple.load(path, into=target.url, table="u").status == "loaded"


def test_tables_that_are_published_together_share_a_turn(tmp_path: Path) -> None:
    """Each of them waits for the others, and a load of somebody else for all of them."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    names = [f"t{i}" for i in range(4)]
    target.execute("".join(f"CREATE TABLE {name} (a integer);" for name in (*names, "other")))
    path = write(tmp_path / "in.csv", "1\n2\n")
    job = write(
        tmp_path / "job.toml",
        f"publish='together'\n[defaults]\nsources='{path}'\ninto='{target.url}'\nmode='upsert'\nkey=['a']\n"
        + "".join(f"[tables.{name}]\n" for name in names),
    )
    other = Loads({"sources": path, "into": target.url, "table": "other", "mode": "upsert", "key": ["a"]})
    begun: list[Loads] = []

    def begin(snapshot: Mapping[str, Any]) -> None:
        if snapshot["phase"] == "run" and not begun:
            begun.append(other.__enter__())

    report = tipple.run(job, progress=begin)
    other.__exit__()
    assert (report.exit_status, other.errors) == (0, [])
    assert [target.count(name) for name in (*names, "other")] == [2] * 5


@pytest.mark.parametrize("good", [True, False])
def test_settings_of_the_callers_connection_stay(tmp_path: Path, good: bool) -> None:
    names = ("preserve_insertion_order", "write_buffer_row_group_count", "memory_limit", "threads")
    asked = "SELECT " + ", ".join(f"current_setting('{name}')" for name in names)
    path = write(tmp_path / "in.csv", "1\n" if good else "x\n")
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("CREATE TABLE t (a integer)")
        for limit in ("RESET memory_limit", "SET memory_limit = '777MiB'"):
            connection.execute(limit)
            before = connection.execute(asked).fetchall()
            try:
                tipple.load(
                    path, into=f"duckdb:///{tmp_path}/x.duckdb", table="t", jobs=1, memory_limit="300MB", restart=True
                )
                assert good
            except tipple.BadRecord:
                assert not good
            assert connection.execute(asked).fetchall() == before


def test_a_plan_beside_the_callers_connection(tmp_path: Path) -> None:
    """Whatever kind of connection a notebook has open."""
    path = write(tmp_path / "in.csv", "a,b\n1,x\n")
    into, file = f"duckdb:///{tmp_path}/x.duckdb", str(tmp_path / "x.duckdb")
    options: dict[str, Any] = {"into": into, "table": "t", "schema": "auto"}
    with duckdb.connect(file) as connection:
        assert tipple.load(path, dry_run=True, **options).status == "planned"
        assert connection.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (0,)
        assert tipple.load(path, **options).status == "loaded"
        assert connection.execute("FROM t").fetchall() == [(1, "x")]
        assert tipple.load(path, dry_run=True, **options).status == "planned"
    with duckdb.connect(file, read_only=True):
        assert tipple.load(path, dry_run=True, **options).status == "planned"


@pytest.mark.parametrize("options", [{"read_only": True}, {"config": {"threads": 1}}])
def test_a_load_beside_another_kind_of_connection(tmp_path: Path, options: dict[str, Any]) -> None:
    duckdb.connect(tmp_path / "x.duckdb").close()
    path = write(tmp_path / "in.csv", "a,b\n1,x\n")
    with (
        duckdb.connect(str(tmp_path / "x.duckdb"), **options),
        pytest.raises(tipple.ConnectionFailed, match="this process has a connection") as failed,
    ):
        tipple.load(path, into=f"duckdb:///{tmp_path}/x.duckdb", table="t", schema="auto")
    assert "close that connection" in str(failed.value.hint)


def test_a_load_into_an_attached_file(tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "a,b\n1,x\n")
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{tmp_path}/x.duckdb'")
        with pytest.raises(tipple.ConnectionFailed, match="has attached it") as failed:
            tipple.load(path, into=f"duckdb:///{tmp_path}/x.duckdb", table="t", schema="auto")
    assert "DETACH" in str(failed.value.hint)


def test_a_load_beside_an_open_transaction(tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "1\n")
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 7 AS a")
        connection.execute("BEGIN")
        connection.execute("DELETE FROM t")
        with pytest.raises(tipple.TippleError) as failed:
            tipple.load(path, into=f"duckdb:///{tmp_path}/x.duckdb", table="t", mode="replace")
        assert "commit what it has begun" in str(failed.value.hint)
        connection.execute("ROLLBACK")
        assert connection.execute("FROM t").fetchall() == [(7,)]


TWO_INPUTS = """
import os, sys, tipple
into, *names = sys.argv[1:]
for name in names:
    os.dup2(os.open(name, os.O_RDONLY), 0)
    for dry_run in (True, True, False):
        report = tipple.load("-", into=into, table="t", format="csv", header="no", dry_run=dry_run)
    print(report.rows)
"""


def test_another_standard_input(engine_target: Target, tmp_path: Path) -> None:
    """What a plan has looked at of one is not the beginning of the next."""
    engine_target.execute("CREATE TABLE t (a text)")
    names = [str(write(tmp_path / f"{day}.csv", f"{day}\n" * n)) for n, day in enumerate(["monday", "tuesday"], 1)]
    command = [sys.executable, "-c", TWO_INPUTS, engine_target.url, *names]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert (done.returncode, done.stdout) == (0, "1\n2\n"), done.stderr
    assert engine_target.sorted_rows("t") == [("monday",), ("tuesday",), ("tuesday",)]


@pytest.mark.parametrize("progress", ["auto", "bar", "plain", "json"])
def test_a_process_without_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, progress: Any) -> None:
    """As of a service without a console: nothing is shown."""
    path = write(tmp_path / "in.csv", "1,x\n")
    monkeypatch.setattr(sys, "stderr", None)
    report = tipple.load(path, into=f"duckdb:///{tmp_path}/x.duckdb", table="t", schema="auto", progress=progress)
    assert report.rows == 1


class OnlyWrites:
    """What Python asks of an object in the place of stderr, and no more."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


@pytest.mark.parametrize("progress", ["auto", "bar", "plain", "json"])
def test_another_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, progress: Any) -> None:
    path = write(tmp_path / "in.csv", "1,x\n")
    closed, own = io.StringIO(), OnlyWrites()
    closed.close()
    for table, stream in (("t", closed), ("u", own)):
        monkeypatch.setattr(sys, "stderr", stream)
        into = f"duckdb:///{tmp_path}/x.duckdb"
        assert tipple.load(path, into=into, table=table, schema="auto", progress=progress).rows == 1
    assert ("elapsed_seconds" in own.text) is (progress == "json")
