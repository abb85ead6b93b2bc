"""What a sample shows of sources beside their dialect: records that may be none, byte order marks within a file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from tipple.plan.null_words import means_nothing
from tipple.plan.sniff_escapes import occurs
from tipple.plan.sniff_names import clean_names
from tipple.plan.sniff_profile import Chunk
from tipple.plan.sniff_top import Top
from tipple.plan.sources import Dialect
from tipple.run.fields import option_for
from tipple.run.header import listed

__all__ = ["MARK_REMEDY", "leave_out_below_header", "marked_inside", "note_of_marks", "note_of_top"]

_MARK = b"\xef\xbb\xbf"
_MARK_IN_FILE = re.compile(rb"[\r\n]" + _MARK)
MARK_REMEDY = r"sed 's/^\xef\xbb\xbf//' FILE > NEW takes byte order marks out of a file in UTF-8"
_MOST_NAMES = 30
"""Of more columns, nobody wants to paste the names."""
_SHOWN_COLUMNS = 8


def marked_inside(paths: Sequence[str], chunks: Iterable[Chunk]) -> list[str]:
    """The files that have a byte order mark at the beginning of a line other than the first."""
    # Most have none, and patterns take a while to find that out.
    marked = {chunk.file for chunk in chunks if occurs(_MARK, [chunk.data]) and _MARK_IN_FILE.search(chunk.data)}
    return [paths[number] for number in sorted(marked)]


def note_of_marks(paths: Sequence[str]) -> str:
    """What to say of such files."""
    more = f" and {len(paths) - 1} more files" if len(paths) > 1 else ""
    return (
        f"lines within {paths[0]}{more} begin with a byte order mark, as where files were put together: the marks are "
        f"read as part of the values; {MARK_REMEDY}"
    )


def leave_out_below_header(lines: int, dialect: Dialect, names: Sequence[str | None]) -> str:
    """The options that leave out a header and what stands below it, and say what the fields are.

    Args:
        lines: of both.
        dialect: what the sources are read in.
        names: of the fields; None for one that is left out.
    """
    skip = f"--skip-lines {dialect.skip_lines + lines}"
    if len(names) > _MOST_NAMES:
        return f"{skip} --header no, and the names of all fields in --columns,"
    return f"{skip} {option_for(names, header='no')}"


def note_of_top(top: Top, dialect: Dialect, names: Sequence[str | None], *, header: bool, is_new: bool) -> str | None:
    """What to say of records at the top that may be none; None where nothing is.

    Args:
        top: these.
        dialect: what the sources are read in.
        names: the columns of the fields; None for one that is left out.
        header: whether the first record is skipped as one.
        is_new: whether the table is made as the sources are.
    """
    odd = [name for index in top.columns if index < len(names) and (name := names[index]) is not None]
    more = f", and {len(odd) - _SHOWN_COLUMNS} more" if len(odd) > _SHOWN_COLUMNS else ""
    alone = f"alone has texts in {', '.join(odd[:_SHOWN_COLUMNS])}{more}, where all others have values of a type"
    if top.records == 1:
        if header or not is_new or not odd:
            return None
        word = next((top.texts[index] for index in top.columns if means_nothing(top.texts[index])), None)
        means = (
            f"; if {word!r} stands for no value, give the columns types by --schema FILE.sql, and say --null "
            f"{shlex.quote(word)}"
            if word is not None
            else ""
        )
        return f"the first record ({listed(top.texts)}) {alone}: if it names the columns, --header yes skips it{means}"
    said = ["is a line of dashes"] * top.is_ruled + [alone] * bool(odd)
    if not said:
        return None
    if is_new and not header:
        names = [made if name is not None else None for made, name in zip(clean_names(top.names), names, strict=False)]
    remedy = "leave it out of the files"
    if dialect.comment is None:
        remedy = f"{leave_out_below_header(top.lines, dialect, names)} leaves it out"
    where = "the record below the header" if header else "the second record"
    what = "" if top.is_ruled else "if it is none, but dashes, units or types of columns, "
    return f"{where} ({listed(top.texts)}) {', and '.join(said)}: {what}{remedy}"
