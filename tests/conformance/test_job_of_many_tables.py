"""Jobs of a thousand tables: what is done for a plan grows with the number of tables, and not with its square."""

from __future__ import annotations

import cProfile
import pstats
from collections import Counter
from pathlib import Path

import pytest

import tipple
from targets import Target, write

JOB = """
[defaults]
into = "${into}"
sources = "${here}/in.csv"
schema = "${here}/tables.sql"
format = "csv"
header = "no"
"""
FEW, MANY = 5, 40
SHOWN = {"_show", "_bytes_done", "<genexpr>", "<listcomp>", "<dictcomp>"}
"""What a snapshot of the progress goes through all tables for."""


def calls(target: Target, place: Path, tables: int) -> Counter[tuple[str, str]]:
    """How often each function of Tipple's is called for the plan of so many tables."""
    place.mkdir()
    write(place / "in.csv", "1,2\n")
    write(place / "tables.sql", "".join(f"CREATE TABLE t{number} (a int, b int);\n" for number in range(tables)))
    job = write(place / "job.toml", JOB + "".join(f"[tables.t{number}]\n" for number in range(tables)))
    with cProfile.Profile() as profile:
        report = tipple.run(job, settings={"into": target.url}, dry_run=True)
    assert [table.status for table in report.tables] == ["planned"] * tables
    found: Counter[tuple[str, str]] = Counter()
    for (file, _, function), (_, count, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if "/tipple/" in file and not (file.endswith("run/job.py") and function in SHOWN):
            found[file.rpartition("/tipple/")[2], function] += count
    return found


@pytest.mark.parametrize("exist", [False, True])
def test_a_plan_of_many_tables(engine_target: Target, tmp_path: Path, exist: bool) -> None:
    if exist:
        engine_target.execute("".join(f"CREATE TABLE t{number} (a int, b int);" for number in range(MANY)))
    few, many = (calls(engine_target, tmp_path / f"{tables}", tables) for tables in (FEW, MANY))
    # What is called once for all of them is called a few times more or less.
    grown = {name: (few[name], count) for name, count in many.items() if count > MANY // FEW * few[name] + MANY // 2}
    assert not grown
