"""Views of a table whose place another one takes: they stay what they are, and show its rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tipple
from targets import PostgresTarget, write

TABLE = """
CREATE DOMAIN "a d" AS text CHECK (length(VALUE) < 50);
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE t (
    id integer PRIMARY KEY, v varchar(10) DEFAULT 'x', n numeric(10, 2), at timestamptz, c text COLLATE "C", d "a d",
    m mood, b bit(3), i interval day to second(2), "Odd ""name" char(2), a integer[],
    g integer GENERATED ALWAYS AS (7) STORED
);
CREATE TABLE other (id integer, w text);
INSERT INTO other VALUES (1, 'one'), (2, 'two');
CREATE FUNCTION twice(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
INSERT INTO t (id, v) VALUES (9, 'old');
"""

VIEWS = {
    "all columns": "CREATE VIEW q AS SELECT * FROM t",
    "one column of another name": "CREATE VIEW q (x) AS SELECT id FROM t",
    "no column": "CREATE VIEW q AS SELECT FROM t",
    "renamed": "CREATE VIEW q AS SELECT id, v FROM t; ALTER VIEW q RENAME v TO \"Select\"",
    "odd name": "CREATE VIEW \"q \"\"x\" AS SELECT id FROM t; CREATE VIEW q AS SELECT * FROM \"q \"\"x\"",
    "grouped by the key": "CREATE VIEW q AS SELECT id, v, count(*) FROM t GROUP BY id",
    "joined to itself": "CREATE VIEW q AS SELECT x.id, y.v FROM t x JOIN t y USING (id) "
    "LEFT JOIN other o ON o.id = x.id",
    "with constants": "CREATE VIEW q AS SELECT id, at AT TIME ZONE 'UTC' AS utc FROM t "
    "WHERE at IS NULL OR at > '2020-01-31 10:00+02' AND i < interval '1 day 02:00' AND n > 1.5 AND v ~ E'\\\\d'",
    "recursive": "CREATE RECURSIVE VIEW q (n) AS SELECT min(id) FROM t UNION ALL SELECT n + 1 FROM q WHERE n < 5",
    "windows": "CREATE VIEW q AS SELECT id, rank() OVER w FROM t WINDOW w AS (PARTITION BY v ORDER BY c COLLATE \"C\")",
    "union": "CREATE VIEW q AS SELECT id, v FROM t UNION SELECT id, w FROM other ORDER BY 1",
    "functions": "CREATE VIEW q AS SELECT twice(id) AS x, lower(v) AS y, m::text || 'x' AS z, a[1] AS first FROM t",
    "lists": "CREATE VIEW q AS SELECT id FROM t WHERE v IN ('a', 'x') OR \"Odd \"\"name\" = ANY ('{a,b}')",
    "floats": "CREATE VIEW q AS SELECT id * 0.1::float8 + 1.1234567890123457::float8 AS x FROM t",
    "sub-select": "CREATE VIEW q AS SELECT w, EXISTS (SELECT FROM t WHERE t.id = other.id) FROM other",
    "check option": "CREATE VIEW q AS SELECT id, v FROM t WHERE id > 0 WITH CASCADED CHECK OPTION",
    "options": "CREATE VIEW q WITH (security_barrier, security_invoker = true) AS SELECT id FROM t",
    "rights and remarks": "CREATE VIEW q AS SELECT id, v FROM t; GRANT SELECT ON q TO PUBLIC; "
    "COMMENT ON VIEW q IS 'all'; COMMENT ON COLUMN q.v IS 'its v'",
    "default and trigger": "CREATE VIEW q AS SELECT id, v FROM t; ALTER VIEW q ALTER v SET DEFAULT 'from the view';"
    "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
    "CREATE TRIGGER g INSTEAD OF INSERT ON q FOR EACH ROW EXECUTE FUNCTION f()",
    "views on views": "CREATE VIEW p AS SELECT id, v FROM t;"
    "CREATE VIEW q AS SELECT p.id, t.v FROM p JOIN t USING (id);"
    "CREATE MATERIALIZED VIEW r AS SELECT count(*) FROM q",
    "in another schema": "CREATE SCHEMA \"S p\"; CREATE TABLE \"S p\".t (z integer);"
    "CREATE VIEW \"S p\".q AS SELECT public.t.id, u.z FROM public.t LEFT JOIN \"S p\".t u ON true;"
    "CREATE VIEW q AS SELECT * FROM \"S p\".q",
}  # fmt: skip

SHAPE = """
SELECT c.oid, c.relname, c.relkind, c.relacl::text, c.reloptions, c.relowner, pg_get_viewdef(c.oid),
    obj_description(c.oid),
    (SELECT array_agg((attname, format_type(atttypid, atttypmod), attcollation, pg_get_expr(adbin, adrelid),
                       col_description(c.oid, attnum))::text ORDER BY attnum)
     FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
     WHERE attrelid = c.oid AND attnum > 0),
    (SELECT array_agg(tgname) FROM pg_trigger WHERE tgrelid = c.oid)
FROM pg_class c WHERE c.relkind IN ('v', 'm') AND c.relnamespace NOT IN ('pg_catalog'::regnamespace,
    'information_schema'::regnamespace) AND c.oid >= 16384 AND c.relname IN ('p', 'q', 'q "x', 'r') ORDER BY c.oid
"""


def load(target: PostgresTarget, source: str, **options: Any) -> Any:
    given = {"format": "csv", "header": "no", "columns": ["id", "v"], "mode": "replace", "restart": True}
    return tipple.load(source, into=target.url, table="t", **{**given, **options})


def source(tmp_path: Path) -> str:
    return str(write(tmp_path / "two.csv", "1,a\n2,b\n"))


def shape(target: PostgresTarget) -> list[Any]:
    return target.rows(SHAPE)


@pytest.mark.parametrize("name", VIEWS)
def test_views_stay(postgres_target: PostgresTarget, tmp_path: Path, name: str) -> None:
    postgres_target.execute(TABLE)
    postgres_target.execute(VIEWS[name])
    before, oid = shape(postgres_target), postgres_target.value("SELECT 't'::regclass::oid")
    assert before
    if name == "lists":
        # The server says it in other words when it has read its own.
        said = postgres_target.value("SELECT pg_get_viewdef('q'::regclass)")
        postgres_target.execute(f"CREATE OR REPLACE VIEW q AS {said}")
        before = shape(postgres_target)
        postgres_target.execute(VIEWS[name].replace("CREATE", "CREATE OR REPLACE"))
    for write_path in ("auto", "text"):
        report = load(postgres_target, source(tmp_path), write_path=write_path)
        assert report.strategy == "swap", report.strategy_reason
        assert "copied" not in " ".join(report.notes), report.notes
        assert postgres_target.value("SELECT 't'::regclass::oid") != oid
        assert shape(postgres_target) == before
    # What the view shows is what its query gives now.
    query = postgres_target.value("SELECT pg_get_viewdef('q'::regclass)")
    shown = postgres_target.rows("SELECT count(*), md5(string_agg((q.*)::text, ',' ORDER BY (q.*)::text)) FROM q")
    made = f"SELECT count(*), md5(string_agg((q.*)::text, ',' ORDER BY (q.*)::text)) FROM ({query.rstrip(';')}) q"
    assert shown == postgres_target.rows(made)
    assert postgres_target.leftovers("t", "other", "S p.t") == set()


HINDRANCES = {
    "materialized": "CREATE MATERIALIZED VIEW q AS SELECT id FROM t",
    "its rows": "CREATE VIEW q AS SELECT t FROM t",
    "rule": "CREATE VIEW q AS SELECT w FROM other; CREATE RULE z AS ON INSERT TO q DO INSTEAD INSERT INTO t VALUES (1)",
    "function": "CREATE FUNCTION q() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM t; END",
}


@pytest.mark.parametrize("name", HINDRANCES)
def test_what_cannot_be_made_again(postgres_target: PostgresTarget, tmp_path: Path, name: str) -> None:
    postgres_target.execute(TABLE)
    postgres_target.execute(HINDRANCES[name])
    oid = postgres_target.value("SELECT 't'::regclass::oid")
    report = load(postgres_target, source(tmp_path))
    assert report.strategy == "single"
    assert postgres_target.value("SELECT 't'::regclass::oid") == oid
    assert postgres_target.rows("SELECT id, v FROM t ORDER BY 1") == [(1, "a"), (2, "b")]


def test_a_view_of_another_role(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """It is not ours to make again."""
    postgres_target.execute(TABLE + "GRANT SELECT ON t TO PUBLIC")
    with postgres_target.server.connect(postgres_target.database) as connection:
        connection.execute("CREATE VIEW q AS SELECT id FROM t; GRANT SELECT ON q TO PUBLIC")
    before = shape(postgres_target)
    report = load(postgres_target, source(tmp_path))
    assert (report.strategy, "the view q depends on it, and is not this" in report.strategy_reason) == ("single", True)
    assert shape(postgres_target) == before
    assert postgres_target.count("q") == 2


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_view_that_comes_in_mid_load(postgres_target: PostgresTarget, tmp_path: Path, mode: str) -> None:
    postgres_target.execute("CREATE TABLE t (id integer, v text)")
    done: list[bool] = []

    def seen(snapshot: Any) -> None:
        if snapshot.get("phase") == "verify" and not done:
            done.append(True)
            postgres_target.execute("CREATE VIEW q AS SELECT id FROM t WHERE v = 'b'")

    report = load(postgres_target, source(tmp_path), mode=mode, progress=seen)
    assert done
    assert (report.strategy, "copied" in " ".join(report.notes)) == ("swap", False)
    assert postgres_target.rows("SELECT * FROM q") == [(2,)]


def test_where_rows_are_copied_after_all(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (id integer, v text); CREATE VIEW q AS SELECT id FROM t")
    before, done = shape(postgres_target), []

    def seen(snapshot: Any) -> None:
        if snapshot.get("phase") == "verify" and not done:
            done.append(True)
            postgres_target.execute("INSERT INTO t VALUES (3, 'other')")

    report = load(postgres_target, source(tmp_path), mode="append", progress=seen)
    assert "copied" in " ".join(report.notes)
    assert shape(postgres_target) == before
    assert postgres_target.sorted_rows("q") == [(1,), (2,), (3,)]


def test_readers_of_table_and_view(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Whichever they read first, nobody is ended as a deadlock, and all see either the old rows or the new."""
    postgres_target.execute(
        "CREATE TABLE t (id integer, v text); CREATE VIEW q AS SELECT id FROM t;"
        "INSERT INTO t SELECT g, 'old' FROM generate_series(1, 500) g"
    )
    many = str(write(tmp_path / "many.csv", "".join(f"{i},new\n" for i in range(700))))
    stopping, failures, seen = threading.Event(), [], set()

    def read(names: Sequence[str]) -> None:
        with psycopg.connect(postgres_target.url) as connection:
            while not stopping.is_set():
                try:
                    with connection.transaction():
                        for name in names:
                            found = connection.execute(f"SELECT count(*) FROM {name}".encode()).fetchone()
                            seen.add(found)
                            time.sleep(0.02)
                except psycopg.Error as error:
                    failures.append(error)
                time.sleep(0.15)

    readers = [threading.Thread(target=read, args=(names,)) for names in (("t", "q"), ("q", "t"), ("q",))]
    for reader in readers:
        reader.start()
    try:
        for _ in range(3):
            report = load(postgres_target, many)
            assert report.strategy == "swap"
    finally:
        stopping.set()
        for reader in readers:
            reader.join()
    assert failures == []
    assert seen <= {(500,), (700,)}
    assert postgres_target.count("q") == 700


def test_a_view_whose_query_this_role_may_not_write(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """It may be used, and names a schema that this role may not look into: the rows are copied into the table."""
    server, database = postgres_target.server, postgres_target.database
    postgres_target.execute(
        "CREATE TABLE t (id integer, v text); CREATE SCHEMA hidden; CREATE TABLE hidden.u (w integer)"
    )
    postgres_target.execute("CREATE VIEW q AS SELECT id, (SELECT max(w) FROM hidden.u) FROM t")
    server.execute("ALTER SCHEMA hidden OWNER TO postgres", database)
    before, oid = shape(postgres_target), postgres_target.value("SELECT 't'::regclass::oid")
    report = load(postgres_target, source(tmp_path))
    assert report.strategy == "swap"
    assert "cannot be made again (permission denied for schema hidden)" in " ".join(report.notes)
    assert postgres_target.value("SELECT 't'::regclass::oid") == oid
    assert shape(postgres_target) == before
    assert postgres_target.sorted_rows("t") == [(1, "a"), (2, "b")]


def test_a_view_that_is_changed_while_publish_waits_for_it(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What is committed meanwhile stays: a view is read when nobody can change it any more."""
    postgres_target.execute("CREATE TABLE t (id integer, v text); CREATE VIEW q AS SELECT id, v FROM t")
    for number in range(3):
        changing = f"CREATE OR REPLACE VIEW q AS SELECT id, upper(v) || '{number}' AS v FROM t WHERE id > 1"
        with psycopg.connect(postgres_target.url) as other:
            began: list[bool] = []

            def begin(snapshot: Any, other: Any = other, changing: str = changing, began: Any = began) -> None:
                if snapshot.get("phase") == "verify" and not began:
                    began.append(True)
                    other.execute(changing)
                    threading.Timer(0.5, other.commit).start()

            report = load(postgres_target, source(tmp_path), progress=begin)
            assert began
            assert report.strategy == "swap"
        assert postgres_target.rows("SELECT * FROM q") == [(2, f"B{number}")]


def test_a_view_that_is_dropped_while_publish_waits_for_it(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (id integer, v text); CREATE VIEW q AS SELECT id, v FROM t")
    with psycopg.connect(postgres_target.url) as other:
        began: list[bool] = []

        def begin(snapshot: Any) -> None:
            if snapshot.get("phase") == "verify" and not began:
                began.append(True)
                other.execute("DROP VIEW q")
                threading.Timer(0.5, other.commit).start()

        load(postgres_target, source(tmp_path), progress=begin)
    assert postgres_target.rows("SELECT id, v FROM t ORDER BY 1") == [(1, "a"), (2, "b")]
    assert postgres_target.value("SELECT to_regclass('q')") is None
