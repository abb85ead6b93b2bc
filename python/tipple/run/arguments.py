"""What the arguments of a verb may be: one check for the command line, job files and the library.

Types and choices are read off the verb's own signature, as job files read their keys off it; the ranges of numbers
stand here. What is wrong is said before anything is started, with the option's name and what it may be.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import operator
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from tipple.engines.core import shortage
from tipple.errors import UsageError, shorten_text
from tipple.plan.size import parse_size
from tipple.plan.url import is_utf8

__all__ = ["check_number", "checked", "plain_path", "refuse_set", "size_of"]

P = ParamSpec("P")
R = TypeVar("R")

LARGEST = 2**63 - 1
"""What ledgers and the core count with."""
LONGEST_SECONDS = 10**9
"""Thirty years, which every clock can still add to the time of day."""
MOST_STREAMS = 65_535
MOST_PARTS = 100_000
"""As the core has it; refused before the names of their files are looked at."""
SOURCES = "sources"
"""They may be many things, and what opens them says what they are not."""
URLS = frozenset({"into", "url"})
"""What a target's URL is must not be repeated: it may hold a password."""
CHECKED_ELSEWHERE = URLS | {SOURCES, "file"}
"""What names a file says so itself."""
NO_OPTIONS: Mapping[str, str] = {"file": "the job file", "url": "the target's URL", "job_id": "the job's id"}
"""What is called otherwise on the command line."""
RANGES: Mapping[str, tuple[int, int]] = {
    "commit_every": (1, LARGEST),
    "jobs": (1, MOST_STREAMS),
    "max_record_size": (1, LARGEST),
    "max_rejects": (0, LARGEST),
    "memory_limit": (1, LARGEST),
    "part": (1, MOST_PARTS),
    "parts": (1, MOST_PARTS),
    "retry_for": (0, LONGEST_SECONDS),
    "skip_lines": (0, LARGEST),
    "stall_timeout": (1, LONGEST_SECONDS),
}
"""The least and the greatest value of every option that is a number."""
WITHOUT_ORDER = frozenset({"force_null", "force_not_null", "table"})
"""Lists that mean the same in any order."""


def checked(verb: Callable[P, R]) -> Callable[P, R]:
    """The verb, with its arguments looked at before it begins, and want of memory or threads told as such.

    Raises:
        UsageError: by the verb, where one is not what it may be.
        TippleError: by the verb, where there was no memory or thread for it.
    """

    @functools.wraps(verb)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        hints = _hints(verb)
        # Type hints stand in the order of the parameters.
        given: list[Any] = list(arguments)
        for place, name in enumerate(list(hints)[: len(given)]):
            given[place] = _looked_at(verb, name, given[place])
        for name in options:
            if name in hints:
                options[name] = _looked_at(verb, name, options[name])
        try:
            return verb(*given, **options)
        except Exception as error:
            # It may come up anywhere, DuckDB's own among it.
            short = shortage(error)
            if short is None:
                raise
            raise short from error

    return call


def _looked_at(verb: Callable[..., Any], name: str, value: Any) -> Any:
    """An argument as the verb takes it."""
    if name == SOURCES or name.startswith("_"):
        return value
    hint = _hints(verb)[name]
    value = _plain(_listed(name, hint, value))
    if isinstance(value, os.PathLike) and _is_path(hint):
        value = plain_path(value)
    _check(name, hint, value, needed=name in _needed(verb))
    _check_encodable(name, value)
    _check_nameable(name, hint, value)
    return value


def _listed(name: str, hint: Any, value: Any) -> Any:
    """A list in place of what can be gone through only once, where a list is wanted."""
    if isinstance(value, (str, bytes, list, tuple)) or not isinstance(value, Iterable):
        return value
    if not any(get_origin(member) is Sequence for member in _members(hint)):
        return value
    if name not in WITHOUT_ORDER:
        refuse_set(_what(name), value)
    return list(value)


def refuse_set(what: str, value: object) -> None:
    """Refuses a set, which has another order in every process.

    Raises:
        UsageError: it is one.
    """
    if isinstance(value, (set, frozenset)):
        raise UsageError(f"{what} must be in an order, and a set has none", hint="give a list")


def _plain(value: Any) -> Any:
    """Texts and numbers of Python's own types, where numpy and others have some of theirs that no plan can hold."""
    if isinstance(value, str):
        # Not `str(value)`, which of an enumeration gives the name.
        return str.__str__(value)
    if getattr(value, "shape", None) == () and callable(getattr(value, "item", None)):
        # One of numpy's, whose integers are no `int`, and whose truths are no `bool`.
        value = value.item()
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return operator.index(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value)) if type(value) in (list, tuple) else list(map(_plain, value))
    return {_plain(key): _plain(element) for key, element in value.items()} if isinstance(value, Mapping) else value


def plain_path(path: str | os.PathLike[Any]) -> str:
    """A path as a text, also where it is one of bytes, as entries of `os.scandir(b".")` are."""
    return str.__str__(os.fsdecode(path))


def _is_path(hint: Any) -> bool:
    return any(get_origin(member) is os.PathLike for member in _members(hint))


def _check_nameable(name: str, hint: Any, value: Any) -> None:
    """Python asks no system for a file whose name has a zero character, and has an error of its own for it."""
    if _is_path(hint) and name not in CHECKED_ELSEWHERE and isinstance(value, str) and "\0" in value:
        raise UsageError(f"{_what(name)} {value!r} holds a zero character, which no path does", hint="correct it")


def _check_encodable(name: str, value: Any) -> None:
    """Bytes of a command line that are no UTF-8 arrive as surrogates, which no target, ledger or report can take."""
    if name in CHECKED_ELSEWHERE:
        return
    texts = [value] if isinstance(value, str) else value
    for text in texts if isinstance(texts, (list, tuple)) else ():
        if isinstance(text, str) and not is_utf8(text):
            raise UsageError(
                f"{_what(name)} {text!r} is not UTF-8",
                hint="give it in UTF-8; where your shell runs in another encoding, set LC_ALL=C.UTF-8",
            )


def check_number(name: str, value: int) -> str | None:
    """What is wrong with the number that is given for an option, or None."""
    least, greatest = RANGES.get(name, (None, None))
    if least is None or greatest is None or least <= value <= greatest:
        return None
    return f"must be {_range(name)}, and not {value}"


def size_of(option: str, size: int | str) -> int:
    """Bytes, as an option says them.

    Raises:
        UsageError: it is no size, or too small or large for the option.
    """
    try:
        size_bytes = parse_size(size) if isinstance(size, str) else size
    except UsageError as error:
        raise UsageError(f"{option}: {error}", hint=error.hint) from None
    complaint = check_number(option.strip("-").replace("-", "_"), size_bytes)
    if complaint is not None:
        raise UsageError(f"{option} {complaint}", hint="write a size such as 64MB")
    return size_bytes


@functools.cache
def _needed(verb: Callable[..., Any]) -> frozenset[str]:
    """The arguments that have no default."""
    parameters = inspect.signature(verb).parameters.values()
    return frozenset(one.name for one in parameters if one.default is inspect.Parameter.empty)


@functools.cache
def _hints(verb: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(verb)


def _check(name: str, hint: Any, value: Any, *, needed: bool) -> None:
    members = _members(hint)
    if any(_fits(name, member, value) for member in members):
        return
    wanted = [text for member in members if (text := _wanted(name, member))]
    # An array is shown in lines.
    given = f"of type {type(value).__name__}" if name in URLS else shorten_text(" ".join(repr(value).split()))
    raise UsageError(
        f"{_what(name)} must be {' or '.join(dict.fromkeys(wanted))}, and not {given}",
        hint="correct it" if needed else "correct it, or leave it out for its default",
    )


def _what(name: str) -> str:
    """An argument, as messages call it."""
    return NO_OPTIONS.get(name, f"--{name.replace('_', '-')}")


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fits(name: str, member: Any, value: Any) -> bool:
    origin = get_origin(member) or member
    if origin is Literal:
        # An array compares with each of them by its elements.
        return isinstance(value, str) and value in get_args(member)
    if origin is bool or origin is type(None):
        return isinstance(value, origin)
    if origin is int:
        return isinstance(value, int) and not isinstance(value, bool) and check_number(name, value) is None
    if origin is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if origin is str:
        return isinstance(value, str)
    if origin is Sequence:
        # A text is one of its letters, which nobody means.
        is_list = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
        return is_list and all(_fits(name, get_args(member)[0], element) for element in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_fits(name, get_args(member)[0], key) for key in value)
    if origin is Callable:
        return callable(value)
    return isinstance(value, origin) if isinstance(origin, type) else True


def _wanted(name: str, member: Any) -> str:
    origin = get_origin(member) or member
    if origin is Literal:
        return ", ".join(map(str, get_args(member)))
    if origin is int:
        return _range(name)
    if origin is Sequence:
        return "a list of whole numbers" if get_args(member) == (int,) else "a list of texts"
    plain = {
        bool: "true or false", float: "a number", str: "a text", Callable: "a function", Mapping: "a mapping by texts"
    }  # fmt: skip
    return plain.get(origin, "a path" if origin is not type(None) else "")


def _range(name: str) -> str:
    least, greatest = RANGES.get(name, (-LARGEST - 1, LARGEST))
    return f"a whole number from {least} to {greatest}"
