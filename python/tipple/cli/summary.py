"""`--summary FILE.json` of the verbs that have it."""

from __future__ import annotations

from pathlib import Path

from tipple.errors import TippleError

__all__ = ["write_summary"]


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
