"""Loads with keys that judge records as they are stored, and once more with keys that judge when all are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from command import Run
from loading import load_here
from targets import PostgresTarget


def outcome_of(target: PostgresTarget, rejects: Path, run: Run, partition: str) -> Any:
    """What is to be the same whichever way a load into `t` went: all but how a key is spelled that is told of.

    As long as the server judges, the index and the table that it names are those of a partition: whatever has a name
    that `partition`, a regular expression, matches.
    """
    reasons = rejects.with_name(rejects.name + ".reasons.csv")
    stored = target.rows("SELECT t::text, tableoid::regclass::text FROM t ORDER BY 1, 2")
    assert not any("stage_" in name for name in target.tables())
    assert run.summary is not None
    kept = rejects.read_bytes() if rejects.exists() else b""
    told_of = re.sub(r"=\(.*?\) (already|is not)", r"=(...) \1", reasons.read_text()) if reasons.exists() else ""
    told_of = re.sub(partition, "t", told_of)
    for path in (rejects, reasons):
        path.unlink(missing_ok=True)
    return stored, kept, told_of, run.summary["rows"], run.summary["rejects"], run.exit_code


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
