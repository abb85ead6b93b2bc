"""Periods of pandas within dictionaries, as in a categorical of months: their Arrow stream has mere numbers there.

A column of periods has an extension's name, by which the core knows that its values are a code. What a dictionary's
values have is lost on the way, so the library that made them is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tipple.plan.columnar import PERIOD, Field

__all__ = ["is_of_pandas", "with_periods"]


def with_periods(fields: Sequence[Field], source: Any) -> list[Field]:
    """The fields of a stream that `source` gives, those with periods told as encoded."""
    types = _types_in(source)
    if len(types) < len(fields):
        return list(fields)
    return [
        msgspec.structs.replace(field, arrow_type=f"{field.arrow_type} of {PERIOD}", sql_type=None)
        if PERIOD not in field.arrow_type and _has_periods(kind)
        else field
        for field, kind in zip(fields, types, strict=False)
    ]


def is_of_pandas(source: Any) -> bool:
    """Whether it is a frame of pandas, or of a library that derives its own from it."""
    bases = type(source).__mro__
    return any(base.__name__ == "DataFrame" and base.__module__.partition(".")[0] == "pandas" for base in bases)


def _types_in(source: Any) -> list[Any]:
    """The types of the columns as their library has them, in the order of the fields; none where it has no periods."""
    if type(source).__module__.partition(".")[0] == "pyarrow":
        schema = getattr(source, "schema", None)
        return [] if schema is None else list(schema.types)
    if not is_of_pandas(source):
        return []
    # Behind the columns is the index.
    index = source.index
    return [*source.dtypes, *(level.dtype for level in getattr(index, "levels", [index]))]


def _has_periods(kind: Any) -> bool:
    """Whether a type of pandas or pyarrow is one of periods, or has one in it."""
    if type(kind).__name__ == "PeriodDtype" or getattr(kind, "extension_name", None) == PERIOD:
        return True
    categories = getattr(kind, "categories", None)
    if categories is not None:
        return _has_periods(categories.dtype)
    for inner in ("pyarrow_dtype", "value_type"):
        if hasattr(kind, inner):
            return _has_periods(getattr(kind, inner))
    return any(_has_periods(kind.field(place).type) for place in range(getattr(kind, "num_fields", 0)))
