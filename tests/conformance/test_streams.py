"""What is read from beginning to end: compressed files, standard input, other encodings, lines that are left out."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from big import TABLE, BigFile
from loading import load, load_here, load_stdin, load_text
from targets import DuckdbTarget, Target, lines, write

Pack = Callable[[bytes], bytes]


def zstd_frame(data: bytes) -> bytes:
    """A frame of raw blocks (RFC 8878, 3.1.1), since Python's own library has no zstd before 3.14."""
    frame = b"\x28\xb5\x2f\xfd\xa0" + len(data).to_bytes(4, "little")
    blocks = [data[start : start + 100_000] for start in range(0, len(data), 100_000)] or [b""]
    for number, block in enumerate(blocks, 1):
        frame += (len(block) << 3 | (number == len(blocks))).to_bytes(3, "little") + block
    return frame


PACKS: dict[str, Pack] = {
    "gz": lambda data: gzip.compress(data, 1),
    "bz2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "zst": zstd_frame,
}
packs = pytest.mark.parametrize("ending", PACKS)

T = "CREATE TABLE t (a integer, b text)"
DATA = 'a,b\n1,x\n2,"y\n""z"""\n3,é\n'
ROWS = [(1, "x"), (2, 'y\n"z"'), (3, "é")]


def bad_record(stderr: str) -> str:
    """The number of the record that was refused."""
    found = re.search(r"record +([0-9,]+), which begins at byte", stderr)
    assert found is not None, stderr
    return found[1]


@packs
def test_compressed(engine_target: Target, tmp_path: Path, ending: str) -> None:
    """By content, also where the name says something else; several members are one text."""
    engine_target.execute(T)
    pack = PACKS[ending]
    data = DATA.encode()
    write(tmp_path / f"in.csv.{ending}", pack(data[:9]) + pack(data[9:]))
    load(engine_target, tmp_path / f"in.csv.{ending}", header="yes")
    load_text(engine_target, tmp_path / "other.csv", pack(b"4,w\n"), header="no")
    assert engine_target.sorted_rows("t") == [*ROWS, (4, "w")]


@packs
def test_cut_short(engine_target: Target, tmp_path: Path, ending: str) -> None:
    engine_target.execute(T)
    packed = PACKS[ending](lines([(n, f"text {n}") for n in range(20_000)]).encode())
    for length in (len(packed) // 2, len(packed) - 3):
        run = load_text(engine_target, tmp_path / f"in.csv.{ending}", packed[:length], check=1, header="no")
        assert f"in.csv.{ending}" in run.stderr
        assert "cannot unpack it" in run.stderr
        assert "hint" in run.stderr.lower()
        assert engine_target.count("t") == 0


def test_a_big_compressed_file(engine_target: Target, tmp_path: Path, big_file: BigFile) -> None:
    """Many slices from one file, on several streams; and nothing twice."""
    engine_target.execute(TABLE)
    path = write(tmp_path / "big.csv.gz", gzip.compress(big_file.path.read_bytes(), 1))
    run = load(engine_target, path, jobs=3, verify="checksum")
    assert run.summary is not None
    assert run.summary["slices"] >= 4
    assert run.summary["bytes"] == path.stat().st_size
    assert run.summary["sources"][0]["text_bytes"] == big_file.path.stat().st_size
    assert big_file.held_by(engine_target) == big_file.expected
    again = load(engine_target, path, jobs=3)
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"


def test_plain_and_compressed_together(engine_target: Target, tmp_path: Path) -> None:
    """Also into a table that has rows, and slice by slice."""
    engine_target.execute(T)
    engine_target.execute("INSERT INTO t VALUES (0, 'old')")
    expected = {(0, "old")}
    for number, options in enumerate(({}, {"no_atomic": True}, {"no_ledger": True}, {"preserve_order": True})):
        folder = tmp_path / f"in{number}"
        for part in range(4):
            rows = [(number * 1000 + part * 10 + row, f"r{row}") for row in range(10)]
            expected.update(rows)
            data = lines(rows).encode()
            write(folder / f"{part}.csv", gzip.compress(data) if part % 2 else data)
        load(engine_target, folder, format="csv", header="no", **options)
        assert set(engine_target.rows("SELECT a, b FROM t")) == expected
        assert engine_target.count("t") == len(expected)


def test_many_small_compressed_files(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(T)
    for number in range(300):
        write(tmp_path / "in" / f"{number:03}.csv.gz", gzip.compress(f"{number},x\n".encode()))
    run = load(engine_target, tmp_path / "in", header="no")
    assert run.summary is not None
    assert run.summary["slices"] < 10
    assert engine_target.value("SELECT count(DISTINCT a) FROM t") == 300


def test_standard_input(engine_target: Target) -> None:
    engine_target.execute(T)
    run = load_stdin(engine_target, DATA.encode())
    assert run.returncode == 0, run.stderr
    # It is never the same again, and so never "already loaded".
    run = load_stdin(engine_target, gzip.compress(DATA.encode()), header="match")
    assert run.returncode == 0, run.stderr
    assert engine_target.sorted_rows("t") == sorted([*ROWS, *ROWS], key=repr)
    run = load_stdin(engine_target, b"", header="no")
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("old_rows", [0, 1])
def test_place_of_a_bad_record_in_standard_input(engine_target: Target, old_rows: int) -> None:
    engine_target.execute(T)
    if old_rows:
        engine_target.execute("INSERT INTO t VALUES (-1, 'old')")
    good = "".join(f'{n},"some\ntext"\n' for n in range(100_000))
    run = load_stdin(engine_target, (good + "x1,bad\n" + good).encode(), header="no", jobs=2)
    assert run.returncode == 1
    message = run.stderr.decode()
    assert bad_record(message) == "100,001"
    assert "x1" in message
    assert engine_target.count("t") == old_rows


@pytest.mark.parametrize("encoding", [None, "UTF8", "LATIN1", "WIN1252", "windows-1252", "UTF-16", "SJIS"])
def test_encodings(engine_target: Target, tmp_path: Path, encoding: str | None) -> None:
    engine_target.execute(T)
    text = {"SJIS": "日本,漢字"}.get(encoding or "", "é,ÿ")
    codec = {None: "utf-8-sig", "LATIN1": "latin-1", "WIN1252": "cp1252", "SJIS": "shift_jis"}.get(encoding, encoding)
    load_text(engine_target, tmp_path / "in.csv", f'1,"{text}"\n'.encode(codec or ""), encoding=encoding, header="no")
    assert engine_target.rows("SELECT * FROM t") == [(1, text)]


def test_undecodable(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(T)
    run = load_text(engine_target, tmp_path / "in.csv", b"1,x\n2,\x81\n", check=1, encoding="WIN1252", header="no")
    assert bad_record(run.stderr) == "2"
    assert "offset 6" in run.stderr
    assert engine_target.count("t") == 0
    run = load_text(engine_target, tmp_path / "in.csv", b"1,x\n", check=2, encoding="klingon")
    assert "klingon" in run.stderr


def test_lines_left_out(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(T)
    data = b'made "by x\n\n# c\na,b\n1,x\n#"\n2,"\n# no comment"\n3,#\n'
    load_text(engine_target, tmp_path / "in.csv", data, skip_lines=2, comment="#", header="match")
    assert engine_target.sorted_rows("t") == [(1, "x"), (2, "\n# no comment"), (3, "#")]
    run = load_text(engine_target, tmp_path / "bad.csv", b"#\n1,x\n#\nz,y\n", check=1, comment="#", header="no")
    assert bad_record(run.stderr) == "2"


def test_trailing_delimiter(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(T)
    load_text(engine_target, tmp_path / "1.csv", b"1,x,\n", trailing_delimiter="yes", header="no")
    load_text(engine_target, tmp_path / "2.tbl", b"2|y\n", trailing_delimiter="no")
    assert engine_target.sorted_rows("t") == [(1, "x"), (2, "y")]


def test_fixed_widths(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(T)
    options = {"format": "fixed", "field_widths": "3,5", "header": "no"}
    load_text(engine_target, tmp_path / "in.dat", "  1äöü  \n2  x\n3       \n444\n", **options)
    assert engine_target.sorted_rows("t") == [(1, "äöü"), (2, "x"), (3, None), (444, None)]
    run = load_text(engine_target, tmp_path / "in.dat", "1  x\n2\n", check=1, **options)
    assert bad_record(run.stderr) == "2"
    assert "missing data" in run.stderr
    load_text(engine_target, tmp_path / "in.dat", "1  x\n", check=2, **{**options, "field_widths": "3"})


@pytest.mark.parametrize("data", ["1  x\n22 y\n33\n", "1  x\n22 y    z\n"])
def test_fixed_widths_that_do_not_fit(engine_target: Target, tmp_path: Path, data: str) -> None:
    engine_target.execute("CREATE TABLE t (a int, b text)")
    options = {"format": "fixed", "field_widths": "3,4", "header": "no"}
    run = load_text(engine_target, tmp_path / "in.txt", data, check=1, **options)
    assert "check --field-widths" in run.stderr
    assert "--delimiter" not in run.stderr


def test_a_long_record_in_a_stream(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(T)
    packed = gzip.compress(b'1,x\n2,"' + b"x" * 40_000_000, 1)
    run = load_text(engine_target, tmp_path / "in.csv.gz", packed, check=1, header="no")
    assert "2, which begins at byte 4" in run.stderr
    assert "longer than 16777216 bytes" in run.stderr
    assert "--max-record-size" in run.stderr


@pytest.mark.parametrize("old_rows", [0, 1])
def test_rejects_of_streams_have_their_numbers(engine_target: Target, tmp_path: Path, old_rows: int) -> None:
    """A large compressed file, which is many slices, and small ones, which share one."""
    engine_target.execute(T)
    if old_rows:
        engine_target.execute("INSERT INTO t VALUES (-1, 'old')")
    rows = 300_000
    bad = {7: "x7", 150_000: "x", rows: "xx"}
    large = "".join(f'{bad.get(n, n)},"some text that is long enough, {n}"\n' for n in range(1, rows + 1))
    write(tmp_path / "in" / "large.csv.gz", gzip.compress(large.encode(), 1))
    for number in range(3):
        write(tmp_path / "in" / f"small{number}.csv.gz", gzip.compress(b"1,a\n2\ny,c\n"))
    rejects = tmp_path / "bad.csv"
    run = load(
        engine_target, tmp_path / "in", header="no", on_error="skip", max_rejects=100, rejects=rejects, jobs=3, check=3
    )
    assert run.summary is not None
    assert run.summary["rejects"] == 9
    assert engine_target.count("t") == rows - 3 + 3 + old_rows
    with (tmp_path / "bad.csv.reasons.csv").open(newline="") as file:
        found = [(Path(line["file"]).name, int(line["record_number"])) for line in csv.DictReader(file)]
    small = [(f"small{number}.csv.gz", record) for number in range(3) for record in (2, 3)]
    assert found == [*(("large.csv.gz", number) for number in bad), *small]


def test_upsert_from_streams_keeps_the_last(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer PRIMARY KEY, b text)")
    parts = []
    for part in range(3):
        data = "".join(f"{n % 1000},{part}-{n:06}-{'long text' * 5}\n" for n in range(200_000)).encode()
        parts.append(write(tmp_path / f"{part}.csv.gz", gzip.compress(data, 1)))
    load(engine_target, *parts, header="no", mode="upsert", key="a", jobs=3)
    assert engine_target.value("SELECT count(*) FROM t") == 1000
    assert engine_target.value("SELECT count(*) FROM t WHERE b LIKE '2-199%'") == 1000


@packs
@pytest.mark.parametrize("options", [{}, {"on_error": "skip", "max_rejects": 9}], ids=["", "skip"])
def test_packed_twice(tmp_path: Path, ending: str, options: dict[str, object]) -> None:
    """The format is given, so nobody has looked at the text; with a header skipped it had no records."""
    path = tmp_path / f"in.csv.{ending}"
    path.write_bytes(gzip.compress(PACKS[ending](DATA.encode())))
    target = DuckdbTarget(tmp_path / "t.duckdb")
    target.execute(T)
    run = load_here(target, path, format="csv", header="yes", check=False, **options)
    assert run.exit_code != 0
    assert "is packed twice: it unpacks to" in run.stderr
    assert "unpack it once first" in run.stderr


def test_a_long_name_in_a_gzip_header(tmp_path: Path) -> None:
    packed = gzip.compress(DATA.encode(), mtime=0)
    # The flag of a name in the header (RFC 1952, 2.3.1), and the name behind the ten bytes of it.
    named = packed[:3] + b"\x08" + packed[4:10] + b"n" * 70_000 + b"\0" + packed[10:]
    path = tmp_path / "in.csv.gz"
    path.write_bytes(named)
    target = DuckdbTarget(tmp_path / "t.duckdb")
    target.execute(T)
    run = load_here(target, path, format="csv", header="yes", check=1)
    assert "more than 65,535 bytes" in run.stderr
    assert f"gzip -dc {path} | tipple load -" in run.stderr
    assert "damaged" not in run.stderr


UTF8_MARK, COUNTED = b"\xef\xbb\xbf", "(the offset counts text after unpacking"


@pytest.mark.parametrize(
    ("data", "options", "offset", "is_counted"),
    [
        (b"\xff\xfe" + "1\nx\n".encode("utf-16-le"), {}, 2, True),
        (b"\xfe\xff" + "1\nx\n".encode("utf-16-be"), {}, 2, True),
        (UTF8_MARK + b"1\nx\n", {}, 5, False),
        (UTF8_MARK + b"junk\n1\nx\n", {"skip_lines": 1}, 2, True),
        (UTF8_MARK + b"# junk\n1\nx\n", {"comment": "#"}, 2, True),
        (UTF8_MARK + b"1\n# junk\nx\n", {"comment": "#"}, 2, True),
    ],
)
def test_what_an_offset_counts_behind_a_byte_order_mark(
    engine_target: Target, tmp_path: Path, data: bytes, options: dict[str, object], offset: int, is_counted: bool
) -> None:
    """The file's bytes with the mark, or text without it, and then the error says so."""
    engine_target.execute("CREATE TABLE t (a integer)")
    run = load(engine_target, write(tmp_path / "in.csv", data), check=1, header="no", **options)
    assert f"begins at byte {offset}" in " ".join(run.stderr.split())
    assert (COUNTED in " ".join(run.stderr.split())) == is_counted
