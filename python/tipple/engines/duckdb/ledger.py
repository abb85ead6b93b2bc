"""The ledger in a DuckDB database: the same tables as everywhere, written in the transaction of the data.

A load into DuckDB is one transaction, so a job is in the ledger when it is published, and not before: an interrupted
one leaves nothing but the ledger itself, which is created first. With `--no-atomic` groups of slices commit one by one,
and the ledger keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import duckdb

from tipple._core import FIRST_PART_N, RejectFiles, SpooledRejects
from tipple.engines import spool
from tipple.engines.base import OPTIONS, JobRecord, LoadTask, Published
from tipple.engines.duckdb.connection import catalog, create_once, first_row, has_own_tables, is_empty
from tipple.engines.loaded_before import MOST_BYTES, Loaded
from tipple.engines.moments import in_utc
from tipple.errors import UsageError
from tipple.plan.url import TableName, parse_table_name

CREATE_STATEMENTS = (
    "CREATE SCHEMA IF NOT EXISTS {catalog}.tipple",
    """
    CREATE TABLE IF NOT EXISTS {catalog}.tipple.job (
        job_id UUID PRIMARY KEY,
        request_key BLOB,
        target VARCHAR NOT NULL,
        mode VARCHAR NOT NULL,
        request JSON NOT NULL,
        plan JSON NOT NULL,
        state VARCHAR NOT NULL,
        rows BIGINT,
        row_digest VARCHAR,
        started_at TIMESTAMP NOT NULL,
        finished_at TIMESTAMP
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS {catalog}.tipple.slice (
        job_id UUID NOT NULL,
        n INTEGER NOT NULL,
        source INTEGER NOT NULL,
        byte_offset BIGINT NOT NULL,
        byte_length BIGINT NOT NULL,
        pieces JSON NOT NULL,
        state VARCHAR NOT NULL,
        rows BIGINT,
        rejects BIGINT DEFAULT 0,
        PRIMARY KEY (job_id, n)
    )
    """,
    "ALTER TABLE {catalog}.tipple.slice ADD COLUMN IF NOT EXISTS rejects BIGINT DEFAULT 0",
    """
    CREATE TABLE IF NOT EXISTS {catalog}.tipple.reject (
        job_id UUID NOT NULL,
        n INTEGER NOT NULL,
        source INTEGER NOT NULL,
        byte_offset BIGINT NOT NULL,
        record_index BIGINT NOT NULL,
        column_name VARCHAR,
        reason VARCHAR NOT NULL,
        sqlstate VARCHAR NOT NULL,
        record BLOB NOT NULL
    )
    """,
)


REJECTS = "tipple_rejects"
"""The name by which a statement reads what the core has spooled."""


def _job(connection: duckdb.DuckDBPyConnection) -> str:
    return f"{catalog(connection)}.tipple.job"


def _slice(connection: duckdb.DuckDBPyConnection) -> str:
    return f"{catalog(connection)}.tipple.slice"


def ensure(connection: duckdb.DuckDBPyConnection) -> None:
    """Creates the ledger where it is missing; call it before the transaction of the rows begins."""
    create_once(connection, _is_complete, CREATE_STATEMENTS)


def _is_complete(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the ledger is there, and not one of an earlier version."""
    found = first_row(
        connection,
        "SELECT count(*) FROM duckdb_columns() WHERE database_name = current_database() AND schema_name = 'tipple' "
        "AND (table_name, column_name) IN (('job', 'job_id'), ('slice', 'rejects'), ('reject', 'record'))",
    )
    return found is not None and found[0] == 3


def exists(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the database has a ledger."""
    return has_own_tables(connection, "job")


def find_by_key(connection: duckdb.DuckDBPyConnection, request_key: bytes) -> dict[str, Any] | None:
    """The job with this key, or None."""
    row = first_row(
        connection,
        f"SELECT job_id::VARCHAR, state, plan::VARCHAR, rows, finished_at FROM {_job(connection)} "
        "WHERE request_key = ?",
        [request_key],
    )
    if row is None:
        return None
    return {
        "job_id": row[0],
        "state": row[1],
        "plan": json.loads(row[2]),
        "rows": row[3],
        "finished_at": row[4] and in_utc(row[4]),
    }


_STANDS_ALONE = "({job}.mode IN ('replace', 'create') OR {job}.plan ->> 'creates' IS NOT NULL)"
"""Whether a job's rows were all that the table had."""


def was_undone(connection: duckdb.DuckDBPyConnection, job: dict[str, Any], followers: Sequence[bytes]) -> bool:
    """Whether a later job has taken a published job's rows out of the table again, or added others to a replaced one.

    The rows of any job are gone after a later `replace`, and where a later one has made the table; a `replace` stands
    for the whole content of the table, which any later job changes, but for the `followers`, with which it was run as a
    whole, and replays of its rejects.
    """
    found = first_row(
        connection,
        f"SELECT count(*) FROM {_job(connection)} later JOIN {_job(connection)} job ON later.target = job.target "
        "WHERE job.job_id = ? AND later.job_id <> job.job_id AND later.state = 'published' "
        f"AND later.finished_at > job.finished_at AND ({_STANDS_ALONE.format(job='later')} OR job.mode = 'replace') "
        "AND later.request ->> 'replays' IS DISTINCT FROM job.job_id::VARCHAR "
        "AND NOT coalesce(list_contains(CAST(? AS BLOB[]), later.request_key), false)",
        [job["job_id"], list(followers)],
    )
    return found is not None and found[0] > 0


def loaded_before(connection: duckdb.DuckDBPyConnection, table: TableName, contents: Sequence[str]) -> list[Loaded]:
    """Sources of these contents that jobs have loaded into `table` since it was last replaced, the newest first.

    None where the table is empty.
    """
    if not exists(connection) or is_empty(connection, table):
        return []
    rows = connection.execute(
        f"""
        SELECT source ->> 'content', CAST(source ->> 'size' AS BIGINT), job_id::VARCHAR, finished_at
        FROM (
            SELECT job_id, finished_at, unnest(from_json(request -> 'sources', '["JSON"]')) AS source
            FROM (
                SELECT job_id, finished_at, request FROM {_job(connection)}
                WHERE target = $target AND state = 'published' AND request ->> 'on_error' IS DISTINCT FROM 'replay'
                  AND finished_at >= coalesce((
                      SELECT max(finished_at) FROM {_job(connection)} whole WHERE target = $target
                          AND state = 'published' AND {_STANDS_ALONE.format(job="whole")}), '-infinity'::TIMESTAMP)
                QUALIFY sum(strlen(request)) OVER (ORDER BY finished_at DESC) - strlen(request) <= {MOST_BYTES}
            )
        )
        WHERE list_contains(CAST($contents AS VARCHAR[]), source ->> 'content') ORDER BY finished_at DESC
        """,
        {"target": table.sql, "contents": list(contents)},
    ).fetchall()
    return [
        Loaded(content=content, size=size, job_id=job_id, finished_at=in_utc(finished_at))
        for content, size, job_id, finished_at in rows
    ]


def published_with(connection: duckdb.DuckDBPyConnection, table: TableName, content: str) -> list[Published]:
    """As `Session.published_with`."""
    if not exists(connection) or is_empty(connection, table):
        return []
    rows = connection.execute(
        f"SELECT job_id::VARCHAR, request_key, request::VARCHAR FROM {_job(connection)} "
        "WHERE target = ? AND state = 'published' AND request ->> '$.sources[0].content' = ? "
        "AND request_key IS NOT NULL ORDER BY finished_at DESC LIMIT 10",
        [table.sql, content],
    ).fetchall()
    return [Published(job_id=row[0], request_key=row[1], request=json.loads(row[2])) for row in rows]


def find_unfinished(connection: duckdb.DuckDBPyConnection, table: TableName) -> list[dict[str, Any]]:
    """Jobs into `table` that are neither published nor given up."""
    rows = connection.execute(
        f"SELECT job_id::VARCHAR, request::VARCHAR FROM {_job(connection)} WHERE target = ? AND state = 'loading'",
        [table.sql],
    ).fetchall()
    return [{"job_id": row[0], "request": json.loads(row[1])} for row in rows]


def insert_job(
    connection: duckdb.DuckDBPyConnection,
    *,
    job_id: str,
    request_key: bytes,
    table: TableName,
    mode: str,
    request: dict[str, Any],
    plan: dict[str, Any],
    started_at: str,
    slices: Sequence[dict[str, Any]],
) -> None:
    """Writes a job and its slices."""
    connection.execute(
        f"INSERT INTO {_job(connection)} VALUES (?, ?, ?, ?, ?, ?, 'loading', NULL, NULL, ?, NULL)",
        [job_id, request_key, table.sql, mode, json.dumps(request), json.dumps(plan), started_at],
    )
    insert_slices(connection, job_id, slices)


def insert_slices(connection: duckdb.DuckDBPyConnection, job_id: str, slices: Sequence[dict[str, Any]]) -> None:
    """Writes slices of a job, as planned."""
    if not slices:
        return
    facts = [
        {
            "n": part["n"],
            "source": part["pieces"][0]["source"],
            "byte_offset": part["pieces"][0]["offset"],
            "byte_length": sum(piece["length"] for piece in part["pieces"]),
            "pieces": json.dumps(part["pieces"]),
        }
        for part in slices
    ]
    # One statement for all: a row at a time would take longer than loading a small file.
    connection.execute(
        f"INSERT INTO {_slice(connection)} "
        "SELECT ?, s.n, s.source, s.byte_offset, s.byte_length, s.pieces, 'planned', NULL, 0 "
        'FROM (SELECT unnest(from_json(?, \'[{"n":"INTEGER","source":"INTEGER","byte_offset":"BIGINT",'
        '"byte_length":"BIGINT","pieces":"VARCHAR"}]\')) AS s)',
        [job_id, json.dumps(facts)],
    )


def mark_done(connection: duckdb.DuckDBPyConnection, job_id: str, counts: Sequence[tuple[int, int, int]]) -> None:
    """Marks slices, given as number, rows and rejects, as done; call it in the transaction of their rows."""
    connection.execute(
        f"UPDATE {_slice(connection)} SET state = 'done', rows = d.rows, rejects = d.rejects "
        "FROM (SELECT unnest(?) AS n, unnest(?) AS rows, unnest(?) AS rejects) d WHERE job_id = ? AND slice.n = d.n",
        [*([count[place] for count in counts] for place in range(3)), job_id],
    )


def add_rejects(connection: duckdb.DuckDBPyConnection, job_id: str, rejects: SpooledRejects) -> None:
    """Writes what the core has spooled; call it in the transaction of the other rows.

    DuckDB pulls it as batches: for one bad record in a hundred, Python would take a third of the load's time.
    """
    connection.register(REJECTS, rejects)
    connection.execute(
        f"INSERT INTO {catalog(connection)}.tipple.reject "
        "SELECT CAST($job AS UUID), n, source, byte_offset, record_index, column_name, reason, sqlstate, record "
        f"FROM {REJECTS}",
        {"job": job_id},
    )
    # In a transaction that has failed nothing can be dropped, and rolling back takes the view away.
    connection.unregister(REJECTS)


def _places(connection: duckdb.DuckDBPyConnection) -> str:
    """By slice of $job: how many rejects it has, and how many records of its source come before it.

    A slice of one piece begins where the slices of its source before it end; others hold whole sources. In slices that
    were cut while their source was read, jobs of earlier versions numbered records in the source already.
    """
    return f"""
        SELECT s.n, s.rejects,
               CASE WHEN s.single AND (s.n < j.first_n OR s.n >= {FIRST_PART_N}) THEN s.before ELSE 0 END AS before
        FROM (
            SELECT n, json_array_length(pieces) = 1 AS single, rejects, coalesce(sum(rows + rejects) OVER (
                PARTITION BY source, json_array_length(pieces) = 1 ORDER BY byte_offset
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::BIGINT AS before
            FROM {_slice(connection)} WHERE job_id = $job
        ) s, (
            SELECT coalesce(
                CASE WHEN plan ->> 'resyncs' IS NULL THEN (plan ->> 'first_n')::INTEGER END, 2147483647) AS first_n
            FROM {_job(connection)} WHERE job_id = $job
        ) j
        """


def tell_rejects(connection: duckdb.DuckDBPyConnection, task: LoadTask, job_id: str, told: RejectFiles) -> None:
    """Adds a job's rejects to the files that the user gets: from the spool, where that has them all."""
    places = connection.execute(_places(connection), {"job": job_id}).fetchall()
    before = {n: records for n, _, records in places if records}
    if spool.tell(task, told, before, {n: rejects for n, rejects, _ in places if rejects}):
        return
    found = connection.execute(
        f"""
        SELECT r.source, p.before + r.record_index + 1, r.byte_offset, r.column_name, r.reason, r.sqlstate, r.record
        FROM {catalog(connection)}.tipple.reject r JOIN ({_places(connection)}) p USING (n)
        WHERE r.job_id = $job ORDER BY r.source, r.byte_offset
        """,
        {"job": job_id},
    )
    while rows := found.fetchmany(10_000):
        told.add(rows)


def reject_count(connection: duckdb.DuckDBPyConnection, job_id: str) -> int:
    """How many rejects a job has."""
    row = first_row(connection, f"SELECT sum(rejects) FROM {_slice(connection)} WHERE job_id = ?", [job_id])
    return int(row[0] or 0) if row is not None else 0


def add_rows(connection: duckdb.DuckDBPyConnection, job_id: str, rows: int) -> None:
    """Adds to a job's rows; call it in the transaction of those rows."""
    connection.execute(f"UPDATE {_job(connection)} SET rows = coalesce(rows, 0) + ? WHERE job_id = ?", [rows, job_id])


def planned_slices(connection: duckdb.DuckDBPyConnection, job_id: str) -> list[dict[str, Any]]:
    """The job's slices that are not done, as the core takes them."""
    rows = connection.execute(
        f"SELECT n, pieces::VARCHAR FROM {_slice(connection)} WHERE job_id = ? AND state = 'planned' ORDER BY n",
        [job_id],
    ).fetchall()
    return [{"n": n, "pieces": json.loads(pieces)} for n, pieces in rows]


def cut_slices(connection: duckdb.DuckDBPyConnection, job_id: str, first_n: int) -> list[tuple[int, int]]:
    """Number and first source of the slices that were cut while their source was read."""
    return connection.execute(
        f"SELECT n, source FROM {_slice(connection)} WHERE job_id = ? AND n >= ? AND n < ? AND state = 'done'",
        [job_id, first_n, FIRST_PART_N],
    ).fetchall()


def next_part_n(connection: duckdb.DuckDBPyConnection, job_id: str) -> int:
    """The number of the next slice that is the rest of another one."""
    row = first_row(
        connection, f"SELECT max(n) FROM {_slice(connection)} WHERE job_id = ? AND n >= ?", [job_id, FIRST_PART_N]
    )
    return int(row[0]) + 1 if row is not None and row[0] is not None else FIRST_PART_N


def divide(connection: duckdb.DuckDBPyConnection, job_id: str, parts: Sequence[dict[str, Any]]) -> None:
    """Cuts slices where their transaction has ended; call it in that transaction, before they are marked as done."""
    for part in parts:
        pieces = part["done"]["pieces"]
        connection.execute(
            f"UPDATE {_slice(connection)} SET byte_length = ?, pieces = ? WHERE job_id = ? AND n = ?",
            [sum(piece["length"] for piece in pieces), json.dumps(pieces), job_id, part["done"]["n"]],
        )
    insert_slices(connection, job_id, [part["rest"] for part in parts])


def publish(connection: duckdb.DuckDBPyConnection, job_id: str, digest: str | None, finished_at: str) -> None:
    """Says that the job's rows are visible.

    The order in which jobs into a table were published counts, even if the clock is set back or another machine's.
    """
    job = _job(connection)
    connection.execute(
        f"UPDATE {job} SET state = 'published', row_digest = $digest, finished_at = greatest($at::TIMESTAMP, coalesce("
        f"(SELECT max(other.finished_at) + INTERVAL 1 MICROSECOND FROM {job} other WHERE other.state = 'published' "
        f"AND other.target = (SELECT target FROM {job} WHERE job_id = $job)), $at::TIMESTAMP)) WHERE job_id = $job",
        {"digest": digest, "at": finished_at, "job": job_id},
    )


def unfinished(connection: duckdb.DuckDBPyConnection, task: LoadTask) -> str | None:
    """The job of the same command that is there to go on with, or None."""
    if not task.ledger or task.restart or not exists(connection):
        return None
    found = find_by_key(connection, task.request_key)
    return str(found["job_id"]) if found is not None and found["state"] == "loading" else None


def require_resumable(task: LoadTask, job_id: str | None) -> None:
    """Refuses --resume of another job than the one of this command, which is `job_id`, where there is one."""
    if task.resume and (job_id is None or not job_id.startswith(task.resume.lower())):
        raise UsageError(
            f"there is nothing to resume of job {task.resume}",
            hint="a load into DuckDB is one transaction: run the command without --resume",
        )


def rows_done(connection: duckdb.DuckDBPyConnection, job_id: str) -> int:
    """How many rows the job's slices that are done have come to."""
    row = first_row(connection, f"SELECT rows FROM {_job(connection)} WHERE job_id = ?", [job_id])
    return int(row[0] or 0) if row is not None else 0


def duplicates_warning(connection: duckdb.DuckDBPyConnection, job_id: str) -> str:
    """What is to be done before a job that has stored rows is begun anew; nothing where it has not."""
    done = rows_done(connection, job_id)
    if not done:
        return ""
    return f"; that job has stored {done:,} rows in the table already (--no-atomic): delete them before --restart"


def give_up(connection: duckdb.DuckDBPyConnection, job_id: str, state: str) -> None:
    """Takes a job out of the way of new ones: `superseded` or `cancelled`."""
    connection.execute(
        f"UPDATE {_job(connection)} SET state = ?, request_key = NULL, "
        "finished_at = coalesce(finished_at, make_timestamp(epoch_us(now()))) WHERE job_id = ?",
        [state, job_id],
    )


def forget_rejects(connection: duckdb.DuckDBPyConnection) -> int:
    """Removes the rejects of jobs that were given up, and says how many: no command asks for them, unless the rows
    beside them are in the table."""
    if not _is_complete(connection):
        return 0
    removed = first_row(
        connection,
        f"DELETE FROM {catalog(connection)}.tipple.reject WHERE job_id IN (SELECT job_id FROM {_job(connection)} "
        "WHERE state = 'superseded' OR state IN ('failed', 'cancelled') AND coalesce(rows, 0) = 0)",
    )
    return int(removed[0]) if removed is not None else 0


def records(connection: duckdb.DuckDBPyConnection) -> list[JobRecord]:
    """All jobs, newest first."""
    rows = connection.execute(
        "SELECT j.job_id::VARCHAR, j.state, j.target, j.mode, count(s.n), count(s.n) FILTER (WHERE s.state = 'done'), "
        "coalesce(j.rows, sum(s.rows), 0), j.started_at, j.finished_at, "
        "any_value(j.request::VARCHAR), coalesce(sum(s.rejects), 0)::BIGINT "
        f"FROM {_job(connection)} j LEFT JOIN {_slice(connection)} s ON s.job_id = j.job_id "
        "GROUP BY j.job_id, j.state, j.target, j.mode, j.rows, j.started_at, j.finished_at ORDER BY j.started_at DESC"
    ).fetchall()
    requests = [json.loads(row[9]) for row in rows]
    return [
        JobRecord(
            job_id=row[0],
            state=row[1],
            table=str(parse_table_name(row[2])),
            mode=row[3],
            slices=row[4],
            slices_done=row[5],
            rows=row[6],
            started_at=in_utc(row[7]),
            finished_at=row[8] and in_utc(row[8]),
            # One process at a time has the file open.
            running=False,
            staging=None,
            sources=tuple(source["path"] for source in request["sources"]),
            rejects=row[10],
            replays=request.get("replays"),
            # A job is in the ledger before its end only with --no-atomic.
            visible_rows=row[6] if row[1] in ("loading", "failed", "cancelled") else 0,
            options=request.get(OPTIONS),
        )
        for row, request in zip(rows, requests, strict=True)
    ]
