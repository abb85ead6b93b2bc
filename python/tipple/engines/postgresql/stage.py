"""Staging tables: made like the table they will become, filled unseen, and put in its place in one transaction.

Where a staging table may take the place of an existing one, `obstacles` says.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from tipple.engines.postgresql import privileges
from tipple.engines.postgresql.connection import pasted
from tipple.engines.postgresql.place import belongings, sequences, set_aside
from tipple.errors import UsageError
from tipple.plan.quotes import QUOTES, in_quotes
from tipple.plan.url import LONGEST_NAME_BYTES, TableName, quote_identifier

PREFIX = "stage_"
"""With which the names begin of all that is staged, and of its indexes and constraints."""
_STAGED = in_quotes("stage_[0-9a-f]{32}(?:_[0-9a-f]+)*")
_BARE = re.compile(
    rf"(?<![0-9A-Za-z_.{QUOTES}])stage_[0-9a-f]{{32}}(?:_[0-9]+)*(?![0-9A-Za-z_{QUOTES}]|\.[0-9A-Za-z_])"
)
"""Where the server was in a COPY, and what a role may not use, it says with the bare name."""
_OF_STAGED = in_quotes(rf"stage_[0-9a-f]{{32}}(?:_[0-9]+)?(_[^{QUOTES}]+?)")


def in_public(text: str, table: TableName, names: Mapping[str, str] | None = None) -> str:
    """What the server says, with the table's name where it speaks of what is staged for it.

    Constraints that the server has named after that are named after the table, or as `names` has it for what stands
    behind the table's name.
    """
    known = names or {}
    text = _BARE.sub(lambda _: table.name, _STAGED.sub(lambda _: table.name, text))
    return _OF_STAGED.sub(lambda found: known.get(found[1], table.name + found[1]), text)


def _oid(connection: psycopg.Connection[Any], table: TableName) -> int:
    found = connection.execute("SELECT to_regclass(%s)::oid", (table.sql,)).fetchone()
    return int(found[0]) if found is not None and found[0] is not None else 0


def count(connection: psycopg.Connection[Any], table: TableName) -> int:
    """Its rows."""
    found = connection.execute(f"SELECT count(*) FROM {table.sql}").fetchone()
    return int(found[0]) if found is not None else 0


def has_keys(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether a unique index or an exclusion constraint may refuse rows for the sake of other rows."""
    found = connection.execute(
        "SELECT FROM pg_index WHERE indrelid = %s AND (indisunique OR indisexclusion) LIMIT 1",
        (_oid(connection, table),),
    ).fetchone()
    return found is not None


def reference_to_itself(connection: psycopg.Connection[Any], table: TableName) -> str | None:
    """The name of a foreign key to its own table, or of one of its partitions, that refuses rows; None where there is
    none."""
    found = connection.execute(
        "WITH own AS (SELECT %(oid)s::oid AS oid UNION SELECT relid FROM pg_partition_tree(%(oid)s)) "
        "SELECT conname FROM pg_constraint k WHERE contype = 'f' AND conrelid IN (SELECT oid FROM own) "
        # Before 18 there is no such column.
        "AND confrelid IN (SELECT oid FROM own) AND to_jsonb(k) ->> 'conenforced' IS DISTINCT FROM 'false' "
        "ORDER BY conparentid LIMIT 1",
        {"oid": _oid(connection, table)},
    ).fetchone()
    return None if found is None else str(found[0])


BELOW = """below (oid) AS (
    SELECT to_regclass(%(table)s)::oid
    UNION SELECT inhrelid FROM pg_inherits JOIN below ON inhparent = below.oid
)"""
"""Of a recursive WITH: a table, and all whose rows are its own too, partitions and those that inherit."""


def deferring_references(connection: psycopg.Connection[Any], table: TableName) -> list[str]:
    """A statement that has foreign keys of other tables, as far as they can wait, judge what is replaced at the end."""
    found = connection.execute(
        f"WITH RECURSIVE {BELOW} SELECT string_agg(DISTINCT format('%%I.%%I', nspname, conname), ', ') "
        "FROM pg_constraint c JOIN pg_namespace n ON n.oid = connamespace "
        "WHERE contype = 'f' AND confrelid IN (SELECT oid FROM below) AND conrelid <> confrelid AND condeferrable "
        "AND conparentid = 0",
        {"table": table.sql},
    ).fetchone()
    return [] if found is None or found[0] is None else [f"SET CONSTRAINTS {found[0]} DEFERRED"]


def judge_now(connection: psycopg.Connection[Any], tables: Sequence[TableName]) -> None:
    """Has deferred keys of these judge the rows that have come in: the server alters no table before."""
    found = connection.execute(
        "SELECT DISTINCT format('%%I.%%I', nspname, conname) FROM pg_constraint c "
        "JOIN pg_namespace n ON n.oid = c.connamespace WHERE condeferrable AND conrelid IN ("
        "SELECT to_regclass(name) FROM unnest(%s::text[]) AS name)",
        ([table.sql for table in tables],),
    ).fetchall()
    if found:
        connection.execute(f"SET CONSTRAINTS {', '.join(name for (name,) in found)} IMMEDIATE".encode())


def has_checks(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether a CHECK constraint may refuse rows."""
    found = connection.execute(
        "SELECT FROM pg_constraint WHERE conrelid = %s AND contype = 'c' LIMIT 1", (_oid(connection, table),)
    ).fetchone()
    return found is not None


def is_empty(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether the table has no row that this session sees."""
    return connection.execute(f"SELECT FROM {table.sql} LIMIT 1").fetchone() is None


def is_surely_empty(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """The same, where that can be said in a moment: many dead rows take long to be read, and not everybody may look."""
    try:
        with connection.transaction():
            connection.execute("SET LOCAL statement_timeout TO '2s'")
            return is_empty(connection, table)
    except (psycopg.errors.QueryCanceled, psycopg.errors.InsufficientPrivilege):
        return False


_ASKED_TOGETHER = 100


def having_rows(connection: psycopg.Connection[Any], tables: Sequence[TableName]) -> set[TableName]:
    """Those that have a row that this session sees."""
    found: set[TableName] = set()
    for begin in range(0, len(tables), _ASKED_TOGETHER):
        asked = tables[begin : begin + _ASKED_TOGETHER]
        parts = (f"SELECT {n} WHERE EXISTS (SELECT FROM {table.sql})" for n, table in enumerate(asked))
        found.update(asked[n] for (n,) in connection.execute(" UNION ALL ".join(parts).encode()).fetchall())
    return found


def has_pages(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether the table's file holds anything, be it rows that nobody sees any more."""
    found = connection.execute("SELECT pg_relation_size(%s::regclass) > 0", (table.sql,)).fetchone()
    return found is not None and bool(found[0])


def create_like(
    connection: psycopg.Connection[Any], staging: TableName, table: TableName, *, place: str, bare: bool = False
) -> None:
    """A table with the columns, defaults and checks (`bare`: without checks) of `table`, and no index yet.

    `place` is the clause that lays it there.
    """
    without = " EXCLUDING CONSTRAINTS" if bare else ""
    connection.execute(
        f"CREATE TABLE {staging.sql} (LIKE {table.sql} INCLUDING ALL EXCLUDING INDEXES EXCLUDING COMMENTS "
        f"EXCLUDING IDENTITY{without}) WITH (autovacuum_enabled = false){place}"
    )
    sequences.lend(connection, staging, table)
    given = belongings.give(connection, [(staging, table)])
    for statement in [*given, *belongings.statistics_targets(connection, staging, table)]:
        connection.execute(statement.encode())


def stored_columns(connection: psycopg.Connection[Any], table: TableName) -> str:
    """The columns whose values are copied with a row, quoted, with commas between them: all but generated ones."""
    rows = connection.execute(
        "SELECT attname FROM pg_attribute "
        "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
        (_oid(connection, table),),
    )
    return ", ".join(quote_identifier(name) for (name,) in rows)


def empty(connection: psycopg.Connection[Any], staging: TableName) -> None:
    """Removes all rows of what is staged."""
    names = members(connection, staging, kinds="r")
    if names:
        tables = ", ".join(TableName(staging.schema, name).sql for name in names)
        connection.execute(f"TRUNCATE {tables}".encode())


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
    """Drops the staging table and those that belong to it, as far as they are still there; those that refer to others
    which are read all the time are emptied, and left to `set_aside.drop_all`."""
    # The first one takes its partitions with it.
    for name in members(connection, staging):
        table = TableName(staging.schema, name)
        if not _is_bound(connection, table):
            connection.execute(f"DROP TABLE IF EXISTS {table.sql}")
        elif set_aside.why_kept(connection, table.sql) is not None:
            set_aside.leave(connection, table)


def _is_bound(connection: psycopg.Connection[Any], staging: TableName) -> bool:
    """Whether to drop what is staged locks tables that it refers to by itself."""
    found = connection.execute(
        "SELECT FROM pg_class c WHERE oid = to_regclass(%s) AND relkind = 'r' AND NOT relispartition "
        "AND EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid AND contype = 'f')",
        (staging.sql,),
    ).fetchone()
    return found is not None


def require_own(connection: psycopg.Connection[Any], staging: TableName, whose: str) -> None:
    """Refuses what this role could only begin: to give up a job whose staging table it may not drop.

    Raises:
        UsageError: the table belongs to another role.
    """
    found = connection.execute(
        "SELECT pg_get_userbyid(relowner), pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(%s)",
        (staging.sql,),
    ).fetchone()
    if found is not None and not found[1]:
        raise UsageError(
            f"{whose} belongs to the role {found[0]}",
            hint="that role can go on with it or give it up, and so can a superuser",
        )


# Without a ledger nothing names them. Whoever loads holds an advisory lock, on a table that cannot be told from here.
_UNLISTED = """
SELECT format('%%I.%%I', n.nspname, c.relname), EXISTS (
    SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND d.datname = current_database() AND l.pid <> pg_backend_pid())
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname <> 'tipple' AND c.relkind IN ('r', 'p') AND pg_has_role(c.relowner, 'USAGE')
    AND c.relname ~ %(staged)s AND NOT EXISTS (
        SELECT FROM pg_inherits JOIN pg_class p ON p.oid = inhparent
        WHERE inhrelid = c.oid AND p.relname !~ %(staged)s)
ORDER BY length(c.relname), c.relname
"""


def drop_unlisted(connection: psycopg.Connection[Any]) -> list[str]:
    """Drops what loads without a ledger have left of their staging tables; says which, and what is kept."""
    done = []
    found = connection.execute(_UNLISTED, {"staged": f"^{PREFIX}[0-9a-f]{{32}}(_[0-9]+)?$"}).fetchall()
    for name, may_be_in_use in found:
        if may_be_in_use:
            done.append(f"kept the staging table {name}: another session holds an advisory lock, and may be loading")
            continue
        done.append(dropped(connection, name))
    return done


def dropped(connection: psycopg.Connection[Any], name: str) -> str:
    """Drops a staging table, by its quoted name, if that can be now; says what became of it."""
    why = set_aside.why_kept(connection, name)
    return f"dropped the staging table {name}" if why is None else f"kept the staging table {name}: {why}"


def swap(
    connection: psycopg.Connection[Any],
    staging: TableName,
    table: TableName,
    *,
    exists: bool,
    renames: Sequence[tuple[str, str]] = (),
    keeps_indexes: bool = True,
) -> None:
    """Puts the staging table in the place of `table`, its indexes with new names; call it in a transaction.

    `keeps_indexes`: whether it has the indexes that the table has.
    """
    belonging: list[str] = []
    if exists:
        belonging = belongings.rest(connection, [(staging, table)], keeps_indexes=keeps_indexes)[table]
        belonging += belongings.statistics(connection, staging, table)
    connection.execute(f"ALTER TABLE {staging.sql} RESET (autovacuum_enabled)")
    if staging.schema != table.schema and table.schema is not None:
        connection.execute(f"ALTER TABLE {staging.sql} SET SCHEMA {quote_identifier(table.schema)}")
    moved = TableName(table.schema, staging.name)
    if exists:
        sequences.take(connection, moved, table)
        if set_aside.refers_to_others(connection, table):
            set_aside.put(connection, table, staging)
        else:
            connection.execute(f"DROP TABLE {table.sql}")
    for own, name in renames:
        index = TableName(table.schema, own)
        connection.execute(f"ALTER INDEX {index.sql} RENAME TO {quote_identifier(name)}")
    connection.execute(f"ALTER TABLE {moved.sql} RENAME TO {quote_identifier(table.name)}")
    rename_constraints(connection, table, staging)
    rename_sequences(connection, table, staging)
    privileges.settle(connection, table, is_new=not exists)
    for statement in belonging:
        connection.execute(statement.encode())


_AUTOVACUUM = re.compile(r"(?<![.\w])autovacuum_enabled\b(?:\s*=\s*'?(\w+))?", re.IGNORECASE)


def give_autovacuum(connection: psycopg.Connection[Any], table: TableName, options_text: str) -> None:
    """Gives a new table the `autovacuum_enabled` of its definition, which has another one while it is staged.

    `options_text` is what stands behind the columns of its CREATE TABLE.
    """
    given = _AUTOVACUUM.search(options_text)
    if given is not None:
        connection.execute(f"ALTER TABLE {table.sql} SET (autovacuum_enabled = '{given[1] or 'true'}')")


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
    found = connection.execute(_NAMED_CONSTRAINTS, (table.sql, staging.name[:_SHORTENED], list(kinds))).fetchall()
    _rename_constraints(connection, table, found, like or table)


def with_named_constraints(
    connection: psycopg.Connection[Any], tables: Sequence[TableName], staging: TableName, kinds: str
) -> set[TableName]:
    """Those of which `rename_constraints` would rename any."""
    by_name = {table.sql: table for table in tables}
    rows = connection.execute(
        "SELECT DISTINCT name FROM unnest(%s::text[]) AS name JOIN pg_constraint ON conrelid = to_regclass(name) "
        "WHERE starts_with(conname, %s) AND contype::text = ANY (%s)",
        (list(by_name), staging.name[:_SHORTENED], list(kinds)),
    ).fetchall()
    return {by_name[name] for (name,) in rows}


_NOT_NULL_NAMES = """
SELECT pair.own, hidden.conname, shown.conname
FROM unnest(%s::text[], %s::text[]) AS pair (own, other)
JOIN pg_constraint hidden ON hidden.conrelid = to_regclass(pair.own) AND hidden.contype = 'n'
JOIN pg_attribute a ON a.attrelid = hidden.conrelid AND a.attnum = hidden.conkey[1]
JOIN pg_attribute b ON b.attrelid = to_regclass(pair.other) AND b.attname = a.attname
JOIN pg_constraint shown ON shown.conrelid = b.attrelid AND shown.contype = 'n' AND shown.conkey[1] = b.attnum
WHERE hidden.conname <> shown.conname AND NOT EXISTS (
    SELECT FROM pg_constraint other WHERE other.conrelid = hidden.conrelid AND other.conname = shown.conname)
"""


def take_not_null_names(connection: psycopg.Connection[Any], pairs: Sequence[tuple[TableName, TableName]]) -> None:
    """Gives NOT NULL constraints, which have names from 18 on, those that they have in the table beside each."""
    asked = ([own.sql for own, _ in pairs], [other.sql for _, other in pairs])
    for own, name, final in connection.execute(_NOT_NULL_NAMES, asked).fetchall():
        connection.execute(
            f"ALTER TABLE {own} RENAME CONSTRAINT {quote_identifier(name)} TO {quote_identifier(final)}".encode()
        )


def name_last_check(connection: psycopg.Connection[Any], table: TableName) -> None:
    """Gives the CHECK that a table got last the name that the server would have made."""
    found = connection.execute(_NAMED_CONSTRAINTS, (table.sql, "", ["c"])).fetchall()
    _rename_constraints(connection, table, found[-1:], table)


def _rename_constraints(
    connection: psycopg.Connection[Any], table: TableName, found: Sequence[tuple[Any, ...]], like: TableName
) -> None:
    """Renames constraints, all in one go: each NOT NULL of a wide table is one from 18 on."""
    if not found:
        return
    wanted = []
    for _, kind, columns in found:
        # Of a CHECK over several columns the server names none.
        named = None if kind == "p" or (kind == "c" and len(columns) != 1) else "_".join(columns)
        wanted.append((like.name, named, _LABELS[kind]))
    pairs = zip(found, _free_names(connection, table, wanted), strict=True)
    statements = [
        f"ALTER TABLE {table.sql} RENAME CONSTRAINT {quote_identifier(name)} TO {quote_identifier(final)}"
        for (name, *_), final in pairs
    ]
    connection.execute("; ".join(statements).encode())


_SHORTENED = 24
"""So many characters of a staging table's name are left in a name that the server has made of it and shortened."""
_LABELS = {"c": "check", "n": "not_null", "p": "pkey", "u": "key", "x": "excl", "f": "fkey"}

_NAMED_CONSTRAINTS = """
SELECT conname, contype::text, coalesce((SELECT array_agg(attname ORDER BY place)
    FROM unnest(conkey) WITH ORDINALITY AS keys (attnum, place) JOIN pg_attribute a USING (attnum)
    WHERE attrelid = conrelid), '{}')
FROM pg_constraint WHERE conrelid = to_regclass(%s) AND starts_with(conname, %s) AND contype::text = ANY (%s)
ORDER BY contype, CASE contype WHEN 'c' THEN NULL ELSE conkey END, oid
"""
_TAKEN = """
SELECT name::text FROM unnest(%s::name[]) AS name, pg_class t
WHERE t.oid = to_regclass(%s)
    AND (EXISTS (SELECT FROM pg_constraint WHERE conname = name AND connamespace = t.relnamespace)
        OR EXISTS (SELECT FROM pg_class WHERE relname = name AND relnamespace = t.relnamespace))
"""


def _free_names(
    connection: psycopg.Connection[Any], table: TableName, wanted: Sequence[tuple[str, str | None, str]]
) -> list[str]:
    """The names that the server would choose, one after the other, for objects that belong to the table (its
    `ChooseConstraintName` and `ChooseRelationName`).

    Each of them is wanted by what `made_name` takes.
    """
    numbers, free = [0] * len(wanted), dict[int, str]()
    while len(free) < len(wanted):
        asked = {
            place: made_name(first, second, f"{label}{numbers[place] or ''}")
            for place, (first, second, label) in enumerate(wanted)
            if place not in free
        }
        found = connection.execute(_TAKEN, (list(asked.values()), table.sql)).fetchall()
        taken = {*free.values(), *(name for (name,) in found)}
        for place, name in asked.items():
            if name in taken:
                numbers[place] += 1
            else:
                free[place] = name
                taken.add(name)
    return [free[place] for place in range(len(wanted))]


def made_name(first: str, second: str | None, label: str) -> str:
    """The parts joined, the longer one of the first two shortened as far as need be (PostgreSQL's `makeObjectName`)."""
    parts = [part.encode() for part in (first, second) if part is not None]
    room = LONGEST_NAME_BYTES - len(label.encode()) - len(parts)
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
        (final,) = _free_names(connection, table, [(table.name, column, "seq")])
        sequence = TableName(table.schema, name)
        connection.execute(f"ALTER SEQUENCE {sequence.sql} RENAME TO {quote_identifier(final)}")


_SEQUENCES = """
SELECT pg_get_serial_sequence(%(new)s, attname), staged FROM pg_attribute,
LATERAL (SELECT pg_get_serial_sequence(%(staging)s, attname) AS staged) s
WHERE attrelid = to_regclass(%(staging)s) AND attnum > 0 AND NOT attisdropped AND staged IS NOT NULL
"""


def advance_sequences(connection: psycopg.Connection[Any], table: TableName, staging: TableName) -> None:
    """Has the sequences of identity and serial columns of a new table go on where those of what was staged are."""
    for new, staged in connection.execute(_SEQUENCES, {"new": table.sql, "staging": staging.sql}).fetchall():
        connection.execute(f"SELECT setval(%s, last_value, is_called) FROM {pasted(staged)}".encode(), (new,))


# Of another role's session only some columns are shown, and the kind of its process is none of them; processes of the
# server itself, such as autovacuum's, belong to no role.
_OLDER_SNAPSHOTS = """
SELECT count(*) FROM pg_stat_activity
WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database()
  AND usesysid IS NOT NULL AND age(backend_xmin) > age(%s::xid)
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


SNAPSHOT_SECONDS = 1.0
"""How long publish waits for others' snapshots while others wait for its locks."""

# A transaction that keeps its snapshot keeps its virtual number too.
_SNAPSHOTS = """
SELECT l.virtualxid,
       EXISTS (SELECT FROM pg_locks w WHERE w.pid = l.pid AND NOT w.granted)
           AND pg_backend_pid() = ANY (pg_blocking_pids(l.pid))
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'virtualxid' AND l.virtualxid = l.virtualtransaction AND a.backend_xmin IS NOT NULL
  AND a.pid <> pg_backend_pid() AND a.datname = current_database() AND a.usesysid IS NOT NULL
"""


class SnapshotsOpen(psycopg.errors.LockNotAvailable):
    """Others have snapshots that would show a part of what is published: it must be begun again."""


def wait_for_snapshots(connection: psycopg.Connection[Any]) -> bool:
    """Waits a moment until those snapshots are gone that others have now; says whether that came. It cannot come where
    one of them waits for this transaction.

    Whoever began before this moment may look later at what is published now, and sees rows that are moved in with their
    table, and not those that this transaction copies.
    """
    found = _snapshots(connection)
    first = set(found)
    until = time.monotonic() + SNAPSHOT_SECONDS
    while first:
        if any(found[number] for number in first) or time.monotonic() >= until:
            return False
        time.sleep(0.02)
        found = _snapshots(connection)
        first &= set(found)
    return True


def require_new_snapshots(connection: psycopg.Connection[Any]) -> None:
    """As `wait_for_snapshots`.

    Raises:
        SnapshotsOpen: it did not come.
    """
    if not wait_for_snapshots(connection):
        raise SnapshotsOpen("a transaction began while rows were copied, and is still open")


def require_nobody_waits(connection: psycopg.Connection[Any]) -> None:
    """The last look before the end: a reader who came since has a snapshot already, and waits for the table.

    Raises:
        SnapshotsOpen: there is one.
    """
    if any(_snapshots(connection).values()):
        raise SnapshotsOpen("a transaction began while rows took their place, and waits for them")


def _snapshots(connection: psycopg.Connection[Any]) -> dict[str, bool]:
    """The transactions of others that have snapshots, and whether they wait for this one."""
    # Within a transaction, what was seen of the others once is seen again.
    connection.execute("SELECT pg_stat_clear_snapshot()")
    return dict(connection.execute(_SNAPSHOTS).fetchall())


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
