"""`--format auto` by content and `--schema auto`, from the files to the rows."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from command import run_tipple
from loading import load, load_here, load_text, load_words
from targets import DuckdbTarget, Row, Target, write
from tipple.run.sampling import take_sample

PEOPLE = (
    "Customer ID;Full Name;ZIP;Born;Balance;Active\n"
    '1;"Ann; A.";00123;1980-02-29;10.50;true\n'
    "2;Bob;04567;1990-01-01;-3.25;false\n"
    "3;;99999;;0.00;true\n"
)
ROWS = [
    (1, "Ann; A.", "00123", "1980-02-29", "10.50", True),
    (2, "Bob", "04567", "1990-01-01", "-3.25", False),
    (3, None, "99999", None, "0.00", True),
]
SELECT = (
    "SELECT customer_id, full_name, zip, CAST(born AS varchar), CAST(balance AS varchar), active "
    "FROM people ORDER BY customer_id"
)


def types_of(target: Target, table: str) -> dict[str, str]:
    """Names and types of the columns, in lower case."""
    sql = f"SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{table}'"
    return {name: type_text.lower() for name, type_text in target.rows(sql)}


def test_schema_auto(engine_target: Target, tmp_path: Path) -> None:
    path = write(tmp_path / "people.csv", PEOPLE)
    run = load(engine_target, path, table="people", schema="auto", verify="checksum")
    assert run.summary is not None
    assert run.summary["rows"] == 3
    assert "--delimiter ';'" in " ".join(run.summary["notes"])
    assert engine_target.rows(SELECT) == ROWS
    again = load(engine_target, path, table="people", schema="auto")
    assert "already loaded" in again.output
    assert engine_target.count("people") == 3


@pytest.mark.parametrize("header", ["yes", "match"])
def test_schema_auto_with_a_header_as_told(engine_target: Target, tmp_path: Path, header: str) -> None:
    path = write(tmp_path / "people.csv", PEOPLE)
    for expected in ("loaded", "already loaded"):
        run = load(engine_target, path, table="people", schema="auto", header=header)
        assert run.summary is not None
        assert run.summary["status"] == expected
    assert engine_target.rows(SELECT) == ROWS


def test_what_the_dry_run_prints_can_be_pasted(engine_target: Target, tmp_path: Path) -> None:
    path = write(tmp_path / "people.csv", PEOPLE)
    words = ["load", path, "--into", engine_target.url, "--table", "people", "--progress", "none"]
    # A DuckDB file has to be there for a dry run.
    engine_target.execute("CREATE TABLE other (a integer)")
    sniff = json.loads(run_tipple(*words, "--schema", "auto", "--dry-run", "--json").stdout)["sniff"]
    assert "people" not in {name.partition(".")[2] for name in engine_target.tables()}
    assert 0.5 < sniff["confidence"] <= 1
    assert {decision["option"] for decision in sniff["decisions"]} >= {"format", "delimiter", "quote", "header", "null"}
    assert [column["name"] for column in sniff["columns"]][:2] == ["customer_id", "full_name"]
    schema = write(tmp_path / "people.sql", sniff["create_table"])
    run_tipple(*words, "--schema", schema, *shlex.split(sniff["options"]))
    assert engine_target.rows(SELECT) == ROWS


TYPES = {
    "b": ("true", "boolean", "boolean"),
    "i": ("9223372036854775807", "bigint", "bigint"),
    "l": ("9223372036854775808", "numeric", "decimal(38,0)"),
    "n": ("1.25", "numeric", "decimal(18,2)"),
    "f": ("1.5e-3", "double precision", "double"),
    "d": ("2024-02-29", "date", "date"),
    "ts": ("2024-02-29 12:00:00.123456", "timestamp without time zone", "timestamp"),
    "tz": ("2024-02-29T12:00:00+02:00", "timestamp with time zone", "timestamp with time zone"),
    "t": ("23:59:59.5", "time without time zone", "time"),
    "u": ("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "uuid", "uuid"),
    "x": ("07", "text", "varchar"),
    "e": ("", "text", "varchar"),
}


def test_every_type_is_created_and_loaded(engine_target: Target, tmp_path: Path) -> None:
    names = list(TYPES)
    data = ",".join(names) + "\n" + (",".join(value for value, _, _ in TYPES.values()) + "\n") * 3
    run = load_text(engine_target, tmp_path / "in.csv", data, schema="auto")
    assert run.summary is not None
    assert run.summary["rows"] == 3
    place = 2 if engine_target.engine == "duckdb" else 1
    assert types_of(engine_target, "t") == {name: TYPES[name][place] for name in names}
    instant = engine_target.value("SELECT count(*) FROM t WHERE tz = CAST('2024-02-29 10:00:00+00' AS timestamptz)")
    assert instant == 3


def test_without_a_header(engine_target: Target, tmp_path: Path) -> None:
    load_text(engine_target, tmp_path / "in.dat", "1|a|\n2||\n", schema="auto")
    assert engine_target.rows("SELECT column1, column2 FROM t ORDER BY 1") == [(1, "a"), (2, None)]


def test_names_by_option(engine_target: Target, tmp_path: Path) -> None:
    load_text(engine_target, tmp_path / "in.csv", "1,a\n2,b\n", schema="auto", columns="id,name")
    assert engine_target.rows("SELECT id, name FROM t ORDER BY 1") == [(1, "a"), (2, "b")]
    run = load_text(engine_target, tmp_path / "other.csv", "1,a\n", schema="auto", columns="id", table="u", check=2)
    assert "--columns" in run.stderr


def test_a_code_that_means_null_elsewhere(engine_target: Target, tmp_path: Path) -> None:
    """Namibia."""
    text = "iso2,year,n\nAD,1989,NA\nAE,1990,5\nNA,1991,7\nNA,1992,NA\nZW,1993,3\n"
    run = load_text(engine_target, tmp_path / "in.csv", text, schema="auto")
    rows = engine_target.rows("SELECT iso2, n FROM t ORDER BY year")
    assert rows == [("AD", None), ("AE", 5), ("NA", 7), ("NA", None), ("ZW", 3)]
    assert "not sure" not in str(run.summary)


def test_with_a_format_as_told(engine_target: Target, tmp_path: Path) -> None:
    """Only the columns are guessed then: the format has COPY's defaults."""
    load_text(engine_target, tmp_path / "in.csv", "id,x\n1,a;b\n2,NA\n3,c\n", schema="auto", format="csv")
    assert engine_target.rows("SELECT id, x FROM t ORDER BY 1") == [(1, "a;b"), (2, "NA"), (3, "c")]


def unseen_line(path: Path, lines: Sequence[str], places: Iterable[int]) -> int:
    """The first of the places at which no sample of the file is taken."""
    pieces = [piece.data for piece in take_sample([str(path)]).pieces]
    return next(
        place
        for place in places
        if not any(lines[near].encode() in piece for near in (place - 50, place, place + 50) for piece in pieces)
    )


@pytest.mark.parametrize(("value", "column_type", "wider"), [("x7", "bigint", "text"), ("1e3", "bigint", "text")])
def test_a_later_value_that_does_not_fit(
    engine_target: Target, tmp_path: Path, value: str, column_type: str, wider: str
) -> None:
    """The bad record lies where no sample is taken."""
    lines = ["id,amount\n", *(f"{number},{number % 7}\n" for number in range(1_000_000, 1_900_000))]
    path = write(tmp_path / "in.csv", "".join(lines))
    unseen = unseen_line(path, lines, range(400_000, 900_000))
    lines[unseen] = f"1000000,{value}\n"
    write(path, "".join(lines))
    run = load(engine_target, path, schema="auto", check=1)
    assert value in run.stderr
    assert f"{unseen:,}" in run.stderr
    for word in ("column amount", column_type, f"type {wider}", "--schema"):
        assert word in run.stderr, word
    assert engine_target.leftovers() == set()


GUESSED = {
    "i": ("12", ["00123", "+5", "0x10", "1_0"]),
    "n": ("1.50", ["01.50", "0x10"]),
    "f": ("1.5e3", ["12345678901234567.25", "007"]),
    "d": ("2024-01-31", ["2024-01-31 23:59:59", "20240131"]),
    "s": ("2024-01-31 10:00:00", ["2024-01-31 10:00:00+05", "2024-01-31 10:00:00.1234567"]),
    "z": ("2024-01-31 10:00:00+00", ["2024-01-31 10:00:00"]),
    "b": ("t", ["y", "1", "off"]),
    "c": ("10:00:00", ["10:00:00.1234567"]),
}
"""By column: a value of the sample, and those that the guessed type takes too, but changes."""


def test_later_values_that_a_guessed_type_would_change(engine_target: Target, tmp_path: Path) -> None:
    """They are bad records; what the sample could have shown is none."""
    good = {name: value for name, (value, _) in GUESSED.items()}
    kept = [
        ("i", " -7"),
        ("n", "-3"),
        ("f", "0.30000000000000004"),
        ("s", "2024-01-31"),
        ("b", "false"),
        ("d", "infinity"),
    ]
    bad = [(name, value) for name, (_, values) in GUESSED.items() for value in values]
    if isinstance(engine_target, DuckdbTarget):
        # The only type with a scale.
        bad += [("n", "1.239"), ("n", "1e-3")]
    filler = "x" * 150

    def line(name: str = "", value: str = "", end: str = filler) -> str:
        return ",".join([*(value if name == column else text for column, text in good.items()), end]) + "\n"

    lines = [",".join([*good, "pad"]) + "\n", *(line() for _ in range(40_000)), line("b", "f")]
    lines[1] = line("b", "f")
    # Marked records as long as the others, so that the sample is taken in the same places.
    places = range(1_000, 40_000, 50)
    marked = {place: line(end=f"{place}mark".rjust(150, "x")) for place in places}
    for place, text in marked.items():
        lines[place] = text
    path = write(tmp_path / "in.csv", "".join(lines))
    pieces = b"".join(piece.data for piece in take_sample([str(path)]).pieces)
    unseen = [place for place in places if f"{place}mark".encode() not in pieces]
    for place, (name, value) in zip(unseen, [*kept, *bad], strict=False):
        room = 150 - len(value) + len(good[name])
        lines[place] = line(name, value, "x" * room)
    write(path, "".join(lines))
    run = load_here(
        engine_target, path, schema="auto", on_error="skip", max_rejects=100, rejects=tmp_path / "r", check=3
    )
    assert run.summary is not None
    with (tmp_path / "r.reasons.csv").open(encoding="utf-8", newline="") as file:
        rejects = list(csv.DictReader(file))
    found = [(int(row["record_number"]), row["column"]) for row in rejects]
    assert found == [(place, name) for place, (name, _) in zip(unseen[len(kept) :], bad, strict=False)]
    assert {row["sqlstate"] for row in rejects} == {"22P02", "22007"}
    assert engine_target.count("t") == len(lines) - 1 - len(bad)
    rows = engine_target.rows("SELECT i, n, CAST(d AS varchar) FROM t WHERE i = -7 OR n = -3 OR d = 'infinity'")
    assert len(rows) == 3
    failed = load_here(engine_target, path, table="u", schema="auto", check=1)
    assert f"{unseen[len(kept)]:,}, which begins" in failed.stderr
    for said in ("column    i", "'00123'", "guessed from a sample", "type text"):
        assert said in failed.stderr, said


@pytest.mark.parametrize(
    ("data", "options", "is_text", "second"),
    [
        ('7,1\n8,""\n', {"force_null": "b"}, False, None),
        ('7,1\n8,""\n', {"force_null": "*"}, False, None),
        ('7,1\n8,""\n', {"force_null": "A"}, True, ""),
        ('7,1\n8,"NA"\n', {"force_null": "B", "null": "NA"}, False, None),
        ('7,1\n8,"N/A"\n', {"force_null": "b", "null": "NA"}, True, "N/A"),
        ("7,1\n8,\n", {"force_not_null": "b"}, True, ""),
        ("7,1\n8,NA\n", {"force_not_null": "b", "null": "NA"}, True, "NA"),
        ('7,1\n8,""\n9,\n', {"force_not_null": "b", "force_null": "b"}, True, None),
    ],
)
def test_what_is_said_of_null_in_quotes(
    engine_target: Target, tmp_path: Path, data: str, options: dict[str, str], second: str | None, *, is_text: bool
) -> None:
    path = write(tmp_path / "in.csv", "a,b\n" + data)
    load_here(engine_target, path, schema="auto", format="csv", **options)
    types = types_of(engine_target, "t")
    assert (types["b"] in ("text", "varchar"), types["a"]) == (is_text, "bigint")
    assert engine_target.value("SELECT b FROM t WHERE a = 8") == second


def test_nothing_to_guess_from(engine_target: Target, tmp_path: Path) -> None:
    run = load_text(engine_target, tmp_path / "in.csv", "", schema="auto", check=2)
    assert "no whole record" in run.stderr
    run = load_text(engine_target, tmp_path / "letter.dat", "Dear all,\nnothing\n", schema="auto", check=2)
    assert "neither its name nor its content" in run.stderr
    assert "--format" in run.stderr


def test_nothing_at_all(engine_target: Target, tmp_path: Path) -> None:
    """It is said that there is nothing, and what the remedy says is so."""
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.dat", "")
    assert f"{path} is empty, and its name" in load(engine_target, path, check=2).stderr
    words = load_words(engine_target.url, ("-",), "t", {})
    run = run_tipple(*words, check=2)
    assert "standard input is empty\n" in run.stderr
    assert "--format csv loads 0 rows" in run.stderr
    run_tipple(*words, "--format", "csv")
    load(engine_target, path, format="csv")
    assert engine_target.count("t") == 0


EXISTING: list[tuple[str, str, str, list[Row]]] = [
    ("semicolons", "in.csv", "1;a,b\n2;c\n", [(1, "a,b"), (2, "c")]),
    ("tbl_without_last_bar", "in.tbl", '1|a"\n2|b\n', [(1, 'a"'), (2, "b")]),
    ("tabs_in_csv", "in.csv", "1\ta,b\n2\tc\n", [(1, "a,b"), (2, "c")]),
    ("nameless", "in", "1\ta\n2\t\\N\n", [(1, "a"), (2, None)]),
    ("control_characters", "000000_0", "1\x01a,b;c\n2\x01d\n", [(1, "a,b;c"), (2, "d")]),
    ("null_in_a_number", "in.csv", "1,a\nNA,b\n2,c\n", [(1, "a"), (2, "c"), (None, "b")]),
    ("null_in_a_text", "in.csv", "1,5\n2,NA\n3,\n", [(1, "5"), (2, "NA"), (3, None)]),
    ("trailing_delimiters", "in.csv", 'a;b;\n1;"x;y";\n2;z;\n', [(1, "x;y"), (2, "z")]),
    ("inches", "in.csv", '1,2" pipe\n2,3" x 4" pipe\n', [(1, '2" pipe'), (2, '3" x 4" pipe')]),
    ("backslashes", "in.csv", '1,"a\\"b"\n2,"c\\\\d"\n', [(1, 'a"b'), (2, "c\\d")]),
    ("apostrophes", "in.csv", "1,'a,b'\n2,'it''s'\n", [(1, "a,b"), (2, "it's")]),
    ("header_of_other_case", "in.csv", "B,A\nx,1\ny,2\n", [(1, "x"), (2, "y")]),
    ("header_of_other_names", "in.csv", "Nr,What\n1,x\n2,y\n3,z\n", [(1, "x"), (2, "y"), (3, "z")]),
]


@pytest.mark.parametrize(
    ("name", "data", "expected"), [case[1:] for case in EXISTING], ids=[case[0] for case in EXISTING]
)
def test_into_a_table_that_is_there(
    engine_target: Target, tmp_path: Path, name: str, data: str, expected: list[Row]
) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    load_text(engine_target, tmp_path / name, data)
    assert sorted(engine_target.rows("SELECT a, b FROM t"), key=lambda row: (row[0] is None, row[0])) == expected
    again = load(engine_target, tmp_path / name)
    assert "already loaded" in again.output


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_trailing_delimiters_and_bad_records(engine_target: Target, tmp_path: Path, delimiter: str) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    text = "a;b;\n" + "".join(f"{number};x;\n" for number in range(30)) + "30;a;b;\n31;c\n32;z;\n"
    path = write(tmp_path / "in.csv", text.replace(";", delimiter))
    run = load(engine_target, path, on_error="skip", max_rejects=2, rejects=tmp_path / "r", check=3)
    assert run.summary is not None
    assert run.summary["rejects"] == 2
    assert engine_target.rows("SELECT count(*), max(a), min(b), max(b) FROM t") == [(31, 32, "x", "z")]


def test_a_header_with_some_known_names(engine_target: Target, tmp_path: Path) -> None:
    """Positions would be guesswork."""
    engine_target.execute("CREATE TABLE t (a integer, b integer)")
    run = load_text(engine_target, tmp_path / "in.csv", "b,other\n1,2\n3,4\n5,6\n", check=2)
    assert "'other'" in run.stderr
    assert "--header" in run.stderr
    assert engine_target.count("t") == 0


def test_a_header_that_one_file_does_not_have(engine_target: Target, tmp_path: Path) -> None:
    """Nothing is skipped that may be a record, in files that were not sampled either."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    paths = [write(tmp_path / f"{i:02}.csv", "Nr,What\n" + f"{i},x\n" * 5) for i in range(20)]
    write(paths[1], "7,first\n8,second\n")
    run = load(engine_target, *paths, check=1)
    assert "Nr" in run.stderr
    assert engine_target.count("t") == 0


def test_unsure_is_said(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a varchar, b varchar)")
    run = load_text(engine_target, tmp_path / "in.dat", "a,b;c\nd,e;f\n")
    assert run.summary is not None
    assert run.summary["sniff"]["confidence"] < 0.7
    unsure = [note for note in run.summary["notes"] if "not sure of --delimiter" in note]
    assert len(unsure) == 1
    assert "or else --delimiter ';' (2 of 2 " in unsure[0]


def test_what_a_name_says_needs_no_note(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    run = load_text(engine_target, tmp_path / "in.csv", "1,a\n2,b\n3,c\n")
    assert run.summary is not None
    # The servers of the tests give up safety for speed, which is always worth a note.
    assert [note for note in run.summary["notes"] if "fsync: off" not in note and "full_page_writes" not in note] == []
    assert run.summary["sniff"]["options"].startswith("--format csv --delimiter , --quote '\"'")
    told = load_text(engine_target, tmp_path / "other.csv", "4,d\n", format="csv")
    assert told.summary is not None
    assert told.summary["sniff"] is None


def test_another_encoding(engine_target: Target, tmp_path: Path) -> None:
    """Letters of Windows-1252 are loaded as such, or the refusal names the encoding; never stored wrongly."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    path = write(tmp_path / "in.csv", "1,Größe\n2,Müller\n".encode("cp1252"))
    run = load(engine_target, path, check=False)
    if run.exit_code == 0:
        assert engine_target.rows("SELECT a, b FROM t ORDER BY a") == [(1, "Größe"), (2, "Müller")]
    else:
        assert run.exit_code == 2
        assert "WIN1252" in run.stderr
        assert engine_target.count("t") == 0


def test_inches_behind_the_first_part(engine_target: Target, tmp_path: Path) -> None:
    """Quotes in them swallowed rows."""
    pad = "some text so that records have a usual length"
    values = [f'{n}" pipe' if n >= 3000 and n % 99 == 0 else f"part {n}" for n in range(6000)]
    text = "".join(f"{n}|{value}|{pad}\n" for n, value in enumerate(values))
    load_text(engine_target, tmp_path / "parts.txt", text, schema="auto")
    assert engine_target.rows("SELECT column2 FROM t ORDER BY column1") == [(value,) for value in values]


def test_names_of_system_columns(engine_target: Target, tmp_path: Path) -> None:
    """PostgreSQL has columns of these names in every table; a second file finds those that were made."""
    header = "id,xmin,YMIN,xmax,ctid,tableoid,cmin,cmax,rowid\n"
    load_text(engine_target, tmp_path / "a.csv", f"{header}1,1.5,2,3,4,5,6,7,8\n2,2.5,3,4,5,6,7,8,9\n", schema="auto")
    load_text(engine_target, tmp_path / "b.csv", f"{header}3,3.5,4,5,6,7,8,9,1\n", schema="auto")
    names = ["id", "xmin", "ymin", "xmax", "ctid", "tableoid", "cmin", "cmax", "rowid"]
    is_duckdb = isinstance(engine_target, DuckdbTarget)
    columns = ", ".join(name if is_duckdb or name in ("id", "ymin", "rowid") else f"{name}_2" for name in names)
    rows = engine_target.rows(f"SELECT {columns} FROM t ORDER BY id")
    assert [[float(value) for value in row] for row in rows] == [
        [1, 1.5, 2, 3, 4, 5, 6, 7, 8],
        [2, 2.5, 3, 4, 5, 6, 7, 8, 9],
        [3, 3.5, 4, 5, 6, 7, 8, 9, 1],
    ]
