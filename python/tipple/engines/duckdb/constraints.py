"""The constraints of a DuckDB table that only a look at other records or other columns can judge, as SQL.

NOT NULL is not among them: the core refuses a NULL itself, and names its record.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import duckdb
import msgspec

from tipple.engines.duckdb.collations import by_bytes
from tipple.engines.duckdb.connection import catalog, qualified
from tipple.plan.url import TableName, quote_identifier


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """A constraint of a table."""

    kind: Literal["value", "partition", "check", "expression", "unique", "foreign key"]
    """`value`: that DuckDB can read the values of a column, whose type is its name; `partition`: that a directory of
    files takes the record; `expression`: that the parts of a unique index can be computed."""
    name: str
    columns: tuple[str, ...] | None
    """The columns that it reads; None where nobody says, so that it may be any."""
    mentioned: tuple[str, ...] = ()
    """Where nobody says: the columns whose names stand in its terms, which has all that it reads."""
    terms: tuple[str, ...]
    """SQL: the parts of the key, such that equal ones are the same key; or the one condition of a CHECK."""
    condition: str = ""
    """Of a partition: what is true of the values that it takes, and of NULL unknown."""
    is_steady: bool = True
    """Whether the terms give the same every time they are computed."""
    refers_to: str | None = None
    """Of a foreign key: the other table, qualified and quoted."""
    refers_to_name: str | None = None
    """Its name."""
    refers_to_terms: tuple[str, ...] = ()
    """Of a foreign key: what the parts of the key are there."""

    def told(self, table: str, loaded: list[str]) -> dict[str, Any]:
        """The core's `Constraint`: what PostgreSQL would say of a record of `table` that violates it."""
        known = self.columns is not None and all(column in loaded for column in self.columns)
        key: dict[str, Any] = {"columns": [loaded.index(column) for column in self.columns or ()] if known else []}
        match self.kind:
            case "value":
                reason = f"invalid input syntax for type {self.name}"
                return key | {"reason": reason, "about_key": None, "about_value": True, "sqlstate": "22P02"}
            case "partition":
                reason = f'no partition of relation "{table}" found for row'
                return key | {"reason": reason, "about_key": None, "about_value": True, "sqlstate": "23514"}
            case "check":
                return {
                    "reason": f'new row for relation "{table}" violates check constraint "{self.name}": '
                    f"CHECK ({self.terms[0]})",
                    "columns": [],
                    "about_key": None,
                    "sqlstate": "23514",
                }
            case "expression":
                return {
                    "reason": f'unique index "{self.name}" cannot be computed for the record: {", ".join(self.terms)}',
                    "columns": [],
                    "about_key": None,
                    "sqlstate": "22000",
                }
            case "unique":
                return key | {
                    "reason": f'duplicate key value violates unique constraint "{self.name}"',
                    "about_key": "already exists." if known else None,
                    "sqlstate": "23505",
                }
            case "foreign key":
                return key | {
                    "reason": f'insert or update on table "{table}" violates foreign key constraint "{self.name}"',
                    "about_key": f'is not present in table "{self.refers_to_name}".' if known else None,
                    "sqlstate": "23503",
                }


def tried(term: str, is_steady: bool) -> str:
    """The term, NULL where it cannot be computed; DuckDB tries nothing that gives another value each time."""
    return f"TRY({term})" if is_steady else term


def aliases(terms: Sequence[str]) -> str:
    """Names for the terms of a constraint that no user's column has: columns within a term cannot be qualified."""
    return ", ".join(map(_alias, range(len(terms))))


def aliased(terms: Sequence[str]) -> str:
    """The terms by these names, as a SELECT lists them."""
    return ", ".join(f"{term} AS {_alias(index)}" for index, term in enumerate(terms))


def _alias(index: int) -> str:
    return f"tipple_term_{index}"


_KINDS: dict[str, Literal["check", "unique", "foreign key"]] = {
    "CHECK": "check",
    "PRIMARY KEY": "unique",
    "UNIQUE": "unique",
    "FOREIGN KEY": "foreign key",
}
_NAME = r'"(?:[^"]|"")+"|\w+'
_REFERENCES = re.compile(rf"REFERENCES (?:({_NAME})\.)?({_NAME})\(", re.DOTALL)
_INDEX = re.compile(rf"^CREATE UNIQUE INDEX .*? ON (?:(?:{_NAME})\.)*(?:{_NAME})\s*\((.*)\);?$", re.DOTALL)


def constraints_of(connection: duckdb.DuckDBPyConnection, table: TableName) -> list[Constraint]:
    """The constraints and unique indexes of a table, in the order in which PostgreSQL looks at them."""
    found: list[Constraint] = []
    own = qualified(connection, table)
    unsteady = unsteady_functions(connection)
    rows = connection.execute(
        "SELECT constraint_type, constraint_name, constraint_column_names, expression, constraint_text, "
        "referenced_table, referenced_column_names FROM duckdb_constraints() "
        "WHERE database_name = current_database() AND schema_name = ? AND table_name = ? ORDER BY constraint_index",
        [table.schema, table.name],
    ).fetchall()
    for kind_text, name, columns, expression, text, other, other_columns in rows:
        kind = _KINDS.get(kind_text)
        if kind is None:
            continue
        refers_to = None
        if kind == "foreign key":
            schema = _REFERENCES.search(text)
            # Where the text names no schema, it is the one that names are looked up in.
            within = schema.group(1) if schema is not None and schema.group(1) else "main"
            refers_to = f"{catalog(connection)}.{within}.{quote_identifier(other)}"
        found.append(
            Constraint(
                kind=kind,
                name=name,
                columns=tuple(columns),
                terms=(expression,)
                if kind == "check"
                else by_bytes(connection, own, [*map(quote_identifier, columns)]),
                is_steady=expression is None or unsteady.search(expression) is None,
                refers_to=refers_to,
                refers_to_name=other,
                refers_to_terms=by_bytes(connection, refers_to or own, [*map(quote_identifier, other_columns or ())]),
            )
        )
    found += _unique_indexes(connection, table, unsteady)
    order = ["check", "expression", "unique", "foreign key"]
    return sorted(found, key=lambda constraint: order.index(constraint.kind))


def unsteady_functions(connection: duckdb.DuckDBPyConnection) -> re.Pattern[str]:
    """What an expression holds that calls a function which gives another value each time."""
    names = connection.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
    ).fetchall()
    return re.compile(rf"\b({'|'.join(re.escape(name) for (name,) in names)})\b", re.IGNORECASE)


def _unique_indexes(
    connection: duckdb.DuckDBPyConnection, table: TableName, unsteady: re.Pattern[str]
) -> list[Constraint]:
    """Unique indexes that are no constraints; they may be over expressions."""
    own = qualified(connection, table)
    found = []
    for name, expressions, columns in unique_indexes(connection, table):
        terms = by_bytes(connection, own, expressions)
        mentioned = () if columns is not None else _mentioned(expressions, _column_names(connection, own))
        if columns is None and not any(map(unsteady.search, expressions)):
            found.append(
                Constraint(kind="expression", name=name, columns=None, mentioned=mentioned, terms=tuple(expressions))
            )
            terms = tuple(tried(term, True) for term in terms)
        found.append(Constraint(kind="unique", name=name, columns=columns, mentioned=mentioned, terms=terms))
    return found


def _column_names(connection: duckdb.DuckDBPyConnection, own: str) -> list[str]:
    return [str(row[0]) for row in connection.execute(f"DESCRIBE {own}").fetchall()]


def _mentioned(expressions: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    text = " ".join(expressions).lower()
    return tuple(name for name in names if name.lower() in text or quote_identifier(name).lower() in text)


def unique_indexes(
    connection: duckdb.DuckDBPyConnection, table: TableName
) -> list[tuple[str, tuple[str, ...], tuple[str, ...] | None]]:
    """Unique indexes that are no constraints: name, expressions, and the columns where these are nothing else."""
    rows = connection.execute(
        "SELECT index_name, sql FROM duckdb_indexes() WHERE database_name = current_database() "
        "AND schema_name = ? AND table_name = ? AND is_unique AND NOT is_primary AND sql IS NOT NULL",
        [table.schema, table.name],
    ).fetchall()
    if not rows:
        return []
    own = qualified(connection, table)
    names = _column_names(connection, own)
    found = []
    for name, sql in rows:
        terms = _INDEX.match(sql)
        if terms is not None:
            expressions = _split(terms.group(1))
            found.append((str(name), expressions, _columns(expressions, names)))
    return found


def _columns(expressions: Sequence[str], names: Sequence[str]) -> tuple[str, ...] | None:
    """The columns that these expressions are, where they are nothing else; DuckDB's names know no case."""
    known = {spelling.lower(): name for name in names for spelling in (name, quote_identifier(name))}
    known |= {f'"{name}"'.lower(): name for name in names if '"' not in name}
    found = [known.get(expression.lower()) for expression in expressions]
    columns = tuple(name for name in found if name is not None)
    return columns if len(columns) == len(expressions) else None


def _split(terms: str) -> tuple[str, ...]:
    """A list of expressions, cut at the commas that stand in no parentheses, brackets or quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for place, character in enumerate(terms):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(terms[start:place].strip())
            start = place + 1
    return (*parts, terms[start:].strip())


def triggers_of(connection: duckdb.DuckDBPyConnection, table: TableName) -> list[str]:
    """The names of a table's triggers."""
    found = connection.execute(
        "SELECT trigger_name FROM duckdb_triggers() WHERE database_name = current_database() "
        "AND schema_name = coalesce(?, current_schema()) AND table_name = ? ORDER BY trigger_name",
        [table.schema, table.name],
    ).fetchall()
    return [str(name) for (name,) in found]
