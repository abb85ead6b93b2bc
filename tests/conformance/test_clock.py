"""Clocks that are set back, or another machine's: what counts is the order in which jobs were published."""

from __future__ import annotations

from pathlib import Path

from loading import load
from targets import Target, write


def _forward(target: Target) -> None:
    """As if the clock had been an hour ahead so far."""
    target.execute("UPDATE tipple.job SET finished_at = finished_at + INTERVAL '1 hour' WHERE state = 'published'")


def test_a_replace_from_the_future_undoes_nothing_that_came_later(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    load(engine_target, write(tmp_path / "b.csv", "9\n"), mode="replace")
    _forward(engine_target)
    path = write(tmp_path / "a.csv", "1\n2\n")
    load(engine_target, path)
    again = load(engine_target, path)
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"
    assert engine_target.sorted_rows("t") == [(1,), (2,), (9,)]


def test_what_was_replaced_is_loaded_again(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    path = write(tmp_path / "a.csv", "1\n2\n")
    load(engine_target, path)
    _forward(engine_target)
    load(engine_target, write(tmp_path / "b.csv", "9\n"), mode="replace")
    assert engine_target.sorted_rows("t") == [(9,)]
    again = load(engine_target, path)
    assert again.summary is not None
    assert again.summary["status"] == "loaded"
    assert engine_target.sorted_rows("t") == [(1,), (2,), (9,)]
