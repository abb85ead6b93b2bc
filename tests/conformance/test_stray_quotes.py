"""Quotes that are missing or too many take no record with them, and those that are right are not taken for such."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pytest

from extension.pages import make_ready
from loading import load, load_here, load_stdin
from spoilt import told
from targets import DuckdbTarget, PostgresTarget, Target, write

SKIP: dict[str, Any] = {"format": "csv", "header": "no", "on_error": "skip", "max_rejects": "100%"}


@pytest.mark.parametrize("ending", [",x", None], ids=["extra field", "missing field"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("escape", [None, "\\"])
def test_several_lines_in_quotes_that_are_right(
    engine_target: Target, tmp_path: Path, ending: str | None, end: str, escape: str | None
) -> None:
    """Inside out, the records behind one with another number of fields look like records too."""
    engine_target.execute("CREATE TABLE t (a varchar, b varchar)")
    inner = '""' if escape is None else '\\"'
    texts = [f'"Dear {inner}Sir{inner}, hello{end}foo {n}"' for n in range(100)]
    records = [f"k{n},{text}{end}" for n, text in enumerate(texts)]
    records[6] = texts[6] + end if ending is None else f"k6,{texts[6]}{ending}{end}"
    rejects = tmp_path / "bad"
    load(engine_target, write(tmp_path / "in.csv", "".join(records)), **SKIP, escape=escape, rejects=rejects, check=3)
    stored = [(f"k{n}", f'Dear "Sir", hello{end}foo {n}') for n in range(100) if n != 6]
    assert sorted(engine_target.rows("SELECT * FROM t")) == sorted(stored)
    assert rejects.read_bytes() == records[6].encode()


@pytest.mark.parametrize("limit", ["64KiB", "250kB", None])
@pytest.mark.parametrize("third", [True, False])
def test_whole_records_behind_a_stray_quote_are_not_too_long(
    engine_target: Target, tmp_path: Path, limit: str | None, third: bool
) -> None:
    """What is left of a window then is no record that goes on and on."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar, c integer)")
    records = [f"{n},abcdefg,{n % 7}\n" for n in range(40_000)]
    stray = {50: '50,abc"defg,1\n', 60: '60,abcdefg,"1\n'} | ({70: '70,abc"defg,1\n'} if third else {})
    for n, record in stray.items():
        records[n] = record
    rejects = tmp_path / "bad"
    path = write(tmp_path / "in.csv", "".join(records))
    load(engine_target, path, **SKIP, rejects=rejects, max_record_size=limit, jobs=1, check=3)
    assert rejects.read_text() == "".join(stray.values())
    assert engine_target.count("t") == 40_000 - len(stray)
    assert len(told(rejects)) == len(stray)


@pytest.fixture(scope="module")
def between() -> list[str]:
    """Records of which some have a text of several lines that look like records; the sixth has a quote too many."""
    lines = [
        f'{n},"mail:\n-{n},forwarded,7\nend",3\n' if n % 300 == 0 else f"{n},{'t' * 90},{n % 100}\n"
        for n in range(200_000)
    ]
    lines[5] = '5,"abc,1\n'
    lines[-2] = "bad,abc,1\n"
    return lines


@pytest.mark.parametrize("source", ["file", "packed", "stdin"])
@pytest.mark.parametrize("ledger", [True, False])
def test_slices_behind_a_stray_quote(
    engine_target: Target, tmp_path: Path, between: list[str], source: str, ledger: bool
) -> None:
    """Lines within a text of several lines are no records, and each reject has its number."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar, c integer)")
    rejects = tmp_path / "bad"
    data = "".join(between).encode()
    options: dict[str, Any] = SKIP | {"rejects": rejects, "verify": "checksum", "no_ledger": not ledger}
    if source == "stdin":
        done = load_stdin(engine_target, data, **options)
        assert done.returncode == 3, done.stderr.decode()
    else:
        path = tmp_path / "in.csv"
        path.write_bytes(gzip.compress(data, 1) if source == "packed" else data)
        run = load(engine_target, path, **options, check=3)
        assert run.summary is not None
        assert run.summary["slices"] > 2
    assert rejects.read_text() == between[5] + between[-2]
    places = [(n + 1, sum(map(len, between[:n]))) for n in (5, len(between) - 2)]
    assert [row[:2] for row in told(rejects)] == places
    assert engine_target.rows("SELECT count(*), min(a) FROM t") == [(199_998, 0)]


def load_one_stray_quote(target: Target, tmp_path: Path, **options: Any) -> None:
    """No quote follows in what is unpacked, and more of it than a record may have."""
    target.execute("CREATE TABLE t (a integer, b varchar, c integer)")
    lines = [f"{n},abcdefg,{n % 7}\n" for n in range(100_000)]
    lines[50_000] = '50000,abc"defg,1\n'
    path = tmp_path / "in.csv.gz"
    path.write_bytes(gzip.compress("".join(lines).encode(), 1))
    rejects = tmp_path / "bad"
    run = load(target, path, **SKIP, **options, rejects=rejects, max_record_size="64KiB", check=3)
    assert run.summary is not None
    assert run.summary["rows"] == target.count("t") == 99_999
    assert rejects.read_text() == lines[50_000]
    assert [row[:2] for row in told(rejects)] == [(50_001, sum(map(len, lines[:50_000])))]


def test_one_stray_quote_takes_its_line_only(engine_target: Target, tmp_path: Path) -> None:
    load_one_stray_quote(engine_target, tmp_path)


def test_one_stray_quote_in_short_transactions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    load_one_stray_quote(postgres_target, tmp_path, no_atomic=True, commit_every=1000)


TEXTS = ["a", "plain text", '"q,uoted"', '"multi\nline"', '"dou""bled"', '"x\n\ny,z\n"']
STRAY = ['"', 'close"', 'x"y', '"open', '"a"b"', '"unclosed, and\nmore']


def any_record(choose: random.Random, number: int) -> str:
    fields = [str(number), choose.choice(TEXTS), str(number % 7)]
    kind = choose.random()
    if kind < 0.06:
        fields[1] = choose.choice(STRAY)
    elif kind < 0.09:
        del fields[2]
    elif kind < 0.12:
        fields[2] = "bad"
    elif kind < 0.13:
        fields[0] = f' "{number}"'
    return ",".join(fields) + "\n"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("escape", [None, "\\"])
def test_transactions_make_no_difference(
    postgres_target: PostgresTarget, tmp_path: Path, seed: int, escape: str | None
) -> None:
    """Wherever one ends, each record and each line that is none is the same one as in the file that is not packed."""
    choose = random.Random(seed)
    count = choose.choice([20, 200, 1500])
    text = "".join(any_record(choose, number) for number in range(count))
    if choose.random() < 0.5:
        text = text.replace("\n", "\r\n")
    if choose.random() < 0.5:
        # The last record has no end.
        text = text.rstrip() + choose.choice(["", f"\n{count},"])
    options = SKIP | {"quote": '"', "escape": escape, "max_record_size": choose.choice(["512", "4096", "16MiB"])}
    plain, packed = write(tmp_path / "in.csv", text), tmp_path / "in.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    found = {}
    for source, every in ((plain, None), (plain, 3), (packed, None), (packed, 1), (packed, 7), (packed, 100)):
        postgres_target.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (a integer, b varchar, c integer)")
        rejects = tmp_path / "bad"
        load(postgres_target, source, **options, commit_every=every, rejects=rejects, restart=True, check=3)
        rows = postgres_target.rows("SELECT * FROM t ORDER BY a, b, c")
        found[source.suffix, every] = rows, rejects.read_bytes(), told(rejects)
    first = found.pop((".csv", None))
    for how, other in found.items():
        assert other == first, how


@pytest.mark.parametrize("is_packed", [False, True])
def test_odd_quotes_that_are_meant(engine_target: Target, tmp_path: Path, is_packed: bool) -> None:
    """A quote behind a space is one within a field, which COPY takes; inside out such texts look well quoted."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar, c varchar)")
    text = "".join(f'{n}, "\nfoo {n}, bar\nbaz\n",x\n' for n in range(400_000)).encode()
    path = tmp_path / "in.csv"
    path.write_bytes(gzip.compress(text, 1) if is_packed else text)
    run = load(engine_target, path, **SKIP, rejects=tmp_path / "bad")
    assert run.summary is not None
    assert run.summary["slices"] > 1
    assert engine_target.rows("SELECT count(*), count(DISTINCT a), min(b) FROM t WHERE c = 'x'") == [
        (400_000, 400_000, " \nfoo 0, bar\nbaz\n")
    ]


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("first", [0, 3000])
def test_two_stray_quotes_far_apart(engine_target: Target, tmp_path: Path, is_packed: bool, first: int) -> None:
    """What lies between them is longer than a record may be."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar, c varchar)")
    lines = [f"{n},some text,x\n" for n in range(20_000)]
    lines[first], lines[first + 6000] = f'{first},some text,x"\n', f'{first + 6000},so"me text,x\n'
    text = "".join(lines).encode()
    path = tmp_path / "in.csv"
    path.write_bytes(gzip.compress(text, 1) if is_packed else text)
    rejects = tmp_path / "bad"
    load(engine_target, path, **SKIP, rejects=rejects, max_record_size="64KiB", check=3)
    assert rejects.read_text() == lines[first] + lines[first + 6000]
    assert [number for number, *_ in told(rejects)] == [first + 1, first + 6001]
    assert engine_target.count("t") == 19_998


@pytest.mark.parametrize("is_packed", [False, True])
def test_many_quotes_that_no_other_one_ends(engine_target: Target, tmp_path: Path, is_packed: bool) -> None:
    """Behind a backslash that escapes it no quote closes another: each would lead through all that is left."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar, c varchar)")
    lines = [f'{n},say \\"hi,x\n' if n % 6 == 0 else f"{n},plain,x\n" for n in range(60_000)]
    text = "".join(lines).encode()
    path = tmp_path / "in.csv"
    path.write_bytes(gzip.compress(text, 1) if is_packed else text)
    rejects = tmp_path / "bad"
    load(engine_target, path, **SKIP, escape="\\", rejects=rejects, check=3)
    assert rejects.read_text() == "".join(lines[::6])
    assert engine_target.count("t") == 50_000


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("stray", ['200,so"me text,x\n', '200,"some text,x\n'], ids=["within a field", "around one"])
@pytest.mark.parametrize("between", [10, 200, 6000])
def test_a_record_that_is_too_long_behind_a_stray_quote(
    engine_target: Target, tmp_path: Path, is_packed: bool, stray: str, between: int
) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar, c varchar)")
    lines = [f"{n},some text,x\n" for n in range(10_000)]
    long = f"9,{'y' * 2_000_000},z\n"
    lines[200], lines[200 + between] = stray, long
    text = "".join(lines).encode()
    path = tmp_path / "in.csv"
    path.write_bytes(gzip.compress(text, 1) if is_packed else text)
    rejects = tmp_path / "bad"
    options = SKIP | {"max_record_size": "64KiB", "memory_limit": "200MB", "rejects": rejects}
    load(engine_target, path, **options, check=3, timeout=60)
    assert [number for number, *_ in told(rejects)] == [201, 201 + between]
    assert rejects.read_text().startswith(f"{stray}9,yyy")
    assert engine_target.count("t") == 9_998


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(("limit", "length"), [("250KB", 200_000), ("64KB", 60_000), ("1MB", 900_000)])
def test_a_record_that_is_nearly_too_long(
    engine_target: Target, tmp_path: Path, is_packed: bool, limit: str, length: int
) -> None:
    """Behind a record from which on a window is looked through a little at a time."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar, c varchar)")
    lines = [f"{n},some text,x\n" for n in range(9000)]
    lines[1000], lines[1010] = "1000,some\rtext,x\n", f"1010,{'y' * length},x\n"
    text = "".join(lines).encode()
    path = tmp_path / "in.csv"
    path.write_bytes(gzip.compress(text, 1) if is_packed else text)
    rejects = tmp_path / "bad"
    load(engine_target, path, **SKIP, max_record_size=limit, rejects=rejects, check=3)
    assert rejects.read_bytes() == lines[1000].encode()
    assert engine_target.count("t") == 8999


def test_a_quote_that_is_never_closed_in_short_transactions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (a integer, b varchar, c varchar)")
    lines = [f"{n},some text of a record,x\n" for n in range(40_000)]
    lines[100] = '100,"some text of a record,x\n'
    path = tmp_path / "in.csv.gz"
    path.write_bytes(gzip.compress("".join(lines).encode(), 1))
    rejects = tmp_path / "bad"
    load(postgres_target, path, **SKIP, commit_every=1000, rejects=rejects, check=3)
    assert rejects.read_text() == lines[100]
    assert postgres_target.count("t") == 39_999


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("end", ["\r\n", "\r"], ids=["crlf", "cr"])
def test_a_stray_quote_in_the_first_record(engine_target: Target, tmp_path: Path, is_packed: bool, end: str) -> None:
    """No line seems to end behind it: they end as the first one does."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar, c varchar)")
    text = "".join([f'0,ab"c,x{end}', *(f"{n},text,x{end}" for n in range(1, 40))]).encode()
    path = tmp_path / "in.csv"
    path.write_bytes(gzip.compress(text) if is_packed else text)
    rejects = tmp_path / "bad"
    load(engine_target, path, **SKIP, quote='"', delimiter=",", rejects=rejects, check=3)
    assert engine_target.count("t") == 39
    assert rejects.read_bytes() == f'0,ab"c,x{end}'.encode()


def test_small_sources_and_parts_of_large_ones(engine_target: Target, tmp_path: Path) -> None:
    """What shares a transaction with other sources is numbered in its own."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    paths = []
    for number, rows in enumerate([3, 90_000, 3, 3, 90_000, 3]):
        lines = [f"{n},{'x' * 200}\n" for n in range(rows)]
        lines[1], lines[-1] = "bad,y\n", f'{rows},"z\n'
        paths.append(tmp_path / f"{number}.csv.gz")
        paths[-1].write_bytes(gzip.compress("".join(lines).encode(), 1))
    rejects = tmp_path / "bad"
    load(engine_target, *paths, **SKIP, rejects=rejects, jobs=1, check=3)
    numbers = [number for number, *_ in told(rejects)]
    assert numbers == [2, 3, 2, 90_000, 2, 3, 2, 3, 2, 90_000, 2, 3]
    assert engine_target.count("t") == 180_012 - 12


def test_a_value_that_only_the_server_reads_has_no_digest(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Without a ledger too the rows by pages are then verified by their count."""
    make_ready(postgres_target.server, postgres_target.database)
    postgres_target.execute("CREATE TABLE t (at date)")
    path = write(tmp_path / "in.csv", "2024-02-29\n" * 2000 + '"January 8, 1999"\n' + "2024-02-29\n" * 2000)
    run = load(postgres_target, path, header="no", verify="checksum", no_ledger=True, write_path="direct")
    assert run.summary is not None
    assert run.summary["verify"]["kind"] == "count"
    assert postgres_target.count("t") == 4001


@pytest.mark.parametrize("others", [{}, {50: '"A" grade'}], ids=["inches alone", "and a word in quotes"])
@pytest.mark.parametrize(("first", "second"), [(100, 9_000), (100, 180)])
@pytest.mark.parametrize("delimiter", [",", "|", "\t"])
def test_inches_far_apart_in_a_file_without_quotes(
    tmp_path: Path, delimiter: str, first: int, second: int, others: dict[int, str]
) -> None:
    """What is between the two is no field, though the sample ends before the second."""
    names = {first: '5" pipe', second: '12" pipe', **others}
    rows = [(number, names.get(number, f"rod {number}"), "steel") for number in range(10_000)]
    lines = [delimiter.join(map(str, row)) for row in [("id", "name", "material"), *rows]]
    path = write(tmp_path / "in.csv", "\n".join(lines) + "\n")
    target = DuckdbTarget(tmp_path / "t.duckdb")
    load_here(target, path, schema="auto", header="yes", format="auto")
    assert target.rows("SELECT * FROM t ORDER BY id") == rows
