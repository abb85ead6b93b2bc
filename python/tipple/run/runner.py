"""Runs jobs of the core: shows their progress, times phases, and turns Ctrl-C into a clean end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from tipple import _core
from tipple.engines.base import CoreJob
from tipple.engines.core import core_error
from tipple.errors import Interrupted
from tipple.report.model import PhaseTime
from tipple.report.progress import Progress
from tipple.run import memory_watch
from tipple.run.interrupt import too_late
from tipple.run.memory_watch import MemoryWatch

POLL_SECONDS = 0.1


class JobRunner:
    """The `Runner` of a verb."""

    def __init__(
        self,
        progress: Progress,
        stop: threading.Event | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        """
        Args:
            progress: is shown the state of every job.
            stop: does what Ctrl-C does, for a verb on a thread of its own, where none arrives.
            meanwhile: is called once, while the first job is at work.
        """
        self._progress = progress
        self._stop = stop or threading.Event()
        self._meanwhile = meanwhile
        self._seconds: dict[str, float] = {}
        self._phase = "prepare"
        self.memory: MemoryWatch | None = None
        """Ends a job that outgrows its limit, where there is one."""
        self._started = time.monotonic()
        self._settled = ExitStack()

    @property
    def elapsed_seconds(self) -> float:
        """Wall time since the verb began."""
        return time.monotonic() - self._started

    @property
    def phases(self) -> list[PhaseTime]:
        """Wall time by phase, in the order in which they began."""
        return [PhaseTime(name=name, seconds=round(seconds, 6)) for name, seconds in self._seconds.items()]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times a phase; one that comes again is added to its earlier time."""
        begin = time.monotonic()
        self._phase = name
        self._show({})
        try:
            yield
        except Exception:
            if self._stop.is_set():
                # The statement failed because it was cancelled.
                raise KeyboardInterrupt from None
            raise
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.monotonic() - begin

    def warn(self, text: str) -> None:
        """Says something to the user at once."""
        self._progress.warn(text)

    def settle(self) -> None:
        """From here on rows are published: until `unsettle` or `close`, Ctrl-C comes too late."""
        self._settled.enter_context(too_late())

    def unsettle(self) -> None:
        """They were not, or nobody knows: a server may be waited for, and all be loaded again."""
        self._settled.close()

    def close(self) -> None:
        """The verb has ended."""
        self._settled.close()

    def run(self, job: CoreJob, *, publishes: bool = False) -> dict[str, Any]:
        """Shows a job's progress until it ends.

        Args:
            job: is at work already.
            publishes: whether it ends with the COMMIT that makes rows visible.

        Raises:
            Interrupted: after Ctrl-C, once the job has stopped.
            TippleError: what went wrong, or more memory in use than allowed.
        """
        try:
            meanwhile, self._meanwhile = self._meanwhile, None
            if meanwhile is not None:
                meanwhile()
            # The first waits are short: a small load should not be rounded up to the next poll.
            pause = 0.002
            while not job.wait(pause):
                pause = min(pause * 2, POLL_SECONDS if self.memory is None else memory_watch.POLL_SECONDS)
                self._show(self._snapshot(job))
                if self._stop.is_set():
                    raise KeyboardInterrupt
                excess = self.memory.excess() if self.memory is not None else None
                if excess is not None:
                    job.cancel()
                    self._wait_for_end(job)
                    raise excess
            self._show(self._snapshot(job))
            outcome = job.result()
            if publishes:
                self.settle()
        except KeyboardInterrupt:
            job.cancel()
            self._wait_for_end(job)
            outcome = self._done_all_the_same(job) if publishes else None
            if outcome is None:
                # How to go on the verb says, which knows its options.
                raise Interrupted("interrupted; nothing of what was under way is visible") from None
        except _core.CoreError as error:
            raise core_error(error) from None
        except BaseException:
            # Most likely of the function that gets the snapshots; the job must not go on unseen.
            job.cancel()
            self._wait_for_end(job)
            raise
        result: dict[str, Any] = json.loads(outcome or "{}")
        return result

    def _wait_for_end(self, job: CoreJob) -> None:
        """A second Ctrl-C does not wait any longer."""
        until = time.monotonic() + 10
        while not job.wait(POLL_SECONDS) and time.monotonic() < until:
            pass

    def _done_all_the_same(self, job: CoreJob) -> str | None:
        """The outcome of a cancelled job whose COMMIT was under way, or done, by then; None where there was none."""
        try:
            outcome = job.result()
        except _core.CoreError:
            return None
        if outcome is not None:
            self.settle()
        return outcome

    def _snapshot(self, job: CoreJob) -> dict[str, Any]:
        read = getattr(job, "progress", None)
        if read is None:
            return {}
        snapshot: dict[str, Any] = json.loads(read())
        return snapshot

    def _show(self, snapshot: Mapping[str, Any]) -> None:
        self._progress.update({**snapshot, "phase": self._phase, "elapsed_seconds": self.elapsed_seconds})
