"""Whether the backslashes of a sample are escapes, of COPY's text format or in quotes, or parts of names, paths and
patterns.

Whoever escapes anything doubles the backslashes of values. So one that stands alone before a sign that is never escaped
is part of a value, and so are all others: Hive, Sqoop and IMDb write `\\N` for NULL, and other backslashes as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from tipple.plan.sniff_profile import Layout

__all__ = ["Backslashes", "escaped_in_quotes", "occurs"]

_PAIR = re.compile(rb"\\(x[0-9A-Fa-f]|.)", re.DOTALL)
_USUAL = frozenset({b"n", b"t", b"r", b"N", b"\\", b"\n"})
"""What COPY, MySQL and Redshift write: the last two put a backslash before line ends."""
_RARE = frozenset({b"b", b"f", b"v", b"Z", b".", b"\r", *(b"%d" % digit for digit in range(8))})
"""What they write for control characters, or at least read."""
_IN_WORD = re.compile(rb"\\[nrt][A-Za-z]")
_RARE_IN_WORD = re.compile(rb"[A-Za-z]\\[bfvZ]|\\(?:[bfvZ][A-Za-z]|x[0-9A-Fa-f](?![0-9A-Fa-f])|[1-7](?![0-7]{2}))")
_DRIVE = re.compile(rb"(?<![A-Za-z])[A-Za-z]:\\(?!\\)")
"""A path of Windows with a single backslash: COPY would have doubled it."""
_EXAMPLE_CHARACTERS = 40
_NETWORK_PATH = re.compile(rb"(?:^|[\t\n])\\\\[A-Za-z0-9_.$-]+\\(?!\\)")
"""The name of a server behind two backslashes, and one behind it: COPY would have doubled all three."""


def occurs(sign: bytes, data: Sequence[bytes]) -> bool:
    """Whether any of the pieces has these bytes.

    Most have not even the first, which Python sees many times faster than that they have no sequence of several.
    """
    return any(sign[:1] in piece and sign in piece for piece in data)


class Backslashes:
    """What stands behind the backslashes of a sample."""

    def __init__(self, data: Sequence[bytes], delimiter: str) -> None:
        if not occurs(b"\\", data):
            # Most samples have none, and patterns take a while to find that out.
            data = ()
        # Behind the first one, pieces may begin between two backslashes that belong together.
        whole = b"\n".join([*data[:1], *(piece.lstrip(b"\\") for piece in data[1:])])
        pairs = Counter(_PAIR.findall(whole))
        unusual = pairs.keys() - _USUAL - {delimiter.encode()}
        self._all_usual = not unusual
        # Where some quotes are escaped and others are not, as in JSON, none is.
        quotes = {quote for quote in (b'"', b"'") if whole.count(quote) == pairs[quote]}
        self._all_known = all(sign in _RARE | quotes or len(sign) > 1 for sign in unusual)
        doubled, network = whole.count(b"\\\\"), len(_NETWORK_PATH.findall(whole))
        self._has_drive = _DRIVE.search(whole) is not None
        # Where any other backslash is doubled, the two of a path may be one that was.
        self._has_network_path = 0 < doubled == network
        self._has_rare_in_word = _RARE_IN_WORD.search(whole) is not None
        self.are_doubled = doubled > network
        """Whether some are doubled, other than before the name of a server."""
        self.may_be_part_of_words = _IN_WORD.search(whole) is not None and not doubled
        """Whether some stand before letters of words that are escapes too, and none is doubled."""
        self.are_of_paths = self._has_network_path or (self._has_drive and not doubled)
        """Whether some belong to paths, if nothing says that they are escapes."""

    @property
    def signs(self) -> tuple[bool, ...]:
        """All that counts, to be compared with what stands behind the backslashes of another sample."""
        return (
            self._all_usual,
            self._all_known,
            self._has_drive,
            self._has_network_path,
            self._has_rare_in_word,
            self.are_doubled,
            self.may_be_part_of_words,
        )

    def may_be_escapes(self, *, nulls: bool) -> bool:
        """Whether all of them may be escapes.

        Args:
            nulls: whether `\\N` stands for NULL, as in COPY's text format: then rare escapes are to be believed, and
                what looks like a path may be none.
        """
        return self._all_usual or self._all_known if nulls else self._all_usual and not self.are_of_paths

    def doubt_beside_nulls(self, *, escapes: bool) -> str:
        """Why they may be the other thing, where `\\N` stands for NULL and they were taken for escapes, or for none; an
        empty text where there is no doubt.
        """
        if not escapes:
            mixed = self.are_doubled and not self.may_be_escapes(nulls=True)
            return (
                "some backslashes are doubled, as in escapes, and others stand before what none escapes"
                if mixed
                else ""
            )
        if not self.are_doubled and (self._has_drive or self._has_network_path or self._has_rare_in_word):
            return "backslashes may be escapes, as \\N is, or parts of names and paths"
        return ""


def escaped_in_quotes(layout: Layout, data: Sequence[bytes]) -> str:
    """What is to be said of backslashes before delimiters or line ends in quotes, or an empty text.

    MySQL and Redshift (`ADDQUOTES ESCAPE`) put one before each of these, and read it as none; to COPY it is a part of
    the value. Where one stands alone before some and others are plain, nothing is escaped.

    Args:
        layout: one of CSV.
        data: the sample.
    """
    delimiter = layout.delimiter.encode()
    if not any(occurs(b"\\" + sign, data) for sign in (delimiter, b"\n", b"\r\n")):
        return ""
    quote = re.escape((layout.quote or '"').encode())
    inside = rb"(?:[^%b\\]|\\.)*+" if layout.escape == "\\" else rb"(?:[^%b]|%b%b)*+"
    ends = re.escape(delimiter) + rb"\r\n"
    field = re.compile(
        rb"(?:^|(?<=[%b]))%b(%b)%b(?=[%b]|$)" % (ends, quote, inside.replace(rb"%b", quote), quote, ends), re.DOTALL
    )
    sign = re.compile(rb"(\\*)(%b|\r\n|[\r\n])" % re.escape(delimiter))
    escaped: dict[str, bytes] = {}
    plain: set[str] = set()
    for found in (found for d in data if b"\\" in d for found in field.finditer(d)):
        for backslashes, behind in sign.findall(found[1]):
            name = "delimiters" if behind == delimiter else "line ends"
            if len(backslashes) % 2:
                escaped.setdefault(name, found[1])
            else:
                plain.add(name)
    signs = sorted(escaped.keys() - plain)
    if not signs:
        return ""
    example = escaped[signs[0]].decode(errors="replace")
    shown = f" ({example})" if len(example) <= _EXAMPLE_CHARACTERS and example.isprintable() else ""
    return (
        f"in quotes, backslashes stand before {' and '.join(signs)}{shown}, as Redshift and MySQL write them, and stay "
        "in the values: unload again without escapes (in Redshift without ESCAPE), or take them out of the file or the "
        "table"
    )
