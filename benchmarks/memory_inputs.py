"""What the memory benchmark feeds to Tipple: a file, a pipe, packed files, one enormous record, very many files.

Sizes are of lineitem's text, packed or not. What is easily made again is removed afterwards.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from data import BLOCK_BYTES, lineitem
from measure import BenchmarkError

SCALE_OF_A_GIGABYTE = 1.33  # lineitem at scale 1 has 760 MB of text
LONGEST_FIELD_SHARE = 10
"""The quoted input's longest field is so many times smaller than the input: 1 GB of 10 GB."""
FILES = 100_000
PACKERS = {"gz": "gzip -1", "zst": "zstd -q"}
PIPE_SCALE = 0.133
"""The pipe repeats lineitem at this scale, 100 MB of text."""


@dataclass(frozen=True)
class MemoryInput:
    """One input; `words` are the sources and options of `tipple load`."""

    label: str
    words: tuple[str, ...]
    standard_input: Callable[[], AbstractContextManager[IO[bytes]]] | None = None
    status: int = 0
    """How Tipple has to end."""
    says: str = ""
    """What it has to say."""


@contextlib.contextmanager
def _file(gigabytes: float, directory: Path) -> Iterator[MemoryInput]:
    yield MemoryInput(f"a file of {gigabytes:g} GB", (str(_lineitem(gigabytes, directory)),))


@contextlib.contextmanager
def _packed(gigabytes: float, directory: Path) -> Iterator[MemoryInput]:
    source = _lineitem(gigabytes, directory)
    with tempfile.TemporaryDirectory(prefix="packed-", dir=directory) as place:
        files = []
        for suffix, packer in PACKERS.items():
            files.append(f"{place}/lineitem.tbl.{suffix}")
            with source.open("rb") as plain, open(files[-1], "wb") as packed:
                if subprocess.run(packer.split(), stdin=plain, stdout=packed).returncode:
                    raise BenchmarkError(f"{packer} failed")
        yield MemoryInput(f"2 files packed by gzip and zstd, {gigabytes:g} GB each", (*files, "--format", "tbl"))


@contextlib.contextmanager
def _stdin(gigabytes: float, directory: Path) -> Iterator[MemoryInput]:
    source = lineitem(PIPE_SCALE, 0, directory).file
    times = max(1, round(gigabytes * 1e9 / source.stat().st_size))

    @contextlib.contextmanager
    def pipe() -> Iterator[IO[bytes]]:
        with subprocess.Popen(["cat", *[str(source)] * times], stdout=subprocess.PIPE) as feeder:
            assert feeder.stdout is not None
            try:
                yield feeder.stdout
            finally:
                feeder.stdout.close()

    yield MemoryInput(f"{gigabytes:g} GB from a pipe", ("-", "--format", "tbl"), pipe)


@contextlib.contextmanager
def _quoted(gigabytes: float, directory: Path) -> Iterator[MemoryInput]:
    """Records as CSV; in the middle, one whose last field is quoted and holds a tenth of all bytes, newlines too."""
    source = lineitem(PIPE_SCALE, 0, directory).file
    long = int(gigabytes * 1e9 / LONGEST_FIELD_SHARE)
    records = source.read_bytes().replace(b",", b";").replace(b"|\n", b"\n").replace(b"|", b",")
    around = max(2, round((gigabytes * 1e9 - long) / len(records)))
    filler = b"a line of a text that never seems to end, because somebody forgot a quote\n"
    block = filler * (BLOCK_BYTES // len(filler))
    first = records[: records.index(b"\n")].rpartition(b",")[0]
    with tempfile.TemporaryDirectory(prefix="quoted-", dir=directory) as place:
        file = Path(place) / "lineitem.csv"
        with file.open("wb") as out:
            for number in range(around):
                if number == around // 2:
                    out.write(first + b',"')
                    for _ in range(long // len(block) + 1):
                        out.write(block)
                    out.write(b'"\n')
                out.write(records)
        label = f"{gigabytes:g} GB of CSV with a field of {long / 1e9:g} GB"
        yield MemoryInput(label, (str(file), "--format", "csv", "--header", "no"), status=1, says="--max-record-size")


@contextlib.contextmanager
def _files(gigabytes: float, directory: Path) -> Iterator[MemoryInput]:
    with tempfile.TemporaryDirectory(prefix="files-", dir=directory) as place:
        with _lineitem(gigabytes, directory).open("rb") as source:
            lines = -(-round(6_001_215 * SCALE_OF_A_GIGABYTE * gigabytes) // FILES)
            for number in itertools.count():
                records = b"".join(itertools.islice(source, lines))
                if not records:
                    break
                Path(place, f"{number:07}.tbl").write_bytes(records)
        yield MemoryInput(f"{number:,} files, {gigabytes:g} GB together", (place, "--format", "tbl"))


def _lineitem(gigabytes: float, directory: Path) -> Path:
    return lineitem(SCALE_OF_A_GIGABYTE * gigabytes, 0, directory).file


INPUTS: Mapping[str, Callable[[float, Path], AbstractContextManager[MemoryInput]]] = {
    "file": _file,
    "stdin": _stdin,
    "packed": _packed,
    "quoted": _quoted,
    "files": _files,
}
