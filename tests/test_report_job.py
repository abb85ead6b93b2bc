"""What is shown of a job: the progress of all its tables in one display, and the report."""

from __future__ import annotations

import io
import json
from typing import Any

import jsonschema
import msgspec
import pytest
from rich.console import Console

from test_report import noon, report, shown, snapshot
from tipple.plan.storage import StorageSize, as_tree, depths
from tipple.report.bar import ProgressConsole
from tipple.report.job import JobReport, TableOutcome
from tipple.report.model import PhaseTime
from tipple.report.progress import open_progress
from tipple.report.render import plain_text, render_job
from tipple.report.schema import encode_summary, summary_schema
from tipple.run.phase_clock import PhaseClock


def tables(elapsed_seconds: float) -> dict[str, Any]:
    return snapshot(
        elapsed_seconds,
        phase="run",
        streams=[],
        tables_total=8,
        tables_done=3,
        tables=[
            {
                "table": "orders",
                "phase": "load",
                "bytes_total": 1000,
                "bytes_done": 419,
                "rows": 1234,
                "streams": [{"n": 1, "state": "send", "slice": 1, "bytes": 1, "rows": 1}],
            },
            {"table": "[x]", "phase": "publish", "bytes_total": 9, "bytes_done": 9, "rows": 7, "streams": []},
        ],
    )


def test_progress_of_several_tables() -> None:
    (line,) = shown("plain", [tables(2)])
    assert line == (
        "12:34:56 run  3 of 8 tables  400 MB of 760 MB  52 %  3,200,000 rows  200 MB/s  2 s left  "
        "[orders load 41 %, [x] publish]"
    )
    assert json.loads(shown("json", [tables(2)])[0])["tables"][0]["table"] == "orders"


def test_bar_of_several_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    console = ProgressConsole(file=stream, force_terminal=True, width=80, height=20, color_system=None)
    progress = open_progress("bar", stream, console=console)
    progress.update(tables(2))
    progress.close()
    drawn = stream.getvalue()
    assert "orders  load     41 % [1 send]  1,234 rows" in drawn
    assert "[x]     publish" in drawn


def test_warnings_are_said_at_once() -> None:
    for form, expected in (("plain", "tipple: warning: [b] full"), ("none", ""), ("bar", "tipple: warning: [b] full")):
        stream = io.StringIO()
        progress = open_progress(form, stream, now=noon)  # type: ignore[arg-type]
        progress.warn("[b] full")
        assert stream.getvalue().strip() == expected, form
    stream = io.StringIO()
    open_progress("json", stream, now=noon).warn("full")
    assert json.loads(stream.getvalue())["warning"] == "full"


def job(**changes: Any) -> JobReport:
    fields: dict[str, Any] = {
        "file": "job.toml",
        "publish": "each",
        "streams": 2,
        "exit_status": 1,
        "rows": 12_002_430,
        "bytes": 1_520_000_000,
        "seconds": 4.0,
        "mb_per_second": 380.0,
        "phases": [PhaseTime(name="plan", seconds=0.5), PhaseTime(name="load", seconds=3.25)],
        "tables": [
            TableOutcome(name="a", status="loaded", report=report(table="a", notes=["same", "of a"])),
            TableOutcome(name="b", status="loaded", report=report(table="b", notes=["same", "of b"])),
            TableOutcome(name="c", status="failed", error="no [room]", exit_status=1),
            TableOutcome(name="d", status="not started", exit_status=1),
        ],
    }
    return JobReport(**{**fields, **changes})


def test_report_of_a_job() -> None:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    render_job(job(), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    total = next(line for line in text.splitlines() if line.startswith("loaded"))
    assert "4.00" in total, "tables that were loaded side by side take the time of the job, not the sum of theirs"
    lines = [line.split() for line in text.splitlines()]
    for row in (["load", "3.25", "81.2"], ["other", "0.25", "6.2"], ["total", "4.00", "100.0"]):
        assert row in lines, "phases of tables side by side are the job's, not the sum of theirs"
    assert text.count("same") == 1
    assert "a: of a" in text
    assert "c: failed: no [room]" in text
    assert "d: not started" in text


def test_each_moment_of_a_job_is_divided_among_the_tables_at_work() -> None:
    now = 0.0
    clock = PhaseClock("plan", lambda: now)

    def step(seconds: float, table: str, phase: str | None) -> None:
        nonlocal now
        now += seconds
        if phase is None:
            clock.leave(table)
        else:
            clock.enter(table, phase)

    step(1, "a", "load")
    clock.idle("other")
    step(4, "b", "load")
    step(2, "a", "index")
    step(6, "a", "publish together")
    # While the other one is at work, that is nobody's time.
    step(10, "b", "publish together")
    step(3, "a", None)
    step(0, "b", None)
    now += 0.5
    found = {phase.name: phase.seconds for phase in clock.phases}
    assert found == {"plan": 1, "load": 4 + 2 + 3 + 10, "index": 3, "publish together": 3, "other": 0.5}
    assert list(found) == ["plan", "load", "index", "publish together", "other"]
    assert sum(found.values()) == now


def test_summary_of_a_job_fits_its_schema() -> None:
    schema = summary_schema(JobReport)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(encode_summary(job())), schema)
    for definition in schema["$defs"].values():
        assert all(field["description"] for field in definition["properties"].values())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(encode_summary(job())), "tables": [{}]}, schema)


def size(name: str, **fields: Any) -> StorageSize:
    return StorageSize(**{"name": name, "kind": "partition", "pages": 1, "bytes": 10, "rows": 5, **fields})


def test_storage_in_the_order_of_the_bounds() -> None:
    """Numbers count as numbers, dates as they are; what is open below comes first, the default partition last."""
    parts = [
        size("default", parent="t", bound="DEFAULT"),
        size("p1000", parent="t", lower_bound="'1000'"),
        size("p200", parent="t", lower_bound="200", rows=None),
        size("p0", parent="t", lower_bound="MINVALUE"),
        size("i", parent="p0", kind="index"),
        size("t", kind="partitioned table", pages=0, rows=0),
    ]
    tree = as_tree(parts)
    assert [row.name for row in tree] == ["t", "p0", "i", "p200", "p1000", "default"]
    assert (tree[0].pages, tree[0].bytes, tree[0].rows) == (4, 40, None)
    known = as_tree([msgspec.structs.replace(part, rows=2) for part in parts])
    assert known[0].rows == 8
    assert depths(tree) == [0, 1, 2, 1, 1, 1]
    assert [row.name for row in as_tree(parts[:5])] == ["default", "p1000", "p200", "p0", "i"]


def test_storage_of_lists_and_remainders() -> None:
    bounds = ["DEFAULT", "FOR VALUES IN ('b')", "FOR VALUES IN ('a')"]
    parts = [size("t", kind="partitioned table"), *(size(bound, parent="t", bound=bound) for bound in bounds)]
    assert [row.name for row in as_tree(parts)] == ["t", "FOR VALUES IN ('a')", "FOR VALUES IN ('b')", "DEFAULT"]
    bounds = [f"FOR VALUES WITH (modulus 12, remainder {n})" for n in (10, 2, 1)]
    parts = [size("t", kind="partitioned table"), *(size(bound, parent="t", bound=bound) for bound in bounds)]
    assert [row.name for row in as_tree(parts)] == ["t", *reversed(bounds)]


@pytest.mark.parametrize(("width_columns", "dates", "kinds"), [(50, 0, 0), (60, 0, 0), (80, 1, 0), (132, 1, 1)])
def test_storage_that_is_too_wide(width_columns: int, dates: int, kinds: int) -> None:
    """No date and no name is cut in two where a column can be left out: the kinds, or the bounds too."""
    bounds = {"lower_bound": "'1992-01-01'", "upper_bound": "'1993-01-01'", "bound": "FOR VALUES …"}
    part = {"pages": 4500, "bytes": 36_864_000, "rows": 750_000, **bounds}
    storage = [size("orders", kind="partitioned table"), size("orders_1992_01_01", parent="orders", **part)]
    text = plain_text([report(storage=storage)], width_columns)
    (line,) = [line for line in text.splitlines() if "orders_1992_01_01 " in line]
    assert (line.count("'1992-01-01'"), line.count("'1993-01-01'"), text.count("partitioned")) == (dates, dates, kinds)
    assert line.split()[-3:] == ["4,500", "36.9", "750,000"]
