"""Ways to make a structure of a PostgreSQL table, measured: keys before or after the rows, sorting, logging.

    .venv/bin/python benchmarks/structures.py [--wal-level minimal] [--scale 0.5] [--rounds 3]

The figures chose what `--load-as auto` does, and how `--structure sorted` sorts. Each is a whole `tipple load` of
lineitem from text, verified by count; "by hand" is a plain load, and then what the label says in psql.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from data import CACHE, lineitem
from machine import headline, machine
from measure import BenchmarkError, cores, run_together, tipple_command
from postgresql_server import LOADER, BenchServer, bench_server
from report import spread, table, write_result

IN_ORDER = "l_orderkey,l_linenumber"
"""A key in whose order the file is."""
IN_NO_ORDER = "l_partkey,l_suppkey,l_orderkey,l_linenumber"
DAY = "l_shipdate"

SORTED_BY_HAND = (
    "SET maintenance_work_mem = '1GB'; SET work_mem = '1GB'",
    "BEGIN",
    "CREATE TABLE in_order (LIKE lineitem)",
    f"INSERT INTO in_order SELECT * FROM lineitem ORDER BY {DAY}",
    "DROP TABLE lineitem",
    "ALTER TABLE in_order RENAME TO lineitem",
    f"CREATE INDEX ON lineitem USING brin ({DAY})",
    "COMMIT",
)


@dataclass(frozen=True)
class Way:
    """One way: options of the load, and statements that follow it."""

    label: str
    options: tuple[str, ...]
    by_hand: tuple[str, ...] = ()


WAYS = (
    Way("heap", ("--structure", "heap")),
    Way("heap, unlogged while it is loaded", ("--structure", "heap", "--load-as", "memory")),
    Way("memory", ("--structure", "memory")),
    *(
        Way(f"btree, key {order}, {when} the rows", ("--structure", "btree", "--key", key, "--load-as", form))
        for key, order in ((IN_ORDER, "in the file's order"), (IN_NO_ORDER, "in no order"))
        for form, when in (("heap", "after"), ("btree", "before"))
    ),
    Way("sorted (CLUSTER)", ("--structure", "sorted", "--key", DAY)),
    Way("sorted by hand: INSERT … SELECT … ORDER BY", ("--structure", "heap"), SORTED_BY_HAND),
)


def run(server: BenchServer, way: Way, file: Path) -> tuple[float, float]:
    """Seconds of the load, and of what follows it by hand.

    Raises:
        BenchmarkError: a command failed.
    """
    database = server.fresh_database()
    try:
        server.settle()
        url = server.server.url(LOADER, database)
        words = ("load", str(file), "--table", "lineitem", "--schema", "tpch", "--into", url, "--progress", "none")
        load = run_together([tipple_command(*words, *way.options)]).seconds
        more = run_together([server.psql(database, *way.by_hand)]).seconds if way.by_hand else 0.0
        return load, more
    finally:
        server.server.drop_database(database)


def main() -> int:
    given = _arguments()
    found = machine(given.data)
    print(headline(found), flush=True)
    data = lineitem(given.scale, 0, given.data)
    seconds: dict[str, list[float]] = {way.label: [] for way in WAYS}
    with bench_server(given.wal_level, given.data) as server:
        settings = server.measured_with()
        for number in range(given.rounds):
            for way in WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]:
                load, more = run(server, way, data.file)
                seconds[way.label].append(load + more)
                print(
                    f"{number + 1}/{given.rounds}  {way.label}: {load:.2f} + {more:.2f} s", file=sys.stderr, flush=True
                )
    print(f"\nlineitem, {data.megabytes:.0f} MB of text, wal_level={given.wal_level}, {cores()} streams")
    print(table(["median (min-max) of seconds", "whole"], [[label, spread(times)] for label, times in seconds.items()]))
    content = {
        "command": shlex.join(["benchmarks/structures.py", *sys.argv[1:]]),
        "machine": found,
        "settings": settings,
        "text_bytes": data.bytes,
        "seconds": seconds,
    }
    name = given.name or f"structures-scale-{given.scale:g}-{given.wal_level}"
    print(f"\nwritten to {write_result(name, content)}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="benchmarks/structures.py"
    )
    parser.add_argument("--scale", type=float, default=0.5, help="of lineitem: 1 is 760 MB of text [0.5]")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way is taken [3]")
    parser.add_argument("--wal-level", choices=("replica", "minimal"), default="minimal")
    parser.add_argument("--data", type=Path, default=CACHE, help="directory of files and databases [.cache/bench]")
    parser.add_argument("--name", help="of the file in benchmarks/results; default: by the options")
    given = parser.parse_args()
    given.data.mkdir(parents=True, exist_ok=True)
    given.data = given.data.resolve()
    return given


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchmarkError as error:
        sys.exit(f"benchmark failed: {error}")
