"""The command line: words become arguments, errors become exit statuses. One file per verb.

The verbs are imported inside `main`, where Ctrl-C and a missing library already have their exit status.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

INTERRUPTED_STATUS = 130


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the command line and exits."""
    try:
        signal.signal(signal.SIGTERM, _terminate)
        _run(arguments)
    except KeyboardInterrupt:
        _end_interrupted()
    except BrokenPipeError:
        # Whoever read our output has gone; Python must not complain about it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ImportError as error:
        if _is_interrupt(error):
            _end_interrupted()
        print(f"tipple: a library is missing or broken: {error}", file=sys.stderr)
        print("  hint: install Tipple again", file=sys.stderr)
        sys.exit(1)
    except Exception as error:  # a fault of ours: said in a line, with the way to see more
        if _is_interrupt(error):
            _end_interrupted()
        if os.environ.get("TIPPLE_TRACEBACK"):
            raise
        text = " ".join(str(error).split())
        print(f"tipple: internal error: {type(error).__name__}: {text}", file=sys.stderr)
        print("  hint: this is a fault of Tipple; set TIPPLE_TRACEBACK=1 and report what it prints", file=sys.stderr)
        sys.exit(1)
    sys.exit(0)


def _run(arguments: list[str] | None) -> None:
    import click

    from tipple.cli import secrets
    from tipple.cli.commands import cli
    from tipple.errors import BadRecord, TippleError

    if arguments is None:
        secrets.hide(sys.argv[1:])
        arguments = secrets.reveal(sys.argv[1:])
    try:
        cli.main(args=arguments, prog_name="tipple", standalone_mode=False)
    except TippleError as error:
        click.echo(f"tipple: {error}", err=True)
        if error.hint and not isinstance(error, BadRecord):
            click.echo(f"  hint: {error.hint}", err=True)
        sys.exit(error.exit_status)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except click.Abort:
        raise KeyboardInterrupt from None


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind a failure.

    In the middle of an import or of making a class Python wraps it, and DuckDB has a word of its own for it.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        if isinstance(error, RuntimeError) and str(error) == "Query interrupted":
            return True
        error = error.__cause__ or error.__context__
    return error is not None


def _end_interrupted() -> NoReturn:
    """Ends at once: everything has been unwound, and Python's own end after Ctrl-C may be by signal, without status."""
    print("tipple: interrupted; run the same command again to go on", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED_STATUS)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
