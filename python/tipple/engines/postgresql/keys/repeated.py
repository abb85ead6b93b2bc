"""Records that violate a key, taken out of what is staged before it gets keys.

They repeat one of each other or of rows of the table, or refer to rows that are not there.

The core finds them, and the order of the sources says which of them stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tipple.engines import core, spool
from tipple.engines.base import LoadResult, LoadTask
from tipple.engines.postgresql import ledger
from tipple.engines.postgresql.job import OwnedJob
from tipple.engines.postgresql.keys import barred_keys, late_keys, refused
from tipple.engines.postgresql.keys.refused import Sources, StagedSlice
from tipple.errors import TippleError
from tipple.plan.url import TableName, quote_identifier

if TYPE_CHECKING:
    import psycopg

__all__ = ["Refusals", "refuse"]


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
    """Makes rejects of all staged records that violate a key; says how many of each source there were.

    `afresh` where the streams of this command have not stored all slices once: the sources are then read for the keys.

    Raises:
        BadRecord, TooManyRejects: they are more than may be rejected.
        core.UnreadableKeys: the keys must judge while rows are stored.
    """
    barred_keys.note(connection, task, owned)
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
    """Rows can be told by their keys alone: all that share one with a refused row go, and those that stay come back. Of
    foreign keys, all rows go whose value is missing.
    """
    staging = owned.staging
    if staging is None:
        raise TippleError("internal error: keys are to judge what is staged, and nothing is")
    if task.ledger:
        mine = connection.execute(f"{ledger.OWNED} FOR UPDATE", (owned.job_id, owned.epoch))
        if mine.rowcount != 1:
            raise core.TakenOver
    barred_keys.compare_values(connection)
    # Beside the staged rows, and gone with the transaction: not every role may make temporary tables.
    leaving = TableName(staging.schema, f"{staging.name}_leaving")
    names = task.column_list
    connection.execute(f"CREATE TABLE {leaving.sql} AS SELECT {names} FROM {staging.sql} WITH NO DATA")
    count = _copy(connection, task, f"{leaving.sql} ({names})", "leaving")
    connection.execute(f"ANALYZE {leaving.sql}")
    gone = _delete_known(connection, task, owned, staging, leaving)
    if gone < count:
        gone += _delete_found(connection, task, owned, staging, leaving)
    if gone != count:
        raise TippleError(
            f"internal error: {count:,} records share keys with those that violate them, and {gone:,} rows are staged",
            hint="nothing was published; please report this with the command",
        )
    _copy(connection, task, f"{staging.sql} ({names})", "staying")
    connection.execute(f"DROP TABLE {leaving.sql}")


def _delete_known(
    connection: psycopg.Connection[Any], task: LoadTask, owned: OwnedJob, staging: TableName, leaving: TableName
) -> int:
    """Deletes the rows of `leaving` that are where the core has put them; says how many."""
    known = TableName(staging.schema, f"{staging.name}_known")
    connection.execute(f"CREATE TABLE {known.sql} (place tid)")
    gone = 0
    if _copy(connection, task, known.sql, "places"):
        among = f"s.ctid = ANY (ARRAY(SELECT place FROM {known.sql}))"
        for key in late_keys.of_job(owned.plan).unique:
            gone += _delete(connection, staging, leaving, key.columns, among)
    connection.execute(f"DROP TABLE {known.sql}")
    return gone


def _delete_found(
    connection: psycopg.Connection[Any], task: LoadTask, owned: OwnedJob, staging: TableName, leaving: TableName
) -> int:
    """Looks through all that is staged for rows of `leaving`, and deletes them; says how many."""
    barred_keys.look_through(connection, task, owned, staging)
    keys = late_keys.of_job(owned.plan)
    gone = sum(_delete(connection, staging, leaving, key.columns) for key in keys.unique)
    missing = TableName(staging.schema, f"{staging.name}_missing")
    for number, foreign in enumerate(keys.foreign, len(keys.unique)):
        columns = ", ".join(map(quote_identifier, foreign.columns))
        connection.execute(f"CREATE TABLE {missing.sql} AS SELECT {columns} FROM {staging.sql} WITH NO DATA")
        barred_keys.copy(connection, task, number, missing)
        connection.execute(f"ANALYZE {missing.sql}")
        gone += sum(
            _delete(connection, table, missing, foreign.columns) for table in barred_keys.apart(connection, owned)
        )
        connection.execute(f"DROP TABLE {missing.sql}")
    return gone


def _delete(
    connection: psycopg.Connection[Any],
    staging: TableName,
    leaving: TableName,
    columns: Sequence[str],
    among: str = "true",
) -> int:
    """Deletes the staged rows (`s`), of those among which they are, that have the same in these columns as a row of
    `leaving`; says how many.
    """
    places = TableName(staging.schema, f"{staging.name}_places")
    same = " AND ".join(f"s.{name} = l.{name}" for name in map(quote_identifier, columns))
    # Two steps, because several workers look for rows, but none of them deletes.
    connection.execute(
        f"CREATE TABLE {places.sql} AS SELECT s.tableoid AS leaf, s.ctid AS place FROM {staging.sql} s "
        f"WHERE {among} AND EXISTS (SELECT FROM {leaving.sql} l WHERE {same})".encode()
    )
    leaves = connection.execute(f"SELECT DISTINCT leaf, leaf::regclass::text FROM {places.sql}".encode()).fetchall()
    gone = 0
    for leaf, name in leaves:
        there = f"ARRAY(SELECT place FROM {places.sql} WHERE leaf = {leaf})"
        gone += connection.execute(f"DELETE FROM {name} WHERE ctid = ANY ({there})".encode()).rowcount
    connection.execute(f"DROP TABLE {places.sql}")
    return gone


def _copy(connection: psycopg.Connection[Any], task: LoadTask, into: str, name: str) -> int:
    """Stores the rows that the core has written down under this name in a table, or in columns of it; says how many."""
    count = 0
    for form in ("binary", "text"):
        path = Path(task.spool or "") / f"{name}.{form}"
        if not path.exists():
            continue
        statement = f"COPY {into} FROM STDIN (FORMAT {form})"
        with connection.cursor() as cursor:
            with cursor.copy(statement.encode()) as copy, path.open("rb") as file:
                while piece := file.read(1 << 18):
                    copy.write(piece)
            count += cursor.rowcount
        path.unlink()
    return count
