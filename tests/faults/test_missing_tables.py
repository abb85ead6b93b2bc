"""Tables that are gone when their rows are to be published, and tables that a schema refers to and nobody has made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from command import run_tipple, start_tipple
from faults.oracle import wait_for
from loading import load, load_words
from servers.postgres import LOADER
from targets import PostgresTarget, Target, write

WAITING = "SELECT FROM pg_locks WHERE NOT granted AND mode LIKE '%ExclusiveLock'"
DONE = "SELECT 1 FROM tipple.slice WHERE state = 'done'"
PLAIN = "CREATE TABLE t (a integer, b text)"
CASES: dict[str, tuple[str, str, dict[str, object]]] = {
    "swap": (PLAIN, "ROW EXCLUSIVE", {}),
    "single": (f"{PLAIN}; ALTER TABLE t ENABLE ROW LEVEL SECURITY", "SHARE", {}),
    "merge": ("CREATE TABLE t (a integer PRIMARY KEY, b text)", "SHARE", {"mode": "upsert", "key": "a"}),
    "partition": (
        f"{PLAIN} PARTITION BY RANGE (a); CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (9)",
        "ROW EXCLUSIVE",
        {},
    ),
}


def is_renamed(connection: psycopg.Connection[Any]) -> bool:
    """Renames the table unless the load, which looks at it while it waits, makes a deadlock of it just now."""
    try:
        with connection.transaction():
            connection.execute("ALTER TABLE t RENAME TO elsewhere")
    except psycopg.errors.DeadlockDetected:
        return False
    return True


@pytest.mark.parametrize("case", CASES)
def test_a_table_that_is_renamed_while_its_lock_is_waited_for(
    postgres_target: PostgresTarget, tmp_path: Path, case: str
) -> None:
    setup, lock, options = CASES[case]
    postgres_target.execute(setup)
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    with psycopg.connect(postgres_target.url) as other:
        other.execute(f"LOCK TABLE t IN {lock} MODE")
        command = start_tipple(*load_words(postgres_target.url, (path,), "t", options))
        assert wait_for(lambda: postgres_target.rows(WAITING))
        assert wait_for(lambda: is_renamed(other))
    run = command.wait()
    assert run.exit_code == 1, str(run)
    assert "the table public.t is gone: it was dropped or renamed while it was loaded" in run.stderr
    # The remedy, literally.
    postgres_target.execute("ALTER TABLE elsewhere RENAME TO t")
    assert load(postgres_target, path, **options).summary["strategy"] == case
    assert postgres_target.rows("SELECT a, b FROM t ORDER BY a") == [(1, "x"), (2, "y")]


@pytest.mark.parametrize("options", [{}, {"mode": "upsert", "key": "a"}, {"on_error": "skip", "max_rejects": 1}])
@pytest.mark.parametrize("makes", [True, False])
def test_a_schema_that_refers_to_a_table_which_is_not_there(
    engine_target: Target, tmp_path: Path, options: dict[str, object], makes: bool
) -> None:
    if "on_error" in options:
        options = options | {"rejects": tmp_path / "rejects"}
    own = "CREATE TABLE t (a integer PRIMARY KEY, b integer"
    schema = write(tmp_path / "schema.sql", f"\n{own} REFERENCES other (id));")
    path = write(tmp_path / "in.csv", "1,2\n")
    run = load(engine_target, path, schema=schema, check=1, **options)
    assert "other" in run.stderr
    assert "make that table first" in run.stderr
    if engine_target.engine == "postgresql":
        assert "is to refer to the table other (line 2 of the schema file), which does not exist" in run.stderr
        # It is told before anything is loaded.
        assert not engine_target.rows(DONE)
    # The remedies, literally.
    if makes:
        engine_target.execute("CREATE TABLE other (id integer PRIMARY KEY); INSERT INTO other VALUES (2)")
    else:
        write(schema, f"{own});")
    load(engine_target, path, schema=schema, restart=not makes, **options)
    assert engine_target.rows("SELECT * FROM t") == [(1, 2)]


REFERRING = "CREATE TABLE t (a integer PRIMARY KEY, b integer REFERENCES other (id), c integer REFERENCES t);"
OTHER = "CREATE TABLE other (id integer PRIMARY KEY);"


def test_what_a_schema_refers_to_has_no_key(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Told before anything is loaded, whatever else the server refuses."""
    postgres_target.execute("CREATE TABLE other (id integer)")
    schema = write(tmp_path / "schema.sql", REFERRING)
    run = load(postgres_target, write(tmp_path / "in.csv", "1,2,1\n"), schema=schema, check=1)
    assert "there is no unique constraint matching given keys" in run.stderr
    assert postgres_target.rows("SELECT count(*) FROM tipple.job") == [(0,)]


def test_what_a_schema_refers_to_has_the_table_s_name(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE SCHEMA other")
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (a integer PRIMARY KEY, b integer REFERENCES other.t);")
    run = load(postgres_target, write(tmp_path / "in.csv", "1,2\n"), schema=schema, check=1)
    assert "is to refer to the table other.t" in run.stderr
    assert postgres_target.rows("SELECT count(*) FROM tipple.job") == [(0,)]


def test_what_a_schema_refers_to_is_somebody_else_s(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    server, name = postgres_target.server, postgres_target.database
    server.execute(f"{OTHER} INSERT INTO other VALUES (2)", name)
    server.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON other TO {LOADER}", name)
    schema, path = write(tmp_path / "schema.sql", REFERRING), write(tmp_path / "in.csv", "1,2,1\n")
    run = load(postgres_target, path, schema=schema, check=1)
    assert postgres_target.rows("SELECT count(*) FROM tipple.job") == [(0,)]
    remedy = re.search(r"GRANT REFERENCES ON (\S+) TO this role", run.stderr)
    assert remedy is not None, str(run)
    # The remedy, literally.
    server.execute(f"GRANT REFERENCES ON {remedy[1]} TO {LOADER}", name)
    load(postgres_target, path, schema=schema)


def test_somebody_writes_into_what_a_schema_refers_to(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Nobody is kept waiting before the load, and the load waits for nobody but at its end."""
    postgres_target.execute(OTHER)
    schema = write(tmp_path / "schema.sql", REFERRING)
    path = write(tmp_path / "in.csv", "1,2,1\n")
    with psycopg.connect(postgres_target.url) as writer:
        writer.execute("INSERT INTO other VALUES (2)")
        command = start_tipple(*load_words(postgres_target.url, (path,), "t", {"schema": schema}))
        made = "SELECT FROM pg_class WHERE relname = 'slice'"
        assert wait_for(lambda: postgres_target.rows(made) and postgres_target.rows(DONE))
        assert wait_for(lambda: postgres_target.rows(WAITING))
    run = command.wait()
    assert run.exit_code == 0, str(run)
    assert postgres_target.rows("SELECT * FROM t") == [(1, 2, 1)]


@pytest.mark.parametrize("publish", ["each", "together"])
def test_a_schema_refers_to_what_the_same_job_makes(
    postgres_target: PostgresTarget, tmp_path: Path, publish: str
) -> None:
    schema = write(tmp_path / "schema.sql", f"{OTHER}\n{REFERRING}")
    write(tmp_path / "other.csv", "2\n")
    write(tmp_path / "t.csv", "1,2,1\n")
    after = 'after = ["other"]' if publish == "each" else ""
    lines = [
        f'publish = "{publish}"',
        "[defaults]",
        f'into = "{postgres_target.url}"',
        'sources = "${here}/${table}.csv"',
        'header = "no"',
        f'schema = "{schema}"',
        "[tables.t]",
        after,
        "[tables.other]",
    ]
    run_tipple("run", write(tmp_path / "job.toml", "\n".join(lines)), "--progress", "none", check=True)
    assert postgres_target.rows("SELECT * FROM t") == [(1, 2, 1)]
