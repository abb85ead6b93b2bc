"""A record that is longer than the limit, and one that cannot be decoded, are rejects as others, however the source is
read; memory stays bounded."""

from __future__ import annotations

import bz2
import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from command import environment
from loading import load, load_here, load_words
from spoilt import told
from targets import DuckdbTarget, PostgresTarget, Target, write

KEPT_BYTES = 64 * 1024


def record(number: int, length: int) -> bytes:
    return f'{number},"'.encode() + b"abc\n" * (length // 4) + b'"\n'


LENGTHS = {2: 1_500_000, 700: 20_000_000, 701: 3_000_000, 1_000: 9_000_000}
"""Of these records; the limit is 1 MB. The last one is never closed."""


def contents() -> tuple[bytes, list[tuple[int, int, str, str]], bytes]:
    """The file, what has to be told of it, and what is kept."""
    data, bad, raw = bytearray(), [], b""
    for number in range(1, 1_001):
        if number in LENGTHS:
            bad.append((number, len(data), "", "54000"))
            text = record(number, LENGTHS[number])
            raw += text[:KEPT_BYTES] + b'",,,\n'
            data += text if number < 1_000 else text[:-2]
        else:
            data += record(number, number)
    return bytes(data), bad, raw


@pytest.mark.parametrize("kind", ["plain", "gz", "stdin", "slices"])
def test_longer_than_the_limit(engine_target: Target, tmp_path: Path, kind: str) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    data, bad, raw = contents()
    if kind == "slices":
        # Enough records in front for slices that end inside of none.
        front = b"".join(record(number, 300) for number in range(100_000))
        bad = [(number + 100_000, offset + len(front), column, code) for number, offset, column, code in bad]
        data = front + data
    rejects = tmp_path / "bad.csv"
    options: dict[str, object] = {
        "max_record_size": "1MB",
        "on_error": "skip",
        "max_rejects": 4,
        "rejects": rejects,
        "jobs": 2,
    }
    if kind == "stdin":
        words = load_words(engine_target.url, ("-",), "t", {**options, "format": "csv", "header": "no"})
        run = subprocess.run(
            [sys.executable, "-m", "tipple", *words], input=data, env=environment(), capture_output=True, check=False
        )
        assert run.returncode == 3, run.stderr.decode()
    else:
        path = write(
            tmp_path / ("in.csv.gz" if kind == "gz" else "in.csv"), gzip.compress(data, 1) if kind == "gz" else data
        )
        load_here(engine_target, path, format="csv", header="no", check=3, **options)
    assert told(rejects) == bad
    assert rejects.read_bytes() == raw
    assert engine_target.count("t") == 996 + (100_000 if kind == "slices" else 0)
    # What is kept is no record, so nobody loads the beginning of one in place of the whole.
    options["rejects"] = tmp_path / "again.csv"
    load_here(engine_target, rejects, format="csv", header="no", check=3, **options)
    assert {code for *_, code in told(tmp_path / "again.csv")} == {"22P04"}


@pytest.mark.parametrize("packed", [True, False], ids=["gz", "plain"])
def test_a_limit_below_what_is_read_at_a_time(engine_target: Target, tmp_path: Path, packed: bool) -> None:
    """It is one for every record: what is as long is kept, what is longer by a byte is not."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar(99))")
    data = b"1,xxxxxxx\n2,xxxxxxxx\n3,x\n4,xxxxxxxxx\n5,xxxxxxx\n"
    path = write(tmp_path / ("in.csv.gz" if packed else "in.csv"), gzip.compress(data) if packed else data)
    options: dict[str, object] = {"format": "csv", "header": "no", "max_record_size": 10}
    failed = load_here(engine_target, path, check=1, **options)
    assert "in.csv" in failed.stderr
    assert "2, which begins at byte 10" in failed.stderr
    assert "the record is longer than 10 bytes" in failed.stderr
    # Nobody has seen the lines of what is packed.
    assert ("line 2 of the file" in failed.stderr) is not packed
    assert "54000" in failed.stderr
    rejects = tmp_path / "bad.csv"
    load_here(engine_target, path, check=3, on_error="skip", max_rejects=2, rejects=rejects, **options)
    assert told(rejects) == [(2, 10, "", "54000"), (4, 25, "", "54000")]
    assert engine_target.rows("SELECT a FROM t ORDER BY a") == [(1,), (3,), (5,)]


@pytest.mark.parametrize("packed", [True, False], ids=["gz", "plain"])
def test_memory_is_bounded(tmp_path: Path, packed: bool) -> None:
    """A field of 300 MB."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    target.execute("CREATE TABLE t (a integer, b varchar)")
    path = tmp_path / ("in.csv.gz" if packed else "in.csv")
    with gzip.open(path, "wb", 1) if packed else path.open("wb") as file:
        file.write(b'1,x\n2,"')
        for _ in range(300):
            file.write(b"0123456789abcde\n" * 65_536)
        file.write(b'"\n3,x\n')
    rejects = tmp_path / "bad.csv"
    options: dict[str, object] = {"format": "csv", "header": "no", "jobs": 1}
    assert "longer than" in load(target, path, check=1, **options).stderr
    run = load(target, path, on_error="skip", max_rejects=1, rejects=rejects, check=3, **options)
    assert run.summary is not None
    assert run.summary["peak_memory_bytes"] < 250_000_000
    assert told(rejects) == [(2, 4, "", "54000")]
    assert rejects.stat().st_size < 2 * KEPT_BYTES
    assert target.rows("SELECT a FROM t ORDER BY a") == [(1,), (3,)]


# Bytes without a character: undefined ones, an unpaired surrogate, a lead byte without its trail, twice in a row.
UNDECODABLE = {
    "win1252": (b"\x81", b"\x8d\x8f"),
    "sjis": (b"\xff", b"\x96,"),
    "utf-16": (b"\x00\xd8", b"\x00\xdc\x00\xdc"),
}


@pytest.mark.parametrize("encoding", UNDECODABLE)
@pytest.mark.parametrize("packed", [True, False], ids=["bz2", "plain"])
def test_undecodable_bytes(engine_target: Target, tmp_path: Path, encoding: str, packed: bool) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar(20), c integer)")
    one, two = UNDECODABLE[encoding]
    codec = {"win1252": "cp1252", "sjis": "shift_jis", "utf-16": "utf-16-le"}[encoding]
    lines, bad, offset = [], [], 0
    for number in range(1, 20_001):
        text = f"{number},plain text,{number}\n"
        line = text.encode(codec)
        if number in (3, 9_000, 20_000):
            line = f"{number},bad ".encode(codec) + (one if number == 3 else two) + f"x,{number}\n".encode(codec)
            text = f"{number},bad " + ("?" if number == 3 else "?," if encoding == "sjis" else "??") + f"x,{number}\n"
            bad.append((number, offset, "b" if "?," not in text else "", "22021" if "?," not in text else "22P04"))
        lines.append(line)
        offset += len(text)
    data = b"".join(lines)
    path = write(tmp_path / ("in.csv.bz2" if packed else "in.csv"), bz2.compress(data) if packed else data)
    rejects = tmp_path / "bad.csv"
    options: dict[str, object] = {"format": "csv", "header": "no", "encoding": encoding}
    run = load_here(engine_target, path, on_error="skip", max_rejects=3, rejects=rejects, check=3, **options)
    assert told(rejects) == bad
    assert rejects.read_bytes().count(b"\xff") == (5 if encoding != "sjis" else 3)
    assert run.summary is not None
    assert (run.summary["rows"], engine_target.count("t")) == (19_997, 19_997)
    reasons = Path(f"{rejects}.reasons.csv").read_text()
    assert f"no character of {encoding}" in reasons
    assert "no character of" in load_here(engine_target, path, restart=True, check=1, **options).stderr


def test_a_row_that_is_too_long_for_a_page(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The server stores rows in batches, and names the line that it had read: the record is found by halving."""
    columns = 1018
    postgres_target.execute(f"CREATE TABLE t ({', '.join(f'c{n} bigint' for n in range(columns))})")
    long = {8, 9, 21}
    text = "".join(",".join(str(n) if c > 30 or n in long else "" for c in range(columns)) + "\n" for n in range(1, 31))
    path = write(tmp_path / "in.csv", text)
    run = load_here(postgres_target, path, header="no", check=1)
    assert "row is too big" in run.stderr
    assert "one of the last 1,000 records" in run.stderr
    assert "COPY t, line " in run.stderr
    assert "such records apart by --on-error skip --max-rejects 100" in run.stderr
    load_here(postgres_target, path, header="no", on_error="skip", max_rejects=5, check=3, cwd=tmp_path)
    assert postgres_target.count("t") == 30 - len(long)
    kept = (tmp_path / "t.rejects").read_text().splitlines()
    assert [int(line.split(",")[1]) for line in kept] == sorted(long)
