"""What becomes of each hidden partition at the end of a load.

That depends on the target's partition with the same bound. Where there is none, the hidden one is attached; where that
one is empty or to be replaced, it takes its place. Where that one has rows to be kept, the smaller side is inserted
into the larger one: the work is proportional to the smaller, whichever it is. What is asked of the server is asked for
all partitions at once, since there may be thousands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.postgresql import missing, stage
from tipple.engines.postgresql.partitioned import partition_bounds, partition_replays, partitions
from tipple.engines.postgresql.partitioned.partition_bounds import Partition, Partitioning
from tipple.engines.postgresql.partitioned.partitions import Staged
from tipple.engines.postgresql.place import estranged, obstacles, sequences
from tipple.errors import TippleError
from tipple.plan.url import TableName

Action = Literal["attach", "swap", "absorb", "insert", "leave"]
"""attach: becomes a partition. swap: takes the place of one. absorb: takes its rows and its place. insert: gives its
rows to the target. leave: has none."""

MOVING = ("attach", "swap", "absorb")
"""What makes a hidden partition one of the target's."""

_COLUMN_ORDER = """
SELECT array_agg(attname ORDER BY attnum) FROM unnest(%s::text[]) WITH ORDINALITY AS t (name, n)
LEFT JOIN pg_attribute ON attrelid = to_regclass(t.name) AND attnum > 0 AND NOT attisdropped GROUP BY n ORDER BY n
"""
# A hidden partition was made like the target's: where they differ now, somebody has changed that one meanwhile.
_CHANGED_COLUMNS = """
SELECT DISTINCT ON (pair.n) pair.n, format('its column %%I was changed meanwhile', own.attname)
FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS pair (target, leaf, n)
JOIN pg_attribute own ON own.attrelid = to_regclass(pair.target) AND own.attnum > 0 AND NOT own.attisdropped
JOIN pg_attribute hidden ON hidden.attrelid = to_regclass(pair.leaf) AND hidden.attname = own.attname
LEFT JOIN pg_attrdef d ON d.adrelid = own.attrelid AND d.adnum = own.attnum
LEFT JOIN pg_attrdef h ON h.adrelid = hidden.attrelid AND h.adnum = hidden.attnum
WHERE own.attnotnull <> hidden.attnotnull OR own.attstorage <> hidden.attstorage
    OR own.attcompression <> hidden.attcompression
    OR pg_get_expr(d.adbin, d.adrelid) IS DISTINCT FROM pg_get_expr(h.adbin, h.adrelid)
        -- Lent to the hidden one: see `sequences`.
        AND NOT (d.adbin IS NULL AND own.attname = ANY (%s::text[]))
ORDER BY pair.n, own.attname
"""
# Where the role had not the right to stage it there, or somebody has moved the target's one meanwhile.
_OTHER_PLACES = """
SELECT pair.n FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS pair (target, leaf, n)
JOIN pg_class own ON own.oid = to_regclass(pair.target)
JOIN pg_class hidden ON hidden.oid = to_regclass(pair.leaf) AND hidden.reltablespace <> own.reltablespace
"""
_SIZES = """
SELECT coalesce(pg_relation_size(to_regclass(name)), 0)
FROM unnest(%s::text[]) WITH ORDINALITY AS t (name, n) ORDER BY n
"""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a hidden partition."""

    leaf: Staged
    real: Partition | None
    """The target's partition with the same bound."""
    action: Action
    why: str = ""
    replaces: bool = False
    """Whether rows that the target's partition has are to go."""


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the target's partitions whose place others may take."""

    obstacles: dict[TableName, str]
    sizes: dict[TableName, int]
    filled: set[TableName]


def read_target(connection: psycopg.Connection[Any], table: TableName) -> Partitioning:
    """How the target is partitioned now.

    Raises:
        TippleError: it is not partitioned any more.
    """
    real = partition_bounds.read(connection, table)
    if real is None:
        if connection.execute("SELECT FROM pg_class WHERE oid = to_regclass(%s)", (table.sql,)).fetchone() is None:
            raise missing.gone(table)
        raise TippleError(
            f"{table} is not a partitioned table any more",
            hint="nothing was published; run the command again with --restart",
        )
    return real


def of_another_order(
    connection: psycopg.Connection[Any], table: TableName, partitions: Sequence[TableName]
) -> dict[TableName, str]:
    """Partitions that one made like the table would not be the same as, and why."""
    asked = [name.sql for name in (table, *partitions)]
    (ours,), *theirs = connection.execute(_COLUMN_ORDER, (asked,)).fetchall()
    why = "its columns stand in another order than those of the table"
    return {name: why for name, (order,) in zip(partitions, theirs, strict=True) if order != ours}


def decide(
    connection: psycopg.Connection[Any], task: LoadTask, staging: TableName, *, may_swap: bool, may_mix: bool
) -> list[Step]:
    """What becomes of each hidden partition, as the target is now.

    Raises:
        TippleError: the target is not partitioned any more.
    """
    real = read_target(connection, task.table)
    by_place = _by_place(real)
    leaves = partitions.staged(connection, staging)
    filled = stage.having_rows(connection, [leaf.name for leaf in leaves if leaf.size_bytes])
    detour = obstacles.detour(connection, task.table)
    divided = {partition.name.sql for partition in real.partitions if partition.kind == "p"}
    replayed = partition_replays.replayed_by(connection, task) if partition_replays.is_replay(task) else None
    decision = _Decision(connection, task, filled, divided, detour, replayed, may_swap=may_swap, may_mix=may_mix)
    matched = [(leaf, by_place.get((leaf.place.parent, leaf.place.identity))) for leaf in leaves]
    decision.look_at([(leaf, real) for leaf, real in matched if real is not None and decision.touches(leaf)])
    steps = [decision.step(leaf, real) for leaf, real in matched]
    known = {(leaf.place.parent, leaf.place.identity) for leaf in leaves}
    if all(place in known or partition.kind == "p" for place, partition in by_place.items()):
        return steps
    # Somebody has attached other partitions meanwhile: rows for them go through the target itself.
    return [
        msgspec.structs.replace(step, action="insert", why="the target has got other partitions meanwhile")
        if step.action == "attach" and _overlaps(connection, task, staging, step.leaf)
        else step
        for step in steps
    ]


def _overlaps(connection: psycopg.Connection[Any], task: LoadTask, staging: TableName, leaf: Staged) -> bool:
    """Whether a partition of the target takes some of the keys of a hidden one."""
    probe = TableName(leaf.name.schema, f"{staging.name}_probe")
    parent = leaf.place.parent or task.table.sql
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(f"CREATE TABLE {probe.sql} PARTITION OF {parent} {leaf.place.bound}".encode())
    except (psycopg.errors.InvalidObjectDefinition, psycopg.errors.CheckViolation):
        # The second: rows of a default partition.
        return True
    return False


def beside(
    connection: psycopg.Connection[Any], task: LoadTask, staging: TableName
) -> list[tuple[TableName, TableName]]:
    """Hidden partitions with rows, and those of the target with the same bound that have rows too, which are to stay.

    Those that publish has detached already are none: what is in the way of their rows is in its way.
    """
    by_place = _by_place(read_target(connection, task.table))
    staged = partitions.staged(connection, staging)
    leaves = [leaf for leaf in staged if leaf.size_bytes and leaf.hidden_parent is not None and not leaf.detaching]
    found = [(leaf, by_place.get((leaf.place.parent, leaf.place.identity))) for leaf in leaves]
    replayed = partition_replays.replayed_by(connection, task) if partition_replays.is_replay(task) else None
    matched = [
        (leaf, real)
        for leaf, real in found
        if real is not None and (replayed is None or (leaf.place.parent, leaf.place.identity) in replayed.places)
    ]
    having = stage.having_rows(connection, [table for leaf, real in matched for table in (leaf.name, real.name)])
    return [(leaf.name, real.name) for leaf, real in matched if {leaf.name, real.name} <= having]


def _by_place(real: Partitioning) -> dict[tuple[str | None, str], Partition]:
    """The partitions of the target by their parent, None for the table itself, and what is said of their bound."""
    names = {real.oid: None, **{partition.oid: partition.name.sql for partition in real.partitions}}
    return {(names.get(partition.parent), partition.identity): partition for partition in real.partitions}


class _Decision:
    """Decides for one moment of one load."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        task: LoadTask,
        filled: set[TableName],
        divided: set[str],
        detour: str | None,
        replayed: partition_replays.Replayed | None,
        *,
        may_swap: bool,
        may_mix: bool,
    ) -> None:
        """`filled` are hidden partitions with rows, `divided` partitions of the table, quoted, that have partitions;
        `detour` says what the table has got that rows must meet, `replayed` whose rejects these are, of a load that has
        replaced partitions.
        """
        self.replayed = replayed
        self.divided = divided
        self.detour = detour
        self.connection = connection
        self.task = task
        self.filled = filled
        self.may_swap = may_swap
        self.may_mix = may_mix
        self.facts = _Facts(obstacles={}, sizes={}, filled=set())

    def replaces(self, leaf: Staged) -> bool:
        """Whether rows of the target's partition are to go."""
        if self.replayed is not None:
            return leaf.name in self.filled and (leaf.place.parent, leaf.place.identity) not in self.replayed.places
        return self.task.mode == "replace" and (leaf.name in self.filled or self.task.replace_scope == "table")

    def touches(self, leaf: Staged) -> bool:
        """Whether anything becomes of it where the target has such a partition."""
        return leaf.name in self.filled or self.replaces(leaf)

    def look_at(self, matched: Sequence[tuple[Staged, Partition]]) -> None:
        """Asks for what `step` must know of partitions of the target, which stand behind the hidden ones."""
        names = [real.name for _, real in matched]
        found = {real.name: "it is not an ordinary table" for _, real in matched if real.kind != "r"}
        for name, obstacle in obstacles.of_all(self.connection, names, self.task, partition=True).items():
            found.setdefault(name, obstacle)
        for name, obstacle in of_another_order(self.connection, self.task.table, names).items():
            found.setdefault(name, obstacle)
        asked = [name.sql for name in names]
        lent = sequences.defaults_lent(self.connection, self.task.table)
        pairs = (asked, [leaf.name.sql for leaf, _ in matched])
        for n, changed in self.connection.execute(_CHANGED_COLUMNS, (*pairs, lent)).fetchall():
            found.setdefault(names[n - 1], changed)
        # With --tablespace they are to move.
        for (n,) in [] if self.task.tablespaces else self.connection.execute(_OTHER_PLACES, pairs).fetchall():
            found.setdefault(names[n - 1], "its rows were staged in another tablespace")
        places = {leaf.name: real.name for leaf, real in matched}
        for name, why in estranged.of_all(self.connection, list(places.items())).items():
            found.setdefault(places[name], why)
        sizes = {}
        if self.task.mode != "replace":
            rows = self.connection.execute(_SIZES, (asked,)).fetchall()
            sizes = {name: int(size) for name, (size,) in zip(names, rows, strict=True)}
        held = [name for name, size in sizes.items() if size]
        self.facts = _Facts(obstacles=found, sizes=sizes, filled=stage.having_rows(self.connection, held))

    def step(self, leaf: Staged, real: Partition | None) -> Step:
        """What becomes of a hidden partition; the target's with the same bound was looked at."""
        has_rows, replaces = leaf.name in self.filled, self.replaces(leaf)
        action: Action
        why = ""
        if replaces and real is not None and self.replayed is not None and self._has_rows(real):
            self.replayed.require_own(real.name)
        if leaf.place.bound == partition_bounds.DEFAULT:
            action = "insert" if has_rows or (replaces and real is not None) else "leave"
        elif real is None:
            action = "attach" if has_rows or leaf.place.asked else "leave"
            self._require_way(leaf)
            if leaf.place.parent is not None and leaf.place.parent not in self.divided:
                # It was dropped, or is there and no part of the table any more.
                action = "insert" if has_rows else "leave"
        elif not self.touches(leaf):
            action = "leave"
        else:
            obstacle = self.facts.obstacles.get(real.name)
            if obstacle is None and not self.may_mix:
                obstacle = "others read the table while rows are copied"
            if obstacle is None and replaces and not self.may_swap:
                obstacle = "a transaction began before the load ended and is still open"
            if self.detour is not None:
                action, why = "insert", f"{self.task.table}: {self.detour}"
            elif obstacle is not None:
                action, why = "insert", f"{real.name}: {obstacle}"
            else:
                action = "swap" if replaces else self._append_action(leaf, real)
        return Step(leaf=leaf, real=real, action=action, why=why, replaces=replaces)

    def _has_rows(self, real: Partition) -> bool:
        return bool(self.facts.sizes.get(real.name, 0)) and real.name in self.facts.filled

    def _require_way(self, leaf: Staged) -> None:
        """Refuses to make a new partition of rows that must come through the table: without it, that takes none."""
        if self.detour is not None and leaf.name in self.filled:
            hint = "run the command again with --restart: it goes by the partitions that are there then"
            if self.task.partition_by is not None:
                hint = f"make the partition {leaf.place.bound}, and run the command again with --restart and without "
                hint += "--partition-by"
            raise TippleError(
                f"the table {self.task.table} was changed while it was loaded: {self.detour}",
                hint=f"nothing was published; {hint}",
            )

    def _append_action(self, leaf: Staged, real: Partition) -> Action:
        held = self.facts.sizes.get(real.name, 0)
        if held == 0:
            return "swap"
        # An older snapshot still sees rows that were deleted, and would not see those that are absorbed.
        if not self.may_swap:
            return "insert"
        if real.name not in self.facts.filled:
            return "swap"
        return "absorb" if held < leaf.size_bytes or self.task.indexes == "rebuild" else "insert"
