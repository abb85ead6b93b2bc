"""What names of sources mean, and what is said of those that cannot be read."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import tipple
from command import run_tipple
from loading import load_here
from targets import DuckdbTarget, write
from tipple.errors import TippleError, UsageError
from tipple.run.columnar import recognise
from tipple.run.doctor import examine_target
from tipple.run.sources import find_sources

NOBODY = 65534


@pytest.fixture
def target(tmp_path: Path) -> DuckdbTarget:
    return DuckdbTarget(tmp_path / "t.duckdb")


@contextmanager
def somebody_else(directory: Path) -> Iterator[None]:
    """Root may read everything, so root becomes somebody else, who may at least look into `directory`."""
    before = Path.cwd()
    os.chdir(directory)
    directory.chmod(0o755)
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(NOBODY)
        yield
    finally:
        if root:
            os.seteuid(0)
        os.chdir(before)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("https://example.org/day.csv", "curl -fsSL https://example.org/day.csv | tipple load - …"),
        ("HTTP://a.b/x?from=1&to=2", "curl -fsSL 'HTTP://a.b/x?from=1&to=2' | tipple load - …"),
        ("https://a.b/x.parquet", "curl -fsSLO https://a.b/x.parquet"),
        ("https://me:pass1@a.b/x", "curl -fsSL URL | tipple load - …"),
        ("https://a.b/x?sv=2&sig=pass1", "curl -fsSL URL | tipple load - …"),
        ("s3://bucket/day.csv", "aws s3 cp s3://bucket/day.csv - | tipple load - …"),
        ("hdfs://a/day.csv", "fetch it into a file first"),
        ("file:///tmp/a%20b.csv", "name the file itself: '/tmp/a b.csv'"),
        ("postgresql://me:pass1@h/db?host=x", "say --into before it"),
    ],
)
def test_a_url_is_no_source(tmp_path: Path, name: str, hint: str) -> None:
    """It is told how to read it all the same; and a file of that name is a file."""
    with chdir(tmp_path):
        with pytest.raises(UsageError, match=r"is a URL, and URLs are not read|is a target, and stands") as caught:
            find_sources([name])
        assert hint in str(caught.value.hint)
        assert "pass1" not in f"{caught.value} {caught.value.hint}"
        write(Path(name), "1\n")
        assert find_sources([name]) == [name]


def test_nul_bytes_in_place_of_empty_texts(tmp_path: Path, target: DuckdbTarget) -> None:
    """As bcp writes them; the remedy works when pasted. What has others as well is a binary file."""
    target.execute("CREATE TABLE t (id integer, name text, v integer)")
    data = b"".join(b"%d\t\0\t%d\r\n" % (n, n) for n in range(9))
    path = write(tmp_path / "in.tsv", data)
    run = load_here(target, path, check=2)
    assert "tr -d '\\000' < FILE > NEW" in run.stderr
    subprocess.run("tr -d '\\000' < in.tsv > new.tsv", shell=True, check=True, cwd=tmp_path)
    load_here(target, tmp_path / "new.tsv")
    assert target.count("t") == 9
    for binary in (data + b"\x01", data.replace(b"\0", b"a\0")):
        assert "check the path" in load_here(target, write(path, binary), check=2).stderr


@pytest.mark.parametrize("name", ["in", "in/*.csv", "in/a.csv", "*/a.csv", "in/*/a.csv"])
def test_a_directory_that_may_not_be_read(tmp_path: Path, name: str) -> None:
    write(tmp_path / "in" / "a.csv", "1\n")
    (tmp_path / "in").chmod(0)
    try:
        with somebody_else(tmp_path), pytest.raises(UsageError, match="permission denied"):
            find_sources([name])
    finally:
        (tmp_path / "in").chmod(0o755)


def test_a_directory_that_may_only_be_searched(tmp_path: Path) -> None:
    write(tmp_path / "closed" / "in" / "a.csv", "1\n")
    (tmp_path / "closed").chmod(0o711)
    with somebody_else(tmp_path):
        assert find_sources(["closed/in/*.csv"]) == ["closed/in/a.csv"]


@pytest.mark.parametrize("name", ["in.csv", "in.parquet", "in.feather"])
def test_a_file_that_may_not_be_read(tmp_path: Path, name: str) -> None:
    """Whatever it holds, the right to it is what is missing."""
    write(tmp_path / name, "1\n").chmod(0)
    with somebody_else(tmp_path), pytest.raises(TippleError, match=f"{name}: cannot be read: Permission") as caught:
        recognise([name], "auto")
    assert caught.value.exit_status == 2
    assert caught.value.hint == "check the path and the rights to it"


@pytest.mark.parametrize("name", ["in", "in/*.csv"])
def test_a_link_to_nothing_is_told(target: DuckdbTarget, tmp_path: Path, name: str) -> None:
    write(tmp_path / "in" / "a.csv", "1,a\n")
    (tmp_path / "in" / "b.csv").symlink_to(tmp_path / "gone")
    (tmp_path / "in" / "c.csv").mkdir()
    target.execute("CREATE TABLE t (a integer, b varchar)")
    run = load_here(target, tmp_path / name, check=2)
    assert "b.csv: cannot be read" in run.stderr
    with pytest.raises(TippleError, match=r"b.csv: cannot be read"):
        examine_target(target.url, tmp_path / name)


def test_a_pipe_is_no_file(target: DuckdbTarget, tmp_path: Path) -> None:
    """Opening it would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    run = run_tipple("load", tmp_path / "pipe", "--into", target.url, "--table", "t", timeout=30, check=2)
    assert "not a regular file" in run.stderr
    assert "tipple load -" in run.stderr


def test_names_that_are_not_utf_8(target: DuckdbTarget, tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/in/\xff.csv")
    write(Path(path), "1,a\n")
    for source in (path, tmp_path / "in", tmp_path / "in" / "*"):
        run = load_here(target, source, schema="auto", check=2)
        assert r"\xff.csv is not UTF-8" in run.stderr
    job = os.fsdecode(os.fsencode(tmp_path) + b"/\xe4.toml")
    with pytest.raises(UsageError, match=r"xe4.toml is not UTF-8"):
        tipple.run(job)


def test_a_name_that_the_locale_cannot_spell(target: DuckdbTarget, tmp_path: Path) -> None:
    path = write(tmp_path / "ü.csv", "1,a\n")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = ("load", path, "--into", target.url, "--table", "t", "--schema", "auto")
    assert "LC_ALL=C.UTF-8" in run_tipple(*words, env=locale, check=2).stderr


def test_standard_input_that_is_closed(target: DuckdbTarget) -> None:
    command = [sys.executable, "-m", "tipple", "load", "-", "--into", target.url, "--table", "t", "--format", "csv"]
    run = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 2
    assert "standard input cannot be read" in run.stderr


def test_no_sources(target: DuckdbTarget) -> None:
    with pytest.raises(UsageError, match="no sources"):
        tipple.load([], into=target.url, table="t")


def test_empty_files_have_no_header(target: DuckdbTarget, tmp_path: Path) -> None:
    """Spark writes an empty file `_SUCCESS` beside the data."""
    write(tmp_path / "in" / "_SUCCESS", "")
    write(tmp_path / "in" / "b.csv", "id,v\n1,a\n2,b\n3,c\n")
    load_here(target, tmp_path / "in", schema="auto")
    assert target.rows("SELECT id, v FROM t ORDER BY 1") == [(1, "a"), (2, "b"), (3, "c")]


def test_bad_bytes_behind_a_header(target: DuckdbTarget, tmp_path: Path) -> None:
    skip = {"on_error": "skip", "max_rejects": 5, "rejects": tmp_path / "rejects"}
    path = write(tmp_path / "in.csv", b"id,v\n1,a\n2,M\xfcller\n")
    target.execute("CREATE TABLE t (v varchar, id varchar)")
    load_here(target, path, format="csv", check=3, **skip)
    assert target.rows("SELECT id, v FROM t") == [("1", "a")]
    path = write(tmp_path / "other.csv", "id,name\n1,Müller\n2,bad".encode() + b"\xffx\n")
    load_here(target, path, table="u", schema="auto", check=3, **skip)
    assert target.rows("SELECT id, name FROM u") == [(1, "Müller")]


def test_bad_bytes_in_a_header(target: DuckdbTarget, tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", b"id,n\xffame\n1,a\n2,b\n3,c\n")
    run = load_here(target, path, schema="auto", encoding="UTF8", check=2)
    assert r"the header is not valid UTF-8: id, n\xffame" in run.stderr


AWKWARD = {
    "no_name": (pa.table({"b": [1], "": [2]}), "column 2 of the source has no name"),
    "no_columns": (pa.table({}), "no columns"),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_a_table_that_cannot_be_guessed(target: DuckdbTarget, name: str) -> None:
    """Nothing is said of a schema file where there is none."""
    table, reason = AWKWARD[name]
    with pytest.raises(UsageError, match=reason) as caught:
        tipple.load(table, into=target.url, table="t", schema="auto")
    assert "in the schema file" not in str(caught.value.hint)


def test_names_of_columns_without_a_name(target: DuckdbTarget, tmp_path: Path) -> None:
    for columns in ("a,", "a,A"):
        run = load_here(target, write(tmp_path / "in.csv", "1,x\n"), schema="auto", columns=columns, check=2)
        assert f"--columns {columns}" in run.stderr


def test_a_letter_beside_the_data(target: DuckdbTarget, tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.csv", "1,a\n")
    write(tmp_path / "in" / "README.md", "# Read me\n\nThis is it\n")
    run = load_here(target, tmp_path / "in", schema="auto", check=2)
    assert "unknown" in run.stderr
    assert "README.md" in run.stderr
    assert "None" not in run.stderr


def test_what_spark_writes_beside_rows(tmp_path: Path) -> None:
    for name in ("_SUCCESS", "_committed_123", "_started_123", "_metadata", "_common_metadata", ".part-0.crc"):
        write(tmp_path / "in" / name, "")
    with pytest.raises(UsageError, match=r"has no files"):
        find_sources([str(tmp_path / "in")])
    rows = [str(write(tmp_path / "in" / name, "1\n")) for name in ("_a.csv", "_committed.csv", "part-0.csv")]
    assert find_sources([str(tmp_path / "in")]) == rows


def test_directories_below_that_are_parts_of_a_table(tmp_path: Path) -> None:
    """Those that say what is in them are; of others a pattern can be given, and nothing is taken by guess."""
    write(tmp_path / "in" / "other" / "c.csv", "1\n")
    with pytest.raises(UsageError, match=r"has no files") as failed:
        find_sources([str(tmp_path / "in")])
    assert str(tmp_path / "in" / "**" / "*.csv") in str(failed.value.hint)
    assert find_sources([str(tmp_path / "in" / "**" / "*.csv")]) == [str(tmp_path / "in" / "other" / "c.csv")]
    names = ("a.csv", "day=1/b.csv", "day=1/hour=2/c.csv", "day=2/d.csv")
    rows = [str(write(tmp_path / "in" / name, "1\n")) for name in names]
    write(tmp_path / "in" / "day=2" / "_SUCCESS", "")
    write(tmp_path / "in" / "day=2" / "_temporary" / "e.csv", "1\n")
    assert find_sources([str(tmp_path / "in")]) == rows


@pytest.mark.parametrize(
    "names",
    [
        ("in/a.csv", "./in/a.csv"),
        ("in/a.csv", "in//a.csv"),
        ("in/../in/a.csv", "in/*.csv"),
        ("in", "in/a.csv"),
        ("in", "link.csv"),
        ("in", "other"),
        ("-", "in", "-"),
        ("in", "hard.csv"),
        ("in", "more"),
    ],
    ids=" ".join,
)
def test_a_file_by_two_names(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Its rows would be loaded twice."""
    write(tmp_path / "in" / "a.csv", "1\n")
    write(tmp_path / "-", "2\n")
    (tmp_path / "link.csv").symlink_to("in/a.csv")
    (tmp_path / "other").symlink_to("in")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "in" / "a.csv")
    write(tmp_path / "more" / "b.csv", "3\n")
    (tmp_path / "more" / "c.csv").hardlink_to(tmp_path / "in" / "a.csv")
    with chdir(tmp_path):
        with pytest.raises(UsageError, match=r"named more than once"):
            find_sources(names)
        assert find_sources(["in", "./-", "-"]) == ["in/a.csv", "./-", "-"]


def test_a_file_by_its_name_and_as_standard_input(target: DuckdbTarget, tmp_path: Path) -> None:
    for names in (["day.csv", "-"], ["-", "/dev/stdin"]):
        with write(tmp_path / "day.csv", "1\n").open() as file:
            options = ("--format", "csv", "--table", "t", "--into", target.url, "--schema", "auto")
            run = run_tipple("load", *names, *options, stdin=file, cwd=tmp_path, check=2)
        assert "named more than once" in run.stderr


@pytest.mark.parametrize(("magic", "name"), [(b"PAR1", "a Parquet file"), (b"ARROW1\0\0", "an Arrow file")])
def test_columns_on_standard_input(target: DuckdbTarget, tmp_path: Path, magic: bytes, name: str) -> None:
    with write(tmp_path / "in", magic + bytes(100)).open() as file:
        run = run_tipple("load", "-", "--table", "t", "--into", target.url, "--schema", "auto", stdin=file, check=2)
    assert f"standard input is {name}" in run.stderr
    assert "write it to a file first" in run.stderr


def zipped(name: str) -> bytes:
    """A ZIP archive with one file of this name."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(name, "x" * 100)
    return archive.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "said", "remedy"),
    [
        ("a.xlsx", zipped("[Content_Types].xml"), "a spreadsheet", "read_excel"),
        ("a.ods", zipped("application/vnd.oasis.opendocument.spreadsheet"), "a spreadsheet", "as CSV"),
        ("a.csv", zipped("a.csv"), "a ZIP archive", "unzip"),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100, "Microsoft Office", "as CSV"),
        ("a.db", b"SQLite format 3\0" + b"\0" * 100, "a SQLite database", "sqlite3 -csv"),
        (
            "a.json",
            b'[\n {"id": 1, "name": "a"},\n {"id": 2, "name": "b"}\n]\n',
            "neither its name",
            "seems to be JSON",
        ),
        ("a.jsonl", b'{"id": 1}\n{"id": 2}\n', "neither its name", "seems to be JSON"),
        ("a.csv", b"<!DOCTYPE html>\n<html>\n<body>sign in</body></html>\n", "an HTML page", "fetch that again"),
        ("a.tsv", b"\xef\xbb\xbf\n<HTML><body>\n", "an HTML page", "--format csv loads"),
        ("a.csv", b'<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>', "is XML", "--format csv loads"),
        ("a.csv", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 5\n", "Git LFS", "git lfs pull"),
    ],
)
def test_files_of_other_programs(
    target: DuckdbTarget, tmp_path: Path, name: str, data: bytes, said: str, remedy: str
) -> None:
    run = load_here(target, write(tmp_path / name, data), schema="auto", check=2)
    assert said in run.stderr
    assert remedy in run.stderr


def test_documents_that_are_values(target: DuckdbTarget, tmp_path: Path) -> None:
    """One a line are records; and what is said to be text is no page."""
    load_here(target, write(tmp_path / "a.txt", '<?xml version="1.0"?><a/>\n' * 3), schema="auto", header="no")
    assert target.count("t") == 3
    page = write(tmp_path / "b.csv", "<html>\n<body>\n")
    load_here(target, page, table="pages", schema="auto", header="no", format="csv")
    assert target.count("pages") == 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.csv.gz", b""),
        ("in.csv.GZ", b"\x1f\x8b"),
        ("in.csv.bz2", b"BZh9"),
        ("in.csv.xz", b"\xfd7zXZ"),
        ("in.csv.zst", b"\x28\xb5"),
    ],
)
@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_what_is_left_of_a_copy_that_failed(tmp_path: Path, name: str, content: bytes, on_error: str) -> None:
    """It would be rows of text, or none, and with `replace` the table would be empty."""
    url = f"duckdb:///{tmp_path}/x.duckdb"
    (tmp_path / "s.sql").write_text("CREATE TABLE t (a text);")
    (tmp_path / "good.csv").write_text("old\n")
    options = {"into": url, "table": "t", "encoding": "LATIN1", "format": "csv", "header": "no"}
    tipple.load(str(tmp_path / "good.csv"), schema=str(tmp_path / "s.sql"), **options)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=r"is empty, which no|ends after . bytes, which no") as caught:
        tipple.load(str(tmp_path / name), mode="replace", on_error=on_error, **options)
    assert "cut off" in str(caught.value.hint)
    (tmp_path / name).write_text("plain\n")
    assert tipple.load(str(tmp_path / name), **options).rows == 1
