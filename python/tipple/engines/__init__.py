"""The engines by the name that a target's URL gives them. A driver is imported when its engine is first used."""

from __future__ import annotations

import importlib
import signal
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
    """Has Ctrl-C wait: a driver in C whose import it ends prints what nobody can catch."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def engine_names() -> tuple[str, ...]:
    """All engines that there are."""
    return tuple(_MODULES)
