"""How a load has read its sources, kept beside its rejects: `--replay` reads and judges them the same way.

Looking at the sources once more would not tell: the table is there by then, so its columns are no guess any more, and
a value that a guessed type had refused would be stored changed.
"""

from __future__ import annotations

import mmap
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tipple.engines.base import TableColumn
from tipple.errors import TippleError, UsageError, printable_text, shorten_text
from tipple.plan.decodable import decodable
from tipple.plan.sniff_profile import Given
from tipple.plan.sources import Dialect, plan_dialect

__all__ = ["Reading", "read_reading", "refuse_misread"]

_LINE_ENDS = {b"\n": "LF", b"\r\n": "CR LF", b"\r": "CR"}
_SHOWN_CHARACTERS = 100
_SHOWN_BYTES = 1000
"""So much of a line is shown, and looked at for that."""
_KEY_BYTES = 64
_ANY_END = re.compile(rb"\r\n|[\r\n]")
MOST_OPEN_ENDED = 1000
"""Of so many rejects that end inside quotes the core keeps the beginnings (`rejects/files.rs`)."""
Kept = defaultdict[bytes, defaultdict[int, set[bytes]]]
"""Beginnings of rejects by their first lines, and by their lengths: many may begin alike."""


@decodable
class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How records become rows of a table."""

    job: str = ""
    """The job whose rejects they are; empty where that is not known."""
    written_by: str = ""
    """The job that has written the files: that one, or the last replay; empty where that is not known."""
    table: str
    """Its name, as SQL spells it."""
    dialect: Dialect
    columns: list[str]
    """Those of the records' fields, in their order."""
    guessed: dict[str, Any]
    """The core's `Guessed` of columns whose types were guessed."""
    open_ended: list[bytes] = []
    """What rejects begin with that end inside quotes, as far as the core keeps them: whoever reads one of them together
    with what stands behind it may find a record that is none."""

    @property
    def json(self) -> bytes:
        """As it is kept."""
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"

    def dialect_with(self, options: Given) -> Dialect:
        """The dialect, where `--format auto` is asked for beside these options."""
        kept = self.dialect
        return plan_dialect(
            kept.format,
            delimiter=options.delimiter or kept.delimiter,
            quote=options.quote or kept.quote,
            escape=options.escape or options.quote or kept.escape,
            null_text=kept.null_text if options.null_text is None else options.null_text,
            trailing_delimiter=(
                kept.trailing_delimiter if options.trailing_delimiter is None else options.trailing_delimiter
            ),
            force_null=options.force_null or kept.force_null,
            force_not_null=options.force_not_null or kept.force_not_null,
            field_widths=options.field_widths or kept.widths or None,
            date_style=options.date_style or kept.date_style,
            decimal_separator=options.decimal_separator or kept.decimal_separator,
            thousands=options.thousands or kept.thousands,
        )

    def kinds(self, columns: Sequence[TableColumn]) -> list[tuple[int, Any]]:
        """Which of the columns have guessed types, and the core's `Guessed` of each."""
        return [
            (index, self.guessed[column.name]) for index, column in enumerate(columns) if column.name in self.guessed
        ]


def read_reading(path: str) -> Reading | None:
    """What was kept beside rejects, in a file `RejectPolicy.reading_path`; None where there is nothing, as of rejects
    that somebody has put together.

    Raises:
        TippleError: it cannot be read.
    """
    with suppress(FileNotFoundError):
        try:
            with open(path, "rb") as file:
                return msgspec.json.decode(file.read(), type=Reading)
        except (msgspec.DecodeError, IsADirectoryError, PermissionError) as error:
            raise TippleError(
                f"cannot read {path}, which says how the rejects are to be read: {error}",
                hint="load the sources again by the same command without --replay, which loads nothing twice and "
                "writes it; without that file the options are found out from the sources",
            ) from None
    return None


def refuse_misread(path: str, dialect: Dialect, open_ended: Sequence[bytes]) -> None:
    """Refuses a file of rejects of which something would be read that is no record of the sources.

    A reject may be a piece of a source that begins or ends anywhere: behind a quote that is missing or too many, in the
    middle of a text, where a record grew too long. As long as such a one is not mended, a quote of it would take what
    stands behind it with it, and the lines of it look like records. So all that is read has to be records whose quotes
    leave no doubt where each of them ends.

    Args:
        path: the file.
        dialect: how it is going to be read.
        open_ended: what was kept of the rejects that end inside quotes (`Reading.open_ended`).

    Raises:
        UsageError: there is such a record.
    """
    if os.path.getsize(path) == 0:
        return
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        line_end = _line_end(path, text, dialect)
        if dialect.quote is not None:
            _refuse_open_quotes(path, text, _Records(dialect, line_end), open_ended)


def _line_end(path: str, text: mmap.mmap, dialect: Dialect) -> bytes:
    """What ends the records, as the core finds it: the first line end outside quotes.

    All rejects end with that of the sources. If the first one holds another, all would be cut there.

    Raises:
        UsageError: it does.
    """
    any_end = rb"(\r\n|[\r\n])"
    begin, meant = b"(?!)", rb"(?!)"
    if dialect.quote is not None:
        begin, meant = _byte(dialect.quote), _in_quotes(dialect)
    elif dialect.format == "text":
        begin, meant = rb"\\", rb"\\."
    line = _possessive(rb"(?!" + begin + rb")[^\r\n]|" + meant)
    first = re.match(rb"(?s)" + line + any_end, text)
    first = first or re.search(any_end, text)
    if first is None:
        return b"\n"
    found = first[1]
    last = text[-2:] if text[-2:] == b"\r\n" else text[-1:]
    if found != last and last in _LINE_ENDS:
        raise UsageError(
            f"{path}: the first line ({_shown(text[: first.start(1)])}) ends with {_LINE_ENDS[found]}, and the last "
            f"one with {_LINE_ENDS[last]}; records would be cut in the wrong places",
            hint="mend that record: one that ends with another line end than the others, or holds one, is none",
        )
    return found


def _refuse_open_quotes(path: str, text: mmap.mmap, records: _Records, open_ended: Sequence[bytes]) -> None:
    """Refuses quotes that leave it open where a record ends, unless nothing stands behind that line."""
    kept: Kept = defaultdict(lambda: defaultdict(set))
    for beginning in open_ended:
        kept[_key(beginning)][len(beginning)].add(beginning)
    at = 0
    while True:
        lines = records.lines.match(text, at)
        at = at if lines is None else lines.end()
        if at == len(text):
            return
        record = records.several_lines.match(text, at)
        if record is None:
            break
        if len(open_ended) >= MOST_OPEN_ENDED:
            raise UsageError(
                f"{path}: line {_number(text, at):,} begins a record of several lines, if it is one: nobody can "
                f"tell, since {MOST_OPEN_ENDED:,} rejects or more ended inside quotes",
                hint="load such records as a source of their own, or take them out of the file",
            )
        # Not mended, and yet their quotes do not tell: some reject happens to close what one before it has opened.
        unmended = next((begin for begin in _lines(text, at, record.end()) if _is_kept(text, begin, kept)), None)
        if unmended is not None:
            raise _open_quote(path, text, unmended)
        at = record.end()
    found = text.find(records.line_end, at)
    if found >= 0 and text[found:].strip():
        raise _open_quote(path, text, at)


def _lines(text: mmap.mmap, at: int, end: int) -> Iterator[int]:
    """Where the lines from there on begin."""
    yield at
    yield from (found.end() for found in _ANY_END.finditer(text, at, end) if found.end() < end)


def _is_kept(text: mmap.mmap, at: int, kept: Kept) -> bool:
    """Whether a reject stands there as it was."""
    alike: Mapping[int, set[bytes]] = kept.get(_key(text[at : at + _KEY_BYTES]), {})
    return any(text[at : at + length] in beginnings for length, beginnings in alike.items())


def _key(text: bytes) -> bytes:
    """By what a reject of which only the beginning is kept is found."""
    return _first_line(text[:_KEY_BYTES])


def _first_line(text: bytes) -> bytes:
    return next(iter(text.splitlines()), b"")


def _open_quote(path: str, text: mmap.mmap, at: int) -> UsageError:
    line = _shown(_first_line(text[at : at + _SHOWN_BYTES]))
    return UsageError(
        f"{path}: a quote is missing or too many in line {_number(text, at):,} ({line}); the records behind it would "
        "go with it",
        hint="mend that line, or take the record out of the file: only the last line may be left as it is; lines that "
        "are one record after all can be loaded as a source of their own",
    )


def _number(text: mmap.mmap, at: int) -> int:
    return len(_ANY_END.findall(text, 0, at)) + 1


def _shown(line: bytes) -> str:
    return printable_text(shorten_text(line.decode(errors="replace"), _SHOWN_CHARACTERS))


class _Records:
    """Patterns of records whose ends are certain."""

    def __init__(self, dialect: Dialect, line_end: bytes) -> None:
        assert dialect.quote is not None
        quote, delimiter = _byte(dialect.quote), _byte(dialect.delimiter)
        self.line_end = line_end
        # A byte of a line that is none of those given.
        in_line = rb"(?:[^%b\r]|\r(?!\n))" if line_end == b"\r\n" else rb"[^%b" + line_end + rb"]"
        quoted = _in_quotes(dialect, in_line)
        field = rb"(?:" + _in_quotes(dialect) + rb"|[^\r\n" + quote + delimiter + rb"]*+)"
        line = _possessive(_possessive(in_line % quote, b"+") + rb"|" + quoted)
        self.lines = re.compile(_possessive(rb"(?!\Z)" + line + rb"(?:" + line_end + rb"|\Z)"))
        """Lines at whose end no quote is open, as many as there are."""
        # A carriage return there makes it no longer.
        ends = rb"\r?\n" if line_end == b"\n" else line_end
        self.several_lines = re.compile(field + _possessive(delimiter + field) + rb"(?:" + ends + rb"|\Z)")
        """A record whose quotes all stand around fields."""


def _in_quotes(dialect: Dialect, byte: bytes = rb"[^%b]") -> bytes:
    """A pattern of what is between quotes, and of these; `byte` that of a byte which is none of those given."""
    assert dialect.quote is not None
    quote, escape = _byte(dialect.quote), _byte(dialect.escape or dialect.quote)
    if quote == escape:
        inside = _possessive(byte % quote, b"+") + rb"|" + quote + quote
    else:
        either = quote + escape
        # An escape before anything else is itself.
        escaped = escape + rb"(?:[" + either + rb"]|(?![" + either + rb"]))"
        inside = _possessive(byte % either, b"+") + rb"|" + escaped
    return quote + _possessive(inside) + quote


def _possessive(pattern: bytes, count: bytes = b"*") -> bytes:
    """As many as there are of a pattern, and never fewer.

    Before 3.11.5 `*+` of more than a set of bytes matches what it should not (https://github.com/python/cpython/issues/
    106052). An atomic group does not, but takes memory for each repetition.
    """
    form = rb"(?:%b)%b+" if sys.version_info >= (3, 11, 5) else rb"(?>(?:%b)%b)"
    return form % (pattern, count)


def _byte(character: str) -> bytes:
    """A pattern of a character that is one byte, in brackets too."""
    return rb"\x%02x" % ord(character)
