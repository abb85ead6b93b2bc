"""Targets where the user may not do everything: say what to grant, and what can be done without it."""

from __future__ import annotations

import json
import re
import signal
from functools import partial
from pathlib import Path

import psycopg
import pytest

from big import COLUMNS, BigFile
from command import Run, run_tipple, start_tipple
from faults.oracle import wait_for
from loading import load, load_words
from servers.postgres import LOADER
from targets import PostgresTarget, write

ON_LEDGER = (
    f"GRANT USAGE, CREATE ON SCHEMA tipple TO {LOADER}",
    f"GRANT SELECT, INSERT, UPDATE, DELETE ON tipple.job, tipple.slice, tipple.reject TO {LOADER}",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "in.csv", "1,x\n2,y\n")


@pytest.fixture
def foreign(postgres_target: PostgresTarget) -> PostgresTarget:
    """A database of somebody else's, in which the loader owns one table and may create nothing."""
    server, name = postgres_target.server, postgres_target.database
    postgres_target.execute("CREATE TABLE t (a integer, b text)")
    server.execute(f'ALTER DATABASE "{name}" OWNER TO postgres')
    server.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC", name)
    return postgres_target


def super_rows(target: PostgresTarget, sql: str) -> list[tuple[object, ...]]:
    return target.server.rows(sql, target.database)


def test_ledger_schema_cannot_be_created(foreign: PostgresTarget, path: Path) -> None:
    run = load(foreign, path, check=False)
    assert run.exit_code in (1, 2), str(run)
    assert "GRANT CREATE ON DATABASE" in run.stderr
    assert foreign.database in run.stderr
    assert LOADER in run.stderr
    assert "--no-ledger" in run.stderr
    assert "Traceback" not in run.stderr
    assert foreign.count("t") == 0


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE SCHEMA tipple AUTHORIZATION {LOADER}",
        f"CREATE SCHEMA tipple; GRANT USAGE, CREATE ON SCHEMA tipple TO {LOADER}",
    ],
)
def test_a_schema_that_was_made_for_the_ledger(foreign: PostgresTarget, path: Path, statement: str) -> None:
    """Is enough: nobody needs to create schemas in the database."""
    foreign.server.execute(statement, foreign.database)
    load(foreign, path, dry_run=True)
    ledger = [
        f
        for f in json.loads(run_tipple("doctor", foreign.url, "--json", check=False).stdout)
        if f["subject"] == "ledger"
    ]
    assert ledger == []
    load(foreign, path)
    assert load(foreign, path).summary["status"] == "already loaded"
    assert foreign.count("t") == 2


@pytest.mark.parametrize("right", [None, "USAGE", "CREATE"])
def test_a_schema_for_the_ledger_that_the_role_may_not_use(
    foreign: PostgresTarget, path: Path, right: str | None
) -> None:
    """A dry run, the load and doctor say the same, and it helps."""
    server, database = foreign.server, foreign.database
    server.execute("CREATE SCHEMA tipple", database)
    if right is not None:
        server.execute(f"GRANT {right} ON SCHEMA tipple TO {LOADER}", database)
    # Of the one that is there nobody is asked to create another one.
    server.execute(f'GRANT CREATE ON DATABASE "{database}" TO {LOADER}', database)
    planned, tried = (load(foreign, path, dry_run=dry_run, check=2) for dry_run in (True, False))
    (statement,) = _grants(planned)
    assert statement == f'GRANT USAGE, CREATE ON SCHEMA tipple TO "{LOADER}";'
    assert _grants(tried) == [statement]
    told = json.loads(run_tipple("doctor", foreign.url, "--json", check=False).stdout)
    assert [statement in f["remedy"] for f in told if f["subject"] == "ledger"] == [True]
    server.execute(statement, database)
    load(foreign, path)
    assert foreign.count("t") == 2


def test_what_was_said_helps(foreign: PostgresTarget, path: Path) -> None:
    """The statement from the error message, given by a superuser, is enough."""
    run = load(foreign, path, check=False)
    statements = _grants(run)
    assert statements
    for statement in statements:
        foreign.server.execute(statement, foreign.database)
    load(foreign, path)
    assert foreign.count("t") == 2


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_no_ledger_without_the_right(foreign: PostgresTarget, path: Path, mode: str) -> None:
    run = load(foreign, path, no_ledger=True, mode=mode, jobs=2)
    assert foreign.count("t") == 2
    assert not [name for name in foreign.tables() if name.startswith("tipple.")]
    # It says what that gives up.
    assert "resum" in run.output
    assert "twice" in run.output or "exactly once" in run.output


def test_no_ledger_that_fails_publishes_nothing(foreign: PostgresTarget, tmp_path: Path) -> None:
    load(foreign, write(tmp_path / "bad.csv", "1,x\ny,z\n"), no_ledger=True, check=1)
    assert foreign.count("t") == 0
    assert foreign.leftovers("t") == set()


def test_only_insert(foreign: PostgresTarget, path: Path) -> None:
    """A table of somebody else's with the right to insert is enough for COPY; so it is for an append."""
    foreign.server.execute(
        f"CREATE TABLE u (a integer, b text); GRANT INSERT ON u TO {LOADER}; GRANT CREATE ON DATABASE "
        f'"{foreign.database}" TO {LOADER}',
        foreign.database,
    )
    run = load(foreign, path, table="u", verify="none", check=False)
    count = super_rows(foreign, "SELECT count(*) FROM u")[0][0]
    if run.exit_code == 0:
        assert count == 2
    else:
        assert count == 0
        assert "GRANT" in run.stderr


def test_a_checksum_reads_rows_back(foreign: PostgresTarget, path: Path) -> None:
    """Who may not do that hears it before anything is loaded."""
    foreign.server.execute(
        f"CREATE TABLE u (a integer, b text); GRANT INSERT ON u TO {LOADER}; GRANT CREATE ON DATABASE "
        f'"{foreign.database}" TO {LOADER}',
        foreign.database,
    )
    for dry_run in (True, False):
        run = load(foreign, path, table="u", verify="checksum", dry_run=dry_run, check=2)
        assert 'GRANT INSERT, SELECT ON "public"."u" TO' in run.stderr
    foreign.server.execute(f"GRANT SELECT ON u TO {LOADER}", foreign.database)
    assert load(foreign, path, table="u", verify="checksum").summary["verify"]["kind"] == "checksum"


def test_no_right_on_the_table(foreign: PostgresTarget, path: Path) -> None:
    foreign.server.execute("CREATE TABLE u (a integer, b text)", foreign.database)
    for options in ({}, {"no_ledger": True}):
        run = load(foreign, path, table="u", check=False, **options)
        assert run.exit_code in (1, 2), str(run)
        assert "u" in run.stderr
        assert "Traceback" not in run.stderr
    assert super_rows(foreign, "SELECT count(*) FROM u") == [(0,)]


def test_rights_to_upsert(foreign: PostgresTarget, path: Path) -> None:
    """What is missing is said, and what is said is enough."""
    server, name = foreign.server, foreign.database
    for sql in (
        "ALTER TABLE t ADD PRIMARY KEY (a)",
        "ALTER TABLE t OWNER TO postgres",
        f"GRANT INSERT ON t TO {LOADER}",
    ):
        server.execute(sql, name)
    server.execute(f'GRANT CREATE ON DATABASE "{name}" TO {LOADER}', name)
    options: dict[str, object] = {"mode": "upsert", "key": "a"}
    run = load(foreign, path, check=2, **options)
    assert "has not the right to SELECT, UPDATE on public.t" in run.stderr
    (statement,) = re.findall(r"GRANT [^;]*;", run.stderr)
    server.execute(statement, name)
    load(foreign, path, **options)
    jobs = json.loads(run_tipple("jobs", foreign.url, "--json").stdout)
    assert [job["state"] for job in jobs] == ["published"]
    assert super_rows(foreign, "SELECT a, b FROM t ORDER BY a") == [(1, "x"), (2, "y")]


def test_a_catalog_is_no_target(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Nor where its table is found without its schema's name, whoever asks."""
    path = write(tmp_path / "in.csv", "1,1,0,x\n")
    server, name = postgres_target.server, postgres_target.database
    for url in (postgres_target.url, server.url(dbname=name)):
        run = load(url, path, table="pg_description", check=2)
        assert "that of the database itself" in run.stderr
    assert super_rows(postgres_target, "SELECT FROM pg_description WHERE description = 'x'") == []


def test_ledger_of_somebody_else(postgres_target: PostgresTarget, path: Path) -> None:
    """A ledger that another role made: usable with what has to be granted, else the error says what."""
    postgres_target.server.execute(
        f"CREATE SCHEMA tipple; CREATE TABLE public.t (a integer, b text); ALTER TABLE public.t OWNER TO {LOADER}",
        postgres_target.database,
    )
    run = load(postgres_target, path, check=False)
    assert run.exit_code in (1, 2), str(run)
    assert "GRANT" in run.stderr
    assert "tipple" in run.stderr
    assert postgres_target.count("t") == 0


@pytest.mark.parametrize("lacks", ["USAGE ON SCHEMA tipple", "CREATE ON SCHEMA tipple", "UPDATE ON tipple.slice"])
def test_some_rights_on_the_ledger(postgres_target: PostgresTarget, path: Path, lacks: str) -> None:
    """One that is missing is told before the load, with all that are needed."""
    server, database = postgres_target.server, postgres_target.database
    load(server.url(dbname=database), path, schema="auto", header="no", table="first")
    postgres_target.execute("CREATE TABLE t (a integer, b text)")
    for statement in (*ON_LEDGER, f"REVOKE {lacks} FROM {LOADER}"):
        server.execute(statement, database)
    run = load(postgres_target, path, check=2)
    assert "may not write the ledger" in run.stderr
    for statement in _grants(run):
        server.execute(statement, database)
    load(postgres_target, path)
    assert postgres_target.count("t") == 2


def test_rights_on_the_ledger_that_are_lost_in_mid_load(postgres_target: PostgresTarget, path: Path) -> None:
    """They are what has to be granted again, and not rights on the table that is loaded."""
    server, database = postgres_target.server, postgres_target.database
    load(server.url(dbname=database), path, schema="auto", header="no", table="first")
    postgres_target.execute(
        "CREATE TABLE t (a integer, b text); CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_advisory_lock(77); RETURN NULL; END'; "
        "CREATE TRIGGER waits BEFORE INSERT ON t EXECUTE FUNCTION waits()"
    )
    for statement in ON_LEDGER:
        server.execute(statement, database)
    waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted"
    with psycopg.connect(server.url(dbname=database), autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(77)")
        command = start_tipple(*load_words(postgres_target.url, (path,), "t", {}))
        assert wait_for(lambda: bool(super_rows(postgres_target, waiting)))
        holder.execute(f"REVOKE ALL ON tipple.slice FROM {LOADER}")
        holder.execute("SELECT pg_advisory_unlock(77)")
        run = command.wait()
    assert run.exit_code == 1, str(run)
    assert "permission denied for table slice" in run.stderr
    for statement in _grants(run):
        server.execute(statement, database)
    load(postgres_target, path)
    assert postgres_target.count("t") == 2


def test_a_role_that_the_url_takes_on(foreign: PostgresTarget, path: Path) -> None:
    """Rights are those of the role, and not of the one that has logged in."""
    server, database = foreign.server, foreign.database
    role = f'a "role" of {database}'
    quoted = '"' + role.replace('"', '""') + '"'
    server.execute(f"CREATE ROLE {quoted}; GRANT {quoted} TO {LOADER}; GRANT SELECT, INSERT ON t TO {quoted}", database)
    options = "-c role=" + role.replace(" ", "\\ ")
    url = server.url(LOADER, database, options=options)
    run = load(url, path, check=2)
    (statement,) = _grants(run)
    server.execute(statement, database)
    load(url, path)
    assert foreign.count("t") == 2


def test_foreign_schema_named_tipple(postgres_target: PostgresTarget, path: Path) -> None:
    """A schema `tipple` with somebody's own tables in it, by the ledger's names but not of its shape."""
    postgres_target.execute(
        "CREATE SCHEMA tipple; CREATE TABLE tipple.job (mine text); INSERT INTO tipple.job VALUES ('keep'); "
        "CREATE TABLE t (a integer, b text)"
    )
    run = load(postgres_target, path, check=False)
    assert run.exit_code in (1, 2), str(run)
    assert "tipple" in run.stderr
    assert "Traceback" not in run.stderr
    assert postgres_target.rows("SELECT * FROM tipple.job") == [("keep",)]
    assert postgres_target.count("t") == 0


def test_database_that_is_read_only(postgres_target: PostgresTarget, path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (a integer, b text)")
    url = postgres_target.server.url(LOADER, postgres_target.database, options="-c default_transaction_read_only=on")
    run = load(url, path, check=False)
    assert run.exit_code in (1, 2), str(run)
    assert "read-only" in run.stderr
    assert postgres_target.count("t") == 0


def test_new_table_on_a_server_that_is_read_only(postgres_target: PostgresTarget, path: Path) -> None:
    """The schema file is not to blame."""
    schema = write(path.with_name("t.sql"), "CREATE TABLE t (a integer, b text);")
    url = postgres_target.server.url(LOADER, postgres_target.database, options="-c default_transaction_read_only=on")
    run = load(url, path, schema=schema, check=False)
    assert run.exit_code in (1, 2), str(run)
    assert "read-only" in run.stderr
    assert "CREATE TABLE statement" not in run.stderr


def test_new_table_without_the_right_to_temporary_ones(foreign: PostgresTarget, path: Path) -> None:
    """Whoever may create tables in the schema needs no other right than the ledger's."""
    for statement in (
        f'REVOKE TEMPORARY ON DATABASE "{foreign.database}" FROM PUBLIC',
        f'GRANT CREATE ON DATABASE "{foreign.database}" TO {LOADER}',
        f"GRANT CREATE ON SCHEMA public TO {LOADER}",
    ):
        foreign.server.execute(statement, foreign.database)
    schema = write(path.with_name("u.sql"), "CREATE TABLE u (a integer PRIMARY KEY, b text);")
    load(foreign, path, table="u", schema=schema)
    assert foreign.rows("SELECT count(*), sum(a) FROM u") == [(2, 3)]
    assert foreign.leftovers("t", "u") == set()


@pytest.mark.parametrize("skip", [{}, {"on_error": "skip", "max_rejects": "100%"}], ids=["stop", "skip"])
@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("INSERT INTO audit VALUES (NEW.a)", "42501"),
        ("PERFORM missing(NEW.a)", "42883"),
        ("RAISE SQLSTATE 'XX000' USING MESSAGE = 'no unpinned buffers available'", "XX000"),
    ],
)
def test_what_a_trigger_lacks_is_no_records_fault(
    postgres_target: PostgresTarget, path: Path, statement: str, sqlstate: str, skip: dict[str, object]
) -> None:
    postgres_target.execute("CREATE TABLE t (a integer, b text)")
    postgres_target.server.execute("CREATE TABLE audit (a integer)", postgres_target.database)
    postgres_target.execute(
        f"CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {statement}; RETURN NEW; END $$; "
        "CREATE TRIGGER noting BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()"
    )
    run = load(postgres_target, path, check=1, **skip)
    assert sqlstate in run.stderr, run
    assert "record 1 of" in run.stderr, run
    assert "mend the value" not in run.stderr, run
    assert "the record is not to blame" in run.stderr, run


def test_a_right_that_is_taken_away_from_an_unfinished_load(postgres_target: PostgresTarget, big_file: BigFile) -> None:
    """The message says what to grant, and the job goes on where it stopped."""
    target = postgres_target
    target.execute(f"CREATE TABLE t ({COLUMNS})")
    command = start_tipple(*load_words(target.url, (big_file.path,), "t", {"jobs": 1}))
    done = "SELECT count(*) FROM tipple.slice WHERE state = 'done'"
    assert wait_for(lambda: "tipple.slice" in target.tables() and target.value(done))
    command.signal(signal.SIGKILL)
    command.wait()
    as_owner = partial(target.server.execute, dbname=target.database)
    as_owner("ALTER SCHEMA public OWNER TO postgres")
    as_owner(f'ALTER DATABASE "{target.database}" OWNER TO postgres')
    as_owner(f"REVOKE CREATE ON SCHEMA public FROM PUBLIC, {LOADER}")
    run = load(target, big_file.path, jobs=1, check=1)
    assert "GRANT USAGE, CREATE ON SCHEMA public" in run.stderr, run
    as_owner(f"GRANT USAGE, CREATE ON SCHEMA public TO {LOADER}")
    run = load(target, big_file.path, jobs=1)
    assert run.summary["slices_resumed"] > 0
    assert big_file.held_by(target) == big_file.expected


def test_row_security_that_is_for_the_role(postgres_target: PostgresTarget, path: Path) -> None:
    """The server advises INSERT, which nobody can follow here."""
    postgres_target.execute("CREATE TABLE t (a integer, b text)")
    postgres_target.execute("ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
    run = load(postgres_target, path, check=2)
    assert "BYPASSRLS" in run.stderr, run
    assert "INSERT" not in run.stderr
    postgres_target.execute("ALTER TABLE t NO FORCE ROW LEVEL SECURITY")
    load(postgres_target, path)
    assert postgres_target.count("t") == 2


def test_jobs_of_a_ledger_that_one_may_not_read(postgres_target: PostgresTarget, path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (a integer, b text)")
    load(postgres_target, path)
    server = postgres_target.server
    server.execute("DROP ROLE IF EXISTS nosy")
    server.execute("CREATE ROLE nosy LOGIN PASSWORD 'nosy'")
    url = server.url("nosy", postgres_target.database, password="nosy")
    run = run_tipple("jobs", url, check=False)
    assert run.exit_code == 2, str(run)
    (statements,) = re.findall(r"GRANT USAGE ON SCHEMA tipple .*", run.stderr)
    server.execute(statements, postgres_target.database)
    # To read it is all that it takes.
    assert "published" in run_tipple("jobs", url).stdout
    run = run_tipple("jobs", url, "clean", check=False)
    assert run.exit_code == 2, str(run)
    assert 'GRANT USAGE, CREATE ON SCHEMA tipple TO "nosy"' in run.stderr
    server.execute("DROP OWNED BY nosy", postgres_target.database)
    server.execute("DROP ROLE nosy")


def test_jobs_of_unlogged_tables_that_one_may_not_ask_for(postgres_target: PostgresTarget, path: Path) -> None:
    """Nor use the schema: they are listed as published, and `doctor` says what to grant."""
    postgres_target.execute("CREATE SCHEMA private")
    schema = write(path.with_name("t.sql"), "CREATE TABLE private.t (a integer, b text)")
    load(postgres_target, path, table="private.t", schema=schema, structure="memory")
    server = postgres_target.server
    server.execute("DROP ROLE IF EXISTS nosy")
    server.execute("CREATE ROLE nosy LOGIN PASSWORD 'nosy'")
    for statement in ON_LEDGER:
        server.execute(statement.replace(LOADER, "nosy"), postgres_target.database)
    url = server.url("nosy", postgres_target.database, password="nosy")
    assert "published" in run_tipple("jobs", url).stdout
    run_tipple("jobs", url, "clean")
    found = json.loads(run_tipple("doctor", url, "--json", check=False).stdout)
    (remedy,) = [each["remedy"] for each in found if "tipple.unlogged_job" in each["found"]]
    server.execute(remedy.removeprefix("as its owner: "), postgres_target.database)
    assert "tipple.unlogged_job" not in run_tipple("doctor", url, check=False).stdout
    # As a crash does.
    postgres_target.execute("TRUNCATE tipple.unlogged_job")
    assert "lost" in run_tipple("jobs", url).stdout
    server.execute("DROP OWNED BY nosy", postgres_target.database)
    server.execute("DROP ROLE nosy")


def _grants(run: Run) -> list[str]:
    """The GRANT statements in what a run said."""
    return re.findall(r"GRANT [^;]*;", run.stderr)


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_partitions_of_another_role(foreign: PostgresTarget, path: Path, mode: str) -> None:
    """The server stores rows in them by the rights on the partitioned table, which nobody else may take apart."""
    server, database = foreign.server, foreign.database
    server.execute(
        "CREATE TABLE p (a integer, b text) PARTITION BY RANGE (a); CREATE TABLE p_low PARTITION OF p FOR VALUES FROM "
        f"(MINVALUE) TO (2); CREATE TABLE p_high PARTITION OF p DEFAULT; ALTER TABLE p OWNER TO {LOADER}; "
        f"GRANT CREATE ON DATABASE {database} TO {LOADER}; GRANT CREATE ON SCHEMA public TO {LOADER}",
        database,
    )
    run = load(foreign, path, table="p", mode=mode, verify="checksum")
    assert run.summary is not None
    assert run.summary["strategy_reason"].endswith("another role owns its partition p_low")
    assert foreign.count("p") == 2


@pytest.mark.parametrize(
    ("options", "granted", "wanted"),
    [
        ({}, "SELECT", "INSERT"),
        ({"mode": "replace"}, "INSERT", "INSERT, DELETE"),
        ({"mode": "upsert", "key": "a"}, "SELECT, INSERT", "INSERT, SELECT, UPDATE"),
    ],
)
def test_a_dry_run_misses_what_the_load_would(
    foreign: PostgresTarget, path: Path, options: dict[str, str], granted: str, wanted: str
) -> None:
    """A plan that is refused tonight is better than a load; what it says to grant is enough for both."""
    server, name = foreign.server, foreign.database
    server.execute("CREATE TABLE o (a integer PRIMARY KEY, b text)", name)
    server.execute(f"GRANT {granted} ON o TO {LOADER}", name)
    for expected in ("GRANT CREATE ON DATABASE", f"GRANT {wanted} ON"):
        planned = load(foreign, path, table="o", dry_run=True, **options, check=2)
        assert expected in planned.stderr
        assert foreign.leftovers("o", "t") == set()
        load(foreign, path, table="o", **options, check=False)
        assert server.rows("SELECT count(*) FROM o", name) == [(0,)]
        for statement in _grants(planned):
            server.execute(statement, name)
    load(foreign, path, table="o", dry_run=True, **options)
    load(foreign, path, table="o", **options)
    assert server.rows("SELECT count(*) FROM o", name) == [(2,)]


def test_rights_on_columns_alone(foreign: PostgresTarget, path: Path) -> None:
    """COPY would take them, and LOCK does not."""
    server, name = foreign.server, foreign.database
    server.execute(f'GRANT CREATE ON DATABASE "{name}" TO {LOADER}')
    server.execute(f"CREATE TABLE o (a integer, b text, c text); GRANT INSERT (a, b) ON o TO {LOADER}", name)
    for dry_run in (True, False):
        run = load(foreign, path, table="o", columns="a,b", dry_run=dry_run, check=2)
        assert "rights on columns alone do not do" in run.stderr
    for statement in _grants(run):
        server.execute(statement, name)
    load(foreign, path, table="o", columns="a,b")
    assert server.rows("SELECT * FROM o ORDER BY 1", name) == [(1, "x", None), (2, "y", None)]


def test_a_default_tablespace_that_the_role_may_not_use(postgres_target: PostgresTarget, path: Path) -> None:
    server, name = postgres_target.server, f"place_{postgres_target.database}"
    with server.connect() as connection:
        connection.execute("SET allow_in_place_tablespaces = on")
        connection.execute(f"CREATE TABLESPACE {name} LOCATION ''")
    try:
        url = server.url(LOADER, postgres_target.database, options=f"-c default_tablespace={name}")
        options: dict[str, object] = {"schema": "auto", "header": "no"}
        for status in (2, 1):
            run = load(url, path, table="n", check=status, **options)
            assert f"GRANT CREATE ON TABLESPACE {name} TO this role" in run.stderr
            # The ledger is the first to be made.
            load(postgres_target, path, table="l", **options)
        server.execute(f"GRANT CREATE ON TABLESPACE {name} TO {LOADER}")
        load(url, path, table="n", **options)
    finally:
        postgres_target.execute("DROP TABLE IF EXISTS n")
        server.execute(f"DROP TABLESPACE {name}")


def test_row_security_is_seen_before_the_load(postgres_target: PostgresTarget, path: Path) -> None:
    """COPY does not work with it: doctor says so, and a load and its dry run refuse it."""
    postgres_target.execute(
        "CREATE TABLE t (a integer, b text); ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;"
        "CREATE POLICY p ON t USING (true)"
    )
    for dry_run in (True, False):
        run = load(postgres_target, path, dry_run=dry_run, check=2)
        assert "BYPASSRLS" in run.stderr
    found = json.loads(run_tipple("doctor", postgres_target.url, "--table", "t", "--json", check=False).stdout)
    assert any(finding["level"] == "broken" and "BYPASSRLS" in finding["remedy"] for finding in found)
    postgres_target.execute("ALTER TABLE t NO FORCE ROW LEVEL SECURITY")
    assert load(postgres_target, path, dry_run=True).summary["status"] == "planned"
    load(postgres_target, path)
    assert postgres_target.count("t") == 2


def test_a_sequence_that_one_may_not_draw_from(foreign: PostgresTarget, path: Path) -> None:
    """The default of a column that is not loaded needs it: a dry run says so."""
    server, database = foreign.server, foreign.database
    server.execute(
        f"ALTER TABLE t OWNER TO postgres; ALTER TABLE t ADD n serial; GRANT INSERT, SELECT ON t TO {LOADER}", database
    )
    run = load(foreign, path, no_ledger=True, columns="a,b", header="no", dry_run=True, check=2)
    (statement,) = re.findall(r"GRANT USAGE ON SEQUENCE [^;]*;", run.stderr)
    server.execute(statement, database)
    assert load(foreign, path, no_ledger=True, columns="a,b", header="no", dry_run=True).summary["status"] == "planned"
    load(foreign, path, no_ledger=True, columns="a,b", header="no")
    assert foreign.count("t") == 2


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_foreign_key_that_the_role_could_not_make(postgres_target: PostgresTarget, path: Path, mode: str) -> None:
    """Somebody has given it to the table of an unfinished job: every run of the command ended for want of a right."""
    postgres_target.execute("CREATE TABLE t (a integer, b text)")
    blocked = "SELECT FROM pg_locks WHERE NOT granted AND relation = 't'::regclass"
    with psycopg.connect(postgres_target.server.url(dbname=postgres_target.database)) as holder:
        holder.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE")
        command = start_tipple(*load_words(postgres_target.url, (path,), "t", {"header": "no", "mode": mode}))
        assert wait_for(lambda: super_rows(postgres_target, blocked))
        command.kill()
    postgres_target.server.execute(
        "CREATE TABLE r (k integer PRIMARY KEY); INSERT INTO r VALUES (1), (2); ALTER TABLE t ADD FOREIGN KEY (a) "
        "REFERENCES r",
        postgres_target.database,
    )
    run = load(postgres_target, path, header="no", mode=mode)
    assert any("this role may not refer to r" in note for note in run.summary["notes"])
    assert postgres_target.sorted_rows("t") == [(1, "x"), (2, "y")]
