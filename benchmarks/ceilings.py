"""How fast a load into DuckDB could be at most: what is left if reading costs nothing.

    .venv/bin/python benchmarks/ceilings.py [--form quoted-csv --form parquet] [--rounds 5]

Every load ends with DuckDB storing the rows, which is the same for all. So rows that lie in memory as Arrow are stored
by DuckDB alone, in the settings that Tipple uses, and neither starting Python nor making the rows counts. In turn with
that: DuckDB's own best COPY, and `tipple load`. The COPY's time divided by that of storing is the most that any loader
could reach.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path
from statistics import median

from forms import FORMS, Input, written
from machine import headline, machine
from measure import BenchmarkError, cores, run_together, tipple_command
from peers_duckdb import UNORDERED, DuckdbTrack
from report import spread, table, write_result
from script import add_lineitem, end, parse, parser_of

COPY, STORE, TIPPLE = "COPY, preserve_insertion_order=false", "storing alone", "tipple load"
ROW = ["form", COPY, STORE, TIPPLE, "at most", "reached"]


def seconds_of(way: str, given: Input, database: str) -> float:
    """Seconds of one way to fill a new file.

    Raises:
        BenchmarkError: it failed.
    """
    form, name = given.form, given.form.shape.name
    if way == STORE:
        script = Path(__file__).with_name("duckdb_store.py")
        words = [sys.executable, str(script), database, str(given.rows), name, form.shape.create]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchmarkError(done.stderr)
        return float(done.stdout)
    if way == COPY:
        copy = f"COPY {name} FROM '{given.file}' ({form.duckdb}{form.duckdb_reading})"
        return run_together([DuckdbTrack.statements(database, UNORDERED, form.shape.create, copy)]).seconds
    words = ("load", str(given.file), "--table", name, "--into", f"duckdb:///{database}", "--progress", "none")
    return run_together([tipple_command(*words, *given.options)]).seconds


def run(given: Input, track: DuckdbTrack, rounds: int) -> dict[str, list[float]]:
    """Seconds of all ways in turn; each is verified by count and checksum.

    Raises:
        BenchmarkError: one failed, or stored other rows.
    """
    name = given.form.shape.name
    rows = f"INSERT INTO {name} SELECT * FROM read_parquet('{given.rows}')"
    expected = track.fill(given.form.shape.create, rows, table=name)
    seconds: dict[str, list[float]] = {way: [] for way in (COPY, STORE, TIPPLE)}
    for number in range(rounds):
        for way, times in seconds.items():
            track.settle()
            database = track.fresh()
            times.append(seconds_of(way, given, database))
            if track.digest(database, (name,)) != expected:
                raise BenchmarkError(f"{way}: other rows than {given.rows} has")
            track.drop(database)
            print(f"{number + 1}/{rounds}  {given.form.key}, {way}: {times[-1]:.2f} s", file=sys.stderr, flush=True)
    return seconds


def main() -> int:
    given = _arguments()
    found = machine(given.data)
    print(headline(found), flush=True)
    track = DuckdbTrack(given.data)
    try:
        seconds = {
            key: run(written(FORMS[key], given.scale, 2 * cores(), given.data), track, given.rounds)
            for key in given.form
        }
    finally:
        track.close()
    lines = []
    for key, ways in seconds.items():
        copy, store, tipple = (median(ways[way]) for way in (COPY, STORE, TIPPLE))
        lines.append([key, *map(spread, ways.values()), f"{copy / store:.2f} x", f"{copy / tipple:.2f} x"])
    print("\n" + table(ROW, lines))
    content = {
        "command": shlex.join(["benchmarks/ceilings.py", *sys.argv[1:]]),
        "machine": found,
        "scale": given.scale,
        "seconds": seconds,
    }
    print(f"\nwritten to {write_result(given.name or 'ceilings-duckdb', content)}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = parser_of("ceilings.py", __doc__)
    parser.add_argument("--form", action="append", choices=FORMS, help="only this one; may be repeated")
    add_lineitem(parser, scale=1, rounds=5)
    given = parse(parser)
    given.form = given.form or list(FORMS)
    return given


if __name__ == "__main__":
    end(main)
