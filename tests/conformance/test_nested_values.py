"""Values of DuckDB's types that are made of others: what is refused says how such a value is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from loading import load
from targets import DuckdbTarget, write


@pytest.mark.parametrize(
    ("type_text", "bad", "remedy", "good", "value"),
    [
        ("integer[2]", "1", "with 2 elements: [1, 2, …]", '"[1, 2]"', (1, 2)),
        ("integer[2]", '"[1, 2, 3]"', "with 2 elements: [1, 2, …]", '"[1, 2]"', (1, 2)),
        ("struct(a integer, b varchar)", "x", "{'a': 1, 'b': 'x'}", "\"{'a': 1, 'b': 'x'}\"", {"a": 1, "b": "x"}),
        ("map(varchar, integer)", "x", "{key=value, …}", "{key=1}", {"key": 1}),
        ("integer[2][]", "1", "write it as DuckDB does: [1, 2, …]", '"[[1, 2]]"', [(1, 2)]),
    ],
)
def test_how_it_is_written(tmp_path: Path, type_text: str, bad: str, remedy: str, good: str, value: object) -> None:
    target = DuckdbTarget(tmp_path / "t.duckdb")
    target.execute(f"CREATE TABLE t (n integer, v {type_text})")
    path = write(tmp_path / "in.csv", f"1,{bad}\n")
    run = load(target, path, header="no", check=1)
    assert "remedy    write it as DuckDB does" in run.stderr
    assert remedy in run.stderr
    load(target, write(path, f"1,{good}\n"), header="no")
    assert target.value("SELECT v FROM t") == value
