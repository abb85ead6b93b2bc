"""`--mode replace` where the old rows cannot go with their table: they are deleted, all of them and nothing else."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from command import run_tipple, start_tipple
from loading import load, load_words
from servers.postgres import LOADER
from targets import PostgresTarget, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "in.csv", "1,new\n2,new\n")


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "SET DEFAULT", "CASCADE DEFERRABLE"])
def test_rows_that_refer_to_them_stay(postgres_target: PostgresTarget, path: Path, action: str) -> None:
    """No word said that other tables would be changed, and so they are not; a dry run says so too."""
    postgres_target.execute("CREATE TABLE t (a integer PRIMARY KEY, b text)")
    postgres_target.execute(f"CREATE TABLE o (i integer, t integer DEFAULT 1 REFERENCES t ON DELETE {action})")
    postgres_target.execute("INSERT INTO t VALUES (1, 'old'), (2, 'old'); INSERT INTO o VALUES (10, 1), (11, 2)")
    for dry_run in (True, False):
        run = load(postgres_target, path, mode="replace", dry_run=dry_run, check=2)
        assert f"ON DELETE {action.removesuffix(' DEFERRABLE')}" in run.stderr
        assert "public.o" in run.stderr
    assert postgres_target.rows("SELECT * FROM o ORDER BY i") == [(10, 1), (11, 2)]
    assert postgres_target.count("t") == 2
    postgres_target.execute("DELETE FROM o; DELETE FROM t")
    load(postgres_target, path, mode="replace")
    assert postgres_target.sorted_rows("t") == [(1, "new"), (2, "new")]


def test_a_reference_to_the_table_itself_is_its_own(postgres_target: PostgresTarget, path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (a integer PRIMARY KEY, b text, c integer REFERENCES t ON DELETE CASCADE)")
    postgres_target.execute("INSERT INTO t VALUES (1, 'old', NULL), (2, 'old', 1)")
    load(postgres_target, path, mode="replace", columns="a,b")
    assert postgres_target.rows("SELECT a, b FROM t ORDER BY a") == [(1, "new"), (2, "new")]


def test_rows_of_tables_that_inherit(postgres_target: PostgresTarget, path: Path) -> None:
    """They are rows of the table too, and replaced with its own; what refers to them is looked for."""
    postgres_target.execute(
        "CREATE TABLE t (a integer, b text); CREATE TABLE u (PRIMARY KEY (a)) INHERITS (t); "
        "CREATE TABLE v () INHERITS (u); "
        "INSERT INTO t VALUES (1, 'old'); INSERT INTO u VALUES (2, 'old'); INSERT INTO v VALUES (3, 'old')"
    )
    postgres_target.execute("CREATE TABLE o (t integer REFERENCES u ON DELETE CASCADE); INSERT INTO o VALUES (2)")
    for dry_run in (True, False):
        run = load(postgres_target, path, mode="replace", dry_run=dry_run, check=2)
        assert "public.o" in run.stderr
    assert (postgres_target.count("t"), postgres_target.count("o")) == (3, 1)
    postgres_target.execute("ALTER TABLE o DROP CONSTRAINT o_t_fkey, ADD FOREIGN KEY (t) REFERENCES u DEFERRABLE")
    assert "o_t_fkey" in load(postgres_target, path, mode="replace", check=1).stderr
    postgres_target.execute("DROP TABLE o")
    for dry_run in (True, False):
        run = load(postgres_target, path, mode="replace", dry_run=dry_run)
        assert run.summary is not None
        assert (
            "--mode replace deletes the rows of what inherits from public.t too: public.u, public.v"
            in run.summary["notes"]
        )
    assert postgres_target.sorted_rows("t") == [(1, "new"), (2, "new")]
    assert postgres_target.count("u") == 0
    assert "what inherits" not in load(postgres_target, path).stdout


PARTITION = "PARTITION OF t FOR VALUES FROM (0) TO (100)"


@pytest.mark.parametrize(
    ("keeper", "below"),
    # A DELETE that names another table knows no rule of one that inherits from it.
    [("rule", ""), ("trigger", ""), ("rule", PARTITION), ("trigger", PARTITION), ("trigger", "() INHERITS (t)")],
)
def test_rows_that_a_rule_or_a_trigger_keeps(
    postgres_target: PostgresTarget, path: Path, keeper: str, below: str
) -> None:
    """New rows beside those that they were to replace are no replacement."""
    divided = " PARTITION BY RANGE (a)" if "PARTITION" in below else ""
    postgres_target.execute(f"CREATE TABLE t (a integer, b text){divided}")
    table = "t"
    if below:
        table = "t_a"
        postgres_target.execute(f"CREATE TABLE t_a {below}")
    postgres_target.execute(f"INSERT INTO {table} VALUES (1, 'old')")
    if keeper == "rule":
        postgres_target.execute(f"CREATE RULE keep AS ON DELETE TO {table} DO INSTEAD NOTHING")
    else:
        postgres_target.execute(
            "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; "
            f"CREATE TRIGGER keep BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION keep()"
        )
    run = load(postgres_target, path, mode="replace", check=1)
    assert "still there after DELETE" in run.stderr
    assert "a rule or a trigger keeps them" in run.stderr
    assert postgres_target.rows("SELECT * FROM t") == [(1, "old")]
    postgres_target.execute(f"DROP {keeper.upper()} keep ON {table}")
    load(postgres_target, path, mode="replace")
    assert postgres_target.sorted_rows("t") == [(1, "new"), (2, "new")]


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_partitions_with_an_exclusion_constraint(postgres_target: PostgresTarget, path: Path, mode: str) -> None:
    """The server makes it anew for what is attached, so rows go through the table."""
    if postgres_target.server.version < 17:
        pytest.skip("a partitioned table has exclusion constraints from version 17 on")
    postgres_target.execute(
        "CREATE TABLE t (a integer, b text) PARTITION BY RANGE (a); "
        "CREATE TABLE t_a PARTITION OF t FOR VALUES FROM (0) TO (100); "
        "ALTER TABLE t ADD CONSTRAINT ex EXCLUDE USING btree (a WITH =)"
    )
    run = load(postgres_target, path, mode=mode)
    assert "exclusion constraint ex" in run.output
    assert postgres_target.sorted_rows("t") == [(1, "new"), (2, "new")]


def test_a_job_of_another_role_stays_whole(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Who may not drop what was staged does not give the job up either."""
    server, database = postgres_target.server, postgres_target.database
    postgres_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "".join(f"{n}\n" for n in range(2_000_000)))
    postgres_target.execute("BEGIN; LOCK TABLE t IN ACCESS SHARE MODE")
    command = start_tipple(*load_words(postgres_target.url, (path,), "t", {}))
    until = time.monotonic() + 60
    while "tipple.job" not in postgres_target.tables() or not postgres_target.rows("SELECT FROM tipple.slice"):
        assert time.monotonic() < until
        time.sleep(0.02)
    command.signal(signal.SIGKILL)
    command.wait()
    postgres_target.execute("ROLLBACK")
    ((job,),) = postgres_target.rows("SELECT job_id::text FROM tipple.job WHERE state = 'loading'")
    server.execute("DROP ROLE IF EXISTS poor; CREATE ROLE poor LOGIN PASSWORD 'poor'", database)
    server.execute(
        "GRANT USAGE, CREATE ON SCHEMA tipple TO poor; "
        "GRANT SELECT, INSERT, UPDATE, DELETE ON tipple.job, tipple.slice, tipple.reject TO poor",
        database,
    )
    try:
        url = postgres_target.url.replace(f"//{LOADER}:", "//poor:").replace("s3cret-Kohle%2B42", "poor")
        done = run_tipple("jobs", url, "clean")
        assert f"belongs to the role {LOADER}" in done.output
        assert postgres_target.rows("SELECT state FROM tipple.job") == [("loading",)]
        assert job[:8] in run_tipple("jobs", postgres_target.url).output
    finally:
        server.execute("DROP OWNED BY poor; DROP ROLE poor", database)


def test_partitions_that_were_replaced_since(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What is loaded already may be gone in part: nobody can load it again without storing the rest twice."""
    postgres_target.execute(
        "CREATE TABLE t (a integer) PARTITION BY LIST (a); CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1, 2)"
    )
    one, two = write(tmp_path / "1.csv", "1\n"), write(tmp_path / "2.csv", "2\n")
    load(postgres_target, two, header="no")
    load(postgres_target, one, header="no", mode="replace", replace_scope="partitions")
    run = load(postgres_target, two, header="no")
    assert run.summary["status"] == "already loaded"
    assert "has replaced partitions of the table since" in " ".join(run.summary["notes"])
    assert postgres_target.rows("SELECT a FROM t") == [(1,)]
