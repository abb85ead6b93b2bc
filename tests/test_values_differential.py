"""What the codec makes of a field's text, compared with the server's own input functions, field by field.

The codec answers through `crates/codec/examples/value_probe.rs`, the server through its input and send
functions with the column's typmod. For every field the codec gives the server's bytes, or the server's
SQLSTATE, or says that it is unsure. Unsure is never wrong, but costs a round trip: the common spellings must
not be.

Normal run: thousands of fields per type. `TIPPLE_LONG=1`: a million over all types, for every server.
"""

from __future__ import annotations

import ipaddress
import json
import os
import random
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

ROOT = Path(__file__).resolve().parent.parent
LONG = bool(os.environ.get("TIPPLE_LONG"))
SESSIONS = (
    {"DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "TimeZone": "Asia/Kathmandu"},
    {"DateStyle": "SQL, DMY", "IntervalStyle": "iso_8601", "TimeZone": "America/New_York"},
    {"DateStyle": "German, YMD", "IntervalStyle": "postgres_verbose", "TimeZone": "Africa/Monrovia"},
)
"""The codec reads dates without knowing the session's styles, so the server is asked under several."""

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


def time_of_day(rng: random.Random) -> str:
    text = clock(rng)
    if rng.random() < 0.4:
        text += rng.choice(("", " ")) + zone(rng)
    return rng.choice(
        (text, text, text, text, "T" + text, text + rng.choice((" AM", " PM", "pm")), text.replace(":", ""))
    )


def zone(rng: random.Random) -> str:
    hours, minutes, seconds = rng.randint(0, 16), rng.choice((0, 30, 45, 59, 60)), rng.randint(0, 60)
    sign = rng.choice("+-")
    return rng.choice(
        ("Z", "z", "UTC", "utc", f"{sign}{hours:02}", f"{sign}{hours:02}{minutes:02}", f"{sign}{hours:02}:{minutes:02}",
         f"{sign}{hours:02}:{minutes:02}:{seconds:02}", f"{sign}{hours}", "CET", "Europe/Berlin", "GMT+2", "UTC+1", "PST")
    )  # fmt: skip


def zoned_moment(rng: random.Random) -> str:
    text = day(rng) + rng.choice((" ", "T", "  ")) + clock(rng) + rng.choice(("", " ")) + zone(rng)
    return text + rng.choice(("", "", "", " BC", "BC", " AD"))


def iso_zoned_moment(rng: random.Random) -> str:
    hours = rng.randint(0, 14)
    return iso_moment(rng) + rng.choice(("Z", "+00", f"+{hours:02}", f"-{hours:02}:30", f"+{hours:02}45", " UTC"))


def iso_time(rng: random.Random) -> str:
    return iso_moment(rng)[11:]


UNITS = ("year", "years", "y", "yr", "mon", "mons", "month", "months", "week", "weeks", "w", "day", "days", "d", "hour",
         "hours", "h", "hr", "min", "mins", "minute", "minutes", "sec", "secs", "second", "seconds", "s", "m", "decade",
         "century", "ms", "us", "usec", "DAY", "Hours", "fortnight", "yrs", "hrs")  # fmt: skip


def quantity(rng: random.Random) -> str:
    number = rng.choice((rng.randint(0, 70), rng.randint(0, 10 ** rng.randint(0, 11))))
    fraction = rng.choice(("", "", "", f".{digits(rng, 8)}"))
    return rng.choice(("", "", "", "-", "+", "- ")) + str(number) + fraction


def span(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.25:
        date = "".join(quantity(rng) + unit for unit in "YMWD" if rng.random() < 0.4)
        time = "".join(quantity(rng) + unit for unit in "HMS" if rng.random() < 0.4)
        return "P" + date + ("T" + time if time or rng.random() < 0.05 else "")
    parts = [quantity(rng) + rng.choice((" ", " ", "")) + rng.choice(UNITS) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    if rng.random() < 0.5:
        parts.append(rng.choice(("", "", "-", "+")) + clock(rng))
    if rng.random() < 0.05:
        parts.append(f"{rng.randint(-20, 20)}-{rng.randint(0, 12)}")
    text = rng.choice(("", "", "", "@ ")) + " ".join(parts)
    return text + rng.choice(("", "", "", "", " ago"))


def plain_span(rng: random.Random) -> str:
    time = iso_time(rng)
    days, months = rng.randint(0, 60), rng.randint(0, 11)
    return rng.choice(
        (f"{days} days", f"{months} mons {days} days {time}", f"1 year {months} mons -{days} days -{time}", time,
         f"P{months}M{days}DT{days}H{months}M{days}.5S", f"@ {days} hours {months} mins ago")
    )  # fmt: skip


def uuid_text(rng: random.Random) -> str:
    whole = f"{rng.getrandbits(128):032x}"
    kind = rng.random()
    if kind < 0.5:
        text = f"{whole[:8]}-{whole[8:12]}-{whole[12:16]}-{whole[16:20]}-{whole[20:]}"
    else:
        text = "".join(whole[i : i + 4] + rng.choice(("", "", "-")) for i in range(0, 32, 4)).rstrip("-")
    return rng.choice((text, text, text.upper(), "{" + text + "}", "{" + text, text[:-1], text + "-"))


def plain_uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128)))


def octets(rng: random.Random) -> str:
    data = rng.randbytes(rng.randint(0, 12))
    kind = rng.random()
    if kind < 0.5:
        return (
            "\\x" + data.hex(rng.choice(" \n\t:"))
            if kind < 0.1
            else "\\x" + rng.choice((data.hex(), data.hex().upper()))
        )
    return "".join(rng.choice((chr(b % 127 + 1), f"\\{b:03o}", "\\\\", f"\\{b:o}", "a")) for b in data)


def hex_octets(rng: random.Random) -> str:
    return "\\x" + rng.randbytes(rng.randint(0, 40)).hex()


def network(rng: random.Random) -> str:
    if rng.random() < 0.5:
        text = ".".join(
            str(rng.choice((0, 0, 1, 10, 255, 256, rng.randint(0, 255))))
            for _ in range(rng.choice((4, 4, 4, 1, 2, 3, 5)))
        )
        most = 33
    else:
        groups = [
            rng.choice(("0", "0", "ffff", f"{rng.getrandbits(16):x}", f"{rng.getrandbits(16):04X}")) for _ in range(8)
        ]
        text = ":".join(groups[: rng.choice((8, 8, 7, 9))])
        if rng.random() < 0.6:
            start = rng.randint(0, 7)
            text = ":".join(groups[:start]) + "::" + ":".join(groups[rng.randint(start, 8) :])
        if rng.random() < 0.15:
            text = rng.choice(("::", "::ffff:", "1:2:3:4:5:6:")) + "1.2.3.4"
        most = 129
    return text + rng.choice(("", "", f"/{rng.randint(0, most)}", f"/{rng.randint(0, most)}", "/08", "/"))


def host(rng: random.Random) -> str:
    if rng.random() < 0.7:
        return str(ipaddress.IPv4Address(rng.getrandbits(32))) + rng.choice(("", f"/{rng.randint(0, 32)}"))
    return str(ipaddress.IPv6Address(rng.getrandbits(128))) + rng.choice(("", f"/{rng.randint(0, 128)}"))


def subnet(rng: random.Random) -> str:
    bits = rng.randint(0, 32)
    return str(ipaddress.IPv4Network((rng.getrandbits(32) >> (32 - bits) << (32 - bits), bits)))


def json_text(rng: random.Random) -> str:
    return plain_json(rng) if rng.random() < 0.4 else json_value(rng, 3)


def json_value(rng: random.Random, depth: int) -> str:
    space = rng.choice(("", "", "", " ", "\n", "\t"))
    if depth and rng.random() < 0.5:
        items = [json_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
        if rng.random() < 0.5:
            return "[" + space + ("," + space).join(items) + "]"
        return "{" + ",".join(rng.choice(('"k"', '""', "k")) + space + ":" + item for item in items) + space + "}"
    return space + rng.choice(
        ("null", "true", "false", "nul", "1", "-0", "01", "1.5e3", "1.", ".5", "1e+", "-", "NaN", '"a"', '"\\u00e9"', '"\\ud800"',
         '"\\u12"', '"\\x"', '"\\\\"', '"a', '"é\\n"', '"\t"', "'a'", '"\\u0000"')
    ) + space  # fmt: skip


def plain_json(rng: random.Random) -> str:
    values = [rng.randint(-5, 5), rng.random(), None, True, "é\n", [1, {"a": "b"}], {}]
    return json.dumps({"k": rng.choice(values), "l": rng.sample(values, 3)}, ensure_ascii=rng.random() < 0.5)


def array_of(element: Generator) -> Generator:
    """Arrays as people and machines write them, and as nobody should."""

    def quoted(rng: random.Random) -> str:
        text = element(rng)
        kind = rng.random()
        if kind < 0.1:
            return rng.choice(("NULL", "null", "nUll", '"NULL"', "", '""', "{}", "nul\\l"))
        if kind < 0.4:
            return rng.choice((text, text, f" {text} ", f"{text}\t"))
        spelled = "".join("\\" + c if c in '"\\' or rng.random() < 0.05 else c for c in text)
        return f'"{spelled}"' if kind < 0.95 else f'"{spelled}"x'

    def nested(rng: random.Random, depth: int, lengths: Sequence[int]) -> str:
        length = lengths[depth] if rng.random() < 0.98 else rng.randint(0, 3)
        deeper = depth + 1 < len(lengths) and rng.random() < 0.99
        items = [nested(rng, depth + 1, lengths) if deeper else quoted(rng) for _ in range(length)]
        return "{" + rng.choice((",", ",", ",", " , ")).join(items) + "}"

    def array(rng: random.Random) -> str:
        lengths = [rng.randint(1, 3) for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 7)))]
        text = nested(rng, 0, lengths) if rng.random() < 0.95 else "{}"
        return rng.choice(("", "", "", "", "", "", "", f"[1:{lengths[0]}]=", "[0:1]=", " ")) + text

    return array


def plain_array_of(element: Generator) -> Generator:
    def array(rng: random.Random) -> str:
        items = [element(rng).replace("\\", "\\\\").replace('"', '\\"') for _ in range(rng.randint(0, 5))]
        return "{" + ",".join(rng.choice((f'"{item}"', "NULL")) for item in items) + "}"

    return array


SPACES = ("", " ", "\t", "\n", "\r", "\v", "\f", "  ")
ALPHABET = '0123456789+-.eE_xXoObB:/ tTfFnNaAiI\t\u00a0é１,Z{}"\\'


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
    most_unsure: float = 0.05
    """The most of the wild fields, as a share, that may need the server."""
    utc: bool = False
    """Whether the session's time zone is UTC, and the codec knows it."""

    @property
    def label(self) -> str:
        name = self.name + ("(" + ",".join(map(str, self.typmod)) + ")" if self.typmod else "")
        return name + (" in UTC" if self.utc else "")

    @property
    def base(self) -> str:
        """The server's type."""
        return "numeric" if self.name.startswith("scaled") else self.name

    @property
    def question(self) -> str:
        """The type as the probe takes it."""
        if self.name.startswith("scaled"):
            return self.name + ":" + ",".join(map(str, self.typmod))
        return "check" if self.name == "json" else json.dumps(self.codec_type)

    @property
    def codec_type(self) -> Any:
        """The type as a plan has it."""
        precision = self.typmod[0] if self.typmod else 6
        match self.name, self.typmod:
            case "numeric", ():
                return "decimal"
            case "numeric", (digits, scale):
                return {"numeric": {"precision": digits, "scale": scale}}
            case "varchar", (limit,):
                return {"varchar": {"limit": limit}}
            case "bpchar", (limit,):
                return {"char": {"limit": limit}}
            case "timestamptz", _:
                return {"timestamptz": {"precision": precision, "utc": self.utc}}
            case ("timestamp" | "time" | "timetz" | "interval") as name, _:
                return {name: {"precision": precision}}
            case "mood", _:
                return {"enum": {"labels": sorted(MOODS)}}
        if self.name.endswith("[]"):
            element = Case(self.name[:-2], (), self.common, self.wild, ())
            return {"array": {"element": element.codec_type, "element_oid": OIDS[element.name]}}
        return self.name

    @property
    def is_dated(self) -> bool:
        """Whether the server reads the type by the session's settings."""
        return self.base.removesuffix("[]") in ("date", "timestamp", "timestamptz", "time", "timetz", "interval")

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
            case "interval", (precision,):
                return 0x7FFF << 16 | precision
            case _, (precision,):
                return precision
        raise ValueError(self.label)


MOODS = ("happy", "Sad", "so so", "ök", "NULL", "a,b")
OIDS = {"bool": 16, "bytea": 17, "int8": 20, "int2": 21, "int4": 23, "text": 25, "json": 114, "float4": 700,
        "float8": 701, "cidr": 650, "inet": 869, "date": 1082, "time": 1083, "timestamp": 1114, "timestamptz": 1184,
        "interval": 1186, "timetz": 1266, "numeric": 1700, "uuid": 2950}  # fmt: skip


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


ZONED = picked(
    "",
    *MOMENTS,
    *(
        f"{date} {time}{space}{zone}"
        for date in ("2000-01-01", "1999-12-31", "2024-03-31", "294276-12-31", "294277-01-01")
        for time in ("00:00:00", "02:30:00", "23:59:59.999999", "23:59:60", "24:00:00")
        for space in ("", " ")
        for zone in (
            "Z", "z", "UTC", "utc", "+00", "-00", "+02", "-0230", "+02:30", "+02:30:15", "-14:59:59", "+15", "-15:59:59",
            "+16", "+2", "+023", "+02:3", "+02:60", "+02:30:60", "GMT", "EST5EDT", "Europe/Berlin", "CEST", "UTC+2", "Z+1",
        )
    ),
    "4714-11-24 00:00:00+00 BC", "4714-11-24 00:00:00+01 BC", "4714-11-23 23:00:00-02 BC", "2001-02-03 +02",
    "2001-02-03+02", "2001-02-03 Z", "2001-02-03 UTC", "294277-01-01 00:30:00+01", "294276-12-31 23:30:00-01",
    "0001-01-01 00:30:00+01", "0001-01-01 00:30:00+01 BC", "9999-12-31 23:59:59-14", "infinity Z", "infinity+02",
)  # fmt: skip

CLOCKS = picked(
    """
    noon allballs now infinity -infinity epoch 04:05:06.789 04:05:06.789-8 04:05:06-08:00 04:05-08:00 040506-08
    040506 040506+0730 040506+07:30:00 0405 04:05AM 04:05PM 4:5 J2451187 2003-04-12 24:00:00.1 -04:05:06 +04:05:06
    04:05:06+24 23:59:59.99999949 23:59:59.9999995 00:00:00.0000004
    """,
    *TIMES,
    *(f"{time}{zone}" for time in ("12:34:56", "24:00:00", "00:00") for zone in (
        "Z", " Z", "UTC", " utc", "+00", "+02", " -02:30", "+02:30:15", "-15:59:59", "+14:59:59", "+16", "+2", " EST",
        " America/New_York", "BC", " BC", "Z BC", "x", "Zx", "+0230Z", "UTCx", "UTC+1",
    )),
    "", " ", " 12:34:56 ", "\t12:34\n", "04:05 AM", "12:34:56 pm", "2003-04-12 04:05:06", "2003-04-12 04:05:06 UTC",
    "12 34 56", "12: 34", "12:34:56,5", "12:34:56." + "9" * 50, "0" * 70, "12:34:56\xa0",
)  # fmt: skip

SPANS = picked(
    """
    1 0 -1 1.5 P P1 PT P1Y P1Y2M P1Y2M3D P1Y2M3DT4H5M6S P1Y2M3DT4H5M6.7S PT36H P1W P-1W P1Y-2M PT-1H+2M P1YT P1YT1
    PT1M P1M PT1.5H P1.5Y P0.5D PT1H1H P1D1Y PT1S1H p1y P1y P1YT1h P0001-02-03T04:05:06 P20001023 P1Y2M3DT04:05:06
    PT0.000001S PT-0.000001S PT0.0000005S PT999999999S PT999999999H P999999999D P99999999W P178956970Y7M P178956970Y8M
    -P1Y P+1Y 1-2 -1-2 +1-2 1-13 00:00 00:00:00 04:05:06 04:05:06.789 -04:05:06 +04:05:06 4:5:6 4:5 04:05.5 04:60:00
    04:05:60 04:05:61 100:00:00 2562047788:00:54.775807 2562047789:00:00 -2562047788:00:54.775808 123456789:00:00
    1234567890:00 1day 1d 1d2h3m4s 1y2mon 1.5days 1.5d 0.5mon 1.123456s 1.1234567s .5s 5.s 1e3s infinity -infinity
    +infinity now today epoch ago day days @ @1day 1day2 1000000000s 2147483647days 2147483648days
    -2147483648days 178956970years 178956971years 2147483647months 2147483648months 306783378weeks 306783379weeks
    """,
    "", " ", " 1 day ", "1 day", "-1 day", "- 1 day", "+ 1 day", "1 day ago", "-1 day ago", "1 day ago ago",
    "ago 1 day", "1 day ago 2 hours", "@ 1 day", "@ 1 day ago", "@ ago", "1 day @ 2 hours", "1 day 2 days",
    "1 day 1d", "1 week 1 day", "1 hour 04:05", "04:05 1 day", "04:05:06 1 day", "1 day 04:05:06", "1 day -04:05:06",
    "-1 day 04:05:06", "-1 day +04:05:06", "1 day 4", "1 4:05:06", "1 day 1-2", "1-2 3 04:05:06", "-1-2 +3 -4:05:06",
    "1 year 2 mons 3 days 04:05:06.789", "1 years 2 months", "1 mon 1 month", "1 m", "1 M", "1 min", "1 MIN", "1 mi",
    "1 minutez", "1 décade", "1 decade", "1 century", "1 millennium", "1 quarter", "1 ms", "1 us", "1 microsecond",
    "1.5 days", "1.5 weeks", "1.5 months", "1.5 years", "1.5 hours", "1.5 mins", "1.5 secs", "-1.5 secs", "0.0000015 s",
    "0.9999995 s", "1 sec 1 ms", "1 day, 2 hours", "1 day,2 hours", "1 day; 2 hours", "1 day - 2 hours", "1 day-2 hours",
    "1 day +2 hours", "1 day2hours", "1 day 2hours", "1day2hours", "1:2 3", "1 year-2 mons", "1 year -2-3", "1 day 1 day",
    "1 y 1 year", "interval 1 day", "1 day x", "1 day 00:00:00.9999995", "00:00:00.9999995", "1 day\xa0", "P1Y ", " P1Y",
    "P 1Y", "P1 Y", "PT 1H", "1 mon 2 years", "1 sec 1 year", "1 s ago ", "0 years 0 mons 0 days 0 hours 0 mins 0.00 secs",
    "1 day " + " " * 150 + "1 hour", "0" * 40 + "1 day", "1 day 1:2:3:4", "1 day 01:02:03.", "01:02:03.", "1. s", "1 d.",
    "1 hour -30 mins", "@ 4 mins 5 secs ago", "9" * 30 + " s", "1 day\t2\nhours",
)  # fmt: skip

UUIDS = picked(
    """
    a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11 {a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}
    a0eebc999c0b4ef8bb6d6bb9bd380a11 a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11 {a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}
    {a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11} {} { } {{a0eebc999c0b4ef8bb6d6bb9bd380a11}}
    a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1 a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111 a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-
    -a0eebc999c0b4ef8bb6d6bb9bd380a11 a-0eebc999c0b4ef8bb6d6bb9bd380a11 a0-eebc999c0b4ef8bb6d6bb9bd380a11
    a0ee--bc999c0b4ef8bb6d6bb9bd380a11 g0eebc999c0b4ef8bb6d6bb9bd380a11 0xeebc999c0b4ef8bb6d6bb9bd380a11
    00000000-0000-0000-0000-000000000000 ffffffff-ffff-ffff-ffff-ffffffffffff é0eebc999c0b4ef8bb6d6bb9bd380a1
    urn:uuid:a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 a0eebc99_9c0b_4ef8_bb6d_6bb9bd380a11 {a0eebc999c0b4ef8bb6d6bb9bd380a1}}
    """,
    "", " ", " a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0eebc999c0b4ef8bb6d6bb9bd380a11 ", "a0eebc99 9c0b4ef8bb6d6bb9bd380a11",
)  # fmt: skip

OCTETS = [
    "", " ", "abc", "\\x", "\\X", "\\x00", "\\xfF", "\\x0", "\\x0g", "\\x 00", "\\x00 ff", "\\x0 0", "\\x00\n", "\\x\t00\r",
    "\\x00\v", "\\", "\\\\", "\\\\x00", "\\000", "\\377", "\\400", "\\08", "\\1", "\\12", "\\128", "a\\b", "é", "\\303\\251",
    "x00", "0x00", "\\x\\x00", "\x7f\x01", "\\x" + "00" * 5000, " \\x00", "\\xé0", "\\x00é",
]  # fmt: skip

ADDRESSES = picked(
    """
    0.0.0.0 0.0.0.0/0 255.255.255.255 255.255.255.255/32 1.2.3.4/33 1.2.3.4/ 1.2.3.4/08 1.2.3.4/-1 1.2.3.4/x 1.2.3.4/1/2
    10 10.1 10.1.2 10.1/16 10/8 10.1.2.3.4 256.1.1.1 01.2.3.4 1.2.3.04 1..2.3 .1.2.3 1.2.3. 0x0a000001 0x0a.1.2.3 192.168
    192.168.1.5/24 192.168.1.0/24 192.168/24 224.1 240.0.0.1 :: ::/0 ::1 ::1/128 ::1/129 1:: 1::/16 1::1/16 1:2:3:4:5:6:7:8
    1:2:3:4:5:6:7:: ::2:3:4:5:6:7:8 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 1::2::3 ::: 1: :1 12345:: g:: ::1.2.3.4
    ::ffff:1.2.3.4 ::ffff:1.2.3.4/96 1:2:3:4:5:6:1.2.3.4 1:2:3:4:5:6:7:1.2.3.4 ::1.2.3 ::1.2.3.256 ::01.2.3.4 fe80::1%eth0
    2001:4f8:3:ba::/64 2001:4f8:3:ba::1/64 FFFF:: 0000:0000:: ::1.2.3.4/127 1.2.3.4:80 [::1] x / /8 1.2.3.4/032 ::/00
    """,
    "", " ", " 1.2.3.4", "1.2.3.4 ", "1.2.3.4 /8", "1.2.3.4/ 8", "1.2.3.4/8 ", "1. 2.3.4", ":: ", "é",
)  # fmt: skip

LABELS = [*MOODS, "", " ", "HAPPY", "sad", " happy", "happy ", "so  so", "null", "ok", "x" * 63, "x" * 64, "\xa0"]

JSONS = picked(
    """
    1 -1 0 -0 00 01 1.5 1. .5 1e5 1E+5 1e 1e+ + - -x 0x1 1_0 NaN Infinity null nul nullx NULL true True false tru "" "a" "a
    a" 'a' "\\" "\\\\" "\\u" "\\u00e9" "\\u00E9" "\\uZZZZ" "\\ud83d\\ude00" "\\ud83d" "\\ude00" "\\u0000" "\\a" "\\/" {} [] [ ] { }
    [1,2] [1,] [,1] [1 {"a":1} {"a":1,} {"a"} {a:1} {"a":} {1:2} {"a":1,"a":2} [[[[]]]] [}{] [1}{"a":1] é "é" // 1// {"a":1}x 1x truex
    [true,false,null] [1]2 "a""b" {"a":"b":"c"} {"a","b"} --1 1-1 1.5.5 1e5e5
    """,
    "", " ", " 1 ", "\t1\n", "\v1", "1 2", '"\t"', '"\n"', '"\x7f"', '{ "a" : [ 1 , 2 ] }', "[1\u00a0]", "[" * 500 + "]" * 500,
    "[" * 400 + "1" + "]" * 400, "[" * 20 + "]" * 19, '"' + "x" * 10000 + '"', "1\xa0",
)  # fmt: skip

ARRAYS = [
    "", " ", "{}", " {} ", "{ }", "{{}}", "{{},{}}", "{{},1}", "{", "}", "{{", "{}}", "{}x", "x{}", "{1}", "{1,2}", "{ 1 , 2 }",
    "{1,NULL}", "{NULL}", "{null,nUlL}", '{"NULL"}', "{1,}", "{,1}", "{,}", "{1 2}", "{1}{2}", "{{1},{2}}", "{{1,2},{3,4}}",
    "{{1},{2,3}}", "{{1},2}", "{1,{2}}", "{{1}{2}}", "{{1} , {2}}", " {\t{\n1\v}\f,\r{2}}", "{{{1}}}", "{{{{{{1}}}}}}",
    "{{{{{{{1}}}}}}}", '{"1"}', '{"1","2"}', '{" 1 "}', '{"1}', '{1"}', '{"1"2}', '{1"2"}', '{"1" "2"}', '{"1",2}', '{""}', '{"",""}',
    '{\\1}', '{1\\,2}', '{"\\1"}', '{"a\\"b"}', '{"a\\\\b"}', '{"a\\', '{"\\"}', "{a b}", "{a,b}", "{ab\tc}", '{"a,b"}', '{"{}"}',
    '{"a\nb"}', "{é}", "{\xa0}", "{é,\xa0x}", "[1:2]={1,2}", "[0:1]={1,2}", "[2]={1,2}", "[1:2]={1}", "[1:1][1:2]={{1,2}}",
    "[1:0]={}", "[-1:0]={1,2}", "[1:2] = {1,2}", "[1:2]{1,2}", "{1,2}=", "[]", "[1,2]", "(1,2)", "1,2", "1", "{1;2}", "{NULL,{1}}",
    "{{NULL},{NULL}}", "{{1,NULL},{NULL,2}}", "{nul\\l}", "{NULLx}", "{ NULL }", '{"a" ,"b" }', "{a}\n", "\n{a}", "{ a }", "{a }", "{'a'}",
    "{" + ",".join("1" * 300) + "}", "{" + ",".join(["NULL"] * 40) + "}", "{{" + "},{".join("123") + "}}",
]  # fmt: skip


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
    yield Case("date", (), iso_day, moment, MOMENTS, 0.5)
    for precision in ((), (0,), (3,), (6,)):
        yield Case("timestamp", precision, iso_moment, moment, MOMENTS, 0.5)
    for precision in ((), (0,), (3,)):
        yield Case("timestamptz", precision, iso_zoned_moment, zoned_moment, ZONED, 0.8)
    yield Case("timestamptz", (), iso_moment, moment, ZONED, 0.5, utc=True)
    for precision in ((), (0,), (2,)):
        yield Case("time", precision, iso_time, time_of_day, CLOCKS, 0.8)
        yield Case("interval", precision, plain_span, span, SPANS, 0.9)
    for precision in ((), (1,)):
        yield Case("timetz", precision, lambda rng: iso_zoned_moment(rng)[11:], time_of_day, CLOCKS, 0.9)
    yield Case("uuid", (), plain_uuid, uuid_text, UUIDS)
    yield Case("bytea", (), hex_octets, octets, OCTETS, 0.4)
    yield Case("inet", (), host, network, ADDRESSES, 0.8)
    yield Case("cidr", (), subnet, network, ADDRESSES, 0.9)
    yield Case("mood", (), word(*MOODS), word(*LABELS), LABELS)
    yield Case("json", (), plain_json, json_text, JSONS)
    for name, common, wild in (
        ("text", prose, prose), ("int4", plain_integer(31), plain_integer(31)), ("bool", word("t", "f"), word("t", "f")),
        ("float8", plain_integer(31), floating), ("numeric", price, decimal), ("uuid", plain_uuid, plain_uuid),
        ("date", iso_day, iso_day), ("timestamptz", iso_zoned_moment, iso_zoned_moment), ("interval", plain_span, plain_span),
        ("bytea", hex_octets, octets), ("inet", host, host), ("time", iso_time, iso_time),
    ):  # fmt: skip
        yield Case(name + "[]", (), plain_array_of(common), array_of(wild), ARRAYS, 0.9)


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
    questions = "".join(f"{case.question}\t{version}\t{field.encode().hex()}\n" for field in fields)
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
