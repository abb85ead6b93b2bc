"""--partition-by: partitions that are made because it asks for them, or because the rows need them."""

from __future__ import annotations

import datetime
import gzip
import random
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

import tipple
from conformance.test_partitions import check_tidy, partition_names, per_partition
from loading import load_here as load
from loading import load_text_here as load_text
from targets import PostgresTarget, write

SCHEMA = """
CREATE TABLE t (
    a integer NOT NULL,
    day date NOT NULL,
    kind char(1),
    note varchar(20) DEFAULT 'none',
    CONSTRAINT t_key PRIMARY KEY (a, day),
    CHECK (a > -1000000)
);
"""


def records(seed: int, count: int, first: str = "1995-01-01", days: int = 1000) -> list[tuple[int, str, str]]:
    r = random.Random(seed)
    start = datetime.date.fromisoformat(first)
    return [
        (number, (start + datetime.timedelta(days=r.randrange(days))).isoformat(), r.choice("ANR"))
        for number in range(count)
    ]


def text_of(rows: list[tuple[int, str, str]]) -> str:
    return "".join(f"{a},{day},{kind},x\n" for a, day, kind in rows)


def bounds_of(target: PostgresTarget, table: str = "t") -> list[str]:
    query = (
        "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid IN (SELECT inhrelid FROM pg_inherits "
        f"WHERE inhparent = '{table}'::regclass) ORDER BY relname"
    )
    return [bound for (bound,) in target.rows(query)]


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    return write(tmp_path / "schema.sql", SCHEMA)


def test_a_new_table_by_year(postgres_target: PostgresTarget, tmp_path: Path, schema: Path) -> None:
    rows = records(1, 5000)
    run = load_text(
        postgres_target, tmp_path / "in.csv", text_of(rows), schema=schema, partition_by="range(day, every=year)",
        verify="checksum",
    )  # fmt: skip
    assert run.summary["strategy"] == "partition"
    years = {f"t_{year}_01_01": sum(day.startswith(str(year)) for _, day, _ in rows) for year in (1995, 1996, 1997)}
    assert per_partition(postgres_target) == years
    check_tidy(postgres_target)
    names = [name for (name,) in postgres_target.rows("SELECT indexname FROM pg_indexes WHERE schemaname = 'public'")]
    assert sorted(names) == ["t_1995_01_01_pkey", "t_1996_01_01_pkey", "t_1997_01_01_pkey", "t_key"]
    for bad in ("(0, '1995-01-01', 'A')", f"({rows[0][0]}, '{rows[0][1]}', 'A')", "(-1000000, '1995-01-01', 'A')"):
        with pytest.raises(Exception, match=r"constraint|partition"):
            postgres_target.execute(f"INSERT INTO t VALUES {bad} {',' + bad if '(0,' in bad else ''}")
    # The table goes on: another file brings another year, and an old one gets more.
    more = [(a + 10_000, day, kind) for a, day, kind in records(2, 3000, "1997-06-01", 400)]
    again = {"schema": schema, "partition_by": "range(day, every=year)"}
    run = load_text(postgres_target, tmp_path / "more.csv", text_of(more), **again)
    assert postgres_target.count("t") == 8000
    assert partition_names(postgres_target)[-1] == "t_1998_01_01"
    assert load(postgres_target, tmp_path / "in.csv", **again).summary["status"] == "already loaded"
    check_tidy(postgres_target)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("range(a, every=100)", {"t_m100": 50, "t_0": 100, "t_100": 100, "t_200": 50}),
        ("range(a, bounds=[0, 200])", {"t_min": 50, "t_0": 200, "t_200": 50}),
        ("range(day, every=quarter)", {"t_1995_01_01": 90, "t_1995_04_01": 91, "t_1995_07_01": 92, "t_1995_10_01": 27}),
        ("range(kind, a, bounds=[('A', 100), (B, 0)])", {"t_min_min": 150, "t_a_100": 0, "t_b_0": 150}),
        ("range(kind, bounds=['10', '9'])", {"t_min": 0, "t_10": 0, "t_9": 300}),
        ("list(kind, values=[[A, null], N])", {"t_a_null": 150, "t_n": 150}),
        ("hash(a, 3)", None),
    ],
)
def test_every_way_to_divide(
    postgres_target: PostgresTarget, tmp_path: Path, asked: str, expected: dict[str, int] | None
) -> None:
    schema = write(tmp_path / "schema.sql", 'CREATE TABLE t (a integer, day date, kind text COLLATE "C", note text);')
    start = datetime.date(1995, 1, 1)
    rows = [
        (n - 50, (start + datetime.timedelta(days=n)).isoformat(), ("A" if n % 4 else "") if n % 2 == 0 else "N")
        for n in range(300)
    ]
    if asked.startswith("range(kind"):
        rows = [(a, day, "A" if a < 100 else "Z") for a, day, kind in rows]
    random.Random(3).shuffle(rows)
    load_text(postgres_target, tmp_path / "in.csv", text_of(rows), schema=schema, partition_by=asked)
    assert postgres_target.count("t") == 300
    found = per_partition(postgres_target)
    if expected is not None:
        assert found == {name: count for name, count in expected.items() if count}
        assert len(partition_names(postgres_target)) == len(expected)
    else:
        assert len(found) == 3
    check_tidy(postgres_target)


@pytest.mark.parametrize(
    ("kind", "every", "expected"),
    [
        ("numeric(5,2)", "100", {"t_min": 2, "t_0_00": 2, "t_900_00": 2}),
        ("numeric(4,0)", "10000", {"t_min": 2, "t_0": 4}),
        ("numeric(3,-2)", "100000", {"t_min": 2, "t_0": 4}),
        ("numeric(2,3)", "0.1", {"t_min": 2, "t_0_000": 4}),
        ("smallint", "2.0", {"t_m2": 2, "t_0": 2, "t_2": 2}),
    ],
)
def test_the_greatest_keys_of_a_type(
    postgres_target: PostgresTarget, tmp_path: Path, kind: str, every: str, expected: dict[str, int]
) -> None:
    """The next boundary may be no value of the type any more. NaN belongs to no part."""
    ends = {"numeric(5,2)": "999.99", "numeric(4,0)": "9999", "numeric(3,-2)": "99900", "numeric(2,3)": "0.099"}
    key = ends.get(kind, "2")
    bad = "NaN" if kind in ends else "2x"
    schema = write(tmp_path / "schema.sql", f"CREATE TABLE t (k {kind}, n integer);")
    data = "".join(f"{text},{n}\n" for n, text in enumerate([key, f"-{key}", "0", bad] * 2))
    options = {"schema": schema, "partition_by": f"range(k, every={every})", "on_error": "skip", "max_rejects": 9}
    run = load_text(postgres_target, tmp_path / "in.csv", data, check=3, cwd=tmp_path, **options)
    assert run.summary["rejects"] == 2
    assert per_partition(postgres_target) == expected
    check_tidy(postgres_target)


def test_keys_that_no_sample_shows(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Outliers in the middle of a slice: their partitions are made when they are met."""
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (a bigint, note text);")
    lines = [f"{n % 1000},{'x' * 60}\n" for n in range(40_000)]
    lines[20_001] = "123456789012,far\n"
    lines[30_001] = "-7,below\n"
    options = {"schema": schema, "partition_by": "range(a, every=1000)"}
    run = load_text(postgres_target, tmp_path / "in.csv", "".join(lines), **options)
    assert per_partition(postgres_target) == {"t_0": 39_998, "t_123456789000": 1, "t_m1000": 1}
    assert any("no sample had shown" in note for note in run.summary["notes"])
    check_tidy(postgres_target)


def test_keys_that_no_partition_can_take(postgres_target: PostgresTarget, tmp_path: Path, schema: Path) -> None:
    asked = {"schema": schema, "partition_by": "range(day, every=month)", "columns": "a,day"}
    for data, word in (("1,1995-01-01\n2,infinity\n", "infinity"), ("1,1995-01-01\n2,1995-02-30\n", "1995-02-30")):
        run = load_text(postgres_target, tmp_path / "in.csv", data, check=1, **asked)
        assert word in run.stderr
        assert postgres_target.leftovers() == set()
    nulls = write(tmp_path / "nulls.sql", "CREATE TABLE t (a integer, day date);")
    run = load_text(postgres_target, tmp_path / "n.csv", "1,1995-01-01\n2,\n", check=1, **{**asked, "schema": nulls})
    assert "NULL" in run.stderr
    assert postgres_target.leftovers() == set()


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("range(b, every=5)", "none of the columns"),
        ("range(day, every=5)", "it is date"),
        ("range(a, every=year)", "it is integer"),
        ("range(a, bounds=[x])", "x"),
        ("range(day, bounds=['1996-01-01', '1995-01-01'])", "overlap"),
        ("range(a, bounds=[5, 3])", "overlap"),
        ("range(a, bounds=['10', '9'])", "overlap"),
        ("range(kind, bounds=[B])", "unique constraint"),
        ("list(a, values=[1, 01])", "overlap"),
        ("hash(a, 0)", "0 partitions"),
        ("range(a, every=1.5)", "multiple of 1"),
    ],
)
def test_what_cannot_be_divided(
    postgres_target: PostgresTarget, tmp_path: Path, schema: Path, asked: str, reason: str
) -> None:
    """Refused before anything is loaded."""
    run = load_text(
        postgres_target, tmp_path / "in.csv", "1,1995-01-01,A,x\n", schema=schema, partition_by=asked, check=2
    )
    assert reason in run.stderr
    assert postgres_target.leftovers() == set()


def test_an_existing_table(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (a integer, note text) PARTITION BY RANGE (a)")
    postgres_target.execute("CREATE TABLE t_old PARTITION OF t FOR VALUES FROM (0) TO (150)")
    postgres_target.execute("CREATE INDEX t_note ON t (note)")
    data = "".join(f"{n},x\n" for n in range(0, 400, 10))
    run = load_text(postgres_target, tmp_path / "in.csv", data, partition_by="range(note, every=100)", check=2)
    assert "RANGE (a)" in run.stderr
    # 100 to 150 belongs to the partition that is there, so that 150 to 200 has none of that width.
    with pytest.raises(tipple.BadRecord, match="no partition of the table takes a = 150") as caught:
        tipple.load(tmp_path / "in.csv", into=postgres_target.url, table="t", partition_by="range(a, every=100)")
    left_out = "no partition FROM ('100') TO ('200'), which would overlap t_old FROM (0) TO (150)"
    assert left_out in caught.value.remedy
    # What is divided by the server is told alike, and by a note where such records are rejects.
    for write_path in ("text", "auto"):
        postgres_target.execute("CREATE TABLE u (LIKE t) PARTITION BY RANGE (a)")
        postgres_target.execute("CREATE TABLE u_old PARTITION OF u FOR VALUES FROM (0) TO (150)")
        asked = {"partition_by": "range(a, every=100)", "write_path": write_path, "table": "u", "restart": True}
        with pytest.raises(tipple.BadRecord) as caught:
            tipple.load(tmp_path / "in.csv", into=postgres_target.url, **asked)
        assert left_out.replace("t_", "u_") in caught.value.remedy
        skip = {"on_error": "skip", "max_rejects": 5, "rejects": tmp_path / f"{write_path}.rejects"}
        result = tipple.load(tmp_path / "in.csv", into=postgres_target.url, **asked, **skip)
        assert (result.rows, result.rejects) == (35, 5)
        assert [note for note in result.notes if left_out.replace("t_", "u_") in note]
        postgres_target.execute("DROP TABLE u")
    load_text(postgres_target, tmp_path / "in.csv", data, partition_by="range(a, every=50)")
    assert per_partition(postgres_target) == {
        "t_old": 15, "t_150": 5, "t_200": 5, "t_250": 5, "t_300": 5, "t_350": 5
    }  # fmt: skip
    names = postgres_target.rows("SELECT indexname FROM pg_indexes WHERE tablename LIKE 't\\_%' ORDER BY 1")
    assert [name for (name,) in names][:2] == ["t_150_note", "t_200_note"]
    check_tidy(postgres_target)


@pytest.mark.parametrize(
    ("key", "there", "asked", "left_out", "rows"),
    [
        (
            "range",
            "FROM (1) TO (3)",
            "range(a, bounds=[2])",
            "(MINVALUE) TO ('2'), which would overlap t_e FROM (1)",
            2,
        ),
        ("list", "IN (2, 7)", "list(a, values=[[1, 2], 3])", "IN ('1', '2'), which would overlap t_e IN (2, 7)", 2),
        (
            "hash",
            "WITH (MODULUS 8, REMAINDER 0)",
            "hash(a, 4)",
            "WITH (MODULUS 4, REMAINDER 0), which would overlap t_e WITH (modulus 8, remainder 0)",
            11,
        ),
    ],
    ids=["range", "list", "hash"],
)
def test_fixed_partitions_that_overlap_others(
    postgres_target: PostgresTarget, tmp_path: Path, key: str, there: str, asked: str, left_out: str, rows: int
) -> None:
    """Those that are not made are told with the record that they leave without one, and by a note."""
    postgres_target.execute(f"CREATE TABLE t (a integer) PARTITION BY {key} (a)")
    postgres_target.execute(f"CREATE TABLE t_e PARTITION OF t FOR VALUES {there}")
    path = write(tmp_path / "in.csv", "".join(f"{n}\n" for n in range(1, 13 if key == "hash" else 4)))
    given: dict[str, Any] = {"into": postgres_target.url, "table": "t", "header": "no", "partition_by": asked}
    with pytest.raises(tipple.BadRecord, match="no partition of the table takes a = ") as caught:
        tipple.load(path, **given)
    assert left_out in caught.value.remedy
    skip = {"on_error": "skip", "max_rejects": 5, "rejects": tmp_path / "bad.csv"}
    result = tipple.load(path, **given, **skip)
    assert result.rows == rows
    assert [note for note in result.notes if left_out in note]


def test_fixed_partitions_that_are_there(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """They are those that are wanted, however they are written; of a hash those must fit that are there."""
    postgres_target.execute("CREATE TABLE t (a date) PARTITION BY RANGE (a)")
    path = write(tmp_path / "in.csv", "2024-01-15\n2024-02-15\n")
    asked = {"header": "no", "partition_by": "range(a, bounds=['2024-1-1', '20240201'])", "restart": True}
    for _ in range(2):
        result = tipple.load(path, into=postgres_target.url, table="t", **asked)
        assert not [note for note in result.notes if "made no partition" in note]
    postgres_target.execute("CREATE TABLE h (a date) PARTITION BY HASH (a)")
    postgres_target.execute("CREATE TABLE h_e PARTITION OF h FOR VALUES WITH (MODULUS 8, REMAINDER 0)")
    with pytest.raises(tipple.UsageError, match="factor of the next larger"):
        tipple.load(path, into=postgres_target.url, table="h", header="no", partition_by="hash(a, 3)")


@pytest.mark.parametrize("there", [["'A', 'B', NULL"], ["'B', NULL", "'A'"]])
def test_values_that_have_partitions(postgres_target: PostgresTarget, tmp_path: Path, there: list[str]) -> None:
    """In another order, or in several: nothing is missing of them, and nothing is said."""
    postgres_target.execute("CREATE TABLE t (a text) PARTITION BY LIST (a)")
    for number, values in enumerate(there):
        postgres_target.execute(f"CREATE TABLE t_{number} PARTITION OF t FOR VALUES IN ({values})")
    path = write(tmp_path / "in.csv", "A\nB\nC\n")
    given: dict[str, Any] = {"into": postgres_target.url, "table": "t", "header": "no"}
    result = tipple.load(path, **given, partition_by="list(a, values=[[B, A, NULL], C])")
    assert not [note for note in result.notes if "made no partition" in note]
    result = tipple.load(path, **given, partition_by="list(a, values=[[B, A, D]])", restart=True)
    assert [note for note in result.notes if "made no partition IN ('B', 'A', 'D')" in note]


def test_where_it_has_no_meaning(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    other = write(tmp_path / "other.sql", "CREATE TABLE n (a integer);")
    asked = {"partition_by": "range(a, every=5)"}
    assert "not partitioned" in load(postgres_target, path, check=2, **asked).stderr
    for said, options in (
        ("--partition-by does not go with --no-atomic", {"no_atomic": True}),
        ("--partition-by does not go with --mode upsert", {"mode": "upsert", "key": "a"}),
        ("--partition-by with every=5 does not work without the ledger", {"no_ledger": True}),
    ):
        run = load(postgres_target, path, table="n", schema=other, columns="a", check=2, **asked, **options)
        assert said in run.stderr
    assert postgres_target.leftovers("t") == set()


def test_an_engine_without_partitions(tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "1\n")
    run = load(f"duckdb:///{tmp_path}/x.duckdb", path, partition_by="range(a, every=5)", schema="auto", check=2)
    assert "partitions" in run.stderr


def test_a_dry_run_changes_nothing(postgres_target: PostgresTarget, tmp_path: Path, schema: Path) -> None:
    run = load_text(
        postgres_target, tmp_path / "in.csv", "1,1995-01-01,A,x\n", schema=schema, dry_run=True,
        partition_by="range(day, every=year)",
    )  # fmt: skip
    assert run.summary["strategy"] == "partition"
    assert postgres_target.leftovers() == set()


WITH_CONSTRAINTS = """
CREATE TABLE t (
    k int, v int CHECK (v <> 7), w int REFERENCES other (w) INITIALLY DEFERRED, CONSTRAINT u UNIQUE (k, v)
);
"""


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet", "frame"])
@pytest.mark.parametrize("width", ["every=10", "bounds=[10, 20]"])
def test_constraints_of_a_new_table_say_which_records_are_rejects(
    postgres_target: PostgresTarget, tmp_path: Path, width: str, form: str
) -> None:
    """Of records with one key the first is stored, wherever they stand and however many streams there could be."""
    postgres_target.execute("CREATE TABLE other (w integer PRIMARY KEY); INSERT INTO other VALUES (1)")
    schema = write(tmp_path / "s.sql", WITH_CONSTRAINTS)
    rows: list[tuple[int, int, int]] = [(n % 30, n, 1) for n in range(3000)]
    bad = {7: (7, 7, 1), 40: (5, 5, 1), 1500: (8, 1508, 2), 1501: (400, 400, 2), 2990: (rows[12][0], 12, 1)}
    for at, row in bad.items():
        rows.insert(at, row)
    # The key of the third comes once more, in a record that is stored, since the third is not.
    del rows[8]  # the 7 of the range, which the CHECK refuses too
    expected = sorted(row for at, row in enumerate(rows) if at not in {7, 39, 1499, 1500, 2989})
    text = "".join(f"{k},{v},{w}\n" for k, v, w in rows)
    table = pyarrow.table(
        [pyarrow.array(column, pyarrow.int32()) for column in zip(*rows, strict=True)], ["k", "v", "w"]
    )
    rejects = tmp_path / "bad.csv"
    options = {"partition_by": f"range(k, {width})", "on_error": "skip", "max_rejects": 10, "rejects": rejects}
    source: Any = tmp_path / f"in.{form}"
    if form == "parquet":
        pyarrow.parquet.write_table(table, source, row_group_size=500)
    elif form == "frame":
        source = table
    else:
        write(source, gzip.compress(text.encode()) if form == "csv.gz" else text)
    report = tipple.load(source, into=postgres_target.url, table="t", schema=schema, jobs=2, **options)
    assert report.rejects == 5
    assert sorted(postgres_target.rows("SELECT k, v, w FROM t")) == expected
    reasons = Path(f"{rejects}.reasons.csv").read_text()
    assert [line[-5:] for line in reasons.splitlines()[1:]] == ["23514", "23505", "23503", "23503", "23505"]
    if form.startswith("csv"):
        assert rejects.read_text() == "7,7,1\n5,5,1\n8,1508,2\n400,400,2\n12,12,1\n"
    assert all(f'constraint ""{name}""' in reasons for name in ("t_v_check", "u", "t_w_fkey"))
    # What can be read only once is judged while it is stored.
    assert ("one stream stores the records in their order" in str(report.notes)) == (form == "frame")
    found = postgres_target.rows(
        "SELECT conname, contype::text, condeferred FROM pg_constraint WHERE conrelid = 't'::regclass "
        "AND contype <> 'n' ORDER BY 1"
    )
    assert found == [("t_v_check", "c", False), ("t_w_fkey", "f", True), ("u", "u", False)]
    assert postgres_target.value("SELECT count(*) FROM pg_constraint WHERE NOT convalidated") == 0
    check_tidy(postgres_target)


def test_records_are_stored_in_the_order_of_files(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Of files of different lengths too, of which a load that is free to choose takes the longest first."""
    postgres_target.execute("CREATE TABLE t (a integer)")
    for number, length in enumerate((1, 5, 3_000, 2, 400_000, 7)):
        write(tmp_path / "in" / f"{number}.csv", f"{number}\n" * length)
    report = tipple.load(tmp_path / "in", into=postgres_target.url, table="t", jobs=2, preserve_order=True)
    assert report.strategy == "swap"
    assert [a for (a,) in postgres_target.rows("SELECT a FROM t GROUP BY a ORDER BY min(ctid)")] == list(range(6))
    broken = "SELECT count(*) FROM (SELECT a < lag(a) OVER (ORDER BY ctid) AS back FROM t) s WHERE back"
    assert postgres_target.value(broken) == 0


def test_what_makes_unlogged_partitions_last(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """SET LOGGED of the partitioned table itself changes none of its partitions."""
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    options = {"schema": schema, "structure": "memory", "partition_by": "range(a, every=10)"}
    run = load(postgres_target, path, **options)
    assert run.summary is not None
    assert "SET LOGGED for each partition" in " ".join(run.summary["notes"])
