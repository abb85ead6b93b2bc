"""Makers of random fields for test_values_differential: spellings as people write them, and as nobody should."""

from __future__ import annotations

import ipaddress
import json
import random
import uuid
from collections.abc import Callable, Sequence

Generator = Callable[[random.Random], str]


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
        (
            f"{year:04}{month:02}{number:02}", f"{year:04}-{month}-{number}", f"{year}-{month:02}-{number:02}",
            f"{year:04}/{month:02}/{number:02}", f"{year:04}.{month}.{number}", f"{year}/{month}.{number}",
        )
    )  # fmt: skip


def local_day(rng: random.Random) -> str:
    """A day in an order that only settings decide."""
    separator = rng.choice("./-")
    year = rng.choice((rng.randint(1900, 2100), rng.randint(0, 99), rng.randint(0, 9999), rng.randint(0, 999_999)))
    short = (rng.choice((rng.randint(1, 12), rng.randint(0, 33))) for _ in range(2))
    parts = [rng.choice((f"{part:02}", str(part))) for part in short]
    parts.insert(rng.choice((2, 2, 2, 0, 1)), rng.choice((f"{year:04}", f"{year:02}", f"{year % 100:02}")))
    return separator.join(parts) if rng.random() < 0.9 else f"{parts[0]}-{parts[1]}/{parts[2]}"


def local_moment(rng: random.Random) -> str:
    text = local_day(rng)
    if rng.random() < 0.6:
        text += rng.choice((" ", " ", " ", "T", "  ", "\t", "")) + clock(rng)
        text += rng.choice(("", "", " AM", "PM", " pm", "Z", "+02", " +0530", " BC", " UTC", " CET", " 5"))
    return text


def clock(rng: random.Random) -> str:
    hour = rng.choice((rng.randint(0, 23), rng.randint(0, 25)))
    minute, second = (rng.choice((rng.randint(0, 59), rng.randint(58, 61))) for _ in range(2))
    text = rng.choice(
        (f"{hour:02}:{minute:02}:{second:02}",) * 4 + (f"{hour}:{minute}:{second}", f"{hour:02}:{minute:02}")
    )
    if rng.random() < 0.1:
        return text + rng.choice((" AM", " PM", "pm", "am", "  PM"))
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
         f"{sign}{hours:02}:{minutes:02}:{seconds:02}", f"{sign}{hours}", "CET", "Europe/Berlin", "GMT+2", "UTC+1",
         "PST")
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
        ("null", "true", "false", "nul", "1", "-0", "01", "1.5e3", "1.", ".5", "1e+", "-", "NaN", '"a"', '"\\u00e9"',
        '"\\ud800"',
         '"\\u12"', '"\\x"', '"\\\\"', '"a', '"é\\n"', '"\t"', "'a'", '"\\u0000"')
    ) + space  # fmt: skip


def plain_json(rng: random.Random) -> str:
    values: list[object] = [rng.randint(-5, 5), rng.random(), None, True, "é\n", [1, {"a": "b"}], {}]
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
