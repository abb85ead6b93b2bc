"""A table that the target does not have: what the schema says of it, or that nothing does."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Sequence

from tipple.engines.base import Session
from tipple.errors import UsageError
from tipple.plan import tpch
from tipple.plan.schema import TableDefinition, parse_schema
from tipple.plan.url import TableName

__all__ = ["TPCH", "no_table", "schema_tables"]

TPCH = "tpch"
"""The schema that Tipple has itself."""


def no_table(session: Session, name: TableName) -> UsageError:
    """What to say where no schema is given either."""
    meant = session.in_other_case(name)
    if meant is not None:
        return UsageError(
            f"there is no table {name} in the target, but {meant}",
            hint=f"upper and lower case count: --table {shlex.quote(str(meant))}",
        )
    return UsageError(
        f"there is no table {name} in the target",
        hint="create it, check its name (unquoted names are folded to lower case), or give --schema FILE.sql, "
        "or --schema auto, which guesses the columns from the files",
    )


def schema_tables(schema: str | os.PathLike[str], wanted: TableName) -> Sequence[TableDefinition]:
    """The tables of a schema; of TPC-H's, only the wanted one, if it is there.

    Raises:
        UsageError: the file cannot be read, or not be understood.
    """
    if os.fspath(schema) == TPCH:
        return _parsed(tpch.CREATE_TABLE.get(wanted.name) or ";\n".join(tpch.CREATE_TABLE.values()))
    try:
        with open(schema, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the schema file {os.fspath(schema)}: {error}", hint="check the path") from None
    return _parsed(text)


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> Sequence[TableDefinition]:
    """The tables of a job, of which there may be thousands, mostly share a file."""
    return tuple(parse_schema(text))
