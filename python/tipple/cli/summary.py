"""`--summary FILE.json` of the verbs that have it."""

from __future__ import annotations

import os
from pathlib import Path

from tipple.errors import TippleError, UsageError

__all__ = ["check_summary", "write_summary"]


def check_summary(path: str) -> None:
    """Finds out before the load, rather than after it, that the summary cannot be written."""
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory) or not os.access(path if os.path.exists(path) else directory, os.W_OK):
        raise UsageError(f"the summary {path} cannot be written", hint="check the path and the rights to it")


def write_summary(path: str, text: str) -> None:
    """Writes it.

    Raises:
        TippleError: it cannot be written after all.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise TippleError(
            f"the rows were published, but the summary {path} could not be written: {error.strerror}",
            hint="check the path; running the command again changes nothing and writes the summary",
        ) from None
