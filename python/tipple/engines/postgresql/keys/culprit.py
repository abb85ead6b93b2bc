"""The record behind a key that the server refuses, where the server could not tell: an index that is built over staged
rows, and a foreign key that is checked when a statement ends, name the key and not where it came from.

What the server says of the key (`Key (a, b)=(1, x) is duplicated.`) is read back into values, and the core looks for
the records that have them. Values of types that only the server can read are looked for as it spells them, so a search
may miss some: equal values are often spelled otherwise (`1.0` and `1.00`). And a record with the key is none of those
that are judged where an index is of a part of the rows, or of one partition. So no record is named but one that is to
blame whatever the search has missed. Otherwise the server's own words have to do.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import psycopg

from tipple.engines import core, server_errors
from tipple.engines.base import LoadTask, Runner, TableColumn
from tipple.engines.postgresql.connection import pasted
from tipple.engines.postgresql.core_plans import CorePlans
from tipple.engines.postgresql.failure import REPEATED
from tipple.engines.postgresql.job import OwnedJob
from tipple.engines.postgresql.partitioned import partitions
from tipple.errors import BadRecord, Interrupted, TippleError
from tipple.plan import constraints
from tipple.plan.url import quote_identifier

__all__ = ["Refusal", "find", "of_error"]

_OF_KEYS = (*REPEATED, "23503")
_MOST_READINGS = 16
"""Values that hold commas and parentheses can be read in several ways, of which each takes a search: more than these
are not tried."""


class Refusal(NamedTuple):
    """What the server says of a key."""

    message: str
    detail: str
    sqlstate: str
    table: str = ""
    """The table with the constraint, as far as the server said."""

    @property
    def reason(self) -> str:
        """What to say of the record."""
        return f"{self.message} ({self.detail.rstrip('.')})"


class _Reading(NamedTuple):
    """One of the ways to divide what the server says of a key into values."""

    texts: Sequence[str]
    sent: list[list[int]]
    """The same as COPY binary has them."""


class _Key(NamedTuple):
    """A key that the server tells."""

    columns: list[TableColumn]
    readings: list[_Reading]


def of_error(error: BaseException) -> Refusal | None:
    """What an error says of a key, if it is about one and names no record."""
    if isinstance(error, psycopg.Error):
        said = error.diag
        found = Refusal(
            said.message_primary or "", said.message_detail or "", error.sqlstate or "", said.table_name or ""
        )
    elif (
        isinstance(error, TippleError)
        and not isinstance(error, BadRecord)
        and error.detail.get("doing") != server_errors.PREPARING
    ):
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
    """The record that the server refuses; None where it is not found, is not sure, or cannot be looked for."""
    if task.reads_once:
        # What cannot be read again.
        return None
    try:
        key = _key(connection, task, refusal.detail)
        if key is None:
            return None
        if refusal.sqlstate not in REPEATED:
            if _is_of_others(connection, task, refusal, key):
                return None
            operators = None
        else:
            operators = _operators(connection, task, refusal, key)
            if operators is None:
                return None
        found = []
        with runner.phase("search"):
            for reading in key.readings:
                record = _search(task, plans, owned, runner, refusal, key, reading)
                if record is None:
                    continue
                if operators is None:
                    found.append(record)
                elif _is_repeated(connection, task, refusal, key, reading, operators, record):
                    return record
        # Which of several readings the server has meant, nobody can tell.
        return found[0] if len(found) == 1 else None
    except Interrupted:
        raise
    except (TippleError, psycopg.Error):
        # There is an error to report already, and it is not this one.
        return None


def _search(
    task: LoadTask,
    plans: CorePlans,
    owned: OwnedJob,
    runner: Runner,
    refusal: Refusal,
    key: _Key,
    reading: _Reading,
) -> BadRecord | None:
    """The first record with a key, or the second one of a key that must not come twice."""
    sought = {
        "columns": [
            {"index": task.columns.index(column), "padded": column.type_text.startswith("character(")}
            for column in key.columns
        ],
        "values": [reading.sent],
        "repeated": refusal.sqlstate in REPEATED,
        "reason": refusal.reason,
        "sqlstate": refusal.sqlstate,
    }
    try:
        runner.run(core.start_load(task, plans.sought(owned, core.cut(task), sought)))
    except BadRecord as record:
        return record if record.reason.startswith(refusal.reason) else None
    return None


# Rows of another table that refer to one that was to be replaced; and a foreign key of a partition by itself, for which
# a record with the key may belong to another partition.
_OF_OTHERS = """
WITH own AS (
    SELECT to_regclass(%(table)s)::oid AS oid UNION SELECT relid FROM pg_partition_tree(to_regclass(%(table)s)))
SELECT FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid
WHERE f.contype = 'f' AND CASE WHEN f.conrelid NOT IN (SELECT oid FROM own)
    THEN c.relname = %(other)s AND f.confrelid IN (SELECT oid FROM own)
    ELSE f.conparentid = 0 AND f.conrelid <> to_regclass(%(table)s) AND %(columns)s::text[] = ARRAY(
        SELECT a.attname::text FROM unnest(f.conkey) WITH ORDINALITY k (n, place)
        JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = k.n ORDER BY place) END
LIMIT 1
"""


def _is_of_others(connection: psycopg.Connection[Any], task: LoadTask, refusal: Refusal, key: _Key) -> bool:
    """Whether a foreign key may refuse something else than the first record with the key."""
    facts = {
        "table": task.table.sql,
        "other": refusal.table,
        "columns": [column.name for column in key.columns],
    }
    return connection.execute(_OF_OTHERS, facts).fetchone() is not None


# Of keys that judge all rows of the table. An index of a partition that belongs to none of the table judges its own.
_OPERATORS = """
SELECT DISTINCT ARRAY(
    SELECT format('OPERATOR(%%I.%%s)', n.nspname, o.oprname)
    FROM unnest(x.conexclop) WITH ORDINALITY AS used (oid, place) JOIN pg_operator o ON o.oid = used.oid
    JOIN pg_namespace n ON n.oid = o.oprnamespace ORDER BY place)
FROM pg_index i
LEFT JOIN pg_constraint x ON x.conindid = i.indexrelid AND x.conrelid = i.indrelid AND x.conexclop IS NOT NULL
WHERE i.indrelid = to_regclass(%(table)s) AND i.indpred IS NULL AND i.indexprs IS NULL
    AND CASE WHEN %(excludes)s THEN i.indisexclusion ELSE i.indisunique AND NOT i.indisexclusion END
    AND %(columns)s::text[] = ARRAY(
        SELECT a.attname::text FROM unnest(i.indkey::smallint[]) WITH ORDINALITY k (n, place)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n WHERE place <= i.indnkeyatts ORDER BY place)
"""


def _operators(
    connection: psycopg.Connection[Any], task: LoadTask, refusal: Refusal, key: _Key
) -> Sequence[str] | None:
    """By which operators, one for each column, two rows of the table are in each other's way; None where not all of
    its rows are, or that is not known."""
    excludes = refusal.sqlstate != "23505"
    equal = ["="] * len(key.columns)
    if task.definition is not None:
        # What an EXCLUDE of a schema file says is not read.
        keys = filter(constraints.is_key, task.definition.constraints)
        return equal if not excludes or all(map(constraints.is_unique, keys)) else None
    names = [column.name for column in key.columns]
    wanted = task.structure
    if wanted is not None and wanted.structure == "btree" and names == list(wanted.key) and not excludes:
        # The key that the table is to get may not be there.
        return equal
    facts = {"table": task.table.sql, "excludes": excludes, "columns": names}
    found = connection.execute(_OPERATORS, facts).fetchall()
    return (found[0][0] or equal) if len(found) == 1 else None


def _is_repeated(
    connection: psycopg.Connection[Any],
    task: LoadTask,
    refusal: Refusal,
    key: _Key,
    reading: _Reading,
    operators: Sequence[str],
    record: BadRecord,
) -> bool:
    """Whether a record that was found has a key that another record before it has too, or a row of the table.

    Any other may be the first with its key, which the later ones spell otherwise.
    """
    values = [f"CAST(%s AS {pasted(column.type_text)})" for column in key.columns]
    if record.reason != refusal.reason:
        # Two of them were found. What excludes others may not exclude its like.
        terms, source = values, ""
    elif task.mode == "append" and task.atomic and task.definition is None:
        terms = [pasted(quote_identifier(column.name)) for column in key.columns]
        # Rows of tables that inherit from it are judged by their own keys.
        only = "" if partitions.is_partitioned(connection, task.table) else "ONLY "
        source = f"FROM {only}{pasted(task.table.sql)} "
    else:
        return False
    alike = " AND ".join(
        f"{term} {pasted(operator)} {value}" for term, operator, value in zip(terms, operators, values, strict=True)
    )
    texts = [text for text in reading.texts for _ in range(1 if source else 2)]
    return connection.execute(f"SELECT {source}WHERE {alike} LIMIT 1".encode(), texts).fetchone() is not None


def _key(connection: psycopg.Connection[Any], task: LoadTask, detail: str) -> _Key | None:
    """The key that the server tells, if it is one of columns that are loaded."""
    known = {quote_identifier(column.name): column for column in task.columns}
    known.update({column.name: column for column in task.columns})
    names, _, rest = detail[detail.index("(") + 1 :].partition(")=(")
    columns = [known.get(name) for name in re.split(r", (?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", names)]
    present = [column for column in columns if column is not None]
    if not present or len(present) < len(columns):
        # An expression, or a column that is not loaded.
        return None
    readings = []
    for texts in itertools.islice(_divisions(rest, len(present)), _MOST_READINGS):
        sent = _sent(connection, present, texts)
        if sent is not None:
            readings.append(_Reading(texts, sent))
    return _Key(present, readings) if readings else None


def _divisions(rest: str, count: int) -> Iterator[Sequence[str]]:
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
                query = f"SELECT {pasted(send)}(CAST(%s AS {pasted(column.type_text)}){as_text})"
                value = connection.execute(query.encode(), (text,)).fetchone()
        except psycopg.Error:
            return None
        if value is None or value[0] is None:
            return None
        sent.append(list(bytes(value[0])))
    return sent
