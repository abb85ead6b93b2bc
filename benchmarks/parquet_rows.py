"""Writes the rows of a Parquet file to standard output as CSV, for a server that cannot read Parquet.

pyarrow's own reader and writer, batch by batch: no Python for a row.
"""

from __future__ import annotations

import sys

import pyarrow.csv
import pyarrow.parquet


def main() -> None:
    file = pyarrow.parquet.ParquetFile(sys.argv[1])
    options = pyarrow.csv.WriteOptions(include_header=False)
    with pyarrow.csv.CSVWriter(sys.stdout.buffer, file.schema_arrow, write_options=options) as writer:
        for batch in file.iter_batches():
            writer.write_batch(batch)


if __name__ == "__main__":
    main()
