"""The constraints of a table that an upsert's staged rows may violate, as queries over all of them at once.

What cannot be asked for like this (exclusion constraints, triggers, constraints over columns that are not loaded or
over whole rows) shows when the rows are merged: see `merge_refusals.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.postgresql.place import whole_rows
from tipple.plan.url import TableName, quote_identifier, quote_literal

__all__ = ["LACKS_PARTITION", "Alone", "Unique", "alone", "uniques"]

LACKS_PARTITION = 'no partition of relation "{}" found for row'
"""The server's words in English, by which the core knows what helps."""

# CHECK before foreign keys, each in the order of their names, as the server looks at them. Before 18 there is no
# column `conenforced`, nor `conperiod`. A foreign key to a partitioned table has one to each partition below it. The
# server looks at all rows of the other table, whatever policies hide, and compares in that table's collation.
_ALONE = f"""
SELECT c.conname, pg_get_expr(c.conbin, c.conrelid), c.contype::text, c.confmatchtype = 'f',
       c.confrelid::regclass::text, p.relname, c.confrelid = c.conrelid,
       c.confrelid <> 0 AND has_table_privilege(c.confrelid, 'SELECT') AND NOT row_security_active(c.confrelid)
           AND to_jsonb(c) ->> 'conperiod' IS DISTINCT FROM 'true'
           AND NOT EXISTS (SELECT FROM unnest(c.conkey, c.confkey) k (own, other)
                           JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.own
                           JOIN pg_attribute b ON b.attrelid = c.confrelid AND b.attnum = k.other
                           WHERE a.attcollation <> b.attcollation),
       ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k (n, place)
             JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.n ORDER BY place),
       ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY k (n, place)
             JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.n ORDER BY place)
FROM pg_constraint c LEFT JOIN pg_class p ON p.oid = c.confrelid
WHERE c.conrelid = to_regclass(%s) AND c.contype IN ('c', 'f') AND ({whole_rows.CHECKED}) IS NOT TRUE
  AND to_jsonb(c) ->> 'conenforced' IS DISTINCT FROM 'false'
  AND NOT EXISTS (SELECT FROM pg_constraint whole WHERE whole.oid = c.conparentid AND whole.conrelid = c.conrelid)
ORDER BY c.contype, c.conname
"""

_PARTITIONS = """
SELECT (SELECT array_agg(pg_get_partition_constraintdef(inhrelid)) FROM pg_inherits WHERE inhparent = t.partrelid),
       ARRAY(SELECT a.attname::text FROM unnest(t.partattrs::smallint[]) WITH ORDINALITY k (n, place)
             JOIN pg_attribute a ON a.attrelid = t.partrelid AND a.attnum = k.n ORDER BY place),
       0 = ANY (t.partattrs::smallint[]),
       (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY place)
        FROM unnest(t.partattrs::smallint[]) WITH ORDINALITY k (n, place)
        JOIN pg_attribute a ON a.attrelid = t.partrelid AND a.attnum = k.n)
FROM pg_partitioned_table t WHERE t.partrelid = to_regclass(%s)
"""

_CHANGED_BEFORE = """
SELECT FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 3 = 3 AND tgtype & 20 <> 0
AND tgrelid IN (SELECT to_regclass(%(table)s)::oid UNION SELECT relid FROM pg_partition_tree(to_regclass(%(table)s)))
LIMIT 1
"""
"""Triggers for each row before INSERT or UPDATE (`tgtype`'s bits, from the server's `pg_trigger.h`)."""

_UNIQUE = f"""
SELECT (SELECT relname FROM pg_class WHERE oid = i.indexrelid),
       ARRAY(SELECT pg_get_indexdef(i.indexrelid, place, false) FROM generate_series(1, i.indnkeyatts) place),
       pg_get_expr(i.indpred, i.indrelid), i.indnullsnotdistinct,
       ARRAY(SELECT DISTINCT a.attname::text FROM pg_depend d
             JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
             WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
               AND d.objid IN (i.indexrelid) AND d.refobjid = i.indrelid AND d.refobjsubid > 0
             UNION SELECT a.attname::text FROM unnest(i.indkey::smallint[]) k (n)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n)
FROM pg_index i WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND NOT {whole_rows.INDEXED}
ORDER BY i.indexrelid
"""


class Alone(msgspec.Struct, frozen=True, kw_only=True):
    """A constraint that judges a row whatever other rows are staged, but for a table that refers to itself."""

    is_violated: str
    """SQL, of the staged row `s`."""
    reason: str
    """What the server says of such a row."""
    detail: str | None
    """SQL for what it says of the row's key."""
    sqlstate: str
    repeats: bool
    """Whether a row may be refused because another one was."""


class Unique(msgspec.Struct, frozen=True, kw_only=True):
    """A unique index over something else than the key."""

    name: str
    terms: Sequence[str]
    """SQL: the parts of what is unique."""
    predicate: str | None
    """SQL: the condition of a partial index."""
    nulls_equal: bool

    @property
    def names(self) -> list[str]:
        """What the parts are called in `values`."""
        return [f"tipple_u{number}" for number in range(len(self.terms))]

    def reason(self, values: Sequence[str | None]) -> str:
        """What the server says of a row that wants `values`, which another one has."""
        key = f"Key ({', '.join(self.terms)})=({', '.join('null' if value is None else value for value in values)})"
        return f'duplicate key value violates unique constraint "{self.name}" ({key} already exists.)'

    def values(self, table: str, key: str) -> str:
        """A query for the key and the parts of all rows that the index has."""
        parts = ", ".join(f"({term}) AS {name}" for term, name in zip(self.terms, self.names, strict=True))
        conditions = [f"({self.predicate})"] if self.predicate else []
        if not self.nulls_equal:
            conditions += [f"({term}) IS NOT NULL" for term in self.terms]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {key}, {parts} FROM {table}{where}"

    def same(self, left: str, right: str) -> str:
        """Whether two rows of `values` have the same."""
        equals = "IS NOT DISTINCT FROM" if self.nulls_equal else "="
        return " AND ".join(f"{left}.{name} {equals} {right}.{name}" for name in self.names)


def alone(connection: psycopg.Connection[Any], task: LoadTask, target: TableName, staging: str) -> Iterator[Alone]:
    """What can be asked of each row of `staging` by itself."""
    if _are_changed(connection, target):
        return
    loaded = {column.name for column in task.columns}
    # A record that is left out because the table has its key violates nothing.
    key = " AND ".join(f"t.{name} = s.{name}" for name in map(quote_identifier, task.key))
    counts = f" AND NOT EXISTS (SELECT FROM {target.sql} t WHERE {key})" if task.on_conflict == "ignore" else ""
    yield from _no_partition(connection, target, loaded, counts)
    for row in connection.execute(_ALONE, (target.sql,)).fetchall():
        name, condition, kind, is_full, other, other_name, is_self, may_read, columns, other_columns = row
        if not columns or not loaded.issuperset(columns):
            continue
        quoted = [f"s.{quote_identifier(column)}" for column in columns]
        if kind == "c":
            yield Alone(
                is_violated=f"NOT ({condition}){counts}",
                reason=f'new row for relation "{target.name}" violates check constraint "{name}"',
                detail=None,
                sqlstate="23514",
                repeats=False,
            )
            continue
        if not may_read:
            continue
        complete = " AND ".join(f"{column} IS NOT NULL" for column in quoted)
        same = " AND ".join(
            f"p.{quote_identifier(theirs)} = {own}" for theirs, own in zip(other_columns, quoted, strict=True)
        )
        missing = f"NOT EXISTS (SELECT FROM {other} p WHERE {same})"
        if is_self and loaded.issuperset(other_columns):
            missing += f" AND NOT EXISTS (SELECT FROM {staging} p WHERE {same})"
        violated = f"{complete} AND {missing}"
        if is_full:
            some = " OR ".join(f"{column} IS NOT NULL" for column in quoted)
            violated = f"({violated} OR (({some}) AND NOT ({complete})))"
        ending = f') is not present in table "{other_name}".'
        values = " || ', ' || ".join(f"coalesce({column}::text, 'null')" for column in quoted)
        yield Alone(
            is_violated=violated + counts,
            reason=f'insert or update on table "{target.name}" violates foreign key constraint "{name}"',
            detail=f"{quote_literal('Key (' + ', '.join(columns) + ')=(')} || {values} || {quote_literal(ending)}",
            sqlstate="23503",
            repeats=is_self,
        )


def _no_partition(
    connection: psycopg.Connection[Any], target: TableName, loaded: set[str], counts: str
) -> Iterator[Alone]:
    """That the table has a partition for a row; nothing where its key is an expression, or not loaded.

    Of partitions below those the server will tell when the rows are merged.
    """
    found = connection.execute(_PARTITIONS, (target.sql,)).fetchone()
    if found is None:
        return
    constraints, columns, has_expressions, listed = found
    # The only partition has no constraint if it is the default one.
    if not constraints or None in constraints or has_expressions or not loaded.issuperset(columns):
        return
    values = " || ', ' || ".join(f"coalesce(s.{quote_identifier(column)}::text, 'null')" for column in columns)
    beginning = f"Partition key of the failing row contains ({listed}) = ("
    yield Alone(
        is_violated=f"({' OR '.join(f'({constraint})' for constraint in constraints)}) IS NOT TRUE{counts}",
        reason=LACKS_PARTITION.format(target.name),
        detail=f"{quote_literal(beginning)} || {values} || ').'",
        sqlstate="23514",
        repeats=False,
    )


def uniques(connection: psycopg.Connection[Any], task: LoadTask, target: TableName) -> list[Unique]:
    """What else than the key must be unique, as far as it consists of loaded columns."""
    if _are_changed(connection, target):
        return []
    loaded = {column.name for column in task.columns}
    found = []
    for name, terms, predicate, nulls_equal, columns in connection.execute(_UNIQUE, (target.sql,)).fetchall():
        # Where the key is a part of it, rows of different keys differ.
        parts = {*terms, *map(quote_identifier, terms)}
        if loaded.issuperset(columns) and not parts.issuperset(map(quote_identifier, task.key)):
            found.append(Unique(name=name, terms=terms, predicate=predicate, nulls_equal=nulls_equal))
    return found


def _are_changed(connection: psycopg.Connection[Any], target: TableName) -> bool:
    """Whether a trigger may change rows before constraints judge them: then only the server knows what they will be."""
    return connection.execute(_CHANGED_BEFORE, {"table": target.sql}).fetchone() is not None
