"""Whether the server can remember all locks of a transaction that makes, or publishes, many partitions.

Its table of locks has a fixed size, which all sessions share: `max_locks_per_transaction` for each session that there
may be. A transaction that needs more ends with "out of shared memory", which is better known before rows are loaded.
"""

from __future__ import annotations

import math
from typing import Any

import psycopg

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


def held(connection: psycopg.Connection[Any]) -> int:
    """How many places in the table of locks this transaction takes."""
    found = connection.execute(
        "SELECT count(DISTINCT (locktype, relation, classid, objid)) FROM pg_locks WHERE pid = pg_backend_pid()"
    ).fetchone()
    return int(found[0]) if found is not None else 0


def shortage(connection: psycopg.Connection[Any], partitions: int, *, each: int) -> str | None:
    """Why so many partitions, with so many locks `each`, are too many for one transaction; or None."""
    found = connection.execute(_ROOM).fetchone()
    if found is None:
        return None
    locks, sessions = found
    needed = partitions * each
    if needed <= locks * sessions:
        return None
    enough = 2 ** math.ceil(math.log2(needed / sessions))
    return (
        f"{partitions:,} partitions in one transaction need about {needed:,} locks, and the server has room for "
        f"{locks * sessions:,}: max_locks_per_transaction = {enough} would do, instead of {locks}"
    )
