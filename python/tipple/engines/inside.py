"""Which thread a call is made for: a load that is called from inside another one must not wait for that one.

A load calls its progress function on its own thread, and has its reader read on another one; what is called there, it
waits for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

_serves: dict[int, int] = {}
"""The thread whose load waits for what a thread reads right now, by that one."""


def read_for(thread: int, items: Iterable[Item]) -> Iterator[Item]:
    """The items, whatever thread asks for them: each is made for a load of `thread`."""
    iterator = iter(items)
    while True:
        own = threading.get_ident()
        before = _serves.get(own)
        _serves[own] = thread
        try:
            item = next(iterator)
        except StopIteration:
            return
        finally:
            if before is None:
                del _serves[own]
            else:
                _serves[own] = before
        yield item


def callers() -> set[int]:
    """This thread, and those whose loads wait for it."""
    found: set[int] = set()
    thread: int | None = threading.get_ident()
    while thread is not None and thread not in found:
        found.add(thread)
        thread = _serves.get(thread)
    return found
