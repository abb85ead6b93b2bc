"""Formats, dialects and slice sizes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipple.errors import UsageError
from tipple.plan.sources import (
    MAXIMUM_SLICE_BYTES,
    MINIMUM_SLICE_BYTES,
    named_format,
    plan_dialect,
    plan_slices,
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
    ],
)
def test_named_format(path: str, format: str) -> None:
    assert named_format([path]) == format


@pytest.mark.parametrize("path", ["data.csv/part", "csv", "x.dat", "x.csv.3"])
def test_names_that_say_nothing(path: str) -> None:
    assert named_format([path]) is None


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("x.csv.gz", "unpack"),
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
    assert {dialect.encoding for dialect in (csv, text, tbl)} == {"UTF8"}


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


@pytest.mark.parametrize("name", ["utf8", "UTF-8", "utf_8", "Unicode"])
def test_encoding(name: str) -> None:
    assert plan_dialect("csv", encoding=name).encoding == "UTF8"


@pytest.mark.parametrize(
    ("format", "options", "part"),
    [
        ("json", {}, "unknown format"),
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
        ("csv", {"encoding": "LATIN1"}, "cannot be read yet"),
        ("text", {"quote": "'"}, "requires --format csv"),
        ("tbl", {"escape": "'"}, "requires --format csv"),
        ("text", {"delimiter": "a"}, "cannot be 'a'"),
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


def test_empty_files_make_no_slices() -> None:
    assert plan_slices([("a", 0), ("b", 1)], 1).slice_count == 1


@pytest.mark.parametrize(
    ("files", "streams", "limits"),
    [([], 0, {}), ([("a", -1)], 1, {}), ([], 1, {"minimum_slice_bytes": 2, "maximum_slice_bytes": 1})],
)
def test_faults_of_the_caller(files: list[tuple[str, int]], streams: int, limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must be|negative"):
        plan_slices(files, streams, **limits)
