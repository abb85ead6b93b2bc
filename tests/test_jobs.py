"""`tipple jobs`: which job is meant, and that no other one is touched."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tipple
from command import environment, start_tipple
from faults.oracle import wait_for
from loading import load_words
from servers.postgres import LOADER
from targets import PostgresTarget, Target, write
from tipple.cli.commands import cli
from tipple.engines.postgresql.ledger import table_lock
from tipple.engines.postgresql.sessions import backends
from tipple.engines.postgresql.sessions.processes import is_surely_dead, this_process
from tipple.errors import UsageError
from tipple.plan.url import TableName


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database with two unfinished jobs: with --no-atomic they stay to be resumed."""
    url = f"duckdb:///{tmp_path}/x.duckdb"
    schema = write(tmp_path / "s.sql", "CREATE TABLE a (id integer); CREATE TABLE b (id integer);")
    for name in ("a", "b"):
        with pytest.raises(tipple.BadRecord):
            tipple.load(write(tmp_path / f"{name}.csv", "x\n"), into=url, table=name, schema=schema, atomic=False)
    return url


def jobs(*words: str) -> None:
    cli.main(args=["jobs", *words], prog_name="tipple", standalone_mode=False)


def states(url: str) -> dict[str, str]:
    return {record.job_id: record.state for record in tipple.list_jobs(url)}


def test_clean_one(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = states(url)
    jobs(url, "clean", first[:8].upper())
    assert capsys.readouterr().out.startswith(f"gave up job {first} into ")
    assert states(url) == {first: "cancelled", second: "loading"}
    with pytest.raises(UsageError, match="is cancelled"):
        tipple.clean_jobs(url, first)
    jobs(url, "clean")
    assert states(url) == {first: "cancelled", second: "cancelled"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list", "zzz"), "list shows all jobs"),
        (("list", ""), "list shows all jobs"),
        (("show", ""), "id is empty"),
        (("show", "zzz"), "there is no job zzz"),
        (("cancel", ""), "id is empty"),
        (("cancel", " "), "id is empty"),
        (("clean", ""), "id is empty"),
        (("clean", "zzz"), "there is no single job zzz"),
        (("clean", "a", "b"), "'b' is a word too many"),
        (("purge",), "'purge' is none of list, show"),
        (("show",), "needs a job"),
    ],
)
def test_no_other_job_is_touched(url: str, words: tuple[str, ...], said: str) -> None:
    before = states(url)
    with pytest.raises(UsageError, match=said):
        jobs(url, *words)
    assert states(url) == before


def test_the_url_behind_the_action(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, _ = states(url)
    jobs("list", url)
    assert capsys.readouterr().out.count("unfinished") == 2
    jobs("cancel", first[:8], url)
    assert states(url)[first] == "cancelled"


def test_the_target_of_the_environment(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Actions and sources can stand alone."""
    monkeypatch.setenv("TIPPLE_TARGET", url)
    jobs("list")
    assert capsys.readouterr().out.count("unfinished") == 2
    jobs("clean")
    assert set(states(url).values()) == {"cancelled"}
    cli.main(args=["doctor", str(tmp_path / "a.csv")], prog_name="tipple", standalone_mode=False)
    with pytest.raises(UsageError, match="no such file"):
        cli.main(args=["doctor", url, "none.csv"], prog_name="tipple", standalone_mode=False)
    monkeypatch.delenv("TIPPLE_TARGET")
    with pytest.raises(UsageError, match="not a URL"):
        cli.main(args=["doctor", "a.csv"], prog_name="tipple", standalone_mode=False)


@pytest.mark.parametrize("options", [{}, {"atomic": False}, {"mode": "upsert", "key": ["a"]}], ids=str)
def test_a_load_that_is_cancelled_says_so(
    postgres_target: PostgresTarget, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Its sessions are ended and its staging is gone: the loss of either is not what has happened to it."""
    path = write(tmp_path / "in.csv", "".join(f"{number},x\n" for number in range(1000)))
    for number, phase in enumerate(("load", "verify", "publish")):
        table = f"t{number}"
        postgres_target.execute(f"CREATE TABLE {table} (a integer PRIMARY KEY, b text)")

        def cancel(snapshot: Mapping[str, Any], phase: str = phase) -> None:
            for record in tipple.list_jobs(postgres_target.url) if snapshot["phase"] == phase else ():
                if record.state == "loading":
                    tipple.cancel_job(postgres_target.url, record.job_id, force=True)

        with pytest.raises(tipple.TippleError, match=r"job .* was cancelled by tipple jobs"):
            tipple.load(path, into=postgres_target.url, table=table, progress=cancel, **options)
        record = tipple.list_jobs(postgres_target.url)[0]
        # What was staged is gone, and no rows of the job's any more.
        assert (record.state, record.rows) == ("cancelled", postgres_target.count(table))
        assert options.get("atomic") is False or postgres_target.count(table) == 0


@pytest.fixture
def assumed(postgres_target: PostgresTarget) -> Iterator[str]:
    """The URL of a session that takes a role on, which has no rights of the one that logs in."""
    server, role = postgres_target.server, f"assumed_{postgres_target.database}"
    server.execute(f"CREATE ROLE {role}; GRANT {role} TO {LOADER}")
    postgres_target.execute(f"GRANT CREATE ON DATABASE {postgres_target.database} TO {role}")
    server.execute(f"GRANT CREATE ON SCHEMA public TO {role}", postgres_target.database)
    yield server.url(LOADER, postgres_target.database, options=f"-c role={role}")
    server.execute(f"DROP OWNED BY {role}", postgres_target.database)
    server.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize("takes_a_role_on", [False, True])
def test_a_run_that_stands_still_is_cancelled(
    postgres_target: PostgresTarget, assumed: str, tmp_path: Path, takes_a_role_on: bool
) -> None:
    """It lets go of its table, though its process takes no notice; and it says what has happened once it goes on."""
    url = assumed if takes_a_role_on else postgres_target.url
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "0000001\n" * 3_000_000)
    options = {"into": url, "table": "t", "header": "no", "jobs": 1, "commit_every": 10_000}
    command = start_tipple("load", path, *(f"--{k.replace('_', '-')}={v}" for k, v in options.items()))
    assert wait_for(lambda: any(job.slices_done for job in tipple.list_jobs(url)), 30)
    command.signal(signal.SIGSTOP)
    try:
        job = tipple.list_jobs(url)[0]
        tipple.cancel_job(url, job.job_id)
        small = write(tmp_path / "small.csv", "7\n")
        tipple.load(small, into=url, table="t", header="no", progress="none")
        assert postgres_target.sorted_rows("t") == [(7,)]
    finally:
        command.signal(signal.SIGCONT)
    run = command.wait()
    assert run.exit_code == 1
    assert "was cancelled by tipple jobs" in run.stderr
    assert postgres_target.sorted_rows("t") == [(7,)]


def test_a_session_is_told_apart_whatever_role_it_takes_on(assumed: str) -> None:
    """By its beginning, which the server shows to the role that has logged in."""
    with psycopg.connect(assumed, autocommit=True) as connection:
        assert backends.own(connection) is not None
        assert connection.execute("SELECT current_user <> session_user").fetchone() == (True,)


def note_of_a_dead_process() -> str:
    """What the ledger would have of a process that has ended."""
    program = "from tipple.engines.postgresql.sessions.processes import this_process; print(this_process())"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def begin_as(note: str, session: psycopg.Connection[Any], target: PostgresTarget, tmp_path: Path) -> dict[str, Any]:
    """An unfinished job into the table `t` of a process with this note, whose lock the session holds; gives the options
    of a load."""
    target.execute("CREATE TABLE t (a integer)")
    options: dict[str, Any] = {"into": target.url, "table": "t", "header": "no", "progress": "none"}
    tipple.load(write(tmp_path / "1.csv", "1\n"), **options)
    session.execute("SELECT pg_advisory_lock(%s)", (table_lock(TableName("public", "t")),))
    session.execute(
        "INSERT INTO tipple.job (job_id, target, mode, request, plan, state, epoch, owner_pid, owner) SELECT "
        "gen_random_uuid(), target, mode, request, plan, 'loading', 1, pg_backend_pid(), %s FROM tipple.job",
        (note,),
    )
    return options


def test_the_session_of_another_role_is_not_ended(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Its owner is gone, as the ledger has it; who may not end it hears that the table is in use."""
    with closing(postgres_target.server.connect(postgres_target.database)) as other:
        options = begin_as(note_of_a_dead_process(), other, postgres_target, tmp_path)
        with pytest.raises(tipple.JobBusy, match="another Tipple job is loading into"):
            tipple.load(write(tmp_path / "2.csv", "2\n"), **options)
    assert postgres_target.sorted_rows("t") == [(1,)]


def test_the_session_of_a_dead_owner_is_ended(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A server behind a network that was down may not have noticed that its client is gone."""
    with closing(psycopg.connect(postgres_target.url, autocommit=True)) as other:
        options = begin_as(note_of_a_dead_process(), other, postgres_target, tmp_path)
        tipple.load(write(tmp_path / "2.csv", "2\n"), **options)
    assert postgres_target.sorted_rows("t") == [(1,), (2,)]


def test_who_is_surely_dead() -> None:
    """Of two notes that differ in one thing, one tells of somebody else, of whom nothing is known."""
    assert not is_surely_dead(this_process())
    # Somebody else has its number by now.
    assert is_surely_dead(this_process().rpartition(":")[0] + ":1")
    dead = note_of_a_dead_process()
    assert is_surely_dead(dead)
    host, number, where, started_at = dead.rsplit(":", 3)
    boot, *namespaces = where.split("/")
    assert not is_surely_dead(f"{host}:{number}")
    assert not is_surely_dead(f"{host}2:{number}:{where}:{started_at}")
    for place in (["0", *namespaces], [boot, "1", *namespaces[1:]], [boot, *namespaces[:-1], "1"]):
        assert not is_surely_dead(f"{host}:{number}:{'/'.join(place)}:{started_at}")


_CAPABILITY = "--inh-caps=+dac_read_search --ambient-caps=+dac_read_search"
"""To read the program, wherever it lies."""
APART = {
    "in another namespace": ["unshare", "--mount", "--pid", "--fork", "--mount-proc"],
    "as another user": [
        *("unshare", "--mount", "sh", "-c"),
        "mount -t proc -o hidepid=2 proc /proc && "
        f'exec setpriv --reuid=65534 --regid=65534 --clear-groups {_CAPABILITY} "$@"',
        "sh",
    ],
}
"""What comes before the words of a command that is not to see the processes of this one's user."""


@pytest.mark.client_only
@pytest.mark.parametrize("apart", APART)
def test_a_run_that_is_out_of_sight_is_alive(postgres_target: PostgresTarget, tmp_path: Path, apart: str) -> None:
    """Its sessions are not ended."""
    if subprocess.run([*APART[apart], "true"], capture_output=True, check=False).returncode:
        pytest.skip("this process may not make namespaces")
    tmp_path.chmod(0o755)
    postgres_target.execute("CREATE TABLE t (a integer); INSERT INTO t VALUES (0)")
    one, other = (write(tmp_path / f"{number}.csv", f"{number}\n") for number in (1, 2))
    with psycopg.connect(postgres_target.url) as reader:
        reader.execute("LOCK TABLE t IN SHARE MODE")
        first = start_tipple(*load_words(postgres_target.url, (one,), "t", {"header": "no"}))
        assert wait_for(lambda: postgres_target.rows("SELECT FROM pg_locks WHERE NOT granted") or not first.running)
        words = load_words(postgres_target.url, (other,), "t", {"header": "no"})
        second = subprocess.run(
            [*APART[apart], sys.executable, "-m", "tipple", *words],
            env=environment({"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    run = first.wait()
    assert (second.returncode, "another Tipple job is loading into" in second.stderr) == (1, True), second
    assert run.exit_code == 0, run
    assert run.summary is not None
    assert not [note for note in run.summary["notes"] if "lost" in note]
    assert postgres_target.sorted_rows("t") == [(0,), (1,)]


@pytest.mark.parametrize("named", [True, False])
def test_clean_keeps_what_has_stored_rows(
    engine_target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str], named: bool
) -> None:
    """Without the job in the ledger its command would store the same rows once more."""
    engine_target.execute("CREATE TABLE t (a integer)")
    good = write(tmp_path / "1.csv", "0000001\n" * 2_500_000)
    bad = write(tmp_path / "2.csv", "x\n")
    options: dict[str, Any] = {
        "into": engine_target.url,
        "table": "t",
        "atomic": False,
        "jobs": 1,
        "header": "no",
        "commit_every": 100_000,
    }
    with pytest.raises(tipple.BadRecord):
        tipple.load([good, bad], **options)
    stored = engine_target.count("t")
    assert stored > 0
    (record,) = tipple.list_jobs(engine_target.url)
    assert record.visible_rows == stored
    jobs(engine_target.url, "show", record.job_id)
    assert f"{stored:,} rows are in the table already" in capsys.readouterr().out
    if named:
        for action in ("clean", "cancel"):
            with pytest.raises(UsageError, match=f"has stored {stored:,} rows in .*t already"):
                jobs(engine_target.url, action, record.job_id)
    else:
        jobs(engine_target.url, "clean")
        assert f"kept job {record.job_id} into {record.table}: {stored:,} rows" in capsys.readouterr().out
    assert states(engine_target.url) == {record.job_id: "loading"}
    jobs(engine_target.url, *(("cancel", "--force", record.job_id[:8]) if named else ("clean", "--force")))
    said = capsys.readouterr().out
    assert f"{'cancelled' if named else 'gave up'} job {record.job_id}" in said
    assert f"{stored:,} rows stay in {record.table}, and its command would store them once more" in said
    assert states(engine_target.url) == {record.job_id: "cancelled"}
    with pytest.raises(UsageError, match="--force has no meaning for list"):
        jobs(engine_target.url, "--force")


def test_a_dry_run_sees_the_unfinished_job_in_its_way(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What the load would be refused for, as it is: other options, or a file that has changed."""
    postgres_target.execute("CREATE TABLE t (a integer CHECK (a > 0), b text)")
    path = write(tmp_path / "in.csv", "1,x\n-2,y\n")
    options: dict[str, Any] = {"into": postgres_target.url, "table": "t", "header": "no", "write_path": "binary"}

    def stop(snapshot: Mapping[str, Any]) -> None:
        if snapshot["phase"] == "verify":
            raise KeyboardInterrupt

    write(path, "1,x\n2,y\n")
    with pytest.raises((tipple.Interrupted, KeyboardInterrupt)):
        tipple.load(path, progress=stop, **options)
    assert [record.state for record in tipple.list_jobs(postgres_target.url)] == ["loading"]
    for dry_run in (True, False):
        with pytest.raises(UsageError, match=r"unfinished, was begun with other --on-error"):
            tipple.load(path, dry_run=dry_run, on_error="skip", rejects=str(tmp_path / "r"), **options)
    assert tipple.load(path, dry_run=True, **options).status == "planned"
    write(path, "1,x\n2,y\n3,z\n")
    for dry_run in (True, False):
        with pytest.raises(tipple.SourceChanged):
            tipple.load(path, dry_run=dry_run, **options)
    assert tipple.load(path, dry_run=True, restart=True, **options).status == "planned"
    assert tipple.load(path, restart=True, **options).rows == 3


def test_a_lost_connection_without_a_ledger(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Nobody may promise that nothing is stored twice."""
    postgres_target.execute("CREATE TABLE t (a integer, b text)")
    path = write(tmp_path / "in.csv", "1,x\n" * 2_000_000)

    def end(snapshot: Mapping[str, Any]) -> None:
        if snapshot["phase"] == "load":
            postgres_target.server.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%' "
                f"AND datname = '{postgres_target.database}'"
            )

    with pytest.raises(tipple.ConnectionFailed) as caught:
        tipple.load(
            path,
            into=postgres_target.url,
            table="t",
            header="no",
            ledger=False,
            write_path="binary",
            retry_for=1,
            progress=end,
        )
    assert "nothing is stored twice" not in f"{caught.value} {caught.value.hint}"
    assert "nobody can tell" in str(caught.value.hint)
