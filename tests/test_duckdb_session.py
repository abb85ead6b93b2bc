"""Sessions with DuckDB databases: what loads share, and files that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tipple
from command import environment
from targets import DuckdbTarget, write
from tipple import _core
from tipple.engines.duckdb import connect
from tipple.engines.duckdb.processor import require_processor
from tipple.engines.duckdb.session import DuckSession
from tipple.errors import TippleError
from tipple.plan.url import parse_target


def test_a_transaction_that_was_given_up_is_not_committed(tmp_path: Path) -> None:
    """DuckDB's own COMMIT of it rolls back, and says nothing."""
    session = connect(parse_target(f"duckdb:///{tmp_path}/t.duckdb"))
    assert isinstance(session, DuckSession)
    session.connection.execute("CREATE TABLE t (a integer)")
    session.begin()
    session.connection.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(duckdb.TransactionException, match="CHECKPOINT"):
        session.connection.execute("CHECKPOINT")
    with pytest.raises(duckdb.TransactionException, match="aborted"):
        session.commit()
    session.connection.execute("ROLLBACK")
    session.close()


def test_a_directory_that_takes_no_log(tmp_path: Path) -> None:
    """DuckDB writes its log beside the file: without room for it rows would be stored, and none of them committed."""
    place = tmp_path / "place"
    place.mkdir()
    target = DuckdbTarget(place / "d.duckdb")
    target.execute("CREATE TABLE t (a integer)")
    source = write(tmp_path / "a.csv", "1\n")
    place.chmod(0o555)
    # Root may write everywhere, unless that right is taken from it.
    held_back = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    prefix = held_back if os.geteuid() == 0 else []

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [*prefix, sys.executable, "-m", "tipple", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)

    try:
        refused = run("load", source, "--into", target.url, "--table", "t")
        looked = run("doctor", target.url, source, "--table", "t", "--json")
    finally:
        place.chmod(0o755)
    assert refused.returncode == 2
    assert f"this user may not write to {place}" in " ".join(refused.stderr.split())
    assert looked.returncode == 1
    assert f"this user may only read {place}" in looked.stdout


@pytest.mark.parametrize(("end", "is_refused"), [("kill -ILL $$", True), ("exit 1", False), ("exit 0", False)])
def test_a_processor_that_the_library_is_not_built_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, is_refused: bool
) -> None:
    """Where it is not known to suit, the library is tried by a process that may be ended for it."""
    python = write(tmp_path / "python", f"#!/bin/sh\n{end}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(_core, "has_avx2", lambda: False)
    require_processor()
    monkeypatch.delitem(sys.modules, "duckdb")
    if is_refused:
        with pytest.raises(TippleError, match="no AVX2"):
            require_processor()
    else:
        require_processor()
    monkeypatch.setattr(_core, "has_avx2", lambda: True)
    require_processor()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_was_removed_while_it_is_open(tmp_path: Path, replaced: bool) -> None:
    """DuckDB gives the same database again, whose file has no name any more."""
    path = tmp_path / "d.duckdb"
    source = str(write(tmp_path / "a.csv", "n\n1\n2\n"))
    given: dict[str, Any] = {"into": f"duckdb:///{path}", "table": "t", "schema": "auto"}
    mine = duckdb.connect(str(path))
    mine.execute("CREATE TABLE o (a integer)")
    path.unlink()
    if replaced:
        other = tmp_path / "other.duckdb"
        duckdb.connect(str(other)).close()
        other.rename(path)
    with pytest.raises(TippleError, match="was removed or replaced while this process has it open"):
        tipple.load(source, **given)
    mine.close()
    assert tipple.load(source, **given).rows == 2
    with duckdb.connect(str(path)) as again:
        assert again.execute("SELECT count(*) FROM t").fetchall() == [(2,)]


def test_a_file_that_is_removed_before_the_commit(tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    session = connect(parse_target(f"duckdb:///{path}"))
    assert isinstance(session, DuckSession)
    session.begin()
    session.connection.execute("CREATE TABLE t AS SELECT 1 a")
    path.unlink()
    with pytest.raises(TippleError, match="was removed or replaced"):
        session.commit()
    session.connection.execute("ROLLBACK")
    session.close()
