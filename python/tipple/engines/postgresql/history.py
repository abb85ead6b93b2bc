"""What the ledger tells of earlier jobs into a table: what they have loaded, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from tipple.engines.base import LoadTask, Published
from tipple.engines.loaded_before import MOST_BYTES, Loaded, nothing_changed
from tipple.engines.moments import in_utc
from tipple.engines.postgresql import stage
from tipple.engines.postgresql.ledger import LedgerJob, done_totals, exists
from tipple.errors import UsageError
from tipple.plan.url import TableName

_STANDS_ALONE = "({job}.mode IN ('replace', 'create') OR {job}.plan ? 'creates')"
"""Whether a job's rows were all that the table had."""


def kept_mode(task: LoadTask) -> str:
    """The mode of a job, as the ledger has it: rows of a replay come on top of others, whatever it replaces beside."""
    return "replace partitions" if task.mode == "replace" and task.replace_scope == "partitions" else task.mode


def was_undone(connection: psycopg.Connection[Any], job: LedgerJob, followers: Sequence[bytes]) -> bool:
    """Whether a later job has taken a published job's rows out of the table again, or added others to a replaced one.

    The rows of any job are gone after a later `replace`, and where a later one has made the table; a `replace` stands
    for the whole content of the table, or of partitions, which any later job changes, but for the `followers`, with
    which it was run as a whole, and replays of its rejects.
    """
    found = connection.execute(
        "SELECT EXISTS (SELECT FROM tipple.job later JOIN tipple.job job USING (target) WHERE job.job_id = %s "
        "AND later.job_id <> job.job_id AND later.state = 'published' AND later.finished_at > job.finished_at "
        f"AND ({_STANDS_ALONE.format(job='later')} OR starts_with(job.mode, 'replace')) "
        "AND later.request ->> 'replays' IS DISTINCT FROM job.job_id::text "
        "AND (later.request_key = ANY (%s::bytea[])) IS NOT TRUE)",
        (job.job_id, list(followers)),
    ).fetchone()
    return found is not None and bool(found[0])


def require_unfollowed(connection: psycopg.Connection[Any], job: LedgerJob, followers: Sequence[bytes]) -> None:
    """Refuses to replace partitions again to which `followers`, of the same job file, have added rows.

    Raises:
        UsageError: there is such a follower, whose rows the ledger would still have as loaded.
    """
    found = connection.execute(
        "SELECT later.job_id::text FROM tipple.job later JOIN tipple.job job USING (target) WHERE job.job_id = %s "
        "AND job.mode = 'replace partitions' AND later.state = 'published' AND later.finished_at > job.finished_at "
        "AND later.request_key = ANY (%s::bytea[]) LIMIT 1",
        (job.job_id, list(followers)),
    ).fetchone()
    if found is not None:
        raise UsageError(
            f"job {job.job_id} has replaced partitions, and job {found[0]} of the same file has added rows; others "
            "have changed the table since, and to replace the partitions again would take those rows away",
            hint="load what is new by an entry, or a file, of its own; --restart loads all entries once more",
        )


def require_stored(connection: psycopg.Connection[Any], job: LedgerJob, table: TableName) -> None:
    """Refuses to go on with an unfinished job whose rows were visible, and are gone.

    Raises:
        UsageError: somebody has emptied the table since, or made it anew.
    """
    if job.plan.get("strategy") != "incremental":
        return
    stored = done_totals(connection, job.job_id).rows
    found = connection.execute("SELECT to_regclass(%s) IS NULL", (table.sql,)).fetchone()
    is_gone = found is not None and bool(found[0])
    if stored and (is_gone or stage.is_surely_empty(connection, table)):
        raise UsageError(
            f"job {job.job_id}, which is unfinished, has stored {stored:,} rows in {table}, "
            + ("which is gone" if is_gone else "and now it has none"),
            hint="load all of it: --restart",
        )


def said_of_published(connection: psycopg.Connection[Any], job: LedgerJob) -> list[str]:
    """Notes on a job that has loaded before what is to be loaded."""
    notes = [] if job.finished_at is None else [nothing_changed(job.job_id, job.finished_at)]
    later = connection.execute(
        "SELECT later.job_id::text FROM tipple.job later JOIN tipple.job job USING (target) WHERE job.job_id = %s "
        "AND later.state = 'published' AND later.finished_at > job.finished_at AND later.mode = 'replace partitions' "
        "ORDER BY later.finished_at DESC LIMIT 1",
        (job.job_id,),
    ).fetchone()
    if later is not None:
        notes.append(
            f"job {later[0]} has replaced partitions of the table since: rows of this one that were in them are gone"
        )
    return notes


_LOADED_BEFORE = f"""
SELECT source ->> 'content', (source ->> 'size')::bigint, job_id::text, finished_at
FROM (
    SELECT job_id, finished_at, request,
           sum(pg_column_size(request)) OVER (ORDER BY finished_at DESC) - pg_column_size(request) AS before
    FROM tipple.job
    WHERE target = %(target)s AND state = 'published' AND request ->> 'on_error' IS DISTINCT FROM 'replay'
      AND finished_at >= coalesce((SELECT max(finished_at) FROM tipple.job whole
                                   WHERE target = %(target)s AND state = 'published'
                                       AND {_STANDS_ALONE.format(job="whole")}), '-infinity')
) j, jsonb_array_elements(CASE WHEN before <= %(most)s THEN request -> 'sources' END) source
WHERE source ->> 'content' = ANY (%(contents)s)
ORDER BY finished_at DESC
"""


def loaded_before(connection: psycopg.Connection[Any], table: TableName, contents: Sequence[str]) -> list[Loaded]:
    """Sources of these contents that jobs have loaded into `table` since it was last replaced, the newest first.

    None where the table is empty.
    """
    if not exists(connection) or stage.is_surely_empty(connection, table):
        return []
    wanted = {"target": table.sql, "most": MOST_BYTES, "contents": list(contents)}
    return [
        Loaded(content=content, size=size, job_id=job_id, finished_at=in_utc(finished_at))
        for content, size, job_id, finished_at in connection.execute(_LOADED_BEFORE, wanted).fetchall()
    ]


def published_with(connection: psycopg.Connection[Any], table: TableName, content: str) -> list[Published]:
    """As `Session.published_with`."""
    if not exists(connection) or stage.is_surely_empty(connection, table):
        return []
    rows = connection.execute(
        "SELECT job_id::text, request_key, request FROM tipple.job WHERE target = %s AND state = 'published' "
        "AND request #>> '{sources,0,content}' = %s AND request_key IS NOT NULL ORDER BY finished_at DESC LIMIT 10",
        (table.sql, content),
    ).fetchall()
    return [Published(job_id=job_id, request_key=key, request=request) for job_id, key, request in rows]


_SHOWN = {
    "sources": "sources",
    "dialect": "ways to read the files (--delimiter, --null and the like)",
    "tablespaces": "values of --tablespace",
}
"""What a load is recognised by, as users call it; the rest are options."""


def shown(fact: str) -> str:
    """What one of the facts that a load is recognised by is called."""
    return _SHOWN.get(fact, "--" + fact.replace("_", "-"))
