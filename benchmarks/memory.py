"""Peak memory of `tipple load`, against what Tipple promises: 200 MB and 48 MB for each stream, whatever the input.

    .venv/bin/python benchmarks/memory.py                                every input with 1 GB
    .venv/bin/python benchmarks/memory.py --input file --gigabytes 1 10  a file of 1, one of 10 GB; needs 45 GB of disk
    .venv/bin/python benchmarks/memory.py --input stdin --gigabytes 10   from a pipe; needs disk for the database only
    .venv/bin/python benchmarks/memory.py --input quoted --gigabytes 10  a quoted field of 1 GB, which a limit refuses

What counts is VmHWM of the process: the most memory that it ever had resident, libraries included. DuckDB runs
inside of the process; its buffer pool comes on top of the promise, and is capped here by --memory-limit.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from machine import headline, machine
from measure import BenchmarkError, Command, cores, environment, tipple_command
from memory_inputs import INPUTS, MemoryInput
from postgresql_server import LOADER, bench_server
from report import table, write_result
from script import end, parse, parser_of

BASE_MB = 200
STREAM_MB = 48
SAMPLE_SECONDS = 0.01


def main() -> int:
    given = _arguments()
    found = machine(given.data)
    print(headline(found), flush=True)
    records: list[dict[str, Any]] = []
    for name in given.input:
        for gigabytes in given.gigabytes:
            with INPUTS[name](gigabytes, given.data) as one:
                for target, streams, pool, command in _loads(given, one):
                    record = _record(one, target, streams, pool, command)
                    records.append(record)
                    print(" ".join(f"{value}" for value in record.values()), file=sys.stderr, flush=True)
    print("\nPeak memory in MB\n" + _table(records))
    content = {
        "command": shlex.join(["benchmarks/memory.py", *sys.argv[1:]]),
        "machine": found,
        "memory": records,
    }
    inputs = "" if set(given.input) == set(INPUTS) else "-" + "-".join(given.input)
    name = given.name or "memory-" + "-".join(f"{size:g}gb" for size in given.gigabytes) + inputs
    print(f"\nwritten to {write_result(name, content)}")
    return 0 if all(record["kept"] for record in records) else 1


def _record(one: MemoryInput, target: str, streams: int, pool: int, command: Command) -> dict[str, Any]:
    begun = time.monotonic()
    peak = peak_memory(command, one) / 1e6
    promised = BASE_MB + STREAM_MB * streams + pool
    return {
        "target": target,
        "input": one.label,
        "streams": streams,
        "pool_mb": pool,
        "seconds": round(time.monotonic() - begun, 1),
        "peak_mb": round(peak, 1),
        "promised_mb": promised,
        "kept": peak <= promised,
    }


def peak_memory(command: Command, one: MemoryInput) -> int:
    """Run a command on an input and return its VmHWM in bytes, looked at until it ends.

    Raises:
        BenchmarkError: it did not end as the input wants it to.
    """
    with tempfile.TemporaryFile() as output, contextlib.ExitStack() as stack:
        source = stack.enter_context(one.standard_input()) if one.standard_input else subprocess.DEVNULL
        child = subprocess.Popen(command, stdin=source, stdout=output, stderr=output, env=environment())
        peak = 0
        while child.poll() is None:
            peak = max(peak, _high_water(child.pid))
            time.sleep(SAMPLE_SECONDS)
        output.seek(0)
        text = output.read().decode(errors="replace")
        if child.returncode != one.status or one.says not in text:
            raise BenchmarkError(f"{command!r}: status {child.returncode}, expected {one.status}:\n{text[-3000:]}")
        return peak


def _high_water(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _loads(given: argparse.Namespace, one: MemoryInput) -> Iterator[tuple[str, int, int, Command]]:
    """Target, number of streams, MB of the engine's own pool, and the command, for each load."""
    words = ["load", *one.words, "--table", "lineitem", "--schema", "tpch", "--progress", "none"]
    streams = sorted({1, cores(), *given.streams})
    if "postgresql" in given.target:
        with bench_server("minimal", given.data) as server:
            for jobs in streams:
                database = server.fresh_database()
                url = server.server.url(LOADER, database)
                yield "PostgreSQL", jobs, 0, tipple_command(*words, "--into", url, "--jobs", str(jobs))
                server.server.drop_database(database)
    if "duckdb" in given.target:
        for jobs in streams:
            with tempfile.TemporaryDirectory(prefix="duckdb-", dir=given.data) as place:
                options = ["--into", f"duckdb:///{place}/memory.duckdb", "--jobs", str(jobs)]
                options += ["--memory-limit", f"{given.pool_mb}MB"]
                yield "DuckDB", jobs, given.pool_mb, tipple_command(*words, *options)


def _table(records: Sequence[dict[str, Any]]) -> str:
    header = ["", "input", "streams", "seconds", "peak", "promised", "DuckDB's pool", "with pool", ""]
    lines = []
    for record in records:
        pool, promised = record["pool_mb"], record["promised_mb"]
        lines.append(
            [
                record["target"], record["input"], f"{record['streams']}", f"{record['seconds']}",
                f"{record['peak_mb']:.0f}", f"{promised - pool}", f"{pool or '-'}", f"{promised}" if pool else "-",
                "kept" if record["kept"] else "BROKEN",
            ]
        )  # fmt: skip
    return table(header, lines)


def _arguments() -> argparse.Namespace:
    parser = parser_of("memory.py", __doc__)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1.0], help="sizes of the input [1]")
    parser.add_argument("--input", choices=tuple(INPUTS), action="append", help="only this one; may be repeated")
    parser.add_argument("--streams", type=int, nargs="*", default=[], help="besides 1 and one for each core")
    parser.add_argument("--pool-mb", type=int, default=500, help="--memory-limit of DuckDB [500]")
    parser.add_argument("--target", choices=("postgresql", "duckdb"), action="append", help="only this engine")
    given = parse(parser)
    given.target = given.target or ["postgresql", "duckdb"]
    given.input = given.input or list(INPUTS)
    return given


if __name__ == "__main__":
    end(main)
