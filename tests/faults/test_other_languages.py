"""Servers whose messages are not in English: what a load does, the records that it names and its remedies depend on no
word of theirs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from command import Run, run_tipple, start_tipple
from faults.oracle import wait_for
from faults.test_missing_tables import is_renamed
from loading import load, load_here, load_words
from servers import locales
from servers.installations import missing_reason
from servers.postgres import LOADER, PostgresServer
from targets import PostgresTarget, write
from tipple.engines.postgresql.failure import may_pass

LANGUAGES = ("de_DE", "fr_FR", "ja_JP")
"""Quotes of three kinds, one of them with blanks; names behind the words and before them."""
VERSION = 15
TRANSLATIONS = Path("/usr/share/locale")
WAITING = "SELECT FROM pg_locks WHERE NOT granted AND mode LIKE '%ExclusiveLock'"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server of Debian's, whose package has the translations. Its locales, the test's own, are seconds in the
    making."""
    why_not = missing_reason(VERSION) or next(_lacks(), None)
    if why_not is not None:
        pytest.skip(why_not)
    settings = {"lc_messages": "'de_DE.UTF-8'"}
    server = PostgresServer(
        VERSION, settings, environment=locales.make_locales(tmp_path_factory.mktemp("locales"), LANGUAGES)
    )
    try:
        server.start()
        yield server
    finally:
        server.destroy()


def _lacks() -> Iterator[str]:
    if (why_not := locales.missing_reason()) is not None:
        yield why_not
    for language in LANGUAGES:
        if not (TRANSLATIONS / language[:2] / f"LC_MESSAGES/postgres-{VERSION}.mo").exists():
            yield f"no messages of PostgreSQL {VERSION} in {language}: apt-get install postgresql-{VERSION}"


@pytest.fixture
def target_in(server: PostgresServer) -> Iterator[Callable[[str], PostgresTarget]]:
    """Makes databases where the server speaks a language with the loader."""
    targets = []

    def make(language: str) -> PostgresTarget:
        target = PostgresTarget(server)
        targets.append(target)
        server.execute(f"ALTER ROLE {LOADER} IN DATABASE {target.database} SET lc_messages = '{language}.UTF-8'")
        return target

    yield make
    for target in targets:
        target.close()


@pytest.fixture
def target(target_in: Callable[[str], PostgresTarget]) -> PostgresTarget:
    """A database where the server speaks German."""
    return target_in("de_DE")


def assert_names_of_the_users(run: Run) -> None:
    """No language lets the name of what is staged through."""
    assert "stage_" not in run.stderr, run


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_record_that_a_constraint_refuses(
    target_in: Callable[[str], PostgresTarget], tmp_path: Path, language: str
) -> None:
    target = target_in(language)
    target.execute("CREATE TABLE t (a integer PRIMARY KEY, b text CHECK (b <> 'bad'))")
    run = load_here(target, write(tmp_path / "in.csv", "1,a\n2,bad\n3,c\n"), check=1)
    assert "record    2, which begins at byte 4" in run.stderr, run
    assert "SQLSTATE  23514" in run.stderr
    assert "violates check constraint" not in run.stderr
    assert "t_b_check" in run.stderr
    assert_names_of_the_users(run)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("options", [{"write_path": "text"}, {"mode": "upsert", "key": "a"}], ids=["copy", "upsert"])
def test_a_record_that_no_partition_takes(
    target_in: Callable[[str], PostgresTarget], tmp_path: Path, language: str, options: dict[str, object]
) -> None:
    target = target_in(language)
    target.execute(
        "CREATE TABLE t (a integer PRIMARY KEY, b text) PARTITION BY RANGE (a); "
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (99) PARTITION BY RANGE (a); "
        "CREATE TABLE lowest PARTITION OF low FOR VALUES FROM (0) TO (10)"
    )
    run = load_here(target, write(tmp_path / "in.csv", "1,a\n50,b\n3,c\n"), check=1, **options)
    assert "record    2, which begins at byte 4" in run.stderr, run
    assert "add a partition for it" in run.stderr
    assert_names_of_the_users(run)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_record_whose_partition_could_not_be_made(
    target_in: Callable[[str], PostgresTarget], tmp_path: Path, language: str
) -> None:
    """Nor does the name of a partition that is hidden from the user get into what is said of the one in the way."""
    target = target_in(language)
    target.execute(
        "CREATE TABLE t (a integer, b text) PARTITION BY RANGE (a); "
        "CREATE TABLE t_e PARTITION OF t FOR VALUES FROM (15) TO (18)"
    )
    path = write(tmp_path / "in.csv", "1,a\n16,b\n12,c\n")
    run = load_here(target, path, partition_by="range(a, every=10)", write_path="text", check=1)
    assert "which would overlap t_e FROM (15) TO (18)" in run.stderr, run
    assert "record    3" in run.stderr
    assert_names_of_the_users(run)


def test_a_table_that_is_gone(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute("CREATE TABLE t (a integer, b text)")
    with psycopg.connect(target.url) as other:
        other.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE")
        command = start_tipple(*load_words(target.url, (write(tmp_path / "in.csv", "1,x\n"),), "t", {}))
        assert wait_for(lambda: target.rows(WAITING))
        assert wait_for(lambda: is_renamed(other))
    run = command.wait()
    assert "the table public.t is gone: it was dropped or renamed while it was loaded" in run.stderr, run


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_schema_that_refers_to_no_table(
    target_in: Callable[[str], PostgresTarget], tmp_path: Path, language: str
) -> None:
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (a integer REFERENCES other (id));")
    run = load_here(target_in(language), write(tmp_path / "in.csv", "1\n"), schema=schema, check=1)
    assert "is to refer to the table other (line 1 of the schema file), which does not exist" in run.stderr, run


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_a_record_refers_to(target_in: Callable[[str], PostgresTarget], tmp_path: Path, language: str) -> None:
    target = target_in(language)
    target.execute(
        "CREATE TABLE k (a integer PRIMARY KEY); CREATE TABLE t (a integer PRIMARY KEY, b integer REFERENCES k); "
        "CREATE TABLE u (a integer PRIMARY KEY, b integer REFERENCES u); INSERT INTO u VALUES (0, NULL)"
    )
    path = write(tmp_path / "in.csv", "1,\n2,7\n")
    run = load_here(target, path, write_path="text", check=1)
    assert "record    2" in run.stderr, run
    assert "load the referenced table first" in run.stderr
    run = load_here(target, path, table="u", check=1)
    assert "load the row of u that it refers to beforehand" in run.stderr, run


@pytest.mark.parametrize("language", LANGUAGES)
def test_rows_that_are_referred_to(target_in: Callable[[str], PostgresTarget], tmp_path: Path, language: str) -> None:
    """Where they are removed, and at the end where the foreign key can wait so long."""
    target = target_in(language)
    path = write(tmp_path / "in.csv", "2\n3\n")
    for waits in ("", " DEFERRABLE"):
        target.execute(
            "DROP TABLE IF EXISTS r, t; CREATE TABLE t (a integer PRIMARY KEY); INSERT INTO t VALUES (1), (2); "
            f"CREATE TABLE r (a integer REFERENCES t{waits}); INSERT INTO r VALUES (1)"
        )
        run = load_here(target, path, mode="replace", check=1)
        assert "--mode upsert keeps rows that others refer to" in run.stderr, run


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_column_that_got_no_value(target_in: Callable[[str], PostgresTarget], tmp_path: Path, language: str) -> None:
    target = target_in(language)
    target.execute(
        "CREATE TABLE t (a integer, b integer NOT NULL DEFAULT 1); "
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.b := NULL; RETURN NEW; END'; "
        "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"
    )
    run = load_here(target, write(tmp_path / "in.csv", "1\n2\n"), columns="a", check=1)
    assert "a column that is not loaded needs a value" in run.stderr, run


def test_a_key_that_lacks_what_divides_the_table(target: PostgresTarget, tmp_path: Path) -> None:
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (x integer PRIMARY KEY, id integer);")
    path = write(tmp_path / "in.csv", "1,2\n")
    run = load_here(target, path, schema=schema, partition_by="hash(id, 3)", check=2)
    assert "hint: add id, which divides the table, to each PRIMARY KEY and UNIQUE in the schema file" in run.stderr, run


def test_a_lock_that_is_waited_for_as_long_as_a_setting_allows(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    with psycopg.connect(target.url) as other:
        other.execute("LOCK TABLE t")
        run = load(target, path, env={"PGOPTIONS": "-c lock_timeout=300"}, check=1)
    assert "a lock was waited for as long as lock_timeout allows" in run.stderr, run


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_right_that_is_taken_away(target_in: Callable[[str], PostgresTarget], tmp_path: Path, language: str) -> None:
    """While a load waits to publish its rows: they are kept, it is said what to grant, and the job goes on."""
    target = target_in(language)
    as_owner = lambda sql: target.server.execute(sql, target.database)  # noqa: E731
    as_owner(f"CREATE SCHEMA sales; GRANT USAGE, CREATE ON SCHEMA sales TO {LOADER}")
    target.execute("CREATE TABLE sales.t (a integer, b text)")
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    with psycopg.connect(target.url) as other:
        other.execute("LOCK TABLE sales.t IN ROW EXCLUSIVE MODE")
        command = start_tipple(*load_words(target.url, (path,), "sales.t", {}))
        assert wait_for(lambda: target.rows(WAITING))
        as_owner(f"REVOKE CREATE ON SCHEMA sales FROM {LOADER}")
    run = command.wait()
    assert "as the schema's owner: GRANT USAGE, CREATE ON SCHEMA sales TO this role" in run.stderr, run
    assert target.rows("SELECT state, staging IS NOT NULL FROM tipple.job") == [("loading", True)]
    as_owner(f"GRANT USAGE, CREATE ON SCHEMA sales TO {LOADER}")
    assert load(target, path, table="sales.t").summary["slices_resumed"] == 1
    assert target.count("sales.t") == 2


def test_a_right_that_a_trigger_lacks(target: PostgresTarget, tmp_path: Path) -> None:
    """The record is not to blame, and what was stored before it is kept."""
    target.server.execute("CREATE TABLE audit (a integer)", target.database)
    target.execute(
        "CREATE TABLE t (a integer); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN INSERT INTO audit VALUES (NEW.a); RETURN NEW; END'; "
        "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"
    )
    run = load_here(target, write(tmp_path / "in.csv", "1\n"), check=1)
    assert "the record is not to blame" in run.stderr, run
    assert target.rows("SELECT state FROM tipple.job") == [("loading",)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_rights_and_policies_have_one_code(target_in: Callable[[str], PostgresTarget], language: str) -> None:
    """A right can be granted, and then the same load succeeds; what a policy refuses stays refused."""
    target = target_in(language)
    target.server.execute("CREATE TABLE closed (a integer)", target.database)
    target.execute(
        "CREATE TABLE t (a integer); CREATE POLICY few ON t USING (a < 10); "
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
    )
    errors = []
    for statement in ("SELECT FROM closed", "INSERT INTO t VALUES (11)"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
            target.execute(statement)
        assert not {"permission", "policy"} & set(str(caught.value).split())
        errors.append(caught.value)
    assert list(map(may_pass, errors)) == [True, False]


def test_a_tablespace_that_the_role_may_not_use(target: PostgresTarget, tmp_path: Path) -> None:
    server, place = target.server, target.server.socket_directory / "space"
    place.mkdir()
    shutil.chown(place, *([server.data.owner()] * 2))
    server.execute(f"CREATE TABLESPACE space LOCATION '{place}'")
    try:
        schema = write(tmp_path / "schema.sql", "CREATE TABLE t (a integer) TABLESPACE space;")
        path = write(tmp_path / "in.csv", "1\n")
        with_default = server.url(LOADER, target.database, options="-c default_tablespace=space")
        for run in (
            load_here(target, path, schema=schema, check=2),
            load_here(target, path, schema=schema, partition_by="range(a, every=10)", check=2),
            # The ledger, which is not there yet, is made first.
            load_here(with_default, path, schema="auto", header="no", check=2),
        ):
            assert "as a superuser: GRANT CREATE ON TABLESPACE space TO this role" in run.stderr, run
        server.execute(f"GRANT CREATE ON TABLESPACE space TO {LOADER}")
        load(target, path, schema=schema)
        target.execute("DROP TABLE t")
    finally:
        server.execute("DROP TABLESPACE space")


def test_sessions_that_do_not_come_about(target: PostgresTarget, tmp_path: Path) -> None:
    path, server = write(tmp_path / "in.csv", "1\n"), target.server
    run = load_here(server.url(LOADER, target.database, "127.0.0.1", password="wrong"), path, check=2)
    assert "check user and password" in run.stderr, run
    run = load_here(server.url(LOADER, "nowhere"), path, check=2)
    assert "check the names of database and role" in run.stderr, run


def test_messages_are_english_where_the_role_may_choose(target: PostgresTarget, tmp_path: Path) -> None:
    """In all sessions; `doctor` says so, and what makes it so."""

    def remedies() -> list[str]:
        found = json.loads(run_tipple("doctor", target.url, "--json", check=False).stdout)
        return [finding["remedy"] for finding in found if finding["subject"] == "lc_messages"]

    target.execute("CREATE TABLE t (a integer CHECK (a < 3)); CREATE TABLE u (a numrange)")
    path = write(tmp_path / "in.csv", "1\n5\n")
    german = load_here(target, path, check=1)
    assert "verletzt Check-Constraint" in german.stderr, german
    (remedy,) = remedies()
    target.server.execute(remedy.removeprefix("as a superuser: "))
    try:
        assert remedies() == []
        english = load_here(target, path, check=1)
        # A stream's session has said it.
        assert 'new row for relation "t" violates check constraint "t_a_check"' in english.stderr, english
        schema = write(tmp_path / "schema.sql", "CREATE TABLE v (a nothing);")
        # And this the control session.
        assert 'type "nothing" does not exist' in load(target, path, table="v", schema=schema, check=2).stderr
        assert remedies() == []
    finally:
        target.server.execute(f"REVOKE SET ON PARAMETER lc_messages FROM {LOADER}")
    superuser = load_here(target.server.url(dbname=target.database), path, check=1)
    assert "violates check constraint" in superuser.stderr, superuser
