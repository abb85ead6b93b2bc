"""Tables that are not there when a load comes to them: its own, which was there, and those that a schema refers to."""

from __future__ import annotations

import re

from tipple.engines.base import LoadTask
from tipple.engines.server_errors import ServerError
from tipple.errors import TippleError
from tipple.plan import constraints
from tipple.plan.quotes import QUOTES, in_quotes
from tipple.plan.url import TableName

__all__ = ["explain", "gone"]

UNDEFINED_TABLE = "42P01"
_OF_A_QUERY = "errorMissingRTE"
"""Where the server says that a query names a table which it does not read (src/backend/parser/parse_relation.c)."""


def explain(task: LoadTask, error: ServerError) -> TippleError | None:
    """What to say where the server says that there is no such table; None where that is another one, or of something
    else."""
    if error.sqlstate != UNDEFINED_TABLE or error.routine == _OF_A_QUERY:
        return None
    if task.definition is None:
        own = task.table
        schema = "" if own.schema is None else rf"(?:{re.escape(own.schema)}\.)?"
        return gone(own) if in_quotes(schema + re.escape(own.name)).search(error.message) else None
    others = filter(None, map(constraints.refers_to, task.definition.constraints))
    named = (in_quotes(rf"(?:[^{QUOTES}]+\.)?{re.escape(other)}").search(error.message) for other in others)
    name = next((found[0] for found in named if found is not None), None)
    if name is None:
        return None
    where = f"line {task.definition.line} of the schema file"
    return TippleError(
        f"{task.table} is to refer to the table {name} ({where}), which does not exist",
        hint="nothing was published; make that table first, and run the same command again; or leave its REFERENCES "
        "out of the schema file, and run the command with --restart",
        detail=error.facts,
    )


def gone(table: TableName) -> TippleError:
    """What to say of a table that was there when the load began."""
    return TippleError(
        f"the table {table} is gone: it was dropped or renamed while it was loaded",
        hint="nothing was published; when it is there again, run the same command again",
        detail={"sqlstate": UNDEFINED_TABLE},
    )
