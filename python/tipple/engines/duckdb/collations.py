"""By which collation DuckDB compares texts: a column's own in `=`, DISTINCT, GROUP BY, MERGE and CHECK, and bytes in
PRIMARY KEY, UNIQUE and FOREIGN KEY, whose indexes know of no collation.

So which record has the key of which row is a matter of the collation, and a table with `k VARCHAR COLLATE nocase
PRIMARY KEY` may hold both `abc` and `ABC`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import duckdb

from tipple.engines.duckdb.connection import first_row
from tipple.plan.url import quote_identifier

__all__ = ["by_bytes", "collated_types"]

PROBE = "temp.main.tipple_collations"
_TEXT = re.compile(r"\bc(\d+) VARCHAR(?: COLLATE ([\w.]+))?(?=[,)])")


def collated_types(connection: duckdb.DuckDBPyConnection, table: str, types: Mapping[str, str]) -> dict[str, str]:
    """Types of columns of `table` (quoted), each with its collation: a table of them compares as that one does."""
    texts = _texts(connection, table, [quote_identifier(name) for name in types])
    return {
        name: f"{type_text} COLLATE {quote_identifier(collation)}" if (collation := texts.get(place)) else type_text
        for place, (name, type_text) in enumerate(types.items())
    }


def by_bytes(connection: duckdb.DuckDBPyConnection, table: str, terms: Sequence[str]) -> tuple[str, ...]:
    """Expressions over rows of `table` (quoted) such that they are equal where a unique index says so."""
    # A default collation holds for what is compared, and is not noted in any table.
    default = first_row(connection, "SELECT current_setting('default_collation')")
    texts = _texts(connection, table, terms)
    if not any(texts.values()) and not (default and default[0]):
        return tuple(terms)
    return tuple(f'({term} COLLATE "binary")' if place in texts else term for place, term in enumerate(terms))


def _texts(connection: duckdb.DuckDBPyConnection, table: str, terms: Sequence[str]) -> dict[int, str | None]:
    """Which of the expressions are VARCHAR, by their places, and the collation of each that has one.

    DuckDB's catalog functions give types without their collations; only the SQL of a table has them, among defaults
    and conditions that are harder to read. A table of the expressions has nothing else.
    """
    if not terms:
        return {}
    selected = ", ".join(f"{term} AS c{place}" for place, term in enumerate(terms))
    connection.execute(f"CREATE TEMP TABLE {PROBE} AS SELECT {selected} FROM {table} LIMIT 0")
    try:
        found = first_row(
            connection,
            "SELECT sql FROM duckdb_tables() WHERE database_name = 'temp' AND table_name = ?",
            [PROBE.rpartition(".")[2]],
        )
    finally:
        connection.execute(f"DROP TABLE {PROBE}")
    sql = str(found[0]) if found is not None else ""
    return {int(place): collation or None for place, collation in _TEXT.findall(sql)}
