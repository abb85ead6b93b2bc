"""Columnar sources: what their options may be, which field goes into which column, and a table made after them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec

from tipple.errors import UsageError
from tipple.plan.decodable import decodable
from tipple.plan.schema import TableDefinition, plain_table
from tipple.plan.url import TableName, fold_identifier

ColumnarFormat = Literal["parquet", "arrow", "memory"]

FORMAT_NAMES: dict[ColumnarFormat, str] = {"parquet": "Parquet", "arrow": "Arrow", "memory": "an Arrow stream"}

PARQUET_MAGIC = b"PAR1"
ARROW_MAGIC = b"ARROW1"
ARROW_STREAM_START = b"\xff\xff\xff\xff"
"""An Arrow IPC stream has no magic number, but since Arrow 0.15 every message begins like this; no text does."""

_FORMAT_BY_ENDING: dict[str, ColumnarFormat] = {
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "arrows": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
}


@decodable
class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a columnar source, as the core describes it."""

    name: str
    arrow_type: str
    sql_type: str | None
    """The type of a new column for it; None where no type holds it."""
    nullable: bool
    is_moment: bool
    """Whether its values are moments, counted from an instant in UTC; of several files, those of some."""
    only_moments: bool = False
    """Whether those of all files are."""


_OTHERS = (
    (b"PARE", "an encrypted Parquet file", "write it without encryption"),
    (b"FEA1", "a Feather file of version 1", "write it again as Arrow IPC (pyarrow.feather.write_feather)"),
)
"""What a file with such a name may be, though no reader here knows it: how it begins, what it is, and what to do."""


def format_of(path: str, head: bytes) -> ColumnarFormat | None:
    """The columnar format of a file that begins with `head`, or None for any other file.

    Raises:
        UsageError: the name promises a columnar format, and the contents are not in it.
    """
    if head.startswith(PARQUET_MAGIC):
        return "parquet"
    if head.startswith((ARROW_MAGIC, ARROW_STREAM_START)):
        return "arrow"
    promised = _FORMAT_BY_ENDING.get(path.rpartition(".")[2].lower())
    if promised is not None:
        for magic, found, remedy in _OTHERS:
            if head.startswith(magic):
                raise UsageError(f"{path} is {found}, which is not read", hint=remedy)
        raise UsageError(
            f"{path}: its name says {FORMAT_NAMES[promised]}, but it does not begin as such a file does",
            hint="write or copy the file again, or say what it is: --format csv",
        )
    return None


def common_format(formats: Mapping[str, ColumnarFormat | None], wanted: str) -> ColumnarFormat | None:
    """The one columnar format of all files (path to format), or None where they are delimited text.

    Args:
        wanted: what `--format` says.

    Raises:
        UsageError: files of different formats, or not in the format that was named.
    """
    if wanted not in ("auto", "parquet", "arrow"):
        return None
    kinds = set(formats.values())
    if wanted == "auto" and kinds == {None}:
        return None
    if len(kinds) > 1:
        examples = {kind: path for path, kind in formats.items()}
        spelled = ", ".join(f"{FORMAT_NAMES[kind] if kind else 'text'} ({path})" for kind, path in examples.items())
        raise UsageError(
            f"the sources have different formats: {spelled}", hint="load each format by a command of its own"
        )
    (kind,) = kinds
    if wanted not in ("auto", kind):
        path = next(iter(formats))
        found = FORMAT_NAMES[kind] if kind else "neither Parquet nor Arrow"
        raise UsageError(f"{path} is {found}, not --format {wanted}", hint="leave out --format, or check the path")
    return kind


def refuse_text_options(format: ColumnarFormat, options: Mapping[str, object]) -> None:
    """Refuses options of delimited text.

    Raises:
        UsageError: one of them is given.
    """
    for option, value in options.items():
        if value not in (None, 0, ()):
            spelled = option.removesuffix("_text").replace("_", "-")
            raise UsageError(
                f"--{spelled} is for delimited text, and the source is {FORMAT_NAMES[format]}", hint="leave it out"
            )


def refuse_twice(names: Sequence[str], where: str) -> None:
    """Refuses a source with two fields of one name: which one is meant cannot be said.

    Raises:
        UsageError: there are two.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UsageError(f"{where} has two columns named {name}", hint="rename one of them")
        seen.add(name)


def pick_fields(names: Sequence[str], wanted: Sequence[str], columns: Sequence[str], where: str) -> list[str]:
    """The fields for `--columns`: those of these names; where the source has other names, all in their order.

    Args:
        names: the source's fields.
        wanted: what `--columns` says.
        columns: the table's columns that were found for it.

    Raises:
        UsageError: neither fits.
    """
    lower, known = {name.lower(): name for name in reversed(names)}, set(names)
    picked: list[str] = []
    missing: list[str] = []
    for given, column in zip(wanted, columns, strict=True):
        found = next((name for name in (given.strip(), fold_identifier(given), column) if name in known), None)
        found = found or lower.get(column.lower())
        if found is None:
            missing.append(given.strip())
        else:
            picked.append(found)
    if not missing:
        return picked
    if not picked and len(wanted) == len(names):
        return list(names)
    raise UsageError(
        f"--columns names {len(wanted)} columns; {where} has {len(names)}, and none named {missing[0]}",
        hint=f"name some of its columns ({', '.join(names)}), or one column of the table for each of them in order",
    )


def distinct_names(names: Sequence[str]) -> list[str]:
    """Names for columns where case tells none apart, one for each field: `A`, `a_2` for `A`, `a`, as a header's are.

    Args:
        names: the fields', each of them once.
    """
    known = {in_one_case(name) for name in names}
    seen: set[str] = set()
    distinct: list[str] = []
    for name in names:
        unique, count = name, 1
        # A field that has such a name itself keeps it.
        while in_one_case(unique) in (seen if count == 1 else known):
            count += 1
            unique = f"{name}_{count}"
        seen.add(in_one_case(unique))
        known.add(in_one_case(unique))
        distinct.append(unique)
    return distinct


def in_one_case(name: str) -> str:
    """A name as DuckDB compares them: of ASCII letters alone the case does not matter."""
    return name.encode().lower().decode()


def join_fields(described: Sequence[Sequence[Field]]) -> list[Field]:
    """The fields of the first source as they are in all of them, with types for a table that holds the values of all.

    Args:
        described: the fields of each source.
    """
    by_name: dict[str, list[Field]] = {field.name: [] for field in described[0]}
    for fields in described:
        for field in fields:
            if field.name in by_name:
                by_name[field.name].append(field)
    return [_join(same) for same in by_name.values()]


def _join(fields: Sequence[Field]) -> Field:
    return Field(
        name=fields[0].name,
        arrow_type=", ".join(dict.fromkeys(field.arrow_type for field in fields)),
        # What is NULL everywhere in one file has the type that it has in the others.
        sql_type=_common_type({field.sql_type for field in fields if field.arrow_type != "Null"} or {"text"}),
        nullable=any(field.nullable for field in fields),
        is_moment=any(field.is_moment for field in fields),
        only_moments=all(field.is_moment for field in fields),
    )


_INTEGER_DIGITS = {"smallint": 5, "integer": 10, "bigint": 19}
_DECIMAL = re.compile(r"numeric\((\d+),(\d+)\)")
_UNREAD = re.compile(r"\b(Float16|Decimal256)\b|\bDecimal\d+\(\d+, -|\bInterval\(DayTime\)")
# Of other decimals DuckDB's JSON has a zero before the point.
_BARE_FRACTION = re.compile(r"\bDecimal\d+\((1[6-9]|[23]\d), \1\)")
_WITH_PLACES = re.compile(r"\bDecimal\d+\(\d+, [1-9]")
PERIOD = "pandas.period"
"""The extension by which months and other periods are counted from 1970."""
_ENCODED = ("arrow.parquet.variant", "arrow.opaque", PERIOD)
_ENGINE_DIGITS = 38
"""The most digits of a decimal where an engine has a limit."""
_EXACT_IN_REAL = frozenset({"smallint", "real"})
_EXACT_IN_DOUBLE = frozenset({"smallint", "integer", "real", "double precision"})


def _common_type(types: Collection[str | None]) -> str | None:
    """The type that holds the values of all these types as they are, or None where there is none."""
    if len(types) == 1:
        return next(iter(types))
    known = {type_text for type_text in types if type_text is not None}
    if len(known) < len(types):
        return None
    if all(type_text.endswith("[]") for type_text in known):
        inner = _common_type({type_text.removesuffix("[]") for type_text in known})
        return None if inner is None else f"{inner}[]"
    if known <= _INTEGER_DIGITS.keys():
        return max(known, key=_INTEGER_DIGITS.__getitem__)
    if known <= _EXACT_IN_REAL:
        return "real"
    if known <= _EXACT_IN_DOUBLE:
        return "double precision"
    if known == {"date", "timestamp"}:
        return "timestamp"
    if "text" in known and "bytea" not in known:
        return "text"
    return _common_decimal(known)


def _common_decimal(types: Collection[str]) -> str | None:
    """The decimal that holds these integers and decimals, or None where there are other types."""
    whole = scale = 0
    for type_text in types:
        found = _DECIMAL.fullmatch(type_text)
        if found is None and type_text not in _INTEGER_DIGITS:
            return None
        digits, places = (int(found[1]), int(found[2])) if found else (_INTEGER_DIGITS[type_text], 0)
        whole, scale = max(whole, digits - places), max(scale, places)
    return f"numeric({whole + scale},{scale})"


def form_of(type_text: str) -> str:
    """How values are spelled where they go as text: the codec's `Form`."""
    if type_text.endswith("[]"):
        return "array"
    return {"bytea": "bytes", "blob": "bytes", "uuid": "uuid"}.get(type_text.lower(), "plain")


def new_table(
    name: TableName, fields: Sequence[Field], *, unbounded_numeric: bool, uneven_lists: bool, reads_arrow: bool
) -> TableDefinition:
    """The table that holds the rows of a columnar source.

    Args:
        name: the table's name.
        fields: the source's fields.
        unbounded_numeric: whether the engine has a `numeric` for any number of digits.
        uneven_lists: whether lists in a list may have different lengths.
        reads_arrow: whether the engine takes nested values from Arrow itself. Such a one tells no names apart by case.

    Raises:
        UsageError: there is no field, or one without a name or whose values no type holds.
    """
    if not fields:
        raise UsageError("--schema auto: the source has no columns", hint="check the source, or create the table")
    unnamed = next((number for number, field in enumerate(fields, start=1) if not field.name), None)
    if unnamed is not None:
        raise UsageError(
            f"--schema auto: column {unnamed} of the source has no name", hint="give it one where the source is made"
        )
    names = [field.name for field in fields]
    columns = []
    for field, column in zip(fields, distinct_names(names) if reads_arrow else names, strict=True):
        type_text = _type_of(field)
        digits = _DECIMAL.fullmatch(type_text)
        if not unbounded_numeric and digits and int(digits[1]) > _ENGINE_DIGITS:
            type_text = "text"
        if reads_arrow and type_text.endswith("[]") and not engine_reads(field.arrow_type):
            type_text = "json"
        if not uneven_lists and type_text.endswith("[][]"):
            type_text = "json"
        columns.append((column, type_text, not field.nullable))
    return plain_table(name, columns)


def _type_of(field: Field) -> str:
    refuse_encoded([field], {field.name}, "--schema auto")
    if field.sql_type is None:
        raise UsageError(
            f"no column type holds the values of {field.name} as they are: {field.arrow_type}",
            hint="create the table yourself, or leave the column out with --columns",
        )
    return field.sql_type


def refuse_encoded(fields: Sequence[Field], names: Collection[str], where: str) -> None:
    """Refuses fields whose values stand in a code that only the reader of their extension type knows.

    Args:
        fields: the source's fields.
        names: those that are loaded.
        where: the source.

    Raises:
        UsageError: there is one.
    """
    loaded = set(names)
    for field in fields:
        if field.name in loaded and any(code in field.arrow_type for code in _ENCODED):
            raise UsageError(
                f"{where}: the values of {field.name} are encoded ({field.arrow_type}), and cannot be read as they are",
                hint="cast the column to text where the source is made, or leave it out with --columns",
            )


def engine_reads(arrow_type: str) -> bool:
    """Whether an engine that takes Arrow's values as they are knows all types in this one: DuckDB lacks these."""
    return not _UNREAD.search(arrow_type)


def has_bare_fractions(arrow_type: str) -> bool:
    """Whether it has decimals that DuckDB writes into JSON as `.5`, which is none: all their digits are places."""
    return _BARE_FRACTION.search(arrow_type) is not None


def has_fractions(arrow_type: str) -> bool:
    """Whether it has decimals with places, which are written with a point."""
    return _WITH_PLACES.search(arrow_type) is not None


def casting_of(arrow_type: str, casting: Mapping[str, Any], *, takes_arrow: bool) -> dict[str, Any]:
    """The parts of a `casting` that concern values of an Arrow type. What is not used is not named, as in a plan.

    Args:
        arrow_type: the type.
        casting: what the engine makes of values for the column.
        takes_arrow: whether it takes them from Arrow itself: no map that has a key twice, and of `date64`, which counts
            milliseconds, the days only.
    """
    part = casting.get("part")
    of_part = {
        "day": ("Timestamp", "Date"),
        "time": ("Timestamp", "Date"),
        "whole": ("Float", "Decimal", "Utf8"),
        "truth": ("Int", "Float", "Decimal"),
    }
    concerned = {
        "part": of_part[part] if isinstance(part, str) else ("Struct", "Map"),
        "doubles": ("Float16", "Float32"),
        "without_zone": ("Timestamp",),
    }
    found = {name: what for name, what in casting.items() if any(word in arrow_type for word in concerned[name])}
    if takes_arrow and "Map(" in arrow_type:
        found["unique_keys"] = True
    if takes_arrow and arrow_type == "Date64":
        found["part"] = "day"
    return found


_TEXTS = re.compile(
    r"(?:(?:^|, )(?:Null|(?:Large)?Utf8(?:View)?|Dictionary\(U?Int\d+, (?:Large)?Utf8\)|RunEndEncoded\(.*Utf8\)))+"
)
_NUMBERS = frozenset({*_INTEGER_DIGITS, "real", "double precision"})
_SERVER_BITS = {
    "xid8": 64,
    **dict.fromkeys(("xid", "cid", "oid", "regclass", "regcollation", "regconfig", "regdictionary"), 32),
    **dict.fromkeys(("regnamespace", "regoper", "regoperator", "regproc", "regprocedure", "regrole", "regtype"), 32),
}
"""PostgreSQL's types without a sign: it reads -1 as their greatest number, and before 16 the beginning of a text."""


def server_casting_of(field: Field, column: str, type_text: str) -> dict[str, Any]:
    """The parts of a `casting` that have the core read numbers of which PostgreSQL would make others, unasked.

    Args:
        field: the field.
        column: its column's name, and `type_text` its type: only texts go into a `"char"`, of which numbers have the
            first digit.

    Raises:
        UsageError: values of the field are none of such a type.
    """
    bits = _SERVER_BITS.get(type_text)
    if (bits is None and type_text != '"char"') or _TEXTS.fullmatch(field.arrow_type):
        return {}
    kind = field.sql_type or ""
    if bits is not None and (kind in _NUMBERS or _DECIMAL.fullmatch(kind)):
        return {"read_as": {"integer": {"bits": bits, "signed": False}}}
    as_number = "" if bits is None else f" or to UInt{bits}"
    raise UsageError(
        f"the column {column} of type {type_text} cannot be loaded from {field.arrow_type}: the server would store "
        "something else, or refuse it",
        hint=f"cast it where the source is made: to text{as_number}",
    )


def refuse_floats(field: Field, column: str, type_text: str) -> None:
    """Refuses floats for a column whose engine casts none: the fewest digits that tell one from its neighbours, by
    which a float is written, are those of another number (2^56 is written as 72057594037927940).

    Args:
        field: the field.
        column: its column's name, and `type_text` its type.

    Raises:
        UsageError: values of the field are floats, or have some in them.
    """
    if "Float" in field.arrow_type:
        raise UsageError(
            f"the column {column} of type {type_text} cannot be loaded from {field.arrow_type}: the server casts no "
            "floats to it, and may store another number",
            hint="cast it where the source is made: to a decimal",
        )


def plan_of(
    format: ColumnarFormat, names: Sequence[str], type_texts: Sequence[str], exact: Collection[str]
) -> dict[str, Any]:
    """The core's `ColumnarPlan`: the fields of these names go into columns of these types.

    Args:
        exact: those of the types that keep nanoseconds.
    """
    fields = [_field_plan(name, text, keeps=text in exact) for name, text in zip(names, type_texts, strict=True)]
    return {"format": format, "fields": fields}


def _field_plan(name: str, type_text: str, *, keeps: bool) -> dict[str, Any]:
    """The core's `FieldPlan`: what is not used is not named, so that a job keeps its key."""
    plan: dict[str, Any] = {"name": name, "form": form_of(type_text)}
    if type_text.endswith("[]") and type_text.replace("[]", "") == "bytea":
        plan["items"] = "bytes"
    if keeps:
        plan["nanoseconds"] = True
    return plan
