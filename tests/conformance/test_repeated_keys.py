"""Records that repeat a key, where PostgreSQL gets its keys when all rows are stored.

The rows and rejects are those of a server that judges one record after the other, as it does with `--write-path text`.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from command import Run
from judged_twice import judged_twice, outcome_of
from loading import load_here
from targets import PostgresTarget, write, write_in_three

SEED = int(os.environ.get("TIPPLE_SEED", "0"))

TWO_KEYS = "CREATE TABLE t (n integer PRIMARY KEY, code varchar(8) UNIQUE, at date, note text, UNIQUE (at, note))"


def records_with_twins(count: int, seed: int) -> list[str]:
    """Records of `TWO_KEYS`: some repeat one key of another record, or several of several ones; some have no key."""
    r = random.Random(SEED * 1000 + seed)
    wide = count * 20
    return [
        f"{r.randrange(wide)},{r.choice(['', f'c{r.randrange(wide)}'])},"
        f"{r.choice(['', f'2024-01-{1 + r.randrange(28):02}'])},{r.choice(['', f'note {r.randrange(wide)}'])}\n"
        for _ in range(count)
    ]


def outcome(target: PostgresTarget, rejects: Path, run: Run) -> Any:
    found = outcome_of(target, rejects, run, "t_(low|high)(?=_)")
    target.execute("DROP TABLE t")
    assert target.leftovers() == set()
    return found


def both_ways(target: PostgresTarget, tmp_path: Path, table: str, *sources: Path, **options: Any) -> Run:
    """Loads with keys that judge at once and with keys that judge at the end; gives the latter's run."""
    return judged_twice(target, tmp_path, table, *sources, outcome=outcome, **options)


@pytest.mark.parametrize("kind", ["table", "schema", "replace"])
def test_several_keys(postgres_target: PostgresTarget, tmp_path: Path, kind: str) -> None:
    """A record that is refused takes no key from those behind it."""
    options: dict[str, Any] = {"jobs": 2, "verify": "checksum"}
    if kind == "schema":
        options["schema"] = write(tmp_path / "schema.sql", TWO_KEYS)
    elif kind == "replace":
        options["mode"] = "replace"
    path = write(tmp_path / "in.csv", "".join(records_with_twins(8_000, 1)))
    run = both_ways(postgres_target, tmp_path, TWO_KEYS, path, **options)
    assert run.summary is not None
    assert run.summary["rejects"] > 100
    assert run.summary["verify"]["kind"] == "checksum"


def test_several_files_and_slices(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The first one in the order of the sources is stored, whatever was read first; compressed ones are read again."""
    paths = write_in_three(tmp_path, records_with_twins(400_000, 2))
    run = both_ways(postgres_target, tmp_path, TWO_KEYS, *paths, jobs=2)
    assert run.summary is not None
    assert run.summary["slices"] > 2
    assert run.summary["sources"][1]["rows"] < 132_000


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_key_that_the_structure_brings(
    postgres_target: PostgresTarget, tmp_path: Path, mode: str, nullable: bool
) -> None:
    """A table that is there without the key gets it when all rows are stored, by the first records of each key."""
    postgres_target.execute(f"CREATE TABLE t (a integer {'' if nullable else 'NOT NULL'}, b text UNIQUE, c text)")
    if mode == "replace":
        postgres_target.execute("INSERT INTO t VALUES (1, 'old', 'old')")
    records = [f"{row % 3000},b{row if row < 3500 else 7},{row}\n" for row in range(4000)]
    if nullable:
        records[100] = records[3100] = ",b100,x\n"
    run = load_here(
        postgres_target, write(tmp_path / "in.csv", "".join(records)), mode=mode, structure="btree", key="a", jobs=3,
        on_error="skip", max_rejects=1000, rejects=tmp_path / "bad", check=3,
    )  # fmt: skip
    assert (run.summary["rows"], run.summary["rejects"]) == (3000, 1000)
    assert postgres_target.rows("SELECT count(*), max(c::integer) FROM t WHERE c <> 'x'") == [(3000 - nullable, 2999)]
    name = "t_a_key" if nullable else "t_pkey"
    assert f'"{name}"' in (tmp_path / "bad.reasons.csv").read_text()
    assert postgres_target.value(f"SELECT count(*) FROM pg_constraint WHERE conname = '{name}'") == 1
    assert postgres_target.leftovers("t") == set()


def test_other_rejects_and_a_check(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What cannot be read, or violates a CHECK, takes no key; and is told once."""
    table = "CREATE TABLE t (n integer PRIMARY KEY, b integer NOT NULL CHECK (b > 0), c text)"
    r = random.Random(SEED)
    records = [
        f"{r.choice([r.randrange(4_000), n])},{r.choice(['1'] * 50 + ['0', '', 'x'])},{n}\n" for n in range(30_000)
    ]
    path = write(tmp_path / "in.csv", "".join(records))
    both_ways(postgres_target, tmp_path, table, path, jobs=2)
    both_ways(postgres_target, tmp_path, table, path, jobs=2, schema=write(tmp_path / "schema.sql", table))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("smallint", "1 2 01 +2 -1 32767"),
        ("numeric", "1 1.0 1.00 1e0 -0 0 NaN nan 12345678901234567890.5 12345678901234567890.50 Infinity"),
        ("numeric(6,1)", "1.04 1.01 1.05 0.96 2 2.0"),
        ("float8", "0 -0 1e2 100 NaN nan 0.1 0.10000000000000001"),
        ("float4", "0.1 0.10000000149 1 1.00000001"),
        ("char(4)", "a a_ a__ ab A"),
        ("varchar(3)", "abc abc__ ab_ ab"),
        ("text", "a a_ A ä"),
        ("text COLLATE \"C\"", "a a_ A ä"),
        ("date", "2024-01-02 20240102 2024-1-2 2024-01-03 2024-01-03_BC"),
        ("timestamp(0)", "2024-01-02_00:00:00.4 2024-01-02 2024-01-02_00:00:00.6 2024-01-02_00:00:01"),
        ("timestamptz", "2024-01-02_00:00:00+00 2024-01-02_02:00:00+02 2024-01-02_00:00:00.000001+00"),
        ("time", "24:00:00 00:00 00:00:00.0000001"),
        ("uuid", "00000000-0000-0000-0000-00000000000a {0000000000000000000000000000000A} "
                 "00000000-0000-0000-0000-00000000000b"),
        ("bytea", "\\x00ff \\x00FF \\x00fe"),
        ("boolean", "t true f 1 off"),
    ],
)  # fmt: skip
def test_what_the_server_takes_for_equal(
    postgres_target: PostgresTarget, tmp_path: Path, kind: str, values: str
) -> None:
    """However it is spelled, and after it was rounded or cut to its type. (An underscore is a space here.)"""
    texts = [value.replace("_", " ") for value in values.split(" ")]
    path = write(tmp_path / "in.tsv", "".join(f"{text}\t{n}\n" for n, text in enumerate([*texts, *texts[:2]])))
    table = f"CREATE TABLE t (k {kind} UNIQUE, n integer)"
    run = both_ways(postgres_target, tmp_path, table, path, format="csv", delimiter="\\t")
    assert run.summary is not None
    assert run.summary["rejects"] >= 2


@pytest.mark.parametrize("by", ["range(n, every=20000)", "range(n, bounds=[50000, 70000])"])
def test_new_partitions(postgres_target: PostgresTarget, tmp_path: Path, by: str) -> None:
    table = (
        "CREATE TABLE t (n integer PRIMARY KEY, code varchar(8), at date CHECK (at > '2024-01-02'), UNIQUE (n, code))"
    )
    records = [record.replace("\n", "").rpartition(",")[0] + "\n" for record in records_with_twins(8_000, 9)]
    options: dict[str, Any] = {"schema": write(tmp_path / "schema.sql", table), "partition_by": by, "jobs": 2}
    run = both_ways(postgres_target, tmp_path, table, write(tmp_path / "in.csv", "".join(records)), **options)
    assert run.summary is not None
    assert run.summary["strategy"] == "partition"
    assert run.summary["rejects"] > 100


PARTITIONED = """
CREATE TABLE t (n integer, code varchar(8), at date, PRIMARY KEY (n), UNIQUE (code, n)) PARTITION BY RANGE (n);
CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (MINVALUE) TO (60000);
CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (60000) TO (MAXVALUE);
"""


SEVENTHS = "INSERT INTO t (n, code, at) SELECT n, 'c' || n % 50000, '2000-01-01' FROM generate_series(0, {}, 7) n"


@pytest.mark.parametrize(
    ("mode", "rows"),
    [("append", ""), ("replace", SEVENTHS.format(90_000)), ("append", SEVENTHS.format(40_000)),
     ("append", SEVENTHS.format(160_000))],
)  # fmt: skip
def test_partitions_that_are_there(postgres_target: PostgresTarget, tmp_path: Path, mode: str, rows: str) -> None:
    """A record with the key of a row that stays is a reject, whichever partition the row is in."""
    table = PARTITIONED + rows
    records = [record.rpartition(",")[0] + "\n" for record in records_with_twins(8_000, 10)]
    run = both_ways(postgres_target, tmp_path, table, write(tmp_path / "in.csv", "".join(records)), mode=mode, jobs=2)
    assert run.summary is not None
    assert run.summary["strategy"] == "partition"
    assert run.summary["rejects"] > 100


def test_partitions_that_must_judge_at_once(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """With a key of one partition's own."""
    postgres_target.execute(PARTITIONED + "CREATE UNIQUE INDEX ON t_low (at)")
    rejects = tmp_path / "bad.csv"
    path = write(tmp_path / "in.csv", "7,a,2024-01-02\n7,b,2024-01-02\n8,c,2024-01-02\n70000,d,2024-02-02\n")
    run = load_here(
        postgres_target, path, header="no", on_error="skip", max_rejects=3, rejects=rejects, columns="n,code,at",
        check=3,
    )  # fmt: skip
    assert run.summary is not None
    assert run.summary["strategy"] == "single"
    assert "8,c" in rejects.read_text()
    assert postgres_target.count("t") + run.summary["rejects"] == 4


@pytest.mark.parametrize("rows", [300, 160_000])
@pytest.mark.parametrize("key", ["n", "code", "at, note"])
def test_rows_that_are_there(postgres_target: PostgresTarget, tmp_path: Path, key: str, rows: int) -> None:
    """Rows move to the staged ones, or these to them: by sizes. Rejects are those that keys in place would tell."""
    unique = TWO_KEYS if key != "code" else TWO_KEYS.replace("varchar(8)", "char(9)")
    values = f"n, 'c' || n + 1, date '2024-01-01' + n % 28, 'note ' || n FROM generate_series(0, {rows}, 3) n"
    rejects = tmp_path / "bad.csv"
    path = write(tmp_path / "in.csv", "".join(records_with_twins(8_000, 12)))
    outcomes = []
    for words in ({"write_path": "text"}, {"indexes": "rebuild", "restart": True}):
        postgres_target.execute(f"{unique}; INSERT INTO t SELECT {values}")
        run = load_here(
            postgres_target, path, header="no", on_error="skip", max_rejects="100%", rejects=rejects, check=3, **words
        )
        assert run.summary["strategy"] == ("swap" if "indexes" in words else "single")
        outcomes.append(outcome(postgres_target, rejects, run))
    assert outcomes[0] == outcomes[1]


def test_partitions_that_grow_by_night(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The same command with the file of each day, some of whose records came the day before."""
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (n integer, day date, note text, PRIMARY KEY (n, day))")
    total = 0
    for night in range(4):
        records = [f"{n},2024-0{1 + n // 100}-01,{night}\n" for n in range(night * 100, night * 100 + 150)]
        run = load_here(
            postgres_target, write(tmp_path / f"{night}.csv", "".join(records)), schema=schema, jobs=2,
            partition_by="range(day, every=month)", on_error="skip", max_rejects=100, rejects=tmp_path / f"{night}.bad",
            check=3 if night else 0,
        )  # fmt: skip
        assert run.summary["strategy"] == "partition"
        assert run.summary["rejects"] == (50 if night else 0)
        total += run.summary["rows"]
    assert postgres_target.count("t") == total == 4 * 150 - 3 * 50
    assert postgres_target.value("SELECT count(*) FROM t WHERE n BETWEEN 100 AND 149 AND note = '0'") == 50


def test_labels_of_an_enum(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    path = write(tmp_path / "in.csv", "sad,1\nglad,2\nsad,3\n")
    both_ways(postgres_target, tmp_path, "CREATE TABLE t (k mood PRIMARY KEY, n integer)", path)


def test_columnar_sources(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "n,code,at,note\n" + "".join(records_with_twins(3_000, 4)))
    kinds = {"n": pa.int32(), "code": pa.string(), "at": pa.date32(), "note": pa.string()}
    convert = pa.csv.ConvertOptions(column_types=kinds, strings_can_be_null=True)
    table = pa.csv.read_csv(path, convert_options=convert)
    source = tmp_path / "in.parquet"
    pa.parquet.write_table(table, source, row_group_size=500)
    rejects = tmp_path / "bad.csv"
    options: dict[str, Any] = {"on_error": "skip", "max_rejects": "100%", "rejects": rejects}
    found = []
    for given, words in ((path, {"write_path": "text", "header": "match"}), (source, {})):
        postgres_target.execute(TWO_KEYS)
        run = load_here(postgres_target, given, check=3, **options, **words)
        assert run.summary is not None
        assert run.summary["strategy"] == ("single" if words else "swap")
        reasons = rejects.with_name("bad.csv.reasons.csv").read_text().splitlines()
        numbers = [int(line.removeprefix(str(given)).split(",")[1]) for line in reasons[1:]]
        found.append((postgres_target.sorted_rows("t"), numbers, run.summary["rejects"]))
        postgres_target.execute("DROP TABLE t")
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("table", "record"),
    [
        ("CREATE TABLE t (k text, n integer); CREATE UNIQUE INDEX ON t (lower(k))", "a,1\nA,2\nb,3\n"),
        ("CREATE TABLE t (k text, n integer); CREATE UNIQUE INDEX ON t (k) WHERE n > 1", "a,1\na,2\na,3\nb,3\n"),
        ("CREATE TABLE t (k text UNIQUE NULLS NOT DISTINCT, n integer)", ",1\n,2\nb,3\n"),
        (
            "CREATE TABLE t (k integer PRIMARY KEY, n integer); "
            "ALTER TABLE t ADD FOREIGN KEY (n) REFERENCES t2 NOT VALID",
            "1,1\n1,1\n2,9\n",
        ),
        ("CREATE TABLE t (k int4range, n integer, EXCLUDE USING gist (k WITH &&))", '"[1,3)",1\n"[2,4)",2\n'),
        ("CREATE TABLE t (k interval PRIMARY KEY, n integer)", "1 month,1\n30 days,2\n1 day,3\n"),
        ("CREATE TABLE t (k integer, s serial, n integer, UNIQUE (k, s))", "1,1\n1,2\n"),
        ("CREATE TABLE t (k integer UNIQUE, s serial, n integer)", "1,1\n1,2\n2,3\n"),
        ("CREATE TABLE t (k bpchar UNIQUE, n integer)", "a,1\na ,2\nb,3\na,4\n"),
        ("CREATE DOMAIN d AS bpchar; CREATE TABLE t (k d UNIQUE, n integer)", "a,1\na ,2\nb,3\n"),
        ("CREATE TABLE t (k integer UNIQUE, n integer); CREATE INDEX ON t ((10 / n))", "1,1\n2,0\n3,1\n1,1\n"),
        ("CREATE TABLE t (k integer UNIQUE, n integer); CREATE INDEX ON t (k) WHERE 10 / n > 2", "1,1\n2,0\n"),
    ],
)
def test_keys_that_must_judge_at_once(postgres_target: PostgresTarget, tmp_path: Path, table: str, record: str) -> None:
    """Where only the server knows what is equal, one session stores the records in their order."""
    postgres_target.execute("CREATE TABLE t2 (k integer PRIMARY KEY); INSERT INTO t2 VALUES (1)")
    postgres_target.execute(table)
    columns = "k,n"
    rejects = tmp_path / "bad.csv"
    run = load_here(
        postgres_target, write(tmp_path / "in.csv", record), on_error="skip", max_rejects=5, rejects=rejects,
        columns=columns, header="no", check=False,
    )  # fmt: skip
    assert run.exit_code in (0, 3), str(run)
    assert run.summary is not None
    assert run.summary["strategy"] == "single"
    assert run.summary["rows"] + run.summary["rejects"] == record.count("\n")
    assert run.summary["rejects"] == 0 if "(k, s)" in table else run.summary["rejects"] > 0


def test_a_key_that_only_the_server_can_read(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The load is begun anew with the keys in place, and says so."""
    records = [f"2024-01-{1 + n % 28:02} 00:00:0{n // 28 % 10},{n}\n" for n in range(200)]
    records.insert(100, "January 1 2024 00:00:00,1000\n")
    records.append("tomorrow,1001\n")
    path = write(tmp_path / "in.csv", "".join(records))
    postgres_target.execute("CREATE TABLE t (k timestamp PRIMARY KEY, n integer)")
    rejects = tmp_path / "bad.csv"
    run = load_here(postgres_target, path, header="no", on_error="skip", max_rejects=5, rejects=rejects, check=3)
    assert run.summary is not None
    assert run.summary["strategy"] == "single"
    assert any("begun anew with the keys in place" in note for note in run.summary["notes"])
    assert rejects.read_text() == "January 1 2024 00:00:00,1000\n"
    assert postgres_target.count("t") == 201


@pytest.mark.parametrize("day", ["n/a", "unknown", "2024-02-30"])
def test_what_is_no_key_by_partitions(postgres_target: PostgresTarget, tmp_path: Path, day: str) -> None:
    """It is a reject like any other, though the keys judge when all rows are stored."""
    path = write(tmp_path / "in.csv", f"1,2024-01-01\n2,{day}\n11,2024-01-03\n")
    postgres_target.execute("CREATE TABLE t (k integer, d date, PRIMARY KEY (k, d)) PARTITION BY RANGE (k)")
    rejects = tmp_path / "bad.csv"
    by_key = {"partition_by": "range(k,every=10)", "header": "no", "on_error": "skip", "max_rejects": 1}
    load_here(postgres_target, path, rejects=rejects, check=3, **by_key)
    assert rejects.read_text() == f"2,{day}\n"
    assert postgres_target.rows("SELECT k FROM t ORDER BY k") == [(1,), (11,)]


def test_a_key_that_only_the_server_can_read_by_partitions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "1,2024-01-01\n2,Jan 8 1999\n")
    postgres_target.execute("CREATE TABLE t (k integer, d date, PRIMARY KEY (k, d)) PARTITION BY RANGE (k)")
    by_key = {"partition_by": "range(k,every=10)", "header": "no", "on_error": "skip", "max_rejects": 1}
    run = load_here(postgres_target, path, check=1, rejects=tmp_path / "bad.csv", **by_key)
    assert "load it without --partition-by, or mend the values" in " ".join(run.stderr.split())
    assert postgres_target.count("t") == 0


@pytest.mark.parametrize("more", ["", "CREATE INDEX ON t (c)"])
def test_a_text_too_long_for_an_index(postgres_target: PostgresTarget, tmp_path: Path, more: str) -> None:
    """It is no repetition, and shows when the index is built: with the keys in place it is one reject."""
    letters = "".join(random.Random(SEED).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=6000))
    path = write(tmp_path / "in.csv", f"1,{letters}\n2,b\n3,c\n3,d\n")
    table = f"CREATE TABLE t (n integer PRIMARY KEY, c text {'' if more else 'UNIQUE'}); {more}"
    rejects = tmp_path / "bad.csv"
    options: dict[str, Any] = {"header": "no", "on_error": "skip", "max_rejects": 3, "rejects": rejects}
    outcomes = []
    for words in ({"write_path": "text"}, {"restart": True}):
        postgres_target.execute(table)
        run = load_here(postgres_target, path, check=3, **options, **words)
        outcomes.append(outcome(postgres_target, rejects, run))
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0][0]) == 2
    assert any("begun anew with the keys in place: index row size" in note for note in run.summary["notes"])


INDEXED = {
    "text": ("CREATE TABLE t (n integer, c text); CREATE INDEX ON t (c)", "index row"),
    "expression": ("CREATE TABLE t (n integer, c text); CREATE INDEX ON t ((100 / (n - 3)))", "division by zero"),
    "partition": (
        "CREATE TABLE t (n integer, c text) PARTITION BY RANGE (n); CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) "
        "TO (50); CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (50) TO (200); CREATE INDEX ON t (c)",
        "index row",
    ),
    "key": ("CREATE TABLE t (n integer, c text UNIQUE)", "index row"),
}


@pytest.mark.parametrize("mode", ["append", "replace"])
@pytest.mark.parametrize("which", INDEXED)
def test_a_row_that_an_index_refuses(postgres_target: PostgresTarget, tmp_path: Path, which: str, mode: str) -> None:
    """It is the record's fault, whether the table is filled unseen or not: named, or a reject."""
    letters = "".join(random.Random(SEED).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=9000))
    records = [f"{n},{letters if n == 3 else n}\n" for n in range(100)]
    path = write(tmp_path / "in.csv", "".join(records))
    table, reason = INDEXED[which]
    postgres_target.execute(table)
    if mode == "replace":
        postgres_target.execute("INSERT INTO t VALUES (1, 'old')")
    options: dict[str, Any] = {"header": "no", "mode": mode, "columns": "n,c"}
    run = load_here(postgres_target, path, check=1, **options)
    assert ("record    4, which" if which == "expression" else "COPY t, line 4") in run.stderr, str(run)
    assert reason in run.stderr
    assert postgres_target.count("t") == (mode == "replace")
    rejects = tmp_path / "bad.csv"
    run = load_here(postgres_target, path, check=3, on_error="skip", max_rejects=1, rejects=rejects, **options)
    assert rejects.read_text() == records[3]
    assert postgres_target.count("t") == 99
    assert any(f"in place: {reason}" in note for note in run.summary["notes"])


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_key_over_an_expression(postgres_target: PostgresTarget, tmp_path: Path, mode: str) -> None:
    """Of an index that is built, no record with such a key can be looked for; what finds it is said."""
    postgres_target.execute("CREATE TABLE t (n integer, c text); CREATE UNIQUE INDEX ON t ((n % 10))")
    path = write(tmp_path / "in.csv", "1,a\n2,b\n12,c\n3,d\n")
    options: dict[str, Any] = {"header": "no", "mode": mode, "cwd": tmp_path}
    run = load_here(postgres_target, path, check=1, **options)
    assert "((n % 10))=(2) is duplicated" in run.stderr
    assert "with --on-error skip it is named, and kept apart" in run.stderr
    load_here(postgres_target, path, on_error="skip", max_rejects=1, check=3, **options)
    assert (tmp_path / "t.rejects").read_text() == "12,c\n"
    assert postgres_target.count("t") == 3


def test_the_order_of_the_file(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "1,a\n2,b\n1,c\n3,d\n")
    postgres_target.execute("CREATE TABLE t (n integer UNIQUE, c text)")
    options = {"header": "no", "on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad.csv"}
    load_here(postgres_target, path, preserve_order=True, check=3, **options)
    assert postgres_target.rows("SELECT n FROM t ORDER BY ctid") == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("kind", "value", "helps"),
    [("timestamp", "January 1 2024", " (k)"), ("timestamptz", "2024-01-01 10:00:00", "or set PGTZ=UTC")],
)
def test_why_an_option_is_refused_so_late(
    postgres_target: PostgresTarget,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    value: str,
    helps: str,
) -> None:
    """A key that only the server can read stands against what was asked for: the value is the cause."""
    path = write(tmp_path / "in.csv", f"2024-01-01 00:00:00+00,1\n{value},2\n")
    monkeypatch.setenv("PGTZ", "Europe/Berlin")
    postgres_target.execute(f"CREATE TABLE t (k {kind} PRIMARY KEY, n integer)")
    options = {"header": "no", "on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad.csv"}
    run = load_here(postgres_target, path, commit_every=100, check=1, **options)
    assert "only the server can read the keys" in run.stderr
    assert helps in run.stderr
    assert "--commit-every" in run.stderr
    assert postgres_target.leftovers("t") == set()


def test_one_more_than_allowed(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Nothing is published, and the record is named."""
    path = write(tmp_path / "in.csv", "1,a\n2,b\n1,c\n3,d\n2,e\n3,f\n")
    postgres_target.execute("CREATE TABLE t (n integer PRIMARY KEY, c text)")
    options = {"header": "no", "on_error": "skip", "rejects": tmp_path / "bad.csv"}
    run = load_here(postgres_target, path, max_rejects=2, **options, check=1)
    assert "record 6" in run.stderr
    assert "(n)=(3)" in run.stderr
    assert postgres_target.count("t") == 0
    assert postgres_target.leftovers("t") == set()
    run = load_here(postgres_target, path, max_rejects="40%", **options, check=1)
    assert postgres_target.count("t") == 0
    load_here(postgres_target, path, max_rejects="50%", **options, check=3)
    assert postgres_target.rows("SELECT n, c FROM t ORDER BY n") == [(1, "a"), (2, "b"), (3, "d")]


def test_without_a_ledger(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "".join(records_with_twins(5_000, 5)))
    both_ways(postgres_target, tmp_path, TWO_KEYS, path, no_ledger=True)


def test_settings_of_the_database(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A row that is taken out and stored again means what it meant at first: here the day stands before the month."""
    postgres_target.execute(f"ALTER DATABASE {postgres_target.database} SET datestyle TO 'SQL, DMY'")
    path = write(tmp_path / "in.csv", "1,02/05/1999,a\n2,02/03/1999,b\n1,02/05/1999,c\n")
    table = "CREATE TABLE t (n integer PRIMARY KEY, day date, c text)"
    both_ways(postgres_target, tmp_path, table, path)
    postgres_target.execute(table)
    load_here(
        postgres_target, path, header="no", on_error="skip", max_rejects=1, rejects=tmp_path / "bad", restart=True,
        check=3,
    )  # fmt: skip
    assert postgres_target.rows("SELECT n, extract(month FROM day)::integer FROM t ORDER BY n") == [(1, 5), (2, 3)]


def test_commit_every(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What a limit has cut off a slice is a slice of its own."""
    path = write(tmp_path / "in.csv", "".join(records_with_twins(5_000, 6)))
    postgres_target.execute(TWO_KEYS)
    rejects = tmp_path / "bad.csv"
    options: dict[str, Any] = {"header": "no", "on_error": "skip", "max_rejects": "100%", "rejects": rejects}
    expected = outcome(
        postgres_target, rejects, load_here(postgres_target, path, write_path="text", check=3, **options)
    )
    postgres_target.execute(TWO_KEYS)
    run = load_here(postgres_target, path, commit_every=700, restart=True, check=3, **options)
    assert outcome(postgres_target, rejects, run) == expected


def test_a_corrected_reject_is_replayed(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "1,a\n2,b\n1,c\n2,d\n")
    postgres_target.execute("CREATE TABLE t (n integer PRIMARY KEY, c text)")
    rejects = tmp_path / "bad.csv"
    options = {"header": "no", "on_error": "skip", "max_rejects": 2, "rejects": rejects}
    load_here(postgres_target, path, **options, check=3)
    assert rejects.read_text() == "1,c\n2,d\n"
    write(rejects, "1,c\n7,d\n")
    load_here(postgres_target, path, replay=True, **options, check=3)
    assert postgres_target.rows("SELECT n, c FROM t ORDER BY n") == [(1, "a"), (2, "b"), (7, "d")]


def test_every_record_is_there_many_times(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "".join(f"{n % 3},{n}\n" for n in range(60_000)))
    run = both_ways(postgres_target, tmp_path, "CREATE TABLE t (n integer PRIMARY KEY, c integer)", path, jobs=2)
    assert run.summary is not None
    assert (run.summary["rows"], run.summary["rejects"]) == (3, 59_997)


def test_columns_are_quoted_as_the_server_does(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    table = (
        'CREATE TABLE t ("Id x" integer, "a,b" text, "order" integer UNIQUE, plain_1 integer UNIQUE, "q""q" integer, '
    )
    table += 'UNIQUE ("Id x", "a,b"), UNIQUE ("q""q"))'
    path = write(tmp_path / "in.csv", "1,a,1,1,1\n1,a,2,2,2\n2,b,1,3,3\n3,c,4,1,4\n4,d,5,5,1\n")
    run = both_ways(postgres_target, tmp_path, table, path)
    assert run.summary is not None
    assert run.summary["rejects"] == 4
    batch = pyarrow.csv.read_csv(path, read_options=pyarrow.csv.ReadOptions(autogenerate_column_names=True))
    batch = batch.rename_columns(["Id x", "a,b", "order", "plain_1", 'q"q'])
    pa.parquet.write_table(batch, tmp_path / "in.parquet")
    postgres_target.execute(table)
    load_here(
        postgres_target, tmp_path / "in.parquet", on_error="skip", max_rejects=4, rejects=tmp_path / "bad", check=3
    )
    assert postgres_target.count("t") == 1
