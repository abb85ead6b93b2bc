"""Tables and columns of a DuckDB database in the codec's terms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import msgspec

from tipple.engines.base import UTC_NAMES, Table, TableColumn
from tipple.engines.duckdb import parquet
from tipple.engines.duckdb.connection import first_row
from tipple.errors import UsageError
from tipple.plan.sql_tokens import Token, statements
from tipple.plan.url import TableName, fold_identifier, quote_identifier

_PLAIN_TYPES: dict[str, Any] = {
    "BOOLEAN": "bool",
    "SMALLINT": "int2",
    "INTEGER": "int4",
    "BIGINT": "int8",
    "FLOAT": "float4",
    "DOUBLE": "float8",
    "VARCHAR": "text",
    "DATE": "date",
    "TIME": {"time": {"precision": 6}},
    "TIMESTAMP": {"timestamp": {"precision": 6}},
    "TIMESTAMP_MS": {"timestamp": {"precision": 3}},
    "TIMESTAMP_S": {"timestamp": {"precision": 0}},
    "INTERVAL": {"interval": {"precision": 6}},
    "UUID": "uuid",
    "BLOB": "bytea",
    "JSON": "json",
    "TINYINT": {"integer": {"bits": 8, "signed": True}},
    "UTINYINT": {"integer": {"bits": 8, "signed": False}},
    "USMALLINT": {"integer": {"bits": 16, "signed": False}},
    "UINTEGER": {"integer": {"bits": 32, "signed": False}},
    "UBIGINT": {"integer": {"bits": 64, "signed": False}},
    "HUGEINT": {"integer": {"bits": 128, "signed": True}},
    "UHUGEINT": {"integer": {"bits": 128, "signed": False}},
}
_LABEL = r"'((?:[^']|'')*)'"
_ENUM = re.compile(rf"ENUM\({_LABEL}(?:, {_LABEL})*\)", re.DOTALL)
_MAX_DIMENSIONS = 6
_QUOTED = re.compile(rf'{_LABEL}|"(?:[^"]|"")*"', re.DOTALL)
_COUNTS_MICROSECONDS = re.compile(r"\b(?:TIMESTAMP|TIMESTAMP_MS|TIMESTAMP_S|TIMESTAMPTZ|TIME|TIMETZ|INTERVAL)\b")
_TELLS_TIME = re.compile(r"\b(?:DATE|TIME|TIME_NS|TIMESTAMP|TIMESTAMP_NS|TIMESTAMP_MS|TIMESTAMP_S)\b")
_HAS_PARTS = re.compile(r"\b(?:DATE|TIME|TIMETZ|TIME_NS|BIGNUM|STRUCT|MAP)\b|\]")
_WHOLE = frozenset(
    {
        "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint",
        "uhugeint", "bignum",
    }
)  # fmt: skip
"""Types of integers, to which DuckDB's own casts round."""
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


_OWN = "database_name = current_database()"


def refuse_view(connection: duckdb.DuckDBPyConnection, name: TableName) -> None:
    """Refuses a view `name` in the named schema, or else in the current one.

    Raises:
        UsageError: there is one.
    """
    found = first_row(
        connection,
        f"SELECT 1 FROM duckdb_views() WHERE {_OWN} AND lower(schema_name) = lower(coalesce(?, current_schema())) "
        "AND lower(view_name) = lower(?) AND NOT internal",
        [name.schema, name.name],
    )
    if found is not None:
        raise UsageError(f"{name} is a view, and rows go into tables", hint="name a table, or drop the view first")


def place_of_new(connection: duckdb.DuckDBPyConnection, table: TableName) -> TableName:
    """The name with the schema in which an unqualified table would be created.

    Raises:
        UsageError: there is no such schema.
    """
    found = first_row(
        connection,
        f"SELECT schema_name FROM duckdb_schemas() WHERE {_OWN} "
        "AND lower(schema_name) = lower(coalesce(?, current_schema()))",
        [table.schema],
    )
    if found is None:
        remedy = f"CREATE SCHEMA {quote_identifier(table.schema or 'main')};"
        raise UsageError(f"there is no schema {table.schema}", hint=remedy)
    return TableName(found[0], table.name)


def describe(connection: duckdb.DuckDBPyConnection, name: TableName, *, temporary: bool = False) -> Table | None:
    """The table `name`, found in the named schema or else in the current one, or None.

    A `temporary` one is looked for among those of the connection, and nowhere else.
    """
    within = "database_name = 'temp'" if temporary else _OWN
    found = first_row(
        connection,
        f"SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE {within} "
        "AND lower(schema_name) = lower(coalesce(?, current_schema())) AND lower(table_name) = lower(?) "
        "AND NOT internal",
        [name.schema, name.name],
    )
    time_zone = first_row(connection, "SELECT current_setting('TimeZone')")
    utc = time_zone is not None and time_zone[0] in UTC_NAMES

    def column_of(column: str, type_text: str, not_null: bool) -> TableColumn:
        return TableColumn(
            name=column,
            type_text=type_text,
            codec_type=_codec_type(type_text, utc=utc),
            not_null=not_null,
            generated=False,
            nanoseconds=_keeps_nanoseconds(type_text),
            parts=_parts(connection, type_text),
            doubles="DOUBLE" in type_text,
            without_zone=_has_no_zone(type_text),
        )

    if found is None:
        return parquet.describe(connection, name, column_of)
    schema, table, made_by = found
    rows = connection.execute(
        "SELECT c.column_name, c.data_type, NOT c.is_nullable, c.column_default FROM duckdb_columns() c "
        f"WHERE c.{within} AND c.schema_name = ? AND c.table_name = ? "
        "ORDER BY c.column_index",
        [schema, table],
    ).fetchall()
    generated = _generated_in(made_by)
    return Table(
        name=TableName(schema, table),
        columns=tuple(
            msgspec.structs.replace(column_of(column, type_text, bool(not_null)), generated=column in generated)
            for column, type_text, not_null, _ in rows
        ),
    )


def generated_columns(connection: duckdb.DuckDBPyConnection, name: TableName) -> set[str]:
    """DuckDB lists generated columns like others; only they cannot be named by an INSERT."""
    sql = first_row(
        connection,
        f"SELECT sql FROM duckdb_tables() WHERE {_OWN} AND schema_name = ? AND table_name = ?",
        [name.schema, name.name],
    )
    return _generated_in(sql[0]) if sql is not None else set()


def _generated_in(made_by: str | None) -> set[str]:
    """The generated columns of the table that a statement makes.

    DuckDB before 2.0 has no catalog function that tells; its SQL has these words, however they were written.
    """
    if made_by is None or "GENERATED ALWAYS AS" not in made_by.upper():
        return set()
    return {
        _name(column[0])
        for column in _listed(next(statements(made_by), []))
        if " GENERATED ALWAYS AS " in f" {' '.join(token.word for token in column)} "
    }


def _listed(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """What a CREATE TABLE lists, without what stands in further parentheses."""
    depth = 0
    part: list[Token] = []
    for token in tokens:
        depth -= token.text in (")", "]")
        if depth == 1 and token.text == ",":
            yield part
            part = []
        elif depth == 1:
            part.append(token)
        depth += token.text in ("(", "[")
    if part:
        yield part


def _name(token: Token) -> str:
    """A column's name; DuckDB keeps the case of one that is not quoted."""
    return fold_identifier(token.text) if token.kind == "quoted" else token.text


def _keeps_nanoseconds(type_text: str) -> bool:
    """Whether no part of a type counts microseconds; of one that does DuckDB's casts round nanoseconds."""
    return _COUNTS_MICROSECONDS.search(_QUOTED.sub("", type_text)) is None


def _has_no_zone(type_text: str) -> bool:
    """Whether a type stores times, and none of its parts a moment: DuckDB's casts go by the clock of its own zone."""
    told = _QUOTED.sub("", type_text)
    return _TELLS_TIME.search(told) is not None and "WITH TIME ZONE" not in told


def _parts(connection: duckdb.DuckDBPyConnection, type_text: str) -> Any:
    """What a type stores of values that DuckDB casts to it, as the codec's `Part`; None where that is all."""
    if not _HAS_PARTS.search(_QUOTED.sub("", type_text)):
        return None
    try:
        return _part_of(connection.sqltype(type_text), within=False)
    except duckdb.Error:
        # A type with a name of its own is not looked into.
        return None


def _part_of(kind: Any, *, within: bool = True) -> Any:
    """The same of a type of DuckDB's; `within` another one, where the core reads no numbers."""
    if kind.id in _WHOLE and (within or kind.id == "bignum"):
        return "whole"
    match kind.id:
        case "boolean" if within:
            return "truth"
        case "date":
            return "day"
        case "time" | "time_ns" | "time with time zone":
            return "time"
        case "list" | "array":
            return _part_of(dict(kind.children)["child"])
        case "struct" | "map":
            return {"fields": {name.lower(): _part_of(child) for name, child in kind.children}}
        case _:
            return None


def _codec_type(type_text: str, *, utc: bool) -> Any:
    """The codec's `ColumnType`, in JSON form. A type not known here is read by DuckDB's own cast from text."""
    element_text = type_text
    while element_text.endswith("[]"):
        element_text = element_text[:-2]
    element = _element_type(element_text, utc=utc)
    dimensions = (len(type_text) - len(element_text)) // 2
    if dimensions == 0 or element == "opaque":
        return element
    return {"array": {"element": element, "dimensions": dimensions}} if dimensions <= _MAX_DIMENSIONS else "opaque"


def _element_type(type_text: str, *, utc: bool) -> Any:
    if type_text in _PLAIN_TYPES:
        return _PLAIN_TYPES[type_text]
    if type_text == "TIMESTAMP WITH TIME ZONE" and utc:
        # In another time zone a text without one is DuckDB's to read, and it reads whole columns.
        return {"timestamptz": {"precision": 6, "utc": True}}
    decimal = _DECIMAL.fullmatch(type_text)
    if decimal is not None:
        return {"numeric": {"precision": int(decimal.group(1)), "scale": int(decimal.group(2))}}
    if _ENUM.fullmatch(type_text):
        return {"enum": {"labels": sorted(label.replace("''", "'") for label in re.findall(_LABEL, type_text))}}
    return "opaque"
