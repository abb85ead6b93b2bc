"""`make bench`: Tipple and its peers on this machine, in turn, and whether Tipple reaches its goals.

    make bench                                     lineitem at scale 1, five rounds
    make bench ARGS="--scale 10 --rounds 3"        ten times as much; needs about 60 GB of disk
    make bench ARGS="--wal-level minimal"          a PostgreSQL server without replication
    make bench ARGS="--part postgresql --only tipple,copy-file-2"

Every round runs all contestants once, in an order of its own, so that whatever changes on the machine meets all
of them. Each run has a fresh database, begins after a checkpoint, and is verified by count and checksum of all
rows outside of its time. Other programs on the machine make the result worthless; it says so when it sees them.
"""

from __future__ import annotations

import argparse
import random
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from codec import codec_goal, codec_table, run_codec
from data import CACHE, Data, lineitem, read_through
from machine import headline, machine
from measure import BenchmarkError, Sample, cores
from peers_duckdb import DuckdbContest
from peers_postgresql import DIRECT_TIPPLE, ONE_FREEZE, PARALLEL_TIPPLE, PostgresContest
from postgresql_server import bench_server
from report import Goal, Result, cpu_goal, direct_goals, result_table, speed_goals, write_result

PARTS = ("codec", "duckdb", "postgresql")
FACTOR = 1.5
CPU_SHARE = 0.25
ORDER_SEED = 20250101


class Entrant(Protocol):
    """What all kinds of contestants have in common."""

    @property
    def key(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def is_tipple(self) -> bool: ...
    @property
    def one_table(self) -> bool: ...


E = TypeVar("E", bound=Entrant)


def main() -> int:
    given = _arguments()
    command = shlex.join(["benchmarks/run.py", *sys.argv[1:]])
    content: dict[str, Any] = {"command": command, "machine": machine(given.data)}
    print(headline(content["machine"]), flush=True)
    goals: list[Goal] = []
    if "codec" in given.part:
        speeds = run_codec()
        content["codec"] = {"text_mb_per_second": speeds}
        goals += codec_goal(speeds)
        print("\n" + codec_table(speeds), flush=True)
    if {"duckdb", "postgresql"} & set(given.part):
        data = lineitem(given.scale, 2 * cores(), given.data)
        content |= {"scale": data.scale, "text_bytes": data.bytes, "rounds": given.rounds}
        if "duckdb" in given.part:
            goals += _duckdb(given, data, content)
        if "postgresql" in given.part:
            goals += _postgresql(given, data, content)
    print("\nGoals")
    for goal in goals:
        print(goal)
    content["goals"] = [{"goal": g.text, "reached": g.reached, "met": g.met} for g in goals]
    print(f"\nwritten to {write_result(given.name or _name(given), content)}")
    return 0


def _duckdb(given: argparse.Namespace, data: Data, content: dict[str, Any]) -> list[Goal]:
    read_through([data.file])
    contest = DuckdbContest(data)
    try:
        results = play("duckdb", contest.contestants(), contest.run, given)
    finally:
        contest.close()
    content["duckdb"] = {"results": [result.record(data.megabytes) for result in results]}
    print("\n" + result_table("DuckDB", results, data.megabytes), flush=True)
    return speed_goals(results, "DuckDB", PARALLEL_TIPPLE, FACTOR, "its own COPY")


def _postgresql(given: argparse.Namespace, data: Data, content: dict[str, Any]) -> list[Goal]:
    read_through([data.file, *data.pieces])
    with bench_server(given.wal_level, given.data) as server:
        settings = server.measured_with()
        contest = PostgresContest(server, data)
        try:
            results = play("postgresql", contest.contestants(), contest.run, given)
        finally:
            contest.close()
    content["postgresql"] = {
        "settings": settings,
        "results": [result.record(data.megabytes) for result in results],
    }
    title = f"PostgreSQL {settings['version'].split()[1]}, wal_level={given.wal_level}"
    print("\n" + result_table(title, results, data.megabytes), flush=True)
    peers = "the best COPY text, parallel or not"
    return [
        *speed_goals(results, "PostgreSQL", PARALLEL_TIPPLE, FACTOR, peers),
        *cpu_goal(results, "PostgreSQL", PARALLEL_TIPPLE, CPU_SHARE),
        *direct_goals(results, DIRECT_TIPPLE, ONE_FREEZE, data.megabytes),
    ]


def play(engine: str, entrants: list[E], run: Callable[[E], Sample], given: argparse.Namespace) -> list[Result]:
    """All rounds of all contestants."""
    if given.only:
        entrants = [entrant for entrant in entrants if entrant.key in given.only]
        if not entrants:
            raise BenchmarkError(f"--only names no contestant of {engine}")
    samples: dict[str, list[Sample]] = {entrant.key: [] for entrant in entrants}
    shuffler = random.Random(ORDER_SEED)
    for number in range(1, given.rounds + 1):
        for entrant in shuffler.sample(entrants, len(entrants)):
            sample = run(entrant)
            samples[entrant.key].append(sample)
            progress = f"{engine} {number}/{given.rounds}  {entrant.label:<55} {sample.seconds:8.2f} s"
            print(progress, file=sys.stderr, flush=True)
    return [Result(e.key, e.label, e.is_tipple, e.one_table, samples[e.key]) for e in entrants]


def _name(given: argparse.Namespace) -> str:
    parts = "" if set(given.part) == set(PARTS) else "-" + "-".join(given.part)
    wal = "-minimal" if given.wal_level == "minimal" else ""
    return f"load-scale-{given.scale:g}{wal}{parts}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="benchmarks/run.py"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of lineitem: 1 is 760 MB of text [1]")
    parser.add_argument("--rounds", type=int, default=5, help="how often each contestant runs [5]")
    parser.add_argument("--wal-level", choices=("replica", "minimal"), default="replica")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; may be repeated")
    parser.add_argument("--only", type=lambda text: set(text.split(",")), help="keys of contestants, as in the JSON")
    parser.add_argument("--data", type=Path, default=CACHE, help="directory of files and databases [.cache/bench]")
    parser.add_argument("--name", help="of the file in benchmarks/results; default: by the options")
    given = parser.parse_args()
    given.part = given.part or list(PARTS)
    given.data.mkdir(parents=True, exist_ok=True)
    given.data = given.data.resolve()
    return given


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchmarkError as error:
        sys.exit(f"benchmark failed: {error}")
