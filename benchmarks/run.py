"""`make bench`: Tipple and its peers on this machine, in turn, and whether Tipple reaches its goals.

    make bench                                     everything at scale 1, five rounds: hours
    make bench ARGS="--part duckdb"                lineitem into DuckDB only; parts may be repeated
    make bench ARGS="--part postgresql --scale 10 --rounds 3"     ten times as much; needs about 55 GB of disk
    make bench ARGS="--part postgresql --wal-level minimal"       a PostgreSQL server without replication
    make bench ARGS="--part postgresql --only tipple,copy-file-2"
    make bench ARGS="--part formats --engine duckdb --form parquet --form wide"
    make bench ARGS="--part partitions --partitions 48"

Every round runs all contestants once, in an order of its own, so that whatever changes on the machine meets all
of them. Each run has a fresh database, begins after a checkpoint with its files in the page cache, and is verified by
count and checksum of all rows outside of its time. Other programs on the machine make the result worthless; it says so
when it sees them.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import peers_duckdb
import peers_postgresql
from codec import codec_goal, codec_table, run_codec
from contest import Rounds, play
from data import lineitem
from formats import run_formats
from forms import FORMS
from machine import headline, machine
from measure import cores
from partitions import run_partitions
from peer_bulkload import bulkload
from peers_duckdb import DuckdbTrack
from peers_postgresql import DIRECT_TIPPLE, ONE_CORE_DIRECT, ONE_CORE_TIPPLE, ONE_FREEZE, PARALLEL_TIPPLE, PostgresTrack
from postgresql_server import bench_server
from rejects import run_rejects
from report import Goal, Result, cpu_goal, direct_goals, ratio_goal, result_table, speed_goals, write_result
from script import add_lineitem, end, parse, parser_of

PARTS = ("codec", "duckdb", "postgresql", "formats", "rejects", "partitions")
ENGINES = ("duckdb", "postgresql")
FACTOR = 1.5
CPU_SHARE = 0.25
STREAMS_FACTOR = 1.8


def main() -> int:
    given = _arguments()
    content: dict[str, Any] = {
        "command": shlex.join(["benchmarks/run.py", *sys.argv[1:]]),
        "machine": machine(given.data),
        "scale": given.scale,
        "rounds": given.rounds,
    }
    print(headline(content["machine"]), flush=True)
    goals: list[Goal] = []
    for part in given.part:
        goals += _RUN[part](given, content)
    print("\nGoals")
    for goal in goals:
        print(goal)
    content["goals"] = [{"goal": g.text, "reached": g.reached, "met": g.met} for g in goals]
    print(f"\nwritten to {write_result(given.name or _name(given), content)}")
    return 0


def _codec(given: argparse.Namespace, content: dict[str, Any]) -> list[Goal]:
    speeds = run_codec()
    content["codec"] = {"text_mb_per_second": speeds}
    print("\n" + codec_table(speeds), flush=True)
    return codec_goal(speeds)


def _duckdb(given: argparse.Namespace, content: dict[str, Any]) -> list[Goal]:
    data = lineitem(given.scale, 0, given.data)
    content["text_bytes"] = data.bytes
    with _duckdb_track(given) as track:
        results = play(track.name, peers_duckdb.lineitem_contestants(track, data), track, given.how_often)
    content["duckdb"] = {"results": [result.record(data.megabytes) for result in results]}
    print("\n" + result_table(track.name, results, data.megabytes), flush=True)
    return [
        *speed_goals(results, track.name, PARALLEL_TIPPLE, FACTOR, "its own COPY"),
        *_cores_goal(results, track.name, PARALLEL_TIPPLE, ONE_CORE_TIPPLE),
    ]


def _cores_goal(results: Sequence[Result], title: str, subject: str, one_core: str) -> list[Goal]:
    one = next((result for result in results if result.key == one_core), None)
    return ratio_goal(results, f"{title}: a stream on each core, at least", subject, one, at_least=STREAMS_FACTOR)


def _postgresql(given: argparse.Namespace, content: dict[str, Any]) -> list[Goal]:
    data = lineitem(given.scale, 2 * cores(), given.data)
    content["text_bytes"] = data.bytes
    with _postgresql_track(given, content) as track:
        contestants = peers_postgresql.lineitem_contestants(track, data)
        if given.pg_bulkload is not None:
            contestants.append(bulkload(track, given.pg_bulkload, data.pieces, contestants[0].expected))
        results = play(track.name, contestants, track, given.how_often)
    content["postgresql"] = {"results": [result.record(data.megabytes) for result in results]}
    print("\n" + result_table(track.name, results, data.megabytes), flush=True)
    peers = "the best COPY text, parallel or not"
    return [
        *speed_goals(results, "PostgreSQL", PARALLEL_TIPPLE, FACTOR, peers),
        *cpu_goal(results, "PostgreSQL", PARALLEL_TIPPLE, CPU_SHARE),
        *direct_goals(results, DIRECT_TIPPLE, ONE_FREEZE, data.megabytes, given.wal_level),
        *_cores_goal(results, "PostgreSQL", PARALLEL_TIPPLE, ONE_CORE_TIPPLE),
        *_cores_goal(results, "PostgreSQL, direct", DIRECT_TIPPLE, ONE_CORE_DIRECT),
    ]


def _formats(given: argparse.Namespace, content: dict[str, Any]) -> list[Goal]:
    with _tracks(given, content) as tracks:
        content["formats"], goals = run_formats(tracks, given.form, given.scale, given.data, given.how_often)
    return goals


def _rejects(given: argparse.Namespace, content: dict[str, Any]) -> list[Goal]:
    with _tracks(given, content) as tracks:
        data = lineitem(given.scale, 2 * cores(), given.data)
        content["rejects"], goals = run_rejects(tracks, data, given.how_often)
    return goals


def _partitions(given: argparse.Namespace, content: dict[str, Any]) -> list[Goal]:
    goals: list[Goal] = []
    content["partitions"] = {}
    with _postgresql_track(given, content) as track:
        for number in given.partitions:
            found = run_partitions(track, given.scale, number, given.data, given.how_often)
            content["partitions"][number], more = found
            goals += more
    return goals


_RUN = {
    "codec": _codec,
    "duckdb": _duckdb,
    "postgresql": _postgresql,
    "formats": _formats,
    "rejects": _rejects,
    "partitions": _partitions,
}


@contextlib.contextmanager
def _duckdb_track(given: argparse.Namespace) -> Iterator[DuckdbTrack]:
    with contextlib.closing(DuckdbTrack(given.data)) as track:
        yield track


@contextlib.contextmanager
def _postgresql_track(given: argparse.Namespace, content: dict[str, Any]) -> Iterator[PostgresTrack]:
    with bench_server(given.wal_level, given.data) as server, contextlib.closing(PostgresTrack(server)) as track:
        content["postgresql_settings"] = server.measured_with()
        yield track


@contextlib.contextmanager
def _tracks(given: argparse.Namespace, content: dict[str, Any]) -> Iterator[list[DuckdbTrack | PostgresTrack]]:
    """Those of the engines that were asked for."""
    with contextlib.ExitStack() as stack:
        tracks: list[DuckdbTrack | PostgresTrack] = []
        if "duckdb" in given.engine:
            tracks.append(stack.enter_context(_duckdb_track(given)))
        if "postgresql" in given.engine:
            tracks.append(stack.enter_context(_postgresql_track(given, content)))
        yield tracks


def _name(given: argparse.Namespace) -> str:
    parts = "" if set(given.part) == set(PARTS) else "-" + "-".join(given.part)
    wal = "-minimal" if given.wal_level == "minimal" else ""
    return f"load-scale-{given.scale:g}{wal}{parts}"


def _arguments() -> argparse.Namespace:
    parser = parser_of("run.py", __doc__)
    add_lineitem(parser, scale=1.0, rounds=5)
    parser.add_argument("--wal-level", choices=("replica", "minimal"), default="replica")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; may be repeated")
    parser.add_argument("--engine", choices=ENGINES, action="append", help="only this one, in formats and rejects")
    parser.add_argument("--form", choices=tuple(FORMS), action="append", help="only this one, in formats")
    parser.add_argument("--partitions", type=int, nargs="+", default=[8, 48], help="how many, in that part [8 48]")
    parser.add_argument(
        "--only", type=lambda text: frozenset(text.split(",")), help="keys of contestants, as in the JSON"
    )
    parser.add_argument("--pg-bulkload", type=Path, help="source tree of pg_bulkload after `make`: one more peer")
    given = parse(parser)
    given.part = given.part or list(PARTS)
    given.engine = given.engine or list(ENGINES)
    given.form = given.form or list(FORMS)
    given.how_often = Rounds(given.rounds, given.only)
    given.pg_bulkload = given.pg_bulkload.resolve() if given.pg_bulkload else None
    return given


if __name__ == "__main__":
    end(main)
