"""Tables with foreign keys, whose place another table takes: those that they refer to are read all the time."""

from __future__ import annotations

import signal
from pathlib import Path

import psycopg
import pytest

from command import run_tipple, start_tipple
from faults.oracle import wait_for
from loading import load_here, load_words
from targets import PostgresTarget, write

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
    assert "already" in load_here(target, path, **options_of("replace")).output
    load_here(target, write(tmp_path / "other.csv", "1,one\n"), table="r2", header="no", schema="auto")
    assert target.leftovers("t", "r", "r2", "w") == set()


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
