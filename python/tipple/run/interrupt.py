"""Ctrl-C as what it is to a caller: the error `Interrupted`, whatever was going on at that moment; or too late."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tipple.errors import Interrupted, TippleError

__all__ = ["interruptible", "is_interrupt", "too_late"]


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


@contextmanager
def interruptible() -> Iterator[None]:
    """Around a verb that can be resumed.

    Raises:
        Interrupted: Ctrl-C.
    """
    try:
        yield
    except TippleError:
        raise
    except BaseException as error:
        if not is_interrupt(error):
            raise
        raise Interrupted("interrupted", hint="run the same command again to go on") from None
