"""What must hold after each fault, and the moments at which faults are injected."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from big import TABLE, BigFile
from command import Command, Run, run_tipple, start_tipple
from counts import COUNTS
from loading import load, load_words
from servers.postgres import PostgresServer
from targets import DuckdbTarget, PostgresTarget, Target

LONG = bool(os.environ.get("TIPPLE_LONG"))
FIRST_SEED = int(os.environ.get("TIPPLE_SEED", "0"))

OLD_ROWS = 3
"""Rows that are in the table before the job, and stay there when it fails, where there are any.

An empty table may be filled in another way than one with rows in it, so rounds alternate between the two.
"""

RERUNS = 3
"""Within so many further runs of the same command a job must be done."""


def record_count(text: str) -> None:
    """Print a count, and show it at the end of the run."""
    print(text)
    COUNTS.append(text)


class Disturbed:
    """One job of one big file into one table, which something happens to."""

    def __init__(
        self,
        target: Target,
        big: BigFile,
        *,
        table: str = "t",
        url: str | None = None,
        old_rows: int = OLD_ROWS,
        **options: object,
    ) -> None:
        """Create the table with its old rows.

        Args:
            target: where the rows are looked at.
            big: the file.
            table: a fresh name; rounds in one database use one each.
            url: what the command is given, where it is not the target's own URL (a proxy).
            old_rows: how many rows are in the table before.
            options: further options of the load.
        """
        self.old_rows = old_rows
        self.target = target
        self.big = big
        self.table = table
        self.url = url or target.url
        self.options: dict[str, object] = {"jobs": 2, **options}
        target.execute(TABLE.replace("TABLE t", f"TABLE {table}"))
        for number in range(1, old_rows + 1):
            target.execute(f"INSERT INTO {table} VALUES ({-number}, {number}, NULL, 'old')")

    def start(self) -> Command:
        """Start the job."""
        return start_tipple(*load_words(self.url, (self.big.path,), self.table, self.options))

    def run(self, **options: object) -> Run:
        """Run the job undisturbed, by the target's own URL."""
        return load(self.target, self.big.path, table=self.table, check=False, **{**self.options, **options})  # type: ignore[arg-type]

    def visible(self) -> int:
        """Rows of the job that a reader sees: none or all."""
        count = self.target.count(self.table) - self.old_rows
        assert count in (0, self.big.rows), f"{count} of {self.big.rows} rows are visible"
        return count

    def finish(self, *, already: bool | None = None) -> list[Run]:
        """Run the same command until it is done, and check that everything is as if nothing had happened."""
        runs: list[Run] = []
        self.visible()
        while not runs or runs[-1].exit_code != 0:
            assert len(runs) < RERUNS, f"not done after {RERUNS} further runs\n" + "\n".join(map(str, runs))
            runs.append(self.run())
            self.visible()
        self.check_rows()
        held = self.target.rows(f"SELECT count(*), sum(id) FROM {self.table}")
        again = self.run()
        assert again.exit_code == 0, str(again)
        assert again.summary is not None
        assert again.summary["status"] == "already loaded"
        assert self.target.rows(f"SELECT count(*), sum(id) FROM {self.table}") == held
        self.check_tidy()
        return runs

    def check_rows(self) -> None:
        """The rows are those of an undisturbed load, and the old ones are there."""
        assert self.target.count(self.table) == self.big.rows + self.old_rows
        self.target.execute(f"CREATE VIEW {self.table}_job AS SELECT * FROM {self.table} WHERE id >= 0")
        try:
            assert self.big.held_by(self.target, f"{self.table}_job") == self.big.expected
        finally:
            self.target.execute(f"DROP VIEW {self.table}_job")

    def check_tidy(self) -> None:
        """Nothing is left but the table and the ledger, if need be after `tipple jobs clean`."""
        if self.target.leftovers(self.table):
            run_tipple("jobs", self.target.url, "clean")
        assert self.target.leftovers(self.table) == set()
        if isinstance(self.target, PostgresTarget):
            assert_no_sessions(self.target)

    def drop(self) -> None:
        """Remove the table; the ledger stays for the next round."""
        self.target.execute(f"DROP TABLE {self.table}")


def assert_no_sessions(target: PostgresTarget, within: float = 10.0) -> None:
    """No session of Tipple's is left in the database, and with it no lock."""
    deadline = time.monotonic() + within
    query = (
        "SELECT pid, application_name, state, query FROM pg_stat_activity "
        f"WHERE datname = '{target.database}' AND application_name LIKE 'tipple%'"
    )
    while sessions := target.server.rows(query):
        assert time.monotonic() < deadline, sessions
        time.sleep(0.1)
    assert target.server.rows("SELECT * FROM pg_locks WHERE locktype = 'advisory'") == []


def undisturbed_seconds(make: Callable[[], Target], big: BigFile) -> float:
    """How long the load takes when nothing happens."""
    target = make()
    try:
        job = Disturbed(target, big)
        run = job.run()
        assert run.exit_code == 0, str(run)
        job.check_rows()
        return run.seconds
    finally:
        target.close()


def moments(seed: int, count: int, seconds: float) -> list[float]:
    """`count` random moments from the start of a run of `seconds` to a little after its end."""
    r = random.Random(FIRST_SEED * 1000 + seed)
    found = [r.uniform(0.0, seconds * 1.1) for _ in range(count)]
    print(f"TIPPLE_SEED={FIRST_SEED}, moments: {', '.join(f'{moment:.3f}' for moment in found)}")
    return found


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> bool:
    """Poll until the condition holds; False where it never did."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


def answers(server: PostgresServer) -> bool:
    """Whether it takes connections."""
    try:
        return server.rows("SELECT 1") == [(1,)]
    except psycopg.OperationalError:
        return False


def sessions_of(target: PostgresTarget) -> list[int]:
    """Process ids of Tipple's sessions in the target's database."""
    query = f"SELECT pid FROM pg_stat_activity WHERE datname = '{target.database}' AND application_name LIKE 'tipple%'"
    try:
        return [pid for (pid,) in target.server.rows(query)]
    except psycopg.OperationalError:
        return []


def copying(target: PostgresTarget) -> list[int]:
    """Process ids of those that are in the middle of a COPY."""
    try:
        return [pid for (pid,) in target.server.rows("SELECT pid FROM pg_stat_progress_copy WHERE bytes_processed > 0")]
    except psycopg.OperationalError:
        return []


@contextmanager
def frozen(command: Command, after: float) -> Iterator[bool]:
    """Stop the command's process after so many seconds, let it go on at the end; says whether it ran."""
    time.sleep(after)
    running = command.running
    if running:
        command.signal(signal.SIGSTOP)
    try:
        yield running
    finally:
        if running:
            command.signal(signal.SIGCONT)


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[Path]:
    """A tmpfs of that size at `path`. Raises PermissionError where this process may not mount one."""
    path.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0777", "tmpfs", str(path)],
        capture_output=True,
    )
    if done.returncode != 0:
        raise PermissionError(done.stderr.decode().strip())
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def resize_disk(path: Path, megabytes: int) -> None:
    """Change the size of a tmpfs."""
    subprocess.run(["mount", "-o", f"remount,size={megabytes}m", str(path)], check=True)


def duckdb_target(directory: Path, name: str) -> DuckdbTarget:
    """A fresh DuckDB file."""
    return DuckdbTarget(directory / f"{name}.duckdb")
