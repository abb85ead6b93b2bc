"""Formats, dialects and slice sizes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipple.errors import UsageError
from tipple.plan.first_record import first_fields
from tipple.plan.sources import (
    MAXIMUM_SLICE_BYTES,
    MINIMUM_SLICE_BYTES,
    Dialect,
    detect_compression,
    named_format,
    plan_dialect,
    plan_slices,
    useful_streams,
)


@pytest.mark.parametrize(
    ("path", "format"),
    [
        ("lineitem.tbl", "tbl"),
        ("data/LINEITEM.TBL", "tbl"),
        ("lineitem.tbl.3", "tbl"),
        ("a.b/c.csv", "csv"),
        ("x.tsv", "text"),
        ("x.txt", "text"),
        (".csv", "csv"),
        ("x.csv.gz", "csv"),
        ("in/X.TBL.3.zst", "tbl"),
        ("x.tsv.bz2", "text"),
    ],
)
def test_named_format(path: str, format: str) -> None:
    assert named_format([path]) == format


@pytest.mark.parametrize("path", ["data.csv/part", "csv", "x.dat", "x.csv.3", "x.gz", "x.parquet", "-"])
def test_names_that_say_nothing(path: str) -> None:
    assert named_format([path]) is None


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("x.csv.lz4", "unpack"),
        ("x.csv.zip", "unpack"),
    ],
)
def test_formats_to_come(path: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        named_format(["a.csv", path])
    assert path in str(caught.value)
    assert hint in str(caught.value.hint)


def test_different_names_say_nothing() -> None:
    assert named_format(["a.csv", "b.csv"]) == "csv"
    assert named_format(["a.csv", "b.tbl"]) is None


def test_defaults_are_those_of_copy() -> None:
    csv, text, tbl = (plan_dialect(format) for format in ("csv", "text", "tbl"))
    assert (csv.delimiter, csv.quote, csv.escape, csv.null_text, csv.header) == (",", '"', '"', "", "no")
    assert (text.delimiter, text.quote, text.escape, text.null_text) == ("\t", None, None, "\\N")
    assert (tbl.delimiter, tbl.quote, tbl.escape, tbl.null_text) == ("|", None, None, "")
    assert [dialect.trailing_delimiter for dialect in (csv, text, tbl)] == [False, False, True]
    assert {dialect.encoding for dialect in (csv, text, tbl)} == {None}


def test_escape_follows_the_quote() -> None:
    assert plan_dialect("csv", quote="'").escape == "'"
    assert plan_dialect("csv", quote="'", escape="\\").escape == "\\"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("\\t", "\t"),
        ("\t", "\t"),
        ("\\x1f", "\x1f"),
        ("\\001", "\x01"),
        ("|", "|"),
        ("\\\\", "\\"),
        ("\\", "\\"),
    ],
)
def test_escapes_on_the_command_line(typed: str, meant: str) -> None:
    assert plan_dialect("csv", delimiter=typed).delimiter == meant


def test_null_is_taken_as_it_is() -> None:
    assert plan_dialect("csv", null_text="\\N").null_text == "\\N"


@pytest.mark.parametrize(
    ("head", "compression"),
    [
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"\x28\xb5\x2f\xfd\x04", "zstd"),
        (b"\x5a\x2a\x4d\x18\x04", "zstd"),
        (b"BZh91AY&SYxx", "bzip2"),
        (b"BZh9\x17\x72\x45\x38\x50\x90", "bzip2"),
        (b"\xfd7zXZ\x00\x00", "xz"),
        (b"BZhello,1\n", None),
        (b"a,b\n", None),
        (b"", None),
    ],
)
def test_compression_by_content(head: bytes, compression: str | None) -> None:
    assert detect_compression(head) == compression


def test_fixed_widths() -> None:
    dialect = plan_dialect("fixed", field_widths=[5, 3])
    assert (dialect.widths, dialect.null_text, dialect.quote) == ((5, 3), "", None)


@pytest.mark.parametrize(
    ("format", "options", "part"),
    [
        ("json", {}, "unknown --format"),
        ("csv", {"delimiter": "||"}, "single one-byte"),
        ("csv", {"delimiter": ""}, "single one-byte"),
        ("csv", {"delimiter": "§"}, "single one-byte"),
        ("csv", {"delimiter": "\\0"}, "single one-byte"),
        ("csv", {"delimiter": "\\xff"}, "single one-byte"),
        ("csv", {"delimiter": "\\n"}, "cannot be newline"),
        ("csv", {"delimiter": "\r"}, "cannot be newline"),
        ("csv", {"quote": "\\n"}, "cannot be newline"),
        ("csv", {"escape": "\\r"}, "cannot be newline"),
        ("csv", {"delimiter": '"'}, "must be different"),
        ("csv", {"quote": ","}, "must be different"),
        ("csv", {"null_text": "a,b"}, "must not appear"),
        ("csv", {"null_text": '"'}, "must not appear"),
        ("csv", {"null_text": "a\nb"}, "--null cannot use"),
        ("csv", {"header": "maybe"}, "--header must be"),
        ("csv", {"comment": ","}, "another meaning"),
        ("csv", {"comment": "##"}, "single one-byte"),
        ("csv", {"skip_lines": -1}, "negative"),
        ("csv", {"field_widths": [1]}, "need each other"),
        ("fixed", {}, "need each other"),
        ("fixed", {"field_widths": [1, 0]}, "positive"),
        ("fixed", {"field_widths": [1], "delimiter": "|"}, "no delimiter"),
        ("text", {"force_null": ["*"]}, "requires --format csv"),
        ("text", {"quote": "'"}, "requires --format csv"),
        ("tbl", {"escape": "'"}, "requires --format csv"),
        ("text", {"delimiter": "a"}, "cannot be 'a'"),
        ("text", {"delimiter": "F"}, "cannot be 'F'"),
        ("text", {"delimiter": "\\\\"}, "cannot be"),
        ("text", {"delimiter": "N"}, "must not appear"),
        ("tbl", {"delimiter": "."}, "cannot be '.'"),
    ],
)
def test_refused_dialect(format: str, options: dict[str, Any], part: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan_dialect(format, **options)
    assert part in str(caught.value)
    assert caught.value.hint


MIB = 2**20


@pytest.mark.parametrize(
    ("total_bytes", "streams", "slice_bytes"),
    [
        (0, 2, MINIMUM_SLICE_BYTES),
        (MIB, 2, MINIMUM_SLICE_BYTES),
        (160 * MIB, 2, 10 * MIB),
        (160 * MIB + 1, 2, 10 * MIB + 1),
        (10**12, 2, MAXIMUM_SLICE_BYTES),
    ],
)
def test_slice_size(total_bytes: int, streams: int, slice_bytes: int) -> None:
    assert plan_slices([("a", total_bytes)], streams).slice_bytes == slice_bytes


@given(st.lists(st.integers(0, 2**42), max_size=20), st.integers(1, 256))
def test_slices_cover_all_and_stay_within_limits(sizes: list[int], streams: int) -> None:
    plan = plan_slices([(str(number), size) for number, size in enumerate(sizes)], streams)
    assert MINIMUM_SLICE_BYTES <= plan.slice_bytes <= MAXIMUM_SLICE_BYTES
    assert plan.total_bytes == sum(sizes)
    assert plan.slice_count * plan.slice_bytes >= plan.total_bytes
    assert plan.slice_count <= plan.total_bytes // plan.slice_bytes + len(sizes)
    if MINIMUM_SLICE_BYTES < plan.slice_bytes < MAXIMUM_SLICE_BYTES:
        assert (plan.slice_bytes - 1) * streams * 8 < plan.total_bytes <= plan.slice_bytes * streams * 8


@pytest.mark.parametrize(
    ("sources", "streams"),
    [
        ([], 1),
        ([(0, False)], 1),
        ([(8 * MIB, False)], 1),
        ([(8 * MIB + 1, False)], 2),
        ([(7 * MIB, True)], 7),
        ([(4 * MIB, False), (MIB // 2, True)], 1),
        ([(4 * MIB, False), (MIB, True)], 2),
        ([(1, False)] * 100, 1),
    ],
)
def test_streams_that_find_something_to_do(sources: list[tuple[int, bool]], streams: int) -> None:
    assert useful_streams(sources) == streams


def test_empty_files_make_no_slices() -> None:
    assert plan_slices([("a", 0), ("b", 1)], 1).slice_count == 1


@pytest.mark.parametrize(
    ("files", "streams", "limits"),
    [([], 0, {}), ([("a", -1)], 1, {}), ([], 1, {"minimum_slice_bytes": 2, "maximum_slice_bytes": 1})],
)
def test_faults_of_the_caller(files: list[tuple[str, int]], streams: int, limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must be|negative"):
        plan_slices(files, streams, **limits)


CSV_BACKSLASH = plan_dialect("csv", escape="\\")
FIRST_RECORDS: dict[str, tuple[Dialect, str, list[str]]] = {
    "quotes": (plan_dialect("csv"), 'a,"b ""c"", d",e"f"g\n1', ["a", 'b "c", d', "efg"]),
    "line_end_in_quotes": (plan_dialect("csv"), '"a\r\nb",c\r\n1', ["a\r\nb", "c"]),
    "escape_outside_quotes": (CSV_BACKSLASH, 'a\\b,"c\\"d\\\\e\\f"\n', ["a\\b", 'c"d\\e\\f']),
    "empty_line": (plan_dialect("csv"), "\na,b\n", [""]),
    "nothing": (plan_dialect("csv"), "", []),
    "trailing": (plan_dialect("csv", trailing_delimiter=True), "a,b,\n", ["a", "b"]),
    "text": (
        plan_dialect("text"), "a\\\\b\tc\\\td\t\\x41\\102\\n\t\\N\t\\xc3\\xa9\n1", ["a\\b", "c\td", "AB\n", "\\N", "é"]
    ),
    "text_line_end": (plan_dialect("text"), "a\\\nb\tc\n1", ["a\nb", "c"]),
    "tbl": (plan_dialect("tbl"), 'a\\b|"c|\n', ["a\\b", '"c']),
    "fixed": (plan_dialect("fixed", field_widths=(2, 3)), "a bc \n", ["a", "bc"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST_RECORDS)
def test_first_fields(name: str) -> None:
    dialect, text, expected = FIRST_RECORDS[name]
    fields, length = first_fields(text, dialect)
    assert fields == expected
    assert length < len(text) or not text
    if name != "empty_line":
        # The last record of a text, without a line end.
        alone = text.removesuffix("1").rstrip("\r\n")
        assert first_fields(alone, dialect) == (expected, len(alone))
