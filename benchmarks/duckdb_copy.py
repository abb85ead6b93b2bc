"""DuckDB's own COPY of one file into a new table of a new database, as a program: `duckdb_copy.py FILE DATABASE`.

A process of its own, so that starting Python and DuckDB counts as it does for `tipple load`.
"""

from __future__ import annotations

import argparse

import duckdb

from tipple.plan.tpch import CREATE_TABLE


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("database")
    parser.add_argument("--unordered", action="store_true", help="SET preserve_insertion_order = false")
    parser.add_argument("--options", default="", help="further options of COPY")
    given = parser.parse_args()
    connection = duckdb.connect(given.database)
    if given.unordered:
        connection.execute("SET preserve_insertion_order = false")
    connection.execute(CREATE_TABLE["lineitem"])
    options = f"DELIMITER '|', HEADER false, AUTO_DETECT false{given.options}"
    connection.execute(f"COPY lineitem FROM '{given.file}' ({options})")
    connection.execute("CHECKPOINT")
    connection.close()


if __name__ == "__main__":
    main()
