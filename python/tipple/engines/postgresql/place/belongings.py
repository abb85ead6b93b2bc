"""What a table has beside its columns, constraints and indexes, given to the one that takes its place.

CREATE TABLE (LIKE …) copies none of it. Some counts while rows come in (how full pages are made, how closely
statistics look), so a staging table gets it when it is made; all of it is read again when the tables change places,
under lock, and whatever somebody has changed meanwhile is kept. For many tables at once: there may be thousands of
partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import psycopg

from tipple.plan.url import TableName

__all__ = ["give", "rest", "statistics", "statistics_targets"]

# Each staging table and the one that it is like, numbered from 1.
_PAIRS = "unnest(%(own)s::text[], %(other)s::text[]) WITH ORDINALITY AS pair (own, other, n)"

# Whether a staging table is vacuumed by itself is the load's affair; what it is to be in the end is `%(final)s`.
_OPTIONS = f"""
WITH sides AS (
    SELECT n, side, to_regclass(name) AS oid, CASE WHEN %(final)s THEN other ELSE own END AS target
    FROM {_PAIRS} CROSS JOIN LATERAL (VALUES ('own', own), ('other', other)) AS s (side, name)
), options AS (
    SELECT n, side, target, '' AS part, prefix || option_name AS name, option_value AS value
    FROM sides JOIN pg_class c USING (oid) CROSS JOIN LATERAL (
        SELECT '' AS prefix, c.reloptions AS options
        UNION ALL SELECT 'toast.', t.reloptions FROM pg_class t WHERE t.oid = c.reltoastrelid) AS held
    CROSS JOIN LATERAL pg_options_to_table(held.options)
    WHERE prefix || option_name <> 'autovacuum_enabled' OR (side = 'other' AND %(final)s)
    UNION ALL
    SELECT n, side, target, format(' ALTER COLUMN %%I', attname), option_name, option_value
    FROM sides JOIN pg_attribute ON attrelid = oid AND attnum > 0 AND NOT attisdropped
    CROSS JOIN LATERAL pg_options_to_table(attoptions)
    -- 15.20 notes a version of its own with every column.
    WHERE option_name <> 'pg_attver'
)
SELECT n, format('ALTER TABLE %%s%%s RESET (%%s)', target, part, string_agg(name, ', ')) FROM options
WHERE side = 'own' AND (n, part, name) NOT IN (SELECT n, part, name FROM options WHERE side = 'other')
GROUP BY n, target, part
UNION ALL
SELECT n, format('ALTER TABLE %%s%%s SET (%%s)', target, part, string_agg(format('%%s = %%L', name, value), ', '))
FROM options WHERE side = 'other' AND (n, part, name, value) NOT IN (
    SELECT n, part, name, value FROM options WHERE side = 'own')
GROUP BY n, target, part
UNION ALL
SELECT o.n, format('ALTER TABLE %%s ALTER COLUMN %%I SET STATISTICS %%s', o.target, b.attname,
                   coalesce(b.attstattarget, -1))
FROM sides o JOIN sides s ON s.n = o.n AND s.side = 'own'
JOIN pg_attribute b ON b.attrelid = o.oid AND b.attnum > 0 AND NOT b.attisdropped
JOIN pg_attribute a ON a.attrelid = s.oid AND a.attname = b.attname
WHERE o.side = 'other' AND coalesce(a.attstattarget, -1) <> coalesce(b.attstattarget, -1)
"""

# Rights that others than the owner have given are an obstacle: nobody can give them in their name.
_RIGHTS = f"""
WITH tables AS (
    SELECT n, other, c.oid, c.relowner, c.relacl FROM {_PAIRS} JOIN pg_class c ON c.oid = to_regclass(other)
), rights AS (
    SELECT n, ' ON TABLE ' || other AS what, '' AS columns, a.*
    FROM tables CROSS JOIN LATERAL aclexplode(relacl) a WHERE a.grantee <> relowner
    UNION ALL
    SELECT n, ' ON TABLE ' || other, format(' (%%I)', attname), a.*
    -- Those of the system, such as xmin, may have some too.
    FROM tables JOIN pg_attribute ON attrelid = oid AND NOT attisdropped CROSS JOIN LATERAL aclexplode(attacl) a
)
SELECT n, format('REVOKE %%s ON TABLE %%s FROM %%I', string_agg(d.privilege_type, ', '), other, rolname)
FROM tables JOIN pg_roles r ON r.oid = relowner CROSS JOIN LATERAL aclexplode(acldefault('r', relowner)) d
WHERE relacl IS NOT NULL AND d.privilege_type NOT IN (
    SELECT h.privilege_type FROM aclexplode(relacl) h WHERE h.grantee = relowner)
GROUP BY n, other, rolname
UNION ALL
SELECT n, format('GRANT %%s%%s TO %%s%%s', string_agg(privilege_type || columns, ', '), what,
                 CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
                 CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
FROM rights GROUP BY n, what, grantee, is_grantable
"""

# Indexes and constraints have their names by then.
_REMARKS = f"""
WITH tables AS (SELECT n, other, to_regclass(other)::oid AS oid FROM {_PAIRS})
SELECT n, format('COMMENT ON %%s IS %%L',
                 CASE objsubid WHEN 0 THEN 'TABLE ' || other ELSE format('COLUMN %%s.%%I', other, attname) END,
                 description)
FROM tables JOIN pg_description ON objoid = oid AND classoid = 'pg_class'::regclass
LEFT JOIN pg_attribute ON attrelid = oid AND attnum = objsubid
UNION ALL
SELECT n, format('COMMENT ON INDEX %%I.%%I IS %%L', nspname, relname, description)
FROM tables JOIN pg_index ON indrelid = tables.oid JOIN pg_class c ON c.oid = indexrelid
JOIN pg_namespace s ON s.oid = c.relnamespace
JOIN pg_description ON objoid = c.oid AND classoid = 'pg_class'::regclass
UNION ALL
SELECT n, format('COMMENT ON CONSTRAINT %%I ON %%s IS %%L', conname, other, description)
FROM tables JOIN pg_constraint k ON conrelid = tables.oid
JOIN pg_description ON objoid = k.oid AND classoid = 'pg_constraint'::regclass
"""
_MARKS = f"""
WITH tables AS (SELECT n, other, c.* FROM {_PAIRS} JOIN pg_class c ON c.oid = to_regclass(other))
SELECT n, format('ALTER TABLE %%s REPLICA IDENTITY %%s', other, CASE relreplident WHEN 'n' THEN 'NOTHING'
    -- Without its index there is none.
    WHEN 'f' THEN 'FULL' ELSE coalesce('USING INDEX ' || (
        SELECT quote_ident(i.relname) FROM pg_index JOIN pg_class i ON i.oid = indexrelid
        WHERE indrelid = tables.oid AND indisreplident), 'NOTHING') END)
FROM tables WHERE relreplident <> 'd'
UNION ALL
SELECT n, format('ALTER TABLE %%s CLUSTER ON %%I', other, i.relname)
FROM tables JOIN pg_index ON indrelid = tables.oid AND indisclustered JOIN pg_class i ON i.oid = indexrelid
"""

Pair = tuple[TableName, TableName]
"""A staging table, and the one that it is like."""


def give(connection: psycopg.Connection[Any], pairs: Sequence[Pair]) -> list[str]:
    """Statements that give staging tables what counts while they are filled: options of tables and columns."""
    return [statement for found in _read(connection, [_OPTIONS], pairs, final=False).values() for statement in found]


def hold_rights(connection: psycopg.Connection[Any], tables: Sequence[TableName]) -> None:
    """Has whoever gives or takes rights on these tables wait for the end of this transaction.

    Before version 18 GRANT waits for no lock on the table: what it does between the moment that the rights are read and
    the end of the table would be lost. It does wait for whoever has changed the table's row in pg_class, which taking
    back an option does that is not there.
    """
    if connection.info.server_version >= 180000 or not tables:
        return
    connection.execute("; ".join(f"ALTER TABLE {table.sql} RESET (tipple)" for table in tables).encode())


def rest(
    connection: psycopg.Connection[Any], pairs: Sequence[Pair], *, keeps_indexes: bool
) -> dict[TableName, list[str]]:
    """Statements by the table whose place is taken, to be run when the other one has its name and its indexes' names.

    Its rights are held from here on.

    `keeps_indexes`: whether it has the same indexes, and so may be marked by one of them.
    """
    hold_rights(connection, [other for _, other in pairs])
    queries = [_OPTIONS, _RIGHTS, _REMARKS, *([_MARKS] if keeps_indexes else [])]
    found = _read(connection, queries, pairs, final=True)
    return {other: found[n] for n, (_, other) in enumerate(pairs, 1)}


# LIKE makes those of a staging table in the order of those of the other one.
_STATISTICS = """
WITH objects AS (
    SELECT n.nspname, stxname, stxrelid, obj_description(s.oid, 'pg_statistic_ext') AS said,
        coalesce(stxstattarget, -1) AS target, row_number() OVER (PARTITION BY stxrelid ORDER BY s.oid) AS n
    FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = stxnamespace
    WHERE stxrelid IN (to_regclass(%(own)s), to_regclass(%(other)s))
)
SELECT format('%%I.%%I', a.nspname, a.stxname), quote_ident(a.nspname), quote_ident(b.stxname), quote_ident(b.nspname),
    b.target, CASE WHEN b.said IS NULL THEN 'NULL' ELSE quote_literal(b.said) END
FROM objects b JOIN objects a ON a.n = b.n AND a.stxrelid <> b.stxrelid
WHERE b.stxrelid = to_regclass(%(other)s) ORDER BY b.n
"""


def statistics(connection: psycopg.Connection[Any], staging: TableName, table: TableName) -> list[str]:
    """Statements that give statistics objects of what was staged the names of those of the table, when that is gone."""
    statements = statistics_targets(connection, staging, table)
    for own, schema, name, final_schema, _, said in _statistics(connection, staging, table):
        statements.append(f"ALTER STATISTICS {own} RENAME TO {name}")
        if schema != final_schema:
            statements.append(f"ALTER STATISTICS {schema}.{name} SET SCHEMA {final_schema}")
        statements.append(f"COMMENT ON STATISTICS {final_schema}.{name} IS {said}")
    return statements


def statistics_targets(connection: psycopg.Connection[Any], staging: TableName, table: TableName) -> list[str]:
    """Statements by which statistics objects of what is staged look as closely as those of the table."""
    return [
        f"ALTER STATISTICS {own} SET STATISTICS {target}"
        for own, _, _, _, target, _ in _statistics(connection, staging, table)
    ]


def _statistics(connection: psycopg.Connection[Any], staging: TableName, table: TableName) -> list[tuple[Any, ...]]:
    return connection.execute(_STATISTICS, {"own": staging.sql, "other": table.sql}).fetchall()


def _read(
    connection: psycopg.Connection[Any], queries: Sequence[str], pairs: Sequence[Pair], *, final: bool
) -> defaultdict[int, list[str]]:
    found: defaultdict[int, list[str]] = defaultdict(list)
    if pairs:
        facts = {"own": [own.sql for own, _ in pairs], "other": [other.sql for _, other in pairs], "final": final}
        for query in queries:
            for n, statement in connection.execute(query.encode(), facts).fetchall():
                found[n].append(str(statement))
    return found
