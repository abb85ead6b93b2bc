"""What tables that were filled without indexes and constraints lack in comparison with others, and what they have more.

For many tables at once: each query asks for all of them, since there may be thousands of partitions.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import Any

import msgspec
import psycopg

from tipple.plan.url import TableName, quote_identifier

# The pairs of a table and the one that it is compared with, numbered from 1.
_PAIRS = "unnest(%(tables)s::text[], %(likes)s::text[]) WITH ORDINALITY AS pair (own, other, n)"

_CONSTRAINTS_QUERY = f"""
SELECT pair.n, conname, convalidated FROM {_PAIRS} JOIN pg_constraint ON conrelid = to_regclass(pair.own)
"""
_PRESENT_QUERY = f"""
SELECT pair.n, relname FROM {_PAIRS} JOIN pg_index ON indrelid = to_regclass(pair.own)
JOIN pg_class ON pg_class.oid = indexrelid
"""
_SIZES_QUERY = f"SELECT pg_relation_size(to_regclass(pair.own)) FROM {_PAIRS} ORDER BY pair.n"

_INDEX_QUERY = f"""
SELECT pair.n, c.relname, pg_get_indexdef(i.indexrelid),
       length(format(' INDEX %%I ON %%s%%I.%%I USING ', c.relname, CASE t.relkind WHEN 'p' THEN 'ONLY ' END,
                     n.nspname, t.relname)) + length(CASE WHEN i.indisunique THEN 'CREATE UNIQUE' ELSE 'CREATE' END),
       i.indisunique, k.contype, pg_get_constraintdef(k.oid),
       coalesce(k.condeferrable, false), coalesce(k.condeferred, false)
FROM {_PAIRS} JOIN pg_index i ON i.indrelid = to_regclass(pair.other) JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace
LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u', 'x')
ORDER BY pair.n, k.contype NULLS LAST, c.relname
"""

_OWN_CHECK_QUERY = f"""
SELECT pair.n, conname, pg_get_constraintdef(own.oid) FROM {_PAIRS}
JOIN pg_constraint own ON own.conrelid = to_regclass(pair.other)
WHERE contype = 'c' AND NOT EXISTS (
    SELECT FROM pg_constraint other WHERE other.conrelid = to_regclass(pair.own) AND other.conname = own.conname
    AND (other.coninhcount > 0
         OR pg_get_expr(other.conbin, other.conrelid) = pg_get_expr(own.conbin, own.conrelid)))
ORDER BY pair.n, conname
"""

# Without those that this role may not make: what another role has added stands in the way when rows are published.
# Before 18 there is no column `conperiod`; `own` alone would be the column of the pair.
_FOREIGN_KEY_QUERY = f"""
SELECT pair.n, conname, regexp_replace(pg_get_constraintdef(own.oid), ' NOT VALID$', ''), convalidated,
       coalesce((to_jsonb(own.*) ->> 'conperiod')::boolean, false)
FROM {_PAIRS} JOIN pg_constraint own ON own.conrelid = to_regclass(pair.other) JOIN pg_class o ON o.oid = confrelid
WHERE contype = 'f' AND has_schema_privilege(o.relnamespace, 'USAGE') AND NOT EXISTS (
    SELECT FROM unnest(confkey) k (n) WHERE NOT has_column_privilege(o.oid, k.n, 'REFERENCES'))
AND (conparentid = 0 OR NOT EXISTS (
    SELECT FROM pg_constraint parent WHERE parent.oid = own.conparentid AND parent.conrelid = own.conrelid))
ORDER BY pair.n, conname
"""

# What a table has more, and whether it is only that if it is not among those that are wanted. The CHECK that says a
# partition's bound is the server's own, and goes when it is attached.
_SURPLUS_QUERY = f"""
SELECT pair.n, format('ALTER TABLE %%s DROP CONSTRAINT %%I', pair.own, conname),
    CASE WHEN contype NOT IN ('f', 'c') THEN conname END
FROM {_PAIRS} JOIN pg_constraint own ON own.conrelid = to_regclass(pair.own)
WHERE CASE contype
    WHEN 'f' THEN conparentid = 0
    WHEN 'c' THEN coninhcount = 0 AND NOT starts_with(conname, 'stage_')
    WHEN 'n' THEN false
    ELSE conname ~ %(staged)s END
AND NOT EXISTS (SELECT FROM pg_constraint other WHERE other.conrelid = to_regclass(pair.other)
    AND other.conname = own.conname AND other.contype = own.contype
    AND (own.contype <> 'c' OR pg_get_expr(other.conbin, other.conrelid) = pg_get_expr(own.conbin, own.conrelid)))
UNION ALL
SELECT pair.n, format('DROP INDEX %%I.%%I', s.nspname, c.relname), c.relname
FROM {_PAIRS} JOIN pg_index i ON i.indrelid = to_regclass(pair.own)
JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace s ON s.oid = c.relnamespace
WHERE c.relname ~ %(staged)s AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid)
"""
_STAGED_NAME = "^stage_[0-9a-f]{32}(_[0-9]+)?_[0-9a-f]{10}$"
"""As `staged_name` gives it."""


class KeyWork(msgspec.Struct, kw_only=True):
    """What a table lacks in comparison with another one."""

    table: TableName
    size_bytes: int
    indexes: list[str]
    """Statements that may run side by side."""
    after: list[str]
    """Statements that follow them, in this order."""
    renames: list[tuple[str, str]]
    """Indexes by the name that they have here, and by the one that they are to have."""
    tablespace: str | None = None
    """The `default_tablespace` by which its indexes are made; None: as the session has it."""

    @property
    def is_done(self) -> bool:
        """Whether it lacks nothing."""
        return not self.indexes and not self.after


def staged_name(table: TableName, definition: str) -> str:
    """The name that an index, defined like this elsewhere, has in a table that is not published yet."""
    return f"{table.name[:50]}_{hashlib.sha256(definition.encode()).hexdigest()[:10]}"


def missing(connection: psycopg.Connection[Any], table: TableName, like: TableName) -> KeyWork:
    """What `table` lacks of the indexes and constraints of `like`: see `missing_of_all`."""
    return missing_of_all(connection, [(table, like)])[0]


def missing_of_all(
    connection: psycopg.Connection[Any], pairs: Sequence[tuple[TableName, TableName]], *, drops: bool = False
) -> list[KeyWork]:
    """What tables without rows that anybody sees yet lack of the indexes and constraints of others.

    Their indexes get names that tell what they are, and that no other table's have; `renames` says which is which.

    Args:
        connection: to the server.
        pairs: each table, and the one whose indexes it is to have.
        drops: whether to drop also what a table has got like another one before, and this one has not: somebody has
            dropped or renamed an index or a constraint meanwhile, or detached the partition that it was made like.
    """
    if not pairs:
        return []
    facts = {"tables": [table.sql for table, _ in pairs], "likes": [like.sql for _, like in pairs]}

    def numbered(query: str) -> defaultdict[int, list[tuple[Any, ...]]]:
        found: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for n, *row in connection.execute(query.encode(), facts).fetchall():
            found[n].append(tuple(row))
        return found

    constraints, present = numbered(_CONSTRAINTS_QUERY), numbered(_PRESENT_QUERY)
    sizes = connection.execute(_SIZES_QUERY.encode(), facts).fetchall()
    indexes, checks, keys = numbered(_INDEX_QUERY), numbered(_OWN_CHECK_QUERY), numbered(_FOREIGN_KEY_QUERY)
    works = []
    for n, ((table, _), (size,)) in enumerate(zip(pairs, sizes, strict=True), 1):
        work = KeyWork(table=table, size_bytes=int(size or 0), indexes=[], after=[], renames=[])
        names = dict(constraints[n])
        _add_indexes(work, indexes[n], names, {name for (name,) in present[n]})
        for name, definition in checks[n]:
            work.after.append(f"ALTER TABLE {table.sql} ADD CONSTRAINT {quote_identifier(name)} {definition}")
        _add_references(work, keys[n], names)
        works.append(work)
    if drops:
        facts["staged"] = _STAGED_NAME  # type: ignore[assignment]  # psycopg takes any
        for n, found in numbered(_SURPLUS_QUERY).items():
            work = works[n - 1]
            wanted = {own for own, _ in work.renames}
            # First: a table has one primary key.
            work.after = [statement for statement, name in found if name not in wanted] + work.after
    return works


def _add_indexes(
    work: KeyWork, found: Sequence[tuple[Any, ...]], constraints: Container[str], present: Container[str]
) -> None:
    table = work.table
    for name, definition, head, unique, kind, constraint_definition, deferrable, deferred in found:
        # CREATE [UNIQUE] INDEX name ON [ONLY] schema.table USING ...: the names may hold any of these words.
        method = definition[head:]
        # A constraint and its index always have the same name.
        own = staged_name(table, definition)
        quoted = quote_identifier(own)
        work.renames.append((own, name))
        if kind is not None and (kind == "x" or not method.startswith("btree ")):
            # Nothing but the constraint itself can make these.
            if own not in constraints:
                work.after.append(f"ALTER TABLE {table.sql} ADD CONSTRAINT {quoted} {constraint_definition}")
            continue
        if own not in present:
            form = "UNIQUE INDEX" if unique else "INDEX"
            work.indexes.append(f"CREATE {form} IF NOT EXISTS {quoted} ON {table.sql} USING {method}")
        if kind is not None and own not in constraints:
            form = "PRIMARY KEY" if kind == "p" else "UNIQUE"
            suffix = (" DEFERRABLE" if deferrable else "") + (" INITIALLY DEFERRED" if deferred else "")
            work.after.append(f"ALTER TABLE {table.sql} ADD CONSTRAINT {quoted} {form} USING INDEX {quoted}{suffix}")


def _add_references(work: KeyWork, found: Sequence[tuple[Any, ...]], constraints: Mapping[str, bool]) -> None:
    """Adds foreign keys, each by two statements; `constraints` says which are there, and whether they are validated.

    One over a PERIOD is added by one statement, though writers into the table that it refers to wait all the while:
    VALIDATE CONSTRAINT of 18 only asks whether some row overlaps, and not whether all of the period is covered (its
    `QueueFKConstraintValidation` leaves `conwithperiod` false).
    """
    for name, definition, valid, of_period in found:
        quoted = quote_identifier(name)
        alter = f"ALTER TABLE {work.table.sql}"
        if valid and constraints.get(name, False):
            continue
        if valid and of_period:
            if name in constraints:
                work.after.append(f"{alter} DROP CONSTRAINT {quoted}")
            work.after.append(f"{alter} ADD CONSTRAINT {quoted} {definition}")
            continue
        if name not in constraints:
            work.after.append(f"{alter} ADD CONSTRAINT {quoted} {definition} NOT VALID")
        # Whoever was killed between the two has left one that has judged nothing.
        if valid:
            work.after.append(f"{alter} VALIDATE CONSTRAINT {quoted}")
