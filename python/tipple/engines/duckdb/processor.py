"""Whether the processor can run the DuckDB library."""

from __future__ import annotations

import signal
import subprocess
import sys

from tipple import _core
from tipple.errors import TippleError

__all__ = ["require_processor"]


def require_processor() -> None:
    """Refuses a processor that the library is not compiled for: its import would end the process without a word.

    Raises:
        TippleError: it is one.
    """
    if _core.has_avx2() or "duckdb" in sys.modules or not sys.executable:
        return
    # Nobody can ask a library what it is compiled for, and some are for any processor.
    import_it = [sys.executable, "-P", "-c", "import duckdb"]
    nowhere = subprocess.DEVNULL
    tried = subprocess.run(import_it, stdin=nowhere, stdout=nowhere, stderr=nowhere, check=False)
    if tried.returncode == -signal.SIGILL:
        raise TippleError(
            "the DuckDB library that is installed cannot run on this processor, which has no AVX2",
            hint="give a virtual machine a processor that has it (type host, or x86-64-v3), or install a DuckDB that "
            "is built for this one",
        )
