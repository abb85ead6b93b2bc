"""Records that violate a foreign key, where PostgreSQL gets its keys when all rows are stored.

The rows and rejects are those of a server that judges one record after the other, as it does with `--write-path text`.
"""

from __future__ import annotations

import gzip
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet
import pytest

import tipple
from command import Run, environment, start_tipple
from faults.oracle import wait_for
from judged_twice import judged_twice, outcome_of
from loading import load_here, load_words
from servers.postgres import LOADER
from targets import PostgresTarget, Target, write, write_in_three

SEED = int(os.environ.get("TIPPLE_SEED", "0"))

REFERRED = (
    "CREATE TABLE customer (c integer PRIMARY KEY); INSERT INTO customer SELECT generate_series(0, 899); "
    "CREATE TABLE price (item varchar(8), kind numeric, PRIMARY KEY (item, kind)); "
    "INSERT INTO price SELECT 'i' || n, n %% 10 FROM generate_series(0, 99) n"
).replace("%%", "%")
COLUMNS = (
    "(n integer, c bigint NOT NULL REFERENCES customer, item varchar(8), kind numeric(6, 2), at date, {}"
    "FOREIGN KEY (item, kind) REFERENCES price)"
)
PLAIN = "CREATE TABLE t " + COLUMNS.format("PRIMARY KEY (n), ")
PARTITIONED = (
    "CREATE TABLE t " + COLUMNS.format("PRIMARY KEY (n), CHECK (n <> 77), ") + " PARTITION BY RANGE (n); "
    "CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (MINVALUE) TO (500); "
    "CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (500) TO (MAXVALUE)"
)


def records(count: int, seed: int, *, wide: int = 3) -> list[str]:
    """Records of which some repeat the key, refer to what is not there, or both; and some cannot be read."""
    r = random.Random(SEED * 1000 + seed)
    found = []
    for _ in range(count):
        item = r.randrange(110) if r.random() < 0.1 else r.randrange(100)
        kind = r.choice(["", str(item % 10), f"{item % 10}.0", f"{item % 10}.00", str(r.randrange(11))])
        customer = r.randrange(1000) if r.random() < 0.2 else r.randrange(900)
        number = r.choice(["x", "", "77"]) if r.random() < 0.01 else str(r.randrange(count * wide))
        found.append(
            f"{number},{customer},{r.choice(['', f'i{item}', f'i{item}'])},{kind},2024-01-{1 + item % 28:02}\n"
        )
    return found


def outcome(target: PostgresTarget, rejects: Path, run: Run) -> Any:
    own = "pkey|c_fkey|item_kind|n_check"
    return outcome_of(target, rejects, run, rf'(?<=")t_(?!{own})\w+?(?=_pkey"|")')


def both_ways(target: PostgresTarget, tmp_path: Path, table: str, *sources: Path, **options: Any) -> Run:
    """Loads with keys that judge at once and with keys that judge at the end; gives the latter's run."""
    target.execute(REFERRED)
    return judged_twice(target, tmp_path, table, *sources, outcome=outcome, **options)


KINDS = ["empty", "rows", "replace", "pages", "no_ledger"]


@pytest.mark.parametrize("kind", ["schema", *KINDS, *(f"partitioned {kind}" for kind in KINDS)])
def test_as_a_server_judges_record_by_record(postgres_target: PostgresTarget, tmp_path: Path, kind: str) -> None:
    """What a foreign key refuses takes no unique key from a record behind it."""
    partitioned = kind.startswith("partitioned")
    kind = kind.removeprefix("partitioned ")
    table = PARTITIONED if partitioned else PLAIN.replace("PRIMARY KEY (n), ", "PRIMARY KEY (n), CHECK (n <> 77), ")
    options: dict[str, Any] = {"jobs": 2, "verify": "checksum"}
    if kind == "schema":
        table, options["schema"] = PLAIN, write(tmp_path / "schema.sql", PLAIN)
    elif kind in ("rows", "replace"):
        table += "; INSERT INTO t SELECT n * 12, n, 'i1', 1 FROM generate_series(0, 800) n"
    if kind == "replace":
        options["mode"] = "replace"
    if kind == "rows" and not partitioned:
        options["afterwards"] = {"indexes": "rebuild"}
    if kind == "no_ledger":
        options["no_ledger"] = True
    lines = records(6_000, 1)
    if kind == "pages":
        # Pages have their keys at the end, but CHECKs judge while rows are stored.
        table = table.replace("CHECK (n <> 77), ", "")
    path = write(tmp_path / "in.csv", "".join(lines))
    run = both_ways(postgres_target, tmp_path, table, path, **options)
    assert run.summary is not None
    assert run.summary["rejects"] > 300
    assert run.summary["strategy"] == ("partition" if partitioned else "swap")
    causes = {cause["sqlstate"] for cause in run.summary["reject_causes"]}
    assert {"23503", "23505", "22P02", "23502"} <= causes


def test_several_sources(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Compressed ones, and what was cut into slices, are read again as a whole."""
    paths = write_in_three(tmp_path, records(20_000, 2))
    run = both_ways(postgres_target, tmp_path, PARTITIONED, *paths, jobs=2)
    assert run.summary is not None
    assert run.summary["slices"] > 2


def test_no_key_of_its_own(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Nothing is noted of records then, and rows with NULL refer to nothing."""
    table = PARTITIONED.replace("PRIMARY KEY (n), CHECK (n <> 77), ", "").replace("bigint NOT NULL", "bigint")
    table = table.replace("n integer", "n integer NOT NULL")
    lines = [*records(3_000, 3), ",,i1,,\n", ",899,,,\n"]
    both_ways(postgres_target, tmp_path, table, write(tmp_path / "in.csv", "".join(lines)), jobs=2)
    clean = [f"{n},{n % 900},i1,1,\n" for n in range(900)]
    postgres_target.execute(f"DROP TABLE customer, price; {REFERRED}; {table}")
    run = load_here(
        postgres_target, write(tmp_path / "clean.csv", "".join(clean)), header="no", on_error="skip",
        rejects=tmp_path / "bad.csv",
    )  # fmt: skip
    assert run.summary["strategy"] == "partition"
    assert postgres_target.count("t") == 900


def test_partitions_that_are_made(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """--partition-by, night after night: of a table that is new, and of one that has rows."""
    postgres_target.execute(REFERRED)
    schema = write(tmp_path / "schema.sql", PLAIN)
    for night in range(3):
        lines = [f"{night * 300 + n},{n % 950},i1,1,\n" for n in range(1000)]
        run = load_here(
            postgres_target, write(tmp_path / f"{night}.csv", "".join(lines)), header="no", on_error="skip",
            max_rejects="100%", rejects=tmp_path / f"bad-{night}.csv", jobs=2, partition_by="range(n, every=250)",
            **({"schema": schema} if night == 0 else {}), check=3,
        )  # fmt: skip
        assert run.summary["strategy"] == "partition"
    # Of each night those come in whose number is new and whose customer is there.
    stored: dict[int, int] = {}
    for night in range(3):
        for n in range(1000):
            if n % 950 < 900:
                stored.setdefault(night * 300 + n, n % 950)
    assert dict(postgres_target.rows("SELECT n, c FROM t")) == stored
    assert not any("stage_" in name for name in postgres_target.tables())


def test_columnar_sources(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    table = pa.table(
        {"n": pa.array(range(2000), pa.int32()), "c": pa.array((n % 1000 for n in range(2000)), pa.int64())}
    )
    source = tmp_path / "in.parquet"
    pa.parquet.write_table(table, source, row_group_size=300)
    postgres_target.execute(f"{REFERRED}; {PARTITIONED}")
    rejects = tmp_path / "bad.csv"
    run = load_here(postgres_target, source, on_error="skip", max_rejects=300, rejects=rejects, jobs=2, check=3)
    assert run.summary["strategy"] == "partition", run.summary["strategy_reason"]
    assert (run.summary["rows"], run.summary["rejects"]) == (1799, 201)
    assert postgres_target.rows("SELECT count(*), max(c) FROM t") == [(1799, 899)]
    refused = [n for n in range(2000) if n % 1000 >= 900 or n == 77]
    assert [int(line.split(",")[0]) for line in rejects.read_text().splitlines()] == refused


def test_values_that_are_compared_otherwise(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """By the operators of the key: integers have any size, and a text is padded where it refers to one that is."""
    target = postgres_target
    target.execute(
        "CREATE TABLE padded (c char(4) PRIMARY KEY); INSERT INTO padded VALUES ('a'), ('b c'), ('x'); "
        "CREATE TABLE small (n smallint PRIMARY KEY); INSERT INTO small VALUES (1); "
        "CREATE DOMAIN code AS bpchar; CREATE TABLE t (id integer, word char(4) REFERENCES padded, "
        "n bigint REFERENCES small, c code) PARTITION BY RANGE (id); CREATE TABLE t1 PARTITION OF t DEFAULT"
    )
    lines = ["1,a,1,x\n", "2,a   ,1,x\n", "3,b,1,x\n", "4,b c ,70000,x\n", "5,,,\n", "6,b c,1,x\n"]
    rejects = tmp_path / "bad.csv"
    options = {"header": "no", "on_error": "skip", "max_rejects": 9, "rejects": rejects}
    run = load_here(target, write(tmp_path / "in.csv", "".join(lines)), check=3, **options)
    assert run.summary["strategy"] == "partition"
    assert rejects.read_text() == lines[2] + lines[3]
    # Texts that are compared as if they were padded, the core would not take for equal.
    for change, lines in (
        ("ALTER word TYPE text", ["7,a ,1,x\n", "8,b,1,x\n"]),
        ("ADD FOREIGN KEY (c) REFERENCES padded", ["9,a,1,x \n", "10,a,1,y\n"]),
    ):
        target.execute(f"ALTER TABLE t {change}")
        run = load_here(target, write(tmp_path / f"{len(change)}.csv", "".join(lines)), check=3, **options)
        assert run.summary["strategy"] == "single"
        assert rejects.read_text() == lines[1]


@pytest.mark.parametrize("grows", [False, True])
def test_a_stream_that_is_read_again(postgres_target: PostgresTarget, tmp_path: Path, grows: bool) -> None:
    """Without a key of its own there is nothing to note, whatever came before: a partition that was missing."""
    target = postgres_target
    target.execute("CREATE TABLE p (c integer PRIMARY KEY); INSERT INTO p SELECT generate_series(0, 98)")
    lines = [f"{99_999 if grows and n == 450_001 else n % 90},{n % 100},{'x' * 60}\n" for n in range(500_000)]
    path = write(tmp_path / "in.csv.gz", gzip.compress("".join(lines).encode(), 1))
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (k integer, c integer REFERENCES p (c), w text)")
    run = load_here(
        target, path, schema=schema, header="no", on_error="skip", max_rejects="5%", rejects=tmp_path / "bad.csv",
        partition_by="range(k, every=10)", jobs=2, check=3,
    )  # fmt: skip
    assert (run.summary["rows"], run.summary["rejects"]) == (495_000, 5_000)
    assert target.count("t") == 495_000


def test_begun_anew_without_a_ledger(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What was rejected by then is rejected once; a replay stores it once."""
    target = postgres_target
    target.execute(
        "CREATE TABLE p (k timestamptz PRIMARY KEY); INSERT INTO p VALUES ('2024-01-01 00:00Z'); "
        "CREATE TABLE t (id integer, c timestamptz REFERENCES p) PARTITION BY RANGE (id); "
        "CREATE TABLE t1 PARTITION OF t DEFAULT"
    )
    path = write(tmp_path / "in.csv", "1,2024-01-01 00:00Z\nx,2024-01-01 00:00Z\n3,January 2 2024\n")
    rejects = tmp_path / "bad.csv"
    options = {"header": "no", "on_error": "skip", "max_rejects": 9, "rejects": rejects, "no_ledger": True}
    run = load_here(target, path, check=3, **options)
    assert any("begun anew with the keys in place" in note for note in run.summary["notes"])
    assert run.summary["rejects"] == 2
    assert rejects.read_text() == "x,2024-01-01 00:00Z\n3,January 2 2024\n"


def test_more_than_may_be(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Nothing is published, and no more is kept of them than it takes to say so."""
    postgres_target.execute(f"{REFERRED}; {PARTITIONED}")
    path = write(tmp_path / "in.csv", "".join(f"{n},{n % 2000},i1,1,\n" for n in range(100, 40_000)))
    run = load_here(
        postgres_target, path, header="no", on_error="skip", max_rejects=20, rejects=tmp_path / "bad.csv", jobs=2,
        check=1,
    )  # fmt: skip
    assert "more records than --max-rejects 20 allows" in run.stderr
    assert "23503" in run.stderr
    assert postgres_target.count("t") == 0


def test_a_key_that_comes_between_two_runs(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What was staged is judged by the foreign keys that there are when it is published."""
    target = postgres_target
    target.execute(f"{REFERRED}; {PARTITIONED}".replace("REFERENCES customer", ""))
    path = write(tmp_path / "in.csv", "".join(f"{n},{n % 1000},i1,1,\n" for n in range(100, 4000)))
    options = {"header": "no", "on_error": "skip", "max_rejects": "50%", "rejects": tmp_path / "bad.csv"}
    with psycopg.connect(target.url) as holder:
        holder.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE")
        command = start_tipple(*load_words(target.url, (path,), "t", options))
        assert wait_for(lambda: target.rows("SELECT FROM pg_locks WHERE NOT granted AND relation = 't'::regclass"))
        command.kill()
    target.execute("ALTER TABLE t ADD FOREIGN KEY (c) REFERENCES customer")
    run = load_here(target, path, check=3, **options)
    assert (run.summary["slices_resumed"], run.summary["rejects"]) == (1, 400)
    assert target.count("t") == 3500


def test_published_together(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Keys judge at the end there too; but a foreign key's table has its rows no sooner, and the plan says so."""
    target = postgres_target
    target.execute("CREATE TABLE a (k integer PRIMARY KEY); CREATE TABLE b (k integer UNIQUE, c integer)")
    write(tmp_path / "a.csv", "1\n2\n2\n")
    write(tmp_path / "b.csv", "1,1\n2,7\n2,2\n")
    job = (
        f"publish = 'together'\n[defaults]\ninto = '{target.url}'\nheader = 'no'\non-error = 'skip'\nmax-rejects = 5\n"
    )
    for name in ("a", "b"):
        job += f"[tables.{name}]\nsources = '{tmp_path}/{name}.csv'\nrejects = '{tmp_path}/{name}.bad'\n"
    report = tipple.run(write(tmp_path / "job.toml", job))
    assert [table.report.strategy for table in report.tables] == ["swap", "swap"]
    assert (target.count("a"), target.count("b")) == (2, 2)
    target.execute("TRUNCATE a, b; ALTER TABLE b ADD FOREIGN KEY (c) REFERENCES a")
    write(tmp_path / "a.csv", "3\n")
    write(tmp_path / "b.csv", "3,3\n")
    for dry_run in (True, False):
        with pytest.raises(tipple.UsageError, match="cannot be published together with others"):
            tipple.run(tmp_path / "job.toml", dry_run=dry_run)


UNFIT = {
    "MATCH FULL": "c integer, d integer, FOREIGN KEY (c, d) REFERENCES p (c, d) MATCH FULL",
    "a type": "c integer, d integer, word interval REFERENCES words",
    "not loaded": "c integer, d integer, later integer DEFAULT 9 REFERENCES p (c)",
    "a partition's own": "c integer, d integer",
    "a divided partition's own": "c integer, d integer",
    "switched off": "c integer REFERENCES p (c), d integer",
    "a right": "c integer REFERENCES p (c), d integer",
    "a schema": "c integer REFERENCES p (c), d integer",
    "policies": "c integer REFERENCES p (c), d integer",
}


@pytest.mark.parametrize("why", UNFIT)
def test_keys_that_the_server_judges(postgres_target: PostgresTarget, tmp_path: Path, why: str) -> None:
    """Where a query would not say what the server says, records go through the table."""
    target = postgres_target
    target.execute(
        "CREATE TABLE words (word interval PRIMARY KEY); INSERT INTO words VALUES ('30 days'); "
        "CREATE TABLE p (c integer UNIQUE, d integer, UNIQUE (c, d)); INSERT INTO p VALUES (1, 1), (9, 9); "
        f"CREATE TABLE t (n integer, {UNFIT[why]}) PARTITION BY RANGE (n); "
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10); CREATE TABLE t2 PARTITION OF t DEFAULT"
    )
    columns, lines = "n,c,d", ["1,1,1\n", "2,9,9\n", "3,,\n"]
    refused = ["4,5,\n", "5,6,6\n"]
    if why == "a type":
        columns, lines, refused = "n,word", ["1,1 mon\n", "2,720:00\n"], ["3,29 days\n"]
    elif why == "not loaded":
        target.execute("DELETE FROM p WHERE c = 9")
        lines, refused = [], ["1,1,1\n"]
    elif why == "a partition's own":
        target.execute("ALTER TABLE t1 ADD FOREIGN KEY (c) REFERENCES p (c)")
    elif why == "a divided partition's own":
        target.execute(
            "DROP TABLE t1; CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (n); "
            "CREATE TABLE t11 PARTITION OF t1 DEFAULT; ALTER TABLE t1 ADD FOREIGN KEY (c) REFERENCES p (c)"
        )
    elif why == "switched off":
        target.server.execute("ALTER TABLE t1 DISABLE TRIGGER ALL; ALTER TABLE t2 DISABLE TRIGGER ALL", target.database)
        lines, refused = lines + refused, []
    elif why == "a right":
        target.server.execute("ALTER TABLE p OWNER TO CURRENT_USER", target.database)
    elif why == "a schema":
        target.execute("CREATE SCHEMA hidden; ALTER TABLE p SET SCHEMA hidden")
        target.server.execute(
            f"ALTER SCHEMA hidden OWNER TO CURRENT_USER; ALTER TABLE hidden.p OWNER TO CURRENT_USER; "
            f"REVOKE USAGE ON SCHEMA hidden FROM {LOADER}; GRANT SELECT ON hidden.p TO {LOADER}",
            target.database,
        )
    elif why == "policies":
        target.execute("ALTER TABLE p ENABLE ROW LEVEL SECURITY; ALTER TABLE p FORCE ROW LEVEL SECURITY")
    rejects = tmp_path / "bad.csv"
    path = write(tmp_path / "in.csv", "".join(sorted(lines + refused)))
    run = load_here(
        target, path, columns=columns, header="no", on_error="skip", max_rejects=9, rejects=rejects, check=False
    )
    assert run.exit_code == (3 if refused else 0), str(run)
    assert run.summary["strategy"] == "single"
    assert sorted(rejects.read_text().splitlines(keepends=True) if refused else []) == sorted(refused)
    assert target.count("t") == len(lines)


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("is_enforced", [False, True])
def test_a_table_that_refers_to_itself(
    postgres_target: PostgresTarget, tmp_path: Path, is_enforced: bool, is_new: bool
) -> None:
    """What refuses nothing has nothing to tell of records."""
    if not is_enforced and postgres_target.server.version < 18:
        pytest.skip("every constraint is enforced")
    statement = (
        f"CREATE TABLE t (k integer PRIMARY KEY, p integer REFERENCES t {'' if is_enforced else 'NOT ENFORCED'})"
    )
    options: dict[str, Any] = {"schema": write(tmp_path / "t.sql", statement)} if is_new else {}
    if not is_new:
        postgres_target.execute(statement)
    options |= {"on_error": "skip", "max_rejects": 9, "rejects": tmp_path / "bad.csv", "header": "no"}
    run = load_here(postgres_target, write(tmp_path / "in.csv", "1,77\n1,78\n2,1\n"), check=False, **options)
    if is_enforced:
        assert run.exit_code == 2
        assert "cannot tell which records violate the foreign key" in run.stderr
    else:
        assert (run.exit_code, postgres_target.sorted_rows("t")) == (3, [(1, 77), (2, 1)]), run


def test_what_helps_where_a_table_refers_to_itself(engine_target: Target, tmp_path: Path) -> None:
    """No other table can be loaded first, and --on-error skip is refused."""
    engine_target.execute("CREATE TABLE t (k integer PRIMARY KEY, p integer REFERENCES t (k))")
    run = load_here(engine_target, write(tmp_path / "in.csv", "1,\n2,1\n3,77\n"), check=1, header="no")
    assert "in.csv" in run.stderr
    assert "referenced table first" not in run.stderr
    assert "--on-error skip" not in run.stderr
    assert "mend the record" in run.stderr


@pytest.mark.parametrize("partitioned", [True, False])
def test_what_to_grant_for_keys_that_judge_at_once(
    postgres_target: PostgresTarget, tmp_path: Path, *, partitioned: bool
) -> None:
    target, name = postgres_target, postgres_target.database
    target.server.execute("CREATE TABLE r (k integer PRIMARY KEY); INSERT INTO r VALUES (1), (2)", name)
    target.execute(f"CREATE TABLE t (k integer, v text){' PARTITION BY RANGE (k)' if partitioned else ''}")
    if partitioned:
        target.execute("CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    target.server.execute("ALTER TABLE t ADD FOREIGN KEY (k) REFERENCES r", name)
    path = write(tmp_path / "in.csv", "1,a\n5,b\n2,c\n")
    options = {"header": "no", "on_error": "skip", "max_rejects": 3, "mode": "replace", "rejects": tmp_path / "bad"}
    planned = load_here(target, path, dry_run=True, **options)
    assert any("GRANT SELECT, REFERENCES ON public.r TO" in note for note in planned.summary["notes"])
    run = load_here(target, path, check=3, **options)
    (note,) = [note for note in run.summary["notes"] if "judges each record as it is stored" in note]
    (grant,) = re.findall(r"GRANT .*;", note)
    assert run.summary["strategy"] == "single"
    target.server.execute(grant, name)
    run = load_here(target, path, check=3, restart=True, **options)
    assert run.summary["strategy"] == ("partition" if partitioned else "swap")
    assert not any("judges each record" in note for note in run.summary["notes"])
    assert target.sorted_rows("t") == [(1, "a"), (2, "c")]


def test_killed_again_and_again(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Rows and rejects are those of an undisturbed load, wherever the one before was killed."""
    target = postgres_target
    path = write(tmp_path / "in.csv", "".join(records(60_000, 5)))
    rejects = tmp_path / "bad.csv"
    options = {"header": "no", "on_error": "skip", "max_rejects": "100%", "rejects": rejects, "jobs": 2}
    target.execute(f"{REFERRED}; {PARTITIONED}")
    undisturbed = outcome(target, rejects, load_here(target, path, check=3, **options))
    target.execute(f"DELETE FROM tipple.job; DROP TABLE t; {PARTITIONED}")
    words = [sys.executable, "-m", "tipple", *load_words(target.url, (path,), "t", options)]
    r = random.Random(SEED)
    for _ in range(6):
        process = subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(r.uniform(0.3, 2.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert outcome(target, rejects, load_here(target, path, check=3, **options)) == undisturbed
