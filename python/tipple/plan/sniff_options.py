"""What was sniffed, in words: options for a command line, notes for a report."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Sequence

from tipple.plan.sniff_profile import LOW_CONFIDENCE, Decision
from tipple.plan.sources import Dialect, plan_dialect
from tipple.plan.url import quote_identifier

__all__ = ["options_text", "sniff_notes", "spell"]


def spell(character: str) -> str:
    """A character as options take it."""
    if character == "\t":
        return "\\t"
    return character if character.isprintable() else f"\\x{ord(character):02x}"


def options_text(dialect: Dialect, header: str, columns: Sequence[str] | None = None) -> str:
    """The options that read a source in this dialect without looking at it, ready for a shell.

    Args:
        dialect: what was decided.
        header: what is said of it.
        columns: those of the fields; an empty text for a field that is left out.
    """
    options = {"--format": dialect.format, "--delimiter": spell(dialect.delimiter)}
    if dialect.quote is not None and dialect.escape is not None:
        options |= {"--quote": spell(dialect.quote), "--escape": spell(dialect.escape)}
    options |= {"--header": header, "--null": dialect.null_text}
    if dialect.encoding is not None:
        options["--encoding"] = dialect.encoding
    if dialect.trailing_delimiter != plan_dialect(dialect.format).trailing_delimiter:
        options["--trailing-delimiter"] = "yes" if dialect.trailing_delimiter else "no"
    if dialect.skip_lines:
        options["--skip-lines"] = str(dialect.skip_lines)
    if dialect.comment is not None:
        options["--comment"] = dialect.comment
    for option, names in (("--force-null", dialect.force_null), ("--force-not-null", dialect.force_not_null)):
        if names:
            options[option] = ",".join(names)
    if dialect.date_style is not None:
        options["--date-style"] = dialect.date_style
    if dialect.decimal_separator is not None:
        options["--decimal-separator"] = dialect.decimal_separator
    if dialect.thousands is not None:
        options["--thousands"] = dialect.thousands
    if columns is not None:
        options["--columns"] = ",".join(quote_identifier(column) if column else "-" for column in columns)
    return " ".join(f"{option} {shlex.quote(value)}" for option, value in options.items())


def sniff_notes(options: str, decisions: Iterable[Decision], *, usual: bool) -> list[str]:
    """Notes on what was sniffed.

    Args:
        options: as `options_text` spells them.
        decisions: what they rest on.
        usual: whether they are the defaults of the format that the files' names say, so that nothing is new in them.
    """
    unsure = [decision for decision in decisions if decision.confidence < LOW_CONFIDENCE]
    notes = [] if usual and not unsure else [f"the sources are read with {options}"]
    by_delimiter = any(decision.option == "delimiter" for decision in unsure)
    said: set[str] = set()
    for decision in unsure:
        # The delimiter says the same as the format, and more exactly.
        if decision.reason in said or (decision.option == "format" and by_delimiter):
            continue
        said.add(decision.reason)
        notes.append(
            f"not sure of --{decision.option} {shlex.quote(decision.value)} (confidence {decision.confidence:.2f}): "
            f"{decision.reason}{_or_else(decision)}; give the option if it is wrong"
        )
    return notes


def _or_else(decision: Decision) -> str:
    """The alternatives, as they can be pasted."""
    if not decision.alternatives:
        return ""
    told = itertools.zip_longest(decision.alternatives, decision.alternative_reasons)
    spelled = (f"--{decision.option} {shlex.quote(value)}{f' ({reason})' if reason else ''}" for value, reason in told)
    return f"; or else {', '.join(spelled)}"
