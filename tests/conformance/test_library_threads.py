"""What of a library call comes into other threads and processes: the database in memory, forks, errors as bytes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tipple
from command import environment
from targets import Target, write
from tipple import errors


def run_script(script: str, *arguments: object) -> list[str]:
    """The words that a script prints, in a process of its own: it forks, or must be the first to do something."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


AT_ONCE = """
import sys, threading, tipple
import tipple.run.load, tipple.engines.duckdb.connection
path, schema = sys.argv[1:]
ready = threading.Barrier(8)

def load(number):
    ready.wait()
    options = {"into": "duckdb:///:memory:", "table": f"m{number}", "schema": schema, "header": "no"}
    while True:
        try:
            tipple.load(path, **options)
            return
        except tipple.TippleError as error:
            # The schemas of the ledger may have been made by another one just now.
            if "run this one again" not in str(error.hint):
                raise

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=load, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*sorted(name for (name,) in tipple.memory_connection().execute(
    "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'"
).fetchall()))
"""


def test_first_loads_into_the_database_in_memory(tmp_path: Path) -> None:
    """From several threads at once: all of them find the same one."""
    path = write(tmp_path / "in.csv", "1\n")
    schema = write(tmp_path / "s.sql", "".join(f"CREATE TABLE m{number} (a integer);" for number in range(8)))
    assert run_script(AT_ONCE, path, schema) == [f"m{number}" for number in range(8)]


FORKED = """
import os, sys, threading, tipple
path, directory, ending = sys.argv[1:]
options = {"schema": "auto", "header": "no"}
tipple.load(path, into="duckdb:///:memory:", table="t", **options)
begun, released = threading.Event(), threading.Event()

def hold(snapshot):
    if snapshot["phase"] == "split":
        begun.set()
        released.wait(30)

def load(url):
    tipple.load(path, into=url, table="u", progress=hold, **options)

threads = [threading.Thread(target=load, args=(f"duckdb:///{name}",)) for name in (":memory:", directory + "/p.duckdb")]
for thread in threads:
    thread.start()
    assert begun.wait(20)
    begun.clear()
child = os.fork()
if child == 0:
    import faulthandler
    faulthandler.dump_traceback_later(20, exit=True)
    # What another thread of the other process was in the middle of.
    print("memory", tipple.load(path, into="duckdb:///:memory:", table="u", **options).rows)
    print(*tipple.memory_connection().execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 't'").fetchone())
    print("file", tipple.load(path, into=f"duckdb:///{directory}/c.duckdb", table="u", **options).rows)
    try:
        tipple.load(path, into=f"duckdb:///{directory}/p.duckdb", table="v", **options)
    except tipple.ConnectionFailed as error:
        print("forked" if "was forked from" in str(error) else error)
    sys.stdout.flush()
    if ending == "_exit":
        os._exit(0)
    sys.exit(0)
_, status = os.waitpid(child, 0)
released.set()
for thread in threads:
    thread.join()
print("parent", status, *tipple.memory_connection().execute("SELECT count(*) FROM u").fetchone())
"""


@pytest.mark.parametrize("ending", ["_exit", "exit"])
def test_a_fork_during_loads_into_duckdb(tmp_path: Path, ending: str) -> None:
    """The child waits for none of them, and writes into no database whose threads and locks it does not have."""
    said = run_script(FORKED, write(tmp_path / "in.csv", "1\n"), tmp_path, ending)
    assert " ".join(said) == "memory 1 0 file 1 forked parent 0 1"


def copies(error: Any) -> list[Any]:
    """As a process pool hands it on, and as others may."""
    return [pickle.loads(pickle.dumps(error)), copy.deepcopy(error), copy.copy(error)]


def same(left: errors.TippleError, right: errors.TippleError) -> bool:
    return type(left) is type(right) and all(
        getattr(left, name) == getattr(right, name) for name in ("message", "hint", "detail", "exit_status", "args")
    )


def test_errors_of_a_load_can_be_handed_on(engine_target: Target, tmp_path: Path) -> None:
    """With a session's words for columns they could not."""
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "x\ny\nz\n")
    with pytest.raises(tipple.TooManyRejects) as many:
        tipple.load(path, into=engine_target.url, table="t", header="no", on_error="skip", max_rejects=1)
    assert many.value.last is not None
    for other in copies(many.value):
        assert same(other, many.value)
        assert str(other) == str(many.value)
        assert str(other.last) == str(many.value.last)
    text = f"""
    [defaults]
    sources = "{path}"
    into = "{engine_target.url}"
    header = "no"

    [tables.t]
    on-error = "skip"
    max-rejects = 1
    """
    with pytest.raises(tipple.JobFailed) as failed:
        tipple.run(write(tmp_path / "job.toml", text))
    assert [type(error) for error in failed.value.errors] == [tipple.TooManyRejects]
    for other in copies(failed.value):
        assert same(other, failed.value)
        assert other.report == failed.value.report
        assert same(other.errors[0], failed.value.errors[0])
        assert str(other.errors[0]) == str(failed.value.errors[0])


def test_every_error_can_be_handed_on() -> None:
    record = tipple.BadRecord(file="f", record_number=1, byte_offset=0, reason="r", column="c", text="x")
    special: dict[str, tipple.TippleError] = {
        "BadRecord": record,
        "TooManyRejects": tipple.TooManyRejects("1", record).in_words(lambda text: text.upper()),
        "JobFailed": tipple.JobFailed(
            tipple.JobReport(
                file="f",
                publish="each",
                streams=1,
                exit_status=1,
                rows=0,
                bytes=0,
                seconds=0,
                mb_per_second=0,
                tables=[],
            ),
            [record],
        ),
    }
    for name in errors.__all__:
        error = special.get(name) or getattr(tipple, name)("m", hint="h", detail={"a": [1]})
        for other in copies(error):
            assert same(other, error)
            assert str(other) == str(error)


ENDS_MEANWHILE = """
import sys, threading, time, pyarrow, tipple
into, pause = sys.argv[1], float(sys.argv[2])
schema = pyarrow.schema([("a", pyarrow.int64())])
begun = threading.Event()

def batches():
    while True:
        begun.set()
        time.sleep(pause)
        yield pyarrow.record_batch([pyarrow.array(range(1000))], schema)

# It is the script's and not the thread's: pyarrow itself ends the process where a thread lets go of it at the very end.
reader = pyarrow.RecordBatchReader.from_batches(schema, batches())

def load():
    tipple.load(reader, into=into, table="t", schema="auto")

threading.excepthook = lambda error: None
threading.Thread(target=load, daemon=True).start()
begun.wait()
time.sleep(0.2)
"""


@pytest.mark.parametrize("pause", [0, 0.05])
def test_an_interpreter_that_ends_while_python_makes_rows(engine_target: Target, pause: float) -> None:
    """The thread of the load asked for an interpreter that was being taken apart, and the process ended by a signal."""
    for _ in range(3):
        run_script(ENDS_MEANWHILE, engine_target.url, pause)


PRESSED = """
import importlib.abc, os, signal, sys
import tipple
path, url, module = sys.argv[1:]

class Press(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press())
for _ in range(2):
    try:
        print(tipple.load(path, into=url, table="t").status)
    except (tipple.Interrupted, KeyboardInterrupt):
        print("interrupted")
"""


@pytest.mark.parametrize("module", ["tipple.run.request", "driver"])
def test_ctrl_c_while_something_is_imported(engine_target: Target, tmp_path: Path, module: str) -> None:
    """The first call ends, and the next one finds whole modules."""
    if module == "driver":
        # What comes before this one is there then, and the package is not.
        module = "psycopg.connection" if engine_target.url.startswith("postgresql") else "duckdb._version"
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    assert run_script(PRESSED, path, engine_target.url, module) == ["interrupted", "loaded"]
    assert engine_target.count("t") == 1


INSIDE = """
import sys, threading, tipple, pyarrow as pa
path, where, inner, how = sys.argv[1:]
options = {"schema": "auto", "header": "no"}
table = pa.table({"a": [1]})
said = []

def load_inside():
    if not said:
        said.append("nothing")
        try:
            said[:] = [tipple.load(path, into=f"duckdb:///{inner}", table="inner", **options).status]
        except tipple.JobBusy as error:
            said[:] = ["busy", "inside" in str(error), "another" in error.hint]

def other_thread():
    thread = threading.Thread(target=load_inside)
    thread.start()
    waiting.append(thread)

def called(snapshot):
    if snapshot["phase"] == "load":
        load_inside() if how == "progress" else other_thread() if how == "thread" and not waiting else None

def batches():
    if how == "reader":
        load_inside()
    yield from table.to_batches()

waiting = []
reader = pa.RecordBatchReader.from_batches(table.schema, batches())
print(tipple.load(reader, into=f"duckdb:///{where}", table="outer", schema="auto", progress=called).status)
[thread.join() for thread in waiting]
print(*said)
"""


@pytest.mark.parametrize("how", ["progress", "reader", "thread"])
def test_a_load_inside_a_load(tmp_path: Path, how: str) -> None:
    """Into the same file it would wait for what waits for it; another thread's has its turn later."""
    path = write(tmp_path / "in.csv", "1\n")
    refused = ["loaded"] if how == "thread" else ["busy", "True", "True"]
    files = tmp_path / "x.duckdb", tmp_path / "y.duckdb"
    assert run_script(INSIDE, path, files[0], files[0], how) == ["loaded", *refused]
    assert run_script(INSIDE, path, files[0], files[1], how)[1:] == ["loaded"]
