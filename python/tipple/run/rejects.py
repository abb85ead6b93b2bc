"""The files of rejects: raw records, to be mended and loaded again; beside them reasons, and how to read them."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from tipple.engines.base import Reject
from tipple.errors import TippleError, UsageError
from tipple.plan.rejects import RejectPolicy, parse_limit
from tipple.plan.url import TableName
from tipple.run.outputs import NamedFile, check_place
from tipple.run.replay import MOST_OPEN_ENDED, OPEN_ENDED_BYTES, Reading

REASON_COLUMNS = ("file", "record_number", "byte_offset", "column", "reason", "sqlstate")


MANY_LINES = 20
"""So many lines of one rejected record are told, for they may be as many records."""
MOST_REMARKS = 3
TOO_LONG = "54000"
"""SQLSTATE of a record that is longer than the limit; of that only the beginning is kept."""


def where_kept(job_id: str, *, ledger: bool, reads_once: bool) -> str:
    """What to do where the files of a load's rejects cannot be written, though its rows are published."""
    if not ledger:
        return "nothing else has them: mend the cause, take the load's rows out of the table, and load it once more"
    if reads_once:
        return f"the ledger has them: SELECT reason, record FROM tipple.reject WHERE job_id = '{job_id}'"
    return "mend the cause and run the same command again: it loads nothing twice and writes the rejects"


def write_rejects(
    policy: RejectPolicy, rejects: Iterable[Reject], paths: Sequence[str], reading: Reading, *, remedy: str
) -> int:
    """Writes the files, each complete before it has its name, and gives the number of rejects.

    Args:
        policy: where to write.
        rejects: in the order of the sources.
        paths: the source files, by the numbers that the rejects give.
        reading: how the records are to be read again.
        remedy: what to do where that is not possible.

    Raises:
        TippleError: a file cannot be written.
    """
    unfinished = [_unfinished(path) for path in policy.paths]
    count = 0
    open_ended: list[bytes] = []
    try:
        with (
            open(unfinished[0], "wb") as raw,
            open(unfinished[1], "w", encoding="utf-8", errors="surrogateescape", newline="") as reasons,
            open(unfinished[2], "wb") as kept,
        ):
            table = csv.writer(reasons, lineterminator="\n")
            table.writerow(REASON_COLUMNS)
            for reject in rejects:
                raw.write(reject.record)
                if len(open_ended) < MOST_OPEN_ENDED and reading.leaves_open(reject.record):
                    open_ended.append(reject.record[:OPEN_ENDED_BYTES])
                table.writerow(
                    (
                        paths[reject.source],
                        reject.record_number,
                        "" if reject.byte_offset is None else reject.byte_offset,
                        reject.column or "",
                        reject.reason,
                        reject.sqlstate,
                    )
                )
                count += 1
            kept.write(msgspec.structs.replace(reading, open_ended=open_ended).json)
        for path, name in zip(unfinished, policy.paths, strict=True):
            os.replace(path, name)
    except OSError as error:
        for path in unfinished:
            with suppress(OSError):
                os.remove(path)
        raise TippleError(
            f"the rows were published, but the rejects could not be written to {policy.path}: {error.strerror}",
            hint=remedy,
        ) from None
    return count


def earlier_rejects(policy: RejectPolicy) -> list[str]:
    """What to say where a load has no rejects, but a file of rejects is there, which might be taken for its own.

    It stays: somebody may be mending those records.
    """
    try:
        if os.path.getsize(policy.path) == 0:
            return []
    except OSError:
        return []
    return [f"{policy.path} is of an earlier load: this one has no rejects; load those with --replay, or remove it"]


def remarking(rejects: Iterable[Reject], paths: Sequence[str], notes: list[str]) -> Iterator[Reject]:
    """The same rejects; notes those that may be many records, because a quote was not closed where it should be."""
    told = 0
    for reject in rejects:
        lines = reject.record.count(b"\n") or reject.record.count(b"\r")
        if (lines >= MANY_LINES or reject.sqlstate == TOO_LONG) and told < MOST_REMARKS:
            told += 1
            size, remedy = f"{lines:,} lines", "mend it, and load those lines with --replay"
            if reject.sqlstate == TOO_LONG:
                # Of such a record only the beginning is kept.
                size, remedy = "more bytes than a record may have", "mend the source, and load it with --restart"
            notes.append(
                f"{paths[reject.source]}: record {reject.record_number} is one reject of {size}: if a quote is missing "
                f"or too many there, what follows it went with it; {remedy}"
            )
        yield reject


def naming_keys(
    rejects: Iterable[Reject], null_in_key: Callable[[str | None, str | None], str | None]
) -> Iterator[Reject]:
    """The same rejects; those with NULL in a key get the reason that `null_in_key` gives for column and SQLSTATE."""
    for reject in rejects:
        reason = null_in_key(reject.column, reject.sqlstate)
        yield reject if reason is None else msgspec.structs.replace(reject, reason=reason)


def numbered_by_row(rejects: Iterable[Reject]) -> Iterator[Reject]:
    """Rejects of columnar sources: the core gives the row, from 0, where text has its byte offset."""
    for reject in rejects:
        yield msgspec.structs.replace(reject, record_number=(reject.byte_offset or 0) + 1, byte_offset=None)


def check_writable(policy: RejectPolicy) -> None:
    """Finds out before the load, rather than after it, that the files cannot be written.

    Raises:
        UsageError: they cannot.
    """
    for path in policy.paths:
        check_place("--rejects", path)
        check_place("--rejects", _unfinished(path))
        if os.path.exists(path) and not os.path.isfile(path):
            # A new file takes the place of the old one, also that of /dev/null.
            raise UsageError(f"--rejects {path} is not a regular file", hint="give another name")


def outputs_of(policy: RejectPolicy | None) -> list[NamedFile]:
    """What a load writes of its rejects."""
    if policy is None:
        return []
    return [NamedFile("--rejects", name) for path in policy.paths for name in (path, _unfinished(path))]


def _unfinished(path: str) -> str:
    """Where a file is written until it is complete."""
    return f"{path}.unfinished"


def reject_policy(
    table: TableName,
    on_error: str,
    max_rejects: int | str,
    path: str | os.PathLike[str] | None,
    *,
    replay: bool,
) -> RejectPolicy | None:
    """What the options say of records that cannot be stored; None where the first one ends the load.

    Raises:
        UsageError: options that contradict each other, or no file to replay.
    """
    count, percent = parse_limit(str(max_rejects))
    if on_error == "stop" and not replay:
        if path is not None or count != 0:
            raise UsageError(
                "--rejects and --max-rejects have no meaning without --on-error skip",
                hint="add --on-error skip, or leave them out",
            )
        return None
    chosen = os.fspath(path) if path is not None else f"{table.name}.rejects"
    if not chosen.strip():
        raise UsageError("--rejects names no file", hint="give a name, or leave the option out")
    if replay and not os.path.isfile(chosen):
        raise UsageError(
            f"there is no file of rejects {chosen}", hint="give the one of the earlier load: --rejects FILE"
        )
    return RejectPolicy(max_count=count, max_percent=percent, path=chosen)
