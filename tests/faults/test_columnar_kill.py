"""SIGKILL of the client while it loads Parquet: row groups that are done are not done again."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from big import BigFile
from columnar_files import columnar_twin
from command import Command
from conftest import version_parameter
from faults.oracle import OLD_ROWS, Disturbed, copying, record_count, wait_for
from servers.postgres import PostgresServer
from targets import PostgresTarget


def ends_or_stores(command: Command, target: PostgresTarget) -> bool:
    return not command.running or bool(copying(target))


@pytest.mark.parametrize("version", [version_parameter(18)])
def test_client_killed_between_row_groups(
    server_of: Callable[[int], PostgresServer], big_file: BigFile, tmp_path: Path, version: int
) -> None:
    big = columnar_twin(big_file, tmp_path / "big.parquet")
    target = PostgresTarget(server_of(version))
    killed = resumed = 0
    try:
        job = Disturbed(target, big, table="whole", old_rows=0)
        run = job.run()
        assert run.summary is not None
        assert run.summary["slices"] > 4
        seconds = next(phase["seconds"] for phase in run.summary["phases"] if phase["name"] == "load")
        job.check_rows()
        job.drop()
        for number, share in enumerate((0.2, 0.4, 0.6)):
            job = Disturbed(target, big, table=f"t{number}", old_rows=OLD_ROWS * (number % 2))
            command = job.start()
            # The first run was the slowest.
            wait_for(partial(ends_or_stores, command, target))
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
