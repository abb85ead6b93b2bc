"""What a load borrows from the verb that it is a part of: its session, its clock, its files, the way to stop it.

A load of its own (`tipple load`) borrows nothing. One of several in a job (`tipple run`) runs on a thread, where no
Ctrl-C arrives, and may have to publish together with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tipple.engines import find_engine
from tipple.engines.base import Session, Together
from tipple.plan.url import Target
from tipple.report.progress import Progress, log_warning
from tipple.run.outputs import Files, claim_outputs
from tipple.run.runner import JobRunner

__all__ = ["ALONE", "Part"]


class Part:
    """The surroundings of a load that is alone."""

    together: Together | None = None
    """With what it publishes."""
    alone = True
    """Whether no other load is under way in this process."""
    counts_slices = True
    """Whether a plan cuts the sources, which means reading all of a file with quotes."""
    beside: frozenset[str] = frozenset()
    """The names, without schemas, of all tables that the same job loads."""

    def __init__(self, summary: str | None = None, meanwhile: Callable[[], object] | None = None) -> None:
        """`summary` is the file that the caller will write the report to; `meanwhile` is what else it has to do, and
        can while the core is at work."""
        self.summary = summary
        self.meanwhile = meanwhile

    def claim(self, files: Files) -> None:
        """Takes note of the files that a load reads and writes, before it touches one.

        Raises:
            UsageError: it would overwrite what it needs.
        """
        claim_outputs(files, self.summary)

    @contextmanager
    def session(self, target: Target, *, read_only: bool) -> Iterator[Session]:
        """A session for control, for as long as the load takes."""
        session = self.connect(target, read_only=read_only)
        try:
            yield session
        finally:
            session.close()

    def connect(self, target: Target, *, read_only: bool) -> Session:
        """Makes the session.

        Raises:
            ConnectionFailed: it does not come about.
        """
        return find_engine(target.engine).connect(target, read_only=read_only)

    def followers(self, request_key: bytes) -> Sequence[bytes]:
        """Takes note of the load's key; gives those of the loads into its table that come later in the same job."""
        return ()

    def find_useful(self, streams: int) -> None:
        """Takes note of how many streams the load has something to do for."""

    def runner(self, display: Progress) -> JobRunner:
        """What runs the core's jobs."""
        return JobRunner(display, meanwhile=self.meanwhile)

    def warn(self, text: str) -> None:
        """Says something at once, where the caller takes snapshots only; from any thread."""
        log_warning(text)

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Around what is done with the session when all is published."""
        yield


ALONE = Part()
