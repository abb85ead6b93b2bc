"""Cuts SQL text into statements of tokens, for the reader of schema files.

The lexical rules are PostgreSQL's (src/backend/parser/scan.l, standard_conforming_strings on), which DuckDB
shares: nested comments, doubled quotes, E'...' strings with backslashes, dollar quotes. What psql and
pg_dump put between statements is passed over: backslash commands, and the data after COPY ... FROM stdin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from tipple.errors import UsageError
from tipple.plan.url import IDENTIFIER_START, QUOTED_IDENTIFIER, UNQUOTED_IDENTIFIER

__all__ = ["Token", "join_tokens", "statements"]

Kind = Literal["word", "quoted", "string", "number", "sign"]


class Token(NamedTuple):
    """One token, with its text as it stands in the source."""

    kind: Kind
    text: str
    word: str
    """An unquoted word in upper case, or a sign; empty for everything else, so that a quoted name or a string
    never looks like a keyword."""
    line: int
    """1-based."""
    gap: str
    """What stood before it: nothing, a space, or a newline; a comment counts as a space."""


_TOKEN = re.compile(
    rf"""
      (?P<space>   [ \t\r\n\f\v\ufeff]+ | --[^\r\n]* )
    | (?P<comment> /\* )
    | (?P<escaped> [eE]'(?:[^'\\]|\\.|'')*' )
    | (?P<string>  (?:[bBxXnN]|[uU]&)?'(?:[^']|'')*' )
    | (?P<dollar>  \$(?P<tag>(?:{IDENTIFIER_START}[^\x00-/:-@\[-^`{{-\x7f]*)?)\$ )
    | (?P<quoted>  (?:[uU]&)?{QUOTED_IDENTIFIER} )
    | (?P<word>    {UNQUOTED_IDENTIFIER} )
    | (?P<number>  [0-9][0-9A-Za-z_]*(?:\.[0-9_]+)?(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? )
    | (?P<sign>    :: | [^\s'"] )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")
_END_OF_DATA = re.compile(r"^\\\.[ \t]*\r?$", re.MULTILINE)


def statements(sql: str) -> Iterator[list[Token]]:
    """The statements of `sql`, each a list of at least one token, without the semicolon.

    Raises:
        UsageError: a string, quoted name, dollar quote or comment that never ends; with its line.
    """
    tokens: list[Token] = []
    depth = 0
    position = 0
    line = 1
    gap = ""
    while position < len(sql):
        if sql[position] == "\\" and not tokens:
            # A psql command ends with its line.
            end = sql.find("\n", position)
            position = len(sql) if end < 0 else end
            continue
        match = _TOKEN.match(sql, position)
        if match is None:
            what = "string" if sql[position] == "'" else "quoted name"
            raise _unclosed(what, line)
        kind = match.lastgroup
        end = match.end()
        if kind == "space":
            gap = "\n" if gap == "\n" or "\n" in match[0] else " "
        elif kind == "comment":
            end = _comment_end(sql, position, line)
            gap = gap or " "
        elif kind == "sign" and match[0] == ";" and depth <= 0:
            if tokens:
                yield tokens
                if _reads_data(tokens):
                    data_end = _END_OF_DATA.search(sql, end)
                    end = len(sql) if data_end is None else data_end.end()
            tokens, depth, gap = [], 0, ""
        else:
            if match["dollar"] is not None:
                closing = sql.find(match["dollar"], end)
                if closing < 0:
                    raise _unclosed("dollar-quoted string", line)
                end = closing + len(match["dollar"])
            elif match[0] in ("E", "e", "B", "b", "X", "x", "N", "n") and sql.startswith("'", end):
                raise _unclosed("string", line)
            text = sql[position:end]
            if text in ("(", "["):
                depth += 1
            elif text in (")", "]"):
                depth -= 1
            tokens.append(_token(match, text, line, gap))
            gap = ""
        line += sql.count("\n", position, end)
        position = end
    if tokens:
        yield tokens


def _token(match: re.Match[str], text: str, line: int, gap: str) -> Token:
    if match["word"] is not None:
        return Token("word", text, text.upper(), line, gap)
    if match["sign"] is not None:
        return Token("sign", text, text, line, gap)
    if match["quoted"] is not None:
        if text[0] != '"':
            raise UsageError(
                f'line {line}: names with Unicode escapes (U&"...") cannot be read',
                hint="write the name with its characters themselves",
            )
        return Token("quoted", text, "", line, gap)
    return Token("number" if match["number"] is not None else "string", text, "", line, gap)


def _comment_end(sql: str, start: int, line: int) -> int:
    depth = 0
    position = start
    while True:
        mark = _COMMENT_MARK.search(sql, position)
        if mark is None:
            raise _unclosed("comment", line)
        depth += 1 if mark[0] == "/*" else -1
        position = mark.end()
        if depth == 0:
            return position


def _reads_data(tokens: Sequence[Token]) -> bool:
    words = [token.word for token in tokens]
    return words[0] == "COPY" and ("FROM", "STDIN") in pairwise(words)


def _unclosed(what: str, line: int) -> UsageError:
    return UsageError(
        f"line {line}: a {what} begins here and never ends",
        hint="close it, or check the quotes in the lines before",
        detail={"line": line},
    )


def join_tokens(tokens: Sequence[Token]) -> str:
    """The text of these tokens with comments gone and every gap one space.

    Two strings that only a newline parts are one string in SQL, so that newline stays.
    """
    text = ""
    for index, token in enumerate(tokens):
        if index and token.gap:
            both_strings = token.kind == "string" and tokens[index - 1].kind == "string"
            text += "\n" if both_strings and token.gap == "\n" else " "
        text += token.text
    return text
