"""CSV as COPY reads it: quoting, NULLs, record ends, headers, and other characters for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from loading import load, load_text
from targets import Row, Target, write

QUOTING: list[tuple[str, bytes, list[Row]]] = [
    ("plain", b"1,a\n2,b\n", [(1, "a"), (2, "b")]),
    ("quoted", b'1,"a,b"\n"2","c"\n', [(1, "a,b"), (2, "c")]),
    ("doubled_quotes", b'1,"a""b"\n2,""""\n3,""""""\n', [(1, 'a"b'), (2, '"'), (3, '""')]),
    ("quotes_in_the_middle", b'1,ab"cd,"ef\n2,x"y"z\n', [(1, "abcd,ef"), (2, "xyz")]),
    ("newline_in_quotes", b'1,"a\nb"\n2,"\n"\n3,"\n\n\n"\n', [(1, "a\nb"), (2, "\n"), (3, "\n\n\n")]),
    ("record_in_quotes", b'1,"x\n9,y\n"\n2,z\n', [(1, "x\n9,y\n"), (2, "z")]),
    ("crlf", b"1,a\r\n2,b\r\n", [(1, "a"), (2, "b")]),
    ("crlf_in_quotes", b'1,"a\r\nb"\r\n2,c\r\n', [(1, "a\r\nb"), (2, "c")]),
    ("cr", b"1,a\r2,b\r", [(1, "a"), (2, "b")]),
    ("lf_in_quotes_of_crlf_file", b'1,"a\nb"\r\n2,"c\rd"\r\n', [(1, "a\nb"), (2, "c\rd")]),
    ("no_last_newline", b"1,a\n2,b", [(1, "a"), (2, "b")]),
    ("no_last_newline_quoted", b'1,a\n2,"b"', [(1, "a"), (2, "b")]),
    ("no_last_newline_null", b"1,a\n2,", [(1, "a"), (2, None)]),
    ("no_last_newline_crlf", b"1,a\r\n2,b", [(1, "a"), (2, "b")]),
    ("one_record", b"1,a", [(1, "a")]),
    ("spaces_are_data", b'1, a \n2," b "\n', [(1, " a "), (2, " b ")]),
    ("space_before_a_quote", b'1, "a,b"\n', [(1, " a,b")]),
    ("null_and_empty", b'1,\n2,""\n', [(1, None), (2, "")]),
    ("backslashes_are_data", b'1,a\\nb\n2,"c\\"\n3,\\N\n', [(1, "a\\nb"), (2, "c\\"), (3, "\\N")]),
    ("multi_byte", '1,äöü\n2,"漢字,🚂"\n3,\u00a0\n'.encode(), [(1, "äöü"), (2, "漢字,🚂"), (3, "\u00a0")]),
    ("tabs_and_controls", b"1,a\tb\n2,\x01\x7f\n", [(1, "a\tb"), (2, "\x01\x7f")]),
    ("empty_file", b"", []),
]


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in QUOTING], ids=[case[0] for case in QUOTING])
def test_quoting(engine_target: Target, tmp_path: Path, data: bytes, expected: list[Row]) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    run = load_text(engine_target, tmp_path / "in.csv", data)
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == expected
    assert run.summary is not None
    assert run.summary["rows"] == len(expected)
    assert run.summary["bytes"] == len(data)


def test_one_column(engine_target: Target, tmp_path: Path) -> None:
    """An empty line is a record whose only field is empty: NULL, as COPY has it."""
    engine_target.execute("CREATE TABLE t (b varchar)")
    load_text(engine_target, tmp_path / "in.csv", 'a\n\n""\n\nz\n')
    assert engine_target.sorted_rows("t") == sorted([("a",), (None,), ("",), (None,), ("z",)], key=repr)


DIALECTS: list[tuple[str, dict[str, object], str, list[Row]]] = [
    ("semicolon", {"delimiter": ";"}, '1;a,b\n2;"c;d"\n', [(1, "a,b"), (2, "c;d")]),
    ("tab", {"delimiter": "\t"}, '1\ta\n2\t"b\tc"\n', [(1, "a"), (2, "b\tc")]),
    ("bar", {"delimiter": "|"}, "1|a\n2|\n", [(1, "a"), (2, None)]),
    ("unit_separator", {"delimiter": "\x1f"}, "1\x1fa,b\n", [(1, "a,b")]),
    ("other_quote", {"quote": "'"}, "1,'a,b'\n2,'it''s'\n3,\"\n", [(1, "a,b"), (2, "it's"), (3, '"')]),
    (
        "escape",
        {"escape": "\\"},
        '1,"a\\"b"\n2,"c\\\\d"\n3,"e\\f"\n4,\\\n',
        [(1, 'a"b'), (2, "c\\d"), (3, "e\\f"), (4, "\\")],
    ),
    ("other_quote_and_escape", {"quote": "'", "escape": "^"}, "1,'a^'b'\n2,'^^'\n", [(1, "a'b"), (2, "^")]),
    (
        "null_text",
        {"null": "NULL"},
        '1,NULL\n2,"NULL"\n3,\n4,""\n5,null\n',
        [(1, None), (2, "NULL"), (3, ""), (4, ""), (5, "null")],
    ),
    ("null_text_backslash", {"null": "\\N"}, '1,\\N\n2,"\\N"\n3,\n', [(1, None), (2, "\\N"), (3, "")]),
    ("null_text_space", {"null": " "}, "1, \n2,\n3,  \n", [(1, None), (2, ""), (3, "  ")]),
]


@pytest.mark.parametrize(
    ("options", "data", "expected"), [case[1:] for case in DIALECTS], ids=[case[0] for case in DIALECTS]
)
def test_dialects(
    engine_target: Target, tmp_path: Path, options: dict[str, object], data: str, expected: list[Row]
) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    load_text(engine_target, tmp_path / "in.csv", data, **options)
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == expected


def test_null_text_in_a_number(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b integer, c double precision, d date)")
    load_text(engine_target, tmp_path / "in.csv", "1,-,-,-\n2,3,4.5,2020-02-29\n", null="-")
    rows = engine_target.rows("SELECT a, b, c, CAST(d AS varchar) FROM t ORDER BY a")
    assert rows == [(1, None, None, None), (2, 3, 4.5, "2020-02-29")]


@pytest.mark.parametrize(
    ("header", "first_line"),
    [("yes", "x,y\n"), ("yes", '"two\nlines",y\r\n'), ("match", "a,b\n"), ("match", '"a","b"\n'), ("no", "")],
)
def test_header(engine_target: Target, tmp_path: Path, header: str, first_line: str) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    end = "\r\n" if first_line.endswith("\r\n") else "\n"
    run = load_text(engine_target, tmp_path / "in.csv", first_line + f"1,one{end}2,two{end}", header=header)
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == [(1, "one"), (2, "two")]
    assert run.summary is not None
    assert run.summary["rows"] == 2


def test_header_of_every_file(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    files = [write(tmp_path / f"{i}.csv", f"a,b\n{i},x\n") for i in range(5)]
    load(engine_target, *files, header="match")
    assert engine_target.rows("SELECT a FROM t ORDER BY a") == [(i,) for i in range(5)]


@pytest.mark.parametrize("first_line", ["b,a", "a", "a,b,c", "a,B", "1,one", ""])
def test_header_that_does_not_match(engine_target: Target, tmp_path: Path, first_line: str) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    path = write(tmp_path / "in.csv", f"{first_line}\n1,one\n")
    run = load(engine_target, path, header="match", check=False)
    assert run.exit_code in (1, 2), str(run)
    assert engine_target.count("t") == 0
    assert "in.csv" in run.stderr
    assert "header" in run.stderr.lower()


def test_only_a_header(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    for number, data in enumerate(["a,b\n", "a,b"]):
        run = load_text(engine_target, tmp_path / f"{number}.csv", data, header="yes")
        assert run.summary is not None
        assert run.summary["rows"] == 0
    assert engine_target.count("t") == 0


def test_long_fields_and_records(engine_target: Target, tmp_path: Path) -> None:
    """Fields far longer than any buffer, with everything in them that ends fields and records elsewhere."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    trap = '1,x\n2,"",\r\n' * 400_000
    fields = ["y" * 3_000_000, trap, '"' * 1_000_001, "\n" * 1_000_000, "🚂" * 500_000]
    quoted = ['"' + field.replace('"', '""') + '"' for field in fields]
    load_text(engine_target, tmp_path / "in.csv", "".join(f"{i},{text}\n" for i, text in enumerate(quoted)))
    assert [row[0] for row in engine_target.rows("SELECT b FROM t ORDER BY a")] == fields


def test_format_by_option_and_not_by_name(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    load_text(engine_target, tmp_path / "data.unknown", "1,a\n", format="csv")
    assert engine_target.rows("SELECT * FROM t") == [(1, "a")]
