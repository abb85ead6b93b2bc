"""Which partitions a load with `--replace-scope partitions` has replaced, as the replay of its rejects must know.

There, mended records come on top of the load's own rows. Where all records of a partition were rejects, the load has
left it as it was, and those that are mended take the place of its rows, as they would have done in the load.
"""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.postgresql import ledger
from tipple.errors import TippleError, UsageError

__all__ = ["PLAN_KEY", "PartitionPlace", "Replayed", "is_replay", "replayed_by", "require_known"]

PartitionPlace = tuple[str | None, str]
"""The parent of a partition, quoted (None: the table itself), and its bound as no setting of a session changes it."""
PLAN_KEY = "replaced"
"""In a job's plan: the places of the partitions that it has replaced."""

_OF_JOB = """
SELECT plan -> 'replaced' FROM tipple.job
WHERE target = %(target)s AND state = 'published' AND job_id::text = %(job)s AND plan ? 'replaced'
"""
_OF_ITS_REPLAYS = """
SELECT plan -> 'replaced' FROM tipple.job
WHERE target = %(target)s AND state = 'published' AND request ->> 'replays' = %(job)s AND plan ? 'replaced'
"""
_ANOTHER_SINCE = """
SELECT later.job_id::text FROM tipple.job later JOIN tipple.job job USING (target)
WHERE job.job_id::text = %(job)s AND later.state = 'published' AND later.finished_at > job.finished_at
    AND later.request ->> 'replays' IS DISTINCT FROM %(job)s
ORDER BY later.finished_at LIMIT 1
"""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What has become of the partitions of a table since a load began to replace them."""

    job: str
    places: frozenset[PartitionPlace]
    """Of the partitions that it, and replays of its rejects, have replaced."""
    another: str | None
    """A job that has loaded into the table since: nobody knows which partitions have got rows of it."""

    def require_own(self, partition: object) -> None:
        """Refuses to replace the rows of a partition, which may be those of another job by now.

        Raises:
            TippleError: another job has loaded since.
        """
        if self.another is not None:
            raise TippleError(
                f"all records of {partition} were rejects of job {self.job}, so its rows are to be replaced; but job "
                f"{self.another} has loaded into the table since, and they may be its rows",
                hint="nothing was published; take such records out of the file of rejects and load them as a source of "
                "their own: --mode append keeps the rows that are there, --mode replace --replace-scope partitions "
                "does not",
            )


def is_replay(task: LoadTask) -> bool:
    """Whether these are the mended records of a load that has replaced partitions."""
    return task.mode == "append" and task.replace_scope == "partitions"


def replayed_by(connection: psycopg.Connection[Any], task: LoadTask) -> Replayed | None:
    """What the ledger has of the load whose rejects `task` replays; None where it does not have that."""
    job = task.request.get("replays")
    if not job or not task.ledger or not ledger.exists(connection):
        return None
    facts = {"target": task.table.sql, "job": job}
    own = connection.execute(_OF_JOB, facts).fetchone()
    if own is None:
        return None
    found = [own, *connection.execute(_OF_ITS_REPLAYS, facts).fetchall()]
    another = connection.execute(_ANOTHER_SINCE, facts).fetchone()
    return Replayed(
        job=job,
        places=frozenset((parent, identity) for (places,) in found for parent, identity in places),
        another=None if another is None else another[0],
    )


def require_known(connection: psycopg.Connection[Any], task: LoadTask) -> None:
    """Refuses a replay that might put rows beside those that they were to replace.

    Raises:
        UsageError: nobody knows which partitions the load has replaced.
    """
    if is_replay(task) and replayed_by(connection, task) is None:
        raise UsageError(
            f"the ledger does not have which partitions of {task.table} were replaced when these records were rejects",
            hint="mend the records in the sources and load those, which replaces their partitions as a whole; or load "
            "the rejects beside the rows that are there: --mode append in place of --mode replace --replace-scope "
            "partitions",
        )
