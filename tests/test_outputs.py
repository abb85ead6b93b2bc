"""What is written beside the table never destroys what the load needs: it is refused before anything is started."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
from pathlib import Path

import pytest

import tipple
from command import run_tipple
from targets import write
from tipple.cli.commands import cli
from tipple.cli.summary import write_summary
from tipple.errors import TippleError, UsageError
from tipple.run import rejects

ROWS = "1,a\nx,b\n3,c\n"
INTO = ("--into", "duckdb:///x.duckdb", "--table", "a", "--schema", "s.sql")
SKIP = ("--on-error", "skip", "--max-rejects", "1")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a source, a schema, a job and a link to the source."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.csv", ROWS)
    write(tmp_path / "s.sql", "CREATE TABLE a (id integer, v varchar);")
    write(tmp_path / "base.toml", "[defaults]\nschema = 's.sql'\n")
    write(tmp_path / "j.toml", "include = 'base.toml'\n[tables.a]\nsources = 'a.csv'\ninto = 'duckdb:///x.duckdb'\n")
    (tmp_path / "link.csv").symlink_to("a.csv")
    return tmp_path


def command(*words: str) -> None:
    cli.main(args=[*words, "--progress", "none"], prog_name="tipple", standalone_mode=False)


def load(*words: str) -> None:
    command("load", "a.csv", *INTO, *words)


@pytest.mark.parametrize(
    "words",
    [
        (*SKIP, "--rejects", "a.csv"),
        (*SKIP, "--rejects", "link.csv"),
        (*SKIP, "--rejects", "s.sql"),
        (*SKIP, "--rejects", "x.duckdb"),
        (*SKIP, "--rejects", "./x.duckdb.wal"),
        (*SKIP, "--rejects", "r", "--summary", "r"),
        (*SKIP, "--rejects", "r", "--summary", "r.reasons.csv"),
        (*SKIP, "--rejects", ""),
        (*SKIP, "--rejects", "/dev/null"),
        ("--summary", "a.csv"),
        ("--summary", "../{here}/a.csv"),
        ("--summary", "x.duckdb"),
        ("--summary", ""),
        ("--resume", ""),
        ("--into", ""),
    ],
)
def test_a_load(here: Path, words: tuple[str, ...]) -> None:
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    with pytest.raises(UsageError) as caught:
        load(*(word.replace("{here}", here.name) for word in words))
    assert words[-2] in str(caught.value).replace("the target's URL", "--into")
    assert caught.value.exit_status == 2
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before


def test_hard_links_are_one_file(here: Path) -> None:
    os.link("a.csv", "b.csv")
    with pytest.raises(UsageError, match=r"--rejects b.csv would overwrite the source a.csv"):
        tipple.load("a.csv", into="duckdb:///x.duckdb", table="a", schema="s.sql", on_error="skip", rejects="b.csv")


@pytest.mark.parametrize("path", ["j.toml", "base.toml", "a.csv", "s.sql", "x.duckdb"])
def test_the_summary_of_a_job(here: Path, path: str) -> None:
    before = {found.name: found.read_bytes() for found in here.iterdir()}
    with pytest.raises(UsageError, match=f"--summary {path} would overwrite"):
        command("run", "j.toml", "--dry-run", "--summary", path)
    assert {found.name: found.read_bytes() for found in here.iterdir()} == before


@pytest.mark.parametrize(
    ("rejects", "said"),
    [
        ("b.csv", "j.toml, line 7: tables.a.rejects: --rejects of a b.csv would overwrite the source"),
        (
            "b.rejects",
            "j.toml, line 8: b: --rejects of b b.rejects is the file of --rejects of a (j.toml, line 7: tables.a",
        ),
    ],
)
def test_the_rejects_of_one_table_and_the_files_of_another(here: Path, rejects: str, said: str) -> None:
    write(here / "b.csv", ROWS)
    with (here / "j.toml").open("a") as file:
        file.write(
            f"on-error = 'skip'\nmax-rejects = 1\nrejects = '{rejects}'\n[tables.b]\ntable = 'b'\nsources = 'b.csv'\n"
            "into = 'duckdb:///x.duckdb'\non-error = 'skip'\n"
        )
    write(here / "s.sql", "CREATE TABLE a (id integer, v varchar); CREATE TABLE b (id integer, v varchar);")
    with pytest.raises(UsageError, match=re.escape(said)):
        tipple.run("j.toml")
    assert (here / "b.csv").read_text() == ROWS


def test_an_option_by_default_is_told_where_it_stands(here: Path) -> None:
    """With the table that cannot have it."""
    write(here / "base.toml", "[defaults]\nschema = 's.sql'\nformat = 'cvs'\n")
    with pytest.raises(UsageError, match=r"^base\.toml, line 3: defaults\.format, for a: unknown --format 'cvs'$"):
        tipple.run("j.toml")


def test_a_summary_of_an_earlier_run_does_not_stay(here: Path) -> None:
    """It would be taken for that of the run that failed."""
    write(here / "old.json", "{}")
    with pytest.raises(tipple.BadRecord):
        load("--summary", "old.json")
    assert json.loads((here / "old.json").read_text())["status"] == "failed"
    write(here / "real.json", "{}")
    (here / "old.json").unlink()
    (here / "old.json").symlink_to("real.json")
    with pytest.raises(tipple.BadRecord):
        load("--summary", "old.json")
    assert json.loads((here / "real.json").read_text())["status"] == "failed"
    assert (here / "old.json").is_symlink()


@pytest.mark.parametrize("verb", ["load", "run"])
def test_a_summary_does_not_outlive_its_source(here: Path, verb: str) -> None:
    """Where a run fails before it has looked for all files, what an earlier one wrote is gone; nothing else is."""
    write(here / "a.csv", "1,x\n")
    words = ["load", "a.csv", *INTO] if verb == "load" else ["run", "j.toml"]
    run_tipple(*words, "--summary", "made.json", cwd=here)
    write(here / "notes.json", "{}")
    (here / "a.csv").unlink()
    for name in ("made.json", "notes.json"):
        run_tipple(*words, "--summary", name, cwd=here, check=2)
    assert not (here / "made.json").exists()
    assert (here / "notes.json").read_text() == "{}"


def test_a_summary_that_is_a_source_stays(here: Path) -> None:
    write(here / "a.csv", "1,x\n")
    load("--summary", "made.json")
    before = (here / "made.json").read_bytes()
    with (here / "j.toml").open("a") as file:
        file.write("[tables.b]\nsources = ['*.json', 'gone']\ninto = 'duckdb:///x.duckdb'\n")
    for source in ("made.json", "*.json", "../" + here.name):
        with pytest.raises(UsageError, match="gone"):
            command("load", source, "gone.csv", *INTO, "--summary", "made.json")
        assert (here / "made.json").read_bytes() == before
    with pytest.raises(UsageError, match="gone"):
        command("run", "j.toml", "--summary", "made.json")
    assert (here / "made.json").read_bytes() == before


def test_an_empty_target_is_not_the_default_one(here: Path) -> None:
    """Most likely it is a variable without a value."""
    for call in (
        lambda: tipple.load("a.csv", into="", table="a", schema="s.sql"),
        lambda: tipple.list_jobs(" "),
        lambda: tipple.examine_target(""),
    ):
        with pytest.raises(UsageError, match="URL is empty"):
            call()
    write(here / "j.toml", "[tables.a]\nsources = 'a.csv'\ninto = ''\n")
    with pytest.raises(UsageError, match="URL is empty"):
        tipple.run("j.toml")
    assert not (here / "tipple.duckdb").exists()


def test_a_summary_in_a_directory_that_is_not_there(here: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written: there is no directory") as caught:
        load("--summary", str(here / "no such" / "x.json"))
    assert caught.value.hint == f"mkdir -p '{here}/no such'"


@pytest.mark.parametrize("name", ["a" * 250, "bad"])
def test_rejects_that_have_no_place(here: Path, name: str) -> None:
    """That a file cannot be made beside the others is known before the load, too."""
    (here / "bad.unfinished").mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        load(*SKIP, "--rejects", name)
    assert not (here / "x.duckdb").exists()


@pytest.mark.parametrize(
    ("words", "remedy"), [((), "run the same command again"), (("--no-ledger",), "take the load's")]
)
def test_rejects_that_find_no_room(
    here: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], remedy: str
) -> None:
    """Running the command again is no advice where that would load the rows once more."""

    def full(path: str, name: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(rejects.os, "replace", full)
        with pytest.raises(TippleError, match="the rejects could not be written") as raised:
            load(*SKIP, "--rejects", "bad", *words)
    assert raised.value.hint is not None
    assert remedy in raised.value.hint
    assert not list(here.glob("bad*"))


@pytest.mark.parametrize("kind", ["new", "link", "old", "beside"])
def test_a_summary_that_finds_no_room(here: Path, kind: str) -> None:
    """No half of one is there, which a program might read; what is not a summary stays."""
    path = here / "summary.json"
    if kind == "link":
        path.symlink_to("elsewhere")
    elif kind == "old":
        path.touch()
    elif kind == "beside":
        write(here / "summary.json.unfinished", "of somebody\n")
    before = {name for name in here.iterdir() if name.is_file()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(TippleError, match="could not be written: File too large"):
            write_summary(str(path), "x" * 10_000, done="done", repeats=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not path.exists() or path.read_bytes() == b""
    assert {name for name in here.iterdir() if name.is_file() and name.stat().st_size} == {
        name for name in before if name.stat().st_size
    }
    write_summary(str(path), "complete", done="done", repeats=False)
    assert path.read_text() == "complete"
    assert path.is_symlink() == (kind == "link")
    assert (here / "summary.json.unfinished").exists() == (kind == "beside")
