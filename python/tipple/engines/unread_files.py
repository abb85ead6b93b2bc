"""Columnar files that are sound, though the core cannot read them: what they are, which it takes for damage."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tipple.plan.columnar import PARQUET_MAGIC
from tipple.plan.parquet_footer import TAIL_BYTES, footer_bytes, has_encrypted_columns

_DAMAGED = "the file is damaged"
"""What the core advises where it does not know better."""
_OTHER_VERSION = "metadata versions mismatch"


def named(facts: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is to be said of a file about which the core complains, and what to do; None where the core says it all.

    Args:
        facts: the core's error of the kind `file`.
    """
    path, said = facts["file"], facts["message"]
    if _DAMAGED not in facts["remedy"]:
        return None
    if _OTHER_VERSION in said:
        return (
            f"{path} was written by Arrow before 1.0, or for it (metadata version 4), which is not read",
            "write it anew with pyarrow: pyarrow.feather.write_feather(pyarrow.ipc.open_file(OLD).read_all(), NEW)",
        )
    if _is_encrypted(path):
        return (
            f"{path} has encrypted columns, which are not read",
            "write it without encryption, or name the other columns by --columns",
        )
    return None


def _is_encrypted(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            end = file.seek(-TAIL_BYTES, os.SEEK_END)
            tail = file.read(TAIL_BYTES)
            length = footer_bytes(tail)
            if not tail.endswith(PARQUET_MAGIC) or length > end:
                return False
            file.seek(end - length)
            return has_encrypted_columns(file.read(length))
    except OSError:
        # The core's own complaint stands.
        return False
