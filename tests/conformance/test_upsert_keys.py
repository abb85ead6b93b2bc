"""`--mode upsert` by keys of every kind: what is equal to the server is one key to the merge."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

import tipple
from loading import load
from targets import PostgresTarget, write
from tipple.report.model import LoadReport

TYPES = (
    "CREATE DOMAIN code AS char(5)",
    "CREATE DOMAIN longer AS code CHECK (VALUE <> 'x')",
    "CREATE DOMAIN price AS numeric(6,1)",
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE TYPE pair AS (a integer, b char(3))",
    "CREATE TYPE spot AS (a integer, p point)",
)


class Key(NamedTuple):
    """A type, and two values of it as fields of CSV."""

    type: str
    held: str
    new: str


KEYS = [
    Key("char(5)", "ab", "zz"),
    Key("bpchar", "ab", "zz"),
    Key("char(5)[]", '"{ab,cd}"', '"{ab,ce}"'),
    Key("varchar(3)", "abc", "abd"),
    Key("text", "it's", "it''s"),
    Key('"char"', "a", "b"),
    Key("name", "abc", "Abc"),
    Key("code", "ab", "abc"),
    Key("longer", "ab", "abc"),
    Key("code[]", "{ab}", "{abc}"),
    Key("bit(4)", "1010", "1011"),
    Key("bit(4)[]", "{1010}", "{1011}"),
    Key("bit varying(8)", "10101", "10111"),
    Key("varbit", "10101", "10111"),
    Key("numeric(10,2)", "12345678.25", "-1.5"),
    Key("numeric(6,1)[]", "{1.5}", "{1.6}"),
    Key("price", "12345.5", "NaN"),
    Key("real", "0.33333334", "0.1"),
    Key("double precision", "0.3333333333333333", "1e300"),
    Key("date", "2020-02-13", "4000-01-01 BC"),
    Key("time(3)", "01:02:03.456", "24:00:00"),
    Key("timestamp(0)", "2020-02-03 04:05:06", "infinity"),
    Key("timestamp(3)", "2020-02-03 04:05:06.789", "0044-03-15 00:00:00 BC"),
    Key("timestamptz(6)", "2020-02-03 04:05:06.789012+00", "1900-01-01 00:00:00+00"),
    Key("interval(3)", "-1 mons +2 days -03:04:05.678", "1 day"),
    Key("interval day to minute", "-1 days +02:03:00", "1 day"),
    Key("mood", "ok", "sad"),
    Key("pair", '"(1,ab)"', '"(1,abc)"'),
    Key("pair[]", '"{""(1,ab)""}"', '"{""(1,abc)""}"'),
    Key("inet", "10.0.0.1/8", "::1"),
    Key("cidr", "10.0.0.0/8", "::/0"),
    Key("macaddr", "08:00:2b:01:02:03", "08:00:2b:01:02:04"),
    Key("money", "1234.56", "-5.00"),
    Key("bytea", "\\x00ff", "\\x"),
    Key("uuid", "00000000-0000-0000-0000-00000000000a", "ffffffff-0000-0000-0000-00000000000a"),
    Key("boolean", "t", "f"),
    Key("int4range", '"[1,5)"', '"[1,6)"'),
    Key("jsonb", '"{""a"": 1}"', "[]"),
    Key("oid", "4000000000", "7"),
    Key("pg_lsn", "1/2", "0/0"),
]


def prepare(target: PostgresTarget, *statements: str) -> None:
    for statement in (*TYPES, *statements):
        target.execute(statement)


def upsert(target: PostgresTarget, source: Path, data: str, table: str = "t", **options: Any) -> LoadReport:
    given = {"mode": "upsert", "key": ["k"], "header": "no", "format": "csv", **options}
    return tipple.load(str(write(source, data)), into=target.url, table=table, **given)


def test_a_key_is_found_again(postgres_target: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row is updated, whatever the length or precision that the type is declared with."""
    # Settings of a role that have values written otherwise than they are.
    monkeypatch.setenv("PGOPTIONS", "-c extra_float_digits=0 -c DateStyle=German -c IntervalStyle=sql_standard")
    prepare(postgres_target)
    wrong = []
    for number, key in enumerate(KEYS):
        table = f"t{number}"
        # Each type with and without an index, by the server's version.
        constraint = " PRIMARY KEY" if (number + postgres_target.server.version) % 2 else ""
        postgres_target.execute(f"CREATE TABLE {table} (k {key.type}{constraint}, v integer)")
        data = f"{key.held},1\n"
        upsert(postgres_target, tmp_path / f"a{number}.csv", data, table)
        data = f"{key.new},3\n{key.held},4\n{key.new},5\n"
        try:
            report = upsert(postgres_target, tmp_path / f"b{number}.csv", data, table)
        except tipple.TippleError as error:
            wrong.append(f"{key.type}: {error}")
            continue
        counts = (report.rows_inserted, report.rows_updated, report.rows_superseded)
        if counts != (1, 1, 1) or sorted(postgres_target.rows(f"SELECT v FROM {table}")) != [(4,), (5,)]:
            wrong.append(f"{key.type}: {counts}")
    assert wrong == []


def test_a_padded_key_is_left_out(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    prepare(postgres_target, "CREATE TABLE t (k char(5) PRIMARY KEY, v integer)", "INSERT INTO t VALUES ('ab', 1)")
    report = upsert(postgres_target, tmp_path / "in.csv", "ab,2\n", on_conflict="ignore")
    assert (report.rows_inserted, report.rows_ignored) == (0, 1)
    assert postgres_target.rows("SELECT v FROM t") == [(1,)]


@pytest.mark.parametrize("key", ["xid", "json", "point", "box", "xml", "spot", "point[]"])
def test_a_type_without_order_is_no_key(postgres_target: PostgresTarget, tmp_path: Path, key: str) -> None:
    prepare(postgres_target, f"CREATE TABLE t (k {key}, v integer)")
    for options in ({"dry_run": True}, {}):
        with pytest.raises(tipple.UsageError, match=f"key column k is of the type {re.escape(key)}, ") as caught:
            upsert(postgres_target, tmp_path / "in.csv", "1,2\n", **options)
        assert "--key" in str(caught.value.hint)
    assert postgres_target.leftovers("t") == set()


def test_a_new_table_by_a_type_without_order(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    schema = write(tmp_path / "schema.sql", "CREATE TABLE t (k xid, v integer)")
    with pytest.raises(tipple.UsageError, match="xid"):
        upsert(postgres_target, tmp_path / "in.csv", "1,2\n", schema=str(schema))
    assert postgres_target.leftovers() == set()


DOUBLE = ("CREATE TABLE t (k integer, v integer)", "INSERT INTO t VALUES (1, 1), (1, 2), (2, 3)")


def test_rows_that_share_a_key(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Each of them is updated, and counted, where no index keeps a key from being there twice."""
    prepare(postgres_target, *DOUBLE)
    report = upsert(postgres_target, tmp_path / "in.csv", "1,5\n3,4\n")
    assert postgres_target.sorted_rows("t") == [(1, 5), (1, 5), (2, 3), (3, 4)]
    assert (report.rows_inserted, report.rows_updated, report.rows_ignored) == (1, 2, 0)
    report = upsert(postgres_target, tmp_path / "more.csv", "1,6\n4,7\n", on_conflict="ignore")
    assert postgres_target.sorted_rows("t") == [(1, 5), (1, 5), (2, 3), (3, 4), (4, 7)]
    assert (report.rows_inserted, report.rows_updated, report.rows_ignored) == (1, 0, 1)


def test_rows_that_share_a_key_and_others_that_are_refused(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    prepare(postgres_target, *DOUBLE, "ALTER TABLE t ADD CHECK (v < 100)")
    options = {"on_error": "skip", "max_rejects": 5, "rejects": str(tmp_path / "bad.csv")}
    report = upsert(postgres_target, tmp_path / "in.csv", "1,5\n3,4\n2,400\n", **options)
    assert postgres_target.sorted_rows("t") == [(1, 5), (1, 5), (2, 3), (3, 4)]
    assert (report.rows_inserted, report.rows_updated, report.rejects) == (1, 2, 1)


@pytest.mark.parametrize("moment", ["INSERT", "UPDATE"])
def test_a_trigger_keeps_out_as_many_as_share_a_key(
    postgres_target: PostgresTarget, tmp_path: Path, moment: str
) -> None:
    """One row more for a key that is there twice does not hide one row less."""
    prepare(
        postgres_target,
        *DOUBLE,
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        f"CREATE TRIGGER g BEFORE {moment} ON t FOR EACH ROW WHEN (NEW.k IN (2, 3)) EXECUTE FUNCTION f()",
    )
    with pytest.raises(tipple.TippleError, match="a trigger or a rule keeps rows out"):
        upsert(postgres_target, tmp_path / "in.csv", "1,5\n2,5\n3,4\n")
    assert postgres_target.sorted_rows("t") == [(1, 1), (1, 2), (2, 3)]


IDENTITY = "CREATE TABLE t (id integer GENERATED ALWAYS AS IDENTITY, k integer PRIMARY KEY, v integer)"


@pytest.mark.parametrize("on_conflict", ["update", "ignore"])
def test_values_for_an_identity_column(postgres_target: PostgresTarget, tmp_path: Path, on_conflict: str) -> None:
    """Which the server takes from nobody: told before anything is staged, with a way out that is one."""
    prepare(postgres_target, IDENTITY)
    for options in ({"dry_run": True}, {}):
        with pytest.raises(tipple.UsageError, match=r"column id of public\.t is GENERATED ALWAYS") as caught:
            upsert(postgres_target, tmp_path / "in.csv", "1,2,3\n", on_conflict=on_conflict, **options)
    report = upsert(postgres_target, tmp_path / "few.csv", "2,3\n", columns=["k", "v"], on_conflict=on_conflict)
    assert report.rows_inserted == 1
    postgres_target.execute(str(caught.value.hint).partition(", or ")[2])
    upsert(postgres_target, tmp_path / "in.csv", "1,2,3\n", on_conflict=on_conflict)
    assert postgres_target.leftovers("t") == set()


@pytest.mark.parametrize("rule", ["INSERT", "UPDATE", "DELETE"])
def test_a_table_with_a_rule(postgres_target: PostgresTarget, tmp_path: Path, rule: str) -> None:
    """Told before anything is staged; a disabled one is no reason where the server takes it for none."""
    prepare(
        postgres_target,
        "CREATE TABLE t (k integer PRIMARY KEY, v integer)",
        f"CREATE RULE stop AS ON {rule} TO t DO ALSO NOTHING",
    )
    said = re.escape("public.t has the rule stop")
    for options in ({"dry_run": True}, {}):
        with pytest.raises(tipple.UsageError, match=said) as caught:
            upsert(postgres_target, tmp_path / "in.csv", "1,2\n", **options)
    postgres_target.execute("ALTER TABLE t DISABLE RULE stop")
    merge = "MERGE INTO t USING (VALUES (2, 2)) s (k, v) ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (3, 3)"
    try:
        # Releases of one version differ: 17.11 takes it, and 17.0 does not.
        postgres_target.execute(merge)
    except psycopg.errors.FeatureNotSupported:
        with pytest.raises(tipple.UsageError, match=said):
            upsert(postgres_target, tmp_path / "disabled.csv", "2,2\n")
    else:
        assert upsert(postgres_target, tmp_path / "disabled.csv", "2,2\n").rows_inserted == 1
    postgres_target.execute(str(caught.value.hint).partition(", ")[0])
    assert upsert(postgres_target, tmp_path / "in.csv", "1,2\n").rows_inserted == 1


@pytest.mark.parametrize(("most", "skips"), [(1598, False), (1595, True)])
def test_as_many_columns_as_can_be_staged(
    postgres_target: PostgresTarget, tmp_path: Path, most: int, skips: bool
) -> None:
    names = [f"c{n}" for n in range(1600)]
    columns = ", ".join(f"{name} smallint" for name in names)
    postgres_target.execute(f"CREATE TABLE t ({columns}, PRIMARY KEY (c0), CHECK (c1 > 0), UNIQUE (c2))")
    options = {"mode": "upsert", "key": "c0"}
    options |= {"on_error": "skip", "max_rejects": 9, "rejects": tmp_path / "bad"} if skips else {}
    path = write(tmp_path / "wide.csv", ",".join("1" * (most + 1)) + "\n")
    run = load(postgres_target, path, columns=",".join(names[: most + 1]), check=2, **options)
    assert f"an upsert of {most + 1:,} columns is not possible" in run.stderr
    assert f"hint: name at most {most:,} columns with --columns" in run.stderr
    bad = ("2,0,", "3,1,") if skips else ()
    records = [first + ",".join("1" * (most - 2)) + "\n" for first in ("1,1,", *bad)]
    path = write(tmp_path / "in.csv", "".join(records))
    load(postgres_target, path, columns=",".join(names[:most]), check=3 if skips else True, **options)
    assert postgres_target.rows(f"SELECT c0, c{most - 1}, c{most} FROM t") == [(1, 1, None)]
