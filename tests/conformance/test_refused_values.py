"""What COPY refuses before, or while, it reads a value is refused here too, and the record is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from loading import load
from targets import PostgresTarget, write

HALVES = [b"a\\303\xa9b", b"a\xc3\\251b", b"\xe2\\202\xac", b"\\xe2\x82\\xac"]
"""Characters of which a part stands there as it is and a part as an escape."""


@pytest.mark.parametrize("path", ["binary", "text"])
@pytest.mark.parametrize("half", HALVES, ids=repr)
def test_half_a_character_is_none(postgres_target: PostgresTarget, tmp_path: Path, half: bytes, path: str) -> None:
    """COPY checks the line before it removes backslashes; a whole character may be written by escapes."""
    postgres_target.execute("CREATE TABLE t (i integer, v text)")
    file = tmp_path / "in.txt"
    file.write_bytes(b"1\tx\n2\t" + half + b"\n3\t\\303\\251\n")
    options = {"format": "text", "header": "no", "write_path": path}
    run = load(postgres_target, file, **options, check=1)
    assert "record    2," in run.stderr
    assert "22021" in run.stderr
    load(postgres_target, file, **options, on_error="skip", max_rejects=1, rejects=tmp_path / "bad", check=3)
    assert postgres_target.sorted_rows("t") == [(1, "x"), (3, "é")]


def test_too_many_dimensions(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """The code is that of rows that are too long, which are stored by batches: but a value is one record's."""
    postgres_target.execute("CREATE TABLE t (k integer, a integer[])")
    path = write(tmp_path / "in.csv", '1,{1}\n2,"{{{{{{{1}}}}}}}"\n3,{3}\n')
    run = load(postgres_target, path, header="no", check=1)
    assert "record    2, which begins at byte 6" in run.stderr
    assert "54000" in run.stderr
    assert "stage_" not in run.stderr
    run = load(postgres_target, path, header="no", on_error="skip", max_rejects=1, rejects=tmp_path / "bad", check=3)
    assert run.summary is not None
    assert not any("more bytes than a record may have" in note for note in run.summary["notes"])
    assert postgres_target.rows("SELECT k FROM t ORDER BY k") == [(1,), (3,)]
