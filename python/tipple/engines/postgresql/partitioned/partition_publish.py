"""The end of a partitioned load: hidden partitions get the indexes and constraints of those that they stand for, and
all of them change places in one transaction.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import filterfalse
from typing import Any

import psycopg

from tipple.engines.base import LoadTask, Runner
from tipple.engines.postgresql import indexes, privileges, stage, structure, tablespaces, unlogged
from tipple.engines.postgresql.ownership import Sessions
from tipple.engines.postgresql.partitioned import partition_bounds, partition_steps, partitions
from tipple.engines.postgresql.partitioned.partition_bounds import Partition
from tipple.engines.postgresql.partitioned.partition_replays import PartitionPlace
from tipple.engines.postgresql.partitioned.partition_steps import MOVING, Step
from tipple.engines.postgresql.partitioned.partitions import Staged
from tipple.engines.postgresql.place import (
    belongings,
    emptying,
    filling,
    key_work,
    obstacles,
    replica_identity,
    sequences,
    shape,
)
from tipple.errors import TippleError
from tipple.plan import constraints
from tipple.plan.partitioning import free_name, partition_name
from tipple.plan.structure import AppliedStructure
from tipple.plan.url import TableName, parse_table_name, quote_identifier

SHOWN = {
    "attach": "attached",
    "swap": "swapped in",
    "absorb": "swapped in with the rows that were there",
    "insert": "filled by INSERT",
}
MOST_ROUNDS = 3
LOCK_SECONDS = 0.6
"""How long the last lock is tried for; who waits for the first one meanwhile is not in a deadlock yet."""
LOCK_PAUSE_SECONDS = 0.05

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated::text, a.attcollation
FROM pg_attribute a WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""


class Incomplete(Exception):
    """An index or a constraint came to the target while its partitions were loaded: hidden ones lack it."""


class PartitionPublish:
    """Publishes the hidden table of one load."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        task: LoadTask,
        staging: TableName,
        notes: list[str],
        *,
        structure: AppliedStructure | None,
        plan: Mapping[str, Any],
        is_strict: bool,
        compares: bool,
    ) -> None:
        """
        Args:
            connection: publishes.
            task: the load.
            staging: the hidden table.
            notes: gets remarks for the user.
            structure: what the hidden partitions are.
            plan: of the job: CHECK constraints of a new table that the hidden one has already, and what numbers rows.
            is_strict: whether rows must not go in beside others, where they would not have that structure.
            compares: whether the values of rows that are copied must arrive as they were verified.
        """
        self.structure = structure
        self.plan = plan
        self.given: Sequence[str] = plan.get("checks", [])
        self.is_strict = is_strict
        self.compares = compares
        self.connection = connection
        self.task = task
        self.staging = staging
        self.notes = notes
        self.is_new = task.definition is not None
        self.mixes = False
        """Whether some rows were copied, and others have taken their place with a partition."""
        self.replaced: list[PartitionPlace] = []
        """The places of those whose rows were replaced, or that are new."""
        self.index_names: dict[str, str] = {}
        """Indexes of hidden partitions, and the names that a user knows them by."""

    # Before the transaction

    def prepare(self, runner: Runner, sessions: Sessions) -> None:
        """Builds what the hidden partitions lack, and detaches them."""
        if self.is_new:
            works = [self._work_of_new(leaf) for leaf in partitions.staged(self.connection, self.staging)]
            self._place(works)
            indexes.build(runner, self.connection, sessions, works, self.task.streams)
            return
        moving = self._moving()
        works = self._works(moving)
        self.index_names.update(rename for work in works for rename in work.renames)
        self._place(works, moving)
        indexes.build(runner, self.connection, sessions, works, self.task.streams)
        partitions.detach(self.connection, self.staging, {step.leaf.name for step in moving})

    def _moving(self) -> list[Step]:
        """Those whose hidden partition becomes one of the target's."""
        return [step for step in self._steps(may_swap=True) if step.action in MOVING]

    def _steps(self, *, may_swap: bool, may_mix: bool = True) -> list[Step]:
        return partition_steps.decide(self.connection, self.task, self.staging, may_swap=may_swap, may_mix=may_mix)

    def moving(self) -> list[TableName]:
        """The hidden partitions that have rows and become the target's."""
        leaves = partitions.staged(self.connection, self.staging)
        wanted = {leaf.name for leaf in leaves} if self.is_new else {step.leaf.name for step in self._moving()}
        return [leaf.name for leaf in leaves if leaf.size_bytes and leaf.name in wanted]

    def _place(self, works: list[key_work.KeyWork], steps: Sequence[Step] = ()) -> None:
        """Indexes go where --tablespace laid their partitions, else where those of the real ones (or the table) are."""
        table = self.task.table
        likes = {step.leaf.name: table if step.real is None else step.real.name for step in steps}
        places = tablespaces.of_their_indexes(self.connection, list(likes.values()))
        for work in works:
            if self.task.tablespaces:
                work.tablespace = tablespaces.of(self.connection, work.table)
            elif not self.is_new:
                # The session's own is for new tables.
                work.tablespace = places.get(likes.get(work.table, work.table), "")

    def _works(self, moving: Sequence[Step]) -> list[key_work.KeyWork]:
        pairs = [(step.leaf.name, self.task.table if step.real is None else step.real.name) for step in moving]
        return key_work.missing_of_all(self.connection, pairs, drops=True)

    def _work_of_new(self, leaf: Staged) -> key_work.KeyWork:
        """Keys of a partition of a new table; the table's own keys then take them over."""
        found = {
            name
            for (name,) in self.connection.execute(
                "SELECT conname FROM pg_constraint WHERE conrelid = to_regclass(%s)", (leaf.name.sql,)
            )
        }
        work = key_work.KeyWork(table=leaf.name, size_bytes=leaf.size_bytes, indexes=[], after=[], renames=[])
        for constraint in structure.constraints_left(self.connection, self.task, self.structure, leaf.name):
            said = constraints.without_name(constraint)
            name = key_work.staged_name(leaf.name, said)
            if constraints.is_unique(constraint) and name not in found:
                work.after.append(f"ALTER TABLE {leaf.name.sql} ADD CONSTRAINT {quote_identifier(name)} {said}")
        return work

    def _size(self, table: TableName) -> int:
        found = self.connection.execute("SELECT pg_relation_size(to_regclass(%s))", (table.sql,)).fetchone()
        return int(found[0] or 0) if found else 0

    # The transaction

    def publish(self, *, may_swap: bool, may_mix: bool, is_patient: bool) -> bool:
        """Makes all rows visible; call it in the transaction that publishes.

        Args:
            may_swap: whether no transaction is open that should see rows which were there before.
            may_mix: whether some rows may be copied and others take their place with a partition.
            is_patient: whether locks are waited for.

        Returns:
            Whether rows were inserted into partitions that are not logged, where a crash takes them.

        Raises:
            Incomplete: `prepare` must be called again.
            psycopg.errors.LockNotAvailable: the transaction must be begun again, unless `is_patient`.
            TippleError: the target has changed in a way that the rows do not fit; a UsageError where it can be mended.
        """
        if self.is_new:
            self._publish_new()
            return False
        # Writers wait from here on; readers only once nothing is left to be copied. Where nothing is, all wait at once:
        # a reader who wants to write would be ended by the server if he met somebody who has one lock and waits for
        # the other.
        copies = any(step.action in ("insert", "absorb") for step in self._steps(may_swap=may_swap, may_mix=may_mix))
        mode = "SHARE ROW EXCLUSIVE" if copies else "ACCESS EXCLUSIVE"
        self.connection.execute(f"LOCK TABLE {self.task.table.sql} IN {mode} MODE".encode())
        self._require_same_columns()
        self._require_same_numbers()
        steps = self._steps(may_swap=may_swap, may_mix=may_mix)
        if may_mix and _copies_and_swaps(steps):
            # Whoever began while the lock was waited for would see what is swapped in, and not what is copied.
            may_mix = stage.wait_for_snapshots(self.connection)
            steps = self._steps(may_swap=may_swap and may_mix, may_mix=may_mix)
        self._require_structure(steps)
        self._require_replaced(steps)
        if any(step.action == "attach" for step in steps):
            partitions.refuse_half_detached(self.connection, self.task.table)
        moving = [step for step in steps if step.action in MOVING]
        works = self._works(moving)
        if not all(work.is_done for work in works) or any(step.leaf.hidden_parent is not None for step in moving):
            raise Incomplete
        renames = {work.table: work.renames for work in works}
        self._copy(steps)
        if moving:
            self._lock_out_readers(is_patient=is_patient)
            self.mixes = _copies_and_swaps(steps)
            if self.mixes and not is_patient:
                stage.require_new_snapshots(self.connection)
            self._move(moving, renames)
        filled = [step.real for step in steps if step.action == "insert" and step.leaf.size_bytes]
        self.replaced = [(step.leaf.place.parent, step.leaf.place.identity) for step in steps if step.replaces]
        stage.drop(self.connection, self.staging)
        self._say(steps)
        # Where nobody knows which partition has got rows, it may be any.
        tables = {self.task.table if real is None else real.name for real in filled}
        return any(unlogged.is_unlogged(self.connection, table) for table in tables)

    def _lock_out_readers(self, *, is_patient: bool) -> None:
        """Takes the last lock, without standing in its queue: see `publish`."""
        statement = f"LOCK TABLE {self.task.table.sql} IN ACCESS EXCLUSIVE MODE"
        until = time.monotonic() + LOCK_SECONDS
        while not is_patient:
            try:
                with self.connection.transaction():
                    self.connection.execute(f"{statement} NOWAIT".encode())
                return
            except psycopg.errors.LockNotAvailable:
                if time.monotonic() >= until:
                    raise
            time.sleep(LOCK_PAUSE_SECONDS)
        self.connection.execute(statement.encode())

    def _require_structure(self, steps: list[Step]) -> None:
        """Refuses to mix rows with others where they would lose their structure."""
        for step in steps if self.is_strict else ():
            if step.leaf.place.bound == partition_bounds.DEFAULT:
                continue
            if step.action in ("insert", "absorb") and step.leaf.size_bytes:
                why = step.why or f"{step.real.name if step.real else step.leaf.place.bound} has rows"
                raise structure.not_now(self.task.table, why)

    def _require_replaced(self, steps: list[Step]) -> None:
        """Refuses to put rows beside those that they were to replace, in partitions that were not there before."""
        if self.task.replace_scope != "partitions":
            return
        known = {step.real.oid for step in steps if step.real is not None}
        others = [
            partition
            for partition in partition_steps.read_target(self.connection, self.task.table).leaves
            if partition.oid not in known
        ]
        for step in steps:
            homeless = step.action == "insert" and (step.real is None or (step.real.is_default and bool(others)))
            if homeless and step.leaf.size_bytes:
                raise TippleError(
                    f"partitions of {self.task.table} were changed while it was loaded: "
                    f"there is none for exactly {step.leaf.place.bound.removeprefix('FOR VALUES ')} any more",
                    hint="nothing was published; run it again with --restart: it replaces those that are there now",
                )

    def _require_same_columns(self) -> None:
        ours, theirs = (
            set(self.connection.execute(_COLUMNS, (table.sql,)).fetchall()) for table in (self.staging, self.task.table)
        )
        if ours != theirs:
            raise shape.changed_meanwhile(self.task.table, sorted({row[0] for row in ours ^ theirs}))

    def _require_same_numbers(self) -> None:
        table = self.task.table
        if sequences.is_numbered_anew(self.connection, self.plan, table, self.task.columns):
            raise TippleError(
                f"what numbers the rows of {table} was restarted or changed while it was loaded",
                hint="nothing was published, for numbers might come twice; run the command again: it begins anew",
            )

    def _copy(self, steps: list[Step]) -> None:
        columns = stage.stored_columns(self.connection, self.task.table)
        self._delete_replaced(steps)
        filled = []
        for step in steps:
            if step.action == "insert" and step.leaf.size_bytes:
                # Through the table itself: its bounds may have changed, and its rights are those that count.
                into = self.task.table
                filling.fill(
                    self.connection, self.task, into, step.leaf.name, columns, compares=self.compares, overrides=True
                )
                filled.append(into)
            elif step.action == "absorb" and step.real is not None:
                filling.fill(self.connection, self.task, step.leaf.name, step.real.name, columns)
                filled.append(step.leaf.name)
        stage.judge_now(self.connection, filled)

    def _delete_replaced(self, steps: list[Step]) -> None:
        """Rows that are to be replaced in partitions that stay."""
        swapped = {step.real.oid for step in steps if step.action == "swap" and step.real is not None}
        inserted = {
            step.real.oid for step in steps if step.action == "insert" and step.replaces and step.real is not None
        }
        whole = self.task.mode == "replace" and self.task.replace_scope == "table"
        if not whole and not inserted:
            return
        for partition in partition_steps.read_target(self.connection, self.task.table).leaves:
            if partition.oid not in swapped and (whole or partition.oid in inserted):
                try:
                    emptying.empty(self.connection, partition.name, self.task.table)
                except psycopg.Error as error:
                    raise (replica_identity.explain(error, partition.name, "DELETE") or error) from None

    def _move(self, moving: list[Step], renames: dict[TableName, list[tuple[str, str]]]) -> None:
        table = self.task.table
        taken = self._taken_names()
        default = self._default_in_the_way(moving)
        if default is not None:
            self.connection.execute(f"ALTER TABLE {table.sql} DETACH PARTITION {default.name.sql}".encode())
        hidden = [step.leaf.name for step in moving]
        shown = [(step.leaf.name, step.real.name) for step in moving if step.real is not None]
        stage.take_not_null_names(self.connection, shown)
        checks, named = self._bound_checks(hidden), self._named(hidden)
        unsettled = privileges.unsettled(self.connection, hidden, is_new=True)
        belonging = belongings.rest(self.connection, shown, keeps_indexes=self.structure is None)
        lent = sequences.defaults_lent(self.connection, table)
        for step in moving:
            place = step.leaf.place
            # An ending of the table's own name says where its partitions' indexes get theirs from.
            if step.real is not None:
                final, like = step.real.name, step.real.name.name
                self.connection.execute(f"DROP TABLE {final.sql}".encode())
            else:
                final = TableName(table.schema, partition_name(table.name, place.bound, taken))
                like = table.name
            parent = place.parent or table.sql
            for column in lent:
                statement = f"ALTER TABLE {step.leaf.name.sql} ALTER {quote_identifier(column)} DROP DEFAULT"
                self.connection.execute(statement.encode())
            self._settle(step.leaf.name, final, has_names=step.leaf.name in named)
            if self.structure is not None:
                structure.settle_names(self.connection, self.structure, step.leaf.name, final)
            self._attach(parent, final, place.bound)
            # The CHECK that spared the scan has done its service: the partition's bound says the same.
            for name in checks[step.leaf.name]:
                self.connection.execute(f"ALTER TABLE {final.sql} DROP CONSTRAINT {quote_identifier(name)}".encode())
            if step.leaf.name in unsettled:
                privileges.settle(self.connection, final, is_new=step.real is None)
            self._rename_indexes(final, like, renames[step.leaf.name], taken)
            for statement in belonging.get(final, ()):
                self.connection.execute(statement.encode())
            taken.add(final.name)
        if default is not None:
            new = sorted(step.leaf.place.bound for step in moving if step.real is None)
            self._attach(table.sql, default.name, partition_bounds.DEFAULT, beside=new)

    def _settle(self, hidden: TableName, final: TableName, *, has_names: bool) -> None:
        """Gives a hidden table its final name and schema, and what `has_names` made from the hidden one new ones."""
        statements = [
            f"ALTER TABLE {hidden.sql} RESET (autovacuum_enabled)",
            f"COMMENT ON TABLE {hidden.sql} IS NULL",
        ]
        if hidden.schema != final.schema and final.schema is not None:
            statements.append(f"ALTER TABLE {hidden.sql} SET SCHEMA {quote_identifier(final.schema)}")
        moved = TableName(final.schema, hidden.name)
        statements.append(f"ALTER TABLE {moved.sql} RENAME TO {quote_identifier(final.name)}")
        self.connection.execute("; ".join(statements).encode())
        if has_names:
            # Its CHECK constraint spares the scan of ATTACH, and goes afterwards.
            stage.rename_constraints(self.connection, final, hidden, kinds="n")

    def _named(self, hidden: Sequence[TableName]) -> set[TableName]:
        """Those with constraints that the server has named after them, or the hidden table."""
        return stage.with_named_constraints(self.connection, hidden, self.staging, kinds="nf")

    def _attach(self, parent: str, partition: TableName, bound: str, *, beside: Sequence[str] = ()) -> None:
        """Attaches a partition; `beside` are the bounds of new ones that the default partition must leave room for."""
        try:
            self.connection.execute(f"ALTER TABLE {parent} ATTACH PARTITION {partition.sql} {bound}".encode())
        except psycopg.errors.CheckViolation as error:
            more = ", …" if len(beside) > 3 else ""
            what = f"the new partitions {', '.join(beside[:3])}{more}" if beside else str(partition)
            raise TippleError(
                f"{parent_name(parent)} cannot have {what} beside its default partition: {error.diag.message_primary}",
                hint="the default partition has rows that belong to a new one: move them out of it, or load into it; "
                "nothing was published",
                detail={"sqlstate": error.sqlstate},
            ) from None
        except psycopg.errors.InvalidObjectDefinition as error:
            raise TippleError(
                f"{parent_name(parent)} has got another partition while it was loaded: {error.diag.message_primary}",
                hint="nothing was published; run the command again with --restart: it then loads into the new one",
                detail={"sqlstate": error.sqlstate},
            ) from None

    def _default_in_the_way(self, moving: list[Step]) -> Partition | None:
        """The default partition, where every ATTACH would scan it: detached, it is scanned once."""
        real = partition_steps.read_target(self.connection, self.task.table)
        default = next((partition for partition in real.partitions if partition.is_default), None)
        if default is None or default.kind != "r" or default.parent != real.oid or not self._size(default.name):
            return None
        return default if len(moving) > 1 and obstacles.keeps_indexes(self.connection, default.name) else None

    def _bound_checks(self, tables: Sequence[TableName]) -> defaultdict[TableName, list[str]]:
        """The CHECK constraints that say what the bounds of detached partitions were, by partition."""
        by_name = {table.sql: table for table in tables}
        found: defaultdict[TableName, list[str]] = defaultdict(list)
        rows = self.connection.execute(
            "SELECT name, conname FROM unnest(%s::text[]) AS name JOIN pg_constraint ON conrelid = to_regclass(name) "
            "WHERE contype = 'c' AND starts_with(conname, %s)",
            (list(by_name), self.staging.name[:22]),
        )
        for table, name in rows.fetchall():
            found[by_name[table]].append(name)
        return found

    def _rename_indexes(self, table: TableName, like: str, renames: list[tuple[str, str]], taken: set[str]) -> None:
        for own, name in renames:
            final = name
            if like != table.name:
                ending = name.removeprefix(like) if name.startswith(like) else f"_{name}"
                final = free_name(table.name, ending, taken)
            index = TableName(table.schema, own)
            self.connection.execute(f"ALTER INDEX {index.sql} RENAME TO {quote_identifier(final)}".encode())
            taken.add(final)

    def _taken_names(self) -> set[str]:
        rows = self.connection.execute(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = coalesce(%s, current_schema())",
            (self.task.table.schema,),
        )
        return {name for (name,) in rows}

    def _publish_new(self) -> None:
        table = self.task.table
        published = obstacles.publication_of_new(self.connection, table.schema)
        if published is not None:
            # It has come meanwhile.
            self.notes.append(
                f"{published}, and does not send the rows of the partitions, which were filled before they had their "
                "names: ALTER SUBSCRIPTION … REFRESH PUBLICATION copies them"
            )
        leaves = partitions.staged(self.connection, self.staging)
        taken = self._taken_names()
        self._settle_root(table, taken)
        hidden = [leaf.name for leaf in leaves]
        indexes_of, named = self._indexes(hidden), self._named(hidden)
        unsettled = privileges.unsettled(self.connection, hidden, is_new=True)
        for leaf in leaves:
            final = TableName(table.schema, partition_name(table.name, leaf.place.bound, taken))
            self._settle(leaf.name, final, has_names=leaf.name in named)
            if leaf.name in named:
                stage.rename_constraints(self.connection, final, self.staging, kinds="f", like=table)
            if leaf.name in unsettled:
                privileges.settle(self.connection, final, is_new=True)
            taken.add(final.name)
            for name, index, primary in indexes_of[leaf.name]:
                columns = "_".join(re.findall(r"\w+", index.rpartition("(")[2]))
                kind = "brin" if " USING brin " in index else "key"
                ending = "_pkey" if primary else f"_{columns[:20]}_{kind}"
                self._rename_indexes(final, "", [(name, ending)], taken)
        left = structure.constraints_left(self.connection, self.task, self.structure, table, self.given)
        # Those are added when the tables are there which they refer to.
        for constraint in filterfalse(constraints.is_foreign_key, left):
            self.connection.execute(f"ALTER TABLE {table.sql} ADD {constraint}".encode())
        if self.structure is not None and self.structure.structure == "sorted":
            # Takes over those of the partitions.
            self.connection.execute(structure.summary_statement(table, self.structure.key, taken).encode())
        self.notes.append(f"{table} was made with {len(leaves):,} partition{'s' if len(leaves) != 1 else ''}")

    def _indexes(self, tables: Sequence[TableName]) -> defaultdict[TableName, list[tuple[str, str, bool]]]:
        """Of each table its indexes' names and definitions, and whether they are primary keys."""
        by_name = {table.sql: table for table in tables}
        found: defaultdict[TableName, list[tuple[str, str, bool]]] = defaultdict(list)
        rows = self.connection.execute(
            "SELECT name, c.relname, pg_get_indexdef(c.oid), i.indisprimary FROM unnest(%s::text[]) AS name "
            "JOIN pg_index i ON i.indrelid = to_regclass(name) JOIN pg_class c ON c.oid = i.indexrelid",
            (list(by_name),),
        )
        for table, *index in rows.fetchall():
            found[by_name[table]].append((index[0], index[1], index[2]))
        return found

    def _settle_root(self, table: TableName, taken: set[str]) -> None:
        if self.staging.schema != table.schema and table.schema is not None:
            self.connection.execute(
                f"ALTER TABLE {self.staging.sql} SET SCHEMA {quote_identifier(table.schema)}".encode()
            )
        moved = TableName(table.schema, self.staging.name)
        self.connection.execute(f"ALTER TABLE {moved.sql} RENAME TO {quote_identifier(table.name)}".encode())
        for key, staged in structure.staged_keys(self.task, self.staging):
            name = constraints.name_of(key) or free_name(table.name, constraints.default_ending(key), taken)
            taken.add(name)
            rename = f"RENAME CONSTRAINT {quote_identifier(staged)} TO {quote_identifier(name)}"
            self.connection.execute(f"ALTER TABLE {table.sql} {rename}".encode())
        stage.rename_constraints(self.connection, table, self.staging)
        stage.rename_sequences(self.connection, table, self.staging)
        privileges.settle(self.connection, table, is_new=True)

    def _say(self, steps: list[Step]) -> None:
        counts: Counter[str] = Counter(step.action for step in steps)
        parts = [f"{counts[action]} {shown}" for action, shown in SHOWN.items() if counts[action]]
        default = [step for step in steps if step.leaf.place.bound == partition_bounds.DEFAULT]
        if any(step.action == "insert" for step in default):
            if self.structure is not None:
                self.notes.append("the default partition keeps its own structure: its rows went in by INSERT")
            if self.task.replace_scope == "partitions" and any(step.replaces for step in default):
                self.notes.append(
                    "records that belong to no other partition have replaced all rows of the default partition"
                )
        if parts:
            self.notes.append(f"partitions of {self.task.table}: {', '.join(parts)}")
        reasons = [step.why for step in steps if step.why]
        if reasons:
            more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
            self.notes.append(f"not swapped in, but filled by INSERT: {reasons[0]}{more}")


def _copies_and_swaps(steps: Sequence[Step]) -> bool:
    """Whether a snapshot from before the end would show some of the rows that there are afterwards, and not all."""
    actions = {step.action for step in steps}
    return "absorb" in actions or {"insert", "swap"} <= actions


def parent_name(quoted: str) -> str:
    """A quoted name for people."""
    return str(parse_table_name(quoted))
