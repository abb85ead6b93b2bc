"""Where the wall time of a job goes, whose tables are in several phases at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tipple.engines.base import PUBLISH_TOGETHER
from tipple.report.model import PhaseTime

__all__ = ["PhaseClock"]


class PhaseClock:
    """Divides each moment among the tables that are at work in it, so that all phases add up to the wall time."""

    def __init__(self, phase: str, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            phase: that of the moments in which no table is at work.
            clock: tells seconds.
        """
        self._idle = phase
        self._clock = clock
        self._since = clock()
        self._at_work: dict[str, str] = {}
        """The phase of each table."""
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    def idle(self, phase: str) -> None:
        """Moments in which no table is at work are in this phase from now on."""
        with self._lock:
            self._pass()
            self._idle = phase

    def enter(self, table: str, phase: str) -> None:
        """A table is in this phase from now on."""
        with self._lock:
            self._pass()
            self._at_work[table] = phase

    def leave(self, table: str) -> None:
        """A table has come to its end."""
        with self._lock:
            self._pass()
            self._at_work.pop(table, None)

    @property
    def phases(self) -> list[PhaseTime]:
        """The time until now, in the order in which the phases began."""
        with self._lock:
            self._pass()
            return [PhaseTime(name=name, seconds=round(seconds, 6)) for name, seconds in self._seconds.items()]

    def _pass(self) -> None:
        now = self._clock()
        phases = list(self._at_work.values())
        # Who waits to be published with others is not at work while these are.
        working = [phase for phase in phases if phase != PUBLISH_TOGETHER] or phases or [self._idle]
        for phase in working:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + (now - self._since) / len(working)
        self._since = now
