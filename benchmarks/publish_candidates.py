"""Ways to one visible commit of rows that N sessions stored, in an unpartitioned PostgreSQL table, measured.

    .venv/bin/python benchmarks/publish_candidates.py [--wal-level minimal] [--scale 1] [--rounds 5] [--sessions N]

The figures chose what `tipple load` does by default. The rows come as COPY binary from files that the server
wrote beforehand, so that no client and no parsing blurs the difference. `load` ends when all sessions have;
`publish` is what then makes the rows visible under the table's name. Each run is verified by count and checksum.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contest import Digest
from data import lineitem
from machine import headline, machine
from measure import BenchmarkError, Command, cores, run_together
from postgresql_server import BenchServer, bench_server
from report import spread, table, write_result
from script import add_lineitem, end, parse, parser_of

HIDDEN = "hidden_lineitem"


@dataclass(frozen=True)
class Candidate:
    """One way. `load` and `publish` get a database's name; `hidden` is the kind of table made beforehand."""

    key: str
    label: str
    leaves: str
    load: Callable[[str], list[Command]]
    publish: Callable[[str], Command] | None = None
    hidden: str | None = None
    tables: tuple[str, ...] = ("lineitem",)


class Candidates:
    """All candidates on one server."""

    def __init__(self, server: BenchServer, files: list[Path], reference: Digest) -> None:
        self.server = server
        self.files = files
        self.reference = reference
        self.staging = [f"{HIDDEN}_{number}" for number in range(len(files))]

    def all(self) -> list[Candidate]:
        rename = f"ALTER TABLE {HIDDEN} RENAME TO lineitem"
        merge = "INSERT INTO lineitem " + " UNION ALL ".join(f"SELECT * FROM {name}" for name in self.staging)
        drop = f"DROP TABLE {', '.join(self.staging)}"
        create = self.server.create_statement()
        inherit = [f"ALTER TABLE {name} INHERIT lineitem" for name in self.staging]
        sessions = "1 session" if len(self.files) == 1 else f"{len(self.files)} sessions"
        return [
            Candidate(
                "a", f"{sessions} into one hidden table, rename", "one table",
                self._into_hidden, self._one_by_one(rename), hidden="TABLE",
            ),
            Candidate(
                "b", f"{sessions} FREEZE into staging tables, INSERT ... SELECT", "one table",
                self._into_staging, self._one_by_one(create, merge, drop),
            ),
            Candidate(
                "c", f"{sessions} into one unlogged table, SET LOGGED, rename", "one table",
                self._into_hidden, self._one_by_one(f"ALTER TABLE {HIDDEN} SET LOGGED", rename),
                hidden="UNLOGGED TABLE",
            ),
            Candidate("d", "1 session FREEZE, one transaction", "one table", self._one_session),
            Candidate(
                "e", f"{sessions} FREEZE into staging tables, attach by INHERIT", "a table with children",
                self._into_staging, self._one_by_one(create, *inherit),
            ),
        ]  # fmt: skip

    def run(self, candidate: Candidate) -> tuple[float, float]:
        """Seconds of loading and of publishing.

        Raises:
            BenchmarkError: a command failed, or the rows are not those of the reference.
        """
        database = self.server.fresh_database()
        try:
            if candidate.hidden:
                self.server.create_table(database, HIDDEN, candidate.hidden)
            self.server.settle()
            load = run_together(candidate.load(database)).seconds
            publish = run_together([candidate.publish(database)]).seconds if candidate.publish else 0.0
            found = self.server.digest(database)
            if found != self.reference:
                raise BenchmarkError(f"{candidate.label}: rows and checksum {found}, expected {self.reference}")
            return load, publish
        finally:
            self.server.server.drop_database(database)

    def _one_by_one(self, *statements: str) -> Callable[[str], Command]:
        return lambda database: self.server.psql(database, *statements, transaction=True)

    def _into_hidden(self, database: str) -> list[Command]:
        return [self.server.psql(database, _copy(HIDDEN, file)) for file in self.files]

    def _into_staging(self, database: str) -> list[Command]:
        return [
            self.server.psql(
                database, self.server.create_statement(name), _copy(name, file, ", FREEZE"), transaction=True
            )
            for name, file in zip(self.staging, self.files, strict=True)
        ]

    def _one_session(self, database: str) -> list[Command]:
        statements = [_copy("lineitem", file, ", FREEZE") for file in self.files]
        create = self.server.create_statement()
        return [self.server.psql(database, create, *statements, transaction=True)]


def _copy(table_name: str, file: Path, options: str = "") -> str:
    return f"COPY {table_name} FROM '{file}' (FORMAT binary{options})"


def prepare(server: BenchServer, pieces: list[Path], sessions: int) -> tuple[list[Path], Digest]:
    """Let the server write the rows as COPY binary, one file for each session, and digest them."""
    database = server.fresh_database()
    try:
        server.create_table(database)
        for piece in pieces:
            server.require_readable(piece)
            server.server.execute(f"COPY lineitem FROM '{piece}' (DELIMITER '|')", database)
        ((blocks,),) = server.server.rows("SELECT pg_relation_size('lineitem') / 8192", database)
        bounds = [int(blocks) * number // sessions for number in range(sessions)] + [int(blocks) + 1]
        files = []
        for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
            files.append(server.server.directory / f"lineitem-{number}.binary")
            part = f"SELECT * FROM lineitem WHERE ctid >= '({begin},0)' AND ctid < '({end},0)'"
            server.server.execute(f"COPY ({part}) TO '{files[-1]}' (FORMAT binary)", database)
        return files, server.digest(database)
    finally:
        server.server.drop_database(database)


def main() -> int:
    given = _arguments()
    found = machine(given.data)
    print(headline(found), flush=True)
    data = lineitem(given.scale, 2 * cores(), given.data)
    with bench_server(given.wal_level, given.data) as server:
        settings = server.measured_with()
        files, reference = prepare(server, list(data.pieces), given.sessions)
        candidates = Candidates(server, files, reference)
        times: dict[str, list[tuple[float, float]]] = {candidate.key: [] for candidate in candidates.all()}
        for number in range(given.rounds):
            entrants = candidates.all()
            first = number % len(entrants)
            for candidate in entrants[first:] + entrants[:first]:
                load, publish = candidates.run(candidate)
                times[candidate.key].append((load, publish))
                progress = f"{number + 1}/{given.rounds}  {candidate.label}: {load:.2f} + {publish:.2f} s"
                print(progress, file=sys.stderr, flush=True)
    lines = [
        [
            f"({candidate.key}) {candidate.label}",
            spread([load for load, _ in times[candidate.key]]),
            spread([publish for _, publish in times[candidate.key]]),
            spread([load + publish for load, publish in times[candidate.key]]),
            candidate.leaves,
        ]
        for candidate in candidates.all()
    ]
    print(f"\nOne visible commit, wal_level={given.wal_level}, {data.megabytes:.0f} MB of text as COPY binary")
    print(table(["median (min-max) of seconds", "load", "publish", "total", "leaves"], lines))
    content = {
        "command": shlex.join(["benchmarks/publish_candidates.py", *sys.argv[1:]]),
        "machine": found,
        "settings": settings,
        "text_bytes": data.bytes,
        "sessions": given.sessions,
        "candidates": [
            {"key": c.key, "label": c.label, "leaves": c.leaves, "load_and_publish_seconds": times[c.key]}
            for c in candidates.all()
        ],
    }
    name = given.name or f"publish-candidates-scale-{given.scale:g}-{given.wal_level}"
    print(f"\nwritten to {write_result(name, content)}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = parser_of("publish_candidates.py", __doc__)
    add_lineitem(parser, scale=1.0, rounds=5)
    parser.add_argument("--sessions", type=int, default=cores(), help="[the cores of this process]")
    parser.add_argument("--wal-level", choices=("replica", "minimal"), default="replica")
    return parse(parser)


if __name__ == "__main__":
    end(main)
