"""The verb `doctor`: what in a target would slow a load down or break it, and how much room its tables take."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tipple.engines import find_engine
from tipple.engines.findings import LEVELS, Finding
from tipple.plan.storage import StorageSize
from tipple.plan.url import parse_table_name, parse_target
from tipple.run.load import DEFAULT_TARGET
from tipple.run.sources import find_sources


def examine_target(
    url: str | None = None,
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    *,
    table: str | None = None,
) -> list[Finding]:
    """What was found in the target, the worst first.

    Args:
        url: the target; without it the environment's `TIPPLE_TARGET` counts.
        sources: the files, patterns or directories that are to be loaded: is there room for them?
        table: the table that is to be loaded, looked at too.

    Raises:
        UsageError: a source that is not there.
        ConnectionFailed: there is no connection.
    """
    target = parse_target(url or os.environ.get("TIPPLE_TARGET") or DEFAULT_TARGET)
    names = [sources] if isinstance(sources, (str, os.PathLike)) else sources
    source_bytes = sum(os.path.getsize(path) for path in find_sources([os.fspath(name) for name in names]))
    session = find_engine(target.engine).connect(target, read_only=True, must_exist=True)
    try:
        findings = session.examine(parse_table_name(table) if table is not None else None, source_bytes)
    finally:
        session.close()
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


def measure_target(url: str | None = None, *, table: str | None = None) -> list[StorageSize]:
    """The room that tables, partitions and indexes take.

    Args:
        url: the target; without it the environment's `TIPPLE_TARGET` counts.
        table: only this one, with its partitions and indexes.

    Raises:
        ConnectionFailed: there is no connection.
    """
    target = parse_target(url or os.environ.get("TIPPLE_TARGET") or DEFAULT_TARGET)
    session = find_engine(target.engine).connect(target, read_only=True, must_exist=True)
    try:
        return session.sizes(parse_table_name(table) if table is not None else None)
    finally:
        session.close()
