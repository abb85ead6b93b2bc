"""Options of COPY that Tipple has too: the same file means the same rows, or both refuse it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from loading import load_text
from targets import PostgresTarget
from tipple import _core

FIELDS = ["NA", '"NA"', '""', "", "x", '"N""A"', '"N"A']
FORCED = list(itertools.product([None, "a", "a,b"], [None, "b", "a,b"]))


@pytest.mark.parametrize(("force_null", "force_not_null"), FORCED)
def test_forced_nulls(
    postgres_target: PostgresTarget, tmp_path: Path, force_null: str | None, force_not_null: str | None
) -> None:
    data = "".join(f"{first},{second}\n" for first, second in itertools.product(FIELDS, FIELDS)).encode()
    for null in ("NA", ""):
        postgres_target.execute("DROP TABLE IF EXISTS t, twin")
        postgres_target.execute("CREATE TABLE t (a text, b text); CREATE TABLE twin (LIKE t)")
        options = f"FORMAT csv, NULL '{null}'"
        options += f", FORCE_NULL ({force_null})" if force_null else ""
        options += f", FORCE_NOT_NULL ({force_not_null})" if force_not_null else ""
        assert postgres_target.copy_in(f"COPY twin FROM STDIN ({options})", data) is None
        load_text(
            postgres_target,
            tmp_path / "in.csv",
            data,
            null=null,
            force_null="*" if force_null == "a,b" else force_null,
            force_not_null=force_not_null,
            header="no",
            restart=True,
        )
        for one, other in (("t", "twin"), ("twin", "t")):
            assert postgres_target.rows(f"SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other}") == []


SINGLE_BYTE = [
    *(f"LATIN{number}" for number in range(1, 11)),
    *(f"WIN125{number}" for number in range(9)),
    "WIN866",
    "WIN874",
    "KOI8R",
    "KOI8U",
    *(f"ISO_8859_{number}" for number in range(5, 9)),
]


@pytest.mark.parametrize("encoding", SINGLE_BYTE)
def test_every_byte(postgres_target: PostgresTarget, tmp_path: Path, encoding: str) -> None:
    """What a byte of a single-byte encoding means, PostgreSQL's conversion says; or both have nothing to say."""
    postgres_target.execute(
        "CREATE FUNCTION meaning(byte int, encoding name) RETURNS text LANGUAGE plpgsql AS $$ BEGIN "
        "RETURN convert_from(set_byte('\\x00', 0, byte), encoding); EXCEPTION WHEN OTHERS THEN RETURN NULL; END $$"
    )
    query = f"SELECT b, meaning(b, '{encoding}') FROM generate_series(1, 255) b"
    dialect = json.dumps(
        {
            "family": "csv",
            "delimiter": 44,
            "quote": 34,
            "escape": 34,
            "null_text": "",
            "trailing_delimiter": False,
            "line_end": "lf",
        }
    )
    different = []
    for byte, expected in postgres_target.rows(query):
        path = tmp_path / "byte"
        path.write_bytes(bytes([byte]))
        status = path.stat()
        source = {
            "path": str(path),
            "size": 1,
            "mtime_ns": status.st_mtime_ns,
            "form": {"encoding": encoding},
        }
        found = _core.read_head(json.dumps(source), dialect, 100).decode()
        if found != (expected or ""):
            different.append((byte, expected, found))
    assert different == []


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "EUC_JP", "SJIS", "BIG5", "GBK", "UHC", "KOI8R"])
def test_encoding(postgres_target: PostgresTarget, tmp_path: Path, encoding: str) -> None:
    codec = {"EUC_JP": "euc_jp", "SJIS": "shift_jis", "UHC": "cp949", "WIN1252": "cp1252", "KOI8R": "koi8_r"}
    text = {"LATIN1": "éÿ", "WIN1252": "€„“", "KOI8R": "Привет"}.get(
        encoding, "漢字" if encoding != "UHC" else "한글漢字"
    )
    data = f'1,"{text}\n,"\n2,\n'.encode(codec.get(encoding, encoding))
    postgres_target.execute("CREATE TABLE t (a int, b text); CREATE TABLE twin (LIKE t)")
    assert postgres_target.copy_in(f"COPY twin FROM STDIN (FORMAT csv, ENCODING '{encoding}')", data) is None
    load_text(postgres_target, tmp_path / "in.csv", data, encoding=encoding, header="no")
    assert postgres_target.sorted_rows("t") == postgres_target.sorted_rows("twin")
