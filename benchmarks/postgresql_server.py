"""The PostgreSQL server of the benchmarks: the tests' own server code, with settings that survive a power cut."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from contest import Digest
from measure import BenchmarkError, Command

from extension.pages import forget_packing, make_ready
from servers.installations import server_user
from servers.postgres import LOADER, PostgresServer
from tipple.plan.tpch import CREATE_TABLE

__all__ = ["LOADER", "VERSION", "BenchServer", "bench_server", "forget_packing", "make_ready"]

VERSION = 18

SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "shared_buffers": "2GB",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "30min",
    "autovacuum": "off",  # it would fall upon whoever comes next
    "timezone": "UTC",
    "log_statement": "none",
}


class BenchServer:
    """A running server, and what every benchmark does with it."""

    def __init__(self, server: PostgresServer, settings: dict[str, str]) -> None:
        self.server = server
        self.settings = settings
        self.postmaster = int((server.data / "postmaster.pid").read_text().splitlines()[0])

    @property
    def scratch(self) -> Path:
        """A directory that the server can write to, on the disk of its data."""
        return self.server.data

    def fresh_database(self) -> str:
        """A database of the ordinary role that Tipple connects as."""
        return self.server.create_database()

    def create_table(self, database: str, name: str = "lineitem", kind: str = "TABLE") -> None:
        """Lineitem, owned by the ordinary role."""
        self.create_owned(database, self.create_statement(name, kind))

    def create_owned(self, database: str, statement: str) -> None:
        """Tables, made by statements of the ordinary role."""
        self.server.execute(f"SET ROLE {LOADER}; {statement}", database)

    @staticmethod
    def create_statement(name: str = "lineitem", kind: str = "TABLE") -> str:
        return CREATE_TABLE["lineitem"].replace("CREATE TABLE lineitem", f"CREATE {kind} {name}", 1)

    def psql(self, database: str, *statements: str, transaction: bool = False) -> Command:
        """A psql that runs statements or backslash commands, one after the other."""
        command = [str(self.server.bin / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d"]
        command += [self.server.url(dbname=database), *(["-1"] if transaction else [])]
        for statement in statements:
            command += ["-c", statement]
        return command

    def settle(self) -> None:
        """Leave nothing to write that an earlier run made."""
        self.server.execute("CHECKPOINT")
        os.sync()

    def digest(self, database: str, tables: Sequence[str] = ("lineitem",)) -> Digest:
        """Count and checksum of all rows of some tables."""
        count = total = 0
        for table in tables:
            query = f"SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)), 0) FROM {table} t"
            ((rows, checksum),) = self.server.rows(query, database)
            count, total = count + int(rows), total + int(checksum)
        return count, total

    @staticmethod
    def require_readable(path: Path) -> None:
        """Raise BenchmarkError unless the server itself can read a file."""
        _require(path, "-r")

    def measured_with(self) -> dict[str, str]:
        """Version and settings, as the server reports them."""
        shown = {"version": str(self.server.rows("SELECT version()")[0][0])}
        for name in (*self.settings, "data_checksums", "io_method"):
            shown[name] = str(self.server.rows(f"SHOW {name}")[0][0])
        return shown


def _require(path: Path, right: str) -> None:
    user = server_user()
    done = subprocess.run(["test", right, str(path)], cwd="/", **user.popen_arguments)  # type: ignore[call-overload]
    if done.returncode:
        raise BenchmarkError(
            f"PostgreSQL runs as {user.name}, who cannot use {path}: choose another directory by --data DIR"
        )


@contextlib.contextmanager
def bench_server(wal_level: str, directory: Path) -> Iterator[BenchServer]:
    """A server below `directory` (not in /tmp, which may be memory), gone at the end."""
    settings = {**SETTINGS, "wal_level": wal_level}
    if wal_level == "minimal":
        settings["max_wal_senders"] = "0"
    directory.mkdir(parents=True, exist_ok=True)
    _require(directory, "-x")
    with tempfile.TemporaryDirectory(prefix="server-", dir=directory) as place:
        Path(place).chmod(0o755)
        server = PostgresServer(VERSION, settings, parent=Path(place))
        try:
            server.start()
            yield BenchServer(server, settings)
        finally:
            server.destroy()
