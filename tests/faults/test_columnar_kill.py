"""SIGKILL of the client while it loads Parquet: row groups that are done are not done again."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from big import BigFile
from columnar_files import columnar_twin
from conftest import version_parameter
from faults.oracle import OLD_ROWS, Disturbed, record_count
from servers.postgres import PostgresServer
from targets import PostgresTarget


@pytest.mark.parametrize("version", [version_parameter(18)])
def test_client_killed_between_row_groups(
    server_of: Callable[[int], PostgresServer], big_file: BigFile, tmp_path: Path, version: int
) -> None:
    big = columnar_twin(big_file, tmp_path / "big.parquet")
    target = PostgresTarget(server_of(version))
    killed = resumed = 0
    try:
        job = Disturbed(target, big, table="whole", old_rows=0)
        started = time.monotonic()
        run = job.run()
        seconds = time.monotonic() - started
        assert run.summary is not None
        assert run.summary["slices"] > 4
        job.check_rows()
        job.drop()
        for number, share in enumerate((0.4, 0.6, 0.8)):
            job = Disturbed(target, big, table=f"t{number}", old_rows=OLD_ROWS * (number % 2))
            command = job.start()
            time.sleep(share * seconds)
            killed += command.running
            command.signal(signal.SIGKILL)
            command.wait()
            runs = job.finish()
            resumed += sum(run.summary["slices_resumed"] for run in runs if run.summary)
            job.drop()
    finally:
        target.close()
    assert killed >= 1
    record_count(f"SIGKILL of the client, Parquet: {killed} of 3 while it ran, {resumed} slices taken over")
