"""The sequences of a table's serial and identity columns, given to the one that takes its place: numbers go on.

A serial column's can be given away. An identity column's cannot: what is staged draws numbers from it by a default as
long as it is filled, and when it takes the place it gets one that is like it, and goes on where that was. Partitions
have no sequences: theirs are those of their table, which stays, so they only lose that default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from tipple.engines.base import TableColumn
from tipple.plan.url import TableName

__all__ = [
    "NUMBERING",
    "OBSTACLES",
    "OWN_IDENTITIES",
    "UNUSABLE",
    "Changed",
    "defaults_lent",
    "is_numbered_anew",
    "lend",
    "numbering",
    "obstacle",
    "take",
]

LOCK_MILLISECONDS = 600
"""How long a sequence is waited for: less than the server takes to call that a deadlock with whoever waits for its
table."""

_OWNED = """
    pg_depend o JOIN pg_class s ON s.oid = o.objid AND s.relkind = 'S' AND o.classid = 'pg_class'::regclass
        AND o.refclassid = 'pg_class'::regclass AND o.refobjsubid > 0 AND o.deptype IN ('a', 'i')
"""
"""Sequences `s` of serial and identity columns, by what they belong to, `o.refobjid`."""
_COLUMNS = f"{_OWNED} JOIN pg_attribute a ON a.attrelid = o.refobjid AND a.attnum = o.refobjsubid"
_IDENTITIES = f"{_COLUMNS} AND a.attidentity <> '' AND o.deptype = 'i'"
"""Identity columns `a` with their sequences `s`; since version 17 those of partitions, too, have none of their own."""

# What is restarted has another file: numbers that were drawn before may come again.
NUMBERING = f"""
SELECT format('sequence %%s %%s', pg_relation_filenode(s.oid), q::text)
FROM {_COLUMNS} JOIN pg_sequence q ON q.seqrelid = s.oid
WHERE a.attrelid = to_regclass(%(table)s) AND a.attname <> ALL (%(given)s::text[])
"""
"""What gives a table's rows their numbers, but for columns that are `given`."""

_COUNTING = f"""
SELECT quote_ident(a.attname), format('%%I.%%I', n.nspname, s.relname), q.seqincrement
FROM {_COLUMNS} JOIN pg_namespace n ON n.oid = s.relnamespace JOIN pg_sequence q ON q.seqrelid = s.oid
WHERE a.attrelid = to_regclass(%s) AND a.attname <> ALL (%s::text[]) AND NOT q.seqcycle
"""

_GIVEN = f"""
SELECT format('ALTER SEQUENCE %%I.%%I OWNED BY %%s.%%I', n.nspname, s.relname, %(own)s::text, a.attname)
FROM {_COLUMNS} JOIN pg_namespace n ON n.oid = s.relnamespace
WHERE a.attrelid = to_regclass(%(other)s) AND o.deptype = 'a' ORDER BY s.oid
"""
_LENT = f"""
SELECT format('ALTER TABLE %%s ALTER %%I SET DEFAULT nextval(%%L)', %(own)s::text, a.attname,
              format('%%I.%%I', n.nspname, s.relname))
FROM {_IDENTITIES} JOIN pg_namespace n ON n.oid = s.relnamespace
WHERE a.attrelid = to_regclass(%(other)s) ORDER BY a.attnum
"""
_DEFAULTS_LENT = f"SELECT a.attname FROM {_IDENTITIES} WHERE a.attrelid = to_regclass(%s) ORDER BY a.attnum"
_MADE = f"""
SELECT format('%%I.%%I', n.nspname, s.relname), quote_ident(a.attname), format(
    'ADD GENERATED %%s AS IDENTITY (SEQUENCE NAME %%I.%%I START %%s INCREMENT %%s MINVALUE %%s MAXVALUE %%s '
    'CACHE %%s %%s)', CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END, n.nspname, s.relname,
    q.seqstart, q.seqincrement, q.seqmin, q.seqmax, q.seqcache, CASE WHEN q.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END),
    q.seqcache, obj_description(s.oid, 'pg_class')
FROM {_IDENTITIES} JOIN pg_namespace n ON n.oid = s.relnamespace JOIN pg_sequence q ON q.seqrelid = s.oid
WHERE a.attrelid = to_regclass(%s) ORDER BY a.attnum
"""
_ROLE = "CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END"
_RIGHTS = f"""
SELECT format('GRANT %%s ON SEQUENCE %%s TO %%s%%s', string_agg(privilege_type, ', '), %(sequence)s::text, {_ROLE},
              CASE WHEN is_grantable AND grantee <> relowner THEN ' WITH GRANT OPTION' END)
FROM pg_class CROSS JOIN LATERAL aclexplode(coalesce(relacl, acldefault('S', relowner)))
WHERE oid = to_regclass(%(sequence)s) GROUP BY grantee, is_grantable, relowner
"""
# What default privileges give to every new one.
_NEW_RIGHTS = f"""
SELECT DISTINCT format('REVOKE ALL ON SEQUENCE %%s FROM %%s', %(sequence)s::text, {_ROLE})
FROM pg_class CROSS JOIN LATERAL aclexplode(relacl) WHERE oid = to_regclass(%(sequence)s)
"""

OWN_IDENTITIES = f"""
SELECT a.attrelid, format('its column %%s is an identity column', a.attname) AS why FROM {_IDENTITIES}
"""
"""Identity columns with sequences of their own, by table."""
UNUSABLE = f"""
SELECT a.attrelid, format('this role may not use the sequence of its column %%s', a.attname) AS why
FROM {_IDENTITIES} WHERE NOT (has_sequence_privilege(s.oid, 'USAGE') AND has_sequence_privilege(s.oid, 'SELECT'))
"""
"""Identity columns that no other table can draw numbers for, by table."""
OBSTACLES = f"""
SELECT a.attrelid, format('the sequence of its column %%s has grants by %%s, who does not own it', a.attname,
                          pg_get_userbyid(grantor))
FROM {_IDENTITIES} CROSS JOIN LATERAL aclexplode(s.relacl)
WHERE a.attrelid = ANY (%(oids)s::oid[]) AND grantor <> s.relowner
UNION ALL SELECT attrelid, why FROM ({UNUSABLE}) n WHERE attrelid = ANY (%(oids)s::oid[])
UNION ALL SELECT a.attrelid, format('the sequence of its column %%s has another type', a.attname)
FROM {_IDENTITIES} JOIN pg_sequence q ON q.seqrelid = s.oid
WHERE a.attrelid = ANY (%(oids)s::oid[]) AND q.seqtypid <> a.atttypid
UNION ALL SELECT a.attrelid, format('the sequence of its column %%s has a security label', a.attname)
FROM {_IDENTITIES} JOIN pg_seclabel l ON l.classoid = 'pg_class'::regclass AND l.objoid = s.oid
WHERE a.attrelid = ANY (%(oids)s::oid[])
UNION ALL SELECT a.attrelid, format('other objects depend on the sequence of its column %%s (%%s)', a.attname,
                                    pg_describe_object(d.classid, d.objid, d.objsubid))
FROM {_IDENTITIES} JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = s.oid
WHERE a.attrelid = ANY (%(oids)s::oid[]) AND d.deptype IN ('n', 'a', 'x') AND NOT EXISTS (
    -- Staged for the table itself, this time or another: see `obstacle`.
    SELECT FROM pg_attrdef f JOIN pg_class c ON c.oid = f.adrelid
    WHERE d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid AND c.relname ~ '^stage_[0-9a-f]{{32}}')
"""
"""Why a table's identity columns keep another one from its place, by table (of `%(oids)s`)."""
_LENT_TO_OTHERS = f"""
SELECT a.attname FROM {_IDENTITIES}
JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = s.oid
JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
WHERE a.attrelid = to_regclass(%s) AND f.adrelid <> to_regclass(%s) LIMIT 1
"""


class Changed(psycopg.errors.LockNotAvailable):
    """A sequence became another one while its lock was waited for: publishing must be begun again."""


def numbering(connection: psycopg.Connection[Any], table: TableName, given: Sequence[TableColumn]) -> str:
    """What gives rows numbers in serial and identity columns, but for those that are `given`; empty if nothing does."""
    rows = connection.execute(
        NUMBERING.encode(), {"table": table.sql, "given": [column.name for column in given]}
    ).fetchall()
    return "\n".join(sorted(str(text) for (text,) in rows))


def is_numbered_anew(
    connection: psycopg.Connection[Any],
    plan: Mapping[str, Any],
    table: TableName,
    given: Sequence[TableColumn],
    staged: Sequence[TableName] = (),
) -> bool:
    """Whether staged rows have numbers of sequences that may give them once more, or are gone.

    A job's `plan` says which ones they were, but for columns that are `given`; `staged` are tables that are looked at.
    """
    if "numbers" not in plan:
        return False
    changed = numbering(connection, table, given) != plan["numbers"]
    return changed or (bool(staged) and _are_set_back(connection, table, given, staged))


def _are_set_back(
    connection: psycopg.Connection[Any], table: TableName, given: Sequence[TableColumn], staged: Sequence[TableName]
) -> bool:
    """Whether rows that are staged have numbers which a sequence is yet to give: `setval` leaves no other trace, and is
    what people call when a load has died."""
    columns = [column.name for column in given]
    for column, sequence, step in connection.execute(_COUNTING.encode(), (table.sql, columns)).fetchall():
        furthest = "max" if step > 0 else "min"
        rows = " UNION ALL ".join(f"SELECT {furthest}({column}) AS number FROM {name.sql}" for name in staged)
        # As far as numbers were given: one that is yet to be is not called.
        found = connection.execute(
            f"SELECT ({furthest}(number) - last_value) * sign({step}) + (NOT is_called)::integer > 0 "
            f"FROM ({rows}) staged CROSS JOIN {sequence} GROUP BY last_value, is_called".encode()
        ).fetchone()
        if found is not None and found[0]:
            return True
    return False


def lend(connection: psycopg.Connection[Any], staging: TableName, table: TableName) -> None:
    """Has what is staged, and was made like the table but for its identity columns, draw numbers where these do."""
    for (statement,) in connection.execute(_LENT, {"own": staging.sql, "other": table.sql}).fetchall():
        connection.execute(str(statement).encode())


def defaults_lent(connection: psycopg.Connection[Any], table: TableName) -> list[str]:
    """The columns of which what is staged has had defaults lent to it, and its partitions too."""
    return [str(name) for (name,) in connection.execute(_DEFAULTS_LENT.encode(), (table.sql,)).fetchall()]


def obstacle(connection: psycopg.Connection[Any], staging: TableName, table: TableName) -> str | None:
    """Why what is staged cannot take the numbers along now, or None: another load's rows draw some too."""
    found = connection.execute(_LENT_TO_OTHERS, (table.sql, staging.sql)).fetchone()
    return None if found is None else f"another load draws numbers for its column {found[0]}"


def take(connection: psycopg.Connection[Any], staging: TableName, table: TableName) -> None:
    """Gives the sequences of a table to the one that takes its place, in the same schema; call it in the transaction
    that publishes, which has locked the table.

    Raises:
        psycopg.errors.LockNotAvailable: somebody has drawn a number from one, in a transaction that is open; or has
            changed one meanwhile (`Changed`).
    """
    given = connection.execute(_GIVEN, {"own": staging.sql, "other": table.sql}).fetchall()
    made = connection.execute(_MADE, (table.sql,)).fetchall()
    if not given and not made:
        return
    with _briefly(connection):
        for (statement,) in given:
            connection.execute(str(statement).encode())
        for sequence, *_, cache, _ in made:
            # Says what it is, and locks it: nobody draws a number that the new one would give once more.
            with _unless_renamed():
                connection.execute(f"ALTER SEQUENCE {sequence} CACHE {cache}".encode())
        if connection.execute(_MADE, (table.sql,)).fetchall() != made:
            raise Changed("a sequence was changed meanwhile")
        for sequence, column, adding, _, remark in made:
            ((last, is_called),) = connection.execute(
                f"SELECT last_value, is_called FROM {sequence}".encode()
            ).fetchall()
            rights = _statements(connection, _RIGHTS, sequence)
            connection.execute(f"ALTER TABLE {staging.sql} ALTER {column} DROP DEFAULT".encode())
            connection.execute(f"ALTER TABLE {table.sql} ALTER {column} DROP IDENTITY".encode())
            connection.execute(f"ALTER TABLE {staging.sql} ALTER {column} {adding}".encode())
            connection.execute("SELECT setval(%s::regclass, %s, %s)", (sequence, last, is_called))
            if remark is not None:
                said = psycopg.sql.Literal(remark).as_string(connection)
                connection.execute(f"COMMENT ON SEQUENCE {sequence} IS {said}".encode())
            if rights != _statements(connection, _RIGHTS, sequence):
                for statement in [*_statements(connection, _NEW_RIGHTS, sequence), *rights]:
                    connection.execute(statement.encode())


def _statements(connection: psycopg.Connection[Any], query: str, sequence: str) -> list[str]:
    return sorted(str(statement) for (statement,) in connection.execute(query.encode(), {"sequence": sequence}))


@contextmanager
def _unless_renamed() -> Iterator[None]:
    try:
        yield
    except psycopg.errors.UndefinedTable as error:
        raise Changed(str(error)) from None


@contextmanager
def _briefly(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Has locks be waited for as long as one on a sequence may be."""
    before = connection.execute("SELECT current_setting('lock_timeout')").fetchone()
    connection.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}".encode())
    yield
    connection.execute("SELECT set_config('lock_timeout', %s, true)", before)
