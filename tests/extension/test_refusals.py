"""What cannot be loaded, who may not load, and loads that are used wrongly: each refused with its reason."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from extension.pages import (
    PAGE_BYTES,
    Table,
    append,
    connect,
    finish,
    make_ready,
    make_small,
    open_load,
)
from servers.extension import extension_missing_reason
from servers.postgres import LOADER, PostgresServer

FUNCTION = """CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"""

TABLES = {
    "CREATE TABLE t (a integer)": None,
    "CREATE TABLE t (a integer PRIMARY KEY, b text CHECK (b <> ''), c numeric(5,2) NOT NULL UNIQUE)": None,
    "CREATE TABLE p (a integer PRIMARY KEY); CREATE TABLE t (a integer REFERENCES p)": None,
    "CREATE TABLE t (a integer GENERATED ALWAYS AS IDENTITY, b integer DEFAULT 3)": None,
    "CREATE TABLE t (a integer, b xml); ALTER TABLE t DROP b": None,
    "CREATE TABLE p (a integer) PARTITION BY LIST (a); CREATE TABLE t PARTITION OF p FOR VALUES IN (1)": None,
    f"{FUNCTION}; CREATE TABLE t (a integer); "
    "CREATE TRIGGER g BEFORE UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION f()": None,
    f"{FUNCTION}; CREATE TABLE t (a integer); "
    "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f(); ALTER TABLE t DISABLE TRIGGER g": None,
    f"{FUNCTION}; CREATE TABLE t (a integer); "
    "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()": "it has the trigger g",
    f"{FUNCTION}; CREATE TABLE t (a integer); "
    'CREATE TRIGGER "Odd one" AFTER INSERT ON t EXECUTE FUNCTION f()': 'it has the trigger "Odd one"',
    "CREATE TABLE t (a integer) PARTITION BY LIST (a)": "it is partitioned: pages go into its partitions",
    "CREATE VIEW t AS SELECT 1 AS a": "it is not a table",
    "CREATE MATERIALIZED VIEW t AS SELECT 1 AS a": "it is not a table",
    "CREATE SEQUENCE t": "it is not a table",
    "CREATE UNLOGGED TABLE t (a integer)": "it is unlogged",
    "CREATE TEMPORARY TABLE t (a integer)": "it is temporary",
    "CREATE TABLE t (a integer); ALTER TABLE t ENABLE ROW LEVEL SECURITY": "it has row security",
    "CREATE TABLE t (a integer, b integer GENERATED ALWAYS AS (a * 2) STORED)": "its column b is generated",
    "CREATE TABLE t (a json)": "its column a is of type json, which has to be checked by its input function",
    "CREATE TABLE t (a integer[])": "its column a is of type integer[], which has to be checked by its input function",
    "CREATE DOMAIN d AS integer; CREATE TABLE t (a d)": "its column a is of type d, which has to be checked by its "
    "input function",
    "CREATE TYPE e AS ENUM ('x'); CREATE TABLE t (a e)": "its column a is of type e, which has to be checked by its "
    "input function",
    'CREATE TABLE t ("A" inet)': 'its column "A" is of type inet, which has to be checked by its input function',
    "CREATE TABLE t (a interval day to minute)": "its column a is of type interval day to minute, whose fields are "
    "restricted",
    "CREATE TABLE t (a interval(3))": None,
}
"""Statements that make the table t, and what why_not says of it."""

PUBLICATIONS = {
    "CREATE PUBLICATION pub FOR TABLE t": True,
    "CREATE PUBLICATION pub FOR TABLE t (a)": True,
    "CREATE PUBLICATION pub FOR TABLES IN SCHEMA public": True,
    "CREATE PUBLICATION pub FOR ALL TABLES": True,
    "CREATE PUBLICATION pub FOR TABLE parent": True,
    "CREATE PUBLICATION pub FOR TABLE t WITH (publish = 'update, delete')": False,
}


@pytest.fixture
def direct(postgres_server: PostgresServer, direct_database: str):  # type: ignore[no-untyped-def]
    """An ordinary role's session in the database with the extension."""
    with closing(connect(postgres_server, direct_database)) as connection:
        yield connection


@pytest.fixture
def source(postgres_server: PostgresServer, direct_database: str) -> Table:
    return make_small(postgres_server, direct_database, rows=1000)


def why_not(connection: psycopg.Connection, table: str = "t") -> str | None:
    row = connection.execute("SELECT tipple_direct.why_not(%s)", (table,)).fetchone()
    assert row is not None
    reason: str | None = row[0]
    return reason


def refusal(connection: psycopg.Connection, statements: str, slots: int = 0, pages: int = 0) -> psycopg.Error | None:
    """The error of a load into the table s that these statements make; None if there is none."""
    connection.execute("BEGIN")
    connection.execute(statements)  # type: ignore[call-overload]
    try:
        open_load(connection, "s", slots, pages)
    except psycopg.Error as error:
        return error
    finally:
        connection.execute("ROLLBACK")
    return None


def test_versions_agree(direct: psycopg.Connection) -> None:
    row = direct.execute(
        "SELECT tipple_direct.version(), extversion FROM pg_extension WHERE extname = 'tipple_direct'"
    ).fetchone()
    assert row == ("1.4", "1.4")


def test_why_not(direct: psycopg.Connection) -> None:
    for statements, reason in TABLES.items():
        direct.execute("BEGIN")
        direct.execute(statements)  # type: ignore[call-overload]
        assert (statements, why_not(direct)) == (statements, reason)
        direct.execute("ROLLBACK")


def test_publications(postgres_server: PostgresServer, direct_database: str, direct: psycopg.Connection) -> None:
    direct.execute("CREATE TABLE parent (a integer) PARTITION BY LIST (a)")
    direct.execute("CREATE TABLE t PARTITION OF parent FOR VALUES IN (1)")
    direct.execute("CREATE TABLE source (a integer)")
    for statement, replicates in PUBLICATIONS.items():
        postgres_server.execute(statement, direct_database)
        reason = "it is in the publication pub, which replicates inserted rows" if replicates else None
        assert (statement, why_not(direct)) == (statement, reason)
        postgres_server.execute("DROP PUBLICATION pub", direct_database)
    postgres_server.execute("CREATE PUBLICATION pub FOR ALL TABLES", direct_database)
    refused = refusal(direct, "CREATE TABLE s (a integer)")
    assert isinstance(refused, psycopg.errors.ObjectNotInPrerequisiteState)
    assert "publication pub" in str(refused)


def test_logical_decoding(direct_server: Callable[..., tuple[PostgresServer, str]]) -> None:
    """A slot of another output plugin than the publications' decodes the rows of all tables."""
    server, dbname = direct_server(15, {"wal_level": "logical"})
    with connect(server, dbname) as connection:
        connection.execute("CREATE TABLE t (a integer)")
        server.execute("SELECT pg_create_logical_replication_slot('publications', 'pgoutput')", dbname)
        assert why_not(connection) is None
        try:
            server.execute("SELECT pg_create_logical_replication_slot('others', 'test_decoding')", dbname)
        except psycopg.errors.UndefinedFile as error:
            pytest.skip(f"no other output plugin: {error}")
        assert why_not(connection) == "the replication slot others decodes its database's inserted rows"
        server.execute("SELECT pg_drop_replication_slot('others')", dbname)
        assert why_not(connection) is None


STAGING = {
    "CREATE TABLE s (a integer PRIMARY KEY)": "it has an index",
    "CREATE TABLE s (a integer CHECK (random() < 2))": "its CHECK constraint s_check calls a function",
    "CREATE FUNCTION f(integer) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT true';"
    "CREATE TABLE s (a integer CHECK (f(a)))": "its CHECK constraint s_a_check calls a function",
    "CREATE FUNCTION f(integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';"
    "CREATE TABLE p (a integer) PARTITION BY LIST (f(a)); CREATE TABLE s PARTITION OF p FOR VALUES IN (1)": (
        "its partition key calls a function"
    ),
    "CREATE TABLE p (a integer) PARTITION BY HASH (a);"
    "CREATE TABLE s (a integer CHECK (satisfies_hash_partition('p'::regclass, 2, 0, a) IS NOT NULL))": (
        "its CHECK constraint s_a_check calls a function"
    ),
    "CREATE TABLE p (a integer PRIMARY KEY); CREATE TABLE s (a integer REFERENCES p)": "it has a trigger or a foreign",
    "CREATE TABLE s (a integer); CREATE TABLE c () INHERITS (s)": "it has children",
    "CREATE TABLE s (a integer); CREATE RULE r AS ON INSERT TO s DO ALSO NOTIFY x": "it has a rule",
    "CREATE TABLE s (a integer); INSERT INTO s VALUES (1)": "it is not empty",
    "CREATE TABLE s (a integer); SAVEPOINT x": "it was not created or truncated in the current subtransaction",
    "CREATE TABLE s (a json)": "is of type json",
    "CREATE TEMPORARY TABLE s (a integer)": "it is temporary",
}


HARMLESS = (
    "a BETWEEN 1 AND 9 AND a <> ALL ('{3,4}') AND (a, b) < (10, 'x') AND b COLLATE \"C\" < 'zz' AND (a > 0) IS TRUE "
    "AND coalesce(nullif(b, ''), 'y') IS DISTINCT FROM 'z' AND CASE a WHEN 1 THEN b ~ '^x' ELSE true END "
    "AND greatest(a, 2) < 10 AND (ARRAY[a, 2])[1] > 0 AND b::char(3) = b AND (a::numeric::text)::bigint > 0 "
    "AND make_interval(days => a) > '0'"
)
CALLS_BY_THE_WAY = {
    "json_object('k': 'x'::e RETURNING text) IS NOT NULL": 16,
    "json_array('x'::e RETURNING text) <> b": 16,
    "json_scalar('x'::e) IS NOT NULL": 17,
    "json_value(jsonb '{}', '$.a' RETURNING d) IS NOT NULL": 17,
    "a::d > 0": 15,
    "CURRENT_DATE > '2020-01-01'": 15,
}
"""Of CHECKs, which version knows them: they call casts to json, a domain's own constraints."""


def test_constraints_that_call_functions_by_the_way(direct: psycopg.Connection) -> None:
    """Theirs could call the extension again, or use the table, while pages are under way."""
    version = direct.info.server_version // 10_000
    for expression in (known for known, since in CALLS_BY_THE_WAY.items() if version >= since):
        with direct.transaction(force_rollback=True):
            direct.execute("CREATE TYPE e AS ENUM ('x')")
            direct.execute("CREATE DOMAIN d AS integer CHECK (VALUE > 0)")
            direct.execute("CREATE FUNCTION f(e) RETURNS json LANGUAGE plpgsql AS 'BEGIN RETURN ''1''; END'")
            direct.execute("CREATE CAST (e AS json) WITH FUNCTION f(e)")
            direct.execute(f"CREATE TABLE s (a integer, b text, CHECK ({expression}))")
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=r"constraint s_\w+ calls"):
                direct.execute("SELECT tipple_direct.open('s', 0, 0)")


def test_constraints_of_the_usual_kinds(direct: psycopg.Connection) -> None:
    with direct.transaction(force_rollback=True):
        direct.execute(f"CREATE TABLE s (a integer, b text, CHECK ({HARMLESS}))")
        direct.execute("SELECT tipple_direct.open('s', 0, 0)")
        finish(direct)


def test_open_refuses(direct: psycopg.Connection) -> None:
    table = "CREATE TABLE s (a integer)"
    assert refusal(direct, table) is None
    for statements, reason in STAGING.items():
        refused = refusal(direct, statements)
        assert isinstance(refused, psycopg.errors.ObjectNotInPrerequisiteState)
        assert reason in str(refused), statements
    direct.execute("CREATE TABLE old (a integer)")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="not created or truncated"):
        open_load(direct, "old")
    refused = refusal(direct, f"{table}; DECLARE c CURSOR FOR SELECT 1")
    assert "cursor is open" in str(refused)
    for slots, pages in ((-1, 1), (4097, 1), (1, 0), (64, 2**30), (2, 2**31 - 1)):
        assert isinstance(refusal(direct, table, slots, pages), psycopg.errors.InvalidParameterValue)
    refused = refusal(direct, f"{table}; SET TRANSACTION READ ONLY")
    assert isinstance(refused, psycopg.errors.ReadOnlySqlTransaction)


def test_hash_functions_of_others(
    postgres_server: PostgresServer, direct_database: str, direct: psycopg.Connection
) -> None:
    """The bounds of a hash partition call the functions of its key's operator class, which may call anything."""
    postgres_server.execute(
        "CREATE FUNCTION f(integer, bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END'; "
        "CREATE OPERATOR CLASS o FOR TYPE integer USING hash AS OPERATOR 1 =, FUNCTION 2 f(integer, bigint)",
        direct_database,
    )
    bound = "FOR VALUES WITH (MODULUS 2, REMAINDER 0)"
    for key, is_theirs in (("a", False), ("a o", True)):
        for leaf in (
            f"CREATE TABLE s PARTITION OF p {bound}",
            f"CREATE TABLE q PARTITION OF p {bound} PARTITION BY RANGE (a); CREATE TABLE s PARTITION OF q DEFAULT",
        ):
            refused = refusal(direct, f"CREATE TABLE p (a integer) PARTITION BY HASH ({key}); {leaf}")
            assert ("its partition key calls a function" in str(refused)) is is_theirs, (key, leaf, refused)


def test_wrong_order(direct: psycopg.Connection, source: Table) -> None:
    for call in (
        "append('')",
        "append_slot(0, 1)",
        "append_slots('{}', '{}')",
        "also('source')",
        "opened()",
        "finish()",
    ):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="no load is open"):
            direct.execute(f"SELECT tipple_direct.{call}")  # type: ignore[call-overload]
    refused = {
        "SELECT tipple_direct.open('loaded', 0, 0)": "a load is open in this session",
        "SELECT tipple_direct.append('abc')": "not whole pages",
        "SELECT tipple_direct.append_slot(0, 1)": "there is no slot 0",
        "SELECT tipple_direct.append_slots('{0}', '{1}')": "there is no slot 0",
        "SELECT tipple_direct.append_slots('{0,1}', '{1}')": "2 slots and pages of 1 are not possible",
        "SELECT tipple_direct.append_slots('{}', '{1}')": "0 slots and pages of 1 are not possible",
        "SELECT tipple_direct.append_slots('{0,NULL}', '{1,1}')": "are lists of numbers",
        "SELECT tipple_direct.append_slots('{{0,1}}', '{1,1}')": "are lists of numbers",
        "SELECT tipple_direct.append_slots(array_fill(0, '{4097}'), array_fill(0, '{4097}'))": "are not possible",
        "SAVEPOINT s; SELECT tipple_direct.append('')": "opened in another subtransaction",
        "CREATE INDEX ON loaded (a); SELECT tipple_direct.append('')": "it has an index",
        "ALTER TABLE loaded ADD CHECK (random() < 2); SELECT tipple_direct.append('')": "CHECK constraint loaded_check",
        "SELECT tipple_direct.append('', 1)": "there is no relation 1",
        "SELECT tipple_direct.also('source')": "not created or truncated",
        "SELECT tipple_direct.also('loaded')": "has relation with OID [0-9]+ already",
        "SAVEPOINT s; CREATE TABLE t (); SELECT tipple_direct.also('t')": "opened in another subtransaction",
        "CREATE TABLE t (a integer); SELECT tipple_direct.also('t'); COMMIT": "is not finished",
        "ALTER TABLE loaded ADD d json; SELECT tipple_direct.append('')": "is of type json",
        "TRUNCATE loaded; SELECT tipple_direct.append('')": "truncated or rewritten",
        "ALTER TABLE loaded ALTER b TYPE text; SELECT * FROM tipple_direct.finish()": "truncated or rewritten",
        # As many blocks as before, of rows that are not frozen: the visibility map would say that they are.
        "TRUNCATE loaded; INSERT INTO loaded TABLE source; SELECT * FROM tipple_direct.finish()": "truncated or rewr",
        "DECLARE c CURSOR FOR TABLE loaded; SELECT tipple_direct.append('')": "cursor is open",
        "DROP TABLE loaded; SELECT * FROM tipple_direct.finish()": "could not open relation",
        "COMMIT": "is not finished",
        "PREPARE TRANSACTION 'x'": "is not finished|prepared transactions are disabled",
    }
    for statements, reason in refused.items():
        direct.execute("BEGIN; CREATE TABLE loaded (LIKE source)")
        open_load(direct, "loaded")
        append(direct, source.pages)
        with pytest.raises(psycopg.Error, match=reason):
            direct.execute(statements)  # type: ignore[call-overload]
        direct.execute("ROLLBACK")
        assert direct.execute("SELECT to_regclass('loaded')").fetchone() == (None,)
    # A subtransaction that opened has to finish, too.
    direct.execute("BEGIN; SAVEPOINT s; CREATE TABLE loaded (LIKE source)")
    open_load(direct, "loaded")
    with pytest.raises(psycopg.errors.InvalidTransactionState, match="not finished"):
        direct.execute("RELEASE SAVEPOINT s")
    direct.execute("ROLLBACK")


def test_slots_that_are_not_there(direct: psycopg.Connection, source: Table) -> None:
    for slot, pages in ((2, 1), (-1, 1), (0, 4), (0, -1)):
        direct.execute("BEGIN; CREATE TABLE loaded (LIKE source)")
        assert open_load(direct, "loaded", 2, 3)[4] is not None
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="there is no slot"):
            direct.execute("SELECT tipple_direct.append_slot(%s, %s)", (slot, pages))
        direct.execute("ROLLBACK; BEGIN; CREATE TABLE loaded (LIKE source)")
        assert open_load(direct, "loaded", 2, 3)[4] is not None
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="there is no slot"):
            direct.execute("SELECT tipple_direct.append_slots(%s::int[], %s::int[])", ([0, slot], [0, pages]))
        direct.execute("ROLLBACK")
    assert source.rows


def test_a_slot_that_is_named_twice(direct: psycopg.Connection, source: Table) -> None:
    """Its pages would be there twice, and the room for them before anybody had looked at one."""
    direct.execute("BEGIN; CREATE TABLE loaded (LIKE source)")
    assert open_load(direct, "loaded", 3, 3)[4] is not None
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="slot 2 is named twice"):
        direct.execute("SELECT tipple_direct.append_slots('{2,0,2}', '{1,1,1}')")
    direct.execute("ROLLBACK")
    assert source.rows


def test_a_bad_page_is_counted_through_all_slots(direct: psycopg.Connection, source: Table) -> None:
    direct.execute("BEGIN; CREATE TABLE loaded (LIKE source)")
    path = open_load(direct, "loaded", 3, 3)[4]
    pages = bytearray(source.pages[: 9 * PAGE_BYTES])
    pages[7 * PAGE_BYTES + 20] = 1
    Path(path).write_bytes(pages)
    with pytest.raises(psycopg.errors.DataCorrupted, match=r"page 4 of the batch .* pruning"):
        direct.execute("SELECT tipple_direct.append_slots('{1,2,0}', '{3,3,3}')")
    direct.execute("ROLLBACK")


def test_altered_table_that_is_still_right(direct: psycopg.Connection, source: Table) -> None:
    """What a table's alteration changes about its pages is seen at the next append."""
    direct.execute("BEGIN; CREATE TABLE loaded (LIKE source)")
    open_load(direct, "loaded")
    append(direct, source.pages)
    direct.execute("ALTER TABLE loaded RENAME TO renamed; ALTER TABLE renamed ALTER c SET NOT NULL")
    append(direct, source.pages)
    assert finish(direct) == (2 * source.page_count, 2 * source.rows)
    direct.execute("COMMIT; SET enable_seqscan = off")
    assert direct.execute("SELECT count(*) FROM renamed").fetchone() == (2 * source.rows,)
    direct.execute("BEGIN; CREATE TABLE loaded (LIKE source)")
    open_load(direct, "loaded")
    direct.execute("ALTER TABLE loaded ADD d integer")
    with pytest.raises(psycopg.errors.DataCorrupted, match="number of columns"):
        append(direct, source.pages)
    direct.execute("ROLLBACK")


def test_rights(postgres_server: PostgresServer, direct_database: str, source: Table) -> None:
    with postgres_server.connect(direct_database) as superuser:
        superuser.execute("DROP ROLE IF EXISTS stranger")
        superuser.execute("CREATE ROLE stranger; GRANT CREATE, USAGE ON SCHEMA public TO stranger")
        try:
            # Neither the right to call, nor, where somebody granted that, the role.
            superuser.execute("SET ROLE stranger")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for schema"):
                superuser.execute("SELECT tipple_direct.version()")
            superuser.execute("RESET ROLE; GRANT USAGE ON SCHEMA tipple_direct TO stranger; SET ROLE stranger")
            for call in ("version()", "why_not('source')", "open('source', 0, 0)", "append('')", "finish()"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for function"):
                    superuser.execute(f"SELECT tipple_direct.{call}")  # type: ignore[call-overload]
            superuser.execute("RESET ROLE; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tipple_direct TO stranger")
            superuser.execute("SET ROLE stranger; CREATE TABLE own (a integer)")
            assert why_not(superuser, "own") == "the current user is not a member of the role tipple_direct"
            # The role, but not the table.
            superuser.execute("RESET ROLE; GRANT tipple_direct TO stranger; SET ROLE stranger")
            assert why_not(superuser, "own") is None
            superuser.execute("REVOKE INSERT ON own FROM stranger")
            assert why_not(superuser, "own") == "the current user may not insert into it"
            superuser.execute("GRANT INSERT ON own TO stranger")
            assert why_not(superuser, "own") is None
            assert why_not(superuser, "source") == "the current user does not own it"
            superuser.execute("BEGIN; RESET ROLE; CREATE TABLE s (a integer); GRANT ALL ON s TO stranger")
            superuser.execute("SET LOCAL ROLE stranger")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="does not own it"):
                open_load(superuser, "s")
            superuser.execute("ROLLBACK")
            # Nor into what another role has opened in the same session.
            superuser.execute("RESET ROLE")
            for call in (lambda: append(superuser, source.pages), lambda: finish(superuser)):
                superuser.execute(f"BEGIN; SET LOCAL ROLE {LOADER}; CREATE TABLE s (LIKE source)")
                open_load(superuser, "s")
                assert append(superuser, source.pages) == source.rows
                superuser.execute("SET LOCAL ROLE stranger")
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="does not own it"):
                    call()
                superuser.execute("ROLLBACK")
            assert why_not(superuser, "source") is None
            assert why_not(superuser, "pg_class") == "it is a catalog"
        finally:
            superuser.execute("ROLLBACK; RESET ROLE; DROP OWNED BY stranger; DROP ROLE stranger")


def test_nobody_else_owns_the_schema(postgres_server: PostgresServer) -> None:
    """Its owner could put functions there that the client takes for the extension's."""
    name = postgres_server.create_database()
    try:
        postgres_server.execute(f"CREATE SCHEMA tipple_direct AUTHORIZATION {LOADER}", name)
        with pytest.raises(psycopg.errors.RaiseException, match="belongs to no superuser"):
            make_ready(postgres_server, name)
        postgres_server.execute("DROP SCHEMA tipple_direct; CREATE SCHEMA tipple_direct", name)
        make_ready(postgres_server, name)
    finally:
        postgres_server.drop_database(name)


def test_reading_ahead_waits_for_nobody_elses_table(
    postgres_server: PostgresServer, direct_database: str, direct: psycopg.Connection
) -> None:
    with postgres_server.connect(direct_database) as owner:
        owner.execute("CREATE TABLE theirs (a integer)")
        owner.execute("BEGIN; LOCK theirs")
        direct.execute("SET lock_timeout = 1")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner of table theirs"):
            direct.execute("SELECT tipple_direct.read_ahead('theirs', 10)")
        owner.execute("ROLLBACK")


def test_extension_can_be_dropped_and_made_again(
    postgres_server: PostgresServer, direct_database: str, direct: psycopg.Connection
) -> None:
    postgres_server.execute("DROP EXTENSION tipple_direct; CREATE EXTENSION tipple_direct", direct_database)
    direct.execute("CREATE TABLE t (a integer)")
    assert why_not(direct) is None
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        postgres_server.execute("ALTER EXTENSION tipple_direct SET SCHEMA public", direct_database)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        direct.execute("DROP EXTENSION tipple_direct; CREATE EXTENSION tipple_direct")


def test_other_encodings(server_of: Callable[[int], PostgresServer]) -> None:
    """Text is checked for the encoding of the database, and counted in its characters."""
    reason = extension_missing_reason(18)
    if reason is not None:
        pytest.skip(reason)
    server = server_of(18)
    server.execute(f"CREATE DATABASE latin OWNER {LOADER} ENCODING 'LATIN1' TEMPLATE template0")
    try:
        make_ready(server, "latin")
        with server.connect("latin", client_encoding="latin1") as connection:
            connection.execute("BEGIN; CREATE TABLE source (a text, b varchar(4), c char(3))")
            with connection.cursor().copy("COPY source FROM STDIN (FREEZE)") as rows:
                rows.write_row(("Düsseldorf", "ÄÖÜß", "ää"))
            connection.execute("COMMIT; CHECKPOINT")
            row = connection.execute("SELECT pg_relation_filepath('source')").fetchone()
            assert row is not None
            page = (server.data / row[0]).read_bytes()[:PAGE_BYTES]
            connection.execute("BEGIN; CREATE TABLE loaded (LIKE source)")
            open_load(connection, "loaded")
            append(connection, bytes(10) + page[10:])
            finish(connection)
            connection.execute("COMMIT")
            row = connection.execute("SELECT * FROM loaded").fetchone()
            assert row == ("Düsseldorf", "ÄÖÜß", "ää ")
    finally:
        server.drop_database("latin")
