"""What the benchmarks have in common as programs: arguments, and how they end."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from data import CACHE
from measure import BenchmarkError
from report import write_result


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


def lineitem_on_a_server(program: str, description: str | None) -> argparse.Namespace:
    """The arguments of what loads lineitem into a PostgreSQL server of the benchmark's own."""
    parser = parser_of(program, description)
    parser.add_argument("--wal-level", default="minimal", choices=["minimal", "replica"])
    add_lineitem(parser, scale=1, rounds=3)
    return parse(parser)


def keep_result(program: str, given: argparse.Namespace, found: dict[str, Any], figures: dict[str, Any]) -> None:
    """Writes what such a program has measured, on the machine that was found, and says where."""
    content = {"command": shlex.join([f"benchmarks/{program}", *sys.argv[1:]]), "machine": found, **figures}
    name = given.name or f"{Path(program).stem}-scale-{given.scale:g}-{given.wal_level}"
    print(f"\nwritten to {write_result(name, content)}")


def end(main: Callable[[], int]) -> NoReturn:
    """Runs the program; what could not be measured is said in one line."""
    try:
        sys.exit(main())
    except BenchmarkError as error:
        sys.exit(f"benchmark failed: {error}")
