"""Heap pages to load, taken from a server that made them with COPY FREEZE, and the loading of them."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from servers.extension import extension_missing_reason, install_extension
from servers.postgres import LOADER, PostgresServer
from targets import PostgresTarget

PAGE_BYTES = 8192
HEADER_BYTES = 24
LSN_AND_CHECKSUM_BYTES = 10

Connection = psycopg.Connection[tuple[Any, ...]]

COLUMNS = {
    "i8": "bigint",
    "flag": "boolean",
    "i2": "smallint",
    "i4": "integer",
    "o": "oid",
    "f4": "real",
    "f8": "double precision",
    "n": "numeric",
    "n15": "numeric(15,2)",
    "n40": "numeric(40,0)",
    "nneg": "numeric(10,-2)",
    "nfrac": "numeric(3,5)",
    "t": "text",
    "v": "varchar",
    "v10": "varchar(10)",
    "c": "bpchar",
    "c1": "char(1)",
    "c25": "char(25)",
    "b": "bytea",
    "d": "date",
    "tm": "time",
    "tm2": "time(2)",
    "tz": "timetz",
    "ts": "timestamp",
    "ts0": "timestamp(0)",
    "tstz": "timestamptz",
    "tstz3": "timestamptz(3)",
    "iv": "interval",
    "iv3": "interval(3)",
    "u": "uuid",
}
"""A column of every type on the white list, in an order that needs padding in many places."""

TEXTS = "(array['', 'a', 'Düsseldorf', 'naïve café', 'ß€𝄞 mixed', 'plain ascii text', 'x y z', '東京'])"

VALUES = {
    "i8": "(random() * 2e18 - 1e18)::bigint",
    "flag": "random() < 0.5",
    "i2": "(random() * 60000 - 30000)::smallint",
    "i4": "(random() * 4e9 - 2e9)::integer",
    "o": "(random() * 4e9)::bigint::oid",
    "f4": "(random() * 100)::real",
    "f8": "case when random() < 0.1 then 'NaN' else random() * 1e300 end::double precision",
    "n": """case (random() * 9)::int when 0 then 'NaN' when 1 then 'Infinity' when 2 then '-Infinity' when 3 then '0'
            when 4 then '0.000' when 5 then '1e300' when 6 then '-1e-300'
            when 7 then (random() * 1e6)::text else repeat((random() * 1e9)::bigint::text, 1 + (random() * 9)::int)
            end::numeric""",
    "n15": "((random() - 0.5) * 10 ^ (random() * 13)::int)::numeric(15,2)",
    "n40": "(random() * 1e15)::numeric(40,0) * 10 ^ (random() * 20)::int::numeric",
    "nneg": "((random() - 0.5) * 1e9)::numeric(10,-2)",
    "nfrac": "(random() * 0.009)::numeric(3,5)",
    "t": f"repeat({TEXTS}[1 + (random() * 7)::int], (random() * random() * random() * 20)::int)",
    "v": "repeat('v', (120 + random() * 12)::int)",
    "v10": "substr(repeat('äx', 5), 1, (random() * 10)::int)",
    "c": "repeat('c', (random() * 9)::int)",
    "c1": "substr('abcäöü', 1 + (random() * 5)::int, 1)",
    "c25": f"substr({TEXTS}[1 + (random() * 7)::int], 1, 25)",
    "b": "decode(repeat(to_hex((random() * 255)::int + 256), (random() * 40)::int * 2 ), 'hex')",
    "d": """case (random() * 9)::int when 0 then 'infinity' when 1 then '-infinity' when 2 then '4713-01-01 BC'
            else date '2000-01-01' + ((random() - 0.5) * 1e5)::int end::date""",
    "tm": "make_interval(secs => random() * 86400)::time",
    "tm2": "case when random() < 0.1 then '24:00' else make_interval(secs => random() * 86399)::time end::time(2)",
    "tz": "(make_interval(secs => random() * 86400)::time || '+05:45')::timetz",
    "ts": """case when random() < 0.1 then 'infinity' else timestamp '2000-01-01' +
             make_interval(secs => (random() - 0.5) * 1e10) end""",
    "ts0": "(timestamp '2000-01-01' + make_interval(secs => (random() - 0.5) * 1e10))::timestamp(0)",
    "tstz": "timestamptz '1999-01-01' + make_interval(secs => random() * 1e9)",
    "tstz3": "(timestamptz '1999-01-01' - make_interval(secs => random() * 1e9))::timestamptz(3)",
    "iv": "make_interval(months => ((random() - 0.5) * 1e4)::int, secs => random() * 1e6)",
    "iv3": "make_interval(days => (random() * 1e4)::int, secs => random() * 1e6)::interval(3)",
    "u": "gen_random_uuid()",
}
"""An SQL expression for random values of every column, with the values at which layouts change."""


@dataclass(frozen=True)
class Table:
    """A table that was loaded by COPY FREEZE, and its pages as a client would send them."""

    name: str
    rows: int
    pages: bytes

    @property
    def page_count(self) -> int:
        return len(self.pages) // PAGE_BYTES


def make_ready(server: PostgresServer, dbname: str) -> None:
    """Install the extension for this server's version, create it in a database, and let LOADER use it."""
    install_extension(server.version)
    server.execute("CREATE EXTENSION tipple_direct", dbname)
    server.execute(f"GRANT tipple_direct TO {LOADER}")


def forget_packing(server: PostgresServer, dbname: str) -> None:
    """Make the extension what it was before it could unpack pages: version 1.3."""
    server.execute("ALTER EXTENSION tipple_direct DROP FUNCTION tipple_direct.append_packed", dbname)
    server.execute("DROP FUNCTION tipple_direct.append_packed", dbname)
    said = "CREATE OR REPLACE FUNCTION tipple_direct.version() RETURNS text LANGUAGE sql STABLE AS $$ SELECT '1.3' $$"
    server.execute(said, dbname)
    server.execute("UPDATE pg_extension SET extversion = '1.3' WHERE extname = 'tipple_direct'", dbname)


def ready_target(server: PostgresServer, options: str = "") -> Iterator[PostgresTarget]:
    """A fresh database with the extension, made with further `options` of CREATE DATABASE; dropped at the end."""
    reason = extension_missing_reason(server.version)
    if reason is not None:
        pytest.skip(reason)
    target = PostgresTarget(server, options=options)
    try:
        make_ready(server, target.database)
        yield target
    finally:
        target.close()


def connect(server: PostgresServer, dbname: str) -> Connection:
    """An ordinary role's session, in autocommit."""
    return psycopg.connect(server.url(LOADER, dbname), autocommit=True)


def clean_pages(data: bytes) -> bytes:
    """Pages of a file as a client would make them: no LSN, no checksum; without those that hold nothing."""
    pages = []
    for begin in range(0, len(data), PAGE_BYTES):
        page = data[begin : begin + PAGE_BYTES]
        if any(page):
            pages.append(bytes(LSN_AND_CHECKSUM_BYTES) + page[LSN_AND_CHECKSUM_BYTES:])
    return b"".join(pages)


def file_of(server: PostgresServer, dbname: str, table: str) -> Path:
    """The first segment file of a table."""
    ((path,),) = server.rows(f"SELECT pg_relation_filepath('{table}')", dbname)
    return server.data / path


def make_table(
    server: PostgresServer,
    dbname: str,
    name: str,
    columns: dict[str, str],
    select: str,
    *,
    alterations: str = "",
) -> Table:
    """Create a table, fill it by COPY FREEZE with the rows of a query, and take its pages."""
    definition = ", ".join(f"{column} {kind}" for column, kind in columns.items())
    with connect(server, dbname) as reader, connect(server, dbname) as writer:
        writer.execute("BEGIN")
        writer.execute(f"CREATE TABLE {name} ({definition})")
        writer.execute(alterations)
        reader.execute("SELECT setseed(0.42)")
        with (
            reader.cursor().copy(f"COPY ({select}) TO STDOUT") as source,
            writer.cursor().copy(f"COPY {name} FROM STDIN (FREEZE)") as target,
        ):
            for block in source:
                target.write(block)
        writer.execute("COMMIT")
    server.execute("CHECKPOINT", dbname)
    ((rows,),) = server.rows(f"SELECT count(*) FROM {name}", dbname)
    return Table(name, rows, clean_pages(file_of(server, dbname, name).read_bytes()))


def make_every_type(server: PostgresServer, dbname: str, name: str = "source", rows: int = 3000) -> Table:
    """A table of every type, its values random, a tenth of them null, and half of the rows without any."""
    values = ", ".join(f"CASE WHEN k % 2 = 0 OR random() < 0.8 THEN {value} END" for value in VALUES.values())
    return make_table(server, dbname, name, COLUMNS, f"SELECT {values} FROM generate_series(1, {rows}) k")


def make_full(server: PostgresServer, dbname: str, name: str = "source", rows: int = 3000) -> Table:
    """A table without a NULL, with numbers of several sizes and texts of several lengths."""
    number = "(CASE k % 4 WHEN 0 THEN 0 WHEN 1 THEN -1 ELSE 1 END * random())"
    values = {
        "a bigint": "k",
        "b numeric(15,2)": f"{number} * 10 ^ (k % 13)",
        "c numeric(18,4)": f"{number} * 10 ^ (k % 14)",
        "d numeric(10,0)": f"{number} * 10 ^ (k % 10)",
        "e numeric(5,2)": f"{number} * 999",
        "f numeric(9,1)": f"{number} * 10 ^ (k % 8)",
        "g char(1)": "chr(65 + k % 26)",
        "h char(25)": "repeat('x', k % 26)",
        "i char(130)": "repeat('y', k % 131)",
        "j varchar(44)": "repeat('z', k % 45)",
        "l text": "repeat(CASE k % 9 WHEN 0 THEN 'ä' ELSE 'w' END, k % 150)",
        "m date": "date '1990-01-01' + k",
        "n date": "CASE k % 50 WHEN 0 THEN 'infinity' ELSE date '2000-01-01' - k END",
        "o boolean": "k % 3 = 0",
        "p timestamp(3)": "timestamp '2000-01-01' + k * interval '1.001 s'",
        "q integer": "-k",
    }
    columns = dict(definition.split(" ", 1) for definition in values)
    select = ", ".join(f"({value})::{kind}" for kind, value in zip(columns.values(), values.values(), strict=True))
    return make_table(server, dbname, name, columns, f"SELECT {select} FROM generate_series(1, {rows}) k")


def make_small(server: PostgresServer, dbname: str, name: str = "source", rows: int = 20_000) -> Table:
    """A table of three columns."""
    columns = {"a": "bigint", "b": "numeric(15,2)", "c": "text"}
    return make_table(
        server, dbname, name, columns, f"SELECT k, k / 100.0, 'row number ' || k FROM generate_series(1, {rows}) k"
    )


def open_load(connection: Connection, table: str, slots: int = 0, slot_pages: int = 0) -> tuple[Any, ...]:
    row = connection.execute("SELECT * FROM tipple_direct.open(%s, %s, %s)", (table, slots, slot_pages)).fetchone()
    assert row is not None
    return row


def append(connection: Connection, pages: bytes, batch_pages: int = 512) -> int:
    """Send pages; returns the number of rows that the server counted."""
    rows = 0
    for begin in range(0, len(pages), batch_pages * PAGE_BYTES):
        batch = pages[begin : begin + batch_pages * PAGE_BYTES]
        row = connection.execute("SELECT tipple_direct.append(%b)", (batch,)).fetchone()
        assert row is not None
        rows += row[0]
    return rows


def append_shared(connection: Connection, memory: mmap.mmap, pages: bytes, slots: int, slot_pages: int) -> int:
    """Hand pages over slot by slot; returns the number of rows that the server counted."""
    rows = 0
    slot_bytes = slot_pages * PAGE_BYTES
    for number, begin in enumerate(range(0, len(pages), slot_bytes)):
        slot = number % slots
        batch = pages[begin : begin + slot_bytes]
        memory[slot * slot_bytes : slot * slot_bytes + len(batch)] = batch
        row = connection.execute(
            "SELECT tipple_direct.append_slot(%s, %s)", (slot, len(batch) // PAGE_BYTES)
        ).fetchone()
        assert row is not None
        rows += row[0]
    return rows


def finish(connection: Connection) -> tuple[int, int]:
    row = connection.execute("SELECT * FROM tipple_direct.finish()").fetchone()
    assert row is not None
    return row[0], row[1]


@contextmanager
def load(connection: Connection, table: str, like: str) -> Iterator[tuple[Any, ...]]:
    """A transaction that creates a table, opens a load into it, finishes the load and commits."""
    connection.execute("BEGIN")
    connection.execute(f"CREATE TABLE {table} (LIKE {like} INCLUDING STORAGE)")  # type: ignore[call-overload]
    yield open_load(connection, table)
    finish(connection)
    connection.execute("COMMIT")


def assert_same_rows(server: PostgresServer, dbname: str, one: str, other: str) -> None:
    """Both tables have the same rows, as often."""
    compared = server.rows(
        f"""SELECT (SELECT count(*) FROM {one}), (SELECT count(*) FROM {other}),
                   (SELECT count(*) FROM (SELECT t::text FROM {one} t EXCEPT ALL SELECT t::text FROM {other} t) d)""",
        dbname,
    )
    ((rows, others, different),) = compared
    assert (rows, different) == (others, 0)


def digest(server: PostgresServer, dbname: str, table: str) -> tuple[int, str]:
    """Number of rows, and a hash of them all in order: reads every value of every row."""
    ((rows, text),) = server.rows(
        f"SELECT count(*), coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') FROM {table} t", dbname
    )
    return rows, text


def has_contrib(server: PostgresServer, name: str) -> bool:
    """Whether the installation has this contrib extension: the PyPI packages have none."""
    return bool(server.rows(f"SELECT 1 FROM pg_available_extensions WHERE name = '{name}'"))


BTREE_INDEXES = """
SELECT i.indexrelid::regclass::text,
       (SELECT coalesce(string_agg(format('%%I', attname), ', ' ORDER BY attnum), '') FROM pg_attribute
        WHERE attrelid = i.indrelid AND attnum = ANY (i.indkey)),
       coalesce(pg_get_expr(i.indpred, i.indrelid), 'true')
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
WHERE i.indrelid = %s::regclass AND i.indisvalid AND m.amname = 'btree'
"""
"""Each index, the columns of the table that are in it, and which rows are to be in it."""


def assert_sound(server: PostgresServer, dbname: str, table: str, *, mapped: bool = True) -> None:
    """The server finds nothing wrong with a table and its indexes.

    VACUUM goes through every page, and each btree index is compared with the table, on every version. Three checks
    depend on contrib, which Debian's 15 has: tuple by tuple by `verify_heapam`, the order of the keys in an index by
    `bt_index_check` (both amcheck), and the visibility map (pg_visibility), with it what `mapped` says.

    Args:
        server: the table's server.
        dbname: the table's database.
        table: its name.
        mapped: whether every block has to be in the visibility map.
    """
    with server.connect(dbname) as connection:
        if has_contrib(server, "amcheck"):
            connection.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
            assert connection.execute(f"SELECT * FROM verify_heapam('{table}')").fetchall() == []  # type: ignore[call-overload]
        if has_contrib(server, "pg_visibility"):
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_visibility")
            for check in ("pg_check_frozen", "pg_check_visible"):
                assert connection.execute(f"SELECT * FROM {check}('{table}')").fetchall() == []  # type: ignore[call-overload]
            missing = connection.execute(
                f"SELECT count(*) FROM pg_visibility_map('{table}') WHERE NOT (all_visible AND all_frozen)"  # type: ignore[call-overload]
            ).fetchone()
            if mapped:
                assert missing == (0,)
        notices: list[str] = []
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        connection.execute(f"VACUUM (DISABLE_PAGE_SKIPPING) {table}")  # type: ignore[call-overload]
        assert notices == []
        for index, columns, condition in connection.execute(BTREE_INDEXES, (table,)).fetchall():
            assert_index_has_every_row(connection, table, index, columns, condition)
            if has_contrib(server, "amcheck"):
                connection.execute("SELECT bt_index_check(%s::regclass, heapallindexed => true)", (index,))


def assert_index_has_every_row(connection: Connection, table: str, index: str, columns: str, condition: str) -> None:
    """The table read by this index alone has as many rows as when it is read from end to end, with the same keys."""
    query = f"SELECT count(*), sum(hashtextextended(ROW({columns})::text, 0)) FROM {table} WHERE {condition}"
    found = []
    for way, expected in (("seqscan", f"Index Only Scan using {index} "), ("indexscan", "Seq Scan")):
        with connection.transaction(force_rollback=True):
            # No other index is to be read for it; in this transaction, which is rolled back, only.
            connection.execute(
                "UPDATE pg_index SET indisvalid = false WHERE indrelid = %s::regclass AND indexrelid <> %s::regclass",
                (table, index),
            )
            connection.execute(f"SET LOCAL enable_bitmapscan = off; SET LOCAL enable_{way} = off".encode())
            plan = connection.execute(f"EXPLAIN {query}".encode()).fetchall()
            assert expected in str(plan)
            found.append(connection.execute(query.encode()).fetchone())
    assert found[0] == found[1]


def items_of(page: bytes) -> list[tuple[int, int]]:
    """Offset and length of each tuple of a page."""
    (lower,) = struct.unpack_from("<H", page, 12)
    pointers = struct.unpack_from(f"<{(lower - HEADER_BYTES) // 4}I", page, HEADER_BYTES)
    return [(pointer & 0x7FFF, pointer >> 17) for pointer in pointers]
