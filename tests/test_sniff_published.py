"""Shapes of published files that were read the wrong way: their headers, their delimiters, their numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from loading import load_here
from sniffing import decision, sniff, types
from targets import DuckdbTarget, write
from tipple.plan.sniff_profile import LOW_CONFIDENCE

NUMBERS = "".join(f"{1959 + i},{i * 1.5 + 0.1},{i * 7 + 3},{i * 10 + 200}\n" for i in range(40))
STATEMENT = "".join(f'{1 + i % 28:02}.09.2017;"HOFER DANKT {i}";-{10 + i},{i + 10};EUR\n' for i in range(30))
INCIDENTS = "".join(f"20180{i}|A, B {i}|Riscos{', Queda' * (i % 4)} / Via {i}|{38 + i},8{i}\n" for i in range(12))


@pytest.mark.parametrize(
    ("text", "value", "sure"),
    [
        # Years of any century, over numbers of any length.
        ("Life expectancy,1800,1801,1802\nNorway,37.9,36.3,37.2\nPeru,35.7,35.7,35.7\n", "yes", True),
        ("country,1991,1992,1993\nNorway,4242,4312,4407\nPeru,6217,6259,6301\n", "yes", True),
        ("country,1820,1830,1840\nNorway,4242,4312,4407\nPeru,6217,6259,6301\n", "yes", True),
        (",1820,1830,1840\nNorway,4242,4312,4407\nPeru,6217,6259,6301\n", "no", False),
        # Prices, ports, grams and metrics.
        ("chair,1990,2000\ntable,4990,5000\nlamp,7900,8000\n", "no", False),
        ("web,2000,2001,2002\ndb,5432,5433,5434\nmq,5672,5673,5674\n", "no", False),
        ("apple,1500,1510,1520\npear,900,910,920\nplum,800,810,830\n", "no", False),
        ("height,2010\nweight,7500\nwidth,1400\ndepth,1234\n", "no", False),
        ("Norway,1891,1892,1893\nPeru,1895,1896,1897\nChad,1901,1902,1903\n", "no", True),
        ("widget,1000,1001,1002\ngadget,2004,2005,2006\nother,3,4,5\n", "no", True),
        # One of its names is a value as well.
        ("code,English\naa,Afar\nel,Greek\nen,English\nfr,French\nnl,Dutch\n", "no", False),
        # A column without a name; one name twice.
        ("Day Processed,Description,Amount,\n12-Dec,A,£1,\n13-Dec,B,£2,\n14-Dec,C,£3,CR\n", "no", False),
        ("Team,Player,Team,Player\nOslo,Ann,Bergen,Bea\nRoma,Carla,Milan,Dora\n", "no", False),
        ("Date;Payee;In;skip;skip\nfirst;A;x;y;z\nsecond;B;v;w;u\n", "no", False),
        ("Hill,Kai,Hill,Ann\nWay,Eva,Moor,Lea\nRoad,Bob,Lane,Tim\n", "no", True),
        # R's matrices.
        ('"","1","2","3"\n"1",50,19,26\n"2",16,40,34\n"3",12,35,65\n', "yes", False),
        ('"1","2","3"\n"4","5","6"\n"7","8","9"\n', "no", True),
        ('"1","2","3"\n4,5,6\n7,8,9\n', "no", True),
        ('"","",""\nx,7,y\nz,8,\n', "no", True),
        # Over shares, and amounts by Indian groups.
        ("Region,Turnout\n" + "".join(f"Shire {'ab'[n % 2]},{n}.86%\n" for n in range(8)), "yes", False),
        ("Region,Voters\n" + "".join(f'Shire,"{n},42,782"\n' for n in range(1, 8)), "yes", False),
        ("Region,Turnout\nShire,1%\nHill,none known\n" + 6 * "Way,2%\n", "no", False),
        # Names that are words of values.
        (f"year,inf,gdp,pop\n{NUMBERS}", "yes", False),
        (f"true,false,a,b\n{NUMBERS}", "yes", False),
        (f"inf,nan,true,b\n{NUMBERS}", "no", False),
        (f"1958,inf,2,190\n{NUMBERS}", "no", True),
    ],
)
def test_headers(tmp_path: Path, text: str, value: str, sure: bool) -> None:
    header = sniff(write(tmp_path / "a.csv", text)).header
    assert (header.value, header.confidence >= LOW_CONFIDENCE) == (value, sure), header


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        (f"Kontostand am 30.09.2017: 1.234,56 EUR\n{STATEMENT}", ";"),
        (STATEMENT.replace(";EUR", ";EUR;;") + "x;y;z\n", ";"),
        (INCIDENTS + "2018099|A\n| B|Riscos, X, Y|1,5\n", "|"),
        # Lists between commas.
        ("id,list\n" + "".join(f"{i},{i};2;3\n" for i in range(9)), ","),
    ],
)
def test_what_the_name_says_is_not_what_divides(tmp_path: Path, text: str, delimiter: str) -> None:
    assert sniff(write(tmp_path / "a.csv", text)).dialect.delimiter == delimiter


def test_records_that_end_with_a_delimiter_below_a_header_that_does_not(tmp_path: Path) -> None:
    """R writes such files too, of row names without a name and a column of which all is missing."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    path = write(tmp_path / "a.csv", "id,day,amount\n" + "".join(f"{i},2024-01-0{i},5,\n" for i in range(1, 9)))
    refused = load_here(target, path, schema="auto", check=2)
    assert "or --trailing-delimiter yes where all records end with a delimiter" in " ".join(refused.stderr.split())
    load_here(target, path, schema="auto", trailing_delimiter="yes")
    assert target.rows("SELECT count(id), min(amount) FROM t") == [(8, 5)]


@pytest.mark.parametrize(
    ("values", "type_text"),
    [
        # As programs print doubles.
        (["19.246", "1.8630000000000002", "0.07584994472279401"], "double precision"),
        # More digits than a double has; amounts.
        (["19.246", "1.86300000000000021234"], "decimal(38,20)"),
        (["1234567890123456.25", "1234567890123456.75"], "decimal(38,2)"),
    ],
)
def test_numbers(tmp_path: Path, values: list[str], type_text: str) -> None:
    text = "id,x\n" + "".join(f"{i},{value}\n" for i, value in enumerate(values))
    assert types(sniff(write(tmp_path / "a.csv", text)), unbounded_numeric=False)[1] == type_text


def test_a_title_above_a_table(tmp_path: Path) -> None:
    """It names no column."""
    path = write(tmp_path / "a.csv", "Report\n1,2\n3,4\n")
    refused = load_here(DuckdbTarget(tmp_path / "x.duckdb"), path, schema="auto", check=1)
    assert "--skip-lines leaves such lines out" in " ".join(refused.stderr.split())


@pytest.mark.parametrize("options", [{}, {"header": "yes"}, {"header": "match"}], ids=["sniffed", "yes", "match"])
def test_a_header_with_fewer_names_than_fields(tmp_path: Path, options: dict[str, str]) -> None:
    """Nobody knows to which fields they belong, and what is printed says it either way."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    path = write(tmp_path / "a.csv", "height,weight,name\n1,170,60,Ann\n2,180,80,Bob\n3,165,55,Cy\n")
    refused = load_here(target, path, schema="auto", check=2, **options)
    said = " ".join(refused.stderr.split())
    assert "the header has 3 names, and the records have 4 fields" in said
    assert "--header yes --columns column1,height,weight,name where" in said
    load_here(target, path, schema="auto", header="yes", columns="column1,height,weight,name")
    assert target.rows("SELECT height, weight, name FROM t ORDER BY column1") == [
        (170, 60, "Ann"), (180, 80, "Bob"), (165, 55, "Cy"),
    ]  # fmt: skip


def test_a_delimiter_that_is_given_is_reason_enough(tmp_path: Path) -> None:
    """For a file whose name says nothing: it is one of those that the sniffer prints."""
    path = write(tmp_path / "app.log", "20171223-22:15:29:606|Step_LSC|30002312|onStandStepChanged 3579\n" * 9)
    sniffed = sniff(path, delimiter=":")
    assert decision(sniffed, "format").value == "csv"
    assert sniffed.profile.fields == 4
