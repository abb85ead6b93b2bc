"""Texts of columnar sources that only the server can read: the load begins anew, and lets it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import columnar_targets
import tipple
from columnar_files import write_arrow_file, write_parquet
from loading import load_here
from targets import PostgresTarget
from tipple.errors import TippleError

postgres_target = columnar_targets.postgres_target

DAY = "2 Jan 2024"
ANEW = f'begun anew as COPY text: only the server can read "{DAY}" in column v'


def days(tmp_path: Path, *texts: str, name: str = "in.parquet") -> Path:
    """A file of such texts as `v`, numbered by `k`."""
    return write_parquet(tmp_path / name, pa.table({"k": pa.array(range(len(texts))), "v": pa.array(texts)}))


def iso(count: int) -> list[str]:
    return ["2024-03-04"] * count


def said_anew(notes: Sequence[str]) -> list[str]:
    return [note for note in notes if note.startswith("begun anew")]


@pytest.mark.parametrize(
    ("type_text", "text", "stored"),
    [
        ("date", DAY, "2024-01-02"),
        ("numeric(10,2)", "1_000", "1000.00"),
        ("timestamp", "2 Jan 2024 12:00", "2024-01-02 12:00:00"),
    ],
)
def test_the_server_reads_them(
    postgres_target: PostgresTarget, tmp_path: Path, type_text: str, text: str, stored: str
) -> None:
    """As it reads those of a CSV file."""
    postgres_target.execute(f"CREATE TABLE t (v {type_text})")
    run = load_here(postgres_target, write_parquet(tmp_path / "in.parquet", pa.table({"v": pa.array([text])})))
    assert postgres_target.rows("SELECT v::text FROM t") == [(stored,)]
    assert run.summary is not None
    assert run.summary["write_path"] == "text"
    assert f'"{text}" in column v' in run.summary["write_path_reason"]


def test_nothing_is_stored_twice(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Slices that were stored before the text came up are given up."""
    postgres_target.execute("CREATE TABLE t (k int, v date); INSERT INTO t VALUES (-1, '2000-01-01')")
    for number in range(6):
        days(tmp_path, *iso(3000), *([DAY] if number == 5 else []), name=f"{number}.parquet")
    run = load_here(postgres_target, tmp_path / "*.parquet", jobs=2, verify="checksum")
    assert run.summary is not None
    assert said_anew(run.summary["notes"]) == [ANEW]
    assert (run.summary["rows"], postgres_target.count("t")) == (18_001, 18_002)
    assert postgres_target.value("SELECT count(*) FROM t WHERE v = '2024-01-02'") == 1


@pytest.mark.parametrize("options", [{"preserve_order": True}, {"mode": "replace"}, {"mode": "upsert", "key": "k"}])
def test_every_strategy_begins_anew(
    postgres_target: PostgresTarget, tmp_path: Path, options: dict[str, object]
) -> None:
    postgres_target.execute("CREATE TABLE t (k int PRIMARY KEY, v date); INSERT INTO t VALUES (5000, '2000-01-01')")
    run = load_here(postgres_target, days(tmp_path, *iso(2000), DAY), **options)
    assert run.summary is not None
    assert said_anew(run.summary["notes"]) == [ANEW]
    assert postgres_target.value("SELECT v::text FROM t WHERE k = 2000") == "2024-01-02"
    assert postgres_target.count("t") == (2001 if options.get("mode") == "replace" else 2002)


def test_partitions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(
        "CREATE TABLE t (k int, v date) PARTITION BY RANGE (v);"
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');"
        "CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM ('2024-02-01') TO ('2025-01-01')"
    )
    load_here(postgres_target, days(tmp_path, *iso(2000), DAY))
    assert (postgres_target.count("t_1"), postgres_target.count("t_2")) == (1, 2000)


def test_what_the_server_cannot_read_is_a_reject(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """With its reason, and once."""
    postgres_target.execute("CREATE TABLE t (k int, v date)")
    path = days(tmp_path, *iso(1000), DAY, "2 Foo 2024", "32 Jan 2024")
    rejects = tmp_path / "bad.csv"
    run = load_here(postgres_target, path, check=3, on_error="skip", max_rejects=5, rejects=rejects)
    assert run.summary is not None
    assert (run.summary["rows"], run.summary["rejects"]) == (1001, 2)
    assert rejects.read_text() == "1001,2 Foo 2024\n1002,32 Jan 2024\n"
    reasons = (tmp_path / "bad.csv.reasons.csv").read_text()
    assert 'invalid input syntax for type date: ""2 Foo 2024""' in reasons
    assert 'invalid input syntax for type date: ""32 Jan 2024""' in reasons


@pytest.mark.parametrize("options", [{"write_path": "binary"}, {"atomic": False}])
def test_where_it_may_not_begin_anew(
    postgres_target: PostgresTarget, tmp_path: Path, options: dict[str, object]
) -> None:
    """What was asked for is kept, and what is visible stays: the remedy loads the rest."""
    postgres_target.execute("CREATE TABLE t (k int, v date)")
    path = days(tmp_path, *iso(1000), DAY)
    words = {"no_atomic" if option == "atomic" else option: value or True for option, value in options.items()}
    refused = " ".join(load_here(postgres_target, path, check=1, **words).stderr.split())
    assert f'"{DAY}" is in no form of date that is read without the server' in refused
    assert "let the server read it: --write-path text" in refused
    load_here(postgres_target, path, **{**words, "write_path": "text"})
    assert postgres_target.count("t") == 1001


def test_frames_are_given_once(postgres_target: PostgresTarget) -> None:
    postgres_target.execute("CREATE TABLE t (v date)")
    table = pa.table({"v": pa.array(["2024-03-04", DAY])})
    with pytest.raises(TippleError) as refused:
        tipple.load(table, into=postgres_target.url, table="t")
    assert "--write-path text" in (refused.value.hint or "")
    assert postgres_target.count("t") == 0
    tipple.load(table, into=postgres_target.url, table="t", write_path="text")
    assert postgres_target.count("t") == 2


def test_texts_that_depend_on_the_moment(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (v timestamp)")
    load_here(postgres_target, write_arrow_file(tmp_path / "in.arrow", pa.table({"v": pa.array(["now"])})))
    assert postgres_target.value("SELECT v > now() - interval '1 hour' FROM t")


SPELLED = [
    ("uuid", "{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("json", '{"a": 1}', '{"a": 1}'),
    ("jsonb", '{"b":1,  "a":2}', '{"a": 2, "b": 1}'),
    ("inet", "10.1.2.3/24", "10.1.2.3/24"),
    ("cidr", "10.1.0.0/16", "10.1.0.0/16"),
    ("timetz", "12:34:56+02", "12:34:56+02"),
    ("mood", "glad", "glad"),
    ("interval", "1 day", "1 day"),
]


@pytest.mark.parametrize(
    "form", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
@pytest.mark.parametrize(("type_text", "text", "stored"), SPELLED)
@pytest.mark.parametrize("path", ["text", "auto", "anew"])
def test_texts_of_any_width(
    postgres_target: PostgresTarget,
    tmp_path: Path,
    path: str,
    type_text: str,
    text: str,
    stored: str,
    form: pa.DataType,
) -> None:
    """Whatever writes them, and whether the text is asked for, or comes because of another column."""
    postgres_target.execute(f"CREATE TYPE mood AS ENUM ('glad'); CREATE TABLE t (v {type_text}, d date)")
    texts = pa.array([text, None]).cast(form)
    table = pa.table({"v": texts, "d": pa.array([DAY if path == "anew" else "2024-01-02"] * 2)})
    words = {"write_path": "text"} if path == "text" else {}
    run = load_here(postgres_target, write_arrow_file(tmp_path / "in.arrow", table), **words)
    assert postgres_target.rows("SELECT v::text, d::text FROM t") == [(stored, "2024-01-02"), (None, "2024-01-02")]
    assert run.summary is not None
    assert run.summary["write_path"] == ("binary" if (path, type_text) == ("auto", "uuid") else "text")


@pytest.mark.parametrize(
    ("type_text", "field", "path"),
    [
        ("uuid", pa.array(["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]), "binary"),
        ("bytea", pa.array([b"\x00\xff"], pa.large_binary()), "binary"),
        ("bytea", pa.array(["\\x00ff"]), "text"),
        ("time", pa.array([1], pa.time64("us")), "binary"),
        ("time", pa.array(["12:34"]), "text"),
        ("time(3)", pa.array([1], pa.time64("us")), "text"),
        ("timestamptz", pa.array([1], pa.timestamp("ms", "Europe/Berlin")), "binary"),
        ("timestamptz", pa.array([1], pa.timestamp("ms")), "text"),
        ("timestamptz", pa.array(["2024-01-02 03:04:05+00"]), "text"),
    ],
)
def test_who_reads_what(
    postgres_target: PostgresTarget, tmp_path: Path, type_text: str, field: pa.Array, path: str
) -> None:
    """Values of the column's own type need no text; of others the server has the last word. The same is stored."""
    postgres_target.execute(f"CREATE TABLE t (v {type_text}); CREATE TABLE u (v {type_text})")
    source = write_arrow_file(tmp_path / "in.arrow", pa.table({"v": field}))
    run = load_here(postgres_target, source, verify="checksum")
    load_here(postgres_target, source, table="u", write_path="text")
    assert run.summary is not None
    assert run.summary["write_path"] == path
    assert run.summary["verify"]["kind"] == ("checksum" if path == "binary" else "count")
    assert postgres_target.rows("SELECT v::text FROM t") == postgres_target.rows("SELECT v::text FROM u")


def test_moments_of_frames(postgres_target: PostgresTarget) -> None:
    """As those of files."""
    postgres_target.execute("CREATE TABLE t (v timestamptz)")
    table = pa.table({"v": pa.array([1, None], pa.timestamp("us", "UTC"))})
    assert tipple.load(table, into=postgres_target.url, table="t").write_path == "binary"
