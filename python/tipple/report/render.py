"""Draws reports as tables for people: readable at 80 columns, without colour, and when piped into a file.

Figures stand right-aligned with thousands separators, and units stand in headings (MB = 10^6 bytes). Nothing
of a user's data is taken as markup: names go in as `Text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tipple.errors import printable_text
from tipple.plan.size import format_bytes, format_count, format_duration
from tipple.plan.storage import StorageSize, depths
from tipple.plan.structure import AppliedStructure
from tipple.report.causes import cause_lines
from tipple.report.job import JobReport
from tipple.report.model import REST_PHASE, LoadReport, VerifyReport, mb_per_second, rows_per_second

__all__ = ["plain_text", "render_job", "render_plan", "render_report", "render_reports", "storage_table"]

LARGEST_SOURCES_SHOWN = 12
"""A plan lists so many sources and counts the rest; thousands of files would push the plan off the screen."""
LEAST_SHOWN_SECONDS = 0.005
WIDE_COLUMNS = 78
"""From this width on, all columns fit beside a table name of usual length."""
WIDEST_COLUMNS = 100
"""From this width on, load and processing time have columns of their own, and no line."""
LABEL_WIDTH = 12
_ANY_WIDTH = 10_000


def render_report(report: LoadReport, console: Console) -> None:
    """Draw one report; a planned one as a plan."""
    render_reports([report], console)


def render_reports(reports: Sequence[LoadReport], console: Console, *, job: JobReport | None = None) -> None:
    """Draw the reports of several loads: a row for each table, and the wall time by phase.

    Args:
        reports: of loads that ran one after another, or side by side in a job.
        console: where to draw.
        job: has the wall time of all of them; None where that is the sum of theirs.
    """
    plans = [report for report in reports if report.status == "planned"]
    finished = [report for report in reports if report.status != "planned"]
    for plan in plans:
        render_plan(plan, console)
    if not finished:
        return
    console.print()
    for target in dict.fromkeys(report.target for report in finished):
        _line(console, "target", target)
    console.print(_tables_table(finished, None if job is None else job.seconds, width_columns=console.width))
    _render_choices(finished, console)
    timed = [job] if job is not None else [report for report in finished if report.status == "loaded"] or finished
    phases = _phase_seconds(timed)
    if phases:
        console.print(_phases_table(phases))
    storage = [size for report in finished for size in report.storage]
    if len(storage) > 1:
        console.print(Padding(_fitting_storage_table(storage, console), (1, 0, 1, 0)))
    # What is said of every table is said once.
    common = [note for note in finished[0].notes if all(note in report.notes for report in finished)]
    for report in finished:
        prefix = f"{report.table}: " if len(finished) > 1 else ""
        _render_outcome(report, prefix, console, unless=common)
    for note in common:
        _line(console, "note", note)
    console.print()


def render_job(report: JobReport, console: Console) -> None:
    """Draw the report: the tables that were loaded, then the others."""
    render_reports(report.reports, console, job=report)
    for table in report.tables:
        if table.report is None:
            text = Text(f"{table.name}: {table.status}", style="bold red" if table.status == "failed" else "yellow")
            said = table.error if table.error is not None else table.note
            if said is not None:
                text.append(f": {said}", style="none")
            console.print(text)


def _new_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, highlight=False)


def _tables_table(reports: Sequence[LoadReport], wall_seconds: float | None, *, width_columns: int) -> Padding:
    """A row for each table, and one for all. Narrow leaves out the last columns, so that names keep their room."""
    table = _new_table()
    table.add_column("Table", overflow="fold", min_width=8)
    for heading in ("Rows", "MB", "Seconds", "MB/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    if width_columns >= WIDE_COLUMNS:
        table.add_column("Rows/s", justify="right", no_wrap=True)
        table.add_column("Write path", no_wrap=True)
    if width_columns >= WIDEST_COLUMNS:
        table.add_column("Load s", justify="right", no_wrap=True)
        table.add_column("Processing s", justify="right", no_wrap=True)
    columns = len(table.columns)
    for report in reports:
        if report.status == "already loaded":
            done = ["-", "-", "-", "already loaded", "-", "-"]
        else:
            done = [
                f"{report.seconds:,.2f}",
                f"{report.mb_per_second:,.0f}",
                f"{report.rows_per_second:,.0f}",
                report.write_path,
                f"{report.load_seconds:,.2f}",
                f"{report.processing_seconds:,.2f}",
            ]
        row = [Text(report.table), *map(Text, (format_count(report.rows), _megabytes(report.bytes), *done))]
        table.add_row(*row[:columns])
    loaded = [report for report in reports if report.status == "loaded"]
    if len(loaded) > 1:
        rows = sum(report.rows for report in loaded)
        size_bytes = sum(report.bytes for report in loaded)
        seconds = sum(report.seconds for report in loaded) if wall_seconds is None else wall_seconds
        table.add_section()
        total = [
            "loaded",
            format_count(rows),
            _megabytes(size_bytes),
            f"{seconds:,.2f}",
            f"{mb_per_second(size_bytes, seconds):,.0f}",
            f"{rows_per_second(rows, seconds):,.0f}",
            "",
            f"{sum(report.load_seconds for report in loaded):,.2f}",
            f"{sum(report.processing_seconds for report in loaded):,.2f}",
        ]
        table.add_row(*total[:columns], style="bold")
    return Padding(table, (1, 0, 1, 0))


def _fitting_storage_table(storage: Sequence[StorageSize], console: Console) -> Table:
    """The table without the columns for which there is no room: a date or a name is not read in two pieces."""
    anyhow = console.options.update(width=_ANY_WIDTH)
    forms = ((True, True), (False, True), (False, False))
    tables = (storage_table(storage, kinds=kinds, bounds=bounds) for kinds, bounds in forms)
    fitting = (table for table in tables if console.measure(table, options=anyhow).maximum <= console.width)
    return next(fitting, None) or storage_table(storage, kinds=False, bounds=False)


def storage_table(storage: Sequence[StorageSize], *, kinds: bool = True, bounds: bool = True) -> Table:
    """A row for each table, partition and index, with `kinds`; and with `bounds` where there are some."""
    bounded = bounds and any(size.bound is not None for size in storage)
    table = _new_table()
    table.add_column("Storage", overflow="fold", min_width=8)
    if kinds:
        table.add_column("Kind", no_wrap=True)
    if bounded:
        table.add_column("From", overflow="fold")
        table.add_column("To", overflow="fold")
    for heading in ("Pages", "MB", "Rows"):
        table.add_column(heading, justify="right", no_wrap=True)
    for size, depth in zip(storage, depths(storage), strict=True):
        limits = [size.lower_bound or size.bound or "", size.upper_bound or ""] if bounded else []
        table.add_row(
            # Indented below what it belongs to.
            Text("  " * depth + size.name),
            *([size.kind] if kinds else []),
            *map(Text, limits),
            format_count(size.pages),
            _megabytes(size.bytes),
            "" if size.rows is None else format_count(size.rows),
        )
    return table


def _render_choices(reports: Sequence[LoadReport], console: Console) -> None:
    """Which write path and strategy, and why: once for all tables that agree."""
    loaded = [report for report in reports if report.status == "loaded"]
    groups: dict[tuple[str, str, str], list[str]] = {}
    for report in loaded:
        path = ("write path", report.write_path, report.write_path_reason)
        groups.setdefault(path, []).append(report.table)
    for report in loaded:
        strategy = ("strategy", report.strategy, report.strategy_reason)
        groups.setdefault(strategy, []).append(report.table)
    for (label, choice, reason), tables in groups.items():
        which = "" if len(tables) == len(loaded) else f" ({', '.join(tables)})"
        _line(console, label, f"{choice}{which}: {reason}" if reason else f"{choice}{which}")


def _phase_seconds(reports: Sequence[LoadReport | JobReport]) -> dict[str, float]:
    """Seconds by phase in order of first appearance, with the remainder under `other`."""
    seconds_by_phase: dict[str, float] = {}
    for report in reports:
        for phase in report.phases:
            seconds_by_phase[phase.name] = seconds_by_phase.get(phase.name, 0.0) + phase.seconds
    rest_seconds = sum(report.seconds for report in reports) - sum(seconds_by_phase.values())
    if seconds_by_phase and rest_seconds >= LEAST_SHOWN_SECONDS:
        seconds_by_phase[REST_PHASE] = seconds_by_phase.get(REST_PHASE, 0.0) + rest_seconds
    return seconds_by_phase


def _phases_table(seconds_by_phase: dict[str, float]) -> Padding:
    whole_seconds = sum(seconds_by_phase.values())
    table = _new_table()
    table.add_column("Phase", overflow="fold")
    table.add_column("Seconds", justify="right", no_wrap=True)
    table.add_column("Share %", justify="right", no_wrap=True)
    for name, seconds in seconds_by_phase.items():
        share = 100 * seconds / whole_seconds if whole_seconds > 0 else 0.0
        table.add_row(Text(name), f"{seconds:,.2f}", f"{share:.1f}")
    table.add_section()
    table.add_row("total", f"{whole_seconds:,.2f}", "100.0" if whole_seconds > 0 else "0.0", style="bold")
    return Padding(table, (1, 0, 1, 0))


def _render_outcome(report: LoadReport, prefix: str, console: Console, *, unless: Sequence[str]) -> None:
    """What a load did, with its notes but for those that are said elsewhere."""
    if report.status == "already loaded":
        text = f"{prefix}already loaded by job {report.job_id}; nothing was changed"
        _line(console, "job", text, style="yellow")
    else:
        parts = [
            f"{prefix}{report.job_id}",
            _counted(report.streams, "stream"),
            _counted(report.slices, "slice"),
        ]
        if report.slices_resumed:
            parts.append(f"{format_count(report.slices_resumed)} of them from an earlier run")
        if report.retries:
            parts.append(_counted(report.retries, "retry", "retries"))
        if report.fallback_windows:
            parts.append(f"{_counted(report.fallback_windows, 'slice')} by a slower write path")
        if report.peak_memory_bytes:
            parts.append(f"peak memory {format_bytes(report.peak_memory_bytes)}")
        _line(console, "job", ", ".join(parts))
    if console.width < WIDEST_COLUMNS and report.processing_seconds >= LEAST_SHOWN_SECONDS:
        load, processing = format_duration(report.load_seconds), format_duration(report.processing_seconds)
        _line(console, "time", f"{prefix}load {load}, processing {processing}")
    if report.structure is not None:
        _line(console, "structure", prefix + _structure_text(report.structure))
    if report.rows_inserted is not None:
        _line(console, "merged", prefix + _merged_text(report))
    if report.rejects:
        _line(console, "rejects", f"{prefix}{_rejects_text(report)}", style="bold red")
        for text in cause_lines(report.reject_causes):
            _line(console, "", text)
    if report.verify is not None:
        _line(
            console,
            "verify",
            prefix + _verify_text(report.verify),
            style="green" if report.verify.ok else "bold red",
        )
    for note in report.notes:
        if note not in unless:
            _line(console, "note", prefix + note)


def _structure_text(applied: AppliedStructure) -> str:
    text = applied.structure
    if applied.access_method is not None:
        text += f" ({applied.access_method})"
    if applied.key:
        text += f" by {', '.join(applied.key)}"
    if applied.load_as != applied.structure:
        text += f", loaded as {applied.load_as}"
    return f"{text}: {applied.reason}"


def _merged_text(report: LoadReport) -> str:
    """What became of the records of an upsert; what did not occur is left out, but for the two usual ones."""
    inserted, updated = report.rows_inserted or 0, report.rows_updated or 0
    text = f"{_counted(inserted, 'row')} inserted, {format_count(updated)} updated"
    if report.rows_ignored:
        text += f", {format_count(report.rows_ignored)} ignored"
    if report.rows_superseded:
        text += f", {format_count(report.rows_superseded)} left out for a later record with the same key"
    return text


def _rejects_text(report: LoadReport) -> str:
    text = f"{_counted(report.rejects, 'record')} not stored"
    return f"{text}: {report.rejects_file}, reasons in {report.reasons_file}" if report.rejects_file else text


def _verify_text(verify: VerifyReport) -> str:
    seconds = format_duration(verify.seconds)
    if verify.ok:
        text = f"{verify.kind} agrees: {_counted(verify.rows_source, 'row')} read and stored"
        if verify.digest_source is not None:
            text += f", digest {verify.digest_source} on both sides"
        return f"{text} ({seconds})"
    text = (
        f"{verify.kind} DIFFERS: {_counted(verify.rows_source, 'row')} read, "
        f"{_counted(verify.rows_target, 'row')} in the target"
    )
    if verify.digest_source is not None or verify.digest_target is not None:
        text += f"; digest {verify.digest_source or '-'} read, {verify.digest_target or '-'} in the target"
    return f"{text} ({seconds})"


def render_plan(report: LoadReport, console: Console) -> None:
    """Draw what a load would do: the form of `--dry-run`."""
    console.print()
    _line(console, "plan", f"{report.mode} into {report.table}; nothing has been done")
    _line(console, "target", report.target)
    for label, choice, reason in (
        ("write path", report.write_path, report.write_path_reason),
        ("strategy", report.strategy, report.strategy_reason),
    ):
        _line(console, label, f"{choice}: {reason}" if reason else choice)
    if report.structure is not None:
        _line(console, "structure", _structure_text(report.structure))
    _line(
        console,
        "work",
        f"{format_bytes(report.bytes)} in {_counted(len(report.sources), 'source')}, "
        f"{_counted(report.slices, 'slice')}, {_counted(report.streams, 'stream')}",
    )
    if report.sniff is not None:
        sure = f"(confidence {report.sniff.confidence:.2f}, from {format_bytes(report.sniff.sampled_bytes)})"
        _line(console, "format", f"{report.sniff.options} {sure}")
    if report.sniff is not None and report.sniff.create_table is not None:
        _line(console, "table", report.sniff.create_table)
    if report.slices_resumed:
        _line(console, "resumed", f"{_counted(report.slices_resumed, 'slice')} already stored by an earlier run")
    if report.sources:
        console.print(_sources_table(report))
    if report.settings:
        table = _new_table()
        table.add_column("Setting", no_wrap=True)
        table.add_column("Value", overflow="fold")
        for name, value in report.settings.items():
            table.add_row(Text(name), Text(value))
        console.print(Padding(table, (1, 0, 1, 0)))
    for note in report.notes:
        _line(console, "note", note)
    console.print()


def _sources_table(report: LoadReport) -> Padding:
    table = _new_table()
    table.add_column("Source", overflow="fold")
    table.add_column("MB", justify="right", no_wrap=True)
    shown = sorted(report.sources, key=lambda source: -source.bytes)[:LARGEST_SOURCES_SHOWN]
    for source in shown:
        table.add_row(Text(printable_text(source.path)), _megabytes(source.bytes))
    rest = len(report.sources) - len(shown)
    if rest:
        rest_bytes = sum(source.bytes for source in report.sources) - sum(source.bytes for source in shown)
        table.add_row(f"and {format_count(rest)} smaller ones", _megabytes(rest_bytes))
    return Padding(table, (1, 0, 1, 0))


def _line(console: Console, label: str, text: str, style: str = "") -> None:
    """`label` in a narrow column, and the text wrapped beside it."""
    grid = Table.grid(padding=0)
    grid.add_column(width=LABEL_WIDTH, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, style="dim"), Text(text, style=style))
    console.print(grid)


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f}"


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{format_count(count)} {one if count == 1 else many or one + 's'}"


def plain_text(reports: Iterable[LoadReport], width_columns: int = 80) -> str:
    """The same without a terminal, for logs and tests."""
    console = Console(width=width_columns, color_system=None, force_terminal=False)
    with console.capture() as capture:
        render_reports(list(reports), console)
    return capture.get()
