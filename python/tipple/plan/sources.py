"""What the sources are and how to read them: format, dialect, slice size. Names and sizes in, a plan out.

Options are spelled, defaulted and refused as PostgreSQL's COPY does (ProcessCopyOptions in
src/backend/commands/copy.c), so that whoever knows COPY knows these, and what passes here COPY takes too.
The format `tbl` is dbgen's: `|` after every field, the last one too, and no quoting of any kind.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec

from tipple.errors import UsageError
from tipple.plan.notation import check_separators, date_style_of
from tipple.plan.size import format_bytes

__all__ = [
    "Dialect",
    "Format",
    "Header",
    "SlicePlan",
    "named_format",
    "plan_dialect",
    "plan_slices",
]

Format = Literal["csv", "tbl", "text", "fixed"]
Header = Literal["yes", "no", "match"]

FORMATS: tuple[Format, ...] = get_args(Format)
HEADERS: tuple[Header, ...] = get_args(Header)
WIDEST_FIELD = 2**32 - 1
"""What the core counts a field's characters with."""

_FORMAT_BY_ENDING: dict[str, Format] = {"tbl": "tbl", "csv": "csv", "tsv": "text", "txt": "text"}
_ENDINGS_TO_COME = {
    "lz4": "lz4-compressed",
    "zip": "zip-compressed",
}
Compression = Literal["gzip", "zstd", "bzip2", "xz"]

_COMPRESSION_ENDINGS: dict[str, Compression] = {
    "gz": "gzip",
    "gzip": "gzip",
    "zst": "zstd",
    "zstd": "zstd",
    "bz2": "bzip2",
    "xz": "xz",
}
"""What a name may have behind the ending that says the format. Whether a file is compressed, its content says."""

# A pattern for each byte. RFC 1952; RFC 8878 (frames, and skippable frames, which some writers begin with); bzip2 1.0.8
# (blocks, or the end of nothing); xz-file-format 1.2.
_COMPRESSION_MAGIC: tuple[tuple[str, Compression], ...] = (
    (r"\x1f \x8b \x08", "gzip"),
    (r"\x28 \xb5 \x2f \xfd", "zstd"),
    (r"[\x50-\x5f] \x2a \x4d \x18", "zstd"),
    (r"B Z h [1-9] \x31 \x41 \x59 \x26 \x53 \x59", "bzip2"),
    (r"B Z h [1-9] \x17 \x72 \x45 \x38 \x50 \x90", "bzip2"),
    (r"\xfd 7 z X Z \x00", "xz"),
)


def detect_compression(head: bytes) -> Compression | None:
    """How a file with these first bytes is compressed."""
    found = (name for magic, name in _COMPRESSION_MAGIC if re.match(_pattern(magic.split()), head, re.DOTALL))
    return next(found, None)


def cut_before_its_magic(path: str, content: bytes) -> Compression | None:
    """How a file was compressed, by its name, of which no more is there than a part of its first bytes: what is left of
    a copy that failed at once. It would be taken for text, or for a source without records.
    """
    _, dot, ending = path.lower().rpartition(".")
    compression = _COMPRESSION_ENDINGS.get(ending) if dot else None
    beginnings = (magic.split() for magic, name in _COMPRESSION_MAGIC if name == compression)
    length = len(content)
    is_cut = any(
        length < len(magic) and re.fullmatch(_pattern(magic[:length]), content, re.DOTALL) for magic in beginnings
    )
    return compression if is_cut else None


def _pattern(of_bytes: Sequence[str]) -> bytes:
    return "".join(of_bytes).encode()


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """How the bytes of a delimited source become records and fields; made and checked by `plan_dialect`."""

    format: Format
    delimiter: str
    """One byte."""
    quote: str | None
    """One byte; None where nothing is quoted (`text`, `tbl`)."""
    escape: str | None
    """One byte, what makes a quote inside quotes part of the value; the quote itself means doubled quotes.
    None in `text`, whose backslash sequences are fixed, and in `tbl`, which has none."""
    null_text: str
    """The unquoted text that means NULL."""
    header: Header
    """`match`: there is a header, and its names must be the columns' names in order."""
    trailing_delimiter: bool
    """Whether a delimiter stands after a record's last field too, as dbgen writes it."""
    encoding: str | None = None
    """As the user named it; None: UTF-8, or what a byte order mark says."""
    skip_lines: int = 0
    """Lines at the beginning of every file that are no records."""
    comment: str | None = None
    """One byte; lines that begin with it are no records."""
    force_null: tuple[str, ...] = ()
    """Columns whose NULL text means NULL in quotes too; `*` for all."""
    force_not_null: tuple[str, ...] = ()
    """Columns whose NULL text without quotes is a value; `*` for all."""
    widths: tuple[int, ...] = ()
    """The fields' widths in characters; for `fixed` only."""
    date_style: str | None = None
    """The order of day, month and year, as PostgreSQL's `DateStyle` names it: `DMY`, `MDY` or `YMD`."""
    decimal_separator: str | None = None
    """What stands before the fraction of a number: a comma, or a point (as it does where nothing is said)."""
    thousands: str | None = None
    """One byte, what stands between a number's groups of three digits."""
    left_out: tuple[int, ...] = ()
    """The fields that no column takes, by index, in ascending order."""

    @property
    def has_plain_numbers(self) -> bool:
        """Whether numbers are written as their types' own grammar has it."""
        return self.decimal_separator in (None, ".") and self.thousands is None


_DEFAULT_DIALECTS: dict[Format, Dialect] = {
    "csv": Dialect(
        format="csv",
        delimiter=",",
        quote='"',
        escape='"',
        null_text="",
        header="no",
        trailing_delimiter=False,
    ),
    "text": Dialect(
        format="text",
        delimiter="\t",
        quote=None,
        escape=None,
        null_text="\\N",
        header="no",
        trailing_delimiter=False,
    ),
    "tbl": Dialect(
        format="tbl",
        delimiter="|",
        quote=None,
        escape=None,
        null_text="",
        header="no",
        trailing_delimiter=True,
    ),
}


_DEFAULT_DIALECTS["fixed"] = msgspec.structs.replace(
    _DEFAULT_DIALECTS["tbl"], format="fixed", delimiter=",", trailing_delimiter=False
)


def _format_of_name(path: str) -> Format | None:
    """What a name says: `.tbl` (also dbgen's parts, `.tbl.3`), `.csv`, `.tsv` and `.txt`, packed or not."""
    file_name = re.split(r"[/\\]", path)[-1].lower()
    name, dot, last = file_name.rpartition(".")
    if dot and last in _COMPRESSION_ENDINGS:
        file_name = name
    if re.search(r"[^.]\.tbl\.[0-9]+$", file_name):
        return "tbl"
    _, dot, ending = file_name.rpartition(".")
    if dot and ending in _ENDINGS_TO_COME:
        raise UsageError(
            f"{path}: {_ENDINGS_TO_COME[ending]} sources cannot be read yet",
            hint="convert or unpack the file to .csv, .tbl or .txt first",
            detail={"path": path},
        )
    return _FORMAT_BY_ENDING.get(ending) if dot else None


def named_format(paths: Sequence[str]) -> Format | None:
    """The one format that all names say, or None: the content has to say it.

    Raises:
        UsageError: the ending of a format that Tipple cannot read yet.
    """
    found = {_format_of_name(path) for path in paths}
    return found.pop() if len(found) == 1 else None


def plan_dialect(
    format: str,
    *,
    delimiter: str | None = None,
    quote: str | None = None,
    escape: str | None = None,
    null_text: str | None = None,
    header: str | None = None,
    encoding: str | None = None,
    trailing_delimiter: bool | None = None,
    skip_lines: int = 0,
    comment: str | None = None,
    force_null: Sequence[str] = (),
    force_not_null: Sequence[str] = (),
    field_widths: Sequence[int] | None = None,
    date_style: str | None = None,
    decimal_separator: str | None = None,
    thousands: str | None = None,
) -> Dialect:
    """COPY's defaults for the format, what the user said in their place, and COPY's checks.

    Args:
        format: `csv`, `tbl`, `text` or `fixed`.
        delimiter, quote, escape: one character, or an escape for one: `\\t`, `\\x1f`, `\\001`, ...
        null_text: taken as it is; no escapes, since `\\N` is a usual value.
        encoding: by any name that the core knows; it is not checked here.
        trailing_delimiter: whether a delimiter stands behind the last field too.
        skip_lines: lines to leave out at the beginning of every file.
        comment: one character; lines that begin with it are left out.
        force_null, force_not_null: names of columns, or `*` alone.
        field_widths: of `fixed`, in characters.
        date_style: `DMY`, `MDY` or `YMD`.
        decimal_separator, thousands: as in DuckDB's `read_csv`.

    Raises:
        UsageError: what COPY refuses as well, and options that the format does not have.
    """
    if format not in FORMATS:
        raise UsageError(
            f"unknown --format {format!r}", hint=f"the formats are auto, {', '.join(FORMATS)}, parquet, arrow"
        )
    default = _DEFAULT_DIALECTS[format]
    if format != "csv":
        for option, value in (("--quote", quote), ("--escape", escape)):
            if value is not None:
                raise UsageError(
                    f"{option} requires --format csv",
                    hint=f"the format {format} does not quote; leave {option} out, or name --format csv",
                )
        for option, names in (("--force-null", force_null), ("--force-not-null", force_not_null)):
            if names:
                raise UsageError(
                    f"{option} requires --format csv",
                    hint=f"the format {format} does not quote; leave {option} out, or name --format csv",
                )
    elif quote == "":
        raise UsageError(
            "--quote '' names no character",
            hint=r"where nothing is quoted: one that does not occur, as in --quote '\x1f'; or --format text, in which "
            "backslashes are escapes",
        )
    if (format == "fixed") != (field_widths is not None):
        raise UsageError(
            "--format fixed and --field-widths need each other",
            hint="give the fields' widths in characters: --format fixed --field-widths 5,3,10",
        )
    if field_widths is not None and (
        not field_widths or not 1 <= min(field_widths) <= max(field_widths) <= WIDEST_FIELD
    ):
        raise UsageError(
            f"--field-widths must be positive numbers up to {WIDEST_FIELD}", hint="for example --field-widths 5,3,10"
        )
    if format == "fixed" and (delimiter is not None or trailing_delimiter):
        raise UsageError("--format fixed has no delimiter", hint="leave out --delimiter and --trailing-delimiter")
    plan_quote = default.quote if quote is None else _one_byte("--quote", quote)
    dialect = Dialect(
        format=default.format,
        delimiter=default.delimiter if delimiter is None else _one_byte("--delimiter", delimiter),
        quote=plan_quote,
        # As in COPY: the escape follows the quote unless it is given itself.
        escape=plan_quote if escape is None else _one_byte("--escape", escape),
        null_text=default.null_text if null_text is None else null_text,
        header=_header(header) if header is not None else default.header,
        trailing_delimiter=default.trailing_delimiter if trailing_delimiter is None else trailing_delimiter,
        encoding=encoding,
        skip_lines=skip_lines,
        comment=None if comment is None else _one_byte("--comment", comment),
        force_null=tuple(force_null),
        force_not_null=tuple(force_not_null),
        widths=tuple(field_widths or ()),
        date_style=None if date_style is None else date_style_of(date_style),
        decimal_separator=decimal_separator,
        thousands=thousands,
    )
    check_separators("." if decimal_separator is None else decimal_separator, thousands)
    _check_dialect(dialect)
    return dialect


_CHARACTER_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "\\": "\\"}


def _one_byte(option: str, text: str) -> str:
    """The one-byte character that `text` is or stands for."""
    character = text
    if len(text) > 1 and text[0] == "\\":
        escape = text[1:]
        if escape in _CHARACTER_ESCAPES:
            character = _CHARACTER_ESCAPES[escape]
        elif re.fullmatch(r"x[0-9A-Fa-f]{1,2}", escape):
            character = chr(int(escape[1:], 16))
        elif re.fullmatch(r"[0-7]{1,3}", escape):
            character = chr(int(escape, 8))
    if len(character) != 1 or ord(character) > 0x7F or character == "\0":
        raise UsageError(
            f"{option} must be a single one-byte character, and {text!r} is not",
            hint=rf"give one ASCII character, or an escape such as '\t' or '\x1f': {option} ';'",
        )
    return character


def _header(text: str) -> Header:
    folded = text.lower()
    if folded not in HEADERS:
        raise UsageError(
            f"--header must be yes, no or match, and not {text!r}",
            hint="yes skips the first line of every file, match also compares its names with the columns",
        )
    return folded


# COPY refuses these in its text format: a backslash before one of them, or the character in data, would be
# ambiguous (ProcessCopyOptions: "\\.abcdefghijklmnopqrstuvwxyz0123456789"). It takes A to F, and reads `\xA` as a line
# end even where A divides the fields; files that are cut anywhere are not read with such a rule.
_NO_TEXT_DELIMITERS = "\\.abcdefghijklmnopqrstuvwxyz0123456789ABCDEF"


def _check_dialect(dialect: Dialect) -> None:
    if dialect.skip_lines < 0:
        raise UsageError("--skip-lines cannot be negative", hint="give the number of lines before the first record")
    if dialect.comment is not None and dialect.comment in (
        dialect.delimiter,
        dialect.quote,
        dialect.escape,
        "\r",
        "\n",
    ):
        raise UsageError(
            f"--comment cannot be {dialect.comment!r}, which has another meaning",
            hint="the delimiter, the quote, the escape and line ends begin fields and records",
        )
    for option, character in (
        ("--delimiter", dialect.delimiter),
        ("--quote", dialect.quote),
        ("--escape", dialect.escape),
    ):
        if character is not None and character in "\r\n":
            raise UsageError(
                f"{option} cannot be newline or carriage return",
                hint="line ends separate records; choose another",
            )
    if any(character in dialect.null_text for character in "\r\n\0"):
        raise UsageError(
            "--null cannot use newline, carriage return or a zero character",
            hint="line ends separate records; choose another text for NULL",
        )
    if dialect.format == "fixed":
        return
    if dialect.format != "csv" and dialect.delimiter in _NO_TEXT_DELIMITERS:
        raise UsageError(
            f"--delimiter cannot be {dialect.delimiter!r} in the format {dialect.format}",
            hint="lower case letters, A to F, digits, the dot and the backslash have a meaning there; choose another",
        )
    if dialect.delimiter == dialect.quote:
        raise UsageError(
            f"--delimiter and --quote must be different, and both are {dialect.delimiter!r}",
            hint="choose another --quote or --delimiter",
        )
    if dialect.delimiter in dialect.null_text:
        raise UsageError(
            f"the delimiter {dialect.delimiter!r} must not appear in --null {dialect.null_text!r}",
            hint="choose another text for NULL",
        )
    if dialect.quote is not None and dialect.quote in dialect.null_text:
        raise UsageError(
            f"the quote {dialect.quote!r} must not appear in --null {dialect.null_text!r}",
            hint="NULL is recognised unquoted only: give the text without its quotes",
        )


MINIMUM_SLICE_BYTES = 8 * 1024 * 1024
"""Below this, what a slice costs on its own (a COPY, a ledger row) begins to show against its data."""
MINIMUM_PACKED_SLICE_BYTES = 1024 * 1024
"""The same for columnar files and packed text: compressed, this much is as many rows as several times as much text."""
MAXIMUM_SLICE_BYTES = 256 * 1024 * 1024
"""Above this, a retry or a resumed job repeats too much work."""
SLICES_PER_STREAM = 8
"""Enough that a slow stream leaves its last slices to the others: the end is uneven by at most about 1/8."""


def least_slice_bytes(*, packed: bool) -> int:
    """The least size of a slice of a source in which each byte stands for several, or not."""
    return MINIMUM_PACKED_SLICE_BYTES if packed else MINIMUM_SLICE_BYTES


def useful_streams(sources: Iterable[tuple[int, bool]]) -> int:
    """How many streams find something to do, at least one.

    Args:
        sources: size in bytes of each, and whether it is packed.
    """
    return max(1, math.ceil(sum(size_bytes / least_slice_bytes(packed=packed) for size_bytes, packed in sources)))


class SlicePlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the sources are cut."""

    slice_bytes: int
    """Aim for the length of a slice; real ends move to the next record boundary."""
    slice_count: int
    """How many slices that makes, small files not yet grouped. Empty files make none."""
    total_bytes: int

    def __str__(self) -> str:
        return f"{self.slice_count:,} slices of about {format_bytes(self.slice_bytes)}"


def plan_slices(
    files: Sequence[tuple[str, int]],
    streams: int,
    *,
    minimum_slice_bytes: int = MINIMUM_SLICE_BYTES,
    maximum_slice_bytes: int = MAXIMUM_SLICE_BYTES,
    slices_per_stream: int = SLICES_PER_STREAM,
) -> SlicePlan:
    """Choose the slice size: `total / (streams * slices_per_stream)`, held between minimum and maximum.

    Args:
        files: path and size in bytes of each source file.
        streams: how many streams will take slices; at least 1.

    Raises:
        ValueError: no stream, a negative size, or a minimum above the maximum: faults of the caller.
    """
    if streams < 1 or slices_per_stream < 1:
        raise ValueError("there must be at least one stream and one slice per stream")
    if not 1 <= minimum_slice_bytes <= maximum_slice_bytes:
        raise ValueError("the slice size must be at least one byte, and its minimum not above its maximum")
    if any(size_bytes < 0 for _, size_bytes in files):
        raise ValueError("a file's size is negative")
    total_bytes = sum(size_bytes for _, size_bytes in files)
    even_bytes = -(-total_bytes // (streams * slices_per_stream))
    slice_bytes = min(max(even_bytes, minimum_slice_bytes), maximum_slice_bytes)
    return SlicePlan(
        slice_bytes=slice_bytes,
        slice_count=sum(-(-size_bytes // slice_bytes) for _, size_bytes in files),
        total_bytes=total_bytes,
    )
