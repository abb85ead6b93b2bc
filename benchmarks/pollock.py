"""Pollock, a public collection of 2,289 spoilt CSV files, read by Tipple: how many come out as they were meant.

    benchmarks/pollock.py TREE         a checkout of github.com/HPI-Information-Systems/Pollock

Each file is loaded into DuckDB, all columns as text, with the parameters that the collection gives for it and bad
records skipped. Its rows are compared with those of the clean version: a row that nobody meant is worse than a reject,
which is kept and told.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import csv
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb

import tipple
from tipple.errors import TippleError

Row = tuple[str, ...]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="benchmarks/pollock.py"
    )
    parser.add_argument("tree", type=Path, help="the checkout")
    parser.add_argument("--auto", action="store_true", help="leave the dialect to Tipple")
    parser.add_argument("--show", action="store_true", help="every file that does not come out as it was meant")
    given = parser.parse_args()
    files = sorted((given.tree / "polluted_files" / "csv").glob("*.csv"))
    if not files:
        sys.exit(f"no files in {given.tree}/polluted_files/csv")
    kinds: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as place:
        for number, file in enumerate(files):
            outcome = _outcome(file, Path(place) / f"{number}", auto=given.auto)
            kinds[_kind(file.stem)][outcome] += 1
            if given.show and outcome != "as meant":
                print(f"{file.stem}: {outcome}")
    names = ("as meant", "rest rejected", "different", "refused")
    print(f"{'':44}{''.join(f'{name:>15}' for name in names)}")
    for kind, counts in sorted(kinds.items()):
        print(f"{kind:44}{''.join(f'{counts[name]:>15,}' for name in names)}")
    total = sum(kinds.values(), collections.Counter())
    print(f"{'all':44}{''.join(f'{total[name]:>15,}' for name in names)}")
    return 0


def _kind(name: str) -> str:
    return re.sub(r"(row_[a-z_]+?)_?\d+.*", r"\1", name) if name.startswith("row_") else name


def _outcome(file: Path, place: Path, *, auto: bool) -> str:
    """How a file comes out."""
    told = json.loads((file.parent.parent / "parameters" / f"{file.name}_parameters.json").read_text())
    meant = _meant(file.parent.parent / "clean" / file.name, header=bool(told["header_lines"]))
    width = max(map(len, meant), default=9)
    place.mkdir()
    database = place / "t.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(f'c{index} varchar' for index in range(width))})")
    try:
        tipple.load(
            file, into=f"duckdb:///{database}", table="t", on_error="skip", max_rejects="100%",
            rejects=place / "bad.csv", **({} if auto else _options(told)),
        )  # fmt: skip
    except TippleError as error:
        if "--show" in sys.argv:
            print(f"{file.stem}: {error}")
        return "refused"
    with duckdb.connect(str(database)) as connection:
        rows = [tuple(value or "" for value in row) for row in connection.execute("FROM t").fetchall()]
    left, more = _difference(meant, rows)
    if "--show" in sys.argv and (left or more):
        print(f"{file.stem}: {left} rows are missing, {more} are there that nobody meant")
    if not left and not more:
        return "as meant"
    return "different" if more else "rest rejected"


def _options(told: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": "csv",
        "delimiter": told["delimiter"] or None,
        "quote": told["quotechar"] or None,
        "escape": told["escapechar"] or None,
        "header": "yes" if told["header_lines"] else "no",
        "skip_lines": told["preamble_lines"] + max(told["header_lines"] - 1, 0),
    }


def _meant(clean: Path, *, header: bool) -> list[Row]:
    with clean.open(encoding="utf-8", newline="") as file:
        return [tuple(row) for row in csv.reader(file)][int(header) :]


def _difference(meant: list[Row], rows: list[Row]) -> tuple[int, int]:
    """Rows that are missing, and rows that nobody meant."""
    expected, found = collections.Counter(meant), collections.Counter(rows)
    return (expected - found).total(), (found - expected).total()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
