"""The verb `run`: the tables of a job file, loaded side by side where cores allow, each or all in one commit.

Each table's load runs on a thread of its own; the rows go through the core's threads, so Python's threads only wait.
The main thread gives out streams, shows the progress of all, and takes Ctrl-C.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from tipple.engines import find_engine, moments
from tipple.engines.base import NOTHING_TO_DO, Session
from tipple.engines.capabilities import Capabilities
from tipple.engines.core import LoginRefused, shortage
from tipple.errors import ConnectionFailed, Interrupted, JobFailed, TippleError, UsageError
from tipple.plan.url import Target, parse_table_name
from tipple.report.job import JobReport, TableOutcome, TableStatus
from tipple.report.model import REST_PHASE, LoadReport, mb_per_second
from tipple.report.progress import Progress, ProgressForm, log_warning, open_progress
from tipple.run.arguments import checked
from tipple.run.interrupt import interruptible
from tipple.run.jobfile import JobFile, TableEntry, read_job_file, refuse_shared_tables
from tipple.run.load import PUBLISHING_PHASES, RETRY_SECONDS, load, stderr
from tipple.run.logins import Logins
from tipple.run.outputs import Files, NamedFile, claim_outputs
from tipple.run.part import Part
from tipple.run.phase_clock import PhaseClock
from tipple.run.rejects import missing_rejects
from tipple.run.rendezvous import Rendezvous
from tipple.run.runner import POLL_SECONDS, JobRunner
from tipple.run.target import choose_target

__all__ = ["job_inputs", "run"]

END_SECONDS = 15
"""How long Ctrl-C waits for the loads to end; a second one does not wait."""
CANCEL_SECONDS = 0.5
"""After Ctrl-C: how often statements that go on are cancelled again."""
FAILED_STATUS = 1
NOTHING_TO_REPLAY: TableStatus = "nothing to replay"
LOAD = "load"
"""The phase in which a load's rows come in."""
PUBLISHED_WITH_REJECTS = 3
USAGE_STATUS = 2


@checked
@interruptible
def run(
    file: str | os.PathLike[str],
    *,
    settings: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    restart: bool = False,
    dry_run: bool = False,
    progress: ProgressForm | Callable[[Mapping[str, Any]], None] = "none",
    _summary: str | None = None,
) -> JobReport:
    """Runs a job file: loads its tables in the order of their dependencies, side by side where cores allow.

    Running the same job again loads what is missing, and nothing twice.

    Args:
        file: the job file (TOML).
        settings: values for its variables, as `--set` gives them.
        jobs: streams of all tables together. Default: what the file says, else the cores that this process may use.
        restart: load again what was loaded before, or was begun and left.
        dry_run: plan only.
        progress: a form of display on stderr, or a function that gets the snapshots.

    Returns:
        What was done, with the report of each table.

    Raises:
        UsageError: the file is not well, or a table cannot be loaded as it says; nothing was started.
        ConnectionFailed: no connection to a target; nothing was started.
        JobFailed: not all tables were loaded; its `report` says what became of each.
        Interrupted: Ctrl-C; run it again to go on.
    """
    job = read_job_file(file, settings or {}, os.environ)
    streams = jobs or job.jobs or len(os.sched_getaffinity(0))
    display = open_progress(progress, stderr(), now=moments.now) if isinstance(progress, str) else progress
    return _Run(job, streams, restart=restart, display=display, summary=_summary).carry_out(dry_run=dry_run)


def job_inputs(file: str, settings: Mapping[str, Any]) -> list[str]:
    """The job files and the sources of its tables, as they are named there; of one that is not well, the file alone."""
    try:
        job = read_job_file(file, settings, os.environ)
    except UsageError:
        return [file]
    named = (table.options["sources"] for table in job.tables)
    return [*job.files, *(name for names in named for name in ([names] if isinstance(names, str) else names))]


class _TableRun(Part):
    """A table while the job runs, and what its load borrows."""

    alone = False

    def __init__(self, entry: TableEntry, target: Target, job: _Run) -> None:
        super().__init__()
        self.files = Files(inputs=(), outputs=())
        self.entry = entry
        self.target = target
        self.job = job
        self.state: Literal["waiting", "running", "staged", "ended"] = "waiting"
        replays = entry.options.get("replay") and "replay" in entry.from_defaults
        self.lacks = missing_rejects(entry.options["table"], entry.options.get("rejects")) if replays else None
        """The file of rejects that all tables are to replay, and this one has not."""
        self.status: TableStatus = "not started" if self.lacks is None else NOTHING_TO_REPLAY
        self.streams = 0
        """Those that it has of the job's."""
        self.useful_streams = 1
        """Of its load, once that is planned: how many have something to do."""
        self.wanted_streams = 1
        self.request_key = b""
        """Of its load, once that is planned."""
        self.plan: LoadReport | None = None
        self.report: LoadReport | None = None
        self.error: BaseException | None = None
        self.snapshot: dict[str, Any] = {}
        self.warned: set[str] = set()
        self.held: Session | None = None
        self.thread: threading.Thread | None = None
        self.has_met = False
        """Whether it has come to be published together with the others."""

    @property
    def capabilities(self) -> Capabilities:
        """What its engine can do."""
        return find_engine(self.target.engine).capabilities

    # What the load borrows

    def claim(self, files: Files) -> None:
        self.files = files

    @contextmanager
    def session(self, target: Target, *, read_only: bool) -> Iterator[Session]:
        with self.job.session(self, target, read_only=read_only) as session:
            self.held = session
            try:
                yield session
            finally:
                self.held = None

    def connect(self, target: Target, *, read_only: bool) -> Session:
        """A server that restarts between two tables is waited for as it is in the midst of one: it was there before."""
        waits = self.capabilities.parallel_sessions and not read_only
        until = time.monotonic() + (self.entry.options.get("retry_for", RETRY_SECONDS) if waits else 0)
        pause = 0.2
        while True:
            try:
                with self.job.logins.turn(target):
                    return super().connect(target, read_only=read_only)
            except LoginRefused:
                raise
            except ConnectionFailed:
                if time.monotonic() + pause > until or self.job.stop.wait(pause):
                    raise
            pause = min(2 * pause, 5.0)

    def runner(self, display: Progress) -> JobRunner:
        return JobRunner(display, self.job.stop)

    @contextmanager
    def finishing(self) -> Iterator[None]:
        with self.job.one_at_a_time:
            yield

    # Its life

    def make_plan(self, *, counts_slices: bool) -> LoadReport:
        """What the load will do.

        Raises:
            TippleError: it cannot be done.
        """
        self.counts_slices = counts_slices
        try:
            options = {**self.entry.options, "restart": self.job.restart, "progress": lambda _: None}
            return load(**options, dry_run=True, _part=self)
        except Interrupted:
            raise
        except UsageError as error:
            raise type(error)(f"{self.entry.place_of(str(error))}: {error}", hint=error.hint) from None
        except TippleError as error:
            raise UsageError(f"{self.entry.place_of(str(error))}: {error}", hint=error.hint) from None

    def place_of_rows(self) -> tuple[str, str]:
        """Target and table, as the plan has found them; of a database in files it is these that count."""
        files = find_engine(self.target.engine).files(self.target)
        where = os.path.realpath(files[0]) if files else self.target.url
        return where, self.plan.table if self.plan is not None else self.entry.name

    def start(self, streams: int) -> None:
        """Begins to load."""
        self.state, self.streams = "running", streams
        self.thread = threading.Thread(target=self._load, name=f"tipple {self.entry.name}", daemon=True)
        self.thread.start()

    def _load(self) -> None:
        options = {**self.entry.options, "jobs": min(self.streams, self.entry.options.get("jobs") or self.streams)}
        try:
            self.report = load(**options, restart=self.job.restart, progress=self._note, _part=self)
            self.status = self.report.status
        except (KeyboardInterrupt, Interrupted) as error:
            self.error = error
            self.status = "interrupted" if self.job.stop.is_set() else "not published"
        except BaseException as error:
            # After Ctrl-C, whatever a load ends by is most likely the statement that was cancelled.
            self.error = shortage(error) or error
            self.status = "interrupted" if self.job.stop.is_set() else "failed"
        finally:
            self.job.ended(self)

    def warn(self, text: str) -> None:
        if text not in self.warned:  # of the plan already
            self.warned.add(text)
            tell = log_warning if callable(self.job.display) else self.job.display.warn
            tell(f"{self.entry.name}: {text}")

    def followers(self, request_key: bytes) -> Sequence[bytes]:
        self.request_key = request_key
        return [table.request_key for table in self.job.followers(self)]

    def find_useful(self, streams: int) -> None:
        self.useful_streams = streams

    # With others

    def meet(self, load: Any, publish: Callable[[Sequence[Any]], Sequence[Any]]) -> bool:
        """Waits for the other tables, to be published with them: `Together`."""
        rendezvous = self.job.together
        if rendezvous is None:
            raise TippleError("internal error: a load that is alone waits for others")
        self.has_met = True
        place = rendezvous.place_of(self.entry.name)
        self.job.staged(self)
        return rendezvous.meet(load, publish, place)

    def _note(self, snapshot: Mapping[str, Any]) -> None:
        # What a phase does not tell stays as the one before it left it; only one counts bytes of files into the table.
        other = {} if snapshot["phase"] == LOAD else {key: self.snapshot.get(key, 0) for key in ("bytes_done", "rows")}
        self.snapshot = {**self.snapshot, "streams": [], **snapshot, **other}
        self.job.clock.enter(self.entry.name, snapshot["phase"])
        if self.streams and snapshot["phase"] in PUBLISHING_PHASES:
            # From here on it waits for the server, on a session of its own: others may have its cores.
            self.job.release(self)

    @property
    def is_missing(self) -> bool:
        """Whether it was not loaded, and was to be."""
        return self.report is None and self.status != NOTHING_TO_REPLAY

    def outcome(self) -> TableOutcome:
        """What became of it."""
        failed = self.status == "failed"
        error = self.error if failed else None
        exit_status = 0
        if error is not None:
            exit_status = error.exit_status if isinstance(error, TippleError) else FAILED_STATUS
        elif self.report is not None and self.report.rejects:
            exit_status = PUBLISHED_WITH_REJECTS
        elif self.status == "interrupted":
            exit_status = Interrupted.default_exit_status
        elif self.is_missing:
            exit_status = FAILED_STATUS
        return TableOutcome(
            name=self.entry.name,
            status=self.status,
            error=None if error is None else str(error) or type(error).__name__,
            hint=error.hint if isinstance(error, TippleError) else None,
            note=f"there is no {self.lacks}" if self.status == NOTHING_TO_REPLAY else None,
            exit_status=exit_status,
            report=self.report,
        )


class _Run:
    """One run of a job."""

    def __init__(
        self,
        job: JobFile,
        streams: int,
        *,
        restart: bool,
        display: Progress | Callable[[Mapping[str, Any]], None],
        summary: str | None,
    ) -> None:
        self.job = job
        self.summary = summary
        self.streams = streams
        self.restart = restart
        self.display = display
        self.stop = threading.Event()
        """Set by Ctrl-C: the loads end as soon as they can."""
        self.one_at_a_time = threading.Lock()
        self.changed = threading.Condition()
        self.started = time.monotonic()
        self.clock = PhaseClock("plan")
        self.shared: dict[str, Session] = {}
        self.tables = {
            entry.name: _TableRun(entry, choose_target(entry.options.get("into")), self) for entry in job.tables
        }
        self.logins = Logins()
        self.sharing: dict[tuple[str, str], list[_TableRun]] = {}
        """The tables by the place of their rows, once all are planned."""
        self.together: Rendezvous | None = None
        if job.publish == "together":
            # The plan is to say what the load will do.
            for table in self.tables.values():
                table.together = table

    def carry_out(self, *, dry_run: bool) -> JobReport:
        """Plans all tables, so that what can be known is known before anything is started; then loads them."""
        try:
            planned = [table for table in self.tables.values() if table.lacks is None]
            for table in planned:
                self._show("plan")
                table.plan = table.make_plan(counts_slices=dry_run)
                most = min(self.streams, table.entry.options.get("jobs") or self.streams)
                table.wanted_streams = min(most, table.useful_streams)
            for table in planned:
                self.sharing.setdefault(table.place_of_rows(), []).append(table)
            self._claim_files()
            # As the targets have them: a table can be named with its schema and without.
            refuse_shared_tables(
                self.job.tables, self.job.publish, lambda entry: self.tables[entry.name].place_of_rows()
            )
            for table in filter(self.followers, planned):
                # By itself it seemed to be undone by those, whose keys were not known yet.
                table.plan = table.make_plan(counts_slices=dry_run)
            if self.job.publish == "together":
                self._require_together()
            if dry_run:
                for table in planned:
                    table.report, table.status = table.plan, "planned"
            else:
                # Those of the plans are for reading only.
                self._close_shared()
                self._load_all()
        finally:
            self._close()
        report = self._report()
        if report.exit_status == Interrupted.default_exit_status:
            interrupted = Interrupted("interrupted; what was published stays, and nothing else is visible")
            interrupted.report = report
            raise interrupted
        if any(table.is_missing for table in self.tables.values()):
            raise JobFailed(report, [table.error for table in self.tables.values() if table.status == "failed"])
        return report

    def followers(self, table: _TableRun) -> list[_TableRun]:
        """Those that go into the same table, and come after this one; none as long as not all of them are planned."""
        sharing = self.sharing.get(table.place_of_rows(), [])
        return sharing[sharing.index(table) + 1 :] if table in sharing else []

    def _claim_files(self) -> None:
        """Refuses what would overwrite a file that any table, or the job itself, needs."""
        tables = self.tables.values()
        claim_outputs(
            Files(
                inputs=[
                    *(NamedFile("the job file", path) for path in self.job.files),
                    *(file for table in tables for file in table.files.inputs),
                ],
                outputs=[
                    file.of(table.entry.name, table.entry.place_of(file.what))
                    for table in tables
                    for file in table.files.outputs
                ],
            ),
            self.summary,
        )

    # Scheduling

    def _load_all(self) -> None:
        if self.job.publish == "together":
            self.together = Rendezvous(sum(table.lacks is None for table in self.tables.values()), self.stop)
        beside = frozenset(parse_table_name(entry.options["table"]).name for entry in self.job.tables)
        for table in self.tables.values():
            table.counts_slices, table.beside = True, beside
        self.clock.idle(REST_PHASE)
        interrupted_at: float | None = None
        failure: Exception | None = None
        while not all(table.state == "ended" for table in self.tables.values()):
            try:
                if interrupted_at is None:
                    self._start_some()
                elif time.monotonic() - interrupted_at > END_SECONDS:
                    break
                else:
                    self._interrupt()
                if failure is None:
                    self._show("run")
                with self.changed:
                    self.changed.wait(POLL_SECONDS if interrupted_at is None else CANCEL_SECONDS)
            except KeyboardInterrupt:
                if interrupted_at is not None:
                    raise
                interrupted_at = time.monotonic()
                self.stop.set()
            except Exception as error:
                # Most likely of the function that gets the snapshots; the loads must not go on unseen.
                failure = failure or error
                interrupted_at = interrupted_at or time.monotonic()
                self.stop.set()
        if failure is not None:
            raise failure
        self._show("run")

    def _interrupt(self) -> None:
        """Ends the statements that the loads wait for; their other waits look at `stop` by themselves."""
        for table in self.tables.values():
            if table.state == "waiting":
                table.state = "ended"
            session = table.held
            if session is not None:
                session.interrupt()

    def _start_some(self) -> None:
        """Starts what may start now: the largest first, so that none of them is left alone at the end."""
        for table in self.tables.values():
            others = [self.tables[name] for name in table.entry.after]
            if table.state == "waiting" and any(self._is_lost(other) for other in others):
                table.state, table.status = "ended", "not started"
                if self.together is not None:
                    self.together.abort()
        if self.together is not None and self.together.aborted:
            for table in self.tables.values():
                if table.state == "waiting":
                    table.state = "ended"
        ready = [table for table in self.tables.values() if table.state == "waiting" and self._may_start(table)]
        running = [table for table in self.tables.values() if table.state == "running"]
        for table in sorted(ready, key=lambda table: -(table.plan.bytes if table.plan else 0)):
            if table.lacks is not None:
                table.state = "ended"
                continue
            # Only these have streams.
            running = [other for other in running if other.state == "running"]
            free = self.streams - sum(other.streams for other in running)
            if not table.capabilities.parallel_sessions and any(other.target == table.target for other in running):
                # One load at a time goes into such a target.
                continue
            wanted = table.wanted_streams if table.capabilities.parallel_sessions else self.streams
            if wanted > free:
                # Nothing smaller overtakes it: it would wait for ever.
                return
            table.start(wanted)
            running.append(table)

    def _may_start(self, table: _TableRun) -> bool:
        done = ("staged", "ended") if self.together is not None else ("ended",)
        return all(self.tables[name].state in done for name in table.entry.after)

    def _is_lost(self, table: _TableRun) -> bool:
        return table.state == "ended" and table.is_missing

    def release(self, table: _TableRun) -> None:
        """Gives back the streams of a table."""
        with self.changed:
            table.streams = 0
            self.changed.notify_all()

    def staged(self, table: _TableRun) -> None:
        """Takes note that a table has nothing left but to be published with the others."""
        with self.changed:
            table.streams, table.state = 0, "staged"
            self.changed.notify_all()

    def ended(self, table: _TableRun) -> None:
        """Takes note of a load's end."""
        self.clock.leave(table.entry.name)
        if self.together is not None:
            if table.status == "already loaded":
                self.together.leave()
            elif table.status != "loaded" or not table.has_met:
                self.together.abort()
        with self.changed:
            table.streams, table.state = 0, "ended"
            self.changed.notify_all()

    # One transaction for all

    def _require_together(self) -> None:
        """Refuses what cannot be published in one transaction, before anything is started."""
        first: _TableRun | None = None
        for table in self.tables.values():
            where = f"{table.entry.place}: {table.entry.name}"
            first = first or table
            if table.target != first.target:
                raise UsageError(
                    f'{where}: publish = "together" needs one target, but this table goes into {table.target.display} '
                    f"and {first.entry.name} into {first.target.display}",
                    hint='write publish = "each", or a job for each target',
                )
            plan = table.plan
            if plan is None or plan.strategy in (*table.capabilities.together, NOTHING_TO_DO):
                continue
            raise UsageError(
                f'{where}: it cannot be published together with others (strategy "{plan.strategy}": '
                f"{plan.strategy_reason})",
                hint='write publish = "each", or remove what stands in the way',
            )

    @contextmanager
    def session(self, table: _TableRun, target: Target, *, read_only: bool) -> Iterator[Session]:
        """A session of the table's own; one for all tables where one transaction must hold what they stage, and for the
        plans of all where a process has one database, which takes long to open."""
        if table.capabilities.parallel_sessions or not (read_only or self.together is not None):
            with Part.session(table, target, read_only=read_only) as session:
                yield session
            return
        if target.url not in self.shared:
            self.shared[target.url] = find_engine(target.engine).connect(target, read_only=read_only)
        yield self.shared[target.url]

    def _close_shared(self) -> None:
        while self.shared:
            self.shared.popitem()[1].close()

    def _close(self) -> None:
        self._close_shared()
        if not callable(self.display):
            self.display.close()

    # Showing

    def _show(self, phase: str) -> None:
        tables = list(self.tables.values())
        shown = [table for table in tables if table.state in ("running", "staged")]
        totals = {table.entry.name: table.plan.bytes if table.plan else 0 for table in tables}
        snapshot = {
            "phase": phase,
            "elapsed_seconds": time.monotonic() - self.started,
            "bytes_total": sum(totals.values()),
            "bytes_done": sum(
                totals[table.entry.name] if table.state == "ended" else _bytes_done(table) for table in tables
            ),
            "rows": sum(table.snapshot.get("rows", 0) for table in tables),
            "retries": sum(table.snapshot.get("retries", 0) for table in tables),
            "tables_done": sum(table.state == "ended" for table in tables),
            "tables_total": len(tables),
            "tables": [
                {
                    "table": table.entry.name,
                    "phase": table.snapshot.get("phase", "prepare"),
                    "bytes_total": totals[table.entry.name],
                    "bytes_done": _bytes_done(table),
                    "rows": table.snapshot.get("rows", 0),
                    "streams": table.snapshot.get("streams", []),
                }
                for table in shown
            ],
        }
        if callable(self.display):
            self.display(snapshot)
        else:
            self.display.update(snapshot)

    def _report(self) -> JobReport:
        outcomes = [table.outcome() for table in self.tables.values()]
        loaded = [table.report for table in self.tables.values() if table.report and table.status == "loaded"]
        seconds = time.monotonic() - self.started
        size_bytes = sum(report.bytes for report in loaded)
        return JobReport(
            file=self.job.path,
            publish=self.job.publish,
            streams=self.streams,
            exit_status=Interrupted.default_exit_status
            if self.stop.is_set() and any(table.is_missing for table in self.tables.values())
            else _worst([outcome.exit_status for outcome in outcomes]),
            rows=sum(report.rows for report in loaded),
            bytes=size_bytes,
            seconds=round(seconds, 6),
            mb_per_second=round(mb_per_second(size_bytes, seconds), 3),
            phases=self.clock.phases,
            tables=outcomes,
        )


def _bytes_done(table: _TableRun) -> int:
    done: int = table.snapshot.get("bytes_done", 0)
    return max(done, table.plan.bytes if table.plan and table.state == "staged" else 0)


def _worst(statuses: Sequence[int]) -> int:
    """The status of a job with tables of these: once some were published, it is no longer wrong usage."""
    if FAILED_STATUS in statuses or (USAGE_STATUS in statuses and set(statuses) != {USAGE_STATUS}):
        return FAILED_STATUS
    return max(statuses, default=0)
