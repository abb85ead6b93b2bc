"""`--commit-every` when the server goes away: what a slice has left over is looked up like the slice itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from big import BigFile
from faults.oracle import Disturbed, moments
from servers.postgres import LOADER, PostgresServer
from servers.proxy import Proxy
from targets import PostgresTarget

EVERY = 20_000


@pytest.mark.timeout(600)
def test_commit_reply_lost(
    server_of: Callable[[int], PostgresServer], big_file: BigFile, proxy_to: Callable[[PostgresServer], Proxy]
) -> None:
    """Of a transaction with a lost reply the ledger says how far it came, and the stream goes on behind it."""
    target = PostgresTarget(server_of(18))
    proxy = proxy_to(target.server)
    url = target.server.url(LOADER, target.database, "127.0.0.1", port=proxy.port)
    try:
        for ordinal in (8,):
            job = Disturbed(target, big_file, table=f"t{ordinal}", url=url, old_rows=0, commit_every=EVERY)
            broken = proxy.broken
            proxy.drop_commit_reply(ordinal)
            run = job.start().wait()
            proxy.drop_commit_reply()
            assert proxy.broken > broken
            assert run.exit_code in (0, 1), str(run)
            job.finish()
            largest = target.value(f"SELECT max(n) FROM (SELECT count(*) AS n FROM t{ordinal} GROUP BY xmin) x")
            assert largest <= EVERY
            job.drop()
    finally:
        target.close()


@pytest.mark.timeout(600)
def test_server_crashes(
    fresh_server: Callable[..., PostgresServer], big_file: BigFile, postgres_seconds: float
) -> None:
    """A crash takes transactions that were not flushed, those too that made slices of the rest of others."""
    server = fresh_server(18, {"fsync": "on", "wal_writer_delay": "10s"})
    target = PostgresTarget(server)
    for number, moment in enumerate(moments(5, 1, postgres_seconds)):
        job = Disturbed(target, big_file, table=f"t{number}", old_rows=0, commit_every=2_000)
        command = job.start()
        time.sleep(moment + 0.5)
        server.crash()
        server.start()
        run = command.wait()
        # Where the load is slower than the crash, it has not begun.
        assert run.exit_code in (0, 1) or "cannot connect" in run.stderr, str(run)
        assert "taken this job over" not in run.stderr
        job.finish()
        job.drop()
    target.close()
