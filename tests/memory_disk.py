"""Where tests put what they throw away: into memory, if there is plenty.

A test makes a database of its own, 300 files, and tipple flushes what it stores: on a disk that is most of the time
that the suite takes. What is to survive a power cut cannot be tested by killing processes anyway.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import psutil

__all__ = ["memory_disk"]

PLACE = Path("/dev/shm")
"""Linux has it; containers often give it 64 MB only."""
NEEDED_BYTES = 10 << 30
"""All workers together use a third of it."""


def memory_disk() -> Path | None:
    """The directory, or None: then the usual one for temporary files is used."""
    try:
        free_bytes = min(shutil.disk_usage(PLACE).free, psutil.virtual_memory().available)
    except OSError:
        return None
    return PLACE if free_bytes >= NEEDED_BYTES and os.access(PLACE, os.W_OK | os.X_OK) else None
