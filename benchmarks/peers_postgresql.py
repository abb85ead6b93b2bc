"""PostgreSQL: its own COPY text in all its ways, and Tipple, in turn on the same server.

Every peer is psql, a small client in C, with one process for each session. Server-side COPY reads the file
itself and spares the socket, but needs a superuser and the file on the server: it is here because it is what
COPY can do at best.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from contest import Contestant, Digest, Track
from data import Data, deal
from measure import Command, cores, run_together
from postgresql_server import LOADER, VERSION, BenchServer, make_ready

from tipple.plan.tpch import CREATE_TABLE

PARALLEL_TIPPLE = "tipple"
"""Key of the contestant that the goals are for: all defaults, without the extension."""
ONE_CORE_TIPPLE = "tipple-one-core"
"""Key of the same with one stream, on one core with the server: beside a server, one stream keeps two cores busy."""
DIRECT_TIPPLE = "tipple-direct"
"""Key of the same with the extension tipple_direct."""
ONE_CORE_DIRECT = "tipple-direct-one-core"
ONE_FREEZE = "copy-freeze-1"
"""Key of one session of COPY with FREEZE."""


class PostgresTrack(Track):
    """A new database for each run, on one server."""

    key = "postgresql"

    def __init__(self, server: BenchServer) -> None:
        super().__init__()
        self.server = server
        self.postmaster = server.postmaster
        self.name = f"PostgreSQL {VERSION}, wal_level={server.settings['wal_level']}"

        self.binaries: dict[Path, Path] = {}
        """Pieces of text, and the same as COPY binary: larger than the text, so they do not stay."""

    def tidy(self) -> None:
        for path in self.binaries.values():
            path.unlink()
        self.binaries.clear()

    def fresh(self) -> str:
        return self.server.fresh_database()

    def drop(self, database: str) -> None:
        self.server.server.drop_database(database)

    def settle(self) -> None:
        self.server.settle()

    def url(self, database: str) -> str:
        return self.server.server.url(LOADER, database)

    def digest(self, database: str, tables: Sequence[str] = ("lineitem",)) -> Digest:
        return self.server.digest(database, tables)

    def make_table(self, database: str, create: str) -> None:
        self.server.create_owned(database, create)

    def with_extension(self, database: str) -> None:
        """Make a database ready for the write path `direct`."""
        make_ready(self.server.server, database)


TBL = "DELIMITER '|'"


class CopyPeers:
    """PostgreSQL's own ways to load one table from pieces of text."""

    def __init__(
        self,
        track: PostgresTrack,
        pieces: Sequence[Path],
        *,
        table: str = "lineitem",
        create: str = CREATE_TABLE["lineitem"],
        options: str = TBL,
        unpack: str | None = None,
    ) -> None:
        """Describe the table and the pieces.

        Args:
            track: where contestants will run.
            pieces: files that together hold the rows.
            table: name.
            create: CREATE TABLE of it.
            options: of COPY, for the pieces.
            unpack: command that writes a piece to standard output as `options` describe it; None for plain pieces.
        """
        self.track = track
        self.server = track.server
        self.pieces = pieces
        self.table = table
        self.create = create
        self.options = options
        self.unpack = unpack
        for path in pieces:
            self.server.require_readable(path)

    def make_table(self, database: str) -> None:
        """The empty table, of the ordinary role."""
        self.track.make_table(database, self.create)

    def fill(self, database: str, pieces: Sequence[Path] | None = None) -> None:
        """Make the table and load it by plain COPY."""
        self.make_table(database)
        for command in self._from_client(database, [self.pieces if pieces is None else pieces]):
            run_together([command])

    def client(self, sessions: int, expected: Digest) -> Contestant:
        """psql reads the files."""
        copy = f"{self.unpack.split()[0].rpartition('/')[2]} | psql" if self.unpack else "\\copy text"
        return Contestant(
            f"client-copy-{sessions}", f"{copy}, {sessions_text(sessions)}",
            lambda database: self._from_client(database, deal(self.pieces, sessions)),
            expected, self.make_table, (self.table,),
        )  # fmt: skip

    def server_side(self, sessions: int, expected: Digest, source: str = "FROM file") -> Contestant:
        """The server reads the files."""

        def commands(database: str) -> list[Command]:
            return [
                self.server.psql(database, *(self._server_copy(self.table, p) for p in share))
                for share in deal(self.pieces, sessions)
            ]

        label = f"COPY text {source}, {sessions_text(sessions)}"
        return Contestant(f"copy-file-{sessions}", label, commands, expected, self.make_table, (self.table,))

    def binary(self, sessions: int, expected: Digest) -> Contestant:
        """Files that somebody has turned into COPY binary before, outside of the time: less cannot be asked of COPY."""

        def commands(database: str) -> list[Command]:
            return [
                self.server.psql(
                    database, *(server_copy(self.table, self.track.binaries[p], "FORMAT binary") for p in share)
                )
                for share in deal(self.pieces, sessions)
            ]

        label = f"COPY binary FROM file prepared before, {sessions_text(sessions)}"
        return Contestant(f"copy-binary-{sessions}", label, commands, expected, self._prepare_binary, (self.table,))

    def freeze(self, key: str, sessions: int, expected: Digest, *, server_side: bool) -> Contestant:
        """Into tables that the transaction creates; several sessions need a table each."""
        tables = tuple(f"{self.table}_{i}" for i in range(sessions)) if sessions > 1 else (self.table,)
        copy = self._server_copy if server_side else self._client_copy

        def commands(database: str) -> list[Command]:
            return [
                self.server.psql(
                    database,
                    self.create.replace(f"CREATE TABLE {self.table}", f"CREATE TABLE {table}", 1),
                    *(copy(table, path, ", FREEZE") for path in share),
                    transaction=True,
                )
                for table, share in zip(tables, deal(self.pieces, sessions), strict=True)
            ]

        name = "COPY text FROM file, FREEZE" if server_side else "\\copy text FREEZE"
        into = f" into {sessions} tables" if sessions > 1 else ""
        return Contestant(key, f"{name}, {sessions_text(sessions)}{into}", commands, expected, tables=tables)

    def _prepare_binary(self, database: str) -> None:
        self.make_table(database)
        create = self.create.replace(f"CREATE TABLE {self.table}", "CREATE TABLE piece", 1)
        for piece in self.pieces:
            if piece not in self.track.binaries:
                path = self.server.scratch / f"{self.table}-{piece.stem}.copy"
                self.server.server.execute(
                    f"{create}; {self._server_copy('piece', piece)}; "
                    f"COPY piece TO '{path}' (FORMAT binary); DROP TABLE piece",
                    database,
                )
                self.track.binaries[piece] = path

    def _from_client(self, database: str, shares: Sequence[Sequence[Path]]) -> list[Command]:
        if self.unpack is None:
            return [self.server.psql(database, *(self._client_copy(self.table, p) for p in share)) for share in shares]
        copy = shlex.join(self.server.psql(database, f"COPY {self.table} FROM STDIN ({self.options})"))
        pipes = [[f"{self.unpack} {shlex.quote(str(path))} | {copy}" for path in share] for share in shares]
        return [["bash", "-o", "pipefail", "-ec", "\n".join(lines)] for lines in pipes]

    def _server_copy(self, table: str, path: Path, more: str = "") -> str:
        return server_copy(table, path, self.options + more)

    def _client_copy(self, table: str, path: Path, more: str = "") -> str:
        return "\\" + self._server_copy(table, path, more).replace("COPY", "copy", 1)


def lineitem_contestants(track: PostgresTrack, data: Data) -> list[Contestant]:
    """COPY in all its ways and Tipple, for lineitem as dbgen writes it."""
    peers = CopyPeers(track, data.pieces)
    track.server.require_readable(data.file)

    def first_piece(database: str) -> None:
        peers.fill(database, data.pieces[:1])

    whole, first = track.reference(peers.fill), track.reference(first_piece)
    twice = (whole[0] + first[0], whole[1] + first[1])
    new = ("--schema", "tpch")
    sessions = cores()

    def tipple(
        key: str,
        label: str,
        *options: str,
        prepare: Callable[[str], None] = lambda _: None,
        cores: int | None = None,
    ) -> Contestant:
        return track.contestant(key, label, [data.file], whole, *new, *options, prepare=prepare, cores=cores)

    found = [
        *(peers.client(number, whole) for number in (1, sessions, 2 * sessions)),
        *(peers.server_side(number, whole) for number in (1, sessions, 2 * sessions)),
        peers.binary(sessions, whole),
        peers.freeze(ONE_FREEZE, 1, whole, server_side=False),
        peers.freeze("copy-file-freeze-1", 1, whole, server_side=True),
        peers.freeze(f"copy-freeze-{sessions}-tables", sessions, whole, server_side=False),
        peers.freeze(f"copy-file-freeze-{sessions}-tables", sessions, whole, server_side=True),
        tipple(PARALLEL_TIPPLE, f"Tipple, new table, defaults (-j {sessions})"),
        tipple("tipple-j1", "Tipple, new table, -j 1", "--jobs", "1"),
        tipple(ONE_CORE_TIPPLE, "Tipple, new table, -j 1, all on one core", "--jobs", "1", cores=1),
        tipple("tipple-unverified", "Tipple, new table, --verify none", "--verify", "none"),
        tipple(
            DIRECT_TIPPLE, "Tipple, new table, direct", "--write-path", "direct", prepare=track.with_extension
        ),
        tipple(
            ONE_CORE_DIRECT, "Tipple, new table, direct, -j 1, all on one core", "--write-path", "direct",
            "--jobs", "1", prepare=track.with_extension, cores=1,
        ),
        track.contestant(
            "tipple-append", "Tipple, append to a table with rows", [data.file], twice, prepare=first_piece
        ),
    ]  # fmt: skip
    return without_twins(found)


def without_twins(contestants: Sequence[Contestant]) -> list[Contestant]:
    """Each key once: on a machine with one core, 1 and N sessions are one contestant."""
    return list({contestant.key: contestant for contestant in contestants}.values())


def server_copy(table: str, path: Path, options: str) -> str:
    """COPY by the server itself."""
    return f"COPY {table} FROM '{path}' ({options})"


def sessions_text(number: int) -> str:
    """A number of sessions in words."""
    return "1 session" if number == 1 else f"{number} sessions"
