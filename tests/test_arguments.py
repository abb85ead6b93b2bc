"""Arguments that cannot be meant: the same check for the command line, job files and the library."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import tipple
from targets import write
from tipple.cli.commands import cli
from tipple.errors import UsageError

HUGE = 10**20


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"verify": "all"}, "--verify must be none, count, checksum, and not 'all'"),
        ({"on_error": "bogus"}, "--on-error must be stop, skip"),
        ({"on_conflict": "bogus"}, "--on-conflict must be update, ignore, error"),
        ({"on_conflict": "ignore"}, "--on-conflict has no meaning without --mode upsert"),
        ({"progress": "bogus"}, "--progress must be auto, bar, plain, json, none or a function"),
        ({"mode": "bogus"}, "--mode must be append"),
        ({"jobs": "2"}, "--jobs must be a whole number from 1 to 65535, and not '2'"),
        ({"jobs": 1.5}, "--jobs must be a whole number"),
        ({"jobs": True}, "--jobs must be a whole number"),
        ({"jobs": 0}, "--jobs must be a whole number from 1"),
        ({"atomic": "no"}, "--atomic must be true or false"),
        ({"columns": "a,b"}, "--columns must be a list"),
        *(
            ({name: [1]}, f"--{name.replace('_', '-')} must be a list of texts, and not [1]")
            for name in ("columns", "key", "force_null", "force_not_null")
        ),
        ({"columns": {"a": 0, 1: 0}.keys()}, "--columns must be a list of texts, and not ['a', 1]"),
        ({"tablespace": [1]}, "--tablespace must be a text or a list of texts"),
        *(
            ({"format": "fixed", "field_widths": [width]}, "--field-widths must be a list of whole numbers, and not")
            for width in ("a", 2.5, True)
        ),
        *(
            (
                {"format": "fixed", "field_widths": [1, width]},
                "--field-widths must be positive numbers up to 4294967295",
            )
            for width in (0, HUGE)
        ),
        ({"max_record_size": -1}, "--max-record-size must be a whole number from 1"),
        ({"max_record_size": "0"}, "--max-record-size must be a whole number from 1"),
        ({"memory_limit": -1}, "--memory-limit must be a whole number from 1"),
        ({"stall_timeout": 0}, "--stall-timeout must be a whole number from 1"),
        ({"format": "xml"}, "unknown --format 'xml'"),
        *(
            ({name: HUGE}, f"--{name.replace('_', '-')}")
            for name in ("skip_lines", "jobs", "commit_every", "retry_for")
        ),
        *(
            ({name: HUGE}, f"--{name.replace('_', '-')} must be a whole number from ")
            for name in ("skip_lines", "jobs", "commit_every", "retry_for", "stall_timeout", "max_rejects")
        ),
        ({"max_rejects": str(HUGE), "on_error": "skip"}, "--max-rejects"),
        ({"table": "t\udcff"}, "--table 't\\udcff' is not UTF-8"),
        ({"columns": ["a", "\udcff"]}, "--columns '\\udcff' is not UTF-8"),
        ({"null": "\udcff"}, "--null '\\udcff' is not UTF-8"),
        ({"rejects": "\udcff.txt", "on_error": "skip"}, "--rejects '\\udcff.txt' is not UTF-8"),
        ({"max_rejects": -1, "on_error": "skip"}, "--max-rejects must be a whole number from 0"),
        *(
            ({name: kind("a")}, f"--{name.replace('_', '-')} must be in an order, and a set has none")
            for name in ("columns", "key", "tablespace", "field_widths")
            for kind in (set, frozenset)
        ),
        *(({name: np.array(["no", "x"])}, f"--{name} must be ") for name in ("mode", "verify", "header")),
        ({"verify": np.array([["x"] * 50] * 50)}, "more characters)"),
        *(
            ({name: "\0", "on_error": "skip"}, f"--{name} '\\x00' holds a zero character")
            for name in ("schema", "rejects")
        ),
    ],
    ids=str,
)
def test_of_the_library(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    path = write(tmp_path / "in.csv", "1\n")
    with pytest.raises(UsageError) as caught:
        tipple.load(path, into=f"duckdb:///{tmp_path}/x.duckdb", **{"table": "t", **options})
    assert said in str(caught.value)
    assert caught.value.hint
    assert not (tmp_path / "x.duckdb").exists()


def test_lists_may_be_anything_to_go_through(tmp_path: Path) -> None:
    path, schema = write(tmp_path / "in.csv", "x,1\n,2\n"), write(tmp_path / "s.sql", "CREATE TABLE t (a int, b text)")
    report = tipple.load(
        sources=(name for name in [path]),
        into=f"duckdb:///{tmp_path}/x.duckdb",
        table="t",
        schema=schema,
        header="no",
        mode="upsert",
        columns=iter(["b", "a"]),
        key=(name for name in "a"),
        force_not_null={"b": True},
    )
    assert report.rows == 2


def test_a_set_where_the_order_does_not_matter(tmp_path: Path) -> None:
    path, schema = write(tmp_path / "in.csv", "x,1\n"), write(tmp_path / "s.sql", "CREATE TABLE t (a text, b int)")
    into = f"duckdb:///{tmp_path}/x.duckdb"
    assert tipple.load(path, into=into, table="t", schema=schema, header="no", force_null={"a", "b"}).rows == 1
    made = tipple.generate(out=tmp_path / "out", scale=0.001, table={"region", "nation"})
    assert {file.table for file in made.files} == {"region", "nation"}


def test_texts_of_other_types(tmp_path: Path) -> None:
    """As numpy's arrays and enumerations give them: the ledger keeps the command, and knows Python's own types only."""
    schema = write(tmp_path / "s.sql", "CREATE TABLE t (a int, b text)")
    report = tipple.load(
        np.array([str(write(tmp_path / "in.csv", "x,1\n"))]),
        into=np.str_(f"duckdb:///{tmp_path}/x.duckdb"),
        table=np.str_("t"),
        schema=np.str_(schema),
        header=np.str_("no"),
        null=np.str_("N"),
        mode=np.str_("create"),
        columns=np.array(["b", "a"]),
    )
    assert report.rows == 1
    job = write(
        tmp_path / "job.toml",
        f"""
        [tables.u]
        sources = "${{here}}/in.csv"
        into = "duckdb:///{tmp_path}/x.duckdb"
        schema = "${{here}}/u.sql"
        header = "no"
        null = "${{null}}"
        """,
    )
    write(tmp_path / "u.sql", "CREATE TABLE u (b text, a int)")
    assert tipple.run(np.str_(job), settings={np.str_("null"): np.str_("x")}).tables[0].report.rows == 1


def test_numbers_of_other_types(tmp_path: Path) -> None:
    """Numpy's integers are no `int`, and its truths no `bool`."""
    schema = write(tmp_path / "s.sql", "CREATE TABLE t (a int, b int)")
    report = tipple.load(
        write(tmp_path / "in.txt", "12\n34\nxx\n"),
        into=f"duckdb:///{tmp_path}/x.duckdb",
        table="t",
        schema=schema,
        header="no",
        format="fixed",
        field_widths=np.array([1, 1]),
        jobs=np.int64(1),
        memory_limit=np.uint32(10**9),
        on_error="skip",
        max_rejects=np.array([1, 0]).max(),
        rejects=tmp_path / "bad",
        atomic=np.bool_(True),
    )
    assert (report.rows, report.rejects) == (2, 1)
    made = tipple.generate(out=tmp_path / "out", scale=np.float32(0.001), table="region", parts=np.int8(1))
    assert made.rows == 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"jobs": np.int64(0)}, "--jobs must be a whole number from 1 to 65535, and not 0"),
        ({"jobs": np.bool_(True)}, "--jobs must be a whole number from 1 to 65535, and not True"),
        ({"jobs": np.float64(1.0)}, "--jobs must be a whole number from 1 to 65535, and not 1.0"),
        ({"atomic": np.int64(1)}, "--atomic must be true or false, and not 1"),
        ({"max_rejects": np.uint64(2**64 - 1)}, "--max-rejects must be a whole number from 0"),
    ],
    ids=str,
)
def test_numbers_of_other_types_have_the_same_ranges(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        tipple.load(write(tmp_path / "in.csv", "1\n"), into=f"duckdb:///{tmp_path}/x.duckdb", table="t", **options)
    assert said in str(caught.value)


def test_a_generator_of_paths_that_fails(tmp_path: Path) -> None:
    """With the error that its caller has made, and not as something that gives no paths."""

    def paths(part: Any) -> Iterator[str]:
        yield "a.csv"
        yield "b" + part

    with pytest.raises(TypeError, match="can only concatenate str"):
        tipple.load(paths(1), into=f"duckdb:///{tmp_path}/x.duckdb", table="t")


@pytest.mark.parametrize("kind", [set, frozenset])
def test_a_set_of_sources(tmp_path: Path, kind: Callable[[list[str]], Any]) -> None:
    """The same command again, in the order of another process, would not be known as the same."""
    paths = [str(write(tmp_path / f"{name}.csv", "1\n")) for name in "ab"]
    with pytest.raises(UsageError, match="the sources must be in an order"):
        tipple.load(kind(paths), into=f"duckdb:///{tmp_path}/x.duckdb", table="t", schema="auto")


def test_paths_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `os.scandir` gives them for a directory of bytes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    write(tmp_path / "in.csv", "1\n")
    write(tmp_path / "s.sql", "CREATE TABLE t (a int)")
    found = {entry.name: entry for entry in os.scandir(b".")}
    options: dict[str, Any] = {"schema": found[b"s.sql"], "header": "no"}
    assert tipple.load(found[b"in.csv"], into="duckdb:///x.duckdb", table="t", **options).rows == 1
    assert tipple.load([found[b"in.csv"]], into="duckdb:///y.duckdb", table="t", **options).rows == 1
    assert tipple.generate(out=found[b"out"], scale=0.001, table="region").rows == 5
    assert (tmp_path / "out" / "region.tbl").exists()


def test_a_source_that_no_system_can_name(tmp_path: Path) -> None:
    for name in ("\ud800", "*\ud800", ["a", "\ud800"]):
        with pytest.raises(UsageError, match=r"ud800 is not UTF-8|no such file"):
            tipple.load(name, into=f"duckdb:///{tmp_path}/x.duckdb", table="t")


def test_a_zero_character_in_a_job(tmp_path: Path) -> None:
    sources = write(tmp_path / "in.csv", "1\n")
    text = f'[tables.t]\nsources = "{sources}"\ninto = "duckdb:///{tmp_path}/x.duckdb"\nschema = "\\u0000"\n'
    with pytest.raises(UsageError, match=r"line 4: tables\.t\.schema: --schema .* holds a zero character"):
        tipple.run(write(tmp_path / "job.toml", text))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"file": 5}, "the job file must be a text or a path, and not 5"),
        ({"file": b"j.toml"}, "the job file must be a text or a path"),
        ({"file": "j\0"}, "there is no job file"),
        ({"file": "j.toml", "settings": {5: 1}}, "--settings must be a mapping by texts, and not {5: 1}"),
        ({"file": "j.toml", "settings": {"x": None}}, "--set x: None is no value"),
    ],
    ids=str,
)
def test_of_a_job_in_the_library(arguments: dict[str, Any], said: str) -> None:
    file = arguments.pop("file")
    with pytest.raises(UsageError) as caught:
        tipple.run(file, **arguments)
    assert said in str(caught.value)


URL = "duckdb:///x.duckdb"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tipple.list_jobs(5), "the target's URL must be a text, and not of type int"),
        (lambda: tipple.cancel_job(URL, None), "the job's id must be a text, and not None"),
        (lambda: tipple.clean_jobs(URL, 5), "the job's id must be a text, and not 5"),
        (lambda: tipple.examine_target(URL, table=5), "--table must be a text, and not 5"),
        (lambda: tipple.examine_target(URL, [5]), "the sources are"),
        (lambda: tipple.examine_target(URL, None), "the sources are"),
        (lambda: tipple.measure_target(URL, table=5), "--table must be a text, and not 5"),
        (lambda: tipple.generate(out=None), "--out must be a text or a path, and not None"),
        (lambda: tipple.generate(out=""), "--out names no directory"),
        (lambda: tipple.generate(out="x", scale="1"), "--scale must be a number, and not '1'"),
        (lambda: tipple.generate(out="x", scale=10**400), "is not a number"),
        (lambda: tipple.generate(out="x", jobs=1.5), "--jobs must be a whole number from 1"),
        (lambda: tipple.generate(out="x", table=5), "--table must be"),
        (lambda: tipple.generate("tpcds", out="x"), "--dataset must be tpch, and not 'tpcds'"),
    ],
)
def test_of_the_other_verbs(tmp_path: Path, call: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        call()
    assert said in str(caught.value)
    assert caught.value.hint
    assert not list(tmp_path.iterdir())


def test_a_password_is_not_repeated() -> None:
    url = b"postgresql://me:secret@localhost/x"
    for call in (lambda: tipple.load("in.csv", into=url, table="t"), lambda: tipple.list_jobs(url)):  # type: ignore[arg-type]
        with pytest.raises(UsageError) as caught:
            call()
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "option", ["--skip-lines", "-j", "--max-rejects", "--commit-every", "--retry-for", "--stall-timeout"]
)
def test_of_the_command_line(tmp_path: Path, option: str) -> None:
    path = write(tmp_path / "in.csv", "1\n")
    words = ["load", str(path), "--into", f"duckdb:///{tmp_path}/x.duckdb", "--table", "t", "--on-error", "skip"]
    with pytest.raises((UsageError, click.UsageError)) as caught:
        cli.main(args=[*words, option, str(HUGE)], prog_name="tipple", standalone_mode=False)
    assert option.replace("-j", "--jobs") in str(caught.value)


def test_of_a_job(tmp_path: Path) -> None:
    job = write(tmp_path / "job.toml", "[tables.t]\nsources = 'x'\n")
    for options in ({"jobs": HUGE}, {"jobs": "2"}, {"progress": "bogus"}, {"settings": "a=b"}):
        with pytest.raises(UsageError, match=f"--{next(iter(options))} must be"):
            tipple.run(job, **options)


def test_largest_numbers_work(tmp_path: Path) -> None:
    """What the check lets through is what a load takes."""
    path = write(tmp_path / "in.csv", "1\n2\n")
    schema = write(tmp_path / "s.sql", "CREATE TABLE t (a integer);")
    most = 2**63 - 1
    report = tipple.load(
        path, into=f"duckdb:///{tmp_path}/x.duckdb", table="t", schema=schema, atomic=False, on_error="skip",
        jobs=65_535, max_rejects=most, commit_every=most, retry_for=10**9, stall_timeout=10**9, max_record_size=most,
    )  # fmt: skip
    assert report.rows == 2
