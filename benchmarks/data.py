"""Makes the benchmark's input once: lineitem as dbgen writes it, and the same records as COPY text needs them.

COPY takes the '|' that dbgen writes at the end of each record for one more field, and cannot begin in the
middle of a file. So the peers get pieces without it, cut on record boundaries; Tipple and DuckDB read the file
itself. Cutting is not part of any time, which favours the peers.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import duckdb
from measure import BenchmarkError, tipple_command

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "bench"
BLOCK_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Data:
    """Lineitem at one scale."""

    scale: float
    file: Path
    """As dbgen writes it."""
    pieces: tuple[Path, ...]
    """The same records for COPY: in pieces of about equal size, without the '|' at the end."""

    @property
    def bytes(self) -> int:
        return self.file.stat().st_size

    @property
    def megabytes(self) -> float:
        return self.bytes / 1e6

    def shares(self, sessions: int) -> list[list[Path]]:
        """The pieces, dealt out to so many sessions."""
        return deal(self.pieces, sessions)


def lineitem(scale: float, pieces: int, directory: Path = CACHE) -> Data:
    """The data, generated and cut where that has not been done yet; with 0 pieces only the file itself."""
    place = directory / f"lineitem-{scale:g}"
    file = place / "lineitem.tbl"
    if not file.exists():
        print(f"generating lineitem at scale {scale:g} in {place}", file=sys.stderr)
        command = [*tipple_command("generate", "tpch"), "--scale", f"{scale:g}", "--table", "lineitem"]
        done = subprocess.run([*command, "--out", str(place), "--progress", "none"], stdout=subprocess.DEVNULL)
        if done.returncode:
            raise BenchmarkError(f"tipple generate ended with status {done.returncode}")
        file.chmod(0o644)
    return Data(scale, file, _cut(file, place / f"pieces-{pieces}", pieces) if pieces else ())


def lineitem_in_parts(scale: float, parts: int, directory: Path = CACHE) -> tuple[Path, ...]:
    """The same as dbgen divides it: each file holds a range of keys. Made where they are missing."""
    place = directory / f"lineitem-{scale:g}" / f"parts-{parts}"
    names = [f"{number}.tbl" for number in range(parts)]
    if not place.exists():
        print(f"generating lineitem in {parts} parts in {place}", file=sys.stderr)
        with complete(place) as unfinished:
            words = ["--scale", f"{scale:g}", "--table", "lineitem", "--parts", str(parts), "--progress", "none"]
            command = [*tipple_command("generate", "tpch"), *words, "--out", str(unfinished)]
            done = subprocess.run(command, stdout=subprocess.DEVNULL)
            if done.returncode:
                raise BenchmarkError(f"tipple generate ended with status {done.returncode}")
            for number, name in enumerate(names):
                (unfinished / f"lineitem.tbl.{number + 1}").rename(unfinished / name)
    return tuple(place / name for name in names)


def deal(pieces: Sequence[Path], sessions: int) -> list[list[Path]]:
    """Pieces dealt out to so many sessions."""
    return [list(pieces[i::sessions]) for i in range(sessions)]


@contextlib.contextmanager
def complete(place: Path) -> Iterator[Path]:
    """A directory to write files in, which gets its name, and its files everybody's right to read, when all is done."""
    unfinished = place.with_name(place.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o755, parents=True)
    yield unfinished
    for file in unfinished.iterdir():
        file.chmod(0o644)
    unfinished.rename(place)


def _cut(file: Path, directory: Path, count: int) -> tuple[Path, ...]:
    if not directory.exists():
        size = file.stat().st_size
        with complete(directory) as unfinished, file.open("rb") as source:
            bounds = [0]
            for number in range(1, count):
                source.seek(size * number // count)
                source.readline()
                bounds.append(source.tell())
            bounds.append(size)
            for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
                source.seek(begin)
                _copy_stripped(source, end, unfinished / f"{number}.text")
    return tuple(directory / f"{number}.text" for number in range(count))


def strip(file: Path, target: Path) -> None:
    """Copy a file of dbgen's without the '|' at the end of each record."""
    with file.open("rb") as source:
        _copy_stripped(source, file.stat().st_size, target)


def _copy_stripped(source: BinaryIO, end: int, target: Path) -> None:
    with target.open("wb") as out:
        while source.tell() < end:
            block = source.read(min(BLOCK_BYTES, end - source.tell()))
            if source.tell() < end:
                block += source.readline()
            out.write(block.replace(b"|\n", b"\n"))


def lines_of(file: Path) -> str:
    """DuckDB's query of a file's lines, whatever they hold, in their order."""
    return (
        f"SELECT line FROM read_csv('{file}', columns = {{'line': 'VARCHAR'}}, delim = '\x01', quote = '', "
        "escape = '', header = false, auto_detect = false)"
    )


def write_lines(connection: duckdb.DuckDBPyConnection, query: str, path: Path) -> None:
    """Write the lines that a query gives, as they are."""
    plain = "FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x01'"
    connection.execute(f"COPY ({query}) TO '{path}' ({plain})")


def read_through(paths: list[Path]) -> None:
    """Read the files once, so that whoever is next finds them in the page cache (as far as it is large enough)."""
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.read(BLOCK_BYTES):
                pass
