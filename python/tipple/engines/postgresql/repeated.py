"""Records that repeat a key, of each other or of rows of the table, taken out of what is staged before it gets keys.

The core finds them, and the order of the sources says which of them stays.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tipple.engines import core, spool
from tipple.engines.base import LoadResult, LoadTask
from tipple.engines.postgresql import connection as connections
from tipple.engines.postgresql import direct, refused, taken_keys
from tipple.engines.postgresql.job import OwnedJob, taken_over
from tipple.engines.postgresql.refused import Sources, StagedSlice
from tipple.errors import TippleError
from tipple.plan.url import TableName, quote_identifier

if TYPE_CHECKING:
    import psycopg

__all__ = ["Refusals", "refuse"]


# The planner has no statistics of what is staged, and takes far more rows for found than there are.
_SCAN_SETTINGS = ("max_parallel_workers_per_gather = {workers}", "parallel_setup_cost = 0", "parallel_tuple_cost = 0")


MOST_WORKERS = 1024
"""Of a query: more is no value of the setting."""


class Refusals(NamedTuple):
    """What was taken out."""

    by_source: list[int]
    digest: int | None
    """Of the rows; None where nobody knows it."""

    def settle(self, result: LoadResult, rows: int, digest: int | None) -> tuple[int, int | None]:
        """Counts them as rejects; gives the rows that are left of those that were stored, and their digest."""
        count = sum(self.by_source)
        result.rejects += count
        if result.source_rows is not None:
            result.source_rows = [rows - gone for rows, gone in zip(result.source_rows, self.by_source, strict=True)]
        if digest is None or self.digest is None:
            return rows - count, None
        return rows - count, (digest - self.digest) % 2**128


def refuse(
    connection: psycopg.Connection[Any], task: LoadTask, owned: OwnedJob, given: Sources, *, afresh: bool
) -> Refusals:
    """Makes rejects of all staged records that repeat a key, or have that of a row of the table; says how many of each
    source there were.

    `afresh` where the streams of this command have not stored all slices once: the sources are then read for the keys.

    Raises:
        BadRecord, TooManyRejects: they are more than may be rejected.
        core.UnreadableKeys: the keys must judge while rows are stored.
    """
    taken_keys.note(connection, task, owned)
    listed = refused.stored_slices(connection, owned.job_id) if task.ledger else given.unlisted()
    outcome = given.runner.run(core.start_load(task, _plan(task, owned, given, listed, afresh=afresh)))
    counts = [0] * len(task.sources)
    by_slice: dict[int, int] = {}
    for n, source, _ in spool.places(task, spool.REFUSED):
        counts[source] += 1
        by_slice[n] = by_slice.get(n, 0) + 1
    if by_slice:
        with connection.transaction():
            _take_out(connection, task, owned)
            if task.ledger:
                refused.keep_rejects(connection, task, owned.job_id, by_slice)
    digest = outcome["digest"]
    return Refusals(counts, None if digest is None else int(digest, 16))


def _plan(task: LoadTask, owned: OwnedJob, given: Sources, listed: list[StagedSlice], *, afresh: bool) -> str:
    stored = [part for part in listed if part.rows]
    fed = {source for feed in given.cut.feeds for source in feed}
    cut = msgspec.structs.replace(
        given.cut,
        slices=[{"n": part.n, "pieces": part.pieces} for part in stored if part.place[0] not in fed],
        done=[],
    )
    spool.settle(task)
    rejected = [place for part in listed for place in part.rejected]
    known = {"afresh": afresh, "slices": [[*part.place, part.n] for part in stored], "rejected": rejected}
    return given.plans.repeated(owned, cut, known, len(rejected))


def _take_out(connection: psycopg.Connection[Any], task: LoadTask, owned: OwnedJob) -> None:
    """Rows can be told by their keys alone: all that share one with a refused row go, and those that stay come back."""
    staging = owned.staging
    if staging is None:
        raise TippleError("internal error: keys are to judge what is staged, and nothing is")
    if task.ledger:
        mine = connection.execute(
            "SELECT FROM tipple.job WHERE job_id = %s AND epoch = %s AND state = 'loading' FOR UPDATE",
            (owned.job_id, owned.epoch),
        )
        if mine.rowcount != 1:
            raise taken_over()
    scanning = [setting.format(workers=min(task.streams, MOST_WORKERS)) for setting in _SCAN_SETTINGS]
    for setting in (*connections.value_settings(connection), *scanning):
        connection.execute(f"SET LOCAL {setting}".encode())
    # Beside the staged rows, and gone with the transaction: not every role may make temporary tables.
    leaving, places = (TableName(staging.schema, f"{staging.name}_{name}") for name in ("leaving", "places"))
    names = task.column_list
    connection.execute(f"CREATE TABLE {leaving.sql} AS SELECT {names} FROM {staging.sql} WITH NO DATA")
    count = _copy(connection, task, leaving, "leaving")
    connection.execute(f"ANALYZE {leaving.sql}")
    for statement in direct.reading_all_ahead(connection, staging) if owned.direct else []:
        connection.execute(statement.encode())
    gone = 0
    for key in owned.plan["unique"]:
        same = " AND ".join(f"s.{name} = l.{name}" for name in map(quote_identifier, key["columns"]))
        # Two steps, because several workers look for rows, but none of them deletes.
        connection.execute(
            f"CREATE TABLE {places.sql} AS SELECT s.tableoid AS leaf, s.ctid AS place FROM {staging.sql} s "
            f"WHERE EXISTS (SELECT FROM {leaving.sql} l WHERE {same})"
        )
        leaves = connection.execute(f"SELECT DISTINCT leaf, leaf::regclass::text FROM {places.sql}".encode()).fetchall()
        for leaf, name in leaves:
            there = f"ARRAY(SELECT place FROM {places.sql} WHERE leaf = {leaf})"
            gone += connection.execute(f"DELETE FROM {name} WHERE ctid = ANY ({there})".encode()).rowcount
        connection.execute(f"DROP TABLE {places.sql}")
    if gone != count:
        raise TippleError(
            f"internal error: {count:,} records share keys with records that repeat them, and {gone:,} rows are staged",
            hint="nothing was published; please report this with the command",
        )
    _copy(connection, task, staging, "staying")
    connection.execute(f"DROP TABLE {leaving.sql}")


def _copy(connection: psycopg.Connection[Any], task: LoadTask, table: TableName, name: str) -> int:
    """Stores the rows that the core has written down under this name; says how many."""
    count = 0
    for form in ("binary", "text"):
        path = Path(task.spool or "") / f"{name}.{form}"
        if not path.exists():
            continue
        statement = f"COPY {table.sql} ({task.column_list}) FROM STDIN (FORMAT {form})"
        with connection.cursor() as cursor:
            with cursor.copy(statement.encode()) as copy, path.open("rb") as file:
                while piece := file.read(1 << 18):
                    copy.write(piece)
            count += cursor.rowcount
        path.unlink()
    return count
