"""Fixtures of the fault tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from big import BigFile
from faults.oracle import OLD_ROWS, duckdb_target, undisturbed_seconds
from servers.postgres import PostgresServer
from targets import PostgresTarget, Target


@pytest.fixture(params=[0, OLD_ROWS], ids=["empty_table", "filled_table"])
def old_rows(request: pytest.FixtureRequest) -> int:
    """How many rows are in the table before the job: an empty one may be filled in another way."""
    rows: int = request.param
    return rows


@pytest.fixture(scope="session")
def duckdb_seconds(tmp_path_factory: pytest.TempPathFactory, big_file: BigFile) -> float:
    """How long the big file takes into DuckDB."""
    directory = tmp_path_factory.mktemp("undisturbed")
    return undisturbed_seconds(lambda: duckdb_target(directory, "t"), big_file)


@pytest.fixture(scope="session")
def postgres_seconds(server_of: Callable[[int], PostgresServer], big_file: BigFile) -> float:
    """How long the big file takes into PostgreSQL."""
    return undisturbed_seconds(lambda: PostgresTarget(server_of(18)), big_file)


@pytest.fixture
def seconds(request: pytest.FixtureRequest, engine_target: Target) -> float:
    """How long the big file takes into `engine_target`."""
    duration: float = request.getfixturevalue(f"{'duckdb' if engine_target.engine == 'duckdb' else 'postgres'}_seconds")
    return duration
