"""The verb `doctor`: what in a target would slow a load down or break it, and how much room its tables take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from tipple.engines.base import Session
from tipple.engines.findings import LEVELS, Finding, refused
from tipple.errors import TippleError, UsageError
from tipple.plan.storage import StorageSize
from tipple.plan.url import TableName, parse_table_name
from tipple.run.arguments import checked
from tipple.run.columnar import paths_of
from tipple.run.destination import refuse_schema
from tipple.run.sources import find_sources
from tipple.run.target import connect_existing


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
    names = [] if isinstance(sources, (list, tuple)) and not sources else paths_of(sources)
    source_bytes = sum(_size_bytes(path) for path in find_sources(names))
    session = connect_existing(url, read_only=True)
    try:
        name = parse_table_name(table) if table is not None else None
        barred = _barred(session, name) if name is not None else []
        # What else could be said of it would help nobody.
        findings = session.examine(None if barred else name, source_bytes) + barred
    finally:
        session.close()
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


def _barred(session: Session, name: TableName) -> list[Finding]:
    """Whether the table is none of the user's, which a load refuses."""
    found, engine = None, session.capabilities.engine
    with suppress(TippleError):
        # What is wrong with the table itself is told where it is examined.
        found = session.describe(name)
    try:
        refuse_schema(name, engine)
        refuse_schema(name if found is None else found.name, engine)
    except UsageError as error:
        return [refused(f"table {name}", error)]
    return []


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
    session = connect_existing(url, read_only=True)
    try:
        found = session.sizes(parse_table_name(table) if table is not None else None)
        if table is not None and not found:
            raise UsageError(f"there is no table {table}", hint="check the name: unquoted names fold to lower case")
        return found
    finally:
        session.close()
