"""Records at the top of a file that are none: a line of dashes, of types, or of units, below the names of columns.

It alone keeps columns from being numbers or dates. Whether it is a record, only a reader knows, but for dashes: no
table has a record of nothing else, so that what stands above them names the columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from tipple.plan.first_record import first_fields
from tipple.plan.sniff_header import is_narrow
from tipple.plan.sniff_profile import Chunk, ColumnProfile, Profile
from tipple.plan.sources import Dialect

__all__ = ["DASHES", "Top", "find_top"]

DASHES = re.compile(r" *(?:-+|=+) *")
"""What stands in each column of a line of dashes; alone it may be a word for NULL too."""
_SHORT_DASHES = 2
_LINE_END = re.compile(r"\r\n|\r|\n")
_TYPE = re.compile(
    r"(?:nullable\(|lowcardinality\()*"
    r"(?:u?int\d*|(?:big|small|tiny)int|integer|serial|float\d*|double(?: precision)?|real|decimal\d*|numeric|number"
    r"|money|bool(?:ean)?|bit|(?:fixed)?string|n?(?:var)?char2?|character(?: varying)?|text|clob|blob|bytea"
    r"|(?:var)?binary|date\d*|time|timetz|timestamp(?:tz)?|datetime\d*|interval|uuid|json\w*|array|map|tuple|enum\d*"
    r"|ipv[46])(?:\(.*\))?(?: with(?:out)? time zone)?\)*",
    re.IGNORECASE,
)
_LOOKED_AT_BYTES = 64 * 1024
_FEWEST_VALUES = 3
"""Of fewer values below it, a record may as well be the usual one."""
_NO_VALUES = frozenset({"text", "boolean_letter"})
_NAMED, _BELOW = 1, 2


class Top(msgspec.Struct, frozen=True, kw_only=True):
    """The first record of every file, or the first two, of which the last one is unlike all below it."""

    records: int
    """How many of each file."""
    lines: int
    """In how many lines."""
    names: tuple[str, ...]
    """The fields of the first one."""
    texts: tuple[str, ...]
    """Those of the last one."""
    columns: tuple[int, ...]
    """The columns, by index, in which it alone has a text; none where all of them hold texts."""
    is_ruled: bool
    """Whether it is a line of dashes."""
    is_sure: bool
    """Whether it can be nothing but dashes or types, so that the first one names columns."""
    below: Profile
    """What all further records look like, as `columns_with_heads`."""

    @property
    def is_below_names(self) -> bool:
        """Whether the first of two records may name columns."""
        names = [name.strip() for name in self.names]
        return self.records == _BELOW and all(names) and len(set(names)) == len(names) == len(self.texts)

    def above(self, profile: Profile) -> Profile:
        """The profile of the whole sample as if all below the first records were what is below these."""
        return msgspec.structs.replace(profile, columns=self.below.columns_with_heads)


class _Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The first records of a file."""

    records: tuple[tuple[str, ...], ...]
    lines: int
    size_bytes: int


def find_top(
    chunks: Sequence[Chunk], dialect: Dialect, profile: Profile, profile_of: Callable[[Sequence[Chunk]], Profile]
) -> Top | None:
    """The records that are unlike all others.

    Args:
        chunks: the sample.
        dialect: what it is written in.
        profile: what it looks like.
        profile_of: what other chunks look like.
    """
    seconds = _first_records(chunks, dialect, _BELOW)
    if not seconds:
        return None
    names, texts = seconds[0].records
    ruled = len(texts) == profile.fields and all(_is_ruled(*cut.records) for cut in seconds)
    if not ruled and not any(_has_few_texts(column, 2 * len(seconds)) for column in profile.columns_with_heads):
        return None
    firsts = _first_records(chunks, dialect, _NAMED)
    below_one, below_two = (profile_of(_without(chunks, cuts)) for cuts in (firsts, seconds))
    typed = len(texts) > 1 and all(_TYPE.fullmatch(text.strip()) for text in texts)
    columns = _typed_without(below_one, below_two, 1 if ruled or typed else _FEWEST_VALUES)
    if (ruled or columns) and _begins_without_values(below_one):
        return Top(
            records=_BELOW,
            lines=seconds[0].lines,
            names=names,
            texts=texts,
            columns=columns,
            is_ruled=ruled,
            is_sure=ruled or (typed and bool(columns)),
            below=below_two,
        )
    columns = _typed_without(profile, below_one, _FEWEST_VALUES)
    if not columns or not _begins_without_values(profile):
        return None
    return Top(
        records=_NAMED,
        lines=firsts[0].lines,
        names=names,
        texts=names,
        columns=columns,
        is_ruled=False,
        is_sure=False,
        below=below_one,
    )


def _first_records(chunks: Sequence[Chunk], dialect: Dialect, count: int) -> list[_Cut]:
    """So many records at the beginning of each file; nothing where a file has no more."""
    cuts = []
    for chunk in chunks:
        if not chunk.begins:
            continue
        text = chunk.data[:_LOOKED_AT_BYTES].decode(errors="surrogateescape")
        begin = position = int(text.startswith("\ufeff"))
        records = []
        for _ in range(count):
            fields, length = first_fields(text[position:], dialect)
            end = _LINE_END.match(text, position + length)
            if end is None or end.end() == len(text):
                return []
            records.append(tuple(fields))
            position = end.end()
        size = len(text[:position].encode(errors="surrogateescape"))
        lines = len(_LINE_END.findall(text[begin:position]))
        cuts.append(_Cut(records=tuple(records), lines=lines, size_bytes=size))
    return cuts


def _without(chunks: Sequence[Chunk], cuts: Sequence[_Cut]) -> list[Chunk]:
    """The sample without the records that were found at the beginning of each file."""
    rest = iter(cuts)
    return [
        msgspec.structs.replace(chunk, data=chunk.data[next(rest).size_bytes :]) if chunk.begins else chunk
        for chunk in chunks
    ]


def _is_ruled(names: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether nothing but dashes stands below names: as many as the name has signs, or more than stand for NULL."""
    if len(names) != len(texts) or not all(map(DASHES.fullmatch, texts)):
        return False
    as_long = all(len(name.strip()) == len(text.strip()) for name, text in zip(names, texts, strict=True))
    return as_long or any(len(text.strip()) > _SHORT_DASHES for text in texts)


def _has_few_texts(column: ColumnProfile, most: int) -> bool:
    return 0 < column.kinds.get("text", 0) <= most and len(column.kinds) > 1


def _typed_without(whole: Profile, rest: Profile, fewest: int) -> tuple[int, ...]:
    """The columns in which texts are only in a record that the rest lacks."""
    pairs = zip(whole.columns_with_heads, rest.columns_with_heads, strict=False)
    return tuple(
        index
        for index, (before, after) in enumerate(pairs)
        if "text" in before.kinds and is_narrow(after) and sum(after.kinds.values()) >= fewest
    )


def _begins_without_values(profile: Profile) -> bool:
    """Whether no field of the first records is a value of a type."""
    return all(field.kind in _NO_VALUES for head in profile.heads.values() for field in head)
