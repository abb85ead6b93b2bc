"""Indexes that are built after a load, several at once: that they are, how memory is divided, what is shown of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import tipple
from loading import load_text_here as load_text
from targets import PostgresTarget, write
from tipple.engines.postgresql.indexes import LEAST_MEMORY_BYTES

WAITING = """
CREATE SEQUENCE one; CREATE SEQUENCE two; CREATE SEQUENCE shown; CREATE TABLE t (a integer);
CREATE FUNCTION wait(me text, other text, a integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE came boolean := a < 9999;
BEGIN
    IF came THEN RETURN a; END IF;
    -- What is said by a sequence is seen by everybody at once. ANALYZE calls this too, when both are built.
    EXECUTE format('SELECT setval(%1$L, pg_size_bytes(current_setting(''maintenance_work_mem''))) '
                   'FROM %1$s WHERE NOT is_called', me);
    FOR turn IN 1 .. 2000 LOOP
        EXECUTE format('SELECT s.is_called AND o.is_called FROM public.shown s, %s o', other) INTO came;
        EXIT WHEN came;
        PERFORM pg_sleep(0.01);
    END LOOP;
    IF NOT came THEN RAISE 'nobody builds %, or shows how far it is', other; END IF;
    RETURN a;
END $$;
CREATE INDEX ON t (wait('public.one', 'public.two', a));
CREATE INDEX ON t (wait('public.two', 'public.one', a));
"""


def test_side_by_side(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """One index waits for the other, and both for the display to know of their blocks; they divide the memory."""
    postgres_target.execute(WAITING)
    path = write(tmp_path / "in.csv", "".join(f"{n}\n" for n in range(10_000)))
    shown: list[tuple[int, int]] = []

    def look(snapshot: dict[str, Any]) -> None:
        if snapshot["phase"] == "index" and "bytes_done" in snapshot:
            shown.append((snapshot["bytes_done"], snapshot["bytes_total"]))
            if 0 < snapshot["bytes_done"] < snapshot["bytes_total"]:
                postgres_target.rows("SELECT setval('shown', 1)")

    report = tipple.load(path, into=postgres_target.url, table="t", header="no", jobs=2, progress=look)
    assert report.strategy == "swap"
    size = postgres_target.value("SELECT pg_relation_size('t')")
    assert {total for _, total in shown} == {2 * size}
    memory = [postgres_target.value(f"SELECT last_value FROM {name}") for name in ("one", "two")]
    assert memory == [LEAST_MEMORY_BYTES // 2] * 2


def test_a_key_is_made_of_its_index(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The index is built beside others; only to attach it is the table locked."""
    postgres_target.execute('CREATE TABLE t (a integer CONSTRAINT "made of it" PRIMARY KEY, b integer UNIQUE)')
    load_text(postgres_target, tmp_path / "in.csv", "1,1\n2,2\n", jobs=2)
    statements = postgres_target.server.log_text().rpartition('CONSTRAINT "made of it"')[2]
    (own,) = re.findall(r'ALTER INDEX "public"."(\w+)" RENAME TO "made of it"', statements)
    built = re.search(f'CREATE UNIQUE INDEX .*"{own}" ON .*', statements)
    attached = re.search(f'ADD CONSTRAINT "{own}" PRIMARY KEY USING INDEX "{own}"', statements)
    assert built is not None
    assert attached is not None
    assert built.start() < attached.start()
