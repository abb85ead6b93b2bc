"""First records that are headers, without `--header`: taken by their names, or refused where files disagree.

What is decided before an engine is asked for more than the table's columns is tested with DuckDB alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loading import load, load_here, load_text
from targets import DuckdbTarget, PostgresTarget, Row, Target, write


@pytest.fixture
def target(tmp_path: Path) -> DuckdbTarget:
    return DuckdbTarget(tmp_path / "t.duckdb")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("in.tsv", "name\tcity\nann\tRome\nbob\tBonn\n"),
        ("in.txt", "NAME\tCity\nann\tRome\nbob\tBonn\n"),
        ("in.tbl", "name|city|\nann|Rome|\nbob|Bonn|\n"),
        ("in.dat", "name|city\nann|Rome\nbob|Bonn\n"),
        ("in.csv", "name;city\nann;Rome\nbob;Bonn\n"),
    ],
)
def test_names_count_in_every_format(engine_target: Target, tmp_path: Path, name: str, data: str) -> None:
    engine_target.execute("CREATE TABLE t (city varchar, name varchar)")
    load_here(engine_target, write(tmp_path / name, data))
    assert engine_target.sorted_rows("t") == [("Bonn", "bob"), ("Rome", "ann")]


@pytest.mark.parametrize("name", ["in.tsv", "in.tbl"])
def test_names_count_for_a_table_that_is_made(target: DuckdbTarget, tmp_path: Path, name: str) -> None:
    """A header beyond doubt, and one without any record."""
    end, between = ("|\n", "|") if name == "in.tbl" else ("\n", "\t")
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (id int, name text)")
    lines = [f"name{between}id{end}", *(f"x{between}{i}{end}" for i in range(12))]
    load_here(target, write(tmp_path / name, "".join(lines)), schema=schema)
    assert target.rows("SELECT min(id), max(id), min(name), count(*) FROM t") == [(0, 11, "x", 12)]
    load_here(target, write(tmp_path / "empty" / name, lines[0]))
    assert target.count("t") == 12


def test_a_repeated_name_is_told(target: DuckdbTarget, tmp_path: Path) -> None:
    target.execute("CREATE TABLE t (id int, v varchar)")
    run = load_here(target, write(tmp_path / "in.tsv", "id\tID\n1\tx\n2\ty\n3\tz\n"), check=2)
    assert "'id'" in run.stderr or "column id twice" in run.stderr
    assert target.count("t") == 0


SAME: list[tuple[str, str]] = [("id,v", "ID,V"), ("id,v", "id, v"), ("name,city", "Name,City")]


@pytest.mark.parametrize("schema", ["auto", "file"])
@pytest.mark.parametrize(("first", "second"), SAME)
def test_case_and_spaces_of_headers(target: DuckdbTarget, tmp_path: Path, first: str, second: str, schema: str) -> None:
    for number, head in enumerate((first, second)):
        write(tmp_path / "in" / f"{number}.csv", f"{head}\n{number},x{number}\n")
    one, two = first.split(",")
    made = write(tmp_path / "t.sql", f"CREATE TABLE t ({two} text, {one} text)")
    load_here(target, tmp_path / "in", schema="auto" if schema == "auto" else made)
    rows: list[Row] = target.rows(f"SELECT {one}::text, {two} FROM t ORDER BY 1")
    assert rows == [("0", "x0"), ("1", "x1")]


@pytest.mark.parametrize("options", [{"schema": "auto"}, {"schema": "auto", "format": "csv"}, {}, {"format": "csv"}])
def test_headers_in_another_order(target: DuckdbTarget, tmp_path: Path, options: dict[str, str]) -> None:
    write(tmp_path / "in" / "a.csv", "id,v\n1,a\n")
    write(tmp_path / "in" / "b.csv", "v,id\nb,2\n")
    target.execute(f"CREATE TABLE {'other' if 'schema' in options else 't'} (id text, v text)")
    run = load_here(target, tmp_path / "in", check=2, **options)
    for word in ("a.csv", "b.csv", "v, id", "--header no"):
        assert word in run.stderr, word
    if "schema" not in options:
        load_here(target, tmp_path / "in", header="no", **options)
        assert target.count("t") == 4


def test_no_header_in_an_empty_file(target: DuckdbTarget, tmp_path: Path) -> None:
    """Nothing was started, as where a header is another one."""
    target.execute("CREATE TABLE t (a integer)")
    run = load_here(target, write(tmp_path / "in.csv", ""), header="match", check=2)
    assert "is empty: it has no header" in run.stderr


def test_names_are_read_as_values_are(engine_target: Target, tmp_path: Path) -> None:
    """Backslashes are signs of their own in CSV without quotes, and escapes in the text format, in headers too."""
    engine_target.execute('CREATE TABLE t ("a\\b" varchar, c varchar)')
    load_text(engine_target, tmp_path / "in.csv", "c,a\\b\n1,2\n", format="csv", escape="\\", header="match")
    load_text(engine_target, tmp_path / "in.txt", "c\ta\\\\b\n3\t4\n", format="text", header="match")
    assert engine_target.rows('SELECT "a\\b", c FROM t ORDER BY c') == [("2", "1"), ("4", "3")]


def test_an_empty_line_is_no_header(target: DuckdbTarget, tmp_path: Path) -> None:
    """In a table of one column it is a row."""
    write(tmp_path / "in" / "a.csv", "v\nx\n")
    write(tmp_path / "in" / "b.csv", "\ny\n")
    target.execute("CREATE TABLE t (v text)")
    run = load_here(target, tmp_path / "in", check=2)
    assert "b.csv does not: ''" in run.stderr
    run = load_here(target, tmp_path / "in" / "b.csv", header="match", check=2)
    assert "b.csv names ''" in run.stderr
    assert target.count("t") == 0


def test_one_file_without_the_header(target: DuckdbTarget, tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.csv", "id,v\n1,a\n")
    write(tmp_path / "in" / "b.csv", "2,b\n")
    target.execute("CREATE TABLE t (id text, v text)")
    run = load_here(target, tmp_path / "in", check=2)
    assert "b.csv" in run.stderr
    assert "begins with a header" in run.stderr
    assert target.count("t") == 0


@pytest.mark.parametrize("form", ["auto", "csv"])
@pytest.mark.parametrize("reverse", [False, True])
def test_one_file_without_the_header_of_a_table_that_is_made(
    target: DuckdbTarget, tmp_path: Path, reverse: bool, form: str
) -> None:
    """The header would be a row, and each of its columns one of texts."""
    paths = [write(tmp_path / "a.csv", "id,v\n1,a\n2,\n"), write(tmp_path / "b.csv", "3,b\n4,c\n")]
    paths.append(write(tmp_path / "c.csv", "ID,V\n5,b\n"))
    sources = reversed(paths) if reverse else paths
    run = load_here(target, *sources, schema="auto", format=form, check=2)
    for word in ("begins with a header (", "b.csv does not: 3, b", "--header no"):
        assert word in run.stderr, word
    assert not target.tables()
    load_here(target, *paths, schema="auto", format=form, header="no")
    assert target.count("t") == 7


def test_a_first_record_that_may_be_a_row_is_told(target: DuckdbTarget, tmp_path: Path) -> None:
    """It stands over values of its own file only: others have texts there."""
    paths = [write(tmp_path / "a.csv", "id,v\n1,a\n"), write(tmp_path / "b.csv", "x,b\ny,c\n")]
    run = load_here(target, *paths, schema="auto")
    assert run.summary is not None
    assert any("not sure of --header" in note for note in run.summary["notes"])
    assert target.count("t") == 4


def test_a_header_that_one_text_file_does_not_have(target: DuckdbTarget, tmp_path: Path) -> None:
    """Where all columns are texts no value is wrong: only the headers themselves tell."""
    for number in range(20):
        write(tmp_path / "in" / f"{number:02}.csv", "Nr,What\n" + f"{number},x\n" * 5)
    write(tmp_path / "in" / "01.csv", "Number,Which\n8,second\n")
    target.execute("CREATE TABLE t (a varchar, b varchar)")
    run = load_here(target, tmp_path / "in", check=2)
    assert "01.csv has another header" in run.stderr
    assert target.count("t") == 0


def test_a_first_record_that_the_columns_can_hold(engine_target: Target, tmp_path: Path) -> None:
    """It is unlike those below, and may be one all the same: nobody but the user knows."""
    engine_target.execute("CREATE TABLE t (code varchar, name varchar)")
    path = write(tmp_path / "in.csv", "A12,foo\n100,bar\n101,baz\n102,qux\n103,x\n")
    run = load(engine_target, path, check=2)
    assert "--header yes" in run.output
    assert "--header no" in run.output
    assert engine_target.count("t") == 0
    load(engine_target, path, header="no")
    assert engine_target.count("t") == 5
    engine_target.execute("CREATE TABLE u (code integer, name varchar)")
    run = load(engine_target, path, table="u")
    assert engine_target.count("u") == 4
    assert "taken as a header" in " ".join(run.output.split())


def test_columns_that_a_header_does_not_have_are_told(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b integer DEFAULT 7, c varchar)")
    told = "the sources do not have these columns, which get their defaults: b, c"
    for number, header in enumerate(("match", None)):
        run = load_text(engine_target, tmp_path / f"{number}.csv", f"a\n{number}\n", format="csv", header=header)
        assert run.summary is not None
        assert told in run.summary["notes"]
    run = load_text(engine_target, tmp_path / "meant.csv", "a\n2\n", header="yes", columns="a")
    assert run.summary is not None
    assert told not in run.summary["notes"]
    assert engine_target.rows("SELECT * FROM t ORDER BY a") == [(n, 7, None) for n in range(3)]


@pytest.mark.parametrize(
    ("data", "is_told"),
    [
        ("id,nmae\n1,x\n", True),
        ("ID,other\n", True),
        ("idd,name\n1,x\n", True),
        ("1,x\nid,y\n", False),
        ("first,x\n", False),
    ],
)
def test_a_header_with_a_mistyped_name(target: DuckdbTarget, tmp_path: Path, data: str, is_told: bool) -> None:
    """It is no header, as not all of it names columns; but who reads that an id is no number should know why."""
    target.execute("CREATE TABLE t (id integer, name varchar)")
    run = load_text(target, tmp_path / "in.csv", data, check=1)
    assert 'type integer: "' in run.stderr
    assert ("looks like a header" in run.stderr) == is_told


@pytest.mark.parametrize(
    ("head", "options", "remedy"),
    [
        ("id,name", {"header": "no"}, "all of its names are columns: leave out --header no, or say --header match;"),
        (
            "ID,Name",
            {"header": "no"},
            "all of its names are columns: leave out --header no, or say --header yes, where",
        ),
        ("id,name", {"format": "text", "delimiter": ","}, "all of its names are columns: say --header match;"),
        ("id,nmae", {"header": "no"}, "not all of its names are columns to load"),
        ("id,name", {"header": "no", "columns": "id,-"}, "not all of its names are columns to load"),
    ],
)
def test_a_header_that_was_loaded_as_a_record(
    engine_target: Target, tmp_path: Path, head: str, options: dict[str, object], remedy: str
) -> None:
    """What is said of its names is true of all of them, and what is advised loads the rows."""
    engine_target.execute("CREATE TABLE t (id integer, name varchar)")
    path = write(tmp_path / "in.csv", f"{head}\n1,x\n")
    run = load_here(engine_target, path, **options, check=1)
    assert f"the first record looks like a header, {'but' if 'not' in remedy else 'and'} {remedy}" in run.stderr
    mended = {**options, "header": "match" if "say --header match" in remedy else "yes"}
    load_here(engine_target, path, **mended)
    assert engine_target.count("t") == 1


@pytest.mark.parametrize(
    ("data", "remedy", "mended"),
    [
        ("ID,Name\n1,x\n", "say --header match --columns id,name", {"header": "match", "columns": "id,name"}),
        ("ID,Name\n1,x\n", "leave out --header match, or", {}),
        ("ID,Name,new\n1,x,2\n", "say --header match --columns id,name", {"header": "match", "columns": "id,name"}),
        ("ID,id,Name\n2,1,x\n", "--header yes --columns -,id,name", {"header": "yes", "columns": "-,id,name"}),
    ],
)
def test_a_header_to_match_in_another_case(
    engine_target: Target, tmp_path: Path, data: str, remedy: str, mended: dict[str, object]
) -> None:
    """A column of that name in the header's case would be a second one, or none: what is advised loads the rows."""
    engine_target.execute("CREATE TABLE t (id integer, name varchar)")
    path = write(tmp_path / "in.csv", data)
    run = load_here(engine_target, path, header="match", check=2)
    assert "it and the column id differ in nothing but upper and lower case: " in run.stderr
    assert remedy in run.stderr
    assert "ADD COLUMN" not in run.stderr
    load_here(engine_target, path, **mended)
    assert engine_target.rows("SELECT * FROM t") == [(1, "x")]


def test_a_header_to_match_with_a_name_that_was_cut(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(f"CREATE TABLE t (id integer, {'x' * 63} varchar)")
    path = write(tmp_path / "in.csv", f"id,{'x' * 70}\n1,x\n")
    run = load_here(postgres_target, path, header="match", check=2)
    assert "differ in nothing but the end, which the database cuts off: leave out --header match" in run.stderr
    load_here(postgres_target, path, header="match", columns=f"id,{'x' * 63}")
    load_here(postgres_target, path, restart=True)
    assert postgres_target.count("t") == 2


def test_values_that_only_directories_hold_are_told(target: DuckdbTarget, tmp_path: Path) -> None:
    """Hive's `year=2024`: the files do not have that column, and nobody should believe that it was loaded."""
    for year in (2023, 2024):
        place = tmp_path / f"year={year}" / "region=EU"
        place.mkdir(parents=True)
        write(place / "a.csv", f"a,b\n{year},x\n")
    run = load_here(target, tmp_path / "year=*" / "region=EU" / "*.csv", schema="auto")
    (told,) = (note for note in run.summary["notes"] if "directories' names" in note)
    assert "hold year, region" in told
    again = load_here(target, tmp_path / "year=2023" / "region=EU" / "a.csv", table="u", schema="auto", restart=True)
    assert any("directories' names" in note for note in again.summary["notes"])
    target.execute("CREATE TABLE v (year integer, region varchar)")
    file = write(tmp_path / "year=2023" / "v.csv", "year,region\n2023,EU\n")
    kept = load_here(target, file, table="v")
    assert not any("directories' names" in note for note in kept.summary["notes"])


@pytest.mark.parametrize("name", ["in.csv", "in.tsv"])
def test_a_header_with_the_columns_that_are_asked_for(engine_target: Target, tmp_path: Path, name: str) -> None:
    """`--columns` says what the fields are; a first record that says the same is a header all the same."""
    engine_target.execute("CREATE TABLE t (name varchar, city varchar, more varchar)")
    between = "\t" if name == "in.tsv" else ","
    path = write(tmp_path / name, f"city{between}name\nRome{between}ann\n")
    run = load(engine_target, path, columns="city,name")
    assert "taken as a header" in " ".join(run.summary["notes"])
    assert engine_target.rows("SELECT name, city, more FROM t") == [("ann", "Rome", None)]
    run = load(engine_target, path, columns="name,city", check=2)
    assert "names city, name, but --columns name, city" in run.stderr
    load(engine_target, path, columns="name,city", header="yes")
    assert ("Rome", "ann", None) in engine_target.rows("SELECT name, city, more FROM t")
    load(engine_target, path, columns="name,city", header="no")
    assert engine_target.count("t") == 4


@pytest.mark.parametrize("first", [",", "-,?", '"",""', " , "])
def test_signs_name_no_column(target: DuckdbTarget, tmp_path: Path, first: str) -> None:
    """Columns without a name are called `column1` and so on, and no record of signs is a header of them."""
    path = write(tmp_path / "in.csv", f"{first}\n1,2\n3,4\n")
    load(target, path, schema="auto")
    assert (target.count("t"), target.rows("SELECT column1, column2 FROM t LIMIT 0")) == (3, [])
    again = load(target, path, schema="auto")
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"
    load_text(target, tmp_path / "next.csv", f"{first}\n7,8\n", header="no")
    load_text(target, tmp_path / "other.csv", f"{first}\n5,6\n")
    assert target.count("t") == 7


def test_columns_without_name_and_value_at_the_end(target: DuckdbTarget, tmp_path: Path) -> None:
    """As sheets have them that were wider once."""
    load_text(target, tmp_path / "in.csv", "id,v,,\n1,a,,\n2,b,,\n", schema="auto")
    assert target.rows("SELECT id, v FROM t ORDER BY id") == [(1, "a"), (2, "b")]
    lines = "".join(f"n{n},foo{n},bar{n},,\n" for n in range(20))
    load_text(target, tmp_path / "texts.csv", f"id,name,day,,\n{lines}", schema="auto", table="u")
    assert target.rows("SELECT count(*), min(day) FROM u") == [(20, "bar0")]


def test_lines_of_json_are_no_csv(target: DuckdbTarget, tmp_path: Path) -> None:
    many = [{"id": number, "name": "x"} for number in range(5000)]
    indented = [json.dumps(many[:3], indent=1), json.dumps({"rows": many}, indent=2)]
    lines = ['{"id":1,"name":"x"}\n{"id":2,"name":"y"}\n', '{"id":1}\n{"id":2}\n']
    for text in (*lines, json.dumps(many[:2]), json.dumps(many), *indented):
        run = load(target, write(tmp_path / "in.csv", text), schema="auto", check=2)
        assert "holds JSON objects" in run.stderr
        assert "COPY (FROM 'a.json')" in run.stderr
    run = load(target, write(tmp_path / "array.json", json.dumps(many)), schema="auto", check=2)
    assert "holds JSON objects" in run.stderr
    # The text of the only column may be JSON.
    target.execute("CREATE TABLE t (j json)")
    load(target, write(tmp_path / "in.txt", '{"id":1,"name":"x"}\n{"id":2,"name":"y"}\n'))
    assert target.rows("SELECT j->>'name' FROM t ORDER BY 1") == [("x",), ("y",)]


def test_a_file_that_has_got_a_column(engine_target: Target, tmp_path: Path) -> None:
    """What is advised helps, to the letter but for the type."""
    engine_target.execute("CREATE TABLE t (a integer, b integer)")
    path = write(tmp_path / "in.csv", "a,b,new one\n1,2,3\n")
    run = load(engine_target, path, header="match", check=2)
    statement = run.stderr.split("is new, ")[1].split(";")[0]
    assert "is not a column" in run.stderr
    assert "ADD COLUMN" in load(engine_target, path, header="yes", check=1).stderr
    engine_target.execute(statement.replace("…", "integer"))
    load(engine_target, path, header="match")
    assert engine_target.sorted_rows("t") == [(1, 2, 3)]


@pytest.mark.parametrize("head", ["Country,2019,2020", "geo,2019,2020", "geo,2019,2020,2021"])
def test_a_header_of_years_is_asked_for(target: DuckdbTarget, tmp_path: Path, head: str) -> None:
    """The columns of a table that is there may have other names, and could hold it."""
    years = head.count(",")
    target.execute(f"CREATE TABLE t (geo varchar, {', '.join(f'y{n} bigint' for n in range(years))})")
    records = "".join(f"{name}{',77777' * years}\n" for name in ("DE", "FR", "IT"))
    path = write(tmp_path / "in.csv", f"{head}\n{records}")
    run = load_here(target, path, check=2)
    assert "--header yes skips it" in run.stderr
    assert target.count("t") == 0
    load_here(target, path, header="yes")
    assert target.count("t") == 3
