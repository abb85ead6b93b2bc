"""Delimiters that stand inside the values of another reading: decimal commas, names, addresses."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from sniffing import decision, sniff
from targets import write
from tipple.plan.sniff_profile import LOW_CONFIDENCE

RECORDS = 200


def comma(r: random.Random, most: int) -> str:
    """A decimal with a comma, of one digit to four behind it."""
    return f"{r.uniform(1, most):.{r.randint(1, 4)}f}".replace(".", ",")


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize("name", ["a.csv", "a.dat", "a.txt"])
@pytest.mark.parametrize("columns", [2, 3])
def test_decimals_are_not_cut_at_their_commas(tmp_path: Path, name: str, delimiter: str, columns: int) -> None:
    r = random.Random(columns)
    lines = (delimiter.join(comma(r, 90) for _ in range(columns)) for _ in range(RECORDS))
    sniffed = sniff(write(tmp_path / name, "".join(f"{line}\n" for line in lines)))
    assert (sniffed.dialect.delimiter, sniffed.profile.fields) == (delimiter, columns)
    assert sniffed.noted.decimal_separator is not None


@pytest.mark.parametrize(
    ("record", "expected", "sure"),
    [
        ("Smith{n}, John\t{n}", "\t", True),
        ("Smith{n}, John\tCity{n}", "\t", False),
        # Either could be.
        ("Smith{n}, John;{n}", ",", False),
        ("Smith{n}, John;City{n}", ",", False),
        ("1{n},19;3,9", ",", False),
        ("Bern,-73.90;-11{n}.94", ",", False),
        ("{n};{n} 493,75", ",", False),
        # Lists between commas.
        ("{n},7;{n},name{n}", ",", True),
        ("{n},a;b,2024-01-01", ",", True),
        ("{n},Foo {n}; bar", ",", True),
    ],
)
def test_a_delimiter_in_each_value_of_a_column(tmp_path: Path, record: str, expected: str, sure: bool) -> None:
    path = write(tmp_path / "a.csv", "".join(record.format(n=n) + "\n" for n in range(RECORDS)))
    found = decision(sniff(path), "delimiter")
    assert (found.value.replace("\\t", "\t"), found.confidence >= LOW_CONFIDENCE) == (expected, sure)


ADDRESSES: dict[str, Callable[[random.Random], str]] = {
    "mac": lambda r: ":".join(f"{r.randrange(256):02x}" for _ in range(6)),
    "iban": lambda r: f"DE{r.randrange(10, 100)} " + " ".join(str(r.randrange(1000, 10_000)) for _ in range(4)),
    "ipv6": lambda r: ":".join(f"{r.randrange(65536):04x}" for _ in range(8)),
    "phone": lambda r: f"+49 30 {r.randrange(10**6, 10**7)}",
    "card": lambda r: " ".join(str(r.randrange(1000, 10_000)) for _ in range(4)),
    "duration": lambda r: ":".join(str(r.randrange(10, 60)) for _ in range(3)),
}


@pytest.mark.parametrize("kind", ADDRESSES)
def test_addresses_below_their_name_are_one_column(tmp_path: Path, kind: str) -> None:
    """A first record of one field is a header rather than a title."""
    r = random.Random(1)
    lines = [ADDRESSES[kind](r) for _ in range(RECORDS)]
    for name in ("a.csv", "a.txt"):
        sniffed = sniff(write(tmp_path / name, "".join(f"{line}\n" for line in [kind, *lines])))
        assert sniffed.profile.fields == 1
        assert decision(sniffed, "delimiter").confidence < LOW_CONFIDENCE
    # Without a name nothing speaks for a comma, and so it is a doubt at least.
    sniffed = sniff(write(tmp_path / "a.dat", "".join(f"{line}\n" for line in [kind, *lines])))
    assert sniffed.profile.fields == 1 or decision(sniffed, "delimiter").confidence < LOW_CONFIDENCE


@pytest.mark.parametrize("kind", ["mac", "iban", "ipv6", "phone"])
def test_addresses_that_are_divided_are_doubted(tmp_path: Path, kind: str) -> None:
    r = random.Random(1)
    found = decision(
        sniff(write(tmp_path / "a.csv", "".join(ADDRESSES[kind](r) + "\n" for _ in range(RECORDS)))), "delimiter"
    )
    assert found.confidence < LOW_CONFIDENCE
    assert "," in (found.value, *found.alternatives)


@pytest.mark.parametrize(
    ("name", "record", "delimiter"),
    [
        ("a.tsv", "Paris\t12.45{n},108.81", "\t"),
        ("a.tsv", "Desk\t$84,{n}.55", "\t"),
        ("a.txt", "nut\t2 x 198,{n}", "\t"),
        ("a.tsv", "db\tpool;{n}", "\t"),
        ("a.tsv", "Quick dog, quick brown.\tLi{n}", "\t"),
        ("a.txt", "brown{n} 5968{n} 83.90 2024-02-09", " "),
        ("a.txt", "group{n}:x:{n}:members", ":"),
    ],
)
def test_what_is_plain_needs_no_note(tmp_path: Path, name: str, record: str, delimiter: str) -> None:
    path = write(tmp_path / name, "".join(record.format(n=n) + "\n" for n in range(RECORDS)))
    found = decision(sniff(path), "delimiter")
    assert (found.value.replace("\\t", "\t"), found.confidence >= LOW_CONFIDENCE) == (delimiter, True)
