"""A connection that is lost, or a disk that is full, before anything is loaded: what is said is that, wherever it
happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tipple
from faults.oracle import LONG
from loading import load_here
from servers.postgres import LOADER, PostgresServer
from servers.proxy import Proxy
from targets import PostgresTarget, write

STEP_BYTES = 61 if LONG else 997
MOST_BYTES = 60_000

# Tables that are made for a moment have such names: first when the load is looked at, and then for itself.
TRIAL_FAILS = """
CREATE FUNCTION fails() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
    IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE starts_with(object_identity, 'public.stage_'))
       AND nextval('public.trials') <= 2 THEN {}; END IF;
END $$;
CREATE EVENT TRIGGER fails ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION fails();
"""
IS_FULL = "RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'"
IS_LOST = "PERFORM pg_terminate_backend(pg_backend_pid())"


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


@pytest.mark.parametrize("how", [IS_FULL, IS_LOST], ids=["full", "lost"])
@pytest.mark.parametrize("is_new", [True, False])
def test_while_keys_are_tried_out(postgres_target: PostgresTarget, tmp_path: Path, how: str, is_new: bool) -> None:
    """Neither the keys nor an option is to blame."""
    target = postgres_target
    target.execute("CREATE SEQUENCE trials" if is_new else "CREATE TABLE t (a integer); CREATE SEQUENCE trials")
    target.server.execute(TRIAL_FAILS.format(how), target.database)
    schema = write(tmp_path / "t.sql", "CREATE TABLE t (a integer PRIMARY KEY)")
    options: dict[str, object] = {"schema": schema} if is_new else {"structure": "btree", "key": "a"}
    options |= {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad", "header": "no", "commit_every": 10}
    path = write(tmp_path / "in.csv", "1\n2\n2\n")
    if how == IS_FULL:
        refused = load_here(target, path, **options, check=1)
        assert "SQLSTATE 53100" in refused.stderr
        assert "free space for the server" in refused.stderr
    run = load_here(target, path, **options, check=3)
    assert run.summary is not None
    lost = [note for note in run.summary["notes"] if "the connection to the server was lost" in note]
    assert len(lost) == (how == IS_LOST)
    assert run.summary["rejects"] == 1
    assert target.sorted_rows("t") == [(1,), (2,)]
