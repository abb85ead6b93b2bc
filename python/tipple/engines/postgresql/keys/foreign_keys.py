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
from tipple.engines.postgresql.keys import unique_keys
from tipple.engines.postgresql.partitioned.partition_bounds import key_kind
from tipple.plan.url import TableName, quote_identifier

__all__ = ["ForeignKey", "of_table"]

# In the order in which the server looks at them, which is that of their triggers' names. Before 18 there is no column
# `conenforced`, nor `conperiod`. A foreign key to a partitioned table has one to each partition below it, and one of a
# partitioned table has one in each of its own. The server looks at all rows of the other table, whatever policies hide,
# leaves out those of tables that inherit from it, and compares by the key's own operators (its `ri_GenerateQual`).
_FOREIGN = """
SELECT c.conname::text,
       ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k (n, place)
             JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.n ORDER BY place),
       CASE WHEN o.relkind = 'p' THEN '' ELSE 'ONLY ' END || format('%%I.%%I', s.nspname, o.relname), o.relname::text,
       ARRAY(SELECT format('p.%%I%%s OPERATOR(%%I.%%s) s.%%I%%s', b.attname, CASE WHEN l.typtype <> 'p'
                           THEN format('::%%I.%%I', ln.nspname, l.typname) END, n.nspname, e.oprname, a.attname,
                           CASE WHEN r.typtype <> 'p' THEN format('::%%I.%%I', rn.nspname, r.typname) END)
             FROM unnest(c.conkey, c.confkey, c.conpfeqop) WITH ORDINALITY k (own, other, operator, place)
             JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.own
             JOIN pg_attribute b ON b.attrelid = c.confrelid AND b.attnum = k.other
             JOIN pg_operator e ON e.oid = k.operator JOIN pg_namespace n ON n.oid = e.oprnamespace
             JOIN pg_type l ON l.oid = e.oprleft JOIN pg_namespace ln ON ln.oid = l.typnamespace
             JOIN pg_type r ON r.oid = e.oprright JOIN pg_namespace rn ON rn.oid = r.typnamespace ORDER BY place),
       ARRAY(SELECT e.oprleft::regtype::text FROM unnest(c.conffeqop) WITH ORDINALITY k (operator, place)
             JOIN pg_operator e ON e.oid = k.operator ORDER BY place),
       c.confrelid <> c.conrelid AND (c.confmatchtype = 's' OR cardinality(c.conkey) = 1)
           AND to_jsonb(c) ->> 'conperiod' IS DISTINCT FROM 'true'
           AND has_table_privilege(c.confrelid, 'SELECT') AND has_schema_privilege(s.oid, 'USAGE')
           AND NOT row_security_active(c.confrelid)
           AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgisinternal AND tgenabled <> 'O' AND tgrelid IN (
                           SELECT c.conrelid UNION SELECT relid FROM pg_partition_tree(c.conrelid)))
           AND NOT EXISTS (SELECT FROM unnest(c.conkey, c.confkey) k (own, other)
                           JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.own
                           JOIN pg_attribute b ON b.attrelid = c.confrelid AND b.attnum = k.other
                           LEFT JOIN pg_collation l ON l.oid = a.attcollation
                           WHERE a.attcollation <> b.attcollation OR NOT coalesce(l.collisdeterministic, true))
FROM pg_constraint c JOIN pg_class o ON o.oid = c.confrelid JOIN pg_namespace s ON s.oid = o.relnamespace
WHERE c.conrelid = to_regclass(%(table)s) AND c.contype = 'f' AND to_jsonb(c) ->> 'conenforced' IS DISTINCT FROM 'false'
  -- A column that gets no value is NULL, and refers to nothing.
  AND NOT (c.confmatchtype = 's' AND EXISTS (
      SELECT FROM unnest(c.conkey) n JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = n
      JOIN pg_type t ON t.oid = a.atttypid WHERE a.attname <> ALL (%(loaded)s::text[]) AND NOT a.atthasdef
          AND a.attidentity = '' AND t.typtype <> 'd'))
  AND NOT EXISTS (SELECT FROM pg_constraint whole WHERE whole.oid = c.conparentid AND whole.conrelid = c.conrelid)
ORDER BY coalesce((SELECT min(part.oid) FROM pg_constraint part
                   WHERE part.conparentid = c.oid AND part.conrelid <> c.conrelid), c.oid)
"""
_OF_PARTITIONS = """
SELECT EXISTS (SELECT FROM pg_partition_tree(to_regclass(%s)) JOIN pg_constraint ON conrelid = relid
               WHERE relid <> to_regclass(%s) AND contype = 'f' AND conparentid = 0)
"""


class ForeignKey(msgspec.Struct, frozen=True, kw_only=True):
    """A foreign key to another table."""

    name: str
    columns: list[str]
    refers_to: str
    """SQL: the table, as FROM takes it."""
    refers_to_name: str
    same: list[str]
    """SQL: whether its row `p` has the values of the row `s`, by column."""

    def missing(self, staged: TableName) -> str:
        """SQL: the values of staged rows that the other table lacks."""
        own = [f"s.{quote_identifier(name)}" for name in self.columns]
        complete = " AND ".join(f"{column} IS NOT NULL" for column in own)
        return (
            f"SELECT DISTINCT {', '.join(own)} FROM {staged.sql} s "
            f"WHERE {complete} AND NOT EXISTS (SELECT FROM {self.refers_to} p WHERE {' AND '.join(self.same)})"
        )


def of_table(
    connection: psycopg.Connection[Any], table: TableName, columns: Sequence[TableColumn]
) -> list[ForeignKey] | None:
    """The foreign keys of a table into which `columns` are loaded; None where one of them, or one that a partition has
    by itself, must judge while rows are stored.
    """
    kinds = {column.name: key_kind(column) for column in columns}
    facts = {"table": table.sql, "loaded": list(kinds)}
    found, texts = [], False
    for name, own, refers_to, refers_to_name, same, types, is_plain in connection.execute(_FOREIGN, facts).fetchall():
        of_key = [kinds.get(column) for column in own]
        # `bpchar` without a length is a text to who encodes it.
        padded = [kind == "bytes" and type_name == "character" for kind, type_name in zip(of_key, types, strict=True)]
        if not is_plain or not all(of_key) or any(padded):
            return None
        texts = texts or not unique_keys.TEXTS.isdisjoint(map(str, of_key))
        found.append(ForeignKey(name=name, columns=own, refers_to=refers_to, refers_to_name=refers_to_name, same=same))
    if connection.execute(_OF_PARTITIONS, (table.sql, table.sql)).fetchone() != (False,):
        return None
    return None if texts and not unique_keys.texts_are_bytes(connection) else found
