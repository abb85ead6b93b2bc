"""Targets of the tests of columnar sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import version_parameter
from servers.installations import VERSIONS
from servers.postgres import PostgresServer
from targets import DuckdbTarget, PostgresTarget, Target


@pytest.fixture(params=["duckdb", version_parameter(max(VERSIONS))])
def engine_target(
    request: pytest.FixtureRequest, tmp_path: Path, server_of: Callable[[int], PostgresServer]
) -> Iterator[Target]:
    """One server is enough here: what the versions read differently does not depend on the source."""
    is_duckdb = request.param == "duckdb"
    target = DuckdbTarget(tmp_path / "target.duckdb") if is_duckdb else PostgresTarget(server_of(request.param))
    try:
        yield target
    finally:
        target.close()


@pytest.fixture
def postgres_target(server_of: Callable[[int], PostgresServer]) -> Iterator[PostgresTarget]:
    """As `engine_target`."""
    target = PostgresTarget(server_of(max(VERSIONS)))
    try:
        yield target
    finally:
        target.close()
