"""Views of a table whose place another one takes: for a moment they show nothing, and then the same of the other one.

A view knows its table by OID. CREATE OR REPLACE VIEW gives it another query and leaves it what it is otherwise: its
OID, rights, comments, triggers, and the views upon it. While the tables change places it has the query that pg_dump
gives views that depend on each other: all columns, of nothing (`createDummyViewAsClause`). Nobody else sees that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg

from tipple.plan.url import TableName

__all__ = ["REMADE", "NotRestored", "OwnViews"]

REMADE = """
SELECT FROM pg_rewrite w JOIN pg_class v ON v.oid = w.ev_class
WHERE w.oid = d.objid AND w.rulename = '_RETURN' AND v.relkind = 'v' AND v.relpersistence = 'p'
    AND pg_has_role(v.relowner, 'USAGE') AND has_schema_privilege(v.relnamespace, 'CREATE')
    AND NOT EXISTS (SELECT FROM pg_depend x WHERE x.classid = 'pg_class'::regclass AND x.objid = v.oid
        AND x.refclassid = 'pg_extension'::regclass AND x.deptype = 'e')
"""
"""Whether what depends on a table (`d` of pg_depend, its class pg_rewrite) is a view that this role may make again."""

REFUSED = (psycopg.ProgrammingError, psycopg.NotSupportedError, psycopg.DataError, psycopg.InternalError)
"""What the server says where it does not take a view's query again."""

_OF_TABLE = f"""
FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class
JOIN pg_namespace n ON n.oid = v.relnamespace
WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass(%(table)s)
    AND EXISTS ({REMADE})
"""
_NAMES = f"""
SELECT DISTINCT format('%%I.%%I', n.nspname, v.relname), quote_ident(pg_get_userbyid(v.relowner)) {_OF_TABLE} ORDER BY 1
"""
_VIEWS = f"""
SELECT DISTINCT v.oid, format('%%I.%%I', n.nspname, v.relname), pg_get_viewdef(v.oid), (
        SELECT string_agg(format('%%s = %%L', option_name, option_value), ', ') FROM pg_options_to_table(v.reloptions)),
    (SELECT string_agg(format('NULL::%%s%%s AS %%I', format_type(atttypid, atttypmod), (
            SELECT format(' COLLATE %%I.%%I', s.nspname, collname) FROM pg_collation k
            JOIN pg_namespace s ON s.oid = collnamespace JOIN pg_type t ON t.oid = atttypid
            WHERE k.oid = attcollation AND attcollation <> typcollation), attname), ', ' ORDER BY attnum)
        FROM pg_attribute WHERE attrelid = v.oid AND attnum > 0)
{_OF_TABLE} ORDER BY 2
"""


class NotRestored(Exception):
    """The server does not take a view's query again, now that another table has the place of its table."""


class View(NamedTuple):
    """One that was set aside."""

    oid: int
    name: str
    """Quoted, with its schema."""
    query: str
    """Every name in it with its schema."""
    options: str | None


class OwnViews:
    """The views of the table of one load, while that is published."""

    def __init__(self) -> None:
        self.aside: list[View] = []
        """Those that depend on nothing now."""
        self.may_move = True
        self.why_not = ""
        self._attempt = 0

    def begin(self, *, may_move: bool) -> None:
        """A transaction begins; `may_move`: whether views may be locked in it."""
        self.aside = []
        self.may_move = may_move
        self.why_not = "a view came meanwhile" if may_move else "its views are read all the time"
        self._attempt += 1

    def exist(self, connection: psycopg.Connection[Any], table: TableName) -> bool:
        """Whether the table has any that could be set aside."""
        # Their queries are not asked for: that waits for whoever changes one, and fails where it is dropped.
        return connection.execute(_NAMES.encode(), {"table": table.sql}).fetchone() is not None

    def lock(self, connection: psycopg.Connection[Any], table: TableName) -> None:
        """Sets the views aside, and locks the table.

        Readers of a view lock that first, but somebody may read the table first: so every other time it is so here.
        """
        lock = f"LOCK TABLE {table.sql} IN ACCESS EXCLUSIVE MODE"
        if self._attempt % 2 == 0:
            connection.execute(lock)
        self.set_aside(connection, table)
        connection.execute(lock)

    def set_aside(self, connection: psycopg.Connection[Any], table: TableName) -> None:
        """Locks the views and has them depend on nothing; they stay as they are where the server refuses that."""
        if not self.may_move:
            return
        try:
            with connection.transaction(), _every_name_with_its_schema(connection):
                found = _set_aside(connection, table)
        except REFUSED as error:
            self.why_not = f"a view of it cannot be made again ({error.diag.message_primary or error})"
        else:
            self.aside += found

    def obstacle(self, connection: psycopg.Connection[Any], table: TableName) -> str | None:
        """Why the table's place cannot be taken, for the sake of a view that was not set aside."""
        return self.why_not if self.exist(connection, table) else None

    def restore(self, connection: psycopg.Connection[Any]) -> None:
        """Gives them their queries again, which find whatever has the table's name now.

        Raises:
            NotRestored: the server does not take one, or takes it for another one.
        """
        try:
            with connection.transaction(), _every_name_with_its_schema(connection):
                for view in self.aside:
                    if _make(connection, view) != view.query:
                        raise NotRestored(f"the view {view.name} reads otherwise")
        except REFUSED as error:
            raise NotRestored(error.diag.message_primary or str(error)) from None


def _set_aside(connection: psycopg.Connection[Any], table: TableName) -> list[View]:
    facts = {"table": table.sql}
    for name, owner in connection.execute(_NAMES.encode(), facts).fetchall():
        # It is his already, so this is nothing but a lock of the view alone: what is read next is what it will be.
        connection.execute(f"ALTER VIEW {name} OWNER TO {owner}")
    aside = []
    for *facts_of_view, columns in connection.execute(_VIEWS.encode(), facts).fetchall():
        view = View(*facts_of_view)
        # What the server does not take now, it would not take when the table is gone. It may say the same in other
        # words, such as `IN` of a list, but then in these for good.
        view = view._replace(query=_make(connection, view))
        if _make(connection, view) != view.query:
            raise psycopg.InternalError(f"the view {view.name} reads otherwise each time that it is made")
        connection.execute(f"CREATE OR REPLACE VIEW {view.name} AS SELECT {columns or ''}".encode())
        aside.append(view)
    return aside


def _make(connection: psycopg.Connection[Any], view: View) -> str:
    """Gives a view its query; says how the server says it."""
    options = "" if view.options is None else f" WITH ({view.options})"
    connection.execute(f"CREATE OR REPLACE VIEW {view.name}{options} AS {view.query}".encode())
    found = connection.execute("SELECT pg_get_viewdef(%s::oid)", (view.oid,)).fetchone()
    return str(found[0]) if found is not None else ""


@contextmanager
def _every_name_with_its_schema(connection: psycopg.Connection[Any]) -> Iterator[None]:
    before = connection.execute("SELECT current_setting('search_path')").fetchone()
    connection.execute("SET LOCAL search_path = ''")
    yield
    connection.execute("SELECT set_config('search_path', %s, true)", before)
