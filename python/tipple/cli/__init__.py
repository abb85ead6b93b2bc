"""The command line: words become arguments, errors become exit statuses. One file per verb.

The verbs are imported inside `main`, where Ctrl-C and a missing library already have their exit status.
"""

from __future__ import annotations

import atexit
import gc
import os
import shlex
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from tipple.cli.output import StdoutFailed, flush, guard, has_printed_json, say

if TYPE_CHECKING:
    from tipple.errors import TippleError

FAILED_STATUS = 1
USAGE_STATUS = 2
INTERRUPTED_STATUS = 130

_TELL_FAILURES = ("load", "run", "jobs", "doctor", "generate")
"""The verbs whose `--json` says why there is no result."""

OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""What a run makes at its start, modules above all, lives until its end: to look through it for garbage after every
700 objects takes a tenth of the start."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the command line and exits."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    try:
        try:
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            guard()
            status = _status(arguments)
        finally:
            _ignore_signals()
    except KeyboardInterrupt:
        say("tipple: interrupted; run the same command again to go on")
        _tell_interruption(sys.argv[1:] if arguments is None else arguments)
        status = INTERRUPTED_STATUS
    _end(status)


def _status(arguments: list[str] | None) -> int:
    """Runs the command line and gives its exit status.

    Raises:
        KeyboardInterrupt: Ctrl-C, or SIGTERM.
    """
    try:
        status = _run(arguments)
        flush()
        return status
    except StdoutFailed as error:
        # Whoever has closed the pipe wanted to know no more; everybody else has to know.
        if not error.is_closed_pipe:
            say(f"tipple: stdout cannot be written: {error}")
            say("  hint: free space where the output goes, and run the command again")
    except ImportError as error:
        _raise_interrupt(error)
        say(f"tipple: a library is missing or broken: {error}")
        say("  hint: install Tipple again")
    except Exception as error:  # a fault of ours: said in a line, with the way to see more
        _raise_interrupt(error)
        if os.environ.get("TIPPLE_TRACEBACK"):
            raise
        if isinstance(error, FileNotFoundError) and not _has_working_directory():
            say("tipple: the working directory is gone, which names of files are relative to")
            say("  hint: cd to a directory that is there, and run the command again")
            return USAGE_STATUS
        from tipple.engines.core import shortage

        short = shortage(error)
        if short is not None:
            say(f"tipple: {short}")
            say(f"  hint: {short.hint}")
            _tell(short, sys.argv[1:] if arguments is None else arguments)
            return short.exit_status
        text = " ".join(str(error).split())
        say(f"tipple: internal error: {type(error).__name__}: {text}")
        say("  hint: this is a fault of Tipple; set TIPPLE_TRACEBACK=1 and report what it prints")
    return FAILED_STATUS


def _run(arguments: list[str] | None) -> int:
    from tipple.cli import secrets

    if arguments is None:
        # As soon as can be: whoever looks sees them until then.
        secrets.hide(sys.argv[1:])
        arguments = secrets.reveal(sys.argv[1:])
    import click

    from tipple.cli.commands import cli
    from tipple.errors import BadRecord, TippleError

    try:
        cli.main(args=arguments, prog_name="tipple", standalone_mode=False)
    except TippleError as error:
        say(f"tipple: {error}")
        if error.hint and not isinstance(error, BadRecord):
            say(f"  hint: {error.hint}")
        _tell(error, arguments)
        return error.exit_status
    except click.ClickException as error:
        from tipple.errors import UsageError

        error.show()
        hint = _file_for_option(arguments)
        if hint is not None:
            say(f"  hint: {hint}")
        hint = hint or f"tipple {next(iter(arguments), '')} --help has all options"
        _tell(UsageError(error.format_message(), hint=hint), arguments)
        return USAGE_STATUS
    except click.Abort:
        raise KeyboardInterrupt from None
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 0
    return 0


def _file_for_option(arguments: list[str]) -> str | None:
    """What to do about a file whose name was taken for options."""
    name = next((name for name in arguments if name[:1] == "-" and os.path.isfile(name)), None)
    return None if name is None else f"the file {name} is named by {shlex.quote(f'./{name}')}"


def _tell(error: TippleError, arguments: list[str]) -> None:
    """Says as JSON on stdout why there is no result, where the result is asked for as JSON, and is not there."""
    if "--json" not in arguments or arguments[0] not in _TELL_FAILURES or has_printed_json():
        return
    from tipple.cli.output import print_json
    from tipple.report.failure import LoadFailure
    from tipple.report.schema import encode_summary

    # Why there is none is what matters, and is said on stderr.
    with suppress(StdoutFailed):
        print_json(encode_summary(LoadFailure.of(error)))
        flush()


def _tell_interruption(arguments: list[str]) -> None:
    """Says as JSON that Ctrl-C came where no verb does: before it has begun, for example, or while it is imported."""
    with suppress(ImportError):
        from tipple.errors import Interrupted

        _tell(Interrupted("interrupted", hint="run the same command again to go on"), arguments)


def _raise_interrupt(error: Exception) -> None:
    """Says of a failure that Ctrl-C is behind it, where that is so."""
    from tipple.run.interrupt import is_interrupt

    if is_interrupt(error):
        raise KeyboardInterrupt from None


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _ignore_signals() -> None:
    """What there is to do is done: Ctrl-C has nothing to end, and Python's own end by it would lose the status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _end(status: int) -> NoReturn:
    """Ends at once. Everything has been unwound; Python would take a while to free what the system takes back anyway,
    and may end by signal, without the status, where Ctrl-C came in the middle of `eval` or `exec` of a text, though
    caught.
    """
    with suppress(StdoutFailed):
        flush()
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status)
