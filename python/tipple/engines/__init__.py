"""The engines by the name that a target's URL gives them. A driver is imported when its engine is first used."""

from __future__ import annotations

import importlib
from typing import cast

from tipple.engines.base import Engine
from tipple.importing import uninterrupted

_MODULES = {"duckdb": "tipple.engines.duckdb", "postgresql": "tipple.engines.postgresql"}


def find_engine(name: str) -> Engine:
    """The engine `name`."""
    with uninterrupted():
        return cast(Engine, importlib.import_module(_MODULES[name]))


def engine_names() -> tuple[str, ...]:
    """All engines that there are."""
    return tuple(_MODULES)
