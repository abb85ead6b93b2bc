"""What most tests here do: one `tipple load` with a few options."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from command import Run, environment, run_tipple
from targets import Target, write
from tipple.cli.commands import cli
from tipple.errors import TippleError


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


def load_stdin(target: Target, data: bytes, **options: object) -> subprocess.CompletedProcess[bytes]:
    """`tipple load -` into the table `t`, which reads `data`, CSV."""
    words = load_words(target.url, ("-",), "t", {"format": "csv", **options})
    command = [sys.executable, "-m", "tipple", *words]
    return subprocess.run(command, input=data, capture_output=True, timeout=120, env=environment(), check=False)


def load_here(
    target: Target | str,
    *sources: object,
    table: str = "t",
    check: bool | int = True,
    cwd: Path | None = None,
    **options: object,
) -> Run:
    """As `load`, in this process: for tests of many small loads, whose time would be that of starting programs."""
    url = target if isinstance(target, str) else target.url
    output = io.StringIO()
    message, exit_code, began = "", 0, time.monotonic()
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(cwd or "."):
        summary = Path(directory) / "summary.json"
        words = [*load_words(url, sources, table, options), "--summary", str(summary)]
        try:
            with contextlib.redirect_stdout(output):
                cli.main(args=words, prog_name="tipple", standalone_mode=False)
        except TippleError as error:
            message, exit_code = f"tipple: {error}\n  hint: {error.hint}", error.exit_status
        except click.ClickException as error:
            message, exit_code = error.format_message(), 2
        except SystemExit as ending:
            exit_code = int(ending.code or 0)
        found = json.loads(summary.read_text()) if summary.exists() else None
    run = Run(words, exit_code, output.getvalue(), message, time.monotonic() - began, found)
    if check is not False:
        expected = 0 if check is True else check
        assert run.exit_code == expected, f"expected exit status {expected}\n{run}"
    return run


def load_text_here(target: Target, path: Path, data: str | bytes, **options: Any) -> Run:
    """Write `data` to `path` and load it in this process."""
    return load_here(target, write(path, data), **options)
