"""The encoding of the sources, and which of them are of another one than the rest."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from tipple.engines.base import Identity
from tipple.errors import UsageError
from tipple.plan.sniff_encoding import decide_encoding
from tipple.plan.sniff_profile import LOW_CONFIDENCE, Decision
from tipple.run.sampling import MAX_FILES, Sample, take_sample

__all__ = ["RECODED", "look_at_encoding"]

RECODED = frozenset({"LATIN1", "WIN1252"})
"""Encodings that have to be named: UTF-8 is what is read without a name, and UTF-16 says itself what it is."""


def look_at_encoding(
    sample: Sample, paths: Sequence[str], streams: Mapping[str, Identity]
) -> tuple[Decision, dict[str, str]]:
    """The encoding of all sources, and the files that are of another one, with that.

    Args:
        sample: of the sources.
        paths: all sources.
        streams: those that are read from beginning to end.

    Raises:
        UsageError: files are UTF-8 beside others that are not, and would be stored wrongly.
    """
    decision = _encoding_of(sample, range(len(sample.paths)))
    found = dict(_by_file(sample))
    if decision.value in RECODED:
        # UTF-8 is valid in them too, only with other characters: no record would be refused.
        rest = iter([path for path in paths if path not in sample.paths])
        others = ((path, own) for some in _batches(rest) for path, own in _by_file(take_sample(some, streams)))
        _refuse_utf8(itertools.chain(found.items(), others))
        return decision, {}
    odd = {path: own.value for path, own in found.items() if own.value in RECODED}
    if not odd or len(odd) == len(found):
        return decision, {}
    path, encoding = next(iter(odd.items()))
    more = f", and {len(odd) - 1} more files" if len(odd) > 1 else ""
    reason = f"{path} seems to be {encoding}{more}, but others are UTF-8; load it by a command of its own"
    return msgspec.structs.replace(decision, reason=reason, confidence=min(decision.confidence, 0.4)), odd


def _batches(paths: Iterator[str]) -> Iterator[list[str]]:
    """As many files at a time as are sampled together."""
    while batch := list(itertools.islice(paths, MAX_FILES)):
        yield batch


def _encoding_of(sample: Sample, files: Collection[int]) -> Decision:
    """The encoding of some of the sampled files."""
    pieces = [piece for piece in sample.pieces if piece.file in files]
    mark = pieces[0].mark if pieces else b""
    return decide_encoding([mark, *(piece.data for piece in pieces)] if mark else [piece.data for piece in pieces])


def _by_file(sample: Sample) -> Iterator[tuple[str, Decision]]:
    """The encoding of each file that shows one."""
    for number, path in enumerate(sample.paths):
        if all(piece.data.isascii() for piece in sample.pieces if piece.file == number):
            continue
        own = _encoding_of(sample, [number])
        if own.value in RECODED or own.confidence >= LOW_CONFIDENCE:
            yield path, own


def _refuse_utf8(by_file: Iterator[tuple[str, Decision]]) -> None:
    found: dict[bool, str] = {}
    for path, own in by_file:
        found.setdefault(own.value in RECODED, f"{own.value} ({path})")
        if len(found) > 1:
            raise UsageError(
                f"the sources have different encodings: {', '.join(found.values())}",
                hint="load each encoding by a command of its own, or name one for all by --encoding",
            )
