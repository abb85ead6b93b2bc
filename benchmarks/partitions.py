"""The part `partitions`: experiment A, lineitem divided by its key, loaded from files that match its partitions.

PostgreSQL's own best is COPY into the parent. Tipple fills hidden partitions and attaches them together, from the
same files, from the whole file in the order of the key, and from the whole file in random order. What routing costs in
the last case shows against files that are divided and in random order as well.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
from contest import Contestant, Rounds, play
from data import Data, complete, lineitem, lineitem_in_parts, lines_of, strip, write_lines
from measure import cores, median_of
from peers_postgresql import CopyPeers, PostgresTrack, without_twins
from report import Goal, Result, best_peer, cost_goal, ratio_goal, result_table

from tipple.plan.tpch import CREATE_TABLE

FACTOR = 2.0
ROUTING_COST = 1.10
PUBLISH_SECONDS = 1.0
STREAMS_FACTOR = 1.8


@dataclass(frozen=True)
class Divided:
    """Lineitem in files that each hold one partition, and whole."""

    whole: Data
    parts: tuple[Path, ...]
    """As dbgen writes them; part i has the i-th range of keys."""
    texts: tuple[Path, ...]
    """The same for COPY, without the '|' at the end."""
    shuffled: Path | None
    """All records in random order, where somebody is to load them."""
    shuffled_parts: tuple[Path, ...]
    """The same divided, so that each file holds one partition, in random order: what routing is compared with, because
    records in random order are slower to read by themselves."""

    @property
    def create(self) -> str:
        """The parent and its partitions, as statements."""
        bounds = [_first_key(part) for part in self.parts[1:]]
        edges = ["MINVALUE", *map(str, bounds), "MAXVALUE"]
        statements = [f"{CREATE_TABLE['lineitem']} PARTITION BY RANGE (l_orderkey)"]
        for number, (low, high) in enumerate(itertools.pairwise(edges)):
            bound = f"FOR VALUES FROM ({low}) TO ({high})"
            statements.append(f"CREATE TABLE lineitem_{number} PARTITION OF lineitem {bound}")
        return "; ".join(statements)


def divided(scale: float, parts: int, directory: Path, *, mixed: bool) -> Divided:
    """The files; made where they are missing, and those in random order if they are wanted."""
    data = lineitem(scale, 0, directory)
    files = lineitem_in_parts(scale, parts, directory)
    place, names = files[0].parent, [file.name for file in files]
    texts = place.with_name(f"parts-{parts}-text")
    if not texts.exists():
        with complete(texts) as unfinished:
            for file in files:
                strip(file, unfinished / file.name)
    whole = Divided(data, files, tuple(texts / name for name in names), None, ())
    if not mixed:
        return whole
    shuffled = place.with_name("shuffled") / "lineitem.tbl"
    if not shuffled.exists():
        with complete(shuffled.parent) as unfinished:
            query = f"SELECT line FROM ({lines_of(data.file)}) ORDER BY hash(line)"
            with duckdb.connect(str(unfinished / "sort.duckdb")) as connection:
                write_lines(connection, query, unfinished / shuffled.name)
            (unfinished / "sort.duckdb").unlink()
    separate = place.with_name(f"parts-{parts}-shuffled")
    if not separate.exists():
        with complete(separate) as unfinished:
            _divide(shuffled, [_first_key(file) for file in files[1:]], [unfinished / name for name in names])
    return replace(whole, shuffled=shuffled, shuffled_parts=tuple(separate / name for name in names))


def _divide(whole: Path, bounds: Sequence[int], parts: Sequence[Path]) -> None:
    """Writes each record to the file that has its range of keys, in the order in which they come."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(part.open("wb", 1 << 20)) for part in parts]
        for line in stack.enter_context(whole.open("rb")):
            files[bisect.bisect_right(bounds, int(line[: line.index(b"|")]))].write(line)


def _first_key(part: Path) -> int:
    with part.open() as file:
        return int(file.readline().partition("|")[0])


def run_partitions(
    track: PostgresTrack, scale: float, parts: int, directory: Path, rounds: Rounds
) -> tuple[dict[str, Any], list[Goal]]:
    """All contestants: the records for the JSON file, and the goals."""
    mixed = rounds.only is None or any(key.startswith("shuffled") for key in rounds.only)
    given = divided(scale, parts, directory, mixed=mixed)
    megabytes = given.whole.megabytes
    title = f"{track.name}, {parts} partitions"
    results = play(title, _contestants(track, given), track, rounds)
    print("\n" + result_table(title, results, megabytes), flush=True)
    goals: list[Goal] = []
    for path in ("binary", "direct"):
        text = f"{title}, {path}: at least"
        goals += ratio_goal(results, text, f"files-{path}", best_peer(results), at_least=FACTOR)
        for kind, base in (("ordered", "files"), ("shuffled", "shuffled-files")):
            text = f"{title}, {path}: one file, {kind}"
            goals += cost_goal(results, text, f"{kind}-{path}", f"{base}-{path}", at_most=ROUTING_COST)
        one = next((result for result in results if result.key == f"files-{path}-one-core"), None)
        goals += ratio_goal(
            results, f"{title}, {path}, a stream on each core: at least", f"files-{path}", one, at_least=STREAMS_FACTOR
        )
    goals += [goal for result in results if result.is_tipple for goal in _publish_goal(title, result)]
    return {"results": [result.record(megabytes) for result in results]}, goals


def _publish_goal(title: str, result: Result) -> list[Goal]:
    seconds = median_of(result.samples, lambda sample: sample.phases.get("publish"))
    if seconds is None:
        return []
    text = f"{title}, {result.label}: publish in less than {PUBLISH_SECONDS:g} s"
    return [Goal(text, f"{seconds:.3f} s", seconds < PUBLISH_SECONDS)]


def _contestants(track: PostgresTrack, given: Divided) -> list[Contestant]:
    peers = CopyPeers(track, given.texts, create=given.create)
    expected = track.reference(peers.fill)
    sessions = cores()

    def with_extension(database: str) -> None:
        peers.make_table(database)
        track.with_extension(database)

    def tipple(
        kind: str, label: str, path: str, sources: Sequence[Path], *options: str, cores: int | None = None
    ) -> Contestant:
        prepare = with_extension if path == "direct" else peers.make_table
        words = ("--write-path", path, *options)
        return track.contestant(
            kind, f"Tipple {path}, {label}", sources, expected, *words, prepare=prepare, optional=path == "direct",
            cores=cores,
        )  # fmt: skip

    found = [
        *(peers.client(number, expected) for number in (1, sessions)),
        *(peers.server_side(number, expected) for number in (1, sessions)),
    ]
    for path in ("binary", "direct"):
        found += [
            tipple(f"files-{path}", "a file for each partition", path, given.parts),
            tipple(f"files-{path}-j1", "a file for each partition, -j 1", path, given.parts, "--jobs", "1"),
            tipple(
                f"files-{path}-one-core",
                "a file for each partition, -j 1, all on one core",
                path,
                given.parts,
                "--jobs",
                "1",
                cores=1,
            ),
            tipple(f"ordered-{path}", "one file, in the order of the key", path, [given.whole.file]),
        ]
        if given.shuffled is not None:
            found += [
                tipple(
                    f"shuffled-files-{path}", "a file for each partition, in random order", path, given.shuffled_parts
                ),
                tipple(f"shuffled-{path}", "one file, in random order", path, [given.shuffled]),
            ]
    return without_twins(found)
