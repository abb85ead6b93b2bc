"""Dumps that are SQL statements, refused before their lines are stored as texts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from tipple.engines.base import STDIN
from tipple.errors import UsageError
from tipple.plan.sniff_profile import Chunk

__all__ = ["refuse_sql"]

# No comment, and no blank between two, can be read in two ways: else a file of comments would be looked at for ever.
_STATEMENT = re.compile(
    rb"""\s*+(?:\xef\xbb\xbf)?+\s*+
    (?:(?: --[^\n]*\n
        | /\*(?:[^*]|\*(?!/))*\*/;?
        | (?:BEGIN|BEGIN\s+TRANSACTION|START\s+TRANSACTION|(?:USE|PRAGMA)\s[^;\n]*);[ \t]*\r?\n
        | \\restrict\s[^\n]*\n
       )\s*+)*+
    (?: INSERT\s+INTO\s[^;]*?\b(?:VALUES|SELECT)\b
      | COPY\s[^;\n]*\bFROM\s+stdin\b[^;\n]*;[ \t]*\r?\n
      | (?:CREATE|DROP|ALTER|LOCK|TRUNCATE)\s+(?:TABLE|TABLES|SCHEMA|DATABASE|SEQUENCE|TYPE)\s[^;]*;[ \t]*\r?\n
      | SET\s+(?:(?:SESSION\s+|LOCAL\s+)?[\w.@]+\s*(?:=|TO\b)|NAMES\s)[^;\n]*;[ \t]*\r?\n
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""What a dump begins with: comments, and then a whole statement. It ends its line: `Drop type;Count` is a header."""
_COPY = re.compile(rb"^COPY\s+(\S+)[^;\n]*\bFROM\s+stdin;", re.IGNORECASE | re.MULTILINE)

_SPECIAL, _ESCAPED = re.compile(r"[][\\.*^$/]"), r"\\\g<0>"
"""What stands for something else in sed's patterns, where parentheses and braces are themselves."""


def refuse_sql(paths: Sequence[str], chunks: Iterable[Chunk]) -> None:
    """Refuses sources that hold statements and no records.

    Raises:
        UsageError: there is one.
    """
    for chunk in chunks:
        if chunk.begins and _STATEMENT.match(chunk.data) is not None:
            path = paths[chunk.file]
            raise UsageError(
                f"{'standard input' if path == STDIN else path} holds SQL statements, no records",
                hint=f"{_remedy(path, chunk.data)}; --format csv loads its lines all the same",
                detail={"path": path},
            )


def _remedy(path: str, data: bytes) -> str:
    copy = _COPY.search(data)
    if copy is None or path == STDIN:
        return "the database that it is of carries it out (psql -f, mysql <, sqlite3 <); or export the table as CSV"
    table = copy[1].decode(errors="replace")
    rows = f"/^COPY {_SPECIAL.sub(_ESCAPED, table)} /,/^\\\\\\.$/"
    command = f"sed -n {shlex.quote(rows + 'p')} {shlex.quote(path)} | sed '1d;$d' | tipple load - --format text …"
    return f"psql -f carries it out; or one table's rows alone: {command}"
