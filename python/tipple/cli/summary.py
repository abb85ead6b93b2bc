"""`--summary FILE.json` of the verbs that have it."""

from __future__ import annotations

from pathlib import Path

from tipple.errors import TippleError

__all__ = ["write_summary"]


def write_summary(path: str, text: str, *, done: str, repeats: bool) -> None:
    """Writes it.

    Args:
        done: what the command has done.
        repeats: whether the same command would do it once more (`--restart`, `--no-ledger`).

    Raises:
        TippleError: it cannot be written after all.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise TippleError(
            f"{done}, but the summary {path} could not be written: {error.strerror}",
            hint="check the path; the same command would load once more"
            if repeats
            else "check the path; running the command again changes nothing that is done, and writes the summary",
        ) from None
