"""How many records may be rejected, and where they are kept; pure."""

from __future__ import annotations

import re
from fractions import Fraction

import msgspec

from tipple.errors import UsageError


class RejectPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with records that cannot be stored: keep them apart, up to a limit."""

    max_count: int | None
    """The most rejects, or None where only their share counts."""
    max_percent: float | None
    """The largest share of all records, in percent, or None."""
    path: str
    """The file for the raw records."""

    @property
    def reasons_path(self) -> str:
        """The file for their reasons, beside the raw records."""
        return f"{self.path}.reasons.csv"

    @property
    def reading_path(self) -> str:
        """The file that says how they are to be read, beside them."""
        return f"{self.path}.replay.json"

    @property
    def paths(self) -> tuple[str, str, str]:
        """All files that are written."""
        return self.path, self.reasons_path, self.reading_path

    def allows(self, rejects: int, records: int) -> bool:
        """Whether so many rejects among so many records are within the limit."""
        if self.max_count is not None and rejects > self.max_count:
            return False
        # Exactly: 57 of 10,000 are 0.57 %, which no binary fraction is.
        return self.max_percent is None or rejects * 100 <= Fraction(str(self.max_percent)) * records


MOST_REJECTS = 2**63 - 1
_LIMIT = re.compile(r"(\d+(?:\.\d+)?)(%?)", re.ASCII)


def parse_limit(text: str) -> tuple[int | None, float | None]:
    """`--max-rejects`: a number of records, or a share of them as `1.5%`.

    Raises:
        UsageError: it is neither.
    """
    found = _LIMIT.fullmatch(text.strip())
    if found is not None:
        number, percent = found.groups()
        if percent and float(number) <= 100:
            return None, float(number)
        if not percent and "." not in number and int(number) <= MOST_REJECTS:
            return int(number), None
    raise UsageError(
        f"--max-rejects {text!r} is neither a number of records nor a share of them",
        hint="give a number such as 1000, or a share such as 0.5%",
    )
