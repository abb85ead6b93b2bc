"""Dates in an order of day and month, numbers with other separators: said by options, or seen in the files."""

from __future__ import annotations

import shlex
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from conformance.test_sniff import unseen_line
from loading import load, load_here, load_text, load_text_here
from targets import DuckdbTarget, PostgresTarget, Target, write

TABLE = "CREATE TABLE t (id integer, d date, ts timestamp, amount numeric(12,2), price double precision, n bigint)"
GERMAN = {"format": "csv", "delimiter": ";", "date_style": "DMY", "decimal_separator": ",", "thousands": "."}
EXPORT = (
    "1;31.12.2024;31.12.2024 13:30:05,5;1.234.567,89;2,5;1.000\n"
    "2;1.2.24;1/2/2024 9:05 PM;-0,5;1,5e3;-7\n"
    '3;2024-02-03;"2024-02-03 04:05";"7";NaN;12\n'
    "4;;;;;\n"
)
ROWS = [
    (1, date(2024, 12, 31), datetime(2024, 12, 31, 13, 30, 5, 500_000), Decimal("1234567.89"), 2.5, 1000),
    (2, date(2024, 2, 1), datetime(2024, 2, 1, 21, 5), Decimal("-0.50"), 1500.0, -7),
    (3, date(2024, 2, 3), datetime(2024, 2, 3, 4, 5), Decimal("7.00"), None, 12),
    (4, None, None, None, None, None),
]
SELECT = "SELECT id, d, ts, amount, nullif(price, 'NaN'), n FROM t ORDER BY id"
EXPORT = EXPORT.replace("05,5;", "05.5;")
"""Seconds have a point: they are no number of their own."""


@pytest.mark.parametrize("write_path", ["auto", "text"])
@pytest.mark.parametrize("kind", ["csv", "fixed", "text"])
def test_said_by_options(engine_target: Target, tmp_path: Path, kind: str, write_path: str) -> None:
    if write_path == "text" and not isinstance(engine_target, PostgresTarget):
        pytest.skip("DuckDB has no write path text")
    engine_target.execute(TABLE)
    options: dict[str, Any] = {
        **GERMAN,
        "write_path": write_path,
        "verify": "checksum" if write_path == "auto" else "count",
    }
    data = EXPORT
    if kind == "text":
        data = EXPORT.replace(";\n", ";\\N\n").replace(";;", ";\\N;").replace(";;", ";\\N;").replace('"', "")
        options["format"] = "text"
    elif kind == "fixed":
        widths = (2, 12, 22, 14, 6, 6)
        records = [line.replace('"', "").split(";") for line in EXPORT.splitlines()]
        data = "".join("".join(f.ljust(w) for f, w in zip(r, widths, strict=True)) + "\n" for r in records)
        options |= {"format": "fixed", "delimiter": None, "field_widths": ",".join(map(str, widths))}
    load_text(engine_target, tmp_path / "in.csv", data, **options)
    assert engine_target.rows(SELECT) == ROWS


def test_seen_in_the_files(engine_target: Target, tmp_path: Path) -> None:
    """What was seen is printed as options, which mean the same when they are pasted."""
    data = EXPORT.replace("1/2/2024", "1.2.2024").replace("2;1.2.24", "2;1.2.2024").replace("1.000", "1000")
    path = write(tmp_path / "in.csv", data)
    planned = load(engine_target, path, schema="auto", dry_run=True, json=True)
    assert planned.summary is not None
    options = planned.summary["sniff"]["options"]
    assert all(word in options for word in ("--date-style DMY", "--decimal-separator ,", "--thousands ."))
    types = {column["name"]: column["type"] for column in planned.summary["sniff"]["columns"]}
    assert [types[f"column{n}"].partition("(")[0] for n in (2, 3)] == ["date", "timestamp"]
    load(engine_target, path, schema="auto", verify="checksum")
    again = load(engine_target, path, schema="auto")
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"
    engine_target.execute(TABLE.replace("TABLE t", "TABLE u"))
    pasted = shlex.split(options)
    given = {pasted[i].lstrip("-").replace("-", "_"): pasted[i + 1] for i in range(0, len(pasted), 2)}
    load(engine_target, path, table="u", **given)
    names = [f"column{n}" for n in (1, 2, 3)]
    assert engine_target.rows(f"SELECT {', '.join(names)} FROM t ORDER BY 1") == [row[:3] for row in ROWS]
    assert engine_target.rows(SELECT.replace("FROM t", "FROM u")) == ROWS


def test_seen_where_the_table_is_there(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer, d date)")
    run = load_text(engine_target, tmp_path / "in.csv", "1,01/02/2024\n2,31/12/2024\n")
    assert run.summary is not None
    assert any("--date-style DMY" in note for note in run.summary["notes"])
    assert engine_target.rows("SELECT * FROM t ORDER BY a") == [(1, date(2024, 2, 1)), (2, date(2024, 12, 31))]
    doubtful = load_text(engine_target, tmp_path / "doubt.csv", "3,01/02/2024\n", check=False)
    if isinstance(engine_target, PostgresTarget):
        # As ever: the session's own order, and it is said that nobody knows.
        assert engine_target.rows("SELECT d FROM t WHERE a = 3") == [(date(2024, 1, 2),)]
        assert doubtful.summary is not None
        assert any("--date-style DMY says" in note for note in doubtful.summary["notes"])
    else:
        assert doubtful.exit_code == 1
        assert "--date-style DMY or MDY" in doubtful.stderr


def test_columns_of_texts_show_nothing(engine_target: Target, tmp_path: Path) -> None:
    """What is kept as text is no evidence of how numbers and dates are written, also further below."""
    engine_target.execute("CREATE TABLE t (a varchar, b varchar, n numeric(9,2), d date)")
    data = "31/12/2023;1,5;7;2024-01-01\n" * 50_000 + "31/12/2023;1,5;7.25;2024-02-01\n"
    run = load_text(engine_target, tmp_path / "in.csv", data)
    assert run.summary is not None
    assert not any("--date-style" in note or "--decimal" in note for note in run.summary["notes"])
    last = engine_target.rows("SELECT a, b, n, d FROM t ORDER BY n DESC LIMIT 1")
    assert last == [("31/12/2023", "1,5", Decimal("7.25"), date(2024, 2, 1))]


MANY = 1_000


@pytest.mark.parametrize("dirty", ["1.234,50", "1,5"])
def test_one_dirty_value_decides_nothing(engine_target: Target, tmp_path: Path, dirty: str) -> None:
    """It is a reject, as with every option given, and not how all others are read."""
    rows = [f"{n};{n}.25;{n % 7}.037" for n in range(MANY)]
    rows[MANY // 2] = f"{MANY // 2};{dirty};2.037"
    path = write(tmp_path / "in.csv", "\n".join(rows) + "\n")
    for table, options in (("t", {}), ("u", {"format": "csv", "delimiter": ";"})):
        engine_target.execute(f"CREATE TABLE {table} (id integer, menge numeric(12,2), kg numeric(12,3))")
        skip = {"on_error": "skip", "max_rejects": "5%", "rejects": tmp_path / table}
        run = load(engine_target, path, table=table, **options, **skip, check=3)
        assert run.summary is not None
        assert run.summary["rejects"] == 1
    total = "SELECT count(*), sum(menge), sum(kg) FROM "
    assert engine_target.rows(total + "t") == engine_target.rows(total + "u")


def test_what_a_session_says_stands_where_nothing_else_does(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Columns of texts, one date among many and years of two digits do not overrule the order of the session."""
    postgres_target.execute("CREATE TABLE t (a text, d date)")
    many = "".join("x,01/02/2024\n" for _ in range(MANY))
    for data, order, expected in (
        ("12/31/2024,01/02/2024\n11/30/2024,03/04/2024\n", "DMY", date(2024, 2, 1)),
        ("10.13.01,01/02/2024\n", "DMY", date(2024, 2, 1)),
        ("x,24/12/31\nx,24/11/30\n", "YMD", date(2024, 11, 30)),
        (f"{many}x,02/01/24\n", "DMY", date(2024, 1, 2)),
    ):
        path = write(tmp_path / "in.csv", data)
        load(postgres_target, path, mode="replace", restart=True, env={"PGOPTIONS": f"-c datestyle=ISO,{order}"})
        assert postgres_target.rows("SELECT min(d) FROM t") == [(expected,)]


def test_years_of_two_digits_are_why_no_order_is_taken(engine_target: Target, tmp_path: Path) -> None:
    """Where the sample shows the order: that is what is said, and the remedy reads them."""
    path = write(tmp_path / "in.csv", "id,d\n1,12/28/24\n2,11/30/24\n")
    run = load(engine_target, path, schema="auto", dry_run=True)
    assert run.summary is not None
    assert any("dates with years of two digits, whose order is not guessed" in note for note in run.summary["notes"])
    load(engine_target, path, schema="auto", date_style="MDY")
    assert engine_target.rows("SELECT max(d) FROM t") == [(date(2024, 12, 28),)]


def test_a_late_number_of_another_notation_is_no_number(engine_target: Target, tmp_path: Path) -> None:
    """A point that separates no thousands, where no sample looks, under a guessed type."""
    rows = [f"{number};1.234,50" for number in range(1_000_000, 1_600_000)]
    path = write(tmp_path / "in.csv", "\n".join(rows) + "\n")
    unseen = unseen_line(path, rows, range(300_000, 600_000))
    options = {"format": "csv", "delimiter": ";", "decimal_separator": ",", "thousands": "."}
    for late in ("0.123", "1.5", "1.23,5"):
        rows[unseen] = f"{1_000_000 + unseen};{late:8}"
        write(path, "\n".join(rows) + "\n")
        run = load(engine_target, path, schema="auto", **options, check=1)
        assert f"'{late:8}'" in run.stderr
        assert f"{unseen + 1:,}" in run.stderr
    assert "t" not in engine_target.tables()


def test_money_and_times_that_only_the_target_reads(engine_target: Target, tmp_path: Path) -> None:
    """What is not Tipple's own to read is rewritten too."""
    if isinstance(engine_target, PostgresTarget):
        engine_target.execute("CREATE TABLE t (a money)")
        load_text(engine_target, tmp_path / "in.csv", "1,50\n-1.234,99\n", **GERMAN)
        assert engine_target.rows("SELECT a::numeric FROM t ORDER BY 1") == [(Decimal("-1234.99"),), (Decimal("1.50"),)]
        return
    engine_target.execute("CREATE TABLE t (a timestamptz, b timestamp_ns)")
    data = "31.12.2024 21:05;1.2.2024 03:04:05\n"
    load_text(engine_target, tmp_path / "in.csv", data, **GERMAN, env={"TZ": "Europe/Berlin"})
    assert engine_target.rows("SELECT strftime(a AT TIME ZONE 'UTC', '%d %H:%M'), CAST(b AS varchar) FROM t") == [
        ("31 20:05", "2024-02-01 03:04:05")
    ]


def test_what_is_written_otherwise_is_a_reject(engine_target: Target, tmp_path: Path) -> None:
    """A number with a point is refused, and not read as another one; rejects are kept as they were, and replayed so."""
    engine_target.execute(TABLE)
    rejects = tmp_path / "bad"
    lines = [
        "1;31.12.2024;;1,5;;",
        "2;31.02.2024;;1,5;;",
        "3;;;1.5;;",
        "4;;;;1.5;",
        "5;;31.12.2024 25:00;;;",
        "6;;;;;1,5",
        "7;12/31/2024;;;;",
        "8;;;1.23.456,7;;",
        "9;1.1.2024;;1.234;;1.234",
    ]
    options = {**GERMAN, "on_error": "skip", "max_rejects": 10, "rejects": rejects}
    del options["thousands"]
    run = load_text(engine_target, tmp_path / "in.csv", "\n".join(lines) + "\n", **options, check=3)
    assert run.summary is not None
    assert rejects.read_text() == "\n".join(lines[1:]) + "\n"
    reasons = Path(f"{rejects}.reasons.csv").read_text().splitlines()[1:]
    columns = [line.split(",")[3] for line in reasons]
    assert columns == ["d", "amount", "price", "ts", "n", "d", "amount", "amount"]
    write(rejects, "2;28.02.2024;;1,5;;\n3;;;1,5;;\n")
    load(engine_target, tmp_path / "in.csv", **options, replay=True)
    assert engine_target.rows("SELECT id, d, amount FROM t ORDER BY id") == [
        (1, date(2024, 12, 31), Decimal("1.50")),
        (2, date(2024, 2, 28), Decimal("1.50")),
        (3, None, Decimal("1.50")),
    ]


def test_an_error_shows_the_text_as_it_is_written(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    run = load_text_here(engine_target, tmp_path / "in.csv", "1;;31.12.2024 25:00;;;\n", **GERMAN, check=1)
    assert "31.12.2024 25:00" in run.stderr


def test_the_server_reads_in_the_same_order(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What only the server reads, and elements of arrays, are in the order that was said, whatever the session's is."""
    postgres_target.execute("CREATE TABLE t (a integer, d date, ds date[], at timestamptz)")
    data = '1,1.Feb.2024,"{1/2/2024}",01/02/2024 10:00 Europe/Berlin\n2,01 02 2024,"{3-4-2024}",\n'
    path = write(tmp_path / "in.csv", data)
    for mode, order, month in (("append", "DMY", 2), ("replace", "MDY", 1)):
        load(postgres_target, path, date_style=order, mode=mode, env={"PGOPTIONS": "-c datestyle=ISO,MDY"})
        found = postgres_target.rows(
            "SELECT d, ds[1], extract(month FROM at AT TIME ZONE 'Europe/Berlin')::int FROM t ORDER BY a"
        )
        assert found[0] == (date(2024, 2, 1), date(2024, month, 3 - month), month)
        assert found[1][0] == date(2024, month, 3 - month)


def test_keys_and_partitions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Dates decide where a record goes, and which row it is."""
    path = write(tmp_path / "in.csv", "31.12.2023;1,5\n01.02.2024;2,5\n02.01.2024;3,5\n")
    write(tmp_path / "t.sql", "CREATE TABLE t (d date, v numeric)")
    options = {"format": "csv", "delimiter": ";", "date_style": "DMY", "decimal_separator": ","}
    load(postgres_target, path, schema=tmp_path / "t.sql", partition_by="range(d, every=month)", **options)
    assert postgres_target.rows("SELECT tableoid::regclass::text, v FROM t ORDER BY d") == [
        ("t_2023_12_01", Decimal("1.5")),
        ("t_2024_01_01", Decimal("3.5")),
        ("t_2024_02_01", Decimal("2.5")),
    ]
    postgres_target.execute("CREATE TABLE u (d date PRIMARY KEY, v numeric)")
    load(postgres_target, path, table="u", mode="upsert", key="d", **options)
    load_text(postgres_target, tmp_path / "2.csv", "1.2.24;9\n", table="u", mode="upsert", key="d", **options)
    assert postgres_target.rows("SELECT v FROM u ORDER BY d") == [(Decimal("1.5"),), (Decimal("3.5"),), (Decimal(9),)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"date_style": "German"}, "DMY, MDY or YMD"),
        ({"decimal_separator": ";"}, "a point or a comma"),
        ({"decimal_separator": ",", "thousands": ","}, "must be different"),
        ({"thousands": "."}, "must be different"),
        ({"thousands": "x"}, "one of the characters"),
        ({"thousands": ".."}, "one of the characters"),
    ],
)
def test_wrong_options(engine_target: Target, tmp_path: Path, options: dict[str, str], said: str) -> None:
    engine_target.execute(TABLE)
    run = load_text_here(engine_target, tmp_path / "in.csv", "1\n", **options, check=2)
    assert said in run.stderr


def test_other_words_for_an_order(engine_target: Target, tmp_path: Path) -> None:
    """As `SHOW DateStyle` has it."""
    engine_target.execute("CREATE TABLE t (d date)")
    load_text_here(engine_target, tmp_path / "in.csv", "1/2/2024\n", date_style="ISO, dmy")
    load_here(engine_target, write(tmp_path / "2.csv", "24/12/31\n2024/1/2\n"), date_style="ymd")
    days = engine_target.rows("SELECT d FROM t ORDER BY d")
    assert days == [(date(2024, 1, 2),), (date(2024, 2, 1),), (date(2024, 12, 31),)]


def test_a_number_of_another_notation_beside_dates_of_one(engine_target: Target, tmp_path: Path) -> None:
    """That an order of day and month was seen says nothing of numbers."""
    engine_target.execute("CREATE TABLE t (d date, amount numeric(12,2))")
    dates = "".join(f"{1 + n % 12}/{1 + n % 28}/2024,{n}.5\n" for n in range(40))
    run = load_text(engine_target, tmp_path / "in.csv", f'{dates}1/31/2024,"1,000.50"\n', check=1)
    assert "--thousands , leaves" in " ".join(run.stderr.split())
    run = load_text(engine_target, tmp_path / "in.csv", f'{dates}1/31/2024,"1,000.50"\n', thousands="_", check=1)
    assert "are others than" in " ".join(run.stderr.split())


def test_the_wider_type_of_a_number_beside_dates_of_one_order(tmp_path: Path) -> None:
    rows = [f"1/{1 + n % 28}/2024,{n},{'x' * 100}" for n in range(100_000)]
    path = write(tmp_path / "in.csv", "\n".join(rows) + "\n")
    unseen = unseen_line(path, rows, range(50_000, 100_000))
    rows[unseen] = f"1/1/2024,1.5,{'x' * 100}"
    write(path, "\n".join(rows) + "\n")
    run = load_here(DuckdbTarget(tmp_path / "t.duckdb"), path, schema="auto", check=1)
    assert "give the column the type double precision" in " ".join(run.stderr.split())
