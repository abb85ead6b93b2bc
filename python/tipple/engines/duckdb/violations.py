"""Which records violate constraints: DuckDB ends an INSERT with the first of them, and names none.

The sources are read once more, into a table that has nothing but the columns that constraints look at and each
record's place. A few statements over it find all violations at once, whatever their number; the load itself leaves
those records out. What is stored is what a server would store that takes record after record, in the order of the
sources: a record that is refused takes no key from a later one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import msgspec

from tipple.engines.base import LoadTask
from tipple.engines.duckdb import merge_violations, unread
from tipple.engines.duckdb.collations import collated_types
from tipple.engines.duckdb.columns import generated_columns
from tipple.engines.duckdb.connection import qualified
from tipple.engines.duckdb.constraints import Constraint, aliased, aliases, constraints_of, tried, unsteady_functions
from tipple.engines.merge import Merge, own_name, refuse_conflicts
from tipple.plan.url import quote_identifier

EXAMINED = "temp.main.tipple_examined"
REFUSED = "temp.main.tipple_refused"
PLACE = "tipple_source, tipple_offset"

_OWN_NAMES = re.compile(r"tipple_(source|offset|slice|index|record|key(_[0-9]+)?|term_[0-9]+)", re.IGNORECASE)
"""Of columns that stand beside the examined ones, there and in queries over them."""

Violation = tuple[int, int, int]
"""The source, where in it the record begins, and the constraint."""


class Examination(msgspec.Struct, kw_only=True):
    """What is looked at to find violations."""

    constraints: list[Constraint]
    columns: list[str]
    """The columns that the constraints look at, of those that are loaded."""
    definition: str
    """The table for them: loaded columns, what else constraints look at, values that cannot be read, and places."""
    whole: bool
    """Whether it holds all that is to be stored, and the records themselves."""


def examination(
    connection: duckdb.DuckDBPyConnection, task: LoadTask, *, whole: bool = False, of_files: Sequence[Constraint] = ()
) -> Examination | None:
    """What there is to look at; None where the table has no constraint that can be looked at.

    With `whole` it is all that is to be stored, and the records themselves. `of_files` are no table's.
    """
    facts = {
        name: (type_text, default)
        for name, type_text, default in connection.execute(
            "SELECT column_name, data_type, column_default FROM duckdb_columns() "
            "WHERE database_name = current_database() AND schema_name = ? AND table_name = ? ORDER BY column_index",
            [task.table.schema, task.table.name],
        ).fetchall()
    }
    # In their order, and found at once: a table may have thousands.
    loaded = dict.fromkeys(column.name for column in task.columns)
    constraints = constraints_of(connection, task.table)
    generated = generated_columns(connection, task.table)
    if task.mode == "upsert":
        unsteady = unsteady_functions(connection)
        defaults = {
            name: default
            for name, (_, default) in facts.items()
            if name not in generated and (default is None or unsteady.search(default) is None)
        }
        constraints = merge_violations.others_than_key(constraints, task, defaults)
    needed = {name for constraint in constraints for name in constraint.columns or ()}.union(task.key)
    anything = any(constraint.columns is None for constraint in constraints)
    # They come first: what cannot be read violates nothing else.
    constraints = [*unread.constraints(task), *of_files, *constraints]
    if not constraints:
        return None
    own = qualified(connection, task.table)
    types = collated_types(connection, own, {name: type_text for name, (type_text, _) in facts.items()})
    anything = anything or not needed.isdisjoint(generated)
    names = dict.fromkeys(name for name in facts if anything or name in needed or (whole and name in loaded))
    columns = [name for name in loaded if name in names]
    taken = next(filter(_OWN_NAMES.fullmatch, names), None)
    if taken is not None:
        if task.rejects is None:
            return None
        raise own_name(task.table, taken, "rename the column, or load without --on-error skip; nothing was published")

    def clause(name: str) -> str:
        type_text, default = facts[name]
        if name in generated and default is not None:
            # Its expression has a collation of its own, and DuckDB takes no other.
            return f"{quote_identifier(name)} {type_text} GENERATED ALWAYS AS ({default})"
        how = "" if name in loaded or default is None else f" DEFAULT {default}"
        return f"{quote_identifier(name)} {types[name]}{how}"

    places = ["tipple_source INTEGER", "tipple_offset BIGINT"]
    if whole:
        places += ["tipple_slice INTEGER", "tipple_index BIGINT", "tipple_record BLOB"]
    texts = [f"{term} VARCHAR" for term, _ in unread.texts(task, constraints)]
    definition = ", ".join([*map(clause, names), *texts, *places])
    return Examination(constraints=constraints, columns=columns, definition=definition, whole=whole)


def find(
    connection: duckdb.DuckDBPyConnection,
    task: LoadTask,
    what: Examination,
    read: Callable[[str, list[int]], object],
    limit: int | None,
) -> dict[str, Any]:
    """The records that violate constraints, as the core's `Violations`.

    Args:
        connection: in the transaction in which they would be stored.
        task: the load.
        what: what is looked at.
        read: reads these columns, by index, into the table that its statement names.
        limit: how many are wanted at most, the first ones.
    """
    with tables(connection, what):
        read(*reading(task, what))
        found = find_all(connection, task, what.constraints)
    return _as_plan(found if limit is None else found[:limit], task, what.constraints)


@contextmanager
def tables(connection: duckdb.DuckDBPyConnection, what: Examination) -> Iterator[None]:
    """Makes the tables of an examination, and drops them."""
    connection.execute(f"CREATE TEMP TABLE {EXAMINED} ({what.definition})")
    connection.execute(f"CREATE TEMP TABLE {REFUSED} (tipple_source INTEGER, tipple_offset BIGINT, violated INTEGER)")
    try:
        yield
    finally:
        _drop(connection)


def reading(task: LoadTask, what: Examination) -> tuple[str, list[int]]:
    """The statement, but for where it reads from, that fills the table; and the columns that it reads, by index."""
    others = f"{PLACE}, tipple_slice, tipple_index, tipple_record" if what.whole else PLACE
    texts = dict(unread.texts(task, what.constraints))
    into = ", ".join([*map(quote_identifier, what.columns), *texts, others])
    by_name = {column.name: column for column in task.columns}
    own = (unread.cast(by_name[name], tried=True) for name in what.columns)
    values = ", ".join([*own, *texts.values(), others])
    read = {
        name
        for constraint in what.constraints
        if constraint.kind in unread.OF_VALUES
        for name in constraint.columns or ()
    }
    read.update(what.columns)
    indexes = [index for index, column in enumerate(task.columns) if column.name in read]
    return f"INSERT INTO {EXAMINED} ({into}) SELECT {values}", indexes


def find_all(
    connection: duckdb.DuckDBPyConnection, task: LoadTask, constraints: Sequence[Constraint]
) -> list[Violation]:
    """What violates constraints in the table that was filled, in the order of the sources."""
    target = qualified(connection, task.table)
    if task.mode != "upsert":
        return sorted(_violations(connection, target, constraints))
    return sorted(_violations_of_upsert(connection, task, target, constraints))


def _drop(connection: duckdb.DuckDBPyConnection) -> None:
    for table in (EXAMINED, REFUSED):
        try:
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        except duckdb.Error:
            # The transaction has failed, and takes the table with it.
            return


def _violations(
    connection: duckdb.DuckDBPyConnection, target: str, constraints: Sequence[Constraint]
) -> Iterator[Violation]:
    """All violations, a record's first one each."""
    for number, constraint in enumerate(constraints):
        _refuse_alone(connection, number, constraint, target)
    yield from connection.execute(f"SELECT {PLACE}, min(violated) FROM {REFUSED} GROUP BY {PLACE}").fetchall()
    yield from _later_ones(_duplicates(connection, constraints))


def _violations_of_upsert(
    connection: duckdb.DuckDBPyConnection, task: LoadTask, target: str, constraints: Sequence[Constraint]
) -> Iterator[Violation]:
    for number, constraint in enumerate(constraints):
        if constraint.kind == "value":
            _refuse_alone(connection, number, constraint, target)
    if task.on_conflict == "ignore":
        # A record that is left out because the table has its key violates nothing.
        key = " AND ".join(f"t.{name} = {EXAMINED}.{name}" for name in map(quote_identifier, task.key))
        connection.execute(f"DELETE FROM {EXAMINED} WHERE EXISTS (SELECT 1 FROM {target} t WHERE {key})")
    merge_violations.keep_values(connection, task, constraints, EXAMINED, target)
    numbered = list(enumerate(constraints))
    for number, constraint in numbered:
        if constraint.kind not in ("value", "unique"):
            _refuse_alone(connection, number, constraint, target)
    yield from connection.execute(f"SELECT {PLACE}, min(violated) FROM {REFUSED} GROUP BY {PLACE}").fetchall()
    good = f"(SELECT * FROM {EXAMINED} ANTI JOIN {REFUSED} USING ({PLACE}))"
    if task.on_conflict == "error":
        # As on every engine, a record that is refused for what another one has counts among the keys.
        keys = Merge(target=target, staging=good, columns=(), key=task.key, on_conflict=task.on_conflict)
        refuse_conflicts(task.table, task.key, connection.execute(keys.conflicts()).fetchall())
    uniques = [(number, constraint) for number, constraint in numbered if constraint.kind == "unique"]
    for (source, offset), (number, _) in merge_violations.among_keys(connection, task, uniques, good, target, PLACE):
        yield source, offset, number


def _refuse_alone(connection: duckdb.DuckDBPyConnection, number: int, constraint: Constraint, target: str) -> None:
    """Notes the records that are refused whatever other records there are."""
    query = _refused_alone(constraint, target)
    connection.execute(f"INSERT INTO {REFUSED} SELECT *, {number} FROM ({query})")


def _refused_alone(constraint: Constraint, target: str) -> str:
    """A query for the places of records that are refused whatever other records there are."""
    names, mine = aliases(constraint.terms), _keys(EXAMINED, constraint.terms, PLACE)
    match constraint.kind:
        case "value" | "partition":
            return f"SELECT {PLACE} FROM {EXAMINED} WHERE {constraint.terms[0]} IS NOT NULL"
        case "check":
            # A condition that cannot be computed, for a division by zero say, is violated.
            holds = tried(f"coalesce(CAST(({constraint.terms[0]}) AS BOOLEAN), true)", constraint.is_steady)
            return f"SELECT {PLACE} FROM {EXAMINED} WHERE NOT coalesce({holds}, false)"
        case "expression":
            # No value is without a hash. For IS NULL in its place, DuckDB computes no term that is never NULL.
            fails = " OR ".join(f"TRY(hash({term})) IS NULL" for term in constraint.terms)
            return f"SELECT {PLACE} FROM {EXAMINED} WHERE {fails}"
        case "unique":
            return f"SELECT {PLACE} FROM {mine} SEMI JOIN {_keys(target, constraint.terms)} USING ({names})"
        case "foreign key":
            # Where a table refers to itself, DuckDB wants the other row to be there before the statement.
            known = _keys(constraint.refers_to or target, constraint.refers_to_terms)
            return f"SELECT {PLACE} FROM {mine} ANTI JOIN {known} USING ({names})"


def _keys(table: str, terms: Sequence[str], *others: str) -> str:
    """The keys of a table's rows, as a table; one with a NULL equals none, and refers to nothing."""
    complete = " AND ".join(f"{term} IS NOT NULL" for term in terms)
    return f"(SELECT {', '.join([*others, aliased(terms)])} FROM {table} WHERE {complete})"


def _duplicates(
    connection: duckdb.DuckDBPyConnection, constraints: Sequence[Constraint]
) -> Iterator[tuple[int, int, int, int]]:
    """Place, constraint and number of the key of all records that share one, in the order of the sources."""
    queries = []
    for number, constraint in enumerate(constraints):
        if constraint.kind != "unique":
            continue
        names = aliases(constraint.terms)
        good = f"{_keys(EXAMINED, constraint.terms, PLACE)} ANTI JOIN {REFUSED} USING ({PLACE})"
        shared = f"SELECT {names}, row_number() OVER () AS key FROM {good} GROUP BY {names} HAVING count(*) > 1"
        queries.append(f"SELECT {PLACE}, {number} AS violated, key FROM {good} JOIN ({shared}) USING ({names})")
    if queries:
        found = connection.execute(f"{' UNION ALL '.join(queries)} ORDER BY {PLACE}, violated")
        while rows := found.fetchmany(100_000):
            yield from rows


def _later_ones(duplicates: Iterable[tuple[int, int, int, int]]) -> Iterator[Violation]:
    """Of the records that share keys, those that come behind a stored one with the same key."""
    taken: set[tuple[int, int]] = set()
    place: tuple[int, int] | None = None
    keys: list[tuple[int, int]] = []

    def judge() -> Iterator[Violation]:
        violated = next((number for number, key in keys if (number, key) in taken), None)
        if violated is None:
            taken.update(keys)
        elif place is not None:
            yield (*place, violated)

    for source, offset, number, key in duplicates:
        if (source, offset) != place:
            yield from judge()
            place, keys = (source, offset), []
        keys.append((number, key))
    yield from judge()


def _as_plan(found: Sequence[Violation], task: LoadTask, constraints: Sequence[Constraint]) -> dict[str, Any]:
    by_source: dict[int, dict[str, Any]] = {}
    for source, offset, constraint in found:
        of = by_source.setdefault(source, {"source": source, "offsets": [], "constraints": []})
        of["offsets"].append(offset)
        of["constraints"].append(constraint)
    loaded = [column.name for column in task.columns]
    return {
        "constraints": [constraint.told(task.table.name, loaded) for constraint in constraints],
        "sources": list(by_source.values()),
    }
