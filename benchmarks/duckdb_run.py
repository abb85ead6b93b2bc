"""Runs statements in a DuckDB file, checkpoints and closes it: `duckdb_run.py DATABASE STATEMENT...`.

A process of its own, so that starting Python and DuckDB counts as it does for `tipple load`.
"""

from __future__ import annotations

import sys

import duckdb


def main() -> None:
    database, *statements = sys.argv[1:]
    connection = duckdb.connect(database)
    for statement in statements:
        connection.execute(statement)
    connection.execute("CHECKPOINT")
    connection.close()


if __name__ == "__main__":
    main()
