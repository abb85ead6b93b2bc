"""Remedies for bad records of usual kinds, which the core cannot give, since it does not know the options."""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Callable, Collection, Container, Sequence

from tipple.engines.base import LOAD_OR_DEFAULT, Identity
from tipple.errors import BadRecord
from tipple.plan.notation import TWO_DIGITS
from tipple.plan.null_words import means_nothing
from tipple.plan.quotes import quoted, table_lacking_key
from tipple.plan.sniff_top import DASHES
from tipple.plan.sources import Dialect
from tipple.plan.url import TableName, quote_identifier
from tipple.run.control_characters import ends_as_in_dos, has_nul, holds_nothing_else
from tipple.run.fields import option_for
from tipple.run.header import columns_by_name
from tipple.run.remarks import MARK_REMEDY, leave_out_below_header
from tipple.run.sources import NUL_REMEDY, WITHOUT_NULS

__all__ = ["core_remedy", "first_remedy", "new_column", "seen_remedy"]

_BAD_VALUE = frozenset({"22P02", "22007"})
_TOO_FEW_FIELDS = "missing data"
"""What the core's reason has then."""
_TOO_MANY_FIELDS = "extra data"
_NUMBER_WITH_COMMAS = re.compile(r"\s*[-+]?\d[\d.,' ]*[.,]\d+\s*")
_BAD_DATE = ("22007", "22008")
_ISO_DATE = re.compile(r"\b\d{4}-\d\d?-\d\d?\b")
_SHORT_DATE = re.compile(r"\b\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\b")
_FIRST_RECORDS = 10
"""Among so many a record of another number of fields may be a title, or a remark."""


def first_remedy(
    error: BadRecord,
    dialect: Dialect,
    columns: Sequence[str],
    head_of: Callable[[str], Sequence[str]],
    *,
    header: bool,
    replay: bool,
    is_new: bool,
    lines_below_header: int | None = None,
) -> str:
    """What to try before anything else: of words that mean NULL, of headers that were not taken for one, and of lines
    above them; else nothing.

    Args:
        error: the complaint.
        dialect: what the sources were read in.
        columns: the names of the columns that were loaded.
        head_of: reads the first record of a source.
        header: whether a header was skipped, so that nothing can stand above it.
        replay: whether rejects are read, whose lines are all records: options that leave some out do not count.
        is_new: whether the table is made as the sources are.
        lines_below_header: the lines of a header and of a record below it that is most likely none, 0 where there is no
            such; None where nobody has looked.
    """
    text = error.text or ""
    if error.record_number == 1 and header and not replay and dialect.comment is None:
        # Without a sample, one field is all that is known of the record.
        may_be_ruled = lines_below_header is None and len(text.strip()) > 1 and DASHES.fullmatch(text) is not None
        lines = 2 if may_be_ruled and dialect.format != "fixed" else lines_below_header
        if lines:
            names: list[str | None] = list(columns)
            for index in dialect.left_out:
                names.insert(index, None)
            leave_out = leave_out_below_header(lines, dialect, names)
            is_null = may_be_ruled and means_nothing(text)
            return (
                f"if it is no record, but dashes, units or types below the header, {leave_out} leaves it out; "
                f"{f'if {text!r} stands for no value, --null {shlex.quote(text)} reads it as NULL; ' * is_null}or else "
            )
    if error.sqlstate in _BAD_VALUE and means_nothing(text):
        beside = "" if dialect.null_text else " (empty fields are then empty texts)"
        return f"if {text!r} stands for no value, --null {shlex.quote(text)} reads it as NULL{beside}; or else "
    if error.record_number == 1 and not header and not replay and _names_one(text, columns):
        return f"the first record looks like a header, {_of_header(head_of(error.file), columns, dialect)}; or else "
    is_date = error.sqlstate in _BAD_DATE and _is_date_in_some_order(text)
    if is_date and dialect.date_style is None and "--date-style" not in error.remedy:
        return "if day, month and year stand in another order, --date-style DMY, MDY or YMD says which; or else "
    if error.record_number == 1 and _TOO_MANY_FIELDS in error.reason and dialect.format != "fixed" and not replay:
        if is_new:
            leave_out = "--skip-lines 1 leaves it out of every file"
            return f"if it names the columns, --header yes skips it; if it is a title, {leave_out}; or else "
        return "if the sources have got a column that the table lacks, ALTER TABLE … ADD COLUMN gives it one; or else "
    above = error.record_number <= _FIRST_RECORDS and not header and not replay and not dialect.skip_lines
    if above and _TOO_FEW_FIELDS in error.reason:
        return "if it is a line above the header, --skip-lines leaves such lines out, or --comment; or else "
    return ""


def _is_date_in_some_order(text: str) -> bool:
    """Whether it holds a day, a month and a year, whichever is which: with hyphens a year that comes first is known."""
    found = _SHORT_DATE.search(text)
    if found is None or _ISO_DATE.search(text):
        return False
    one, two, three = map(int, re.findall(r"\d+", found[0]))
    for year, month, day in ((one, two, three), (three, two, one), (three, one, two)):
        try:
            datetime.date(year if year > 99 else year + 2000, month, day)
        except ValueError:
            continue
        return True
    return False


def _names_one(text: str, columns: Sequence[str]) -> bool:
    """Whether a field that was refused is the name of a column, or one that was mistyped."""
    from difflib import get_close_matches

    return bool(get_close_matches(text.strip().lower(), [column.lower() for column in columns], n=1, cutoff=0.75))


def _of_header(names: Sequence[str], columns: Sequence[str], dialect: Dialect) -> str:
    """What to do about a header that was read as a record; `names` are its fields, where they are known."""
    skip = "skip it by --header yes and say by --columns what the fields are"
    if not names:
        return f"if it is one, {skip}"
    if None in columns_by_name(names, columns):
        return f"but not all of its names are columns to load: correct them, or {skip}"
    # It goes by names as they are written, in upper and lower case.
    by_name = "--header match" if set(names) <= set(columns) else "--header yes, where its order is that of the columns"
    # Of other formats a header is not looked for.
    return f"and all of its names are columns: {'leave out --header no, or ' * (dialect.format == 'csv')}say {by_name}"


def new_column(table: TableName, name: str, header: Sequence[str], columns: Collection[str], *, csv: bool) -> str:
    """What to do where text has a field that the table has no column for.

    Args:
        table: the table.
        name: the field's.
        header: the names of all fields.
        columns: the names of the table's columns.
        csv: whether headers are looked for where nobody says that there is one.
    """
    named = columns_by_name(header, columns)
    known = [column for column in named if column is not None]
    [twin] = columns_by_name([name], columns)
    if twin is not None and len(set(known)) < len(known):
        exact = set(header)
        places = [
            column if (field == column if column in exact else column not in named[:place]) else None
            for place, (field, column) in enumerate(zip(header, named, strict=True))
        ]
        ways = f"say by their places which fields are loaded: {option_for(places, header='yes')}"
    else:
        # By itself a header is found in any case.
        alone = "leave out --header match, or " if csv and None not in named else ""
        ways = f"{alone}say {option_for(known)}"
    if twin is not None:
        differs = "upper and lower case" if twin.lower() == name.lower() else "the end, which the database cuts off"
        return f"it and the column {twin} differ in nothing but {differs}: {ways}"
    return (
        f"every field of a text file is loaded: for one that is new, ALTER TABLE {table.sql} ADD COLUMN "
        f"{quote_identifier(name)} …; for others correct the header"
        + (f"; or leave it out: {option_for(known)}" if known else "")
    )


_EMPTY_LINE = "the line is empty: "
"""What the core's reason begins with then."""
_SKIP = "--on-error skip --max-rejects 100"
"""What leaves a few bad records out; without a limit none would be."""


_NULL_IN = re.compile(r'null value in column "(.+)" of relation ')


def _names_none(reason: str, columns: Sequence[str]) -> bool:
    """Whether it is a NULL in none of these columns; of a domain's constraint that is not known."""
    null_in = _NULL_IN.match(reason)
    if null_in is not None:
        return null_in[1] not in columns
    # A column and its table, in the order that the server's language has.
    named = quoted(reason)[:2]
    return len(named) == 2 and not set(named).intersection(columns)


def seen_remedy(error: BadRecord, columns: Sequence[str], sources: Sequence[Identity], dialect: Dialect) -> str:
    """What to do about a bad record of text, where columns that were not loaded or the record's own bytes say more than
    the core does.

    Args:
        error: the core's complaint.
        columns: the names of the columns that were loaded.
        sources: what was read.
        dialect: how the records are written.
    """
    if error.sqlstate == "23502" and _names_none(error.reason, columns):
        return LOAD_OR_DEFAULT
    if error.reason.startswith(_EMPTY_LINE):
        return f"remove the empty line, or leave out such records, up to 100, by {_SKIP}"
    if ends_as_in_dos(error, sources):
        return (
            r"the last byte of the file, \x1a, is what programs of DOS write at the end, and no text: "
            f"head -c -1 {shlex.quote(error.file)} > NEW leaves it out"
        )
    if (error.text or "").startswith("\ufeff"):
        return f"files were put together, each with its byte order mark: {MARK_REMEDY}"
    if has_nul(error, sources) and dialect.format == "fixed":
        return r"tr '\000' ' ' < FILE > NEW puts spaces in the place of NUL bytes, which no target stores"
    if has_nul(error, sources):
        return NUL_REMEDY if error.text == r"\x00" else WITHOUT_NULS
    if holds_nothing_else(error, sources):
        return (
            "remove the record, which holds nothing but control characters, or leave out such records, up to 100, by "
            f"{_SKIP}"
        )
    return error.remedy


_NESTED = re.compile(r'invalid input syntax for type ((STRUCT|MAP)\(.*\)|[^"]*\[(\d*)\]): "', re.IGNORECASE)
"""What is said of a value that DuckDB alone reads."""


def _nested_remedy(reason: str) -> str | None:
    """How DuckDB writes a value that is made of others."""
    found = _NESTED.match(reason)
    if found is None:
        return None
    match (found[2] or "").upper():
        case "STRUCT":
            return "write it as DuckDB does, with the names of its fields: {'a': 1, 'b': 'x'}"
        case "MAP":
            return "write it as DuckDB does: {key=value, …}"
    elements = f", with {found[3]} elements" if found[3] else ""
    return f"write it as DuckDB does{elements}: [1, 2, …]"


def core_remedy(
    error: BadRecord,
    dialect: Dialect,
    table: str,
    *,
    made_key: Sequence[str] = (),
    beside: Container[str] = frozenset(),
) -> str:
    """What the core advises; it speaks of delimiters, which fields of fixed widths do not have, of constraints to be
    dropped, which --structure btree is yet to make: `made_key` are the columns of that one; and of referenced tables,
    which may be the loaded `table` itself, or among those `beside` that the same job loads.
    """
    lacking = table_lacking_key(error.reason) if error.sqlstate == "23503" else None
    if lacking == table:
        # DuckDB finds none that come in the same load.
        return f"mend the record, or load the row of {table} that it refers to beforehand"
    if lacking is not None and lacking in beside:
        return (
            f"mend the record, or bring the row that it refers to: the same job loads {lacking}, where no row has "
            "that key; if that table is loaded later, say so by `after`"
        )
    if error.sqlstate == "23505" and made_key and f"({', '.join(made_key)})=" in error.reason:
        otherwise = "choose another --key, or leave out --structure; --on-error skip makes a reject of it"
        return f"remove the duplicate, or {otherwise}"
    if dialect.format == "fixed" and any(sign in error.reason for sign in (_TOO_FEW_FIELDS, _TOO_MANY_FIELDS)):
        return "check --field-widths, or mend the record"
    if dialect.date_style is not None and "--date-style" in error.remedy and TWO_DIGITS not in error.reason:
        return f"mend the value: it is none in the order {dialect.date_style} (--date-style)"
    nested = _nested_remedy(error.reason)
    if nested is not None:
        return nested
    if error.sqlstate == "22P02" and _NUMBER_WITH_COMMAS.fullmatch(error.text or ""):
        if not dialect.has_plain_numbers:
            return f"{error.remedy}: its separators are others than --decimal-separator and --thousands say"
        if "," in (error.text or ""):
            return (
                f"{error.remedy}; or --decimal-separator , reads a comma before the fraction, and --thousands , leaves "
                "out those between thousands"
            )
    return error.remedy
