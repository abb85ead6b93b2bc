"""Partitioned loading: rows land in the partition that the server itself would choose, and all appear at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow
import pyarrow.parquet
import pytest

import tipple
from loading import load_here as load
from loading import load_text_here as load_text
from servers.postgres import PostgresServer
from targets import PostgresTarget, write

RANGES = """
CREATE TABLE t (a integer NOT NULL, b text) PARTITION BY RANGE (a);
CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (MINVALUE) TO (0);
CREATE TABLE t_mid PARTITION OF t FOR VALUES FROM (0) TO (1000);
CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (1000) TO (2000);
"""


def per_partition(target: PostgresTarget, table: str = "t") -> dict[str, int]:
    """Rows by partition."""
    return dict(target.rows(f"SELECT tableoid::regclass::text, count(*) FROM {table} GROUP BY 1 ORDER BY 1"))


def partition_names(target: PostgresTarget, table: str = "t") -> list[str]:
    return [
        name
        for (name,) in target.rows(
            f"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = '{table}'::regclass ORDER BY 1"
        )
    ]


def check_tidy(target: PostgresTarget) -> None:
    """Nothing of Tipple's is left: no table, no constraint, no comment, no storage parameter."""
    assert not [name for name in target.tables() if "stage_" in name]
    assert target.rows("SELECT conname FROM pg_constraint WHERE conname LIKE 'stage%'") == []
    assert target.rows("SELECT relname FROM pg_class WHERE relname LIKE 'stage%'") == []
    assert target.rows("SELECT description FROM pg_description WHERE description LIKE '{%'") == []
    assert target.rows("SELECT relname FROM pg_class WHERE array_to_string(reloptions, ',') LIKE '%autovacuum%'") == []


def numbers(seed: int, count: int, low: int, high: int) -> list[int]:
    r = random.Random(seed)
    return [r.randrange(low, high) for _ in range(count)]


def text_of(keys: list[int]) -> str:
    return "".join(f"{key},x{key}\n" for key in keys)


def test_mixed_rows_into_range_partitions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(RANGES)
    postgres_target.execute("CREATE INDEX t_b ON t (b)")
    keys = numbers(1, 20_000, -1000, 2000)
    run = load_text(postgres_target, tmp_path / "in.csv", text_of(keys), verify="checksum")
    assert run.summary["strategy"] == "partition"
    assert postgres_target.count("t") == len(keys)
    expected = {
        "t_high": sum(key >= 1000 for key in keys),
        "t_low": sum(key < 0 for key in keys),
        "t_mid": sum(0 <= key < 1000 for key in keys),
    }
    assert per_partition(postgres_target) == expected
    assert any("routed one by one" in note for note in run.summary["notes"])
    check_tidy(postgres_target)
    # The index is the table's own, under the names that it had.
    rows = postgres_target.rows("SELECT indexname FROM pg_indexes WHERE tablename LIKE 't\\_%' ORDER BY 1")
    assert [name for (name,) in rows] == ["t_high_b_idx", "t_low_b_idx", "t_mid_b_idx"]
    assert postgres_target.value("SELECT indisvalid FROM pg_index WHERE indexrelid = 't_b'::regclass")
    assert load(postgres_target, tmp_path / "in.csv").summary["status"] == "already loaded"


def test_a_file_per_partition_goes_straight(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(RANGES)
    files = [
        write(tmp_path / f"{n}.csv", text_of(numbers(n, 5000, *bounds)))
        for n, bounds in enumerate([(-1000, 0), (0, 1000), (1000, 2000)])
    ]
    run = load(postgres_target, *files)
    assert per_partition(postgres_target) == {"t_low": 5000, "t_mid": 5000, "t_high": 5000}
    assert any("went straight" in note for note in run.summary["notes"])
    check_tidy(postgres_target)


def test_a_record_without_a_partition(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(RANGES)
    run = load_text(postgres_target, tmp_path / "in.csv", "1,a\n1999,b\n2000,c\n5,d\n", check=1)
    assert "record    3" in run.stderr
    assert "2000" in run.stderr
    assert "partition" in run.stderr
    assert postgres_target.count("t") == 0
    check_tidy(postgres_target)
    run = load(postgres_target, tmp_path / "in.csv", on_error="skip", max_rejects=5, check=3, cwd=tmp_path)
    assert per_partition(postgres_target) == {"t_high": 1, "t_mid": 2}
    assert (tmp_path / "t.rejects").read_text() == "2000,c\n"
    reasons = (tmp_path / "t.rejects.reasons.csv").read_text()
    assert "23514" in reasons
    assert "no partition" in reasons


def test_a_null_key(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (a integer, b text) PARTITION BY RANGE (a)")
    postgres_target.execute("CREATE TABLE t_mid PARTITION OF t FOR VALUES FROM (0) TO (1000)")
    run = load_text(postgres_target, tmp_path / "in.csv", "1,a\n,b\n", check=1)
    assert "record    2" in run.stderr
    assert "NULL" in run.stderr
    postgres_target.execute("CREATE TABLE t_rest PARTITION OF t DEFAULT")
    load(postgres_target, tmp_path / "in.csv")
    assert per_partition(postgres_target) == {"t_mid": 1, "t_rest": 1}
    check_tidy(postgres_target)


# ---- keys of every kind --------------------------------------------------------------------------------


KEYS: dict[str, tuple[str, list[str], list[str]]] = {
    # type: partitions, values
    "bigint": ("range", ["FROM (MINVALUE) TO (-5)", "FROM (-5) TO (9000000000)", "FROM (9000000000) TO (MAXVALUE)"],
               ["-6", "-5", "0", "8999999999", "9000000000", "9223372036854775807", " 7 "]),
    "smallint": ("range", ["FROM (-32768) TO (0)", "FROM (0) TO (MAXVALUE)"], ["-32768", "-1", "0", "32767"]),
    "date": ("range", ["FROM ('1992-01-01') TO ('1993-01-01')", "FROM ('1993-01-01') TO ('2100-01-01')"],
             ["1992-01-01", "1992-12-31", "1993-01-01", "2099-12-31", "Jan 5 1993", "19920704"]),
    "timestamp(3)": ("range", ["FROM ('2020-01-01') TO ('2020-01-02 12:00')",
                                "FROM ('2020-01-02 12:00') TO (MAXVALUE)"],
                     ["2020-01-01 00:00:00", "2020-01-02 11:59:59.9994", "2020-01-02 11:59:59.9996", "infinity"]),
    "timestamptz": ("range", ["FROM (MINVALUE) TO ('2020-01-01 00:00+00')",
                              "FROM ('2020-01-01 00:00+00') TO (MAXVALUE)"],
                    ["2019-12-31 23:59:59+00", "2020-01-01 00:00:00+00", "2020-01-01 00:30:00+01"]),
    "numeric(12,2)": ("range", ["FROM (MINVALUE) TO (-0.5)", "FROM (-0.5) TO (10000)", "FROM (10000) TO (MAXVALUE)"],
                      ["-0.51", "-0.5", "-0.499", "0", "9999.994", "9999.995", "10000.00", "NaN"]),
    "double precision": ("range", ["FROM (MINVALUE) TO (0)", "FROM (0) TO ('Infinity')",
                                   "FROM ('Infinity') TO (MAXVALUE)"],
                         ["-1e300", "-0", "0.0", "1e300", "Infinity", "NaN"]),
    'text COLLATE "C"': ("range", ["FROM (MINVALUE) TO ('B')", "FROM ('B') TO ('a''b')",
                                   "FROM ('a''b') TO (MAXVALUE)"],
                         ["A", "B", "Bz", "a", "a'", "a'b", "a'c", "\u00e9"]),
    'char(5) COLLATE "C"': ("range", ["FROM (MINVALUE) TO ('b')", "FROM ('b') TO (MAXVALUE)"], ["a", "b", "b ", "ab"]),
    "uuid": ("range", ["FROM (MINVALUE) TO ('80000000-0000-0000-0000-000000000000')",
                       "FROM ('80000000-0000-0000-0000-000000000000') TO (MAXVALUE)"],
             ["00000000-0000-0000-0000-000000000000", "7fffffff-ffff-ffff-ffff-ffffffffffff",
              "80000000-0000-0000-0000-000000000000", "{FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF}"]),
    "text": ("list", ["IN ('a', 'b''c')", "IN ('', 'B')", "IN (NULL)"], ["a", "b'c", '""', "B", ""]),
    "char(3)": ("list", ["IN ('a', 'bb')", "IN ('ccc')"], ["a", "a  ", "bb", "ccc"]),
    "boolean": ("list", ["IN (true)", "IN (false)"], ["t", "no", "1"]),
    "integer": ("list", ["IN (1, -2)", "IN (3)"], ["1", "-2", "3"]),
    "numeric": ("list", ["IN (1.50)", "IN (2)"], ["1.5", "2.000", "15e-1"]),
}  # fmt: skip


def make_table(target: PostgresTarget, column: str, method: str, bounds: list[str]) -> None:
    target.execute(f"CREATE TABLE t (n integer, {column}) PARTITION BY {method} (k)")
    for number, bound in enumerate(bounds):
        target.execute(f"CREATE TABLE t{number} PARTITION OF t FOR VALUES {bound}")


@pytest.mark.parametrize("kind", KEYS)
def test_keys_land_where_the_server_would_put_them(postgres_target: PostgresTarget, tmp_path: Path, kind: str) -> None:
    """Every value twice in a random order, so that no window is of one partition."""
    method, bounds, values = KEYS[kind]
    make_table(postgres_target, f"k {kind}", method, bounds)
    lines = [f"{n},{value}\n" for n, value in enumerate(values * 2)]
    random.Random(1).shuffle(lines)
    path = write(tmp_path / "in.csv", "".join(lines))
    notes = tipple.load(path, into=postgres_target.url, table="t", format="csv", header="no").notes
    assert postgres_target.count("t") == len(lines)
    by_core = sorted(postgres_target.rows("SELECT tableoid::regclass::text, n FROM t"))
    assert any("routed one by one" in note for note in notes), notes
    postgres_target.execute("CREATE TABLE u AS SELECT * FROM t; TRUNCATE t; INSERT INTO t SELECT * FROM u")
    assert sorted(postgres_target.rows("SELECT tableoid::regclass::text, n FROM t")) == by_core
    postgres_target.execute("DROP TABLE u")
    check_tidy(postgres_target)


@pytest.mark.parametrize("kind", ["bigint", "integer", "smallint", "date", "timestamp", "text", "char(8)", "uuid"])
def test_hashes_are_the_servers(postgres_target: PostgresTarget, tmp_path: Path, kind: str) -> None:
    make_table(
        postgres_target, f"k {kind}", "HASH",
        ["WITH (MODULUS 3, REMAINDER 0)", "WITH (MODULUS 3, REMAINDER 1)", "WITH (MODULUS 6, REMAINDER 2)",
         "WITH (MODULUS 6, REMAINDER 5)"],
    )  # fmt: skip
    cast = {"date": "date '2000-01-01' + n", "timestamp": "timestamp '2000-01-01' + n * interval '1.000001 hour'",
            "uuid": "md5(n::text)::uuid"}.get(kind, f"(n * 7 - 900)::{kind}")  # fmt: skip
    rows = postgres_target.rows(f"SELECT n, ({cast})::text FROM generate_series(1, 400) n")
    path = write(tmp_path / "in.csv", "".join(f"{n},{key}\n" for n, key in rows))
    notes = tipple.load(path, into=postgres_target.url, table="t").notes
    assert postgres_target.count("t") == 400
    assert any("400 of 400" in note for note in notes), notes
    check_tidy(postgres_target)


def test_several_key_columns(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("""
        CREATE TABLE t (b text, a integer, d date) PARTITION BY RANGE (a, d);
        CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (MINVALUE, MINVALUE) TO (1, '2020-01-01');
        CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (1, '2020-01-01') TO (1, MAXVALUE);
        CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (2, MINVALUE) TO (5, '2020-01-01');
    """)
    data = "x,0,2030-01-01\nx,1,2019-12-31\nx,1,2020-01-01\nx,1,2099-01-01\nx,2,1999-01-01\nx,5,2019-12-31\n"
    run = load_text(postgres_target, tmp_path / "in.csv", data)
    assert per_partition(postgres_target) == {"t0": 2, "t1": 2, "t2": 2}
    assert any("routed one by one: 6 of 6" in note for note in run.summary["notes"])
    run = load_text(postgres_target, tmp_path / "out.csv", "x,5,2020-01-01\n", check=1)
    assert "no partition" in run.stderr
    check_tidy(postgres_target)


@pytest.mark.parametrize(
    ("create", "reason"),
    [
        ('CREATE TABLE t (a integer, k text COLLATE "en_US") PARTITION BY RANGE (k)', "order"),
        ("CREATE TABLE t (a integer, k text) PARTITION BY RANGE (lower(k))", "expression"),
        ("CREATE TABLE t (a integer, k text) PARTITION BY RANGE (k text_pattern_ops)", "operator class"),
    ],
)
def test_what_only_the_server_can_route(
    postgres_target: PostgresTarget, tmp_path: Path, create: str, reason: str
) -> None:
    try:
        postgres_target.execute(create)
    except psycopg.errors.UndefinedObject:
        try:
            postgres_target.execute("CREATE COLLATION \"en_US\" (provider = icu, locale = 'en-US')")
        except psycopg.errors.FeatureNotSupported:
            pytest.skip("this server has no collation but C")
        postgres_target.execute(create)
    postgres_target.execute("CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (MINVALUE) TO ('m')")
    postgres_target.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM ('m') TO (MAXVALUE)")
    run = load_text(postgres_target, tmp_path / "in.csv", "1,a\n2,z\n3,b\n")
    assert per_partition(postgres_target) == {"t0": 2, "t1": 1}
    assert any("the server found the partition" in note and reason in note for note in run.summary["notes"])
    check_tidy(postgres_target)


def test_partitions_of_partitions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("""
        CREATE TABLE t (a integer, k text, PRIMARY KEY (a, k)) PARTITION BY RANGE (a);
        CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10) PARTITION BY LIST (k);
        CREATE TABLE t0x PARTITION OF t0 FOR VALUES IN ('x');
        CREATE TABLE t0y PARTITION OF t0 FOR VALUES IN ('y');
        CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (10) TO (20);
    """)
    run = load_text(postgres_target, tmp_path / "in.csv", "1,x\n2,y\n11,z\n3,y\n")
    assert run.summary["strategy"] == "partition"
    assert per_partition(postgres_target) == {"t0x": 1, "t0y": 2, "t1": 1}
    check_tidy(postgres_target)
    with pytest.raises(psycopg.errors.UniqueViolation):
        postgres_target.execute("INSERT INTO t VALUES (3, 'y')")


def test_a_check_of_a_partition_that_is_divided_further(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("""
        CREATE TABLE t (a integer, k text) PARTITION BY RANGE (a);
        CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10) PARTITION BY LIST (k);
        CREATE TABLE t0x PARTITION OF t0 FOR VALUES IN ('x');
        ALTER TABLE t0 ADD CONSTRAINT few CHECK (a < 5);
    """)
    run = load_text(postgres_target, tmp_path / "bad.csv", "1,x\n6,x\n", check=1)
    assert "record    2" in run.stderr
    assert '"few"' in run.stderr
    assert load_text(postgres_target, tmp_path / "in.csv", "1,x\n").summary["strategy"] == "partition"
    assert per_partition(postgres_target) == {"t0x": 1}
    with pytest.raises(psycopg.errors.CheckViolation):
        postgres_target.execute("INSERT INTO t0x VALUES (6, 'x')")
    check_tidy(postgres_target)


# ---- publish -------------------------------------------------------------------------------------------


def test_attach_scans_nothing(fresh_server: Callable[..., PostgresServer], tmp_path: Path) -> None:
    """The server itself says that the bound is implied by a constraint."""
    server = fresh_server(settings={"log_min_messages": "debug1"})
    target = PostgresTarget(server)
    try:
        target.execute(RANGES + "CREATE TABLE l (k text) PARTITION BY LIST (k); "
                       "CREATE TABLE l0 PARTITION OF l FOR VALUES IN ('a', 'b'); "
                       "CREATE TABLE l1 PARTITION OF l FOR VALUES IN ('c')")  # fmt: skip
        load_text(target, tmp_path / "in.csv", text_of(numbers(1, 3000, -1000, 2000)), mode="replace")
        load_text(target, tmp_path / "l.csv", "a\nc\nb\n", table="l")
        log = server.log_text()
        for name in ("t_low", "t_mid", "t_high", "l0", "l1"):
            assert f'partition constraint for table "{name}" is implied by existing constraints' in log
        assert "verifying table" not in log
        assert per_partition(target, "l") == {"l0": 2, "l1": 1}
    finally:
        target.close()


@pytest.mark.parametrize("many", [True, False])
def test_append_to_partitions_with_rows(postgres_target: PostgresTarget, tmp_path: Path, many: bool) -> None:
    """The smaller side goes into the larger one."""
    postgres_target.execute(RANGES)
    postgres_target.execute("ALTER TABLE t ADD PRIMARY KEY (a)")
    old = 10 if many else 800
    postgres_target.execute(f"INSERT INTO t SELECT n, repeat('y', 100) FROM generate_series(0, {old - 1}) n")
    new = range(old, 1000) if many else range(990, 1000)
    run = load_text(postgres_target, tmp_path / "in.csv", "".join(f"{n},{'z' * 100}\n" for n in [*new, 1500, -1]))
    assert postgres_target.count("t_mid") == old + len(new)
    assert per_partition(postgres_target)["t_low"] == 1
    notes = " ".join(run.summary["notes"])
    assert "2 swapped in" in notes
    assert ("with the rows that were there" if many else "filled by INSERT") in notes
    check_tidy(postgres_target)
    with pytest.raises(psycopg.errors.UniqueViolation):
        postgres_target.execute("INSERT INTO t VALUES (995, '')")


def test_a_duplicate_key_publishes_nothing(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(RANGES)
    postgres_target.execute("ALTER TABLE t ADD PRIMARY KEY (a)")
    postgres_target.execute("INSERT INTO t VALUES (5, 'old')")
    run = load_text(postgres_target, tmp_path / "in.csv", "1500,a\n5,b\n", check=1)
    assert "23505" in run.stderr or "duplicate" in run.stderr
    run = load_text(postgres_target, tmp_path / "two.csv", "1500,a\n1500,b\n", check=1)
    assert "23505" in run.stderr or "duplicate" in run.stderr
    assert postgres_target.rows("SELECT * FROM t") == [(5, "old")]
    check_tidy(postgres_target)


def test_replace_the_table(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(RANGES)
    postgres_target.execute("INSERT INTO t SELECT n, 'old' FROM generate_series(-10, 1999, 10) n")
    load_text(postgres_target, tmp_path / "in.csv", "1,new\n2,new\n", mode="replace")
    assert postgres_target.sorted_rows("t") == [(1, "new"), (2, "new")]
    assert partition_names(postgres_target) == ["t_high", "t_low", "t_mid"]
    check_tidy(postgres_target)


def test_replace_some_partitions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(RANGES)
    postgres_target.execute("INSERT INTO t SELECT n, 'old' FROM generate_series(-10, 1999, 10) n")
    kept = postgres_target.sorted_rows("t_low") + postgres_target.sorted_rows("t_high")
    options = {"mode": "replace", "replace_scope": "partitions"}
    load_text(postgres_target, tmp_path / "in.csv", "1,new\n2,new\n", **options)
    assert postgres_target.sorted_rows("t_mid") == [(1, "new"), (2, "new")]
    assert postgres_target.sorted_rows("t_low") + postgres_target.sorted_rows("t_high") == kept
    check_tidy(postgres_target)
    load_text(postgres_target, tmp_path / "none.csv", "", **options)
    assert postgres_target.count("t") == 2 + len(kept)
    # What is there twice is loaded once, and a load before is not taken for undone by it.
    assert load(postgres_target, tmp_path / "in.csv", restart=True, **options).summary["rows"] == 2
    assert postgres_target.count("t_mid") == 2
    load_text(postgres_target, tmp_path / "wrong.csv", "1,x\n", replace_scope="partitions", check=2)
    # Of a table without partitions all rows would go.
    postgres_target.execute("CREATE TABLE whole (a integer, b text); INSERT INTO whole VALUES (7, 'old')")
    for dry_run in (True, False):
        run = load_text(
            postgres_target, tmp_path / "whole.csv", "1,x\n", table="whole", dry_run=dry_run, check=2, **options
        )
        assert "no partitions that --replace-scope" in run.stderr
    assert postgres_target.rows("SELECT * FROM whole") == [(7, "old")]


def test_replacing_partitions_skips_no_foreign_key(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """One that only the server can judge does so when all is staged: the record is named, and why it stays."""
    postgres_target.execute(RANGES)
    postgres_target.execute(
        "CREATE TABLE other (a integer, b text, PRIMARY KEY (a, b)); INSERT INTO other VALUES (1, 'x'), (2, 'x')"
    )
    postgres_target.execute(
        "INSERT INTO t VALUES (1, 'x'); ALTER TABLE t ADD FOREIGN KEY (a, b) REFERENCES other MATCH FULL"
    )
    options = {"mode": "replace", "replace_scope": "partitions"}
    options |= {"on_error": "skip", "max_rejects": 9, "rejects": tmp_path / "bad"}
    run = load_text(postgres_target, tmp_path / "in.csv", "1,x\nbad,x\n2,y\n", check=1, **options)
    assert "record    3," in run.stderr
    assert "23503" in run.stderr
    assert "judged as a whole" in run.stderr
    assert postgres_target.sorted_rows("t") == [(1, "x")]
    check_tidy(postgres_target)
    load_text(postgres_target, tmp_path / "in.csv", "1,x\nbad,x\n2,x\n", check=3, **options)
    assert postgres_target.sorted_rows("t") == [(1, "x"), (2, "x")]


def test_replacing_the_default_partition_is_said(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """It is replaced as a whole, too: before, the plan warns of it, and after, the report says that it was."""
    postgres_target.execute(RANGES)
    postgres_target.execute("CREATE TABLE t_rest PARTITION OF t DEFAULT")
    postgres_target.execute("INSERT INTO t VALUES (1, 'old'), (5000, 'old'), (6000, 'old')")
    options = {"mode": "replace", "replace_scope": "partitions"}
    warned, done = "replaces all rows of", "have replaced all rows of the default partition"
    other = load_text(postgres_target, tmp_path / "1.csv", "2,new\n", **options)
    assert any(warned in note and "t_rest" in note for note in other.summary["notes"])
    assert not any(done in note for note in other.summary["notes"])
    assert postgres_target.sorted_rows("t") == [(2, "new"), (5000, "old"), (6000, "old")]
    run = load_text(postgres_target, tmp_path / "2.csv", "7000,new\n", **options)
    assert any(done in note for note in run.summary["notes"])
    assert postgres_target.sorted_rows("t") == [(2, "new"), (7000, "new")]


@pytest.mark.parametrize("skip", [False, True])
def test_a_checksum_of_rows_that_the_server_routes(
    postgres_target: PostgresTarget, tmp_path: Path, *, skip: bool
) -> None:
    """The table itself has no rows: they are read back from its partitions."""
    postgres_target.execute(RANGES)
    postgres_target.execute(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'; "
        "CREATE TRIGGER mine BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f(); INSERT INTO t VALUES (2, 'old')"
    )
    options = {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad", "check": 3} if skip else {}
    text = "-1,a\n1,b\n1001,c\n" + "x,d\n" * skip
    run = load_text(postgres_target, tmp_path / "in.csv", text, verify="checksum", **options)
    assert run.summary["strategy"] == "single"
    assert (run.summary["verify"]["kind"], run.summary["verify"]["rows_target"]) == ("count" if skip else "checksum", 3)
    assert postgres_target.sorted_rows("t") == [(-1, "a"), (1, "b"), (1001, "c"), (2, "old")]


def test_what_hangs_on_a_partition_stays(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Grants, an index of its own, a view: filled by INSERT, or carried over."""
    postgres_target.execute(RANGES)
    postgres_target.execute("CREATE INDEX own ON t_low (b); GRANT SELECT ON t_mid TO PUBLIC")
    postgres_target.execute("CREATE VIEW v AS SELECT * FROM t_high")
    for mode in ("append", "replace"):
        run = load_text(postgres_target, tmp_path / f"{mode}.csv", f"-1,{mode}\n1,{mode}\n1001,{mode}\n", mode=mode)
        assert "1 filled by INSERT" in " ".join(run.summary["notes"]), run.summary["notes"]
    assert postgres_target.sorted_rows("t") == [(-1, "replace"), (1, "replace"), (1001, "replace")]
    assert postgres_target.count("v") == 1
    assert postgres_target.value("SELECT relacl IS NOT NULL FROM pg_class WHERE relname = 't_mid'")
    assert postgres_target.rows("SELECT tablename FROM pg_indexes WHERE indexname = 'own'") == [("t_low",)]
    check_tidy(postgres_target)


def test_an_index_over_whole_rows_of_a_partition(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The partition stays, since no other one can have such an index."""
    postgres_target.execute(RANGES)
    postgres_target.execute("CREATE UNIQUE INDEX own ON t_mid (a) WHERE t_mid IS NOT NULL")
    for mode in ("append", "replace"):
        run = load_text(postgres_target, tmp_path / f"{mode}.csv", f"1,{mode}\n1001,{mode}\n", mode=mode, restart=True)
        assert "t_mid: its index own has a whole-row reference" in " ".join(run.summary["notes"])
    assert postgres_target.sorted_rows("t") == [(1, "replace"), (1001, "replace")]
    check_tidy(postgres_target)


@pytest.mark.parametrize(
    "hindrance",
    [
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.b := 1; RETURN NEW; END'; "
        "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "ALTER TABLE t ADD PRIMARY KEY (a); CREATE TABLE r (a integer REFERENCES t)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE t ADD CHECK (tableoid::regclass::text LIKE 't\\_%')",
        "ALTER TABLE t_mid ADD CHECK (tableoid = 't_mid'::regclass)",
        "ALTER TABLE t_mid ADD CHECK (t_mid IS NOT NULL)",
    ],
)
def test_what_needs_the_table_itself(postgres_target: PostgresTarget, tmp_path: Path, hindrance: str) -> None:
    postgres_target.execute(RANGES)
    postgres_target.execute(hindrance)
    run = load_text(postgres_target, tmp_path / "in.csv", "1,a\n1001,b\n")
    assert run.summary["strategy"] == "single"
    assert per_partition(postgres_target) == {"t_mid": 1, "t_high": 1}
    load_text(postgres_target, tmp_path / "in2.csv", "2,a\n", partition_by="range(a, every=1000)", check=2)


def test_a_partition_whose_trigger_mends_rows(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """NOT NULL judges them afterwards, as it does where COPY brings them."""
    postgres_target.execute(RANGES)
    postgres_target.execute(
        "ALTER TABLE t_mid ALTER b SET NOT NULL; CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN NEW.b := coalesce(NEW.b, ''mended''); RETURN NEW; END'; "
        "CREATE TRIGGER mends BEFORE INSERT ON t_mid FOR EACH ROW EXECUTE FUNCTION f()"
    )
    run = load_text(postgres_target, tmp_path / "in.csv", "1,\n2,x\n1001,y\n")
    assert "the trigger mends of its partition t_mid may mend rows" in run.summary["strategy_reason"]
    assert postgres_target.sorted_rows("t") == [(1, "mended"), (1001, "y"), (2, "x")]


def test_constraints_of_the_table(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Checks, defaults, generated columns, foreign keys, indexes on expressions: as if loaded by COPY."""
    postgres_target.execute("""
        CREATE TABLE colour (id integer PRIMARY KEY);
        INSERT INTO colour VALUES (1), (2);
        CREATE TABLE t (a integer NOT NULL, c integer REFERENCES colour, b text DEFAULT 'none',
            g integer GENERATED ALWAYS AS (a * 2) STORED, CONSTRAINT positive CHECK (a > 0), PRIMARY KEY (a))
            PARTITION BY RANGE (a);
        CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10);
        CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (10) TO (20);
        CREATE UNIQUE INDEX ON t (a, lower(b)); CREATE INDEX ON t (c) WHERE c > 1;
    """)
    catalog = (
        "SELECT conrelid::regclass::text, conname, contype, pg_get_constraintdef(oid), convalidated, coninhcount "
        "FROM pg_constraint WHERE conrelid IN ('t0'::regclass, 't1'::regclass) AND contype <> 'n' ORDER BY 1, 2"
    )
    indexes = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE tablename IN ('t', 't0', 't1') ORDER BY 1, 2"
    before = postgres_target.rows(catalog), postgres_target.rows(indexes)
    load_text(postgres_target, tmp_path / "in.csv", "1,1\n11,2\n", columns="a,c")
    assert postgres_target.sorted_rows("t") == [(1, 1, "none", 2), (11, 2, "none", 22)]
    assert (postgres_target.rows(catalog), postgres_target.rows(indexes)) == before
    for data, word in (("0,1\n12,1\n", "positive"), ("2,3\n12,1\n", "foreign key"), ("2,\nx,1\n", "integer")):
        run = load_text(postgres_target, tmp_path / "bad.csv", data, columns="a,c", check=1)
        assert word in run.stderr
    assert postgres_target.count("t") == 2
    run = load_text(
        postgres_target, tmp_path / "skip.csv", "0,1\n3,1\n", columns="a,c", on_error="skip", max_rejects=9,
        check=3, cwd=tmp_path,
    )  # fmt: skip
    assert postgres_target.count("t") == 3
    check_tidy(postgres_target)


def test_rejects_of_the_server_are_named(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A CHECK that only the server can judge: the record is named although it was routed."""
    postgres_target.execute(RANGES)
    postgres_target.execute("ALTER TABLE t ADD CHECK (b <> 'x77')")
    keys = [*range(-100, 70), *range(900, 1100), 77, 5]
    run = load_text(postgres_target, tmp_path / "in.csv", text_of(keys), check=1)
    assert "record    371" in run.stderr
    assert "in.csv" in run.stderr
    run = load(postgres_target, tmp_path / "in.csv", on_error="skip", max_rejects=1, check=3, cwd=tmp_path)
    assert postgres_target.count("t") == len(keys) - 1
    assert (tmp_path / "t.rejects").read_text() == "77,x77\n"
    check_tidy(postgres_target)


def test_columnar_sources(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(RANGES)
    keys = numbers(5, 3000, -1000, 2000)
    table = pyarrow.table({"a": pyarrow.array(keys, pyarrow.int32()), "b": [f"x{key}" for key in keys]})
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet", row_group_size=1000)
    run = load(postgres_target, tmp_path / "in.parquet", verify="checksum")
    assert any("routed one by one: 3,000 of 3,000" in note for note in run.summary["notes"])
    expected = per_partition(postgres_target)
    assert sum(expected.values()) == 3000
    report = tipple.load(table, into=postgres_target.url, table="t", mode="replace")
    assert any("the server found" in note for note in report.notes)
    assert per_partition(postgres_target) == expected
    bad = pyarrow.table({"a": pyarrow.array([1, 5000], pyarrow.int32()), "b": ["x", "y"]})
    pyarrow.parquet.write_table(bad, tmp_path / "bad.parquet")
    run = load(postgres_target, tmp_path / "bad.parquet", check=1)
    assert "record    2" in run.stderr
    # Only the server can refuse this one: it is named although it was routed.
    postgres_target.execute("ALTER TABLE t ADD CHECK (b <> 'x')")
    late = pyarrow.table({"a": pyarrow.array([1, 1500, 5], pyarrow.int32()), "b": ["y", "y", "x"]})
    pyarrow.parquet.write_table(late, tmp_path / "late.parquet")
    run = load(postgres_target, tmp_path / "late.parquet", mode="append", check=1)
    assert "t_b_check" in run.stderr
    assert "3" in run.stderr
    check_tidy(postgres_target)


def test_a_key_of_two_columns_with_a_null(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """No range takes it: it is told with all of the key, and a default partition has it if there is one."""
    postgres_target.execute("""
        CREATE TABLE t (a int, b int) PARTITION BY RANGE (a, b);
        CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0, 0) TO (20, MAXVALUE);
    """)
    path = write(tmp_path / "in.csv", "5,5\n5,\n,5\n")
    run = load(postgres_target, path, header="no", check=1)
    assert "no partition of the table takes (a, b) = (5, NULL)" in run.stderr
    load(postgres_target, path, header="no", on_error="skip", max_rejects=2, check=3, cwd=tmp_path)
    assert (tmp_path / "t.rejects").read_text() == "5,\n,5\n"
    postgres_target.execute("CREATE TABLE td PARTITION OF t DEFAULT")
    load(postgres_target, path, header="no")
    assert per_partition(postgres_target) == {"t1": 2, "td": 2}
