"""Rows that take their time to be judged: whoever waits for them can be let go, and a checkpoint need not wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from extension.pages import Connection, append, connect, finish, make_table, open_load
from servers.postgres import PostgresServer

ROWS, SLOW = 60_000, 1000
CHECK = f"a <= {ROWS - SLOW} OR length(md5(lpad(b, 1500000, 'x'))) = 32"
"""Takes milliseconds for each of the last rows, which come behind pages that are logged and under way to the file."""


def slow_pages(server: PostgresServer, dbname: str) -> tuple[bytes, Connection]:
    """The pages, and a session with an open load of them."""
    source = make_table(
        server, dbname, "source", {"a": "integer", "b": "text"}, f"SELECT k, 'row' FROM generate_series(1, {ROWS}) k"
    )
    connection = connect(server, dbname)
    connection.execute(f"BEGIN; CREATE TABLE loaded (LIKE source, CHECK ({CHECK}))".encode())
    open_load(connection, "loaded")
    return source.pages, connection


@pytest.mark.parametrize("version", [15, 18])
@pytest.mark.parametrize("wal_level", ["minimal", "replica"])
def test_it_can_be_cancelled(
    direct_server: Callable[..., tuple[PostgresServer, str]], version: int, wal_level: str
) -> None:
    settings = {"wal_level": wal_level} | ({"max_wal_senders": "0"} if wal_level == "minimal" else {})
    server, dbname = direct_server(version, settings)
    pages, connection = slow_pages(server, dbname)
    with connection:
        connection.execute("SET statement_timeout = 500")
        with pytest.raises(psycopg.errors.QueryCanceled):
            append(connection, pages, batch_pages=1000)
        connection.execute("ROLLBACK")
        assert connection.execute("SELECT to_regclass('loaded')").fetchone() == (None,)
    server.execute("CHECKPOINT")


@pytest.mark.parametrize("version", [15, 18])
def test_a_checkpoint_need_not_wait(direct_server: Callable[..., tuple[PostgresServer, str]], version: int) -> None:
    server, dbname = direct_server(version, {"wal_level": "replica"})
    pages, connection = slow_pages(server, dbname)
    failures: list[BaseException] = []

    def load() -> None:
        try:
            assert append(connection, pages, batch_pages=1000) == ROWS
        except BaseException as error:
            failures.append(error)

    with connection:
        thread = threading.Thread(target=load)
        thread.start()
        checkpoints = 0
        # Each of them begins and ends while rows are judged, but the last.
        while thread.is_alive():
            server.execute("CHECKPOINT")
            checkpoints += thread.is_alive()
        thread.join()
        assert not failures
        assert checkpoints >= 2
        finish(connection)
        connection.execute("COMMIT")
        assert connection.execute("SELECT count(*), sum(a) FROM loaded").fetchone() == (ROWS, ROWS * (ROWS + 1) // 2)
