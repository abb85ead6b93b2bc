"""What the benchmarks have in common as programs: arguments, and how they end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from data import CACHE
from measure import BenchmarkError


def parser_of(program: str, description: str | None) -> argparse.ArgumentParser:
    """A parser that shows the program's docstring as it stands."""
    return argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prog=f"benchmarks/{program}",
    )


def add_lineitem(parser: argparse.ArgumentParser, *, scale: float, rounds: int) -> None:
    """How much is measured how often."""
    parser.add_argument("--scale", type=float, default=scale, help=f"of lineitem: 1 is 760 MB of text [{scale:g}]")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"how often each one runs [{rounds}]")


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments, with the directory of data, which is made."""
    parser.add_argument("--data", type=Path, default=CACHE, help="directory of files and databases [.cache/bench]")
    parser.add_argument("--name", help="of the file in benchmarks/results; default: by the options")
    given = parser.parse_args()
    given.data.mkdir(parents=True, exist_ok=True)
    given.data = given.data.resolve()
    return given


def end(main: Callable[[], int]) -> NoReturn:
    """Runs the program; what could not be measured is said in one line."""
    try:
        sys.exit(main())
    except BenchmarkError as error:
        sys.exit(f"benchmark failed: {error}")
