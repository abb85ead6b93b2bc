"""COPY's text format with its backslashes, and dbgen's `tbl`, which has no quoting at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from loading import load_text
from targets import Row, Target

TEXT: list[tuple[str, bytes, list[Row]]] = [
    ("plain", b"1\ta\n2\tb\n", [(1, "a"), (2, "b")]),
    ("null", b"1\t\\N\n2\t\n", [(1, None), (2, "")]),
    ("letters", rb"1	\b\f\n\r\t\v" + b"\n", [(1, "\b\f\n\r\t\v")]),
    ("octal", rb"1	\101\60\0601" + b"\n", [(1, "A001")]),
    ("hexadecimal", rb"1	\x41\x6a\x4g" + b"\n", [(1, "Aj\x04g")]),
    ("bytes_of_a_character", rb"1	\xc3\xa4\303\266" + b"\n", [(1, "äö")]),
    ("other_letters_stand_for_themselves", rb"1	\q\"\,\ \xg" + b"\n", [(1, 'q", xg')]),
    ("backslash", rb"1	a\\b\\N" + b"\n", [(1, "a\\b\\N")]),
    ("escaped_tab_and_newline", b"1\ta\\\tb\\\nc\n2\tz\n", [(1, "a\tb\nc"), (2, "z")]),
    ("quotes_are_data", b'1\t"a"\n2\t"\n', [(1, '"a"'), (2, '"')]),
    ("null_is_the_whole_field", rb"1	\Na" + b"\n", [(1, "Na")]),
    ("crlf", b"1\ta\r\n2\t\\N\r\n", [(1, "a"), (2, None)]),
    ("cr", b"1\ta\r2\tb\r", [(1, "a"), (2, "b")]),
    ("no_last_newline", b"1\ta\n2\tb", [(1, "a"), (2, "b")]),
    ("multi_byte", "1\täöü\n2\t漢字🚂\n".encode(), [(1, "äöü"), (2, "漢字🚂")]),
    ("empty_file", b"", []),
]


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in TEXT], ids=[case[0] for case in TEXT])
def test_text(engine_target: Target, tmp_path: Path, data: bytes, expected: list[Row]) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    load_text(engine_target, tmp_path / "in.txt", data, format="text")
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == expected


@pytest.mark.parametrize(
    ("options", "data", "expected"),
    [
        ({"delimiter": "|"}, "1|a\tb\n2|c\\|d\n3|\\N\n", [(1, "a\tb"), (2, "c|d"), (3, None)]),
        ({"delimiter": ","}, '1,"a"\n2,\\N\n', [(1, '"a"'), (2, None)]),
        ({"null": ""}, "1\t\n2\t\\N\n", [(1, None), (2, "N")]),
        ({"null": "NULL"}, "1\tNULL\n2\t\n3\tNULLx\n", [(1, None), (2, ""), (3, "NULLx")]),
        ({"header": "yes"}, "x\ty\n1\ta\n", [(1, "a")]),
        ({"header": "match"}, "a\tb\n1\ta\n", [(1, "a")]),
    ],
)
def test_text_options(
    engine_target: Target, tmp_path: Path, options: dict[str, object], data: str, expected: list[Row]
) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    load_text(engine_target, tmp_path / "in.txt", data, format="text", **options)
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == expected


TBL: list[tuple[str, bytes, list[Row]]] = [
    ("plain", b"1|a|\n2|b|\n", [(1, "a"), (2, "b")]),
    (
        "quotes_and_backslashes_are_data",
        b'1|"a|\n2|\\n\\|\n3|a"b""|\n',
        [(1, '"a'), (2, "\\n\\"), (3, 'a"b""')],
    ),
    ("empty_is_null", b"1||\n2| |\n", [(1, None), (2, " ")]),
    ("no_last_newline", b"1|a|\n2|b|", [(1, "a"), (2, "b")]),
    ("crlf", b"1|a|\r\n2|b|\r\n", [(1, "a"), (2, "b")]),
    ("commas_and_tabs", b"1|a,b\tc|\n", [(1, "a,b\tc")]),
    ("multi_byte", "1|äöü漢字🚂|\n".encode(), [(1, "äöü漢字🚂")]),
    ("empty_file", b"", []),
]


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in TBL], ids=[case[0] for case in TBL])
def test_tbl(engine_target: Target, tmp_path: Path, data: bytes, expected: list[Row]) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    load_text(engine_target, tmp_path / "in.tbl", data)
    assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == expected


@pytest.mark.parametrize("data", ["1|a\n", "1|\n", "1|a|b|\n", "1|a||\n", "|\n", "\n"])
def test_tbl_with_another_number_of_fields(engine_target: Target, tmp_path: Path, data: str) -> None:
    """Each field has its delimiter, the last one too: with one missing, the record is not whole."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    run = load_text(engine_target, tmp_path / "in.tbl", "0|good|\n" + data, check=1)
    assert engine_target.count("t") == 0
    assert "in.tbl" in run.stderr
