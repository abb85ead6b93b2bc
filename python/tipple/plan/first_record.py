"""The fields of a text's first record, split and unescaped as COPY does, in a dialect; for the names in headers.

Records that are stored are the core's business. See CopyReadAttributesCSV and CopyReadAttributesText in
src/backend/commands/copyfromparse.c.
"""

from __future__ import annotations

import itertools
import re

from tipple.plan.sources import Dialect

__all__ = ["first_fields"]

_LINE_END = re.compile(r"\r\n|\r|\n")
_ESCAPE_SEQUENCE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.)|$)", re.DOTALL)
_CONTROL_CHARACTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def first_fields(text: str, dialect: Dialect) -> tuple[list[str], int]:
    """The fields of the first record, and how many characters of the text were read for it.

    Args:
        text: the beginning of a source; bytes that are no UTF-8 stand in it as surrogates.
        dialect: how it is written.

    Returns:
        No fields where there is no text. All of the text was read where the record does not end in it.
    """
    if not text:
        return [], 0
    if dialect.quote is not None:
        fields, length = _csv_fields(text, dialect.delimiter, dialect.quote, dialect.escape or dialect.quote)
    elif dialect.format == "text":
        fields, length = _text_fields(text, dialect.delimiter)
    else:
        line = _LINE_END.split(text, maxsplit=1)[0]
        length = len(line)
        if dialect.format == "fixed":
            ends = itertools.accumulate(dialect.widths)
            return [line[end - width : end].strip() for width, end in zip(dialect.widths, ends, strict=True)], length
        fields = line.split(dialect.delimiter)
    trailing = dialect.trailing_delimiter and fields[-1] == ""
    return fields[:-1] if trailing else fields, length


def _csv_fields(text: str, delimiter: str, quote: str, escape: str) -> tuple[list[str], int]:
    outside = re.compile(f"[{re.escape(delimiter + quote)}\r\n]")
    inside = re.compile(f"[{re.escape(quote + escape)}]")
    fields = [""]
    position, quoted = 0, False
    while (found := (inside if quoted else outside).search(text, position)) is not None:
        fields[-1] += text[position : found.start()]
        position = found.end()
        sign = found.group()
        if quoted and sign == escape and text[position : position + 1] in (quote, escape):
            fields[-1] += text[position]
            position += 1
        elif sign == quote:
            quoted = not quoted
        elif quoted:
            fields[-1] += sign
        elif sign == delimiter:
            fields.append("")
        else:
            return fields, found.start()
    fields[-1] += text[position:]
    return fields, len(text)


def _text_fields(text: str, delimiter: str) -> tuple[list[str], int]:
    sign = re.compile(rf"\\.|[{re.escape(delimiter)}\r\n]", re.DOTALL)
    fields: list[str] = []
    begin = 0
    for found in sign.finditer(text):
        if found.group().startswith("\\"):
            continue
        fields.append(_unescaped(text[begin : found.start()]))
        begin = found.end()
        if found.group() != delimiter:
            return fields, found.start()
    fields.append(_unescaped(text[begin:]))
    return fields, len(text)


def _unescaped(field: str) -> str:
    """A field of the text format without its backslashes; `\\N` stays, since it is no text."""
    if "\\" not in field or field == "\\N":
        return field
    plain = _ESCAPE_SEQUENCE.sub(_meant, field)
    # Several sequences may be the bytes of one character.
    return plain.encode(errors="surrogateescape").decode(errors="surrogateescape")


def _meant(sequence: re.Match[str]) -> str:
    hexadecimal, octal, sign = sequence.groups()
    if hexadecimal or octal:
        code = int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 0xFF
        return chr(code) if code < 0x80 else chr(0xDC00 + code)
    return _CONTROL_CHARACTERS.get(sign, sign) if sign else "\\"
