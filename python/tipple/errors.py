"""Every error that Tipple raises on purpose: one tree, to be caught as widely or narrowly as one likes.

    TippleError                exit status 1     failed, nothing published
    ├── UsageError             exit status 2     wrong usage or bad configuration: nothing was started
    │   └── ConnectionFailed   exit status 2     no connection to the target: nothing was started
    ├── BadRecord              exit status 1     a record that the target cannot store
    ├── TooManyRejects         exit status 1     more records than may be rejected cannot be stored
    ├── JobBusy                exit status 1     another job holds the table or the job
    ├── SourceChanged          exit status 1     a source file is not what it was when the job began
    ├── VerifyFailed           exit status 1     source and target disagree after the load
    ├── JobFailed              exit status 1     not all tables of a job were loaded
    └── Interrupted            exit status 130   stopped by the user; the job can be resumed

The exit statuses are those of the command-line contract. Nobody but the command line turns an error into an
exit status, so a library user sees exceptions only. What an error says must never hold a password: whoever
builds a message from a target uses `Target.display` and not `Target.url`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

__all__ = [
    "BadRecord",
    "ConnectionFailed",
    "Interrupted",
    "JobBusy",
    "JobFailed",
    "SourceChanged",
    "TippleError",
    "TooManyRejects",
    "UsageError",
    "VerifyFailed",
]

TEXT_LIMIT_CHARACTERS = 100
"""Longest piece of a record's text that an error carries: a line of a terminal, not a page of data."""


class TippleError(Exception):
    """Base of all errors; also raised itself where no subclass says more.

    Attributes:
        message: what happened, one sentence without a full stop at the end.
        hint: what to do next, or None where there is nothing sensible to say.
        detail: further facts for programs (JSON-compatible values), for example the server's SQLSTATE.
        exit_status: what the command line exits with.
    """

    default_exit_status: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        detail: Mapping[str, Any] | None = None,
        exit_status: int | None = None,
    ) -> None:
        self.message = without_surrogates(message)
        super().__init__(self.message)
        self.hint = None if hint is None else without_surrogates(hint)
        self.detail: dict[str, Any] = dict(detail or {})
        self.exit_status = self.default_exit_status if exit_status is None else exit_status

    def __str__(self) -> str:
        """The message alone. The hint is kept apart, so that the command line can set it off."""
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions pickle by calling the class with `args`, which fails for keyword-only parameters and, in
        # a process pool, replaces the error by "BrokenProcessPool".
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


def _rebuild(kind: type[TippleError], args: tuple[Any, ...], state: dict[str, Any]) -> TippleError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class UsageError(TippleError):
    """Wrong usage or bad configuration, found before anything was started."""

    default_exit_status = 2


class ConnectionFailed(UsageError):
    """The target could not be reached or refused the login. Nothing was started."""


class JobBusy(TippleError):
    """Another running job holds the same table or the same job."""


class JobFailed(TippleError):
    """Not all tables of a job were loaded.

    Attributes:
        report: what became of each table, a `JobReport`.
        errors: what the failed ones ended with.
    """

    def __init__(self, report: Any, errors: Sequence[BaseException | None]) -> None:
        missing = [table for table in report.tables if table.report is None and table.exit_status]
        names = ", ".join(f"{table.name} ({table.status})" for table in missing)
        super().__init__(
            f"{len(missing)} of {len(report.tables)} tables of {report.file} were not loaded: {names}",
            hint="mend the cause and run the same job again: what is loaded is not loaded twice",
            exit_status=report.exit_status,
        )
        self.report = report
        self.errors = [error for error in errors if error is not None]


class SourceChanged(TippleError):
    """A source file shrank, grew or was replaced since the job began."""


class VerifyFailed(TippleError):
    """What was read and what the target holds differ in count or digest."""


class Interrupted(TippleError):
    """The user stopped the job, which can be resumed.

    Attributes:
        report: of a job file's run, once a table was begun: what became of each table, a `JobReport`; else None.
    """

    default_exit_status = 130
    report: Any = None


class TooManyRejects(TippleError):
    """More records than may be rejected cannot be stored.

    Attributes:
        last: the one that was too much, where it is known.
        causes: why those found so far were refused, a line each.
        words: gives what the target says the names that the user knows.
    """

    def __init__(self, limit: str, last: BadRecord | None = None, *, found: str = "") -> None:
        text = f"more records than --max-rejects {limit} allows cannot be stored{found}"
        if last is not None:
            text += f"; the one that was too much: {last.message}"
        super().__init__(
            text,
            hint="mend the source, or raise --max-rejects, and run the command again",
            detail={"limit": limit, "record": None if last is None else last.detail},
        )
        self.last = last
        self.causes: Sequence[str] = ()
        self.words: Callable[[str], str] = str

    def in_words(self, words: Callable[[str], str]) -> TooManyRejects:
        """The same in words that the user knows."""
        error = self
        if self.last is not None:
            error = TooManyRejects(self.detail["limit"], self.last.with_reason(words(self.last.reason)))
        error.words = words
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        # The words are asked of a session, which no other process has; what is said is in them already.
        rebuild, (kind, args, state) = super().__reduce__()
        return rebuild, (kind, args, {**state, "words": str})

    def __str__(self) -> str:
        """The message, and the causes below it."""
        return "\n  rejected  ".join([self.message, *self.causes])


class BadRecord(TippleError):
    """A record that the target cannot store, with all that is needed to find and mend it.

    Attributes:
        file: absolute path of the source file.
        record_number: 1-based number of the record in the file.
        byte_offset: 0-based offset of the record's first byte in the (decompressed) file, or None where the rows of a
            file have none (Parquet, Arrow), and where standard input had gone by.
        column: name of the column, or None where the record as a whole is bad (too few fields, for example).
        text: the offending text, at most `TEXT_LIMIT_CHARACTERS` characters of it, or None.
        reason: why it cannot be stored, in the server's words where the server said it.
        sqlstate: the five-character SQLSTATE that the server gave or would have given, or None.
        remedy: what to do next.
    """

    DEFAULT_REMEDY: ClassVar[str] = (
        "Nothing was published. Correct the record in the file, or the column's type in the target, "
        "and run the same command again."
    )

    def __init__(
        self,
        *,
        file: str,
        record_number: int,
        byte_offset: int | None,
        reason: str,
        column: str | None = None,
        text: str | None = None,
        sqlstate: str | None = None,
        remedy: str | None = None,
        exit_status: int | None = None,
    ) -> None:
        self.file = file
        self.record_number = record_number
        self.byte_offset = byte_offset
        self.column = column
        self.text = None if text is None else shorten_text(text)
        self.reason = reason
        self.sqlstate = sqlstate
        self.remedy = without_surrogates(remedy or self.DEFAULT_REMEDY)
        super().__init__(
            f"{file}: record {record_number:,} cannot be stored: {reason}",
            hint=self.remedy,
            detail={
                "file": file,
                "record_number": record_number,
                "byte_offset": byte_offset,
                "column": column,
                "text": self.text,
                "reason": reason,
                "sqlstate": sqlstate,
                "remedy": self.remedy,
            },
            exit_status=exit_status,
        )

    def with_remedy(self, remedy: str) -> BadRecord:
        """The same complaint with another remedy."""
        return self._with(self.reason, remedy)

    def with_reason(self, reason: str) -> BadRecord:
        """The same complaint with the reason in other words."""
        return self._with(reason, self.remedy)

    def _with(self, reason: str, remedy: str) -> BadRecord:
        return BadRecord(
            file=self.file,
            record_number=self.record_number,
            byte_offset=self.byte_offset,
            reason=reason,
            column=self.column,
            text=self.text,
            sqlstate=self.sqlstate,
            remedy=remedy,
            exit_status=self.exit_status,
        )

    def __str__(self) -> str:
        """All of it over several lines, the remedy included; there is no need to print `hint` after it."""
        begins = "" if self.byte_offset is None else f", which begins at byte {self.byte_offset:,}"
        lines = [
            "a record cannot be stored",
            f"  file      {printable_text(self.file)}",
            f"  record    {self.record_number:,}{begins}",
        ]
        if self.column is not None:
            lines.append(f"  column    {printable_text(self.column)}")
        if self.text is not None:
            lines.append(f"  text      '{printable_text(self.text)}'")
        lines.append(f"  reason    {printable_text(self.reason)}")
        if self.sqlstate is not None:
            lines.append(f"  SQLSTATE  {self.sqlstate}")
        lines.append(f"  remedy    {self.remedy}")
        return "\n".join(lines)


def shorten_text(text: str, limit_characters: int = TEXT_LIMIT_CHARACTERS) -> str:
    """`text` itself, or its beginning (`limit_characters` of it) and how much was left out."""
    if len(text) <= limit_characters:
        return text
    left_out = len(text) - limit_characters
    return f"{text[:limit_characters]}... ({left_out:,} more characters)"


def without_surrogates(text: str) -> str:
    """`text` with escapes in place of lone surrogates, which cannot be printed: no UTF-8 has them."""
    return text.encode(errors="backslashreplace").decode()


def printable_text(text: str) -> str:
    """`text` on one line, harmless to a terminal: control characters and lone surrogates become escapes."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
