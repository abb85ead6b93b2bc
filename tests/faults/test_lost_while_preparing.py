"""A connection that is lost before anything is loaded: what is said is that it was lost, wherever that happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tipple
from faults.oracle import LONG
from servers.postgres import LOADER, PostgresServer
from servers.proxy import Proxy
from targets import PostgresTarget, write

STEP_BYTES = 61 if LONG else 997
MOST_BYTES = 60_000


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("how", ["create", "append"])
def test_lost_after_so_many_bytes(
    server_of: Callable[[int], PostgresServer], proxy_to: Callable[[PostgresServer], Proxy], tmp_path: Path, how: str
) -> None:
    """A schema file, an option or a record is never blamed for it; and the same command goes on."""
    target = PostgresTarget(server_of(18))
    proxy = proxy_to(target.server)
    url = target.server.url(LOADER, target.database, "127.0.0.1", port=proxy.port)
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (id integer PRIMARY KEY, v text CHECK (v <> ''))")
    source = write(tmp_path / "in.csv", "1,a\n2,b\n")
    if how == "append":
        target.execute(schema.read_text())
    options = {"schema": str(schema)} if how == "create" else {}
    failed: dict[int, tipple.TippleError] = {}
    for cut_after in range(0, MOST_BYTES, STEP_BYTES):
        proxy.cut_after(cut_after)
        broken = proxy.broken
        try:
            tipple.load(source, into=url, table="t", format="csv", header="no", retry_for=0, **options)
        except tipple.TippleError as error:
            failed[cut_after] = error
        finally:
            proxy.cut_after(None)
        if proxy.broken == broken:
            break
    else:
        pytest.fail(f"a load sends more than {MOST_BYTES} bytes")
    assert len({str(error) for error in failed.values()}) > 1
    for cut_after, error in failed.items():
        of_connection = isinstance(error, tipple.ConnectionFailed) or not isinstance(error, tipple.UsageError)
        assert of_connection, f"after {cut_after} bytes: {error}"
        assert "connect" in str(error), f"after {cut_after} bytes: {error}"
    report = tipple.load(source, into=url, table="t", format="csv", header="no", **options)
    assert report.status in ("loaded", "already loaded")
    assert target.sorted_rows("t") == [(1, "a"), (2, "b")]
    target.close()
