"""Which fields of columnar sources, which have names and types, go into which columns of the table."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tipple.engines.base import TableColumn, for_batches
from tipple.errors import UsageError
from tipple.plan.columnar import (
    Field,
    casting_of,
    engine_reads,
    has_bare_fractions,
    has_fractions,
    in_one_case,
    pick_fields,
    plan_of,
    refuse_encoded,
    refuse_floats,
    server_casting_of,
)
from tipple.plan.notation import refuse_numbers
from tipple.plan.path_columns import wanted_of_paths
from tipple.plan.url import fold_identifier
from tipple.run.columnar import Columnar
from tipple.run.fields import left_out_of, named_columns

__all__ = ["ColumnarFields", "choose_columnar", "remedy_for_twins", "wanted_fields"]


class ColumnarFields(msgspec.Struct, frozen=True, kw_only=True):
    """What is loaded of columnar sources."""

    plan: dict[str, Any]
    """The core's `ColumnarPlan`."""
    columns: list[TableColumn]
    """As the fields are loaded into them."""
    text_columns: list[TableColumn]
    """As text is loaded into them."""
    in_paths: list[str]
    """The fields that directories' names hold."""
    notes: list[str]


def wanted_fields(fields: Sequence[Field], wanted: Sequence[str] | None) -> Sequence[Field]:
    """The fields that a table gets which is made for them: those that `--columns` names, if all are there."""
    if wanted is None:
        return fields
    by_name = {field.name: field for field in fields}
    folded = {field.name.lower(): field for field in reversed(fields)}
    found = [
        by_name.get(name.strip()) or by_name.get(fold_identifier(name.strip())) or folded.get(name.strip().lower())
        for name in wanted
    ]
    named = {field.name for field in found if field is not None}
    return [field for field in fields if field.name in named] if None not in found else fields


def remedy_for_twins(names: Sequence[str]) -> str | None:
    """What to do where two fields have names that differ in nothing but upper and lower case; None where none do."""
    by_lower: dict[str, str] = {}
    for name in names:
        other = by_lower.setdefault(name.lower(), name)
        if other != name:
            kept = ",".join(one for one in names if one != other)
            return (
                f"the source's columns {other} and {name} differ in upper and lower case only: leave one out, such as "
                f"{other} by --columns {shlex.quote(kept)}, or rename it where the source is made; a table that "
                f"--schema auto makes has a column {name}_2 for it"
            )
    return None


def choose_columnar(
    columnar: Columnar,
    loadable: Mapping[str, TableColumn],
    all_names: set[str],
    wanted: Sequence[str] | None,
    path: str,
    *,
    takes_arrow: bool,
) -> ColumnarFields:
    """The columns for the fields.

    Args:
        columnar: the sources.
        loadable: the table's columns that values can be loaded into.
        all_names: those of all of its columns.
        wanted: what `--columns` says.
        path: the first source.
        takes_arrow: whether the engine takes Arrow batches.

    Raises:
        UsageError: names or types do not fit.
    """
    in_paths = wanted_of_paths(columnar.in_paths, loadable, wanted)
    fields = [*columnar.fields, *in_paths]
    names = [field.name for field in fields]
    twins = _columns_of_twins(names, loadable, wanted) if takes_arrow else None
    if twins is not None:
        names, chosen = list(twins), list(twins.values())
    elif wanted is not None:
        if left_out_of(wanted) and "-" not in loadable:
            raise UsageError(
                "--columns names fields of Parquet and Arrow sources, and - is none",
                hint="name the fields to load; the others are left out",
            )
        chosen = named_columns(wanted, loadable, all_names, "--columns")
        names = pick_fields(names, wanted, [column.name for column in chosen], path)
    else:
        try:
            chosen = named_columns(names, loadable, all_names, path)
        except UsageError as error:
            hint = f"{error.hint}; to load some of the source's columns, or in another order: --columns a,b"
            hint = remedy_for_twins([name for name in names if name.lower() in map(str.lower, loadable)]) or hint
            if any(name.startswith("__index_level_") for name in names):
                hint = "pandas hands its index out as a column: frame.reset_index(drop=True) leaves it out"
            raise UsageError(str(error), hint=hint) from None
    refuse_encoded(fields, names, path)
    plan = plan_of(
        columnar.format,
        names,
        [column.type_text for column in chosen],
        {column.type_text for column in chosen if column.nanoseconds},
    )
    types = {field.name: field.arrow_type for field in fields}
    by_name = {field.name: field for field in fields}
    for field, column in zip(plan["fields"], chosen, strict=True):
        if _taken(column, by_name[field["name"]], takes_arrow=takes_arrow).codec_type == "opaque":
            field |= casting_of(types[field["name"]], column.casting, takes_arrow=takes_arrow)
        if column.codec_type == "opaque" and not takes_arrow:
            field |= server_casting_of(by_name[field["name"]], column.name, column.type_text)
        if column.refuses_floats:
            refuse_floats(by_name[field["name"]], column.name, column.type_text)
        if column.misreading is not None and has_fractions(types[field["name"]]):
            refuse_numbers(column.name, column.type_text, types[field["name"]], column.misreading)
    moments = {field.name for field in fields if field.is_moment}
    notes = [
        f"{name} holds moments: the column without time zone stores their UTC time"
        for name, column in zip(names, chosen, strict=True)
        if name in moments and _stores_clock(column)
    ]
    if columnar.unfinished:
        more = f" and {len(columnar.unfinished) - 1} more files" if len(columnar.unfinished) > 1 else ""
        notes.append(
            f"{columnar.unfinished[0]}{more}: the Arrow stream has no mark of its end, as writers leave it that are cut"
            " off: rows may be missing there"
        )
    taken = [_taken(column, by_name[name], takes_arrow=takes_arrow) for name, column in zip(names, chosen, strict=True)]
    if takes_arrow:
        taken = [_by_text(types[name], *both) for name, *both in zip(names, chosen, taken, strict=True)]
    return ColumnarFields(
        plan=plan, columns=taken, text_columns=chosen, in_paths=[field.name for field in in_paths], notes=notes
    )


_READ_FROM_THEIR_OWN: dict[str, Any] = {"uuid": "uuid", "bytea": "bytea", "time": {"time": {"precision": 6}}}
"""Types, and what the core calls them, whose values it takes from fields of the same type. Of others, and where times
are rounded, the server has the last word."""


def _taken(column: TableColumn, field: Field, *, takes_arrow: bool) -> TableColumn:
    """The column as values of the field are loaded into it."""
    if takes_arrow:
        return for_batches(column)
    # What has no zone means another moment in each session, and only the server knows in this one.
    is_moment = field.only_moments and _is_of(column, "timestamptz")
    own = next((name for name, codec_type in _READ_FROM_THEIR_OWN.items() if column.codec_type == codec_type), None)
    # A text is a UUID for certain or not at all.
    is_own = own is not None and (field.sql_type == own or (own, field.sql_type) == ("uuid", "text"))
    return column if is_moment or is_own else for_batches(column)


def _is_of(column: TableColumn, kind: str) -> bool:
    return isinstance(column.codec_type, dict) and kind in column.codec_type


def _stores_clock(column: TableColumn) -> bool:
    by_engine = column.without_zone and "TIMESTAMP" in column.type_text
    return by_engine or _is_of(column, "timestamp")


def _columns_of_twins(
    names: Sequence[str], loadable: Mapping[str, TableColumn], wanted: Sequence[str] | None
) -> dict[str, TableColumn] | None:
    """The columns of fields of which some differ in case only, in a table that was made for them.

    None where none do, or the table is not such a one. The order of the fields is that of one source only, so each is
    found by its name: `a` is in `a`, or else in `a_2`, and never in `A`.
    """
    known = [in_one_case(name) for name in names]
    if len(set(known)) == len(known):
        return None
    in_table = {in_one_case(column): column for column in loadable}
    found: dict[str, str] = {}
    for name in names:
        numbered = [
            column
            for column in loadable
            if re.fullmatch("_[0-9]+", column[len(name) :])
            and column.startswith(name)
            and in_one_case(column) not in known
        ]
        if name in loadable:
            found[name] = name
        elif known.count(in_one_case(name)) == 1 and in_one_case(name) in in_table:
            found[name] = in_table[in_one_case(name)]
        elif len(numbered) == 1:
            found[name] = numbered[0]
    # `--columns` may name the columns, too.
    fields = {column: name for name, column in found.items()}
    taken = names if wanted is None else [fields.get(name.strip(), name.strip()) for name in wanted]
    if len(set(taken)) < len(taken) or not found.keys() >= set(taken):
        return None
    return {name: loadable[found[name]] for name in taken}


_NAMES_AND_LABELS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
_JSON_WITHIN = re.compile(r"\bJSON(?=[\[,)]|$)")


def _by_text(arrow_type: str, column: TableColumn, taken: TableColumn) -> TableColumn:
    """Where the engine would cast what it cannot read from Arrow: JSON takes the text, and nothing else does."""
    # Integers are read by the core.
    is_read = isinstance(column.codec_type, dict) and "integer" in column.codec_type
    if taken.codec_type != "opaque" or is_read:
        return taken
    is_json = has_bare_fractions(arrow_type) and _JSON_WITHIN.search(_NAMES_AND_LABELS.sub("", column.type_text))
    if is_json and column.codec_type != "json":
        raise UsageError(
            f"the column {column.name} of type {column.type_text} cannot be loaded from {arrow_type}: DuckDB writes "
            "decimals that have no digit before the point into JSON as no JSON has them",
            hint="cast them where the source is made: to a decimal of one digit more and as many places, or to text",
        )
    if not is_json and engine_reads(arrow_type):
        return taken
    if isinstance(column.codec_type, dict) and "interval" in column.codec_type:
        return column
    if column.codec_type == "json":
        return msgspec.structs.replace(column, codec_type="text")
    raise UsageError(
        f"the column {column.name} of type {column.type_text} cannot be loaded from {arrow_type}, which the engine "
        "does not read",
        hint="load it into a column of type JSON or VARCHAR, or cast it where the source is made: to Float32, or "
        "to a Decimal128 without a negative scale",
    )
