"""Lineitem into a server that a network lies before: by COPY, and by ready-made pages, as they are or packed.

    .venv/bin/python benchmarks/network.py [--scale 1] [--rounds 5] [--gigabits 1 --gigabits 10]

The network is a process that lets so many bytes a second through to the server, on the same machine and its cores.
Each load is a whole command into a new table, without statistics, verified by count and checksum. Pages that are never
packed go to an extension of version 1.3.
"""

from __future__ import annotations

import sys

from contest import Digest
from data import Data, lineitem
from machine import headline, machine
from measure import BenchmarkError, cores, run_together, tipple_command
from narrow_link import HOST, narrow_link
from postgresql_server import LOADER, BenchServer, bench_server, forget_packing, make_ready
from report import spread, table
from script import add_lineitem, end, keep_result, parse, parser_of

COPY, BINARY, PLAIN, PAGES = r"\copy, one session", "tipple, COPY binary", "tipple, pages as they are", "tipple, pages"


def run(bench: BenchServer, data: Data, way: str, rate: float | None) -> tuple[float, Digest]:
    """Seconds of one load, and what the table holds then.

    Raises:
        BenchmarkError: it failed.
    """
    database = bench.fresh_database()
    try:
        make_ready(bench.server, database)
        if way == PLAIN:
            forget_packing(bench.server, database)
        with narrow_link(bench.server.port, rate) as port:
            url = bench.server.url(LOADER, database, HOST, port=port)
            if way == COPY:
                bench.create_table(database)
                copy = rf"\copy lineitem FROM '{data.pieces[0]}' (DELIMITER '|')"
                command = [str(bench.server.bin / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", copy]
            else:
                path = "binary" if way == BINARY else "direct"
                words = ("load", str(data.file), "--into", url, "--table", "lineitem", "--schema", "tpch")
                command = tipple_command(*words, "--progress", "none", "--no-analyze", "--write-path", path)
            bench.settle()
            seconds = run_together([command]).seconds
        return seconds, bench.digest(database)
    finally:
        bench.server.drop_database(database)


def main() -> int:
    parser = parser_of("network.py", __doc__)
    parser.add_argument("--wal-level", default="minimal", choices=["minimal", "replica"])
    parser.add_argument("--gigabits", type=float, action="append", help="that the network carries a second [1, 10]")
    add_lineitem(parser, scale=1, rounds=5)
    given = parse(parser)
    found = machine(given.data)
    print(headline(found), flush=True)
    data = lineitem(given.scale, 1, given.data)
    speeds = {f"{gigabits:g} Gbit/s": gigabits * 1e9 / 8 for gigabits in given.gigabits or [1.0, 10.0]}
    seconds: dict[str, dict[str, list[float]]] = {speed: {} for speed in speeds}
    digests = set()
    with bench_server(given.wal_level, given.data) as bench:
        for number in range(given.rounds):
            for speed, rate in speeds.items():
                for way in (COPY, BINARY, PLAIN, PAGES):
                    took, digest = run(bench, data, way, rate)
                    digests.add(digest)
                    seconds[speed].setdefault(way, []).append(took)
                    print(f"{number + 1}/{given.rounds}  {speed}, {way}: {took:.2f} s", file=sys.stderr, flush=True)
    if len(digests) != 1:
        raise BenchmarkError(f"the tables do not hold the same rows: {digests}")
    print(f"\nlineitem, {data.megabytes:.0f} MB of text, {cores()} streams, wal_level={given.wal_level}")
    rows = [[way, *(spread(seconds[speed][way]) for speed in speeds)] for way in (COPY, BINARY, PLAIN, PAGES)]
    print(table(["median (min-max) of seconds", *speeds], rows))
    keep_result("network.py", given, found, {"text_bytes": data.bytes, "seconds": seconds})
    return 0


if __name__ == "__main__":
    end(main)
