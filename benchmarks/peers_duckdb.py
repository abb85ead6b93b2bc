"""DuckDB: its own COPY and Tipple, in turn, of the same file into the same table of a fresh database file.

The table names columns and types, so COPY has nothing to guess; it ignores the '|' at the end of a record by
itself. Both checkpoint and close the file before their time ends.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import duckdb
from contest import Contestant, Digest, Track
from data import Data
from measure import Command, run_together
from peers_postgresql import ONE_CORE_TIPPLE, PARALLEL_TIPPLE

from tipple.plan.tpch import CREATE_TABLE

UNORDERED = "SET preserve_insertion_order = false"
TBL = "DELIMITER '|', HEADER false, AUTO_DETECT false"


class DuckdbTrack(Track):
    """A new database file for each run."""

    key = "duckdb"
    name = "DuckDB"

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory(prefix="duckdb-", dir=directory)
        self._file = Path(self._directory.name) / "bench.duckdb"

    def close(self) -> None:
        super().close()
        self._directory.cleanup()

    def fresh(self) -> str:
        return str(self._file)

    def drop(self, database: str) -> None:
        for path in self._file.parent.glob(f"{Path(database).name}*"):
            path.unlink()

    def settle(self) -> None:
        os.sync()

    def url(self, database: str) -> str:
        return f"duckdb:///{database}"

    def digest(self, database: str, tables: Sequence[str] = ("lineitem",)) -> Digest:
        count = total = 0
        with duckdb.connect(database, read_only=True) as connection:
            for table in tables:
                query = f"SELECT count(*), sum(hash(t)::HUGEINT) FROM (SELECT COLUMNS(*)::VARCHAR FROM {table}) t"
                row = connection.execute(query).fetchone()
                assert row is not None
                count, total = count + int(row[0]), total + int(row[1] or 0)
        return count, total

    def make_table(self, database: str, create: str) -> None:
        with duckdb.connect(database) as connection:
            connection.execute(create)

    @staticmethod
    def statements(database: str, *statements: str) -> Command:
        """A process that runs statements."""
        return [sys.executable, str(Path(__file__).with_name("duckdb_run.py")), database, *statements]

    def fill(self, *statements: str, table: str = "lineitem") -> Digest:
        """Digest of a table after some statements: what others are compared with."""

        def run(database: str) -> None:
            run_together([self.statements(database, *statements)])

        return self.reference(run, table)


def lineitem_contestants(track: DuckdbTrack, data: Data) -> list[Contestant]:
    """DuckDB's own COPY with its options, and Tipple, for lineitem as dbgen writes it."""
    create = CREATE_TABLE["lineitem"]

    def copy(options: str = TBL) -> str:
        return f"COPY lineitem FROM '{data.file}' ({options})"

    expected = track.fill(create, copy())

    def own(key: str, label: str, *statements: str) -> Contestant:
        return Contestant(key, label, lambda database: [track.statements(database, *statements)], expected)

    def tipple(key: str, label: str, *options: str, cores: int | None = None) -> Contestant:
        return track.contestant(key, label, [data.file], expected, "--schema", "tpch", *options, cores=cores)

    return [
        own("copy", "COPY, default", create, copy()),
        own("copy-unordered", "COPY, preserve_insertion_order=false", UNORDERED, create, copy()),
        own("copy-unquoted", "COPY, the same, QUOTE ''", UNORDERED, create, copy(f"{TBL}, QUOTE '', ESCAPE ''")),
        tipple(PARALLEL_TIPPLE, "Tipple, defaults"),
        tipple(ONE_CORE_TIPPLE, "Tipple, -j 1, on one core", "--jobs", "1", cores=1),
        tipple("tipple-unverified", "Tipple, --verify none", "--verify", "none"),
    ]
