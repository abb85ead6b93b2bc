"""What a table itself does to a load: rights, what stands in the way of a swap, what each row has to pay for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg

from tipple.engines.findings import Finding, missing, refused
from tipple.engines.postgresql import columns, new_table, privileges, stage
from tipple.engines.postgresql.connection import current_role
from tipple.engines.postgresql.partitioned import partition_ways, partitions
from tipple.engines.postgresql.place import obstacles, replica_identity
from tipple.engines.server_errors import ROW_SECURITY_HINT
from tipple.errors import UsageError
from tipple.plan.size import format_bytes
from tipple.plan.url import TableName, quote_identifier

Connection = psycopg.Connection[Any]

# What each row has to pay for: kind, names, and bytes where that is known.
_COSTS = """
SELECT 'index', count(*), sum(coalesce((SELECT sum(pg_relation_size(relid)) FROM pg_partition_tree(indexrelid)),
                                       pg_relation_size(indexrelid)))::bigint,
       (array_agg(indexrelid::regclass::text ORDER BY indexrelid))[:5]
FROM pg_index WHERE indrelid = %(oid)s
UNION ALL
SELECT 'trigger', count(*), NULL, (array_agg(tgname::text ORDER BY tgname))[:5]
FROM pg_trigger WHERE tgrelid = %(oid)s AND NOT tgisinternal AND tgenabled <> 'D'
UNION ALL
SELECT 'foreign key', count(*), NULL, (array_agg(conname::text ORDER BY conname))[:5]
FROM pg_constraint WHERE conrelid = %(oid)s AND contype = 'f'
UNION ALL
SELECT 'publication', count(*), NULL, (array_agg(pubname::text ORDER BY pubname))[:5] FROM (
    SELECT DISTINCT pubname FROM pg_publication_tables p JOIN pg_class c ON c.relname = p.tablename
        AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = p.schemaname)
    JOIN pg_publication o USING (pubname)
    WHERE o.pubinsert AND (c.oid = %(oid)s OR c.oid IN (SELECT relid FROM pg_partition_tree(%(oid)s)))) AS published
"""

_OF_OTHERS = {"index": "its owner may drop those that the load can do without, and create them again afterwards"}
"""What to do about those of a table of another role, which --indexes rebuild refuses; else the owner does the same."""

_EFFECTS = {
    "index": (
        "each row is entered in each of them while it goes in, unless the table is swapped",
        "where rows are only appended, --indexes rebuild, if nothing is said against it; or drop those that the load "
        "can do without, and create them again afterwards",
    ),
    "trigger": (
        "each of them is called for each row or statement",
        "ALTER TABLE {table} DISABLE TRIGGER USER; for the load, where their work can be done afterwards",
    ),
    "foreign key": (
        "each row is looked up in the table that it refers to, unless the table is swapped",
        # The server's VALIDATE does not see all that violates a PERIOD.
        "drop it, and add it again afterwards: ADD … NOT VALID, then VALIDATE CONSTRAINT; with a PERIOD by ADD alone",
    ),
    "publication": (
        "each row is decoded and sent to the subscribers too",
        "none, if they must have the rows; else ALTER PUBLICATION … DROP TABLE {table}; or DROP TABLES IN SCHEMA …;",
    ),
}


def examine_table(connection: Connection, table: TableName) -> Iterator[Finding]:
    """All that the table does to a load."""
    try:
        columns.require_table(connection, table)
    except UsageError as error:
        yield refused(f"table {table}", error)
        return
    found = connection.execute("SELECT to_regclass(%s)::oid", (table.sql,)).fetchone()
    oid = found[0] if found is not None else None
    if oid is None:
        try:
            new_table.place_of(connection, table)
        except UsageError as error:
            yield refused(f"table {table}", error)
            return
        yield missing(table)
        return
    yield from _rights(connection, table, oid)
    yield from _row_security(connection, table)
    yield from _one_session(connection, table)
    yield from _without_identity(connection, table)
    yield from costs(connection, table, oid)


def _rights(connection: Connection, table: TableName, oid: int) -> Iterator[Finding]:
    allowed = connection.execute("SELECT has_table_privilege(%s, 'INSERT')", (oid,)).fetchone()
    if allowed is not None and not allowed[0]:
        yield Finding(
            level="broken",
            subject=f"table {table}",
            found="this role may not insert into it",
            effect="the load is refused",
            remedy=f"as its owner: GRANT SELECT, INSERT ON {table.sql} TO {current_role(connection)};",
        )


def _row_security(connection: Connection, table: TableName) -> Iterator[Finding]:
    why = privileges.subject_to_row_security(connection, table)
    if why is not None:
        yield Finding(
            level="broken",
            subject=f"table {table}",
            found=why,
            effect="the load is refused",
            remedy=ROW_SECURITY_HINT,
        )


def _one_session(connection: Connection, table: TableName) -> Iterator[Finding]:
    """Why rows cannot be stored by several sessions, unseen."""
    remedy = "load into an empty table that nothing depends on, or --no-atomic for parallel sessions"
    if partitions.is_partitioned(connection, table):
        why = partition_ways.table_obstacle(connection, table)
    else:
        why = obstacles.of(connection, table, None)
        if why is None and not stage.is_empty(connection, table):
            why = "it has rows already (--mode append)"
    if why is None:
        why = obstacles.missing_right(connection, table)
        remedy = f"as its owner: GRANT CREATE ON SCHEMA {_schema(connection, table)} TO {current_role(connection)};"
    if why is not None:
        yield Finding(
            level="slow",
            subject=f"table {table}",
            found=why,
            effect="one session stores all rows, for one commit: streams only parse",
            remedy=remedy,
        )


def _without_identity(connection: Connection, table: TableName) -> Iterator[Finding]:
    """Rows that no load may delete, since subscribers could not tell which they are."""
    try:
        replica_identity.require(connection, table, "DELETE")
    except UsageError as error:
        yield Finding(
            level="note",
            subject=f"table {table}",
            found=str(error),
            effect="--mode replace is refused, unless it leaves these rows alone",
            remedy=error.hint or "",
        )


def _schema(connection: Connection, table: TableName) -> str:
    found = columns.describe(connection, table)
    return quote_identifier((found.name if found is not None else table).schema or "public")


def costs(connection: Connection, table: TableName, oid: int) -> Iterator[Finding]:
    """What each row has to pay for where rows go straight into the table: indexes, triggers, keys, publications."""
    found = connection.execute("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = %s", (oid,)).fetchone()
    owns = found is not None and bool(found[0])
    for kind, count, size_bytes, names in connection.execute(_COSTS, {"oid": oid}).fetchall():
        if count:
            effect, remedy = _EFFECTS[kind]
            if kind != "publication" and not owns:
                remedy = _OF_OTHERS.get(kind, f"as its owner: {remedy}")
            many = kind if count == 1 else {"index": "indexes"}.get(kind, f"{kind}s")
            room = f" ({format_bytes(size_bytes)})" if size_bytes is not None else ""
            yield Finding(
                level="slow",
                subject=f"table {table}",
                found=f"{count} {many}{room}: {', '.join(names)}{', …' if count > len(names) else ''}",
                effect=effect,
                remedy=remedy.format(table=table.sql),
            )
