"""Ctrl-C as what it is to a caller: the error `Interrupted`, whatever was going on at that moment; or too late."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from tipple.engines.base import STDIN
from tipple.errors import Interrupted, TippleError
from tipple.run.columnar import is_stream

__all__ = ["how_to_go_on", "interruptible", "is_interrupt", "too_late"]

P = ParamSpec("P")
R = TypeVar("R")


def is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind a failure.

    In the middle of an import or of making a class Python wraps it, and DuckDB has a word of its own for it.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        if isinstance(error, RuntimeError) and str(error) == "Query interrupted":
            return True
        error = error.__cause__ or error.__context__
    return error is not None


@contextmanager
def too_late() -> Iterator[None]:
    """Has Ctrl-C come too late: around what is published, and must not be said to be given up.

    DuckDB says of a COMMIT that it was interrupted, and carries it out. Handlers of the caller's own stay.
    """
    ignored = []
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is signal.default_int_handler:
                signal.signal(number, signal.SIG_IGN)
                ignored.append(number)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.default_int_handler)


def interruptible(verb: Callable[P, R]) -> Callable[P, R]:
    """A verb that can be resumed, as one that says of Ctrl-C how.

    Raises:
        Interrupted: Ctrl-C.
    """

    @wraps(verb)
    def telling(*args: P.args, **options: P.kwargs) -> R:
        try:
            return verb(*args, **options)
        except Interrupted as error:
            error.hint = error.hint or how_to_go_on(*args[:1], **options)
            raise
        except TippleError:
            raise
        except BaseException as error:
            if not is_interrupt(error):
                raise
            raise Interrupted("interrupted", hint=how_to_go_on(*args[:1], **options)) from None

    return telling


def how_to_go_on(sources: object = (), **options: object) -> str:
    """What to do after Ctrl-C in a verb that was called with these arguments."""
    if options.get("dry_run") is True:
        return "run the same command again: nothing was begun"
    if _is_read_once(sources):
        return (
            "load it again from its beginning, a reader or standard input by a new one: only loads of files can be "
            "resumed"
        )
    stays = options.get("atomic") is False
    if options.get("ledger") is False:
        first = "delete what is stored, and run" if stays else "run"
        return f"{first} the same command again: without a ledger it loads from the beginning"
    if options.get("restart") is True:
        anew = "stores what is stored once more" if stays else "loads all anew"
        return f"run the same command without --restart to go on where the ledger has rows; with it, it {anew}"
    return "run the same command again: it goes on where the ledger has rows (tipple jobs URL shows it)"


def _is_read_once(sources: object) -> bool:
    """Whether sources are, or have among them, what no later load goes on with: standard input, a table in memory."""
    if is_stream(sources):
        return True
    paths = sources if isinstance(sources, (list, tuple)) else [sources]
    return any(isinstance(path, (str, os.PathLike)) and os.fspath(path) == STDIN for path in paths)
