"""What the ledger keeps of a load's command, so that its job can be gone on with where the command is not at hand."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tipple.run.guess import AUTO
from tipple.run.missing_table import TPCH

__all__ = ["options_to_keep"]

_NOT_KEPT = frozenset({"sources", "into", "rejects", "resume", "restart", "dry_run", "ledger", "progress", "_part"})
"""Sources are in the ledger anyway; the target is where the ledger is; the others are about one run."""


def options_to_keep(verb: Callable[..., Any], given: Mapping[str, Any], *, rejects: str | None) -> dict[str, Any]:
    """The options of a call of `verb` that are not its defaults, as JSON has them.

    Args:
        verb: whose signature tells the defaults.
        given: its arguments by name.
        rejects: the file of rejects, where there is one: by default its name is made of the table's.
    """
    defaults = inspect.signature(verb).parameters
    kept = {
        name: _whole(value) if name == "schema" else value
        for name, value in given.items()
        if name not in _NOT_KEPT and value != defaults[name].default
    }
    if rejects is not None:
        # The next run may have another working directory.
        kept["rejects"] = os.path.abspath(rejects)
    options: dict[str, Any] = msgspec.to_builtins(kept)
    return options


def _whole(schema: str | os.PathLike[str]) -> str:
    name = os.fspath(schema)
    return name if name in (TPCH, AUTO) else os.path.abspath(name)
