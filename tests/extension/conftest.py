"""Fixtures of the extension's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from extension.pages import make_ready, ready_target
from servers.extension import extension_missing_reason
from servers.postgres import PostgresServer
from targets import PostgresTarget


@pytest.fixture
def target(postgres_server: PostgresServer) -> Iterator[PostgresTarget]:
    """A fresh database of every PostgreSQL version in turn, with the extension, which LOADER may use."""
    yield from ready_target(postgres_server)


@pytest.fixture
def direct_database(postgres_server: PostgresServer) -> Iterator[str]:
    """Name of a fresh database on `postgres_server` with the extension, which LOADER may use."""
    reason = extension_missing_reason(postgres_server.version)
    if reason is not None:
        pytest.skip(reason)
    name = postgres_server.create_database()
    try:
        make_ready(postgres_server, name)
        yield name
    finally:
        postgres_server.drop_database(name)


@pytest.fixture
def direct_server(fresh_server: Callable[..., PostgresServer]) -> Callable[..., tuple[PostgresServer, str]]:
    """Makes servers of the test's own, as `fresh_server` does, with a database that has the extension."""

    def make(*arguments: object, **options: object) -> tuple[PostgresServer, str]:
        server = fresh_server(*arguments, **options)
        reason = extension_missing_reason(server.version)
        if reason is not None:
            pytest.skip(reason)
        name = server.create_database()
        make_ready(server, name)
        return server, name

    return make
