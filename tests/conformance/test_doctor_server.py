"""`tipple doctor` on what a server is set to and does besides, which other tests cannot have on theirs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from command import start_tipple
from conformance.test_doctor import find, findings
from faults.oracle import wait_for
from loading import load_words
from servers.postgres import LOADER, PostgresServer
from targets import PostgresTarget, write
from tipple.engines.postgresql import doctor


def test_little_wal_and_few_sessions(fresh_server: Callable[..., PostgresServer]) -> None:
    """What is as it should be is told too."""
    settings = {"wal_level": "minimal", "max_wal_senders": "0", "max_connections": "14", "timezone": "'Asia/Tokyo'"}
    with closing(PostgresTarget(fresh_server(settings=settings))) as target:
        found = findings(target)
        assert (find(found, "wal_level")["level"], find(found, "wal_level")["found"]) == ("ok", "minimal")
        assert find(found, "TimeZone")["found"].startswith("Asia/Tokyo: ")
        assert find(found, "connections")["level"] == "ok"
        with ExitStack() as open_ones:
            for _ in range(5):
                open_ones.enter_context(psycopg.connect(target.url))
            connections = find(findings(target), "connections")
            assert connections["level"] == "slow"
            assert re.fullmatch("[67] of 11 in use", connections["found"])


def test_standbys(fresh_server: Callable[..., PostgresServer]) -> None:
    """One that is connected, and one that commits wait for."""
    server = fresh_server(first_lines_of_hba="local replication postgres trust")
    with closing(PostgresTarget(server)) as target:
        wal = find(findings(target), "wal_level")
        assert (wal["level"], wal["found"]) == ("note", "replica")
        assert "wal_level = minimal" in wal["remedy"]
        assert "standby" not in str([finding["subject"] for finding in findings(target)])
        # Nothing of ours waits for it.
        server.execute("ALTER SYSTEM SET synchronous_commit = local")
        server.execute("ALTER SYSTEM SET synchronous_standby_names = 'far_away'")
        server.execute("SELECT pg_reload_conf()")
        with psycopg.connect(server.url(), replication="true", application_name="near", autocommit=True):
            found = findings(target)
            standby = find(found, "standbys")
            assert (standby["level"], standby["found"]) == ("note", "near")
            assert "synchronous_standby_names" not in [finding["subject"] for finding in found]
            # Who may not read the statistics of others' sessions sees that somebody is there.
            server.execute(f"GRANT pg_read_all_stats TO {LOADER}")
            server.execute("ALTER SYSTEM RESET synchronous_commit")
            server.execute("SELECT pg_reload_conf()")
            assert wait_for(lambda: server.rows("SHOW synchronous_commit") == [("on",)])
            waited = find(findings(target), "synchronous_standby_names")
            server.execute("ALTER SYSTEM SET synchronous_standby_names = 'ANY 2 (near, far_away)'")
            server.execute("SELECT pg_reload_conf()")
            assert wait_for(lambda: "ANY 2" in str(server.rows("SHOW synchronous_standby_names")))
            two = find(findings(target), "synchronous_standby_names")
            assert "and 0 of the 2 standbys that a COMMIT waits for are there" in two["found"]
        server.execute("ALTER SYSTEM RESET synchronous_standby_names")
        server.execute("SELECT pg_reload_conf()")
        assert waited["level"] == "broken"
        assert waited["found"] == "far_away, and 0 of the 1 standbys that a COMMIT waits for are there"


def test_a_load_waits_for_a_standby_that_is_away(fresh_server: Callable[..., PostgresServer], tmp_path: Path) -> None:
    server = fresh_server()
    with closing(PostgresTarget(server)) as target:
        target.execute("CREATE TABLE t (a integer)")
        server.execute("ALTER SYSTEM SET synchronous_standby_names = 'far_away'")
        server.execute("SELECT pg_reload_conf()")
        assert wait_for(lambda: server.rows("SHOW synchronous_standby_names") == [("far_away",)])
        waited = find(findings(target), "synchronous_standby_names")
        assert waited["level"] == "broken"
        words = load_words(target.url, (write(tmp_path / "t.csv", "1\n"),), "t", {"progress": "plain"})
        command = start_tipple(*words)
        said = "tipple: warning: waiting for a standby of synchronous_standby_names to confirm a COMMIT"
        assert wait_for(lambda: said in command.stderr_so_far(), 60), command.stderr_so_far()
        server.execute("ALTER SYSTEM RESET synchronous_standby_names")
        server.execute("SELECT pg_reload_conf()")
        run = command.wait(60)
        assert run.exit_code == 0, str(run)
        assert target.count("t") == 1


def test_another_encoding(server_of: Callable[[int], PostgresServer]) -> None:
    options = "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    with closing(PostgresTarget(server_of(18), options=options)) as target:
        encoding = find(findings(target), "server_encoding")
        assert (encoding["level"], encoding["found"]) == ("note", "LATIN1")
        assert "ENCODING 'UTF8'" in encoding["remedy"]


def test_an_old_transaction(postgres_target: PostgresTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(psycopg.connect(postgres_target.url)) as holder:
        holder.execute("SELECT")
        session = f"session {holder.info.backend_pid}"
        postgres_target.execute("BEGIN")
        subjects = [finding.subject for finding in doctor.examine(postgres_target.connection, None)]
        assert session not in subjects
        # Nobody waits ten minutes here.
        monkeypatch.setattr(doctor, "OLD_TRANSACTION_MINUTES", 0)
        (old,) = [found for found in doctor.examine(postgres_target.connection, None) if found.subject == session]
        assert (old.level, old.found) == ("slow", "loader has had a transaction open for 0 minutes")
        postgres_target.execute("ROLLBACK")
        assert postgres_target.value(old.remedy.removeprefix("end it: ")) is True


def test_transactions_that_a_role_may_not_see(fresh_server: Callable[..., PostgresServer]) -> None:
    """That it could not look is said, and the remedy lets it look; such sessions are connections as others are."""
    server = fresh_server(settings={"max_connections": "20"})
    subject = "transactions of other roles"
    with closing(PostgresTarget(server)) as target, ExitStack() as open_ones:
        assert subject not in [finding["subject"] for finding in findings(target)]
        for _ in range(10):
            open_ones.enter_context(psycopg.connect(server.url())).execute("SELECT")
        found = findings(target)
        assert find(found, "connections")["level"] == "slow"
        hidden = find(found, subject)
        assert (hidden["level"], hidden["found"]) == (
            "note",
            "the server hides from this role what 10 of its sessions do",
        )
        server.execute(hidden["remedy"].removeprefix("as a superuser: "))
        assert subject not in [finding["subject"] for finding in findings(target)]


def test_orphan_files(postgres_target: PostgresTarget) -> None:
    """Those that are an hour old, in each tablespace; only a superuser is told of them."""
    server, database = postgres_target.server, postgres_target.database
    server.create_tablespace("space_one")
    postgres_target.execute("CREATE TABLE t (a integer); CREATE TABLE u (a integer) TABLESPACE space_one")
    superuser = server.url(dbname=database)
    assert "orphan files" not in [finding["subject"] for finding in findings(superuser)]
    orphans = []
    two_hours_ago = time.time() - 2 * 3600
    for table, number in (("t", 4_000_000_001), ("u", 4_000_000_002)):
        place = Path(postgres_target.value(f"SELECT pg_relation_filepath('{table}')")).parent
        old, new = server.data / place / str(number), server.data / place / str(number + 10)
        old.write_bytes(bytes(8192))
        for file in old.parent.iterdir():
            os.utime(file, (two_hours_ago, two_hours_ago))
        new.write_bytes(bytes(8192))
        orphans.append(f"{place}/{number}")
    told = find(findings(superuser), "orphan files")
    assert told["level"] == "note"
    assert told["found"].startswith("2 files that belong to no table, 16.4 kB: ")
    assert set(told["found"].partition(": ")[2].split(", ")) == set(orphans)
    assert "only a superuser" in find(findings(postgres_target), "orphan files")["found"]
