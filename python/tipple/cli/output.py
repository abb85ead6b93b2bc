"""What the command line prints on stdout, and that it may not be possible to print it.

Click and Rich each have their own answer to a closed pipe: they end the process. What a load has done must not be
judged by who listens, so a failure to write is an exception of our own here, which neither of them knows.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "StdoutFailed",
    "after_the_deed",
    "console",
    "flush",
    "guard",
    "has_printed_json",
    "print_json",
    "say",
    "show_log",
]

LEAST_WIDTH = 60
"""With fewer columns there would be nothing to read, and with `COLUMNS=0` nothing at all."""


_NOT_WRAPPED = 10_000
"""Columns of what is no terminal."""


class StdoutFailed(Exception):
    """Stdout takes nothing any more."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.is_closed_pipe = isinstance(error, BrokenPipeError)


class _Stdout(io.FileIO):
    """Stdout's file descriptor."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            # What is left in buffers would be tried again at the end of the process.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            raise StdoutFailed(error) from None


def guard() -> None:
    """Has writing to stdout raise `StdoutFailed`; what was closed by the caller takes everything, and keeps nothing."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Stdout(sys.stdout.fileno(), "w", closefd=False)),
        encoding=sys.stdout.encoding,
        # As on stderr: what the locale's encoding has no character for must not decide the exit status.
        errors="backslashreplace",
        line_buffering=sys.stdout.isatty(),
    )


def console(least_width: int = LEAST_WIDTH, *, highlight: bool = True) -> Console:
    """Stdout, as wide as the terminal, but not too narrow to be read; what goes into a file or pipe is not wrapped."""
    from rich.console import Console

    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return Console(file=sys.stdout, width=max(Console(file=sys.stdout).width, least_width), highlight=highlight)
    return Console(file=cast(TextIO, _Trimmed(sys.stdout)), width=_NOT_WRAPPED, highlight=highlight)


class _Trimmed:
    """What Rich needs of a stream, without the spaces at the ends of lines that fill a table up to its width."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.encoding = out.encoding

    def write(self, text: str) -> int:
        self._out.write(re.sub("[ ]+$", "", text, flags=re.MULTILINE))
        return len(text)

    def flush(self) -> None:
        self._out.flush()


_printed_json = False


def has_printed_json() -> bool:
    """Whether stdout has its JSON, or is about to."""
    return _printed_json


def print_json(text: str) -> None:
    """JSON on stdout: in UTF-8, whatever the locale's encoding is (RFC 8259)."""
    global _printed_json
    _printed_json = True
    out = getattr(sys.stdout, "buffer", None)
    if out is None:
        sys.stdout.write(text + "\n")
        return
    sys.stdout.flush()
    out.write(text.encode() + b"\n")


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that a terminal may obey; not those that end lines and move to columns."""


def say(text: str) -> None:
    """Lines on stderr, with escapes for what names of files may have that is not for a terminal.

    Where stderr takes nothing, the exit status says what it can.
    """
    harmless = _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    with suppress(OSError, ValueError):
        print(harmless, file=sys.stderr, flush=True)


def show_log() -> None:
    """Has what is said to the logger appear on stderr: for verbs without a display."""
    import logging

    class OnStderr(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(f"tipple: warning: {record.getMessage()}")

    logger = logging.getLogger("tipple")
    logger.handlers = [OnStderr()]


def flush() -> None:
    """Writes what is still in a buffer.

    Raises:
        StdoutFailed: it cannot be written.
    """
    sys.stdout.flush()


@contextmanager
def after_the_deed(done: str) -> Iterator[None]:
    """Around the printing of a report: whether it can be written does not decide the exit status.

    Args:
        done: what stays true all the same.
    """
    try:
        yield
        flush()
    except StdoutFailed as error:
        say(f"tipple: {done}, but the report could not be written to stdout: {error}")
