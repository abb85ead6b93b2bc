"""Foreign keys that may judge when all rows are stored, though records that violate one are rejects.

A join of what is staged with the table that a key refers to says which of its values are missing there
(`barred_keys.py`), and the core finds the records that have them. As with unique keys, that is as good as the server's
own judgement for plain columns of types whose equal values it knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg

from tipple.engines.base import TableColumn
from tipple.engines.postgresql import unique_keys
from tipple.engines.postgresql.partition_bounds import key_kind
from tipple.plan.url import TableName, quote_identifier

__all__ = ["ForeignKey", "of_table"]

# In the order in which the server looks at them, which is that of their triggers' names. Before 18 there is no column
# `conenforced`, nor `conperiod`. A foreign key to a partitioned table has one to each partition below it, and one of a
# partitioned table has one in each of its own. The server looks at all rows of the other table, whatever policies hide,
# and leaves out those of tables that inherit from it.
_FOREIGN = """
SELECT c.conname::text,
       ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k (n, place)
             JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.n ORDER BY place),
       CASE WHEN o.relkind = 'p' THEN '' ELSE 'ONLY ' END || format('%%I.%%I', s.nspname, o.relname), o.relname::text,
       ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY k (n, place)
             JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.n ORDER BY place),
       c.confrelid <> c.conrelid AND (c.confmatchtype = 's' OR cardinality(c.conkey) = 1)
           AND to_jsonb(c) ->> 'conperiod' IS DISTINCT FROM 'true'
           AND has_table_privilege(c.confrelid, 'SELECT') AND NOT row_security_active(c.confrelid)
           AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgisinternal AND tgenabled <> 'O' AND tgrelid IN (
                           SELECT c.conrelid UNION SELECT relid FROM pg_partition_tree(c.conrelid)))
           AND NOT EXISTS (SELECT FROM unnest(c.conkey, c.confkey) k (own, other)
                           JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.own
                           JOIN pg_attribute b ON b.attrelid = c.confrelid AND b.attnum = k.other
                           LEFT JOIN pg_collation l ON l.oid = a.attcollation
                           WHERE a.attcollation <> b.attcollation
                              OR NOT coalesce(l.collisdeterministic, true) OR a.atttypid = 'bpchar'::regtype
                              AND a.atttypmod < 0)
FROM pg_constraint c JOIN pg_class o ON o.oid = c.confrelid JOIN pg_namespace s ON s.oid = o.relnamespace
WHERE c.conrelid = to_regclass(%(table)s) AND c.contype = 'f' AND to_jsonb(c) ->> 'conenforced' IS DISTINCT FROM 'false'
  AND (%(inherited)s OR c.conparentid = 0)
  -- A column that gets no value is NULL, and refers to nothing.
  AND NOT (c.confmatchtype = 's' AND EXISTS (
      SELECT FROM unnest(c.conkey) n JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = n
      JOIN pg_type t ON t.oid = a.atttypid WHERE a.attname <> ALL (%(loaded)s::text[]) AND NOT a.atthasdef
          AND a.attidentity = '' AND t.typtype <> 'd'))
  AND NOT EXISTS (SELECT FROM pg_constraint whole WHERE whole.oid = c.conparentid AND whole.conrelid = c.conrelid)
ORDER BY c.oid
"""


class ForeignKey(msgspec.Struct, frozen=True, kw_only=True):
    """A foreign key to another table."""

    name: str
    columns: list[str]
    refers_to: str
    """SQL: the table, as FROM takes it."""
    refers_to_name: str
    refers_to_columns: list[str]

    def missing(self, staged: TableName) -> str:
        """SQL: the values of staged rows that the other table lacks."""
        own = [f"s.{quote_identifier(name)}" for name in self.columns]
        pairs = zip(own, self.refers_to_columns, strict=True)
        same = " AND ".join(f"p.{quote_identifier(theirs)} = {column}" for column, theirs in pairs)
        complete = " AND ".join(f"{column} IS NOT NULL" for column in own)
        return (
            f"SELECT DISTINCT {', '.join(own)} FROM {staged.sql} s "
            f"WHERE {complete} AND NOT EXISTS (SELECT FROM {self.refers_to} p WHERE {same})"
        )


def of_table(
    connection: psycopg.Connection[Any], table: TableName, columns: Sequence[TableColumn], *, inherited: bool = True
) -> list[ForeignKey] | None:
    """The foreign keys of a table into which `columns` are loaded; None where one of them must judge while rows are
    stored.

    Args:
        connection: to the server.
        table: may be a partition.
        columns: what is loaded.
        inherited: whether those count that a partition has of its table.
    """
    kinds = {column.name: key_kind(column) for column in columns}
    found, texts = [], False
    facts = {"table": table.sql, "inherited": inherited, "loaded": list(kinds)}
    for name, own, refers_to, refers_to_name, theirs, is_plain in connection.execute(_FOREIGN, facts).fetchall():
        if not is_plain or not all(kinds.get(column) for column in own):
            return None
        key = ForeignKey(
            name=name, columns=own, refers_to=refers_to, refers_to_name=refers_to_name, refers_to_columns=theirs
        )
        texts = texts or not unique_keys.TEXTS.isdisjoint(str(kinds[column]) for column in own)
        found.append(key)
    return None if texts and not unique_keys.texts_are_bytes(connection) else found
