"""The engines by the name that a target's URL gives them. A driver is imported when its engine is first used."""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from tipple.engines.base import Engine

_MODULES = {"duckdb": "tipple.engines.duckdb", "postgresql": "tipple.engines.postgresql"}


def find_engine(name: str) -> Engine:
    """The engine `name`."""
    with _uninterrupted():
        return cast(Engine, importlib.import_module(_MODULES[name]))


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Has Ctrl-C wait: a driver in C whose import it ends prints what nobody can catch.

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


def engine_names() -> tuple[str, ...]:
    """All engines that there are."""
    return tuple(_MODULES)
