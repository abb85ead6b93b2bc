"""Stores rows that lie in memory as Arrow in a DuckDB file: `duckdb_store.py DATABASE PARQUET TABLE CREATE`.

Prints the seconds from the INSERT to the closed file: what is left of a load whose reading costs nothing.
"""

from __future__ import annotations

import sys
import time

import duckdb


def main() -> None:
    database, parquet, table, create = sys.argv[1:]
    rows = duckdb.connect().execute(f"SELECT * FROM read_parquet('{parquet}')").to_arrow_table()
    connection = duckdb.connect(database)
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET write_buffer_row_group_count = 1")
    connection.execute(create)
    connection.register("rows", rows)
    begun = time.monotonic()
    connection.execute(f"INSERT INTO {table} SELECT * FROM rows")
    connection.execute("CHECKPOINT")
    connection.close()
    print(time.monotonic() - begun)


if __name__ == "__main__":
    main()
