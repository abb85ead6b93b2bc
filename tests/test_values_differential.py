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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

ROOT = Path(__file__).resolve().parent.parent
LONG = bool(os.environ.get("TIPPLE_LONG"))
DATE_STYLES = ("ISO, MDY", "SQL, DMY", "German, YMD")
"""The codec reads dates without knowing the session's style, so the server is asked under several."""

UNSURE = "?"
Generator = Callable[[random.Random], str]


# ---- fields --------------------------------------------------------------------------------------------


def digits(rng: random.Random, most: int) -> str:
    """Digits, more often few than many; sometimes all zeros or nines, where the carries are."""
    count = min(rng.randint(0, most), rng.randint(0, most))
    kind = rng.random()
    if kind < 0.1:
        return rng.choice("09") * count
    return "".join(rng.choice("0123456789") for _ in range(count))


def integer(rng: random.Random) -> str:
    bits = rng.choice((15, 31, 63))
    edge = rng.choice((0, 1 << bits, -(1 << bits), 1 << rng.randint(0, 66)))
    number = rng.choice((edge + rng.randint(-3, 3), rng.randint(-(1 << bits), 1 << bits)))
    kind = rng.random()
    if kind < 0.7:
        return str(number)
    if kind < 0.8:
        return f"{number:_}"
    sign = rng.choice(("", "-", "+"))
    return sign + format(abs(number), rng.choice(("#x", "#o", "#b", "#X", "#_x", "020d")))


def plain_integer(bits: int) -> Generator:
    return lambda rng: str(rng.randint(-(1 << bits), 1 << bits))


def decimal(rng: random.Random) -> str:
    text = rng.choice(("", "", "", "-", "-", "+")) + digits(rng, rng.choice((3, 8, 20, 45)))
    if rng.random() < 0.7:
        text += "." + digits(rng, rng.choice((2, 2, 6, 30)))
    if rng.random() < 0.2:
        text += (
            rng.choice("eE") + rng.choice(("", "-", "+")) + str(rng.choice((rng.randint(0, 12), rng.randint(0, 400))))
        )
    return text


def price(rng: random.Random) -> str:
    """As TPC-H writes them: what a load consists of."""
    return rng.choice((f"{rng.randint(0, 10 ** rng.randint(1, 11)) / 100:.2f}", f"-{rng.randint(0, 99999)}.00"))


def floating(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.4:
        return decimal(rng)
    value = random.Random(rng.random()).uniform(-1, 1) * 10.0 ** rng.randint(-330, 308)
    return rng.choice((repr(value), f"{value:.{rng.randint(0, 25)}e}", f"{value:.9g}", f"{value:g}"))


def word(*words: str) -> Generator:
    return lambda rng: rng.choice(words)


def day(rng: random.Random) -> str:
    year = rng.choice(
        (rng.randint(1900, 2100), rng.randint(0, 9999), rng.randint(0, 300_000), rng.randint(0, 6_000_000))
    )
    month, number = rng.randint(0, 13), rng.choice((rng.randint(1, 28), rng.randint(0, 33)))
    kind = rng.random()
    if kind < 0.8:
        return f"{year:04}-{month:02}-{number:02}"
    return rng.choice(
        (f"{year:04}{month:02}{number:02}", f"{year:04}-{month}-{number}", f"{year}-{month:02}-{number:02}")
    )


def clock(rng: random.Random) -> str:
    hour = rng.choice((rng.randint(0, 23), rng.randint(0, 25)))
    minute, second = (rng.choice((rng.randint(0, 59), rng.randint(58, 61))) for _ in range(2))
    text = rng.choice(
        (f"{hour:02}:{minute:02}:{second:02}",) * 4 + (f"{hour}:{minute}:{second}", f"{hour:02}:{minute:02}")
    )
    if rng.random() < 0.5:
        text += "." + rng.choice((digits(rng, 6), digits(rng, 12), "9" * rng.randint(0, 9), "0" * 6 + digits(rng, 3)))
    return text


def moment(rng: random.Random) -> str:
    text = day(rng)
    if rng.random() < 0.9:
        text += rng.choice((" ", " ", " ", "T", "t", "  ")) + clock(rng)
        if rng.random() < 0.2:
            text += rng.choice(("", " ")) + rng.choice(
                ("Z", "z", "+00", "-05", "+0530", "+05:30", "-12:59", "+14", "+16")
            )
    if rng.random() < 0.1:
        text += rng.choice(("", " ", "  ")) + rng.choice(("BC", "bc", "AD", "Bc"))
    return text


def iso_day(rng: random.Random) -> str:
    return f"{rng.randint(1, 9999):04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def iso_moment(rng: random.Random) -> str:
    time = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
    fraction = rng.choice(("", "", f".{rng.randint(0, 999_999):06}", f".{rng.randint(0, 999):03}"))
    return iso_day(rng) + rng.choice(" T") + time + fraction


def prose(rng: random.Random) -> str:
    letters = "".join(rng.choice("ab é€𝄞\t\u00a0") for _ in range(rng.randint(0, 14)))
    return letters + " " * rng.choice((0, 0, rng.randint(1, 12)))


SPACES = ("", " ", "\t", "\n", "\r", "\v", "\f", "  ")
ALPHABET = "0123456789+-.eE_xXoObB:/ tTfFnNaAiI\t\u00a0é１,Z"


def disturb(rng: random.Random, text: str) -> str:
    """The text as it is, with white space around, or with a character put in, taken out or replaced."""
    kind = rng.random()
    if kind < 0.55:
        return text
    if kind < 0.7:
        return rng.choice(SPACES) + text + rng.choice(SPACES)
    place = rng.randint(0, len(text))
    skipped = rng.choice((0, 1, 1))
    inserted: str = rng.choice(["", *ALPHABET])
    return text[:place] + inserted + text[place + skipped :]


# ---- types ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A type with a typmod, and which fields to try."""

    name: str
    typmod: tuple[int, ...]
    common: Generator
    """Spellings that the codec must be sure about."""
    wild: Generator
    """Everything that may have a meaning; disturbed on top."""
    hand_picked: Sequence[str]

    @property
    def label(self) -> str:
        return self.name + ("(" + ",".join(map(str, self.typmod)) + ")" if self.typmod else "")

    @property
    def base(self) -> str:
        """The server's type."""
        return "numeric" if self.name.startswith("scaled") else self.name

    @property
    def is_dated(self) -> bool:
        """Whether the server reads the type by the session's DateStyle."""
        return self.base in ("date", "timestamp")

    @property
    def atttypmod(self) -> int:
        """The typmod as `pg_attribute` has it."""
        match self.base, self.typmod:
            case _, ():
                return -1
            case "numeric", (precision, scale):
                return (precision << 16 | scale & 0x7FF) + 4
            case (("varchar" | "bpchar"), (limit,)):
                return limit + 4
            case _, (precision,):
                return precision
        raise ValueError(self.label)


def picked(spaced: str, *others: str) -> list[str]:
    """The words of `spaced`, and fields that are empty, long or have white space in them."""
    return [*spaced.split(), *others]


BOOLEANS = picked(
    """
    t f T F true false TRUE False tr tru fa fal fals y n yes no ye Y N on off ON OFF of o O 1 0 2 01 10
    truee onn offf yess t1 + -1 null é
    """,
    "", " ", " t ", "\ttrue\n", "t rue",
)  # fmt: skip

INTEGERS = picked(
    """
    0 -0 +0 1 -1 +1 007 32767 32768 -32768 -32769 2147483647 2147483648 -2147483648 -2147483649
    9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 99999999999999999999
    32769x 32768x 99999x 2147483648x 2147483649x 9223372036854775808x 9223372036854775809x
    99999999999999999999x 0x 0x1f 0X1F -0x1f +0x1F 0x_1 0x1_ 0x1__0 0b 0b1 0b102 0o17 0o8 0x7fff 0x8000
    -0x8000 0x80000000 -0x80000000 0x7fffffffffffffff 0x8000000000000000 -0x8000000000000000
    0xffffffffffffffffff 0xffffffffffffffffffg 1_000 _1 1_ 1__0 -_1 00x1 1e3 1.0 1. .1 -- - + +-1 1- x 1x x1
    1,000 ١ ０ 0000000000000000000000000001
    """,
    "", " ", " 1 ", "\t\n\x0b\x0c\r1\r", "1 2", "- 1", "1\xa0", "\xa01", "1 x",
)  # fmt: skip

SPECIAL_NUMBERS = picked(
    """
    NaN nan NAN -NaN +NaN nan(1) nanx inf Inf INF -inf +inf infi infinit infinity Infinity -Infinity
    +INFINITY infinityx -infin . -. +. .e5 e5 1e 1e+ 1e- 1e5 1E+5 1e-5 1.e5 .5e5 1e5.5 1e5x 1e1000000
    1e-1000000 0e1000000 0e-1000000 1e1073741822 1e1073741823 1e1073741824 0e1073741823 0e-1073741823
    0e1073741824 1e2147483648 1e99999999999999999999 1e99999999999999999999x 1e1_0 1_0e1 1_0.5 1._5 1_.5
    1.5_5 _1 0x1f 0x1p3 0b1 0o7 1e1_ 1.2.3 1..2 5. .5 -.5 +.5 -0 -0.0 -0.00 00 000.000 00017.500 1e0x1
    """,
    "", " ", " NaN ", "NaN 1", " -inf ", "1e 5", "1e+ 5", "1 e5", "- 1", "1\xa0", "nan (1)",
    "inf x",
)  # fmt: skip

NUMERICS = picked(
    """
    1e131071 1e131072 1e-16383 1e-16384 0e-16384 0e-16383 1e308 1e-400 9999999999999.99 9999999999999.994
    9999999999999.995 -9999999999999.995 10000000000000 0.005 -0.005 0.004999999999999999999 0.0050 99.5 9.5
    0.99995 9999.99995 99999999.999999995 999999999999999999 9999999999999999 1000000000000000000 0.0001
    0.00099999 0.00000001 123456789.123456789 12345678901234567890123456789012345678 50 49 150 149 4999 5000
    """,
    *SPECIAL_NUMBERS,
    "9" * 38,
    "9" * 39,
    "1" + "0" * 38,
    "0" * 50 + "1",
    "0." + "0" * 50 + "1",
    "9" * 1000,
    "9" * 1001,
    "9" * 131072,
    "1" + "0" * 131072,
    "1." + "1" * 16383,
    "1." + "1" * 16384,
)  # fmt: skip

FLOATS = picked(
    """
    3.4028235e38 3.4028236e38 3.5e38 -3.5e38 1e-45 7e-46 1e-46 1.4e-45 1.17549435e-38 16777217 33554435
    1.7976931348623157e308 1.7976931348623159e308 1e309 -1e309 5e-324 2.4703282292062328e-324
    2.4703282292062327e-324 1e-400 -1e-400 0e400 1e400x 1e-400x 2.2250738585072011e-308 9007199254740993
    9007199254740992.5 0.1 0.2 0.3 0.30000000000000004 123456789012345678 1.00000017881393432617187499
    1.000000059604644775390625 1.00000005960464477539062500000001 -0x1p3 0X 1f 1d 1e5f
    """,
    *SPECIAL_NUMBERS,
    "0." + "0" * 400 + "1",
    "1" + "0" * 400,
    "1" * 800,
)  # fmt: skip

DAYS = picked(
    """
    2000-01-01 1970-01-01 1999-12-31 2000-02-29 1900-02-29 2001-02-29 2001-02-30 2001-04-31 2001-13-01
    2001-00-01 2001-01-00 2001-01-32 2001-99-99 0000-01-01 0001-01-01 9999-12-31 10000-01-01 99999-01-01
    5874897-12-31 5874898-01-01 294276-12-31 294277-01-01 999999999-01-01 2147483648-01-01
    99999999999999-01-01 2001-1-2 2001-1-02 20010203 20011301 20010230 00000101 00010101 010203 200102030
    2001-02 2001 2001-001 2001-033 2001-02-003 01/02/2003 1/2/3 01-02-03 99-01-01 999-01-01 0999-01-01
    2001/02/03 2001.02.03 2001-Feb-03 Feb-03-2001 epoch EPOCH infinity -infinity +infinity Infinity INFINITY
    inf -inf now today tomorrow yesterday allballs J2451545 2001-02-03x x - -- 2001-02-03- -2001-02-03
    +2001-02-03 2001-02-03BC 2001-02-03bc 2001-02-03AD 2001-02-03Z 2001-02-03+02 2001-02-03T 4714-11-24BC
    4714-11-23BC 4713-01-01BC 0000-01-01BC 0001-02-29BC 0005-02-29BC ２００１-01-01
    """,
    "", " ", " 2001-02-03 ", "\t2001-02-03\n", "2001-02-03 BC", "2001-02-03  bc ", "4714-11-24 BC",
    "4714-11-23 BC", "0000-01-01 BC", "4714-11-24 00:00:00 BC", "4714-11-23 23:59:59 BC",
    "- infinity", " infinity ", "infinity BC", "January 8, 1999", "8 Jan 1999", "2001 02 03",
    "2001-02-03 2001-02-04", "epoch x", "2001-02-03\xa0", "20010203 BC", "2001-02-03 A D",
    "2001-02-03 CE", "2001-02-03 B.C.",
    "0" * 60 + "2001-02-03",
    "2001-02-03" + " " * 90,
)  # fmt: skip

TIMES = picked(
    """
    00:00:00 24:00:00 24:00:00.000001 24:00:01 24:01:00 25:00:00 23:59:59.999999 23:59:59.9999994
    23:59:59.9999995 23:59:59.9999999 23:59:60 23:59:60.0 23:59:60.000001 12:30:60.5 12:60:00 12:30:61 1:2:3
    01:02 1:2 01:02.5 1:2:3. 01:02:03.5 01:02:03.0000005 01:02:03.0000015 01:02:03.0000025 01:02:03.1234565
    01:02:03Z 01:02:03z 01:02:03+02 01:02:03-0230 01:02:03+02:30 01:02:03+2 01:02:03+023 01:02:03+16
    01:02:03+15:59 01:02:03+14:60 01:02:03+02:30:15 01:02:03+02:3 01:02:03+02-03 01:02:03UTC 01:02:03BC
    01:02:03ZBC 01:02:03+02BC 01:02:03,5 01:02:03.4.5 01:02:03: 001:02:03 01:002:03 1:02:003 010203 0102 01
    T01:02:03
    """,
)  # fmt: skip

MOMENTS = picked(
    """
    01:02:03
    """,
    *DAYS,
    *(
        f"{date}{separator}{time}"
        for date in ("2000-01-01", "20000101", "1999-12-31", "0001-01-01", "294276-12-31", "2000-02-30")
        for separator in (" ", "T", "t", "  ", " T", "T ", ":", "\t", "")
        for time in TIMES
    ),
    "2000-01-01 01:02:03 +02", "2000-01-01 01:02:03 Z", "2000-01-01 01:02:03 z BC",
    "2000-01-01 01:02:03+02 BC", "2000-01-01 01:02:03 BC +02", "2000-01-01 BC 01:02:03",
    "2000-01-01 01:02:03 PM", "2000-01-01 01:02:03 AM", "2000-01-01 13:02:03 PM",
    "2000-01-01 01:02:03 Europe/Berlin", "2000-01-01 01:02:03 CET", "294277-01-01 00:00:00",
    "294276-12-31 23:59:59.5", "294276-12-31 23:59:59.4", "4714-11-24 00:00:00.4 BC",
    "4714-11-23 24:00:00 BC", "4714-11-23 23:59:59.9999999 BC",
    "2000-01-01 01:02:03.0000004999999999999999999999999", "2000-01-01 01:02:03 + 02",
    "2000-01-01 01:02:03- 02",
    "2000-01-01 01:02:03." + "1" * 40,
)  # fmt: skip

PROSE = picked(
    """
    abc abcd éèà éèàù
    """,
    "", " ", "abc ", "abc  ", "abc\t", "abc  x", "éèà  ", "𝄞𝄞𝄞   ", "€ € €", "\xa0\xa0\xa0\xa0",
)  # fmt: skip


NUMERIC_TYPMODS: Sequence[tuple[int, ...]] = (
    (), (15, 2), (18, 0), (38, 10), (5, 5), (3, -2), (3, 6), (1000, 100), (1, 0), (20, -20), (1000, -1000),
)  # fmt: skip


def cases() -> Iterator[Case]:
    flags = word(*BOOLEANS[:30])
    yield Case("bool", (), word("t", "f", "true", "false", "1", "0", "yes", "no"), flags, BOOLEANS)
    for name, bits in (("int2", 15), ("int4", 31), ("int8", 63)):
        yield Case(name, (), plain_integer(bits), integer, INTEGERS)
    for name in ("float4", "float8"):
        yield Case(name, (), lambda rng: repr(rng.uniform(-1e6, 1e6)), floating, FLOATS)
    for typmod in NUMERIC_TYPMODS:
        yield Case("numeric", typmod, price, decimal, NUMERICS)
    for typmod in ((15, 2), (18, 0), (18, 18), (1, 0), (9, 4)):
        yield Case("scaled18", typmod, price, decimal, NUMERICS)
    for typmod in ((38, 0), (38, 10), (38, 38), (19, 2), (25, 7)):
        yield Case("scaled38", typmod, price, decimal, NUMERICS)
    for limit in (1, 3, 10):
        yield Case("varchar", (limit,), prose, prose, PROSE)
        yield Case("bpchar", (limit,), prose, prose, PROSE)
    yield Case("date", (), iso_day, moment, MOMENTS)
    for precision in ((), (0,), (3,), (6,)):
        yield Case("timestamp", precision, iso_moment, moment, MOMENTS)


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
    typmod = ",".join(map(str, case.typmod))
    questions = "".join(f"{case.name}\t{typmod}\t{version}\t{field.encode().hex()}\n" for field in fields)
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
}
"""The server's functions per type. Not a cast: `::varchar(3)` cuts silently, and `::numeric(15,2)` reads
without the typmod first."""


class Server:
    """Answers for the server."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], version: int) -> None:
        self.connection = connection
        self.version = version
        for name, (send, read) in INPUT_CALLS.items():
            call = f"{send}({read.format('field::cstring')})"
            connection.execute(
                sql.SQL(
                    "CREATE FUNCTION pg_temp.answer_{name}(field text, typmod int) RETURNS text "
                    "LANGUAGE plpgsql AS $$ BEGIN RETURN encode({call}, 'hex'); "
                    "EXCEPTION WHEN OTHERS THEN RETURN '!' || SQLSTATE; END $$"
                ).format(name=sql.SQL(name), call=sql.SQL(call))
            )

    def answers(self, case: Case, fields: Sequence[str], date_style: str) -> list[str]:
        self.connection.execute("SELECT set_config('DateStyle', %s, false)", (date_style,))
        query = sql.SQL(
            "SELECT pg_temp.answer_{}(field, %s) FROM unnest(%s::text[]) "
            "WITH ORDINALITY AS f(field, place) ORDER BY place"
        ).format(sql.SQL(case.base))
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
    assert unsure < len(wild) * (0.5 if case.is_dated else 0.05)

    for date_style in DATE_STYLES if case.is_dated else DATE_STYLES[:1]:
        for start in range(0, len(fields), 50_000):
            part = slice(start, start + 50_000)
            theirs = server.answers(case, fields[part], date_style)
            wrong = [
                (field[:80], f"codec {our[:80]}", f"server {their[:80]}")
                for field, our, their in zip(fields[part], ours[part], theirs, strict=True)
                if our not in (their, UNSURE) and not is_nan_in_an_integer(case, our, their)
            ]
            assert not wrong, f"{len(wrong)} of {len(fields)} under DateStyle {date_style}: {wrong[:20]}"


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
        "epoch",
    ),
    "timestamp": (
        "2001-02-03",
        "2001-02-03 04:05",
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
