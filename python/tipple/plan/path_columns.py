"""Columns whose values stand in the names of directories, as Hive, Spark and DuckDB lay files out. Pure.

    lake/day=2024-01-31/region=EU/part-0.parquet     day is 2024-01-31 and region EU in all rows of the file

Values are percent-encoded (RFC 3986), and `__HIVE_DEFAULT_PARTITION__` is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from urllib.parse import unquote

from tipple.plan.columnar import Field

__all__ = ["HIVE_NULL", "fields_in_paths", "note_of_paths", "values_in_path", "wanted_of_paths"]

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_DIRECTORY = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}")
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")


def values_in_path(path: str) -> dict[str, str | None]:
    """By name what the directories of a file say; of two of one name the inner one counts."""
    found = (_DIRECTORY.fullmatch(part) for part in path.split("/")[:-1])
    return {match[1]: _value(match[2]) for match in found if match is not None}


def _value(text: str) -> str | None:
    """What stands behind the sign; as it is written where that are no characters in UTF-8."""
    if text == HIVE_NULL:
        return None
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


def fields_in_paths(paths: Sequence[str], own: Collection[str]) -> list[Field]:
    """The fields that the directories of all files have, with the type of a new column that holds their values.

    Args:
        paths: the files.
        own: names of the files' own fields, which count more.
    """
    values = [values_in_path(path) for path in paths]
    own_names = {name.lower() for name in own}
    names = [name for name in values[0] if name.lower() not in own_names] if values else []
    return [
        Field(
            name=name,
            arrow_type="Utf8",
            sql_type=_type_of({of_file[name] for of_file in values}),
            nullable=True,
            is_moment=False,
        )
        for name in names
        if all(name in of_file for of_file in values)
    ]


def wanted_of_paths(fields: Iterable[Field], columns: Collection[str], wanted: Collection[str] | None) -> list[Field]:
    """Those of the directories' fields that a load takes: the table has them, and `--columns` does not leave them out.

    Args:
        fields: see `fields_in_paths`.
        columns: names of the table's columns.
        wanted: what `--columns` says.
    """
    in_table = {name.lower() for name in columns}
    named = None if wanted is None else {name.strip().strip('"').lower() for name in wanted}
    return [
        field for field in fields if field.name.lower() in in_table and (named is None or field.name.lower() in named)
    ]


def note_of_paths(paths: Iterable[str], loaded: Collection[str], *, columnar: bool) -> str | None:
    """What is said of names in directories that are not among the `loaded` columns; None where there are none."""
    known = {name.lower() for name in loaded}
    names = dict.fromkeys(name for path in paths for name in values_in_path(path))
    left_out = [name for name in names if name.lower() not in known]
    if not left_out:
        return None
    why = (
        "the table has no such column, or not all files have it" if columnar else "of text only what the files hold is"
    )
    return f"the directories' names hold {', '.join(left_out)} (as {left_out[0]}=… has it), which is not loaded: {why}"


def _type_of(values: Collection[str | None]) -> str:
    """What holds the values as they are: 01 is a text, for a number would not be written like that."""
    known = [value for value in values if value is not None]
    if known and all(_INTEGER.fullmatch(value) for value in known):
        return "bigint"
    return "date" if known and all(_DATE.fullmatch(value) for value in known) else "text"
