"""Records that violate constraints, of what can be read but once: standard input, and streams in memory.

All rows go into a table of their own first, and each with its record, as the source has it. Then violations are found
as everywhere, their records become rejects, and all others are stored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import duckdb

from tipple import _core
from tipple.engines.base import LoadTask
from tipple.engines.duckdb import violations
from tipple.engines.duckdb.connection import first_row
from tipple.engines.duckdb.violations import EXAMINED, PLACE, REFUSED, Examination, Violation
from tipple.errors import BadRecord, TippleError, TooManyRejects
from tipple.plan.url import quote_identifier

SHOWN_CHARACTERS = 120
"""The longest piece of a value that a message shows, as in the core."""
_Refused = tuple[int, int, int, int, str | None, str, str, bytes]
"""Slice, source, byte offset, number in the piece, column, reason, SQLSTATE, record."""


def store(
    connection: duckdb.DuckDBPyConnection,
    task: LoadTask,
    what: Examination,
    read: Callable[[str, list[int]], dict[str, Any]],
    into: str,
    job_id: str,
    order_by: str = "",
) -> dict[str, Any]:
    """Stores what can be read once, and gives the core's outcome as if it had rejected the records itself.

    Args:
        connection: in the transaction in which rows are stored.
        task: the load.
        what: what is looked at: whole rows with their records.
        read: reads these columns, by index, into the table that its statement names, and gives the core's outcome.
        into: the target, quoted.
        job_id: the job in the ledger.
        order_by: the clause that says in which order rows are stored; empty where that does not matter.

    Raises:
        BadRecord, TooManyRejects: more violations than may be rejected.
    """
    with violations.tables(connection, what):
        outcome = read(*violations.reading(task, what))
        found = violations.find_all(connection, task, what.constraints)
        if found:
            _reject(connection, task, what, found, outcome, job_id)
        names = ", ".join(quote_identifier(column.name) for column in task.columns)
        order = order_by or (f" ORDER BY {PLACE}" if task.preserve_order else "")
        stored = first_row(
            connection,
            f"INSERT INTO {into} ({names}) SELECT {names} FROM {EXAMINED} ANTI JOIN {REFUSED} USING ({PLACE}){order}",
        )
    if stored is None or stored[0] != outcome["rows"]:
        raise TippleError(
            f"internal error: {outcome['rows']} rows were to be stored, but DuckDB stored {stored}",
            hint="nothing was published; please report this with the command",
        )
    return outcome


def _reject(
    connection: duckdb.DuckDBPyConnection,
    task: LoadTask,
    what: Examination,
    found: Sequence[Violation],
    outcome: dict[str, Any],
    job_id: str,
) -> None:
    connection.execute(f"DELETE FROM {REFUSED}")
    connection.execute(
        f"INSERT INTO {REFUSED} SELECT unnest(?), unnest(?), unnest(?)",
        [[violation[place] for violation in found] for place in range(3)],
    )
    told = sorted(_refused(connection, task, what), key=lambda row: (row[0][1], row[0][2]))
    refused = [row for row, _ in told]
    most = task.rejects.max_count if task.rejects is not None else 0
    if most is not None and outcome["rejects"] + len(refused) > most:
        record = _bad_record(task, *told[max(0, most - outcome["rejects"])])
        raise TooManyRejects(str(most), record) if most else record
    _core.spool_rejects(os.path.join(task.spool or "", "violations.rows"), job_id, refused)
    if outcome["digest"] is not None:
        names = ", ".join(quote_identifier(column.name) for column in task.columns)
        rows = connection.sql(f"SELECT {names} FROM {EXAMINED} SEMI JOIN {REFUSED} USING ({PLACE})")
        held = _core.digest_arrow_stream(rows, [column.digested for column in task.columns])
        rest = int(outcome["digest"], 16) - int(json.loads(held)["digest"], 16)
        outcome["digest"] = f"{rest % (1 << 128):032x}"
    outcome["rows"] -= len(refused)
    outcome["rejects"] += len(refused)
    by_slice: dict[int, int] = {}
    for n, source, *_ in refused:
        by_slice[n] = by_slice.get(n, 0) + 1
        outcome["sources"][source]["rows"] -= 1
    outcome["slices"] = [
        (n, rows - by_slice.get(n, 0), rejects + by_slice.get(n, 0)) for n, rows, rejects in outcome["slices"]
    ]


def _refused(
    connection: duckdb.DuckDBPyConnection, task: LoadTask, what: Examination
) -> list[tuple[_Refused, str | None]]:
    """The rejects as the core spools them, and the value where one is to blame."""
    loaded = [column.name for column in task.columns]
    refused: list[tuple[_Refused, str | None]] = []
    for number, constraint in enumerate(what.constraints):
        told = constraint.told(task.table.name, loaded)
        is_told = told.get("about_value") or told["about_key"] is not None
        # What is not told of a record need not be one that can be computed.
        key = " || ', ' || ".join(f"CAST({term} AS VARCHAR)" for term in constraint.terms) if is_told else "NULL"
        rows = connection.execute(
            f"SELECT tipple_slice, {PLACE}, tipple_index, {key}, tipple_record "
            f"FROM {EXAMINED} JOIN {REFUSED} USING ({PLACE}) WHERE violated = {number}"
        ).fetchall()
        for n, source, offset, index, value, record in rows:
            reason = told["reason"]
            if told.get("about_value"):
                reason += f': "{value[:SHOWN_CHARACTERS]}{"…" * (len(value) > SHOWN_CHARACTERS)}"'
            elif told["about_key"] is not None:
                reason += f" (Key ({', '.join(constraint.columns or ())})=({value}) {told['about_key']})"
            blamed = constraint.columns[0] if told.get("about_value") and constraint.columns else None
            row = n, source, offset, index, blamed, reason, told["sqlstate"], record
            refused.append((row, value if told.get("about_value") else None))
    return refused


def _bad_record(task: LoadTask, refused: _Refused, value: str | None) -> BadRecord:
    _, source, offset, index, column, reason, sqlstate, record = refused
    return BadRecord(
        file=task.sources[source].path,
        record_number=index + 1,
        byte_offset=None if task.columnar is not None else offset,
        column=column,
        text=record.decode(errors="replace").rstrip("\r\n") if value is None else value,
        reason=reason,
        sqlstate=sqlstate,
    )
