"""A table with an identity column is loaded as fast as others: another table takes its place, and numbers go on."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest

from conformance.test_nothing_lost import during, load
from faults.oracle import wait_for
from targets import PostgresTarget, write
from tipple.errors import Interrupted, TippleError

ROWS = 2000
SEQUENCE = (
    "SELECT attidentity::text, pg_get_serial_sequence('t', 'n'), seqstart, seqincrement, seqmin, seqmax, seqcache, "
    "seqcycle, relacl::text, obj_description(s.oid, 'pg_class') FROM pg_sequence "
    "JOIN pg_class s ON s.oid = seqrelid JOIN pg_attribute a ON a.attrelid = 't'::regclass AND attname = 'n' "
    "WHERE s.oid = pg_get_serial_sequence('t', 'n')::regclass"
)


def many(tmp_path: Path) -> str:
    """A file without the numbered column."""
    return str(write(tmp_path / "many.csv", "".join(f"row {number}\n" for number in range(ROWS))))


def wide(tmp_path: Path) -> str:
    """As many records in several slices."""
    return str(write(tmp_path / "wide.csv", "".join(f"{number:09000}\n" for number in range(ROWS))))


def is_swapped(report: object) -> bool:
    return getattr(report, "strategy", "") == "swap" and "copied, not" not in " ".join(getattr(report, "notes", []))


@pytest.mark.parametrize("kind", ["ALWAYS", "BY DEFAULT"])
@pytest.mark.parametrize("mode", ["append", "replace"])
def test_numbers_go_on(postgres_target: PostgresTarget, tmp_path: Path, kind: str, mode: str) -> None:
    """Those of the rows, of rows that come later, and of what the sequence is told."""
    postgres_target.execute(f"CREATE TABLE t (n bigint GENERATED {kind} AS IDENTITY PRIMARY KEY, v text)")
    postgres_target.execute("INSERT INTO t (v) SELECT 'old' FROM generate_series(1, 10)")
    if mode == "append":
        postgres_target.execute("DELETE FROM t")
    before = postgres_target.rows(SEQUENCE)
    report = load(postgres_target, wide(tmp_path), mode=mode, columns=["v"], jobs=2)
    assert is_swapped(report), report
    assert report.slices > 1
    assert postgres_target.rows("SELECT min(n), max(n), count(DISTINCT n), count(*) FROM t") == [
        (11, 10 + ROWS, ROWS, ROWS)
    ]
    assert postgres_target.rows(SEQUENCE) == before
    assert postgres_target.value("INSERT INTO t (v) VALUES ('new') RETURNING n") == 11 + ROWS
    with pytest.raises(psycopg.errors.UniqueViolation):
        postgres_target.execute("INSERT INTO t (n, v) OVERRIDING SYSTEM VALUE VALUES (11, 'twice')")
    assert postgres_target.leftovers("t") == set()


@pytest.mark.parametrize("kind", ["ALWAYS", "BY DEFAULT"])
def test_numbers_of_the_file(postgres_target: PostgresTarget, tmp_path: Path, kind: str) -> None:
    """They are stored, and the sequence does not know of them, as with COPY."""
    postgres_target.execute(f"CREATE TABLE t (n bigint GENERATED {kind} AS IDENTITY (START 7), v text)")
    source = str(write(tmp_path / "in.csv", "500,a\n501,b\n"))
    for mode in ("append", "replace"):
        assert is_swapped(load(postgres_target, source, mode=mode, restart=True))
        assert postgres_target.sorted_rows("t") == [(500, "a"), (501, "b")]
    assert postgres_target.value("INSERT INTO t (v) VALUES ('new') RETURNING n") == 7


def test_rows_that_move_keep_their_numbers(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (n integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)")
    postgres_target.execute("INSERT INTO t (v) VALUES ('one'), ('two'); DELETE FROM t WHERE v = 'one'")
    report = load(postgres_target, many(tmp_path), mode="append", columns=["v"], indexes="rebuild", jobs=2)
    assert "were copied to the new ones, which took its place" in " ".join(report.notes)
    assert postgres_target.rows("SELECT n FROM t WHERE v = 'two'") == [(2,)]
    assert postgres_target.rows("SELECT count(DISTINCT n), max(n) FROM t") == [(ROWS + 1, ROWS + 2)]
    assert postgres_target.value("INSERT INTO t (v) VALUES ('new') RETURNING n") == ROWS + 3


def test_a_table_that_is_set_aside(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """One that refers to others is dropped later: its sequence's name is free before."""
    postgres_target.execute(
        "CREATE TABLE r (id integer PRIMARY KEY); INSERT INTO r VALUES (1);"
        "CREATE TABLE t (n integer GENERATED ALWAYS AS IDENTITY, id integer REFERENCES r)"
    )
    source = str(write(tmp_path / "in.csv", "1\n1\n"))
    for first in (1, 3):
        assert is_swapped(load(postgres_target, source, mode="replace", columns=["id"], restart=True))
        assert postgres_target.sorted_rows("t") == [(first, 1), (first + 1, 1)]
        assert postgres_target.value("SELECT pg_get_serial_sequence('t', 'n')") == "public.t_n_seq"
    assert postgres_target.leftovers("t", "r") == set()


CHANGES = {
    "numbers that are drawn": ("SELECT nextval('t_n_seq') FROM generate_series(1, 100)", True),
    "a number that is set": ("SELECT setval('t_n_seq', 5000)", True),
    "another kind": ("ALTER TABLE t ALTER n SET GENERATED BY DEFAULT", False),
    "another step": ("ALTER TABLE t ALTER n SET INCREMENT BY 10", False),
    "a restart": ("TRUNCATE t RESTART IDENTITY", False),
    "another restart": ("ALTER TABLE t ALTER n RESTART", False),
    "a use of it": ("CREATE TABLE u (n bigint DEFAULT nextval('t_n_seq'))", False),
    "a trigger": (
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
        "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        False,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_in_mid_load(postgres_target: PostgresTarget, tmp_path: Path, change: str) -> None:
    """Nothing of it is undone; where another table would, rows are copied."""
    statement, swaps = CHANGES[change]
    postgres_target.execute("CREATE TABLE t (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)")
    report = load(
        postgres_target,
        many(tmp_path),
        mode="replace",
        columns=["v"],
        progress=during("verify", lambda: postgres_target.execute(statement)),
    )
    assert is_swapped(report) == swaps, report
    assert postgres_target.rows("SELECT count(DISTINCT n), count(*) FROM t") == [(ROWS, ROWS)]
    last, step = postgres_target.rows("SELECT last_value, seqincrement FROM t_n_seq, pg_sequence "
                                      "WHERE seqrelid = 't_n_seq'::regclass")[0]  # fmt: skip
    assert last >= {"numbers that are drawn": ROWS + 100, "a number that is set": 5000}.get(change, ROWS)
    assert postgres_target.value("INSERT INTO t (v) VALUES ('new') RETURNING n") == last + step


def test_numbers_of_the_file_that_are_copied(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Values for a column that always makes its own are the file's, whichever way they come."""
    postgres_target.execute("CREATE TABLE t (n bigint GENERATED ALWAYS AS IDENTITY, v text)")
    source = str(write(tmp_path / "in.csv", "500,a\n501,b\n"))
    statement = CHANGES["a trigger"][0]
    report = load(postgres_target, source, progress=during("verify", lambda: postgres_target.execute(statement)))
    assert "copied, not swapped in" in " ".join(report.notes)
    assert postgres_target.sorted_rows("t") == [(500, "a"), (501, "b")]


DEPENDING = {
    "a default": "CREATE TABLE u (n bigint DEFAULT nextval('t_n_seq'))",
    "a view": "CREATE VIEW u AS SELECT last_value FROM t_n_seq",
}


@pytest.mark.parametrize("what", DEPENDING)
def test_a_sequence_that_others_depend_on(postgres_target: PostgresTarget, tmp_path: Path, what: str) -> None:
    postgres_target.execute(
        f"CREATE TABLE t (n bigint GENERATED ALWAYS AS IDENTITY, v text); {DEPENDING[what]};"
        "INSERT INTO t (v) VALUES ('old')"
    )
    report = load(postgres_target, many(tmp_path), mode="replace", columns=["v"])
    assert report.strategy == "single"
    assert "other objects depend on the sequence of its column n" in report.strategy_reason
    assert postgres_target.rows("SELECT min(n), count(*) FROM t") == [(2, ROWS)]


def test_what_another_load_has_left(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Its staging table draws numbers too, and might go on."""
    postgres_target.execute(
        "CREATE TABLE t (n bigint GENERATED ALWAYS AS IDENTITY, v text);"
        f"CREATE TABLE stage_{'0' * 32} (n bigint DEFAULT nextval('t_n_seq'))"
    )
    report = load(postgres_target, many(tmp_path), mode="replace", columns=["v"])
    assert "another load draws numbers for its column n" in " ".join(report.notes)
    assert postgres_target.rows("SELECT count(DISTINCT n), count(*) FROM t") == [(ROWS, ROWS)]


NOT_OURS = {
    "rights": ("REVOKE ALL ON SEQUENCE t_n_seq FROM CURRENT_USER", "may not use the sequence of its column n"),
    "another type": ("ALTER SEQUENCE t_n_seq AS bigint", "the sequence of its column n has another type"),
}


@pytest.mark.parametrize("what", NOT_OURS)
def test_a_sequence_that_cannot_be_lent(postgres_target: PostgresTarget, tmp_path: Path, what: str) -> None:
    """An identity column asks for no right to it."""
    statement, reason = NOT_OURS[what]
    postgres_target.execute(f"CREATE TABLE t (n integer GENERATED ALWAYS AS IDENTITY, v text); {statement}")
    report = load(postgres_target, many(tmp_path), columns=["v"])
    assert report.strategy == "single"
    assert reason in report.strategy_reason
    assert postgres_target.rows("SELECT count(DISTINCT n), max(n) FROM t") == [(ROWS, ROWS)]


BETWEEN = {
    "TRUNCATE t RESTART IDENTITY": 1,
    "DROP TABLE t CASCADE": 1,
    "SELECT setval('t_n_seq', 1, false)": 1,
    f"SELECT setval('t_n_seq', {ROWS - 1})": ROWS,
    f"SELECT setval('t_n_seq', {ROWS}, false)": ROWS,
    f"SELECT setval('t_n_seq', {ROWS})": None,
    "SELECT nextval('t_n_seq')": None,
}
"""What happens to a sequence between two runs, and the first number of rows that are numbered anew then."""


@pytest.mark.parametrize("kind", ["serial", "integer GENERATED ALWAYS AS IDENTITY"])
@pytest.mark.parametrize("change", BETWEEN)
@pytest.mark.parametrize("is_divided", [False, True])
def test_a_load_that_goes_on_after_a_restart(
    postgres_target: PostgresTarget, tmp_path: Path, kind: str, change: str, is_divided: bool
) -> None:
    """What was staged has numbers that would come again, or draws them from what is gone."""
    table = f"CREATE TABLE t (n {kind}, v text)"
    if is_divided:
        table += " PARTITION BY LIST (v); CREATE TABLE t_all PARTITION OF t DEFAULT"
    postgres_target.execute(table)
    source = many(tmp_path)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        load(postgres_target, source, columns=["v"], progress=during("verify", interrupt))
    postgres_target.execute(change)
    if change.startswith("DROP"):
        postgres_target.execute(table)
    report = load(postgres_target, source, columns=["v"])
    first = BETWEEN[change]
    said = "what numbers the rows of public.t was restarted or changed since job"
    assert (said in " ".join(report.notes)) == (first is not None)
    assert is_swapped(report) != is_divided
    first = first or 1
    assert postgres_target.rows("SELECT count(DISTINCT n), min(n), max(n) FROM t") == [(ROWS, first, first + ROWS - 1)]
    assert postgres_target.value("INSERT INTO t (v) VALUES ('new') RETURNING n") >= first + ROWS
    assert postgres_target.leftovers("t", "t_all") == set()


LATE = {
    "options": ("ALTER SEQUENCE t_n_seq INCREMENT BY 10 CACHE 7", ROWS + 10),
    "name": ("ALTER SEQUENCE t_n_seq RENAME TO s", ROWS + 1),
    "comment": ("COMMENT ON SEQUENCE t_n_seq IS 'late'", ROWS + 1),
}


@pytest.mark.parametrize("what", LATE)
def test_what_is_changed_while_the_sequence_is_waited_for(
    postgres_target: PostgresTarget, tmp_path: Path, what: str
) -> None:
    statement, least = LATE[what]
    postgres_target.execute("CREATE TABLE t (n integer GENERATED ALWAYS AS IDENTITY, v text)")
    waiting = "SELECT FROM pg_locks WHERE NOT granted AND mode = 'ShareRowExclusiveLock'"
    seen: list[bool] = []
    with psycopg.connect(postgres_target.url) as other:

        def commit() -> None:
            seen.append(wait_for(lambda: postgres_target.rows(waiting)))
            other.commit()

        def change() -> None:
            other.execute(statement.encode())
            committing.start()

        committing = threading.Thread(target=commit)
        load(postgres_target, many(tmp_path), columns=["v"], progress=during("verify", change))
        committing.join()
    assert seen == [True]
    query = (
        "SELECT pg_get_serial_sequence('t', 'n'), seqincrement, seqcache, obj_description(seqrelid, 'pg_class') FROM "
    )
    found = postgres_target.rows(f"{query} pg_sequence WHERE seqrelid = pg_get_serial_sequence('t', 'n')::regclass")
    name, late = "public.s" if what == "name" else "public.t_n_seq", what == "options"
    assert found == [(name, 10 if late else 1, 7 if late else 1, "late" if what == "comment" else None)]
    assert postgres_target.value("INSERT INTO t (v) VALUES ('new') RETURNING n") >= least
    assert postgres_target.rows("SELECT count(DISTINCT n), count(*) FROM t") == [(ROWS + 1, ROWS + 1)]


@pytest.mark.parametrize("skips", [False, True])
def test_a_sequence_that_runs_out(postgres_target: PostgresTarget, tmp_path: Path, skips: bool) -> None:
    """No record is a reject for that, however many may be."""
    postgres_target.execute("CREATE TABLE t (n integer GENERATED ALWAYS AS IDENTITY (MAXVALUE 1500), v text)")
    options = {"on_error": "skip", "max_rejects": 10**6, "rejects": str(tmp_path / "rejects")} if skips else {}
    with pytest.raises(TippleError, match="reached maximum value of sequence") as failed:
        load(postgres_target, many(tmp_path), columns=["v"], **options)
    said = "the record is not to blame: the sequence that numbers the rows has no more numbers"
    assert said in (failed.value.hint or "")
    assert postgres_target.count("t") == 0


# ---- partitions ------------------------------------------------------------------------------------------------

DIVIDED = (
    "CREATE TABLE t (n bigint GENERATED {} AS IDENTITY (START 11), k integer, v text) PARTITION BY RANGE (k);"
    "CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (0) TO (1000);"
    "CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (1000) TO (4000) PARTITION BY LIST (v);"
    "CREATE TABLE t_high_x PARTITION OF t_high FOR VALUES IN ('x');"
    "CREATE TABLE t_high_y PARTITION OF t_high DEFAULT;"
)
FACTS = (
    "SELECT attnotnull, attidentity::text, atthasdef FROM pg_attribute "
    "WHERE attname = 'n' AND attrelid = '{}'::regclass"
)


def divided(tmp_path: Path) -> str:
    """Records for all partitions, without numbers."""
    return str(write(tmp_path / "divided.csv", "".join(f"{key},{'xyz'[key % 3]}\n" for key in range(ROWS))))


def is_by_partitions(report: object) -> bool:
    return getattr(report, "strategy", "") == "partition"


@pytest.mark.parametrize("kind", ["ALWAYS", "BY DEFAULT"])
@pytest.mark.parametrize("mode", ["append", "replace"])
def test_partitions_number_their_rows(postgres_target: PostgresTarget, tmp_path: Path, kind: str, mode: str) -> None:
    """As their table does, whose sequence it stays, whichever way rows come into them."""
    postgres_target.execute(DIVIDED.format(kind) + "INSERT INTO t (k, v) VALUES (1, 'old'), (1001, 'x'), (1001, 'old')")
    leaves = ("t_low", "t_high_x", "t_high_y")
    before = postgres_target.rows(SEQUENCE), [postgres_target.rows(FACTS.format(leaf)) for leaf in leaves]
    report = load(postgres_target, divided(tmp_path), mode=mode, columns=["k", "v"], jobs=2)
    assert is_by_partitions(report), report
    after = postgres_target.rows(SEQUENCE), [postgres_target.rows(FACTS.format(leaf)) for leaf in leaves]
    assert after == before
    kept = 3 if mode == "append" else 0
    assert postgres_target.rows("SELECT count(DISTINCT n), count(*), max(n) FROM t") == [
        (ROWS + kept, ROWS + kept, ROWS + 13)
    ]
    assert postgres_target.value("INSERT INTO t (k, v) VALUES (1, 'new') RETURNING n") == ROWS + 14
    assert postgres_target.leftovers("t", "t_high", *leaves) == set()


def test_new_partitions_number_their_rows(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Those that keys ask for, be they seen beforehand or not."""
    postgres_target.execute(
        "CREATE TABLE t (n bigint GENERATED ALWAYS AS IDENTITY, k integer, v text) PARTITION BY RANGE (k)"
    )
    load(postgres_target, divided(tmp_path), columns=["k", "v"], partition_by="range(k, every=1000)")
    assert postgres_target.rows("SELECT tableoid::regclass::text, count(DISTINCT n) FROM t GROUP BY 1 ORDER BY 1") == [
        ("t_0", 1000), ("t_1000", 1000),
    ]  # fmt: skip
    assert postgres_target.value("INSERT INTO t (k, v) VALUES (1, 'new') RETURNING n") > ROWS
    assert postgres_target.leftovers("t", "t_0", "t_1000") == set()


@pytest.mark.parametrize("kind", ["ALWAYS", "BY DEFAULT"])
def test_numbers_of_the_file_in_partitions(postgres_target: PostgresTarget, tmp_path: Path, kind: str) -> None:
    """They are stored where partitions change places, take the old ones' rows, and where rows are inserted."""
    postgres_target.execute(
        DIVIDED.format(kind) + "INSERT INTO t (k, v) SELECT 1, 'old' FROM generate_series(1, 20000);"
        "INSERT INTO t (k, v) VALUES (1001, 'x')"
    )
    lines = [f"{-1 - key},{key},{'xyz'[key % 3]}\n" for key in range(ROWS)]
    report = load(postgres_target, str(write(tmp_path / "in.csv", "".join(lines))))
    assert is_by_partitions(report)
    told = " ".join(report.notes)
    assert "swapped in with the rows that were there" in told
    assert "filled by INSERT" in told
    assert postgres_target.rows("SELECT count(*), sum(n) FROM t WHERE n < 0") == [(ROWS, -ROWS * (ROWS + 1) // 2)]
    assert postgres_target.rows("SELECT count(DISTINCT n), max(n) FROM t WHERE n > 0") == [(20_001, 20_011)]


@pytest.mark.parametrize("kind", ["serial", "integer GENERATED ALWAYS AS IDENTITY"])
def test_partitions_that_are_numbered_anew(postgres_target: PostgresTarget, tmp_path: Path, kind: str) -> None:
    """What was staged has numbers that would come again: nothing of it is published."""
    postgres_target.execute(
        f"CREATE TABLE t (n {kind}, k integer, v text) PARTITION BY RANGE (k);"
        "CREATE TABLE t_all PARTITION OF t FOR VALUES FROM (MINVALUE) TO (MAXVALUE)"
    )
    restart = during("verify", lambda: postgres_target.execute("TRUNCATE t RESTART IDENTITY"))
    with pytest.raises(TippleError, match=r"what numbers the rows of public\.t was restarted") as failed:
        load(postgres_target, divided(tmp_path), columns=["k", "v"], progress=restart)
    assert "run the command again: it begins anew" in (failed.value.hint or "")
    assert postgres_target.count("t") == 0
    load(postgres_target, divided(tmp_path), columns=["k", "v"])
    assert postgres_target.rows("SELECT count(DISTINCT n), max(n) FROM t") == [(ROWS, ROWS)]
    lines = [f"{-1 - key},{key},x\n" for key in range(ROWS)]
    source = str(write(tmp_path / "in.csv", "".join(lines)))
    # Numbers of the file are its own affair.
    restart = during("verify", lambda: postgres_target.execute("TRUNCATE t RESTART IDENTITY"))
    assert is_by_partitions(load(postgres_target, source, progress=restart))
    assert postgres_target.count("t") == ROWS


def test_a_sequence_that_partitions_may_not_use(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(DIVIDED.format("ALWAYS") + "REVOKE ALL ON SEQUENCE t_n_seq FROM CURRENT_USER")
    report = load(postgres_target, divided(tmp_path), columns=["k", "v"])
    assert report.strategy == "single"
    assert "this role may not use the sequence of its column n" in report.strategy_reason
    assert postgres_target.rows("SELECT count(DISTINCT n), count(*) FROM t") == [(ROWS, ROWS)]


def test_a_partition_with_numbers_of_its_own(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Before 17 a partition may have an identity column for those rows that come past its table."""
    if postgres_target.server.version >= 17:
        with pytest.raises(psycopg.errors.Error, match="identity"):
            postgres_target.execute(DIVIDED.format("ALWAYS") + "ALTER TABLE t_low ALTER n DROP IDENTITY")
        return
    postgres_target.execute(
        DIVIDED.format("ALWAYS") + "ALTER TABLE t_low ALTER n ADD GENERATED ALWAYS AS IDENTITY (START 500000)"
    )
    report = load(postgres_target, divided(tmp_path), mode="replace", columns=["k", "v"])
    assert is_by_partitions(report)
    assert "its column n is an identity column" in " ".join(report.notes)
    assert postgres_target.rows("SELECT count(DISTINCT n), max(n) FROM t") == [(ROWS, ROWS + 10)]
    assert postgres_target.value("INSERT INTO t_low (k, v) VALUES (1, 'new') RETURNING n") == 500_000
