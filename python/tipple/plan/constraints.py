"""What a constraint's text says, as far as a load has to know it. Pure text."""

from __future__ import annotations

import itertools

from tipple.plan.sql_tokens import Token, statements
from tipple.plan.url import fold_identifier


def _unnamed(constraint: str) -> tuple[list[Token], list[str]]:
    """Its tokens and words behind CONSTRAINT and the name."""
    tokens = next(statements(constraint), [])
    words = [token.word for token in tokens]
    return (tokens[2:], words[2:]) if words[:1] == ["CONSTRAINT"] else (tokens, words)


def is_check(constraint: str) -> bool:
    """Whether each row is judged by itself."""
    return _unnamed(constraint)[1][:1] == ["CHECK"]


def primary_key(constraint: str) -> tuple[str, ...]:
    """The columns of the primary key that it is; none where it is another constraint."""
    tokens, words = _unnamed(constraint)
    if words[:3] != ["PRIMARY", "KEY", "("]:
        return ()
    return tuple(fold_identifier(token.text) for token in tokens[3 : words.index(")")] if token.word != ",")


def refers_to(constraint: str) -> str | None:
    """The name, without a schema, of the table that a foreign key refers to; None for other constraints, and for those
    that are checked when a transaction ends.
    """
    tokens, words = _unnamed(constraint)
    if "REFERENCES" not in words or ("INITIALLY", "DEFERRED") in itertools.pairwise(words):
        return None
    other = tokens[words.index("REFERENCES") + 1 :]
    name = other[2] if len(other) > 2 and other[1].text == "." else other[0]
    return fold_identifier(name.text)
