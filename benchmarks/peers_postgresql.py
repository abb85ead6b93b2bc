"""PostgreSQL: its own COPY text in all its ways, and Tipple, in turn on the same server.

Every peer is psql, a small client in C, with one process for each session. Server-side COPY reads the file
itself and spares the socket, but needs a superuser and the file on the server: it is here because it is what
COPY can do at best.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from data import Data
from measure import BenchmarkError, Command, Sample, cores, run_together, tipple_command
from postgresql_server import LOADER, BenchServer, Digest, make_ready

PARALLEL_TIPPLE = "tipple"
"""Key of the contestant that the goals are for: all defaults, without the extension."""
DIRECT_TIPPLE = "tipple-direct"
"""Key of the same with the extension tipple_direct."""
ONE_FREEZE = "copy-freeze-1"
"""Key of one session of COPY with FREEZE."""


@dataclass(frozen=True)
class Contestant:
    """One way to load. `commands` gets the database's name; what `prepare` does is not timed."""

    key: str
    label: str
    commands: Callable[[str], list[Command]]
    prepare: Callable[[str], None] = lambda _: None
    tables: tuple[str, ...] = ("lineitem",)
    adds_to_first_piece: bool = False
    is_tipple: bool = False

    @property
    def one_table(self) -> bool:
        return len(self.tables) == 1


class PostgresContest:
    """All contestants, and how one of them runs."""

    def __init__(self, server: BenchServer, data: Data) -> None:
        self.server = server
        self.data = data
        for path in (data.file, *data.pieces):
            server.require_readable(path)
        self._scratch = tempfile.TemporaryDirectory(prefix="tipple-bench-")
        self._binaries: dict[Path, Path] = {}
        self.whole, self.first_piece = self._reference()

    def contestants(self) -> list[Contestant]:
        found = [
            self._client(1), self._client(cores()), self._client(2 * cores()),
            self._server_side(1), self._server_side(cores()), self._server_side(2 * cores()),
            self._binary(cores()),
            self._freeze(ONE_FREEZE, 1, server_side=False),
            self._freeze("copy-file-freeze-1", 1, server_side=True),
            self._freeze(f"copy-freeze-{cores()}-tables", cores(), server_side=False),
            self._freeze(f"copy-file-freeze-{cores()}-tables", cores(), server_side=True),
            self._tipple(PARALLEL_TIPPLE, f"Tipple, new table, defaults (-j {cores()})"),
            self._tipple("tipple-j1", "Tipple, new table, -j 1", "--jobs", "1"),
            self._tipple("tipple-unverified", "Tipple, new table, --verify none", "--verify", "none"),
            self._tipple(
                DIRECT_TIPPLE, "Tipple, new table, direct", "--write-path", "direct", ready=self._with_extension
            ),
            self._tipple("tipple-append", "Tipple, append to a table with rows", prepare=self._fill_first_piece),
        ]  # fmt: skip
        return list({contestant.key: contestant for contestant in found}.values())  # one core: 1 and N are one

    def run(self, contestant: Contestant) -> Sample:
        """One timed and verified run in a database of its own.

        Raises:
            BenchmarkError: it failed, or the table does not hold the rows of the file.
        """
        database = self.server.fresh_database()
        try:
            contestant.prepare(database)
            self.server.settle()
            sample = run_together(contestant.commands(database), postmaster=self.server.postmaster)
            if contestant.is_tipple:
                summary = json.loads(self._summary.read_text())
                sample.phases = {phase["name"]: phase["seconds"] for phase in summary["phases"]}
                sample.phases["whole job"] = summary["seconds"]
            expected = self.whole
            if contestant.adds_to_first_piece:
                expected = (expected[0] + self.first_piece[0], expected[1] + self.first_piece[1])
            found = self.server.digest(database, contestant.tables)
            if found != expected:
                raise BenchmarkError(f"{contestant.label}: rows and checksum {found}, expected {expected}")
            return sample
        finally:
            self.server.server.drop_database(database)

    def close(self) -> None:
        self._scratch.cleanup()

    # ---- contestants ---------------------------------------------------------------------------------------

    def _client(self, sessions: int) -> Contestant:
        def commands(database: str) -> list[Command]:
            shares = self.data.shares(sessions)
            return [self.server.psql(database, *(_client_copy("lineitem", p) for p in share)) for share in shares]

        label = f"\\copy text, {_sessions(sessions)}"
        return Contestant(f"client-copy-{sessions}", label, commands, self.server.create_table)

    def _server_side(self, sessions: int) -> Contestant:
        def commands(database: str) -> list[Command]:
            shares = self.data.shares(sessions)
            return [self.server.psql(database, *(_server_copy("lineitem", p) for p in share)) for share in shares]

        label = f"COPY text FROM file, {_sessions(sessions)}"
        return Contestant(f"copy-file-{sessions}", label, commands, self.server.create_table)

    def _binary(self, sessions: int) -> Contestant:
        """Files that somebody has turned into COPY binary before, outside of the time: less cannot be asked of COPY."""

        def commands(database: str) -> list[Command]:
            return [
                self.server.psql(database, *(_server_copy("lineitem", self._binaries[p], binary=True) for p in share))
                for share in self.data.shares(sessions)
            ]

        label = f"COPY binary FROM file prepared before, {_sessions(sessions)}"
        return Contestant(f"copy-binary-{sessions}", label, commands, self._prepare_binary)

    def _prepare_binary(self, database: str) -> None:
        self.server.create_table(database)
        for piece in self.data.pieces:
            if piece not in self._binaries:
                path = self.server.scratch / f"{piece.stem}.copy"
                self.server.server.execute(
                    f"{self.server.create_statement('piece')}; {_server_copy('piece', piece)}; "
                    f"COPY piece TO '{path}' (FORMAT binary); DROP TABLE piece",
                    database,
                )
                self._binaries[piece] = path

    def _with_extension(self, database: str) -> None:
        make_ready(self.server.server, database)

    def _freeze(self, key: str, sessions: int, *, server_side: bool) -> Contestant:
        tables = tuple(f"lineitem_{i}" for i in range(sessions)) if sessions > 1 else ("lineitem",)
        copy = _server_copy if server_side else _client_copy

        def commands(database: str) -> list[Command]:
            return [
                self.server.psql(
                    database,
                    self.server.create_statement(table),
                    *(copy(table, path, ", FREEZE") for path in share),
                    transaction=True,
                )
                for table, share in zip(tables, self.data.shares(sessions), strict=True)
            ]

        name = "COPY text FROM file, FREEZE" if server_side else "\\copy text FREEZE"
        into = f" into {sessions} tables" if sessions > 1 else ""
        return Contestant(key, f"{name}, {_sessions(sessions)}{into}", commands, tables=tables)

    def _tipple(
        self,
        key: str,
        label: str,
        *options: str,
        prepare: Callable[[str], None] | None = None,
        ready: Callable[[str], None] = lambda _: None,
    ) -> Contestant:
        def commands(database: str) -> list[Command]:
            self._summary.unlink(missing_ok=True)
            url = self.server.server.url(LOADER, database)
            words = ["load", str(self.data.file), "--into", url, "--table", "lineitem", "--progress", "none"]
            if not prepare:
                words += ["--schema", "tpch"]
            return [tipple_command(*words, "--summary", str(self._summary), *options)]

        appends = prepare is not None
        return Contestant(key, label, commands, prepare or ready, adds_to_first_piece=appends, is_tipple=True)

    # ---- what results are compared with --------------------------------------------------------------------

    @property
    def _summary(self) -> Path:
        return Path(self._scratch.name) / "summary.json"

    def _reference(self) -> tuple[Digest, Digest]:
        """Digests of all rows and of the first piece's, from plain COPY. Not timed; also warms the server up."""
        database = self.server.fresh_database()
        try:
            self._fill_first_piece(database)
            first = self.server.digest(database)
            rest = [_server_copy("lineitem", path) for path in self.data.pieces[1:]]
            run_together([self.server.psql(database, *rest)])
            return self.server.digest(database), first
        finally:
            self.server.server.drop_database(database)

    def _fill_first_piece(self, database: str) -> None:
        self.server.create_table(database)
        self.server.server.execute(_server_copy("lineitem", self.data.pieces[0]), database)


def _server_copy(table: str, path: Path, options: str = "", *, binary: bool = False) -> str:
    form = "FORMAT binary" if binary else "DELIMITER '|'"
    return f"COPY {table} FROM '{path}' ({form}{options})"


def _client_copy(table: str, path: Path, options: str = "") -> str:
    return "\\" + _server_copy(table, path, options).replace("COPY", "copy", 1)


def _sessions(number: int) -> str:
    return "1 session" if number == 1 else f"{number} sessions"
