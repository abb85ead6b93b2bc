"""The report of a job file's run: each table's own report, and what became of the rest."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tipple.report.model import LoadReport, PhaseTime

__all__ = ["JOB_SUMMARY_VERSION", "JobReport", "TableOutcome", "TableStatus"]

JOB_SUMMARY_VERSION: Literal[1] = 1

TableStatus = Literal[
    "loaded", "already loaded", "planned", "nothing to replay", "failed", "interrupted", "not published", "not started"
]


class TableOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one table of a job."""

    name: Annotated[str, Meta(description="Its name in the job file.")]
    status: Annotated[
        TableStatus,
        Meta(
            description="loaded, already loaded, planned: as in the report. nothing to replay: replay = true stands in "
            "[defaults], and the table has no file of rejects. failed: see error. interrupted: by Ctrl-C. "
            "not published: it was staged, but a table to be published with it failed; the next run goes on there. "
            "not started: a table that it comes after, or is to be published with, failed, or the job was interrupted."
        ),
    ]
    error: Annotated[str | None, Meta(description="Why it failed; null where it did not.")] = None
    hint: Annotated[str | None, Meta(description="What to do about it.")] = None
    note: Annotated[str | None, Meta(description="A remark on a table without a report; null where there is none.")] = (
        None
    )
    exit_status: Annotated[int, Meta(description="The exit status that its load alone would have had.")] = 0
    report: Annotated[LoadReport | None, Meta(description="Its report; null where there is none.")] = None


class JobReport(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of one run of a job file."""

    tipple_job_summary_version: Annotated[
        Literal[1], Meta(description="Version of this format. Fields may be added without a new version.")
    ] = JOB_SUMMARY_VERSION
    file: Annotated[str, Meta(description="The job file.")]
    publish: Annotated[str, Meta(description="each: every table by itself. together: all in one transaction.")]
    streams: Annotated[int, Meta(description="Streams of all tables together, at most.", ge=0)]
    exit_status: Annotated[int, Meta(description="What the command exits with.")]
    rows: Annotated[int, Meta(description="Rows stored.", ge=0)]
    bytes: Annotated[int, Meta(description="Size of the sources that were loaded.", ge=0)]
    seconds: Annotated[float, Meta(description="Wall time of the whole job.", ge=0)]
    mb_per_second: Annotated[
        float, Meta(description="Source data by wall time, in megabytes (10^6 bytes) per second.", ge=0)
    ]
    phases: Annotated[
        list[PhaseTime],
        Meta(
            description="Wall time of the whole job by phase: where several tables are at work at once, each moment is "
            "divided among them. To wait for others to be published with counts only when no table is at work."
        ),
    ] = []
    tables: Annotated[list[TableOutcome], Meta(description="The tables, in the order of their dependencies.")]

    @property
    def reports(self) -> list[LoadReport]:
        """The reports that there are."""
        return [table.report for table in self.tables if table.report is not None]
