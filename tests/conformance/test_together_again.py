"""Tables that are published together, of which some are loaded already."""

from __future__ import annotations

from pathlib import Path

import pytest

import tipple
from targets import Target, write


@pytest.mark.parametrize("order", ["", "after = 'big'"])
def test_what_is_new_is_stored(engine_target: Target, tmp_path: Path, order: str) -> None:
    """The table that is done already says so while the other one's rows wait in the transaction of both."""
    write(tmp_path / "small.csv", "1\n")
    job = (
        f"publish = 'together'\n[defaults]\ninto = '{engine_target.url}'\nheader = 'no'\n"
        f"[tables.big]\nsources = '{tmp_path}/big.csv'\nmode = 'replace'\n"
        f"[tables.small]\nsources = '{tmp_path}/small.csv'\n{order}\n"
    )
    for name in ("big", "small"):
        engine_target.execute(f"CREATE TABLE {name} (id integer)")
    write(tmp_path / "job.toml", job)
    for count in (50, 200, 800):
        write(tmp_path / "big.csv", "".join(f"{number}\n" for number in range(count)))
        report = tipple.run(tmp_path / "job.toml")
        assert report.exit_status == 0
        assert (engine_target.count("big"), engine_target.count("small")) == (count, 1)
    states = [(record.table.rpartition(".")[2], record.state) for record in tipple.list_jobs(engine_target.url)]
    assert sorted(states) == [("big", "published")] * 3 + [("small", "published")]
