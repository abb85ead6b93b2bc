"""Finds source files and tells what they are: names become paths, paths become identities."""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import os
import stat
from collections.abc import Sequence

from tipple.engines.base import Identity
from tipple.errors import TippleError, UsageError
from tipple.plan.sources import Dialect

SAMPLE_BYTES = 64 * 1024
"""How much of a file's head and of its tail goes into its identity."""
HEADER_BYTES = 1024 * 1024
BINARY_NUL_BYTES = 4


def find_sources(names: Sequence[str]) -> list[str]:
    """The files that `names` mean: files, patterns, and directories (the files right in them, hidden ones left out).

    Raises:
        TippleError: a name that means no file.
    """
    found: list[str] = []
    for name in names:
        if name == "-":
            raise UsageError("standard input cannot be read yet", hint="write the data to a file first")
        if os.path.isdir(name):
            inside = sorted(
                path
                for entry in os.listdir(name)
                if not entry.startswith(".") and os.path.isfile(path := os.path.join(name, entry))
            )
            if not inside:
                raise UsageError(f"the directory {name} has no files", hint="check the path")
            found.extend(inside)
        elif os.path.exists(name):
            found.append(name)
        elif glob.has_magic(name):
            matches = sorted(path for path in glob.glob(name, recursive=True) if os.path.isfile(path))
            if not matches:
                raise UsageError(f"no file matches {name}", hint="check the pattern")
            found.extend(matches)
        else:
            raise UsageError(f"{name}: no such file or directory", hint="check the path")
    twice = {path for path in found if found.count(path) > 1} if len(found) < 1000 else set()
    if twice or len(set(found)) != len(found):
        raise UsageError(
            f"the file {min(twice, default=found[0])} is named more than once",
            hint="its rows would be loaded twice",
        )
    return found


def identify(path: str) -> Identity:
    """A file as it is now.

    Raises:
        TippleError: it cannot be read, or is not a file of which parts can be read.
    """
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{path} is not a regular file", hint="write the data to a file first")
            digest = hashlib.sha256(file.read(SAMPLE_BYTES))
            if status.st_size > SAMPLE_BYTES:
                file.seek(max(SAMPLE_BYTES, status.st_size - SAMPLE_BYTES))
                digest.update(file.read(SAMPLE_BYTES))
    except OSError as error:
        raise TippleError(
            f"{path}: cannot be read: {error.strerror}",
            hint="check the path and the rights to it",
            exit_status=2,
        ) from None
    return Identity(
        path=os.path.abspath(path),
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        content=digest.hexdigest(),
    )


def refuse_binary(path: str) -> None:
    """Refuses a file that is no text at all, before any record of it is blamed.

    Raises:
        UsageError: with what the file seems to be.
    """
    with open(path, "rb") as file:
        head = file.read(4096)
    for magic, name, remedy in (
        (b"\x1f\x8b", "gzip-compressed", "unpack it first (gunzip)"),
        (b"\x28\xb5\x2f\xfd", "zstd-compressed", "unpack it first (unzstd)"),
        (b"BZh", "bzip2-compressed", "unpack it first (bunzip2)"),
        (b"\xfd7zXZ", "xz-compressed", "unpack it first (unxz)"),
        (b"PAR1", "a Parquet file", "leave out --format, or say --format parquet"),
        (b"ARROW1", "an Arrow file", "leave out --format, or say --format arrow"),
        (b"PK\x03\x04", "a ZIP archive", "unpack it first (unzip)"),
        (b"\xff\xfe", "UTF-16 text", "convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)"),
        (b"\xfe\xff", "UTF-16 text", "convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)"),
    ):
        if head.startswith(magic):
            raise UsageError(f"{path} is {name}, not delimited text", hint=remedy)
    # One NUL may be a single bad record, which deserves to be named as one.
    if head.count(b"\0") >= BINARY_NUL_BYTES:
        raise UsageError(
            f"{path} is a binary file: it has a NUL byte at offset {head.index(0)}",
            hint="check the path; delimited text has no NUL bytes",
        )


def read_header(path: str, dialect: Dialect) -> list[str]:
    """The names in a file's first record.

    Raises:
        TippleError: there is no such record, or it is not text.
    """
    with open(path, "rb") as file:
        head = file.read(HEADER_BYTES)
    if not head:
        raise TippleError(f"{path} is empty: it has no header", hint="check the file, or leave out --header")
    try:
        text = head.decode("utf-8", errors="strict" if len(head) < HEADER_BYTES else "replace")
    except UnicodeDecodeError as error:
        raise TippleError(
            f"{path}: the header is not valid UTF-8 at byte {error.start}", hint="convert the file to UTF-8"
        ) from None
    text = text.removeprefix("\ufeff")
    if dialect.quote is None:
        line = text.splitlines()[0] if text else ""
        names = line.split(dialect.delimiter)
        return names[:-1] if dialect.trailing_delimiter and names[-1] == "" else names
    escape = dialect.escape if dialect.escape != dialect.quote else None
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        escapechar=escape,
        doublequote=escape is None,
    )
    try:
        return next(reader, [])
    except csv.Error as error:
        raise TippleError(f"{path}: the header cannot be read: {error}", hint="check --quote and --escape") from None
