"""Finds source files and tells what they are: names become paths, paths become identities."""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import itertools
import json
import os
import stat
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from tipple import _core
from tipple.engines.base import STDIN, Identity, StreamForm
from tipple.engines.core import TEXT_PLAN, core_error, source_plan
from tipple.errors import TippleError, UsageError
from tipple.plan.sources import Dialect, detect_compression

SAMPLE_BYTES = 64 * 1024
"""How much of a file's head and of its tail goes into its identity."""
HEADER_BYTES = 1024 * 1024
BINARY_NUL_BYTES = 4
_COLUMNAR_REMEDY = "leave out --format, or say --format {}; from standard input: write it to a file first"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_PLAIN_TEXT: dict[str, Any] = {**TEXT_PLAN["dialect"], "family": "plain"}
"""The codec's `Dialect` of which nothing counts but that there are lines."""


def find_sources(names: Sequence[str]) -> list[str]:
    """The files that `names` mean: files, patterns, directories (the files right in them, hidden ones left out), and
    `-` for standard input.

    Raises:
        TippleError: a name that means no file.
    """
    found: list[str] = []
    for name in names:
        if name == STDIN:
            found.append(name)
        elif os.path.isdir(name):
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


def identify(path: str, dialect: Dialect | None, *, refuse: bool = True) -> Identity:
    """A file as it is now, or standard input, which is never the same again.

    Args:
        path: where it is.
        dialect: how its text is written, as far as that is known; None where it is no text, but columnar.
        refuse: whether it must look like text.

    Raises:
        UsageError: it is no text, nor text that can be unpacked and decoded.
        TippleError: it cannot be read, or is not a file.
    """
    if path == STDIN:
        head = _core.peek_stdin(SAMPLE_BYTES)
        form = (_form(path, head, dialect, refuse) if dialect is not None else None) or StreamForm()
        return Identity(path=STDIN, size=0, mtime_ns=0, content=uuid.uuid4().hex, form=form)
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(
                    f"{path} is not a regular file", hint=f"read it as standard input: tipple load - ... < {path}"
                )
            head = file.read(SAMPLE_BYTES)
            digest = hashlib.sha256(head)
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
        form=_form(path, head, dialect, refuse) if dialect is not None else None,
    )


def _form(path: str, head: bytes, dialect: Dialect, refuse: bool) -> StreamForm | None:
    """How a source with these first bytes becomes text; None where it is text by itself."""
    compression = detect_compression(head)
    is_utf8 = dialect.encoding is None or _core.is_utf8_name(dialect.encoding)
    if is_utf8 is None:
        raise UsageError(
            f"the encoding {dialect.encoding!r} is not known",
            hint="known are PostgreSQL's names (LATIN1, WIN1252, SJIS, ...) and the web's (windows-1252, euc-jp, ...)",
        )
    utf16 = dialect.encoding is None and head.startswith(_UTF16_MARKS)
    if refuse and compression is None and is_utf8 and not utf16:
        refuse_binary(path, head)
    if compression is None and is_utf8 and not utf16 and not dialect.skip_lines and dialect.comment is None:
        return None
    return StreamForm(
        compression=compression,
        encoding=dialect.encoding,
        skip_lines=dialect.skip_lines,
        comment=None if dialect.comment is None else ord(dialect.comment),
    )


def with_encoding(source: Identity, encoding: str | None) -> Identity:
    """The source in an encoding that was found out after it was identified; None where there was nothing to find."""
    if encoding is None:
        return source
    form = msgspec.structs.replace(source.form or StreamForm(), encoding=encoding)
    return msgspec.structs.replace(source, form=form)


def utf16_mark(source: Identity) -> bytes:
    """The byte order mark of UTF-16 that says how the source was decoded, or nothing."""
    form = source.form
    if form is None or form.encoding is not None:
        return b""
    # Latin-1 hands every byte on as it is.
    raw = msgspec.structs.replace(form, encoding="LATIN1", skip_lines=0, comment=None)
    first = read_head(msgspec.structs.replace(source, form=raw), _PLAIN_TEXT, 2).decode()[:2].encode("latin-1")
    return first if first in _UTF16_MARKS else b""


def read_lines(source: Identity, wanted: int) -> bytes:
    """At least so many bytes of lines from the beginning of a source that is read as a stream, if it has them.

    Raises:
        TippleError: it cannot be read.
    """
    return read_head(source, _PLAIN_TEXT, wanted)


def refuse_binary(path: str, head: bytes) -> None:
    """Refuses a file that is no text at all, before any record of it is blamed.

    Raises:
        UsageError: with what the file seems to be.
    """
    head = head[:4096]
    for magic, name, remedy in (
        (b"\x04\x22\x4d\x18", "lz4-compressed", "unpack it first (unlz4)"),
        (b"\x1f\x9d", "compressed by compress", "unpack it first (gunzip)"),
        (b"PAR1", "a Parquet file", _COLUMNAR_REMEDY.format("parquet")),
        (b"ARROW1", "an Arrow file", _COLUMNAR_REMEDY.format("arrow")),
        (b"PK\x03\x04", "a ZIP archive", "unpack it first (unzip)"),
        (b"\xff\xfe", "UTF-16 text", "leave out --encoding, or say --encoding UTF-16"),
        (b"\xfe\xff", "UTF-16 text", "leave out --encoding, or say --encoding UTF-16"),
    ):
        if head.startswith(magic):
            raise UsageError(f"{path} is {name}, not delimited text", hint=remedy)
    # One NUL may be a single bad record, which deserves to be named as one.
    if head.count(b"\0") >= BINARY_NUL_BYTES:
        raise UsageError(
            f"{path} is a binary file: it has a NUL byte at offset {head.index(0)}",
            hint="check the path; delimited text has no NUL bytes",
        )


def read_head(identity: Identity, dialect_plan: dict[str, Any], wanted: int = HEADER_BYTES) -> bytes:
    """The beginning of a source's text, so many bytes of it if it has them; less of standard input.

    Raises:
        TippleError: it cannot be read.
    """
    if identity.form is None:
        with open(identity.path, "rb") as file:
            return file.read(wanted)
    if identity.path == STDIN:
        wanted = min(wanted, SAMPLE_BYTES)
    try:
        return _core.read_head(json.dumps(source_plan(identity)), json.dumps(dialect_plan), wanted)
    except _core.CoreError as error:
        raise core_error(error) from None


def read_header(identity: Identity, dialect: Dialect, dialect_plan: dict[str, Any]) -> list[str]:
    """The names in a file's first record.

    Raises:
        TippleError: there is no such record, or it is not text.
    """
    path = identity.path
    head = read_head(identity, dialect_plan)
    if not head:
        raise TippleError(f"{path} is empty: it has no header", hint="check the file, or leave out --header")
    try:
        text = head.decode("utf-8", errors="strict" if len(head) < SAMPLE_BYTES else "replace")
    except UnicodeDecodeError as error:
        raise TippleError(
            f"{path}: the header is not valid UTF-8 at byte {error.start}", hint="convert the file to UTF-8"
        ) from None
    text = text.removeprefix("\ufeff")
    if dialect.format == "fixed":
        line = text.splitlines()[0] if text else ""
        ends = list(itertools.accumulate(dialect.widths))
        return [line[end - width : end].strip() for width, end in zip(dialect.widths, ends, strict=True)]
    if dialect.quote is None:
        line = text.splitlines()[0] if text else ""
        return _without_trailing(line.split(dialect.delimiter), dialect)
    escape = dialect.escape if dialect.escape != dialect.quote else None
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        escapechar=escape,
        doublequote=escape is None,
    )
    try:
        return _without_trailing(next(reader, []), dialect)
    except csv.Error as error:
        raise TippleError(f"{path}: the header cannot be read: {error}", hint="check --quote and --escape") from None


def _without_trailing(names: list[str], dialect: Dialect) -> list[str]:
    """The names without what stands behind the trailing delimiter: nothing."""
    return names[:-1] if dialect.trailing_delimiter and names and names[-1] == "" else names
