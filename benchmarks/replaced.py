"""A table that others look at, replaced: what hangs on it carried over to another one, or rows replaced where they are.

    .venv/bin/python benchmarks/replaced.py [--scale 1] [--rounds 3]

Each is a whole `tipple load --mode replace` of lineitem into a table that has its rows already, an index, rights of
others and a view. A materialized view in place of the view is in the way: one session then deletes the rows and stores
the new ones in one transaction, as was done for tables with rights or views before; so it was for tables that refer to
others, here to the parts and suppliers there are. Verified by count and checksum.
"""

from __future__ import annotations

import sys

from data import Data, lineitem
from machine import headline, machine
from measure import BenchmarkError, cores, run_together, tipple_command
from postgresql_server import LOADER, BenchServer, bench_server, make_ready
from report import spread, table
from script import end, keep_result, lineitem_on_a_server

QUERY = "SELECT l_shipmode, sum(l_quantity) AS quantity FROM lineitem WHERE l_shipdate > '1998-11-01' GROUP BY 1"
KINDS = {"carried over": "VIEW", "replaced where it is": "MATERIALIZED VIEW"}
REFERRING = tuple(
    statement
    for column, name in (("l_partkey", "part"), ("l_suppkey", "supplier"))
    for statement in (
        f"CREATE TABLE {name} AS SELECT DISTINCT {column} FROM lineitem",
        f"ALTER TABLE {name} ADD PRIMARY KEY ({column})",
        f"ALTER TABLE lineitem ADD FOREIGN KEY ({column}) REFERENCES {name}",
    )
)


def run(bench: BenchServer, data: Data, kind: str, *, direct: bool, refers: bool) -> float:
    """Seconds of one load.

    Raises:
        BenchmarkError: it failed, or the rows are not those of the file.
    """
    database = bench.fresh_database()
    try:
        if direct:
            make_ready(bench.server, database)
        bench.create_table(database)
        words = ("load", str(data.file), "--into", bench.server.url(LOADER, database), "--table", "lineitem")
        quiet = ("--progress", "none", "--mode", "replace")
        run_together([tipple_command(*words, *quiet)])
        expected = bench.digest(database)
        for statement in (
            "CREATE INDEX ON lineitem (l_shipdate)",
            "GRANT SELECT ON lineitem TO PUBLIC",
            f"CREATE {kind} late AS {QUERY}",
            *(REFERRING if refers else ()),
        ):
            bench.create_owned(database, statement)
        bench.settle()
        seconds = run_together([tipple_command(*words, *quiet, "--restart")]).seconds
        if bench.digest(database) != expected:
            raise BenchmarkError(f"the rows of {database} are not those of {data.file}")
        return seconds
    finally:
        bench.server.drop_database(database)


def main() -> int:
    given = lineitem_on_a_server("replaced.py", __doc__)
    found = machine(given.data)
    print(headline(found), flush=True)
    data = lineitem(given.scale, 0, given.data)
    ways = {
        f"{label}{', by pages' if direct else ''}{', two foreign keys' if refers else ''}": (kind, direct, refers)
        for refers in (False, True)
        for direct in (False, True)
        for label, kind in KINDS.items()
    }
    seconds: dict[str, list[float]] = {label: [] for label in ways}
    with bench_server(given.wal_level, given.data) as bench:
        for number in range(given.rounds):
            for label, (kind, direct, refers) in ways.items():
                seconds[label].append(run(bench, data, kind, direct=direct, refers=refers))
                print(f"{number + 1}/{given.rounds}  {label}: {seconds[label][-1]:.2f} s", file=sys.stderr, flush=True)
    print(f"\nlineitem replaced, {data.megabytes:.0f} MB of text, {cores()} streams, wal_level={given.wal_level}")
    print(table(["median (min-max) of seconds", "whole"], [[label, spread(times)] for label, times in seconds.items()]))
    keep_result("replaced.py", given, found, {"text_bytes": data.bytes, "seconds": seconds})
    return 0


if __name__ == "__main__":
    end(main)
