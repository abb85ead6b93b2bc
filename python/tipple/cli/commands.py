"""The command `tipple` and its verbs."""

from __future__ import annotations

import click

from tipple import __version__
from tipple.cli.doctor import doctor
from tipple.cli.generate import generate
from tipple.cli.jobs import jobs
from tipple.cli.load import load
from tipple.cli.run import run

__all__ = ["cli"]


@click.group(
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


cli.add_command(generate)
cli.add_command(load)
cli.add_command(run)
cli.add_command(jobs)
cli.add_command(doctor)
