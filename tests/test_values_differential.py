"""What the codec makes of a field's text, compared with the server's own input functions, field by field.

The codec answers through `crates/codec/examples/value_probe.rs`, the server through its input and send
functions with the column's typmod. For every field the codec gives the server's bytes, or the server's
SQLSTATE, or says that it is unsure. Unsure is never wrong, but costs a round trip: the common spellings must
not be.

Normal run: thousands of fields per type. `TIPPLE_LONG=1`: a million over all types, for every server.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from value_cases import MOODS, OIDS, Case, cases
from value_fields import disturb, local_day, local_moment

ROOT = Path(__file__).resolve().parent.parent
LONG = bool(os.environ.get("TIPPLE_LONG"))
SESSIONS = (
    {"DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "TimeZone": "Asia/Kathmandu"},
    {"DateStyle": "SQL, DMY", "IntervalStyle": "iso_8601", "TimeZone": "America/New_York"},
    {"DateStyle": "German, YMD", "IntervalStyle": "postgres_verbose", "TimeZone": "Africa/Monrovia"},
)
"""The codec reads dates without knowing the session's styles, so the server is asked under several."""

UNSURE = "?"

CASES = list(cases())
FIELDS_PER_CASE = 1_000_000 // len(CASES) if LONG else 3_000


# ---- the two sides -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def probe() -> Path:
    """The program that answers for the codec."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("no cargo, so no value_probe: install Rust (https://rustup.rs)")
    command = [
        cargo,
        "build",
        "--package",
        "tipple-codec",
        "--example",
        "value_probe",
        "--message-format",
        "json",
    ]
    build = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for message in map(json.loads, build.stdout.splitlines()):
        if message.get("executable") and message["target"]["name"] == "value_probe":
            return Path(message["executable"])
    raise AssertionError("cargo built no value_probe")


def codec_answers(probe: Path, case: Case, version: int, fields: Sequence[str]) -> list[str]:
    return probe_answers(probe, case.question, version, fields)


def probe_answers(probe: Path, question: str, version: int, fields: Sequence[str]) -> list[str]:
    questions = "".join(f"{question}\t{version}\t{field.encode().hex()}\n" for field in fields)
    run = subprocess.run([probe], input=questions, stdout=subprocess.PIPE, text=True, check=True)
    answers = run.stdout.splitlines()
    assert len(answers) == len(fields)
    return answers


INPUT_CALLS = {
    "bool": ("boolsend", "boolin({})"),
    "int2": ("int2send", "int2in({})"),
    "int4": ("int4send", "int4in({})"),
    "int8": ("int8send", "int8in({})"),
    "float4": ("float4send", "float4in({})"),
    "float8": ("float8send", "float8in({})"),
    "numeric": ("numeric_send", "numeric_in({}, 0, typmod)"),
    "varchar": ("varcharsend", "varcharin({}, 0, typmod)"),
    "bpchar": ("bpcharsend", "bpcharin({}, 0, typmod)"),
    "date": ("date_send", "date_in({})"),
    "timestamp": ("timestamp_send", "timestamp_in({}, 0, typmod)"),
    "timestamptz": ("timestamptz_send", "timestamptz_in({}, 0, typmod)"),
    "time": ("time_send", "time_in({}, 0, typmod)"),
    "timetz": ("timetz_send", "timetz_in({}, 0, typmod)"),
    "interval": ("interval_send", "interval_in({}, 0, typmod)"),
    "uuid": ("uuid_send", "uuid_in({})"),
    "bytea": ("byteasend", "byteain({})"),
    "inet": ("inet_send", "inet_in({})"),
    "cidr": ("cidr_send", "cidr_in({})"),
    "json": ("json_send", "json_in({})"),
    "mood": ("enum_send", "{}::pg_temp.mood"),
    **{name + "[]": ("array_send", "{}::" + name + "[]") for name in OIDS},
}
"""The server's functions per type. Not a cast: `::varchar(3)` cuts silently, and `::numeric(15,2)` reads
without the typmod first."""


class Server:
    """Answers for the server."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], version: int) -> None:
        self.connection = connection
        self.version = version
        labels = sql.SQL(", ").join(map(sql.Literal, MOODS))
        connection.execute(sql.SQL("CREATE TYPE pg_temp.mood AS ENUM ({})").format(labels))
        for name, (send, read) in INPUT_CALLS.items():
            # A cast of text to a type without a length calls the input function too.
            call = f"{send}({read.format('field' if '::' in read else 'field::cstring')})"
            connection.execute(
                sql.SQL(
                    "CREATE FUNCTION pg_temp.{name}(field text, typmod int) RETURNS text "
                    "LANGUAGE plpgsql AS $$ BEGIN RETURN encode({call}, 'hex'); "
                    "EXCEPTION WHEN OTHERS THEN RETURN '!' || SQLSTATE; END $$"
                ).format(name=sql.Identifier(f"answer {name}"), call=sql.SQL(call))
            )

    def answers(self, case: Case, fields: Sequence[str], session: Mapping[str, str]) -> list[str]:
        for name, value in ({**session} | {"TimeZone": "UTC"} if case.utc else session).items():
            self.connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        query = sql.SQL(
            "SELECT pg_temp.{}(field, %s) FROM unnest(%s::text[]) WITH ORDINALITY AS f(field, place) ORDER BY place"
        ).format(sql.Identifier(f"answer {case.base}"))
        return [answer for (answer,) in self.connection.execute(query, (case.atttypmod, list(fields)))]


@pytest.fixture(scope="module")
def server(postgres_server: Any) -> Iterator[Server]:
    """The server's side, in every version."""
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        yield Server(connection, postgres_server.version)


# ---- the comparison ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case.label for case in CASES])
def test_codec_answers_as_the_server_does(
    case: Case, probe: Path, server: Server, record_property: Callable[[str, object], None]
) -> None:
    rng = random.Random(f"{case.label} {server.version}")
    common = [case.common(rng) for _ in range(FIELDS_PER_CASE // 3)]
    wild = [disturb(rng, case.wild(rng)) for _ in range(FIELDS_PER_CASE - len(common))]
    picked = [space + field for field in case.hand_picked for space in ("", " ")]
    fields = common + picked + wild

    ours = codec_answers(probe, case, server.version, fields)
    assert UNSURE not in ours[: len(common)], f"common spellings are unsure: {common[ours.index(UNSURE)]!r}"
    unsure = ours[-len(wild) :].count(UNSURE)
    record_property("unsure", f"{unsure} of {len(wild)} wild fields")
    assert unsure < len(wild) * case.most_unsure

    for session in SESSIONS if case.is_dated else SESSIONS[:1]:
        for start in range(0, len(fields), 50_000):
            part = slice(start, start + 50_000)
            theirs = server.answers(case, fields[part], session)
            wrong = [
                (field[:80], f"codec {our[:80]}", f"server {their[:80]}")
                for field, our, their in zip(fields[part], ours[part], theirs, strict=True)
                if our not in (their, UNSURE) and not is_nan_in_an_integer(case, our, their)
            ]
            assert not wrong, f"{len(wrong)} of {len(fields)} under {session}: {wrong[:20]}"


@pytest.mark.parametrize("order", ["dmy", "mdy", "ymd"])
@pytest.mark.parametrize("label", ["date", "timestamp", "timestamptz in UTC"])
def test_dates_in_an_order_are_those_of_a_session_with_it(label: str, order: str, probe: Path, server: Server) -> None:
    """What the user says of a file means what `DateStyle` would make of it."""
    case = next(case for case in CASES if case.label == label)
    rng = random.Random(f"{label} {order} {server.version}")
    texts = [local_day, local_moment] if label != "date" else [local_day]
    fields = [rng.choice(texts)(rng) for _ in range(FIELDS_PER_CASE)]
    fields += [disturb(rng, local_moment(rng)) for _ in range(FIELDS_PER_CASE)]
    ours = probe_answers(probe, f"{order}|{case.question}", server.version, fields)
    sure = [our for our in ours[:FIELDS_PER_CASE] if our != UNSURE and not our.startswith("!")]
    assert len(sure) > FIELDS_PER_CASE // 10
    for style in ("ISO", "SQL", "Postgres", "German"):
        theirs = server.answers(case, fields, {"DateStyle": f"{style}, {order.upper()}", "TimeZone": "UTC"})
        wrong = [
            (field[:80], f"codec {our}", f"server {their}")
            for field, our, their in zip(fields, ours, theirs, strict=True)
            if our not in (their, UNSURE)
        ]
        assert not wrong, f"{len(wrong)} of {len(fields)} under {style}, {order}: {wrong[:20]}"


SURE = {
    "int4": ("+5", " 5 ", "005", "0x1f", "1_000"),
    "float8": ("1e5", "-1.5E-3", ".5", "NaN", "inf", "-Infinity", " 1 ", "0.30000000000000004", "1e400"),
    "numeric(15,2)": (
        "1e5",
        "-1.5E-3",
        ".5",
        "5.",
        "+1",
        " 1 ",
        "NaN",
        "0.125",
        "123456789012345678901234567890",
    ),
    "date": (
        "20010203",
        "2001-2-3",
        " 2001-02-03 ",
        "2001-02-03 BC",
        "2001-02-03 00:00:00",
        "2001-02-30",
        "2001/02/03",
        "2001.2.3",
        "epoch",
    ),
    "timestamp": (
        "2001-02-03",
        "2001-02-03 04:05",
        "2001-02-03 4:05 PM",
        "2001-02-03T04:05:06Z",
        "2001-02-03 04:05:06.123456789+02:00",
    ),
}
"""Spellings in daily use besides the most common ones: being unsure would cost a round trip for each."""


@pytest.mark.parametrize("case", [case for case in CASES if case.label in SURE], ids=lambda case: case.label)
def test_codec_is_sure_of_spellings_in_daily_use(case: Case, probe: Path) -> None:
    fields = SURE[case.label]
    answers = dict(zip(fields, codec_answers(probe, case, 18, fields), strict=True))
    assert UNSURE not in answers.values(), answers


def is_nan_in_an_integer(case: Case, our: str, their: str) -> bool:
    """A scaled integer has no NaN, which the server's column has: the one documented difference."""
    return case.name.startswith("scaled") and our == "!22003" and their == "00000000c0000000"
