"""`--pin-cpus`: each stream's thread on the processor whose turn it is."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from big import TABLE, BigFile
from command import Command, start_tipple
from loading import load_here, load_words
from targets import Target, write
from tipple.errors import UsageError
from tipple.plan.cpus import format_cpus, parse_cpus

CPUS = sorted(os.sched_getaffinity(0))


def affinities(command: Command) -> list[str]:
    """What each thread of the process may run on."""
    found = []
    for status in Path(f"/proc/{command.pid}/task").glob("*/status"):
        try:
            found += re.findall(r"Cpus_allowed_list:\s*(\S+)", status.read_text())
        except OSError:
            continue
    return found


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs, to tell them apart")
def test_streams_are_pinned_in_turn(engine_target: Target, big_file: BigFile) -> None:
    """Three streams on two CPUs; the other threads of the process are free."""
    engine_target.execute(TABLE)
    last, first = CPUS[-1], CPUS[0]
    command = start_tipple(
        *load_words(engine_target.url, (big_file.path,), "t", {"jobs": 3, "pin_cpus": f"{last},{first}"})
    )
    seen: set[tuple[int, int, bool]] = set()
    while command.running:
        now = affinities(command)
        seen.add((now.count(str(last)), now.count(str(first)), format_cpus(CPUS) in now))
        time.sleep(0.01)
    run = command.wait()
    assert run.exit_code == 0, str(run)
    assert (2, 1, True) in seen
    assert max(count for count, _, _ in seen) == 2
    assert run.summary is not None
    assert run.summary["settings"]["pin_cpus"] == f"stream 1: {last}, stream 2: {first}, stream 3: {last}"
    assert engine_target.count("t") == big_file.rows


@pytest.mark.parametrize("given", ["", "x", "1-0", "0,,1", "0-", "-1", "0;1", str(max(CPUS) + 1), f"0-{2**19}"])
def test_wrong_lists(engine_target: Target, tmp_path: Path, given: str) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    run = load_here(engine_target, write(tmp_path / "in.csv", "1\n"), pin_cpus=given, check=2)
    assert "--pin-cpus" in run.stderr
    assert engine_target.count("t") == 0


def test_lists() -> None:
    allowed = frozenset({0, 1, 2, 3, 8})
    assert parse_cpus("0-3,8", allowed) == (0, 1, 2, 3, 8)
    assert parse_cpus(" 8, 0-1 ", allowed) == (8, 0, 1)
    assert format_cpus(allowed) == "0-3,8"
    with pytest.raises(UsageError, match="may not use CPU 4"):
        parse_cpus("3-5", allowed)
    with pytest.raises(UsageError, match="CPU 1 is named twice"):
        parse_cpus("0-2,1", allowed)
