"""The session that DuckDB's loads share."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tipple.engines.duckdb import connect
from tipple.engines.duckdb.session import DuckSession
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
