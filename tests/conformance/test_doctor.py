"""`tipple doctor`: what would slow a load down or break it, with effect and remedy; nothing is changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tipple
from command import Run, run_tipple
from loading import load, load_here
from servers.extension import extension_missing_reason, install_extension
from servers.postgres import PostgresServer, scratch
from targets import DuckdbTarget, PostgresTarget, Target, write

ORDER = ["broken", "slow", "note", "ok"]


def doctor(target: Target | str, *words: object, check: bool | int = False) -> Run:
    url = target if isinstance(target, str) else target.url
    return run_tipple("doctor", url, *words, check=check)


def findings(target: Target | str, *words: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(doctor(target, "--json", *words).stdout)
    return found


def find(found: list[dict[str, Any]], subject: str) -> dict[str, Any]:
    return next(finding for finding in found if finding["subject"] == subject)


def test_every_finding_helps(engine_target: Target) -> None:
    """The worst first; whatever is not well has an effect, and what can be mended a remedy."""
    engine_target.execute("CREATE TABLE t (a integer PRIMARY KEY)")
    before = engine_target.tables()
    found = findings(engine_target, "--table", "t")
    assert [ORDER.index(finding["level"]) for finding in found] == sorted(ORDER.index(f["level"]) for f in found)
    for finding in found:
        assert finding["found"]
        if finding["level"] in ("broken", "slow"):
            assert finding["effect"], finding
            assert finding["remedy"], finding
    assert find(found, "version")["level"] == "ok"
    assert any("t" in finding["subject"] and finding["level"] == "slow" for finding in found), "the key is not told"
    text = doctor(engine_target, "--table", "t").stdout
    for finding in found:
        assert finding["subject"].split("/")[0] in text
    assert engine_target.tables() == before


def test_a_table_that_is_not_there(engine_target: Target) -> None:
    engine_target.execute("CREATE TABLE u (a integer)")
    found = findings(engine_target, "--table", "nowhere")
    assert any("does not exist" in finding["found"] for finding in found)


@pytest.mark.parametrize("table", ["nowhere.t", "tipple.job", "pg_catalog.pg_class", "information_schema.tables"])
def test_a_table_that_a_load_refuses(engine_target: Target, tmp_path: Path, table: str) -> None:
    """In the load's words, and with its remedy alone."""
    engine_target.execute("CREATE TABLE u (a integer)")
    path = write(tmp_path / "in.csv", "1\n")
    load_here(engine_target, path, table="u")
    refusal = load_here(engine_target, path, table=table, schema="auto", header="no", check=2).stderr
    run = doctor(engine_target, "--table", table, "--json", check=1)
    told = [finding for finding in json.loads(run.stdout) if finding["subject"].startswith("table")]
    assert [(finding["level"], finding["effect"]) for finding in told] == [("broken", "the load is refused")]
    assert f"tipple: {told[0]['found']}\n  hint: {told[0]['remedy']}" == refusal


def test_a_schema_where_the_role_may_make_no_table(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    server, name = postgres_target.server, postgres_target.database
    server.execute("CREATE SCHEMA closed; GRANT USAGE ON SCHEMA closed TO PUBLIC", name)
    told = find(findings(postgres_target, "--table", "closed.t"), "table closed.t")
    assert (told["level"], told["remedy"]) == ("broken", 'as its owner: GRANT CREATE ON SCHEMA "closed" TO "loader";')
    assert doctor(postgres_target, "--table", "closed.t").exit_code == 1


def test_a_table_of_the_system_without_its_schema(postgres_target: PostgresTarget) -> None:
    told = find(findings(postgres_target, "--table", "pg_class"), "table pg_class")
    assert (told["level"], told["remedy"]) == ("broken", "name another schema")


def test_a_view_in_the_place_of_a_table(engine_target: Target) -> None:
    engine_target.execute("CREATE VIEW v AS SELECT 1 AS a")
    assert find(findings(engine_target, "--table", "v"), "table v")["level"] == "broken"


def test_no_target(engine_target: Target) -> None:
    url = engine_target.url
    assert doctor(url.replace(".duckdb", ".nothing").replace("loader:", "nobody:"), check=2).stderr.strip()


def test_sizes(engine_target: Target) -> None:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    engine_target.execute("INSERT INTO t SELECT i, 'x' || i FROM generate_series(1, 200000) s(i)")
    if isinstance(engine_target, PostgresTarget):
        engine_target.execute("CREATE INDEX t_a ON t (a); ANALYZE t")
    else:
        engine_target.execute("CHECKPOINT")
    sizes = json.loads(doctor(engine_target, "--sizes", "--json", check=0).stdout)
    table = next(size for size in sizes if size["kind"] == "table" and size["name"].endswith("t"))
    assert table["rows"] == 200_000
    assert table["pages"] > 0
    assert table["bytes"] >= table["pages"] * 4096
    assert "200,000" in doctor(engine_target, "--sizes", "--table", "t", check=0).stdout
    assert "there is no table nope" in doctor(engine_target, "--sizes", "--table", "nope", check=2).stderr
    assert "looks at no source such as t.csv" in doctor(engine_target, "t.csv", "--sizes", check=2).stderr


PARTITIONED = """
CREATE TABLE p (a integer, b text DEFAULT 'x', PRIMARY KEY (a, b)) PARTITION BY RANGE (a);
CREATE TABLE p_late PARTITION OF p FOR VALUES FROM (100) TO (2000);
CREATE TABLE p_early PARTITION OF p FOR VALUES FROM (MINVALUE) TO (9);
CREATE TABLE p_mid PARTITION OF p FOR VALUES FROM (9) TO (100) PARTITION BY LIST (b);
CREATE TABLE p_x PARTITION OF p_mid FOR VALUES IN ('x');
CREATE TABLE p_rest PARTITION OF p DEFAULT;
CREATE TABLE d (at date, note text) PARTITION BY RANGE (at, note);
CREATE TABLE d1 PARTITION OF d FOR VALUES FROM ('1993-01-01', 'it''s (') TO ('1994-01-01', ') TO (');
CREATE TABLE other (a integer);
INSERT INTO p SELECT i FROM generate_series(1, 1000) i;
ANALYZE;
"""


def test_partitions_and_indexes(postgres_target: PostgresTarget) -> None:
    """Bounds, pages, bytes and rows of each, in the order of the bounds; tables of partitions have all of theirs."""
    postgres_target.execute(PARTITIONED)
    rows = json.loads(doctor(postgres_target, "--sizes", "--table", "p", "--json").stdout)
    assert [row["name"] for row in rows if row["kind"] != "index"] == [
        "p", "p_early", "p_mid", "p_x", "p_late", "p_rest"
    ]  # fmt: skip
    sizes = {size["name"]: size for size in rows}
    assert sizes["p"]["kind"] == "partitioned table"
    assert sizes["p"]["rows"] == 1000
    assert sizes["p"]["pages"] == sum(sizes[name]["pages"] for name in ("p_early", "p_x", "p_late")) > 2
    assert (sizes["p_x"]["kind"], sizes["p_x"]["parent"], sizes["p_x"]["rows"]) == ("partition", "p_mid", 91)
    bounds = {name: (sizes[name]["lower_bound"], sizes[name]["upper_bound"]) for name in sizes}
    assert bounds["p_early"] == ("MINVALUE", "9")
    assert bounds["p_late"] == ("100", "2000")
    assert bounds["p_x"] == (None, None)
    assert sizes["p_x"]["bound"] == "FOR VALUES IN ('x')"
    assert sizes["p_late_pkey"]["parent"] == "p_late"
    assert "other" not in sizes
    told = findings(postgres_target, "--table", "p")
    assert not any("one session" in finding["effect"] for finding in told), "partitions are loaded apart"
    text = doctor(postgres_target, "--sizes").stdout
    assert "\n    p_x " in text, "indented below p_mid"
    of_one = json.loads(doctor(postgres_target, "--sizes", "--table", "p_mid", "--json").stdout)
    assert [row["name"] for row in of_one if row["kind"] != "index"] == ["p_mid", "p_x"]
    assert "'1993-01-01', 'it''s ('" in text
    assert "'1994-01-01', ') TO ('" in text


def test_storage_of_a_small_table(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a integer)")
    done = load(engine_target, write(tmp_path / "in.csv", "1\n2\n"))
    assert done.summary is not None
    assert [size["pages"] for size in done.summary["storage"]] == [1]


def test_storage_after_a_load(engine_target: Target, tmp_path: Path) -> None:
    """The summary always has it; it is printed where there is more than the table itself."""
    engine_target.execute("CREATE TABLE t (a integer)")
    done = load(engine_target, write(tmp_path / "in.csv", "".join(f"{i}\n" for i in range(200_000))))
    assert done.summary is not None
    (size,) = done.summary["storage"]
    assert (size["kind"], size["pages"] > 0, size["bytes"] > 100_000) == ("table", True, True)
    assert "Pages" not in done.stdout
    planned = load(engine_target, tmp_path / "in.csv", dry_run=True)
    assert planned.summary is not None
    assert planned.summary["storage"] == []
    if isinstance(engine_target, PostgresTarget):
        engine_target.execute("CREATE INDEX t_a ON t (a)")
        done = load(engine_target, write(tmp_path / "more.csv", "1\n2\n"))
        assert done.summary is not None
        assert [(size["name"], size["rows"]) for size in done.summary["storage"]] == [("t", 200_000), ("t_a", 200_000)]
        assert "t_a" in done.stdout


def test_what_the_server_is_told_to_do(postgres_target: PostgresTarget) -> None:
    """The servers of the tests give up safety for speed, and their role may not look everywhere."""
    run = doctor(postgres_target, "--json")
    found = json.loads(run.stdout)
    assert run.exit_code == 1
    assert find(found, "fsync")["level"] == "broken"
    assert "ALTER SYSTEM" in find(found, "fsync")["remedy"]
    assert find(found, "shared_buffers")["level"] == "slow"


@pytest.mark.parametrize(
    ("setup", "level", "said"),
    [
        ("CREATE TABLE t (a integer); INSERT INTO t VALUES (1)", "slow", "rows already"),
        ("CREATE TABLE t (a integer); CREATE MATERIALIZED VIEW v AS SELECT * FROM t", "slow", "depend on it"),
        ("CREATE TABLE t (a integer UNIQUE)", "slow", "1 index (8.19 kB): t_a_key"),
        (
            "CREATE TABLE t (a integer); CREATE TRIGGER stamp BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION "
            "suppress_redundant_updates_trigger()",
            "slow",
            "1 trigger: stamp",
        ),
        ("CREATE TABLE t (a integer); CREATE PUBLICATION out FOR TABLE t", "slow", "1 publication: out"),
        (
            "CREATE TABLE p (a integer PRIMARY KEY); CREATE TABLE t (a integer REFERENCES p)",
            "slow",
            "1 foreign key: t_a_fkey",
        ),
        ("CREATE UNLOGGED TABLE t (a integer)", "note", "t"),
        (
            "CREATE TABLE t (a integer) PARTITION BY LIST (a); ALTER TABLE t ENABLE ROW LEVEL SECURITY",
            "slow",
            "it has row",
        ),
        (
            "CREATE TABLE t (a integer, b integer) PARTITION BY LIST (a); CREATE TABLE t1 PARTITION OF t DEFAULT; "
            "ALTER TABLE t1 ALTER b SET DEFAULT 3",
            "slow",
            "its partition t1 has a default",
        ),
    ],
)
def test_tables(postgres_target: PostgresTarget, setup: str, level: str, said: str) -> None:
    postgres_target.execute(setup)
    found = findings(postgres_target, "--table", "t")
    assert any(finding["level"] == level and said in finding["found"] for finding in found), found


def test_unlogged_tables(postgres_target: PostgresTarget) -> None:
    """The remedy is there to be pasted."""
    postgres_target.execute('CREATE UNLOGGED TABLE "T 1" (a integer); CREATE UNLOGGED TABLE u (a integer)')
    remedy = find(findings(postgres_target), "unlogged tables")["remedy"]
    assert remedy == 'where their rows matter: ALTER TABLE "T 1" SET LOGGED; ALTER TABLE u SET LOGGED;'


def test_many_unlogged_tables(postgres_target: PostgresTarget) -> None:
    """Those that are not told are counted."""
    postgres_target.execute("; ".join(f"CREATE UNLOGGED TABLE u{n} (a integer)" for n in range(8)))
    found = find(findings(postgres_target), "unlogged tables")
    assert found["found"] == "u0, u1, u2, u3, u4 and 3 more"
    assert found["remedy"].endswith("ALTER TABLE u4 SET LOGGED; and so for 3 more")


def test_rows_of_an_index_that_nobody_has_counted(postgres_target: PostgresTarget) -> None:
    """They are as unknown as its table's."""
    postgres_target.execute(
        "CREATE TABLE k (a integer PRIMARY KEY) WITH (autovacuum_enabled = off); "
        "INSERT INTO k SELECT generate_series(1, 1000)"
    )
    for rows, then in ((None, "ANALYZE k"), (1000, "SELECT 1")):
        sizes = json.loads(doctor(postgres_target, "--sizes", "--table", "k", "--json").stdout)
        assert {size["name"]: size["rows"] for size in sizes} == {"k": rows, "k_pkey": rows}
        postgres_target.execute(then)


def test_rights(postgres_target: PostgresTarget) -> None:
    server = postgres_target.server
    server.execute(
        "DROP ROLE IF EXISTS doctor_guest; CREATE ROLE doctor_guest LOGIN PASSWORD 'x'; "
        "CREATE TABLE t (a integer PRIMARY KEY); GRANT USAGE ON SCHEMA public TO doctor_guest",
        postgres_target.database,
    )
    try:
        url = f"postgresql://doctor_guest:x@127.0.0.1:{server.port}/{postgres_target.database}"
        found = findings(url, "--table", "t")
        assert "GRANT CREATE ON DATABASE" in find(found, "ledger")["remedy"]
        assert any(finding["level"] == "broken" and "GRANT SELECT, INSERT" in finding["remedy"] for finding in found)
        (of_index,) = [finding["remedy"] for finding in found if "1 index" in finding["found"]]
        assert of_index.startswith("its owner may drop those")
    finally:
        server.execute("DROP OWNED BY doctor_guest; DROP ROLE doctor_guest", postgres_target.database)


def test_what_a_load_would_refuse(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """It is told as the load itself tells it, with the same remedy."""
    server, database = postgres_target.server, postgres_target.database
    postgres_target.execute("CREATE TABLE t (a integer); CREATE VIEW vw AS SELECT * FROM t")
    path = write(tmp_path / "in.csv", "1\n")
    load(postgres_target, path)
    server.execute(
        "DROP ROLE IF EXISTS doctor_guest; CREATE ROLE doctor_guest LOGIN PASSWORD 'x'; CREATE SCHEMA secret; "
        "CREATE TABLE secret.s (a integer); GRANT SELECT, INSERT ON t TO doctor_guest",
        database,
    )
    guest = f"postgresql://doctor_guest:x@127.0.0.1:{server.port}/{database}"
    try:
        for url, name, subject, remedy in [
            (postgres_target.url, "vw", "table vw", "load into the table under it"),
            (guest, "secret.s", "table secret.s", 'GRANT USAGE ON SCHEMA "secret" TO "doctor_guest"'),
            (guest, "t", "ledger", "GRANT USAGE, CREATE ON SCHEMA tipple"),
        ]:
            told = find(findings(url, "--table", name), subject)
            assert told["level"] == "broken"
            assert remedy in told["remedy"]
            refused = load(url, write(tmp_path / "more.csv", "2\n"), table=name, check=2)
            assert told["found"] in refused.stderr
        assert "GRANT USAGE" in doctor(guest, "--sizes", "--table", "secret.s", check=2).stderr
    finally:
        server.execute("DROP OWNED BY doctor_guest; DROP ROLE doctor_guest", database)


def test_a_duckdb_file_that_may_only_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both name the same remedy."""
    target = DuckdbTarget(tmp_path / "my file.duckdb")
    target.execute("CREATE TABLE t (a integer)")
    # Root may write everything.
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    remedy = f"chmod u+w '{target.path}'"
    found = [finding for finding in tipple.examine_target(target.url) if finding.subject == str(target.path)]
    assert [finding.remedy for finding in found] == [remedy]
    with pytest.raises(tipple.ConnectionFailed) as refused:
        tipple.load(write(tmp_path / "in.csv", "1\n"), into=target.url, table="t")
    assert refused.value.hint == remedy


def test_names_in_duckdb_know_no_case(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "t.duckdb")
    target.execute('CREATE TABLE "Orders" (a integer PRIMARY KEY)')
    told = find(findings(target, "--table", "orders"), "table orders")
    assert (told["level"], told["found"]) == ("slow", "1 × PRIMARY KEY")
    (size,) = json.loads(doctor(target, "--sizes", "--json", "--table", "oRDERS", check=0).stdout)
    assert size["name"] == "main.Orders"


def test_a_file_that_somebody_reads(tmp_path: Path) -> None:
    """A load would be refused; who only looks is not."""
    target = DuckdbTarget(tmp_path / "t.duckdb")
    target.execute("CREATE TABLE t (a integer)")
    wait = (
        "import sys, duckdb; kept = duckdb.connect(sys.argv[1], read_only=True); print('open', flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", wait, tmp_path / "t.duckdb"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"open\n"
        told = [finding for finding in findings(target) if f"process {reader.pid}" in finding["found"]]
        assert [finding["level"] for finding in told] == ["broken"]
        assert str(reader.pid) in load(target, write(tmp_path / "in.csv", "1\n"), check=2).stderr
        reader.communicate()
    assert not [finding for finding in findings(target) if "open in process" in finding["found"]]


def test_parquet_files_that_are_gone(tmp_path: Path) -> None:
    target = DuckdbTarget(tmp_path / "t.duckdb")
    schema = write(tmp_path / "s.sql", "CREATE TABLE t (a integer)")
    load(target, write(tmp_path / "in.csv", "1\n"), schema=schema, structure="parquet")
    assert find(findings(target, "--table", "t"), "table t")["level"] == "ok"
    (directory,) = (tmp_path / "t.duckdb.tables" / "main.t").iterdir()
    shutil.rmtree(directory)
    told = find(findings(target, "--table", "t"), "table t")
    assert told["level"] == "broken"
    assert str(directory) in told["found"]


def test_the_right_to_create_tables(postgres_target: PostgresTarget) -> None:
    """Other tables take the place of one, or of partitions, in their schema."""
    postgres_target.execute("CREATE TABLE t (a integer); CREATE TABLE p (a integer) PARTITION BY LIST (a)")
    server, database = postgres_target.server, postgres_target.database
    server.execute(
        f'ALTER DATABASE "{database}" OWNER TO postgres; REVOKE CREATE ON SCHEMA public FROM PUBLIC', database
    )
    for table in ("t", "p"):
        told = find(findings(postgres_target, "--table", table), f"table {table}")
        assert told["found"] == "this role may not create tables in the schema public"
    server.execute(told["remedy"].removeprefix("as its owner: "), database)
    assert "may not create tables" not in str(findings(postgres_target, "--table", "t"))


def test_a_slot_that_keeps_nothing(fresh_server: Callable[..., PostgresServer]) -> None:
    """Nobody has read from it yet."""
    server = fresh_server(18, {"wal_level": "replica", "max_wal_senders": "2", "max_replication_slots": "2"})
    target = PostgresTarget(server)
    server.execute("SELECT pg_create_physical_replication_slot('new')")
    assert "replication slot" not in str(findings(target))
    target.close()


def test_a_slot_that_nobody_reads(fresh_server: Callable[..., PostgresServer]) -> None:
    server = fresh_server(18, {"wal_level": "replica", "max_wal_senders": "2", "max_replication_slots": "2"})
    target = PostgresTarget(server)
    server.execute("SELECT pg_create_physical_replication_slot('left_behind', true)")
    assert "left_behind" in find(findings(target), "replication slot left_behind")["remedy"]
    target.close()


def test_units(fresh_server: Callable[..., PostgresServer]) -> None:
    """Settings are compared in their own units, whichever those are; at the limit they are well."""
    server = fresh_server(
        18,
        {
            "max_wal_size": "4GB",
            "checkpoint_timeout": "14min",
            "checkpoint_completion_target": "0.5",
            "shared_buffers": "524280kB",
            "maintenance_work_mem": "256MB",
            "max_worker_processes": "3",
        },
    )
    target = PostgresTarget(server)
    try:
        found = findings(target)
        levels = {
            finding["subject"]: finding["level"]
            for finding in found
            if finding["subject"].startswith(("max_w", "checkpoint", "shared", "maintenance"))
        }
        assert levels == {
            "max_wal_size": "ok",
            "checkpoint_timeout": "slow",
            "checkpoint_completion_target": "slow",
            "shared_buffers": "slow",
            "maintenance_work_mem": "ok",
            "max_worker_processes": "slow",
        }
        assert find(found, "checkpoint_timeout")["found"] == "14min"
        # A tablespace has a disk of its own, and is looked at too.
        place = scratch().new_directory(server.data.parent)
        server.execute(f"CREATE TABLESPACE fast LOCATION '{place}'")
        disks = [finding["subject"] for finding in findings(target) if finding["subject"].startswith("disk")]
        assert f"disk of tablespace fast ({place})" in disks
    finally:
        target.close()


def test_room_for_the_sources(engine_target: Target, tmp_path: Path) -> None:
    """Sources that the disk has no room for are told before a load, by doctor and by the load itself."""
    engine_target.execute("CREATE TABLE t (a integer)")
    huge = tmp_path / "huge.csv"
    with huge.open("wb") as file:
        file.truncate(15 << 40)
    found = findings(engine_target, huge, "--table", "t")
    disk = next(finding for finding in found if finding["subject"].startswith("disk"))
    # A server may hide its directory from us.
    assert disk["level"] == "broken" or "does not tell this role" in disk["found"]
    assert "16.5 TB" in disk["found"]
    small = write(tmp_path / "small.csv", "1\n")
    assert doctor(engine_target, small, "--json", check=False).exit_code in (0, 1)
    assert doctor(engine_target, tmp_path / "none", check=2).stderr


def test_a_load_warns(engine_target: Target, tmp_path: Path) -> None:
    """Once on stderr before it begins, and in the summary's notes; quickly, and it never stops the load."""
    engine_target.execute("CREATE TABLE t (a integer PRIMARY KEY)")
    engine_target.execute("INSERT INTO t VALUES (1)")
    small = load(engine_target, write(tmp_path / "small.csv", "2\n"), progress="plain")
    assert "warning: table" not in small.stderr, "it is not worth it"
    path = write(tmp_path / "in.csv", "".join(f"{number}\n" for number in range(1_000_000, 1_600_000)))
    # PostgreSQL would have a copy of so small a table take its place, which costs no row more.
    done = load(engine_target, path, progress="plain", indexes="keep")
    assert done.summary is not None
    warning = next(note for note in done.summary["notes"] if note.startswith("table "))
    assert "each row is" in warning
    assert done.stderr.count(f"tipple: warning: {warning}") == 1
    again = load(engine_target, path, progress="plain", indexes="keep")
    assert "warning: table" not in again.stderr, "nothing is to be done"
    write(tmp_path / "in2.csv", "3\n")
    silent = load(engine_target, tmp_path / "in2.csv", progress="none")
    assert silent.stderr == ""


def test_the_extension(postgres_target: PostgresTarget) -> None:
    """Whether it is there, in this database, and whether this role may use it."""
    assert "CREATE EXTENSION tipple_direct" in find(findings(postgres_target), "tipple_direct")["remedy"]
    server = postgres_target.server
    reason = extension_missing_reason(server.version)
    if reason is not None:
        pytest.skip(reason)
    install_extension(server.version)
    server.execute("CREATE EXTENSION tipple_direct", postgres_target.database)
    # Roles are the server's, not the database's: other tests have granted it.
    server.execute("REVOKE tipple_direct FROM loader", postgres_target.database)
    closed = find(findings(postgres_target), "tipple_direct")
    assert closed["level"] == "note"
    assert 'GRANT tipple_direct TO "loader"' in closed["remedy"]
    server.execute("GRANT tipple_direct TO loader", postgres_target.database)
    try:
        assert find(findings(postgres_target), "tipple_direct")["level"] == "ok"
        is_new = server.version >= 16
        inherit = "GRANT tipple_direct TO loader WITH INHERIT" if is_new else "ALTER ROLE loader"
        server.execute(f"{inherit} {'FALSE' if is_new else 'NOINHERIT'}")
        remedy = find(findings(postgres_target), "tipple_direct")["remedy"]
        server.execute(remedy.removeprefix("as a superuser: "))
        assert find(findings(postgres_target), "tipple_direct")["level"] == "ok", remedy
    finally:
        server.execute("REVOKE tipple_direct FROM loader", postgres_target.database)


def test_a_publication_for_all_tables(fresh_server: Callable[..., PostgresServer]) -> None:
    server = fresh_server(18)
    target = PostgresTarget(server)
    try:
        server.execute("CREATE PUBLICATION everything FOR ALL TABLES", target.database)
        assert find(findings(target), "publications for all tables")["found"] == "everything"
    finally:
        target.close()
