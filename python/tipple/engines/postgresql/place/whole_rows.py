"""Constraints and indexes that take all of a row: `CHECK (t IS NOT NULL)`, `CREATE INDEX ON t (hash_record(t))`.

The server makes none like them for another table, and their text means nothing where the row has another name.
"""

from __future__ import annotations

__all__ = ["CHECKED", "INDEXED"]

CHECKED = "contype = 'c' AND 0 = ANY (conkey)"
"""SQL: whether a row of `pg_constraint` is such a CHECK. All of a row is column number 0."""
INDEXED = "strpos(concat(i.indexprs, i.indpred), '{VAR :varno 1 :varattno 0 ') > 0"
"""SQL: whether the row `i` of `pg_index` is of such an index. The catalog tells it by the expressions' trees alone: how
they are written is in the server's `outfuncs.c`."""
