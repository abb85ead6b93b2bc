"""The verb `doctor`: what in a target would slow a load down or break it, and how much room its tables take."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tipple.engines import find_engine
from tipple.engines.findings import LEVELS, Finding
from tipple.errors import UsageError
from tipple.plan.storage import StorageSize
from tipple.plan.url import parse_table_name
from tipple.run.arguments import checked
from tipple.run.columnar import paths_of
from tipple.run.sources import find_sources
from tipple.run.target import choose_target


@checked
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
        UsageError: a source that is not there, or cannot be read.
        ConnectionFailed: there is no connection.
    """
    target = choose_target(url)
    names = [] if isinstance(sources, (list, tuple)) and not sources else paths_of(sources)
    source_bytes = sum(_size_bytes(path) for path in find_sources(names))
    session = find_engine(target.engine).connect(target, read_only=True, must_exist=True)
    try:
        findings = session.examine(parse_table_name(table) if table is not None else None, source_bytes)
    finally:
        session.close()
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


def _size_bytes(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", hint="check the path") from None


@checked
def measure_target(url: str | None = None, *, table: str | None = None) -> list[StorageSize]:
    """The room that tables, partitions and indexes take.

    Args:
        url: the target; without it the environment's `TIPPLE_TARGET` counts.
        table: only this one, with its partitions and indexes.

    Raises:
        ConnectionFailed: there is no connection.
        UsageError: there is no such table.
    """
    target = choose_target(url)
    session = find_engine(target.engine).connect(target, read_only=True, must_exist=True)
    try:
        found = session.sizes(parse_table_name(table) if table is not None else None)
        if table is not None and not found:
            raise UsageError(f"there is no table {table}", hint="check the name: unquoted names fold to lower case")
        return found
    finally:
        session.close()
