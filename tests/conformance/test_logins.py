"""Passwords and sockets that data streams must take as libpq does."""

from __future__ import annotations

import os
import select
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import psycopg
import psycopg.sql
import pytest

from command import run_tipple
from loading import load
from servers.installations import VERSIONS, missing_reason
from servers.postgres import LOADER, LOADER_PASSWORD, PostgresServer, postgres_server
from targets import PostgresTarget, write
from tipple.engines.core import LoginRefused
from tipple.engines.postgresql.connection import reconnect
from tipple.plan.url import parse_target

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


def with_new_password(target: PostgresTarget) -> None:
    """Has the first load into the table `a` give the role another password."""
    target.execute(
        "CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"ALTER ROLE {LOADER} PASSWORD 'other'; RETURN NULL; END $$;"
        "CREATE TABLE a (v integer); CREATE TRIGGER other AFTER INSERT ON a EXECUTE FUNCTION other()"
    )


def test_a_job_does_not_repeat_a_login_that_was_refused(
    fresh_server: Callable[..., PostgresServer], path: Path, tmp_path: Path
) -> None:
    """That may lock the account: the other tables are told what the first one was."""
    server = fresh_server()
    with closing(PostgresTarget(server)) as target:
        with_new_password(target)
        target.execute("CREATE TABLE b (v integer); CREATE TABLE c (v integer)")
        tables = "[tables.a]\n[tables.b]\nafter = 'a'\n[tables.c]\nafter = 'a'\n"
        defaults = f"[defaults]\ninto = '{target.url}'\nsources = '{path}'\nheader = 'no'\nretry-for = 3\n"
        run = run_tipple("run", write(tmp_path / "job.toml", defaults + tables), "--progress", "none", check=1)
    assert run.summary is not None
    loaded, *failed = run.summary["tables"]
    assert (loaded["status"], [table["status"] for table in failed]) == ("loaded", ["failed", "failed"])
    for table in failed:
        assert "password authentication failed" in table["error"]
        assert "check user and password" in table["hint"]
    assert server.log_text().count("password authentication failed") == 1


def test_a_lost_session_whose_login_is_refused(fresh_server: Callable[..., PostgresServer]) -> None:
    """It is not waited for as for a server that comes back."""
    server = fresh_server()
    url = server.url(LOADER, server.create_database()).replace(quote(LOADER_PASSWORD, safe=""), "other")
    with pytest.raises(LoginRefused, match="password authentication failed"):
        reconnect(parse_target(url), "tipple", retry_seconds=3)
    assert server.log_text().count("password authentication failed") == 1
