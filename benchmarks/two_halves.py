"""What a second core can give at most: a load on one core, and the same on each of two cores that share nothing.

    .venv/bin/python benchmarks/two_halves.py [--scale 1] [--rounds 5]

Two streams of one load have a server, a table and a file in common. Here nothing is: each core has a server of its own,
a client of its own and a database of its own, and both load lineitem at once. What they then do in the time that one
needs alone is what the machine gives, whatever is loaded by whom. Beside it: two streams of one load on both cores,
against one stream on one. In turn, verified by count and checksum.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from contest import Digest
from data import Data, deal, lineitem
from machine import headline, machine
from measure import BenchmarkError, Command, cores, keep_server_on, on_core, run_together, tipple_command
from peers_duckdb import DuckdbTrack
from peers_postgresql import TBL, server_copy
from postgresql_server import LOADER, BenchServer, bench_server, make_ready
from report import spread, table
from script import end, keep_result, lineitem_on_a_server

ALONE, BOTH, SHARED = "one stream on one core", "on each of two cores", "two streams of one load"
Seconds = dict[str, list[float]]


class Way(ABC):
    """A way to load lineitem that is tried by all cores."""

    name: str

    @abstractmethod
    def begin(self, place: int, streams: int) -> list[Command]:
        """Make the destination of one of the two places ready, and say what loads it, at once."""

    @abstractmethod
    def end(self, place: int) -> Digest:
        """What has been loaded there, which is removed."""

    @abstractmethod
    def keep_on(self, place: int, chosen: Sequence[int]) -> None:
        """Have a server run on some cores only."""


class ByServer(Way):
    """Into PostgreSQL: a server for each place."""

    def __init__(self, name: str, data: Data, servers: Sequence[BenchServer]) -> None:
        self.name = name
        self.data = data
        self.servers = servers
        self.databases: dict[int, str] = {}

    def begin(self, place: int, streams: int) -> list[Command]:
        bench = self.servers[place]
        database = self.databases[place] = bench.fresh_database()
        commands = self.commands(bench, database, streams)
        bench.settle()
        return commands

    def commands(self, bench: BenchServer, database: str, streams: int) -> list[Command]:
        """The load, into a database that has nothing yet."""
        if self.name == "pages":
            make_ready(bench.server, database)
        into = ("--into", bench.server.url(LOADER, database), "--write-path", _WRITE_PATH[self.name])
        return _tipple(self.data, streams, *into)

    def end(self, place: int) -> Digest:
        bench, database = self.servers[place], self.databases.pop(place)
        found = bench.digest(database)
        bench.server.drop_database(database)
        return found

    def keep_on(self, place: int, chosen: Sequence[int]) -> None:
        keep_server_on(chosen, self.servers[place].postmaster)


_WRITE_PATH = {"COPY binary": "binary", "pages": "direct"}


class ByCopy(ByServer):
    """PostgreSQL's own COPY text, from the server's own files."""

    def commands(self, bench: BenchServer, database: str, streams: int) -> list[Command]:
        bench.create_table(database)
        copies = [[server_copy("lineitem", piece, TBL) for piece in share] for share in deal(self.data.pieces, streams)]
        return [bench.psql(database, *statements) for statements in copies]


class ByDuckdb(Way):
    """Into a DuckDB file for each place."""

    name = "DuckDB"

    def __init__(self, data: Data, tracks: Sequence[DuckdbTrack]) -> None:
        self.data = data
        self.tracks = tracks

    def begin(self, place: int, streams: int) -> list[Command]:
        track = self.tracks[place]
        track.settle()
        return _tipple(self.data, streams, "--into", track.url(track.fresh()))

    def end(self, place: int) -> Digest:
        track = self.tracks[place]
        found = track.digest(track.fresh())
        track.drop(track.fresh())
        return found

    def keep_on(self, place: int, chosen: Sequence[int]) -> None:
        return


def _tipple(data: Data, streams: int, *words: str) -> list[Command]:
    given = ("--table", "lineitem", "--schema", "tpch", "--jobs", str(streams), "--progress", "none", "--no-analyze")
    return [tipple_command("load", str(data.file), *given, *words)]


def timed(way: Way, places: Sequence[int], streams: int) -> tuple[float, list[Digest]]:
    """Seconds of loads that run at once, each on a core of its own; one with several streams has them all."""
    everywhere = list(range(cores()))
    commands = []
    for place in places:
        chosen = [place] if streams == 1 else everywhere
        words = way.begin(place, streams)
        way.keep_on(place, chosen)
        commands += [on_core(chosen, command) for command in words]
    seconds = run_together(commands).seconds
    for place in places:
        way.keep_on(place, everywhere)
    return seconds, [way.end(place) for place in places]


def run(way: Way, rounds: int) -> Seconds:
    """Seconds of each of the three, in turn.

    Raises:
        BenchmarkError: a load failed, or not all have stored the same rows.
    """
    seconds: Seconds = {ALONE: [], BOTH: [], SHARED: []}
    digests: set[Digest] = set()
    for number in range(rounds):
        for label, places, streams in ((ALONE, [0], 1), (BOTH, [0, 1], 1), (SHARED, [0], 2)):
            taken, found = timed(way, places, streams)
            seconds[label].append(taken)
            digests.update(found)
            print(f"{number + 1}/{rounds}  {way.name}, {label}: {taken:.2f} s", file=sys.stderr, flush=True)
    if len(digests) != 1:
        raise BenchmarkError(f"{way.name}: the tables do not hold the same rows: {digests}")
    return seconds


def row(way: str, seconds: Seconds) -> list[str]:
    """The times, what the second core gives to loads that share nothing, and what it gives to one load."""
    alone = median(seconds[ALONE])
    most, reached = 2 * alone / median(seconds[BOTH]), alone / median(seconds[SHARED])
    return [way, *(spread(times) for times in seconds.values()), f"{most:.2f} x", f"{reached:.2f} x"]


def main() -> int:
    given = lineitem_on_a_server("two_halves.py", __doc__)
    if cores() < 2:
        raise BenchmarkError("this needs two cores")
    found = machine(given.data)
    print(headline(found), flush=True)
    data = lineitem(given.scale, 2 * cores(), given.data)
    with ExitStack() as stack:
        servers = [stack.enter_context(bench_server(given.wal_level, given.data)) for _ in range(2)]
        tracks = [DuckdbTrack(Path(given.data)) for _ in range(2)]
        for track in tracks:
            stack.callback(track.close)
        ways = [
            ByCopy("COPY text", data, servers),
            ByServer("COPY binary", data, servers),
            ByServer("pages", data, servers),
            ByDuckdb(data, tracks),
        ]
        seconds = {way.name: run(way, given.rounds) for way in ways}
    print(
        table(["way", ALONE, BOTH, SHARED, "at most", "reached"], [row(way, times) for way, times in seconds.items()])
    )
    keep_result("two_halves.py", given, found, {"scale": given.scale, "seconds": seconds})
    return 0


if __name__ == "__main__":
    end(main)
