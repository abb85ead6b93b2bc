"""Rows appended to a table that has some and two indexes: these kept, or built again when all rows are in.

    .venv/bin/python benchmarks/appended.py [--scale 1] [--rounds 3]

Each is a whole `tipple load` of some eighths of lineitem into a table that holds the others, with its primary key (in
the files' order) and an index on l_partkey (in none). `keep`: one session stores the rows with both in place.
`rebuild`: the rows fill another table, get those that are there, and then the indexes. `skipping`: a thousand records
more have keys of rows that are there, and become rejects. Verified by count and checksum.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from contest import Digest
from data import lineitem_in_parts
from machine import headline, machine
from measure import BenchmarkError, cores, run_together, tipple_command
from postgresql_server import LOADER, BenchServer, bench_server, make_ready
from report import spread, table
from script import end, keep_result, lineitem_on_a_server

EIGHTHS = 8
ADDED = (1, 2, 4, 6)
"""Of eight parts so many come to the others."""
REPEATED = 1000


class Way(NamedTuple):
    """How the rows are appended."""

    indexes: str
    direct: bool = False
    skips: bool = False


WAYS = {
    "keep": Way("keep"),
    "rebuild": Way("rebuild"),
    "rebuild, by pages": Way("rebuild", direct=True),
    "keep, skipping": Way("keep", skips=True),
    "rebuild, skipping": Way("rebuild", skips=True),
}
INDEXES = ("ALTER TABLE lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber)", "CREATE INDEX ON lineitem (l_partkey)")


def repeated_records(file: Path, directory: str) -> Path:
    """The first records of a file, as a file."""
    path = Path(directory) / "repeated.tbl"
    with file.open("rb") as records:
        path.write_bytes(b"".join(islice(records, REPEATED)))
    return path


def run(bench: BenchServer, files: Sequence[Path], added: int, way: Way, repeated: Path) -> tuple[float, Digest]:
    """Seconds of one load, and the rows that the table then holds."""
    database = bench.fresh_database()
    try:
        if way.direct:
            make_ready(bench.server, database)
        bench.create_table(database)

        def load(chosen: Sequence[Path], *options: str) -> float:
            into = ("--into", bench.server.url(LOADER, database), "--table", "lineitem", "--progress", "none")
            return run_together([tipple_command("load", *map(str, chosen), *into, *options)], accepted=(0, 3)).seconds

        load(files[:-added])
        for statement in INDEXES:
            bench.create_owned(database, statement)
        bench.settle()
        new, options = list(files[-added:]), ["--indexes", way.indexes]
        if way.skips:
            new.append(repeated)
            rejects = ["--rejects", str(repeated.with_name("rejects")), "--max-rejects", str(REPEATED)]
            options += ["--on-error", "skip", *rejects]
        seconds = load(new, *options)
        return seconds, bench.digest(database)
    finally:
        bench.server.drop_database(database)


def main() -> int:
    given = lineitem_on_a_server("appended.py", __doc__)
    found = machine(given.data)
    print(headline(found), flush=True)
    files = lineitem_in_parts(given.scale, EIGHTHS, given.data)
    seconds: dict[str, dict[str, list[float]]] = {str(added): {way: [] for way in WAYS} for added in ADDED}
    digests = set()
    with bench_server(given.wal_level, given.data) as bench, TemporaryDirectory() as directory:
        repeated = repeated_records(files[0], directory)
        for number in range(given.rounds):
            for added in ADDED:
                for name, way in WAYS.items():
                    taken, digest = run(bench, files, added, way, repeated)
                    seconds[str(added)][name].append(taken)
                    digests.add(digest)
                    print(
                        f"{number + 1}/{given.rounds}  {added} of 8, {name}: {taken:.2f} s", file=sys.stderr, flush=True
                    )
    if len(digests) != 1:
        raise BenchmarkError("the tables do not hold the same rows")
    print(f"\nlineitem at scale {given.scale:g}, {cores()} streams, wal_level={given.wal_level}")
    rows = [
        [f"{added} to {EIGHTHS - added} eighths", *(spread(seconds[str(added)][way]) for way in WAYS)]
        for added in ADDED
    ]
    print(table(["median (min-max) of seconds", *WAYS], rows))
    keep_result("appended.py", given, found, {"scale": given.scale, "seconds_by_eighths_added": seconds})
    return 0


if __name__ == "__main__":
    end(main)
