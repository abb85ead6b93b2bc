"""The server's settings that a load feels, each with the value that it wants: data, and one query that compares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import psycopg

from tipple.engines.findings import Finding, Level, graded

__all__ = ["LEAST", "RELOAD", "RESTART", "Least", "below", "setting"]

MIB = 1 << 20
GIB = 1 << 30
RELOAD = "ALTER SYSTEM SET {name} = '{value}'; SELECT pg_reload_conf();"
RESTART = "ALTER SYSTEM SET {name} = '{value}'; then restart the server"


class Least(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that should not be lower than this."""

    name: str
    least: float
    """In bytes, seconds, or as a number, by the kind of setting."""
    better: str
    """What to set it to."""
    effect: str
    how: str = RELOAD
    level: Level = "slow"

    @property
    def remedy(self) -> str:
        """The statement."""
        return self.how.format(name=self.name, value=self.better)


LEAST: Sequence[Least] = (
    Least(
        name="max_wal_size",
        least=4 * GIB,
        better="16GB",
        effect="a large load forces a checkpoint each time so much WAL is written",
    ),
    Least(
        name="checkpoint_timeout",
        least=15 * 60,
        better="30min",
        effect="checkpoints in the middle of a load write pages that soon change again",
    ),
    Least(
        name="checkpoint_completion_target",
        least=0.7,
        better="0.9",
        effect="a checkpoint writes in bursts, and streams wait for the disk meanwhile",
    ),
    Least(
        name="shared_buffers",
        least=512 * MIB,
        better="…",
        how="ALTER SYSTEM SET shared_buffers = '…'; (a quarter of the server's memory), then restart it",
        effect="indexes that do not fit are read again and again while rows go in",
    ),
    Least(
        name="maintenance_work_mem",
        least=256 * MIB,
        better="1GB",
        effect="indexes are built after the load by sorting on disk",
    ),
    Least(name="max_parallel_maintenance_workers", least=2, better="4", effect="an index is built by one process"),
    Least(
        name="max_worker_processes",
        least=4,
        better="8",
        how=RESTART,
        effect="an index is built by one process where other workers are busy",
    ),
)

# In the base unit of each: bytes, seconds, or none. pg_settings has the unit as 8kB, MB, s, min, …
_VALUES = """
SELECT name, current_setting(name),
       CASE WHEN unit IS NULL THEN setting::float8
            WHEN unit LIKE '%%B' THEN setting::float8 * pg_size_bytes(regexp_replace(unit, '^([a-zA-Z])', '1\\1'))
            ELSE setting::float8 * extract(epoch FROM ('1' || unit)::interval) END
FROM pg_settings WHERE name = ANY(%s) AND vartype IN ('integer', 'real')
"""


def below(connection: psycopg.Connection[Any], wanted: Sequence[Least] = LEAST) -> Iterator[Finding]:
    """How the settings are; those that are too low with effect and remedy."""
    rows = connection.execute(_VALUES, ([least.name for least in wanted],)).fetchall()
    found = {name: (text, value) for name, text, value in rows}
    for least in wanted:
        if least.name in found:
            text, value = found[least.name]
            yield graded(
                value >= least.least,
                least.level,
                subject=least.name,
                found=text,
                effect=least.effect,
                remedy=least.remedy,
            )


def setting(connection: psycopg.Connection[Any], *names: str) -> dict[str, str]:
    """Settings as SHOW gives them, by name; those that this server does not know are missing."""
    rows = connection.execute(
        "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)", (list(names),)
    )
    return dict(rows.fetchall())
