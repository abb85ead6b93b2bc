"""Loaded tables go with pg_upgrade to a newer server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from extension.pages import append, assert_same_rows, connect, load, make_every_type
from servers.extension import install_extension
from servers.installations import VERSIONS
from servers.postgres import PostgresServer


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_pg_upgrade(
    direct_server: Callable[..., tuple[PostgresServer, str]], fresh_server: Callable[..., PostgresServer], version: int
) -> None:
    old, dbname = direct_server(version)
    source = make_every_type(old, dbname)
    with connect(old, dbname) as connection:
        with load(connection, "loaded", "source"):
            append(connection, source.pages)
        connection.execute("CREATE INDEX loaded_i8 ON loaded (i8)")
    noted = old.rows("SELECT FROM pg_attribute WHERE array_to_string(attoptions, ',') LIKE '%pg_attver=%'", dbname)
    old.stop()
    newest = max(VERSIONS)
    install_extension(newest)
    new = fresh_server(newest, start=False)
    # Which 18 switches on by itself; both clusters have to be alike.
    new.run("pg_checksums", "--disable", "-D", new.data)
    arguments = ["--old-bindir", old.bin, "--new-bindir", new.bin, "--old-datadir", old.data]
    arguments += ["--new-datadir", new.data, "--username", "postgres", "--socketdir", new.socket_directory]
    checked = new.run("pg_upgrade", "--check", *arguments)
    assert "Clusters are compatible" in checked
    if noted:
        pytest.skip("this build of the old server notes options of its own with columns, which no other one takes")
    new.run("pg_upgrade", *arguments)
    new.adopt()
    new.start()
    assert_same_rows(new, dbname, "source", "loaded")
    new.execute("VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) loaded", dbname)
    with connect(new, dbname) as connection:
        with load(connection, "again", "source"):
            append(connection, source.pages)
        assert_same_rows(new, dbname, "source", "again")
