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

from data import lineitem
from machine import headline, machine
from measure import cores, run_together, tipple_command
from postgresql_server import LOADER, BenchServer, bench_server
from report import spread, table, write_result
from script import add_lineitem, end, parse, parser_of

IN_ORDER = "l_orderkey,l_linenumber"
"""A key in whose order the file is."""
IN_NO_ORDER = "l_partkey,l_suppkey,l_orderkey,l_linenumber"
DAY = "l_shipdate"

SORTED_BY_HAND = (
    "SET maintenance_work_mem = '1GB'; SET work_mem = '1GB'",
    "BEGIN",
    f"CREATE TABLE in_order AS SELECT * FROM lineitem ORDER BY {DAY}",
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
    Way("sorted by hand: CREATE TABLE AS … ORDER BY", ("--structure", "heap"), SORTED_BY_HAND),
)


def run(server: BenchServer, way: Way, file: Path) -> tuple[float, float]:
    """Seconds by the clock, and of CPU time of client and server.

    Raises:
        BenchmarkError: a command failed.
    """
    database = server.fresh_database()
    try:
        server.settle()
        url = server.server.url(LOADER, database)
        words = ("load", str(file), "--table", "lineitem", "--schema", "tpch", "--into", url, "--progress", "none")
        commands = [tipple_command(*words, *way.options)]
        if way.by_hand:
            commands.append(server.psql(database, *way.by_hand))
        samples = [run_together([command], postmaster=server.postmaster) for command in commands]
        cpu = sum(sample.client_cpu + (sample.server_cpu or 0.0) for sample in samples)
        return sum(sample.seconds for sample in samples), cpu
    finally:
        server.server.drop_database(database)


def main() -> int:
    given = _arguments()
    found = machine(given.data)
    print(headline(found), flush=True)
    data = lineitem(given.scale, 0, given.data)
    seconds: dict[str, list[tuple[float, float]]] = {way.label: [] for way in WAYS}
    with bench_server(given.wal_level, given.data) as server:
        settings = server.measured_with()
        for number in range(given.rounds):
            for way in WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]:
                whole, cpu = run(server, way, data.file)
                seconds[way.label].append((whole, cpu))
                progress = f"{number + 1}/{given.rounds}  {way.label}: {whole:.2f} s, CPU {cpu:.2f} s"
                print(progress, file=sys.stderr, flush=True)
    print(f"\nlineitem, {data.megabytes:.0f} MB of text, wal_level={given.wal_level}, {cores()} streams")
    lines = [
        [label, spread([whole for whole, _ in times]), spread([cpu for _, cpu in times])]
        for label, times in seconds.items()
    ]
    print(table(["median (min-max) of seconds", "whole", "CPU"], lines))
    content = {
        "command": shlex.join(["benchmarks/structures.py", *sys.argv[1:]]),
        "machine": found,
        "settings": settings,
        "text_bytes": data.bytes,
        "seconds_and_cpu_seconds": seconds,
    }
    name = given.name or f"structures-scale-{given.scale:g}-{given.wal_level}"
    print(f"\nwritten to {write_result(name, content)}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = parser_of("structures.py", __doc__)
    add_lineitem(parser, scale=0.5, rounds=3)
    parser.add_argument("--wal-level", choices=("replica", "minimal"), default="minimal")
    return parse(parser)


if __name__ == "__main__":
    end(main)
