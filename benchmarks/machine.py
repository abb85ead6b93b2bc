"""What a result was measured on: processor, memory, kernel, file system and versions. Names no host."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
from measure import cores

MEMORY_FILE_SYSTEMS = {"tmpfs", "ramfs"}


def machine(data: Path) -> dict[str, Any]:
    """The machine, and the file system that `data` lies on."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": cores(),
        "memory_bytes": int((_field("/proc/meminfo", "MemTotal") or "0").split()[0]) * 1024,
        "kernel": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "file_system": file_system(data),
        "load_average_before": round(os.getloadavg()[0], 2),
        "versions": {
            "tipple": version("tipple"),
            "commit": _commit(),
            "duckdb": duckdb.__version__,
            "python": platform.python_version(),
        },
    }


def headline(found: dict[str, Any]) -> str:
    """The machine in one line, with a warning where it promises nothing good."""
    memory = found["memory_bytes"] / 2**30
    text = f"{found['processor']}, {found['cores']} cores, {memory:.0f} GiB, {found['kernel']}, "
    text += f"{found['file_system']}, load average before: {found['load_average_before']}"
    if found["file_system"] in MEMORY_FILE_SYSTEMS:
        text += "\nWARNING: the databases would lie in memory; choose a disk by --data DIR"
    return text


def file_system(path: Path) -> str:
    """The type of the file system that a path is on."""
    best, kind = "", "unknown"
    resolved = str(path.resolve())
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, type_name = line.split()[:3]
        inside = point == "/" or resolved == point or resolved.startswith(point + "/")
        if inside and len(point) >= len(best):
            best, kind = point, type_name
    return kind


def _field(file: str, name: str) -> str | None:
    for line in Path(file).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"
