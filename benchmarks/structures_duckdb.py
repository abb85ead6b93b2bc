"""Ways to make a structure of a DuckDB table, measured: no key, a key before or after the rows, sorted, Parquet files.

    .venv/bin/python benchmarks/structures_duckdb.py [--scale 0.5] [--rounds 3]

The figures chose what `--structure btree` does on DuckDB. Each is a whole `tipple load` of lineitem from text, verified
by count, into a fresh file.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from data import lineitem
from machine import headline, machine
from measure import cores, run_together, tipple_command
from report import spread, table, write_result
from script import add_lineitem, end, parse, parser_of

IN_ORDER = "l_orderkey,l_linenumber"
"""A key in whose order the file is."""
IN_NO_ORDER = "l_partkey,l_suppkey,l_orderkey,l_linenumber"

WAYS: dict[str, tuple[str, ...]] = {
    "columnstore": ("--structure", "columnstore"),
    **{
        f"btree, key {order}, {when} the rows": ("--structure", "btree", "--key", key, "--load-as", form)
        for key, order in ((IN_ORDER, "in the file's order"), (IN_NO_ORDER, "in no order"))
        for form, when in (("heap", "after"), ("btree", "before"))
    },
    "sorted": ("--structure", "sorted", "--key", "l_shipdate"),
    "parquet": ("--structure", "parquet"),
    "parquet, by year": ("--structure", "parquet", "--partition-by", "range(l_shipdate, every=year)"),
}


def run(options: tuple[str, ...], file: Path, place: Path) -> float:
    """Seconds of one load.

    Raises:
        BenchmarkError: it failed.
    """
    directory = Path(tempfile.mkdtemp(dir=place))
    try:
        words = ("load", str(file), "--table", "lineitem", "--schema", "tpch", "--progress", "none")
        return run_together([tipple_command(*words, "--into", f"duckdb:///{directory}/b.duckdb", *options)]).seconds
    finally:
        shutil.rmtree(directory)


def main() -> int:
    given = _arguments()
    found = machine(given.data)
    print(headline(found), flush=True)
    data = lineitem(given.scale, 0, given.data)
    seconds: dict[str, list[float]] = {label: [] for label in WAYS}
    for number in range(given.rounds):
        for label, options in WAYS.items():
            seconds[label].append(run(options, data.file, given.data))
            print(f"{number + 1}/{given.rounds}  {label}: {seconds[label][-1]:.2f} s", file=sys.stderr, flush=True)
    print(f"\nlineitem, {data.megabytes:.0f} MB of text, {cores()} streams")
    print(table(["median (min-max) of seconds", "whole"], [[label, spread(times)] for label, times in seconds.items()]))
    content = {
        "command": shlex.join(["benchmarks/structures_duckdb.py", *sys.argv[1:]]),
        "machine": found,
        "text_bytes": data.bytes,
        "seconds": seconds,
    }
    name = given.name or f"structures-duckdb-scale-{given.scale:g}"
    print(f"\nwritten to {write_result(name, content)}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = parser_of("structures_duckdb.py", __doc__)
    add_lineitem(parser, scale=0.5, rounds=3)
    return parse(parser)


if __name__ == "__main__":
    end(main)
