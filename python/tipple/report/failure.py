"""What a verb says as JSON where it does not end with a result."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tipple.errors import BadRecord, Interrupted, TippleError, UsageError

__all__ = ["FAILURE_VERSION", "LoadFailure"]

FAILURE_VERSION: Literal[1] = 1


class LoadFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a load, a job of several, or another verb has no result.

    `--json` prints it in the place of the result, and `--summary` writes it unless the exit status is 2.
    """

    tipple_failure_version: Annotated[
        Literal[1], Meta(description="Version of this format. Fields may be added without a new version.")
    ] = FAILURE_VERSION
    status: Annotated[
        Literal["failed", "interrupted", "refused"],
        Meta(
            description="refused: nothing was started. interrupted: by Ctrl-C; the hint says what next. failed: else."
        ),
    ]
    exit_status: Annotated[int, Meta(description="What the command exits with.")]
    kind: Annotated[str, Meta(description="Class of the error: see the reference.")]
    error: Annotated[str, Meta(description="What happened.")]
    hint: Annotated[str | None, Meta(description="What to do about it; null where there is nothing sensible to say.")]
    detail: Annotated[
        dict[str, Any],
        Meta(
            description="Further facts; of a bad record: file, record_number, byte_offset, column, text, reason, "
            "sqlstate and remedy."
        ),
    ]

    @classmethod
    def of(cls, error: TippleError) -> LoadFailure:
        """What an error says."""
        if isinstance(error, Interrupted):
            status: Literal["failed", "interrupted", "refused"] = "interrupted"
        else:
            status = "refused" if error.exit_status == UsageError.default_exit_status else "failed"
        return cls(
            status=status,
            exit_status=error.exit_status,
            # Of those that are documented the nearest.
            kind=next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == TippleError.__module__),
            # A bad record's text for people has many lines, and all of it is in the detail.
            error=error.message if isinstance(error, BadRecord) else str(error),
            hint=error.hint,
            detail=error.detail,
        )
