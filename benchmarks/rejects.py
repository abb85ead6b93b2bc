"""The part `rejects`: what records that cannot be stored cost the others.

One record in a hundred with a wrong value or a field too few, of four kinds; and a thousand
in six million that repeat a key, or (PostgreSQL) refer to a part that is not there. Each is compared with the
same load of the file without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from contest import Contestant, Digest, Rounds, play
from data import Data, complete, lines_of, write_lines
from peers_duckdb import TBL, DuckdbTrack
from peers_postgresql import CopyPeers, PostgresTrack
from report import Goal, cost_goal, result_table

from tipple.plan.tpch import CREATE_TABLE, PRIMARY_KEYS

BAD_EVERY = 100
REPEATED_EVERY = 6000
REPEATS_BEFORE = 5
"""How far before it the record stands that is repeated: in the same window, mostly."""
BAD_COST = 1.10
VIOLATION_COST = 1.20
MAX_REJECTS = "2%"

_FIELDS = "(([^|]*[|]){%d})[^|]*"
_SPOILT = f"""
    CASE rowid // {BAD_EVERY} % 4
        WHEN 0 THEN 'x' || line
        WHEN 1 THEN regexp_replace(line, '[^|]*[|]$', '')
        WHEN 2 THEN regexp_replace(line, '^{_FIELDS % 5}', '\\1' || repeat('9', 20))
        ELSE regexp_replace(line, '^{_FIELDS % 10}', '\\11995-02-30')
    END"""
"""No number; the last field missing; more than numeric(15,2) holds; no date. (Too long a text is none of them, because
DuckDB's varchar(n) holds it.)"""


_ORPHANED = "regexp_replace(line, '^([^|]*[|])[^|]*', '\\199999999')"
"""A part that is not there."""
PARTS = 200_000
SUPPLIERS = 10_000
ORDERS = 6_000_000
"""Greatest keys at scale 1."""
PARTITIONS = 4


@dataclass(frozen=True)
class Spoilt:
    """A file with records that cannot be stored, and those of it that can, as COPY text."""

    file: Path
    good: Path


def spoilt(data: Data) -> tuple[Spoilt, Spoilt]:
    """Files with bad records, and with repeated keys."""
    place = data.file.parent / "spoilt"
    bad = Spoilt(place / "bad.tbl", place / "bad-good.text")
    repeated = Spoilt(place / "repeated.tbl", place / "repeated-good.text")
    _write_where_missing(place, data, [(bad, BAD_EVERY, _SPOILT), (repeated, REPEATED_EVERY, "before")])
    return bad, repeated


def orphaned(data: Data) -> Spoilt:
    """A file with records of parts that are not there."""
    place = data.file.parent / "orphaned"
    found = Spoilt(place / "orphans.tbl", place / "orphans-good.text")
    _write_where_missing(place, data, [(found, REPEATED_EVERY, _ORPHANED)])
    return found


def _write_where_missing(place: Path, data: Data, files: Sequence[tuple[Spoilt, int, str]]) -> None:
    """Makes files in which one record in so many is another one (SQL: of a `line`, and of one `before` it)."""
    if place.exists():
        return
    with complete(place) as unfinished:
        scratch = unfinished / "lines.duckdb"
        with duckdb.connect(str(scratch)) as connection:
            connection.execute(f"CREATE TABLE lines AS {lines_of(data.file)}")
            for one, every, instead in files:
                chosen = f"rowid % {every} = {every // 2}"
                lines = f"(SELECT rowid, line, lag(line, {REPEATS_BEFORE}) OVER () AS before FROM lines)"
                all_of_them = f"SELECT CASE WHEN {chosen} THEN {instead} ELSE line END FROM {lines}"
                write_lines(connection, all_of_them, unfinished / one.file.name)
                storable = f"SELECT left(line, -1) FROM lines WHERE NOT ({chosen})"
                write_lines(connection, storable, unfinished / one.good.name)
        scratch.unlink()


def run_rejects(
    tracks: Sequence[DuckdbTrack | PostgresTrack], data: Data, rounds: Rounds
) -> tuple[dict[str, Any], list[Goal]]:
    """All contestants on each track: the records for the JSON file, and the goals."""
    bad, repeated = spoilt(data)
    content: dict[str, Any] = {}
    goals: list[Goal] = []
    for track in tracks:
        title = f"{track.name}, records that cannot be stored"
        results = play(title, _contestants(track, data, bad, repeated), track, rounds)
        content[track.key] = [result.record(data.megabytes) for result in results]
        print("\n" + result_table(title, results, data.megabytes), flush=True)
        bad_text, repeated_text = f"{track.name}: 1 % bad records", f"{track.name}: a repeated key in {REPEATED_EVERY}"
        goals += cost_goal(results, bad_text, "bad", "clean", at_most=BAD_COST)
        goals += cost_goal(results, f"{bad_text}, direct", "bad-direct", "clean-direct", at_most=BAD_COST)
        goals += cost_goal(results, repeated_text, "repeated", "keyed-skip", at_most=VIOLATION_COST)
        goals += cost_goal(results, repeated_text, "repeated", "keyed", at_most=VIOLATION_COST)
        by_pages = f"{track.name} by pages: a repeated key in {REPEATED_EVERY}"
        goals += cost_goal(results, by_pages, "repeated-direct", "keyed-direct", at_most=VIOLATION_COST)
        orphans_text = f"{track.name}: a part that is missing in {REPEATED_EVERY}"
        goals += cost_goal(results, orphans_text, "orphans", "foreign", at_most=VIOLATION_COST)
    return content, goals


def _contestants(track: DuckdbTrack | PostgresTrack, data: Data, bad: Spoilt, repeated: Spoilt) -> list[Contestant]:
    create = CREATE_TABLE["lineitem"]
    key = ", ".join(PRIMARY_KEYS["lineitem"])
    keyed_create = create.replace("\n)", f",\n    PRIMARY KEY ({key})\n)")
    skip = ("--on-error", "skip", "--max-rejects", MAX_REJECTS, "--rejects", str(track.rejects))

    def plain(database: str) -> None:
        track.make_table(database, create)

    def keyed(database: str) -> None:
        track.make_table(database, keyed_create)

    def load(
        name: str, label: str, file: Path, expected: Digest, *options: str,
        prepare: Callable[[str], None] = plain, rejects: bool = False, optional: bool = False,
    ) -> Contestant:  # fmt: skip
        accepted = (3,) if rejects else (0,)
        return track.contestant(
            name, label, [file], expected, *options, prepare=prepare, accepted=accepted, optional=optional
        )

    clean, good, once = (_digest(track, pieces) for pieces in (data.pieces, [bad.good], [repeated.good]))
    skipping = "--on-error skip"
    found = [
        load("clean", "clean, --on-error stop", data.file, clean),
        load("clean-skip", f"clean, {skipping}", data.file, clean, *skip),
        load("bad", f"1 % bad records, {skipping}", bad.file, good, *skip, rejects=True),
        load("keyed", "primary key, clean, --on-error stop", data.file, clean, prepare=keyed),
        load("keyed-skip", f"primary key, clean, {skipping}", data.file, clean, *skip, prepare=keyed),
        load(
            "repeated", f"primary key, one repeated in {REPEATED_EVERY}, {skipping}", repeated.file, once, *skip,
            prepare=keyed, rejects=True, optional=True,
        ),
    ]  # fmt: skip
    if isinstance(track, PostgresTrack):

        def direct(database: str) -> None:
            plain(database)
            track.with_extension(database)

        def keyed_direct(database: str) -> None:
            keyed(database)
            track.with_extension(database)

        path = ("--write-path", "direct")
        found += [
            load("clean-direct", "direct, clean, --on-error stop", data.file, clean, *path, prepare=direct),
            load(
                "bad-direct", f"direct, 1 % bad, {skipping}", bad.file, good, *path, *skip, prepare=direct, rejects=True
            ),
            load(
                "keyed-direct", "direct, primary key, clean, --on-error stop", data.file, clean, *path,
                prepare=keyed_direct,
            ),
            load(
                "repeated-direct", f"direct, primary key, one repeated in {REPEATED_EVERY}, {skipping}", repeated.file,
                once, *path, *skip, prepare=keyed_direct, rejects=True,
            ),
        ]  # fmt: skip
        orphans = orphaned(data)
        orphans_digest = _digest(track, [orphans.good])

        def foreign(database: str) -> None:
            track.make_table(database, _partitioned(data.scale))

        foreign_keys = f"{PARTITIONS} partitions, two foreign keys"
        found += [
            load("foreign", f"{foreign_keys}, clean, --on-error stop", data.file, clean, prepare=foreign),
            load("foreign-skip", f"{foreign_keys}, clean, {skipping}", data.file, clean, *skip, prepare=foreign),
            load(
                "orphans", f"{foreign_keys}, one violated in {REPEATED_EVERY}, {skipping}", orphans.file,
                orphans_digest, *skip, prepare=foreign, rejects=True,
            ),
            # As the server judges them: row by row.
            load(
                "orphans-keep", f"the same with --indexes keep, {skipping}", orphans.file, orphans_digest,
                "--indexes", "keep", *skip, prepare=foreign, rejects=True,
            ),
        ]  # fmt: skip
    return found


def _partitioned(scale: float) -> str:
    """Lineitem in partitions, and the keys that it refers to."""
    size = round(ORDERS * scale) // PARTITIONS + 1
    bounds = [f"FROM ({n * size}) TO ({(n + 1) * size})" for n in range(PARTITIONS)]
    keys = (("parts", "partkey", PARTS), ("suppliers", "suppkey", SUPPLIERS))
    return "; ".join(
        [
            *(f"CREATE TABLE {name} ({key} bigint PRIMARY KEY)" for name, key, _ in keys),
            *(f"INSERT INTO {name} SELECT generate_series(1, {round(most * scale)})" for name, _, most in keys),
            CREATE_TABLE["lineitem"] + " PARTITION BY RANGE (l_orderkey)",
            *(f"CREATE TABLE lineitem_{n} PARTITION OF lineitem FOR VALUES {bound}" for n, bound in enumerate(bounds)),
            *(f"ALTER TABLE lineitem ADD FOREIGN KEY (l_{key}) REFERENCES {name}" for name, key, _ in keys),
        ]
    )


def _digest(track: DuckdbTrack | PostgresTrack, pieces: Sequence[Path]) -> Digest:
    if isinstance(track, PostgresTrack):
        return track.reference(CopyPeers(track, pieces).fill)
    copies = [f"COPY lineitem FROM '{piece}' ({TBL})" for piece in pieces]
    return track.fill(CREATE_TABLE["lineitem"], *copies)
