"""Values behind the sample, which a guess would store as something else than they are: they stay, or are refused."""

from __future__ import annotations

import gzip
import shlex
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from command import run_tipple
from loading import load
from targets import Target, write

PAD = "x" * 480
RECORDS = 32_000
"""A file of 16 MB, of which a sample is read."""
LATE = 10_007
"""A record that is in none."""


def large(path: Path, header: str, record: str, late: str) -> Path:
    """A file with one record that the sample does not have."""
    lines = [record.format(n=n, pad=PAD) for n in range(RECORDS)]
    lines[LATE] = late.format(pad=PAD)
    return write(path, header + "".join(lines))


@pytest.mark.parametrize("word", ["NA", "NULL", "-"])
@pytest.mark.parametrize("given", [False, True], ids=["schema-auto", "table"])
def test_a_word_that_means_null_in_columns_of_numbers(
    engine_target: Target, tmp_path: Path, word: str, *, given: bool
) -> None:
    """`NA` is Namibia among the codes of countries; that numbers are missing there says nothing of texts."""
    lines = [f"{n},{word if n % 50 == 0 else n},DE,{PAD}\n" for n in range(RECORDS)]
    lines[LATE] = f"{LATE},{word},{word},{PAD}\n"
    path = write(tmp_path / "in.csv", "id,v,country,pad\n" + "".join(lines))
    if given:
        engine_target.execute("CREATE TABLE t (id integer, v integer, country varchar(2000) NOT NULL, pad text)")
    options = {} if given else {"schema": "auto"}
    run = load(engine_target, path, **options)
    rows = engine_target.rows(f"SELECT v, country FROM t WHERE id = {LATE}")
    assert rows == [(None, word)]
    assert engine_target.value("SELECT count(*) FROM t WHERE v IS NULL") == RECORDS // 50 + 1
    assert run.summary is not None
    # The options that are printed read it the same way.
    words = shlex.split(run.summary["sniff"]["options"])
    assert words[words.index("--force-not-null") + 1] == '"country","pad"'
    engine_target.execute("CREATE TABLE again (id integer, v integer, country text, pad text)")
    run_tipple("load", path, "--into", engine_target.url, "--table", "again", "--progress", "none", *words)
    assert engine_target.rows(f"SELECT v, country FROM again WHERE id = {LATE}") == rows


def test_a_word_for_null_that_texts_show_too(engine_target: Target, tmp_path: Path) -> None:
    """As before: it means NULL there, and the note says that it may not."""
    lines = [f"{n},{'NA' if n % 5 == 0 else n},{'NA' if n % 7 == 0 else 'Chad'}\n" for n in range(100)]
    run = load(engine_target, write(tmp_path / "in.csv", "id,v,country\n" + "".join(lines)), schema="auto")
    assert engine_target.value("SELECT count(*) FROM t WHERE country IS NULL") == 15
    assert run.summary is not None
    assert any("stands among texts too" in note for note in run.summary["notes"])


@pytest.mark.parametrize("given", [False, True], ids=["schema-auto", "table"])
@pytest.mark.parametrize("late", ["05/06/45", "1/2/24"])
def test_years_of_two_digits_in_a_guessed_order(
    engine_target: Target, tmp_path: Path, late: str, *, given: bool
) -> None:
    path = large(tmp_path / "in.csv", "d,pad\n", "13/12/2024,{pad}\n", f"{late},{{pad}}\n")
    if given:
        engine_target.execute("CREATE TABLE t (d date, pad text)")
    options = {} if given else {"schema": "auto"}
    run = load(engine_target, path, check=1, **options)
    assert f"record    {LATE + 1:,}," in run.stderr
    assert f'the year of "{late}" has two digits' in run.stderr
    assert "--date-style DMY" in run.stderr
    # As it is said there.
    load(engine_target, path, date_style="DMY", **options)
    assert engine_target.count("t") == RECORDS
    assert engine_target.value("SELECT count(*) FROM t WHERE d < DATE '2024-12-13' OR d > DATE '2024-12-13'") == 1


@pytest.mark.parametrize(
    "late",
    ["a0eebc999c0b4ef8bb6d6bb9bd380a11", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "A0EE-BC999C0B4EF8BB6D6BB9BD380A11"],
)
def test_a_hash_among_uuids(engine_target: Target, tmp_path: Path, late: str) -> None:
    """A uuid is 32 digits as well, and would be stored with hyphens."""
    usual = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"
    path = large(
        tmp_path / "in.csv", "id,pad\n", f"{usual},{{pad}}\n", late.replace("{", "{{").replace("}", "}}") + ",{pad}\n"
    )
    run = load(engine_target, path, schema="auto", check=1)
    assert f"record    {LATE + 1:,}," in run.stderr
    assert "give the column the type text" in run.stderr
    load(engine_target, path, schema="auto", on_error="skip", max_rejects=1, rejects=tmp_path / "bad.csv", check=3)
    assert engine_target.rows("SELECT count(*), count(DISTINCT id) FROM t") == [(RECORDS - 1, 1)]


@pytest.mark.parametrize(
    ("number", "kind", "first"),
    [("1.234", "thousands", 1234), ("12.34", "fractions", None), ("0.125", "fractions", None)],
)
def test_points_beside_decimal_commas(
    engine_target: Target, tmp_path: Path, number: str, kind: str, first: int | None
) -> None:
    """German thousands were stored as fractions, a thousandth of what they are."""
    lines = [f"{n};{number if n % 2 else 950};{'1.234,15' if n % 3 else '0,50'}\n" for n in range(60)]
    path = write(tmp_path / "de.csv", "id;umsatz;anteil\n" + "".join(lines))
    run = load(engine_target, path, schema="auto")
    assert run.summary is not None
    doubts = [note for note in run.summary["notes"] if "not sure of --decimal-separator" in note]
    if kind == "thousands":
        assert engine_target.rows("SELECT umsatz, anteil FROM t WHERE id = 1") == [(first, Decimal("1234.15"))]
        assert doubts
    else:
        assert engine_target.rows("SELECT anteil FROM t WHERE id = 1") == [("1.234,15",)]
        assert not doubts


def test_text_of_dos_is_refused(engine_target: Target, tmp_path: Path) -> None:
    path = write(tmp_path / "dos.csv", ("name,place\n" + "Müller,Straße\n" * 30).encode("cp850"))
    engine_target.execute("CREATE TABLE t (name text, place text)")
    run = load(engine_target, path, check=1)
    assert "record    1," in run.stderr
    assert "iconv -f CP850 -t UTF-8" in run.stderr
    assert engine_target.count("t") == 0


@pytest.mark.parametrize(
    ("text", "kind", "said", "unsaid"),
    [
        ("01-JAN-2024", "date", "ISO form", "--date-style"),
        ("1700000000", "timestamp", "ISO form", "--date-style"),
        ("01.02.2024", "date", "--date-style DMY or MDY", "--force-null"),
        ('""', "double precision", "--force-null v", "mend the value"),
    ],
)
def test_remedies_that_help(tmp_path: Path, text: str, kind: str, said: str, unsaid: str) -> None:
    """An order of day and month is no help for a name of a month, and `mend the value` none for thousands of empty
    texts."""
    url = f"duckdb:///{tmp_path}/d.duckdb"
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t (n integer, v {kind})")
    path = write(tmp_path / "in.csv", f"1,{text}\n")
    run = load(url, path, check=1, format="csv", header="no")
    assert said in run.stderr, run.stderr
    assert unsaid not in run.stderr


STREAMED = 50_000
"""Records of a packed file, of which nothing but the beginning is sampled."""


def packed(path: Path, header: str, record: Callable[[int], str], late: str) -> Path:
    """A packed file whose last record is unlike the others."""
    lines = [record(n) for n in range(STREAMED)]
    return write(path, gzip.compress("".join([header, *lines, late]).encode(), 1))


@pytest.mark.parametrize(
    ("header", "record", "late", "said", "options"),
    [
        (
            "",
            "{n},some text of a usual length,x{n},\n",
            "1,some text,x,0700\n",
            "--trailing-delimiter no",
            {"trailing_delimiter": "no"},
        ),
        (
            "",
            "{n}|some text of a usual length|x{n}|\n",
            "1|some text|x|0700\n",
            "--trailing-delimiter no",
            {"trailing_delimiter": "no"},
        ),
        ("id,note\n", "{n},some text of a usual length\n", "12\u00a0,a\n", "the type text", {}),
        (
            "id;note;price\n",
            "{n};some text of a usual length;5,50\n",
            "1;a;1.234,50\n",
            "--decimal-separator , --thousands .",
            {"decimal_separator": ",", "thousands": "."},
        ),
        ("day,note\n", "2024-01-31,some text of a usual length\n", "2024-01-31 10:00,a\n", "the type timestamp", {}),
    ],
    ids=["trailing", "trailing-bars", "no-break-space", "thousands", "timestamp"],
)
def test_remedies_for_values_behind_the_sample(
    engine_target: Target, tmp_path: Path, header: str, record: str, late: str, said: str, options: dict[str, str]
) -> None:
    """They name what was guessed, and help."""
    path = packed(tmp_path / "in.dat.gz", header, lambda n: record.format(n=n), late)
    run = load(engine_target, path, schema="auto", check=1)
    assert said in run.stderr
    assert "--date-style" not in run.stderr
    if options:
        load(engine_target, path, schema="auto", **options)
        assert engine_target.count("t") == STREAMED + 1


def test_a_header_longer_than_the_records(engine_target: Target, tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "a,b,c,\n" + "".join(f"r{n},{n},{n}.5\n" for n in range(50)))
    run = load(engine_target, path, schema="auto", check=1)
    assert "ALTER TABLE" not in run.stderr
    assert "--header yes" in run.stderr
    assert "--skip-lines 1" in run.stderr
    load(engine_target, path, schema="auto", header="yes")
    assert engine_target.rows("SELECT count(*), max(b) FROM t") == [(50, 49)]
