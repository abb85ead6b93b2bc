"""The codec against the server's own input functions: the same values, and the same refusals.

Texts are made at random around what each type reads, with a seed that is printed. COPY into a twin table says
for each text alone whether the server takes it. All that it takes is then loaded at once and compared; of
what it refuses, each text has a load of its own, so only some are tried outside the long mode.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from conftest import LONG
from loading import load_text
from targets import PostgresTarget

TEXTS = 4000 if LONG else 600
REFUSALS_TRIED = 40 if LONG else 4
SEEDS = range(10) if LONG else range(1)

Maker = Callable[[random.Random], str]


def digits(r: random.Random, most: int) -> str:
    return "".join(r.choice("0123456789") for _ in range(r.randint(0, most)))


def integer(r: random.Random) -> str:
    edge = r.choice([0, 127, 32767, 32768, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10 ** r.randint(0, 25)])
    text = r.choice([digits(r, 6), digits(r, 22), str(edge + r.randint(-2, 2)), "0" * r.randint(0, 9) + digits(r, 5)])
    if r.random() < 0.1:
        text = r.choice(["0x", "0X", "0b", "0o", "0"]) + r.choice([digits(r, 4), "ff", "101", "7_7", "_1"])
    if r.random() < 0.1 and text:
        position = r.randrange(len(text) + 1)
        text = text[:position] + "_" + text[position:]
    return r.choice(["", "", "-", "+", "- "]) + text


def decimal(r: random.Random) -> str:
    text = digits(r, r.choice([2, 8, 30, 60])) + r.choice(["", "", ".", "."]) + digits(r, r.choice([1, 3, 12, 40]))
    if r.random() < 0.3:
        text += r.choice("eE") + r.choice(["", "-", "+"]) + digits(r, r.choice([1, 2, 2, 3, 5]))
    if r.random() < 0.1:
        text = r.choice(
            [
                "NaN",
                "nan",
                "inf",
                "Infinity",
                "infinit",
                "1e",
                "e1",
                ".",
                "1__0",
                "1_0",
                "1._5",
                "0x1F",
                "0x1p3",
            ]
        )
    return r.choice(["", "", "-", "+", "--"]) + text


def boolean(r: random.Random) -> str:
    word = r.choice(["true", "false", "yes", "no", "on", "off", "1", "0", "t", "f", "y", "n", "o", "10", "truer"])
    word = word[: r.randint(1, len(word))]
    return "".join(r.choice([c.lower(), c.upper()]) for c in word)


def day(r: random.Random) -> str:
    year = r.choice(
        [
            str(r.randint(1, 9999)),
            f"{r.randint(1, 9999):04}",
            str(r.randint(10000, 6_000_000)),
            "1900",
            "2000",
            "0000",
        ]
    )
    month, number = r.randint(0, 13), r.randint(0, 32)
    form = r.random()
    if form < 0.6:
        text = f"{year.zfill(4)}-{month:02}-{number:02}"
    elif form < 0.7:
        text = f"{year}-{month}-{number}"
    elif form < 0.75:
        text = f"{year.zfill(4)}{month:02}{number:02}"
    elif form < 0.8:
        text = f"{month:02}/{number:02}/{year}"
    elif form < 0.85:
        text = f"{year}-{r.choice(['Jan', 'February', 'DEC', 'Foo'])}-{number}"
    elif form < 0.9:
        text = f"J{r.randint(0, 3_000_000)}"
    else:
        text = r.choice(
            ["infinity", "-infinity", "epoch", "Infinity", "+infinity", "99-01-08", f"{year}-001", "2020-01"]
        )
    return text + r.choice(["", "", "", "", " BC", " AD", "bc"])


def moment(r: random.Random) -> str:
    hour, minute, second = r.randint(0, 24), r.randint(0, 60), r.randint(0, 60)
    time = r.choice(
        [
            f"{hour:02}:{minute:02}:{second:02}",
            f"{hour:02}:{minute:02}",
            f"{hour}:{minute}:{second}",
            "24:00:00",
            f"{hour:02}{minute:02}{second:02}",
        ]
    )
    if r.random() < 0.5 and time.count(":") == 2:
        time += "." + digits(r, 9)
    zone = r.choice(["", "", "", "", "Z", "+02", " -05:30", " UTC", "+2500", " PST"])
    half = r.choice(["", "", "", "", "", " AM", " pm"])
    return r.choice([day(r), day(r) + r.choice([" ", " ", "T", "t", "  "]) + time + half + zone])


def words(r: random.Random) -> str:
    return "".join(r.choice("ab \u00e4\u6f22\U0001f682\\") for _ in range(r.randint(0, 8)))


MAKERS: dict[str, Maker] = {
    "boolean": boolean,
    "int2": integer,
    "int4": integer,
    "int8": integer,
    "float4": decimal,
    "float8": decimal,
    "numeric(5,2)": decimal,
    "numeric(15,2)": decimal,
    "numeric(38,10)": decimal,
    "numeric(10,0)": decimal,
    "numeric(3,5)": decimal,
    "numeric(1000,500)": decimal,
    "numeric(4,-2)": decimal,
    "numeric": decimal,
    "varchar(3)": words,
    "char(3)": words,
    "text": words,
    "date": day,
    "timestamp": moment,
    "timestamp(3)": moment,
}  # fmt: skip


def noisy(r: random.Random, text: str) -> str:
    """Now and then white space around, or one character that does not belong."""
    if r.random() < 0.1:
        text = r.choice([" ", "\t", "  ", "\n", "\v"]) + text
    if r.random() < 0.1:
        text += r.choice([" ", "\t", "\f", "\r\n"])
    if r.random() < 0.05:
        position = r.randrange(len(text) + 1)
        text = text[:position] + r.choice("0x-+. e:/\u00a0\u0663") + text[position:]
    return text


def field(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def accepted_by_copy(target: PostgresTarget, texts: list[str]) -> list[bool]:
    """Which of the texts COPY takes into the twin table; those are in it afterwards."""
    verdicts = []
    with target.connection.transaction(), target.connection.cursor() as cursor:
        for k, text in enumerate(texts):
            try:
                with (
                    target.connection.transaction(),
                    cursor.copy("COPY twin FROM STDIN (FORMAT csv)") as copy,
                ):
                    copy.write(f"{k},{field(text)}\n".encode())
                verdicts.append(True)
            except psycopg.DataError:
                verdicts.append(False)
    return verdicts


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("type_text", MAKERS)
def test_same_as_copy(postgres_target: PostgresTarget, tmp_path: Path, type_text: str, seed: int) -> None:
    r = random.Random(f"{seed} {type_text}")
    print(f"seed {seed}")
    texts = sorted({noisy(r, MAKERS[type_text](r)) for _ in range(TEXTS)})
    postgres_target.execute(f"CREATE TABLE twin (k integer, v {type_text}); CREATE TABLE t (LIKE twin)")
    verdicts = accepted_by_copy(postgres_target, texts)
    data = "".join(f"{k},{field(text)}\n" for k, text in enumerate(texts) if verdicts[k])
    load_text(postgres_target, tmp_path / "good.csv", data)

    # Compared as bytes on the wire, where 0 and -0 and all NaNs show what they are.
    send = {"boolean": "boolsend", "text": "textsend", "date": "date_send"}.get(type_text)
    for prefix, function in (
        ("int", type_text + "send"), ("float", type_text + "send"), ("numeric", "numeric_send"),
        ("varchar", "varcharsend"), ("char", "bpcharsend"), ("timestamp", "timestamp_send"),
    ):  # fmt: skip
        send = send or (function if type_text.startswith(prefix) else None)
    differing = postgres_target.rows(
        f"SELECT k, twin.v::text, t.v::text FROM twin FULL JOIN t USING (k) "
        f"WHERE {send}(twin.v) IS DISTINCT FROM {send}(t.v) OR twin.k IS NULL OR t.k IS NULL"
    )
    assert [(texts[k], *values) for k, *values in differing] == []

    refused = [text for text, verdict in zip(texts, verdicts, strict=True) if not verdict]
    r.shuffle(refused)
    before = postgres_target.count("t")
    for number, text in enumerate(refused[:REFUSALS_TRIED]):
        run = load_text(postgres_target, tmp_path / f"bad{number}.csv", f"1,{field(text)}\n", check=False)
        assert run.exit_code == 1, f"COPY refuses {text!r} for {type_text}\n{run}"
        assert f"bad{number}.csv" in run.stderr
    assert postgres_target.count("t") == before


def test_many_refusals_are_refusals(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The good half of a file never hides the bad one: with one bad text anywhere, nothing is published."""
    r = random.Random(7)
    postgres_target.execute("CREATE TABLE t (k integer, v numeric(5,2))")
    for number in range(5):
        lines = [f"{k},{k % 1000}.25\n" for k in range(2000)]
        lines.insert(r.randrange(len(lines)), "-1,1000\n")
        run = load_text(postgres_target, tmp_path / f"{number}.csv", "".join(lines), check=1)
        assert "1000" in run.stderr
    assert postgres_target.count("t") == 0


DATES = "1,01/02/2024,01-02-03,{02/01/2024}\n2,2024-01-02,1.2.2024 12:34,\n3,5/6/99,2024/1/2,{1/2/3}\n"


@pytest.mark.parametrize("write_path", ["auto", "text"])
@pytest.mark.parametrize("place", ["PGOPTIONS", "database"])
@pytest.mark.parametrize("style", ["ISO, DMY", "German, YMD", "SQL, MDY"])
def test_dates_in_the_order_of_the_session(
    postgres_target: PostgresTarget, tmp_path: Path, style: str, place: str, write_path: str
) -> None:
    """As COPY reads them in a session of the same settings, or as it refuses them."""
    env = {"PGOPTIONS": f"-c datestyle={style.replace(' ', '')}"} if place == "PGOPTIONS" else {}
    if place == "database":
        postgres_target.execute(f"ALTER DATABASE {postgres_target.database} SET datestyle TO '{style}'")
    postgres_target.execute("CREATE TABLE t (k int, d date, s timestamp, a date[]); CREATE TABLE twin (LIKE t)")
    postgres_target.execute(f"SET datestyle TO '{style}'")
    for data in DATES, DATES + "4,13/12/2024,,\n":
        postgres_target.execute("TRUNCATE t; TRUNCATE twin")
        refusal = postgres_target.copy_in("COPY twin FROM STDIN (FORMAT csv)", data.encode())
        run = load_text(
            postgres_target, tmp_path / "in.csv", data, env=env, check=False, format="csv", header="no",
            write_path=write_path,
        )  # fmt: skip
        assert run.exit_code == (0 if refusal is None else 1), f"COPY says {refusal}\n{run}"
        assert postgres_target.rows("(TABLE t EXCEPT TABLE twin) UNION ALL (TABLE twin EXCEPT TABLE t)") == []
