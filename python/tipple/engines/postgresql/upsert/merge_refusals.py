"""An upsert whose rows may be refused: those are found and left out, and all others are merged.

Rows that a CHECK or a foreign key refuses are found by a query for each. Rows that might get into each other's way, or
into the way of the table's, by another unique index are *suspects*: `merge_turns.py` says which of them are refused;
the others are merged apart from all that are none, because the order counts: where the server refuses some, halves of
them are tried, the first one first. Where it refuses something unforeseen, all keys are suspects. A key whose last
record was refused gets the one before it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.merge import Merge, MergeCounts, refuse_conflicts
from tipple.engines.merge_turns import Place
from tipple.engines.postgresql.connection import pasted
from tipple.engines.postgresql.place import filling
from tipple.engines.postgresql.upsert.merge_claims import PLACE, Claims
from tipple.engines.postgresql.upsert.merge_constraints import LACKS_PARTITION, Alone, Unique, alone, uniques
from tipple.plan.quotes import quoted
from tipple.plan.url import TableName, quote_identifier

__all__ = ["Merged", "Merger", "Refused"]

MOST_ROUNDS = 1000
"""Of looking for rows that refer to refused rows of the same table."""


class Refused(NamedTuple):
    """A staged row that the table refuses."""

    slice_order: int
    row: int
    """Its number among the staged rows of the slice, from 0."""
    reason: str
    sqlstate: str


class Merged(NamedTuple):
    """What became of the staged rows."""

    counts: MergeCounts
    refused: list[Refused]
    """In the order of the sources."""


class _TooMany(Exception):
    """More rows were refused than may be."""


_TOO_LONG = "54000"
"""SQLSTATE `program_limit_exceeded`: a value that is too long for an index."""


def _is_rows_fault(error: psycopg.Error) -> bool:
    """Whether the server refuses a row, and not the statement: as the core's `is_records_fault` says."""
    return (error.sqlstate or "")[:2] in ("22", "23", "44", "P0") or error.sqlstate == _TOO_LONG


class Merger:
    """Merges staged rows into a table by key, in the transaction that is open."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        task: LoadTask,
        staging: TableName,
        target: TableName,
        *,
        most: int | None,
        extra: str,
    ) -> None:
        """`most` rows may be refused; `extra` is a condition on the target's rows, such as the range of the keys."""
        self.connection = connection
        self.task = task
        self.staging = staging
        self.target = target
        self.most = most
        self.extra = extra
        self.key = ", ".join(map(quote_identifier, task.key))
        # Beside the staged rows, and gone with the transaction: not every role may make temporary tables.
        self.refused_table, self.suspects = (TableName(staging.schema, f"{staging.name}_{n}").sql for n in (1, 2))
        self.refused: list[tuple[int, int, str, str]] = []
        self.claims = Claims()
        self.latest = 0
        self.matched = 0
        self.held = 0

    def run(self, read: int) -> Merged:
        """Merges, and tells of the `read` rows which were refused: one more than `most` at most.

        Raises:
            psycopg.Error: the server refuses something that is no row's fault.
            TippleError: a key is there already, and `--on-conflict error` was asked for.
        """
        with contextlib.suppress(_TooMany):
            self._run()
        counts = self._statements(self.staging.sql).counts(
            read=read - len(self.refused), latest=self.latest, matched=self.matched, held=self.held
        )
        refused = self._numbered()
        self.connection.execute(f"DROP TABLE IF EXISTS {self.refused_table}, {self.suspects}")
        return Merged(counts, refused)

    def _run(self) -> None:
        if self.most == 0:
            # Nothing is looked for before there is something to find.
            self._refuse_conflicts()
            if self._try_to_merge(self.staging.sql) is None:
                return
        self.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        self._refuse_alone()
        if self.most != 0:
            self._refuse_conflicts()
        self._find_suspects()
        self._judge_suspects()
        if self._try_to_merge(self._clean) is not None:
            self.connection.execute(f"DROP TABLE {self.suspects}")
            self._make_suspects([f"SELECT {self.key} FROM {self._applied} s"])
            self._keep_back(self.claims.reasons)
            # Those that are left out because the table has their keys; nothing can be refused.
            error = self._try_to_merge(self._clean)
            if error is not None:
                raise error
        self._merge_suspects()
        self._note_judged()

    @property
    def _good(self) -> str:
        """The staged rows that were not refused."""
        if not self.refused:
            return self.staging.sql
        same = "r.tipple_slice = s.tipple_slice AND r.tipple_row = s.tipple_row"
        return (
            f"(SELECT * FROM {self.staging.sql} s WHERE NOT EXISTS (SELECT FROM {self.refused_table} r WHERE {same}))"
        )

    @property
    def _clean(self) -> str:
        """Those of them that are no suspects."""
        same = " AND ".join(f"x.{name} = s.{name}" for name in map(quote_identifier, self.task.key))
        return f"(SELECT * FROM {self._good} s WHERE NOT EXISTS (SELECT FROM {self.suspects} x WHERE {same}))"

    @property
    def _applied(self) -> str:
        """Those of them that insert or update a row."""
        if self.task.on_conflict != "ignore":
            return self._good
        same = " AND ".join(f"t.{name} = s.{name}" for name in map(quote_identifier, self.task.key))
        return f"(SELECT * FROM {self._good} s WHERE NOT EXISTS (SELECT FROM {self.target.sql} t WHERE {same}))"

    def _statements(self, staging: str) -> Merge:
        return Merge(
            target=self.target.sql,
            staging=staging,
            columns=[column.name for column in self.task.columns],
            key=self.task.key,
            order="tipple_slice DESC, tipple_row DESC",
            on_conflict=self.task.on_conflict,
            within=self.extra,
        )

    def _refuse_conflicts(self) -> None:
        if self.task.on_conflict == "error":
            conflicts = self._statements(self._good).conflicts()
            refuse_conflicts(self.target, self.task.key, self.connection.execute(conflicts).fetchall())

    def _try_to_merge(self, staging: str) -> psycopg.Error | None:
        """Merges these rows, or says why they cannot be."""
        statements = self._statements(staging)
        try:
            with self.connection.transaction():
                (latest,) = self._numbers(statements.count_latest())
                matched, held = self._numbers(statements.count_matched())
                done = self.connection.execute(statements.merge()).rowcount
                counts = statements.counts(read=latest, latest=latest, matched=matched, held=held)
                if done != counts.inserted + counts.updated:
                    given = counts.inserted + counts.updated
                    raise filling.kept_out(self.connection, self.target, given, done, updates=True)
        except psycopg.Error as error:
            if not _is_rows_fault(error):
                raise
            return error
        self.latest += latest
        self.matched += matched
        self.held += held
        return None

    def _numbers(self, query: str) -> list[int]:
        return [int(number) for number in self.connection.execute(query).fetchone() or ()]

    # Rows that are refused whatever others there are

    def _refuse_alone(self) -> None:
        for constraint in list(alone(self.connection, self.task, self.target, self.staging.sql)):
            for _ in range(MOST_ROUNDS):
                again = alone(self.connection, self.task, self.target, self._good) if constraint.repeats else ()
                now = next((other for other in again if other.reason == constraint.reason), constraint)
                if not self._refuse(now) or not constraint.repeats:
                    break

    def _refuse(self, constraint: Alone) -> int:
        """Refuses the rows that violate it; says how many."""
        detail = constraint.detail or "NULL"
        limit = "" if self.most is None else f" LIMIT {self.most + 1 - len(self.refused)}"
        query = f"SELECT {PLACE}, {detail} FROM {self._good} s WHERE {constraint.is_violated} ORDER BY {PLACE}{limit}"
        try:
            with self.connection.transaction():
                rows = self.connection.execute(query.encode()).fetchall()
        except psycopg.Error as error:
            if not _is_rows_fault(error):
                raise
            # A condition that cannot be computed for some row: trying will tell for which one.
            return 0
        reason, sqlstate = constraint.reason, constraint.sqlstate
        self._note((order, row, reason if key is None else f"{reason} ({key})", sqlstate) for order, row, key in rows)
        return len(rows)

    def _note(self, refused: Iterable[tuple[int, int, str, str]]) -> None:
        """Takes rows for refused: place, reason and SQLSTATE of each."""
        before = len(self.refused)
        self.refused.extend(refused)
        if not self.refused:
            return
        if not before:
            self.connection.execute(
                f"CREATE UNLOGGED TABLE {self.refused_table} (tipple_slice bigint, tipple_row bigint, "
                f"PRIMARY KEY ({PLACE}))"
            )
        with self.connection.cursor() as cursor, cursor.copy(f"COPY {self.refused_table} FROM STDIN") as copy:
            for order, row, *_ in self.refused[before:]:
                copy.write_row((order, row))
        if self.most is not None and len(self.refused) > self.most:
            raise _TooMany

    # Rows that may be refused because of others

    def _find_suspects(self) -> None:
        """Makes their table, and reads what they want; an index that fails for some row is left to the server."""
        indexes = uniques(self.connection, self.task, self.target)
        while True:
            self.claims = Claims()
            try:
                with self.connection.transaction():
                    self._make_suspects(self._suspect_keys(indexes))
                    self.claims.read(self.connection, self.task, self.suspects, self.target.sql, indexes)
                return
            except psycopg.Error as error:
                left = [index for index in indexes if self._can_be_computed(index)]
                if not _is_rows_fault(error) or len(left) == len(indexes):
                    raise
                indexes = left

    def _can_be_computed(self, index: Unique) -> bool:
        try:
            with self.connection.transaction():
                parts = ", ".join(f"count({name})" for name in index.names)
                self.connection.execute(
                    f"SELECT {parts} FROM ({index.values(f'{self._applied} s', self.key)}) v".encode()
                )
        except psycopg.Error as error:
            if not _is_rows_fault(error):
                raise
            return False
        return True

    def _suspect_keys(self, indexes: Sequence[Unique]) -> list[str]:
        """Queries for keys whose rows share what another index wants to be unique."""
        queries = []
        for unique in indexes:
            staged = unique.values(f"{self._applied} s", self.key)
            names = ", ".join(unique.names)
            shared = f"SELECT {names} FROM (SELECT DISTINCT {self.key}, {names} FROM ({staged}) v) d GROUP BY {names}"
            own = self._prefixed("v")
            queries.append(
                f"SELECT {own} FROM ({staged}) v JOIN ({shared} HAVING count(*) > 1) w ON {unique.same('v', 'w')}"
            )
            held = unique.values(f"{self.target.sql} t", self.key)
            # Who wants it, and who has it and may give it up.
            queries += [
                f"SELECT {keys} FROM ({staged}) v JOIN ({held}) w ON {unique.same('v', 'w')} "
                f"WHERE ({own}) IS DISTINCT FROM ({self._prefixed('w')})"
                for keys in (own, self._prefixed("w"))
            ]
        return queries

    def _prefixed(self, alias: str) -> str:
        return ", ".join(f"{alias}.{quote_identifier(name)}" for name in self.task.key)

    def _make_suspects(self, queries: Sequence[str]) -> None:
        """Makes the table of all rows with these keys, each with its key's turn."""
        last = f"OVER (PARTITION BY {self.key} ORDER BY tipple_slice DESC, tipple_row DESC)"
        keys = " UNION ".join(queries) or f"SELECT {self.key} FROM {self.staging.sql} WHERE false"
        self.connection.execute(
            f"CREATE UNLOGGED TABLE {self.suspects} AS "
            f"SELECT q.*, dense_rank() OVER (ORDER BY tipple_last_slice, tipple_last_row) AS tipple_turn FROM ("
            f"SELECT s.*, first_value(tipple_slice) {last} AS tipple_last_slice, "
            f"first_value(tipple_row) {last} AS tipple_last_row "
            f"FROM {self._applied} s WHERE ({self.key}) IN ({keys})) q".encode()
        )
        self.connection.execute(f"CREATE INDEX ON {self.suspects} (tipple_turn)")
        self.connection.execute(f"ANALYZE {self.suspects}")

    def _judge_suspects(self) -> None:
        """Keeps those back that want what another key has when their turn comes, and lets go of the others."""
        changed = self.claims.judge()
        if changed:
            self._keep_back(changed)
        # What the server refuses may yet make them fewer, but not none where none may be.
        if self.most == 0 and self.claims.reasons:
            self._note_judged()

    def _keep_back(self, places: Collection[Place]) -> None:
        """Lets these rows have no turn, or the one that they had."""
        self.connection.execute(
            f"UPDATE {pasted(self.suspects)} s SET tipple_turn = - s.tipple_turn FROM unnest(%s::bigint[], "
            "%s::bigint[]) p (slice, number) WHERE s.tipple_slice = p.slice AND s.tipple_row = p.number".encode(),
            ([order for order, _ in places], [row for _, row in places]),
        )

    def _note_judged(self) -> None:
        self._note((*place, reason, "23505") for place, reason in self.claims.reasons.items())

    def _last_turn(self) -> int:
        found = self.connection.execute(f"SELECT coalesce(max(abs(tipple_turn)), 0) FROM {self.suspects}").fetchone()
        return int(found[0]) if found is not None else 0

    def _merge_suspects(self) -> None:
        """Merges the suspects by their turns, halving where the server refuses some."""
        ranges = [(1, self._last_turn())]
        while ranges:
            low, high = ranges.pop()
            if low > high:
                continue
            condition = f"tipple_turn BETWEEN {low} AND {high}"
            error = self._try_to_merge(f"(SELECT * FROM {self.suspects} WHERE {condition})")
            if error is None:
                continue
            if low < high:
                middle = (low + high) // 2
                ranges += [(middle + 1, high), (low, middle)]
                continue
            row = self.connection.execute(
                f"DELETE FROM {self.suspects} WHERE ctid = (SELECT ctid FROM {self.suspects} WHERE {condition} "
                f"ORDER BY tipple_slice DESC, tipple_row DESC LIMIT 1) RETURNING {PLACE}"
            ).fetchone()
            if row is None:
                raise error
            detail = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
            self._note([(row[0], row[1], f"{self._said(error)}{detail}", error.sqlstate or "")])
            if self.claims.turn_down((row[0], row[1])):
                self._judge_suspects()
            left = self.connection.execute(f"SELECT FROM {self.suspects} WHERE {condition} LIMIT 1").fetchone()
            if left is not None:
                ranges.append((low, high))

    def _said(self, error: psycopg.Error) -> str:
        """What the server says of a row; by the words of this one, in English, the core knows what helps."""
        message = error.diag.message_primary or ""
        if error.diag.source_function == "ExecFindPartition":
            return LACKS_PARTITION.format(next(iter(quoted(message)), self.target.name))
        return message

    def _numbered(self) -> list[Refused]:
        """The refused rows by their number in their slices."""
        if not self.refused:
            return []
        reasons = {(order, row): (reason, sqlstate) for order, row, reason, sqlstate in self.refused}
        found = self.connection.execute(
            f"SELECT n.tipple_slice, n.tipple_row, n.number FROM (SELECT {PLACE}, "
            f"row_number() OVER (PARTITION BY tipple_slice ORDER BY tipple_row) - 1 AS number FROM {self.staging.sql} "
            f"WHERE tipple_slice IN (SELECT tipple_slice FROM {self.refused_table})) n "
            f"JOIN {self.refused_table} USING ({PLACE})"
        ).fetchall()
        return sorted(Refused(order, number, *reasons[order, row]) for order, row, number in found)
