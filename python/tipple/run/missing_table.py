"""A table that the target does not have: what the schema says of it, or that nothing does."""

from __future__ import annotations

import os
import shlex

from tipple.engines.base import Session
from tipple.errors import UsageError
from tipple.plan import tpch
from tipple.plan.url import TableName

__all__ = ["TPCH", "no_table", "schema_text"]

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


def schema_text(schema: str | os.PathLike[str]) -> str:
    """The statements of a schema.

    Raises:
        UsageError: the file cannot be read.
    """
    if os.fspath(schema) == TPCH:
        return ";\n".join(tpch.CREATE_TABLE.values())
    try:
        with open(schema, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the schema file {os.fspath(schema)}: {error}", hint="check the path") from None
