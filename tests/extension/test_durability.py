"""Crashes, rollbacks, standbys and checksums: committed rows stay, others leave nothing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from extension.pages import (
    PAGE_BYTES,
    append,
    assert_same_rows,
    assert_sound,
    connect,
    digest,
    file_of,
    finish,
    load,
    make_every_type,
    make_small,
    open_load,
)
from servers.extension import SOURCES
from servers.installations import VERSIONS, missing_reason
from servers.postgres import PostgresServer

DirectServer = Callable[..., tuple[PostgresServer, str]]

MINIMAL = {"wal_level": "minimal", "max_wal_senders": 0}
DURABLE = {"fsync": "on", "full_page_writes": "on"}
LEVELS = {"minimal": {**DURABLE, **MINIMAL}, "replica": {**DURABLE, "wal_level": "replica"}}


@pytest.fixture(
    params=[
        pytest.param(
            version,
            id=f"postgresql-{version}",
            marks=[pytest.mark.skip(reason=reason)] if (reason := missing_reason(version)) else [],
        )
        for version in VERSIONS
    ]
)
def version(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


def tables_with_files(server: PostgresServer, dbname: str) -> set[str]:
    """File numbers of a database for which there is a file that is not empty."""
    ((oid,),) = server.rows(f"SELECT oid FROM pg_database WHERE datname = '{dbname}'")
    files = (server.data / "base" / str(oid)).iterdir()
    return {path.name.split("_")[0].split(".")[0] for path in files if path.stat().st_size > 0}


@pytest.mark.parametrize("level", LEVELS)
def test_crash(direct_server: DirectServer, version: int, level: str) -> None:
    """Tables below and above wal_skip_threshold, where the server goes different ways at `minimal`, are committed;
    another load is not."""
    server, dbname = direct_server(version, LEVELS[level])
    sources = {name: make_small(server, dbname, name, rows) for name, rows in (("small", 500), ("large", 80_000))}
    with connect(server, dbname) as connection:
        for name, source in sources.items():
            with load(connection, f"{name}_loaded", name) as opened:
                assert opened[2] is (level == "replica")
                append(connection, source.pages)
    open_connection = connect(server, dbname)
    open_connection.execute("BEGIN; CREATE TABLE loaded (LIKE large)")
    open_load(open_connection, "loaded")
    append(open_connection, sources["large"].pages)
    row = open_connection.execute("SELECT pg_relation_filenode('loaded')::text").fetchone()
    assert row is not None
    server.crash()
    server.start()
    open_connection.close()
    for name in sources:
        assert_same_rows(server, dbname, name, f"{name}_loaded")
        assert_sound(server, dbname, f"{name}_loaded")
    assert server.rows("SELECT to_regclass('loaded')", dbname) == [(None,)]
    # What the server never removes, and how the extension's README finds it.
    orphans = next(part for part in (SOURCES / "README.md").read_text().split("```") if "pg_ls_dir" in part)
    server.execute("CREATE TABLE dropped (a integer)", dbname)
    (dropped,) = server.rows("SELECT pg_relation_filenode('dropped')::text", dbname)
    server.execute("DROP TABLE dropped", dbname)
    assert dropped in server.rows(orphans.removeprefix("sql"), dbname)
    server.execute("CHECKPOINT", dbname)
    found = server.rows(orphans.removeprefix("sql"), dbname)
    assert row in found
    assert dropped not in found


def test_wal_alone_brings_the_table_back(direct_server: DirectServer, version: int) -> None:
    """What recovery and standbys go by: the file is emptied after the crash, as if no block had reached the disk."""
    server, dbname = direct_server(version, LEVELS["replica"])
    source = make_every_type(server, dbname)
    expected = digest(server, dbname, "source")
    with connect(server, dbname) as connection, load(connection, "loaded", "source"):
        append(connection, source.pages)
    file = file_of(server, dbname, "loaded")
    server.crash()
    for lost in (file, file.with_name(file.name + "_vm")):
        assert lost.stat().st_size > 0
        with lost.open("r+b") as opened:
            opened.truncate(0)
    server.start()
    assert digest(server, dbname, "loaded") == expected
    assert_sound(server, dbname, "loaded")


@pytest.mark.parametrize("level", LEVELS)
def test_checkpoints_and_copy_in_between(direct_server: DirectServer, version: int, level: str) -> None:
    server, dbname = direct_server(version, LEVELS[level])
    source = make_small(server, dbname)
    with connect(server, dbname) as connection:
        with load(connection, "loaded", "source"):
            for begin in range(0, len(source.pages), 50 * PAGE_BYTES):
                append(connection, source.pages[begin : begin + 50 * PAGE_BYTES])
                server.execute("CHECKPOINT")
                with connection.cursor().copy("COPY loaded FROM STDIN") as rows:
                    rows.write_row((begin, 1, "x" * 9000))
                    rows.write_row((begin, 2, "y"))
        expected = digest(server, dbname, "loaded")
        assert expected[0] == source.rows + 2 * -(-source.page_count // 50)
    server.crash()
    server.start()
    assert digest(server, dbname, "loaded") == expected
    assert_sound(server, dbname, "loaded", mapped=False)


def test_rollback_leaves_nothing(postgres_server: PostgresServer, direct_database: str) -> None:
    source = make_small(postgres_server, direct_database)
    postgres_server.execute("CHECKPOINT")
    before = tables_with_files(postgres_server, direct_database)
    with connect(postgres_server, direct_database) as connection:
        connection.execute("BEGIN; CREATE TABLE loaded (LIKE source)")
        open_load(connection, "loaded")
        append(connection, source.pages)
        finish(connection)
        assert connection.execute("SELECT count(*) FROM loaded").fetchone() == (source.rows,)
        connection.execute("ROLLBACK")
        # A truncated table gets its old file and its rows back.
        connection.execute("CREATE TABLE kept (LIKE source); INSERT INTO kept SELECT * FROM source LIMIT 10")
        connection.execute("BEGIN; TRUNCATE kept")
        open_load(connection, "kept")
        append(connection, source.pages)
        finish(connection)
        connection.execute("ROLLBACK")
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (10,)
        connection.execute("DROP TABLE kept")
    postgres_server.execute("CHECKPOINT")
    assert tables_with_files(postgres_server, direct_database) <= before


def test_rollback_to_savepoint(postgres_server: PostgresServer, direct_database: str) -> None:
    source = make_small(postgres_server, direct_database)
    with connect(postgres_server, direct_database) as connection:
        connection.execute("BEGIN; SAVEPOINT s; CREATE TABLE loaded (LIKE source)")
        path = open_load(connection, "loaded", 1, 1)[4]
        append(connection, source.pages)
        connection.execute("ROLLBACK TO SAVEPOINT s")
        assert path is None or not Path(path).parent.exists()
        connection.execute("CREATE TABLE loaded (LIKE source)")
        open_load(connection, "loaded")
        append(connection, source.pages)
        finish(connection)
        connection.execute("COMMIT")
    assert_same_rows(postgres_server, direct_database, "source", "loaded")


def test_a_server_that_reads_and_writes_directly(direct_server: DirectServer, version: int) -> None:
    """Whatever the server itself writes has to be aligned then, the visibility map among it."""
    if version < 16:
        pytest.skip("PostgreSQL 15 has no debug_io_direct")
    server, dbname = direct_server(version, {"debug_io_direct": "data"})
    source = make_small(server, dbname)
    with connect(server, dbname) as connection, load(connection, "loaded", "source"):
        append(connection, source.pages)
    assert_same_rows(server, dbname, "source", "loaded")
    assert_sound(server, dbname, "loaded")


@pytest.mark.parametrize("checksums", [True, False], ids=["checksums", "no_checksums"])
def test_checksums(direct_server: DirectServer, version: int, checksums: bool) -> None:
    """Every page is read back by a server that has none of them in memory, and by pg_checksums."""
    server, dbname = direct_server(version)
    server.stop()
    on = server.run("pg_controldata", "-D", server.data).split("checksum version:")[1].split()[0] != "0"
    if on != checksums:
        server.run("pg_checksums", "--enable" if checksums else "--disable", "-D", server.data)
    server.start()
    source = make_every_type(server, dbname)
    with connect(server, dbname) as connection, load(connection, "loaded", "source") as opened:
        assert opened[1] is checksums
        append(connection, source.pages)
    server.stop()
    if checksums:
        assert "Bad checksums:  0" in server.run("pg_checksums", "--check", "-D", server.data)
    server.start()
    assert_same_rows(server, dbname, "source", "loaded")
    assert_sound(server, dbname, "loaded")


@pytest.fixture
def standby_of(fresh_server: Callable[..., PostgresServer]) -> Callable[[PostgresServer], PostgresServer]:
    """Makes a standby from a base backup that is taken now; it is not started."""
    standbys: list[PostgresServer] = []

    def make(primary: PostgresServer, settings: dict[str, Any] | None = None) -> PostgresServer:
        standby = PostgresServer(primary.version, settings)
        standbys.append(standby)
        shutil.rmtree(standby.data)
        primary.run("pg_basebackup", "-D", standby.data, "-R", "-c", "fast", "--no-sync",
                    "-h", primary.socket_directory, "-p", primary.port, "-U", "postgres")  # fmt: skip
        standby.adopt()
        return standby

    yield make  # type: ignore[misc]
    for standby in standbys:
        standby.destroy()


def wait_for_replay(primary: PostgresServer, standby: PostgresServer, seconds: float = 60) -> None:
    ((target,),) = primary.rows("SELECT pg_current_wal_lsn()")
    deadline = time.monotonic() + seconds
    while standby.rows(f"SELECT pg_last_wal_replay_lsn() >= '{target}'") != [(True,)]:
        assert time.monotonic() < deadline, standby.log_text()[-2000:]
        time.sleep(0.05)


def test_standby(direct_server: DirectServer, standby_of: Callable[..., PostgresServer]) -> None:
    """One standby begins before the load, another from a backup that is taken in the middle of it."""
    # Kept for the standby of the later backup: the server recycles a segment as soon as no standby it knows needs it.
    settings = {"wal_level": "replica", "wal_keep_size": "1GB", **DURABLE}
    server, dbname = direct_server(18, settings, first_lines_of_hba="local replication postgres trust")
    source = make_every_type(server, dbname)
    early = standby_of(server)
    early.start()
    half = source.page_count // 2 * PAGE_BYTES
    with connect(server, dbname) as connection, load(connection, "loaded", "source"):
        append(connection, source.pages[:half])
        late = standby_of(server)
        append(connection, source.pages[half:])
    late.start()
    expected = digest(server, dbname, "loaded")
    for standby in (early, late):
        wait_for_replay(server, standby)
        assert digest(standby, dbname, "loaded") == expected
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), connect(standby, dbname) as connection:
            open_load(connection, "loaded")
    server.stop()
    for standby in (early, late):
        standby.execute("SELECT pg_promote()")
        assert_sound(standby, dbname, "loaded")


def test_point_in_time_recovery(direct_server: DirectServer, standby_of: Callable[..., PostgresServer]) -> None:
    """From a backup before the load and the archived WAL: to a point between two loads."""
    server, dbname = direct_server(
        18, {"wal_level": "replica", **DURABLE}, first_lines_of_hba="local replication postgres trust"
    )
    archive = server.directory / "archive"
    archive.mkdir()
    shutil.chown(archive, server.data.stat().st_uid, server.data.stat().st_gid)
    server.stop()
    server.configure({"archive_mode": "on", "archive_command": f"'cp %p {archive}/%f'"})
    server.start()
    source = make_small(server, dbname)
    recovered = standby_of(server)
    with connect(server, dbname) as connection:
        with load(connection, "first", "source"):
            append(connection, source.pages)
        server.execute("SELECT pg_create_restore_point('between')")
        with load(connection, "second", "source"):
            append(connection, source.pages)
    server.execute("SELECT pg_switch_wal()")
    server.stop()
    (recovered.data / "standby.signal").unlink()
    (recovered.data / "recovery.signal").touch()
    recovered.configure(
        {
            "archive_mode": "off",
            "restore_command": f"'cp {archive}/%f %p'",
            "recovery_target_name": "'between'",
            "recovery_target_action": "'promote'",
            "primary_conninfo": "''",
        }
    )
    recovered.start()
    deadline = time.monotonic() + 60
    while recovered.rows("SELECT pg_is_in_recovery()") != [(False,)]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert_same_rows(recovered, dbname, "source", "first")
    assert recovered.rows("SELECT to_regclass('second')", dbname) == [(None,)]
    assert_sound(recovered, dbname, "first")


def test_backend_killed(direct_server: DirectServer) -> None:
    """kill -9 of a backend restarts the server; the next load finds and removes what it left in shared memory."""
    server, dbname = direct_server(18, DURABLE)
    source = make_small(server, dbname)
    connection = connect(server, dbname)
    connection.execute("BEGIN; CREATE TABLE loaded (LIKE source)")
    path = open_load(connection, "loaded", 2, 16)[4]
    append(connection, source.pages)
    psutil.Process(connection.info.backend_pid).kill()
    with pytest.raises(psycopg.OperationalError):
        append(connection, source.pages)
    connection.close()
    left = Path(path).parent
    assert left.exists()
    deadline = time.monotonic() + 30
    while True:
        try:
            with connect(server, dbname) as again, load(again, "loaded", "source"):
                append(again, source.pages)
            break
        except psycopg.OperationalError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert_same_rows(server, dbname, "source", "loaded")
    with connect(server, dbname) as again:
        again.execute("BEGIN; CREATE TABLE other (LIKE source)")
        open_load(again, "other", 1, 1)
        assert not left.exists()
        again.execute("ROLLBACK")


def test_backend_terminated(postgres_server: PostgresServer, direct_database: str) -> None:
    source = make_small(postgres_server, direct_database)
    connection = connect(postgres_server, direct_database)
    connection.execute("BEGIN; CREATE TABLE loaded (LIKE source)")
    path = open_load(connection, "loaded", 2, 16)[4]
    append(connection, source.pages)
    pid = connection.info.backend_pid
    postgres_server.execute(f"SELECT pg_terminate_backend({pid}, 10000)")
    assert not Path(path).parent.exists()
    assert postgres_server.rows("SELECT to_regclass('loaded')", direct_database) == [(None,)]
    connection.close()


def test_full_disk(postgres_server: PostgresServer, direct_database: str, disk: Callable[[int], Path]) -> None:
    place = disk(8)
    owner = postgres_server.data.stat()
    shutil.chown(place, owner.st_uid, owner.st_gid)
    for parent in place.parents:
        if parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    source = make_small(postgres_server, direct_database)
    with postgres_server.connect(direct_database) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{place}'")  # type: ignore[call-overload]
        try:
            connection.execute("BEGIN; CREATE TABLE loaded (LIKE source) TABLESPACE small")
            open_load(connection, "loaded")
            too_much = source.pages * 20
            with pytest.raises(psycopg.errors.DiskFull, match="could not extend file"):
                append(connection, too_much, batch_pages=61)
            connection.execute("ROLLBACK")
            assert postgres_server.rows("SELECT 1") == [(1,)]
            connection.execute("CHECKPOINT")
            left = [path for path in place.rglob("*") if path.is_file() and path.stat().st_size > 0]
            assert left == [path for path in left if path.name == "PG_VERSION"]
        finally:
            connection.execute("DROP TABLESPACE small")
