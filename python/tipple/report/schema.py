"""The summary files of a load and of a job, and their JSON Schemas, all made from the structs beside this file.

`docs/summary.schema.json` is written by `write_schema`; a check that compares it with `schema_text` keeps it
from drifting.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from tipple.report.failure import FAILURE_VERSION, LoadFailure
from tipple.report.job import JOB_SUMMARY_VERSION, JobReport
from tipple.report.model import SUMMARY_VERSION, LoadReport

__all__ = ["decode_summary", "encode_summary", "schema_text", "summary_schema", "write_schema"]

VERSION_FIELDS = {
    "LoadReport": "tipple_summary_version",
    "JobReport": "tipple_job_summary_version",
    "LoadFailure": "tipple_failure_version",
}
Summary = LoadReport | JobReport | LoadFailure
TITLES = {
    LoadReport: f"load, version {SUMMARY_VERSION}",
    JobReport: f"job, version {JOB_SUMMARY_VERSION}",
    LoadFailure: f"load that failed, version {FAILURE_VERSION}",
}


def summary_schema(report: type[Summary] = LoadReport) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a summary file."""
    (root,), components = msgspec.json.schema_components([report], ref_template="#/$defs/{name}")
    for definition in components.values():
        # msgspec calls a field with a default optional. A summary always holds every field.
        definition["required"] = list(definition["properties"])
    for name, field in VERSION_FIELDS.items():
        if name in components:
            components[name]["properties"][field].pop("default", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Summary of a Tipple {TITLES[report]}",
        **root,
        "$defs": components,
    }


def schema_text(report: type[Summary] = LoadReport) -> str:
    """The schema as it stands in the file, with a newline at its end."""
    return _indented(msgspec.json.encode(summary_schema(report)))


def write_schema(path: str | os.PathLike[str]) -> None:
    """Write the schema to `path`."""
    Path(path).write_text(schema_text(), encoding="utf-8", newline="\n")


def encode_summary(report: Summary) -> str:
    """The text of a summary file, with a newline at its end."""
    return _indented(msgspec.json.encode(report))


def decode_summary(text: str | bytes) -> LoadReport:
    """A summary read back.

    Raises:
        msgspec.ValidationError: not a summary of this version.
    """
    return msgspec.json.decode(text, type=LoadReport)


def _indented(json: bytes) -> str:
    return msgspec.json.format(json, indent=2).decode("utf-8") + "\n"
