"""Stdout that takes nothing: what a load has done counts, and not who listens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command import environment, run_tipple
from loading import load
from targets import DuckdbTarget, write


def tipple(directory: Path, *words: str, output: str = "/dev/full") -> subprocess.CompletedProcess[str]:
    if output == "closed pipe":
        reader, stdout = os.pipe()
        os.close(reader)
    else:
        stdout = os.open(output, os.O_WRONLY)
    try:
        return subprocess.run(
            [sys.executable, "-m", "tipple", *words], stdout=stdout, stderr=subprocess.PIPE, text=True,
            cwd=directory, env=environment(), timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(stdout)


@pytest.mark.parametrize(
    ("output", "words", "said"),
    [
        ("/dev/full", (), "No space left on device"),
        ("closed pipe", (), "Broken pipe"),
        ("closed pipe", ("--json",), "Broken pipe"),
    ],
)
def test_a_report_that_nobody_takes(tmp_path: Path, output: str, words: tuple[str, ...], said: str) -> None:
    """The exit status is that of the load."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (a integer)")
    write(tmp_path / "t.csv", "1\nx\n")
    asked = ("load", "t.csv", "--into", target.url, "--table", "t", "--on-error", "skip", "--max-rejects", "1")
    run = tipple(tmp_path, *asked, *words, output=output)
    assert run.returncode == 3, run.stderr
    assert f"the rows are published, but the report could not be written to stdout: {said}" in run.stderr
    assert target.count("t") == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_names_that_the_locale_cannot_write(tmp_path: Path, encoding: str) -> None:
    """They are written as escapes, and JSON in UTF-8 all the same; the exit status is that of the load."""
    write(tmp_path / "t.csv", "a,größe,漢\n1,2,3\n")
    load = ("load", "t.csv", "--into", "duckdb:///x.duckdb", "--table", "t", "--schema", "auto")
    run = subprocess.run(
        [sys.executable, "-m", "tipple", *load], capture_output=True, timeout=60, check=False,
        cwd=tmp_path, env=environment({"PYTHONIOENCODING": encoding}),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "größe bigint, 漢 bigint".encode(encoding, "backslashreplace") in b" ".join(run.stdout.split())
    run = subprocess.run(
        [sys.executable, "-m", "tipple", *load, "--table", '"größe漢"', "--json"], capture_output=True, timeout=60,
        check=False, cwd=tmp_path, env=environment({"PYTHONIOENCODING": encoding}),
    )  # fmt: skip
    assert json.loads(run.stdout.decode("utf-8"))["table"] == 'main."größe漢"'


def test_a_job_whose_report_nobody_takes(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", "1\n")
    write(tmp_path / "s.sql", "CREATE TABLE t (a integer);")
    write(tmp_path / "job.toml", "[tables.t]\nsources = 't.csv'\nschema = 's.sql'\n")
    run = tipple(tmp_path, "run", "job.toml")
    assert run.returncode == 0, run.stderr
    assert "the report could not be written" in run.stderr


@pytest.mark.parametrize("words", [("--help",), ("load", "--help"), ("jobs", "list")])
def test_what_is_only_printed(tmp_path: Path, words: tuple[str, ...]) -> None:
    DuckdbTarget(tmp_path / "tipple.duckdb").execute("SELECT 1")
    run = tipple(tmp_path, *words)
    assert run.returncode == 1
    assert run.stderr.startswith("tipple: stdout cannot be written: No space left on device")
    assert "internal error" not in run.stderr


def test_ctrl_c_when_all_is_done() -> None:
    """While Python ends there is nothing to interrupt, and the exit status stays."""
    script = "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGINT); import tipple.cli"
    run = subprocess.run(
        [sys.executable, "-c", f"{script}; tipple.cli.main(['--version'])"],
        capture_output=True, text=True, env=environment(), timeout=60, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = "import os, sys; os.rmdir(os.getcwd()); import tipple.cli; tipple.cli.main(['load', 'a', '--table', 'a'])"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=gone, capture_output=True, text=True, env=environment(), timeout=60,
        check=False,
    )  # fmt: skip
    assert run.returncode == 2
    assert "internal error" not in run.stderr


@pytest.mark.parametrize("proc", ["/proc/self", "/nonexistent"])
def test_a_password_is_hidden_from_the_process_list(tmp_path: Path, proc: str) -> None:
    """In memory, or by starting again where that cannot be written; arguments mean what they meant."""
    url = "postgresql://me:geh%40im@localhost:1/x"
    code = f"""
import sys
from tipple.cli import secrets
secrets._PROCESS = {proc!r}
secrets.hide(sys.argv[1:])
print(open("/proc/self/cmdline").read().replace(chr(0), " "))
print(*secrets.reveal(sys.argv[1:]), sep=chr(10))
"""
    words = ["a b", url, f"--into={url}", f"x={url}", "postgresql://me@localhost/ü", ""]
    run = subprocess.run(
        [sys.executable, write(tmp_path / "x.py", code), *words], capture_output=True, text=True, cwd=tmp_path,
        env=environment(), timeout=60, check=True,
    )  # fmt: skip
    shown, *revealed = run.stdout.splitlines()
    assert "geh" not in shown
    assert "a b" in shown
    assert "postgresql://me@localhost/ü" in shown
    assert ("--into=postgresql://me:***@localhost:1/x" in shown) == (proc == "/proc/self")
    assert revealed == words


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_an_interrupt_in_the_middle_of_a_text_that_is_evaluated(tmp_path: Path, number: str) -> None:
    """Python notes such an interrupt as one that nobody caught, and at its end sends itself the signal once more."""
    code = f"""
import os, signal, sys
from tipple import cli
from tipple.errors import Interrupted
from tipple.run.interrupt import interruptible

@interruptible
def verb():
    eval("kill()", {{"kill": lambda: [os.kill(os.getpid(), signal.{number}), len("x")]}})

def run(arguments):
    try:
        verb()
    except Interrupted as error:
        print("told")
        return error.exit_status

cli._run = run
cli.main([])
"""
    write(tmp_path / "interrupted.py", code)
    run = subprocess.run(
        [sys.executable, "-m", "interrupted"], capture_output=True, text=True, cwd=tmp_path, env=environment(),
        check=False,
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (130, "told\n"), run.stderr


def test_a_summary_that_cannot_be_written(tmp_path: Path) -> None:
    """What is said to do next does not load the rows twice."""
    write(tmp_path / "t.csv", "1\n")
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (a integer)")
    words = ("load", "t.csv", "--into", target.url, "--table", "t", "--summary", "/dev/full")
    for more, done, hint in [
        (("--dry-run",), "nothing was loaded, but", "running the command again changes nothing"),
        ((), "the rows are published, but", "running the command again changes nothing"),
        (("--restart",), "the rows are published, but", "the same command would load once more"),
        (("--no-ledger",), "the rows are published, but", "the same command would load once more"),
    ]:
        run = tipple(tmp_path, *words, *more, output="/dev/null")
        assert run.returncode == 1, run.stderr
        assert done in run.stderr
        assert hint in run.stderr
    assert target.count("t") == 3
    written = tmp_path / "out.json"
    written.touch()
    run = tipple(tmp_path, *words, "--json", output=str(written))
    assert run.returncode == 1, run.stderr
    assert json.loads(written.read_text())["status"] == "already loaded"


def test_why_a_job_failed_is_said_where_its_summary_cannot_be_written(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", "x\n")
    write(tmp_path / "s.sql", "CREATE TABLE t (a integer);")
    write(tmp_path / "job.toml", "[tables.t]\nsources = 't.csv'\nschema = 's.sql'\n")
    run = tipple(tmp_path, "run", "job.toml", "--summary", "/dev/full", output="/dev/null")
    assert run.returncode == 1, run.stderr
    assert "invalid input syntax for type integer" in run.stderr
    assert "what the exit status 1 says is done, but the summary /dev/full could not be written" in run.stderr


def test_a_mistyped_verb(tmp_path: Path) -> None:
    run = tipple(tmp_path, "laod", "t.csv", output="/dev/null")
    assert run.returncode == 2
    assert "No such command 'laod'. Did you mean load?" in run.stderr
    assert "mean" not in tipple(tmp_path, "x", output="/dev/null").stderr


@pytest.mark.parametrize("columns", ["0", "7", "x"])
def test_a_terminal_without_width(tmp_path: Path, columns: str) -> None:
    """Something can be read all the same."""
    write(tmp_path / "t.csv", "a\n1\n")
    load = ("load", "t.csv", "--into", "duckdb:///x.duckdb", "--table", "a_table", "--schema", "auto")
    run = subprocess.run(
        [sys.executable, "-m", "tipple", *load], capture_output=True, timeout=60, check=True,
        cwd=tmp_path, env=environment({"COLUMNS": columns}), text=True,
    )  # fmt: skip
    assert "a_table" in run.stdout


def test_files_that_are_made_and_nobody_is_told(tmp_path: Path) -> None:
    run = tipple(tmp_path, "generate", "tpch", "--scale", "0.001", "--table", "nation", "--out", "made")
    assert run.returncode == 0, run.stderr
    assert "the files are written, but the report could not be written to stdout" in run.stderr
    assert (tmp_path / "made" / "nation.tbl").exists()


def test_a_log_is_not_wrapped(tmp_path: Path) -> None:
    """What goes into a file has no width: a path stays in one piece, and no line ends with spaces."""
    path = write(tmp_path / f"{'long_' * 30}.csv", "a,b\n1,x\n")
    words = ["load", path, "--into", f"duckdb:///{tmp_path}/t.duckdb", "--table", "t", "--schema", "auto"]
    for columns in (None, "70"):
        env = environment({"COLUMNS": columns})
        run = subprocess.run(
            [sys.executable, "-m", "tipple", *map(str, words), "--dry-run"], capture_output=True, text=True, env=env
        )
        assert run.returncode == 0
        assert (path.name in run.stdout) == (columns is None)
        assert (max(map(len, run.stdout.splitlines())) > 80) == (columns is None)
        assert columns or not any(line.endswith(" ") for line in run.stdout.splitlines())


@pytest.mark.parametrize(
    "words",
    [("load", "t.csv", "--table", "t", "--verify", "sum"), ("load", "--table", "t"), ("run", "job.toml", "-j", "0")],
)
def test_what_the_parser_refuses_is_said_as_json(tmp_path: Path, words: tuple[str, ...]) -> None:
    out = tmp_path / "out.json"
    out.touch()
    run = tipple(tmp_path, *words, "--json", output=str(out))
    assert run.returncode == 2
    failure = json.loads(out.read_text())
    assert (failure["status"], failure["kind"], failure["exit_status"]) == ("refused", "UsageError", 2)
    assert failure["error"] in run.stderr


@pytest.mark.parametrize("where", ["tipple.cli._run", "tipple.run.load.choose_target"])
def test_an_interruption_before_all_else_is_said_as_json(tmp_path: Path, where: str) -> None:
    """Before the verb is known, and before it does anything; what ends by it there knows nothing of JSON."""
    write(tmp_path / "t.csv", "1\n")
    script = (
        "import os, signal, sys, tipple.cli\n"
        "from unittest import mock\n"
        "def interrupted(*words): os.kill(os.getpid(), signal.SIGTERM)\n"
        f"with mock.patch({where!r}, interrupted): tipple.cli.main(sys.argv[1:])\n"
    )
    for words in ((), ("--json",)):
        run = subprocess.run(
            [sys.executable, "-c", script, "load", "t.csv", "--table", "t", "--into", "duckdb:///t.duckdb", *words],
            capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=60, check=False,
        )  # fmt: skip
        assert run.returncode == 130
        assert "tipple: interrupted" in run.stderr
        if words:
            failure = json.loads(run.stdout)
            assert (failure["status"], failure["kind"]) == ("interrupted", "Interrupted")
            assert failure["exit_status"] == 130
        else:
            assert run.stdout == ""


@pytest.mark.parametrize("verb", ["load", "run"])
def test_want_of_memory_is_no_fault_of_tipples(tmp_path: Path, verb: str) -> None:
    """Where nobody had thought of it, as in a query of DuckDB's catalog."""
    write(tmp_path / "t.csv", "1\n")
    write(tmp_path / "j.toml", "[tables.t]\nsources = 't.csv'\ninto = 'duckdb:///t.duckdb'\nschema = 'auto'\n")
    words = {
        "load": ["load", "t.csv", "--table", "t", "--into", "duckdb:///t.duckdb", "--schema", "auto", "--json"],
        "run": ["run", "j.toml", "--json"],
    }
    script = (
        "import sys, tipple.cli\n"
        "from unittest import mock\n"
        "def short(*words, **options): bytearray(1 << 62)\n"
        "with mock.patch('tipple.engines.duckdb.session.DuckSession.load', short): tipple.cli.main(sys.argv[1:])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, *words[verb]],
        capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert "out of memory" in run.stderr
    assert "ulimit -v" in run.stderr
    assert "ulimit -v" in run.stdout


@pytest.mark.parametrize("zone", ["UTC+24", "UTC-24"])
@pytest.mark.parametrize("form", ["json", "plain"])
def test_a_zone_as_far_as_a_day(tmp_path: Path, zone: str, form: str) -> None:
    """Python has none so far from UTC, and times are told all the same."""
    url = f"duckdb:///{tmp_path / 't.duckdb'}"
    env = {"TZ": zone}
    run = load(url, write(tmp_path / "a.csv", "n\n1\n2\n"), schema="auto", progress=form, env=env)
    assert run.summary is not None
    assert "published" in run_tipple("jobs", url, "show", run.summary["job_id"], env=env).stdout
    assert run_tipple("jobs", url, env=env).exit_code == 0


def test_names_of_files_do_not_steer_the_terminal(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path / 't.duckdb'}"
    run = load(url, write(tmp_path / "\x1b]0;owned\x07\x1b[31mred.csv", "n\n1\n2\n"), schema="auto")
    assert run.summary is not None
    shown = run_tipple("jobs", url, "show", run.summary["job_id"]).stdout
    assert "\x1b" not in shown
    assert r"\x1b]0;owned\x07\x1b[31mred.csv" in shown
    missing = run_tipple("load", tmp_path / "\x1b[31mno*", "--into", url, "--table", "t", check=2)
    assert "\x1b" not in missing.stderr
    assert r"\x1b[31mno*" in missing.stderr
