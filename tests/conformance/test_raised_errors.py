"""Errors that triggers and CHECK constraints raise: with whatever SQLSTATE their authors have chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from loading import load, load_stdin
from targets import PostgresTarget, write

TRIGGER = """
CREATE TABLE t (a integer, b text);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF new.a = 2 THEN {statement}; END IF; RETURN new; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION refuse();
"""
CHECK = """
CREATE FUNCTION refuse(a integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN IF a = 2 THEN {statement}; END IF; RETURN true; END $$;
CREATE TABLE t (a integer CHECK (refuse(a)), b text);
"""
RAISED = "RAISE 'no boom here' USING ERRCODE = '{code}'"


def load_skipping(target: PostgresTarget, tmp_path: Path, **options: object) -> object:
    path = write(tmp_path / "in.csv", "1,x\n2,y\n3,z\n")
    return load(target, path, on_error="skip", max_rejects=1, rejects=tmp_path / "bad.csv", **options)


@pytest.mark.parametrize("made", [TRIGGER, CHECK], ids=["trigger", "check"])
@pytest.mark.parametrize("code", ["P0001", "U0001", "45000", "P1234", "21000", "38000", "55000", "42501"])
def test_an_sqlstate_of_the_authors_own(postgres_target: PostgresTarget, tmp_path: Path, made: str, code: str) -> None:
    postgres_target.execute(made.format(statement=RAISED.format(code=code)))
    load_skipping(postgres_target, tmp_path, check=3)
    assert postgres_target.rows("SELECT a FROM t ORDER BY a") == [(1,), (3,)]
    assert (tmp_path / "bad.csv").read_text() == "2,y\n"
    assert (tmp_path / "bad.csv.reasons.csv").read_text().endswith(f",{code}\n")


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("SELECT a INTO STRICT new.a FROM t WHERE false", "P0002"),
        ("new.a = (SELECT generate_series(1, 2))", "21000"),
        ("CASE new.a WHEN 1 THEN NULL; END CASE", "20000"),
    ],
)
def test_what_fails_within_a_function(
    postgres_target: PostgresTarget, tmp_path: Path, statement: str, code: str
) -> None:
    postgres_target.execute(TRIGGER.format(statement=statement))
    load_skipping(postgres_target, tmp_path, check=3)
    assert (tmp_path / "bad.csv.reasons.csv").read_text().endswith(f",{code}\n")


@pytest.mark.parametrize("code", ["53100", "57014", "XX000"])
def test_what_speaks_against_no_record(postgres_target: PostgresTarget, tmp_path: Path, code: str) -> None:
    postgres_target.execute(TRIGGER.format(statement=RAISED.format(code=code)))
    load_skipping(postgres_target, tmp_path, check=1)
    assert postgres_target.count("t") == 0
    run = load(postgres_target, tmp_path / "in.csv", check=1, restart=True)
    assert "the record is not to blame" in run.stderr
    assert f"SQLSTATE {code}): no boom here" in run.stderr


@pytest.mark.parametrize("path", ["binary", "text"])
def test_a_record_of_standard_input_has_gone_by(postgres_target: PostgresTarget, path: str) -> None:
    """Its number is all that is known of it by then: nothing else is told in the place of its byte and its text."""
    postgres_target.execute("CREATE TABLE t (a integer, b text CHECK (b <> 'bad'), c text); INSERT INTO t VALUES (-1)")
    records = (f"{n},{'bad' if n == 30_000 else 'ok'},note {n} of some length\n" for n in range(60_000))
    run = load_stdin(postgres_target, "".join(records).encode(), write_path=path)
    told = run.stderr.decode()
    assert run.returncode == 1, told
    assert "record    30,001\n" in told
    assert "violates check constraint" in told
    assert "text  " not in told
    assert postgres_target.count("t") == 1


@pytest.mark.parametrize("code", ["P0001", "ABCDE", "38000", "55000", "42501"])
def test_the_record_is_named(postgres_target: PostgresTarget, tmp_path: Path, code: str) -> None:
    """Without skipping too, whichever way the rows go."""
    postgres_target.execute(CHECK.format(statement=RAISED.format(code=code)))
    run = load(postgres_target, write(tmp_path / "in.csv", "1,x\n2,y\n3,z\n"), check=1)
    assert "record    2" in run.stderr
    assert f"SQLSTATE  {code}" in run.stderr
