"""Raw records that a load keeps until they are in the reject file: nothing stays of them, also after SIGKILL."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from command import start_tipple
from loading import load, load_words
from servers.postgres import PostgresServer
from targets import PostgresTarget, write
from tipple import _core
from tipple.engines import spool
from tipple.engines.duckdb import ledger
from tipple.errors import UsageError


def test_the_next_load_removes_what_a_killed_one_left(
    tmp_path: Path, server_of: Callable[[int], PostgresServer]
) -> None:
    target = PostgresTarget(server_of(18))
    try:
        temporary = tmp_path / "tmp"
        temporary.mkdir()
        target.execute("CREATE TABLE t (a integer)")
        target.execute("CREATE TABLE u (a integer)")
        path = write(tmp_path / "in.csv", "1\nsecret\n2\n")
        options = {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad.csv", "header": "no"}
        # Whoever reads the table keeps it from being published, when all is staged.
        target.execute("BEGIN; LOCK TABLE t IN ACCESS SHARE MODE")
        command = start_tipple(*load_words(target.url, (path,), "t", options), env={"TMPDIR": str(temporary)})
        until = time.monotonic() + 60
        while not any(b"secret" in file.read_bytes() for file in temporary.glob("tipple-*/*.rows")):
            assert command.running, command.wait()
            assert time.monotonic() < until
            time.sleep(0.05)
        in_use = set(temporary.glob("tipple-*"))
        other = {**options, "rejects": tmp_path / "other.csv"}
        run = load(target, path, table="u", env={"TMPDIR": str(temporary)}, check=3, **other)
        assert run.exit_code == 3
        assert set(temporary.glob("tipple-*")) == in_use
        command.signal(signal.SIGKILL)
        command.wait()
        assert set(temporary.glob("tipple-*")) == in_use
        target.execute("ROLLBACK")
        load(target, path, env={"TMPDIR": str(temporary)}, check=3, **options)
        assert set(temporary.glob("tipple-*")) == set()
        assert (tmp_path / "bad.csv").read_bytes() == b"secret\n"
    finally:
        target.close()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process makes its temporary files."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


def test_only_what_is_abandoned_is_removed(temporary: Path, tmp_path: Path) -> None:
    """Nothing that is in use, that a link leads to, or that another user owns."""
    outside = write(tmp_path / "outside" / "stream-0.rows", "x").parent
    (temporary / f"{spool.PREFIX}link").symlink_to(outside)
    write(temporary / f"{spool.PREFIX}file", "x")
    write(temporary / "other-directory" / "stream-0.rows", "x")
    of_links = temporary / f"{spool.PREFIX}links"
    of_links.mkdir()
    (of_links / "stream-0.rows").symlink_to(outside / "stream-0.rows")
    write(temporary / f"{spool.PREFIX}dead" / "stream-0.rows", "x")
    kept = {"link", "file"}
    if os.geteuid() == 0:
        foreign = write(temporary / f"{spool.PREFIX}foreign" / "stream-0.rows", "x").parent
        os.chown(foreign, 65534, 65534)
        kept.add("foreign")
    first = spool.Directory()
    second = spool.Directory()
    used = {Path(first.name).name, Path(second.name).name}
    expected = {f"{spool.PREFIX}{name}" for name in kept} | {"other-directory"}
    assert set(os.listdir(temporary)) == expected | used
    assert (outside / "stream-0.rows").read_text() == "x"
    first.close()
    second.close()
    assert set(os.listdir(temporary)) == expected


@pytest.mark.parametrize("is_known", [True, False])
def test_no_place_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_known: bool) -> None:
    """None of the directories for temporary files takes any, or the one that did is gone."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone") if is_known else None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: [str(tmp_path / "none")])
    with pytest.raises(UsageError, match="rejects need a directory for temporary files") as refused:
        spool.Directory()
    assert refused.value.hint == "set TMPDIR to a directory where files can be written, or free space there"


def test_made_and_removed_by_many_at_once(temporary: Path) -> None:
    """Each has its own until it is done with it, whoever looks for abandoned ones meanwhile."""
    lost: list[str] = []

    def work() -> None:
        for _ in range(100):
            place = spool.Directory()
            write(Path(place.name) / "stream-0.rows", "x")
            spool.remove_abandoned(str(temporary))
            if not (Path(place.name) / "stream-0.rows").exists():
                lost.append(place.name)
            place.close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == []
    assert os.listdir(temporary) == []


def test_what_duckdb_cannot_read_of_a_spool_is_what_it_says(tmp_path: Path) -> None:
    """The transaction has failed then, and whatever is tried in it fails for another reason."""
    job = "00000000-0000-0000-0000-000000000001"
    path = tmp_path / "stream-0.rows"
    _core.spool_rejects(str(path), job, [(1, 0, 5, 2, None, "why", "22P02", b"x\n")])
    with duckdb.connect() as connection:
        ledger.ensure(connection)
        connection.begin()
        ledger.add_rejects(connection, job, _core.SpooledRejects([str(path)]))
        connection.commit()
        rows = connection.execute("SELECT n, byte_offset, column_name, record FROM tipple.reject").fetchall()
        assert rows == [(1, 5, None, b"x\n")]
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        with pytest.raises(OSError, match="damaged"):
            list(_core.SpooledRejects([str(path)]))
        connection.begin()
        with pytest.raises(duckdb.Error, match="a file of rejects is damaged"):
            ledger.add_rejects(connection, job, _core.SpooledRejects([str(path)]))
        connection.rollback()
        path.write_bytes(whole)
        connection.begin()
        ledger.add_rejects(connection, job, _core.SpooledRejects([str(path)]))
        connection.commit()
