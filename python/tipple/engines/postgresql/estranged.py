"""Tables that were made like others, to take their places, and have become something else meanwhile.

Event triggers do that: a site may give row security, an owner or a trigger to every new table. COPY makes no table, so
those that are loaded would not have got it; nor must they get it by way of what takes their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from tipple.plan.url import TableName

__all__ = ["of", "of_all"]

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
