"""The command line: words become arguments, errors become exit statuses. One file per verb."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from tipple import __version__
from tipple.cli import secrets
from tipple.cli.generate import generate
from tipple.cli.jobs import jobs
from tipple.cli.load import load
from tipple.errors import BadRecord, TippleError, printable_text

INTERRUPTED_STATUS = 130


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
cli.add_command(jobs)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the command line and exits."""
    signal.signal(signal.SIGTERM, _terminate)
    if arguments is None:
        secrets.hide(sys.argv[1:])
        arguments = secrets.reveal(sys.argv[1:])
    try:
        cli.main(args=arguments, prog_name="tipple", standalone_mode=False)
    except TippleError as error:
        _say(error)
        sys.exit(error.exit_status)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("tipple: interrupted", err=True)
        sys.exit(INTERRUPTED_STATUS)
    except BrokenPipeError:
        # Whoever read our output has gone; Python must not complain about it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:  # a fault of ours: said in a line, with the way to see more
        if os.environ.get("TIPPLE_TRACEBACK"):
            raise
        click.echo(f"tipple: internal error: {type(error).__name__}: {printable_text(str(error))}", err=True)
        click.echo("  hint: this is a fault of Tipple; set TIPPLE_TRACEBACK=1 and report what it prints", err=True)
        sys.exit(1)
    sys.exit(0)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(error: TippleError) -> None:
    click.echo(f"tipple: {error}", err=True)
    if error.hint and not isinstance(error, BadRecord):
        click.echo(f"  hint: {error.hint}", err=True)
