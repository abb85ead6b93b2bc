"""Reads a sample of the sources: the head, the tail and evenly spaced places between, of some of the files.

The places depend on the files' sizes alone, so that the same files give the same sample.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import msgspec

from tipple.engines.base import STDIN, Identity
from tipple.plan.sniff_profile import Layout
from tipple.run.sources import read_lines, readable_file, utf16_mark

__all__ = ["Sample", "take_sample"]

TOTAL_BYTES = 4 * 1024 * 1024
"""About the most that is read of all files together."""
MAX_FILES = 12
HEAD_BYTES = 256 * 1024
STREAM_HEAD_BYTES = 1024 * 1024
"""Of what is read as a stream nothing but the head can be had."""
PIECE_BYTES = 64 * 1024
MAX_PIECES = 24
PAGE_BYTES = 4096
"""Places begin at multiples of this, which is also a multiple of every encoding's unit."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file."""

    file: int
    """Its file's place in `Sample.paths`."""
    begins: bool
    ends: bool
    data: bytes
    mark: bytes = b""
    """The byte order mark of UTF-16 by which `data` was decoded."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What was read."""

    paths: tuple[str, ...]
    """The files that were sampled, in their order; empty ones are left out."""
    pieces: tuple[Piece, ...]
    total_bytes: int
    """Of all sources, sampled or not."""

    @property
    def size_bytes(self) -> int:
        """How much was read."""
        return sum(len(piece.data) for piece in self.pieces)


def take_sample(
    paths: Sequence[str], streams: Mapping[str, Identity] | None = None, layout: Layout | None = None
) -> Sample:
    """A sample of the files at `paths`; of `streams`, which are read from beginning to end, the head of the text.

    `layout` says what quotes lines of streams that look like comments.

    Raises:
        TippleError: a file cannot be read.
    """
    streams = streams or {}
    sizes = {path: streams[path].size if path in streams else _size(path) for path in paths}
    filled = [path for path in paths if sizes[path] or path == STDIN]
    if len(filled) > MAX_FILES:
        filled = [filled[index * (len(filled) - 1) // (MAX_FILES - 1)] for index in range(MAX_FILES)]
    pieces: list[Piece] = []
    budget = TOTAL_BYTES // max(1, len(filled)) - PAGE_BYTES
    for number, path in enumerate(filled):
        if path in streams:
            pieces += _text_head(number, streams[path], min(STREAM_HEAD_BYTES, budget), layout)
            continue
        with readable_file(path), open(path, "rb") as file:
            for offset, length in _places(sizes[path], budget):
                data = _head(file.fileno(), length) if offset == 0 else os.pread(file.fileno(), length, offset)
                ends = offset + len(data) >= sizes[path]
                pieces.append(Piece(file=number, begins=offset == 0, ends=ends, data=data))
    return Sample(paths=tuple(filled), pieces=tuple(pieces), total_bytes=sum(sizes.values()))


def _size(path: str) -> int:
    with readable_file(path):
        return os.path.getsize(path)


def _text_head(file: int, source: Identity, wanted: int, layout: Layout | None) -> list[Piece]:
    data = read_lines(source, wanted, layout)
    # Of standard input it may be less although there is more.
    ends = len(data) < wanted and source.path != STDIN
    return [Piece(file=file, begins=True, ends=ends, data=data, mark=utf16_mark(source))] if data else []


def _places(size: int, budget: int) -> list[tuple[int, int]]:
    """Offsets and lengths of the pieces of one file."""
    head = min(HEAD_BYTES, budget // 4)
    piece = min(PIECE_BYTES, budget // 16)
    count = min(MAX_PIECES, (budget - head) // piece)
    if size <= head + count * piece:
        return [(0, size)]
    step = (size - head - piece) / (count - 1)
    offsets = [int(head + index * step) // PAGE_BYTES * PAGE_BYTES for index in range(count - 1)]
    # The last one reaches to the end.
    last = (size - piece) // PAGE_BYTES * PAGE_BYTES
    return [(0, head), *((offset, piece) for offset in offsets), (last, size - last)]


def _head(file: int, length: int) -> bytes:
    """The head, and more of the file where no record ends in it."""
    data = os.pread(file, length, 0)
    if len(data) == length and b"\n" not in data and b"\r" not in data:
        data = os.pread(file, TOTAL_BYTES, 0)
    return data
