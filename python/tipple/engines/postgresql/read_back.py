"""Staged rows read back by all streams, for their digest."""

from __future__ import annotations

from typing import Any

import psycopg

from tipple import _core
from tipple.engines import core
from tipple.engines.base import Runner
from tipple.engines.postgresql import stage
from tipple.engines.postgresql.core_plans import CorePlans
from tipple.engines.postgresql.indexes import NoSession
from tipple.engines.postgresql.job import OwnedJob
from tipple.engines.postgresql.partitioned import partitions
from tipple.plan.url import TableName

__all__ = ["digest"]

PARTS_PER_STREAM = 8
"""So that a stream whose part was quick takes another one."""


def digest(
    connection: psycopg.Connection[Any], runner: Runner, plans: CorePlans, owned: OwnedJob, staging: TableName
) -> dict[str, Any]:
    """The `rows` that are staged, and their `digest` in hexadecimal.

    Raises:
        NoSession: a session was lost; all is staged still, and can be read once more.
    """
    names = plans.digested_list()
    tables = [staging]
    if owned.strategy == "partition":
        tables = [leaf.name for leaf in partitions.staged(connection, staging)]
    parts = max(1, PARTS_PER_STREAM * plans.task.streams // len(tables)) if tables else 1
    queries = [
        f"SELECT {names} FROM {table.sql} WHERE {condition}"
        for table in tables
        for condition in stage.ctid_ranges(connection, table, parts)
    ]
    try:
        held: dict[str, Any] = runner.run(_core.VerifyJob.start(plans.verification(owned, queries)))
    except core.ConnectionLost as error:
        raise NoSession(str(error), hint=error.hint) from None
    return held
