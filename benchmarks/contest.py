"""Contestants, and the tracks they run on: what is the same for every engine and every input.

A run has a fresh database, begins with nothing left to write, and is verified by count and checksum of all rows
outside of its time.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from data import read_through
from measure import BenchmarkError, Command, Sample, confined, run_together, tipple_command
from report import Result

ORDER_SEED = 20250101

Digest = tuple[int, int]
"""Number of rows, and the sum of a hash of each row's text: the same for the same rows in any order."""


@dataclass(frozen=True)
class Contestant:
    """One way to load. `commands` gets the database; what `prepare` does there is not timed."""

    key: str
    label: str
    commands: Callable[[str], list[Command]]
    expected: Digest
    """Of the rows that must be there afterwards."""
    prepare: Callable[[str], None] = lambda _: None
    tables: tuple[str, ...] = ("lineitem",)
    is_tipple: bool = False
    accepted: tuple[int, ...] = (0,)
    """Exit statuses that mean success."""
    optional: bool = False
    """Whether it is left out, with its reason, where it fails: what not every version of Tipple can do."""
    cores: int | None = None
    """So many for it and the server together; None for all."""

    @property
    def one_table(self) -> bool:
        return len(self.tables) == 1


@dataclass(frozen=True)
class Rounds:
    """How often contestants run, and which of them."""

    number: int
    only: frozenset[str] | None = None
    """Keys; None for all."""


class Track(ABC):
    """An engine that contestants run on, one after the other."""

    key: str
    """The engine, as `--engine` names it."""
    name: str
    """The engine, for people."""
    postmaster: int | None = None
    """Process whose children are the server, where there is one."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="tipple-bench-")

    def close(self) -> None:
        self._scratch.cleanup()

    def tidy(self) -> None:
        """Remove what contestants have prepared for all rounds."""
        return

    @abstractmethod
    def fresh(self) -> str:
        """A new database."""

    @abstractmethod
    def drop(self, database: str) -> None:
        """Remove a database."""

    @abstractmethod
    def settle(self) -> None:
        """Leave nothing to write that an earlier run made."""

    @abstractmethod
    def url(self, database: str) -> str:
        """Where Tipple finds the database."""

    @abstractmethod
    def digest(self, database: str, tables: Sequence[str] = ("lineitem",)) -> Digest:
        """Count and checksum of all rows of some tables."""

    @abstractmethod
    def make_table(self, database: str, create: str) -> None:
        """An empty table that Tipple may load into."""

    def contestant(
        self,
        key: str,
        label: str,
        sources: Sequence[Path],
        expected: Digest,
        *options: str,
        table: str = "lineitem",
        prepare: Callable[[str], None] = lambda _: None,
        accepted: tuple[int, ...] = (0,),
        optional: bool = False,
        cores: int | None = None,
    ) -> Contestant:
        """A `tipple load` with some options as a contestant."""
        return Contestant(
            key, label, lambda database: [self._tipple(database, sources, table, options)], expected, prepare,
            (table,), is_tipple=True, accepted=accepted, optional=optional, cores=cores,
        )  # fmt: skip

    def _tipple(self, database: str, sources: Sequence[Path], table: str, options: Sequence[str]) -> Command:
        self._summary.unlink(missing_ok=True)
        for path in self.rejects.parent.glob(f"{self.rejects.name}*"):
            path.unlink()
        words = ["load", *map(str, sources), "--into", self.url(database), "--table", table]
        # No peer gathers the planner's statistics.
        words += ["--progress", "none", "--summary", str(self._summary), "--no-analyze"]
        return tipple_command(*words, *options)

    def run(self, contestant: Contestant) -> Sample:
        """One timed and verified run.

        Raises:
            BenchmarkError: it failed, or the tables do not hold the rows that they should.
        """
        database = self.fresh()
        try:
            contestant.prepare(database)
            self.settle()
            commands = contestant.commands(database)
            read_through(_files_of(commands))
            with confined(contestant.cores, self.postmaster):
                sample = run_together(commands, postmaster=self.postmaster, accepted=contestant.accepted)
            if contestant.is_tipple:
                summary = json.loads(self._summary.read_text())
                sample.phases = {phase["name"]: phase["seconds"] for phase in summary["phases"]}
                sample.phases["whole job"] = summary["seconds"]
            found = self.digest(database, contestant.tables)
            if found != contestant.expected:
                raise BenchmarkError(f"{contestant.label}: rows and checksum {found}, expected {contestant.expected}")
            return sample
        finally:
            self.drop(database)

    def reference(self, fill: Callable[[str], None], table: str = "lineitem") -> Digest:
        """Digest of a table after `fill` has filled it by plain means. It also warms engine and page cache up."""
        database = self.fresh()
        try:
            fill(database)
            return self.digest(database, (table,))
        finally:
            self.drop(database)

    @property
    def rejects(self) -> Path:
        """For `--rejects`: removed before each run."""
        return Path(self._scratch.name) / "rejects"

    @property
    def _summary(self) -> Path:
        return Path(self._scratch.name) / "summary.json"


def _files_of(commands: Sequence[Command]) -> list[Path]:
    """The files that commands name, as words of their own or in SQL."""
    words = [word for command in commands for word in command]
    words += [path for word in words for path in re.findall(r"'(/[^']+)'", word)]
    # A whole statement is too long for a name.
    return sorted({Path(word) for word in words if word.startswith("/") and "\n" not in word and Path(word).is_file()})


def play(title: str, contestants: Sequence[Contestant], track: Track, rounds: Rounds) -> list[Result]:
    """All rounds of all contestants, each round in an order of its own."""
    entrants = [c for c in contestants if rounds.only is None or c.key in rounds.only]
    if not entrants:
        raise BenchmarkError(f"--only names no contestant of {title}: it has {', '.join(c.key for c in contestants)}")
    samples: dict[str, list[Sample]] = {entrant.key: [] for entrant in entrants}
    shuffler = random.Random(ORDER_SEED)
    for number in range(1, rounds.number + 1):
        for entrant in shuffler.sample(entrants, len(entrants)):
            try:
                sample = track.run(entrant)
            except BenchmarkError as error:
                if not entrant.optional:
                    raise
                print(f"\n{title}: left out: {entrant.label}:\n{str(error).partition(chr(10))[2]}", flush=True)
                entrants.remove(entrant)
                continue
            samples[entrant.key].append(sample)
            progress = f"{title} {number}/{rounds.number}  {entrant.label:<55} {sample.seconds:8.2f} s"
            print(progress, file=sys.stderr, flush=True)
    track.tidy()
    return [Result(e.key, e.label, e.is_tipple, e.one_table, samples[e.key]) for e in entrants]
