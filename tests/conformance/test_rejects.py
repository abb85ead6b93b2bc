"""Records that cannot be stored are kept apart: the raw records in one file, their reasons in another, no row lost."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from command import environment
from loading import load, load_here, load_stdin, load_text, load_words
from spoilt import TABLE, Spoilt, spoil, told
from targets import DuckdbTarget, PostgresTarget, Target, write
from tipple.engines.duckdb.pull import duckdb_error

SEED = int(os.environ.get("TIPPLE_SEED", "0"))


def check(target: Target, made: Spoilt, rejects: Path, run: Any) -> None:
    """Every record is a row or a reject, and each reject is told of where it stands."""
    assert run.exit_code == (3 if made.bad else 0), str(run)
    assert run.summary["rejects"] == len(made.bad)
    assert run.summary["rows"] == len(made.good) == target.count("t")
    assert sorted(target.rows("SELECT a, d FROM t")) == sorted(made.good)
    if made.bad:
        assert told(rejects) == made.bad
        assert rejects.read_bytes() == made.raw
        assert run.summary["rejects_file"] == str(rejects)
    assert target.leftovers("t") == set()


def test_rejects_of_an_earlier_load(engine_target: Target, tmp_path: Path) -> None:
    """They stay, as somebody may be mending them, and are not taken for those of a load that has none."""
    engine_target.execute("CREATE TABLE t (a integer)")
    options: dict[str, Any] = {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad"}
    load(engine_target, write(tmp_path / "1.csv", "1\nx\n"), check=3, **options)
    path = write(tmp_path / "2.csv", "2\n")
    for content in (b"x\n", b"mended\n", b""):
        (tmp_path / "bad").write_bytes(content)
        run = load(engine_target, path, **options)
        assert run.summary is not None
        assert run.summary["rejects"] == 0
        assert any("is of an earlier load" in note for note in run.summary["notes"]) == bool(content)
        assert (tmp_path / "bad").read_bytes() == content


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("share", [0.001, 0.2, 1.0])
def test_bad_records_are_kept_apart(engine_target: Target, tmp_path: Path, share: float, jobs: int) -> None:
    engine_target.execute(TABLE)
    made = spoil(20_000 if share < 1 else 3_000, share, seed=jobs)
    rejects = tmp_path / "bad.csv"
    path = write(tmp_path / "in.csv", made.data)
    run = load(engine_target, path, on_error="skip", max_rejects="100%", rejects=rejects, jobs=jobs, check=False)
    check(engine_target, made, rejects, run)
    again = load(engine_target, path, on_error="skip", max_rejects="100%", rejects=rejects, jobs=jobs, check=False)
    assert again.summary is not None
    assert again.summary["status"] == "already loaded"
    check(engine_target, made, rejects, again)


def test_several_slices_and_a_header(engine_target: Target, tmp_path: Path) -> None:
    """Record numbers count on through the slices of a file, and files are told apart."""
    engine_target.execute(TABLE)
    large = spoil(420_000, 0.0005, seed=7, header=b"a,b,c,d\n")
    small = spoil(50, 0.2, seed=8, header=b"a,b,c,d\n")
    paths = [write(tmp_path / "large.csv", large.data), write(tmp_path / "small.csv", small.data)]
    rejects = tmp_path / "bad.csv"
    run = load(
        engine_target, *paths, header="match", on_error="skip", max_rejects=2000, rejects=rejects, jobs=2, check=3
    )
    assert run.summary is not None
    assert run.summary["slices"] > 1
    assert told(rejects) == large.bad + small.bad
    assert rejects.read_bytes() == large.raw + small.raw
    assert engine_target.count("t") == len(large.good) + len(small.good)


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_other_record_ends(engine_target: Target, tmp_path: Path, end: bytes) -> None:
    engine_target.execute(TABLE)
    made = spoil(2_000, 0.1, seed=3, end=end)
    rejects = tmp_path / "bad.csv"
    path = write(tmp_path / "in.csv", made.data)
    check(
        engine_target,
        made,
        rejects,
        load(engine_target, path, on_error="skip", max_rejects="50%", rejects=rejects, check=False),
    )


@pytest.mark.parametrize("kind", ["plain", "gz", "stdin", "beyond the limit"])
def test_an_unclosed_quote_takes_its_line(engine_target: Target, tmp_path: Path, kind: str) -> None:
    """Where the lines behind it are records, only its own is rejected, however much of the file is left."""
    engine_target.execute(TABLE)
    count = 250_000 if kind == "beyond the limit" else 1_000
    lines = [f'{n},,,"a text, {n}"\n' for n in range(count)]
    lines[300] = '300,,,"open\n'
    data = "".join(lines).encode()
    rejects = tmp_path / "bad.csv"
    options: dict[str, Any] = {"header": "no", "on_error": "skip", "max_rejects": 1, "rejects": rejects, "jobs": 2}
    if kind == "stdin":
        assert load_stdin(engine_target, data, **options).returncode == 3
    else:
        if kind == "beyond the limit":
            options["max_record_size"] = "1MB"
        path = tmp_path / ("in.csv.gz" if kind == "gz" else "in.csv")
        load(engine_target, write(path, gzip.compress(data) if kind == "gz" else data), **options, check=3)
    assert engine_target.count("t") == count - 1
    assert rejects.read_text() == lines[300]
    assert [(number, code) for number, _, _, code in told(rejects)] == [(301, "22P04")]


def test_an_unclosed_text_takes_the_rest(engine_target: Target, tmp_path: Path) -> None:
    """Where the lines behind it are none, they belong to it."""
    engine_target.execute(TABLE)
    text = '2,,,"open\nand on and on,\nand on\n'
    path = write(tmp_path / "in.csv", "1,,,x\n" + text)
    rejects = tmp_path / "bad.csv"
    load(engine_target, path, header="no", on_error="skip", max_rejects=1, rejects=rejects, check=3)
    assert engine_target.rows("SELECT a FROM t") == [(1,)]
    assert rejects.read_text() == text
    assert told(rejects) == [(2, 6, "", "22P04")]


def test_stray_quotes_take_their_lines(engine_target: Target, tmp_path: Path) -> None:
    """Two of them, which would be a pair, and texts of several lines, in which slices behind them begin."""
    engine_target.execute(TABLE)
    lines = [f'{n},,,"""{n}"",\nand"\n' for n in range(800_000)]
    strays = [1_000, 1_100, 550_000]
    for n in strays:
        lines[n] = f'{n},,,5" pipe {n}\n'
    path = write(tmp_path / "in.csv", "".join(lines))
    rejects = tmp_path / "bad.csv"
    run = load(engine_target, path, header="no", on_error="skip", max_rejects=60, rejects=rejects, jobs=2, check=3)
    assert run.summary is not None
    assert run.summary["slices"] > 1
    # Where a slice begins inside of a text, its record is in two pieces.
    found = {a for (a,) in engine_target.rows("SELECT a FROM t")}
    lost = set(range(len(lines))) - found
    assert set(strays) <= lost
    assert len(lost) <= len(strays) + run.summary["slices"]
    raw = rejects.read_text()
    assert all(lines[n] in raw for n in lost)


@pytest.mark.parametrize("seed", range(SEED, SEED + 15))
def test_with_any_stray_quotes_nothing_is_lost(engine_target: Target, tmp_path: Path, seed: int) -> None:
    """Every record is stored as it was meant, or stands among the rejects, or in a value that a stray quote made."""
    r = random.Random(seed)
    engine_target.execute("CREATE TABLE t (a integer, b varchar, c varchar)")
    texts = {'"quoted, ""text"""': 'quoted, "text"', '"of two\nlines"': "of two\nlines", "plain": "plain", "": None}
    meant = [(n, r.choice([*texts]), r.choice([*texts])) for n in range(1000, 1000 + r.randrange(1, 60))]
    lines = [f"{n},{b},{c}\n" for n, b, c in meant]
    strays = r.sample(range(len(lines)), min(len(lines), r.randrange(5)))
    for n in strays:
        place = r.randrange(5, len(lines[n]))
        lines[n] = lines[n][:place] + '"' + lines[n][place:]
    path, rejects = write(tmp_path / "in.csv", "".join(lines)), tmp_path / "bad.csv"
    options: dict[str, Any] = {"format": "csv", "header": "no", "on_error": "skip", "max_rejects": "100%"}
    load_here(engine_target, path, **options, rejects=rejects, check=False)
    raw = rejects.read_text() if rejects.exists() else ""
    stored = {row[0]: row for row in engine_target.rows("SELECT a, b, c FROM t")}
    # Two of them may make a value of several lines, and a record that is one.
    made = {n: row for n, row in stored.items() if any(meant[number][0] == n for number in strays)}
    for n, b, c in meant:
        if n not in stored:
            assert str(n) in raw or any(str(n) in str(row) for row in made.values())
        elif n not in made:
            assert stored[n] == (n, texts[b], texts[c])
    assert set(stored) <= {n for n, _, _ in meant}


def test_a_newline_in_a_bad_record_ends_no_line_of_a_file_with_others(engine_target: Target, tmp_path: Path) -> None:
    """Where records end with CRLF: what follows may look like records, read with quotes inverted."""
    engine_target.execute("CREATE TABLE t (a text, b text, c text)")
    bad = b'"a\n",p,q,r\r\n'
    path = write(tmp_path / "in.csv", bad + b'"\\"k",2,3\r\n' + b"a,b,c\r\n" * 3)
    rejects = tmp_path / "bad.csv"
    options: dict[str, Any] = {"header": "no", "format": "csv", "escape": "\\", "on_error": "skip", "max_rejects": 1}
    load(engine_target, path, **options, rejects=rejects, check=3)
    assert rejects.read_bytes() == bad
    assert sorted(engine_target.rows("SELECT a, b, c FROM t")) == [('"k', "2", "3"), *[("a", "b", "c")] * 3]


def test_a_long_reject_is_told(engine_target: Target, tmp_path: Path) -> None:
    """Nobody is left to think that it was one line."""
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", '1,,,x\n2,,,"open\n' + "and on\n" * 60)
    options: dict[str, Any] = {"header": "no", "on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad.csv"}
    run = load(engine_target, path, **options, check=3)
    assert run.summary is not None
    (note,) = [note for note in run.summary["notes"] if "is one reject of" in note]
    assert "record 2 is one reject of 61 lines" in note


def test_the_limit(engine_target: Target, tmp_path: Path) -> None:
    """As many as allowed is well, one more publishes nothing; 0 is the default."""
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\nbad,,,\n2,,,y\nworse,,,\n")
    rejects = tmp_path / "bad.csv"
    for limit in (1, 0, "49%", None):
        run = load(engine_target, path, on_error="skip", max_rejects=limit, rejects=rejects, check=1)
        assert "cannot be stored" in run.stderr
        assert engine_target.count("t") == 0
        assert engine_target.leftovers("t") == set()
    load(engine_target, path, on_error="skip", max_rejects="50%", rejects=rejects, check=3)
    assert engine_target.count("t") == 2
    load(engine_target, path, on_error="skip", max_rejects=2, rejects=rejects, restart=True, check=3)
    assert engine_target.count("t") == 4


@pytest.mark.parametrize(("share", "bad", "records"), [("0.57%", 57, 10_000), ("2.3%", 161, 7_000)])
def test_a_share_that_is_just_the_limit(
    engine_target: Target, tmp_path: Path, share: str, bad: int, records: int
) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    for more in (0, 1):
        path = write(tmp_path / f"in{more}.csv", "x\n" * (bad + more) + "1\n" * (records - bad - more))
        options = {"on_error": "skip", "max_rejects": share, "rejects": tmp_path / "bad", "header": "no"}
        run = load(engine_target, path, check=False, **options)
        assert run.exit_code == (1 if more else 3), run
    assert engine_target.count("t") == records - bad


@pytest.mark.parametrize("limit", ["x", "-1", "101%", "1.5", ""])
def test_a_limit_that_is_none(engine_target: Target, tmp_path: Path, limit: str) -> None:
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\n")
    assert "--max-rejects" in load(engine_target, path, on_error="skip", max_rejects=limit, check=2).stderr


def test_rejects_without_skipping_are_a_mistake(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\n")
    assert "--on-error skip" in load(engine_target, path, rejects=tmp_path / "bad.csv", check=2).stderr


def test_an_unwritable_file_of_rejects_is_found_before_the_load(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\n")
    run = load(engine_target, path, on_error="skip", max_rejects=1, rejects=tmp_path / "no" / "bad.csv", check=2)
    assert "bad.csv" in run.stderr
    assert engine_target.count("t") == 0


@pytest.mark.parametrize("options", [{}, {"commit_every": 5000}, {"jobs": 2}, {"write_path": "text"}], ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_transaction_by_transaction_the_first_file_counts(
    engine_target: Target, tmp_path: Path, options: dict[str, Any], packed: bool
) -> None:
    """Of two records with one key the first one is stored, though the second one's file is larger."""
    if engine_target.engine == "duckdb" and ("write_path" in options or packed):
        options = {}
    engine_target.execute("CREATE TABLE t (k integer PRIMARY KEY, v varchar)")
    count, padding = (20_000, "") if packed else (110_000, "x" * 80)
    first = "".join(f"{n},A{padding}\n" for n in range(count))
    second = "".join(f"{n if n % 500 == 0 else count + n},B{padding}\n" for n in range(count + 100, 0, -1))
    suffix, pack = (".csv.gz", gzip.compress) if packed else (".csv", bytes)
    files = [write(tmp_path / f"{name}{suffix}", pack(text.encode())) for name, text in (("a", first), ("b", second))]
    run = load(
        engine_target, *files, on_error="skip", max_rejects="50%", rejects=tmp_path / "bad", no_atomic=True,
        header="no", format="csv", check=3, **options,
    )  # fmt: skip
    assert run.summary is not None
    repeated = (count - 1) // 500
    assert run.summary["rejects"] == repeated
    assert engine_target.rows("SELECT substr(v, 1, 1), count(*) FROM t GROUP BY 1 ORDER BY 1") == [
        ("A", count),
        ("B", count + 100 - repeated),
    ]


@pytest.mark.parametrize("option", ["no_ledger", "no_atomic"])
def test_without_ledger_and_without_atomicity(engine_target: Target, tmp_path: Path, option: str) -> None:
    engine_target.execute(TABLE)
    made = spoil(200_000, 0.002, seed=11)
    rejects = tmp_path / "bad.csv"
    path = write(tmp_path / "in.csv", made.data)
    options = {option: True, "on_error": "skip", "max_rejects": 2_000, "rejects": rejects, "jobs": 2}
    check(engine_target, made, rejects, load(engine_target, path, check=False, **options))


@pytest.mark.parametrize("mode", ["append", "replace", "create"])
def test_modes(engine_target: Target, tmp_path: Path, mode: str) -> None:
    schema = write(tmp_path / "schema.sql", TABLE)
    if mode != "create":
        engine_target.execute(TABLE)
        engine_target.execute("INSERT INTO t VALUES (-1, NULL, NULL, 'old')")
    made = spoil(2_000, 0.01, seed=5)
    rejects = tmp_path / "bad.csv"
    path = write(tmp_path / "in.csv", made.data)
    run = load(
        engine_target, path, mode=mode, schema=schema, on_error="skip", max_rejects=500, rejects=rejects, check=3
    )
    if mode == "append":
        engine_target.execute("DELETE FROM t WHERE a = -1")
    check(engine_target, made, rejects, run)


def test_values_that_only_the_server_reads(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Values go to the server's own input function, and what it refuses is a reject as any other."""
    postgres_target.execute("CREATE TABLE t (a integer, b date, c pg_lsn)")
    lines = [f"{i},{i % 28 + 1}-Jan-2020,0/16B3748\n" for i in range(20_000)]
    bad = {17: "17,32-Jan-2020,0/1\n", 9_000: "9000,1-Jan-2020,here\n", 19_999: "x,1-Jan-2020,0/1\n"}
    for number, line in bad.items():
        lines[number] = line
    path = write(tmp_path / "in.csv", "".join(lines))
    rejects = tmp_path / "bad.csv"
    load(postgres_target, path, on_error="skip", max_rejects=3, rejects=rejects, jobs=2, check=3)
    assert postgres_target.count("t") == 20_000 - 3
    assert rejects.read_text() == "".join(bad.values())
    assert [(number, column) for number, _, column, _ in told(rejects)] == [(18, "b"), (9_001, "c"), (20_000, "a")]


KEYED = """
CREATE TABLE p (id integer PRIMARY KEY);
INSERT INTO p SELECT i FROM generate_series(0, 9) s(i);
CREATE TABLE t (a integer PRIMARY KEY, b integer CHECK (b > 0), c integer REFERENCES p, d varchar UNIQUE)
"""


def keyed(old_rows: int) -> tuple[list[str], list[int], list[str]]:
    """Records for `KEYED`, the numbers of those that violate a constraint, and the SQLSTATE of each."""
    r = random.Random(SEED)
    keys = {5} if old_rows else set()
    texts = {"old"} if old_rows else set()
    lines, bad, codes = [], [], []
    for number in range(1, 30_001):
        a = r.randrange(number) if r.random() < 0.003 else number
        b = -1 if r.random() < 0.002 else 1
        c = 77 if r.random() < 0.001 else number % 10
        d = f"n{number - 1}" if r.random() < 0.001 else f"n{number}"
        lines.append(f"{a},{b},{c},{d}\n")
        code = "23514" if b < 0 else "23505" if a in keys or d in texts else "23503" if c == 77 else None
        if code is not None:
            bad.append(number)
            codes.append(code)
        else:
            keys.add(a)
            texts.add(d)
    return lines, bad, codes


def check_keyed(target: Target, tmp_path: Path, old_rows: int, **options: object) -> None:
    target.execute(KEYED)
    if old_rows:
        target.execute("INSERT INTO t VALUES (5, 1, NULL, 'old')")
    lines, bad, codes = keyed(old_rows)
    path = write(tmp_path / "in.csv", "".join(lines))
    rejects = tmp_path / "bad.csv"
    run = load(target, path, on_error="skip", max_rejects=1000, rejects=rejects, jobs=2, check=3, **options)
    assert run.summary is not None
    assert [number for number, *_ in told(rejects)] == bad
    assert [sqlstate for *_, sqlstate in told(rejects)] == codes
    assert rejects.read_text() == "".join(lines[number - 1] for number in bad)
    assert target.count("t") == 30_000 - len(bad) + old_rows
    assert run.summary["rows"] == 30_000 - len(bad)


@pytest.mark.parametrize("old_rows", [0, 1])
def test_constraints(engine_target: Target, tmp_path: Path, old_rows: int) -> None:
    """Unique, CHECK and foreign-key violations: the record alone is rejected, the first one with a key is stored."""
    check_keyed(engine_target, tmp_path, old_rows)


def test_constraints_transaction_by_transaction(tmp_path: Path) -> None:
    """DuckDB's transactions come in the order of the sources, so the same records are rejected."""
    check_keyed(DuckdbTarget(tmp_path / "target.duckdb"), tmp_path, 1, no_atomic=True)


@pytest.mark.parametrize("atomic", ["", "--no-atomic"])
def test_values_that_read_like_other_errors(tmp_path: Path, atomic: str) -> None:
    """DuckDB's message quotes the key; what kind of error it is its class says."""
    target = DuckdbTarget(tmp_path / "t.duckdb")
    target.execute("CREATE TABLE t (name varchar PRIMARY KEY, n integer)")
    path = write(tmp_path / "in.csv", "disk1,1\ndisk full,2\ndisk1,3\n")
    options: dict[str, Any] = {"header": "no", "no_atomic": atomic != ""}
    run = load(target, path, **options, check=1)
    assert "record    3" in run.stderr
    assert "free space" not in run.stderr
    load(target, path, **options, restart=True, on_error="skip", max_rejects=1, rejects=tmp_path / "bad", check=3)
    assert target.sorted_rows("t") == [("disk full", 2), ("disk1", 1)]


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (duckdb.IOException('Could not write file "t": No space left on device'), "free space"),
        (duckdb.TransactionException("Failed to commit: No space left on device"), "free space"),
        (duckdb.IOException("Could not set lock on file /mnt/disk1/t.duckdb"), "mend the cause"),
        (duckdb.ConversionException("Could not convert string 'no disk space' to INT32"), "mend the value"),
        (duckdb.ConversionException("Could not convert string 'constraint violation' to INT32"), "mend the value"),
        (duckdb.TransactionException("Failed to commit: constraint violation: duplicate key disk full"), "constraint"),
    ],
)
def test_remedies_by_the_class_of_an_error(error: duckdb.Error, hint: str) -> None:
    assert hint in str(duckdb_error(error, "storing rows").hint)


@pytest.mark.parametrize("verify", ["count", "checksum"])
def test_constraints_of_standard_input(engine_target: Target, tmp_path: Path, verify: str) -> None:
    """It can be read but once, and bad values are among the records."""
    engine_target.execute(KEYED)
    lines, bad, codes = keyed(0)
    lines[11_000:11_000] = ["x,1,1,x\n"]
    bad = sorted([number + (number > 11_000) for number in bad] + [11_001])
    rejects = tmp_path / "bad.csv"
    options = {"on_error": "skip", "max_rejects": len(bad), "rejects": rejects, "verify": verify, "format": "csv"}
    words = load_words(engine_target.url, ("-",), "t", {**options, "header": "no", "jobs": 2})

    def run(*more: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "tipple", *words, *more]
        return subprocess.run(
            command, input="".join(lines).encode(), env=environment(), capture_output=True, check=False
        )

    less = run("--max-rejects", str(len(bad) - 1))
    assert (less.returncode, b"cannot be stored" in less.stderr) == (1, True), less.stderr.decode()
    assert engine_target.count("t") == 0
    all_of_it = run()
    assert all_of_it.returncode == 3, all_of_it.stderr.decode()
    assert [number for number, *_ in told(rejects)] == bad
    assert sorted(code for *_, code in told(rejects)) == sorted([*codes, "22P02"])
    assert rejects.read_text() == "".join(lines[number - 1] for number in bad)
    assert engine_target.count("t") == len(lines) - len(bad)
    assert engine_target.leftovers("p", "t") == set()


@pytest.mark.parametrize(("record", "sqlstate"), [("7,1,0,x", "23505"), ("0,0,0,x", "23514"), ("0,1,1,n9", "23505")])
def test_the_record_that_violates_a_constraint_is_named(
    engine_target: Target, tmp_path: Path, record: str, sqlstate: str
) -> None:
    engine_target.execute(KEYED)
    lines = [f"{i},1,{i % 10},n{i}" for i in range(1, 5000)] + [record]
    path = write(tmp_path / "in.csv.gz", gzip.compress(("\n".join(lines) + "\n").encode()))
    for options in ({}, {"on_error": "skip"}):
        run = load(engine_target, path, check=1, cwd=tmp_path, **options)
        assert "5,000" in run.stderr, str(run)
        assert sqlstate in run.stderr
        assert str(path) in run.stderr
        assert record in run.stderr
        assert "remedy" in run.stderr
        assert engine_target.count("t") == 0
        assert engine_target.leftovers("p", "t") == set()


def test_the_record_that_violates_a_foreign_key_is_named(tmp_path: Path) -> None:
    """A server of PostgreSQL looks at foreign keys when all rows are in, and names the key alone."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    target.execute(KEYED)
    run = load(target, write(tmp_path / "in.csv", "1,1,1,x\n2,1,77,y\n3,1,78,z\n"), check=1)
    assert "2, which begins at byte 8" in run.stderr
    assert "23503" in run.stderr
    assert "2,1,77,y" in run.stderr


def test_one_violation_more_than_allowed(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute(KEYED)
    lines, bad, _ = keyed(0)
    path = write(tmp_path / "in.csv", "".join(lines))
    run = load(engine_target, path, on_error="skip", max_rejects=len(bad) - 1, check=1, cwd=tmp_path)
    assert f"--max-rejects {len(bad) - 1}" in run.stderr
    assert "cannot be stored" in run.stderr
    assert engine_target.count("t") == 0


def test_constraints_of_a_new_table(engine_target: Target, tmp_path: Path) -> None:
    """Two files, packed and plain; keys of several columns, a NULL in a key, a CHECK of two columns."""
    schema = write(
        tmp_path / "schema.sql",
        "CREATE TABLE t (a integer, b varchar(10), c integer, d integer, PRIMARY KEY (a, b), UNIQUE (c, d), "
        "CHECK (c < d OR c = 7))",
    )
    first = write(tmp_path / "1.csv.gz", gzip.compress(b"1,x,1,2\n1,y,1,2\n1,x,3,4\n2,x,,2\n2,y,,2\n3,x,9,8\n"))
    second = write(tmp_path / "2.csv", "1,x,5,6\n1,y,5,6\n4,x,7,0\n5,x,5,6\n")
    rejects = tmp_path / "bad.csv"
    options: dict[str, Any] = {"schema": schema, "on_error": "skip", "max_rejects": 9, "rejects": rejects}
    load(engine_target, first, second, check=3, **options)
    stored = [(1, "x", 1, 2), (1, "y", 5, 6), (2, "x", None, 2), (2, "y", None, 2), (4, "x", 7, 0)]
    assert sorted(engine_target.rows("SELECT a, b, c, d FROM t"), key=repr) == sorted(stored, key=repr)
    assert [(number, code) for number, _, _, code in told(rejects)] == [
        (2, "23505"), (3, "23505"), (6, "23514"), (1, "23505"), (4, "23505")
    ]  # fmt: skip
    assert rejects.read_text() == "1,y,1,2\n1,x,3,4\n3,x,9,8\n1,x,5,6\n5,x,5,6\n"


def test_unique_indexes_and_references_to_the_table_itself(tmp_path: Path) -> None:
    """What DuckDB's catalog tells of an index is text. It lets a row refer to those that were there before."""
    target = DuckdbTarget(tmp_path / "target.duckdb")
    target.execute(
        """
        CREATE SCHEMA "Sales 1";
        CREATE TABLE "Sales 1".p ("the id" integer PRIMARY KEY);
        INSERT INTO "Sales 1".p VALUES (1);
        CREATE TABLE "Sales 1".t (id integer PRIMARY KEY, boss integer REFERENCES "Sales 1".t (id), name varchar,
            p integer DEFAULT 1 REFERENCES "Sales 1".p ("the id"), twice integer GENERATED ALWAYS AS (2 * id));
        CREATE UNIQUE INDEX names ON "Sales 1".t (lower(name), (p + 1));
        INSERT INTO "Sales 1".t VALUES (1, NULL, 'Ann', 1);
        """
    )
    path = write(tmp_path / "in.csv", "id,boss,name\n2,1,Bob\n3,9,Cid\n4,1,BOB\n5,1,ann\n6,2,Eve\n7,,Eve\n")
    rejects = tmp_path / "bad.csv"
    options: dict[str, Any] = {"header": "match", "on_error": "skip", "max_rejects": 4, "rejects": rejects}
    load(target, path, table='"Sales 1".t', check=3, **options)
    assert [(n, code) for n, *_, code in told(rejects)] == [(2, "23503"), (3, "23505"), (4, "23505"), (5, "23503")]
    assert target.rows('SELECT id FROM "Sales 1".t ORDER BY id') == [(1,), (2,), (7,)]


def test_deferred_constraints_and_triggers(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute(
        """
        CREATE TABLE t (a integer UNIQUE DEFERRABLE INITIALLY DEFERRED, b integer);
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF new.b = 13 THEN RAISE 'unlucky %', new.a; END IF; RETURN new; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION refuse();
        """
    )
    lines = [f"{i},{13 if i == 700 else 1}\n" for i in range(1000)] + ["5,1\n"]
    path = write(tmp_path / "in.csv", "".join(lines))
    rejects = tmp_path / "bad.csv"
    load(postgres_target, path, on_error="skip", max_rejects=2, rejects=rejects, check=3)
    assert told(rejects)[0][::3] == (701, "P0001")
    assert [number for number, *_ in told(rejects)] == [701, 1001]
    assert postgres_target.count("t") == 999


def test_the_library(engine_target: Target, tmp_path: Path) -> None:
    import tipple

    engine_target.execute(TABLE)
    path = write(tmp_path / "in.csv", b"1,,,x\nbad,,,\n")
    with pytest.raises(tipple.BadRecord):
        tipple.load(path, into=engine_target.url, table="t", on_error="skip")
    report = tipple.load(
        path, into=engine_target.url, table="t", on_error="skip", max_rejects=1, rejects=tmp_path / "bad.csv"
    )
    assert (report.rows, report.rejects) == (1, 1)
    assert engine_target.count("t") == 1


@pytest.mark.parametrize("old_rows", [0, 1])
def test_a_record_that_was_refused_stands_in_nobodys_way(engine_target: Target, tmp_path: Path, old_rows: int) -> None:
    """A key that was refused for another reason is free: the next record with it is stored."""
    engine_target.execute("CREATE TABLE other (w integer PRIMARY KEY)")
    engine_target.execute("INSERT INTO other VALUES (1)")
    engine_target.execute(
        "CREATE TABLE t (k integer PRIMARY KEY, v integer CHECK (v <> 7), w integer REFERENCES other (w))"
    )
    if old_rows:
        engine_target.execute("INSERT INTO t VALUES (-1, 0, 1)")
    lines = [f"{n},0,1" for n in range(500)]
    lines[100:100] = ["1000,7,1", "1000,0,2", "1000,1,1", "1000,2,1", "1000,7,2"]
    lines[300:300] = ["1001,0,2", "1001,0,1", "1001,3,1", "x,0,1", "1002,0,1"]
    load(
        engine_target, write(tmp_path / "in.csv", "\n".join(lines)), on_error="skip", max_rejects=20,
        rejects=tmp_path / "bad.csv", check=3,
    )  # fmt: skip
    bad = ["1000,7,1", "1000,0,2", "1000,2,1", "1000,7,2", "1001,0,2", "1001,3,1", "x,0,1"]
    assert (tmp_path / "bad.csv").read_text().split() == bad
    stored = [line for line in lines if line not in bad]
    found = engine_target.rows("SELECT k, v, w FROM t WHERE k >= 0 ORDER BY k")
    assert [f"{k},{v},{w}" for k, v, w in found] == sorted(stored, key=lambda line: int(line.partition(",")[0]))


@pytest.mark.parametrize("by", ["", "PARTITION BY RANGE (a)"])
def test_a_checksum_without_a_ledger(postgres_target: PostgresTarget, tmp_path: Path, by: str) -> None:
    """Of what the server refused among other rows nobody has the digest."""
    postgres_target.execute(f"CREATE TABLE t (a integer CHECK (a > 0), b text) {by}")
    if by:
        postgres_target.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (MINVALUE) TO (MAXVALUE)")
    text = "".join(f"{-1 if n in (7, 70) else n},x\n" for n in range(1, 101))
    run = load_text(
        postgres_target, tmp_path / "in.csv", text, header="no", no_ledger=True, on_error="skip", max_rejects=5,
        rejects=tmp_path / "bad", verify="checksum", check=3,
    )  # fmt: skip
    assert run.summary is not None
    assert run.summary["verify"]["kind"] == "count"
    assert postgres_target.count("t") == 98


def test_skipping_without_a_limit_says_what_is_missing(engine_target: Target, tmp_path: Path) -> None:
    """0 rejects are allowed where nobody says more: the message names the option."""
    engine_target.execute("CREATE TABLE t (a integer PRIMARY KEY)")
    for data in ("1\nx\n", "1\n1\n"):
        path = write(tmp_path / "in.csv", data)
        run = load_here(engine_target, path, header="no", on_error="skip", rejects=tmp_path / "bad", check=1)
        assert "--max-rejects" in run.stderr
        assert "--max-rejects" not in load_here(engine_target, path, header="no", check=1).stderr
