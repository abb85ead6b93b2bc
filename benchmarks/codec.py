"""Text to COPY binary, to pages and to Arrow on one core: runs the Criterion benchmark and reads what it found."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from data import ROOT
from measure import BenchmarkError
from report import Goal, table

GOALS_MB_PER_SECOND = {"copy_binary": ("COPY binary", 600.0), "heap_pages": ("pages", 1000.0)}
LOOK_COST = 0.10
"""Of the time that the same text takes to become COPY binary."""
_COMMAND = ["cargo", "bench", "--locked", "-p", "tipple-codec", "--bench", "lineitem"]


def run_codec() -> dict[str, float]:
    """MB of text per second of each function, from Criterion's median.

    Raises:
        BenchmarkError: the benchmark could not be built or run.
    """
    done = subprocess.run(_COMMAND, cwd=ROOT)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(_COMMAND)} ended with status {done.returncode}")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    speeds = {}
    for directory in sorted((target / "criterion" / "lineitem").glob("*/new")):
        nanoseconds = json.loads((directory / "estimates.json").read_text())["median"]["point_estimate"]
        size = json.loads((directory / "benchmark.json").read_text())["throughput"]["Bytes"]
        speeds[directory.parent.name] = round(size * 1e3 / nanoseconds, 1)
    return speeds


def codec_table(speeds: dict[str, float]) -> str:
    """One line per function."""
    lines = [[name, f"{speed:.0f}"] for name, speed in speeds.items()]
    return "Codec, one core\n" + table(["", "MB/s of text"], lines)


def codec_goal(speeds: dict[str, float]) -> list[Goal]:
    """Text to COPY binary and to pages, and what other looks at every byte cost beside it."""
    goals = []
    for name, (label, least) in GOALS_MB_PER_SECOND.items():
        if speed := speeds.get(name):
            text = f"codec: text to {label} at least {least:,.0f} MB/s per core"
            goals.append(Goal(text, f"{speed:,.0f} MB/s", speed >= least))
    for text, look, whole in (
        ("codec: validation of UTF-8", "validate_utf8", "copy_binary_utf8"),
        ("codec: exact split of quoted text", "split_quoted", "copy_binary_quoted"),
    ):
        if look in speeds and whole in speeds:
            cost = speeds[whole] / speeds[look]
            goals.append(Goal(f"{text} costs less than {LOOK_COST:.0%}", f"{cost:.1%}", cost < LOOK_COST))
    return goals
