"""Tables with foreign keys and serial columns whose place another table takes, while others use what they need."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tipple
from command import run_tipple, start_tipple
from faults.oracle import wait_for
from loading import load_here, load_words
from targets import PostgresTarget, write
from tipple.engines.postgresql import together

FACTS = (
    "CREATE TABLE r (k integer PRIMARY KEY, x text UNIQUE); "
    "INSERT INTO r SELECT n, 'x' || n FROM generate_series(1, 9) n; "
    "CREATE TABLE t (n integer PRIMARY KEY, k integer CONSTRAINT f REFERENCES r ON DELETE CASCADE DEFERRABLE, v text "
    "CONSTRAINT g REFERENCES r (x)); CREATE INDEX i ON t (k); CREATE STATISTICS st ON n, k FROM t; "
    "GRANT SELECT ON t TO PUBLIC; CREATE VIEW w AS SELECT n FROM t"
)
OLD = "INSERT INTO t SELECT n, n % 9 + 1, 'x1' FROM generate_series(100, 200) n"
KEYS = (
    "SELECT conname, convalidated, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE conrelid = 't'::regclass ORDER BY 1"
)
SET_ASIDE = "SELECT count(*) FROM pg_class WHERE relname LIKE 'stage\\_%' AND relkind = 'r'"
LINES = "".join(f"{n},{n % 9 + 1},x{n % 9 + 1}\n" for n in range(50))
WAYS = {
    "empty": {},
    "replace": {"mode": "replace"},
    "rows": {"indexes": "rebuild"},
    "no ledger": {"mode": "replace", "no_ledger": True},
}


def options_of(way: str) -> dict[str, object]:
    return {"header": "no", **WAYS[way]}


@pytest.mark.parametrize("way", WAYS)
def test_readers_of_what_it_refers_to(postgres_target: PostgresTarget, tmp_path: Path, way: str) -> None:
    """They are not waited for, nor do they wait; what cannot be dropped while they read is empty, and goes later."""
    target = postgres_target
    target.execute(FACTS if way == "empty" else f"{FACTS}; {OLD}")
    path = write(tmp_path / "in.csv", LINES)
    keys = target.rows(KEYS)
    with psycopg.connect(target.server.url(dbname=target.database)) as reader:
        reader.execute("SELECT count(*) FROM r")
        run = load_here(target, path, **options_of(way))
        assert run.summary["strategy"] == "swap", run.summary["strategy_reason"]
        assert any("could not be dropped" in note and "public.r" in note for note in run.summary["notes"])
        assert target.count("t") == target.count("w") == (151 if way == "rows" else 50)
        assert target.value(SET_ASIDE) == 1
        # It keeps nobody from what is done with the other table, and holds nothing.
        target.execute("UPDATE r SET x = x WHERE k = 1; INSERT INTO r VALUES (10, 'x10'); DELETE FROM r WHERE k = 10")
        found = run_tipple("jobs", target.url, "clean")
        assert (found.exit_code, "kept the staging table" in found.stdout) == (0, True), str(found)
        reader.commit()
    assert "dropped the staging table" in run_tipple("jobs", target.url, "clean").stdout
    assert target.leftovers("t", "r", "w") == set()
    assert target.rows(KEYS) == keys
    assert target.value("SELECT count(*) FROM pg_statistic_ext WHERE stxname = 'st'") == 1
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        target.execute("INSERT INTO t VALUES (-1, 99)")


def test_the_next_load_drops_it(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Also where the one before was killed at the very end."""
    target = postgres_target
    target.execute(f"{FACTS}; {OLD}")
    path = write(tmp_path / "in.csv", LINES)
    with psycopg.connect(target.server.url(dbname=target.database)) as reader:
        reader.execute("SELECT count(*) FROM r")
        command = start_tipple(*load_words(target.url, (path,), "t", options_of("replace")))
        try:
            assert wait_for(lambda: target.count("t") == 50)
        finally:
            command.process.send_signal(signal.SIGKILL)
            command.wait()
        assert target.value(SET_ASIDE) == 1
        reader.commit()
    # Be it one that finds nothing to do.
    assert "already" in load_here(target, path, **options_of("replace")).output
    assert target.leftovers("t", "r", "w") == set()


@pytest.mark.parametrize("options", [{}, {"mode": "replace"}, {"mode": "upsert", "key": ["n"]}], ids=str)
def test_what_is_staged_is_emptied(postgres_target: PostgresTarget, tmp_path: Path, options: dict[str, Any]) -> None:
    """As TRUNCATE ... CASCADE does it, or whoever tidies up: nothing is published for what was read."""
    target = postgres_target
    target.execute(
        "CREATE TABLE t (n integer PRIMARY KEY, v text)" + ("; INSERT INTO t VALUES (7, 'old')" if options else "")
    )
    before = target.rows("SELECT * FROM t")
    path = write(tmp_path / "in.csv", "1,a\n2,b\n")
    given = {"into": target.url, "table": "t", "header": "no", **options}
    emptied: list[str] = []

    def empty(snapshot: Mapping[str, Any]) -> None:
        if snapshot["phase"] == "publish" and not emptied:
            emptied.extend(name for (name,) in target.rows("SELECT staging FROM tipple.job"))
            target.execute(f"TRUNCATE {emptied[0]}")

    with pytest.raises(tipple.VerifyFailed, match="the target holds 0 rows, but 2 were read"):
        tipple.load(path, **given, progress=empty)
    assert (len(emptied), target.rows("SELECT * FROM t")) == (1, before)
    assert tipple.load(path, **given, progress="none", restart=True).rows == 2
    assert target.leftovers("t") == set()


def test_what_is_set_aside_is_in_nobodys_way(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """But for the tables that it refers to: not the table itself, nor a sequence, nor what others it has hung upon."""
    target = postgres_target
    target.execute(
        "CREATE TABLE r (k integer PRIMARY KEY); INSERT INTO r VALUES (1); "
        "CREATE FUNCTION good(integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 > 0'; "
        "CREATE TABLE t (s serial PRIMARY KEY, k integer DEFAULT 1 REFERENCES r CHECK (good(k))); "
        "INSERT INTO t (k) VALUES (1)"
    )
    path = write(tmp_path / "in.csv", "1\n1\n")
    with psycopg.connect(target.server.url(dbname=target.database)) as reader:
        reader.execute("SELECT count(*) FROM r")
        run = load_here(target, path, header="no", columns="k", mode="replace")
        assert (run.summary["strategy"], target.value(SET_ASIDE)) == ("swap", 1)
        reader.commit()
    target.execute("DROP TABLE t; DROP FUNCTION good(integer)")
    # One that cannot be dropped at all keeps nobody from dropping the others.
    left = target.value("SELECT oid::regclass::text FROM pg_class WHERE relname LIKE 'stage\\_%' AND relkind = 'r'")
    target.execute(f"CREATE VIEW upon AS SELECT * FROM {left}")
    found = run_tipple("jobs", target.url, "clean")
    assert (found.exit_code, "kept the staging table" in found.stdout) == (0, True), str(found)
    target.execute("DROP VIEW upon")
    assert "dropped the staging table" in run_tipple("jobs", target.url, "clean").stdout


DIVIDED = (
    "CREATE TABLE r (k integer PRIMARY KEY) PARTITION BY RANGE (k); CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) "
    "TO (5); CREATE TABLE r2 PARTITION OF r DEFAULT; INSERT INTO r SELECT generate_series(1, 9); "
)


@pytest.mark.parametrize("way", ["empty", "structure", "no ledger", "skip", "partitions"])
def test_it_refers_to_a_partitioned_table(postgres_target: PostgresTarget, tmp_path: Path, way: str) -> None:
    """The server makes constraints for its partitions, under names of its own; rights are those of the root."""
    target = postgres_target
    divided = " PARTITION BY RANGE (n); CREATE TABLE t1 PARTITION OF t DEFAULT" if way == "partitions" else ""
    target.execute(f"{DIVIDED}CREATE TABLE t (n integer PRIMARY KEY, k integer CONSTRAINT f REFERENCES r){divided}")
    # Rights on the partitions are nobody's.
    target.server.execute("ALTER TABLE r1 OWNER TO CURRENT_USER; ALTER TABLE r2 OWNER TO CURRENT_USER", target.database)
    given: dict[str, object] = {
        "structure": {"structure": "sorted", "key": "n"},
        "no ledger": {"no_ledger": True},
        "skip": {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad"},
    }.get(way, {})
    path = write(tmp_path / "in.csv", "".join(f"{n},{n % 9 + 1}\n" for n in range(50)))
    for _ in range(2):
        run = load_here(target, path, header="no", restart="no_ledger" not in given, mode="replace", **given)
        assert run.summary["strategy"] == ("partition" if way == "partitions" else "swap")
        assert not any("were copied" in note for note in run.summary["notes"])
        assert target.count("t") == 50
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        target.execute("INSERT INTO t VALUES (-1, 99)")


def test_a_key_that_is_made_anew_meanwhile(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Under its old name, and with other words: these are those that the table has in the end."""
    target = postgres_target
    target.execute(f"{FACTS}; {OLD}")
    path = write(tmp_path / "in.csv", LINES)
    with psycopg.connect(target.url) as holder:
        holder.execute("LOCK TABLE t IN ACCESS SHARE MODE")
        command = start_tipple(*load_words(target.url, (path,), "t", options_of("replace")))
        try:
            staged = "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conrelid::regclass::text ~ 'stage_'"
            assert wait_for(lambda: target.value(staged) == 2)

            def changes() -> bool:
                try:
                    with holder.transaction():
                        holder.execute("ALTER TABLE t DROP CONSTRAINT f, ADD CONSTRAINT f FOREIGN KEY (k) REFERENCES r")
                except psycopg.errors.DeadlockDetected:
                    return False
                return True

            assert wait_for(changes)
            holder.commit()
            run = command.wait()
        finally:
            command.kill()
    assert run.exit_code == 0, str(run)
    assert ("f", True, "FOREIGN KEY (k) REFERENCES r(k)") in target.rows(KEYS)
    assert target.count("t") == 50
    assert target.leftovers("t", "r", "w") == set()


OBSTACLES = {
    "not valid": (
        "ALTER TABLE t DROP CONSTRAINT f, ADD CONSTRAINT f FOREIGN KEY (k) REFERENCES r NOT VALID",
        "not valid",
    ),
    "to itself": ("ALTER TABLE t ADD up integer REFERENCES t", "refers to it"),
    "no right": ("", "may not refer to r"),
}


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("why", OBSTACLES)
def test_what_only_the_server_judges(
    postgres_target: PostgresTarget, tmp_path: Path, why: str, partitioned: bool
) -> None:
    """Rows go into the table itself then, and what the key refuses is refused."""
    target = postgres_target
    given, word = OBSTACLES[why]
    if (
        partitioned
        and why == "not valid"
        and not target.value("SELECT current_setting('server_version_num')::int > 180000")
    ):
        # Before 18, a partition can have one and not its table.
        given = (
            "ALTER TABLE t DROP CONSTRAINT f; ALTER TABLE t1 ADD CONSTRAINT h FOREIGN KEY (k) REFERENCES r NOT VALID"
        )
    divided = " PARTITION BY RANGE (n); CREATE TABLE t1 PARTITION OF t DEFAULT" if partitioned else ""
    target.execute(
        "CREATE TABLE r (k integer PRIMARY KEY); INSERT INTO r SELECT generate_series(1, 9); "
        f"CREATE TABLE t (n integer PRIMARY KEY, k integer CONSTRAINT f REFERENCES r){divided}"
    )
    if given:
        target.execute(given)
    else:
        target.server.execute("ALTER TABLE r OWNER TO CURRENT_USER", target.database)
    path = write(tmp_path / "in.csv", "".join(f"{n},{n % 9 + 1}\n" for n in range(50)))
    columns = "n,k"
    run = load_here(target, path, header="no", columns=columns)
    assert (run.summary["strategy"], target.count("t")) == ("single", 50)
    assert word in run.summary["strategy_reason"]
    bad = write(tmp_path / "bad.csv", "100,1\n101,77\n102,2\n")
    run = load_here(target, bad, header="no", columns=columns, check=1)
    assert "foreign key" in run.stderr
    assert target.count("t") == 50


@pytest.mark.parametrize("kind", ["serial", "integer GENERATED ALWAYS AS IDENTITY"])
def test_somebody_has_drawn_a_number(
    postgres_target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """In a transaction that is open: it is waited for, and rows are copied if that takes long."""
    target = postgres_target
    target.execute(f"CREATE TABLE t (id {kind} PRIMARY KEY, v text); INSERT INTO t (v) VALUES ('old')")
    path = write(tmp_path / "in.csv", "a\nb\n")
    options = {"header": "no", "columns": "v", "mode": "replace"}
    owned = "SELECT pg_get_serial_sequence('t', 'id')"
    with psycopg.connect(target.url) as other:
        other.execute("SELECT nextval('t_id_seq')")
        command = start_tipple(*load_words(target.url, (path,), "t", options))
        try:
            waiting = "SELECT FROM pg_locks WHERE NOT granted AND relation = 't_id_seq'::regclass"
            assert wait_for(lambda: target.rows(waiting))
            assert target.rows("SELECT v FROM t") == [("old",)]
            other.commit()
            run = command.wait()
        finally:
            command.kill()
        assert (run.exit_code, run.summary["strategy"]) == (0, "swap"), str(run)
        assert target.rows("SELECT id, v FROM t ORDER BY id") == [(3, "a"), (4, "b")]
        assert target.rows(owned) == [("public.t_id_seq",)]
        monkeypatch.setattr(together, "PATIENCE_SECONDS", 1)
        other.execute("SELECT nextval('t_id_seq')")
        run = load_here(target, path, restart=True, **options)
        assert any("were copied, not swapped in" in note for note in run.summary["notes"])
        assert target.rows("SELECT v FROM t ORDER BY id") == [("a",), ("b",)]
    assert target.rows(owned) == [("public.t_id_seq",)]
    assert target.leftovers("t") == set()


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_key_that_judges_at_commit(postgres_target: PostgresTarget, tmp_path: Path, partitioned: bool) -> None:
    """It has judged the rows that are copied to the new ones before the table is altered."""
    target = postgres_target
    divided = " PARTITION BY RANGE (n); CREATE TABLE t1 PARTITION OF t DEFAULT" if partitioned else ""
    target.execute(
        "CREATE TABLE r (k integer PRIMARY KEY); INSERT INTO r VALUES (1); CREATE TABLE t (n integer PRIMARY KEY, "
        f"k integer REFERENCES r DEFERRABLE INITIALLY DEFERRED){divided}; INSERT INTO t VALUES (-1, 1)"
    )
    path = write(tmp_path / "in.csv", "".join(f"{n},1\n" for n in range(20_000)))
    run = load_here(target, path, header="no", indexes="rebuild")
    assert run.summary["strategy"] == ("partition" if partitioned else "swap")
    assert target.count("t") == 20_001
    assert target.leftovers("t", "t1", "r") == set()


def test_a_partition_that_refers_to_its_table(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A record may refer to one that comes later, as where the table itself has the key."""
    target = postgres_target
    target.execute(
        "CREATE TABLE t (n integer PRIMARY KEY, up integer) PARTITION BY RANGE (n); "
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (50); CREATE TABLE t2 PARTITION OF t DEFAULT; "
        "ALTER TABLE t2 ADD CONSTRAINT own FOREIGN KEY (up) REFERENCES t"
    )
    path = write(tmp_path / "in.csv", "61,2\n2,1\n62,99\n")
    run = load_here(target, path, header="no", on_error="skip", max_rejects=5, rejects=tmp_path / "bad", check=2)
    assert "the foreign key own" in run.stderr


def test_new_partitions_published_together(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """With what they refer to: the plan says what is in the way, where records are skipped."""
    target = postgres_target
    write(tmp_path / "a.sql", "CREATE TABLE a (k integer PRIMARY KEY)")
    write(tmp_path / "b.sql", "CREATE TABLE b (k integer PRIMARY KEY, c integer REFERENCES a)")
    for name, lines in (("a", "1\n2\n"), ("b", "1,1\n2,2\n")):
        write(tmp_path / f"{name}.csv", lines)
    job = f"publish = 'together'\n[defaults]\ninto = '{target.url}'\nheader = 'no'\n"
    for name in ("a", "b"):
        job += f"[tables.{name}]\nsources = '{tmp_path}/{name}.csv'\nschema = '{tmp_path}/{name}.sql'\n"
    job += "partition-by = 'range(k, every=10)'\nafter = ['a']\n"
    skipping = f"on-error = 'skip'\nrejects = '{tmp_path}/b.bad'\n"
    for dry_run in (True, False):
        with pytest.raises(tipple.UsageError, match="its foreign keys say which records are rejects"):
            tipple.run(write(tmp_path / "skip.toml", job + skipping), dry_run=dry_run)
    tipple.run(write(tmp_path / "job.toml", job))
    assert target.count("b") == 2
