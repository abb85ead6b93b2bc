"""What can happen between Tipple and a server: lost replies, cut and silent connections, killed sessions."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from big import BigFile
from command import run_tipple
from faults.oracle import (
    FIRST_SEED,
    LONG,
    OLD_ROWS,
    Disturbed,
    answers,
    copying,
    moments,
    record_count,
    sessions_of,
    wait_for,
)
from loading import load_here
from servers.postgres import LOADER, PostgresServer
from servers.proxy import Proxy
from targets import PostgresTarget, write
from tipple.engines import spool
from tipple.engines.postgresql import ledger
from tipple.engines.postgresql.core_plans import CorePlans
from tipple.engines.postgresql.load import PostgresLoad
from tipple.engines.postgresql.session import PostgresSession

VERSION = 18


@pytest.fixture
def server(server_of: Callable[[int], PostgresServer]) -> PostgresServer:
    return server_of(VERSION)


@pytest.fixture
def target(server: PostgresServer) -> Iterator[PostgresTarget]:
    target = PostgresTarget(server)
    try:
        yield target
    finally:
        target.close()


def through(proxy: Proxy, target: PostgresTarget, **parameters: str) -> str:
    """The target's URL by way of the proxy."""
    return target.server.url(LOADER, target.database, "127.0.0.1", port=proxy.port, **parameters)


@pytest.mark.timeout(3600)
def test_commit_reply_lost(
    target: PostgresTarget, big_file: BigFile, proxy_to: Callable[[PostgresServer], Proxy], old_rows: int
) -> None:
    """Every COMMIT of a load loses its reply once: first which there are, then each in a run of its own."""
    proxy = proxy_to(target.server)
    url = through(proxy, target)
    job = Disturbed(target, big_file, table="t0", url=url, old_rows=old_rows)
    first = job.start().wait()
    assert first.exit_code == 0, str(first)
    commits = proxy.commits
    job.finish()
    job.drop()
    assert commits >= 1
    ordinals = list(range(1, commits + 1))
    if not LONG and commits > 8:
        # The first, the last three (publishing is among them) and some in between.
        between = random.Random(FIRST_SEED).sample(ordinals[1:-3], 3)
        ordinals = [1, *sorted(between), *ordinals[-3:]]
    for ordinal in ordinals:
        print(f"COMMIT {ordinal} of {commits}")
        job = Disturbed(target, big_file, table=f"t{ordinal}", url=url, old_rows=old_rows)
        broken = proxy.broken
        proxy.drop_commit_reply(ordinal)
        run = job.start().wait()
        proxy.drop_commit_reply()
        assert run.exit_code in (0, 1), str(run)
        assert "Traceback" not in run.stderr
        if run.exit_code == 0:
            assert job.visible() == big_file.rows
        assert proxy.broken > broken or ordinal > 1
        job.finish()
        job.drop()


@pytest.mark.timeout(3600)
def test_connection_reset(
    target: PostgresTarget, big_file: BigFile, proxy_to: Callable[[PostgresServer], Proxy]
) -> None:
    """A reset after so many bytes: the slice is sent again, and the job ends well without help."""
    proxy = proxy_to(target.server)
    r = random.Random(FIRST_SEED)
    for number in range(60 if LONG else 6):
        bytes_sent = r.choice([r.randint(0, 5_000), r.randint(0, 25_000_000), r.randint(0, 25_000_000)])
        print(f"TIPPLE_SEED={FIRST_SEED} round {number}: cut after {bytes_sent} bytes")
        job = Disturbed(
            target, big_file, table=f"t{number}", url=through(proxy, target), old_rows=OLD_ROWS * (number % 2)
        )
        proxy.cut_after(bytes_sent)
        run = job.start().wait()
        proxy.cut_after(None)
        if run.exit_code != 0:
            # Before anything was started, a broken connection is status 2, later it is retried.
            assert run.exit_code in ((1, 2) if bytes_sent < 20_000 else (1,)), str(run)
        job.finish()
        job.drop()


def test_a_reset_in_mid_load_is_retried(
    target: PostgresTarget, big_file: BigFile, proxy_to: Callable[[PostgresServer], Proxy], old_rows: int
) -> None:
    proxy = proxy_to(target.server)
    job = Disturbed(target, big_file, url=through(proxy, target), old_rows=old_rows)
    proxy.cut_after(12_000_000)
    run = job.start().wait()
    assert run.exit_code == 0, str(run)
    assert proxy.broken == 1
    assert run.summary is not None
    assert run.summary["retries"] >= 1
    job.finish()


def test_blackhole(
    target: PostgresTarget, big_file: BigFile, proxy_to: Callable[[PostgresServer], Proxy], old_rows: int
) -> None:
    """A peer that says nothing more is given up within the time that was asked for, and the sessions that
    hang in the server do not hold up the next run."""
    proxy = proxy_to(target.server)
    job = Disturbed(target, big_file, url=through(proxy, target), old_rows=old_rows, stall_timeout=4, retry_for=2)
    proxy.blackhole_after(12_000_000)
    started = time.monotonic()
    run = job.start().wait(90)
    assert proxy.black.is_set()
    assert run.exit_code == 1, str(run)
    assert time.monotonic() - started < 60
    assert "Traceback" not in run.stderr
    job.options = {"jobs": 2}
    started = time.monotonic()
    job.finish()
    assert time.monotonic() - started < 60


def test_blackhole_that_ends(
    target: PostgresTarget, big_file: BigFile, proxy_to: Callable[[PostgresServer], Proxy]
) -> None:
    """Silence shorter than the time that was asked for is no fault."""
    proxy = proxy_to(target.server)
    job = Disturbed(target, big_file, url=through(proxy, target), stall_timeout=30)
    proxy.blackhole_after(12_000_000)
    command = job.start()
    assert proxy.black.wait(30)
    time.sleep(3)
    proxy.blackhole_after(None)
    run = command.wait()
    assert run.exit_code == 0, str(run)
    job.finish()


def test_blackhole_while_connecting(
    target: PostgresTarget, big_file: BigFile, proxy_to: Callable[[PostgresServer], Proxy]
) -> None:
    proxy = proxy_to(target.server)
    proxy.blackhole_after(-1)
    proxy.black.set()
    job = Disturbed(target, big_file, url=through(proxy, target, connect_timeout="3"))
    started = time.monotonic()
    run = job.start().wait(60)
    assert run.exit_code == 2, str(run)
    assert time.monotonic() - started < 30
    proxy.blackhole_after(None)
    job.finish()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("how", ["terminate", "cancel"])
def test_sessions_ended_by_an_administrator(
    target: PostgresTarget, big_file: BigFile, postgres_seconds: float, how: str
) -> None:
    """pg_terminate_backend of one of Tipple's sessions at random moments: retried, and the job ends well."""
    r = random.Random(FIRST_SEED)
    ended = failed = 0
    for number, moment in enumerate(moments(11, 40 if LONG else 5, postgres_seconds * 0.8)):
        job = Disturbed(target, big_file, table=f"t{number}", old_rows=OLD_ROWS * (number % 2))
        command = job.start()
        wait_for(lambda command=command: sessions_of(target) or not command.running)
        time.sleep(moment * r.random())
        sessions = sessions_of(target)
        if sessions:
            target.server.execute(f"SELECT pg_{how}_backend({r.choice(sessions)})")
            ended += 1
        run = command.wait()
        assert run.exit_code in (0, 1, 2), str(run)
        assert "Traceback" not in run.stderr
        failed += run.exit_code != 0
        job.finish()
        job.drop()
    record_count(f"pg_{how}_backend: {ended} sessions, {failed} runs failed and were done by the next")
    assert ended > 0


@pytest.mark.parametrize("moment", ["describe", "examine_for", "load", "sizes_after"])
def test_the_control_session_is_terminated(
    target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Before and after the load itself too that is a lost connection, and no fault of ours; when the sources have been
    looked at, which may take long, there is another one."""
    target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    method = getattr(PostgresSession, moment)

    def terminated(session: PostgresSession, *arguments: object, **named: object) -> object:
        target.server.execute(f"SELECT pg_terminate_backend({session.connection.info.backend_pid}, 5000)")
        return method(session, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresSession, moment, terminated)
        run = load_here(target, path, check=False)
    assert run.exit_code == 0 or moment == "describe"
    if run.exit_code:
        assert "the connection to the server was lost" in run.stderr
        load_here(target, path)
    assert target.rows("SELECT a FROM t") == [(1,)]


@pytest.mark.parametrize("how", ["", "no_ledger", "no_ledger no_atomic"])
def test_a_session_that_reads_back_is_terminated(
    target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """All is staged: the load goes on from there. Without a ledger nobody is told to load again what may be there."""
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (a integer)")
    options: dict[str, Any] = dict.fromkeys(how.split(), True)
    path = write(tmp_path / "in.csv", "1\n2\n")
    verification, calls = CorePlans.verification, []

    def ending(plans: CorePlans, owned: Any, queries: list[str]) -> str:
        calls.append(queries)
        ended = [f"{queries[0]} AND pg_terminate_backend(pg_backend_pid())", *queries[1:]]
        return verification(plans, owned, ended if len(calls) == 1 else queries)

    with monkeypatch.context() as patch:
        patch.setattr(CorePlans, "verification", ending)
        run = load_here(target, path, schema=schema, verify="checksum", check=1 if how else 0, **options)
    if how:
        assert "the connection to the server was lost" in run.stderr
        assert "nothing is stored twice" not in run.stderr
        assert "look at the table before the command is run again" in " ".join(run.stderr.split())
        return
    assert len(calls) == 2
    assert run.summary is not None
    assert run.summary["verify"]["kind"] == "checksum"
    assert sorted(target.rows("SELECT a FROM t")) == [(1,), (2,)]
    assert target.leftovers("t") == set()


@pytest.mark.parametrize("partitions", ["", " PARTITION BY RANGE (a); CREATE TABLE p PARTITION OF t DEFAULT"])
def test_what_was_staged_without_a_ledger_is_cleaned(
    target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: str
) -> None:
    target.execute(f"CREATE TABLE t (a integer){partitions}")
    path = write(tmp_path / "in.csv", "1\n")
    convert = PostgresLoad._convert

    def terminated(load: PostgresLoad, *arguments: Any) -> None:
        target.server.execute(f"SELECT pg_terminate_backend({load.connection.info.backend_pid}, 5000)")
        load.connection.execute("SELECT 1")
        convert(load, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresLoad, "_convert", terminated)
        run = load_here(target, path, no_ledger=True, check=1)
    assert "nothing is stored twice" not in run.stderr
    assert "tipple jobs URL clean" in run.stderr
    staged = target.leftovers("t", "p")
    assert staged
    with target.server.connect(target.database) as other:
        other.execute("SELECT pg_advisory_lock(5)")
        assert "kept the staging table" in run_tipple("jobs", target.url, "clean").stdout
        assert target.leftovers("t", "p") == staged
    assert "dropped the staging table" in run_tipple("jobs", target.url, "clean").stdout
    assert target.leftovers("t", "p") == set()
    assert "nothing to clean up" in run_tipple("jobs", target.url, "clean").stdout
    load_here(target, path, no_ledger=True)
    assert target.rows("SELECT a FROM t") == [(1,)]


@pytest.mark.parametrize(("often", "moment"), [(1, "before"), (2, "before"), (1, "behind")])
def test_the_control_session_is_terminated_while_rejects_are_read(
    target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, often: int, moment: str
) -> None:
    """Once, another one reads them. The rows are published already, and nothing is stored or told twice."""
    target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\nx\n")
    options = {"header": "no", "on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad"}
    asked: tuple[Any, str] = (ledger, "reject_places") if moment == "before" else (spool, "tell")
    ask, left = getattr(*asked), [None] * often

    def terminated(*given: Any) -> Any:
        found = None if moment == "before" else ask(*given)
        if left:
            left.pop()
            target.server.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                f"WHERE datname = '{target.database}' AND application_name LIKE 'tipple%' AND usename = '{LOADER}'"
            )
        return ask(*given) if moment == "before" else found

    with monkeypatch.context() as patch:
        patch.setattr(*asked, terminated)
        run = load_here(target, path, check=3 if often == 1 else 1, **options)
    if often > 1:
        assert "the rows were published, but the rejects could not be read" in run.stderr
        load_here(target, path, check=3, **options)
    assert (tmp_path / "bad").read_text() == "x\n"
    assert target.rows("SELECT a FROM t") == [(1,)]


def test_a_copying_session_is_terminated(target: PostgresTarget, big_file: BigFile, old_rows: int) -> None:
    job = Disturbed(target, big_file, old_rows=old_rows)
    command = job.start()
    if wait_for(lambda: copying(target) or not command.running) and command.running:
        for pid in copying(target)[:1]:
            target.server.execute(f"SELECT pg_terminate_backend({pid})")
    run = command.wait()
    assert run.exit_code == 0, str(run)
    job.finish()


def test_a_locked_table_is_waited_for(target: PostgresTarget, big_file: BigFile) -> None:
    """Somebody holds the table for a while: the job waits and does not fail; Ctrl-C ends the waiting."""
    job = Disturbed(target, big_file)
    with psycopg.connect(target.server.url(LOADER, target.database)) as holder:
        holder.execute(f"LOCK TABLE {job.table} IN ACCESS EXCLUSIVE MODE")
        command = job.start()
        time.sleep(4)
        assert command.running, "did not wait for the lock"
        command.signal(signal.SIGINT)
        started = time.monotonic()
        run = command.wait(30)
        assert run.exit_code == 130, str(run)
        assert time.monotonic() - started < 5
        command = job.start()
        time.sleep(3)
        holder.rollback()
    run = command.wait()
    assert run.exit_code == 0, str(run)
    job.finish()


@pytest.mark.parametrize("ends_with", ["55P03", "57014"])
def test_publishing_that_others_stop_keeps_what_is_staged(
    target: PostgresTarget, big_file: BigFile, ends_with: str
) -> None:
    """Somebody reads the table for longer than a lock is waited for, or cancels the statement that waits for it."""
    patience = "500ms" if ends_with == "55P03" else "0"
    url = target.server.url(LOADER, target.database, options=f"-c lock_timeout={patience}")
    job = Disturbed(target, big_file, old_rows=0, url=url)
    # Streams that make a table longer wait for each other by a lock, too.
    waiting = (
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'LOCK TABLE%' "
        "AND application_name LIKE 'tipple%'"
    )
    with psycopg.connect(target.server.url(LOADER, target.database)) as reader:
        reader.execute("SELECT FROM t")
        command = job.start()
        if ends_with == "57014":
            assert wait_for(lambda: target.server.rows(waiting))
            target.server.rows(f"SELECT pg_cancel_backend(pid) FROM ({waiting}) AS s")
        run = command.wait()
    assert run.exit_code == 1, str(run)
    assert ends_with in run.stderr
    assert job.visible() == 0
    summary = job.finish()[0].summary
    assert summary is not None
    assert summary["slices_resumed"] > 0


@pytest.mark.parametrize("is_lost", [False, True])
def test_jobs_clean_keeps_a_job_that_runs(target: PostgresTarget, big_file: BigFile, is_lost: bool) -> None:
    """Whatever name its sessions have, and where its control session is another one than at its beginning."""
    url = target.server.url(LOADER, target.database, application_name="night batch")
    job = Disturbed(target, big_file, old_rows=0, url=url)
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'night batch'"
    with psycopg.connect(target.server.url(LOADER, target.database)) as reader:
        reader.execute("SELECT FROM t")
        command = job.start()
        assert wait_for(lambda: target.server.rows(waiting))
        if is_lost:
            ((pid,),) = target.server.rows(waiting)
            target.server.rows(f"SELECT pg_terminate_backend({pid}, 5000)")
            assert wait_for(lambda: target.server.rows(waiting))
        assert "unfinished" not in run_tipple("jobs", target.url).stdout
        assert "nothing to clean up" in run_tipple("jobs", target.url, "clean").stdout
    run = command.wait()
    assert run.exit_code == 0, str(run)
    job.finish()


@pytest.mark.parametrize(
    "change", ["ADD COLUMN extra integer", "ALTER day TYPE text", "RENAME note TO remark", "DROP COLUMN day"]
)
def test_the_table_changes_in_mid_job(
    target: PostgresTarget, big_file: BigFile, postgres_seconds: float, change: str, old_rows: int
) -> None:
    """Either the rows are there, in the table as it is now, or nothing is, and an error says why."""
    job = Disturbed(target, big_file, old_rows=old_rows)
    command = job.start()
    time.sleep(postgres_seconds * 0.4)
    with psycopg.connect(target.server.url(LOADER, target.database)) as connection:
        connection.execute("SET lock_timeout = '20s'")
        connection.execute(f"ALTER TABLE t {change}")  # type: ignore[call-overload]
    run = command.wait()
    assert run.exit_code in (0, 1, 2), str(run)
    assert job.visible() == (big_file.rows if run.exit_code == 0 else 0)
    if run.exit_code != 0:
        assert run.stderr.strip()
        assert "Traceback" not in run.stderr
    job.check_tidy()


def test_the_table_is_dropped_in_mid_job(target: PostgresTarget, big_file: BigFile, postgres_seconds: float) -> None:
    job = Disturbed(target, big_file)
    command = job.start()
    time.sleep(postgres_seconds * 0.5)
    done = not command.running
    target.execute("DROP TABLE t")
    run = command.wait()
    if not done and run.exit_code != 0:
        assert run.exit_code in (1, 2), str(run)
        assert "Traceback" not in run.stderr
    run_tipple("jobs", target.url, "clean")
    assert target.leftovers() == set()


# ---- servers that crash --------------------------------------------------------------------------------

CAREFUL = {"fsync": "on", "full_page_writes": "on"}
MINIMAL = {**CAREFUL, "wal_level": "minimal", "max_wal_senders": "0"}


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("settings", [CAREFUL, MINIMAL], ids=["wal_replica", "wal_minimal"])
def test_server_crashes_and_comes_back(
    fresh_server: Callable[..., PostgresServer],
    big_file: BigFile,
    postgres_seconds: float,
    settings: dict[str, str],
) -> None:
    """Stopped at once at random moments, back after a second: nothing lost, nothing twice, nothing left."""
    server = fresh_server(VERSION, settings)
    target = PostgresTarget(server)
    waited = 0
    for number, moment in enumerate(moments(12, 50 if LONG else 4, postgres_seconds)):
        job = Disturbed(target, big_file, table=f"t{number}", retry_for=30, old_rows=OLD_ROWS * (number % 2))
        command = job.start()
        time.sleep(moment)
        server.crash()
        time.sleep(1)
        server.start()
        run = command.wait()
        assert run.exit_code in (0, 1, 2), str(run)
        assert "Traceback" not in run.stderr
        waited += run.exit_code == 0
        job.finish()
        job.drop()
    level = settings.get("wal_level", "replica")
    record_count(f"crash of the server, wal_level={level}: {number + 1} rounds, {waited} runs went on by themselves")
    target.close()


def test_server_goes_away_in_mid_load_and_comes_back(
    fresh_server: Callable[..., PostgresServer], big_file: BigFile, old_rows: int
) -> None:
    """The job waits for the server and goes on by itself."""
    server = fresh_server(VERSION)
    target = PostgresTarget(server)
    job = Disturbed(target, big_file, old_rows=old_rows, retry_for=60)
    command = job.start()
    assert wait_for(lambda: copying(target) or not command.running)
    server.stop("fast")
    time.sleep(2)
    server.start()
    run = command.wait()
    assert run.exit_code == 0, str(run)
    job.finish()
    target.close()


def test_server_that_does_not_come_back(
    fresh_server: Callable[..., PostgresServer], big_file: BigFile, old_rows: int
) -> None:
    """Given up after the time that was asked for, with an error that says how to go on."""
    server = fresh_server(VERSION)
    target = PostgresTarget(server)
    job = Disturbed(target, big_file, old_rows=old_rows, retry_for=3)
    command = job.start()
    assert wait_for(lambda: copying(target) or not command.running)
    server.crash()
    started = time.monotonic()
    run = command.wait(60)
    assert time.monotonic() - started < 30
    assert run.exit_code == 1, str(run)
    assert "again" in run.stderr
    server.start()
    job.finish()
    target.close()


def test_ctrl_c_while_a_server_is_awaited_that_crashed_in_the_commit(
    fresh_server: Callable[..., PostgresServer], big_file: BigFile
) -> None:
    """Beside the COMMIT that publishes Ctrl-C comes too late; where the COMMIT has failed, it does not."""
    server = fresh_server(VERSION)
    target = PostgresTarget(server)
    job = Disturbed(target, big_file, old_rows=0, retry_for=40)
    with psycopg.connect(target.url, autocommit=True) as connection:
        ledger.ensure(connection)
    target.execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(20); RETURN NULL; END';"
        "CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON tipple.job DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW WHEN (NEW.state = 'published') EXECUTE FUNCTION slow()"
    )
    command = job.start()
    committing = "SELECT FROM pg_stat_activity WHERE query = 'COMMIT' AND wait_event = 'PgSleep'"
    assert wait_for(lambda: server.rows(committing))
    server.crash()
    time.sleep(1)
    assert command.running, "did not wait for the server"
    command.signal(signal.SIGINT)
    started = time.monotonic()
    run = command.wait(60)
    assert run.exit_code == 130, str(run)
    assert time.monotonic() - started < 5
    server.start()
    target.execute("DROP FUNCTION slow CASCADE")
    job.finish()
    target.close()


@pytest.mark.timeout(7200)
def test_backend_killed(
    fresh_server: Callable[..., PostgresServer], big_file: BigFile, postgres_seconds: float
) -> None:
    """SIGKILL of a backend: the server restarts all its sessions and recovers."""
    server = fresh_server(VERSION, MINIMAL)
    target = PostgresTarget(server)
    r = random.Random(FIRST_SEED)
    killed = 0
    for number, moment in enumerate(moments(13, 150 if LONG else 6, postgres_seconds * 0.8)):
        job = Disturbed(target, big_file, table=f"t{number}", retry_for=30, old_rows=OLD_ROWS * (number % 2))
        command = job.start()
        wait_for(lambda command=command: sessions_of(target) or not command.running)
        time.sleep(moment * r.random())
        sessions = sessions_of(target)
        if sessions:
            try:
                psutil.Process(r.choice(sessions)).kill()
                killed += 1
            except psutil.NoSuchProcess:
                print("the backend had ended")
        run = command.wait()
        assert run.exit_code in (0, 1, 2), str(run)
        assert "Traceback" not in run.stderr
        assert wait_for(lambda: answers(server), 60)
        job.finish()
        job.drop()
    record_count(f"SIGKILL of a backend: {number + 1} rounds, {killed} killed")
    assert killed > 0
    target.close()


def test_no_session_is_left_for_the_streams(target: PostgresTarget, tmp_path: Path) -> None:
    """A full server is not asked without end, and the remedy is another one than to ask again."""
    target.execute("CREATE TABLE t (a integer); INSERT INTO t VALUES (0)")
    path = write(tmp_path / "in.csv", "1\n2\n")
    # The test's own session, and the one that controls the load.
    target.server.execute(f"ALTER DATABASE {target.database} CONNECTION LIMIT 2")
    before = target.server.log_text().count("too many connections")
    run = load_here(target, path, mode="append", retry_for=4, check=1)
    assert "CONNECTION LIMIT" in run.stderr
    assert 1 < target.server.log_text().count("too many connections") - before < 12
    target.server.execute(f"ALTER DATABASE {target.database} CONNECTION LIMIT -1")
    assert load_here(target, path, mode="append").summary["rows"] == 2
    assert target.count("t") == 3
