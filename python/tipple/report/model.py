"""The report of a load, as data: what `tipple.load` returns, `--summary` writes and the tables show.

These structs are the only definition. The JSON Schema in docs/ is made from them, descriptions included, so
a field is documented here or nowhere. Fields may be added; a change of meaning raises `SUMMARY_VERSION`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tipple.plan.decodable import decodable
from tipple.plan.storage import StorageSize
from tipple.plan.structure import AppliedStructure

__all__ = [
    "SUMMARY_VERSION",
    "LoadReport",
    "LoadStatus",
    "PhaseTime",
    "RejectCause",
    "SniffColumn",
    "SniffDecision",
    "SniffReport",
    "SourceReport",
    "VerifyReport",
    "mb_per_second",
    "rows_per_second",
]

SUMMARY_VERSION: Literal[1] = 1

LoadStatus = Literal["loaded", "already loaded", "planned"]


REST_PHASE = "other"
"""What is in no phase."""


class PhaseTime(msgspec.Struct, frozen=True, kw_only=True):
    """Wall time of one phase of a job. Phases follow one another and do not overlap."""

    name: Annotated[str, Meta(description="Name of the phase, for example plan, prepare, load, publish, verify.")]
    seconds: Annotated[float, Meta(description="Wall time.", ge=0)]


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """One source file."""

    path: Annotated[str, Meta(description="Path as the user gave it or as a directory or pattern gave it.")]
    bytes: Annotated[int, Meta(description="Size of the file in bytes.", ge=0)]
    text_bytes: Annotated[
        int | None,
        Meta(description="Bytes of its text, unpacked and decoded, that this run stored; null where it stored none."),
    ] = None
    rows: Annotated[
        int | None,
        Meta(description="Rows stored from this file; null for a job that was planned, resumed or done before."),
    ]


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of what was read with what the target holds."""

    kind: Annotated[Literal["count", "checksum"], Meta(description="What was compared.")]
    ok: Annotated[bool, Meta(description="Whether both sides agree.")]
    rows_source: Annotated[int, Meta(description="Rows read from the sources, rejects not counted.", ge=0)]
    rows_target: Annotated[int, Meta(description="Rows that the target holds of this job.", ge=0)]
    digest_source: Annotated[
        str | None, Meta(description="Digest, independent of row order, of what was read; null for count.")
    ]
    digest_target: Annotated[str | None, Meta(description="The same digest of what the target holds.")]
    seconds: Annotated[float, Meta(description="Wall time of the comparison.", ge=0)]


class SniffDecision(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found out from a sample of the sources."""

    option: Annotated[str, Meta(description="The option that says the same, without its hyphens.")]
    value: Annotated[str, Meta(description="What was decided, as the option spells it.")]
    confidence: Annotated[float, Meta(description="How sure it is; 1 is certain.", ge=0, le=1)]
    reason: Annotated[str, Meta(description="What it rests on.")]
    alternatives: Annotated[list[str], Meta(description="What else it could be, the likeliest first.")]


class SniffColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column whose name and type were guessed (--schema auto)."""

    name: Annotated[str, Meta(description="Name of the column.")]
    type: Annotated[str, Meta(description="Type, as the engine spells it.")]
    reason: Annotated[str, Meta(description="What the type rests on.")]


class SniffReport(msgspec.Struct, frozen=True, kw_only=True):
    """What --format auto and --schema auto found out from a sample of the sources."""

    options: Annotated[str, Meta(description="The options that say all of it, ready for a command line.")]
    confidence: Annotated[float, Meta(description="The least sure decision's confidence.", ge=0, le=1)]
    decisions: Annotated[list[SniffDecision], Meta(description="The decisions.")]
    columns: Annotated[list[SniffColumn], Meta(description="The guessed columns; none where the table was known.")]
    create_table: Annotated[
        str | None, Meta(description="The CREATE TABLE of --schema auto; null where the table was known.")
    ]
    sampled_bytes: Annotated[int, Meta(description="How much of the sources was looked at.", ge=0)]


class RejectCause(msgspec.Struct, frozen=True, kw_only=True):
    """Rejects of one column and one SQLSTATE; of those that a constraint refuses, one constraint."""

    column: Annotated[str | None, Meta(description="The column to blame; null where it is the record as a whole.")]
    sqlstate: Annotated[str | None, Meta(description="Its SQLSTATE; null where no server would refuse the records.")]
    rejects: Annotated[int, Meta(description="How many.", ge=1)]
    first_file: Annotated[str, Meta(description="The source of the first.")]
    first_record_number: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="The number of the first in its source, from 1; null where it is not known."),
    ]
    first_reason: Annotated[str, Meta(description="Why the first was refused.")]


@decodable
class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of one load of sources into one table."""

    tipple_summary_version: Annotated[
        Literal[1], Meta(description="Version of this format. Fields may be added without a new version.")
    ] = SUMMARY_VERSION
    job_id: Annotated[str, Meta(description="Identifier of the job in the ledger.")]
    status: Annotated[
        LoadStatus,
        Meta(
            description="loaded: the rows are published. already loaded: an earlier job did the same, and "
            "nothing was changed. planned: a dry run, and nothing was done."
        ),
    ]
    target: Annotated[str, Meta(description="URL of the target without secrets.")]
    table: Annotated[str, Meta(description="Name of the target table, quoted where SQL needs it.")]
    mode: Annotated[str, Meta(description="append, replace, upsert or create.")]
    write_path: Annotated[str, Meta(description="How rows entered the engine: text, binary, direct or arrow.")]
    write_path_reason: Annotated[str, Meta(description="Why this write path was chosen.")]
    strategy: Annotated[str, Meta(description="How the rows were staged and made visible.")]
    strategy_reason: Annotated[str, Meta(description="Why this strategy was chosen.")]
    streams: Annotated[int, Meta(description="Number of parallel streams.", ge=0)]
    slices: Annotated[int, Meta(description="Number of slices of the job.", ge=0)]
    slices_resumed: Annotated[int, Meta(description="Slices that an earlier run of this job had already stored.", ge=0)]
    retries: Annotated[int, Meta(description="Slices that had to be sent again.", ge=0)]
    fallback_windows: Annotated[
        int, Meta(description="Windows of a slice in which the server itself had to read a value, as COPY text.", ge=0)
    ]
    rows: Annotated[
        int, Meta(description="Rows stored; of an upsert, records merged, those included that changed nothing.", ge=0)
    ]
    bytes: Annotated[int, Meta(description="Bytes of source data.", ge=0)]
    rejects: Annotated[int, Meta(description="Records not stored and kept as rejects.", ge=0)]
    rows_inserted: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Upsert: rows with a key that the table did not have; null for other modes."),
    ]
    rows_updated: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="Upsert: rows of the table that got new values.")
    ]
    rows_ignored: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="Upsert: records whose key the table had already, left out as asked, or because they have "
            "nothing but the key."
        ),
    ]
    rows_superseded: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Upsert: records left out for a later record with the same key."),
    ]
    rejects_file: Annotated[str | None, Meta(description="The raw records of the rejects; null where there are none.")]
    reasons_file: Annotated[
        str | None, Meta(description="Why they are rejects, as CSV: file, record, byte, column, reason, SQLSTATE.")
    ]
    reject_causes: Annotated[
        list[RejectCause], Meta(description="Why records were rejected, the most frequent first; as the files have it.")
    ] = []
    seconds: Annotated[float, Meta(description="Wall time of the whole job.", ge=0)]
    load_seconds: Annotated[float, Meta(description="Of that, the time in which rows came in.", ge=0)] = 0
    processing_seconds: Annotated[
        float,
        Meta(
            description="Of that, the work after the load until the table is ready for queries: conversion into its "
            "structure, indexes and constraints, publishing; verifying is not counted.",
            ge=0,
        ),
    ] = 0
    mb_per_second: Annotated[
        float, Meta(description="Source data by wall time, in megabytes (10^6 bytes) per second.", ge=0)
    ]
    rows_per_second: Annotated[float, Meta(description="Rows by wall time.", ge=0)]
    peak_memory_bytes: Annotated[int, Meta(description="Highest resident memory of the process.", ge=0)]
    phases: Annotated[list[PhaseTime], Meta(description="Wall time by phase, in order.")]
    sources: Annotated[list[SourceReport], Meta(description="The source files.")]
    verify: Annotated[VerifyReport | None, Meta(description="The verification; null where none was asked for.")]
    settings: Annotated[dict[str, str], Meta(description="Settings that the job ran with, by option name, as text.")]
    notes: Annotated[list[str], Meta(description="Remarks for the user, one sentence each.")]
    sniff: Annotated[
        SniffReport | None,
        Meta(description="What was found out from the sources' content; null where every option was given."),
    ] = None
    structure: Annotated[
        AppliedStructure | None, Meta(description="The structure that was asked for; null where none was.")
    ] = None
    storage: Annotated[
        list[StorageSize],
        Meta(description="The room that the table, its partitions and its indexes take; none in a dry run."),
    ] = []
    started_at: Annotated[
        str, Meta(description="When the job began: ISO 8601, UTC.", extra_json_schema={"format": "date-time"})
    ]
    finished_at: Annotated[
        str, Meta(description="When the job ended: ISO 8601, UTC.", extra_json_schema={"format": "date-time"})
    ]


def mb_per_second(size_bytes: float, seconds: float) -> float:
    """Megabytes (10^6 bytes) per second; 0 where no time has passed, for JSON has no infinity."""
    return size_bytes / 1e6 / seconds if seconds > 0 else 0.0


def rows_per_second(rows: int, seconds: float) -> float:
    """Rows per second; 0 where no time has passed."""
    return rows / seconds if seconds > 0 else 0.0
