"""Wrong usage: exit status 2, a sentence that helps, and nothing started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import run_tipple
from loading import load
from targets import PostgresTarget, Target, write

WRONG: dict[str, tuple[dict[str, object], str]] = {
    "unknown_mode": ({"mode": "truncate"}, "mode"),
    "unknown_format": ({"format": "xlsx"}, "format"),
    "two_byte_delimiter": ({"delimiter": "ä"}, "delimiter"),
    "two_delimiters": ({"delimiter": "||"}, "delimiter"),
    "newline_delimiter": ({"delimiter": "\n"}, "delimiter"),
    "delimiter_is_quote": ({"delimiter": '"'}, "delimiter"),
    "quote_of_text": ({"format": "text", "quote": "'"}, "quote"),
    "empty_quote": ({"quote": ""}, "one that does not occur"),
    "delimiter_in_null": ({"null": "a,b"}, "delimiter"),
    "unknown_header": ({"header": "maybe"}, "header"),
    "unknown_encoding": ({"encoding": "klingon"}, "encoding"),
    "no_streams": ({"jobs": 0}, "jobs"),
    "negative_streams": ({"jobs": -1}, "jobs"),
    "streams_by_word": ({"jobs": "many"}, "jobs"),
    "unknown_verify": ({"verify": "maybe"}, "verify"),
    "unknown_progress": ({"progress": "dance"}, "progress"),
    "unknown_write_path": ({"write_path": "carrier-pigeon"}, "write-path"),
    "unknown_option": ({"frobnicate": True}, "frobnicate"),
    "memory_limit": ({"memory_limit": "lots"}, "memory-limit"),
    "memory_without_unit": ({"memory_limit": "5"}, "--memory-limit 5 B is too small"),
    "empty_table": ({"table": ""}, "table"),
    "three_parts": ({"table": "a.b.c"}, "a.b.c"),
    "unknown_schema": ({"table": "nowhere.t"}, "nowhere"),
    "ledger": ({"table": "tipple.job"}, "own ledger"),
    "catalog": ({"table": "pg_catalog.t"}, "the database itself"),
    "information_schema": ({"table": "information_schema.tables"}, "the database itself"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options(engine_target: Target, tmp_path: Path, name: str) -> None:
    options, word = WRONG[name]
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    run = load(engine_target, write(tmp_path / "in.csv", "1,x\n"), check=2, **options)  # type: ignore[arg-type]
    assert word in run.stderr
    assert engine_target.count("t") == 0
    assert engine_target.leftovers("t") == set()
    assert run.stdout == ""


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://localhost/db", "mysql"),
        ("target.duckdb", "duckdb:///"),
        ("duckdb://target.duckdb", "duckdb:///"),
        ("postgresql://127.0.0.1:1/db", "127.0.0.1"),
        ("postgresql://no-such-host.invalid/db", "no-such-host.invalid"),
        ("postgresql://localhost/db?nonsense=1", "nonsense"),
        ("duckdb:////nonexistent/directory/x.duckdb", "/nonexistent/directory"),
        ("mssql://localhost/db", "SQL Server"),
    ],
)
def test_wrong_targets(tmp_path: Path, url: str, words: str) -> None:
    path = write(tmp_path / "in.csv", "1,x\n")
    run = load(url, path, check=2, cwd=tmp_path)
    assert words in run.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["in.csv"]


def test_no_source(engine_target: Target) -> None:
    run_tipple("load", "--into", engine_target.url, "--table", "t", check=2)


def test_no_table(engine_target: Target, tmp_path: Path) -> None:
    run_tipple("load", write(tmp_path / "in.csv", "1\n"), "--into", engine_target.url, check=2)


def test_missing_schema_names_the_table(engine_target: Target, tmp_path: Path) -> None:
    run = load(engine_target, write(tmp_path / "in.csv", "1\n"), table="nope", check=2)
    assert "nope" in run.stderr


def test_unknown_verb() -> None:
    run = run_tipple("laod", check=2)
    assert "laod" in run.stderr


@pytest.mark.parametrize("words", [["--help"], ["load", "--help"], ["jobs", "--help"], ["generate", "--help"]])
def test_help(words: list[str]) -> None:
    run = run_tipple(*words)
    assert "Usage" in run.stdout or "usage" in run.stdout
    assert run.stderr == ""


def test_help_of_load_names_every_option() -> None:
    text = run_tipple("load", "--help").stdout
    for option in (
        "--into", "--table", "--schema", "--format", "--delimiter", "--quote", "--escape", "--header",
        "--null", "--encoding", "--columns", "--mode", "--jobs", "--write-path", "--atomic", "--verify",
        "--resume", "--restart", "--dry-run", "--progress", "--summary", "--no-ledger", "--memory-limit",
    ):  # fmt: skip
        assert option in text, option


def test_version() -> None:
    assert run_tipple("--version").stdout.strip().split()[-1][0].isdigit()


def test_options_by_environment(engine_target: Target, tmp_path: Path) -> None:
    """No --into: TIPPLE_TARGET; and each option has its variable."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    path = write(tmp_path / "in.csv", "1;x\n")
    run_tipple(
        "load", path, "--table", "t", "--progress", "none", "--delimiter", ";",
        env={"TIPPLE_TARGET": engine_target.url},
    )  # fmt: skip
    assert engine_target.count("t") == 1


def test_default_target(tmp_path: Path) -> None:
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (a integer);")
    path = write(tmp_path / "in.csv", "1\n")
    run_tipple("load", path, "--table", "t", "--schema", schema, cwd=tmp_path)
    assert (tmp_path / "tipple.duckdb").exists()


def test_summary_that_cannot_be_written(engine_target: Target, tmp_path: Path) -> None:
    """Found out before the load and not after it."""
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    load(engine_target, path, summary=tmp_path / "missing" / "summary.json", check=2)
    assert engine_target.count("t") == 0


def test_a_file_whose_name_begins_like_an_option(tmp_path: Path) -> None:
    write(tmp_path / "-dash.csv", "1\n")
    words = ("load", "-dash.csv", "--table", "t", "--into", "duckdb:///x.duckdb")
    run = run_tipple(*words, cwd=tmp_path, check=2)
    assert "  hint: the file -dash.csv is named by ./-dash.csv" in run.stderr
    told = run_tipple(*words, "--json", cwd=tmp_path, check=2).stdout
    assert json.loads(told)["hint"] == "the file -dash.csv is named by ./-dash.csv"


@pytest.mark.parametrize("verb", ["doctor", "jobs"])
def test_no_url(tmp_path: Path, verb: str) -> None:
    """Whose file that is which is not there nobody knows who has not named it."""
    run = run_tipple(verb, cwd=tmp_path, env={"TIPPLE_TARGET": None}, check=2)
    assert "there is no database duckdb:///tipple.duckdb" in run.stderr
    assert "no URL was given, nor $TIPPLE_TARGET" in run.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "duckdb:///no.duckdb"),
        ("jobs", "duckdb:///no.duckdb", "list"),
        ("jobs", "duckdb:///no.duckdb", "show", "1"),
        ("jobs", "duckdb:///no.duckdb", "cancel", "1"),
        ("jobs", "duckdb:///no.duckdb", "clean"),
        ("jobs", "duckdb:///no.duckdb", "resume", "1"),
        ("jobs", "wash"),
        ("doctor", "duckdb:///no.duckdb"),
        ("doctor", "duckdb:///no.duckdb", "--sizes"),
        ("doctor", "--nothing"),
        ("generate", "tpch", "--out", "taken"),
        ("generate", "tpch"),
        ("load", "no.csv", "--table", "t"),
        ("run", "no.toml"),
    ],
    ids=" ".join,
)
def test_json_where_there_is_no_result(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Whoever reads JSON gets JSON: one object, which says why."""
    write(tmp_path / "taken", "")
    run = run_tipple(*words, "--json", cwd=tmp_path, check=2)
    told = json.loads(run.stdout)
    assert (told["tipple_failure_version"], told["status"], told["exit_status"]) == (1, "refused", 2)
    assert told["error"] in run.stderr


def test_a_table_in_another_case(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute('CREATE TABLE "Order" (a integer)')
    path = write(tmp_path / "in.csv", "1\n")
    run = load(postgres_target, path, table="Order", check=2)
    assert 'there is no table order in the target, but public."Order"' in run.stderr
    assert """--table 'public."Order"'""" in run.stderr
    load(postgres_target, path, table='public."Order"')
    assert postgres_target.count('"Order"') == 1
