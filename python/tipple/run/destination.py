"""What may be asked of a destination, as far as the options alone tell, before anything is connected to."""

from __future__ import annotations

import re

from tipple.engines import find_engine
from tipple.engines.base import IndexPlan, ReplaceScope
from tipple.errors import UsageError
from tipple.plan.partitioning import INSTEAD_OF_SCOPE, PartitionBy, parse_partition_by
from tipple.plan.structure import StructureRequest
from tipple.plan.url import TableName

__all__ = ["refuse_schema", "require_index_plan", "require_partitions", "require_structures"]

LEDGER_SCHEMA = "tipple"


def refuse_schema(name: TableName, engine: str) -> None:
    """Refuses the schemas that are not for tables of users.

    Raises:
        UsageError: the table is to be in one.
    """
    own = find_engine(engine).capabilities.own_schemas
    if name.schema == LEDGER_SCHEMA or re.fullmatch(own, name.schema or ""):
        whose = "Tipple's own ledger" if name.schema == LEDGER_SCHEMA else "the database itself"
        raise UsageError(f"--table {name}: the schema {name.schema} is that of {whose}", hint="name another schema")


def require_structures(name: str, asked: StructureRequest | None, tablespaces: tuple[str, ...]) -> None:
    """Refuses what the engine has not.

    Raises:
        UsageError: it has no such structure, or no tablespaces.
    """
    capabilities = find_engine(name).capabilities
    if asked is not None and asked.structure not in capabilities.structures:
        raise UsageError(
            f"{name} has no --structure {asked.structure}",
            hint=f"structures there: {', '.join(capabilities.structures) or 'none; leave it out'}",
        )
    if tablespaces and not capabilities.tablespaces:
        raise UsageError(f"{name} has no tablespaces", hint="leave out --tablespace")


def require_partitions(
    name: str, partition_by: str | None, replace_scope: ReplaceScope, *, mode: str | None, files: bool
) -> PartitionBy | None:
    """Reads `--partition-by`, and refuses partitions that the engine has not; `files`: a table is a directory of files.

    Raises:
        UsageError: the options do not fit the engine, or each other.
    """
    divided = parse_partition_by(partition_by) if partition_by is not None else None
    if replace_scope != "table" and mode != "replace":
        raise UsageError("--replace-scope has no meaning without --mode replace", hint="leave it out")
    capabilities = find_engine(name).capabilities
    has_files = "parquet" in capabilities.structures
    if ((divided and not files) or replace_scope != "table") and not capabilities.partitions:
        raise UsageError(
            f"{name} has no partitions to load or replace",
            hint=("leave out --partition-by" if replace_scope == "table" else INSTEAD_OF_SCOPE)
            + ("; files can be divided: --structure parquet --partition-by …" if divided and has_files else ""),
        )
    if divided is not None and divided.method == "list" and not divided.values and not files:
        raise UsageError(
            f"--partition-by {partition_by!r} does not say which partitions there are",
            hint="for example 'list(region, values=[EU, US])'",
        )
    return divided


def require_index_plan(
    plan: IndexPlan, mode: str | None, asked: StructureRequest | None, partition_by: str | None, *, atomic: bool
) -> None:
    """Refuses a plan for indexes where it would mean nothing.

    Raises:
        UsageError: other options say already what becomes of them.
    """
    if plan == "auto":
        return
    if mode not in (None, "append"):
        raise UsageError(
            f"--indexes {plan} has no meaning with --mode {mode}",
            hint="it is about the indexes of a table to whose rows others are appended; leave it out",
        )
    if asked is not None:
        raise UsageError(
            f"--indexes {plan} has no meaning with --structure {asked.structure}, which makes the table's indexes",
            hint="leave out one of them",
        )
    if plan == "keep" and partition_by is not None:
        raise UsageError(
            "--indexes keep has rows go through the table itself, and --partition-by into partitions that are made",
            hint="leave out one of them",
        )
    if plan == "rebuild" and not atomic:
        raise UsageError(
            "--indexes rebuild is not possible with --no-atomic: rows are seen, and so in the indexes, slice by slice",
            hint="leave out one of them",
        )
