"""Every type of the codec: extremes, the spellings that the server's own input functions take, and refusals.

What is stored is compared with Python values where Python can hold them, else by a condition in SQL that
every engine understands. Random spellings are compared with COPY itself in test_differential_types.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from loading import load_text
from targets import Target


@dataclass(frozen=True)
class Holds:
    """A condition on the column `v`."""

    sql: str


def single(value: float) -> float:
    """The nearest float4."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


D = Decimal
ACCEPTED: dict[str, list[tuple[str, Any]]] = {
    "boolean": [
        *((text, True) for text in ("t", "true", "TRUE", "tru", "y", "yes", "on", "1", " true ", "Y")),
        *((text, False) for text in ("f", "false", "False", "fal", "n", "no", "off", "of", "0", " f")),
    ],
    "smallint": [("-32768", -32768), ("32767", 32767), (" 1 ", 1), ("+7", 7), ("-0", 0), ("0000000012", 12)],
    "integer": [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1), ("\t5", 5), ("+0", 0)],
    "bigint": [
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775807", 2**63 - 1),
        ("000000000000000000000000000001", 1),
        ("-1", -1),
    ],
    "real": [
        ("3.4028235e38", single(3.4028235e38)),
        ("-3.4028235e+38", -single(3.4028235e38)),
        ("1.17549435e-38", single(1.17549435e-38)),
        ("1e-45", single(1.4e-45)),
        ("0.1", single(0.1)),
        ("16777217", 16777216.0),
        ("NaN", math.nan),
        ("Infinity", math.inf),
        ("-infinity", -math.inf),
        ("inf", math.inf),
        ("-0", -0.0),
    ],
    "double precision": [
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("-1.7976931348623157E+308", -1.7976931348623157e308),
        ("5e-324", 5e-324),
        ("2.2250738585072014e-308", 2.2250738585072014e-308),
        ("0.1", 0.1),
        ("9007199254740993", 9007199254740992.0),
        ("123456789012345678901234567890", 123456789012345678901234567890.0),
        ("1.00000000000000011102230246251565404236316680908203125", 1.0),
        ("1.00000000000000011102230246251565404236316680908203126", 1.0000000000000002),
        (".5", 0.5),
        ("5.", 5.0),
        (" 1e0 ", 1.0),
        ("nan", math.nan),
        ("-INF", -math.inf),
        ("-0", -0.0),
    ],
    "numeric(5,2)": [
        ("999.99", D("999.99")),
        ("-999.99", D("-999.99")),
        ("1.005", D("1.01")),
        ("-1.005", D("-1.01")),
        ("1.00499999999999999999999999", D("1.00")),
        ("999.994999", D("999.99")),
        ("0", D("0.00")),
        ("-0.001", D("0.00")),
        ("1e2", D("100.00")),
        ("12345e-3", D("12.35")),
        (".5", D("0.50")),
        ("5.", D("5.00")),
        (" +7.1 ", D("7.10")),
        ("0000000000000000000000000000000000000000001", D("1.00")),
    ],
    "numeric(38,10)": [
        ("9999999999999999999999999999.9999999999", D("9999999999999999999999999999.9999999999")),
        ("-9999999999999999999999999999.9999999999", D("-9999999999999999999999999999.9999999999")),
        ("0.0000000001", D("1e-10")),
        ("0.00000000005", D("1e-10")),
        ("0.00000000004999", D("0E-10")),
    ],
    "numeric(38,0)": [
        ("9" * 38, D("9" * 38)),
        ("-" + "9" * 38, D("-" + "9" * 38)),
        ("0.5", D(1)),
        ("-0.5", D(-1)),
    ],
    "varchar": [
        ("", ""),
        (" x ", " x "),
        ("🚂" * 100, "🚂" * 100),
        ("\x7f\x01", "\x7f\x01"),
        ("x" * 100_000, "x" * 100_000),
    ],
    "varchar(3)": [("", ""), ("abc", "abc"), ("äöü", "äöü"), ("🚂🚂🚂", "🚂🚂🚂")],
    "char(5)": [
        ("abc", Holds("rtrim(v) = 'abc'")),
        ("äöüäö", Holds("rtrim(v) = 'äöüäö'")),
        ("", Holds("rtrim(v) = ''")),
    ],
    "date": [
        ("2020-02-29", date(2020, 2, 29)),
        ("1970-01-01", date(1970, 1, 1)),
        ("0001-01-01", date(1, 1, 1)),
        ("9999-12-31", date(9999, 12, 31)),
        (" 1999-12-31 ", date(1999, 12, 31)),
        ("5874897-12-31", Holds("v - DATE '2000-01-01' = 2145031948")),
        ("4714-11-24 BC", Holds("v - DATE '2000-01-01' = -2451545")),
        ("0001-12-31 BC", Holds("v - DATE '0001-01-01' = -1")),
        ("infinity", Holds("v = CAST('infinity' AS date)")),
        ("-infinity", Holds("v = CAST('-infinity' AS date)")),
    ],
    "timestamp": [
        ("2020-02-29 12:34:56.789", datetime(2020, 2, 29, 12, 34, 56, 789000)),
        ("2020-02-29T12:34:56", datetime(2020, 2, 29, 12, 34, 56)),
        ("2020-02-29", datetime(2020, 2, 29)),
        ("2020-02-29 12:34", datetime(2020, 2, 29, 12, 34)),
        ("1969-12-31 23:59:59.999999", datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("0001-01-01 00:00:00", datetime(1, 1, 1)),
        ("9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999999)),
        (
            "2020-01-01 00:00:00.0000005",
            Holds("v >= TIMESTAMP '2020-01-01' AND v <= TIMESTAMP '2020-01-01 00:00:00.000001'"),
        ),
        ("2020-01-01 23:59:59.9999996", datetime(2020, 1, 2)),
        ("2020-12-31 24:00:00", datetime(2021, 1, 1)),
        ("2016-12-31 23:59:60", datetime(2017, 1, 1)),
        ("250000-12-31 23:59:59", Holds("extract(year FROM v) = 250000")),
        ("infinity", Holds("v = CAST('infinity' AS timestamp)")),
        ("-infinity", Holds("v = CAST('-infinity' AS timestamp)")),
    ],
}

REFUSED: dict[str, list[str]] = {
    "boolean": ["maybe", "2", "o", "tt", "", "-1"],
    "smallint": ["32768", "-32769", "1.0", "", " ", "abc", "1 2"],
    "integer": ["2147483648", "-2147483649", "1e3", "0x", "--1", "1,000", "+"],
    "bigint": ["9223372036854775808", "-9223372036854775809", "12three"],
    "real": ["1e39", "1e-60", "", "1.2.3", "nanx"],
    "double precision": ["1e400", "-1e400", "1e-400", "e5", "1e", "infinit", "."],
    "numeric(5,2)": ["1000", "-1000", "999.995", "1e3", "abc", "", ".", "1e", "1 2"],
    "numeric(38,0)": ["1" + "0" * 38, "9" * 38 + ".5"],
    "date": [
        "2021-02-29",
        "2020-13-01",
        "2020-00-10",
        "0000-01-01",
        "abc",
        "",
        "2020-01-01x",
        "5874898-01-01",
    ],
    "timestamp": [
        "2020-01-01 25:00:00",
        "2020-01-01 12:60:00",
        "2020-02-30 00:00:00",
        "2020-01-01 24:00:01",
        "",
        "x",
    ],
}


@pytest.mark.parametrize("type_text", ACCEPTED)
def test_accepted(engine_target: Target, tmp_path: Path, type_text: str) -> None:
    cases = ACCEPTED[type_text]
    engine_target.execute(f"CREATE TABLE t (k integer, v {type_text})")
    data = "".join(f'{k},"{text}"\n' for k, (text, _) in enumerate(cases)) + f"{len(cases)},\n"
    load_text(engine_target, tmp_path / "in.csv", data)
    wrong = []
    for k, (text, expected) in enumerate(cases):
        if isinstance(expected, Holds):
            ((good,),) = engine_target.rows(f"SELECT {expected.sql} FROM t WHERE k = {k}")
            if not good:
                shown = engine_target.value(f"SELECT CAST(v AS varchar) FROM t WHERE k = {k}")
                wrong.append((text, expected.sql, shown))
        else:
            value = engine_target.value(f"SELECT v FROM t WHERE k = {k}")
            if type_text == "real" and value is not None:
                value = single(value)  # drivers differ in how they widen it
            if repr(value) != repr(expected):
                wrong.append((text, expected, value))
    assert wrong == []
    assert engine_target.rows("SELECT k FROM t WHERE v IS NULL") == [(len(cases),)]


@pytest.mark.parametrize(
    ("type_text", "text"), [(type_text, text) for type_text, texts in REFUSED.items() for text in texts]
)
def test_refused(engine_target: Target, tmp_path: Path, type_text: str, text: str) -> None:
    engine_target.execute(f"CREATE TABLE t (k integer, v {type_text})")
    run = load_text(engine_target, tmp_path / "in.csv", f'1,\n2,"{text}"\n', check=1)
    assert engine_target.count("t") == 0
    for part in ("in.csv", " v", "record", "2"):
        assert part in run.stderr, run.stderr
    assert text in run.stderr


@pytest.mark.parametrize("type_text", ["varchar(3)", "char(3)"])
@pytest.mark.parametrize(("text", "stored"), [("abc   ", "abc"), ("äöü ", "äöü")])
def test_spaces_beyond_the_length(
    postgres_target: Target, tmp_path: Path, type_text: str, text: str, stored: str
) -> None:
    """SQL lets spaces beyond the length go; PostgreSQL does so in COPY too."""
    postgres_target.execute(f"CREATE TABLE t (v {type_text})")
    load_text(postgres_target, tmp_path / "in.csv", f'"{text}"\n')
    assert postgres_target.rows("SELECT v FROM t") == [(stored,)]


@pytest.mark.parametrize("type_text", ["varchar(3)", "char(3)"])
@pytest.mark.parametrize("text", ["abcd", "äöüä", "abc  d"])
def test_too_long(postgres_target: Target, tmp_path: Path, type_text: str, text: str) -> None:
    postgres_target.execute(f"CREATE TABLE t (v {type_text})")
    run = load_text(postgres_target, tmp_path / "in.csv", f'ok\n"{text}"\n', check=1)
    assert postgres_target.count("t") == 0
    assert "too long" in run.stderr


@pytest.mark.parametrize("text", ["NaN", "Infinity"])
def test_numeric_that_is_no_number(engine_target: Target, tmp_path: Path, text: str) -> None:
    """PostgreSQL's numeric holds NaN (infinity only without a precision); DuckDB's decimal holds neither."""
    engine_target.execute("CREATE TABLE t (v numeric(5,2))")
    holds = engine_target.engine == "postgresql" and text == "NaN"
    load_text(engine_target, tmp_path / "in.csv", f"{text}\n", check=0 if holds else 1)
    assert engine_target.count("t") == int(holds)


BAD_TEXT = {
    "invalid": b"\xff",
    "latin1": "ü".encode("latin1"),
    "cut": "🚂".encode()[:3],
    "overlong": b"\xc0\xaf",
    "surrogate": b"\xed\xa0\x80",
    "beyond": b"\xf4\x90\x80\x80",
    "zero": b"a\x00b",
}


@pytest.mark.parametrize("kind", BAD_TEXT)
@pytest.mark.parametrize("form", ["csv", "text", "tbl"])
def test_text_that_is_no_utf8(engine_target: Target, tmp_path: Path, kind: str, form: str) -> None:
    engine_target.execute("CREATE TABLE t (v varchar)")
    end = b"|\n" if form == "tbl" else b"\n"
    data = b"good" + end + b"x" + BAD_TEXT[kind] + b"y" + end
    run = load_text(engine_target, tmp_path / "in.data", data, format=form, check=False)
    # A zero near the beginning is the mark of a binary file, which is not even begun.
    assert run.exit_code in ((1, 2) if kind == "zero" else (1,)), str(run)
    assert engine_target.count("t") == 0
    assert "in.data" in run.stderr
    assert "UTF" in run.stderr.upper() or "byte" in run.stderr


OTHER_TYPES = {
    "uuid": "00000000-0000-0000-0000-00000000002a",
    "jsonb": '{"a": [1, null]}',
    "integer[]": "{1,NULL,3}",
    "inet": "10.0.0.1/8",
    "interval": "1 day 02:03:04",
    "timestamptz": "2020-01-01 00:00:00+05:45",
    "time": "12:34:56.789",
    "bytea": "\\x00ff",
    "numeric": "123456789012345678901234567890.5",
    "money": "12.34",
    "int4range": "[1,5)",
    "tsvector": "'a':1",
    "mood": "happy",
    "email": "a@b.c",
    "xml": "<a>1</a>",
    "point": "(1,2)",
    "bit(3)": "101",
    "name": "n" * 63,
    '"char"': "c",
}


@pytest.mark.parametrize("type_text", OTHER_TYPES)
def test_types_unknown_to_the_codec_go_by_text(postgres_target: Target, tmp_path: Path, type_text: str) -> None:
    postgres_target.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN email AS text CHECK (VALUE LIKE '%@%')"
    )
    text = OTHER_TYPES[type_text]
    if type_text == "xml" and not _has_xml(postgres_target):
        pytest.skip("this server is built without XML")
    postgres_target.execute(f"CREATE TABLE t (k integer, v {type_text}); CREATE TABLE twin (LIKE t)")
    escaped = text.replace('"', '""')
    run = load_text(postgres_target, tmp_path / "in.csv", f'1,"{escaped}"\n2,\n')
    literal = text.replace("'", "''")
    postgres_target.execute(f"INSERT INTO twin VALUES (1, '{literal}'), (2, NULL)")
    assert postgres_target.rows("SELECT k, v::text FROM t ORDER BY k") == postgres_target.rows(
        "SELECT k, v::text FROM twin ORDER BY k"
    )
    assert run.summary is not None
    if run.summary["write_path"] == "text":
        assert "v" in run.summary["write_path_reason"]


def test_refused_by_the_servers_own_input(postgres_target: Target, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (k integer, v uuid)")
    data = "1,00000000-0000-0000-0000-000000000001\n2,nonsense\n"
    run = load_text(postgres_target, tmp_path / "in.csv", data, check=1)
    assert postgres_target.count("t") == 0
    for part in ("in.csv", "nonsense", "22P02", "uuid", "v"):
        assert part in run.stderr, run.stderr


def _has_xml(target: Target) -> bool:
    try:
        target.execute("SELECT '<a/>'::xml")
    except Exception as error:
        return "unsupported XML feature" not in str(error)
    return True
