"""Partitioned loading: a hidden table with the same partitions is filled, and its partitions then change places with
those of the target in one transaction.

The hidden table is partitioned as the target is. So rows can go into its partitions directly, where the core knows
their place, or into the hidden table itself, where only the server does; and a row in the wrong partition is refused
by the server in either case. DETACH PARTITION ... CONCURRENTLY then leaves each partition a valid CHECK constraint
that says its bound, without a scan, and by it ATTACH PARTITION needs none either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from tipple.engines.base import Cut, LoadTask
from tipple.engines.core import NoPartition
from tipple.engines.postgresql import checks, remedies, stage, structure, tablespaces
from tipple.engines.postgresql.diagnostics import server_error
from tipple.engines.postgresql.partitioned import partition_bounds, partition_growth
from tipple.engines.postgresql.partitioned.partition_bounds import Partitioning
from tipple.engines.postgresql.place import belongings, sequences
from tipple.engines.postgresql.sessions import lock_room
from tipple.errors import TippleError, UsageError
from tipple.plan import constraints
from tipple.plan.decodable import decodable
from tipple.plan.partitioning import PartitionBy
from tipple.plan.quotes import is_named
from tipple.plan.url import TableName, quote_identifier

SLICE_BYTES_PER_PARTITION = 2048 * 1024
"""Text of a slice for each partition: as long as COPY must be at least for its beginning and end not to count."""
_SENT_TOGETHER = 100

_HIDDEN = re.compile(rf"{stage.PREFIX}[0-9a-f]{{32}}_[0-9]+")
"""The name of a hidden partition in what the server says, whose words and quotes depend on its language."""
_OF_KEYS = "DefineIndex"
"""Where the server says that a key lacks a column that divides the table (src/backend/commands/indexcmds.c)."""


def is_partitioned(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Whether this is the root of partitions."""
    found = connection.execute(
        "SELECT FROM pg_class WHERE oid = to_regclass(%s) AND relkind = 'p'", (table.sql,)
    ).fetchone()
    return found is not None


def leaves(connection: psycopg.Connection[Any], table: TableName) -> list[TableName]:
    """The partitions that hold the rows of a table, if it has any."""
    found = partition_bounds.read(connection, table)
    return [leaf.name for leaf in found.leaves] if found is not None else []


def with_larger_slices(connection: psycopg.Connection[Any], task: LoadTask) -> LoadTask:
    """The task with slices that are worth a COPY for each partition, as long as every stream has several of them."""
    real = partition_bounds.read(connection, task.table) if task.definition is None else None
    wanted = SLICE_BYTES_PER_PARTITION * len(real.leaves if real is not None else ())
    most = sum(source.size for source in task.sources) // (4 * task.streams)
    if task.columnar is not None or min(wanted, most) <= task.slice_bytes:
        return task
    return msgspec.structs.replace(task, slice_bytes=min(wanted, most))


def check_request(connection: psycopg.Connection[Any], task: LoadTask) -> None:
    """Refuses --partition-by where it cannot be followed.

    Raises:
        UsageError: says why.
    """
    asked = task.partition_by
    if asked is None:
        return
    if not task.atomic or task.mode == "upsert":
        raise UsageError(
            f"--partition-by does not go with {'--mode upsert' if task.atomic else '--no-atomic'}",
            hint="leave one of them out, or create the partitions before",
        )
    if task.definition is None:
        real = partition_bounds.read(connection, task.table)
        if real is None:
            raise UsageError(
                f"{task.table} exists and is not partitioned",
                hint="leave out --partition-by, or drop the table and give --schema",
            )
        partition_growth.require_same_key(task.table, asked, real)
        refuse_half_detached(connection, task.table)
    elif task.definition.unsupported is None and task.definition.unlogged:
        raise UsageError("a partitioned table cannot be unlogged", hint="leave UNLOGGED out of the schema file")

    partition_growth.key_type(task, asked)
    if asked.grows:
        _require_keys_beforehand(task, asked)


def refuse_half_detached(connection: psycopg.Connection[Any], table: TableName) -> None:
    """Refuses to attach partitions beside one that is none any more, and still has its keys.

    Raises:
        UsageError: says how to get rid of it.
    """
    detached = partition_bounds.half_detached(connection, table)
    if detached is not None:
        raise UsageError(
            f"a DETACH CONCURRENTLY of the partition {detached} was begun and not finished",
            hint=f"finish it: ALTER TABLE {table.sql} DETACH PARTITION {detached.sql} FINALIZE;",
        )


def _require_keys_beforehand(task: LoadTask, asked: PartitionBy) -> None:
    """Refuses what can be read only once, where the rows themselves say which partitions they need."""
    if task.stream is not None and task.stream_again is None:
        reason = "from rows in memory that can be read only once"
        hint = (
            "give a table or a frame in place of a reader, or the boundaries: partition_by='range(column, bounds=[…])'"
        )
    elif task.columnar is not None or (task.ledger and not task.reads_stdin):
        return
    else:
        reason = "from standard input" if task.reads_stdin else "without the ledger"
        hint = "give the boundaries: --partition-by 'range(column, bounds=[…])'"
    raise UsageError(
        f"--partition-by with every={asked.every} does not work {reason}: partitions are made as rows need them",
        hint=hint,
    )


def warnings(connection: psycopg.Connection[Any], task: LoadTask) -> list[str]:
    """What is going to cost time at publish, or rows that nobody thinks of."""
    real = partition_bounds.read(connection, task.table)
    found = []
    for partition in real.partitions if real is not None else ():
        if partition.is_default and partition.kind == "r" and not stage.is_empty(connection, partition.name):
            found.append(
                f"the default partition {partition.name} has rows: publishing has to scan it under lock; "
                "move its rows into partitions of their own to spare that"
            )
            if task.mode == "replace" and task.replace_scope == "partitions":
                found.append(
                    f"one record that belongs to no other partition replaces all rows of {partition.name}: "
                    "it is the default partition"
                )
    return found


def create_staging(connection: psycopg.Connection[Any], task: LoadTask, staging: TableName, cut: Cut) -> dict[str, Any]:
    """The hidden table with its partitions; call it in a transaction. Gives what the job's plan has to keep.

    That is, as `checks`, the CHECK constraints of a new table that it has already, and as `left_out` the bounds of
    partitions that were asked for and are not made, each with the partition that is in the way; as `gaps` the same of
    those that records may need.

    Raises:
        UsageError: the partitions that were asked for cannot be made.
    """
    asked = task.partition_by
    given: list[str] = []
    wanted: dict[str, str] = {}
    if task.definition is not None and asked is not None:
        partition_growth.key_type(task, asked)
        bare = msgspec.structs.replace(task.definition, options_text="")
        columns = bare.create_sql(staging.sql, with_constraints=False)
        made = f"{columns} PARTITION BY {partition_growth.key_sql(asked)} {task.definition.options_text}"
        _make(connection, asked, made)
        # A key that does not hold the partition's is refused now, and not after the load.
        with connection.transaction(force_rollback=not structure.judges_records(task)):
            hidden = {key.constraint: key.staged_name for key in structure.staged_keys(task, staging)}
            for constraint in task.definition.constraints:
                if constraints.is_foreign_key(constraint) and not structure.judges_records(task):
                    # The table that it refers to may be made by the same job.
                    continue
                added = constraint
                if constraint in hidden:
                    name = quote_identifier(hidden[constraint])
                    added = f"CONSTRAINT {name} {constraints.without_name(constraint)}"
                _make(connection, asked, f"ALTER TABLE {staging.sql} ADD {added}")
        if not structure.judges_records(task):
            # Before there is a partition, each of which then has them under the same names.
            given = checks.add(connection, task, staging)
    else:
        real = partition_bounds.read(connection, task.table)
        if real is None:
            raise UsageError(f"{task.table} is not partitioned", hint="leave out --partition-by")
        like = f"(LIKE {task.table.sql} INCLUDING ALL EXCLUDING INDEXES EXCLUDING STATISTICS EXCLUDING COMMENTS "
        like += "EXCLUDING IDENTITY)"
        made = f"CREATE TABLE {staging.sql} {like} PARTITION BY {real.key_definition}"
        if asked is not None:
            partition_growth.require_same_key(task.table, asked, real)
            partition_growth.key_type(task, asked)
            with connection.transaction(force_rollback=True):
                # By themselves, the partitions that were asked for must not overlap.
                connection.execute(made.encode())
                wanted = _add_fixed(connection, task, staging, asked)
        connection.execute(made.encode())
        sequences.lend(connection, staging, task.table)
        _create_like(connection, staging, task.table, real)
    left_out: dict[str, str] = {}
    gaps: dict[str, str] = {}
    if asked is not None:
        if task.definition is None:
            left_out = _add_beside(connection, task, staging, wanted)
        else:
            _add_fixed(connection, task, staging, asked)
        if asked.grows:
            keys = partition_growth.sampled_keys(task, asked, cut)
            type_text = partition_growth.key_type(task, asked)
            bounds = partition_growth.bounds_for(connection, asked, type_text, keys, fill=True)
            refused = _add_partitions(connection, task, staging, bounds)
            # Of text, keys that have no partition are met before rows are stored.
            gaps = {} if task.columnar is None else partition_growth.gaps(connection, task, staging, refused)
    return {"checks": given, "left_out": left_out, "gaps": gaps}


def _add_fixed(
    connection: psycopg.Connection[Any], task: LoadTask, staging: TableName, asked: PartitionBy
) -> dict[str, str]:
    """Adds the partitions that do not depend on the rows to a hidden table that has none; gives their bounds, each with
    its form that no setting of a session changes."""
    bounds = partition_growth.fixed_bounds(asked)
    refused = _add_partitions(connection, task, staging, bounds)
    if refused:
        order = "value once" if asked.method == "list" else "boundary once, in rising order"
        first = next(iter(refused)).removeprefix("FOR VALUES ")
        raise UsageError(
            f"--partition-by makes partitions that overlap or are empty: {first}",
            hint=f"give each {order}: as the column's type has them, 01 is 1",
        )
    made = [TableName(staging.schema, f"{staging.name}_{number}") for number in range(len(bounds))]
    identities = partition_bounds.identities_of(connection, made)
    return {bound: identities[name] for bound, name in zip(bounds, made, strict=True)}


def _add_beside(
    connection: psycopg.Connection[Any], task: LoadTask, staging: TableName, wanted: dict[str, str]
) -> dict[str, str]:
    """Adds the partitions of `wanted` (see `_add_fixed`) to a hidden table that has those of the target; gives the
    bounds of those that overlap one with another bound, each with that one.

    Raises:
        UsageError: the server cannot make one.
    """
    refused = _add_partitions(connection, task, staging, list(wanted))
    there = partition_bounds.identities_of(connection, [other for other in refused.values() if other is not None])
    left_out = {}
    for bound, other in refused.items():
        if other is None:
            # None of them is empty, so it is a hash, which must fit the others.
            raise UsageError(
                f"{task.table} cannot have the partition {bound.removeprefix('FOR VALUES ')} beside those that it has: "
                "of the moduli of all, each must be a factor of the next larger one",
                hint="ask for as many partitions as it has, or leave out --partition-by",
            )
        if there[other] != wanted[bound] and not _has_each(connection, task, staging, bound):
            left_out[bound] = partition_growth.shown(connection, task.table, other)
    return left_out


def _has_each(connection: psycopg.Connection[Any], task: LoadTask, staging: TableName, bound: str) -> bool:
    """Whether a list's values, in any order, all belong to partitions of the hidden table already."""
    if task.partition_by is None or task.partition_by.method != "list":
        return False
    each = [f"FOR VALUES IN ({literal})" for literal in partition_bounds.literals(bound)]
    with connection.transaction(force_rollback=True):
        return len(_add_partitions(connection, task, staging, each)) == len(each)


def _make(connection: psycopg.Connection[Any], asked: PartitionBy, statement: str) -> None:
    try:
        with connection.transaction():
            connection.execute(statement.encode())
    except (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError) as error:
        told = server_error(error)
        lacking = [name for name in asked.columns if told.routine == _OF_KEYS and is_named(told.detail, name)]
        hint = remedies.of_tablespace(connection, told) or "check --partition-by and the column's type"
        if lacking:
            hint = f"add {lacking[0]}, which divides the table, to each PRIMARY KEY and UNIQUE in the schema file"
        raise UsageError(f"the server cannot partition the table like this: {told.message}", hint=hint) from None


@decodable
class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a hidden partition belongs; kept as its comment, because a detached one has no bound any more."""

    parent: str | None
    """The target's table that it is to be a partition of, quoted; None where that is the target itself."""
    bound: str
    identity: str
    """The bound as no setting of a session changes it."""
    asked: bool
    """Whether --partition-by made it, and not one that the target has."""


def _remembered(connection: psycopg.Connection[Any], hidden: TableName, place: Place) -> str:
    text = sql.Literal(json.dumps(msgspec.to_builtins(place))).as_string(connection)
    return f"COMMENT ON TABLE {hidden.sql} IS {text}"


def _run(connection: psycopg.Connection[Any], statements: Sequence[str]) -> None:
    """Runs statements, many at a time: thousands of partitions would wait for as many answers."""
    for begin in range(0, len(statements), _SENT_TOGETHER):
        connection.execute("; ".join(statements[begin : begin + _SENT_TOGETHER]).encode())


def _create_like(connection: psycopg.Connection[Any], staging: TableName, table: TableName, real: Partitioning) -> None:
    """A partition for every one of the target, on every level."""
    made = {real.oid: staging}
    names = {real.oid: table, **{partition.oid: partition.name for partition in real.partitions}}
    own = checks.of_partitions(connection, table, [partition.oid for partition in real.leaves])
    statements, pairs = [], []
    for number, partition in enumerate(real.partitions):
        hidden = TableName(staging.schema, f"{staging.name}_{number}")
        made[partition.oid] = hidden
        statement = f"CREATE TABLE {hidden.sql} PARTITION OF {made[partition.parent].sql} {partition.bound}"
        if partition.kind == "p":
            under = partition_bounds.read(connection, partition.name)
            statement += f" PARTITION BY {under.key_definition}" if under is not None else ""
        else:
            statement += " WITH (autovacuum_enabled = false)"
            if partition.tablespace:
                statement += f" TABLESPACE {quote_identifier(partition.tablespace)}"
        statements.append(statement)
        if partition.kind != "p":
            pairs.append((hidden, partition.name))
            statements += [f"ALTER TABLE {hidden.sql} {change}" for change in own[partition.oid]]
            parent = None if partition.parent == real.oid else names[partition.parent].sql
            place = Place(parent=parent, bound=partition.bound, identity=partition.identity, asked=False)
            statements.append(_remembered(connection, hidden, place))
    _run(connection, statements)
    _run(connection, belongings.give(connection, pairs))


def _add_partitions(
    connection: psycopg.Connection[Any], task: LoadTask, staging: TableName, bounds: Sequence[str]
) -> dict[str, TableName | None]:
    """Adds partitions to the hidden table; gives the bounds of those that are not made, as another hidden one has some
    of their keys already: each with that one (None: they are empty).

    Raises:
        UsageError: the server cannot make one.
    """
    first = len(stage.members(connection, staging)) - 1
    made: list[TableName] = []
    refused: dict[str, TableName | None] = {}
    place = tablespaces.clause_of_new_partitions(connection, task)

    def create(asked: Sequence[str]) -> None:
        hidden = [TableName(staging.schema, f"{staging.name}_{first + len(made) + n}") for n in range(len(asked))]
        try:
            with connection.transaction():
                _run(
                    connection,
                    [
                        f"CREATE TABLE {name.sql} PARTITION OF {staging.sql} {bound} WITH (autovacuum_enabled = false)"
                        f"{place}"
                        for name, bound in zip(hidden, asked, strict=True)
                    ],
                )
            made.extend(hidden)
        except (psycopg.DataError, psycopg.ProgrammingError) as error:
            if len(asked) > 1:
                for bound in asked:
                    create([bound])
            elif isinstance(error, psycopg.errors.InvalidObjectDefinition):
                named = _HIDDEN.findall(error.diag.message_primary or "")
                others = (TableName(staging.schema, name) for name in named if name != hidden[0].name)
                refused[asked[0]] = next(others, None)
            else:
                raise UsageError(
                    f"{task.table} cannot have the partition {asked[0].removeprefix('FOR VALUES ')}: "
                    f"{error.diag.message_primary}",
                    hint="check --partition-by against the column's type",
                ) from None

    for begin in range(0, len(bounds), _SENT_TOGETHER):
        create(bounds[begin : begin + _SENT_TOGETHER])
    if made:
        _require_room(connection, task, first + len(made), lock_room.held(connection, made))
    shown = partition_bounds.bounds_of(connection, made)
    identities = partition_bounds.identities_of(connection, made)
    places = (Place(parent=None, bound=shown[name], identity=identities[name], asked=True) for name in made)
    _run(connection, [_remembered(connection, name, place) for name, place in zip(made, places, strict=True)])
    return refused


def _require_room(connection: psycopg.Connection[Any], task: LoadTask, partitions: int, held: lock_room.Held) -> None:
    """Refuses so many partitions, of which some have taken these locks, if they could be made and not published."""
    keys = sum(map(constraints.is_key, task.definition.constraints)) if task.definition is not None else 0
    grows = task.partition_by is not None and task.partition_by.grows
    each = held.each + keys
    shortage = lock_room.shortage(connection, partitions, each=each, once=held.once, more_may_come=grows)
    if shortage is not None:
        raise UsageError(f"--partition-by makes too many: {shortage}", hint="choose a larger every, or raise it")


def grow(
    connection: psycopg.Connection[Any],
    task: LoadTask,
    staging: TableName,
    missing: NoPartition,
    left_out: dict[str, str],
) -> int:
    """Makes the partitions for keys that the core has met and found none for; says how many. Adds to `left_out` the
    bounds of those that cannot be made, each with the partition that is in the way.

    Raises:
        NoPartition: the table does not grow.
        TippleError: they would be too many.
    """
    asked = task.partition_by
    if asked is None or not asked.grows:
        raise missing
    type_text = partition_growth.key_type(task, asked)
    keys = [text for key in missing.keys for text in partition_growth.completed(asked, key)]
    there = len(stage.members(connection, staging)) - 1 - len(leaves(connection, task.table))
    try:
        bounds = partition_growth.bounds_for(connection, asked, type_text, keys, fill=False, there=there)
        tablespaces.restrict_default(connection, exists=task.definition is None)
        refused = _add_partitions(connection, task, staging, bounds)
    except UsageError as error:
        # Before the load the same would be wrong usage; by now it has begun.
        raise TippleError(error.message, hint=error.hint) from None
    left_out.update({bound: partition_growth.shown(connection, task.table, other) for bound, other in refused.items()})
    return len(bounds) - len(refused)


class Routed(msgspec.Struct, frozen=True, kw_only=True):
    """How records find their partitions."""

    plan: dict[str, Any] | None
    """The core's `Routing`; None where the server routes."""
    reason: str
    """Why the server does; empty where the core does."""


def routing(
    connection: psycopg.Connection[Any], task: LoadTask, staging: TableName, hopeless: set[str], *, binary: bool
) -> Routed:
    """How records find the hidden table's partitions; `hopeless` are keys for which none can be made."""
    hidden = partition_bounds.read(connection, staging)
    if hidden is None:
        return Routed(plan=None, reason="the staging table is gone")
    grows = task.partition_by is not None and task.partition_by.grows
    reason = partition_bounds.unroutable(hidden, task.columns, may_be_none=grows)
    if reason is None and not binary:
        reason = "the server itself reads every value"
    if reason is None and task.stream is not None:
        reason = "the source is a stream in memory"
    if reason is not None:
        return Routed(plan=None, reason=reason)
    plan = {
        "tables": [partition.name.sql for partition in hidden.partitions],
        "route": partition_bounds.route_plan(connection, hidden, task.columns),
        "grows": grows,
        "hopeless": sorted(hopeless),
        "buffer_bytes": task.routing_bytes,
    }
    return Routed(plan=plan, reason="")


def route_notes(server_reason: str, routes: dict[str, int], grown: int, left_out: dict[str, str]) -> list[str]:
    """How rows came into their partitions: the data decide it, window by window.

    Args:
        server_reason: why the server routed all of them; empty where the core did.
        routes: the core's `Routes`.
        grown: partitions that were made while it ran. It has begun again after that, and counted anew.
        left_out: what [grow][] could not make.
    """
    more = f"{grown:,} more partitions were" if grown > 1 else "1 more partition was"
    notes = [f"{more} made for keys that no sample had shown"] if grown else []
    notes += [partition_growth.of_left_out(left_out)] if left_out else []
    total = sum(routes.values())
    if server_reason:
        notes.append(f"the server found the partition of each record: {server_reason}")
    elif total and routes["straight_rows"] == total:
        notes.append("each file holds one partition at a time: its rows went straight into it")
    elif total and grown:
        notes.append("records of mixed files were routed one by one")
    elif total:
        by_server = f", {routes['server_rows']:,} by the server" if routes["server_rows"] else ""
        notes.append(
            f"records of mixed files were routed one by one: {routes['routed_rows']:,} of {total:,}; "
            f"{routes['straight_rows']:,} went straight into their partitions{by_server}"
        )
    return notes


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """A hidden table that holds rows, whether or not it was detached already."""

    name: TableName
    place: Place
    size_bytes: int
    hidden_parent: str | None
    """The hidden table that it is a partition of, quoted; None once it was detached."""
    detaching: bool


def _members(staging: TableName, connection: psycopg.Connection[Any], *, kinds: str) -> list[str]:
    return [TableName(staging.schema, name).sql for name in stage.members(connection, staging, kinds=kinds)]


def staged(connection: psycopg.Connection[Any], staging: TableName) -> list[Staged]:
    """The hidden partitions."""
    names = _members(staging, connection, kinds="r")
    rows = connection.execute(
        "SELECT n.nspname, c.relname, obj_description(c.oid, 'pg_class'), pg_relation_size(c.oid), "
        "CASE WHEN p.oid IS NOT NULL THEN format('%%I.%%I', pn.nspname, p.relname) END, "
        "coalesce(i.inhdetachpending, false) "
        "FROM unnest(%s::text[]) WITH ORDINALITY AS name (name, n) JOIN pg_class c ON c.oid = to_regclass(name.name) "
        "JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_inherits i ON i.inhrelid = c.oid "
        "LEFT JOIN pg_class p ON p.oid = i.inhparent LEFT JOIN pg_namespace pn ON pn.oid = p.relnamespace "
        "ORDER BY name.n",
        (names,),
    ).fetchall()
    return [
        Staged(
            name=TableName(schema, name),
            place=msgspec.convert(json.loads(comment), Place),
            size_bytes=size_bytes,
            hidden_parent=parent,
            detaching=detaching,
        )
        for schema, name, comment, size_bytes, parent, detaching in rows
    ]


_DEFAULTS = """
SELECT format('%%I.%%I', pn.nspname, parent.relname), format('%%I.%%I', n.nspname, c.relname)
FROM unnest(%s::text[]) AS name JOIN pg_partitioned_table p ON p.partrelid = to_regclass(name)
JOIN pg_class parent ON parent.oid = p.partrelid JOIN pg_namespace pn ON pn.oid = parent.relnamespace
JOIN pg_class c ON c.oid = p.partdefid JOIN pg_namespace n ON n.oid = c.relnamespace
"""


def detach(connection: psycopg.Connection[Any], staging: TableName, wanted: set[TableName]) -> None:
    """Detaches hidden partitions in such a way that each keeps its bound as a valid CHECK constraint.

    The server does so, without a scan, in DETACH PARTITION ... CONCURRENTLY. That is not for tables with a default
    partition; what that one holds goes to the target by INSERT anyway, so it is detached first.
    """
    found = staged(connection, staging)
    for leaf in found:
        if leaf.detaching and leaf.hidden_parent is not None:
            connection.execute(f"ALTER TABLE {leaf.hidden_parent} DETACH PARTITION {leaf.name.sql} FINALIZE".encode())
    for leaf in found:
        if leaf.place.bound == partition_bounds.DEFAULT and leaf.hidden_parent is not None:
            connection.execute(f"ALTER TABLE {leaf.hidden_parent} DETACH PARTITION {leaf.name.sql}".encode())
    # Those of a default partition that is divided further come first: their bounds are known as long as it is attached.
    _detach_wanted(connection, staging, wanted)
    for parent, default in connection.execute(_DEFAULTS, (_members(staging, connection, kinds="p"),)).fetchall():
        connection.execute(f"ALTER TABLE {parent} DETACH PARTITION {default}".encode())
    _detach_wanted(connection, staging, wanted)


def _detach_wanted(connection: psycopg.Connection[Any], staging: TableName, wanted: set[TableName]) -> None:
    """Detaches those that are wanted, of tables without a default partition."""
    parents = _members(staging, connection, kinds="p")
    with_default = {parent for parent, _ in connection.execute(_DEFAULTS, (parents,)).fetchall()}
    for leaf in staged(connection, staging):
        if leaf.name in wanted and leaf.hidden_parent is not None and leaf.hidden_parent not in with_default:
            connection.execute(
                f"ALTER TABLE {leaf.hidden_parent} DETACH PARTITION {leaf.name.sql} CONCURRENTLY".encode()
            )


def reattach(connection: psycopg.Connection[Any], staging: TableName) -> None:
    """Takes empty hidden partitions that were detached back, so that rows find them again.

    Raises:
        TippleError: they were partitions of partitions, and nobody knows any more of which.
    """
    found = staged(connection, staging)
    for leaf in found:
        if leaf.detaching and leaf.hidden_parent is not None:
            connection.execute(f"ALTER TABLE {leaf.hidden_parent} DETACH PARTITION {leaf.name.sql} FINALIZE".encode())
        elif leaf.hidden_parent is not None:
            continue
        if leaf.place.parent is not None:
            raise TippleError(
                "the server has crashed, and hidden partitions that it has emptied cannot be filled again",
                hint="nothing was published; begin anew with --restart",
            )
        connection.execute(f"ALTER TABLE {staging.sql} ATTACH PARTITION {leaf.name.sql} {leaf.place.bound}".encode())
