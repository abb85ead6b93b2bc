"""Signs of Windows-1252 that are no letters: `10 €`, `it’s`, `20 °C` in a text that has no accents, or hardly any.

Each byte of them is something else in other encodings, mostly a letter: in those of DOS 85 is the `à` of `città`, and
94 the `ö` of `Malmö`. So only places count where no language has a letter: beside digits, in pairs around words, in
contractions. What may be either says nothing, and whatever else is there says that it is another encoding.
"""

from __future__ import annotations

import re

__all__ = ["has_signs"]

_SIGN = re.compile(
    # it’s, don’t, we’ll; l’or, d’un, qu’il; O’Neil
    rb"(?<=[A-Za-z])\x92(?=(?:[sdmtSDMT]|re|ve|ll|RE|VE|LL)(?![A-Za-z]))"
    rb"|(?:(?<![A-Za-z])[cdjlmnstCDJLMNST]|(?<![A-Za-z])[Qq]u)\x92(?=[AEIOUYHaeiouyh][A-Za-z])"
    rb"|(?<![A-Za-z])O\x92(?=[A-Z])"
    # 10 €, € 10, (€)
    rb"|(?<=\d)[ \xa0]?\x80(?![A-Za-z])|(?<![A-Za-z])\x80[ \xa0]?(?=\d)|(?<=\()\x80(?=[)/])"
    # œuvre, œil: what other encodings have there does not stand before these letters.
    rb"|[\x8c\x9c](?=[ui]|UI?)"
    # 5–10, 9 – 17, a – b
    rb"|(?<=[\d ])[\x96\x97](?=[\d ])"
    # Word™, Word®, © 2020
    rb"|(?<=[a-z])[\x99\xae](?![A-Za-z\x80-\xff])|(?<![A-Za-z\d])\xa9(?= ?[A-Z\d])"
    # 20 °C, 20°, °F; £5, ±5; § 5
    rb"|(?<=\d)[ \xa0]?\xb0|\xb0(?=[CF](?![A-Za-z]))"
    rb"|(?<![A-Za-z])[\xa3\xb1](?= ?\d)|(?<![A-Za-z\d])\xa7[ \xa0]?(?=\d)"
    # 5½, 5 ½, ½ cup
    rb"|(?<=\d)[\xbc-\xbe](?![A-Za-z\d])|(?<=\d )[\xbc-\xbe](?![A-Za-z\d])"
    rb"|(?<![A-Za-z\d\x80-\xff])[\xbc-\xbe](?= [a-z])"
    # m²; 10 000; 5×3
    rb"|(?<=m)\xb2(?![A-Za-z\d])|(?<=\d)\xa0(?=\d)|(?<=\d)\xd7(?=\d)|(?<=\d )\xd7(?= \d)"
    # Letters with accents beside plain ones.
    rb"|(?<=[A-Za-z])[\xc0-\xff]|[\xc0-\xff](?=[A-Za-z])"
)
_PAIR = re.compile(
    rb"(?<![A-Za-z\x80-\xff])"
    # “a”, ‘a’, „a“, ‚a‘, «a» and « a », »a«
    rb"(?:\x93([^\x93\x94\n]+)\x94|\x91([^\x91\x92\n]+)\x92|\x84([^\x84\x93\n]+)\x93|\x82([^\x82\x91\n]+)\x91"
    rb"|\xab([^\xab\xbb\n]+)\xbb|\xbb([^\xab\xbb\n]+)\xab)"
    rb"(?![A-Za-z\x80-\xff])"
)
_MAY_BE = re.compile(
    rb"(?<=[a-z])[\x85\x92\x9a\x9e](?![A-Za-z\x80-\xff])|(?<![A-Za-z\x80-\xff])[\x8a\x8e\x9a\x9e](?=[a-z])"
    rb"|(?<![A-Za-z\x80-\xff])[\xc0\xc9\xe0\xe8\xe9\xf3](?![A-Za-z\x80-\xff])|\xa0"
)
"""What is of Windows-1252 or of another encoding: `wait…`, `dogs’`, `Škoda`, `à`."""
_HIGH = re.compile(rb"[\x80-\xff]")
_CONTROL = re.compile(rb"[\x00\x02-\x08\x0e-\x1e\x7f]")
_MUCH_MORE = 10
_LINES = 500
_LINE_BYTES = 1000
"""What is looked at, since a megabyte takes a second or two."""


def has_signs(text: bytes) -> bool:
    """Whether the bytes beyond ASCII stand where Windows-1252 has its signs."""
    if _CONTROL.search(text):
        return False
    lines = [line for line in text.replace(b"\r", b"\n").split(b"\n") if not line.isascii()]
    text = b"\n".join(line[:_LINE_BYTES] for line in lines[:: len(lines) // _LINES + 1])
    text, found = _SIGN.subn(b" ", text)
    # Quotes stand within quotes.
    for _ in range(2):
        text, pairs = _PAIR.subn(rb" \1\2\3\4\5\6 ", text)
        found += pairs
    text, doubtful = _MAY_BE.subn(b" ", text)
    unknown = len(_HIGH.findall(text))
    return doubtful <= found > 0 and _MUCH_MORE * unknown <= found
