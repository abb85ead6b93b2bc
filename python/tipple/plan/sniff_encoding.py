"""Which encoding a sample is in."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

from tipple.plan.sniff_profile import Decision
from tipple.plan.sniff_signs import has_signs

__all__ = ["OF_DOS", "decide_encoding", "to_utf8"]

_BYTE_ORDER_MARKS = ((b"\xff\xfe", "UTF-16LE"), (b"\xfe\xff", "UTF-16BE"))
_HIGH = re.compile(rb"[\x80-\xff]+")
_LATIN_WORD = re.compile(rb"[A-Za-z][\xc0-\xff]|[\xc0-\xff][A-Za-z]")
"""A letter with an accent beside a plain one."""
_NOT_IN_WINDOWS_1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_NOT_IN_LATIN1_TEXT = re.compile(rb"[\x80\x82-\x8c\x8e\x91-\x9c\x9e\x9f]")
"""Bytes that are characters in Windows-1252 and control characters in Latin-1: euro signs, quotes, dashes."""
_DOS_WORD = re.compile(rb"[A-Za-z][\x81\x8d\x8f\x90\x9d]|[\x81\x8d\x8f\x90\x9d][A-Za-z]")
"""Beside letters these are letters of DOS (in CP850 81 is `ü`), and of no encoding that is guessed here."""
_DOS_IN_WORD = re.compile(rb"(?<=[A-Za-z\xe1])[\x82-\x84\x87-\x89\x8b\x93-\x95\x98\x9b](?=[A-Za-z\xe1])")
"""Within a word these are letters of DOS (94 is `ö`, as E1 is `ß`): of Windows they are quotes, daggers, bullets."""
_IN_QUOTES = re.compile(rb"\x93[^\x93\x94\n]+\x94|\x84[^\x84\x93\n]+\x93")
"""A quote that lacks the space behind it is one all the same."""
_FEW_LETTERS = 10
"""Of so many letters with accents one may have a sign beside it that is out of place."""
OF_DOS = "not UTF-8, and perhaps of DOS: iconv -f CP850 -t UTF-8 (or CP437) converts that"
_CODECS = {
    "UTF8": "utf-8",
    "LATIN1": "latin-1",
    "WIN1252": "cp1252",
    "UTF-16": "utf-16",
    "UTF-16LE": "utf-16-le",
    "UTF-16BE": "utf-16-be",
}


def decide_encoding(chunks: Sequence[bytes]) -> Decision:
    """The encoding of the chunks, each of which may begin and end within a character.

    Bytes that are no UTF-8 make a file one of Windows-1252 only where they look like the letters of a language, or like
    signs beside them: a single broken byte is a bad record, and is to be named as one.
    """
    for mark, name in _BYTE_ORDER_MARKS:
        if chunks and chunks[0].startswith(mark):
            return _encoding(name, 0.99, "the file begins with its byte order mark")
    if all(_is_utf8(chunk) for chunk in chunks):
        ascii_only = all(chunk.isascii() for chunk in chunks)
        return _encoding("UTF8", 0.9 if ascii_only else 0.99, "plain ASCII" if ascii_only else "valid UTF-8")
    whole = b"\n".join(chunks)
    runs = _HIGH.findall(whole)
    broken = [run for run in runs if not _is_utf8_text(run)]
    letters = len(_LATIN_WORD.findall(whole))
    if 2 * len(broken) > len(runs) and 2 * letters >= len(broken):
        but = "; but parts of it are valid UTF-8" if len(broken) < len(runs) else ""
        of_dos = len(_DOS_WORD.findall(whole))
        in_words = len(_DOS_IN_WORD.findall(_IN_QUOTES.sub(b"", whole)))
        if (of_dos and of_dos >= letters) or (in_words and _FEW_LETTERS * in_words >= letters):
            return _encoding("UTF8", 0.4, OF_DOS)
        if _NOT_IN_WINDOWS_1252.search(whole):
            if _NOT_IN_LATIN1_TEXT.search(whole):
                # As Latin-1, euro signs and quotes would be stored as control characters without a word.
                return _encoding(
                    "WIN1252", 0.5, f"not UTF-8, and some bytes are no characters of Windows-1252{but}", whole
                )
            return _encoding("LATIN1", 0.6, f"not UTF-8, with bytes that Windows-1252 does not have{but}")
        # `Straße` of DOS has no other byte than this.
        sharp = "; where á stands for ß, it is of DOS (iconv -f CP850 -t UTF-8)" if set(runs) == {b"\xe1"} else ""
        return _encoding("WIN1252", 0.65, f"not UTF-8, but accents stand where a language has them{sharp}{but}", whole)
    if len(broken) == len(runs) and has_signs(whole):
        return _encoding(
            "WIN1252", 0.6, "not UTF-8, but signs such as € and ’ stand where Windows-1252 has them", whole
        )
    return _encoding("UTF8", 0.4, "there are bytes that are not valid UTF-8")


def _encoding(value: str, confidence: float, reason: str, text: bytes = b"") -> Decision:
    latin1 = value == "WIN1252" and not _NOT_IN_LATIN1_TEXT.search(text)
    alternatives = ("LATIN1",) if latin1 else ()
    return Decision(option="encoding", value=value, confidence=confidence, reason=reason, alternatives=alternatives)


def to_utf8(chunk: bytes, encoding: str) -> bytes:
    """A chunk in UTF-8. UTF-8 itself stays as it is, broken bytes too."""
    codec = _CODECS.get(encoding, "utf-8")
    if codec == "utf-8":
        return chunk
    return chunk.decode(codec, errors="replace").removeprefix("\ufeff").encode()


def _is_utf8(chunk: bytes) -> bool:
    """Whether it is valid but for a character that the chunk's ends have cut."""
    begin = 0
    while begin < min(3, len(chunk)) and chunk[begin] & 0xC0 == 0x80:
        begin += 1
    try:
        codecs.getincrementaldecoder("utf-8")().decode(chunk[begin:], final=False)
    except UnicodeDecodeError:
        return False
    return True


def _is_utf8_text(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
