"""The job files in `examples` do what they say, on a small scale."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tipple
from servers.installations import VERSIONS, missing_reason
from servers.postgres import PostgresServer
from targets import DuckdbTarget, PostgresTarget, Target
from tipple.run.options import option_types

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
SCALE = 0.01
PARTS = 4
WIDTH = 15_000
"""Keys in a partition, so that each of so many files at this scale holds one partition's."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tpch")
    tipple.generate(scale=SCALE, out=directory / "whole")
    tipple.generate(scale=SCALE, table="lineitem", parts=PARTS, out=directory / "parts")
    return directory


@pytest.fixture
def target(
    request: pytest.FixtureRequest, tmp_path: Path, server_of: Callable[[int], PostgresServer]
) -> Iterator[Target]:
    if request.param == "duckdb":
        target: Target = DuckdbTarget(tmp_path / "target.duckdb")
    elif missing_reason(max(VERSIONS)):
        pytest.skip(str(missing_reason(max(VERSIONS))))
    else:
        target = PostgresTarget(server_of(max(VERSIONS)))
    yield target
    target.close()


def keys(example: Path) -> set[str]:
    """The options that a job file uses."""
    content = tomllib.loads(example.read_text())
    tables: list[dict[str, Any]] = [content.get("defaults", {}), *content.get("tables", {}).values()]
    return {key for table in tables for key in table}


def parameters() -> list[Any]:
    found = []
    for example in EXAMPLES:
        engine = "duckdb" if "duckdb:" in example.read_text() else "postgresql"
        unknown = keys(example) - set(option_types()) - {"after"}
        reason = f"needs {', '.join(sorted(unknown))}, which tipple load does not have yet"
        marks = [pytest.mark.skip(reason=reason)] if unknown else []
        found.append(pytest.param(example, engine, id=example.stem, marks=marks))
    return found


@pytest.mark.parametrize(("example", "target"), parameters(), indirect=["target"])
def test_example(example: Path, target: Target, data: Path) -> None:
    parts = "partitions" in example.stem
    settings: dict[str, Any] = {"data": str(data / ("parts" if parts else "whole")), "into": target.url}
    if parts:
        settings["width"] = WIDTH
    report = tipple.run(example, settings=settings)
    assert {table.status for table in report.tables} == {"loaded"}
    expected = {"region": 5, "nation": 25, "orders": 15_000, "lineitem": 60_175}
    for table in report.tables:
        assert target.count(table.name) == expected.get(table.name, target.count(table.name)) > 0
    assert {table.status for table in tipple.run(example, settings=settings).tables} == {"already loaded"}


@pytest.mark.parametrize("target", ["postgresql"], indirect=True)
def test_the_third_design_lays_partitions_into_tablespaces(target: PostgresTarget, data: Path) -> None:
    """In turn, indexes too; small tables have their keys from the beginning, big ones are sorted afterwards."""
    spaces = ["space_one", "space_two"]
    for name in spaces:
        target.server.create_tablespace(name)
    settings = {"data": str(data / "whole"), "into": target.url, "tablespaces": spaces}
    job = tipple.run(ROOT / "examples" / "tpch-postgresql-3.toml", settings=settings)
    applied = {report.table: report.structure for report in job.reports}
    assert {name: (found.structure, found.load_as) for name, found in applied.items() if found is not None} == {
        f"public.{name}": ("sorted", "heap") if name in ("orders", "lineitem") else ("btree", "btree")
        for name in ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
    }
    assert all(report.load_seconds > 0 for report in job.reports)
    found = target.rows(
        "SELECT c.relname::text, s.spcname::text FROM pg_class c JOIN pg_tablespace s ON s.oid = c.reltablespace "
        "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1"
    )
    # The partition without a lower bound is made first, and is the last one by name.
    in_turn = [f"{table}_{year}" for table in ("lineitem", "orders") for year in [*_years(), "min"]]
    assert found == [(name, spaces[(n + 1) % 8 % 2]) for n, name in enumerate(in_turn)]


def _years() -> list[str]:
    return [f"{year}_01_01" for year in range(1993, 2000)]


def test_there_are_examples_and_their_commands_name_them() -> None:
    """Each says at its head how it is run, by its own name."""
    assert len(EXAMPLES) >= 5
    for example in EXAMPLES:
        text = example.read_text()
        if "not a job of its own" not in text:
            commands = re.findall(r"^# +tipple run (\S+)", text, re.MULTILINE)
            assert commands
            assert set(commands) == {f"examples/{example.name}"}
