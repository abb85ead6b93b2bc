"""DuckDB files that cannot be written: read-only, locked, no database, a directory."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

import tipple
from command import run_tipple
from loading import load
from targets import DuckdbTarget, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "in.csv", "1,x\n2,y\n")


@pytest.fixture
def target(tmp_path: Path) -> DuckdbTarget:
    target = DuckdbTarget(tmp_path / "t.duckdb")
    target.execute("CREATE TABLE t (a integer, b varchar)")
    return target


def test_read_only_file(path: Path, disk: Callable[[int], Path]) -> None:
    """Root may write to any file, so the file system is read-only."""
    place = disk(64)
    target = DuckdbTarget(place / "t.duckdb")
    target.execute("CREATE TABLE t (a integer, b varchar)")
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    run = load(target, path, check=2)
    subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
    assert "t.duckdb" in run.stderr
    assert "read-only" in run.stderr.lower()
    assert target.count("t") == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to every file")
@pytest.mark.parametrize("what", ["file", "directory"])
def test_file_without_permission(target: DuckdbTarget, path: Path, what: str) -> None:
    place = target.path if what == "file" else target.path.parent
    place.chmod(0o444 if what == "file" else 0o555)
    try:
        run = load(target, path, check=False)
        assert run.exit_code in (1, 2)
        assert "t.duckdb" in run.stderr
    finally:
        place.chmod(0o755)
    assert target.count("t") == 0


HOLDER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "ro")
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path, how: str) -> Iterator[int]:
    """Another process that has the file open; gives its process id."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == b"open\n"
        yield process.pid
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


@pytest.mark.parametrize("how", ["rw", "ro"])
def test_file_locked_by_another_process(target: DuckdbTarget, path: Path, how: str) -> None:
    with held(target.path, how) as pid:
        run = load(target, path, check=2, timeout=60)
        assert "t.duckdb" in run.stderr
        assert "lock" in run.stderr.lower() or "open" in run.stderr.lower()
        assert str(pid) in run.stderr, "who holds it is not said"
    load(target, path)
    assert target.count("t") == 2


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("text", "it is not a valid DuckDB database file"),
        ("empty", "it is smaller than an empty database"),
        ("directory", "it is no file"),
        ("cut", "it is smaller than an empty database"),
        ("pipe", "it is no file"),
    ],
)
def test_what_is_no_database(tmp_path: Path, path: Path, kind: str, said: str) -> None:
    place = tmp_path / "x.duckdb"
    if kind == "text":
        write(place, "this is no database, but somebody's notes\n" * 1000)
    elif kind == "empty":
        write(place, "")
    elif kind == "cut":
        DuckdbTarget(place).execute("CREATE TABLE t (a integer, b varchar)")
        os.truncate(place, 5000)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    before = place.read_bytes() if place.is_file() else None
    run = load(f"duckdb:///{place}", path, check=2)
    assert f"cannot open duckdb:///{place}" in run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr
    if kind == "text":
        assert place.read_bytes() == before


def test_an_absolute_path_with_three_slashes(tmp_path: Path, path: Path) -> None:
    run = load(f"duckdb://{tmp_path}/x.duckdb", path, table="t", check=2, cwd=tmp_path)
    assert f"write duckdb:///{tmp_path}/x.duckdb" in run.stderr


@pytest.mark.parametrize("name", ["x.csv", "x.json", "x.csv.gz"])
def test_a_database_that_would_be_lost(tmp_path: Path, path: Path, name: str) -> None:
    """DuckDB opens a file of data too, and shows it by a view in memory: rows would be gone with the process."""
    data = b'{"a": 1}\n' if name.endswith("json") else b"a,b\n1,2\n"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    files = sorted(tmp_path.iterdir())
    run = load(f"duckdb:///{name}", path, schema="auto", check=2, cwd=tmp_path)
    assert "in memory only" in run.stderr
    assert sorted(tmp_path.iterdir()) == files
    run_tipple("jobs", f"duckdb:///{name}", check=2, cwd=tmp_path)


def test_constraint_at_the_end(target: DuckdbTarget, tmp_path: Path) -> None:
    """A violation that DuckDB finds when it commits is told like any other, and nothing is stored."""
    target.execute("CREATE TABLE k (a integer PRIMARY KEY, b varchar CHECK (b <> 'bad'))")
    target.execute("INSERT INTO k VALUES (1, 'old')")
    for number, data in enumerate(["2,x\n2,y\n", "1,x\n", "5,bad\n", ",x\n"]):
        run = load(target, write(tmp_path / f"{number}.csv", data), table="k", check=1)
        assert "onstraint" in run.stderr or "null" in run.stderr.lower(), run.stderr
        assert target.rows("SELECT * FROM k") == [(1, "old")]
        assert target.leftovers("t", "k") == set()


def test_a_refused_load_leaves_no_file(tmp_path: Path) -> None:
    """A mistyped path must not become a database; one that holds anything stays, and so does one that was there."""
    path = write(tmp_path / "in.csv", "1\n")
    database = tmp_path / "new.duckdb"
    url = f"duckdb:///{database}"
    refused = ({"table": "nowhere"}, {"schema": "auto", "structure": "memory"}, {"schema": "auto", "columns": "x,y"})
    for options in refused:
        load(url, path, check=2, **{"header": "no", **options})
        assert list(tmp_path.glob("new*")) == []
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (a integer)")
    with duckdb.connect(str(database)) as connection:
        connection.execute("CHECKPOINT")
    load(url, path, check=2, header="no")
    assert database.exists()
    database.unlink()
    # Nor is what an earlier load has made removed by one that is refused.
    tipple.load(str(path), into=url, table="t", schema=str(schema), header="no")
    with pytest.raises(tipple.UsageError):
        tipple.load(str(path), into=url, table="u", header="no")
    with duckdb.connect(str(database)) as connection:
        assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]
