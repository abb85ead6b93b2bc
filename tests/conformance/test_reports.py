"""What a run says of itself: the summary and its schema, the tables at the end, progress, verification."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from big import TABLE, BigFile
from command import Run, environment, run_tipple
from loading import load, load_text, load_words
from targets import PostgresTarget, Target, write

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "summary.schema.json"


@pytest.fixture(scope="session")
def schema() -> Any:
    return json.loads(SCHEMA_FILE.read_text())


def validate(summary: Any, schema: Any) -> None:
    jsonschema.validate(summary, schema, cls=jsonschema.Draft202012Validator, format_checker=jsonschema.FormatChecker())


def test_schema_is_a_schema(schema: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    with pytest.raises(jsonschema.ValidationError):
        validate({}, schema)


@pytest.mark.parametrize("verify", [None, "none", "count", "checksum"])
def test_summary(engine_target: Target, big_file: BigFile, schema: Any, verify: str | None) -> None:
    engine_target.execute(TABLE)
    run = load(engine_target, big_file.path, jobs=2, verify=verify)
    summary = run.summary
    assert summary is not None
    validate(summary, schema)
    assert summary["status"] == "loaded"
    assert summary["rows"] == big_file.rows
    assert summary["streams"] == 2
    assert summary["mode"] == "append"
    assert summary["write_path"] in ("binary", "text", "direct", "arrow")
    assert summary["write_path_reason"]
    assert summary["rows_per_second"] == pytest.approx(summary["rows"] / summary["seconds"], rel=0.05)
    assert summary["mb_per_second"] == pytest.approx(summary["bytes"] / summary["seconds"] / 1e6, rel=0.05)
    # The phases account for most of the time, and the time is not longer than what we waited.
    accounted = sum(phase["seconds"] for phase in summary["phases"])
    assert accounted == pytest.approx(summary["seconds"], rel=0.2, abs=0.3)
    assert summary["seconds"] <= run.seconds
    started, finished = (datetime.fromisoformat(summary[name]) for name in ("started_at", "finished_at"))
    assert started.tzinfo is not None
    assert 0 <= (finished - started).total_seconds() <= run.seconds + 0.1
    assert 10_000_000 < summary["peak_memory_bytes"] < 4 * 10**9
    if verify in ("count", "checksum"):
        found = summary["verify"]
        assert (found["kind"], found["ok"]) == (verify, True)
        assert found["rows_source"] == found["rows_target"] == big_file.rows
        assert found["digest_source"] == found["digest_target"]
        assert (found["digest_source"] is not None) == (verify == "checksum")
    elif verify == "none":
        assert summary["verify"] is None


def test_summary_of_nothing_to_do(engine_target: Target, tmp_path: Path, schema: Any) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    for data, options in (("1\n", {"dry_run": True}), ("1\n", {}), ("1\n", {}), ("", {})):
        run = load_text(engine_target, tmp_path / "in.csv", data, **options)
        assert run.summary is not None
        validate(run.summary, schema)


def test_checksum_does_not_depend_on_version_streams_or_order(
    engine_target: Target, big_file: BigFile, tmp_path: Path, digests: dict[str, set[str]]
) -> None:
    engine_target.execute(TABLE)
    text = big_file.path.read_bytes()
    middle = text.index(b"\n123456,") + 1
    parts = [tmp_path / "2.csv", tmp_path / "1.csv"]
    parts[0].write_bytes(text[middle:])
    parts[1].write_bytes(text[:middle])
    run = load(engine_target, *parts, jobs=3, verify="checksum")
    assert big_file.held_by(engine_target) == big_file.expected
    assert run.summary is not None
    # An engine digests the form in which it takes rows, so digests of two engines cannot be compared.
    seen = digests.setdefault(run.summary["write_path"], set())
    seen |= {run.summary["verify"]["digest_source"], run.summary["verify"]["digest_target"]}
    assert len(seen) == 1


@pytest.fixture(scope="module")
def digests() -> dict[str, set[str]]:
    return {}


def test_report_has_the_figures(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    run = load_text(engine_target, tmp_path / "in.csv", "".join(f"{i}\n" for i in range(12_345)))
    assert "12,345" in run.stdout
    for word in ("rows", "mb/s", "rows/s"):
        assert word in run.stdout.lower(), run.stdout
    assert run.summary is not None
    for phase in run.summary["phases"]:
        assert phase["name"] in run.stdout


def test_write_path_and_reason_are_said(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    run = load_text(engine_target, tmp_path / "in.csv", "1\n")
    assert run.summary is not None
    assert run.summary["write_path"] in run.stdout


@pytest.mark.parametrize("progress", ["auto", "bar", "plain", "json", "none"])
def test_progress(engine_target: Target, big_file: BigFile, progress: str) -> None:
    engine_target.execute(TABLE)
    run = load(engine_target, big_file.path, jobs=2, progress=progress)
    assert big_file.held_by(engine_target) == big_file.expected
    if progress == "json":
        events = [json.loads(line) for line in run.stderr.splitlines() if line.strip()]
        assert events
        assert all(isinstance(event, dict) for event in events)
    if progress == "none":
        assert "\r" not in run.stderr
    # Results stay apart from progress.
    assert "\r" not in run.stdout


def test_closed_output_is_no_failure_of_the_load(engine_target: Target, tmp_path: Path) -> None:
    """`tipple load ... | head -1`: the rows are in, whoever reads the report."""
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tipple", *load_words(engine_target.url, (path,), "t", {})],
            stdout=writer,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=60,
        )
    finally:
        os.close(writer)
    assert engine_target.count("t") == 1
    assert b"Traceback" not in done.stderr


VERIFY_CATCHES = """
CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
    IF NEW.a = 777 THEN NEW.b := 'spoiled'; END IF;
    RETURN NEW;
END$$;
"""


def test_verify_catches_a_difference(postgres_target: Target, tmp_path: Path) -> None:
    """A trigger that changes a row: the rows are not those of the file, and the checksum says so."""
    postgres_target.execute(
        "CREATE TABLE t (a integer, b text);" + VERIFY_CATCHES +
        "CREATE TRIGGER s BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION spoil();"
    )  # fmt: skip
    data = "".join(f"{i},x\n" for i in range(1000))
    run = load_text(postgres_target, tmp_path / "in.csv", data, verify="checksum", check=False)
    assert run.exit_code == 1, str(run)
    assert "the target holds 1,000 rows (digest " in run.stderr
    assert "but 1,000 were read (digest " in run.stderr
    assert "the trigger s may have changed the values" in run.stderr
    # All or nothing: what failed its verification is not published.
    assert postgres_target.count("t") == 0


FAILURE_FILE = SCHEMA_FILE.with_name("failure.schema.json")


def failure(run: Run, path: Path) -> Any:
    """What a load that failed says on stdout, and in its summary file."""
    told = json.loads(run.stdout)
    validate(told, json.loads(FAILURE_FILE.read_text()))
    assert told["exit_status"] == run.exit_code
    if told["status"] != "refused":
        assert json.loads(path.read_text()) == told
    return told


def test_a_bad_record_as_json(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b text)")
    source, summary = write(tmp_path / "in.csv", "1,a\nx,b\n"), tmp_path / "summary.json"
    words = load_words(engine_target.url, (source,), "t", {"header": "no", "json": True, "summary": summary})
    told = failure(run_tipple(*words, check=1), summary)
    assert (told["status"], told["kind"], "\n" in told["error"]) == ("failed", "BadRecord", False)
    assert (told["detail"]["record_number"], told["detail"]["column"]) == (2, "a")
    # The next run takes it away, as it would the summary of a load.
    write(source, "1,a\n")
    run_tipple(*words)
    assert json.loads(summary.read_text())["status"] == "loaded"


def test_rows_that_a_trigger_keeps_out_as_json(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What is found while rows are stored is no wrong usage, and its remedy is a hint."""
    postgres_target.execute(
        "CREATE TABLE t (a integer, b text); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN IF NEW.a = 2 THEN RETURN NULL; END IF; RETURN NEW; END'; "
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"
    )
    source, summary = write(tmp_path / "in.csv", "1,a\n2,b\n"), tmp_path / "summary.json"
    words = load_words(postgres_target.url, (source,), "t", {"header": "no", "json": True, "summary": summary})
    told = failure(run_tipple(*words, check=1), summary)
    assert (told["status"], told["kind"]) == ("failed", "TippleError")
    assert told["error"].endswith("was sent 2 rows and has stored 1: a trigger keeps rows out")
    assert told["hint"].startswith("for the load: ALTER TABLE")
    # The remedy, literally.
    postgres_target.execute(told["hint"].removeprefix("for the load: ").partition(";")[0])
    run_tipple(*words)
    assert postgres_target.count("t") == 2


def test_a_refusal_as_json(engine_target: Target, tmp_path: Path) -> None:
    source, summary = write(tmp_path / "in.csv", "1\n"), tmp_path / "summary.json"
    words = load_words(engine_target.url, (source,), "missing", {"header": "no", "json": True, "summary": summary})
    told = failure(run_tipple(*words, check=2), summary)
    assert (told["status"], told["kind"]) == ("refused", "UsageError")
    assert told["hint"]
    assert not summary.exists()
    # What is no summary stays, whatever goes wrong.
    words = load_words(engine_target.url, (source,), "missing", {"header": "no", "json": True, "summary": source})
    failure(run_tipple(*words, check=2), source)
    assert source.read_text() == "1\n"


def test_sources_that_are_stored_by_several_transactions(engine_target: Target, tmp_path: Path) -> None:
    """What was read of each is summed up over them."""
    engine_target.execute("CREATE TABLE t (a integer)")
    paths = [write(tmp_path / f"{n}.csv", "".join(f"{i}\n" for i in range(n))) for n in (3, 50, 7)]
    run = load(engine_target, *paths, no_atomic=True, commit_every=5, jobs=2, header="no")
    assert [source["rows"] for source in run.summary["sources"]] == [3, 50, 7]
    assert [source["text_bytes"] for source in run.summary["sources"]] == [path.stat().st_size for path in paths]
