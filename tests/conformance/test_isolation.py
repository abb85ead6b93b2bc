"""A role whose transactions are of a stricter isolation level loses no row that somebody commits meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from command import start_tipple
from faults.oracle import wait_for
from loading import load_words
from servers.postgres import LOADER
from targets import PostgresTarget, write

ROWS = 200
TABLE = "CREATE TABLE t (id int, s text); CREATE INDEX ON t (s);"
PARTITIONS = (
    "CREATE TABLE t (id int, s text) PARTITION BY RANGE (id); CREATE INDEX ON t (s);"
    "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (MINVALUE) TO (100);"
    "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (100) TO (MAXVALUE);"
)
OLD = "INSERT INTO t VALUES (-1, 'old');"
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "empty": (TABLE, {}, ROWS + 1),
    "rebuild": (TABLE + OLD, {"indexes": "rebuild"}, ROWS + 2),
    "partitions": (PARTITIONS + OLD, {}, ROWS + 2),
    "empty partitions": (PARTITIONS, {}, ROWS + 1),
    # With the key of one that is loaded.
    "upsert": (TABLE + OLD, {"mode": "upsert", "key": "id"}, ROWS + 1),
}


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@pytest.mark.parametrize("name", CASES)
def test_rows_that_are_committed_while_their_lock_is_waited_for(
    postgres_target: PostgresTarget, tmp_path: Path, name: str, level: str
) -> None:
    target = postgres_target
    given, options, rows = CASES[name]
    target.execute(given)
    file = write(tmp_path / "t.csv", "".join(f"{n},row {n}\n" for n in range(ROWS)))
    words = {"progress": "plain", "jobs": 1, "format": "csv", "header": "no", **options}
    setting = "-c default_transaction_isolation=" + level.replace(" ", "\\ ")
    url = target.server.url(LOADER, target.database, options=setting)
    with psycopg.connect(target.url) as other:
        other.execute("INSERT INTO t VALUES (7, 'late')")
        command = start_tipple(*load_words(url, (file,), "t", words))
        waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        assert wait_for(lambda: target.value(waits), 60), command.stderr_so_far()
        other.commit()
    run = command.wait(60)
    assert run.exit_code == 0, str(run)
    assert target.count("t") == rows
    late = target.rows("SELECT s FROM t WHERE id = 7 ORDER BY s")
    assert late == ([("row 7",)] if name == "upsert" else [("late",), ("row 7",)])
