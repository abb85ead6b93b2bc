"""Keys of a table that may be built when all rows are stored, though records that repeat one are rejects.

The core then notes the keys of what it stores, and tells which records repeat one (`crates/pipeline/src/load/unique`).
It judges by the bytes of COPY binary: that is as good as the server's own judgement for indexes over plain columns of
types whose equal values it knows.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
import psycopg

from tipple.engines.base import TableColumn
from tipple.engines.postgresql import connection as connections
from tipple.engines.postgresql import stage, structure
from tipple.engines.postgresql.partitioned.partition_bounds import key_kind
from tipple.engines.server_errors import is_of_circumstances
from tipple.plan.url import TableName, cut_name

__all__ = ["TEXTS", "UniqueKey", "by_trial", "is_records_fault", "of_structure", "of_table", "texts_are_bytes"]

LOCK_MILLISECONDS = 300
"""How long a lock on a table that a new one refers to is waited for at a time: writers who come then wait as long."""
LOCK_PAUSE_SECONDS = 0.2
MOST_TRIALS = 20

# In the order in which the server looks at them. `_pattern_ops` differ from the default operators in order alone; rows
# are found again by the column's own collation.
_UNIQUE = r"""
SELECT (SELECT relname::text FROM pg_class WHERE oid = i.indexrelid),
       ARRAY(SELECT a.attname::text FROM unnest(i.indkey::smallint[]) WITH ORDINALITY k (n, place)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n
             WHERE place <= i.indnkeyatts ORDER BY place),
       i.indisvalid AND NOT i.indisexclusion AND NOT i.indnullsnotdistinct
       AND (SELECT amname = 'btree' FROM pg_am a JOIN pg_class c ON c.relam = a.oid WHERE c.oid = i.indexrelid)
       AND NOT EXISTS (SELECT FROM unnest(i.indclass::oid[]) o (oid) JOIN pg_opclass USING (oid)
                       WHERE NOT opcdefault AND opcname NOT LIKE '%%\_pattern\_ops')
       AND NOT EXISTS (SELECT FROM pg_collation WHERE NOT collisdeterministic AND (oid = ANY (i.indcollation)
                       OR oid IN (SELECT attcollation FROM pg_attribute
                                  WHERE attrelid = i.indrelid AND attnum = ANY (i.indkey)))),
       ARRAY(SELECT opcintype::regtype::text FROM unnest(i.indclass::oid[]) o (oid) JOIN pg_opclass USING (oid))
FROM pg_index i WHERE i.indrelid = to_regclass(%s) AND (i.indisunique OR i.indisexclusion)
ORDER BY NOT i.indimmediate, i.indexrelid
"""
# An expression may fail for one record. A default that is drawn again would be another one, for rows that come back.
_UNFIT = """
SELECT EXISTS (SELECT FROM pg_index WHERE indrelid = to_regclass(%(table)s)
               AND (indexprs IS NOT NULL OR indpred IS NOT NULL))
    OR EXISTS (SELECT FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
               WHERE a.attrelid = to_regclass(%(table)s) AND a.attnum > 0 AND NOT a.attisdropped
                   AND a.attname <> ALL (%(loaded)s::text[]) AND a.attgenerated = ''
                   AND (a.attidentity <> '' OR strpos(pg_get_expr(d.adbin, d.adrelid), '(') > 0))
"""
# In others of several bytes two characters may be one.
_TEXTS_ARE_BYTES = """
SELECT pg_encoding_to_char(encoding) = 'UTF8' OR pg_encoding_max_length(encoding) = 1
FROM pg_database WHERE datname = current_database()
"""


TEXTS = frozenset(("bytes", "padded"))
"""How the core compares texts (its `KeyKind`)."""


class UniqueKey(msgspec.Struct, frozen=True):
    """A unique index."""

    name: str
    columns: list[str]


def of_table(
    connection: psycopg.Connection[Any], table: TableName, columns: Sequence[TableColumn]
) -> list[UniqueKey] | None:
    """The keys of a table into which `columns` are loaded; None where one of them must judge while rows are stored."""
    kinds = {column.name: key_kind(column) for column in columns}
    facts = {"table": table.sql, "loaded": list(kinds)}
    if connection.execute(_UNFIT, facts).fetchone() != (False,):
        return None
    found, texts = [], False
    for name, names, is_plain, types in connection.execute(_UNIQUE, (table.sql,)).fetchall():
        of_key = [kinds.get(column) for column in names]
        # `bpchar` without a length is a text to who encodes it.
        padded = [kind == "bytes" and type_name == "character" for kind, type_name in zip(of_key, types, strict=False)]
        if not is_plain or not all(of_key) or any(padded):
            return None
        texts = texts or not TEXTS.isdisjoint(map(str, of_key))
        found.append(UniqueKey(name, names))
    return None if texts and not texts_are_bytes(connection) else found


def texts_are_bytes(connection: psycopg.Connection[Any]) -> bool:
    """Whether two texts that the server takes for equal are so as the client writes them."""
    return connection.execute(_TEXTS_ARE_BYTES).fetchone() == (True,)


def of_structure(
    connection: psycopg.Connection[Any], table: TableName, columns: Sequence[TableColumn], key: Sequence[str]
) -> list[UniqueKey] | None:
    """The key that `--structure btree` gives to a table that lacks it, by a copy that is made for a moment; None where
    it cannot wait until all rows are stored, or cannot be made.
    """
    bare = TableName(table.schema, f"{stage.PREFIX}{uuid.uuid4().hex}")
    constraint = structure.new_key(connection, table, key)

    def trial() -> list[UniqueKey] | None:
        connection.execute(f"CREATE TABLE {bare.sql} (LIKE {table.sql}, {constraint})".encode())
        return of_table(connection, bare, columns)

    if by_trial(connection, trial) is None:
        return None
    ending = "pkey" if constraint.startswith("PRIMARY") else f"{'_'.join(key)}_key"
    return [UniqueKey(cut_name(f"{table.name}_{ending}"), list(key))]


Found = TypeVar("Found")


def by_trial(connection: psycopg.Connection[Any], trial: Callable[[], Found | None]) -> Found | None:
    """What `trial` finds out by tables that are made for a moment, in the transaction around it; None where the server
    refuses them: whoever makes them for good says what is wrong with them.

    Raises:
        psycopg.Error: not the tables are at fault, but want of room, say, or a connection that is lost.
    """
    for _ in range(MOST_TRIALS):
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}".encode())
                return trial()
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            # Who writes into a table that it refers to is not to be kept waiting.
            time.sleep(LOCK_PAUSE_SECONDS)
        except psycopg.Error as error:
            if connections.is_lost(error) or is_of_circumstances(error.sqlstate):
                raise
            return None
    return None


def is_records_fault(sqlstate: str | None) -> bool:
    """Whether an index that is built refuses the value of a row: it is too long, or no argument of its expression."""
    return sqlstate is not None and (sqlstate == "54000" or sqlstate.startswith("22"))
