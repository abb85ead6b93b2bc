"""Files that one might read in two ways, of which one alters what was written without a word."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from columnar_files import write_parquet
from loading import load_here
from targets import DuckdbTarget, Row, Target, write


@pytest.fixture
def target(tmp_path: Path) -> DuckdbTarget:
    return DuckdbTarget(tmp_path / "t.duckdb")


@pytest.mark.parametrize("name", ["in.txt", "in.tsv", "in.csv"])
@pytest.mark.parametrize(
    "values",
    [
        ["C:\\temp\\readme.txt", "C:\\bin\\x.exe", "D:\\new\\file"],
        ["CORP\\user0", "CORP\\tom", "CORP\\nina"],
        ["\\\\server\\share\\new", "\\\\server\\temp\\x", "\\\\server\\readme"],
        ["\\\\nas\\temp\\new1", "\\\\nas\\temp\\new2", "\\\\nas\\temp\\new3"],
    ],
)
@pytest.mark.parametrize("columns", [1, 2])
def test_backslashes_of_paths(target: DuckdbTarget, tmp_path: Path, columns: int, values: list[str], name: str) -> None:
    """In COPY's text format each of them would have been doubled: they escape nothing."""
    lines = [f"{n}\t{value}" if columns == 2 else value for n, value in enumerate(values * 5)]
    load_here(target, write(tmp_path / name, "\n".join(lines) + "\n"), schema="auto", header="no")
    assert target.rows(f"SELECT DISTINCT column{columns} FROM t ORDER BY 1") == [(value,) for value in sorted(values)]


@pytest.mark.parametrize("name", ["in.txt", "in.tsv"])
def test_backslashes_of_the_text_format(target: DuckdbTarget, tmp_path: Path, name: str) -> None:
    """What COPY has written is read as that, a single column too."""
    lines = ["C:\\\\temp\\\\new", "two\\nlines", "a\\tb", "\\N"]
    load_here(target, write(tmp_path / name, "\n".join(lines) + "\n"), schema="auto", header="no")
    assert target.rows("SELECT column1 FROM t ORDER BY 1") == [("C:\\temp\\new",), ("a\tb",), ("two\nlines",), (None,)]


def test_commands_of_latex(target: DuckdbTarget, tmp_path: Path) -> None:
    """As COPY writes them they begin like a path of a network."""
    lines = ["1\t\\\\maketitle\\n\\\\section{A}", "2\tplain", "3\t\\\\alpha + \\\\beta", "4\tx\\ty"]
    load_here(target, write(tmp_path / "in.tsv", "\n".join(lines) + "\n"), schema="auto", header="no")
    found = [text for (text,) in target.rows("SELECT column2 FROM t ORDER BY column1")]
    assert found == ["\\maketitle\n\\section{A}", "plain", "\\alpha + \\beta", "x\ty"]


@pytest.mark.parametrize("name", ["in.csv", "in.tsv"])
def test_quotes_beside_backslash_n(target: DuckdbTarget, tmp_path: Path, name: str) -> None:
    """Programs that write CSV with tabs have `\\N` for NULL too."""
    lines = ["id\tname\tn", *(f'{n}\t"say ""hi"", {n}"\t\\N' for n in range(9))]
    run = load_here(target, write(tmp_path / name, "\n".join(lines) + "\n"), schema="auto")
    assert target.rows("SELECT id, name, n FROM t WHERE id = 4") == [(4, 'say "hi", 4', None)]
    assert any("not sure of --format csv" in note for note in run.summary["notes"])


@pytest.mark.parametrize(
    ("head", "records", "expected"),
    [
        ("id,name,", ["1,a,", "2,b,c", "3,d,"], [(1, "a", None), (2, "b", "c"), (3, "d", None)]),
        ("id,,n", ["1,a,1", "2,b,2"], [(1, "a", 1), (2, "b", 2)]),
    ],
)
def test_a_header_with_a_blank_cell(
    target: DuckdbTarget, tmp_path: Path, head: str, records: list[str], expected: list[Row]
) -> None:
    run = load_here(target, write(tmp_path / "in.csv", "\n".join([head, *records]) + "\n"), schema="auto")
    assert target.sorted_rows("t") == expected
    assert any("not sure of --header yes" in note for note in run.summary["notes"])


def test_a_header_with_a_word_for_null(target: DuckdbTarget, tmp_path: Path) -> None:
    """It is told as doubtful at least."""
    run = load_here(target, write(tmp_path / "in.csv", "id,N/A\n1,a\n2,b\n"), schema="auto")
    assert any("not sure of --header" in note for note in run.summary["notes"])


@pytest.mark.parametrize("header", ["yes", "match"])
def test_one_name_is_of_one_column(target: DuckdbTarget, tmp_path: Path, header: str) -> None:
    """Whatever stands in the values as often as a delimiter would."""
    lines = ["url", *(f"https://a.b/{n}?x=1;z=2" for n in range(50))]
    load_here(target, write(tmp_path / "in.csv", "\n".join(lines) + "\n"), schema="auto", header=header)
    assert target.rows("SELECT url FROM t LIMIT 1") == [("https://a.b/0?x=1;z=2",)]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("spoilt", [1, 2])
def test_a_stray_quote_in_a_first_record(engine_target: Target, tmp_path: Path, spoilt: int, line_end: str) -> None:
    """It takes its line, and not the file, however lines end."""
    engine_target.execute("CREATE TABLE t (id integer, name varchar, v integer)")
    lines = [f"{n},ab,{3 * n}" + '"' * (n == spoilt) + line_end for n in range(1, 301)]
    run = load_here(
        engine_target, write(tmp_path / "in.csv", "".join(lines)), format="csv", header="no",
        on_error="skip", max_rejects=1, rejects=tmp_path / "bad", check=3,
    )  # fmt: skip
    assert (run.summary["rows"], run.summary["rejects"]) == (299, 1)
    assert (tmp_path / "bad").read_bytes() == lines[spoilt - 1].encode()


def test_values_of_directories_that_are_no_text(target: DuckdbTarget, tmp_path: Path) -> None:
    """Two values stay two."""
    for value in ("%FF", "%FE", "%41"):
        (tmp_path / f"d={value}").mkdir()
        write_parquet(tmp_path / f"d={value}" / "p.parquet", pa.table({"a": [1]}))
    load_here(target, tmp_path / "d=*" / "*.parquet", schema="auto")
    assert target.rows("SELECT d FROM t ORDER BY d") == [("%FE",), ("%FF",), ("A",)]


def test_a_table_of_the_fields_that_are_asked_for(engine_target: Target, tmp_path: Path) -> None:
    """It has no column for the others, one of which no type could hold here."""
    write_parquet(tmp_path / "1.parquet", pa.table({"a": pa.array([1.5]), "B": [1], "c": ["x"]}))
    write_parquet(tmp_path / "2.parquet", pa.table({"a": pa.array([2**60]), "B": [2], "c": ["y"]}))
    run = load_here(engine_target, tmp_path / "*.parquet", schema="auto", check=2)
    assert "leave the column out with --columns" in run.stderr
    load_here(engine_target, tmp_path / "*.parquet", schema="auto", columns="c,b")
    assert engine_target.sorted_rows("t") == [(1, "x"), (2, "y")]


def test_names_that_differ_in_their_case(target: DuckdbTarget, tmp_path: Path) -> None:
    """One of two such fields can be loaded, by its name."""
    path = write_parquet(tmp_path / "in.parquet", pa.table({"A": [1], "a": [2], "b": [3]}))
    says = "the source's columns A and a differ in upper and lower case only: leave one out, such as A by --columns a,b"
    target.execute("CREATE TABLE t (a integer, b integer)")
    run = load_here(target, path, check=2)
    assert says in run.stderr
    assert "--schema auto makes has a column a_2 for it" in run.stderr
    load_here(target, path, columns="a,b")
    load_here(target, path, columns="A,b")
    assert target.sorted_rows("t") == [(1, 3), (2, 3)]
