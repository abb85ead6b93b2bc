"""`tipple doctor`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tipple.engines.findings import Finding, StorageSize
from tipple.plan.size import format_bytes, format_count
from tipple.run.doctor import examine_target, measure_target

__all__ = ["doctor"]

STYLES = {"broken": "bold red", "slow": "yellow", "note": "cyan", "ok": "green"}
BROKEN_STATUS = 1


@click.command(
    epilog="""\b
Examples:
  tipple doctor postgresql:///warehouse
  tipple doctor postgresql:///warehouse 'in/*.csv' --table sales.orders
  tipple doctor duckdb:///shop.duckdb --sizes
"""
)
@click.argument("url", required=False)
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@click.option("--table", metavar="[SCHEMA.]NAME", help="The table that is to be loaded: look at it too.")
@click.option("--sizes", is_flag=True, help="Show the room that tables, partitions and indexes take instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
def doctor(url: str | None, sources: Sequence[str], *, table: str | None, sizes: bool, as_json: bool) -> None:
    """Check a target before a load: what would slow it down or break it, and what to do about it.

    URL is the target; without it $TIPPLE_TARGET counts. SOURCE is what is to be loaded: is there room for it? Nothing
    is changed. The exit status is 1 where a load would
    fail, or what it stores would not be safe.
    """
    if sizes:
        found = measure_target(url, table=table)
        if as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
        else:
            _show_sizes(found)
        return
    findings = examine_target(url, sources, table=table)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(findings)).decode())
    else:
        _show(findings)
    if any(finding.level == "broken" for finding in findings):
        sys.exit(BROKEN_STATUS)


def _show(findings: Sequence[Finding]) -> None:
    console = Console(file=sys.stdout, highlight=False)
    for finding in findings:
        line = Text(f"{finding.level:8}", style=STYLES[finding.level])
        line.append(f"{finding.subject}: {finding.found}", style="none")
        console.print(line)
        for label, text in (("effect", finding.effect), ("remedy", finding.remedy)):
            if text:
                console.print(Padding(Text(f"{label:6}  {text}"), (0, 0, 0, 8)))


def _show_sizes(found: Sequence[StorageSize]) -> None:
    if not found:
        click.echo("no tables")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "kind", "bounds"):
        table.add_column(heading, overflow="fold")
    for heading in ("pages", "size", "rows"):
        table.add_column(heading, justify="right")
    for size in found:
        table.add_row(
            Text(size.name),
            size.kind,
            Text(size.bound or ""),
            format_count(size.pages),
            format_bytes(size.bytes),
            "" if size.rows is None else format_count(size.rows),
        )
    Console(file=sys.stdout, width=max(Console().width, 120)).print(table)
