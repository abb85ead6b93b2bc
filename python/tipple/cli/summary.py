"""`--summary FILE.json` of the verbs that have it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tipple.errors import TippleError
from tipple.report.failure import LoadFailure
from tipple.report.schema import encode_summary
from tipple.run.outputs import write_at_once

__all__ = ["telling_failure", "write_summary"]


@contextmanager
def telling_failure(path: str | None) -> Iterator[None]:
    """Says in the summary why a load, or a job of several, has no report.

    Args:
        path: of `--summary`. What stands there is left alone: it was found to be the load's own, or it is no summary.
    """
    try:
        yield
    except TippleError as error:
        failure = LoadFailure.of(error)
        # Why the load failed is what matters, and is said on stderr.
        if path is not None and failure.status != "refused" and _is_free(path):
            with suppress(TippleError):
                write_summary(path, encode_summary(failure), done="nothing was published", repeats=False)
        raise


def _is_free(path: str) -> bool:
    """Whether nothing is lost by writing there: what an earlier run had written is gone, or empty behind a link."""
    return not os.path.isfile(path) or os.path.getsize(path) == 0


def write_summary(path: str, text: str, *, done: str, repeats: bool) -> None:
    """Writes it.

    Args:
        done: what the command has done.
        repeats: whether the same command would do it once more (`--restart`, `--no-ledger`).

    Raises:
        TippleError: it cannot be written after all.
    """
    try:
        write_at_once(path, text)
    except OSError as error:
        raise TippleError(
            f"{done}, but the summary {path} could not be written: {error.strerror}",
            hint="check the path; the same command would load once more"
            if repeats
            else "check the path; running the command again changes nothing that is done, and writes the summary",
        ) from None
