"""UUIDs of columnar sources in columns that DuckDB casts by itself: they arrive as UUIDs, not as sixteen bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tipple
from targets import DuckdbTarget

FIRST, SECOND = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000001"
CASES = {
    "JSON": ("u", f'"{FIRST}"'),
    "VARCHAR": ("u", FIRST),
    "UUID": ("u", FIRST),
    "VARCHAR[]": ("[u, NULL]", f"[{FIRST}, NULL]"),
    "UUID[]": ("[u, NULL]", f"[{FIRST}, NULL]"),
    "UUID[2]": ("[u, NULL]::UUID[2]", f"[{FIRST}, NULL]"),
    "VARCHAR[][]": ("[[u], [u]]", f"[[{FIRST}], [{FIRST}]]"),
    "STRUCT(n INTEGER, u VARCHAR)": ("{'n': 1, 'u': u}", "{'n': 1, 'u': " + FIRST + "}"),
    "STRUCT(b BLOB, u UUID)": ("{'b': 'x'::BLOB, 'u': u}", "{'b': x, 'u': " + FIRST + "}"),
    "MAP(VARCHAR, VARCHAR)": ("MAP {u: u}", "{" + f"{FIRST}={FIRST}" + "}"),
    "MAP(UUID, VARCHAR[])": ("MAP {u: [u]}", "{" + f"{FIRST}=[{FIRST}]" + "}"),
    "JSON of a list": ("[u]", f'["{FIRST}"]'),
    "JSON of a struct": ("{'u': u}", '{"u":"' + FIRST + '"}'),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("source", ["parquet", "parquet with the writer's schema", "frame"])
def test_they_are_stored_as_what_they_are(tmp_path: Path, case: str, source: str) -> None:
    value, stored = CASES[case]
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute(f"CREATE TABLE t (n integer, v {case.partition(' of ')[0]})")
    path = tmp_path / "in.parquet"
    query = (
        f"SELECT n::INTEGER AS n, CASE WHEN n = 1 THEN {value} END AS v "
        f"FROM (SELECT '{FIRST}'::UUID AS u), range(1, 3) r(n)"
    )
    duckdb.execute(f"COPY ({query}) TO '{path}'")
    rows: Any = path
    if source != "parquet":
        if case == "UUID[2]":
            pytest.skip("pyarrow cannot read an array of fixed length that is NULL")
        rows = as_uuids(pq.read_table(path))
        if source != "frame":
            pq.write_table(rows, path)
            rows = path
    tipple.load(rows, into=target.url, table="t", verify="checksum")
    assert target.rows("SELECT n, v::varchar FROM t ORDER BY n") == [(1, stored), (2, None)]


def as_uuids(table: pa.Table) -> pa.Table:
    """pyarrow itself reads UUIDs within others as bytes."""

    def changed(kind: pa.DataType) -> pa.DataType:
        if kind == pa.binary(16):
            return pa.uuid()
        if pa.types.is_map(kind):
            return pa.map_(changed(kind.key_type), changed(kind.item_type))
        if pa.types.is_list(kind):
            return pa.list_(changed(kind.value_type))
        if pa.types.is_struct(kind):
            return pa.struct([field.with_type(changed(field.type)) for field in kind])
        return kind

    schema = pa.schema([field.with_type(changed(field.type)) for field in table.schema])
    return table.cast(schema)


def test_bytes_beside_them_stay_bytes(tmp_path: Path) -> None:
    """Sixteen bytes that nobody calls a UUID are none."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (v STRUCT(b BLOB, u UUID))")
    uuid = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([None], pa.binary(16)))
    value = pa.StructArray.from_arrays([pa.array([b"0123456789abcdef"], pa.binary(16)), uuid], names=["b", "u"])
    pq.write_table(pa.table({"v": value}), tmp_path / "in.parquet", store_schema=False)
    tipple.load(tmp_path / "in.parquet", into=target.url, table="t")
    assert target.rows("SELECT v.b, v.u FROM t") == [(b"0123456789abcdef", None)]


def test_a_new_table_has_lists_of_them(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    duckdb.execute(f"COPY (SELECT ['{FIRST}'::UUID, '{SECOND}'::UUID] AS v) TO '{path}'")
    target = DuckdbTarget(tmp_path / "x.duckdb")
    tipple.load(path, into=target.url, table="t", schema="auto")
    assert target.rows("SELECT typeof(v), v::varchar FROM t") == [("UUID[]", f"[{FIRST}, {SECOND}]")]
