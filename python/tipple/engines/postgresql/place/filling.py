"""Rows that the server copies from one table into another (`INSERT … SELECT`): all of them arrive, or the load ends.

What has verified them looked at the table that they come from. On their way a trigger for each row may keep some out or
change them, and the server says no word of it.
"""

from __future__ import annotations

import contextlib
from typing import Any

import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.postgresql import stage
from tipple.errors import TippleError, VerifyFailed
from tipple.plan.url import TableName, quote_identifier

__all__ = ["fill", "kept_out", "name_triggers", "remarks"]

# For each row before these events (`tgtype`'s bits, from the server's `pg_trigger.h`), of the table and what belongs to
# it. Whoever disables one of a table disables those that its partitions have from it.
_TRIGGERS = """
WITH own AS (
    SELECT to_regclass(%(table)s)::oid AS oid UNION SELECT relid FROM pg_partition_tree(to_regclass(%(table)s))
)
SELECT format('ALTER TABLE %%I.%%I DISABLE TRIGGER %%I', n.nspname, c.relname, tgname)
FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE tgrelid IN (SELECT oid FROM own) AND NOT tgisinternal AND tgenabled <> 'D'
    AND tgtype & 3 = 3 AND tgtype & %(events)s <> 0 AND NOT EXISTS (
        SELECT FROM pg_trigger p
        WHERE p.oid = t.tgparentid AND p.tgenabled <> 'D' AND p.tgrelid IN (SELECT oid FROM own))
ORDER BY n.nspname, c.relname, tgname
"""
_INSERT, _UPDATE = 4, 16
MOST_NAMED = 10
"""Of the triggers that may have kept rows out so many are named: each of many partitions may have one of its own."""

_RULE = """
SELECT rulename::text FROM pg_rewrite
WHERE ev_class = to_regclass(%s) AND ev_type = '3' AND ev_enabled <> 'D' ORDER BY rulename LIMIT 1
"""


def fill(
    connection: psycopg.Connection[Any],
    task: LoadTask,
    into: TableName,
    rows_of: TableName,
    columns: str,
    *,
    compares: bool = False,
    overrides: bool = False,
) -> None:
    """Copies all rows of a table into another one, in the transaction that is open.

    Args:
        connection: to the server.
        task: the load that they are copied for.
        into: the table that gets them.
        rows_of: the table that has them.
        columns: those that are copied, quoted.
        compares: whether the loaded values, which were verified where they come from, must arrive as they are.
        overrides: whether values for identity columns that are always generated are copied too.

    Raises:
        TippleError: some were kept out, or a rule might do that.
        VerifyFailed: values were changed.
    """
    # Nobody makes a rule or a trigger from here on.
    connection.execute(f"LOCK TABLE {into.sql} IN ROW EXCLUSIVE MODE".encode())
    _refuse_rule(connection, task.table, into)
    overriding = "OVERRIDING SYSTEM VALUE " if overrides else ""
    insert = f"INSERT INTO {into.sql} ({columns}) {overriding}SELECT {columns} FROM {rows_of.sql}"
    if compares and _triggers(connection, into, _INSERT):
        names = ", ".join(quote_identifier(column.name) for column in task.columns if column.digested)
        given, digest = _summed_up(connection, names, rows_of.sql)
        stored, digest_stored = _summed_up(connection, names, "stored", f"WITH stored AS ({insert} RETURNING {names}) ")
    else:
        given, stored = stage.count(connection, rows_of), connection.execute(insert.encode()).rowcount
        digest = digest_stored = 0
    if stored != given:
        raise kept_out(connection, task.table, given, stored)
    if digest_stored != digest:
        raise VerifyFailed(f"{task.table} has stored other values of {given:,} rows than those that were read")


def kept_out(
    connection: psycopg.Connection[Any], table: TableName, given: int, stored: int, *, updates: bool = False
) -> TippleError:
    """The error where rows were given to a table that has not stored them, and has not refused them either.

    `updates`: whether some were to change rows.
    """
    remedy = _remedy(connection, table, _INSERT | _UPDATE if updates else _INSERT)
    return TippleError(
        f"{table} was given {given:,} rows, and has stored {stored:,}: a trigger or a rule keeps rows out",
        hint=f"nothing was published; for the load: {remedy or 'find it, and disable it'}",
    )


def remarks(connection: psycopg.Connection[Any], table: TableName) -> list[str]:
    """What to say of a checksum that was made before the rows are merged into the table."""
    remedy = _remedy(connection, table, _INSERT | _UPDATE)
    said = "the checksum is that of the rows as they were staged: triggers may have changed them when they were merged"
    return [f"{said} (without them: {remedy})"] if remedy else []


def name_triggers(connection: psycopg.Connection[Any], table: TableName, error: TippleError) -> None:
    """Has the core's remedy for rows that COPY has not stored reach the triggers that partitions have of their own."""
    told = f"ALTER TABLE {table.sql} DISABLE TRIGGER USER"
    if told in (error.hint or ""):
        # There is an error to report already, and it is not this one.
        with contextlib.suppress(psycopg.Error):
            error.hint = (error.hint or "").replace(told, _remedy(connection, table, _INSERT) or told)


def _refuse_rule(connection: psycopg.Connection[Any], table: TableName, into: TableName) -> None:
    """Refuses to copy rows past a rule: it may send them elsewhere, and where COPY brings them it does not see them."""
    found = connection.execute(_RULE, (into.sql,)).fetchone()
    if found is not None:
        raise TippleError(
            f"{table} has got the rule {found[0]} while it was loaded, and it may keep rows out",
            hint="nothing was published; run the command again with --restart: rows then come by COPY, which no rule "
            f"sees; or disable it: ALTER TABLE {into.sql} DISABLE RULE {quote_identifier(found[0])}",
        )


def _triggers(connection: psycopg.Connection[Any], table: TableName, events: int) -> list[str]:
    """Those that may keep rows out of a table or change them, as statements that disable them."""
    rows = connection.execute(_TRIGGERS, {"table": table.sql, "events": events}).fetchall()
    return [str(statement) for (statement,) in rows]


def _remedy(connection: psycopg.Connection[Any], table: TableName, events: int) -> str:
    """What disables them; nothing where there are none."""
    found = _triggers(connection, table, events)
    more = f"; and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"{'; '.join(found[:MOST_NAMED])}{more}"


def _summed_up(connection: psycopg.Connection[Any], names: str, rows: str, before: str = "") -> tuple[int, int]:
    """How many rows there are, and a digest of their values that does not depend on their order."""
    digest = f"coalesce(sum(hashtextextended(ROW({names})::text, 0)::numeric), 0)"
    found = connection.execute(f"{before}SELECT count(*), {digest} FROM {rows}".encode()).fetchone()
    return (0, 0) if found is None else (int(found[0]), int(found[1]))
