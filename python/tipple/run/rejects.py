"""The two files of rejects: the raw records, to be mended and loaded again, and beside them their reasons."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from tipple.engines.base import Reject
from tipple.errors import TippleError
from tipple.plan.rejects import RejectPolicy

REASON_COLUMNS = ("file", "record_number", "byte_offset", "column", "reason", "sqlstate")


def write_rejects(policy: RejectPolicy, rejects: Iterable[Reject], paths: Sequence[str]) -> int:
    """Writes both files, each complete before it has its name, and gives the number of rejects.

    Args:
        policy: where to write.
        rejects: in the order of the sources.
        paths: the source files, by the numbers that the rejects give.

    Raises:
        TippleError: a file cannot be written.
    """
    unfinished = [f"{path}.unfinished" for path in (policy.path, policy.reasons_path)]
    count = 0
    try:
        with (
            open(unfinished[0], "wb") as raw,
            open(unfinished[1], "w", encoding="utf-8", errors="surrogateescape", newline="") as reasons,
        ):
            table = csv.writer(reasons, lineterminator="\n")
            table.writerow(REASON_COLUMNS)
            for reject in rejects:
                raw.write(reject.record)
                table.writerow(
                    (
                        paths[reject.source],
                        reject.record_number,
                        reject.byte_offset,
                        reject.column or "",
                        reject.reason,
                        reject.sqlstate,
                    )
                )
                count += 1
        os.replace(unfinished[0], policy.path)
        os.replace(unfinished[1], policy.reasons_path)
    except OSError as error:
        for path in unfinished:
            with suppress(OSError):
                os.remove(path)
        raise TippleError(
            f"the rows were published, but the rejects could not be written to {policy.path}: {error.strerror}",
            hint="mend the cause and run the same command again: it loads nothing twice and writes the rejects",
        ) from None
    return count


def check_writable(policy: RejectPolicy) -> None:
    """Finds out before the load, rather than after it, that the files cannot be written.

    Raises:
        TippleError: they cannot.
    """
    for path in (policy.path, policy.reasons_path):
        directory = os.path.dirname(os.path.abspath(path))
        if os.path.isdir(path) or not os.access(path if os.path.exists(path) else directory, os.W_OK):
            raise TippleError(
                f"the rejects cannot be written to {path}", hint="check --rejects and the rights to it", exit_status=2
            )
