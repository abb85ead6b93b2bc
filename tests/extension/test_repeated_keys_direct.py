"""Loads by ready-made pages whose keys say, when all is stored, which records are rejects."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command import start_tipple
from extension.pages import assert_sound, connect, ready_target
from faults.oracle import LONG, moments, record_count
from faults.test_kill import kill_after
from loading import load, load_words
from servers.postgres import PostgresServer
from spoilt import SEED
from targets import PostgresTarget, write

TABLE = "CREATE TABLE t (id integer PRIMARY KEY, code text UNIQUE, day date, note text)"


def records(count: int, *, long_text: str = "") -> list[str]:
    """Some repeat a key of another record; some fit no page, some only the server can read."""
    r = random.Random(SEED * 1000 + count)
    made = []
    for number in range(count):
        twin = r.random() < 0.002
        key = r.randrange(count) if twin else number
        code = f"c{r.randrange(count)}" if r.random() < 0.002 else r.choice(["", f"c{number}"])
        day = "Feb 5 1999" if r.random() < 0.001 or (twin and r.random() < 0.2) else "2024-02-29"
        note = long_text if r.random() < 0.0005 or (twin and r.random() < 0.2) else "note"
        made.append(f"{key},{code},{day},{note}\n")
    return made


def result(target: PostgresTarget, rejects: Path) -> Any:
    return target.rows("SELECT md5(t::text) FROM t ORDER BY 1"), rejects.read_bytes()


def test_the_same_as_without_pages(target: PostgresTarget, tmp_path: Path) -> None:
    long_text = "".join(chr(97 + n % 26) + str(n) for n in range(4000))
    path = write(tmp_path / "in.csv", "".join(records(60_000, long_text=long_text)))
    rejects = tmp_path / "bad.csv"
    options: dict[str, Any] = {"header": "no", "on_error": "skip", "max_rejects": 5000, "rejects": rejects, "jobs": 2}
    results = []
    for words in ({"write_path": "text"}, {"verify": "checksum", "restart": True}):
        target.execute(TABLE)
        run = load(target, path, check=3, **options, **words)
        assert run.summary is not None
        assert run.summary["write_path"] == ("direct" if "verify" in words else "text"), run
        results.append(result(target, rejects))
        if "verify" in words:
            assert_sound(target.server, target.database, "t", mapped=False)
            with connect(target.server, target.database) as connection:
                connection.execute("REINDEX TABLE t")
        target.execute("DROP TABLE t")
        assert target.leftovers() == set()
    assert results[0] == results[1]
    assert len(results[0][1].splitlines()) > 100


def test_new_partitions_of_pages(target: PostgresTarget, tmp_path: Path) -> None:
    table = write(tmp_path / "schema.sql", TABLE.replace("code text UNIQUE", "code text") + ";")
    path = write(tmp_path / "in.csv", "".join(records(60_000)))
    rejects = tmp_path / "bad.csv"
    options: dict[str, Any] = {"header": "no", "on_error": "skip", "max_rejects": 5000, "rejects": rejects, "jobs": 4}
    options |= {"schema": table, "partition_by": "range(id, every=10000)"}
    results = []
    for words in ({"write_path": "text"}, {"verify": "checksum", "restart": True}):
        run = load(target, path, check=3, **options, **words)
        assert run.summary is not None
        assert run.summary["write_path"] == ("direct" if "verify" in words else "text"), run
        results.append(result(target, rejects))
        target.execute("DROP TABLE t")
        assert target.leftovers() == set()
    assert results[0] == results[1]


def test_foreign_keys_of_pages(target: PostgresTarget, tmp_path: Path) -> None:
    """Records that refer to what is not there leave pages too, and take no key from others."""
    r = random.Random(SEED)
    made = [f"{r.choice([n, n, n, n // 2])},c{r.randrange(1010)},2024-02-29,note {n}\n" for n in range(40_000)]
    path = write(tmp_path / "in.csv", "".join(made))
    rejects = tmp_path / "bad.csv"
    options: dict[str, Any] = {"header": "no", "on_error": "skip", "max_rejects": "90%", "rejects": rejects, "jobs": 2}
    target.execute(
        "CREATE TABLE codes (code text PRIMARY KEY); INSERT INTO codes SELECT 'c' || generate_series(0, 999)"
    )
    parts = (
        "CREATE TABLE t (id integer PRIMARY KEY, code text REFERENCES codes, day date, note text) "
        "PARTITION BY RANGE (id); CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (15000); "
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (15000) TO (MAXVALUE)"
    )
    results = []
    for words in ({"write_path": "text"}, {"verify": "checksum", "restart": True}):
        target.execute(parts)
        run = load(target, path, check=3, **options, **words)
        assert run.summary is not None
        assert run.summary["write_path"] == ("direct" if "verify" in words else "text"), run
        results.append(result(target, rejects))
        target.execute("DROP TABLE t")
    assert results[0] == results[1]
    assert len(results[0][1].splitlines()) > 1000


def test_rows_are_taken_out_where_they_were_put(target: PostgresTarget, tmp_path: Path) -> None:
    """Nobody looks through the table for them, whichever pages they are on and whatever was skipped before them."""
    r = random.Random(SEED)
    count = 200_000
    lines = [f"{n},c{n},2024-02-29,{'note' * r.randrange(9)}\n" for n in range(count)]
    for number in range(0, count, 1000):
        lines[number] = f"{(number + 50_001) % count},c{number},2024-02-29,twin\n"
        lines[number + 300] = f"{number},c{number},no day,bad\n"
        lines[number + 600] = "too,few\n"
    scans = []
    for name, content in (("twins.csv", lines), ("clean.csv", [f"{n},c{n},2024-02-29,note\n" for n in range(count)])):
        target.execute(TABLE)
        path = write(tmp_path / name, "".join(content))
        options: dict[str, Any] = {"header": "no", "on_error": "skip", "max_rejects": 5000}
        run = load(target, path, check=0 if "clean" in name else 3, rejects=tmp_path / f"{name}.bad", jobs=2, **options)
        assert run.summary is not None
        assert run.summary["write_path"] == "direct"
        assert run.summary["rejects"] == (0 if "clean" in name else 600)
        # What is left of the scans is that of the index, and that of ANALYZE.
        scans.append(target.value("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 't'"))
        target.execute("DROP TABLE t")
    assert scans[0] == scans[1]


@pytest.mark.timeout(3600)
def test_killed_with_repeated_keys(tmp_path: Path, server_of: Callable[[int], PostgresServer]) -> None:
    """Killed at any moment, and run again: the rows and rejects of an undisturbed load."""
    path = write(tmp_path / "in.csv", "".join(records(600_000)))
    rejects = tmp_path / "bad.csv"
    options: dict[str, Any] = {"header": "no", "on_error": "skip", "max_rejects": 9000, "rejects": rejects, "jobs": 2}
    rounds = 40 if LONG else 4
    seconds, killed, undisturbed = 0.0, 0, None
    for part in [2.0, *moments(41, rounds, 1.0)]:
        for target in ready_target(server_of(18)):
            target.execute(TABLE)
            words = load_words(target.url, (path,), "t", options)
            command = start_tipple(*words)
            if seconds:
                killed += kill_after(command, part * seconds)
                assert target.count("t") in (0, undisturbed and len(undisturbed[0]))
                rejects.unlink(missing_ok=True)
                command = start_tipple(*words)
            run = command.wait()
            assert run.exit_code == 3, str(run)
            seconds = seconds or run.seconds
            found = result(target, rejects)
            undisturbed = undisturbed or found
            assert found == undisturbed
            assert target.leftovers("t") == set()
    record_count(
        f"SIGKILL of a load by pages with repeated keys: {rounds} rounds, {killed} while it ran; each time the rows "
        "and rejects of an undisturbed load"
    )
