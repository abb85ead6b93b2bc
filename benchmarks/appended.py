"""Rows appended to a table that has some and two indexes: these kept, or built again when all rows are in.

    .venv/bin/python benchmarks/appended.py [--scale 1] [--rounds 3]

Each is a whole `tipple load` of some eighths of lineitem into a table that holds the others, with its primary key (in
the files' order) and an index on l_partkey (in none). `keep`: one session stores the rows with both in place.
`rebuild`: the rows fill another table, get those that are there, and then the indexes. Verified by count and checksum.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

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
WAYS = {"keep": ("keep", False), "rebuild": ("rebuild", False), "rebuild, by pages": ("rebuild", True)}
INDEXES = ("ALTER TABLE lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber)", "CREATE INDEX ON lineitem (l_partkey)")


def run(bench: BenchServer, files: Sequence[Path], added: int, plan: str, *, direct: bool) -> tuple[float, Digest]:
    """Seconds of one load, and the rows that the table then holds."""
    database = bench.fresh_database()
    try:
        if direct:
            make_ready(bench.server, database)
        bench.create_table(database)

        def load(chosen: Sequence[Path], *options: str) -> float:
            into = ("--into", bench.server.url(LOADER, database), "--table", "lineitem", "--progress", "none")
            return run_together([tipple_command("load", *map(str, chosen), *into, *options)]).seconds

        load(files[:-added])
        for statement in INDEXES:
            bench.create_owned(database, statement)
        bench.settle()
        seconds = load(files[-added:], "--indexes", plan)
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
    with bench_server(given.wal_level, given.data) as bench:
        for number in range(given.rounds):
            for added in ADDED:
                for way, (plan, direct) in WAYS.items():
                    taken, digest = run(bench, files, added, plan, direct=direct)
                    seconds[str(added)][way].append(taken)
                    digests.add(digest)
                    print(
                        f"{number + 1}/{given.rounds}  {added} of 8, {way}: {taken:.2f} s", file=sys.stderr, flush=True
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
