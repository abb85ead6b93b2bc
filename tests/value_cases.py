"""The types of test_values_differential: how the codec and the server call them, and fields picked by hand.

Every field on which the two once differed is here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from value_fields import (
    Generator,
    array_of,
    decimal,
    floating,
    hex_octets,
    host,
    integer,
    iso_day,
    iso_moment,
    iso_time,
    iso_zoned_moment,
    json_text,
    moment,
    network,
    octets,
    plain_array_of,
    plain_integer,
    plain_json,
    plain_span,
    plain_uuid,
    price,
    prose,
    span,
    subnet,
    time_of_day,
    uuid_text,
    word,
    zoned_moment,
)


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
    2001/02/03 2001.02.03 2001/2/3 2001.2.3 2001/02-03 2001/02/30 20010203/1/1 99999/1/1 2001/02/03/04 2001.02
    2001/02/03BC 02001/02/03 0000/01/01 2001-Feb-03 Feb-03-2001 epoch EPOCH infinity -infinity +infinity Infinity
    INFINITY inf -inf now today tomorrow yesterday allballs J2451545 2001-02-03x x - -- n/a N/A #N/A unknown TBD (none)
    <na> Nowhere toda y epochs jan monday noon zulu utc bc am t z d america/new_york foo/bar a,b . .. ? * é
    2001-02-03- -2001-02-03
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
    T01:02:03 12:00AM 12:00PM 0:30AM 0:30PM 01:02am 12:59:59.999999PM 13:00PM 11:59:60PM 12:00:60AM 24:00AM 1:2:3.5pm
    1:02PM+02 1:02PM+02:30 1:02PMZ 1:02+02PM 1:02PMBC 1:02PM5 1:02P 1:02PMX 1:02AMPM 00:00:59.9999999AM 1:02.5PM
    """,
    "1:02 PM", "1:02  pm", "1:02 PM +02", "1:02 +02 PM", "1:02 PM BC", "BC 1:02 PM", "11:59:59.9999999 PM", "1:02 P M",
    "1:02 PM Z", "1:02 PM UTC", "12:30:00 am UTC", "1:02 PM PM", "1:02 PM.", "1:02 PM-5",
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
            "Z", "z", "UTC", "utc", "+00", "-00", "+02", "-0230", "+02:30", "+02:30:15", "-14:59:59", "+15",
            "-15:59:59",
            "+16", "+2", "+023", "+02:3", "+02:60", "+02:30:60", "GMT", "EST5EDT", "Europe/Berlin", "CEST", "UTC+2",
            "Z+1",
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
    "0.9999995 s", "1 sec 1 ms", "1 day, 2 hours", "1 day,2 hours", "1 day; 2 hours", "1 day - 2 hours",
    "1 day-2 hours",
    "1 day +2 hours", "1 day2hours", "1 day 2hours", "1day2hours", "1:2 3", "1 year-2 mons", "1 year -2-3",
    "1 day 1 day",
    "1 y 1 year", "interval 1 day", "1 day x", "1 day 00:00:00.9999995", "00:00:00.9999995", "1 day\xa0", "P1Y ",
    " P1Y",
    "P 1Y", "P1 Y", "PT 1H", "1 mon 2 years", "1 sec 1 year", "1 s ago ",
    "0 years 0 mons 0 days 0 hours 0 mins 0.00 secs",
    "1 day " + " " * 150 + "1 hour", "0" * 40 + "1 day", "1 day 1:2:3:4", "1 day 01:02:03.", "01:02:03.", "1. s",
    "1 d.",
    "1 hour -30 mins", "@ 4 mins 5 secs ago", "9" * 30 + " s", "1 day\t2\nhours",
)  # fmt: skip

UUIDS = picked(
    """
    a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11 {a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}
    a0eebc999c0b4ef8bb6d6bb9bd380a11 a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11 {a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}
    {a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11} {} { }
    {{a0eebc999c0b4ef8bb6d6bb9bd380a11}}
    a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1 a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111 a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-
    -a0eebc999c0b4ef8bb6d6bb9bd380a11 a-0eebc999c0b4ef8bb6d6bb9bd380a11 a0-eebc999c0b4ef8bb6d6bb9bd380a11
    a0ee--bc999c0b4ef8bb6d6bb9bd380a11 g0eebc999c0b4ef8bb6d6bb9bd380a11 0xeebc999c0b4ef8bb6d6bb9bd380a11
    00000000-0000-0000-0000-000000000000 ffffffff-ffff-ffff-ffff-ffffffffffff é0eebc999c0b4ef8bb6d6bb9bd380a1
    urn:uuid:a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 a0eebc99_9c0b_4ef8_bb6d_6bb9bd380a11
    {a0eebc999c0b4ef8bb6d6bb9bd380a1}}
    """,
    "", " ", " a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0eebc999c0b4ef8bb6d6bb9bd380a11 ",
    "a0eebc99 9c0b4ef8bb6d6bb9bd380a11",
)  # fmt: skip

OCTETS = [
    "", " ", "abc", "\\x", "\\X", "\\x00", "\\xfF", "\\x0", "\\x0g", "\\x 00", "\\x00 ff", "\\x0 0", "\\x00\n",
    "\\x\t00\r",
    "\\x00\v", "\\", "\\\\", "\\\\x00", "\\000", "\\377", "\\400", "\\08", "\\1", "\\12", "\\128", "a\\b", "é",
    "\\303\\251",
    "x00", "0x00", "\\x\\x00", "\x7f\x01", "\\x" + "00" * 5000, " \\x00", "\\xé0", "\\x00é",
]  # fmt: skip

ADDRESSES = picked(
    """
    0.0.0.0 0.0.0.0/0 255.255.255.255 255.255.255.255/32 1.2.3.4/33 1.2.3.4/ 1.2.3.4/08 1.2.3.4/-1 1.2.3.4/x 1.2.3.4/1/2
    10 10.1 10.1.2 10.1/16 10/8 10.1.2.3.4 256.1.1.1 01.2.3.4 1.2.3.04 1..2.3 .1.2.3 1.2.3. 0x0a000001 0x0a.1.2.3
    192.168
    192.168.1.5/24 192.168.1.0/24 192.168/24 224.1 240.0.0.1 :: ::/0 ::1 ::1/128 ::1/129 1:: 1::/16 1::1/16
    1:2:3:4:5:6:7:8
    1:2:3:4:5:6:7:: ::2:3:4:5:6:7:8 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 1::2::3 ::: 1: :1 12345:: g:: ::1.2.3.4
    ::ffff:1.2.3.4 ::ffff:1.2.3.4/96 1:2:3:4:5:6:1.2.3.4 1:2:3:4:5:6:7:1.2.3.4 ::1.2.3 ::1.2.3.256 ::01.2.3.4
    fe80::1%eth0
    2001:4f8:3:ba::/64 2001:4f8:3:ba::1/64 FFFF:: 0000:0000:: ::1.2.3.4/127 1.2.3.4:80 [::1] x / /8 1.2.3.4/032 ::/00
    """,
    "", " ", " 1.2.3.4", "1.2.3.4 ", "1.2.3.4 /8", "1.2.3.4/ 8", "1.2.3.4/8 ", "1. 2.3.4", ":: ", "é",
)  # fmt: skip

LABELS = [*MOODS, "", " ", "HAPPY", "sad", " happy", "happy ", "so  so", "null", "ok", "x" * 63, "x" * 64, "\xa0"]

JSONS = picked(
    """
    1 -1 0 -0 00 01 1.5 1. .5 1e5 1E+5 1e 1e+ + - -x 0x1 1_0 NaN Infinity null nul nullx NULL true True false tru ""
    "a" "a
    a" 'a' "\\" "\\\\" "\\u" "\\u00e9" "\\u00E9" "\\uZZZZ" "\\ud83d\\ude00" "\\ud83d" "\\ude00" "\\u0000" "\\a" "\\/"
    {} [] [ ] { }
    [1,2] [1,] [,1] [1 {"a":1} {"a":1,} {"a"} {a:1} {"a":} {1:2} {"a":1,"a":2} [[[[]]]] [}{] [1}{"a":1] é "é" // 1//
    {"a":1}x 1x truex
    [true,false,null] [1]2 "a""b" {"a":"b":"c"} {"a","b"} --1 1-1 1.5.5 1e5e5
    """,
    "", " ", " 1 ", "\t1\n", "\v1", "1 2", '"\t"', '"\n"', '"\x7f"', '{ "a" : [ 1 , 2 ] }', "[1\u00a0]",
    "[" * 500 + "]" * 500,
    "[" * 400 + "1" + "]" * 400, "[" * 20 + "]" * 19, '"' + "x" * 10000 + '"', "1\xa0",
)  # fmt: skip

ARRAYS = [
    "", " ", "{}", " {} ", "{ }", "{{}}", "{{},{}}", "{{},1}", "{", "}", "{{", "{}}", "{}x", "x{}", "{1}", "{1,2}",
    "{ 1 , 2 }",
    "{1,NULL}", "{NULL}", "{null,nUlL}", '{"NULL"}', "{1,}", "{,1}", "{,}", "{1 2}", "{1}{2}", "{{1},{2}}",
    "{{1,2},{3,4}}",
    "{{1},{2,3}}", "{{1},2}", "{1,{2}}", "{{1}{2}}", "{{1} , {2}}", " {\t{\n1\v}\f,\r{2}}", "{{{1}}}", "{{{{{{1}}}}}}",
    "{{{{{{{1}}}}}}}", '{"1"}', '{"1","2"}', '{" 1 "}', '{"1}', '{1"}', '{"1"2}', '{1"2"}', '{"1" "2"}', '{"1",2}',
    '{""}', '{"",""}',
    '{\\1}', '{1\\,2}', '{"\\1"}', '{"a\\"b"}', '{"a\\\\b"}', '{"a\\', '{"\\"}', "{a b}", "{a,b}", "{ab\tc}",
    '{"a,b"}', '{"{}"}',
    '{"a\nb"}', "{é}", "{\xa0}", "{é,\xa0x}", "[1:2]={1,2}", "[0:1]={1,2}", "[2]={1,2}", "[1:2]={1}",
    "[1:1][1:2]={{1,2}}",
    "[1:0]={}", "[-1:0]={1,2}", "[1:2] = {1,2}", "[1:2]{1,2}", "{1,2}=", "[]", "[1,2]", "(1,2)", "1,2", "1", "{1;2}",
    "{NULL,{1}}",
    "{{NULL},{NULL}}", "{{1,NULL},{NULL,2}}", "{nul\\l}", "{NULLx}", "{ NULL }", '{"a" ,"b" }', "{a}\n", "\n{a}",
    "{ a }", "{a }", "{'a'}",
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
        ("text", prose, prose), ("int4", plain_integer(31), plain_integer(31)), ("bool", word("t", "f"), word("t",
        "f")),
        ("float8", plain_integer(31), floating), ("numeric", price, decimal), ("uuid", plain_uuid, plain_uuid),
        ("date", iso_day, iso_day), ("timestamptz", iso_zoned_moment, iso_zoned_moment),
        ("interval", plain_span, plain_span),
        ("bytea", hex_octets, octets), ("inet", host, host), ("time", iso_time, iso_time),
    ):  # fmt: skip
        yield Case(name + "[]", (), plain_array_of(common), array_of(wild), ARRAYS, 0.9)
