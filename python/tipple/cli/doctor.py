"""`tipple doctor`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click
import msgspec
from rich.padding import Padding
from rich.text import Text

from tipple.cli.output import console, print_json, show_log
from tipple.engines.findings import Finding
from tipple.errors import UsageError
from tipple.plan.storage import StorageSize
from tipple.report.render import storage_table
from tipple.run.doctor import examine_target, measure_target
from tipple.run.target import TARGET_VARIABLE

__all__ = ["doctor"]

STYLES = {"broken": "bold red", "slow": "yellow", "note": "cyan", "ok": "green"}
BROKEN_STATUS = 1
SIZES_WIDTH = 140


@click.command(
    epilog="""\b
Examples:
  tipple doctor postgresql:///warehouse
  tipple doctor postgresql:///warehouse 'in/*.csv' --table sales.orders
  tipple doctor duckdb:///shop.duckdb --sizes
"""
)
@click.argument("words", nargs=-1, metavar="[URL] [SOURCE...]")
@click.option("--table", metavar="[SCHEMA.]NAME", help="The table that is to be loaded: look at it too.")
@click.option("--sizes", is_flag=True, help="Show the room that tables, partitions and indexes take instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
def doctor(words: Sequence[str], *, table: str | None, sizes: bool, as_json: bool) -> None:
    """Check a target before a load: what would slow it down or break it, and what to do about it.

    URL is the target; without it $TIPPLE_TARGET counts. SOURCE is what is to be loaded: is there room for it? Nothing
    is changed. The exit status is 1 where a load would fail, or what it stores would not be safe.
    """
    # Without the variable a first word that is no URL is rather a mistake than a source.
    named = bool(words) and ("://" in words[0] or not words[0].strip() or not os.environ.get(TARGET_VARIABLE))
    url, sources = (words[0], words[1:]) if named else (None, words)
    show_log()
    if sizes and sources:
        raise UsageError(
            f"--sizes shows what tables take, and looks at no source such as {sources[0]}",
            hint="leave out the one or the other",
        )
    if sizes:
        found = measure_target(url, table=table)
        if as_json:
            print_json(msgspec.json.format(msgspec.json.encode(found)).decode())
        else:
            _show_sizes(found)
        return
    findings = examine_target(url, sources, table=table)
    if as_json:
        print_json(msgspec.json.format(msgspec.json.encode(findings)).decode())
    else:
        _show(findings)
    if any(finding.level == "broken" for finding in findings):
        sys.exit(BROKEN_STATUS)


def _show(findings: Sequence[Finding]) -> None:
    shown = console(highlight=False)
    for finding in findings:
        line = Text(f"{finding.level:8}", style=STYLES[finding.level])
        line.append(f"{finding.subject}: {finding.found}", style="none")
        shown.print(line)
        for label, text in (("effect", finding.effect), ("remedy", finding.remedy)):
            if text:
                shown.print(Padding(Text(f"{label:6}  {text}"), (0, 0, 0, 8)))


def _show_sizes(found: Sequence[StorageSize]) -> None:
    if not found:
        click.echo("no tables")
        return
    # Names and bounds are there to be copied: rather long lines than folded ones.
    console(SIZES_WIDTH).print(storage_table(found))
