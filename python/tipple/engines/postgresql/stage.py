"""Staging tables: made like the table they will become, filled unseen, and put in its place in one transaction.

A staging table takes the place of an existing one only where nothing would be lost by it: every property that
PostgreSQL keeps by the table's OID and that `CREATE TABLE (LIKE ...)` does not copy rules it out.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from tipple.engines.base import LoadTask
from tipple.engines.postgresql import privileges
from tipple.plan.url import TableName, quote_identifier

PREFIX = "stage_"
"""With which the names begin of all that is staged, and of its indexes and constraints."""
_STAGED = re.compile(r'"stage_[0-9a-f]{32}(?:_[0-9a-f]+)*"')
_OF_STAGED = re.compile(r'"stage_[0-9a-f]{32}(?:_[0-9]+)?(_[^"]+)"')


def in_public(text: str, table: TableName, names: Mapping[str, str] | None = None) -> str:
    """What the server says, with the table's name where it speaks of what is staged for it.

    Constraints that the server has named after that are named after the table, or as `names` has it for what stands
    behind the table's name.
    """
    known = names or {}
    text = _STAGED.sub(lambda _: f'"{table.name}"', text)
    return _OF_STAGED.sub(lambda found: f'"{known.get(found[1], table.name + found[1])}"', text)


# Each query names what stands in the way of replacing the table %(oid)s by another one, or gives no row.
_OBSTACLES = """
SELECT 'it is not an ordinary table' FROM pg_class WHERE oid = %(oid)s
    AND (relkind <> 'r' OR NOT %(restructured)s
         AND (relpersistence <> 'p' OR relam <> (SELECT oid FROM pg_am WHERE amname = 'heap')))
UNION ALL SELECT 'it is a partition, or part of an inheritance tree' FROM pg_inherits
    WHERE (inhrelid = %(oid)s OR inhparent = %(oid)s) AND NOT %(partition)s
UNION ALL SELECT 'it has the trigger ' || tgname FROM pg_trigger WHERE tgrelid = %(oid)s AND NOT tgisinternal
UNION ALL SELECT 'the foreign key ' || conname || ' refers to it or from it' FROM pg_constraint
    WHERE contype = 'f' AND (conrelid = %(oid)s AND NOT %(partition)s OR confrelid = %(oid)s)
UNION ALL SELECT 'it has row security' FROM pg_class
    WHERE oid = %(oid)s AND (relrowsecurity OR relforcerowsecurity)
UNION ALL SELECT 'it has the policy ' || polname FROM pg_policy WHERE polrelid = %(oid)s
UNION ALL SELECT 'it has grants' FROM pg_class WHERE oid = %(oid)s AND relacl IS NOT NULL
UNION ALL SELECT 'its column ' || attname || ' has grants' FROM pg_attribute
    WHERE attrelid = %(oid)s AND attacl IS NOT NULL AND NOT attisdropped
UNION ALL SELECT 'its column ' || attname || ' is an identity column' FROM pg_attribute
    WHERE attrelid = %(oid)s AND attidentity <> '' AND NOT attisdropped
UNION ALL SELECT 'its column ' || attname || ' has options' FROM pg_attribute
    WHERE attrelid = %(oid)s AND NOT attisdropped AND EXISTS (
        -- 15.20 notes a version of its own with every column.
        SELECT FROM unnest(attoptions) AS option WHERE NOT starts_with(option, 'pg_attver='))
UNION ALL SELECT 'another role owns it' FROM pg_class
    WHERE oid = %(oid)s AND relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
UNION ALL SELECT 'it has storage parameters' FROM pg_class WHERE oid = %(oid)s AND reloptions IS NOT NULL
UNION ALL SELECT 'it lies in a tablespace of its own' FROM pg_class
    WHERE oid = %(oid)s AND reltablespace <> 0 AND NOT %(partition)s AND NOT %(moved)s
UNION ALL SELECT 'its replica identity is set' FROM pg_class WHERE oid = %(oid)s AND relreplident <> 'd'
UNION ALL SELECT 'it is clustered' FROM pg_index WHERE indrelid = %(oid)s AND indisclustered
    AND NOT %(restructured)s
UNION ALL SELECT 'it belongs to the publication ' || p.pubname FROM pg_publication_rel r
    JOIN pg_publication p ON p.oid = r.prpubid
    WHERE r.prrelid = %(oid)s OR r.prrelid IN (SELECT relid FROM pg_partition_ancestors(%(oid)s))
UNION ALL SELECT 'the publication ' || pubname || ' covers all tables' FROM pg_publication WHERE puballtables
UNION ALL SELECT 'the publication ' || p.pubname || ' covers its schema' FROM pg_publication_namespace n
    JOIN pg_publication p ON p.oid = n.pnpubid JOIN pg_class c ON c.relnamespace = n.pnnspid
    WHERE c.oid = %(oid)s OR c.oid IN (SELECT relid FROM pg_partition_ancestors(%(oid)s))
UNION ALL SELECT 'the subscription ' || s.subname || ' feeds it' FROM pg_subscription_rel r
    JOIN pg_subscription s ON s.oid = r.srsubid WHERE r.srrelid = %(oid)s
UNION ALL SELECT 'it has the statistics object ' || stxname FROM pg_statistic_ext WHERE stxrelid = %(oid)s
UNION ALL SELECT 'its column ' || a.attname || ' has a statistics target' FROM pg_attribute a
    WHERE (a.attrelid = %(oid)s OR a.attrelid IN (SELECT indexrelid FROM pg_index WHERE indrelid = %(oid)s))
        AND a.attstattarget >= 0 AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT 'its column ' || a.attname || ' is stored or compressed in a way of its own' FROM pg_attribute a
    JOIN pg_attribute r ON r.attrelid = pg_partition_root(a.attrelid) AND r.attname = a.attname
    WHERE a.attrelid = %(oid)s AND %(partition)s AND a.attnum > 0 AND NOT a.attisdropped
        AND (a.attstorage <> r.attstorage OR a.attcompression <> r.attcompression)
UNION ALL SELECT 'its constraint ' || conname || ' is not valid' FROM pg_constraint
    WHERE conrelid = %(oid)s AND contype IN ('c', 'n') AND NOT convalidated
UNION ALL SELECT 'its constraint ' || c.conname || ' has a comment' FROM pg_constraint c
    JOIN pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_constraint'::regclass WHERE c.conrelid = %(oid)s
UNION ALL SELECT 'its index ' || c.relname || ' has a comment' FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_class'::regclass WHERE i.indrelid = %(oid)s
UNION ALL SELECT 'its index ' || c.relname || ' lies in a tablespace of its own' FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid = %(oid)s AND c.reltablespace <> 0 AND NOT %(partition)s AND NOT %(moved)s
UNION ALL SELECT 'its long values have storage parameters' FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid
    WHERE c.oid = %(oid)s AND t.reloptions IS NOT NULL
UNION ALL SELECT 'it, or a column of it, has a comment' FROM pg_description
    WHERE objoid = %(oid)s AND classoid = 'pg_class'::regclass AND %(partition)s
UNION ALL SELECT 'the extension ' || e.extname || ' owns it' FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
    WHERE d.classid = 'pg_class'::regclass AND d.objid = %(oid)s
        AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
UNION ALL SELECT 'it is of a composite type' FROM pg_class WHERE oid = %(oid)s AND reloftype <> 0
UNION ALL SELECT 'it has a security label' FROM pg_seclabel WHERE objoid = %(oid)s
UNION ALL SELECT DISTINCT 'other objects depend on it (' || pg_describe_object(d.classid, d.objid, 0) || ')'
    FROM pg_depend d
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = %(oid)s AND d.deptype IN ('n', 'a')
      AND d.classid IN ('pg_rewrite'::regclass, 'pg_class'::regclass, 'pg_proc'::regclass, 'pg_policy'::regclass)
      AND NOT (d.classid = 'pg_class'::regclass AND EXISTS (
               SELECT FROM pg_index i WHERE i.indexrelid = d.objid AND i.indrelid = %(oid)s))
UNION ALL SELECT 'its row type is used by ' || pg_describe_object(d.classid, d.objid, d.objsubid)
    FROM pg_depend d JOIN pg_type t ON t.oid = d.refobjid
    WHERE d.refclassid = 'pg_type'::regclass AND d.deptype = 'n'
      AND (t.typrelid = %(oid)s OR t.oid = (SELECT typarray FROM pg_type WHERE typrelid = %(oid)s))
LIMIT 1
"""


def obstacle(
    connection: psycopg.Connection[Any], table: TableName, task: LoadTask | None, *, partition: bool = False
) -> str | None:
    """Why another table cannot take this one's place unnoticed, or None.

    A partition's place in its tree, its tablespace and its own foreign keys are seen to by who replaces a `partition`.
    What the load gives the table anew, a structure or a place, is no obstacle.
    """
    oid = _oid(connection, table)
    if oid == 0:
        # Whoever asks has seen it a moment ago.
        return "it is gone"
    facts = {
        "oid": oid,
        "partition": partition,
        "restructured": task is not None and task.structure is not None,
        "moved": task is not None and bool(task.tablespaces),
    }
    found = connection.execute(_OBSTACLES, facts).fetchone()
    return None if found is None else str(found[0])


def missing_right(connection: psycopg.Connection[Any], table: TableName) -> str | None:
    """Why this role may not put a table of its own in the place of this one, or None."""
    found = connection.execute(
        "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.oid = %s AND NOT has_schema_privilege(n.oid, 'CREATE')",
        (_oid(connection, table),),
    ).fetchone()
    return None if found is None else f"this role may not create tables in the schema {found[0]}"


def _oid(connection: psycopg.Connection[Any], table: TableName) -> int:
    found = connection.execute("SELECT to_regclass(%s)::oid", (table.sql,)).fetchone()
    return int(found[0]) if found is not None and found[0] is not None else 0


def has_keys(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether a unique index or an exclusion constraint may refuse rows for the sake of other rows."""
    found = connection.execute(
        "SELECT FROM pg_index WHERE indrelid = %s AND (indisunique OR indisexclusion) LIMIT 1",
        (_oid(connection, table),),
    ).fetchone()
    return found is not None


def has_references(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether a foreign key may refuse rows."""
    found = connection.execute(
        "SELECT FROM pg_constraint WHERE conrelid = %s AND contype = 'f' LIMIT 1", (_oid(connection, table),)
    ).fetchone()
    return found is not None


def reference_to_itself(connection: psycopg.Connection[Any], table: TableName) -> str | None:
    """The name of a foreign key to its own table; None where there is none."""
    found = connection.execute(
        "SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid = %s AND confrelid = conrelid LIMIT 1",
        (_oid(connection, table),),
    ).fetchone()
    return None if found is None else str(found[0])


def deferring_references(connection: psycopg.Connection[Any], table: TableName) -> list[str]:
    """A statement that has foreign keys of other tables, as far as they can wait, judge what is replaced at the end."""
    found = connection.execute(
        "SELECT string_agg(DISTINCT format('%%I.%%I', nspname, conname), ', ') "
        "FROM pg_constraint c JOIN pg_namespace n ON n.oid = connamespace "
        "WHERE contype = 'f' AND confrelid = %s AND conrelid <> confrelid AND condeferrable AND conparentid = 0",
        (_oid(connection, table),),
    ).fetchone()
    return [] if found is None or found[0] is None else [f"SET CONSTRAINTS {found[0]} DEFERRED"]


def has_checks(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether a CHECK constraint may refuse rows."""
    found = connection.execute(
        "SELECT FROM pg_constraint WHERE conrelid = %s AND contype = 'c' LIMIT 1", (_oid(connection, table),)
    ).fetchone()
    return found is not None


def is_empty(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether the table has no row that this session sees."""
    return connection.execute(f"SELECT FROM {table.sql} LIMIT 1").fetchone() is None


def has_pages(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether the table's file holds anything, be it rows that nobody sees any more."""
    found = connection.execute("SELECT pg_relation_size(%s::regclass) > 0", (table.sql,)).fetchone()
    return found is not None and bool(found[0])


def create_like(
    connection: psycopg.Connection[Any], staging: TableName, table: TableName, *, bare: bool = False
) -> None:
    """A table with the columns, defaults and checks (`bare`: without checks) of `table`, and no index yet."""
    without = " EXCLUDING CONSTRAINTS" if bare else ""
    connection.execute(
        f"CREATE TABLE {staging.sql} (LIKE {table.sql} INCLUDING ALL EXCLUDING INDEXES{without}) "
        "WITH (autovacuum_enabled = false)"
    )


def members(connection: psycopg.Connection[Any], staging: TableName, *, kinds: str = "rp") -> list[str]:
    """Names of the staging table and of those that belong to it (`stage_..._7`), of these kinds (`relkind`)."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = coalesce(%s, current_schema()) AND c.relkind::text = ANY (%s) "
        "AND c.relname ~ ('^' || %s || '(_[0-9]+)?$') ORDER BY length(c.relname), c.relname",
        (staging.schema, list(kinds), staging.name),
    )
    return [name for (name,) in rows]


def drop(connection: psycopg.Connection[Any], staging: TableName) -> None:
    """Drops the staging table and those that belong to it, as far as they are still there."""
    # The first one takes its partitions with it.
    for name in members(connection, staging):
        connection.execute(f"DROP TABLE IF EXISTS {TableName(staging.schema, name).sql}")


def swap(
    connection: psycopg.Connection[Any],
    staging: TableName,
    table: TableName,
    *,
    exists: bool,
    renames: Sequence[tuple[str, str]] = (),
) -> None:
    """Puts the staging table in the place of `table`, its indexes with new names; call it in a transaction."""
    comment = None
    if exists:
        # Those of columns were copied.
        found = connection.execute("SELECT obj_description(to_regclass(%s), 'pg_class')", (table.sql,)).fetchone()
        comment = found[0] if found is not None else None
        connection.execute(f"DROP TABLE {table.sql}")
    connection.execute(f"ALTER TABLE {staging.sql} RESET (autovacuum_enabled)")
    if staging.schema != table.schema and table.schema is not None:
        connection.execute(f"ALTER TABLE {staging.sql} SET SCHEMA {quote_identifier(table.schema)}")
    for own, name in renames:
        index = TableName(table.schema, own)
        connection.execute(f"ALTER INDEX {index.sql} RENAME TO {quote_identifier(name)}")
    moved = TableName(table.schema, staging.name)
    connection.execute(f"ALTER TABLE {moved.sql} RENAME TO {quote_identifier(table.name)}")
    rename_constraints(connection, table, staging)
    rename_sequences(connection, table, staging)
    privileges.settle(connection, table, is_new=not exists)
    if comment is not None:
        text = sql.Literal(comment).as_string(connection)
        connection.execute(f"COMMENT ON TABLE {table.sql} IS {text}".encode())


def rename_constraints(
    connection: psycopg.Connection[Any],
    table: TableName,
    staging: TableName,
    kinds: str = "cnpuxf",
    like: TableName | None = None,
) -> None:
    """Gives constraints that the server named after the staging table the name that they would have without it.

    `kinds` are those of `pg_constraint.contype`; with `like` they get the name of that table.
    """
    names = connection.execute(_NAMED_CONSTRAINTS, (table.sql, staging.name[:_SHORTENED], list(kinds))).fetchall()
    for name, kind, columns in names:
        _rename_constraint(connection, table, name, kind, columns, like or table)


def name_last_check(connection: psycopg.Connection[Any], table: TableName) -> None:
    """Gives the CHECK that a table got last the name that the server would have made."""
    name, kind, columns = connection.execute(_NAMED_CONSTRAINTS, (table.sql, "", ["c"])).fetchall()[-1]
    _rename_constraint(connection, table, name, kind, columns, table)


def _rename_constraint(
    connection: psycopg.Connection[Any], table: TableName, name: str, kind: str, columns: list[str], like: TableName
) -> None:
    # Of a CHECK over several columns the server names none.
    named = None if kind == "p" or (kind == "c" and len(columns) != 1) else "_".join(columns)
    final = _free_name(connection, table, like.name, named, _LABELS[kind])
    connection.execute(
        f"ALTER TABLE {table.sql} RENAME CONSTRAINT {quote_identifier(name)} TO {quote_identifier(final)}"
    )


_SHORTENED = 24
"""So many characters of a staging table's name are left in a name that the server has made of it and shortened."""
_LABELS = {"c": "check", "n": "not_null", "p": "pkey", "u": "key", "x": "excl", "f": "fkey"}
_LONGEST_NAME = 63

_NAMED_CONSTRAINTS = """
SELECT conname, contype::text, coalesce((SELECT array_agg(attname ORDER BY place)
    FROM unnest(conkey) WITH ORDINALITY AS keys (attnum, place) JOIN pg_attribute a USING (attnum)
    WHERE attrelid = conrelid), '{}')
FROM pg_constraint WHERE conrelid = to_regclass(%s) AND starts_with(conname, %s) AND contype::text = ANY (%s)
ORDER BY contype, CASE contype WHEN 'c' THEN NULL ELSE conkey END, oid
"""
_IS_TAKEN = """
SELECT EXISTS (SELECT FROM pg_constraint WHERE conname = %(name)s AND connamespace = t.relnamespace)
    OR EXISTS (SELECT FROM pg_class WHERE relname = %(name)s AND relnamespace = t.relnamespace)
FROM pg_class t WHERE t.oid = to_regclass(%(table)s)
"""


def _free_name(
    connection: psycopg.Connection[Any], table: TableName, first: str, second: str | None, label: str
) -> str:
    """The name that the server would choose for an object that belongs to the table (its `ChooseConstraintName` and
    `ChooseRelationName`)."""
    names = (made_name(first, second, f"{label}{number or ''}") for number in itertools.count())
    return next(
        name
        for name in names
        if connection.execute(_IS_TAKEN, {"name": name, "table": table.sql}).fetchone() == (False,)
    )


def made_name(first: str, second: str | None, label: str) -> str:
    """The parts joined, the longer one of the first two shortened as far as need be (PostgreSQL's `makeObjectName`)."""
    parts = [part.encode() for part in (first, second) if part is not None]
    room = _LONGEST_NAME - len(label.encode()) - len(parts)
    while sum(map(len, parts)) > room:
        # Of equal ones the last.
        longest = max(range(len(parts)), key=lambda place: (len(parts[place]), place))
        parts[longest] = parts[longest][:-1]
    return "_".join([*(part.decode(errors="ignore") for part in parts), label])


_OF_IDENTITY = """
SELECT a.attname, s.relname FROM pg_attribute a
JOIN pg_depend d ON d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.refclassid = 'pg_class'::regclass
    AND d.classid = 'pg_class'::regclass AND d.deptype IN ('i', 'a')
JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
WHERE a.attrelid = to_regclass(%s) AND starts_with(s.relname, %s)
"""


def rename_sequences(connection: psycopg.Connection[Any], table: TableName, staging: TableName) -> None:
    """Gives sequences of identity and serial columns, named after what was staged, the table's name."""
    for column, name in connection.execute(_OF_IDENTITY, (table.sql, staging.name[:_SHORTENED])).fetchall():
        final = _free_name(connection, table, table.name, column, "seq")
        sequence = TableName(table.schema, name)
        connection.execute(f"ALTER SEQUENCE {sequence.sql} RENAME TO {quote_identifier(final)}")


_OLDER_SNAPSHOTS = """
SELECT count(*) FROM pg_stat_activity
WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database()
  AND backend_type = 'client backend' AND age(backend_xmin) > age(%s::xid)
"""


def wait_for_old_snapshots(connection: psycopg.Connection[Any], limit_seconds: float) -> bool:
    """Waits until no transaction is left whose snapshot is older than all staged rows; says whether that came.

    Such a transaction would find a table that was swapped in without the rows that it should see, and without the
    staged ones, which are too new for it: an empty table, where it should see the old rows.
    """
    newest = connection.execute("SELECT pg_current_xact_id()::xid::text").fetchone()
    until = time.monotonic() + limit_seconds
    while newest is not None:
        found = connection.execute(_OLDER_SNAPSHOTS, newest).fetchone()
        if found is None or found[0] == 0:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(0.05)
    return True


def has_heap_pages(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether places in the table's pages can be asked for: other access methods need not have any."""
    found = connection.execute(
        "SELECT FROM pg_class c JOIN pg_am m ON m.oid = c.relam WHERE c.oid = to_regclass(%s) AND m.amname = 'heap'",
        (table.sql,),
    ).fetchone()
    return found is not None


def ctid_ranges(connection: psycopg.Connection[Any], table: TableName, parts: int) -> list[str]:
    """Conditions on `ctid` that divide the table's pages into `parts` ranges."""
    row = connection.execute(
        "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::bigint", (table.sql,)
    ).fetchone()
    pages = int(row[0]) if row is not None else 0
    if parts < 2 or pages < 2 * parts or not has_heap_pages(connection, table):
        return ["true"]
    cuts = [pages * part // parts for part in range(1, parts)]
    bounds = [None, *cuts, None]
    conditions = []
    for low, high in itertools.pairwise(bounds):
        limits = []
        if low is not None:
            limits.append(f"ctid >= '({low},0)'::tid")
        if high is not None:
            limits.append(f"ctid < '({high},0)'::tid")
        conditions.append(" AND ".join(limits))
    return conditions
