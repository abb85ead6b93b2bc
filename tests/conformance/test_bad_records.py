"""The first bad record ends the job: told with everything that is needed to find and mend it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from loading import load, load_here, load_text
from targets import Target, write

TABLE = "CREATE TABLE t (a integer NOT NULL, b numeric(5,2), c date, d varchar)"


@dataclass(frozen=True)
class Bad:
    """A file with one bad record, and what has to be said of it."""

    data: bytes
    record: int
    offset: int
    column: str | None
    text: str | None
    reason: str
    sqlstate: str | None = None
    options: tuple[tuple[str, object], ...] = ()


GOOD = b"1,1.5,2020-01-01,x\n"
CASES: dict[str, Bad] = {
    "first_record": Bad(b"x,,,\n" + GOOD, 1, 0, "a", "x", "integer", "22P02"),
    "last_record": Bad(GOOD * 3 + b"2147483648,,,\n", 4, 57, "a", "2147483648", "out of range", "22003"),
    "no_last_newline": Bad(GOOD * 3 + b"1,1000,,", 4, 57, "b", "1000", "overflow", "22003"),
    "date": Bad(GOOD + b"2,,2021-02-29,\n" + GOOD, 2, 19, "c", "2021-02-29", "date", "22008"),
    "null_in_not_null": Bad(GOOD + b",1,,\n", 2, 19, "a", None, "null", "23502"),
    "too_few_fields": Bad(GOOD + b"1,2\n", 2, 19, None, None, "", "22P04"),
    "too_many_fields": Bad(GOOD + b"1,2,,x,surplus\n", 2, 19, None, None, "", "22P04"),
    "after_newlines_in_quotes": Bad(
        b'1,,,"a\n\n\nb"\n' + GOOD + b"1,y,,\n", 3, 12 + 19, "b", "y", "numeric", "22P02"
    ),
    "crlf": Bad(GOOD.replace(b"\n", b"\r\n") * 2 + b"q,,,\r\n", 3, 40, "a", "q", "integer", "22P02"),
    "after_multi_byte": Bad("1,,,äöü🚂\n".encode() + b"z,,,\n", 2, 15, "a", "z", "integer", "22P02"),
    "quoted": Bad(GOOD + b'"1x",,,\n', 2, 19, "a", "1x", "integer", "22P02"),
    "unterminated_quote": Bad(GOOD * 2 + b'1,,,"abc\n' + GOOD * 2, 3, 38, None, None, "quote", "22P04"),
    "invalid_utf8": Bad(GOOD + b"1,,,\xff\n", 2, 19, None, None, "", "22021"),
    "text_format": Bad(
        b"1\t\\N\t\\N\tx\\\ny\n2\tw\t\\N\t\n", 2, 13, "b", "w", "numeric", "22P02", (("format", "text"),)
    ),
    "tbl": Bad(b"1|||x|\n2|w||x|\n", 2, 7, "b", "w", "numeric", "22P02", (("format", "tbl"),)),
}  # fmt: skip


def numbers_in(text: str) -> set[int]:
    """All whole numbers in a text, written with or without thousands separators."""
    return {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text) if number.strip(",")}


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_the_line_where_a_quote_was_opened(engine_target: Target, tmp_path: Path, line_end: str) -> None:
    """As an editor counts it: there are newlines in quotes above it, and a header."""
    engine_target.execute("CREATE TABLE t (a integer, b text)")
    data = line_end.join(["a,b", '1,"x', 'y"', '2,"never', "3,z", ""])
    run = load_here(engine_target, write(tmp_path / "in.csv", data.encode()), check=1, format="csv", header="yes")
    assert f"2, which begins at byte {len(data.partition('2,')[0].encode())}" in run.stderr
    assert "(line 4 of the file)" in run.stderr


@pytest.mark.parametrize("name", CASES)
def test_one_bad_record(engine_target: Target, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    engine_target.execute(TABLE)
    engine_target.execute("INSERT INTO t VALUES (-1, NULL, NULL, 'old')")
    run = load_text(engine_target, tmp_path / "bad file.csv", case.data, check=1, **dict(case.options))
    assert engine_target.rows("SELECT a, d FROM t") == [(-1, "old")]
    assert engine_target.leftovers("t") == set()
    said = run.stderr
    assert "bad file.csv" in said
    assert {case.record, case.offset} <= numbers_in(said), said
    assert "record" in said
    assert "byte" in said
    if case.column is not None:
        assert re.search(rf"\bcolumn\b.*\b{case.column}\b", said), said
    if case.text is not None:
        assert case.text in said
    assert case.reason in said.lower()
    if case.sqlstate is not None:
        assert case.sqlstate in said


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("place", ["start", "middle", "end"])
def test_deep_in_a_large_file(engine_target: Target, tmp_path: Path, jobs: int, place: str) -> None:
    """Record number and offset count from the file's beginning, whichever stream meets the record."""
    count = 600_000
    number = {"start": 3, "middle": count // 2, "end": count - 1}[place]
    line = '{},1.25,2020-01-01,"a\nb {}"\n'
    lines = [line.format(i, "x" * (i % 60)) for i in range(count)]
    lines[number] = "12x4,1.25,2020-01-01,bad\n"
    path = write(tmp_path / "in.csv", "".join(lines))
    engine_target.execute(TABLE)
    run = load(engine_target, path, jobs=jobs, check=1)
    offset = sum(map(len, lines[:number]))
    assert {number + 1, offset} <= numbers_in(run.stderr), f"{number + 1} {offset}\n{run.stderr}"
    assert "12x4" in run.stderr
    assert engine_target.count("t") == 0
    assert engine_target.leftovers("t") == set()


def test_the_first_of_several(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    data = GOOD * 10 + b"p,,,\n" + GOOD * 10 + b"q,,,\n"
    run = load_text(engine_target, tmp_path / "in.csv", data, jobs=1, check=1)
    assert {11, 190} <= numbers_in(run.stderr)


def test_the_file_among_many(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    files = [write(tmp_path / f"part{i}.csv", GOOD * 5) for i in range(20)]
    write(files[13], GOOD * 2 + b"oops,,,\n")
    run = load(engine_target, *files, jobs=2, check=1)
    assert "part13.csv" in run.stderr
    assert {3, 38} <= numbers_in(run.stderr)
    assert engine_target.count("t") == 0


def test_long_text_is_shortened(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    run = load_text(engine_target, tmp_path / "in.csv", b"z" * 1_000_000 + b",,,\n", check=1)
    assert "zzzzzzzz" in run.stderr
    assert len(run.stderr) < 5000


def test_a_terminal_is_not_harmed(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    run = load_text(engine_target, tmp_path / "in.csv", b"1\x1b[31m\x07,,,\n", check=1)
    assert "\x1b[31m" not in run.stderr
    assert "\x07" not in run.stderr


def test_a_header_counts_in_offsets(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    data = b"a,b,c,d\n" + GOOD + b"bad,,,\n"
    run = load_text(engine_target, tmp_path / "in.csv", data, header="yes", check=1)
    assert 8 + 19 in numbers_in(run.stderr)


def test_remedy_is_named(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    run = load_text(engine_target, tmp_path / "in.csv", b"bad,,,\n", check=1)
    assert "nothing was published" in run.stderr.lower()


def test_remedies_that_name_an_option(engine_target: Target, tmp_path: Path) -> None:
    """Of a word that may mean NULL, and of lines above a header."""
    engine_target.execute("CREATE TABLE t (id integer, n integer)")
    path = write(tmp_path / "in.csv", "1,2\n3,N/A\n5,\n")
    assert "--null N/A reads it as NULL" in " ".join(load(engine_target, path, header="no", check=1).stderr.split())
    path = write(tmp_path / "title.csv", "Report of 2024\nid,n\n1,2\n")
    assert "--skip-lines leaves such lines out" in " ".join(load(engine_target, path, check=1).stderr.split())
    load(engine_target, path, skip_lines=1)
    assert engine_target.rows("SELECT id, n FROM t") == [(1, 2)]
    path = write(tmp_path / "empty_line.csv", "\nid,n\n1,2\n")
    assert "--skip-lines leaves such lines out" in " ".join(load(engine_target, path, check=1).stderr.split())


def test_what_is_stored_by_a_load_without_one_commit(engine_target: Target, tmp_path: Path) -> None:
    """It is stored once more by the same command where no ledger knows of it."""
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\nx\n")
    assert "nothing was published" in load(engine_target, path, check=1).stderr
    known = load(engine_target, path, no_atomic=True, check=1, restart=True).stderr
    assert "slices that were done before are stored, and are not stored twice" in known
    unknown = load(engine_target, path, no_atomic=True, no_ledger=True, check=1).stderr
    assert "without a ledger the same command stores them once more" in unknown


@pytest.mark.parametrize(
    ("data", "shown", "remedy"),
    [
        (b"1,a\n2,b\n\x1a", r"\x1a", "head -c -1 {} > NEW leaves it out"),
        (b"1,a\n2,b\n3\x1a", r"3\x1a", "head -c -1 {} > NEW leaves it out"),
        (b"1,a\n\f\n2,b\n", r"\x0c", "--on-error skip --max-rejects 100"),
        (b"1,a\n2\0,b\n", r"2\x00", r"tr -d '\000' < FILE > NEW"),
        (b"1,a\n\xc3\xa4\x0b\xc2\x85,b\n", r"ä\x0b\x85", ""),
        (b"1,a\n\xff\x01,b\n", r"\ufffd\x01", ""),
    ],
    ids=["end of DOS", "end of DOS in the last record", "form feed", "NUL", "several", "no UTF-8"],
)
def test_control_characters_are_spelled(
    engine_target: Target, tmp_path: Path, data: bytes, shown: str, remedy: str
) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    path = write(tmp_path / "in.csv", data)
    run = load(engine_target, path, header="no", check=1)
    assert f"text      '{shown}'" in run.stderr.replace("\ufffd", r"\ufffd")
    assert remedy.format(path) in run.stderr
    assert "check --delimiter" not in run.stderr
    assert ("\ufffd" in run.stderr) == ("ufffd" in shown)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (b"1,a\n2,b\0c\n3,\xc3\xa4\n", {"format": "csv"}),
        (b'1,a\n2,"b""\0c"\n3,\xc3\xa4\n', {"format": "csv"}),
        (b"1\ta\n2\tb\0c\n3\t\xc3\xa4\n", {"format": "text"}),
        (b"1|a|\n2|b\0c|\n3|\xc3\xa4|\n", {"format": "tbl"}),
        (b"1a  \n2b\0c\n3\xc3\xa4\n", {"format": "fixed", "field_widths": "1,3"}),
    ],
    ids=["csv", "quoted", "text", "tbl", "fixed"],
)
def test_a_text_with_a_nul_is_a_bad_one(
    engine_target: Target, tmp_path: Path, data: bytes, options: dict[str, str]
) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    skipping = {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad.csv"}
    load(engine_target, write(tmp_path / "in", data), header="no", **options, **skipping, check=3)
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == [(1, "a"), (3, "ä")]
    stopped = load(engine_target, tmp_path / "in", header="no", **options, no_ledger=True, check=1).stderr
    # Taken out, it would move what is behind it into other columns.
    assert (r"tr '\000' ' ' < FILE" if options["format"] == "fixed" else r"tr -d '\000' < FILE") in stopped


@pytest.mark.parametrize(
    ("data", "format", "remedy"),
    [
        (b"1,a\nx,b\x1a", "csv", "mend the value"),
        (b"12x,a\0\n", "csv", "mend the value"),
        (b"1\ta\n\t\n", "text", ""),
    ],
    ids=["end of DOS", "NUL", "delimiters"],
)
def test_control_characters_that_are_not_to_blame(
    engine_target: Target, tmp_path: Path, data: bytes, format: str, remedy: str
) -> None:
    engine_target.execute("CREATE TABLE t (a integer NOT NULL, b varchar)")
    stderr = load(engine_target, write(tmp_path / "in", data), format=format, header="no", check=1).stderr
    assert remedy in stderr
    assert not re.search(r"head -c|tr -d|control characters", stderr)


def test_the_remedies_for_what_is_no_record_work(engine_target: Target, tmp_path: Path) -> None:
    """As they are pasted."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    path = write(tmp_path / "empty.csv", "1,a\n\n2,b\n\n3,c\n")
    remedy = load(engine_target, path, format="csv", header="no", check=1).stderr.partition("  remedy ")[2]
    assert "remove the empty line" in remedy
    skip, limit = re.search(r"--on-error (skip) --max-rejects (\d+)", remedy).groups()  # type: ignore[union-attr]
    options = {"on_error": skip, "max_rejects": limit, "rejects": tmp_path / "bad"}
    load(engine_target, path, format="csv", header="no", **options, check=3)
    assert engine_target.count("t") == 3
    path = write(tmp_path / "dos.csv", "4,d\r\n\x1a")
    remedy = load(engine_target, path, header="no", check=1).stderr.partition("  remedy ")[2]
    command = re.search(r"head .* > NEW", remedy)[0]  # type: ignore[index]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    load(engine_target, tmp_path / "NEW", format="csv", header="no")
    assert engine_target.count("t") == 4
