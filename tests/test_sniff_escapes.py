"""Backslashes beside `\\N`: those of COPY's text format, and of programs that escape nothing else."""

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
