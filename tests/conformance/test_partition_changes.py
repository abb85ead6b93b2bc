"""Partitioned tables that are not what they were when the load began, or with names and trees out of the ordinary."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from command import Command, start_tipple
from conformance.test_partitions import check_tidy, partition_names, per_partition
from loading import load_here as load
from loading import load_text_here as load_text
from loading import load_words
from servers.postgres import LOADER, PostgresServer
from targets import PostgresTarget, write
from tipple.engines.postgresql.place import obstacles
from tipple.plan.url import TableName

MONTHS = """
CREATE TABLE t (k timestamptz, v text) PARTITION BY RANGE (k);
CREATE TABLE t0 PARTITION OF t FOR VALUES FROM ('2024-01-01Z') TO ('2024-02-01Z');
CREATE TABLE t1 PARTITION OF t FOR VALUES FROM ('2024-02-01Z') TO ('2024-03-01Z');
INSERT INTO t SELECT '2024-01-05Z', 'old' FROM generate_series(1, 50);
INSERT INTO t SELECT '2024-02-05Z', 'old' FROM generate_series(1, 50);
"""
TENS = """
CREATE TABLE t (k integer, v text) PARTITION BY RANGE (k);
CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10);
CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (10) TO (20);
INSERT INTO t SELECT 5, 'old' FROM generate_series(1, 50);
"""
# Other locks are waited for too: two streams that lengthen one table, say.
AT_PUBLISH = """
SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database AND datname = current_database()
WHERE relation = 't'::regclass AND mode IN ('ShareRowExclusiveLock', 'AccessExclusiveLock')
"""
REPLACE: dict[str, object] = {"mode": "replace", "replace_scope": "partitions"}


@contextmanager
def at_publish(
    target: PostgresTarget, path: Path, options: dict[str, object] = REPLACE, **env: str
) -> Iterator[tuple[Command, psycopg.Connection]]:
    """A load that waits for the table's lock, and the session that holds it."""
    with psycopg.connect(target.server.url(dbname=target.database)) as holder:
        holder.execute(f"SET ROLE {LOADER}; LOCK TABLE t IN ACCESS SHARE MODE")
        words = load_words(target.url, (path,), "t", {"header": "no", **options})
        command = start_tipple(*words, env=env)
        try:
            until = time.monotonic() + 30
            while not target.rows(AT_PUBLISH):
                assert command.running, command.wait()
                assert time.monotonic() < until
                time.sleep(0.05)
            yield command, holder
        finally:
            command.kill()


def test_a_bound_does_not_depend_on_the_session(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The same command from another time zone: it replaces the partition that it has filled a copy of."""
    postgres_target.execute(MONTHS)
    path = write(tmp_path / "in.csv", "".join(f"2024-01-{n % 28 + 1:02} 10:00:00Z,new\n" for n in range(1000)))
    with at_publish(postgres_target, path, PGTZ="UTC") as (command, _):
        command.signal(signal.SIGKILL)
    words = load_words(postgres_target.url, (path,), "t", {"header": "no", **REPLACE})
    again = start_tipple(*words, env={"PGTZ": "America/New_York"}).wait()
    assert again.summary is not None
    assert not any("INSERT" in note for note in again.summary["notes"]), again
    found = postgres_target.rows("SELECT tableoid::regclass::text, v, count(*) FROM t GROUP BY 1, 2 ORDER BY 1")
    assert found == [("t0", "new", 1000), ("t1", "old", 50)]
    check_tidy(postgres_target)


@pytest.mark.parametrize(
    "changes",
    [
        "ALTER TABLE t DETACH PARTITION t0; CREATE TABLE t0a PARTITION OF t FOR VALUES FROM (0) TO (5); "
        "CREATE TABLE t0b PARTITION OF t FOR VALUES FROM (5) TO (10); INSERT INTO t SELECT * FROM t0; DROP TABLE t0",
        "ALTER TABLE t DETACH PARTITION t0; ALTER TABLE t ATTACH PARTITION t0 FOR VALUES FROM (-5) TO (10)",
        "ALTER TABLE t DETACH PARTITION t0; CREATE TABLE td PARTITION OF t DEFAULT; INSERT INTO t SELECT * FROM t0; "
        "DROP TABLE t0",
    ],
    ids=["split", "moved", "default"],
)
def test_a_replaced_partition_that_is_another_now(
    postgres_target: PostgresTarget, tmp_path: Path, changes: str
) -> None:
    """New rows never lie beside those that they were to replace."""
    postgres_target.execute(TENS)
    path = write(tmp_path / "in.csv", "".join(f"{n % 10},new\n" for n in range(1000)))
    with at_publish(postgres_target, path) as (command, holder):
        holder.execute(changes)  # type: ignore[call-overload]
        holder.commit()
        run = command.wait()
    assert run.exit_code == 1, run
    assert "were changed while it was loaded" in run.stderr
    assert "--restart" in run.stderr
    assert postgres_target.rows("SELECT v, count(*) FROM t GROUP BY 1") == [("old", 50)]
    load(postgres_target, path, header="no", restart=True, **REPLACE)
    kept = postgres_target.rows("SELECT v, count(*) FROM t GROUP BY 1")
    assert kept == [("new", 1000)]
    check_tidy(postgres_target)


def half_detach(target: PostgresTarget, partition: str) -> None:
    """Has DETACH CONCURRENTLY wait for a reader, and cancels it."""
    url = target.server.url(dbname=target.database)
    with psycopg.connect(url) as reader, psycopg.connect(url, autocommit=True) as owner:
        reader.execute(f"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM {partition}")
        owner.execute("SET statement_timeout = '1s'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            owner.execute(f"ALTER TABLE t DETACH PARTITION {partition} CONCURRENTLY")


def test_a_partition_that_is_half_detached(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """DETACH CONCURRENTLY that was cancelled: its rows are not the table's any more, and no load touches them."""
    postgres_target.execute(TENS)
    half_detach(postgres_target, "t0")
    for mode in ("append", "replace"):
        load_text(postgres_target, tmp_path / f"{mode}.csv", "11,new\n", header="no", mode=mode)
        run = load_text(postgres_target, tmp_path / f"{mode}1.csv", "12,x\n1,x\n", header="no", mode=mode, check=1)
        assert "record    2" in run.stderr
        assert "no partition" in run.stderr
        assert per_partition(postgres_target) == {"t1": 1}
        assert postgres_target.count("t0") == 50
    options = {"header": "no", "partition_by": "range(k, every=10)"}
    run = load_text(postgres_target, tmp_path / "in.csv", "1,x\n", check=2, **options)
    (remedy,) = re.findall(r"ALTER TABLE .* FINALIZE;", run.stderr)
    postgres_target.execute(remedy)
    load(postgres_target, tmp_path / "in.csv", **options)
    assert per_partition(postgres_target) == {"t1": 1, "t_0": 1}
    check_tidy(postgres_target)


def test_a_partition_that_is_half_detached_meanwhile(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Another one cannot have its place yet: it is not a matter of beginning anew."""
    postgres_target.execute(TENS)
    path = write(tmp_path / "in.csv", "1,new\n11,new\n")
    with at_publish(postgres_target, path) as (command, holder):
        half_detach(postgres_target, "t0")
        holder.rollback()
        run = command.wait()
    assert run.exit_code == 2, run
    assert 'DETACH PARTITION "public"."t0" FINALIZE;' in run.stderr
    assert postgres_target.count("t") == 0
    assert postgres_target.count("t0") == 50
    check_tidy(postgres_target)


@pytest.mark.parametrize(
    ("change", "indexes"),
    [
        ("ALTER TABLE t DETACH PARTITION t0", ["t_0_pkey", "t_0_v_idx"]),
        ("ALTER TABLE t0 RENAME TO renamed", ["t0_own", "t0_pkey", "t0_v_idx"]),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey", ["t0_own", "t0_v_idx"]),
        ("ALTER TABLE t DROP CONSTRAINT t_check, DROP CONSTRAINT t_fkey", ["t0_own", "t0_pkey", "t0_v_idx"]),
        ("DROP INDEX t_v_idx, t0_own", ["t0_pkey"]),
    ],
    ids=["detached", "renamed", "key", "constraints", "indexes"],
)
def test_what_a_partition_has_no_more(
    postgres_target: PostgresTarget, tmp_path: Path, change: str, indexes: list[str]
) -> None:
    """What was built meanwhile like an index or constraint that is gone does not come back with the rows."""
    postgres_target.execute(TENS)
    postgres_target.execute(
        "CREATE TABLE r (k int PRIMARY KEY); INSERT INTO r VALUES (1), (5), (11);"
        "DELETE FROM t; ALTER TABLE t ADD PRIMARY KEY (k); CREATE INDEX ON t (v); CREATE INDEX t0_own ON t0 (k, v);"
        "ALTER TABLE t ADD CONSTRAINT t_check CHECK (v <> 'q'), ADD CONSTRAINT t_fkey FOREIGN KEY (k) REFERENCES r"
    )
    path = write(tmp_path / "in.csv", "1,new\n11,new\n")
    with at_publish(postgres_target, path) as (command, holder):
        holder.execute(change.encode())
        holder.commit()
        run = command.wait()
    assert run.exit_code == 0, run
    first = postgres_target.value("SELECT tableoid::regclass::text FROM t WHERE k = 1")
    query = f"SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = '{first}'::regclass ORDER BY 1"
    assert [name for (name,) in postgres_target.rows(query)] == indexes
    kinds = (
        "SELECT conname FROM pg_constraint WHERE contype IN ('c', 'f') AND conparentid = 0 AND conrelid = {}::regclass"
    )
    of_table = postgres_target.rows(kinds.format("'t'"))
    of_partition = "SELECT conname FROM pg_constraint WHERE contype IN ('c', 'f') AND conrelid = {}::regclass"
    assert set(postgres_target.rows(of_partition.format(f"'{first}'"))) == set(of_table)
    check_tidy(postgres_target)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE t0 ALTER v SET NOT NULL",
        "ALTER TABLE t0 ALTER v SET DEFAULT 'mine'",
        "ALTER TABLE t ALTER v SET DEFAULT 'ours'",
        "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
        "ALTER TABLE t0 ADD CONSTRAINT few CHECK (k < 5)",
    ],
)
def test_what_a_partition_has_got_meanwhile(postgres_target: PostgresTarget, tmp_path: Path, change: str) -> None:
    """The partition that takes its place does not undo it."""
    postgres_target.execute(TENS)
    path = write(tmp_path / "in.csv", "1,new\n11,new\n")
    with at_publish(postgres_target, path) as (command, holder):
        holder.execute("DELETE FROM t;" + change)  # type: ignore[call-overload]
        columns = (
            "SELECT attname, attnotnull, attstorage, pg_get_expr(adbin, adrelid), pg_get_constraintdef(c.oid) "
            "FROM pg_attribute a LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum "
            "LEFT JOIN pg_constraint c ON conrelid = attrelid AND contype = 'c' AND attnum = ANY (conkey) "
            "WHERE attrelid = 't0'::regclass AND attnum > 0 ORDER BY 1"
        )
        changed = holder.execute(columns).fetchall()
        holder.commit()
        run = command.wait()
    assert run.exit_code == 0, run
    assert postgres_target.rows(columns) == changed
    assert per_partition(postgres_target) == {"t0": 1, "t1": 1}
    check_tidy(postgres_target)


@pytest.mark.parametrize(
    ("change", "come"),
    [
        ("ALTER TABLE t ADD CONSTRAINT no_x CHECK (v <> 'x')", "the constraint no_x"),
        ("ALTER TABLE t0 ADD CONSTRAINT no_x CHECK (v <> 'x')", "the constraint no_x"),
        ("ALTER TABLE t0 ALTER w SET NOT NULL", "NOT NULL of the column w"),
    ],
)
def test_what_violates_a_constraint_that_has_come_meanwhile(
    postgres_target: PostgresTarget, tmp_path: Path, change: str, come: str
) -> None:
    """The server knows no record of it; the same command does."""
    postgres_target.execute(TENS)
    postgres_target.execute("DELETE FROM t; ALTER TABLE t ADD w text")
    path = write(tmp_path / "in.csv", "1,new,a\n2,x,\n11,new,a\n")
    with at_publish(postgres_target, path) as (command, holder):
        holder.execute(change.encode())
        holder.commit()
        run = command.wait()
    assert run.exit_code == 1, run
    assert f"{come} came to public.t while it was loaded" in run.stderr
    assert "run the command again: it then names the record" in run.stderr
    assert postgres_target.count("t") == 0
    options = {"header": "no", **REPLACE}
    assert "record    2" in load(postgres_target, path, check=1, **options).stderr
    load(postgres_target, path, on_error="skip", max_rejects=9, check=3, cwd=tmp_path, **options)
    assert postgres_target.count("t") == 2
    check_tidy(postgres_target)


@pytest.mark.parametrize("options", [{}, REPLACE], ids=["append", "replace"])
@pytest.mark.parametrize("also", ["", "; DROP TABLE t00", "; DROP TABLE t0", "; ALTER TABLE t0 SET SCHEMA aside"])
def test_a_divided_partition_that_is_detached_meanwhile(
    postgres_target: PostgresTarget, tmp_path: Path, options: dict[str, object], also: str
) -> None:
    """Its rows do not go where no reader of the table looks, though a table of that name is there."""
    postgres_target.execute("""
        CREATE TABLE t (k integer, v text) PARTITION BY RANGE (k);
        CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (k);
        CREATE TABLE t00 PARTITION OF t0 FOR VALUES FROM (0) TO (5);
        CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (10) TO (20);
        CREATE SCHEMA aside;
    """)
    path = write(tmp_path / "in.csv", "1,new\n11,new\n")
    with at_publish(postgres_target, path, options) as (command, holder):
        holder.execute(f"ALTER TABLE t DETACH PARTITION t0; {also}".encode())
        holder.commit()
        run = command.wait()
    assert run.exit_code == 1, run
    assert "nothing was published" in run.stderr
    assert postgres_target.count("t") == 0
    for place, name in postgres_target.rows(
        "SELECT relnamespace::regnamespace, relname FROM pg_class WHERE relname = 't0'"
    ):
        assert postgres_target.count(f"{place}.{name}") == 0
    check_tidy(postgres_target)


def test_a_divided_partition_that_refuses_null_meanwhile(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("""
        CREATE TABLE t (k integer, v text) PARTITION BY RANGE (k);
        CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (k);
        CREATE TABLE t00 PARTITION OF t0 FOR VALUES FROM (0) TO (5);
    """)
    path = write(tmp_path / "in.csv", "1,new\n")
    with at_publish(postgres_target, path) as (command, holder):
        holder.execute("ALTER TABLE t0 ALTER v SET NOT NULL")
        holder.commit()
        run = command.wait()
    assert run.exit_code == 0, run
    assert per_partition(postgres_target) == {"t00": 1}
    check_tidy(postgres_target)


def test_a_partition_that_is_dropped_while_it_is_looked_at(postgres_target: PostgresTarget) -> None:
    """No other table is meant: the query for what has no OID found rows of all of them."""
    gone = TableName("public", "gone")
    assert obstacles.of(postgres_target.connection, gone, None, partition=True) == "it is gone"


def test_long_names_of_indexes(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Names of a new partition's indexes that begin alike for longer than a name may be."""
    postgres_target.execute(
        "CREATE TABLE t (k int, customer_account_number int, transaction_settlement_date int) PARTITION BY RANGE (k);"
        "CREATE INDEX ON t (customer_account_number, transaction_settlement_date);"
        "CREATE INDEX ON t (customer_account_number, transaction_settlement_date, k);"
        "CREATE INDEX t_customer_account_number_transaction_settlement_a ON t (transaction_settlement_date);"
        "CREATE INDEX t_customer_account_number_transaction_settlement_b ON t (k)"
    )
    load_text(postgres_target, tmp_path / "in.csv", "5,1,2\n15,2,3\n", header="no", partition_by="range(k, every=10)")
    assert sum(per_partition(postgres_target).values()) == 2
    assert postgres_target.value("SELECT count(*) FROM pg_indexes WHERE tablename ~ '^t_'") == 8
    check_tidy(postgres_target)


def test_long_names_of_partitions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    schema = write(tmp_path / "s.sql", "CREATE TABLE t (k text, v int);")
    first, second = "a" * 80, "a" * 79 + "b"
    load_text(
        postgres_target, tmp_path / "in.csv", f"{first},1\n{second},2\n", header="no", schema=schema,
        partition_by=f"list(k, values=['{first}','{second}'])",
    )  # fmt: skip
    assert len(partition_names(postgres_target)) == 2
    assert postgres_target.count("t") == 2


def test_a_default_partition_that_is_divided_further(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(
        "CREATE TABLE t (k int, v text) PARTITION BY RANGE (k);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (10) TO (20);"
        "CREATE TABLE t2 PARTITION OF t DEFAULT PARTITION BY LIST (v);"
        "CREATE TABLE t2a PARTITION OF t2 FOR VALUES IN ('a');"
        "CREATE TABLE t2d PARTITION OF t2 DEFAULT"
    )
    load_text(postgres_target, tmp_path / "in.csv", "15,a\n1,a\n2,b\n99,a\n", header="no")
    assert per_partition(postgres_target) == {"t1": 1, "t2a": 2, "t2d": 1}
    load_text(postgres_target, tmp_path / "in2.csv", "16,a\n3,a\n4,c\n", header="no", mode="replace")
    assert per_partition(postgres_target) == {"t1": 1, "t2a": 1, "t2d": 1}
    check_tidy(postgres_target)


def test_a_structure_and_a_default_partition(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Rows of a default partition go in by INSERT, which no other time would change: it is no reason to wait."""
    postgres_target.execute(
        "CREATE TABLE t (k int, v text) PARTITION BY RANGE (k);"
        "CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10); CREATE TABLE td PARTITION OF t DEFAULT"
    )
    for number, mode in enumerate(("append", "replace", "replace")):
        more = {"replace_scope": "partitions"} if number == 2 else {}
        path = tmp_path / f"{number}.csv"
        run = load_text(postgres_target, path, "1,a\n99,b\n", header="no", structure="heap", mode=mode, **more)
        assert per_partition(postgres_target) == {"t0": 1, "td": 1}
        assert any("default partition keeps its own structure" in note for note in run.summary["notes"])
    check_tidy(postgres_target)


@pytest.mark.parametrize("how", ["STORAGE EXTERNAL", "COMPRESSION pglz"])
def test_a_partition_with_a_storage_of_its_own(postgres_target: PostgresTarget, tmp_path: Path, how: str) -> None:
    postgres_target.execute(TENS)
    postgres_target.execute(f"ALTER TABLE t0 ALTER v SET {how}")
    query = "SELECT attstorage, attcompression FROM pg_attribute WHERE attrelid = 't0'::regclass AND attname = 'v'"
    before = postgres_target.rows(query)
    run = load_text(postgres_target, tmp_path / "in.csv", "1,a\n11,b\n", header="no", mode="replace")
    assert postgres_target.rows(query) == before
    assert per_partition(postgres_target) == {"t0": 1, "t1": 1}
    assert any("in a way of its own" in note for note in run.summary["notes"])


@pytest.mark.parametrize("published", ["TABLE t0", "TABLES IN SCHEMA s"])
def test_a_publication_of_a_divided_partition(postgres_target: PostgresTarget, tmp_path: Path, published: str) -> None:
    """It covers the partitions below too: their rows must come by the way that is decoded for subscribers."""
    postgres_target.execute(
        "CREATE SCHEMA s; CREATE TABLE t (k int, v text) PARTITION BY RANGE (k);"
        "CREATE TABLE s.t0 PARTITION OF t FOR VALUES FROM (0) TO (10) PARTITION BY LIST (v);"
        "CREATE TABLE t0a PARTITION OF s.t0 FOR VALUES IN ('a');"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (10) TO (20)"
    )
    postgres_target.server.execute(
        f"SET search_path = s; CREATE PUBLICATION p FOR {published}", postgres_target.database
    )
    run = load_text(postgres_target, tmp_path / "in.csv", "1,a\n11,b\n", header="no")
    notes = str(run.summary["notes"])
    assert "t0a: " in notes
    assert "publication p" in notes
    assert "1 swapped in, 1 filled by INSERT" in notes
    assert per_partition(postgres_target) == {"t0a": 1, "t1": 1}


@pytest.mark.parametrize(
    ("kind", "every", "bad"),
    [
        ("numeric", "10", ["NaN", "Infinity"]),
        ("timestamp", "month", ["infinity", "-infinity"]),
        ("date", "year", ["infinity", "5874897-12-31"]),
    ],
)
def test_keys_for_which_no_partition_can_be_made(
    postgres_target: PostgresTarget, tmp_path: Path, kind: str, every: str, bad: list[str]
) -> None:
    schema = write(tmp_path / "s.sql", f"CREATE TABLE t (k {kind}, v int);")
    good = ["1", "15", "25"] if kind == "numeric" else ["2024-01-01", "2024-02-03", "2025-01-01"]
    keys = [key for pair in zip(good, bad, strict=False) for key in pair] + good
    data = "".join(f"{key},{number}\n" for number, key in enumerate(keys))
    options = {"header": "no", "schema": schema, "partition_by": f"range(k, every={every})"}
    run = load_text(postgres_target, tmp_path / "in.csv", data, check=1, **options)
    assert "record    2" in run.stderr, run
    assert bad[0] in run.stderr
    run = load(postgres_target, tmp_path / "in.csv", on_error="skip", max_rejects=50, check=3, cwd=tmp_path, **options)
    assert run.summary["rejects"] == len(bad)
    assert postgres_target.count("t") == len(keys) - len(bad)
    rejected = (tmp_path / "t.rejects").read_text().splitlines()
    assert [line.split(",")[0] for line in rejected] == bad
    check_tidy(postgres_target)


def test_replaced_rows_that_others_refer_to(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """It is the old rows that cannot go: no record of the source is to blame."""
    postgres_target.execute(
        "CREATE TABLE t (k int PRIMARY KEY, v text) PARTITION BY RANGE (k);"
        "CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (100);"
        "CREATE TABLE r (k int REFERENCES t); INSERT INTO t VALUES (3, 'old'); INSERT INTO r VALUES (3)"
    )
    data = "".join(f"{n},x\n" for n in range(30))
    run = load_text(postgres_target, tmp_path / "in.csv", data, header="no", mode="replace", check=1)
    assert "still referenced" in run.stderr
    assert "record" not in run.stderr
    assert postgres_target.rows("SELECT * FROM t") == [(3, "old")]


def test_constraints_keep_their_names(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """18 names NOT NULL after the table that it is made on."""
    postgres_target.execute(TENS)
    postgres_target.execute("ALTER TABLE t0 ALTER v SET NOT NULL")
    load_text(postgres_target, tmp_path / "in.csv", "1,a\n11,b\n", header="no", mode="replace")
    query = "SELECT conname FROM pg_constraint WHERE conrelid = 't0'::regclass"
    assert postgres_target.rows(query) == ([("t0_v_not_null",)] if postgres_target.server.version >= 18 else [])
    check_tidy(postgres_target)


def test_what_tables_below_do_not_inherit(server_of: Callable[[int], PostgresServer], tmp_path: Path) -> None:
    """A partition refuses NULL by a constraint of its own, which 18 lets be NO INHERIT."""
    target = PostgresTarget(server_of(18))
    try:
        target.execute(TENS)
        target.execute("ALTER TABLE t0 ADD CONSTRAINT own NOT NULL v NO INHERIT")
        load_text(target, tmp_path / "in.csv", "1,a\n11,b\n", header="no", mode="replace")
        query = "SELECT pg_get_constraintdef(oid), conname FROM pg_constraint WHERE conrelid = 't0'::regclass"
        assert target.rows(query) == [("NOT NULL v NO INHERIT", "own")]
        assert "record    2" in load_text(target, tmp_path / "b.csv", "2,a\n3,\n", header="no", check=1).stderr
        check_tidy(target)
    finally:
        target.close()


def test_a_table_that_refers_to_itself(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Whether a record violates the key shows when all are in: skipping by batches would reject what is right."""
    postgres_target.execute("CREATE TABLE t (x int PRIMARY KEY, y int REFERENCES t)")
    path = write(tmp_path / "in.csv", "".join(f"{n},3000\n" for n in range(1, 3000)) + "3000,\n")
    skip = {"on_error": "skip", "max_rejects": 5000, "header": "no"}
    run = load(postgres_target, path, check=2, **skip)
    assert "t_y_fkey" in run.stderr
    assert "--mode upsert" in run.stderr
    load(postgres_target, path, cwd=tmp_path, mode="upsert", key="x", **skip)
    assert postgres_target.count("t") == 3000
    schema = write(tmp_path / "s.sql", "CREATE TABLE n (x int PRIMARY KEY, y int REFERENCES public.n);")
    run = load(postgres_target, path, table="n", schema=schema, check=2, **skip)
    assert "REFERENCES" in run.stderr
    schema = write(tmp_path / "d.sql", "CREATE TABLE d (x int PRIMARY KEY, y int REFERENCES d INITIALLY DEFERRED);")
    run = load(postgres_target, path, table="d", schema=schema, check=2, **skip)
    assert "REFERENCES d" in run.stderr
    # Batches are judged as they come, also by what is deferred otherwise, and so are slices.
    postgres_target.execute("TRUNCATE t; ALTER TABLE t ALTER CONSTRAINT t_y_fkey INITIALLY DEFERRED")
    for no_atomic in (False, True):
        run = load(postgres_target, path, no_atomic=no_atomic, check=2, **skip)
        assert "t_y_fkey" in run.stderr


def test_a_table_without_columns(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (); CREATE TABLE u (a int); ALTER TABLE u DROP a")
    path = write(tmp_path / "in.txt", "\n\n\n")
    for table in ("t", "u"):
        run = load(postgres_target, path, table=table, format="text", check=2)
        assert "has no column" in run.stderr


@pytest.mark.parametrize("is_new", [False, True])
def test_a_trigger_of_the_table_meanwhile(postgres_target: PostgresTarget, tmp_path: Path, is_new: bool) -> None:
    """It is for statements, so no partition has it: rows that do not come through the table would pass it by."""
    postgres_target.execute(TENS)
    path = write(tmp_path / "in.csv", "1,new\n11,new\n")
    with at_publish(postgres_target, path) as (command, holder):
        if is_new:
            holder.execute("ALTER TABLE t DETACH PARTITION t1")
        holder.execute(
            "CREATE TABLE told (n integer); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN INSERT INTO told SELECT count(*) FROM came; RETURN NULL; END'; "
            "CREATE TRIGGER told AFTER INSERT ON t "
            "REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION f()"
        )
        holder.commit()
        run = command.wait()
    assert run.exit_code == (1 if is_new else 0), run
    assert postgres_target.rows("SELECT sum(n) FROM told") == [(None if is_new else 2,)]
    assert per_partition(postgres_target) == ({"t0": 50} if is_new else {"t0": 1, "t1": 1})
    if is_new:
        assert "it has the trigger told" in run.stderr
    else:
        check_tidy(postgres_target)


def test_a_partition_that_another_role_has_divided(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Its rows must come through the table then, and the remedy that is printed works."""
    postgres_target.execute(TENS)
    path = write(tmp_path / "in.csv", "".join(f"{n % 20},new\n" for n in range(1000)))
    with at_publish(postgres_target, path, {"mode": "replace"}) as (command, holder):
        holder.execute(
            "RESET ROLE; DROP TABLE t1; CREATE TABLE t1a PARTITION OF t FOR VALUES FROM (10) TO (15); "
            "CREATE TABLE t1b PARTITION OF t FOR VALUES FROM (15) TO (20)"
        )
        holder.commit()
        run = command.wait()
    assert run.exit_code == 1, run
    assert "another role owns its partition t1a" in run.stderr
    assert "run the command again with --restart: it goes by the partitions that are there then" in run.stderr
    load(postgres_target, path, header="no", mode="replace", restart=True)
    assert postgres_target.rows("SELECT v, count(*) FROM t GROUP BY 1") == [("new", 1000)]
