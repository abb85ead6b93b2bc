"""What a load did, as the report that users get."""

from __future__ import annotations

import datetime
import resource
from collections.abc import Sequence

from tipple.engines.base import (
    PROCESSING_PHASES,
    STDIN,
    LoadResult,
    LoadTask,
)
from tipple.engines.moments import in_utc
from tipple.plan.size import format_bytes
from tipple.plan.storage import StorageSize
from tipple.plan.url import Target
from tipple.report.model import (
    LoadReport,
    PhaseTime,
    RejectCause,
    SniffReport,
    SourceReport,
    VerifyReport,
    mb_per_second,
    rows_per_second,
)
from tipple.run.rejects import has_rejects
from tipple.run.runner import JobRunner


def phase_seconds(runner: JobRunner, name: str) -> float:
    """Wall time of a phase; 0 where it did not come."""
    return next((phase.seconds for phase in runner.phases if phase.name == name), 0.0)


def make_report(
    target: Target,
    task: LoadTask,
    paths: Sequence[str],
    result: LoadResult,
    seconds: float,
    phases: list[PhaseTime],
    started_at: str,
    *,
    verify_seconds: float,
    causes: list[RejectCause],
    sniff: SniffReport | None,
    storage: list[StorageSize],
) -> LoadReport:
    """The report of a load that has ended, or was only planned."""
    outcomes = result.source_outcomes or [{}] * len(paths)
    sizes = [
        outcome.get("file_bytes", 0) if source.path == STDIN else source.size
        for source, outcome in zip(task.sources, outcomes, strict=True)
    ]
    source_bytes = sum(sizes)
    # Of an empty file all records were replayed.
    rejects = task.rejects if task.rejects is not None and result.rejects and has_rejects(task.rejects) else None
    rows_by_source: Sequence[int | None] = result.source_rows or [None] * len(paths)
    verified = result.verified
    verify = None
    if verified is not None:
        verify = VerifyReport(
            kind=verified.kind,
            ok=verified.ok,
            rows_source=verified.rows_source,
            rows_target=verified.rows_target,
            digest_source=verified.digest_source,
            digest_target=verified.digest_target,
            seconds=verify_seconds,
        )
    return LoadReport(
        job_id=result.job_id,
        status=result.status,
        target=target.display,
        table=str(task.table),
        mode=task.mode,
        write_path=result.write_path,
        write_path_reason=result.write_path_reason,
        strategy=result.strategy,
        strategy_reason=result.strategy_reason,
        streams=task.streams,
        slices=result.slices,
        slices_resumed=result.slices_resumed,
        retries=result.retries,
        fallback_windows=result.fallback_windows,
        rows=result.rows,
        bytes=source_bytes,
        rejects=result.rejects,
        rows_inserted=result.merged.inserted if result.merged else None,
        rows_updated=result.merged.updated if result.merged else None,
        rows_ignored=result.merged.ignored if result.merged else None,
        rows_superseded=result.merged.superseded if result.merged else None,
        rejects_file=rejects.path if rejects is not None else None,
        reasons_file=rejects.reasons_path if rejects is not None else None,
        reject_causes=causes,
        seconds=round(seconds, 6),
        load_seconds=sum(phase.seconds for phase in phases if phase.name == "load"),
        processing_seconds=sum(phase.seconds for phase in phases if phase.name in PROCESSING_PHASES),
        mb_per_second=round(mb_per_second(source_bytes, seconds), 3),
        rows_per_second=round(rows_per_second(result.rows, seconds), 3),
        peak_memory_bytes=_peak_memory_bytes(),
        phases=phases,
        sources=[
            SourceReport(
                path=path,
                bytes=size,
                text_bytes=outcome.get("bytes") if task.columnar is None else None,
                rows=rows,
            )
            for path, size, outcome, rows in zip(paths, sizes, outcomes, rows_by_source, strict=True)
        ],
        verify=verify,
        settings=result.settings | _asked_settings(task),
        notes=result.notes,
        sniff=sniff,
        structure=result.structure,
        storage=storage,
        started_at=started_at,
        finished_at=utc_now(),
    )


def _asked_settings(task: LoadTask) -> dict[str, str]:
    """The settings that the user has asked for, by option name."""
    settings = {}
    if task.memory_limit_bytes is not None:
        settings["memory_limit"] = format_bytes(task.memory_limit_bytes)
    if task.cpus:
        streams = range(task.streams)
        settings["pin_cpus"] = ", ".join(f"stream {n + 1}: {task.cpus[n % len(task.cpus)]}" for n in streams)
    if task.commit_every is not None:
        settings["commit_every"] = f"{task.commit_every:,} rows"
    return settings


def utc_now() -> str:
    """Now, as reports have it."""
    return in_utc(datetime.datetime.now(datetime.UTC))


def _peak_memory_bytes() -> int:
    """Highest resident memory of this process (`getrusage` would also count what its parent had before `exec`)."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
