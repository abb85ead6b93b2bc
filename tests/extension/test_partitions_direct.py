"""Partitioned loading by pages: what holds for COPY into partitions holds here, and rows find the same places."""

from __future__ import annotations

import csv
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from big import COLUMNS, BigFile
from conformance import test_partitions
from conftest import version_parameter
from extension.pages import assert_sound, ready_target
from extension.test_write_path import path_of
from faults.oracle import Disturbed, frozen, moments, wait_for
from faults.test_kill import kill_after
from loading import load_text
from servers.installations import VERSIONS
from servers.postgres import LOADER, PostgresServer
from targets import PostgresTarget


@pytest.fixture(params=[version_parameter(max(VERSIONS))])
def postgres_target(
    request: pytest.FixtureRequest, server_of: Callable[[int], PostgresServer]
) -> Iterator[PostgresTarget]:
    """A fresh database with the extension: so the tests of partitions go by pages wherever that is possible."""
    yield from ready_target(server_of(request.param))


for _name, _test in vars(test_partitions).items():
    if _name.startswith("test_"):
        globals()[_name] = _test

TREE = """
CREATE TABLE {0} (a integer, b numeric(8,2), c text, d date) PARTITION BY RANGE (d);
CREATE TABLE {0}_1 PARTITION OF {0} FOR VALUES FROM (MINVALUE) TO ('2023-07-01');
CREATE TABLE {0}_2 PARTITION OF {0} FOR VALUES FROM ('2023-07-01') TO ('2024-01-01');
CREATE TABLE {0}_3 PARTITION OF {0} FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
"""


SEVERAL = 4
"""Streams that have two sessions."""
LONG_ENOUGH = (300_000, 1, "x" * 100)
"""Records for a slice for each of them."""


def records(count: int, seed: int = 1, more: str = "") -> list[str]:
    """Records whose third field ends with `more`."""
    r = random.Random(seed)
    return [
        f"{n},{r.randrange(10**6) / 100:.2f},text {r.randrange(1000)}{more},"
        f"202{r.randrange(2, 4)}-{r.randrange(1, 13):02}-11"
        for n in range(count)
    ]


def contents(target: PostgresTarget, table: str) -> list[tuple[object, ...]]:
    return target.rows(f"SELECT replace(tableoid::regclass::text, '{table}', ''), * FROM {table} ORDER BY 1, 2, 4")


@pytest.mark.parametrize("sessions", [1, 2])
def test_the_same_as_by_copy(target: PostgresTarget, tmp_path: Path, sessions: int) -> None:
    """Rows, places, rejects and their reasons, with records that fit no page and values that only the server reads."""
    lines = records(30_000) if sessions == 1 else records(*LONG_ENOUGH)
    for place, line in {
        7: "7,1.5,before the tree,BC",
        11: "11,12345678,too wide a number,2023-01-01",
        300: f"300,1,{'long and varied '.join(map(str, range(2000)))},2023-08-01",
        4000: "4000,1,only the server,11 January 2024",
        4001: "4001,1,no partition,2024-02-01",
        4002: "4002,1,no partition for NULL,",
        4003: "4003,x,two faults,2024-02-01",
        20_000: "20000,1,too few",
    }.items():
        lines[place] = line
    text = "\n".join(lines) + "\n"
    results = []
    for table, write_path in (("one", "direct"), ("two", "binary")):
        target.execute(TREE.format(table))
        rejects = tmp_path / f"{table}.bad"
        run = load_text(
            target,
            tmp_path / f"{table}.csv",
            text,
            table=table,
            write_path=write_path,
            on_error="skip",
            max_rejects=10,
            rejects=rejects,
            verify="checksum",
            jobs=2 * sessions,
            check=3,
        )
        assert path_of(run)[0] == write_path, run
        assert run.summary is not None
        assert run.summary["slices"] >= 2 * sessions or sessions == 1
        # What was refused and where; the server, which reads more by COPY, words it in its own way.
        with (tmp_path / f"{table}.bad.reasons.csv").open(newline="") as reasons:
            assert "stage_" not in reasons.read()
            reasons.seek(0)
            told = [(row["record_number"], row["byte_offset"], row["sqlstate"]) for row in csv.DictReader(reasons)]
        results.append((contents(target, table), rejects.read_text(), told))
    assert results[0] == results[1]
    assert results[0][1].count("\n") == 6
    for number in (1, 2):
        assert_sound(target.server, target.database, f"one_{number}", mapped=number == 1)


@pytest.mark.parametrize("divided", [True, False])
def test_fields_that_no_column_takes(target: PostgresTarget, tmp_path: Path, divided: bool) -> None:
    """They are on no page, and the partition's key is no longer the field of the same number."""
    target.execute(TREE.format("t") if divided else "CREATE TABLE t (a integer, b numeric(8,2), c text, d date)")
    rows = [record.rstrip("\n") for record in records(3000)]
    data = "".join(f'"junk,\n{n % 7}",{row},{"x" * (n % 90)}\n' for n, row in enumerate(rows))
    options = {"columns": "-,a,b,c,d,-", "verify": "checksum"}
    run = load_text(target, tmp_path / "in.csv", data, write_path="direct", **options)
    assert run.summary["write_path"] == "direct"
    target.execute("CREATE TABLE expected (LIKE t)")
    load_text(target, tmp_path / "whole.csv", "\n".join(rows) + "\n", table="expected", write_path="binary")
    assert target.rows("SELECT * FROM t EXCEPT ALL SELECT * FROM expected") == []
    assert target.count("t") == target.count("expected") == 3000


def test_a_check_constraint_names_the_record(target: PostgresTarget, tmp_path: Path) -> None:
    """The server judges rows on pages; which record it was is what COPY then says."""
    target.execute(TREE.format("t") + "ALTER TABLE t ADD CONSTRAINT few CHECK (a <> 17000)")
    text = "\n".join(records(20_000))
    failed = load_text(target, tmp_path / "a.csv", text, check=1)
    assert "17,001, which begins at byte" in failed.stderr, failed
    assert 'new row for relation "t" violates check constraint "few"' in failed.stderr
    assert target.count("t") == 0
    run = load_text(target, tmp_path / "b.csv", text.replace("17000,", "17,"))
    assert path_of(run)[0] == "direct", run
    assert target.count("t") == 20_000


def test_a_check_that_fails_names_the_record(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute(TREE.format("t") + "ALTER TABLE t ADD CHECK (100 / (a - 17000) < 200)")
    failed = load_text(target, tmp_path / "a.csv", "\n".join(records(20_000)), check=1)
    assert "division by zero" in failed.stderr
    assert "17,001, which begins at byte" in failed.stderr, failed
    assert target.count("t") == 0


def test_growing_partitions(target: PostgresTarget, tmp_path: Path) -> None:
    """What samples show is there before; a key that they have not shown begins the load anew, by COPY."""
    target.execute("CREATE TABLE t (a integer NOT NULL, b text) PARTITION BY RANGE (a)")
    lines = [f"{n},x" for n in range(60_000)]
    run = load_text(target, tmp_path / "a.csv", "\n".join(lines), partition_by="range(a, every=20000)")
    assert path_of(run)[0] == "direct", run
    lines[30_000] = "1000000,y"
    run = load_text(target, tmp_path / "b.csv", "\n".join(lines), partition_by="range(a, every=20000)", mode="replace")
    assert run.summary is not None
    assert run.summary["rows"] == 60_000
    assert target.rows("SELECT count(*), max(a) FROM t") == [(60_000, 1_000_000)]


def test_what_stands_against_pages_is_said(target: PostgresTarget, tmp_path: Path) -> None:
    target.execute(
        "CREATE TABLE t (a integer, b text) PARTITION BY LIST ((a % 2)); CREATE TABLE t_0 PARTITION OF t DEFAULT"
    )
    run = load_text(target, tmp_path / "a.csv", "1,x\n2,y\n")
    assert path_of(run)[0] == "binary"
    assert "not direct: the server has to find the partition of each record" in path_of(run)[1]
    target.execute(
        "CREATE TABLE u (a integer, b text CHECK (length(b) < random() + 9)) PARTITION BY LIST (a);"
        "CREATE TABLE u_0 PARTITION OF u DEFAULT"
    )
    run = load_text(target, tmp_path / "a.csv", "1,x\n2,y\n", table="u")
    assert path_of(run)[0] == "binary"
    assert "calls a function that is not immutable" in path_of(run)[1]


HALVES = """
CREATE TABLE {0} (a integer, b text) PARTITION BY RANGE (a);
CREATE TABLE {0}_1 PARTITION OF {0} FOR VALUES FROM (0) TO (2000) WITH ({1});
CREATE TABLE {0}_2 PARTITION OF {0} FOR VALUES FROM (2000) TO (4000) WITH ({2});
"""


def test_pages_are_as_full_as_those_of_the_partitions(target: PostgresTarget, tmp_path: Path) -> None:
    """Partitions have a fillfactor, not their table; what TOAST makes of a long text is a partition's affair too."""
    text = "".join(f"{n},{'short' if n % 100 else str(n) * 600}\n" for n in range(4000))
    options = "fillfactor = 20, toast_tuple_target = 128"
    found = []
    for path in ("binary", "direct"):
        table = f"by_{path}"
        target.execute(HALVES.format(table, options, options) + f"ALTER TABLE {table} ALTER b SET STORAGE EXTERNAL")
        run = load_text(target, tmp_path / f"{path}.csv", text, table=table, write_path=path, jobs=1)
        assert path_of(run)[0] == path, run
        found += target.rows(
            f"SELECT (SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = '{table}_1'::regclass), "
            f"max(rows) FROM (SELECT count(*) AS rows FROM {table} GROUP BY tableoid, split_part(ctid::text, ',', 1))"
            " AS page"
        )
    by_copy, by_pages = found
    assert by_pages == by_copy
    assert by_copy[0] > 0
    assert by_copy[1] < 60


def test_partitions_of_different_fillfactors(target: PostgresTarget, tmp_path: Path) -> None:
    """All pages of a load are built alike: what COPY does for each partition, pages cannot."""
    target.execute(HALVES.format("t", "fillfactor = 20", "fillfactor = 90"))
    text = "".join(f"{n},short\n" for n in range(4000))
    why = "its partitions have different fillfactors: 20, 90"
    failed = load_text(target, tmp_path / "in.csv", text, write_path="direct", check=2)
    assert f"--write-path direct is not possible: {why}\n  hint: leave it out" in failed.stderr
    run = load_text(target, tmp_path / "in.csv", text)
    assert path_of(run)[0] == "binary"
    assert path_of(run)[1].endswith(f"not direct: {why}")
    first, second = (target.value(f"SELECT pg_relation_size('t_{n}')") for n in (1, 2))
    assert first > 3 * second


def test_new_partitions_beside_those_of_another_fillfactor(target: PostgresTarget, tmp_path: Path) -> None:
    """Those that --partition-by makes are as full as they can be, be they made at first or when a key is met."""
    text = "".join(f"{n},short\n" for n in range(4000))
    for name, options, found in (("same", "fillfactor = 100", "direct"), ("other", "fillfactor = 30", "binary")):
        target.execute(HALVES.format(name, options, options))
        for dry_run in (True, False):
            run = load_text(
                target,
                tmp_path / f"{name}.csv",
                text,
                table=name,
                partition_by="range(a, every=2000)",
                dry_run=dry_run,
            )
            assert path_of(run)[0] == found, run
        assert target.count(name) == 4000
    assert "with those that --partition-by makes, have different fillfactors: 30, 100" in path_of(run)[1]


@pytest.mark.timeout(600)
def test_client_killed(target: PostgresTarget, big_file: BigFile) -> None:
    """Nothing is seen of a load that was killed, and the next run ends it."""
    killed = 0
    undisturbed = Disturbed(target, big_file, table="u", old_rows=0, write_path="direct")
    seconds = undisturbed.run().seconds
    undisturbed.drop()
    for number, moment in enumerate(moments(31, 3, seconds)):
        job = Disturbed(target, big_file, table=f"t{number}", old_rows=0, write_path="direct")
        job.drop()
        target.execute(
            f"CREATE TABLE t{number} ({COLUMNS}) PARTITION BY RANGE (id);"
            f"CREATE TABLE t{number}_a PARTITION OF t{number} FOR VALUES FROM (MINVALUE) TO (20000);"
            f"CREATE TABLE t{number}_b PARTITION OF t{number} FOR VALUES FROM (20000) TO (MAXVALUE)"
        )
        killed += kill_after(job.start(), moment)
        job.visible()
        run = job.run()
        assert run.exit_code == 0, run
        job.check_rows()
        assert_sound(target.server, target.database, f"t{number}_a")
        assert target.leftovers(job.table, f"{job.table}_a", f"{job.table}_b") == set()
        job.drop()
    assert killed > 0


# ---- several sessions ----------------------------------------------------------------------------------


def make_three(target: PostgresTarget, table: str) -> None:
    target.execute(
        f"CREATE TABLE {table} ({COLUMNS}) PARTITION BY RANGE (id);"
        f"CREATE TABLE {table}_a PARTITION OF {table} FOR VALUES FROM (MINVALUE) TO (20000);"
        f"CREATE TABLE {table}_b PARTITION OF {table} FOR VALUES FROM (20000) TO (100000);"
        f"CREATE TABLE {table}_c PARTITION OF {table} FOR VALUES FROM (100000) TO (MAXVALUE)"
    )


def three_of(big: BigFile, target: PostgresTarget, table: str) -> Disturbed:
    """A load into three partitions by two sessions."""
    job = Disturbed(target, big, table=table, old_rows=0, jobs=SEVERAL)
    job.drop()
    make_three(target, table)
    return job


def check_three(job: Disturbed, target: PostgresTarget) -> None:
    job.check_rows()
    for part in "abc":
        assert_sound(target.server, target.database, f"{job.table}_{part}", mapped=False)
    assert target.leftovers(job.table, *(f"{job.table}_{part}" for part in "abc")) == set()


@pytest.mark.parametrize("options", [{}, {"write_path": "binary"}, {"commit_every": 5000}], ids=lambda o: "".join(o))
def test_killed_between_two_commits(
    target: PostgresTarget, big_file: BigFile, tmp_path: Path, options: dict[str, object]
) -> None:
    """The other sessions have committed their partitions, and the one with the ledger has not: nothing of it counts."""
    make_three(target, "before")
    load_text(target, tmp_path / "before.csv", "1,1,2020-01-01,x\n", table="before")
    target.execute("DROP TABLE before")
    # The first session's last statement but the COMMIT waits for this one.
    target.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';"
        "CREATE TRIGGER wait AFTER UPDATE ON tipple.slice FOR EACH STATEMENT EXECUTE FUNCTION wait()"
    )
    job = three_of(big_file, target, "t")
    with psycopg.connect(target.server.url(LOADER, target.database)) as other:
        other.execute("SELECT pg_advisory_xact_lock(1)")
        command = job.start()
        assert wait_for(lambda: target.rows("SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory'") != [])
        command.signal(signal.SIGKILL)
        command.wait()
    (staging,) = target.rows("SELECT staging FROM tipple.job WHERE state = 'loading'")[0]
    wait_for(lambda: target.rows("SELECT FROM pg_stat_activity WHERE application_name LIKE 'tipple%'") == [])
    held = [target.value(f"SELECT count(*) FROM {staging.removesuffix(chr(34))}_{n}{chr(34)}") for n in range(3)]
    assert [count > 0 for count in held] == [False, True, True], held
    run = job.run(**options)
    assert run.exit_code == 0, run
    assert path_of(run)[0] == ("binary" if options else "direct"), run
    check_three(job, target)


@pytest.mark.timeout(600)
def test_a_frozen_run_of_several_sessions_wakes_up(target: PostgresTarget, big_file: BigFile) -> None:
    """Partitions that another run has filled are not emptied by one that had begun before it."""
    seconds = three_of(big_file, target, "u").run().seconds
    target.execute("DROP TABLE u")
    for number, moment in enumerate(moments(41, 6, seconds)):
        job = three_of(big_file, target, f"t{number}")
        command = job.start()
        with frozen(command, moment):
            other = job.start()
            # Who is frozen while it publishes holds locks, and is waited for as any other session would be.
            assert wait_for(lambda other=other: not other.running or waits_for_a_lock(target), 100), other
        first, second = command.wait(), other.wait()
        assert 0 in (first.exit_code, second.exit_code), (first, second)
        check_three(job, target)
        job.drop()


def waits_for_a_lock(target: PostgresTarget) -> bool:
    """Whether a session has waited for another one's lock for longer than any that runs would let it."""
    return (
        target.rows(
            "SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)"
            f" WHERE datname = '{target.database}' AND waitstart < clock_timestamp() - interval '5 s'"
        )
        != []
    )


@pytest.mark.parametrize("many", [False, True])
def test_only_the_server_knows_where(target: PostgresTarget, tmp_path: Path, many: bool) -> None:
    """A record whose partition another session has goes there when that one has ended. So many that they cannot be kept
    until then are no reason to wait for each other, or to blame one of them: all goes by COPY.
    """
    target.execute(TREE.format("t"))
    lines = records(*LONG_ENOUGH)
    count, text = (4_000, "only the server " * 100) if many else (1, "only the server")
    # From the beginning of one stream's slices on, among others.
    for number in range(count):
        lines[1000 + 12 * number] = f"{-1 - number},1,{text},11 August 2023"
    run = load_text(target, tmp_path / "a.csv", "\n".join(lines), jobs=SEVERAL)
    assert run.summary is not None
    assert run.summary["slices"] >= SEVERAL
    assert path_of(run)[0] == ("binary" if many else "direct"), run
    assert ("only the server can find the partition" in str(run.summary)) == many
    assert target.count("t") == len(lines)
    assert target.rows("SELECT tableoid::regclass::text, count(*) FROM t WHERE a < 0 GROUP BY 1") == [("t_2", count)]
