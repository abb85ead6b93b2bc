"""Files that are written beside the table: never over what is read, what is loaded into, or each other.

They are compared by what they are on disk, so that a link or another way to write a path does not deceive.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from tipple.errors import UsageError
from tipple.report.schema import VERSION_FIELDS
from tipple.run.sources import files_of

__all__ = ["Files", "NamedFile", "check_place", "claim_outputs", "no_stale_summary", "unfinished", "write_at_once"]

SUMMARY = "--summary"


class NamedFile(msgspec.Struct, frozen=True):
    """A file, and what it is to the user."""

    what: str
    """`--summary`, `the source`."""
    path: str
    place: str = ""
    """Where a job file names it, or the table whose it is."""

    def of(self, table: str, place: str) -> NamedFile:
        """The same, said to be that of a table of a job, which stands there."""
        return NamedFile(f"{self.what} of {table}", self.path, place)

    def refusal(self, complaint: str, hint: str) -> WouldOverwrite:
        """Why it cannot be written."""
        where = f"{self.place}: " if self.place else ""
        return WouldOverwrite(f"{where}{self.what} {self.path} {complaint}", hint=hint)


class WouldOverwrite(UsageError):
    """A file that is to be written is one that is needed."""


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """What a load reads and writes."""

    inputs: Sequence[NamedFile]
    """Sources, schema, job files, and the files that the target is made of."""
    outputs: Sequence[NamedFile]


def claim_outputs(files: Files, summary: str | None) -> None:
    """Refuses a load that would destroy what it needs; takes the summary of an earlier run away.

    Args:
        files: what the load itself reads and writes.
        summary: where its report is to go.

    Raises:
        UsageError: an output is an input, or another output.
    """
    outputs = list(files.outputs)
    if summary is not None:
        check_place(SUMMARY, summary)
        if _is_named_last(summary):
            check_place(SUMMARY, unfinished(summary))
        outputs.append(NamedFile(SUMMARY, summary))
    _refuse_overwriting(outputs, files.inputs)
    if summary is not None:
        _remove_stale(summary)


@contextmanager
def no_stale_summary(path: str | None, inputs: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Takes the summary of an earlier run away where this one fails, even before all of its files are known.

    Args:
        path: where the report is to go, if anywhere.
        inputs: files, patterns and directories that the run reads.
    """
    try:
        yield
    except WouldOverwrite:
        raise
    except BaseException:
        if path is not None and _is_summary(path) and not _is_among(path, inputs()):
            _remove_stale(path)
        raise


def _is_summary(path: str) -> bool:
    """Whether an earlier run wrote it, so that nothing else is lost with it."""
    try:
        with open(path, "rb") as file:
            beginning = file.read(100)
    except OSError:
        return False
    return any(f'"{field}"'.encode() in beginning for field in VERSION_FIELDS.values())


def _is_among(path: str, names: Iterable[str]) -> bool:
    own = set(_marks(path))
    for name in names:
        with suppress(UsageError):
            if any(not own.isdisjoint(_marks(found)) for found in files_of(name)):
                return True
    return False


def _refuse_overwriting(outputs: Sequence[NamedFile], inputs: Iterable[NamedFile]) -> None:
    taken: dict[tuple[object, ...], NamedFile] = {}
    for output in outputs:
        for mark in _marks(output.path):
            other = taken.setdefault(mark, output)
            if other is not output:
                where = f" ({other.place})" if other.place else ""
                raise output.refusal(f"is the file of {other.what}{where}", "give each a file of its own")
    if not taken:
        return
    for file in inputs:
        for mark in _marks(file.path):
            if mark in taken:
                raise taken[mark].refusal(f"would overwrite {file.what} {file.path}", "give another file")


def check_place(option: str, path: str) -> None:
    """Finds out before a load, rather than after it, that a file cannot be written.

    Raises:
        UsageError: it cannot.
    """
    if not path.strip():
        raise UsageError(f"{option} names no file", hint="give a name, or leave the option out")
    directory = os.path.dirname(os.path.abspath(path))
    why, hint = "", "check the path and the rights to it"
    try:
        os.lstat(path)
    except FileNotFoundError:
        if not os.path.isdir(directory):
            why, hint = f": there is no directory {directory}", f"mkdir -p {shlex.quote(directory)}"
    except OSError as error:
        # A name that is too long is no file that is missing.
        why = f": {error.strerror}"
    if why or os.path.isdir(path) or not os.access(path if os.path.exists(path) else directory, os.W_OK):
        raise UsageError(f"{option} {path} cannot be written{why}", hint=hint)


def unfinished(path: str) -> str:
    """Where a file is written until it is complete."""
    return f"{path}.unfinished"


def write_at_once(path: str, text: str) -> None:
    """Writes a file so that none is there that lacks its end, whatever happens.

    What has the name already, as a pipe or a link has, keeps it, and is written as it is.

    Raises:
        OSError: it cannot be written.
    """
    is_named_last = _is_named_last(path)
    written = unfinished(path) if is_named_last else path
    try:
        with open(written, "w", encoding="utf-8") as file:
            file.write(text)
        if is_named_last:
            os.replace(written, path)
    except BaseException:
        with suppress(OSError):
            if is_named_last:
                os.remove(written)
            elif os.path.isfile(path):
                os.truncate(path, 0)
        raise


def _is_named_last(path: str) -> bool:
    """Whether both names are free: what has one is not Tipple's to write over."""
    return not os.path.lexists(path) and not os.path.lexists(unfinished(path))


def _remove_stale(path: str) -> None:
    """Takes a file of an earlier run away, which would be taken for this run's where this one fails."""
    if not os.path.isfile(path):
        return
    if not os.path.islink(path):
        with suppress(OSError):
            os.remove(path)
            return
    # A link is the user's, and so is a directory that nothing may be removed from: the content goes.
    with suppress(OSError):
        os.truncate(path, 0)


def _marks(path: str) -> Iterable[tuple[object, ...]]:
    """What tells a file from others: its number on the disk where it is there, and the path without links."""
    try:
        status = os.stat(path)
    except OSError:
        pass
    else:
        if not stat.S_ISREG(status.st_mode):
            # Nothing of a terminal or a pipe can be overwritten.
            return ()
        return ((status.st_dev, status.st_ino), (os.path.realpath(path),))
    return ((os.path.realpath(path),),)
