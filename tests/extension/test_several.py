"""Several relations in one load, and rows that CHECK constraints and the bounds of partitions judge."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from extension.pages import (
    PAGE_BYTES,
    append,
    assert_same_rows,
    assert_sound,
    connect,
    digest,
    finish,
    make_every_type,
    make_small,
    open_load,
)
from servers.postgres import PostgresServer


def append_to(connection: psycopg.Connection, target: int, pages: bytes) -> int:
    row = connection.execute("SELECT tipple_direct.append(%b, %s)", (pages, target)).fetchone()
    assert row is not None
    return int(row[0])


def test_pages_in_turn(postgres_server: PostgresServer, direct_database: str) -> None:
    """Batches of several relations in turn, more of them than files are kept open, with COPY in between."""
    small = make_small(postgres_server, direct_database, "small")
    other = make_every_type(postgres_server, direct_database, "other")
    tables = [f"t{number}" for number in range(70)]
    with connect(postgres_server, direct_database) as connection:
        connection.execute("BEGIN; CREATE TABLE loaded (LIKE small); CREATE TABLE loaded_other (LIKE other)")
        for table in tables:
            connection.execute(f"CREATE TABLE {table} (LIKE small)")  # type: ignore[call-overload]
        open_load(connection, "loaded")
        for number, table in enumerate(["loaded_other", *tables], 1):
            row = connection.execute("SELECT tipple_direct.also(%s)", (table,)).fetchone()
            assert row == (number,)
        steps = 7
        rows = 0
        for step in range(steps):
            for target, source in ((0, small), (1, other)):
                pages = source.page_count
                begin, end = pages * step // steps * PAGE_BYTES, pages * (step + 1) // steps * PAGE_BYTES
                rows += append_to(connection, target, source.pages[begin:end])
            if step == 3:
                with connection.cursor().copy("COPY t5 FROM STDIN") as copy:
                    copy.write_row((1, 2, "by COPY"))
        assert rows == small.rows + other.rows
        for target in range(2, 72):
            rows += append_to(connection, target, small.pages[: 3 * PAGE_BYTES])
        for target in range(71, 1, -1):
            rows += append_to(connection, target, small.pages[3 * PAGE_BYTES :])
        assert finish(connection) == (small.page_count * 71 + other.page_count, rows)
        connection.execute("COMMIT")
        assert connection.execute("SELECT count(*), count(*) FILTER (WHERE b = 2) FROM t5").fetchone() == (
            small.rows + 1,
            2,
        )
    assert_same_rows(postgres_server, direct_database, "small", "loaded")
    assert_same_rows(postgres_server, direct_database, "other", "loaded_other")
    for table in ("loaded", "loaded_other", "t0", "t69"):
        assert_sound(postgres_server, direct_database, table)
    assert_same_rows(postgres_server, direct_database, "small", "t33")


def test_a_server_with_few_files(direct_server: Callable[..., tuple[PostgresServer, str]]) -> None:
    """A backend that may open few files has some for each of many relations in turn."""
    server, dbname = direct_server(settings={"max_files_per_process": "64"})
    small = make_small(server, dbname, "small", rows=500)
    tables = [f"t{number}" for number in range(50)]
    with connect(server, dbname) as connection:
        connection.execute("BEGIN")
        for number, table in enumerate(tables):
            connection.execute(f"CREATE TABLE {table} (LIKE small)")  # type: ignore[call-overload]
            if number == 0:
                open_load(connection, table)
            else:
                connection.execute("SELECT tipple_direct.also(%s)", (table,))
        for target in [*range(50), *range(50)]:
            append_to(connection, target, small.pages)
        assert finish(connection) == (100 * small.page_count, 100 * small.rows)
        connection.execute("COMMIT")
    for table in ("t0", "t49"):
        assert digest(server, dbname, table)[0] == 2 * small.rows
        assert_sound(server, dbname, table)


JUDGED = {
    "CREATE TABLE loaded (LIKE source); ALTER TABLE loaded ADD CONSTRAINT small CHECK (a <= 19999)": 19999,
    "CREATE TABLE root (LIKE source) PARTITION BY RANGE (a);"
    "CREATE TABLE loaded PARTITION OF root FOR VALUES FROM (1) TO (15000)": 14999,
    "CREATE TABLE root (LIKE source) PARTITION BY LIST (c);"
    "CREATE TABLE loaded PARTITION OF root FOR VALUES IN ('row number 1', 'row number 2')": 2,
    "CREATE TABLE root (LIKE source) PARTITION BY HASH (a, c);"
    "CREATE TABLE loaded PARTITION OF root FOR VALUES WITH (MODULUS 1, REMAINDER 0)": 20000,
    "CREATE TABLE root (LIKE source) PARTITION BY RANGE (a);"
    "CREATE TABLE branch PARTITION OF root FOR VALUES FROM (1) TO (30000) PARTITION BY RANGE (b);"
    "CREATE TABLE loaded PARTITION OF branch FOR VALUES FROM (0) TO (7.5)": 749,
    "CREATE TABLE root (LIKE source) PARTITION BY LIST (a);"
    "CREATE TABLE one PARTITION OF root FOR VALUES IN (17); CREATE TABLE loaded PARTITION OF root DEFAULT": 16,
}


@pytest.mark.parametrize("table", JUDGED, ids=["check", "range", "list", "hash", "sub-partition", "default"])
def test_rows_are_judged(postgres_server: PostgresServer, direct_database: str, table: str) -> None:
    """The first row that does not belong ends the load with COPY's error; those before it would have been taken."""
    source = make_small(postgres_server, direct_database)
    last = JUDGED[table]
    with connect(postgres_server, direct_database) as connection:
        connection.execute("BEGIN")
        connection.execute(table)  # type: ignore[call-overload]
        open_load(connection, "loaded")
        if last == source.rows:
            assert append(connection, source.pages) == source.rows
        else:
            with pytest.raises(psycopg.errors.CheckViolation) as refused:
                append(connection, source.pages, batch_pages=1)
            connection.execute("ROLLBACK")
            assert f"({last + 1}, " in str(refused.value.diag.message_detail)
            return
        finish(connection)
        connection.execute("COMMIT")
    assert_same_rows(postgres_server, direct_database, "source", "loaded")
    assert_sound(postgres_server, direct_database, "loaded")


def test_attached_meanwhile(postgres_server: PostgresServer, direct_database: str) -> None:
    """A table that becomes a partition between two batches has its bound from then on."""
    source = make_small(postgres_server, direct_database)
    half = source.page_count // 2 * PAGE_BYTES
    with connect(postgres_server, direct_database) as connection:
        connection.execute("BEGIN; CREATE TABLE root (LIKE source) PARTITION BY RANGE (a)")
        connection.execute("CREATE TABLE loaded (LIKE source)")
        open_load(connection, "loaded")
        append(connection, source.pages[:half])
        connection.execute("ALTER TABLE root ATTACH PARTITION loaded FOR VALUES FROM (1) TO (19000)")
        with pytest.raises(psycopg.errors.CheckViolation, match="violates partition constraint"):
            append(connection, source.pages[half:])
