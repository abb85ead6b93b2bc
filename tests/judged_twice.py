"""Loads with keys that judge records as they are stored, and once more with keys that judge when all are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from command import Run
from loading import load_here
from targets import PostgresTarget


def judged_twice(
    target: PostgresTarget,
    tmp_path: Path,
    table: str,
    *sources: Path,
    outcome: Callable[[PostgresTarget, Path, Run], Any],
    afterwards: Mapping[str, Any] | None = None,
    **options: Any,
) -> Run:
    """Loads in both ways into `t`, which `table` makes each time, and requires the same `outcome` of both; gives the
    run of the second way, which has also the options `afterwards`.
    """
    partitioned = "partition_by" in options
    rejects = tmp_path / "bad.csv"
    given = {"on_error": "skip", "max_rejects": "100%", "rejects": rejects, "header": "no", **options}
    outcomes = []
    for words in ({"write_path": "text"}, {"restart": "no_ledger" not in options, **(afterwards or {})}):
        if "schema" not in options:
            target.execute(table)
        run = load_here(target, *sources, check=False, **given, **words)
        assert run.exit_code in (0, 3), str(run)
        assert run.summary is not None
        # New partitions have their keys in place where those judge at once.
        one_stream = "one stream stores" in run.output
        at_once = one_stream if partitioned else run.summary["strategy"] == "single"
        assert at_once == ("write_path" in words), run.summary["strategy_reason"]
        outcomes.append(outcome(target, rejects, run))
        target.execute("DROP TABLE IF EXISTS t")
    judged_at_once, judged_at_the_end = outcomes
    assert judged_at_the_end == judged_at_once
    return run
