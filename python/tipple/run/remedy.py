"""Remedies for bad records of usual kinds, which the core cannot give, since it does not know the options."""

from __future__ import annotations

import shlex

from tipple.errors import BadRecord
from tipple.plan.sources import Dialect

__all__ = ["core_remedy", "first_remedy"]

_NULL_WORDS = frozenset({"\\n", "null", "nil", "none", "na", "n/a", "#n/a", "nan", "-", "--", "?", "."})
"""What programs and people write for a missing value, in lower case."""
_BAD_VALUE = frozenset({"22P02", "22007"})
_TOO_FEW_FIELDS = "missing data"
"""What the core's reason has then."""
_TOO_MANY_FIELDS = "extra data"
_FIRST_RECORDS = 10
"""Among so many a record of another number of fields may be a title, or a remark."""


def first_remedy(error: BadRecord, dialect: Dialect, *, header: bool) -> str:
    """What to try before anything else: of words that mean NULL, and of lines above a header; else nothing.

    Args:
        error: the complaint.
        dialect: what the sources were read in.
        header: whether a header was skipped, so that nothing can stand above it.
    """
    text = error.text or ""
    if error.sqlstate in _BAD_VALUE and text.strip().lower() in _NULL_WORDS:
        beside = "" if dialect.null_text else " (empty fields are then empty texts)"
        return f"if {text!r} stands for no value, --null {shlex.quote(text)} reads it as NULL{beside}; or else "
    above = error.record_number <= _FIRST_RECORDS and not header and not dialect.skip_lines
    if above and _TOO_FEW_FIELDS in error.reason:
        return "if it is a line above the header, --skip-lines leaves such lines out, or --comment; or else "
    return ""


def core_remedy(error: BadRecord, dialect: Dialect) -> str:
    """What the core advises; it speaks of delimiters, which fields of fixed widths do not have."""
    if dialect.format == "fixed" and any(sign in error.reason for sign in (_TOO_FEW_FIELDS, _TOO_MANY_FIELDS)):
        return "check --field-widths, or mend the record"
    return error.remedy
