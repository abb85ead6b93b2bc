"""A table that is not there: which other may be meant, where it would be made, and whether this role may make it."""

from __future__ import annotations

from typing import Any

import psycopg

from tipple.engines.postgresql.connection import current_role
from tipple.engines.postgresql.place import estranged, obstacles
from tipple.errors import UsageError
from tipple.plan.url import TableName, quote_identifier

__all__ = ["in_other_case", "place_of"]

# A name that is too long is cut where it becomes a `name`, after whole characters of the database's encoding.
_PLACE = """
SELECT n.nspname, has_schema_privilege(n.oid, 'CREATE'), %s::text::name FROM pg_namespace n
WHERE n.nspname = coalesce(%s::text::name, current_schema())
"""

_IN_OTHER_CASE = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f') AND lower(c.relname) = lower(%(name)s)
  AND CASE WHEN %(schema)s::text IS NULL THEN pg_table_is_visible(c.oid) ELSE lower(n.nspname) = lower(%(schema)s) END
ORDER BY 1, 2 LIMIT 1
"""


def in_other_case(connection: psycopg.Connection[Any], table: TableName) -> TableName | None:
    """A table whose name is this one but for upper and lower case."""
    found = connection.execute(_IN_OTHER_CASE, {"name": table.name, "schema": table.schema}).fetchone()
    return None if found is None else TableName(*found)


def place_of(connection: psycopg.Connection[Any], table: TableName) -> TableName:
    """The name as the server would keep it, with the schema in which an unqualified table would be created.

    Raises:
        UsageError: there is no such schema, or the role may not create tables in it, or cannot use them.
    """
    found = connection.execute(_PLACE, (table.name, table.schema)).fetchone()
    if found is None and table.schema is None:
        raise UsageError(
            f"there is no schema to make the table {table.name} in: search_path names none that is there",
            hint=f"name the schema, as in --table {TableName('public', table.name)}; or set search_path",
        )
    if found is None:
        raise UsageError(
            f"there is no schema {table.schema}", hint=f"CREATE SCHEMA {quote_identifier(table.schema or '')};"
        )
    if not found[1]:
        role, schema = current_role(connection), quote_identifier(found[0])
        raise UsageError(
            f"the role {role} may not create tables in the schema {schema}",
            hint=f"as its owner: GRANT CREATE ON SCHEMA {schema} TO {role};",
        )
    made = TableName(found[0], found[2])
    withheld = estranged.withheld(connection, obstacles.place_of_staged(connection, made))
    if withheld is not None:
        raise UsageError(f"the table {made} cannot be made: {withheld.why}", hint=withheld.remedy)
    return made
