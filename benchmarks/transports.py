"""Ready-made pages to a server on the same machine: through shared memory, or through the connection.

    .venv/bin/python benchmarks/transports.py [--scale 1] [--rounds 5]

Each load is a whole command into a new table, without statistics, verified by count and checksum. Through the
connection pages go as they are, to an extension of version 1.3.
"""

from __future__ import annotations

import sys

from contest import Digest
from data import Data, lineitem
from machine import headline, machine
from measure import BenchmarkError, cores, run_together, tipple_command
from postgresql_server import LOADER, BenchServer, bench_server, forget_packing, make_ready
from report import spread, table
from script import add_lineitem, end, keep_result, parse, parser_of

WAYS = {
    "shared memory": "socket",
    # The same address as 127.0.0.1, but not one by which Tipple knows its own machine.
    "connection (TCP)": "127.1",
}


def run(bench: BenchServer, data: Data, host: str) -> tuple[float, Digest]:
    """Seconds of one load by way of `host`, and what the table holds then.

    Raises:
        BenchmarkError: it failed.
    """
    database = bench.fresh_database()
    try:
        make_ready(bench.server, database)
        forget_packing(bench.server, database)
        url = bench.server.url(LOADER, database, host)
        words = ("load", str(data.file), "--into", url, "--table", "lineitem", "--schema", "tpch")
        command = tipple_command(*words, "--progress", "none", "--no-analyze", "--write-path", "direct")
        bench.settle()
        return run_together([command]).seconds, bench.digest(database)
    finally:
        bench.server.drop_database(database)


def main() -> int:
    parser = parser_of("transports.py", __doc__)
    parser.add_argument("--wal-level", default="minimal", choices=["minimal", "replica"])
    add_lineitem(parser, scale=1, rounds=5)
    given = parse(parser)
    found = machine(given.data)
    print(headline(found), flush=True)
    data = lineitem(given.scale, 1, given.data)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    digests = set()
    with bench_server(given.wal_level, given.data) as bench:
        for number in range(given.rounds):
            for way, host in WAYS.items():
                took, digest = run(bench, data, host)
                digests.add(digest)
                seconds[way].append(took)
                print(f"{number + 1}/{given.rounds}  {way}: {took:.2f} s", file=sys.stderr, flush=True)
    if len(digests) != 1:
        raise BenchmarkError(f"the tables do not hold the same rows: {digests}")
    print(f"\nlineitem, {data.megabytes:.0f} MB of text, {cores()} streams, wal_level={given.wal_level}")
    print(table(["pages through", "median (min-max) of seconds"], [[way, spread(seconds[way])] for way in WAYS]))
    keep_result("transports.py", given, found, {"text_bytes": data.bytes, "seconds": seconds})
    return 0


if __name__ == "__main__":
    end(main)
