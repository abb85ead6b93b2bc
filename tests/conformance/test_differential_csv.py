"""Random files in random dialects, loaded by Tipple and by the server's COPY: the same rows, or both refuse.

The fields are made of the characters that a dialect gives a meaning to, so most of what can go wrong does.
Seeds are in the names of the tests: `pytest -k "seed17"` runs one again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import LONG
from loading import load_text
from targets import PostgresTarget

ROUNDS = 400 if LONG else 25

COLUMNS = 3


@dataclass(frozen=True)
class Dialect:
    form: str
    delimiter: str
    quote: str
    escape: str
    null: str
    header: str
    end: str

    @property
    def options(self) -> dict[str, object]:
        """The dialect in Tipple's words."""
        options: dict[str, object] = {
            "format": self.form,
            "delimiter": self.delimiter,
            "null": self.null,
            "header": self.header,
        }
        if self.form == "csv":
            options |= {"quote": self.quote, "escape": self.escape}
        return options

    @property
    def copy(self) -> str:
        """The dialect in COPY's words."""

        def literal(text: str) -> str:
            return "'" + text.replace("'", "''") + "'"

        header = {"yes": "true", "no": "false", "match": "match"}[self.header]
        words = [f"FORMAT {self.form}", f"DELIMITER {literal(self.delimiter)}", f"NULL {literal(self.null)}"]
        words.append(f"HEADER {header}")
        if self.form == "csv":
            words += [f"QUOTE {literal(self.quote)}", f"ESCAPE {literal(self.escape)}"]
        return f"COPY twin FROM STDIN WITH ({', '.join(words)})"


def random_dialect(r: random.Random) -> Dialect:
    form = r.choice(["csv", "csv", "csv", "text"])
    delimiter = r.choice([",", ";", "\t", "|", "^", "A", "\x01"])
    quote = r.choice(['"', '"', "'", "*", "q"])
    escape = r.choice([quote, quote, "\\", "~", "z"])
    null = r.choice(["", "", "\\N", "NULL", "n", " "])
    if form == "text":
        delimiter = r.choice(["\t", "|", ",", ";"])
        null = r.choice(["\\N", "\\N", "", "NULL"])
    header = r.choice(["no", "no", "yes", "match"])
    return Dialect(form, delimiter, quote, escape, null, header, r.choice(["\n", "\n", "\r\n", "\r"]))


def random_field(r: random.Random, d: Dialect) -> str:
    alphabet = [
        "a",
        "b",
        " ",
        d.delimiter,
        d.quote,
        d.escape,
        "\n",
        "\r",
        "\r\n",
        "ä",
        "🚂",
        "n",
        "N",
        "\\",
        "",
        "",
    ]
    text = "".join(r.choice(alphabet) for _ in range(r.choice([0, 1, 1, 2, 3, 8])))
    return d.null if r.random() < 0.15 else text


def written(r: random.Random, d: Dialect, text: str, careless: float) -> str:
    """A field as a writer puts it in a file; with probability `careless` one that does not know how."""
    if r.random() < careless:
        return text
    if d.form == "text":
        for character, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
            text = text.replace(character, escaped)
        return text.replace(d.delimiter, "\\" + d.delimiter) if d.delimiter != "\t" else text
    special = any(character in text for character in (d.delimiter, d.quote, d.escape, "\n", "\r"))
    if special or text == "\\." or r.random() < 0.3:
        inner = text.replace(d.escape, d.escape * 2) if d.escape != d.quote else text
        inner = inner.replace(d.quote, d.escape + d.quote)
        return d.quote + inner + d.quote
    return text


def random_file(r: random.Random, d: Dialect) -> bytes:
    # Some files are faultless and long, so that they are stored; in others anything goes.
    careless = r.choice([0.0, 0.0, 0.0, 0.02, 0.3])
    records = []
    if d.header != "no":
        records.append(d.delimiter.join(["a", "b", "c"] if r.random() < 0.9 else ["a", "c", "b"]))
    for _ in range(r.choice([0, 1, 3, 50, 300])):
        count = COLUMNS if r.random() > careless / 5 else r.choice([1, 2, 4])
        records.append(d.delimiter.join(written(r, d, random_field(r, d), careless) for _ in range(count)))
    text = "".join(record + d.end for record in records)
    if r.random() < 0.3:
        text = text.removesuffix(d.end)
    return text.encode()


@pytest.mark.parametrize("seed", [pytest.param(seed, id=f"seed{seed}") for seed in range(ROUNDS)])
def test_same_as_copy(postgres_target: PostgresTarget, tmp_path: Path, seed: int) -> None:
    r = random.Random(seed)
    d = random_dialect(r)
    data = random_file(r, d)
    postgres_target.execute("CREATE TABLE t (a text, b text, c text); CREATE TABLE twin (LIKE t)")
    refusal = postgres_target.copy_in(d.copy, data)
    run = load_text(postgres_target, tmp_path / "in.data", data, check=False, **d.options)
    if refusal is not None and "column name mismatch" in refusal and run.exit_code == 0:
        # The one difference that is meant: COPY wants the names in the table's order, Tipple maps columns by name.
        assert d.header == "match"
        assert data.startswith(d.delimiter.join("acb").encode())
        return
    if refusal is not None:
        assert run.exit_code in (1, 2), f"COPY refuses: {refusal}\n{d}\n{data[:2000]!r}\n{run}"
        assert postgres_target.count("t") == 0
        return
    assert run.exit_code == 0, f"COPY takes it\n{d}\n{data[:2000]!r}\n{run}"
    for one, other in (("t", "twin"), ("twin", "t")):
        rows = postgres_target.rows(f"SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other}")
        assert rows == [], f"in {one} alone\n{d}\n{data[:2000]!r}"
