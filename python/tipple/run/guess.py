"""What was sniffed, put together with what the target has: header, NULL, the table of `--schema auto`, the report."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from tipple.engines.base import TableColumn
from tipple.errors import BadRecord, UsageError
from tipple.plan.notation import DATES, NUMBERS, TWO_DIGITS, kind_name
from tipple.plan.schema import TableDefinition
from tipple.plan.sniff_columns import (
    SniffedColumn,
    column_types,
    define_table,
    describe_dates,
    guessed_kind,
    is_code_among_codes,
    wider_type,
)
from tipple.plan.sniff_encoding import OF_DOS
from tipple.plan.sniff_header import folded_names
from tipple.plan.sniff_names import clean_names, is_name
from tipple.plan.sniff_options import options_text, sniff_notes
from tipple.plan.sniff_profile import LOW_CONFIDENCE, Decision
from tipple.plan.sniff_score import is_empty
from tipple.plan.sources import Dialect, plan_dialect
from tipple.plan.url import TableName, fold_identifier, quote_identifier
from tipple.report.model import SniffColumn, SniffDecision, SniffReport
from tipple.run.fields import by_field, left_out_of
from tipple.run.remarks import note_of_marks, note_of_top
from tipple.run.sniff import Sniffed, Sniffer

__all__ = ["AUTO", "Guess"]

AUTO = "auto"
SURE_HEADER = 0.85
"""From this on, a first record is skipped although its names are not those of the table's columns."""
_TEXT_TYPES = frozenset({"text", "varchar", "char"})
_KEEPS_WORDS = _TEXT_TYPES | {"opaque"}
_WRONG_VALUE = frozenset({"22P02", "22003", "22007", "22008", "22P03"})
"""SQLSTATEs of a value that its column's type does not have."""

_MOST_NAMES_SHOWN = 30
"""Of more columns nobody reads the names in a message."""
_WITH_THOUSANDS = re.compile(r"\s*-?\d{1,3}(\.\d{3})+(,\d+)?\s*", re.ASCII)
_WRONG_FIELDS = "22P04"
"""SQLSTATE of a record with another number of fields than there are columns."""
_NOT_IN_ENCODING = "22021"
"""SQLSTATE of bytes that are no text in the encoding."""


class Guess:
    """Empty where every option was given."""

    def __init__(
        self,
        sniffer: Sniffer | None = None,
        sniffed: Sniffed | None = None,
        system_columns: Collection[str] = frozenset(),
    ) -> None:
        self._sniffer = sniffer
        self._sniffed = sniffed
        self._system_columns = system_columns
        self.columns: list[SniffedColumn] = []
        """The columns of `--schema auto`."""
        self.left_out: tuple[int, ...] = ()
        """The fields that are none of them, by index."""
        self.named_columns: list[str] | None = None
        """By field the column that a header names; an empty text where the field is left out."""
        self.names_no_columns = False
        """Whether the first records were compared with the table's columns, and are not their names."""
        self._definition: TableDefinition | None = None
        self._options = ""
        self._dialect: Dialect | None = None
        self._decisions: list[Decision] = []
        self._unbounded_numeric = True

    @property
    def sniffed(self) -> Sniffed:
        """What the sample says."""
        if self._sniffed is None:
            raise UsageError("the sources were not looked at")
        return self._sniffed

    @property
    def lines_below_header(self) -> int | None:
        """The lines of a header and of a record below it that is most likely none, 0 where there is no such; None where
        nothing was looked at.
        """
        if self._sniffed is None:
            return None
        top = self._sniffed.top
        return top.lines if top is not None and top.records > 1 else 0

    @property
    def has_header(self) -> bool:
        """Whether the first records are a header: as the user says, else as it seems."""
        given = self._sniffer.given.header if self._sniffer is not None else None
        return (given or self.sniffed.header.value) != "no"

    @property
    def surely_has_header(self) -> bool:
        """Whether the first records cannot well be anything else."""
        if self._sniffer is None or self._sniffed is None or not self._sniffer.auto:
            return False
        return self._sniffed.header.value == "yes" and self._sniffed.header.confidence >= SURE_HEADER

    @property
    def has_different_headers(self) -> bool:
        """Whether every file begins with a header beyond doubt, but not with the same one."""
        return self._sniffer is not None and self._sniffed is not None and self._sniffed.different_headers

    def header_of_some(self, fields: Sequence[str]) -> list[str] | None:
        """The names of a first record that is a header beyond doubt, where other files have none."""
        names = folded_names(fields)
        return names if self._sniffed is not None and names in self._sniffed.headers_of_some else None

    def as_columns(self, names: Sequence[str], known: Collection[str]) -> list[str] | None:
        """The names of a header as `--schema auto` makes columns of them, where all of them are known."""
        if self._sniffed is None:
            return None
        # Empty fields and dashes become `column1` and so on, which a table without header has as well.
        if not any(map(is_name, names)):
            return None
        cleaned = clean_names(names, self._system_columns)
        return cleaned if all(name in known for name in cleaned) else None

    def table(
        self, name: TableName, *, head: Sequence[str] | None, names: Sequence[str] | None, unbounded_numeric: bool
    ) -> TableDefinition:
        """The table of `--schema auto`.

        Args:
            name: the table's name.
            head: the header, where there is one.
            names: the names that the user gives to the columns.
            unbounded_numeric: whether the engine has a `numeric` for any number of digits.

        Raises:
            UsageError: there is no record to see columns in, or another number of names.
        """
        sniffed = self.sniffed
        fields = sniffed.profile.fields
        if not fields:
            raise UsageError(
                "--schema auto: the sources hold no whole record to see columns in",
                hint="check the files, or give --schema FILE.sql",
            )
        if head is not None and names is None and len(head) < fields:
            raise self._short_header(head, fields)
        padded = [*(head or [])[:fields], *[""] * (fields - len(head or []))]
        column_names = clean_names(padded, self._system_columns)
        if names is not None:
            given = self._sniffer.given.header if self._sniffer is not None else None
            known = column_names if head is not None and given != "yes" else []
            column_names = _names_by_field(names, known, fields, by_name=given == "match")
        self.left_out = tuple(index for index, name in enumerate(column_names) if not name)
        types = column_types(
            sniffed.profile,
            sniffed.dialect.null_text,
            unbounded_numeric=unbounded_numeric,
            force_null=_indexes(sniffed.dialect.force_null, column_names),
            force_not_null=_indexes(sniffed.dialect.force_not_null, column_names),
        )
        types += [("text", "too many columns to look at")] * (fields - len(types))
        self.columns = [
            SniffedColumn(name=column, type_text=type_text, reason=reason)
            for column, (type_text, reason) in zip(column_names, types, strict=True)
            if column
        ]
        self._unbounded_numeric = unbounded_numeric
        self._definition = define_table(name, self.columns)
        return self._definition

    def _short_header(self, head: Sequence[str], fields: int) -> UsageError:
        """That of a header with fewer names than the records have fields: which ones they belong to, nobody knows."""
        missing = [""] * (fields - len(head))

        def option(texts: Sequence[str]) -> str:
            return f"--header yes --columns {shlex.quote(','.join(map(str, clean_names(texts, self._system_columns))))}"

        remedy = "name all of them by --header yes --columns"
        if fields <= _MOST_NAMES_SHOWN:
            remedy = (
                f"name all of them: {option([*missing, *head])} where the first ones have no name, as R writes row "
                f"names, or {option([*head, *missing])}"
            )
        if any(map(is_empty, self.sniffed.profile.columns[-1:])):
            remedy += ", or --trailing-delimiter yes where all records end with a delimiter"
        return UsageError(
            f"--schema auto: the header has {len(head)} names, and the records have {fields} fields",
            hint=f"{remedy}; --skip-lines 1 leaves out a title above the names",
        )

    def settle(self, dialect: Dialect, header: bool, columns: Sequence[TableColumn], notes: list[str]) -> Dialect:
        """The final dialect, now that the columns are known; adds notes."""
        sniffer, sniffed = self._sniffer, self._sniffed
        if sniffer is None or sniffed is None:
            return dialect
        fields = by_field(columns, dialect.left_out)
        decisions = list(sniffed.decisions)
        usual_null = plan_dialect(dialect.format).null_text
        if sniffed.null_columns and not self._needs_null(sniffed.null_columns, fields):
            # Both readings can be stored: as texts they lose nothing.
            dialect = msgspec.structs.replace(dialect, null_text=usual_null)
            decisions = [decision for decision in decisions if decision.option != "null"]
        dialect = self._keep_texts(dialect, fields)
        noted = sniffed.noted
        if not self.columns:
            # What is kept as text shows nothing, and all columns of dates and numbers have a say.
            kinds = [kind_name(column.codec_type) if column is not None else None for column in fields]
            noted = sniffed.decide(
                dates=[index for index, kind in enumerate(kinds) if kind in DATES],
                numbers=[index for index, kind in enumerate(kinds) if kind in NUMBERS],
            )
            said = noted.added_to(sniffer.given)
            dialect = msgspec.structs.replace(
                dialect,
                date_style=said.date_style,
                decimal_separator=said.decimal_separator,
                thousands=said.thousands,
            )
        decisions += noted.decisions
        header_word = "yes" if header else "no"
        named = None
        if header and self.named_columns is not None:
            named = self.named_columns
        if sniffer.given.header is None:
            decided = sniffed.header
            if named is not None:
                decided = Decision(
                    option="header", value="yes", confidence=0.99, reason="it names columns of the table"
                )
            elif header != (decided.value == "yes"):
                but = "; but not every field of it names a column of the table" if self.names_no_columns else ""
                decided = Decision(
                    option="header",
                    value=header_word,
                    confidence=min(decided.confidence, 0.6),
                    reason=f"{decided.reason}{but}",
                )
            decisions.append(decided)
        elif sniffer.given.header == "match" and not self.columns:
            header_word = "match"
        self._decisions = decisions
        self._dialect = dialect
        self._options = options_text(dialect, header_word, named)
        usual = sniffer.named is not None and dialect == sniffer.dialect and (not header or named is not None)
        notes += sniff_notes(self._options, decisions, usual=usual or not sniffer.auto)
        if self.columns:
            guessed = ", ".join(f"{column.name} {column.type_text}" for column in self.columns[:8])
            more = f", and {len(self.columns) - 8} more" if len(self.columns) > 8 else ""
            notes.append(f"--schema auto: names and types were guessed from a sample: {guessed}{more}")
        names = [
            column.name if column is not None and (self.columns or kind_name(column.codec_type) in DATES) else None
            for column in fields
        ]
        notes += describe_dates(sniffed.profile, names, dialect.date_style)
        if sniffed.top is not None:
            by_place = [column.name if column is not None else None for column in fields]
            note = note_of_top(sniffed.top, dialect, by_place, header=header, is_new=bool(self.columns))
            notes += [note] if note is not None else []
        if sniffed.marked:
            notes.append(note_of_marks(sniffed.marked))
        return dialect

    def _keep_texts(self, dialect: Dialect, columns: Sequence[TableColumn | None]) -> Dialect:
        """Has a word that was guessed to mean NULL be kept in columns of texts of which the sample does not show that:
        `NA` is Namibia too. Nobody writes `\\N` for a text.
        """
        sniffer, sniffed = self._sniffer, self._sniffed
        word = dialect.null_text
        if sniffer is None or sniffed is None or not sniffer.auto or sniffer.given.null_text is not None:
            return dialect
        if dialect.format != "csv" or word in ("", "\\N") or "*" in dialect.force_not_null:
            return dialect
        seen = {
            index
            for index, column in enumerate(sniffed.profile.columns)
            if column.null_words.get(word) and not is_code_among_codes(word, column)
        }
        known = {fold_identifier(name) for name in (*dialect.force_null, *dialect.force_not_null)}
        kept = [
            quote_identifier(column.name)
            for index, column in enumerate(columns)
            if column is not None
            and kind_name(column.codec_type) in _KEEPS_WORDS
            and index not in seen
            and column.name not in known
        ]
        return msgspec.structs.replace(dialect, force_not_null=(*dialect.force_not_null, *kept))

    @staticmethod
    def _needs_null(indexes: Sequence[int], columns: Sequence[TableColumn | None]) -> bool:
        found = [columns[index] for index in indexes if index < len(columns)]
        return any(column is not None and kind_name(column.codec_type) not in _TEXT_TYPES for column in found)

    def kinds(self, columns: Sequence[TableColumn]) -> list[tuple[int, Any]]:
        """Which columns have guessed types that change some values, and the core's `Guessed` of each."""
        guessed = {column.name: guessed_kind(column.type_text) for column in self.columns}
        found = []
        for index, column in enumerate(columns):
            kind = guessed.get(column.name)
            if self._order_is_guessed and kind_name(column.codec_type) in DATES:
                kind = {"in_order": kind if kind in DATES else "given"}
            if kind is not None:
                found.append((index, kind))
        return found

    @property
    def _order_is_guessed(self) -> bool:
        """Whether the sample alone says how day and month stand."""
        if self._sniffer is None or self._sniffed is None or self._sniffer.given.date_style is not None:
            return False
        if self._dialect is not None:
            return self._dialect.date_style is not None
        return self._sniffed.noted.date_style is not None

    def remedy(self, error: BadRecord) -> str | None:
        """What to do about a bad record that may be due to a wrong guess."""
        guessed = {column.name: column.type_text for column in self.columns}
        type_text = guessed.get(error.column or "", "text")
        if TWO_DIGITS in error.reason:
            return None
        if type_text != "text" and error.sqlstate in _WRONG_VALUE | {None}:
            # A number in a notation of its own has to be rewritten before it shows a type.
            plain = self._dialect is not None and self._dialect.has_plain_numbers
            value = error.text if plain else None
            notation = ""
            if not plain and self._points_may_be_between_thousands(error.text or ""):
                notation = ", or say --decimal-separator , --thousands . if points stand between thousands"
            wider = wider_type(type_text, value, unbounded_numeric=self._unbounded_numeric)
            return (
                f"the type {type_text} of the column {error.column} was guessed from a sample (--schema auto). Mend "
                f"the value{notation}, or give the column the type {wider}: --dry-run --json prints the CREATE TABLE "
                "statement (create_table), to be changed and given by --schema FILE.sql"
            )
        if self._trailing_is_guessed and error.sqlstate == _WRONG_FIELDS:
            return (
                f"{error.remedy}; or, if the last field is empty in most records only, --trailing-delimiter no reads "
                "it: that a delimiter follows the last field was guessed from a sample"
            )
        encoding = self._odd_encoding(error.file) if error.sqlstate == _NOT_IN_ENCODING else None
        if encoding is not None:
            return (
                f"the file seems to be {encoding}, and others are UTF-8: load it by a command of its own with "
                f"--encoding {encoding}, or convert it to UTF-8 (iconv)"
            )
        if error.sqlstate == _NOT_IN_ENCODING and OF_DOS in {decision.reason for decision in self._decisions}:
            return f"the text is {OF_DOS}"
        if self._options and any(decision.confidence < LOW_CONFIDENCE for decision in self._decisions):
            return f"{error.remedy}; or the sources, which were read with {self._options}, are of another format"
        return None

    @property
    def _trailing_is_guessed(self) -> bool:
        """Whether the sample alone says that a delimiter follows the last field."""
        sniffer, dialect = self._sniffer, self._dialect
        if sniffer is None or dialect is None or not sniffer.auto or sniffer.named == "tbl":
            return False
        return sniffer.given.trailing_delimiter is None and dialect.trailing_delimiter

    def _points_may_be_between_thousands(self, text: str) -> bool:
        dialect = self._dialect
        commas_only = dialect is not None and dialect.decimal_separator == "," and dialect.thousands is None
        return commas_only and _WITH_THOUSANDS.fullmatch(text) is not None

    def _odd_encoding(self, path: str) -> str | None:
        """The encoding of a file that is of another one than the rest."""
        odd = self._sniffed.odd_encodings if self._sniffed is not None else {}
        return next((found for name, found in odd.items() if os.path.abspath(name) == os.path.abspath(path)), None)

    def report(self) -> SniffReport | None:
        """What was found out."""
        if self._sniffed is None or not self._options:
            return None
        definition = self._definition
        return SniffReport(
            options=self._options,
            confidence=min((decision.confidence for decision in self._decisions), default=1.0),
            decisions=[
                SniffDecision(
                    option=decision.option,
                    value=decision.value,
                    confidence=decision.confidence,
                    reason=decision.reason,
                    alternatives=list(decision.alternatives),
                )
                for decision in self._decisions
            ],
            columns=[
                SniffColumn(name=column.name, type=column.type_text, reason=column.reason) for column in self.columns
            ],
            create_table=definition.create_sql(definition.name.sql, True) if definition is not None else None,
            sampled_bytes=self._sniffed.sampled_bytes,
        )


def _indexes(names: Collection[str], columns: Sequence[str]) -> set[int]:
    """The columns, by index, that are among `names`; what else these say is told later."""
    known = {word for name in names for word in (name.strip(), fold_identifier(name.strip()))}
    return {index for index, column in enumerate(columns) if "*" in known or column in known}


def _names_by_field(wanted: Sequence[str], head: Sequence[str], fields: int, *, by_name: bool) -> list[str]:
    """The names that `--columns` gives to the fields; an empty text where it leaves one out.

    Args:
        wanted: what it says.
        head: the fields' names by the header, where there is one whose names count.
        fields: how many there are.
        by_name: whether the header is asked for, so that names are its own.

    Raises:
        UsageError: they are not those of the fields.
    """
    names = [fold_identifier(name.strip()) for name in wanted]
    places = left_out_of(wanted)
    kept = [name for index, name in enumerate(names) if index not in places]
    if not kept:
        raise UsageError(f"--columns {','.join(wanted)} leaves out every field", hint="name at least one")
    if not all(kept) or len(set(kept)) < len(kept):
        raise UsageError(
            f"--columns {','.join(wanted)} leaves a field without a name of its own",
            hint="name every field, and no two the same; - leaves a field out",
        )
    lacking = next((name for name in names if name not in head), None)
    if by_name and lacking is not None:
        shown = ", ".join(head[:8]) + (", …" if len(head) > 8 else "")
        raise UsageError(
            f"the header names {shown}, but no column {lacking}, which is in --columns",
            hint="name columns of the header; those of other fields are left out",
        )
    if not places and lacking is None and (by_name or len(names) < fields):
        return [name if name in names else "" for name in head]
    if not places and lacking is None and names != list(head):
        raise UsageError(
            f"the header names {', '.join(head)}, but --columns {', '.join(wanted)}",
            hint="--header match goes by the header's names; --header yes skips it, and --columns gives other names",
        )
    if len(names) != fields:
        raise UsageError(
            f"--columns has {len(names)} names, but the records have {fields} fields",
            hint="name every field, with - for one to leave out; or leave out --columns",
        )
    return ["" if index in places else name for index, name in enumerate(names)]
