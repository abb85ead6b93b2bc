"""What was appended is what COPY would have loaded, byte for byte and row for row."""

from __future__ import annotations

import mmap
import os
import random
import stat
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from conftest import LONG
from extension.pages import (
    PAGE_BYTES,
    append,
    append_shared,
    assert_same_rows,
    assert_sound,
    clean_pages,
    connect,
    file_of,
    finish,
    items_of,
    load,
    make_every_type,
    make_small,
    make_table,
    open_load,
)
from servers.postgres import PostgresServer
from targets import PostgresTarget

APPEND_SLOTS = "SELECT tipple_direct.append_slots(%s::int[], %s::int[])"


def without_ids(pages: bytes) -> bytes:
    """Pages without what depends on the transaction and the command: t_xmin and t_cid."""
    result = bytearray(pages)
    for begin in range(0, len(pages), PAGE_BYTES):
        for offset, _ in items_of(pages[begin : begin + PAGE_BYTES]):
            tuple_begin = begin + offset
            result[tuple_begin : tuple_begin + 4] = bytes(4)
            result[tuple_begin + 8 : tuple_begin + 12] = bytes(4)
    return bytes(result)


def test_every_type(postgres_server: PostgresServer, direct_database: str) -> None:
    source = make_every_type(postgres_server, direct_database)
    with connect(postgres_server, direct_database) as connection, load(connection, "loaded", "source") as opened:
        assert opened[0] == PAGE_BYTES
        assert opened[4] is None
        assert append(connection, source.pages, batch_pages=37) == source.rows
    assert_same_rows(postgres_server, direct_database, "source", "loaded")
    assert_sound(postgres_server, direct_database, "loaded")
    postgres_server.execute("CHECKPOINT")
    loaded = clean_pages(file_of(postgres_server, direct_database, "loaded").read_bytes())
    assert without_ids(loaded) == without_ids(source.pages)


def test_dropped_and_plain_columns(postgres_server: PostgresServer, direct_database: str) -> None:
    columns = {"a": "integer", "gone": "text", "b": "text NOT NULL", "c": "numeric"}
    alterations = "ALTER TABLE {0} DROP COLUMN gone; ALTER TABLE {0} ALTER b SET STORAGE PLAIN"
    select = "SELECT k, repeat('b', k % 200), k / 7.0 FROM generate_series(1, 3000) k"
    source = make_table(
        postgres_server, direct_database, "source", columns, select, alterations=alterations.format("source")
    )
    with connect(postgres_server, direct_database) as connection:
        definition = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        connection.execute("BEGIN")
        connection.execute(f"CREATE TABLE loaded ({definition})")  # type: ignore[call-overload]
        connection.execute(alterations.format("loaded"))  # type: ignore[call-overload]
        open_load(connection, "loaded")
        append(connection, source.pages)
        assert finish(connection) == (source.page_count, source.rows)
        connection.execute("COMMIT")
    assert_same_rows(postgres_server, direct_database, "source", "loaded")
    assert_sound(postgres_server, direct_database, "loaded")


def test_nothing_appended(postgres_server: PostgresServer, direct_database: str) -> None:
    make_small(postgres_server, direct_database, rows=1)
    with connect(postgres_server, direct_database) as connection:
        with load(connection, "loaded", "source"):
            assert append(connection, b"") == 0
        assert connection.execute("SELECT count(*) FROM loaded").fetchone() == (0,)


@pytest.mark.parametrize("freeze", ["", "(FREEZE)"], ids=["copy", "copy_freeze"])
def test_copy_in_between(postgres_server: PostgresServer, direct_database: str, freeze: str) -> None:
    """Rows that fit no page come by COPY, before, between and after batches, and share the last page with them."""
    source = make_small(postgres_server, direct_database)
    third = source.page_count // 3 * PAGE_BYTES
    parts = [source.pages[:third], source.pages[third : 2 * third], source.pages[2 * third :]]
    with connect(postgres_server, direct_database) as connection:
        connection.execute("CREATE TABLE expected (LIKE source)")
        connection.execute("INSERT INTO expected SELECT * FROM source")

        def copy_rows(table: str, number: int) -> None:
            with connection.cursor().copy(f"COPY {table} FROM STDIN {freeze if table == 'loaded' else ''}") as rows:
                rows.write_row((number, None, "short"))
                rows.write_row((number, 1, "".join(chr(97 + k * k % 26) for k in range(30_000))))
                for _ in range(number):
                    rows.write_row((number, number, "many" * 10))

        with load(connection, "loaded", "source"):
            for number, pages in enumerate(parts):
                append(connection, pages)
                copy_rows("loaded", number * 2000)
        for number in range(len(parts)):
            copy_rows("expected", number * 2000)
    assert_same_rows(postgres_server, direct_database, "expected", "loaded")
    assert_sound(postgres_server, direct_database, "loaded", mapped=False)
    # And the appended rows are as good as any others.
    with connect(postgres_server, direct_database) as connection:
        for table in ("expected", "loaded"):
            connection.execute(f"UPDATE {table} SET b = b + 1 WHERE a % 3 = 0")  # type: ignore[call-overload]
            connection.execute(f"DELETE FROM {table} WHERE a % 5 = 0")  # type: ignore[call-overload]
    assert_same_rows(postgres_server, direct_database, "expected", "loaded")
    assert_sound(postgres_server, direct_database, "loaded", mapped=False)


def test_life_of_a_loaded_table(postgres_server: PostgresServer, direct_database: str) -> None:
    source = make_every_type(postgres_server, direct_database)
    with connect(postgres_server, direct_database) as connection:
        with load(connection, "loaded", "source"):
            append(connection, source.pages)
        connection.execute("CREATE INDEX loaded_i8 ON loaded (i8, t)")
        connection.execute("ALTER TABLE loaded ADD CHECK (i4 IS NULL OR i4 > -2100000000)")
        connection.execute("UPDATE loaded SET t = t || '!' WHERE i4 % 2 = 0")
        connection.execute("UPDATE source SET t = t || '!' WHERE i4 % 2 = 0")
        connection.execute("DELETE FROM loaded WHERE i4 % 3 = 0")
        connection.execute("DELETE FROM source WHERE i4 % 3 = 0")
        connection.execute("VACUUM FREEZE loaded")
        assert_same_rows(postgres_server, direct_database, "source", "loaded")
        connection.execute("CLUSTER loaded USING loaded_i8")
        assert_same_rows(postgres_server, direct_database, "source", "loaded")
        assert_sound(postgres_server, direct_database, "loaded", mapped=False)
        dump = postgres_server.run("pg_dump", "-h", postgres_server.socket_directory, "-p", postgres_server.port,
                                   "-U", "postgres", "-t", "loaded", "--data-only", direct_database)  # fmt: skip
        assert dump.count("\n") > source.rows / 2


def test_an_index_that_lacks_a_row_is_found(postgres_target: PostgresTarget) -> None:
    """Other tests rely on it; rows that are not to be in a partial index are no fault of it."""
    server, database = postgres_target.server, postgres_target.database
    ready = "UPDATE pg_index SET indisready = %s WHERE indexrelid = 'by_text'::regclass"
    with server.connect(database) as connection:
        connection.execute("CREATE TABLE t AS SELECT k, k::text AS text FROM generate_series(1, 1000) k")
        connection.execute("CREATE INDEX by_text ON t (lower(text), k) WHERE text <> '7'; CREATE INDEX ON t (k)")
        connection.execute("INSERT INTO t VALUES (7, '7')")
        assert_sound(server, database, "t", mapped=False)
        connection.execute(ready, (False,))
        connection.execute("INSERT INTO t VALUES (8, 'missing')")
        connection.execute(ready, (True,))
        with pytest.raises((AssertionError, psycopg.Error)):
            assert_sound(server, database, "t", mapped=False)


def test_statistics_are_reported(postgres_server: PostgresServer, direct_database: str) -> None:
    source = make_small(postgres_server, direct_database)
    with connect(postgres_server, direct_database) as connection:
        with load(connection, "loaded", "source"):
            append(connection, source.pages)
        connection.execute("SELECT pg_stat_force_next_flush()")
        connection.execute("SELECT 1")
        counted = connection.execute("SELECT n_tup_ins, n_live_tup FROM pg_stat_user_tables WHERE relname = 'loaded'")
        assert counted.fetchone() == (source.rows, source.rows)


def test_shared_memory(postgres_server: PostgresServer, direct_database: str) -> None:
    source = make_every_type(postgres_server, direct_database)
    slots, slot_pages = 3, 20
    with connect(postgres_server, direct_database) as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE loaded (LIKE source)")
        path = open_load(connection, "loaded", slots, slot_pages)[4]
        assert path is not None, "the server could not make shared memory"
        file = Path(path)
        assert file.stat().st_size == slots * slot_pages * PAGE_BYTES
        assert stat.S_IMODE(file.stat().st_mode) == 0o666
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o711
        assert len(file.name) == 32
        with file.open("r+b") as opened, closing(mmap.mmap(opened.fileno(), 0)) as memory:
            connection.execute("SELECT tipple_direct.opened()")
            assert not file.parent.exists()
            assert append_shared(connection, memory, source.pages, slots, slot_pages) == source.rows
        assert finish(connection) == (source.page_count, source.rows)
        connection.execute("COMMIT")
    assert_same_rows(postgres_server, direct_database, "source", "loaded")
    assert_sound(postgres_server, direct_database, "loaded")


def test_several_slots_at_once(postgres_server: PostgresServer, direct_database: str) -> None:
    """Slots of all lengths, in any order, more than writes can be under way; of one bad page nothing stays."""
    source = make_small(postgres_server, direct_database, rows=300_000)
    slots, slot_pages = 8, 150
    assert source.page_count > 10 * slot_pages
    pages = [source.pages[at : at + PAGE_BYTES] for at in range(0, len(source.pages), PAGE_BYTES)]
    r = random.Random(5)
    with connect(postgres_server, direct_database) as connection:
        for spoilt in (False, True):
            connection.execute("BEGIN; CREATE TABLE loaded (LIKE source)")
            path = open_load(connection, "loaded", slots, slot_pages)[4]
            with open(path, "r+b") as opened, closing(mmap.mmap(opened.fileno(), 0)) as memory:
                rest, rows = pages, 0
                while rest:
                    lengths = [r.choice((0, 1, 7, 127, 128, 129, slot_pages)) for _ in range(r.randrange(1, slots + 1))]
                    order = r.sample(range(slots), len(lengths))
                    for slot, length in zip(order, lengths, strict=True):
                        batch = b"".join(rest[:length])
                        memory.seek(slot * slot_pages * PAGE_BYTES)
                        memory.write(batch)
                        lengths[order.index(slot)] = len(batch) // PAGE_BYTES
                        rest = rest[length:]
                    if spoilt and not rest:
                        memory.seek(order[-1] * slot_pages * PAGE_BYTES)
                        memory.write(b"x" * PAGE_BYTES)
                        lengths[-1] = 1
                        with pytest.raises(psycopg.errors.DataCorrupted):
                            connection.execute(APPEND_SLOTS, (order, lengths))
                        break
                    appended = connection.execute(APPEND_SLOTS, (order, lengths)).fetchone()
                    assert appended is not None
                    rows += appended[0]
                if not spoilt:
                    assert rows == source.rows
                    assert finish(connection) == (source.page_count, source.rows)
            connection.execute("ROLLBACK" if spoilt else "COMMIT")
            if not spoilt:
                assert_same_rows(postgres_server, direct_database, "source", "loaded")
                assert_sound(postgres_server, direct_database, "loaded")
                connection.execute("DROP TABLE loaded")
        assert connection.execute("SELECT to_regclass('loaded')").fetchone() == (None,)


def test_shared_memory_that_the_client_cuts_short(postgres_server: PostgresServer, direct_database: str) -> None:
    source = make_small(postgres_server, direct_database)
    with connect(postgres_server, direct_database) as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE loaded (LIKE source)")
        path = open_load(connection, "loaded", 2, 4)[4]
        os.truncate(path, 4 * PAGE_BYTES)
        with pytest.raises(Exception, match="cut short"):
            connection.execute("SELECT tipple_direct.append_slot(1, 4)")
        connection.execute("ROLLBACK")
        assert not Path(path).parent.exists()
        assert source.rows > 0


def test_tablespace_without_direct_io(disk, postgres_server: PostgresServer, direct_database: str) -> None:
    """tmpfs refuses O_DIRECT on many kernels; whether or not it does, the rows arrive."""
    place = disk(64)
    os.chown(place, *(postgres_server.data.stat().st_uid, postgres_server.data.stat().st_gid))
    for parent in place.parents:
        if parent != Path("/"):
            os.chmod(parent, os.stat(parent).st_mode | 0o011)
    source = make_small(postgres_server, direct_database)
    with postgres_server.connect(direct_database) as connection:
        connection.execute(f"CREATE TABLESPACE elsewhere LOCATION '{place}'")  # type: ignore[call-overload]
        try:
            connection.execute("BEGIN")
            connection.execute("CREATE TABLE loaded (LIKE source) TABLESPACE elsewhere")
            open_load(connection, "loaded")
            append(connection, source.pages)
            finish(connection)
            connection.execute("COMMIT")
            assert_same_rows(postgres_server, direct_database, "source", "loaded")
            connection.execute("DROP TABLE loaded")
        finally:
            connection.execute("DROP TABLESPACE elsewhere")


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="writes 1.2 GB: TIPPLE_LONG=1")
@pytest.mark.timeout(900)
def test_over_a_segment_border(postgres_server: PostgresServer, direct_database: str) -> None:
    source = make_small(postgres_server, direct_database, rows=60_000)
    segment_pages = 2**30 // PAGE_BYTES
    rounds = segment_pages // source.page_count + 50
    with connect(postgres_server, direct_database) as connection:
        with load(connection, "loaded", "source"):
            rows = sum(append(connection, source.pages, batch_pages=509) for _ in range(rounds))
        assert rows == rounds * source.rows
        file = file_of(postgres_server, direct_database, "loaded")
        assert file.stat().st_size == 2**30
        assert (
            file.with_name(file.name + ".1").stat().st_size == (rounds * source.page_count - segment_pages) * PAGE_BYTES
        )
        counted = connection.execute("SELECT count(*), count(DISTINCT (a, b, c)), sum(a), min(ctid) FROM loaded")
        assert counted.fetchone()[:3] == (rows, source.rows, rounds * source.rows * (source.rows + 1) // 2)  # type: ignore[index]
    assert_sound(postgres_server, direct_database, "loaded")
