"""Control characters in a bad record, whose bytes are read once more where they stand in the file as such."""

from __future__ import annotations

from collections.abc import Sequence

from tipple.engines.base import Identity
from tipple.errors import BadRecord

__all__ = ["ends_as_in_dos", "has_nul", "holds_nothing_else"]

_DOS_END = b"\x1a"
"""What programs of DOS have written behind the last line of a text."""
_DELIMITERS = b"\t\x01\x1f"
_FIELDS = "22P04"
"""The SQLSTATE of a wrong number of fields."""
_MOST_BYTES = 64 * 1024
"""Of a record that is read once more."""


def ends_as_in_dos(error: BadRecord, sources: Sequence[Identity]) -> bool:
    """Whether the text to blame is the end of its file, with the mark of DOS."""
    rest = _rest(error, sources) if (error.text or "").endswith(r"\x1a") else b""
    return rest.endswith(_DOS_END) and rest.count(_DOS_END) == 1 and b"\n" not in rest


def holds_nothing_else(error: BadRecord, sources: Sequence[Identity]) -> bool:
    """Whether all of a record with too few fields is control characters, of which none may be a delimiter."""
    line = _line(error, sources).strip(b" \r") if error.sqlstate == _FIELDS else b""
    return bool(line) and all((byte < 0x20 or byte == 0x7F) and byte not in _DELIMITERS for byte in line)


def has_nul(error: BadRecord, sources: Sequence[Identity]) -> bool:
    """Whether a NUL byte is in the text to blame."""
    return r"\x00" in (error.text or "") and b"\0" in _line(error, sources)


def _line(error: BadRecord, sources: Sequence[Identity]) -> bytes:
    return _rest(error, sources).partition(b"\n")[0]


def _rest(error: BadRecord, sources: Sequence[Identity]) -> bytes:
    """The file from the record on, as far as a record may go; nothing of what is unpacked or decoded, or is gone."""
    source = next((source for source in sources if source.path == error.file), None)
    if source is None or source.form is not None or error.byte_offset is None:
        return b""
    try:
        with open(source.path, "rb") as file:
            file.seek(error.byte_offset)
            return file.read(_MOST_BYTES)
    except OSError:
        # There is an error to report already, and it is not this one.
        return b""
