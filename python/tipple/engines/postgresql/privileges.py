"""Rights: which a load into a table needs, and those on tables that were made in another schema, under another name.

The server gives a new table the default privileges of the schema that it is made in (ALTER DEFAULT PRIVILEGES). What is
filled unseen is made in Tipple's own, so it would come with rights that nobody gave, or without those it should have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from tipple.engines.postgresql.connection import current_role
from tipple.engines.server_errors import ROW_SECURITY_HINT
from tipple.errors import UsageError
from tipple.plan.url import TableName, quote_identifier

__all__ = [
    "of_references",
    "require",
    "require_copy",
    "require_sequences",
    "settle",
    "subject_to_row_security",
    "unsettled",
]

# By grantee: who has rights on a table or a sequence that are not the owner's own.
_HELD = """
SELECT DISTINCT coalesce(r.rolname, ''), a.grantee = 0
FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE c.oid = to_regclass(%s) AND a.grantee <> c.relowner
"""

# What the owner's default privileges give one of that schema.
_DEFAULTS = """
SELECT DISTINCT coalesce(r.rolname, ''), a.grantee = 0, a.privilege_type, a.is_grantable
FROM pg_class c
JOIN pg_default_acl d ON d.defaclrole = c.relowner
    AND d.defaclobjtype = CASE c.relkind WHEN 'S' THEN 'S'::"char" ELSE 'r' END
    AND d.defaclnamespace IN (0, c.relnamespace)
CROSS JOIN LATERAL aclexplode(d.defaclacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE c.oid = to_regclass(%s) AND a.grantee <> c.relowner
"""

# Those of serial and identity columns.
_SEQUENCES = """
SELECT format('%%I.%%I', n.nspname, s.relname)
FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S' JOIN pg_namespace n ON n.oid = s.relnamespace
WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass(%s)
    AND d.deptype IN ('a', 'i')
"""

# And whether there is such a right on some column. There is none to DELETE.
_MISSING = """
SELECT wanted, CASE WHEN wanted <> 'DELETE' THEN has_any_column_privilege(to_regclass(%(table)s), wanted) END
FROM unnest(%(rights)s::text[]) AS wanted WHERE NOT has_table_privilege(to_regclass(%(table)s), wanted)
"""


def require(connection: psycopg.Connection[Any], table: TableName, rights: Sequence[str]) -> None:
    """Looks whether the role may do with the table what a load is going to.

    Raises:
        UsageError: a right is missing; says what to grant.
    """
    # Rights on columns do not do: the table is locked.
    missing = connection.execute(_MISSING, {"rights": list(rights), "table": table.sql}).fetchall()
    if missing:
        role = current_role(connection)
        of_columns = "; rights on columns alone do not do" if any(has_some for _, has_some in missing) else ""
        raise UsageError(
            f"the role {role} has not the right to {', '.join(right for right, _ in missing)} on {table}{of_columns}",
            hint=f"as its owner: GRANT {', '.join(rights)} ON {table.sql} TO {role};",
        )


# By a column's default, which counts where the column is not loaded.
_DRAWN = """
SELECT DISTINCT s.oid::regclass::text FROM pg_attrdef d
JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
JOIN pg_depend p ON p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid AND p.refclassid = 'pg_class'::regclass
JOIN pg_class s ON s.oid = p.refobjid AND s.relkind = 'S'
WHERE d.adrelid = to_regclass(%s) AND a.attname <> ALL (%s)
    AND CASE WHEN s.relkind = 'S' THEN NOT has_sequence_privilege(s.oid, 'USAGE, UPDATE') END
ORDER BY 1
"""


def require_sequences(connection: psycopg.Connection[Any], table: TableName, loaded: Sequence[str]) -> None:
    """Looks whether the role may draw numbers for the columns that are not `loaded`, as their defaults do.

    Raises:
        UsageError: it may not; says what to grant.
    """
    missing = [name for (name,) in connection.execute(_DRAWN, (table.sql, list(loaded))).fetchall()]
    if missing:
        role, names = current_role(connection), ", ".join(missing)
        raise UsageError(
            f"the role {role} may not draw numbers from {names}, as defaults of columns of {table} do",
            hint=f"as its owner: GRANT USAGE ON SEQUENCE {names} TO {role}; or load these columns too",
        )


_OF_REFERENCES = """
SELECT conname, format('%%I.%%I', nspname, relname), quote_ident(nspname), has_schema_privilege(n.oid, 'USAGE'), lacks
FROM pg_constraint JOIN pg_class o ON o.oid = confrelid JOIN pg_namespace n ON n.oid = relnamespace
CROSS JOIN concat_ws(', ', CASE WHEN NOT has_table_privilege(o.oid, 'SELECT') THEN 'SELECT' END, CASE WHEN EXISTS (
    SELECT FROM unnest(confkey) k (n) WHERE NOT has_column_privilege(o.oid, k.n, 'REFERENCES')) THEN 'REFERENCES' END
) AS r (lacks)
WHERE contype = 'f' AND conrelid = to_regclass(%s) AND conparentid = 0
    AND (lacks <> '' OR NOT has_schema_privilege(n.oid, 'USAGE'))
ORDER BY pg_constraint.oid
"""


def of_references(connection: psycopg.Connection[Any], table: TableName) -> list[str]:
    """Remarks on foreign keys that judge each record as it is stored for want of a right; with what to grant."""
    found = connection.execute(_OF_REFERENCES, (table.sql,)).fetchall()
    role = current_role(connection) if found else ""
    remarks = []
    for key, other, schema, has_schema, lacks in found:
        grants = [] if has_schema else [f"GRANT USAGE ON SCHEMA {schema} TO {role};"]
        grants += [f"GRANT {lacks} ON {other} TO {role};"] if lacks else []
        remarks.append(
            f"the foreign key {key} judges each record as it is stored, which is slow, for want of rights on {other}; "
            f"with them all rows are judged at once, unless something else is in the way: {' '.join(grants)}"
        )
    return remarks


def subject_to_row_security(connection: psycopg.Connection[Any], table: TableName) -> str | None:
    """What keeps COPY from a table for this role, or None."""
    found = connection.execute("SELECT row_security_active(to_regclass(%s)::oid)", (table.sql,)).fetchone()
    return "its row security is for this role too, and COPY does not work with it" if found and found[0] else None


def require_copy(connection: psycopg.Connection[Any], table: TableName) -> None:
    """Looks whether the role may COPY into the table.

    Raises:
        UsageError: row security is for it too.
    """
    why = subject_to_row_security(connection, table)
    if why is not None:
        raise UsageError(f"no rows can be stored in {table}: {why}", hint=ROW_SECURITY_HINT)


_UNSETTLED = """
SELECT name FROM unnest(%(tables)s::text[]) AS name JOIN pg_class c ON c.oid = to_regclass(name)
WHERE relacl IS NOT NULL OR (%(is_new)s
    AND EXISTS (SELECT FROM pg_default_acl d WHERE d.defaclrole = c.relowner AND d.defaclobjtype = 'r'))
"""


def unsettled(connection: psycopg.Connection[Any], tables: Sequence[TableName], *, is_new: bool) -> set[TableName]:
    """Those whose rights `settle` may have to change; asked for many tables, which mostly are none."""
    by_name = {table.sql: table for table in tables}
    rows = connection.execute(_UNSETTLED, {"tables": list(by_name), "is_new": is_new}).fetchall()
    return {by_name[name] for (name,) in rows}


def settle(connection: psycopg.Connection[Any], table: TableName, *, is_new: bool) -> None:
    """Gives a table that has its final name and schema the rights that it is to have: those of a table that was made
    there where it `is_new`, else its owner's alone, as the one had whose place it takes. So for its sequences."""
    _settle(connection, "TABLE", table.sql, is_new=is_new)
    for (sequence,) in connection.execute(_SEQUENCES, (table.sql,)).fetchall() if is_new else ():
        _settle(connection, "SEQUENCE", sequence, is_new=True)


def _settle(connection: psycopg.Connection[Any], kind: str, name: str, *, is_new: bool) -> None:
    held = connection.execute(_HELD, (name,)).fetchall()
    given = connection.execute(_DEFAULTS, (name,)).fetchall() if is_new else []
    statements = [f"REVOKE ALL ON {kind} {name} FROM {_grantee(role, everybody)}" for role, everybody in held]
    statements += [
        f"GRANT {right} ON {kind} {name} TO {_grantee(role, everybody)}{' WITH GRANT OPTION' if passed_on else ''}"
        for role, everybody, right, passed_on in given
    ]
    for statement in statements:
        connection.execute(statement.encode())


def _grantee(name: str, everybody: bool) -> str:
    return "PUBLIC" if everybody else quote_identifier(name)
