"""The record behind a key that the server refuses, where the server could not tell: an index that is built over staged
rows, and a foreign key that is checked when a statement ends, name the key and not where it came from.

What the server says of the key (`Key (a, b)=(1, x) is duplicated.`) is read back into values, and the core looks for
the record that has them. Values of types that only the server can read are looked for as it spells them. A search that
finds nothing leaves the server's own words.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import psycopg

from tipple.engines import core
from tipple.engines.base import LoadTask, Runner, TableColumn
from tipple.engines.postgresql.core_plans import CorePlans
from tipple.engines.postgresql.failure import REPEATED
from tipple.engines.postgresql.job import OwnedJob
from tipple.errors import BadRecord, Interrupted, TippleError
from tipple.plan.url import quote_identifier

__all__ = ["Refusal", "find", "of_error"]

_OF_KEYS = (*REPEATED, "23503")
PREPARING = "preparing the table"
"""What the core does when it removes rows that are to be replaced: no record is to blame for what is refused there."""
_MOST_READINGS = 64
"""Values that hold commas and parentheses can be read in several ways: more than these are not tried."""


class Refusal(NamedTuple):
    """What the server says of a key."""

    message: str
    detail: str
    sqlstate: str
    table: str = ""
    """The table with the constraint, as far as the server said."""


def of_error(error: BaseException) -> Refusal | None:
    """What an error says of a key, if it is about one and names no record."""
    if isinstance(error, psycopg.Error):
        said = error.diag
        found = Refusal(
            said.message_primary or "", said.message_detail or "", error.sqlstate or "", said.table_name or ""
        )
    elif isinstance(error, TippleError) and not isinstance(error, BadRecord) and error.detail.get("doing") != PREPARING:
        texts = [str(error.detail.get(name) or "") for name in ("message", "detail", "sqlstate")]
        found = Refusal(*texts)
    else:
        return None
    return found if found.sqlstate in _OF_KEYS and ")=(" in found.detail else None


def find(
    connection: psycopg.Connection[Any],
    task: LoadTask,
    plans: CorePlans,
    owned: OwnedJob,
    runner: Runner,
    refusal: Refusal,
) -> BadRecord | None:
    """The record that the server refuses; None where it is not found, or cannot be looked for."""
    if task.reads_once:
        # What cannot be read again.
        return None
    try:
        found = _keys(connection, task, refusal.detail)
        if found is None or _is_of_another_table(connection, task, refusal):
            return None
        columns, values = found
        sought = {
            "columns": [
                {"index": task.columns.index(column), "padded": column.type_text.startswith("character(")}
                for column in columns
            ],
            "values": values,
            "repeated": refusal.sqlstate in REPEATED,
            "reason": f"{refusal.message} ({refusal.detail.rstrip('.')})",
            "sqlstate": refusal.sqlstate,
        }
        with runner.phase("search"):
            runner.run(core.start_load(task, plans.sought(owned, core.cut(task), sought)))
    except BadRecord as record:
        return record
    except Interrupted:
        raise
    except (TippleError, psycopg.Error):
        # There is an error to report already, and it is not this one.
        return None
    return None


def _is_of_another_table(connection: psycopg.Connection[Any], task: LoadTask, refusal: Refusal) -> bool:
    """Whether rows of another table refer to one that was to be replaced: then no record is to blame."""
    if refusal.sqlstate != "23503" or not refusal.table:
        return False
    found = connection.execute(
        "WITH own AS (SELECT to_regclass(%(table)s)::oid AS oid "
        "    UNION SELECT relid FROM pg_partition_tree(to_regclass(%(table)s))) "
        "SELECT FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid WHERE f.contype = 'f' "
        "AND c.relname = %(other)s "
        "AND f.confrelid IN (SELECT oid FROM own) AND f.conrelid NOT IN (SELECT oid FROM own)",
        {"table": task.table.sql, "other": refusal.table},
    ).fetchone()
    return found is not None


def _keys(
    connection: psycopg.Connection[Any], task: LoadTask, detail: str
) -> tuple[list[TableColumn], list[list[list[int]]]] | None:
    """The columns of the key, and each of the ways to read its values as COPY binary has them."""
    known = {quote_identifier(column.name): column for column in task.columns}
    known.update({column.name: column for column in task.columns})
    names, _, rest = detail[detail.index("(") + 1 :].partition(")=(")
    columns = [known.get(name) for name in re.split(r", (?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", names)]
    present = [column for column in columns if column is not None]
    if not present or len(present) < len(columns):
        # An expression, or a column that is not loaded.
        return None
    values = []
    for texts in itertools.islice(_readings(rest, len(present)), _MOST_READINGS):
        sent = _sent(connection, present, texts)
        if sent is not None:
            values.append(sent)
    return (present, values) if values else None


def _readings(rest: str, count: int) -> Iterator[Sequence[str]]:
    """The ways in which a text that begins with `count` values, and goes on behind a parenthesis, can be divided."""
    for closing in re.finditer(r"\)", rest):
        parts = rest[: closing.start()].split(", ")
        for cuts in itertools.combinations(range(1, len(parts)), count - 1):
            edges = [0, *cuts, len(parts)]
            yield [", ".join(parts[begin:end]) for begin, end in itertools.pairwise(edges)]


def _sent(
    connection: psycopg.Connection[Any], columns: Sequence[TableColumn], texts: Sequence[str]
) -> list[list[int]] | None:
    """Values in the form in which the server sends them, or their text where only the server can read them; None where
    a text is none of its type."""
    sent = []
    for column, text in zip(columns, texts, strict=True):
        try:
            with connection.transaction():
                send, as_text = "textsend", "::text"
                if column.codec_type != "opaque":
                    row = connection.execute(
                        "SELECT typsend::text FROM pg_type WHERE oid = %s::regtype", (column.type_text,)
                    ).fetchone()
                    send, as_text = (row[0] if row is not None else ""), ""
                query = f"SELECT {send}(CAST(%s AS {column.type_text}){as_text})"
                value = connection.execute(query.encode(), (text,)).fetchone()
        except psycopg.Error:
            return None
        if value is None or value[0] is None:
            return None
        sent.append(list(bytes(value[0])))
    return sent
