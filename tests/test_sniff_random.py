"""Random tables, written in random dialects: what is sniffed reads them back, or says that it is not sure.

Seeds are in the names of the tests: `pytest -k "seed17-"` runs one again.
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import LONG
from tipple.errors import UsageError
from tipple.plan.sniff_names import clean_names
from tipple.plan.sniff_profile import LOW_CONFIDENCE, Given
from tipple.plan.sources import Dialect
from tipple.run.sniff import Sniffer

ROUNDS = 4000 if LONG else 400
BATCH = 50

Table = list[list[str]]

WORDS = ["Anna", "Bob", "Berlin", "it's", "x", "New York", "a-b", "Größe", "漢字", "C/O", "e.g.", "50%", "A1", "(none)"]
VALUES: list[Callable[[random.Random], str]] = [
    lambda r: str(r.randrange(-1000, 100_000)),
    lambda r: f"{r.random() * 1000:.2f}",
    lambda r: f"{r.randrange(1900, 2100)}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}",
    lambda r: f"2024-01-{r.randrange(1, 29):02} {r.randrange(24):02}:{r.randrange(60):02}:00",
    lambda r: f"{r.randrange(24):02}:{r.randrange(60):02}",
    lambda r: r.choice(["true", "false"]),
    lambda r: r.choice(WORDS),
    lambda r: r.choice(WORDS),
    lambda r: " ".join(r.choice(WORDS) for _ in range(r.randrange(1, 6))),
    lambda r: f"{r.randrange(1, 1000)},{r.randrange(10)}",
    lambda r: f"{r.randrange(1, 29):02}.{r.randrange(1, 13):02}.{r.randrange(1990, 2030)}",
    lambda r: "".join(r.choice("ab ,;|'\"") for _ in range(r.randrange(8))),
]
NAMES = ["id", "name", "Born", "Total Amount", "city", "x1", "orderDate", "flag", "note", "valid_to"]


@dataclass(frozen=True)
class Written:
    """A table in a file."""

    file_name: str
    data: bytes
    table: Table


def random_table(r: random.Random) -> Table:
    makers = [r.choice(VALUES) for _ in range(r.randrange(2, 7))]
    rows = [[maker(r) for maker in makers] for _ in range(r.choice([3, 5, 20, 200]))]
    for row in rows:
        for index in range(len(row)):
            if r.random() < 0.05:
                row[index] = ""
    return [r.sample(NAMES, len(makers)), *rows] if r.random() < 0.5 else rows


def random_file(r: random.Random) -> Written:
    table = random_table(r)
    delimiter = r.choice([",", ",", ";", "\t", "|", "\x01"])
    end = r.choice(["\n", "\n", "\r\n", "\r"])
    kind = r.choice(["csv", "csv", "csv", "text", "tbl"])
    if kind == "csv":
        form = (
            {"doublequote": True, "escapechar": None}
            if r.random() < 0.8
            else {"doublequote": False, "escapechar": "\\"}
        )
        out = io.StringIO()
        writer = csv.writer(
            out,
            delimiter=delimiter,
            quotechar=r.choice(['"', '"', '"', "'"]),
            # With a backslash, Python's minimal quoting leaves quotes outside of any: that is no CSV to COPY.
            quoting=r.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]) if form["doublequote"] else csv.QUOTE_ALL,
            lineterminator=end,
            **form,  # type: ignore[arg-type]
        )
        writer.writerows(table)
        return Written(r.choice(["a.csv", "a.csv", "a.dat"]), out.getvalue().encode(), table)
    if kind == "text":
        text = "".join("\t".join(field.replace("\\", "\\\\") or "\\N" for field in row) + end for row in table)
        return Written(r.choice(["a.txt", "a.tsv"]), text.encode(), table)
    table = [[field.replace("|", "/") for field in row] for row in table]
    last = r.choice(["|", "|", ""])
    return Written("a.tbl", "".join("|".join(row) + last + end for row in table).encode(), table)


def read(data: bytes, dialect: Dialect) -> Table:
    """The file in a dialect, NULL as an empty text; for well-formed files only."""
    text = data.decode().replace("\r\n", "\n").replace("\r", "\n")
    if dialect.format == "csv":
        doubled = dialect.escape == dialect.quote
        reader = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=dialect.delimiter,
            quotechar=dialect.quote,
            doublequote=doubled,
            escapechar=None if doubled else dialect.escape,
        )
        return [row or [""] for row in reader]
    lines = text.removesuffix("\n").split("\n")
    if dialect.format == "text":
        return [
            [field.replace("\\\\", "\\") if field != "\\N" else "" for field in line.split(dialect.delimiter)]
            for line in lines
        ]
    return [line.removesuffix(dialect.delimiter).split(dialect.delimiter) for line in lines]


def outcome(directory: Path, seed: int) -> tuple[str, str]:
    r = random.Random(seed)
    written = random_file(r)
    path = directory / written.file_name
    path.write_bytes(written.data)
    try:
        sniffed = Sniffer([str(path)], "auto", Given()).look(None)
    except UsageError as error:
        return "refused", str(error)
    if read(written.data, sniffed.dialect) == written.table:
        return "right", ""
    unsure = min(decision.confidence for decision in sniffed.decisions) < LOW_CONFIDENCE
    return ("unsure" if unsure else "wrong"), f"{sniffed.dialect}\n{written.data[:600]!r}"


@pytest.mark.parametrize("first", range(0, ROUNDS, BATCH), ids=lambda first: f"seed{first}-")
def test_right_or_unsure(tmp_path: Path, first: int) -> None:
    outcomes = {seed: outcome(tmp_path, seed) for seed in range(first, first + BATCH)}
    wrong = {seed: text for seed, (kind, text) in outcomes.items() if kind == "wrong"}
    assert not wrong, "\n\n".join(f"seed {seed}: {text}" for seed, text in wrong.items())
    right = sum(kind == "right" for kind, _ in outcomes.values())
    # To be unsure of everything is no art.
    assert right >= 0.85 * BATCH, {seed: kind for seed, (kind, _) in outcomes.items() if kind != "right"}


def seen_once(names: list[str]) -> list[str]:
    """Slow: clean names, to each of which the first number from 2 on is added that makes it another one."""
    seen: list[str] = []
    for name in names:
        count, unique = 1, name
        while unique in seen:
            count += 1
            unique = f"{name[: 63 - 1 - len(str(count))]}_{count}"
        seen.append(unique)
    return seen


@given(st.lists(st.sampled_from(["a", "a_2", "a_2_2", "a_11", "x" * 61 + "_2", "x" * 63, "x" * 62]), max_size=40))
def test_clean_names_are_numbered_like_by_the_slow_way(names: list[str]) -> None:
    assert clean_names(names) == seen_once(names)


def test_clean_names_of_a_wide_record_that_repeats_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def cut(name: str, most: int = 63) -> str:
        nonlocal made
        made += 1
        return name

    monkeypatch.setattr("tipple.plan.sniff_names.cut_name", cut)
    assert clean_names(["a"] * 2000)[-1] == "a_2000"
    # One for the name and one for its number, instead of one for each number that is taken.
    assert made < 4 * 2000
