"""Imports that Ctrl-C does not tear apart.

A driver in C whose import it ends prints what nobody can catch, and one in Python stays half imported: Python keeps the
modules that were done and takes the package for missing, so that the process cannot use it any more.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uninterrupted"]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Has Ctrl-C wait, around an import; it comes as soon as that has ended.

    To block the signals is not enough, since any thread of the process may get them, and Python's main one hears of it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    own = [
        number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is signal.default_int_handler
    ]
    try:
        for number in own:
            signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for number in own:
            signal.signal(number, signal.default_int_handler)
        if came:
            raise KeyboardInterrupt
