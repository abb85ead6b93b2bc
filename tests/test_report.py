"""Tables, summary and progress: everything that a user sees of a job."""

from __future__ import annotations

import datetime
import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tipple._core import CoreError
from tipple.errors import Interrupted
from tipple.report.bar import BarProgress, ProgressConsole
from tipple.report.causes import cause_lines
from tipple.report.model import (
    LoadReport,
    PhaseTime,
    RejectCause,
    SourceReport,
    VerifyReport,
    mb_per_second,
    rows_per_second,
)
from tipple.report.progress import PROGRESS_FORMS, ProgressForm, RateEstimate, open_progress
from tipple.report.render import plain_text, render_report
from tipple.report.schema import decode_summary, encode_summary, schema_text, summary_schema, write_schema
from tipple.run.runner import JobRunner


def report(**changes: Any) -> LoadReport:
    plain = LoadReport(
        job_id="3f2a91c0",
        status="loaded",
        target="postgresql://u:***@h/db",
        table="lineitem",
        mode="append",
        write_path="binary",
        write_path_reason="every column type has a binary codec",
        strategy="staging",
        strategy_reason="the table holds rows already, so each stream fills a staging table of its own",
        streams=2,
        slices=12,
        slices_resumed=0,
        retries=0,
        fallback_windows=0,
        rows=6_001_215,
        bytes=759_863_287,
        rejects=0,
        rows_inserted=None,
        rows_updated=None,
        rows_ignored=None,
        rows_superseded=None,
        rejects_file=None,
        reasons_file=None,
        seconds=4.0,
        mb_per_second=189.97,
        rows_per_second=1_500_303.75,
        peak_memory_bytes=180_000_000,
        phases=[PhaseTime(name="plan", seconds=0.5), PhaseTime(name="load", seconds=3.0)],
        sources=[SourceReport(path="data/lineitem.tbl", bytes=759_863_287, rows=6_001_215)],
        verify=VerifyReport(
            kind="checksum",
            ok=True,
            rows_source=6_001_215,
            rows_target=6_001_215,
            digest_source="a3f2",
            digest_target="a3f2",
            seconds=0.8,
        ),
        settings={"jobs": "2"},
        notes=["The rows are logged, since wal_level is replica."],
        started_at="2026-01-02T03:04:05Z",
        finished_at="2026-01-02T03:04:09Z",
    )
    return msgspec.structs.replace(plain, **changes)


def test_an_upsert_says_what_became_of_the_records() -> None:
    counts = {"rows_inserted": 1, "rows_updated": 2_000, "rows_ignored": 0, "rows_superseded": 3}
    for changes, said in (
        (counts, "1 row inserted, 2,000 updated, 3 left out for a later record with the same key"),
        (counts | {"rows_updated": 0, "rows_ignored": 5, "rows_superseded": 0}, "1 row inserted, 0 updated, 5 ignored"),
    ):
        shown = plain_text([report(**changes)])
        assert said in " ".join(shown.split())
    assert "inserted" not in plain_text([report()])


# Summary.


def test_schema_file_is_up_to_date() -> None:
    path = Path(__file__).parent.parent / "docs" / "summary.schema.json"
    assert path.read_text(encoding="utf-8") == schema_text(), "run tipple.report.schema.write_schema"


def test_write_schema(tmp_path: Path) -> None:
    write_schema(tmp_path / "x.json")
    assert json.loads((tmp_path / "x.json").read_text()) == summary_schema()


def test_every_field_is_documented_and_required() -> None:
    schema = summary_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for definition in schema["$defs"].values():
        assert definition["description"]
        assert sorted(definition["required"]) == sorted(definition["properties"])
        for field in definition["properties"].values():
            assert field["description"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"verify": None, "status": "already loaded"},
        {"status": "planned", "sources": [SourceReport(path="a", bytes=0, rows=None)]},
    ],
)
def test_summary_fits_its_schema_and_comes_back(changes: dict[str, Any]) -> None:
    text = encode_summary(report(**changes))
    jsonschema.validate(json.loads(text), summary_schema())
    assert json.loads(text)["tipple_summary_version"] == 1
    assert decode_summary(text) == report(**changes)


def test_schema_refuses_what_is_no_summary() -> None:
    summary = json.loads(encode_summary(report()))
    for name in summary:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({key: summary[key] for key in summary if key != name}, summary_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**summary, "tipple_summary_version": 2}, summary_schema())


def test_rates_without_time_are_numbers() -> None:
    assert (mb_per_second(10, 0), rows_per_second(10, 0)) == (0.0, 0.0)
    assert mb_per_second(5_000_000, 2) == 2.5


# Tables.


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_report_of_one_table() -> None:
    lines = lines_of(plain_text([report()]))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "Table           Rows      MB   Seconds   MB/s      Rows/s   Write path" in lines
    assert "lineitem   6,001,215   759.9      4.00    190   1,500,304   binary" in lines
    assert "write path  binary: every column type has a binary codec" in lines
    assert "load       3.00      75.0" in lines
    assert "other      0.50      12.5" in lines
    assert "total      4.00     100.0" in lines
    assert "checksum agrees: 6,001,215 rows read and stored, digest a3f2 on both" in text
    assert "note        The rows are logged" in text
    assert "\x1b" not in text


def test_report_of_several_tables_adds_up() -> None:
    reports = [
        report(),
        report(table="orders", rows=1_500_000, write_path="text", write_path_reason="the type xml"),
        report(table="part", status="already loaded", job_id="77"),
    ]
    text = plain_text(reports)
    assert "loaded     7,501,215   1,519.7      8.00    190     937,652" in text
    assert "write path  binary (lineitem): every column" in text
    assert "write path  text (orders): the type xml" in text
    assert text.count("each stream") == 1, "what holds for all is said once"
    assert "part: already loaded by job 77; nothing was changed" in text
    assert "total      8.00     100.0" in text


def test_failed_verification_shows_both_sides() -> None:
    verify = VerifyReport(
        kind="count",
        ok=False,
        rows_source=10,
        rows_target=9,
        digest_source=None,
        digest_target=None,
        seconds=0,
    )
    text = plain_text([report(verify=verify, rejects=3, retries=1, slices_resumed=4)])
    assert "count DIFFERS: 10 rows read, 9 rows in the target" in text
    assert "3 records not stored" in text
    assert "4 of them from an earlier run, 1 retry" in " ".join(text.split())


@pytest.mark.parametrize("width_columns", [60, 80, 132])
def test_names_are_neither_markup_nor_cut(width_columns: int) -> None:
    name = '"' + "[red]long " * 9 + '"'
    text = plain_text([report(table=name, target="duckdb:///[bold]x")], width_columns)
    assert text.count("[red]") == 9
    assert "…" not in text
    assert "duckdb:///[bold]x" in text
    assert max(map(len, lines_of(text))) <= width_columns
    assert "6,001,215" in text


def test_plan() -> None:
    sources = [SourceReport(path=f"part-{number}.csv", bytes=10**6 * number, rows=None) for number in range(1, 31)]
    text = plain_text([report(status="planned", sources=sources, bytes=465_000_000)])
    assert "append into lineitem; nothing has been done" in text
    assert "465 MB in 30 sources, 12 slices, 2 streams" in text
    assert "part-30.csv" in text
    assert "and 18 smaller ones   171.0" in text
    assert "jobs      2" in text
    assert "Seconds" not in text


def test_colour_is_used_on_a_terminal_only() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=80)
    render_report(report(), console)
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[32m" in console.file.getvalue()


# Progress.


def snapshot(elapsed_seconds: float, **changes: Any) -> dict[str, Any]:
    return {
        "phase": "load",
        "bytes_total": 760_000_000,
        "bytes_done": min(int(elapsed_seconds * 200e6), 760_000_000),
        "rows": int(elapsed_seconds * 1_600_000),
        "slices_total": 12,
        "slices_done": 3,
        "retries": 0,
        "streams": [
            {"n": 1, "state": "read", "slice": None, "bytes": 1000, "rows": 10},
            {"n": 2, "state": "send", "slice": 17, "bytes": 152_000_000, "rows": 1_230_000},
            {"n": 3, "state": "read", "slice": 4, "bytes": 0, "rows": 0},
        ],
        "elapsed_seconds": elapsed_seconds,
        **changes,
    }


def noon() -> datetime.datetime:
    return datetime.datetime(2026, 1, 2, 12, 34, 56, tzinfo=datetime.UTC)


def shown(form: ProgressForm, snapshots: list[dict[str, Any]], *, close: bool = True) -> list[str]:
    stream = io.StringIO()
    progress = open_progress(form, stream, now=noon)
    for each in snapshots:
        progress.update(each)
    if close:
        progress.close()
        progress.close()
    return stream.getvalue().splitlines()


def test_plain_line() -> None:
    lines = shown("plain", [snapshot(tenth / 10) for tenth in range(21)])
    assert lines == ["12:34:56 load  400 MB of 760 MB  52 %  3,200,000 rows  200 MB/s  2 s left  [1 send 2 read]"]


def test_plain_interval_phases_and_end() -> None:
    loads = [snapshot(tenth / 10) for tenth in range(39)]
    verify = [{"phase": "verify", "elapsed_seconds": seconds} for seconds in (3.9, 4.0)]
    lines = shown("plain", loads + verify)
    assert [line.split("  ")[0] for line in lines] == ["12:34:56 load", "12:34:56 verify", "12:34:56 verify"]
    lines = shown("plain", [snapshot(second) for second in range(1, 12)])
    assert len(lines) == 4
    assert "100 %" in lines[-1]
    assert " left" not in lines[-1]


def test_generate_has_no_streams() -> None:
    generating = {
        "phase": "generate",
        "bytes_total": 0,
        "bytes_done": 5_000_000,
        "rows": 7,
        "elapsed_seconds": 2.5,
    }
    assert shown("plain", [generating]) == ["12:34:56 generate  5.00 MB  7 rows  2.00 MB/s"]


@pytest.mark.parametrize("form", [form for form in PROGRESS_FORMS if form != "json"])
def test_short_jobs_are_silent(form: ProgressForm) -> None:
    assert shown(form, [snapshot(tenth / 10) for tenth in range(20)]) == []


def test_none_is_silent() -> None:
    assert shown("none", [snapshot(100)]) == []


def test_json_lines() -> None:
    lines = [json.loads(line) for line in shown("json", [snapshot(0.3), snapshot(0.4), snapshot(0.8), snapshot(1)])]
    assert [line["elapsed_seconds"] for line in lines] == [0.3, 0.8, 1]
    assert lines[-1]["time"] == "2026-01-02T12:34:56.000+00:00"
    assert lines[-1]["mb_per_second"] == pytest.approx(200)
    assert lines[-1]["seconds_left"] == pytest.approx(2.8)
    assert lines[-1]["streams"] == snapshot(1)["streams"]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "ascii"])
def test_json_lines_in_any_encoding(encoding: str) -> None:
    """Python's stderr writes what its encoding has no character for with backslashes, which JSON does not know."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
    open_progress("json", stream, now=noon).warn("tü€😀")
    written = cast(io.BytesIO, stream.buffer).getvalue()
    assert json.loads(written.decode(encoding))["warning"] == "tü€😀"


def test_the_caller_may_reuse_its_dictionary() -> None:
    stream = io.StringIO()
    progress = open_progress("json", stream, now=noon)
    state = snapshot(1)
    progress.update(state)
    state.update(snapshot(1.1))
    progress.update(state)
    progress.close()
    assert len(stream.getvalue().splitlines()) == 2


class BrokenStream(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("form", ["plain", "json"])
def test_a_broken_pipe_does_not_end_the_job(form: ProgressForm) -> None:
    progress = open_progress(form, BrokenStream(), now=noon)
    for second in range(20):
        progress.update(snapshot(second))
    progress.close()


def test_a_broken_terminal_does_not_end_the_job() -> None:
    stream = BrokenStream()
    console = ProgressConsole(file=stream, force_terminal=True, width=80)
    progress = open_progress("bar", stream, console=console)
    for second in range(20):
        progress.update(snapshot(second))
    progress.close()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("form", ["auto", "bar", "plain"])
def test_where_a_bar_is_drawn(monkeypatch: pytest.MonkeyPatch, form: ProgressForm) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert not isinstance(open_progress(form, io.StringIO()), BarProgress)
    assert isinstance(open_progress(form, Terminal()), BarProgress) == (form != "plain")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(open_progress(form, io.StringIO()), BarProgress) == (form != "plain")
    monkeypatch.setenv("TERM", "dumb")
    assert not isinstance(open_progress(form, Terminal()), BarProgress)


def test_what_draws_is_loaded_where_something_is_drawn(tmp_path: Path) -> None:
    """Not for JSON; and for the report's tables while rows come in: nobody waits for it before."""
    (tmp_path / "a.csv").write_text("1\n2\n")
    (tmp_path / "t.sql").write_text("CREATE TABLE t (a integer)")
    for options, loaded in ((["--json"], False), ([], True)):
        target = f"duckdb:///{tmp_path}/{loaded}.duckdb"
        words = ["load", "a.csv", "--into", target, "--table", "t", "--schema", "t.sql", *options]
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "tipple", *words], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        imported = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "import time:" in line]
        assert ("rich.console" in imported) == loaded
        assert not loaded or imported.index("rich.console") > imported.index("tipple.engines.duckdb.load")


def test_meanwhile_is_once() -> None:
    class Job:
        def wait(self, seconds: float) -> bool:
            return True

        def cancel(self) -> None:
            raise AssertionError

        def result(self) -> str:
            return '{"rows": 1}'

    calls: list[str] = []
    runner = JobRunner(open_progress("none", io.StringIO()), meanwhile=lambda: calls.append("called"))
    assert [runner.run(Job()), runner.run(Job())] == [{"rows": 1}] * 2
    assert calls == ["called"]


@pytest.mark.parametrize("done", [True, False])
def test_ctrl_c_beside_the_publishing_commit(done: bool) -> None:
    """What has been published all the same is not said to be invisible, and loaded again."""

    class Job:
        def __init__(self) -> None:
            self.is_cancelled = False

        def wait(self, seconds: float) -> bool:
            if not self.is_cancelled:
                raise KeyboardInterrupt
            return True

        def cancel(self) -> None:
            self.is_cancelled = True

        def result(self) -> str:
            if not done:
                raise CoreError('{"kind": "cancelled"}')
            return '{"rows": 1}'

    runner = JobRunner(open_progress("none", io.StringIO()))
    try:
        with pytest.raises(Interrupted):
            runner.run(Job())
        if not done:
            with pytest.raises(Interrupted):
                runner.run(Job(), publishes=True)
            return
        assert runner.run(Job(), publishes=True) == {"rows": 1}
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        runner.close()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    console = ProgressConsole(file=stream, force_terminal=True, width=80, height=6, color_system=None)
    progress = open_progress("auto", stream, console=console)
    progress.update(snapshot(1.9))
    assert stream.getvalue() == ""
    progress.update(snapshot(2.0))
    drawn = stream.getvalue()
    assert "400 MB of 760 MB  52 %  3,200,000 rows  200 MB/s  2 s left" in drawn
    assert "load  ━" in drawn
    assert "stream 2  send    slice 17   152 MB  1,230,000 rows" in drawn
    assert "and 1 more [1 read]" in drawn, "three streams do not fit on six lines"
    progress.update(snapshot(2.05))
    assert stream.getvalue() == drawn, "redrawing costs time, so not at every update"
    progress.close()
    assert stream.getvalue().count("\x1b[?25h") == 1, "the cursor is back"


@given(st.lists(st.floats(0.01, 3), min_size=1, max_size=30))
def test_a_steady_rate_is_shown_whatever_the_intervals(intervals: list[float]) -> None:
    rate = RateEstimate()
    elapsed_seconds = 0.0
    for interval in intervals:
        elapsed_seconds += interval
        rate.update("load", int(elapsed_seconds * 1e9), elapsed_seconds)
    assert rate.bytes_per_second == pytest.approx(1e9, rel=1e-3)


def test_rate_follows_a_stall_and_a_new_phase() -> None:
    rate = RateEstimate()
    for second in range(1, 11):
        rate.update("load", second * 100, second)
    assert rate.bytes_per_second == pytest.approx(100)
    assert rate.seconds_left(1000) == pytest.approx(10)
    rate.update("load", 900, 11)
    assert 50 < rate.bytes_per_second < 100, "bytes that go back are no negative rate"
    for second in range(12, 60):
        rate.update("load", 900, second)
    assert rate.seconds_left(1000) is None
    rate.update("verify", 500, 60)
    assert rate.bytes_per_second == 0
    rate.update("verify", 700, 61)
    assert rate.bytes_per_second == pytest.approx(200)


def cause(rejects: int, column: str | None = None, **changes: Any) -> RejectCause:
    facts = {"sqlstate": "22P02", "first_file": "a.csv", "first_record_number": 7, "first_reason": "no number"}
    return RejectCause(rejects=rejects, column=column, **{**facts, **changes})


def test_causes_of_rejects() -> None:
    """The most frequent ones each in a line that is harmless to a terminal, the rest in one."""
    causes = [
        cause(2000, "a"),
        cause(5, sqlstate=None, first_record_number=None),
        cause(4, "b", first_reason="\x1b[2J" + "x" * 200),
        *(cause(n, f"c{n}") for n in (3, 2, 1)),
    ]
    assert cause_lines(causes[:2]) == [
        "2,000 x column a, 22P02: no number (a.csv, record 7)",
        "5 x record: no number (a.csv)",
    ]
    assert cause_lines(causes)[2].startswith("4 x column b, 22P02: \\x1b[2Jx")
    assert "more characters" in cause_lines(causes)[2]
    assert cause_lines(causes)[5:] == ["1 by another cause"]
    assert cause_lines([*causes, cause(1)])[5:] == ["2 by other causes"]
    text = plain_text([report(rejects=2005, reject_causes=causes[:2])])
    assert "2,000 x column a, 22P02: no number (a.csv, record 7)" in " ".join(text.split())
