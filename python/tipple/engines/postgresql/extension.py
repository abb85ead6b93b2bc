"""The server extension `tipple_direct`: whether this role can use it in this database, and what helps if not."""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg

from tipple.engines.postgresql import connection as connections
from tipple.plan.url import quote_identifier

__all__ = ["EXTENSION", "Obstacle", "can_read_ahead", "numbers", "obstacle", "version"]

EXTENSION = "tipple_direct"
"""Its name, that of its schema, and that of the role whose members may use it."""
OLDEST_VERSION = (1, 3)
"""That this version of Tipple can work with."""

# Without reading ahead, which only saves time, a load goes on.
_FACTS = f"""
SELECT getdatabaseencoding(), extversion, nspname, has_schema_privilege(n.oid, 'USAGE'),
       (SELECT string_agg(DISTINCT proname, ', ') FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid
        WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
            AND d.deptype = 'e' AND proname <> 'read_ahead' AND NOT has_function_privilege(p.oid, 'EXECUTE')),
       coalesce(pg_has_role(to_regrole('{EXTENSION}')::oid, 'MEMBER'), false),
       coalesce(pg_has_role(to_regrole('{EXTENSION}')::oid, 'USAGE'), false)
FROM (SELECT) AS always LEFT JOIN pg_extension e ON extname = '{EXTENSION}'
LEFT JOIN pg_namespace n ON n.oid = extnamespace
"""
_VERSION = f"SELECT extversion FROM pg_extension WHERE extname = '{EXTENSION}'"
# Without the right to its schema, no name of a function in it may be looked up.
_CAN_READ_AHEAD = f"""
SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
WHERE nspname = '{EXTENSION}' AND proname = 'read_ahead' AND oidvectortypes(proargtypes) = 'regclass, integer'
    AND has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')
"""


class Obstacle(msgspec.Struct, frozen=True):
    """What keeps this role from using the extension."""

    why: str
    remedy: str | None = None
    """The statement that helps, for a superuser; None where none does, or where that depends on the machine."""

    def __str__(self) -> str:
        return self.why if self.remedy is None else f"{self.why} ({self.remedy})"


def obstacle(connection: psycopg.Connection[Any]) -> Obstacle | None:
    """Why this role cannot use the extension in this database; None where it can."""
    found = connection.execute(_FACTS).fetchone()
    encoding, installed, schema, *rights = found or ("", None, "")
    if encoding not in ("UTF8", "SQL_ASCII"):
        return Obstacle(
            f"the database's encoding is {encoding}, and pages hold texts as the sources have them, in UTF-8",
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
        )
    if installed is None:
        return Obstacle(f"the extension {EXTENSION} is not installed in this database")
    if schema != EXTENSION:
        return Obstacle(
            f"the extension {EXTENSION} is in the schema {schema}",
            f"ALTER SCHEMA {quote_identifier(schema)} RENAME TO {EXTENSION}",
        )
    return _of_rights(connection, *rights) or _of_version(connection, str(installed))


def version(connection: psycopg.Connection[Any]) -> tuple[int, ...]:
    """The version in this database; none has no numbers."""
    found = connection.execute(_VERSION).fetchone()
    return () if found is None else numbers(str(found[0]))


def numbers(text: str) -> tuple[int, ...]:
    """Those of a version, to be compared."""
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


def can_read_ahead(connection: psycopg.Connection[Any]) -> bool:
    """Whether it has that function, and this role may call it."""
    return connection.execute(_CAN_READ_AHEAD).fetchone() is not None


def _of_rights(
    connection: psycopg.Connection[Any], has_schema: bool, denied: str | None, is_member: bool, inherits: bool
) -> Obstacle | None:
    if has_schema and denied is None:
        return None
    role = connections.current_role(connection)
    if not is_member:
        return Obstacle(f"this role is not a member of {EXTENSION}", f"GRANT {EXTENSION} TO {role}")
    if not inherits:
        is_of_membership = connection.info.server_version >= 160000
        return Obstacle(
            f"this role does not inherit the rights of {EXTENSION}",
            f"GRANT {EXTENSION} TO {role} WITH INHERIT TRUE" if is_of_membership else f"ALTER ROLE {role} INHERIT",
        )
    if not has_schema:
        return Obstacle(
            f"the role {EXTENSION} may not use the schema {EXTENSION}",
            f"GRANT USAGE ON SCHEMA {EXTENSION} TO {EXTENSION}",
        )
    return Obstacle(
        f"the role {EXTENSION} may not execute {denied}",
        f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {EXTENSION} TO {EXTENSION}",
    )


def _of_version(connection: psycopg.Connection[Any], installed: str) -> Obstacle | None:
    try:
        with connection.transaction():
            loaded = connection.execute(f"SELECT {EXTENSION}.version()".encode()).fetchone()
    except psycopg.Error as error:
        if connections.is_lost(error):
            raise
        return Obstacle(f"the extension {EXTENSION} does not work ({error.diag.message_primary or error})")
    library = str(loaded[0]) if loaded is not None else "none"
    if installed != library:
        return Obstacle(
            f"the extension {EXTENSION} is of the version {installed} in this database, and its library of {library}",
            f"ALTER EXTENSION {EXTENSION} UPDATE",
        )
    if numbers(library) < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        return Obstacle(
            f"the extension {EXTENSION} is of the version {installed}, not of {oldest} or later (install a newer one)"
        )
    return None
