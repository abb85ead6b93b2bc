"""Pages that come packed: unpacking by itself, and as the server's function takes them."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from conftest import LONG
from extension.pages import (
    PAGE_BYTES,
    assert_same_rows,
    assert_sound,
    connect,
    finish,
    load,
    make_every_type,
    make_small,
    open_load,
)
from servers.extension import SOURCES
from servers.postgres import PostgresServer

APPEND_PACKED = "SELECT tipple_direct.append_packed(%s, %s)"
BATCH_PAGES = 37
MOST_PAGES = (64 << 20) // PAGE_BYTES
LZ4 = pa.Codec("lz4_raw")


def packed(data: bytes) -> bytes:
    """As one block, by another implementation than the client's."""
    return bytes(LZ4.compress(data, asbytes=True))


@pytest.fixture(scope="module")
def unpacker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that unpacks blocks without a server, with what finds wrong accesses to memory."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc: apt-get install gcc")
    program = tmp_path_factory.mktemp("unpacker") / "test_lz4_block"
    sources = [SOURCES / "test/test_lz4_block.c", SOURCES / "lz4_block.c"]
    flags = ["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
    done = subprocess.run(["gcc", *flags, f"-I{SOURCES}", *sources, "-o", program], capture_output=True, text=True)
    if "cannot find -lasan" in done.stderr:
        pytest.skip("no AddressSanitizer: apt-get install libgcc-12-dev")
    assert done.returncode == 0, done.stderr
    return program


def test_blocks_made_by_hand(unpacker: Path) -> None:
    done = subprocess.run([unpacker], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "blocks are right\n"), done.stderr


def content(chance: random.Random) -> bytes:
    """Of any length around the format's own limits; of few different bytes, or repeated, or neither."""
    size = chance.choice([0, 1, 4, 5, 12, 13, 15, 16, 17, 270, 4096, 70_000, chance.randrange(200_000)])
    if chance.random() < 0.5:
        kinds = chance.choice([1, 2, 20, 256])
        return bytes(chance.randrange(kinds) for _ in range(size))
    piece = chance.randbytes(chance.randrange(1, 5000))
    return (piece * (size // len(piece) + 1))[:size]


def test_unpacks_what_others_pack_and_survives_damage(unpacker: Path, tmp_path: Path) -> None:
    chance = random.Random(20)
    block = tmp_path / "block"
    for number in range(300 if LONG else 30):
        data = content(chance)
        block.write_bytes(packed(data))
        done = subprocess.run([unpacker, str(len(data)), block], capture_output=True)
        assert (done.returncode, done.stdout) == (0, data), (number, done.stderr)
        times = str(max(20, 200_000 // (len(data) + 100)))
        spoilt = subprocess.run([unpacker, str(len(data)), block, str(number), times], capture_output=True, text=True)
        assert spoilt.returncode == 0, (number, spoilt.stderr)


def test_every_type(postgres_server: PostgresServer, direct_database: str) -> None:
    source = make_every_type(postgres_server, direct_database)
    with connect(postgres_server, direct_database) as connection, load(connection, "loaded", "source"):
        rows = 0
        for begin in range(0, len(source.pages), BATCH_PAGES * PAGE_BYTES):
            piece = source.pages[begin : begin + BATCH_PAGES * PAGE_BYTES]
            found = connection.execute(APPEND_PACKED, (packed(piece), len(piece) // PAGE_BYTES)).fetchone()
            assert found is not None
            rows += found[0]
        assert rows == source.rows
    assert_same_rows(postgres_server, direct_database, "source", "loaded")
    assert_sound(postgres_server, direct_database, "loaded")


def test_what_is_no_block_of_pages(postgres_server: PostgresServer, direct_database: str) -> None:
    """Is refused, and leaves nothing; a page that was packed is checked as any other."""
    source = make_small(postgres_server, direct_database, rows=2000)
    pages = len(source.pages) // PAGE_BYTES
    block = packed(source.pages)
    spoilt = bytearray(source.pages)
    spoilt[PAGE_BYTES + 20] ^= 0xFF
    refused = [
        (block, pages - 1, "XX001", "are not"),
        (block, pages + 1, "XX001", "are not"),
        (block[:-1], pages, "XX001", "are not"),
        (b"", 1, "XX001", "are not"),
        (block, 0, "22023", "are not possible"),
        (block, -1, "22023", "are not possible"),
        (block, MOST_PAGES + 1, "22023", "are not possible"),
        (packed(bytes(spoilt)), pages, "XX001", "page 1 of the batch is not a heap page"),
        (packed(bytes(PAGE_BYTES)), 1, "XX001", "is not a heap page"),
    ]
    with connect(postgres_server, direct_database) as connection:
        connection.execute("CREATE TABLE loaded (LIKE source INCLUDING STORAGE)")
        for given, count, sqlstate, message in refused:
            connection.execute("BEGIN")
            connection.execute("TRUNCATE loaded")
            open_load(connection, "loaded")
            with pytest.raises(psycopg.Error, match=message) as error:
                connection.execute(APPEND_PACKED, (given, count))
            assert error.value.sqlstate == sqlstate, (count, error.value)
            connection.execute("ROLLBACK")
        with pytest.raises(psycopg.Error) as error:
            connection.execute(APPEND_PACKED, (block, pages))
        assert error.value.sqlstate == "55000"
        # The same session goes on.
        connection.execute("BEGIN")
        connection.execute("TRUNCATE loaded")
        open_load(connection, "loaded")
        connection.execute(APPEND_PACKED, (block, pages))
        assert finish(connection) == (pages, source.rows)
        connection.execute("COMMIT")
    assert_same_rows(postgres_server, direct_database, "source", "loaded")
