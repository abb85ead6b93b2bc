"""Whether a Parquet file has encrypted columns, as its footer says: whoever reads their pages takes them for damaged.

The footer is a `FileMetaData` of parquet.thrift in Thrift's compact protocol:
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

TAIL_BYTES = 8
"""What stands behind the footer: its length, and the magic number."""
_ENCRYPTION_ALGORITHM = 8
"""The number of the field in `FileMetaData`, which only files with encrypted columns have."""

_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _BINARY = (1, 2), 3, (4, 5, 6), 7, 8
_LISTS, _MAP, _STRUCT = (9, 10), 11, 12
_LONG = 15
"""In place of a list's length: it follows."""


def footer_bytes(tail: bytes) -> int:
    """How long the footer is before the last `TAIL_BYTES` of a file."""
    return int.from_bytes(tail[:4], "little")


def has_encrypted_columns(footer: bytes) -> bool:
    """Whether a footer names the algorithm by which columns are encrypted; a damaged one does not."""
    walk = _Walk(footer)
    try:
        return _ENCRYPTION_ALGORITHM in iter(walk.next_field, None)
    except (IndexError, ValueError, RecursionError):
        return False


class _Walk:
    """Goes over the fields of a struct."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._number = 0
        self._kind = 0

    def next_field(self) -> int | None:
        """The number of the next field, None behind the last one."""
        if self._number:
            self._skip(self._kind)
        self._number, self._kind = self._head(self._number)
        return self._number or None

    def _head(self, before: int) -> tuple[int, int]:
        """Number and kind of a field, or zeros at the end of a struct."""
        head = self._byte()
        if head == 0:
            return 0, 0
        step, kind = head >> 4, head & 15
        # In zigzag, of which no field has a negative one.
        return (before + step if step else self._integer() >> 1), kind

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _integer(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def _skip(self, kind: int) -> None:
        if kind == _BYTE:
            self._at += 1
        elif kind in _INTEGERS:
            self._integer()
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _BINARY:
            # Not `+=`, which takes what stands there before the length is read.
            length = self._integer()
            self._at += length
        elif kind in _LISTS:
            head = self._byte()
            count = self._integer() if head >> 4 == _LONG else head >> 4
            for _ in range(count):
                self._skip_element(head & 15)
        elif kind == _MAP:
            count = self._integer()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip_element(kinds >> 4)
                self._skip_element(kinds & 15)
        elif kind == _STRUCT:
            number, inner = self._head(0)
            while number:
                self._skip(inner)
                number, inner = self._head(number)
        elif kind not in _BOOLEANS:
            raise ValueError(f"no kind of value: {kind}")

    def _skip_element(self, kind: int) -> None:
        # Of a field its kind says whether it is true; an element has a byte for it.
        self._skip(_BYTE if kind in _BOOLEANS else kind)
