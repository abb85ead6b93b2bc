"""Names in what a server says: the quotes around them, and the order of the words, depend on its language.

PostgreSQL's translations have "name", »name«, «name», « name », „name“ and “name”.
"""

from __future__ import annotations

import re

__all__ = ["QUOTES", "has_word", "in_quotes", "is_named", "quoted", "renamed", "table_lacking_key"]

QUOTES = '"»«„“”'
"""All signs of which a pair may stand around a name."""
_NAME = re.compile(r'"([^"]+)"|»([^»«]+)«|«\s?([^»«]+?)\s?»|„([^„“”]+)[“”]|“([^“”]+)”')
_ONLY = re.compile(rf"[{QUOTES}](.+)[{QUOTES}]")
"""A name that is the only one, which may itself hold quotes."""


def in_quotes(name: str) -> re.Pattern[str]:
    """A pattern for names within quotes, of which it does not take these in; `name` is a pattern too."""
    # Blanks between quotes and name are French, and look-behind has one length.
    return re.compile(rf"(?:(?<=[\"»«“„])|(?<=«\s)){name}(?=\s?[\"«»”“])")


def is_named(text: str, name: str) -> bool:
    """Whether a text has a name in quotes."""
    return in_quotes(re.escape(name)).search(text) is not None


def has_word(text: str, name: str) -> bool:
    """Whether a text has a name, with quotes or without; not every language has blanks around it."""
    return re.search(rf"(?<![0-9A-Za-z_$]){re.escape(name)}(?![0-9A-Za-z_$])", text) is not None


def renamed(text: str, name: str, other: str) -> str:
    """The text with another name in place of one that stands in quotes."""
    return in_quotes(re.escape(name)).sub(lambda _: other, text)


def quoted(text: str) -> list[str]:
    """The names in quotes, in their order; a name that itself holds quotes is not told right."""
    return ["".join(names) for names in _NAME.findall(text)]


def table_lacking_key(reason: str) -> str | None:
    """The table that lacks what a record refers to, by the reason of a foreign key: its message, and the detail in
    parentheses, `(Key (a)=(1) is not present in table "k".)`; None where no table is named.
    """
    detail = reason.partition(" (")[2].removesuffix(")")
    before, key, behind = detail.partition("(")
    # The values of the key may hold anything.
    found = _ONLY.search(before + behind[behind.rfind(")") + 1 :] if key else detail)
    return None if found is None else found[1].strip()
