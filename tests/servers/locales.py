"""Locales that most machines lack, made for a server of a test's own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def missing_reason() -> str | None:
    """Why none can be made; None if they can."""
    if shutil.which("localedef") is None or not Path("/usr/share/i18n/locales").exists():
        return "no locales: apt-get install locales"
    return None


def make_locales(place: Path, names: Sequence[str]) -> dict[str, str]:
    """Makes `NAME.UTF-8` of each below `place`; what a server needs in its environment to find them."""
    for name in names:
        subprocess.run(["localedef", "-i", name, "-f", "UTF-8", place / f"{name}.UTF-8"], check=True)
    # The server runs as another user where the tests are root's.
    for path in (place, *place.parents):
        with suppress(PermissionError):
            path.chmod(path.stat().st_mode | 0o011)
    return {"LOCPATH": str(place)}
