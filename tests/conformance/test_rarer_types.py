"""Times, intervals, UUIDs, bytes, JSON, addresses, enumerated types, domains, arrays and lists, end to end.

What is stored is compared with what the engine itself makes of a canonical spelling, or with a Python value. Random
spellings are compared with the server's input functions in test_values_differential.
"""

from __future__ import annotations

import itertools
import json
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from conftest import LONG
from loading import load_text
from servers.installations import VERSIONS
from targets import PostgresTarget, Target


@dataclass(frozen=True)
class Like:
    """What the engine itself reads in this spelling."""

    text: str


D = Decimal
ID = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")

ACCEPTED: dict[str, list[tuple[str, Any]]] = {
    "time": [
        ("12:34:56", Like("12:34:56")),
        ("12:34:56.789", Like("12:34:56.789")),
        (" 1:2 ", Like("01:02:00")),
        ("00:00:00", Like("00:00:00")),
        ("23:59:59.9999994", Like("23:59:59.999999")),
        ("12:34:56+02", Like("12:34:56")),
    ],
    "timestamptz": [
        ("2020-02-29 12:34:56.789+00", Like("2020-02-29 12:34:56.789+00")),
        ("2020-02-29T12:34:56Z", Like("2020-02-29 12:34:56+00")),
        ("2020-02-29 12:34:56 UTC", Like("2020-02-29 12:34:56+00")),
        ("2020-03-29 02:30:00+01:30", Like("2020-03-29 01:00:00+00")),
        ("2020-02-29 23:59:60-0530", Like("2020-03-01 05:30:00+00")),
        ("0001-01-01 00:00:00+00", Like("0001-01-01 00:00:00+00")),
        ("infinity", Like("infinity")),
        ("-infinity", Like("-infinity")),
        ("epoch", Like("1970-01-01 00:00:00+00")),
    ],
    "interval": [
        ("1 year 2 mons 3 days 04:05:06.789", Like("14 months 3 days 04:05:06.789")),
        ("P1Y2M3DT4H5M6.5S", Like("14 months 3 days 04:05:06.5")),
        ("-1 days +02:03:00", Like("-1 days 02:03:00")),
        ("@ 4 hours ago", Like("-4 hours")),
        ("100:00:00", Like("100 hours")),
        ("1.5 secs", Like("00:00:01.5")),
    ],
    "uuid": [
        (str(ID), ID),
        ("{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}", ID),
        ("a0eebc999c0b4ef8bb6d6bb9bd380a11", ID),
        ("00000000-0000-0000-0000-000000000000", uuid.UUID(int=0)),
        ("ffffffff-ffff-ffff-ffff-ffffffffffff", uuid.UUID(int=2**128 - 1)),
    ],
    "bytea": [
        ("", b""),
        ("\\x", b""),
        ("\\x00fF", b"\x00\xff"),
        ("abc\\\\\\000\\377", b"abc\\\x00\xff"),
        ("\\x" + "ab" * 5000, b"\xab" * 5000),
    ],
    "integer[]": [
        ("{}", []),
        ("{1,NULL,-3}", [1, None, -3]),
        (' { "1" , 2 } ', [1, 2]),
        ("{" + ",".join("1" * 1000) + "}", [1] * 1000),
    ],
    "varchar[]": [
        ('{a,"b c",NULL,"NULL"}', ["a", "b c", None, "NULL"]),
        ('{"","a\\"b\\\\c","{}", x y }', ["", 'a"b\\c', "{}", "x y"]),
        ("{äöü,🚂}", ["äöü", "🚂"]),
    ],
    "boolean[]": [("{t,false,NULL}", [True, False, None])],
    "double precision[]": [("{1.5,-inf}", [1.5, float("-inf")])],
    "numeric(10,2)[]": [("{1.005,-2,1e3}", [D("1.01"), D("-2.00"), D("1000.00")])],
    "uuid[]": [(f"{{{ID},NULL}}", [ID, None])],
    "bytea[]": [('{"\\\\x00ff",abc}', [b"\x00\xff", b"abc"])],
}

REFUSED: dict[str, list[str]] = {
    "time": ["24:00:01", "25:00:00", "12:60:00", "", "x"],
    "timestamptz": ["2020-02-30 00:00:00+00", "2020-01-01 25:00:00Z", "", "x"],
    "interval": ["", "x", "1 dax", "P", "1 day 1 day"],
    "uuid": ["", "x", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1g", f" {ID}"],
    "bytea": ["\\", "\\x0", "\\x0g", "a\\b", "\\400"],
    "json": ["", "{", "nul", "{'a':1}", "[1,]", '"\t"'],
    "integer[]": ["", "1", "{1", "{1,}", "{x}", "{2147483648}", "{1}}", "[1,2]"],
    "mood": ["", "Sad", "happy ", "x" * 70],
}


def name_in(target: Target, type_text: str) -> str:
    """The type in the engine's words."""
    return type_text.replace("bytea", "blob") if target.engine == "duckdb" else type_text


def create_mood(target: Target) -> None:
    target.execute("CREATE TYPE mood AS ENUM ('sad', 'happy', 'so ''so''', 'ö, k')")


def csv_field(text: str | None) -> str:
    return "" if text is None else '"' + text.replace('"', '""') + '"'


def csv_rows(columns: Sequence[Sequence[str]]) -> str:
    """Records with a number and a field per column; shorter columns are filled with NULL, and so is the last record."""
    rows = itertools.zip_longest(*columns, [None] * (1 + max(map(len, columns))))
    return "".join(f"{k}," + ",".join(map(csv_field, row[:-1])) + "\n" for k, row in enumerate(rows))


def create_table(target: Target, name: str, types: Iterable[str]) -> None:
    columns = "".join(f", c{number} {name_in(target, type_text)}" for number, type_text in enumerate(types))
    target.execute(f"CREATE TABLE {name} (k integer{columns})")


def test_accepted(engine_target: Target, tmp_path: Path) -> None:
    """All types in one table, so that it is one load."""
    create_table(engine_target, "t", ACCEPTED)
    data = csv_rows([[text for text, _ in cases] for cases in ACCEPTED.values()])
    run = load_text(engine_target, tmp_path / "in.csv", data, verify="checksum")
    wrong = []
    for number, (type_text, cases) in enumerate(ACCEPTED.items()):
        name = name_in(engine_target, type_text)
        # Not every value of these types has a place in Python.
        shown = f"CAST(c{number} AS varchar)" if isinstance(cases[0][1], Like) else f"c{number}"
        stored = [value for (value,) in engine_target.rows(f"SELECT {shown} FROM t ORDER BY k")]
        for (text, expected), value in zip(cases, stored, strict=False):
            if isinstance(expected, Like):
                expected = engine_target.value(f"SELECT CAST(CAST('{expected.text}' AS {name}) AS varchar)")
            if repr(value) != repr(expected):
                wrong.append((type_text, text, expected, value))
        assert set(map(type, stored[len(cases) :])) == {type(None)}
    assert wrong == []
    assert run.summary is not None
    assert run.summary["verify"]["kind"] == "checksum"
    assert run.summary["fallback_windows"] == 0


def only_newest(target: Target) -> None:
    """In the normal run, refusals are tried on one version only: each is a load of its own."""
    if isinstance(target, PostgresTarget) and target.server.version != max(VERSIONS) and not LONG:
        pytest.skip("with TIPPLE_LONG=1 only")


def assert_names_record(stderr: str, record: int, text: str) -> None:
    assert re.search(rf"record +{record},", stderr), stderr
    for part in ("in.csv", "column    v", text[:60].replace("\t", r"\t"), "SQLSTATE  2", "remedy"):
        assert part in stderr, stderr


@pytest.mark.parametrize(
    ("type_text", "text"),
    [(type_text, text) for type_text, texts in REFUSED.items() for text in (texts if LONG else texts[-1:])],
)
def test_refused(engine_target: Target, tmp_path: Path, type_text: str, text: str) -> None:
    only_newest(engine_target)
    create_mood(engine_target)
    engine_target.execute(f"CREATE TABLE t (k integer, v {name_in(engine_target, type_text)})")
    run = load_text(engine_target, tmp_path / "in.csv", f"1,\n2,{csv_field(text)}\n", check=1)
    assert engine_target.count("t") == 0
    assert_names_record(run.stderr, 2, text)


def test_time_at_the_end_of_the_day(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (v time)")
    load_text(engine_target, tmp_path / "in.csv", "24:00:00\n23:59:60\n", verify="checksum")
    assert engine_target.rows("SELECT CAST(v AS varchar) FROM t") == [("24:00:00",), ("24:00:00",)]


@pytest.mark.parametrize("type_text", ["json", "jsonb"])
def test_json(engine_target: Target, tmp_path: Path, type_text: str) -> None:
    if engine_target.engine == "duckdb":
        type_text = "json"
    texts = ['{"b":  [1, null],"a":"\\u00e9"}', " 1 ", '"é"', "[]", "null", '{"a":1,"a":2}']
    engine_target.execute(f"CREATE TABLE t (k integer, v {type_text})")
    data = "".join(f"{k},{csv_field(text)}\n" for k, text in enumerate(texts))
    run = load_text(engine_target, tmp_path / "in.csv", data, verify="checksum")
    stored = engine_target.rows("SELECT CAST(v AS varchar) FROM t ORDER BY k")
    assert [json.loads(text) for (text,) in stored] == [json.loads(text) for text in texts]
    if type_text == "json":
        assert [text for (text,) in stored] == texts
    assert run.summary is not None
    assert any("not part of the checksum" in note for note in run.summary["notes"]) is (type_text == "jsonb")


def test_enumerated_types(engine_target: Target, tmp_path: Path) -> None:
    create_mood(engine_target)
    engine_target.execute("CREATE TABLE t (k integer, v mood, w mood[])")
    data = '1,happy,"{sad,NULL}"\n2,so \'so\',{}\n3,"ö, k","{""ö, k""}"\n4,,\n'
    load_text(engine_target, tmp_path / "in.csv", data, verify="checksum")
    rows = engine_target.rows("SELECT v, CAST(w AS varchar[]) FROM t ORDER BY k")
    assert rows == [("happy", ["sad", None]), ("so 'so'", []), ("ö, k", ["ö, k"]), (None, None)]
    assert engine_target.value("SELECT count(*) FROM t WHERE v > CAST('sad' AS mood)") == 3


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_checksum_without_any_column(postgres_target: PostgresTarget, tmp_path: Path, mode: str) -> None:
    """A table of jsonb alone has nothing to compare but the number of its rows; in one transaction too."""
    postgres_target.execute("CREATE TABLE t (v jsonb); INSERT INTO t VALUES ('1')")
    load_text(postgres_target, tmp_path / "in.csv", "1\n2\n\n", verify="checksum", mode=mode)
    assert postgres_target.count("t") == (4 if mode == "append" else 3)


def test_checksum_beside_jsonb(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (a integer, v jsonb, b text, w jsonb[])")
    data = "".join(f'{k},"[{k}, 1]",text {k},"{{""{k}  "",NULL}}"\n' for k in range(3000)) + ",,,\n"
    run = load_text(postgres_target, tmp_path / "in.csv", data, verify="checksum")
    assert run.summary is not None
    assert run.summary["write_path"] == "binary"
    assert run.summary["verify"]["kind"] == "checksum"
    assert postgres_target.value("SELECT sum((v->>0)::int) = sum((w[1])::int) AND sum(a) = sum((v->>0)::int) FROM t")


DOMAINS = """
CREATE DOMAIN short AS varchar(3);
CREATE DOMAIN email AS text CHECK (VALUE LIKE '%@%');
CREATE DOMAIN email_at_work AS email CHECK (VALUE LIKE '%b');
CREATE DOMAIN price AS numeric(5,2);
CREATE DOMAIN pair AS integer[] CHECK (array_length(VALUE, 1) = 2);
CREATE DOMAIN moods AS mood[];
CREATE DOMAIN address AS inet
"""

CERTAIN: dict[str, list[str]] = {
    "timetz": ["12:34:56+02", "01:02:03.5-05:30:15", "24:00:00Z"],
    "time(1)": ["12:34:56.78", "23:59:59.99"],
    "timetz(0)": ["12:34:56.78+02"],
    "timestamptz(2)": ["2020-01-01 00:00:00.126+02"],
    "interval(1)": ["1.26 secs", "-0.05 secs"],
    "inet": ["10.0.0.1/8", "::1", "::ffff:1.2.3.4/96"],
    "cidr": ["10.0.0.0/8", "2001:4f8:3:ba::/64"],
    "numeric": ["NaN", "Infinity", "-inf", "1e1000", "9" * 400],
    "short": ["abc", "ab   ", ""],
    "price": ["1.005"],
    "email": ["a@b"],
    "email_at_work": ["a@b"],
    "pair": ["{1,2}", "{3,NULL}"],
    "moods": ["{sad,happy}"],
    "address": ["10.0.0.1"],
    "short[]": ["{abc,NULL}"],
    "price[]": ["{1.005}"],
    "varchar(3)[]": ["{abc,ab}"],
    "char(3)[]": ["{abc,ab}"],
    "timestamptz(0)[]": ['{"2020-01-01 00:00:00.6+00"}'],
    "integer[][]": ["{{1,2},{3,4}}", "{{{1}}}", "{{{{{{1}}}}}}"],
    "inet[]": ["{10.0.0.1,::1}"],
    "interval[]": ["{1 day,P1M}"],
    "text[]": ["{{a,b},{c,NULL}}"],
    "date[]": ["{2020-01-01,infinity}"],
    "real[]": ["{1.5,NaN}"],
    "json[]": ['{"{\\"a\\":1}",null,NULL}'],
}
"""What the codec reads itself."""

LEFT_TO_THE_SERVER: dict[str, list[str]] = {
    "timetz": ["01:02:03", "1:02 PM"],
    "timestamptz": ["2020-07-01 00:00:00 Europe/Berlin", "Jul 1 2020 PST", "2020-07-01"],
    "timestamptz(2)": ["2020-01-01 00:00:00.126"],
    "interval": ["1-2", "1.5 days", "1 decade", "-1 2:03:04"],
    "cidr": ["10", "10.1"],
    "integer[]": ["[0:1]={1,2}"],
    "text[]": ["{a\\,b}"],
    "bytea": ["\u00e9"],
}
"""What it hands to the server, in the middle of a binary load."""

OPAQUE: dict[str, list[str]] = {
    "interval day to second": ["1 day 02:03:04"],
    "point[]": ['{"(1,2)"}'],
    "box[]": ["{(1,1),(0,0);(2,2),(1,1)}"],
    "pair[]": ['{"{1,2}"}'],
    "int4range": ["[1,5)"],
}
"""What only the server knows."""


@pytest.mark.parametrize("time_zone", ["UTC", "Asia/Kathmandu"])
@pytest.mark.parametrize("kind", ["CERTAIN", "LEFT_TO_THE_SERVER", "OPAQUE"])
def test_as_the_server_reads_it(postgres_target: PostgresTarget, tmp_path: Path, kind: str, time_zone: str) -> None:
    """The same rows as COPY of the same texts, in the time zone that PGTZ asks for."""
    types: dict[str, list[str]] = globals()[kind]
    create_mood(postgres_target)
    postgres_target.execute(DOMAINS)
    create_table(postgres_target, "t", types)
    postgres_target.execute(f"CREATE TABLE twin (LIKE t); SET TimeZone TO '{time_zone}'")
    data = csv_rows(list(types.values()))
    run = load_text(postgres_target, tmp_path / "in.csv", data, verify="checksum", env={"PGTZ": time_zone})
    assert postgres_target.copy_in("COPY twin FROM STDIN (FORMAT csv)", data.encode()) is None
    for number, type_text in enumerate(types):
        rows = f"SELECT k, c{number}::text FROM {{}} ORDER BY k"
        assert postgres_target.rows(rows.format("t")) == postgres_target.rows(rows.format("twin")), type_text
    assert run.summary is not None
    assert run.summary["write_path"] == ("text" if kind == "OPAQUE" else "binary")
    assert run.summary["fallback_windows"] == int(kind == "LEFT_TO_THE_SERVER")
    assert run.summary["verify"]["kind"] == ("checksum" if kind == "CERTAIN" else "count")


BAD = {
    "email": "nobody",
    "pair": "{1,2,3}",
    "jsonb": '{"a": \\u0000}',
    "json": '{"a": tru}',
    "cidr": "10.0.0.1/8",
    "integer[]": "{{1},{2,3}}",
    "moods": "{sad,bad}",
}


@pytest.mark.parametrize("type_text", BAD)
def test_refused_by_the_server(postgres_target: PostgresTarget, tmp_path: Path, type_text: str) -> None:
    """Whoever refuses it, the codec or the server: file, record, column and text are named."""
    only_newest(postgres_target)
    create_mood(postgres_target)
    postgres_target.execute(f"{DOMAINS}; CREATE TABLE t (k integer, v {type_text})")
    text = BAD[type_text]
    data = "".join(f"{k},\n" for k in range(500)) + f"500,{csv_field(text)}\n501,\n"
    run = load_text(postgres_target, tmp_path / "in.csv", data, check=1)
    assert postgres_target.count("t") == 0
    assert_names_record(run.stderr, 501, text)


def test_null_in_a_domain_that_has_none(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    only_newest(postgres_target)
    postgres_target.execute(
        "CREATE DOMAIN email AS text; CREATE DOMAIN work AS email NOT NULL; CREATE TABLE t (k integer, v work)"
    )
    run = load_text(postgres_target, tmp_path / "in.csv", "1,a\n2,\n", check=1)
    assert_names_record(run.stderr, 2, "NULL")


DUCKDB_TYPES: dict[str, list[tuple[str, Any]]] = {
    "tinyint": [("-128", -128), (" 127 ", 127)],
    "utinyint": [("255", 255), ("0x10", 16)],
    "usmallint": [("65535", 65535)],
    "uinteger": [("4294967295", 2**32 - 1)],
    "ubigint": [("18446744073709551615", 2**64 - 1)],
    "hugeint": [(str(2**127 - 1), 2**127 - 1), (str(-(2**127)), -(2**127))],
    "uhugeint": [("340282366920938463463374607431768211455", 2**128 - 1)],
    "integer[][]": [("{{1,2},{3,NULL}}", [[1, 2], [3, None]]), ("{}", []), ("{{1}}", [[1]])],
    "varchar[][][]": [('{{{a},{b}},{{c},{"d e"}}}', [[["a"], ["b"]], [["c"], ["d e"]]])],
    "hugeint[]": [("{1,-1}", [1, -1])],
    "json[]": [('{"{\\"a\\":1}",null}', ['{"a":1}', None])],
    "enum('a', 'it''s')": [("it's", "it's")],
}  # fmt: skip


def test_types_of_duckdb(engine_target: Target, tmp_path: Path) -> None:
    if engine_target.engine != "duckdb":
        pytest.skip("types that only DuckDB has")
    create_table(engine_target, "t", DUCKDB_TYPES)
    data = csv_rows([[text for text, _ in cases] for cases in DUCKDB_TYPES.values()])
    load_text(engine_target, tmp_path / "in.csv", data, verify="checksum")
    for number, (type_text, cases) in enumerate(DUCKDB_TYPES.items()):
        stored = [value for (value,) in engine_target.rows(f"SELECT c{number} FROM t ORDER BY k")]
        assert stored[: len(cases)] == [value for _, value in cases], type_text
        assert set(map(type, stored[len(cases) :])) == {type(None)}, type_text


@pytest.mark.parametrize(
    ("type_text", "text"),
    [("utinyint", "-1"), ("hugeint", "1.5"), ("integer[][]", "{1,2}"), ("integer[]", "{{1}}"), ("json[]", "{nul}")],
)
def test_refused_by_types_of_duckdb(engine_target: Target, tmp_path: Path, type_text: str, text: str) -> None:
    if engine_target.engine != "duckdb":
        pytest.skip("types that only DuckDB has")
    engine_target.execute(f"CREATE TABLE t (k integer, v {type_text})")
    run = load_text(engine_target, tmp_path / "in.csv", f"1,\n2,{csv_field(text)}\n", check=1)
    assert_names_record(run.stderr, 2, text)


def test_many_windows(engine_target: Target, tmp_path: Path) -> None:
    """Enough records for many batches, with a checksum over all of them."""
    texts: dict[str, Callable[[int], str]] = {
        "time": lambda k: f"{k % 24:02}:00:{k % 60:02}",
        "interval": lambda k: f"{k} days {k % 7} hours",
        "integer[]": lambda k: "{" + ",".join(str(i) for i in range(k % 5)) + "}",
        "uuid": lambda k: str(uuid.UUID(int=k << 64 | k)),
        "bytea": lambda k: f"\\x{k:08x}",
        "timestamp_s": lambda k: f"2020-01-01 00:00:{k % 60:02}.7",
        "timestamp_ms": lambda k: f"2020-01-01 00:00:{k % 60:02}.7777",
    }
    if engine_target.engine == "postgresql":
        texts["timestamp(0)"] = texts.pop("timestamp_s")
        texts["timestamp(3)"] = texts.pop("timestamp_ms")
    create_table(engine_target, "t", texts)
    data = "".join(
        f"{k},"
        + ",".join("" if (k + i) % 10 == 9 else csv_field(text(k)) for i, text in enumerate(texts.values()))
        + "\n"
        for k in range(20_000)
    )
    load_text(engine_target, tmp_path / "in.csv", data, verify="checksum")
    counts = ", ".join(f"count(c{number})" for number in range(len(texts)))
    assert engine_target.rows(f"SELECT count(*), {counts} FROM t") == [(20_000, *[18_000] * len(texts))]


def test_values_that_cannot_be_counted(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """ANALYZE may take the bounds of a numrange for floats: its failure is no reason to refuse what COPY stores."""
    postgres_target.execute("CREATE TABLE t (v numrange)")
    run = load_text(postgres_target, tmp_path / "in.txt", "[1e400,2e400)\n[1,2)\n", format="text", header="no")
    assert postgres_target.count("t") == 2
    assert run.summary is not None
    said = "the server could not gather statistics of public.t: "
    has_note = any(note.startswith(said) for note in run.summary["notes"])
    try:
        postgres_target.execute("ANALYZE t")
    except psycopg.errors.NumericValueOutOfRange:
        assert has_note
    else:
        assert not has_note
        assert postgres_target.server.version < 16


@pytest.mark.parametrize("write_path", ["auto", "text"])
def test_nulls_in_arrays_are_nulls(postgres_target: PostgresTarget, tmp_path: Path, write_path: str) -> None:
    """Whatever `array_nulls` of the role says, for all write paths alike."""
    postgres_target.execute("CREATE TABLE t (a text[])")
    options = {"PGOPTIONS": "-c array_nulls=off"}
    load_text(postgres_target, tmp_path / "in.csv", '"{NULL,a}"\n', write_path=write_path, env=options)
    assert postgres_target.rows("SELECT a FROM t") == [([None, "a"],)]
