"""Who holds what a load waits for, in a sentence for the user while it waits.

A load that waits for a lock looks like one that hangs. The server knows for whom it waits, and only a person knows
whether that session may be ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from tipple.plan.size import format_duration

PASSING_SECONDS = 2
"""A transaction that is younger is not what a load waits for."""

# Number, role, application, state, and seconds since its transaction began. 0 stands for a prepared transaction, as in
# pg_blocking_pids.
_FACTS = "h.pid, a.usename, a.application_name, a.state, extract(epoch FROM clock_timestamp() - a.xact_start)::float8"
OF_SESSIONS = f"""
SELECT asked.pid, pg_postmaster_start_time()::text, w.pid IS NULL, w.state,
       extract(epoch FROM clock_timestamp() - w.state_change)::float8, w.wait_event, {_FACTS}
FROM unnest(ARRAY[%s]) AS asked (pid)
LEFT JOIN pg_stat_activity w ON w.pid = asked.pid
LEFT JOIN LATERAL (SELECT DISTINCT pid FROM unnest(pg_blocking_pids(w.pid)) AS pid) h ON true
LEFT JOIN pg_stat_activity a ON a.pid = h.pid
ORDER BY asked.pid, h.pid
"""
"""Sessions by number: when their server was started, whether it lacks them, their state, for how many seconds, what
they wait for, and those that hold it."""
_OF_STANDBYS = "SyncRep"
"""What a session waits for whose COMMIT a standby has to confirm (src/backend/utils/activity/wait_event_names.txt)."""
_OF_TABLE = f"""
SELECT {_FACTS}
FROM (SELECT DISTINCT coalesce(pid, 0) AS pid FROM pg_locks
    WHERE locktype = 'relation' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (relation = to_regclass(%(table)s)
          OR relation IN (SELECT relid FROM pg_partition_tree(to_regclass(%(table)s))))) h
LEFT JOIN pg_stat_activity a ON a.pid = h.pid
-- Who has come since was not in the way: he waited behind the load, or comes and goes.
WHERE a.xact_start IS NULL OR a.xact_start < clock_timestamp() - make_interval(secs => %(seconds)s)
ORDER BY h.pid
"""


class Blockers:
    """Says of each session once that it is waited for."""

    def __init__(self, warn: Callable[[str], None] = lambda text: None) -> None:
        """`warn` says something to the user at once."""
        self.warn = warn
        self._said: set[int] = set()
        self._has_said_standbys = False

    def say(self, found: Sequence[Sequence[Any]]) -> None:
        """Takes rows of `_FACTS`."""
        for pid, role, application, state, seconds in found:
            if pid is None or pid in self._said:
                continue
            self._said.add(pid)
            if pid == 0:
                self.warn("waiting for a lock of a prepared transaction: see pg_prepared_xacts")
                continue
            facts = [role or "a process of the server", application, state]
            since = f", in a transaction for {format_duration(seconds)}" if seconds else ""
            remedy = f"; SELECT pg_terminate_backend({pid}) would end it" if role else ""
            shown = ", ".join(fact for fact in facts if fact)
            self.warn(f"waiting for a lock that session {pid} holds ({shown}{since}){remedy}")

    def say_of_event(self, event: str | None) -> None:
        """Takes what a session waits for: a standby that is away is waited for without end."""
        if event != _OF_STANDBYS or self._has_said_standbys:
            return
        self._has_said_standbys = True
        self.warn(
            "waiting for a standby of synchronous_standby_names to confirm a COMMIT: without end, unless one is "
            "connected (pg_stat_replication); ALTER SYSTEM SET synchronous_standby_names = '' and SELECT "
            "pg_reload_conf() would end it"
        )

    def say_of_table(self, connection: psycopg.Connection[Any], table: str, waited_seconds: float) -> None:
        """Says who has locks on a table or its partitions, and had them before the load waited.

        Args:
            connection: to ask by.
            table: its name, quoted.
            waited_seconds: for so long the load has waited for a lock just now, in vain.
        """
        seconds = max(waited_seconds, PASSING_SECONDS)
        self.say(connection.execute(_OF_TABLE, {"table": table, "seconds": seconds}).fetchall())
