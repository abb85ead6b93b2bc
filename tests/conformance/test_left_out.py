"""Fields of text files that no column takes: `--columns a,-,b`, or a header with more names than `--columns` has."""

from __future__ import annotations

import csv
import io
import itertools
import random
from pathlib import Path

import pytest

from loading import load, load_here
from targets import DuckdbTarget, PostgresTarget, Row, Target, write

TABLE = "CREATE TABLE t (id bigint, name varchar, day date, price numeric(9,2))"
JUNK = ["", "x", "no date", 'a "quoted" one', "two\nlines", "a,b", "é" * 300, "9" * 40]


@pytest.fixture
def target(tmp_path: Path) -> DuckdbTarget:
    return DuckdbTarget(tmp_path / "t.duckdb")


def rows_of(count: int) -> list[tuple[int, str, str, str]]:
    random.seed(count)
    return [
        (row, f"n,{row}" if row % 3 else "", f"2024-02-{row % 28 + 1:02}", f"{row}.{row % 100:02}")
        for row in range(count)
    ]


def csv_of(rows: list[tuple[int, str, str, str]], places: tuple[int, ...], head: list[str] | None = None) -> str:
    """The rows with a field of junk at each of the places."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    if head:
        writer.writerow(head)
    for row in rows:
        fields: list[object] = list(row)
        for place in places:
            fields.insert(place, random.choice(JUNK))
        writer.writerow(fields)
    return out.getvalue()


def asked(places: tuple[int, ...]) -> str:
    names = ["id", "name", "day", "price"]
    for place in places:
        names.insert(place, "-")
    return ",".join(names)


def stored(target: Target) -> list[Row]:
    return sorted(target.rows("SELECT id, coalesce(name, ''), CAST(day AS varchar), CAST(price AS varchar) FROM t"))


@pytest.mark.parametrize("places", [(0,), (2,), (4,), (0, 1), (1, 3, 5), (4, 5, 6)])
def test_by_their_place(engine_target: Target, tmp_path: Path, places: tuple[int, ...]) -> None:
    """First, last, in between, several in a row; whatever they hold."""
    engine_target.execute(TABLE)
    rows = rows_of(3000)
    file = write(tmp_path / "in.csv", csv_of(rows, places))
    load(engine_target, file, columns=asked(places), jobs=3, verify="checksum")
    assert stored(engine_target) == rows


def test_where_the_server_reads(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(TABLE)
    rows = rows_of(500)
    load(
        postgres_target,
        write(tmp_path / "in.csv", csv_of(rows, (0, 3))),
        columns=asked((0, 3)),
        write_path="text",
    )
    assert stored(postgres_target) == rows


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["in.tsv", "in.tbl"])
def test_in_other_formats(engine_target: Target, tmp_path: Path, name: str, line_end: str) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    between, end = ("|", "|") if name == "in.tbl" else ("\t", "")
    lines = [between.join(["x" * (row % 9), str(row), "\\y", f"b{row}"]) + end + line_end for row in range(500)]
    load(engine_target, write(tmp_path / name, "".join(lines)), columns="-,a,-,b")
    assert sorted(engine_target.rows("SELECT a, b FROM t")) == [(row, f"b{row}") for row in range(500)]


def test_of_fixed_widths(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    file = write(tmp_path / "in.fix", "  1junkab\n 22 é  c \n")
    load(engine_target, file, format="fixed", field_widths="3,4,2", columns="a,-,b")
    assert engine_target.sorted_rows("t") == [(1, "ab"), (22, "c")]
    run = load(engine_target, file, format="fixed", field_widths="3,4", columns="a,-,b", check=2)
    assert "has 2 widths for 3 fields" in run.stderr


@pytest.mark.parametrize("header", [None, "match"])
@pytest.mark.parametrize("columns", ["id,name,day,price", "price,id,name,day"])
def test_by_the_names_of_a_header(engine_target: Target, tmp_path: Path, columns: str, header: str | None) -> None:
    """Names say which field is which; a header is seen by the names that are asked for, and no row is made of it."""
    engine_target.execute(TABLE)
    rows = rows_of(200)
    head = ["junk", "id", "name", "more junk", "day", "price"]
    file = write(tmp_path / "in.csv", csv_of(rows, (0, 3), head))
    run = load_here(engine_target, file, columns=columns, **({"header": header} if header else {}))
    assert any("6 fields" in note for note in run.summary["notes"])
    assert stored(engine_target) == rows
    again = load_here(engine_target, file, columns=columns, **({"header": header} if header else {}))
    assert again.summary["status"] == "already loaded"


def test_a_header_that_is_left_out_with_its_field(engine_target: Target, tmp_path: Path) -> None:
    """By place the header's other names are those of the columns; any other first record is one."""
    engine_target.execute("CREATE TABLE t (a varchar, b varchar)")
    load(engine_target, write(tmp_path / "1.csv", "a,junk,b\n1,x,2\n"), columns="a,-,b")
    load(engine_target, write(tmp_path / "2.csv", "3,junk,4\n"), columns="a,-,b")
    load(engine_target, write(tmp_path / "3.csv", "b,junk,a\n"), columns="a,-,b", header="no")
    assert engine_target.sorted_rows("t") == [("1", "2"), ("3", "4"), ("b", "a")]


def test_what_a_header_lacks_is_named(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a varchar, b varchar, c varchar)")
    file = write(tmp_path / "in.csv", "a,junk,b\n1,x,2\n")
    run = load(engine_target, file, header="match", columns="a,c", check=2)
    assert "no column c, which is in --columns" in run.stderr
    told = load(engine_target, file, header="match", check=2).stderr
    assert "or leave it out: --header match --columns a,b" in " ".join(told.split())
    load(engine_target, file, header="match", columns="a,b")
    assert engine_target.rows("SELECT a, b, c FROM t") == [("1", "2", None)]


def test_a_column_that_a_header_names_twice(target: DuckdbTarget, tmp_path: Path) -> None:
    """Which of the fields is meant can be said by its place."""
    target.execute('CREATE TABLE t (a integer, "B 2" integer)')
    file = write(tmp_path / "in.csv", "a,b 2,c,B 2\n1,2,x,3\n")
    told = load(target, file, header="match", columns='a,"B 2"', check=2).stderr
    assert "names the column B 2 twice" in told
    assert """--header yes --columns 'a,"B 2",-,-'""" in told
    load(target, file, header="yes", columns='a,"B 2",-,-')
    load(target, file, header="yes", columns='a,-,-,"B 2"')
    assert target.rows("FROM t ORDER BY ALL") == [(1, 2), (1, 3)]
    told = load(target, file, header="match", columns='"B 2",a,-,-', check=2).stderr
    assert """names a, b 2, c, B 2, but --columns "B 2",a,-,-""" in told
    assert "in the order of the header" in told


def test_bad_records_are_those_of_the_file(engine_target: Target, tmp_path: Path) -> None:
    """A record needs the fields that are left out too; rejects keep them, and a replay leaves them out again."""
    engine_target.execute("CREATE TABLE t (a integer, b date)")
    records = ["junk,1,junk,2024-01-01", "junk,x,junk,2024-01-02", "junk,3,junk", "junk,4,junk,2024-01-04,junk", "junk"]
    file = write(tmp_path / "in.csv", "".join(f"{record}\n" for record in records))
    rejects = tmp_path / "bad.csv"
    options = {"columns": "-,a,-,b", "rejects": rejects}
    load(engine_target, file, on_error="skip", max_rejects=4, check=3, **options)
    assert rejects.read_text() == "".join(f"{record}\n" for record in records[1:])
    with open(tmp_path / "bad.csv.reasons.csv", newline="") as reasons:
        told = [(row["record_number"], row["column"], row["reason"]) for row in csv.DictReader(reasons)]
    assert [row[:2] for row in told] == [("2", "a"), ("3", "b"), ("4", ""), ("5", "a")]
    assert "3 fields, 4 expected" in told[1][2]
    rejects.write_text("junk,2,junk,2024-01-02\nmore,5,,2024-01-05\n")
    load(engine_target, file, replay=True, **options)
    assert sorted(row[0] for row in engine_target.rows("SELECT a FROM t")) == [1, 2, 5]


def test_rejects_of_a_header_that_names_more(engine_target: Target, tmp_path: Path) -> None:
    """The rejects have no header: their replay knows what the first load knew."""
    engine_target.execute("CREATE TABLE t (a integer, b integer)")
    file = write(tmp_path / "in.csv", "b,junk,a\n1,x,2\n3,x,bad\n")
    options = {"columns": "a,b", "rejects": tmp_path / "bad.csv"}
    load(engine_target, file, on_error="skip", max_rejects=1, check=3, **options)
    (tmp_path / "bad.csv").write_text("3,mended,4\n")
    load(engine_target, file, replay=True, **options)
    assert engine_target.sorted_rows("t") == [(2, 1), (4, 3)]


@pytest.mark.parametrize("columns", ["first,last,n", "n,first,last", "last,first,n"])
def test_rejects_stand_in_the_order_of_the_header(engine_target: Target, tmp_path: Path, columns: str) -> None:
    """Nothing is left out, but names are in another order than fields: a replay reads what the first load has read."""
    engine_target.execute("CREATE TABLE t (first varchar, last varchar, n integer)")
    file = write(tmp_path / "in.csv", "last,first,n\nDoe,Ann,1\nRoe,Bob,x\n")
    options = {"columns": columns, "header": "match", "rejects": tmp_path / "bad.csv"}
    load(engine_target, file, on_error="skip", max_rejects=1, check=3, **options)
    (tmp_path / "bad.csv").write_text("Roe,Bob,2\n")
    load(engine_target, file, replay=True, **options)
    assert engine_target.sorted_rows("t") == [("Ann", "Doe", 1), ("Bob", "Roe", 2)]


def test_other_fields_are_another_load(engine_target: Target, tmp_path: Path) -> None:
    """The same file, from which other fields are taken, was not loaded before."""
    engine_target.execute("CREATE TABLE t (a integer)")
    file = write(tmp_path / "in.csv", "1,2\n")
    for columns in ("a,-", "-,a"):
        load(engine_target, file, columns=columns)
    assert engine_target.sorted_rows("t") == [(1,), (2,)]


@pytest.mark.parametrize(
    ("columns", "names"), [("a,-,c", ["a", "c"]), ("c,a", ["a", "c"]), ("-,-,z", ["z"]), ("b", ["b"])]
)
def test_of_a_guessed_table(target: DuckdbTarget, tmp_path: Path, columns: str, names: list[str]) -> None:
    file = write(tmp_path / "in.csv", "a,b,c\n" + "".join(f"{row},t{row},2024-01-01\n" for row in range(20)))
    run = load(target, file, schema="auto", columns=columns)
    assert any("has 3 fields: those that" in note for note in run.summary["notes"]) == ("-" not in columns)
    found = target.rows("SELECT column_name FROM information_schema.columns WHERE table_name = 't' ORDER BY 1")
    assert [name for (name,) in found] == names
    assert target.count("t") == 20
    run = load(target, file, table="u", schema="auto", columns="a,b,c,-", check=2)
    assert "4 names, but the records have 3 fields" in run.stderr


def test_names_of_a_guessed_table(target: DuckdbTarget, tmp_path: Path) -> None:
    """`--header match` goes by the header's names, in any order; what cannot be meant is refused."""
    file = write(tmp_path / "in.csv", "a,b\n1,x\n3,y\n")
    assert "names a, b, but --columns b, a" in load(target, file, schema="auto", columns="b,a", check=2).stderr
    told = load(target, file, schema="auto", columns="a,c", header="match", check=2).stderr
    assert "no column c, which is in --columns" in told
    load(target, file, schema="auto", columns="b,a", header="match")
    load(target, write(tmp_path / "more.csv", "a,b\n5,z\n"), columns="b,a", header="match")
    assert target.rows("SELECT a, b FROM t ORDER BY a") == [(1, "x"), (3, "y"), (5, "z")]
    load(target, file, table="u", schema="auto", columns="p,q", header="yes")
    assert target.rows("SELECT p, q FROM u ORDER BY p") == [(1, "x"), (3, "y")]


@pytest.mark.parametrize("header", [None, "match"])
@pytest.mark.parametrize("columns", ["first_name,age", "age,first_name", "first_name,age,-"])
def test_names_that_were_made_columns(target: DuckdbTarget, tmp_path: Path, columns: str, header: str | None) -> None:
    """The same command, and one for another file, once the table is there that it has made."""
    if header is not None and "-" in columns:
        header = "yes"
    options = {"schema": "auto", "columns": columns, **({"header": header} if header else {})}
    head = "First Name,Age,City\n"
    file = write(tmp_path / "1.csv", f"{head}Ann,30,Rome\nBob,40,Bonn\nCid,50,Bern\n")
    load(target, file, **options)
    assert load_here(target, file, **options).summary["status"] == "already loaded"
    load(target, write(tmp_path / "2.csv", f"{head}Dan,60,Pisa\n"), **options, mode="append")
    expected = [("Ann", 30), ("Bob", 40), ("Cid", 50), ("Dan", 60)]
    assert target.rows("SELECT first_name, age FROM t ORDER BY age") == expected


def test_a_quote_that_is_missing(engine_target: Target, tmp_path: Path) -> None:
    """It takes its line, however few of the fields are loaded."""
    engine_target.execute("CREATE TABLE t (a integer)")
    file = write(tmp_path / "in.csv", '1,"x\n2,y\n3,z\n4,w\n5,v\n')
    load(
        engine_target, file, columns="a,-", on_error="skip", max_rejects=1, rejects=tmp_path / "bad", format="csv",
        check=3,
    )  # fmt: skip
    assert engine_target.sorted_rows("t") == [(2,), (3,), (4,), (5,)]


def test_a_file_with_notations_of_its_own(engine_target: Target, tmp_path: Path) -> None:
    """What the sample says of a field is not said of the column that stands at its place."""
    engine_target.execute("CREATE TABLE t (a varchar, day date, price numeric(9,2))")
    lines = [f"junk;3,5;k{row};{row % 28 + 1}.02.2024;1.{row:03},50" for row in range(60)]
    file = write(tmp_path / "in.csv", "\n".join(lines) + "\n")
    load(engine_target, file, columns="-,-,a,day,price")
    found = engine_target.rows("SELECT a, CAST(day AS varchar), CAST(price AS varchar) FROM t WHERE a = 'k7'")
    assert found == [("k7", "2024-02-08", "1007.50")]


def test_mistakes(target: DuckdbTarget, tmp_path: Path) -> None:
    target.execute("CREATE TABLE t (a integer, b integer)")
    file = write(tmp_path / "in.csv", "1,2,3\n")
    assert "names no column" in load(target, file, columns="-,-", check=2).stderr
    assert "- leaves a field out" in load(target, file, check=1).stderr
    assert "3 fields, 2 expected" in load(target, file, columns="a,-", check=1).stderr


def test_into_partitions_and_keys(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The column by which records are routed, and that of a key, are no longer the fields of the same number."""
    postgres_target.execute("CREATE TABLE t (id integer PRIMARY KEY, name text) PARTITION BY RANGE (id)")
    for number in range(4):
        postgres_target.execute(
            f"CREATE TABLE t{number} PARTITION OF t FOR VALUES FROM ({number * 500}) TO ({number * 500 + 500})"
        )
    order = list(range(2000))
    random.seed(1)
    random.shuffle(order)
    lines = [f"{3000 - row},{row},junk,n{row}\n" for row in [*order, 7]]
    file = write(tmp_path / "in.csv", "".join(lines))
    options = {"columns": "-,id,-,name", "rejects": tmp_path / "bad"}
    load(postgres_target, file, on_error="skip", max_rejects=1, check=3, **options)
    assert sorted(postgres_target.rows("SELECT id, name FROM t")) == [(row, f"n{row}") for row in range(2000)]
    changes = write(tmp_path / "more.csv", "x,7,junk,new\nx,1999,junk,new\n")
    load(postgres_target, changes, mode="upsert", key="id", columns="-,id,-,name")
    assert postgres_target.rows("SELECT id FROM t WHERE name = 'new' ORDER BY id") == [(7,), (1999,)]


def test_quotes_in_what_is_left_out(engine_target: Target, tmp_path: Path) -> None:
    """Every length of a quoted field around the 64 bytes that are looked at together."""
    engine_target.execute("CREATE TABLE t (a integer)")
    lines = [
        f'"{"x" * length}{inside}",{length}\n' for length, inside in itertools.product(range(130), ("", '""', "\n"))
    ]
    load(engine_target, write(tmp_path / "in.csv", "".join(lines)), columns="-,a")
    assert sorted(engine_target.rows("SELECT a FROM t")) == sorted((length,) for length in range(130) for _ in range(3))
