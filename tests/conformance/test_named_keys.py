"""Keys that the server refuses only when all rows are stored: the record that has them is named all the same."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tipple
from loading import load_stdin
from targets import PostgresTarget, write

ROWS = 3000


def records(others: dict[int, str]) -> list[str]:
    """Records of `id,name`, with others at the places that `others` gives."""
    return [others.get(place, f"{place},name {place}") + "\n" for place in range(ROWS)]


def blamed(target: PostgresTarget, *sources: Path, **options: Any) -> tipple.BadRecord:
    """The record that a load names; nothing is published, and nothing left."""
    tables = target.tables()
    before = target.count("t") if "public.t" in tables else None
    with pytest.raises(tipple.BadRecord) as caught:
        tipple.load([str(source) for source in sources], into=target.url, table="t", **options)
    error = caught.value
    assert (target.count("t") if before is not None else None) == before
    assert target.tables() - tables <= {"tipple.job", "tipple.slice", "tipple.reject", "tipple.unlogged_job"}
    assert "stage_" not in f"{error} {error.hint}"
    return error


def check(error: tipple.BadRecord, path: Path, written: list[str], place: int, sqlstate: str) -> None:
    """Whether it is the record at `place`."""
    assert error.file == str(path)
    assert (error.record_number, error.sqlstate) == (place + 1, sqlstate)
    assert error.byte_offset == sum(len(record.encode()) for record in written[:place])
    assert error.text == written[place].rstrip("\n")
    assert "nothing was published" in (error.hint or "")


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("structure", ["unique", "partitioned", "created", "text", "btree"])
def test_twice_in_a_file(postgres_target: PostgresTarget, tmp_path: Path, structure: str, jobs: int) -> None:
    written = records({2500: "77,again", 2700: "77,and again"})
    path = write(tmp_path / "in.csv", "".join(written))
    options: dict[str, Any] = {"jobs": jobs, "format": "csv", "header": "no"}
    name = "t_id_key"
    if structure == "created":
        schema = write(tmp_path / "t.sql", "CREATE TABLE t (id integer UNIQUE, name text)")
        options |= {"schema": str(schema), "mode": "create"}
    elif structure == "partitioned":
        name = "low_id_key"
        postgres_target.execute(
            "CREATE TABLE t (id integer UNIQUE, name text) PARTITION BY RANGE (id);"
            "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (1000);"
            "CREATE TABLE high PARTITION OF t FOR VALUES FROM (1000) TO (9000)"
        )
    elif structure == "btree":
        postgres_target.execute("CREATE TABLE t (id integer, name text)")
        options |= {"structure": "btree", "key": ["id"]}
    else:
        postgres_target.execute("CREATE TABLE t (id integer UNIQUE, name text)")
        options |= {"write_path": "text"} if structure == "text" else {}
    error = blamed(postgres_target, path, **options)
    check(error, path, written, 2500, "23505")
    assert f'"{name}"' in error.reason
    assert "(id)=(77)" in error.reason
    assert "record 78 has the same key" in error.reason


@pytest.mark.parametrize("others", ["date", "point", "both"])
def test_beside_what_only_the_server_can_read(postgres_target: PostgresTarget, tmp_path: Path, others: str) -> None:
    """Also where it is the first of the two, or both, that stand in such records."""
    types = {"date": ["date"], "point": ["point"], "both": ["date", "point"]}[others]
    values = {"date": "01/31/2024", "point": '"(1,2)"'}
    rest = "".join(f",{values[kind]}" for kind in types)
    # Dates in ISO form are read by Tipple itself, and the others are some of those that only the server can read.
    plain = rest.replace("01/31/2024", "2024-01-31")
    written = [
        f"{77 if place == 2500 else place},name{rest if place % 1000 == 77 or place == 2500 else plain}\n"
        for place in range(ROWS)
    ]
    path = write(tmp_path / "in.csv", "".join(written))
    columns = "".join(f", c{number} {kind}" for number, kind in enumerate(types))
    postgres_target.execute(f"CREATE TABLE t (id integer UNIQUE, name text{columns})")
    error = blamed(postgres_target, path, format="csv", header="no")
    check(error, path, written, 2500, "23505")
    assert "record 78 has the same key" in error.reason


def test_twice_in_two_files(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (id integer UNIQUE, name text)")
    first = write(tmp_path / "a.csv", "".join(records({})))
    written = ["5000,x\n", "12,again\n"]
    second = write(tmp_path / "b.csv", "".join(written))
    error = blamed(postgres_target, first, second)
    check(error, second, written, 1, "23505")
    assert f"record 13 of {first} has the same key" in error.reason


def test_there_already(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """One record has the key, and the table has it too."""
    postgres_target.execute("CREATE TABLE t (id integer, name text, EXCLUDE USING btree (id WITH =))")
    postgres_target.execute("INSERT INTO t VALUES (2000, 'old')")
    written = records({})
    path = write(tmp_path / "in.csv", "".join(written))
    error = blamed(postgres_target, path)
    check(error, path, written, 2000, "23P01")
    assert "has the same key" not in error.reason


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_foreign_key(postgres_target: PostgresTarget, tmp_path: Path, partitioned: bool) -> None:
    by = "PARTITION BY LIST (name); CREATE TABLE one PARTITION OF t DEFAULT" if partitioned else ""
    postgres_target.execute(
        f"CREATE TABLE p (id integer PRIMARY KEY); INSERT INTO p SELECT generate_series(0, {ROWS});"
        f"CREATE TABLE t (id integer REFERENCES p, name text) {by}"
    )
    written = records({1200: "-5,first", 2400: "-5,second"})
    path = write(tmp_path / "in.csv", "".join(written))
    error = blamed(postgres_target, path)
    check(error, path, written, 1200, "23503")
    assert "(id)=(-5)" in error.reason
    assert "load the referenced table first" in (error.hint or "")


PERIODS = "FOREIGN KEY (k, PERIOD v) REFERENCES p (k, PERIOD v)"
HALVES = "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (2); CREATE TABLE high PARTITION OF t DEFAULT"
OF_PERIODS: dict[str, tuple[str, dict[str, Any], str]] = {
    "empty": ("", {}, "swap"),
    "replace": ("", {"mode": "replace"}, "swap"),
    "rows": ("", {"indexes": "rebuild"}, "swap"),
    "in place": ("", {"indexes": "keep"}, "single"),
    "partitions": (f"PARTITION BY RANGE (id); {HALVES}", {}, "partition"),
    "replaced partitions": (
        f"PARTITION BY RANGE (id); {HALVES}",
        {"mode": "replace", "replace_scope": "partitions"},
        "partition",
    ),
    "partitions to come": ("PARTITION BY RANGE (id)", {"partition_by": "range(id, every=1)"}, "partition"),
    "new": ("", {"schema": True}, "swap"),
    "new partitions": ("", {"schema": True, "partition_by": "range(id, every=1)"}, "partition"),
}


@pytest.mark.parametrize("way", OF_PERIODS)
def test_a_foreign_key_over_periods(postgres_target: PostgresTarget, tmp_path: Path, way: str) -> None:
    """Ranges only the server can read; and what it does not see when a key is validated later is refused too."""
    if postgres_target.server.version < 18:
        pytest.skip("version 18 has them")
    by, options, strategy = OF_PERIODS[way]
    postgres_target.execute(
        "CREATE TABLE p (k int4range, v daterange, PRIMARY KEY (k, v WITHOUT OVERLAPS));"
        "INSERT INTO p VALUES ('[5,6)', '[2020-01-01,2020-02-01)'), ('[5,6)', '[2020-02-01,2020-03-01)')"
    )
    created = f"CREATE TABLE t (id integer, k int4range, v daterange, CONSTRAINT f {PERIODS}) "
    if "schema" in options:
        options = {**options, "schema": str(write(tmp_path / "t.sql", created))}
    else:
        postgres_target.execute(created + by)
    if way == "rows":
        postgres_target.execute("INSERT INTO t VALUES (0, '[5,6)', '[2020-01-05,2020-01-09)')")
    good = ['1,"[5,6)","[2020-01-10,2020-01-20)"\n', '2,"[5,6)","[2020-01-10,2020-02-20)"\n']
    written = [*good, '2,"[5,6)","[2020-01-10,2020-03-20)"\n']
    path = write(tmp_path / "in.csv", "".join(written))
    options = {**options, "format": "csv", "header": "no"}
    error = blamed(postgres_target, path, **options)
    check(error, path, written, 2, "23503")
    assert "load the referenced table first" in (error.hint or "")
    skip = {"on_error": "skip", "max_rejects": 1, "rejects": tmp_path / "bad.csv"}
    result = tipple.load(write(tmp_path / "good.csv", "".join(good)), into=postgres_target.url, table="t", **options)
    assert (result.strategy, result.rows) == (strategy, 2)
    assert set(postgres_target.rows("SELECT convalidated FROM pg_constraint WHERE conname = 'f'")) == {(True,)}
    if way in ("empty", "replace", "in place", "partitions"):
        result = tipple.load(path, into=postgres_target.url, table="t", **options, **skip)
        assert (result.rows, (tmp_path / "bad.csv").read_text()) == (2, written[2])


def test_a_key_that_is_spelled_otherwise(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The record is not found by what the server says; what to do is said all the same."""
    postgres_target.execute(
        "CREATE TABLE p (k int4range PRIMARY KEY); CREATE TABLE t (id integer, k int4range REFERENCES p)"
    )
    path = write(tmp_path / "in.csv", '1,"[5,5]"\n')
    with pytest.raises(tipple.TippleError, match="23503") as caught:
        tipple.load(path, into=postgres_target.url, table="t", format="csv", header="no")
    assert "with --on-error skip it is named" in (caught.value.hint or "")
    error = blamed(postgres_target, path, format="csv", header="no", on_error="skip", rejects=tmp_path / "bad")
    check(error, path, ['1,"[5,5]"\n'], 0, "23503")


KEYS = {
    "text with commas": ("a text, b text", "UNIQUE (a, b)", '"x, y","(z)=(1), 2"'),
    "odd names": ('"a, b" integer, "C""d" text', 'UNIQUE ("C""d", "a, b")', "7,seven"),
    "padded": ("a char(10), b varchar(5)", "UNIQUE (a)", "ab,x"),
    "numbers": ("a numeric(12,3), b numeric", "UNIQUE (b, a)", "1.5,2.50"),
    "times": ("a timestamptz, b date", "UNIQUE (a, b)", "2020-02-03 04:05:06+02,2020-01-01"),
    "others": ("a uuid, b boolean", "UNIQUE (a, b)", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11,yes"),
    "floats": ("a double precision, b bigint", "UNIQUE (a)", "0.1,3"),
    "included": ("a integer, b integer", "UNIQUE (a) INCLUDE (b)", "3,4"),
    "nulls": ("a integer, b integer", "UNIQUE NULLS NOT DISTINCT (a)", ",4"),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_all_kinds(postgres_target: PostgresTarget, tmp_path: Path, name: str) -> None:
    columns, key, record = KEYS[name]
    postgres_target.execute(f"CREATE TABLE t ({columns}, {key})")
    others = {
        "text with commas": "x,y",
        "odd names": "1,x",
        "padded": "a,x",
        "numbers": "1,1",
        "times": "2020-02-03 04:05:06+01,2020-01-01",
        "others": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12,no",
        "floats": "0.25,3",
        "included": "4,3",
        "nulls": "4,3",
    }
    written = [f"{others[name]}\n", f"{record}\n", f"{record}\n"]
    path = write(tmp_path / "in.csv", "".join(written))
    if name == "nulls":
        # The server writes a NULL as the text `null`, which is no integer: its own words have to do.
        with pytest.raises(tipple.TippleError, match="is duplicated"):
            tipple.load(str(path), into=postgres_target.url, table="t")
        return
    error = blamed(postgres_target, path)
    check(error, path, written, 2, "23505")
    assert "record 2 has the same key" in error.reason


BOUNDS = "PARTITION BY RANGE (a); CREATE TABLE p0 PARTITION OF t FOR VALUES FROM (0) TO (10);"
BOUNDS += "CREATE TABLE p1 PARTITION OF t FOR VALUES FROM (10) TO (20);"
UNSURE = {
    "a part of the rows": ("(a integer, b text); CREATE UNIQUE INDEX ON t (b) WHERE a > 1", "3,x 2,y 1,x 4,x"),
    "one partition": (f"(a integer, b text) {BOUNDS} CREATE UNIQUE INDEX ON p1 (b)", "11,x 1,x 2,x 12,x"),
    "a partition's foreign key": (
        f"(a integer, b integer) {BOUNDS} ALTER TABLE p1 ADD FOREIGN KEY (b) REFERENCES r",
        "1,9 11,1 12,9",
    ),
    "numeric": ("(a integer, b numeric UNIQUE)", "1,1.0 2,5 3,1.00"),
    "float": ("(a integer, b float8 UNIQUE)", "1,0 2,5 3,-0"),
    "jsonb": ("(a integer, b jsonb UNIQUE)", "1,1.0 2,5 3,1.00"),
    "interval": ("(a integer, b interval UNIQUE)", "1,P1D 2,P5D 3,PT24H"),
    "replaced": ("(a integer, b numeric UNIQUE); INSERT INTO t VALUES (0, 1.0)", "1,1.0 2,5 3,1.00"),
    "ranges": ("(a integer, b int4range, EXCLUDE USING gist (b WITH &&))", '1,"[1,5)" 2,"[3,8)"'),
    "others than its like": (
        "(a integer, b int4range, EXCLUDE USING gist (b WITH -|-))",
        '1,"[1,5)" 2,"[1,5)" 3,"[5,8)"',
    ),
}


@pytest.mark.parametrize("name", UNSURE)
def test_no_record_that_may_not_be_to_blame(postgres_target: PostgresTarget, tmp_path: Path, name: str) -> None:
    """A record with the key is one that INSERT takes: the server's words have to do. Skipping finds the right one."""
    columns, data = UNSURE[name]
    postgres_target.execute(
        f"CREATE TABLE r (k integer PRIMARY KEY); INSERT INTO r VALUES (1); CREATE TABLE t {columns}"
    )
    written = [f"{record}\n" for record in data.split(" ")]
    path = write(tmp_path / "in.csv", "".join(written))
    options: dict[str, Any] = {"format": "csv", "header": "no", "mode": "replace" if name == "replaced" else "append"}
    with pytest.raises(tipple.TippleError) as caught:
        tipple.load(path, into=postgres_target.url, table="t", **options)
    assert not isinstance(caught.value, tipple.BadRecord)
    assert "with --on-error skip it is named" in (caught.value.hint or "")
    error = blamed(postgres_target, path, **options, on_error="skip", rejects=tmp_path / "bad")
    check(error, path, written, len(written) - 1, str(error.sqlstate))


SURE = {
    "spelled otherwise": ("numeric UNIQUE", "1.00", "2,5 3,1.0"),
    "ranges": ("int4range, EXCLUDE USING gist (b WITH &&)", "[4,6)", '2,"[7,8)" 3,"[1,5)"'),
}


@pytest.mark.parametrize("name", SURE)
def test_a_row_of_the_table(postgres_target: PostgresTarget, tmp_path: Path, name: str) -> None:
    """A row that was there is as good a proof as another record, however the server compares the two."""
    column, there, data = SURE[name]
    postgres_target.execute(f"CREATE TABLE t (a integer, b {column})")
    postgres_target.execute(f"INSERT INTO t VALUES (1, '{there}')")
    written = [f"{record}\n" for record in data.split(" ")]
    path = write(tmp_path / "in.csv", "".join(written))
    options: dict[str, Any] = {"format": "csv", "header": "no"}
    for indexes in ("rebuild", "keep"):
        error = blamed(postgres_target, path, **options, indexes=indexes)
        assert (error.record_number, error.text) == (2, written[1].rstrip())


def test_values_that_can_be_divided_otherwise(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Of two keys that the server would tell alike, a record of each repeats nothing."""
    postgres_target.execute("CREATE TABLE t (a text, b text, UNIQUE (a, b))")
    written = ['"x","y, z"\n', '"x, y","z"\n', "1,2\n", '"x, y","z"\n']
    path = write(tmp_path / "in.csv", "".join(written))
    error = blamed(postgres_target, path, format="csv", header="no")
    check(error, path, written, 3, "23505")
    assert "record 2 has the same key" in error.reason


def test_an_expression(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """What is no column has no values to look for: the server's own words, in names that a user knows."""
    postgres_target.execute("CREATE TABLE t (id integer, name text); CREATE UNIQUE INDEX lowered ON t (lower(name))")
    path = write(tmp_path / "in.csv", "1,a\n2,A\n")
    with pytest.raises(tipple.TippleError) as caught:
        tipple.load(str(path), into=postgres_target.url, table="t")
    assert not isinstance(caught.value, tipple.BadRecord)
    assert '"lowered"' in str(caught.value)
    assert "lower(name))=(a)" in str(caught.value)
    assert postgres_target.leftovers("t") == set()


def test_packed(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (id integer UNIQUE, name text)")
    written = records({2500: "77,again"})
    path = tmp_path / "in.csv.gz"
    path.write_bytes(gzip.compress("".join(written).encode()))
    error = blamed(postgres_target, path)
    check(error, path, written, 2500, "23505")


def test_columnar(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    postgres_target.execute("CREATE TABLE t (id integer UNIQUE, name text)")
    path = tmp_path / "in.parquet"
    query = "SELECT (CASE WHEN i = 2500 THEN 77 ELSE i END)::INTEGER AS id, 'name ' || i AS name FROM range(3000) r(i)"
    duckdb.sql(f"COPY ({query}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
    error = blamed(postgres_target, path)
    assert (error.file, error.record_number, error.text) == (str(path), 2501, "77,name 2500")
    assert "record 78 has the same key" in error.reason


def test_what_cannot_be_read_again(postgres_target: PostgresTarget) -> None:
    postgres_target.execute("CREATE TABLE t (id integer UNIQUE, name text)")
    done = load_stdin(postgres_target, "".join(records({2500: "77,again"})).encode())
    said = done.stderr.decode()
    assert done.returncode == 1
    assert '"t_id_key"' in said
    assert "(id)=(77)" in said
    assert "stage_" not in said
    assert postgres_target.count("t") == 0
    assert postgres_target.leftovers("t") == set()


def test_other_ways(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Without the ledger, and not in one commit."""
    postgres_target.execute(
        "CREATE TABLE p (id integer PRIMARY KEY); CREATE TABLE t (id integer REFERENCES p, name text)"
    )
    postgres_target.execute("INSERT INTO p VALUES (1)")
    written = ["1,x\n", "2,y\n"]
    path = write(tmp_path / "in.csv", "".join(written))
    for options in ({"ledger": False}, {"atomic": False}):
        with pytest.raises(tipple.BadRecord) as caught:
            tipple.load(str(path), into=postgres_target.url, table="t", **options)
        assert (caught.value.record_number, caught.value.text) == (2, "2,y")
