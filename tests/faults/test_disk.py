"""Disks that are full: an error that says so, nothing published, and the next run works with more space."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from big import TABLE, BigFile, write_big_file
from command import Run
from extension.pages import make_ready
from faults.oracle import OLD_ROWS, Disturbed, answers, resize_disk, wait_for
from loading import load
from servers.extension import extension_missing_reason
from servers.installations import server_user
from servers.postgres import PostgresServer
from targets import DuckdbTarget, PostgresTarget, write

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")


def assert_says_disk_full(run: Run) -> None:
    assert run.exit_code == 1, str(run)
    said = run.stderr.lower()
    assert "space" in said or "disk full" in said, run.stderr
    assert "Traceback" not in run.stderr


@pytest.fixture(scope="module")
def dense_file(tmp_path_factory: pytest.TempPathFactory) -> BigFile:
    """About 22 MB that no engine stores in much less."""
    return write_big_file(tmp_path_factory.mktemp("dense") / "dense.csv", rows=200_000, compressible=False)


def test_duckdb_file(disk: Callable[[int], Path], dense_file: BigFile) -> None:
    place = disk(8)
    target = DuckdbTarget(place / "t.duckdb")
    job = Disturbed(target, dense_file)
    run = job.run()
    assert_says_disk_full(run)
    assert job.visible() == 0
    resize_disk(place, 500)
    job.finish()


@pytest.mark.parametrize("free_bytes", [0, 4096, 8192])
def test_duckdb_file_that_cannot_be_begun(disk: Callable[[int], Path], tmp_path: Path, free_bytes: int) -> None:
    """DuckDB leaves a piece of a file, which it would take for no database ever after."""
    place = disk(1)
    target = DuckdbTarget(place / "t.duckdb")
    (place / "rest").write_bytes(bytes(1024**2 - free_bytes))
    path = write(tmp_path / "in.csv", "1,x\n")
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (a integer, b text);")
    run = load(target, path, schema=schema, check=1)
    assert_says_disk_full(run)
    assert "hint: free space on the disk" in run.stderr
    assert not target.path.exists()
    resize_disk(place, 100)
    load(target, path, schema=schema)
    assert target.rows("SELECT * FROM t") == [(1, "x")]


@pytest.mark.parametrize("size_bytes", [0, 4096])
def test_duckdb_file_that_was_there_is_kept(tmp_path: Path, size_bytes: int) -> None:
    target = DuckdbTarget(tmp_path / "t.duckdb")
    write(target.path, bytes(size_bytes))
    path = write(tmp_path / "in.csv", "1,x\n")
    run = load(target, path, schema=write(tmp_path / "schema.sql", "CREATE TABLE t (a integer, b text);"), check=2)
    assert f"rm {target.path}" in run.stderr
    assert target.path.stat().st_size == size_bytes


def test_duckdb_file_in_mid_load_without_one_commit(disk: Callable[[int], Path], dense_file: BigFile) -> None:
    """The error does not say that nothing was published: what was committed before is visible."""
    place = disk(12)
    target = DuckdbTarget(place / "t.duckdb")
    target.execute(TABLE)
    options = {"table": "t", "no_atomic": True, "commit_every": 20_000}
    run = load(target, dense_file.path, check=False, **options)
    assert_says_disk_full(run)
    assert "nothing was published" not in run.stderr
    assert "slices that were done before are stored, and are not stored twice" in run.stderr
    resize_disk(place, 500)
    assert 0 < target.count("t") < dense_file.rows
    load(target, dense_file.path, **options)
    assert dense_file.held_by(target) == dense_file.expected


def test_duckdb_file_again_and_again(disk: Callable[[int], Path], dense_file: BigFile) -> None:
    """Sizes at which the disk is full at different moments, the checkpoint among them."""
    place = disk(3)
    target = DuckdbTarget(place / "t.duckdb")
    job = Disturbed(target, dense_file)
    done = False
    for megabytes in (3, 5, 8, 12, 16, 20, 24, 32):
        resize_disk(place, megabytes)
        run = job.run()
        if run.exit_code == 0:
            done = True
            break
        assert_says_disk_full(run)
        assert job.visible() == 0
    resize_disk(place, 500)
    if not done:
        job.finish()
    job.check_rows()


def make_tablespace(server: PostgresServer, name: str, place: Path) -> None:
    """A tablespace on a disk, in which everybody may make tables."""
    user = server_user()
    os.chown(place, user.uid, user.gid)
    for parent in place.parents:
        if parent != Path("/"):
            os.chmod(parent, os.stat(parent).st_mode | 0o011)
    server.execute(f"CREATE TABLESPACE {name} LOCATION '{place}'")
    server.execute(f"GRANT CREATE ON TABLESPACE {name} TO PUBLIC")


@pytest.mark.parametrize("write_path", ["binary", "direct"])
def test_postgresql_data(
    server_of: Callable[[int], PostgresServer], disk: Callable[[int], Path], big_file: BigFile, write_path: str
) -> None:
    """A tablespace on a full disk; the server itself lives on."""
    server = server_of(18)
    reason = extension_missing_reason(server.version)
    if write_path == "direct" and reason is not None:
        pytest.skip(reason)
    place = disk(30)
    make_tablespace(server, "small", place)
    target = PostgresTarget(server)
    try:
        target.close()
        target.server.execute(f'CREATE DATABASE "{target.database}" OWNER loader TABLESPACE small')
        if write_path == "direct":
            make_ready(server, target.database)
        # Pages are for tables without rows.
        old_rows = 0 if write_path == "direct" else OLD_ROWS
        job = Disturbed(target, big_file, old_rows=old_rows, write_path=write_path)
        run = job.run()
        assert_says_disk_full(run)
        assert "53100" in run.stderr
        assert "free space for the server and run the same command again" in run.stderr
        assert "mend the value" not in run.stderr
        assert job.visible() == 0
        assert server.running
        resize_disk(place, 500)
        job.finish()
    finally:
        target.close()
        server.execute("DROP TABLESPACE small")


def test_only_disks_that_are_used_are_warned_of(
    server_of: Callable[[int], PostgresServer], disk: Callable[[int], Path], tmp_path: Path
) -> None:
    """How much room another tablespace has is no matter for a load."""
    server = server_of(18)
    make_tablespace(server, "narrow", disk(2))
    target = PostgresTarget(server)
    target.execute(
        "CREATE TABLE t (a integer, b text); CREATE TABLE u (a integer, b text) PARTITION BY LIST (a);"
        "CREATE TABLE u_0 PARTITION OF u DEFAULT TABLESPACE narrow;"
        "CREATE TABLE v (a integer, b text); CREATE INDEX ON v (a) TABLESPACE narrow"
    )
    source = write(tmp_path / "in.csv", "".join(f"{n},{'x' * 1000}\n" for n in range(4000)))
    schema = write(tmp_path / "new.sql", "CREATE TABLE new (a integer, b text);")
    laid = write(tmp_path / "laid.sql", "CREATE TABLE new (a integer, b text) TABLESPACE narrow;")
    session = f"{target.url}&options=-c%20default_tablespace%3Dnarrow"
    commands: list[tuple[bool, str, dict[str, object]]] = [
        (False, target.url, {"table": "t"}),
        (False, target.url, {"table": "new", "schema": schema}),
        (True, target.url, {"table": "u"}),
        (True, target.url, {"table": "v"}),
        (True, target.url, {"table": "new", "schema": laid}),
        (True, target.url, {"table": "new", "schema": schema, "tablespace": "narrow"}),
        (True, session, {"table": "new", "schema": schema}),
    ]
    try:
        for warns, url, options in commands:
            run = load(url, source, header="no", dry_run=True, **options)
            assert ("disk of tablespace narrow" in str(run.summary)) == warns, run
    finally:
        target.close()
        server.execute("DROP TABLESPACE narrow")


def test_postgresql_on_a_disk_that_is_read_only(
    fresh_server: Callable[..., PostgresServer], disk: Callable[[int], Path], tmp_path: Path
) -> None:
    """The server has the same code for it as for a right that a role lacks, which a GRANT would give."""
    place = disk(30)
    server = fresh_server(18)
    make_tablespace(server, "frozen", place)
    target, other = PostgresTarget(server), PostgresTarget(server)
    make_ready(server, target.database)
    target.execute(
        "CREATE TABLE kept (a integer, b text) TABLESPACE frozen; CREATE TABLE worn (a integer, b text) TABLESPACE "
        "frozen; CREATE TABLE v (a integer, b text); CREATE INDEX ON v (a) TABLESPACE frozen"
    )
    # It has no file there open for writing then.
    server.restart()
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (a integer, b text);")
    source = write(tmp_path / "in.csv", "1,x\n2,y\n")
    there = f"{target.url}&options=-c%20default_tablespace%3Dfrozen"
    new = {"schema": schema, "header": "no"}
    commands: list[tuple[str | PostgresTarget, dict[str, object]]] = [
        (target, {**new, "tablespace": "frozen"}),
        (target, {**new, "tablespace": "frozen", "write_path": "direct"}),
        (target, {"table": "kept", "indexes": "keep"}),
        (target, {"table": "worn", "mode": "replace"}),
        (target, {"table": "v"}),
        # The ledger is to be made there.
        (f"{other.url}&options=-c%20default_tablespace%3Dfrozen", new),
        (there, {**new, "no_ledger": True, "mode": "upsert", "key": "a"}),
    ]
    try:
        for url, options in commands:
            run = load(url, source, check=False, **options)
            assert run.exit_code == 1, run
            assert "Read-only file system" in run.stderr
            assert "its disk is mounted read-only" in run.stderr, run
            assert "GRANT" not in run.stderr
            assert "not possible" not in run.stderr
        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
        for url, options in commands[:6]:
            load(url, source, **options)
    finally:
        target.close()
        other.close()


def test_postgresql_wal(
    fresh_server: Callable[..., PostgresServer], disk: Callable[[int], Path], big_file: BigFile
) -> None:
    """pg_wal on a full disk takes the whole server down; when there is space again, the job ends well."""
    settings = {
        "wal_level": "replica",
        "max_wal_size": "32MB",
        "min_wal_size": "32MB",
        "checkpoint_timeout": "1h",
    }
    place = disk(40)
    server = fresh_server(18, settings)
    server.stop("fast")
    server.move_wal(place)
    server.start()
    target = PostgresTarget(server)
    job = Disturbed(target, big_file, retry_for=5)
    # Something else holds the log: without it, checkpoints would make room in time.
    server.execute("SELECT pg_create_physical_replication_slot('holds', true)")
    run = job.run()
    assert run.exit_code in (1, 2), str(run)
    assert "Traceback" not in run.stderr
    assert 'PANIC:  could not write to file "pg_wal/' in server.log_text()
    resize_disk(place, 500)
    # It starts again by itself, but where the end of its recovery finds no room either.
    if not (wait_for(lambda: not server.running or answers(server), 15) and server.running):
        server.stop("immediate")
        server.start()
    server.execute("SELECT pg_drop_replication_slot('holds')")
    job.finish()
    target.close()
    server.destroy()


def test_rejects_on_a_full_disk(postgres_target: PostgresTarget, disk: Callable[[int], Path], tmp_path: Path) -> None:
    """Where the client has no room for rejects, the job can go on once it has: what is staged stays."""
    place = disk(1)
    postgres_target.execute("CREATE TABLE t (a integer, b text)")
    records = 600_000
    path = tmp_path / "in.csv"
    with path.open("w") as file:
        for number in range(records):
            file.write(f"{number if number % 20 or number < records // 2 else 'x'},{'y' * 40}\n")
    options = {"on_error": "skip", "max_rejects": "10%", "rejects": tmp_path / "bad", "jobs": 1}
    environment = {"TMPDIR": str(place)}
    run = load(postgres_target, path, env=environment, check=False, **options)
    assert_says_disk_full(run)
    assert "free space there, or set TMPDIR to a directory with more of it" in run.stderr
    assert postgres_target.count("t") == 0
    ((job, state),) = postgres_target.rows("SELECT job_id::text, state FROM tipple.job")
    assert state == "loading"
    resize_disk(place, 200)
    done = load(postgres_target, path, env=environment, check=3, **options)
    assert done.summary is not None
    assert done.summary["job_id"] == job
    rejected = records // 40
    assert (postgres_target.count("t"), done.summary["rejects"]) == (records - rejected, rejected)
    assert len((tmp_path / "bad").read_bytes().splitlines()) == rejected
