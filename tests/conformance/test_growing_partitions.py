"""Partitions that `--partition-by` makes as keys need them, however keys are written, and whoever reads them."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tipple
from extension.pages import make_ready
from loading import load, load_text
from servers.extension import extension_missing_reason
from targets import PostgresTarget, write
from tipple.engines.postgresql.partitioned.partition_growth import MAX_PARTITIONS, bounds_for
from tipple.plan.partitioning import parse_partition_by

WAYS = ["auto", "binary", "text"]


def with_extension(target: PostgresTarget) -> None:
    if extension_missing_reason(target.server.version) is None:
        make_ready(target.server, target.database)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_nothing_is_sampled(
    postgres_target: PostgresTarget, tmp_path: Path, way: str, skips: bool, packed: bool
) -> None:
    with_extension(postgres_target)
    text = b"2024-01-05,a\n2025-01-05,b\ninfinity,c\n2031-12-31,d\n" if skips else b"2024-01-05,a\n2025-01-05,b\n"
    path = tmp_path / ("in.csv.gz" if packed else "in.csv")
    path.write_bytes(gzip.compress(text) if packed else b"")
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (d date, v text)")
    options: dict[str, Any] = {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad"} if skips else {}
    run = load(
        postgres_target, path, schema=schema, partition_by="range(d, every=year)", header="no", format="csv",
        write_path=way, check=False, **options,
    )  # fmt: skip
    assert run.exit_code == (3 if skips and packed else 0), run
    expected = [line.split(",")[1] for line in text.decode().splitlines() if "infinity" not in line] if packed else []
    assert [v for (v,) in postgres_target.rows("SELECT v FROM t ORDER BY 1")] == expected
    assert postgres_target.leftovers("t", *leaves(postgres_target)) == set()


def leaves(target: PostgresTarget) -> list[str]:
    return [name for (name,) in target.rows("SELECT inhrelid::regclass::text FROM pg_inherits")]


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("kind", ["opaque", "spelled"])
def test_a_key_in_the_middle_that_the_server_reads(
    postgres_target: PostgresTarget, tmp_path: Path, skips: bool, kind: str
) -> None:
    """Where a column is of a type that only the server knows, or one value of the record is."""
    with_extension(postgres_target)
    of_type, plain, odd = ("int4range", "[1,2)", "[3,4)") if kind == "opaque" else ("date", "2020-01-01", "2 Jan 2020")
    lines = [f"2024-{n % 12 + 1:02}-05;{plain};{'x' * 400}\n" for n in range(30_000)]
    lines[15_000] = f"1990-01-05;{odd};y\n"
    lines[15_001] = f"1991-01-05;{odd};y\n"
    schema = write(tmp_path / "t.sql", f"CREATE TABLE t (d date, r {of_type}, v text)")
    options: dict[str, Any] = {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad"} if skips else {}
    load_text(
        postgres_target, tmp_path / "in.csv", "".join(lines), schema=schema, partition_by="range(d, every=year)",
        header="no", delimiter=";", **options,
    )  # fmt: skip
    assert postgres_target.rows("SELECT extract(year FROM d)::int, count(*) FROM t GROUP BY 1 ORDER BY 1") == [
        (1990, 1),
        (1991, 1),
        (2024, 29_998),
    ]


SPELLED = [
    ("numeric(5,1)", "10", ["9.96", "5", "-0.04"]),
    ("numeric(5,0)", "10", ["-9.6", "-0.4", "9.5"]),
    ("numeric", "10", ["1e3", "1e20", "-1E-3", "+7.", ".5"]),
    ("numeric", "10", ["1234567890123456789012345678901234567890", "-98765432109876543210987654321.5"]),
    ("integer", "10", ["-2147483648", "2147483647", " 7 "]),
    ("timestamp(0)", "year", ["2024-12-31 23:59:59.7", "2024-12-31 23:59:59.2"]),
    ("date", "day", ["2024-01-01 24:00", "2024-01-05"]),
    ("date", "year", ["20240105", "2025-1-5", "12024-01-05", "epoch", "Jan 5 1999"]),
    ("timestamp with time zone", "month", ["2024-01-31 23:30:00-05", "2024-03-01 00:00:00+00"]),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("of_type", "every", "keys"), SPELLED, ids=[f"{kind} {keys[0]}" for kind, _, keys in SPELLED])
def test_a_key_is_what_is_stored(
    postgres_target: PostgresTarget, tmp_path: Path, way: str, of_type: str, every: str, keys: list[str]
) -> None:
    with_extension(postgres_target)
    schema = write(tmp_path / "t.sql", f"CREATE TABLE t (k {of_type}, v text)")
    load_text(
        postgres_target, tmp_path / "in.csv", "".join(f"{key},x\n" for key in keys), schema=schema,
        partition_by=f"range(k, every={every})", header="no", format="csv", write_path=way, env={"PGTZ": "UTC"},
    )  # fmt: skip
    expected = sorted(
        postgres_target.rows("SELECT k::text FROM (VALUES " + ", ".join(f"('{k}'::{of_type})" for k in keys) + ") s(k)")
    )
    assert sorted(postgres_target.rows("SELECT k::text FROM t")) == expected


LONG_KEYS = [f"{whole}.{digits}" for whole in ("-10", "-3", "0", "25") for digits in ("0" * 79 + "1", "37" * 40)]


@pytest.mark.parametrize("way", WAYS)
def test_a_key_that_the_server_does_not_tell_whole(postgres_target: PostgresTarget, tmp_path: Path, way: str) -> None:
    """Of a key without a partition it tells 64 bytes; packed files show none beforehand."""
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (k numeric)")
    path = tmp_path / "in.csv.gz"
    path.write_bytes(gzip.compress("".join(f"{key}\n" for key in LONG_KEYS).encode()))
    load(
        postgres_target, path, schema=schema, partition_by="range(k, every=10)", header="no", format="csv",
        write_path=way,
    )  # fmt: skip
    assert sorted(postgres_target.rows("SELECT k::text FROM t")) == sorted((key,) for key in LONG_KEYS)


def test_rounded_keys_of_a_columnar_source(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (k numeric(5,1))")
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"k": [9.96, 5.0, 19.99]}), path)
    load(postgres_target, path, schema=schema, partition_by="range(k, every=10)")
    assert postgres_target.sorted_rows("t", "k::text") == [("10.0",), ("20.0",), ("5.0",)]


def test_a_row_of_a_columnar_source_without_a_partition(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(
        "CREATE TABLE t (k integer, v text) PARTITION BY RANGE (k);"
        "CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10)"
    )
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"k": [1] * 5000 + [55], "v": ["x"] * 5001}), path)
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load(path, into=postgres_target.url, table="t")
    assert (caught.value.record_number, caught.value.sqlstate) == (5001, "23514")
    assert postgres_target.count("t") == 0


@pytest.mark.parametrize("jobs", [1, 2])
def test_checksum_of_many_partitions(postgres_target: PostgresTarget, tmp_path: Path, jobs: int) -> None:
    """More partitions of several pages than there are sessions to read them back."""
    parts = "".join(f"CREATE TABLE t_{n} PARTITION OF t FOR VALUES IN ({n});" for n in range(20))
    postgres_target.execute(f"CREATE TABLE t (k integer, v text) PARTITION BY LIST (k); {parts}")
    text = "".join(f"{n % 20},{'x' * 100}\n" for n in range(4000))
    run = load_text(postgres_target, tmp_path / "in.csv", text, verify="checksum", jobs=jobs, header="no")
    assert run.summary is not None
    assert (run.summary["verify"]["kind"], postgres_target.count("t")) == ("checksum", 4000)


@pytest.mark.parametrize("way", WAYS)
def test_the_key_of_a_divided_partition_is_not_the_table_s(
    postgres_target: PostgresTarget, tmp_path: Path, way: str
) -> None:
    """A record that a partition's own partitions have no place for needs no partition of the table."""
    target = postgres_target
    with_extension(target)
    target.execute(
        "CREATE TABLE t (d date, n integer) PARTITION BY RANGE (d);"
        "CREATE TABLE t24 PARTITION OF t FOR VALUES FROM ('2024-01-01') TO ('2025-01-01') PARTITION BY RANGE (n);"
        "CREATE TABLE t24a PARTITION OF t24 FOR VALUES FROM (0) TO (10)"
    )
    run = load_text(
        target, tmp_path / "in.csv", "2024-05-05,1\n2025-05-05,2\n2024-05-05,20240101\n", header="no",
        partition_by="range(d, every=year)", write_path=way, check=False,
    )  # fmt: skip
    assert run.exit_code != 0
    assert "20240101" in run.output
    assert "Traceback" not in run.output
    assert target.rows("SELECT relid::regclass::text FROM pg_partition_tree('t') ORDER BY 1") == [
        ("t",), ("t24",), ("t24a",),
    ]  # fmt: skip
    target.execute("DELETE FROM t")
    load_text(
        target, tmp_path / "good.csv", "2024-05-05,1\n2025-05-05,2\n", header="no",
        partition_by="range(d, every=year)", write_path=way,
    )  # fmt: skip
    assert target.count("t") == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("digits", [1_000, 25_000, 131_000])
def test_a_key_of_many_digits(postgres_target: PostgresTarget, tmp_path: Path, way: str, digits: int) -> None:
    """No bound of so many has room in the server's catalog."""
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (k numeric)")
    run = load_text(
        postgres_target, tmp_path / "in.csv", f"7\n{'9' * digits}\n", schema=schema, header="no",
        partition_by="range(k, every=10)", write_path=way, check=False,
    )  # fmt: skip
    assert "Traceback" not in run.output
    if run.exit_code == 0:
        assert postgres_target.count("t") == 2
    else:
        assert len(run.output) < 2000, run.output[:500]
        assert postgres_target.leftovers() == set()
    assert digits > 1_000 or run.exit_code == 0


@pytest.mark.parametrize(
    ("zone", "keys", "starts"),
    [
        # Midnight is one o'clock on 8 September: what adds a day to that is never at midnight again.
        (
            "America/Santiago",
            ["2024-09-05 12:00-04", "2024-09-08 12:00-03", "2024-09-09 00:30-03", "2024-09-10 12:00-03"],
            ["2024-09-05 00:00", "2024-09-08 01:00", "2024-09-09 00:00", "2024-09-10 00:00"],
        ),
        # From midnight to one o'clock comes twice on 3 November, and the clock shows midnight the second time as well.
        ("America/Havana", ["2024-11-03 00:30-04", "2024-11-03 00:30-05"], ["2024-11-02 00:00", "2024-11-03 00:00"]),
    ],
)
@pytest.mark.parametrize("grows", [False, True])
def test_days_on_which_clocks_change(
    postgres_target: PostgresTarget, tmp_path: Path, zone: str, keys: list[str], starts: list[str], grows: bool
) -> None:
    """Each moment has a partition, and those that are made later fit beside them."""
    env = {"PGTZ": zone}
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (m timestamptz(3), v integer)")
    rows = [f"{key},{n}\n" for n, key in enumerate(keys)]
    options: dict[str, Any] = {"partition_by": "range(m, every=day)", "header": "no", "env": env}
    for n, part in enumerate([rows[:1], rows[1:]] if grows else [rows]):
        load_text(postgres_target, tmp_path / f"{n}.csv", "".join(part), schema=schema, **options)
    postgres_target.execute(f"SET TimeZone TO '{zone}'")
    assert postgres_target.rows("SELECT v FROM t ORDER BY m") == [(n,) for n in range(len(keys))]
    bounds = postgres_target.rows(
        "SELECT substring(pg_get_expr(relpartbound, oid) FROM '[0-9]{4}-[0-9 :-]{11}') FROM pg_class "
        "WHERE relispartition AND relkind = 'r' AND EXISTS (SELECT FROM t WHERE t.tableoid = pg_class.oid) ORDER BY 1"
    )
    assert [start for (start,) in bounds] == starts


@pytest.mark.parametrize("every", ["day", "week"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_moment_whose_part_would_begin_before_all_moments(
    postgres_target: PostgresTarget, tmp_path: Path, every: str, packed: bool
) -> None:
    """Where clocks are ahead of UTC, the least day begins before the least moment: no part can have its keys."""
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (m timestamptz, v integer)")
    text = b"2024-01-01,1\n4714-11-24 00:00:00+00 BC,2\n2024-05-05,3\n"
    path = tmp_path / ("in.csv.gz" if packed else "in.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    run = load(
        postgres_target, path, schema=schema, partition_by=f"range(m, every={every})", header="no", format="csv",
        on_error="skip", max_rejects=1, rejects=tmp_path / "bad", env={"PGTZ": "Europe/Berlin"}, check=3,
    )  # fmt: skip
    assert "record 2" in run.output
    assert postgres_target.rows("SELECT v FROM t ORDER BY v") == [(1,), (3,)]


def test_too_many_partitions_are_counted_together(postgres_target: PostgresTarget) -> None:
    asked = parse_partition_by("range(a, every=1)")
    keys = [str(n) for n in range(10)]
    made = bounds_for(postgres_target.connection, asked, "integer", keys, fill=False, there=MAX_PARTITIONS - 10)
    assert len(made) == 10
    with pytest.raises(tipple.UsageError, match=r"more than 4,000 partitions"):
        bounds_for(postgres_target.connection, asked, "integer", keys, fill=False, there=MAX_PARTITIONS - 9)


@pytest.mark.parametrize("form", ["frame", "parquet", "csv"])
@pytest.mark.parametrize("of_type", ["date", "integer"])
def test_a_year_of_which_a_month_is_there(
    postgres_target: PostgresTarget, tmp_path: Path, form: str, of_type: str
) -> None:
    """What cannot be made is told with the record that it leaves without a partition, and by a note where rejects are
    kept apart; where no record lacks one, nothing is said."""
    dates = {"2024-01-05": 5, "2024-07-01": 50, "2025-03-01": 105, "2024-01-31": 9}
    keys: list[Any] = [datetime.date.fromisoformat(day) for day in dates] if of_type == "date" else [*dates.values()]
    bounds, every = ("('2024-01-01') TO ('2024-02-01')", "year") if of_type == "date" else ("(0) TO (10)", "100")

    def source(rows: list[int]) -> Any:
        table = pa.table({"d": pa.array([keys[row] for row in rows])})
        if form == "frame":
            return table
        path = tmp_path / f"{len(rows)}.{form}"
        if form == "csv":
            return write(path, "".join(f"{keys[row]}\n" for row in rows))
        pq.write_table(table, path)
        return path

    postgres_target.execute(f"CREATE TABLE t (d {of_type}) PARTITION BY RANGE (d)")
    postgres_target.execute(f"CREATE TABLE t_e PARTITION OF t FOR VALUES FROM {bounds}")
    given: dict[str, Any] = {"into": postgres_target.url, "table": "t", "partition_by": f"range(d, every={every})"}
    text: dict[str, Any] = {"format": "csv", "header": "no"} if form == "csv" else {}
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load(source([0, 1, 2]), **given, **text)
    assert "which would overlap t_e FROM" in caught.value.remedy
    skip = {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad"}
    result = tipple.load(source([0, 1, 2]), **given, **text, **skip)
    assert (result.rows, result.rejects) == (2, 1)
    assert [note for note in result.notes if "which would overlap t_e FROM" in note]
    result = tipple.load(source([0, 2, 3, 3]), **given, **text)
    assert result.rows == 4
    assert not [note for note in result.notes if "made no partition" in note]
