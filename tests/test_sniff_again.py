"""What stands behind the part of a sample on which all layouts are tried: rows were swallowed, and values changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sniffing import decision, sniff
from targets import write
from tipple.plan.sniff_profile import LOW_CONFIDENCE, Given
from tipple.run.sniff import SMALL_HEAD_BYTES, Sniffer

RECORDS = 5000
FIRST = 3000
"""The first record that is unlike those before it; it lies behind that part."""
PAD = "some text so that records have a usual length"


def records(line: Callable[[int, str], str], late: str | None, *, first: int = FIRST, every: int = 9) -> str:
    """Lines of which some, from a record on, have another text than all others."""
    odd = [late is not None and n >= first and n % every == 0 for n in range(RECORDS)]
    lines = [line(n, late if is_odd and late is not None else f"part {n}") for n, is_odd in enumerate(odd)]
    assert sum(map(len, lines[:FIRST])) > SMALL_HEAD_BYTES
    return "".join(f"{text}\n" for text in lines)


def plain(delimiter: str) -> Callable[[int, str], str]:
    return lambda n, text: delimiter.join((str(n), text, PAD, f"{n}.5"))


def outfile(n: int, text: str) -> str:
    """As MySQL and COPY write it."""
    return "\t".join((str(n), text, PAD, "\\N" if "\\" in text else f"{n}.5"))


def mysql(n: int, text: str) -> str:
    """As `ENCLOSED BY '"' ESCAPED BY '\\\\'` writes it."""
    escaped = text.replace('"', '\\"')
    return f'{n},"{escaped}","{PAD}",{n}.5'


CASES: dict[str, tuple[str, Callable[[int, str], str], str, tuple[str, str, str | None, str | None]]] = {
    "nicknames": ("a.txt", plain("|"), 'SMITH, JOHN "JACK"', ("csv", "|", "\x02", "\x02")),
    "inches": ("a.txt", plain("|"), '5" pipe', ("csv", "|", "\x02", "\x02")),
    "inches_between_commas": ("a.csv", plain(","), '5" pipe', ("csv", ",", "\x02", "\x02")),
    "escaped_quotes": ("a.dat", mysql, 'the "El Nudo" port', ("csv", ",", '"', "\\")),
    "single_backslashes": ("a.txt", plain("\t"), "Foo\\Bar", ("csv", "\t", '"', '"')),
    "doubled_backslashes": ("a.dat", outfile, "C:\\\\temp", ("text", "\t", None, None)),
    "escaped_delimiters": ("a.csv", plain("|"), "a\\|b", ("text", "|", None, None)),
    "apostrophes": ("a.csv", plain(","), "'a, b'", ("csv", ",", "'", "'")),
    "quotes_among_tabs": ("a.txt", plain("\t"), '"Smith, J"', ("csv", "\t", '"', '"')),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("first", [1, FIRST])
def test_what_stands_behind_the_first_part(tmp_path: Path, case: str, first: int) -> None:
    name, line, late, expected = CASES[case]
    dialect = sniff(write(tmp_path / name, records(line, late, first=first))).dialect
    quotes = (dialect.quote, dialect.escape) if dialect.format == "csv" else (None, None)
    assert (dialect.format, dialect.delimiter, *quotes) == expected


def test_several_files(tmp_path: Path) -> None:
    """Of each of them the part is smaller."""
    text = "id|name|note|amt\n" + records(plain("|"), 'SMITH, JOHN "JACK"', first=300)
    paths = [str(write(tmp_path / f"{i}.txt", text)) for i in range(12)]
    dialect = Sniffer(paths, "auto", Given()).look(None).dialect
    assert (dialect.format, dialect.delimiter, dialect.quote) == ("csv", "|", "\x02")


def test_an_optional_last_column(tmp_path: Path) -> None:
    """Nothing but empty fields at the beginning made a trailing delimiter of the one before it."""
    text = "".join(f"{n},{PAD},{'0700' if n >= FIRST and n % 3 == 0 else ''}\n" for n in range(RECORDS))
    sniffed = sniff(write(tmp_path / "a.csv", text))
    assert not sniffed.dialect.trailing_delimiter
    assert sniffed.profile.fields == 3


def test_a_broken_record_behind_quotes_around_all(tmp_path: Path) -> None:
    """It is told; to store the quotes of all the others would be no answer to it."""
    text = records(lambda n, value: f'"{n}"\t"{value}"\t"{PAD}"', 'a" b', every=RECORDS)
    text += '"broken\t5" x\n' + records(lambda n, value: f'"{n}"\t"{value}"\t"{PAD}"', None)
    for name in ("a.txt", "a.dat", "a.csv"):
        sniffed = sniff(write(tmp_path / name, text))
        assert (sniffed.dialect.format, sniffed.dialect.delimiter, sniffed.dialect.quote) == ("csv", "\t", '"')
        assert decision(sniffed, "quote").confidence < LOW_CONFIDENCE


def test_quotes_that_make_sense_are_counted(tmp_path: Path) -> None:
    sniffed = sniff(write(tmp_path / "a.csv", records(plain(","), '"a, b"')))
    quote = decision(sniffed, "quote")
    assert (quote.value, sniffed.profile.regularity) == ('"', 1.0)
    assert "fields are quoted" in quote.reason


@pytest.mark.parametrize("footer", ['"---"', "---", '"Total"\t5', 'Source: "a" and "b"'])
@pytest.mark.parametrize("count", [300, RECORDS])
@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.dat"])
def test_a_footer_below_fields_in_quotes(tmp_path: Path, footer: str, count: int, name: str) -> None:
    """One such line made data of the quotes of all records."""
    lines = (f'"Alabama, North"\t"{n % 57:02d}"\t{n}\n' for n in range(count))
    sniffed = sniff(write(tmp_path / name, '"State"\t"State Code"\tDeaths\n' + "".join(lines) + footer + "\n"))
    assert (sniffed.dialect.format, sniffed.dialect.delimiter, sniffed.dialect.quote) == ("csv", "\t", '"')
    assert sniffed.header.value == "yes"
