"""Columnar sources of a load: recognised, and asked for their fields before anything is planned."""

from __future__ import annotations

import importlib
import json
import os
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tipple import _core
from tipple.engines import core
from tipple.engines.base import STDIN, Identity
from tipple.engines.inside import read_for
from tipple.errors import UsageError, shorten_text
from tipple.plan.columnar import (
    ARROW_STREAM_START,
    ColumnarFormat,
    Field,
    common_format,
    format_of,
    in_one_case,
    join_fields,
    refuse_twice,
)
from tipple.plan.path_columns import fields_in_paths, values_in_path
from tipple.run.arguments import plain_path, refuse_set
from tipple.run.periods import is_of_pandas, with_periods
from tipple.run.sources import PIPED_REMEDY, readable_file

HEAD_BYTES = 16
_TAIL_BYTES = 16_384
"""So much of an Arrow stream's end may be zeros behind its mark, as what is left of a page."""


class Columnar(msgspec.Struct, kw_only=True):
    """What a load's columnar sources are."""

    format: ColumnarFormat
    fields: list[Field] = []
    """Those of the first source, with the types that they have in all; every other one has the same names."""
    unfinished: list[str] = []
    """The Arrow streams in files that have no mark of their end."""
    in_paths: list[Field] = []
    """Those that the names of all sources' directories have."""
    stream: _core.ArrowStream | None = None
    """The stream, where the source is one in memory."""
    again: Callable[[], _core.ArrowStream] | None = None
    """Gives another stream of the same rows, where the source is a table and no reader."""

    @property
    def names(self) -> list[str]:
        """The fields' names."""
        return [field.name for field in self.fields]

    def close(self) -> None:
        """Lets go of a stream in memory, so that whoever keeps an error, and with it all that led to it, keeps no
        query of a DuckDB connection open."""
        if self.stream is not None:
            self.stream.close()
            self.stream = None


def is_stream(sources: object) -> bool:
    """Whether `sources` is not a name but an object with rows (Arrow PyCapsule interface)."""
    try:
        return hasattr(sources, "__arrow_c_stream__")
    except Exception:
        # It has one that fails: `open_stream` says by what.
        return True


def paths_of(sources: Any) -> list[str]:
    """The paths in `sources`, which are no stream.

    Raises:
        UsageError: they are no paths, or there are none, or they are a set: which was last is what counts of rows with
            one key, and the same command is known by their order.
    """
    if isinstance(sources, (str, os.PathLike)):
        return [plain_path(sources)]
    refuse_set("the sources", sources)
    # An open file would give its lines for names, and a dictionary of columns theirs.
    found: list[Any] = [None] if hasattr(sources, "read") or isinstance(sources, Mapping) else _until_no_path(sources)
    if not found:
        raise UsageError("there are no sources", hint="name files, patterns or directories, or - for standard input")
    if _is_path(found[-1]):
        return [plain_path(source) for source in found]
    hint = "give paths, or an object with __arrow_c_stream__: a table, a frame, a reader; collect() a lazy frame"
    if hasattr(type(found[-1]), "__arrow_c_array__"):
        hint = "make a reader of the batches: pyarrow.RecordBatchReader.from_batches(schema, batches)"
    raise UsageError(
        f"the sources are {type(sources).__module__.partition('.')[0]} {type(sources).__qualname__}: "
        "neither paths nor an Arrow stream",
        hint=hint,
    )


def _is_path(source: object) -> bool:
    return isinstance(source, (str, os.PathLike))


def _until_no_path(sources: Any) -> list[Any]:
    """What is in `sources`, up to the first that is no path: a generator of rows is not to run on for nothing."""
    found: list[Any] = []
    try:
        given = iter(sources)
    except TypeError:
        return [None]
    try:
        for source in given:
            found.append(source)
            if not _is_path(source):
                break
    except TypeError:
        # The error of a generator is its caller's. A lazy frame has elements, but gives none.
        if hasattr(type(sources), "__iter__"):
            raise
        return [None]
    return found


def open_stream(source: Any, format: str) -> tuple[Columnar, Identity]:
    """A stream in memory and what stands for a file's identity: it is never the same twice.

    Raises:
        UsageError: the object does not give a stream, or another format was named.
    """
    if format not in ("auto", "arrow"):
        raise UsageError(
            f"format={format!r} is for files, and the rows are an Arrow stream in memory", hint="leave format out"
        )
    kind = type(source)
    label = f"<{kind.__module__.partition('.')[0]} {kind.__qualname__} {uuid.uuid4().hex[:8]}>"
    try:
        # A closed DuckDB relation has not even a name for its columns.
        is_frame = hasattr(source, "columns")
    except Exception as error:
        raise UsageError(f"{label} gives no Arrow stream of rows: {error}", hint="open it again") from error
    # A reader may give its rows away twice without a word, half of them to each. A relation has a length too, but is a
    # query: it may have other rows, and its connection gives no second stream beside the first.
    is_table = hasattr(kind, "__len__") and not _is_relation(source)
    columnar = Columnar(format="memory", again=(lambda: _core.ArrowStream(source)) if is_table else None)
    try:
        columnar.stream = _core.ArrowStream(_watched(source))
        columnar.fields = join_fields([msgspec.json.decode(columnar.stream.fields(), type=list[Field])])
    except Exception as error:
        columnar.close()
        said, hint = _complaint(error, source, is_frame=is_frame)
        raise UsageError(f"{label} gives no Arrow stream of rows: {said}", hint=hint) from error
    columnar.fields = with_periods(columnar.fields, source)
    try:
        refuse_twice(columnar.names, label)
        _refuse_objects(source, label)
        _refuse_unlike(source, label)
        _refuse_hidden_index(source, label)
    except BaseException:
        columnar.close()
        raise
    return columnar, Identity(path=label, size=0, mtime_ns=0, content=uuid.uuid4().hex)


_WIDE = ("_pli128", "_plu128")
"""polars' own codes of integers (Int128, UInt128)."""


def _complaint(error: Exception, source: Any, *, is_frame: bool) -> tuple[str, str]:
    """Why `source` gives no stream, and what to do."""
    if isinstance(error, UnicodeEncodeError):
        return _lone_surrogate(error.object, source)
    said = "; ".join(map(str, error.args)) or type(error).__name__
    if any(code in said for code in _WIDE):
        return "it has integers of 128 bits, of which Arrow has none", (
            "cast them, to a decimal if they have at most 38 digits, else to text: pl.col(…).cast(pl.Decimal(38, 0)), "
            "or .cast(pl.String)"
        )
    if "unfinished result" in said or "open result" in said:
        # A DuckDB relation on a connection with another one's rows, fetched or handed out as a stream.
        return said, "fetch those rows first, or take these from a connection of their own: connection.cursor().sql(…)"
    if is_frame:
        return said, "give each column a name of its own, and values of one type that Arrow has: astype(str), cast(…)"
    return said, "give rows with named columns: a table, a frame or a record batch reader, not a single column"


def _lone_surrogate(text: str, source: Any) -> tuple[str, str]:
    """What to say of a text that no UTF-8 can hold, and what to do."""
    where, hint = "", "replace it in the texts: text.encode('utf-8', 'replace').decode()"
    # Of pandas' frames alone: no other library keeps such texts.
    for name, column in source.items() if is_of_pandas(source) else ():
        if name == text:
            where, hint = "the name of a column: ", "give the column another name"
            break
        # Numbers have none.
        values = column if column.dtype.kind == "O" else ()
        record = next((n for n, value in enumerate(values, 1) if isinstance(value, str) and value == text), None)
        if record is not None:
            where = f"column {name}, record {record:,}: "
            hint = f"replace it: frame[{name!r}].str.encode('utf-8', 'replace').str.decode('utf-8')"
            break
    return f"{where}the text {shorten_text(repr(text))} has a lone surrogate, which UTF-8 cannot hold", hint


def _watched(source: Any) -> Any:
    """A reader of pyarrow's that ends with an error where a batch is of other types than it has said itself.

    The C stream has one schema for all: whoever reads it takes the bytes of another type for values. A load that a
    batch's making calls is known as called from inside this one.
    """
    if type(source).__module__.partition(".")[0] != "pyarrow" or not hasattr(source, "read_next_batch"):
        return source
    readers: Any = importlib.import_module("pyarrow").RecordBatchReader
    schema, thread = source.schema, threading.get_ident()

    def batches() -> Iterator[Any]:
        for number, batch in enumerate(read_for(thread, source), 1):
            if batch.schema.names != schema.names or batch.schema.types != schema.types:
                unlike = [
                    f"{given.name} {given.type} in place of {said.name} {said.type}"
                    for given, said in zip(batch.schema, schema, strict=False)
                    if (given.name, given.type) != (said.name, said.type)
                ]
                why = "; ".join(unlike) or f"{len(batch.schema)} columns in place of {len(schema)}"
                raise ValueError(f"its batch {number} is not as the reader's schema says: {why}")
            yield batch

    return readers.from_batches(schema, batches())


def _refuse_objects(source: Any, label: str) -> None:
    """Refuses what polars hands out as eight bytes: where a Python object lies in memory.

    Raises:
        UsageError: there is such a column.
    """
    schema = getattr(source, "schema", None)
    for name, kind in schema.items() if isinstance(schema, Mapping) else ():
        if str(kind) == "Object":
            raise UsageError(
                f"{label}: the column {name} holds Python objects, which only this process can read",
                hint="turn them into values first (map_elements with a return_dtype), or drop the column",
            )


def _is_relation(source: Any) -> bool:
    """Whether it is a query of DuckDB's."""
    return type(source).__name__ == "DuckDBPyRelation"


_HANDED_OUT_UNLIKE = frozenset({"bit", "time with time zone", "uhugeint", "bignum", "variant"})
"""Types of DuckDB of which its Arrow streams have the inner code, no zone, or numbers that turn negative."""


def _refuse_unlike(source: Any, label: str) -> None:
    """Refuses what a DuckDB relation hands out as other values than it has, so that nothing in the stream tells.

    Raises:
        UsageError: there is such a column.
    """
    if not _is_relation(source):
        return
    for name, kind in zip(source.columns, source.types, strict=True):
        unlike = _unlike(kind)
        if unlike is not None:
            raise UsageError(
                f"{label}: the column {name} of type {kind} does not keep its values in an Arrow stream of DuckDB",
                hint=f"hand {unlike.upper()} out as text: CAST(… AS VARCHAR)",
            )


def _unlike(kind: Any) -> str | None:
    """The type in this one, or this one itself, that DuckDB hands out as other values."""
    if kind.id in _HANDED_OUT_UNLIKE:
        return str(kind.id)
    if kind.id not in ("list", "array", "struct", "map"):
        return None
    # An array has its length beside its child.
    parts = [_unlike(child) for _, child in kind.children if isinstance(child, type(kind))]
    return next((part for part in parts if part is not None), None)


def _refuse_hidden_index(source: Any, label: str) -> None:
    """Refuses an index of pandas that has a name but is a mere range: it is described in the stream's metadata only.

    Raises:
        UsageError: there is one.
    """
    index: Any = getattr(source, "index", None)
    if type(index).__name__ == "RangeIndex" and index.name is not None:
        raise UsageError(
            f"{label}: pandas does not hand out the values of the index {index.name!r}, which is a RangeIndex",
            hint="frame.reset_index() makes it a column, frame.reset_index(drop=True) leaves it out",
        )


def recognise(paths: Sequence[str], format: str) -> Columnar | None:
    """The columnar format of files, or None where they are delimited text.

    Raises:
        TippleError: a file cannot be read.
        UsageError: files of different formats, or not in the format that was named.
    """
    if format not in ("auto", "parquet", "arrow"):
        return None
    if format != "auto" and STDIN in paths:
        # Their records are found by what stands at a file's end, and streams may read it several times.
        raise UsageError(f"--format {format} is for files, and not for standard input", hint=PIPED_REMEDY)
    found = common_format({path: format_of(path, _head(path)) for path in paths}, format)
    return None if found is None else Columnar(format=found)


def _head(path: str) -> bytes:
    if not os.path.isfile(path):
        return b""
    with readable_file(path), open(path, "rb") as file:
        return file.read(HEAD_BYTES)


def read_fields(columnar: Columnar, sources: Sequence[Identity], *, all_needed: bool) -> None:
    """Asks the files for their fields.

    Args:
        all_needed: whether all fields are loaded, so that every file must have the same.

    Raises:
        TippleError: a file cannot be read.
        UsageError: files have different columns.
    """
    plan = {
        "sources": [{"path": s.path, "size": s.size, "mtime_ns": s.mtime_ns} for s in sources],
        **core.TEXT_PLAN,
        "columnar": columnar.format,
    }
    try:
        described = msgspec.json.decode(_core.describe_columnar(json.dumps(plan)), type=list[list[Field]])
    except _core.CoreError as error:
        raise core.core_error(error) from None
    columnar.fields = join_fields(described)
    if columnar.format == "arrow":
        columnar.unfinished = [source.path for source in sources if _lacks_end(source.path)]
    columnar.in_paths = fields_in_paths([source.path for source in sources], columnar.names)
    for source, fields in zip(sources, described, strict=True):
        names = [field.name for field in fields]
        refuse_twice(names, source.path)
        if all_needed and set(names) != set(columnar.names):
            different = sorted(set(names) ^ set(columnar.names))
            # Fields of one file are found in the next one by their names as they are, by `--columns` too.
            in_case_only = set(map(in_one_case, names)) == set(map(in_one_case, columnar.names))
            raise UsageError(
                f"{source.path} has other columns than {sources[0].path}: {', '.join(different)}",
                hint="their names differ in upper and lower case: load files of each spelling by a command of their own"
                if in_case_only
                else "load them by commands of their own, or name the columns that all have by --columns",
            )


def _lacks_end(path: str) -> bool:
    """Whether a file is an Arrow stream without the mark of its end, which writers need not write ("IPC Streaming
    Format"), but do unless they are cut off: it begins as messages do, and has no length.
    """
    with readable_file(path), open(path, "rb") as file:
        if file.read(len(ARROW_STREAM_START)) != ARROW_STREAM_START:
            return False
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        tail = file.read().rstrip(b"\0")
    return bool(tail) and not tail.endswith(ARROW_STREAM_START)


def take_from_paths(source: Identity, names: Collection[str]) -> Identity:
    """A source of which the values of these fields are read from the names of its directories."""
    values = values_in_path(source.path)
    return msgspec.structs.replace(source, path_columns=tuple((name, values[name]) for name in names))
