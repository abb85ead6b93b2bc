"""The part `formats`: other forms and shapes than lineitem as dbgen writes it, against the engine's own best.

DuckDB reads the same file as Tipple. PostgreSQL's sessions read pieces of it, and what the server cannot read is
unpacked by a program into psql, a pipe for each session. It reads no Parquet: pyarrow turns that into CSV on the
way, and COPY of the same rows as text files that somebody has prepared before is a peer too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contest import Contestant, Rounds, play
from data import lineitem
from forms import FORMS, Form, Input, written
from measure import cores
from peers_duckdb import UNORDERED, DuckdbTrack
from peers_postgresql import DIRECT_TIPPLE, ONE_FREEZE, PARALLEL_TIPPLE, CopyPeers, PostgresTrack, without_twins
from report import Goal, Result, ratio_goal, result_table, speed_goals
from shapes import LINEITEM

FACTOR = 1.3
DIRECT_FACTOR = 2.5


def run_formats(
    tracks: Sequence[DuckdbTrack | PostgresTrack], keys: Sequence[str], scale: float, directory: Path, rounds: Rounds
) -> tuple[dict[str, Any], list[Goal]]:
    """All contestants of each form on each track: the records for the JSON file, and the goals."""
    content: dict[str, Any] = {}
    goals: list[Goal] = []
    for key in keys:
        form = FORMS[key]
        given = written(form, scale, 2 * cores(), directory)
        content[key] = {"bytes": given.file.stat().st_size}
        for track in tracks:
            title = f"{track.name}, {form.label}"
            contestants = (
                _duckdb(track, given) if isinstance(track, DuckdbTrack) else _postgresql(track, given, scale, directory)
            )
            results = play(title, contestants, track, rounds)
            content[key][track.key] = [result.record(given.megabytes) for result in results]
            print("\n" + result_table(title, results, given.megabytes), flush=True)
            goals += speed_goals(results, title, PARALLEL_TIPPLE, FACTOR, "the engine's own best")
            goals += _direct_goals(results, title, form)
    return content, goals


def _direct_goals(results: Sequence[Result], title: str, form: Form) -> list[Goal]:
    if form.shape == LINEITEM:
        return []
    peers = [result for result in results if not result.is_tipple]
    best = min(peers, key=lambda result: result.seconds, default=None)
    return ratio_goal(results, f"{title}: direct at least", DIRECT_TIPPLE, best, at_least=DIRECT_FACTOR)


def _duckdb(track: DuckdbTrack, given: Input) -> list[Contestant]:
    form, table = given.form, given.form.shape.name
    create = form.shape.create
    copy = f"COPY {table} FROM '{given.file}' ({form.duckdb}{form.duckdb_reading})"
    rows = f"INSERT INTO {table} SELECT * FROM read_parquet('{given.rows}')"
    expected = track.fill(create, rows, table=table)

    def own(key: str, label: str, *statements: str) -> Contestant:
        return Contestant(
            key, label, lambda database: [track.statements(database, *statements)], expected, tables=(table,)
        )

    found = [
        own("copy", "COPY, default", create, copy),
        own("copy-unordered", "COPY, preserve_insertion_order=false", UNORDERED, create, copy),
        track.contestant(PARALLEL_TIPPLE, "Tipple, defaults", [given.file], expected, *given.options, table=table),
    ]
    if form.suffix == "parquet":
        insert = f"INSERT INTO {table} SELECT * FROM read_parquet('{given.file}')"
        found.append(
            own(
                "insert-unordered",
                "INSERT from read_parquet, preserve_insertion_order=false",
                UNORDERED,
                create,
                insert,
            )
        )
    return found


def _postgresql(track: PostgresTrack, given: Input, scale: float, directory: Path) -> list[Contestant]:
    form, table, sessions = given.form, given.form.shape.name, cores()
    peers = CopyPeers(
        track, given.pieces, table=table, create=form.shape.create, options=form.postgresql, unpack=form.unpack
    )
    expected = track.reference(peers.fill, table)
    found = [peers.client(1, expected), peers.client(sessions, expected)]
    if form.unpack is None:
        found += [
            peers.server_side(sessions, expected),
            peers.freeze(ONE_FREEZE, 1, expected, server_side=True),
            peers.binary(sessions, expected),
        ]
    elif form.suffix == "parquet":
        text = CopyPeers(track, lineitem(scale, 2 * sessions, directory).pieces)
        found.append(text.server_side(sessions, expected, "of text files prepared before"))
    found += [
        track.contestant(PARALLEL_TIPPLE, "Tipple, binary", [given.file], expected, *given.options, table=table),
        track.contestant(
            DIRECT_TIPPLE, "Tipple, direct", [given.file], expected, *given.options, "--write-path", "direct",
            table=table, prepare=track.with_extension,
            optional=True,
        ),
    ]  # fmt: skip
    return without_twins(found)
