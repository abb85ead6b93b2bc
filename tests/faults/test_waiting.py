"""A load that waits for its server: for locks of others, who are named, and for answers that do not come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tipple
from command import Command, run_tipple, start_tipple
from faults.oracle import wait_for
from loading import load, load_words
from servers.postgres import LOADER, PostgresServer
from servers.proxy import Proxy
from targets import PostgresTarget, write
from tipple.engines.postgresql.place import belongings
from tipple.plan.url import TableName

ROWS = 1000


@pytest.fixture
def target(postgres_target: PostgresTarget) -> PostgresTarget:
    postgres_target.execute("CREATE TABLE t (id int PRIMARY KEY, s text); INSERT INTO t VALUES (-1, 'old')")
    return postgres_target


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "t.csv", "id,s\n" + "".join(f"{n},row {n}\n" for n in range(ROWS)))


@contextmanager
def holding(target: PostgresTarget, mode: str, table: str = "t") -> Iterator[psycopg.Connection]:
    """Somebody holds a lock on the table, and does nothing."""
    with psycopg.connect(target.url, application_name="somebody") as holder:
        holder.execute(f"LOCK TABLE {table} IN {mode} MODE")
        yield holder


def begin(target: PostgresTarget, file: Path, url: str | None = None, **options: object) -> Command:
    return start_tipple(
        *load_words(url or target.url, (file,), "t", {"jobs": 2, "mode": "replace", "progress": "plain", **options})
    )


def named(command: Command, holder: psycopg.Connection) -> bool:
    """Whether the load says for whom it waits, and how that can be ended."""
    pid = holder.info.backend_pid
    beginning = f"tipple: warning: waiting for a lock that session {pid} holds ({LOADER}, somebody, idle in transaction"
    return wait_for(
        lambda: beginning in command.stderr_so_far() and f"pg_terminate_backend({pid})" in command.stderr_so_far(), 30
    )


@pytest.mark.client_only
def test_a_reader_in_the_way_of_publishing_is_named_and_holds_up_nobody_else(
    target: PostgresTarget, file: Path
) -> None:
    with holding(target, "ACCESS SHARE") as holder:
        command = begin(target, file)
        assert named(command, holder), command.stderr_so_far()
        # Whoever comes meanwhile gets his answer, from the old rows.
        target.execute("SET statement_timeout = '20s'")
        for _ in range(3):
            assert target.rows("SELECT * FROM t") == [(-1, "old")]
            time.sleep(0.3)
        assert command.running
        assert command.stderr_so_far().count("waiting for a lock") == 1
        holder.rollback()
        run = command.wait(60)
    assert run.exit_code == 0, str(run)
    assert target.count("t") == ROWS


@pytest.mark.parametrize(
    ("lock", "options", "rows"),
    [("ACCESS EXCLUSIVE", {}, ROWS), ("ROW EXCLUSIVE", {"mode": "upsert", "key": "id"}, ROWS + 1)],
    ids=["set-up", "upsert"],
)
def test_a_lock_that_is_waited_for_without_turns_is_named(
    target: PostgresTarget, file: Path, lock: str, options: dict[str, object], rows: int
) -> None:
    with holding(target, lock) as holder:
        command = begin(target, file, **options)
        assert named(command, holder), command.stderr_so_far()
        holder.rollback()
        run = command.wait(60)
    assert run.exit_code == 0, str(run)
    assert target.count("t") == rows


@pytest.mark.parametrize("table", ["t", "tipple.job"])
def test_a_lock_that_is_in_the_way_before_the_load_is_named(target: PostgresTarget, file: Path, table: str) -> None:
    load(target, write(file.parent / "first.csv", "id,s\n-2,first\n"), mode="append")
    with holding(target, "ACCESS EXCLUSIVE", table) as holder:
        command = begin(target, file, mode="append")
        assert named(command, holder), command.stderr_so_far()
        holder.rollback()
        run = command.wait(60)
    assert run.exit_code == 0, str(run)
    assert target.count("t") == ROWS + 2


@pytest.mark.parametrize("lock", ["ACCESS EXCLUSIVE", "ACCESS SHARE"], ids=["before", "publish"])
def test_a_job_file_says_which_table_waits(target: PostgresTarget, file: Path, lock: str) -> None:
    table = f"[tables.t]\ninto = '{target.url}'\nsources = '{file}'\nmode = 'replace'\n"
    job = write(file.parent / "job.toml", table)
    with holding(target, lock) as holder:
        command = start_tipple("run", job, "--progress", "plain")
        pid = holder.info.backend_pid
        said = f"tipple: warning: t: waiting for a lock that session {pid} holds"
        assert wait_for(lambda: said in command.stderr_so_far(), 30), command.stderr_so_far()
        holder.rollback()
        run = command.wait(60)
    assert run.exit_code == 0, str(run)
    assert target.count("t") == ROWS


@pytest.mark.parametrize("progress", ["none", lambda snapshot: None], ids=["none", "function"])
def test_a_library_logs_what_is_displayed_nowhere(
    target: PostgresTarget, file: Path, progress: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with holding(target, "ACCESS EXCLUSIVE") as holder, ThreadPoolExecutor() as other:
        load = other.submit(tipple.load, file, into=target.url, table="t", progress=progress)
        said = f"waiting for a lock that session {holder.info.backend_pid} holds"
        assert wait_for(lambda: any(said in record.getMessage() for record in caplog.records), 30)
        holder.rollback()
        assert load.result().rows == ROWS
    assert {record.name for record in caplog.records} == {"tipple"}


def test_a_job_file_in_a_library_logs_which_table_waits(
    target: PostgresTarget, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = write(file.parent / "job.toml", f"[tables.t]\ninto = '{target.url}'\nsources = '{file}'\nmode = 'replace'\n")
    with holding(target, "ACCESS EXCLUSIVE") as holder, ThreadPoolExecutor() as other:
        run = other.submit(tipple.run, job, progress=lambda snapshot: None)
        said = f"t: waiting for a lock that session {holder.info.backend_pid} holds"
        assert wait_for(lambda: any(said in record.getMessage() for record in caplog.records), 30)
        holder.rollback()
        assert run.result().exit_status == 0


@pytest.mark.parametrize("verb", ["jobs", "doctor"])
def test_verbs_without_a_display_say_whom_they_wait_for(target: PostgresTarget, file: Path, verb: str) -> None:
    load(target, file, mode="replace")
    undisturbed = run_tipple(verb, target.url, check=False)
    with holding(target, "ACCESS EXCLUSIVE", "tipple.job") as holder:
        command = start_tipple(verb, target.url)
        assert named(command, holder), command.stderr_so_far()
        holder.rollback()
        run = command.wait(60)
    assert run.exit_code == undisturbed.exit_code, str(run)
    assert len(run.stdout.splitlines()) == len(undisturbed.stdout.splitlines())


def test_a_lock_timeout_of_the_role_is_named(target: PostgresTarget, file: Path) -> None:
    """Whoever set it wants no load to wait for longer."""
    url = target.server.url(LOADER, target.database, options="-c lock_timeout=300ms")
    with holding(target, "ACCESS EXCLUSIVE"):
        run = load(url, file, table="t", mode="replace", check=1)
    assert "lock_timeout allows, a setting of the role, the database or the URL" in run.stderr
    load(url, file, table="t", mode="replace")
    assert target.count("t") == ROWS


def test_a_lock_timeout_while_a_record_is_stored_is_named(target: PostgresTarget, file: Path) -> None:
    """A trigger waits for the lock: the server tells of the record that it was called for."""
    target.execute(
        "CREATE TABLE u (id int, s text); CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN LOCK TABLE t IN ROW EXCLUSIVE MODE; RETURN NEW; END';"
        "CREATE TRIGGER waits BEFORE INSERT ON u FOR EACH ROW EXECUTE FUNCTION waits()"
    )
    url = target.server.url(LOADER, target.database, options="-c lock_timeout=300ms")
    with holding(target, "ACCESS EXCLUSIVE"):
        run = load(url, file, table="u", check=1)
    assert "near record 1 of" in run.stderr
    assert "the record is not to blame: a lock was waited for as long as lock_timeout allows" in run.stderr
    load(url, file, table="u")
    assert target.count("u") == ROWS


@pytest.mark.parametrize("seconds", [0.0, 3.0], ids=["at-once", "later"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_rights_that_are_given_while_the_table_is_published(
    target: PostgresTarget, file: Path, seconds: float, *, partitioned: bool
) -> None:
    """Before version 18 GRANT waits for no lock of the table: what it has done is not lost."""
    if partitioned:
        target.execute(
            "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, s text) PARTITION BY RANGE (id); "
            "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (-10) TO (100000); INSERT INTO t VALUES (-1, 'old')"
        )
    name = "t1" if partitioned else "t"
    with psycopg.connect(target.url) as other:
        other.execute(f"GRANT SELECT ON {name} TO PUBLIC")
        command = begin(target, file)
        publishing = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        assert wait_for(lambda: target.value(publishing), 30)
        time.sleep(seconds)
        other.commit()
        run = command.wait(60)
    assert run.exit_code == 0, str(run)
    assert target.count("t") == ROWS
    assert "=r/" in target.value(f"SELECT relacl::text FROM pg_class WHERE oid = '{name}'::regclass")


def test_rights_cannot_change_between_being_read_and_the_end_of_their_table(target: PostgresTarget) -> None:
    target.execute("CREATE TABLE hidden (LIKE t)")
    names = TableName("public", "hidden"), TableName("public", "t")
    with psycopg.connect(target.url) as publishing, psycopg.connect(target.url, autocommit=True) as other:
        publishing.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        assert belongings.rest(publishing, [names], keeps_indexes=True) == {names[1]: []}
        other.execute("SET lock_timeout = '300ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("GRANT SELECT ON t TO PUBLIC")
        publishing.execute("DROP TABLE t")


def through(proxy: Proxy, target: PostgresTarget) -> str:
    return target.server.url(LOADER, target.database, "127.0.0.1", port=proxy.port)


@pytest.mark.client_only
@pytest.mark.parametrize("mode", ["ACCESS SHARE", "ACCESS EXCLUSIVE"], ids=["publishing", "set-up"])
def test_a_server_that_falls_silent_while_it_is_waited_for(
    target: PostgresTarget, file: Path, proxy_to: Callable[[PostgresServer], Proxy], mode: str
) -> None:
    """The control session alone waits then: it must not wait for ever."""
    proxy = proxy_to(target.server)
    with holding(target, mode) as holder:
        command = begin(target, file, through(proxy, target), stall_timeout=4, retry_for=2)
        assert named(command, holder), command.stderr_so_far()
        proxy.blackhole_after(-1)
        proxy.black.set()
        run = command.wait(90)
    assert run.exit_code == 1, str(run)
    assert "the server has answered nobody for" in run.stderr
    assert "Traceback" not in run.stderr
    assert target.rows("SELECT * FROM t") == [(-1, "old")]
    proxy.blackhole_after(None)
    # The server learns only now that its client has gone, and holds the lock of the load until then.
    assert wait_for(lambda: not target.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 30)
    done = load(target, file, table="t", mode="replace", jobs=2)
    assert done.exit_code == 0, str(done)
    assert target.count("t") == ROWS


@pytest.mark.client_only
@pytest.mark.parametrize("noticed", [False, True])
def test_a_connection_that_was_forgotten_is_made_anew(
    target: PostgresTarget, file: Path, proxy_to: Callable[[PostgresServer], Proxy], noticed: bool
) -> None:
    """The server is well, and no answer will ever come: known by asking it, not by waiting for as long as may be. Where
    the server has not noticed, the old session still has the load's own lock."""
    proxy = proxy_to(target.server)
    with holding(target, "ACCESS EXCLUSIVE") as holder:
        command = begin(target, file, through(proxy, target))
        assert named(command, holder), command.stderr_so_far()
        proxy.forget(noticed=noticed)
        if not noticed:
            # What it asked for is done, and the answer is lost.
            holder.rollback()
        assert wait_for(lambda: "its connection is given up" in command.stderr_so_far(), 90), command.stderr_so_far()
        holder.rollback()
        run = command.wait(60)
    assert run.exit_code == 0, str(run)
    assert target.count("t") == ROWS
