"""Loads of columnar sources by ready-made pages."""

from __future__ import annotations

import datetime
import random
import re
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tipple
from command import start_tipple
from extension.pages import assert_sound, file_of
from extension.test_write_path import NUMBERS, comparable, numbers, path_of
from loading import load, load_stdin, load_words
from targets import PostgresTarget

TYPES: dict[str, tuple[str, pa.DataType]] = {
    "flag": ("boolean", pa.bool_()),
    "i2": ("smallint", pa.int16()),
    "i4": ("integer", pa.int64()),
    "i8": ("bigint", pa.int64()),
    "f4": ("real", pa.float32()),
    "f8": ("double precision", pa.float64()),
    "price": ("numeric(15, 2)", pa.decimal128(15, 2)),
    "long": ("numeric(38, 20)", pa.decimal128(38, 20)),
    "any": ("numeric", pa.string()),
    "note": ("text", pa.large_string()),
    "short": ("varchar(9)", pa.dictionary(pa.int16(), pa.string())),
    "padded": ("char(5)", pa.string_view()),
    "day": ("date", pa.date32()),
    "moment": ("timestamp", pa.timestamp("ns")),
    "second": ("timestamp(0)", pa.timestamp("us")),
    "tick": ("timestamp(3)", pa.timestamp("us")),
    "instant": ("timestamptz", pa.timestamp("ns", "Europe/Berlin")),
    "beat": ("timestamptz(2)", pa.timestamp("us", "UTC")),
    "id": ("uuid", pa.uuid()),
    "key": ("uuid", pa.string()),
    "hour": ("time", pa.time64("us")),
    "minute": ("time", pa.time32("s")),
    "raw": ("bytea", pa.binary()),
    "blob": ("bytea", pa.large_binary()),
    "code": ("bytea", pa.binary(3)),
}


def all_types(rows: int) -> pa.Table:
    r = random.Random(7)
    day, moment = datetime.date(2000, 1, 1), datetime.datetime(2001, 2, 3)
    instant = moment.replace(tzinfo=datetime.UTC)
    makers: dict[str, Any] = {
        "flag": lambda _: r.random() < 0.5,
        "i2": lambda _: r.randint(-(2**15), 2**15 - 1),
        "i4": lambda k: k,
        "i8": lambda _: r.randint(-(2**63), 2**63 - 1),
        "f4": lambda _: r.choice([0.0, -1.5, 2.0**100, float("inf"), float("nan")]),
        "f8": lambda _: r.choice([r.random(), -0.0, 1e300, float("-inf"), float("nan")]),
        "price": lambda _: Decimal(r.randint(-(10**13), 10**13)) / 100,
        "long": lambda _: Decimal(r.randint(-(10**18) + 1, 10**18 - 1)) + Decimal(r.randint(0, 99)) / 10**20,
        "any": lambda _: r.choice(["0", "-1e40", "NaN", "1.50", "Infinity", "123456789012345678901234567890.5"]),
        "note": lambda _: r.choice(["", "ä", "x" * 126, "ü" * 64, "y" * 500]),
        "short": lambda _: r.choice(["red", "green", ""]),
        "padded": lambda _: r.choice(["", "ab", "äöüßx"]),
        "day": lambda _: day + datetime.timedelta(days=r.randint(-700_000, 2_000_000)),
        "moment": lambda _: moment + datetime.timedelta(microseconds=r.randint(-(10**15), 10**15)),
        "second": lambda _: moment + datetime.timedelta(microseconds=r.randint(-(10**9), 10**9)),
        "tick": lambda _: moment + datetime.timedelta(microseconds=r.randint(-(10**15), 10**15)),
        "instant": lambda _: instant + datetime.timedelta(microseconds=r.randint(-(10**15), 10**15)),
        "beat": lambda _: instant + datetime.timedelta(microseconds=r.randint(-(10**9), 10**9)),
        "id": lambda _: uuid.UUID(int=r.getrandbits(128)),
        "key": lambda _: f"{{{uuid.UUID(int=r.getrandbits(128))}}}".upper(),
        "hour": lambda _: datetime.time(r.randrange(24), r.randrange(60), r.randrange(60), r.randrange(10**6)),
        "minute": lambda _: datetime.time(r.randrange(24), r.randrange(60), r.randrange(60)),
        "raw": lambda _: r.randbytes(r.choice([0, 1, 126, 127, 300])),
        "blob": lambda _: r.randbytes(r.choice([0, 5])),
        "code": lambda _: r.randbytes(3),
    }
    arrays = []
    for name, (_, kind) in TYPES.items():
        values = [makers[name](k) if k % 2 == 0 or r.random() < 0.8 else None for k in range(rows)]
        arrays.append(pa.array(values, kind))
    return pa.table(dict(zip(TYPES, arrays, strict=True)))


def test_pages_are_those_of_the_same_text(target: PostgresTarget, tmp_path: Path) -> None:
    """Byte for byte, over every type that batches are taken of, with NULLs, from one stream."""
    table = all_types(5000)
    path, text = tmp_path / "in.parquet", tmp_path / "in.csv"
    pq.write_table(table, path, row_group_size=1700)
    columns = ", ".join(f'"{name}" {kind}' for name, (kind, _) in TYPES.items())
    target.execute(f"CREATE TABLE t ({columns}); CREATE TABLE u (LIKE t)")
    run = load(target, path, jobs=1, verify="checksum")
    assert path_of(run)[0] == "direct", run
    assert run.summary is not None
    assert run.summary["verify"]["kind"] == "checksum"
    assert_sound(target.server, target.database, "t")
    with target.connection.cursor().copy("COPY t TO STDOUT (FORMAT csv)") as copy, text.open("wb") as file:
        for block in copy:
            file.write(block)
    target.connection.commit()
    again = load(target, text, table="u", jobs=1)
    assert path_of(again)[0] == "direct", again
    target.server.execute("CHECKPOINT", target.database)
    ours, theirs = (comparable(file_of(target.server, target.database, name).read_bytes()) for name in "tu")
    assert ours == theirs
    # And the values are those of the batches.
    stored = target.rows("SELECT * FROM t ORDER BY i4 NULLS FIRST LIMIT 1 OFFSET 2500")[0]
    row = next(row for row in table.to_pylist() if row["i4"] == stored[2])
    for place, (name, value) in enumerate(row.items()):
        if name not in ("f4", "f8", "padded", "any", "second", "tick", "beat", "key") and value is not None:
            assert stored[place] == value, name


MOMENTS = [
    *(
        "2000-01-01 00:00:00.0005",
        "2000-01-01 00:00:00.000499",
        "1999-12-31 23:59:59.9995",
        "1999-12-31 23:59:59.4999995",
    ),
    *("1970-01-01 00:00:00.5", "2024-12-31 23:59:59.9999", "4713-01-01 00:00:00.123456 BC", "2024-02-29 12:00:00.45"),
]


@pytest.mark.parametrize("precision", range(7))
@pytest.mark.parametrize("write_path", ["direct", "binary", "text"])
def test_seconds_are_rounded_as_by_the_server(
    target: PostgresTarget, tmp_path: Path, precision: int, write_path: str
) -> None:
    kind = f"timestamp({precision})"
    target.execute(f"CREATE TABLE t (id integer, moment {kind})")
    texts = [f"(timestamp '{moment}')" for moment in MOMENTS]
    micros = target.rows(f"SELECT (extract(epoch FROM m) * 1000000)::bigint FROM unnest(ARRAY[{', '.join(texts)}]) m")
    array = pa.array([n for (n,) in micros], pa.timestamp("us"))
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": range(len(MOMENTS)), "moment": array}), path)
    run = load(target, path, verify="checksum", write_path=write_path)
    assert path_of(run)[0] == write_path
    stored = [moment for (moment,) in target.rows("SELECT moment::text FROM t ORDER BY id")]
    assert stored == [target.rows(f"SELECT {text}::{kind}::text")[0][0] for text in texts]


def test_streams_in_memory(target: PostgresTarget) -> None:
    target.execute(NUMBERS)
    table = pa.table({"day": [datetime.date(2024, 1, 1)] * 90_000, "id": range(90_000)})
    reader = table.to_reader(max_chunksize=1000)
    report = tipple.load(reader, into=target.url, table="t", jobs=3, verify="checksum")
    assert (report.write_path, report.verify.kind) == ("direct", "checksum")
    assert target.rows("SELECT count(*), sum(id), count(note), max(day)::text FROM t") == [
        (90_000, 90_000 * 89_999 // 2, 0, "2024-01-01")
    ]
    assert_sound(target.server, target.database, "t")


def test_columns_in_another_order_and_missing_ones(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute("CREATE TABLE t (a integer, gone text, b text, c date)")
    target.execute("ALTER TABLE t DROP COLUMN gone")
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"b": ["x", "y"], "more": [0, 0], "a": [1, 2]}), path)
    run = load(target, path, columns="b,a")
    assert path_of(run)[0] == "direct", run
    assert target.sorted_rows("t") == [(1, "x", None), (2, "y", None)]


LONG_TEXT = "long text " * 2000


@pytest.mark.parametrize("verify", ["count", "checksum"])
def test_rows_that_fit_no_page(target: PostgresTarget, tmp_path: Path, verify: str) -> None:
    """A text for TOAST, first, last and between."""
    target.execute(NUMBERS)
    long = {0, 777, 16_384, 59_999}
    notes = [LONG_TEXT if n in long else "note" for n in range(60_000)]
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": range(60_000), "note": notes}), path, row_group_size=25_000)
    run = load(target, path, verify=verify, jobs=2)
    assert path_of(run)[0] == "direct", run
    assert target.rows("SELECT count(*), sum(id) FROM t") == [(60_000, 60_000 * 59_999 // 2)]
    assert {n for (n,) in target.rows(f"SELECT id FROM t WHERE note = '{LONG_TEXT}'")} == long
    assert_sound(target.server, target.database, "t", mapped=False)


@pytest.mark.parametrize("kind", ["file", "memory", "stdin"])
def test_many_such_rows(target: PostgresTarget, tmp_path: Path, kind: str) -> None:
    """A file is begun anew by another path; what can be read only once goes on as it began."""
    target.execute(NUMBERS)
    rows = 30_000
    notes = [f"{n} " + "long text " * 300 if n % 5 == 0 else "note" for n in range(rows)]
    table = pa.table({"id": range(rows), "note": notes})
    if kind == "file":
        pq.write_table(table, tmp_path / "in.parquet")
        run = load(target, tmp_path / "in.parquet")
        assert path_of(run)[0] == "binary", run
        assert "begun anew" in run.output
    elif kind == "memory":
        report = tipple.load(table.to_reader(max_chunksize=5000), into=target.url, table="t")
        assert report.write_path == "direct"
    else:
        text = "".join(f"{n},{note},\n" for n, note in enumerate(notes))
        piped = load_stdin(target, text.encode(), format="csv", header="no", write_path="direct")
        assert piped.returncode == 0, piped
    assert target.rows("SELECT count(*), sum(id), sum(length(note)) FROM t") == [
        (rows, rows * (rows - 1) // 2, sum(map(len, notes)))
    ]
    assert target.leftovers("t") == set()


def test_a_text_that_only_the_server_reads(target: PostgresTarget, tmp_path: Path) -> None:
    """The load begins anew without pages, and nothing of the first round stays."""
    target.execute(NUMBERS)
    rows = 60_000
    days = ["2024-03-04"] * (rows - 1) + ["2 Jan 2024"]
    pq.write_table(pa.table({"id": range(rows), "day": days}), tmp_path / "in.parquet", row_group_size=9000)
    run = load(target, tmp_path / "in.parquet", jobs=2)
    assert path_of(run) == ("text", 'only the server can read "2 Jan 2024" in column day')
    assert target.rows("SELECT count(*), sum(id), count(DISTINCT day) FROM t") == [(rows, rows * (rows - 1) // 2, 2)]
    assert target.leftovers("t") == set()


def test_rejects_of_both_ways(target: PostgresTarget, tmp_path: Path) -> None:
    """Of rows on pages and of rows that go by COPY, each with its number."""
    target.execute("CREATE TABLE t (id integer NOT NULL, n smallint, note text)")
    rows = 20_000
    ids: list[int | None] = list(range(rows))
    smalls = [1] * rows
    notes = ["note"] * rows
    ids[10] = None
    smalls[16_384] = 70_000
    notes[500], smalls[500] = LONG_TEXT, 40_000
    notes[600] = LONG_TEXT
    ids[rows - 1] = None
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": ids, "n": smalls, "note": notes}), path, row_group_size=9000)
    rejects = tmp_path / "rejects"
    run = load(target, path, on_error="skip", max_rejects=4, rejects=rejects, check=3, jobs=2, verify="checksum")
    assert path_of(run)[0] == "direct", run
    assert rejects.read_text().splitlines() == [
        ",1,note",
        f"500,40000,{LONG_TEXT}",
        "16384,70000,note",
        ",1,note",
    ]
    found = [line.split(",")[1] for line in Path(f"{rejects}.reasons.csv").read_text().splitlines()[1:]]
    assert found == ["11", "501", "16385", "20000"]
    assert target.rows("SELECT count(*), sum(length(note)) FROM t") == [(rows - 4, 4 * (rows - 5) + len(LONG_TEXT))]


def test_a_bad_row_is_named_and_nothing_is_left(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute("CREATE TABLE t (id smallint)")
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": [*range(20_000), 40_000]}), path, row_group_size=3000)
    run = load(target, path, check=1)
    assert re.search(r"record +20,001\b", run.stderr), run
    assert str(path) in run.stderr
    assert target.count("t") == 0
    assert target.leftovers("t") == set()


@pytest.mark.parametrize("constraint", ["PRIMARY KEY (id)", "CHECK (id <> 7 OR note IS NULL)"])
def test_a_violation_names_its_row(target: PostgresTarget, tmp_path: Path, constraint: str) -> None:
    target.execute(NUMBERS + f"; ALTER TABLE t ADD {constraint}")
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": [*range(100), 7], "note": [None] * 100 + ["twice"]}), path)
    run = load(target, path, check=1)
    assert re.search(r"record +101\b", run.stderr), run
    assert target.count("t") == 0
    assert target.leftovers("t") == set()


@pytest.mark.parametrize("kind", ["memory", "stdin"])
def test_a_check_names_the_record_of_what_is_read_once(target: PostgresTarget, kind: str) -> None:
    """Pages are not the way: the server would name no record, and nothing could begin anew."""
    target.execute(NUMBERS + "; ALTER TABLE t ADD CONSTRAINT small CHECK (id < 90)")
    if kind == "memory":
        with pytest.raises(tipple.TippleError) as raised:
            tipple.load(pa.table({"id": range(100)}).to_reader(), into=target.url, table="t")
        said = str(raised.value)
    else:
        piped = load_stdin(target, numbers(100).encode(), header="no")
        assert piped.returncode == 1
        said = piped.stderr.decode()
    assert re.search(r"record +91\b", said), said
    assert "small" in said
    assert target.count("t") == 0
    assert target.leftovers("t") == set()


def test_partitions_are_found_by_copy(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute(
        "CREATE TABLE t (id integer, note text) PARTITION BY RANGE (id);"
        "CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (50);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (50) TO (100)"
    )
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": range(100), "note": ["x"] * 100}), path)
    run = load(target, path)
    found, reason = path_of(run)
    assert (found, "columnar" in reason) == ("binary", True), run
    assert (target.count("t0"), target.count("t1")) == (50, 50)


@pytest.mark.parametrize("jobs", [1, 2])
def test_client_killed(target: PostgresTarget, tmp_path: Path, jobs: int) -> None:
    """Nothing is seen of it, and the next run has all rows."""
    target.execute(NUMBERS)
    rows = 1_500_000
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": range(rows), "note": [numbers(1)] * rows}), path)
    words = load_words(target.url, (path,), "t", {"jobs": jobs})
    started = start_tipple(*words)
    while started.running and not target.rows(
        "SELECT FROM pg_stat_activity WHERE query LIKE '%tipple_direct.append%' AND pid <> pg_backend_pid()"
    ):
        pass
    killed = started.kill()
    assert killed.exit_code != 0, killed
    assert target.count("t") == 0
    again = start_tipple(*words).wait()
    assert again.exit_code == 0, again
    assert path_of(again)[0] == "direct"
    assert target.rows("SELECT count(*), sum(id) FROM t") == [(rows, rows * (rows - 1) // 2)]
    assert target.leftovers("t") == set()
