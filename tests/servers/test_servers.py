"""The test house itself: servers start, crash and recover, and the proxy breaks what it is told to break."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

import psutil
import psycopg
import pytest

from servers.postgres import LOADER, PostgresServer
from servers.proxy import Proxy
from targets import Target


def test_server_is_of_the_version(postgres_server: PostgresServer) -> None:
    assert postgres_server.rows("SHOW server_version_num")[0][0].startswith(str(postgres_server.version))


def test_database_belongs_to_an_ordinary_role(database: str) -> None:
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT current_user, usesuper FROM pg_user WHERE usename = current_user")
        assert row.fetchone() == (LOADER, False)


def test_wrong_password_is_refused(postgres_server: PostgresServer) -> None:
    for host in ("socket", "127.0.0.1"):
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(postgres_server.url(LOADER, "postgres", host, password="wrong"))


def test_engine_target(engine_target: Target) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    engine_target.execute("INSERT INTO t VALUES (1), (2)")
    assert engine_target.count("t") == 2
    assert engine_target.leftovers() == {f"{engine_target.default_schema}.t"}
    assert engine_target.leftovers("t") == set()


def test_crash_and_restart(fresh_server: Callable[..., PostgresServer]) -> None:
    server = fresh_server(18, {"fsync": "on"})
    server.execute("CREATE TABLE t (a integer); INSERT INTO t VALUES (1)")
    children = server.processes()
    server.crash()
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
    server.start()
    assert server.rows("SELECT a FROM t") == [(1,)]
    assert "automatic recovery in progress" in server.log_text()


@pytest.fixture
def proxy(postgres_server: PostgresServer, proxy_to: Callable[[PostgresServer], Proxy]) -> Proxy:
    return proxy_to(postgres_server)


def through(proxy: Proxy, server: PostgresServer, database: str, **arguments: object) -> psycopg.Connection:
    url = server.url(LOADER, psycopg.conninfo.conninfo_to_dict(database)["dbname"], "127.0.0.1", port=proxy.port)
    return psycopg.connect(url, connect_timeout=5, **arguments)


def copy_lines(connection: psycopg.Connection, count: int, line: bytes = b"x" * 1000) -> None:
    with connection.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
        for _ in range(count):
            copy.write(line + b"\n")


def test_proxy_passes_through(proxy: Proxy, postgres_server: PostgresServer, database: str) -> None:
    with through(proxy, postgres_server, database) as connection:
        connection.execute("CREATE TABLE t (a text)")
        copy_lines(connection, 100, b"COMMIT;" * 10_000)
        connection.commit()
        assert connection.execute("SELECT count(*), sum(length(a)) FROM t").fetchone() == (100, 7_000_000)
    assert proxy.commits >= 1
    assert proxy.commits <= 2
    assert proxy.broken == 0


def test_proxy_cuts(proxy: Proxy, postgres_server: PostgresServer, database: str) -> None:
    with closing(through(proxy, postgres_server, database, autocommit=True)) as connection:
        connection.execute("CREATE TABLE t (a text)")
        proxy.cut_after(100_000)
        with pytest.raises(psycopg.OperationalError):
            copy_lines(connection, 10_000)
    assert proxy.broken == 1
    with through(proxy, postgres_server, database) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


@pytest.mark.parametrize("prepared", [False, True])
def test_proxy_drops_the_reply_to_commit(
    proxy: Proxy, postgres_server: PostgresServer, database: str, prepared: bool
) -> None:
    with closing(through(proxy, postgres_server, database, autocommit=True)) as connection:
        connection.execute("CREATE TABLE t (a integer)")
        for number in (1, 2, 3):
            connection.execute("BEGIN")
            connection.execute("INSERT INTO t VALUES (%s)", (number,))
            if number == 2:
                proxy.drop_commit_reply(1)
                with pytest.raises(psycopg.OperationalError):
                    connection.execute("COMMIT", prepare=prepared)
                break
            connection.execute("COMMIT", prepare=prepared)
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT a FROM t ORDER BY a").fetchall() == [(1,), (2,)]


def test_proxy_goes_silent(proxy: Proxy, postgres_server: PostgresServer, database: str) -> None:
    with closing(through(proxy, postgres_server, database, autocommit=True)) as connection:
        proxy.blackhole_after(0)
        connection.pgconn.send_query(b"SELECT 1")
        connection.pgconn.flush()
        time.sleep(0.5)
        connection.pgconn.consume_input()
        assert connection.pgconn.is_busy()
        assert proxy.black.is_set()
        proxy.blackhole_after(None)
        while connection.pgconn.is_busy():
            connection.pgconn.consume_input()
            time.sleep(0.01)
        while connection.pgconn.get_result() is not None:
            pass
