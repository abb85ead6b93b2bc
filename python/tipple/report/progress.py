"""Shows a running job on stderr from the snapshots that the core gives out.

Four forms: `bar` for people at a terminal, `plain` for logs, `json` for programs, `none`. A form is told
the state by `update` as often as the caller likes and decides itself what is worth showing. It reads no
clock: elapsed time comes with the snapshot, and the time of day from the function that it is made with.

A terminal or pipe that goes away must not end a load. So the first failed write ends the showing, for good,
and the job goes on; its report is written elsewhere.
"""

from __future__ import annotations

import datetime
import json
import math
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Protocol, TextIO, TypedDict

from tipple.plan.size import format_bytes, format_count, format_duration, format_rate

if TYPE_CHECKING:
    from tipple.report.bar import ProgressConsole

__all__ = [
    "PROGRESS_FORMS",
    "Progress",
    "ProgressForm",
    "RateEstimate",
    "Snapshot",
    "StreamSnapshot",
    "TableSnapshot",
    "figures",
    "log_warning",
    "open_progress",
    "stream_states",
    "table_state",
]

ProgressForm = Literal["auto", "bar", "plain", "json", "none"]
PROGRESS_FORMS: tuple[ProgressForm, ...] = ("auto", "bar", "plain", "json", "none")

QUIET_SECONDS = 2.0
"""A job that ends within this time shows nothing: its report comes at once anyway."""
PLAIN_INTERVAL_SECONDS = 3.0
JSON_INTERVAL_SECONDS = 0.5
BAR_INTERVAL_SECONDS = 0.1
SMOOTHING_SECONDS = 4.0
"""Time constant of the shown rate: long enough to bridge a slice's end, short enough to show a stall."""

_STATE_ORDER = ("send", "encode", "read", "wait", "retry", "idle", "done")


class StreamSnapshot(TypedDict):
    """What one stream does."""

    n: int
    state: str
    """read, encode, send, wait, idle, done or retry."""
    slice: int | None
    bytes: int
    rows: int


class TableSnapshot(TypedDict):
    """What one of several loads does."""

    table: str
    phase: str
    bytes_total: int
    bytes_done: int
    rows: int
    streams: list[StreamSnapshot]


class Snapshot(TypedDict):
    """The state of a job at one moment. Only these keys are read; more may be there."""

    phase: str
    bytes_total: NotRequired[int]
    bytes_done: NotRequired[int]
    rows: NotRequired[int]
    slices_total: NotRequired[int]
    slices_done: NotRequired[int]
    retries: NotRequired[int]
    streams: NotRequired[list[StreamSnapshot]]
    tables: NotRequired[list[TableSnapshot]]
    """Where several loads run side by side: each of them."""
    tables_total: NotRequired[int]
    tables_done: NotRequired[int]
    elapsed_seconds: float


class Progress(Protocol):
    """What shows a job. Call `close` in a `finally`: a bar hides the terminal's cursor until then."""

    def update(self, snapshot: Mapping[str, Any]) -> None:
        """Take notice of a `Snapshot`."""

    def warn(self, text: str) -> None:
        """Say something at once that the user should know while the job runs."""

    def close(self) -> None:
        """Show the last state where the form does so, and give the terminal back. May be called twice."""


def open_progress(
    form: ProgressForm,
    stream: TextIO | None,
    *,
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    console: ProgressConsole | None = None,
) -> Progress:
    """The progress display of the wanted form.

    Args:
        form: `auto` and `bar` are a bar where `stream` is a terminal that can move its cursor,
            else `plain`.
        stream: where it is shown, usually stderr, which a process may lack.
        now: the time of day, with its zone.
        console: what the bar is drawn on; made from `stream` when it is None.
    """
    if form == "none" or stream is None:
        return _NoProgress()
    if form == "json":
        return _JsonProgress(stream, now)
    if form != "plain" and (console is not None or _may_be_terminal(stream)):
        # Drawing takes its time to be loaded: only where there may be something to draw on.
        from tipple.report.bar import BarProgress, ProgressConsole

        console = console or ProgressConsole(file=stream)
        if console.is_terminal and not console.is_dumb_terminal:
            return BarProgress(console)
    return _PlainProgress(stream, now)


def _may_be_terminal(stream: TextIO) -> bool:
    """Whether Rich may take it for one: its environment variables can say so of anything."""
    try:
        is_terminal = stream.isatty()
    except (AttributeError, ValueError):
        # An object of the caller's own that has no more than `write`, or a stream that is closed.
        return False
    return is_terminal or any(os.environ.get(name) for name in ("FORCE_COLOR", "TTY_COMPATIBLE"))


class RateEstimate:
    """Bytes per second, smoothed exponentially over `SMOOTHING_SECONDS`, from bytes and time as they pass.

    A new phase starts anew. Bytes may go back (a slice that is tried again); that counts as standing still.
    """

    def __init__(self) -> None:
        self._phase: str | None = None
        self._bytes = 0
        self._seconds = 0.0
        self._weighted_bytes = 0.0
        self._weight_seconds = 0.0

    def update(self, phase: str, bytes_done: int, elapsed_seconds: float) -> None:
        if phase != self._phase:
            # What the first snapshot of a job holds was done since the job began.
            first = self._phase is None
            self._phase = phase
            self._weighted_bytes = self._weight_seconds = 0.0
            self._bytes = 0 if first else bytes_done
            self._seconds = 0.0 if first else elapsed_seconds
        passed_seconds = elapsed_seconds - self._seconds
        if passed_seconds <= 0:
            return
        decay = math.exp(-passed_seconds / SMOOTHING_SECONDS)
        # The mean weight over the interval, so that the result does not depend on how often it is called.
        weight = SMOOTHING_SECONDS * (1 - decay)
        gained_bytes = max(bytes_done - self._bytes, 0)
        self._weighted_bytes = self._weighted_bytes * decay + gained_bytes / passed_seconds * weight
        self._weight_seconds = self._weight_seconds * decay + weight
        self._bytes = bytes_done
        self._seconds = elapsed_seconds

    @property
    def bytes_per_second(self) -> float:
        return self._weighted_bytes / self._weight_seconds if self._weight_seconds > 0 else 0.0

    def seconds_left(self, bytes_left: int) -> float | None:
        """Time for the rest at this rate; None while it cannot be told."""
        rate = self.bytes_per_second
        if rate < 1 or bytes_left < 0:
            return None
        return bytes_left / rate


def log_warning(text: str) -> None:
    """Tells the logger `tipple` what nobody displays. Nothing is printed where the program has set up no logging."""
    # It takes its time to be loaded, and most loads have nothing to say.
    import logging

    logger = logging.getLogger("tipple")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.warning(text)


class _NoProgress:
    def update(self, snapshot: Mapping[str, Any]) -> None:
        pass

    def warn(self, text: str) -> None:
        log_warning(text)

    def close(self) -> None:
        pass


class _Lines:
    """What the forms of whole lines share: when the next line is due, and a stream that may fail."""

    def __init__(self, stream: TextIO, quiet_seconds: float, interval_seconds: float) -> None:
        self._stream = stream
        self._quiet_seconds = quiet_seconds
        self._interval_seconds = interval_seconds
        self._last: Mapping[str, Any] | None = None
        self._shown: Mapping[str, Any] | None = None
        self._rate = RateEstimate()
        self._broken = False

    def line(self, snapshot: Mapping[str, Any]) -> str:
        raise NotImplementedError

    def update(self, snapshot: Mapping[str, Any]) -> None:
        # A copy, for the caller may fill one dictionary again and again.
        self._last = snapshot = dict(snapshot)
        elapsed_seconds: float = snapshot["elapsed_seconds"]
        self._rate.update(snapshot["phase"], snapshot.get("bytes_done", 0), elapsed_seconds)
        if elapsed_seconds < self._quiet_seconds:
            return
        if (
            self._shown is None
            or snapshot["phase"] != self._shown["phase"]
            or elapsed_seconds - self._shown["elapsed_seconds"] >= self._interval_seconds
        ):
            self._show(snapshot)

    def warning(self, text: str) -> str:
        """The line that says it."""
        return f"tipple: warning: {text}"

    def warn(self, text: str) -> None:
        self._write(self.warning(text))

    def close(self) -> None:
        # The end of what has a beginning: a job too short to be shown stays silent.
        if self._last is not None and self._shown is not None and self._last != self._shown:
            self._show(self._last)

    def _show(self, snapshot: Mapping[str, Any]) -> None:
        self._shown = snapshot
        self._write(self.line(snapshot))

    def _write(self, line: str) -> None:
        if self._broken:
            return
        try:
            self._stream.write(line + "\n")
            if hasattr(self._stream, "flush"):
                self._stream.flush()
        except (OSError, ValueError):
            self._broken = True


class _PlainProgress(_Lines):
    """A line every few seconds:

    12:34:56 load  312 MB of 760 MB  41 %  2,470,000 rows  205 MB/s  2 s left  [1 send 2 read]
    """

    def __init__(self, stream: TextIO, now: Callable[[], datetime.datetime]) -> None:
        super().__init__(stream, QUIET_SECONDS, PLAIN_INTERVAL_SECONDS)
        self._now = now

    def line(self, snapshot: Mapping[str, Any]) -> str:
        parts = [f"{self._now():%H:%M:%S} {snapshot['phase']}", *figures(snapshot, self._rate)]
        streams: list[StreamSnapshot] = snapshot.get("streams") or []
        if streams:
            parts.append(stream_states(streams))
        tables: list[TableSnapshot] = snapshot.get("tables") or []
        if tables:
            parts.append("[" + ", ".join(" ".join(table_state(table)) for table in tables) + "]")
        return "  ".join(parts)


class _JsonProgress(_Lines):
    """One JSON object a line: the snapshot with `time` (ISO 8601, UTC), `mb_per_second`, `seconds_left`."""

    def __init__(self, stream: TextIO, now: Callable[[], datetime.datetime]) -> None:
        super().__init__(stream, 0.0, JSON_INTERVAL_SECONDS)
        self._now = now

    def warning(self, text: str) -> str:
        time = self._now().astimezone(datetime.UTC).isoformat(timespec="milliseconds")
        return _ascii_json({"time": time, "warning": text})

    def line(self, snapshot: Mapping[str, Any]) -> str:
        left_bytes = snapshot.get("bytes_total", 0) - snapshot.get("bytes_done", 0)
        seconds_left = self._rate.seconds_left(left_bytes) if snapshot.get("bytes_total") else None
        return _ascii_json(
            {
                "time": self._now().astimezone(datetime.UTC).isoformat(timespec="milliseconds"),
                **snapshot,
                "mb_per_second": round(self._rate.bytes_per_second / 1e6, 3),
                "seconds_left": None if seconds_left is None else round(seconds_left, 1),
            }
        )


def _ascii_json(value: Mapping[str, Any]) -> str:
    """JSON that means the same whatever the stream's encoding is, and whatever that does with other characters."""
    return json.dumps(value, separators=(",", ":"))


def figures(snapshot: Mapping[str, Any], rate: RateEstimate) -> list[str]:
    """The figures that the plain line and the bar share; what is not known is left out."""
    bytes_total: int = snapshot.get("bytes_total", 0)
    bytes_done: int = snapshot.get("bytes_done", 0)
    rows: int = snapshot.get("rows", 0)
    parts = []
    if snapshot.get("tables_total"):
        parts.append(f"{snapshot['tables_done']} of {snapshot['tables_total']} tables")
    if bytes_total > 0:
        # Rounded down: 100 % is said when all is done, and not before.
        percent = min(100 * bytes_done // bytes_total, 100)
        parts.append(f"{format_bytes(bytes_done)} of {format_bytes(bytes_total)}")
        parts.append(f"{percent} %")
    elif bytes_done > 0:
        parts.append(format_bytes(bytes_done))
    if rows:
        parts.append(f"{format_count(rows)} rows")
    if rate.bytes_per_second >= 1:
        parts.append(format_rate(rate.bytes_per_second))
    if 0 < bytes_done < bytes_total:
        seconds_left = rate.seconds_left(bytes_total - bytes_done)
        if seconds_left is not None:
            # Whole seconds: an estimate has no fraction.
            parts.append(f"{format_duration(max(math.ceil(seconds_left), 1)).replace('.0 s', ' s')} left")
    retries: int = snapshot.get("retries", 0)
    if retries:
        parts.append(f"{format_count(retries)} {'retry' if retries == 1 else 'retries'}")
    return parts


def table_state(table: TableSnapshot) -> list[str]:
    """`orders load 41 %`."""
    state = [table["table"], table["phase"]]
    if table["phase"] == "load" and table["bytes_total"] > 0:
        state.append(f"{min(100 * table['bytes_done'] // table['bytes_total'], 100)} %")
    return state


def stream_states(streams: list[StreamSnapshot]) -> str:
    """`[1 send 2 read]`: how many streams are in which state, the busiest states first."""
    counts: dict[str, int] = {}
    for stream in streams:
        counts[stream["state"]] = counts.get(stream["state"], 0) + 1
    known = [state for state in _STATE_ORDER if state in counts]
    unknown = sorted(set(counts).difference(known))
    return "[" + " ".join(f"{counts[state]} {state}" for state in known + unknown) + "]"
