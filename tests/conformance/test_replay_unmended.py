"""A replay of rejects that nobody has mended stores nothing and loses nothing, wherever their quotes stand."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tipple
from conftest import LONG
from loading import load, load_here
from spoilt import SEED
from targets import DuckdbTarget, Target, write
from tipple.errors import UsageError

TABLE = "CREATE TABLE t (a integer, b varchar, z integer)"


@dataclass
class Way:
    """How a file is written."""

    quote: str
    escape: str
    end: str

    def leaves_no_doubt(self, record: str) -> bool:
        """Whether each line of a record ends outside quotes, or else all quotes of it stand around fields."""
        return all(not self._is_open(line) for line in record.split(self.end)) or self._stands_around_fields(record)

    def _is_open(self, line: str) -> bool:
        is_open, at = False, 0
        while at < len(line):
            if is_open and self.escape != self.quote and line[at] == self.escape:
                at += 2 if line[at + 1 : at + 2] in (self.quote, self.escape) else 1
                continue
            is_open ^= line[at] == self.quote
            at += 1
        return is_open

    def _stands_around_fields(self, record: str) -> bool:
        at, begins_field = 0, True
        while at < len(record):
            if record[at] != self.quote:
                begins_field = record[at] == ","
                at += 1
                continue
            if not begins_field:
                return False
            at += 1
            while record[at : at + 1] != self.quote or (
                self.escape == self.quote and record[at + 1 : at + 2] == self.quote
            ):
                if at >= len(record):
                    return False
                pair = record[at] == self.escape and record[at + 1 : at + 2] in (self.quote, self.escape)
                at += 2 if pair and record[at + 1 : at + 2] else 1
            at += 1
            begins_field = False
            if record[at : at + 1] not in (",", "\r", "\n", ""):
                return False
        return True


def line(r: random.Random, number: int, way: Way, limit: int, *, strays: bool) -> str:
    """A record, or something that looks like one."""
    q, e, end = way.quote, way.escape, way.end
    kinds: list[Callable[[], str]] = [
        lambda: f"{number},plain,1",
        lambda: f"{number},{q}q,uoted{q},1",
        lambda: f"{number},{q}a {e}{q}word{e}{q}{q},1",
        lambda: f"{number},{q}multi{end}line{q},1",
        lambda: f"{number},{q}like{end}{number + 500},a,1{end}{number + 600},{e}{q}{e}{q},2{end}{q},1",
        lambda: f"{number},{q}multi{end}line{q},bad",
        lambda: f"{number},bad value,x",
        lambda: f"{number},too few",
        lambda: f"{number}, {q}inside{q} it,1",
        lambda: f"{number},{'y' * r.randint(limit // 2, 2 * limit)},1",
        lambda: f"{number},{q}{f'z{end}' * r.randint(limit // 8, limit)}{q},1",
        lambda: f"{number},{q}{f'{number + 700},z,1{end}' * r.randint(1, limit // 16)}{q},1",
    ]
    if strays:
        kinds += [
            lambda: f"{number},close{q},1",
            lambda: f"{number},{q}open,1",
            lambda: f"{number},{q}open",
            lambda: f"closes{q},1",
            lambda: f"{number},{e}{q}escaped{e}{q},1",
        ]
    return r.choice(kinds[:4] if r.random() < 0.4 else kinds)() + end


@pytest.mark.parametrize("group", range(32 if LONG else 4))
def test_what_nobody_has_mended(tmp_path: Path, group: int) -> None:
    """Whole, it is refused or rejected again; without what leaves doubt where it ends it is rejected again."""
    r = random.Random(SEED * 1000 + group)
    for case in range(8):
        is_refused = replay_unmended(r, tmp_path / str(case), strays=case % 2 == 0)
        # Texts of several lines are no reason to refuse any, nor are records that are too long.
        assert case % 2 == 0 or not is_refused


def replay_unmended(r: random.Random, directory: Path, *, strays: bool) -> bool:
    """One case, with quotes that are missing or too many or without; whether the rejects as they were are refused."""
    directory.mkdir()
    quote = r.choice('""\'')
    way = Way(quote, r.choice([quote, quote, "\\"]), r.choice(["\n", "\n", "\r\n", "\r"]))
    limit = r.choice([64, 100, 512, 4096])
    target = DuckdbTarget(directory / "t.duckdb")
    target.execute(TABLE)
    paths = []
    for name in range(r.randint(1, 2)):
        text = "".join(line(r, 100 * name + n, way, limit, strays=strays) for n in range(r.randint(2, 14)))
        # It is what says how records end.
        data = (f"{100 * name + 99},first,1{way.end}{text}").encode()
        paths.append(directory / f"{name}.csv")
        paths[-1].write_bytes(gzip.compress(data, 1) if r.random() < 0.2 else data)
    rejects = directory / "bad"
    options: dict[str, Any] = {"into": target.url, "table": "t", "format": "csv", "header": "no", "quote": way.quote}
    options |= {"escape": way.escape, "on_error": "skip", "max_rejects": "100%", "rejects": rejects, "jobs": 1}
    options |= {"max_record_size": limit}
    sources = [str(path) for path in paths]
    report = tipple.load(sources, **options)
    if not report.rejects:
        return False
    before, raw = target.sorted_rows("t"), rejects.read_bytes()
    shown = f"{way} limit {limit} in {directory}"

    def replay(content: bytes) -> None:
        for _ in range(2):
            tipple.load(sources, replay=True, **options)
            assert target.sorted_rows("t") == before, shown
            assert rejects.read_bytes() == content, shown

    refusal = None
    try:
        replay(raw)
    except UsageError as error:
        refusal = str(error)
    if refusal is not None:
        assert "a quote is missing or too many" in refusal, shown
        assert (target.sorted_rows("t"), rejects.read_bytes()) == (before, raw), shown
    with duckdb.connect(str(directory / "t.duckdb")) as connection:
        rows = connection.execute(
            f"SELECT record FROM tipple.reject WHERE job_id = '{report.job_id}' ORDER BY source, byte_offset"
        ).fetchall()
    records = [bytes(record) for (record,) in rows]
    assert b"".join(records) == raw, shown
    certain = b"".join(record for record in records if way.leaves_no_doubt(record.decode()))
    if certain:
        rejects.write_bytes(certain)
        replay(certain)
        rejects.write_bytes(certain + f"1000,mended,1{way.end}".encode())
        before = sorted([*before, (1000, "mended", 1)], key=repr)
        tipple.load(sources, replay=True, **options)
        assert sorted(target.rows("SELECT * FROM t"), key=repr) == before, shown
        assert rejects.read_bytes() == certain, shown
    return refusal is not None


def skipping(rejects: Path, **options: object) -> dict[str, object]:
    return {"format": "csv", "header": "no", "on_error": "skip", "max_rejects": 9, "rejects": rejects, **options}


def test_a_cut_record_of_several_lines(engine_target: Target, tmp_path: Path) -> None:
    """The quote that closes its beginning opens one for whoever reads it line by line."""
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", f'0,close",0\n1,"q,uoted",1\n12,{"y" * 700},4\n16,"multi\nline",0\n')
    rejects = tmp_path / "bad"
    options = skipping(rejects, max_record_size=512)
    load_here(engine_target, path, check=3, **options)
    raw = rejects.read_bytes()
    assert raw.startswith(b'0,close",0\n1,')
    assert raw.endswith(b'yyy",,,,\nline",0\n')
    run = load_here(engine_target, path, replay=True, check=2, **options)
    assert 'line 1 (0,close",0)' in run.stderr
    assert (engine_target.count("t"), rejects.read_bytes()) == (0, raw)
    rejects.write_text(f'0,close,0\n1,"q,uoted",1\n12,{"y" * 400},4\n16,"multi\nlines",0\nline",0\n')
    load_here(engine_target, path, replay=True, check=3, **options)
    assert engine_target.rows("SELECT a, z FROM t ORDER BY a") == [(0, 0), (1, 1), (12, 4), (16, 0)]
    assert rejects.read_text() == 'line",0\n'


def test_pieces_that_look_like_one_record_side_by_side(engine_target: Target, tmp_path: Path) -> None:
    """Of different files: no quote stands where it should not when they are read together."""
    engine_target.execute(TABLE)
    first = write(tmp_path / "1.csv", '1,x,1\n2,x,1\n5,"abc\n')
    second = write(tmp_path / "2.csv", 'def",7\n6,x,1\n7,x,1\n8,x,1\n9,x,1\n')
    rejects = tmp_path / "bad"
    load_here(engine_target, first, second, check=3, **skipping(rejects))
    raw = rejects.read_bytes()
    assert raw == b'5,"abc\ndef",7\n'
    run = load_here(engine_target, first, second, replay=True, check=2, **skipping(rejects))
    assert 'line 1 (5,"abc)' in run.stderr
    assert (engine_target.count("t"), rejects.read_bytes()) == (6, raw)
    rejects.write_bytes(b'5,"abc",7\ndef",7\n')
    load_here(engine_target, first, second, replay=True, check=3, **skipping(rejects))
    assert rejects.read_bytes() == b'def",7\n'
    # Whether a line before it is meant to mend it, only a source of its own says.
    rejects.write_bytes(b'0,"abc\ndef",7\n')
    run = load_here(engine_target, first, second, replay=True, check=2, **skipping(rejects))
    assert "can be loaded as a source of their own" in run.stderr
    load_here(engine_target, write(tmp_path / "3.csv", rejects.read_text()), **skipping(tmp_path / "other"))
    assert engine_target.rows("SELECT a, b FROM t WHERE z = 7 ORDER BY a") == [(0, "abc\ndef"), (5, "abc")]


def test_one_of_two_pieces_is_mended(engine_target: Target, tmp_path: Path) -> None:
    """But not its quote, which the other one, untouched, would close."""
    engine_target.execute(TABLE)
    good = "".join(f"{n},a,{n}\n" for n in range(6))
    first = write(tmp_path / "1.csv", f'{good}x1,"ab,1\n')
    second, rejects = write(tmp_path / "2.csv", f'cd",1\n{good}'), tmp_path / "bad"
    load_here(engine_target, first, second, check=3, **skipping(rejects))
    assert rejects.read_text() == 'x1,"ab,1\ncd",1\n'
    rejects.write_text('91,"ab,1\ncd",1\n')
    run = load_here(engine_target, first, second, replay=True, check=2, **skipping(rejects))
    assert "a quote is missing or too many in line 2" in run.stderr
    assert rejects.read_text() == '91,"ab,1\ncd",1\n'
    assert engine_target.count("t") == 12


def test_more_open_quotes_than_are_kept(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    good = "".join(f"{n},a,{n}\n" for n in range(5))
    groups = (f'{good}{n},"ab,1\n{good}q"q,x,1\n{good}cd",{n}\n' for n in range(700))
    source, rejects = write(tmp_path / "in.csv", "".join(groups)), tmp_path / "bad"
    load_here(engine_target, source, check=3, **skipping(rejects) | {"max_rejects": "100%"})
    rows, lines = engine_target.count("t"), rejects.read_text().splitlines(keepends=True)
    assert len(lines) == 2100
    # Somebody has taken out those of which the beginnings are kept, and those that would tell by their quotes.
    rejects.write_text("".join(line for line in lines[1002:] if not line.startswith("q")))
    run = load_here(engine_target, source, replay=True, check=2, **skipping(rejects))
    assert "begins a record of several lines, if it is one" in run.stderr
    assert engine_target.count("t") == rows


def test_an_escaped_quote_closes_what_another_reject_has_opened(tmp_path: Path) -> None:
    """By itself its quotes are even: a backslash means something only inside of them."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    target.execute(TABLE)
    path = write(tmp_path / "1.csv", '1,x,1\n5,"abc\n')
    other = write(tmp_path / "2.csv", 'a\\"b",7\n6,x,1\n')
    rejects = tmp_path / "bad"
    options = skipping(rejects, escape="\\")
    load_here(target, path, other, check=3, **options)
    raw = rejects.read_bytes()
    assert raw == b'5,"abc\na\\"b",7\n'
    load_here(target, path, other, replay=True, check=2, **options)
    assert (target.sorted_rows("t"), rejects.read_bytes()) == ([(1, "x", 1), (6, "x", 1)], raw)


def test_a_text_of_several_lines_that_the_table_takes_now(engine_target: Target, tmp_path: Path) -> None:
    """It was no mistake of the record, which is replayed as it is, beside others."""
    engine_target.execute("CREATE TABLE t (a integer PRIMARY KEY, b varchar, z integer)")
    path = write(tmp_path / "in.csv", '1,x,1\n1,"two\n""lines""",2\n3,x"y"z,bad\n4,"one\ntwo",bad\n')
    rejects = tmp_path / "bad"
    load_here(engine_target, path, check=3, **skipping(rejects))
    engine_target.execute("DELETE FROM t")
    load_here(engine_target, path, replay=True, check=3, **skipping(rejects))
    assert engine_target.rows("SELECT * FROM t") == [(1, 'two\n"lines"', 2)]
    assert rejects.read_text() == '3,x"y"z,bad\n4,"one\ntwo",bad\n'


@pytest.mark.parametrize(
    ("inner", "end"),
    [("\r", "\n"), ("\n", "\r\n"), ("\r\n", "\n"), ("\n", "\r")],
    ids=["cr in lf", "lf in crlf", "crlf in lf", "lf in cr"],
)
@pytest.mark.parametrize("format", ["csv", "text"])
def test_the_first_reject_holds_another_line_end(
    engine_target: Target, tmp_path: Path, inner: str, end: str, format: str
) -> None:
    """That is no line end of the file of rejects: a part of the record would be one."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    comma = "," if format == "csv" else "\t"
    lines = [f"1{comma}x", f"2{comma}a{inner}b", f"bad{comma}y", f"3{comma}x"]
    path = write(tmp_path / "in.csv", "".join(line + end for line in lines).encode())
    rejects = tmp_path / "bad"
    load_here(engine_target, path, check=3, **skipping(rejects, format=format))
    raw = rejects.read_bytes()
    run = load_here(engine_target, path, replay=True, check=2, **skipping(rejects, format=format))
    assert "the first line (2" in run.stderr
    assert (engine_target.count("t"), rejects.read_bytes()) == (2, raw)
    rejects.write_bytes(raw.replace(f"a{inner}b".encode(), b"ab"))
    load_here(engine_target, path, replay=True, check=3, **skipping(rejects, format=format))
    assert engine_target.sorted_rows("t") == [(1, "x"), (2, "ab"), (3, "x")]
    assert rejects.read_bytes() == f"bad{comma}y{end}".encode()


@pytest.mark.parametrize("records", [["x", "\\."], ["\\."], ["x", "\\.", "z"]], ids=["last", "alone", "in the midst"])
def test_a_reject_that_looks_like_the_end_of_data(engine_target: Target, tmp_path: Path, records: list[str]) -> None:
    """`\\.` alone on the last line ends a file of the text format, and a file of rejects is one."""
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.txt", "".join(f"{record}\n" for record in ["1", *records, "2"]))
    rejects = tmp_path / "bad.txt"
    options: dict[str, object] = {"format": "text", "on_error": "skip", "max_rejects": 5, "rejects": rejects}
    first = load(engine_target, path, check=3, **options)
    assert first.summary is not None
    assert (first.summary["rows"], first.summary["rejects"]) == (2, len(records))
    raw = rejects.read_bytes()
    again = load(engine_target, path, check=3, replay=True, **options)
    assert again.summary is not None
    assert (again.summary["rows"], again.summary["rejects"]) == (0, len(records))
    assert rejects.read_bytes() == raw
    rejects.write_bytes(raw.replace(b"\\.", b"7", 1))
    mended = load(engine_target, path, check=3 if len(records) > 1 else 0, replay=True, **options)
    assert mended.summary is not None
    assert (mended.summary["rows"], mended.summary["rejects"]) == (1, len(records) - 1)
