"""What in a PostgreSQL server would slow a load down or break it, each with its effect and its remedy.

A check looks at one thing and needs no more rights than a load does; what only a superuser may see is looked at where
the role may, and left out where it may not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import msgspec
import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.findings import Finding, disk_finding, graded, is_small, refused
from tipple.engines.postgresql import direct, extension, ledger, stage, tablespaces, unlogged
from tipple.engines.postgresql.connection import MAY_WRITE, current_role
from tipple.engines.postgresql.doctor_settings import LEAST, RELOAD, below, setting
from tipple.engines.postgresql.doctor_table import costs, examine_table
from tipple.engines.postgresql.extension import EXTENSION
from tipple.engines.postgresql.place import estranged
from tipple.errors import UsageError
from tipple.plan.size import format_bytes
from tipple.plan.url import TableName

Connection = psycopg.Connection[Any]
Check = Callable[[Connection], Iterator[Finding]]

OLD_TRANSACTION_MINUTES = 10
SHOWN_NAMES = 5
"""Of a longer list so many are told, and how many more there are."""
_MANY_STANDBYS = re.compile(r"(?:(?:ANY|FIRST)\s*)?(\d+)\s*\(", re.IGNORECASE)
"""How `synchronous_standby_names` begins where a COMMIT waits for several."""


def examine(connection: Connection, table: TableName | None, source_bytes: int = 0) -> list[Finding]:
    """Everything that is worth telling, the target's table too where one is named.

    Args:
        connection: of the database.
        table: the table that is to be loaded.
        source_bytes: size of what is to be loaded; 0 where that is not known.
    """
    findings = _carry_out(connection, CHECKS)
    findings += _disks(connection, source_bytes)
    if table is not None:
        findings += examine_table(connection, table)
    return findings


def before_load(connection: Connection, task: LoadTask, *, swaps: bool) -> list[Finding]:
    """What this load should know: a few quick looks, at what can hurt it only.

    Args:
        connection: of the database.
        task: the load.
        swaps: whether the rows go into a table of their own, and not straight into the one that is named.
    """
    table, source_bytes = task.table, task.source_bytes
    checks: list[Check] = [_safety, _slots, _publications]
    if not swaps and not is_small(source_bytes):
        checks.append(lambda connection: _straight_in(connection, table))
    if source_bytes:
        checks.append(lambda connection: _checkpoints(connection, task))
        checks.append(lambda connection: _disks(connection, source_bytes, tablespaces.used(connection, task)))
    return [finding for finding in _carry_out(connection, checks) if finding.level in ("broken", "slow")]


def _straight_in(connection: Connection, table: TableName) -> Iterator[Finding]:
    row = connection.execute("SELECT to_regclass(%s)::oid", (table.sql,)).fetchone()
    if row is not None and row[0] is not None:
        yield from costs(connection, table, row[0])


def _checkpoints(connection: Connection, task: LoadTask) -> Iterator[Finding]:
    """Whether the load writes so much WAL that checkpoints come one after another."""
    minimal = setting(connection, "wal_level")["wal_level"] == "minimal"
    # Pages are not logged there; what COPY brings is, at every level.
    if minimal and task.write_path in ("auto", "direct") and direct.unavailable(connection, task) is None:
        return
    wanted = next(least for least in LEAST if least.name == "max_wal_size")
    yield from below(connection, [msgspec.structs.replace(wanted, least=min(wanted.least, task.source_bytes))])


def _carry_out(connection: Connection, checks: Sequence[Check]) -> list[Finding]:
    findings: list[Finding] = []
    for check in checks:
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
    return findings


def _version(connection: Connection) -> Iterator[Finding]:
    version = connection.info.server_version
    text = f"PostgreSQL {version // 10000}.{version % 10000}"
    yield Finding(level="ok", subject="version", found=text)


def _safety(connection: Connection) -> Iterator[Finding]:
    for name, value in setting(connection, "fsync", "full_page_writes").items():
        if value == "off":
            yield Finding(
                level="broken",
                subject=name,
                found="off",
                effect="after a crash of the machine the database may be damaged, whatever was committed",
                remedy=RELOAD.format(name=name, value="on"),
            )


def _event_triggers(connection: Connection) -> Iterator[Finding]:
    found = estranged.triggers_of_new(connection)
    if found:
        yield Finding(
            level="note",
            subject="event triggers",
            found=f"CREATE TABLE runs {', '.join(found)}",
            effect="rows come into a table that is made for them: where a trigger gives it row security, for example, "
            "they are copied, for it must not take the place of the one that is loaded",
            remedy=f"have them leave out tables whose names are {stage.PREFIX} and 32 hexadecimal digits",
        )


def _wal_level(connection: Connection) -> Iterator[Finding]:
    level = setting(connection, "wal_level")["wal_level"]
    yield graded(
        level == "minimal",
        "note",
        subject="wal_level",
        found=level,
        effect="pages of the extension, indexes and tables that are rewritten go to the WAL too (what COPY brings "
        "does at every level)",
        remedy="where there is neither a standby nor an archive: wal_level = minimal, max_wal_senders = 0, restart",
    )


def _settings(connection: Connection) -> Iterator[Finding]:
    yield from below(connection)


def _extension(connection: Connection) -> Iterator[Finding]:
    obstacle = extension.obstacle(connection)
    row = connection.execute(
        "SELECT installed_version FROM pg_available_extensions WHERE name = %s", (EXTENSION,)
    ).fetchone()
    if obstacle is not None and obstacle.remedy is not None:
        remedy = f"as a superuser: {obstacle.remedy};"
    elif row is None:
        remedy = f"on the server's machine: make -C extension install; then CREATE EXTENSION {EXTENSION};"
    elif row[0] is None:
        remedy = f"as a superuser: CREATE EXTENSION {EXTENSION}; GRANT {EXTENSION} TO {current_role(connection)};"
    else:
        remedy = f"install a newer one; then, as a superuser: ALTER EXTENSION {EXTENSION} UPDATE;"
    yield graded(
        obstacle is None,
        "note",
        subject=EXTENSION,
        found=obstacle.why
        if obstacle is not None
        else f"version {row[0] if row is not None else ''}, which this role may use",
        effect="rows go in by COPY; ready-made pages (--write-path direct) would be several times as fast",
        remedy=remedy,
    )


# A session whose role lets this one see of it no more than that it is there.
_HIDDEN = "backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL"


def _connections(connection: Connection) -> Iterator[Finding]:
    row = connection.execute(
        "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int, "
        f"(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' OR {_HIDDEN})"
    ).fetchone()
    most, used = row or (0, 0)
    yield graded(
        most - used >= 8,
        "slow",
        subject="connections",
        found=f"{used} of {most} in use",
        effect="there is no room for many streams (-j)",
        remedy="ALTER SYSTEM SET max_connections = '…'; then restart the server",
    )


def _slots(connection: Connection) -> Iterator[Finding]:
    for name, bytes_kept in connection.execute(
        "SELECT slot_name, pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
        "ELSE pg_current_wal_lsn() END, restart_lsn)::bigint FROM pg_replication_slots "
        # One that nobody has read from yet, or that was lost, keeps none.
        "WHERE NOT active AND restart_lsn IS NOT NULL AND wal_status IS DISTINCT FROM 'lost'"
    ).fetchall():
        yield Finding(
            level="broken",
            subject=f"replication slot {name}",
            found=f"nobody reads it; it keeps {format_bytes(bytes_kept)} of WAL",
            effect="all WAL of the load is kept too, until the disk is full",
            remedy=f"start its standby, or SELECT pg_drop_replication_slot('{name}');",
        )


def _replication(connection: Connection) -> Iterator[Finding]:
    # Of others' sessions a role that may not read their statistics sees nothing but that they are there.
    standbys = connection.execute(
        "SELECT coalesce(nullif(application_name, ''), pid::text), coalesce(sync_state, 'sync') IN ('sync', 'quorum') "
        "FROM pg_stat_replication ORDER BY 1"
    ).fetchall()
    if standbys:
        yield Finding(
            level="note",
            subject="standbys",
            found=", ".join(name for name, _ in standbys[:5]),
            effect="all WAL of the load goes to them too; until they have it, the server keeps it",
            remedy="none, if they must have the rows",
        )
    found = setting(connection, "synchronous_standby_names", "synchronous_commit")
    names = found["synchronous_standby_names"] if found["synchronous_commit"] not in ("off", "local") else ""
    wanted = int(many[1]) if (many := _MANY_STANDBYS.match(names)) is not None else 1
    there = sum(is_synchronous for _, is_synchronous in standbys)
    if names and there < wanted:
        yield Finding(
            level="broken",
            subject="synchronous_standby_names",
            found=f"{names}, and {there} of the {wanted} standbys that a COMMIT waits for are there",
            effect="the first COMMIT of a load waits without end",
            remedy="start them, or ALTER SYSTEM SET synchronous_standby_names = ''; SELECT pg_reload_conf();",
        )
    elif names:
        yield Finding(
            level="slow",
            subject="synchronous_standby_names",
            found=names,
            effect="the publishing commit waits for the standby to have all WAL of the load",
            remedy="none, if the standby must not lose anything",
        )


def _writable(connection: Connection) -> Iterator[Finding]:
    if (connection.execute("SELECT pg_is_in_recovery()").fetchone() or (False,))[0]:
        yield Finding(
            level="broken",
            subject="server",
            found="it is a standby",
            effect="nothing can be written",
            remedy="name the primary in the URL, or add target_session_attrs=read-write",
        )
    elif setting(connection, "default_transaction_read_only")["default_transaction_read_only"] == "on":
        yield Finding(
            level="broken",
            subject="default_transaction_read_only",
            found="on",
            effect="the load is refused",
            remedy=MAY_WRITE,
        )


def _encoding(connection: Connection) -> Iterator[Finding]:
    found = setting(connection, "server_encoding", "TimeZone")
    if found["server_encoding"] != "UTF8":
        yield Finding(
            level="note",
            subject="server_encoding",
            found=found["server_encoding"],
            effect="text is converted by the server; a character that it does not have is refused",
            remedy="for a new database: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0;",
        )
    yield Finding(level="ok", subject="TimeZone", found=f"{found['TimeZone']}: what timestamptz without a zone means")


def _language(connection: Connection) -> Iterator[Finding]:
    # In the language of the session, where the server has it installed.
    found = connection.execute("SELECT setting, short_desc FROM pg_settings WHERE name = 'lc_messages'").fetchone()
    if found is not None and not found[1].startswith("Sets the language"):
        yield Finding(
            level="note",
            subject="lc_messages",
            found=f"{found[0]}, and this role may not choose another language",
            effect="what the server says of a record or a table is told in its language, and some remedies are less "
            "exact than they are in English",
            remedy=f"as a superuser: GRANT SET ON PARAMETER lc_messages TO {current_role(connection)};",
        )


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
    ((hidden,),) = connection.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {_HIDDEN}".encode()).fetchall()
    if hidden:
        yield Finding(
            level="note",
            subject="transactions of other roles",
            found=f"the server hides from this role what {hidden:,} of its sessions do",
            effect="whether one has been open for long, which --mode replace waits for, is not known",
            remedy=f"as a superuser: GRANT pg_read_all_stats TO {current_role(connection)};",
        )


def _ledger(connection: Connection) -> Iterator[Finding]:
    try:
        ledger.foresee(connection)
    except UsageError as error:
        yield refused("ledger", error)
        return
    for job in ledger.records(connection) if ledger.exists(connection) else []:
        if job.state == "loading" and not job.running:
            yield Finding(
                level="note",
                subject=f"job {job.job_id}",
                found=f"left unfinished: {job.slices_done} of {job.slices} slices into {job.table}",
                effect="what it staged takes room",
                remedy="run its command again, or: tipple jobs URL clean",
            )


def _disks(connection: Connection, source_bytes: int = 0, names: Container[str] | None = None) -> Iterator[Finding]:
    """The disks of tablespaces (None: all of them) and of the data directory, which has the WAL, where the server is on
    this machine: PostgreSQL itself does not tell."""
    rows = connection.execute(
        "SELECT 'pg_default', setting FROM pg_settings WHERE name = 'data_directory' UNION ALL "
        "SELECT spcname, pg_tablespace_location(oid) FROM pg_tablespace WHERE pg_tablespace_location(oid) <> ''"
    ).fetchall()
    if not _is_here(connection):
        rows = []
    seen = False
    for name, directory in rows:
        is_used = names is None or name == "pg_default" or name in names
        if is_used and directory and os.path.isdir(directory):
            seen = True
            yield disk_finding(directory, source_bytes, subject=f"disk of tablespace {name} ({directory})")
    hides = _is_here(connection) and not any(name == "pg_default" for name, _ in rows)
    if hides:
        have = f"; the sources have {format_bytes(source_bytes)}" if source_bytes else ""
        yield Finding(
            level="note",
            subject="disk of tablespace pg_default",
            found=f"the server does not tell this role where its data directory is{have}",
            effect="whether there is room in it is not known",
            remedy=f"as a superuser: GRANT pg_read_all_settings TO {current_role(connection)};",
        )
    if source_bytes and not seen and not hides:
        yield Finding(
            level="note",
            subject="disk",
            found=f"the server's disks cannot be seen from here; the sources have {format_bytes(source_bytes)}",
            effect="whether there is room for them is not known",
            remedy="df on the server's machine: about the size of the sources, and WAL and indexes on top",
        )


def _is_here(connection: Connection) -> bool:
    row = connection.execute("SELECT inet_server_addr() IS NULL OR inet_server_addr() = inet_client_addr()").fetchone()
    return row is not None and bool(row[0])


_ORPHANS = """
WITH d AS (
    SELECT 'base/' || db.oid AS dir, db.dattablespace AS space FROM pg_database db
    WHERE datname = current_database() AND dattablespace = (SELECT oid FROM pg_tablespace WHERE spcname = 'pg_default')
    UNION ALL
    SELECT 'pg_tblspc/' || t.oid || '/' || v || '/' || db.oid, t.oid
    FROM pg_tablespace t, pg_ls_dir('pg_tblspc/' || t.oid, true, false) v, pg_database db
    WHERE pg_tablespace_location(t.oid) <> '' AND datname = current_database()
)
SELECT dir || '/' || f, s.size
FROM d, pg_ls_dir(dir, true, false) f, pg_stat_file(dir || '/' || f, true) s
WHERE f ~ '^[0-9]+$' AND s.modification < now() - interval '1 hour' AND NOT EXISTS (
    SELECT FROM pg_class c, pg_database db WHERE db.datname = current_database()
    AND pg_relation_filenode(c.oid) = f::oid
    AND coalesce(nullif(c.reltablespace, 0), db.dattablespace) = d.space)
"""


def _orphans(connection: Connection) -> Iterator[Finding]:
    """Files of tables whose creating transaction was lost in a crash; PostgreSQL never removes them."""
    allowed = connection.execute(
        "SELECT has_function_privilege('pg_ls_dir(text, boolean, boolean)', 'EXECUTE') "
        "AND has_function_privilege('pg_stat_file(text, boolean)', 'EXECUTE')"
    ).fetchone()
    if allowed is None or not allowed[0]:
        yield Finding(
            level="ok", subject="orphan files", found="only a superuser may look for files that crashed loads left"
        )
        return
    rows = connection.execute(_ORPHANS).fetchall()
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
    if unlogged.is_spoilt(connection):
        yield Finding(
            level="broken",
            subject="ledger",
            found=unlogged.SPOILT,
            effect="loads into unlogged tables are refused, for nobody knows what a crash has taken from them",
            remedy=unlogged.UNSPOIL,
        )
    try:
        unlogged.check_rights(connection)
    except UsageError as error:
        yield Finding(
            level="note",
            subject="ledger",
            found=str(error),
            effect="loads into unlogged tables are refused, and jobs that a crash has taken are listed as published",
            remedy=error.hint or "",
        )
    # The ledger's own is unlogged for a reason, and must stay so.
    rows = connection.execute(
        "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE relpersistence = 'u' AND relkind = 'r' AND nspname <> 'tipple' ORDER BY 1"
    ).fetchall()
    if rows:
        names = [name for (name,) in rows]
        statements = " ".join(f"ALTER TABLE {name} SET LOGGED;" for name in names[:SHOWN_NAMES])
        more = f" and so for {len(names) - SHOWN_NAMES:,} more" if len(names) > SHOWN_NAMES else ""
        yield Finding(
            level="note",
            subject="unlogged tables",
            found=_listed(names),
            effect="they are emptied by a crash, and standbys do not have them",
            remedy=f"where their rows matter: {statements}{more}",
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_NAMES:,} more" if len(names) > SHOWN_NAMES else ""
    return f"{', '.join(names[:SHOWN_NAMES])}{more}"


def _publications(connection: Connection) -> Iterator[Finding]:
    rows = connection.execute("SELECT pubname FROM pg_publication WHERE puballtables ORDER BY 1").fetchall()
    if rows:
        yield Finding(
            level="slow",
            subject="publications for all tables",
            found=_listed([name for (name,) in rows]),
            effect="every row of every load is decoded and sent to the subscribers, those of Tipple's ledger too: a "
            "subscriber without the schema tipple stops",
            remedy="publish the tables that subscribers need by name, or schema by schema",
        )


CHECKS: tuple[Check, ...] = (
    _version,
    _writable,
    _safety,
    _wal_level,
    _event_triggers,
    _settings,
    _connections,
    _extension,
    _slots,
    _replication,
    _encoding,
    _language,
    _old_transactions,
    _ledger,
    _orphans,
    _unlogged,
    _publications,
)
