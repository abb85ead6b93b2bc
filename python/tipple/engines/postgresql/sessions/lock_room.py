"""Whether the server can remember all locks of a transaction that makes, or publishes, many partitions.

Its table of locks has a fixed size, which all sessions share: `max_locks_per_transaction` for each session that there
may be. A transaction that needs more ends with "out of shared memory", which is better known before rows are loaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from tipple.plan.url import TableName

# The server's own calculation (its `NLOCKENTS`), which counts every process that can have a transaction.
_ROOM = """
SELECT current_setting('max_locks_per_transaction')::bigint, current_setting('max_connections')::bigint
    + current_setting('max_prepared_transactions')::bigint + current_setting('autovacuum_max_workers')::bigint
    + current_setting('max_worker_processes')::bigint + current_setting('max_wal_senders')::bigint
"""

SWAPPED = 10
"""Locks for a partition that takes another one's place: both tables, those of their long values, types, constraints;
counted in `pg_locks`."""
FOR_EACH_INDEX = 3
DROPPED = 6
"""Locks for a hidden partition that is not needed."""


# Of tables, with those of their long values and all indexes.
_HELD = """
WITH tables AS (SELECT oid, reltoastrelid FROM unnest(%s::text[]) AS name JOIN pg_class ON oid = to_regclass(name)),
    whole AS (SELECT oid FROM tables UNION ALL SELECT reltoastrelid FROM tables)
SELECT count(DISTINCT (locktype, relation, classid, objid)), count(DISTINCT relation)
    FILTER (WHERE relation IN (SELECT oid FROM whole) OR indrelid IN (SELECT oid FROM whole))
FROM pg_locks LEFT JOIN pg_index ON indexrelid = relation WHERE pid = pg_backend_pid()
"""


class Held(NamedTuple):
    """Places in the table of locks that a transaction takes."""

    each: int
    """For each table that it has made."""
    once: int
    """For what it has locked beside them, however many there are."""


def held(connection: psycopg.Connection[Any], made: Sequence[TableName]) -> Held:
    """Those of this transaction, which has made these tables."""
    found = connection.execute(_HELD, ([name.sql for name in made],)).fetchone()
    whole, own = found if found is not None else (0, 0)
    return Held(each=math.ceil(own / len(made)), once=whole - own)


def shortage(
    connection: psycopg.Connection[Any], partitions: int, *, each: int, once: int = 0, more_may_come: bool = False
) -> str | None:
    """Why so many partitions are too many for one transaction, or None.

    Args:
        connection: to the server.
        partitions: so many.
        each: locks for each of them.
        once: locks for what does not depend on their number.
        more_may_come: whether rows decide how many they are, so that no setting can be promised to be enough.
    """
    found = connection.execute(_ROOM).fetchone()
    if found is None:
        return None
    locks, sessions = found
    needed = partitions * each + once
    if needed <= locks * sessions:
        return None
    enough = 2 ** math.ceil(math.log2(needed / sessions))
    remedy = f"max_locks_per_transaction = {enough} would do, instead of {locks}"
    if more_may_come:
        remedy = f"max_locks_per_transaction must be at least {enough}, instead of {locks}, and more keys may come"
    return (
        f"{partitions:,} partitions in one transaction need about {needed:,} locks, and the server has room for "
        f"{locks * sessions:,}: {remedy}"
    )
