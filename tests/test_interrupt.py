"""What Ctrl-C is told to be followed by: the same command goes on, unless its sources or options say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tipple
from tipple.run.interrupt import how_to_go_on

ANEW = "load it again from its beginning"


class Frame:
    """Of a frame each comparison is a frame, which is neither true nor false."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of a frame is ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("sources", "options", "hint"),
    [
        ("in.csv", {}, "run the same command again: it goes on where the ledger has rows"),
        (["in.csv", "-"], {}, ANEW),
        (Path("-"), {"restart": True}, ANEW),
        (Frame(), {}, ANEW),
        ("-", {"dry_run": True}, "run the same command again: nothing was begun"),
        ("in.csv", {"ledger": False}, "run the same command again: without a ledger it loads from the beginning"),
        ("in.csv", {"ledger": False, "atomic": False}, "delete what is stored, and run the same command again"),
        ("in.csv", {"restart": True}, "run the same command without --restart to go on"),
    ],
)
def test_how_to_go_on(sources: object, options: dict[str, object], hint: str) -> None:
    assert how_to_go_on(sources, **options).startswith(hint)
    assert how_to_go_on(sources=sources, **options).startswith(hint)


def test_what_a_restart_does_with_rows_that_stay() -> None:
    assert how_to_go_on("in.csv", restart=True).endswith("with it, it loads all anew")
    assert how_to_go_on("in.csv", restart=True, atomic=False).endswith("with it, it stores what is stored once more")


@pytest.mark.parametrize("phase", ["prepare", "load"])
def test_a_table_in_memory(tmp_path: Path, phase: str) -> None:
    """Whoever hands it over by its name is told the same."""

    def interrupt(snapshot: Mapping[str, Any]) -> None:
        if snapshot["phase"] == phase:
            raise KeyboardInterrupt

    options: dict[str, Any] = {"into": f"duckdb:///{tmp_path}/x.duckdb", "table": "t", "schema": "auto"}
    for given in ((pa.table({"a": [1]}),), ()):
        named = {} if given else {"sources": pa.table({"a": [1]})}
        with pytest.raises(tipple.Interrupted) as caught:
            tipple.load(*given, **named, **options, progress=interrupt)
        assert str(caught.value.hint).startswith(ANEW)
