"""Tipple loads whole tables: flat files into databases, in parallel, exactly once.

    import tipple

    report = tipple.load("lineitem.tbl", into="duckdb:///tpch.duckdb", table="lineitem", schema="tpch")
    print(report.rows, report.mb_per_second)

`load`, `run` and `generate` have the options of the command line's verbs; `examine_target` and `measure_target` are its
`doctor`, `list_jobs`, `cancel_job` and `clean_jobs` its `jobs`.
"""

# A signal that arrives while msgspec imports this leaves it without, and it crashes later: so it is there before.
import datetime  # noqa: F401
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tipple.engines.base import JobRecord
    from tipple.engines.duckdb.connection import memory_connection
    from tipple.engines.findings import Finding
    from tipple.errors import (
        BadRecord,
        ConnectionFailed,
        Interrupted,
        JobBusy,
        JobFailed,
        SourceChanged,
        TippleError,
        TooManyRejects,
        UsageError,
        VerifyFailed,
    )
    from tipple.plan.storage import StorageSize
    from tipple.report.job import JobReport
    from tipple.report.model import LoadReport
    from tipple.run.doctor import examine_target, measure_target
    from tipple.run.generate import GenerateReport, generate
    from tipple.run.job import run
    from tipple.run.jobs import cancel_job, clean_jobs, list_jobs, resume_job
    from tipple.run.load import load

__version__ = "0.1.0"

# Imported when first used, so that the command line is quick to start and can be interrupted from its first line on.
_HOMES = {
    "tipple.engines.base": ("JobRecord",),
    "tipple.engines.duckdb.connection": ("memory_connection",),
    "tipple.engines.findings": ("Finding",),
    "tipple.errors": (
        "BadRecord",
        "ConnectionFailed",
        "Interrupted",
        "JobBusy",
        "JobFailed",
        "SourceChanged",
        "TippleError",
        "TooManyRejects",
        "UsageError",
        "VerifyFailed",
    ),
    "tipple.plan.storage": ("StorageSize",),
    "tipple.report.job": ("JobReport",),
    "tipple.report.model": ("LoadReport",),
    "tipple.run.doctor": ("examine_target", "measure_target"),
    "tipple.run.generate": ("GenerateReport", "generate"),
    "tipple.run.jobs": ("cancel_job", "clean_jobs", "list_jobs", "resume_job"),
    "tipple.run.load": ("load",),
}
# `run` needs no home: it is the package of that name, which can be called.
_HOME_BY_NAME = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:
    # To type checkers it would say that there is any name at all.
    def __getattr__(name: str) -> Any:
        home = "tipple" if name == "run" else _HOME_BY_NAME.get(name)
        if home is None:
            raise AttributeError(f"module 'tipple' has no attribute {name!r}")
        from tipple.importing import uninterrupted

        with uninterrupted():
            if name == "run":
                return importlib.import_module("tipple.run")
            return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    """What a prompt completes, imported already or not."""
    return sorted({*globals(), *__all__})


__all__ = [
    "BadRecord",
    "ConnectionFailed",
    "Finding",
    "GenerateReport",
    "Interrupted",
    "JobBusy",
    "JobFailed",
    "JobRecord",
    "JobReport",
    "LoadReport",
    "SourceChanged",
    "StorageSize",
    "TippleError",
    "TooManyRejects",
    "UsageError",
    "VerifyFailed",
    "__version__",
    "cancel_job",
    "clean_jobs",
    "examine_target",
    "generate",
    "list_jobs",
    "load",
    "measure_target",
    "memory_connection",
    "resume_job",
    "run",
]
