"""Backslashes: beside `\\N`, those of COPY's text format and of programs that escape nothing else; and in quotes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sniffing import decision, sniff, types
from targets import write
from tipple.plan.sniff_profile import LOW_CONFIDENCE


def lines(*values: str) -> str:
    """Records with the values by turns, and with NULL."""
    return "".join(f"{n}\t{values[n % len(values)]}\t{n if n % 3 else chr(92) + 'N'}\n" for n in range(12))


@pytest.mark.parametrize(
    "value",
    [
        "CORP\\user",
        "^\\d+\\s$",
        '{"a":"say \\"hi\\""}',
        "\\\\srv01\\share",
        "C:\\Users\\new",
        "it\\'s, 'tis",
        "dir\\9",
        "a\\xyz",
    ],
)
@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.dat"])
def test_backslashes_that_are_never_escaped_so(tmp_path: Path, value: str, name: str) -> None:
    """Hive, Sqoop and others write `\\N` for NULL, and all other backslashes as they are."""
    sniffed = sniff(write(tmp_path / name, lines(value, "plain")))
    dialect = sniffed.dialect
    assert (dialect.format, dialect.delimiter, dialect.quote, dialect.null_text) == ("csv", "\t", "\x02", "\\N")
    assert types(sniffed) == ["bigint", "text", "bigint"]
    assert min(found.confidence for found in sniffed.decisions) >= LOW_CONFIDENCE


@pytest.mark.parametrize("values", [("CORP\\user", "a\tb\tc"), ("^\\d$", "x\ty")])
def test_records_that_are_bad_ones_too(tmp_path: Path, values: tuple[str, ...]) -> None:
    dialect = sniff(write(tmp_path / "a.tsv", lines(*values[:1] * 9, values[1]))).dialect
    assert (dialect.format, dialect.quote, dialect.null_text) == ("csv", "\x02", "\\N")


@pytest.mark.parametrize(
    "value",
    [
        # PostgreSQL's COPY.
        "C:\\\\temp\\\\new",
        "two\\nlines",
        "\\\\x00ff",
        '{"a":"say \\\\"hi\\\\""}',
        "\\\\\\\\srv01\\\\share",
        "a\\tb\\\\d",
        "\\303\\251",
        # MySQL, and what its `real_escape_string` makes.
        "a\\\nb",
        "a\\\tb",
        "nul \\0 and \\\\d",
        'say \\"hi\\", it\\\'s \\Z',
    ],
)
@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.dat"])
def test_backslashes_that_escape(tmp_path: Path, value: str, name: str) -> None:
    sniffed = sniff(write(tmp_path / name, lines(value, "plain")))
    assert (sniffed.dialect.format, sniffed.dialect.null_text) == ("text", "\\N")
    assert types(sniffed) == ["bigint", "text", "bigint"]
    assert decision(sniffed, "format").confidence >= LOW_CONFIDENCE


@pytest.mark.parametrize(
    ("value", "format"),
    [
        ("C:\\temp\\new", "text"),
        ("\\\\nas\\new", "text"),
        ("CORP\\bob", "text"),
        ("a\\b", "text"),
        ("CORP\\user and a\\\\b", "csv"),
    ],
)
def test_backslashes_that_may_be_either(tmp_path: Path, value: str, format: str) -> None:
    found = decision(sniff(write(tmp_path / "a.tsv", lines(value, "plain"))), "format")
    assert (found.value, found.confidence < LOW_CONFIDENCE) == (format, True)
    assert found.alternatives == ("csv" if format == "text" else "text",)


IN_QUOTES = [
    # Redshift with ADDQUOTES ESCAPE, and MySQL.
    ('{n}|"a\\|b"|"x"\n', "delimiters"),
    ('{n}|"say \\"hi\\""|"a\\|b"\n', "delimiters"),
    ('"{n}"|"two\\\nlines"|"x"\n', "line ends"),
    ('{n},"two\\\nlines, and more",1.5\n', "line ends"),
    ('{n},"two\\\r\nlines",1.5\r\n', "line ends"),
]


@pytest.mark.parametrize(("record", "signs"), IN_QUOTES)
@pytest.mark.parametrize("first", [0, 9000])
def test_escapes_in_quotes_that_stay_in_the_values(tmp_path: Path, record: str, signs: str, first: int) -> None:
    plain = record.replace("a\\|b", "some text").replace("\\\n", " ").replace("\\\r\n", " ")
    text = "".join((record if n >= first else plain).replace("{n}", str(n)) for n in range(first + 20))
    quote = decision(sniff(write(tmp_path / "a.csv", text)), "quote")
    assert (quote.value, quote.confidence < LOW_CONFIDENCE) == ('"', True)
    assert f"before {signs}" in quote.reason
    assert "unload again" in quote.reason


@pytest.mark.parametrize(
    "record",
    [
        '{n},"a, b","C:\\temp\\"\n',
        '{n},"C:\\temp\\, D:\\","a, b"\n',
        '{n},"a, b\nc","back\\slash"\n',
        '{n},"a \\\\, b","c"\n',
        "{n},C:\\temp\\,b\n",
    ],
)
def test_backslashes_in_quotes_that_escape_nothing(tmp_path: Path, record: str) -> None:
    text = "".join(record.replace("{n}", str(n)) for n in range(20))
    assert decision(sniff(write(tmp_path / "a.csv", text)), "quote").confidence >= LOW_CONFIDENCE


def informix(value: str, *, every: int) -> str:
    """Records as UNLOAD TO writes them: a bar after every field, a backslash before those inside."""
    return "".join(f"{n}|{value if n % every == 0 else 'ab'}|2024-01-02|\n" for n in range(50))


@pytest.mark.parametrize("value", ["a\\|b", "two\\\nlines", "c:\\\\dir\\|"])
@pytest.mark.parametrize("name", ["a.unl", "a.txt"])
def test_bars_after_every_field_beside_escaped_ones(tmp_path: Path, value: str, name: str) -> None:
    sniffed = sniff(write(tmp_path / name, informix(value, every=5)))
    dialect = sniffed.dialect
    assert (dialect.format, dialect.delimiter, dialect.trailing_delimiter) == ("text", "|", True)
    assert types(sniffed) == ["bigint", "text", "date"]


def test_bars_that_are_escaped_in_every_record(tmp_path: Path) -> None:
    """The number of columns tells what they are; without it, a note does."""
    path = write(tmp_path / "a.unl", informix("a\\|b", every=1))
    dialect = sniff(path, 3).dialect
    assert (dialect.format, dialect.trailing_delimiter) == ("text", True)
    doubted = decision(sniff(path), "format")
    assert (doubted.confidence < LOW_CONFIDENCE, doubted.alternatives) == (True, ("text",))


def test_an_empty_text_at_the_end_of_every_record(tmp_path: Path) -> None:
    sniffed = sniff(write(tmp_path / "a.txt", "".join(f"{n}\ta\\tb\t\n" for n in range(20))))
    assert (sniffed.dialect.format, sniffed.dialect.trailing_delimiter, sniffed.profile.fields) == ("text", False, 3)
