"""`tipple.generate`: TPC-H data as files, whole or in parts.

The plan goes down to the core as JSON, the job runs there on threads of its own, and this waits for it and
passes on its snapshots. Python takes no part in making rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from tipple import _core
from tipple.errors import Interrupted, TippleError, UsageError
from tipple.plan.decodable import decodable
from tipple.plan.tpch import TABLES, WHOLE
from tipple.run.arguments import checked

__all__ = ["GenerateReport", "GeneratedFile", "generate"]

POLL_SECONDS: Final = 0.1
"""How often progress is passed on, and how long Ctrl-C may have to wait."""


class GeneratedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that was generated."""

    table: str
    part: int | None
    """Number of the part, from 1; None where the file holds the whole table."""
    path: str
    rows: int
    bytes: int
    kept: bool
    """It was there already, byte for byte, and was left alone: region or nation beside another part."""


@decodable
class GenerateReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `generate` made."""

    files: list[GeneratedFile]
    rows: int
    """Rows in all files."""
    bytes: int
    """Bytes in all files."""
    seconds: float
    """Wall time."""
    jobs: int
    """Threads that generated and wrote."""


@checked
def generate(
    dataset: Literal["tpch"] = "tpch",
    *,
    out: str | os.PathLike[str],
    scale: float = 1.0,
    table: str | Sequence[str] | None = None,
    parts: int | None = None,
    part: int | None = None,
    format: Literal["tbl", "csv", "parquet"] = "tbl",
    compression: Literal["zstd", "snappy", "none"] | None = None,
    jobs: int | None = None,
    force: bool = False,
    fsync: bool = False,
    on_progress: Callable[[Mapping[str, Any]], None] | None = None,
) -> GenerateReport:
    """Generate TPC-H tables into files.

    The rows are dbgen's, and so are the bytes of the `tbl` form. All files appear in `out` at once, at the
    end, or none does.

    Args:
        dataset: what to generate; there is only TPC-H.
        out: directory for the files; made when it is missing.
        scale: scale factor; 1 is about 1 GB of text. From 0.001 to 10,000. dbgen itself knows multiples of
            0.001 below 1 and whole numbers above; only for these there is something to be equal to.
        table: a table or several; all eight when None.
        parts: divide each table into so many files, as `dbgen -C` does. region and nation stay whole.
        part: generate only this part, from 1, as `dbgen -S` does.
        format: `tbl` (dbgen's text), `csv` (RFC 4180 with a header line) or `parquet`.
        compression: of the pages of parquet files, zstd when None; the other forms are not compressed.
        jobs: threads; the cores that this process may use when None.
        force: replace files that exist.
        fsync: have the files on disk before they get their names.
        on_progress: called about ten times a second, in this thread, with a snapshot as
            `tipple.report.progress` describes it.

    Raises:
        UsageError: an option makes no sense, or a file exists and `force` is not set. Nothing was started.
        Interrupted: Ctrl-C. No file was written.
        TippleError: it failed, for example because the disk is full. No file was written.

    Example:
        >>> tipple.generate(out="data", scale=0.01, table="lineitem").rows  # doctest: +SKIP
        60175
    """
    if not os.fspath(out).strip():
        raise UsageError("--out names no directory", hint="give its name; . is the working directory")
    if compression is not None and format != "parquet":
        raise UsageError(
            f"--compression is of parquet files, and {format} is not compressed",
            hint="leave it out, or generate --format parquet",
        )
    tables, directory = _table_names(table), os.fspath(Path(out))
    plan = {
        "scale": _number(scale),
        "tables": tables,
        "parts": 1 if parts is None else parts,
        "part": part,
        "format": format,
        "compression": compression or "zstd",
        "out": directory,
        "jobs": len(os.sched_getaffinity(0)) if jobs is None else jobs,
        "force": force,
        "fsync": fsync,
    }
    if part is not None and parts is None:
        raise UsageError("--part needs --parts", hint="--parts 48 --part 7 generates the seventh of 48 parts.")
    try:
        plan_json = json.dumps(plan, allow_nan=False, ensure_ascii=False)
        plan_json.encode()
    except UnicodeEncodeError:
        raise UsageError(f"--out {os.fspath(out)!r} is not UTF-8") from None
    except ValueError:
        raise UsageError(f"--scale {scale} is not a number", hint="--scale 1 is about 1 GB of text") from None
    if force:
        _refuse_directories(directory, tables, 1 if parts is None else parts, part, format)
    try:
        job = _core.GenerateJob.start(plan_json)
        _wait(job, on_progress)
        result = job.result()
    except _core.GenerateFailed as failure:
        raise _error(failure, directory) from None
    assert result is not None, "a job that has ended has a result"
    return msgspec.json.decode(result, type=GenerateReport)


def _number(scale: float) -> float:
    try:
        return float(scale)
    except OverflowError:
        return float("inf")


def _table_names(table: str | Sequence[str] | None) -> list[str]:
    wanted = TABLES if table is None else (table,) if isinstance(table, str) else table
    for name in wanted:
        if name not in TABLES:
            raise UsageError(f"there is no table {name!r} in TPC-H", hint=f"Its tables are {', '.join(TABLES)}.")
    return [name for name in TABLES if name in wanted]


def _refuse_directories(out: str, tables: Sequence[str], parts: int, part: int | None, form: str) -> None:
    """Refuses to replace what no file can replace, before the first of the others is.

    Raises:
        UsageError: a directory has the name of a file.
    """
    numbers = range(1, parts + 1) if part is None else [part]
    names = set()
    for table in tables:
        if parts == 1 or table in WHOLE:
            names.add(f"{table}.{form}")
        else:
            names.update(f"{table}.tbl.{n}" if form == "tbl" else f"{table}.{n}.{form}" for n in numbers)
    try:
        with os.scandir(out) as entries:
            directories = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        # Whatever is the matter with it, the core says.
        return
    for name in directories:
        if name in names:
            path = os.path.join(out, name)
            raise UsageError(
                f"{path} is a directory, which --force does not replace; nothing was written",
                hint="move it away, or choose another --out",
                detail={"file": path},
            )


def _wait(job: _core.GenerateJob, on_progress: Callable[[Mapping[str, Any]], None] | None) -> None:
    """Waits for the end of the job. Ctrl-C cancels it; what came of it is in its result."""
    try:
        while not job.wait(POLL_SECONDS):
            if on_progress is not None:
                on_progress(_snapshot(job))
    except KeyboardInterrupt:
        _cancel(job)
    except BaseException:
        _cancel(job)
        raise


def _cancel(job: _core.GenerateJob) -> None:
    job.cancel()
    while not job.wait(POLL_SECONDS):
        pass


def _snapshot(job: _core.GenerateJob) -> dict[str, Any]:
    """The core's snapshot in the words of `tipple.report.progress`; the final size is extrapolated."""
    core = json.loads(job.progress())
    total = core["bytes"] / core["fraction"] if core["fraction"] > 0 else 0
    return {
        "phase": "publish" if core["state"] == "publishing" else "generate",
        "bytes_done": core["bytes"],
        "bytes_total": max(core["bytes"], round(total)),
        "rows": core["rows"],
        "files_done": core["files_done"],
        "files_total": core["files_total"],
        "elapsed_seconds": core["elapsed_seconds"],
    }


def _error(failure: Exception, directory: str) -> TippleError:
    error = json.loads(failure.args[0])
    if error["kind"] == "failed" and error["file"] == directory and not os.path.lexists(directory):
        # There is no such place: nothing was begun.
        error |= {"kind": "usage", "hint": error["hint"] or "choose another --out"}
    kinds: dict[str, type[TippleError]] = {"usage": UsageError, "interrupted": Interrupted}
    return kinds.get(error["kind"], TippleError)(
        error["message"],
        hint=error["hint"],
        detail={"file": error["file"]} if error["file"] else None,
    )
