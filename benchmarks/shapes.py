"""Tables of other shapes than lineitem, made by DuckDB from a formula: the same rows on every machine.

Each is first a Parquet file, from which `forms` writes what contestants read. Sizes are those at scale 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tipple.plan.tpch import CREATE_TABLE


@dataclass(frozen=True)
class Shape:
    """A table, and the query that gives its rows; `{rows}` stands for how many, `{tbl}` for lineitem as text."""

    name: str
    label: str
    create: str
    """CREATE TABLE, as both engines understand it."""
    query: str
    rows: int
    """At scale 1; 0 where the source says it."""
    texts: tuple[str, ...]
    """Columns of text: those that a writer quotes which quotes texts."""


def _lineitem() -> Shape:
    create = CREATE_TABLE["lineitem"]
    columns = [line.split()[:2] for line in create.splitlines()[1:-1]]
    # DuckDB has no fixed width: `char(n)` is text there, and dbgen does not pad.
    types = ", ".join(f"'{name}': '{kind.rstrip(',')}'" for name, kind in columns)
    query = f"FROM read_csv('{{tbl}}', delim = '|', header = false, quote = '', columns = {{{{{types}}}}})"
    texts = tuple(name for name, kind in columns if "char" in kind)
    return Shape("lineitem", "lineitem", create, query, 0, texts)


def _hash(column: int) -> str:
    """A number of 64 bits that looks random, from a row's number `i`."""
    return f"hash(i * 1000 + {column})"


_WIDE_KINDS = (
    # Type, and its value made of a hash {h}; every kind occurs ten times.
    ("integer", "({h} % 2000000000)::INTEGER"),
    ("integer", "({h} % 1000)::INTEGER"),
    ("bigint", "({h} >> 2)::BIGINT"),
    ("numeric(12,2)", "(({h} % 100000000000)::DECIMAL(14,2) / 100)::DECIMAL(12,2)"),
    ("numeric(15,4)", "(({h} % 1000000)::DECIMAL(14,4) / 10000)::DECIMAL(15,4)"),
    ("double precision", "({h} % 1000000007)::DOUBLE / 1024"),
    ("date", "DATE '1992-01-01' + ({h} % 10000)::INTEGER"),
    ("timestamp", "make_timestamp((({h} % 1000000000) * 1000003)::BIGINT)"),
    ("boolean", "{h} % 3 = 0"),
    ("text", "substr(md5({h}::VARCHAR), 1, 4 + ({h} % 12)::INTEGER)"),
)
WIDE_COLUMNS = 100
NULL_EVERY = 10
"""Of the wide table's nullable columns, which are every other one, every tenth value is NULL."""


def _wide() -> Shape:
    columns, values, texts = [], [], []
    for number in range(WIDE_COLUMNS):
        kind, value = _WIDE_KINDS[number % len(_WIDE_KINDS)]
        value = value.format(h=_hash(number))
        if number % 2 and number // 10 % 2:
            value = f"CASE WHEN {_hash(number)} % {NULL_EVERY} > 0 THEN {value} END"
        columns.append(f"    c{number} {kind}")
        values.append(f"{value} AS c{number}")
        if kind == "text":
            texts.append(f"c{number}")
    create = "CREATE TABLE wide (\n" + ",\n".join(columns) + "\n)"
    return Shape("wide", "100 columns", create, _over_rows(values), 500_000, tuple(texts))


def _narrow() -> Shape:
    create = "CREATE TABLE narrow (\n    a integer,\n    b integer,\n    c integer\n)"
    values = [f"({_hash(number)} % 2000000000)::INTEGER AS {name}" for number, name in enumerate("abc")]
    return Shape("narrow", "3 integers", create, _over_rows(values), 15_000_000, ())


_PARAGRAPHS = 256
_LONGEST_TEXT = 7
"""Paragraphs. So a row stays below the 2 KB above which PostgreSQL compresses values or stores them elsewhere."""


def _long_text() -> Shape:
    create = "CREATE TABLE long_text (\n    id bigint,\n    written timestamp,\n    title text,\n    body text\n)"
    # Words, commas, quotes and letters of two and three bytes; 100 to 260 characters.
    paragraphs = (
        f"(SELECT list(repeat(md5(p::VARCHAR) || ', \"' || md5((p + {_PARAGRAPHS})::VARCHAR) || '\" — naïve ', "
        f"1 + p % 3)) FROM range({_PARAGRAPHS}) numbers(p))"
    )

    def paragraph(number: int) -> str:
        return f"p[1 + ({_hash(number)} % {_PARAGRAPHS})::INTEGER]"

    parts = [paragraph(0)]
    for number in range(1, _LONGEST_TEXT):
        parts.append(
            f"CASE WHEN {_hash(99)} % {_LONGEST_TEXT} >= {number} THEN chr(10) || {paragraph(number)} ELSE '' END"
        )
    values = [
        "i AS id",
        f"make_timestamp((({_hash(1)} % 1000000000) * 1000003)::BIGINT) AS written",
        f"'Report ' || i || ', ' || substr({paragraph(50)}, 1, 30) AS title",
        " || ".join(parts) + " AS body",
    ]
    query = f"{_over_rows(values)}, (SELECT {paragraphs} AS p)"
    return Shape("long_text", "long text with newlines", create, query, 800_000, ("title", "body"))


def _over_rows(values: Sequence[str]) -> str:
    return f"SELECT {', '.join(values)} FROM range({{rows}}) rows(i)"


LINEITEM = _lineitem()
WIDE = _wide()
NARROW = _narrow()
LONG_TEXT = _long_text()
