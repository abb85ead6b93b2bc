"""Pages that no server would have written: refused with place and reason, and never a crash."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from conftest import LONG
from extension.pages import (
    COLUMNS,
    PAGE_BYTES,
    Table,
    append,
    assert_sound,
    connect,
    digest,
    file_of,
    finish,
    items_of,
    load,
    make_every_type,
    make_full,
    make_table,
    open_load,
)
from servers.extension import build_driver
from servers.postgres import PostgresServer

SEED = int(os.environ.get("TIPPLE_SEED", "0"))

BIGGEST_TIMESTAMP = 9223371331200000000
DAY_MICROSECONDS = 86_400_000_000

VALUES = [
    # A column of a lax type with a value, taken for a column of a strict type that is laid out alike: what is wrong.
    ("integer", "-2451546", "date", "date is out of range"),
    ("integer", "-2451545", "date", None),
    ("integer", "2145031949", "date", "date is out of range"),
    ("integer", "2145031948", "date", None),
    ("integer", "2147483647", "date", None),
    ("bigint", "-1", "time", "time is out of range"),
    ("bigint", f"{DAY_MICROSECONDS}", "time", None),
    ("bigint", f"{DAY_MICROSECONDS + 1}", "time", "time is out of range"),
    ("bigint", "1000", "time(3)", None),
    ("bigint", "1001", "time(3)", "more digits than the column's precision"),
    ("bigint", f"{BIGGEST_TIMESTAMP}", "timestamp", "timestamp is out of range"),
    ("bigint", f"{BIGGEST_TIMESTAMP - 1}", "timestamptz", None),
    ("bigint", "-211813488000001", "timestamp(0)", "more digits than the column's precision"),
    ("bigint", "-211813488000000000", "timestamp", None),
    ("bigint", "-211813488000000001", "timestamp", "timestamp is out of range"),
    ("bigint", "9223372036854775807", "timestamp(0)", None),
    ("smallint", "2", "boolean", "neither true nor false"),
    ("smallint", "257", "boolean", "longer than its values"),
    ("bigint", "2", "integer", "longer than its values"),
    ("integer", "2", "bigint", "ends behind its tuple"),
    ("uuid", "'00000000-0000-0000-0100-000000000000'", "interval", None),
    ("uuid", "'01000000-0000-0000-0100-000000000000'", "interval(3)", "more digits than the column's precision"),
    ("bytea", r"'\x41'", "text", None),
    ("bytea", r"'\x00'", "text", "not valid in the database's encoding"),
    ("bytea", r"'\x414141414141414100'", "text", "not valid in the database's encoding"),
    ("bytea", r"'\x4141414141414141414141414141414141410041'", "text", "not valid in the database's encoding"),
    ("bytea", r"'\xc3'", "text", "not valid in the database's encoding"),
    ("bytea", r"'\xc3a4'", "varchar(1)", None),
    ("bytea", r"'\xeda080'", "text", "not valid in the database's encoding"),
    ("bytea", r"decode(repeat('41', 500) || 'ff', 'hex')", "text", "not valid in the database's encoding"),
    ("bytea", r"decode(repeat('41', 500) || '00', 'hex')", "text", "not valid in the database's encoding"),
    ("text", "'abcdef'", "varchar(5)", "longer than the column allows"),
    ("text", "'äöüäöü'", "varchar(5)", "longer than the column allows"),
    ("text", "'äöüäö'", "varchar(5)", None),
    ("text", "'ab'", "char(3)", "shorter than the column's padded width"),
    ("text", "'ab '", "char(3)", None),
    ("text", "'äb'", "char(3)", "shorter than the column's padded width"),
    ("text", "'abcd'", "char(3)", "longer than the column allows"),
    # numeric: its header and base-10000 digits, little-endian
    ("bytea", r"'\x'", "numeric", "a length that no numeric has"),
    ("bytea", r"'\x00'", "numeric", "a length that no numeric has"),
    ("bytea", r"'\x008001'", "numeric", "a length that no numeric has"),
    ("bytea", r"'\x0080'", "numeric", None),
    ("bytea", r"'\x00a0'", "numeric", "not written as one"),
    ("bytea", r"'\x0180'", "numeric", "not written as one"),
    ("bytea", r"'\x00800100'", "numeric", None),
    ("bytea", r"'\x00800f27'", "numeric", None),
    ("bytea", r"'\x00801027'", "numeric", "digit group above 9999"),
    ("bytea", r"'\x0180010010270100'", "numeric", "digit group above 9999"),
    ("bytea", r"'\x03800100010001001027'", "numeric", "digit group above 9999"),
    ("bytea", r"'\x04800100010001001027' || '\x0100'::bytea", "numeric", "digit group above 9999"),
    ("bytea", r"'\x00800000'", "numeric", "zeros before or behind"),
    ("bytea", r"'\x018001000000'", "numeric", "zeros before or behind"),
    ("bytea", r"'\x018000000100'", "numeric", "zeros before or behind"),
    ("bytea", r"'\x7f800100'", "numeric", "digits beyond its scale"),
    ("bytea", r"'\xff800a00'", "numeric", "digits beyond its scale"),
    ("bytea", r"'\xff80e803'", "numeric", None),
    ("bytea", r"'\x00c0'", "numeric(5,2)", None),
    ("bytea", r"'\x00d0'", "numeric", None),
    ("bytea", r"'\x00d0'", "numeric(5,2)", "infinite and the column has a precision"),
    ("bytea", r"'\x00e0'", "numeric", "neither a number nor NaN"),
    ("bytea", r"'\x00c00100'", "numeric", "neither a number nor NaN"),
    ("bytea", r"'\x000000000100'", "numeric", "long form and fits the short one"),
    ("bytea", r"'\x400000000100'", "numeric", None),
    ("bytea", r"'\x0000400000'", "numeric", "a length that no numeric has"),
    ("bytea", r"'\x4000'", "numeric", "a length that no numeric has"),
    ("bytea", r"'\x0081'", "numeric(15,2)", None),
    ("bytea", r"'\x00a1'", "numeric(15,2)", "not written as one"),
    ("bytea", r"'\x0181'", "numeric(15,2)", "not written as one"),
    ("bytea", r"'\x00800100'", "numeric(15,2)", "not the column's scale"),
    ("bytea", r"'\x00810100'", "numeric(15,2)", None),
    ("bytea", r"'\x00810f27'", "numeric(15,2)", None),
    ("bytea", r"'\x00811027'", "numeric(15,2)", "digit group above 9999"),
    ("bytea", r"'\x0181010010270100'", "numeric(15,2)", "digit group above 9999"),
    ("bytea", r"'\x00810000'", "numeric(15,2)", "zeros before or behind"),
    ("bytea", r"'\x008100006400'", "numeric(15,2)", "zeros before or behind"),
    ("bytea", r"'\x008101000000'", "numeric(15,2)", "zeros before or behind"),
    ("bytea", r"'\x008101000100'", "numeric(15,2)", "digits beyond its scale"),
    ("bytea", r"'\x008101006400'", "numeric(15,2)", None),
    ("bytea", r"'\x0081010064000100'", "numeric(15,2)", "digits beyond its scale"),
    ("bytea", r"'\x03810900'", "numeric(15,2)", None),
    ("bytea", r"'\x03810a00'", "numeric(15,2)", "out of the column's precision"),
    ("bytea", r"'\x04810100'", "numeric(15,2)", "out of the column's precision"),
    ("bytea", r"'\x0080ff00'", "numeric(10,0)", None),
    ("bytea", r"'\x02806300'", "numeric(10,0)", None),
    ("bytea", r"'\x02806400'", "numeric(10,0)", "out of the column's precision"),
    ("bytea", r"'\x7f811027'", "numeric(5,2)", "digit group above 9999"),
    ("bytea", r"'\x7f81ac26'", "numeric(5,2)", None),
    ("numeric(7,2)", "12345.67", "numeric(6,2)", "out of the column's precision"),
    ("numeric(7,2)", "2345.67", "numeric(6,2)", None),
    ("numeric(7,2)", "1.00", "numeric(6,1)", "not the column's scale"),
    ("numeric", "1.25", "numeric(6,2)", None),
    ("numeric", "100", "numeric(3,-2)", None),
    ("numeric", "150", "numeric(3,-2)", "digits beyond its scale"),
    ("numeric", "99900", "numeric(3,-2)", None),
    ("numeric", "100000", "numeric(3,-2)", "out of the column's precision"),
    ("numeric", "0.00999", "numeric(3,5)", None),
    ("numeric", "0.01999", "numeric(3,5)", "out of the column's precision"),
    # To round it to the column's precision, the type adds half a unit.
    ("interval", "interval '9223372036854.7757 s'", "interval(4)", None),
    ("interval", "interval '9223372036854.7758 s'", "interval(4)", "out of range"),
    ("interval", "interval '-9223372036854.7757 s'", "interval(4)", None),
    ("interval", "interval '-9223372036854.7758 s'", "interval(4)", "out of range"),
    ("integer", "NULL", "integer NOT NULL", "it is null, and the column is NOT NULL"),
]


@pytest.mark.timeout(120)
def test_values(postgres_server: PostgresServer, direct_database: str) -> None:
    """Values at the edge of what a type's own input would accept, on both sides of it."""
    for lax, value, strict, reason in VALUES:
        source = make_table(postgres_server, direct_database, "source", {"a": lax}, f"SELECT {value}")
        with connect(postgres_server, direct_database) as connection:
            connection.execute(f"BEGIN; CREATE TABLE loaded (a {strict})")  # type: ignore[call-overload]
            open_load(connection, "loaded")
            said = None
            try:
                append(connection, source.pages)
                finish(connection)
                connection.execute("SELECT a::text FROM loaded")
            except psycopg.errors.DataCorrupted as error:
                said = error.diag.message_primary
                assert 'item 1, column "a"' in said or "longer than" in said
            matches = said is None if reason is None else said is not None and reason in said
            assert matches, (lax, value, strict, reason, said)
            connection.execute("ROLLBACK; DROP TABLE source")


def set_at(layout: str, offset: int, value: int) -> Callable[[bytearray], None]:
    return lambda page: struct.pack_into(f"<{layout}", page, offset, value)


def in_tuple(layout: str, offset: int, value: int, item: int = 2) -> Callable[[bytearray], None]:
    def change(page: bytearray) -> None:
        struct.pack_into(f"<{layout}", page, items_of(bytes(page))[item - 1][0] + offset, value)

    return change


def pointer(item: int, offset: int = 0, flags: int = 1, length: int = 0) -> Callable[[bytearray], None]:
    """Shift a line pointer's offset and length, and set its flags."""

    def change(page: bytearray) -> None:
        begin, size = items_of(bytes(page))[item - 1]
        word = (begin + offset) & 0x7FFF | flags << 15 | ((size + length) & 0x7FFF) << 17
        struct.pack_into("<I", page, 24 + 4 * (item - 1), word)

    return change


PROCESSOR_FLAGS = Path("/proc/cpuinfo").read_text().split()

DAMAGE = {
    # offset of a field of the page header, of a line pointer, of a tuple's header or data
    "lsn": (set_at("I", 4, 1), "page 1 .*: its LSN"),
    "checksum": (set_at("H", 8, 1), "its LSN, its checksum"),
    "flags": (set_at("H", 10, 0), "pd_flags"),
    "no free lines": (set_at("H", 10, 7), "pd_flags"),
    "lower": (set_at("H", 12, 25), "pd_lower"),
    "empty": (set_at("H", 12, 24), "pd_lower"),
    "lower behind the page": (set_at("H", 12, 0xFFFC), "pd_lower"),
    "upper behind the page": (set_at("H", 14, 0xFFF8), "pd_lower"),
    "upper": (set_at("H", 14, 8000), "pd_upper"),
    "special": (set_at("H", 16, 8184), "special space"),
    "version": (set_at("H", 18, 8192 | 3), "layout version"),
    "page size": (set_at("H", 18, 16384 | 4), "layout version"),
    "prune xid": (set_at("I", 20, 3), "pruning xid"),
    "unused item": (pointer(2, flags=0), "item 2: its line pointer"),
    "redirected item": (pointer(2, flags=2), "item 2: its line pointer"),
    "dead item": (pointer(2, flags=3), "item 2: its line pointer"),
    "overlap": (pointer(2, offset=8), "item 2: its line pointer"),
    "gap": (pointer(2, offset=-8), "item 2: its line pointer"),
    "outside": (pointer(1, offset=8000), "item 1: its line pointer"),
    "tiny": (pointer(1, length=-60), "item 1"),
    "long": (pointer(1, length=1), "item 1"),
    "huge": (pointer(1, length=16000), "item 1: its line pointer"),
    "natts": (in_tuple("H", 18, 2), "item 2: its number of columns"),
    "hot flags": (in_tuple("H", 18, 3 | 0x4000), "item 2: its number of columns"),
    "not frozen": (in_tuple("H", 20, 0x0902), "t_infomask"),
    "not varwidth": (in_tuple("H", 20, 0x0B00), "t_infomask"),
    "external": (in_tuple("H", 20, 0x0B06), "t_infomask"),
    "all null": (in_tuple("H", 20, 0x0B01), "longer than its values"),
    "all null and varwidth": (in_tuple("H", 20, 0x0B03), "t_infomask"),
    "no null": (in_tuple("I", 20, 0xFF180B03), "null bitmap and no null"),
    "bits of no column": (in_tuple("I", 20, 0xF6180B03), "bits beyond its columns"),
    "hoff": (in_tuple("B", 22, 32), "t_hoff"),
    "hoff of nothing": (in_tuple("B", 22, 0), "t_hoff"),
    "hoff outside": (in_tuple("B", 22, 248), "t_hoff"),
    "padding byte": (in_tuple("B", 23, 1), "t_hoff"),
    "padding": (in_tuple("B", 26, 1), "padding between its values"),
    "out of line": (in_tuple("B", 32, 0x01), 'item 2, column "c": it is stored out of line'),
    "past the end": (in_tuple("B", 32, 0xFF), 'item 2, column "c": it ends behind its tuple'),
    "too short": (in_tuple("B", 32, 0x05), "longer than its values"),
    "compressed": (in_tuple("I", 32, (20 << 2) | 2), "it is compressed"),
    "long header": (in_tuple("I", 32, 20 << 2), "long header and fits a short one|ends behind"),
    "negative length": (in_tuple("I", 32, 0xFFFFFFFC), "ends behind"),
    "no length": (in_tuple("I", 32, 0), "ends behind"),
    "nul": (in_tuple("B", 35, 0), "not valid in the database's encoding"),
}


def test_damage(postgres_server: PostgresServer, direct_database: str) -> None:
    columns = {"a": "smallint", "b": "integer", "c": "text"}
    source = make_table(
        postgres_server,
        direct_database,
        "source",
        columns,
        "SELECT k, k, 'some text ' || k FROM generate_series(1, 300) k",
    )
    with connect(postgres_server, direct_database) as connection:
        for name, (change, reason) in DAMAGE.items():
            page = bytearray(source.pages[:PAGE_BYTES])
            change(page)
            connection.execute("BEGIN; CREATE TABLE loaded (LIKE source)")
            open_load(connection, "loaded")
            with pytest.raises(psycopg.errors.DataCorrupted, match=reason) as raised:
                append(connection, source.pages[:PAGE_BYTES] + bytes(page))
            diagnostic = raised.value.diag
            assert diagnostic.message_primary is not None, name
            assert diagnostic.message_primary.startswith('page 1 of the batch is not a heap page of relation "loaded"')
            assert "COPY" in (diagnostic.message_hint or "")
            connection.execute("ROLLBACK")


def test_nothing_hides_in_unused_space(postgres_server: PostgresServer, direct_database: str) -> None:
    source = make_table(
        postgres_server,
        direct_database,
        "source",
        {"a": "text"},
        "SELECT repeat('x', k % 9) FROM generate_series(1, 400) k",
    )
    page = bytearray(source.pages[:PAGE_BYTES])
    lower, upper = struct.unpack_from("<HH", page, 12)
    page[lower:upper] = b"Z" * (upper - lower)
    end = PAGE_BYTES
    for offset, length in items_of(bytes(page)):
        page[offset + length : end] = b"Z" * (end - offset - length)
        end = offset
    assert page.count(b"ZZZ") > 20
    with connect(postgres_server, direct_database) as connection, load(connection, "loaded", "source"):
        append(connection, bytes(page))
    postgres_server.execute("CHECKPOINT")
    stored = file_of(postgres_server, direct_database, "loaded").read_bytes()
    assert stored[lower:upper] == bytes(upper - lower)
    end = PAGE_BYTES
    for offset, length in items_of(stored):
        assert stored[offset + length : end] == bytes(end - offset - length)
        end = offset


def write_columns(server: PostgresServer, dbname: str, table: str, path: Path) -> None:
    rows = server.rows(
        f"""SELECT atttypid::bigint, atttypmod, attlen, attalign::text, attstorage::text, attnotnull::int,
                   attisdropped::int
            FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 ORDER BY attnum""",
        dbname,
    )
    path.write_text("".join(" ".join(str(value) for value in row) + "\n" for row in rows))


@pytest.mark.skipif("avx512bw" not in PROCESSOR_FLAGS, reason="without AVX-512 the server's own check is taken")
def test_utf8_as_a_slow_reader_sees_it(postgres_server: PostgresServer, tmp_path: Path) -> None:
    driver = build_driver(postgres_server.version, tmp_path, sanitize=False)
    done = subprocess.run([driver, "utf8"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


PROCESSORS = {
    "this-processor": (),
    "without-avx512": ("-DTIPPLE_NO_WIDE_LOOPS",),
    "any-processor": ("-DTIPPLE_NO_WIDE_LOOPS", "-DTIPPLE_PLAIN_SHIFTS"),
}


@pytest.mark.parametrize(
    ("make_source", "flags"),
    [
        pytest.param(make_source, flags, id=f"{name}-{processor}")
        for name, make_source in (("every-type", make_every_type), ("without-nulls", make_full))
        for processor, flags in PROCESSORS.items()
    ],
)
def test_fuzz_under_address_sanitizer(
    postgres_server: PostgresServer,
    direct_database: str,
    tmp_path: Path,
    make_source: Callable[[PostgresServer, str], Table],
    flags: tuple[str, ...],
) -> None:
    """The page check alone meets damaged pages; those that it accepts go into a table, which has to be sound."""
    driver = build_driver(postgres_server.version, tmp_path, sanitize=True, flags=flags)
    if isinstance(driver, str):
        pytest.skip(driver)
    source = make_source(postgres_server, direct_database)
    write_columns(postgres_server, direct_database, "source", tmp_path / "columns")
    (tmp_path / "pages").write_bytes(source.pages)
    accepted = tmp_path / "accepted"
    done = subprocess.run(
        [driver, "fuzz", tmp_path / "columns", tmp_path / "pages", "100000" if LONG else "5000", str(SEED), accepted],
        capture_output=True,
        text=True,
        env={"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1", "UBSAN_OPTIONS": "halt_on_error=1"},
    )
    assert done.returncode == 0, f"TIPPLE_SEED={SEED}: {done.stdout}{done.stderr}"
    pages = accepted.read_bytes()
    assert pages, done.stdout
    # All pages that are accepted at all are accepted by the quick way, which has the other look at single values.
    said = re.fullmatch(r"(\d+) of \d+ accepted, (\d+) quickly\n", done.stdout)
    assert said is not None, done.stdout
    assert said[1] == said[2], done.stdout
    with connect(postgres_server, direct_database) as connection, load(connection, "loaded", "source"):
        rows = append(connection, pages)
    assert_sound(postgres_server, direct_database, "loaded")
    assert digest(postgres_server, direct_database, "loaded")[0] == rows


@pytest.mark.timeout(1200)
def test_fuzz_the_server(postgres_server: PostgresServer, direct_database: str) -> None:
    """Damaged pages, one load each: refused as what they are, or accepted and readable."""
    source = make_every_type(postgres_server, direct_database, rows=400)
    generator = random.Random(SEED)
    accepted = 0
    refusals: set[bool] = set()
    rounds = 20_000 if LONG else 500
    columns = ", ".join(f"max({name}::text)" for name in COLUMNS)
    with connect(postgres_server, direct_database) as connection:
        for number in range(rounds):
            begin = generator.randrange(source.page_count) * PAGE_BYTES
            page = bytearray(source.pages[begin : begin + PAGE_BYTES])
            for _ in range(generator.randint(1, 3)):
                place = generator.choice([generator.randrange(24 + 200), generator.randrange(4000, PAGE_BYTES)])
                page[place] = generator.choice([page[place] ^ 1 << generator.randrange(8), generator.randrange(256)])
            connection.execute("BEGIN; CREATE TABLE loaded (LIKE source)")
            open_load(connection, "loaded")
            try:
                append(connection, bytes(page))
                finish(connection)
                connection.execute(f"SELECT {columns} FROM loaded")  # type: ignore[call-overload]
                accepted += 1
            except psycopg.errors.DataCorrupted as error:
                refusals.add("of the batch is not a heap page" in str(error))
            except psycopg.Error as error:
                pytest.fail(f"TIPPLE_SEED={SEED}, round {number}: {error}")
            connection.execute("ROLLBACK")
    assert refusals == {True}
    assert 0 < accepted < rounds
