"""Words for a missing value: no names of columns, and what `--null` may have to say."""

from __future__ import annotations

__all__ = ["NULL_WORDS", "means_nothing"]

NULL_WORDS = frozenset(
    {
        r"\n", "null", "(null)", "<null>", "nil", "none", "(none)", "na", "<na>", "#na", "n/a", "#n/a", "n.a.",
        "nan", "unknown", "tbd", "(blank)", "#null!", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "-", "--",
        "---", "–", "—", "?", ".", "..", "...", "…", "*", "**", ":",
    }
)  # fmt: skip
"""What programs and people write for it, in lower case."""


def means_nothing(text: str) -> bool:
    """Whether a text is such a word, in whatever case."""
    return text.strip().lower() in NULL_WORDS
