"""DuckDB: its own COPY and Tipple, in turn, of the same file into the same table of a fresh database file.

The table names columns and types, so COPY has nothing to guess; it ignores the '|' at the end of a record by
itself. Both checkpoint and close the file before their time ends.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import duckdb
from data import Data
from measure import BenchmarkError, Command, Sample, run_together, tipple_command
from peers_postgresql import PARALLEL_TIPPLE

_UNQUOTED = ", QUOTE '', ESCAPE ''"


@dataclass(frozen=True)
class DuckdbContestant:
    """One way to load; `words` is the command without file and database."""

    key: str
    label: str
    options: tuple[str, ...]
    is_tipple: bool = False
    one_table: bool = True


class DuckdbContest:
    """All contestants, and how one of them runs."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self._directory = tempfile.TemporaryDirectory(prefix="duckdb-", dir=data.file.parent.parent)
        self.place = Path(self._directory.name)
        self.reference = self._reference()

    def contestants(self) -> list[DuckdbContestant]:
        return [
            DuckdbContestant("copy", "COPY, default", ()),
            DuckdbContestant("copy-unordered", "COPY, preserve_insertion_order=false", ("--unordered",)),
            DuckdbContestant("copy-unquoted", "COPY, the same, QUOTE ''", ("--unordered", "--options", _UNQUOTED)),
            DuckdbContestant(PARALLEL_TIPPLE, "Tipple, defaults", (), is_tipple=True),
            DuckdbContestant("tipple-j1", "Tipple, -j 1", ("--jobs", "1"), is_tipple=True),
            DuckdbContestant("tipple-unverified", "Tipple, --verify none", ("--verify", "none"), is_tipple=True),
        ]

    def run(self, contestant: DuckdbContestant) -> Sample:
        """One timed and verified run into a new file.

        Raises:
            BenchmarkError: it failed, or the table does not hold the rows of the file.
        """
        self._remove()
        os.sync()
        sample = run_together([self._command(contestant)])
        if contestant.is_tipple:
            summary = json.loads(self._summary.read_text())
            sample.phases = {phase["name"]: phase["seconds"] for phase in summary["phases"]}
            sample.phases["whole job"] = summary["seconds"]
        found = self._digest()
        self._remove()
        if found != self.reference:
            raise BenchmarkError(f"{contestant.label}: rows and checksum {found}, expected {self.reference}")
        return sample

    def close(self) -> None:
        self._directory.cleanup()

    def _command(self, contestant: DuckdbContestant) -> Command:
        if not contestant.is_tipple:
            program = str(Path(__file__).with_name("duckdb_copy.py"))
            return [sys.executable, program, str(self.data.file), str(self._database), *contestant.options]
        words = ["load", str(self.data.file), "--into", f"duckdb:///{self._database}", "--table", "lineitem"]
        words += ["--schema", "tpch", "--progress", "none", "--summary", str(self._summary)]
        return tipple_command(*words, *contestant.options)

    @property
    def _database(self) -> Path:
        return self.place / "bench.duckdb"

    @property
    def _summary(self) -> Path:
        return self.place / "summary.json"

    def _reference(self) -> tuple[int, int]:
        """Count and checksum after DuckDB's own COPY. Not timed; also warms the page cache up."""
        self._remove()
        run_together([self._command(self.contestants()[0])])
        return self._digest()

    def _digest(self) -> tuple[int, int]:
        with duckdb.connect(str(self._database), read_only=True) as connection:
            query = "SELECT count(*), sum(hash(t)::HUGEINT) FROM (SELECT COLUMNS(*)::VARCHAR FROM lineitem) t"
            row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0]), int(row[1] or 0)

    def _remove(self) -> None:
        for path in self.place.iterdir():
            path.unlink()
