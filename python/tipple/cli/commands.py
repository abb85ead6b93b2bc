"""The command `tipple` and its verbs."""

from __future__ import annotations

import importlib

import click

from tipple import __version__

__all__ = ["cli"]

VERBS = ("generate", "load", "run", "jobs", "doctor")
"""Each is a command in the module of its name."""


class Verbs(click.Group):
    """Imports a verb when it is asked for: a short command should not wait for what it does not use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = getattr(importlib.import_module(f"tipple.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]}?", ctx) from None


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
First steps:
  tipple generate tpch --scale 1 --out data
  tipple load data/lineitem.tbl --table lineitem --schema tpch
  tipple load data/lineitem.tbl --table lineitem --schema tpch --into postgresql://me@host/db

Exit status: 0 done; 1 failed, nothing published; 2 wrong usage or no connection, nothing started;
3 published with rejects; 130 interrupted, can be resumed.
""",
)
@click.version_option(__version__, prog_name="tipple")
def cli() -> None:
    """Load whole tables: files into databases, in parallel, exactly once."""
