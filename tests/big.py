"""A file of more than 25 MB, enough for four slices, whose rows are known without reading them back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from targets import Target

COLUMNS = "id bigint NOT NULL, amount numeric(12,2), day date, note varchar"
TABLE = f"CREATE TABLE t ({COLUMNS})"

# What stands in quotes looks like records, so that whoever cuts the file at a newline by guesswork is caught.
NOTES = (
    "plain text of some length, so that a file of many megabytes does not need a million rows in it",
    'two\nlines, and a "quoted" word',
    "9,9.99,1999-09-09,not a record\n8,8.88,1998-08-08,nor this one\n",
    '"\n"',
    "ümläute und 漢字 🚂",
    "",
    "\r\n,\r\n",
)

FIRST_DAY = date(1992, 1, 1)


@dataclass(frozen=True)
class BigFile:
    """A CSV file and what a table holds after it is loaded into it once."""

    path: Path
    rows: int
    md5: str

    def held_by(self, target: Target, table: str = "t") -> tuple[int, str]:
        """Count, and digest of all rows in order of `id`, computed by the target."""
        ((count, md5),) = target.rows(
            "SELECT count(*), md5(string_agg(CAST(id AS varchar) || '|' || "
            "coalesce(CAST(amount AS varchar), '-') || '|' || coalesce(CAST(day AS varchar), '-') || '|' || "
            f"coalesce(note, '-'), '/' ORDER BY id)) FROM {table}"
        )
        return count, md5

    @property
    def expected(self) -> tuple[int, str]:
        """What `held_by` gives after one load."""
        return self.rows, self.md5


def write_big_file(
    path: Path, rows: int = 280_000, *, first_id: int = 0, longest_note: int = 0, compressible: bool = True
) -> BigFile:
    """Write the file: `rows` records of about 100 bytes, and one with a note of `longest_note` bytes.

    Where it is not compressible, the notes are digests and take as much room in an engine as in the file.
    """
    md5 = hashlib.md5(usedforsecurity=False)
    with path.open("w", newline="") as file:
        for start in range(0, rows, 10_000):
            records, canonical = [], []
            for number in range(first_id + start, first_id + min(start + 10_000, rows)):
                amount = f"{(number * 7919) % 10**9 - 10**8}.{number % 100:02}" if number % 11 else None
                day = (FIRST_DAY + timedelta(days=number % 9000)).isoformat() if number % 13 else None
                note = NOTES[number % 7 if number % 3 == 0 else 0] if number % 17 else None
                if not compressible:
                    note = hashlib.sha512(b"%d" % number).hexdigest()[:90]
                if longest_note and number == first_id + rows // 2:
                    note = ('x\n1,2.00,2000-01-01,"' * (longest_note // 20))[:longest_note]
                quoted = "" if note is None else '"' + note.replace('"', '""') + '"'
                records.append(f"{number},{amount or ''},{day or ''},{quoted}\n")
                canonical.append(f"{number}|{amount or '-'}|{day or '-'}|{'-' if note is None else note}")
            file.write("".join(records))
            md5.update((("/" if start else "") + "/".join(canonical)).encode())
    return BigFile(path, rows, md5.hexdigest())
