"""The write path `direct`: ready-made heap pages, appended by the server extension `tipple_direct`.

All pages are one transaction, into a staging table, or its partitions, that it has emptied itself; publishing is as
for `swap` or `partition`. A staging table is bare: constraints are added, and so checked by the server over all rows,
before it is published. A partition has its bounds and CHECK constraints: by them the server judges each row on the
pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from tipple.engines import core
from tipple.engines.postgresql import extension
from tipple.engines.postgresql.partitioned import partition_bounds
from tipple.engines.server_errors import ServerError, files_hint, is_of_functions
from tipple.errors import BadRecord, TippleError
from tipple.plan.url import TableName

if TYPE_CHECKING:
    from tipple.engines.base import LoadTask

PACKING_VERSION = (1, 4)
"""Of the extension, that unpacks pages which went packed over a network."""

SLOT_BYTES = 1 << 20
"""Pages that a stream builds before it hands them over. All that are under way to a server on this machine should fit
into a cache, and shared memory takes its time to be made: 40 MB took 60 ms. Half of it took 3 % longer. To a server on
another machine a statement with the next pages is under way while the server checks those before."""
LEAST_SLOT_BYTES = 64 << 10
"""The same, at least: so many where there are many tables."""
READ_AHEAD_TIMES = 8
"""A table of so many times the blocks that ANALYZE reads is read ahead as a whole: in order, that is quicker still."""
MANY_TABLES = 256
"""Of so many at most, pages are built side by side."""
FULL = 100
"""The fillfactor of a table that has none: as full as its pages can be."""

_ATTRIBUTES = """
SELECT attname, atthasdef OR attidentity <> '' OR attgenerated <> '', attlen = -1 AND attstorage = 'p', attisdropped,
       attnotnull
FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum
"""

# A NULL on a page is no bad record to the server, but a bad page.
_STRICTER = """
SELECT a.attname FROM pg_attribute a
JOIN pg_attribute r ON r.attrelid = to_regclass(%s) AND r.attname = a.attname
WHERE a.attrelid = ANY (%s::bigint[]) AND a.attnum > 0 AND a.attnotnull AND NOT r.attnotnull AND NOT a.attisdropped
LIMIT 1
"""

# A partitioned table has none of its own, only its partitions have. Where a row is long enough for TOAST it goes by
# COPY, so that the server itself looks at `toast_tuple_target`.
_FILLFACTORS = f"""
SELECT DISTINCT coalesce((SELECT option_value::int FROM pg_options_to_table(reloptions)
    WHERE option_name = 'fillfactor'), {FULL}) FROM pg_class c
WHERE oid = to_regclass(%(table)s) AND relkind <> 'p'
    OR oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%(table)s)) WHERE isleaf) ORDER BY 1
"""

_TAKEN_AWAY = ("55000", "42883", "42501", "3F000")
"""What a server says from which the extension, or the right to it, is taken in the middle of a load, or whose tables
take no more pages: `object_not_in_prerequisite_state`, `undefined_function`, `insufficient_privilege` and
`invalid_schema_name`."""

_READ_AHEAD = sql.SQL("SELECT tipple_direct.read_ahead({table}::regclass, {most_blocks})")
# ANALYZE reads 300 blocks for each value of the longest histogram.
_BLOCKS_OF_ANALYZE = sql.SQL("""
{times} * 300 * greatest(
    current_setting('default_statistics_target')::int,
    (SELECT max(attstattarget) FROM pg_attribute WHERE attrelid = {table}::regclass AND attnum > 0))
""")
# What is no larger than this stays in memory until it is read.
_BLOCKS_OF_SCAN = sql.SQL("(SELECT setting::int FROM pg_settings WHERE name = 'shared_buffers')")

NAMED_OTHERWISE = "without the option Tipple takes another path, which names the record"
"""What helps who has asked for pages, of which the server refuses a row."""
PUT_BACK = (
    "the extension, this role's right to it, or what publications send has changed while rows came in: put it back and "
    "run the same command again, or leave out the option, for rows to go by COPY"
)
"""What helps him where it refuses the pages."""


def unavailable(connection: psycopg.Connection[Any], task: LoadTask) -> str | None:
    """Why pages are not the way for this load, whatever the table is like; None where nothing stands against it."""
    if task.preserve_order:
        # There is one stream only, but its records have two ways.
        return "a record that fits no page goes by COPY, and comes out of its order"
    counted = counted_in_bytes(connection, task)
    if counted is not None:
        return counted
    obstacle = extension.obstacle(connection)
    return None if obstacle is None else str(obstacle)


def counted_in_bytes(connection: psycopg.Connection[Any], task: LoadTask) -> str | None:
    """Why the core does not know how long some column's texts may be; None where it does."""
    limited = next((column.name for column in task.columns if column.type_text.startswith("character")), None)
    if limited is None or connection.execute("SELECT getdatabaseencoding()").fetchone() != ("SQL_ASCII",):
        return None
    return f"the database's encoding is SQL_ASCII, where the length of {limited} is counted in bytes"


def reading_ahead(connection: psycopg.Connection[Any], table: TableName) -> list[str]:
    """Statements that bring a table of pages into the server's page cache; none where its extension is older, or not
    this role's to use any more.

    Pages are written past that cache. What ANALYZE reads here and there of lineitem at scale 1 took 2 to 3.5 s from a
    disk that gives 1.3 GB/s, and 1.0 s after 0.35 s of reading all of it in order.
    """
    times = sql.Literal(READ_AHEAD_TIMES)
    most_blocks = _BLOCKS_OF_ANALYZE.format(table=sql.Literal(table.sql), times=times)
    return _reading_ahead(connection, table, most_blocks)


def reading_all_ahead(connection: psycopg.Connection[Any], table: TableName) -> list[str]:
    """The same for whoever reads all of the table, where it is no larger than the server's own cache."""
    return _reading_ahead(connection, table, _BLOCKS_OF_SCAN)


def _reading_ahead(
    connection: psycopg.Connection[Any], table: TableName, most_blocks: sql.SQL | sql.Composed
) -> list[str]:
    if not extension.can_read_ahead(connection):
        return []
    statement = _READ_AHEAD.format(table=sql.Literal(table.sql), most_blocks=most_blocks)
    return [statement.as_string(connection)]


def misfit(connection: psycopg.Connection[Any], task: LoadTask, table: TableName) -> str | None:
    """Why no pages can be built for `table`, or None; asks the extension, which decides."""
    reason = _misfit_of_columns(connection, task, table)
    if reason is not None:
        return reason
    found = connection.execute("SELECT tipple_direct.why_not(%s::regclass)", (table.sql,)).fetchone()
    return None if found is None or found[0] is None else str(found[0])


def _misfit_of_columns(connection: psycopg.Connection[Any], task: LoadTask, table: TableName) -> str | None:
    loaded = {column.name for column in task.columns}
    for name, is_made, is_plain, dropped, not_null in connection.execute(_ATTRIBUTES, (table.sql,)):
        if dropped:
            continue
        if is_made and name not in loaded:
            return f"the server makes the values of its column {name}"
        if not_null and name not in loaded:
            return f"its column {name} is NOT NULL, and is not loaded"
        if is_plain:
            return f"its column {name} has the storage PLAIN"
    return None


def misfit_of_partitions(connection: psycopg.Connection[Any], task: LoadTask, table: TableName) -> str | None:
    """Why no pages can be built for the partitions of `table`, or None."""
    found = partition_bounds.read(connection, table)
    if found is None:
        return "the table has no partitions"
    if not found.partitions:
        return "it has no partitions yet"
    grows = task.partition_by is not None and task.partition_by.grows
    most = min(MANY_TABLES, task.routing_bytes // LEAST_SLOT_BYTES - 1)
    if len(found.partitions) > most:
        return f"it has {len(found.partitions)} partitions, more than {most}"
    # Before 17 partitions do not know the identity columns of their table.
    reason = _misfit_of_columns(connection, task, table)
    if reason is not None:
        return reason
    unroutable = partition_bounds.unroutable(found, task.columns, may_be_none=grows)
    if unroutable is not None:
        return f"the server has to find the partition of each record: {unroutable}"
    stricter = connection.execute(_STRICTER, (table.sql, [leaf.oid for leaf in found.leaves])).fetchone()
    if stricter is not None:
        return f"its partition has a NOT NULL of its own for the column {stricter[0]}"
    fillfactors = sorted({*_fillfactors(connection, table), *([FULL] if grows else [])})
    if len(fillfactors) > 1:
        # All pages of a load are built alike.
        made = "its partitions, with those that --partition-by makes," if grows else "its partitions"
        return f"{made} have different fillfactors: {', '.join(map(str, fillfactors))}"
    misfits = (misfit(connection, task, partition.name) for partition in found.partitions)
    return next((reason for reason in misfits if reason is not None), None)


def _fillfactors(connection: psycopg.Connection[Any], table: TableName) -> list[int]:
    """Those of a table, or of its partitions, each one once."""
    return [fillfactor for (fillfactor,) in connection.execute(_FILLFACTORS, {"table": table.sql}).fetchall()]


def has_stored(plan: Mapping[str, Any]) -> bool:
    """Whether the rows that a job of this plan has stored are pages: it was begun with them, and did not go on by
    COPY."""
    return bool(plan.get("direct")) and not plan.get("copies")


def blames_a_row(error: ServerError) -> bool:
    """Whether a CHECK constraint refuses a row, or its expression fails of it: a data exception, one of a function, or
    one that a function raises by whatever code.
    """
    return error.sqlstate == "23514" or (is_of_functions(error) and files_hint(error) is None)


@contextmanager
def giving_way() -> Iterator[None]:
    """Where the server refuses pages in the middle of a load, COPY may do; and of a refused row, it names the record.

    Raises:
        Unsuited: the server has refused them.
    """
    try:
        yield
    except BadRecord:
        raise
    except TippleError as error:
        told = ServerError.of_facts(error.detail)
        # The ledger, or a file that the server may not write: COPY would not fare better.
        of_pages = error.detail.get("doing") != core.WRITING_LEDGER and files_hint(told) is None
        is_taken = told.sqlstate in _TAKEN_AWAY and of_pages
        if not blames_a_row(told) and not is_taken:
            raise
        raise core.Unsuited(str(error), hint=PUT_BACK if is_taken else NAMED_OTHERWISE) from None


def plan(
    connection: psycopg.Connection[Any], task: LoadTask, table: TableName, host: str, *, tables: int
) -> dict[str, Any]:
    """The core's `DirectPlan` for `table`, or for its partitions, `tables` in number; `host` is the server's, as the
    streams get it."""
    places = {column.name: place for place, column in enumerate(task.columns)}
    attributes = connection.execute(_ATTRIBUTES, (table.sql,)).fetchall()
    found = connection.execute("SELECT current_setting('block_size')::int").fetchone()
    block_size = found[0] if found is not None else 8192
    is_near = host.startswith(("/", "@")) or host in ("localhost", "127.0.0.1", "::1")
    slot_bytes = min(task.run_bytes, SLOT_BYTES)
    run_slots = task.run_bytes // slot_bytes
    if tables > 1:
        slot_bytes = min(max(task.routing_bytes // (tables + 1), LEAST_SLOT_BYTES), slot_bytes)
    return {
        "fields": [None if dropped else places.get(name) for name, _, _, dropped, _ in attributes],
        "fillfactor": next(iter(_fillfactors(connection, table)), FULL),
        "slot_pages": slot_bytes // block_size,
        "run_slots": run_slots,
        "share_memory": is_near,
        "packs": extension.version(connection) >= PACKING_VERSION,
    }


def sending_notes(sent: int, packed: int) -> list[str]:
    """What to say of pages that went over a network, where most went packed."""
    if packed * 2 < sent or not packed:
        return []
    return [f"{packed / sent:.0%} of the pages went packed (LZ4): the network carries more of them that way"]
