"""Words for a missing value: no names of columns, and what `--null` may have to say."""

from __future__ import annotations

__all__ = ["NULL_WORDS", "means_nothing"]

NULL_WORDS = frozenset(
    [
        r"\n",
        r"null",
        r"(null)",
        r"<null>",
        r"nil",
        r"none",
        r"(none)",
        r"na",
        r"<na>",
        r"#na",
        r"n/a",
        r"#n/a",
        r"n.a.",
        r"nan",
        r"unknown",
        r"tbd",
        r"(blank)",
        r"#null!",
        r"#div/0!",
        r"#value!",
        r"#ref!",
        r"#name?",
        r"#num!",
        r"-",
        r"--",
        r"---",
        r"–",
        r"—",
        r"?",
        r".",
        r"..",
        r"...",
        r"…",
        r"*",
        r"**",
        r":",
    ]
)
"""What programs and people write for it, in lower case."""


def means_nothing(text: str) -> bool:
    """Whether a text is such a word, in whatever case."""
    return text.strip().lower() in NULL_WORDS
