"""What stands against ready-made pages: tables that do not qualify, and rights that are not there, or go."""

from __future__ import annotations

from pathlib import Path

import pytest

from extension.pages import (
    make_ready,
)
from extension.test_write_path import NUMBERS, numbers, path_of
from loading import load, load_text
from servers.extension import extension_missing_reason
from servers.postgres import LOADER, PostgresServer
from targets import PostgresTarget, write

OBSTACLES = {
    "rows in it": ("INSERT INTO t VALUES (1, 'old', NULL)", "already has rows"),
    "a trigger": (
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'; "
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "trigger g",
    ),
    "row security": ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", "row security"),
    "a generated column": ("ALTER TABLE t ADD double integer GENERATED ALWAYS AS (id * 2) STORED", "double"),
    "a default": ("ALTER TABLE t ADD made timestamp DEFAULT now()", "made"),
    "a type to be checked": ("ALTER TABLE t ALTER note TYPE json USING note::json", "note"),
    "plain storage": ("ALTER TABLE t ALTER note SET STORAGE PLAIN", "PLAIN"),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_tables_that_do_not_qualify(target: PostgresTarget, tmp_path: Path, name: str) -> None:
    """`auto` takes another path and says why; `direct` refuses, before anything has begun."""
    alteration, reason = OBSTACLES[name]
    target.execute(f"{NUMBERS}; {alteration}")
    before = target.count("t")
    path = tmp_path / "a.csv"
    path.write_text('7,"""x""",2024-01-01\n')
    refused = load(target, path, columns="id,note,day", format="csv", write_path="direct", check=2)
    assert "--write-path direct is not possible" in refused.stderr, refused
    assert reason in refused.stderr
    assert "Traceback" not in refused.stderr
    assert target.leftovers("t") == set()
    run = load(target, path, columns="id,note,day", format="csv")
    assert path_of(run)[0] == "binary", run
    assert reason in path_of(run)[1]
    assert target.count("t") == before + 1


def test_a_column_that_is_not_loaded_and_takes_no_null(target: PostgresTarget, tmp_path: Path) -> None:
    """It is told before a record is read, as without pages."""
    target.execute(f"{NUMBERS}; ALTER TABLE t ADD more integer NOT NULL")
    run = load_text(target, tmp_path / "a.csv", numbers(10), columns="id,note,day", check=2)
    assert "the column more, NOT NULL and without a default, would get no value" in run.stderr, run


def test_a_member_that_inherits_no_rights(target: PostgresTarget, tmp_path: Path) -> None:
    """GRANT alone, which it has, would not help it."""
    target.execute(NUMBERS)
    target.server.execute(f"GRANT CREATE ON SCHEMA public TO {LOADER}", target.database)
    is_new = target.server.version >= 16
    statement = f"GRANT tipple_direct TO {LOADER} WITH INHERIT" if is_new else f"ALTER ROLE {LOADER}"
    try:
        target.server.execute(statement + (" FALSE" if is_new else " NOINHERIT"))
        refused = load_text(target, tmp_path / "a.csv", numbers(10), write_path="direct", check=2)
        assert "does not inherit the rights of tipple_direct" in refused.stderr
        remedy = "WITH INHERIT TRUE" if is_new else f'ALTER ROLE "{LOADER}" INHERIT'
        assert remedy in refused.stderr
    finally:
        target.server.execute(statement + (" TRUE" if is_new else " INHERIT"))
    load(target, tmp_path / "a.csv", write_path="direct")
    assert target.count("t") == 10


def test_without_the_extension_or_the_right(postgres_server: PostgresServer, tmp_path: Path) -> None:
    reason = extension_missing_reason(postgres_server.version)
    if reason is not None:
        pytest.skip(reason)
    target = PostgresTarget(postgres_server)
    try:
        target.execute(NUMBERS)
        path = tmp_path / "a.csv"
        path.write_text(numbers(10))
        refused = load(target, path, write_path="direct", check=2)
        assert "the extension tipple_direct is not installed" in refused.stderr
        make_ready(postgres_server, target.database)
        postgres_server.execute(f"REVOKE tipple_direct FROM {LOADER}")
        refused = load(target, path, write_path="direct", check=2)
        assert "GRANT tipple_direct" in refused.stderr
        assert path_of(load(target, path))[0] == "binary"
        postgres_server.execute(
            "ALTER EXTENSION tipple_direct UPDATE; UPDATE pg_extension SET extversion = '0.9' "
            "WHERE extname = 'tipple_direct'",
            target.database,
        )
        postgres_server.execute(f"GRANT tipple_direct TO {LOADER}")
        refused = load(target, path, write_path="direct", mode="replace", check=2)
        assert "of the version 0.9 in this database, and its library of 1." in refused.stderr
        postgres_server.execute(
            "DROP EXTENSION tipple_direct; CREATE EXTENSION tipple_direct VERSION '1.0'", target.database
        )
        refused = load(target, path, write_path="direct", mode="replace", check=2)
        assert "(ALTER EXTENSION tipple_direct UPDATE)" in refused.stderr
        postgres_server.execute("ALTER EXTENSION tipple_direct UPDATE", target.database)
        assert path_of(load(target, path, write_path="direct", mode="replace"))[0] == "direct"
    finally:
        target.close()


RIGHTS = {
    "schema": (
        "REVOKE USAGE ON SCHEMA tipple_direct FROM tipple_direct",
        "GRANT USAGE ON SCHEMA tipple_direct TO tipple_direct",
    ),
    "function": (
        "REVOKE EXECUTE ON FUNCTION tipple_direct.why_not(regclass) FROM tipple_direct",
        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tipple_direct TO tipple_direct",
    ),
    "name": ("ALTER SCHEMA tipple_direct RENAME TO td", 'ALTER SCHEMA "td" RENAME TO tipple_direct'),
}


@pytest.mark.parametrize("what", RIGHTS)
def test_the_role_of_the_extension_has_lost_a_right(target: PostgresTarget, tmp_path: Path, what: str) -> None:
    """`auto` goes by COPY; what is said of it helps as it stands."""
    lost, remedy = RIGHTS[what]
    target.execute(NUMBERS)
    target.server.execute(lost, target.database)
    refused = load_text(target, tmp_path / "a.csv", numbers(10), write_path="direct", check=2)
    assert f"({remedy})" in " ".join(refused.stderr.split()), refused
    write_path, reason = path_of(load(target, tmp_path / "a.csv"))
    assert write_path == "binary"
    assert f"({remedy})" in reason
    target.server.execute(remedy, target.database)
    assert path_of(load(target, tmp_path / "a.csv", mode="replace", write_path="direct"))[0] == "direct"


TAKES_AWAY = {
    "membership": f"REVOKE tipple_direct FROM {LOADER}",
    "schema": "REVOKE USAGE ON SCHEMA tipple_direct FROM tipple_direct",
    "function": "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA tipple_direct FROM tipple_direct",
}


@pytest.mark.parametrize("what", TAKES_AWAY)
def test_taken_away_once_pages_are_in(target: PostgresTarget, tmp_path: Path, what: str) -> None:
    """The table is not read ahead then, and that is all."""
    target.execute(
        f"{NUMBERS}; CREATE FUNCTION indexed(integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql "
        "AS $$ BEGIN PERFORM public.take_away(); RETURN $1; END $$"
    )
    target.server.execute(
        "CREATE FUNCTION public.take_away() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS "
        f"$$ BEGIN {TAKES_AWAY[what]}; END $$",
        target.database,
    )
    target.execute("CREATE INDEX ON t (indexed(id))")
    try:
        run = load_text(target, tmp_path / "a.csv", "7,x,2024-01-01\n", write_path="direct")
    finally:
        target.server.execute(f"GRANT tipple_direct TO {LOADER}")
    assert path_of(run)[0] == "direct"
    assert target.count("t") == 1


def test_records_that_keep_their_order(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute(NUMBERS)
    run = load_text(target, tmp_path / "a.csv", numbers(10), preserve_order=True, jobs=1)
    assert "not direct: a record that fits no page goes by COPY, and comes out of its order" in path_of(run)[1]


@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [
        (
            "CREATE OR REPLACE FUNCTION tipple_direct.finish(OUT pages bigint, OUT rows bigint) LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'permission denied' USING ERRCODE = '42501'; END $$",
            "permission denied",
        ),
        ("ALTER FUNCTION tipple_direct.finish() RENAME TO gone", "does not exist"),
        (
            "CREATE OR REPLACE FUNCTION tipple_direct.finish(OUT pages bigint, OUT rows bigint) LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'it is in a publication' USING ERRCODE = '55000'; END $$",
            "it is in a publication",
        ),
    ],
    ids=["right", "function", "publication"],
)
def test_taken_away_in_the_middle(target: PostgresTarget, tmp_path: Path, meanwhile: str, reason: str) -> None:
    """What the server does not let finish by pages begins anew by COPY, once."""
    target.execute(NUMBERS)
    target.server.execute(meanwhile, target.database)
    failed = load_text(target, tmp_path / "a.csv", numbers(3000), write_path="direct", check=1)
    assert "has changed while rows came in: put it back and run the same command again" in failed.stderr
    run = load_text(target, tmp_path / "a.csv", numbers(3000))
    write_path, said = path_of(run)
    assert write_path == "binary", run
    assert "; not direct: " in said
    assert reason in said
    assert target.count("t") == 3000
    assert target.leftovers("t") == set()


def test_statistics_are_gathered_from_the_page_cache(target: PostgresTarget, tmp_path: Path) -> None:
    """Pages are written past it: the table is read ahead, where the installed extension can."""
    server = target.server
    server.execute(f"ALTER ROLE {LOADER} SET log_statement = 'all'")
    try:
        target.execute(NUMBERS)
        path = write(tmp_path / "a.csv", numbers(1000))
        assert path_of(load(target, path))[0] == "direct"
        log = server.log_text()
        assert log.index('tipple_direct.read_ahead(\'"tipple"') < log.rindex("ANALYZE")
        for statement in ("ALTER EXTENSION tipple_direct DROP FUNCTION {0}", "DROP FUNCTION {0}"):
            server.execute(statement.format("tipple_direct.read_ahead(regclass, integer)"), target.database)
        assert path_of(load(target, path, mode="replace", restart=True))[0] == "direct"
        assert target.rows("SELECT reltuples FROM pg_class WHERE relname = 't'") == [(1000.0,)]
    finally:
        server.execute(f"ALTER ROLE {LOADER} RESET log_statement")
