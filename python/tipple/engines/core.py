"""Plans for the core in their JSON form, and the core's failures as Tipple's errors."""

from __future__ import annotations

import errno
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tipple import _core
from tipple.engines import server_errors, spool, unread_files
from tipple.engines.base import Cut, Identity, LoadTask, TableColumn
from tipple.engines.server_errors import ServerError
from tipple.errors import (
    BadRecord,
    ConnectionFailed,
    Interrupted,
    JobBusy,
    SourceChanged,
    TippleError,
    TooManyRejects,
)

TEXT_PLAN: dict[str, Any] = {
    "dialect": {
        "family": "text",
        "delimiter": ord("\t"),
        "quote": ord('"'),
        "escape": ord('"'),
        "null_text": "\\N",
        "trailing_delimiter": False,
        "line_end": "lf",
    },
    "header": False,
    "slice_bytes": 1,
    "streams": 1,
    "max_record_bytes": 1,
}
"""What the core's `CutPlan` holds of text, for plans about sources that are none."""


def cut(task: LoadTask) -> Cut:
    """The slices of the task's sources, what is to be cut while it is read, and what ends the records.

    Raises:
        TippleError: a source cannot be read or has changed.
    """
    if task.stream is not None:
        # What one stream takes of a producer's batches: nobody knows it before.
        pieces = [{"source": 0, "offset": 0, "length": 0}]
        slices = [{"n": n, "pieces": pieces} for n in range(task.streams)]
        return Cut(slices=slices, feeds=[], line_end="lf", first_n=len(slices), block_bytes=task.block_bytes)
    plan = {
        "sources": _sources(task),
        "dialect": task.dialect,
        "skips": task.rejects is not None,
        "columns": len(task.columns),
        "header": task.header,
        "slice_bytes": task.slice_bytes,
        "streams": task.streams,
        "max_record_bytes": task.max_record_bytes,
        "columnar": task.columnar["format"] if task.columnar is not None else None,
        "groups": task.commit_every is None,
    }
    try:
        found = json.loads(_core.cut_sources(json.dumps(plan)))
    except _core.CoreError as error:
        raise core_error(error) from None
    slices = found["slices"]
    return Cut(
        slices=slices,
        feeds=found["feeds"],
        line_end=found["line_end"],
        first_n=len(slices),
        block_bytes=task.block_bytes,
        block_records=task.commit_every or 0,
        resyncs=task.rejects is not None,
    )


def load_plan(
    task: LoadTask,
    job_id: str,
    cut: Cut,
    target: dict[str, Any],
    *,
    digest: bool,
    rejects_before: int = 0,
    commit_records: int | None = None,
    violations: Mapping[str, Any] | None = None,
    in_order: bool | None = None,
) -> str:
    """The plan of a load, as the core takes it.

    Args:
        task: the load.
        job_id: the job in the ledger.
        cut: what is left to load.
        target: the core's `Target`.
        digest: whether a digest of what is read is wanted.
        rejects_before: the rejects of the job's earlier runs.
        commit_records: the most records that are stored of a slice at a time.
        violations: records that are known to violate constraints.
        in_order: whether one stream reads everything in its order; None: where the order is to be preserved.
    """
    return json.dumps(
        {
            "sources": _sources(task),
            "dialect": {**task.dialect, "line_end": cut.line_end},
            "header": task.header,
            "columns": [column_plan(column) for column in task.columns],
            "guessed": task.guessed,
            "slices": cut.slices,
            "feeding": {
                "feeds": cut.feeds,
                "done": cut.done,
                "first_n": cut.first_n,
                "block_bytes": cut.block_bytes,
                "block_records": cut.block_records,
                "resyncs": cut.resyncs,
            },
            "streams": _streams(task, cut, in_order=task.preserve_order if in_order is None else in_order),
            "cpus": task.cpus,
            "commit_records": commit_records,
            "first_part_n": cut.first_part_n,
            "window_bytes": task.window_bytes,
            "max_record_bytes": task.max_record_bytes,
            "digest": digest,
            "rejects": None
            if task.rejects is None
            else {
                "max": task.rejects.max_count,
                "max_percent": task.rejects.max_percent,
                "before": rejects_before,
                "spool": task.spool,
                "job_id": job_id,
            },
            "violations": violations or {},
            "columnar": task.columnar,
            "target": target,
        }
    )


def start_load(task: LoadTask, plan: str) -> _core.LoadJob:
    """Starts the load that a plan describes.

    Raises:
        TippleError: a columnar source cannot be read, or not into these columns.
    """
    try:
        return _core.LoadJob.start(plan, task.stream)
    except _core.CoreError as error:
        raise core_error(error) from None


def _streams(task: LoadTask, cut: Cut, *, in_order: bool) -> int:
    if in_order:
        return 1
    # A feed may come to any number of slices.
    return task.streams if cut.feeds else max(1, min(task.streams, len(cut.slices)))


def _sources(task: LoadTask) -> list[dict[str, Any]]:
    return [source_plan(source) for source in task.sources]


def column_plan(column: TableColumn) -> dict[str, Any]:
    """A column as the core takes it."""
    return {"name": column.name, "type": column.codec_type, "not_null": column.not_null}


def source_plan(source: Identity) -> dict[str, Any]:
    """A source as the core takes it."""
    form = msgspec.to_builtins(source.form) if source.form is not None else None
    return {
        "path": source.path,
        "size": source.size,
        "mtime_ns": source.mtime_ns,
        "form": form,
        "path_columns": source.path_columns,
    }


def require_share(task: LoadTask, rejects: int, rows: int) -> None:
    """Refuses to publish where a larger share of the records than allowed was rejected.

    Raises:
        TooManyRejects: it was.
    """
    policy = task.rejects
    if policy is not None and policy.max_percent is not None and not policy.allows(rejects, rows + rejects):
        raise _too_large_share(policy.max_percent, rejects, rows + rejects)


def _too_large_share(percent: float, rejects: int, records: int) -> TooManyRejects:
    return TooManyRejects(f"{percent:g}%", found=f": {rejects:,} of {records:,}")


_STREAM_FAILED = "the stream failed: "
_OVERLONG = "; an unclosed quote?"
NO_THREAD = "no thread could be started"
MORE_THREADS = (
    "allow more of them (ulimit -u, the pids limit of a container, TasksMax of a service), "
    "or use fewer streams (--jobs)"
)
"""What to do where the system gives no more threads."""
_MORE_MEMORY = (
    "allow more of it (ulimit -v, the memory limit of a container or of a service), or load with fewer streams (-j)"
)
_HIGHER_LIMIT = "raise --memory-limit, or load with fewer streams (-j)"
_REMEDY = re.compile(r"; (?=(?:for the load: ALTER TABLE|leave it out with|leave out --pin-cpus|convert them)\b)")
"""Where what to do begins in what the core says."""
AGAIN = "run the same command again: what is stored stays stored, and nothing is stored twice"
"""What to do where the connection was lost, and a ledger knows how far the load has come."""
_MEND = "mend the cause and run the same command again"
COMMITTING = "committing"
"""What the core does when keys that could wait are checked."""
WRITING_LEDGER = "writing the ledger"
"""What it does when it says in the ledger what it has stored."""


def lacks_room(message: str | None) -> bool:
    """Whether the system has told the core that a disk of this machine, or a share of it, is full."""
    return any(f"(os error {number})" in (message or "") for number in (errno.ENOSPC, errno.EDQUOT))


def core_error(error: Exception) -> TippleError:
    """A failure of the core as one of Tipple's errors. Its kinds are those of `error.rs`."""
    facts: dict[str, Any] = json.loads(str(error))
    kind = facts.pop("kind")
    message = facts.get("message", "")
    match kind:
        case "near_record":
            said = f"{message} ({facts['detail']})" if facts.get("detail") else message
            return TippleError(
                f"the server refused (storing rows, SQLSTATE {facts['sqlstate']}): {said} "
                f"(near record {facts['record_number']:,} of {facts['file']})",
                hint=f"the record is not to blame: {server_errors.hint(ServerError.of_facts(facts)) or _MEND}",
                detail=facts,
            )
        case "bad_record":
            return BadRecord(**facts)
        case "too_many_rejects":
            return TooManyRejects(str(facts["limit"]), BadRecord(**facts["record"]))
        case "too_large_share":
            return _too_large_share(facts["percent"], facts["rejects"], facts["records"])
        case "no_partition":
            return NoPartition(facts["keys"])
        case "file":
            remedy = spool.NO_ROOM if lacks_room(message) and spool.PREFIX in facts["file"] else facts["remedy"]
            said, remedy = unread_files.named(facts) or (f"{facts['file']}: {message}", remedy)
            return TippleError(said, hint=remedy, detail=facts)
        case "source_changed":
            return SourceChanged(
                f"{facts['file']} changed while it was being loaded: {message}",
                hint="nothing was published; when the file is complete, run the command with --restart",
                detail=facts,
            )
        case "server":
            lines = [message, *(facts[key] for key in ("detail", "context") if facts.get(key))]
            text = "\n  ".join(lines)
            return ServerRefused(
                f"the server refused ({facts['doing']}, SQLSTATE {facts['sqlstate']}): {text}",
                hint=_server_hint(facts) or facts.get("hint") or _MEND,
                detail=facts,
            )
        case "connection":
            return ConnectionLost(
                f"the connection to the server was lost ({facts['doing']}): {message}",
                hint=server_errors.full_hint(message) or AGAIN,
                detail=facts,
            )
        case "commit_in_doubt":
            return CommitInDoubt(f"the connection was lost while committing: {message}", detail=facts)
        case "unsuited":
            return Unsuited(facts["reason"])
        case "only_server_reads":
            return OnlyServerReads(facts["reason"])
        case "unreadable_keys":
            return UnreadableKeys(facts["reason"])
        case "columns_changed":
            return TippleError(
                f"the table was changed while it was loaded: column {', '.join(facts['columns'])}",
                hint="values were read for the types that its columns had: run the same command again; where "
                "--no-atomic has stored rows already (tipple jobs URL shows how many), delete them and add --restart, "
                "or change the columns back",
                detail=facts,
            )
        case "lost_ownership":
            return TakenOver()
        case "cancelled":
            return Interrupted("interrupted")
        case "invalid" if message.startswith(_STREAM_FAILED):
            return TippleError(
                _without_traceback(message.replace("C Data interface error: ", "")),
                hint="what hands out the rows has failed: mend it, and load what it gives anew",
            )
        case "invalid" if _OVERLONG in message:
            what, _, otherwise = message.partition(_OVERLONG)
            return TippleError(what, hint=f"{_OVERLONG.removeprefix('; ')}{otherwise}; nothing was published")
        case "invalid" if message.startswith(NO_THREAD):
            return TippleError(message, hint=f"{MORE_THREADS}; nothing was published")
        case "invalid":
            # Not a UsageError: rows may be under way already.
            what, *remedy = _REMEDY.split(message)
            return TippleError(what, hint=f"{remedy[-1] if remedy else _MEND}; nothing was published")
        case _:
            return TippleError(
                f"internal error: {message}",
                hint="this is a fault of Tipple; please report it with the command",
            )


def _server_hint(facts: Mapping[str, Any]) -> str | None:
    error, doing = ServerError.of_facts(facts), facts["doing"]
    return (
        server_errors.rights_hint(error, is_at_end=doing == COMMITTING)
        or server_errors.copy_hint(error, doing=doing, advice=facts.get("hint"))
        or server_errors.reference_hint(error, doing=doing)
        or server_errors.hint(error)
    )


_TRACEBACK = "Traceback (most recent call last):\n"


def _without_traceback(message: str) -> str:
    """What a generator behind a reader of pyarrow's has raised, of which the message shows the whole way."""
    if _TRACEBACK not in message:
        return message
    # Of errors in each other's place the last one is it; the lines of its way are indented.
    lines = message.rpartition(_TRACEBACK)[2].splitlines()
    said = itertools.dropwhile(lambda line: line.startswith(" "), lines)
    return _STREAM_FAILED + " ".join(" ".join(said).split())


def shortage(error: BaseException) -> TippleError | None:
    """What to say of a failure for want of threads or memory, wherever it came up; None of any other."""
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return TippleError(NO_THREAD, hint=MORE_THREADS)
    # DuckDB has one of its own, and may not be there.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException":
        # DuckDB goes on with its own settings.
        text = " ".join(str(error).partition("\n\n")[0].removeprefix("Out of Memory Error:").split())
        return TippleError(f"out of memory: {text}" if text else "out of memory", hint=more_memory(error))
    return None


def more_memory(error: BaseException) -> str:
    """What to do about one that there was no memory for: the system's, or what DuckDB may take of it."""
    return _MORE_MEMORY if isinstance(error, MemoryError) or "bad allocation" in str(error) else _HIGHER_LIMIT


class ConnectionLost(ConnectionFailed):
    """A connection that was there broke, and did not come back in time."""

    default_exit_status = 1


class LoginRefused(ConnectionFailed):
    """The server does not let this user in. Who tries again and again may lock the account."""


class TakenOver(JobBusy):
    """Another run owns the job by now: nothing of it is this one's to change any more."""

    def __init__(self) -> None:
        super().__init__("another run has taken this job over", hint="let that run finish; see: tipple jobs URL")


class ServerRefused(TippleError):
    """A statement failed on a session of the core's; the detail has its SQLSTATE and message."""

    def in_words(self, words: Callable[[str], str]) -> ServerRefused:
        """The same in words that the user knows."""
        return ServerRefused(words(self.message), hint=self.hint, detail=self.detail)


class Unsuited(TippleError):
    """The write path does not fit the records after all; nothing was stored, and another one does."""


class OnlyServerReads(TippleError):
    """A text of a columnar source, and its column, that only the server can read; nothing was published."""


class UnreadableKeys(TippleError):
    """Which records repeat a key cannot be told when all are stored; nothing was published; there is another way."""


class NoPartition(TippleError):
    """Records whose keys no partition takes, where one can be made for them."""

    default_exit_status = 1

    def __init__(self, keys: Sequence[str]) -> None:
        """`keys` are texts of the first key column."""
        more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
        super().__init__(
            f"no partition takes the keys {', '.join(keys[:3])}{more}",
            hint="give the partitions by --partition-by '…(…, bounds=[…])'; nothing was published",
        )
        self.keys = tuple(keys)


class CommitInDoubt(TippleError):
    """COMMIT was sent and its answer lost: only the ledger knows the outcome."""
