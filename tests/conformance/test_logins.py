"""Passwords and sockets that data streams must take as libpq does."""

from __future__ import annotations

import os
import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import psycopg.sql
import pytest

from loading import load
from servers.installations import VERSIONS, missing_reason
from servers.postgres import LOADER, LOADER_PASSWORD, PostgresServer, postgres_server
from targets import write

PASSWORDS = (
    "plain",
    "pässwörd",
    "\u2168",
    "a\u00a0b\u00adc",
    # Younger than RFC 4013, or forbidden by it, and normalised to what is not.
    "a\U0001f250b",
    "x\u1d62",
    "A\u2099",
    "\U0001f130bc",
    "a\u0341b",
    # Normalised to what it forbids.
    "\u21350",
    # As long as HMAC's block, and longer.
    "\u1d62" * 20,
    "\u1d62" * 30,
    "\u21350" * 40,
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A database for each way in which a server asks for passwords."""
    version = next((version for version in reversed(VERSIONS) if missing_reason(version) is None), None)
    if version is None:
        pytest.skip("no PostgreSQL")
    ways = "".join(f"host {way} all 127.0.0.1/32 {way}\n" for way in ("md5", "password"))
    with postgres_server(version, first_lines_of_hba=ways) as server:
        for name in ("scram", "md5", "password"):
            server.create_database(name)
            server.execute("CREATE TABLE t (a integer); GRANT ALL ON t TO PUBLIC", name)
        yield server


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "in.csv", "1\n2\n")


@pytest.mark.parametrize("way", ["scram", "md5", "password"])
def test_passwords(server: PostgresServer, path: Path, way: str) -> None:
    encryption = "md5" if way == "md5" else "scram-sha-256"
    for number, password in enumerate(PASSWORDS):
        role = f"{way}{number}"
        with server.connect(way, options=f"-c password_encryption={encryption} -c log_statement=none") as connection:
            made = psycopg.sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(psycopg.sql.Identifier(role), password)
            connection.execute(made)
        run = load(server.url(role, way, "127.0.0.1", password=password), path, no_ledger=True)
        assert password not in run.output
    assert server.rows("SELECT count(*) FROM t", way) == [(2 * len(PASSWORDS),)]


def test_a_password_that_is_wrong(server: PostgresServer, path: Path) -> None:
    server.execute("CREATE ROLE wrong LOGIN PASSWORD 'xi'")
    run = load(server.url("wrong", "scram", "127.0.0.1", password="x\u1d62"), path, no_ledger=True, check=2)
    assert "password authentication failed" in run.stderr


class _Forwarder(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Listens on a Unix socket that is in no directory, and forwards to another one."""

    daemon_threads = True

    def __init__(self, address: str, server: str) -> None:
        self.server = server
        super().__init__(address, _Forwarded)


class _Forwarded(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Forwarder)
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(self.server.server)
            other = {self.request: server, server: self.request}
            while True:
                for end in select.select([*other], [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    other[end].sendall(data)


@pytest.mark.parametrize("how", ["escaped", "raw", "variable"])
def test_a_socket_in_no_directory(server: PostgresServer, path: Path, how: str) -> None:
    name = f"tipple-test-{os.getpid()}"
    file = f".s.PGSQL.{server.port}"
    server.execute("TRUNCATE t", "scram")
    account = f"{LOADER}:{quote(LOADER_PASSWORD, safe='')}"
    host = "%40" if how == "escaped" else "@"
    url = f"postgresql://{account}@/scram?port={server.port}" + ("" if how == "variable" else f"&host={host}{name}")
    with _Forwarder(f"\0{name}/{file}", str(server.socket_directory / file)) as forwarder:
        threading.Thread(target=forwarder.serve_forever, daemon=True).start()
        load(url, path, env={"PGHOST": f"@{name}"} if how == "variable" else None, jobs=2, restart=True)
        forwarder.shutdown()
    assert server.rows("SELECT count(*) FROM t", "scram") == [(2,)]
    refused = load(url, path, env={"PGHOST": f"@{name}"} if how == "variable" else None, check=2)
    assert LOADER_PASSWORD not in refused.output
    assert "connection to server on socket" in refused.stderr
    assert "certain where its password ends" not in refused.stderr
