"""Tables that are not there when a load comes to them: its own, which was there, and those that a schema refers to."""

from __future__ import annotations

import re

from tipple.engines.base import LoadTask
from tipple.errors import TippleError
from tipple.plan import constraints
from tipple.plan.url import TableName

__all__ = ["explain", "gone"]

UNDEFINED_TABLE = "42P01"
_MISSING = re.compile(r'relation "(.+)" does not exist')


def explain(task: LoadTask, sqlstate: str | None, said: str) -> TippleError | None:
    """What to say where the server has `said` that there is no such table; None where that is another one, or of
    something else."""
    found = _MISSING.match(said) if sqlstate == UNDEFINED_TABLE else None
    if found is None:
        return None
    name = found[1]
    if task.definition is None:
        own = task.table
        return gone(own) if name in (own.name, f"{own.schema}.{own.name}") else None
    others = [constraints.refers_to(constraint) for constraint in task.definition.constraints]
    if not any(name == other or name.endswith(f".{other}") for other in others if other is not None):
        return None
    where = f"line {task.definition.line} of the schema file"
    return TippleError(
        f"{task.table} is to refer to the table {name} ({where}), which does not exist",
        hint="nothing was published; make that table first, and run the same command again; or leave its REFERENCES "
        "out of the schema file, and run the command with --restart",
        detail={"sqlstate": sqlstate, "message": said},
    )


def gone(table: TableName) -> TippleError:
    """What to say of a table that was there when the load began."""
    return TippleError(
        f"the table {table} is gone: it was dropped or renamed while it was loaded",
        hint="nothing was published; when it is there again, run the same command again",
        detail={"sqlstate": UNDEFINED_TABLE},
    )
