"""One large file and many small ones, on one, two and four streams: always the same rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from big import TABLE, BigFile, write_big_file
from loading import load
from targets import Target, write


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_one_large_file(engine_target: Target, big_file: BigFile, jobs: int) -> None:
    engine_target.execute(TABLE)
    run = load(engine_target, big_file.path, jobs=jobs, verify="checksum")
    assert big_file.held_by(engine_target) == big_file.expected
    assert run.summary is not None
    assert run.summary["rows"] == big_file.rows
    assert run.summary["bytes"] == big_file.path.stat().st_size
    assert run.summary["rejects"] == 0
    assert run.summary["verify"]["ok"] is True
    if jobs > 1:
        assert run.summary["slices"] > 1
    assert engine_target.leftovers("t") == set()


def test_a_record_longer_than_a_slice(engine_target: Target, tmp_path: Path) -> None:
    """One quoted field of 12 MB that is full of what looks like records."""
    big = write_big_file(tmp_path / "in.csv", rows=150_000, longest_note=12_000_000)
    engine_target.execute(TABLE)
    load(engine_target, big.path, jobs=4, verify="checksum")
    assert big.held_by(engine_target) == big.expected


@pytest.mark.parametrize("jobs", [1, 3])
def test_many_small_files(engine_target: Target, tmp_path: Path, jobs: int) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    files = [write(tmp_path / "in" / f"{i:03}.csv", f"{i},x\n{i},y" if i % 7 else "") for i in range(300)]
    run = load(engine_target, *files, jobs=jobs)
    expected = sorted((i, b) for i in range(300) if i % 7 for b in "xy")
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a, b") == expected
    assert run.summary is not None
    assert len(run.summary["sources"]) == 300
    assert run.summary["rows"] == len(expected)


def test_a_directory_and_a_pattern(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    for i in range(5):
        write(tmp_path / "in" / f"{i}.csv", f"{i}\n")
    load(engine_target, tmp_path / "in")
    assert engine_target.rows("SELECT a FROM t ORDER BY a") == [(i,) for i in range(5)]
    for i in range(5, 8):
        write(tmp_path / "more" / f"{i}.csv", f"{i}\n")
    load(engine_target, tmp_path / "more" / "*.csv")
    assert engine_target.rows("SELECT a FROM t ORDER BY a") == [(i,) for i in range(8)]


def test_large_and_small_and_empty_together(engine_target: Target, tmp_path: Path, big_file: BigFile) -> None:
    engine_target.execute(TABLE)
    more = [write(tmp_path / f"{i}.csv", f"{-i},,,\n") for i in range(1, 50)]
    empty = write(tmp_path / "empty.csv", "")
    run = load(engine_target, *more[:25], big_file.path, empty, *more[25:], jobs=3)
    assert run.summary is not None
    assert run.summary["rows"] == big_file.rows + 49
    query = "SELECT count(*), count(DISTINCT id), min(id) FROM t"
    assert engine_target.rows(query) == [(big_file.rows + 49, big_file.rows + 49, -49)]
    by_path = {source["path"]: source["rows"] for source in run.summary["sources"]}
    assert by_path[str(big_file.path)] == big_file.rows
    assert by_path[str(empty)] == 0
    assert by_path[str(more[0])] == 1


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_other_record_ends(engine_target: Target, tmp_path: Path, end: str) -> None:
    r = random.Random(3)
    rows = [(i, r.choice(["x" * 90, "a\nb", "c\rd", 'e"f', "g\r\nh"])) for i in range(200_000)]
    text = "".join(f'{i},"{note.replace(chr(34), chr(34) * 2)}"{end}' for i, note in rows)
    path = tmp_path / "in.csv"
    path.write_bytes(text.encode())
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    load(engine_target, path, jobs=2)
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == rows


@pytest.mark.parametrize("form", ["text", "tbl"])
def test_large_files_of_other_formats(engine_target: Target, tmp_path: Path, form: str) -> None:
    rows = [(i, "y" * (i % 150) + ("\\" if form == "tbl" else "\t\n\\")) for i in range(250_000)]
    escape = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\\n"})
    with (tmp_path / f"in.{form}").open("w") as file:
        file.writelines(f"{i}|{text}|\n" if form == "tbl" else f"{i}\t{text.translate(escape)}\n" for i, text in rows)
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    load(engine_target, tmp_path / f"in.{form}", format=form, jobs=2, verify="checksum")
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == rows


def test_a_source_named_twice(engine_target: Target, tmp_path: Path) -> None:
    """Either refused or loaded once: a pattern and a name that meet must not double rows unnoticed."""
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    run = load(engine_target, path, path, check=False)
    assert run.exit_code in (0, 2), str(run)
    assert engine_target.count("t") == (1 if run.exit_code == 0 else 0)


def test_no_ledger(engine_target: Target, big_file: BigFile) -> None:
    engine_target.execute(TABLE)
    run = load(engine_target, big_file.path, jobs=2, no_ledger=True)
    assert big_file.held_by(engine_target) == big_file.expected
    assert engine_target.tables() == {f"{engine_target.default_schema}.t"}
    assert "ledger" in run.output
