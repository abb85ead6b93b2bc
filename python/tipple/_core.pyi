"""The compiled core. Plans go down as JSON, reports and progress come up as JSON; the format of both is that of the
Rust types named beside each function."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, final

__all__ = [
    "FIRST_PART_N",
    "OFFSET_BITS",
    "ArrowStream",
    "CoreError",
    "GenerateFailed",
    "GenerateJob",
    "LoadJob",
    "RejectFiles",
    "SpooledRejects",
    "VerifyJob",
    "around_spooled",
    "column_keys",
    "cut_sources",
    "describe_columnar",
    "digest_arrow_stream",
    "has_avx2",
    "is_utf8_name",
    "peek_stdin",
    "profile_sample",
    "read_head",
    "sample_keys",
    "spool_rejects",
]

FIRST_PART_N: int
"""From here on numbers are those of slices that --commit-every has made of the rest of others."""

OFFSET_BITS: int
"""Room for an offset behind the source in the number that puts slices in the order of the sources."""

class CoreError(Exception):
    """A failed job. Its only argument is a JSON object whose `kind` says what else it holds (`error.rs`)."""

class GenerateFailed(Exception):
    """A failed generation. Its only argument is a JSON object: kind (usage, failed or interrupted), message, hint,
    file."""

def cut_sources(plan_json: str) -> str:
    """Cuts the sources of a plan into slices of whole records (`CutPlan` to `Cut`)."""

def digest_arrow_stream(stream: Any, digested: list[bool]) -> str:
    """Rows and digest of all batches of an object with `__arrow_c_stream__`, over the columns whose entry in
    `digested` is true."""

def is_utf8_name(name: str) -> bool | None:
    """Whether there is an encoding of this name (None: there is not), and whether it is UTF-8."""

def peek_stdin(wanted_bytes: int) -> bytes:
    """The first bytes of standard input, at least so many if it has them; they will be read again."""

def read_head(source_json: str, dialect_json: str, wanted_bytes: int) -> bytes:
    """Text from the beginning of a source that is read as a stream (`Source`, `Dialect`), at least so many bytes if
    it has them."""

def spool_rejects(
    path: str, job_id: str, rows: Sequence[tuple[int, int, int, int, str | None, str, str, bytes]]
) -> None:
    """Writes a file of a spool: slice, source, byte offset, number in the piece, column, reason, SQLSTATE, record."""

def around_spooled() -> tuple[bytes, bytes]:
    """What stands before the files of a spool, and behind them, where they go by COPY binary."""

def sample_keys(plan_json: str) -> str:
    """Texts of one column from the beginning and the end of every slice (`KeysPlan` to a list of texts)."""

def describe_columnar(plan_json: str) -> str:
    """The fields of every source of a plan (`CutPlan` to lists of `FieldDescription`)."""

def column_keys(plan_json: str, stream: ArrowStream | None = None) -> str:
    """Texts of one column, one at least for each partition that its values need (`ColumnKeysPlan` to a list)."""

@final
class ArrowStream:
    """The rows of an object with `__arrow_c_stream__`; a load reads them once."""

    def __new__(cls, object: Any) -> ArrowStream: ...
    def fields(self) -> str: ...
    def close(self) -> None: ...

def has_avx2() -> bool:
    """Whether the processor has AVX2, or is none of those that may have it."""

def profile_sample(dialect_json: str, places_json: str, chunks: list[bytes]) -> str:
    """What the chunks of a sample look like when they are read in a dialect (`Dialect`, list of `Place` to
    `Profile`)."""

@final
class LoadJob:
    """A load that runs on threads of its own (`LoadPlan` to `LoadOutcome`)."""

    @staticmethod
    def start(plan_json: str, stream: ArrowStream | None = None) -> LoadJob: ...
    def progress(self) -> str: ...
    def wait(self, timeout_seconds: float) -> bool: ...
    def cancel(self) -> None: ...
    def result(self) -> str | None: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

@final
class RejectFiles:
    """The raw records of a load's rejects and their reasons as CSV (`Telling`), while they are being written."""

    def __new__(cls, raw: str, reasons: str, sources: Sequence[bytes], telling_json: str) -> RejectFiles:
        """Creates both files; OSError where that is not possible, from every method."""

    def rephrase(self, containing: str, function: Callable[[str], str]) -> None:
        """From now on reasons that contain a text are what a function makes of them."""

    def add(self, rows: Sequence[tuple[int, int, int, str | None, str, str, bytes]]) -> None:
        """Writes rows of a ledger: source, record number, byte offset (row, from 0, of a columnar source), column,
        reason, SQLSTATE, record."""

    def add_spooled(
        self, files: Sequence[str], before: Mapping[int, int], expected: Mapping[int, int] | None = None
    ) -> bool:
        """Writes what the files of a spool hold, in the order of the sources, unless these are not the `expected`
        rejects by slice; `before` says by slice how many records of its source come before it."""

    def finish(
        self,
    ) -> tuple[list[tuple[int, int, int | None]], int, list[bytes], list[tuple[str, str, int, int, int, str]]]:
        """Completes both files: rejects that may be many records (source, record number, lines, None where it is longer
        than records may be), how many more of those there are, and how those begin that end inside quotes; the causes,
        the most frequent first: column, SQLSTATE, rejects, and of the first source, record number and reason."""

@final
class SpooledRejects(Iterator[tuple[int, int, int]]):
    """The rejects in files of a spool, in the order that they were written: slice, source and byte offset of each."""

    def __new__(cls, paths: Sequence[str]) -> SpooledRejects:
        """Opens nothing yet; a file that cannot be read is an OSError of `__next__`, or of whoever takes batches."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[int, int, int]: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All of them as batches: n, source, byte_offset, record_index, column_name, reason, sqlstate, record."""

@final
class VerifyJob:
    """Reads back what a server holds (`VerifyPlan` to `Held`)."""

    @staticmethod
    def start(plan_json: str) -> VerifyJob: ...
    def wait(self, timeout_seconds: float) -> bool: ...
    def cancel(self) -> None: ...
    def result(self) -> str | None: ...

@final
class GenerateJob:
    """A generation that runs on threads of its own."""

    @staticmethod
    def start(plan_json: str) -> GenerateJob: ...
    def progress(self) -> str: ...
    def wait(self, timeout_seconds: float) -> bool: ...
    def cancel(self) -> None: ...
    def result(self) -> str | None: ...
