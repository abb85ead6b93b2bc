"""Builds the server extension tipple_direct and installs it into the copies of PostgreSQL that the tests run.

Nothing outside of the test run's own directory is touched, and no right is needed that the user has not got. A server
that runs already sees the extension: it looks for it at CREATE EXTENSION.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from servers.installations import installation_root, missing_reason
from servers.postgres import scratch

SOURCES = Path(__file__).parents[2] / "extension"


@cache
def extension_missing_reason(version: int) -> str | None:
    """Why the extension cannot be built for this version here, naming what to install; None where it can."""
    reason = missing_reason(version)
    if reason is not None:
        return reason
    for program, package in (("cc", "gcc"), ("gcc", "gcc"), ("make", "make")):
        if shutil.which(program) is None:
            return f"no {program} to build the extension with: apt-get install {package}"
    root = installation_root(version)
    assert root is not None
    headers = _pg_config(root / "bin", "--includedir-server")
    if not (Path(headers) / "postgres.h").is_file():
        return f"no headers of PostgreSQL {version}: apt-get install postgresql-server-dev-{version}"
    return None


@cache
def install_extension(version: int) -> Path:
    """Build and install it, once per test run; returns the directory of what was built.

    Raises:
        RuntimeError: the compiler refused it, or warned.
    """
    program = scratch().bin(version) / "pg_config"
    build = scratch().path / f"extension-{version}"
    done = subprocess.run(
        ["make", "-C", SOURCES, f"PG_CONFIG={program}", f"BUILD={build}", "COPT=-Werror", "-s", "install"],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the extension could not be built for PostgreSQL {version}:\n{done.stdout}{done.stderr}")
    subprocess.run(["chmod", "-R", "a+rX", build, scratch().bin(version).parent], check=True)
    return build


def _pg_config(directory: Path, option: str) -> str:
    done = subprocess.run([directory / "pg_config", option], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def build_driver(version: int, place: Path, *, sanitize: bool, flags: Sequence[str] = ()) -> Path | str:
    """Build the driver that runs the page check without a server; returns it, or why it cannot be built here."""
    driver = place / "page_check_driver"
    chosen = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"] if sanitize else ["-O3"]
    checks = ("page_check.c", "page_rows_wide.c", "regular_page.c", "column_checks.c", "utf8_wide.c")
    files = ("test/page_check_driver.c", *checks)
    sources = [SOURCES / name for name in files]
    includes = [f"-I{SOURCES}", f"-I{_pg_config(scratch().bin(version), '--includedir-server')}"]
    language = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-sign-compare", "-Werror", "-fno-strict-aliasing"]
    done = subprocess.run(
        ["gcc", *chosen, *flags, *language, "-fwrapv", *includes, *sources, "-o", driver],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        if sanitize and "cannot find -lasan" in done.stderr:
            return "no AddressSanitizer: apt-get install libgcc-12-dev"
        raise RuntimeError(done.stderr)
    return driver
