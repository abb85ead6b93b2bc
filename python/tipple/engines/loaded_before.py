"""What an earlier job has loaded into the same table: under another name, time or options, or the very same.

The same command does nothing twice; not after the table's columns have got other types or names either. But a file
that was touched or copied, or a directory that has got one more file since, makes another command, and what the old one
has loaded would be stored once more without a word. And nothing is done where somebody has removed the rows meanwhile,
and meant to load them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tipple.engines.base import BESIDE_KEY, CHOSEN, LoadTask, Published
from tipple.engines.findings import Finding
from tipple.engines.moments import for_people
from tipple.plan.url import TableName

MOST_BYTES = 1 << 20
"""Of a table's jobs the newest are looked at, until those before have so much to say of their sources."""
MOST_SOURCES = 1000
"""So many sources of this load are asked for."""


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A source of an earlier job."""

    content: str
    """The digest of its head and tail (`Identity.content`)."""
    size: int
    """In bytes."""
    job_id: str
    finished_at: str
    """As `in_utc` writes it."""


def warnings(task: LoadTask, ask: Callable[[TableName, Sequence[str]], Sequence[Loaded]]) -> list[Finding]:
    """What to say of the sources of a load that an earlier one has loaded.

    Args:
        task: the load.
        ask: asks the ledger for sources of these contents that jobs have loaded into the table, the newest first.
    """
    contents = _contents(task)
    return _warn(task, ask(task.table, contents)) if contents else []


def by_same_command(request: Mapping[str, Any], published: Sequence[Published]) -> Published | None:
    """The job that this very command has published, before the columns of the table were changed.

    What is loaded is told by the table, and so are the columns' names and types, which are part of a job's key: rows
    that are staged may not be continued with other ones. Rows that are published have been changed with the table.

    Args:
        request: what is asked for now.
        published: jobs that may have done it.
    """

    def asked(one: Mapping[str, Any]) -> dict[str, Any]:
        return {name: fact for name, fact in one.items() if name not in BESIDE_KEY - {CHOSEN} and name != "columns"}

    # Jobs of earlier versions do not say what was chosen.
    same = (job for job in published if CHOSEN in job.request and asked(job.request) == asked(request))
    return next(same, None)


def columns_changed(table: TableName, job_id: str) -> str:
    """A note on a load that is done already, though its job's key had other columns."""
    return f"the columns of {table} have changed since job {job_id} has loaded this; its rows are not loaded again"


def nothing_changed(job_id: str, finished_at: str) -> str:
    """A note on a load that an earlier job, which was published then, has done."""
    return (
        f"job {job_id} published these rows at {for_people(finished_at)}; nothing was changed. "
        "To load them once more: --restart"
    )


def emptied(table: TableName, job_id: str) -> Finding:
    """What to say where nothing is to be done, and the table has none of the rows that a job has stored."""
    return Finding(
        level="note",
        subject=f"table {table}",
        found=f"it has no rows now, though job {job_id} has loaded the same before",
        effect="the ledger takes them for loaded, and nothing is loaded again",
        remedy="to load them again: --restart",
    )


def _contents(task: LoadTask) -> list[str]:
    """The contents to look for among those of earlier jobs: none where rows of theirs would not be there twice."""
    adds = task.ledger and task.mode == "append" and task.definition is None and not task.restart
    if not adds or task.request.get("on_error") == "replay":
        return []
    return [source.content for source in task.sources[:MOST_SOURCES] if source.size]


def _warn(task: LoadTask, loaded: Sequence[Loaded]) -> list[Finding]:
    known = {(one.content, one.size): one for one in reversed(loaded)}
    again = [source for source in task.sources if (source.content, source.size) in known]
    if not again:
        return []
    first = again[0]
    job = known[first.content, first.size]
    others = "" if len(again) == 1 else f" and {len(again) - 1:,} more"
    return [
        Finding(
            level="note",
            subject=f"{first.path}{others}",
            found=f"the same content was loaded into this table before, by job {job.job_id} on "
            f"{for_people(job.finished_at)}",
            effect=f"{'its' if not others else 'their'} rows will be there twice, unless they were removed since",
            remedy="name only what is new",
        )
    ]
