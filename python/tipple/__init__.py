"""Tipple loads whole tables: flat files into databases, in parallel, exactly once.

    import tipple

    report = tipple.load("lineitem.tbl", into="duckdb:///tpch.duckdb", table="lineitem", schema="tpch")
    print(report.rows, report.mb_per_second)

The functions have the names and options of the command line's verbs.
"""

from tipple.errors import (
    BadRecord,
    ConnectionFailed,
    Interrupted,
    JobBusy,
    SourceChanged,
    TippleError,
    UsageError,
    VerifyFailed,
)
from tipple.report.model import LoadReport
from tipple.run.generate import GenerateReport, generate
from tipple.run.jobs import cancel_job, clean_jobs, list_jobs
from tipple.run.load import load

__version__ = "0.1.0"

__all__ = [
    "BadRecord",
    "ConnectionFailed",
    "GenerateReport",
    "Interrupted",
    "JobBusy",
    "LoadReport",
    "SourceChanged",
    "TippleError",
    "UsageError",
    "VerifyFailed",
    "__version__",
    "cancel_job",
    "clean_jobs",
    "generate",
    "list_jobs",
    "load",
]
