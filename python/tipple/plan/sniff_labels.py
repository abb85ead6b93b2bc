"""Row labels: a header over them has no name for them, as pandas and R write it, and begins like a record without a
value.

Which of both it is, only the labels tell. A program counts them; values of an optional column have gaps, and stand in
any order. Databases that sort NULL first write a record without a value above ascending ones, so that an order alone
says nothing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tipple.plan.sniff_profile import Chunk, HeadField, Layout, Profile

__all__ = ["MANY_LABELS", "begins_blank", "counted_from", "row_labels"]

MANY_LABELS = 10
"""So many in a row are no chance."""


def row_labels(chunks: Sequence[Chunk], layout: Layout, profile: Profile) -> list[str]:
    """The first fields behind a first record that begins with an empty one; nothing where no source has such."""
    chunk = next((chunk for chunk in chunks if chunk.begins and begins_blank(profile.heads.get(chunk.file, []))), None)
    if chunk is None:
        return []
    # Its last record may be a part of one.
    data = chunk.data if chunk.ends else chunk.data[: chunk.data.rfind(b"\n") + 1]
    quoted = layout.format == "csv"
    doubled = layout.escape in (None, layout.quote)
    reader = csv.reader(
        io.StringIO(data.decode(errors="replace"), newline=""),
        delimiter=layout.delimiter,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        quotechar=(layout.quote or '"') if quoted else None,
        doublequote=doubled,
        escapechar=None if doubled else layout.escape,
    )
    fields = profile.fields + layout.trails
    try:
        return [record[0] for record in reader if len(record) == fields][1:]
    except csv.Error:
        return []


def counted_from(labels: Sequence[str]) -> int | None:
    """0 or 1 where the labels count up from there."""
    first = int(labels[0]) if labels and labels[0] in ("0", "1") else None
    if first is None or any(label != str(number) for number, label in enumerate(labels, first)):
        return None
    return first


def begins_blank(head: Sequence[HeadField]) -> bool:
    """Whether the first field of a record is empty."""
    return any(not field.text.strip() for field in head[:1])
