"""`--tablespace`: where tables that Tipple makes are laid. Partitions go into several of them in turn.

Indexes follow by `default_tablespace`, which the sessions that build them set, so no statement has to name it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.postgresql import stage
from tipple.engines.postgresql.connection import current_role
from tipple.errors import UsageError
from tipple.plan.url import QUOTED_IDENTIFIER, TableName, fold_identifier, quote_identifier

_TABLESPACES = """
SELECT spcname, oid = (SELECT dattablespace FROM pg_database WHERE datname = current_database())
       OR has_tablespace_privilege(oid, 'CREATE')
FROM pg_tablespace WHERE spcname <> 'pg_global' ORDER BY spcname
"""

# Empty: the database's own, or one where this role may make none. What lies there gives its place to no other table.
_PLACES_OF_INDEXES = """
SELECT name, min(coalesce(s.spcname, '')) FROM unnest(%s::text[]) AS name
JOIN pg_index i ON i.indrelid = to_regclass(name) JOIN pg_class c ON c.oid = i.indexrelid
LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace AND has_tablespace_privilege(s.oid, 'CREATE')
GROUP BY name HAVING count(DISTINCT coalesce(s.spcname, '')) = 1
"""


# Those of the table, its partitions and their indexes; and where new tables, and files of sorting, are laid.
_USED = """
WITH tables AS (SELECT to_regclass(%(table)s)::oid AS oid
    UNION SELECT relid FROM pg_partition_tree(to_regclass(%(table)s)))
SELECT spcname FROM pg_tablespace s WHERE spcname = ANY (%(named)s)
    OR strpos(concat_ws(' ', current_setting('default_tablespace'), current_setting('temp_tablespaces'),
                        %(definition)s::text), spcname) > 0
    OR oid = (SELECT dattablespace FROM pg_database WHERE datname = current_database())
    OR EXISTS (SELECT FROM tables LEFT JOIN pg_index i ON indrelid = tables.oid
        JOIN pg_class c ON c.oid = tables.oid OR c.oid = indexrelid WHERE c.reltablespace = s.oid)
"""


def used(connection: psycopg.Connection[Any], task: LoadTask) -> set[str]:
    """Those that a load may need room in."""
    made = task.definition
    # Whose name is in it may be meant by it.
    definition = "" if made is None else " ".join([made.options_text, *made.constraints])
    names = [*task.tablespaces, *map(_as_sql_reads, task.tablespaces)]
    facts = {"table": task.table.sql, "named": names, "definition": definition}
    return {name for (name,) in connection.execute(_USED, facts).fetchall()}


def _as_sql_reads(name: str) -> str:
    is_whole = re.fullmatch(QUOTED_IDENTIFIER, name) is not None or '"' not in name
    return fold_identifier(name) if is_whole else name


def named(connection: psycopg.Connection[Any], task: LoadTask) -> LoadTask:
    """The task with its tablespaces as the server names them: as is written, or else as SQL reads that.

    What there is under neither name stays as is written, but for quotes.
    """
    if not task.tablespaces:
        return task
    known: dict[str, bool] = dict(connection.execute(_TABLESPACES).fetchall())
    names = []
    for name in task.tablespaces:
        read = _as_sql_reads(name)
        names.append(read if name not in known and (read in known or name.startswith('"')) else name)
    return msgspec.structs.replace(task, tablespaces=tuple(names))


def check(connection: psycopg.Connection[Any], names: Sequence[str]) -> None:
    """Refuses tablespaces that are not there, or where this role may not create tables.

    Raises:
        UsageError: says which one.
    """
    if not names:
        return
    known: dict[str, bool] = dict(connection.execute(_TABLESPACES).fetchall())
    for name in names:
        if name not in known:
            if name.startswith("pg_"):
                # Names of the server's own: no tablespace can be made with one.
                what = "is for tables that all databases share" if name == "pg_global" else "is not there"
                may = [space for space, allowed in known.items() if allowed]
                raise UsageError(
                    f"the tablespace {name} {what}, and only the server itself has names that begin with pg_",
                    hint=f"leave --tablespace out, or name one that this role may use: {', '.join(may)}",
                )
            raise UsageError(
                f"the server has no tablespace {name} for tables",
                hint=f"tablespaces there: {', '.join(known)}; a superuser can make one: CREATE TABLESPACE "
                f"{quote_identifier(name)} LOCATION '/an/empty/directory';",
            )
        if not known[name]:
            role = current_role(connection)
            raise UsageError(
                f"the role {role} may not create tables in the tablespace {name}",
                hint=f"as its owner: GRANT CREATE ON TABLESPACE {quote_identifier(name)} TO {role};",
            )


def lay(connection: psycopg.Connection[Any], task: LoadTask, staging: TableName) -> None:
    """Moves what is staged to its place: the partitions in turn, or the only table; call it before rows come in.

    The order is that in which partitions were made, so those that are made later go on in turn.
    """
    names = task.tablespaces
    for number, name in enumerate(stage.members(connection, staging, kinds="r") if names else ()):
        wanted = names[number % len(names)]
        for member in (name, *_indexes(connection, TableName(staging.schema, name))):
            moved = TableName(staging.schema, member)
            if of(connection, moved) != wanted:
                # An index is moved in the same words.
                connection.execute(f"ALTER TABLE {moved.sql} SET TABLESPACE {quote_identifier(wanted)}")


def restrict_default(connection: psycopg.Connection[Any], *, exists: bool) -> None:
    """Has the session's `default_tablespace` count for new tables only, until the transaction ends.

    Where it is the database's own, which is the same as none, the server refuses it for partitioned tables.
    """
    if exists:
        connection.execute("SET LOCAL default_tablespace = ''")
    else:
        connection.execute(
            "SELECT set_config('default_tablespace', '', true) FROM pg_database d JOIN pg_tablespace s "
            "ON s.oid = d.dattablespace WHERE datname = current_database() "
            "AND spcname = current_setting('default_tablespace')"
        )


def clause_of_new_partitions(connection: psycopg.Connection[Any], task: LoadTask) -> str:
    """What makes the server lay new partitions where it does with those of the table itself, which may name a place."""
    # They are moved there, and the table's own may be forbidden.
    return "" if task.tablespaces else clause_beside(connection, task.table)


def clause_beside(connection: psycopg.Connection[Any], table: TableName) -> str:
    """What lays a new table where this one is, if that has a tablespace of its own in which this role may make any."""
    found = connection.execute(
        "SELECT spcname FROM pg_tablespace s JOIN pg_class c ON c.reltablespace = s.oid "
        "WHERE c.oid = to_regclass(%s) AND has_tablespace_privilege(s.oid, 'CREATE')",
        (table.sql,),
    ).fetchone()
    return "" if found is None else f" TABLESPACE {quote_identifier(found[0])}"


def of_indexes(connection: psycopg.Connection[Any], task: LoadTask, table: TableName, *, like: TableName) -> str | None:
    """The `default_tablespace` by which indexes of a staged table are made; None: as the session has it.

    Where the table is there already, they go where `like`, which has its indexes, has them: the session's own is for
    new tables.
    """
    if task.tablespaces:
        return of(connection, table)
    if task.definition is not None:
        return None
    return of_their_indexes(connection, [like]).get(like, "")


def of_their_indexes(connection: psycopg.Connection[Any], tables: Sequence[TableName]) -> dict[TableName, str]:
    """The `default_tablespace` for indexes to lie where those of a table do; left out where they lie in several."""
    by_name = {table.sql: table for table in tables}
    rows = connection.execute(_PLACES_OF_INDEXES, (list(by_name),)).fetchall() if by_name else []
    return {by_name[name]: place for name, place in rows}


def _indexes(connection: psycopg.Connection[Any], table: TableName) -> list[str]:
    """Those that are there before the rows."""
    rows = connection.execute(
        "SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "WHERE i.indrelid = to_regclass(%s)",
        (table.sql,),
    )
    return [name for (name,) in rows]


def of(connection: psycopg.Connection[Any], table: TableName) -> str:
    """The tablespace that a table or an index lies in, the database's own one included."""
    found = connection.execute(
        "SELECT s.spcname FROM pg_class c JOIN pg_database d ON d.datname = current_database() JOIN pg_tablespace s "
        "ON s.oid = coalesce(nullif(c.reltablespace, 0), d.dattablespace) WHERE c.oid = to_regclass(%s)",
        (table.sql,),
    ).fetchone()
    return str(found[0]) if found is not None else ""
