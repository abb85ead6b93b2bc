"""Where the core keeps rejects until they are in the ledger or in the reject file: a directory of one run's own.

It holds raw records, and nothing may be left of them. A process that is killed removes nothing, so who makes such a
directory next does: a directory is locked (flock) by its owner as long as it is in use, and nobody can hold the lock
for a process that is dead.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tipple._core import RejectFiles, SpooledRejects
from tipple.engines.base import LoadTask
from tipple.errors import UsageError

COLUMNS = "job_id, n, source, byte_offset, record_index, column_name, reason, sqlstate, record"
"""Of the ledger's table, in the order of a row (the core's `rejects/row.rs`)."""

ALL = "*.rows"
"""The names of files that hold rejects ..."""
REFUSED = "refused-*.rows"
"""... and of those whose records were stored before they were refused."""
TOLD = ".told"
"""How names of those end which the ledger has already."""

PREFIX = "tipple-spool-"
NO_ROOM = "free space there, or set TMPDIR to a directory with more of it; then run the same command again"
"""What to do where a file of such a directory cannot be written."""


class Directory:
    """A directory for files of rejects. Making one removes those of the same user whose owners are dead."""

    def __init__(self) -> None:
        try:
            parent = tempfile.gettempdir()
            remove_abandoned(parent)
            while not self._made(parent):
                pass
        except OSError as error:
            raise UsageError(
                f"rejects need a directory for temporary files: {error.strerror}",
                hint="set TMPDIR to a directory where files can be written, or free space there",
            ) from None

    def _made(self, parent: str) -> bool:
        """Makes it; False where another process took it for abandoned before it was locked."""
        self.name = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        try:
            self._descriptor = _open(self.name)
        except FileNotFoundError:
            return False
        # Where locks are unknown, nobody gets one, and so nobody takes the directory for abandoned.
        with suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        if not os.path.isdir(self.name):
            os.close(self._descriptor)
            return False
        return True

    def close(self) -> None:
        """Removes the directory and its files."""
        try:
            # What tidies up directories of temporary files may have been there first.
            with suppress(FileNotFoundError):
                _remove(self.name, self._descriptor)
        finally:
            os.close(self._descriptor)


def remove_abandoned(parent: str) -> None:
    """Removes the directories for rejects in `parent` that are this user's and nobody's in use.

    Others may write into `parent`: only what was opened as a directory of this user is touched, through that.
    """
    try:
        with os.scandir(parent) as entries:
            names = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    except PermissionError:
        # A directory that takes files and does not say which it has.
        return
    for name in names:
        try:
            descriptor = _open(name)
        except OSError:
            # Gone, another user's, or no directory.
            continue
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(name, descriptor)
        except OSError:
            # In use, or not ours to remove: no load fails for what another one has left.
            continue
        finally:
            os.close(descriptor)


def _open(name: str) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _remove(name: str, descriptor: int) -> None:
    """Files through the directory that is open, whatever the name may mean by now; then that, if it is empty."""
    for file in os.listdir(descriptor):
        os.unlink(file, dir_fd=descriptor)
    os.rmdir(name)


def tell(
    task: LoadTask, told: RejectFiles, before: Mapping[int, int], expected: Mapping[int, int] | None = None
) -> bool:
    """Adds the rejects of this run to the files that the user gets, in the order of the sources.

    Args:
        task: the load.
        told: those files.
        before: by slice, how many records of its source come before it; no word of slices whose records have the
            source's numbers already.
        expected: by slice, how many rejects the ledger has. Where this run has not seen just these, False comes back,
            and nothing is added.
    """
    return told.add_spooled([str(path) for path in files(task)], before, expected)


def places(task: LoadTask, names: str = ALL) -> SpooledRejects:
    """Slice, source and byte offset of the rejects of this run, in no order; all of them, as batches."""
    return SpooledRejects([str(path) for path in files(task, names)])


def files(task: LoadTask, names: str = ALL) -> list[Path]:
    """Those that hold rejects of this run."""
    return [path for path in sorted(Path(task.spool or os.devnull).glob(names)) if path.stat().st_size]


def settle(task: LoadTask) -> None:
    """Makes room for another run of the core in the same load: what is in the ledger is put aside, for whoever says why
    records were rejected; the rest is kept apart."""
    for path in Path(task.spool or os.devnull).glob("[!k]*.rows"):
        if task.ledger:
            path.rename(path.with_name(f"{uuid.uuid4().hex}{TOLD}"))
        else:
            path.rename(path.with_name(f"kept-{uuid.uuid4().hex}.rows"))


def discard(task: LoadTask, *, whole: bool = False) -> None:
    """Removes what a run of the core has left there that is to be done again from the beginning: rejects, and keys.

    `whole`: the load begins anew, and with it what earlier runs of the core have kept apart.
    """
    for names in (ALL if whole else "[!k]*.rows", f"*{TOLD}", "*.hashes", "*.places"):
        for path in Path(task.spool or os.devnull).glob(names):
            path.unlink()


def first_records(slices: Sequence[dict[str, Any]], counts: Sequence[tuple[int, int, int]]) -> dict[int, int]:
    """By slice: how many records of its source come before it; a slice of several pieces holds whole sources."""
    records = {n: rows + rejects for n, rows, rejects in counts}
    before: dict[int, int] = {}
    so_far: dict[int, int] = {}
    for part in sorted(slices, key=lambda part: int(part["pieces"][0]["offset"])):
        if len(part["pieces"]) == 1:
            source = part["pieces"][0]["source"]
            before[part["n"]] = so_far.get(source, 0)
            so_far[source] = before[part["n"]] + records.get(part["n"], 0)
    return before
