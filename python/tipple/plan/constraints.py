"""What a constraint's text says, as far as a load has to know it. Pure text."""

from __future__ import annotations

import itertools

from tipple.plan.sql_tokens import Token, join_tokens, statements
from tipple.plan.url import TableName, fold_identifier


def _unnamed(constraint: str) -> tuple[list[Token], list[str]]:
    """Its tokens and words behind CONSTRAINT and the name."""
    tokens = next(statements(constraint), [])
    words = [token.word for token in tokens]
    return (tokens[2:], words[2:]) if words[:1] == ["CONSTRAINT"] else (tokens, words)


def name_of(constraint: str) -> str | None:
    """The name that it is given."""
    tokens = next(statements(constraint), [])
    return fold_identifier(tokens[1].text) if tokens and tokens[0].word == "CONSTRAINT" else None


def without_name(constraint: str) -> str:
    """What it says, whatever its name is."""
    return join_tokens(_unnamed(constraint)[0])


def validated(constraint: str) -> str:
    """Without NOT VALID, by which the server sets no store in CREATE TABLE."""
    tokens = next(statements(constraint), [])
    place = _place_of(tokens, "NOT", "VALID")
    return constraint if place is None else join_tokens([*tokens[:place], *tokens[place + 2 :]])


def is_enforced(constraint: str) -> bool:
    """Whether it refuses anything."""
    return _place_of(next(statements(constraint), []), "NOT", "ENFORCED") is None


def _place_of(tokens: list[Token], *wanted: str) -> int | None:
    """Where these two words stand outside of parentheses: a condition may be that a column `valid` is not true."""
    depth = 0
    for place, (token, following) in enumerate(itertools.pairwise(tokens)):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and (token.word, following.word) == wanted:
            return place
    return None


def is_key(constraint: str) -> bool:
    """Whether rows are judged by those that were stored before them."""
    return is_unique(constraint) or _unnamed(constraint)[1][:1] == ["EXCLUDE"]


def is_check(constraint: str) -> bool:
    """Whether it says of each record by itself whether it is right."""
    return _unnamed(constraint)[1][:1] == ["CHECK"]


def is_foreign_key(constraint: str) -> bool:
    """Whether it refers to another table, which may be made after this one."""
    return _unnamed(constraint)[1][:2] == ["FOREIGN", "KEY"]


def is_unique(constraint: str) -> bool:
    """Whether it is a primary key or another unique one."""
    return bool({"PRIMARY", "UNIQUE"}.intersection(_unnamed(constraint)[1][:1]))


def primary_key(constraint: str) -> tuple[str, ...]:
    """The columns of the primary key that it is; none where it is another constraint."""
    tokens, words = _unnamed(constraint)
    return _listed(tokens, words) if words[:2] == ["PRIMARY", "KEY"] else ()


def default_ending(key: str) -> str:
    """What the server puts behind the table's name to name such a key (PostgreSQL's `ChooseIndexName`), where it need
    not shorten it; of an exclusion only the end.
    """
    tokens, words = _unnamed(key)
    if words[:1] != ["UNIQUE"]:
        return "_pkey" if words[:1] == ["PRIMARY"] else "_excl"
    return "_".join(["", *_listed(tokens, words), "key"])


def _listed(tokens: list[Token], words: list[str]) -> tuple[str, ...]:
    """The columns in the first parentheses."""
    if "(" not in words:
        return ()
    return tuple(
        fold_identifier(token.text) for token in tokens[words.index("(") + 1 : words.index(")")] if token.word != ","
    )


def refers_to(constraint: str) -> str | None:
    """The name, without a schema, of the table that a foreign key refers to; None for other constraints."""
    table = referred_table(constraint)
    return None if table is None else table.name


def referred_table(constraint: str) -> TableName | None:
    """The table that a foreign key refers to, with the schema where it says one; None for other constraints."""
    tokens, words = _unnamed(constraint)
    if "REFERENCES" not in words:
        return None
    other = tokens[words.index("REFERENCES") + 1 :]
    if len(other) > 2 and other[1].text == ".":
        return TableName(fold_identifier(other[0].text), fold_identifier(other[2].text))
    return TableName(None, fold_identifier(other[0].text))
