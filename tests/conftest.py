"""Fixtures for every test: real servers, fresh databases, and no process left behind."""

from __future__ import annotations

import os
import signal
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import command
import counts
from big import BigFile, write_big_file
from faults.oracle import small_disk
from memory_disk import memory_disk
from servers.installations import VERSIONS, missing_reason
from servers.postgres import LOADER, PostgresServer
from servers.proxy import Proxy
from targets import DuckdbTarget, PostgresTarget, Target

LONG = bool(os.environ.get("TIPPLE_LONG"))
"""The long mode: more rounds of everything that is random."""


OLDER_VERSIONS = VERSIONS[:-1]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Runs a test that exists for every server version on the newest one, and every third on an older one too, these
    in turn; what is about the client alone runs on the newest only.

    All of them together take longer than anybody waits for; the long mode runs them all, and so does naming a version
    (`-k postgresql-15`). Files of few long tests come first, so that no worker is left with one at the end.
    """
    items.sort(key=lambda item: "faults" not in item.path.parts)
    if LONG or "postgresql-" in str(config.option.keyword):
        return
    older: dict[str, dict[str, list[pytest.Item]]] = {}
    dropped: set[pytest.Item] = set()
    for item in items:
        function, _, parameters = item.nodeid.partition("[")
        for version in OLDER_VERSIONS:
            if f"postgresql-{version}" not in parameters:
                continue
            if item.get_closest_marker("client_only"):
                dropped.add(item)
            else:
                name = parameters.replace(f"postgresql-{version}", "")
                older.setdefault(function, {}).setdefault(name, []).append(item)
    for function, tests in older.items():
        for number, of_versions in enumerate(tests.values()):
            turns, rest = divmod(zlib.crc32(function.encode()) + number, 3)
            kept = of_versions[turns % len(of_versions)] if rest == 0 else None
            dropped.update(item for item in of_versions if item is not kept)
    items[:] = [item for item in items if item not in dropped]
    config.hook.pytest_deselected(items=list(dropped))


def pytest_configure() -> None:
    """Has temporary directories in memory, and Ctrl-C work, also in what tests start, where they run in the background
    of a shell, which has it ignored.

    A busy machine is no fault of what is tested.
    """
    hypothesis.settings.register_profile(
        "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("patient")
    place = memory_disk()
    if place is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(place))
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _signals_are_left_alone() -> Iterator[None]:
    """A test, and what it calls in this process, leaves Ctrl-C as it was."""
    before = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    assert (signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())) == before


@pytest.fixture(autouse=True)
def _commands_are_waited_for() -> Iterator[None]:
    """A test waits for what it starts: else it would meet the next one, and its open files whichever comes when they
    are collected."""
    yield
    left = [started.arguments for started in command.under_way]
    for started in list(command.under_way):
        started.kill()
    assert not left


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    counts.attach(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many faults were injected and survived, before pytest's own last line."""
    lines = counts.attached(report for reports in terminalreporter.stats.values() for report in reports)
    if lines:
        terminalreporter.section(counts.PROPERTY)
        for line in lines:
            terminalreporter.write_line(line)


def version_parameter(version: int) -> Any:
    """A pytest parameter for a server version, skipped with the missing package's name."""
    reason = missing_reason(version)
    marks = [pytest.mark.skip(reason=reason)] if reason else []
    return pytest.param(version, id=f"postgresql-{version}", marks=marks)


@pytest.fixture(scope="session")
def server_of() -> Iterator[Callable[[int], PostgresServer]]:
    """The shared server of a version, started at first use; all end with the session."""
    servers: dict[int, PostgresServer] = {}

    def get(version: int) -> PostgresServer:
        if version not in servers:
            servers[version] = PostgresServer(version)
            servers[version].start()
        return servers[version]

    try:
        yield get
    finally:
        for server in servers.values():
            server.destroy()


@pytest.fixture(scope="session", params=[version_parameter(version) for version in VERSIONS])
def postgres_server(request: pytest.FixtureRequest, server_of: Callable[[int], PostgresServer]) -> PostgresServer:
    """A running server of every version in turn. Shared: do not crash it, use `fresh_server` for that."""
    return server_of(request.param)


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    """URL of a fresh database on `postgres_server`, as its owner (not a superuser)."""
    name = postgres_server.create_database()
    try:
        yield postgres_server.url(LOADER, name)
    finally:
        postgres_server.drop_database(name)


@pytest.fixture
def fresh_server() -> Iterator[Callable[..., PostgresServer]]:
    """Makes servers of the test's own, which it may crash, started if not told otherwise: `fresh_server(18, {"fsync":
    "on"})`."""
    servers: list[PostgresServer] = []

    def make(
        version: int = max(VERSIONS),
        settings: Mapping[str, str] | None = None,
        *,
        start: bool = True,
        **arguments: Any,
    ) -> PostgresServer:
        reason = missing_reason(version)
        if reason:
            pytest.skip(reason)
        server = PostgresServer(version, settings, **arguments)
        servers.append(server)
        if start:
            server.start()
        return server

    try:
        yield make
    finally:
        for server in servers:
            server.destroy()


@pytest.fixture
def proxy_to() -> Iterator[Callable[..., Proxy]]:
    """Makes proxies in front of servers, on another `host` than 127.0.0.1 if asked; all are closed at the end."""
    proxies: list[Proxy] = []

    def make(server: PostgresServer, **options: str) -> Proxy:
        proxies.append(Proxy(server.port, **options))
        return proxies[-1]

    try:
        yield make
    finally:
        for proxy in proxies:
            proxy.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes small file systems; needs root."""
    with ExitStack() as stack:

        def make(megabytes: int) -> Path:
            try:
                return stack.enter_context(small_disk(tmp_path / f"disk{megabytes}", megabytes))
            except (PermissionError, FileNotFoundError) as error:
                pytest.skip(f"a small file system needs root and mount: {error}")

        yield make


@pytest.fixture(scope="session")
def big_file(tmp_path_factory: pytest.TempPathFactory) -> BigFile:
    """One file of about 28 MB, enough for four slices."""
    return write_big_file(tmp_path_factory.mktemp("big") / "big.csv")


@pytest.fixture(params=["duckdb", *(version_parameter(version) for version in VERSIONS)])
def engine_target(
    request: pytest.FixtureRequest, tmp_path: Path, server_of: Callable[[int], PostgresServer]
) -> Iterator[Target]:
    """A fresh, empty database of every engine in turn."""
    target: Target
    if request.param == "duckdb":
        target = DuckdbTarget(tmp_path / "target.duckdb")
    else:
        target = PostgresTarget(server_of(request.param))
    try:
        yield target
    finally:
        target.close()


@pytest.fixture(params=[version_parameter(version) for version in VERSIONS])
def postgres_target(
    request: pytest.FixtureRequest, server_of: Callable[[int], PostgresServer]
) -> Iterator[PostgresTarget]:
    """A fresh database of every PostgreSQL version in turn."""
    target = PostgresTarget(server_of(request.param))
    try:
        yield target
    finally:
        target.close()
