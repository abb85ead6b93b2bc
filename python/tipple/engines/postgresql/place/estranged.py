"""Tables that were made like others, to take their places, and have become something else meanwhile, or another role's.

Event triggers do that: a site may give row security, an owner or a trigger to every new table. COPY makes no table, so
those that are loaded would not have got it; nor must they get it by way of what takes their place.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg

from tipple.engines.postgresql.stage import PREFIX
from tipple.engines.server_errors import is_of_circumstances
from tipple.errors import TippleError
from tipple.plan.url import TableName, quote_identifier

__all__ = [
    "Withheld",
    "of",
    "of_all",
    "refusal",
    "refusal_to_drop",
    "require_kept",
    "triggers_of_new",
    "withheld",
]

_ESTRANGED = """
SELECT DISTINCT ON (n) n, what FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS pair (own, other, n)
JOIN pg_class o ON o.oid = to_regclass(own) JOIN pg_class t ON t.oid = to_regclass(other)
CROSS JOIN LATERAL (
    SELECT 'another owner' WHERE o.relowner <> t.relowner
    UNION ALL SELECT 'row security'
        WHERE (o.relrowsecurity, o.relforcerowsecurity) <> (t.relrowsecurity, t.relforcerowsecurity)
    UNION ALL SELECT 'a replica identity' WHERE o.relreplident NOT IN ('d', t.relreplident)
    UNION ALL SELECT 'the policy ' || polname FROM pg_policy WHERE polrelid = o.oid
    UNION ALL SELECT 'the trigger ' || tgname FROM pg_trigger WHERE tgrelid = o.oid AND NOT tgisinternal
    UNION ALL SELECT 'the rule ' || rulename FROM pg_rewrite WHERE ev_class = o.oid
    -- That of a hidden partition says what it is.
    UNION ALL SELECT 'a comment' FROM pg_description d WHERE d.classoid = 'pg_class'::regclass AND d.objoid = o.oid
        AND d.objsubid = 0 AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid IN (o.oid, t.oid))
    UNION ALL SELECT 'the column ' || a.attname FROM pg_attribute a
        WHERE a.attrelid = o.oid AND a.attnum > 0 AND NOT a.attisdropped AND NOT EXISTS (
            SELECT FROM pg_attribute b WHERE b.attrelid = t.oid AND b.attname = a.attname AND NOT b.attisdropped)
) found (what)
ORDER BY n
"""


def of_all(connection: psycopg.Connection[Any], pairs: Sequence[tuple[TableName, TableName]]) -> dict[TableName, str]:
    """By staged table what it has got that the one has not whose place it is to take (the second of each pair)."""
    asked = [[table.sql for table in side] for side in zip(*pairs, strict=True)] or [[], []]
    rows = connection.execute(_ESTRANGED, asked).fetchall()
    return {pairs[n - 1][0]: f"an event trigger has given {what} to what was to take its place" for n, what in rows}


def of(connection: psycopg.Connection[Any], staging: TableName, table: TableName) -> str | None:
    """The same for one table, or None."""
    return of_all(connection, [(staging, table)]).get(staging)


class Withheld(msgspec.Struct, frozen=True):
    """Why this role cannot use the tables that it makes in a schema."""

    why: str
    remedy: str
    """For who may change event triggers."""


_TRIGGERS = """
SELECT evtname FROM pg_event_trigger WHERE evtevent = ANY (%(events)s)
    AND evtenabled IN ('O', 'A') AND (%(command)s = ANY (evttags)) IS NOT FALSE ORDER BY 1
"""
_SCHEMA = "SELECT FROM pg_namespace WHERE nspname = %s"
_OWNER = """
SELECT pg_get_userbyid(relowner), pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(%s)
"""


def triggers_of_new(connection: psycopg.Connection[Any]) -> list[str]:
    """The event triggers that a new table calls."""
    return _triggers(connection, "CREATE TABLE", ["ddl_command_start", "ddl_command_end"])


def _triggers_of_dropped(connection: psycopg.Connection[Any]) -> list[str]:
    return _triggers(connection, "DROP TABLE", ["ddl_command_start", "ddl_command_end", "sql_drop"])


def _triggers(connection: psycopg.Connection[Any], command: str, events: list[str]) -> list[str]:
    facts = {"command": command, "events": events}
    return [str(name) for (name,) in connection.execute(_TRIGGERS, facts).fetchall()]


def withheld(connection: psycopg.Connection[Any], schema: str, *, drops: Sequence[str] = ()) -> Withheld | None:
    """Whether event triggers refuse this role's new tables in a schema, or give them to a role whose rights it has not;
    or do not let it drop a table in one of the schemas `drops`.

    What a trigger does only a new table shows: one is made where there are such triggers, and not kept.
    """
    drops = drops if _triggers_of_dropped(connection) else ()
    if not drops and not triggers_of_new(connection):
        return None
    # Triggers may leave such names out.
    probe = TableName(schema, f"{PREFIX}{uuid.uuid4().hex}")
    try:
        with connection.transaction(force_rollback=True):
            if connection.execute(_SCHEMA, (schema,)).fetchone() is None:
                connection.execute(f"CREATE SCHEMA {quote_identifier(schema)}".encode())
            connection.execute(f"CREATE TABLE {probe.sql} ()".encode())
            return _given_away(connection, probe) or _kept(connection, probe, drops)
    except psycopg.Error as error:
        return refusal(connection, error)


def _kept(connection: psycopg.Connection[Any], probe: TableName, schemas: Sequence[str]) -> Withheld | None:
    """Whether event triggers keep the table from being dropped in one of these schemas, to which it is moved first."""
    for schema in schemas:
        try:
            with connection.transaction(force_rollback=True):
                if schema != probe.schema:
                    connection.execute(f"ALTER TABLE {probe.sql} SET SCHEMA {quote_identifier(schema)}".encode())
                connection.execute(f"DROP TABLE {TableName(schema, probe.name).sql}".encode())
        except psycopg.Error as error:
            found = refusal_to_drop(connection, error)
            if found is not None:
                return found
    return None


def require_kept(connection: psycopg.Connection[Any], staging: TableName) -> None:
    """Looks at what is staged in the transaction that makes it: nobody could drop it afterwards.

    Raises:
        TippleError: it belongs to a role whose rights this one has not.
    """
    given = _given_away(connection, staging)
    if given is not None:
        raise TippleError(f"rows cannot be staged: {given.why}", hint=given.remedy)


def _given_away(connection: psycopg.Connection[Any], made: TableName) -> Withheld | None:
    owner = connection.execute(_OWNER, (made.sql,)).fetchone()
    if owner is None or owner[1]:
        return None
    return Withheld(
        f"{_told(triggers_of_new(connection))} gives new tables to the role {owner[0]}",
        f"have the trigger leave out the schema {made.schema}",
    )


def refusal(connection: psycopg.Connection[Any], error: psycopg.Error) -> Withheld | None:
    """What to say of a CREATE TABLE that failed where an event trigger has refused it, or None."""
    # Nothing else that such a statement calls is a function, and the server says where in one an error came up.
    triggers = triggers_of_new(connection) if error.diag.context else []
    if not triggers:
        return None
    return Withheld(
        f"{_told(triggers)} refuses new tables: {error.diag.message_primary}",
        "have the trigger let this role make tables",
    )


def refusal_to_drop(connection: psycopg.Connection[Any], error: psycopg.Error) -> Withheld | None:
    """The same of a DROP TABLE."""
    is_of_function = error.diag.context and error.sqlstate and not is_of_circumstances(error.sqlstate)
    triggers = _triggers_of_dropped(connection) if is_of_function else []
    if not triggers:
        return None
    return Withheld(
        f"{_told(triggers)} refuses to drop tables: {error.diag.message_primary}",
        f"have the trigger let this role drop tables whose names are {PREFIX} and 32 hexadecimal digits",
    )


def _told(triggers: Sequence[str]) -> str:
    first, *others = triggers or ["of somebody"]
    return f"one of the event triggers {', '.join([first, *others])}" if others else f"the event trigger {first}"
