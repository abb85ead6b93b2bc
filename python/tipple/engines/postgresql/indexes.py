"""Indexes and constraints of tables that were filled without them, several at once.

Building an index needs one core and its own memory, so as many are built side by side as the job has streams, and
`maintenance_work_mem` is divided among them. A primary key is built as a unique index first and then attached; foreign
keys are added NOT VALID and then validated, so that no lock is held for the whole time (but those over a PERIOD: see
`key_work`). Every step can be repeated: an interrupted job finds what it had built.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from tipple.engines import core
from tipple.engines.base import Runner
from tipple.engines.postgresql.ownership import Sessions
from tipple.engines.postgresql.place.key_work import KeyWork
from tipple.errors import ConnectionFailed
from tipple.plan.url import TableName

LEAST_MEMORY_BYTES = 64 * 1024 * 1024
"""PostgreSQL's own default of maintenance_work_mem."""
POLL_SECONDS = 0.2
LOCK_MILLISECONDS = 300
PAUSE_SECONDS = 0.2
PATIENCE_SECONDS = 60
"""After that locks are waited for, however long it takes."""

_PROGRESS_QUERY = """
SELECT coalesce(sum(blocks_done), 0) * current_setting('block_size')::bigint FROM pg_stat_progress_create_index
WHERE pid = ANY (%s)
"""


class NoSession(core.ConnectionLost):
    """The server gives, or keeps, no session for what follows the load, be it that it has none to give or that it is
    starting: rows are staged, and a run that begins again goes on with them."""


class Build:
    """A job of sessions of its own, in the form in which a runner runs those of the core."""

    def __init__(
        self,
        control: psycopg.Connection[Any],
        sessions: Sessions,
        works: Sequence[KeyWork],
        workers: int,
        memory_bytes: int,
    ) -> None:
        self._control = control
        self._sessions = sessions
        self._memory_bytes = memory_bytes
        self._failure: BaseException | None = None
        self._cancelled = False
        self._lock = threading.Lock()
        self._connections: list[psycopg.Connection[Any]] = []
        self._pids: list[int] = []
        self._done = 0
        self._done_bytes = 0
        self._total_bytes = sum(len(work.indexes) * work.size_bytes for work in works)
        ordered = sorted(works, key=lambda work: -work.size_bytes)
        self._left = {id(work): len(work.indexes) for work in ordered}
        self._total = sum(len(work.indexes) + len(work.after) for work in ordered)
        self._tasks: queue.SimpleQueue[tuple[KeyWork, str] | None] = queue.SimpleQueue()
        self._after: queue.SimpleQueue[KeyWork] = queue.SimpleQueue()
        for work in ordered:
            for statement in work.indexes:
                self._tasks.put((work, statement))
            if not work.indexes:
                self._after.put(work)
        self._refused = 0
        self._workers = workers
        self._at_work = workers
        # Not `join` and `is_alive`: after Ctrl-C in the middle of a `join`, Python takes the thread for ended.
        self._ended = threading.Event()
        for _ in range(workers):
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._work()
        finally:
            with self._lock:
                self._at_work -= 1
                is_last = self._at_work == 0
            if is_last:
                self._ended.set()

    def _work(self) -> None:
        try:
            connection = self._sessions.another()
        except ConnectionFailed as error:
            # Where the server has no more sessions to give, those that there are do the work.
            with self._lock:
                self._refused += 1
                alone = self._refused == self._workers
            if alone:
                lost = NoSession(
                    f"no session can be had to build indexes: {error}",
                    hint="when the server has sessions to give, run the same command: what is stored stays stored",
                )
                self._fail(lost)
            return
        except BaseException as error:
            self._fail(error)
            return
        with self._lock:
            self._connections.append(connection)
            self._pids.append(connection.info.backend_pid)
        try:
            connection.execute(f"SET maintenance_work_mem = {max(1024, self._memory_bytes // 1024)}".encode())
            while not self._stopped:
                if not self._one(connection):
                    return
        except BaseException as error:
            self._fail(error)
        finally:
            connection.close()

    @property
    def _stopped(self) -> bool:
        return self._cancelled or self._failure is not None

    def _one(self, connection: psycopg.Connection[Any]) -> bool:
        """Does one thing; False where nothing is left to take."""
        try:
            work = self._after.get_nowait()
        except queue.Empty:
            pass
        else:
            for statement in work.after:
                self._in_turns(connection, work, statement)
                self._count()
            return True
        try:
            task = self._tasks.get_nowait()
        except queue.Empty:
            return False
        if task is None:
            return False
        work, statement = task
        self._execute(connection, work, statement)
        self._count()
        with self._lock:
            self._done_bytes += work.size_bytes
            self._left[id(work)] -= 1
            last = self._left[id(work)] == 0
        if last:
            # Attaching a constraint waits for every other index of its table anyway.
            self._after.put(work)
        return True

    def _in_turns(self, connection: psycopg.Connection[Any], work: KeyWork, statement: str) -> None:
        """A foreign key waits for who writes into the table that it refers to, and whoever comes later waits behind it:
        so it does for a moment only, again and again."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._stopped and time.monotonic() < until:
            try:
                with connection.transaction():
                    connection.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}".encode())
                    self._execute(connection, work, statement)
                return
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                time.sleep(PAUSE_SECONDS)
        if not self._stopped:
            self._execute(connection, work, statement)

    def _execute(self, connection: psycopg.Connection[Any], work: KeyWork, statement: str) -> None:
        if work.tablespace is not None:
            connection.execute("SELECT set_config('default_tablespace', %s, false)", (work.tablespace,))
        self._sessions.require_own(connection)
        connection.execute(statement.encode())

    def _count(self) -> None:
        with self._lock:
            self._done += 1

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._failure = self._failure or error
        self._stop_sessions()

    def _stop_sessions(self) -> None:
        with self._lock:
            sessions = list(self._connections)
        for connection in sessions:
            try:
                connection.cancel()
            except psycopg.Error:
                # It is closed: nothing is left to be cancelled.
                continue

    def wait(self, timeout_seconds: float) -> bool:
        """Waits for the end, at most so long; says whether it has come."""
        return self._ended.wait(timeout_seconds)

    def cancel(self) -> None:
        """Asks the sessions to stop."""
        self._cancelled = True
        self._stop_sessions()

    def result(self) -> str | None:
        """Raises the first failure."""
        if self._failure is not None:
            raise self._failure
        return json.dumps({"statements": self._done})

    def progress(self) -> str:
        """Bytes of tables that indexes were built over, and statements in the form of a load's slices."""
        try:
            found = self._control.execute(_PROGRESS_QUERY, (self._pids,)).fetchone()
        except psycopg.Error:
            # The build itself will tell what is wrong with the server, and whether the lock that went with this session
            # has made the job another run's.
            found = None
        done_bytes = self._done_bytes + (int(found[0]) if found is not None else 0)
        return json.dumps(
            {
                "bytes_done": min(done_bytes, self._total_bytes),
                "bytes_total": self._total_bytes,
                "slices_done": self._done,
                "slices_total": self._total,
            }
        )


def build(
    runner: Runner,
    control: psycopg.Connection[Any],
    sessions: Sessions,
    works: Sequence[KeyWork],
    workers: int,
) -> None:
    """Does the work, several statements at once; returns when all is done.

    Args:
        runner: shows the progress.
        control: the control connection, which reads the server's settings and how far the builds are.
        sessions: makes those that do it.
        works: what to do.
        workers: the most sessions.

    Raises:
        psycopg.Error: the first failure; the other sessions were stopped.
        TakenOver: another run owns the job by now.
    """
    wanted = [work for work in works if not work.is_done]
    count = min(workers, sum(max(1, len(work.indexes)) for work in wanted))
    if count:
        runner.run(Build(control, sessions, wanted, count, memory_bytes(control) // count))


def build_here(connection: psycopg.Connection[Any], work: KeyWork) -> None:
    """Does the work in the transaction of this session, whose rows no other one sees yet."""
    connection.execute(f"SET LOCAL maintenance_work_mem = {memory_bytes(connection) // 1024}".encode())
    if work.tablespace is not None:
        connection.execute("SELECT set_config('default_tablespace', %s, true)", (work.tablespace,))
    for statement in (*work.indexes, *work.after):
        connection.execute(statement.encode())


def memory_bytes(connection: psycopg.Connection[Any]) -> int:
    """What all sessions may take together: what the server grants one, or half of its page cache where that is more."""
    row = connection.execute(
        "SELECT pg_size_bytes(current_setting('maintenance_work_mem')), "
        "pg_size_bytes(current_setting('shared_buffers')) / 2"
    ).fetchone()
    return max(LEAST_MEMORY_BYTES, *row) if row is not None else LEAST_MEMORY_BYTES


def analyze(
    runner: Runner,
    control: psycopg.Connection[Any],
    sessions: Sessions,
    tables: Sequence[TableName],
    workers: int,
    before: Callable[[TableName], list[str]],
) -> None:
    """Gathers the planner's statistics of tables, several at once; arguments and errors as for `build`.

    `before` gives statements that precede a table's ANALYZE on its session.
    """
    works = [
        KeyWork(table=table, size_bytes=0, indexes=[], after=[*before(table), f"ANALYZE {table.sql}"], renames=[])
        for table in tables
    ]
    build(runner, control, sessions, works, workers)
