"""`--format auto` and `--schema auto` for what is read as a stream, and beside the options of such sources."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from command import environment
from loading import load, load_stdin, load_text_here, load_words
from targets import DuckdbTarget, Target, write
from tipple.run.sampling import take_sample

T = "CREATE TABLE t (a integer, b text)"
DATA = "a;b\n1;Größe\n2;Müller\n3;\n"
ROWS = [(1, "Größe"), (2, "Müller"), (3, None)]

BYTES = {
    "utf-8": DATA.encode(),
    "utf-8 with a mark": DATA.encode("utf-8-sig"),
    "utf-16": b"\xff\xfe" + DATA.encode("utf-16-le"),
    "utf-16 of the other order": b"\xfe\xff" + DATA.encode("utf-16-be"),
    "windows-1252": DATA.encode("cp1252"),
}


def encoding_found(sniff: dict[str, object]) -> object:
    decisions = sniff["decisions"]
    assert isinstance(decisions, list)
    return next(decision["value"] for decision in decisions if decision["option"] == "encoding")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("encoding", BYTES)
def test_encodings(engine_target: Target, tmp_path: Path, encoding: str, packed: bool) -> None:
    """The options that are printed read the file without looking at it, too."""
    data = BYTES[encoding]
    path = write(tmp_path / "export", gzip.compress(data) if packed else data)
    run = load(engine_target, path, schema="auto", verify="checksum")
    assert run.summary is not None
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == ROWS
    found = encoding_found(run.summary["sniff"])
    assert found == {"utf-16": "UTF-16LE", "utf-16 of the other order": "UTF-16BE", "windows-1252": "WIN1252"}.get(
        encoding, "UTF8"
    )
    again = load(engine_target, path, schema="auto")
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"


def test_standard_input(engine_target: Target) -> None:
    engine_target.execute(T)
    for data in (BYTES["utf-8"], gzip.compress(BYTES["utf-16"])):
        command = [sys.executable, "-m", "tipple", *load_words(engine_target.url, ("-",), "t", {})]
        run = subprocess.run(command, input=data, capture_output=True, timeout=120, env=environment(), check=False)
        assert run.returncode == 0, run.stderr.decode()
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a, b") == sorted([*ROWS, *ROWS], key=lambda row: row[0])


def test_different_encodings(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(T)
    many = "a;b\n" + "".join(f"{n};Größe\n" for n in range(100))
    paths = [
        write(tmp_path / "one.csv", many.encode("cp1252")),
        write(tmp_path / "two.csv.gz", gzip.compress(DATA.encode())),
    ]
    run = load(engine_target, *paths, check=2)
    assert "one.csv" in run.stderr
    assert "two.csv.gz" in run.stderr
    assert "--encoding" in run.stderr
    assert engine_target.count("t") == 0


def test_lines_left_out(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(T)
    path = write(tmp_path / "in.csv", "Report, of; a, day\n\n# id; name\n" + DATA)
    run = load(engine_target, path, skip_lines=2, comment="#")
    assert run.summary is not None
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == ROWS
    assert run.summary["sniff"]["options"].endswith("--skip-lines 2 --comment '#' --columns '\"a\",\"b\"'")


@pytest.mark.parametrize("options", [{}, {"format": "csv", "delimiter": ";"}, {"quote": '"'}])
def test_comments_in_quotes_are_none(tmp_path: Path, options: dict[str, str]) -> None:
    target = DuckdbTarget(tmp_path / "t.duckdb")
    data = '# by "x\na;b\n1;"x\n# y"\n2;"# z\n# z"\n# 3";\n'
    run = load_text_here(target, tmp_path / "in.csv", data, comment="#", schema="auto", **options)
    assert target.rows("SELECT a, b FROM t ORDER BY a") == [(1, "x\n# y"), (2, "# z\n# z")]
    assert run.summary is not None
    assert run.summary["sniff"]["confidence"] > 0.7


def test_comments_among_quotes_that_quote_nothing(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "t.duckdb")
    data = 'size;name\n1;5" pipe\n# 6" is missing\n2;7" pipe\n# end\n3;8" pipe\n'
    load_text_here(target, tmp_path / "in.csv", data, comment="#", schema="auto")
    assert target.rows("SELECT * FROM t ORDER BY 1") == [(1, '5" pipe'), (2, '7" pipe'), (3, '8" pipe')]


def test_other_options_beside(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(T)
    path = write(tmp_path / "in.csv", 'a;b;\n1;"x";\n2;"";\n3;;\n')
    run = load(engine_target, path, trailing_delimiter="yes", force_null="b")
    assert run.summary is not None
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == [(1, "x"), (2, None), (3, None)]
    assert "--trailing-delimiter yes --force-null b" in run.summary["sniff"]["options"]


def test_quotes_behind_the_sample(engine_target: Target) -> None:
    """Delimiters after the last field do not mean that nothing is ever quoted."""
    engine_target.execute(T)
    data = "".join(f"{number};plain text;\n" for number in range(10_000)) + '-1;"say ""x""; y";\n'
    run = load_stdin(engine_target, data.encode(), format="auto")
    assert run.returncode == 0, run.stderr
    assert engine_target.rows("SELECT b FROM t WHERE a = -1") == [('say "x"; y',)]


def test_schema_auto_without_delimiters(engine_target: Target, tmp_path: Path) -> None:
    path = write(tmp_path / "in.txt", "1  x\n")
    run = load(engine_target, path, schema="auto", format="fixed", field_widths="3,1", check=2)
    assert "--schema FILE.sql" in run.stderr


def test_rejects_of_a_sniffed_encoding(engine_target: Target, tmp_path: Path) -> None:
    """They are kept as UTF-8, and loaded as such once they are mended."""
    engine_target.execute(T)
    bad = BYTES["windows-1252"] + "x;schön\n4;böse\n".encode("cp1252")
    path = write(tmp_path / "in.csv.gz", gzip.compress(bad))
    options = {"header": "yes", "on_error": "skip", "max_rejects": 5, "rejects": tmp_path / "bad"}
    load(engine_target, path, **options, check=3)
    assert (tmp_path / "bad").read_text() == "x;schön\n"
    write(tmp_path / "bad", "5;schön\n")
    load(engine_target, path, **{name: options[name] for name in ("header", "rejects")}, replay=True)
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == [*ROWS, (4, "böse"), (5, "schön")]


def test_columnar_sources_have_none_of_these_options(engine_target: Target, tmp_path: Path) -> None:
    path = write(tmp_path / "in.parquet", b"PAR1 and so on")
    for option, value in {"skip_lines": 1, "comment": "#", "force_null": "a", "trailing_delimiter": "yes"}.items():
        run = load(engine_target, path, **{option: value}, check=2)
        assert f"--{option.replace('_', '-')} is for delimited text" in run.stderr


@pytest.mark.parametrize(("utf8", "windows"), [(1, 1), (3, 1)])
def test_a_file_of_another_encoding_is_told(engine_target: Target, tmp_path: Path, utf8: int, windows: int) -> None:
    """Beside files of UTF-8: the dry run says which one it is, and the load's error how to load it."""
    engine_target.execute(T)
    paths = [write(tmp_path / f"{number}.csv", DATA) for number in range(utf8)]
    paths += [write(tmp_path / f"w{number}.csv", BYTES["windows-1252"]) for number in range(windows)]
    run = load(engine_target, *paths, dry_run=True)
    assert run.summary is not None
    assert any("w0.csv seems to be WIN1252" in note for note in run.summary["notes"])
    run = load(engine_target, *paths, check=1)
    assert "w0.csv" in run.stderr
    assert "by a command of its own with --encoding WIN1252" in " ".join(run.stderr.split())


def test_a_file_of_utf8_is_found_among_many(engine_target: Target, tmp_path: Path) -> None:
    """Not every file is sampled for its format, but as Windows-1252 any text of UTF-8 would be stored, wrongly."""
    engine_target.execute(T)
    for number in range(30):
        write(tmp_path / f"{number:02}.csv", DATA if number == 4 else BYTES["windows-1252"])
    run = load(engine_target, tmp_path / "*.csv", check=2)
    assert "different encodings" in run.stderr
    assert "04.csv" in run.stderr


def test_guessed_types_are_those_of_the_job_that_goes_on(engine_target: Target, tmp_path: Path) -> None:
    """The table is there by then, but a value that the first run has refused is not stored changed by the second."""
    lines = [f"{number};{number % 97 + 1}" for number in range(2_400_000)]
    path = write(tmp_path / "in.csv", "id;code\n" + "\n".join(lines) + "\n")
    sampled = [piece.data for piece in take_sample([str(path)]).pieces]
    lines[unsampled(lines, sampled)] = "1000001;007"
    write(path, "id;code\n" + "\n".join(lines) + "\n")
    options = {"schema": "auto", "no_atomic": True, "commit_every": 100_000, "jobs": 1}
    load(engine_target, path, **options, check=1)
    assert 0 < engine_target.count("t") < len(lines)
    run = load(engine_target, path, **options, check=1)
    assert "would be changed by the type bigint" in run.stderr


def unsampled(lines: list[str], sampled: list[bytes]) -> int:
    """The first line from the middle on that stands in no piece of a sample, nor do its neighbours."""
    return next(
        number
        for number in range(len(lines) // 2, len(lines))
        if not any(lines[near].encode() in piece for near in (number - 50, number, number + 50) for piece in sampled)
    )
