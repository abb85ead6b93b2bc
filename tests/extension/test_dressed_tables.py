"""Tables with what a warehouse hangs on them, replaced by pages."""

from __future__ import annotations

from pathlib import Path

from extension.pages import assert_sound
from loading import load
from targets import PostgresTarget, write

DRESSED = """
CREATE TABLE t (id integer NOT NULL CONSTRAINT f CHECK (id < 1001), note text, day date) WITH (fillfactor = 60);
CREATE INDEX i ON t (day); CREATE VIEW v AS SELECT id, note FROM t WHERE id > 2; GRANT SELECT ON t TO PUBLIC;
COMMENT ON INDEX i IS 'by day'; CREATE STATISTICS st ON id, day FROM t; ALTER TABLE t ALTER note SET STATISTICS 7;
INSERT INTO t VALUES (999, 'old', NULL);
"""


def test_a_table_with_all_that_a_warehouse_hangs_on_it(target: PostgresTarget, tmp_path: Path) -> None:
    """It is replaced by pages, which are as full as it has them; what violates its CHECK is named."""
    target.execute(DRESSED)
    kept = (
        "SELECT relacl::text, reloptions, obj_description('i'::regclass), pg_get_viewdef('v'::regclass), "
        "'v'::regclass::oid, (SELECT stxname FROM pg_statistic_ext WHERE stxrelid = c.oid), "
        "(SELECT attstattarget FROM pg_attribute WHERE attrelid = c.oid AND attname = 'note'), "
        "(SELECT convalidated FROM pg_constraint WHERE conname = 'f') FROM pg_class c WHERE oid = 't'::regclass"
    )
    before = target.rows(kept)
    lines = [f"{i % 1000 + 1},{'x' * 20},2024-01-01\n" for i in range(20_000)]
    path = write(tmp_path / "in.csv", "".join(lines))
    run = load(target, path, mode="replace", write_path="direct", columns="id,note,day", header="no")
    assert (run.summary["strategy"], run.summary["write_path"]) == ("swap", "direct")
    assert target.rows(kept) == before
    assert (target.count("t"), target.count("v")) == (20_000, 20_000 - 40)
    target.execute("CREATE TABLE full_ (LIKE t); INSERT INTO full_ SELECT * FROM t")
    size = "SELECT pg_relation_size('{}')"
    assert target.value(size.format("t")) > 1.5 * target.value(size.format("full_"))
    assert_sound(target.server, target.database, "t")
    lines[12_345] = "2000,x,2024-01-01\n"
    run = load(target, write(path, "".join(lines)), mode="replace", header="no", check=1)
    assert "record    12,346" in run.stderr
    assert '"f"' in run.stderr
    assert target.rows(kept) == before


def test_rows_that_are_there_come_to_the_pages(target: PostgresTarget, tmp_path: Path) -> None:
    """Pages are for tables without rows; those of the table are stored behind them, and indexes are built over both."""
    target.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, note text); CREATE INDEX t_note ON t (note);"
        "INSERT INTO t SELECT i, repeat('old', i % 900) FROM generate_series(1, 3000) i"
    )
    path = write(tmp_path / "new.csv", "".join(f"{i},new{i}\n" for i in range(3001, 9001)))
    run = load(target, path, indexes="rebuild", verify="checksum")
    assert (run.summary["strategy"], run.summary["write_path"]) == ("swap", "direct")
    assert target.rows("SELECT count(*), sum(id), count(note) FROM t") == [(9000, sum(range(1, 9001)), 9000)]
    assert target.value("SELECT sum(length(note)) FROM t WHERE id <= 3000") == sum(
        3 * (i % 900) for i in range(1, 3001)
    )
    assert_sound(target.server, target.database, "t", mapped=False)
    assert target.leftovers("t") == set()
