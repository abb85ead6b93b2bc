"""A run that seemed to be dead while another one took its job over changes nothing more, and says what has happened."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tipple
from command import Command, Run, run_tipple, start_tipple
from faults.oracle import sessions_of, wait_for
from loading import load_here, load_words
from targets import PostgresTarget, write
from tipple.engines.postgresql import ledger
from tipple.engines.postgresql.session import PostgresSession

TAKEN_OVER = "another run has taken this job over"
LOCK = 7001
"""Of whatever is to wait in a test."""

# The first run's sessions beside its control session have their own names, and those of the second one a prefix.
HELD = f"""
CREATE FUNCTION held() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('application_name') ~ '^tipple [0-9a-f]+$' THEN
        -- What a sequence has given is not undone.
        PERFORM nextval('public.changes');
        RAISE EXCEPTION 'this is the second run''s';
    ELSIF current_setting('application_name') ~ '^second tipple ' THEN
        PERFORM pg_advisory_xact_lock_shared({LOCK});
    END IF;
END $$;
CREATE EVENT TRIGGER held ON ddl_command_start WHEN TAG IN ('CREATE INDEX', 'ALTER TABLE') EXECUTE FUNCTION held();
"""
WAITING = f"SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = {LOCK} AND NOT granted"


@contextmanager
def lock_held(target: PostgresTarget) -> Iterator[None]:
    with psycopg.connect(target.url) as connection:
        connection.execute(f"SELECT pg_advisory_lock({LOCK})".encode())
        yield


def end_sessions(target: PostgresTarget) -> None:
    """As behind a network that is down."""
    target.server.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        f"WHERE datname = '{target.database}' AND application_name LIKE 'tipple%'"
    )


def stop_before_another_session(
    monkeypatch: pytest.MonkeyPatch, target: PostgresTarget, meanwhile: Callable[[], Any]
) -> None:
    """Has this process lose its sessions, and `meanwhile` take place, before it makes the first one that works beside
    the control session: as if it were stopped there."""
    another, calls = PostgresSession.another, []

    def late(session: PostgresSession, name: str) -> psycopg.Connection[Any]:
        if not calls:
            calls.append(name)
            end_sessions(target)
            meanwhile()
        return another(session, name)

    monkeypatch.setattr(PostgresSession, "another", late)


@pytest.mark.parametrize("options", [{}, {"structure": "sorted", "key": "a"}], ids=["index", "convert"])
def test_a_session_that_is_made_while_another_run_is_at_work(
    postgres_target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    target = postgres_target
    target.execute("CREATE TABLE t (a integer PRIMARY KEY, b text); CREATE INDEX ON t (b); CREATE SEQUENCE changes")
    target.server.execute(HELD, target.database)
    path = write(tmp_path / "in.csv", "".join(f"{number},x\n" for number in range(1000)))
    given = {"mode": "replace", "jobs": 1, "header": "no", **options}
    second: list[Command] = []

    def meanwhile() -> None:
        second.append(start_tipple(*load_words(target.url, (path,), "t", given), env={"PGAPPNAME": "second"}))
        assert wait_for(lambda: target.server.rows(WAITING) or not second[0].running)
        assert second[0].running, second[0].wait()

    with lock_held(target):
        stop_before_another_session(monkeypatch, target, meanwhile)
        first = load_here(target, path, **given, check=False)
    assert second[0].wait().exit_code == 0, second[0].wait()
    assert (first.exit_code, TAKEN_OVER in first.stderr) == (1, True), first
    assert target.rows("SELECT is_called FROM changes") == [(False,)]
    assert target.count("t") == 1000
    assert target.leftovers("t") == set()


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("index", ["", "CREATE INDEX ON t (b)"], ids=["analyze", "index"])
def test_a_session_that_is_made_when_another_run_is_done(
    postgres_target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restart: bool, index: str
) -> None:
    target = postgres_target
    target.execute(f"CREATE TABLE t (a integer, b text); {index}")
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    given: dict[str, Any] = {"mode": "replace", "header": "no"}
    second: list[Run] = []

    def meanwhile() -> None:
        second.append(run_tipple(*load_words(target.url, (path,), "t", {**given, "restart": restart})))

    stop_before_another_session(monkeypatch, target, meanwhile)
    first = load_here(target, path, **given, check=1)
    assert TAKEN_OVER in first.stderr, first
    assert [run.exit_code for run in second] == [0]
    states = target.rows("SELECT state FROM tipple.job ORDER BY started_at")
    assert states == ([("superseded",), ("published",)] if restart else [("published",)])
    assert target.sorted_rows("t") == [(1, "x"), (2, "y")]
    assert target.leftovers("t") == set()


def test_a_job_that_is_deleted_from_the_ledger(
    postgres_target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has taken it over, and there is no run to wait for."""
    target = postgres_target
    target.execute("CREATE TABLE t (a integer, b text); CREATE INDEX ON t (b)")
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    given: dict[str, Any] = {"mode": "replace", "header": "no"}
    deletes = "DELETE FROM tipple.slice; DELETE FROM tipple.job"
    with monkeypatch.context() as patch:
        stop_before_another_session(patch, target, lambda: target.execute(deletes))
        first = load_here(target, path, **given, check=1)
    assert TAKEN_OVER not in first.stderr, first
    assert "somebody has deleted what the ledger had of job" in first.stderr, first
    assert target.count("t") == 0
    load_here(target, path, **given)
    assert target.sorted_rows("t") == [(1, "x"), (2, "y")]
    assert run_tipple("jobs", target.url, "clean").exit_code == 0
    assert target.leftovers("t") == set()


def test_slices_that_are_deleted_from_the_ledger(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The job is there as it was; what it has done cannot be noted any more."""
    target = postgres_target
    target.execute("CREATE TABLE t (a integer, b text)")
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    given: dict[str, Any] = {"into": target.url, "table": "t", "mode": "replace", "header": "no"}
    deleted: list[str] = []

    def delete(snapshot: Mapping[str, Any]) -> None:
        if snapshot["phase"] == "load" and not deleted:
            deleted.append("slices")
            target.execute("DELETE FROM tipple.slice")

    with pytest.raises(tipple.TippleError, match="somebody has deleted what the ledger had of job") as raised:
        tipple.load(path, **given, progress=delete)
    assert "--restart" in str(raised.value.hint)
    with pytest.raises(tipple.UsageError, match="not complete"):
        tipple.load(path, **given, progress="none")
    assert tipple.load(path, **given, progress="none", restart=True).rows == 2
    assert target.leftovers("t") == set()


def test_a_session_that_is_made_while_the_job_is_taken_over(
    postgres_target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have found the old epoch, and be about to change what is staged."""
    target = postgres_target
    target.execute("CREATE TABLE t (a integer); CREATE INDEX ON t (a)")
    given: dict[str, Any] = {"into": target.url, "table": "t", "mode": "replace", "header": "no"}
    path = write(tmp_path / "in.csv", "1\n2\n")

    def interrupt(snapshot: Mapping[str, Any]) -> None:
        if snapshot["phase"] == "index":
            raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, tipple.Interrupted)):
        tipple.load(path, **given, progress=interrupt)
    late: list[psycopg.Connection[Any]] = []
    raise_epoch = ledger.take_over

    def meanwhile(connection: psycopg.Connection[Any], job_id: str, owner: str) -> int:
        late.append(psycopg.connect(target.url, application_name=ledger.session_name(job_id)))
        return raise_epoch(connection, job_id, owner)

    monkeypatch.setattr(ledger, "take_over", meanwhile)
    assert tipple.load(path, **given, progress="none").slices_resumed == 1
    assert target.sorted_rows("t") == [(1,), (2,)]
    (session,) = late
    with pytest.raises(psycopg.OperationalError), session:
        session.execute("SELECT 1")


def test_sessions_are_ended_whatever_the_user_calls_them(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Those of a run that is stopped keep locks on what is staged."""
    target = postgres_target
    target.execute(
        "CREATE FUNCTION wait(integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN "
        f"IF current_setting('application_name') LIKE 'mine%' THEN PERFORM pg_advisory_xact_lock({LOCK}); END IF; "
        "RETURN $1; END $$; CREATE TABLE t (a integer); CREATE INDEX ON t (wait(a))"
    )
    path = write(tmp_path / "in.csv", "1\n2\n")
    words = load_words(target.url, (path,), "t", {"mode": "replace", "header": "no"})
    with lock_held(target):
        first = start_tipple(*words, env={"PGAPPNAME": "mine"})
        assert wait_for(lambda: target.server.rows(WAITING) or not first.running)
        assert first.running, first.wait()
        first.signal(signal.SIGSTOP)
        try:
            # The control session, whose lock says that the run lives.
            target.server.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity JOIN pg_locks USING (pid) "
                f"WHERE datname = '{target.database}' AND application_name LIKE 'mine%' "
                "AND locktype = 'advisory' AND granted"
            )
            run_tipple(*words, timeout=60)
        finally:
            first.signal(signal.SIGCONT)
    run = first.wait()
    assert (run.exit_code, TAKEN_OVER in " ".join(run.stderr.split())) == (1, True), run
    assert target.sorted_rows("t") == [(1,), (2,)]
    assert wait_for(lambda: not sessions_of(target))
