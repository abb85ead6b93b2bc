"""What in a PostgreSQL server would slow a load down or break it, each with its effect and its remedy.

A check looks at one thing and needs no more rights than a load does; what only a superuser may see is looked at where
the role may, and left out where it may not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from tipple.engines.findings import Finding, StorageSize, disk_finding
from tipple.engines.postgresql import ledger, stage
from tipple.plan.size import format_bytes, parse_size
from tipple.plan.url import TableName

Connection = psycopg.Connection[Any]
Check = Callable[[Connection], Iterator[Finding]]

SMALL_WAL_BYTES = 4 << 30
SMALL_BUFFERS_BYTES = 512 << 20
SMALL_MAINTENANCE_BYTES = 256 << 20
SHORT_CHECKPOINT_SECONDS = 15 * 60
OLD_TRANSACTION_MINUTES = 10
ALTER = "ALTER SYSTEM SET {name} = '{value}'; SELECT pg_reload_conf();"


def examine(connection: Connection, table: TableName | None) -> list[Finding]:
    """Everything that is worth telling, the target's table too where one is named."""
    findings: list[Finding] = []
    for check in CHECKS:
        try:
            # A savepoint of its own: a right that is missing must not end the other checks.
            with connection.transaction():
                findings += check(connection)
        except psycopg.errors.InsufficientPrivilege as error:
            findings.append(
                Finding(
                    level="note",
                    subject=check.__name__.strip("_").replace("_", " "),
                    found=f"this role may not look: {error.diag.message_primary}",
                )
            )
    if table is not None:
        findings += _table(connection, table)
    return findings


def _settings(connection: Connection, *names: str) -> dict[str, str]:
    rows = connection.execute(
        "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)", (list(names),)
    )
    return dict(rows.fetchall())


def _bytes(text: str) -> int:
    """A setting such as `128MB`, in bytes; PostgreSQL's kB and MB are powers of two."""
    return parse_size(text.replace("kB", "KiB").replace("MB", "MiB").replace("GB", "GiB").replace("TB", "TiB"))


def _version(connection: Connection) -> Iterator[Finding]:
    version = connection.info.server_version
    text = f"PostgreSQL {version // 10000}.{version % 10000}"
    yield Finding(level="ok", subject="version", found=text)


def _safety(connection: Connection) -> Iterator[Finding]:
    for name, value in _settings(connection, "fsync", "full_page_writes").items():
        if value == "off":
            yield Finding(
                level="broken",
                subject=name,
                found="off",
                effect="after a crash of the machine the database may be damaged, whatever was committed",
                remedy=ALTER.format(name=name, value="on"),
            )


def _wal(connection: Connection) -> Iterator[Finding]:
    found = _settings(connection, "wal_level", "max_wal_size", "checkpoint_timeout", "archive_mode")
    if found["wal_level"] == "minimal":
        yield Finding(level="ok", subject="wal_level", found="minimal")
    else:
        yield Finding(
            level="note",
            subject="wal_level",
            found=found["wal_level"],
            effect="every row is written twice: to the WAL, and to the table",
            remedy="where there is neither a standby nor an archive: wal_level = minimal, max_wal_senders = 0, restart",
        )
    if _bytes(found["max_wal_size"]) < SMALL_WAL_BYTES:
        yield Finding(
            level="slow",
            subject="max_wal_size",
            found=found["max_wal_size"],
            effect="a large load forces a checkpoint each time so much WAL is written",
            remedy=ALTER.format(name="max_wal_size", value="16GB"),
        )
    (seconds,) = connection.execute(
        "SELECT extract(epoch FROM current_setting('checkpoint_timeout')::interval)"
    ).fetchone() or (0,)
    if seconds < SHORT_CHECKPOINT_SECONDS:
        yield Finding(
            level="slow",
            subject="checkpoint_timeout",
            found=found["checkpoint_timeout"],
            effect="checkpoints in the middle of a load write pages that soon change again",
            remedy=ALTER.format(name="checkpoint_timeout", value="30min"),
        )


def _memory(connection: Connection) -> Iterator[Finding]:
    found = _settings(connection, "shared_buffers", "maintenance_work_mem")
    if _bytes(found["shared_buffers"]) < SMALL_BUFFERS_BYTES:
        yield Finding(
            level="slow",
            subject="shared_buffers",
            found=found["shared_buffers"],
            effect="indexes that do not fit are read again and again while rows go in",
            remedy="ALTER SYSTEM SET shared_buffers = '…'; (a quarter of the server's memory), then restart it",
        )
    if _bytes(found["maintenance_work_mem"]) < SMALL_MAINTENANCE_BYTES:
        yield Finding(
            level="slow",
            subject="maintenance_work_mem",
            found=found["maintenance_work_mem"],
            effect="indexes are built after the load by sorting on disk",
            remedy=ALTER.format(name="maintenance_work_mem", value="1GB"),
        )


def _workers(connection: Connection) -> Iterator[Finding]:
    for name, value in _settings(connection, "max_parallel_maintenance_workers", "max_worker_processes").items():
        if int(value) < 2:
            yield Finding(
                level="slow",
                subject=name,
                found=value,
                effect="an index is built by one process",
                remedy=ALTER.format(name=name, value="4"),
            )


def _connections(connection: Connection) -> Iterator[Finding]:
    row = connection.execute(
        "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int, "
        "(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')"
    ).fetchone()
    most, used = row or (0, 0)
    level = "ok" if most - used >= 8 else "slow"
    yield Finding(
        level=level,  # type: ignore[arg-type]
        subject="connections",
        found=f"{used} of {most} in use",
        effect="" if level == "ok" else "there is no room for many streams (-j)",
        remedy="" if level == "ok" else "ALTER SYSTEM SET max_connections = '…'; then restart the server",
    )


def _replication(connection: Connection) -> Iterator[Finding]:
    for name, bytes_kept in connection.execute(
        "SELECT slot_name, pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
        "ELSE pg_current_wal_lsn() END, restart_lsn)::bigint FROM pg_replication_slots WHERE NOT active"
    ).fetchall():
        yield Finding(
            level="broken",
            subject=f"replication slot {name}",
            found=f"nobody reads it; it keeps {format_bytes(bytes_kept or 0)} of WAL",
            effect="all WAL of the load is kept too, until the disk is full",
            remedy=f"start its standby, or SELECT pg_drop_replication_slot('{name}');",
        )
    found = _settings(connection, "synchronous_standby_names", "synchronous_commit")
    if found["synchronous_standby_names"]:
        yield Finding(
            level="slow",
            subject="synchronous_standby_names",
            found=found["synchronous_standby_names"],
            effect="the publishing commit waits for the standby to have all WAL of the load",
            remedy="none, if the standby must not lose anything",
        )
    if (connection.execute("SELECT pg_is_in_recovery()").fetchone() or (False,))[0]:
        yield Finding(
            level="broken",
            subject="server",
            found="it is a standby",
            effect="nothing can be written",
            remedy="name the primary in the URL, or add target_session_attrs=read-write",
        )


def _encoding(connection: Connection) -> Iterator[Finding]:
    found = _settings(connection, "server_encoding", "TimeZone")
    if found["server_encoding"] != "UTF8":
        yield Finding(
            level="note",
            subject="server_encoding",
            found=found["server_encoding"],
            effect="text is converted by the server; a character that it does not have is refused",
            remedy="for a new database: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0;",
        )
    yield Finding(level="ok", subject="TimeZone", found=f"{found['TimeZone']}: what timestamptz without a zone means")


def _old_transactions(connection: Connection) -> Iterator[Finding]:
    rows = connection.execute(
        "SELECT pid, usename, extract(epoch FROM now() - xact_start)::int / 60 FROM pg_stat_activity "
        "WHERE xact_start < now() - make_interval(mins => %s) AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 5",
        (OLD_TRANSACTION_MINUTES,),
    ).fetchall()
    for pid, role, minutes in rows:
        yield Finding(
            level="slow",
            subject=f"session {pid}",
            found=f"{role or 'a process of the server'} has had a transaction open for {minutes} minutes",
            effect="--mode replace waits for it, and then copies rows instead of swapping tables",
            remedy=f"end it: SELECT pg_terminate_backend({pid});",
        )


def _ledger(connection: Connection) -> Iterator[Finding]:
    role, database = connection.info.user, connection.info.dbname
    if not ledger.exists(connection):
        allowed = connection.execute("SELECT has_database_privilege(current_database(), 'CREATE')").fetchone()
        if allowed is not None and not allowed[0]:
            yield Finding(
                level="broken",
                subject="ledger",
                found=f'the role "{role}" may not create the schema tipple',
                effect="a load needs --no-ledger, and cannot be resumed",
                remedy=f'as an owner of the database: GRANT CREATE ON DATABASE "{database}" TO "{role}";',
            )
        return
    for job in ledger.records(connection):
        if job.state == "loading" and not job.running:
            yield Finding(
                level="note",
                subject=f"job {job.job_id}",
                found=f"left unfinished: {job.slices_done} of {job.slices} slices into {job.table}",
                effect="what it staged takes room",
                remedy="run its command again, or: tipple jobs URL clean",
            )


def _disk(connection: Connection) -> Iterator[Finding]:
    """Only where the server's directory can be seen from here: PostgreSQL itself does not tell."""
    row = connection.execute(
        "SELECT setting FROM pg_settings WHERE name = 'data_directory' "
        "AND (inet_server_addr() IS NULL OR inet_server_addr() = inet_client_addr())"
    ).fetchone()
    if row is None or not row[0]:
        return
    if os.path.isdir(row[0]):
        yield disk_finding(row[0])


def _orphans(connection: Connection) -> Iterator[Finding]:
    """Files of tables whose creating transaction was lost in a crash; PostgreSQL never removes them."""
    allowed = connection.execute(
        "SELECT has_function_privilege('pg_ls_dir(text)', 'EXECUTE') "
        "AND has_function_privilege('pg_stat_file(text)', 'EXECUTE')"
    ).fetchone()
    if allowed is None or not allowed[0]:
        return
    rows = connection.execute(
        """
        SELECT f, (pg_stat_file(d || '/' || f)).size
        FROM (SELECT 'base/' || oid AS d FROM pg_database WHERE datname = current_database()) dir, pg_ls_dir(d) f
        WHERE f ~ '^[0-9]+$' AND (pg_stat_file(d || '/' || f)).modification < now() - interval '1 hour'
          AND f::oid NOT IN (SELECT pg_relation_filenode(oid) FROM pg_class WHERE pg_relation_filenode(oid) IS NOT NULL)
        """
    ).fetchall()
    if rows:
        size = sum(size for _, size in rows)
        names = ", ".join(name for name, _ in rows[:5])
        yield Finding(
            level="note",
            subject="orphan files",
            found=f"{len(rows)} files that belong to no table, {format_bytes(size)}: {names}",
            effect="they take room, and the server never removes them",
            remedy="with the server stopped, remove them from the database's directory after a backup",
        )


def _unlogged(connection: Connection) -> Iterator[Finding]:
    rows = connection.execute(
        "SELECT oid::regclass::text FROM pg_class WHERE relpersistence = 'u' AND relkind = 'r' ORDER BY 1 LIMIT 5"
    ).fetchall()
    if rows:
        yield Finding(
            level="note",
            subject="unlogged tables",
            found=", ".join(name for (name,) in rows),
            effect="they are emptied by a crash, and standbys do not have them",
            remedy="ALTER TABLE … SET LOGGED; where their rows matter",
        )


CHECKS: tuple[Check, ...] = (
    _version,
    _safety,
    _wal,
    _memory,
    _workers,
    _connections,
    _replication,
    _encoding,
    _old_transactions,
    _ledger,
    _disk,
    _orphans,
    _unlogged,
)


def _table(connection: Connection, table: TableName) -> Iterator[Finding]:
    """What the table itself does to a load."""
    oid = connection.execute("SELECT to_regclass(%s)::oid", (table.sql,)).fetchone()
    subject = f"table {table}"
    if oid is None or oid[0] is None:
        yield Finding(
            level="note", subject=subject, found="it does not exist", remedy="tipple load … --schema FILE.sql"
        )
        return
    allowed = connection.execute("SELECT has_table_privilege(%s, 'INSERT')", (oid[0],)).fetchone()
    if allowed is not None and not allowed[0]:
        yield Finding(
            level="broken",
            subject=subject,
            found="this role may not insert into it",
            effect="the load is refused",
            remedy=f'as its owner: GRANT SELECT, INSERT ON {table.sql} TO "{connection.info.user}";',
        )
    why = stage.obstacle(connection, table) or stage.missing_right(connection, table)
    if why is None and not stage.is_empty(connection, table):
        why = "it has rows already (--mode append)"
    if why is not None:
        yield Finding(
            level="slow",
            subject=subject,
            found=why,
            effect="one session stores all rows, for one commit: streams only parse",
            remedy="load into an empty table that nothing depends on, or --no-atomic for parallel sessions",
        )
    rows = connection.execute(
        "SELECT i.indexrelid::regclass::text, pg_relation_size(i.indexrelid) FROM pg_index i WHERE i.indrelid = %s",
        (oid[0],),
    ).fetchall()
    if rows:
        yield Finding(
            level="slow",
            subject=subject,
            found=f"{len(rows)} indexes ({format_bytes(sum(size for _, size in rows))}): "
            + ", ".join(name for name, _ in rows[:5]),
            effect="each row is entered in each of them while it goes in, unless the table is swapped",
            remedy="drop those that the load can do without, and create them again afterwards",
        )


def sizes(connection: Connection, table: TableName | None) -> list[StorageSize]:
    """Tables, partitions and indexes with their bounds, pages, bytes and rows."""
    rows = connection.execute(
        """
        SELECT c.oid::regclass::text, c.relkind::text, c.relispartition,
               coalesce(i.indrelid, h.inhparent)::regclass::text, pg_get_expr(c.relpartbound, c.oid),
               pg_relation_size(c.oid) / current_setting('block_size')::bigint,
               CASE WHEN c.relkind = 'i' THEN pg_relation_size(c.oid) ELSE pg_table_size(c.oid) END,
               CASE WHEN c.reltuples < 0 THEN NULL ELSE c.reltuples::bigint END
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_index i ON i.indexrelid = c.oid
        LEFT JOIN pg_inherits h ON h.inhrelid = c.oid AND c.relispartition
        WHERE c.relkind IN ('r', 'p', 'i', 'm')
          AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'tipple')
          AND (%(table)s::text IS NULL OR coalesce(i.indrelid, c.oid) = to_regclass(%(table)s)
               OR coalesce(i.indrelid, c.oid) IN (SELECT relid FROM pg_partition_tree(to_regclass(%(table)s))))
        ORDER BY coalesce(h.inhparent, i.indrelid, c.oid), c.relkind = 'i', c.oid
        """,
        {"table": table.sql if table is not None else None},
    ).fetchall()
    kinds = {"r": "table", "p": "partitioned table", "i": "index", "m": "materialized view"}
    return [
        StorageSize(
            name=name,
            kind="partition" if is_partition and kind in "rp" else kinds[kind],
            parent=parent,
            bound=bound,
            pages=pages,
            bytes=size,
            rows=count,
        )
        for name, kind, is_partition, parent, bound, pages, size, count in rows
    ]
