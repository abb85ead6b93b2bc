"""Settings of roles, databases and servers that a load meets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loading import load
from servers.postgres import LOADER, PostgresServer
from targets import PostgresTarget, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "in.csv", "1,x\n2,y\n")


def test_statement_timeout_of_the_role(postgres_target: PostgresTarget, path: Path) -> None:
    """Settings of a role that are made for interactive users do not break a load, or the error names them."""
    postgres_target.execute("CREATE TABLE t (a integer, b text)")
    url = postgres_target.server.url(
        LOADER,
        postgres_target.database,
        options="-c statement_timeout=1ms -c idle_in_transaction_session_timeout=50ms -c lock_timeout=1ms",
    )
    run = load(url, path, check=False)
    if run.exit_code == 0:
        assert postgres_target.count("t") == 2
    else:
        # Where the setting is changed the moment it strikes, the server forgets whose signal it was (57014).
        assert "timeout" in run.stderr or "57014" in run.stderr, run
        assert postgres_target.count("t") == 0


@pytest.mark.parametrize(
    "options",
    [
        "-c datestyle=SQL,DMY",
        "-c intervalstyle=sql_standard",
        "-c client_encoding=LATIN1",
        "-c standard_conforming_strings=off",
        "-c search_path=pg_catalog",
        "-c bytea_output=escape",
        "-c extra_float_digits=-10",
        "-c timezone=America/St_Johns",
        "-c role=loader",
        "-c default_transaction_isolation=serializable",
        "-c row_security=off",
        "-c synchronous_commit=off",
        "-c default_tablespace=pg_default",
        "-c quote_all_identifiers=on",
        "-c transform_null_equals=on",
        "-c array_nulls=off",
    ],
)
def test_settings_of_the_session_change_no_value(postgres_target: PostgresTarget, tmp_path: Path, options: str) -> None:
    """What a file means does not depend on settings that are made for people."""
    postgres_target.execute("CREATE TABLE public.t (a integer, b text, d date, s timestamp, f float8, n numeric(9,3))")
    path = write(tmp_path / "in.csv", "1,äß🚂\\x,2020-02-01,2020-02-01 00:00:01.5,0.1,1.5\n")
    url = postgres_target.server.url(LOADER, postgres_target.database, options=options)
    load(url, path, table="public.t", verify="checksum")
    query = "SELECT a, b, d::text, s::text, f, n::text FROM t"
    assert postgres_target.rows(query) == [(1, "äß🚂\\x", "2020-02-01", "2020-02-01 00:00:01.5", 0.1, "1.500")]


def test_strings_as_old_servers_read_them(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Backslashes stand for themselves in statements and in the ledger, whatever the session's settings are."""
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (a integer PRIMARY KEY, b text CHECK (b <> '\\'));\n")
    path = write(tmp_path / "in.csv", "1,\\\n2,'\\\n2,b\n")
    url = postgres_target.server.url(
        LOADER, postgres_target.database, options="-c standard_conforming_strings=off -c escape_string_warning=off"
    )
    rejects = tmp_path / "bad\\"
    given = {"on_error": "skip", "max_rejects": 2, "rejects": rejects}
    load(url, path, schema=schema, null="\\N", **given, check=3)
    assert postgres_target.rows("SELECT a, b FROM t") == [(2, "'\\")]
    assert rejects.read_text() == "1,\\\n2,b\n"
    assert postgres_target.value("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 't_b_check'") == (
        "CHECK ((b <> '\\'::text))"
    )
    divided = write(tmp_path / "p.sql", "CREATE TABLE p (a integer, b text);")
    load(url, path, table="p", schema=divided, null="\\N", partition_by="range(b, bounds=['\\'])")
    bounds = "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relispartition ORDER BY 1 DESC"
    assert postgres_target.rows(bounds) == [
        ("FOR VALUES FROM (MINVALUE) TO ('\\')",),
        ("FOR VALUES FROM ('\\') TO (MAXVALUE)",),
    ]


def test_a_role_whose_sessions_end_by_errors(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """A record that the server refuses is a reject all the same."""
    postgres_target.execute("CREATE TABLE t (a integer CHECK (a > 0)); INSERT INTO t VALUES (9)")
    url = postgres_target.server.url(LOADER, postgres_target.database, options="-c exit_on_error=on")
    rejects = tmp_path / "bad.csv"
    load(
        url, write(tmp_path / "in.csv", "1\n-2\n3\n"), header="no", retry_for=1, on_error="skip", max_rejects=1,
        rejects=rejects, check=3,
    )  # fmt: skip
    assert rejects.read_text() == "-2\n"
    assert postgres_target.sorted_rows("t") == [(1,), (3,), (9,)]


@pytest.mark.parametrize("rows", [0, 1])
def test_a_limit_of_the_servers_for_transactions(postgres_target: PostgresTarget, tmp_path: Path, rows: int) -> None:
    """It is meant for who forgets a transaction, as statement_timeout is for who forgets a statement."""
    if postgres_target.server.version < 17:
        # No such setting there.
        return
    postgres_target.execute("CREATE TABLE t (a integer PRIMARY KEY, b text, c text)")
    postgres_target.execute(f"INSERT INTO t SELECT -i, 'x' FROM generate_series(1, {rows}) i")
    path = write(tmp_path / "in.csv", "".join(f"{n},{'b' * 50},{'c' * 50}\n" for n in range(100_000)))
    url = postgres_target.server.url(LOADER, postgres_target.database, options="-c transaction_timeout=10ms")
    load(url, path, retry_for=1)
    assert postgres_target.count("t") == 100_000 + rows


@pytest.fixture
def latin1(server_of: Callable[[int], PostgresServer]) -> Iterator[PostgresTarget]:
    target = PostgresTarget(server_of(18))
    name = target.database + "_latin1"
    target.server.execute(f"CREATE DATABASE {name} OWNER {LOADER} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    other = PostgresTarget.__new__(PostgresTarget)
    other.__dict__.update(target.__dict__)
    other.database = name
    other.url = target.server.url(LOADER, name)
    other._connection = None
    try:
        yield other
    finally:
        other.close()
        target.close()


def test_database_in_another_encoding(latin1: PostgresTarget, tmp_path: Path) -> None:
    """UTF-8 files go into a LATIN1 database where its characters suffice, else the record is refused."""
    latin1.execute("CREATE TABLE t (a integer, b text, c varchar(3))")
    load(latin1, write(tmp_path / "in.csv", "1,äöü,äöü\n"))
    assert latin1.rows("SELECT b, c, octet_length(b) FROM t") == [("äöü", "äöü", 3)]
    run = load(latin1, write(tmp_path / "bad.csv", "1,x,\n2,漢,\n"), check=1)
    assert "bad.csv" in run.stderr
    assert latin1.count("t") == 1


@pytest.mark.parametrize("write_path", ["binary", "text"])
def test_reasons_in_another_encoding(latin1: PostgresTarget, tmp_path: Path, write_path: str) -> None:
    """A reason that quotes what the ledger's database cannot hold does not end the load."""
    latin1.execute("CREATE TABLE t (a integer, b text)")
    path = write(tmp_path / "in.csv", "1,x\n€é,y\n")
    options: dict[str, object] = {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad", "header": "no"}
    load(latin1, path, write_path=write_path, check=3, **options)
    assert latin1.rows("SELECT a, b FROM t") == [(1, "x")]
    assert (tmp_path / "bad").read_text(encoding="utf-8") == "€é,y\n"
    if write_path == "binary":
        assert r'""\u{20ac}é""' in (tmp_path / "bad.reasons.csv").read_text(encoding="utf-8")
    assert latin1.count("tipple.reject") == 1
