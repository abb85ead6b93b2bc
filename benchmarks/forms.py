"""The forms in which the contestants of `formats` get the same rows: one file, and the same in pieces.

Tipple and DuckDB read the one file. PostgreSQL's sessions read pieces, because COPY cannot begin in the middle of
a file; cutting them is not part of any time, which favours the peers.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
from data import BLOCK_BYTES, complete, deal, lineitem
from measure import BenchmarkError, Command
from shapes import LINEITEM, LONG_TEXT, NARROW, WIDE, Shape


@dataclass(frozen=True)
class Form:
    """One way to write one shape."""

    key: str
    label: str
    shape: Shape
    suffix: str
    tipple: tuple[str, ...]
    """Options of `tipple load`."""
    duckdb: str
    """Options of DuckDB's COPY, in both directions."""
    postgresql: str
    """Options of PostgreSQL's COPY, for a piece, or for what `unpack` makes of one."""
    unpack: str | None = None
    """Command that writes a piece to standard output as text, where PostgreSQL cannot read it."""

    @property
    def duckdb_reading(self) -> str:
        """Options of DuckDB's COPY FROM alone."""
        return "" if self.suffix == "parquet" else ", AUTO_DETECT false"


_CSV = ("--format", "csv", "--header", "no")
_DUCKDB_CSV = "FORMAT csv, DELIMITER ',', QUOTE '\"', ESCAPE '\"', HEADER false"
_DUCKDB_PLAIN = "FORMAT csv, QUOTE '', ESCAPE '', HEADER false"

FORMS = {
    form.key: form
    for form in (
        Form("quoted-csv", "lineitem, CSV, all text quoted", LINEITEM, "csv", _CSV, _DUCKDB_CSV, "FORMAT csv"),
        Form(
            "tsv", "lineitem, PostgreSQL's text format", LINEITEM, "tsv", ("--format", "text"),
            f"{_DUCKDB_PLAIN}, DELIMITER '\t', NULLSTR '\\N'", "FORMAT text",
        ),
        Form(
            "zstd", "lineitem, tbl packed by zstd", LINEITEM, "tbl.zst", ("--format", "tbl"),
            f"{_DUCKDB_PLAIN}, DELIMITER '|', COMPRESSION zstd", "DELIMITER '|'", "zstd -dc",
        ),
        Form(
            "parquet", "lineitem, Parquet", LINEITEM, "parquet", ("--format", "parquet"), "FORMAT parquet",
            "FORMAT csv", f"{sys.executable} {Path(__file__).with_name('parquet_rows.py')}",
        ),
        Form("wide", "100 columns, CSV", WIDE, "csv", _CSV, _DUCKDB_CSV, "FORMAT csv"),
        Form("narrow", "3 integers, CSV", NARROW, "csv", _CSV, _DUCKDB_CSV, "FORMAT csv"),
        Form("long-text", "long text with newlines, CSV", LONG_TEXT, "csv", _CSV, _DUCKDB_CSV, "FORMAT csv"),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Input:
    """A form, written."""

    form: Form
    rows: Path
    """The same rows as Parquet, for checking."""
    file: Path
    pieces: tuple[Path, ...]

    @property
    def megabytes(self) -> float:
        """Of the file as it is, packed or not."""
        return self.file.stat().st_size / 1e6

    @property
    def options(self) -> tuple[str, ...]:
        """Of `tipple load`."""
        return ("--schema", str(self.rows.with_suffix(".sql")), *self.form.tipple)

    def shares(self, sessions: int) -> list[list[Path]]:
        """The pieces, dealt out to so many sessions."""
        return deal(self.pieces, sessions)


def written(form: Form, scale: float, pieces: int, directory: Path) -> Input:
    """The files of a form; made where they are missing."""
    rows = _rows(form.shape, scale, directory)
    place = rows.parent / f"{form.key}-{pieces}"
    whole = rows if form.suffix == "parquet" else place / f"whole.{form.suffix}"
    files = tuple(place / f"{number}.{form.suffix}" for number in range(pieces))
    if not place.exists():
        print(f"writing {form.label} at scale {scale:g} in {place}", file=sys.stderr)
        with complete(place) as unfinished:
            names = [unfinished / file.name for file in files]
            if form.unpack and form.suffix.endswith(".zst"):
                data = lineitem(scale, pieces, directory)
                for source, name in zip((data.file, *data.pieces), (unfinished / whole.name, *names), strict=True):
                    _checked(["zstd", "-q", str(source), "-o", str(name)])
            else:
                _write_pieces(form, rows, names)
                if whole != rows:
                    _join(names, unfinished / whole.name)
    return Input(form, rows, whole, files)


def _rows(shape: Shape, scale: float, directory: Path) -> Path:
    """A shape's rows as Parquet, and beside them its CREATE TABLE."""
    place = directory / f"{shape.name}-{scale:g}-rows"
    rows = place / f"{shape.name}.parquet"
    if not place.exists():
        print(f"making {shape.label} at scale {scale:g} in {place}", file=sys.stderr)
        tbl = lineitem(scale, 0, directory).file if not shape.rows else ""
        query = shape.query.format(rows=round(shape.rows * scale), tbl=tbl)
        with complete(place) as unfinished:
            duckdb.connect().execute(f"COPY ({query}) TO '{unfinished / rows.name}' (FORMAT parquet)")
            (unfinished / rows.name).with_suffix(".sql").write_text(shape.create + ";\n")
    return rows


def _write_pieces(form: Form, rows: Path, names: Sequence[Path]) -> None:
    options = form.duckdb
    if form.suffix == "csv" and form.shape.texts:
        options += f", FORCE_QUOTE ({', '.join(form.shape.texts)})"
    connection = duckdb.connect()
    found = connection.execute(f"SELECT count(*) FROM read_parquet('{rows}')").fetchone()
    assert found is not None
    bounds = [found[0] * number // len(names) for number in range(len(names) + 1)]
    for (begin, end), name in zip(itertools.pairwise(bounds), names, strict=True):
        query = (
            f"SELECT * EXCLUDE (file_row_number) FROM read_parquet('{rows}', file_row_number = true) "
            f"WHERE file_row_number >= {begin} AND file_row_number < {end}"
        )
        connection.execute(f"COPY ({query}) TO '{name}' ({options})")


def _join(pieces: Sequence[Path], whole: Path) -> None:
    with whole.open("wb") as out:
        for piece in pieces:
            with piece.open("rb") as source:
                shutil.copyfileobj(source, out, BLOCK_BYTES)


def _checked(command: Command) -> None:
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchmarkError(f"{command[0]}: {error}") from error
