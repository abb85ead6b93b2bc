"""`--structure` on PostgreSQL: what staged tables are while rows come in, and how they become what was asked for.

Only tables that Tipple makes get a structure, so nothing is converted that anybody sees. Every step of a conversion
can be repeated: what is left to do is read from the catalog, and an interrupted job goes on there.

`sorted` is CLUSTER by an index that exists for that moment only: the server sorts on disk within
`maintenance_work_mem`, writes the rows frozen and in order, and keeps partition bounds, constraints and tablespace.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import msgspec
import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.postgresql import stage, tablespaces
from tipple.engines.postgresql.place.key_work import KeyWork, staged_name
from tipple.errors import JobBusy, UsageError
from tipple.plan import constraints
from tipple.plan.structure import AppliedStructure, StructureRequest
from tipple.plan.url import LONGEST_NAME_BYTES, TableName, cut_name, quote_identifier

COLUMNAR_METHODS = ("columnar", "citus_columnar", "hydra", "columnstore", "cstore", "pg_mooncake", "mooncake")
"""Names of table access methods that are known to store columns."""

_KEYS = """
SELECT k.conname, array(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY AS c (number, n)
    JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = c.number ORDER BY c.n), pg_get_constraintdef(k.oid),
    pg_get_indexdef(k.conindid)
FROM pg_constraint k WHERE k.conrelid = to_regclass(%s) AND k.contype IN ('p', 'u') ORDER BY k.contype, k.conname
"""

_FORMS = """
SELECT c.relpersistence::text, coalesce(m.amname, 'heap') FROM pg_class c LEFT JOIN pg_am m ON m.oid = c.relam
WHERE c.relkind = 'r' AND (c.oid = to_regclass(%(table)s)
    OR c.oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%(table)s)) WHERE isleaf))
"""


_SAME_INDEX = """
SELECT FROM pg_index own JOIN pg_class c ON c.oid = own.indexrelid JOIN pg_index other USING (indrelid)
JOIN pg_class o ON o.oid = other.indexrelid
WHERE own.indexrelid = to_regclass(%s) AND other.indexrelid <> own.indexrelid AND o.relam = c.relam
    AND other.indkey = own.indkey AND other.indpred IS NULL
"""


class Key(msgspec.Struct, frozen=True):
    """A primary key or a unique constraint."""

    name: str
    columns: tuple[str, ...]
    definition: str
    """As ALTER TABLE ... ADD CONSTRAINT takes it."""
    index_definition: str
    """Of the index behind it, as the server tells it."""

    @property
    def is_primary(self) -> bool:
        """Whether it is the primary key."""
        return self.definition.startswith("PRIMARY KEY")


def keys(connection: psycopg.Connection[Any], table: TableName) -> list[Key]:
    """The keys of a table, its primary key first."""
    return [
        Key(name, tuple(columns), definition, index_definition)
        for name, columns, definition, index_definition in connection.execute(_KEYS, (table.sql,)).fetchall()
    ]


def _find_key(connection: psycopg.Connection[Any], table: TableName, columns: Sequence[str]) -> Key | None:
    return next((key for key in keys(connection, table) if key.columns == tuple(columns)), None)


def key_list(columns: Sequence[str]) -> str:
    """Columns for an SQL statement."""
    return ", ".join(map(quote_identifier, columns))


def adapt(task: LoadTask) -> LoadTask:
    """The task with a definition that says of a new table what the structure wants it to be."""
    asked, definition = task.structure, task.definition
    if asked is None or definition is None or definition.unsupported is not None:
        return task
    divided_by = task.partition_by.columns if task.partition_by is not None else ()
    lacking = [name for name in divided_by if name not in asked.key]
    if asked.structure == "btree" and asked.key and lacking:
        raise UsageError(
            f"--structure btree: a key of a partitioned table has all columns that divide it, and --key "
            f"{','.join(asked.key)} lacks {', '.join(lacking)}",
            hint=f"--key {','.join((*asked.key, *lacking))}; or --structure sorted, which asks for no key",
        )
    if asked.structure == "btree" and asked.key and definition.primary_key != asked.key:
        not_null = {column.name for column in definition.columns if column.not_null}
        primary = not definition.primary_key and not_null.issuperset(asked.key)
        constraint = f"{'PRIMARY KEY' if primary else 'UNIQUE'} ({key_list(asked.key)})"
        definition = msgspec.structs.replace(definition, constraints=(*definition.constraints, constraint))
    # A partitioned table has no rows that could be logged or not: its partitions have.
    unlogged = asked.structure == "memory" and task.partition_by is None
    return msgspec.structs.replace(task, definition=msgspec.structs.replace(definition, unlogged=unlogged))


# Hydra's table and Citus' view differ in the name of one column, so rows are taken as a whole.
_HAS_OWN_OPTIONS = """
SELECT EXISTS (SELECT FROM (SELECT to_jsonb(o) AS row FROM columnar.options o) o,
    unnest(ARRAY['chunk_group_row_limit', 'stripe_row_limit', 'compression', 'compression_level']) AS option
    WHERE coalesce(row ->> 'regclass', row ->> 'relation') IN (SELECT to_regclass(%(table)s)::text
        UNION ALL SELECT relid::text FROM pg_partition_tree(to_regclass(%(table)s)))
    AND row ->> option IS DISTINCT FROM current_setting('columnar.' || option, true))
"""


_IS_MORE = """
SELECT EXISTS (SELECT FROM pg_class c WHERE (c.oid = to_regclass(%(table)s)
        OR c.oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%(table)s))))
    AND (c.relpersistence <> 'p'
        OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisclustered)))
"""


def method_of(connection: psycopg.Connection[Any], table: TableName) -> str:
    """The table access method of an existing table, or of all its partitions; `heap` where they differ."""
    methods = {method for _, method in connection.execute(_FORMS, {"table": table.sql}).fetchall()}
    return str(methods.pop()) if len(methods) == 1 else "heap"


def keep_method(connection: psycopg.Connection[Any], task: LoadTask) -> LoadTask:
    """The task that asks for the table access method that a table has which is to be replaced.

    Columnar ones know no DELETE, or a slow one; a table that is made anew needs none. Where Hydra or Citus keep options
    of a table that a new one would not have, it stays.
    """
    if task.structure is not None or task.definition is not None or task.mode != "replace":
        return task
    method = method_of(connection, task.table)
    if method == "heap":
        return task
    if connection.execute("SELECT to_regclass('columnar.options') IS NOT NULL").fetchone() == (True,):
        try:
            with connection.transaction():
                has_options = connection.execute(_HAS_OWN_OPTIONS, {"table": task.table.sql}).fetchone()
        except psycopg.Error:
            # Nobody can tell.
            return task
        if has_options != (False,):
            return task
    # A structure says what the table is altogether: that it is logged, and in no order.
    if connection.execute(_IS_MORE, {"table": task.table.sql}).fetchone() != (False,):
        return task
    own = StructureRequest(structure="columnstore", access_method=method)
    return msgspec.structs.replace(task, structure=own)


# Which one, and how


def resolve(connection: psycopg.Connection[Any], task: LoadTask) -> AppliedStructure | None:
    """What the table is to be, with everything that the options leave open settled.

    Raises:
        UsageError: there is no key, or no access method.
    """
    asked = task.structure
    if asked is None:
        return None
    key: tuple[str, ...] = ()
    if asked.structure in ("btree", "sorted"):
        key = _resolve_key(connection, task, asked)
    load_as, reason = asked.load_as, "as asked"
    if load_as == "auto":
        load_as, reason = _choose_form(asked)
    return AppliedStructure(
        structure=asked.structure,
        load_as=load_as,
        reason=reason,
        key=list(key),
        access_method=_resolve_method(connection, asked) if asked.structure == "columnstore" else None,
        durable=asked.structure != "memory",
    )


def _choose_form(asked: StructureRequest) -> tuple[Any, str]:
    match asked.structure:
        case "memory":
            return "memory", "it stays unlogged"
        case "btree":
            return "heap", "building an index once over all rows is faster than growing it row by row"
        case "sorted":
            return "heap", "rows are sorted once, when all are in"
        case "columnstore":
            return "heap", "a heap takes rows fastest; they are compressed when all are in"
        case _:
            return "heap", "rows stay as they come"


def _resolve_key(connection: psycopg.Connection[Any], task: LoadTask, asked: StructureRequest) -> tuple[str, ...]:
    if asked.key:
        return asked.key
    if task.definition is not None:
        found = task.definition.primary_key
    else:
        found = next((key.columns for key in keys(connection, task.table) if key.is_primary), ())
    if not found:
        raise UsageError(
            f"--structure {asked.structure} needs a key, and {task.table} has no primary key",
            hint="name its columns: --key a,b",
        )
    return found


def _resolve_method(connection: psycopg.Connection[Any], asked: StructureRequest) -> str:
    installed = [
        name for (name,) in connection.execute("SELECT amname::text FROM pg_am WHERE amtype = 't' ORDER BY amname")
    ]
    others = [name for name in installed if name != "heap"]
    alternatives = (
        "--structure sorted keeps rows in the order of a key, with a BRIN index; DuckDB stores columns "
        "(--into duckdb:///…)"
    )
    if asked.access_method is not None:
        if asked.access_method not in installed:
            raise UsageError(
                f"the server has no table access method {asked.access_method}",
                hint=f"installed: {', '.join(installed)}; CREATE EXTENSION installs one; or else {alternatives}",
            )
        if asked.access_method == "heap":
            raise UsageError(
                "--access-method heap stores rows, and --structure columnstore is for columns",
                hint=f"--structure heap needs no access method; or else {alternatives}",
            )
        return asked.access_method
    columnar = [str(name) for name in others if name in COLUMNAR_METHODS]
    if len(columnar) != 1:
        found = f"several: {', '.join(columnar)}" if columnar else f"none that is known (it has {', '.join(installed)})"
        raise UsageError(
            f"--structure columnstore needs a columnar table access method, and the server has {found}",
            hint=f"name one by --access-method; or else {alternatives}",
        )
    return columnar[0]


# Whether it can be so


def is_already(connection: psycopg.Connection[Any], task: LoadTask, wanted: AppliedStructure) -> bool:
    """Whether the table is so without being made anew; a new one is what its adapted definition says."""
    if task.definition is not None:
        return wanted.structure in ("heap", "btree", "memory") and task.partition_by is None
    forms = connection.execute(_FORMS, {"table": task.table.sql}).fetchall()
    match wanted.structure:
        case "heap":
            return all(form == ("p", "heap") for form in forms)
        case "memory":
            return bool(forms) and all(persistence == "u" for persistence, _ in forms)
        case "columnstore":
            return bool(forms) and all(method == wanted.access_method for _, method in forms)
        case "btree":
            return _find_key(connection, task.table, wanted.key) is not None
        case _:
            return False


_PARTITION_COLUMNS = """
SELECT a.attname::text FROM pg_partitioned_table p CROSS JOIN LATERAL unnest(p.partattrs::smallint[]) AS k (n)
JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = k.n WHERE p.partrelid = to_regclass(%s)
"""


def check_partitioned(connection: psycopg.Connection[Any], task: LoadTask, wanted: AppliedStructure) -> None:
    """Refuses what partitions cannot be.

    Raises:
        UsageError: says why.
    """
    exists = task.definition is None
    if wanted.load_as == "btree" and exists:
        raise UsageError(
            "--load-as btree is not for partitions of a table that exists",
            hint="leave it out: they get their keys when all rows are in",
        )
    if wanted.structure == "btree" and exists and not has_key(connection, task.table, wanted.key):
        columns = [name for (name,) in connection.execute(_PARTITION_COLUMNS, (task.table.sql,)).fetchall()]
        key = list(dict.fromkeys([*wanted.key, *columns]))
        remedy = f"ALTER TABLE {task.table} ADD PRIMARY KEY ({key_list(key)});"
        if len(key) > len(wanted.key):
            remedy += f" and --key {','.join(key)}, for such a key has the columns of the partitions too;"
        raise UsageError(
            f"the partitioned table {task.table} has no key {', '.join(wanted.key)} that its partitions could have",
            hint=f"{remedy} or leave out --structure",
        )


# While rows come in


def furnish(connection: psycopg.Connection[Any], wanted: AppliedStructure, staging: TableName) -> None:
    """Makes staged tables, as far as they are new, what they are to be while rows come in."""
    unlogged = wanted.load_as == "memory"
    for name in stage.members(connection, staging, kinds="r"):
        table = TableName(staging.schema, name)
        persistence, method = _form(connection, table)
        if (persistence == "u") != unlogged:
            connection.execute(f"ALTER TABLE {table.sql} SET {'UNLOGGED' if unlogged else 'LOGGED'}")
        if method != "heap":
            connection.execute(f"ALTER TABLE {table.sql} SET ACCESS METHOD heap")


def prepare_key(
    connection: psycopg.Connection[Any], task: LoadTask, wanted: AppliedStructure, staging: TableName
) -> None:
    """Sees to it that the key can be one, or is there already; call it in the transaction that makes staged tables.

    Raises:
        UsageError: the server cannot sort or summarise by this key.
    """
    if wanted.structure == "sorted":
        _require_order(connection, staging, wanted.key)
    if wanted.load_as == "btree" and not has_key(connection, staging, wanted.key):
        connection.execute(_add_key(connection, task, wanted, staging).encode())


def _form(connection: psycopg.Connection[Any], table: TableName) -> tuple[str, str]:
    found = connection.execute(_FORMS, {"table": table.sql}).fetchone()
    return found if found is not None else ("p", "heap")


def _require_order(connection: psycopg.Connection[Any], staging: TableName, key: Sequence[str]) -> None:
    """Asks the server itself, with indexes that are not kept."""
    for method, purpose in (("btree", "be sorted by"), ("brin", "have a BRIN index on")):
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(f"CREATE INDEX ON {staging.sql} USING {method} ({key_list(key)})")
        except (psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
            raise UsageError(
                f"the table cannot {purpose} {', '.join(key)}: {error.diag.message_primary}",
                hint="choose another --key, or --structure btree or heap",
            ) from None


def _add_key(connection: psycopg.Connection[Any], task: LoadTask, wanted: AppliedStructure, table: TableName) -> str:
    """The statement that gives `table` the key; one that the table has whose place it will take gets its name then."""
    if task.definition is not None:
        return f"ALTER TABLE {table.sql} ADD {key_constraint(task, wanted.key)}"
    present = keys(connection, task.table)
    same = next((key for key in present if key.columns == tuple(wanted.key)), None)
    if same is not None:
        name = quote_identifier(staged_name(table, same.index_definition))
        # A constraint's definition does not say how its index is stored.
        stored = re.search(r"\)( WITH \([^()]*\))(?: TABLESPACE [^()]*)?$", same.index_definition)
        said, deferrable, when = same.definition.partition(" DEFERRABLE")
        return f"ALTER TABLE {table.sql} ADD CONSTRAINT {name} {said}{stored[1] if stored else ''}{deferrable}{when}"
    return f"ALTER TABLE {table.sql} ADD {new_key(connection, task.table, wanted.key)}"


def new_key(connection: psycopg.Connection[Any], table: TableName, key: Sequence[str]) -> str:
    """The constraint that makes columns a key of a table which has none of them: its primary key, if it can be."""
    nullable = connection.execute(
        "SELECT FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = ANY (%s) AND NOT attnotnull",
        (table.sql, list(key)),
    ).fetchone()
    primary = nullable is None and not any(present.is_primary for present in keys(connection, table))
    return f"{'PRIMARY KEY' if primary else 'UNIQUE'} ({key_list(key)})"


def key_constraint(task: LoadTask, key: Sequence[str]) -> str | None:
    """The constraint of a new table's definition that is this key."""
    if task.definition is None:
        return None
    for constraint in task.definition.constraints:
        alone = msgspec.structs.replace(task.definition, constraints=(constraint,))
        if alone.primary_key == tuple(key) or constraint == f"UNIQUE ({key_list(key)})":
            return constraint
    return None


def judges_records(task: LoadTask) -> bool:
    """Whether a new, partitioned table has its constraints from the first row on, so that records that violate them are
    rejects.
    """
    skips = task.rejects is not None and not task.keys_at_end
    return skips and task.definition is not None and task.partition_by is not None


class StagedKey(NamedTuple):
    """A key of a new, partitioned table that its hidden one has already."""

    constraint: str
    """As the table's definition has it."""
    staged_name: str
    """Until it is published: its index is beside those of other jobs."""


def staged_keys(task: LoadTask, staging: TableName) -> list[StagedKey]:
    """The keys that say which records are rejects while the hidden table is filled."""
    if task.definition is None or not judges_records(task):
        return []
    keys = filter(constraints.is_key, task.definition.constraints)
    return [StagedKey(key, f"{staging.name}_key{number}") for number, key in enumerate(keys)]


def key_names(task: LoadTask) -> dict[str, str]:
    """The names of these keys, by what the server puts behind a partition's name for its part of each."""
    keys = filter(constraints.is_key, task.definition.constraints) if task.definition is not None else ()
    names = {constraints.default_ending(key): constraints.name_of(key) for key in keys}
    return {ending: name for ending, name in names.items() if name is not None}


def judges_by_rows(task: LoadTask) -> bool:
    """Whether what is staged judges records by other rows, be they of another table."""
    return (
        judges_records(task)
        and task.definition is not None
        and any(
            constraints.is_foreign_key(constraint) or constraints.is_key(constraint)
            for constraint in task.definition.constraints
        )
    )


def has_foreign_key(task: LoadTask) -> bool:
    """Whether a new table is to refer to others."""
    return task.definition is not None and any(map(constraints.is_foreign_key, task.definition.constraints))


def needs_order(task: LoadTask) -> bool:
    """Whether what is staged takes one of two records, the first one."""
    return judges_records(task) and task.definition is not None and task.definition.has_keys


def constraints_left(
    connection: psycopg.Connection[Any],
    task: LoadTask,
    wanted: AppliedStructure | None,
    table: TableName,
    given: Sequence[str] = (),
) -> list[str]:
    """Constraints of a new table's definition that neither were `given` to `table` nor came with its structure."""
    if task.definition is None or judges_records(task):
        return []
    left = [constraint for constraint in task.definition.constraints if constraint not in given]
    if wanted is None or not has_key(connection, table, wanted.key):
        return left
    there = key_constraint(task, wanted.key)
    return [constraint for constraint in left if constraint != there]


def has_key(connection: psycopg.Connection[Any], table: TableName, key: Sequence[str]) -> bool:
    """Whether the table has this key already."""
    return bool(key) and _find_key(connection, table, key) is not None


# When all rows are in


def conversion(
    connection: psycopg.Connection[Any], task: LoadTask, wanted: AppliedStructure, staging: TableName
) -> list[KeyWork]:
    """What makes the staged tables what was asked for, as far as it is not done; one piece of work for each table."""
    works = []
    names = [TableName(staging.schema, name) for name in stage.members(connection, staging, kinds="r")]
    for table in names:
        work = KeyWork(table=table, size_bytes=0, indexes=[], after=[], renames=[])
        persistence, method = _form(connection, table)
        if wanted.structure != "memory" and persistence == "u":
            work.after.append(f"ALTER TABLE {table.sql} SET LOGGED")
        if wanted.access_method is not None and method != wanted.access_method:
            work.after.append(f"ALTER TABLE {table.sql} SET ACCESS METHOD {quote_identifier(wanted.access_method)}")
        if wanted.structure == "sorted":
            work.after += _sorting(connection, table, wanted.key)
        if wanted.structure == "btree" and names == [staging] and not has_key(connection, table, wanted.key):
            work.after.append(_add_key(connection, task, wanted, table))
        work.tablespace = tablespaces.of(connection, table)
        works.append(work)
    return works


def summary_index(table: TableName) -> TableName:
    """The BRIN index of a staged table, which says that it is sorted already."""
    return TableName(table.schema, f"{table.name}_brin")


def _sorting(connection: psycopg.Connection[Any], table: TableName, key: Sequence[str]) -> list[str]:
    brin, order = summary_index(table), TableName(table.schema, f"{table.name}_order")
    done, ordered = connection.execute(
        "SELECT to_regclass(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL", (brin.sql, order.sql)
    ).fetchone() or (False, False)
    drop = f"DROP INDEX IF EXISTS {order.sql}"
    if done:
        return [drop] if ordered else []
    return [
        f"CREATE INDEX IF NOT EXISTS {quote_identifier(order.name)} ON {table.sql} ({key_list(key)})",
        f"CLUSTER {table.sql} USING {quote_identifier(order.name)}",
        f"CREATE INDEX {quote_identifier(brin.name)} ON {table.sql} USING brin ({key_list(key)})",
        drop,
    ]


def unsort(connection: psycopg.Connection[Any], staging: TableName) -> None:
    """Staged tables that were emptied are to be sorted again."""
    for name in stage.members(connection, staging, kinds="r"):
        connection.execute(f"DROP INDEX IF EXISTS {summary_index(TableName(staging.schema, name)).sql}")


def summary_statement(table: TableName, key: Sequence[str], taken: Container[str]) -> str:
    """Gives a table the BRIN index of `sorted`, under a name that is none of those `taken`."""
    names = (_summary_name(table.name, key, number) for number in itertools.count(1))
    name = quote_identifier(next(name for name in names if name not in taken))
    return f"CREATE INDEX {name} ON {table.sql} USING brin ({key_list(key)})"


def _summary_name(table: str, key: Sequence[str], number: int = 1) -> str:
    ending = f"{'_'.join(['', *key])[:30]}_brin{number if number > 1 else ''}"
    return cut_name(table, LONGEST_NAME_BYTES - len(ending.encode())) + ending


def settle_names(
    connection: psycopg.Connection[Any], wanted: AppliedStructure, staging: TableName, table: TableName
) -> None:
    """Gives the BRIN index of what was staged the name that it keeps, in `table`, which `staging` is now.

    Where the table had such an index before, it has it again, and needs no other.
    """
    own = TableName(table.schema, summary_index(staging).name)
    if wanted.structure != "sorted" or not _exists(connection, own):
        return
    if connection.execute(_SAME_INDEX, (own.sql,)).fetchone() is not None:
        connection.execute(f"DROP INDEX {own.sql}")
        return
    names = (_summary_name(table.name, wanted.key, number) for number in itertools.count(1))
    final = next(name for name in names if not _exists(connection, TableName(table.schema, name)))
    connection.execute(f"ALTER INDEX {own.sql} RENAME TO {quote_identifier(final)}")


def _exists(connection: psycopg.Connection[Any], name: TableName) -> bool:
    found = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (name.sql,)).fetchone()
    return found is not None and bool(found[0])


def not_now(table: TableName, why: str) -> JobBusy:
    """The refusal to copy rows into a table where they would not have the structure that was asked for."""
    return JobBusy(
        f"{table} cannot take its structure now: {why}",
        hint="nothing was published; when that has ended, run the same command again: it goes on from here; if it is "
        "to stay so, leave out --structure, or begin anew with --restart",
    )
