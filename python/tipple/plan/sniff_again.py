"""Whether the whole of a sample says otherwise than the part of it by which the layout was chosen.

To try every candidate on megabytes would take longer than many a load. So a part says which layout it is, and the
whole is read in that one only. Where it holds quotes or backslashes that the part has nothing of, or records that are
worse, all candidates are tried on the whole: what stands behind the part counts as much as what stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tipple.plan.sniff import QUOTED_FOR_A_REASON
from tipple.plan.sniff_escapes import Backslashes, occurs
from tipple.plan.sniff_profile import Layout, Profile

__all__ = ["is_contradicted", "loses_quotes"]


def is_contradicted(
    layout: Layout,
    part: tuple[Sequence[bytes], Profile],
    whole: tuple[Sequence[bytes], Profile],
    *,
    named: str | None,
) -> bool:
    """Whether the whole sample may have another layout than the one that was chosen by a part of it.

    Args:
        layout: that one.
        part: the part's bytes, and what they look like in the layout.
        whole: the same of all.
        named: the format that the files' names say.
    """
    (part_data, part_profile), (whole_data, whole_profile) = part, whole
    if (
        whole_profile.stray_quotes > part_profile.stray_quotes
        or whole_profile.unterminated > part_profile.unterminated
        or whole_profile.regularity < part_profile.regularity
    ):
        return True
    may_be_text = layout.format == "text" or layout.delimiter == "\t" or named == "text"
    # Quotes that make sense say nothing new where they are known for quotes.
    quoted = layout.format == "csv" and layout.quote == '"' and bool(whole_profile.quoted_fields) and not may_be_text

    def signs(data: Sequence[bytes]) -> tuple[bool, ...]:
        backslashes = _backslashes(data, layout.delimiter, may_be_text=may_be_text)
        return backslashes if quoted else backslashes + _quotes(data, layout.delimiter, may_be_text=may_be_text)

    return signs(part_data) != signs(whole_data)


def loses_quotes(first: Layout, part: Profile, second: Layout) -> bool:
    """Whether fields of all records of the part are in quotes, but these would be data in the second choice: that a few
    records are broken is to be told, and no reason to store the quotes of all.
    """
    sure = part.quoted_fields >= part.records and not part.stray_quotes and not part.unterminated
    return first.format == "csv" and first.quote == '"' and sure and (second.format != "csv" or second.quote != '"')


def _quotes(data: Sequence[bytes], delimiter: str, *, may_be_text: bool) -> tuple[bool, ...]:
    """What there is of quotes, and of apostrophes that may be such."""
    opening = re.compile(rb"(?:^|[\r\n%b])'" % re.escape(delimiter.encode()))
    return (
        occurs(b'"', data),
        occurs(b"'", data) and any(opening.search(d) for d in data),
        occurs(b"''", data),
        may_be_text and any(QUOTED_FOR_A_REASON.search(d) for d in data),
    )


def _backslashes(data: Sequence[bytes], delimiter: str, *, may_be_text: bool) -> tuple[bool, ...]:
    """What there is of backslashes, as far as it matters for a layout with this delimiter."""
    if not occurs(b"\\", data):
        return ()
    signs = tuple(occurs(b"\\" + sign, data) for sign in (b"N", b"\n", b'"', b"'", delimiter.encode()))
    return (*signs, *Backslashes(data, delimiter).signs) if may_be_text else signs
