"""Files with bad records among the good ones, and what has to be told of the bad ones."""

from __future__ import annotations

import csv
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

SEED = int(os.environ.get("TIPPLE_SEED", "0"))

TABLE = "CREATE TABLE t (a integer NOT NULL, b numeric(5,2), c date, d varchar(20))"

# What is wrong with a record, and the column and SQLSTATE that have to be named.
WRONG: dict[str, tuple[bytes, str, str]] = {
    "syntax": (b"x1,1.5,2020-01-01,x", "a", "22P02"),
    "range": (b"2147483648,1.5,2020-01-01,x", "a", "22003"),
    "overflow": (b"7,1000,2020-01-01,x", "b", "22003"),
    "date": (b"7,1.5,2021-02-29,x", "c", "22008"),
    "null": (b",1.5,2020-01-01,x", "a", "23502"),
    "too few": (b"7,1.5", "c", "22P04"),
    "too many": (b"7,1.5,2020-01-01,x,y,z", "", "22P04"),
    "encoding": (b"7,1.5,2020-01-01,\xff\xfe", "d", "22021"),
    "nul": (b"7,1.5,2020-01-01,a\x00b", "d", "22021"),
    "quoted": (b'"7\n,x",1.5,2020-01-01,"a\n\nb"', "a", "22P02"),
    "empty": (b"", "b", "22P04"),
}


@dataclass
class Spoilt:
    """A file with bad records among the good ones, and what has to be told of them."""

    data: bytes = b""
    good: list[tuple[int, str]] = field(default_factory=list)
    bad: list[tuple[int, int, str, str]] = field(default_factory=list)
    """Record number, byte offset, column, SQLSTATE."""
    raw: bytes = b""


def spoil(records: int, share: float, seed: int, *, end: bytes = b"\n", header: bytes = b"") -> Spoilt:
    """Records of which about `share` are bad, each in one of the ways of `WRONG`."""
    r = random.Random(SEED * 1000 + seed)
    made = Spoilt()
    pieces = [header]
    offset = len(header)
    for number in range(1, records + 1):
        if r.random() < share:
            record, column, sqlstate = r.choice(list(WRONG.values()))
            if end != b"\n":
                record = record.replace(b"\n", b" ")
            made.bad.append((number, offset, column, sqlstate))
            made.raw += record + end
        else:
            text = r.choice(["plain", 'q""uote', "two\nlines" if end == b"\n" else "x", "ü", ""])
            record = f'{number},1.25,2020-01-01,"{text}"'.encode()
            made.good.append((number, text.replace('""', '"')))
        pieces.append(record + end)
        offset += len(record + end)
    made.data = b"".join(pieces)
    return made


def told(path: Path) -> list[tuple[int, int | None, str, str]]:
    """What the file of reasons says: record number, byte offset (None for columnar sources), column, SQLSTATE."""
    with Path(f"{path}.reasons.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        (
            int(row["record_number"]),
            int(offset) if (offset := row["byte_offset"]) else None,
            row["column"],
            row["sqlstate"],
        )
        for row in rows
    ]
