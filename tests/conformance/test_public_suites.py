"""Public collections of CSV that readers are tried on, each of their cases: the rows that the collection expects, or
why Tipple gives others.

- csv-spectrum: https://github.com/max-mapper/csv-spectrum (BSD-2-Clause)
- csv-test-data: https://github.com/sineemore/csv-test-data
- Pollock, 2,289 spoilt files and the one that they are made of: `benchmarks/pollock.py` goes through a checkout.

Both small ones take an empty field for an empty text, quoted or not. Here, as for COPY, it is NULL where it is not
quoted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from loading import load_here
from targets import Target, write

Rows = list[tuple[str | None, ...]]


class Case(NamedTuple):
    """A file of a collection."""

    name: str
    text: bytes
    columns: str
    rows: Rows | str
    """What it holds, or what the refusal says."""
    header: str = "match"


POINT = '{"type": "Point", "coordinates": [102.0, 0.5]}'
DEGREES = "37\ufffd36'37.8\"N 121\ufffd2'17.9\"W"

SPECTRUM = [
    Case(
        "comma_in_quotes",
        b'first,last,address,city,zip\nJohn,Doe,120 any st.,"Anytown, WW",08123',
        "first,last,address,city,zip",
        [("John", "Doe", "120 any st.", "Anytown, WW", "08123")],
    ),
    Case("empty", b'a,b,c\n1,"",""\n2,3,4', "a,b,c", [("1", "", ""), ("2", "3", "4")]),
    Case("empty_crlf", b'a,b,c\r\n1,"",""\r\n2,3,4', "a,b,c", [("1", "", ""), ("2", "3", "4")]),
    Case("escaped_quotes", b'a,b\n1,"ha ""ha"" ha"\n3,4\n', "a,b", [("1", 'ha "ha" ha'), ("3", "4")]),
    Case(
        "json",
        b'key,val\n1,"{""type"": ""Point"", ""coordinates"": [102.0, 0.5]}"\n',
        "key,val",
        [("1", POINT)],
    ),
    # Its quotes stand in the middle of a field that is not quoted. COPY takes them for quoting, and leaves them out.
    Case(
        "location_coordinates",
        f"Contact Phone Number,Location Coordinates,Cities,Counties\n2095257564,{DEGREES},Modesto,Stanislaus".encode(),
        "Contact Phone Number,Location Coordinates,Cities,Counties",
        [("2095257564", DEGREES.replace('"', ""), "Modesto", "Stanislaus")],
    ),
    Case(
        "newlines",
        b'a,b,c\n1,2,3\n"Once upon \na time",5,6\n7,8,9\n',
        "a,b,c",
        [("1", "2", "3"), ("Once upon \na time", "5", "6"), ("7", "8", "9")],
    ),
    Case(
        "newlines_crlf",
        b'a,b,c\r\n1,2,3\r\n"Once upon \r\na time",5,6\r\n7,8,9\r\n',
        "a,b,c",
        [("1", "2", "3"), ("Once upon \r\na time", "5", "6"), ("7", "8", "9")],
    ),
    Case(
        "quotes_and_newlines",
        b'a,b\n1,"ha \n""ha"" \nha"\n3,4\n',
        "a,b",
        [("1", 'ha \n"ha" \nha'), ("3", "4")],
    ),
    Case("simple", b"a,b,c\n1,2,3\n", "a,b,c", [("1", "2", "3")]),
    Case("simple_crlf", b"a,b,c\r\n1,2,3\r\n", "a,b,c", [("1", "2", "3")]),
    Case("utf8", "a,b,c\n1,2,3\n4,5,ʤ".encode(), "a,b,c", [("1", "2", "3"), ("4", "5", "ʤ")]),
]

FOO: tuple[str, ...] = ("foo", "bar", "baz")


def three(middle: str | None) -> Rows:
    return [FOO, ("1", middle, "3")]


def plain(name: str, text: str, rows: Rows | str, columns: str = "a,b,c") -> Case:
    return Case(name, text.encode(), columns, rows, "no")


TEST_DATA = [
    plain("all-empty", "\n\n", [(None,), (None,)], "a"),
    Case("bad-header-less-fields", b"foo,bar,baz\n1,2", "foo,bar,baz", "missing data"),
    Case("bad-header-more-fields", b"foo,bar,baz\n1,2,3,4", "foo,bar,baz", "extra data"),
    Case("bad-header-no-header", b"", "foo,bar,baz", "it has no header"),
    Case("bad-header-wrong-header", b"qux,quux,quuz", "foo,bar,baz", "qux"),
    plain("bad-missing-quote", 'foo,bar,baz\n1,"I forgot to close this one,3', "unterminated quoted field"),
    plain("bad-quotes-with-unescaped-quote", 'foo,bar,baz\n1,"Hey, I missed " it",3', "unterminated quoted field"),
    # As COPY: quoting may begin and end anywhere in a field.
    plain(
        "bad-unescaped-quote", 'foo,bar,baz\n1,This "quotes" must be escaped,3', three("This quotes must be escaped")
    ),
    plain("empty-field", "foo,bar,baz\n1,,3", three(None)),
    plain("empty-one-column", "foo\n\n", [("foo",), (None,)], "a"),
    Case("header-no-rows", b"foo,bar,baz", "foo,bar,baz", []),
    Case("header-simple", b"foo,bar,baz\n1,2,3", "foo,bar,baz", [("1", "2", "3")]),
    plain("leading-space", "foo,bar,baz\n1, leading space,3", three(" leading space")),
    plain("one-column", "foo\n1", [("foo",), ("1",)], "a"),
    plain("quotes-empty", 'foo,bar,baz\n1,"",3', three("")),
    plain("quotes-with-comma", 'foo,bar,baz\n1,"Luke, I am your father.",3', three("Luke, I am your father.")),
    plain("quotes-with-escaped-quote", 'foo,bar,baz\n1,"The "" must be escaped",3', three('The " must be escaped')),
    plain(
        "quotes-with-newline",
        'foo,bar,baz\n1,"No man is an island,\nEntire of itself",3',
        three("No man is an island,\nEntire of itself"),
    ),
    plain("quotes-with-space", 'foo,bar,baz\n1,"Field with spaces",3', three("Field with spaces")),
    plain("simple-crlf", "foo,bar,baz\r\n1,2,3", three("2")),
    plain("simple-lf", "foo,bar,baz\n1,2,3", three("2")),
    plain("trailing-newline-one-field", "foo\n1\n", [("foo",), ("1",)], "a"),
    plain("trailing-newline", "foo,bar,baz\n1,2,3\n", three("2")),
    plain("trailing-space", "foo,bar,baz\n1,trailing space ,3", three("trailing space ")),
    plain("utf8", "foo,bar,baz\n1,😎,3", three("😎")),
]


def read(target: Target, path: Path, case: Case) -> None:
    names = [f'"{name}"' for name in case.columns.split(",")]
    target.execute(f"CREATE TABLE t ({', '.join(f'{name} varchar' for name in names)})")
    options: dict[str, Any] = {"format": "csv", "header": case.header, "delimiter": ","}
    is_refused = isinstance(case.rows, str)
    run = load_here(target, write(path, case.text), **options, check=False)
    assert bool(run.exit_code) == is_refused, run
    if is_refused:
        assert str(case.rows) in run.stderr
        assert target.count("t") == 0
    else:
        assert sorted(target.rows(f"SELECT {', '.join(names)} FROM t"), key=repr) == sorted(case.rows, key=repr)


@pytest.mark.parametrize("case", SPECTRUM, ids=lambda case: case.name)
def test_csv_spectrum(engine_target: Target, tmp_path: Path, case: Case) -> None:
    read(engine_target, tmp_path / f"{case.name}.csv", case)


@pytest.mark.parametrize("case", TEST_DATA, ids=lambda case: case.name)
def test_csv_test_data(engine_target: Target, tmp_path: Path, case: Case) -> None:
    read(engine_target, tmp_path / f"{case.name}.csv", case)
