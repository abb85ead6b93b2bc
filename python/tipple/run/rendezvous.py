"""Where the loads of a job wait for each other, to be published in one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from tipple.engines.base import NotPublished
from tipple.errors import Interrupted

__all__ = ["Rendezvous"]

WAIT_SECONDS = 0.1


class Rendezvous:
    """`Together` for loads on threads of one process."""

    def __init__(self, loads: int, stop: threading.Event) -> None:
        """
        Args:
            loads: how many there are.
            stop: ends all waits.
        """
        self._expected = loads
        self._stop = stop
        self._changed = threading.Condition()
        self._places: dict[str, int] = {}
        self._waiting: list[tuple[int, Any]] = []
        """With its place in the order."""
        self._sent_back: list[Any] = []
        self._failed: NotPublished | None = None
        self._published = False
        self._publishing = False
        self.aborted = False
        """Whether nothing will be published any more."""

    def place_of(self, table: str) -> int:
        """Its place in the order of publishing: that in which tables were staged at first, each behind those that it
        comes after. They keep it where they load something again.
        """
        with self._changed:
            return self._places.setdefault(table, len(self._places))

    def meet(self, load: Any, publish: Callable[[Sequence[Any]], Sequence[Any]], place: int) -> bool:
        """Waits for all loads, and has one of them publish all; whether that was done. See `Together`.

        Args:
            load: that has come.
            publish: publishes all, those of a lower `place` first.
            place: as `place_of` gives it.
        """
        with self._changed:
            self._waiting.append((place, load))
            self._changed.notify_all()
            while not self._published:
                if any(load is other for other in self._sent_back):
                    self._sent_back = [other for other in self._sent_back if other is not load]
                    return False
                # Whoever publishes must come to an end before anybody knows how.
                if not self._publishing:
                    if self._failed is not None and self._failed.load is load:
                        raise self._failed.cause
                    if self.aborted:
                        raise Interrupted(
                            "a table to be published together with this one failed",
                            hint="mend that one, and run the job again",
                        )
                    if self._stop.is_set():
                        raise KeyboardInterrupt
                    if len(self._waiting) == self._expected:
                        self._publish(publish)
                        continue
                self._changed.wait(WAIT_SECONDS)
            return True

    def _publish(self, publish: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        """Publishes all that wait; called and left with the lock held, which others may have meanwhile."""
        self._publishing = True
        self._changed.release()
        try:
            back = list(publish([load for _, load in sorted(self._waiting, key=itemgetter(0))]))
        except NotPublished as failed:
            self.aborted, self._failed = True, failed
            return
        except BaseException:
            self.aborted = True
            raise
        finally:
            self._changed.acquire()
            self._publishing = False
            self._changed.notify_all()
        self._published = not back
        self._sent_back = back
        self._waiting = [(place, load) for place, load in self._waiting if not any(load is other for other in back)]

    def leave(self) -> None:
        """One load fewer: it has nothing to publish."""
        with self._changed:
            self._expected -= 1
            self._changed.notify_all()

    def abort(self) -> None:
        """Nothing will be published: a load has failed."""
        with self._changed:
            self.aborted = True
            self._changed.notify_all()
