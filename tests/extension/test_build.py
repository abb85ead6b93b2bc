"""The extension's own tests: pg_regress as `make installcheck` runs it, and the parts that need no server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from servers.extension import SOURCES, extension_missing_reason, install_extension
from servers.postgres import PostgresServer, scratch


def test_segments(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc: apt-get install gcc")
    program = tmp_path / "test_segments"
    subprocess.run(
        ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}", SOURCES / "test/test_segments.c", "-o", program],
        check=True,
    )
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "segments are right\n")


def test_names_are_bound_to_itself(postgres_server: PostgresServer) -> None:
    """A function of the same name in another module, which the server shows to all, is not called instead."""
    reason = extension_missing_reason(postgres_server.version)
    if reason is not None:
        pytest.skip(reason)
    install_extension(postgres_server.version)
    config = scratch().bin(postgres_server.version) / "pg_config"
    where = subprocess.run([config, "--pkglibdir"], capture_output=True, text=True, check=True).stdout.strip()
    library = Path(where) / "tipple_direct.so"
    done = subprocess.run(["readelf", "--dynamic", library], capture_output=True, text=True, check=True)
    assert "SYMBOLIC" in done.stdout


def test_installcheck(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """`make installcheck`, as a DBA would call it."""
    reason = extension_missing_reason(postgres_server.version)
    if reason is not None:
        pytest.skip(reason)
    install_extension(postgres_server.version)
    config = scratch().bin(postgres_server.version) / "pg_config"
    pgxs = subprocess.run([config, "--pgxs"], capture_output=True, text=True, check=True).stdout.strip()
    pg_regress = Path(pgxs).parents[1] / "test/regress/pg_regress"
    if subprocess.run([pg_regress, "--version"], capture_output=True).returncode != 0:
        pytest.skip("the pg_regress of this PyPI package does not start; test_regression_script does what it would")
    done = subprocess.run(
        ["make", "-C", SOURCES, "installcheck", f"PG_CONFIG={config}", f"BUILD={tmp_path}"],
        capture_output=True,
        text=True,
        env={**os.environ, **_connection(postgres_server)},
    )
    differences = tmp_path / "regression.diffs"
    assert done.returncode == 0, done.stdout + done.stderr + (differences.read_text() if differences.exists() else "")
    postgres_server.drop_database("contrib_regression")


def test_regression_script(postgres_server: PostgresServer, direct_database: str) -> None:
    """The same on every version, by psql alone."""
    postgres_server.execute("DROP EXTENSION tipple_direct", direct_database)
    with (SOURCES / "sql/tipple_direct.sql").open() as script:
        done = subprocess.run(
            [postgres_server.bin / "psql", "-X", "-a", "-q", "-d", direct_database, "-v", "HIDE_TABLEAM=on"],
            stdin=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **_connection(postgres_server), "PGOPTIONS": "-c client_min_messages=warning"},
        )
    assert done.stdout == (SOURCES / "expected/tipple_direct.out").read_text()


def _connection(server: PostgresServer) -> dict[str, str]:
    return {"PGHOST": str(server.socket_directory), "PGPORT": str(server.port), "PGUSER": "postgres"}


def test_builds_without_a_build_directory(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """`make` and `make install` as a DBA would call them, in the sources' own directory."""
    reason = extension_missing_reason(postgres_server.version)
    if reason is not None:
        pytest.skip(reason)
    sources = tmp_path / "extension"
    shutil.copytree(SOURCES, sources)
    stage = tmp_path / "stage"
    config = scratch().bin(postgres_server.version) / "pg_config"
    for arguments in ([], ["install", f"DESTDIR={stage}"], ["clean"]):
        done = subprocess.run(
            ["make", "-C", sources, f"PG_CONFIG={config}", *arguments], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning" not in done.stderr
    installed = {path.name for path in stage.rglob("*") if path.is_file()}
    assert installed == {
        "tipple_direct.so",
        "tipple_direct.control",
        "tipple_direct--1.0.sql",
        "tipple_direct--1.0--1.1.sql",
        "tipple_direct--1.1--1.2.sql",
        "tipple_direct--1.2--1.3.sql",
        "tipple_direct--1.3--1.4.sql",
    }
    assert not list(sources.rglob("*.o"))
    wrong = subprocess.run(["make", "-C", sources, "PG_CONFIG=/nowhere"], capture_output=True, text=True)
    assert wrong.returncode != 0
    assert "name the server's" in wrong.stderr
