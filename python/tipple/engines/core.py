"""Plans for the core in their JSON form, and the core's failures as Tipple's errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tipple import _core
from tipple.engines.base import LoadTask
from tipple.errors import (
    BadRecord,
    ConnectionFailed,
    Interrupted,
    JobBusy,
    SourceChanged,
    TippleError,
    UsageError,
)


def cut(task: LoadTask) -> tuple[list[dict[str, Any]], str]:
    """The slices of the task's sources, and what ends their records.

    Raises:
        TippleError: a source cannot be read or has changed.
    """
    plan = {
        "sources": _sources(task),
        "dialect": task.dialect,
        "header": task.header,
        "slice_bytes": task.slice_bytes,
        "streams": task.streams,
        "max_record_bytes": task.max_record_bytes,
    }
    try:
        found = json.loads(_core.cut_sources(json.dumps(plan)))
    except _core.CoreError as error:
        raise core_error(error) from None
    return found["slices"], found["line_end"]


def load_plan(
    task: LoadTask, slices: Sequence[dict[str, Any]], line_end: str, target: dict[str, Any], *, digest: bool
) -> str:
    """The plan of a load, as the core takes it."""
    return json.dumps(
        {
            "sources": _sources(task),
            "dialect": {**task.dialect, "line_end": line_end},
            "header": task.header,
            "columns": [
                {"name": column.name, "type": column.codec_type, "not_null": column.not_null} for column in task.columns
            ],
            "slices": slices,
            "streams": 1 if task.preserve_order else max(1, min(task.streams, len(slices))),
            "window_bytes": task.window_bytes,
            "max_record_bytes": task.max_record_bytes,
            "digest": digest,
            "target": target,
        }
    )


def _sources(task: LoadTask) -> list[dict[str, Any]]:
    return [{"path": s.path, "size": s.size, "mtime_ns": s.mtime_ns} for s in task.sources]


def core_error(error: Exception) -> TippleError:
    """A failure of the core as one of Tipple's errors. Its kinds are those of `error.rs`."""
    facts: dict[str, Any] = json.loads(str(error))
    kind = facts.pop("kind")
    message = facts.get("message", "")
    match kind:
        case "bad_record":
            return BadRecord(**facts)
        case "file":
            return TippleError(f"{facts['file']}: {message}", hint=facts["remedy"], detail=facts)
        case "source_changed":
            return SourceChanged(
                f"{facts['file']} changed while it was being loaded: {message}",
                hint="nothing of this slice was stored; when the file is complete, run the command with --restart",
                detail=facts,
            )
        case "server":
            lines = [message, *(facts[key] for key in ("detail", "context") if facts.get(key))]
            text = "\n  ".join(lines)
            return TippleError(
                f"the server refused ({facts['doing']}, SQLSTATE {facts['sqlstate']}): {text}",
                hint=rights_hint(facts["sqlstate"]) or facts.get("hint"),
                detail=facts,
            )
        case "connection":
            return ConnectionLost(
                f"the connection to the server was lost ({facts['doing']}): {message}",
                hint="run the same command again: what is stored stays stored, and nothing is stored twice",
                detail=facts,
            )
        case "commit_in_doubt":
            return CommitInDoubt(f"the connection was lost while committing: {message}", detail=facts)
        case "lost_ownership":
            return JobBusy("another run has taken this job over", hint="let that run finish; see: tipple jobs URL")
        case "cancelled":
            return Interrupted("interrupted", hint="run the same command again to go on")
        case "invalid":
            return UsageError(message, exit_status=1)
        case _:
            return TippleError(
                f"internal error: {message}",
                hint="this is a fault of Tipple; please report it with the command",
            )


def rights_hint(sqlstate: str | None) -> str | None:
    """What to do about a missing right."""
    if sqlstate != "42501":
        return None
    return "as the table's owner: GRANT SELECT, INSERT ON the table TO this role; --mode replace also needs DELETE"


class ConnectionLost(ConnectionFailed):
    """A connection that was there broke, and did not come back in time."""

    default_exit_status = 1


class CommitInDoubt(TippleError):
    """COMMIT was sent and its answer lost: only the ledger knows the outcome."""
