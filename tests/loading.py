"""What most tests here do: one `tipple load` with a few options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from command import Run, run_tipple
from targets import Target, write


def option_words(options: Mapping[str, object]) -> list[str]:
    """`{"null": "x", "dry_run": True}` to `["--null", "x", "--dry-run"]`; False and None leave one out."""
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.strip("_").replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


def load_words(url: str, sources: tuple[object, ...], table: str, options: Mapping[str, object]) -> list[str]:
    """The words of a load."""
    given = {"progress": "none", **options}
    return ["load", *map(str, sources), "--into", url, "--table", table, *option_words(given)]


def load(
    target: Target | str,
    *sources: object,
    table: str = "t",
    check: bool | int = True,
    env: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
    timeout: float = 120.0,
    **options: object,
) -> Run:
    """`tipple load SOURCES --into TARGET --table TABLE` with `--option value` for each further argument."""
    url = target if isinstance(target, str) else target.url
    return run_tipple(*load_words(url, sources, table, options), check=check, env=env, cwd=cwd, timeout=timeout)


def load_text(target: Target, path: Path, data: str | bytes, **options: Any) -> Run:
    """Write `data` to `path` and load it."""
    return load(target, write(path, data), **options)
