"""Sources that hold what no record can be made of, refused for what they are before a record is blamed."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tipple.engines.base import STDIN
from tipple.errors import UsageError
from tipple.plan.sniff_options import spell
from tipple.plan.sniff_profile import Chunk, Profile

__all__ = [
    "refuse_doubled_line_ends",
    "refuse_mixed_line_ends",
    "refuse_other_first_line_end",
    "refuse_other_text",
    "refuse_separator_line",
]

_MARK = rb"\s*+(?:\xef\xbb\xbf)?+\s*+"
_LOADED_AS_TEXT = "--format csv loads its lines all the same"
_OTHER_TEXTS = (
    (
        re.compile(_MARK + rb"(<(?:!doctype\s+html|html)\b)", re.IGNORECASE),
        "an HTML page",
        f"a page with an error or a login, most likely, in place of the file: fetch that again; {_LOADED_AS_TEXT}",
    ),
    (
        re.compile(_MARK + rb"(<\?xml\s)", re.IGNORECASE),
        "XML",
        "if it is an error that a server sent in place of the file, fetch that again; of other XML make CSV or Parquet "
        f"first; {_LOADED_AS_TEXT}",
    ),
    (
        re.compile(rb"(version https://git-lfs\.github\.com/spec/)"),
        "a pointer of Git LFS, and not the file that it stands for",
        f"git lfs pull fetches that; {_LOADED_AS_TEXT}",
    ),
)
_SEPARATOR_LINE = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=([^\r\n])"?\r?\n', re.IGNORECASE)
_LINE_ENDS = {b"\r\n": "CRLF", b"\n": "LF", b"\r": "CR"}
_LINE_END = re.compile(rb"\r\n|\n|\r")
_EMPTY_LINE = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]")
_IN_QUOTES = re.compile(rb'"[^"]*"')
_USUAL_SHARE = 0.9
"""Where so many lines end alike, the others are bad records, of which each is told."""


def refuse_other_text(paths: Sequence[str], chunks: Iterable[Chunk]) -> None:
    """Refuses documents that are no tables: what servers and tools leave in place of a file.

    Where a further line begins in the same way, lines are records.

    Raises:
        UsageError: there is one.
    """
    for chunk in _beginnings(chunks):
        for begins, name, remedy in _OTHER_TEXTS:
            found = begins.match(chunk.data)
            if found is not None and chunk.data.find(b"\n" + found[1], found.end()) < 0:
                path = paths[chunk.file]
                source = "standard input" if path == STDIN else path
                raise UsageError(f"{source} is {name}, no table", hint=remedy, detail={"path": path})


def refuse_separator_line(paths: Sequence[str], chunks: Iterable[Chunk]) -> None:
    """Refuses the line by which Excel is told the delimiter: it is no record, and stands before the header.

    Raises:
        UsageError: there is one.
    """
    for chunk in _beginnings(chunks):
        found = _SEPARATOR_LINE.match(chunk.data)
        if found is not None:
            delimiter = found.group(1).decode(errors="replace")
            raise UsageError(
                f"{paths[chunk.file]} begins with the line sep={spell(delimiter)}, which tells Excel the delimiter",
                hint=f"--skip-lines 1 --delimiter {shlex.quote(spell(delimiter))} leaves it out of every file",
            )


def refuse_doubled_line_ends(paths: Sequence[str], chunks: Iterable[Chunk]) -> None:
    """Refuses lines that end with CR CR LF: each would be a record and an empty one.

    Raises:
        UsageError: nearly all lines of a file do.
    """
    for chunk in _with_returns(chunks):
        data = _IN_QUOTES.sub(b"", chunk.data)
        doubled = data.count(b"\r\r\n")
        if doubled and doubled >= _USUAL_SHARE * data.count(b"\n"):
            path = paths[chunk.file]
            raise UsageError(
                f"{path}: its lines end with CR CR LF: what wrote it made CRLF of LF twice",
                hint=_remedy("sed 's/\\r*$//'"),
                detail={"path": path},
            )


def refuse_other_first_line_end(paths: Sequence[str], chunks: Iterable[Chunk]) -> None:
    """Refuses a first line that ends in another way than all below it: they would be one record, or bad ones.

    Raises:
        UsageError: there is one.
    """
    for chunk, first, others in _line_ends(chunks):
        if len(set(others)) == 1 and first not in others:
            path, other = paths[chunk.file], others[0]
            raise UsageError(
                f"{path}: its first line ends with {_LINE_ENDS[first]}, and those below it with {_LINE_ENDS[other]}",
                hint=_remedy_for((first, other)),
                detail={"path": path},
            )


def refuse_mixed_line_ends(paths: Sequence[str], chunks: Iterable[Chunk], profile: Profile) -> None:
    """Refuses lines that end in several ways, by turns, where records have different numbers of fields for it.

    Raises:
        UsageError: there are such lines.
    """
    if profile.regularity == 1.0:
        return
    for chunk, first, others in _line_ends(chunks):
        counts = Counter([first, *others]).most_common()
        if counts[0][1] < _USUAL_SHARE * (1 + len(others)):
            path = paths[chunk.file]
            ends = [end for end, _ in counts]
            raise UsageError(
                f"{path}: its lines have different ends: {', '.join(_LINE_ENDS[end] for end in ends)}",
                hint=_remedy_for(ends),
                detail={"path": path},
            )


def _beginnings(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    return (chunk for chunk in chunks if chunk.begins)


def _with_returns(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The beginnings that have a carriage return: most have none, and patterns take a while to find that out."""
    return (chunk for chunk in _beginnings(chunks) if b"\r" in chunk.data)


def _line_ends(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, bytes, list[bytes]]]:
    """The beginnings of files, with the ends of the first line and of those below it, outside quotes. Files whose lines
    cannot but end alike are left out.
    """
    for chunk in _with_returns(chunks):
        if _EMPTY_LINE.match(chunk.data):
            continue
        # What follows a carriage return at the very end decides what it is.
        data = chunk.data if chunk.ends else chunk.data.rstrip(b"\r")
        ends = _LINE_END.findall(_IN_QUOTES.sub(b"", data))
        if ends:
            yield chunk, ends[0], ends[1:]


def _remedy_for(ends: Sequence[bytes]) -> str:
    return _remedy("perl -pe 's/\\r\\n?/\\n/g'" if b"\r" in ends else "sed 's/\\r$//'")


def _remedy(command: str) -> str:
    return f"give all lines the same end: {command} FILE > NEW"
