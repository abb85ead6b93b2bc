"""Values and names of columnar sources that a target takes for others: read by the core first, or refused."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import columnar_targets
from columnar_files import write_arrow_file, write_parquet
from loading import load, load_here
from targets import DuckdbTarget, PostgresTarget

postgres_target = columnar_targets.postgres_target

DIGITS = "12345678901234567890123456789012345678"


@pytest.fixture
def target(tmp_path: Path) -> DuckdbTarget:
    return DuckdbTarget(tmp_path / "t.duckdb")


def fractions(digits: int) -> list[Decimal | None]:
    value = Decimal(f"0.{DIGITS[:digits]}")
    return [value, value.copy_negate(), None, Decimal(f"0.{'0' * digits}")]


@pytest.mark.parametrize("digits", [15, 16, 18, 19, 38])
def test_decimals_of_places_alone_in_json(target: DuckdbTarget, tmp_path: Path, digits: int) -> None:
    """DuckDB writes them as `.5`, which is no JSON."""
    values = fractions(digits)
    kind = pa.decimal128(digits, digits)
    columns = {
        "n": pa.array(range(4)),
        "alone": pa.array(values, kind),
        "s": pa.array([{"b": value, "at": datetime.date(2024, 1, 2)} for value in values]).cast(
            pa.struct([("b", kind), ("at", pa.date32())])
        ),
        "l": pa.array([[{"v": value}] for value in values], pa.list_(pa.struct([("v", kind)]))),
        "m": pa.array([[("k", value)] for value in values], pa.map_(pa.string(), kind)),
    }
    path = write_parquet(tmp_path / "in.parquet", pa.table(columns))
    target.execute("CREATE TABLE t (n int, alone json, s json, l json, m json)")
    load_here(target, path)
    load_here(target, path, table="made", schema="auto")
    for table in ("t", "made"):
        rows = target.rows(f"SELECT alone::varchar, s::varchar, l::varchar, m::varchar FROM {table} ORDER BY n")
        for value, (alone, *nested) in zip(values, rows, strict=True):
            read: list[Any] = [json.loads(text, parse_float=Decimal) for text in nested]
            found = [read[0]["b"], read[1][0]["v"], read[2]["k"], None if alone is None else Decimal(alone)]
            assert found == [value] * 4
            assert read[0]["at"] == "2024-01-02"


def test_decimals_of_places_alone_in_json_within(target: DuckdbTarget, tmp_path: Path) -> None:
    table = pa.table({"v": pa.array([fractions(16)], pa.list_(pa.decimal128(16, 16)))})
    path = write_arrow_file(tmp_path / "in.arrow", table)
    target.execute("CREATE TABLE t (v json[])")
    assert (
        "cast them where the source is made: to a decimal of one digit more" in load_here(target, path, check=2).stderr
    )
    target.execute("CREATE TABLE u (v decimal(16,16)[])")
    load_here(target, path, table="u")
    assert target.rows("FROM u") == [(fractions(16),)]


TWINS = {"A": [1, 2], "b": ["x", "y"], "a": [30, 40]}


def test_names_that_differ_in_case_only(target: DuckdbTarget, tmp_path: Path) -> None:
    """They are named as a header's are, and in each file found by their own name."""
    one = write_parquet(tmp_path / "1.parquet", pa.table(TWINS))
    turned = {name: TWINS[name] for name in ("a", "A", "b")}
    other = write_parquet(tmp_path / "2.parquet", pa.table(turned))
    load_here(target, one, other, schema="auto", verify="checksum")
    assert [row[0] for row in target.rows("SELECT column_name FROM duckdb_columns() WHERE table_name = 't'")] == [
        "A", "b", "a_2",
    ]  # fmt: skip
    rows = [(1, "x", 30), (1, "x", 30), (2, "y", 40), (2, "y", 40)]
    assert target.sorted_rows("t") == rows
    # The table takes more of them, also where the order is another one.
    load_here(target, write_parquet(tmp_path / "3.parquet", pa.table(turned)), mode="replace")
    assert target.sorted_rows("t") == rows[::2]
    target.execute("DELETE FROM t")
    load_here(target, one, columns="a,b,A")
    assert target.sorted_rows("t") == rows[::2]
    target.execute("DELETE FROM t")
    load_here(target, one, columns="a_2,b", restart=True)
    assert target.rows('SELECT a_2, b, "A" FROM t ORDER BY 1') == [(30, "x", None), (40, "y", None)]


def test_of_names_that_differ_in_case_only_one(target: DuckdbTarget, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "in.parquet", pa.table({**TWINS, "A_2": [5, 6], "B": [7, 8]}))
    load_here(target, path, table="one", schema="auto", columns="a,b")
    assert target.sorted_rows("one") == [("x", 30), ("y", 40)]
    load_here(target, path, schema="auto")
    names = target.rows("SELECT column_name FROM duckdb_columns() WHERE table_name = 't'")
    assert [name for (name,) in names] == ["A", "b", "a_3", "A_2", "B_2"]
    assert target.sorted_rows("t") == [(1, "x", 30, 5, 7), (2, "y", 40, 6, 8)]


def test_names_that_differ_in_case_only_into_postgresql(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """They are two names there."""
    load_here(postgres_target, write_parquet(tmp_path / "in.parquet", pa.table(TWINS)), schema="auto")
    assert postgres_target.rows('SELECT "A", b, a FROM t ORDER BY b') == [(1, "x", 30), (2, "y", 40)]


@pytest.mark.parametrize(
    ("of_type", "values", "kind", "stored"),
    [
        ("oid", [0, None, 2**32 - 1], pa.int64(), ["0", None, "4294967295"]),
        ("xid", [2**32 - 1], pa.uint64(), ["4294967295"]),
        ("cid", [7.0], pa.float32(), ["7"]),
        ("xid8", [2**64 - 1], pa.uint64(), ["18446744073709551615"]),
        ("xid8", [float(2**63)], pa.float64(), ["9223372036854775808"]),
        ("xid8", [Decimal(2**64 - 1)], pa.decimal128(20, 0), ["18446744073709551615"]),
        ("oid", ["12", None], pa.dictionary(pa.int32(), pa.string()), ["12", None]),
        ('"char"', ["x", "1"], pa.large_string(), ["x", "1"]),
        ("xid8", [None], pa.null(), [None]),
    ],
)
def test_types_without_a_sign(
    postgres_target: PostgresTarget,
    tmp_path: Path,
    of_type: str,
    values: list[Any],
    kind: pa.DataType,
    stored: list[Any],
) -> None:
    postgres_target.execute(f"CREATE TABLE t (n integer, v {of_type})")
    table = pa.table({"n": range(len(values)), "v": pa.array(values, kind)})
    load_here(postgres_target, write_arrow_file(tmp_path / "in.arrow", table))
    assert [row[0] for row in postgres_target.rows("SELECT v::text FROM t ORDER BY n")] == stored


@pytest.mark.parametrize(
    ("of_type", "value", "kind"),
    [
        ("oid", -1, pa.int64()),
        ("oid", 2**64 - 1, pa.uint64()),
        ("xid", 2**32, pa.int64()),
        ("cid", -1, pa.int8()),
        ("regtype", -1, pa.int32()),
        ("xid8", -1, pa.int64()),
        ("xid8", float(2**64), pa.float64()),
        ("xid8", 1.5, pa.float64()),
        ("oid", Decimal(2**32), pa.decimal128(20, 0)),
    ],
)
def test_numbers_beyond_types_without_a_sign(
    postgres_target: PostgresTarget, tmp_path: Path, of_type: str, value: Any, kind: pa.DataType
) -> None:
    """They are bad values of their records: PostgreSQL would store others."""
    postgres_target.execute(f"CREATE TABLE t (n integer, v {of_type})")
    table = pa.table({"n": range(3), "v": pa.array([1, value, 2], pa.float64()).cast(kind)
                      if kind == pa.float64() else pa.array([1, value, 2], kind)})  # fmt: skip
    path = write_parquet(tmp_path / "in.parquet", table)
    assert "v" in load_here(postgres_target, path, check=1).stderr
    run = load_here(postgres_target, path, on_error="skip", max_rejects=1, rejects=tmp_path / "bad", check=3)
    assert (run.summary["rows"], run.summary["rejects"]) == (2, 1)
    assert (tmp_path / "bad").exists()
    assert postgres_target.rows("SELECT n FROM t ORDER BY n") == [(0,), (2,)]


@pytest.mark.parametrize(
    ("of_type", "values"),
    [
        ('"char"', pa.array([127])),
        ('"char"', pa.array([1.5])),
        ('"char"', pa.array([b"x"])),
        ("xid", pa.array([datetime.date(2024, 1, 2)])),
        ("cid", pa.array([datetime.time(1, 2)])),
        ("xid8", pa.array([b"12"])),
        ("oid", pa.array([True])),
        ("oid", pa.array([[1]])),
    ],
)
def test_what_is_none_of_a_type_without_a_sign(
    postgres_target: PostgresTarget, tmp_path: Path, of_type: str, values: pa.Array
) -> None:
    postgres_target.execute(f"CREATE TABLE t (v {of_type})")
    run = load_here(postgres_target, write_parquet(tmp_path / "in.parquet", pa.table({"v": values})), check=2)
    assert f"the column v of type {of_type} cannot be loaded from" in run.stderr
    assert "cast it where the source is made: to text" in run.stderr


FLOATS = {
    "half": pa.array([2049.0], pa.float16()),
    "single": pa.array([2147483648.0], pa.float32()),
    "double": pa.array([2.0**56]),
    "dictionary": pa.array([2.0**56]).dictionary_encode(),
    "list": pa.array([[2.0**56]]),
}


@pytest.mark.parametrize("of_type", ["money", "price", "money[]", "interval(3)", "interval year to month"])
@pytest.mark.parametrize("kind", FLOATS)
def test_floats_that_the_server_casts_to_nothing(
    postgres_target: PostgresTarget, tmp_path: Path, of_type: str, kind: str
) -> None:
    """Of their shortest text it would make another number."""
    postgres_target.execute(f"CREATE DOMAIN price AS money; CREATE TABLE t (v {of_type})")
    path = write_parquet(tmp_path / "in.parquet", pa.table({"v": FLOATS[kind]}))
    run = load_here(postgres_target, path, check=2)
    assert f"the column v of type {of_type} cannot be loaded from" in run.stderr
    assert "cast it where the source is made: to a decimal" in run.stderr


@pytest.mark.parametrize(
    ("of_type", "value", "kind", "stored"),
    [
        ("money", 2**56 + 1, pa.int64(), "72057594037927937.00"),
        ("money", Decimal("72057594037927936.01"), pa.decimal128(38, 2), "72057594037927936.01"),
        ("money[]", [Decimal("-0.05")], pa.list_(pa.decimal128(5, 2)), "{-0.05}"),
        ("interval", 2147483647, pa.int64(), "596523:14:07"),
        ("interval", Decimal("2147483647.000001"), pa.decimal128(20, 6), "596523:14:07.000001"),
    ],
)
def test_exact_numbers_as_money_and_seconds(
    postgres_target: PostgresTarget, tmp_path: Path, of_type: str, value: Any, kind: pa.DataType, stored: str
) -> None:
    postgres_target.execute(f"CREATE TABLE t (v {of_type})")
    load_here(postgres_target, write_parquet(tmp_path / "in.parquet", pa.table({"v": pa.array([value], kind)})))
    query = {"money": "v::numeric", "money[]": "v::numeric[]"}.get(of_type, "v")
    assert postgres_target.value(f"SELECT ({query})::text FROM t") == stored


@pytest.mark.parametrize(("first", "check"), [(pa.array(["5"]), 2), (pa.nulls(1), 1)])
def test_numbers_in_the_second_file(
    postgres_target: PostgresTarget, tmp_path: Path, first: pa.Array, check: int
) -> None:
    """They are not read as the texts, or the nothing, of the first."""
    postgres_target.execute("CREATE TABLE t (v oid)")
    write_arrow_file(tmp_path / "1.arrow", pa.table({"v": first}))
    write_arrow_file(tmp_path / "2.arrow", pa.table({"v": pa.array([-1])}))
    load_here(postgres_target, tmp_path / "*.arrow", check=check)
    assert postgres_target.count("t") == 0


@pytest.mark.parametrize("type_text", ["timestamp_ns", "timestamp_ns[]"])
def test_the_greatest_nanoseconds_are_no_infinity(target: DuckdbTarget, tmp_path: Path, type_text: str) -> None:
    """DuckDB takes them for one; pandas' first and last moment are made of them."""
    most = 2**63 - 1
    within = type_text.endswith("[]")
    target.execute(f"CREATE TABLE t (v {type_text})")

    def load_values(*values: int, check: int) -> str:
        array = pa.array(values, pa.int64()).cast(pa.timestamp("ns"))
        if within:
            array = pa.ListArray.from_arrays(range(len(values) + 1), array)
        path = write_parquet(tmp_path / f"in{values[0]}.parquet", pa.table({"v": array}))
        return load_here(target, path, check=check).stderr

    for refused in (most, -most):
        assert "out of range" in load_values(refused, check=1)
    load_values(most - 1, 1 - most, check=0)
    assert target.value(f"SELECT count(*) FROM t WHERE isinf({'v[1]' if within else 'v'})") == 0
    assert target.count("t") == 2


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_moments_are_stored_as_utc_has_them(target: DuckdbTarget, tmp_path: Path, zone: str) -> None:
    """Wherever the machine is, and however deep they are; with one zone two of these are the same clock."""
    moments = pa.array(
        [datetime.datetime(2024, 10, 27, hour, 30, tzinfo=datetime.UTC) for hour in (0, 1)],
        pa.timestamp("us", "Europe/Berlin"),
    )
    offsets = pa.array([0, 1, 2], pa.int32())
    columns = {
        "plain timestamp": moments,
        "ns timestamp_ns": moments,
        "l timestamp[]": pa.ListArray.from_arrays(offsets, moments),
        "s struct(t timestamp_s)": pa.StructArray.from_arrays([moments], ["t"]),
        "m map(varchar, timestamp_ms)": pa.MapArray.from_arrays(offsets, pa.array(["k", "k"]), moments),
        "packed timestamp[]": pa.ListArray.from_arrays(offsets, moments.dictionary_encode()),
        "days date[]": pa.ListArray.from_arrays(
            offsets, moments.cast(pa.timestamp("us")).cast(pa.date32()).cast(pa.timestamp("us", "UTC"))
        ),
    }
    names = [column.split()[0] for column in columns]
    target.execute(f"CREATE TABLE t ({', '.join(columns)})")
    path = tmp_path / "in.arrow"
    write_arrow_file(path, pa.table(dict(zip(names, columns.values(), strict=True))))
    run = load(target, path, env={"TZ": zone})
    clocks = ["2024-10-27 00:30:00", "2024-10-27 01:30:00"]
    rows = target.rows(
        "SELECT plain::varchar, ns::varchar, l[1]::varchar, s.t::varchar, m['k']::varchar, "
        "packed[1]::varchar, days[1]::varchar FROM t ORDER BY plain"
    )
    assert rows == [(*[clock] * 6, "2024-10-27") for clock in clocks]
    assert run.summary is not None
    assert "ns holds moments: the column without time zone stores their UTC time" in run.summary["notes"]
