"""Keys that judge when all rows are stored, though records that violate one are rejects.

Unique keys come first, in the order in which the server looks at them, and then foreign ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
import psycopg

from tipple.engines import core
from tipple.engines.base import LoadTask, TableColumn
from tipple.engines.postgresql import checks, stage, structure
from tipple.engines.postgresql.keys import foreign_keys, unique_keys
from tipple.engines.postgresql.keys.foreign_keys import ForeignKey
from tipple.engines.postgresql.keys.unique_keys import UniqueKey
from tipple.engines.postgresql.partitioned import partitions
from tipple.engines.postgresql.partitioned.partition_bounds import key_kind
from tipple.plan import constraints
from tipple.plan.decodable import decodable
from tipple.plan.schema import TableDefinition
from tipple.plan.url import TableName

__all__ = [
    "LateKeys",
    "are_of_job",
    "core_plan",
    "of_definition",
    "of_job",
    "of_staged",
    "of_table",
    "plan_of",
    "told",
]

_UNREADABLE = "only the server can read"
"""In the core's words (`load/unique`)."""


@decodable
class LateKeys(msgspec.Struct, frozen=True):
    """The keys of one table."""

    unique: list[UniqueKey] = []
    foreign: list[ForeignKey] = []

    def __bool__(self) -> bool:
        return bool(self.unique or self.foreign)


def plan_of(keys: LateKeys, task: LoadTask, strategy: str) -> dict[str, Any]:
    """What a job's plan in the ledger has of them."""
    if strategy not in ("swap", "partition"):
        return {}
    return {**msgspec.to_builtins(keys), "keys_at_end": task.keys_at_end}


def are_of_job(plan: Mapping[str, Any]) -> bool:
    """Whether keys judge when all rows of a job are stored."""
    return bool(plan.get("keys_at_end", of_job(plan)))


def of_job(plan: Mapping[str, Any]) -> LateKeys:
    """Those of a job, as its plan in the ledger has them."""
    return msgspec.convert({"unique": plan.get("unique") or [], "foreign": plan.get("foreign") or []}, LateKeys)


def of_staged(connection: psycopg.Connection[Any], task: LoadTask, plan: Mapping[str, Any]) -> dict[str, Any]:
    """What a job's plan is to have of them when all is staged. Nothing was noted of foreign keys before: they are those
    of now.
    """
    keys = of_job(plan)
    if task.keys_at_end and task.definition is None and task.together is None:
        foreign = foreign_keys.of_table(connection, task.table, task.columns)
        keys = keys if foreign is None else LateKeys(keys.unique, foreign)
    return dict(msgspec.to_builtins(keys))


def of_table(
    connection: psycopg.Connection[Any], task: LoadTask, missing_key: list[str] | None, *, references: bool
) -> LateKeys | None:
    """Those of the table that is there; None where one of them must judge while rows are stored.

    Args:
        connection: to the server.
        task: the load.
        missing_key: the columns of a key that the table is to get, and lacks.
        references: whether foreign keys are to judge too.
    """
    table, columns = task.table, task.columns
    leaves = partitions.leaves(connection, table)
    if any(structure.method_of(connection, one) != "heap" for one in leaves or [table]):
        # Rows are taken out again, which not every access method can.
        return None
    unique = unique_keys.of_table(connection, table, columns)
    foreign = foreign_keys.of_table(connection, table, columns) if references else []
    # A table that is published together with this one has its rows no sooner.
    if unique is None or foreign is None or (foreign and task.together is not None):
        return None
    for leaf in leaves:
        own = unique_keys.of_table(connection, leaf, columns)
        if own is None or len(own) != len(unique):
            # A partition has keys of its own.
            return None
    if missing_key is not None:
        more = unique_keys.of_structure(connection, table, columns, missing_key)
        if more is None:
            return None
        unique = [*unique, *more]
    return LateKeys(unique, foreign)


def of_definition(connection: psycopg.Connection[Any], task: LoadTask) -> LateKeys | None:
    """Those of a new table, which is made for a moment; None where one of them must judge while rows are stored, where
    other constraints judge by other rows, or a CHECK cannot be there from the first row on.
    """
    definition = task.definition
    if definition is None or not all(
        constraints.is_unique(constraint)
        or constraints.is_check(constraint)
        # A table that is published together with this one has its rows no sooner.
        or (constraints.is_foreign_key(constraint) and task.together is None)
        for constraint in definition.constraints
    ):
        return None
    return unique_keys.by_trial(connection, partial(_of_trial, connection, task, definition))


def _of_trial(connection: psycopg.Connection[Any], task: LoadTask, definition: TableDefinition) -> LateKeys | None:
    """Those of the table, which is made in the transaction that is open."""
    bare = TableName(task.table.schema, f"{stage.PREFIX}{uuid.uuid4().hex}")
    connection.execute(definition.create_sql(bare.sql, with_constraints=False))
    if len(checks.add(connection, task, bare)) < len(checks.of_task(task)):
        return None
    connection.execute(definition.create_sql(task.table.sql, with_constraints=True))
    unique = unique_keys.of_table(connection, task.table, task.columns)
    foreign = foreign_keys.of_table(connection, task.table, task.columns)
    return None if unique is None or foreign is None else LateKeys(unique, foreign)


def told(error: core.UnreadableKeys, job: Mapping[str, Any], task: LoadTask) -> str:
    """Why keys must judge while rows are stored after all, with the columns that the core speaks of, and what helps."""
    if _UNREADABLE not in str(error):
        return str(error)
    keys = of_job(job)
    listed = [key.columns for key in keys.unique] + [key.columns for key in keys.foreign]
    columns = [column for column in task.columns if any(column.name in names for names in listed)]
    zoned = [column.name for column in columns if _lacks_zone(column)]
    if not zoned:
        return f"{error} ({', '.join(column.name for column in columns)})"
    return (
        f"{error}: values of {', '.join(zoned)} have no zone, and the session's is not UTC; write a zone behind each "
        "(2024-02-29 12:34:56+01), or set PGTZ=UTC if they are in UTC"
    )


def _lacks_zone(column: TableColumn) -> bool:
    """Whether only the server knows what its values without a zone mean."""
    kind = column.codec_type
    return isinstance(kind, dict) and "timestamptz" in kind and not kind["timestamptz"]["utc"]


def core_plan(job: Mapping[str, Any], task: LoadTask) -> dict[str, Any] | None:
    """The core's `UniqueKeys`, as the plan of a job has them; None where keys judge while rows are stored."""
    keys = of_job(job)
    if not keys:
        return None
    places = {column.name: place for place, column in enumerate(task.columns)}

    def of_key(key: UniqueKey | ForeignKey, reason: str, about_key: str, sqlstate: str) -> dict[str, Any]:
        at = [places[name] for name in key.columns]
        return {
            "columns": [{"column": place, "kind": key_kind(task.columns[place])} for place in at],
            "constraint": {
                "reason": reason,
                "columns": at,
                # What a columnar source has is no text of the record.
                "about_key": about_key if task.columnar is None else None,
                "sqlstate": sqlstate,
            },
            "is_foreign": isinstance(key, ForeignKey),
        }

    table = task.table.name
    unique = [
        of_key(key, f'duplicate key value violates unique constraint "{key.name}"', "already exists.", "23505")
        for key in keys.unique
    ]
    foreign = [
        of_key(
            key,
            f'insert or update on table "{table}" violates foreign key constraint "{key.name}"',
            f'is not present in table "{key.refers_to_name}".',
            "23503",
        )
        for key in keys.foreign
    ]
    return {"keys": unique + foreign, "spool": task.spool}
