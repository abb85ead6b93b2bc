"""Progress drawn on a terminal, in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tipple.plan.size import format_bytes, format_count, format_duration
from tipple.report.progress import (
    BAR_INTERVAL_SECONDS,
    QUIET_SECONDS,
    RateEstimate,
    StreamSnapshot,
    TableSnapshot,
    figures,
    stream_states,
    table_state,
)

_STATE_STYLES = {
    "send": "green",
    "encode": "cyan",
    "read": "blue",
    "wait": "yellow",
    "retry": "red",
    "idle": "dim",
}


class ProgressConsole(Console):
    """A console that reports a broken pipe as what it is.

    Rich's own answer is to turn stdout into /dev/null and to exit. That would end a load for a lost display.
    """

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class BarProgress:
    """Redrawn in place: the phase with a bar, the figures, and a line for each stream."""

    def __init__(self, console: ProgressConsole) -> None:
        self._console = console
        self._live: Live | None = None
        self._shown_seconds = 0.0
        self._rate = RateEstimate()
        self._broken = False

    def update(self, snapshot: Mapping[str, Any]) -> None:
        elapsed_seconds: float = snapshot["elapsed_seconds"]
        self._rate.update(snapshot["phase"], snapshot.get("bytes_done", 0), elapsed_seconds)
        if elapsed_seconds < QUIET_SECONDS or self._broken:
            return
        if self._live is not None and elapsed_seconds - self._shown_seconds < BAR_INTERVAL_SECONDS:
            return
        self._shown_seconds = elapsed_seconds
        try:
            if self._live is None:
                self._live = Live(
                    console=self._console,
                    auto_refresh=False,
                    # The report that follows says all that the last bar would.
                    transient=True,
                    # Results on stdout must not pass through a display on stderr.
                    redirect_stdout=False,
                )
                self._live.start()
            self._live.update(self._draw(snapshot), refresh=True)
        except (OSError, ValueError):
            self._broken = True

    def warn(self, text: str) -> None:
        if self._broken:
            return
        try:
            self._console.print(Text(f"tipple: warning: {text}"), soft_wrap=True)
        except (OSError, ValueError):
            self._broken = True

    def close(self) -> None:
        live, self._live = self._live, None
        if live is None:
            return
        try:
            live.stop()
        except (OSError, ValueError):
            self._broken = True

    def _draw(self, snapshot: Mapping[str, Any]) -> Group:
        head = Table.grid(padding=(0, 2, 0, 0))
        head.add_column(no_wrap=True)
        head.add_column(no_wrap=True)
        head.add_column(no_wrap=True)
        cells: list[Text | ProgressBar] = [Text(snapshot["phase"], style="bold")]
        bytes_total: int = snapshot.get("bytes_total", 0)
        bytes_done: int = snapshot.get("bytes_done", 0)
        if bytes_total > 0:
            cells.append(ProgressBar(total=bytes_total, completed=min(bytes_done, bytes_total), width=30))
        cells.append(Text(f"{format_duration(snapshot['elapsed_seconds'])} so far"))
        head.add_row(*cells)
        line = Text("  ".join(figures(snapshot, self._rate)))
        return Group(
            head,
            line,
            *self._table_lines(snapshot.get("tables") or []),
            *self._stream_lines(snapshot.get("streams") or []),
        )

    def _table_lines(self, tables: list[TableSnapshot]) -> list[Table]:
        if not tables:
            return []
        grid = Table.grid(padding=(0, 2, 0, 0))
        for _ in range(3):
            grid.add_column(no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
        for table in tables[: max(self._console.height - 4, 1)]:
            name, phase, *percent = table_state(table)
            grid.add_row(
                Text(name),
                Text(phase, style="bold"),
                Text(" ".join([*percent, stream_states(table["streams"]) if table["streams"] else ""])),
                f"{format_count(table['rows'])} rows",
            )
        return [grid]

    def _stream_lines(self, streams: list[StreamSnapshot]) -> list[Table | Text]:
        if not streams:
            return []
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True, width=6)
        for _ in range(3):
            table.add_column(justify="right", no_wrap=True)
        # Two lines stand above, one may follow, and the cursor needs one.
        fitting = max(self._console.height - 4, 1)
        for stream in streams[:fitting]:
            number = stream.get("slice")
            table.add_row(
                f"stream {stream['n']}",
                Text(stream["state"], style=_STATE_STYLES.get(stream["state"], "")),
                "" if number is None else f"slice {format_count(number)}",
                format_bytes(stream.get("bytes", 0)),
                f"{format_count(stream.get('rows', 0))} rows",
            )
        rest = streams[fitting:]
        return [table, Text(f"and {len(rest)} more {stream_states(rest)}")] if rest else [table]
