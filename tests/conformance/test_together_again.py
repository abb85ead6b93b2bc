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


def test_a_bad_record_beside_the_table_that_it_refers_to(postgres_target: Target, tmp_path: Path) -> None:
    """That table comes with the same job, so it is not what is to be loaded first."""
    target = postgres_target
    write(tmp_path / "par.csv", "1\n2\n")
    write(tmp_path / "par.sql", "CREATE TABLE par (id integer PRIMARY KEY)")
    write(tmp_path / "chi.sql", "CREATE TABLE chi (id integer, pid integer REFERENCES par)")
    job = write(
        tmp_path / "job.toml",
        f"publish = 'together'\n[defaults]\ninto = '{target.url}'\nheader = 'no'\n"
        "sources = '${here}/${table}.csv'\nschema = '${here}/${table}.sql'\n"
        "[tables.par]\n[tables.chi]\nafter = 'par'\n",
    )
    write(tmp_path / "chi.csv", "1,1\n2,9\n")
    with pytest.raises(tipple.JobFailed) as failed:
        tipple.run(job)
    (error,) = failed.value.errors
    assert isinstance(error, tipple.BadRecord)
    assert "the same job loads par" in error.remedy
    assert "load the referenced table first" not in error.remedy
    write(tmp_path / "chi.csv", "1,1\n2,2\n")
    report = tipple.run(job, restart=True)
    assert target.count("chi") == 2
    assert {"plan", "load"} <= {phase.name for phase in report.phases}
