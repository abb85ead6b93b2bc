"""Names of columns, made of the texts of a header."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence

from tipple.plan.url import LONGEST_NAME_BYTES, cut_name

__all__ = ["clean_names", "is_name", "snake"]


def clean_names(names: Sequence[str], taken_names: Collection[str] = ()) -> list[str]:
    """Names for columns, from a header's texts: lower case, letters, digits and underscores, each of them once, and
    none of those that the engine has taken.
    """
    cleaned: dict[str, None] = {}
    taken: dict[str, int] = {}  # up to which number: a wide file may repeat a text in each of its columns
    for number, name in enumerate(names, start=1):
        base = cut_name(snake(name) or f"column{number}")
        unique, count = base, taken.get(base, 1)
        while unique in cleaned or unique in taken_names:
            count += 1
            unique = f"{cut_name(base, LONGEST_NAME_BYTES - 1 - len(str(count)))}_{count}"
        cleaned[unique], taken[base] = None, count
    return list(cleaned)


def is_name(text: str) -> bool:
    """Whether there is anything in a text that a column could be called."""
    return bool(snake(text))


def snake(name: str) -> str:
    """`First Name` as `first_name`, `orderID` as `order_id`, `Größe (m²)` as `größe_m2`."""
    text = unicodedata.normalize("NFKC", name).strip()
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text)
    text = re.sub(r"\W+", "_", text.lower()).strip("_")
    text = re.sub(r"_{2,}", "_", text)
    return f"_{text}" if text[:1].isdigit() else text
