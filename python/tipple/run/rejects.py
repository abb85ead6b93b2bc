"""The files of rejects: raw records, to be mended and loaded again; beside them reasons, and how to read them."""

from __future__ import annotations

import fcntl
import filecmp
import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from tipple._core import RejectFiles
from tipple.engines import spool
from tipple.engines.base import JobRecord, LoadTask
from tipple.errors import TippleError, UsageError
from tipple.plan.rejects import RejectPolicy, parse_limit
from tipple.plan.sources import Dialect
from tipple.plan.url import TableName, parse_table_name
from tipple.report.model import RejectCause
from tipple.run.outputs import NamedFile, check_place, unfinished
from tipple.run.replay import Reading, read_reading
from tipple.run.request import Request


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """How the rejects of a load are told."""

    by_row: bool
    """Whether the sources are columnar: a record has a row there, and no place of its own."""
    null_reasons: dict[str, str]
    """By column: what to say of a NULL there, in place of a refusal that blames a constraint which is not there."""
    remedy: str
    """What to do where the files cannot be written."""

    @classmethod
    def of(cls, request: Request, remedy: str = "") -> Telling:
        """How those of a load are told."""
        return cls(by_row=request.columnar_plan is not None, null_reasons=request.null_reasons, remedy=remedy)

    def json(self, dialect: Dialect, *, renumbered: bool = False) -> str:
        """The core's `Telling`; `renumbered` where the files take the place of the one that was read."""
        quotes = None if dialect.quote is None or dialect.escape is None else (dialect.quote, dialect.escape)
        told = {
            "by_row": self.by_row,
            "quotes": quotes,
            "null_reasons": self.null_reasons,
            "renumbered": renumbered,
            "has_end_marker": dialect.format == "text",
        }
        return msgspec.json.encode(told).decode()


class Written(msgspec.Struct, kw_only=True):
    """What there is to say of the files of rejects that were written."""

    notes: list[str]
    causes: list[RejectCause]


def where_kept(job_id: str, *, ledger: bool, reads_once: bool) -> str:
    """What to do where the files of a load's rejects cannot be written, though its rows are published."""
    if not ledger:
        return "nothing else has them: mend the cause, take the load's rows out of the table, and load it once more"
    if reads_once:
        return f"the ledger has them: SELECT reason, record FROM tipple.reject WHERE job_id = '{job_id}'"
    return "mend the cause and run the same command again: it loads nothing twice and writes the rejects"


def write_rejects(
    policy: RejectPolicy,
    fill: Callable[[RejectFiles], None],
    sources: Sequence[str],
    reading: Reading,
    telling: Telling,
    *,
    replay: bool,
) -> Written:
    """Writes the files, each complete before it has its name, and gives what is to be said of them.

    Files of these names that hold other records are put aside: somebody may have mended them, or another load may have
    written them.

    Args:
        policy: where to write.
        fill: adds the rejects in the order of the sources.
        sources: the source files, by the numbers that the rejects give.
        reading: how the records are to be read again.
        telling: how they are told.
        replay: whether the records of the file that is there were the source.

    Raises:
        TippleError: a file cannot be written.
    """
    raw, reasons, how = paths = [unfinished(path) for path in policy.paths]
    # Who is killed in between leaves no records beside what tells of others how they are read: a replay's are some of
    # those that it has read, and others get their name when that stands there.
    first = [policy.path, policy.reading_path] if replay else [policy.reading_path, policy.path]
    names = [os.fsencode(name) for name in sources]
    try:
        with _alone(policy):
            try:
                files = RejectFiles(raw, reasons, names, telling.json(reading.dialect, renumbered=replay))
                fill(files)
                remarks, unremarked, open_ended, causes = files.finish()
                with open(how, "wb") as kept:
                    kept.write(msgspec.structs.replace(reading, open_ended=open_ended).json)
                aside = None if replay else _put_aside(policy, raw)
                for name in (*first, policy.reasons_path):
                    os.replace(unfinished(name), name)
            except BaseException:
                for path in paths:
                    with suppress(OSError):
                        os.remove(path)
                raise
    except OSError as error:
        raise TippleError(
            f"the rows were published, but the rejects could not be written to {policy.path}: {error.strerror}",
            hint=telling.remedy,
        ) from None
    notes = [_remark(sources[source], number, lines) for source, number, lines in remarks]
    if unremarked:
        notes.append(f"and {unremarked:,} more rejects of many lines like these")
    if aside is not None:
        notes.append(
            f"{policy.path} held other records, of another load or mended since: they are in {aside} now; rejects are "
            f"loaded with --rejects {aside} --replay"
        )
    return Written(notes=notes, causes=_causes(causes, sources))


@contextmanager
def _alone(policy: RejectPolicy) -> Iterator[None]:
    """Waits until no other process writes files of these names, and keeps those that come from doing so.

    The lock is that of the last file to get its name: who has waited for it holds a file that is complete by then, or
    was removed, and begins anew with another one.
    """
    path = unfinished(policy.reasons_path)
    descriptor = _locked(path)
    while not _is_named(descriptor, path):
        os.close(descriptor)
        descriptor = _locked(path)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(path: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        # Where locks are unknown, nobody gets one.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_named(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def causes_so_far(task: LoadTask, telling: Telling, dialect: Dialect) -> list[RejectCause]:
    """Why a load that has ended by its limit has rejected records, as far as it has told the spool of them."""
    names = [source.path for source in task.sources]
    spooled = [str(path) for names in (spool.ALL, f"*{spool.TOLD}") for path in spool.files(task, names)]
    if task.spool is None or not spooled:
        return []
    try:
        raw, reasons = (os.path.join(task.spool, name) for name in ("raw", "reasons"))
        files = RejectFiles(raw, reasons, [os.fsencode(name) for name in names], telling.json(dialect))
        files.add_spooled(spooled, {})
        *_, causes = files.finish()
    except OSError:
        # The load has failed already, and says why.
        return []
    # What comes before a slice is known only when all is read.
    return [msgspec.structs.replace(cause, first_record_number=None) for cause in _causes(causes, names)]


def _causes(told: Iterable[tuple[str, str, int, int, int, str]], sources: Sequence[str]) -> list[RejectCause]:
    return [
        RejectCause(
            column=column or None,
            sqlstate=sqlstate or None,
            rejects=rejects,
            first_file=sources[source],
            first_record_number=record_number,
            first_reason=reason,
        )
        for column, sqlstate, rejects, source, record_number, reason in told
    ]


def _put_aside(policy: RejectPolicy, written: str) -> str | None:
    """Gives the files that are there other names, if they hold other records than those that were written; returns the
    name of the first.

    What says how the records are read has both names until they have the other one: without it a replay would store
    some of them changed. Who is killed before that is followed by one who takes the same names.
    """
    path = policy.path
    if not os.path.exists(path) or os.path.getsize(path) == 0 or filecmp.cmp(path, written, shallow=False):
        return None
    names = (msgspec.structs.replace(policy, path=f"{path}.before-{number}") for number in itertools.count(1))
    free = next(name for name in names if _is_free(name, policy))
    beside = list(zip(policy.paths[1:], free.paths[1:], strict=True))
    for old, new in beside:
        if os.path.exists(old) and not os.path.exists(new):
            _give_second_name(old, new)
    os.rename(path, free.path)
    for old, _ in beside:
        with suppress(FileNotFoundError):
            os.remove(old)
    return free.path


def _is_free(names: RejectPolicy, policy: RejectPolicy) -> bool:
    """Whether the files of `policy` may be given these names: those beside the records may have them already."""
    return not os.path.exists(names.path) and all(
        not os.path.exists(new) or (os.path.exists(old) and filecmp.cmp(old, new, shallow=False))
        for old, new in zip(policy.paths[1:], names.paths[1:], strict=True)
    )


def _give_second_name(path: str, name: str) -> None:
    try:
        os.link(path, name)
    except OSError:
        # Not every file system has second names.
        shutil.copyfile(path, name)


def _remark(source: str, record_number: int, lines: int | None) -> str:
    size, remedy = "more bytes than a record may have", "mend the source, and load it with --restart"
    if lines is not None:
        size, remedy = f"{lines:,} lines", "mend it, and load those lines with --replay"
    return (
        f"{source}: record {record_number} is one reject of {size}: if a quote is missing or too many there, what "
        f"follows it went with it; {remedy}"
    )


def removed_rejects(policy: RejectPolicy, causes: Sequence[RejectCause], rejects: int) -> list[str]:
    """What to say where the files do not have just the `rejects` that the load had: somebody has removed some from the
    ledger meanwhile; or they have more, which would be stored twice by a replay."""
    told = sum(cause.rejects for cause in causes)
    if told == rejects:
        return []
    if told > rejects:
        return [
            f"{policy.path} has {told:,} rejects, and the load had {rejects:,}: do not replay it, but run the same "
            "command again, which writes it anew"
        ]
    return [
        f"{policy.path} has {told:,} of the {rejects:,} rejects: the ledger has lost the others (tipple.reject), and "
        "only the sources have these records; to have them told, take the load's rows out and load again with --restart"
    ]


def replayed_by(jobs: Iterable[JobRecord], job_id: str) -> JobRecord | None:
    """The job that has loaded this job's rejects by `--replay`, if one has; what is still wrong is left in its file."""
    return next((job for job in jobs if job.state == "published" and job.replays == job_id), None)


def of_replay(policy: RejectPolicy, replay: JobRecord) -> str:
    """What to say where the rejects of a load were loaded by another job."""
    said = f"no rejects are written: job {replay.job_id} has loaded them by --replay"
    if has_rejects(policy):
        return f"{said}; what it could not store is in {policy.path}"
    if not replay.rejects:
        return said
    kept = where_kept(replay.job_id, ledger=True, reads_once=True)
    return f"{said}, but for {replay.rejects:,} that it could not store, and {policy.path} is gone: {kept}"


def of_updates(policy: RejectPolicy, *, updates: bool) -> list[str]:
    """What to say where an upsert `updates` rows: of a key the last record counts, and a replay comes last."""
    if not updates or not has_rejects(policy):
        return []
    return [
        f"records in {policy.path} go over the rows with their keys, also where the sources have later records of "
        "these: take such records out of the file beforehand"
    ]


def unwritten_replay(policy: RejectPolicy, job_id: str, replay_id: str) -> list[str]:
    """What to say where a replay was killed between its commit and its files: the file still has what it has loaded."""
    reading = _reading_at(policy.reading_path)
    if reading is None or reading.job != job_id or reading.written_by in ("", replay_id):
        return []
    unnamed = _reading_at(unfinished(policy.reading_path))
    if unnamed is not None and unnamed.written_by == replay_id and not os.path.exists(unfinished(policy.path)):
        # What is left has its name already, and only what stands beside it has not.
        return []
    return [
        f"{policy.path} still has the records that job {replay_id} has loaded, as that was interrupted before it wrote "
        "what is left: do not change the file, and run the same command with --replay, which loads nothing twice"
    ]


def _reading_at(path: str) -> Reading | None:
    with suppress(TippleError):
        return read_reading(path)
    return None


def has_rejects(policy: RejectPolicy) -> bool:
    """Whether the file of rejects is there, and has any."""
    with suppress(OSError):
        return os.path.getsize(policy.path) > 0
    return False


def earlier_rejects(policy: RejectPolicy) -> list[str]:
    """What to say where a load has no rejects, but a file of rejects is there, which might be taken for its own.

    It stays: somebody may be mending those records.
    """
    if not has_rejects(policy):
        return []
    return [f"{policy.path} is of an earlier load: this one has no rejects; load those with --replay, or remove it"]


def check_writable(policy: RejectPolicy) -> None:
    """Finds out before the load, rather than after it, that the files cannot be written.

    Raises:
        UsageError: they cannot.
    """
    for path in policy.paths:
        check_place("--rejects", path)
        check_place("--rejects", unfinished(path))
        if os.path.exists(path) and not os.path.isfile(path):
            # A new file takes the place of the old one, also that of /dev/null.
            raise UsageError(f"--rejects {path} is not a regular file", hint="give another name")


def outputs_of(policy: RejectPolicy | None) -> list[NamedFile]:
    """What a load writes of its rejects."""
    if policy is None:
        return []
    return [NamedFile("--rejects", name) for path in policy.paths for name in (path, unfinished(path))]


def rejects_path(table: TableName, path: str | os.PathLike[str] | None) -> str:
    """The file of a table's rejects, where `--rejects` names this one, or none."""
    return os.fspath(path) if path is not None else f"{table.name}.rejects"


def missing_rejects(table: str, path: str | os.PathLike[str] | None) -> str | None:
    """The file of a table's rejects where it is not there, else None."""
    chosen = rejects_path(parse_table_name(table), path)
    return None if os.path.lexists(chosen) else chosen


def reject_policy(
    table: TableName,
    on_error: str,
    max_rejects: int | str,
    path: str | os.PathLike[str] | None,
    *,
    replay: bool,
) -> RejectPolicy | None:
    """What the options say of records that cannot be stored; None where the first one ends the load.

    Raises:
        UsageError: options that contradict each other, or no file to replay.
    """
    count, percent = parse_limit(str(max_rejects))
    if replay and percent is not None:
        # It was a share of all records; these are the rejects among them.
        percent = None
    if on_error == "stop" and not replay:
        if path is not None or count != 0:
            raise UsageError(
                "--rejects and --max-rejects have no meaning without --on-error skip",
                hint="add --on-error skip, or leave them out",
            )
        return None
    chosen = rejects_path(table, path)
    if not chosen.strip():
        raise UsageError("--rejects names no file", hint="give a name, or leave the option out")
    if replay and not os.path.isfile(chosen):
        raise UsageError(
            f"there is no file of rejects {chosen}", hint="give the one of the earlier load: --rejects FILE"
        )
    return RejectPolicy(max_count=count, max_percent=percent, path=chosen)
