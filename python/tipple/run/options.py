"""The options of `load`, as a job file may write them: read off the function itself, so that there is one list only."""

from __future__ import annotations

import functools
import inspect
import operator
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from tipple.run.load import load

__all__ = ["choices_of", "key_of", "option_types"]

NOT_OF_A_TABLE = frozenset({"dry_run", "progress", "resume", "restart"})
"""What is said of a whole job, or of one run of it."""


def key_of(parameter: str) -> str:
    """The key for a parameter of `load`: spelled as the command line's option is."""
    return parameter.replace("_", "-")


@functools.cache
def option_types() -> Mapping[str, Any]:
    """For each key the type of its value, without what TOML cannot hold."""
    hints = typing.get_type_hints(load)
    names = [
        name for name in inspect.signature(load).parameters if name not in NOT_OF_A_TABLE and not name.startswith("_")
    ]
    return {key_of(name): _in_toml(hints[name]) for name in names}


def choices_of(wanted: Any) -> list[str]:
    """The values that a type of literals allows; none where it is another type."""
    return [str(choice) for choice in get_args(wanted)] if get_origin(wanted) is Literal else []


def _in_toml(hint: Any) -> Any:
    """The part of a type that TOML has values for; None where nothing is left."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        members = [found for found in map(_in_toml, get_args(hint)) if found is not None]
        return functools.reduce(operator.or_, members) if members else None
    if origin is Literal or hint in (str, int, float, bool):
        return hint
    if origin is Sequence:
        element: Any = _in_toml(get_args(hint)[0])
        return types.GenericAlias(list, (element,)) if element is not None else None
    return None
