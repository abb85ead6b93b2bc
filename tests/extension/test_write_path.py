"""Loads by ready-made pages: what is stored, what goes another way, what a fault leaves."""

from __future__ import annotations

import gzip
import re
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tipple
from big import BigFile
from command import Run, start_tipple
from conformance import test_notations as notations
from conformance.test_structures import is_in_order
from extension.pages import (
    COLUMNS,
    PAGE_BYTES,
    VALUES,
    Table,
    assert_sound,
    clean_pages,
    connect,
    file_of,
    items_of,
    make_ready,
    make_table,
    ready_target,
)
from faults.oracle import LONG, Disturbed, moments, record_count
from faults.test_kill import kill_after
from loading import load, load_text, load_words
from servers.extension import extension_missing_reason
from servers.postgres import LOADER, PostgresServer
from targets import PostgresTarget, write

NUMBERS = "CREATE TABLE t (id integer NOT NULL, note text, day date)"


def path_of(run: Run) -> tuple[str, str]:
    """Write path and reason, as the summary has them."""
    assert run.summary is not None
    return run.summary["write_path"], run.summary["write_path_reason"]


def numbers(rows: int) -> str:
    return "".join(f"{n},note {n % 7},2024-01-{n % 28 + 1:02}\n" for n in range(rows))


# ---- what is stored --------------------------------------------------------------------------------------------


def comparable(pages: bytes) -> list[bytes]:
    """Pages without what differs between two transactions: WAL position, checksum, transaction and command."""
    cleaned = []
    clean = clean_pages(pages)
    for begin in range(0, len(clean), PAGE_BYTES):
        page = bytearray(clean[begin : begin + PAGE_BYTES])
        for offset, _ in items_of(bytes(page)):
            struct.pack_into("<I", page, offset, 0)
            struct.pack_into("<I", page, offset + 8, 0)
        cleaned.append(bytes(page))
    return cleaned


def exported(target: PostgresTarget, table: Table, path: Path) -> Path:
    with (
        connect(target.server, target.database) as connection,
        path.open("wb") as file,
        connection.cursor().copy(f"COPY {table.name} TO STDOUT (FORMAT csv)") as copy,
    ):
        for block in copy:
            file.write(block)
    return path


def make_all_types(target: PostgresTarget, rows: int) -> Table:
    columns = {name: kind for name, kind in COLUMNS.items() if kind != "oid"}
    # What the codec does not read (years BC) has a test of its own.
    values = {**VALUES, "d": VALUES["d"].replace("4713-01-01 BC", "0001-01-01")}
    chosen = ", ".join(f"CASE WHEN k % 2 = 0 OR random() < 0.8 THEN {values[name]} END" for name in columns)
    return make_table(
        target.server, target.database, "source", columns, f"SELECT {chosen} FROM generate_series(1, {rows}) k"
    )


def test_a_long_record_that_only_the_server_can_read(target: PostgresTarget, tmp_path: Path) -> None:
    """It goes by COPY unread, so nobody knows the digest of what it says: the count is compared."""
    target.execute("CREATE TABLE t (day date, note text)")
    path = write(tmp_path / "in.csv", f"Feb 3 2024,{'x' * 300_000}\n2024-01-01,y\n")
    run = load(target, path, header="no", verify="checksum", write_path="direct")
    assert run.summary is not None
    assert run.summary["rows"] == 2
    assert target.rows("SELECT day::text, length(note) FROM t ORDER BY 1") == [
        ("2024-01-01", 1),
        ("2024-02-03", 300_000),
    ]


def test_pages_are_those_of_copy_freeze(target: PostgresTarget, tmp_path: Path) -> None:
    """Byte for byte, over every type, with NULLs, from one stream."""
    table = make_all_types(target, 4000)
    path = exported(target, table, tmp_path / "source.csv")
    target.execute("CREATE TABLE t (LIKE source)")
    run = load(target, path, jobs=1, env={"PGTZ": "UTC"}, verify="checksum")
    assert path_of(run)[0] == "direct", run
    assert run.summary is not None
    assert run.summary["verify"]["kind"] == "checksum", run
    target.server.execute("CHECKPOINT", target.database)
    theirs = comparable(file_of(target.server, target.database, "source").read_bytes())
    ours = comparable(file_of(target.server, target.database, "t").read_bytes())
    assert len(ours) == len(theirs)
    differing = [number for number, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
    assert differing == []
    assert_sound(target.server, target.database, "t")


def test_many_streams_and_packed_sources(target: PostgresTarget, tmp_path: Path) -> None:
    text = numbers(60_000).encode()
    plain, packed = tmp_path / "a.csv", tmp_path / "b.csv.gz"
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text, 1))
    target.execute(NUMBERS)
    run = load(target, plain, packed, jobs=3)
    assert path_of(run)[0] == "direct", run
    assert target.rows("SELECT count(*), count(DISTINCT id), sum(id) FROM t") == [(120_000, 60_000, 60_000 * 59_999)]
    again = load(target, plain, packed, jobs=3)
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"
    assert_sound(target.server, target.database, "t")


def test_replace_keeps_indexes_and_constraints(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute(NUMBERS + "; ALTER TABLE t ADD PRIMARY KEY (id), ADD CONSTRAINT positive CHECK (id >= 0)")
    target.execute("CREATE INDEX by_day ON t (day); INSERT INTO t VALUES (5, 'old', NULL)")
    run = load_text(target, tmp_path / "a.csv", numbers(5000), mode="replace")
    assert path_of(run)[0] == "direct", run
    assert target.rows("SELECT count(*), max(note) FROM t") == [(5000, "note 6")]
    assert target.rows(
        "SELECT conname FROM pg_constraint WHERE conrelid = 't'::regclass AND contype IN ('p', 'c') ORDER BY 1"
    ) == [("positive",), ("t_pkey",)]
    assert target.rows("SELECT indexname FROM pg_indexes WHERE tablename = 't' ORDER BY 1") == [
        ("by_day",),
        ("t_pkey",),
    ]
    assert_sound(target.server, target.database, "t")


def test_columns_in_another_order_and_missing_ones(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute("CREATE TABLE t (a integer, gone text, b text, c date)")
    target.execute("ALTER TABLE t DROP COLUMN gone")
    run = load_text(target, tmp_path / "a.csv", "x,1\ny,2\n", columns="b,a")
    assert path_of(run)[0] == "direct", run
    assert target.sorted_rows("t") == [(1, "x", None), (2, "y", None)]


# ---- what goes another way -------------------------------------------------------------------------------------


def test_records_that_fit_no_page_or_need_the_server(target: PostgresTarget, tmp_path: Path) -> None:
    """A text for TOAST and dates that only the server reads, first, last and between."""
    target.execute(NUMBERS)
    long = "long text " * 2000
    odd = {0: f"0,{long},2024-01-01", 777: "777,odd,Jan 5 1999", 30_000: f"30000,{long},2024-02-02"}
    odd |= {40_000: "40000,odd,4713-01-01 BC", 59_999: f"59999,{long},"}
    lines = [odd.get(n, f"{n},note,2024-01-01") for n in range(60_000)]
    run = load_text(target, tmp_path / "a.csv", "\n".join(lines) + "\n", verify="checksum")
    assert path_of(run)[0] == "direct", run
    assert target.rows("SELECT count(*), sum(id), count(*) FILTER (WHERE length(note) = 20000) FROM t") == [
        (60_000, 60_000 * 59_999 // 2, 3)
    ]
    assert target.rows("SELECT day::text FROM t WHERE note = 'odd' ORDER BY id") == [
        ("1999-01-05",),
        ("4713-01-01 BC",),
    ]
    assert_sound(target.server, target.database, "t", mapped=False)


def test_checksum_covers_texts_for_toast(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute(NUMBERS)
    lines = numbers(3000) + f"5000,{'long text ' * 900},2024-01-01\n"
    run = load_text(target, tmp_path / "a.csv", lines, verify="checksum")
    assert run.summary is not None
    assert (path_of(run)[0], run.summary["verify"]["kind"]) == ("direct", "checksum"), run


def test_many_such_records_take_another_path(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute(NUMBERS)
    lines = "".join(f"{n},note,Jan {n % 28 + 1} 2020\n" for n in range(30_000))
    run = load_text(target, tmp_path / "a.csv", lines)
    path, reason = path_of(run)
    assert path == "binary", run
    assert "not direct" in reason
    assert "begun anew" in run.output
    assert target.rows("SELECT count(*), sum(id) FROM t") == [(30_000, 30_000 * 29_999 // 2)]
    assert target.leftovers("t") == set()


def test_rejects_of_both_ways(target: PostgresTarget, tmp_path: Path) -> None:
    """Bad values and lengths are found here, a date by the server; each is kept with its number."""
    target.execute(NUMBERS)
    lines = numbers(20_000).splitlines()
    lines[10] = "x,note,2024-01-01"
    lines[5000] = "5000,note,Febtober 5 1999"
    lines[5001] = "5001,fine,Feb 5 1999"
    lines[19_999] = "19999,only two"
    rejects = tmp_path / "rejects"
    run = load_text(
        target,
        tmp_path / "a.csv",
        "\n".join(lines) + "\n",
        on_error="skip",
        max_rejects=3,
        rejects=rejects,
        check=3,
    )
    assert path_of(run)[0] == "direct", run
    assert rejects.read_text().splitlines() == [lines[10], lines[5000], lines[19_999]]
    assert target.rows("SELECT count(*), max(day) FILTER (WHERE note = 'fine') = '1999-02-05' FROM t") == [
        (19_997, True)
    ]


def test_a_bad_record_is_named_and_nothing_is_left(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute(NUMBERS)
    lines = numbers(20_000).replace("15000,note", "15000x,note")
    run = load_text(target, tmp_path / "a.csv", lines, check=1)
    assert re.search(r"record +15,001\b", run.stderr), run
    assert target.count("t") == 0
    assert target.leftovers("t") == set()


@pytest.mark.parametrize(("partitions", "jobs"), [(0, 1), (3, 1), (3, 2)])
def test_the_earlier_of_two_bad_records_is_named(
    target: PostgresTarget, tmp_path: Path, partitions: int, jobs: int
) -> None:
    """Tipple itself refuses one while others, before it and behind it, are still on their way to the server: in as many
    sessions as there are streams, where there are partitions, and by partition."""
    target.execute(NUMBERS + (" PARTITION BY HASH (id)" if partitions else ""))
    for part in range(partitions):
        bound = f"WITH (MODULUS {partitions}, REMAINDER {part})"
        target.execute(f"CREATE TABLE t{part} PARTITION OF t FOR VALUES {bound}")
    lines = numbers(3000).splitlines(keepends=True)
    lines[1000] = lines[1000].replace("2024-01-", "today")
    lines[2000] = lines[2000].replace("2024-01-", "2024-13-")
    for later in range(1001, 2000, 50):
        lines[later] = lines[later].replace("2024-01-", "today")
    run = load_text(target, tmp_path / "a.csv", "".join(lines), write_path="direct", jobs=jobs, check=1)
    assert re.search(r"record +1,001\b", run.stderr), run
    assert target.leftovers("t", "t0", "t1", "t2") == set()


def test_a_violated_check_names_its_record(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute(NUMBERS + "; ALTER TABLE t ADD CONSTRAINT small CHECK (id < 19000)")
    run = load_text(target, tmp_path / "a.csv", numbers(20_000), check=1)
    assert "small" in run.stderr
    assert re.search(r"record +19,001\b", run.stderr), run
    assert target.count("t") == 0
    assert target.leftovers("t") == set()
    run = load(target, tmp_path / "a.csv", write_path="direct", check=1)
    assert 'a record cannot be stored: check constraint "small"' in run.stderr, "the way is not what was wrong"


def test_a_check_that_fails_names_its_record(target: PostgresTarget, tmp_path: Path) -> None:
    """Its condition raises an error of a row, where it should say no."""
    target.execute(NUMBERS + "; ALTER TABLE t ADD CHECK (100 / (id - 1900) < 200)")
    failed = load_text(target, tmp_path / "a.csv", numbers(2000), check=1)
    assert "division by zero" in failed.stderr
    assert re.search(r"record +1,901\b", failed.stderr), failed
    schema = write(
        tmp_path / "new.sql", "CREATE TABLE new (id integer, note text, day date, CHECK (note::integer > 0))"
    )
    failed = load_text(target, tmp_path / "b.csv", numbers(2000), table="new", schema=schema, check=1)
    assert "invalid input syntax for type integer" in failed.stderr
    assert re.search(r"record +1\b", failed.stderr), failed
    assert target.leftovers("t") == set()


def test_a_violated_key_ends_the_load(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute(NUMBERS + "; ALTER TABLE t ADD PRIMARY KEY (id)")
    run = load_text(target, tmp_path / "a.csv", numbers(100) + "7,twice,\n", check=1)
    assert "23505" in run.stderr, run
    assert target.count("t") == 0
    assert target.leftovers("t") == set()


# ---- faults ----------------------------------------------------------------------------------------------------

ROUNDS = 100 if LONG else 5


@pytest.mark.timeout(7200)
def test_client_killed(target: PostgresTarget, big_file: BigFile) -> None:
    killed = 0
    undisturbed = Disturbed(target, big_file, table="u", old_rows=0, write_path="direct")
    seconds = undisturbed.run().seconds
    undisturbed.drop()
    for number, moment in enumerate(moments(11, ROUNDS, seconds)):
        job = Disturbed(target, big_file, table=f"t{number}", old_rows=0, write_path="direct")
        killed += kill_after(job.start(), moment)
        job.finish()
        assert_sound(target.server, target.database, f"t{number}")
        job.drop()
    record_count(f"SIGKILL of the client, direct: {ROUNDS} rounds, {killed} while it ran")
    assert killed > 0


@pytest.mark.parametrize("options", [{"commit_every": 5000}, {"write_path": "binary"}], ids=["commit-every", "binary"])
def test_resumed_otherwise(target: PostgresTarget, big_file: BigFile, options: dict[str, Any]) -> None:
    """Who goes on with a job that was to be made of pages may ask for what pages cannot do; no row is lost by it."""
    job = Disturbed(target, big_file, old_rows=0)
    command = job.start()
    while command.running and not target.rows(
        "SELECT FROM pg_stat_activity WHERE query LIKE '%tipple_direct.append%' AND datname = current_database() "
        "AND pid <> pg_backend_pid()"
    ):
        time.sleep(0.01)
    assert kill_after(command, 0)
    run = job.run(**options)
    assert run.exit_code == 0, run
    assert path_of(run)[0] == "binary", run
    job.check_rows()


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("wal_level", ["minimal", "replica"])
def test_server_crashes(fresh_server: Callable[..., PostgresServer], big_file: BigFile, wal_level: str) -> None:
    """In mid-load the job goes on by itself; right after COMMIT all rows are there."""
    settings: dict[str, Any] = {"fsync": "on", "full_page_writes": "on", "wal_level": wal_level}
    settings |= {"max_wal_senders": "0"} if wal_level == "minimal" else {}
    server = fresh_server(settings=settings)
    for target in ready_target(server):
        for number, moment in enumerate([0.6, 1.0] if not LONG else moments(12, ROUNDS, 1.5)):
            job = Disturbed(target, big_file, table=f"t{number}", old_rows=0, write_path="direct")
            command = start_tipple(*load_words(target.url, (big_file.path,), job.table, job.options))
            time.sleep(moment)
            server.crash()
            server.start()
            command.wait()
            job.finish()
            server.crash()
            server.start()
            job.check_rows()
            assert_sound(server, target.database, job.table)
            job.drop()


def test_backend_killed(target: PostgresTarget, big_file: BigFile) -> None:
    """The transaction is lost, and done again by the same run."""
    job = Disturbed(target, big_file, old_rows=0, write_path="direct")
    command = job.start()
    ended = 0
    for _ in range(400):
        ended += len(
            target.server.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%tipple_direct.append%' "
                f"AND datname = '{target.database}' AND pid <> pg_backend_pid()"
            )
        )
        if ended or not command.running:
            break
    run = command.wait()
    assert ended, "no append was seen"
    assert run.exit_code == 0, run
    assert "done again" in run.output
    job.finish()


@pytest.mark.parametrize("options", [
    {"structure": "sorted", "key": "id"},
    {"structure": "btree", "key": "id"},
    {"structure": "heap", "tablespace": "space_one"},
], ids=["sorted", "btree", "tablespace"])  # fmt: skip
def test_structures_are_made_of_pages(target: PostgresTarget, tmp_path: Path, options: dict[str, str]) -> None:
    """What is converted after the load can be loaded by pages, in any tablespace."""
    target.server.create_tablespace("space_one")
    schema = tmp_path / "schema.sql"
    schema.write_text(NUMBERS + ";")
    text = "".join(f"{n * 7919 % 20_011},x{n},2000-01-01\n" for n in range(20_000))
    run = load_text(target, tmp_path / "in.csv", text, schema=schema, verify="checksum", **options)
    assert path_of(run)[0] == "direct"
    assert target.count("t") == 20_000
    if options["structure"] == "sorted":
        assert is_in_order(target, "id")
    if options["structure"] == "btree":
        assert target.value("SELECT contype FROM pg_constraint WHERE conname = 't_pkey'") == "p"
    if "tablespace" in options:
        assert target.value("SELECT reltablespace <> 0 FROM pg_class WHERE oid = 't'::regclass")


@pytest.mark.parametrize("load_as", ["memory", "btree"])
def test_forms_that_pages_are_not_for(target: PostgresTarget, tmp_path: Path, load_as: str) -> None:
    schema = tmp_path / "schema.sql"
    schema.write_text(NUMBERS + ";")
    options = {"schema": schema, "structure": "btree", "key": "id", "load_as": load_as}
    run = load_text(target, tmp_path / "in.csv", "1,x,2000-01-01\n", **options)
    assert path_of(run)[0] == "binary"
    assert f"not for --load-as {load_as}" in path_of(run)[1]


@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JP"])
def test_a_database_that_is_not_utf8(postgres_server: PostgresServer, tmp_path: Path, encoding: str) -> None:
    """Texts on pages would be what the sources have: there COPY converts them."""
    reason = extension_missing_reason(postgres_server.version)
    if reason is not None:
        pytest.skip(reason)
    name = f"tipple_{encoding.lower()}"
    with postgres_server.connect() as connection:
        connection.execute(
            f"CREATE DATABASE {name} OWNER {LOADER} ENCODING {encoding} LOCALE 'C' TEMPLATE template0".encode()
        )
    try:
        make_ready(postgres_server, name)
        url = postgres_server.url(LOADER, name)
        text = "héllo" if encoding == "LATIN1" else "日本"
        source = write(tmp_path / "in.csv", f"1,{text}\n2,€€€\n" if encoding == "LATIN1" else f"1,{text}\n")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id integer, v varchar(10))")
            if encoding == "LATIN1":
                with pytest.raises(tipple.BadRecord) as caught:
                    tipple.load(str(source), into=url, table="t")
                assert (caught.value.record_number, caught.value.sqlstate) == (2, "22P05")
                write(source, f"1,{text}\n")
            report = tipple.load(str(source), into=url, table="t", verify="checksum")
            assert report.write_path != "direct"
            assert "encoding" in report.write_path_reason
            assert connection.execute("SELECT v, length(v) FROM t").fetchall() == [(text, len(text))]
    finally:
        postgres_server.drop_database(name)


def test_lengths_are_in_bytes(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """In a database without an encoding the server counts bytes, and pages of texts are counted in characters."""
    for target in ready_target(postgres_server, "ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"):
        target.execute("CREATE TABLE t (a char(5)); CREATE TABLE u (a text)")
        run = load_text(target, tmp_path / "in.csv", "äö\nab\n", header="no", verify="checksum")
        assert path_of(run)[0] == "text"
        assert "SQL_ASCII" in path_of(run)[1]
        assert target.rows("SELECT octet_length(a) FROM t ORDER BY 1") == [(5,), (5,)]
        again = load_text(target, tmp_path / "in.csv", "äö\nab\n", header="no", table="u")
        assert path_of(again)[0] == "direct"


def test_notations_on_pages(target: PostgresTarget, tmp_path: Path) -> None:
    """Dates and numbers that are rewritten; the loops for pages must not read a number before it is."""
    target.execute(notations.TABLE)
    run = load_text(
        target, tmp_path / "in.csv", notations.EXPORT * 500, **notations.GERMAN, write_path="direct", verify="checksum"
    )
    assert run.summary is not None
    assert run.summary["write_path"] == "direct"
    assert target.rows(f"SELECT DISTINCT * FROM ({notations.SELECT}) AS s ORDER BY id") == notations.ROWS
    assert target.count("t") == 500 * len(notations.ROWS)
    bad = load_text(target, tmp_path / "bad.csv", "1;;;1.5;;\n", **notations.GERMAN, check=1)
    assert "amount" in bad.stderr
