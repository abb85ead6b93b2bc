"""The ledger: `tipple.job` and `tipple.slice`, written in the transactions of the data.

A job's slices are written before the first row is loaded and never change; a slice's row says `done` in the same
transaction that stores its rows. Who owns a job is settled by a session advisory lock and an epoch: the lock tells
whether the owner lives, the epoch, checked in every transaction, shuts out one that only seems to be dead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import psycopg
from psycopg import errors

from tipple._core import FIRST_PART_N
from tipple.engines.base import JobRecord
from tipple.engines.moments import in_utc
from tipple.engines.postgresql import remedies, unlogged
from tipple.engines.postgresql.connection import current_role
from tipple.engines.postgresql.diagnostics import server_error
from tipple.engines.postgresql.place import estranged
from tipple.engines.server_errors import ServerError, files_hint, lacks_right
from tipple.errors import TippleError, UsageError
from tipple.plan.url import TableName, parse_table_name, quote_identifier

CREATE_STATEMENTS = (
    """
    CREATE TABLE IF NOT EXISTS tipple.job (
        job_id uuid PRIMARY KEY,
        request_key bytea UNIQUE,
        target text NOT NULL,
        mode text NOT NULL,
        request jsonb NOT NULL,
        plan jsonb NOT NULL,
        state text NOT NULL CHECK (state IN ('loading', 'published', 'failed', 'cancelled', 'superseded')),
        epoch bigint NOT NULL,
        owner_pid integer,
        owner text,
        staging text,
        rows bigint,
        row_digest text,
        started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        finished_at timestamptz
    ) USING heap
    """,
    """
    CREATE TABLE IF NOT EXISTS tipple.slice (
        job_id uuid NOT NULL REFERENCES tipple.job ON DELETE CASCADE,
        n integer NOT NULL,
        source integer NOT NULL,
        byte_offset bigint NOT NULL,
        byte_length bigint NOT NULL,
        pieces jsonb NOT NULL,
        state text NOT NULL DEFAULT 'planned' CHECK (state IN ('planned', 'done')),
        attempt integer NOT NULL DEFAULT 0,
        rows bigint,
        row_digest text,
        xid text,
        finished_at timestamptz,
        rejects bigint NOT NULL DEFAULT 0,
        PRIMARY KEY (job_id, n)
    ) USING heap
    """,
    "ALTER TABLE tipple.slice ADD COLUMN IF NOT EXISTS rejects bigint NOT NULL DEFAULT 0",
    """
    CREATE TABLE IF NOT EXISTS tipple.reject (
        job_id uuid NOT NULL,
        n integer NOT NULL,
        source integer NOT NULL,
        byte_offset bigint NOT NULL,
        record_index bigint NOT NULL,
        column_name text,
        reason text NOT NULL,
        sqlstate text NOT NULL,
        record bytea NOT NULL
    ) USING heap
    """,
    "CREATE INDEX IF NOT EXISTS reject_job_id_n_idx ON tipple.reject (job_id, n)",
    # Without a key, and where a publication covers all tables, the server would refuse to forget rejects.
    "ALTER TABLE tipple.reject REPLICA IDENTITY FULL",
    # A foreign key would be looked up for every reject, which takes longer than storing it.
    """
    CREATE OR REPLACE FUNCTION tipple.forget_rejects() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog
    AS 'BEGIN
        DELETE FROM tipple.reject r USING gone WHERE r.job_id = gone.job_id AND r.n = gone.n;
        RETURN NULL;
    END'
    """,
    """
    CREATE OR REPLACE TRIGGER forget_rejects AFTER DELETE ON tipple.slice REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tipple.forget_rejects()
    """,
    """
    CREATE OR REPLACE FUNCTION tipple.forget_all_rejects() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog
    AS 'BEGIN
        DELETE FROM tipple.reject;
        RETURN NULL;
    END'
    """,
    """
    CREATE OR REPLACE TRIGGER forget_all_rejects AFTER TRUNCATE ON tipple.slice
    FOR EACH STATEMENT EXECUTE FUNCTION tipple.forget_all_rejects()
    """,
)
FETCHED_BYTES = 2 << 20
"""Of so many bytes are the rejects, at most, that are read at once, unless a single one is longer."""
_LONGEST_REJECT = "SELECT max(length(record) + length(reason)) FROM tipple.reject WHERE job_id = %s"


class LedgerJob(msgspec.Struct, kw_only=True):
    """A job's row."""

    job_id: str
    request_key: bytes | None
    state: str
    epoch: int
    request: dict[str, Any]
    plan: dict[str, Any]
    staging: str | None
    rows: int | None
    finished_at: str | None


def ensure(connection: psycopg.Connection[Any]) -> None:
    """Creates the ledger where it is missing.

    Raises:
        UsageError: the role may not; says what to grant.
    """
    if not exists(connection):
        try:
            with connection.transaction():
                _create(connection)
        except (errors.InsufficientPrivilege, errors.RaiseException) as error:
            withheld = estranged.withheld(connection, "tipple")
            if withheld is not None:
                raise _may_not_create(connection, f": {withheld.why}", withheld.remedy) from None
            told = server_error(error)
            if isinstance(error, errors.RaiseException) or files_hint(told) is not None:
                raise
            remedy = remedies.of_tablespace(connection, told)
            raise _may_not_create(connection, f": {told.message}", remedy) from None
    check_rights(connection)


def _create(connection: psycopg.Connection[Any]) -> None:
    # Two first loads at once would both find it missing.
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("ledger"),))
    if exists(connection):
        return
    if not _has_schema(connection):
        # IF NOT EXISTS would ask for the right to create schemas, also of whom one was made for.
        connection.execute("CREATE SCHEMA tipple")
    for statement in CREATE_STATEMENTS:
        connection.execute(statement)


def foresee(connection: psycopg.Connection[Any]) -> None:
    """Whether `ensure` will find what it needs; nothing is created.

    Raises:
        UsageError: as `ensure`.
    """
    if exists(connection):
        check_rights(connection)
        return
    if _has_schema(connection):
        allowed = "has_schema_privilege('tipple', 'USAGE') AND has_schema_privilege('tipple', 'CREATE')"
    else:
        allowed = "has_database_privilege(current_database(), 'CREATE')"
    found = connection.execute(f"SELECT {allowed}").fetchone()
    if found is not None and not found[0]:
        raise _may_not_create(connection, "")


def _has_schema(connection: psycopg.Connection[Any]) -> bool:
    found = connection.execute("SELECT to_regnamespace('tipple') IS NOT NULL").fetchone()
    return found is not None and bool(found[0])


def _may_not_create(connection: psycopg.Connection[Any], why: str, remedy: str | None = None) -> UsageError:
    role, database = current_role(connection), quote_identifier(connection.info.dbname)
    if remedy is None and _has_schema(connection):
        remedy = f"as the owner of the schema: GRANT USAGE, CREATE ON SCHEMA tipple TO {role};"
    elif remedy is None:
        remedy = (
            f"as an owner of the database: GRANT CREATE ON DATABASE {database} TO {role}; or, where it is to make no "
            f"other schema: CREATE SCHEMA tipple AUTHORIZATION {role};"
        )
    return UsageError(
        f"the role {role} may not create the ledger (schema tipple) in the database {database}{why}",
        hint=f"{remedy}\n  or load with --no-ledger, which gives up resuming and the protection against loading twice",
    )


# Of several rights that are asked for in one text, the server's functions want only one.
_ALLOWED = """
SELECT bool_and(has_schema_privilege(c.relnamespace, wanted.on_schema) AND has_table_privilege(c.oid, wanted.on_table))
FROM pg_class c, (VALUES ('USAGE', 'SELECT'), ('CREATE', 'INSERT'), ('USAGE', 'UPDATE'), ('USAGE', 'DELETE'))
    AS wanted (on_schema, on_table)
WHERE c.relnamespace = to_regnamespace('tipple') AND c.relname IN ('job', 'slice', 'reject')
    AND wanted.on_table = ANY (%s)
"""


def require_reading(connection: psycopg.Connection[Any]) -> None:
    """Whether the role may read the ledger that is there.

    Raises:
        UsageError: it may not; says what to grant.
    """
    allowed = connection.execute(_ALLOWED, (["SELECT"],)).fetchone()
    if allowed is not None and not allowed[0]:
        role = current_role(connection)
        raise UsageError(
            f"the role {role} may not read the ledger (schema tipple)",
            hint=f"as its owner: GRANT USAGE ON SCHEMA tipple TO {role}; "
            f"GRANT SELECT ON tipple.job, tipple.slice, tipple.reject TO {role};",
        )


def check_rights(connection: psycopg.Connection[Any]) -> None:
    """Whether the role may write the ledger that is there.

    Raises:
        UsageError: it may not; says what to grant.
    """
    allowed = connection.execute(_ALLOWED, (["SELECT", "INSERT", "UPDATE", "DELETE"],)).fetchone()
    if allowed is not None and not allowed[0]:
        role = current_role(connection)
        raise UsageError(
            f"the role {role} may not write the ledger (schema tipple)",
            hint=f"as its owner: GRANT USAGE, CREATE ON SCHEMA tipple TO {role}; "
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON tipple.job, tipple.slice, tipple.reject TO {role}; "
            "or load with --no-ledger",
        )


def rights_hint(connection: psycopg.Connection[Any], error: ServerError) -> str | None:
    """What to grant where the server has refused the ledger to this role in mid-load; None of any other error."""
    if not lacks_right(error) or not remedies.can_be_asked(connection):
        return None
    with suppress(psycopg.Error):
        try:
            if exists(connection):
                check_rights(connection)
        except UsageError as lacking:
            return lacking.hint
    return None


def exists(connection: psycopg.Connection[Any]) -> bool:
    """Whether the database has a ledger."""
    # By the catalog itself: to_regclass fails for a role that may not use the schema.
    found = connection.execute(
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'tipple' AND c.relname IN ('job', 'slice', 'reject')"
    ).fetchone()
    return found is not None and found[0] == 3


def lock_number(name: str) -> int:
    """The advisory lock for `name`, as a signed 64-bit number."""
    return int.from_bytes(hashlib.sha256(f"tipple {name}".encode()).digest()[:8], "big", signed=True)


def table_lock(table: TableName) -> int:
    """The advisory lock that the owner of a load into `table` holds for as long as it lives."""
    return lock_number(f"table {table.sql}")


def session_name(job_id: str) -> str:
    """What the sessions of a job have in their application_name, by which a new owner finds those of an old one."""
    return f"tipple {job_id[:8]}"


_JOB_COLUMNS = "job_id::text, request_key, state, epoch, request, plan, staging, rows, finished_at"


def _job(row: Sequence[Any]) -> LedgerJob:
    fields = LedgerJob.__struct_fields__
    *others, finished_at = row
    return LedgerJob(**dict(zip(fields, [*others, finished_at and in_utc(finished_at)], strict=True)))


def find_by_key(connection: psycopg.Connection[Any], request_key: bytes) -> LedgerJob | None:
    """The job with this key."""
    row = connection.execute(f"SELECT {_JOB_COLUMNS} FROM tipple.job WHERE request_key = %s", (request_key,)).fetchone()
    return None if row is None else _job(row)


def find_by_id(connection: psycopg.Connection[Any], job_id: str) -> LedgerJob | None:
    """The job whose id begins like this, if it is only one."""
    rows = connection.execute(
        f"SELECT {_JOB_COLUMNS} FROM tipple.job WHERE starts_with(job_id::text, %s) LIMIT 2",
        (job_id.lower(),),
    ).fetchall()
    return _job(rows[0]) if len(rows) == 1 else None


def no_such_job(job_id: str) -> UsageError:
    """Where `find_by_id` finds none, or several."""
    return UsageError(f"there is no single job {job_id}", hint="tipple jobs URL lists them")


def find_unfinished(connection: psycopg.Connection[Any], table: TableName) -> list[LedgerJob]:
    """Jobs into `table` that are neither published nor given up, newest first."""
    rows = connection.execute(
        f"SELECT {_JOB_COLUMNS} FROM tipple.job WHERE target = %s AND state = 'loading' ORDER BY started_at DESC",
        (table.sql,),
    ).fetchall()
    return [_job(row) for row in rows]


def owners(connection: psycopg.Connection[Any], table: TableName) -> list[tuple[int, str]]:
    """Backend and process (as `processes.py` has it) of the owners that unfinished jobs into `table` have, as far as
    they hold its lock."""
    rows = connection.execute(
        "SELECT owner_pid, owner FROM tipple.job WHERE target = %s AND state = 'loading'", (table.sql,)
    ).fetchall()
    held = locks(connection)
    return [(pid, owner) for pid, owner in rows if (pid, table_lock(table)) in held]


def locks(connection: psycopg.Connection[Any]) -> set[tuple[int, int]]:
    """Backends of this database and the advisory locks that they hold, by number."""
    return set(
        connection.execute(
            "SELECT pid, (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND objsubid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchall()
    )


def insert_job(
    connection: psycopg.Connection[Any],
    *,
    job_id: str,
    request_key: bytes | None,
    table: TableName,
    mode: str,
    request: dict[str, Any],
    plan: dict[str, Any],
    staging: str | None,
    slices: Sequence[dict[str, Any]],
    owner: str,
) -> None:
    """Writes a job and its slices; call it in the transaction that creates the staging table."""
    connection.execute(
        "INSERT INTO tipple.job (job_id, request_key, target, mode, request, plan, state, epoch, owner_pid, owner, "
        "staging) VALUES (%s, %s, %s, %s, %s, %s, 'loading', 1, pg_backend_pid(), %s, %s)",
        (job_id, request_key, table.sql, mode, json.dumps(request), json.dumps(plan), owner, staging),
    )
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY tipple.slice (job_id, n, source, byte_offset, byte_length, pieces) FROM STDIN") as copy,
    ):
        for part in slices:
            pieces = part["pieces"]
            length = sum(piece["length"] for piece in pieces)
            first = pieces[0]
            copy.write_row((job_id, part["n"], first["source"], first["offset"], length, json.dumps(pieces)))


def take_over(connection: psycopg.Connection[Any], job_id: str, owner: str) -> int:
    """Raises the job's epoch, which shuts out any earlier owner, and gives the new one."""
    row = connection.execute(
        "UPDATE tipple.job SET epoch = epoch + 1, owner_pid = pg_backend_pid(), owner = %s WHERE job_id = %s "
        "RETURNING epoch",
        (owner, job_id),
    ).fetchone()
    if row is None:
        raise TippleError(f"the job {job_id} is gone from the ledger")
    return int(row[0])


OWNED = "SELECT FROM tipple.job WHERE job_id = %s AND epoch = %s AND state = 'loading'"
"""Whether a job is still an owner's."""

OWN_AGAIN = "UPDATE tipple.job SET owner_pid = pg_backend_pid() WHERE job_id = %s AND epoch = %s AND state = 'loading'"
"""By a new session of the same owner."""


def slices(connection: psycopg.Connection[Any], job_id: str, state: str) -> list[dict[str, Any]]:
    """The job's slices in this state, as the core takes them."""
    rows = connection.execute(
        "SELECT n, pieces FROM tipple.slice WHERE job_id = %s AND state = %s ORDER BY n", (job_id, state)
    )
    return [{"n": n, "pieces": pieces} for n, pieces in rows]


def lacks_slices(connection: psycopg.Connection[Any], job_id: str, plan: Mapping[str, Any]) -> bool:
    """Whether slices are gone with which the job was begun, so that nobody knows what of its sources is to be read."""
    row = connection.execute(
        "SELECT count(*) FROM tipple.slice WHERE job_id = %s AND n < %s", (job_id, plan.get("first_n", FIRST_PART_N))
    ).fetchone()
    # Jobs of earlier versions do not say how many there were.
    return row is not None and int(row[0]) < plan.get("planned", 0)


def cut_slices(connection: psycopg.Connection[Any], job_id: str, first_n: int) -> list[tuple[int, int, int]]:
    """Number, first source and offset of the slices that were cut while their source was read: all of them are done."""
    return connection.execute(
        "SELECT n, source, byte_offset FROM tipple.slice WHERE job_id = %s AND n >= %s AND n < %s ORDER BY n",
        (job_id, first_n, FIRST_PART_N),
    ).fetchall()


def next_part_n(connection: psycopg.Connection[Any], job_id: str) -> int:
    """The number of the next slice that is the rest of another one."""
    row = connection.execute(
        "SELECT max(n) FROM tipple.slice WHERE job_id = %s AND n >= %s", (job_id, FIRST_PART_N)
    ).fetchone()
    return int(row[0]) + 1 if row is not None and row[0] is not None else FIRST_PART_N


class Totals(msgspec.Struct):
    """What the slices that are done come to."""

    slices: int = 0
    rows: int = 0
    rejects: int = 0
    digest: int | None = 0
    """The sum of their digests modulo 2^128; None where one has none."""

    def as_outcome(self, *, cut: int) -> dict[str, Any]:
        """The core's outcome of a transaction that has committed, but whose answer was lost, as the ledger knows it."""
        return {
            "rows": self.rows,
            "rejects": self.rejects,
            "digest": None if self.digest is None else f"{self.digest:032x}",
            "retries": 0,
            "fallback_windows": 0,
            "routes": {},
            "sources": [],
            "slices": [],
            "cut": [None] * cut,
        }


def done_totals(connection: psycopg.Connection[Any], job_id: str) -> Totals:
    """What the slices that are done come to."""
    totals = Totals()
    for rows, rejects, digest in connection.execute(
        "SELECT rows, rejects, row_digest FROM tipple.slice WHERE job_id = %s AND state = 'done'", (job_id,)
    ):
        totals.slices += 1
        totals.rows += rows or 0
        totals.rejects += rejects
        known = totals.digest is not None and digest is not None
        totals.digest = ((totals.digest or 0) + int(digest, 16)) % (1 << 128) if known else None
    return totals


# A slice of one piece begins where the slices of its source before it end; others hold whole sources. In slices that
# were cut while their source was read, jobs of earlier versions numbered records in the source already.
_PLACES = """
SELECT s.n, CASE WHEN s.single AND (s.n < j.first_n OR s.n >= %(parts)s) THEN s.before ELSE 0 END AS before, s.rejects
FROM (
    SELECT n, jsonb_array_length(pieces) = 1 AS single, rejects, coalesce(sum(rows + rejects) OVER (
        PARTITION BY source, jsonb_array_length(pieces) = 1 ORDER BY byte_offset
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::bigint AS before
    FROM tipple.slice WHERE job_id = %(job)s
) s, (
    SELECT coalesce(CASE WHEN plan ->> 'resyncs' IS NULL THEN (plan ->> 'first_n')::integer END, 2147483647) AS first_n
    FROM tipple.job WHERE job_id = %(job)s
) j
"""
"""By slice: how many records of its source come before it, and how many rejects it has."""


def reject_places(connection: psycopg.Connection[Any], job_id: str) -> tuple[dict[int, int], dict[int, int]]:
    """By slice, how many records of its source come before it, and how many rejects the job has of it."""
    places = connection.execute(_PLACES, {"job": job_id, "parts": FIRST_PART_N}).fetchall()
    return {n: before for n, before, _ in places if before}, {n: rejects for n, _, rejects in places if rejects}


def rejects(connection: psycopg.Connection[Any], job_id: str) -> Iterator[list[tuple[Any, ...]]]:
    """A job's rejects in the order of the sources, as `RejectFiles.add` takes them; call it in a transaction."""
    longest = connection.execute(_LONGEST_REJECT, (job_id,)).fetchone()
    at_once = max(1, FETCHED_BYTES // max(int(longest[0] or 0) if longest is not None else 0, 200))
    with connection.cursor(name="tipple_rejects", binary=True) as cursor:
        cursor.execute(
            f"""
            SELECT r.source, p.before + r.record_index + 1, r.byte_offset, r.column_name, r.reason, r.sqlstate, r.record
            FROM tipple.reject r JOIN ({_PLACES}) p USING (n)
            WHERE r.job_id = %(job)s ORDER BY r.source, r.byte_offset
            """.encode(),
            {"job": job_id, "parts": FIRST_PART_N},
        )
        while rows := cursor.fetchmany(at_once):
            yield rows


PUBLISHED_AT = (
    "greatest(clock_timestamp(), (SELECT max(other.finished_at) + interval '1 microsecond' FROM tipple.job other "
    "WHERE other.target = job.target AND other.state = 'published'))"
)
"""When a job is published: later than all others into its table, whose order counts, even if the clock was set back."""

PUBLISH = f"""
UPDATE tipple.job SET state = 'published', rows = %s, row_digest = %s, staging = NULL, owner_pid = NULL,
       finished_at = {PUBLISHED_AT}
WHERE job_id = %s AND epoch = %s AND state = 'loading'
"""

ADD_TO_PLAN = "UPDATE tipple.job SET plan = plan || %s::jsonb WHERE job_id = %s AND epoch = %s AND state = 'loading'"

SET_KEY = "UPDATE tipple.job SET request_key = %s WHERE job_id = %s"

SUPERSEDE = """
UPDATE tipple.job SET state = 'superseded', request_key = NULL, staging = NULL, owner_pid = NULL,
       finished_at = coalesce(finished_at, clock_timestamp()), epoch = epoch + 1
WHERE job_id = %s
"""

GIVE_UP = """
UPDATE tipple.job SET state = %s, request_key = NULL, staging = NULL, owner_pid = NULL,
       finished_at = clock_timestamp(), epoch = epoch + 1
WHERE job_id = %s AND state = 'loading'
"""


FORGET_REJECTS = """
DELETE FROM tipple.reject r USING tipple.job j
WHERE r.job_id = j.job_id AND (j.state = 'superseded' OR j.state IN ('failed', 'cancelled')
      AND NOT (j.plan ->> 'strategy' = 'incremental'
               AND EXISTS (SELECT FROM tipple.slice s WHERE s.job_id = j.job_id AND s.rows > 0)))
"""
"""The rejects of jobs that were given up: no command asks for them, unless the rows beside them are in the table."""


def records(connection: psycopg.Connection[Any]) -> list[JobRecord]:
    """All jobs, newest first."""
    rows = connection.execute(
        """
        SELECT j.job_id::text, j.state, j.target, j.mode, count(s.n), count(s.n) FILTER (WHERE s.state = 'done'),
               coalesce(j.rows, sum(s.rows), 0)::bigint, j.started_at, j.finished_at,
               j.owner_pid,
               j.staging, j.request -> 'sources', j.state = 'published' AND j.plan ? 'unlogged',
               CASE WHEN j.state IN ('loading', 'failed', 'cancelled') AND j.plan ->> 'strategy' = 'incremental'
               THEN coalesce(sum(s.rows), 0) ELSE 0 END::bigint, j.request ->> 'replays',
               coalesce(sum(s.rejects), 0)::bigint, j.request -> 'options'
        FROM tipple.job j LEFT JOIN tipple.slice s USING (job_id)
        GROUP BY j.job_id ORDER BY j.started_at DESC
        """
    ).fetchall()
    # By the lock and not by the session's name, which is the user's own where there is one.
    held = locks(connection)
    return [
        JobRecord(
            job_id=row[0],
            state="lost"
            if row[12] and unlogged.is_surely_lost(connection, row[0], parse_table_name(row[2]))
            else row[1],
            table=str(parse_table_name(row[2])),
            mode=row[3],
            slices=row[4],
            slices_done=row[5],
            # What was staged is gone with a job that was given up.
            rows=row[13] if row[1] in ("failed", "cancelled") else row[6],
            started_at=in_utc(row[7]),
            finished_at=row[8] and in_utc(row[8]),
            running=row[1] == "loading" and (row[9], table_lock(parse_table_name(row[2]))) in held,
            staging=row[10],
            sources=tuple(source["path"] for source in row[11] or ()),
            rejects=row[15],
            replays=row[14],
            visible_rows=row[13],
            options=row[16],
        )
        for row in rows
    ]
