"""Finds source files and tells what they are: names become paths, paths become identities."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shlex
import stat
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from tipple import _core
from tipple.engines.base import STDIN, Identity, StreamForm
from tipple.engines.core import TEXT_PLAN, core_error, source_plan
from tipple.errors import TippleError, UsageError
from tipple.plan.columnar import ARROW_MAGIC, ARROW_STREAM_START, PARQUET_MAGIC
from tipple.plan.first_record import first_fields
from tipple.plan.path_columns import values_in_path
from tipple.plan.sniff_profile import Layout
from tipple.plan.sources import Dialect, cut_before_its_magic, detect_compression
from tipple.run.source_urls import refused_url

LEAST_TIME_NS, GREATEST_TIME_NS = -(1 << 63), (1 << 63) - 1
"""Times of change beyond these, which clocks that are wrong write, are cut off, as the core does."""

SAMPLE_BYTES = 64 * 1024
"""How much of a file's head and of its tail goes into its identity."""
STDIN_DESCRIPTOR = 0
_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")
HEADER_BYTES = 1024 * 1024
LONGEST_NAME = 100_000
"""A longer name is a quote that is never closed."""
BEGINNING_BYTES = 4096
"""How much of a text is looked at to see whether it is one."""
BINARY_NUL_BYTES = 4
WITHOUT_NULS = "tr -d '\\000' < FILE > NEW removes all NUL bytes, which no target stores"
NUL_REMEDY = (
    f"SQL Server's bcp writes an empty text as a NUL byte: {WITHOUT_NULS}; such fields are empty then, as are those "
    "that bcp leaves empty for NULL"
)
_NUL_FIELD = re.compile(rb"(?:^|(?<=[\t\n,;|^~]))\0(?=[\t\r\n,;|^~]|$)")
"""A NUL byte that is a field of its own."""
_CONTROL_BYTE = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f]")
"""What no delimited text has, but for the ends of lines, and tabs."""
_COLUMNAR_REMEDY = "leave out --format, or say --format {}"
PIPED_REMEDY = (
    "write it to a file first; from Python an Arrow stream is loaded as it comes: "
    "tipple.load(pyarrow.ipc.open_stream(sys.stdin.buffer), ...)"
)
"""Of Parquet and Arrow on standard input."""
_MARKS = (
    (b"\xef\xbb\xbf", "UTF-8", ()),
    (b"\xff\xfe", "UTF-16LE", ("utf16", "utf16le", "ucs2", "iso10646ucs2", "csunicode", "unicodefeff")),
    (b"\xfe\xff", "UTF-16BE", ("utf16", "utf16be", "unicodefffe")),
)
"""Byte order marks, and the names of encodings, without punctuation, that they are of: those that the core knows."""
_UTF16_MARKS = tuple(mark for mark, said, _ in _MARKS if said != "UTF-8")
_UTF32_MARK = b"\xff\xfe\0\0"
"""It begins as UTF-16 does, whose next character would be NUL."""
_PLAIN_TEXT: dict[str, Any] = {**TEXT_PLAN["dialect"], "family": "plain"}
"""The codec's `Dialect` of which nothing counts but that there are lines."""


def find_sources(names: Sequence[str]) -> list[str]:
    """The files that `names` mean: files, patterns, directories (the files right in them that may hold rows), and
    `-` for standard input. What is no directory counts as a file: whether it can be read is told by `identify`.

    Raises:
        UsageError: a name that means no file, a directory that may not be read, a name that is not UTF-8.
    """
    found = [path for name in names for path in files_of(name)]
    for path in found:
        refuse_undecodable(path)
    _refuse_repeated(found)
    return found


_BESIDE_ROWS = re.compile(r"\..*|_SUCCESS|_metadata|_common_metadata|_(committed|started)_[0-9]+", re.DOTALL)
"""Files in a directory that hold no rows: hidden ones, and what Spark and Databricks write beside a table's parts."""


def _inside(directory: str) -> Iterator[str]:
    """The files in a directory, and below it where that is a part of a table: `day=2024-01-31`."""
    for entry in _entries(directory):
        path = os.path.join(directory, entry)
        if _BESIDE_ROWS.fullmatch(entry):
            continue
        if not os.path.isdir(path):
            yield path
        elif values_in_path(f"{entry}/"):
            yield from _inside(path)


def files_of(name: str) -> list[str]:
    """The files that one name means.

    Raises:
        UsageError: none, a directory that may not be read, a name that is not UTF-8.
    """
    refuse_undecodable(name)
    if name == STDIN or (os.path.lexists(name) and not os.path.isdir(name)):
        return [name]
    if os.path.isdir(name):
        inside = sorted(_inside(name))
        if not inside:
            below = any(os.path.isdir(os.path.join(name, entry)) for entry in _entries(name))
            pattern = shlex.quote(os.path.join(name, "**", "*.csv"))
            hint = (
                f"for those in the directories below it give a pattern, such as {pattern}"
                if below
                else "check the path"
            )
            raise UsageError(f"the directory {name} has no files", hint=hint)
        return inside
    if glob.has_magic(name):
        _refuse_closed_directories(name)
        matches = sorted(path for path in glob.glob(name, recursive=True) if not os.path.isdir(path))
        if not matches:
            raise refused_url(name) or UsageError(f"no file matches {name}", hint="check the pattern")
        return matches
    raise refused_url(name) or _missing(name)


def _refuse_repeated(paths: Sequence[str]) -> None:
    """Refuses a file that is named twice, by whatever names."""
    directories: dict[str, str] = {}
    seen: dict[str, str] = {}
    links: dict[tuple[int, int], str] = {}
    for path in paths:
        directory, name = os.path.split(path)
        if path == STDIN or os.path.islink(path):
            # What a shell has opened as standard input may be a file that is named too.
            whole = os.path.realpath("/dev/stdin" if path == STDIN else path)
        else:
            # Of many files in one directory, the directory is looked up once.
            if directory not in directories:
                directories[directory] = os.path.realpath(directory)
            whole = os.path.join(directories[directory], name)
        whole = _first_link(whole, links)
        if whole in seen:
            also = "" if seen[whole] == path else f", once as {path}"
            raise UsageError(
                f"the file {seen[whole]} is named more than once{also}", hint="its rows would be loaded twice"
            )
        seen[whole] = path


def _first_link(path: str, links: dict[tuple[int, int], str]) -> str:
    """The first of the hard links to a file in `links`, which this one is added to; itself where it is the only one."""
    try:
        found = os.stat(path)
    except OSError:
        return path
    return path if found.st_nlink < 2 else links.setdefault((found.st_dev, found.st_ino), path)


def refuse_undecodable(path: str) -> None:
    """Refuses a name, or the current directory that it is in, which plans and reports cannot hold: they are UTF-8.

    Raises:
        UsageError: it is such a name.
    """
    whole = os.path.abspath(path)
    try:
        whole.encode()
    except UnicodeEncodeError:
        shown = readable(whole)
        if os.fsdecode(shown.encode()) == whole:
            raise UsageError(
                f"the locale's encoding has no name for {shown}", hint="choose one that is UTF-8: LC_ALL=C.UTF-8"
            ) from None
        raise UsageError(f"the name {shown} is not UTF-8", hint="rename it") from None


def _missing(path: str) -> UsageError:
    """Why there is no such file."""
    try:
        os.stat(path)
    except PermissionError:
        return _closed(path)
    except (OSError, ValueError):
        # Not there, or nothing that a file can be called.
        pass
    return UsageError(f"{path}: no such file or directory", hint="check the path")


def _closed(path: str) -> UsageError:
    return UsageError(f"{path}: permission denied", hint="check the rights to it, and to the directories that it is in")


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except PermissionError:
        raise _closed(directory) from None


def _refuse_closed_directories(pattern: str) -> None:
    """Refuses a pattern with a directory that may not be searched, which `glob` leaves out without a word.

    Raises:
        UsageError: there is one.
    """
    while pattern and pattern != os.path.dirname(pattern):
        pattern, last = os.path.split(pattern)
        # To look a known name up takes less than to list a directory.
        needed = os.R_OK | os.X_OK if glob.has_magic(last) else os.X_OK
        for directory in glob.glob(pattern, recursive=True) if pattern else [os.curdir]:
            if os.path.isdir(directory) and not os.access(directory, needed, effective_ids=True):
                raise _closed(directory)


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
        try:
            os.fstat(STDIN_DESCRIPTOR)
            head = _core.peek_stdin(SAMPLE_BYTES)
        except OSError as error:
            raise UsageError(
                f"standard input cannot be read: {error.strerror}",
                hint="give it a file or a pipe: tipple load - < FILE",
            ) from None
        except _core.CoreError as error:
            raise core_error(error) from None
        form = (_form(path, head, dialect, refuse) if dialect is not None else None) or StreamForm()
        identity = Identity(path=STDIN, size=0, mtime_ns=0, content=uuid.uuid4().hex, form=form)
        if refuse:
            refuse_packed_binary(path, identity)
        return identity
    with readable_file(path):
        # Opening a pipe would wait for whoever writes into it.
        if not stat.S_ISREG(os.stat(path).st_mode):
            # What a shell puts in the place of <(COMMAND) is gone when the next command begins.
            is_command = path.startswith(_DESCRIPTORS)
            remedy = "COMMAND | tipple load - ..." if is_command else f"tipple load - ... < {shlex.quote(path)}"
            raise UsageError(f"{path} is not a regular file", hint=f"read it as standard input: {remedy}")
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            head = file.read(SAMPLE_BYTES)
            digest = hashlib.sha256(head)
            if status.st_size > SAMPLE_BYTES:
                file.seek(max(SAMPLE_BYTES, status.st_size - SAMPLE_BYTES))
                digest.update(file.read(SAMPLE_BYTES))
    cut = cut_before_its_magic(path, head)
    if cut is not None:
        how = f"ends after {len(head)} bytes, which no {cut} file does" if head else f"is empty, which no {cut} file is"
        raise UsageError(
            f"{path} {how}",
            hint="its copy was cut off, most likely: fetch or make it again; a source without records is an empty file "
            "without that ending",
        )
    identity = Identity(
        path=os.path.abspath(path),
        size=status.st_size,
        mtime_ns=max(LEAST_TIME_NS, min(status.st_mtime_ns, GREATEST_TIME_NS)),
        content=digest.hexdigest(),
        form=_form(path, head, dialect, refuse) if dialect is not None else None,
    )
    if refuse:
        refuse_packed_binary(path, identity)
    return identity


@contextmanager
def readable_file(path: str) -> Iterator[None]:
    """Around what reads a source, which may be gone since it was found.

    Raises:
        TippleError: it cannot be read.
    """
    try:
        yield
    except OSError as error:
        raise TippleError(
            f"{path}: cannot be read: {error.strerror}",
            hint="check the path and the rights to it",
            exit_status=2,
        ) from None


def _form(path: str, head: bytes, dialect: Dialect, refuse: bool) -> StreamForm | None:
    """How a source with these first bytes becomes text; None where it is text by itself."""
    compression = detect_compression(head)
    is_utf8 = dialect.encoding is None or _core.is_utf8_name(dialect.encoding)
    if is_utf8 is None:
        raise UsageError(
            f"the --encoding {dialect.encoding!r} is not known",
            hint="known are PostgreSQL's names (LATIN1, WIN1252, SJIS, ...) and the web's (windows-1252, euc-jp, ...)",
        )
    utf16 = dialect.encoding is None and head.startswith(_UTF16_MARKS) and not head.startswith(_UTF32_MARK)
    if refuse and compression is None and is_utf8 and not utf16:
        refuse_binary(path, head)
    if refuse and dialect.encoding is not None and not is_utf8:
        _refuse_other_mark(path, head, dialect.encoding)
    if compression is None and is_utf8 and not utf16 and not dialect.skip_lines and dialect.comment is None:
        return None
    return StreamForm(
        compression=compression,
        encoding=dialect.encoding,
        skip_lines=dialect.skip_lines,
        comment=None if dialect.comment is None else ord(dialect.comment),
    )


def _refuse_other_mark(path: str, head: bytes, encoding: str) -> None:
    """Refuses text whose byte order mark is not that of the encoding named for it: its characters would be others.

    Raises:
        UsageError: with the encoding that the mark says.
    """
    named = "".join(filter(str.isalnum, encoding)).lower()
    said = next((said for mark, said, names in _MARKS if head.startswith(mark) and named not in names), None)
    if said is None:
        return
    raise UsageError(
        f"{path} begins with the byte order mark of {said}, and the encoding {encoding} was named for it",
        hint=f"leave out --encoding, or say --encoding {said}",
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


def read_lines(source: Identity, wanted: int, layout: Layout | None = None) -> bytes:
    """At least so many bytes of lines from the beginning of a source that is read as a stream, if it has them.

    Args:
        source: the source.
        wanted: the number of bytes.
        layout: what quotes lines that look like comments; without it nothing does.

    Raises:
        TippleError: it cannot be read.
    """
    return read_head(source, layout.codec if layout is not None else _PLAIN_TEXT, wanted)


_SPREADSHEET_REMEDY = (
    "save its sheets as CSV in UTF-8 first; the library takes frames too: tipple.load(pandas.read_excel(FILE), ...)"
)
_NAMES_IN_SPREADSHEETS = (b"[Content_Types].xml", b"_rels/.rels", b"xl/", b"application/vnd.oasis.opendocument")
"""What is found near the beginning of the ZIP archives that Excel and LibreOffice write."""


def refuse_binary(path: str, head: bytes) -> None:
    """Refuses a file that is no text at all, before any record of it is blamed.

    Raises:
        UsageError: with what the file seems to be.
    """
    found = _not_text(head)
    if found is not None:
        name, remedy = found
        if path == STDIN:
            path = "standard input"
            remedy = PIPED_REMEDY if _is_columnar(head) else remedy
        raise UsageError(f"{path} is {name}", hint=remedy)


def refuse_packed_binary(path: str, identity: Identity) -> None:
    """The same for what a packed file unpacks to: an archive, or what is packed twice.

    Raises:
        UsageError: with what that seems to be.
        TippleError: it cannot be unpacked.
    """
    if not identity.is_packed:
        return
    text = read_lines(identity, BEGINNING_BYTES)
    compression = detect_compression(text)
    if compression is not None:
        raise UsageError(f"{path} is packed twice: it unpacks to {compression} data", hint="unpack it once first")
    found = _not_text(text)
    if found is not None:
        name, remedy = found
        raise UsageError(f"{path} unpacks to {name}", hint="unpack it first" if _is_columnar(text) else remedy)


def _is_columnar(head: bytes) -> bool:
    return head.startswith((PARQUET_MAGIC, ARROW_MAGIC, ARROW_STREAM_START))


def _not_text(head: bytes) -> tuple[str, str] | None:
    """What a file with this beginning is, where it is no text, and what to do about it."""
    head = head[:BEGINNING_BYTES]
    for magic, name, remedy in (
        (b"\x04\x22\x4d\x18", "lz4-compressed", "unpack it first (unlz4)"),
        (b"\x1f\x9d", "compressed by compress", "unpack it first (gunzip)"),
        (PARQUET_MAGIC, "a Parquet file", _COLUMNAR_REMEDY.format("parquet")),
        (ARROW_MAGIC, "an Arrow file", _COLUMNAR_REMEDY.format("arrow")),
        (ARROW_STREAM_START, "an Arrow stream", _COLUMNAR_REMEDY.format("arrow")),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of Microsoft Office", _SPREADSHEET_REMEDY),
        (
            b"SQLite format 3\0",
            "a SQLite database",
            "export its tables first: sqlite3 -csv -header FILE 'SELECT * FROM t' > t.csv",
        ),
        (_UTF32_MARK, "UTF-32 text", "convert it first: iconv -f UTF-32 -t UTF-8"),
        (b"\0\0\xfe\xff", "UTF-32 text", "convert it first: iconv -f UTF-32 -t UTF-8"),
        (b"\xff\xfe", "UTF-16 text", "leave out --encoding, or say --encoding UTF-16"),
        (b"\xfe\xff", "UTF-16 text", "leave out --encoding, or say --encoding UTF-16"),
    ):
        if head.startswith(magic):
            return f"{name}, not delimited text", remedy
    if head.startswith(b"PK\x03\x04"):
        if any(name in head for name in _NAMES_IN_SPREADSHEETS):
            return "a spreadsheet, not delimited text", _SPREADSHEET_REMEDY
        return "a ZIP archive, not delimited text", "unpack it first (unzip)"
    if head[257:262] == b"ustar":
        return "a tar archive, not delimited text", "take the files out of it first (tar --extract --file FILE)"
    # One NUL may be a single bad record, which deserves to be named as one.
    if head.count(b"\0") >= BINARY_NUL_BYTES:
        remedy = "check the path; delimited text has no NUL bytes"
        for encoding, names in (("UTF-16LE", head[1::2]), ("UTF-16BE", head[::2])):
            # Text of mostly Western letters, such as bcp writes without a byte order mark.
            if names.count(0) * 2 > len(names) and names.count(0) == head.count(0):
                remedy = f"it may be UTF-16 text without a byte order mark: --encoding {encoding}"
        rest = _NUL_FIELD.sub(b"", head)
        if b"\n" in rest and not _CONTROL_BYTE.search(rest):
            remedy = NUL_REMEDY
        return f"a binary file: it has a NUL byte at offset {head.index(0)}", remedy
    return None


def read_head(identity: Identity, dialect_plan: dict[str, Any], wanted: int = HEADER_BYTES) -> bytes:
    """The beginning of a source's text, so many bytes of it if it has them; less of standard input.

    Raises:
        TippleError: it cannot be read.
    """
    if identity.form is None:
        with readable_file(identity.path), open(identity.path, "rb") as file:
            return file.read(wanted)
    if identity.path == STDIN:
        wanted = min(wanted, SAMPLE_BYTES)
    try:
        return _core.read_head(json.dumps(source_plan(identity)), json.dumps(dialect_plan), wanted)
    except _core.CoreError as error:
        found = core_error(error)
        if ": is packed twice" in found.message:
            # Nothing was begun.
            raise UsageError(found.message, hint=found.hint) from None
        raise found from None


def read_header(identity: Identity, dialect: Dialect, dialect_plan: dict[str, Any]) -> list[str]:
    """The names in a file's first record; none where it has no record.

    Raises:
        UsageError: the record is no text.
        TippleError: the file cannot be read.
    """
    names = read_first_record(identity, dialect, dialect_plan)
    if any(len(name) > LONGEST_NAME for name in names):
        raise UsageError(
            f"{identity.path}: the header cannot be read: it has a name of more than {LONGEST_NAME:,} characters",
            hint="check --quote and --escape",
        )
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{identity.path}: the header is not valid UTF-8: {', '.join(map(readable, names))}",
            hint="convert the file to UTF-8, or name its --encoding",
        ) from None
    return names


def readable(text: str) -> str:
    """A text that may hold surrogates for bytes that are no UTF-8, with these bytes as `\\xff`."""
    try:
        return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:
        # One that stands for no byte: from a program, and no system's.
        return text.encode(errors="backslashreplace").decode()


def read_first_record(identity: Identity, dialect: Dialect, dialect_plan: dict[str, Any]) -> list[str]:
    """The fields of a file's first record; none where it has no record. Bytes that are no UTF-8 become surrogates.

    Raises:
        TippleError: the file cannot be read.
    """
    # Few heads are longer, and there may be thousands of files.
    for wanted in (SAMPLE_BYTES, HEADER_BYTES):
        head = read_head(identity, dialect_plan, wanted)
        text = head.decode("utf-8", errors="surrogateescape").removeprefix("\ufeff")
        fields, length = first_fields(text, dialect)
        if length < len(text) or len(head) < wanted:
            break
    return fields
