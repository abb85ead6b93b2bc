"""Which records of an upsert violate another unique index than the one over its key: see `merge_turns.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import duckdb

from tipple.engines.base import LoadTask
from tipple.engines.duckdb.constraints import Constraint, aliased, aliases
from tipple.engines.merge_turns import Claim, Suspect, judged
from tipple.plan.url import quote_identifier

__all__ = ["among_keys", "keep_values", "others_than_key"]

SUSPECTS = "temp.main.tipple_suspect"
SEVERAL: tuple[str, ...] = ()
"""What nobody gets: values for all rows of a key that the table has more than once."""


def others_than_key(
    constraints: Sequence[Constraint], task: LoadTask, defaults: Mapping[str, str | None]
) -> list[Constraint]:
    """The constraints that an upsert's records may violate and that can be looked at; each keeps its number.

    What is unique by the key makes an update of an insert. What reads columns that the files do not have is judged by
    their defaults, or by what the row has that is updated, if it can be no more than one.

    Args:
        constraints: the table's.
        task: the load.
        defaults: the table's columns whose defaults are the same whenever they are computed, with these.
    """
    key, loaded = set(task.key), {column.name for column in task.columns}
    has_one_row = any(
        constraint.kind == "unique" and constraint.columns is not None and key.issuperset(constraint.columns)
        for constraint in constraints
    )
    written = loaded - key
    known = loaded.union(defaults if has_one_row else ())

    def applies(constraint: Constraint) -> bool:
        if constraint.columns is None:
            return loaded.issuperset(constraint.mentioned)
        if not known.issuperset(constraint.columns):
            return False
        # A new row's NULL equals none and refers to nothing, and an update that writes none of these changes nothing.
        stays = constraint.kind in ("unique", "foreign key") and written.isdisjoint(constraint.columns)
        if stays and any(defaults[name] in (None, "NULL") for name in set(constraint.columns) - loaded):
            return False
        return constraint.kind != "unique" or not key.issubset(constraint.columns)

    return [constraint for constraint in constraints if applies(constraint)]


def keep_values(
    connection: duckdb.DuckDBPyConnection, task: LoadTask, constraints: Sequence[Constraint], staged: str, target: str
) -> None:
    """Gives staged records, in place of defaults, what rows of the table keep that they update.

    Args:
        connection: in the transaction of the load.
        task: the load.
        constraints: those that are looked at.
        staged: the table of the records.
        target: the table that they go to, quoted.
    """
    read = {name for constraint in constraints for name in constraint.columns or ()}
    kept = sorted(read.difference(column.name for column in task.columns))
    if kept and task.on_conflict == "update":
        values = ", ".join(f"{name} = t.{name}" for name in map(quote_identifier, kept))
        key = " AND ".join(f"t.{name} = s.{name}" for name in map(quote_identifier, task.key))
        connection.execute(f"UPDATE {staged} s SET {values} FROM {target} t WHERE {key}")


def among_keys(
    connection: duckdb.DuckDBPyConnection,
    task: LoadTask,
    numbered: Sequence[tuple[int, Constraint]],
    good: str,
    target: str,
    place: str,
) -> Iterator[tuple[tuple[int, int], Claim]]:
    """The refused records among those of the table `good`, each with what another key has.

    Args:
        connection: in the transaction of the load.
        task: the load.
        numbered: the unique constraints, each with its number.
        good: records that nothing else is wrong with, as a table or a query in parentheses.
        target: the table that they go to, quoted.
        place: the columns that say where a record stands.
    """
    if not numbered:
        return
    names = [quote_identifier(name) for name in task.key]
    keys = [f"tipple_key_{index}" for index in range(len(names))]
    key = ", ".join(f"{name} AS {alias}" for name, alias in zip(names, keys, strict=True))
    listed = ", ".join(keys)
    updates = task.on_conflict == "update" and any(column.name not in task.key for column in task.columns)
    queries = [
        query
        for _, constraint in numbered
        for query in _suspect_keys(key, keys, constraint.terms, good, target, updates=updates)
    ]
    connection.execute(
        f"CREATE TEMP TABLE {SUSPECTS} AS "
        f"SELECT {listed}, row_number() OVER () AS tipple_key FROM ({' UNION '.join(queries)})"
    )
    try:
        suspects: dict[tuple[int, int], Suspect] = {}
        held_by: dict[Claim, int | None] = {}
        of_key = " AND ".join(f"e.{name} = s.{alias}" for name, alias in zip(names, keys, strict=True))
        several: set[int] = set()
        if updates:
            counted = (
                f"SELECT tipple_key FROM {target} e JOIN {SUSPECTS} s ON {of_key} GROUP BY ALL HAVING count(*) > 1"
            )
            several = {number for (number,) in connection.execute(counted).fetchall()}
        for number, constraint in numbered:
            held_by[number, SEVERAL] = None
            own = ", ".join(constraint.terms)
            texts = ", ".join(f"CAST({term} AS VARCHAR)" for term in constraint.terms)
            for source, offset, key_number, *values in connection.execute(
                f"SELECT {place}, tipple_key, {texts} FROM {good} e JOIN {SUSPECTS} s ON {of_key}"
            ).fetchall():
                at = (source, offset)
                claims = suspects[at].claims if at in suspects else ()
                if None not in values:
                    claims += ((number, SEVERAL if key_number in several else tuple(values)),)
                suspects[at] = Suspect(at, key_number, claims)
            for key_number, *values in connection.execute(
                f"SELECT tipple_key, {texts} FROM {target} e LEFT JOIN {SUSPECTS} s ON {of_key} "
                f"WHERE ({own}) IN (SELECT ({own}) FROM {good} e JOIN {SUSPECTS} s ON {of_key})"
            ).fetchall():
                if None not in values:
                    held_by[number, tuple(values)] = key_number
        yield from judged(suspects.values(), held_by)
    finally:
        # In a transaction that has failed nothing can be dropped, and rolling back takes it away.
        with suppress(duckdb.Error):
            connection.execute(f"DROP TABLE IF EXISTS {SUSPECTS}")


def _suspect_keys(
    key: str, keys: Sequence[str], terms: Sequence[str], good: str, target: str, *, updates: bool
) -> Iterator[str]:
    """Queries for keys whose records may be refused because of what must be unique; `updates`: rows get new values."""
    listed, names = ", ".join(keys), aliases(terms)
    complete = " AND ".join(f"{term} IS NOT NULL" for term in terms)
    staged = f"(SELECT DISTINCT {key}, {aliased(terms)} FROM {good} WHERE {complete})"
    shared = f"(SELECT {names} FROM {staged} GROUP BY {names} HAVING count(*) > 1)"
    yield f"SELECT {listed} FROM {staged} JOIN {shared} USING ({names})"
    held = f"(SELECT {key}, {aliased(terms)} FROM {target} WHERE {complete})"
    differs = " OR ".join(f"s.{alias} IS DISTINCT FROM t.{alias}" for alias in keys)
    # Who wants it, and who has it and may give it up.
    for side in "st":
        own = ", ".join(f"{side}.{alias}" for alias in keys)
        yield f"SELECT {own} FROM {staged} s JOIN {held} t USING ({names}) WHERE {differs}"
    if updates:
        # What would give several rows the same.
        rows = f"SELECT {listed} FROM (SELECT {key} FROM {target}) SEMI JOIN {staged} USING ({listed})"
        yield f"{rows} GROUP BY {listed} HAVING count(*) > 1"
